/* The walk: nodes in order, operands dropped after their last use, a loop's body once a step.
 *
 * requires  a finished graph: ids in order, a region's body between the operands of its loop and the loop
 * provides  the values of outputs, effects and `keep`
 *
 * Every node belongs to one region, and regions do not recurse, so one table of values serves: a region's frame is the
 * entries of its nodes, emptied between steps. Assigned values change what the PARAM nodes hold, for the body, between
 * the steps of a loop; once the loop is over its outside reads the old value again, until its own region ends. */
#include "interp/interp.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "interp/parts.h"

#include <limits.h>
#include <string.h>

enum { POOL_MOST = 512 << 20 };

/* ---- buffers ---- */

static void empty_pool(fb_interp *in)
{
    while (in->pool) {
        fb_buffer *b = in->pool;
        in->pool = b->next;
        fb_free(b->at);
        fb_free(b);
    }
    in->bytes_pool = 0;
}

/* Large tensors come again and again in the same size; fresh pages from the system would cost more than the arithmetic.
 */
static fb_buffer *take_from_pool(fb_interp *in, int64_t cells)
{
    for (fb_buffer **p = &in->pool; *p; p = &(*p)->next) {
        fb_buffer *b = *p;
        if (b->cells != cells) continue;
        *p = b->next;
        in->bytes_pool -= cells * 8;
        return b;
    }
    return NULL;
}

static fb_buffer *no_memory(fb_interp *in, fb_id node, int64_t bytes)
{
    char wanted[32], most[32];
    fb_fail(in->err, FB_ERR_LIMIT, "%s: the reference needs %s more than the %s it may use", in->g->nodes[node].name,
            fb_format_bytes(wanted, (double)bytes), fb_format_bytes(most, (double)in->bytes_max));
    return NULL;
}

fb_buffer *fb_buffer_new(fb_interp *in, fb_id node, int64_t cells)
{
    if (cells < 1) cells = 1;
    if (cells > INT64_MAX / 16) return no_memory(in, node, INT64_MAX);
    int64_t bytes = cells * 8;
    fb_buffer *b = take_from_pool(in, cells);
    if (!b) {
        if (in->bytes_live + in->bytes_pool + bytes > in->bytes_max) empty_pool(in);
        if (in->bytes_live + bytes > in->bytes_max) return no_memory(in, node, in->bytes_live + bytes - in->bytes_max);
        void *at = fb_try_alloc((size_t)bytes);
        if (!at) return no_memory(in, node, bytes);
        b = fb_alloc(sizeof *b);
        *b = (fb_buffer){.cells = cells, .at = at};
    }
    b->refs = 1;
    b->next = NULL;
    in->bytes_live += bytes;
    return b;
}

fb_buffer *fb_buffer_zeroed(fb_interp *in, fb_id node, int64_t cells)
{
    fb_buffer *b = fb_buffer_new(in, node, cells);
    if (b) memset(b->at, 0, (size_t)b->cells * 8);
    return b;
}

fb_buffer *fb_buffer_keep(fb_buffer *b)
{
    if (b) b->refs++;
    return b;
}

void fb_buffer_drop(fb_interp *in, fb_buffer *b)
{
    if (!b || --b->refs) return;
    int64_t bytes = b->cells * 8;
    in->bytes_live -= bytes;
    if (in->bytes_pool + bytes > POOL_MOST) {
        fb_free(b->at);
        fb_free(b);
        return;
    }
    in->bytes_pool += bytes;
    b->next = in->pool;
    in->pool = b;
}

fb_value fb_interp_keep_value(const fb_value *v)
{
    return (fb_value){fb_buffer_keep(v->data), fb_buffer_keep(v->bound)};
}

void fb_interp_drop_value(fb_interp *in, fb_value *v)
{
    fb_buffer_drop(in, v->data);
    fb_buffer_drop(in, v->bound);
    *v = (fb_value){0};
}

static void set_value(fb_interp *in, fb_id id, fb_value value)
{
    fb_value old = in->values[id];
    in->values[id] = value;
    fb_interp_drop_value(in, &old);
}

/* ---- what is needed, and how long ---- */

static bool is_effect(fb_op op)
{
    return op == FB_OP_ASSIGN || op == FB_OP_RECEIVE;
}

/* The node of region `region` that stands for `id`: itself, or the loop around it. */
static fb_id stand_in(const fb_graph *g, fb_id id, fb_id region)
{
    while (g->nodes[id].region != region) id = g->regions[g->nodes[id].region].loop;
    return id;
}

