/* A tensor to look at: statistics of its bytes, its error by element, and the way through JSON.
 *
 * requires  all elements of a node in its dtype; for the error the sources that the graph was given
 * provides  fb_values
 *
 * Numbers are doubles here: an i64 beyond 2^53 is shown rounded. */
#include "measure/values.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "graph/element.h"
#include "measure/judging.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 14, LARGE = 1 << 22, SAMPLE = 1 << 18 };

/* ---- elements ---- */

static void load(fb_dtype dtype, int64_t n, const void *from, double *to)
{
    int64_t whole[PIECE];
    if (fb_dtype_is_float(dtype)) {
        fb_elements_load(dtype, n, from, to);
        return;
    }
    fb_elements_load_int(dtype, n, from, whole);
    for (int64_t i = 0; i < n; i++) to[i] = (double)whole[i];
}

/* Calls `take` for all elements, a piece at a time. */
static void each_piece(const fb_values *v, const void *bytes, void (*take)(fb_values *v, int64_t n, const double *x),
                       fb_values *to)
{
    double x[PIECE];
    int size = fb_dtype_size(v->dtype);
    for (int64_t at = 0, n; at < v->elements; at += n) {
        n = v->elements - at < PIECE ? v->elements - at : PIECE;
        load(v->dtype, n, (const char *)bytes + at * size, x);
        take(to, n, x);
    }
}

/* Sums: mean and deviation are made of them at the end. */
static void take_range(fb_values *v, int64_t n, const double *x)
{
    for (int64_t i = 0; i < n; i++) {
        v->zeros += x[i] == 0;
        v->nans += isnan(x[i]) != 0;
        v->infinities += isinf(x[i]) != 0;
        if (!isfinite(x[i])) continue;
        if (!(v->min <= x[i])) v->min = x[i];
        if (!(v->max >= x[i])) v->max = x[i];
        v->mean += x[i];
    }
}

static void take_spread(fb_values *v, int64_t n, const double *x)
{
    double step = (v->max - v->min) / FB_VALUES_BINS;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) continue;
        double off = x[i] - v->mean;
        v->deviation += off * off;
        int k = step > 0 ? (int)((x[i] - v->min) / step) : 0;
        v->bin[k < FB_VALUES_BINS ? k : FB_VALUES_BINS - 1]++;
    }
}

static void take_corner(fb_values *v, const void *bytes)
{
    const fb_shape *s = &v->shape;
    int64_t wide = s->rank ? s->dim[s->rank - 1] : 1, high = s->rank > 1 ? s->dim[s->rank - 2] : 1;
    if (!v->elements) return;
    v->columns = (int)(wide < FB_VALUES_CORNER ? wide : FB_VALUES_CORNER);
    v->rows = (int)(high < FB_VALUES_CORNER ? high : FB_VALUES_CORNER);
    for (int r = 0; r < v->rows; r++)
        load(v->dtype, v->columns, (const char *)bytes + r * wide * fb_dtype_size(v->dtype),
             v->corner + r * v->columns);
}

static fb_values *values_new(void)
{
    fb_arena *arena = fb_arena_new();
    fb_values *v = FB_NEW(arena, fb_values);
    *v = (fb_values){
        .arena = arena, .min = NAN, .max = NAN, .max_abs = NAN, .max_rel = NAN, .bound = NAN, .right = true};
    return v;
}

fb_values *fb_values_of(const fb_graph *g, fb_id node, const char *from, const void *bytes)
{
    fb_values *v = values_new();
    const fb_node *n = &g->nodes[node];
    v->node = fb_arena_strdup(v->arena, n->name);
    v->from = fb_arena_strdup(v->arena, from);
    v->dtype = n->dtype;
    v->shape = n->shape;
    v->elements = fb_shape_elements(&n->shape);
    each_piece(v, bytes, take_range, v);
    int64_t finite = v->elements - v->nans - v->infinities;
    v->mean = finite ? v->mean / (double)finite : NAN;
    if (finite) each_piece(v, bytes, take_spread, v);
    v->deviation = finite ? sqrt(v->deviation / (double)finite) : NAN;
    take_corner(v, bytes);
    return v;
}

void fb_values_free(fb_values *v)
{
    if (v) fb_arena_free(v->arena);
}

