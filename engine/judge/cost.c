/* The cost model. A kernel takes t = max(memory, compute) + 0.05 · min(memory, compute): the two overlap but not quite
 * (XLA's priority fusion takes the same form). Memory is the kernel's distinct bytes at the calibrated copy rate, the
 * hot one where they fit the last-level cache. On a GPU latency counts beside them. plan/cost.c adds kernels up. */
#include "base/vec.h"
#include "graph/access.h"
#include "judge/library.h"
#include "judge/parts.h"
#include "nest/parts.h"
#include "schedule/bands.h"
#include "schedule/long.h"
#include "schedule/schedule.h"
#include "schedule/thread_cost.h"

#include <math.h>
#include <stdlib.h>

#define NO_OVERLAP 0.05

static double known(double value)
{
    return isfinite(value) ? value : 0;
}

static double together(double memory_us, double compute_us)
{
    return fmax(memory_us, compute_us) + NO_OVERLAP * fmin(memory_us, compute_us);
}

double fb_launch_us(const fb_machine *m, fb_launch_mode mode)
{
    switch (mode) {
    case FB_LAUNCH_GRAPH: return known(m->graph_launch_us);
    case FB_LAUNCH_MEGA: return known(m->barrier_us);
    default: return known(m->launch_us);
    }
}

double fb_launching_us(const fb_machine *m, fb_launch_mode mode, double launches, double calls, double called_us)
{
    double calling_us = mode == FB_LAUNCH_STREAM && calls > 0 ? calls * known(m->call_us) - called_us : 0;
    return launches * fb_launch_us(m, mode) + fmax(calling_us, 0);
}

/* A node that no family takes has no nest: its own operands and result are what it would touch. */
static void facts_of_nodes(const fb_graph *g, const fb_analysis *a, fb_group_cost *out)
{
    for (int i = 0; i < a->kernel.n_nodes; i++) {
        const fb_node *n = &g->nodes[a->kernel.nodes[i]];
        for (int k = 0; k < n->n_args; k++) out->bytes_read += fb_node_bytes(g, n->args[k]);
        out->bytes_written += fb_node_bytes(g, a->kernel.nodes[i]);
        out->flops += fb_node_flops(g, a->kernel.nodes[i]);
    }
}

/* ---- what a GPU's kernel takes beside bytes and arithmetic ----
 *
 * Small kernels and row reductions wait for latency, not for bytes. Chosen with kernels recorded on an H200
 * (tests/bench/bench_cost tells how well, and for which scripts that is no test). */

/* Loads, exchange between threads, and the end of a row wait for each other, twice as a rule … */
static const double reduce_once_us = 1.2;
static const double round_us = 0.6; /* FB_ROUND_CYCLES on an H200 */
static const double stage_round_us = 0.2;
/* … once more for each time that the multiprocessors are filled with rows: 1.2 µs where these are in L2, 2.4 where they
 * come from DRAM as inputs do, which change from run to run. */
static const double reduce_wave_us = 1.6;
/* … of rows that read what others have read: 1024 × 1024 distances of 64 components took 0.7 a wave, 8192 × 512 of 32 0.65. */
static const double again_wave_us = 0.65;

enum { PATH_BYTES = 64 }; /* that come to a multiprocessor in a cycle */

/* Rows that are too few for all multiprocessors come through the paths of those that have one. A multiprocessor takes
 * 64 bytes a cycle (Luo et al., see tile_cost.c); one block, which waits for a piece before it asks for the next, got
 * half of that (two rows of 131,072, recorded on an H200: script over_fusion). A row has a block, or several where it
 * is only reduced; what a thread cannot hold in registers is read again in each pass. */
