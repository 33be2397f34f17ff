/* What XLA launches on a GPU: its published rules on our graph (constants: decide/rules.c).
 *
 * 1. Normalisations of rows (softmax_rewriter_triton.cc): an operation on a tensor and a reduction of its rows is one
 *    kernel of tiles, where a row fits into the registers: layer_norm, softmax.
 * 2. Priority fusion (priority_fusion.cc): every value is a kernel at first. A producer goes into all of its readers,
 *    computed again in each, or into none. The one whose fusion is predicted to save most comes first, until none saves
 *    anything: t = max(compute, memory) + 0.05 · min(…), 1 µs a launch; what is read again comes out of L2 at 2.5 times
 *    or L1 at 8 times the bandwidth of memory. Tiles take in what keeps to their rows. Any other reduction ends its
 *    kernel, but for what goes on from its result alone. Products are library calls, but for
 *    small ones by a vector.
 * 3. Multi-output fusion (multi_output_fusion.cc): kernels with equal loops where one reads what the other stores, or
 *    both read the same, become one with several outputs; tiles do not.
 * 4. Horizontal fusion (horizontal_loop_fusion.cc): small kernels with equal loops that feed the same reader.
 *
 * tests/peers/xla.sh holds this against what XLA compiled at the bundled sizes and says where it is known to differ:
 * XLA measures whether to generate a product with what surrounds it, and fuses into scatters. Not checked: loops, and
 * sizes that leave most of a GPU idle, where its model counts blocks and this one does not. */
#include "decide/decide.h"

#include "decide/rules.h"
#include "graph/access.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    fb_id buffer;
    double times; /* how often each of its elements is read */
} xread;

typedef struct {
    bool gone;       /* inlined into all of its readers */
    double priority; /* as it last was; entries of the queue with another are stale */
    int ops, reductions;
    int64_t row; /* elements of the rows that its tiles hold whole; 0: it has no tiles */
    bool joins;  /* it holds what tiles cannot: cat, gathers, scans */
    double flops;
    FB_VEC(xread) reads;
} kernel;

typedef struct {
    double priority;
    fb_id node;
} entry;

typedef struct {
    fb_decider *d;
    const fb_graph *g;
    kernel *kernel;
    bool *closed; /* decided for good, or refused by the user */
    int *met;     /* the last walk that came by, of so many */
    int walks;
    bool late; /* nothing but reductions is left to take in what follows them */
    FB_VEC(entry) heap;
    fb_plan *model;
} xla;

static const char *name_of(const xla *w, fb_id n)
{
    return w->g->nodes[n].name;
}

/* ---- the performance model ---- */

/* Of the GPU that the rules are for, whatever machine this is: so the decisions are the same everywhere. */
static double memory_us(double bytes)
{
    return bytes / fb_constant_value(FB_XLA_MEMORY_GBS) * 1e-3;
}

static double read_us(const xla *w, const xread *r)
{
    enum { L1_BYTES = 128 << 10 };
    double net = (double)fb_node_bytes(w->g, r->buffer), all = net * r->times;
    double again = fb_constant_value(net <= L1_BYTES ? FB_XLA_L1_FACTOR : FB_XLA_L2_FACTOR);
    return all <= net ? memory_us(all) : memory_us(net) + memory_us(all - net) / again;
}

static double time_us(double flops, double mem)
{
    double compute = flops / fb_constant_value(FB_XLA_GFLOPS) * 1e-3;
    return fmax(compute, mem) + fb_constant_value(FB_XLA_OVERLAP) * fmin(compute, mem);
}

static double reads_us(const xla *w, fb_id k)
{
    double us = 0;
    for (int i = 0; i < w->kernel[k].reads.n; i++) us += read_us(w, &w->kernel[k].reads.at[i]);
    return us;
}

static double kernel_us(const xla *w, fb_id k)
{
    return time_us(w->kernel[k].flops, reads_us(w, k) + memory_us((double)fb_node_bytes(w->g, k)));
}

static double times_read(const kernel *k, fb_id buffer)
{
    for (int i = 0; i < k->reads.n; i++)
        if (k->reads.at[i].buffer == buffer) return k->reads.at[i].times;
    return 0;
}

static void add_read(kernel *k, fb_id buffer, double times)
{
    for (int i = 0; i < k->reads.n; i++) {
        if (k->reads.at[i].buffer != buffer) continue;
        k->reads.at[i].times += times;
        return;
    }
    FB_VEC_PUSH(&k->reads, (xread){buffer, times});
}

