/* A convolution of base/convolution.h in plain loops, from its numbers alone: what tests hold libraries, and what was read
 * out of a graph, against. */
#ifndef TESTS_UNIT_NAIVE_CONVOLUTION_H
#define TESTS_UNIT_NAIVE_CONVOLUTION_H

#include "base/convolution.h"

/* Element i of an operand, counted from where the call's begins. */
typedef double naive_element(const void *of, int64_t i);

/* Element `at` of the result as it lies; *size: of the terms that are added up. */
static inline double naive_convolution(const fb_convolution *c, naive_element *element, const void *x, const void *w,
                                       int64_t at, double *size)
{
    int64_t taps = 1, all = c->groups * c->out, row = at % all, place[FB_CONVOLUTION_SPACE];
    if (c->by_places) at /= all;
    for (int d = c->space - 1; d >= 0; d--) {
        place[d] = at % c->dim[d].places;
        at /= c->dim[d].places;
        taps *= c->dim[d].kernel;
    }
    if (!c->by_places) row = at % all, at /= all;
    int64_t batch = at, group = row / c->out;
    double sum = 0, terms = 0;
    for (int64_t t = 0; t < taps; t++) {
        int64_t rest = t, from = batch * c->x_batch + group * c->in * c->x_channel, tap = row * c->w_out;
        bool inside = true;
        for (int d = c->space - 1; d >= 0; d--) {
            const fb_convolution_dim *dim = &c->dim[d];
            int64_t k = rest % dim->kernel, i = place[d] * dim->stride + k * dim->dilation - dim->before;
            rest /= dim->kernel;
            inside = inside && i >= 0 && i < dim->size;
            from += i * dim->x_step;
            tap += k * dim->w_step;
        }
        for (int64_t i = 0; inside && i < c->in; i++) {
            double term = element(x, from + i * c->x_channel) * element(w, tap + i * c->w_in);
            sum += term;
            terms += term < 0 ? -term : term;
        }
    }
    if (size) *size = terms;
    return sum;
}

#endif
