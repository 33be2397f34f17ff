/* The judge: sums over regions of a tensor, element by element and as wholes.
 *
 * requires  blocks of trials, or spreads that were made of them, in any order
 * provides  a verdict with the worst element, and what was wrong in words
 *
 * A tensor is rows of its last dimension. Elements come in runs that lie in the same regions, so that a sum is kept in
 * registers along a run; the few elements of columns and of the last tile are added one by one. */
#include "measure/judge.h"

#include "base/rng.h"

#include "base/mem.h"
#include "base/str.h"
#include "graph/element.h"

#include <float.h>
#include <math.h>

/* Sums may be taken in any order, so that they are vectorised. */
#if defined __GNUC__ && !defined __clang__
#define FB_JUDGE_FAST __attribute__((optimize("O3,associative-math,no-signed-zeros,no-trapping-math")))
#else
#define FB_JUDGE_FAST
#endif
#include <stdio.h>
#include <string.h>

enum { ALL, FIRST_ROW, LAST_ROW, FIRST_COLUMN, LAST_COLUMN, LAST_TILE, PARTS, N_PARTS = FB_JUDGE_REGIONS - PARTS };
enum {
    TILE = 64,
    SPREAD_PIECE = 512,
    EACH_SIZE = 3,     /* so many elements one is counted among the sizes */
    CHUNK = 4096,      /* elements whose usual spread is one figure */
    MEDIAN_LEAST = 64, /* elements that a median says something of */
    TAIL_LEAST = 512,
    REGION_LEAST = 8,
    BIN_OF_ONE = 15,
};

fb_judge_shape fb_judgement_shape_of(const fb_node *n)
{
    fb_judge_shape s = {.elements = fb_shape_elements(&n->shape), .columns = 1, .dtype = n->dtype};
    if (n->shape.rank) s.columns = n->shape.dim[n->shape.rank - 1];
    s.rows = s.columns ? s.elements / s.columns : 0;
    return s;
}

/* ---- regions ---- */

static int64_t part_begin(const fb_judge_shape *s, int part)
{
    return (int64_t)((__int128)s->elements * part / N_PARTS);
}

static int part_of(const fb_judge_shape *s, int64_t i)
{
    int part = (int)((__int128)i * N_PARTS / s->elements);
    while (part + 1 < N_PARTS && part_begin(s, part + 1) <= i) part++;
    while (part > 0 && part_begin(s, part) > i) part--;
    return part;
}

/* Elements from i on, before `end`, that lie in the same regions but for columns and the tile; those regions in to[].
 */
static int64_t run_of(const fb_judge_shape *s, int64_t i, int64_t end, int to[4], int *n)
{
    int part = part_of(s, i);
    int64_t stop = part + 1 < N_PARTS ? part_begin(s, part + 1) : s->elements, last = (s->rows - 1) * s->columns;
    *n = 0;
    to[(*n)++] = ALL;
    to[(*n)++] = PARTS + part;
    if (s->rows > 1) {
        if (i < s->columns) to[(*n)++] = FIRST_ROW;
        if (i < s->columns && stop > s->columns) stop = s->columns;
        if (i >= last) to[(*n)++] = LAST_ROW;
        if (i < last && stop > last) stop = last;
    }
    return stop < end ? stop : end;
}

