/* Sources: what an input, parameter, feed, constant, iota or random tensor holds under a seed. */
#include "interp/input.h"
#include "interp/parts.h"

#include "base/mem.h"
#include "base/rng.h"
#include "graph/element.h"
#include "graph/intmath.h"

#include <string.h>

/* ---- values that are all alike ---- */

static const struct {
    const char *name;
    uint64_t seed;
    double value;
} kinds[FB_INPUT_KINDS] = {[FB_INPUT_NOISE] = {.name = "noise"},
                           [FB_INPUT_ZEROS] = {"zeros", FB_SEED_ZEROS, 0},
                           [FB_INPUT_ONES] = {"ones", FB_SEED_ONES, 1}};

const char *fb_input_kind_name(fb_input_kind kind)
{
    return kinds[kind].name;
}

bool fb_input_kind_parse(const char *name, fb_input_kind *out)
{
    int k = 0;
    while (k < FB_INPUT_KINDS && strcmp(kinds[k].name, name) != 0) k++;
    if (k == FB_INPUT_KINDS) return false;
    *out = (fb_input_kind)k;
    return true;
}

fb_input_kind fb_input_kind_of(uint64_t seed)
{
    fb_input_kind kind = FB_INPUT_KINDS - 1;
    while (kind != FB_INPUT_NOISE && kinds[kind].seed != seed) kind--;
    return kind;
}

uint64_t fb_input_seed(fb_input_kind kind, uint64_t noise)
{
    return kind == FB_INPUT_NOISE ? noise : kinds[kind].seed;
}

/* Under this seed, whatever distribution or file it is of? */
static bool is_alike(const fb_node *node, uint64_t seed)
{
    bool given = node->op == FB_OP_INPUT || node->op == FB_OP_PARAM || node->op == FB_OP_FEED;
    return given && fb_dtype_is_float(node->dtype) && fb_input_kind_of(seed) != FB_INPUT_NOISE;
}

/* Elements from … from + count of a source that is a distribution; for integers the value is truncated. */
static void fill_distribution(const fb_node *node, uint64_t seed, int64_t from, int64_t count, double *v, int64_t *i)
{
    const fb_attrs *at = node->attrs;
    uint64_t key = node->op == FB_OP_RANDOM ? fb_splitmix64(at->seed) : fb_rng_key(seed, node->name);
    if (at->dist == FB_DIST_INTEGER) {
        int64_t low = fb_int_of(at->value), high = fb_int_of(at->high);
        for (int64_t k = 0; k < count; k++) {
            int64_t value = fb_rng_integer(fb_rng_bits(key, (uint64_t)(from + k)), low, high);
            if (v)
                v[k] = (double)value;
            else
                i[k] = value;
        }
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        uint64_t bits = fb_rng_bits(key, (uint64_t)(from + k));
        double value = at->value;
        if (at->dist == FB_DIST_UNIFORM) value = fb_rng_uniform(bits, at->value, at->high);
        if (at->dist == FB_DIST_NORMAL) value = fb_rng_normal(bits, at->value, at->high);
        if (v)
            v[k] = value;
        else
            i[k] = node->dtype == FB_BOOL ? value != 0 : fb_int_of(value);
    }
}

static void fill_iota(const fb_node *node, int64_t from, int64_t count, double *v, int64_t *i)
{
    int dim = node->attrs->dim;
    int64_t inner = 1, n = node->shape.rank ? node->shape.dim[dim] : 1;
    for (int d = dim + 1; d < node->shape.rank; d++) inner *= node->shape.dim[d];
    for (int64_t k = 0; k < count; k++) {
        int64_t index = (from + k) / inner % n;
        if (v)
            v[k] = (double)index;
        else
            i[k] = index;
    }
}

