/* Statements: one value, one line, in the target's spelling. */
#include "code/emit_parts.h"

#include "base/mutate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fb_emit_index(fb_emitter *e, fb_ix at, bool inner)
{
    fb_str s = {0};
    if (e->replaced) at = fb_ix_substitute(e->nest->pool, at, e->replaced->var, e->replaced->by);
    fb_ix_print(e->nest->pool, at, inner, &s);
    const char *text = fb_arena_strdup(e->arena, fb_str_get(&s));
    fb_str_free(&s);
    return text;
}

const char *fb_emit_spell(fb_emitter *e, const char *spelling, const char *const *operands, int n)
{
    fb_str s = {0};
    for (const char *p = spelling; *p; p++) {
        if (*p != '$' || p[1] < '0' || p[1] >= '0' + n) {
            fb_str_add_n(&s, p, 1);
            continue;
        }
        const char *operand = operands[*++p - '0'];
        bool decrement = *operand == '-' && s.n && s.text[s.n - 1] == '-'; /* -(-1) */
        fb_str_addf(&s, decrement ? "(%s)" : "%s", operand);
    }
    const char *text = fb_arena_strdup(e->arena, fb_str_get(&s));
    fb_str_free(&s);
    return text;
}

/* ---- literals ---- */

static const char *integer_literal(fb_emitter *e, fb_dtype dtype, double value)
{
    if (dtype == FB_BOOL) return value != 0 ? "true" : "false";
    double low = dtype == FB_I32 ? -0x1p31 : -0x1p63, high = dtype == FB_I32 ? 0x1p31 : 0x1p63;
    if (value != value) return "0";
    if (value <= low) return dtype == FB_I32 ? "INT32_MIN" : "INT64_MIN";
    if (value >= high) return dtype == FB_I32 ? "INT32_MAX" : "INT64_MAX";
    return fb_arena_printf(e->arena, "%" PRId64, (int64_t)value);
}

const char *fb_emit_literal(fb_emitter *e, fb_dtype dtype, double value)
{
    if (!fb_dtype_is_float(dtype)) return integer_literal(e, dtype, value);
    bool wide = dtype == FB_F64;
    if (isnan(value)) return e->spell->nan;
    if (isinf(value)) return value > 0 ? e->spell->infinity : fb_arena_printf(e->arena, "-%s", e->spell->infinity);
    char text[64];
    for (int digits = 1; digits <= 17; digits++) { /* the shortest that reads back the same */
        snprintf(text, sizeof text, "%.*g", digits, wide ? value : (double)(float)value);
        double back;
        sscanf(text, "%lf", &back);
        if (wide ? back == value : (float)back == (float)value) break;
    }
    const char *point = strpbrk(text, ".e") ? "" : ".0", *suffix = wide ? "" : "f";
    return fb_arena_printf(e->arena, "%s%s%s", text, point, suffix);
}

/* ---- memory ---- */

static const fb_emit_arg *find_arg(const fb_emitter *e, fb_id storage)
{
    storage = fb_nest_storage(e->nest, storage);
    for (int i = 0; i < e->n_args; i++)
        if (e->args[i].storage == storage) return &e->args[i];
    FB_ASSERT(!"a storage that is no argument of its kernel");
    return NULL;
}

const char *fb_emit_storage(fb_emitter *e, fb_id storage)
{
    return find_arg(e, storage)->name;
}

const char *fb_emit_element(fb_emitter *e, fb_id storage, int table, fb_ix at)
{
    if (table != FB_NONE) {
        if (e->picked) return fb_arena_printf(e->arena, "%s[%s]", e->picked[table], fb_emit_index(e, at, false));
        const char *member = fb_emit_index(e, e->section->member, false);
        const char *form = e->spell->picks ? "%s(%s)[%s]" : "%s[%s][%s]";
        return fb_arena_printf(e->arena, form, e->tables[table], member, fb_emit_index(e, at, false));
    }
    const fb_emit_arg *arg = find_arg(e, storage);
    fb_ix shifted = fb_ix_sub(e->nest->pool, at, fb_ix_const(e->nest->pool, arg->shift));
    return fb_arena_printf(e->arena, "%s[%s]", arg->name, fb_emit_index(e, shifted, false));
}

/* ---- conditions ---- */