static double starved_cycles(const fb_machine *m, const fb_analysis *a, const fb_section *s)
{
    enum { PIECE = 4 };
    fb_arena *arena = fb_arena_new();
    fb_section_schedule x = fb_schedule_section(a->nest, a->knobs, s, arena);
    fb_arena_free(arena);
    bool split = x.deal == FB_DEAL_SPLIT || ((x.deal == FB_DEAL_COLUMNS || x.deal == FB_DEAL_ROWS) && x.parts > 1);
    bool side = x.deal == FB_DEAL_COLUMNS && x.each > 1; /* 24 blocks got 40 bytes a cycle each, on an H200 */
    double inner = fmax(1, (double)fb_section_longest(s)), bytes = 0;
    double path = split ? PATH_BYTES : side ? PATH_BYTES * 0.6 : PATH_BYTES / 2.0;
    for (int i = 0; i < a->facts.n_reads; i++) bytes += (double)a->facts.reads[i].bytes;
    /* a row that has not even a warp's pieces leaves its share of a path to others */
    double blocks = split || side ? (double)x.blocks : (double)x.rows * fmin(inner / PIECE / a->nest->target->warp, 1);
    double passes = x.held ? 1 : split && x.scans ? 2 : s->n_passes;
    double parts = split ? FB_ROUND_CYCLES : 0; /* which are added up when all have come */
    return parts + (blocks < m->units ? bytes / a->nest->n_sections * passes / (fmax(ceil(blocks), 1) * path) : 0);
}

/* What moves between the multiprocessors and L2 beside the elements that are asked for: neighbouring threads take
 * neighbouring elements, and where these lie apart in a value, each moves a sector for its one element. */
static double rest_of_sector(const fb_analysis *a, const fb_section *s, fb_ix at, fb_dtype dtype)
{
    enum { SECTOR = 32 };
    int64_t stride;
    int size = fb_dtype_size(dtype);
    if (!fb_ix_coefficient(a->nest->pool, at, s->rows.var[s->rows.n - 1], &stride)) return 0;
    return llabs(stride) * size >= SECTOR ? (double)fb_space_points(&s->rows) * (SECTOR - size) : 0;
}

static double read_apart(const fb_analysis *a, const fb_section *s)
{
    double bytes = 0, turned = 0;
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_LOAD) bytes += rest_of_sector(a, s, s->values[i].at, s->values[i].dtype);
    if (bytes == 0) return 0; /* as most have it, which need not be dealt for this */
    fb_arena *arena = fb_arena_new();
    const fb_section_schedule x = fb_schedule_section(a->nest, a->knobs, s, arena);
    for (int i = 0; i < s->n_values && x.deal == FB_DEAL_SQUARES; i++)
        if (fb_schedule_turns(a->nest, s, &s->values[i], x.across))
            turned += rest_of_sector(a, s, s->values[i].at, s->values[i].dtype);
    fb_arena_free(arena);
    return bytes - turned;
}

static double written_apart(const fb_analysis *a, const fb_section *s)
{
    double bytes = 0;
    for (int i = 0; i < s->n_roots && !s->scatter; i++) {
        const fb_root *r = &s->roots[i];
        if (r->storage != FB_ON_CHIP && r->space == FB_NONE)
            bytes += rest_of_sector(a, s, r->at, s->values[r->value].dtype);
    }
    return bytes;
}

/* A sector of which a part is written is more work for L2 than one that is read at the cache's own rate: a kernel that
 * writes a result transposed got 1.97 TB/s of them, recorded on an H200 (script transposed_output). */
static void add_apart(const fb_machine *m, const fb_analysis *a, fb_group_cost *out)
{
    static const double partial = 3.36;
    double read = 0, written = 0, rate = fb_rate_peak(&m->copy_hot);
    for (int i = 0; i < a->nest->n_sections; i++) {
        const fb_section *s = &a->nest->sections[i];
        if (!s->rows.n || s->n_passes) continue;
        read += read_apart(a, s);
        written += written_apart(a, s);
    }
    out->apart_bytes = read + written;
    out->apart_written = written;
    out->apart_us = fb_time_us(read, rate) + partial * fb_time_us(written, rate);
}

/* Tiles go along rows, of which single elements lie side by side in a value that lies channels last: each moves a sector. (A
 * generated 1 × 1 convolution to 128 channels of 28 × 28, 16 pictures, with what follows it: 35 µs on an H200, and 5.9 were
 * foreseen; to 256 of 56 × 56 110 and 28.) */
