/* Reads the windows of a product as those of a convolution. The views over the tensor say which of its dimensions are
 * space; where an element of a window lies follows from the access map, split into one variable for each of them.
 *
 * requires  a finished graph
 */
#include "graph/convolution.h"

#include "base/integer.h"
#include "base/mutate.h"
#include "graph/access.h"
#include "graph/storage.h"

#include <stdlib.h>

enum { MOST_PARTS = 8 };

/* The windows at hand. */
typedef struct {
    const fb_graph *g;
    fb_index_pool *pool;
    const fb_shape *shape; /* of the operand */
    fb_id x;               /* the tensor under its pad */
    bool space[FB_MAX_RANK];
    int64_t x_strides[FB_MAX_RANK];
    fb_access at;              /* in x */
    fb_ix batch[FB_MAX_RANK];  /* variables of the operand's dims in front */
    fb_ix step[MOST_PARTS];    /* of the sum: channels, and elements of the kernel */
    int64_t below[MOST_PARTS]; /* … and how many steps each of them is */
    fb_ix place[MOST_PARTS];   /* of the result */
    int64_t apart[MOST_PARTS]; /* … and how far one of each is from the next */
    int n_batch, n_steps, n_places;
} windows;

/* ---- the tensor, and which of its dims are space ---- */

/* The views from the operand down to x: any that name windows stand together over it, with slices (a dilation) between
 * them, and a pad of zeros under them. */
static bool find_tensor(windows *w, fb_id operand)
{
    const fb_graph *g = w->g;
    fb_id deepest = FB_NONE;
    for (fb_id id = operand; fb_node_class(g, id) == FB_CLASS_VIEW; id = g->nodes[id].args[0])
        if (g->nodes[id].op == FB_OP_UNFOLD) deepest = id;
    if (deepest == FB_NONE) return false;
    w->x = g->nodes[deepest].args[0];
    for (fb_id id = operand; id != w->x; id = g->nodes[id].args[0]) {
        bool together = g->nodes[id].op == FB_OP_UNFOLD || g->nodes[id].op == FB_OP_SLICE;
        for (int d = 0; d < FB_MAX_RANK && !together; d++) w->space[d] = false;
        if (g->nodes[id].op == FB_OP_UNFOLD) w->space[g->nodes[id].attrs->dim] = true;
    }
    if (g->nodes[w->x].op == FB_OP_PAD && g->nodes[w->x].attrs->value == 0) w->x = g->nodes[w->x].args[0];
    return true;
}

/* ---- variables ---- */

/* The digits that the map cuts the variable of one of the operand's dims into, by how many of it each is one, innermost
 * first; 0: it is not that simple. */
static int parts_of(const windows *w, fb_ix var, int64_t extent, int64_t below[MOST_PARTS])
{
    int n = 1;
    below[0] = 1;
    for (int d = 0; d < w->at.rank; d++) n = fb_ix_digits(w->pool, w->at.coords[d], var, below, n, MOST_PARTS);
    qsort(below, (size_t)n, sizeof *below, fb_by_int64);
    if (below[n - 1] == extent && n > 1) n--;
    for (int i = 0; i < n; i++)
        if ((i + 1 < n ? below[i + 1] : extent) % below[i]) return 0;
    return n;
}

/* Puts variables of its parts in place of `var`, innermost first. */
static int split(windows *w, fb_ix var, fb_ix to[MOST_PARTS], int64_t below[MOST_PARTS])
{
    int64_t extent = fb_ix_extent(w->pool, var);
    int n = parts_of(w, var, extent, below);
    fb_ix whole = fb_ix_const(w->pool, 0);
    for (int i = 0; i < n; i++) {
        to[i] = fb_ix_var(w->pool, "part", (i + 1 < n ? below[i + 1] : extent) / below[i]);
        whole = fb_ix_add(w->pool, whole, fb_ix_scale(w->pool, to[i], below[i]));
    }
    for (int d = 0; d < w->at.rank && n; d++) w->at.coords[d] = fb_ix_substitute(w->pool, w->at.coords[d], var, whole);
    for (int i = 0; i < w->at.n_guards && n; i++)
        w->at.guards[i].at = fb_ix_substitute(w->pool, w->at.guards[i].at, var, whole);
    return n;
}

