/* Back through a loop, by a loop that runs backwards over the same steps.
 *
 *     what the first loop is to keep is added to what it collects
 *     loop, backwards: carried the gradient of the state, scanned what was kept and the gradients of what was collected
 *         what stands for the values of the first loop's body: scanned, or computed again
 *         the rules, over the first body's nodes from the last to the first
 *         truncation: no gradient to the step before
 *     what adds up over the steps: the gradients of what the body reads from outside
 *
 * Which values the rules read is found by a trial: the same walk, where a source stands for every value, taken back
 * afterwards. What depends on no step is computed outside, once. A matrix gets its gradient from one product over the
 * rows of all steps, a vector from one sum, after the loop; what has the shape of its shares is added to in each step.
 *
 * Where only every k-th state is stored, the loop backwards goes over segments of k steps: in each it runs the steps
 * again from the state stored before it, in a loop of its own, and takes that one back. */
#include "graph/autodiff_parts.h"

#include "base/mem.h"
#include "base/vec.h"
#include "graph/build.h"

#include <string.h>

typedef enum { SHARE_ADDED, SHARE_SUMMED, SHARE_PRODUCT } share_kind;

/* What a step gives to `to`, a value that does not change with the steps. */
typedef struct {
    share_kind kind;
    fb_id to, value; /* value: in the body; of a product the gradient of its result */
    fb_id a;         /* SHARE_PRODUCT: its left operand, in the body */
    fb_attrs at;
    fb_id all, all_a; /* after the loop: of all steps */
} share;

typedef struct {
    fb_id of, value;
    int dim;
    int64_t start;
} piece;

struct fb_reversal {
    fb_reversal *around;
    fb_region r; /* of the loop that is taken back */
    fb_id region, first, loop;
    int n;       /* ids from `first` to `loop` */
    fb_id start; /* number of the first step, where the loop is a segment of a longer one; FB_NONE: 0 */
    bool trial, over;
    /* by id - first */
    bool *inside;           /* belongs to the body */
    bool *still;            /* and depends on no step */
    bool *needed;           /* and is read by the rules */
    bool *used;             /* and stood for in the new body */
    bool *kept;             /* and collected by the first loop */
    bool *there;            /* known to follow from what is there */
    bool *asked;            /* keep() has seen to it */
    fb_id *stand;           /* what stands for it, FB_NONE for nothing yet */
    fb_id body, step, time; /* number of the step that is taken back; in the longer loop */
    FB_VEC(share) shares;
    FB_VEC(piece) pieces;
    FB_VEC(fb_id) added; /* what has a SHARE_ADDED: a carried sum each */
};

typedef FB_VEC(fb_id) ids;

/* ---- small things ---- */

static fb_id two(fb_tape *t, fb_op op, fb_id a, fb_id b)
{
    return fb_tape_put(t, op, (fb_id[]){a, b}, 2, NULL);
}

static fb_id count(fb_tape *t, int64_t value)
{
    return fb_tape_put(t, FB_OP_CONST, NULL, 0, &(fb_attrs){.value = (double)value, .dtype = FB_I64});
}

static fb_id cast(fb_tape *t, fb_id a, fb_dtype dtype)
{
    if (a == FB_NONE || t->g->nodes[a].dtype == dtype) return a;
    return fb_tape_put(t, FB_OP_CAST, &a, 1, &(fb_attrs){.dtype = dtype});
}

/* Sums of half-precision values are kept in single precision. */
static fb_dtype sum_dtype(fb_dtype dtype)
{
    return fb_dtype_is_half(dtype) ? FB_F32 : dtype;
}

static fb_id zeros(fb_tape *t, fb_shape shape, fb_dtype dtype)
{
    fb_id zero = fb_tape_put(t, FB_OP_CONST, NULL, 0, &(fb_attrs){.dtype = dtype});
    if (!shape.rank || zero == FB_NONE) return zero;
    return fb_tape_put(t, FB_OP_EXPAND, &zero, 1, &(fb_attrs){.shape = shape});
}

static fb_id result(fb_tape *t, fb_id loop, int index, const char *name)
{
    if (t->failed) return FB_NONE;
    fb_id id = fb_graph_add(t->g, FB_OP_RESULT, &loop, 1, &(fb_attrs){.index = index}, name, t->line, t->err);
    t->failed = id == FB_NONE;
    return id;
}

/* The result of a loop with that index; FB_NONE when it was not asked for. */
static fb_id result_of(const fb_graph *g, fb_id loop, int index)
{
    for (fb_id i = loop + 1; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        if (n->op == FB_OP_RESULT && n->args[0] == loop && n->attrs->index == index) return i;
    }
    return FB_NONE;
}

static fb_id gradient_of_result(const fb_tape *t, fb_id loop, int index)
{
    fb_id id = result_of(t->g, loop, index);
    return id == FB_NONE || id >= t->n ? FB_NONE : t->gradient[id];
}

/* Of all results with that index: a script may hold several. */
static fb_id gradient_of_results(fb_tape *t, fb_id loop, int index)
{
    fb_id sum = FB_NONE;
    for (fb_id i = loop + 1; i < t->n && !t->failed; i++) {
        const fb_node *n = &t->g->nodes[i];
        if (n->op != FB_OP_RESULT || n->args[0] != loop || n->attrs->index != index) continue;
        if (t->gradient[i] != FB_NONE) sum = sum == FB_NONE ? t->gradient[i] : two(t, FB_OP_ADD, sum, t->gradient[i]);
    }
    return sum;
}

static bool is_body(const fb_reversal *v, fb_id id)
{
    return id >= v->first && id < v->loop && v->inside[id - v->first];
}

static bool is_still(const fb_reversal *v, fb_id id)
{
    return !is_body(v, id) || v->still[id - v->first];
}

/* ---- what stands for the values of the first body ---- */

static fb_id again(fb_tape *t, const fb_node *n)
{
    fb_id *args = fb_alloc((size_t)(n->n_args + 1) * sizeof *args);
    for (int i = 0; i < n->n_args; i++) args[i] = n->args[i];
    fb_id id = fb_tape_put(t, n->op, args, n->n_args, n->attrs);
    fb_free(args);
    return id;
}

static fb_id placeholder(fb_tape *t, const fb_node *n)
{
    fb_attrs at = {.shape = n->shape, .dtype = n->dtype, .dist = FB_DIST_CONSTANT};
    return fb_tape_put(t, FB_OP_INPUT, NULL, 0, &at);
}