/* Smallest and largest value in the loops at hand. */
static void range_here(fb_emitter *e, fb_ix at, int64_t *low, int64_t *high)
{
    int64_t stride;
    fb_ix rest;
    const fb_interior *x = &e->inside;
    if (x->var != FB_NONE) at = fb_interior_at(e->nest->pool, x, at);
    fb_ix_range(e->nest->pool, at, low, high);
    if (x->var == FB_NONE || !fb_ix_stride(e->nest->pool, at, x->var, &stride, &rest) || stride < 1) return;
    fb_ix_range(e->nest->pool, rest, low, high);
    *low += stride * x->from;
    *high += stride * (x->to - 1);
}

/* One test; what the index's range already says is left out. NULL when nothing is left. A data variable's range is a
 * promise that only the test keeps. */
static const char *test(fb_emitter *e, const fb_when *w)
{
    fb_index_pool *pool = e->nest->pool;
    int64_t low, high;
    range_here(e, w->at, &low, &high);
    for (int i = 0; i < e->section->n_data; i++) {
        if (!fb_ix_uses(pool, w->at, e->section->data[i].var)) continue;
        low = INT64_MIN;
        high = INT64_MAX;
    }
    const char *at = fb_emit_index(e, w->at, false);
    bool below = w->low > low, above = w->high <= high;
    if (FB_MUTATE(37, below && above, false))
        return fb_arena_printf(e->arena, "%s >= %" PRId64 " && %s < %" PRId64, at, w->low, at, w->high);
    if (below) return fb_arena_printf(e->arena, "%s >= %" PRId64, at, w->low);
    if (above) return fb_arena_printf(e->arena, "%s < %" PRId64, at, w->high);
    return NULL;
}

const char *fb_emit_tests_at(fb_emitter *e, int when, fb_when (*there)(const void *ctx, fb_when w), const void *ctx)
{
    const char *text = NULL;
    for (int c = when; c != FB_NONE; c = e->nest->whens[c].outer) {
        const fb_when w = there ? there(ctx, e->nest->whens[c]) : e->nest->whens[c];
        const char *t = test(e, &w);
        if (t) text = FB_MUTATE(36, text ? fb_arena_printf(e->arena, "%s && %s", t, text) : t, t);
    }
    return text;
}

const char *fb_emit_tests(fb_emitter *e, int when)
{
    return fb_emit_tests_at(e, when, NULL, NULL);
}

/* ---- expressions ---- */

static bool is_float(fb_dtype d)
{
    return fb_dtype_is_float(d);
}

static const char *convert(fb_emitter *e, const char *x, fb_dtype from, fb_dtype to)
{
    const char *type = e->spell->type[to].value;
    if (strcmp(e->spell->type[from].value, type) == 0) return x;
    if (to == FB_BOOL) return fb_arena_printf(e->arena, "%s != 0", x);
    return fb_arena_printf(e->arena, "(%s)%s", type, x);
}

/* $f, $h and the attributes $v $w first, operands afterwards. */
static const char *resolve_spelling(fb_emitter *e, const char *spelling, const fb_node *n, fb_dtype dtype)
{
    fb_str s = {0};
    for (const char *p = spelling; *p; p++) {
        if (*p == '$' && (p[1] == 'f' || p[1] == 'h')) {
            bool half = fb_dtype_is_half(dtype);
            fb_str_add(&s, dtype == FB_F64 ? "" : half && p[1] == 'h' ? "h" : "f");
            p++;
        } else if (*p == '$' && (p[1] == 'v' || p[1] == 'w')) {
            fb_str_add(&s, fb_emit_literal(e, dtype, p[1] == 'v' ? n->attrs->value : n->attrs->high));
            p++;
        } else {
            fb_str_add_n(&s, p, 1);
        }
    }
    const char *text = fb_arena_strdup(e->arena, fb_str_get(&s));
    fb_str_free(&s);
    return text;
}

/* A float of an integer that was made of a float just before (prelude.h). */
static bool is_whole(const fb_emitter *e, const fb_value *v)
{
    const fb_value *x = &e->section->values[v->args[0]];
    if (!e->spell->whole || !is_float(e->nest->graph->nodes[v->node].dtype) || is_float(x->dtype)) return false;
    return x->n_args == 1 && e->nest->graph->nodes[x->node].op == FB_OP_CAST &&
           is_float(e->section->values[x->args[0]].dtype);
}