/* A root inside a loop needs the loop itself too. */
static void need_root(fb_interp *in, fb_id id)
{
    for (; id != FB_NONE; id = in->g->regions[in->g->nodes[id].region].loop) in->needed[id] = true;
}

static void need_region(fb_interp *in, const fb_region *r)
{
    for (int i = 0; i < r->n_carried; i++) in->needed[r->yields[i]] = true;
    for (int i = 0; i < r->n_stacked; i++) in->needed[r->stacked[i]] = true;
}

/* Users come after what they use, so one pass from the end suffices: a loop comes after its body. */
static void find_needed(fb_interp *in, const fb_id *keep, int n_keep)
{
    const fb_graph *g = in->g;
    for (int i = 0; i < g->n_outputs; i++) in->kept[g->outputs[i]] = true;
    for (int i = 0; i < n_keep; i++) in->kept[keep[i]] = true;
    for (fb_id id = 0; id < g->n_nodes; id++) {
        in->kept[id] |= is_effect(g->nodes[id].op);
        if (in->kept[id]) need_root(in, id);
    }
    for (fb_id id = g->n_nodes - 1; id >= 0; id--) {
        const fb_node *node = &g->nodes[id];
        if (!in->needed[id]) continue;
        if (node->op == FB_OP_LOOP) need_region(in, &g->regions[node->attrs->region]);
        for (int a = 0; a < node->n_args; a++) in->needed[node->args[a]] = true;
    }
}

static void find_last_uses(fb_interp *in)
{
    const fb_graph *g = in->g;
    for (fb_id id = 0; id < g->n_nodes; id++) in->last_use[id] = FB_NONE;
    for (fb_id id = 0; id < g->n_nodes; id++) {
        const fb_node *node = &g->nodes[id];
        for (int a = 0; a < node->n_args && in->needed[id]; a++) {
            fb_id from = node->args[a], user = stand_in(g, id, g->nodes[from].region);
            if (user > in->last_use[from]) in->last_use[from] = user;
        }
    }
    /* What a body hands on must outlive its step. */
    for (fb_id r = 1; r < g->n_regions; r++) {
        for (int i = 0; i < g->regions[r].n_carried; i++) in->last_use[g->regions[r].yields[i]] = INT_MAX;
        for (int i = 0; i < g->regions[r].n_stacked; i++) in->last_use[g->regions[r].stacked[i]] = INT_MAX;
    }
}

/* Evaluations of one run of everything, for progress: a body's nodes count once a step. */
static int64_t count_evaluations(const fb_interp *in)
{
    double total = 0;
    for (fb_id id = 0; id < in->g->n_nodes; id++) {
        double times = in->needed[id];
        for (fb_id r = in->g->nodes[id].region; r != 0 && times; r = in->g->regions[r].parent) {
            times *= (double)in->g->regions[r].trips;
        }
        total += times;
    }
    return total < INT_MAX ? (int64_t)total : INT_MAX;
}

/* ---- nodes ---- */

static bool eval_region(fb_interp *in, fb_id region, fb_id first, fb_id last);
static bool eval_loop(fb_interp *in, fb_id id);

/* Effects and results pass a value on. CARRIED, ITEM and STEP are set by the loop before the body runs. */
static bool eval_passing(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    if (node->op == FB_OP_LOOP) return eval_loop(in, id);
    if (node->op == FB_OP_FEED) return fb_eval_source(in, id);
    const fb_value *from = fb_operand(in, node, node->op == FB_OP_ASSIGN ? 1 : 0);
    if (node->op == FB_OP_RESULT) {
        fb_id region = fb_operand_node(in, node, 0)->attrs->region;
        from = &in->loops[region].results[node->attrs->index];
    }
    set_value(in, id, fb_interp_keep_value(from));
    return true;
}

static bool (*const evaluators[])(fb_interp *in, fb_id id) = {
    [FB_CLASS_SOURCE] = fb_eval_source,
    [FB_CLASS_POINTWISE] = fb_eval_pointwise,
    [FB_CLASS_REDUCTION] = fb_eval_reduction,
    [FB_CLASS_SCAN] = fb_eval_scan,
    [FB_CLASS_VIEW] = fb_eval_view,
    [FB_CLASS_JOIN] = fb_eval_join,
    [FB_CLASS_CONTRACTION] = fb_eval_contraction,
    [FB_CLASS_GATHER] = fb_eval_gather,
    [FB_CLASS_EFFECT] = eval_passing,
    [FB_CLASS_CONTROL] = eval_passing,
};

