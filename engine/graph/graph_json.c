/* Writes graphs and reads them back. Reading trusts nothing: every field is checked where it arrives, and what comes
 * out went through the same building as a script's graph. */
#include "graph/graph_json.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"
#include "graph/build.h"
#include "graph/canon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const dist_names[FB_DISTS] = {
    [FB_DIST_UNIFORM] = "uniform",   [FB_DIST_NORMAL] = "normal", [FB_DIST_INTEGER] = "integer",
    [FB_DIST_CONSTANT] = "constant", [FB_DIST_FILE] = "file",
};
static const char *const precision_names[] = {[FB_PRECISION_IEEE] = "ieee", [FB_PRECISION_TF32] = "tf32"};

/* The attributes that a node's object has: those its op reads, apart from what its distribution leaves open. */
static unsigned written_attrs(fb_op op, fb_dist dist)
{
    unsigned reads = fb_op_attrs(op);
    if (!(reads & FB_AT_DIST)) return reads;
    if (dist == FB_DIST_FILE) return reads & ~(unsigned)(FB_AT_VALUE | FB_AT_HIGH);
    return reads & ~(unsigned)(dist == FB_DIST_CONSTANT ? FB_AT_FILE | FB_AT_HIGH : FB_AT_FILE);
}

/* ---- writing ---- */

static void write_ids(fb_str *out, const char *key, const fb_id *ids, int n)
{
    fb_str_addf(out, ",\"%s\":[", key);
    for (int i = 0; i < n; i++) fb_str_addf(out, i ? ",%d" : "%d", ids[i]);
    fb_str_add(out, "]");
}

static void write_dims(fb_str *out, const char *key, const int64_t *dims, int n)
{
    fb_str_addf(out, ",\"%s\":[", key);
    for (int i = 0; i < n; i++) fb_str_addf(out, i ? ",%lld" : "%lld", (long long)dims[i]);
    fb_str_add(out, "]");
}

static void write_integer(fb_str *out, const char *key, int64_t value)
{
    fb_str_addf(out, ",\"%s\":%lld", key, (long long)value);
}

