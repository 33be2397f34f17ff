/* Sources, views and joins: values that move, lane by lane. */
#include "interp/trial_parts.h"

#include "base/mem.h"
#include "graph/element.h"
#include "interp/parts.h"

/* ---- copies ---- */

static fb_shape shape_of_box(const fb_box *b, int rank)
{
    fb_shape s = {.rank = rank};
    for (int d = 0; d < rank; d++) s.dim[d] = b->hi[d] - b->lo[d];
    return s;
}

void fb_trial_take(uint64_t *to, const uint64_t *plane, const fb_box *of, const fb_box *box, int rank)
{
    int64_t steps[FB_MAX_RANK];
    fb_shape shape = shape_of_box(box, rank);
    fb_box_steps(of, rank, steps);
    for (int d = 0; d < rank; d++) plane += (box->lo[d] - of->lo[d]) * steps[d];
    fb_interp_copy_strided(to, plane, &shape, steps);
}

/* What is moved, and where to: the first member of what says how. */
typedef struct {
    fb_trial_value *v;
    const fb_trial_value *x;
} moving;

enum { LARGE = 1 << 14 }; /* cells that are worth a thread */

/* Lanes of a large value are moved beside each other. */
static void each_lane(const fb_trial_eval *e, const fb_trial_value *v,
                      void (*fn)(void *ctx, int64_t first, int64_t last), void *ctx)
{
    fb_trial_for(e, v->lanes, v->n > LARGE ? 1 : v->lanes, fn, ctx);
}

/* A box of cells in steps of its own on both sides. */
typedef struct {
    moving of;
    int64_t to_at, from_at;
    const fb_shape *shape;
    const int64_t *to_steps, *from_steps;
} mover;

/* Its first dimensions, `outer` places in all, go beside each other: what all lanes agree in is one lane. */
typedef struct {
    const mover *m;
    int split;
    int64_t outer;
} parts;

static void move_parts(void *ctx, int64_t first, int64_t last)
{
    const parts *p = ctx;
    const mover *m = p->m;
    fb_shape inner = {.rank = m->shape->rank - p->split};
    memcpy(inner.dim, m->shape->dim + p->split, (size_t)inner.rank * sizeof *inner.dim);
    for (int64_t part = first; part < last; part++) {
        int64_t lane = part / p->outer, rest = part % p->outer, to_at = m->to_at, from_at = m->from_at;
        for (int d = p->split - 1; d >= 0; d--) {
            to_at += rest % m->shape->dim[d] * m->to_steps[d];
            from_at += rest % m->shape->dim[d] * m->from_steps[d];
            rest /= m->shape->dim[d];
        }
        fb_interp_copy_between(m->of.v->cells->at.raw + lane * m->of.v->n + to_at,
                               fb_trial_raw(m->of.x, (int)lane) + from_at, &inner, m->to_steps + p->split,
                               m->from_steps + p->split);
    }
}

static void move(const fb_trial_eval *e, const mover *m)
{
    enum { PARTS = 64 };
    int64_t cells = fb_shape_elements(m->shape);
    parts p = {m, 0, 1};
    if (cells == 0) return;
    while (p.split + 1 < m->shape->rank && p.outer < PARTS && cells / p.outer > LARGE)
        p.outer *= m->shape->dim[p.split++];
    fb_trial_for(e, p.outer * m->of.v->lanes, cells / p.outer > LARGE ? 1 : LARGE * p.outer / cells, move_parts, &p);
}

/* All lanes, and margins as values do: one lane of either. An operand that has none has a view that has none. */
static void with_margins(const fb_trial_eval *e, moving *m, void (*fn)(const fb_trial_eval *e, moving *m))
{
    const moving values = *m;
    fn(e, m);
    if (!m->x->cells->margins) return;
    fb_cells to_cells, from_cells;
    fb_trial_margins(values.v);
    fb_trial_value to = fb_trial_margins_of(values.v, &to_cells), from = fb_trial_margins_of(values.x, &from_cells);
    *m = (moving){&to, &from};
    fn(e, m);
    *m = values;
}

