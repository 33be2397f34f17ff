/* Comparing two columns' times. Needs reports; leaves them alone. The formulas stand in the header. */
#include "measure/compare.h"

#include "base/mem.h"
#include "target/target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double alpha = 0.001, same_within = 0.02, summary_floor = 0.005;
static const double most_sampled_us = 5e6;
static const double clock_us[] = {[FB_TIME_WALL] = 0.02, [FB_TIME_DEVICE] = 0.064}; /* two steps */
static const double composed_error = 0.10, predicted_error = 0.25;

/* The logarithm of A over B and how far its interval reaches below and above it, of which `least` is not a matter of
 * samples. */
typedef struct {
    double mean, below, above, least;
} estimate;

static const estimate unknown = {NAN, NAN, NAN, NAN};

static fb_comparison verdict(estimate e, int pairs)
{
    double low = e.mean - e.below, high = e.mean + e.above;
    if (!(e.below >= 0)) return (fb_comparison){.times = NAN, .low = 0, .high = INFINITY};
    fb_comparison c = {.times = exp(e.mean), .low = exp(low), .high = exp(high), .least = e.least, .pairs = pairs};
    if (low > 0)
        c.what = FB_FASTER;
    else if (high < 0)
        c.what = FB_SLOWER;
    else if (fmax(-low, high) < same_within)
        c.what = FB_SAME;
    return c;
}

/* ---- pairs ---- */

/* `d` of times that took `shortest` µs at least. */
static estimate of_pairs(const double *d, int n, double shortest, fb_time of)
{
    fb_pairs_interval i = fb_pairs_look(d, n);
    double least = clock_us[of] / shortest;
    return (estimate){i.mean, hypot(i.mean - i.low, least), hypot(i.high - i.mean, least), least};
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
    double half = hypot(t * width, least) + summary_floor;
    return (estimate){log(a->median / b->median), half, half, least + summary_floor};
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

/* Reports have names of devices alone: "cuda:0", or "box:cuda:0" where two machines have one. The target that is named
 * last in it, for a machine may be called localhost; NULL: the device is another framework's, or a recording. */
static const fb_target *target_in(const char *device)
{
    const fb_target *t, *last = NULL;
    const char *at = device;
    for (int i = 0; (t = fb_target_written(i)); i++) {
        const char *here = strstr(device, t->device);
        if (!here || here < at) continue;
        at = here;
        last = t;
    }
    return last;
}

static bool is_ours(const char *device)
{
    return target_in(device) || strncmp(device, "replay", 6) == 0;
}

/* What follows the colon is the name of a recording: numbers are of devices, which only grids have several of. */
static bool is_recorded(const char *device)
{
    const fb_target *t = target_in(device);
    return strchr(device, ':') && !(t && t->grid);
}

/* A framework runs on the hardware of our devices: "torch:h200" was recorded on that of "replay:h200", and "torch" runs
 * on what is here. */
static bool same_hardware(const char *a, const char *b)
{
    const char *of_a = strchr(a, ':'), *of_b = strchr(b, ':');
    if (strcmp(a, b) == 0) return true;
    if (is_ours(a) && is_ours(b)) return false;
    return (!is_recorded(a) && !is_recorded(b)) || (of_a && of_b && strcmp(of_a, of_b) == 0);
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
    e.below += error;
    e.above += error;
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
    /* Of more, the first are forgotten, and looks would follow each other without an end. */
    if (a->n_rounds == FB_ROUNDS && b->n_rounds == FB_ROUNDS) return true;
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
    else if (c->pairs)
        snprintf(to, 64, "cannot tell: too few rounds yet");
    else
        snprintf(to, 64, "cannot tell: the spread is not known");
    return to;
}