static bool set_by_loop(fb_op op)
{
    return op == FB_OP_CARRIED || op == FB_OP_ITEM || op == FB_OP_STEP;
}

/* Sources of a body hold the same in every step and stay until the loop ends. */
static bool stays_between_steps(const fb_node *node)
{
    return (fb_op_get(node->op)->cls == FB_CLASS_SOURCE && !set_by_loop(node->op)) || node->op == FB_OP_FEED;
}

static void drop_loop_values(fb_interp *in, fb_id region)
{
    fb_loop_values *l = &in->loops[region];
    for (int i = 0; i < l->n; i++) fb_interp_drop_value(in, &l->results[i]);
    fb_free(l->results);
    *l = (fb_loop_values){0};
}

static void drop_dead_operands(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    for (int a = 0; a < node->n_args; a++) {
        fb_id from = node->args[a];
        const fb_node *x = &in->g->nodes[from];
        if (in->last_use[from] != id || in->kept[from] || x->region != node->region) continue;
        if (x->op == FB_OP_LOOP) drop_loop_values(in, x->attrs->region);
        if (node->region && stays_between_steps(x)) continue;
        fb_interp_drop_value(in, &in->values[from]);
    }
}

/* A value's own buffer: what others hold too was put off where it was computed. */
static void put_off(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    fb_op_class cls = fb_op_get(node->op)->cls;
    fb_buffer *b = in->values[id].data;
    bool computed =
        cls == FB_CLASS_POINTWISE || cls == FB_CLASS_REDUCTION || cls == FB_CLASS_SCAN || cls == FB_CLASS_CONTRACTION;
    if (!computed || !fb_dtype_is_float(node->dtype) || !b || b->refs > 1) return;
    double unit = fb_bound_unit(node->dtype);
    int64_t n = fb_shape_elements(&node->shape);
    uint64_t key = fb_splitmix64(in->o->jitter + fb_splitmix64((uint64_t)in->done));
    for (int64_t i = 0; i < n; i++) b->at->f[i] *= 1 + fb_rng_uniform(fb_rng_bits(key, (uint64_t)i), -unit, unit);
}

static bool eval_node(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    if (set_by_loop(node->op)) return true;
    if (stays_between_steps(node) && in->values[id].data) return true;
    if (in->o->progress && !in->o->progress(in->o->progress_ctx, (int)in->done, (int)in->total))
        return fb_fail(in->err, FB_ERR_CANCELLED, "cancelled while the reference computed %s", node->name);
    fb_interp_drop_value(in, &in->values[id]); /* a kept value of the step before */
    if (!evaluators[fb_op_get(node->op)->cls](in, id)) return false;
    if (in->o->jitter) put_off(in, id);
    if (in->done < in->total) in->done++;
    drop_dead_operands(in, id);
    /* Needed by nobody in its region but computed for its sake alone, such as a loop around an assign. */
    if (node->op == FB_OP_LOOP && in->last_use[id] == FB_NONE) drop_loop_values(in, node->attrs->region);
    return true;
}

/* The nodes of `region` between `first` and `last`; those of inner regions run when their loop is reached. */
static bool eval_region(fb_interp *in, fb_id region, fb_id first, fb_id last)
{
    for (fb_id id = first; id < last; id++) {
        if (in->needed[id] && in->g->nodes[id].region == region && !eval_node(in, id)) return false;
    }
    return true;
}

/* ---- loops ---- */

typedef struct {
    fb_interp *in;
    fb_id loop, region, first; /* first: the body's first node */
    const fb_region *r;
    fb_value *carried;     /* current values */
    fb_value *params;      /* a node each, NULL without assigns: what the outside goes on reading */
    fb_loop_values values; /* under way */
} loop_run;

static bool slice_of(fb_interp *in, fb_id item, fb_id from, int64_t step)
{
    const fb_value *x = &in->values[from];
    int64_t n = fb_shape_elements(&in->g->nodes[item].shape);
    step = fb_region_place(&in->g->regions[in->g->nodes[item].region], step);
    fb_value value = {.data = fb_buffer_new(in, item, n)};
    if (value.data && x->bound) value.bound = fb_buffer_new(in, item, n);
    if (!value.data || (x->bound && !value.bound)) {
        fb_interp_drop_value(in, &value);
        return false;
    }
    memcpy(value.data->at, x->data->at->raw + step * n, (size_t)n * 8);
    if (x->bound) memcpy(value.bound->at, x->bound->at->raw + step * n, (size_t)n * 8);
    set_value(in, item, value);
    return true;
}

