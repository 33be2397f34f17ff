/* Pointwise ops, chunk by chunk in all lanes: the function, its share of error, decisions, the rounding. */
#include "interp/trial_parts.h"

#include "base/mem.h"
#include "graph/intmath.h"
#include "interp/parts.h"

#include <float.h>
#include <stdlib.h>

/* ---- operands ---- */

/* Reads an operand in the order of the result's box. Dimensions innermost first, those merged that one step serves. */
typedef struct {
    const fb_trial_value *x;
    bool is_float, whole;
    int rank;
    int64_t dim[FB_MAX_RANK], step[FB_MAX_RANK], offset;
} reader;

static reader reader_open(const fb_trial_value *x, const fb_node *from, const fb_box *box, int rank)
{
    reader r = {.x = x, .is_float = fb_dtype_is_float(from->dtype)};
    int64_t inner[FB_MAX_RANK] = {0}, steps[FB_MAX_RANK] = {0};
    fb_box_steps(&x->box, from->shape.rank, inner);
    for (int d = rank - 1, s = from->shape.rank - 1; s >= 0; d--, s--) {
        if (from->shape.dim[s] == 1) continue;
        steps[d] = inner[s];
        r.offset += (box->lo[d] - x->box.lo[s]) * inner[s];
    }
    for (int d = rank - 1; d >= 0; d--) {
        int64_t extent = box->hi[d] - box->lo[d];
        if (extent == 1) continue;
        if (r.rank && steps[d] == r.step[r.rank - 1] * r.dim[r.rank - 1]) {
            r.dim[r.rank - 1] *= extent;
            continue;
        }
        r.dim[r.rank] = extent;
        r.step[r.rank++] = steps[d];
    }
    r.whole = r.rank == 0 || (r.rank == 1 && r.step[0] == 1);
    return r;
}

/* Cells at … at + n - 1 of the result's order, in `room` or where they lie. */
static const uint64_t *reader_take(const reader *r, int lane, int64_t at, int n, uint64_t *room)
{
    const uint64_t *plane = fb_trial_raw(r->x, lane) + r->offset;
    if (r->whole) return plane + at;
    int64_t index[FB_MAX_RANK], from = 0;
    for (int d = 0; d < r->rank; d++) {
        index[d] = at % r->dim[d];
        from += index[d] * r->step[d];
        at /= r->dim[d];
    }
    int64_t step = r->step[0];
    for (int done = 0; done < n;) {
        int run = r->dim[0] - index[0] < n - done ? (int)(r->dim[0] - index[0]) : n - done;
        if (step == 1)
            memcpy(room + done, plane + from, (size_t)run * sizeof *room);
        else
            for (int k = 0; k < run; k++) room[done + k] = plane[from + k * step];
        done += run;
        index[0] += run;
        from += run * step;
        for (int d = 0; d + 1 < r->rank && index[d] == r->dim[d]; d++) {
            index[d] = 0;
            from += r->step[d + 1] - r->dim[d] * r->step[d];
            index[d + 1]++;
        }
    }
    return room;
}

/* ---- one node ---- */

typedef struct {
    fb_trial_eval *e;
    fb_id id;
    const fb_node *node;
    reader args[3];
    bool f64; /* evaluated in doubles; else in int64_t */
    bool result_float;
    int operand_lanes;         /* 1: of exact operands */
    bool settles;              /* lanes must be rounded */
    const float *alike[2];     /* … of two products that are added up: of their terms; NULL */
    bool reorders[2];          /* … a sum that holds a product, and that may take this one's other operand first */
    atomic_bool *lost;         /* some value does not fit into the integers that it is cast to */
    float *taken;              /* of the result, which takes in a product: how large that is; NULL */
    const float *taken_of[2];  /* of operands, which a kernel may compute anew for this node; NULL */
    bool apart[3];             /* … an operand that was rounded otherwise for others */
    const float *summed_of[2]; /* … and how large what it was added up of is; NULL: it is no sum */
    float *summed;             /* of the result, which is such an operand of others */
    bool adds;                 /* two operands, or takes one from the other */
    bool relates;              /* … or is their product or quotient, or the angle of the two */
    bool either_zero[2];       /* … where a sign or a pole counts, an operand whose 0 has either sign */
    bool wide[2];              /* … in f64, an operand that is a product */
    reader near[3];            /* margins of operands that have them; x is NULL where they have none */
    double *margins;           /* of the result; NULL */
} job;

/* One chunk in all lanes. */
typedef struct {
    uint64_t room[3][FB_LANES][FB_TRIAL_CHUNK];
    double converted[3][FB_LANES][FB_TRIAL_CHUNK];
    const uint64_t *raw[3][FB_LANES];
    const double *x[3][FB_LANES]; /* as doubles; absent operands are zeros */
    double y[FB_LANES][FB_TRIAL_CHUNK];
    double spread[FB_TRIAL_CHUNK];
} chunk;

static void take_chunk(const job *j, chunk *c, int lanes, int64_t at, int n)
{
    for (int a = 0; a < j->node->n_args; a++) {
        const reader *r = &j->args[a];
        for (int l = 0; l < lanes; l++) {
            if (l >= r->x->lanes) {
                c->raw[a][l] = c->raw[a][0];
                c->x[a][l] = c->x[a][0];
                continue;
            }
            c->raw[a][l] = reader_take(r, l, at, n, c->room[a][l]);
            c->x[a][l] = (const double *)c->raw[a][l];
            if (r->is_float || !j->f64) continue;
            for (int k = 0; k < n; k++) c->converted[a][l][k] = (double)((const int64_t *)c->raw[a][l])[k];
            c->x[a][l] = c->converted[a][l];
        }
    }
}

static void compute(const job *j, const chunk *c, int lane, int n, double *y)
{
    fb_pointwise_f64(j->node->op, j->node->attrs, n, c->x[0][lane], c->x[1][lane], c->x[2][lane], y);
}

/* ---- decisions ---- */

/* TURNS of ops.def: where a result hangs on a decision that roundings may turn. */
typedef enum {
    FB_TURN_SMOOTH,
    FB_TURN_KINK,
    FB_TURN_STEP,
    FB_TURN_COMPARISON,
    FB_TURN_CHOICE,
    FB_TURN_WRAP,
    FB_TURN_CAST,
    FB_TURN_AT_POLE,
    FB_TURN_EDGE,
    FB_TURN_MEET,
    FB_TURN_BY_SIDE,
} turning;

static const struct {
    turning how;
    int operand; /* of a pole, or whose sign counts */
} turns[FB_OPS] = {
#define FB_TURN_POLE(OPERAND, PLACE) FB_TURN_AT_POLE, OPERAND
#define FB_TURN_SIDES(OPERAND)       FB_TURN_BY_SIDE, OPERAND
#define FB_TURN_OF_TURNS(HOW)        FB_TURN_##HOW
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, SPELLED, COST, XLA, ROUNDS, TURNS, ...)          \
    [FB_OP_##ID] = {FB_TURN_OF_##TURNS},
#include "graph/ops.def"
#undef POINTWISE
};

/* Where the operand with the pole has it, or the one that is nearest to x. */
static double place_of_pole(fb_op op, const fb_attrs *at, double x)
{
    (void)at, (void)x;
    switch (op) {
#define FB_PLACE_SMOOTH               0
#define FB_PLACE_KINK                 0
#define FB_PLACE_STEP                 0
#define FB_PLACE_COMPARISON           0
#define FB_PLACE_CHOICE               0
#define FB_PLACE_WRAP                 0
#define FB_PLACE_CAST                 0
#define FB_PLACE_EDGE                 0
#define FB_PLACE_MEET                 0
#define FB_PLACE_SIDES(OPERAND)       0
#define FB_PLACE_POLE(OPERAND, PLACE) PLACE
#define FB_PLACE_OF_TURNS(HOW)        FB_PLACE_##HOW
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, SPELLED, COST, XLA, ROUNDS, TURNS, ...)          \
    case FB_OP_##ID:                                                                                                   \
        return FB_PLACE_OF_##TURNS;
#include "graph/ops.def"
#undef POINTWISE
    default: return 0;
    }
}

/* No fused multiply-add reaches through a choice: what comes out has been rounded, and where the product itself goes on
 * wide, the two differ. */
bool fb_trial_chooses(fb_op op)
{
    return fb_trial_is_extremum(op) || turns[op].how == FB_TURN_KINK || turns[op].how == FB_TURN_CHOICE;
}

