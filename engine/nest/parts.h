/* What a nest is made of: shared by the files that build it (plan/nest*.c) and by code generation, which prints it.
 *
 *     sections ─ rows (row variables)
 *              ├ spaces (inner variables; one for each shape that is reduced over or stored over)
 *              ├ values: one statement each, operands before users; row-level, or varying over one space
 *              ├ roots: values that are stored, and where
 *              └ passes: loops over a space, in order of depth
 *
 * Depth orders what happens to one row: a value of depth d needs the reductions of all passes of depth < d. A reduction
 * whose operands have depth d is computed in the pass (space, d) and is itself a row-level value of depth d + 1.
 *
 * Everything is an index expression of the nest's pool over row, inner and data variables. A data variable is an index
 * that was read from memory (embedding): it stands for a value of the section.
 */
#ifndef FB_NEST_PARTS_H
#define FB_NEST_PARTS_H

#include "nest/nest.h"

enum { FB_MAX_ROW_VARS = 12, FB_MAX_KERNEL_BUFFERS = 400, FB_MAX_SECTIONS = 256 };
enum { FB_MAX_INTERLEAVED = 4 }; /* parts whose elements alternate in memory, which one thread makes */

/* Storages that no node has: where a copy of a source goes, and the left operand of a chain's last product. */
enum { FB_COPY_OF_SOURCE = -2, FB_ON_CHIP = -3 };

typedef int32_t fb_val; /* a value of its section */

/* Loops, outermost first; dims of one element have no variable, and an extent of 0 is that of an empty tensor. n 0: exactly
 * one point. */
typedef struct {
    int n;
    fb_ix var[FB_MAX_ROW_VARS];
    int64_t extent[FB_MAX_ROW_VARS];
} fb_space;

int64_t fb_space_points(const fb_space *s);

/* low <= at < high, and all of `outer` (FB_NONE: nothing more) hold. */
typedef struct {
    int outer;
    fb_ix at;
    int64_t low, high;
} fb_when;

typedef enum {
    FB_VALUE_CONST,  /* number */
    FB_VALUE_LOAD,   /* element `at` of `node`'s storage, 0 unless `when` */
    FB_VALUE_INDEX,  /* the integer `at` */
    FB_VALUE_RANDOM, /* element `at` of the random source `node` */
    FB_VALUE_OP,     /* the pointwise `node` of args */
    FB_VALUE_SELECT, /* args[0] where the innermost test of `when` holds, else args[1] */
    FB_VALUE_REDUCE, /* the reduction `node` of args[0] (a contraction: of args[0] * args[1]) over space `over`; an
                      * index_add: of args[0] where the index args[1] is the row (fb_section_adds) */
    FB_VALUE_FOLD, /* a step of the short reduction `node`, written out: args[0] with args[1]; the last of a mean has one
                      * operand, and divides it by `number` */
    FB_VALUE_SCAN, /* the running `node` of args[0] along the one variable of space `over` */
    FB_VALUE_CHIP, /* element `at` of the product `node` of a chain: of its own row, on chip */
} fb_value_kind;

typedef struct {
    fb_value_kind kind;
    fb_id node; /* whose value it is */
    fb_dtype dtype;
    int n_args;
    fb_val args[3];
    fb_ix at;
    int when;  /* FB_NONE: always */
    int table; /* FB_VALUE_LOAD in a rolled section: the base and shift of each member; FB_NONE: `node` itself */
    int over;  /* FB_VALUE_REDUCE and _SCAN */
    double number;
    int space;     /* it varies over this space; FB_NONE: row-level */
    uint32_t rows; /* bit d: varies with row variable d */
    int depth;
    bool kept;     /* slow to compute and needed in several passes: kept in a row buffer after the first … */
    int kept_pass; /* … which is this one */
} fb_value;

typedef struct {
    fb_id node;    /* stored here … */
    fb_id storage; /* … in the storage of this node (a parameter for `assign`, else itself) */
    fb_val value;
    fb_ix at; /* element offset */
    int table;
    int space, depth; /* as of the value, but space is the one that `at` varies over */
} fb_root;

/* Rolled: where member m finds or puts it: element `at` + shift[m] of base[m]. */
typedef struct {
    bool store;
    const fb_id *base;
    const int64_t *shift;
} fb_table;

typedef struct {
    fb_ix var;
    fb_val value;
    char *name; /* what `var` prints as */
} fb_data_var;

typedef struct {
    int space, depth;
} fb_pass;

