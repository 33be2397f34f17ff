/* Reports to JSON and back. A field that is not known is left out on the way out, and NAN or -1 on the way in. */
#include "measure/report.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "measure/compare.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The figures of the source enum, in its order. */
static const char *const source_names[] = {
    [FB_SOURCE_MEASURED] = "measured",
    [FB_SOURCE_RECORDED] = "recorded",
    [FB_SOURCE_COMPOSED] = "composed",
    [FB_SOURCE_PREDICTED] = "predicted",
};
enum { SOURCES = sizeof source_names / sizeof source_names[0], MAX_KERNELS = 1 << 20 };

const char *fb_report_source_name(fb_figure_source s)
{
    return (unsigned)s < SOURCES ? source_names[s] : "unknown";
}

bool fb_kernel_calls_library(const fb_kernel_report *k)
{
    return k->family && strcmp(k->family, fb_family_name(FB_FAMILY_LIBRARY)) == 0;
}

/* ---- names of kernels ---- */

/* _ZN2at6native11some_kernelILi4EEEvPf: the last of the names before template arguments or the nested name's end. */
static bool mangled_name(const char *name, const char **from, size_t *n)
{
    const char *p = name + 2;
    size_t length = strlen(p);
    *n = 0;
    p += strspn(p, "NKSt");
    for (char *end; *p >= '1' && *p <= '9'; p = *from + *n) {
        unsigned long letters = strtoul(p, &end, 10);
        if (letters > length || letters > strlen(end)) break; /* cut off */
        *from = end;
        *n = letters;
    }
    return *n > 0;
}

/* "void at::native::(anonymous namespace)::some_kernel<float, 4>(int, float*)": what stands between the last "::" or
 * blank and the first bracket that belongs to neither a namespace nor a class. */
static bool written_name(const char *name, const char **from, size_t *n)
{
    static const char hidden[] = "(anonymous namespace)";
    int depth = 0;
    *from = name;
    *n = 0;
    for (const char *p = name; *p; p++) {
        bool opens = *p == '<' || *p == '(';
        if (!depth && !strncmp(p, hidden, sizeof hidden - 1)) {
            p += sizeof hidden - 2;
        } else if (!depth && (!strncmp(p, "::", 2) || *p == ' ')) {
            *from = p += *p == ':';
            ++*from;
            *n = 0;
        } else if (opens && !depth++ && !*n) {
            *n = (size_t)(p - *from);
            if (*p == '(') break;
        } else if ((*p == '>' || *p == ')') && depth) {
            depth--;
        }
    }
    if (!*n && !depth) *n = strlen(*from);
    return *n > 0;
}

const char *fb_kernel_short_name(char *to, size_t room, const char *name)
{
    const char *from = name;
    size_t n = strlen(name);
    bool found = !strncmp(name, "_Z", 2)                            ? mangled_name(name, &from, &n)
                 : strstr(name, "::") || !strncmp(name, "void ", 5) ? written_name(name, &from, &n)
                                                                    : false;
    if (found)
        fb_text_clean(to, room, from, n);
    else
        fb_text_clean(to, room, name, strlen(name));
    return to;
}

/* How a field of fb_report or fb_kernel_report is written. What is not known (NAN, -1, NULL, n == 0) has no key. */
typedef enum {
    FIELD_TEXT,   /* const char * */
    FIELD_NUMBER, /* double */
    FIELD_WHOLE,  /* double that counts bytes or FLOPs: written as an integer */
    FIELD_INT,    /* int */
    FIELD_INT64,  /* int64_t */
    FIELD_STAT,   /* fb_stat */
} field_kind;

typedef struct {
    const char *inside, *within; /* keys of the objects it stands in, outermost first; NULL for none */
    const char *key;
    field_kind kind;
    size_t offset;
} field;

