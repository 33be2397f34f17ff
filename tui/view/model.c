/* What is drawn of the column that has the focus: outline, letters, rows and kernels, made anew where they changed. */
#include "tui/view/ui.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void forget_kernels(fb_model *m)
{
    for (int i = 0; i < m->kernels.n; i++) fb_free(m->kernels.at[i].name);
    m->kernels.n = m->shares.n = 0;
}

void fb_model_free(fb_model *m)
{
    forget_kernels(m);
    FB_VEC_FREE(&m->kernels);
    FB_VEC_FREE(&m->shares);
    FB_VEC_FREE(&m->theirs);
    fb_letters_free(&m->letters);
    fb_rows_free(&m->rows);
    fb_outline_free(m->outline);
    *m = (fb_model){0};
}

/* ---- kernels ------------------------------------------------------------------------------------------------------
 */

/* One line a letter, line l that of letter l, with predicted figures. */
static void predict_kernels(fb_model *m, const fb_plan *plan)
{
    bool doubted = fb_planner_machine(fb_plan_planner(plan))->doubted;
    for (int l = 0; l < m->letters.n; l++) {
        fb_str name = {0};
        fb_letter_title(&m->letters, plan, l, &name);
        const fb_group *g = fb_plan_group(plan, m->letters.first_group[l]);
        FB_VEC_PUSH(&m->kernels, (fb_kernel_line){.letter = l,
                                                  .group = m->letters.first_group[l],
                                                  .name = fb_str_take(&name),
                                                  .family = fb_family_name(g->family),
                                                  .p10 = NAN,
                                                  .p90 = NAN});
    }
    for (int g = 0; g < m->letters.n_groups; g++) {
        fb_group_cost cost;
        fb_kernel_line *k = &m->kernels.at[m->letters.of_group[g]];
        fb_plan_group_cost(plan, g, &cost);
        k->us += doubted ? NAN : cost.us;
        k->read += (double)cost.bytes_read;
        k->written += (double)cost.bytes_written;
        k->flops += (double)cost.flops;
        k->count += cost.launches;
    }
    for (int i = 0; i < m->kernels.n; i++) m->kernels.at[i].bytes = m->kernels.at[i].read + m->kernels.at[i].written;
}

static void add_share(fb_model *m, int kernel, int letter, double share)
{
    FB_VEC_PUSH(&m->shares, (fb_kernel_share){kernel, letter, share});
}

/* A kernel's figures are of all its launches, and groups that run the same code are one kernel: each of their lines
 * gets its part. */
static void share_kernels(fb_model *m, const fb_plan *plan, const fb_report *r)
{
    const fb_graph *g = m->outline->graph;
    int *groups = fb_calloc((size_t)m->letters.n + 1, sizeof *groups); /* of the kernel, by letter */
    int *seen = fb_calloc((size_t)m->letters.n_groups + 1, sizeof *seen);
    for (int i = 0; i < r->n_kernels; i++) {
        const fb_kernel_report *k = &r->kernels[i];
        if (k->group < 0 || k->group >= m->letters.n_groups) continue;
        int own = m->letters.of_group[k->group], all = 0;
        if (k->count <= m->kernels.at[own].count) {
            add_share(m, i, own, 1);
            continue;
        }
        for (int j = 0; j < k->n_nodes; j++) {
            fb_id id = fb_graph_find(g, k->nodes[j]);
            int group = id == FB_NONE ? FB_NONE : fb_plan_group_of(plan, id);
            if (group == FB_NONE || seen[group] == i + 1) continue;
            seen[group] = i + 1;
            groups[m->letters.of_group[group]]++;
            all++;
        }
        if (!all) add_share(m, i, own, 1);
        for (int l = 0; all && l < m->letters.n; l++) {
            if (groups[l]) add_share(m, i, l, (double)groups[l] / all);
            groups[l] = 0;
        }
    }
    fb_free(groups);
    fb_free(seen);
}