typedef struct {
    fb_space rows;
    int n_spaces, n_values, n_roots, n_passes, n_tables, n_data;
    fb_space *spaces;
    fb_value *values;
    fb_root *roots;
    fb_pass *passes;
    fb_table *tables;
    fb_data_var *data;
    int blocked;  /* so many leading row variables number rows of a contraction's result, done in blocks
                   * first … last - 1: one for a library call, in a chain one for the member and one for the row */
    bool scatter; /* an index_add alone: its one root, zeroed first, is added to at every point of spaces[0] × rows */
    int members;  /* how many equal sections this one serves; the outermost row variable numbers them when it is > 1 */
    fb_ix member; /* that variable */
} fb_section;

/* An operand of a contraction, element by element: a section of one root (nothing is stored), whose value varies over
 * one space. Variables of single points are constants. */
typedef struct {
    fb_section section;
    fb_ix batch, outer, k; /* outer: the row of a left operand, the column of a right one */
} fb_operand;

/* A contraction that stays on chip; the epilogue reads it as a load of its node. */
typedef struct {
    fb_id node;
    int64_t k, columns;
    fb_operand right;
} fb_product;

/* Products that share their left operand are accumulated together. */
typedef struct {
    int64_t k;
    double ratio; /* what was summed before is multiplied by it first */
    fb_operand left;
    int *product;    /* a strip: of which product it gets columns here; FB_NONE: none */
    int64_t *column; /* … from which column of the product on */
} fb_phase;

/* What a loop carries besides what goes round, each thread for itself: what root `made` is at one step, `read` is at
 * the next. */
typedef struct {
    fb_id read, made;
    fb_id home; /* where the loop keeps it, the root's storage; FB_NONE: there for all steps, one behind the other */
} fb_own;

/* What a step reads, and the next one so many elements further on, in whole pieces of 16 bytes. */
typedef struct {
    fb_id item;
    int64_t stride;
} fb_moving;

/* A step of a loop whose left operand is what it has made at the step before, sent round a cluster of blocks
 * (schedule/cluster.h). */
typedef struct fb_round {
    fb_id made; /* what is sent, a root */
    int n_own, n_moving;
    const fb_own *own;
    const fb_moving *moving;
} fb_round;

/* Where a storage that a loop's step reads or stores is moves on by `stride` elements, once `every` so many steps. */
typedef struct {
    fb_id storage;
    int64_t stride, every;
} fb_moved;

/* A state that is one number everywhere before the first step: nobody writes it there. */
typedef struct {
    fb_id state;
    double value;
} fb_start;

/* A loop's body whose threads each go through all steps by themselves, and have in registers what a step leaves to the
 * next: the elements of what is stored and does not move. */
typedef struct fb_through {
    int64_t trips;
    int n_moved;
    const fb_moved *moved;
    int n_starts;
    const fb_start *starts;
} fb_through;

/* NULL: where the storage is stays the same from step to step. */
static inline const fb_moved *fb_nest_moved(const fb_through *t, fb_id storage)
{
    for (int i = 0; i < t->n_moved; i++)
        if (t->moved[i].storage == storage) return &t->moved[i];
    return NULL;
}

/* NULL: it is in memory. */
static inline const fb_start *fb_nest_start(const fb_through *t, fb_id state)
{
    for (int i = 0; i < t->n_starts; i++)
        if (t->starts[i].state == state) return &t->starts[i];
    return NULL;
}

/* Family gemm. A block's tile is a row of *strips*, side by side and equally wide: one for each sum of products that
 * the epilogue (the nest's one section) reads at a column offset of its own, as the four gates of an LSTM. */
typedef struct {
    fb_dtype dtype; /* of operands */
    fb_precision precision;
    int64_t batch, rows, columns; /* columns: of a strip; batch 1: right operands have none, and rows count all */
    bool whole;                   /* the epilogue needs whole rows: a block's strip is all columns */
    int n_products, n_phases, n_strips;
    fb_product *products;
    fb_phase *phases;
    bool kept;             /* right operands stay in shared memory from one step of a loop to the next */
    const fb_round *round; /* they stay, and the left one goes round a cluster of blocks; NULL: it does not */
    int *strip_of;         /* a value of the section: the strip that it is read from, FB_NONE */
    int units;             /* multiprocessors, */
    int64_t shared_bytes;  /* and what each has for a block: what tiles are chosen by */
    int capability;        /* major of the compute capability */
} fb_tiled;

/* One contraction of a chain: rows of the left operand by all of the right one. */
typedef struct {
    fb_id node;
    int64_t depth, columns;
    fb_id a, b; /* what the operands lie in; a: FB_NONE where the middle leaves it on chip */
    fb_ix a_at; /* an element of `a`, over member, row and k */
    fb_ix b_at; /* of `b`, over member, k and n */
    fb_ix k, n;
} fb_chain_link;