#define REPORT(KEY, KIND, MEMBER)                                                                                      \
    {                                                                                                                  \
        .key = KEY, .kind = FIELD_##KIND, .offset = offsetof(fb_report, MEMBER)                                        \
    }
#define REPORT_BYTES(HOW, KEY, MEMBER)                                                                                 \
    {                                                                                                                  \
        .inside = "bytes", .within = HOW, .key = KEY, .kind = FIELD_WHOLE, .offset = offsetof(fb_report, MEMBER)       \
    }

#define REPORT_STATE(OF, KEY, KIND, MEMBER)                                                                            \
    {                                                                                                                  \
        .inside = "state", .within = OF, .key = KEY, .kind = FIELD_##KIND, .offset = offsetof(fb_report, state.MEMBER) \
    }

static const field report_fields[] = {
    REPORT("script", TEXT, script),
    REPORT("variant", TEXT, variant),
    REPORT("plan", TEXT, plan),
    REPORT("device", TEXT, device),
    REPORT("nodes", INT, nodes),
    REPORT("launches", INT64, launches),
    REPORT("launch_mode", TEXT, launch_mode),
    REPORT("wall_us", STAT, wall_us),
    REPORT("device_us", STAT, device_us),
    REPORT("cold_us", STAT, cold_us),
    REPORT("predicted_us", NUMBER, predicted_us),
    REPORT("gap_us", NUMBER, gap_us),
    REPORT("floor_us", NUMBER, floor_us),
    REPORT_BYTES("modelled", "read", bytes_read),
    REPORT_BYTES("modelled", "written", bytes_written),
    REPORT_BYTES("measured", "read", measured_read),
    REPORT_BYTES("measured", "written", measured_written),
    REPORT("flops", WHOLE, flops),
    REPORT("peak_bytes", WHOLE, peak_bytes),
    REPORT("compile_ms", NUMBER, compile_ms),
    REPORT_STATE("gpu", "sm_mhz", NUMBER, sm_mhz),
    REPORT_STATE("gpu", "memory_mhz", NUMBER, memory_mhz),
    REPORT_STATE("gpu", "watts", NUMBER, watts),
    REPORT_STATE("gpu", "celsius", NUMBER, celsius),
    REPORT_STATE("gpu", "capped", INT64, capped),
    REPORT_STATE("gpu", "dropped", INT64, dropped),
    REPORT_STATE("host", "steal", NUMBER, steal),
    REPORT_STATE("host", "load", NUMBER, load),
    REPORT("sums", TEXT, sums),
    REPORT("copies", TEXT, copies),
    REPORT("copy_us", STAT, copy_us),
    REPORT("copy_hidden_us", NUMBER, copy_hidden_us),
    REPORT_BYTES("copied", "in", copied_in),
    REPORT_BYTES("copied", "out", copied_out),
    REPORT("graph_hash", TEXT, graph_hash),
    REPORT("plan_hash", TEXT, plan_hash),
    REPORT("computes", TEXT, computes),
    REPORT("values", TEXT, values),
    REPORT("failed", TEXT, failed),
};

#define KERNEL(KEY, KIND, MEMBER)                                                                                      \
    {                                                                                                                  \
        .key = KEY, .kind = FIELD_##KIND, .offset = offsetof(fb_kernel_report, MEMBER)                                 \
    }
#define KERNEL_BYTES(HOW, KEY, MEMBER)                                                                                 \
    {                                                                                                                  \
        .inside = "bytes", .within = HOW, .key = KEY, .kind = FIELD_WHOLE,                                             \
        .offset = offsetof(fb_kernel_report, MEMBER)                                                                   \
    }

