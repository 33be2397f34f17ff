/* best: search → try the most promising on the device → the fastest → its knobs, one after the other.
 *
 * requires  a planner of the device's machine
 * provides  a plan, and what is told of how it was found
 *
 * The plan `max` is always among those tried, so that best is never slower than it but for noise. The answer is kept by
 * graph, machine and version together with a name for the code it was lowered to: where that has changed, it is made
 * again.
 */
#include "config.h"

#include "measure/best.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "decide/preset.h"
#include "decide/search.h"
#include "device/replay/recording.h"
#include "measure/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MEASURED = 6,  /* plans run */
    RECALLED = 24, /* plans looked up: that costs next to nothing */
    SAMPLES = 30,
    TUNED = 3, /* kernels whose knobs are tried */
    CACHE_BYTES = 32 << 20,
};
static const double sample_us = 150e3;    /* of each plan, at least */
static const double patience_us = 1500e3; /* of each plan, at most */
static const double hopeless = 1.6;       /* so much slower than the best after the first samples: no more of it */
static const double clearly = 0.98;       /* of the time: what is kept of a knob's effect */
static const double worth_tuning = 0.1;   /* of the plan's time in kernels */
static const double tuning_us = 10e6;     /* at most, on knobs */
static const double of_memory = 0.6;      /* what all prepared plans together may take */

typedef struct {
    fb_plan *plan; /* owned */
    double predicted_us;
    fb_measurement *m; /* NULL: not prepared, or failed */
    fb_figure_source source;
    double us, spent_us; /* wall; NAN: none */
    fb_stat wall_us;
} trial;

typedef struct {
    fb_device *d;
    fb_planner *p;
    const fb_best_options *o;
    const fb_progress *progress;
    fb_best_summary *out;
    fb_error *err;
    FB_VEC(trial) trials;
    char what[96];   /* "plan 2 of 6" */
    double from, to; /* the part of the whole that is under way */
} best;

/* ---- progress ---- */

static bool tell(best *b, const char *what, double fraction)
{
    if (!b->progress || !b->progress->step) return true;
    return b->progress->step(b->progress->ctx, what, b->from + (b->to - b->from) * fraction);
}

static bool searched(void *ctx, int64_t considered, double fraction, double best_us)
{
    char what[96], us[32];
    if (fb_planner_machine(((best *)ctx)->p)->doubted)
        snprintf(what, sizeof what, "searching: %" PRId64 " plans", considered);
    else
        snprintf(what, sizeof what, "searching: %" PRId64 " plans, predicted %s", considered,
                 isfinite(best_us) ? fb_format_us(us, best_us) : "nothing yet");
    return tell(ctx, what, fraction);
}

/* Of one plan's preparation: "plan 2 of 6: compiling 3 of 7". */
static bool trying(void *ctx, const char *what, double fraction)
{
    best *b = ctx;
    char text[192];
    snprintf(text, sizeof text, "%s: %s", b->what, what);
    (void)fraction;
    return tell(b, text, 0);
}

static void part_of(best *b, double from, double to)
{
    b->from = from;
    b->to = to;
}

/* ---- the plans to try ---- */

static bool is_there(const best *b, const fb_plan *plan)
{
    for (int i = 0; i < b->trials.n; i++)
        if (fb_plan_equal(b->trials.at[i].plan, plan)) return true;
    return false;
}

static void add_trial(best *b, fb_plan *plan)
{
    if (is_there(b, plan)) {
        fb_plan_free(plan);
        return;
    }
    FB_VEC_PUSH(&b->trials, (trial){.plan = plan, .predicted_us = fb_plan_us(plan), .us = NAN});
}

static void take(fb_plan **plan, fb_plan **edited)
{
    if (!*edited) return;
    fb_plan_free(*plan);
    *plan = *edited;
    *edited = NULL;
}

static void add_max(best *b)
{
    fb_plan *max = fb_preset_find("max")->make(b->p, NULL), *to = NULL;
    if (max && b->trials.n) {
        fb_launch_mode mode = fb_plan_launch_mode(b->trials.at[0].plan);
        fb_plan_try(max, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = mode}, &to);
        take(&max, &to);
        if (fb_plan_overlap(b->trials.at[0].plan))
            fb_plan_try(max, &(fb_edit){.kind = FB_EDIT_OVERLAP, .value = 1}, &to);
        take(&max, &to);
    }
    if (max && !fb_plan_refusal(max, NULL))
        add_trial(b, max);
    else
        fb_plan_free(max);
}