/* Where row · i + column · j + constant >= 0. */
typedef struct {
    int64_t row, column, constant;
} fb_half_plane;

enum { FB_MAX_HALF_PLANES = 4 };

typedef struct {
    int64_t batch, rows; /* members, and rows of each */
    fb_ix member, row;   /* the variables of these; constants where there is only one */
    int n_links;
    fb_chain_link link[2]; /* in order; the last may have its left operand on chip */
    int n_middle;          /* the first sections make that operand */
    bool in_place;         /* … of the first product's elements, each in its own place */
    int64_t block;         /* on the host: rows that are worked on together */
    /* on a GPU: */
    fb_val made; /* of section 0: what becomes the last product's left operand, element by element … */
    bool online; /* … after a softmax over its row, of which only the scores are computed there: */
    int n_seen;  /* where all of these hold (0: everywhere) the score is `shown`, */
    fb_half_plane seen[FB_MAX_HALF_PLANES];
    fb_val shown; /* … elsewhere the constant `hidden` */
    double hidden;
    int units;            /* multiprocessors, */
    int64_t shared_bytes; /* and what each has for a block; */
    int capability;       /* major of the compute capability */
    bool wide;            /* they multiply by whole warpgroups (compute capability 9.0) */
} fb_chain;

struct fb_nest {
    fb_arena *arena;
    const fb_graph *graph;
    const fb_target *target; /* what it is for */
    int units;               /* multiprocessors or cores, */
    int64_t shared_bytes;    /* and what a block of one may have: what long rows are cut by. 0: they are not */
    int64_t cache_bytes;     /* of the last cache */
    bool clusters;           /* blocks may be clusters (compute capability 9.0) */
    bool stage;              /* see fb_nest_as_stage */
    fb_index_pool *pool;
    fb_kernel_nodes kernel;
    fb_id accumulator; /* FB_NEST_CALL: the contraction, whose result is read as a buffer; else FB_NONE */
    fb_id product;     /* where the library writes it: the accumulator's own storage, or that of the one value which the
                        * epilogue puts in place of it, element by element */
    fb_tiled *tiled;   /* FB_NEST_TILES; else NULL */
    bool staged;       /* see fb_nest_staged: roots go to FB_COPY_OF_SOURCE */
    fb_chain *chain;   /* FB_NEST_CHAIN; else NULL */
    const fb_through *through; /* it goes through all steps of its loop; NULL: it is one step, or in no loop */
    int n_whens;
    fb_when *whens;
    int n_sections;
    fb_section *sections;
    int n_reads, n_writes;
    const fb_id *reads, *writes; /* storages, ascending; an assigned parameter that is also read is in both */
    fb_nest_facts facts;
};

/* All sections, those of operands after the others. */
static inline int fb_nest_parts(const fb_nest *nest)
{
    return nest->n_sections + (nest->tiled ? nest->tiled->n_phases + nest->tiled->n_products : 0);
}

static inline const fb_section *fb_nest_part(const fb_nest *nest, int i)
{
    if (i < nest->n_sections) return &nest->sections[i];
    i -= nest->n_sections;
    const fb_tiled *t = nest->tiled;
    return i < t->n_phases ? &t->phases[i].left.section : &t->products[i - t->n_phases].right.section;
}

/* Does it go by what it keeps on chip, tiles or blocks of rows, and not by its sections? */
static inline bool fb_nest_on_chip(const fb_nest *nest)
{
    return nest->kernel.kind == FB_NEST_TILES || nest->kernel.kind == FB_NEST_CHAIN;
}

/* Products of a chain. */
static inline int fb_nest_links(const fb_nest *nest)
{
    return nest->chain ? nest->chain->n_links : 0;
}

/* Where a value that is read lies: what a library call makes may be put where something else will be. */
static inline fb_id fb_nest_storage(const fb_nest *nest, fb_id node)
{
    return node == nest->accumulator ? nest->product : node;
}

/* Is this node's value on chip, where the epilogue reads it? */
static inline bool fb_nest_is_product(const fb_nest *nest, fb_id node)
{
    for (int i = 0; nest->tiled && i < nest->tiled->n_products; i++)
        if (nest->tiled->products[i].node == node) return true;
    return node == nest->accumulator;
}

/* Is this value computed anew at every point of its space (or row)? Constants and indices are printed where they stand.
 */
static inline bool fb_value_is_leaf(const fb_value *v)
{
    return v->kind == FB_VALUE_CONST || v->kind == FB_VALUE_INDEX;
}