const char *fb_values_at(const fb_shape *shape, int64_t element, char to[128])
{
    int64_t at[FB_MAX_RANK];
    int n = 0;
    for (int d = shape->rank; d-- > 0; element /= shape->dim[d]) at[d] = element % shape->dim[d];
    to[0] = '\0';
    for (int d = 0; d < shape->rank && n < 110; d++)
        n += snprintf(to + n, 128 - (size_t)n, "%s%lld", d ? "," : "[", (long long)at[d]);
    if (shape->rank) snprintf(to + n, 128 - (size_t)n, "]");
    return to;
}

/* ---- the error ---- */

/* Blocks come from several threads; one at a time is judged. */
typedef struct {
    pthread_mutex_t lock;
    fb_values *v;
    const char *bytes;
    fb_judge_shape shape;
    fb_judgement judge;
    fb_spread spread;
} comparing;

static double off_by(double got, double expected)
{
    if (got == expected || (isnan(got) && isnan(expected))) return 0;
    double off = fabs(got - expected);
    return isnan(off) ? INFINITY : off;
}

static void note_error(fb_values *v, int64_t element, double got, double expected)
{
    double off = off_by(got, expected);
    int at = v->n_worst;
    if (!(off > 0)) return;
    while (at > 0 && off > off_by(v->worst[at - 1].got, v->worst[at - 1].expected)) at--;
    if (at == FB_VALUES_WORST) return;
    if (v->n_worst < FB_VALUES_WORST) v->n_worst++;
    memmove(v->worst + at + 1, v->worst + at, (size_t)(v->n_worst - 1 - at) * sizeof *v->worst);
    v->worst[at] = (fb_value_error){element, got, expected};
}

/* What honest roundings leave open is no error. */
static void compare_piece(comparing *c, const fb_trial_block *b)
{
    float spread[PIECE];
    double got[PIECE];
    const char *from = c->bytes + b->first * fb_dtype_size(c->shape.dtype);
    fb_spread_add(&c->spread, &c->shape, b, spread);
    fb_judgement_add(&c->judge, &c->shape, b->first, b->n, b->v[0], b->i[0], spread, from);
    load(c->shape.dtype, b->n, from, got);
    for (int64_t k = 0; k < b->n; k++) {
        double expected = b->v[0] ? b->v[0][k] : (double)b->i[0][k];
        if (isfinite((double)spread[k])) note_error(c->v, b->first + k, got[k], expected);
    }
}

static void compare_block(void *ctx, int thread, const fb_trial_block *b)
{
    comparing *c = ctx;
    (void)thread;
    pthread_mutex_lock(&c->lock);
    for (int64_t at = 0, n; at < b->n; at += n) {
        n = b->n - at < PIECE ? b->n - at : PIECE;
        fb_trial_block piece = {.node = b->node, .want = b->want, .first = b->first + at, .n = n, .lanes = b->lanes};
        for (int l = 0; l < b->lanes; l++) {
            piece.v[l] = b->v[l] ? b->v[l] + at : NULL;
            piece.i[l] = b->i[l] ? b->i[l] + at : NULL;
        }
        compare_piece(c, &piece);
    }
    pthread_mutex_unlock(&c->lock);
}

bool fb_values_judge(fb_values *v, const fb_graph *g, fb_id node, const void *bytes, const fb_trial_options *sources,
                     fb_error *err)
{
    const fb_node *n = &g->nodes[node];
    comparing *c = fb_calloc(1, sizeof *c);
    fb_trial_options o = *sources;
    fb_error_report found;
    *c = (comparing){.v = v, .bytes = bytes, .shape = fb_judgement_shape_of(n)};
    pthread_mutex_init(&c->lock, NULL);
    fb_judgement_clear(&c->judge);
    o.trials = FB_TRIALS;
    o.sample = v->elements > LARGE ? SAMPLE : 0;
    bool ok = fb_trial_run(g, &o, &node, 1, compare_block, c, NULL, err);
    if (ok) {
        bool few = fb_judgement_end(&c->judge, &c->spread, &c->shape, n, &found);
        fb_judging again = {.g = g, .o = o, .want = &node, .got = &bytes, .n = 1};
        ok = !few || fb_judgement_again(&again, &found, err);
    }
    if (ok) {
        v->compared = found.compared;
        v->undecided = found.undecided;
        v->right = found.ok;
        v->max_abs = found.max_abs;
        v->max_rel = found.max_rel;
        v->bound = found.bound;
        if (!found.ok) v->wrong = fb_arena_strdup(v->arena, found.worst);
    }
    pthread_mutex_destroy(&c->lock);
    fb_free(c);
    return ok;
}