static bool map_windows(windows *w, fb_id operand)
{
    fb_ix coords[FB_MAX_RANK];
    int rank = w->shape->rank;
    w->n_batch = rank - 2;
    for (int d = 0; d < rank; d++) {
        /* of one element there is nothing to go through */
        coords[d] = w->shape->dim[d] > 1 ? fb_ix_var(w->pool, "at", w->shape->dim[d]) : fb_ix_const(w->pool, 0);
        if (d < w->n_batch) w->batch[d] = coords[d];
    }
    fb_access_until(w->g, w->pool, operand, coords, w->x, &w->at);
    if (w->at.base != w->x) return false;
    if (w->shape->dim[rank - 2] > 1 && !(w->n_steps = split(w, coords[rank - 2], w->step, w->below))) return false;
    return w->shape->dim[rank - 1] == 1 || (w->n_places = split(w, coords[rank - 1], w->place, w->apart));
}

/* ---- what they are ---- */

static int64_t extent_of(const windows *w, fb_ix var)
{
    return fb_ix_extent(w->pool, var);
}

/* The one of `vars` that x's coordinate d goes by, taken out of *rest; FB_NONE: none. False where it is not that simple. */
static bool take(windows *w, fb_ix *rest, const fb_ix *vars, int n, int *which, int64_t *by)
{
    *which = FB_NONE;
    *by = 1;
    for (int i = 0; i < n; i++) {
        int64_t stride;
        fb_ix left;
        if (!fb_ix_uses(w->pool, *rest, vars[i])) continue;
        if (*which != FB_NONE || !fb_ix_stride(w->pool, *rest, vars[i], &stride, &left) || stride < 1) return false;
        *which = i;
        *by = stride;
        *rest = left;
    }
    return true;
}

/* Is it zeros that follow dim d of x on both sides, and not any that hide some of it? */
static bool guards(const windows *w, const fb_guard *guard, int d)
{
    return w->space[d] && guard->at == w->at.coords[d] && guard->otherwise == 0 && guard->low == 0 &&
           guard->high == w->g->nodes[w->x].shape.dim[d];
}

static bool guarded(const windows *w, int d)
{
    for (int i = 0; i < w->at.n_guards; i++)
        if (guards(w, &w->at.guards[i], d)) return true;
    return false;
}

static bool guards_space_alone(const windows *w)
{
    for (int i = 0; i < w->at.n_guards; i++) {
        bool of_space = false;
        for (int d = 0; d < w->at.rank; d++) of_space |= guards(w, &w->at.guards[i], d);
        if (!of_space) return false;
    }
    return true;
}

/* Dim d of x, of space; its part of the sum and of the result are used up. *apart: from one place to the next. */
static bool read_space(windows *w, int d, bool step_used[], bool place_used[], int64_t *first, fb_convolution_dim *out,
                       int64_t *apart)
{
    int step, place;
    int64_t dilation, stride, begin;
    fb_ix rest = w->at.coords[d];
    if (!take(w, &rest, w->step, w->n_steps, &step, &dilation) ||
        !take(w, &rest, w->place, w->n_places, &place, &stride) || !fb_ix_is_const(w->pool, rest, &begin))
        return false;
    if ((step != FB_NONE && step_used[step]) || (place != FB_NONE && place_used[place])) return false;
    if (step != FB_NONE) step_used[step] = true;
    if (place != FB_NONE) place_used[place] = true;
    *apart = place == FB_NONE ? 0 : w->apart[place];
    *out = (fb_convolution_dim){.size = w->g->nodes[w->x].shape.dim[d],
                                .kernel = step == FB_NONE ? 1 : extent_of(w, w->step[step]),
                                .places = place == FB_NONE ? 1 : extent_of(w, w->place[place]),
                                .stride = stride,
                                .dilation = dilation,
                                .x_step = w->x_strides[d],
                                .w_step = step == FB_NONE ? 0 : w->below[step]};
    if (begin > 0) { /* what comes before is read by no window */
        *first += begin * out->x_step;
        out->size -= begin;
    }
    out->before = begin < 0 ? -begin : 0;
    int64_t end = (out->places - 1) * stride + (out->kernel - 1) * dilation + 1;
    int64_t over =
        out->before + out->size - end; /* what no window reaches; of less than a step libraries know by themselves */
    out->after = over < 0 ? -over : 0;
    if (over >= stride) out->size -= over / stride * stride;
    return out->size > 0 && ((!out->before && !out->after) || guarded(w, d));
}

