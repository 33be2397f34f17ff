/* Reductions, running sums and products, and rank. Rows are brought together where they do not lie so, a few at a time;
 * every lane sums its own values in double and is put off by what adding them in the accumulator may cost. */
#include "interp/trial_parts.h"

#include "base/mem.h"

#include "graph/intmath.h"
#include "interp/parts.h"
#include <float.h>

enum { SUM_PART = 64, SUM_SURE = 16, FACTORS = 8, ROWS = 256, TURNED = 16 };

/* ---- one row of one lane, in parts that come one after the other ---- */

typedef struct {
    int64_t n;
    double sum, partial, squares; /* partial: the largest sum on the way; of a product: without factors of 0 */
    fb_exactness exact;
    fb_trial_order order;
    fb_bound_repeats repeats;
    double large, small; /* of a product: of what is more than 1, and less, by magnitude */
    double sides[2];     /* of a sum: of what is below 0 and above, by magnitude, where that may overflow */
    bool infinite;       /* of a product: a factor is, or is no number */
    double most;         /* the largest term by magnitude, where squares are too small to be summed up */
    double serial;       /* where it counts: the terms of a sum, one after the other in the accumulator */
    double few, all;     /* … of a product: the last FACTORS or fewer, and what is before them, in the accumulator */
    double lost;         /* … and by what share of it their roundings put it off, all together */
    int n_few;           /* factors in `few` */
    double reach[2];     /* of an extremum: what it would be, were all FB_TRIAL_CHANCE spreads less, and more */
} sum_state;

