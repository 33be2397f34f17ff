/* One block: nodes in order, values dropped after their last use; a loop's body once a step, as interp.c runs it. */
#include "interp/trial_parts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"

enum { POOL_MOST = 256 << 20 };

/* ---- cells ---- */

bool fb_trial_fail(fb_trial_eval *e, fb_error_kind kind, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    pthread_mutex_lock(&e->s->lock);
    if (e->s->err.kind == FB_OK) fb_vfail(&e->s->err, kind, format, ap);
    pthread_mutex_unlock(&e->s->lock);
    va_end(ap);
    atomic_store(&e->s->stop, true);
    return false;
}

static void free_cells(fb_trial_eval *e, fb_cells *c)
{
    atomic_fetch_sub(&e->s->bytes, c->room * 8);
    fb_free(c->at.raw);
    fb_free(c);
}

void fb_trial_empty_pool(fb_trial_eval *e)
{
    while (e->pool) {
        fb_cells *c = e->pool;
        e->pool = c->next;
        free_cells(e, c);
    }
    e->pool_bytes = 0;
}

/* Fresh pages from the system would cost more than the arithmetic. */
static fb_cells *take_from_pool(fb_trial_eval *e, int64_t cells)
{
    for (fb_cells **p = &e->pool; *p; p = &(*p)->next) {
        fb_cells *c = *p;
        if (c->room < cells || c->room > 2 * cells + 64) continue;
        *p = c->next;
        e->pool_bytes -= c->room * 8;
        return c;
    }
    return NULL;
}

fb_cells *fb_trial_cells(fb_trial_eval *e, fb_id node, int64_t cells)
{
    if (cells < 1) cells = 1;
    const char *name = e->s->g->nodes[node].name;
    char wanted[32], most[32];
    fb_cells *c = cells < INT64_MAX / 64 ? take_from_pool(e, cells) : NULL;
    if (!c) {
        int64_t bytes = cells < INT64_MAX / 64 ? cells * 8 : INT64_MAX / 2;
        if (atomic_fetch_add(&e->s->bytes, bytes) + bytes > e->s->bytes_max) fb_trial_empty_pool(e);
        int64_t over = atomic_load(&e->s->bytes) - e->s->bytes_max;
        void *at = over > 0 ? NULL : fb_try_alloc_large((size_t)bytes);
        if (!at) {
            atomic_fetch_sub(&e->s->bytes, bytes);
            fb_trial_fail(e, FB_ERR_LIMIT, "%s: its trials need %s more than the %s they may use", name,
                          fb_format_bytes(wanted, (double)(over > 0 ? over : bytes)),
                          fb_format_bytes(most, (double)e->s->bytes_max));
            return NULL;
        }
        c = fb_alloc(sizeof *c);
        *c = (fb_cells){.room = cells, .at.raw = at};
    }
    c->refs = 1;
    c->next = NULL;
    return c;
}

void fb_trial_cells_drop(fb_trial_eval *e, fb_cells *c)
{
    if (!c || --c->refs) return;
    fb_trial_free_columns(c->columns);
    fb_free(c->alike);
    fb_free(c->taken);
    fb_free(c->summed);
    fb_free(c->margins);
    c->columns = NULL;
    c->alike = c->taken = c->summed = NULL;
    c->margins = NULL;
    if (c->borrowed) {
        fb_free(c);
        return;
    }
    int64_t share = e->s->bytes_max / 2 / (e->workers > 1 ? 1 : fb_trial_threads(e->s->o));
    int64_t most = e->workers > 1 || share < POOL_MOST ? share : POOL_MOST;
    if (e->pool_bytes + c->room * 8 > most) {
        free_cells(e, c);
        return;
    }
    e->pool_bytes += c->room * 8;
    c->next = e->pool;
    e->pool = c;
}

bool fb_trial_open(fb_trial_eval *e, fb_id id, int lanes)
{
    fb_trial_value *v = fb_trial_at(e, id);
    v->n = fb_box_cells(&v->box, fb_trial_node(e, id)->shape.rank);
    v->cells = fb_trial_cells(e, id, v->n * lanes);
    v->lanes = v->cells ? lanes : 0;
    return v->cells != NULL;
}