/* How often `c` would compute an element of `p`: a tile has all that is read of a row at once. */
static double times_computed(const xla *w, fb_id p, fb_id c)
{
    double times = times_read(&w->kernel[c], p);
    return w->kernel[p].row || w->kernel[c].row ? fmin(times, 1) : times;
}

/* Time of reader `c` with `p` computed inside. What both read already is not read a second time from memory. */
static double fused_us(const xla *w, fb_id p, fb_id c)
{
    const kernel *kp = &w->kernel[p], *kc = &w->kernel[c];
    double times = times_computed(w, p, c), mem = memory_us((double)fb_node_bytes(w->g, c));
    for (int i = 0; i < kc->reads.n; i++) {
        xread r = kc->reads.at[i];
        if (r.buffer == p) continue;
        r.times += times * times_read(kp, r.buffer);
        mem += read_us(w, &r);
    }
    for (int i = 0; i < kp->reads.n; i++) {
        xread r = kp->reads.at[i];
        if (times_read(kc, r.buffer) > 0) continue;
        r.times *= times;
        mem += read_us(w, &r);
    }
    return time_us(kc->flops + times * kp->flops, mem);
}

/* ---- priority fusion ---- */

static int64_t last_dim(const fb_shape *s)
{
    return s->rank > 0 ? s->dim[s->rank - 1] : 1;
}

/* A matrix by a vector, unless it is large, is multiplied and summed, not called. */
static bool is_dot(const xla *w, fb_id n)
{
    const fb_node *node = &w->g->nodes[n];
    return node->op == FB_OP_MATMUL && last_dim(&node->shape) == 1 &&
           (double)fb_shape_elements(&w->g->nodes[node->args[0]].shape) < fb_constant_value(FB_XLA_DOT);
}

static bool is_library(const xla *w, fb_id n)
{
    if (is_dot(w, n)) return false;
    return fb_node_class(w->g, n) == FB_CLASS_CONTRACTION || w->g->nodes[n].op == FB_OP_SCATTER_ADD;
}

static bool is_reduction(const xla *w, fb_id n)
{
    fb_op_class c = fb_node_class(w->g, n);
    return c == FB_CLASS_REDUCTION || c == FB_CLASS_SCAN || is_dot(w, n);
}

/* Does `n` reduce the last dim of its first operand and nothing else? */
static bool reduces_rows(const xla *w, fb_id n)
{
    const fb_node *node = &w->g->nodes[n];
    if (is_dot(w, n)) return true;
    return fb_node_class(w->g, n) == FB_CLASS_REDUCTION && node->attrs->n_axes == 1 &&
           node->attrs->axes[0] == w->g->nodes[node->args[0]].shape.rank - 1;
}

static double flops_of(const xla *w, fb_id n)
{
    static const fb_constant cost[FB_OPS] = {
#define FB_XLA_OF_XLA(CONSTANT) FB_XLA_##CONSTANT
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, SPELLED, COST, XLA, ...)                         \
    [FB_OP_##ID] = FB_XLA_OF_##XLA,
#include "graph/ops.def"
#undef POINTWISE
        [FB_OP_SUM] = FB_XLA_ADD,
        [FB_OP_MEAN] = FB_XLA_ADD,
    };
    const fb_node *node = &w->g->nodes[n];
    fb_op_class class = fb_node_class(w->g, n);
    if (class != FB_CLASS_POINTWISE && class != FB_CLASS_REDUCTION) return (double)fb_node_flops(w->g, n);
    const fb_shape *over = class == FB_CLASS_REDUCTION ? &w->g->nodes[node->args[0]].shape : &node->shape;
    fb_constant c = cost[node->op];
    return (double)fb_shape_elements(over) * fb_constant_value(c ? c : FB_XLA_OP);
}

static void start_kernels(xla *w)
{
    const fb_graph *g = w->g;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        const fb_node *n = &g->nodes[i];
        kernel *k = &w->kernel[i];
        k->ops = 1;
        k->reductions = is_reduction(w, i);
        fb_op_class class = fb_node_class(g, i);
        k->joins = class == FB_CLASS_JOIN || class == FB_CLASS_GATHER || class == FB_CLASS_SCAN;
        k->flops = flops_of(w, i);
        for (int a = n->op == FB_OP_ASSIGN; a < n->n_args; a++) {
            fb_id base = fb_access_base(g, n->args[a]);
            bool again = false; /* the same operand twice is one element read */
            for (int b = n->op == FB_OP_ASSIGN; b < a; b++) again |= n->args[b] == n->args[a];
            if (again) continue;
            if (!fb_node_is_computed(g, base) && !fb_judge_has_storage(g->nodes[base].op)) continue;
            bool loops = fb_node_class(g, i) == FB_CLASS_POINTWISE || n->op == FB_OP_EMBEDDING;
            double touched = (double)fb_shape_elements(loops ? &n->shape : &g->nodes[n->args[a]].shape);
            double own = (double)fb_shape_elements(&g->nodes[base].shape);
            add_read(k, base, own > 0 ? touched / own : 0);
        }
    }
}