FB_TRIAL_WIDE static double add_part(const double *x, int n, double *squares)
{
    double sum[8] = {0}, square[8] = {0};
    int k = 0;
    for (; k + 8 <= n; k += 8) {
        for (int i = 0; i < 8; i++) sum[i] += x[k + i], square[i] += x[k + i] * x[k + i];
    }
    for (int i = 0; k < n; k++, i++) sum[i] += x[k], square[i] += x[k] * x[k];
    for (int i = 0; i < 8; i++) *squares += square[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* Without lanes nobody asks for errors: `plain` leaves out all but the sum. `counts`: how often terms repeat; they do
 * so in all lanes as in the exact one. */
static void sum_plain(sum_state *s, const double *x, int64_t n)
{
    for (int64_t at = 0; at < n; at += SUM_PART)
        s->sum += add_part(x + at, n - at < SUM_PART ? (int)(n - at) : SUM_PART, &s->squares);
    s->n += n;
}

/* What a sum loses of its terms may be about the same each time, though no two are equal: (x - m)^2 of an x of few bits has
 * the last bits of m^2 in it, whatever x is (fuzz seed 93004270: 70 units lost of 512 terms, where 20 were likely). One
 * order shows how much that is. */
static void add_serially(sum_state *s, double term, bool wide)
{
    s->serial = fb_trial_accumulated(s->serial, term, wide);
}

static bool has_squares(const sum_state *s)
{
    return s->squares > 0x1p-900;
}

/* √Σx². */
static double root_of_squares(const sum_state *s)
{
    return has_squares(s) ? sqrt(s->squares) : sqrt((double)s->n) * s->most;
}

/* Terms whose squares add up to less cannot overflow, were there 2^40 of them. */
static void sides_add(sum_state *s, const double *x, int n, double squares)
{
    for (int k = 0; k < n && squares > 0x1p170; k++) s->sides[x[k] > 0] += fabs(x[k]);
}

static void sum_add(sum_state *s, const double *x, int64_t n, fb_dtype dtype, bool counts)
{
    bool wide = dtype == FB_F64;
    for (int64_t at = 0; at < n; at += SUM_PART) {
        int count = n - at < SUM_PART ? (int)(n - at) : SUM_PART;
        double squares = 0;
        s->sum += add_part(x + at, count, &squares);
        s->squares += squares;
        sides_add(s, x + at, count, squares);
        s->partial = fmax(s->partial, fabs(s->sum));
        for (int k = 0; k < count && !has_squares(s); k++) s->most = fmax(s->most, fabs(x[at + k]));
        for (int k = 0; k < count && !s->exact.over; k++) fb_exactness_add(&s->exact, wide, x[at + k]);
        for (int k = 0; k < count && counts && s->exact.over; k++) fb_bound_repeat(&s->repeats, dtype, x[at + k]);
        for (int k = 0; k < count && counts; k++) add_serially(s, x[at + k], wide);
    }
    s->n += n;
}

/* Do the terms differ by less than a step of what they sum up to? Then one after the other loses about the same, as equal
 * ones do, on the way to a sum from one end to the other. */
static bool is_even(const sum_state *s, fb_dtype dtype)
{
    double n = (double)s->n, step = n * fb_trial_unit(dtype);
    return n * s->squares - s->sum * s->sum < step * step * s->sum * s->sum;
}

/* As of products (below): terms, or sums on the way, may be beyond what the accumulator holds though their sum is not,
 * and where they are so on both sides, infinity less infinity is no number. */
static double sum_lost(const sum_state *s, fb_dtype dtype)
{
    double most = dtype == FB_F64 ? DBL_MAX : FLT_MAX;
    if (isnan(s->sum) || !(s->sides[0] > most || s->sides[1] > most)) return 0;
    if (s->sides[0] > most && s->sides[1] > most) return NAN;
    return fabs(s->sum) <= most ? INFINITY : 0;
}

/* The size of the sum's error; 0: exact in any order. */
static double sum_error(const sum_state *s, fb_dtype dtype)
{
    double lost = sum_lost(s, dtype);
    if (s->n > 1 && lost != 0) return lost;
    if (s->n < 2 || !s->exact.over) return 0;
    double least = s->serial != 0 && isfinite(s->serial) ? 2 * fabs(s->serial - s->sum) : 0;
    if (is_even(s, dtype)) return (double)s->n * fb_trial_unit(dtype) * s->partial;
    double repeats = s->n <= SUM_SURE ? (double)(s->n * s->n) : (double)s->repeats.squares;
    return fmax(least, fb_trial_gamma(dtype, s->n - 1, repeats) * fmax(s->partial, root_of_squares(s)));
}

FB_TRIAL_WIDE static double extreme_row(const double *x, int64_t n, double sign)
{
    double most[8], nan = 0;
    int64_t k = 0;
    for (int i = 0; i < 8; i++) most[i] = -INFINITY;
    for (; k + 8 <= n; k += 8) {
        for (int i = 0; i < 8; i++) {
            double y = sign * x[k + i];
            most[i] = y > most[i] ? y : most[i];
            nan = y == y ? nan : y;
        }
    }
    for (; k < n; k++) {
        most[0] = sign * x[k] > most[0] ? sign * x[k] : most[0];
        nan = x[k] == x[k] ? nan : x[k];
    }
    for (int i = 1; i < 8; i++) most[0] = most[i] > most[0] ? most[i] : most[0];
    return isnan(nan) ? nan : sign * most[0];
}

/* Two parts of a product in the accumulator. What that does not hold is looked at elsewhere (product_lost). */
static double multiply_parts(sum_state *s, double a, double b, bool wide)
{
    double exact = a * b, size = fabs(exact);
    bool held = size >= (wide ? DBL_MIN : FLT_MIN) && size <= (wide ? DBL_MAX : FLT_MAX);
    if (!held) return exact;
    double rounded = wide ? exact : (double)(float)exact;
    s->lost += (wide ? -fma(a, b, -exact) : rounded - exact) / exact;
    return rounded;
}

/* Next to 1 a product may lose about the same each time. Neighbours lie twice as far apart above 1 as below, so
 * (1 + a)(1 - b) is often halfway between two of them, less ab: small as that is, it always leads to the lower one. That
 * holds for small a and b, as in the parts of a tree, and not for a product that is far from 1. Parts of a few factors
 * show how much is lost (fuzz seed 150000696: 3,800 units of 33,138 factors, where 180 were likely). */
static void multiply_few(sum_state *s, double factor, bool wide)
{
    if (s->n_few == FACTORS) {
        s->all = multiply_parts(s, s->all, s->few, wide);
        s->n_few = 0;
    }
    s->few = s->n_few++ ? multiply_parts(s, s->few, factor, wide) : factor;
}

/* A rounding a factor, unless all on the way are numbers of the accumulator; factors of 0 come last, for in another order
 * they would not hide what the rest does. */
static void product_add(sum_state *s, const double *x, int64_t n, fb_dtype dtype, bool counts)
{
    if (s->n == 0) s->sum = s->partial = s->large = s->small = s->all = 1;
    for (int64_t k = 0; k < n; k++) {
        double size = fabs(x[k]);
        s->sum *= x[k];
        s->infinite |= !(size <= DBL_MAX);
        if (size == 0) continue;
        s->large *= fmax(size, 1);
        s->small *= fmin(size, 1);
        double next = s->partial * x[k];
        s->exact.over |= dtype == FB_F64 ? fma(s->partial, x[k], -next) != 0 : (double)(float)next != next;
        s->partial = next;
        if (counts && s->exact.over) fb_bound_repeat(&s->repeats, dtype, x[k]);
        if (counts) multiply_few(s, x[k], dtype == FB_F64);
    }
    s->n += n;
}

static void extreme_add(sum_state *s, const double *x, int64_t n, double sign)
{
    double part = extreme_row(x, n, sign);
    if (s->n == 0 || isnan(part) || sign * part > sign * s->sum) s->sum = s->n && isnan(s->sum) ? s->sum : part;
    s->n += n;
}

/* How far the extremum of a row may go: elements that lie below it in all lanes by chance may not do so in a kernel, as
 * with max(0, x) (trial_pointwise.c). */
FB_TRIAL_WIDE static void reach_of_row(const double *const *x, int lanes, int64_t n, double sign, double *reach)
{
    double spread[SUM_PART], low = -INFINITY, high = -INFINITY;
    for (int64_t at = 0; at < n; at += SUM_PART) {
        int count = n - at < SUM_PART ? (int)(n - at) : SUM_PART;
        memset(spread, 0, sizeof spread);
        for (int l = 1; l < lanes; l++) {
            for (int k = 0; k < count; k++) {
                double d = fabs(x[l][at + k] - x[0][at + k]);
                spread[k] = d > spread[k] ? d : spread[k];
            }
        }
        for (int k = 0; k < count; k++) {
            double y = sign * x[0][at + k], less = y - FB_TRIAL_CHANCE * spread[k];
            double more = y + FB_TRIAL_CHANCE * spread[k];
            low = less > low ? less : low;
            high = more > high ? more : high;
        }
    }
    reach[0] = low;
    reach[1] = high;
}

static void reach_add(fb_op op, sum_state *s, const double *const *x, int lanes, int64_t n)
{
    double reach[2];
    reach_of_row(x, lanes, n, op == FB_OP_AMAX ? 1 : -1, reach);
    for (int k = 0; k < 2; k++) s->reach[k] = fmax(s->reach[k], reach[k]);
}

static void order_add(fb_op op, sum_state *s, const double *x, int64_t n)
{
    for (int64_t k = 0; k < n && !fb_trial_is_extremum(op); k++) fb_trial_order_add(&s->order, x[k]);
}

static void state_add(fb_op op, sum_state *s, const double *x, int64_t n, fb_dtype dtype, bool counts)
{
    if (op == FB_OP_SUM || op == FB_OP_MEAN)
        sum_add(s, x, n, dtype, counts);
    else if (op == FB_OP_PROD)
        product_add(s, x, n, dtype, counts);
    else
        extreme_add(s, x, n, op == FB_OP_AMAX ? 1 : -1);
}

/* Could an order of multiplying overflow, or lose all, on its way to a number that the dtype holds? Infinite; where one
 * could do both, infinity times nothing is no number. Nor is what overflows before it meets a 0; in another order that is
 * 0. */
static double product_lost(const sum_state *s, fb_dtype dtype)
{
    if (isnan(s->sum)) return s->infinite ? 0 : NAN;
    bool wide = dtype == FB_F64;
    double most = wide ? DBL_MAX : FLT_MAX, least = wide ? DBL_MIN : FLT_MIN;
    if (s->large > most && (s->small < least || s->sum == 0)) return NAN;
    return s->large > most || (s->small < least && fabs(s->sum) >= least) ? INFINITY : 0;
}

/* The size of the result's error; infinite: it may be anything, and NaN: no number either. */
static double state_error(fb_op op, const sum_state *s, fb_dtype dtype)
{
    if (op == FB_OP_SUM || op == FB_OP_MEAN) return sum_error(s, dtype);
    if (op != FB_OP_PROD || !s->exact.over || s->n < 2) return 0;
    double lost = product_lost(s, dtype);
    if (lost != 0) return lost;
    /* Parts of a row of equal factors, which vectors multiply beside each other, are off alike. */
    double likely = fb_trial_gamma(dtype, s->n, (double)s->repeats.squares);
    /* What is lost beyond chance counts: up to `likely` the roundings of these parts are those of any others. */
    return fmax(likely, 2 * fabs(s->lost) - likely) * fabs(s->sum);
}

/* ---- rows ---- */

typedef struct {
    fb_trial_eval *e;
    fb_id id;
    const fb_node *node;
    const fb_trial_value *x;
    bool from_float, in_place;
    fb_dtype of;
    int64_t rows, n;
    fb_shape kept, reduced; /* extents */
    int64_t kept_steps[FB_MAX_RANK], reduced_steps[FB_MAX_RANK], offset;
    atomic_bool spreads; /* some result is not exact */
} job;

/* Of the part `of` of the operand, which has all that is reduced at once. */
static void job_open(job *j, const fb_box *of)
{
    const fb_shape *from = &fb_trial_node(j->e, j->node->args[0])->shape;
    const fb_attrs *at = j->node->attrs;
    int64_t inner[FB_MAX_RANK] = {0};
    bool reduced[FB_MAX_RANK] = {0}, empty = j->x->lanes == 0;
    fb_box_steps(&j->x->box, from->rank, inner);
    for (int a = 0; a < at->n_axes; a++) reduced[at->axes[a]] = true;
    for (int d = 0; d < from->rank; d++) {
        fb_shape *s = reduced[d] ? &j->reduced : &j->kept;
        (reduced[d] ? j->reduced_steps : j->kept_steps)[s->rank] = inner[d];
        s->dim[s->rank++] = of->hi[d] - of->lo[d];
        if (!empty) j->offset += (of->lo[d] - j->x->box.lo[d]) * inner[d];
    }
    j->rows = fb_shape_elements(&j->kept);
    j->n = fb_shape_elements(&j->reduced);
    /* Rows that follow each other are one matrix. */
    fb_shape lies = j->kept;
    int64_t steps[FB_MAX_RANK];
    memcpy(steps, j->kept_steps, sizeof steps);
    for (int d = 0; d < j->reduced.rank; d++) {
        lies.dim[lies.rank] = j->reduced.dim[d];
        steps[lies.rank++] = j->reduced_steps[d];
    }
    j->in_place = fb_shape_is_row_major(&lies, steps);
}

/* How many rows from `row` on are brought together at once: neighbours along the last kept dimension. */
static int64_t rows_together(const job *j, int64_t row, int64_t most)
{
    if (j->in_place) return most;
    int64_t last = j->kept.rank ? j->kept.dim[j->kept.rank - 1] : 1, left = last - row % last;
    int64_t room = j->n < (1 << 16) / TURNED ? TURNED : 1;
    if (left > room) left = room;
    return left < most ? left : most;
}

static const uint64_t *take_rows(const job *j, int lane, int64_t row, int64_t count, uint64_t *room)
{
    if (j->n == 0) return room;
    const uint64_t *plane = fb_trial_raw(j->x, lane) + j->offset;
    if (j->in_place) return plane + row * j->n;
    int64_t to_steps[FB_MAX_RANK + 1], from_steps[FB_MAX_RANK + 1];
    for (int d = j->kept.rank - 1; d >= 0; d--) {
        plane += row % j->kept.dim[d] * j->kept_steps[d];
        row /= j->kept.dim[d];
    }
    fb_shape shape = j->reduced;
    fb_shape_strides(&shape, to_steps);
    memcpy(from_steps, j->reduced_steps, sizeof j->reduced_steps);
    if (count > 1) { /* only then is there a kept dimension, and so room in the shape */
        to_steps[shape.rank] = j->n;
        from_steps[shape.rank] = j->kept_steps[j->kept.rank - 1];
        shape.dim[shape.rank++] = count;
    }
    fb_interp_copy_between(room, plane, &shape, to_steps, from_steps);
    return room;
}

/* Rows under way: results and sizes of errors of each lane. */
typedef struct {
    double y[FB_LANES][ROWS], error[FB_LANES][ROWS], reach[2][ROWS];
    int64_t whole[FB_LANES][ROWS];
    fb_trial_order order[ROWS];
} results;

/* Terms repeat in a lane as they do in the exact one. Where that is infinite, beside a pole say, it tells nothing of lanes
 * that are not. */
static void finish_row(const job *j, int lane, const sum_state *s, results *r, int64_t at)
{
    r->y[lane][at] = s->sum;
    r->error[lane][at] = state_error(j->node->op, s, j->of);
    if (lane == 0) r->order[at] = s->order;
    double exact = r->error[0][at];
    if (lane && isfinite(exact) && r->error[lane][at] != 0 && exact > r->error[lane][at]) r->error[lane][at] = exact;
}

static void reduce_floats(const job *j, int lane, const double *x, int64_t count, results *r, int64_t at)
{
    bool plain = j->e->s->lanes == 1 && (j->node->op == FB_OP_SUM || j->node->op == FB_OP_MEAN);
    for (int64_t k = 0; k < count; k++, x += j->n) {
        sum_state s = {0};
        if (j->n == 1) {
            s.sum = x[0]; /* as kernels hand it on, with the sign of its zero */
        } else if (plain) {
            sum_plain(&s, x, j->n);
        } else {
            state_add(j->node->op, &s, x, j->n, j->of, lane == 0 && j->n > SUM_SURE);
            if (lane == 0) order_add(j->node->op, &s, x, j->n);
            finish_row(j, lane, &s, r, at + k);
            continue;
        }
        r->y[lane][at + k] = s.sum;
        r->error[lane][at + k] = 0;
    }
}

static void reach_rows(const job *j, const double *const *x, int64_t count, results *r, int64_t at)
{
    for (int64_t k = 0; k < count; k++) {
        const double *rows[FB_LANES];
        sum_state s = {.reach = {-INFINITY, -INFINITY}};
        for (int l = 0; l < j->x->lanes; l++) rows[l] = x[l] + k * j->n;
        reach_add(j->node->op, &s, rows, j->x->lanes, j->n);
        for (int i = 0; i < 2; i++) r->reach[i][at + k] = s.reach[i];
    }
}

/* Where elements lead further than the lanes of the extremum went, one of these goes as much of the way as one of
 * FB_TRIAL_CHANCE spreads is. */
static void lead_extrema(const job *j, results *r, int count)
{
    double sign = j->node->op == FB_OP_AMAX ? 1 : -1;
    int lanes = j->x->lanes;
    for (int k = 0; k < count; k++) {
        double moved = 0, y = r->y[0][k];
        for (int l = 1; l < lanes; l++) moved = fmax(moved, fabs(r->y[l][k] - y));
        for (int i = 0; i < 2; i++) {
            double off = (sign * r->reach[i][k] - y) / FB_TRIAL_CHANCE;
            if (!(fabs(off) > moved * (1 + 0x1p-20)) || !isfinite(off)) continue;
            int one = fb_trial_led(j->e, j->id, y);
            if (!isnan(r->y[one][k])) r->y[one][k] = y + off;
            moved = fabs(off);
        }
    }
}

/* ---- argmax and argmin ---- */

/* The first of the extreme elements; a NaN is beyond everything. */
static int64_t arg_row(const double *row, int64_t n, double sign)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n && !isnan(row[best]); k++) {
        if (sign * row[k] > sign * row[best] || isnan(row[k])) best = k;
    }
    return best;
}