static double across_us(const fb_machine *m, const fb_analysis *a)
{
    enum { SECTOR = 32 };
    const fb_graph *g = a->nest->graph;
    double bytes = 0;
    for (int i = 0; i < a->nest->n_sections; i++) {
        const fb_section *s = &a->nest->sections[i];
        double points = (double)fb_space_points(&s->rows) * SECTOR;
        for (int k = 0; k < s->n_values; k++) {
            const fb_value *v = &s->values[k];
            bool across = v->kind == FB_VALUE_LOAD && !fb_nest_is_product(a->nest, v->node) &&
                          fb_storage_innermost(g, v->node) != FB_NONE;
            if (across) bytes += points;
        }
        for (int r = 0; r < s->n_roots; r++)
            if (s->roots[r].storage >= 0 && fb_storage_innermost(g, s->roots[r].storage) != FB_NONE) bytes += points;
    }
    return fb_time_us(bytes, fb_rate_peak(&m->copy_hot));
}

/* How often a section reads single elements by a load whose place comes from memory; 0 where rows lie side by side. */
static double places_of(const fb_analysis *a, const fb_section *s, const fb_value *v)
{
    double times = 1;
    bool found = false;
    if (v->kind != FB_VALUE_LOAD || v->space != FB_NONE) return 0;
    for (int d = 0; d < s->n_data; d++) found |= fb_ix_uses(a->nest->pool, v->at, s->data[d].var);
    for (int d = 0; d < s->rows.n; d++) {
        if (fb_ix_uses(a->nest->pool, v->at, s->rows.var[d])) return 0;
        if (v->rows >> d & 1) times *= (double)s->rows.extent[d];
    }
    return found ? times : 0;
}

typedef struct {
    fb_id node;
    double times; /* that an element of it is read */
} table;

typedef FB_VEC(table) tables;

static void add_table(tables *to, fb_id node, double times)
{
    for (int i = 0; i < to->n; i++)
        if (to->at[i].node == node) {
            to->at[i].times += times;
            return;
        }
    FB_VEC_PUSH(to, ((table){node, times}));
}

/* Of tables that the cache does not hold DRAM moves 64 bytes for a place, not a sector of 32; where they were moved
 * before, the cache has them (recorded on an H200: script registers). */
static void add_places(const fb_machine *m, const fb_analysis *a, fb_group_cost *out)
{
    enum { SECTOR = 32, MOVED = 64 };
    tables all = {0};
    double sectors = 0, apart_us = 0;
    for (int i = 0; i < a->nest->n_sections; i++) {
        const fb_section *s = &a->nest->sections[i];
        for (int k = 0; k < s->n_values && s->n_data; k++) {
            double times = places_of(a, s, &s->values[k]);
            if (times > 0) add_table(&all, s->values[k].node, times);
        }
    }
    for (int i = 0; i < all.n; i++) {
        int64_t bytes = fb_node_bytes(a->nest->graph, all.at[i].node);
        if (bytes <= m->cache_bytes) continue;
        double times = all.at[i].times;
        double moved = fb_added_rows(&(fb_added){.rows = bytes / MOVED, .points = (int64_t)times});
        sectors += times * SECTOR;
        apart_us += fb_time_us(moved * MOVED, fb_rate_peak(&m->copy_cold)) +
                    fb_time_us((times - moved) * SECTOR, fb_rate_peak(&m->copy_hot));
    }
    FB_VEC_FREE(&all);
    if (sectors == 0) return;
    double rest = (double)(out->bytes_read + out->bytes_written) - sectors;
    out->memory_us = fb_memory_us(m, fmax(rest, 0)) + apart_us;
    out->us = fmax(out->us, out->memory_us);
}

static double starved_us(const fb_machine *m, const fb_analysis *a)
{
    double cycles = 0, clock = fb_cycles_a_us(m);
    for (int i = 0; i < a->nest->n_sections; i++) {
        const fb_section *s = &a->nest->sections[i];
        if (s->n_passes) cycles = fmax(cycles, starved_cycles(m, a, s));
    }
    return clock > 0 ? cycles / clock : 0;
}