/* pow by a small constant, as products, a quotient or a root: a few instructions, where pow is a hundred. sqrt says
 * otherwise than pow of -0, and of the one number below it that has a root. NULL: it is another op, or power. */
static const char *power(const fb_emitter *e, const fb_value *v)
{
    bool constant = v->n_args == 2 && e->section->values[v->args[1]].kind == FB_VALUE_CONST;
    double by = constant ? fb_node_power(e->nest->graph, v->node) : 0;
    return by == 2     ? "$0 * $0"
           : by == 3   ? "$0 * $0 * $0"
           : by == 4   ? "$0 * $0 * ($0 * $0)"
           : by == -1  ? "1 / $0"
           : by == 0.5 ? "$0 == -INFINITY ? INFINITY : sqrt$f($0 + 0)"
                       : NULL;
}

/* Does the op hand on an operand as it is, or turned round? A compiler may take what follows into its branches. */
static bool hands_on(fb_op op)
{
    switch (op) {
    case FB_OP_WHERE:
    case FB_OP_MAXIMUM:
    case FB_OP_MINIMUM:
    case FB_OP_CLAMP:
    case FB_OP_RELU:
    case FB_OP_NEG: return true;
    default: return fb_op_get(op)->cls == FB_CLASS_VIEW;
    }
}

/* Who reads a value, through views and choices: sums of two, and others. */
typedef struct {
    int sums, others;
} readers;

static void count_readers(const fb_graph *g, fb_id node, readers *r)
{
    for (int i = g->user_start[node]; i < g->user_start[node + 1]; i++) {
        fb_op op = g->nodes[g->users[i]].op;
        if (hands_on(op))
            count_readers(g, g->users[i], r);
        else if (op == FB_OP_ADD || op == FB_OP_SUB)
            r->sums++;
        else
            r->others++;
    }
}

/* A product that a fused multiply-add may take in as it is, for one of several readers: they would read two values. */
static bool is_read_apart(const fb_graph *g, fb_id node)
{
    readers r = {0};
    if (g->nodes[node].op != FB_OP_MUL) return false;
    count_readers(g, node, &r);
    return r.sums && r.sums + r.others > 1;
}

/* What stands for the op of a value whose operands are of this dtype. */
static const char *spelling_of(const fb_emitter *e, const fb_value *v, fb_dtype of)
{
    const fb_op_info *op = fb_op_get(e->nest->graph->nodes[v->node].op);
    const char *products = power(e, v);
    if (products) return products;
    if (is_float(of) && e->unfused && e->unfused[v - e->section->values]) return "fb_product$f($0, $1)";
    if (is_float(of) && e->spell->product && is_read_apart(e->nest->graph, v->node)) return e->spell->product;
    return is_float(of) || !op->integer || !*op->integer ? e->spell->op(op) : op->integer;
}

static const char *operation(fb_emitter *e, const fb_value *v)
{
    const fb_node *n = &e->nest->graph->nodes[v->node];
    const char *operands[3];
    for (int i = 0; i < v->n_args; i++) operands[i] = fb_emit_ref(e, v->args[i]);
    fb_dtype of = e->section->values[v->args[n->op == FB_OP_WHERE]].dtype;
    if (n->op == FB_OP_CAST && is_whole(e, v))
        return fb_arena_printf(e->arena, "%s%s(%s, %s)", e->spell->whole, n->dtype == FB_F64 ? "" : "f",
                               convert(e, operands[0], of, n->dtype), of == FB_I32 ? "0x1p31f" : "0x1p63f");
    if (n->op == FB_OP_CAST) return convert(e, operands[0], of, n->dtype);
    if (n->op == FB_OP_DIV && e->divisors && e->divisors[v->args[1]])
        return fb_arena_printf(e->arena, "fb_long_over%s(%s, %s)", of == FB_F32 ? "" : "h", operands[0],
                               e->divisors[v->args[1]]);
    const char *spelling = resolve_spelling(e, spelling_of(e, v, of), n, of);
    return fb_emit_spell(e, spelling, operands, v->n_args);
}

