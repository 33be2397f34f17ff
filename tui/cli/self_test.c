/* Does the device say of equal things that they differ, and does it find what does differ? One plan is compared with
 * itself, in turns, with buffers allocated anew for each comparison. Told, by the deviation of a pair: how many
 * comparisons called the two different at any moment, and how often a difference of 2 % put on one of them was found
 * within the pairs that the noise asks for.
 *
 * A comparison takes a few rounds, now and then as many as are kept, and is a row of the results file; a difference is
 * looked for in the pairs of as many comparisons, one after the other, as the noise asks for. Only times are taken: the
 * answer is checked once, before. */
#include "tui/cli/self_test.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "measure/compare.h"
#include "session/results.h"
#include "tui/show/table.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    IN_A_ROW = 16, /* of one size, before the next; the last of them is a long one */
    FEW_ROUNDS = 24,
    COLLECTED = 128, /* pairs at least, before differences are put on them */
};
static const int sizes[] = {256, 1024, 4096};
enum { SIZES = sizeof sizes / sizeof *sizes };
static const double turn_us = 1e3, injected = 1.02;
static const double silent_us = 2e6; /* a command that ends sooner says nothing of its progress */

/* By the deviation of a pair; the last has no upper end. */
static const double below[] = {0.005, 0.01, 0.02, 0.03, 0.05, 0.1, INFINITY};
enum { CLASSES = sizeof below / sizeof *below };

typedef struct {
    int compared, wall, device; /* called different in wall time, in the device's */
    int tried, found;           /* differences put on, found within the pairs asked for */
    double pairs, asked, best;  /* of all comparisons; of all tries, and the fewest that could do (fb_pairs_bound) */
} tally;

/* Pairs of one size that no try has used up, until there are as many as are wanted. */
typedef struct {
    FB_VEC(double) a, b;
    int wanted;
} times_us;

typedef struct {
    fb_session *session;
    fb_results *results; /* NULL: none are kept */
    const char *device;
    int wanted, done;
    double began_us, said_us;
    int measured; /* of those done, here and now */
    tally of[CLASSES];
    times_us left[SIZES];
} self_test;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static tally *class_of(self_test *t, double sigma)
{
    int i = 0;
    while (i < CLASSES - 1 && !(sigma < below[i])) i++;
    return &t->of[i];
}

/* ---- what a comparison says ---- */

/* Times of a row, at least `n` of them above 0; returns how many there are. */
static int numbers_of(const json_t *row, const char *key, double to[FB_ROUNDS])
{
    const json_t *list = json_object_get(row, key);
    int n = 0;
    for (size_t i = 0; i < json_array_size(list) && n < FB_ROUNDS; i++) {
        double us = json_number_value(json_array_get(list, i));
        if (!(us > 0)) break;
        to[n++] = us;
    }
    return n;
}

/* Of which pairs A's was the first; NULL when the row does not say, as those of an earlier version. */
static const bool *order_of(const json_t *row, int n, bool to[FB_ROUNDS])
{
    const json_t *list = json_object_get(row, "a_first");
    if (json_array_size(list) < (size_t)n) return NULL;
    for (int i = 0; i < n; i++) to[i] = json_is_true(json_array_get(list, (size_t)i));
    return to;
}

/* Looks whenever there is something new to see, as someone at the screen might. */
static bool ever_different(const double *a, const double *b, const bool *a_first, int n, fb_time of)
{
    for (int i = fb_pairs_next_look(0); i <= n; i = fb_pairs_next_look(i)) {
        fb_comparison c = fb_compare_pairs(a, b, a_first, i, of);
        if (fb_differs(&c)) return true;
    }
    return false;
}

static bool is_found(const double *a, const double *b, int n)
{
    bool found = false;
    double *slower = fb_alloc((size_t)n * sizeof *slower);
    for (int i = 0; i < n; i++) slower[i] = injected * a[i];
    for (int i = fb_pairs_next_look(0); i <= n && !found; i = fb_pairs_next_look(i)) {
        fb_comparison c = fb_compare_pairs(slower, b, NULL, i, FB_TIME_WALL);
        found = c.what == FB_FASTER;
    }
    fb_free(slower);
    return found;
}