static void move_all(const fb_trial_eval *e, moving *m)
{
    move(e, (const mover *)(const void *)m);
}

/* ---- leaves ---- */

/* Elements from … from + n - 1 of a leaf, as cells. */
static bool leaf_run(fb_trial_eval *e, fb_id id, int64_t from, int64_t n, uint64_t *to)
{
    enum { PART = 1024 };
    const fb_node *node = fb_trial_node(e, id);
    const fb_trial_options *o = e->s->o;
    int size = fb_dtype_size(node->dtype);
    const char *given = e->s->given[e->s->slot[id]];
    uint64_t room[PART];
    for (int64_t done = 0; done < n; done += PART) {
        int64_t count = n - done < PART ? n - done : PART;
        const void *bytes = given ? given + (from + done) * size : (const char *)room;
        fb_error err = {0};
        if (!given &&
            !fb_interp_fill_source(e->s->g, id, o->seed, o->files, o->files_ctx, from + done, count, room, &err))
            return fb_trial_fail(e, err.kind, "%s", err.text);
        if (fb_dtype_is_float(node->dtype))
            fb_elements_load(node->dtype, count, bytes, (double *)(to + done));
        else
            fb_elements_load_int(node->dtype, count, bytes, (int64_t *)(to + done));
    }
    return true;
}

typedef struct {
    fb_trial_eval *e;
    fb_id id;
    const fb_box *box;
    int rank;
    int64_t steps[FB_MAX_RANK], box_steps[FB_MAX_RANK];
    uint64_t *room;
} leaf_reader;

enum { LEAF_SPAN = 8192 };

/* Dimensions d and on of the box, whose first element is `from`. What lies close together is read in one piece and
 * picked from. */
static bool leaf_part(const leaf_reader *r, int d, int64_t from, uint64_t *to)
{
    int64_t span = 1, cells = 1;
    fb_shape shape = {.rank = r->rank - d};
    for (int k = d; k < r->rank; k++) {
        int64_t extent = shape.dim[k - d] = r->box->hi[k] - r->box->lo[k];
        span += (extent - 1) * r->steps[k];
        cells *= extent;
    }
    if (span == cells) return leaf_run(r->e, r->id, from, cells, to);
    if (span <= LEAF_SPAN && span <= 16 * cells) {
        if (!leaf_run(r->e, r->id, from, span, r->room)) return false;
        fb_interp_copy_strided(to, r->room, &shape, r->steps + d);
        return true;
    }
    for (int64_t i = 0; i < shape.dim[0]; i++) {
        if (!leaf_part(r, d + 1, from + i * r->steps[d], to + i * r->box_steps[d])) return false;
    }
    return true;
}

bool fb_trial_leaf(fb_trial_eval *e, fb_id id, const fb_box *box, uint64_t *to)
{
    const fb_shape *shape = &fb_trial_node(e, id)->shape;
    fb_box whole = fb_box_whole(shape);
    leaf_reader r = {.e = e, .id = id, .box = box, .rank = shape->rank};
    if (fb_box_cells(box, shape->rank) == 0) return true;
    fb_box_steps(&whole, shape->rank, r.steps);
    fb_box_steps(box, shape->rank, r.box_steps);
    int64_t first = 0;
    for (int d = 0; d < r.rank; d++) first += box->lo[d] * r.steps[d];
    r.room = fb_alloc(LEAF_SPAN * sizeof *r.room);
    bool ok = leaf_part(&r, 0, first, to);
    fb_free(r.room);
    return ok;
}

bool fb_trial_source(fb_trial_eval *e, fb_id id)
{
    if (!fb_trial_open(e, id, 1)) return false;
    fb_trial_value *v = fb_trial_at(e, id);
    return fb_trial_leaf(e, id, &v->box, v->cells->at.raw);
}

/* ---- views ---- */

typedef struct {
    const fb_trial_value *x;
    const fb_shape *shape; /* of the operand */
    int64_t unit;          /* cells that lie together in tensor and box alike: those after dimension `d` */
    int d;
    int64_t steps[FB_MAX_RANK], box_steps[FB_MAX_RANK];
} flat_reader;

