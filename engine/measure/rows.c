/* Makes the rows of a report: equal launches of a program become one row with a count. Needs the plan and its
 * program; adds times and counters as traces bring them. */
#include "measure/rows.h"

#include "base/mem.h"
#include "base/vec.h"
#include "code/emit.h"

#include <math.h>
#include <string.h>

typedef struct {
    fb_kernel_report figures; /* its texts and nodes live in the rows' arena */
    int kernel;               /* of the program; FB_NONE for a library call */
    FB_VEC(fb_id) nodes;
    FB_VEC(double) us[2]; /* a traced run, by cache state: all its launches together */
    double now;           /* of the run being added */
} row;

struct fb_kernel_rows {
    fb_arena *arena;
    int n, n_indices;
    row *row;
    int *row_of; /* a span's index → row; FB_NONE for epilogues, which run inside their library call */
    fb_plan_cost cost;
    double total_bytes;
    int64_t launches;
    int nodes;
    const char *launch_mode, *graph_hash, *plan_hash;
    const char *sums, *copies; /* as the report has them */
    double copied_in, copied_out;
};

/* Library calls that do the same to other buffers are one row, as equal kernels are; FB_NONE when there is none yet. */
static int row_of_call(const fb_kernel_rows *rows, const char *code)
{
    for (int i = 0; i < rows->n; i++)
        if (rows->row[i].kernel == FB_NONE && strcmp(rows->row[i].figures.code, code) == 0) return i;
    return FB_NONE;
}

/* What a group's call has laid out: a launch of the group beside its own. */
static bool is_laid_out(const fb_plan *plan, const fb_program *p, const fb_launch *l)
{
    return l->group != FB_NONE && l->kind == FB_LAUNCH_KERNEL && p->kernels[l->kernel].family == FB_FAMILY_COPY &&
           fb_plan_group(plan, l->group)->family != FB_FAMILY_COPY;
}

static fb_family family_of(const fb_plan *plan, const fb_program *p, const fb_launch *l)
{
    if (l->kind == FB_LAUNCH_KERNEL && (fb_program_own_cost(p, l) || is_laid_out(plan, p, l)))
        return p->kernels[l->kernel].family;
    return fb_plan_group(plan, l->group)->family;
}

static row *add_row(fb_kernel_rows *rows, const fb_plan *plan, const fb_program *p, const fb_launch *l,
                    const char *code)
{
    row *r = &rows->row[rows->n++];
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    fb_kernel_report_clear(&r->figures);
    r->figures.code = fb_arena_strdup(rows->arena, code);
    r->kernel = l->kind == FB_LAUNCH_KERNEL ? l->kernel : FB_NONE;
    r->figures.group = l->group;
    r->figures.family = fb_family_name(family_of(plan, p, l));
    const fb_group *called = r->kernel == FB_NONE ? fb_plan_group(plan, l->group) : NULL;
    r->figures.name = called ? fb_emit_kernel_name(g, called->n_nodes, called->nodes, rows->arena)
                             : fb_arena_strdup(rows->arena, p->kernels[r->kernel].name);
    r->figures.count = 0;
    r->figures.bytes_read = r->figures.bytes_written = r->figures.flops = r->figures.predicted_us = 0;
    r->figures.apart_bytes = r->figures.apart_us = r->figures.apart_written = r->figures.few_us = 0;
    return r;
}

static void add_figures(row *r, const fb_group_cost *c, double times, int n_nodes, const fb_id *nodes)
{
    r->figures.bytes_read += (double)c->bytes_read * times;
    r->figures.bytes_written += (double)c->bytes_written * times;
    r->figures.apart_bytes += c->apart_bytes * times;
    r->figures.apart_us += c->apart_us * times;
    r->figures.apart_written += c->apart_written * times;
    r->figures.few_us += c->few_us * times;
    r->figures.flops += (double)c->flops * times;
    r->figures.predicted_us += c->us * times;
    for (int i = 0; i < n_nodes; i++) FB_VEC_PUSH(&r->nodes, nodes[i]);
}

