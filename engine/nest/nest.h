/* The nest: a group of nodes as loops over memory. Built once a group, by legality (can this be one kernel?) and used
 * by cost (what does it touch?) and by code generation (write it out), so that the three cannot disagree.
 *
 * A kernel is a list of *sections*. A section is a perfect space of rows × inner (inner extent 1: no reduction, nothing
 * but rows), cut out of the domain of the values it stores:
 *   - pointwise: rows are all elements; every stored value (a *root*) is an expression at the row's index, producers
 * inlined.
 *   - reduce: rows are what is kept, inner is what is reduced. A reduction is a *row value*: it is computed in a *pass*
 * over inner before anything that needs it; element-level roots are stored in a pass, row-level roots after the passes.
 *   - library: the contraction is an accumulator that the epilogue's expressions read at their own row and column.
 *   - tiled (family gemm): the same, but the accumulators never reach memory; operands are sections of their own.
 *   - chain: a section makes the left operand of the last contraction, on chip, of what the first one left there;
 * others store what is made of the last one. All go by blocks of rows of one member of the batch.
 * Views never appear: they are coordinates (graph/access.h). A join read inside a section splits it where its part
 * changes along a row variable; where the parts are *equal members* (same expressions over the same access maps up to a
 * buffer and an offset) one section serves all of them with the member number as a row variable, and the buffers and
 * offsets in a table ("rolled"); where buffer and offset are affine in the member number there is not even a table.
 * Groups without an edge between their parts are sections side by side, equal ones rolled the same way.
 */
#ifndef FB_NEST_NEST_H
#define FB_NEST_NEST_H

#include "base/arena.h"
#include "graph/access.h"
#include "nest/verdict.h"
#include "target/machine.h"

typedef struct fb_nest fb_nest;

/* What a nest is made around, beside its sections. */
typedef enum {
    FB_NEST_LOOPS, /* nothing */
    FB_NEST_CALL,  /* a library call: it makes the (one) contraction, and the rest is its epilogue */
    FB_NEST_TILES, /* contractions that are accumulated in tiles on chip; the rest is their prologue and epilogue */
    FB_NEST_CHAIN, /* contractions that stay on chip, in blocks of rows, with all that is between and after them */
} fb_nest_kind;

/* What is to become one kernel. For copies, `stored` may name one view or source instead, with no nodes at all. */
typedef struct {
    const fb_graph *graph;
    int n_nodes; /* all computed nodes inside, ascending */
    const fb_id *nodes;
    int n_contractions; /* those of them that are contractions: found once, by fb_nest_kernel_of */
    const fb_id *contractions;
    int n_stored; /* those to be stored */
    const fb_id *stored;
    fb_nest_kind kind;
} fb_kernel_nodes;

/* These nodes as what is to become a kernel; copies in `arena`. */
fb_kernel_nodes fb_nest_kernel_of(fb_arena *arena, const fb_graph *g, const fb_id *nodes, int n_nodes,
                                  const fb_id *stored, int n_stored);

/* Distinct bytes of one external value that the kernel touches. */
typedef struct {
    fb_id node; /* base of the access: source or value stored by another kernel */
    int64_t bytes;
} fb_traffic;

/* About: elements as far apart as this come each with a line, and from a page, of their own. */
enum { FB_FAR_BYTES = 1024 };

typedef struct {
    int n_reads, n_writes;
    const fb_traffic *reads, *writes;
    int64_t flops;    /* executed, recomputation inside the kernel included */
    int64_t specials; /* … slow functions, each as so many exponentials as it costs (target/special.h) */
    /* … by loops that are vectorised along the innermost: elements that are summed up along it, in so many rows;
     * elements that do not lie side by side along it, and that lie pages apart; 16-bit ones */
    int64_t summed, sums, gathered, far, converted[FB_DTYPES];
    int64_t rows, inner;  /* of the largest section */
    int sections, rolled; /* rolled: most members that one section serves … */
    int tables;           /* … by so many tables of where each member finds its values */
    bool has_reduction;
} fb_nest_facts;

/* NULL with a verdict (unsupported or illegal) that names nodes when it cannot be one kernel. All is in `arena`. */
fb_nest *fb_nest_build(fb_arena *arena, const fb_kernel_nodes *k, const fb_machine *m, fb_verdict *why);
/* Library: the node in whose storage the call's result is written: the contraction itself, or what the epilogue
 * overwrites it with, element by element. FB_NONE for other nests. */
fb_id fb_nest_product(const fb_nest *nest);
/* An assignment that reads other elements of its parameter than it writes: the kernel stores into a temporary, from
 * which the parameter is copied by another. */
bool fb_nest_staged(const fb_nest *nest);
/* May the kernel store `stored` over `read`: does it read there only the very elements that it stores then? */
bool fb_nest_overwrites(const fb_nest *nest, fb_id read, fb_id stored);
/* Is each element made by itself, from none that the kernel stores but the one whose place it takes? Nothing is reduced, so
 * that a thread that makes it again makes the same one; or, with `rows`, nothing but rows. */
bool fb_nest_makes_each_alone(const fb_nest *nest, bool rows);
/* The same kernel with `stored` put where the value of `storage` is; in `arena`, sharing all else. */
const fb_nest *fb_nest_store_at(const fb_nest *nest, fb_id stored, fb_id storage, fb_arena *arena);
/* The same kernel with `stored` put where the value of `storage` is too; only where it stores alike: no member of a
 * repetition by itself, and nothing in place of anything. */
const fb_nest *fb_nest_store_also(const fb_nest *nest, fb_id stored, fb_id storage, fb_arena *arena);
bool fb_nest_stores_alike(const fb_nest *nest, fb_id stored);
/* The same kernel as a stage of a larger one, whose blocks do not wait for each other in the middle of their work, and
 * are dealt to few blocks that go from stage to stage. */
const fb_nest *fb_nest_as_stage(const fb_nest *nest, fb_arena *arena);
/* The same kernel (family gemm) as a stage that keeps its right operands on chip from one step of a loop to the next.
 */
const fb_nest *fb_nest_keep_right(const fb_nest *nest, fb_arena *arena);
/* … and whose left operand is what it has made at the step before (nest/parts.h); `round` is borrowed. */
struct fb_round;
const fb_nest *fb_nest_send_round(const fb_nest *nest, const struct fb_round *round, fb_arena *arena);
/* The same kernel as one whose threads go through all steps of its loop (schedule/through.h); `through` is borrowed. */
struct fb_through;
const fb_nest *fb_nest_go_through(const fb_nest *nest, const struct fb_through *through, fb_arena *arena);
void fb_nest_facts_of(const fb_nest *nest, fb_nest_facts *out);

#endif