/* ---- JSON: a number that JSON has none for is "NaN", "inf" or "-inf"; what is not known is absent ---- */

static json_t *number(double x)
{
    if (isfinite(x)) return json_real(x);
    return json_string(isnan(x) ? "NaN" : x > 0 ? "inf" : "-inf");
}

static bool read_number(const json_t *value, double *out)
{
    const char *text = json_string_value(value);
    *out = json_is_number(value) ? json_number_value(value) : NAN;
    if (!text) return json_is_number(value);
    if (strcmp(text, "inf") == 0) *out = INFINITY;
    if (strcmp(text, "-inf") == 0) *out = -INFINITY;
    return isinf(*out) || strcmp(text, "NaN") == 0;
}

static json_t *corner_to_json(const fb_values *v)
{
    json_t *rows = json_array();
    for (int r = 0; r < v->rows; r++) {
        json_t *row = json_array();
        for (int c = 0; c < v->columns; c++) json_array_append_new(row, number(v->corner[r * v->columns + c]));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *error_to_json(const fb_values *v)
{
    json_t *worst = json_array();
    json_t *e = json_pack("{s:I, s:I, s:b}", "compared", (json_int_t)v->compared, "undecided", (json_int_t)v->undecided,
                          "ok", v->right);
    fb_json_set_number(e, "max_abs", v->max_abs);
    fb_json_set_number(e, "max_rel", v->max_rel);
    fb_json_set_number(e, "bound", v->bound);
    for (int i = 0; i < v->n_worst; i++)
        json_array_append_new(worst, json_pack("{s:I, s:o, s:o}", "element", (json_int_t)v->worst[i].element, "got",
                                               number(v->worst[i].got), "expected", number(v->worst[i].expected)));
    json_object_set_new(e, "worst", worst);
    if (v->wrong) json_object_set_new(e, "wrong", json_string(v->wrong));
    return e;
}

json_t *fb_values_to_json(const fb_values *v)
{
    json_t *shape = json_array(), *bins = json_array();
    for (int d = 0; d < v->shape.rank; d++) json_array_append_new(shape, json_integer((json_int_t)v->shape.dim[d]));
    for (int k = 0; k < FB_VALUES_BINS; k++) json_array_append_new(bins, json_integer((json_int_t)v->bin[k]));
    json_t *all = json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:I}", "node", v->node, "from", v->from, "dtype",
                            fb_dtype_name(v->dtype), "shape", shape, "elements", (json_int_t)v->elements, "zeros",
                            (json_int_t)v->zeros, "nan", (json_int_t)v->nans, "inf", (json_int_t)v->infinities);
    fb_json_set_number(all, "min", v->min);
    fb_json_set_number(all, "max", v->max);
    fb_json_set_number(all, "mean", v->mean);
    fb_json_set_number(all, "deviation", v->deviation);
    json_object_set_new(all, "histogram", bins);
    json_object_set_new(all, "corner", corner_to_json(v));
    if (v->compared) json_object_set_new(all, "error", error_to_json(v));
    return all;
}

static bool read_shape(fb_values *v, const json_t *value, fb_error *err)
{
    json_t *dims, *dim;
    size_t d;
    if (!fb_json_get_array(value, "shape", &dims, err)) return false;
    if (json_array_size(dims) > FB_MAX_RANK) return fb_fail(err, FB_ERR_INPUT, "a shape of too many dims");
    v->shape.rank = (int)json_array_size(dims);
    json_array_foreach(dims, d, dim)
    {
        json_int_t n = json_integer_value(dim);
        if (!json_is_integer(dim) || n < 0 || n > FB_MAX_ELEMENTS)
            return fb_fail(err, FB_ERR_INPUT, "a dim of a shape is no size");
        v->shape.dim[d] = n;
    }
    return true;
}