/* Modelled figures of one launch that is made `times` times. */
static void add_cost(row *r, const fb_plan *plan, const fb_program *p, const fb_launch *l, double times)
{
    const fb_group_cost *own = fb_program_own_cost(p, l);
    if (own) {
        const fb_kernel *k = &p->kernels[l->kernel];
        add_figures(r, own, times, k->merged ? k->n_nodes : 0, k->nodes);
    } else if (is_laid_out(plan, p, l)) {
        r->figures.predicted_us = NAN; /* its time and bytes are in those of the call */
    } else {
        fb_group_cost c;
        fb_plan_group_cost(plan, l->group, &c);
        const fb_group *group = fb_plan_group(plan, l->group);
        add_figures(r, &c, times, group->n_nodes, group->nodes);
    }
}

static void name_nodes(fb_kernel_rows *rows, row *r, const fb_graph *g)
{
    r->figures.n_nodes = r->nodes.n;
    r->figures.nodes = FB_NEW_ARRAY(rows->arena, const char *, r->nodes.n);
    for (int i = 0; i < r->nodes.n; i++)
        r->figures.nodes[i] = fb_arena_strdup(rows->arena, g->nodes[r->nodes.at[i]].name);
    FB_VEC_FREE(&r->nodes);
}

/* The row of a launch that is the first of its kernel or call. */
static int new_row(fb_kernel_rows *rows, const fb_plan *plan, const fb_program *p, const fb_launch *l)
{
    char code[33];
    fb_hash_hex(fb_program_launch_code(p, l), code);
    int same = l->kind == FB_LAUNCH_GEMM ? row_of_call(rows, code) : FB_NONE;
    return same != FB_NONE ? same : (int)(add_row(rows, plan, p, l, code) - rows->row);
}

static void add_launches(fb_kernel_rows *rows, const fb_plan *plan, const fb_program *p)
{
    enum { MAX_DEPTH = 64 };
    double times[MAX_DEPTH] = {1};
    int depth = 0;
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->kind == FB_LAUNCH_REPEAT && depth + 1 < MAX_DEPTH)
            times[depth + 1] = times[depth] * (double)l->count, depth++;
        if (l->kind == FB_LAUNCH_END && depth) depth--;
        if (l->kind != FB_LAUNCH_KERNEL && l->kind != FB_LAUNCH_GEMM) continue;
        int index = l->kind == FB_LAUNCH_KERNEL ? l->kernel : p->n_kernels + l->gemm;
        if (rows->row_of[index] == FB_NONE) rows->row_of[index] = new_row(rows, plan, p, l);
        row *r = &rows->row[rows->row_of[index]];
        r->figures.count += (int64_t)times[depth];
        add_cost(r, plan, p, l, times[depth]);
    }
}

static void add_copies(fb_kernel_rows *rows, const fb_program *p)
{
    int *buffers = fb_alloc(((size_t)p->n_buffers + 1) * sizeof *buffers), first_out;
    int n = fb_program_copies(p, buffers, &first_out);
    if (n) rows->copies = p->overlap ? "overlapped" : "in order";
    for (int i = 0; i < n; i++)
        *(i < first_out ? &rows->copied_in : &rows->copied_out) += (double)p->buffers[buffers[i]].bytes;
    fb_free(buffers);
}