fb_id fb_tape_value(fb_tape *t, fb_id id)
{
    fb_reversal *v = t->inside;
    if (!v || !is_body(v, id)) return id;
    fb_id *stand = &v->stand[id - v->first];
    if (*stand != FB_NONE || t->failed) return *stand;
    const fb_node n = t->g->nodes[id];
    bool derived = fb_op_get(n.op)->cls == FB_CLASS_VIEW || n.op == FB_OP_CONST;
    *stand = v->trial && !derived ? placeholder(t, &n) : n.op == FB_OP_STEP ? v->step : again(t, &n);
    return *stand;
}

/* ---- what adds up over the steps ---- */

bool fb_tape_adds_up(const fb_tape *t, fb_id id)
{
    return t->inside && !t->inside->over && is_still(t->inside, id);
}

static int added_at(fb_reversal *v, fb_id id)
{
    for (int i = 0; i < v->added.n; i++)
        if (v->added.at[i] == id) return i;
    if (v->trial) FB_VEC_PUSH(&v->added, id);
    return v->added.n - 1;
}

void fb_tape_collect(fb_tape *t, fb_id id, fb_id value)
{
    if (value == FB_NONE || t->failed) return;
    share s = {.to = id, .value = fb_tape_value(t, value), .a = FB_NONE, .all = FB_NONE, .all_a = FB_NONE};
    const fb_shape *from = &t->g->nodes[s.value].shape, *to = &t->g->nodes[id].shape;
    s.kind = fb_shape_elements(from) > fb_shape_elements(to) ? SHARE_SUMMED : SHARE_ADDED;
    if (s.kind == SHARE_ADDED) added_at(t->inside, id);
    FB_VEC_PUSH(&t->inside->shares, s);
}

bool fb_tape_collect_product(fb_tape *t, fb_id b, fb_id a, fb_id dy, const fb_attrs *at)
{
    if (!fb_tape_adds_up(t, b) || t->through.step_by_step) return false;
    share s = {.kind = SHARE_PRODUCT, .to = b, .at = *at, .all = FB_NONE, .all_a = FB_NONE};
    s.a = fb_tape_value(t, a);
    s.value = fb_tape_value(t, dy);
    if (!t->failed) FB_VEC_PUSH(&t->inside->shares, s);
    return true;
}

/* ---- slices: gates that lie side by side get their gradient side by side ---- */

bool fb_tape_collect_piece(fb_tape *t, fb_id id, int dim, int64_t start, fb_id value)
{
    if (!t->inside || is_still(t->inside, id)) return false;
    if (fb_tape_wants(t, id) && !t->failed)
        FB_VEC_PUSH(&t->inside->pieces, (piece){.of = id, .value = value, .dim = dim, .start = start});
    return true;
}

/* The pieces of `id`, in order of where they lie; false where they overlap or lie along several dims. */
static bool take_pieces(fb_tape *t, fb_id id, piece *of, int *n)
{
    fb_reversal *v = t->inside;
    int left = 0;
    *n = 0;
    for (int i = 0; i < v->pieces.n; i++) {
        piece p = v->pieces.at[i];
        if (p.of != id) {
            v->pieces.at[left++] = p;
            continue;
        }
        int at = (*n)++;
        for (; at > 0 && of[at - 1].start > p.start; at--) of[at] = of[at - 1];
        of[at] = p;
    }
    v->pieces.n = left;
    for (int i = 1; i < *n; i++) {
        int64_t end = of[i - 1].start + t->g->nodes[of[i - 1].value].shape.dim[of[i - 1].dim];
        if (of[i].dim != of[0].dim || of[i].start < end) return false;
    }
    return true;
}

static void give_padded(fb_tape *t, fb_id id, const piece *p)
{
    int64_t extent = t->g->nodes[p->value].shape.dim[p->dim], room = t->g->nodes[id].shape.dim[p->dim];
    fb_tape_give(t, id, fb_tape_padded(t, p->value, p->dim, p->start, room - p->start - extent));
}

/* Side by side, with zeros between. */
static void give_joined(fb_tape *t, fb_id id, const piece *of, int n)
{
    const fb_node node = t->g->nodes[id];
    ids parts = {0};
    int64_t at = 0, room = node.shape.dim[of[0].dim];
    for (int i = 0; i <= n; i++) {
        int64_t start = i < n ? of[i].start : room;
        fb_shape gap = node.shape;
        gap.dim[of[0].dim] = start - at;
        if (start > at) FB_VEC_PUSH(&parts, zeros(t, gap, node.dtype));
        if (i == n) break;
        FB_VEC_PUSH(&parts, of[i].value);
        at = start + t->g->nodes[of[i].value].shape.dim[of[i].dim];
    }
    fb_tape_give(t, id, fb_tape_put(t, FB_OP_CAT, parts.at, parts.n, &(fb_attrs){.dim = of[0].dim}));
    FB_VEC_FREE(&parts);
}

static void join_pieces(fb_tape *t, fb_id id)
{
    piece *of = fb_alloc((size_t)(t->inside->pieces.n + 1) * sizeof *of);
    int n;
    bool apart = take_pieces(t, id, of, &n);
    if (apart && n > 1)
        give_joined(t, id, of, n);
    else
        for (int i = 0; i < n && !t->failed; i++) give_padded(t, id, &of[i]);
    fb_free(of);
}

/* ---- the walk over the first body ---- */

/* `ends` and `collected`: gradients of what a step hands on and of what it collects, FB_NONE for none. */
static bool walk(fb_tape *t, const fb_id *ends, const fb_id *collected)
{
    fb_reversal *v = t->inside;
    for (int i = 0; i < v->r.n_carried; i++)
        if (ends[i] != FB_NONE) fb_tape_give(t, v->r.yields[i], ends[i]);
    for (int j = 0; j < v->r.n_stacked; j++)
        if (collected[j] != FB_NONE) fb_tape_give(t, v->r.stacked[j], collected[j]);
    bool good = !t->failed;
    for (fb_id id = v->loop - 1; id >= v->first && good; id--) {
        if (!is_body(v, id) || v->still[id - v->first]) continue;
        join_pieces(t, id);
        good = !t->failed && fb_tape_differentiate(t, id);
    }
    return good;
}

static void forget_gradients(fb_tape *t, const fb_reversal *v)
{
    for (fb_id id = v->first; id < v->loop; id++) t->gradient[id] = FB_NONE;
}

static void clear(fb_reversal *v)
{
    for (int i = 0; i < v->n; i++) v->stand[i] = FB_NONE;
    v->shares.n = v->pieces.n = 0;
    v->step = v->time = FB_NONE;
}

/* ---- the trial ---- */

