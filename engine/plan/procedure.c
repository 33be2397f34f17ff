/* Writes statements by walking accesses instead of views; loops around launches are indented. Needs a plan that is
 * numbered; leaves it as it was.
 */
#include "plan/procedure.h"

#include "base/mem.h"
#include "graph/access.h"
#include "plan/parts.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    fb_index_pool *pool;
    fb_str *out;
    int depth;
    fb_ix place[FB_MAX_RANK]; /* of the node being written: one variable a dim */
    int n_vars;
} writer;

/* Of dims first, then of what is summed over. */
static const char *const letters[] = {"i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u", "v", "w", "x"};

enum { LETTERS = sizeof letters / sizeof *letters, MOST_PARTS = 4 };

static fb_ix next_var(writer *w, int64_t extent)
{
    FB_ASSERT(w->n_vars < LETTERS);
    return fb_ix_var(w->pool, letters[w->n_vars++], extent);
}

static void start_line(writer *w)
{
    fb_str_addf(w->out, "%*s", 2 * w->depth, "");
}

/* ---- places ---- */

static void add_index(writer *w, int rank, const fb_ix *coords)
{
    for (int d = 0; d < rank; d++) {
        fb_str_add(w->out, d ? ", " : "[");
        fb_ix_print(w->pool, coords[d], false, w->out);
    }
    if (rank) fb_str_add(w->out, "]");
}

/* The value of `node` at these coordinates, by the name of what holds it. */
static void add_access(writer *w, fb_id node, const fb_ix *coords)
{
    fb_access a;
    fb_access_at(w->g, w->pool, node, coords, &a);
    const fb_node *base = &w->g->nodes[a.base];
    for (int i = 0; i < a.n_guards; i++) fb_str_add(w->out, "(");
    if (base->op == FB_OP_CONST) {
        fb_str_addf(w->out, "%.9g", base->attrs->value);
    } else if (base->op == FB_OP_IOTA && base->shape.rank) {
        fb_ix_print(w->pool, a.coords[base->attrs->dim], true, w->out);
    } else {
        fb_str_add(w->out, base->name);
        add_index(w, a.rank, a.coords);
    }
    for (int i = a.n_guards; i-- > 0;) {
        const fb_guard *guard = &a.guards[i];
        fb_str_addf(w->out, " if %" PRId64 " <= ", guard->low);
        fb_ix_print(w->pool, guard->at, false, w->out);
        fb_str_addf(w->out, " < %" PRId64 " else %.9g)", guard->high, guard->otherwise);
    }
}

static void add_operand(writer *w, const fb_node *n, fb_id id, int arg)
{
    fb_ix coords[FB_MAX_RANK];
    fb_access_broadcast(w->g, w->pool, id, arg, w->place, coords);
    add_access(w, n->args[arg], coords);
}

/* ---- statements ---- */

static void add_pointwise(writer *w, fb_id id)
{
    static const struct {
        fb_op op;
        const char *sign;
    } infix[] = {{FB_OP_ADD, " + "}, {FB_OP_SUB, " - "}, {FB_OP_MUL, " * "}, {FB_OP_DIV, " / "}, {FB_OP_EQ, " == "},
                 {FB_OP_NE, " != "}, {FB_OP_LT, " < "},  {FB_OP_LE, " <= "}, {FB_OP_GT, " > "},  {FB_OP_GE, " >= "}};
    const fb_node *n = &w->g->nodes[id];
    const char *sign = NULL;
    for (size_t i = 0; i < sizeof infix / sizeof *infix; i++)
        if (infix[i].op == n->op) sign = infix[i].sign;
    if (!sign) fb_str_addf(w->out, "%s(", n->op == FB_OP_CAST ? fb_dtype_name(n->dtype) : fb_op_get(n->op)->name);
    for (int i = 0; i < n->n_args; i++) {
        if (i) fb_str_add(w->out, sign ? sign : ", ");
        add_operand(w, n, id, i);
    }
    const fb_op_param *params = fb_op_get(n->op)->params;
    if (params[0].name) fb_str_addf(w->out, ", %.9g", n->attrs->value);
    if (params[1].name) fb_str_addf(w->out, ", %.9g", n->attrs->high);
    if (!sign) fb_str_add(w->out, ")");
}

