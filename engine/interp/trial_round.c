/* How lanes round and what they draw. A draw is a hash of lane, node and value, so that a device's habit of treating
 * equal values alike is kept, and so that blocks and threads cannot be told from the result. (Sums of products have
 * half of their lanes drawn by place as well: trial_contract.c.) */
#include "interp/trial_parts.h"

#include "graph/element.h"
#include "interp/parts.h"

#include <float.h>
#include <limits.h>

/* ---- what a lane draws for a node ---- */

uint64_t fb_trial_key(const fb_trial_shared *s, int lane, fb_id node, fb_draw what)
{
    uint64_t of_node = (uint64_t)s->o->draw << 48 | (uint64_t)(uint32_t)node << 16;
    return fb_splitmix64(fb_splitmix64(of_node | (uint64_t)what << 8 | (uint64_t)lane));
}

/* Each lane has an eighth of [-1, 1] of its own, which one depends on the node: eight independent draws would often
 * leave one side out. */
double fb_trial_share(const fb_trial_shared *s, int lane, fb_id node, fb_draw what)
{
    uint64_t of_node = fb_trial_key(s, 0, node, what), of_lane = fb_trial_key(s, lane, node, what);
    uint64_t stratum = ((uint64_t)lane * (2 * (of_node % 4) + 1) + (of_node >> 8)) % FB_TRIALS;
    return ((double)stratum + (double)(of_lane >> 11) * 0x1p-53) * (2.0 / FB_TRIALS) - 1;
}

int fb_trial_led(const fb_trial_eval *e, fb_id id, double value)
{
    uint32_t draw = fb_trial_draw(fb_trial_bits(value), fb_trial_key(e->s, 0, 0, FB_DRAW_FUNCTION));
    return 1 + (int)((draw % FB_TRIALS + e->s->led[e->s->slot[id]]) % (uint32_t)(e->s->lanes - 1));
}

/* ---- rounding ---- */

/* A float dtype as part of a double: bits that are cut off, of which the first `told` tell rests apart (the last ones
 * are the exact lane's own rounding, which must not turn a draw), exponents (biased as a double's) of normal numbers.
 */
typedef struct {
    int cut, told, lowest, highest;
    double quantum; /* of the numbers that are not normal */
} format;

static const format formats[FB_DTYPES] = {
    [FB_F32] = {29, 6, 1023 - 126, 1023 + 127, 0x1p-149},
    [FB_F16] = {42, 12, 1023 - 14, 1023 + 15, 0x1p-24},
    [FB_BF16] = {45, 12, 1023 - 126, 1023 + 127, 0x1p-133},
};

static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* What a draw looks at, of the bits of a value. */
static inline uint64_t drawn_bits(const fb_rounding *r, const format *f)
{
    uint64_t mask = (1ull << f->cut) - 1;
    return r->by_rest ? mask & ~(mask >> f->told) : ~mask;
}

/* Lanes that round as devices do: one op on values that are there leaves them no choice. Products of values next to a
 * power of two all lie on the same side of their neighbours, and steps that come to a fixed point are rounded alike
 * again and again, which no draw would guess. Lane 1 is a kernel an op, lane 3 the usual fused kernel; of 16 bits
 * lane 6 is one whose result a library multiplies, so that it is stored. */
enum { AN_OP = 1, FUSED = 3, MULTIPLIED = 6 };

static bool is_multiplied(int lane, fb_dtype dtype)
{
    return lane == MULTIPLIED && fb_dtype_is_half(dtype);
}

static bool is_nearest(int lane, fb_dtype dtype)
{
    return lane == AN_OP || lane == FUSED || is_multiplied(lane, dtype);
}

/* Does the lane round values of the node that a kernel need not store? */
static bool rounds(const fb_trial_shared *s, int lane, fb_id node, fb_dtype dtype)
{
    return lane == AN_OP ||
           (lane > FUSED && !is_multiplied(lane, dtype) && fb_trial_key(s, lane, node, FB_DRAW_ROUND) >> 63);
}