/* The shortest decimal that reads back as the same double, and never as an integer: -0 would lose its sign. */
static void write_number(fb_str *out, const char *key, double value)
{
    char text[40];
    if (!isfinite(value)) {
        fb_str_addf(out, ",\"%s\":\"%s\"", key, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fb_str_addf(out, ",\"%s\":%s%s", key, text, strpbrk(text, ".e") ? "" : ".0");
}

/* Titles alone may hold anything; names and file keys need no escapes. */
static void write_title(fb_str *out, const char *title)
{
    char clean[512];
    fb_text_clean(clean, sizeof clean, title, strlen(title));
    fb_str_add(out, ",\"title\":\"");
    for (const char *p = clean; *p; p++) {
        if (*p == '"' || *p == '\\') fb_str_add(out, "\\");
        fb_str_add_n(out, p, 1);
    }
    fb_str_add(out, "\"");
}

static void write_attrs(const fb_graph *g, const fb_node *n, fb_str *out)
{
    const fb_attrs *at = n->attrs;
    unsigned reads = written_attrs(n->op, at->dist);
    if (reads & FB_AT_AXES) write_ids(out, "axes", at->axes, at->n_axes);
    if (reads & FB_AT_KEEPDIM) fb_str_addf(out, ",\"keepdim\":%s", at->keepdim ? "true" : "false");
    if (reads & FB_AT_DIM) write_integer(out, "dim", at->dim);
    if (reads & FB_AT_START) write_integer(out, "start", at->start);
    if (reads & FB_AT_STOP) {
        write_integer(out, "stop", at->stop);
        write_integer(out, "step", at->step);
    }
    if (reads & FB_AT_PADDING) {
        int rank = g->nodes[n->args[0]].shape.rank;
        write_dims(out, "before", at->before, rank);
        write_dims(out, "after", at->after, rank);
    }
    if (reads & FB_AT_VALUE) write_number(out, "value", at->value);
    if (reads & FB_AT_HIGH) write_number(out, "high", at->high);
    if (reads & FB_AT_DIST) fb_str_addf(out, ",\"dist\":\"%s\"", dist_names[at->dist]);
    if (reads & FB_AT_PRECISION) fb_str_addf(out, ",\"precision\":\"%s\"", precision_names[at->precision]);
    if (reads & FB_AT_INDEX) write_integer(out, "index", at->index);
    if (reads & FB_AT_REGION) write_integer(out, "body", at->region);
    if (reads & FB_AT_TRIPS) write_integer(out, "trips", at->trips);
    if (reads & FB_AT_SEED) write_integer(out, "seed", (int64_t)at->seed);
    if (reads & FB_AT_FILE) fb_str_addf(out, ",\"file\":\"%s\"", at->file);
}

static void write_node(const fb_graph *g, fb_id id, fb_str *out)
{
    const fb_node *n = &g->nodes[id];
    fb_str_addf(out, "{\"id\":%d,\"op\":\"%s\"", id, fb_op_get(n->op)->name);
    write_ids(out, "args", n->args, n->n_args);
    fb_str_addf(out, ",\"name\":\"%s\",\"dtype\":\"%s\"", n->name, fb_dtype_name(n->dtype));
    write_dims(out, "shape", n->shape.dim, n->shape.rank);
    write_integer(out, "region", n->region);
    if (n->scope != FB_NONE) write_integer(out, "scope", n->scope);
    if (n->line) write_integer(out, "line", n->line);
    write_attrs(g, n, out);
    fb_str_add(out, "}");
}

static void write_scope(const fb_graph *g, fb_id id, fb_str *out)
{
    const fb_scope *s = &g->scopes[id];
    bool is_op = s->kind == FB_SCOPE_OP;
    fb_str_addf(out, "{\"id\":%d,\"kind\":\"%s\"", id, is_op ? "op" : "region");
    if (s->parent != FB_NONE) write_integer(out, "parent", s->parent);
    fb_str_addf(out, ",\"name\":\"%s\"", s->name);
    if (s->index != FB_NONE) write_integer(out, "index", s->index);
    fb_str_addf(out, ",\"path\":\"%s\"", s->path);
    if (is_op) {
        fb_str_addf(out, ",\"op\":\"%s\",\"attrs\":", s->op);
        fb_str_add(out, s->attrs);
        write_ids(out, "args", s->args, s->n_args);
        write_ids(out, "results", s->results, s->n_results);
    }
    if (s->line) write_integer(out, "line", s->line);
    fb_str_add(out, "}");
}

static void write_region(const fb_graph *g, fb_id id, fb_str *out)
{
    const fb_region *r = &g->regions[id];
    fb_str_addf(out, "{\"id\":%d", id);
    if (id) {
        write_integer(out, "parent", r->parent);
        write_integer(out, "loop", r->loop);
        write_integer(out, "trips", r->trips);
        write_ids(out, "carried", r->carried, r->n_carried);
        write_ids(out, "yields", r->yields, r->n_carried);
        write_ids(out, "items", r->items, r->n_items);
        write_ids(out, "stacked", r->stacked, r->n_stacked);
        if (r->every) write_ids(out, "every", r->every, r->n_stacked);
        if (r->backwards) fb_str_add(out, ",\"backwards\":true");
    }
    fb_str_add(out, "}");
}

/* "outputs":[…],"hash":… */
static void write_tail(const fb_graph *g, fb_str *out)
{
    char hex[33];
    fb_str_add(out, "\"outputs\":[");
    for (int i = 0; i < g->n_outputs; i++)
        fb_str_addf(out, "%s{\"name\":\"%s\",\"node\":%d}", i ? "," : "", g->output_names[i], g->outputs[i]);
    fb_str_addf(out, "],\"hash\":\"%s\"", fb_hash_hex(g->hash, hex));
}

static void write_head(const fb_graph *g, fb_str *out)
{
    fb_str_add(out, "{\"fusebox_graph\":1");
    write_title(out, g->title);
    fb_str_addf(out, ",\"canonical\":%s", g->canonical ? "true" : "false");
}

/* The three lists, in the order in which they are written. */
typedef struct {
    const char *key, *count;
    void (*write)(const fb_graph *g, fb_id id, fb_str *out);
} section;

enum { SCOPES, REGIONS, NODES, SECTIONS };
static const section sections[SECTIONS] = {
    [SCOPES] = {"scopes", "n_scopes", write_scope},
    [REGIONS] = {"regions", "n_regions", write_region},
    [NODES] = {"nodes", "n_nodes", write_node},
};

static int section_size(const fb_graph *g, int s)
{
    return s == SCOPES ? g->n_scopes : s == REGIONS ? g->n_regions : g->n_nodes;
}

void fb_graph_write_json(const fb_graph *g, fb_str *out)
{
    write_head(g, out);
    for (int s = 0; s < SECTIONS; s++) {
        fb_str_addf(out, ",\n\"%s\":[", sections[s].key);
        for (int i = 0; i < section_size(g, s); i++) {
            fb_str_add(out, i ? ",\n" : "\n");
            sections[s].write(g, i, out);
        }
        fb_str_add(out, "]");
    }
    fb_str_add(out, ",\n");
    write_tail(g, out);
    fb_str_add(out, "}\n");
}

bool fb_graph_write_lines(const fb_graph *g, bool (*line)(void *ctx, const char *text, size_t n), void *ctx)
{
    fb_str s = {0};
    write_head(g, &s);
    for (int k = 0; k < SECTIONS; k++) write_integer(&s, sections[k].count, section_size(g, k));
    fb_str_add(&s, "}");
    bool ok = line(ctx, s.text, s.n);
    for (int k = 0; k < SECTIONS; k++)
        for (int i = 0; ok && i < section_size(g, k); i++) {
            fb_str_clear(&s);
            sections[k].write(g, i, &s);
            ok = line(ctx, s.text, s.n);
        }
    if (ok) {
        fb_str_clear(&s);
        fb_str_add(&s, "{");
        write_tail(g, &s);
        fb_str_add(&s, "}");
        ok = line(ctx, s.text, s.n);
    }
    fb_str_free(&s);
    return ok;
}

/* ---- reading one object: every field that is asked for is remembered, what is left over is refused ---- */

typedef struct {
    const json_t *object;
    fb_error *err;
    fb_arena *scratch; /* lists */
    int n;
    const char *asked[32];
} fields;

static json_t *ask(fields *f, const char *key)
{
    f->asked[f->n++] = key;
    return json_object_get(f->object, key);
}

static bool nothing_left(fields *f)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)f->object, key, value)
    {
        int i = 0;
        while (i < f->n && strcmp(f->asked[i], key) != 0) i++;
        if (i == f->n) return fb_fail(f->err, FB_ERR_INPUT, "unknown field \"%.60s\"", key);
    }
    return true;
}