/* The elements that may be the extreme one, the best first, the next best second; and that which comes first in the row. */
typedef struct {
    int64_t at[FB_LANES], first;
    int n;
} candidates;

static candidates find_candidates(const double *const *rows, int lanes, int64_t n, double sign, int64_t best)
{
    candidates c = {.at = {best}, .first = best, .n = 1};
    double gaps[FB_LANES] = {0};
    for (int64_t k = 0; k < n; k++) {
        double gap = sign * (rows[0][best] - rows[0][k]), spread = 0;
        if (k == best) continue;
        for (int l = 1; l < lanes; l++) spread = fmax(spread, fabs(sign * (rows[l][best] - rows[l][k]) - gap));
        if (!(spread > 0 && gap <= FB_TRIAL_MARGIN * spread)) continue;
        c.first = k < c.first ? k : c.first;
        int at = c.n < FB_LANES ? c.n++ : FB_LANES;
        for (; at > 1 && gaps[at - 1] > gap; at--) {
            if (at < FB_LANES) c.at[at] = c.at[at - 1], gaps[at] = gaps[at - 1];
        }
        if (at < FB_LANES) c.at[at] = k, gaps[at] = gap;
    }
    return c;
}

static void reduce_args(const job *j, const double *const *x, int64_t count, results *r, int64_t at)
{
    int lanes = j->x->lanes;
    double sign = j->node->op == FB_OP_ARGMAX ? 1 : -1;
    for (int64_t k = 0; k < count; k++) {
        const double *rows[FB_LANES];
        for (int l = 0; l < lanes; l++) {
            rows[l] = x[l] + k * j->n;
            r->whole[l][at + k] = arg_row(rows[l], j->n, sign);
        }
        int64_t best = r->whole[0][at + k];
        if (lanes == 1 || isnan(rows[0][best])) continue;
        candidates c = find_candidates(rows, lanes, j->n, sign, best);
        uint64_t key = fb_trial_bits(rows[0][best]);
        uint32_t draw = fb_trial_draw(key, fb_trial_key(j->e->s, 0, j->id, FB_DRAW_FUNCTION));
        for (int l = 1; l < lanes && c.n > 1; l++) {
            uint32_t own = fb_trial_draw(key, fb_trial_key(j->e->s, l, j->id, FB_DRAW_FUNCTION));
            int which = l < 3 || c.n == 2 ? fb_trial_takes(l, draw) : (int)(own % (uint32_t)c.n);
            r->whole[l][at + k] = c.at[which];
        }
        if (c.n > 2) r->whole[lanes - 1][at + k] = c.first; /* of what is equal to a kernel, as differences of 0 are */
    }
}

