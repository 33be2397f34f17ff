/* Pairs of times as they are looked at again and again. Needs their logarithms in the order in which they were taken,
 * and leaves them alone; what it does stands in the header. */
#include "measure/pairs.h"

#include "base/mem.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double wanted = 0.02;                /* the difference that is to be found */
static const double risk = 0.0015;                /* of all looks: added up, more than it is */
static const double around = 0.8, octaves = 0.6;  /* the part that is spent around one look; how wide that lies */
static const double evenly = 6;                   /* octaves from the first look on, for the rest */
static const double asked_once = 223;             /* of the header, for each σ */
static const double asked_always = 1.6, few = 18; /* what looking always asks for, by simulation */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of n values in order, that below which the part `p` of them lies. */
static int quantile_at(int n, double p)
{
    return (int)(p * (n - 1));
}

static double quantile(const double *sorted, int n, double p)
{
    return sorted[quantile_at(n, p)];
}

static const double upper = 0.84, lower = 0.16; /* of a normal one: a deviation on either side */

static double middle_half(const double *sorted, int n)
{
    return (quantile(sorted, n, upper) - quantile(sorted, n, lower)) / 2;
}

/* ---- which looks, and what each may spend ---- */

/* Pairs at each look: 24 is what recordings hold, 128 what a report keeps. */
static int pairs_at(int number)
{
    enum { FIRST = -3 };
    return (int)fmin(INT_MAX, rint(24 * pow(128.0 / 24, (FIRST + number) / 9.0)));
}

static double below_normal(double z)
{
    return 0.5 * erfc(-z * M_SQRT1_2);
}

static double spent(int pairs, double likely)
{
    double flat = log2((double)pairs / FB_PAIRS_LEAST) / evenly;
    return risk * (around * below_normal(log2(pairs / likely) / octaves) + (1 - around) * fmin(1, flat));
}

/* Two-sided, of a normal deviate: Newton, on the logarithm. */
static double normal_beyond(double p)
{
    double z = sqrt(-2 * log(p));
    for (int i = 0; i < 6; i++) {
        double tail = erfc(z * M_SQRT1_2), before = z;
        z += log(tail / p) * tail / (sqrt(M_2_PI) * exp(-z * z / 2));
        if (z == before) break; /* it stays */
    }
    return z;
}

/* ---- one look ---- */

typedef struct {
    const double *d, *sorted; /* in order of time, of size */
    int n, number;
    double *sizes, *signs; /* room for n */
} look;

static const double widest = 0.68; /* the part of the sizes that is not cut off */

/* The smaller sizes |d − m|, ascending, to that below which the part `p` lies: from where m lies in both directions. */
static void sizes_around(const look *l, double m, double p)
{
    int up = 0, end = l->n, last = quantile_at(l->n, p);
    while (up < end) {
        int middle = up + (end - up) / 2;
        if (l->sorted[middle] < m)
            up = middle + 1;
        else
            end = middle;
    }
    for (int i = 0, down = up - 1; i <= last; i++) {
        bool above = down < 0 || (up < l->n && l->sorted[up] - m <= m - l->sorted[down]);
        l->sizes[i] = above ? l->sorted[up++] - m : m - l->sorted[down--];
    }
}

/* fmin and fmax would be two calls for each value. */
static double between(double x, double most)
{
    double above = x > -most ? x : -most;
    return above < most ? above : most;
}

/* Leaves d − m, cut off, in `signs`; returns their sum. Needs the sizes around m. */
static double cut_off(const look *l, double m)
{
    double sum = 0, most = quantile(l->sizes, l->n, widest);
    for (int i = 0; i < l->n; i++) {
        l->signs[i] = between(l->d[i] - m, most);
        sum += l->signs[i];
    }
    return sum;
}