static void mark_needed(fb_tape *t, fb_id from)
{
    fb_reversal *v = t->inside;
    int n = t->g->n_nodes - from;
    bool *read = fb_calloc((size_t)n + 1, sizeof *read);
#define READ(ID)                                                                                                       \
    if ((ID) != FB_NONE && (ID) >= from) read[(ID)-from] = true
    for (int i = 0; i < v->r.n_carried; i++)
        if (v->r.carried[i] != FB_NONE) READ(t->gradient[v->r.carried[i]]);
    for (int k = 0; k < v->r.n_items; k++)
        if (v->r.items[k] != FB_NONE) READ(t->gradient[v->r.items[k]]);
    for (int i = 0; i < v->shares.n; i++) {
        READ(v->shares.at[i].value);
        READ(v->shares.at[i].a);
    }
    for (fb_id id = t->g->n_nodes - 1; id >= from; id--)
        for (int k = 0; read[id - from] && k < t->g->nodes[id].n_args; k++) READ(t->g->nodes[id].args[k]);
#undef READ
    for (int i = 0; i < v->n; i++) {
        fb_id stand = v->stand[i];
        v->needed[i] = stand != FB_NONE && stand >= from && read[stand - from] &&
                       fb_op_get(t->g->nodes[v->first + i].op)->cls != FB_CLASS_VIEW;
    }
    fb_free(read);
}

static bool try(fb_tape *t)
{
    fb_reversal *v = t->inside;
    fb_build_mark here = fb_build_here(t->g);
    fb_id *ends = fb_alloc((size_t)(v->r.n_carried + v->r.n_stacked + 1) * sizeof *ends), *of = ends + v->r.n_carried;
    v->trial = true;
    bool good = fb_graph_region_open(t->g, v->r.trips, NULL, 0, NULL, 0, NULL, NULL, t->line, t->err) != FB_NONE;
    fb_id from = t->g->n_nodes;
    for (int i = 0; i < v->r.n_carried; i++) {
        const fb_node n = t->g->nodes[v->r.yields[i]];
        ends[i] = good && fb_dtype_is_float(n.dtype) ? placeholder(t, &n) : FB_NONE;
    }
    for (int j = 0; j < v->r.n_stacked; j++) {
        const fb_node n = t->g->nodes[v->r.stacked[j]];
        fb_id given = gradient_of_result(t, v->loop, v->r.n_carried + j);
        of[j] = good && given != FB_NONE ? placeholder(t, &n) : FB_NONE;
    }
    good = good && !t->failed && walk(t, ends, of);
    if (good) mark_needed(t, from);
    forget_gradients(t, v);
    clear(v);
    v->trial = false;
    fb_free(ends);
    if (good) fb_build_back(t->g, here);
    return good;
}

/* ---- what is kept, and what is computed again ---- */

static bool is_cheap(fb_op op)
{
    fb_op_class cls = fb_op_get(op)->cls;
    return cls == FB_CLASS_POINTWISE || cls == FB_CLASS_VIEW || cls == FB_CLASS_JOIN || op == FB_OP_CONST;
}

/* States, items and counters are there; what depends on no step, too. */
static bool is_there(const fb_reversal *v, const fb_graph *g, fb_id id)
{
    fb_op op = g->nodes[id].op;
    return is_still(v, id) || op == FB_OP_CARRIED || op == FB_OP_ITEM || op == FB_OP_STEP || v->kept[id - v->first];
}

/* Can `id` be computed by pointwise ops from what is there? */
static bool follows(const fb_reversal *v, const fb_graph *g, fb_id id)
{
    if (is_there(v, g, id) || v->there[id - v->first]) return true;
    const fb_node *n = &g->nodes[id];
    bool all = n->n_args > 0 && is_cheap(n->op);
    for (int k = 0; k < n->n_args && all; k++) all = follows(v, g, n->args[k]);
    return v->there[id - v->first] = all;
}

/* Keeps `id`, or what it is a view or cast of. Gates are kept as the rules read them, activated: all of them before
 * their activation are fewer bytes where they are half precision, but a step could not end in the kernel of its
 * product. */
static void keep(const fb_tape *t, fb_reversal *v, fb_id id)
{
    const fb_graph *g = t->g;
    if (follows(v, g, id) || v->asked[id - v->first]) return;
    const fb_node *n = &g->nodes[id];
    v->asked[id - v->first] = true;
    bool computable = n->n_args > 0 && n->op != FB_OP_RESULT;
    if (t->through.recomputed && computable) {
        for (int k = 0; k < n->n_args; k++) keep(t, v, n->args[k]);
        return;
    }
    fb_id from = FB_NONE;
    for (int k = 0; k < n->n_args; k++) {
        if (follows(v, g, n->args[k]) || n->args[k] == from) continue;
        from = from == FB_NONE ? n->args[k] : id;
    }
    bool same = n->op == FB_OP_CAST || fb_op_get(n->op)->cls == FB_CLASS_VIEW;
    if (same && from != FB_NONE && from != id)
        keep(t, v, from);
    else
        v->kept[id - v->first] = true;
}

static void use(const fb_graph *g, fb_reversal *v, fb_id id)
{
    if (!is_body(v, id) || v->used[id - v->first]) return;
    v->used[id - v->first] = true;
    if (v->kept[id - v->first]) return;
    for (int k = 0; k < g->nodes[id].n_args; k++) use(g, v, g->nodes[id].args[k]);
}

static void choose_kept(fb_tape *t)
{
    fb_reversal *v = t->inside;
    for (int i = 0; i < v->n; i++)
        if (v->needed[i]) keep(t, v, v->first + i);
    for (int i = 0; i < v->n; i++)
        if (v->needed[i]) use(t->g, v, v->first + i);
}

/* ---- the loop backwards ---- */

typedef struct {
    ids inits, scanned;
    fb_id *carried, *items; /* the new body's */
    fb_id *ends, *collected;
    int *of_item;  /* by id - first: which item stands for it, -1 for none */
    int *gradient; /* of collected value j: which item, -1 */
    int *state;    /* of carried value i: which carried value its gradient is, -1 */
    int first_sum; /* carried sums */
    ids stacked;
    int *of_share;   /* by share: what of the stack it is, -1; then, of its left operand */
    int *of_scanned; /* by item: what of the stack its gradient is, -1; where `by` is a node, the left operand of … */
    fb_id *by;       /* … a product with this, `turned` */
    bool *turned;
    fb_precision *precision;
} build;

/* [count, …]: the states that steps (or segments) begin with, of what they end with; `after` FB_NONE: of one. */
static fb_id states_before(fb_tape *t, fb_id init, fb_id after, bool backwards)
{
    if (t->failed) return FB_NONE;
    fb_shape of = t->g->nodes[init].shape, first = {.rank = of.rank + 1, .dim = {1}};
    for (int d = 0; d < of.rank; d++) first.dim[d + 1] = of.dim[d];
    fb_id begin = fb_tape_view(t, init, first);
    if (after == FB_NONE || begin == FB_NONE || t->g->nodes[after].shape.dim[0] == 1) return begin;
    fb_shape shape = t->g->nodes[after].shape;
    fb_id rest = fb_tape_slice(t, after, 0, backwards, shape.dim[0] - !backwards, 1);
    fb_id both[] = {backwards ? rest : begin, backwards ? begin : rest};
    return fb_tape_put(t, FB_OP_CAT, both, 2, &(fb_attrs){.dim = 0});
}

