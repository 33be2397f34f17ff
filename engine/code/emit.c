/* A kernel's frame: what it says of itself, what its buffers are called, and its sections one after the other. */
#include "code/emit.h"

#include "code/emit_parts.h"
#include "code/names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

void fb_emit(fb_emitter *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_say_v(e->to, FB_STATEMENT_LINE, "", format, ap);
    va_end(ap);
}

void fb_emit_open(fb_emitter *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_say_v(e->to, FB_STATEMENT_BLOCK, *format == '%' ? "{" : " {", format, ap);
    va_end(ap);
}

void fb_emit_if(fb_emitter *e, const char *condition, ...)
{
    va_list ap;
    va_start(ap, condition);
    fb_say_v(e->to, FB_STATEMENT_IF, "", condition, ap);
    va_end(ap);
}

void fb_emit_for(fb_emitter *e, const char *type, const char *variable, const char *first, const char *last,
                 const char *step)
{
    fb_say_loop(e->to, &(fb_for){type ? type : e->spell->index_type, variable, first, last, .step = step,
                                 .vectors = e->vectors});
    e->vectors = false;
}

bool fb_emit_in_vectors(const fb_emitter *e)
{
    const fb_statement *s = e->to->open;
    while (s && s->kind != FB_STATEMENT_LOOP) s = s->outer;
    return s && s->loop->vectors;
}

void fb_emit_unrolled(fb_emitter *e, const char *variable, const char *last)
{
    fb_say_loop(e->to, &(fb_for){"int", variable, "0", last, .unrolled = true});
}

const char *fb_emit_number(fb_emitter *e, int64_t number)
{
    return fb_arena_printf(e->arena, "%" PRId64, number);
}

void fb_emit_list(fb_emitter *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_say_v(e->to, FB_STATEMENT_BLOCK, "", format, ap);
    va_end(ap);
}

void fb_emit_close(fb_emitter *e)
{
    fb_say_close(e->to, "}");
}

void fb_emit_close_by(fb_emitter *e, const char *end)
{
    fb_say_close(e->to, end);
}

void fb_emit_directive(fb_emitter *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_say_v(e->to, FB_STATEMENT_DIRECTIVE, "", format, ap);
    va_end(ap);
}

void fb_emit_remark(fb_emitter *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_say_v(e->to, FB_STATEMENT_REMARK, "", format, ap);
    va_end(ap);
}

/* ---- names ---- */

/* Words that mean something where a kernel stands, beside those of the language, and what skeletons use themselves. */
static const char *const reserved[] = {
    "args",      "cos",      "erf",     "exp",   "exp2",     "fabs",  "first",  "floor",  "fmod",
    "half",      "isnan",    "last",    "log",   "log2",     "main",  "max",    "member", "min",
    "owner",     "pow",      "rint",    "round", "sin",      "sqrt",  "tanh",   "warp",   "ceil",
    "abs",       "gelu",     "signbit", "lanes", "sums",     "at",    "lane",   "end",    "blockIdx",
    "threadIdx", "blockDim", "gridDim", "rsqrt", "warpSize", "atan2", "erfinv", "lgamma", "atomicAdd",
};

/* The word itself, or with the suffix of libm's float functions: exp, expf. */
static bool is_word(const char *name, const char *word)
{
    size_t n = strlen(word);
    return strncmp(name, word, n) == 0 && (!name[n] || (name[n] == 'f' && !name[n + 1]));
}

/* A local variable may hide a function of libm where the target's spellings call none by that name. */
static bool hides_only_libm(const fb_emitter *e, const char *name)
{
    static const char *const harmless[] = {"exp",  "exp2", "log", "log2", "tanh",  "erf",    "pow",
                                           "gelu", "max",  "min", "fmod", "atan2", "erfinv", "lgamma"};
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless && e->spell->own_math; i++)
        if (strcmp(name, harmless[i]) == 0) return true;
    return false;
}

static bool names_loop(const fb_emitter *e, const char *name)
{
    for (int s = 0; s < fb_nest_parts(e->nest); s++) {
        const fb_section *sec = fb_nest_part(e->nest, s);
        for (int k = -1; k < sec->n_spaces; k++) {
            const fb_space *space = k < 0 ? &sec->rows : &sec->spaces[k];
            for (int d = 0; d < space->n; d++)
                if (strcmp(fb_ix_var_name(e->nest->pool, space->var[d]), name) == 0) return true;
        }
        for (int i = 0; i < sec->n_data; i++)
            if (strcmp(sec->data[i].name, name) == 0) return true;
    }
    return false;
}