/* What Σ w² is short of where neighbours say the same, beyond chance: of what `signs` scatter around their mean. */
static double correlated(const look *l, double mean)
{
    double sum = 0, lag = 0;
    for (int i = 0; i < l->n; i++) {
        double x = l->signs[i] - mean;
        sum += x * x;
        if (i + 1 < l->n) lag += x * (l->signs[i + 1] - mean);
    }
    double r = fmin(0.9, (sum > 0 ? lag / sum : 0) + 1.0 / l->n - 1 / sqrt(l->n));
    return r > 0 ? sum * ((1 + r) / (1 - r) - 1) : 0;
}

static double level_of(const look *l)
{
    double s = asked_once * middle_half(l->sizes, l->n), likely = fmin(1024, fmax(FB_PAIRS_LEAST, 12 + 2.5 * s * s));
    return spent(l->n, likely) - (l->number ? spent(pairs_at(l->number - 1), likely) : 0);
}

/* Coins would hardly fall like this if the difference were m. */
static bool is_refused(const look *l, double m)
{
    sizes_around(l, m, upper);
    double sum = cut_off(l, m), squares = 0, fourths = 0, level = level_of(l);
    for (int i = 0; i < l->n; i++) {
        double square = l->signs[i] * l->signs[i];
        squares += square;
        fourths += square * square;
    }
    if (!(squares > 0) || level < ldexp(1, 1 - l->n)) return false;
    double z = normal_beyond(level), k = -2 * fourths / (squares * squares);
    double x = fabs(sum) / sqrt(squares + correlated(l, sum / l->n));
    return x >= z + k * (z * z * z - 3 * z) / 24;
}

/* Where what lies above and below m balances. */
static double balance(const look *l)
{
    double below = l->sorted[0], above = l->sorted[l->n - 1];
    for (int i = 0; i < 50 && below < above; i++) {
        double m = (below + above) / 2;
        sizes_around(l, m, widest);
        if (cut_off(l, m) > 0)
            below = m;
        else
            above = m;
    }
    return (below + above) / 2;
}

/* The first difference beyond `mean` that is refused, in steps of either sign. */
static double end_of(const look *l, double mean, double step)
{
    enum { DOUBLINGS = 40, HALVINGS = 30 };
    double in = mean, out = mean + step;
    for (int i = 0; !is_refused(l, out); i++) {
        if (i == DOUBLINGS) return step < 0 ? -INFINITY : INFINITY;
        in = out;
        step *= 2;
        out = mean + step;
    }
    for (int i = 0; i < HALVINGS; i++) {
        double m = (in + out) / 2;
        if (is_refused(l, m))
            out = m;
        else
            in = m;
    }
    return out;
}

fb_pairs_interval fb_pairs_look(const double *d, int n)
{
    if (n < FB_PAIRS_LEAST) return (fb_pairs_interval){NAN, NAN, NAN, 0};
    int number = 0;
    while (pairs_at(number + 1) <= n) number++;
    n = pairs_at(number);
    double *room = fb_alloc(3 * (size_t)n * sizeof *room);
    memcpy(room, d, (size_t)n * sizeof *room);
    qsort(room, (size_t)n, sizeof *room, ascending);
    look l = {.d = d, .sorted = room, .n = n, .number = number, .sizes = room + n, .signs = room + 2 * (size_t)n};
    double mean = balance(&l), step = fmax(1e-9, middle_half(room, n) / sqrt(n));
    fb_pairs_interval found = {mean, end_of(&l, mean, -step), end_of(&l, mean, step), n};
    fb_free(room);
    return found;
}

/* ---- fewer than that ---- */

fb_pairs_interval fb_pairs_apart(const double *a, const double *b, const bool *a_first, int n)
{
    enum { TWICE = 2 };
    double least[] = {INFINITY, INFINITY}, most[] = {-INFINITY, -INFINITY}, sum = 0;
    int seen = n < FB_PAIRS_LEAST ? n : FB_PAIRS_LEAST - 1, first = 0;
    for (int i = 0; i < seen; i++) {
        least[0] = fmin(least[0], a[i]), most[0] = fmax(most[0], a[i]);
        least[1] = fmin(least[1], b[i]), most[1] = fmax(most[1], b[i]);
        sum += a[i] - b[i];
        first += a_first[i];
    }
    bool drawn = first >= TWICE && seen - first >= TWICE;
    if (seen < FB_PAIRS_FEW || !drawn) return (fb_pairs_interval){NAN, NAN, NAN, 0};
    return (fb_pairs_interval){sum / seen, least[0] - most[1], most[0] - least[1], seen};
}