static bool get_integer(fields *f, const char *key, int64_t low, int64_t high, int64_t *out)
{
    ask(f, key);
    return fb_json_get_int(f->object, key, low, high, out, f->err);
}

static bool get_int(fields *f, const char *key, int low, int high, int *out)
{
    int64_t wide = 0;
    bool ok = get_integer(f, key, low, high, &wide);
    if (ok) *out = (int)wide;
    return ok;
}

/* *out stays as it is when the field is missing. */
static bool get_int_if_there(fields *f, const char *key, int low, int high, int *out)
{
    return ask(f, key) ? get_int(f, key, low, high, out) : true;
}

static bool get_string(fields *f, const char *key, const char **out)
{
    ask(f, key);
    return fb_json_get_string(f->object, key, out, f->err);
}

static bool get_bool(fields *f, const char *key, bool *out)
{
    json_t *value = ask(f, key);
    if (!json_is_boolean(value)) return fb_fail(f->err, FB_ERR_INPUT, "field \"%s\" is not true or false", key);
    *out = json_is_true(value);
    return true;
}

static bool get_number(fields *f, const char *key, double *out)
{
    const char *word = json_string_value(ask(f, key));
    if (!word) return fb_json_get_number(f->object, key, out, f->err);
    if (strcmp(word, "inf") == 0 || strcmp(word, "-inf") == 0)
        *out = *word == '-' ? -INFINITY : INFINITY;
    else if (strcmp(word, "nan") == 0)
        *out = NAN;
    else
        return fb_fail(f->err, FB_ERR_INPUT, "field \"%s\" is not a number", key);
    return true;
}