/* Of neighbours that lie side by side a warp loads once what is the same for them. (524,288 points of an index that 128 columns
 * are looked up by: 537 MB, were each to read it.) */
static double of_neighbours(const fb_analysis *a, const fb_section *s, const fb_value *v)
{
    const int last = s->rows.n - 1;
    if (last < 0 || v->rows >> last & 1 || !fb_section_lies_across(a->nest->pool, s)) return 1;
    return fmin((double)s->rows.extent[last], a->nest->target->warp);
}

enum { SMALL = 1 << 20 }; /* bytes of a tensor that the caches next to the threads have, about */

/* Rows that are reduced over what others are as well, as the channels of a group are when each is normalised by itself, read
 * all of it in each pass. Blocks of such rows are on different multiprocessors, so that it comes through L2 as often.
 * What is small the caches next to the threads have. (A group norm of 64 channels in groups of 4: 4.2 GB came through L2
 * for 1.0 GB of DRAM, in 737 µs on an H100; without this 464 were foreseen.) */
static double shared_us(const fb_machine *m, const fb_analysis *a, const fb_group_cost *c)
{
    double again = 0;
    if (a->kernel.n_contractions) return 0; /* whose operands neighbours share on chip */
    for (int i = 0; i < a->nest->n_sections; i++) {
        const fb_section *s = &a->nest->sections[i];
        fb_section_schedule ranked = {.blocks = fb_space_points(&s->rows)}; /* a block goes through a row once */
        fb_schedule_deal_ranked(a->nest, s, 0, &ranked);
        for (int k = 0; k < s->n_values; k++) {
            const fb_value *v = &s->values[k];
            if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE) continue;
            double own = (double)fb_node_bytes(a->nest->graph, v->node), passes = 0;
            double read =
                (double)ranked.blocks * (double)fb_space_points(&s->spaces[v->space]) * fb_dtype_size(v->dtype);
            read /= of_neighbours(a, s, v);
            for (int p = 0; p < s->n_passes; p++) passes += s->passes[p].space == v->space;
            if (own > SMALL && read > 1.5 * own) again += read * fmax(passes, 1) - own;
        }
    }
    double bytes = (double)(c->bytes_read + c->bytes_written) + again;
    return again > 0 ? fb_time_us(bytes, fb_rate_peak(&m->copy_hot)) : 0;
}

/* Rows that lie side by side, go by several passes and are not held in registers come from memory again in each, where
 * all that is on its way at a time is more than the cache holds. (Windows of a volume, the largest of 64 channels and the
 * sum of their exponentials: 534 µs on an H200; read once they were foreseen as 132.) */
static double passes_us(const fb_machine *m, const fb_analysis *a, const fb_group_cost *c)
{
    const double threads_of_unit = 2048;
    double again = 0;
    if (a->kernel.n_contractions || a->nest->n_sections != 1 || a->nest->sections[0].n_passes < 2) return 0;
    fb_arena *arena = fb_arena_new();
    fb_section_schedule x = fb_schedule_section(a->nest, a->knobs, &a->nest->sections[0], arena);
    if (x.deal == FB_DEAL_COLUMNS && !x.held) {
        double at_once = fmin(m->units * threads_of_unit / fmax(x.team, 1) / fmax((double)x.rows, 1), 1);
        if (at_once * (double)c->bytes_read > (double)m->cache_bytes)
            again = (double)c->bytes_read * (x.section->n_passes - 1);
    }
    fb_arena_free(arena);
    return again > 0 ? fb_memory_us(m, (double)(c->bytes_read + c->bytes_written) + again) : 0;
}

/* Sections whose blocks stand one behind the other read what they have in common each for itself, where the cache does not hold
 * it until the next one comes. (Means of the rows and of the columns of 4096 × 4096 in f32 by one kernel: 122 MB on an H200,
 * 67 are read once.) */