/* Largest |x_l − x_0| of a quantity that every lane has. */
FB_TRIAL_WIDE static void spread_of(int lanes, int n, const double *const *x, double *spread)
{
    memset(spread, 0, (size_t)n * sizeof *spread);
    for (int l = 1; l < lanes; l++) {
        const double *a = x[0], *b = x[l];
        for (int k = 0; k < n; k++) {
            double d = fabs(b[k] - a[k]);
            spread[k] = d > spread[k] ? d : spread[k];
        }
    }
}

/* Is the lane infinite on the side of 0 where the exact value is, as where a dtype does not hold it? */
static bool is_beyond(double exact, double lane)
{
    return isinf(lane) && isfinite(exact) && (lane > 0) == (exact > 0);
}

/* The spread of an operand. A lane that lies beyond it shows by itself what that leads to, and puts nothing on the other
 * side in reach: what overflows is not less than a bound that it is above. */
static void spread_within(int lanes, int n, const double *const *x, double *spread)
{
    spread_of(lanes, n, x, spread);
    for (int k = 0; k < n; k++) {
        if (!isinf(spread[k])) continue;
        spread[k] = 0;
        for (int l = 1; l < lanes; l++)
            if (!is_beyond(x[0][k], x[l][k])) spread[k] = fmax(spread[k], fabs(x[l][k] - x[0][k]));
    }
}

/* … and of the difference of two. */
static void spread_of_difference(const chunk *c, int lanes, int n, const double *const *d, double *spread)
{
    spread_of(lanes, n, d, spread);
    for (int k = 0; k < n; k++) {
        if (!isinf(spread[k])) continue;
        spread[k] = 0;
        for (int l = 1; l < lanes; l++) {
            bool beyond = is_beyond(c->x[0][0][k], c->x[0][l][k]) || is_beyond(c->x[1][0][k], c->x[1][l][k]);
            if (!beyond) spread[k] = fmax(spread[k], fabs(d[l][k] - d[0][k]));
        }
    }
}

/* Is a decision open whose quantity lies `margin` from where it turns? */
static bool is_open(double margin, double spread)
{
    return spread > 0 && margin <= FB_TRIAL_MARGIN * spread;
}

/* Did a step lead this lane away from 0, further than it lies? Not where 0 lies as near as if it were there: of a square
 * all lanes lead away from it. */
static bool leads_away(double exact, double lane, double spread)
{
    enum { NEAR = 16 };
    return fabs(exact) * NEAR >= spread && lane / exact > 2;
}

static uint32_t decision_draw(const job *j, double x)
{
    return fb_trial_draw(fb_trial_bits(x), fb_trial_key(j->e->s, 0, j->id, FB_DRAW_FUNCTION));
}

typedef struct {
    double place, rounds; /* rounds: what a few roundings beside it may move a lane by */
} pole;

static pole pole_at(const job *j, int operand, double place)
{
    enum { UNITS = 8 };
    return (pole){place, UNITS * fb_trial_unit(j->e->s->g->nodes[j->node->args[operand]].dtype) * fabs(place)};
}

typedef enum {
    AWAY,   /* a step led it away, or it is no number any more, which it stays */
    AROUND, /* further off than the exact one, where that is as good as at the pole */
    BESIDE,
} nearness;

/* May this lane come to a pole? */
static nearness near_of(pole p, double exact, double lane, double spread)
{
    double from = lane - p.place;
    if (isnan(from)) return AWAY;
    if (fabs(from) <= p.rounds) return BESIDE;
    if (leads_away(exact, from, spread)) return AWAY;
    return fabs(from) > 2 * fabs(exact) ? AROUND : BESIDE;
}

static int count_near(const job *j, double x, const double *const *lane, int64_t k, pole p, double spread,
                      nearness least)
{
    int near = 0;
    for (int l = 1; l < j->e->s->lanes; l++) near += near_of(p, x, lane[l][k], spread) >= least;
    return near;
}

/* Does any lane but the exact one lie at the pole by itself? */
static bool is_met(const job *j, double place, const double *const *lane, int64_t k)
{
    for (int l = 1; l < j->e->s->lanes; l++)
        if (lane[l][k] == place) return true;
    return false;
}

/* Every other lane that comes near a pole meets it: is the first one passed over? Not where there is no other. */
static bool passes_first(const job *j, double x, const double *const *lane, int64_t k, pole p, double spread)
{
    return count_near(j, x, lane, k, p, spread, AROUND) > 1 && (decision_draw(j, x) & 1);
}

/* Of two elements that lie at the same place for unlike reasons, as sums do that are 0 or steps of what was open itself,
 * one may turn without the other: if such elements always turned together, what they add up to might cancel. Alike are
 * those whose lanes are. */
static uint32_t step_draw(const job *j, const double *const *x, int k)
{
    uint64_t all = 0;
    for (int l = 1; l < j->e->s->lanes; l++) all = fb_splitmix64(all ^ fb_trial_bits(x[l][k]));
    return decision_draw(j, x[0][k]) ^ fb_trial_draw(all, fb_trial_key(j->e->s, 0, j->id, FB_DRAW_REST));
}

/* What a comparison's draw is of: the difference; of what is equal, as all that a relu has cut off is to 0, the operands
 * and how far roundings lead, or all such elements would turn together, and what they add up to might cancel. */
static uint32_t comparison_draw(const job *j, const chunk *c, int k, double d)
{
    if (d != 0) return decision_draw(j, d);
    uint64_t operands = fb_splitmix64(fb_trial_bits(c->x[0][0][k]) + 3 * fb_trial_bits(c->x[1][0][k]));
    return fb_trial_draw(operands ^ fb_trial_bits(c->spread[k]), fb_trial_key(j->e->s, 0, j->id, FB_DRAW_FUNCTION));
}

/* The smallest of some sums equals one of them in all lanes, and a kernel may have added that one up again in another
 * order: where nothing else opens the comparison of what is equal, its operands do. */
static void compare_apart(const job *j, chunk *c, int lanes, int n, const double *difference, bool *apart)
{
    double spread[FB_TRIAL_CHUNK];
    memset(apart, 0, (size_t)n * sizeof *apart);
    for (int a = 0; a < 2; a++) {
        if (!j->apart[a]) continue;
        spread_of(lanes, n, c->x[a], spread);
        for (int k = 0; k < n; k++)
            if (difference[k] == 0 && c->spread[k] == 0) {
                apart[k] = spread[k] > 0;
                c->spread[k] = spread[k];
            }
    }
}

enum { ALL_BELOW = 3, ALL_ABOVE = 4 };

/* In one lane nothing that is open holds and all goes down, in one all holds and goes up: a stored maximum of 16 bits may
 * equal none of the values that it was made of, where these are computed anew and kept wide. In each of the others each
 * goes its own way. If two always turned together, or one always where the other does not, a sum would not show what one
 * of them adds to it; so each has as many ways as there are. */
static bool goes_above(int lane, uint32_t draw)
{
    if (lane == ALL_BELOW || lane == ALL_ABOVE) return lane == ALL_ABOVE;
    return draw >> lane & 1;
}

/* Is it whole numbers or truths that a decision made, or a view of such? Lanes have turned it, each element by itself,
 * and what is decided of it follows from that: if 0 or 1 were -1, 0 or 1 to a sign, all elements would be so together. */
static bool is_decided(const fb_trial_shared *s, fb_id id)
{
    for (;;) {
        const fb_node *n = &s->g->nodes[id];
        if (s->leaf[s->slot[id]]) return false;
        if (turns[n->op].how == FB_TURN_STEP) return true;
        bool cast = n->op == FB_OP_CAST;
        if (cast && !fb_dtype_is_float(s->g->nodes[n->args[0]].dtype)) return true;
        if (!cast && fb_op_get(n->op)->cls != FB_CLASS_VIEW && n->op != FB_OP_NEG && n->op != FB_OP_ABS) return false;
        id = n->args[0];
    }
}

static void decide_comparisons(const job *j, chunk *c, int64_t at, int n)
{
    int lanes = j->e->s->lanes;
    const double *differences[FB_LANES];
    bool apart[FB_TRIAL_CHUNK];
    for (int l = 0; l < lanes; l++) {
        double *d = (double *)c->room[2][l]; /* a comparison has no third operand */
        for (int k = 0; k < n; k++) d[k] = c->x[0][l][k] - c->x[1][l][k];
        differences[l] = d;
    }
    bool decided = true;
    for (int a = 0; a < 2; a++) decided &= j->args[a].x->lanes == 1 || is_decided(j->e->s, j->node->args[a]);
    spread_of_difference(c, lanes, n, differences, c->spread);
    compare_apart(j, c, lanes, n, differences[0], apart);
    for (int k = 0; k < n; k++) {
        double d = differences[0][k];
        if (j->margins && c->spread[k] > 0) j->margins[at + k] = fabs(d) / c->spread[k];
        if ((decided && !apart[k]) || !is_open(fabs(d), c->spread[k])) continue;
        uint32_t draw = comparison_draw(j, c, k, d);
        for (int l = 1; l < lanes; l++) c->y[l][k] = goes_above(l, draw);
    }
}

