/* The guesses for machines that were never measured, curves over sizes, and a machine as JSON. Rates are interpolated
 * between the points of a calibration and never go beyond its ends.
 */
#include "target/machine.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A curve as it is written below: size, rate; ends where the size is 0. */
typedef double guess_curve[FB_RATE_POINTS][2];

typedef struct {
    fb_machine plain;
    guess_curve copy_hot, copy_cold, copy_in, copy_out, gemm_f32, gemm_f64, gemm_half, gemm_tf32;
} guess;

/* A small server of a few cores: what a calibration commonly finds, rounded. */
static const guess team_guess = {
    .plain = {.name = "host",
              .units = 4,
              .memory_bytes = (int64_t)8 << 30,
              .cache_bytes = (int64_t)32 << 20,
              .shared_bytes = (int64_t)1 << 20,
              .launch_us = 2,
              .graph_launch_us = NAN,
              .call_us = NAN,
              .sync_us = 1,
              .barrier_us = 1,
              .gspecial = 12,
              .gsum = 30,
              .gsum_rows = 1,
              .ggather = 8,
              .gfar = 0.8,
              .gturn = 3,
              .glane_steps = 1.3,
              .gemm_in = 60,
              .gemm_out = 120},
    .copy_hot = {{4096, 8}, {65536, 40}, {1048576, 60}, {16777216, 40}},
    .copy_cold = {{4096, 2}, {65536, 6}, {1048576, 12}, {268435456, 16}},
    .copy_in = {{4096, 8}, {1048576, 8}, {268435456, 4}},
    .copy_out = {{4096, 8}, {1048576, 8}, {268435456, 4}},
    .gemm_f32 = {{2e4, 5}, {2e6, 60}, {2e8, 200}},
    .gemm_f64 = {{2e4, 3}, {2e6, 30}, {2e8, 100}},
    .gemm_half = {{2e4, 3}, {2e6, 40}, {2e8, 150}},
};

/* One NVIDIA H200: copies, launches, barriers and GEMM rates as measured on one, the rest from its data sheet. */
static const guess grid_guess = {
    .plain = {.name = "CUDA device",
              .units = 132,
              .compute_major = 9,
              .memory_bytes = (int64_t)141 << 30,
              .cache_bytes = (int64_t)50 << 20,
              .shared_bytes = 227 << 10,
              .registers_per_unit = 65536,
              .max_threads_per_unit = 2048,
              .launch_us = 2.9,
              .graph_launch_us = 0.58,
              .call_us = NAN,
              .sync_us = 4.6,
              .barrier_us = 0.99,
              .gspecial = 2700,
              .gsum = NAN,
              .gsum_rows = NAN,
              .ggather = NAN,
              .gfar = NAN,
              .gturn = NAN,
              .glane_steps = NAN,
              .gemm_in = NAN,
              .gemm_out = NAN},
    .copy_hot = {{65536, 40}, {1048576, 550}, {16777216, 3600}, {50331648, 5500}},
    .copy_cold = {{65536, 25}, {1048576, 300}, {16777216, 1700}, {268435456, 3800}, {8589934592, 4270}},
    .copy_in = {{4096, 0.7}, {65536, 9}, {1048576, 38}, {16777216, 53}},
    .copy_out = {{4096, 0.7}, {65536, 9}, {1048576, 38}, {16777216, 53}},
    .gemm_f32 = {{2e6, 600}, {2e9, 35000}, {1e12, 51000}},
    .gemm_f64 = {{2e6, 500}, {2e9, 30000}, {1e12, 55000}},
    .gemm_half = {{2e6, 1000}, {2e9, 150000}, {1e12, 785000}},
    .gemm_tf32 = {{2e6, 900}, {2e9, 100000}, {1e12, 409000}},
};

static fb_rate_curve curve_of(const guess_curve *g)
{
    fb_rate_curve c = {0};
    for (; c.n < FB_RATE_POINTS && (*g)[c.n][0] > 0; c.n++) c.size[c.n] = (*g)[c.n][0], c.rate[c.n] = (*g)[c.n][1];
    return c;
}