static const field kernel_fields[] = {
    KERNEL("name", TEXT, name),
    KERNEL("family", TEXT, family),
    KERNEL("count", INT64, count),
    KERNEL("device_us", STAT, device_us),
    KERNEL("cold_us", STAT, cold_us),
    KERNEL("predicted_us", NUMBER, predicted_us),
    KERNEL_BYTES("modelled", "read", bytes_read),
    KERNEL_BYTES("modelled", "written", bytes_written),
    KERNEL_BYTES("modelled", "apart", apart_bytes),
    KERNEL_BYTES("modelled", "apart_written", apart_written),
    KERNEL("apart_us", NUMBER, apart_us),
    KERNEL("few_us", NUMBER, few_us),
    KERNEL_BYTES("measured", "read", measured_read),
    KERNEL_BYTES("measured", "written", measured_written),
    KERNEL_BYTES("measured", "l2", l2_bytes),
    KERNEL("flops", WHOLE, flops),
    KERNEL("registers", INT, registers),
    KERNEL("shared_bytes", INT, shared_bytes),
    KERNEL("spill_bytes", INT, spill_bytes),
    KERNEL("local_bytes", WHOLE, local_bytes),
    KERNEL("occupancy", NUMBER, occupancy),
    KERNEL("group", INT, group),
    KERNEL("code", TEXT, code),
};

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* Every field unknown. */
static void fields_clear(const field *fields, size_t n, void *record)
{
    for (size_t i = 0; i < n; i++) {
        void *at = (char *)record + fields[i].offset;
        switch (fields[i].kind) {
        case FIELD_TEXT: *(const char **)at = NULL; break;
        case FIELD_NUMBER:
        case FIELD_WHOLE: *(double *)at = NAN; break;
        case FIELD_INT: *(int *)at = -1; break;
        case FIELD_INT64: *(int64_t *)at = -1; break;
        case FIELD_STAT: *(fb_stat *)at = (fb_stat){NAN, NAN, NAN, 0}; break;
        }
    }
}

fb_report *fb_report_new(void)
{
    fb_arena *arena = fb_arena_new();
    fb_report *r = FB_NEW(arena, fb_report);
    r->arena = arena;
    fields_clear(report_fields, COUNT_OF(report_fields), r);
    r->error = (fb_error_report){.max_abs = NAN, .max_rel = NAN, .bound = NAN};
    return r;
}

void fb_kernel_report_clear(fb_kernel_report *k)
{
    *k = (fb_kernel_report){0};
    fields_clear(kernel_fields, COUNT_OF(kernel_fields), k);
}

void fb_report_free(fb_report *r)
{
    if (!r) return;
    json_decref(r->params);
    json_decref(r->search);
    fb_arena_free(r->arena);
}

static const char *const state_names[] = {
    [FB_CHECK_NONE] = "none",   [FB_CHECK_CHECKING] = "checking",   [FB_CHECK_RIGHT] = "right",
    [FB_CHECK_WRONG] = "wrong", [FB_CHECK_UNDECIDED] = "undecided", [FB_CHECK_OVERFLOW] = "overflow"};
static const char *const scope_names[] = {
    [FB_JUDGED_NOTHING] = "nothing", [FB_JUDGED_WHOLE] = "whole", [FB_JUDGED_KERNELS] = "kernels"};

const char *fb_check_state_name(fb_check_state s)
{
    return state_names[s];
}

const char *fb_check_scope_name(fb_check_scope s)
{
    return scope_names[s];
}

const char fb_floor_guessed[] = "guessed";

const fb_error_report fb_error_checking = {
    .max_abs = NAN, .max_rel = NAN, .bound = NAN, .ok = true, .state = FB_CHECK_CHECKING};

bool fb_report_is_wrong(const fb_report *r)
{
    return !r->error.ok && !isnan(r->error.bound);
}

bool fb_report_busy_above_wall(const fb_report *r)
{
    return r->wall_us.n && r->device_us.n && r->device_us.median > r->wall_us.median;
}

fb_figure_source fb_report_copies_source(fb_figure_source times)
{
    return times == FB_SOURCE_MEASURED ? times : FB_SOURCE_PREDICTED;
}