static flat_reader flat_open(const fb_trial_value *x, const fb_shape *shape)
{
    flat_reader r = {.x = x, .shape = shape, .unit = 1, .d = shape->rank - 1};
    fb_box whole = fb_box_whole(shape);
    fb_box_steps(&whole, shape->rank, r.steps);
    fb_box_steps(&x->box, shape->rank, r.box_steps);
    while (r.d > 0 && x->box.lo[r.d] == 0 && x->box.hi[r.d] == shape->dim[r.d]) r.unit *= shape->dim[r.d--];
    return r;
}

/* n elements of the tensor from element `from` on, which the box holds. */
static void flat_take(const flat_reader *r, const uint64_t *plane, int64_t from, int64_t n, uint64_t *to)
{
    if (r->shape->rank == 0) {
        *to = *plane;
        return;
    }
    while (n > 0) {
        int64_t at = 0, last = from / r->unit % r->shape->dim[r->d];
        int64_t run = (r->x->box.hi[r->d] - last) * r->unit - from % r->unit;
        if (run > n) run = n;
        for (int d = 0; d < r->shape->rank; d++)
            at += (from / r->steps[d] % r->shape->dim[d] - r->x->box.lo[d]) * r->box_steps[d];
        memcpy(to, plane + at, (size_t)run * sizeof *to);
        to += run, from += run, n -= run;
    }
}

/* A reshape of a box is the same cells in the same order, where its operand's holds no others. */
static bool same_cells(fb_trial_eval *e, fb_id id, const fb_trial_value *x, int rank)
{
    fb_trial_value *v = fb_trial_at(e, id);
    fb_box needed;
    v->n = fb_box_cells(&v->box, fb_trial_node(e, id)->shape.rank);
    if (v->n != x->n || !fb_trial_needs(e->s->g, fb_trial_node(e, id), 0, &v->box, &needed)) return false;
    for (int d = 0; d < rank; d++)
        if (needed.lo[d] != x->box.lo[d] || needed.hi[d] != x->box.hi[d]) return false;
    v->lanes = x->lanes;
    v->cells = x->cells;
    v->cells->refs++;
    return true;
}

typedef struct {
    moving of;
    const flat_reader *own, *from;
    const fb_shape *shape;
} reshaper;

static void reshape_lanes(void *ctx, int64_t first, int64_t last)
{
    const reshaper *o = ctx;
    const fb_trial_value *v = o->of.v;
    const flat_reader *own = o->own;
    /* Runs of the result: along dimension own->d and what is after it. */
    int64_t run = o->shape->rank ? (v->box.hi[own->d] - v->box.lo[own->d]) * own->unit : 1;
    for (int64_t l = first; l < last; l++) {
        uint64_t *to = v->cells->at.raw + l * v->n;
        for (int64_t at = 0; at < v->n; at += run) {
            int64_t element = 0, rest = at;
            for (int d = o->shape->rank - 1; d >= 0; d--) {
                int64_t extent = v->box.hi[d] - v->box.lo[d];
                element += (v->box.lo[d] + rest % extent) * own->steps[d];
                rest /= extent;
            }
            flat_take(o->from, fb_trial_raw(o->of.x, (int)l), element, run, to + at);
        }
    }
}

static void reshape_all(const fb_trial_eval *e, moving *m)
{
    each_lane(e, m->v, reshape_lanes, m);
}

static bool reshape(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    const fb_trial_value *x = fb_trial_at(e, node->args[0]);
    const fb_shape *from = &fb_trial_node(e, node->args[0])->shape, *shape = &node->shape;
    if (same_cells(e, id, x, from->rank)) return true;
    if (!fb_trial_open(e, id, x->lanes)) return false;
    fb_trial_value *v = fb_trial_at(e, id);
    flat_reader r = flat_open(x, from), own = flat_open(v, shape);
    reshaper o = {{v, x}, &own, &r, shape};
    with_margins(e, &o.of, reshape_all);
    return true;
}