/* ---- how many pairs ---- */

double fb_pairs_sigma(const double *a, const double *b, int n)
{
    if (n < 2) return NAN;
    double *d = fb_alloc((size_t)n * sizeof *d);
    for (int i = 0; i < n; i++) d[i] = log(a[i] / b[i]);
    qsort(d, (size_t)n, sizeof *d, ascending);
    double sigma = middle_half(d, n);
    fb_free(d);
    return sigma;
}

/* Σ of what neighbours, and those two and three apart, have in common, as long as it is above 0: for as much as they do,
 * n pairs tell less than n (Geyer 1992 ends the sum likewise). Of differences cut off around `m`. */
static double in_common(const double *d, int n, double m, double most)
{
    enum { FURTHEST = 3 };
    double mean = 0, squares = 0, common = 0;
    for (int i = 0; i < n; i++) mean += between(d[i] - m, most) / n;
    for (int far = 0; far <= FURTHEST; far++) {
        double sum = 0;
        for (int i = far; i < n; i++) sum += (between(d[i] - m, most) - mean) * (between(d[i - far] - m, most) - mean);
        if (!far) squares = sum;
        if (far && !(sum > 0)) break;
        if (far) common += sum / squares;
    }
    return squares > 0 ? common : 0;
}

double fb_pairs_long_sigma(const double *a, const double *b, int n)
{
    if (n < 2) return NAN;
    double *d = fb_alloc(2 * (size_t)n * sizeof *d), *sorted = d + n;
    for (int i = 0; i < n; i++) d[i] = log(a[i] / b[i]);
    memcpy(sorted, d, (size_t)n * sizeof *d);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    double sigma = middle_half(sorted, n);
    sigma *= sqrt(1 + 2 * in_common(d, n, quantile(sorted, n, 0.5), sigma));
    fb_free(d);
    return sigma;
}

int fb_pairs_next_look(int n)
{
    if (n + 1 < FB_PAIRS_LEAST) return n < FB_PAIRS_FEW ? FB_PAIRS_FEW : n + 1;
    int number = 0;
    while (pairs_at(number) <= n) number++;
    return pairs_at(number);
}

int fb_pairs_asked(double sigma)
{
    double s = asked_once * sigma;
    return fb_pairs_next_look((int)fmin(INT_MAX / 2, ceil(few + asked_always * s * s)) - 1);
}

/* How often Student's t of n pairs, whose true mean lies `away` of the mean's deviations off, is above `limit`: over
 * what the estimated deviation may be, in parts of the true one. */
static double above(int n, double away, double limit)
{
    enum { STEPS = 400 };
    double freedom = n - 1, most = 1 + 8 / sqrt(2 * freedom), whole = 0, found = 0;
    for (int i = 1; i < STEPS; i++) {
        double s = most * i / STEPS, density = exp((freedom - 1) * log(s) - freedom * (s * s - 1) / 2);
        whole += density;
        found += density * below_normal(away - limit * s);
    }
    return found / whole;
}

static bool one_look_finds(int n, double sigma)
{
    static const double wrong = 1.0 / 500, found = 0.95;
    double low = 0, high = 1e4;
    for (int i = 0; i < 60; i++) {
        double limit = (low + high) / 2;
        if (above(n, 0, limit) > wrong / 2)
            low = limit;
        else
            high = limit;
    }
    return above(n, log1p(wanted) / sigma * sqrt(n), high) >= found;
}

int fb_pairs_bound(double sigma)
{
    enum { MOST = 1 << 20 };
    int low = 1, high = 2; /* of `low` it is too few, as of 1 nothing is known */
    while (high < MOST && !one_look_finds(high, sigma)) {
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        int n = low + (high - low) / 2;
        if (one_look_finds(n, sigma))
            high = n;
        else
            low = n;
    }
    return high;
}