static bool search(best *b)
{
    fb_search_result found;
    bool recalls = b->d && b->d->ops->recall;
    part_of(b, 0, b->d && !recalls ? 0.25 : 0.9);
    const fb_search_options how = {
        .n_best = recalls ? RECALLED : MEASURED, .most = b->o->most, .step = searched, .ctx = b};
    if (!fb_decide_search(b->p, &how, &found, b->err)) return false;
    b->out->considered = found.considered;
    for (int i = 0; i < found.n; i++) add_trial(b, found.plan[i]);
    add_max(b);
    return b->trials.n > 0 || fb_fail(b->err, FB_ERR_INPUT, "no plan of this graph can be lowered");
}

/* ---- trying them ---- */

static bool wait_turn(best *b)
{
    return !b->o->turn || b->o->turn(b->o->turn_ctx, b->progress, b->err);
}

/* What ends the search, and not only this plan's trial. */
static bool is_fatal(const fb_error *why)
{
    return why->kind == FB_ERR_CANCELLED || why->kind == FB_ERR_CRASH;
}

static void note_failure(best *b, trial *t, const char *why)
{
    if (!b->out->failed++) snprintf(b->out->why, sizeof b->out->why, "%.*s", (int)sizeof b->out->why - 1, why);
    fb_measure_free(t->m);
    t->m = NULL;
    t->us = NAN;
}

static void take_times(trial *t, const fb_report *r)
{
    t->us = r->wall_us.n ? r->wall_us.median : NAN;
    t->wall_us = r->wall_us;
    t->source = r->source;
}

static bool prepare(best *b, trial *t)
{
    fb_error why = {0};
    fb_progress inner = {.step = trying, .ctx = b};
    t->m = fb_measure_prepare(b->d, t->plan, &b->o->measure, &inner, &why);
    if (!t->m) {
        if (is_fatal(&why)) return fb_fail(b->err, why.kind, "%s", why.text);
        note_failure(b, t, why.text);
        return true;
    }
    fb_report *r = fb_measure_report(t->m);
    b->out->measured++;
    if (!r->error.ok)
        note_failure(b, t, r->error.worst);
    else
        take_times(t, r);
    fb_report_free(r);
    return true;
}

static bool sample(best *b, trial *t, int n)
{
    fb_error why = {0};
    fb_progress inner = {.step = trying, .ctx = b};
    if (!wait_turn(b)) return false;
    double start = fb_now_us();
    if (!fb_measure_sample(t->m, FB_CACHE_HOT, n, &inner, &why)) {
        if (is_fatal(&why)) return fb_fail(b->err, why.kind, "%s", why.text);
        note_failure(b, t, why.text);
        return true;
    }
    t->spent_us += fb_now_us() - start;
    fb_report *r = fb_measure_report(t->m);
    take_times(t, r);
    fb_report_free(r);
    return true;
}

/* By the median; where the machine is too noisy for that, by the runs that nothing disturbed. */
static bool is_faster(const trial *a, const trial *b)
{
    fb_comparison c = fb_compare_stats(&a->wall_us, &b->wall_us);
    return fb_differs(&c) ? a->us < b->us : a->wall_us.p10 < b->wall_us.p10;
}

static trial *fastest(const best *b)
{
    trial *first = NULL;
    for (int i = 0; i < b->trials.n; i++) {
        trial *t = &b->trials.at[i];
        if (isfinite(t->us) && (!first || is_faster(t, first))) first = t;
    }
    return first;
}

/* The fastest whose answer is right: what is not checked is not believed, and checking all would take too long. */
static bool fastest_right(best *b, trial **out)
{
    for (trial *t; (t = *out = fastest(b)) != NULL && t->m;) {
        fb_error why = {0};
        fb_progress inner = {.step = trying, .ctx = b};
        snprintf(b->what, sizeof b->what, "the fastest plan");
        bool checked = fb_measure_check(t->m, &inner, &why);
        if (!checked && is_fatal(&why)) return fb_fail(b->err, why.kind, "%s", why.text);
        fb_report *r = fb_measure_report(t->m);
        bool right = checked && r->error.ok;
        if (!right) note_failure(b, t, checked ? r->error.worst : why.text);
        fb_report_free(r);
        if (right) break;
    }
    return true;
}

