/* Inside plan/: what a plan is made of, and the steps that the edits, presets and files share.
 *
 * A plan keeps its groups as *slots*. A slot is named by the node that heads its ring of owned nodes; a loop is a slot
 * of its own, so that what depends on it is ordered, but no group. `pos` is a topological order of the slots (of one
 * region: no edge leaves a region), kept up to date by merges, so that a search for a cycle need look only between the
 * two.
 */
#ifndef FB_PLAN_PARTS_H
#define FB_PLAN_PARTS_H

#include "base/str.h"
#include "judge/parts.h"
#include "plan/loops.h"
#include "plan/plan.h"

/* Of plan files, as "fusebox_plan" says. */
enum { FB_PLAN_FORMAT = 1 };

typedef struct {
    fb_id tail; /* of the ring */
    int n;      /* nodes owned; 0: no slot of this name */
    int pos;
    fb_choice choice;
    const fb_knobs *knobs;          /* NULL: all automatic */
    const fb_kernel_source *source; /* the planner's; NULL: generated */
    fb_analysis *analysis;          /* NULL: not asked yet */
} fb_slot;

/* Numbering and group records, made when asked for. */
typedef struct {
    bool numbered;
    int n;
    fb_id *slot_of; /* a group: its slot */
    int *number;    /* a slot: its group */
    fb_group *group;
    int n_order;
    fb_order_entry *order; /* groups with the loops around them */
    int cost_epoch;        /* of the machine that `cost` is for; 0: none */
    fb_plan_cost cost;
} fb_view;

struct fb_plan {
    fb_planner *planner;
    fb_id *owner; /* a node: its slot, FB_NONE for recomputed nodes, sources and views */
    fb_id *next;  /* a node: the next its slot owns, FB_NONE at the end */
    fb_slot *slot;
    bool *recompute;
    int n_recompute;
    fb_launch_mode launch;
    bool overlap; /* of copies and kernels */
    fb_view *view;
};

/* ---- order.c: the plan as a graph of slots ---- */

/* Calls visit for each slot that must run after (before) what `node`, owned by a slot, computes; with repeats. */
typedef void fb_visit_slot(void *ctx, fb_id slot);
void fb_slots_after(const fb_plan *plan, fb_id node, bool values_only, fb_visit_slot *visit, void *ctx);
void fb_slots_before(const fb_plan *plan, fb_id node, bool values_only, fb_visit_slot *visit, void *ctx);
/* Slots that compute `node`: its owner, or all that recompute it; with repeats. */
void fb_slots_computing(const fb_plan *plan, fb_id node, fb_visit_slot *visit, void *ctx);
/* A slot that one slot made of these would have to run before and after; FB_NONE when there is none. */
fb_id fb_order_blocked(const fb_plan *plan, const fb_id *slots, int n, bool values_only);
/* Moves positions so that any of these (not blocked) may stand for all. */
void fb_order_merge(fb_plan *plan, const fb_id *slots, int n);
/* Numbers all positions anew; false when the slots cannot be ordered, with a slot on a cycle. */
bool fb_order_all(fb_plan *plan, fb_id *on_cycle);
/* Groups in launch order, canonical: topological, ties by first node, a loop's body in its place. */
void fb_order_number(const fb_plan *plan, fb_view *view);

/* ---- plan.c ---- */

/* Joins slots into one and names it (the largest of them); positions are the caller's. */
fb_id fb_plan_join(fb_plan *plan, const fb_id *slots, int n);
/* Takes a slot apart: owned node k goes to part[k]; positions are the caller's. */
void fb_plan_split(fb_plan *plan, fb_id slot, const fb_ids *owned, const int *part, int n_parts);
void fb_plan_own_alone(fb_plan *plan, fb_id node);
void fb_plan_touch(fb_plan *plan); /* drops numbering and what hangs on it */
void fb_ids_sort(fb_ids *ids);
void fb_slots_forget(fb_plan *plan, fb_id slot); /* drops its analysis */
void fb_plan_set_knob(fb_plan *plan, fb_id slot, fb_knob knob, int64_t value);
void fb_plan_set_source(fb_plan *plan, fb_id slot, const char *path); /* NULL: generated */
/* All nodes owned by the slots plus what they recompute, ascending, and which are stored. */
void fb_plan_gather(const fb_plan *plan, const fb_id *slots, int n, fb_ids *nodes, fb_ids *stored);
void fb_plan_owned(const fb_plan *plan, fb_id slot, fb_ids *out); /* ascending, appended */
fb_analysis *fb_slots_analysis(const fb_plan *plan, fb_id slot);
void fb_slots_cost(const fb_plan *plan, fb_id slot, fb_group_cost *out); /* with the slot's knobs */
fb_choice fb_choice_joined(const fb_plan *plan, const fb_id *slots, int n);