static fb_id kept_of(fb_tape *t, fb_reversal *v, fb_id value, const char *name)
{
    if (t->failed) return FB_NONE;
    int index = fb_build_stack(t->g, v->region, value, 1);
    v->r.n_stacked = t->g->regions[v->region].n_stacked;
    v->r.stacked = t->g->regions[v->region].stacked;
    fb_id there = result_of(t->g, v->loop, index);
    return there != FB_NONE && there < t->g->n_nodes && t->g->nodes[there].region == t->g->nodes[v->loop].region
               ? there
               : result(t, v->loop, index, name);
}

/* What the new loop scans for what stands in its body: items, states and kept values. Values that do not change with
 * the steps are computed here, before it. */
static void add_sources(fb_tape *t, build *b)
{
    fb_reversal *v = t->inside;
    const fb_node loop = t->g->nodes[v->loop];
    for (int i = 0; i < v->n && !t->failed; i++) {
        fb_id id = v->first + i, from = FB_NONE;
        const fb_node n = t->g->nodes[id];
        b->of_item[i] = -1;
        if (!v->used[i]) continue;
        if (v->still[i])
            v->stand[i] = again(t, &n);
        else if (n.op == FB_OP_ITEM)
            from = loop.args[v->r.n_carried + n.attrs->index];
        else if (n.op == FB_OP_CARRIED)
            from = states_before(t, loop.args[n.attrs->index], kept_of(t, v, v->r.yields[n.attrs->index], "states"),
                                 v->r.backwards);
        else if (v->kept[i])
            from = kept_of(t, v, id, "kept");
        if (from == FB_NONE) continue;
        b->of_item[i] = b->scanned.n;
        FB_VEC_PUSH(&b->scanned, from);
    }
}

/* Carried: the gradient of each float state that is wanted, then sums of what adds up. */
static void add_states(fb_tape *t, build *b)
{
    fb_reversal *v = t->inside;
    for (int i = 0; i < v->r.n_carried && !t->failed; i++) {
        fb_id in = v->r.carried[i];
        b->state[i] = -1;
        fb_id given = gradient_of_results(t, v->loop, i);
        if (!fb_tape_wants(t, in) && given == FB_NONE) continue;
        b->state[i] = b->inits.n;
        FB_VEC_PUSH(&b->inits, given != FB_NONE ? given : fb_tape_filled_like(t, v->r.yields[i], 0));
    }
    b->first_sum = b->inits.n;
    for (int i = 0; i < v->added.n && !t->failed; i++) {
        const fb_node n = t->g->nodes[v->added.at[i]];
        FB_VEC_PUSH(&b->inits, zeros(t, n.shape, sum_dtype(n.dtype)));
    }
    for (int j = 0; j < v->r.n_stacked && !t->failed; j++) {
        fb_id given = gradient_of_results(t, v->loop, v->r.n_carried + j);
        b->gradient[j] = -1;
        if (given == FB_NONE) continue;
        b->gradient[j] = b->scanned.n;
        FB_VEC_PUSH(&b->scanned, given);
    }
}

static bool open_body(fb_tape *t, build *b)
{
    fb_reversal *v = t->inside;
    b->carried = fb_alloc((size_t)(b->inits.n + b->scanned.n + 1) * sizeof *b->carried);
    b->items = b->carried + b->inits.n;
    if (t->failed || fb_graph_region_open(t->g, v->r.trips, b->inits.at, b->inits.n, b->scanned.at, b->scanned.n,
                                          b->carried, b->items, t->line, t->err) == FB_NONE)
        return false;
    if (!v->r.backwards) fb_graph_region_turn(t->g);
    v->body = t->g->n_regions - 1;
    for (int i = 0; i < v->n; i++)
        if (b->of_item[i] >= 0) v->stand[i] = b->items[b->of_item[i]];
    for (int i = 0; i < v->r.n_carried; i++) b->ends[i] = b->state[i] < 0 ? FB_NONE : b->carried[b->state[i]];
    for (int j = 0; j < v->r.n_stacked; j++) b->collected[j] = b->gradient[j] < 0 ? FB_NONE : b->items[b->gradient[j]];
    return true;
}

/* The number of the step that is being taken back. */
static void tell_time(fb_tape *t)
{
    fb_reversal *v = t->inside;
    bool asked = t->through.truncate > 0;
    for (int i = 0; i < v->n; i++) asked |= v->used[i] && t->g->nodes[v->first + i].op == FB_OP_STEP;
    if (!asked) return;
    v->step = v->time = two(t, FB_OP_SUB, count(t, v->r.trips - 1), fb_tape_put(t, FB_OP_STEP, NULL, 0, NULL));
    if (v->start != FB_NONE) v->time = two(t, FB_OP_ADD, v->step, v->start);
}

/* `gradient` as it goes to the step before: not over the beginning of a truncated stretch. */
static fb_id truncated(fb_tape *t, fb_id gradient)
{
    fb_reversal *v = t->inside;
    if (!t->through.truncate || t->failed) return gradient;
    fb_id zero = count(t, 0), into = two(t, FB_OP_REMAINDER, v->time, count(t, t->through.truncate));
    fb_id cut = two(t, FB_OP_LOGICAL_AND, two(t, FB_OP_EQ, into, zero), two(t, FB_OP_GT, v->time, zero));
    fb_id none = fb_tape_put(t, FB_OP_CONST, NULL, 0, &(fb_attrs){.dtype = t->g->nodes[gradient].dtype});
    return fb_tape_put(t, FB_OP_WHERE, (fb_id[]){cut, none, gradient}, 3, NULL);
}

static int stack(build *b, fb_id value)
{
    for (int i = 0; i < b->stacked.n; i++)
        if (b->stacked.at[i] == value) return i;
    FB_VEC_PUSH(&b->stacked, value);
    return b->stacked.n - 1;
}

static bool is_new_body(const fb_tape *t, fb_id id)
{
    return t->g->nodes[id].region == t->inside->body;
}

/* What is to be stacked of a share: what the loop scans is there already, what stands outside is the same in all. */
static void stack_shares(fb_tape *t, build *b)
{
    fb_reversal *v = t->inside;
    b->of_share = fb_alloc((size_t)(2 * v->shares.n + 1) * sizeof *b->of_share);
    for (int i = 0; i < v->shares.n; i++) {
        share *s = &v->shares.at[i];
        int *of = &b->of_share[2 * i];
        of[0] = of[1] = -1;
        if (s->kind == SHARE_ADDED) continue;
        of[0] = stack(b, s->value);
        if (s->kind != SHARE_PRODUCT || !is_new_body(t, s->a)) continue;
        const fb_node *a = &t->g->nodes[s->a];
        if (a->op == FB_OP_ITEM)
            s->all_a = b->scanned.at[a->attrs->index];
        else
            of[1] = stack(b, s->a);
    }
}