/* The kernels that read `p` now, each once. No node is passed twice: of what reads one thing twice, again and again, there
 * are more ways through than steps in a lifetime. */
static void readers_of(xla *w, fb_id p, fb_ids *out)
{
    fb_ids stack = {0};
    const fb_deps *d = w->d->planner->deps;
    w->walks++;
    FB_VEC_PUSH(&stack, p);
    while (stack.n) {
        fb_id at = stack.at[--stack.n];
        for (int k = d->out_start[at]; k < d->out_start[at + 1]; k++) {
            fb_id c = d->edges[d->out[k]].consumer;
            if (d->edges[d->out[k]].order_only || w->met[c] == w->walks) continue;
            w->met[c] = w->walks;
            if (fb_node_is_computed(w->g, c) && w->kernel[c].gone)
                FB_VEC_PUSH(&stack, c);
            else
                FB_VEC_PUSH(out, c);
        }
    }
    FB_VEC_FREE(&stack);
}

/* Tiles of whole rows in one of the two: NULL, or why what both do is no tile (symbolic_tile_analysis.cc). */
static const char *not_tiled(const xla *w, fb_id p, fb_id c)
{
    const kernel *kp = &w->kernel[p], *kc = &w->kernel[c];
    const fb_shape *from = &w->g->nodes[p].shape, *to = &w->g->nodes[c].shape;
    if (kp->joins || kc->joins) return "a tile holds no cat, gather or running value";
    if (kp->row && kc->row && kp->row != kc->row) return "its rows are not as long as its reader's";
    if (!kp->row) return kp->reductions ? "it holds a reduction, and its reader's tiles hold whole rows" : NULL;
    if (is_reduction(w, c) && kc->reductions == 1) {
        const fb_shape *over = &w->g->nodes[w->g->nodes[c].args[0]].shape;
        bool rows = reduces_rows(w, c) && last_dim(over) == last_dim(from);
        return rows ? NULL : "its tiles hold whole rows, and its reader sums across rows";
    }
    if (kc->reductions && !kc->row) return "its reader reduces, but not along rows";
    bool same = fb_shape_elements(from) == fb_shape_elements(to) && last_dim(from) == last_dim(to);
    bool spread = last_dim(from) == 1 && fb_shape_elements(from) * last_dim(to) == fb_shape_elements(to);
    bool summed = kc->row == last_dim(from) && fb_shape_elements(from) == fb_shape_elements(to) * kc->row;
    return same || spread || summed ? NULL : "its reader's tiles are other ones";
}

/* What is computed from a reduction alone, element by element, still ends the kernel of a reduction; with another
 * operand it would become a loop. */
static bool is_epilogue(const xla *w, fb_id p, fb_id c)
{
    const kernel *kc = &w->kernel[c];
    return fb_node_class(w->g, c) == FB_CLASS_POINTWISE && !kc->reductions && kc->reads.n == 1 &&
           fb_shape_elements(&w->g->nodes[p].shape) == fb_shape_elements(&w->g->nodes[c].shape);
}

/* NULL, or the rule that keeps `p` apart from its reader `c`. */
static const char *kept_apart(const xla *w, fb_id p, fb_id c, char text[256])
{
    const kernel *kp = &w->kernel[p], *kc = &w->kernel[c];
    if (!fb_node_is_computed(w->g, c)) return "a loop reads it";
    if (is_library(w, c)) {
        snprintf(text, 256, "`%s` reads it and is a library call", name_of(w, c));
        return text;
    }
    int operands = kp->reads.n + kc->reads.n;
    if (operands > fb_constant_value(FB_XLA_OPERANDS)) {
        snprintf(text, 256, "with `%s` it would read %d tensors; %.0f is the most, outputs counted", name_of(w, c),
                 operands, fb_constant_value(FB_XLA_OPERANDS));
        return text;
    }
    if (kp->row || kc->row) return not_tiled(w, p, c);
    if (kp->joins && kp->reductions) return "a running value ends its kernel and joins no other";
    if (kp->reductions && !is_epilogue(w, p, c)) {
        snprintf(text, 256, "it ends in a reduction, and `%s` needs more than its result", name_of(w, c));
        return text;
    }
    return NULL;
}