bool fb_trial_steps(fb_op op)
{
    return op == FB_OP_PERMUTE || op == FB_OP_SLICE || op == FB_OP_FLIP || op == FB_OP_EXPAND || op == FB_OP_UNFOLD;
}

/* From where the operand's first element lies, and the steps of its dimensions, to those of its view. This file's own on
 * purpose, beside interp/view.c's: the plain interpreter is what trials are held against. */
static int64_t map_view(const fb_node *node, const fb_shape *from, const int64_t *inner, int64_t *steps)
{
    const fb_attrs *at = node->attrs;
    int64_t offset = 0;
    memset(steps, 0, FB_MAX_RANK * sizeof *steps);
    for (int d = node->shape.rank - 1, s = from->rank - 1; d >= 0 && node->op != FB_OP_UNFOLD; d--, s--) {
        int k = node->op == FB_OP_PERMUTE ? at->axes[d] : s;
        if (k < 0 || (node->op == FB_OP_EXPAND && from->dim[k] == 1)) continue;
        steps[d] = inner[k];
    }
    switch (node->op) {
    case FB_OP_SLICE:
        offset = at->start * inner[at->dim];
        steps[at->dim] *= at->step;
        break;
    case FB_OP_FLIP:
        for (int a = 0; a < at->n_axes; a++) {
            offset += (from->dim[at->axes[a]] - 1) * inner[at->axes[a]];
            steps[at->axes[a]] = -inner[at->axes[a]];
        }
        break;
    case FB_OP_UNFOLD:
        memcpy(steps, inner, (size_t)from->rank * sizeof *steps);
        steps[from->rank] = inner[at->dim];
        steps[at->dim] *= at->step;
        break;
    default: break;
    }
    return offset;
}

/* The value that a view reads, past views that are not there, and how: the place of its element 0 … in that value's
 * cells, and the steps of its dimensions. */
static const fb_trial_value *read_through(fb_trial_eval *e, const fb_node *node, int64_t *offset, int64_t *steps)
{
    int slot = e->s->slot[node->args[0]];
    const fb_node *from = fb_trial_node(e, node->args[0]);
    const fb_trial_value *x = &e->values[slot];
    int64_t inner[FB_MAX_RANK] = {0};
    if (fb_trial_passes(e->s, slot)) {
        x = read_through(e, from, offset, inner);
    } else {
        *offset = 0;
        fb_box_steps(&x->box, from->shape.rank, inner);
        for (int d = 0; d < from->shape.rank; d++) *offset -= x->box.lo[d] * inner[d];
    }
    *offset += map_view(node, &from->shape, inner, steps);
    return x;
}

typedef struct {
    const fb_trial_value *v;
    uint64_t fill;
} pad_fill;

static void fill_lanes(void *ctx, int64_t first, int64_t last)
{
    const pad_fill *f = ctx;
    for (int64_t k = first * f->v->n; k < last * f->v->n; k++) f->v->cells->at.raw[k] = f->fill;
}

static bool pad(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    const fb_trial_value *x = fb_trial_at(e, node->args[0]);
    fb_trial_value *v = fb_trial_at(e, id);
    uint64_t fill = fb_pad_cell(node);
    fb_box inner;
    bool any = fb_trial_needs(e->s->g, node, 0, &v->box, &inner);
    if (!fb_trial_open(e, id, any ? x->lanes : 1)) return false;
    pad_fill f = {v, fill};
    each_lane(e, v, fill_lanes, &f);
    if (!any) return true;
    int rank = node->shape.rank;
    int64_t to_steps[FB_MAX_RANK], from_steps[FB_MAX_RANK], to_at = 0, from_at = 0;
    fb_shape shape = shape_of_box(&inner, rank);
    fb_box_steps(&v->box, rank, to_steps);
    fb_box_steps(&x->box, rank, from_steps);
    for (int d = 0; d < rank; d++) {
        to_at += (inner.lo[d] + node->attrs->before[d] - v->box.lo[d]) * to_steps[d];
        from_at += (inner.lo[d] - x->box.lo[d]) * from_steps[d];
    }
    mover m = {{v, x}, to_at, from_at, &shape, to_steps, from_steps};
    move(e, &m);
    return true;
}

