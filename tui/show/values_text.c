/* Words and figures of a tensor, for command and view alike. */
#include "tui/show/values_text.h"

#include <math.h>

void fb_show_value(fb_dtype dtype, double x, fb_str *out)
{
    if (isnan(x))
        fb_str_add(out, "NaN");
    else if (fb_dtype_is_float(dtype))
        fb_str_addf(out, "%.5g", x);
    else
        fb_str_addf(out, "%.0f", x);
}

void fb_show_values_head(const fb_values *v, fb_str *out)
{
    char shape[192];
    fb_str_addf(out, "%s  %s  %lld element%s, %s", v->node, fb_shape_format(&v->shape, v->dtype, shape),
                (long long)v->elements, v->elements == 1 ? "" : "s", v->from);
}

static const char *const names[] = {"min", "max", "mean", "deviation", "zeros", "NaN", "inf"};

int fb_show_values_statistics(void)
{
    return (int)(sizeof names / sizeof *names);
}

const char *fb_show_values_statistic(const fb_values *v, int i, fb_str *out)
{
    const double value[] = {v->min, v->max, v->mean, v->deviation};
    const int64_t number[] = {v->zeros, v->nans, v->infinities};
    if (i < 4)
        fb_show_value(i < 2 ? v->dtype : FB_F64, value[i], out);
    else
        fb_str_addf(out, "%lld", (long long)number[i - 4]);
    return names[i];
}

void fb_show_values_error(const fb_values *v, fb_str *out)
{
    char at[128];
    if (!v->compared) {
        fb_str_add(out, "no error: it is what the graph is given\n");
        return;
    }
    fb_str_addf(out,
                "error against the reference: largest %.2g, %.2g of the largest value, %.2g of what is allowed %s\n",
                v->max_abs, v->max_rel, v->bound, v->right ? "✓" : "✗");
    if (v->undecided)
        fb_str_addf(out, "undecided: %lld elements, which roundings alone may change\n", (long long)v->undecided);
    if (v->compared < v->elements)
        fb_str_addf(out, "compared: %lld of %lld elements\n", (long long)v->compared, (long long)v->elements);
    for (int i = 0; i < v->n_worst; i++) {
        const fb_value_error *w = &v->worst[i];
        fb_str_addf(out, "  %s ", fb_values_at(&v->shape, w->element, at));
        fb_str_addf(out,
                    fb_dtype_is_float(v->dtype) ? "%.9g, expected %.9g, off by %.2g\n"
                                                : "%.0f, expected %.0f, off by %.0f\n",
                    w->got, w->expected, fabs(w->got - w->expected));
    }
    if (v->wrong) fb_str_addf(out, "wrong: %s\n", v->wrong);
}

bool fb_show_values_bin(const fb_values *v, int k, double *from, double *share)
{
    int64_t most = 0;
    double step = (v->max - v->min) / FB_VALUES_BINS;
    if (!(step > 0)) return false;
    for (int i = 0; i < FB_VALUES_BINS; i++)
        if (v->bin[i] > most) most = v->bin[i];
    *from = v->min + k * step;
    *share = most ? (double)v->bin[k] / (double)most : 0;
    return true;
}
