/* A plan as a picture: a box a kernel (repetitions are one box), in layers from the inputs down, and what flows between
 * them. */
#include "base/mem.h"
#include "base/vec.h"
#include "tui/show/figure.h"
#include "tui/show/html.h"
#include "tui/show/letters.h"
#include "tui/show/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BOX_W = 252, BOX_H = 74, GAP_X = 18, GAP_Y = 42, ACROSS = 4, MOST = 60 };

/* What goes from one box to another. */
typedef struct {
    int from, to;
    double bytes;
} flow;

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    fb_letters letters;
    int n; /* boxes drawn: the first letters */
    FB_VEC(flow) flows;
    int *layer, *x, *y; /* one a letter */
    int *stamp;         /* a node's last visit, to see each once a group */
    FB_VEC(fb_id) todo;
} diagram;

static void add_flow(diagram *d, int from, int to, double bytes)
{
    for (int i = 0; i < d->flows.n; i++) {
        flow *f = &d->flows.at[i];
        if (f->from != from || f->to != to) continue;
        f->bytes += bytes;
        return;
    }
    flow f = {from, to, bytes};
    FB_VEC_PUSH(&d->flows, f);
}

/* What the group reads of others, through the views between them. */
static void follow(diagram *d, int group)
{
    const fb_group *own = fb_plan_group(d->plan, group);
    int to = d->letters.of_group[group], mark = group + 1;
    for (int i = 0; i < own->n_nodes; i++) d->stamp[own->nodes[i]] = mark;
    for (int i = 0; i < own->n_nodes; i++) {
        const fb_node *node = fb_node_at(d->g, own->nodes[i]);
        for (int k = 0; k < node->n_args; k++) FB_VEC_PUSH(&d->todo, node->args[k]);
    }
    while (d->todo.n) {
        fb_id id = d->todo.at[--d->todo.n];
        int from = fb_plan_group_of(d->plan, id);
        if (d->stamp[id] == mark) continue;
        d->stamp[id] = mark;
        if (from != FB_NONE) {
            if (d->letters.of_group[from] != to || from != group)
                add_flow(d, d->letters.of_group[from], to, (double)fb_node_bytes(d->g, id));
            continue;
        }
        const fb_node *node = fb_node_at(d->g, id);
        for (int k = 0; k < node->n_args; k++) FB_VEC_PUSH(&d->todo, node->args[k]);
    }
}

/* As deep as the longest way to it; what flows back to an earlier box (the next repetition's) does not count. */
static void find_layers(diagram *d)
{
    for (int to = 0; to < d->n; to++)
        for (int i = 0; i < d->flows.n; i++) {
            const flow *f = &d->flows.at[i];
            if (f->to == to && f->from < to && d->layer[f->from] >= d->layer[to]) d->layer[to] = d->layer[f->from] + 1;
        }
}

static void place(diagram *d, fb_picture *p)
{
    int y = 0, widest = 1, last = 0;
    for (int k = 0; k < d->n; k++) last = d->layer[k] > last ? d->layer[k] : last;
    for (int layer = 0; layer <= last; layer++) {
        int at = 0;
        for (int k = 0; k < d->n; k++) {
            if (d->layer[k] != layer) continue;
            if (at == ACROSS) {
                at = 0;
                y += BOX_H + GAP_Y / 2;
            }
            d->x[k] = at++ * (BOX_W + GAP_X);
            d->y[k] = y;
            widest = at > widest ? at : widest;
        }
        if (at) y += BOX_H + GAP_Y;
    }
    p->w = widest * (BOX_W + GAP_X) - GAP_X + 24;
    p->h = y - GAP_Y + 8;
}

/* ---- boxes ---- */