fb_rounding fb_rounding_of(const fb_trial_shared *s, int lane, fb_id node, fb_dtype dtype, bool stored)
{
    fb_rounding r = {.to = dtype, .key = fb_trial_key(s, lane, node, FB_DRAW_ROUND)};
    bool flush = fb_trial_takes(lane, (uint32_t)fb_trial_key(s, 0, node, FB_DRAW_ROUND));
    /* 16-bit values stay in f32; a product of floats that goes into a fused multiply-add is not rounded at all, and in
     * lanes 2 and 3 never, so that some at least show what that does. */
    bool never = lane == 2 || lane == FUSED;
    if (!stored && !rounds(s, lane, node, dtype))
        r.to = fb_dtype_is_half(dtype) ? FB_F32 : flush && !never ? dtype : FB_F64;
    r.flush = flush && r.to != FB_F16 && r.to != FB_F64;
    /* Devices round to the nearest, so that what is alike in its last bits is all rounded the same way: a column of
     * 16-bit values plus one bias is off by one thing on average. Half of the lanes know that; the others treat alike
     * what lies between the same neighbours, whatever noise is in its last bits. */
    r.by_rest = fb_trial_takes(lane, (uint32_t)fb_trial_key(s, 0, node, FB_DRAW_REST));
    r.nearest = is_nearest(lane, dtype);
    return r;
}

/* What is above goes up: ties to the even neighbour. */
static inline uint32_t half_of(uint64_t odd)
{
    return 0x80000000u - (uint32_t)odd;
}

/* Bits that are cut off, and lie halfway: lanes that round alike what is alike in its last bits take these to the even
 * neighbour, as devices do, for which one it is, the last bits do not say. In other lanes no bits are these. */
static inline uint64_t tie_of(const fb_rounding *r, uint64_t mask)
{
    return r->by_rest ? mask / 2 + 1 : ~(uint64_t)0;
}

/* Up with the probability of the place between the neighbours; by magnitude. The same as the loop below, and what is
 * not a normal number. */
static double round_one(const fb_rounding *r, double x)
{
    const format *f = &formats[r->to];
    uint64_t bits = bits_of(x);
    int exponent = (int)(bits >> 52 & 0x7ff);
    if (x == 0 || exponent == 0x7ff) return x;
    if (exponent < f->lowest) {
        if (r->flush) return copysign(0, x);
        double units = fabs(x) / f->quantum, whole = floor(units);
        bool nearest = r->nearest || (r->by_rest && units - whole == 0.5);
        double drawn = r->by_rest ? floor(ldexp(units - whole, f->told)) : copysign(whole * f->quantum, x);
        uint32_t threshold = nearest ? half_of((uint64_t)whole & 1) : fb_trial_draw(bits_of(drawn), r->key);
        return copysign((whole + ((units - whole) * 0x1p32 > (double)threshold)) * f->quantum, x);
    }
    uint64_t mask = (1ull << f->cut) - 1, low = bits & ~mask;
    double part = (double)(bits & mask) / (double)(mask + 1);
    bool nearest = r->nearest || (bits & mask) == tie_of(r, mask);
    uint32_t threshold = nearest ? half_of(bits >> f->cut & 1) : fb_trial_draw(bits & drawn_bits(r, f), r->key);
    double y = double_of(low + (part * 0x1p32 > (double)threshold ? mask + 1 : 0));
    return fabs(y) < ldexp(1, f->highest - 1022) ? y : copysign(INFINITY, x);
}

