/* A run's spans and metrics as JSON, and as a trace for Perfetto. Needs times in µs from one beginning. */
#include "measure/timeline.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fb_timeline *fb_timeline_new(void)
{
    fb_arena *arena = fb_arena_new();
    fb_timeline *t = FB_NEW(arena, fb_timeline);
    *t = (fb_timeline){.arena = arena};
    return t;
}

void fb_timeline_free(fb_timeline *t)
{
    if (t) fb_arena_free(t->arena);
}

int64_t fb_timeline_kernels(const fb_timeline *t)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t->n_spans; i++) n += t->spans[i].lane == FB_LANE_KERNEL;
    return n;
}

double fb_timeline_busy_us(const fb_timeline *t)
{
    double us = 0;
    for (int64_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].lane == FB_LANE_KERNEL) us += t->spans[i].end_us - t->spans[i].start_us;
    return us;
}

static int by_start(const void *a, const void *b)
{
    const fb_span *x = a, *y = b;
    return x->start_us != y->start_us ? (x->start_us > y->start_us) - (x->start_us < y->start_us)
                                      : (int)x->lane - (int)y->lane;
}

void fb_spans_sort(fb_span *spans, int64_t n)
{
    if (n) qsort(spans, (size_t)n, sizeof *spans, by_start);
}

double fb_spans_copied_us(const fb_span *spans, int64_t n, double *hidden_us)
{
    double all = 0, hidden = 0;
    int64_t copies = 0;
    for (int64_t i = 0; i < n; i++) copies += spans[i].lane != FB_LANE_KERNEL;
    for (int64_t c = 0; c < n && copies; c++) {
        if (spans[c].lane == FB_LANE_KERNEL) continue;
        all += spans[c].end_us - spans[c].start_us;
        for (int64_t k = 0; k < n; k++) { /* kernels of a run follow each other: no stretch counts twice */
            double from = fmax(spans[c].start_us, spans[k].start_us), to = fmin(spans[c].end_us, spans[k].end_us);
            if (spans[k].lane == FB_LANE_KERNEL && to > from) hidden += to - from;
        }
    }
    *hidden_us = fmin(hidden, all);
    return all;
}