fb_kernel_rows *fb_kernel_rows_new(const fb_plan *plan, const fb_program *p)
{
    char hex[33];
    fb_arena *arena = fb_arena_new();
    fb_kernel_rows *rows = FB_NEW(arena, fb_kernel_rows);
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    *rows = (fb_kernel_rows){.arena = arena, .n_indices = p->n_kernels + p->n_gemms};
    rows->row = FB_NEW_ARRAY(arena, row, rows->n_indices + 1);
    rows->row_of = FB_NEW_ARRAY(arena, int, rows->n_indices + 1);
    for (int i = 0; i < rows->n_indices; i++) rows->row_of[i] = FB_NONE;
    add_launches(rows, plan, p);
    for (int i = 0; i < rows->n; i++) name_nodes(rows, &rows->row[i], g);
    fb_plan_cost_of(plan, &rows->cost);
    rows->total_bytes = (double)p->total_bytes;
    rows->launches = fb_program_launches(p);
    rows->nodes = g->n_nodes;
    rows->launch_mode = fb_launch_mode_name(p->mode);
    add_copies(rows, p);
    if (fb_program_sums_in_any_order(p)) rows->sums = "in any order";
    rows->graph_hash = fb_arena_strdup(arena, fb_hash_hex(g->hash, hex));
    rows->plan_hash = fb_arena_strdup(arena, fb_hash_hex(fb_plan_hash(plan), hex));
    return rows;
}

void fb_kernel_rows_free(fb_kernel_rows *rows)
{
    if (!rows) return;
    for (int i = 0; i < rows->n; i++) {
        FB_VEC_FREE(&rows->row[i].us[FB_CACHE_HOT]);
        FB_VEC_FREE(&rows->row[i].us[FB_CACHE_COLD]);
    }
    fb_arena_free(rows->arena);
}

const char *fb_kernel_rows_name(const fb_kernel_rows *rows, int index)
{
    return rows->row_of[index] == FB_NONE ? NULL : rows->row[rows->row_of[index]].figures.name;
}

int fb_kernel_rows_find(const fb_kernel_rows *rows, int index)
{
    return rows->row_of[index];
}

/* A library may launch in ways that the device's trace does not follow: then a sum over the rest would be too small. */
static bool unseen(const row *r)
{
    return r->kernel == FB_NONE && r->figures.flops > 0 && r->now == 0;
}

double fb_kernel_rows_trace(fb_kernel_rows *rows, fb_cache_state cache, const fb_span *spans, int64_t n)
{
    double all = 0;
    for (int i = 0; i < rows->n; i++) rows->row[i].now = 0;
    for (int64_t i = 0; i < n; i++) {
        double us = spans[i].end_us - spans[i].start_us;
        if (spans[i].lane != FB_LANE_KERNEL) continue;
        int at = spans[i].index >= 0 && spans[i].index < rows->n_indices ? rows->row_of[spans[i].index] : FB_NONE;
        if (at != FB_NONE) rows->row[at].now += us;
        all += us;
    }
    for (int i = 0; i < rows->n; i++)
        if (unseen(&rows->row[i])) return NAN;
    for (int i = 0; i < rows->n; i++) FB_VEC_PUSH(&rows->row[i].us[cache], rows->row[i].now);
    return all;
}

bool fb_kernel_rows_count(fb_kernel_rows *rows, fb_device *d, fb_loaded *l, fb_error *err)
{
    if (!d->ops->count) return fb_fail(err, FB_ERR_UNAVAILABLE, "%s has no counters of memory traffic", d->name);
    fb_counters *c = fb_calloc((size_t)rows->n_indices + 1, sizeof *c);
    bool ok = d->ops->count(l, c, err);
    for (int i = 0; ok && i < rows->n; i++) {
        fb_kernel_report *k = &rows->row[i].figures;
        k->measured_read = k->measured_written = k->l2_bytes = 0;
    }
    for (int i = 0; ok && i < rows->n_indices; i++) {
        if (rows->row_of[i] == FB_NONE) continue;
        fb_kernel_report *k = &rows->row[rows->row_of[i]].figures;
        k->measured_read += c[i].dram_read;
        k->measured_written += c[i].dram_written;
        k->l2_bytes += c[i].l2_bytes;
        k->occupancy = c[i].occupancy;
    }
    fb_free(c);
    return ok;
}

static fb_stat times(fb_stat s, double n)
{
    return (fb_stat){.median = s.median * n, .p10 = s.p10 * n, .p90 = s.p90 * n, .n = s.n};
}