static const double close_by = 0.25; /* to a jump, of a lane that has one of its own */

/* The place nearest to x where the op jumps. */
static double nearest_jump(const job *j, double x)
{
    if (j->node->op == FB_OP_SIGN || (j->node->op == FB_OP_CAST && j->node->dtype == FB_BOOL)) return 0;
    if (j->node->op == FB_OP_ROUND) return floor(x) + 0.5;
    double whole = nearbyint(x);
    return j->node->op == FB_OP_CAST && whole == 0 ? copysign(1, x) : whole;
}

/* Where lanes lie more than half a step apart, as what is left of a division does that is 0 in one and almost the divisor
 * in another, each has a jump of its own, if it lies close to one. The first of those at the same jump goes where the exact
 * one is not, the second the other way. */
static bool goes_above_apart(const job *j, const chunk *c, int k, int lane, double jump, uint32_t draw)
{
    int before = 0;
    for (int l = 1; l < lane; l++) {
        double x = c->x[0][l][k];
        before += fabs(x - jump) <= close_by && nearest_jump(j, x) == jump;
    }
    if (before >= 2) return goes_above(lane, draw);
    double exact = c->x[0][0][k];
    return (exact == jump ? draw >> 31 : exact < jump) ^ (before == 1);
}

/* A sign has a third value, that of 0: where roundings lead so near, they may lead there. In one lane all do that are open,
 * in another about half, and in a third the others: what is added up of all may cancel. */
static bool is_nothing(int lane, uint32_t draw)
{
    enum { ALL = 5, HALF, OTHERS, BIT = 16 };
    return lane == ALL || (lane == HALF && draw >> BIT & 1) || (lane == OTHERS && !(draw >> BIT & 1));
}

/* A truth or a sign, or the value of a step, on that side of a jump. */
static double beyond(const job *j, double lane, double jump, bool above, int l, uint32_t draw)
{
    if (j->node->op == FB_OP_CAST && j->node->dtype == FB_BOOL) return above;
    if (j->node->op == FB_OP_SIGN && is_nothing(l, draw)) return 0;
    double to = above ? fmax(lane, nextafter(jump, INFINITY)) : fmin(lane, nextafter(jump, -INFINITY)), y;
    fb_pointwise_f64(j->node->op, j->node->attrs, 1, &to, &to, &to, &y);
    return y;
}

/* Lanes go to one side or the other of the jump, each to the nearest point there unless it is on that side already. A lane
 * in which the operand has overflowed to nothing decides nothing: its result stays; so does that of a lane which roundings
 * led past the next jump. If few are left and none goes where the exact one is not, the last of them does. */
static void decide_steps(const job *j, chunk *c, int n)
{
    const double far = 0.5;
    int lanes = j->e->s->lanes;
    bool truth = j->node->op == FB_OP_CAST && j->node->dtype == FB_BOOL, one_jump = truth || j->node->op == FB_OP_SIGN;
    if (is_decided(j->e->s, j->node->args[0])) return;
    spread_within(lanes, n, c->x[0], c->spread);
    for (int k = 0; k < n; k++) {
        double x = c->x[0][0][k], jump = nearest_jump(j, x);
        if (!is_open(fabs(x - jump), c->spread[k])) continue;
        uint32_t draw = step_draw(j, c->x[0], k);
        bool apart = !one_jump && c->spread[k] > far;
        int last = 0; /* of those that decide */
        bool turns_it = false;
        for (int l = 1; l < lanes; l++) {
            double lane = c->x[0][l][k], at = apart ? nearest_jump(j, lane) : jump;
            if (isnan(lane) || (!one_jump && !(fabs(lane - at) <= (apart ? close_by : 1)))) continue;
            bool above = apart ? goes_above_apart(j, c, k, l, at, draw) : goes_above(l, draw);
            c->y[l][k] = beyond(j, lane, at, above, l, draw);
            turns_it |= truth ? above != (x != 0) : c->y[l][k] != c->y[0][k];
            last = l;
        }
        bool other = truth ? x == 0 : x <= jump;
        if (last && !turns_it && !apart) c->y[last][k] = beyond(j, c->x[0][last][k], jump, other, 0, draw);
    }
}

/* a mod b jumps where a / b is whole: from next to b down to nothing. So it does where all lanes agree on that, as on x
 * mod x, and x may be computed for each. Where roundings may make a 0 of b, it is no number in half of the lanes. Where
 * they lead from one whole quotient to another it may be anything between, and one lane has each end: what is made of it
 * may be flat where the others lie. */
static void decide_remainders(const job *j, chunk *c, int n)
{
    int lanes = j->e->s->lanes;
    const double *quotients[FB_LANES];
    double divisors[FB_TRIAL_CHUNK], dividends[FB_TRIAL_CHUNK];
    for (int l = 0; l < lanes; l++) {
        double *q = (double *)c->room[2][l];
        for (int k = 0; k < n; k++) q[k] = c->x[0][l][k] / c->x[1][l][k];
        quotients[l] = q;
    }
    spread_of(lanes, n, quotients, c->spread);
    spread_of(lanes, n, c->x[0], dividends);
    spread_of(lanes, n, c->x[1], divisors);
    for (int k = 0; k < n; k++) {
        double q = quotients[0][k], whole = nearbyint(q);
        double divisor = c->x[1][0][k];
        if (is_open(fabs(divisor), divisors[k])) {
            bool takes = passes_first(j, divisor, c->x[1], k, (pole){0}, divisors[k]);
            for (int l = 1; l < lanes; l++)
                if (!leads_away(divisor, c->x[1][l][k], divisors[k]) && (takes = !takes)) c->y[l][k] = NAN;
            continue;
        }
        bool agree = q == whole && whole != 0 && dividends[k] > 0 && divisors[k] > 0;
        if (!agree && !is_open(fabs(q - whole), c->spread[k])) continue;
        /* Over 1 the quotient is the dividend: two draws that are equal must not cancel. */
        uint64_t both = (uint64_t)step_draw(j, quotients, k) << 32 | step_draw(j, c->x[0], k);
        uint32_t draw = fb_trial_draw(both, fb_trial_key(j->e->s, 0, j->id, FB_DRAW_REST));
        for (int l = 1; l < lanes; l++) {
            double a = c->x[0][l][k], b = c->x[1][l][k], rest = fma(-whole, b, a), part = rest / b;
            bool above = goes_above(l, draw);
            if (c->spread[k] > 0.5 && (l == ALL_BELOW || l == ALL_ABOVE) && !isnan(rest)) part = 0;
            if (isnan(rest) || fabs(part) > 1) continue;
            /* In units of b the rest is a little more than 0, or a little less than 1. */
            c->y[l][k] = above ? fmax(part, 0) * b : (1 + fmin(part, 0)) * b;
        }
    }
}

/* Which of two zeros is the larger one is nobody's promise, also where they were given: is the node such a maximum, or
 * a view of one? */
static bool has_either_zero(const fb_trial_shared *s, fb_id id)
{
    for (;;) {
        const fb_node *n = &s->g->nodes[id];
        if (s->leaf[s->slot[id]]) return false;
        if (fb_trial_is_extremum(n->op) || turns[n->op].how == FB_TURN_KINK) return true;
        if (fb_op_get(n->op)->cls != FB_CLASS_VIEW && n->op != FB_OP_NEG) return false;
        id = n->args[0];
    }
}

/* Beside such a 0 a pole has two sides, and half of the lanes have each. */
static void decide_zeros(const job *j, chunk *c, int n)
{
    int lanes = j->e->s->lanes, of = turns[j->node->op].operand;
    for (int k = 0; k < n; k++) {
        if (c->x[of][0][k] != 0) continue;
        uint32_t draw = decision_draw(j, of ? c->x[0][0][k] : 0);
        for (int l = 1; l < lanes; l++) {
            double zero = fb_trial_takes(l, draw) ? 0 : -0.0;
            const double *first = of ? &c->x[0][l][k] : &zero;
            if (c->x[of][l][k] == 0) fb_pointwise_f64(j->node->op, j->node->attrs, 1, first, &zero, &zero, &c->y[l][k]);
        }
    }
}