void fb_machine_default(fb_machine *m, fb_device_kind kind)
{
    const fb_target *target = fb_target_of(kind);
    const guess *g = target->grid ? &grid_guess : &team_guess;
    *m = g->plain;
    m->target = target;
    m->copy_hot = curve_of(&g->copy_hot);
    m->copy_cold = curve_of(&g->copy_cold);
    m->copy_in = curve_of(&g->copy_in);
    m->copy_out = curve_of(&g->copy_out);
    m->gemm[FB_F32] = curve_of(&g->gemm_f32);
    m->gemm[FB_F64] = curve_of(&g->gemm_f64);
    m->gemm[FB_F16] = m->gemm[FB_BF16] = curve_of(&g->gemm_half);
    m->gemm_tf32 = curve_of(&g->gemm_tf32);
    double peak = target->grid ? 60000 : 60;
    for (int d = 0; d < FB_DTYPES; d++) {
        m->gflops[d] = fb_dtype_size((fb_dtype)d) == 8 ? peak / 2 : peak;
        m->glanes[d] = target->grid || !fb_dtype_is_float((fb_dtype)d) ? NAN : m->gflops[d] / 2;
    }
}

double fb_rate_at(const fb_rate_curve *c, double size)
{
    if (c->n == 0) return NAN;
    if (!(size > c->size[0])) return c->rate[0];
    for (int i = 1; i < c->n; i++) {
        if (size >= c->size[i]) continue;
        double t = log(size / c->size[i - 1]) / log(c->size[i] / c->size[i - 1]);
        return c->rate[i - 1] + t * (c->rate[i] - c->rate[i - 1]);
    }
    return c->rate[c->n - 1];
}

double fb_rate_peak(const fb_rate_curve *c)
{
    double peak = NAN;
    for (int i = 0; i < c->n; i++) peak = fmax(peak, c->rate[i]);
    return peak;
}

static const fb_rate_curve *copy_curve(const fb_machine *m, double bytes)
{
    return bytes <= (double)m->cache_bytes && m->copy_hot.n ? &m->copy_hot : &m->copy_cold;
}

/* 1 GB/s is 1e3 bytes a µs. */
double fb_time_us(double work, double giga_a_second)
{
    return giga_a_second > 0 ? work / giga_a_second * 1e-3 : 0;
}

double fb_memory_us(const fb_machine *m, double bytes)
{
    return fb_time_us(bytes, fb_rate_at(copy_curve(m, bytes), bytes));
}

double fb_memory_among_us(const fb_machine *m, double bytes, double all)
{
    double us = fb_memory_us(m, bytes);
    if (m->target->grid || !(all > bytes)) return us;
    return fmax(us, fb_time_us(bytes, fb_rate_at(&m->copy_hot, all)));
}

/* An engine takes as long to copy one number as the least that was measured; a processor just copies it. */
static double across_us(const fb_machine *m, const fb_rate_curve *c, double bytes)
{
    double least = m->target->copy_engines && c->n && bytes > 0 ? c->size[0] : 0;
    return fb_time_us(fmax(bytes, least), fb_rate_at(c, bytes));
}

double fb_copy_in_us(const fb_machine *m, double bytes)
{
    return across_us(m, &m->copy_in, bytes);
}

double fb_copy_out_us(const fb_machine *m, double bytes)
{
    return across_us(m, &m->copy_out, bytes);
}

/* Small copies are mostly their launch: a larger one that is faster shows what the bytes take. */
static double filled_rate(const fb_rate_curve *c, double bytes)
{
    double best = fb_rate_at(c, bytes);
    for (int i = 0; i < c->n; i++)
        if (c->size[i] >= bytes && c->rate[i] > best) best = c->rate[i];
    return best;
}

double fb_memory_filled_us(const fb_machine *m, double bytes)
{
    return fb_time_us(bytes, filled_rate(copy_curve(m, bytes), bytes));
}

double fb_memory_again_us(const fb_machine *m, double bytes, double between)
{
    double near = (double)m->shared_bytes, units = fmax(m->units, 1);
    double all = between <= near ? between * units : fmax(between, near * units);
    return fb_time_us(bytes, filled_rate(&m->copy_hot, all));
}