static double sections_us(const fb_machine *m, const fb_analysis *a, const fb_group_cost *c)
{
    const fb_nest *nest = a->nest;
    double again = 0;
    if (nest->n_sections < 2 || fb_schedule_in_turn(nest, a->knobs)) return 0;
    for (int i = 0; i < a->facts.n_reads; i++) {
        const double bytes = (double)a->facts.reads[i].bytes;
        if (bytes * 2 <= (double)m->cache_bytes) continue;
        again += bytes * fmax(fb_schedule_readers(nest, a->facts.reads[i].node) - 1, 0);
    }
    return again > 0 ? fb_memory_us(m, (double)(c->bytes_read + c->bytes_written) + again) : 0;
}

/* Of what memory moves in whole lines, what it moves in pieces as wide as a band. */
static double of_band_width(const fb_analysis *a, const fb_section_schedule *x)
{
    enum { LINE = 128, HALF = 64 };
    static const double of_half = 0.8, of_less = 0.6;
    int size = 0;
    for (int i = 0; i < x->section->n_values; i++) {
        const fb_value *v = &x->section->values[i];
        if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE) continue;
        const int own = fb_dtype_size(a->nest->graph->nodes[v->node].dtype);
        size = own > size ? own : size;
    }
    const double bytes = (double)x->rows_a_block * size;
    return bytes >= LINE ? 1 : bytes >= HALF ? of_half : of_less;
}

/* Rows and columns that a block holds: it loads, computes and stores one after the other, and so do all that begin with it, so
 * that of bytes and instructions what is less shows the more the fewer times the multiprocessors are filled with blocks.
 * Blocks that hold in shared memory, and wait for those of their cluster, are long about it, each time. (Softmaxes, norms and
 * variances down columns of 2 to 134 MB on an H200, in registers 5 to 126 µs, in shared memory 6 to 66: nine of ten within
 * 15 %.) */
static void add_held(const fb_machine *m, const fb_analysis *a, const fb_section_schedule *x, fb_group_cost *out)
{
    enum { THREADS = 896 }; /* of a multiprocessor, that have registers for what they hold */
    static const double shared_pass_us = 1.2, less_us = 0.6;
    const int times = x->section->n_passes;
    const bool shared = x->band && !x->band->steps;
    const double again = x->band && fb_band_reads_again(x->band) ? (double)out->bytes_read * (times - 1) : 0;
    const double bytes = (double)(out->bytes_read + out->bytes_written) + again, clock = fb_cycles_a_us(m);
    const double blocks = fmax((double)x->blocks, 1), units = fmax(m->units, 1);
    const double together = shared ? fmax(x->band->sharing, 1) : (double)THREADS / x->threads;
    const double filled = blocks / (units * together);
    const double issued_us = fb_thread_times_of(a->nest, a->knobs, m).issued_us;
    double memory_us = fb_memory_us(m, bytes) / (shared ? of_band_width(a, x) : 1);
    if (blocks < units && clock > 0) memory_us = fmax(memory_us, bytes / (blocks * PATH_BYTES) / clock);
    const double passes_us = shared ? ceil(filled) * (shared_pass_us * times - less_us) : round_us * times;
    out->us = fmax(memory_us, issued_us) + fmin(memory_us, issued_us) / (1 + filled) + passes_us + FB_KERNEL_START_US;
}

/* Rows that are cut into parts: blocks of other rows move their bytes while one computes or waits, so that bytes or
 * instructions are what takes the time, whichever are more, and the row that comes first and the one that is last. What
 * is not held is read again in each pass. Fewer blocks than multiprocessors have the paths of those that have one.
 * Where only two rows are there at a time (schedule/long.c), both wait at times: 7 to 8 µs of three passes, measured on
 * an H100 with rows of 10 and 17 MB. */
