/* A schedule as text: what was decided for each section, tile or chain of a kernel. Needs a nest that its family has
 * accepted; leaves lines for people. */
#include "schedule/print.h"

#include "schedule/bands.h"
#include "schedule/chain.h"
#include "schedule/gemm.h"
#include "schedule/long.h"
#include "schedule/schedule.h"

#include <inttypes.h>

static const char *const deals[] = {
    [FB_DEAL_ELEMENTS] = "elements",
    [FB_DEAL_LINES] = "lines",
    [FB_DEAL_RUNS] = "runs",
    [FB_DEAL_ROWS] = "rows",
    [FB_DEAL_COLUMNS] = "columns",
    [FB_DEAL_SPLIT] = "split rows",
    [FB_DEAL_OWNERS] = "owners",
    [FB_DEAL_SORTED] = "sorted rows",
    [FB_DEAL_LONG] = "long rows",
    [FB_DEAL_ADDED] = "atomic additions",
    [FB_DEAL_RANKED] = "sorted",
    [FB_DEAL_SQUARES] = "squares",
    [FB_DEAL_THROUGH] = "through all steps",
    [FB_DEAL_BANDS] = "bands of columns",
};

static const char *const loops[] = {
    [FB_LOOPS_ELEMENTS] = "elements",
    [FB_LOOPS_ROWS] = "rows",
    [FB_LOOPS_LANES] = "lanes",
    [FB_LOOPS_LONG] = "long rows",
};

static void add_vectors(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, fb_str *out)
{
    fb_str_add(out, "    vector:");
    if (s->rows.n) fb_str_addf(out, " rows %d", fb_schedule_vector(nest, knobs, s, FB_NONE));
    for (int i = 0; i < s->n_spaces; i++)
        fb_str_addf(out, "%s space %d %d", i || s->rows.n ? "," : "", i, fb_schedule_vector(nest, knobs, s, i));
    fb_str_add(out, "\n");
}

static void add_held(const fb_nest *nest, const fb_section_schedule *x, fb_str *out)
{
    if (!x->held || x->band) return;
    fb_str_add(out, x->fetched ? "    held in registers, loaded ahead of all passes:" : "    held in registers:");
    for (int i = 0, n = 0; i < x->section->n_values; i++)
        if (x->section->values[i].kept)
            fb_str_addf(out, "%s %s", n++ ? "," : "", nest->graph->nodes[x->section->values[i].node].name);
    fb_str_add(out, "\n");
}

/* A row in parts, and what of it stays on chip meanwhile. */
static void add_cut(const fb_nest *nest, const fb_section_schedule *x, fb_str *out)
{
    const fb_cut *c = x->cut;
    fb_str_addf(out, "    a row: %" PRId64 " groups of %d elements%s, ", c->groups, c->vector,
                c->ragged ? ", of which the first and last may reach beyond it" : "");
    fb_str_addf(out, "%" PRId64 " a block", c->each);
    if (c->parts > 1)
        fb_str_addf(out, "; its blocks add up through %s",
                    c->cluster == c->parts ? "each other's shared memory (a cluster)" : "memory");
    fb_str_add(out, "\n");
    if (!c->shared_bytes) {
        fb_str_add(out, "    read again in each pass: much longer than all shared memory\n");
        return;
    }
    fb_str_addf(out, "    held in shared memory, %" PRId64 " bytes a block", c->shared_bytes);
    if (c->held < c->each)
        fb_str_addf(out, " (%" PRId64 " groups; the rest of a part is read again in each pass)", c->held);
    fb_str_add(out, ":");
    for (int i = 0, n = 0; i < x->section->n_values; i++)
        if (c->slot[i] != FB_NONE)
            fb_str_addf(out, "%s %s", n++ ? "," : "", nest->graph->nodes[x->section->values[i].node].name);
    fb_str_add(out, "\n");
}

/* A band, and what of it stays on chip meanwhile. */
static void add_band(const fb_nest *nest, const fb_section_schedule *x, fb_str *out)
{
    const fb_band *b = x->band;
    fb_str_addf(out, "    a band: %" PRId64 " columns, %d threads side by side of %d each, %d along", x->rows_a_block,
                b->beside, x->each, x->team);
    if (b->parts > 1)
        fb_str_addf(out, "; a cluster of %d blocks, %" PRId64 " elements along each", b->parts, b->points);
    fb_str_add(out, "\n");
    for (int i = 0; i < x->section->n_roots; i++)
        if (b->turned[i] != FB_NONE)
            fb_str_addf(out, "    turned in shared memory: %s\n", nest->graph->nodes[x->section->roots[i].node].name);
    if (fb_band_reads_again(b)) {
        fb_str_add(out, "    read again in each pass: much longer than all shared memory\n");
        return;
    }
    if (b->steps)
        fb_str_addf(out, "    held in registers, %d steps:", b->steps);
    else
        fb_str_addf(out, "    held in shared memory, %" PRId64 " bytes a block:", b->held_bytes);
    for (int i = 0, n = 0; i < x->section->n_values; i++)
        if (b->held[i]) fb_str_addf(out, "%s %s", n++ ? "," : "", nest->graph->nodes[x->section->values[i].node].name);
    fb_str_add(out, "\n");
}