void fb_trial_drop(fb_trial_eval *e, fb_trial_value *v)
{
    fb_trial_cells_drop(e, v->cells);
    v->cells = NULL;
    v->lanes = 0;
}

/* A number beside each element, of all lanes together. */
static float *plane(float **at, int64_t n)
{
    if (!*at) *at = fb_calloc((size_t)n + 1, sizeof **at);
    return *at;
}

float *fb_trial_alike(fb_trial_value *v)
{
    return plane(&v->cells->alike, v->n);
}

float *fb_trial_taken(fb_trial_value *v)
{
    return plane(&v->cells->taken, v->n);
}

float *fb_trial_summed(fb_trial_value *v)
{
    return plane(&v->cells->summed, v->n);
}

double *fb_trial_margins(fb_trial_value *v)
{
    fb_cells *c = v->cells;
    if (c->margins) return c->margins;
    c->margins = fb_alloc(((size_t)v->n + 1) * sizeof *c->margins);
    for (int64_t k = 0; k < v->n; k++) c->margins[k] = INFINITY;
    return c->margins;
}

fb_trial_value fb_trial_margins_of(const fb_trial_value *of, fb_cells *cells)
{
    *cells = (fb_cells){.at.f = of->cells->margins};
    return (fb_trial_value){.box = of->box, .n = of->n, .lanes = 1, .cells = cells};
}

/* Takes the cells of another value, whose box is the same. */
static void share(fb_trial_eval *e, fb_trial_value *to, const fb_trial_value *from)
{
    fb_cells *c = from->cells;
    if (c) c->refs++;
    fb_trial_drop(e, to);
    to->cells = c;
    to->n = from->n;
    to->lanes = from->lanes;
}

int fb_trial_lanes_of(const fb_trial_eval *e, const fb_node *node)
{
    int lanes = 1;
    for (int a = 0; a < node->n_args; a++) {
        const fb_trial_value *x = fb_trial_at(e, node->args[a]);
        if (x->lanes > lanes) lanes = x->lanes;
    }
    return lanes;
}

/* ---- threads inside a node ---- */

void fb_trial_for(const fb_trial_eval *e, int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t first, int64_t last),
                  void *ctx)
{
    if (n <= 0) return;
    if (e->workers < 2 || n < 2 * grain) {
        fn(ctx, 0, n);
        return;
    }
    int64_t fair = n / (4 * e->workers);
    fb_parallel_for_some(e->workers, n, grain > fair ? grain : fair, fn, ctx);
}

/* ---- nodes ---- */

static bool set_by_loop(fb_op op)
{
    return op == FB_OP_CARRIED || op == FB_OP_ITEM || op == FB_OP_STEP;
}

/* Effects and results hand on the value of another. */
static bool pass_on(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    fb_trial_value *v = fb_trial_at(e, id);
    const fb_trial_value *from = fb_trial_at(e, node->args[node->op == FB_OP_ASSIGN ? 1 : 0]);
    if (node->op == FB_OP_RESULT)
        from = &e->results[fb_trial_node(e, node->args[0])->attrs->region][node->attrs->index];
    if (memcmp(&v->box, &from->box, sizeof v->box) == 0) {
        share(e, v, from);
        return true;
    }
    if (!fb_trial_open(e, id, from->lanes)) return false;
    for (int l = 0; l < v->lanes; l++)
        fb_trial_take(v->cells->at.raw + l * v->n, fb_trial_raw(from, l), &from->box, &v->box, node->shape.rank);
    return true;
}