bool fb_trial_view(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    if (node->op == FB_OP_VIEW) return reshape(e, id);
    if (node->op == FB_OP_PAD) return pad(e, id);
    int64_t to_steps[FB_MAX_RANK], steps[FB_MAX_RANK], at;
    const fb_trial_value *x = read_through(e, node, &at, steps);
    if (!fb_trial_open(e, id, x->lanes)) return false;
    fb_trial_value *v = fb_trial_at(e, id);
    fb_shape shape = shape_of_box(&v->box, node->shape.rank);
    fb_box_steps(&v->box, node->shape.rank, to_steps);
    for (int d = 0; d < node->shape.rank; d++) at += v->box.lo[d] * steps[d];
    mover m = {{v, x}, 0, at, &shape, to_steps, steps};
    with_margins(e, &m.of, move_all);
    return true;
}

/* ---- joins ---- */

/* [y, y] - mean([y, y]), of a product y: a loop that makes the first half of the join may round y otherwise than the one
 * that makes the second, or read it as it was stored. */
static void read_part_apart(const fb_trial_eval *e, fb_id id, int a, const mover *m)
{
    const fb_trial_value *v = m->of.v;
    int64_t n = fb_shape_elements(m->shape);
    for (int64_t k = 0; k < n; k++) {
        int64_t at = m->to_at, rest = k;
        for (int d = m->shape->rank - 1; d >= 0; d--) {
            at += rest % m->shape->dim[d] * m->to_steps[d];
            rest /= m->shape->dim[d];
        }
        double x = fb_trial_f(v, 0)[at], spread = 0;
        for (int l = 1; l < v->lanes; l++) spread = fmax(spread, fabs(fb_trial_f(v, l)[at] - x));
        for (int l = FB_TRIAL_READ_FIRST; l < v->lanes && spread > 0; l++) {
            uint64_t key = fb_trial_key(e->s, l, id, FB_DRAW_READ) + (uint64_t)a;
            double *to = fb_trial_f(v, l) + at;
            *to = fb_trial_read(x, *to, spread, fabs(x), key);
        }
    }
}

bool fb_trial_join(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    if (!fb_trial_open(e, id, fb_trial_lanes_of(e, node))) return false;
    fb_trial_value *v = fb_trial_at(e, id);
    int dim = node->attrs->dim, rank = node->shape.rank;
    bool stack = node->op == FB_OP_STACK;
    int64_t to_steps[FB_MAX_RANK], before = 0;
    fb_box_steps(&v->box, rank, to_steps);
    for (int a = 0; a < node->n_args; a++) {
        fb_box box;
        const fb_trial_value *x = fb_trial_at(e, node->args[a]);
        int64_t extent = stack ? 1 : fb_trial_node(e, node->args[a])->shape.dim[dim], first = before;
        before += extent;
        if (!fb_trial_needs(e->s->g, node, a, &v->box, &box) || !x->lanes) continue;
        int of = stack ? rank - 1 : rank;
        int64_t own_steps[FB_MAX_RANK], from_steps[FB_MAX_RANK], to_at = 0, from_at = 0;
        fb_shape shape = shape_of_box(&box, of);
        fb_box_steps(&x->box, of, from_steps);
        for (int d = 0, r = 0; r < rank; r++) {
            if (stack && r == dim) {
                to_at += (first - v->box.lo[r]) * to_steps[r];
                continue;
            }
            own_steps[d] = to_steps[r];
            to_at += (box.lo[d] + (r == dim ? first : 0) - v->box.lo[r]) * to_steps[r];
            from_at += (box.lo[d] - x->box.lo[d]) * from_steps[d];
            d++;
        }
        mover m = {{v, x}, to_at, from_at, &shape, own_steps, from_steps};
        move(e, &m);
        if (e->s->apart[e->s->slot[node->args[a]]] && x->lanes > FB_TRIAL_READ_FIRST && fb_dtype_is_float(node->dtype))
            read_part_apart(e, id, a, &m);
    }
    return true;
}