/* NULL, or the rule that keeps `p` a kernel. */
static const char *forbidden(const xla *w, fb_id p, const fb_ids *readers, char text[256])
{
    if (w->d->planner->keep[p] || readers->n == 0) return "it is an output: it has to be stored";
    if (is_library(w, p)) return "it is a library call";
    for (int i = 0; i < readers->n; i++) {
        const char *why = kept_apart(w, p, readers->at[i], text);
        if (why) return why;
    }
    return NULL;
}

static double priority_of(const xla *w, fb_id p, const fb_ids *readers)
{
    double us = kernel_us(w, p) + fb_constant_value(FB_XLA_LAUNCH_US);
    for (int i = 0; i < readers->n; i++) us += kernel_us(w, readers->at[i]) - fused_us(w, p, readers->at[i]);
    return us;
}

static bool before(const entry *a, const entry *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->node > b->node;
}

static void sink(xla *w, int i)
{
    for (int child; (child = 2 * i + 1) < w->heap.n; i = child) {
        if (child + 1 < w->heap.n && before(&w->heap.at[child + 1], &w->heap.at[child])) child++;
        if (!before(&w->heap.at[child], &w->heap.at[i])) return;
        entry t = w->heap.at[i];
        w->heap.at[i] = w->heap.at[child];
        w->heap.at[child] = t;
    }
}

static void push(xla *w, double priority, fb_id node)
{
    if (w->kernel[node].priority == priority) return;
    w->kernel[node].priority = priority;
    FB_VEC_PUSH(&w->heap, (entry){priority, node});
    for (int i = w->heap.n - 1, up; i > 0 && before(&w->heap.at[i], &w->heap.at[up = (i - 1) / 2]); i = up) {
        entry t = w->heap.at[i];
        w->heap.at[i] = w->heap.at[up];
        w->heap.at[up] = t;
    }
}

static entry pop(xla *w)
{
    entry top = w->heap.at[0];
    w->heap.at[0] = w->heap.at[--w->heap.n];
    sink(w, 0);
    return top;
}

static void push_if_saving(xla *w, fb_id p)
{
    fb_ids readers = {0};
    char text[256];
    if (!fb_node_is_computed(w->g, p) || w->closed[p] || w->kernel[p].gone) return;
    if (w->kernel[p].reductions && !w->kernel[p].row && !w->late) return;
    readers_of(w, p, &readers);
    if (!forbidden(w, p, &readers, text)) {
        double us = priority_of(w, p, &readers);
        if (us >= 0) push(w, us, p);
    }
    FB_VEC_FREE(&readers);
}

/* Kernel c, which has the value of p `times` times in it, reads what p read instead of p. */
static void read_through(xla *w, fb_id c, fb_id p, double times)
{
    kernel *kc = &w->kernel[c];
    const kernel *kp = &w->kernel[p];
    for (int k = 0; k < kc->reads.n; k++)
        if (kc->reads.at[k].buffer == p) kc->reads.at[k--] = kc->reads.at[--kc->reads.n];
    for (int k = 0; k < kp->reads.n; k++) add_read(kc, kp->reads.at[k].buffer, times * kp->reads.at[k].times);
}

static void absorb(xla *w, fb_id p, fb_id c)
{
    const kernel *kp = &w->kernel[p];
    kernel *kc = &w->kernel[c];
    double times = times_computed(w, p, c);
    kc->flops += times * kp->flops;
    kc->ops += kp->ops;
    kc->reductions += kp->reductions;
    kc->joins |= kp->joins;
    read_through(w, c, p, times);
    if (kp->row) kc->row = kp->row;
    if (!kc->row) return;
    for (int k = 0; k < kc->reads.n; k++) { /* what is as large as the tiles together is read once */
        xread *r = &kc->reads.at[k];
        if (last_dim(&w->g->nodes[r->buffer].shape) == kc->row) r->times = fmin(r->times, 1);
    }
}

static void fuse(xla *w, fb_id p, const fb_ids *readers)
{
    const kernel *kp = &w->kernel[p];
    for (int i = 0; i < readers->n; i++) absorb(w, p, readers->at[i]);
    w->kernel[p].gone = true;
    for (int k = 0; k < kp->reads.n; k++) push_if_saving(w, kp->reads.at[k].buffer);
    for (int i = 0; i < readers->n; i++) push_if_saving(w, readers->at[i]);
}