double fb_report_gap(const fb_report *r)
{
    double copied = r->copy_us.n ? r->copy_us.median - r->copy_hidden_us : 0;
    if (!r->wall_us.n || !r->device_us.n || fb_report_busy_above_wall(r)) return NAN;
    return fmax(0, r->wall_us.median - r->device_us.median - copied);
}

void fb_report_withdraw(fb_report *r)
{
    r->predicted_us = r->floor_us = NAN;
    for (int i = 0; i < r->n_kernels; i++)
        r->kernels[i].predicted_us = r->kernels[i].apart_us = r->kernels[i].few_us = NAN;
    if (r->source != FB_SOURCE_PREDICTED) return;
    r->wall_us = r->cold_us = r->device_us = (fb_stat){.n = 0};
    r->gap_us = NAN;
}

bool fb_report_state_say(const fb_report *r, char to[200])
{
    char clock[40] = "";
    if (isfinite(r->state.sm_mhz)) snprintf(clock, sizeof clock, ", at %.0f MHz", r->state.sm_mhz);
    if (r->state.dropped > 0)
        snprintf(to, 200, "%lld rounds of samples are left out: the GPU was slowed down by heat or by its hardware",
                 (long long)r->state.dropped);
    else if (r->state.capped > 0)
        snprintf(to, 200, "the GPU was at its limit of power in %lld of %d rounds%s", (long long)r->state.capped,
                 r->n_rounds, clock);
    return r->state.dropped > 0 || r->state.capped > 0;
}

bool fb_report_error_says_nothing(const fb_error_report *e)
{
    return e->compared > 0 && 2 * e->undecided > e->compared;
}

bool fb_report_refresh(fb_report *r, const fb_report *later)
{
    if (r->n_kernels != later->n_kernels) return false;
    for (int i = 0; i < r->n_kernels; i++) {
        r->kernels[i].device_us = later->kernels[i].device_us;
        r->kernels[i].cold_us = later->kernels[i].cold_us;
    }
    r->wall_us = later->wall_us;
    r->device_us = later->device_us;
    r->cold_us = later->cold_us;
    r->n_rounds = later->n_rounds;
    memcpy(r->rounds, later->rounds, sizeof r->rounds);
    r->state = later->state;
    r->gap_us = later->gap_us;
    r->copy_us = later->copy_us;
    r->copy_hidden_us = later->copy_hidden_us;
    r->error = later->error;
    return true;
}

/* ---- writing ---- */

static void set_whole(json_t *object, const char *key, double value)
{
    if (!isfinite(value)) return;
    if (fabs(value) < 0x1p62)
        json_object_set_new(object, key, json_integer((json_int_t)llround(value)));
    else
        json_object_set_new(object, key, json_real(value));
}

static json_t *stat_to_json(const fb_stat *s)
{
    json_t *object = json_object();
    fb_json_set_number(object, "median", s->median);
    fb_json_set_number(object, "p10", s->p10);
    fb_json_set_number(object, "p90", s->p90);
    json_object_set_new(object, "n", json_integer(s->n));
    return object;
}

static void set_field(json_t *object, const field *f, const void *at)
{
    switch (f->kind) {
    case FIELD_TEXT:
        if (*(const char *const *)at) json_object_set_new(object, f->key, json_string(*(const char *const *)at));
        break;
    case FIELD_NUMBER: fb_json_set_number(object, f->key, *(const double *)at); break;
    case FIELD_WHOLE: set_whole(object, f->key, *(const double *)at); break;
    case FIELD_INT:
        if (*(const int *)at >= 0) json_object_set_new(object, f->key, json_integer(*(const int *)at));
        break;
    case FIELD_INT64:
        if (*(const int64_t *)at >= 0) json_object_set_new(object, f->key, json_integer(*(const int64_t *)at));
        break;
    case FIELD_STAT:
        if (((const fb_stat *)at)->n > 0) json_object_set_new(object, f->key, stat_to_json(at));
        break;
    }
}

