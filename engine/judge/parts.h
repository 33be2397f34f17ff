/* Inside judge/, and for the plans that stand on it: what a planner is made of, an analysis, and the rules and costs of
 * one kernel. */
#ifndef FB_JUDGE_PARTS_H
#define FB_JUDGE_PARTS_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/vec.h"
#include "judge/judge.h"

#define uthash_malloc(bytes)      fb_alloc(bytes)
#define uthash_free(block, bytes) fb_free(block)
#include <uthash.h>

/* Limit of one kernel: beyond it compilers take minutes. (The nest limits buffers: a GPU's parameter space is small.)
 */
enum { FB_KERNEL_NODES = 4096 };

/* What the user asked for in contractions; the rest follows from the family table. */
typedef enum { FB_CHOICE_AUTO, FB_CHOICE_LIBRARY, FB_CHOICE_GENERATE } fb_choice;

typedef FB_VEC(fb_id) fb_ids;

/* One set of nodes as one kernel: the nest with its facts, or the verdict that says why not. Kept by the planner. */
typedef struct fb_analysis {
    fb_hash key;
    UT_hash_handle hh;
    int refs;     /* slots of plans that hold it */
    size_t bytes; /* about what it occupies, as counted when no plan held it any more */
    fb_arena *arena;
    fb_arena *nest_arena; /* of the nest alone, so that one that was refused leaves nothing behind */
    bool accepted;
    fb_verdict why; /* when not accepted */
    fb_family family;
    fb_choice choice;
    fb_kernel_nodes kernel; /* its arrays in the arena */
    const fb_nest *nest;
    fb_nest_facts facts;
    const fb_knobs *knobs; /* NULL in the cache: all automatic. A copy of an analysis with knobs costs what they make */
    int epoch;             /* of the planner's machine that `cost` is for; 0: none */
    fb_group_cost cost;
    int stage_epoch;       /* the same of … */
    double stage_saves_us; /* … how much less it takes as a stage of a larger kernel (nest.h, fb_nest_as_stage) */
} fb_analysis;

/* Scratch sets of nodes or slots: those of a merge, of the two searches, and of walks over recomputed nodes. */
enum { FB_MARK_SET, FB_MARK_FORWARD, FB_MARK_BACKWARD, FB_MARK_UP, FB_MARK_DOWN, FB_MARKS };

struct fb_planner {
    const fb_graph *g;
    fb_machine machine;
    fb_deps *deps;
    int epoch;
    bool *keep;   /* a node: its value outlives the plan's kernels (output, effect, carried to the next step) */
    bool *vertex; /* a node: computed, or a loop */
    int n_computed;
    double working_set; /* bytes, see fb_judge_working_set */
    fb_arena *arena;    /* knob records */
    FB_VEC(fb_kernel_source *) sources;
    bool looked; /* for loops: `roll` has what was found, in the planner of the graph as written */
    fb_roll *roll;
    fb_planner *rolled, *written; /* of the graph with loops; of the one without, NULL: this one */
    fb_analysis *cache;
    int n_idle;        /* analyses that no plan holds … */
    size_t idle_bytes; /* … and about what they occupy */
    /* scratch, one entry a node; a mark counts when it equals its round */
    int *mark[FB_MARKS], round[FB_MARKS];
};

/* The record of a user's kernel, made when there is none. */
fb_kernel_source *fb_planner_source(fb_planner *p, const char *path);

/* ---- scratch sets ---- */
static inline int fb_mark_begin(fb_planner *p, int which)
{
    return ++p->round[which];
}
static inline bool fb_marked(const fb_planner *p, int which, fb_id i)
{
    return p->mark[which][i] == p->round[which];
}
static inline void fb_mark(const fb_planner *p, int which, fb_id i)
{
    p->mark[which][i] = p->round[which];
}