/* Arrays that loops have beside a value are called after it: exp_row beside exp. */
static bool names_array(const char *name)
{
    static const char *const ends[] = {"_row", "_ahead", "_staged", "_ranks"};
    for (size_t i = 0; *name && i < sizeof ends / sizeof *ends; i++)
        if (fb_text_ends(name + 1, ends[i])) return true;
    return false;
}

static bool is_taken(const fb_emitter *e, const char *name)
{
    if (islower((unsigned char)name[0]) && name[1] == '0' && !name[2]) return true; /* starts of chunks */
    if (fb_names_is_word(name) || (!e->nest->target->grid && names_array(name))) return true;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (is_word(name, reserved[i]) && !hides_only_libm(e, name)) return true;
    return fb_names_has(e->used, name) || strcmp(name, e->entry) == 0 || names_loop(e, name);
}

/* How long a beginning is that names of users' values must not have; 0: there is none. Words that begin with two
 * underscores, or with one and a capital, are the compiler's. */
static size_t prefix_of_ours(const char *name)
{
    static const char *const ours[] = {"fb_", "FB_", "best_"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strncmp(name, ours[i], strlen(ours[i])) == 0) return strlen(ours[i]);
    return name[0] == '_' && (name[1] == '_' || isupper((unsigned char)name[1]));
}

const char *fb_emit_name(fb_emitter *e, const char *wish)
{
    for (size_t n; (n = prefix_of_ours(wish)) > 0;) wish += n; /* whatever number stands behind */
    if (!*wish || isdigit((unsigned char)*wish)) wish = "x";
    const char *name = wish;
    for (int i = fb_names_number(e->used, wish); is_taken(e, name); i++) {
        name = fb_arena_printf(e->arena, "%s_%d", wish, i);
        fb_names_set_number(e->used, wish, i + 1);
    }
    fb_names_add(e->used, name);
    return name;
}

/* The last element of a path without its member number; a number that only makes a computed node unique goes too. */
static const char *plain_name(const fb_graph *g, fb_id node, fb_arena *arena)
{
    const char *name = g->nodes[node].name, *dot = strrchr(name, '.');
    char *plain = fb_arena_strdup(arena, dot ? dot + 1 : name);
    char *bracket = strchr(plain, '[');
    if (bracket) *bracket = 0;
    if (fb_node_class(g, node) == FB_CLASS_SOURCE) return plain;
    char *end = plain + strlen(plain);
    while (end > plain && isdigit((unsigned char)end[-1])) end--;
    if (end > plain + 1 && *end && end[-1] == '_') end[-1] = 0;
    return plain;
}

const char *fb_emit_plain(fb_emitter *e, fb_id node)
{
    return plain_name(e->nest->graph, node, e->arena);
}

static const char *op_of(const fb_graph *g, fb_id node)
{
    const char *outer = fb_op_get(g->nodes[node].op)->name;
    for (fb_id s = g->nodes[node].scope; s != FB_NONE; s = g->scopes[s].parent)
        if (g->scopes[s].kind == FB_SCOPE_OP) outer = g->scopes[s].op;
    return outer;
}

