/* Is `auto` ever behind another preset, measured? Every bundled script in all variants and three sizes: reduced, its
 * own and larger. `auto` is held against the fastest of none, eager, inductor, xla and tinygrad: measured side by side,
 * then the two alone until they are told apart (measure/compare.h).
 *
 *     bench_auto [--device D] [--sample N] [--seed S] [--seconds T] [--patience T] [--only TEXT] [--out FILE]
 *
 * `auto` may take 1.05 times as long as the fastest. A case is behind where the whole interval says that it takes
 * longer, undecided where a part does; a host that is busy leaves more undecided and calls none behind that is not.
 * Cases come in an order that the seed gives, so that some of them are a sample. --seconds: no case begins after that.
 * --patience: what a case may take. --out: a line of JSON a case is added to the file, and what it holds is not
 * measured again, so that the whole can be had in parts. The exit status is 1 where a case is behind. */
#include "bench/bench_script.h"
#include "unit/sizes_help.h"

#include "base/embedded.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"
#include "measure/compare.h"
#include "session/session.h"

static const double allowed = 1.05;
static const char *const rivals[] = {"none", "eager", "inductor", "xla", "tinygrad"};
static const char *const size_names[] = {"reduced", "own size", "larger"};
enum { RIVALS = sizeof rivals / sizeof *rivals, SIZES = 3, FILE_MAX = 64 << 20 };

typedef enum { FINE, UNDECIDED, BEHIND, NOT_MEASURED, VERDICTS } verdict;
static const char *const verdict_name[VERDICTS] = {"fine", "undecided", "behind", "not measured"};

typedef struct {
    const char *path;
    char name[64], variant[64];
    int size;
    json_t *set;
    uint64_t order;
} bench_case;

typedef struct {
    const char *device, *only, *out;
    int sample;
    uint64_t seed;
    double seconds, patience;
    FB_VEC(bench_case) cases;
    json_t *known; /* {"gru cell, reduced": row} */
    int n[VERDICTS], same, ahead;
    FB_VEC(json_t *) exceptions;
} bench;

/* ---- cases ---- */

static char *title(const bench_case *c, char to[200])
{
    snprintf(to, 200, "%s%s%s, %s", c->name, *c->variant ? " " : "", c->variant, size_names[c->size]);
    return to;
}

static void add_case(bench *b, const char *path, const char *variant, int size, json_t *set)
{
    char text[200], seeded[240];
    bench_case c = {.path = path, .size = size, .set = json_incref(set)};
    script_name(path, c.name);
    snprintf(c.variant, sizeof c.variant, "%s", variant);
    title(&c, text);
    if (b->only && !strstr(text, b->only)) return;
    snprintf(seeded, sizeof seeded, "%llu %s", (unsigned long long)b->seed, text);
    c.order = fb_hash_text(seeded).low;
    FB_VEC_PUSH(&b->cases, c);
}

static void add_script(bench *b, const char *path)
{
    char whole[4096], name[64];
    fb_error err = {0};
    fb_script_event e;
    snprintf(whole, sizeof whole, "%s/%s", source_dir(), path);
    script_name(path, name);
    fb_script *s = fb_script_start(whole, NULL, &err);
    bench_need(s != NULL, &err);
    bench_next(s, FB_SCRIPT_INFO, false, &e);
    json_t *sets[SIZES] = {reduced(name), json_object(), larger(e.info)};
    for (int i = 0; i < SIZES; i++) {
        for (int v = 0; v < e.info->n_variants; v++) add_case(b, path, e.info->variants[v], i, sets[i]);
        json_decref(sets[i]);
    }
    fb_script_event_clear(&e);
    fb_script_free(s);
}