/* Calls `add` for each element of [first, end) that lies in a column or in the last tile. */
#define FOR_EDGES(s, first, end, REGION, AT, BODY)                                                                     \
    do {                                                                                                               \
        int64_t c_ = (s)->columns, tile_row_ = (s)->rows > TILE ? ((s)->rows - 1) / TILE * TILE : 0,                   \
                tile_col_ = c_ > TILE ? (c_ - 1) / TILE * TILE : 0;                                                    \
        if (c_ < 2) break;                                                                                             \
        for (int64_t row_ = (first) / c_; row_ * c_ < (end); row_++) {                                                 \
            int64_t begin_ = row_ * c_, stop_ = begin_ + c_;                                                           \
            if (begin_ >= (first)) {                                                                                   \
                const int REGION = FIRST_COLUMN;                                                                       \
                const int64_t AT = begin_;                                                                             \
                BODY                                                                                                   \
            }                                                                                                          \
            if (stop_ - 1 >= (first) && stop_ - 1 < (end)) {                                                           \
                const int REGION = LAST_COLUMN;                                                                        \
                const int64_t AT = stop_ - 1;                                                                          \
                BODY                                                                                                   \
            }                                                                                                          \
            for (int64_t k_ = begin_ + tile_col_; row_ >= tile_row_ && k_ < stop_ && k_ < (end); k_++) {               \
                if (k_ < (first)) continue;                                                                            \
                const int REGION = LAST_TILE;                                                                          \
                const int64_t AT = k_;                                                                                 \
                BODY                                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* ---- sizes ---- */

/* Positive values counted in halves of powers of two: by exponent, and whether the fraction is above √2. */
enum { SMALLEST = -100 };

static inline int size_bin(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return 2 * ((int)(bits >> 52) - 1023 - SMALLEST) + ((bits & 0xfffffffffffff) > 0x6a09e667f3bcd);
}

static inline void size_add(int32_t *sizes, double x)
{
    if (!(x > 0) || !isfinite(x)) return;
    int bin = size_bin(x);
    sizes[bin < 0 ? 0 : bin >= FB_JUDGE_SIZES ? FB_JUDGE_SIZES - 1 : bin]++;
}

/* What this share of the values does not exceed; 0 where there are none. */
static double size_at(const int32_t *sizes, double share)
{
    int64_t all = 0, seen = 0;
    for (int k = 0; k < FB_JUDGE_SIZES; k++) all += sizes[k];
    for (int k = 0; all && k < FB_JUDGE_SIZES; k++) {
        seen += sizes[k];
        if ((double)seen >= share * (double)all) return ldexp(k % 2 ? 2 : M_SQRT2, k / 2 + SMALLEST);
    }
    return 0;
}

/* ---- spreads ---- */

/* The distance of neighbours in a dtype: at 1, and of the numbers that are not normal. Such numbers some devices take for
 * 0, and half of the lanes do; not those of f16, which count. */
typedef struct {
    double of_one, least;
    double nothing; /* as good as 0 */
} steps;

static steps steps_of(fb_dtype dtype)
{
    switch (dtype) {
    case FB_F16: return (steps){0x1p-10, 0x1p-24, 0};
    case FB_BF16: return (steps){0x1p-7, 0x1p-133, 0x1p-126};
    case FB_F32: return (steps){0x1p-23, 0x1p-149, 0x1p-126};
    default: return (steps){0x1p-52, 0x1p-1022, 0x1p-1022};
    }
}

/* … and at r, which is finite. */
static inline double step_at(const steps *s, double r)
{
    uint64_t bits;
    double power;
    memcpy(&bits, &r, sizeof bits);
    bits &= 0x7ff0000000000000u;
    memcpy(&power, &bits, sizeof power);
    return power * s->of_one > s->least ? power * s->of_one : s->least;
}

/* An element's spread, half a step at least: what lies next to a number that its dtype holds comes out as that in each
 * lane, and as the next one where roundings on the way lead there. */
static inline double own_spread(const steps *s, double r, double spread)
{
    double half = step_at(s, r) / 2;
    return spread > half ? spread : half;
}

static float rounded_up(double spread)
{
    float f = (float)spread;
    return (double)f < spread ? nextafterf(f, INFINITY) : f;
}

static bool same_special(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Spreads where all is finite; false where it is not, and nothing was filled. Lane by lane, so that it is vectorised.
 */
FB_JUDGE_FAST static bool spread_finite(const fb_trial_block *b, float *restrict spread)
{
    double most[SPREAD_PIECE];
    int64_t odd = 0; /* not a number in a sum: that an optimiser may take apart */
    for (int64_t at = 0, n; at < b->n; at += n) {
        n = b->n - at < SPREAD_PIECE ? b->n - at : SPREAD_PIECE;
        const double *restrict r = b->v[0] + at;
        memset(most, 0, sizeof most);
        for (int l = 1; l < b->lanes; l++) {
            const double *restrict x = b->v[l] + at;
            for (int64_t k = 0; k < n; k++) {
                double off = fabs(x[k] - r[k]);
                most[k] = off > most[k] ? off : most[k];
                odd |= !(off <= DBL_MAX);
            }
        }
        for (int64_t k = 0; k < n; k++) {
            odd |= !(fabs(r[k]) <= DBL_MAX);
            /* rounded up, or a little more; what is too small for a float is not nothing */
            spread[at + k] = (float)(most[k] * (1 + 0x1p-22)) + (most[k] > 0 ? FLT_TRUE_MIN : 0);
        }
    }
    return !odd;
}

/* Of one element; INFINITY where the lanes disagree whether it is finite. */
static double spread_at(const fb_trial_block *b, int64_t k, int64_t *overflows)
{
    double r = b->v[0][k], most = 0;
    bool finite = isfinite(r);
    for (int l = 1; l < b->lanes; l++) {
        double x = b->v[l][k];
        if (finite && isfinite(x)) {
            most = fmax(most, fabs(x - r));
        } else if (!same_special(x, r)) {
            *overflows += finite && isinf(x);
            return INFINITY;
        }
    }
    return most;
}

/* Of at most SPREAD_PIECE elements, how far each lane went over their own spreads. */
FB_JUDGE_FAST static void add_own(fb_region_spread *to, const steps *s, const fb_trial_block *b,
                                  const float *restrict spread, int64_t first, int64_t last)
{
    double per[SPREAD_PIECE];
    const double *restrict r = b->v[0];
    for (int64_t k = first; k < last; k++) per[k - first] = spread[k] > 0 ? 1 / own_spread(s, r[k], spread[k]) : 0;
    for (int l = 1; l < b->lanes; l++) {
        const double *restrict x = b->v[l];
        double own = 0;
        for (int64_t k = first; k < last; k++) own += fabs(x[k] - r[k]) * per[k - first];
        to->own[l - 1] += own;
    }
}

/* Elements first … last - 1 of a block, all of which count. */
FB_JUDGE_FAST static void add_run(fb_region_spread *to, const steps *s, const fb_trial_block *b,
                                  const float *restrict spread, int64_t first, int64_t last)
{
    for (int64_t at = first; at < last; at += SPREAD_PIECE)
        add_own(to, s, b, spread, at, at + SPREAD_PIECE < last ? at + SPREAD_PIECE : last);
    const double *restrict r = b->v[0];
    double squares = 0, sizes = 0, along_squares = 0, offset_squares = 0;
    for (int64_t k = first; k < last; k++) {
        double most = spread[k], along = most * r[k];
        squares += r[k] * r[k];
        sizes += fabs(r[k]);
        along_squares += along * along;
        offset_squares += most * most;
    }
    to->along_squares += along_squares;
    to->offset_squares += offset_squares;
    to->squares += squares;
    to->sizes += sizes;
    to->n += last - first;
    for (int l = 1; l < b->lanes; l++) {
        const double *restrict x = b->v[l];
        double along = 0, offset = 0;
        for (int64_t k = first; k < last; k++) {
            along += (x[k] - r[k]) * r[k];
            offset += x[k] - r[k];
        }
        to->along[l - 1] += along;
        to->offset[l - 1] += offset;
    }
}

static void add_element(fb_region_spread *to, const steps *s, const fb_trial_block *b, int64_t k, double spread)
{
    double r = b->v[0][k], per = spread > 0 ? 1 / own_spread(s, r, spread) : 0;
    to->squares += r * r;
    to->along_squares += spread * r * (spread * r);
    to->offset_squares += spread * spread;
    to->sizes += fabs(r);
    to->n++;
    for (int l = 1; l < b->lanes; l++) {
        double off = b->v[l][k] - r;
        to->along[l - 1] += off * r;
        to->offset[l - 1] += off;
        to->own[l - 1] += fabs(off) * per;
    }
}

static void join_region(fb_region_spread *to, const fb_region_spread *part)
{
    to->squares += part->squares;
    to->along_squares += part->along_squares;
    to->offset_squares += part->offset_squares;
    to->sizes += part->sizes;
    to->n += part->n;
    for (int l = 0; l < FB_TRIALS; l++) {
        to->along[l] += part->along[l];
        to->offset[l] += part->offset[l];
        to->own[l] += part->own[l];
    }
}

static bool is_judged(double r, float spread)
{
    return isfinite(r) && isfinite(spread);
}

static void spread_floats(fb_spread *s, const fb_judge_shape *shape, const fb_trial_block *b, float *spread)
{
    const steps each = steps_of(shape->dtype);
    bool finite = spread_finite(b, spread);
    for (int64_t k = 0; k < b->n && !finite; k++) spread[k] = rounded_up(spread_at(b, k, &s->overflows));
    for (int64_t k = 0; k < b->n; k += EACH_SIZE) {
        size_add(s->absolute, spread[k]);
        if (b->v[0][k] != 0) size_add(s->relative, spread[k] / fabs(b->v[0][k]));
    }
    int64_t end = b->first + b->n;
    for (int64_t i = b->first, stop; i < end; i = stop) {
        int to[4], n;
        fb_region_spread run = {0};
        stop = run_of(shape, i, end, to, &n);
        if (finite) add_run(&run, &each, b, spread, i - b->first, stop - b->first);
        for (int64_t k = i - b->first; !finite && k < stop - b->first; k++)
            if (is_judged(b->v[0][k], spread[k])) add_element(&run, &each, b, k, spread[k]);
        for (int t = 0; t < n; t++) join_region(&s->region[to[t]], &run);
    }
    FOR_EDGES(shape, b->first, end, region, at, {
        int64_t k = at - b->first;
        if (is_judged(b->v[0][k], spread[k])) add_element(&s->region[region], &each, b, k, spread[k]);
    });
}

void fb_spread_add(fb_spread *s, const fb_judge_shape *shape, const fb_trial_block *b, float *spread)
{
    if (b->v[0]) {
        spread_floats(s, shape, b, spread);
        return;
    }
    for (int64_t k = 0; k < b->n; k++) {
        bool same = true;
        for (int l = 1; l < b->lanes; l++) same &= b->i[l][k] == b->i[0][k];
        spread[k] = same ? 0 : INFINITY;
    }
}

void fb_spread_join(fb_spread *to, const fb_spread *part)
{
    for (int r = 0; r < FB_JUDGE_REGIONS; r++) join_region(&to->region[r], &part->region[r]);
    for (int k = 0; k < FB_JUDGE_SIZES; k++) {
        to->absolute[k] += part->absolute[k];
        to->relative[k] += part->relative[k];
    }
    to->overflows += part->overflows;
}

static void widen_lanes(double *to, const double *of)
{
    for (int l = 0; l < FB_TRIALS; l++)
        if (fabs(of[l]) > fabs(to[l])) to[l] = of[l];
}

/* Sizes are counted on: what is usual among more lanes is what is usual of each. */
void fb_spread_widen(fb_spread *to, const fb_spread *of)
{
    for (int r = 0; r < FB_JUDGE_REGIONS; r++) {
        fb_region_spread *wide = &to->region[r];
        const fb_region_spread *one = &of->region[r];
        bool more = one->n < wide->n || !wide->n; /* an element that some lane leaves open is in none of the sums */
        wide->squares = more ? one->squares : wide->squares;
        wide->sizes = more ? one->sizes : wide->sizes;
        wide->n = more ? one->n : wide->n;
        wide->along_squares = fmax(wide->along_squares, one->along_squares);
        wide->offset_squares = fmax(wide->offset_squares, one->offset_squares);
        widen_lanes(wide->along, one->along);
        widen_lanes(wide->offset, one->offset);
        widen_lanes(wide->own, one->own);
    }
    for (int k = 0; k < FB_JUDGE_SIZES; k++) {
        to->absolute[k] += of->absolute[k];
        to->relative[k] += of->relative[k];
    }
    to->overflows = to->overflows > of->overflows ? to->overflows : of->overflows;
}

fb_usual_spread fb_spread_usual(const fb_spread *s)
{
    double absolute = size_at(s->absolute, 0.99), relative = size_at(s->relative, 0.99);
    bool is_absolute = absolute * size_at(s->relative, 0.5) < relative * size_at(s->absolute, 0.5);
    return is_absolute ? (fb_usual_spread){absolute, 0} : (fb_usual_spread){size_at(s->absolute, 0.1), relative};
}

/* ---- elements ---- */

void fb_judgement_clear(fb_judgement *j)
{
    *j = (fb_judgement){.worst = -1};
}

/* What is usual in a chunk: of spreads, and of spreads relative to the values. */
typedef struct {
    double absolute, relative, unit;
    steps steps;
} usual;

static usual usual_of(const fb_judge_shape *shape, int64_t n, const double *v, const float *spread)
{
    int32_t absolute[FB_JUDGE_SIZES] = {0}, relative[FB_JUDGE_SIZES] = {0};
    for (int64_t k = 0; k < n && spread; k += n > EACH_SIZE * MEDIAN_LEAST ? EACH_SIZE : 1) {
        if (!isfinite(v[k])) continue;
        size_add(absolute, spread[k]);
        if (v[k] != 0) size_add(relative, spread[k] / fabs(v[k]));
    }
    double at = size_at(absolute, 0.9), of = size_at(relative, 0.9);
    /* Where spreads are more alike as they are than over the values, as those of sums, values say nothing of them. */
    if (at * size_at(relative, 0.5) < of * size_at(absolute, 0.5)) of = INFINITY;
    return (usual){at, of, at > 0 ? (shape->dtype == FB_F64 ? 0x1p-51 : 0x1p-22) : 0, steps_of(shape->dtype)};
}

/* Of what is nearer to 0 than roundings usually lead, no relative spread says anything. */
static double around(const usual *u, double r)
{
    if (fabs(r) <= u->absolute || isinf(u->relative)) return u->absolute;
    return fmin(u->absolute, u->relative * fabs(r));
}

/* Did a lane end at the 0 that the value, or the lane, is cut off at, as by a relu? Then the spread is what the cut
 * left of it, and says nothing. */
static bool is_cut(double r, double spread)
{
    return spread > 0 && (r == 0 || fabs(spread - fabs(r)) <= 0x1p-20 * fabs(r));
}

/* A value that no lane moves from 0 is nothing that was rounded: a masked one, or what a relu left out; or it is so small
 * that the lanes took it for 0. One that is rounded at all may be a step off (own_spread). What is usual around an element
 * says something of it where its own spread may be small by chance, which is never by much: in a tensor of very unlike rows
 * it is another row's. */
static double allowed(const usual *u, double r, double spread)
{
    if (r == 0 && spread == 0) return u->steps.nothing;
    double most = FB_JUDGE_OWN_MOST / FB_JUDGE_USUAL * own_spread(&u->steps, r, spread), near = around(u, r);
    near = near < most || is_cut(r, spread) ? near : most;
    if (spread > 0) near = fmax(near, step_at(&u->steps, r));
    return fmax(fmax(FB_JUDGE_ELEMENT * spread, FB_JUDGE_USUAL * near), u->unit * fabs(r));
}

void fb_judgement_allowed(const fb_judge_shape *shape, int64_t n, const double *v, const float *spread, float *to)
{
    usual u = v ? usual_of(shape, n, v, spread) : (usual){0};
    for (int64_t k = 0; k < n; k++)
        to[k] = isinf(spread[k]) ? INFINITY : v ? rounded_up(allowed(&u, v[k], spread[k])) : 0;
}

enum { TAIL_BIN = BIN_OF_ONE + 1 + 2 * 2 };
_Static_assert((int)FB_JUDGE_TAIL_AT == 1 << 2, "two bins an octave: where TAIL_BIN begins");

static void add_tail(fb_judgement *j, double value)
{
    for (int i = 0; i < j->n_tail; i++)
        if (j->tail[i] == value) return;
    if (j->n_tail < FB_JUDGE_TAIL_DISTINCT) j->tail[j->n_tail++] = value;
}

static void count_bin(fb_judgement *j, int bin, double value)
{
    j->bin[bin]++;
    if (bin >= TAIL_BIN) add_tail(j, value);
}

static void count_ratio(fb_judgement *j, double distance, double spread, double value)
{
    int bin = distance > 0 ? size_bin(distance / spread) + 1 - 2 * -SMALLEST + BIN_OF_ONE : 0;
    count_bin(j, bin < 0 ? 0 : bin >= FB_JUDGE_BINS ? FB_JUDGE_BINS - 1 : bin, value);
}

static void is_worst(fb_judgement *j, int64_t at, double got, double expected, double most, double ratio)
{
    j->beyond += ratio > 1 && ratio <= FB_JUDGE_BEYOND_AT;
    j->off += ratio > 1;
    if (!(ratio > j->ratio)) return;
    j->ratio = ratio;
    if (ratio <= 1) return;
    j->worst = at;
    j->got = got;
    j->expected = expected;
    j->most = most;
}

/* Of an element that may be off by `most`. */
static void judge_distance(fb_judgement *j, int64_t at, double got, double r, double most)
{
    if (same_special(got, r)) return;
    double distance = fabs(got - r);
    if (!isfinite(distance)) distance = INFINITY;
    if (distance > j->max_abs) j->max_abs = distance;
    is_worst(j, at, got, r, most, distance < INFINITY && most > 0 ? distance / most : INFINITY);
}

/* Returns what roundings may lead to; 0 where no lane moves it, or it is undecided. */
static double judge_element(fb_judgement *j, const usual *u, int64_t at, double r, double spread, double got)
{
    if (isfinite(r) && fabs(r) > j->largest) j->largest = fabs(r);
    if (isinf(spread)) {
        j->undecided++;
        return 0;
    }
    double most = allowed(u, r, spread);
    j->drowned += (r != 0 || spread > 0) && 2 * most > fabs(r);
    if (spread > 0 && isfinite(got)) count_ratio(j, fabs(got - r), fmax(spread, around(u, r) / 2), r);
    judge_distance(j, at, got, r, most);
    return spread > 0 ? most : 0;
}

/* Of an element that lanes move: its error over its own spread. */
static inline double own_ratio(const steps *s, double r, double spread, double off)
{
    double ratio = fabs(off) / own_spread(s, r, spread);
    return ratio < FB_JUDGE_ELEMENT ? ratio : FB_JUDGE_ELEMENT;
}

static void judge_regions(fb_judgement *j, const fb_judge_shape *shape, int64_t first, int64_t n, const double *v,
                          const float *spread, const double *got, const double *most)
{
#define OFF(K)    (got[K] - v[K])
#define COUNTS(K) (is_judged(v[K], spread[K]) && isfinite(got[K]))
    const steps s = steps_of(shape->dtype);
    int64_t end = first + n;
    for (int64_t i = first, stop; i < end; i = stop) {
        int to[4], m;
        int64_t rounded = 0;
        double along = 0, offset = 0, along_squares = 0, offset_squares = 0, own = 0;
        stop = run_of(shape, i, end, to, &m);
        for (int64_t k = i - first; k < stop - first; k++) {
            if (!COUNTS(k)) continue;
            along += OFF(k) * v[k];
            offset += OFF(k);
            along_squares += most[k] * v[k] * (most[k] * v[k]);
            offset_squares += most[k] * most[k];
            own += spread[k] > 0 ? own_ratio(&s, v[k], spread[k], OFF(k)) : 0;
            rounded += spread[k] > 0;
        }
        for (int t = 0; t < m; t++) {
            j->region[to[t]].own += own;
            j->region[to[t]].rounded += rounded;
            j->region[to[t]].along += along;
            j->region[to[t]].offset += offset;
            j->region[to[t]].along_squares += along_squares;
            j->region[to[t]].offset_squares += offset_squares;
        }
    }
    FOR_EDGES(shape, first, end, region, at, {
        int64_t k = at - first;
        if (COUNTS(k)) {
            j->region[region].along += OFF(k) * v[k];
            j->region[region].offset += OFF(k);
            j->region[region].along_squares += most[k] * v[k] * (most[k] * v[k]);
            j->region[region].offset_squares += most[k] * most[k];
            j->region[region].own += spread[k] > 0 ? own_ratio(&s, v[k], spread[k], OFF(k)) : 0;
            j->region[region].rounded += spread[k] > 0;
        }
    });
#undef OFF
#undef COUNTS
}

static void judge_floats(fb_judgement *j, const fb_judge_shape *shape, int64_t first, int64_t n, const double *v,
                         const float *spread, const char *bytes)
{
    double got[CHUNK], most[CHUNK];
    int size = fb_dtype_size(shape->dtype);
    for (int64_t done = 0, m; done < n; done += m) {
        m = n - done < CHUNK ? n - done : CHUNK;
        const float *s = spread ? spread + done : NULL;
        fb_elements_load(shape->dtype, m, bytes + done * size, got);
        usual u = usual_of(shape, m, v + done, s);
        for (int64_t k = 0; k < m; k++)
            most[k] = judge_element(j, &u, first + done + k, v[done + k], s ? (double)s[k] : 0, got[k]);
        if (s) judge_regions(j, shape, first + done, m, v + done, s, got, most);
    }
}

static void judge_ints(fb_judgement *j, const fb_judge_shape *shape, int64_t first, int64_t n, const int64_t *i,
                       const float *spread, const char *bytes)
{
    int64_t got[CHUNK];
    int size = fb_dtype_size(shape->dtype);
    for (int64_t done = 0, m; done < n; done += m) {
        m = n - done < CHUNK ? n - done : CHUNK;
        fb_elements_load_int(shape->dtype, m, bytes + done * size, got);
        /* bool: any byte but 0 and 1 is a kernel's mistake, whatever it means when read */
        for (int64_t k = 0; shape->dtype == FB_BOOL && k < m; k++) got[k] = ((const unsigned char *)bytes)[done + k];
        for (int64_t k = 0; k < m; k++) {
            int64_t expected = i[done + k];
            j->largest = fmax(j->largest, fabs((double)expected));
            j->undecided += spread && isinf(spread[done + k]);
            if ((spread && isinf(spread[done + k])) || got[k] == expected) continue;
            j->max_abs = fmax(j->max_abs, fabs((double)got[k] - (double)expected));
            if (j->ratio == INFINITY) continue;
            j->ratio = INFINITY;
            j->worst = first + done + k;
            j->got_int = got[k];
            j->expected_int = expected;
        }
    }
}

void fb_judgement_add(fb_judgement *j, const fb_judge_shape *shape, int64_t first, int64_t n, const double *v,
                      const int64_t *i, const float *spread, const void *got)
{
    j->compared += n;
    if (v)
        judge_floats(j, shape, first, n, v, spread, got);
    else
        judge_ints(j, shape, first, n, i, spread, got);
}

/* The bins of a chunk, and what its elements cannot exceed: error over what is allowed at least. False where some value
 * is special, and nothing is to be used. */
typedef struct {
    double most, largest, ratio;
    int64_t drowned;
    int32_t bin[CHUNK];
} quick;

FB_JUDGE_FAST static bool judge_quickly(const fb_usual_spread *usual_spread, double unit, int n,
                                        const double *restrict v, const double *restrict got, quick *restrict q)
{
    const double absolute = 2 * usual_spread->absolute, relative = 2 * usual_spread->relative;
    double most = 0, largest = 0, ratio = 0;
    int64_t odd = 0, drowned = 0;
    for (int k = 0; k < n; k++) {
        double r = fabs(v[k]), off = fabs(got[k] - v[k]), spread = absolute + relative * r;
        double least = FB_JUDGE_ELEMENT * spread, of_unit = unit * r;
        least = least > of_unit ? least : of_unit;
        double part = off / (least > 0 ? least : 1), over = off / (spread > 0 ? spread : 1);
        odd |= !(off <= DBL_MAX) | !(r <= DBL_MAX) | !(spread > 0);
        drowned += 2 * least > r;
        most = off > most ? off : most;
        largest = r > largest ? r : largest;
        ratio = part > ratio ? part : ratio;
        uint64_t bits;
        memcpy(&bits, &over, sizeof bits);
        int bin = 2 * ((int)(bits >> 52) - 1023) + ((bits & 0xfffffffffffff) > 0x6a09e667f3bcd) + 1 + BIN_OF_ONE;
        q->bin[k] = bin < 0 ? 0 : bin >= FB_JUDGE_BINS ? FB_JUDGE_BINS - 1 : bin;
    }
    q->most = most, q->largest = largest, q->ratio = ratio, q->drowned = drowned;
    return !odd;
}

static bool is_suspect(const usual *u, double r, double spread, double got)
{
    double off = fabs(got - r);
    return !same_special(got, r) && !(off <= allowed(u, r, spread));
}

/* Each that is found stays with the same chance, drawn from its place. */
static void add_suspect(fb_suspects *s, int64_t at)
{
    if (s->at.n < s->most) {
        FB_VEC_PUSH(&s->at, at);
        return;
    }
    uint64_t found = (uint64_t)(s->most + ++s->more), chosen = fb_splitmix64((uint64_t)at) % found;
    if (chosen < (uint64_t)s->most) s->at.at[chosen] = at;
}

void fb_judgement_add_suspect(fb_judgement *j, const fb_judge_shape *shape, int64_t at, double v, float most,
                              const void *bytes)
{
    double got;
    fb_elements_load(shape->dtype, 1, bytes, &got);
    if (isinf(most))
        j->undecided++;
    else
        judge_distance(j, at, got, v, most);
}

void fb_judgement_add_usual(fb_judgement *j, const fb_judge_shape *shape, int64_t first, int64_t n, const double *v,
                            const fb_usual_spread *usual_spread, const void *bytes, fb_suspects *suspects)
{
    double got[CHUNK];
    int size = fb_dtype_size(shape->dtype);
    double absolute = usual_spread->absolute, relative = usual_spread->relative;
    const double unit = shape->dtype == FB_F64 ? 0x1p-51 : 0x1p-22;
    const usual u = {0, 0, absolute + relative > 0 ? unit : 0, steps_of(shape->dtype)};
    quick q;
    j->compared += n;
    for (int64_t done = 0, m; done < n; done += m) {
        m = n - done < CHUNK ? n - done : CHUNK;
        fb_elements_load(shape->dtype, m, (const char *)bytes + done * size, got);
        /* Where no element can be worse than the worst so far, only sums are kept. */
        if (judge_quickly(usual_spread, u.unit, (int)m, v + done, got, &q) && q.ratio <= j->ratio && q.ratio <= 1) {
            for (int64_t k = 0; k < m; k++) count_bin(j, q.bin[k], v[done + k]);
            j->max_abs = fmax(j->max_abs, q.most);
            j->largest = fmax(j->largest, q.largest);
            j->drowned += q.drowned;
            continue;
        }
        for (int64_t k = 0; k < m; k++) {
            double r = v[done + k], spread = isfinite(r) ? 2 * (absolute + relative * fabs(r)) : 0;
            if (is_suspect(&u, r, spread, got[k]))
                add_suspect(suspects, first + done + k);
            else
                judge_element(j, &u, first + done + k, r, spread, got[k]);
        }
    }
}

void fb_judgement_join(fb_judgement *to, const fb_judgement *part)
{
    for (int r = 0; r < FB_JUDGE_REGIONS; r++) {
        to->region[r].along += part->region[r].along;
        to->region[r].offset += part->region[r].offset;
        to->region[r].along_squares += part->region[r].along_squares;
        to->region[r].offset_squares += part->region[r].offset_squares;
        to->region[r].own += part->region[r].own;
        to->region[r].rounded += part->region[r].rounded;
    }
    for (int b = 0; b < FB_JUDGE_BINS; b++) to->bin[b] += part->bin[b];
    for (int i = 0; i < part->n_tail; i++) add_tail(to, part->tail[i]);
    to->compared += part->compared;
    to->undecided += part->undecided;
    to->beyond += part->beyond;
    to->off += part->off;
    to->drowned += part->drowned;
    to->max_abs = fmax(to->max_abs, part->max_abs);
    to->largest = fmax(to->largest, part->largest);
    if (!(part->ratio > to->ratio) && !(part->ratio == to->ratio && part->worst >= 0 && part->worst < to->worst))
        return;
    to->ratio = part->ratio;
    to->worst = part->worst;
    to->got = part->got;
    to->expected = part->expected;
    to->most = part->most;
    to->got_int = part->got_int;
    to->expected_int = part->expected_int;
}

/* ---- the end ---- */

static const char *const region_names[] = {
    "", " of the first row", " of the last row", " of the first column", " of the last column", " of the last tile"};

/* "relu[3,17,0]" */
static void say_element(fb_str *s, const fb_node *n, int64_t at)
{
    int64_t index[FB_MAX_RANK];
    for (int d = n->shape.rank - 1; d >= 0; d--) {
        index[d] = at % n->shape.dim[d];
        at /= n->shape.dim[d];
    }
    fb_str_addf(s, "%.48s", n->name);
    for (int d = 0; d < n->shape.rank; d++) fb_str_addf(s, "%s%lld", d ? "," : "[", (long long)index[d]);
    if (n->shape.rank) fb_str_add(s, "]");
}

static void say_worst(const fb_judgement *j, const fb_node *n, fb_str *s)
{
    say_element(s, n, j->worst);
    if (!fb_dtype_is_float(n->dtype))
        fb_str_addf(s, ": %lld, expected %lld", (long long)j->got_int, (long long)j->expected_int);
    else
        fb_str_addf(s, ": %.9g, expected %.9g", isnan(j->got) ? (double)NAN : j->got, /* no NaN's sign means anything */
                    isnan(j->expected) ? (double)NAN : j->expected);
    if (fb_dtype_is_float(n->dtype) && j->most > 0 && isfinite(j->got)) fb_str_addf(s, " ± %.2g", j->most);
}

static double largest_lane(const double lanes[FB_TRIALS])
{
    double most = 0;
    for (int l = 0; l < FB_TRIALS; l++) most = fmax(most, fabs(lanes[l]));
    return most;
}

/* Do lanes put all elements off together, as where all are made of one value? Then they are one sample of roundings, and
 * have no distribution. Of elements that go their own ways lanes add up to about the root of their number. */
static bool goes_together(const fb_region_spread *l)
{
    enum { FEW = 4 };
    double along = largest_lane(l->along), offset = largest_lane(l->offset), n = (double)l->n;
    bool as_one = FEW * offset * offset > n * l->offset_squares && l->offset_squares > 0;
    return as_one || (FEW * along * along > n * l->along_squares && l->along_squares > 0);
}

/* One region's figures over what is allowed: its error along the values, plain, and element by element. */
typedef struct {
    double along, offset, own;
} region_figures;

/* A running product stays where it is once rounding to nearest gives it back: at v of the smallest numbers, times x, from
 * v (1 - x) = 1/2 down. Roundings that go up or down at random end at 0. */
static double stuck_at(fb_dtype dtype)
{
    enum { UNITS = 64 };
    return UNITS * (dtype == FB_F64 ? 0x1p-1074 : 0x1p-149);
}

static region_figures judge_region(const fb_judgement *j, const fb_region_spread *l, int r, fb_dtype dtype)
{
    const double unit = dtype == FB_F64 ? 0x1p-51 : 0x1p-22, stuck = stuck_at(dtype);
    region_figures f = {0};
    if (l->n >= REGION_LEAST && l->squares > 0 && isfinite(l->squares)) {
        double along = fmax(largest_lane(l->along), sqrt(l->along_squares) / 4);
        double offset = fmax(largest_lane(l->offset), sqrt(l->offset_squares) / 4);
        along = fmax(FB_JUDGE_REGION * along, sqrt(j->region[r].along_squares));
        offset = fmax(FB_JUDGE_REGION * offset, sqrt(j->region[r].offset_squares));
        /* not along values of which the reference's own roundings are all that is left */
        const bool nothing = l->squares < 0x1p-60 * l->offset_squares;
        f.along = nothing ? 0 : fabs(j->region[r].along) / (along + unit * l->squares + stuck * l->sizes);
        f.offset = fabs(j->region[r].offset) / (offset + unit * l->sizes + stuck * (double)l->n);
    }
    double rounded = (double)j->region[r].rounded;
    if (rounded >= REGION_LEAST)
        f.own = j->region[r].own / fmax(FB_JUDGE_OWN * rounded, FB_JUDGE_OWN_LANE * largest_lane(l->own));
    return f;
}

/* The worst region's error over what is allowed, its words, and whether all that are wrong are one sample each. */
static double judge_all_regions(const fb_judgement *j, const fb_spread *s, const fb_judge_shape *shape,
                                const fb_node *n, fb_str *words, bool *one_sample)
{
    *one_sample = true;
    double worst = 0;
    for (int r = 0; r < FB_JUDGE_REGIONS; r++) {
        const fb_region_spread *l = &s->region[r];
        region_figures f = judge_region(j, l, r, shape->dtype);
        double most = fmax(fmax(f.along, f.offset), f.own);
        if (most > 1) *one_sample &= goes_together(l);
        if (!(most > worst)) continue;
        worst = most;
        words->n = 0;
        if (worst <= 1) continue;
        char part[32] = "";
        const char *where = r < PARTS ? region_names[r] : part;
        if (r >= PARTS) snprintf(part, sizeof part, " of its part %d of %d", r - PARTS + 1, N_PARTS);
        if (f.along == most)
            fb_str_addf(words, "%.48s: all%s times %.6g", n->name, where, 1 + j->region[r].along / l->squares);
        else if (f.offset == most)
            fb_str_addf(words, "%.48s: all%s off by %.3g on average", n->name, where,
                        j->region[r].offset / (double)l->n);
        else
            fb_str_addf(words, "%.48s: all%s off by %.2g times what roundings do, on average", n->name, where,
                        j->region[r].own / (double)j->region[r].rounded);
    }
    return worst;
}

/* Median and tail of error over spread. */
static double judge_distribution(const fb_judgement *j, const fb_node *n, fb_str *words)
{
    int64_t all = 0, below = 0, beyond = 0;
    double median = 0;
    for (int b = 0; b < FB_JUDGE_BINS; b++) all += j->bin[b];
    for (int b = 0; b < FB_JUDGE_BINS; b++) {
        double low = exp2((b - 1 - BIN_OF_ONE) / 2.0);
        if (2 * below < all && 2 * (below + j->bin[b]) >= all) median = b ? low : 0;
        if (b >= TAIL_BIN) beyond += j->bin[b];
        below += j->bin[b];
    }
    double of_median = all >= MEDIAN_LEAST ? median / FB_JUDGE_MEDIAN : 0;
    bool many = all >= TAIL_LEAST && j->n_tail >= FB_JUDGE_TAIL_DISTINCT;
    double of_tail = many ? (double)beyond / (FB_JUDGE_TAIL * (double)all) : 0;
    if (of_median > 1)
        fb_str_addf(words, "%.48s: half of it is off by %.2g times what roundings do", n->name, median);
    else if (of_tail > 1)
        fb_str_addf(words, "%.48s: %.2g %% of it is off by more than %g times what roundings do", n->name,
                    100.0 * (double)beyond / (double)all, FB_JUDGE_TAIL_AT);
    return fmax(of_median, of_tail);
}

bool fb_judgement_end(const fb_judgement *j, const fb_spread *s, const fb_judge_shape *shape, const fb_node *n,
                      fb_error_report *out)
{
    fb_str element = {0}, region = {0}, distribution = {0};
    *out = (fb_error_report){.max_abs = j->max_abs, .compared = j->compared, .undecided = j->undecided};
    if (out->max_abs > 0) out->max_rel = j->largest > 0 ? out->max_abs / j->largest : INFINITY;
    if (j->worst >= 0) say_worst(j, n, &element);
    bool whole = fb_dtype_is_float(shape->dtype);
    /* Where roundings are most of it, that nothing was found wrong says nothing of the elements of which they are. */
    const fb_region_spread *all = &s->region[ALL];
    double most = FB_JUDGE_ELEMENT * FB_JUDGE_ELEMENT * all->offset_squares;
    bool few = whole && j->ratio <= FB_JUDGE_BEYOND_AT && (double)j->beyond <= FB_JUDGE_BEYOND * (double)j->compared;
    few |= whole && j->beyond == 1 && j->ratio <= FB_JUDGE_ONE_AT && j->compared >= FB_JUDGE_ONE_LEAST;
    double of_element = few ? fmin(j->ratio, 1) : j->ratio;
    if (few) out->undecided += j->beyond;
    if (whole && all->squares > 0 && 4 * most > all->squares && of_element <= 1) out->undecided += j->drowned;
    if (out->undecided > out->compared) out->undecided = out->compared;
    bool one_sample = false;
    double of_region = whole ? judge_all_regions(j, s, shape, n, &region, &one_sample) : 0;
    const bool together = whole && goes_together(all);
    double of_distribution = whole && !together ? judge_distribution(j, n, &distribution) : 0;
    out->bound = fmax(of_element, fmax(of_region, of_distribution));
    out->ok = out->bound <= 1;
    const fb_str *say = of_element > 1 ? &element : of_region > 1 ? &region : &distribution;
    if (!out->ok) fb_text_clean(out->worst, sizeof out->worst, say->text ? say->text : "", say->n);
    fb_str_free(&element);
    fb_str_free(&region);
    fb_str_free(&distribution);
    if (out->ok) return false;
    if (!whole) return true; /* what none of eight lanes decided the other way, more of them may */
    if (together || j->compared <= FB_JUDGE_SMALL) return true;
    if (of_region > 1 && one_sample && of_distribution <= 1) return true;
    return fmax(of_region, of_distribution) <= 1 &&
           (double)j->off <= fmax(FB_JUDGE_FEW * (double)j->compared, FB_JUDGE_FEW_LEAST);
}