/* Under a transposition, if that is what it is. */
static fb_id base_of(const fb_tape *t, fb_id id)
{
    const fb_node *n = &t->g->nodes[id];
    return n->op == FB_OP_PERMUTE && n->attrs->n_axes == 2 && n->attrs->axes[0] == 1 ? n->args[0] : id;
}

/* Gradients of items. Each a product with the same matrix, they are one product after the loop. */
static void stack_items(fb_tape *t, build *b)
{
    fb_reversal *v = t->inside;
    for (int k = 0; k < v->r.n_items; k++) {
        fb_id item = v->r.items[k];
        b->of_scanned[k] = -1;
        b->by[k] = FB_NONE;
        if (!fb_tape_wants(t, item) || t->gradient[item] == FB_NONE) continue;
        const fb_node *given = &t->g->nodes[t->gradient[item]];
        bool after = given->op == FB_OP_MATMUL && is_new_body(t, t->gradient[item]) && !t->through.step_by_step &&
                     t->g->nodes[given->args[1]].shape.rank == 2 && !is_new_body(t, base_of(t, given->args[1]));
        if (after) {
            b->by[k] = base_of(t, given->args[1]);
            b->turned[k] = b->by[k] != given->args[1];
            b->precision[k] = given->attrs->precision;
        }
        b->of_scanned[k] = stack(b, after ? given->args[0] : t->gradient[item]);
    }
}

/* The next gradients of the states, and the next sums. */
static void yield(fb_tape *t, build *b, fb_id *yields)
{
    fb_reversal *v = t->inside;
    for (int i = 0; i < v->r.n_carried && !t->failed; i++) {
        fb_id in = v->r.carried[i];
        if (b->state[i] < 0) continue;
        bool any = fb_tape_wants(t, in) && t->gradient[in] != FB_NONE;
        yields[b->state[i]] = any ? truncated(t, t->gradient[in]) : fb_tape_filled_like(t, v->r.yields[i], 0);
    }
    for (int i = 0; i < v->added.n; i++) yields[b->first_sum + i] = b->carried[b->first_sum + i];
    for (int i = 0; i < v->shares.n && !t->failed; i++) {
        const share *s = &v->shares.at[i];
        if (s->kind != SHARE_ADDED) continue;
        int at = b->first_sum + added_at(v, s->to);
        fb_shape shape = t->g->nodes[s->to].shape;
        fb_id value = fb_tape_view(t, cast(t, s->value, sum_dtype(t->g->nodes[s->to].dtype)), shape);
        yields[at] = two(t, FB_OP_ADD, yields[at], value);
    }
}

/* What adds up, from the finished loop: `to` may be a value of the first body that stands outside. */
static void give_share(fb_tape *t, const share *s)
{
    if (s->kind == SHARE_SUMMED) {
        fb_tape_give(t, s->to, s->all);
    } else if (s->all_a != FB_NONE) {
        fb_tape_give(t, s->to, fb_tape_product_gradient(t, s->to, s->all_a, s->all, &s->at));
    } else { /* the same left operand in every step */
        fb_id sum = fb_tape_put(t, FB_OP_SUM, &s->all, 1, &(fb_attrs){.n_axes = 1, .axes = {0}});
        fb_tape_give(t, s->to, fb_tape_product_gradient(t, s->to, s->a, sum, &s->at));
    }
}

static fb_id of_items(fb_tape *t, const build *b, int k, fb_id all)
{
    fb_id by = b->by[k];
    if (by == FB_NONE || t->failed) return all;
    if (b->turned[k]) by = fb_tape_put(t, FB_OP_PERMUTE, &by, 1, &(fb_attrs){.n_axes = 2, .axes = {1, 0}});
    return fb_tape_put(t, FB_OP_MATMUL, (fb_id[]){all, by}, 2, &(fb_attrs){.precision = b->precision[k]});
}

/* After the loop: what stood still in the first body is differentiated here, once. */
static bool finish(fb_tape *t, build *b, fb_id back)
{
    fb_reversal *v = t->inside;
    const fb_node loop = t->g->nodes[v->loop];
    fb_id *all = fb_alloc((size_t)(b->inits.n + b->stacked.n + 1) * sizeof *all);
    for (int i = 0; i < b->inits.n + b->stacked.n; i++) all[i] = result(t, back, i, NULL);
    for (int i = 0; i < v->shares.n; i++) {
        share *s = &v->shares.at[i];
        if (b->of_share[2 * i] >= 0) s->all = all[b->inits.n + b->of_share[2 * i]];
        if (b->of_share[2 * i + 1] >= 0) s->all_a = all[b->inits.n + b->of_share[2 * i + 1]];
    }
    forget_gradients(t, v);
    for (int i = 0; i < v->n; i++)
        if (v->stand[i] != FB_NONE && is_new_body(t, v->stand[i])) v->stand[i] = FB_NONE;
    v->over = true;
    for (int i = 0; i < v->r.n_carried; i++)
        if (b->state[i] >= 0) fb_tape_give(t, loop.args[i], all[b->state[i]]);
    for (int k = 0; k < v->r.n_items && !t->failed; k++)
        if (b->of_scanned[k] >= 0)
            fb_tape_give(t, loop.args[v->r.n_carried + k], of_items(t, b, k, all[b->inits.n + b->of_scanned[k]]));
    for (int i = 0; i < v->added.n && !t->failed; i++) {
        fb_id to = v->added.at[i];
        fb_tape_give(t, to, cast(t, all[b->first_sum + i], t->g->nodes[to].dtype));
    }
    for (int i = 0; i < v->shares.n && !t->failed; i++)
        if (v->shares.at[i].kind != SHARE_ADDED) give_share(t, &v->shares.at[i]);
    bool good = !t->failed;
    for (fb_id id = v->loop - 1; id >= v->first && good; id--)
        if (is_body(v, id) && v->still[id - v->first]) good = fb_tape_differentiate(t, id);
    forget_gradients(t, v);
    fb_free(all);
    return good;
}