/* The part that the block needs of a value that was there before all blocks, and belongs to all threads. */
static bool copy_done(fb_trial_eval *e, fb_id id, const fb_trial_value *from)
{
    fb_trial_value *v = fb_trial_at(e, id);
    if (fb_box_cells(&v->box, fb_trial_node(e, id)->shape.rank) == from->n) {
        v->cells = fb_alloc(sizeof *v->cells);
        *v->cells = (fb_cells){.refs = 1, .borrowed = true, .at.raw = from->cells->at.raw};
        v->n = from->n;
        v->lanes = from->lanes;
        return true;
    }
    if (!fb_trial_open(e, id, from->lanes)) return false;
    for (int l = 0; l < v->lanes; l++)
        fb_trial_take(v->cells->at.raw + l * v->n, fb_trial_raw(from, l), &from->box, &v->box,
                      fb_trial_node(e, id)->shape.rank);
    return true;
}

static bool dispatch(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    const fb_trial_value *done = &e->s->done[e->s->slot[id]];
    if (done->lanes) return copy_done(e, id, done);
    if (e->s->leaf[e->s->slot[id]]) return fb_trial_source(e, id);
    switch (fb_op_get(node->op)->cls) {
    case FB_CLASS_POINTWISE: return fb_trial_pointwise(e, id);
    case FB_CLASS_REDUCTION: return fb_trial_reduction(e, id);
    case FB_CLASS_SCAN: return fb_trial_scan(e, id);
    case FB_CLASS_VIEW: return fb_trial_view(e, id);
    case FB_CLASS_JOIN: return fb_trial_join(e, id);
    case FB_CLASS_CONTRACTION: return fb_trial_matmul(e, id);
    case FB_CLASS_GATHER: return fb_trial_gather(e, id);
    case FB_CLASS_CONTROL:
        if (node->op == FB_OP_LOOP) return fb_trial_loop(e, id);
        return pass_on(e, id);
    case FB_CLASS_EFFECT: return pass_on(e, id);
    default: return fb_trial_fail(e, FB_ERR_INPUT, "%s: what a loop's body begins with must be given", node->name);
    }
}

static void drop_results(fb_trial_eval *e, fb_id region)
{
    const fb_region *r = &e->s->g->regions[region];
    for (int k = 0; e->results[region] && k < r->n_carried + r->n_stacked; k++)
        fb_trial_drop(e, &e->results[region][k]);
    fb_free(e->results[region]);
    e->results[region] = NULL;
}

/* Is it in a body, and the same in all steps? */
static bool stays(const fb_trial_shared *s, int slot)
{
    return s->in_body[slot] && (s->leaf[slot] || s->fixed[slot]);
}

static void drop_dead_operands(fb_trial_eval *e, fb_id id)
{
    const fb_trial_shared *s = e->s;
    const fb_node *node = &s->g->nodes[id];
    for (int a = 0; a < node->n_args; a++) {
        int k = s->slot[node->args[a]];
        while (k >= 0 && fb_trial_passes(s, k)) k = s->slot[s->g->nodes[s->order[k]].args[0]];
        if (k < 0 || s->last_use[k] != id || s->kept[k] || stays(s, k)) continue;
        const fb_node *x = &s->g->nodes[s->order[k]];
        if (x->region != node->region) continue;
        if (x->op == FB_OP_LOOP) drop_results(e, x->attrs->region);
        fb_trial_drop(e, &e->values[k]);
    }
}

static bool report(fb_trial_eval *e, int slot)
{
    fb_trial_shared *s = e->s;
    const fb_node *node = &s->g->nodes[s->order[slot]];
    double cost = s->cost[slot] * (double)fb_box_cells(&e->values[slot].box, node->shape.rank), before = s->cost_done;
    while (!atomic_compare_exchange_weak(&s->cost_done, &before, before + cost)) {}
    if (atomic_load(&s->stop)) return false;
    if (e->thread || !s->o->progress) return true;
    /* Long reductions come before the blocks are cut: nothing is handed over yet. */
    int64_t total = s->elements_total > 0 ? s->elements_total : 1;
    double part = s->cost_total > 0 ? fmin((before + cost) / s->cost_total, 1) : 0;
    if (s->o->progress(s->o->progress_ctx, (int64_t)(part * (double)total), total)) return true;
    return fb_trial_fail(e, FB_ERR_CANCELLED, "cancelled while trials of %s were computed", node->name);
}