/* What a step of a reduction that is written out computes of two elements. */
static inline fb_op fb_value_fold_op(fb_op reduction)
{
    return reduction == FB_OP_AMAX   ? FB_OP_MAXIMUM
           : reduction == FB_OP_AMIN ? FB_OP_MINIMUM
           : reduction == FB_OP_PROD ? FB_OP_MUL
                                     : FB_OP_ADD;
}

/* Has `at` a meaning? */
static inline bool fb_value_is_indexed(const fb_value *v)
{
    return v->kind == FB_VALUE_LOAD || v->kind == FB_VALUE_INDEX || v->kind == FB_VALUE_RANDOM ||
           v->kind == FB_VALUE_CHIP;
}

/* Is v reduced in pass p? */
bool fb_value_reduces(const fb_value *v, fb_pass p);
/* Does pass `p` of the section need value v, which varies over the pass's space? `needed` has room for n_values. */
void fb_section_needed(const fb_section *s, int pass, bool *needed);

/* Do the loads run along the last row variable rather than along the rows? Those of windows do: rows begin close to each
 * other, and are short pieces of what they are cut from. */
bool fb_section_lies_across(const fb_index_pool *pool, const fb_section *s);
/* What its sums along rows add up, in elements (a comparison counts as several), and how many such sums there are; windows
 * and short rows are none. As the facts have them, were rows done one after the other. */
void fb_section_row_sums(const fb_graph *g, const fb_section *s, int64_t *summed, int64_t *sums);
/* Is the innermost loop of this space too short to be one? It is written out with those around it. */
bool fb_space_is_window(const fb_space *space);
/* Rows of the last row variable, from <= var < to, in which no test of the pass (FB_NONE: of any value) depends on it:
 * those of windows that lie inside of what is padded. var FB_NONE: there are few, there is no such test, or it numbers
 * blocks of rows. */
typedef struct {
    fb_ix var;
    int64_t from, to;
    bool holds; /* … and another one at 0: */
    fb_ix held;
} fb_interior;

/* The index with what is held at 0. */
fb_ix fb_interior_at(fb_index_pool *pool, const fb_interior *x, fb_ix at);
/* Narrows to where the innermost test holds for all values of the other variables; false where that cannot be said. */
bool fb_interior_narrow(fb_index_pool *pool, const fb_when *w, fb_interior *x);

fb_interior fb_section_interior(const fb_nest *nest, const fb_section *s, int pass);
/* Are its rows reduced and no more, so that a part of a row is as good as a row? */
bool fb_section_only_reduces(const fb_section *s);
/* Points of the longest pass; 0: there is none. */
int64_t fb_section_longest(const fb_section *s);
/* Values that are loads, on chip or from memory. */
int fb_section_loads(const fb_section *s);
/* On a GPU: is each of its few long rows dealt to several blocks? `longest`: points of its longest pass, about. */
bool fb_section_may_split(const fb_section *s, int64_t longest);
/* About how many it has, all loops. */
int64_t fb_section_operations(const fb_section *s);
/* On the host: fewer are left to one thread, for waking the team costs more than it brings. */
enum { FB_WORK_FOR_THREADS = 1 << 16 };

/* Which product of the chain `node` is; FB_NONE. */
int fb_chain_product(const fb_chain *c, fb_id node);
/* Of a tile of scores: 0 none is visible, 2 all are, 1 some may be. */
int fb_chain_seen(const fb_chain *c, int64_t row, int64_t rows, int64_t column, int64_t columns);
/* Does the section read this product? */
bool fb_section_reads_product(const fb_section *s, fb_id node);

/* "`amax` is computed where it is read, of 9 elements each time, 2 times over", of the first reduction that is written
 * out; nothing where none is. */
void fb_nest_says_written(const fb_nest *nest, fb_str *out);

/* ---- index_add (nest/added.c) ---- */

typedef struct {
    fb_val sum;                  /* of an index_add with more in its kernel: FB_VALUE_REDUCE; FB_NONE: it is alone */
    int row;                     /* … and this row variable, the first but for a member's, numbers the rows */
    int64_t rows, width, points; /* of the result (a member's), elements of each, and of the index */
    bool spares;                 /* rows that the index does not name stay as they are in memory, untouched … */
    fb_id moves;                 /* … if not for this node, which changes them; FB_NONE: their zeros are new */
} fb_added;

/* Is the section an index_add, alone or with what is made of it? */
bool fb_section_adds(const fb_nest *nest, const fb_section *s, fb_added *out);
/* "rows that the index does not name stay as they are", or why they do not. */
void fb_added_says(const fb_nest *nest, const fb_added *a, fb_str *out);
/* Rows that the index names, if it is as likely to name one as any other. */
double fb_added_rows(const fb_added *a);

#endif