/* Of a step of a reduction that is written out. */
static const char *fold_spelling(fb_emitter *e, const fb_value *v)
{
    if (v->n_args == 1) return fb_arena_printf(e->arena, "$0 / %s", fb_emit_literal(e, v->dtype, v->number));
    const fb_op_info *op = fb_op_get(fb_value_fold_op(e->nest->graph->nodes[v->node].op));
    if (!is_float(v->dtype)) return op->integer;
    return resolve_spelling(e, e->spell->op(op), &e->nest->graph->nodes[v->node], v->dtype);
}

static const char *folded(fb_emitter *e, const fb_value *v)
{
    const char *operands[2] = {0};
    for (int i = 0; i < v->n_args; i++) operands[i] = fb_emit_ref(e, v->args[i]);
    return fb_emit_spell(e, fold_spelling(e, v), operands, v->n_args);
}

static const char *random_element(fb_emitter *e, const fb_value *v)
{
    const fb_attrs *at = e->nest->graph->nodes[v->node].attrs;
    static const char *const functions[FB_DISTS] = {[FB_DIST_UNIFORM] = "fb_random_uniform",
                                                    [FB_DIST_NORMAL] = "fb_random_normal",
                                                    [FB_DIST_INTEGER] = "fb_random_integer"};
    fb_dtype bounds = at->dist == FB_DIST_INTEGER ? FB_I64 : FB_F64;
    const char *low = fb_emit_literal(e, bounds, at->value), *high = fb_emit_literal(e, bounds, at->high);
    if (!functions[at->dist]) return fb_emit_literal(e, v->dtype, at->value);
    /* the source's key, as base/rng.h derives it */
    const char *element = fb_arena_printf(e->arena, "%s(fb_splitmix64(%" PRIu64 "u), %s, %s, %s)", functions[at->dist],
                                          at->seed, fb_emit_index(e, v->at, false), low, high);
    /* a source is rounded to its dtype, as one in memory would be */
    if (fb_dtype_is_half(v->dtype) && bounds == FB_F64)
        element = fb_arena_printf(e->arena, "fb_odd_float(%s)", element);
    element = fb_emit_spell(e, e->spell->type[v->dtype].to, &element, 1);
    element = fb_emit_spell(e, e->spell->type[v->dtype].from, &element, 1);
    return fb_arena_printf(e->arena, "(%s)%s", e->spell->type[v->dtype].value, element);
}

static const char *loaded(fb_emitter *e, const fb_value *v)
{
    const char *element = fb_emit_element(e, v->node, v->table, v->at), *tests = fb_emit_tests(e, v->when);
    const char *value = fb_emit_spell(e, e->spell->type[v->dtype].from, &element, 1);
    return tests ? fb_arena_printf(e->arena, "%s ? %s : 0", tests, value) : value;
}

static const char *expression(fb_emitter *e, const fb_value *v)
{
    switch (v->kind) {
    case FB_VALUE_CONST: return fb_emit_literal(e, v->dtype, v->number);
    case FB_VALUE_INDEX: return convert(e, fb_emit_index(e, v->at, true), FB_I64, v->dtype);
    case FB_VALUE_LOAD: return loaded(e, v);
    case FB_VALUE_RANDOM: return random_element(e, v);
    case FB_VALUE_CHIP: return e->on_chip(e, v->node, v->at);
    case FB_VALUE_FOLD: return folded(e, v);
    case FB_VALUE_SELECT: {
        const char *t = test(e, &e->nest->whens[v->when]);
        const char *a = fb_emit_ref(e, v->args[0]), *b = fb_emit_ref(e, v->args[1]);
        return t ? fb_arena_printf(e->arena, "%s ? %s : %s", t, a, b) : a;
    }
    default: return operation(e, v);
    }
}

/* How often the spelling of its user writes operand `arg` down. */
static int mentions(fb_emitter *e, const fb_value *user, int arg)
{
    if (user->kind != FB_VALUE_OP && user->kind != FB_VALUE_FOLD) return 1;
    const fb_op_info *op = fb_op_get(e->nest->graph->nodes[user->node].op);
    fb_dtype of = e->section->values[user->args[op->max_args == 3]].dtype;
    const char *spelling = user->kind == FB_VALUE_FOLD ? fold_spelling(e, user) : spelling_of(e, user, of);
    int n = 0;
    for (const char *p = strchr(spelling, '$'); p; p = strchr(p + 1, '$')) n += p[1] == '0' + arg;
    return n;
}

