/* Prints a nest (nest/parts.h), a statement a line.
 *
 * requires  a nest that was built
 * provides  lines of text, each ended; names are those of the graph, `%n` is value n of its section
 */
#include "nest/print.h"

#include "nest/parts.h"

#include <inttypes.h>
#include <stdio.h>

enum { SHOWN_MEMBERS = 3 };

typedef struct {
    const fb_nest *nest;
    const fb_section *section;
    fb_str *out;
} printer;

static const char *name_of(const printer *p, fb_id node)
{
    if (node == FB_COPY_OF_SOURCE) return "(copy)";
    if (node == FB_ON_CHIP) return "(on chip)";
    return node == FB_NONE ? "(none)" : p->nest->graph->nodes[node].name;
}

static void add_index(const printer *p, fb_ix at)
{
    fb_ix_print(p->nest->pool, at, false, p->out);
}

static void add_space(const printer *p, const fb_space *s)
{
    if (!s->n) fb_str_add(p->out, "one point");
    for (int d = 0; d < s->n; d++)
        fb_str_addf(p->out, "%s%s < %" PRId64, d ? ", " : "", fb_ix_var_name(p->nest->pool, s->var[d]), s->extent[d]);
}

static void add_test(const printer *p, int when)
{
    const fb_when *w = &p->nest->whens[when];
    fb_str_addf(p->out, "%" PRId64 " <= ", w->low);
    add_index(p, w->at);
    fb_str_addf(p->out, " < %" PRId64, w->high);
}

/* All tests of a load, outermost first. */
static void add_when(const printer *p, int when)
{
    const fb_when *w = &p->nest->whens[when];
    if (w->outer != FB_NONE) {
        add_when(p, w->outer);
        fb_str_add(p->out, " and ");
    }
    add_test(p, when);
}

static void add_args(const printer *p, const fb_value *v, int n)
{
    for (int i = 0; i < n; i++) fb_str_addf(p->out, "%s%%%d", i ? ", " : "", v->args[i]);
}

static void add_element(const printer *p, fb_id node, int table, fb_ix at)
{
    if (table == FB_NONE)
        fb_str_addf(p->out, "%s[", name_of(p, node));
    else
        fb_str_addf(p->out, "table%d[", table);
    add_index(p, at);
    fb_str_add(p->out, "]");
}

static void add_over(const printer *p, const fb_value *v)
{
    fb_str_add(p->out, " over ");
    add_space(p, &p->section->spaces[v->over]);
    fb_str_add(p->out, ": ");
    add_args(p, v, v->n_args);
}

/* What the value is made of; the node that it is the value of ends the line. */
static void add_making(const printer *p, const fb_value *v)
{
    const fb_graph *g = p->nest->graph;
    switch (v->kind) {
    case FB_VALUE_CONST: fb_str_addf(p->out, "%.9g", v->number); return;
    case FB_VALUE_INDEX: add_index(p, v->at); return;
    case FB_VALUE_LOAD:
        add_element(p, v->node, v->table, v->at);
        if (v->when == FB_NONE) return;
        fb_str_add(p->out, " when ");
        add_when(p, v->when);
        fb_str_add(p->out, ", else 0");
        return;
    case FB_VALUE_CHIP:
        fb_str_add(p->out, "on chip ");
        add_element(p, v->node, FB_NONE, v->at);
        return;
    case FB_VALUE_RANDOM:
        fb_str_add(p->out, "random ");
        add_index(p, v->at);
        return;
    case FB_VALUE_SELECT:
        fb_str_addf(p->out, "%%%d if ", v->args[0]);
        add_test(p, v->when);
        fb_str_addf(p->out, " else %%%d", v->args[1]);
        return;
    case FB_VALUE_REDUCE:
        fb_str_addf(p->out, "%s", fb_op_get(g->nodes[v->node].op)->name);
        add_over(p, v);
        return;
    case FB_VALUE_FOLD:
        fb_str_addf(p->out, "%s written out: ", fb_op_get(g->nodes[v->node].op)->name);
        if (v->n_args == 1)
            fb_str_addf(p->out, "%%%d / %.0f", v->args[0], v->number);
        else
            add_args(p, v, v->n_args);
        return;
    case FB_VALUE_SCAN:
        fb_str_addf(p->out, "running %s", fb_op_get(g->nodes[v->node].op)->name);
        add_over(p, v);
        return;
    case FB_VALUE_OP:
        fb_str_addf(p->out, "%s ", fb_op_get(g->nodes[v->node].op)->name);
        add_args(p, v, v->n_args);
        return;
    }
}

static void add_value(const printer *p, int i)
{
    const fb_value *v = &p->section->values[i];
    fb_str_addf(p->out, "    %%%-3d %-4s = ", i, fb_dtype_name(v->dtype));
    add_making(p, v);
    bool named =
        v->kind == FB_VALUE_OP || v->kind == FB_VALUE_REDUCE || v->kind == FB_VALUE_SCAN || v->kind == FB_VALUE_FOLD;
    if (named) fb_str_addf(p->out, "  (%s)", name_of(p, v->node));
    if (v->space == FB_NONE && v->kind != FB_VALUE_CONST)
        fb_str_add(p->out, v->rows ? "  · a row" : "  · once");
    else if (v->space != FB_NONE)
        fb_str_addf(p->out, "  · space %d", v->space);
    if (v->depth) fb_str_addf(p->out, ", depth %d", v->depth);
    if (v->kept) fb_str_addf(p->out, ", kept by pass %d", v->kept_pass);
    fb_str_add(p->out, "\n");
}