/* Time and bytes of all groups with the letter: of the report's kernels, else of the model. */
static void box_figures(const diagram *d, int letter, const fb_report *report, fb_str *out)
{
    double us = 0, measured = 0, bytes = 0;
    char text[48];
    bool known = report && report->n_kernels > 0;
    fb_figure_source kind = FB_SOURCE_MEASURED; /* the least certain of the kernels' */
    for (int g = 0; g < d->letters.n_groups; g++) {
        fb_group_cost cost;
        if (d->letters.of_group[g] != letter) continue;
        fb_plan_group_cost(d->plan, g, &cost);
        us += cost.us;
        bytes += (double)(cost.bytes_read + cost.bytes_written);
    }
    for (int k = 0; known && k < report->n_kernels; k++) {
        const fb_kernel_report *kernel = &report->kernels[k];
        if (kernel->group < 0 || kernel->group >= d->letters.n_groups || !kernel->device_us.n) continue;
        if (d->letters.of_group[kernel->group] != letter) continue;
        measured += kernel->device_us.median;
        if (kernel->source > kind) kind = kernel->source;
    }
    fb_str_add(out, fb_family_name(fb_plan_group(d->plan, d->letters.first_group[letter])->family));
    if (!(measured > 0)) kind = FB_SOURCE_PREDICTED;
    if (!(measured > 0) && fb_planner_machine(fb_plan_planner(d->plan))->doubted) us = NAN;
    if (*fb_figure_write(text, measured > 0 ? measured : us, FB_UNIT_US, kind)) fb_str_addf(out, " · %s", text);
    fb_str_addf(out, " · %s", fb_figure_write(text, bytes, FB_UNIT_BYTES, FB_SOURCE_MEASURED));
}

/* What the box has no room for: the whole name, why it is of its family, its nodes. */
static void box_hover(const diagram *d, fb_picture *p, int k)
{
    enum { NAMED = 24 };
    int first = d->letters.first_group[k];
    const fb_group *group = fb_plan_group(d->plan, first);
    fb_str text = {0};
    fb_letter_title(&d->letters, d->plan, k, &text);
    if (d->letters.count[k] > 1) fb_str_addf(&text, " ×%d", d->letters.count[k]);
    fb_str_add(&text, "\n");
    fb_show_group_why(d->plan, first, &text);
    for (int i = 0; i < group->n_nodes && i < NAMED; i++)
        fb_str_addf(&text, "%s%s", i ? ", " : "\nnodes: ", fb_node_at(d->g, group->nodes[i])->name);
    if (group->n_nodes > NAMED) fb_str_addf(&text, " and %d more", group->n_nodes - NAMED);
    fb_picture_hover(p, fb_str_get(&text));
    fb_str_free(&text);
}

/* The ops of the kernel's nodes, in order. */
static void box_ops(const diagram *d, const fb_group *group, fb_str *out)
{
    enum { SEEN = 12 };
    for (int i = 0; i < group->n_nodes && i < SEEN; i++)
        fb_str_addf(out, "%s%s", i ? " · " : "", fb_op_get(fb_node_at(d->g, group->nodes[i])->op)->name);
    if (group->n_nodes > SEEN) fb_str_addf(out, " and %d more", group->n_nodes - SEEN);
}

static void draw_box(const diagram *d, fb_picture *p, int k, const fb_report *report)
{
    const fb_group *group = fb_plan_group(d->plan, d->letters.first_group[k]);
    fb_str title = {0}, line = {0};
    char letter[8], colour[24];
    bool out = false;
    for (int i = 0; i < group->n_nodes; i++) out |= fb_node_is_output(d->g, group->nodes[i]);
    fb_str_addf(&title, "%s  ", fb_letter_name(k, letter));
    fb_letter_title(&d->letters, d->plan, k, &title);
    snprintf(colour, sizeof colour, "box s%d", k % FB_PICTURE_COLOURS);
    fb_str_add(&p->body, "<g>");
    box_hover(d, p, k);
    fb_str_addf(&p->body, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"7\"/>\n", colour,
                d->x[k] + 1, d->y[k] + 1, BOX_W, BOX_H);
    if (d->letters.count[k] > 1) {
        char times[24];
        snprintf(times, sizeof times, "×%d", d->letters.count[k]);
        fb_picture_text(p, d->x[k] + BOX_W - 9, d->y[k] + 20, "strong", "end", 0, times);
    }
    fb_picture_text(p, d->x[k] + 11, d->y[k] + 20, "strong", "start", BOX_W - 62, fb_str_get(&title));
    box_figures(d, k, report, &line);
    if (out) fb_str_add(&line, " · out");
    fb_picture_text(p, d->x[k] + 11, d->y[k] + 40, "", "start", BOX_W - 18, fb_str_get(&line));
    fb_str_clear(&line);
    box_ops(d, group, &line);
    fb_picture_text(p, d->x[k] + 11, d->y[k] + 59, "dim", "start", BOX_W - 18, fb_str_get(&line));
    fb_str_add(&p->body, "</g>\n");
    fb_str_free(&title);
    fb_str_free(&line);
}

