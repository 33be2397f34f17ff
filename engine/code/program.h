/* A program: what a plan becomes for one device. Pure text and numbers; no pointer into the device, nothing of the
 * planner, so that it may be printed, hashed, sent and kept. Made by fb_lower; one arena owns it all. */
#ifndef FB_CODE_PROGRAM_H
#define FB_CODE_PROGRAM_H

#include "base/arena.h"
#include "base/convolution.h"
#include "base/hash.h"
#include "base/str.h"
#include "code/printer.h"
#include "code/statement.h"
#include "plan/plan.h"

typedef enum {
    FB_BUFFER_INPUT,  /* filled before a sample; also feeds */
    FB_BUFFER_PARAM,  /* filled before a sample, restored between samples when `assigned` */
    FB_BUFFER_TEMP,   /* at `offset` in the pool */
    FB_BUFFER_OUTPUT, /* poisoned before a sample, verified after */
} fb_buffer_kind;

typedef struct {
    fb_buffer_kind kind;
    fb_id node;       /* whose value it holds */
    const char *name; /* the node's name */
    fb_dtype dtype;
    int64_t elements, bytes;
    int64_t offset;     /* FB_BUFFER_TEMP: into the pool, 256-byte aligned */
    bool channels_last; /* not row by row (graph/storage.h) */
    bool assigned;      /* FB_BUFFER_PARAM: some launch writes it */
    bool fed;           /* FB_BUFFER_INPUT: copied from the host in each run, before the first launch */
    bool received;      /* FB_BUFFER_OUTPUT: copied to the host in each run, after the last launch */
} fb_buffer;

/* One kernel. On the host, `entry` is `void entry(const fb_kernel_args *a)` (kernels/prelude.h); on CUDA a __global__
 * function taking the buffers as pointers in order. Equal sources are one kernel however often launched. */
typedef struct {
    const char *name; /* "layer_norm_tanh_stack": of its nodes, for people; unique in the program */
    const char *entry;
    const fb_function *function; /* what it says; NULL: a file of the user's own, or a library call */
    const char *source; /* complete translation unit but for the target's prelude; NULL for pure library calls */
    const char *file;   /* the name of the user's file that it is; NULL: generated */
    fb_family family;
    int group; /* of the plan */
    int n_nodes;
    const fb_id *nodes;
    int n_args;
    /* CUDA geometry; 0 on the host */
    int grid[3], block[3];
    int dynamic_shared;
    fb_needs needs;
    fb_stage stage;
    bool merged;        /* of several launches (code/merge.h) */
    int shares;         /* 0: a unit of its own; n: that of kernel n - 1, whose source it is too (fb_program_join) */
    fb_group_cost cost; /* modelled */
} fb_kernel;

/* How far a pointer moves at each step of a loop: the REPEAT at `level` of those around the launch, 0 the outermost. */
typedef struct {
    int64_t bytes;
    int level;
    int64_t every; /* 0, 1: at each step; else only when so many have been made */
} fb_advance;

static inline int64_t fb_advance_at(fb_advance a, const int64_t *step) /* bytes */
{
    return a.bytes ? a.bytes * (a.every > 1 ? step[a.level] / a.every : step[a.level]) : 0;
}

/* A library contraction: C[b] = scale · A[b]·B[b], row-major with element strides; batch strides may be 0. As a
 * convolution it is A, the weights, with the windows of B, which is the tensor that they are windows of: then the strides
 * are those of `convolution`, and those here of no use but C's and the addend's, which go through both as they lie. */
typedef struct {
    fb_dtype dtype; /* of operands and result */
    fb_precision precision;
    int64_t m, n, k, batch;
    fb_convolution convolution; /* space 0: a product */
    int64_t a_row, a_col, a_batch, b_row, b_col, b_batch, c_row, c_batch;
    int64_t a_offset, b_offset; /* elements */
    int a, b, c;                /* buffers */
    int epilogue;               /* kernel applied to blocks of rows of C while they are hot, or FB_NONE */
    int bias;                   /* buffer of n values that the library itself adds to each row, of a convolution one of
                                 * each channel, or FB_NONE … */
    int64_t bias_offset;        /* … from this element on */
    bool relu;                  /* then the library takes relu */
    fb_advance a_advance, b_advance, c_advance, bias_advance, addend_advance;
    double scale;        /* of the product; on the host 1, and no addend: there the epilogue does it all */
    int addend;          /* buffer of a tensor like C that is added before bias and relu, or FB_NONE … */
    double addend_scale; /* … times this … */
    int64_t addend_offset, addend_row, addend_batch; /* … from this element on, with these strides; columns lie side by
                                                      * side */
} fb_gemm_call;
/* The same as the transposed product: its operands, transposed, have changed places. What C and the addend step by is as it
 * was, and the caller's to set. */