/* All dims of space, in the order in which the result numbers places: the outermost first. */
static bool read_all_space(windows *w, bool step_used[], int64_t *first, fb_convolution *out)
{
    bool place_used[MOST_PARTS] = {false};
    int64_t apart[FB_CONVOLUTION_SPACE], places = 1;
    for (int d = 0; d < w->at.rank; d++) {
        fb_convolution_dim dim;
        int64_t from_next;
        if (!w->space[d]) continue;
        if (out->space == FB_CONVOLUTION_SPACE || !read_space(w, d, step_used, place_used, first, &dim, &from_next))
            return false;
        int at = out->space++;
        for (; at > 0 && FB_MUTATE(61, from_next > apart[at - 1], false); at--) {
            out->dim[at] = out->dim[at - 1];
            apart[at] = apart[at - 1];
        }
        out->dim[at] = dim;
        apart[at] = from_next;
        places *= dim.places;
    }
    return places == w->shape->dim[w->shape->rank - 1];
}

/* Channels and batches: how far x steps for each variable that is none of space. */
static bool read_others(windows *w, const bool step_used[], fb_convolution *out, int64_t batch_step[FB_MAX_RANK])
{
    int channel = FB_NONE;
    for (int i = 0; i < w->n_steps; i++) {
        if (step_used[i]) continue;
        if (channel != FB_NONE) return false;
        channel = i;
    }
    out->in = channel == FB_NONE ? 1 : extent_of(w, w->step[channel]);
    out->w_in = channel == FB_NONE ? 0 : w->below[channel];
    for (int b = 0; b < w->n_batch; b++) batch_step[b] = 0;
    for (int d = 0; d < w->at.rank; d++) {
        if (w->space[d]) continue;
        fb_ix rest = w->at.coords[d];
        int64_t by, none;
        int which;
        if (channel != FB_NONE && !take(w, &rest, &w->step[channel], 1, &which, &by)) return false;
        if (channel != FB_NONE && which != FB_NONE) out->x_channel += by * w->x_strides[d];
        for (int b = 0; b < w->n_batch; b++) {
            if (w->shape->dim[b] == 1) continue;
            if (!take(w, &rest, &w->batch[b], 1, &which, &by)) return false;
            if (which != FB_NONE) batch_step[b] += by * w->x_strides[d];
        }
        if (!fb_ix_is_const(w->pool, rest, &none) || none != 0) return false;
    }
    return true;
}

/* Of the product's dims in front the last that the weights go by counts groups, and those before it batches. */
static bool read_batches(const windows *w, fb_id product, const int64_t *weights, const int64_t *step,
                         fb_convolution *out)
{
    const fb_shape *s = &w->g->nodes[product].shape, *a = &w->g->nodes[w->g->nodes[product].args[0]].shape;
    int64_t expected = 0;
    bool any = false;
    out->batch = out->groups = 1;
    if (w->shape->rank != s->rank) return false;
    for (int d = s->rank - 3; d >= 0; d--) {
        int at = d - (s->rank - a->rank);
        if (s->dim[d] != w->shape->dim[d]) return false;
        if (s->dim[d] == 1) continue;
        if (at >= 0 && a->dim[at] > 1) {
            if (out->in == 1) out->x_channel = step[d]; /* from the one channel of a group to that of the next */
            if (out->out == 1) out->w_out = weights[at];
            if (out->groups > 1 || any || step[d] != out->in * out->x_channel || weights[at] != out->out * out->w_out)
                return false;
            out->groups = s->dim[d];
        } else {
            if (any && step[d] != expected) return false;
            if (!any) out->x_batch = step[d];
            out->batch *= s->dim[d];
            expected = step[d] * s->dim[d];
            any = true;
        }
    }
    return true;
}

