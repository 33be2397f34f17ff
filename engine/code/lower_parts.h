/* Inside code/lower*.c: a program under construction.
 *
 *     lower.c        groups, buffers, library calls, outputs
 *     lower_loops.c  what a loop adds: its state, items, counter, and what it collects
 */
#ifndef FB_CODE_LOWER_PARTS_H
#define FB_CODE_LOWER_PARTS_H

#include "base/vec.h"
#include "code/eject.h"
#include "code/emit.h"
#include "code/lower.h"
#include "code/names.h"
#include "plan/copies.h"
#include "plan/loops.h"

#define uthash_malloc(size)      fb_alloc(size)
#define uthash_free(block, size) fb_free(block)
#include <uthash.h>

enum { FB_BUFFER_ALIGNMENT = 256 };

/* Kernels by their text under a name that is theirs alone if they are the first of it. */
typedef struct {
    fb_hash key;
    int kernel;
    UT_hash_handle hh;
} fb_known_kernel;

/* See fb_assign_is_late. */
typedef struct {
    fb_id assign;
    int temporary, group;
} fb_late_assign;

/* What lives no longer than its group shares its place at the end of the pool with that of the other groups. */
enum { FB_SCRATCH_RESULT, FB_SCRATCH_LEFT, FB_SCRATCH_RIGHT, FB_SCRATCHES };
typedef struct {
    int64_t bytes;     /* of the largest */
    FB_VEC(int) taken; /* buffers */
} fb_scratch;

/* A kernel that is to be taken over; out NULL: none. */
typedef struct {
    int group;
    const fb_eject_origin *from;
    fb_str *out;
    fb_hash *interface; /* of each group's kernel, filled */
} fb_ejection;

/* Where in its buffer a node's value is: it moves with the steps of a loop. */
typedef struct {
    int64_t offset; /* bytes */
    fb_advance advance;
} fb_window;

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    const fb_target *target;
    fb_machine machine; /* the plan's; for somewhere else, without what libraries do there */
    fb_program *p;
    int *buffer_of;    /* a node: the buffer that holds its value, FB_NONE */
    fb_window *window; /* a node */
    fb_id *stored_at;  /* a computed node: the carried node that it is stored over, or FB_NONE */
    fb_window *place;  /* a loop's result: where in it what a kernel stores there is at a step */
    fb_loop *loops;    /* a region, from 1 on */
    struct {
        int first, last;
    } * range;                  /* a region: the launches of its loop */
    bool apart;                 /* each kernel is launched by itself: fb_lower_apart */
    bool *kept;                 /* a group: keeps right operands on chip (fb_plan_kept) */
    struct fb_through *through; /* a region: how threads go through its loop … */
    bool *goes;                 /* … if they do (fb_plan_goes_through) */
    fb_id *round;               /* a group: the value that goes round its cluster (fb_plan_recurrence); FB_NONE */
    int level;                  /* loops open at this place of the launch list */
    int steps;                  /* buffer with 0, 1, 2 … for loop counters; FB_NONE: not needed */
    FB_VEC(fb_buffer) buffers;
    FB_VEC(fb_kernel) kernels;
    FB_VEC(fb_gemm_call) gemms;
    FB_VEC(fb_launch) launches;
    fb_known_kernel *known;
    fb_name_set *names; /* of kernels */
    fb_scratch scratch[FB_SCRATCHES];
    fb_id laid[2];      /* operands that the library call at hand has laid out; FB_NONE */
    int elsewhere[2];   /* … their buffers without that */
    fb_leaving leaving; /* values that are in buffers of their own at the end */
    FB_VEC(fb_late_assign) late;
    fb_error failed; /* of the first group whose file cannot stand for its kernel */
    fb_ejection eject;
} fb_lowering;

static inline int64_t fb_lower_aligned(int64_t bytes)
{
    return (bytes + FB_BUFFER_ALIGNMENT - 1) / FB_BUFFER_ALIGNMENT * FB_BUFFER_ALIGNMENT;
}

/* ---- lower.c ---- */
int fb_lower_buffer(fb_lowering *l, fb_buffer_kind kind, fb_id node, int64_t offset);
/* A temporary of its own, at the end of the pool. */
int fb_lower_temporary(fb_lowering *l, fb_id node);
int fb_lower_buffer_for(fb_lowering *l, fb_id node);
/* Launches a copy of `node`, whatever it is, into `to` at `window`. */
void fb_lower_copy(fb_lowering *l, fb_id node, int to, fb_window window);
/* The launch that was added last copies `node`, which no group does (plan/copies.h). */
void fb_lower_mark_copy(fb_lowering *l, fb_id node);
/* Assignments of a region that wait for the end of it. */
void fb_lower_late(fb_lowering *l, fb_id region);

/* ---- lower_loops.c ---- */
void fb_lower_loops(fb_lowering *l); /* before any launch: asks the plan, and lays out counters */
/* Homes of values, once the plan's own buffers are there. */
void fb_lower_states(fb_lowering *l);
void fb_lower_initial(fb_lowering *l, fb_id region); /* initial values into the states: what is left of no steps */
void fb_lower_open(fb_lowering *l, fb_id region);
void fb_lower_close(fb_lowering *l, fb_id region);
/* The nest of a group as it is to be written: with what goes over a loop's state put there. In the program's arena. */
const fb_nest *fb_lower_nest(fb_lowering *l, const fb_group *group, int number);

#endif