static bool is_reduced(const fb_node *n, int dim)
{
    for (int i = 0; i < n->attrs->n_axes; i++)
        if (n->attrs->axes[i] == dim) return true;
    return false;
}

static void add_range(writer *w, fb_ix var, bool first)
{
    fb_str_addf(w->out, "%s%s < %" PRId64, first ? " over " : ", ", fb_ix_var_name(w->pool, var),
                fb_ix_extent(w->pool, var));
}

static void add_reduction(writer *w, fb_id id)
{
    const fb_node *n = &w->g->nodes[id];
    const fb_shape *s = &w->g->nodes[n->args[0]].shape;
    fb_ix coords[FB_MAX_RANK];
    bool first = true;
    fb_str_add(w->out, fb_op_get(n->op)->name);
    for (int d = 0, kept = 0; d < s->rank; d++) {
        bool reduced = is_reduced(n, d);
        coords[d] = reduced ? next_var(w, s->dim[d]) : w->place[kept];
        if (reduced) add_range(w, coords[d], first), first = false;
        kept += !reduced || n->attrs->keepdim;
    }
    fb_str_add(w->out, ": ");
    add_access(w, n->args[0], coords);
}

/* Batch dims are shared from the right, as in broadcasting. */
static void add_factor(writer *w, const fb_node *n, int arg, fb_ix inner)
{
    const fb_shape *s = &w->g->nodes[n->args[arg]].shape;
    fb_ix coords[FB_MAX_RANK];
    for (int d = 0; d < s->rank - 2; d++)
        coords[d] = s->dim[d] == 1 ? fb_ix_const(w->pool, 0) : w->place[d + n->shape.rank - s->rank];
    coords[s->rank - 2] = arg ? inner : w->place[n->shape.rank - 2];
    coords[s->rank - 1] = arg ? w->place[n->shape.rank - 1] : inner;
    add_access(w, n->args[arg], coords);
}

static void add_product(writer *w, fb_id id)
{
    const fb_node *n = &w->g->nodes[id];
    const fb_shape *a = &w->g->nodes[n->args[0]].shape;
    fb_ix inner = next_var(w, a->dim[a->rank - 1]);
    fb_str_add(w->out, "sum");
    add_range(w, inner, true);
    fb_str_add(w->out, ": ");
    add_factor(w, n, 0, inner);
    fb_str_add(w->out, " * ");
    add_factor(w, n, 1, inner);
}

static void add_join(writer *w, fb_id id)
{
    const fb_node *n = &w->g->nodes[id];
    for (int i = 0; i < n->n_args; i++) {
        fb_ix coords[FB_MAX_RANK];
        int dim;
        int64_t low, high;
        if (i == MOST_PARTS && n->n_args > MOST_PARTS + 1) {
            fb_str_addf(w->out, "; and %d more", n->n_args - i);
            break;
        }
        fb_access_piece(w->g, w->pool, id, i, w->place, coords, &dim, &low, &high);
        fb_str_add(w->out, i ? "; " : "");
        add_access(w, n->args[i], coords);
        fb_str_addf(w->out, high - low == 1 ? " where %s = %" PRId64 : " where %s >= %" PRId64, letters[dim], low);
        if (high - low > 1) fb_str_addf(w->out, " and < %" PRId64, high);
    }
}