static bool known(const field *f, const void *at)
{
    if (f->kind == FIELD_INT64) return *(const int64_t *)at >= 0;
    return (f->kind != FIELD_WHOLE && f->kind != FIELD_NUMBER) || isfinite(*(const double *)at);
}

static json_t *child_object(json_t *object, const char *key)
{
    json_t *child = json_object_get(object, key);
    if (!child) json_object_set_new(object, key, child = json_object());
    return child;
}

static void fields_write(const field *fields, size_t n, const void *record, json_t *object)
{
    for (size_t i = 0; i < n; i++) {
        const field *f = &fields[i];
        const void *at = (const char *)record + f->offset;
        json_t *where = object;
        if (f->inside) {
            if (!known(f, at)) continue;
            where = child_object(child_object(object, f->inside), f->within);
        }
        set_field(where, f, at);
    }
}

static json_t *error_to_json(const fb_error_report *e)
{
    json_t *object = json_object();
    fb_json_set_number(object, "max_abs", e->max_abs);
    fb_json_set_number(object, "max_rel", e->max_rel);
    fb_json_set_number(object, "bound", e->bound);
    if (e->undecided) json_object_set_new(object, "undecided", json_integer(e->undecided));
    if (e->undecided && e->compared) json_object_set_new(object, "compared", json_integer(e->compared));
    if (e->state != FB_CHECK_CHECKING) json_object_set_new(object, "ok", json_boolean(e->ok));
    if (e->worst[0]) json_object_set_new(object, "worst", json_string(e->worst));
    if (e->state) json_object_set_new(object, "state", json_string(fb_check_state_name(e->state)));
    if (e->scope) json_object_set_new(object, "scope", json_string(fb_check_scope_name(e->scope)));
    if (e->kernels) json_object_set_new(object, "kernels", json_integer(e->kernels));
    if (e->kernel[0]) json_object_set_new(object, "kernel", json_string(e->kernel));
    return object;
}

static void source_to_json(json_t *object, fb_figure_source source, bool stale)
{
    json_object_set_new(object, "source", json_string(fb_report_source_name(source)));
    if (stale) json_object_set_new(object, "stale", json_true());
}

/* What kind of figure a time is, and within what its median is known. A prediction was measured not even once. */
static void set_kind(json_t *object, const char *key, const fb_stat *s, double half, fb_figure_source source)
{
    json_t *time = json_object_get(object, key);
    if (!time) return;
    if (source == FB_SOURCE_PREDICTED) json_object_del(time, "n");
    json_object_set_new(time, "kind", json_string(fb_report_source_name(source)));
    fb_json_set_number(time, "low", s->median * exp(-half));
    fb_json_set_number(time, "high", s->median * exp(half));
}

static json_t *rounds_to_json(const fb_report *r)
{
    json_t *at = json_array(), *wall = json_array(), *device = json_array();
    for (int i = 0; i < r->n_rounds; i++) {
        const fb_round *one = &r->rounds[i];
        json_array_append_new(at, json_integer((json_int_t)llround(one->at_us)));
        json_array_append_new(wall, json_real(one->wall_us));
        json_array_append_new(device, isfinite(one->device_us) ? json_real(one->device_us) : json_null());
    }
    return json_pack("{s:o, s:o, s:o}", "at_us", at, "wall_us", wall, "device_us", device);
}

static json_t *kernel_to_json(const fb_kernel_report *k)
{
    json_t *object = json_object(), *nodes = json_array();
    fields_write(kernel_fields, COUNT_OF(kernel_fields), k, object);
    for (int i = 0; i < k->n_nodes; i++) json_array_append_new(nodes, json_string(k->nodes[i]));
    json_object_set_new(object, "nodes", nodes);
    char more[200];
    if (fb_kernel_moved_more(k, more)) json_object_set_new(object, "moved_more", json_string(more));
    if (k->source != FB_SOURCE_MEASURED) source_to_json(object, k->source, k->stale);
    return object;
}

