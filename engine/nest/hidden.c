/* Which scores of a softmax chain can count at all: where the middle's value is a choice between a score and a
 * constant, by comparisons of the row's number with the column's (a causal mask, a window). Needs the middle's section;
 * leaves half planes, by which whole tiles are known to be hidden or visible.
 */
#include "nest/build.h"

/* A hidden score is as good as none: what is less would have to be answered for by rows that see nothing. */
static const double most_hidden = -1000;

enum { MOST = 1 << 28 };

typedef struct {
    fb_index_pool *pool;
    const fb_graph *graph;
    const fb_section *section;
    fb_chain *c;
    fb_ix column;
} reader;

static fb_op op_of(const reader *r, const fb_value *v)
{
    return v->kind == FB_VALUE_OP ? r->graph->nodes[v->node].op : FB_OPS;
}

static bool is_small(int64_t x)
{
    return x > -MOST && x < MOST;
}

static bool of_index(const reader *r, fb_ix at, fb_half_plane *out)
{
    const fb_chain *c = r->c;
    *out = (fb_half_plane){0};
    return (!fb_ix_is_var(r->pool, c->row) || fb_ix_stride(r->pool, at, c->row, &out->row, &at)) &&
           (!fb_ix_is_var(r->pool, r->column) || fb_ix_stride(r->pool, at, r->column, &out->column, &at)) &&
           fb_ix_is_const(r->pool, at, &out->constant);
}

/* An integer as row · i + column · j + constant. */
static bool linear(const reader *r, fb_val of, fb_half_plane *out)
{
    const fb_value *v = &r->section->values[of];
    if (fb_dtype_is_float(v->dtype)) return false;
    bool is = false;
    fb_half_plane a, b;
    fb_op op = op_of(r, v);
    if (v->kind == FB_VALUE_CONST) {
        *out = (fb_half_plane){.constant = v->number > -MOST && v->number < MOST ? (int64_t)v->number : MOST};
        is = true;
    } else if (v->kind == FB_VALUE_INDEX) {
        is = of_index(r, v->at, out);
    } else if (op == FB_OP_CAST) {
        is = linear(r, v->args[0], out);
    } else if ((op == FB_OP_ADD || op == FB_OP_SUB) && linear(r, v->args[0], &a) && linear(r, v->args[1], &b)) {
        int sign = op == FB_OP_ADD ? 1 : -1;
        *out = (fb_half_plane){a.row + sign * b.row, a.column + sign * b.column, a.constant + sign * b.constant};
        is = true;
    }
    return is && is_small(out->row) && is_small(out->column) && is_small(out->constant);
}

/* a - b >= least */
static bool add_plane(const reader *r, fb_val of_a, fb_val of_b, int64_t least)
{
    fb_half_plane a, b;
    if (r->c->n_seen == FB_MAX_HALF_PLANES || !linear(r, of_a, &a) || !linear(r, of_b, &b)) return false;
    r->c->seen[r->c->n_seen++] = (fb_half_plane){a.row - b.row, a.column - b.column, a.constant - b.constant - least};
    return true;
}

/* All half planes in which `of` is `holds`; false where it is no such thing. */
static bool add_planes(const reader *r, fb_val of, bool holds)
{
    const fb_value *v = &r->section->values[of];
    const fb_val *arg = v->args;
    fb_op op = op_of(r, v);
    if (op == FB_OP_LOGICAL_NOT) return add_planes(r, arg[0], !holds);
    if (op == (holds ? FB_OP_LOGICAL_AND : FB_OP_LOGICAL_OR))
        return add_planes(r, arg[0], holds) && add_planes(r, arg[1], holds);
    if (op == (holds ? FB_OP_GE : FB_OP_LT)) return add_plane(r, arg[0], arg[1], 0);
    if (op == (holds ? FB_OP_GT : FB_OP_LE)) return add_plane(r, arg[0], arg[1], 1);
    if (op == (holds ? FB_OP_LE : FB_OP_GT)) return add_plane(r, arg[1], arg[0], 0);
    if (op == (holds ? FB_OP_LT : FB_OP_GE)) return add_plane(r, arg[1], arg[0], 1);
    return false;
}

static fb_ix column_of(const fb_section *s, const fb_value *v, fb_ix none)
{
    if (v->space != FB_NONE && s->spaces[v->space].n) return s->spaces[v->space].var[0];
    return s->rows.n > s->blocked ? s->rows.var[s->blocked] : none;
}

void fb_chain_find_hidden(fb_nest *nest, const fb_section *s)
{
    fb_chain *c = nest->chain;
    const fb_value *v = &s->values[c->made];
    reader r = {nest->pool, nest->graph, s, c, FB_NONE};
    c->n_seen = 0;
    c->shown = c->made;
    if (op_of(&r, v) != FB_OP_WHERE) return;
    r.column = column_of(s, v, fb_ix_const(nest->pool, 0));
    for (int holds = 0; holds < 2 && !c->n_seen; holds++) {
        const fb_value *other = &s->values[v->args[holds ? 2 : 1]];
        if (other->kind != FB_VALUE_CONST || !(other->number <= most_hidden)) continue;
        if (!add_planes(&r, v->args[0], holds)) {
            c->n_seen = 0;
            continue;
        }
        c->shown = v->args[holds ? 1 : 2];
        c->hidden = other->number;
    }
}

static int64_t extreme(const fb_half_plane *p, bool most, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    return p->row * ((p->row > 0) == most ? row + rows - 1 : row) +
           p->column * ((p->column > 0) == most ? column + columns - 1 : column) + p->constant;
}

int fb_chain_seen(const fb_chain *c, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    int seen = 2;
    for (int i = 0; i < c->n_seen; i++) {
        if (extreme(&c->seen[i], true, row, rows, column, columns) < 0) return 0;
        if (extreme(&c->seen[i], false, row, rows, column, columns) < 0) seen = 1;
    }
    return seen;
}