/* ---- integers ---- */

static int64_t reduce_row_of_integers(fb_op op, const int64_t *x, int64_t n)
{
    int64_t acc = op == FB_OP_PROD ? 1 : 0, best = 0;
    for (int64_t k = 0; k < n; k++) {
        if (op == FB_OP_SUM)
            acc = fb_wrap_add(acc, x[k]);
        else if (op == FB_OP_PROD)
            acc = fb_wrap_mul(acc, x[k]);
        else if (op == FB_OP_AMAX || op == FB_OP_ARGMAX)
            best = x[k] > x[best] ? k : best;
        else
            best = x[k] < x[best] ? k : best;
    }
    if (op == FB_OP_SUM || op == FB_OP_PROD) return acc;
    return fb_trial_is_extremum(op) ? x[best] : best;
}

/* ---- one node ---- */

/* A mean is what its sum comes to over n, or the sum of parts: where the accumulator does not hold the sum, half of the
 * lanes hold nothing more of it. */
static double sum_held(job *j, int lane, int64_t at, double sum)
{
    double most = j->of == FB_F64 ? DBL_MAX : FLT_MAX;
    if (!lane || !isfinite(sum) || fabs(sum) <= most) return sum;
    atomic_store_explicit(&j->spreads, true, memory_order_relaxed);
    if (!fb_trial_takes(lane, (uint32_t)fb_trial_key(j->e->s, 0, j->id, FB_DRAW_MEAN))) return sum;
    fb_trial_overflowed(j->e, j->id, at, sum);
    return copysign(INFINITY, sum);
}

