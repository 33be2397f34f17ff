/* How long the blocks of a generated contraction take on a GPU: families gemm and chain. */
#ifndef FB_SCHEDULE_TILE_COST_H
#define FB_SCHEDULE_TILE_COST_H

#include "target/machine.h"

/* A product that a block works at: warps of so many rows and columns of sums, over k. */
typedef struct {
    int warp_m, warp_n;
    double k;
} fb_tile_product;

typedef struct {
    fb_dtype dtype;
    bool tensor;
    int64_t blocks, shared_bytes;
    int threads;
    int sharing; /* blocks that a multiprocessor is known to have registers for; 0: by the count of sums */
    int n_products;
    fb_tile_product product[2];
    double tiles;      /* of the products' k: at each a block waits for copies, and its threads for each other */
    double waits;      /* times that a thread stands still for memory or a long division, which nothing hides */
    double made;       /* instructions of a thread that computes operands instead of copying them */
    double after;      /* cycles of a warp with rows of the sums */
    double bytes;      /* of operands that a block reads, from the cache */
    bool in_turn;      /* nothing is multiplied while a tile is copied */
    int stages, usual; /* tiles on their way or in use: so many, and as many as there are where nobody asks */
} fb_tile_work;

/* From the first copy to the last sum. 0 where the machine's rates are not known. */
double fb_tile_us(const fb_machine *m, const fb_tile_work *w);

/* Blocks that multiply by multiply-adds in single precision (schedule/lanes.c): `slices` groups of warps share a tile's
 * k. */
typedef struct {
    int64_t blocks; /* of one part of the sums */
    int split;      /* parts; */
    bool near;      /* … which a cluster adds up in shared memory, or blocks through memory */
    int m, n, k, warp_m, warp_n, slices, threads;
    bool rows_by_k, columns_by_k; /* operands whose neighbours in memory are neighbours in k */
    int stages, usual;
    int64_t shared_bytes;
    double tiles;       /* along k, of a block */
    double copied;      /* elements of a tile's operands that are copied one by one */
    double waits, made; /* as above */
} fb_lanes_work;
/* Cycles of a GPU with so many multiprocessors. */
double fb_lanes_cycles(int units, int64_t shared_bytes, const fb_lanes_work *w);
double fb_lanes_us(const fb_machine *m, const fb_lanes_work *w);

/* The same of blocks in which whole warpgroups multiply: rows × depth by depth × width, and that by width × columns. */
typedef struct {
    int64_t blocks;
    int rows, depth, width, columns;
    int stages, usual; /* as above */
} fb_wide_work;
double fb_wide_us(const fb_machine *m, const fb_wide_work *w);

/* The same of blocks with one product: `steps` times m × step by step × n. */
typedef struct {
    int64_t blocks;
    int m, n, step;
    bool a_lines, b_lines; /* operands of which 128 bytes lie in one line of the cache */
    bool tma;              /* the copy engine brings them all the same, to blocks that stay … */
    bool lines;            /* … and store eight neighbours at once; */
    int split;             /* so many of which share a tile's steps, of which one has `steps` */
    double made;           /* instructions of slow functions that an element takes */
    double beside;         /* bytes that are loaded for it, or stored beside a result of 16 bits */
    double steps;
    int stages, usual; /* as above */
} fb_wide_tile_work;
/* Cycles of a GPU with so many multiprocessors, with as many stages as it has by itself. */
double fb_wide_tile_cycles(int units, const fb_wide_tile_work *w);
double fb_wide_tile_us(const fb_machine *m, const fb_wide_tile_work *w);

/* The same of blocks that take rows through scores a tile at a time: `all` tiles together, `most` of one block. */
typedef struct {
    int64_t blocks, all, most, shared_bytes;
    int rows, tile, depth, columns;
    int loads, packs; /* for each score: loads of its own, and those of eight together; */
    double slow;      /* exponentials that it is made by, beside those of the softmax */
} fb_attention_work;
double fb_attention_us(const fb_machine *m, const fb_attention_work *w);

#endif