static bool add_long(const fb_machine *m, const fb_analysis *a, fb_group_cost *out)
{
    const double full = 0.93, waits_us = 2.2; /* of what a copy moves; of a pass */
    if (a->nest->n_sections != 1) return false;
    fb_arena *arena = fb_arena_new();
    fb_section_schedule x = fb_schedule_section(a->nest, a->knobs, &a->nest->sections[0], arena);
    const bool cut = x.cut != NULL, held = cut && x.cut->held; /* what of it is not, the cache has */
    int times = x.section->n_passes;
    double blocks = (double)x.blocks, clock = fb_cycles_a_us(m);
    double turns = x.cut && x.cut->together ? (double)x.rows / x.cut->together : 0;
    if (x.band || x.fetched) add_held(m, a, &x, out);
    fb_arena_free(arena);
    if (x.band || x.fetched) return true;
    if (!cut) return false;
    double again = held ? 0 : (double)out->bytes_read * (times - 1);
    double bytes = (double)(out->bytes_read + out->bytes_written) + again;
    double memory_us = fb_memory_us(m, bytes) / full;
    if (blocks < m->units && clock > 0) memory_us = fmax(memory_us, bytes / (fmax(blocks, 1) * PATH_BYTES) / clock);
    out->us = fmax(memory_us, fb_thread_times_of(a->nest, a->knobs, m).issued_us) +
              times * (round_us + turns * waits_us) + FB_KERNEL_START_US;
    return true;
}

static void add_latency(const fb_machine *m, const fb_analysis *a, const fb_thread_times *t, double latency_us,
                        fb_group_cost *out)
{
    add_apart(m, a, out);
    out->us = fmax(out->us, together(out->memory_us, t->issued_us));
    out->us = fmax(out->us, latency_us) + FB_KERNEL_START_US + out->apart_us;
}

void fb_grid_elements_us(const fb_machine *m, const fb_analysis *a, fb_group_cost *out)
{
    fb_thread_times t = fb_thread_times_of(a->nest, a->knobs, m);
    add_places(m, a, out);
    double waits_us = fmax(out->memory_us, t.wait_us) + t.alone_us;
    out->few_us = fmax(t.turns_us - fmax(waits_us, t.turns_if_full_us), 0);
    add_latency(m, a, &t, fmax(waits_us, t.turns_us), out);
}

/* Do neighbouring rows share most of what they read, as windows do? Then it is near, and nothing is waited for beside a
 * thread's own steps. (Depthwise convolutions and pools of 3 to 49 elements, 2 to 34 million results on an H200: 21 to 97
 * µs, foreseen as 1.5 to 2.3 times that with these waits, and as 1.1 to 1.3 times without.) */
static bool is_read_again(const fb_analysis *a)
{
    double most = 0, read = 0;
    for (int i = 0; i < a->nest->n_sections; i++) {
        const fb_section *s = &a->nest->sections[i];
        for (int k = 0; k < s->n_values; k++) {
            const fb_value *v = &s->values[k];
            if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE) continue;
            double own = (double)fb_node_bytes(a->nest->graph, v->node);
            if (own < most) continue;
            most = own;
            read = (double)fb_space_points(&s->rows) * (double)fb_space_points(&s->spaces[v->space]) *
                   fb_dtype_size(v->dtype);
        }
    }
    return most > SMALL && read > 1.5 * most;
}

/* Blocks that have parts of columns leave them in memory, and the last one of a group adds them up, when nothing else is left to
 * be moved. (On an H200, beyond what memory takes: 4 and 8 µs of 65,536 × 1024 in bf16, 4 of 11,008 × 4096, 8 of 4096 × 4096 in f32,
 * and nothing of 65,536 × 1024.) */
static double parts_us(const fb_analysis *a)
{
    static const double added_up_us = 3;
    fb_arena *arena = fb_arena_new();
    bool parts = false;
    for (int i = 0; i < a->nest->n_sections && !parts; i++) {
        const fb_section *s = &a->nest->sections[i];
        if (!s->n_passes || !fb_section_lies_across(a->nest->pool, s)) continue;
        const fb_section_schedule x = fb_schedule_section(a->nest, a->knobs, s, arena);
        parts = x.deal == FB_DEAL_COLUMNS && x.parts > 1;
    }
    fb_arena_free(arena);
    return parts ? added_up_us : 0;
}