/* ---- JSON: {"names":[…],"kernels":[…],"spans":[[index,start,end,issued,issue
 * ended,stream{,lane}],…],"metrics":{…},"no_metrics":…}
 * ---- */

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static double null_or_number(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static json_t *numbers(const double *values, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(array, number_or_null(values[i]));
    return array;
}

static json_t *metrics_to_json(const fb_metric_log *m)
{
    json_t *names = json_array();
    for (int i = 0; i < m->n_metrics; i++) json_array_append_new(names, json_string(m->metric[i]));
    return json_pack("{s:o, s:f, s:o, s:o, s:o}", "names", names, "interval_us", m->interval_us, "at_us",
                     numbers(m->at_us, m->n), "values", numbers(m->value, m->n * m->n_metrics), "runs",
                     numbers(m->run_us, 2 * m->n_runs));
}

json_t *fb_timeline_to_json(const fb_timeline *t)
{
    json_t *names = json_array(), *spans = json_array();
    for (int i = 0; i < t->n_names; i++) json_array_append_new(names, json_string(t->names[i]));
    for (int64_t i = 0; i < t->n_spans; i++) {
        const fb_span *s = &t->spans[i];
        json_t *one = json_pack("[i, f, f, o, o, i]", s->index, s->start_us, s->end_us,
                                number_or_null(s->issue_start_us), number_or_null(s->issue_end_us), s->stream);
        if (s->lane != FB_LANE_KERNEL) json_array_append_new(one, json_integer(s->lane));
        json_array_append_new(spans, one);
    }
    json_t *all = json_pack("{s:o, s:o}", "names", names, "spans", spans), *kernels = t->kernels ? json_array() : NULL;
    for (int i = 0; kernels && i < t->n_names; i++) json_array_append_new(kernels, json_integer(t->kernels[i]));
    if (kernels) json_object_set_new(all, "kernels", kernels);
    if (t->metrics.n_metrics) json_object_set_new(all, "metrics", metrics_to_json(&t->metrics));
    if (t->no_metrics) json_object_set_new(all, "no_metrics", json_string(t->no_metrics));
    return all;
}

static bool read_names(fb_timeline *t, const json_t *value, fb_error *err)
{
    json_t *names, *one;
    size_t i;
    if (!fb_json_get_array(value, "names", &names, err)) return false;
    t->names = FB_NEW_ARRAY(t->arena, const char *, json_array_size(names));
    json_array_foreach(names, i, one)
    {
        if (!json_is_string(one)) return fb_fail(err, FB_ERR_INPUT, "a timeline's name is no text");
        t->names[t->n_names++] = fb_arena_strdup(t->arena, json_string_value(one));
    }
    return true;
}

/* Where they are told. */
static bool read_kernels(fb_timeline *t, const json_t *value, fb_error *err)
{
    const json_t *kernels = json_object_get(value, "kernels"), *one;
    size_t i;
    if (!kernels) return true;
    if (!json_is_array(kernels) || json_array_size(kernels) != (size_t)t->n_names)
        return fb_fail(err, FB_ERR_INPUT, "a timeline's kernels are not as many as its names");
    t->kernels = FB_NEW_ARRAY(t->arena, int, t->n_names);
    json_array_foreach(kernels, i, one)
    {
        json_int_t kernel = json_integer_value(one);
        if (!json_is_integer(one) || kernel < -1 || kernel > INT32_MAX)
            return fb_fail(err, FB_ERR_INPUT, "a timeline's kernel is no number of one");
        t->kernels[i] = (int)kernel;
    }
    return true;
}

static bool read_span(const fb_timeline *t, const json_t *value, fb_span *s, fb_error *err)
{
    *s = (fb_span){.index = (int)json_integer_value(json_array_get(value, 0)),
                   .start_us = null_or_number(json_array_get(value, 1)),
                   .end_us = null_or_number(json_array_get(value, 2)),
                   .issue_start_us = null_or_number(json_array_get(value, 3)),
                   .issue_end_us = null_or_number(json_array_get(value, 4)),
                   .stream = (int)json_integer_value(json_array_get(value, 5))};
    int64_t lane = json_integer_value(json_array_get(value, 6)); /* 0 where there is none */
    s->lane = (fb_lane)lane;
    bool good = lane >= 0 && lane < FB_LANES && json_is_integer(json_array_get(value, 0)) && s->index >= -1 &&
                s->index < t->n_names && s->start_us <= s->end_us && !(s->issue_start_us > s->issue_end_us) &&
                isfinite(s->issue_start_us) == isfinite(s->issue_end_us);
    return good || fb_fail(err, FB_ERR_INPUT, "a timeline's span is no [index, start, end, issue, end, stream]");
}

static bool read_spans(fb_timeline *t, const json_t *value, fb_error *err)
{
    json_t *spans, *one;
    size_t i;
    if (!fb_json_get_array(value, "spans", &spans, err)) return false;
    if (json_array_size(spans) > FB_TIMELINE_SPANS)
        return fb_fail(err, FB_ERR_LIMIT, "a timeline has more than %d spans", FB_TIMELINE_SPANS);
    t->spans = FB_NEW_ARRAY(t->arena, fb_span, json_array_size(spans));
    json_array_foreach(spans, i, one)
    {
        if (!read_span(t, one, &t->spans[t->n_spans++], err)) return false;
    }
    return true;
}

static double *read_numbers(fb_timeline *t, const json_t *array)
{
    size_t n = json_array_size(array);
    double *values = FB_NEW_ARRAY(t->arena, double, n);
    for (size_t i = 0; i < n; i++) values[i] = null_or_number(json_array_get(array, i));
    return values;
}

static bool read_metrics(fb_timeline *t, const json_t *value, fb_error *err)
{
    fb_metric_log *m = &t->metrics;
    json_t *names, *at, *values, *runs, *one;
    size_t i;
    if (!fb_json_get_array(value, "names", &names, err) || !fb_json_get_array(value, "at_us", &at, err) ||
        !fb_json_get_array(value, "values", &values, err) || !fb_json_get_array(value, "runs", &runs, err) ||
        !fb_json_get_number(value, "interval_us", &m->interval_us, err))
        return false;
    size_t n_names = json_array_size(names), n = json_array_size(at);
    if (n_names < 1 || n_names > FB_METRICS || json_array_size(values) != n * n_names || json_array_size(runs) % 2)
        return fb_fail(err, FB_ERR_INPUT, "a timeline's metrics do not fit together");
    json_array_foreach(names, i, one)
    {
        if (!json_is_string(one)) return fb_fail(err, FB_ERR_INPUT, "a metric's name is no text");
        m->metric[i] = fb_arena_strdup(t->arena, json_string_value(one));
    }
    m->n_metrics = (int)n_names;
    m->n = (int64_t)n;
    m->n_runs = (int64_t)json_array_size(runs) / 2;
    m->at_us = read_numbers(t, at);
    m->value = read_numbers(t, values);
    m->run_us = read_numbers(t, runs);
    fb_metric_log_begin(m); /* recordings have that sample */
    return true;
}

fb_timeline *fb_timeline_from_json(const json_t *value, fb_error *err)
{
    fb_timeline *t = fb_timeline_new();
    const json_t *metrics = json_object_get(value, "metrics");
    const char *why = fb_json_string_or(value, "no_metrics", NULL);
    if (why) t->no_metrics = fb_arena_strdup(t->arena, why);
    if (read_names(t, value, err) && read_kernels(t, value, err) && read_spans(t, value, err) &&
        (!metrics || read_metrics(t, metrics, err)))
        return t;
    fb_timeline_free(t);
    return NULL;
}

/* ---- the Trace Event Format ---- */

enum {
    TRACK_LAUNCHES = 1,
    TRACK_RUNS = 2,
    TRACK_IN = 8,
    TRACK_KERNELS = 10,
    TRACK_OUT = 90
}; /* kernels: and one a
       further stream */

typedef struct {
    json_t *events;
    int process;
} trace;

static void call_it(trace *w, const char *what, int track, const char *key, const char *name)
{
    json_array_append_new(w->events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid",
                                               w->process, "tid", track, "args", key, name));
}