bool fb_trial_evaluate(fb_trial_eval *e, int first, int end, fb_id region)
{
    const fb_trial_shared *s = e->s;
    for (int k = first; k < end; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        fb_trial_value *v = &e->values[k];
        if (!v->wanted || (region ? node->region != region : s->in_body[k]) || fb_trial_passes(s, k)) continue;
        if ((s->in_body[k] && set_by_loop(node->op) && !s->leaf[k]) || (stays(s, k) && v->lanes)) continue;
        fb_trial_drop(e, v); /* a kept value of the step before */
        int64_t began = s->took ? fb_now_ns() : 0;
        if (!dispatch(e, s->order[k]) || !report(e, k)) return false;
        if (s->took) atomic_fetch_add(&s->took[k], fb_now_ns() - began);
        drop_dead_operands(e, s->order[k]);
    }
    return true;
}

void fb_trial_clear(fb_trial_eval *e)
{
    for (int k = 0; k < e->s->n_slots; k++) {
        fb_trial_drop(e, &e->values[k]);
        e->values[k].wanted = false;
    }
    for (fb_id r = 0; r < e->s->g->n_regions; r++) drop_results(e, r);
}

void fb_trial_eval_open(fb_trial_eval *e, fb_trial_shared *s, int thread)
{
    *e = (fb_trial_eval){.s = s, .thread = thread, .workers = 1};
    e->values = fb_calloc((size_t)s->n_slots + 1, sizeof *e->values);
    e->results = fb_calloc((size_t)s->g->n_regions + 1, sizeof *e->results);
}

void fb_trial_eval_close(fb_trial_eval *e)
{
    fb_trial_empty_pool(e);
    fb_free(e->values);
    fb_free(e->results);
}

/* ---- loops ---- */

typedef struct {
    fb_trial_eval *e;
    fb_id loop, region;
    const fb_region *r;
    int first, end;         /* the body's slots */
    bool by_rows;           /* boxes are as they were asked for; else whole */
    fb_trial_value *values; /* carried, as they are now, then stacked */
    fb_trial_value *params; /* a slot each, NULL without assigns: what the outside goes on reading */
    fb_trial_eval *ahead;   /* what is scanned and streams, of some steps; NULL: nothing */
    int64_t ahead_from, ahead_to;
} loop_run;

/* Steps first … last - 1 of what a step has as `box`. */
static fb_box box_of_steps(const fb_box *box, int64_t first, int64_t last)
{
    fb_box of = {.lo = {first}, .hi = {last}};
    memcpy(of.lo + 1, box->lo, sizeof box->lo - sizeof box->lo[0]);
    memcpy(of.hi + 1, box->hi, sizeof box->hi - sizeof box->hi[0]);
    return of;
}

static bool present(const loop_run *l, fb_id id);

/* Computes what streams for the next steps. */
static bool look_ahead(loop_run *l, int64_t step)
{
    enum { AHEAD = 1 << 17 };
    const fb_trial_shared *s = l->e->s;
    const fb_node *loop = fb_trial_node(l->e, l->loop);
    int64_t largest = 1;
    for (int i = 0; i < l->r->n_items; i++)
        if (present(l, l->r->items[i])) {
            const fb_trial_value *v = fb_trial_at(l->e, l->r->items[i]);
            int64_t cells = fb_box_cells(&v->box, fb_trial_node(l->e, l->r->items[i])->shape.rank);
            if (cells > largest) largest = cells;
        }
    if (!l->ahead) {
        l->ahead = fb_alloc(sizeof *l->ahead);
        fb_trial_eval_open(l->ahead, l->e->s, l->e->thread);
        l->ahead->workers = l->e->workers;
    }
    fb_trial_clear(l->ahead);
    l->ahead_from = step;
    l->ahead_to = step + 1 + AHEAD / largest;
    if (l->ahead_to > l->r->trips) l->ahead_to = l->r->trips;
    for (int i = 0; i < l->r->n_items; i++) {
        fb_id scanned = loop->args[l->r->n_carried + i];
        if (!present(l, l->r->items[i]) || !s->streams[s->slot[scanned]] || s->leaf[s->slot[scanned]]) continue;
        fb_trial_value *v = fb_trial_at(l->ahead, scanned);
        int64_t a = fb_region_place(l->r, step), b = fb_region_place(l->r, l->ahead_to - 1);
        v->box = box_of_steps(&fb_trial_at(l->e, l->r->items[i])->box, a < b ? a : b, (a < b ? b : a) + 1);
        v->wanted = true;
    }
    fb_trial_demand(s, l->ahead->values, s->slot[l->loop]);
    return fb_trial_evaluate(l->ahead, 0, s->slot[l->loop], 0);
}