/* One of a table of words. */
static bool get_word(fields *f, const char *key, const char *const *words, int n, int *out)
{
    const char *word;
    if (!get_string(f, key, &word)) return false;
    for (*out = 0; *out < n; ++*out)
        if (strcmp(words[*out], word) == 0) return true;
    return fb_fail(f->err, FB_ERR_INPUT, "field \"%s\" cannot be \"%.40s\"", key, word);
}

/* `n` integers of a list into to[], which has room for `room`. */
static bool get_list(fields *f, const char *key, int room, int64_t low, int64_t high, int64_t *to, int *n)
{
    json_t *list, *value;
    size_t i;
    ask(f, key);
    if (!fb_json_get_array(f->object, key, &list, f->err)) return false;
    if (json_array_size(list) > (size_t)room)
        return fb_fail(f->err, FB_ERR_INPUT, "field \"%s\" has more than %d entries", key, room);
    json_array_foreach(list, i, value)
    {
        int64_t v = json_integer_value(value);
        if (!json_is_integer(value) || v < low || v > high)
            return fb_fail(f->err, FB_ERR_INPUT, "field \"%s\" holds something else than integers from %lld to %lld",
                           key, (long long)low, (long long)high);
        to[i] = v;
    }
    *n = (int)json_array_size(list);
    return true;
}

/* A list of node ids of any length. */
static bool get_ids(fields *f, const char *key, const fb_id **ids, int *n)
{
    int room = (int)json_array_size(json_object_get(f->object, key));
    int64_t *wide = FB_NEW_ARRAY(f->scratch, int64_t, room);
    fb_id *to = FB_NEW_ARRAY(f->scratch, fb_id, room);
    if (!get_list(f, key, room, FB_NONE, FB_MAX_NODES, wide, n)) return false;
    for (int i = 0; i < *n; i++) to[i] = (fb_id)wide[i];
    *ids = to;
    return true;
}

/* ---- reading records ---- */

struct fb_graph_reader {
    fb_graph *g; /* NULL before the header and once taken */
    int want[SECTIONS];
    bool canonical, done, failed;
    int64_t lines;
};

static bool read_shape(fields *f, fb_shape *shape)
{
    return get_list(f, "shape", FB_MAX_RANK, 0, FB_MAX_ELEMENTS, shape->dim, &shape->rank);
}

static bool read_padding(fields *f, const fb_graph *g, const fb_node *n, fb_attrs *at)
{
    int before, after;
    int rank = n->n_args && n->args[0] >= 0 && n->args[0] < g->n_nodes ? g->nodes[n->args[0]].shape.rank : 0;
    if (!get_list(f, "before", FB_MAX_RANK, 0, FB_MAX_ELEMENTS, at->before, &before)) return false;
    if (!get_list(f, "after", FB_MAX_RANK, 0, FB_MAX_ELEMENTS, at->after, &after)) return false;
    return (before == rank && after == rank) ||
           fb_fail(f->err, FB_ERR_INPUT, "\"before\" and \"after\" need %d entries", rank);
}