static bool wants_more(const best *b, const trial *t)
{
    const trial *first = fastest(b);
    if (!t->m || t->spent_us > patience_us) return false;
    if (t->wall_us.n && first && t->us > hopeless * first->us) return false;
    return t->wall_us.n < SAMPLES || t->spent_us < sample_us;
}

/* In turns, so that drift hits all alike. */
static bool sample_all(best *b)
{
    enum { FIRST = 3, LATER = 10 };
    for (int round = 0, more = 1; more; round++) {
        more = 0;
        for (int i = 0; i < b->trials.n; i++) {
            trial *t = &b->trials.at[i];
            if (!wants_more(b, t)) continue;
            snprintf(b->what, sizeof b->what, "plan %d of %d", i + 1, b->trials.n);
            if (!sample(b, t, round ? LATER : FIRST)) return false;
            more++;
        }
    }
    return true;
}

/* As many as fit in memory beside each other. */
static int how_many(const best *b)
{
    const fb_machine *m = fb_planner_machine(b->p);
    double left = of_memory * (double)m->memory_bytes;
    int n = 0;
    for (; n < b->trials.n; n++) {
        fb_plan_cost cost;
        fb_plan_cost_of(b->trials.at[n].plan, &cost);
        left -= (double)cost.peak_bytes;
        if (n > 0 && m->memory_bytes > 0 && left < 0) break;
    }
    return n;
}

static bool try_all(best *b)
{
    bool runs = !b->d->ops->recall;
    int n = runs ? how_many(b) : b->trials.n;
    for (int i = 0; i < n; i++) {
        part_of(b, 0.25 + 0.5 * i / n, 0.25 + 0.5 * (i + 1) / n);
        snprintf(b->what, sizeof b->what, "plan %d of %d", i + 1, n);
        if (!wait_turn(b) || !prepare(b, &b->trials.at[i])) return false;
        if (runs) continue;
        fb_measure_free(b->trials.at[i].m);
        b->trials.at[i].m = NULL;
    }
    part_of(b, 0.75, 0.95);
    return !runs || sample_all(b);
}

/* ---- knobs ---- */

/* What is worth trying on a kind of device; those that a kernel does not have are refused where they are set. */
typedef struct {
    fb_knob knob;
    int64_t value;
} setting;

static const setting grid_settings[] = {{FB_KNOB_THREADS, 128}, {FB_KNOB_THREADS, 512}, {FB_KNOB_ROWS, 1},
                                        {FB_KNOB_ROWS, 4},      {FB_KNOB_VECTOR, 2},    {FB_KNOB_GRID, 1056}};
static const setting team_settings[] = {
    {FB_KNOB_VECTOR, 8}, {FB_KNOB_VECTOR, 16}, {FB_KNOB_ROWS, 16}, {FB_KNOB_THREADS, 1}};

/* The groups whose kernels take the most time, at most `room`, longest first. */
static int longest_groups(const trial *t, int *group, int room)
{
    fb_report *r = fb_measure_report(t->m);
    int n = 0;
    for (; n < room; n++) {
        const fb_kernel_report *longest = NULL;
        for (int i = 0; i < r->n_kernels; i++) {
            const fb_kernel_report *k = &r->kernels[i];
            bool taken = k->group < 0 || !k->device_us.n;
            for (int j = 0; j < n; j++) taken |= group[j] == k->group;
            if (!taken && (!longest || k->device_us.median > longest->device_us.median)) longest = k;
        }
        if (!longest || longest->device_us.median < worth_tuning * r->device_us.median) break;
        group[n] = longest->group;
    }
    fb_report_free(r);
    return n;
}

/* In turns with what it is to beat. */
static bool is_better(best *b, trial *now, trial *next, bool *better)
{
    enum { TURNS = 3, EACH = 10 };
    *better = false;
    for (int i = 0; i < TURNS; i++) {
        if (!sample(b, now, EACH) || !sample(b, next, EACH)) return false;
        if (!next->m || next->us > hopeless * now->us) return true;
    }
    *better = next->us < clearly * now->us && next->wall_us.p10 < clearly * now->wall_us.p10;
    return true;
}