const char *fb_emit_kernel_name(const fb_graph *g, int n_nodes, const fb_id *nodes, fb_arena *arena)
{
    enum { MOST = 5, LONGEST = 56 };
    const char *part[MOST + 1];
    int n = 0;
    for (int i = 0; i < n_nodes; i++) {
        const char *op = op_of(g, nodes[i]);
        bool seen = false;
        for (int j = 0; j < n && j <= MOST; j++) seen |= strcmp(part[j < MOST ? j : MOST], op) == 0;
        if (seen) continue;
        part[n < MOST ? n : MOST] = op; /* beyond the first few only the last is told */
        n++;
    }
    fb_str s = {0};
    if (n_nodes == 1 && strcmp(part[0], fb_op_get(g->nodes[nodes[0]].op)->name) != 0) {
        /* one step of a framework's op */
        fb_str_addf(&s, "%s_%s", part[0], plain_name(g, nodes[0], arena));
        n = 0;
    }
    for (int i = 0; i < n && i <= MOST; i++) {
        if (i == MOST && n > MOST + 1) fb_str_add(&s, "_etc");
        fb_str_addf(&s, "%s%s", i ? "_" : "", part[i]);
    }
    const char *name = fb_str_get(&s);
    char *kept = fb_arena_printf(arena, "%.*s", LONGEST, *name ? name : "kernel");
    for (char *c = kept; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    fb_str_free(&s);
    return kept;
}

/* ---- buffers ---- */

static void add_arg(fb_emitter *e, fb_id storage, fb_dtype dtype, bool written)
{
    for (int i = 0; i < e->n_args; i++) {
        if (e->args[i].storage != storage) continue;
        e->args[i].written |= written;
        return;
    }
    e->args[e->n_args++] = (fb_emit_arg){.storage = storage, .written = written, .dtype = dtype};
}

static int64_t zero_of(void *ctx, fb_ix var)
{
    (void)ctx;
    (void)var;
    return 0;
}

/* Where all plain accesses of a buffer start at the same distance from it, and that is aligned as buffers are, the
 * launch's pointer starts there: kernels over windows of one tensor are one kernel so. */
typedef struct {
    bool seen, mixed;
    int64_t start;
} window;

static void see(const fb_emitter *e, window *w, fb_id storage, int table, fb_ix at)
{
    storage = fb_nest_storage(e->nest, storage);
    for (int i = 0; i < e->n_args; i++) {
        if (e->args[i].storage != storage) continue;
        int64_t start = fb_ix_eval(e->nest->pool, at, zero_of, NULL);
        w[i].mixed |= table != FB_NONE || (w[i].seen && w[i].start != start);
        w[i].seen = true;
        w[i].start = start;
    }
}

static void see_table(window *w, const fb_emitter *e, const fb_table *t, int members)
{
    for (int m = 0; m < members; m++)
        for (int i = 0; i < e->n_args; i++)
            if (e->args[i].storage == t->base[m]) w[i].mixed = true;
}

static void find_windows(fb_emitter *e)
{
    enum { ALIGNED = 64 };
    window *w = FB_NEW_ARRAY(e->arena, window, e->n_args);
    for (int s = 0; s < fb_nest_parts(e->nest); s++) {
        const fb_section *sec = fb_nest_part(e->nest, s);
        for (int i = 0; i < sec->n_values; i++)
            if (sec->values[i].kind == FB_VALUE_LOAD)
                see(e, w, sec->values[i].node, sec->values[i].table, sec->values[i].at);
        for (int i = 0; i < sec->n_roots && s < e->nest->n_sections; i++)
            see(e, w, sec->roots[i].storage, sec->roots[i].table, sec->roots[i].at);
        for (int i = 0; i < sec->n_tables; i++) see_table(w, e, &sec->tables[i], sec->members);
    }
    for (int i = 0; i < e->n_args; i++) {
        int64_t bytes = w[i].start * fb_dtype_size(e->args[i].dtype);
        if (w[i].seen && !w[i].mixed && w[i].start > 0 && bytes % ALIGNED == 0) e->args[i].shift = w[i].start;
    }
}

static void find_args(fb_emitter *e)
{
    const fb_nest *nest = e->nest;
    e->args = FB_NEW_ARRAY(e->arena, fb_emit_arg, nest->n_reads + nest->n_writes + 1);
    const fb_node *nodes = nest->graph->nodes;
    for (int i = 0; i < nest->n_reads; i++) add_arg(e, nest->reads[i], nodes[nest->reads[i]].dtype, false);
    if (nest->accumulator != FB_NONE) add_arg(e, nest->product, nodes[nest->product].dtype, false);
    for (int i = 0; i < nest->n_writes; i++) {
        fb_id id = nest->writes[i] == FB_COPY_OF_SOURCE ? nest->kernel.stored[0] : nest->writes[i];
        add_arg(e, nest->writes[i], nodes[id].dtype, true);
    }
    for (int i = 0; i < e->n_args; i++) {
        bool copy = e->args[i].storage == FB_COPY_OF_SOURCE;
        e->args[i].name = fb_emit_name(e, copy ? "copy" : fb_emit_plain(e, e->args[i].storage));
    }
    find_windows(e);
}

/* ---- sections ---- */

static const char *data_name(const fb_emitter *e, fb_val v)
{
    for (int i = 0; i < e->section->n_data; i++)
        if (e->section->data[i].value == v) return e->section->data[i].name;
    return NULL;
}

/* The pointer of a member, from what its table says. */
static void add_pointer(const fb_emitter *e, const fb_table *table, int m, fb_str *to)
{
    const char *base = NULL;
    for (int i = 0; i < e->n_args; i++)
        if (e->args[i].storage == table->base[m]) base = e->args[i].name;
    fb_str_add(to, base);
    if (table->shift[m]) fb_str_addf(to, " + %lld", (long long)table->shift[m]);
}

/* One initialiser a member shows all, also where an offset would do. */
static void write_array(fb_emitter *e, const fb_table *table, const char *type, const char *name)
{
    fb_str list = {0};
    int members = e->section->members;
    for (int m = 0; m < members; m++) {
        fb_str_add(&list, m == 0 ? "" : m % 8 ? ", " : ",\n            ");
        add_pointer(e, table, m, &list);
    }
    fb_emit(e, "%s%s *const %s[%d] = {%s};", table->store ? "" : "const ", type, name, members, fb_str_get(&list));
    fb_str_free(&list);
}

/* Members from … to - 1, halved until one is left: as many comparisons as the member has bits. */
static void add_choice(const fb_emitter *e, const fb_table *table, int from, int to, fb_str *out)
{
    const int middle = (from + to) / 2;
    const char *apart = to - from > 4 ? "\n            " : " ";
    if (to - from == 1) {
        add_pointer(e, table, from, out);
        return;
    }
    fb_str_addf(out, "(member < %d ?%s", middle, apart);
    add_choice(e, table, from, middle, out);
    fb_str_addf(out, " :%s", apart);
    add_choice(e, table, middle, to, out);
    fb_str_add(out, ")");
}

static void write_choice(fb_emitter *e, const fb_table *table, const char *type, const char *name)
{
    fb_str choice = {0};
    add_choice(e, table, 0, e->section->members, &choice);
    fb_emit(e, "const auto %s = [=](%s member) -> %s%s * {\n        return %s;\n    };", name, e->spell->index_type,
            table->store ? "" : "const ", type, fb_str_get(&choice));
    fb_str_free(&choice);
}

/* Pointers by member. */
static void write_tables(fb_emitter *e)
{
    const fb_section *s = e->section;
    for (int t = 0; t < s->n_tables; t++) {
        const fb_table *table = &s->tables[t];
        const char *type = e->spell->type[e->nest->graph->nodes[table->base[0]].dtype].memory;
        const char *name = fb_emit_name(e, fb_arena_printf(e->arena, "%s_of", fb_emit_plain(e, table->base[0])));
        e->tables[t] = name;
        if (e->spell->picks)
            write_choice(e, table, type, name);
        else
            write_array(e, table, type, name);
    }
}

void fb_emit_section(fb_emitter *e, int number)
{
    const fb_section *s = fb_nest_part(e->nest, number);
    e->section = s;
    e->number = number;
    e->names = FB_NEW_ARRAY(e->arena, const char *, s->n_values);
    e->whole = FB_NEW_ARRAY(e->arena, const char *, s->n_values);
    e->known = FB_NEW_ARRAY(e->arena, bool, s->n_values);
    e->uses = FB_NEW_ARRAY(e->arena, int, s->n_values);
    e->tables = FB_NEW_ARRAY(e->arena, const char *, s->n_tables);
    e->picked = NULL;
    fb_emit_count_uses(e, NULL, FB_NONE, 0);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        const char *type = e->spell->type[v->dtype].value;
        if (fb_value_is_leaf(v) && !data_name(e, i)) continue;
        if (data_name(e, i) && strcmp(type, e->spell->index_type) == 0)
            e->names[i] = data_name(e, i);
        else
            e->names[i] = fb_emit_name(e, fb_emit_plain(e, v->node));
    }
    write_tables(e);
}