static void slice(trace *w, int track, const char *name, double start, double end)
{
    json_array_append_new(w->events, json_pack("{s:s, s:s, s:i, s:i, s:f, s:f}", "ph", "X", "name", name, "pid",
                                               w->process, "tid", track, "ts", start, "dur", end - start));
}

static void arrow(trace *w, int64_t number, double from, int track, double to)
{
    char id[48];
    snprintf(id, sizeof id, "%d.%lld", w->process, (long long)number);
    json_array_append_new(w->events,
                          json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f}", "ph", "s", "cat", "launch", "name", "launch",
                                    "id", id, "pid", w->process, "tid", TRACK_LAUNCHES, "ts", from));
    json_array_append_new(w->events,
                          json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:f}", "ph", "f", "bp", "e", "cat", "launch",
                                    "name", "launch", "id", id, "pid", w->process, "tid", track, "ts", to));
}

static const char *name_of(const fb_timeline *t, const fb_span *s)
{
    return s->index >= 0 ? t->names[s->index] : "(unknown)";
}

static bool same_call(const fb_span *a, const fb_span *b)
{
    return isfinite(a->issue_start_us) && a->issue_start_us == b->issue_start_us;
}

/* The call of span i, unless an earlier span has shown it: kernels of one call follow each other. */
static void add_call(trace *w, const fb_timeline *t, int64_t i)
{
    const fb_span *s = &t->spans[i];
    if (!isfinite(s->issue_start_us) || (i && same_call(s - 1, s))) return;
    int64_t last = i;
    bool alike = true;
    while (last + 1 < t->n_spans && same_call(s, &t->spans[last + 1])) alike &= t->spans[++last].index == s->index;
    slice(w, TRACK_LAUNCHES, alike ? name_of(t, s) : "launch of a graph", s->issue_start_us, s->issue_end_us);
}

