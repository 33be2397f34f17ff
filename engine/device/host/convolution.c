/* Library convolutions on the host: oneDNN's, with as many of its threads as the team has, which are the team's own where
 * both are of one OpenMP. Where the library is not there or fails, in loops: slow, and the same sums.
 */
#include "base/mem.h"
#include "device/host/parts.h"

struct fb_host_convolution {
    fb_convolution call;
    const fb_host_runtime *rt;
    fb_dnnl_convolution *dnnl; /* NULL: in loops */
};

fb_host_convolution *fb_host_convolution_new(const fb_convolution *call, const fb_host_runtime *rt)
{
    fb_host_convolution *c = fb_calloc(1, sizeof *c);
    c->call = *call;
    c->rt = rt;
    c->dnnl = fb_dnnl_convolution_new(call, rt->threads);
    return c;
}

void fb_host_convolution_free(fb_host_convolution *c)
{
    if (!c) return;
    fb_dnnl_convolution_free(c->dnnl);
    fb_free(c);
}

/* ---- in loops ---- */

typedef struct {
    const fb_convolution *call;
    const float *x, *w;
    float *y;
} looping;

/* Over one window of x, with the kernel of one output channel; `at`: its place along each dimension. */
static double window(const fb_convolution *c, const float *x, const float *w, const int64_t *at)
{
    int64_t taps = 1;
    double sum = 0;
    for (int d = 0; d < c->space; d++) taps *= c->dim[d].kernel;
    for (int64_t t = 0; t < taps; t++) {
        int64_t rest = t, from = 0, tap = 0;
        bool inside = true;
        for (int d = c->space - 1; d >= 0; d--) {
            const fb_convolution_dim *dim = &c->dim[d];
            int64_t k = rest % dim->kernel, i = at[d] * dim->stride + k * dim->dilation - dim->before;
            rest /= dim->kernel;
            inside &= i >= 0 && i < dim->size;
            from += i * dim->x_step;
            tap += k * dim->w_step;
        }
        for (int64_t i = 0; inside && i < c->in; i++)
            sum += (double)x[from + i * c->x_channel] * (double)w[tap + i * c->w_in];
    }
    return sum;
}

static void loop_part(void *ctx, int index, int count)
{
    const looping *l = ctx;
    const fb_convolution *c = l->call;
    int64_t places = 1, all = c->groups * c->out, rows = c->batch * all, y_batch, y_channel,
            y_place[FB_CONVOLUTION_SPACE];
    fb_convolution_y_steps(c, &y_batch, &y_channel, y_place);
    for (int d = 0; d < c->space; d++) places *= c->dim[d].places;
    for (int64_t row = rows * index / count; row < rows * (index + 1) / count; row++) {
        int64_t n = row / all, o = row % all, g = o / c->out;
        for (int64_t p = 0; p < places; p++) {
            int64_t at[FB_CONVOLUTION_SPACE], rest = p, to = n * y_batch + o * y_channel;
            for (int d = c->space - 1; d >= 0; d--) {
                at[d] = rest % c->dim[d].places;
                rest /= c->dim[d].places;
                to += at[d] * y_place[d];
            }
            l->y[to] = (float)window(c, l->x + n * c->x_batch + g * c->in * c->x_channel, l->w + o * c->w_out, at);
        }
    }
}

void fb_host_convolution_run(fb_host_convolution *c, const float *x, const float *w, float *y)
{
    looping l = {.call = &c->call, .x = x, .w = w, .y = y};
    if (!c->dnnl || !fb_dnnl_convolution_run(c->dnnl, x, w, y)) c->rt->team(loop_part, &l);
}
