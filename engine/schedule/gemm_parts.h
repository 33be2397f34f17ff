/* What the choice of a contraction's tile and its cost share. */
#ifndef FB_SCHEDULE_GEMM_PARTS_H
#define FB_SCHEDULE_GEMM_PARTS_H

#include "nest/parts.h"
#include "schedule/gemm.h"
#include "schedule/tile_cost.h"

#define FB_GEMM_MOST_PARTS ((int64_t)64 << 20) /* bytes of memory for the parts of split sums */

int fb_gemm_sum_bytes(const fb_tiled *t);
/* Blocks of one part of the sums. */
int64_t fb_gemm_blocks(const fb_tiled *t, const fb_gemm_tile *x);
/* Bytes of shared memory of a block. */
int64_t fb_gemm_shared(const fb_tiled *t, const fb_gemm_tile *x);
/* What whole warpgroups do in such a tile, with as many stages as they have by themselves. */
fb_wide_tile_work fb_gemm_wide_work(const fb_nest *nest, const fb_gemm_tile *x);

/* An operand that is computed instead of copied. */
typedef struct {
    int phase;
    bool right, along_k;
    double loads, instructions; /* of an element */
    int long_ones;
    bool divides;
} fb_made_operand;

typedef struct {
    int n;
    fb_made_operand *at;
    bool left_words, right_words; /* elements are copied one by one */
    bool left_by_k, right_by_k;   /* of the first phase: neighbours in memory are neighbours in k */
} fb_made_operands;

/* fb_free what it points to. */
fb_made_operands fb_gemm_made(const fb_nest *nest);

/* Single precision by multiply-adds, where tiles are neither whole rows nor stay (schedule/lanes.c). */
bool fb_lanes_are_for(const fb_tiled *t);
/* Takes the tile of fewest cycles; fields of x that knobs have set (value) stay. False: none fits. */
bool fb_lanes_choose(const fb_nest *nest, const int64_t *value, fb_gemm_tile *x, double *cycles);
/* What a block does in such a tile, but for its epilogue. */
fb_lanes_work fb_gemm_lanes(const fb_nest *nest, const fb_made_operands *made, const fb_gemm_tile *x);

/* Instructions for an element of an operand, about, but for how its place is divided. */
double fb_gemm_instructions(const fb_nest *nest, const fb_section *s);

/* Few rows, and a right operand that does not come in pieces (schedule/direct.c): takes the direct tile of fewest cycles.
 * False: it is not for the nest, or knobs (value) ask for another. */
bool fb_direct_choose(const fb_nest *nest, const int64_t *value, fb_gemm_tile *x, double *cycles);
double fb_direct_cycles(const fb_nest *nest, const fb_gemm_tile *x);
int64_t fb_direct_shared(const fb_gemm_tile *x);

#endif