/* The plan with one knob more, where it is faster so. */
static bool try_setting(best *b, trial *now, fb_id node, const setting *s)
{
    fb_plan *plan = NULL;
    bool better = false;
    fb_plan_try_repeated(now->plan, &(fb_edit){.kind = FB_EDIT_KNOB, .a = node, .knob = s->knob, .value = s->value},
                         &plan);
    if (!plan) return true;
    trial next = {.plan = plan, .predicted_us = now->predicted_us, .us = NAN};
    int failed = b->out->failed, measured = b->out->measured;
    snprintf(b->what, sizeof b->what, "knob %s = %d", fb_knob_name(s->knob), (int)s->value);
    bool good = prepare(b, &next) && (!next.m || is_better(b, now, &next, &better));
    b->out->failed = failed; /* a knob that cannot be is no plan that failed */
    b->out->measured = measured;
    b->out->tried++;
    b->out->tuned += better;
    trial *lost = better ? now : &next;
    fb_measure_free(lost->m);
    fb_plan_free(lost->plan);
    if (better) *now = next;
    return good;
}

/* The fastest plan's longest kernels, a knob at a time. */
static bool tune(best *b)
{
    trial *now;
    if (!fastest_right(b, &now)) return false;
    int group[TUNED] = {0}, n = now ? longest_groups(now, group, TUNED) : 0;
    fb_id node[TUNED];
    bool grid = fb_planner_machine(b->p)->target->grid;
    const setting *set = grid ? grid_settings : team_settings;
    int n_set = (int)(grid ? sizeof grid_settings / sizeof *set : sizeof team_settings / sizeof *set);
    double end = fb_now_us() + tuning_us;
    for (int i = 0; i < b->trials.n && n; i++) {
        if (&b->trials.at[i] == now) continue;
        fb_measure_free(b->trials.at[i].m);
        b->trials.at[i].m = NULL;
    }
    for (int i = 0; i < n; i++) node[i] = fb_plan_group(now->plan, group[i])->stored[0];
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n_set && fb_now_us() < end; k++) {
            part_of(b, 0.95, 0.95 + 0.05 * (i * n_set + k) / (n * n_set));
            if (!try_setting(b, now, node[i], &set[k])) return false;
        }
    }
    return true;
}

/* ---- how far the model was off ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void judge_model(best *b)
{
    double *off = fb_alloc(((size_t)b->trials.n + 1) * sizeof *off);
    int n = 0;
    for (int i = 0; i < b->trials.n; i++) {
        const trial *t = &b->trials.at[i];
        if (isfinite(t->us) && t->us > 0 && t->source != FB_SOURCE_PREDICTED)
            off[n++] = fabs(t->predicted_us / t->us - 1);
    }
    qsort(off, (size_t)n, sizeof *off, by_value);
    b->out->off_median = n ? off[n / 2] : NAN;
    b->out->off_worst = n ? off[n - 1] : NAN;
    fb_free(off);
}

/* ---- the cache ---- */

/* What was measured stays true of a machine; what was predicted is as good as its calibration. */
static bool cache_path(const best *b, char *to, size_t room)
{
    char dir[2048], hex[33];
    const fb_machine *m = fb_planner_machine(b->p);
    bool runs = b->d && !b->d->ops->recall;
    if (!fb_cache_dir("best", dir, sizeof dir, NULL)) return false;
    json_t *machine = runs ? json_pack("{s:s, s:i}", "name", m->name, "units", m->units) : fb_machine_to_json(m);
    char *text = fb_json_line(machine);
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_text(h, PACKAGE_VERSION);
    fb_hasher_add(h, &fb_planner_graph(b->p)->hash, sizeof(fb_hash));
    fb_hasher_add_text(h, b->d ? b->d->name : "");
    fb_hasher_add_text(h, text);
    int n = snprintf(to, room, "%s/%s.json", dir, fb_hash_hex(fb_hasher_end(h), hex));
    fb_free(text);
    json_decref(machine);
    return n > 0 && n < (int)room;
}