/* What the noise asks for is taken from all pairs of a collection, whose length it has no say in: were they tried as
 * soon as they seem quiet enough, those that only seem so would be tried most. */
static void try_to_find(self_test *t, times_us *left)
{
    int n = left->a.n;
    if (left->wanted < COLLECTED) left->wanted = COLLECTED;
    if (n < left->wanted) return;
    double sigma = fb_pairs_sigma(left->a.at, left->b.at, n), noise = fb_pairs_long_sigma(left->a.at, left->b.at, n);
    int asked = isfinite(noise) ? fb_pairs_asked(noise) : n + 1;
    if (asked > n) {
        left->wanted = 2 * n;
        return;
    }
    tally *of = class_of(t, sigma);
    int best = fb_pairs_bound(noise);
    for (int from = 0; from + asked <= n; from += asked) {
        of->tried++;
        of->asked += asked;
        of->best += best;
        of->found += is_found(left->a.at + from, left->b.at + from, asked);
    }
    left->a.n = left->b.n = left->wanted = 0;
}

/* Adds a row, measured now or earlier. */
static void take(self_test *t, const json_t *row, int size)
{
    double a[FB_ROUNDS], b[FB_ROUNDS], x[FB_ROUNDS], y[FB_ROUNDS];
    bool first[FB_ROUNDS];
    int n = numbers_of(row, "a_us", a), m = numbers_of(row, "b_us", b);
    int on_a = numbers_of(row, "a_device_us", x), on_b = numbers_of(row, "b_device_us", y);
    if (n > m) n = m;
    if (on_a > on_b) on_a = on_b;
    t->done++;
    if (n < FB_PAIRS_LEAST) return;
    tally *of = class_of(t, fb_pairs_sigma(a, b, n));
    of->compared++;
    of->pairs += n;
    const bool *a_first = order_of(row, n, first);
    of->wall += ever_different(a, b, a_first, n, FB_TIME_WALL);
    of->device += ever_different(x, y, a_first, on_a < n ? on_a : n, FB_TIME_DEVICE);
    for (int i = 0; i < n; i++) {
        FB_VEC_PUSH(&t->left[size].a, a[i]);
        FB_VEC_PUSH(&t->left[size].b, b[i]);
    }
    try_to_find(t, &t->left[size]);
}

/* ---- how far it is ---- */

static int different(const self_test *t)
{
    int n = 0;
    for (int i = 0; i < CLASSES; i++) n += t->of[i].wall + t->of[i].device;
    return n;
}

static void progress(self_test *t)
{
    bool terminal = isatty(STDERR_FILENO);
    double now = fb_now_us(), passed = now - t->began_us;
    if (passed < silent_us || now - t->said_us < (terminal ? 0.2e6 : 30e6)) return;
    t->said_us = now;
    char left[40] = "";
    if (t->measured) snprintf(left, sizeof left, "; %.0f s left", passed / t->measured * (t->wanted - t->done) * 1e-6);
    fprintf(stderr, "%s%d of %d comparisons, %d called different%s%s",
            terminal ? "\r" : "fusebox: self-test: ", t->done, t->wanted, different(t), left, terminal ? "    " : "\n");
}

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r", 76, "");
}

/* Until the session rests; what is under way is compiled or checked for long before there is a comparison to count. */
static void wait_for(self_test *t)
{
    enum { SEEN_AGAIN_MS = 500 };
    while (fb_session_busy(t->session)) {
        fb_session_wait(t->session, SEEN_AGAIN_MS);
        progress(t);
    }
}

/* ---- measuring ---- */

static json_t *times_of(const fb_report *r, int n, fb_time of)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        double us = of == FB_TIME_WALL ? r->rounds[i].wall_us : r->rounds[i].device_us;
        if (!(us > 0)) break;
        json_array_append_new(list, json_real(us));
    }
    return list;
}

