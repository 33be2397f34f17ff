/* What a framework's compiler decided of a graph of ours: which nodes each of its kernels holds, and why kernels are
 * apart. A worker sends it with a report ("their_plan"); it is only looked at, and nothing is generated from it.
 *
 *   {"by":"Inductor","version":"2.11.0","kernels":[{"name":N,"kind":K,"count":1,"nodes":[NAME,…],"source":TEXT,
 *    "registers":R,"spills":S,"shared_bytes":B},…],"apart":[{"from":NAME,"to":NAME,"why":TEXT},…],
 *    "calls":[[NAME,…],…]}
 *   {"unavailable":"a sentence"}
 *
 * Kinds are template, extern, reduction and pointwise. A node in several kernels is computed in each, or is a call of
 * the framework that became several; calls are what the framework was given as one: inside of them nothing is known. */
#ifndef FB_MEASURE_THEIRS_H
#define FB_MEASURE_THEIRS_H

#include "base/arena.h"
#include "plan/plan.h"

#include <jansson.h>

typedef struct {
    int n;
    const char **at;
} fb_names;

typedef struct {
    const char *name, *kind, *source;    /* source NULL: not known */
    int64_t count;                       /* kernels that hold the same, as of a loop's steps */
    fb_names nodes;                      /* none: it stands for no node of the graph, as a copy */
    int registers, spills, shared_bytes; /* -1: not known */
} fb_their_kernel;

typedef struct {
    const char *from, *to; /* nodes of two kernels, of which one reads the other */
    const char *why;       /* NULL: the compiler gave no reason */
} fb_their_reason;

typedef struct fb_theirs {
    const char *unavailable; /* why there is no plan: then all else is empty; NULL */
    const char *by, *version;
    int n_kernels, n_apart, n_calls;
    fb_their_kernel *kernels;
    fb_their_reason *apart;
    fb_names *calls;
} fb_theirs;

/* Arena-owned. What cannot be read is a plan that is not available, with a sentence: figures beside it may be fine. */
const fb_theirs *fb_theirs_from_json(const json_t *value, fb_arena *arena);
json_t *fb_theirs_to_json(const fb_theirs *t);
int64_t fb_theirs_launches(const fb_theirs *t);

/* For each node the first of their kernels that computes it, or FB_NONE; arena-owned. */
int *fb_theirs_kernel_of(const fb_theirs *t, const fb_graph *g, fb_arena *arena);

/* ---- beside a plan of ours ---- */

/* An edge that one of the two has inside a kernel and the other between two. */
typedef struct {
    fb_id producer, consumer;
    bool theirs;     /* fused there, and not here */
    const char *why; /* theirs for leaving it; NULL */
} fb_their_edge;

typedef struct {
    int edges, equal; /* edges between nodes or calls whose kernels are known; of these alike */
    int unknown;      /* edges at a node that none of their kernels names */
    int64_t kernels, their_kernels;
    int alike;    /* kernels of ours that hold exactly what one of theirs does */
    int nameless; /* kernels of theirs that stand for no node */
    int n;
    const fb_their_edge *differ; /* in order of the graph */
} fb_theirs_beside;

/* Arena-owned. False where the plan is of another graph than the one as written. */
bool fb_theirs_compare(const fb_theirs *t, const fb_plan *plan, fb_arena *arena, fb_theirs_beside *out);

#endif