static bool read_attrs(fields *f, const fb_graph *g, const fb_node *n, fb_attrs *at)
{
    unsigned reads = fb_op_attrs(n->op);
    int64_t axes[FB_MAX_RANK], seed = 0;
    int dist = 0, precision = 0;
    bool ok = true;
    if (reads & FB_AT_DIST) {
        ok = get_word(f, "dist", dist_names, FB_DISTS, &dist);
        at->dist = (fb_dist)dist;
        reads = written_attrs(n->op, at->dist);
    }
    if (reads & FB_AT_SHAPE) at->shape = n->shape;
    if (reads & FB_AT_DTYPE) at->dtype = n->dtype;
    if (reads & FB_AT_AXES) {
        ok = ok && get_list(f, "axes", FB_MAX_RANK, -FB_MAX_RANK, FB_MAX_RANK, axes, &at->n_axes);
        for (int i = 0; ok && i < at->n_axes; i++) at->axes[i] = (int)axes[i];
    }
    if (reads & FB_AT_KEEPDIM) ok = ok && get_bool(f, "keepdim", &at->keepdim);
    if (reads & FB_AT_DIM) ok = ok && get_int(f, "dim", -FB_MAX_RANK, FB_MAX_RANK, &at->dim);
    if (reads & FB_AT_START) ok = ok && get_integer(f, "start", 0, FB_MAX_ELEMENTS, &at->start);
    if (reads & FB_AT_STOP)
        ok = ok && get_integer(f, "stop", 0, FB_MAX_ELEMENTS, &at->stop) &&
             get_integer(f, "step", 1, FB_MAX_ELEMENTS, &at->step);
    if (reads & FB_AT_PADDING) ok = ok && read_padding(f, g, n, at);
    if (reads & FB_AT_VALUE) ok = ok && get_number(f, "value", &at->value);
    if (reads & FB_AT_HIGH) ok = ok && get_number(f, "high", &at->high);
    if (reads & FB_AT_PRECISION) ok = ok && get_word(f, "precision", precision_names, 2, &precision);
    if (reads & FB_AT_INDEX) ok = ok && get_int(f, "index", 0, FB_MAX_NODES, &at->index);
    if (reads & FB_AT_REGION) ok = ok && get_int(f, "body", 1, FB_MAX_NODES, &at->region);
    if (reads & FB_AT_TRIPS) ok = ok && get_integer(f, "trips", 0, FB_MAX_ELEMENTS, &at->trips);
    if (reads & FB_AT_SEED) ok = ok && get_integer(f, "seed", INT64_MIN, INT64_MAX, &seed);
    at->precision = (fb_precision)precision;
    at->seed = (uint64_t)seed;
    if (reads & FB_AT_FILE) ok = ok && get_string(f, "file", &at->file);
    return ok;
}

static bool check_inferred(const fb_node *said, const fb_node *is, fb_error *err)
{
    char a[192], b[192];
    if (said->dtype == is->dtype && fb_shape_equal(&said->shape, &is->shape)) return true;
    return fb_fail(err, FB_ERR_INPUT, "%s: is said to be %s but is %s", fb_op_get(is->op)->name,
                   fb_shape_format(&said->shape, said->dtype, a), fb_shape_format(&is->shape, is->dtype, b));
}

static bool read_node(fields *f, fb_graph *g)
{
    fb_node n = {.scope = FB_NONE};
    fb_attrs at = {0};
    const char *op, *dtype;
    n.attrs = &at;
    if (!get_string(f, "op", &op)) return false;
    if (!fb_op_parse(op, &n.op)) return fb_fail(f->err, FB_ERR_INPUT, "unknown op \"%.40s\"", op);
    if (!get_ids(f, "args", &n.args, &n.n_args) || !get_string(f, "name", &n.name) || !get_string(f, "dtype", &dtype) ||
        !read_shape(f, &n.shape) || !get_int(f, "region", 0, FB_MAX_NODES, &n.region) ||
        !get_int_if_there(f, "scope", 0, FB_MAX_NODES, &n.scope) || !get_int_if_there(f, "line", 0, INT32_MAX, &n.line))
        return false;
    if (!fb_dtype_parse(dtype, &n.dtype)) return fb_fail(f->err, FB_ERR_INPUT, "unknown dtype \"%.40s\"", dtype);
    if (!read_attrs(f, g, &n, &at) || !nothing_left(f)) return false;
    fb_id id = fb_build_node(g, &n, f->err);
    return id != FB_NONE && check_inferred(&n, &g->nodes[id], f->err);
}

