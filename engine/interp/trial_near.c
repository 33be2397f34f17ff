/* Slow functions in lanes that lie close to the exact one: f(x + δ) from value, slope and curvature at x. A lane of f32
 * is off by some 1e-7 of x, so that what a third term would add is far below its roundings; where a lane is further
 * away, the function is called. */
#include "interp/trial_parts.h"

#include "interp/parts.h"

/* Largest |δ| (relative where the expansion is one in δ/x): the third term is below 2^-14 of a rounding of f32. */
static const double reach = 0x1p-12;

typedef struct {
    double *slope, *curve, *limit; /* curve: half the second derivative */
} expansion;

static void expand_exp(int n, const double *v, double rate, const expansion *to)
{
    for (int k = 0; k < n; k++) {
        to->slope[k] = rate * v[k];
        to->curve[k] = rate * rate / 2 * v[k];
        to->limit[k] = reach;
    }
}

static void expand_log(int n, const double *x, double rate, const expansion *to)
{
    for (int k = 0; k < n; k++) {
        to->slope[k] = rate / x[k];
        to->curve[k] = -rate / (2 * x[k] * x[k]);
        to->limit[k] = reach * x[k];
    }
}

static void expand_tanh(int n, const double *v, const expansion *to)
{
    for (int k = 0; k < n; k++) {
        to->slope[k] = 1 - v[k] * v[k];
        to->curve[k] = -v[k] * to->slope[k];
        to->limit[k] = reach;
    }
}

static void expand_sigmoid(int n, const double *v, const expansion *to)
{
    for (int k = 0; k < n; k++) {
        to->slope[k] = v[k] * (1 - v[k]);
        to->curve[k] = to->slope[k] * (0.5 - v[k]);
        to->limit[k] = reach;
    }
}

static void expand_erf(int n, const double *x, const expansion *to)
{
    for (int k = 0; k < n; k++) {
        to->slope[k] = M_2_SQRTPI * exp(-x[k] * x[k]);
        to->curve[k] = -x[k] * to->slope[k];
        to->limit[k] = reach / (1 + fabs(x[k]));
    }
}

/* (xΦ)' = Φ + xφ, (xΦ)'' = (2 − x²)φ. */
static void expand_gelu(int n, const double *x, const double *v, const expansion *to)
{
    for (int k = 0; k < n; k++) {
        double density = 0.5 * M_SQRT1_2 * M_2_SQRTPI * exp(-0.5 * x[k] * x[k]);
        to->slope[k] = (x[k] != 0 ? v[k] / x[k] : 0.5) + x[k] * density;
        to->curve[k] = 0.5 * (2 - x[k] * x[k]) * density;
        to->limit[k] = reach / (1 + fabs(x[k]));
    }
}

static void expand_waves(int n, const double *x, const double *v, bool sine, const expansion *to)
{
    for (int k = 0; k < n; k++) {
        to->slope[k] = sine ? cos(x[k]) : -sin(x[k]);
        to->curve[k] = -0.5 * v[k];
        to->limit[k] = reach;
    }
}

static bool expand(fb_op op, int n, const double *x, const double *v, const expansion *to)
{
    switch (op) {
    case FB_OP_EXP: expand_exp(n, v, 1, to); break;
    case FB_OP_EXP2: expand_exp(n, v, M_LN2, to); break;
    case FB_OP_LOG: expand_log(n, x, 1, to); break;
    case FB_OP_LOG2: expand_log(n, x, M_LOG2E, to); break;
    case FB_OP_TANH: expand_tanh(n, v, to); break;
    case FB_OP_SIGMOID: expand_sigmoid(n, v, to); break;
    case FB_OP_ERF: expand_erf(n, x, to); break;
    case FB_OP_GELU: expand_gelu(n, x, v, to); break;
    case FB_OP_SIN: expand_waves(n, x, v, true, to); break;
    case FB_OP_COS: expand_waves(n, x, v, false, to); break;
    default: return false;
    }
    return true;
}

/* Of nothing these are just that, with its sign. */
static bool keeps_zeros(fb_op op)
{
    return op == FB_OP_TANH || op == FB_OP_ERF || op == FB_OP_GELU || op == FB_OP_SIN;
}

/* Returns how many are further away; their y is not to be used. */
FB_TRIAL_WIDE static int64_t near(int n, bool zeros, const double *x0, const double *v, const double *x,
                                  const double *slope, const double *curve, const double *limit, double *y)
{
    const double kept = zeros ? 0 : NAN;
    int64_t far = 0;
    for (int k = 0; k < n; k++) {
        double d = x[k] - x0[k];
        far += !(fabs(d) <= limit[k]);
        double moved = v[k] + d * (slope[k] + d * curve[k]);
        y[k] = x[k] == kept ? x[k] : moved;
    }
    return far;
}

bool fb_trial_near(fb_op op, const fb_attrs *at, int n, int lanes, const double *const *x, const double *v,
                   double (*y)[FB_TRIAL_CHUNK])
{
    double slope[FB_TRIAL_CHUNK], curve[FB_TRIAL_CHUNK], limit[FB_TRIAL_CHUNK];
    expansion e = {slope, curve, limit};
    if (!expand(op, n, x[0], v, &e)) return false;
    for (int k = 0; k < n; k++) {
        if (!(isfinite(v[k]) && isfinite(slope[k]) && isfinite(curve[k]))) limit[k] = -1;
    }
    for (int l = 1; l < lanes; l++) {
        int64_t far = near(n, keeps_zeros(op), x[0], v, x[l], slope, curve, limit, y[l]);
        if (far > n / 4) {
            fb_pointwise_f64(op, at, n, x[l], x[l], x[l], y[l]);
            continue;
        }
        for (int k = 0; k < n && far; k++) {
            if (fabs(x[l][k] - x[0][k]) <= limit[k]) continue;
            fb_pointwise_f64(op, at, 1, &x[l][k], &x[l][k], &x[l][k], &y[l][k]);
        }
    }
    return true;
}