static bool fill_file(const fb_node *node, fb_file_values files, void *ctx, int64_t from, int64_t count, double *v,
                      int64_t *i, fb_error *err)
{
    const char *key = node->attrs->file;
    int64_t n = fb_shape_elements(&node->shape);
    double *all = fb_try_alloc((size_t)(n ? n : 1) * sizeof *all);
    if (!all)
        return fb_fail(err, FB_ERR_LIMIT, "%s: no memory for the %lld values of its file", node->name, (long long)n);
    bool ok = files && key && files(ctx, key, n, all);
    for (int64_t k = 0; ok && k < count; k++) {
        if (v)
            v[k] = all[from + k];
        else
            i[k] = node->dtype == FB_BOOL ? all[from + k] != 0 : fb_int_of(all[from + k]);
    }
    fb_free(all);
    if (!ok) return fb_fail(err, FB_ERR_INPUT, "%s: its file %s is not there", node->name, key ? key : "(unnamed)");
    return true;
}

/* Floats into v, the others into i, rounded and wrapped to the dtype. */
static bool source_values(const fb_node *node, uint64_t seed, fb_file_values files, void *ctx, int64_t from,
                          int64_t count, double *v, int64_t *i, fb_error *err)
{
    if (is_alike(node, seed)) {
        for (int64_t k = 0; k < count; k++) v[k] = kinds[fb_input_kind_of(seed)].value;
    } else if (node->op == FB_OP_IOTA) {
        fill_iota(node, from, count, v, i);
    } else if (node->op == FB_OP_CONST) {
        int64_t whole = node->dtype == FB_BOOL ? node->attrs->value != 0 : fb_int_of(node->attrs->value);
        for (int64_t k = 0; k < count; k++) {
            if (v)
                v[k] = node->attrs->value;
            else
                i[k] = whole;
        }
    } else if (node->attrs->dist == FB_DIST_FILE) {
        if (!fill_file(node, files, ctx, from, count, v, i, err)) return false;
    } else {
        fill_distribution(node, seed, from, count, v, i);
    }
    if (v) fb_elements_round(node->dtype, count, v, v);
    for (int64_t k = 0; i && k < count; k++) i[k] = fb_int_wrap(node->dtype, i[k]);
    return true;
}

bool fb_eval_source(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    const fb_interp_options *o = in->o;
    int64_t n = fb_shape_elements(&node->shape);
    fb_value value = {.data = fb_buffer_new(in, id, n)};
    if (!value.data) return false;
    bool is_float = fb_dtype_is_float(node->dtype);
    if (!source_values(node, o->seed, o->files, o->files_ctx, 0, n, is_float ? value.data->at->f : NULL,
                       is_float ? NULL : value.data->at->i, in->err)) {
        fb_interp_drop_value(in, &value);
        return false;
    }
    in->values[id] = value;
    return true;
}

bool fb_interp_fill_source(const fb_graph *g, fb_id id, uint64_t seed, fb_file_values files, void *files_ctx,
                           int64_t from, int64_t count, void *out, fb_error *err)
{
    enum { CHUNK = 4096 };
    const fb_node *node = &g->nodes[id];
    bool is_float = fb_dtype_is_float(node->dtype);
    /* A file comes as a whole, so it is read at once; the rest goes through a chunk that stays in the cache. */
    bool whole = node->op != FB_OP_CONST && node->op != FB_OP_IOTA && node->attrs->dist == FB_DIST_FILE;
    int64_t chunk = whole || count < CHUNK ? count : CHUNK;
    union {
        double *v;
        int64_t *i;
    } room = {.v = fb_try_alloc((size_t)(chunk ? chunk : 1) * sizeof(double))};
    if (!room.v) return fb_fail(err, FB_ERR_LIMIT, "%s: no memory for its %lld values", node->name, (long long)chunk);
    bool ok = true;
    for (int64_t done = 0; ok && done < count; done += chunk) {
        int64_t n = count - done < chunk ? count - done : chunk;
        char *to = (char *)out + done * fb_dtype_size(node->dtype);
        ok = source_values(node, seed, files, files_ctx, from + done, n, is_float ? room.v : NULL,
                           is_float ? NULL : room.i, err);
        if (ok && is_float)
            fb_elements_store(node->dtype, n, room.v, to);
        else if (ok)
            fb_elements_store_int(node->dtype, n, room.i, to);
    }
    fb_free(room.v);
    return ok;
}
