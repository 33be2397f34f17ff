/* What a set of nodes can be as one kernel, and how long that would take: families, the rules that need no plan, and
 * the cost model.
 *
 * A planner is the context that plans of one canonical graph on one machine share: dependences and a cache of analysed
 * groups. It is not thread-safe.
 */
#ifndef FB_JUDGE_JUDGE_H
#define FB_JUDGE_JUDGE_H

#include "graph/deps.h"
#include "graph/roll.h"
#include "nest/nest.h"
#include "nest/verdict.h"
#include "schedule/family.h"
#include "schedule/knobs.h"
#include "target/machine.h"

typedef enum { FB_LAUNCH_STREAM, FB_LAUNCH_GRAPH, FB_LAUNCH_MEGA } fb_launch_mode;

enum { FB_GRAPH_LAUNCHES = 1 << 16 }; /* that one CUDA graph may hold */

const char *fb_launch_mode_name(fb_launch_mode m);             /* "stream" "graph" "mega" */
double fb_launch_us(const fb_machine *m, fb_launch_mode mode); /* of one more launch, as calibrated; 0 unknown */
/* What so many launches add, of which some are calls of a library: in a stream they take the processor longer, which shows
 * as far as the calls' own kernels (`called_us`, all of them) do not take as long. */
double fb_launching_us(const fb_machine *m, fb_launch_mode mode, double launches, double calls, double called_us);

typedef struct fb_planner fb_planner;

/* `g` is borrowed and must be canonical; `m` is copied. */
fb_planner *fb_planner_new(const fb_graph *g, const fb_machine *m);
void fb_planner_free(fb_planner *p);
const fb_graph *fb_planner_graph(const fb_planner *p);
const fb_deps *fb_planner_deps(const fb_planner *p);
const fb_machine *fb_planner_machine(const fb_planner *p);
/* Analyses that it keeps, those of them that no plan holds, and about what these occupy. */
typedef struct {
    int analyses, idle;
    size_t idle_bytes;
} fb_planner_stock;
fb_planner_stock fb_planner_stock_of(const fb_planner *p);
/* A new calibration: drops cached costs, keeps analyses. */
void fb_planner_set_machine(fb_planner *p, const fb_machine *m);

/* The same graph with its written out steps as loops (graph/roll.h): what was found in it, and the planner of it, NULL
 * where there is no loop. (No finds at all, NULL, would be a bug.) Asked of either planner; made when asked for, and
 * freed with the planner of the graph as written, which `fb_planner_written` gives. */
const fb_roll *fb_planner_roll(fb_planner *p);
fb_planner *fb_planner_rolled(fb_planner *p);
fb_planner *fb_planner_written(fb_planner *p);

/* A kernel that the user writes: a file whose text stands in for what would be generated. A plan names the file, and
 * its planner, which plans share, knows the text: it is told anew whenever the file was saved. */
typedef struct {
    const char *path; /* as the plan names it */
    const char *text; /* NULL: nobody has told it */
} fb_kernel_source;

/* Copies both; `text` NULL forgets it. */
void fb_planner_set_source(fb_planner *p, const char *path, const char *text);

/* ---- figures, all modelled ---- */

typedef struct {
    double us;                         /* predicted time of the group's kernel, without launch cost */
    double memory_us, compute_us;      /* the two terms of us = max(…) + overlap */
    int64_t bytes_read, bytes_written; /* distinct bytes touched, from access maps */
    double apart_bytes, apart_us;      /* GPUs: sectors of which one element is wanted, beyond that; in `us` … */
    double apart_written;              /* … of these bytes, those around elements that are written */
    double few_us; /* GPUs: in `us`, what threads wait for that others would hide, had registers left room for them */
    int64_t flops, specials;
    int launches; /* 1; 2 where a family needs two */
    int calls;    /* of these, calls of a library */
} fb_group_cost;

/* The least that a run of the graph can take: compulsory bytes at copy speed, or FLOPs at peak, whichever is longer.
 * What was counted goes to `read`, `written`, `flops`, and to `guessed` whether nobody measured the rate that it rests
 * on, or that of a hundredth of the work it is (each may be NULL). */
double fb_judge_floor_us(const fb_graph *g, const fb_machine *m, int64_t *read, int64_t *written, int64_t *flops,
                         bool *guessed);

#endif
