/* Plans: which nodes share a kernel. A small value: copied, edited, compared, kept for undo, saved as JSON.
 *
 * A group is one kernel or one library call. Every computed node has at most one group that *stores* it; a node marked
 * `recompute` has none: it is computed again inside every group that reads it. Views and sources belong to none. A
 * plan is complete when every computed node has a group or is recomputed; every plan made here is.
 *
 * Plans borrow their planner (judge/judge.h) and must be freed before it.
 */
#ifndef FB_PLAN_PLAN_H
#define FB_PLAN_PLAN_H

#include "base/str.h"
#include "graph/loop_compare.h"
#include "judge/judge.h"

#include <jansson.h>

typedef struct fb_plan fb_plan;

fb_plan *fb_plan_new(fb_planner *p); /* the preset `none`: every computed node its own group */
fb_plan *fb_plan_copy(const fb_plan *plan);
void fb_plan_free(fb_plan *plan);
bool fb_plan_equal(const fb_plan *a, const fb_plan *b);
/* Of groups, families, knobs, texts of the user's kernels, launch mode, overlap; not of group numbering. */
fb_hash fb_plan_hash(const fb_plan *plan);
fb_planner *fb_plan_planner(const fb_plan *plan);

/* Groups in launch order (topological, ties by first node), numbered 0 … n - 1 in that order, as are the letters on
 * screen. */
int fb_plan_groups(const fb_plan *plan);
int fb_plan_group_of(const fb_plan *plan, fb_id node); /* the group that stores it, or FB_NONE */
bool fb_plan_recomputed(const fb_plan *plan, fb_id node);

typedef struct {
    fb_family family;
    fb_knobs knobs;
    int n_nodes; /* all nodes the kernel computes, ascending, recomputed ones included */
    const fb_id *nodes;
    int n_stored; /* those whose value leaves the kernel through memory, ascending */
    const fb_id *stored;
    const fb_nest *nest;            /* the analysis; NULL for families that have none */
    const fb_kernel_source *source; /* the user's own kernel; NULL: a generated one */
} fb_group;

bool fb_group_stores(const fb_group *group, fb_id node);
/* Borrowed until the plan is edited or freed. */
const fb_group *fb_plan_group(const fb_plan *plan, int group);
/* NULL; or, for a single node that no family takes (nest is NULL then), the verdict that says why: such a plan can be
 * looked at but not lowered. */
const fb_verdict *fb_plan_group_refusal(const fb_plan *plan, int group);
/* That of the first group which has one, whose number goes to `group` (may be NULL); NULL: there is none. */
const fb_verdict *fb_plan_refusal(const fb_plan *plan, int *group);
fb_launch_mode fb_plan_launch_mode(const fb_plan *plan);
/* The files that groups name, each once; arena-owned, their paths the planner's. */
int fb_plan_sources(const fb_plan *plan, fb_arena *arena, const fb_kernel_source ***out);
/* Do feeds and receives run beside the kernels of the run before and after, in buffers of which there are two? Else
 * they stand in the stream with them: feeds first, receives last. */
bool fb_plan_overlap(const fb_plan *plan);
/* Are steps that are written out loops in it? Then it is a plan of another graph than the one as written: its
 * planner's. Nodes and groups are of that graph. */
bool fb_plan_rolled(const fb_plan *plan);

/* What was found, in words: "16 steps of `step[*].matmul`, 17 operations each: a loop of 15; …". */
void fb_plan_roll_says(const fb_roll_find *find, fb_str *out);

/* The loops of two plans: those that they have, or with `found` those that their steps can become. */
void fb_plan_loops(const fb_plan *a, const char *name_a, const fb_plan *b, const char *name_b, bool found,
                   fb_loops *out);

/* ---- edits ---- */

typedef enum {
    FB_EDIT_FUSE,      /* a, b: put the groups of producer a and consumer b together */
    FB_EDIT_CUT,       /* a, b: take b, and what in the group depends on it, out of a's group */
    FB_EDIT_FUSE_ALL,  /* nodes[]: one group */
    FB_EDIT_ISOLATE,   /* a, or each of nodes[]: a group of its own; the rest of the group falls into connected parts */
    FB_EDIT_RECOMPUTE, /* a: duplicate into its consumers instead of storing */
    FB_EDIT_STORE,     /* a: undo of RECOMPUTE */
    FB_EDIT_LIBRARY,   /* a: the contraction's group becomes a library call */
    FB_EDIT_GENERATE,  /* a: … becomes a generated kernel */
    FB_EDIT_KNOB,      /* a (any node of the group), knob, value; 0: automatic */
    FB_EDIT_SOURCE,    /* a (any node of the group), source: its kernel is that file's; NULL: generated again */
    FB_EDIT_LAUNCH,    /* launch */
    FB_EDIT_OVERLAP,   /* value: feeds and receives beside the kernels (1) or in order with them (0) */
    FB_EDIT_ROLL,      /* value: steps that are written out as loops (1), or as they are written (0) */
} fb_edit_kind;