/* Where roundings may make a 0 of what is divided by, or taken the logarithm of, half of the lanes have it. Where it is
 * that exactly and lanes have it by themselves, those that do not show what else it may be: a count of ties, say. Those
 * that lead further away from 0 than it lies show that as well, and stay: of |floor x| + 0.5, where the step was taken
 * both ways. So do some of those around, by themselves: such a step may have led just those there that would meet the pole.
 * A 0 that roundings make has the sign of what was rounded, or is what a difference leaves: lanes have both. */
static void decide_poles(const job *j, chunk *c, int n)
{
    int lanes = j->e->s->lanes, of = turns[j->node->op].operand;
    spread_within(lanes, n, c->x[of], c->spread);
    for (int k = 0; k < n; k++) {
        if (!(c->spread[k] > 0)) continue;
        const double place = place_of_pole(j->node->op, j->node->attrs, c->x[of][0][k]);
        double x = c->x[of][0][k] - place;
        if (!is_open(fabs(x), c->spread[k]) || (x == 0 && is_met(j, place, c->x[of], k))) continue;
        const pole p = pole_at(j, of, place);
        const int beside = count_near(j, x, c->x[of], k, p, c->spread[k], BESIDE);
        const bool passed = passes_first(j, x, c->x[of], k, p, c->spread[k]);
        bool takes[] = {[AROUND] = passed || beside > 0, [BESIDE] = passed && beside > 1}, own = false;
        for (int l = 1; l < lanes; l++) {
            const nearness near = near_of(p, x, c->x[of][l][k], c->spread[k]);
            if (near == AWAY || !(takes[near] = !takes[near])) continue;
            const double at = place == 0 && own ? copysign(0, c->x[of][l][k]) : place;
            fb_pointwise_f64(j->node->op, j->node->attrs, 1, of ? &c->x[0][l][k] : &at, &at, &at, &c->y[l][k]);
            own = !own;
        }
    }
}

/* Where the sign of an operand counts and roundings may turn it, lanes have both. So they have where all of them come to
 * a 0: which of two zeros is the larger one, say, is nobody's promise. */
static void decide_sides(const job *j, chunk *c, int n)
{
    int lanes = j->e->s->lanes, of = turns[j->node->op].operand, beside = 1 - of;
    bool computed = j->args[of].x->lanes > 1 || j->either_zero[of];
    bool one = j->node->args[of] == j->node->args[beside];
    spread_within(lanes, n, c->x[of], c->spread);
    for (int k = 0; k < n; k++) {
        double x = c->x[of][0][k];
        bool turn = is_open(fabs(x), c->spread[k]) || (computed && x == 0 && c->spread[k] == 0);
        bool other = j->either_zero[beside] && c->x[beside][0][k] == 0; /* an angle goes by both signs */
        if (!turn && !other) continue;
        uint32_t draw = step_draw(j, c->x[of], k);
        for (int l = 1; l < lanes; l++) {
            double to[2] = {c->x[0][l][k], c->x[1][l][k]};
            bool above = goes_above(l, draw);
            if (turn) to[of] = copysign(to[of], above ? 1 : -1);
            if (other && to[beside] == 0) to[beside] = (one ? above : fb_trial_takes(l, draw)) ? 0 : -0.0;
            fb_pointwise_f64(j->node->op, j->node->attrs, 1, &to[0], &to[1], &to[1], &c->y[l][k]);
        }
    }
}

/* What was stored and what is computed anew are one value to a kernel, and their difference is 0, which hardly a lane
 * meets among the few roundings on either side of it: one of them does, unless the exact one does. In one more all
 * elements do, as in a kernel: the first of them is then the largest. */
static void decide_meetings(const job *j, chunk *c, int n)
{
    const double few = 16 * fb_trial_unit(j->node->dtype);
    int lanes = j->e->s->lanes, all = 1 + (int)(fb_trial_key(j->e->s, 0, j->id, FB_DRAW_SIGN) % (uint64_t)(lanes - 1));
    for (int k = 0; k < n; k++) {
        double low = INFINITY, high = -INFINITY;
        for (int l = 1; l < lanes; l++) {
            low = fmin(low, c->y[l][k]);
            high = fmax(high, c->y[l][k]);
        }
        if (c->y[0][k] == 0 || !(fmax(-low, high) <= few * fabs(c->x[0][0][k]))) continue;
        if (low < 0 && high > 0) c->y[fb_trial_led(j->e, j->id, c->x[0][0][k])][k] = 0;
        if (is_open(fabs(c->y[0][k]), high - low)) c->y[all][k] = 0;
    }
}

/* Do all lanes of operand `a` lie on one side of 0, and none at it? Then nothing was cut off there. */
static bool is_one_sided(const chunk *c, int a, int lanes, int k)
{
    bool below = c->x[a][0][k] < 0;
    for (int l = 1; l < lanes; l++)
        if ((c->x[a][l][k] < 0) != below || c->x[a][l][k] == 0) return false;
    return true;
}

/* Roots of less than 0 are no numbers, nor are its powers but whole ones. Where roundings may lead to the other side of
 * 0, or of a whole exponent to what is not, and all lanes lie on this one by chance, some of them go there: with x to x the
 * base as well. All elements may have one exponent: in one lane none is a number, and in one all are. */
static void decide_edges(const job *j, chunk *c, int n)
{
    int lanes = j->e->s->lanes;
    bool power = j->node->op == FB_OP_POW, one = power && j->node->args[0] == j->node->args[1];
    double exponents[FB_TRIAL_CHUNK] = {0};
    spread_within(lanes, n, c->x[0], c->spread);
    if (power) spread_within(lanes, n, c->x[1], exponents);
    for (int k = 0; k < n; k++) {
        double a = c->x[0][0][k], b = power ? c->x[1][0][k] : 0.5, whole = nearbyint(b);
        bool crosses = is_open(fabs(a), c->spread[k]) && is_one_sided(c, 0, lanes, k);
        if (b == whole && exponents[k] == 0) continue;
        bool to_whole = a < 0 && is_open(fabs(b - whole), exponents[k]);
        if (!crosses && !to_whole) continue;
        uint32_t draw = decision_draw(j, a);
        for (int l = 1; l < lanes; l++) {
            double x = crosses ? fabs(c->x[0][l][k]) : c->x[0][l][k], y = to_whole ? whole : c->x[1][l][k];
            if (to_whole && one) x = whole;
            if (goes_above(l, draw))
                c->y[l][k] = NAN;
            else
                fb_pointwise_f64(j->node->op, j->node->attrs, 1, &x, &y, &y, &c->y[l][k]);
        }
    }
}

/* How far a kinked result leads when operand `a` of all elements goes so many spreads up, or down where they are
 * negative, over that many: what an operand without a kink would spread. */
static void lead_beyond(const job *j, const chunk *c, int a, int spreads, int n, double *off)
{
    double moved[FB_TRIAL_CHUNK];
    const double *x[3] = {c->x[0][0], c->x[1][0], c->x[2][0]};
    for (int k = 0; k < n; k++) moved[k] = x[a][k] + spreads * c->spread[k];
    x[a] = moved;
    fb_pointwise_f64(j->node->op, j->node->attrs, n, x[0], x[1], x[2], off);
    for (int k = 0; k < n; k++) off[k] = (off[k] - c->y[0][k]) / abs(spreads);
}

/* Next to the kink of max(0, x) and its like all lanes may lie on the flat side by chance, and a kernel on the other.
 * An operand may lie FB_TRIAL_CHANCE of its spreads off; where that leads further than the lanes of the result went,
 * one of them goes there. So it does where a single spread does: that of many steps that may go either way may lead from
 * one bound of a clamp to the other, and a share of that is little. The rest stays as it was drawn, for a relu leads to
 * one side only: its mean would move. */
static void decide_kinks(const job *j, chunk *c, int n)
{
    static const int ways[] = {-FB_TRIAL_CHANCE, FB_TRIAL_CHANCE, -1, 1};
    int lanes = j->e->s->lanes, n_ways = j->node->op == FB_OP_CLAMP ? 4 : 2;
    const double *results[FB_LANES];
    double moved[FB_TRIAL_CHUNK], off[FB_TRIAL_CHUNK];
    for (int l = 0; l < lanes; l++) results[l] = c->y[l];
    spread_of(lanes, n, results, moved);
    for (int a = 0; a < j->node->n_args; a++) {
        spread_within(lanes, n, c->x[a], c->spread);
        for (int way = 0; way < n_ways; way++) {
            lead_beyond(j, c, a, ways[way], n, off);
            for (int k = 0; k < n; k++) {
                /* what is as large as the lanes' own spread, but for this sum's roundings, adds nothing */
                if (!(fabs(off[k]) > moved[k] * (1 + 0x1p-20)) || !isfinite(off[k])) continue;
                int one = fb_trial_led(j->e, j->id, c->x[a][0][k]);
                if (!isnan(c->y[one][k])) c->y[one][k] = c->y[0][k] + off[k];
                moved[k] = fabs(off[k]);
            }
        }
    }
}

