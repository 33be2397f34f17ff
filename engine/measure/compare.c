/* Comparing two columns' times. Needs reports; leaves them alone. The formulas stand in the header. */
#include "measure/compare.h"

#include "base/mem.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double alpha = 0.001, same_within = 0.02, summary_floor = 0.005;
static const double wide = 4; /* of the mixture for large differences, seen in few pairs */
static const double most_sampled_us = 5e6;
static const double clock_us[] = {[FB_TIME_WALL] = 0.02, [FB_TIME_DEVICE] = 0.064}; /* two steps */
static const double composed_error = 0.10, predicted_error = 0.25;

/* The logarithm of A over B with half its interval's width, of which `least` is not a matter of samples. */
typedef struct {
    double mean, half, least;
} estimate;

static const estimate unknown = {NAN, NAN, NAN};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, ascending);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static fb_comparison verdict(estimate e, int pairs)
{
    fb_comparison c = {.times = exp(e.mean),
                       .low = exp(e.mean - e.half),
                       .high = exp(e.mean + e.half),
                       .least = e.least,
                       .pairs = pairs};
    if (!(e.half >= 0)) return (fb_comparison){.times = NAN, .low = 0, .high = INFINITY};
    if (e.mean - e.half > 0)
        c.what = FB_FASTER;
    else if (e.mean + e.half < 0)
        c.what = FB_SLOWER;
    else if (fabs(e.mean) + e.half < same_within)
        c.what = FB_SAME;
    return c;
}

/* ---- pairs ---- */

/* One disturbed run says nothing of the others. */
static void cut_off(double *d, int n)
{
    double *work = fb_alloc((size_t)n * sizeof *work);
    memcpy(work, d, (size_t)n * sizeof *work);
    double middle = median_of(work, n);
    for (int i = 0; i < n; i++) work[i] = fabs(d[i] - middle);
    double limit = 3 * 1.4826 * median_of(work, n);
    for (int i = 0; i < n && limit > 0; i++) d[i] = fmin(fmax(d[i], middle - limit), middle + limit);
    fb_free(work);
}

/* The last n / size · size values, in blocks; returns how many. */
static int average_blocks(double *d, int n)
{
    int size = 1;
    while (n / (2 * size) >= 32) size *= 2;
    int blocks = n / size, skipped = n - blocks * size;
    for (int i = 0; i < blocks; i++) {
        double sum = 0;
        for (int k = 0; k < size; k++) sum += d[skipped + i * size + k];
        d[i] = sum / size;
    }
    return blocks;
}

/* The variance of one of the blocks, as it counts for their mean: raised for their correlation, of which a short row
 * sees 1/n too little. */
static double variance_of(const double *d, int n, double mean)
{
    double sum = 0, lag = 0;
    for (int i = 0; i < n; i++) sum += (d[i] - mean) * (d[i] - mean);
    for (int i = 0; i + 1 < n; i++) lag += (d[i] - mean) * (d[i + 1] - mean);
    double r = fmin(0.9, (sum > 0 ? lag / sum : 0) + 1.0 / n);
    return sum / (n - 1) * (r > 0 ? (1 + r) / (1 - r) : 1);
}

/* Half the width in units of the mean's deviation, squared: where the likelihood ratio of the header is 1/α. */
static double boundary(int n, double g, double level)
{
    double spread = 1 + n * g, k = pow(sqrt(spread) / level, 2.0 / n);
    return k >= spread ? INFINITY : (n - 1) * (k - 1) / (1 - k / spread);
}

/* `d` of times that took `shortest` µs at least. */
static estimate of_pairs(double *d, int n, double shortest, fb_time of)
{
    cut_off(d, n);
    int blocks = average_blocks(d, n);
    double mean = 0;
    for (int i = 0; i < blocks; i++) mean += d[i] / blocks;
    double variance = variance_of(d, blocks, mean);
    double g = fmin(wide, fmax(0.02, 0.4 * same_within * same_within / fmax(variance, 1e-12)));
    double limit = fmin(boundary(blocks, g, 0.8 * alpha), boundary(blocks, wide, 0.2 * alpha));
    double least = clock_us[of] / shortest;
    return (estimate){mean, hypot(sqrt(limit * variance / blocks), least), least};
}

fb_comparison fb_compare_pairs(const double *a, const double *b, int n, fb_time of)
{
    if (n < FB_PAIRS_LEAST) return verdict(unknown, n);
    double *d = fb_alloc((size_t)n * sizeof *d), shortest = INFINITY;
    for (int i = 0; i < n; i++) {
        d[i] = log(a[i] / b[i]);
        shortest = fmin(shortest, fmin(a[i], b[i]));
    }
    fb_comparison c = verdict(of_pairs(d, n, shortest, of), n);
    fb_free(d);
    return c;
}