/* The next best of the queue: among the first few of the heap, as far as a picture needs them. */
static int queue_shown(const xla *w, fb_id but, fb_candidate *to)
{
    int n = 0;
    for (int i = 0; i < w->heap.n && i < 4 * FB_STEP_OTHERS && n < FB_STEP_OTHERS; i++) {
        entry e = w->heap.at[i];
        if (e.node == but || w->kernel[e.node].gone || w->kernel[e.node].priority != e.priority) continue;
        int at = n++;
        for (; at > 0 && to[at - 1].score < e.priority; at--) to[at] = to[at - 1];
        to[at] = (fb_candidate){FB_STEP_INLINE, e.node, FB_NONE, e.priority};
    }
    return n;
}

/* A priority that has changed since it was computed goes back into the queue. */
static void decide_top(xla *w)
{
    entry top = pop(w);
    fb_ids readers = {0};
    char text[256];
    if (w->kernel[top.node].gone || w->closed[top.node] || w->kernel[top.node].priority != top.priority) return;
    readers_of(w, top.node, &readers);
    double us = forbidden(w, top.node, &readers, text) ? -1 : priority_of(w, top.node, &readers);
    if (us >= 0 && us < top.priority * (1 - 1e-9) && w->heap.n && us < w->heap.at[0].priority) {
        push(w, us, top.node);
    } else if (us >= 0) {
        fb_candidate others[FB_STEP_OTHERS], c = {FB_STEP_INLINE, top.node, FB_NONE, us};
        fb_beside beside = {others, queue_shown(w, top.node, others)};
        if (fb_decide(w->d, c, beside, "it saves most: %.2f µs, computed in %d kernel%s", us, readers.n,
                      readers.n == 1 ? "" : "s"))
            fuse(w, top.node, &readers);
        else
            w->closed[top.node] = true;
    }
    FB_VEC_FREE(&readers);
}

static void record_kept(xla *w)
{
    for (fb_id p = 0; p < w->g->n_nodes; p++) {
        fb_ids readers = {0};
        char text[256];
        if (!fb_node_is_computed(w->g, p) || w->kernel[p].gone || w->closed[p] || w->d->planner->keep[p]) continue;
        readers_of(w, p, &readers);
        fb_candidate c = {FB_STEP_INLINE, p, FB_NONE, NAN};
        const char *why = forbidden(w, p, &readers, text);
        if (why) {
            fb_decline_by_rule(w->d, c, (fb_beside){0}, "%s", why);
        } else {
            c.score = priority_of(w, p, &readers);
            fb_decline_by_rule(w->d, c, (fb_beside){0}, "it would cost %.2f µs more", -c.score);
        }
        FB_VEC_FREE(&readers);
    }
}

/* ---- normalisations of rows (softmax_rewriter_triton.cc) ---- */

/* The one node that reads `n`; FB_NONE where there are several, or it is stored anyway. */
static fb_id only_reader(const xla *w, fb_id n)
{
    const fb_deps *d = w->d->planner->deps;
    fb_id one = FB_NONE;
    if (w->d->planner->keep[n]) return FB_NONE;
    for (int k = d->out_start[n]; k < d->out_start[n + 1]; k++) {
        const fb_edge *e = &d->edges[d->out[k]];
        if (e->order_only) continue;
        if (one != FB_NONE && one != e->consumer) return FB_NONE;
        one = e->consumer;
    }
    return one;
}

/* Other shapes of the same elements are the same; any other view stands for itself. */
static fb_id through_shapes(const xla *w, fb_id n)
{
    fb_id base;
    return fb_access_whole(w->g, n, &base) ? base : n;
}

static bool is_splat(const xla *w, fb_id n, int arg)
{
    fb_id a = w->g->nodes[n].args[arg], base = fb_access_base(w->g, a);
    if (fb_node_is_computed(w->g, base)) return false;
    return fb_shape_elements(&w->g->nodes[a].shape) < fb_shape_elements(&w->g->nodes[n].shape);
}

/* The operand that `n` is a function of, its others being constants; FB_NONE where it has several or several read it.
 */
static fb_id trivial_operand(const xla *w, fb_id n)
{
    const fb_node *node = &w->g->nodes[n];
    if (!fb_node_is_computed(w->g, n) || fb_node_class(w->g, n) != FB_CLASS_POINTWISE || node->op == FB_OP_GELU ||
        only_reader(w, n) == FB_NONE)
        return FB_NONE;
    int at = 0;
    if (node->n_args == 2 && node->args[0] != node->args[1]) {
        at = is_splat(w, n, 0);
        if (at == is_splat(w, n, 1)) return FB_NONE;
    }
    return node->n_args <= 2 ? through_shapes(w, node->args[at]) : FB_NONE;
}