static bool slice_of(loop_run *l, fb_id item, fb_id from, int64_t step)
{
    fb_trial_eval *e = l->e;
    int slot = e->s->slot[from];
    const fb_trial_value *x = &e->values[slot];
    fb_trial_value *v = fb_trial_at(e, item);
    int64_t place = fb_region_place(l->r, step);
    fb_box box = box_of_steps(&v->box, place, place + 1);
    bool streams = l->by_rows && e->s->streams[slot];
    fb_trial_drop(e, v);
    if (streams && e->s->leaf[slot]) return fb_trial_open(e, item, 1) && fb_trial_leaf(e, from, &box, v->cells->at.raw);
    if (streams && (!l->ahead || step >= l->ahead_to) && !look_ahead(l, step)) return false;
    if (streams) x = fb_trial_at(l->ahead, from);
    if (!fb_trial_open(e, item, x->lanes)) return false;
    for (int k = 0; k < v->lanes; k++)
        fb_trial_take(v->cells->at.raw + k * v->n, fb_trial_raw(x, k), &x->box, &box,
                      fb_trial_node(e, from)->shape.rank);
    return true;
}

static bool present(const loop_run *l, fb_id id)
{
    return id != FB_NONE && l->e->s->slot[id] >= 0 && fb_trial_at(l->e, id)->wanted;
}

/* CARRIED, ITEM and STEP nodes get their values for this step. */
static bool enter_step(loop_run *l, int64_t step)
{
    fb_trial_eval *e = l->e;
    const fb_node *loop = fb_trial_node(e, l->loop);
    for (int i = 0; i < l->r->n_carried; i++) {
        if (present(l, l->r->carried[i])) share(e, fb_trial_at(e, l->r->carried[i]), &l->values[i]);
    }
    for (int i = 0; i < l->r->n_items; i++) {
        fb_id item = l->r->items[i];
        if (present(l, item) && !slice_of(l, item, loop->args[l->r->n_carried + i], step)) return false;
    }
    for (int k = l->first; k < l->end; k++) {
        const fb_node *node = fb_trial_node(e, e->s->order[k]);
        if (node->op != FB_OP_STEP || node->region != l->region) continue;
        fb_trial_drop(e, &e->values[k]);
        if (!fb_trial_open(e, e->s->order[k], 1)) return false;
        e->values[k].cells->at.i[0] = step;
    }
    return true;
}

/* Puts one step's value into the stacked output, whose lanes become several when the first come. */
static bool stack_step(loop_run *l, int which, int64_t step)
{
    fb_trial_eval *e = l->e;
    const fb_trial_value *x = fb_trial_at(e, l->r->stacked[which]);
    fb_trial_value *to = &l->values[l->r->n_carried + which];
    int64_t every = fb_region_every(l->r, which), place = fb_region_place(l->r, step) / every;
    if ((step + 1) % every) return true;
    if (!x->lanes || !to->cells) return true; /* no elements, or nobody reads them */
    if (x->lanes > to->lanes) {
        fb_cells *wide = fb_trial_cells(e, l->loop, to->n * x->lanes);
        if (!wide) return false;
        for (int k = 0; k < x->lanes; k++) memcpy(wide->at.raw + k * to->n, to->cells->at.raw, (size_t)to->n * 8);
        fb_trial_cells_drop(e, to->cells);
        to->cells = wide;
        to->lanes = x->lanes;
    }
    for (int k = 0; k < to->lanes; k++)
        memcpy(to->cells->at.raw + k * to->n + place * x->n, fb_trial_raw(x, k), (size_t)x->n * 8);
    return true;
}