/* An infinite product that might as well be no number is that in half of the lanes; one that is none might be 0. */
static bool is_open(const fb_trial_eval *e, fb_id id, int lane, double y, double error)
{
    return !isfinite(y) && isnan(error) && fb_trial_takes(lane, (uint32_t)fb_trial_key(e->s, 0, id, FB_DRAW_SUM));
}

static bool adds_up(fb_op op)
{
    return op == FB_OP_SUM || op == FB_OP_MEAN || op == FB_OP_CUMSUM;
}

/* A product that may overflow or lose all, by its order, is infinite in some lanes and 0 in others; in the rest it is what
 * it is, or no number where it may do both: whatever is compared with it must not find all lanes of one mind. A sum loses
 * no more than its error. */
static double lost_of(const fb_trial_eval *e, fb_id id, int lane, double y, double error)
{
    switch (((uint64_t)lane + fb_trial_key(e->s, 0, id, FB_DRAW_SUM) % 3) % 3) { /* some of eight lanes have each */
    case 0: return isnan(error) ? NAN : y;
    case 1: return copysign(INFINITY, y);
    default: return adds_up(fb_trial_node(e, id)->op) ? y : copysign(0, y);
    }
}

/* What sums lose of their terms may be the same for all of them: in two lanes, as of products, all go half of the way to
 * one side, in one of them to the other side than in the other. */
static double error_of(const job *j, int lane, double sum, double size, const fb_trial_order *of)
{
    enum { UP = 3, DOWN = 4 };
    if (!adds_up(j->node->op) || (lane != UP && lane != DOWN))
        return fb_trial_ordered_error(j->e->s, lane, j->id, sum, size, of);
    bool up = (lane == UP) == (fb_trial_key(j->e->s, 0, j->id, FB_DRAW_SUM) & 1);
    return up ? size / 2 : -size / 2;
}

/* The last steps of a sum's lane: its error, and mean's division. */
static void finish_floats(job *j, results *r, int64_t at, int count)
{
    fb_trial_value *v = fb_trial_at(j->e, j->id);
    bool means = j->node->op == FB_OP_MEAN, exactly = (j->n & (j->n - 1)) == 0; /* divided, by a power of two */
    double room[ROWS];
    if (fb_trial_is_extremum(j->node->op) && j->x->lanes > 1) lead_extrema(j, r, count);
    for (int l = 0; l < v->lanes; l++) {
        int own = l < j->x->lanes ? l : 0;
        double division =
            means && !exactly ? 4 * fb_trial_unit(j->of) * fb_trial_share(j->e->s, l, j->id, FB_DRAW_MEAN) : 0;
        for (int k = 0; k < count; k++) {
            double y = r->y[own][k];
            bool open = l && is_open(j->e, j->id, l, y, r->error[own][k]);
            if (open && isnan(y))
                y = 0;
            else if (l && isfinite(y) && !isfinite(r->error[own][k]))
                y = lost_of(j->e, j->id, l, y, r->error[own][k]);
            else if (open || (l && isfinite(y)))
                y += error_of(j, l, y, r->error[own][k], &r->order[k]);
            if (means) y = sum_held(j, l, at + k, y) / (double)j->n;
            if (l && isfinite(y)) y += division * y;
            if (l == 0 && r->error[0][k] != 0) atomic_store_explicit(&j->spreads, true, memory_order_relaxed);
            room[k] = y;
        }
        if (l)
            fb_trial_settle(j->e, j->id, l, at, count, room);
        else
            memcpy(fb_trial_f(v, 0) + at, room, (size_t)count * sizeof *room);
    }
}

static void finish_integers(const job *j, const results *r, int64_t at, int count)
{
    fb_trial_value *v = fb_trial_at(j->e, j->id);
    for (int l = 0; l < v->lanes; l++) {
        for (int k = 0; k < count; k++) fb_trial_i(v, l)[at + k] = fb_int_wrap(j->node->dtype, r->whole[l][k]);
    }
}

static void reduce_part(void *ctx, int64_t first, int64_t last)
{
    job *j = ctx;
    int lanes = j->x->lanes ? j->x->lanes : 1;
    bool args = j->node->op == FB_OP_ARGMAX || j->node->op == FB_OP_ARGMIN;
    bool all_lanes = j->from_float && lanes > 1 && (args || fb_trial_is_extremum(j->node->op));
    results *r = fb_alloc(sizeof *r);
    int64_t room_cells = j->in_place ? 1 : (j->n < (1 << 16) / TURNED ? TURNED : 1) * j->n + 1;
    uint64_t *room = fb_alloc((size_t)room_cells * (all_lanes ? FB_LANES : 1) * sizeof *room);
    for (int64_t at = first; at < last;) {
        int64_t count = last - at < ROWS ? last - at : ROWS;
        for (int64_t row = 0; row < count;) {
            int64_t together = rows_together(j, at + row, count - row);
            const uint64_t *x[FB_LANES];
            for (int l = 0; l < lanes; l++) {
                x[l] = take_rows(j, l, at + row, together, room + (all_lanes ? l * room_cells : 0));
                if (j->from_float && !args) reduce_floats(j, l, (const double *)x[l], together, r, row);
                for (int64_t k = 0; k < together && !j->from_float; k++)
                    r->whole[l][row + k] = reduce_row_of_integers(j->node->op, (const int64_t *)x[l] + k * j->n, j->n);
            }
            if (all_lanes && !args) reach_rows(j, (const double *const *)x, together, r, row);
            if (j->from_float && args) reduce_args(j, (const double *const *)x, together, r, row);
            row += together;
        }
        if (j->from_float && !args)
            finish_floats(j, r, at, (int)count);
        else
            finish_integers(j, r, at, (int)count);
        at += count;
    }
    fb_free(room);
    fb_free(r);
}