static json_t *row_of(const fb_report *a, const fb_report *b)
{
    int n = a->n_rounds < b->n_rounds ? a->n_rounds : b->n_rounds;
    json_t *a_first = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a_first, json_boolean(a->rounds[i].at_us < b->rounds[i].at_us));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "a_first", a_first, "a_us", times_of(a, n, FB_TIME_WALL), "b_us",
                     times_of(b, n, FB_TIME_WALL), "a_device_us", times_of(a, n, FB_TIME_DEVICE), "b_device_us",
                     times_of(b, n, FB_TIME_DEVICE));
}

static bool none_failed(const fb_session *s, fb_error *err)
{
    for (int i = 0; i < 2; i++) {
        const fb_column *c = fb_session_column(s, i);
        if (c->state == FB_COLUMN_FAILED) return fb_fail(err, c->error.kind, "%s: %s", c->text, c->error.text);
    }
    return true;
}

static bool both_measured(const fb_session *s, fb_error *err)
{
    if (!none_failed(s, err)) return false;
    for (int i = 0; i < 2; i++) {
        const fb_column *c = fb_session_column(s, i);
        if (!c->report || c->report->source != FB_SOURCE_MEASURED || c->report->n_rounds < FB_PAIRS_LEAST)
            return fb_fail(err, FB_ERR_UNAVAILABLE, "%s runs nothing that could be measured", c->device);
    }
    return true;
}

/* Both columns of the size, their answer checked. */
static bool prepare(self_test *t, int size, fb_error *err)
{
    static const int both[] = {0, 1};
    int status;
    json_t *rows = json_integer(sizes[size]);
    bool ok = fb_session_set_param(t->session, "rows", rows, err);
    json_decref(rows);
    for (int k = 0; k < 2 && ok; k++) ok = fb_cli_plan(t->session, k, &status) || none_failed(t->session, err);
    if (!ok) return false;
    fb_session_check(t->session, both, 2);
    wait_for(t);
    return none_failed(t->session, err);
}

static json_t *measure(self_test *t, int number, fb_error *err)
{
    fb_session_compare_times(t->session, 0, 1, turn_us, (number + 1) % IN_A_ROW ? FEW_ROUNDS : FB_ROUNDS);
    wait_for(t);
    if (!both_measured(t->session, err)) return NULL;
    return row_of(fb_session_column(t->session, 0)->report, fb_session_column(t->session, 1)->report);
}

/* ---- all of them ---- */

static json_t *case_of(const self_test *t, int size, int number)
{
    return json_pack("{s:s, s:i, s:i}", "self_test", t->device, "rows", sizes[size], "number", number);
}

/* One comparison of a size: from the file, or measured and added to it. */
static bool compare(self_test *t, int size, int number, bool *prepared, fb_error *err)
{
    json_t *which = case_of(t, size, number);
    const json_t *known = t->results ? fb_results_find_case(t->results, which) : NULL;
    json_t *row = known ? json_incref(json_object_get(known, "row")) : NULL;
    bool ok = true;
    if (!row) {
        ok = *prepared || (*prepared = prepare(t, size, err));
        row = ok ? measure(t, number, err) : NULL;
        ok = row != NULL;
        if (ok) t->measured++;
        if (ok && t->results) {
            json_t *whole = json_pack("{s:O, s:O}", "case", which, "row", row);
            ok = fb_results_add(t->results, whole, err);
            json_decref(whole);
        }
    }
    if (ok) take(t, row, size);
    json_decref(row);
    json_decref(which);
    return ok;
}

/* Sizes in turns, so that what there is when it is stopped is of all. */
static bool compare_all(self_test *t, fb_error *err)
{
    int number = 0;
    for (int turn = 0; t->done < t->wanted; turn++) {
        bool prepared = false;
        int size = turn % SIZES;
        for (int k = 0; k < IN_A_ROW && t->done < t->wanted; k++) {
            number = turn / SIZES * IN_A_ROW + k;
            bool ok = !interrupted && compare(t, size, number, &prepared, err);
            if (interrupted) return true; /* its workers hear the interrupt too, and what they were at has failed */
            if (!ok) return false;
            progress(t);
        }
    }
    return true;
}