/* ---- what the kernel says of itself ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Where `name` first stands in a sorted list that holds it. */
static int first_of(const char *const *order, int n, const char *name)
{
    int low = 0, high = n - 1;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (strcmp(order[mid], name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Nodes by the names that members of a repetition share, each with how often it is there. */
static void add_nodes(fb_emitter *e, fb_str *out)
{
    const fb_kernel_nodes *k = &e->nest->kernel;
    const char **names = FB_NEW_ARRAY(e->arena, const char *, k->n_nodes);
    for (int i = 0; i < k->n_nodes; i++) names[i] = fb_emit_plain(e, k->nodes[i]);
    fb_str s = {0};
    size_t column = 0;
    bool *told = FB_NEW_ARRAY(e->arena, bool, k->n_nodes); /* by place in order */
    const char **order = fb_arena_copy(e->arena, names, (size_t)k->n_nodes * sizeof *names);
    if (k->n_nodes) qsort(order, (size_t)k->n_nodes, sizeof *order, by_text);
    for (int i = 0; i < k->n_nodes; i++) {
        int count = 0, at = first_of(order, k->n_nodes, names[i]);
        if (told[at]) continue;
        told[at] = true;
        while (at + count < k->n_nodes && strcmp(order[at + count], names[i]) == 0) count++;
        char item[96];
        snprintf(item, sizeof item, count > 1 ? "%.64s ×%d" : "%.64s", names[i], count);
        if (s.n - column > 96) {
            fb_str_add(&s, ",\n *        ");
            column = s.n;
        } else if (s.n) {
            fb_str_add(&s, ", ");
        }
        fb_str_add(&s, item);
    }
    if (s.n) fb_str_addf(out, " * holds: %s\n", fb_str_get(&s));
    fb_str_free(&s);
}

static const char *about(fb_emitter *e, fb_arena *arena)
{
    fb_str s = {0};
    add_nodes(e, &s);
    fb_str_addf(&s, " * %s: %s */\n", fb_family_name(e->family), fb_family_row_of(e->family)->holds);
    const char *text = fb_arena_strdup(arena, fb_str_get(&s));
    fb_str_free(&s);
    return text;
}

static const fb_parameter *parameters(const fb_emitter *e, fb_arena *arena)
{
    fb_parameter *p = FB_NEW_ARRAY(arena, fb_parameter, e->n_args);
    for (int i = 0; i < e->n_args; i++)
        p[i] = (fb_parameter){.type = e->spell->type[e->args[i].dtype].memory,
                              .name = fb_arena_strdup(arena, e->args[i].name),
                              .constant = !e->args[i].written,
                              .restricted = true};
    return p;
}

/* ---- the kernel ---- */

static void write_sections(fb_emitter *e, const fb_printer *printer)
{
    if (printer->whole[e->family]) {
        printer->whole[e->family](e);
        return;
    }
    for (int i = 0; i < e->nest->n_sections; i++) {
        if (i) fb_emit(e, "%s", "");
        if (printer->around) printer->around(e, i, true);
        int kept = fb_names_count(e->used); /* names of the last section are free again */
        if (e->nest->n_sections > 1) fb_emit_open(e, "%s", "");
        fb_emit_section(e, i);
        printer->section[e->family](e);
        if (e->nest->n_sections > 1) fb_emit_close(e);
        fb_names_forget(e->used, kept);
        if (printer->around) printer->around(e, i, false);
    }
}

void fb_emit_rename(fb_kernel_text *text, const char *name, fb_arena *arena)
{
    fb_function *f = FB_NEW(arena, fb_function);
    *f = *text->function;
    f->name = name;
    f->entry = text->entry = fb_arena_printf(arena, "%s_kernel", name);
    text->function = f;
    text->text = fb_function_text(f, arena);
}

fb_kernel_text fb_emit_kernel(const fb_nest *nest, fb_family family, const fb_knobs *knobs, const fb_target *target,
                              const char *name, fb_arena *arena)
{
    /* a kernel called tanh must not be the library's tanh */
    const char *entry = fb_arena_printf(arena, "%s_kernel", name);
    fb_kernel_text result = {.entry = entry};
    const fb_printer *printer = fb_printer_of(target);
    if (!nest->n_sections || (!printer->section[family] && !printer->whole[family])) return result;
    fb_function *f = FB_NEW(arena, fb_function);
    fb_statements to = fb_say_to(arena, &f->body);
    fb_emitter e = {.target = target,
                    .inside = {.var = FB_NONE},
                    .spell = &target->spelling,
                    .nest = nest,
                    .family = family,
                    .knobs = knobs ? knobs : &fb_knobs_automatic,
                    .to = &to,
                    .function = f,
                    .arena = fb_arena_new(),
                    .entry = entry,
                    .used = fb_names_new()};
    find_args(&e);
    *f = (fb_function){.target = target,
                       .name = fb_arena_strdup(arena, name),
                       .entry = entry,
                       .about = about(&e, arena),
                       .n_parameters = e.n_args,
                       .parameters = parameters(&e, arena)};
    printer->open(&e);
    write_sections(&e, printer);
    fb_say_end(&to);
    result.function = f;
    result.text = fb_function_text(f, arena);
    memcpy(result.grid, e.grid, sizeof result.grid);
    memcpy(result.block, e.block, sizeof result.block);
    result.dynamic_shared = e.dynamic_shared;
    result.needs = e.needs;
    result.stage = e.stage;
    result.stage.round = fb_arena_strdup(arena, e.stage.round);
    result.n_args = e.n_args;
    result.args = FB_NEW_ARRAY(arena, fb_kernel_arg, e.n_args);
    for (int i = 0; i < e.n_args; i++)
        result.args[i] =
            (fb_kernel_arg){e.args[i].storage, e.args[i].written, e.args[i].shift * fb_dtype_size(e.args[i].dtype),
                            fb_arena_strdup(arena, e.args[i].name)};
    fb_names_free(e.used);
    fb_arena_free(e.arena);
    return result;
}