bool fb_trial_reduction(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    job j = {.e = e, .id = id, .node = node, .x = fb_trial_at(e, node->args[0])};
    j.of = fb_trial_node(e, node->args[0])->dtype;
    j.from_float = fb_dtype_is_float(j.of);
    bool rounds = node->op == FB_OP_SUM || node->op == FB_OP_MEAN || node->op == FB_OP_PROD;
    bool exact = j.x->lanes <= 1;
    fb_trial_value *v = fb_trial_at(e, id);
    if (!fb_trial_open(e, id, exact && !(j.from_float && rounds) ? 1 : e->s->lanes)) return false;
    fb_box of;
    fb_trial_needs(e->s->g, node, 0, &v->box, &of);
    job_open(&j, &of);
    fb_trial_for(e, j.rows, 1 + 16384 / (j.n + 1), reduce_part, &j);
    /* A mean's division may be off, so only where the dtype holds all results are they sure to be exact. */
    if (exact && v->lanes > 1 && !atomic_load(&j.spreads) && fb_all_representable(node->dtype, v->n, v->cells->at.f) &&
        (node->dtype != FB_F64 || node->op == FB_OP_SUM))
        v->lanes = 1;
    return true;
}

/* ---- rows too long to be held, slab by slab ---- */

struct fb_trial_fold {
    fb_id id;
    int lanes; /* of the operand so far */
    int64_t rows;
    sum_state *states; /* lane after lane, a row each */
};

fb_trial_fold *fb_trial_fold_open(const fb_trial_eval *e, fb_id id)
{
    fb_trial_fold *f = fb_calloc(1, sizeof *f);
    *f = (fb_trial_fold){.id = id, .lanes = 1, .rows = fb_shape_elements(&fb_trial_node(e, id)->shape)};
    f->states = fb_calloc((size_t)(f->rows * e->s->lanes), sizeof *f->states);
    for (int64_t row = 0; row < f->rows; row++)
        for (int k = 0; k < 2; k++) f->states[row].reach[k] = -INFINITY;
    return f;
}

typedef struct {
    job *j;
    fb_trial_fold *f;
} fold_job;

/* Of slabs in which lanes agree as well: beside those in which they do not. */
static void fold_reach(const fold_job *o, int64_t first, int64_t last)
{
    const job *j = o->j;
    uint64_t *room = fb_alloc((size_t)(j->n + 1) * FB_LANES * sizeof *room);
    for (int64_t row = first; row < last; row++) {
        const double *x[FB_LANES];
        for (int l = 0; l < j->x->lanes; l++) x[l] = (const double *)take_rows(j, l, row, 1, room + l * (j->n + 1));
        reach_add(j->node->op, &o->f->states[row], x, j->x->lanes, j->n);
    }
    fb_free(room);
}

static void fold_part(void *ctx, int64_t first, int64_t last)
{
    const fold_job *o = ctx;
    const job *j = o->j;
    if (fb_trial_is_extremum(j->node->op)) fold_reach(o, first, last);
    uint64_t *room = fb_alloc((size_t)((j->n < (1 << 16) / TURNED ? TURNED : 1) * j->n + 1) * sizeof *room);
    for (int l = 0; l < o->f->lanes; l++) {
        for (int64_t row = first; row < last;) {
            int64_t together = rows_together(j, row, last - row);
            const double *x = (const double *)take_rows(j, l, row, together, room);
            for (int64_t k = 0; k < together; k++) {
                state_add(j->node->op, &o->f->states[l * o->f->rows + row + k], x + k * j->n, j->n, j->of, l == 0);
                if (l == 0) order_add(j->node->op, &o->f->states[row + k], x + k * j->n, j->n);
            }
            row += together;
        }
    }
    fb_free(room);
}

void fb_trial_fold_add(fb_trial_fold *f, fb_trial_eval *e, const fb_box *of)
{
    const fb_node *node = fb_trial_node(e, f->id);
    job j = {.e = e, .id = f->id, .node = node, .x = fb_trial_at(e, node->args[0])};
    j.of = fb_trial_node(e, node->args[0])->dtype;
    job_open(&j, of);
    if (j.x->lanes > f->lanes) { /* lanes agreed so far */
        for (int l = 1; l < j.x->lanes; l++)
            memcpy(f->states + l * f->rows, f->states, (size_t)f->rows * sizeof *f->states);
        f->lanes = j.x->lanes;
    }
    fold_job o = {&j, f};
    fb_trial_for(e, f->rows, 1 + 16384 / (j.n + 1), fold_part, &o);
}

bool fb_trial_fold_close(fb_trial_fold *f, fb_trial_eval *e)
{
    const fb_node *node = fb_trial_node(e, f->id);
    fb_dtype of = fb_trial_node(e, node->args[0])->dtype;
    fb_trial_value *v = fb_trial_at(e, f->id), x = {.lanes = f->lanes};
    job j = {.e = e, .id = f->id, .node = node, .x = &x, .of = of};
    bool rounds = node->op == FB_OP_SUM || node->op == FB_OP_MEAN || node->op == FB_OP_PROD;
    bool ok = fb_trial_open(e, f->id, rounds ? e->s->lanes : f->lanes);
    results *r = fb_alloc(sizeof *r);
    j.n = f->states[0].n;
    for (int64_t at = 0; ok && at < f->rows; at += ROWS) {
        int count = f->rows - at < ROWS ? (int)(f->rows - at) : ROWS;
        for (int l = 0; l < f->lanes; l++) {
            for (int k = 0; k < count; k++) finish_row(&j, l, &f->states[l * f->rows + at + k], r, k);
        }
        for (int k = 0; k < count; k++)
            for (int i = 0; i < 2; i++) r->reach[i][k] = f->states[at + k].reach[i];
        finish_floats(&j, r, at, count);
    }
    if (ok && f->lanes == 1 && !atomic_load(&j.spreads) && fb_all_representable(node->dtype, v->n, v->cells->at.f) &&
        node->dtype != FB_F64)
        v->lanes = 1;
    fb_free(r);
    fb_free(f->states);
    fb_free(f);
    return ok;
}

