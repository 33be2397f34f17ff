/* A convolution as libraries know it, in numbers: what graph/convolution.h finds in a graph, what a program calls for, and
 * what oneDNN and cuDNN are asked for.
 *
 *     y[n, g·out + o, p…] = Σ over c and k… of w[g·out + o, c, k…] · x[n, g·in + c, stride·p + dilation·k − before …]
 *
 * x is 0 outside of its sizes. The result lies densely, channel by channel or place by place. Units: elements. */
#ifndef FB_BASE_CONVOLUTION_H
#define FB_BASE_CONVOLUTION_H

#include <stdbool.h>
#include <stdint.h>

enum { FB_CONVOLUTION_SPACE = 3 };

/* Along one dimension of space. `before` and `after` are what libraries call padding: never less than 0, and such that one
 * place more would be one too many. */
typedef struct {
    int64_t size, kernel, places;
    int64_t stride, dilation;
    int64_t before, after;
    int64_t x_step, w_step; /* from one element to the next */
} fb_convolution_dim;

typedef struct {
    int space;                      /* dimensions; 0: no convolution */
    int64_t batch, groups, in, out; /* in, out: channels of one group */
    int64_t x_batch, x_channel;     /* steps of x from one to the next; groups follow each other */
    int64_t w_out, w_in;            /* steps of the weights */
    bool by_places;                 /* all channels of a place of y lie side by side, else all places of a channel */
    fb_convolution_dim dim[FB_CONVOLUTION_SPACE];
} fb_convolution;

/* Elements of x, of the weights and of y that a call has to do with. */
static inline int64_t fb_convolution_x(const fb_convolution *c)
{
    int64_t n = c->batch * c->groups * c->in;
    for (int d = 0; d < c->space; d++) n *= c->dim[d].size;
    return n;
}
static inline int64_t fb_convolution_w(const fb_convolution *c)
{
    int64_t n = c->groups * c->out * c->in;
    for (int d = 0; d < c->space; d++) n *= c->dim[d].kernel;
    return n;
}
static inline int64_t fb_convolution_y(const fb_convolution *c)
{
    int64_t n = c->batch * c->groups * c->out;
    for (int d = 0; d < c->space; d++) n *= c->dim[d].places;
    return n;
}
/* Steps of y: from one picture, channel and place along each dimension to the next. */
static inline void fb_convolution_y_steps(const fb_convolution *c, int64_t *batch, int64_t *channel,
                                          int64_t place[FB_CONVOLUTION_SPACE])
{
    int64_t channels = c->groups * c->out, below = c->by_places ? channels : 1;
    for (int d = c->space - 1; d >= 0; d--) {
        place[d] = below;
        below *= c->dim[d].places;
    }
    *channel = c->by_places ? 1 : below;
    *batch = c->by_places ? below : channels * below;
}
static inline double fb_convolution_flops(const fb_convolution *c)
{
    double n = 2 * (double)fb_convolution_y(c) * (double)c->in;
    for (int d = 0; d < c->space; d++) n *= (double)c->dim[d].kernel;
    return n;
}

#endif