static bool build_back(fb_tape *t)
{
    fb_reversal *v = t->inside;
    build b = {0};
    int stacked = v->r.n_stacked + v->r.n_carried + v->n; /* the loop may come to collect more */
    b.of_item = fb_alloc((size_t)(v->n + 1) * sizeof *b.of_item);
    b.gradient = fb_alloc((size_t)(stacked + 1) * sizeof *b.gradient);
    b.state = fb_alloc((size_t)(v->r.n_carried + 1) * sizeof *b.state);
    b.of_scanned = fb_alloc((size_t)(v->r.n_items + 1) * sizeof *b.of_scanned);
    b.by = fb_alloc((size_t)(v->r.n_items + 1) * sizeof *b.by);
    b.turned = fb_calloc((size_t)(v->r.n_items + 1), sizeof *b.turned);
    b.precision = fb_calloc((size_t)(v->r.n_items + 1), sizeof *b.precision);
    b.ends = fb_alloc((size_t)(v->r.n_carried + 1) * sizeof *b.ends);
    b.collected = fb_alloc((size_t)(stacked + 1) * sizeof *b.collected);
    add_sources(t, &b);
    add_states(t, &b);
    bool good = open_body(t, &b);
    if (good) tell_time(t);
    good = good && walk(t, b.ends, b.collected);
    if (good) {
        fb_id *yields = fb_alloc((size_t)(b.inits.n + 1) * sizeof *yields), back = FB_NONE;
        stack_shares(t, &b);
        stack_items(t, &b);
        yield(t, &b, yields);
        if (!t->failed) back = fb_graph_region_close(t->g, yields, b.stacked.at, b.stacked.n, t->err);
        good = back != FB_NONE && finish(t, &b, back);
        fb_free(yields);
    }
    FB_VEC_FREE(&b.inits);
    FB_VEC_FREE(&b.scanned);
    FB_VEC_FREE(&b.stacked);
    fb_free(b.carried);
    fb_free(b.of_item);
    fb_free(b.gradient);
    fb_free(b.state);
    fb_free(b.of_scanned);
    fb_free(b.by);
    fb_free(b.turned);
    fb_free(b.precision);
    fb_free(b.ends);
    fb_free(b.collected);
    fb_free(b.of_share);
    return good;
}

/* ---- one loop ---- */

/* Values of the body that depend on no step: neither state nor item, counter, or feed. */
static void find_still(const fb_graph *g, fb_reversal *v)
{
    for (int i = 0; i < v->n; i++) {
        const fb_node *n = &g->nodes[v->first + i];
        v->inside[i] = n->region == v->region;
        if (!v->inside[i]) continue;
        fb_op_class cls = fb_op_get(n->op)->cls;
        v->still[i] = cls != FB_CLASS_EFFECT && n->op != FB_OP_CARRIED && n->op != FB_OP_ITEM && n->op != FB_OP_STEP &&
                      n->op != FB_OP_INPUT && n->op != FB_OP_PARAM;
        for (int k = 0; k < n->n_args && v->still[i]; k++) v->still[i] = is_still(v, n->args[k]);
    }
}

static bool reverse(fb_tape *t, fb_id loop, fb_id start)
{
    fb_id region = t->g->nodes[loop].attrs->region;
    fb_reversal v = {.around = t->inside, .region = region, .r = t->g->regions[region], .loop = loop, .start = start};
    for (v.first = loop; v.first > 0 && fb_region_within(t->g, t->g->nodes[v.first - 1].region, region);) v.first--;
    v.n = loop - v.first;
    bool *facts = fb_calloc((size_t)(7 * v.n) + 1, sizeof *facts);
    v.inside = facts;
    v.still = facts + v.n;
    v.needed = facts + 2 * v.n;
    v.used = facts + 3 * v.n;
    v.kept = facts + 4 * v.n;
    v.there = facts + 5 * v.n;
    v.asked = facts + 6 * v.n;
    v.stand = fb_alloc((size_t)(v.n + 1) * sizeof *v.stand);
    clear(&v);
    find_still(t->g, &v);
    t->inside = &v;
    bool good = try(t);
    if (good) choose_kept(t);
    good = good && build_back(t);
    t->inside = v.around;
    FB_VEC_FREE(&v.shares);
    FB_VEC_FREE(&v.pieces);
    FB_VEC_FREE(&v.added);
    fb_free(facts);
    fb_free(v.stand);
    return good;
}

/* ---- segments ---- */

typedef struct {
    fb_region r; /* of the whole loop */
    fb_id loop, first;
    int64_t length, count; /* of a segment in steps, and how many */
    ids outside;           /* wanted values that the body reads from outside */
    fb_id *saved;          /* their gradients up to here */
    ids inits, scanned;
    fb_id *carried, *items;
    fb_id *stand;                       /* by id - first: in the loop that runs the steps again */
    int *state, *given, *before, *over; /* of carried value, collected value, carried value, scanned tensor */
    fb_id start;
} segments;

static void add_outside(fb_tape *t, segments *s, fb_id id)
{
    if (!fb_tape_wants(t, id) || fb_region_within(t->g, t->g->nodes[id].region, t->g->nodes[s->loop].attrs->region))
        return;
    for (int i = 0; i < s->outside.n; i++)
        if (s->outside.at[i] == id) return;
    FB_VEC_PUSH(&s->outside, id);
}

static void find_outside(fb_tape *t, segments *s)
{
    for (fb_id id = s->first; id < s->loop; id++)
        for (int k = 0; k < t->g->nodes[id].n_args; k++) add_outside(t, s, t->g->nodes[id].args[k]);
    for (int i = 0; i < s->r.n_carried; i++) add_outside(t, s, s->r.yields[i]);
    for (int j = 0; j < s->r.n_stacked; j++) add_outside(t, s, s->r.stacked[j]);
}

/* [trips, …] as [count, length, …] */
static fb_id in_segments(fb_tape *t, const segments *s, fb_id x)
{
    if (x == FB_NONE || t->failed) return FB_NONE;
    fb_shape from = t->g->nodes[x].shape, to = {.rank = from.rank + 1, .dim = {s->count, s->length}};
    if (from.rank == FB_MAX_RANK) {
        t->failed = true;
        return fb_fail(t->err, FB_ERR_INPUT, "grad: %s has too many dimensions to be taken in segments",
                       t->g->nodes[x].name),
               FB_NONE;
    }
    for (int d = 1; d < from.rank; d++) to.dim[d + 1] = from.dim[d];
    return fb_tape_view(t, x, to);
}