FB_TRIAL_WIDE static uint64_t round_normal(const format *f, const fb_rounding *r, int n, const double *restrict from,
                                           double *restrict to)
{
    const uint64_t key = r->key, drawn = drawn_bits(r, f);
    const uint64_t mask = (1ull << f->cut) - 1, lowest = (uint64_t)f->lowest << 52;
    const uint64_t range = ((uint64_t)(f->highest - f->lowest + 1) << 52) - mask - 1;
    const int cut = f->cut, left = cut < 32 ? 32 - cut : 0, right = cut < 32 ? 0 : cut - 32;
    const uint64_t always = r->nearest ? ~(uint64_t)0 : 0, tie = tie_of(r, mask);
    uint64_t odd = 0;
    for (int k = 0; k < n; k++) {
        uint64_t bits = bits_of(from[k]), low = bits & ~mask, part = (bits & mask) << left >> right;
        uint64_t nearest = always | ((bits & mask) == tie ? ~(uint64_t)0 : 0);
        uint64_t half = 0x80000000u - (bits >> cut & 1), draw = fb_trial_draw_wide(bits & drawn, key);
        uint64_t up = part > ((half & nearest) | (draw & ~nearest)) ? mask + 1 : 0;
        uint64_t magnitude = bits & 0x7fffffffffffffffu;
        odd |= (magnitude - lowest >= range) & (magnitude != 0);
        to[k] = double_of(low + up);
    }
    return odd;
}

int fb_round_lane(const fb_rounding *r, int n, const double *from, double *to)
{
    if (r->to == FB_F64) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return -1;
    }
    if (!round_normal(&formats[r->to], r, n, from, to)) return -1;
    int first = -1;
    for (int k = n - 1; k >= 0; k--) {
        to[k] = round_one(r, from[k]);
        if (isinf(to[k]) && isfinite(from[k])) first = k;
    }
    return first;
}

/* Numbers of f32, none of them so small that a device may flush it. */
FB_TRIAL_WIDE static bool all_f32(int n, const double *x)
{
    int64_t lost = 0;
    for (int k = 0; k < n; k++) {
        double size = fabs(x[k]);
        lost |= (!((double)(float)x[k] == x[k]) & (x[k] == x[k])) | ((size < FLT_MIN) & (size != 0));
    }
    return !lost;
}

bool fb_all_representable(fb_dtype dtype, int64_t n, const double *x)
{
    double rounded[FB_TRIAL_CHUNK];
    for (int64_t at = 0; at < n && dtype != FB_F64; at += FB_TRIAL_CHUNK) {
        int count = n - at < FB_TRIAL_CHUNK ? (int)(n - at) : FB_TRIAL_CHUNK;
        if (!all_f32(count, x + at)) return false;
        if (dtype == FB_F32) continue;
        fb_elements_round(dtype, count, x + at, rounded);
        for (int k = 0; k < count; k++) {
            if (rounded[k] != x[at + k] && !isnan(x[at + k])) return false;
        }
    }
    return true;
}

void fb_trial_overflowed(fb_trial_eval *e, fb_id id, int64_t at, double value)
{
    const fb_node *node = fb_trial_node(e, id);
    const fb_box *box = &fb_trial_at(e, id)->box;
    int64_t element = 0, steps[FB_MAX_RANK];
    fb_shape_strides(&node->shape, steps);
    for (int d = node->shape.rank - 1; d >= 0; d--) {
        int64_t extent = box->hi[d] - box->lo[d];
        element += (box->lo[d] + at % extent) * steps[d];
        at /= extent;
    }
    fb_trial_shared *s = e->s;
    pthread_mutex_lock(&s->lock);
    fb_trial_overflow *o = &s->overflow;
    if (o->node == FB_NONE || id < o->node || (id == o->node && element < o->element))
        *o = (fb_trial_overflow){.node = id, .element = element, .value = value};
    pthread_mutex_unlock(&s->lock);
}

/* Of f64 that is the rest of a product, which no double shows: what is chosen goes to a neighbour. */
static void put_off_chosen(const fb_trial_shared *s, fb_id id, int lane, int n, double *to)
{
    uint64_t key = fb_trial_key(s, lane, id, FB_DRAW_ROUND);
    for (int k = 0; k < n; k++)
        if (to[k] != 0 && isfinite(to[k]))
            to[k] = nextafter(to[k], fb_trial_swing(bits_of(to[k]), key) > 0 ? DBL_MAX : -DBL_MAX);
}