static void take_measured(fb_model *m, const fb_report *r)
{
    for (int i = 0; i < m->kernels.n; i++) m->kernels.at[i].measured = false;
    for (int i = 0; i < m->shares.n; i++) {
        const fb_kernel_share *s = &m->shares.at[i];
        const fb_kernel_report *k = &r->kernels[s->kernel];
        fb_kernel_line *line = &m->kernels.at[s->letter];
        if (!k->device_us.n) continue;
        if (!line->measured) line->us = line->p10 = line->p90 = 0;
        line->measured = true;
        line->source = k->source;
        line->us += s->share * k->device_us.median;
        line->p10 += s->share * k->device_us.p10;
        line->p90 += s->share * k->device_us.p90;
    }
}

/* A device that plans for itself: its kernels as it reports them. */
static void foreign_kernels(fb_model *m, const fb_report *r)
{
    for (int i = 0; i < r->n_kernels; i++) {
        const fb_kernel_report *k = &r->kernels[i];
        FB_VEC_PUSH(&m->kernels, (fb_kernel_line){.letter = FB_NONE,
                                                  .group = FB_NONE,
                                                  .name = fb_strdup(k->name),
                                                  .family = k->family,
                                                  .count = k->count,
                                                  .us = k->device_us.n ? k->device_us.median : NAN,
                                                  .p10 = k->device_us.p10,
                                                  .p90 = k->device_us.p90,
                                                  .bytes = k->bytes_read + k->bytes_written,
                                                  .read = k->bytes_read,
                                                  .written = k->bytes_written,
                                                  .flops = k->flops,
                                                  .measured = k->device_us.n > 0,
                                                  .source = k->source});
    }
}

/* What the kernels were made from: the session tells of progress many times a second, and there may be 20,000. Times
 * are not of it: samples change them alone. */
static fb_kernels_key key_of(const fb_model *m, const fb_report *r)
{
    const fb_column *c = m->column;
    fb_kernels_key key;
    memset(&key, 0, sizeof key);
    key.plan = c && m->outline ? c->plan : NULL;
    key.plan_hash = key.plan ? m->plan_hash : (fb_hash){0};
    key.predicted_us = key.plan ? c->predicted.us : 0;
    key.report = r;
    key.n_kernels = r ? r->n_kernels : 0;
    return key;
}

static bool times_changed(fb_model *m, const fb_report *r)
{
    const fb_stat none = {0}, first = r && r->n_kernels ? r->kernels[0].device_us : none,
                  last = r && r->n_kernels ? r->kernels[r->n_kernels - 1].device_us : none;
    bool changed = memcmp(&first, &m->first_us, sizeof first) != 0 || memcmp(&last, &m->last_us, sizeof last) != 0;
    m->first_us = first;
    m->last_us = last;
    return changed;
}

static void make_kernels(fb_model *m)
{
    const fb_column *c = m->column;
    const fb_report *r = c && c->report && !c->report->failed ? c->report : NULL;
    const fb_kernels_key key = key_of(m, r);
    const bool ours = key.plan != NULL, same = m->kernels_made && !memcmp(&key, &m->kernels_key, sizeof key);
    if (!times_changed(m, r) && same) return;
    m->kernels_made = true;
    m->kernels_key = key;
    if (!same || !ours) forget_kernels(m);
    if (ours && !same) predict_kernels(m, c->plan);
    if (ours && !same && r) share_kernels(m, c->plan, r);
    if (ours && r)
        take_measured(m, r);
    else if (r)
        foreign_kernels(m, r);
    m->own_us = m->own_bytes = 0;
    for (int i = 0; i < m->kernels.n; i++) {
        m->own_us = fmax(m->own_us, m->kernels.at[i].us);
        m->own_bytes = fmax(m->own_bytes, m->kernels.at[i].bytes);
    }
}