/* CARRIED, ITEM and STEP nodes get their values for this step. */
static bool enter_step(loop_run *l, int64_t step)
{
    fb_interp *in = l->in;
    const fb_node *loop = &in->g->nodes[l->loop];
    for (int i = 0; i < l->r->n_carried; i++) {
        if (l->r->carried[i] != FB_NONE) set_value(in, l->r->carried[i], fb_interp_keep_value(&l->carried[i]));
    }
    for (int i = 0; i < l->r->n_items; i++) {
        fb_id item = l->r->items[i];
        if (item != FB_NONE && in->needed[item] && !slice_of(in, item, loop->args[l->r->n_carried + i], step))
            return false;
    }
    for (fb_id id = l->first; id < l->loop; id++) {
        if (in->g->nodes[id].op != FB_OP_STEP || in->g->nodes[id].region != l->region || !in->needed[id]) continue;
        fb_value value = {.data = fb_buffer_new(in, id, 1)};
        if (!value.data) return false;
        value.data->at->i[0] = step;
        set_value(in, id, value);
    }
    return true;
}

/* Puts one step's value into the stacked output; its bounds begin when the first come. */
static bool stack_step(loop_run *l, int which, int64_t step)
{
    fb_interp *in = l->in;
    const fb_value *x = &in->values[l->r->stacked[which]];
    fb_value *to = &l->values.results[l->r->n_carried + which];
    int64_t every = fb_region_every(l->r, which);
    int64_t n = fb_shape_elements(&in->g->nodes[l->r->stacked[which]].shape), all = n * (l->r->trips / every);
    if ((step + 1) % every) return true;
    step = fb_region_place(l->r, step) / every;
    if (!to->bound && x->bound && !(to->bound = fb_buffer_zeroed(in, l->loop, all))) return false;
    memcpy(to->data->at->raw + step * n, x->data->at, (size_t)n * 8);
    if (x->bound) memcpy(to->bound->at->raw + step * n, x->bound->at, (size_t)n * 8);
    return true;
}

/* New parameters for the next step: assigns of this body and of loops inside it. */
static void apply_assigns(loop_run *l)
{
    fb_interp *in = l->in;
    for (fb_id id = l->first; id < l->loop; id++) {
        const fb_node *node = &in->g->nodes[id];
        if (node->op != FB_OP_ASSIGN || !in->values[id].data) continue;
        fb_id param = node->args[0];
        if (!l->params) l->params = fb_calloc((size_t)in->g->n_nodes, sizeof *l->params);
        if (!l->params[param].data) l->params[param] = fb_interp_keep_value(&in->values[param]);
        set_value(in, param, fb_interp_keep_value(&in->values[id]));
    }
}

static bool leave_step(loop_run *l, int64_t step)
{
    fb_interp *in = l->in;
    fb_value *next = l->r->n_carried ? fb_calloc((size_t)l->r->n_carried, sizeof *next) : NULL;
    for (int i = 0; i < l->r->n_carried; i++) next[i] = fb_interp_keep_value(&in->values[l->r->yields[i]]);
    for (int i = 0; i < l->r->n_carried; i++) {
        fb_interp_drop_value(in, &l->carried[i]);
        l->carried[i] = next[i];
    }
    fb_free(next);
    for (int j = 0; j < l->r->n_stacked; j++) {
        if (!stack_step(l, j, step)) return false;
    }
    apply_assigns(l);
    return true;
}

/* Empties the body's frame. What is kept stays, at the last step's value. */
static void clear_body(loop_run *l, bool all)
{
    fb_interp *in = l->in;
    for (fb_id id = l->first; id < l->loop; id++) {
        const fb_node *node = &in->g->nodes[id];
        if (!fb_region_within(in->g, node->region, l->region) || in->kept[id]) continue;
        if (all || !stays_between_steps(node)) fb_interp_drop_value(in, &in->values[id]);
        if (node->op == FB_OP_LOOP) drop_loop_values(in, node->attrs->region);
    }
}

static bool open_loop(loop_run *l)
{
    fb_interp *in = l->in;
    const fb_node *loop = &in->g->nodes[l->loop];
    l->values.n = l->r->n_carried + l->r->n_stacked;
    l->values.results = fb_calloc((size_t)l->values.n + 1, sizeof *l->values.results);
    l->carried = l->values.results;
    for (int i = 0; i < l->r->n_carried; i++) l->carried[i] = fb_interp_keep_value(&in->values[loop->args[i]]);
    for (int j = 0; j < l->r->n_stacked; j++) {
        int64_t n = fb_shape_elements(&in->g->nodes[l->r->stacked[j]].shape);
        fb_value *to = &l->values.results[l->r->n_carried + j];
        if (!(to->data = fb_buffer_new(in, l->loop, n * (l->r->trips / fb_region_every(l->r, j))))) return false;
    }
    return true;
}