double fb_pairs_sigma(const double *a, const double *b, int n)
{
    double *d = fb_alloc(((size_t)n + 1) * sizeof *d);
    for (int i = 0; i < n; i++) d[i] = log(a[i] / b[i]);
    qsort(d, (size_t)n, sizeof *d, ascending);
    double sigma = n < 2 ? NAN : (d[(int)(0.84 * (n - 1))] - d[(int)(0.16 * (n - 1))]) / 2;
    fb_free(d);
    return sigma;
}

int fb_pairs_asked(double sigma)
{
    return (int)fmin(INT_MAX, fmax(24, ceil(2.5 * (223 * sigma) * (223 * sigma))));
}

/* ---- summaries ---- */

/* Student's t, two-sided at `p`: Hill 1970, algorithm 396 of the ACM, without its last digits. */
static double t_quantile(double p, double n)
{
    if (n < 1.5) return tan((1 - p) * M_PI / 2);
    if (n < 2.5) return sqrt(2 / (p * (2 - p)) - 2);
    double a = 1 / (n - 0.5), b = 48 / (a * a);
    double c = ((20700 * a / b - 98) * a - 16) * a + 96.36;
    double d = ((94.5 / (b + c) - 3) / b + 1) * sqrt(a * M_PI / 2) * n;
    double y = pow(d * p, 2 / n);
    if (y > 0.05 + a) { /* from the normal quantile of a thousandth, which is all that is asked for */
        const double x = -3.2905, x2 = x * x;
        if (n < 5) c += 0.3 * (n - 4.5) * (x + 0.6);
        c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c;
        y = (((((0.4 * x2 + 6.3) * x2 + 36) * x2 + 94.5) / c - x2 - 3) / b + 1) * x;
        y = expm1(a * y * y);
    } else {
        y = ((1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1) * (n + 1) /
                (n + 2) +
            1 / y;
    }
    return sqrt(n * y);
}

/* The relative deviation of a median. */
static double deviation(const fb_stat *s)
{
    double half = s->n / 2.0;
    return 1.2533 * fmax(0, s->p90 - s->p10) / 2.5631 / s->median / sqrt(half < 1 ? 1 : half);
}

static estimate of_stats(const fb_stat *a, const fb_stat *b, fb_time of)
{
    if (!a->n || !b->n || !(a->median > 0) || !(b->median > 0)) return unknown;
    int fewer = a->n < b->n ? a->n : b->n;
    double width = hypot(deviation(a), deviation(b));
    double t = fewer > 1 ? t_quantile(alpha, fewer - 1) : 0; /* of one value nothing is known but what the floor says */
    double least = clock_us[of] / fmin(a->median, b->median);
    return (estimate){log(a->median / b->median), hypot(t * width, least) + summary_floor, least + summary_floor};
}

fb_comparison fb_compare_stats(const fb_stat *a, const fb_stat *b)
{
    return verdict(of_stats(a, b, FB_TIME_WALL), 0);
}

/* ---- reports ---- */

static double model_error(fb_figure_source source)
{
    return source == FB_SOURCE_PREDICTED ? predicted_error : source == FB_SOURCE_COMPOSED ? composed_error : 0;
}

double fb_stat_half(const fb_stat *s, fb_figure_source source)
{
    if (!s->n || !(s->median > 0)) return NAN;
    double t = s->n > 1 ? t_quantile(alpha, s->n - 1) : 0;
    return t * deviation(s) + summary_floor + model_error(source);
}

/* A framework runs on the hardware of our devices: "torch:h200" was recorded on that of "replay:h200", and "torch" runs
 * on what is here. */
static bool is_ours(const char *device)
{
    return strstr(device, "host") || strstr(device, "cuda") || strncmp(device, "replay", 6) == 0;
}

static bool same_hardware(const char *a, const char *b)
{
    const char *of_a = strchr(a, ':'), *of_b = strchr(b, ':');
    if (strcmp(a, b) == 0) return true;
    if (is_ours(a) && is_ours(b)) return false;
    bool recorded = (of_a && !strstr(a, "cuda")) || (of_b && !strstr(b, "cuda"));
    return !recorded || (of_a && of_b && strcmp(of_a, of_b) == 0);
}

const char *fb_not_comparable(fb_compared a, fb_compared b)
{
    if (a.device && b.device && !same_hardware(a.device, b.device)) return "another device";
    if (a.computes && b.computes && !fb_computes_alike(a.computes, b.computes)) return "another computation";
    if (strcmp(a.values ? a.values : "", b.values ? b.values : "") != 0) return "of other values";
    return NULL;
}

static double round_us(const fb_round *r, fb_time of)
{
    return of == FB_TIME_WALL ? r->wall_us : r->device_us;
}

/* Rounds that follow each other at once, whichever column's was first, each in one pair. Into d, and the shortest time
 * of all; returns how many. */
static int pair_up(const fb_report *a, const fb_report *b, fb_time of, double d[FB_ROUNDS], double *shortest)
{
    int n = 0;
    *shortest = INFINITY;
    for (int i = 0, k = 0; i < a->n_rounds && k < b->n_rounds;) {
        const fb_round *r = &a->rounds[i], *s = &b->rounds[k];
        bool apart = r->at_us <= s->at_us ? i + 1 < a->n_rounds && a->rounds[i + 1].at_us <= s->at_us
                                          : k + 1 < b->n_rounds && b->rounds[k + 1].at_us <= r->at_us;
        bool first = r->at_us <= s->at_us;
        i += first || !apart;
        k += !first || !apart;
        double x = round_us(r, of), y = round_us(s, of);
        if (apart || !(x > 0) || !(y > 0)) continue;
        d[n++] = log(x / y);
        *shortest = fmin(*shortest, fmin(x, y));
    }
    return n;
}

/* A recording keeps rounds by one clock, on which what was not measured together lies apart. */
static bool same_clock(const fb_report *a, const fb_report *b)
{
    bool ran = a->source == FB_SOURCE_MEASURED || a->source == FB_SOURCE_RECORDED;
    return ran && a->source == b->source && a->device && b->device && strcmp(a->device, b->device) == 0;
}

/* In turns: most of the rounds of either have a partner. */
static int paired(const fb_report *a, const fb_report *b, fb_time of, double d[FB_ROUNDS], double *shortest)
{
    if (!same_clock(a, b)) return 0;
    int n = pair_up(a, b, of, d, shortest), all = a->n_rounds < b->n_rounds ? a->n_rounds : b->n_rounds;
    return n >= FB_PAIRS_LEAST && 2 * n >= all ? n : 0;
}

fb_comparison fb_compare_reports(const fb_report *a, const fb_report *b, fb_time of)
{
    double d[FB_ROUNDS], shortest, error = fmax(model_error(a->source), model_error(b->source));
    if (a->failed || b->failed) return verdict(unknown, 0);
    int n = paired(a, b, of, d, &shortest);
    if (n) return verdict(of_pairs(d, n, shortest, of), n);
    bool wall = of == FB_TIME_WALL;
    estimate e = of_stats(wall ? &a->wall_us : &a->device_us, wall ? &b->wall_us : &b->device_us, of);
    e.half += error;
    return verdict(e, 0);
}

/* More samples may still tell. */
static bool is_open(const fb_comparison *c)
{
    static const double as_good_as = 1.1;
    return c->what == FB_CANNOT_TELL && !(log1p(fb_comparison_resolves(c)) < as_good_as * c->least);
}

bool fb_compare_settled(const fb_report *a, const fb_report *b, double sampled_us)
{
    if (sampled_us >= most_sampled_us || a->failed || b->failed) return true;
    if (fb_not_comparable(FB_COMPARED(a), FB_COMPARED(b))) return true;
    fb_comparison wall = fb_compare_reports(a, b, FB_TIME_WALL), device = fb_compare_reports(a, b, FB_TIME_DEVICE);
    bool device_known = a->device_us.n && b->device_us.n;
    return !is_open(&wall) && (!device_known || !is_open(&device));
}

/* ---- words ---- */

bool fb_differs(const fb_comparison *c)
{
    return c->what == FB_FASTER || c->what == FB_SLOWER;
}

const char *fb_difference_name(fb_difference what)
{
    static const char *const names[] = {"cannot tell", "same", "faster", "slower"};
    return names[what];
}

const char *fb_comparison_time_name(fb_time of)
{
    return of == FB_TIME_WALL ? "wall" : "device";
}

double fb_comparison_resolves(const fb_comparison *c)
{
    return c->low > 0 ? sqrt(c->high / c->low) - 1 : INFINITY;
}

/* Below 1 it is the inverse that is written, between `before` and `after`. */
static const char *ratio(double times, const char *before, const char *after, char to[32])
{
    bool below = times < 0.995;
    double shown = below ? 1 / times : times;
    int digits = shown < 9.995 ? 2 : shown < 99.95 ? 1 : 0;
    snprintf(to, 32, "%s%.*f%s", below ? before : "", digits, shown, below ? after : " ×");
    return to;
}

const char *fb_ratio_say(double times, char to[32])
{
    return ratio(times, "", "× slower", to);
}

const char *fb_ratio_brief(double times, char to[32])
{
    return ratio(times, "1/", " ×", to);
}

const char *fb_comparison_say(const fb_comparison *c, char to[64])
{
    double resolves = 100 * fb_comparison_resolves(c);
    double beyond = 100 * fmax(c->high - 1, 1 - c->low);
    char times[32];
    if (c->what == FB_FASTER)
        snprintf(to, 64, "faster: %.3g ×", c->times);
    else if (c->what == FB_SLOWER)
        snprintf(to, 64, "%s", fb_ratio_say(c->times, times));
    else if (c->what == FB_SAME)
        snprintf(to, 64, "the same within %.1f %%", beyond);
    else if (resolves < 1000)
        snprintf(to, 64, "cannot tell: less than %.*f %% is not seen%s", resolves < 10, resolves,
                 c->pairs ? " on this machine" : "");
    else
        snprintf(to, 64, "cannot tell: the spread is not known");
    return to;
}