double fb_cycles_a_us(const fb_machine *m)
{
    enum { LANES = 128, FLOPS = 2 }; /* of a multiprocessor, a fused multiply-add each */
    int lanes = m->compute_major == 8 && m->compute_minor == 0 ? LANES / 2 : LANES;
    double cycles = m->units > 0 ? m->gflops[FB_F32] * 1e3 / ((double)m->units * lanes * FLOPS) : 0;
    return cycles > 0 ? cycles : 0;
}

/* ---- JSON ---- */

/* The plain fields, by name; 0 or absent: not known. */
static const struct {
    const char *key;
    enum { INT, INT64, NUMBER } type;
    size_t at;
} field[] = {
    {"units", INT, offsetof(fb_machine, units)},
    {"compute_major", INT, offsetof(fb_machine, compute_major)},
    {"compute_minor", INT, offsetof(fb_machine, compute_minor)},
    {"registers_per_unit", INT, offsetof(fb_machine, registers_per_unit)},
    {"max_threads_per_unit", INT, offsetof(fb_machine, max_threads_per_unit)},
    {"memory_bytes", INT64, offsetof(fb_machine, memory_bytes)},
    {"cache_bytes", INT64, offsetof(fb_machine, cache_bytes)},
    {"shared_bytes", INT64, offsetof(fb_machine, shared_bytes)},
    {"launch_us", NUMBER, offsetof(fb_machine, launch_us)},
    {"graph_launch_us", NUMBER, offsetof(fb_machine, graph_launch_us)},
    {"call_us", NUMBER, offsetof(fb_machine, call_us)},
    {"sync_us", NUMBER, offsetof(fb_machine, sync_us)},
    {"barrier_us", NUMBER, offsetof(fb_machine, barrier_us)},
    {"gspecial", NUMBER, offsetof(fb_machine, gspecial)},
    {"gsum", NUMBER, offsetof(fb_machine, gsum)},
    {"gsum_rows", NUMBER, offsetof(fb_machine, gsum_rows)},
    {"ggather", NUMBER, offsetof(fb_machine, ggather)},
    {"gfar", NUMBER, offsetof(fb_machine, gfar)},
    {"gturn", NUMBER, offsetof(fb_machine, gturn)},
    {"glane_steps", NUMBER, offsetof(fb_machine, glane_steps)},
    {"gemm_in", NUMBER, offsetof(fb_machine, gemm_in)},
    {"gemm_out", NUMBER, offsetof(fb_machine, gemm_out)},
};
enum { FIELDS = sizeof field / sizeof *field };

/* [[size, rate], …] */
static json_t *curve_to_json(const fb_rate_curve *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->n; i++) json_array_append_new(list, json_pack("[f,f]", c->size[i], c->rate[i]));
    return list;
}

static bool curve_from_json(fb_rate_curve *c, const json_t *list, const char *key, fb_error *err)
{
    *c = (fb_rate_curve){0};
    if (!list) return true;
    if (!json_is_array(list) || json_array_size(list) > FB_RATE_POINTS)
        return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is not a list of at most %d pairs", key, FB_RATE_POINTS);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        double size = json_number_value(json_array_get(pair, 0)), rate = json_number_value(json_array_get(pair, 1));
        if (json_array_size(pair) != 2 || !(size > 0) || !(rate > 0) || (i && !(size > c->size[i - 1])))
            return fb_fail(err, FB_ERR_INPUT, "field \"%s\", pair %zu: not [size, rate] with ascending sizes", key,
                           i + 1);
        c->size[i] = size;
        c->rate[i] = rate;
        c->n++;
    }
    return true;
}

bool fb_machine_guessed(const fb_machine *m, const char *key)
{
    if (!m->calibrated) return true;
    if (m->links_guessed && (strcmp(key, "copy_in") == 0 || strcmp(key, "copy_out") == 0)) return true;
    if (m->products_guessed && strncmp(key, "gemm", 4) == 0) return true;
    for (const char *const *k = m->target->never_measured; k && *k; k++)
        if (strcmp(key, *k) == 0) return true;
    return false;
}