/* New parameters for the next step: assigns of this body and of loops inside it. */
static void apply_assigns(loop_run *l)
{
    fb_trial_eval *e = l->e;
    for (int k = l->first; k < l->end; k++) {
        const fb_node *node = fb_trial_node(e, e->s->order[k]);
        if (node->op != FB_OP_ASSIGN || !e->values[k].lanes) continue;
        int param = e->s->slot[node->args[0]];
        if (!l->params) l->params = fb_calloc((size_t)e->s->n_slots, sizeof *l->params);
        if (!l->params[param].lanes) share(e, &l->params[param], &e->values[param]);
        share(e, &e->values[param], &e->values[k]);
    }
}

/* What is carried to the next step has been stored: the next one finds it rounded, whatever this one had in registers. */
static bool carry(fb_trial_eval *e, fb_trial_value *to, fb_id yield)
{
    const fb_trial_value *x = fb_trial_at(e, yield);
    fb_dtype dtype = fb_trial_node(e, yield)->dtype;
    share(e, to, x);
    if (!fb_dtype_is_float(dtype) || dtype == FB_F64 || x->lanes < 2) return true;
    fb_cells *cells = fb_trial_cells(e, yield, x->n * x->lanes);
    if (!cells) return false;
    memcpy(cells->at.f, fb_trial_f(x, 0), (size_t)x->n * sizeof *cells->at.f);
    for (int lane = 1; lane < x->lanes; lane++) {
        fb_rounding r = fb_rounding_of(e->s, lane, yield, dtype, true);
        for (int64_t at = 0; at < x->n; at += FB_TRIAL_CHUNK) {
            int n = x->n - at < FB_TRIAL_CHUNK ? (int)(x->n - at) : FB_TRIAL_CHUNK;
            int lost = fb_round_lane(&r, n, fb_trial_f(x, lane) + at, cells->at.f + lane * x->n + at);
            if (lost >= 0) fb_trial_overflowed(e, yield, at + lost, fb_trial_f(x, lane)[at + lost]);
        }
    }
    fb_trial_drop(e, to);
    to->cells = cells;
    to->n = x->n;
    to->lanes = x->lanes;
    return true;
}

static bool leave_step(loop_run *l, int64_t step)
{
    fb_trial_eval *e = l->e;
    fb_trial_value *next = fb_calloc((size_t)l->r->n_carried + 1, sizeof *next);
    bool ok = true;
    for (int i = 0; i < l->r->n_carried; i++) {
        next[i].box = l->values[i].box;
        ok = carry(e, &next[i], l->r->yields[i]) && ok;
    }
    for (int i = 0; i < l->r->n_carried; i++) {
        fb_trial_drop(e, &l->values[i]);
        l->values[i] = next[i];
    }
    fb_free(next);
    if (!ok) return false;
    for (int j = 0; j < l->r->n_stacked; j++) {
        if (!stack_step(l, j, step)) return false;
    }
    apply_assigns(l);
    return true;
}

/* Empties the body. What is kept stays, at the last step's value; leaves stay until the loop is over. */
static void clear_body(loop_run *l, bool all)
{
    fb_trial_eval *e = l->e;
    for (int k = l->first; k < l->end; k++) {
        const fb_node *node = fb_trial_node(e, e->s->order[k]);
        if (node->op == FB_OP_LOOP) drop_results(e, node->attrs->region);
        if (!e->s->kept[k] && (all || !stays(e->s, k))) fb_trial_drop(e, &e->values[k]);
    }
}