/* ---- choices near a kink ---- */

/* Is the op one of truths, whose result turns with an operand? */
static bool hands_on(const job *j)
{
    switch (j->node->op) {
    case FB_OP_LOGICAL_NOT:
    case FB_OP_LOGICAL_AND:
    case FB_OP_LOGICAL_OR:
    case FB_OP_EQ:
    case FB_OP_NE: return fb_trial_node(j->e, j->node->args[0])->dtype == FB_BOOL;
    case FB_OP_CAST: return fb_trial_node(j->e, j->node->args[0])->dtype == FB_BOOL;
    default: return false;
    }
}

static void open_margins(job *j, fb_trial_value *planes, fb_cells *cells)
{
    fb_trial_value *v = fb_trial_at(j->e, j->id);
    bool any = turns[j->node->op].how == FB_TURN_COMPARISON && j->f64;
    for (int a = 0; a < j->node->n_args; a++) {
        const fb_trial_value *x = fb_trial_at(j->e, j->node->args[a]);
        if (!x->cells || !x->cells->margins) continue;
        planes[a] = fb_trial_margins_of(x, &cells[a]);
        j->near[a] = reader_open(&planes[a], fb_trial_node(j->e, j->node->args[a]), &v->box, j->node->shape.rank);
        any = any || hands_on(j);
    }
    if (any && v->lanes > 1) j->margins = fb_trial_margins(v);
}

/* Margins of operand `a`; NULL: no decision in this chunk is as near as FB_TRIAL_CHANCE spreads. */
static const double *near_margins(const job *j, int a, int64_t at, int n, uint64_t *room)
{
    if (!j->near[a].x) return NULL;
    const double *margin = (const double *)reader_take(&j->near[a], 0, at, n, room);
    for (int k = 0; k < n; k++)
        if (margin[k] <= FB_TRIAL_CHANCE) return margin;
    return NULL;
}

/* The result of a chunk in all lanes where operand `a`, a truth, is the same in all of them. */
static void compute_way(const job *j, const chunk *c, int a, const double *truth, int n, double (*to)[FB_TRIAL_CHUNK])
{
    for (int l = 0; l < j->e->s->lanes; l++) {
        const double *x[3] = {c->x[0][l], c->x[1][l], c->x[2][l]};
        x[a] = truth;
        fb_pointwise_f64(j->node->op, j->node->attrs, n, x[0], x[1], x[2], to[l]);
    }
}

static void spread_of_way(const job *j, double (*way)[FB_TRIAL_CHUNK], int n, double *spread)
{
    const double *lanes[FB_LANES];
    for (int l = 0; l < j->e->s->lanes; l++) lanes[l] = way[l];
    spread_of(j->e->s->lanes, n, lanes, spread);
}

/* How far the result may lie off for one spread of a decision at `margin` of them, where both ways meet at 0 of them:
 * as far as its own way is, or beyond that place, where the other one leads away by `step`; the less the further that
 * is. 0: this is no kink but a jump, for the ways differ by more than they spread for that many. */
static double off_at_kink(double step, double margin, double own, double other)
{
    enum { STEEPER = 2 };
    if (!(margin > 0 && margin <= FB_TRIAL_CHANCE) || !(fabs(step) <= STEEPER * margin * (own + other))) return 0;
    double off = fmin(fabs(step) * (FB_TRIAL_CHANCE - margin) / (margin * FB_TRIAL_CHANCE), fmax(own, other));
    return copysign(fmax(off, own), step);
}

/* How far the lanes of a way lead from where the exact one goes. */
static double farthest(double (*way)[FB_TRIAL_CHUNK], int lanes, int k, double from)
{
    double off = 0;
    for (int l = 0; l < lanes; l++)
        if (fabs(way[l][k] - from) > fabs(off)) off = way[l][k] - from;
    return off;
}

/* where(x > 0, x, x / 100) has a kink as relu has one: all lanes may lie on one side by chance, and a kernel on the
 * other; and of those of a decision that is open only half go each way, which may be those that lie near by chance:
 * where(x > 0, x, 0) is 0 in all of them if each that takes x has none. As with a bound (decide_kinks), one lane goes
 * where FB_TRIAL_CHANCE spreads, or any lane of either way of what is open, would lead further than the lanes went: of
 * the latter much further, for lanes of x · m and y · (1 - m) belong together. */
static void lead_across(const job *j, chunk *c, int64_t at, int n)
{
    enum { FARTHER = 2 };
    uint64_t room[FB_TRIAL_CHUNK];
    double turned[FB_TRIAL_CHUNK], spread[FB_TRIAL_CHUNK], moved[FB_TRIAL_CHUNK];
    double own[FB_LANES][FB_TRIAL_CHUNK], other[FB_LANES][FB_TRIAL_CHUNK];
    int lanes = j->e->s->lanes;
    for (int a = 0; j->result_float && a < j->node->n_args; a++) {
        const double *margin = near_margins(j, a, at, n, room);
        if (!margin) continue;
        spread_of_way(j, c->y, n, moved);
        compute_way(j, c, a, c->x[a][0], n, own);
        spread_of_way(j, own, n, spread);
        for (int k = 0; k < n; k++) turned[k] = 1 - c->x[a][0][k];
        compute_way(j, c, a, turned, n, other);
        spread_of_way(j, other, n, c->spread);
        for (int k = 0; k < n; k++) {
            double y = c->y[0][k], off = off_at_kink(y - other[0][k], margin[k], spread[k], c->spread[k]);
            if (margin[k] <= FB_TRIAL_MARGIN) {
                double one = farthest(own, lanes, k, y), two = farthest(other, lanes, k, y);
                double far = fabs(one) > fabs(two) ? one : two;
                if (fabs(far) > FARTHER * moved[k] && fabs(far) > fabs(off)) off = far;
            }
            if (!(fabs(off) > moved[k] * (1 + 0x1p-20)) || !isfinite(off)) continue;
            int led = fb_trial_led(j->e, j->id, y);
            if (!isnan(c->y[led][k])) c->y[led][k] = y + off;
        }
    }
}

/* The margin of a truth made of others: of the nearest that turns it, or of the further one where it takes both. */
static void hand_on_margins(const job *j, const chunk *c, int64_t at, int n)
{
    if (!j->margins || !hands_on(j)) return;
    uint64_t room[2][FB_TRIAL_CHUNK];
    const double *margin[2] = {0};
    fb_op op = j->node->op;
    for (int a = 0; a < j->node->n_args; a++) margin[a] = near_margins(j, a, at, n, room[a]);
    for (int a = 0; a < j->node->n_args; a++) {
        const double *own = margin[a], *beside = margin[1 - a];
        const int64_t *other = (const int64_t *)c->raw[1 - a][0];
        for (int k = 0; own && k < n; k++) {
            bool both = (op == FB_OP_LOGICAL_AND && !other[k]) || (op == FB_OP_LOGICAL_OR && other[k]);
            double m = both ? fmax(own[k], beside ? beside[k] : INFINITY) : own[k];
            if (m < j->margins[at + k]) j->margins[at + k] = m;
        }
    }
}

static bool casts_to_whole(const job *j)
{
    return j->node->op == FB_OP_CAST && j->args[0].is_float && (j->node->dtype == FB_I32 || j->node->dtype == FB_I64);
}

/* What an integer cannot hold becomes what the device makes of it, and that need not be the same each time it is asked for
 * (C leaves it open): nothing, the least, and two other numbers, for what is shifted by the least is nothing again.
 * Lanes in which it can hold it keep that: next to a pole a kernel may have missed what is infinite in exact numbers.
 * Lanes of exact operands are those of lane 0. */
static void decide_overflows(const job *j, chunk *c, int lanes, int n)
{
    enum { LITTLE = 5, LARGE = 7 };
    double beyond = j->node->dtype == FB_I32 ? 0x1p31 : 0x1p63;
    for (int k = 0; k < n; k++) {
        bool fits = true;
        for (int l = 0; l < (j->operand_lanes > 1 ? lanes : 1); l++) fits = fits && fabs(c->x[0][l][k]) < beyond;
        if (fits) continue;
        atomic_store_explicit(j->lost, true, memory_order_relaxed);
        uint32_t draw = decision_draw(j, c->x[0][0][k]);
        for (int l = 1; l < lanes; l++) {
            bool own = j->operand_lanes > 1 && fabs(c->x[0][l][k]) < beyond;
            double other = l == LITTLE ? 1 : l == LARGE ? beyond / 2 : fb_trial_takes(l, draw) ? 0 : -beyond;
            if (!own) c->y[l][k] = other;
        }
    }
}