void fb_kernel_rows_recall(fb_kernel_rows *rows, const fb_recall *recall)
{
    for (int i = 0; i < rows->n_indices; i++) {
        if (rows->row_of[i] == FB_NONE) continue;
        const fb_recalled_kernel *from = &recall->kernels[i];
        fb_kernel_report *k = &rows->row[rows->row_of[i]].figures;
        double n = (double)k->count;
        k->source = from->source;
        k->stale = from->stale;
        k->device_us = times(from->hot_us, n);
        k->cold_us = times(from->cold_us, n);
        k->measured_read = from->counters.dram_read * n;
        k->measured_written = from->counters.dram_written * n;
        k->l2_bytes = from->counters.l2_bytes * n;
        k->registers = from->resources.registers;
        k->shared_bytes = from->resources.shared_bytes;
        k->spill_bytes = from->resources.spill_bytes;
        k->local_bytes = from->resources.local_bytes * n;
        k->occupancy = from->resources.occupancy;
    }
}

static void add_resources(const row *r, const fb_device *d, const fb_loaded *l, fb_kernel_report *k)
{
    fb_resources have;
    if (r->kernel == FB_NONE || !d->ops->resources(l, r->kernel, &have)) return;
    k->registers = have.registers;
    k->shared_bytes = have.shared_bytes;
    k->spill_bytes = have.spill_bytes;
    k->local_bytes = have.local_bytes * (double)k->count;
    if (isnan(k->occupancy)) k->occupancy = have.occupancy;
}

static void take_times(const row *r, fb_kernel_report *k)
{
    if (r->us[FB_CACHE_HOT].n) k->device_us = fb_stat_of(r->us[FB_CACHE_HOT].at, r->us[FB_CACHE_HOT].n);
    if (r->us[FB_CACHE_COLD].n) k->cold_us = fb_stat_of(r->us[FB_CACHE_COLD].at, r->us[FB_CACHE_COLD].n);
}

void fb_kernel_rows_report(const fb_kernel_rows *rows, const fb_device *d, const fb_loaded *l, fb_report *r)
{
    r->n_kernels = rows->n;
    r->kernels = FB_NEW_ARRAY(r->arena, fb_kernel_report, rows->n);
    r->measured_read = r->measured_written = r->bytes_read = r->bytes_written = 0;
    for (int i = 0; i < rows->n; i++) {
        fb_kernel_report *k = &r->kernels[i];
        *k = rows->row[i].figures;
        k->name = fb_arena_strdup(r->arena, k->name);
        k->code = fb_arena_strdup(r->arena, k->code);
        k->nodes = FB_NEW_ARRAY(r->arena, const char *, k->n_nodes);
        for (int n = 0; n < k->n_nodes; n++) k->nodes[n] = fb_arena_strdup(r->arena, rows->row[i].figures.nodes[n]);
        take_times(&rows->row[i], k);
        if (l) add_resources(&rows->row[i], d, l, k);
        r->bytes_read += k->bytes_read;
        r->bytes_written += k->bytes_written;
        r->measured_read += k->measured_read; /* NAN where one is not known */
        r->measured_written += k->measured_written;
    }
    if (!rows->n) r->measured_read = r->measured_written = NAN;
    r->nodes = rows->nodes;
    r->launches = rows->launches;
    r->launch_mode = rows->launch_mode;
    r->sums = rows->sums;
    if (rows->copies) {
        r->copies = rows->copies;
        r->copied_in = rows->copied_in;
        r->copied_out = rows->copied_out;
    }
    r->predicted_us = rows->cost.us;
    r->floor_us = rows->cost.floor_us;
    r->flops = (double)rows->cost.flops;
    r->peak_bytes = rows->total_bytes;
    r->graph_hash = fb_arena_strdup(r->arena, rows->graph_hash);
    r->plan_hash = fb_arena_strdup(r->arena, rows->plan_hash);
}