static void add_section(const fb_nest *nest, const fb_knobs *knobs, int number, fb_str *out)
{
    fb_arena *arena = fb_arena_new();
    const fb_section *s = &nest->sections[number];
    fb_section_schedule x = fb_schedule_section(nest, knobs, s, arena);
    fb_str_addf(out, "  section %d: %s: %" PRId64 " blocks of %d threads", number, deals[x.deal], x.blocks, x.threads);
    if (x.launched < x.blocks) fb_str_addf(out, ", %" PRId64 " of them launched", x.launched);
    if (x.deal == FB_DEAL_ROWS || x.deal == FB_DEAL_COLUMNS)
        fb_str_addf(out, "; %" PRId64 " rows, %" PRId64 " a block, %d thread%s each", x.rows, x.rows_a_block, x.team,
                    x.team == 1 ? "" : "s");
    if ((x.deal == FB_DEAL_COLUMNS || x.deal == FB_DEAL_ROWS) && x.parts > 1)
        fb_str_addf(out, ", %d parts of them", x.parts);
    if ((x.deal == FB_DEAL_COLUMNS || x.deal == FB_DEAL_ROWS) && x.each > 1)
        fb_str_addf(out, ", %d rows at once", x.each);
    if (x.deal == FB_DEAL_ELEMENTS && x.each > 1) fb_str_addf(out, ", %d groups each", x.each);
    if (x.deal == FB_DEAL_LONG)
        fb_str_addf(out, "; %" PRId64 " rows, %d block%s each", x.rows, x.parts, x.parts == 1 ? "" : "s");
    if (x.deal == FB_DEAL_BANDS) fb_str_addf(out, "; %" PRId64 " columns", x.rows);
    if (x.deal == FB_DEAL_RANKED) fb_str_addf(out, "; %" PRId64 " elements each", x.rows_a_block);
    if (x.scans) fb_str_add(out, ", running values by teams");
    if (x.deal == FB_DEAL_RUNS) fb_str_addf(out, ", %d points each", x.each);
    if (x.deal == FB_DEAL_LINES) fb_str_addf(out, "; %d lines in %d stretches each", x.each, x.parts);
    if (x.deal == FB_DEAL_THROUGH)
        fb_str_addf(out, "; %d element%s of %d thread%s each through all steps, items loaded %d ahead", x.each,
                    x.each == 1 ? "" : "s", x.team, x.team == 1 ? "" : "s", x.steps_ahead);
    if (x.ranges) fb_str_addf(out, "; an index shared by %d, in %d ranges of rows", x.parts, x.ranges / s->members);
    if (x.deal == FB_DEAL_SPLIT) fb_str_addf(out, "; %" PRId64 " rows in %d parts each", x.rows, x.parts);
    fb_str_add(out, "\n");
    if (x.cut)
        add_cut(nest, &x, out);
    else if (x.band)
        add_band(nest, &x, out);
    else
        add_vectors(nest, knobs, s, out);
    add_held(nest, &x, out);
    fb_arena_free(arena);
}

static void add_loops(const fb_nest *nest, const fb_knobs *knobs, int number, fb_str *out)
{
    fb_loops_schedule x = fb_schedule_loops(nest, knobs, &nest->sections[number]);
    fb_str_addf(out, "  section %d: %s: about %" PRId64 " operations", number, loops[x.shape], x.work);
    if (x.shape == FB_LOOPS_LANES) fb_str_addf(out, ", %" PRId64 " rows at once", x.lanes);
    if (x.across != FB_NONE && x.shape == FB_LOOPS_ELEMENTS)
        fb_str_addf(out, " in tiles of %d × %d, turned", x.high, FB_LOOPS_WIDE);
    else if (x.across != FB_NONE)
        fb_str_addf(out, ", %d turned at once", x.high);
    if (x.strips) fb_str_addf(out, ", f16 converted %d elements at a time", FB_LOOPS_STRIP);
    if (x.staged.value != FB_NONE)
        fb_str_add(out,
                   x.staged.dim[x.staged.n - 1].point == FB_NONE ? ", turned once" : ", what windows share made once");
    if (x.first)
        fb_str_addf(out, ", the first %" PRId64 " of each found once", x.first);
    else if (x.ranked != FB_NONE)
        fb_str_add(out, ", each sorted once");
    if (x.vector) fb_str_addf(out, ", vectors of %d", x.vector);
    if (x.threads == 1) {
        fb_str_add(out, ", for one thread\n");
        return;
    }
    fb_str_add(out, ", shared by ");
    if (x.threads) fb_str_addf(out, "%d ", x.threads);
    fb_str_add(out, "threads");
    if (x.chunk) fb_str_addf(out, " in chunks of %" PRId64, x.chunk);
    fb_str_add(out, "\n");
}