static bool read_scope(fields *f, fb_graph *g)
{
    static const char *const kinds[] = {[FB_SCOPE_REGION] = "region", [FB_SCOPE_OP] = "op"};
    fb_scope s = {.parent = FB_NONE, .index = FB_NONE};
    int kind;
    if (!get_word(f, "kind", kinds, 2, &kind) || !get_int_if_there(f, "parent", 0, FB_MAX_NODES, &s.parent) ||
        !get_string(f, "name", &s.name) || !get_int_if_there(f, "index", 0, INT32_MAX, &s.index) ||
        !get_string(f, "path", &s.path) || !get_int_if_there(f, "line", 0, INT32_MAX, &s.line))
        return false;
    s.kind = (fb_scope_kind)kind;
    char *attrs = NULL;
    if (s.kind == FB_SCOPE_OP) {
        json_t *object = ask(f, "attrs");
        if (!json_is_object(object)) return fb_fail(f->err, FB_ERR_INPUT, "field \"attrs\" is not an object");
        if (!get_string(f, "op", &s.op) || !get_ids(f, "args", &s.args, &s.n_args) ||
            !get_ids(f, "results", &s.results, &s.n_results))
            return false;
        s.attrs = attrs = fb_json_line(object);
    }
    bool ok = nothing_left(f) && fb_build_scope(g, &s, f->err) != FB_NONE;
    fb_free(attrs);
    return ok;
}

static bool read_region(fields *f, fb_graph *g, int64_t id)
{
    fb_region r = {.parent = FB_NONE, .loop = FB_NONE};
    int n_yields, n_every = 0;
    if (id == 0) return nothing_left(f); /* the whole graph is there from the start */
    if (!get_int(f, "parent", 0, FB_MAX_NODES, &r.parent) || !get_int(f, "loop", 0, FB_MAX_NODES, &r.loop) ||
        !get_integer(f, "trips", 0, FB_MAX_ELEMENTS, &r.trips) || !get_ids(f, "carried", &r.carried, &r.n_carried) ||
        !get_ids(f, "yields", &r.yields, &n_yields) || !get_ids(f, "items", &r.items, &r.n_items) ||
        !get_ids(f, "stacked", &r.stacked, &r.n_stacked) ||
        (ask(f, "every") && !get_ids(f, "every", &r.every, &n_every)) ||
        (ask(f, "backwards") && !get_bool(f, "backwards", &r.backwards)))
        return false;
    if (r.every && n_every != r.n_stacked)
        return fb_fail(f->err, FB_ERR_INPUT, "%d intervals for %d stacked values", n_every, r.n_stacked);
    if (n_yields != r.n_carried)
        return fb_fail(f->err, FB_ERR_INPUT, "%d yields for %d carried values", n_yields, r.n_carried);
    return nothing_left(f) && fb_build_region(g, &r, f->err) != FB_NONE;
}

/* Record number `id` of section `s`. */
static bool read_record(fb_graph *g, int s, int64_t id, const json_t *object, fb_error *err)
{
    static const char *const words[SECTIONS] = {"scope", "region", "node"};
    fields f = {.object = object, .err = err, .scratch = fb_arena_new()};
    int64_t said;
    bool ok = get_integer(&f, "id", id, id, &said) && (s == SCOPES    ? read_scope(&f, g)
                                                       : s == REGIONS ? read_region(&f, g, id)
                                                                      : read_node(&f, g));
    fb_arena_free(f.scratch);
    return ok || fb_fail_prefix(err, "%s %lld", words[s], (long long)id);
}

static bool read_head(fb_graph_reader *r, fields *f)
{
    int version;
    if (!get_int(f, "fusebox_graph", 1, 1, &version)) return fb_fail_prefix(f->err, "no graph that this version reads");
    const char *title = json_string_value(ask(f, "title"));
    json_t *canonical = ask(f, "canonical");
    if (canonical && !json_is_boolean(canonical))
        return fb_fail(f->err, FB_ERR_INPUT, "field \"canonical\" is not true or false");
    r->canonical = json_is_true(canonical);
    r->g = fb_graph_new(title);
    return true;
}

/* Is a graph that says so canonical? What the pass makes of it is then the same. */
static bool check_canonical(fb_graph *g, fb_error *err)
{
    fb_graph *again = fb_graph_canonical(g, err);
    if (!again) return false;
    g->canonical = fb_hash_equal(again->hash, g->hash);
    fb_graph_free(again);
    return g->canonical || fb_fail(err, FB_ERR_INPUT, "the graph says that it is canonical, but is not");
}