void fb_grid_rows_us(const fb_machine *m, const fb_analysis *a, fb_group_cost *out)
{
    if (add_long(m, a, out)) return;
    fb_thread_times t = fb_thread_times_of(a->nest, a->knobs, m);
    out->us = fmax(fmax(out->us, sections_us(m, a, out)), fmax(shared_us(m, a, out), passes_us(m, a, out)));
    double least_us = a->nest->stage && !t.meets ? stage_round_us : round_us,
           once_us = t.meets ? reduce_once_us : least_us;
    double row_us = fmax(once_us + starved_us(m, a), least_us + t.alone_us);
    const bool again = is_read_again(a);
    double waves_us = (again ? again_wave_us : reduce_wave_us) * t.waves,
           turns_us = t.turns_us + (again ? 0 : waves_us);
    add_latency(m, a, &t, fmax(row_us + waves_us, turns_us), out);
    out->us += parts_us(a);
}

void fb_grid_tiles_us(const fb_machine *m, const fb_analysis *a, fb_group_cost *out)
{
    (void)m, (void)a;
    out->us += FB_KERNEL_START_US;
}

double fb_judge_working_set(const fb_graph *g)
{
    fb_id *last = fb_alloc(((size_t)g->n_nodes + 1) * sizeof *last);
    double stays = 0, alive = 0, most = 0;
    double *ends = fb_calloc((size_t)g->n_nodes + 1, sizeof *ends); /* bytes whose last reader a node is */
    for (fb_id i = 0; i < g->n_nodes; i++) last[i] = FB_NONE;
    for (fb_id i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_args; k++) last[fb_access_base(g, g->nodes[i].args[k])] = i;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        double bytes = (double)fb_node_bytes(g, i);
        bool stored = fb_judge_has_storage(g->nodes[i].op) || fb_node_is_output(g, i);
        if (stored) {
            stays += last[i] != FB_NONE || fb_node_is_output(g, i) ? bytes : 0;
        } else if (fb_node_is_computed(g, i) && last[i] != FB_NONE) {
            alive += bytes;
            ends[last[i]] += bytes;
        }
        most = fmax(most, alive);
        alive -= ends[i];
    }
    fb_free(last);
    fb_free(ends);
    return stays + most;
}

/* Operands that a library call has laid out: each a launch that writes what the call then reads. Returns the bytes that
 * these launches move, which the call waits for. */
static double add_laid_out(const fb_graph *g, const fb_machine *m, const fb_analysis *a, fb_group_cost *out)
{
    fb_id product = a->nest ? a->nest->accumulator : FB_NONE;
    double moved = 0;
    for (int arg = 0; arg < 2 && product != FB_NONE; arg++) {
        if (!fb_library_lays_out(m, g, product, arg)) continue;
        fb_id operand = g->nodes[product].args[arg];
        int64_t bytes = fb_node_bytes(g, operand), of = fb_node_bytes(g, fb_access_base(g, operand));
        out->launches++;
        out->bytes_written += bytes;
        out->bytes_read += bytes;
        moved += (double)bytes + (double)(of < bytes ? of : bytes);
    }
    return moved;
}

void fb_cost_of_analysis(const fb_planner *p, const fb_analysis *a, fb_group_cost *out)
{
    const fb_graph *g = p->g;
    const fb_machine *m = &p->machine;
    *out = (fb_group_cost){.launches = 1,
                           .calls = fb_family_row_of(a->family)->calls,
                           .flops = a->facts.flops,
                           .specials = a->facts.specials};
    for (int i = 0; i < a->facts.n_reads; i++) out->bytes_read += a->facts.reads[i].bytes;
    for (int i = 0; i < a->facts.n_writes; i++) out->bytes_written += a->facts.writes[i].bytes;
    if (!a->nest) facts_of_nodes(g, a, out);
    double moved = add_laid_out(g, m, a, out), all = (double)(out->bytes_read + out->bytes_written);
    double before_us = moved > 0 ? fb_memory_among_us(m, moved, p->working_set) : 0;
    out->memory_us = fb_memory_among_us(m, fmax(all - moved, 0), p->working_set);
    out->compute_us = fb_judge_compute_us(g, m, a);
    out->us = together(out->memory_us, out->compute_us);
    if (m->target->grid && a->nest) fb_judge_grid_us(m, a, out);
    if (m->target->grid && a->nest && a->nest->tiled) out->us += across_us(m, a);
    out->memory_us += before_us;
    out->us += before_us;
}