static void add_guessed(json_t *list, const fb_machine *m, const char *key, bool known)
{
    if (known && fb_machine_guessed(m, key)) json_array_append_new(list, json_string(key));
}

static json_t *guessed_to_json(const fb_machine *m)
{
    json_t *list = json_array();
    char key[32];
    for (int i = 0; i < FIELDS; i++)
        if (field[i].type == NUMBER)
            add_guessed(list, m, field[i].key, isfinite(*(const double *)((const char *)m + field[i].at)));
    add_guessed(list, m, "copy_hot", m->copy_hot.n);
    add_guessed(list, m, "copy_cold", m->copy_cold.n);
    add_guessed(list, m, "copy_in", m->copy_in.n);
    add_guessed(list, m, "copy_out", m->copy_out.n);
    add_guessed(list, m, "gemm_tf32", m->gemm_tf32.n);
    add_guessed(list, m, "convolution", m->convolution.n);
    for (int d = 0; d < FB_DTYPES; d++) {
        snprintf(key, sizeof key, "gemm.%s", fb_dtype_name((fb_dtype)d));
        add_guessed(list, m, key, m->gemm[d].n);
        snprintf(key, sizeof key, "gflops.%s", fb_dtype_name((fb_dtype)d));
        add_guessed(list, m, key, isfinite(m->gflops[d]));
        snprintf(key, sizeof key, "glanes.%s", fb_dtype_name((fb_dtype)d));
        add_guessed(list, m, key, isfinite(m->glanes[d]));
    }
    return list;
}

static bool lists(const json_t *guessed, const char *key)
{
    size_t i;
    json_t *value;
    json_array_foreach((json_t *)guessed, i, value)
    {
        if (json_is_string(value) && strcmp(json_string_value(value), key) == 0) return true;
    }
    return false;
}

json_t *fb_machine_to_json(const fb_machine *m)
{
    json_t *o = json_pack("{s:s, s:s, s:b}", "kind", m->target->device, "name", m->name, "calibrated", m->calibrated);
    if (m->doubted) json_object_set_new(o, "doubted", json_true());
    if (m->date[0]) json_object_set_new(o, "date", json_string(m->date));
    for (int i = 0; i < FIELDS; i++) {
        const char *at = (const char *)m + field[i].at;
        int64_t whole = field[i].type == INT ? *(const int *)at : field[i].type == INT64 ? *(const int64_t *)at : 0;
        if (field[i].type == NUMBER)
            fb_json_set_number(o, field[i].key, *(const double *)at);
        else if (whole)
            json_object_set_new(o, field[i].key, json_integer(whole));
    }
    json_object_set_new(o, "copy_hot", curve_to_json(&m->copy_hot));
    json_object_set_new(o, "copy_cold", curve_to_json(&m->copy_cold));
    json_object_set_new(o, "copy_in", curve_to_json(&m->copy_in));
    json_object_set_new(o, "copy_out", curve_to_json(&m->copy_out));
    json_object_set_new(o, "gemm_tf32", curve_to_json(&m->gemm_tf32));
    if (m->convolution.n) json_object_set_new(o, "convolution", curve_to_json(&m->convolution));
    json_t *gemm = json_object(), *gflops = json_object(), *glanes = json_object();
    for (int d = 0; d < FB_DTYPES; d++) {
        const char *name = fb_dtype_name((fb_dtype)d);
        if (m->gemm[d].n) json_object_set_new(gemm, name, curve_to_json(&m->gemm[d]));
        fb_json_set_number(gflops, name, m->gflops[d]);
        fb_json_set_number(glanes, name, m->glanes[d]);
    }
    json_object_set_new(o, "gemm", gemm);
    json_object_set_new(o, "gflops", gflops);
    if (json_object_size(glanes)) json_object_set(o, "glanes", glanes);
    json_decref(glanes);
    json_t *guessed = guessed_to_json(m);
    if (json_array_size(guessed)) json_object_set(o, "guessed", guessed);
    json_decref(guessed);
    return o;
}