static bool is_index(const fb_emitter *e, fb_val v)
{
    for (int i = 0; i < e->section->n_data; i++)
        if (e->section->data[i].value == v) return true;
    return false;
}

/* Is this read from where the section stores to? Of a chain's middle that replaces what it is made of, one root alone
 * reads each element before it is overwritten; several have to read first. */
static bool is_overwritten(const fb_emitter *e, const fb_value *read)
{
    const fb_section *s = e->section;
    bool chip = read->kind == FB_VALUE_CHIP;
    if (chip ? s->n_roots < 2 || !e->nest->chain || !e->nest->chain->in_place : read->kind != FB_VALUE_LOAD)
        return false;
    fb_id storage = chip ? FB_ON_CHIP : fb_nest_storage(e->nest, read->node);
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].storage == storage) return true;
    return false;
}

/* Literals and indices always stand where they are used; so does a plain load that is written down once. */
static bool is_inlined(const fb_emitter *e, fb_val v)
{
    const fb_value *x = &e->section->values[v];
    if (is_index(e, v)) return false;
    if (fb_value_is_leaf(x)) return true;
    if (is_overwritten(e, x)) return false;
    bool plain = x->kind == FB_VALUE_CHIP || (x->kind == FB_VALUE_LOAD && x->when == FB_NONE && x->table == FB_NONE);
    return plain && e->uses[v] == 1 && !e->whole[v];
}

const char *fb_emit_before(fb_emitter *e, fb_val v)
{
    const fb_value *x = &e->section->values[v];
    bool largest = e->nest->graph->nodes[x->node].attrs->start == 1, f = is_float(e->section->values[x->args[0]].dtype);
    const char *other = fb_emit_ref(e, x->args[0]), *own = fb_emit_ref(e, x->args[1]), *at = fb_emit_ref(e, x->args[2]);
    const char *low = largest ? own : other, *high = largest ? other : own;
    if (!f) return fb_arena_printf(e->arena, "%s > 0 ? !(%s < %s) : %s < %s", at, high, low, low, high);
    return fb_arena_printf(e->arena,
                           "%s > 0 ? !(%s < %s || (%s != %s && %s == %s)) : %s < %s || (%s != %s && %s == %s)", at,
                           high, low, low, low, high, high, low, high, high, high, low, low);
}

void fb_emit_count_uses(fb_emitter *e, const bool *among, int space, int depth)
{
    const fb_section *s = e->section;
    memset(e->uses, 0, (size_t)s->n_values * sizeof *e->uses);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        bool steps = v->kind == FB_VALUE_REDUCE && v->over == space && v->depth - 1 == depth;
        if (among && (!among[i] || v->kind == FB_VALUE_REDUCE) && !steps) continue;
        fb_reduction r = v->kind == FB_VALUE_REDUCE ? fb_emit_reduction(e, i) : (fb_reduction){.arg = false};
        bool compared =
            v->kind == FB_VALUE_REDUCE && (r.arg || r.op == FB_OP_RANK || !is_float(s->values[v->args[0]].dtype));
        for (int a = 0; a < v->n_args; a++) e->uses[v->args[a]] += compared ? 2 : mentions(e, v, a);
    }
    for (int i = 0; i < s->n_roots; i++)
        if (!among || (s->roots[i].space == space && s->roots[i].depth == depth)) e->uses[s->roots[i].value]++;
}

const char *fb_emit_ref(fb_emitter *e, fb_val v)
{
    if (e->whole[v] && !e->known[v]) return e->whole[v];
    if (!is_inlined(e, v)) return e->names[v];
    const fb_value *x = &e->section->values[v];
    return x->kind == FB_VALUE_INDEX ? convert(e, fb_emit_index(e, x->at, true), FB_I64, x->dtype) : expression(e, x);
}

/* ---- statements ---- */

void fb_emit_as_index(fb_emitter *e, fb_val v)
{
    for (int i = 0; i < e->section->n_data; i++)
        if (e->section->data[i].value == v && e->names[v] != e->section->data[i].name)
            fb_emit(e, "const %s %s = %s;", e->spell->index_type, e->section->data[i].name, e->names[v]);
}