fb_gemm_call fb_program_transposed_gemm(const fb_gemm_call *c);
/* One product of matrices whose rows follow each other, and nothing else; its buffers are yet to be named. */
fb_gemm_call fb_program_plain_gemm(fb_dtype dtype, int64_t m, int64_t n, int64_t k);
/* The same as a convolution: 3 × 3 windows of squares, padded to as many, and as many channels out as in. */
fb_gemm_call fb_program_plain_convolution(fb_dtype dtype, int64_t batch, int64_t channels, int64_t side);

enum { FB_MAX_REPEATS = 16 }; /* that nest */

typedef enum { FB_LAUNCH_KERNEL, FB_LAUNCH_GEMM, FB_LAUNCH_REPEAT, FB_LAUNCH_END, FB_LAUNCH_SWAP } fb_launch_kind;

/* A product of a chain's kernel, made for blocks of rows: c = a b, c's rows side by side. */
typedef struct {
    fb_dtype dtype;
    int64_t rows, n, k; /* rows of one block at most */
    int64_t a_row, a_col, b_row, b_col;
    int a, b; /* buffers; a FB_NONE: the kernel has it on chip, in floats of the width it computes in */
} fb_chain_product_call;

/* Where a launch finds or leaves the value of a node: all of it, from `offset` bytes into the buffer on, and further
 * with the steps of a loop. */
typedef struct {
    fb_id node;
    int buffer;
    int64_t offset;
    fb_advance advance;
} fb_place;

/* A loop inside a merged kernel, outermost there: what one of its steps computes. */
typedef struct {
    fb_id region;
    int64_t count;
    int64_t first; /* the kernel, launched with first + t for its steps, ends after t steps of this loop */
    int n_swaps;
    const int (*swaps)[2]; /* buffers that change places after each step */
    /* Values of the body, and from outside, that a step finds; and values that it leaves until its end. */
    int n_reads, n_stores;
    const fb_place *reads, *stores;
} fb_inner_loop;

/* The launch list; REPEAT count … END nest, for loops. SWAP exchanges two buffers (a loop's carried value). */
typedef struct {
    fb_launch_kind kind;
    int kernel;  /* FB_LAUNCH_KERNEL */
    int gemm;    /* FB_LAUNCH_GEMM; of a merged kernel, the first of those that it numbers from 0; else FB_NONE */
    int group;   /* of the plan that it runs; FB_NONE for a copy that belongs to none */
    bool copies; /* beside what groups compute (plan/copies.h) */
    int n_args;
    const bool *written; /* of each of args: the kernel stores there; NULL: not known */
    const int *args; /* buffers, in the kernel's order: inputs first, then outputs; for a GEMM, those of its epilogue */
    const int64_t *offsets; /* bytes into each of args that the kernel's pointer starts at (windows of one buffer share
                             * one kernel so); NULL: all zero */
    const fb_advance *advances; /* of each of args; NULL: none moves */
    int64_t count;              /* FB_LAUNCH_REPEAT … */
    bool backwards;             /* … from the last entry of what it steps over to the first */
    bool apart;                 /* … each of whose threads may go through all steps by itself (plan/loops.h) */
    fb_id region;               /* … of this loop of the graph; else 0 */
    int n_products;             /* FB_LAUNCH_KERNEL of a chain on the host: what it calls the library for */
    const fb_chain_product_call *products;
    int swap_a, swap_b;
    /* Of a merged kernel that has loops: its trip count, an argument behind all others. With several loops, or stages
     * behind one, it is how far the kernel goes, counted through them (fb_inner_loop). 0: there is none. */
    int64_t steps;
    int n_loops;
    const fb_inner_loop *loops;
    /* What it computes: the values of `stores` from those of `reads`, each by the nodes between. A merged kernel, whose
     * stages do, has none. */
    int n_reads, n_stores;
    const fb_place *reads, *stores;
} fb_launch;