static bool copy_text(char *to, size_t room, const json_t *value, const char *key, fb_error *err)
{
    const char *text = fb_json_string_or(value, key, "");
    if (strlen(text) >= room) return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is longer than %zu bytes", key, room - 1);
    fb_text_clean(to, room, text, strlen(text)); /* it is shown, and may come from anywhere */
    return true;
}

static bool fields_from_json(fb_machine *m, const json_t *value, fb_error *err)
{
    for (int i = 0; i < FIELDS; i++) {
        char *at = (char *)m + field[i].at;
        const json_t *v = json_object_get(value, field[i].key);
        bool good = !v || (field[i].type == NUMBER ? json_is_number(v) : json_is_integer(v));
        if (!good || (v && json_number_value(v) < 0))
            return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is not a number from 0 on", field[i].key);
        if (field[i].type == NUMBER)
            *(double *)at = v ? json_number_value(v) : NAN;
        else if (json_integer_value(v) > (field[i].type == INT ? INT32_MAX : INT64_MAX))
            return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is too large", field[i].key);
        else if (field[i].type == INT)
            *(int *)at = (int)json_integer_value(v);
        else
            *(int64_t *)at = json_integer_value(v);
    }
    return true;
}

/* Calibrations from before they were measured have the guesses. */
static bool link_from_json(fb_machine *m, const json_t *value, fb_error *err)
{
    fb_machine guessed;
    fb_machine_default(&guessed, m->target->kind);
    const json_t *in = json_object_get(value, "copy_in"), *out = json_object_get(value, "copy_out");
    m->copy_in = guessed.copy_in;
    m->copy_out = guessed.copy_out;
    m->links_guessed = m->calibrated && (!in || !out || lists(json_object_get(value, "guessed"), "copy_in"));
    return (!in || curve_from_json(&m->copy_in, in, "copy_in", err)) &&
           (!out || curve_from_json(&m->copy_out, out, "copy_out", err));
}

bool fb_machine_from_json(fb_machine *m, const json_t *value, fb_error *err)
{
    const char *kind;
    if (!json_is_object(value)) return fb_fail(err, FB_ERR_INPUT, "a machine is a JSON object");
    if (!fb_json_get_string(value, "kind", &kind, err)) return false;
    fb_machine out = {0};
    out.target = fb_target_of_device(kind);
    if (strcmp(kind, out.target->device) != 0)
        return fb_fail(err, FB_ERR_INPUT, "field \"kind\" names no kind of device");
    out.calibrated = fb_json_bool_or(value, "calibrated", false);
    out.doubted = fb_json_bool_or(value, "doubted", false);
    out.products_guessed = out.calibrated && lists(json_object_get(value, "guessed"), "gemm.f32");
    if (!copy_text(out.name, sizeof out.name, value, "name", err)) return false;
    if (!copy_text(out.date, sizeof out.date, value, "date", err)) return false;
    if (!fields_from_json(&out, value, err)) return false;
    if (!curve_from_json(&out.copy_hot, json_object_get(value, "copy_hot"), "copy_hot", err)) return false;
    if (!curve_from_json(&out.copy_cold, json_object_get(value, "copy_cold"), "copy_cold", err)) return false;
    if (!link_from_json(&out, value, err)) return false;
    if (!curve_from_json(&out.gemm_tf32, json_object_get(value, "gemm_tf32"), "gemm_tf32", err)) return false;
    if (!curve_from_json(&out.convolution, json_object_get(value, "convolution"), "convolution", err)) return false;
    for (int d = 0; d < FB_DTYPES; d++) {
        const char *name = fb_dtype_name((fb_dtype)d);
        if (!curve_from_json(&out.gemm[d], json_object_get(json_object_get(value, "gemm"), name), "gemm", err))
            return false;
        out.gflops[d] = fb_json_number_or(json_object_get(value, "gflops"), name, NAN);
        out.glanes[d] = fb_json_number_or(json_object_get(value, "glanes"), name, NAN);
    }
    *m = out;
    return true;
}