static void decide(const job *j, chunk *c, int64_t at, int n)
{
    switch (turns[j->node->op].how) {
    case FB_TURN_SMOOTH:
    case FB_TURN_CHOICE: break;
    case FB_TURN_KINK: decide_kinks(j, c, n); break;
    case FB_TURN_STEP: decide_steps(j, c, n); break;
    case FB_TURN_COMPARISON: decide_comparisons(j, c, at, n); break;
    case FB_TURN_WRAP: decide_remainders(j, c, n); break;
    case FB_TURN_CAST:
        if (!j->result_float && j->args[0].is_float) decide_steps(j, c, n);
        break;
    case FB_TURN_AT_POLE:
        decide_poles(j, c, n);
        if (j->either_zero[turns[j->node->op].operand]) decide_zeros(j, c, n);
        break;
    case FB_TURN_EDGE: decide_edges(j, c, n); break;
    case FB_TURN_MEET: decide_meetings(j, c, n); break;
    case FB_TURN_BY_SIDE: decide_sides(j, c, n); break;
    }
}

/* ---- what functions are off by ---- */

/* Whether a double result of a correctly rounded op is what its operands give exactly. */
static bool hit_exactly(fb_op op, double a, double b, double v)
{
    if (op == FB_OP_MUL) return fma(a, b, -v) == 0;
    if (op != FB_OP_ADD && op != FB_OP_SUB) return false;
    if (op == FB_OP_SUB) b = -b;
    double back = v - a; /* the error of the sum (Knuth) */
    return (a - (v - back)) + (b - back) == 0;
}

/* f64 has no rounding that doubles could show: its results are put off by a unit or two instead. */
static void put_off_doubles(const job *j, const chunk *c, int lane, int n, double *y)
{
    uint64_t key = fb_trial_key(j->e->s, lane, j->id, FB_DRAW_ROUND);
    for (int k = 0; k < n; k++) {
        uint64_t bits;
        if (hit_exactly(j->node->op, c->x[0][lane][k], c->x[1][lane][k], y[k])) continue;
        memcpy(&bits, &y[k], sizeof bits);
        double off = y[k] * (fb_trial_swing(bits, key) * 0x1p-52);
        if (isfinite(off)) y[k] += off;
    }
}

/* What is infinite stays so, and a zero keeps its sign: -0 and nothing are 0. */
FB_TRIAL_WIDE static void add_one_share(int n, double share, double *y)
{
    for (int k = 0; k < n; k++) {
        double off = share * y[k], moved = y[k] + off;
        y[k] = fabs(y[k]) > DBL_MAX || off == 0 ? y[k] : moved;
    }
}

FB_TRIAL_WIDE static void add_own_shares(int n, double most, uint64_t key, double *y)
{
    for (int k = 0; k < n; k++) {
        double off = most * fb_trial_swing(fb_trial_bits(y[k]), key) * y[k], moved = y[k] + off;
        y[k] = fabs(y[k]) > DBL_MAX || off == 0 ? y[k] : moved;
    }
}

/* What a choice hands on is an operand as it is: elu above 0. */
static void keep_chosen(const chunk *c, int lane, int n, const double *before, double *y)
{
    for (int k = 0; k < n; k++)
        if (before[k] == c->x[0][lane][k]) y[k] = before[k];
}

static void add_share(const job *j, const chunk *c, int lane, int n, double *y)
{
    int units = fb_bound_units(j->node->op);
    if (!units || !j->result_float) return;
    double share =
        units > 1 ? fb_trial_share(j->e->s, lane, j->id, FB_DRAW_FUNCTION) * units * fb_trial_unit(j->node->dtype) : 0;
    /* In half of the lanes each value has a share of its own: the errors of two values do not cancel in their
     * difference. */
    bool alike = fb_trial_takes(lane, (uint32_t)fb_trial_key(j->e->s, 0, j->id, FB_DRAW_FUNCTION));
    double most = units * fb_trial_unit(j->node->dtype);
    uint64_t key = fb_trial_key(j->e->s, lane, j->id, FB_DRAW_FUNCTION);
    double beside[FB_TRIAL_CHUNK], before[FB_TRIAL_CHUNK];
    bool chooses = fb_trial_chooses(j->node->op);
    if (chooses) memcpy(before, y, (size_t)n * sizeof *y);
    if (share != 0 && alike) add_one_share(n, share, y);
    if (share != 0 && !alike) add_own_shares(n, most, key, y);
    if (fb_bound_beside(j->node->op,
                        &(fb_bound_block){.at = j->node->attrs,
                                          .dtype = j->node->dtype,
                                          .n = n,
                                          .x = {c->x[0][lane], c->x[1][lane], c->x[2][lane]},
                                          .e = {y, y, y},
                                          .v = y},
                        beside)) {
        for (int k = 0; k < n && share != 0; k++) {
            if (!isfinite(beside[k]) || beside[k] == 0) continue;
            y[k] += (alike ? share : most * fb_trial_swing(fb_trial_bits(y[k]), ~key)) * beside[k];
        }
    }
    if (j->node->dtype == FB_F64) put_off_doubles(j, c, lane, n, y);
    if (chooses) keep_chosen(c, lane, n, before, y);
    /* Flushed on the way, whether the result is or not. */
    double flushed = fb_bound_flushed(j->node->op, j->node->attrs, j->node->dtype);
    if (!(flushed > 0 && flushed < FLT_MAX) ||
        !fb_trial_takes(lane, (uint32_t)fb_trial_key(j->e->s, 0, j->id, FB_DRAW_OPERAND)))
        return;
    for (int k = 0; k < n; k++) y[k] = fabs(y[k]) <= flushed ? copysign(0, y[k]) : y[k];
}

/* ---- two products in one accumulator ---- */

/* Is it a product, or a sum of one and biases? */
static bool holds_product(const fb_trial_shared *s, fb_id id, int depth)
{
    enum { DEEPEST = 6 };
    const fb_node *n = &s->g->nodes[id];
    int slot = s->slot[id];
    if (slot < 0 || s->leaf[slot] || depth > DEEPEST) return false;
    if (n->op != FB_OP_ADD) return n->op == FB_OP_MATMUL;
    return holds_product(s, n->args[0], depth + 1) || holds_product(s, n->args[1], depth + 1);
}

/* Terms of a product that are nearly equal are rounded alike, all of them, on top of what the other product left in the
 * accumulator: k of them lose up to k roundings of that, however small their own sum is. Which one comes first is the
 * kernel's choice. */
static void open_alike(job *j)
{
    const fb_trial_shared *s = j->e->s;
    fb_trial_value *v = fb_trial_at(j->e, j->id);
    if (j->node->op != FB_OP_ADD || !j->result_float) return;
    for (int a = 0; a < 2; a++) {
        j->reorders[a] = j->operand_lanes > 1 && s->g->nodes[j->node->args[a]].op == FB_OP_ADD &&
                         holds_product(s, j->node->args[a], 0);
        const fb_trial_value *x = fb_trial_at(j->e, j->node->args[a]);
        const float *alike = x->n == v->n && x->cells ? x->cells->alike : NULL;
        if (!alike) continue;
        float *to = fb_trial_alike(v);
        for (int64_t k = 0; k < v->n; k++) to[k] = fmaxf(to[k], alike[k]);
        if (j->operand_lanes > 1 && holds_product(s, j->node->args[1 - a], 0)) j->alike[a] = alike;
    }
}

/* Lane 1 is a kernel an op. */
static void add_alike(const job *j, const chunk *c, int lane, int64_t at, int n, double *y)
{
    double u = fb_trial_unit(j->node->dtype);
    uint64_t key = fb_trial_key(j->e->s, lane, j->id, FB_DRAW_SUM);
    for (int a = 0; a < 2 && lane > 1; a++) {
        for (int k = 0; j->alike[a] && k < n; k++) {
            double lost = u * (double)j->alike[a][at + k] * fabs(c->x[1 - a][0][k]);
            if (lost > 0 && isfinite(lost)) y[k] += fb_trial_swing(fb_trial_bits(c->y[0][k]), key) * lost;
        }
    }
}

/* What is added to a product, a library adds in its own order: (h · w + x) + b where the graph has (h · w + b) + x.
 * Then the sum is rounded where it is as large as x, though what the graph adds up on the way may be nothing.
 * Accumulators are f32 at least; but cuBLASLt's epilogue may round h · w + x to 16 bits before b comes,
 * which are about as large as x and the sum. */