static int by_order(const void *a, const void *b)
{
    const bench_case *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* ---- one of them ---- */

static bool wait_for(fb_session *s, double until_us)
{
    while (fb_session_busy(s)) {
        double left = until_us - fb_now_us();
        if (left <= 0) break;
        fb_session_wait(s, left > 1e6 ? 1000 : (int)(left / 1000) + 1);
    }
    if (!fb_session_busy(s)) return true;
    fb_session_cancel(s);
    return false;
}

static bool wait_plans(fb_session *s, double until_us)
{
    for (int i = 0; i < fb_session_columns(s); i++)
        while (fb_session_column(s, i)->state == FB_COLUMN_BUILDING) {
            if (fb_now_us() > until_us) return false;
            fb_session_wait(s, 1000);
        }
    return true;
}

static fb_session *open_case(const bench *b, const bench_case *c, fb_error *err)
{
    fb_session_options o = {.self = getenv("FUSEBOX"), .device = b->device, .set = json_object()};
    const char *key;
    json_t *value;
    json_object_foreach(c->set, key, value) json_object_set_new((json_t *)o.set, key, json_pack("[O]", value));
    char whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", source_dir(), c->path);
    fb_session *s = fb_session_new(&o, err);
    bool fine = s && fb_session_load(s, whole, err);
    while (fine && !fb_session_script(s) && !fb_session_script_error(s)->kind) fb_session_wait(s, -1);
    if (fine && !fb_session_script(s)) *err = *fb_session_script_error(s), fine = false;
    json_decref((json_t *)o.set);
    if (fine) return s;
    fb_session_free(s);
    return NULL;
}

/* Column 0 is auto; those of rivals that make another plan follow: equal ones are measured once. */
static bool add_columns(fb_session *s, const bench_case *c, double until_us, bool *same, fb_error *err)
{
    char spec[160];
    for (int i = -1; i < RIVALS; i++) {
        snprintf(spec, sizeof spec, "%s%s%s", c->variant, *c->variant ? ":" : "", i < 0 ? "auto" : rivals[i]);
        if (fb_session_add(s, spec, err) < 0) return false;
    }
    if (!wait_plans(s, until_us)) return fb_fail(err, FB_ERR_UNAVAILABLE, "its plans are not made in time");
    const fb_column *ours = fb_session_column(s, 0);
    if (ours->state == FB_COLUMN_FAILED) return fb_fail(err, ours->error.kind, "%s", ours->error.text);
    *same = false;
    for (int i = fb_session_columns(s) - 1; i > 0; i--) {
        const fb_column *x = fb_session_column(s, i);
        bool again = false;
        for (int k = 0; k < i && x->plan && !again; k++) {
            const fb_plan *other = fb_session_column(s, k)->plan;
            again = other && fb_plan_equal(other, x->plan);
            *same |= again && k == 0;
        }
        if (again || !x->plan) fb_session_drop(s, i);
    }
    return true;
}

static double wall_of(const fb_column *c)
{
    return c->state == FB_COLUMN_DONE && c->report && c->report->wall_us.n ? c->report->wall_us.median : NAN;
}

/* Measures all, then the two that matter. `best` stays 0 where no rival's plan is faster than that of auto, which one
 * of them shares. */
static bool measure(fb_session *s, bool same, double until_us, int *best, fb_error *err)
{
    int n = fb_session_columns(s), *all = fb_alloc((size_t)n * sizeof *all);
    for (int i = 0; i < n; i++) all[i] = i;
    if (n > 1) fb_session_measure(s, all, n);
    fb_free(all);
    if (!wait_for(s, until_us)) return fb_fail(err, FB_ERR_UNAVAILABLE, "it is not measured in time");
    double ours = wall_of(fb_session_column(s, 0)), least = INFINITY;
    const fb_error *why = &fb_session_column(s, 0)->error;
    if (n > 1 && !isfinite(ours)) return fb_fail(err, FB_ERR_UNAVAILABLE, "auto: %.200s", why->text);
    *best = 0;
    for (int i = 1; i < n; i++)
        if (wall_of(fb_session_column(s, i)) < least) least = wall_of(fb_session_column(s, *best = i));
    if (same && !(least < ours)) *best = 0;
    if (!*best && !same) return fb_fail(err, FB_ERR_UNAVAILABLE, "no other preset can be measured");
    if (*best) fb_session_compare(s, *best, 0);
    return wait_for(s, until_us) || fb_fail(err, FB_ERR_UNAVAILABLE, "the two are not told apart in time");
}

static json_t *row_of(const fb_session *s, int best)
{
    const fb_column *a = fb_session_column(s, best), *b = fb_session_column(s, 0);
    if (!best) return json_pack("{s:f, s:f, s:f}", "times", 1.0, "low", 1.0, "high", 1.0);
    fb_comparison c = fb_compare_reports(a->report, b->report, FB_TIME_WALL);
    json_t *row = json_pack("{s:s}", "best", a->plan_name);
    fb_json_set_number(row, "best_us", a->report->wall_us.median);
    fb_json_set_number(row, "auto_us", b->report->wall_us.median);
    fb_json_set_number(row, "best_predicted_us", a->report->predicted_us);
    fb_json_set_number(row, "auto_predicted_us", b->report->predicted_us);
    fb_json_set_number(row, "times", c.times);
    fb_json_set_number(row, "low", c.low);
    fb_json_set_number(row, "high", c.high);
    return row;
}

static json_t *run_case(const bench *b, const bench_case *c)
{
    fb_error err = {0};
    bool same = false;
    int best = 0;
    double until = fb_now_us() + 1e6 * b->patience;
    fb_session *s = open_case(b, c, &err);
    bool fine = s && add_columns(s, c, until, &same, &err) && measure(s, same, until, &best, &err);
    json_t *row = fine ? row_of(s, best) : json_pack("{s:s}", "failed", err.text);
    char text[200];
    json_object_set_new(row, "case", json_string(title(c, text)));
    if (s) fb_session_free(s);
    return row;
}

/* ---- what they say ---- */

static verdict judge(const json_t *row)
{
    double low = fb_json_number_or(row, "low", 0), high = fb_json_number_or(row, "high", INFINITY);
    if (json_object_get(row, "failed")) return NOT_MEASURED;
    return high < 1 / allowed ? BEHIND : low < 1 / allowed ? UNDECIDED : FINE;
}

static void print_row(const json_t *row)
{
    char a[32], b[32];
    const char *best = fb_json_string_or(row, "best", NULL), *failed = fb_json_string_or(row, "failed", NULL);
    verdict v = judge(row);
    printf("%c ", v == BEHIND ? '!' : v == UNDECIDED ? '?' : ' ');
    bench_cell(fb_json_string_or(row, "case", ""), -44);
    if (failed)
        printf("%s\n", failed);
    else if (!best)
        printf("the fastest, and another preset's plan\n");
    else
        printf("auto %9s, %-9s %9s: %.2f × (%.2f–%.2f), predicted %.2f × %s\n",
               fb_format_us(a, fb_json_number_or(row, "auto_us", NAN)), best,
               fb_format_us(b, fb_json_number_or(row, "best_us", NAN)), fb_json_number_or(row, "times", NAN),
               fb_json_number_or(row, "low", NAN), fb_json_number_or(row, "high", NAN),
               fb_json_number_or(row, "best_predicted_us", NAN) / fb_json_number_or(row, "auto_predicted_us", NAN),
               verdict_name[v]);
    fflush(stdout);
}

static void count_row(bench *b, json_t *row)
{
    verdict v = judge(row);
    b->n[v]++;
    b->same += v == FINE && !json_object_get(row, "best");
    b->ahead += v == FINE && fb_json_number_or(row, "low", 0) > 1;
    if (v == BEHIND || v == UNDECIDED) FB_VEC_PUSH(&b->exceptions, json_incref(row));
}

static void print(const bench *b)
{
    int measured = b->n[FINE] + b->n[UNDECIDED] + b->n[BEHIND];
    printf("\n%d of %d cases measured: auto is the fastest in %d, of which %d are another preset's plan; within %.0f "
           "%% of "
           "the fastest in %d; %d undecided, %d behind; %d not measured\n",
           measured, b->cases.n, b->ahead + b->same, b->same, 100 * (allowed - 1), b->n[FINE], b->n[UNDECIDED],
           b->n[BEHIND], b->n[NOT_MEASURED]);
    if (b->exceptions.n) printf("\nexceptions\n");
    for (int pass = BEHIND; pass >= UNDECIDED; pass--)
        for (int i = 0; i < b->exceptions.n; i++)
            if (judge(b->exceptions.at[i]) == (verdict)pass) print_row(b->exceptions.at[i]);
}

/* ---- parts ---- */

static void read_known(bench *b)
{
    fb_error err = {0};
    size_t n;
    char *text = b->out ? fb_read_file(b->out, FILE_MAX, &n, &err) : NULL;
    b->known = json_object();
    for (char *rest = text, *line; rest && (line = strsep(&rest, "\n"));) {
        json_t *row = json_loads(line, 0, NULL);
        const char *name = row ? fb_json_string_or(row, "case", NULL) : NULL;
        if (name) json_object_set(b->known, name, row);
        json_decref(row);
    }
    fb_free(text);
}

static void keep(const bench *b, const json_t *row)
{
    FILE *f = b->out ? fopen(b->out, "a") : NULL;
    if (!f) return;
    json_dumpf(row, f, JSON_COMPACT | JSON_REAL_PRECISION(6));
    fprintf(f, "\n");
    fclose(f);
}

static bool parse(bench *b, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *key = argv[i], *value = argv[i + 1];
        if (strcmp(key, "--device") == 0)
            b->device = value;
        else if (strcmp(key, "--only") == 0)
            b->only = value;
        else if (strcmp(key, "--out") == 0)
            b->out = value;
        else if (strcmp(key, "--sample") == 0)
            b->sample = atoi(value);
        else if (strcmp(key, "--seed") == 0)
            b->seed = strtoull(value, NULL, 10);
        else if (strcmp(key, "--seconds") == 0)
            b->seconds = strtod(value, NULL);
        else if (strcmp(key, "--patience") == 0)
            b->patience = strtod(value, NULL);
        else
            return false;
    }
    return argc % 2 == 1 && getenv("FUSEBOX");
}