static void add_gather(writer *w, fb_id id)
{
    const fb_node *n = &w->g->nodes[id];
    const fb_node *index = &w->g->nodes[n->args[1]];
    fb_ix own[FB_MAX_RANK];
    if (n->op == FB_OP_EMBEDDING) {
        fb_str_addf(w->out, "%s[", w->g->nodes[fb_access_base(w->g, n->args[0])].name);
        add_access(w, n->args[1], w->place);
        for (int d = index->shape.rank; d < n->shape.rank; d++) {
            fb_str_add(w->out, ", ");
            fb_ix_print(w->pool, w->place[d], false, w->out);
        }
        fb_str_add(w->out, "]");
        return;
    }
    fb_str_add(w->out, "sum");
    for (int d = 0; d < index->shape.rank; d++) {
        own[d] = next_var(w, index->shape.dim[d]);
        add_range(w, own[d], d == 0);
    }
    fb_str_add(w->out, " where ");
    add_access(w, n->args[1], own);
    fb_str_addf(w->out, " = %s: ", letters[0]);
    for (int d = 1; d < n->shape.rank; d++) own[index->shape.rank + d - 1] = w->place[d];
    add_access(w, n->args[0], own);
}

static void add_value(writer *w, fb_id id)
{
    const fb_node *n = &w->g->nodes[id];
    switch (fb_node_class(w->g, id)) {
    case FB_CLASS_POINTWISE: add_pointwise(w, id); return;
    case FB_CLASS_REDUCTION: add_reduction(w, id); return;
    case FB_CLASS_CONTRACTION: add_product(w, id); return;
    case FB_CLASS_JOIN: add_join(w, id); return;
    case FB_CLASS_GATHER: add_gather(w, id); return;
    default: break;
    }
    if (n->op == FB_OP_ASSIGN) {
        add_access(w, n->args[1], w->place);
        return;
    }
    fb_str_addf(w->out, "%s", fb_op_get(n->op)->name);
    if (fb_op_get(n->op)->cls == FB_CLASS_SCAN) fb_str_addf(w->out, " over %s", letters[n->attrs->dim]);
    for (int i = 0; i < n->n_args; i++) {
        fb_str_add(w->out, i ? ", " : ": ");
        if (w->g->nodes[n->args[i]].shape.rank == n->shape.rank)
            add_access(w, n->args[i], w->place);
        else
            fb_str_add(w->out, w->g->nodes[n->args[i]].name);
    }
}

static void write_node(writer *w, fb_id id, bool stored)
{
    const fb_node *n = &w->g->nodes[id], *to = n;
    w->n_vars = 0;
    if (n->op == FB_OP_ASSIGN) to = &w->g->nodes[n->args[0]];
    for (int d = 0; d < n->shape.rank; d++) w->place[d] = next_var(w, n->shape.dim[d]);
    start_line(w);
    fb_str_add(w->out, to->name);
    add_index(w, n->shape.rank, w->place);
    fb_str_add(w->out, stored ? " = " : " := ");
    add_value(w, id);
    fb_str_add(w->out, n->op == FB_OP_ASSIGN ? "   in place\n" : "\n");
}

/* ---- kernels, loops and copies ---- */

static void write_group(writer *w, int number)
{
    const fb_group *group = fb_plan_group(w->plan, number);
    start_line(w);
    fb_str_addf(w->out, "kernel %d: %s", number + 1, fb_family_name(group->family));
    if (group->n_nodes > 1) fb_str_addf(w->out, ", %d fused", group->n_nodes);
    fb_str_add(w->out, "\n");
    w->depth += 2;
    for (int i = 0; i < group->n_nodes; i++) write_node(w, group->nodes[i], fb_group_stores(group, group->nodes[i]));
    w->depth -= 2;
}

static const char *name_of(const writer *w, fb_id id)
{
    return w->g->nodes[fb_access_base(w->g, id)].name;
}