/* What a loop begins with: what of it is carried. */
static bool take_first(loop_run *l, int i)
{
    fb_trial_eval *e = l->e;
    fb_id first = fb_trial_node(e, l->loop)->args[i];
    const fb_trial_value *x = fb_trial_at(e, first), *yield = fb_trial_at(e, l->r->yields[i]);
    fb_trial_value *v = &l->values[i];
    int rank = fb_trial_node(e, first)->shape.rank;
    v->box = l->by_rows ? yield->box : fb_box_whole(&fb_trial_node(e, first)->shape);
    if (!x->lanes || (l->by_rows && !yield->wanted)) return true;
    if (fb_box_cells(&v->box, rank) == x->n) {
        share(e, v, x);
        return true;
    }
    v->n = fb_box_cells(&v->box, rank);
    if (!(v->cells = fb_trial_cells(e, l->loop, v->n * x->lanes))) return false;
    v->lanes = x->lanes;
    for (int k = 0; k < v->lanes; k++)
        fb_trial_take(v->cells->at.raw + k * v->n, fb_trial_raw(x, k), &x->box, &v->box, rank);
    return true;
}

/* Does anybody read what is stacked? */
static bool is_read(const loop_run *l, int stacked)
{
    const fb_trial_shared *s = l->e->s;
    for (int k = l->end + 1; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        if (node->op == FB_OP_RESULT && node->args[0] == l->loop && node->attrs->index == l->r->n_carried + stacked &&
            l->e->values[k].wanted)
            return true;
    }
    return false;
}

static bool open_loop(loop_run *l)
{
    fb_trial_eval *e = l->e;
    l->values = fb_calloc((size_t)(l->r->n_carried + l->r->n_stacked) + 1, sizeof *l->values);
    for (int i = 0; i < l->r->n_carried; i++)
        if (!take_first(l, i)) return false;
    for (int j = 0; j < l->r->n_stacked; j++) {
        fb_trial_value *to = &l->values[l->r->n_carried + j];
        fb_shape shape = fb_trial_node(e, l->r->stacked[j])->shape;
        fb_box whole = fb_box_whole(&shape);
        if (l->by_rows && !is_read(l, j)) continue;
        to->box = box_of_steps(l->by_rows ? &fb_trial_at(e, l->r->stacked[j])->box : &whole, 0,
                               l->r->trips / fb_region_every(l->r, j));
        to->n = fb_box_cells(&to->box, shape.rank + 1);
        if (!(to->cells = fb_trial_cells(e, l->loop, to->n))) return false;
        to->lanes = 1;
    }
    return true;
}

/* The outside reads the parameters as they were. A loop that never ran assigns what was there. */
static void close_loop(loop_run *l)
{
    fb_trial_eval *e = l->e;
    for (int k = l->first; k < l->end; k++) {
        const fb_node *node = fb_trial_node(e, e->s->order[k]);
        if (node->op == FB_OP_ASSIGN && !e->values[k].lanes) share(e, &e->values[k], fb_trial_at(e, node->args[0]));
    }
    for (int k = 0; l->params && k < e->s->n_slots; k++) {
        if (!l->params[k].lanes) continue;
        share(e, &e->values[k], &l->params[k]);
        fb_trial_drop(e, &l->params[k]);
    }
    fb_free(l->params);
}

bool fb_trial_loop(fb_trial_eval *e, fb_id id)
{
    fb_id region = fb_trial_node(e, id)->attrs->region;
    loop_run l = {.e = e, .loop = id, .region = region, .r = &e->s->g->regions[region], .end = e->s->slot[id]};
    for (l.first = l.end; l.first > 0; l.first--) {
        if (!fb_region_within(e->s->g, e->s->g->nodes[e->s->order[l.first - 1]].region, region)) break;
    }
    l.by_rows = e->s->by_rows[region];
    drop_results(e, region);
    bool ok = open_loop(&l);
    for (int64_t step = 0; ok && step < l.r->trips; step++) {
        ok = enter_step(&l, step) && fb_trial_evaluate(e, l.first, l.end, region) && leave_step(&l, step);
        clear_body(&l, false);
    }
    close_loop(&l);
    clear_body(&l, true);
    if (l.ahead) {
        fb_trial_clear(l.ahead);
        fb_trial_eval_close(l.ahead);
        fb_free(l.ahead);
    }
    e->results[region] = l.values;
    return ok;
}