double fb_judge_region_trips(const fb_graph *g, fb_id r)
{
    double trips = 1;
    for (; r > 0; r = g->regions[r].parent) trips *= (double)g->regions[r].trips;
    return trips;
}

/* ---- the floor ---- */

static bool is_guessed(const fb_machine *m, const char *rates, fb_dtype dtype)
{
    char key[32];
    snprintf(key, sizeof key, "%s.%s", rates, fb_dtype_name(dtype));
    return fb_machine_guessed(m, key);
}

/* 1e9 FLOP/s that node `id` could at best reach, and whether nobody measured that. */
static double best_rate(const fb_graph *g, const fb_machine *m, fb_id id, bool *guessed)
{
    const fb_node *n = &g->nodes[id];
    double alone = m->gflops[n->dtype];
    *guessed = is_guessed(m, "gflops", n->dtype);
    if (fb_node_class(g, id) != FB_CLASS_CONTRACTION) return alone;
    bool tf32 = n->attrs->precision == FB_PRECISION_TF32;
    double product = fb_rate_peak(tf32 ? &m->gemm_tf32 : &m->gemm[n->dtype]);
    if (product > alone) *guessed = tf32 ? fb_machine_guessed(m, "gemm_tf32") : is_guessed(m, "gemm", n->dtype);
    return fmax(alone, product);
}

/* A source that only gathers read is touched where they point, at most. */
static int64_t source_bytes(const fb_graph *g, fb_id source, const int64_t *gathered)
{
    int64_t all = fb_node_bytes(g, source);
    return gathered[source] >= 0 && gathered[source] < all ? gathered[source] : all;
}

/* For each base: bytes that gathers alone read of it, or -1 where anything else reads it. */
static void gathered_bytes(const fb_graph *g, int64_t *gathered, bool *read)
{
    for (fb_id i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        if (!fb_node_is_computed(g, i) && n->op != FB_OP_LOOP && !fb_node_is_output(g, i)) continue;
        for (int k = n->op == FB_OP_ASSIGN; k < n->n_args; k++) {
            fb_id base = fb_access_base(g, n->args[k]);
            read[base] = true;
            if (n->op == FB_OP_EMBEDDING && k == 0 && gathered[base] >= 0)
                gathered[base] += fb_node_bytes(g, i);
            else
                gathered[base] = -1;
        }
        if (fb_node_is_output(g, i) && fb_access_base(g, i) != i) read[fb_access_base(g, i)] = true;
    }
}

double fb_judge_floor_us(const fb_graph *g, const fb_machine *m, int64_t *read, int64_t *written, int64_t *flops,
                         bool *guessed)
{
    static const double part = 0.01; /* of the work, on rates that nobody measured: less does not move the floor */
    int64_t in = 0, out = 0;
    double work = 0, compute_us = 0, guessed_us = 0;
    int64_t *gathered = fb_calloc((size_t)g->n_nodes + 1, sizeof *gathered);
    bool *is_read = fb_calloc((size_t)g->n_nodes + 1, sizeof *is_read);
    gathered_bytes(g, gathered, is_read);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        if (fb_judge_has_storage(n->op) && n->region == 0 && is_read[i]) in += source_bytes(g, i, gathered);
        if (fb_node_is_output(g, i) && n->op != FB_OP_FEED) out += fb_node_bytes(g, i);
        if (!fb_node_is_computed(g, i)) continue;
        bool is_guess;
        double f = (double)fb_node_flops(g, i) * fb_judge_region_trips(g, n->region);
        double us = fb_time_us(f, best_rate(g, m, i, &is_guess));
        work += f;
        compute_us += us;
        if (is_guess) guessed_us += us;
    }
    fb_free(gathered);
    fb_free(is_read);
    if (read) *read = in;
    if (written) *written = out;
    if (flops) *flops = (int64_t)fmin(work, 9e18);
    double memory_us = fb_memory_us(m, (double)(in + out));
    if (guessed)
        *guessed = memory_us >= compute_us ? fb_machine_guessed(m, "copy_hot") : guessed_us > part * compute_us;
    return fmax(memory_us, compute_us);
}
