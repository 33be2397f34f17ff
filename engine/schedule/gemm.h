/* The tile of a generated contraction: chosen by extents, machine and knobs, once for legality, cost and code. */
#ifndef FB_SCHEDULE_GEMM_H
#define FB_SCHEDULE_GEMM_H

#include "nest/nest.h"
#include "schedule/knobs.h"

typedef struct {
    bool tensor; /* tensor cores: 16-bit operands, or f32 as tf32 */
    bool wide;   /* … by whole warpgroups: kernels/gemm_wide.cuh */
    bool tma; /* … whose operands the copy engine brings, in blocks that go from tile to tile: kernels/gemm_tma.cuh */
    bool direct; /* each thread has all rows of its columns, and reads these where they lie (schedule/direct.c) … */
    bool joined; /* … and tiles go on from one batch's columns to the next one's, whose rows are the same */
    int period, together; /* … `together` steps k = period · c + t of neighbouring c at a time; period 0: as k goes */
    int m, n, k;          /* of a block; n: all strips */
    int strip;            /* columns of one */
    int warp_m, warp_n, threads;
    int slices;        /* groups of warps that share a tile's k, without tensor cores */
    int stages, usual; /* of the pipeline: so many, and as many as there would be if nobody asked */
    int split;         /* blocks that share one tile's sums over k, parts of which the last one adds up */
    bool near; /* … or each of them a share of the rows, as a cluster that reaches each other's shared memory; tma: of
                * the columns of each strip */
    int64_t shared_bytes;
    int64_t kept_bytes; /* beside them, where right operands stay from one step of a loop to the next; else 0 */
    int sharing;        /* blocks that a multiprocessor is to have registers for; 0: not said */
    int64_t blocks;
    int band;    /* rows of tiles that go on together, a column of their tiles at a time; 0: one row after the other */
    int grid[3]; /* columns, rows, batch × split; near: columns × split, rows, batch; tma: blocks that stay */
    int cluster; /* tma: blocks of a cluster, whose tiles lie one above the other and share a right operand; where sums
                  * are split, 1 */
} fb_gemm_tile;

/* Of a nest of family gemm. False with the sentence where no tile of these knobs (NULL: automatic) fits. */
bool fb_gemm_tile_of(const fb_nest *nest, const fb_knobs *knobs, fb_gemm_tile *out, fb_verdict *why);
/* The same of a nest that has a tile: where knobs came from a group that is no longer what it was, the automatic one.
 */
fb_gemm_tile fb_gemm_tile_had(const fb_nest *nest, const fb_knobs *knobs);
/* Of tma: what clusters go through in turn, rows of their tiles × columns × batches, how many that is, and how many
 * steps of k each takes, in all phases; where these are split, a part of them. */
typedef struct {
    int64_t rows, columns, all, steps;
} fb_gemm_turns;
fb_gemm_turns fb_gemm_turns_of(const fb_nest *nest, const fb_gemm_tile *x);
/* Columns of a strip that a warp makes something of at a time, and floats of a line of them in shared memory. */
enum { FB_GEMM_TMA_PART = 32, FB_GEMM_TMA_LINE = FB_GEMM_TMA_PART + 8 };
/* Of tensor maps while they are made there, one of each warp that copies. */
enum { FB_GEMM_TMA_MAP_BYTES = 4 * 128 };
/* Where a thread stores so many neighbours at once, it has them all in registers. */
enum { FB_GEMM_TMA_FEW = 4 };
/* k of a part of a phase's sums, where these are split. */
int64_t fb_gemm_part(const fb_nest *nest, const fb_gemm_tile *tile, int phase);
/* Bytes of shared memory that the right operands of a phase take where they stay. */
int64_t fb_gemm_kept_bytes(const fb_nest *nest, const fb_gemm_tile *tile, int phase);
/* What k of its right operand is where steps are taken by periods: of two variables that are called so. */
fb_ix fb_direct_step(const fb_nest *nest, fb_ix k, int period, const char *c, const char *t);
/* Time of its arithmetic, in the tile of these knobs (NULL: automatic). */
double fb_gemm_us(const fb_nest *nest, const fb_knobs *knobs, const fb_machine *m);

#endif