/* ---- the table ---- */

static void class_cell(fb_table *table, int i)
{
    if (i == CLASSES - 1)
        fb_table_cellf(table, "%g %% and more", 100 * below[i - 1]);
    else
        fb_table_cellf(table, "below %g %%", 100 * below[i]);
}

static void class_row(fb_table *table, int i, const tally *of)
{
    fb_table_row(table);
    class_cell(table, i);
    fb_table_cellf(table, "%d", of->compared);
    fb_table_cellf(table, of->compared ? "%.0f" : "", of->pairs / of->compared);
    fb_table_cellf(table, "%d", of->wall);
    fb_table_cellf(table, "%d", of->device);
    fb_table_cellf(table, "%d", of->tried);
    fb_table_cellf(table, of->tried ? "%d (%.1f %%)" : "", of->found, 100.0 * of->found / fmax(1, of->tried));
    fb_table_cellf(table, of->tried ? "%.0f" : "", of->asked / of->tried);
    fb_table_cellf(table, of->tried ? "%.0f" : "", of->best / of->tried);
}

static void print_table(const self_test *t)
{
    fb_table *table = fb_table_new();
    tally all = {0};
    fb_table_column(table, "σ", "of a pair", true);
    fb_table_column(table, "equal pairs", "of columns", false);
    fb_table_column(table, "rounds", "of each", false);
    fb_table_column(table, "different", "by wall", false);
    fb_table_column(table, "different", "by device", false);
    fb_table_column(table, "2 % put on", "", false);
    fb_table_column(table, "found in time", "", false);
    fb_table_column(table, "asked for", "rounds", false);
    fb_table_column(table, "at best", "rounds", false);
    for (int i = 0; i < CLASSES; i++) {
        const tally *of = &t->of[i];
        if (of->compared || of->tried) class_row(table, i, of);
        all.compared += of->compared;
        all.wall += of->wall;
        all.device += of->device;
        all.tried += of->tried;
        all.found += of->found;
    }
    fb_table_print(table, FB_FORMAT_TABLE, stdout);
    fb_table_free(table);
    printf(
        "\n%d of %d comparisons of equal columns called them different by wall time, %d by device time; at most 1 in "
        "500 should be\n",
        all.wall, all.compared, all.device);
    printf("%d of %d differences of 2 %% were found within the rounds that the noise asks for; 19 in 20 should be\n",
           all.found, all.tried);
    if (t->done < t->wanted) printf("stopped after %d of %d comparisons\n", t->done, t->wanted);
}

static bool open_both(self_test *t, const fb_cli *cli, int *status)
{
    t->session = fb_cli_open(cli, "add_relu", status);
    if (!t->session || !fb_cli_columns(t->session, "max", "max", true, status) ||
        !fb_cli_columns(t->session, "max", "max", true, status) || !fb_cli_plan(t->session, 0, status))
        return false;
    t->device = fb_session_column(t->session, 0)->device;
    return true;
}

int fb_self_test(fb_cli *cli, int times, const char *out)
{
    int status = FB_EXIT_FINE;
    fb_error err = {0};
    self_test *t = fb_calloc(1, sizeof *t);
    t->wanted = times;
    bool ok = open_both(t, cli, &status) && (!out || (t->results = fb_results_open(out, &err)));
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    t->began_us = fb_now_us();
    ok = ok && compare_all(t, &err);
    clear_progress();
    if (ok || t->done) print_table(t);
    if (!ok && err.kind) status = fb_cli_fail(&err);
    for (int i = 0; i < SIZES; i++) {
        FB_VEC_FREE(&t->left[i].a);
        FB_VEC_FREE(&t->left[i].b);
    }
    fb_results_close(t->results);
    fb_session_free(t->session);
    fb_free(t);
    return status;
}