typedef struct fb_program {
    fb_arena *arena;
    const char *language; /* the target's name: "c", "cuda" */
    int n_buffers, n_kernels, n_gemms, n_launches;
    fb_buffer *buffers;
    fb_kernel *kernels;
    fb_gemm_call *gemms;
    fb_launch *launches;
    int64_t pool_bytes;
    int64_t total_bytes; /* all buffers: what the device must have free */
    fb_launch_mode mode;
    /* Of fed and received buffers there are two, used in turn: while a run computes, the next one's feeds arrive and
     * what the one before gave leaves. */
    bool overlap;
    bool fenced;  /* for tests, on the host: reading outside of a buffer that is no temporary ends the run */
    bool lightly; /* for tests, on the host: compiled with few optimisations */
    fb_hash hash; /* of all of the above: names the compiled form */
} fb_program;

/* The buffer that holds a value which leaves the program (an output, what is assigned or received) after a run;
 * FB_NONE. */
int fb_program_left(const fb_program *p, const fb_graph *g, fb_id node);

void fb_program_free(fb_program *p);
/* The i-th text that it stands on, after the prelude: those of its family, and one that only some need; NULL: no more.
 */
const char *fb_program_kernel_piece(const fb_target *t, const fb_kernel *k, int i);
/* The whole translation unit of a kernel that has a source: prelude, what it stands on, and the kernel. */
void fb_program_kernel_unit(const fb_target *t, const fb_kernel *k, fb_str *out);
/* Names what a launch runs, whatever buffers it runs on and whatever it is called: the kernel's text without comments
 * and its geometry, or the library's call with its epilogue. Equal codes take equal times. */
fb_hash fb_program_launch_code(const fb_program *p, const fb_launch *l);
fb_hash fb_program_kernel_code(const fb_kernel *k); /* the same of one kernel */
/* Names what a library may choose an algorithm by: the call without its buffers and its epilogue. */
fb_hash fb_program_gemm_code(const fb_gemm_call *c);
void fb_program_add_convolution(fb_hasher *h, const fb_convolution *c); /* nothing where it is none */
/* The first kernel of kernel k's translation unit: k itself as a rule. */
int fb_program_first_kernel(const fb_program *p, int k);
/* Several programs for one target, launch mode and way of copying as one, run one behind the other: kernels that do the
 * same become one, and up to `most` kernels share a translation unit, so that a compiler starts once for many. Part i's
 * buffer b becomes buffer first_buffer[i] + b. Borrows names from the parts, which must live as long. */
fb_program *fb_program_join(const fb_target *t, const fb_program *const *parts, int n, int most, int *first_buffer);
/* Buffers that each run copies, in their order: *out is the index of the first that leaves. Caller's array, n_buffers
 * long; returns how many. */
int fb_program_copies(const fb_program *p, int *buffers, int *out);
bool fb_program_is_fed(const fb_program *p);
/* Does a kernel add up floats in whatever order its threads come? What it leaves differs in last bits from run to run. */
bool fb_program_sums_in_any_order(const fb_program *p);
/* Are there two of this buffer? */
bool fb_program_buffer_is_double(const fb_program *p, int buffer);
/* What one launch of a kernel that is more or less than a group's is modelled to take: stages or steps that are one
 * kernel, or a copy that no group makes (plan/copies.h). NULL: it is a group's. */
const fb_group_cost *fb_program_own_cost(const fb_program *p, const fb_launch *l);
/* Goes through the launch list as it is written; depth: of the loops around launch i. END has its REPEAT's. */
void fb_program_each(const fb_program *p, void (*at)(void *ctx, int i, int depth), void *ctx);
/* Its buffers, what is copied, and its launches, as a comment of C. */
void fb_program_print_tables(const fb_program *p, fb_str *out);
/* Number of launches a run makes, repeats counted out. */
int64_t fb_program_launches(const fb_program *p);
int64_t fb_program_calls(const fb_program *p);   /* of these, calls of a library */
bool fb_program_has_copies(const fb_program *p); /* is something fed or received in a run? */

#endif