/* Of an index, what moves with the innermost loop, where that is a part of it that alone is an element too, and no test
 * moves with it; the rest stays. False where it is not so, or nothing moves. */
static bool moves_apart(const fb_emitter *e, const fb_value *load, fb_ix *moving, fb_ix *rest)
{
    fb_index_pool *pool = e->nest->pool;
    const fb_space *spaces[] = {&e->section->rows, load->space == FB_NONE ? NULL : &e->section->spaces[load->space]};
    int64_t last = 0, step;
    *moving = fb_ix_const(pool, 0);
    for (int i = 0; i < 2; i++) {
        const fb_space *s = spaces[i];
        if (!s || !s->n) continue;
        fb_ix var = s->var[s->n - 1];
        for (int c = load->when; c != FB_NONE; c = e->nest->whens[c].outer)
            if (fb_ix_uses(pool, e->nest->whens[c].at, var)) return false;
        if (!fb_ix_uses(pool, *rest, var)) continue;
        if (!fb_ix_stride(pool, *rest, var, &step, rest) || step < 0) return false;
        *moving = fb_ix_add(pool, *moving, fb_ix_scale(pool, var, step));
        last += step * (s->extent[s->n - 1] - 1);
    }
    return last > 0 &&
           last < fb_shape_elements(&e->nest->graph->nodes[load->node].shape) - find_arg(e, load->node)->shift;
}

/* One of several parts that are joined: one of their tests holds, and loads of the others are made for nothing. */
static bool is_joined(const fb_emitter *e, const fb_value *load)
{
    const fb_section *s = e->section;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_SELECT || s->values[v->args[1]].kind == FB_VALUE_CONST) continue;
        for (int c = load->when; c != FB_NONE; c = e->nest->whens[c].outer)
            if (e->nest->whens[c].at == e->nest->whens[v->when].at) return true;
    }
    return false;
}

/* Does a test hang on what memory says? */
static bool is_tested_by_data(const fb_emitter *e, const fb_value *load)
{
    for (int c = load->when; c != FB_NONE; c = e->nest->whens[c].outer)
        for (int i = 0; i < e->section->n_data; i++)
            if (fb_ix_uses(e->nest->pool, e->nest->whens[c].at, e->section->data[i].var)) return true;
    return false;
}

/* How far a load goes at most with a step of the loop that vectors may be made of: the last of rows, or of its space. */
static int64_t step_of(const fb_emitter *e, const fb_value *load)
{
    const fb_space *spaces[] = {&e->section->rows, load->space == FB_NONE ? NULL : &e->section->spaces[load->space]};
    int64_t most = 0, step;
    fb_ix rest;
    for (int i = 0; i < 2; i++) {
        const fb_space *s = spaces[i];
        if (s && s->n && fb_ix_stride(e->nest->pool, load->at, s->var[s->n - 1], &step, &rest))
            most = llabs(step) > most ? llabs(step) : most;
    }
    return most;
}

/* Is another load behind a test made of the same tensor, between this one and its next? */
static bool has_neighbour(const fb_emitter *e, const fb_value *load)
{
    const fb_section *s = e->section;
    int64_t off, step = step_of(e, load);
    for (int i = 0; i < s->n_values && step > 1; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind == FB_VALUE_LOAD && v->when != FB_NONE && v->node == load->node && v->at != load->at &&
            fb_ix_is_const(e->nest->pool, fb_ix_sub(e->nest->pool, v->at, load->at), &off) && llabs(off) < step)
            return true;
    }
    return false;
}

/* May a compiler make masked loads of neighbours in one step of a loop, and vectors of them together? gcc 12 gives each
 * vector the mask of the first. It makes them so where it has written a short loop out, which a directive forbids. */
static bool may_be_grouped(const fb_emitter *e, const fb_value *load)
{
    const fb_space *rows = &e->section->rows;
    bool moves = load->space != FB_NONE || (rows->n && fb_ix_uses(e->nest->pool, load->at, rows->var[rows->n - 1]));
    return (moves && !fb_emit_in_vectors(e)) || has_neighbour(e, load);
}