/* The reduction over rows that the second operand of `root` spreads again; `chain`: it and what lies between. */
static fb_id spread_reduction(const xla *w, fb_id root, fb_ids *chain)
{
    const fb_node *r = &w->g->nodes[root];
    const fb_shape *narrow = &w->g->nodes[r->args[1]].shape;
    if (last_dim(narrow) != 1 || fb_shape_elements(narrow) * last_dim(&r->shape) != fb_shape_elements(&r->shape))
        return FB_NONE;
    for (fb_id at = through_shapes(w, r->args[1]); at != FB_NONE; at = trivial_operand(w, at)) {
        if (!fb_node_is_computed(w->g, at) || only_reader(w, at) == FB_NONE) return FB_NONE;
        FB_VEC_PUSH(chain, at);
        if (is_reduction(w, at)) return reduces_rows(w, at) && !is_dot(w, at) ? at : FB_NONE;
    }
    return FB_NONE;
}

/* Is `root` an operation on rows and a reduction of the same rows? `chain`: all that lies between the two, from the
 * end. */
static bool closes_diamond(const xla *w, fb_id root, fb_ids *chain)
{
    const fb_node *r = &w->g->nodes[root];
    if (!fb_node_is_computed(w->g, root) || fb_node_class(w->g, root) != FB_CLASS_POINTWISE || r->n_args != 2 ||
        last_dim(&r->shape) < 2)
        return false;
    fb_id reduction = spread_reduction(w, root, chain);
    if (reduction == FB_NONE || w->g->nodes[reduction].region != r->region) return false;
    fb_id top = through_shapes(w, w->g->nodes[reduction].args[0]);
    for (fb_id next; (next = trivial_operand(w, top)) != FB_NONE; top = next) FB_VEC_PUSH(chain, top);
    for (fb_id at = through_shapes(w, r->args[0]); at != top; at = trivial_operand(w, at)) {
        if (at == FB_NONE || !fb_node_is_computed(w->g, at) || only_reader(w, at) == FB_NONE) return false;
        FB_VEC_PUSH(chain, at);
    }
    return fb_shape_elements(&w->g->nodes[top].shape) == fb_shape_elements(&r->shape);
}

static bool row_fits(int64_t row)
{
    double tile = 1;
    while (tile < (double)row) tile *= 2;
    return tile <= fb_constant_value(FB_XLA_TILE_REGISTERS) * fb_constant_value(FB_XLA_REGISTERS);
}

static void fuse_diamond(xla *w, fb_id root, const fb_ids *chain)
{
    int64_t row = last_dim(&w->g->nodes[root].shape);
    for (int i = 0; i < chain->n && !fb_decider_done(w->d); i++) {
        fb_candidate c = {FB_STEP_INLINE, chain->at[i], FB_NONE, NAN};
        if (!fb_decide(w->d, c, (fb_beside){0},
                       "a normalisation of rows of %lld elements that ends in `%s`: one kernel", (long long)row,
                       name_of(w, root))) {
            w->closed[chain->at[i]] = true;
            return;
        }
        absorb(w, chain->at[i], root);
        w->kernel[chain->at[i]].gone = true;
        w->kernel[root].row = row;
    }
}

/* From the last to the first, as each may be what the next starts from. */
static void fuse_diamonds(xla *w)
{
    for (fb_id root = w->g->n_nodes - 1; root >= 0 && !fb_decider_done(w->d); root--) {
        fb_ids chain = {0};
        if (closes_diamond(w, root, &chain) && row_fits(last_dim(&w->g->nodes[root].shape)))
            fuse_diamond(w, root, &chain);
        FB_VEC_FREE(&chain);
    }
}

/* ---- several outputs ---- */

/* What an inlined value reads instead of the value. A kernel that was thought inlined does not know yet which of its
 * operands have become so after it. */
static void settle_reads(xla *w, fb_id c)
{
    kernel *kc = &w->kernel[c];
    for (int k = 0; k < kc->reads.n; k++) {
        xread r = kc->reads.at[k];
        if (!fb_node_is_computed(w->g, r.buffer) || !w->kernel[r.buffer].gone) continue;
        read_through(w, c, r.buffer, r.times);
        k--;
    }
}

/* The model: inlined values belong to their one reader's kernel, or are computed again. Readers come first, so that
 * each is tried with all that it would be part of. */