static void add_segment_sources(fb_tape *t, segments *s)
{
    const fb_node loop = t->g->nodes[s->loop];
    fb_id region = loop.attrs->region;
    int stacked = s->r.n_stacked;
    for (int i = 0; i < s->r.n_carried && !t->failed; i++) {
        int index = s->count > 1 ? fb_build_stack(t->g, region, s->r.yields[i], (int32_t)s->length) : 0;
        fb_id ends = s->count > 1 ? result(t, s->loop, index, "states") : FB_NONE;
        s->before[i] = s->scanned.n;
        FB_VEC_PUSH(&s->scanned, states_before(t, loop.args[i], ends, s->r.backwards));
        fb_id given = gradient_of_results(t, s->loop, i);
        s->state[i] = -1;
        if (!fb_tape_wants(t, s->r.carried[i]) && given == FB_NONE) continue;
        s->state[i] = s->inits.n;
        FB_VEC_PUSH(&s->inits, given != FB_NONE ? given : fb_tape_filled_like(t, s->r.yields[i], 0));
    }
    for (int k = 0; k < s->r.n_items; k++) {
        s->over[k] = s->scanned.n;
        FB_VEC_PUSH(&s->scanned, in_segments(t, s, loop.args[s->r.n_carried + k]));
    }
    for (int j = 0; j < stacked; j++) {
        fb_id given = gradient_of_results(t, s->loop, s->r.n_carried + j);
        s->given[j] = given == FB_NONE ? -1 : s->scanned.n;
        if (given != FB_NONE) FB_VEC_PUSH(&s->scanned, in_segments(t, s, given));
    }
    for (int i = 0; i < s->outside.n && !t->failed; i++) {
        const fb_node n = t->g->nodes[s->outside.at[i]];
        FB_VEC_PUSH(&s->inits, zeros(t, n.shape, sum_dtype(n.dtype)));
    }
}

static void copy_facts(fb_tape *t, fb_id from, fb_id to)
{
    t->wanted[to] = t->wanted[from];
    t->detached[to] = t->detached[from];
}

/* The body's nodes once more, in the loop over a segment that is open. */
static void run_again(fb_tape *t, segments *s, const fb_id *carried, const fb_id *items)
{
    fb_id region = t->g->nodes[s->loop].attrs->region, time = FB_NONE;
    for (fb_id id = s->first; id < s->loop && !t->failed; id++) {
        fb_node n = t->g->nodes[id];
        fb_id *stand = &s->stand[id - s->first];
        if (n.op == FB_OP_CARRIED) {
            *stand = carried[n.attrs->index];
        } else if (n.op == FB_OP_ITEM) {
            *stand = items[n.attrs->index];
        } else if (n.op == FB_OP_STEP) {
            if (time == FB_NONE) time = two(t, FB_OP_ADD, fb_tape_put(t, FB_OP_STEP, NULL, 0, NULL), s->start);
            *stand = time;
        } else {
            fb_id *args = fb_alloc((size_t)(n.n_args + 1) * sizeof *args);
            for (int k = 0; k < n.n_args; k++) {
                bool within = fb_region_within(t->g, t->g->nodes[n.args[k]].region, region);
                args[k] = within ? s->stand[n.args[k] - s->first] : n.args[k];
            }
            n.args = args;
            *stand = again(t, &n);
            fb_free(args);
        }
    }
}

static fb_id stands(const segments *s, fb_id id)
{
    return id >= s->first && id < s->loop ? s->stand[id - s->first] : id;
}

/* The loop that runs a segment's steps again; its results get the gradients that the segment begins with. */
static fb_id loop_again(fb_tape *t, segments *s)
{
    int n = s->r.n_carried, m = s->r.n_items;
    fb_id *of = fb_alloc((size_t)(3 * n + 2 * m + s->r.n_stacked + 1) * sizeof *of);
    fb_id *inits = of, *over = inits + n, *carried = over + m, *items = carried + n, *yields = items + m,
          *stacked = yields + n;
    int n_stacked = 0;
    for (int i = 0; i < n; i++) inits[i] = s->items[s->before[i]];
    for (int k = 0; k < m; k++) over[k] = s->items[s->over[k]];
    fb_id loop = FB_NONE;
    if (fb_graph_region_open(t->g, s->length, inits, n, over, m, carried, items, t->line, t->err) == FB_NONE) goto end;
    if (s->r.backwards) fb_graph_region_turn(t->g);
    run_again(t, s, carried, items);
    for (int i = 0; i < n; i++) yields[i] = stands(s, s->r.yields[i]);
    for (int j = 0; j < s->r.n_stacked; j++)
        if (s->given[j] >= 0) stacked[n_stacked++] = stands(s, s->r.stacked[j]);
    if (!t->failed) loop = fb_graph_region_close(t->g, yields, stacked, n_stacked, t->err);
    if (loop == FB_NONE) goto end;
    for (int i = 0; i < n + n_stacked; i++) yields[i] = result(t, loop, i, NULL); /* there is room: stacked follows */
    if (t->failed) goto end;
    fb_tape_grow(t);
    for (fb_id id = s->first; id < s->loop; id++)
        if (s->stand[id - s->first] != FB_NONE) copy_facts(t, id, s->stand[id - s->first]);
    for (int i = 0; i < n; i++) {
        t->wanted[inits[i]] = fb_tape_wants(t, s->r.carried[i]);
        if (s->state[i] < 0) continue;
        t->wanted[yields[i]] = true;
        t->gradient[yields[i]] = s->carried[s->state[i]];
    }
    for (int k = 0; k < m; k++) t->wanted[over[k]] = fb_tape_wants(t, s->r.items[k]);
    for (int j = 0, at = n; j < s->r.n_stacked; j++) {
        if (s->given[j] < 0) continue;
        t->wanted[yields[at]] = true;
        t->gradient[yields[at++]] = s->items[s->given[j]];
    }
end:
    fb_free(of);
    return loop;
}

/* The segment's gradients: of the state before it, of its items, and of what lies outside, added up. */
static fb_id close_segments(fb_tape *t, segments *s, int *of_scanned)
{
    ids stacked = {0};
    fb_id *yields = fb_alloc((size_t)(s->inits.n + 1) * sizeof *yields), back = FB_NONE;
    for (int i = 0; i < s->r.n_carried && !t->failed; i++) {
        if (s->state[i] < 0) continue;
        fb_id given = t->gradient[s->items[s->before[i]]];
        yields[s->state[i]] = given != FB_NONE ? given : fb_tape_filled_like(t, s->r.yields[i], 0);
    }
    for (int i = 0; i < s->outside.n && !t->failed; i++) {
        fb_id id = s->outside.at[i], given = t->gradient[id];
        int at = s->inits.n - s->outside.n + i;
        yields[at] = s->carried[at];
        if (given != FB_NONE)
            yields[at] = two(t, FB_OP_ADD, yields[at], cast(t, given, sum_dtype(t->g->nodes[id].dtype)));
    }
    for (int k = 0; k < s->r.n_items; k++) {
        fb_id given = t->gradient[s->items[s->over[k]]];
        of_scanned[k] = given == FB_NONE ? -1 : stacked.n;
        if (given != FB_NONE) FB_VEC_PUSH(&stacked, given);
    }
    if (!t->failed) back = fb_graph_region_close(t->g, yields, stacked.at, stacked.n, t->err);
    fb_free(yields);
    FB_VEC_FREE(&stacked);
    return back;
}