static bool read_tail(fb_graph_reader *r, fields *f, bool needs_hash)
{
    json_t *outputs, *output;
    size_t i;
    ask(f, "outputs");
    if (!fb_json_get_array(f->object, "outputs", &outputs, f->err)) return false;
    json_array_foreach(outputs, i, output)
    {
        fields o = {.object = output, .err = f->err};
        const char *name;
        int node;
        bool ok = get_string(&o, "name", &name) && get_int(&o, "node", 0, FB_MAX_NODES, &node) && nothing_left(&o) &&
                  fb_build_output(r->g, node, name, f->err);
        if (!ok) return fb_fail_prefix(f->err, "output %zu", i);
    }
    fb_hash said;
    const char *hex = NULL;
    if ((ask(f, "hash") || needs_hash) && !get_string(f, "hash", &hex)) return false;
    if (hex && !fb_hash_parse(hex, &said)) return fb_fail(f->err, FB_ERR_INPUT, "field \"hash\" is no hash");
    if (!nothing_left(f) || !fb_graph_finish(r->g, f->err)) return false;
    if (hex && !fb_hash_equal(said, r->g->hash))
        return fb_fail(f->err, FB_ERR_INPUT, "the graph's hash does not fit its content");
    if (r->canonical && !check_canonical(r->g, f->err)) return false;
    return r->done = true;
}

/* ---- the document ---- */

static bool read_section(fb_graph_reader *r, fields *f, int s)
{
    json_t *list = ask(f, sections[s].key), *record;
    size_t i;
    if (!list && s != NODES) return true;
    if (!json_is_array(list)) return fb_fail(f->err, FB_ERR_INPUT, "field \"%s\" is not an array", sections[s].key);
    json_array_foreach(list, i, record) if (!read_record(r->g, s, (int64_t)i, record, f->err)) return false;
    return true;
}

fb_graph *fb_graph_read_json(const char *text, size_t n, fb_error *err)
{
    json_t *document = fb_json_parse(text, n, err);
    if (!document) return NULL;
    fb_graph_reader r = {0};
    fields f = {.object = document, .err = err};
    bool ok = read_head(&r, &f);
    for (int s = 0; s < SECTIONS; s++) ok = ok && read_section(&r, &f, s);
    ok = ok && read_tail(&r, &f, false);
    json_decref(document);
    if (ok) return r.g;
    fb_graph_free(r.g);
    return NULL;
}

/* ---- lines ---- */

fb_graph_reader *fb_graph_reader_new(void)
{
    return fb_calloc(1, sizeof(fb_graph_reader));
}

static bool read_header_line(fb_graph_reader *r, fields *f)
{
    if (!read_head(r, f)) return false;
    for (int s = 0; s < SECTIONS; s++)
        if (!get_int(f, sections[s].count, s == REGIONS, FB_MAX_NODES, &r->want[s])) return false;
    return nothing_left(f);
}

/* Line 0 is the header; then the sections follow, then the tail. */
static bool read_line(fb_graph_reader *r, const json_t *object, fb_error *err)
{
    fields f = {.object = object, .err = err};
    int64_t at = r->lines++;
    if (r->done) return fb_fail(err, FB_ERR_INPUT, "the graph is complete already");
    if (at-- == 0) return read_header_line(r, &f);
    for (int s = 0; s < SECTIONS; s++) {
        if (at < r->want[s]) return read_record(r->g, s, at, object, err);
        at -= r->want[s];
    }
    return read_tail(r, &f, true);
}

bool fb_graph_reader_feed(fb_graph_reader *r, const char *text, size_t n, bool *done, fb_error *err)
{
    *done = false;
    if (r->failed) return fb_fail(err, FB_ERR_INPUT, "the graph had an error before");
    json_t *object = fb_json_parse(text, n, err);
    bool ok = object && read_line(r, object, err);
    json_decref(object);
    r->failed = !ok;
    *done = ok && r->done;
    return ok;
}

fb_graph *fb_graph_reader_take(fb_graph_reader *r)
{
    fb_graph *g = r->done && !r->failed ? r->g : NULL;
    if (g) r->g = NULL;
    return g;
}

void fb_graph_reader_free(fb_graph_reader *r)
{
    if (!r) return;
    fb_graph_free(r->g);
    fb_free(r);
}