json_t *fb_report_to_json(const fb_report *r)
{
    json_t *object = json_object();
    fields_write(report_fields, COUNT_OF(report_fields), r, object);
    if (r->params) json_object_set(object, "params", r->params);
    if (r->search) json_object_set(object, "search", r->search);
    if (!isnan(r->error.bound) || r->error.state) json_object_set_new(object, "error", error_to_json(&r->error));
    if (r->n_rounds) json_object_set_new(object, "rounds", rounds_to_json(r));
    if (r->failed) {
        json_object_set_new(object, "failed_kind", json_string(fb_error_kind_name(r->failed_kind)));
        return object;
    }
    char state[200];
    if (fb_report_state_say(r, state)) json_object_set_new(object, "state_note", json_string(state));
    source_to_json(object, r->source, r->stale);
    if (r->floor_guessed && isfinite(r->floor_us))
        json_object_set_new(object, "floor_kind", json_string(fb_floor_guessed));
    set_kind(object, "wall_us", &r->wall_us, fb_report_half(r, FB_TIME_WALL), r->source);
    set_kind(object, "device_us", &r->device_us, fb_report_half(r, FB_TIME_DEVICE), r->source);
    set_kind(object, "cold_us", &r->cold_us, fb_stat_half(&r->cold_us, r->source), r->source);
    fb_figure_source copies = fb_report_copies_source(r->source);
    set_kind(object, "copy_us", &r->copy_us, fb_stat_half(&r->copy_us, copies), copies);
    json_t *kernels = json_array();
    for (int i = 0; i < r->n_kernels; i++) json_array_append_new(kernels, kernel_to_json(&r->kernels[i]));
    json_object_set_new(object, "kernels", kernels);
    if (r->theirs) json_object_set_new(object, "their_plan", fb_theirs_to_json(r->theirs));
    return object;
}

/* ---- reading ---- */

static bool wrong_type(const char *key, const char *type, fb_error *err)
{
    return fb_fail(err, FB_ERR_INPUT, "field \"%s\" of a report is not %s", key, type);
}

static bool read_stat(const json_t *value, fb_stat *s, const char *key, fb_error *err)
{
    if (!json_is_object(value)) return wrong_type(key, "an object", err);
    int64_t n = 1;
    const char *kind = fb_json_string_or(value, "kind", "");
    bool counted = strcmp(kind, source_names[FB_SOURCE_PREDICTED]) != 0;
    bool ok = fb_json_get_number(value, "median", &s->median, err) &&
              (!counted || fb_json_get_int(value, "n", 1, INT32_MAX, &n, err));
    for (int i = 0; i < 2 && ok; i++) { /* a prediction has no spread */
        double *to = i ? &s->p90 : &s->p10;
        const char *name = i ? "p90" : "p10";
        *to = NAN;
        ok = !json_object_get(value, name) || fb_json_get_number(value, name, to, err);
    }
    s->n = (int)n;
    return ok || fb_fail_prefix(err, "%s", key);
}

static bool read_integer(const json_t *object, const field *f, int64_t most, int64_t *out, fb_error *err)
{
    return fb_json_get_int(object, f->key, 0, most, out, err);
}

static bool read_field(const json_t *object, const field *f, fb_arena *arena, void *at, fb_error *err)
{
    const json_t *value = json_object_get(object, f->key);
    int64_t whole = 0;
    if (!value || json_is_null(value)) return true;
    switch (f->kind) {
    case FIELD_TEXT:
        if (!json_is_string(value)) return wrong_type(f->key, "a string", err);
        *(const char **)at = fb_arena_strdup(arena, json_string_value(value));
        return true;
    case FIELD_NUMBER:
    case FIELD_WHOLE: return fb_json_get_number(object, f->key, at, err);
    case FIELD_INT:
        if (!read_integer(object, f, INT32_MAX, &whole, err)) return false;
        *(int *)at = (int)whole;
        return true;
    case FIELD_INT64: return read_integer(object, f, INT64_MAX, at, err);
    case FIELD_STAT: return read_stat(value, at, f->key, err);
    }
    return true;
}

