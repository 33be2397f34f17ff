/* Views and joins, materialised. What a view does to strides is this file's own on purpose: the reference must not
 * inherit a mistake of graph/access. */
#include "interp/parts.h"

#include "graph/element.h"

#include <string.h>

/* Dimensions of a copy, innermost first, with those merged that one step serves on both sides. */
typedef struct {
    int rank;
    int64_t dim[FB_MAX_RANK], to[FB_MAX_RANK], from[FB_MAX_RANK];
} copy_loops;

static copy_loops merge_loops(const fb_shape *shape, const int64_t *to, const int64_t *from)
{
    copy_loops l = {0};
    for (int d = shape->rank - 1; d >= 0; d--) {
        if (shape->dim[d] == 1) continue;
        int last = l.rank - 1;
        if (l.rank && to[d] == l.to[last] * l.dim[last] && from[d] == l.from[last] * l.dim[last]) {
            l.dim[last] *= shape->dim[d];
            continue;
        }
        l.dim[l.rank] = shape->dim[d], l.to[l.rank] = to[d], l.from[l.rank++] = from[d];
    }
    if (!l.rank) l.dim[0] = 1, l.to[0] = 1, l.from[0] = 1, l.rank = 1;
    return l;
}

static void copy_run(uint64_t *to, const uint64_t *from, int64_t n, int64_t to_step, int64_t from_step)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)n * sizeof *to);
    } else if (to_step == 1) {
        for (int64_t k = 0; k < n; k++) to[k] = from[k * from_step];
    } else {
        for (int64_t k = 0; k < n; k++) to[k * to_step] = from[k * from_step];
    }
}

/* What is turned round goes in pieces of whole cache lines on both sides. From the innermost dim and the next. */
static void copy_turned(uint64_t *to, const uint64_t *from, const copy_loops *l)
{
    enum { LINES = 16 };
    for (int64_t first = 0; first < l->dim[1]; first += LINES) {
        int64_t n = l->dim[1] - first < LINES ? l->dim[1] - first : LINES;
        for (int64_t k = 0; k < l->dim[0]; k++) {
            uint64_t *t = to + k * l->to[0] + first * l->to[1];
            const uint64_t *f = from + k * l->from[0] + first;
            for (int64_t i = 0; i < n; i++) t[i * l->to[1]] = f[i];
        }
    }
}

/* Is there a dimension beside the innermost in which what is read lies side by side? It comes next then. */
static bool turns(copy_loops *l)
{
    enum { LONG = 64 };
    if (l->from[0] == 1 || l->dim[0] < LONG) return false;
    for (int d = 1; d < l->rank; d++) {
        if (l->from[d] != 1 || l->dim[d] < LONG) continue;
        int64_t dim = l->dim[d], step = l->to[d];
        l->dim[d] = l->dim[1], l->to[d] = l->to[1], l->from[d] = l->from[1];
        l->dim[1] = dim, l->to[1] = step, l->from[1] = 1;
        return true;
    }
    return false;
}

void fb_interp_copy_between(uint64_t *to, const uint64_t *from, const fb_shape *shape, const int64_t *to_steps,
                            const int64_t *from_steps)
{
    if (fb_shape_elements(shape) == 0) return;
    copy_loops l = merge_loops(shape, to_steps, from_steps);
    int64_t index[FB_MAX_RANK] = {0};
    bool turned = turns(&l);
    for (;;) {
        if (turned)
            copy_turned(to, from, &l);
        else
            copy_run(to, from, l.dim[0], l.to[0], l.from[0]);
        int d = turned ? 2 : 1;
        for (; d < l.rank; d++) {
            to += l.to[d], from += l.from[d];
            if (++index[d] < l.dim[d]) break;
            to -= l.to[d] * l.dim[d], from -= l.from[d] * l.dim[d];
            index[d] = 0;
        }
        if (d >= l.rank) return;
    }
}

void fb_interp_copy_strided(uint64_t *to, const uint64_t *from, const fb_shape *shape, const int64_t *steps)
{
    int64_t natural[FB_MAX_RANK];
    fb_shape_strides(shape, natural);
    fb_interp_copy_between(to, from, shape, natural, steps);
}

/* Where a view's element lies in its operand: offset + Σ index[d] · step[d]. */
typedef struct {
    int64_t offset, steps[FB_MAX_RANK];
} view_map;