static void open_loop(writer *w, fb_id region)
{
    const fb_region *r = &w->g->regions[region];
    const fb_node *loop = &w->g->nodes[r->loop];
    for (int k = 0; k < r->n_carried; k++) {
        if (r->carried[k] == FB_NONE) continue;
        start_line(w);
        fb_str_addf(w->out, "%s = %s\n", name_of(w, r->carried[k]), name_of(w, loop->args[k]));
    }
    start_line(w);
    fb_str_addf(w->out, "for %" PRId64 " steps (%s)\n", r->trips, loop->name);
    w->depth++;
    for (int k = 0; k < r->n_items; k++) {
        if (r->items[k] == FB_NONE) continue;
        const fb_node *item = &w->g->nodes[r->items[k]];
        fb_ix coords[FB_MAX_RANK];
        w->n_vars = 0;
        for (int d = 0; d < item->shape.rank; d++) coords[d + 1] = w->place[d] = next_var(w, item->shape.dim[d]);
        coords[0] = fb_ix_var(w->pool, "step", r->trips);
        start_line(w);
        fb_str_add(w->out, item->name);
        add_index(w, item->shape.rank, w->place);
        fb_str_add(w->out, " := ");
        add_access(w, loop->args[r->n_carried + k], coords);
        fb_str_add(w->out, "\n");
    }
}

static void close_loop(writer *w, fb_id region)
{
    const fb_region *r = &w->g->regions[region];
    for (int k = 0; k < r->n_carried; k++) {
        if (r->carried[k] == FB_NONE || r->yields[k] == r->carried[k]) continue;
        start_line(w);
        fb_str_addf(w->out, "%s = %s   for the next step\n", name_of(w, r->carried[k]), name_of(w, r->yields[k]));
    }
    w->depth--;
}

static void write_sources(writer *w)
{
    for (fb_id i = 0; i < w->g->n_nodes; i++) {
        const fb_node *n = &w->g->nodes[i];
        char shape[192];
        if (n->op != FB_OP_INPUT && n->op != FB_OP_PARAM && n->op != FB_OP_FEED) continue;
        fb_str_addf(w->out, "%s %s  %s%s\n", fb_op_get(n->op)->name, n->name,
                    fb_shape_format(&n->shape, n->dtype, shape),
                    n->op == FB_OP_FEED ? "  copied in whole, every run" : "");
    }
}

/* A loop's results are what it carried or stacked. */
static void write_results(writer *w)
{
    for (fb_id i = 0; i < w->g->n_nodes; i++) {
        const fb_node *n = &w->g->nodes[i];
        if (n->op == FB_OP_RESULT) {
            const fb_region *r = &w->g->regions[w->g->nodes[n->args[0]].attrs->region];
            bool stacked = n->attrs->index >= r->n_carried;
            fb_id of = stacked ? r->stacked[n->attrs->index - r->n_carried] : r->yields[n->attrs->index];
            fb_str_addf(w->out, "%s = %s %s\n", n->name, name_of(w, of), stacked ? "of all steps" : "of the last step");
        }
        if (n->op == FB_OP_RECEIVE)
            fb_str_addf(w->out, "receive %s = %s  copied out, every run\n", n->name, name_of(w, n->args[0]));
    }
    for (int i = 0; i < w->g->n_outputs; i++) {
        const char *name = name_of(w, w->g->outputs[i]);
        fb_str_addf(w->out, "output %s\n", name);
    }
}

void fb_plan_print_procedure(const fb_plan *plan, fb_str *out)
{
    const fb_order_entry *steps;
    writer w = {.plan = plan, .g = plan->planner->g, .pool = fb_index_pool_new(), .out = out};
    int n = fb_plan_order(plan, &steps);
    fb_str_add(out, "= is stored in memory, := stays on chip or is only named\n");
    write_sources(&w);
    for (int i = 0; i < n; i++) {
        if (steps[i].kind == FB_ORDER_GROUP) write_group(&w, steps[i].number);
        if (steps[i].kind == FB_ORDER_OPEN) open_loop(&w, steps[i].number);
        if (steps[i].kind == FB_ORDER_CLOSE) close_loop(&w, steps[i].number);
    }
    write_results(&w);
    fb_index_pool_free(w.pool);
}