static void build_model(xla *w)
{
    for (fb_id i = w->g->n_nodes - 1; i >= 0; i--) {
        if (!fb_node_is_computed(w->g, i) || !w->kernel[i].gone) continue;
        fb_ids readers = {0};
        readers_of(w, i, &readers);
        if (readers.n == 1)
            w->kernel[i].gone = fb_decide_try_inlined(w->model, i, readers.at[0]);
        else
            w->kernel[i].gone = fb_decide_try_recomputed(w->model, i);
        FB_VEC_FREE(&readers);
    }
    for (fb_id i = 0; i < w->g->n_nodes; i++)
        if (fb_node_is_computed(w->g, i) && !w->kernel[i].gone) settle_reads(w, i);
}

static bool same_loops(const xla *w, fb_id a, fb_id b)
{
    const fb_node *x = &w->g->nodes[a], *y = &w->g->nodes[b];
    bool rx = is_reduction(w, a), ry = is_reduction(w, b);
    if (rx && ry)
        return fb_shape_equal(&w->g->nodes[x->args[0]].shape, &w->g->nodes[y->args[0]].shape) &&
               fb_shape_elements(&x->shape) == fb_shape_elements(&y->shape);
    const fb_shape *sx = rx ? &w->g->nodes[x->args[0]].shape : &x->shape;
    const fb_shape *sy = ry ? &w->g->nodes[y->args[0]].shape : &y->shape;
    return fb_shape_elements(sx) == fb_shape_elements(sy);
}

/* Is what `c` reads of `a` the very element that `a` computes at the same place? As far as sizes tell. */
static bool reads_in_step(const xla *w, fb_id a, fb_id c)
{
    double times = times_read(&w->kernel[c], a);
    return !is_reduction(w, a) && times > 0 && fabs(times - round(times)) < 1e-9 && times < 8;
}

typedef enum { APART, IN_STEP, OTHERWISE } link;

/* How the kernels of one slot read those of another. */
static link links(const xla *w, fb_id from, fb_id to)
{
    link how = APART;
    for (fb_id c = to; c != FB_NONE; c = w->model->next[c]) {
        if (w->kernel[c].gone) continue;
        for (int k = 0; k < w->kernel[c].reads.n; k++) {
            fb_id a = w->kernel[c].reads.at[k].buffer;
            if (!fb_node_is_computed(w->g, a) || w->model->owner[a] != from) continue;
            if (!reads_in_step(w, a, c)) return OTHERWISE;
            how = IN_STEP;
        }
    }
    return how;
}

static bool ends_in_epilogue(const xla *w, fb_id n)
{
    return w->kernel[n].reductions && !is_reduction(w, n);
}

/* Siblings (`wanted` APART) do not read one another; producer and consumer (IN_STEP) do at the same place alone. */
static bool may_merge(const xla *w, fb_id a, fb_id b, link wanted)
{
    if (is_library(w, a) || is_library(w, b) || !same_loops(w, a, b)) return false;
    if (w->kernel[a].row || w->kernel[b].row) return false;
    if (ends_in_epilogue(w, a) || ends_in_epilogue(w, b)) return false;
    if (w->g->nodes[a].region != w->g->nodes[b].region) return false;
    fb_id sa = w->model->owner[a], sb = w->model->owner[b];
    if (sa == sb || links(w, sa, sb) > wanted || links(w, sb, sa) > APART) return false;
    if (w->kernel[a].reductions + w->kernel[b].reductions > fb_constant_value(FB_XLA_REDUCTIONS)) return false;
    if (w->kernel[a].reads.n + w->kernel[b].reads.n + 2 > fb_constant_value(FB_XLA_OPERANDS)) return false;
    return fb_order_blocked(w->model, (fb_id[]){sa, sb}, 2, false) == FB_NONE;
}

static void merge(xla *w, fb_id a, fb_id b)
{
    fb_id both[] = {w->model->owner[a], w->model->owner[b]};
    fb_order_merge(w->model, both, 2);
    fb_plan_join(w->model, both, 2);
    w->kernel[a].reductions = w->kernel[b].reductions = w->kernel[a].reductions + w->kernel[b].reductions;
}

static bool tell(xla *w, fb_id a, fb_id b, double us, const char *why)
{
    if (!fb_decide(w->d, (fb_candidate){FB_STEP_FUSE, a, b, us}, (fb_beside){0}, "%s", why)) return false;
    merge(w, a, b);
    return true;
}

static void fuse_outputs(xla *w)
{
    for (fb_id c = w->g->n_nodes - 1; c >= 0; c--) {
        if (!fb_node_is_computed(w->g, c) || w->kernel[c].gone) continue;
        for (int k = 0; k < w->kernel[c].reads.n && !fb_decider_done(w->d); k++) {
            fb_id a = w->kernel[c].reads.at[k].buffer;
            if (!fb_node_is_computed(w->g, a) || !reads_in_step(w, a, c) || !may_merge(w, a, c, IN_STEP)) continue;
            tell(w, a, c, memory_us((double)fb_node_bytes(w->g, a)),
                 "the same loops: one kernel can store the first and go on to the second");
        }
    }
}