static view_map map_view(const fb_node *node, const fb_shape *from)
{
    const fb_attrs *at = node->attrs;
    int64_t natural[FB_MAX_RANK] = {0};
    fb_shape_strides(from, natural);
    view_map m = {0};
    memcpy(m.steps, natural, sizeof m.steps);
    switch (node->op) {
    case FB_OP_PERMUTE:
        for (int d = 0; d < node->shape.rank; d++) m.steps[d] = natural[at->axes[d]];
        break;
    case FB_OP_SLICE:
        m.offset = at->start * natural[at->dim];
        m.steps[at->dim] = at->step * natural[at->dim];
        break;
    case FB_OP_FLIP:
        for (int a = 0; a < at->n_axes; a++) {
            int d = at->axes[a];
            m.offset += (from->dim[d] - 1) * natural[d];
            m.steps[d] = -natural[d];
        }
        break;
    case FB_OP_EXPAND: fb_shape_expanded_strides(from, node->shape.rank, m.steps); break;
    case FB_OP_UNFOLD:
        m.steps[at->dim] = at->step * natural[at->dim];
        m.steps[from->rank] = natural[at->dim];
        break;
    default: FB_ASSERT(!"a view op without a map");
    }
    return m;
}

static fb_buffer *view_buffer(fb_interp *in, fb_id id, const fb_buffer *from, const view_map *m)
{
    const fb_shape *shape = &in->g->nodes[id].shape;
    fb_buffer *to = fb_buffer_new(in, id, fb_shape_elements(shape));
    if (to && fb_shape_elements(shape)) fb_interp_copy_strided(to->at->raw, from->at->raw + m->offset, shape, m->steps);
    return to;
}

/* Puts the operand in the middle of a tensor that holds `fill` everywhere. */
static fb_buffer *pad_buffer(fb_interp *in, fb_id id, const fb_buffer *from, uint64_t fill)
{
    const fb_node *node = &in->g->nodes[id];
    const fb_shape *inner = &fb_operand_node(in, node, 0)->shape;
    int64_t n = fb_shape_elements(&node->shape), to_steps[FB_MAX_RANK], from_steps[FB_MAX_RANK], offset = 0;
    fb_buffer *to = fb_buffer_new(in, id, n);
    if (!to) return NULL;
    for (int64_t k = 0; k < n; k++) to->at->raw[k] = fill;
    fb_shape_strides(&node->shape, to_steps);
    fb_shape_strides(inner, from_steps);
    for (int d = 0; d < inner->rank; d++) offset += node->attrs->before[d] * to_steps[d];
    if (from && fb_shape_elements(inner))
        fb_interp_copy_between(to->at->raw + offset, from->at->raw, inner, to_steps, from_steps);
    return to;
}

/* The pad value as the dtype holds it. */
uint64_t fb_pad_cell(const fb_node *node)
{
    union {
        double f;
        int64_t i;
        uint64_t raw;
    } cell = {.f = node->attrs->value};
    if (fb_dtype_is_float(node->dtype))
        fb_elements_round(node->dtype, 1, &cell.f, &cell.f);
    else
        cell.i = (int64_t)fb_dtype_round(node->dtype, node->attrs->value);
    return cell.raw;
}

static bool finish(fb_interp *in, fb_id id, fb_value value, bool wants_bound)
{
    if (value.data && (value.bound || !wants_bound)) {
        in->values[id] = value;
        return true;
    }
    fb_interp_drop_value(in, &value);
    return false;
}

bool fb_eval_view(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    const fb_value *x = fb_operand(in, node, 0);
    fb_value value = {0};
    if (node->op == FB_OP_VIEW) {
        value = fb_interp_keep_value(x);
    } else if (node->op == FB_OP_PAD) {
        value.data = pad_buffer(in, id, x->data, fb_pad_cell(node));
        if (value.data && x->bound) value.bound = pad_buffer(in, id, x->bound, 0);
    } else {
        view_map m = map_view(node, &fb_operand_node(in, node, 0)->shape);
        value.data = view_buffer(in, id, x->data, &m);
        if (value.data && x->bound) value.bound = view_buffer(in, id, x->bound, &m);
    }
    return finish(in, id, value, x->bound != NULL);
}

/* Both joins are the same copy: per index before `dim`, one run of cells of each operand after the other. */
bool fb_eval_join(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    int dim = node->attrs->dim;
    int64_t outer = 1, n = fb_shape_elements(&node->shape);
    for (int d = 0; d < dim; d++) outer *= node->shape.dim[d];
    int64_t row = outer ? n / outer : 0;
    bool wants_bound = false;
    for (int a = 0; a < node->n_args; a++) wants_bound |= fb_operand(in, node, a)->bound != NULL;

    fb_value value = {.data = fb_buffer_new(in, id, n)};
    if (value.data && wants_bound) value.bound = fb_buffer_zeroed(in, id, n);
    int64_t at = 0;
    for (int a = 0; a < node->n_args && value.data && (value.bound || !wants_bound); a++) {
        const fb_value *x = fb_operand(in, node, a);
        int64_t run = outer ? fb_shape_elements(&fb_operand_node(in, node, a)->shape) / outer : 0;
        for (int64_t k = 0; k < outer && run; k++) {
            memcpy(value.data->at->raw + k * row + at, x->data->at->raw + k * run, (size_t)run * 8);
            if (x->bound) memcpy(value.bound->at->raw + k * row + at, x->bound->at->raw + k * run, (size_t)run * 8);
        }
        at += run;
    }
    return finish(in, id, value, wants_bound);
}