/* A load behind a test, made before it: of an element that there is, whether the test holds or not. */
static bool load_ahead(fb_emitter *e, fb_val v)
{
    const fb_value *x = &e->section->values[v];
    if (!e->spell->loads_ahead || x->kind != FB_VALUE_LOAD || x->when == FB_NONE || x->table != FB_NONE) return false;
    const fb_emit_arg *arg = find_arg(e, x->node);
    fb_ix at = fb_ix_sub(e->nest->pool, x->at, fb_ix_const(e->nest->pool, arg->shift)), moving, rest = at;
    const char *tests = fb_emit_tests(e, x->when), *element;
    if (!tests || arg->written) return false;
    if (!is_tested_by_data(e, x) && !is_joined(e, x) && moves_apart(e, x, &moving, &rest))
        element = fb_arena_printf(e->arena, "%s[(%s ? %s : 0) + %s]", arg->name, tests, fb_emit_index(e, rest, false),
                                  fb_emit_index(e, moving, false));
    else if (may_be_grouped(e, x))
        element = fb_arena_printf(e->arena, "%s[%s ? %s : 0]", arg->name, tests, fb_emit_index(e, at, false));
    else
        return false;
    fb_emit(e, "%s %s = %s;", e->spell->type[x->dtype].value, e->names[v],
            fb_emit_spell(e, e->spell->type[x->dtype].from, &element, 1));
    fb_emit(e, "%s = %s ? %s : 0;", e->names[v], tests, e->names[v]);
    return true;
}

static void statement(fb_emitter *e, fb_val v)
{
    const fb_value *x = &e->section->values[v];
    if (x->kind == FB_VALUE_SCAN && !e->whole[v]) {
        fb_emit_run_on(e, v, e->names[v], fb_emit_ref(e, x->args[0]));
        return;
    }
    const char *value = e->whole[v];
    if (value || !load_ahead(e, v))
        fb_emit(e, "const %s %s = %s;", e->spell->type[x->dtype].value, e->names[v], value ? value : expression(e, x));
    fb_emit_as_index(e, v);
}

void fb_emit_needed(fb_emitter *e, fb_val v, int space)
{
    const fb_value *x = &e->section->values[v];
    if (e->known[v] || x->kind == FB_VALUE_REDUCE) return;
    if (e->whole[v]) { /* an index has a variable of its own, which others are written in */
        bool declared = !is_index(e, v) || (x->space != FB_NONE && x->space != space);
        if (!declared) statement(e, v);
        e->known[v] = e->known[v] || !declared;
        return;
    }
    for (int i = 0; i < x->n_args; i++) fb_emit_needed(e, x->args[i], space);
    if (x->space != FB_NONE && x->space != space) return;
    if (is_inlined(e, v)) return;
    e->known[v] = true;
    statement(e, v);
}

void fb_emit_load_first(fb_emitter *e, fb_val v)
{
    enum { NAMED = 2 }; /* uses, of which it is written down once */
    const fb_value *x = &e->section->values[v];
    if (x->kind != FB_VALUE_LOAD || x->when != FB_NONE || x->table != FB_NONE || x->space != FB_NONE) return;
    if (e->known[v] || e->whole[v] || is_index(e, v) || is_overwritten(e, x)) return;
    if (e->uses[v] < NAMED) e->uses[v] = NAMED;
    fb_emit_needed(e, v, FB_NONE);
}

bool *fb_emit_mark(fb_emitter *e)
{
    return fb_arena_copy(e->arena, e->known, (size_t)e->section->n_values * sizeof *e->known);
}

void fb_emit_forget(fb_emitter *e, const bool *mark)
{
    memcpy(e->known, mark, (size_t)e->section->n_values * sizeof *e->known);
}

/* A value that is only stored is written down in the store. */
static const char *stored_value(fb_emitter *e, const fb_root *r)
{
    const fb_value *x = &e->section->values[r->value];
    bool only = e->uses[r->value] == 1 && !e->known[r->value] && !e->whole[r->value] && !is_index(e, r->value);
    if (!only || (x->kind != FB_VALUE_OP && x->kind != FB_VALUE_SELECT && x->kind != FB_VALUE_FOLD)) {
        fb_emit_needed(e, r->value, r->space);
        return fb_emit_ref(e, r->value);
    }
    for (int i = 0; i < x->n_args; i++) fb_emit_needed(e, x->args[i], r->space);
    return expression(e, x);
}