static bool fields_read(const field *fields, size_t n, const json_t *object, fb_arena *arena, void *record,
                        fb_error *err)
{
    fields_clear(fields, n, record);
    for (size_t i = 0; i < n; i++) {
        const field *f = &fields[i];
        const json_t *where = object;
        if (f->inside) where = json_object_get(json_object_get(object, f->inside), f->within);
        if (where && !read_field(where, f, arena, (char *)record + f->offset, err)) return false;
    }
    return true;
}

static bool read_nodes(const json_t *object, fb_arena *arena, fb_kernel_report *k, fb_error *err)
{
    json_t *nodes, *item;
    size_t i;
    if (!fb_json_get_array(object, "nodes", &nodes, err)) return false;
    k->n_nodes = (int)json_array_size(nodes);
    k->nodes = FB_NEW_ARRAY(arena, const char *, k->n_nodes);
    json_array_foreach(nodes, i, item)
    {
        if (!json_is_string(item)) return wrong_type("nodes", "a list of strings", err);
        k->nodes[i] = fb_arena_strdup(arena, json_string_value(item));
    }
    return true;
}

static bool read_source(const json_t *value, fb_figure_source *source, bool *stale, fb_error *err)
{
    const char *name = fb_json_string_or(value, "source", source_names[FB_SOURCE_MEASURED]);
    *stale = fb_json_bool_or(value, "stale", false);
    for (size_t i = 0; i < SOURCES; i++) {
        if (strcmp(name, source_names[i]) != 0) continue;
        *source = (fb_figure_source)i;
        return true;
    }
    return fb_fail(err, FB_ERR_INPUT, "\"%s\" is no source of figures", name);
}

static bool read_kernels(const json_t *value, fb_report *r, fb_error *err)
{
    const json_t *kernels = json_object_get(value, "kernels"), *item;
    size_t i;
    if (!kernels) return true;
    if (!json_is_array(kernels) || json_array_size(kernels) > MAX_KERNELS) return wrong_type("kernels", "a list", err);
    r->n_kernels = (int)json_array_size(kernels);
    r->kernels = FB_NEW_ARRAY(r->arena, fb_kernel_report, r->n_kernels);
    json_array_foreach(kernels, i, item)
    {
        fb_kernel_report *k = &r->kernels[i];
        if (!json_is_object(item)) return wrong_type("kernels", "a list of objects", err);
        if (!fields_read(kernel_fields, COUNT_OF(kernel_fields), item, r->arena, k, err) ||
            !read_nodes(item, r->arena, k, err) || !read_source(item, &k->source, &k->stale, err))
            return fb_fail_prefix(err, "kernel %zu of a report", i);
        if (!k->name || !k->family)
            return fb_fail(err, FB_ERR_INPUT, "kernel %zu of a report has no name or family", i);
    }
    return true;
}