static bool read_corner(fb_values *v, const json_t *value, fb_error *err)
{
    json_t *rows, *row;
    size_t r;
    if (!fb_json_get_array(value, "corner", &rows, err)) return false;
    if (json_array_size(rows) > FB_VALUES_CORNER) return fb_fail(err, FB_ERR_INPUT, "a corner of too many rows");
    v->rows = (int)json_array_size(rows);
    v->columns = (int)json_array_size(json_array_get(rows, 0));
    if (v->columns > FB_VALUES_CORNER) return fb_fail(err, FB_ERR_INPUT, "a corner of too many columns");
    json_array_foreach(
        rows, r, row) for (int c = 0; c < v->columns;
                           c++) if (!read_number(json_array_get(row, (size_t)c),
                                                 &v->corner[(int)r * v->columns +
                                                            c])) return fb_fail(err, FB_ERR_INPUT,
                                                                                "an element of a corner is no number");
    return true;
}

static bool read_error(fb_values *v, const json_t *value, fb_error *err)
{
    const json_t *e = json_object_get(value, "error");
    json_t *worst, *one;
    size_t i;
    if (!e) return true;
    if (!fb_json_get_int(e, "compared", 0, INT64_MAX, &v->compared, err) || !fb_json_get_array(e, "worst", &worst, err))
        return false;
    v->undecided = fb_json_int_or(e, "undecided", 0);
    v->right = fb_json_bool_or(e, "ok", false);
    v->max_abs = fb_json_number_or(e, "max_abs", NAN);
    v->max_rel = fb_json_number_or(e, "max_rel", NAN);
    v->bound = fb_json_number_or(e, "bound", NAN);
    const char *wrong = json_string_value(json_object_get(e, "wrong"));
    v->wrong = wrong ? fb_arena_strdup(v->arena, wrong) : NULL;
    json_array_foreach(worst, i, one)
    {
        if (v->n_worst == FB_VALUES_WORST) break;
        fb_value_error *w = &v->worst[v->n_worst++];
        if (!fb_json_get_int(one, "element", 0, v->elements - 1, &w->element, err)) return false;
        if (!read_number(json_object_get(one, "got"), &w->got) ||
            !read_number(json_object_get(one, "expected"), &w->expected))
            return fb_fail(err, FB_ERR_INPUT, "an element that is off is no number");
    }
    return true;
}

static bool read_all(fb_values *v, const json_t *value, fb_error *err)
{
    const char *node, *from, *dtype;
    json_t *bins, *bin;
    size_t k;
    if (!fb_json_get_string(value, "node", &node, err) || !fb_json_get_string(value, "from", &from, err) ||
        !fb_json_get_string(value, "dtype", &dtype, err) || !fb_json_get_array(value, "histogram", &bins, err))
        return false;
    v->node = fb_arena_strdup(v->arena, node);
    v->from = fb_arena_strdup(v->arena, from);
    if (!fb_dtype_parse(dtype, &v->dtype)) return fb_fail(err, FB_ERR_INPUT, "there is no dtype \"%.20s\"", dtype);
    if (!read_shape(v, value, err) || !fb_json_get_int(value, "elements", 0, FB_MAX_ELEMENTS, &v->elements, err) ||
        !fb_json_get_int(value, "zeros", 0, v->elements, &v->zeros, err) ||
        !fb_json_get_int(value, "nan", 0, v->elements, &v->nans, err) ||
        !fb_json_get_int(value, "inf", 0, v->elements, &v->infinities, err))
        return false;
    if (v->elements != fb_shape_elements(&v->shape)) return fb_fail(err, FB_ERR_INPUT, "%.60s has another shape", node);
    v->min = fb_json_number_or(value, "min", NAN);
    v->max = fb_json_number_or(value, "max", NAN);
    v->mean = fb_json_number_or(value, "mean", NAN);
    v->deviation = fb_json_number_or(value, "deviation", NAN);
    json_array_foreach(bins, k, bin) if (k < FB_VALUES_BINS) v->bin[k] = json_integer_value(bin);
    return read_corner(v, value, err) && read_error(v, value, err);
}

fb_values *fb_values_from_json(const json_t *value, fb_error *err)
{
    fb_values *v = values_new();
    if (json_is_object(value) ? read_all(v, value, err) : fb_fail(err, FB_ERR_INPUT, "values are no object")) return v;
    fb_values_free(v);
    return NULL;
}