static void give_segments(fb_tape *t, segments *s, fb_id back, const int *of_scanned)
{
    const fb_node loop = t->g->nodes[s->loop];
    for (int i = 0; i < s->r.n_carried && !t->failed; i++)
        if (s->state[i] >= 0) fb_tape_give(t, loop.args[i], result(t, back, s->state[i], NULL));
    for (int k = 0; k < s->r.n_items && !t->failed; k++) {
        fb_id over = loop.args[s->r.n_carried + k];
        if (of_scanned[k] < 0) continue;
        fb_id all = result(t, back, s->inits.n + of_scanned[k], NULL);
        fb_tape_give(t, over, fb_tape_view(t, all, t->g->nodes[over].shape));
    }
    for (int i = 0; i < s->outside.n && !t->failed; i++) {
        fb_id id = s->outside.at[i];
        fb_tape_give(t, id, cast(t, result(t, back, s->inits.n - s->outside.n + i, NULL), t->g->nodes[id].dtype));
    }
}

static bool open_segments(fb_tape *t, segments *s)
{
    s->carried = fb_alloc((size_t)(s->inits.n + s->scanned.n + 1) * sizeof *s->carried);
    s->items = s->carried + s->inits.n;
    if (t->failed || fb_graph_region_open(t->g, s->count, s->inits.at, s->inits.n, s->scanned.at, s->scanned.n,
                                          s->carried, s->items, t->line, t->err) == FB_NONE)
        return false;
    if (!s->r.backwards) fb_graph_region_turn(t->g);
    fb_id segment = two(t, FB_OP_SUB, count(t, s->count - 1), fb_tape_put(t, FB_OP_STEP, NULL, 0, NULL));
    s->start = two(t, FB_OP_MUL, segment, count(t, s->length));
    return !t->failed;
}

static bool reverse_in_segments(fb_tape *t, fb_id loop)
{
    segments s = {.r = t->g->regions[t->g->nodes[loop].attrs->region], .loop = loop, .length = t->through.every};
    s.count = s.r.trips / s.length;
    for (s.first = loop; s.first > 0 && t->g->nodes[s.first - 1].region == t->g->nodes[loop].attrs->region;) s.first--;
    int carried = s.r.n_carried, n = loop - s.first;
    s.stand = fb_alloc((size_t)(n + 1) * sizeof *s.stand);
    for (int i = 0; i < n; i++) s.stand[i] = FB_NONE;
    s.state = fb_alloc((size_t)(2 * (carried + s.r.n_items) + s.r.n_stacked + 1) * sizeof *s.state);
    s.before = s.state + carried;
    s.over = s.before + carried;
    int *of_scanned = s.over + s.r.n_items;
    s.given = of_scanned + s.r.n_items;
    find_outside(t, &s);
    s.saved = fb_alloc((size_t)(s.outside.n + 1) * sizeof *s.saved);
    add_segment_sources(t, &s);
    bool good = open_segments(t, &s);
    for (int i = 0; i < s.outside.n; i++) {
        s.saved[i] = t->gradient[s.outside.at[i]];
        t->gradient[s.outside.at[i]] = FB_NONE;
    }
    fb_id inner = good ? loop_again(t, &s) : FB_NONE;
    fb_through through = t->through;
    t->through.recomputed = false; /* within a segment */
    good = inner != FB_NONE && reverse(t, inner, s.start);
    t->through = through;
    fb_id back = good ? close_segments(t, &s, of_scanned) : FB_NONE;
    for (int i = 0; i < s.outside.n; i++) t->gradient[s.outside.at[i]] = s.saved[i];
    if (back != FB_NONE) give_segments(t, &s, back, of_scanned);
    good = back != FB_NONE && !t->failed;
    FB_VEC_FREE(&s.outside);
    FB_VEC_FREE(&s.inits);
    FB_VEC_FREE(&s.scanned);
    fb_free(s.saved);
    fb_free(s.carried);
    fb_free(s.stand);
    fb_free(s.state);
    return good;
}

/* ---- any loop on the way ---- */

static bool check_body(const fb_tape *t, fb_id loop, bool in_segments, fb_error *err)
{
    const fb_graph *g = t->g;
    fb_id region = g->nodes[loop].attrs->region;
    for (fb_id id = loop - 1; id >= 0 && fb_region_within(g, g->nodes[id].region, region); id--) {
        const fb_node *n = &g->nodes[id];
        const char *what = n->op == FB_OP_LOOP                               ? "a loop inside a loop"
                           : n->op == FB_OP_ASSIGN || n->op == FB_OP_RECEIVE ? "a loop whose body has an effect"
                           : in_segments && (n->op == FB_OP_FEED || n->op == FB_OP_INPUT || n->op == FB_OP_PARAM)
                               ? "steps that read a source of their own again"
                               : NULL;
        if (what)
            return fb_fail(err, FB_ERR_INPUT,
                           "grad: there is no derivative through %s (%s, line %d; the loop's line is %d)", what,
                           n->name, n->line, g->nodes[loop].line);
    }
    int64_t trips = g->regions[region].trips;
    if (in_segments && trips % t->through.every)
        return fb_fail(err, FB_ERR_INPUT, "grad: every = %lld does not divide the %lld steps of the loop of line %d",
                       (long long)t->through.every, (long long)trips, g->nodes[loop].line);
    return true;
}

bool fb_tape_loop(fb_tape *t, fb_id loop)
{
    const fb_region r = t->g->regions[t->g->nodes[loop].attrs->region];
    bool any = false;
    for (fb_id i = loop + 1; i < t->n && !any; i++) {
        const fb_node *n = &t->g->nodes[i];
        any = n->op == FB_OP_RESULT && n->args[0] == loop && t->gradient[i] != FB_NONE && !t->detached[i];
    }
    if (!any) return true;
    if (r.trips == 0) {
        const fb_node node = t->g->nodes[loop];
        for (int i = 0; i < r.n_carried && !t->failed; i++) {
            fb_id given = gradient_of_results(t, loop, i);
            if (given != FB_NONE) fb_tape_give(t, node.args[i], given);
        }
        return !t->failed;
    }
    bool in_segments = t->through.recomputed && t->through.every > 1 && r.trips > 1;
    if (!check_body(t, loop, in_segments, t->err)) return false;
    fb_id scope = fb_graph_scope_open(t->g, "through_time", FB_NONE, NULL, NULL, 0, NULL, t->line, t->err);
    if (scope == FB_NONE) return false;
    bool good = in_segments ? reverse_in_segments(t, loop) : reverse(t, loop, FB_NONE);
    return good && fb_graph_scope_close(t->g, NULL, 0, t->err);
}