static void add_reordered(const job *j, const chunk *c, int lane, int n, double *y)
{
    enum { ROUNDED = 5 }; /* from this lane on */
    double u = fb_trial_unit(j->node->dtype == FB_F64 ? FB_F64 : FB_F32), both = 0;
    if (lane >= ROUNDED && j->node->dtype == FB_F16) u = 0x1p-11, both = 1;
    if (lane >= ROUNDED && j->node->dtype == FB_BF16) u = 0x1p-8, both = 1;
    uint64_t key = fb_trial_key(j->e->s, lane, j->id, FB_DRAW_OPERAND);
    for (int a = 0; a < 2 && lane > 1 && lane != 3; a++) {
        for (int k = 0; j->reorders[a] && k < n; k++) {
            double lost = u * (fabs(c->x[1 - a][0][k]) + both * fabs(c->x[a][0][k]));
            if (lost > 0 && isfinite(lost)) y[k] += fb_trial_swing(fb_trial_bits(c->y[0][k]), key) * lost;
        }
    }
}

/* ---- sums computed again ---- */

/* Two numbers: its operands are told apart by their difference. */
static bool compares(const job *j)
{
    return turns[j->node->op].how == FB_TURN_COMPARISON;
}

static void open_again(job *j)
{
    const fb_trial_shared *s = j->e->s;
    fb_trial_value *v = fb_trial_at(j->e, j->id);
    if (s->again[s->slot[j->id]] && v->lanes > 1) j->taken = fb_trial_taken(v);
    j->adds = j->node->op == FB_OP_ADD || j->node->op == FB_OP_SUB;
    bool scales = j->node->op == FB_OP_MUL || j->node->op == FB_OP_DIV;
    j->relates = j->adds || scales || j->node->op == FB_OP_ATAN2;
    for (int a = 0; a < j->node->n_args && !j->f64; a++)
        j->apart[a] = fb_trial_at(j->e, j->node->args[a])->lanes > 1 && s->apart[s->slot[j->node->args[a]]];
    if (!j->f64 || (!j->relates && !compares(j))) return;
    if (j->adds && s->apart[s->slot[j->id]] && v->lanes > 1) j->summed = fb_trial_summed(v);
    for (int a = 0; a < 2; a++) {
        fb_id from = j->node->args[a];
        int slot = s->slot[from];
        const fb_trial_value *x = fb_trial_at(j->e, from);
        if (j->adds && x->n == v->n && x->cells) j->taken_of[a] = x->cells->taken;
        if (!scales && x->n == v->n && x->cells) j->summed_of[a] = x->cells->summed;
        j->apart[a] = x->lanes > 1 && s->apart[slot];
        j->wide[a] =
            j->adds && j->node->dtype == FB_F64 && x->lanes > 1 && !s->leaf[slot] && s->g->nodes[from].op == FB_OP_MUL;
    }
}

/* The products in a sum, and how large what it adds up is, for those who read it. */
static void note_sum(const job *j, const chunk *c, int64_t at, int n)
{
    for (int a = 0; a < 2 && j->summed; a++)
        for (int k = 0; k < n; k++) j->summed[at + k] = fmaxf(j->summed[at + k], (float)fabs(c->x[a][0][k]));
    for (int a = 0; a < 2 && j->taken; a++) {
        int slot = j->e->s->slot[j->node->args[a]];
        for (int k = 0; k < n && slot >= 0 && j->e->s->fused[slot]; k++)
            j->taken[at + k] = fmaxf(j->taken[at + k], (float)fabs(c->x[a][0][k]));
    }
}

/* x · 30 - amax(x · 30) is 0 in one loop of a kernel and what the product was rounded by in another, where one takes
 * the product in as it is and one does not. A lane has one of both; where they meet again, as in the logarithm of a
 * softmax, their difference is left. */
static void add_again(const job *j, const chunk *c, int lane, int64_t at, int n, double *y)
{
    double u = fb_trial_unit(j->node->dtype);
    uint64_t key = fb_trial_key(j->e->s, lane, j->id, FB_DRAW_PLACE);
    for (int a = 0; a < 2 && lane > 1 && lane != 3; a++) {
        for (int k = 0; j->taken_of[a] && k < n; k++) {
            double lost = u * (double)j->taken_of[a][at + k];
            if (isfinite(lost)) y[k] += fb_trial_swing(fb_trial_bits(c->y[0][k]), key) * lost;
        }
    }
}

/* A fused multiply-add takes a product in before it is rounded. In f32 lanes hold such products; of f64 none can, and what
 * is left of one where it meets what was made of its rounded value, as in x · y - amax(x · y), is added here. Where all
 * lanes are the same the product was exact. */
static void add_wide(const job *j, chunk *c, int lanes, int n)
{
    for (int a = 0; a < 2; a++) {
        if (!j->wide[a]) continue;
        spread_of(lanes, n, c->x[a], c->spread);
        for (int l = 2; l < lanes; l++) {
            uint64_t key = fb_trial_key(j->e->s, l, j->id, FB_DRAW_PLACE);
            for (int k = 0; k < n && l != 3; k++) {
                double lost = 0x1p-53 * fabs(c->x[a][0][k]);
                if (c->spread[k] > 0 && isfinite(lost))
                    c->y[l][k] += fb_trial_swing(fb_trial_bits(c->y[0][k]), key) * lost;
            }
        }
    }
}

/* tanh(x) - mean(tanh(x)): the kernel of the mean may have kept more of x than the one that reads it to compute its tanh
 * anew; two loops of a kernel may add the same sum up in different orders. In two lanes a sum, a product, a quotient,
 * an angle or a comparison (tanh(x) <= x) reads its operands as they may have been rounded, whatever the lane has for
 * others. */
static void read_apart(const job *j, chunk *c, int lanes, int64_t at, int n)
{
    bool multiplies = j->node->op == FB_OP_MUL;
    for (int a = 0; a < 2; a++) {
        const fb_node *from = &j->e->s->g->nodes[j->node->args[a]];
        if (!j->apart[a] || (multiplies && fb_dtype_is_half(from->dtype))) continue;
        spread_of(lanes, n, c->x[a], c->spread);
        for (int l = FB_TRIAL_READ_FIRST; l < lanes; l++) {
            uint64_t key = fb_trial_key(j->e->s, l, j->node->args[a], FB_DRAW_READ) + (uint64_t)j->id;
            double *to = c->converted[a][l];
            for (int k = 0; k < n; k++) {
                double x = c->x[a][0][k];
                double size = j->summed_of[a] ? fmax(fabs(x), (double)j->summed_of[a][at + k]) : fabs(x);
                to[k] = multiplies ? fb_trial_read_again(x, c->x[a][l][k], c->spread[k], from->dtype, key)
                                   : fb_trial_read(x, c->x[a][l][k], c->spread[k], size, key);
            }
            c->x[a][l] = to;
        }
    }
}

/* ---- chunks ---- */

static void store_lane(const job *j, int lane, int64_t at, int n, const double *y)
{
    fb_trial_value *v = fb_trial_at(j->e, j->id);
    if (j->result_float) {
        if (lane == 0 || !j->settles)
            memcpy(fb_trial_f(v, lane) + at, y, (size_t)n * sizeof *y);
        else
            fb_trial_settle(j->e, j->id, lane, at, n, y);
        return;
    }
    int64_t *to = fb_trial_i(v, lane) + at;
    for (int k = 0; k < n; k++) to[k] = fb_interp_int_of_double(j->node->dtype, y[k]);
}

static void f64_chunk(const job *j, chunk *c, int lanes, int64_t at, int n)
{
    bool differ = j->operand_lanes > 1;
    if (differ && (j->relates || compares(j))) read_apart(j, c, lanes, at, n);
    compute(j, c, 0, n, c->y[0]);
    bool near =
        differ && j->result_float && fb_trial_near(j->node->op, j->node->attrs, n, lanes, c->x[0], c->y[0], c->y);
    for (int l = 1; l < lanes; l++) {
        if (differ && !near)
            compute(j, c, l, n, c->y[l]);
        else if (!differ)
            memcpy(c->y[l], c->y[0], (size_t)n * sizeof(double));
        add_share(j, c, l, n, c->y[l]);
        add_alike(j, c, l, at, n, c->y[l]);
        add_reordered(j, c, l, n, c->y[l]);
        add_again(j, c, l, at, n, c->y[l]);
    }
    add_wide(j, c, lanes, n);
    note_sum(j, c, at, n);
    if (differ && lanes > 1) {
        decide(j, c, at, n);
        lead_across(j, c, at, n);
        hand_on_margins(j, c, at, n);
    }
    if (casts_to_whole(j)) decide_overflows(j, c, lanes, n);
    for (int l = 0; l < lanes; l++) store_lane(j, l, at, n, c->y[l]);
}