/* Of two products that are added up, lane 4 is the kernel that rounds the first alone, lane 5 the one that rounds the
 * second: that some of five lanes draw each is likely, and not sure, and where both are rounded they may cancel. */
static void take_side(fb_rounding *r, int lane, int of_two)
{
    if (!of_two || (lane != 4 && lane != 5)) return;
    r->to = of_two == lane - 3 ? FB_F32 : FB_F64;
    r->nearest = true;
    r->flush = r->flush && r->to == FB_F32;
}

/* Is it what rows of one element are reduced to? */
static bool is_of_one(const fb_trial_eval *e, const fb_node *n)
{
    return fb_op_get(n->op)->cls == FB_CLASS_REDUCTION &&
           fb_shape_elements(&n->shape) == fb_shape_elements(&fb_trial_node(e, n->args[0])->shape);
}

void fb_trial_settle(fb_trial_eval *e, fb_id id, int lane, int64_t at, int n, const double *from)
{
    const fb_node *node = fb_trial_node(e, id);
    double *to = fb_trial_f(fb_trial_at(e, id), lane) + at;
    /* Lane 3 is the usual fused kernel: sums are stored, pointwise values are not. What is left of a value less its own
     * mean is then a rounding. Registers hold an f32, but for a product that goes into a sum: a factor of
     * another product is rounded, and where sums cancel, that is most of it. */
    fb_op_class cls = fb_op_get(node->op)->cls;
    bool pointwise = cls == FB_CLASS_POINTWISE;
    bool held = node->dtype == FB_F32 && (node->op != FB_OP_MUL || !e->s->fused[e->s->slot[id]]);
    /* Lane 6 is one in which rows are at hand: what they are reduced to stays as wide as it was summed up. But what one
     * such sum is reduced to, which is itself, was stored: where both are read, what it was rounded by is left. */
    bool fused = lane == FUSED || (is_multiplied(lane, node->dtype) && cls != FB_CLASS_REDUCTION);
    bool stored = (node->dtype == FB_F32 && fb_trial_chooses(node->op)) || (fused && (!pointwise || held));
    stored |= is_multiplied(lane, node->dtype) && (e->s->multiplied[e->s->slot[id]] || is_of_one(e, node));
    bool sum = e->s->sum[e->s->slot[id]], handed_on = sum && fb_trial_chooses(node->op);
    stored |= e->s->steady[e->s->slot[id]] && !sum;
    fb_rounding r = fb_rounding_of(e->s, lane, id, node->dtype, stored);
    if (handed_on) r = (fb_rounding){.to = FB_F64};
    take_side(&r, lane, e->s->of_two[e->s->slot[id]]);
    int first = fb_round_lane(&r, n, from, to);
    if (first >= 0) fb_trial_overflowed(e, id, at + first, from[first]);
    if (node->dtype == FB_F64 && fb_trial_chooses(node->op)) put_off_chosen(e->s, id, lane, n, to);
}

/* ---- sums ---- */

int fb_lowest_bit(double x)
{
    uint64_t bits = bits_of(x), fraction = bits & 0xfffffffffffffu;
    int exponent = (int)(bits >> 52 & 0x7ff);
    return fraction ? exponent - 1075 + __builtin_ctzll(fraction) : exponent - 1023;
}

/* Sums of multiples of one power of two, of which all together have no more bits than the accumulator: no order rounds
 * anything. */
void fb_exactness_add(fb_exactness *x, bool wide, double term)
{
    if (term == 0 || x->over) return;
    int lowest = fb_lowest_bit(term);
    if (x->magnitude == 0 || lowest < x->lowest) x->lowest = lowest;
    x->magnitude += fabs(term);
    x->over = !(x->lowest >= (wide ? -1022 : -126) && x->magnitude <= ldexp(1, x->lowest + (wide ? 53 : 24)));
}