/* ---- cost.c ---- */
/* One run of a kernel of cost `c` in region `r`, with what launching it takes; as a stage where the loop around it, or
 * the plan, is one kernel. */
double fb_plan_kernel_us(const fb_plan *plan, fb_id r, fb_analysis *a, const fb_group_cost *c);
/* … and all copies that no group makes, of a region and those within it (0: the plan), all of its steps. */
double fb_copied_values_us(const fb_plan *plan, fb_id region);
/* Launches of loops that are one kernel, or of a plan that is one; and what these take. */
double fb_merged_launches(const fb_plan *plan);
double fb_merged_us(const fb_plan *plan);

/* ---- loop_cost.c ---- */
/* What loops that are one kernel take less than the sum of fb_plan_kernel_us of their stages. */
double fb_plan_loops_save_us(const fb_plan *plan);

/* ---- may.c: what may be decided without a nest ---- */
bool fb_plan_may_join(const fb_plan *plan, const fb_id *slots, int n, fb_verdict *why);
bool fb_plan_may_recompute(const fb_plan *plan, fb_id node, fb_verdict *why);
/* Can all kernels of a region and of the loops in it be one (0: of the plan)? */
bool fb_plan_may_merge(const fb_plan *plan, fb_id region, fb_verdict *why);
/* Can this kernel be in the plan, which may be one kernel, or have a loop around it that is? */
bool fb_plan_may_be_stage(const fb_plan *plan, const fb_analysis *a, fb_verdict *why);
/* Could the slots be one library call as far as can be told without a nest? One of them is one. */
bool fb_plan_library_takes(const fb_plan *plan, const fb_id *slots, int n, fb_verdict *why);
/* Could they be a chain, by the number of their contractions? */
bool fb_plan_chain_takes(const fb_plan *plan, const fb_id *slots, int n);

/* ---- edit.c ---- */
/* Judges joining slots without doing it; on success *to is what they would become, held. */
bool fb_plan_judge_join(const fb_plan *plan, const fb_id *slots, int n, fb_analysis **to, fb_verdict *why);
void fb_commit_join(fb_plan *plan, const fb_id *slots, int n, fb_analysis *to); /* takes the hold */

/* side[k] = 1 for those of a slot's owned nodes that depend on `from` inside it, itself included. The caller's. */
int *fb_downstream(const fb_plan *plan, const fb_ids *owned, fb_id from);
/* Splits a slot that no family takes any longer: into connected parts, and those that are refused too into nodes. */
void fb_split_refused(fb_plan *plan, fb_id slot);

/* ---- roll.c ---- */
/* The plan with written out steps as loops, or without: groups, choices, knobs and launch mode of `from` as far as they
 * are legal there; of the steps that become a body, those of one of them. NULL with the verdict where there is none. */
fb_plan *fb_plan_carry_rolled(const fb_plan *from, bool rolled, fb_verdict *why);

/* ---- grow.c: many joins at once ---- */
typedef struct {
    fb_id a, b;
} fb_pair;
typedef struct {
    bool keep_library; /* refuse what would turn a library call into a generated contraction … */
    bool weigh;        /* … unless its tiles are predicted to be faster than the call and what follows it */
    int refused;       /* pairs */
    fb_verdict first;  /* the first refusal */
    void (*refusal)(void *ctx, fb_pair pair, const fb_verdict *why); /* each of them; may be NULL */
    void *ctx;
} fb_growth;
/* Joins the groups of each pair, in order, as far as that is legal and generated. Pairs are tried together and taken
 * apart only when refused, so that a long run of fusions costs one analysis and not one each. */
void fb_plan_grow(fb_plan *plan, const fb_pair *pairs, int n, fb_growth *growth);

/* ---- repeat.c ---- */
/* "feature[3].tanh" as "feature[*].tanh"; how many numbers were taken out, and which (at most FB_MAX_STARS). */
enum { FB_MAX_STARS = 32 };
int fb_name_pattern(const char *name, fb_str *pattern, int64_t star[FB_MAX_STARS]); /* pattern may be NULL */
/* Does `name` fit `pattern`, where "[*]" takes any index? The indices taken go to `star` (may be NULL), *n_star of
 * them. */
bool fb_name_matches(const char *pattern, const char *name, int64_t star[FB_MAX_STARS], int *n_star);
typedef FB_VEC(fb_pair) fb_pairs;
/* (a, b) and the pairs that correspond to it; b FB_NONE: a's repetitions alone. */
void fb_repeated_pairs(const fb_planner *p, fb_id a, fb_id b, fb_pairs *out);

#endif