static void add_root(const printer *p, const fb_root *r)
{
    fb_str_add(p->out, "    store ");
    add_element(p, r->storage, r->table, r->at);
    fb_str_addf(p->out, " = %%%d", r->value);
    if (r->node != r->storage) fb_str_addf(p->out, "  (%s)", name_of(p, r->node));
    if (r->space != FB_NONE) fb_str_addf(p->out, "  · space %d, depth %d", r->space, r->depth);
    fb_str_add(p->out, "\n");
}

static void add_table(const printer *p, int number)
{
    const fb_table *t = &p->section->tables[number];
    int members = p->section->members;
    fb_str_addf(p->out, "    table%d:", number);
    for (int m = 0; m < members && m < SHOWN_MEMBERS; m++)
        fb_str_addf(p->out, "%s %s + %" PRId64, m ? "," : "", name_of(p, t->base[m]), t->shift[m]);
    if (members > SHOWN_MEMBERS) fb_str_addf(p->out, ", and %d more", members - SHOWN_MEMBERS);
    fb_str_add(p->out, "\n");
}

static void add_section(printer *p, const fb_section *s, const char *title)
{
    p->section = s;
    fb_str_addf(p->out, "  %s: rows ", title);
    add_space(p, &s->rows);
    if (s->members > 1)
        fb_str_addf(p->out, "; serves %d equal members, numbered by %s", s->members,
                    fb_ix_var_name(p->nest->pool, s->member));
    if (s->blocked) fb_str_addf(p->out, "; the first %d in blocks of a product's rows", s->blocked);
    if (s->scatter) fb_str_add(p->out, "; zeroed, then added to at every point");
    fb_added added;
    if (fb_section_adds(p->nest, s, &added) && added.sum != FB_NONE) {
        fb_str_add(p->out, "; ");
        fb_added_says(p->nest, &added, p->out);
    }
    fb_str_add(p->out, "\n");
    for (int i = 0; i < s->n_spaces; i++) {
        fb_str_addf(p->out, "    space %d: ", i);
        add_space(p, &s->spaces[i]);
        fb_str_add(p->out, "\n");
    }
    for (int i = 0; i < s->n_data; i++)
        fb_str_addf(p->out, "    %s is %%%d, read from memory\n", s->data[i].name, s->data[i].value);
    for (int i = 0; i < s->n_tables; i++) add_table(p, i);
    for (int i = 0; i < s->n_values; i++) add_value(p, i);
    for (int i = 0; i < s->n_roots; i++) add_root(p, &s->roots[i]);
    for (int i = 0; i < s->n_passes; i++)
        fb_str_addf(p->out, "    pass %d: over space %d at depth %d\n", i, s->passes[i].space, s->passes[i].depth);
}

static void add_tiled(printer *p)
{
    const fb_tiled *t = p->nest->tiled;
    char title[64];
    fb_str_addf(p->out, "  tile: %" PRId64 " × %" PRId64 " rows × %" PRId64 " columns, %d strip%s, operands %s%s%s\n",
                t->batch, t->rows, t->columns, t->n_strips, t->n_strips == 1 ? "" : "s", fb_dtype_name(t->dtype),
                t->whole ? ", whole rows" : "",
                t->round  ? ", right operands stay on chip and the left one goes round a cluster"
                : t->kept ? ", right operands stay on chip"
                          : "");
    for (int i = 0; i < t->n_phases; i++) {
        snprintf(title, sizeof title, "left %d (k < %" PRId64 ")", i, t->phases[i].k);
        add_section(p, &t->phases[i].left.section, title);
    }
    for (int i = 0; i < t->n_products; i++) {
        snprintf(title, sizeof title, "right of %.40s", name_of(p, t->products[i].node));
        add_section(p, &t->products[i].right.section, title);
    }
}

static void add_chain(const printer *p)
{
    const fb_chain *c = p->nest->chain;
    fb_str_addf(p->out, "  chain: %" PRId64 " × %" PRId64 " rows%s\n", c->batch, c->rows,
                c->online ? ", softmax online" : "");
    for (int i = 0; i < c->n_links; i++) {
        const fb_chain_link *l = &c->link[i];
        fb_str_addf(p->out, "    product %s: k < %" PRId64 ", n < %" PRId64 ": ", name_of(p, l->node), l->depth,
                    l->columns);
        if (l->a == FB_NONE)
            fb_str_add(p->out, "what the middle left");
        else
            add_element(p, l->a, FB_NONE, l->a_at);
        fb_str_add(p->out, " by ");
        add_element(p, l->b, FB_NONE, l->b_at);
        fb_str_add(p->out, "\n");
    }
}

static void add_names(const printer *p, const char *what, const fb_id *ids, int n)
{
    fb_str_addf(p->out, "  %s", what);
    for (int i = 0; i < n; i++) fb_str_addf(p->out, "%s %s", i ? "," : "", name_of(p, ids[i]));
    fb_str_add(p->out, n ? "\n" : " nothing\n");
}

void fb_nest_print(const fb_nest *nest, fb_str *out)
{
    printer p = {.nest = nest, .out = out};
    char title[32];
    add_names(&p, "reads", nest->reads, nest->n_reads);
    add_names(&p, "writes", nest->writes, nest->n_writes);
    if (nest->accumulator != FB_NONE)
        fb_str_addf(out, "  library: %s, written to %s\n", name_of(&p, nest->accumulator), name_of(&p, nest->product));
    if (nest->tiled) add_tiled(&p);
    if (nest->chain) add_chain(&p);
    for (int i = 0; i < nest->n_sections; i++) {
        snprintf(title, sizeof title, "section %d", i);
        add_section(&p, &nest->sections[i], title);
    }
}