/* A figure that was not finite (a result that is not a number) has no key: it comes back as infinite. */
static bool read_error(const json_t *value, fb_error_report *e, fb_error *err)
{
    const json_t *object = json_object_get(value, "error");
    if (!object) return true;
    if (!json_is_object(object)) return wrong_type("error", "an object", err);
    if (strcmp(fb_json_string_or(object, "state", ""), fb_check_state_name(FB_CHECK_CHECKING)) == 0) {
        *e = fb_error_checking; /* whatever figures an older make put beside it */
        return true;
    }
    e->max_abs = fb_json_number_or(object, "max_abs", INFINITY);
    e->max_rel = fb_json_number_or(object, "max_rel", INFINITY);
    e->bound = fb_json_number_or(object, "bound", INFINITY);
    e->undecided = fb_json_int_or(object, "undecided", 0);
    e->compared = fb_json_int_or(object, "compared", 0);
    e->ok = fb_json_bool_or(object, "ok", false);
    const char *worst = fb_json_string_or(object, "worst", "");
    fb_text_clean(e->worst, sizeof e->worst, worst, strlen(worst));
    const char *kernel = fb_json_string_or(object, "kernel", "");
    fb_text_clean(e->kernel, sizeof e->kernel, kernel, strlen(kernel));
    e->kernels = fb_json_int_or(object, "kernels", 0);
    /* A framework's worker says whether it is right, and has compared the whole. */
    e->state = e->ok ? FB_CHECK_RIGHT : FB_CHECK_WRONG;
    e->scope = FB_JUDGED_WHOLE;
    const char *state = fb_json_string_or(object, "state", ""), *scope = fb_json_string_or(object, "scope", "");
    for (size_t i = 0; i < COUNT_OF(state_names); i++)
        if (strcmp(state, state_names[i]) == 0) e->state = (fb_check_state)i;
    for (size_t i = 0; i < COUNT_OF(scope_names); i++)
        if (strcmp(scope, scope_names[i]) == 0) e->scope = (fb_check_scope)i;
    if (!e->ok && e->state != FB_CHECK_WRONG) return fb_fail(err, FB_ERR_INPUT, "a report is not right and not wrong");
    return true;
}

/* Files of other makes may hold anything: what is no list of rounds with rising times is none. */
static void read_rounds(const json_t *value, fb_report *r)
{
    const json_t *o = json_object_get(value, "rounds"), *at = json_object_get(o, "at_us");
    const json_t *wall = json_object_get(o, "wall_us"), *device = json_object_get(o, "device_us");
    size_t n = json_array_size(at);
    r->n_rounds = 0;
    if (n > FB_ROUNDS || json_array_size(wall) != n) return;
    for (size_t i = 0; i < n; i++) {
        const json_t *busy = json_array_get(device, i);
        fb_round one = {.at_us = json_number_value(json_array_get(at, i)),
                        .wall_us = json_number_value(json_array_get(wall, i)),
                        .device_us = json_is_number(busy) ? json_number_value(busy) : NAN};
        if (!(one.wall_us > 0) || (i && !(one.at_us >= r->rounds[i - 1].at_us))) {
            r->n_rounds = 0;
            return;
        }
        r->rounds[r->n_rounds++] = one;
    }
}

fb_report *fb_report_from_json(const json_t *value, fb_error *err)
{
    if (!json_is_object(value)) {
        fb_fail(err, FB_ERR_INPUT, "a report is not a JSON object");
        return NULL;
    }
    fb_report *r = fb_report_new();
    json_t *params = json_object_get(value, "params"), *search = json_object_get(value, "search");
    bool ok = fields_read(report_fields, COUNT_OF(report_fields), value, r->arena, r, err) &&
              (!params || json_is_object(params) || wrong_type("params", "an object", err)) &&
              (!search || json_is_object(search) || wrong_type("search", "an object", err)) &&
              read_source(value, &r->source, &r->stale, err) && read_error(value, &r->error, err) &&
              read_kernels(value, r, err);
    if (!ok) {
        fb_report_free(r);
        return NULL;
    }
    read_rounds(value, r);
    if (fb_report_busy_above_wall(r)) r->gap_us = NAN; /* older makes wrote 0 */
    const json_t *theirs = json_object_get(value, "their_plan");
    if (theirs) r->theirs = fb_theirs_from_json(theirs, r->arena);
    r->floor_guessed = strcmp(fb_json_string_or(value, "floor_kind", ""), fb_floor_guessed) == 0;
    r->params = json_incref(params);
    r->search = json_incref(search);
    if (r->failed) r->failed_kind = fb_error_kind_parse(fb_json_string_or(value, "failed_kind", "system"));
    return r;
}