typedef struct {
    int64_t *step, extent;
} line;

/* Are the elements of a tensor of so many dims apart from each other, and none in front of the first? Libraries know of no
 * others. Of one element there is no step: any will do. */
static bool lie_apart(line *of, int n)
{
    int64_t reach = 0; /* of the dims that step less */
    for (int i = 0; i < n; i++) {
        int least = i;
        if (of[i].extent == 1) *of[i].step = 1;
        for (int k = i + 1; k < n; k++)
            if (of[k].extent > 1 && (of[least].extent == 1 || *of[k].step < *of[least].step)) least = k;
        const line next = of[least];
        of[least] = of[i], of[i] = next;
        if (next.extent == 1) continue;
        if (*next.step <= reach) return false;
        reach += (next.extent - 1) * *next.step;
    }
    return true;
}

static bool all_lie_apart(fb_convolution *c)
{
    line x[2 + FB_CONVOLUTION_SPACE] = {{&c->x_batch, c->batch}, {&c->x_channel, c->groups * c->in}};
    line w[2 + FB_CONVOLUTION_SPACE] = {{&c->w_out, c->groups * c->out}, {&c->w_in, c->in}};
    for (int d = 0; d < c->space; d++) {
        x[2 + d] = (line){&c->dim[d].x_step, c->dim[d].size};
        w[2 + d] = (line){&c->dim[d].w_step, c->dim[d].kernel};
    }
    return lie_apart(x, 2 + c->space) && lie_apart(w, 2 + c->space);
}

/* Steps of the weights: as they lie, or as they are laid out for a product. */
static bool weights_of(const fb_graph *g, fb_id product, int64_t strides[FB_MAX_RANK])
{
    fb_id base;
    int64_t offset;
    return fb_storage_operand(g, product, 0, strides) != FB_OPERAND_UNEVEN ||
           fb_access_strided(g, g->nodes[product].args[0], &base, &offset, strides);
}

static bool read(windows *w, fb_id product, fb_convolution *out, int64_t *first)
{
    const fb_graph *g = w->g;
    const fb_contraction c = fb_contraction_of(g, product);
    bool step_used[MOST_PARTS] = {false};
    int64_t weights[FB_MAX_RANK], step[FB_MAX_RANK];
    if (!weights_of(g, product, weights)) return false;
    int left = g->nodes[c.operand[0]].shape.rank;
    out->out = c.rows;
    out->w_out = weights[left - 2];
    if (!guards_space_alone(w) || !read_all_space(w, step_used, first, out) || !read_others(w, step_used, out, step))
        return false;
    for (int d = 0; d < out->space; d++) out->dim[d].w_step *= weights[left - 1];
    out->w_in *= weights[left - 1];
    return read_batches(w, product, weights, step, out) && all_lie_apart(out);
}

bool fb_graph_convolution(const fb_graph *g, fb_id product, fb_convolution *out, fb_id *base, int64_t *offset)
{
    const fb_contraction c = fb_contraction_of(g, product);
    windows w = {.g = g, .shape = &g->nodes[c.operand[1]].shape};
    fb_convolution call = {0};
    fb_id tensor;
    int64_t first;
    if (c.operand[0] == c.operand[1]) return false; /* one matrix, laid out once, is both sides */
    if (c.batch * c.rows * c.columns * c.depth == 0 || !find_tensor(&w, c.operand[1])) return false;
    if (!fb_access_strided(g, w.x, &tensor, &first, w.x_strides)) return false;
    w.pool = fb_index_pool_new();
    bool is = map_windows(&w, c.operand[1]) && read(&w, product, &call, &first);
    fb_index_pool_free(w.pool);
    if (!is) return false;
    *out = call;
    if (base) *base = tensor;
    if (offset) *offset = first;
    return true;
}