/* ---- running sums and products ---- */

typedef struct {
    fb_trial_eval *e;
    fb_id id;
    const fb_node *node;
    const fb_trial_value *x;
    int64_t n, inner, x_n, x_offset, x_steps[FB_MAX_RANK]; /* of the result's box; of the operand's */
    fb_box box;
    atomic_bool spreads;
} scan;

/* Where line number `line` of the result's box begins, in the result and in the operand. */
static void line_at(const scan *s, int64_t line, int64_t *to, int64_t *from)
{
    *to = line / s->inner * s->n * s->inner + line % s->inner;
    *from = s->x_offset;
    for (int d = s->node->shape.rank - 1; d >= 0; d--) {
        if (d == s->node->attrs->dim) continue;
        int64_t extent = s->box.hi[d] - s->box.lo[d];
        *from += line % extent * s->x_steps[d];
        line /= extent;
    }
}

static void running_add(sum_state *t, double term, fb_dtype dtype)
{
    t->n++;
    t->sum += term;
    t->squares += term * term;
    t->partial = fmax(t->partial, fabs(t->sum));
    sides_add(t, &term, 1, term * term);
    fb_exactness_add(&t->exact, dtype == FB_F64, term);
    fb_bound_repeat(&t->repeats, dtype, term);
}

/* Factors of a running product meet in the order of the line, whatever parts of it are multiplied first: what may
 * overflow, or be lost, is the product of some that stand together. */
typedef struct {
    double up, down; /* the largest and smallest of those that end here */
} segments;

static void running_multiply(sum_state *t, segments *of, double term, fb_dtype dtype)
{
    double large = t->n ? t->large : 1, small = t->n ? t->small : 1, size = fabs(term);
    product_add(t, &term, 1, dtype, true);
    if (size > 0) of->up = fmax(of->up, 1) * size, of->down = fmin(of->down, 1) * size;
    t->large = fmax(large, of->up);
    t->small = fmin(small, of->down);
}

/* The line in all lanes; the first elements may lie before the box. Lines are short enough to be held: 256 at a time
 * are rounded together. */
static void scan_floats(scan *s, int lane, int64_t from, int64_t skipped, double *values, double *sizes)
{
    const double *x = (const double *)fb_trial_raw(s->x, lane) + from;
    int64_t step = s->x_steps[s->node->attrs->dim];
    fb_op op = fb_op_running(s->node->op);
    fb_dtype dtype = s->node->dtype;
    sum_state t = {.sum = s->node->shape.dim[s->node->attrs->dim] == 1 ? -0.0 : 0}; /* one is itself, its sign too */
    segments of = {1, 1};
    for (int64_t k = 0; k < skipped + s->n; k++) {
        double term = x[k * step];
        if (op == FB_OP_PROD)
            running_multiply(&t, &of, term, dtype);
        else
            running_add(&t, term, dtype);
        if (k < skipped) continue;
        values[k - skipped] = t.sum;
        sizes[k - skipped] = state_error(op, &t, dtype);
    }
}

/* What is lost early in a line is missing from all that follows: neighbours are off together. In half of the lanes a
 * line has one share for all its elements, by its first term; in the others each has its own, as where lines are cut
 * up. */
static double scan_error(const scan *s, int lane, double first, double y, double size)
{
    bool together = fb_trial_takes(lane, (uint32_t)fb_trial_key(s->e->s, 0, s->id, FB_DRAW_SUM));
    return fb_trial_sum_error(s->e->s, lane, s->id, together ? first : y, size);
}

static void settle_line(scan *s, int lane, int64_t to, double first, const double *values, const double *sizes)
{
    fb_trial_value *v = fb_trial_at(s->e, s->id);
    double room[FB_TRIAL_CHUNK], rounded[FB_TRIAL_CHUNK];
    fb_rounding r = fb_rounding_of(s->e->s, lane, s->id, s->node->dtype, false);
    for (int64_t at = 0; at < s->n; at += FB_TRIAL_CHUNK) {
        int n = s->n - at < FB_TRIAL_CHUNK ? (int)(s->n - at) : FB_TRIAL_CHUNK;
        for (int k = 0; k < n; k++) {
            double y = values[at + k];
            bool open = lane && is_open(s->e, s->id, lane, y, sizes[at + k]);
            if (open && isnan(y))
                y = 0;
            else if (lane && isfinite(y) && !isfinite(sizes[at + k]))
                y = lost_of(s->e, s->id, lane, y, sizes[at + k]);
            else if (open || (lane && isfinite(y)))
                y += scan_error(s, lane, first, y, sizes[at + k]);
            if (lane == 0 && sizes[at + k] != 0) atomic_store_explicit(&s->spreads, true, memory_order_relaxed);
            room[k] = rounded[k] = y;
        }
        int lost = lane ? fb_round_lane(&r, n, room, rounded) : -1;
        if (lost >= 0) fb_trial_overflowed(s->e, s->id, to + (at + lost) * s->inner, room[lost]);
        for (int k = 0; k < n; k++) fb_trial_f(v, lane)[to + (at + k) * s->inner] = rounded[k];
    }
}