/* Whole numbers and truths that follow from what was rounded otherwise for others: some lanes read each of them as some
 * lane has it. Of a comparison one has the smallest that the left operand may be beside the largest of the right one, one
 * the other way round: what may turn, does. */
static void read_whole_apart(const job *j, chunk *c, int lanes, int n)
{
    enum { LEAST = ALL_ABOVE + 1, MOST };
    for (int a = 0; a < j->node->n_args; a++) {
        if (!compares(j) && !j->apart[a]) continue;
        const uint64_t *const *x = c->raw[a];
        uint64_t alike[FB_TRIAL_CHUNK] = {0}; /* elements that are draw alike, wherever they lie */
        for (int l = 0; l < lanes; l++)
            for (int k = 0; k < n; k++) alike[k] = fb_splitmix64(alike[k] ^ x[l][k]);
        for (int l = LEAST; l < lanes; l++) {
            int64_t *to = (int64_t *)c->converted[a][l];
            bool extreme = compares(j) && l <= MOST, smallest = (l == LEAST) == (a == 0);
            uint64_t key = fb_trial_key(j->e->s, l, j->node->args[a], FB_DRAW_READ) + (uint64_t)j->id;
            for (int k = 0; k < n; k++) {
                uint32_t drawn = fb_trial_draw(alike[k], key) % (uint32_t)lanes;
                to[k] = (int64_t)x[j->apart[a] ? (int)drawn : l][k];
                for (int other = 0; extreme && other < lanes; other++) {
                    int64_t y = (int64_t)x[other][k];
                    if (smallest ? y < to[k] : y > to[k]) to[k] = y;
                }
            }
        }
        for (int l = LEAST; l < lanes; l++) c->raw[a][l] = (const uint64_t *)c->converted[a][l];
    }
}

static void i64_chunk(const job *j, chunk *c, int lanes, int64_t at, int n)
{
    if (lanes > 1 && (j->apart[0] || j->apart[1] || j->apart[2])) read_whole_apart(j, c, lanes, n);
    fb_trial_value *v = fb_trial_at(j->e, j->id);
    fb_dtype dtype = j->node->dtype;
    for (int l = 0; l < lanes; l++) {
        int64_t *to = fb_trial_i(v, l) + at;
        const int64_t *x[3];
        for (int a = 0; a < 3; a++) x[a] = (const int64_t *)c->raw[a][l];
        fb_pointwise_i64(j->node->op, j->node->attrs, n, x[0], x[1], x[2], to);
        for (int k = 0; k < n && dtype != FB_I64; k++) to[k] = fb_int_wrap(dtype, to[k]);
    }
    if (lanes > 1) hand_on_margins(j, c, at, n);
}

static void run_part(void *ctx, int64_t first, int64_t last)
{
    const job *j = ctx;
    int lanes = fb_trial_at(j->e, j->id)->lanes;
    chunk *c = fb_calloc(1, sizeof *c);
    for (int a = 0; a < 3; a++) {
        for (int l = 0; l < FB_LANES; l++) c->raw[a][l] = c->room[2][0], c->x[a][l] = (const double *)c->room[2][0];
    }
    for (int64_t at = first; at < last; at += FB_TRIAL_CHUNK) {
        int n = last - at < FB_TRIAL_CHUNK ? (int)(last - at) : FB_TRIAL_CHUNK;
        take_chunk(j, c, lanes, at, n);
        if (j->f64)
            f64_chunk(j, c, lanes, at, n);
        else
            i64_chunk(j, c, lanes, at, n);
    }
    fb_free(c);
}

/* Results of exact operands that the dtype holds need no lanes: those of a correctly rounded op, and casts. Looks at
 * the plane of lane 0. */
static bool came_out_exactly(const job *j)
{
    const fb_trial_value *v = fb_trial_at(j->e, j->id);
    if (fb_bound_units(j->node->op) > 1) return false;
    return j->node->dtype != FB_F64 && fb_all_representable(j->node->dtype, v->n, v->cells->at.f);
}

/* The lanes of exact operands: the same result, each rounded in its own way. */
static void spread_part(void *ctx, int64_t first, int64_t last)
{
    const job *j = ctx;
    int lanes = j->e->s->lanes;
    chunk *c = fb_calloc(1, sizeof *c);
    fb_trial_value *v = fb_trial_at(j->e, j->id);
    for (int64_t at = first; at < last; at += FB_TRIAL_CHUNK) {
        int n = last - at < FB_TRIAL_CHUNK ? (int)(last - at) : FB_TRIAL_CHUNK;
        if (fb_bound_has_beside(j->node->op) || fb_trial_chooses(j->node->op) || j->node->dtype == FB_F64)
            take_chunk(j, c, 1, at, n);
        for (int a = 0; a < 3; a++) {
            for (int l = 0; l < lanes; l++) c->x[a][l] = c->x[a][0] ? c->x[a][0] : c->y[0];
        }
        for (int l = 1; l < lanes; l++) {
            memcpy(c->y[l], v->cells->at.f + at, (size_t)n * sizeof(double));
            add_share(j, c, l, n, c->y[l]);
            store_lane(j, l, at, n, c->y[l]);
        }
    }
    fb_free(c);
}

/* The lanes of exact operands that do not all fit: the others are in lane 0's place. */
static void lost_part(void *ctx, int64_t first, int64_t last)
{
    const job *j = ctx;
    int lanes = j->e->s->lanes;
    chunk *c = fb_calloc(1, sizeof *c);
    for (int a = 1; a < 3; a++) c->x[a][0] = (const double *)c->room[2][0];
    for (int64_t at = first; at < last; at += FB_TRIAL_CHUNK) {
        int n = last - at < FB_TRIAL_CHUNK ? (int)(last - at) : FB_TRIAL_CHUNK;
        take_chunk(j, c, 1, at, n);
        compute(j, c, 0, n, c->y[0]);
        for (int l = 1; l < lanes; l++) memcpy(c->y[l], c->y[0], (size_t)n * sizeof(double));
        decide_overflows(j, c, lanes, n);
        for (int l = 1; l < lanes; l++) store_lane(j, l, at, n, c->y[l]);
    }
    fb_free(c);
}

/* True where the lanes of exact operands cannot differ whatever the values. */
static bool is_exact(const job *j)
{
    const fb_node *node = j->node;
    if (!j->f64 || !j->result_float) return true;
    if (node->op != FB_OP_CAST) return fb_bound_is_exact(node->op);
    return node->dtype == FB_F64;
}

bool fb_trial_pointwise(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    fb_trial_value *v = fb_trial_at(e, id);
    job j = {.e = e, .id = id, .node = node, .result_float = fb_dtype_is_float(node->dtype)};
    j.f64 = j.result_float;
    bool sides = turns[node->op].how == FB_TURN_BY_SIDE || turns[node->op].how == FB_TURN_AT_POLE;
    j.operand_lanes = fb_trial_lanes_of(e, node);
    for (int a = 0; a < node->n_args; a++) {
        j.args[a] =
            reader_open(fb_trial_at(e, node->args[a]), fb_trial_node(e, node->args[a]), &v->box, node->shape.rank);
        j.f64 |= j.args[a].is_float;
        if (sides && has_either_zero(e->s, node->args[a])) j.either_zero[a] = true, j.operand_lanes = e->s->lanes;
    }
    atomic_bool lost = false;
    j.lost = &lost;
    bool exact = is_exact(&j) && !casts_to_whole(&j);
    /* Exact ops hand on f32 as it is, unless they choose; 16-bit values that their operands kept in f32 may be rounded
     * now. */
    j.settles = !exact || fb_dtype_is_half(node->dtype) || fb_trial_chooses(node->op);
    int lanes = exact ? j.operand_lanes : e->s->lanes;
    if (!fb_trial_open(e, id, lanes)) return false;
    int64_t grain = 16 * FB_TRIAL_CHUNK;
    open_alike(&j);
    open_again(&j);
    fb_trial_value planes[3];
    fb_cells cells[3];
    open_margins(&j, planes, cells);
    if (j.operand_lanes > 1 || lanes == 1) {
        fb_trial_for(e, v->n, grain, run_part, &j);
        return true;
    }
    v->lanes = 1;
    fb_trial_for(e, v->n, grain, run_part, &j);
    bool whole = casts_to_whole(&j);
    if (whole ? !lost : came_out_exactly(&j)) return true;
    v->lanes = lanes;
    fb_trial_for(e, v->n, grain, whole ? lost_part : spread_part, &j);
    return true;
}