typedef struct {
    fb_edit_kind kind;
    fb_id a, b;
    int n_nodes;
    const fb_id *nodes;
    fb_knob knob;
    int64_t value;
    const char *source;
    fb_launch_mode launch;
} fb_edit;

/* Judges an edit without doing it, and, when `result` is not NULL and the verdict is fine or slower, makes the edited
 * plan (the caller frees). The one place legality is asked: screen, presets, search, fuzzer and scripts all come here.
 */
fb_verdict fb_plan_try(const fb_plan *plan, const fb_edit *edit, fb_plan **result);

/* The same edit on every repetition of the nodes' scopes (`feature[*].tanh`; an edit of nodes[] once a repetition):
 * applies to as many as it can, in order; the verdict is the first refusal, or the sum of what was saved. *result is
 * set when any of them was applied, so it may come with a refusal; the figures are then those of what was applied. */
fb_verdict fb_plan_try_repeated(const fb_plan *plan, const fb_edit *edit, fb_plan **result);
/* All nodes that stand where `node` stands in the repetitions of its scopes, itself included; arena-owned. */
int fb_repeated_nodes(const fb_graph *g, fb_id node, fb_arena *arena, fb_id **out);
/* "feature[*].tanh" → nodes, by exact name or with [*]; 0 when none. */
int fb_match_nodes(const fb_graph *g, const char *pattern, fb_arena *arena, fb_id **out);

/* ---- figures, all modelled ---- */

typedef struct {
    double us; /* all groups and launches */
    double launch_us;
    double copy_in_us, copy_out_us; /* feeds and receives of a run by themselves */
    int64_t bytes_read, bytes_written, flops;
    int launches;
    int64_t peak_bytes; /* all buffers, with reuse */
    double floor_us;    /* compulsory bytes at copy speed, or FLOPs at peak, whichever takes longer: of the graph */
    bool floor_guessed; /* … at a rate that nobody measured on the machine */
} fb_plan_cost;

void fb_plan_group_cost(const fb_plan *plan, int group, fb_group_cost *out);
void fb_plan_cost_of(const fb_plan *plan, fb_plan_cost *out);
double fb_plan_us(const fb_plan *plan); /* its `us` alone */

/* ---- undo ---- */

/* A stack of plans with a cursor; owns its plans. */
typedef struct fb_history fb_history;
fb_history *fb_history_new(fb_plan *first); /* takes it */
void fb_history_free(fb_history *h);
const fb_plan *fb_history_now(const fb_history *h);
void fb_history_push(fb_history *h, fb_plan *plan, const char *label); /* takes plan; forgets what was undone */
const char *fb_history_undo(fb_history *h); /* the label of what was undone, or NULL when there is nothing */
const char *fb_history_redo(fb_history *h);

/* ---- files ---- */

/* {"fusebox_plan":1,"graph":HASH,"rolled":false,"launch":"stream","groups":[{"nodes":["feature[*].tanh",…],"family":"reduce","knobs":{…},"source":PATH},…],
 * "recompute":[…]}. Repetitions are written with [*] where a group (or one group a member: "each":true) holds the same
 * node of every member. Groups of one node with an automatic family are left out. Where it is
 * rolled the hash is of the graph as written, and the names are of the graph with loops. */
json_t *fb_plan_to_json(const fb_plan *plan);
/* strict: any missing name is an error that names it. Otherwise groups are kept as far as their nodes exist and are
 * legal, and one line for each thing dropped is added to `dropped` (may be NULL). */
fb_plan *fb_plan_from_json(fb_planner *p, const json_t *value, bool strict, fb_str *dropped, fb_error *err);
/* Lua that makes this plan from `none`: the body of a function(pl). Files in `folder` (may be NULL) are named from
 * there. */
void fb_plan_to_lua(const fb_plan *plan, const char *folder, fb_str *out);

/* ---- what a plan means for memory ---- */

typedef struct {
    fb_id node; /* whose value it holds */
    int64_t bytes;
    int first, last; /* launch positions: written first, read last; outputs live to the end */
    int64_t offset; /* into the pool of temporaries; FB_NONE for sources and outputs, which have storage of their own */
} fb_buffer_plan;

/* Liveness and reuse (first fit by size); arena-owned; *pool_bytes is the pool's size. In launch order of groups. */
int fb_plan_buffers(const fb_plan *plan, fb_arena *arena, fb_buffer_plan **out, int64_t *pool_bytes);

#endif