typedef struct {
    fb_id buffer, user;
} use;

static int by_use(const void *x, const void *y)
{
    const use *a = x, *b = y;
    return a->buffer != b->buffer ? (a->buffer > b->buffer) - (a->buffer < b->buffer)
                                  : (a->user > b->user) - (a->user < b->user);
}

/* Neighbours among the readers of one buffer that run over the same loops. */
static void fuse_siblings(xla *w)
{
    enum { WINDOW = 8 };
    FB_VEC(use) uses = {0};
    for (fb_id c = 0; c < w->g->n_nodes; c++)
        if (fb_node_is_computed(w->g, c) && !w->kernel[c].gone)
            for (int k = 0; k < w->kernel[c].reads.n; k++)
                if (w->kernel[c].reads.at[k].times >= 1) FB_VEC_PUSH(&uses, (use){w->kernel[c].reads.at[k].buffer, c});
    if (uses.n) qsort(uses.at, (size_t)uses.n, sizeof *uses.at, by_use);
    for (int i = 0; i < uses.n; i++)
        for (int k = i + 1; k < uses.n && k <= i + WINDOW && uses.at[k].buffer == uses.at[i].buffer; k++)
            if (!fb_decider_done(w->d) && may_merge(w, uses.at[i].user, uses.at[k].user, APART))
                tell(w, uses.at[i].user, uses.at[k].user, memory_us((double)fb_node_bytes(w->g, uses.at[i].buffer)),
                     "the same loops, and both read the same operand");
    FB_VEC_FREE(&uses);
}

static bool small(const xla *w, fb_id n)
{
    return fb_node_is_computed(w->g, n) && !w->kernel[n].gone && !is_library(w, n) && !w->kernel[n].reductions &&
           (double)fb_shape_elements(&w->g->nodes[n].shape) <= fb_constant_value(FB_XLA_HORIZONTAL_ELEMENTS) &&
           w->kernel[n].ops <= fb_constant_value(FB_XLA_HORIZONTAL_OPS);
}

static void fuse_horizontally(xla *w)
{
    for (fb_id c = 0; c < w->g->n_nodes; c++) {
        fb_id last = FB_NONE;
        if (!fb_node_is_computed(w->g, c) || w->kernel[c].gone) continue;
        for (int k = 0; k < w->kernel[c].reads.n && !fb_decider_done(w->d); k++) {
            fb_id a = w->kernel[c].reads.at[k].buffer;
            if (!small(w, a)) continue;
            if (last != FB_NONE && w->g->nodes[a].dtype == w->g->nodes[last].dtype && may_merge(w, last, a, APART))
                tell(w, last, a, fb_constant_value(FB_XLA_LAUNCH_US),
                     "small kernels with the same loops and the same reader");
            last = a;
        }
    }
}

static void decide_all(fb_decider *d)
{
    size_t n = (size_t)d->planner->g->n_nodes + 1;
    xla w = {.d = d, .g = d->planner->g, .model = fb_plan_new(d->planner)};
    w.kernel = fb_calloc(n, sizeof *w.kernel);
    w.closed = fb_calloc(n, sizeof *w.closed);
    w.met = fb_calloc(n, sizeof *w.met);
    for (size_t i = 0; i < n; i++) w.kernel[i].priority = NAN;
    start_kernels(&w);
    fuse_diamonds(&w);
    for (int late = 0; late < 2; late++) {
        w.late = late;
        for (fb_id i = 0; i < w.g->n_nodes; i++) push_if_saving(&w, i);
        while (w.heap.n && !fb_decider_done(d)) decide_top(&w);
    }
    record_kept(&w);
    build_model(&w);
    fuse_outputs(&w);
    fuse_siblings(&w);
    fuse_horizontally(&w);
    for (fb_id i = 0; i < w.g->n_nodes; i++) FB_VEC_FREE(&w.kernel[i].reads);
    FB_VEC_FREE(&w.heap);
    fb_plan_free(w.model);
    fb_free(w.kernel);
    fb_free(w.closed);
    fb_free(w.met);
}

fb_plan *fb_xla_plan(fb_decider *d)
{
    decide_all(d);
    fb_plan *plan = fb_decisions_apply(d, FB_LIBRARY_KEEP);
    fb_decide_convolutions(plan);
    return plan;
}