/* The bars of all columns have one scale: the longest line of any. Kernels that run the same code are one line. */
static void scale_kernels(fb_app *app)
{
    enum { MOST = 300 };
    fb_model *m = &app->model;
    m->most_us = m->own_us;
    m->most_bytes = m->own_bytes;
    for (int i = 0; i < fb_session_columns(app->session); i++) {
        const fb_column *c = fb_session_column(app->session, i);
        const fb_report *r = c->report && !c->report->failed && c->report->n_kernels <= MOST ? c->report : NULL;
        for (int k = 0; r && k < r->n_kernels; k++) {
            const char *code = r->kernels[k].code;
            double us = 0, bytes = 0;
            for (int j = k; j < r->n_kernels; j++) {
                const fb_kernel_report *one = &r->kernels[j];
                if (j != k && (!code || !one->code || strcmp(one->code, code) != 0)) continue;
                if (one->device_us.n) us += one->device_us.median;
                if (isfinite(one->bytes_read)) bytes += one->bytes_read + one->bytes_written;
            }
            m->most_us = fmax(m->most_us, us);
            m->most_bytes = fmax(m->most_bytes, bytes);
        }
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

void fb_model_refold(fb_app *app)
{
    fb_model *m = &app->model;
    const fb_plan *plan = m->column ? m->column->plan : NULL;
    if (!m->outline) return;
    fb_verdicts_clear(app->verdicts); /* it remembers rows */
    fb_rail_forget(&app->rail);
    if (!plan && m->theirs.n)
        fb_rows_make_theirs(&m->rows, m->outline, m->theirs.at);
    else
        fb_rows_make(&m->rows, m->outline, plan, plan ? &m->letters : NULL);
    app->edge = 0;
    app->dirty = true;
}

static void new_outline(fb_app *app, const fb_graph *g)
{
    fb_model *m = &app->model;
    fb_outline *o = fb_outline_new(g);
    if (m->outline) fb_outline_carry(o, m->outline);
    fb_outline_free(m->outline);
    m->outline = o;
    m->graph_hash = g->hash;
}

static void drop_outline(fb_app *app)
{
    fb_model *m = &app->model;
    fb_verdicts_clear(app->verdicts);
    fb_letters_free(&m->letters);
    fb_rows_free(&m->rows);
    fb_outline_free(m->outline);
    m->outline = NULL;
    m->theirs.n = 0;
    m->theirs_of = NULL;
    fb_marks_clear(&app->marks);
}

/* The edge chosen last, from what was found so far: the plan that the rows speak of may be gone. */
static fb_row_edge chosen_before(fb_app *app)
{
    const fb_row *row = fb_model_row(app);
    bool known = row && row->first_edge != FB_NONE && app->edge < row->n_edges;
    return known ? app->model.rows.edges.at[row->first_edge + app->edge] : (fb_row_edge){.a = FB_NONE};
}

/* What was toggled stays chosen, wherever it stands among the row's edges now. */
static void choose_again(fb_app *app, const fb_row_edge *chosen)
{
    int n = 0, row = app->scroll[FB_VIEW_GRAPH].cursor;
    if (chosen->a == FB_NONE || !fb_model_row(app)) return;
    const fb_row_edge *edges = fb_rows_edges(&app->model.rows, row, &n);
    for (int i = 0; i < n; i++)
        if (edges[i].a == chosen->a && edges[i].b == chosen->b && edges[i].inside == chosen->inside) app->edge = i;
}

/* The first time there is a plan: to the first row where something can be fused or cut. */
static void place_cursor(fb_app *app)
{
    enum { MOST = 200 };
    fb_rows *rows = &app->model.rows;
    if (app->placed || !rows->plan) return;
    app->placed = true;
    for (int i = 0, n = 0; i < rows->rows.n && i < MOST && !app->scroll[FB_VIEW_GRAPH].cursor; i++) {
        fb_rows_edges(rows, i, &n);
        if (n) app->scroll[FB_VIEW_GRAPH].cursor = i;
    }
}

/* What a framework's compiler did with the column's graph; NULL: it is ours, or that is not known (yet). */
const fb_theirs *fb_model_theirs(const fb_app *app)
{
    const fb_column *c = app->model.column;
    return c && !c->plan && c->report && !c->report->failed ? c->report->theirs : NULL;
}

/* Each node's kernel in it; true: another one than before. Reports come anew with every sample, and are of one plan. */
static bool take_theirs(fb_app *app, bool other_graph)
{
    fb_model *m = &app->model;
    const fb_theirs *t = fb_model_theirs(app);
    if (!other_graph && t == m->theirs_of && m->column == m->theirs_column) return false;
    m->theirs_of = t;
    m->theirs_column = m->column;
    int n = t && !t->unavailable ? m->column->graph->n_nodes : 0;
    fb_arena *arena = fb_arena_new();
    const int *of = n ? fb_theirs_kernel_of(t, m->column->graph, arena) : NULL;
    bool same = n == m->theirs.n && (!n || memcmp(of, m->theirs.at, (size_t)n * sizeof *of) == 0);
    if (!same) {
        m->theirs.n = 0;
        for (int i = 0; i < n; i++) FB_VEC_PUSH(&m->theirs, of[i]);
    }
    fb_arena_free(arena);
    return !same;
}

void fb_model_update(fb_app *app)
{
    fb_model *m = &app->model;
    int n = fb_session_columns(app->session);
    if (app->column >= n) app->column = n ? n - 1 : 0;
    m->column = n ? fb_session_column(app->session, app->column) : NULL;
    const fb_graph *g = m->column ? m->column->graph : NULL;
    const fb_plan *plan = m->column ? m->column->plan : NULL;
    app->dirty = true;
    if (!g) {
        drop_outline(app);
        make_kernels(m);
        scale_kernels(app);
        return;
    }
    bool other_graph = !m->outline || m->outline->graph != g || !fb_hash_equal(m->graph_hash, g->hash);
    fb_hash hash = plan ? fb_plan_hash(plan) : (fb_hash){0};
    bool other_theirs = take_theirs(app, other_graph);
    if (other_graph) new_outline(app, g);
    if (other_graph || other_theirs || m->rows.plan != plan || !fb_hash_equal(hash, m->plan_hash)) {
        const fb_row_edge chosen = other_graph ? (fb_row_edge){.a = FB_NONE} : chosen_before(app);
        fb_letters_free(&m->letters);
        if (plan) fb_letters_make(&m->letters, plan, m->outline);
        fb_marks_clear(&app->marks);
        m->plan_hash = hash;
        fb_model_refold(app);
        choose_again(app, &chosen);
        place_cursor(app);
    }
    make_kernels(m);
    scale_kernels(app);
}

/* ---- the cursor ---------------------------------------------------------------------------------------------------
 */

const fb_row *fb_model_row(fb_app *app)
{
    const fb_model *m = &app->model;
    int at = app->scroll[FB_VIEW_GRAPH].cursor;
    return m->outline && at >= 0 && at < m->rows.rows.n ? &m->rows.rows.at[at] : NULL;
}

const fb_row_edge *fb_model_edge(fb_app *app, int *n)
{
    *n = 0;
    if (!fb_model_row(app)) return NULL;
    const fb_row_edge *edges = fb_rows_edges(&app->model.rows, app->scroll[FB_VIEW_GRAPH].cursor, n);
    if (!*n) return NULL;
    if (app->edge >= *n) app->edge = *n - 1;
    return &edges[app->edge];
}

fb_id fb_model_node(fb_app *app)
{
    const fb_row *row = fb_model_row(app);
    if (!row) return FB_NONE;
    const fb_entry *e = &app->model.outline->entries[row->entry];
    return e->kind == FB_ENTRY_NODE ? e->id : FB_NONE;
}

void fb_model_go(fb_app *app, fb_id node)
{
    fb_model *m = &app->model;
    if (!m->outline || m->outline->entry_of[node] == FB_NONE) return;
    int row = fb_rows_find(&m->rows, node);
    if (row == FB_NONE) return;
    app->scroll[FB_VIEW_GRAPH].cursor = row;
    app->edge = 0;
}