static void draw_flow(const diagram *d, fb_picture *p, const flow *f)
{
    char text[48];
    double x0 = d->x[f->from] + BOX_W / 2.0, y0 = d->y[f->from] + BOX_H + 1, x1 = d->x[f->to] + BOX_W / 2.0,
           y1 = d->y[f->to] + 1, side = BOX_W / 2.0 + 14;
    fb_figure_write(text, f->bytes, FB_UNIT_BYTES, FB_SOURCE_MEASURED);
    if (f->from >= f->to) { /* to the next repetition: around the right side */
        x0 = d->x[f->from] + BOX_W + 1, y0 = d->y[f->from] + BOX_H * 0.7;
        x1 = d->x[f->to] + BOX_W + 1, y1 = d->y[f->to] + BOX_H * 0.3;
        fb_str_addf(&p->body, "<path class=\"flow again\" d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f\"/>", x0, y0,
                    fmax(x0, x1) + 22, y0, fmax(x0, x1) + 22, y1, x1 + 6, y1);
        fb_str_addf(&p->body, "<path class=\"tip\" d=\"M%.0f %.0fl8 -4v8z\"/>\n", x1, y1);
        return;
    }
    bool far = d->layer[f->to] > d->layer[f->from] + 1 && fabs(x0 - x1) < 1; /* past the boxes between */
    double bend = fmax((y1 - y0) / 2, GAP_Y / 2.0);
    if (far)
        fb_str_addf(&p->body, "<path class=\"flow\" d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0fL%.0f %.0f\"/>",
                    x0 + 40, y0, x0 + side, y0 + GAP_Y, x0 + side, y1 - GAP_Y, x1 + 40, y1 - 7, x1 + 40, y1 - 6);
    else
        fb_str_addf(&p->body, "<path class=\"flow\" d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f\"/>", x0, y0, x0,
                    y0 + bend, x1, y1 - bend, x1, y1 - 6);
    double tip = far ? x1 + 40 : x1;
    fb_str_addf(&p->body, "<path class=\"tip\" d=\"M%.0f %.0fl-4 -8h8z\"/>\n", tip, y1);
    if (!far) fb_picture_text(p, (x0 + x1) / 2 + 7, (y0 + y1) / 2 + 4, "dim small", "start", 0, text);
}

/* ---- the picture ---- */

static void clear(diagram *d)
{
    fb_letters_free(&d->letters);
    FB_VEC_FREE(&d->flows);
    FB_VEC_FREE(&d->todo);
    fb_free(d->layer);
    fb_free(d->x);
    fb_free(d->y);
    fb_free(d->stamp);
}

void fb_picture_plan(fb_picture *p, const fb_plan *plan, const fb_report *report)
{
    diagram d = {.plan = plan, .g = fb_planner_graph(fb_plan_planner(plan))};
    fb_outline *outline = fb_outline_new(d.g);
    fb_letters_make(&d.letters, plan, outline);
    size_t n = (size_t)d.letters.n + 1;
    d.n = d.letters.n > MOST ? MOST : d.letters.n;
    d.layer = fb_calloc(n, sizeof *d.layer);
    d.x = fb_calloc(n, sizeof *d.x);
    d.y = fb_calloc(n, sizeof *d.y);
    d.stamp = fb_calloc((size_t)d.g->n_nodes + 1, sizeof *d.stamp);
    for (int g = 0; g < d.letters.n_groups; g++)
        if (d.letters.of_group[g] < d.n) follow(&d, g);
    find_layers(&d);
    if (d.n) place(&d, p);
    for (int i = 0; i < d.flows.n; i++)
        if (d.flows.at[i].from < d.n) draw_flow(&d, p, &d.flows.at[i]);
    for (int k = 0; k < d.n; k++) draw_box(&d, p, k, report && !report->failed ? report : NULL);
    if (d.letters.n > d.n) {
        char text[48];
        snprintf(text, sizeof text, "and %d more kernels", d.letters.n - d.n);
        fb_picture_text(p, 0, p->h + 12, "dim", "start", 0, text);
        p->h += 20;
    }
    clear(&d);
    fb_outline_free(outline);
}