/* The outside reads the parameters as they were. A loop that never ran assigns what was there. */
static void close_loop(loop_run *l)
{
    fb_interp *in = l->in;
    for (fb_id id = l->first; id < l->loop; id++) {
        const fb_node *node = &in->g->nodes[id];
        if (node->op != FB_OP_ASSIGN || in->values[id].data) continue;
        set_value(in, id, fb_interp_keep_value(&in->values[node->args[0]]));
    }
    for (fb_id id = 0; l->params && id < in->g->n_nodes; id++) {
        if (l->params[id].data) set_value(in, id, l->params[id]);
    }
    fb_free(l->params);
}

static bool eval_loop(fb_interp *in, fb_id id)
{
    fb_id region = in->g->nodes[id].attrs->region;
    loop_run l = {.in = in, .loop = id, .region = region, .first = id, .r = &in->g->regions[region]};
    while (l.first > 0 && fb_region_within(in->g, in->g->nodes[l.first - 1].region, region)) l.first--;
    bool ok = open_loop(&l);
    for (int64_t step = 0; ok && step < l.r->trips; step++) {
        ok = enter_step(&l, step) && eval_region(in, region, l.first, id) && leave_step(&l, step);
        clear_body(&l, false);
    }
    close_loop(&l);
    clear_body(&l, true);
    drop_loop_values(in, region);
    in->loops[region] = l.values;
    return ok;
}

/* ---- the run ---- */

/* Tensors as the caller sees them; everything else is given back. */
static void publish(fb_interp *in)
{
    for (fb_id id = 0; id < in->g->n_nodes; id++) {
        fb_value *v = &in->values[id];
        if (!in->kept[id]) fb_interp_drop_value(in, v);
        if (!v->data) continue;
        const fb_node *node = &in->g->nodes[id];
        bool is_float = fb_dtype_is_float(node->dtype);
        in->tensors[id] = (fb_tensor){
            .node = id,
            .n = fb_shape_elements(&node->shape),
            .v = is_float ? v->data->at->f : NULL,
            .i = is_float ? NULL : v->data->at->i,
            .bound = v->bound ? v->bound->at->f : NULL,
        };
    }
    for (fb_id r = 0; r < in->g->n_regions; r++) drop_loop_values(in, r);
    empty_pool(in);
    in->o = NULL;
    in->err = NULL;
}

fb_interp *fb_interp_run(const fb_graph *g, const fb_interp_options *o, const fb_id *keep, int n_keep, fb_error *err)
{
    fb_interp *in = fb_calloc(1, sizeof *in);
    size_t n = (size_t)g->n_nodes + 1;
    *in = (fb_interp){.g = g, .o = o, .err = err, .bytes_max = o->max_bytes ? o->max_bytes : (int64_t)8 << 30};
    in->values = fb_calloc(n, sizeof *in->values);
    in->tensors = fb_calloc(n, sizeof *in->tensors);
    in->loops = fb_calloc((size_t)g->n_regions + 1, sizeof *in->loops);
    in->last_use = fb_calloc(n, sizeof *in->last_use);
    in->needed = fb_calloc(n, sizeof *in->needed);
    in->kept = fb_calloc(n, sizeof *in->kept);
    find_needed(in, keep, n_keep);
    find_last_uses(in);
    in->total = count_evaluations(in);
    if (!eval_region(in, 0, 0, g->n_nodes)) {
        fb_interp_free(in);
        return NULL;
    }
    publish(in);
    return in;
}

const fb_tensor *fb_interp_get(const fb_interp *in, fb_id node)
{
    return node >= 0 && node < in->g->n_nodes && in->values[node].data ? &in->tensors[node] : NULL;
}

void fb_interp_free(fb_interp *in)
{
    if (!in) return;
    for (fb_id id = 0; id < in->g->n_nodes; id++) fb_interp_drop_value(in, &in->values[id]);
    for (fb_id r = 0; r < in->g->n_regions; r++) drop_loop_values(in, r);
    empty_pool(in);
    fb_free(in->values);
    fb_free(in->tensors);
    fb_free(in->loops);
    fb_free(in->last_use);
    fb_free(in->needed);
    fb_free(in->kept);
    fb_free(in);
}