/* What is overwritten is read first: by all roots that are stored at this place. */
static void read_before(fb_emitter *e, const fb_root *r)
{
    const fb_section *s = e->section;
    bool overwrites = false;
    for (int i = 0; i < s->n_values; i++) overwrites |= is_overwritten(e, &s->values[i]);
    for (int i = 0; i < s->n_roots && FB_MUTATE(40, overwrites, false); i++)
        if (s->roots[i].space == r->space && s->roots[i].depth == r->depth)
            fb_emit_needed(e, s->roots[i].value, r->space);
}

void fb_emit_store_wide(fb_emitter *e, const fb_root *r, const char *place)
{
    read_before(e, r);
    fb_emit(e, "%s = %s;", place, stored_value(e, r));
}

void fb_emit_store(fb_emitter *e, const fb_root *r)
{
    read_before(e, r);
    fb_dtype to = e->nest->graph->nodes[r->node].dtype;
    const char *wrap = e->spell->type[to].to;
    if (r->storage == FB_ON_CHIP) wrap = "$0";
    const char *value = stored_value(e, r);
    value = fb_emit_spell(e, wrap, &value, 1);
    const char *place =
        r->storage == FB_ON_CHIP ? e->on_chip(e, r->storage, r->at) : fb_emit_element(e, r->storage, r->table, r->at);
    fb_emit(e, "%s = %s;", place, value);
}

/* ---- reductions ---- */

fb_reduction fb_emit_reduction(fb_emitter *e, fb_val v)
{
    const fb_value *x = &e->section->values[v];
    fb_op op = e->nest->graph->nodes[x->node].op;
    if (fb_op_is_running(op)) op = fb_op_running(op);
    fb_dtype of = e->section->values[x->args[0]].dtype;
    bool f = is_float(of);
    const char *low = fb_emit_literal(e, of, -INFINITY), *high = fb_emit_literal(e, of, INFINITY);
    const char *max = of == FB_F64 ? "fb_max"
                      : f          ? "fb_maxf"
                                   : "max",
               *min = of == FB_F64 ? "fb_min"
                      : f          ? "fb_minf"
                                   : "min";
    switch (op) {
    case FB_OP_AMAX: return (fb_reduction){op, false, FB_MUTATE(38, low, "0"), max};
    case FB_OP_AMIN: return (fb_reduction){op, false, high, min};
    case FB_OP_PROD: return (fb_reduction){op, false, f ? fb_emit_literal(e, of, 1) : "1", "*"};
    case FB_OP_ARGMAX: return (fb_reduction){op, true, low, NULL};
    case FB_OP_ARGMIN: return (fb_reduction){op, true, FB_MUTATE(39, high, "0"), NULL};
    default: return (fb_reduction){op, false, "0", "+"};
    }
}

void fb_emit_add(fb_emitter *e, fb_dtype dtype, const char *to, const char *next)
{
    fb_emit(e, is_float(dtype) ? "%s += %s;" : "%s = fb_wrap_add(%s, %s);", to, is_float(dtype) ? next : to, next);
}

/* Of floats, the product that no sum takes in unrounded: readers of one element would read two values. */
const char *fb_emit_running(fb_emitter *e, fb_val v, const char *so_far, const char *next)
{
    fb_dtype of = e->section->values[v].dtype;
    bool sum = fb_emit_reduction(e, v).op == FB_OP_SUM;
    if (!is_float(of))
        return fb_arena_printf(e->arena, "(%s)fb_wrap_%s(%s, %s)", fb_emit_type(e, v), sum ? "add" : "mul", so_far,
                               next);
    if (sum) return fb_arena_printf(e->arena, "%s + %s", so_far, next);
    return fb_arena_printf(e->arena, "fb_product%s(%s, %s)", of == FB_F64 ? "" : "f", so_far, next);
}

void fb_emit_run_on(fb_emitter *e, fb_val v, const char *to, const char *next)
{
    if (fb_emit_reduction(e, v).op == FB_OP_SUM)
        fb_emit_add(e, e->section->values[v].dtype, to, next);
    else
        fb_emit(e, "%s = %s;", to, fb_emit_running(e, v, to, next));
}