static void add_tile(const fb_nest *nest, const fb_knobs *knobs, fb_str *out)
{
    const fb_gemm_tile t = fb_gemm_tile_had(nest, knobs);
    if (t.direct) {
        fb_str_addf(out,
                    "  tile %d × %d, a thread all rows of %d columns, read where they lie: %" PRId64
                    " blocks of %d threads\n    %d of k at a time in %" PRId64 " bytes of shared memory",
                    t.m, t.n, t.n / t.threads, t.blocks, t.threads, t.k, t.shared_bytes);
        if (t.joined) fb_str_add(out, ", across batches");
        if (t.period) fb_str_addf(out, ", %d steps each %d apart", t.together, t.period);
        fb_str_add(out, "\n");
        return;
    }
    fb_str_addf(out, "  tile %d × %d, steps of %d in %d stage%s: %" PRId64 " blocks of %d threads\n", t.m, t.n, t.k,
                t.stages, t.stages == 1 ? "" : "s", t.blocks, t.threads);
    fb_str_addf(out, "    a warp%s %d × %d on %s; %" PRId64 " bytes of shared memory", t.wide ? "group" : "", t.warp_m,
                t.warp_n, t.tensor ? "tensor cores" : "scalar units", t.shared_bytes);
    if (t.tma)
        fb_str_addf(out, "; %d blocks stay%s, operands come by tensor maps", t.grid[0],
                    t.cluster > 1 ? " in clusters of two" : "");
    if (t.split > 1) fb_str_addf(out, "; sums in %d parts", t.split);
    if (t.band) fb_str_addf(out, "; %d rows of %s together", t.band, t.cluster > 1 ? "clusters" : "tiles");
    if (t.kept_bytes) fb_str_addf(out, "; %" PRId64 " more stay from step to step", t.kept_bytes);
    fb_str_add(out, "\n");
}

static void add_chain(const fb_nest *nest, const fb_knobs *knobs, fb_str *out)
{
    if (!fb_schedule_chain_on_gpu(nest)) {
        fb_str_addf(out, "  chain: blocks of %" PRId64 " rows\n", nest->chain->block);
        return;
    }
    const fb_chain_tile t = fb_schedule_chain_tile_had(nest, knobs);
    fb_str_addf(out, "  chain: %d rows by %d columns on chip, %s: %" PRId64 " blocks of %d threads\n", t.rows, t.tile,
                t.attends ? "by whole warpgroups, scores a tile at a time"
                : t.wide  ? "by whole warpgroups"
                : t.whole ? "whole rows"
                          : "tile by tile",
                t.blocks, t.threads);
    fb_str_addf(out, "    a warp %d rows on %s; %d stage%s, %" PRId64 " bytes of shared memory", t.warp_rows,
                t.tensor ? "tensor cores" : "scalar units", t.stages, t.stages == 1 ? "" : "s", t.shared_bytes);
    if (t.copiers) fb_str_addf(out, "; %d threads only copy", t.copiers);
    fb_str_add(out, "\n");
    if (t.attends && nest->chain->n_seen) {
        int64_t all, most;
        fb_schedule_chain_tiles(nest, &t, &all, &most);
        fb_str_addf(out,
                    "    of a member's tiles of scores, %" PRId64 " have something visible, at most %" PRId64
                    " of a block: the last rows go first\n",
                    all / nest->chain->batch, most);
    }
}

void fb_schedule_print(const fb_nest *nest, fb_family family, const fb_knobs *knobs, fb_str *out)
{
    bool grid = nest->target->grid;
    if (fb_family_row_of(family)->calls && (nest->target->library_epilogues || !nest->n_sections)) {
        fb_str_add(out, "  a library call\n");
        return;
    }
    if (nest->tiled) add_tile(nest, knobs, out);
    if (nest->chain) add_chain(nest, knobs, out);
    for (int i = 0; i < nest->n_sections; i++) {
        if (!grid)
            add_loops(nest, knobs, i, out);
        else if (!fb_nest_on_chip(nest))
            add_section(nest, knobs, i, out);
    }
}
