/* Does the device say of equal things that they differ? One plan is measured beside itself, in turns, with buffers
 * allocated anew each time; told is how often the two were called different at any moment, and how many pairs a
 * difference of 2 % put on one of them took to be found. */
#include "tui/cli/self_test.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "measure/compare.h"
#include "tui/show/table.h"

#include <math.h>
#include <stdlib.h>

typedef FB_VEC(double) times_us;

typedef struct {
    times_us a, b; /* all pairs, one run of turns after the other */
    int compared, different, few;
} outcome;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Half of what the middle 68 % of the pairs span. */
static double sigma_of(const outcome *o)
{
    int n = o->a.n;
    if (n < 2) return NAN;
    double *d = fb_alloc((size_t)n * sizeof *d);
    for (int i = 0; i < n; i++) d[i] = log(o->a.at[i] / o->b.at[i]);
    qsort(d, (size_t)n, sizeof *d, ascending);
    double sigma = (d[(int)(0.84 * (n - 1))] - d[(int)(0.16 * (n - 1))]) / 2;
    fb_free(d);
    return sigma;
}

/* As many pairs as there are after the one that first showed 2 %; 0: not found. */
static int pairs_to_find(const outcome *o)
{
    int n = o->a.n, found = 0;
    double *slower = fb_alloc(((size_t)n + 1) * sizeof *slower);
    for (int i = 0; i < n && !found; i++) {
        slower[i] = 1.02 * o->a.at[i];
        fb_comparison c = fb_compare_pairs(slower, o->b.at, i + 1);
        if (c.what == FB_FASTER) found = i + 1;
    }
    fb_free(slower);
    return found;
}

/* Looks after every pair, as someone at the screen might. */
static void look(const fb_report *a, const fb_report *b, outcome *o)
{
    int n = a->n_rounds < b->n_rounds ? a->n_rounds : b->n_rounds, from = o->a.n;
    bool different = false;
    for (int i = 0; i < n; i++) {
        FB_VEC_PUSH(&o->a, a->rounds[i].wall_us);
        FB_VEC_PUSH(&o->b, b->rounds[i].wall_us);
        fb_comparison c = fb_compare_pairs(o->a.at + from, o->b.at + from, i + 1);
        different |= fb_differs(&c);
    }
    if (n < FB_PAIRS_LEAST)
        o->few++;
    else
        o->compared++, o->different += different;
}

static bool measure(fb_session *s, outcome *o, fb_error *err)
{
    static const int both[] = {0, 1};
    fb_session_measure(s, both, 2);
    fb_cli_wait(s);
    const fb_column *c[] = {fb_session_column(s, 0), fb_session_column(s, 1)};
    for (int i = 0; i < 2; i++) {
        if (c[i]->state == FB_COLUMN_FAILED)
            return fb_fail(err, c[i]->error.kind, "%s: %s", c[i]->text, c[i]->error.text);
        if (!c[i]->report || c[i]->report->source != FB_SOURCE_MEASURED)
            return fb_fail(err, FB_ERR_UNAVAILABLE, "%s runs nothing that could be measured", c[i]->device);
    }
    look(c[0]->report, c[1]->report, o);
    return true;
}

static void row(fb_table *t, int rows, const outcome *o)
{
    double sigma = sigma_of(o), asked = fmax(FB_PAIRS_LEAST, ceil(223 * sigma * 223 * sigma));
    int found = pairs_to_find(o);
    fb_table_row(t);
    fb_table_cellf(t, "%d × 512", rows);
    fb_table_cellf(t, isfinite(sigma) ? "%.2f %%" : "", 100 * sigma);
    fb_table_cellf(t, "%d", o->a.n);
    fb_table_cellf(t, "%d of %d", o->different, o->compared);
    if (found)
        fb_table_cellf(t, "%d", found);
    else
        fb_table_cellf(t, "not in %d", o->a.n);
    fb_table_cellf(t, isfinite(asked) ? "%.0f" : "", asked);
}

int fb_self_test(fb_cli *cli, int times)
{
    static const int sizes[] = {64, 1024, 16384};
    int status = FB_EXIT_FINE, different = 0, compared = 0;
    fb_error err = {0};
    fb_session *s = fb_cli_open(cli, "add_relu", &status);
    bool ok = s && fb_cli_columns(s, "max", "max", true, &status) && fb_cli_columns(s, "max", "max", true, &status);
    fb_table *t = fb_table_new();
    fb_table_column(t, "relu(x + bias)", "", true);
    fb_table_column(t, "σ", "of a pair", false);
    fb_table_column(t, "pairs", "", false);
    fb_table_column(t, "called different", "of equal ones", false);
    fb_table_column(t, "2 % found", "after pairs", false);
    fb_table_column(t, "(223 σ)²", "", false);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && ok; i++) {
        outcome o = {0};
        json_t *rows = json_integer(sizes[i]);
        ok = fb_session_set_param(s, "rows", rows, &err);
        for (int k = 0; k < 2 && ok; k++) ok = fb_cli_plan(s, k, &status);
        for (int k = 0; k < times && ok; k++) ok = measure(s, &o, &err);
        if (ok) row(t, sizes[i], &o);
        different += o.different;
        compared += o.compared;
        FB_VEC_FREE(&o.a);
        FB_VEC_FREE(&o.b);
        json_decref(rows);
    }
    if (ok) {
        fb_table_print(t, FB_FORMAT_TABLE, stdout);
        printf("\n%d of %d comparisons of equal columns called them different; at most 1 in 500 should be\n", different,
               compared);
    } else if (err.kind) {
        status = fb_cli_fail(&err);
    }
    fb_table_free(t);
    fb_session_free(s);
    return status;
}
