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

/* What both tell; where one says nothing, what the other does. */
static fb_pairs_interval both(fb_pairs_interval few, fb_pairs_interval look)
{
    double low = fmax(few.low, look.low), high = fmin(few.high, look.high);
    if (!look.seen) return few;
    if (!few.seen || low > high) return look;
    return (fb_pairs_interval){fmin(fmax(look.mean, low), high), low, high, look.seen};
}

/* Of few rounds it is the difference that may be known, and nothing else yet. */
static fb_comparison of_interval(fb_pairs_interval i, int n, double mean, double least)
{
    fb_comparison c =
        verdict((estimate){i.mean, hypot(i.mean - i.low, least), hypot(i.high - i.mean, least), least}, n);
    if (i.seen >= FB_PAIRS_LEAST || fb_differs(&c)) return c;
    return (fb_comparison){.times = exp(mean), .low = 0, .high = INFINITY, .least = least, .pairs = n};
}

fb_comparison fb_compare_pairs(const double *a, const double *b, const bool *a_first, int n, fb_time of)
{
    if (n < 1) return verdict(unknown, 0);
    double *x = fb_alloc(3 * (size_t)n * sizeof *x), *y = x + n, *d = y + n, shortest = INFINITY, sum = 0;
    for (int i = 0; i < n; i++) {
        x[i] = log(a[i]);
        y[i] = log(b[i]);
        sum += d[i] = x[i] - y[i];
        shortest = fmin(shortest, fmin(a[i], b[i]));
    }
    fb_pairs_interval few = {NAN, NAN, NAN, 0};
    if (a_first) few = fb_pairs_apart(x, y, a_first, n);
    fb_comparison c = of_interval(both(few, fb_pairs_look(d, n)), n, sum / n, clock_us[of] / shortest);
    fb_free(x);
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

/* Of one value nothing is known but what the floor says. */
static double times_deviation(const fb_stat *s)
{
    return s->n > 1 ? t_quantile(alpha, s->n - 1) * deviation(s) : 0;
}

static estimate of_medians(double a, double b, double half, fb_time of)
{
    double least = clock_us[of] / fmin(a, b);
    half = hypot(half, least) + summary_floor;
    return (estimate){log(a / b), half, half, least + summary_floor};
}

static bool is_known(const fb_stat *s)
{
    return s->n && s->median > 0;
}

fb_comparison fb_compare_stats(const fb_stat *a, const fb_stat *b)
{
    if (!is_known(a) || !is_known(b)) return verdict(unknown, 0);
    double half = hypot(times_deviation(a), times_deviation(b));
    return verdict(of_medians(a->median, b->median, half, FB_TIME_WALL), 0);
}

/* ---- reports ---- */

/* What a composed time carries is no spread of samples: it says where 80 % of such times came out. */
static double model_error(const fb_stat *s, fb_figure_source source)
{
    double half = fmax(0, s->p90 - s->p10) / 2 / s->median;
    return source == FB_SOURCE_PREDICTED  ? predicted_error
           : source == FB_SOURCE_COMPOSED ? fmax(composed_error, half) /* NAN of half: nothing more is known */
                                          : 0;
}

static const fb_stat *time_of(const fb_report *r, fb_time of)
{
    return of == FB_TIME_WALL ? &r->wall_us : &r->device_us;
}

static double round_us(const fb_round *r, fb_time of)
{
    return of == FB_TIME_WALL ? r->wall_us : r->device_us;
}

/* The same as times_deviation, of rounds; 0 where fewer than two are known. */
static double times_deviation_of_rounds(const fb_report *r, fb_time of)
{
    double sum = 0, squares = 0;
    int n = 0;
    for (int i = 0; i < r->n_rounds; i++) {
        double us = round_us(&r->rounds[i], of);
        if (!(us > 0)) continue;
        double x = log(us / time_of(r, of)->median);
        sum += x;
        squares += x * x;
        n++;
    }
    if (n < 2) return 0;
    return t_quantile(alpha, n - 1) * 1.2533 * sqrt(fmax(0, squares - sum * sum / n) / (n - 1) / n);
}

static double half_of(const fb_report *r, fb_time of)
{
    if (r->source == FB_SOURCE_COMPOSED) return 0;
    return fmax(times_deviation(time_of(r, of)), times_deviation_of_rounds(r, of));
}

double fb_stat_half(const fb_stat *s, fb_figure_source source)
{
    if (!is_known(s)) return NAN;
    return (source == FB_SOURCE_COMPOSED ? 0 : times_deviation(s)) + summary_floor + model_error(s, source);
}

double fb_report_half(const fb_report *r, fb_time of)
{
    if (!is_known(time_of(r, of))) return NAN;
    return half_of(r, of) + summary_floor + model_error(time_of(r, of), r->source);
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

typedef struct {
    int n;
    double a[FB_ROUNDS], b[FB_ROUNDS];
    bool a_first[FB_ROUNDS];
} turns;

/* Rounds that follow each other at once, whichever column's was first, each in one pair. */
static void pair_up(const fb_report *a, const fb_report *b, fb_time of, turns *t)
{
    t->n = 0;
    for (int i = 0, k = 0; i < a->n_rounds && k < b->n_rounds;) {
        const fb_round *r = &a->rounds[i], *s = &b->rounds[k];
        bool apart = r->at_us <= s->at_us ? i + 1 < a->n_rounds && a->rounds[i + 1].at_us <= s->at_us
                                          : k + 1 < b->n_rounds && b->rounds[k + 1].at_us <= r->at_us;
        bool first = r->at_us <= s->at_us;
        i += first || !apart;
        k += !first || !apart;
        double x = round_us(r, of), y = round_us(s, of);
        if (apart || fabs(s->at_us - r->at_us) > FB_ROUNDS_APART_US || !(x > 0) || !(y > 0)) continue;
        t->a[t->n] = x;
        t->b[t->n] = y;
        t->a_first[t->n++] = first;
    }
}

/* Frameworks take turns with our plans on one machine, by its clock. A recording keeps that clock, on which what was
 * not measured together lies apart. */
static bool same_clock(const fb_report *a, const fb_report *b)
{
    bool ran = a->source == FB_SOURCE_MEASURED || a->source == FB_SOURCE_RECORDED;
    return ran && a->source == b->source && a->device && b->device && same_hardware(a->device, b->device);
}

/* In turns: most of the rounds of either have a partner, or enough of them, where a recording has several stretches of
 * both. */
static bool in_turns(const fb_report *a, const fb_report *b, fb_time of, turns *t)
{
    if (!same_clock(a, b)) return false;
    pair_up(a, b, of, t);
    return t->n && (t->n >= FB_PAIRS_LEAST || 2 * t->n >= (a->n_rounds < b->n_rounds ? a->n_rounds : b->n_rounds));
}

fb_comparison fb_compare_reports(const fb_report *a, const fb_report *b, fb_time of)
{
    turns t;
    const fb_stat *x = time_of(a, of), *y = time_of(b, of);
    if (a->failed || b->failed) return verdict(unknown, 0);
    if (in_turns(a, b, of, &t)) return fb_compare_pairs(t.a, t.b, t.a_first, t.n, of);
    if (!is_known(x) || !is_known(y)) return verdict(unknown, 0);
    double error = fmax(model_error(x, a->source), model_error(y, b->source));
    estimate e = of_medians(x->median, y->median, hypot(half_of(a, of), half_of(b, of)), of);
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
    /* Another computation has no ratio, and yet a puzzle asks which of the two is done first. */
    if (fb_not_comparable((fb_compared){.device = a->device}, (fb_compared){.device = b->device})) return true;
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
    else if (c->pairs && c->pairs < FB_PAIRS_LEAST)
        snprintf(to, 64, "cannot tell yet: %d of %d rounds", c->pairs, FB_PAIRS_LEAST);
    else if (c->pairs)
        snprintf(to, 64, "cannot tell: too few rounds yet");
    else
        snprintf(to, 64, "cannot tell: the spread is not known");
    return to;
}