static void scan_part(void *ctx, int64_t first, int64_t last)
{
    scan *s = ctx;
    fb_trial_value *v = fb_trial_at(s->e, s->id);
    bool is_float = fb_dtype_is_float(s->node->dtype), adds = fb_op_running(s->node->op) == FB_OP_SUM;
    int64_t skipped = s->box.lo[s->node->attrs->dim], step = s->x_steps[s->node->attrs->dim];
    double *values = fb_alloc((size_t)s->n * 2 * sizeof *values), *sizes = values + s->n;
    for (int64_t line = first; line < last; line++) {
        int64_t to, from;
        line_at(s, line, &to, &from);
        for (int l = 0; l < v->lanes; l++) {
            if (is_float) {
                if (l < s->x->lanes) scan_floats(s, l, from, skipped, values, sizes);
                settle_line(s, l, to, fb_trial_f(s->x, l < s->x->lanes ? l : 0)[from], values, sizes);
                continue;
            }
            const int64_t *x = (const int64_t *)fb_trial_raw(s->x, l) + from;
            int64_t so_far = adds ? 0 : 1;
            for (int64_t k = 0; k < skipped + s->n; k++) {
                int64_t next = x[k * step], all = adds ? fb_wrap_add(so_far, next) : fb_wrap_mul(so_far, next);
                so_far = fb_int_wrap(s->node->dtype, all);
                if (k >= skipped) fb_trial_i(v, l)[to + (k - skipped) * s->inner] = so_far;
            }
        }
    }
    fb_free(values);
}

/* ---- rank ---- */

/* Two that lie `apart` places from each other in the order, side by side in a lane, and closer than rounding moves them,
 * have changed places in half of the lanes, whatever each lane's own values say. */
static void swap_close(const scan *s, const double *const *x, const int64_t *order, int64_t n, int64_t *const *ranks,
                       int apart)
{
    int lanes = s->x->lanes;
    int64_t step = s->x_steps[s->node->attrs->dim];
    for (int64_t k = 0; k + apart < n; k++) {
        int64_t a = order[k], b = order[k + apart];
        double gap = x[0][b * step] - x[0][a * step], spread = 0;
        for (int l = 1; l < lanes; l++) spread = fmax(spread, fabs(x[l][b * step] - x[l][a * step] - gap));
        if (!(spread > 0 && fabs(gap) <= FB_TRIAL_MARGIN * spread)) continue;
        uint32_t draw = fb_trial_draw(fb_trial_bits(x[0][a * step]), fb_trial_key(s->e->s, 0, s->id, FB_DRAW_FUNCTION));
        for (int l = 1; l < lanes; l++) {
            int64_t first = ranks[l][a], second = ranks[l][b];
            if (fb_trial_takes(l, draw) ? first - second == 1 : second - first == 1) continue; /* so it is already */
            if (first - second != 1 && second - first != 1) continue;
            ranks[l][a] = second;
            ranks[l][b] = first;
        }
    }
}

static void rank_part(void *ctx, int64_t first, int64_t last)
{
    enum { MOST_APART = 3 };
    scan *s = ctx;
    fb_trial_value *v = fb_trial_at(s->e, s->id);
    int dim = s->node->attrs->dim;
    int64_t n = s->node->shape.dim[dim], skipped = s->box.lo[dim];
    bool is_float = fb_dtype_is_float(fb_trial_node(s->e, s->node->args[0])->dtype);
    int64_t *room = fb_alloc((size_t)n * (FB_LANES + 3) * sizeof *room), *order = room, *ranks[FB_LANES];
    const double *x[FB_LANES];
    for (int64_t line = first; line < last; line++) {
        int64_t to, from;
        line_at(s, line, &to, &from);
        for (int l = v->lanes - 1; l >= 0; l--) { /* the first lane's order stays */
            const uint64_t *cells = fb_trial_raw(s->x, l) + from;
            fb_line of = {.f = is_float ? (const double *)cells : NULL,
                          .i = is_float ? NULL : (const int64_t *)cells,
                          .n = n,
                          .step = s->x_steps[dim],
                          .largest = s->node->attrs->start == 1};
            x[l] = of.f;
            ranks[l] = room + (3 + l) * n;
            fb_interp_sort_line(&of, order, room + n);
            for (int64_t k = 0; k < n; k++) ranks[l][order[k]] = k;
        }
        /* one may pass several that are equal, and these then have the ranks before */
        for (int apart = 1; is_float && v->lanes > 1 && apart <= MOST_APART; apart++)
            swap_close(s, x, order, n, ranks, apart);
        for (int l = 0; l < v->lanes; l++)
            for (int64_t k = 0; k < s->n; k++) fb_trial_i(v, l)[to + k * s->inner] = ranks[l][skipped + k];
    }
    fb_free(room);
}

bool fb_trial_scan(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    fb_trial_value *v = fb_trial_at(e, id);
    int rank = node->shape.rank, dim = node->attrs->dim;
    scan s = {.e = e, .id = id, .node = node, .x = fb_trial_at(e, node->args[0]), .box = v->box, .inner = 1};
    bool is_float = fb_dtype_is_float(node->dtype);
    int lanes = s.x->lanes > 1 || is_float ? e->s->lanes : 1;
    if (!fb_trial_open(e, id, lanes)) return false;
    fb_box_steps(&s.x->box, rank, s.x_steps);
    s.n = v->box.hi[dim] - v->box.lo[dim];
    for (int d = dim + 1; d < rank; d++) s.inner *= v->box.hi[d] - v->box.lo[d];
    for (int d = 0; d < rank; d++) {
        if (d != dim) s.x_offset += (v->box.lo[d] - s.x->box.lo[d]) * s.x_steps[d];
    }
    fb_trial_for(e, v->n / s.n, 1 + 16384 / s.n, node->op == FB_OP_RANK ? rank_part : scan_part, &s);
    if (s.x->lanes == 1 && is_float && !atomic_load(&s.spreads) &&
        fb_all_representable(node->dtype, v->n, v->cells->at.f))
        v->lanes = 1;
    return true;
}