/* Of the plan as it is lowered now; "" without a device. */
static bool code_of(const best *b, const fb_plan *plan, char to[FB_SIGNATURE])
{
    to[0] = '\0';
    if (!b->d) return true;
    fb_program *p = fb_lower(plan, b->d->ops->target, NULL);
    if (p) fb_recording_program_code(p, to);
    fb_program_free(p);
    return p != NULL;
}

static fb_plan *from_cache(best *b)
{
    char path[2200], code[FB_SIGNATURE];
    size_t n;
    if (b->o->again || !cache_path(b, path, sizeof path)) return NULL;
    char *text = fb_checked_read(path, fb_file_name(path), CACHE_BYTES, &n);
    json_t *value = text ? fb_json_parse(text, n, NULL) : NULL;
    fb_plan *plan = value ? fb_plan_from_json(b->p, json_object_get(value, "plan"), true, NULL, NULL) : NULL;
    bool good = plan && !fb_plan_refusal(plan, NULL) && code_of(b, plan, code) &&
                strcmp(code, fb_json_string_or(value, "code", "")) == 0 &&
                fb_best_summary_from_json(b->out, json_object_get(value, "summary"), NULL);
    if (good) fb_cache_touch(path);
    json_decref(value);
    fb_free(text);
    if (good) {
        b->out->cached = true;
        return plan;
    }
    fb_plan_free(plan);
    return NULL;
}

/* That it cannot be kept is no reason not to have it. */
static void to_cache(const best *b, const fb_plan *plan)
{
    char path[2200], code[FB_SIGNATURE];
    if (!cache_path(b, path, sizeof path) || !code_of(b, plan, code)) return;
    json_t *value = json_pack("{s:s, s:o, s:o}", "code", code, "plan", fb_plan_to_json(plan), "summary",
                              fb_best_summary_to_json(b->out));
    char *text = fb_json_line(value);
    if (fb_checked_write(path, fb_file_name(path), text, strlen(text), NULL)) {
        *strrchr(path, '/') = '\0';
        fb_cache_trim(path, CACHE_BYTES);
    }
    fb_free(text);
    json_decref(value);
}

/* ---- all of it ---- */