static int track_of(const fb_timeline *t, const fb_span *s)
{
    int64_t first = 0; /* kernel: its stream is the plan's */
    if (s->lane != FB_LANE_KERNEL) return s->lane == FB_LANE_IN ? TRACK_IN : TRACK_OUT;
    while (t->spans[first].lane != FB_LANE_KERNEL) first++;
    return TRACK_KERNELS + (s->stream == t->spans[first].stream ? 0 : 1 + abs(s->stream % 64));
}

static bool has_lane(const fb_timeline *t, fb_lane lane)
{
    for (int64_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].lane == lane) return true;
    return false;
}

static void add_span(trace *w, const fb_timeline *t, int64_t i)
{
    const fb_span *s = &t->spans[i];
    int track = track_of(t, s);
    add_call(w, t, i);
    slice(w, track, name_of(t, s), s->start_us, s->end_us);
    if (isfinite(s->issue_start_us) && s->issue_end_us < s->end_us) arrow(w, i, s->issue_start_us, track, s->start_us);
}

static double end_of(const fb_timeline *t)
{
    double end = 0;
    for (int64_t i = 0; i < t->n_spans; i++) end = fmax(end, t->spans[i].end_us);
    return end;
}

/* Behind the run that the kernels are of, for they are other runs; the clocks of samples and runs agree to some 10 µs.
 */
static void add_metrics(trace *w, const fb_metric_log *m, double from)
{
    if (!m->n_metrics) return;
    call_it(w, "thread_name", TRACK_RUNS, "name", "runs while metrics were sampled");
    for (int64_t i = 0; i < m->n_runs; i++)
        slice(w, TRACK_RUNS, "run", from + m->run_us[2 * i], from + m->run_us[2 * i + 1]);
    for (int64_t i = 0; i < m->n; i++) {
        for (int k = 0; k < m->n_metrics; k++) {
            double value = m->value[i * m->n_metrics + k];
            if (!isfinite(value)) continue;
            char name[96];
            snprintf(name, sizeof name, "%.80s %%", m->metric[k]);
            json_array_append_new(w->events,
                                  json_pack("{s:s, s:s, s:i, s:f, s:{s:f}}", "ph", "C", "name", name, "pid", w->process,
                                            "ts", from + m->at_us[i], "args", "percent", 100 * value));
        }
    }
}

void fb_timeline_events(const fb_timeline *t, int process, const char *name, json_t *events)
{
    trace w = {events, process};
    char label[96], busy[32], all[32];
    double end = end_of(t);
    snprintf(label, sizeof label, "busy %s of %s", fb_format_us(busy, fb_timeline_busy_us(t)), fb_format_us(all, end));
    call_it(&w, "process_name", 0, "name", name);
    call_it(&w, "process_labels", 0, "labels", label);
    call_it(&w, "thread_name", TRACK_LAUNCHES, "name", "launches (host)");
    call_it(&w, "thread_name", TRACK_KERNELS, "name", "kernels (device)");
    if (has_lane(t, FB_LANE_IN)) call_it(&w, "thread_name", TRACK_IN, "name", "copies in");
    if (has_lane(t, FB_LANE_OUT)) call_it(&w, "thread_name", TRACK_OUT, "name", "copies out");
    for (int64_t i = 0; i < t->n_spans; i++) add_span(&w, t, i);
    add_metrics(&w, &t->metrics, ceil(end / 100 + 1) * 100);
}

bool fb_timeline_write(const char *path, json_t *events, fb_error *err)
{
    json_t *all = json_pack("{s:O, s:s}", "traceEvents", events, "displayTimeUnit", "ns");
    char *text = fb_json_shown_line(all);
    bool good = fb_write_file(path, text, strlen(text), err);
    fb_free(text);
    json_decref(all);
    return good;
}
