/* Where elements go when their line is sorted: the order by a merge sort, which keeps equals as they stand.
 *
 * requires  operands' values
 * provides  ranks in whole numbers; a bound of 0 where the order is decided, else infinite
 */
#include "interp/parts.h"

#include "base/mem.h"

static bool is_less(const fb_line *l, int64_t a, int64_t b)
{
    if (!l->f) return l->i[a * l->step] < l->i[b * l->step];
    double x = l->f[a * l->step], y = l->f[b * l->step];
    return x < y || (isnan(y) && !isnan(x));
}

static bool goes_before(const fb_line *l, int64_t a, int64_t b)
{
    return l->largest ? is_less(l, b, a) : is_less(l, a, b);
}

void fb_interp_sort_line(const fb_line *line, int64_t *to, int64_t *room)
{
    int64_t *from = to, *into = room, n = line->n;
    for (int64_t k = 0; k < n; k++) to[k] = k;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t first = 0; first < n; first += 2 * width) {
            int64_t middle = first + width < n ? first + width : n, end = middle + width < n ? middle + width : n;
            for (int64_t a = first, b = middle, k = first; k < end; k++) {
                bool right = a == middle || (b < end && goes_before(line, from[b], from[a]));
                into[k] = right ? from[b++] : from[a++];
            }
        }
        int64_t *sorted = into;
        into = from;
        from = sorted;
    }
    for (int64_t k = 0; k < n && from != to; k++) to[k] = from[k];
}

/* The interval of an element in the direction of the order; NaN counts as infinite. */
static void interval(const fb_line *l, const double *e, int64_t k, double *low, double *high)
{
    double x = l->f ? l->f[k * l->step] : (double)l->i[k * l->step], wide = e[k * l->step];
    x = isnan(x) ? INFINITY : x;
    x = l->largest ? -x : x;
    *low = isfinite(wide) ? x - wide : -INFINITY;
    *high = isfinite(wide) ? x + wide : INFINITY;
}

/* Decided while no interval before an element in the order reaches its own, and its own none behind. Two that are exact
 * are decided, equal or not. */
static void bound_order(const fb_line *l, const double *e, const int64_t *order, double *bound)
{
    double all = -INFINITY, wide = -INFINITY, low, high;
    for (int64_t k = 0; k < l->n; k++) {
        int64_t at = order[k] * l->step;
        interval(l, e, order[k], &low, &high);
        bound[at] = k && (wide >= low || (e[at] != 0 && all >= low)) ? INFINITY : 0;
        all = fmax(all, high);
        if (e[at] != 0) wide = fmax(wide, high);
    }
    all = wide = INFINITY;
    for (int64_t k = l->n - 1; k >= 0; k--) {
        int64_t at = order[k] * l->step;
        interval(l, e, order[k], &low, &high);
        if (k < l->n - 1 && (wide <= high || (e[at] != 0 && all <= high))) bound[at] = INFINITY;
        all = fmin(all, low);
        if (e[at] != 0) wide = fmin(wide, low);
    }
}

bool fb_eval_rank(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    const fb_value *x = fb_operand(in, node, 0);
    bool is_float = fb_dtype_is_float(fb_operand_node(in, node, 0)->dtype);
    int64_t elements = fb_shape_elements(&node->shape), n = node->shape.dim[node->attrs->dim], inner = 1;
    for (int d = node->attrs->dim + 1; d < node->shape.rank; d++) inner *= node->shape.dim[d];
    bool bounds = in->o->bounds && x->bound;
    fb_value value = {.data = fb_buffer_new(in, id, elements)};
    if (value.data && bounds) value.bound = fb_buffer_new(in, id, elements);
    fb_buffer *room = value.data && (!bounds || value.bound) ? fb_buffer_new(in, id, 2 * n) : NULL;
    if (!room) {
        fb_interp_drop_value(in, &value);
        return false;
    }
    for (int64_t row = 0; n && row < elements / n; row++) {
        int64_t at = row / inner * n * inner + row % inner, *order = room->at->i;
        fb_line line = {.f = is_float ? x->data->at->f + at : NULL,
                        .i = is_float ? NULL : x->data->at->i + at,
                        .n = n,
                        .step = inner,
                        .largest = node->attrs->start == 1};
        fb_interp_sort_line(&line, order, order + n);
        for (int64_t k = 0; k < n; k++) value.data->at->i[at + order[k] * inner] = k;
        if (bounds) bound_order(&line, x->bound->at->f + at, order, value.bound->at->f + at);
    }
    fb_buffer_drop(in, room);
    in->values[id] = value;
    return true;
}