static void date_now(char to[32])
{
    time_t now = time(NULL);
    struct tm utc;
    strftime(to, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
}

static fb_plan *find(best *b)
{
    if (!search(b) || (b->d && !try_all(b))) return NULL;
    trial *first = b->d ? fastest(b) : &b->trials.at[0];
    if (!first) {
        fb_fail(b->err, FB_ERR_INPUT, "none of %d plans could be measured: %s", b->trials.n, b->out->why);
        return NULL;
    }
    judge_model(b);
    if (b->d && !b->d->ops->recall) {
        if (!tune(b) || !fastest_right(b, &first)) return NULL;
        if (!first) {
            fb_fail(b->err, FB_ERR_INPUT, "none of %d plans is right: %s", b->trials.n, b->out->why);
            return NULL;
        }
    }
    b->out->source = b->d ? first->source : FB_SOURCE_PREDICTED;
    b->out->predicted_us = first->predicted_us;
    b->out->us = b->d ? first->us : first->predicted_us;
    if (fb_planner_machine(b->p)->doubted) { /* it chose what to measure, and says nothing of times */
        b->out->predicted_us = b->out->off_median = b->out->off_worst = NAN;
        if (b->out->source == FB_SOURCE_PREDICTED) b->out->us = NAN;
    }
    fb_plan *plan = first->plan;
    first->plan = NULL;
    return plan;
}

fb_plan *fb_best_find(fb_device *d, fb_planner *p, const fb_best_options *o, const fb_progress *progress,
                      fb_best_summary *out, fb_error *err)
{
    best b = {.d = d, .p = p, .o = o, .progress = progress, .out = out, .err = err};
    *out = (fb_best_summary){.off_median = NAN, .off_worst = NAN, .us = NAN, .predicted_us = NAN};
    fb_plan *plan = from_cache(&b);
    if (plan) return plan;
    *out = (fb_best_summary){.off_median = NAN, .off_worst = NAN, .us = NAN, .predicted_us = NAN};
    int64_t start = fb_now_ns();
    plan = find(&b);
    out->seconds = (double)(fb_now_ns() - start) * 1e-9;
    date_now(out->date);
    for (int i = 0; i < b.trials.n; i++) {
        fb_measure_free(b.trials.at[i].m);
        fb_plan_free(b.trials.at[i].plan);
    }
    FB_VEC_FREE(&b.trials);
    if (plan) to_cache(&b, plan);
    return plan;
}

/* ---- what is told of it ---- */

json_t *fb_best_summary_to_json(const fb_best_summary *s)
{
    json_t *o = json_pack("{s:I, s:i, s:i, s:i, s:i, s:s, s:b, s:s}", "considered", (json_int_t)s->considered,
                          "measured", s->measured, "failed", s->failed, "knobs_tried", s->tried, "knobs_kept", s->tuned,
                          "source", fb_report_source_name(s->source), "cached", s->cached, "date", s->date);
    fb_json_set_number(o, "us", s->us);
    fb_json_set_number(o, "predicted_us", s->predicted_us);
    fb_json_set_number(o, "off_median", s->off_median);
    fb_json_set_number(o, "off_worst", s->off_worst);
    fb_json_set_number(o, "seconds", s->seconds);
    if (s->why[0]) json_object_set_new(o, "why_failed", json_string(s->why));
    return o;
}

static int count_of(const json_t *o, const char *key)
{
    int64_t n = fb_json_int_or(o, key, 0);
    return n > 0 && n < INT32_MAX ? (int)n : 0;
}

bool fb_best_summary_from_json(fb_best_summary *s, const json_t *o, fb_error *err)
{
    const char *source;
    *s = (fb_best_summary){0};
    if (!json_is_object(o)) return fb_fail(err, FB_ERR_INPUT, "a search's summary is a JSON object");
    if (!fb_json_get_int(o, "considered", 0, INT64_MAX, &s->considered, err)) return false;
    if (!fb_json_get_string(o, "source", &source, err)) return false;
    int k = FB_SOURCE_MEASURED;
    while (k <= FB_SOURCE_PREDICTED && strcmp(source, fb_report_source_name((fb_figure_source)k)) != 0) k++;
    if (k > FB_SOURCE_PREDICTED) return fb_fail(err, FB_ERR_INPUT, "field \"source\" names no source of figures");
    s->source = (fb_figure_source)k;
    s->measured = count_of(o, "measured");
    s->failed = count_of(o, "failed");
    s->tried = count_of(o, "knobs_tried");
    s->tuned = count_of(o, "knobs_kept");
    s->us = fb_json_number_or(o, "us", NAN);
    s->predicted_us = fb_json_number_or(o, "predicted_us", NAN);
    s->off_median = fb_json_number_or(o, "off_median", NAN);
    s->off_worst = fb_json_number_or(o, "off_worst", NAN);
    s->seconds = fb_json_number_or(o, "seconds", NAN);
    s->cached = fb_json_bool_or(o, "cached", false);
    const char *date = fb_json_string_or(o, "date", ""), *why = fb_json_string_or(o, "why_failed", "");
    fb_text_clean(s->date, sizeof s->date, date, strlen(date));
    fb_text_clean(s->why, sizeof s->why, why, strlen(why));
    return true;
}

void fb_best_sentence(const fb_best_summary *s, fb_str *out)
{
    fb_str_addf(out, "%" PRId64 " plans considered", s->considered);
    if (!s->measured)
        fb_str_add(out, ", none measured: the plan is the model's");
    else if (s->source == FB_SOURCE_MEASURED)
        fb_str_addf(out, ", %d measured", s->measured);
    else
        fb_str_addf(out, ", %d looked up in the recording, none measured (the time of the best is %s)", s->measured,
                    fb_report_source_name(s->source));
    if (s->failed) fb_str_addf(out, ", %d of them without success (%s)", s->failed, s->why);
    if (isfinite(s->off_median))
        fb_str_addf(out, "; the model was off by %.0f %% (median), %.0f %% at worst", 100 * s->off_median,
                    100 * s->off_worst);
    if (s->tried) fb_str_addf(out, "; %d knob settings tried, %d kept", s->tried, s->tuned);
    if (s->cached) fb_str_addf(out, "; found on %.10s", s->date);
}