/* Sources and loop values that lie in memory; the others are written into the code. */
static inline bool fb_judge_has_storage(fb_op op)
{
    return op == FB_OP_INPUT || op == FB_OP_PARAM || op == FB_OP_FEED || op == FB_OP_CARRIED || op == FB_OP_ITEM ||
           op == FB_OP_RESULT;
}

/* ---- analysis.c ---- */
/* The caller holds what it gets, and drops it. */
fb_analysis *fb_analyse(fb_planner *p, const fb_ids *nodes, const fb_ids *stored, fb_choice choice);
void fb_analysis_hold(fb_planner *p, fb_analysis *a);
void fb_analysis_drop(fb_planner *p, fb_analysis *a);
const fb_group_cost *fb_analysis_cost(fb_planner *p, fb_analysis *a);
/* How much less it takes as a stage of a larger kernel, beside that it begins and ends none. */
double fb_analysis_stage_saves_us(fb_planner *p, fb_analysis *a);

/* ---- family.c ---- */
/* Tries the families in the table's order under a choice; fills family, nest and facts, or `why`. */
void fb_judge_family(const fb_planner *p, fb_analysis *a);
/* Time of the arithmetic alone, by the family's own rate. */
double fb_judge_compute_us(const fb_graph *g, const fb_machine *m, const fb_analysis *a);
/* On a GPU: what the kernel takes beside bytes and arithmetic, added to its cost. */
void fb_judge_grid_us(const fb_machine *m, const fb_analysis *a, fb_group_cost *out);
/* Can the tile, or the rows of a chain, be had with these knobs? NULL: all automatic. Of other families always. */
bool fb_judge_fits(const fb_analysis *a, const fb_knobs *knobs, fb_verdict *why);
/* Is it no stage of a larger kernel on this machine? */
bool fb_judge_stands_alone(const fb_machine *m, fb_family f);
/* Would these nodes, as one kernel, be one library call as far as can be told without a nest? One alone is one. */
bool fb_library_takes(const fb_planner *p, const fb_ids *nodes, const fb_ids *stored, fb_verdict *why);

/* ---- cost.c ---- */
/* Of a kernel on a GPU, what it begins and ends with, beyond what the copy curve holds. */
#define FB_KERNEL_START_US 0.5
void fb_cost_of_analysis(const fb_planner *p, const fb_analysis *a, fb_group_cost *out);
/* … on a GPU, beside that: by elements, by rows, and by tiles, whose own waits are in their arithmetic. */
void fb_grid_elements_us(const fb_machine *m, const fb_analysis *a, fb_group_cost *out);
void fb_grid_rows_us(const fb_machine *m, const fb_analysis *a, fb_group_cost *out);
void fb_grid_tiles_us(const fb_machine *m, const fb_analysis *a, fb_group_cost *out);
/* Bytes that a program of this graph touches in one run, about: what it reads and gives, and the most of what is made
 * on the way that is alive together. */
double fb_judge_working_set(const fb_graph *g);
/* Times that the loops around region `r` make it run. */
double fb_judge_region_trips(const fb_graph *g, fb_id r);

/* ---- legality.c: what needs no plan ---- */
bool fb_may_own(const fb_planner *p, fb_id node, fb_verdict *why);
bool fb_may_be_kernel(const fb_planner *p, const fb_kernel_nodes *k, fb_verdict *why);
/* `have`: the group's knobs now, NULL for all automatic. */
bool fb_may_set_knob(const fb_machine *m, const fb_analysis *a, const fb_knobs *have, fb_knob knob, int64_t value,
                     fb_verdict *why);
/* May a file of the user's be the group's kernel? */
bool fb_may_set_source(const fb_machine *m, const fb_analysis *a, const char *path, fb_verdict *why);
bool fb_may_launch(const fb_machine *m, fb_launch_mode mode, fb_verdict *why);
bool fb_may_overlap(const fb_planner *p, fb_verdict *why);
/* Can a kernel be a stage of what region `region` (0: the plan) is as one kernel? */
bool fb_may_be_stage_of(const fb_planner *p, const fb_analysis *a, fb_id region, fb_verdict *why);

#endif
