/* The tile of a generated chain: chosen by extents, machine and knobs, once for legality and code. */
#ifndef FB_SCHEDULE_CHAIN_H
#define FB_SCHEDULE_CHAIN_H

#include "nest/parts.h"
#include "schedule/knobs.h"

/* Warps of a block where it keeps the first product's rows whole: along rows, along columns. */
enum { FB_CHAIN_WARPS_M = 2, FB_CHAIN_WARPS_N = 4 };
/* Where whole warpgroups multiply: k of a step, and bytes of small operands that may lie beside the tiles. */
enum { FB_CHAIN_STRIP = 64, FB_CHAIN_NEAR = 8192 };
/* Neighbouring scores that a thread may make together. */
enum { FB_CHAIN_TOGETHER = 8 };

typedef struct {
    bool tensor;  /* tensor cores: 16-bit operands, or f32 as tf32 */
    bool whole;   /* a block's rows of the first product are on chip whole: fb_chain_whole of kernels/chain.cuh */
    bool wide;    /* whole warpgroups multiply: fb_chain_wide of kernels/wgmma.cuh */
    int copiers;  /* if attends: threads that only copy; 0: all do */
    bool attends; /* … a tile of scores at a time: kernels/attention.cuh */
    int together; /* if attends: scores of a row that a thread makes at once, FB_CHAIN_TOGETHER where what they are made of
                   * comes so from memory; else 1 */
    int rows, warp_rows; /* of a block, of a warp */
    int tile;            /* columns of the first product that are on chip at once; if whole, all, in whole warps */
    int depth, columns;  /* k of the first product (0: there is none) and columns of the last, in whole fragments;
                          * if attends, in whole pieces of 16 bytes, of places in whole strips */
    int step;            /* if whole or wide: k of either product that is loaded at once */
    int stages, usual;   /* of the pipeline: so many, and as many as there would be if nobody asked */
    int threads;
    int64_t shared_bytes, blocks;
    int64_t launched; /* if attends: so many blocks of threads share the blocks, one after the other */
} fb_chain_tile;

/* Is it a chain for a GPU? */
bool fb_schedule_chain_on_gpu(const fb_nest *nest);
/* Of a nest of family chain for CUDA. False with the sentence where no tile of these knobs (NULL: automatic) fits. */
bool fb_schedule_chain_tile(const fb_nest *nest, const fb_knobs *knobs, fb_chain_tile *out, fb_verdict *why);
/* The same of a nest that has a tile: where knobs came from a group that is no longer what it was, the automatic one.
 */
fb_chain_tile fb_schedule_chain_tile_had(const fb_nest *nest, const fb_knobs *knobs);
/* So many members' rows are dealt out side by side, the longest first: a divisor of all. */
int64_t fb_schedule_chain_together(const fb_nest *nest);
/* Tiles of scores that are visible: of all members' blocks together, and of the block that has most. */
void fb_schedule_chain_tiles(const fb_nest *nest, const fb_chain_tile *tile, int64_t *all, int64_t *most);
/* Do whole warpgroups take scores a tile at a time? Then fb_schedule_chain_us counts what becomes of them, too. */
bool fb_schedule_chain_attends(const fb_nest *nest, const fb_knobs *knobs);
/* Time of its products on a GPU, in the tile of these knobs (NULL: automatic). */
double fb_schedule_chain_us(const fb_nest *nest, const fb_knobs *knobs, const fb_machine *m);

#endif