int main(int argc, char **argv)
{
    bench b = {.device = "host", .seconds = INFINITY, .patience = 60};
    if (!parse(&b, argc, argv)) {
        fprintf(stderr, "bench_auto: see the head of tests/bench/bench_auto.c; FUSEBOX is the binary\n");
        return 2;
    }
    fb_json_init();
    read_known(&b);
    for (int i = 0; fb_embedded_files[i].path; i++)
        if (is_bundled(fb_embedded_files[i].path)) add_script(&b, fb_embedded_files[i].path);
    if (b.cases.n) qsort(b.cases.at, (size_t)b.cases.n, sizeof *b.cases.at, by_order);
    double until = fb_now_us() + 1e6 * b.seconds;
    int wanted = b.sample > 0 && b.sample < b.cases.n ? b.sample : b.cases.n;
    printf("auto against %d presets on %s: %d of %d cases, seed %llu\n", RIVALS, b.device, wanted, b.cases.n,
           (unsigned long long)b.seed);
    for (int i = 0; i < wanted; i++) {
        char text[200];
        json_t *row = json_incref(json_object_get(b.known, title(&b.cases.at[i], text)));
        if (!row && fb_now_us() > until) continue;
        if (!row) keep(&b, row = run_case(&b, &b.cases.at[i]));
        print_row(row);
        count_row(&b, row);
        json_decref(row);
    }
    print(&b);
    for (int i = 0; i < b.exceptions.n; i++) json_decref(b.exceptions.at[i]);
    for (int i = 0; i < b.cases.n; i++) json_decref(b.cases.at[i].set);
    FB_VEC_FREE(&b.exceptions);
    FB_VEC_FREE(&b.cases);
    json_decref(b.known);
    return b.n[BEHIND] > 0;
}
