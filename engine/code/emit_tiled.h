/* Inside code/: what kernels of the gemm family have in common, whether tiles accumulate their products (emit_gemm.c)
 * or a cluster takes a state through a loop (emit_recurrence.c). Local names speak of m0 and n0, the first row and
 * column. */
#ifndef FB_CODE_EMIT_TILED_H
#define FB_CODE_EMIT_TILED_H

#include "code/emit_cuda_parts.h"
#include "schedule/gemm.h"
#include "schedule/tile.h"

/* A kernel while it is written. */
typedef struct {
    fb_emitter *e;
    const fb_tiled *t;
    fb_gemm_tile tile;
    const char *element; /* type of a tile's elements */
    const char *sum;     /* of sums */
    const fb_section *s; /* the epilogue */
    fb_tile_epilogue by;
    const char *sums; /* what a thread has them in, neighbours from 0 on; NULL: rows of them are in shared memory */
    int apart;        /* columns from one strip's sums to the next one's */
    const char *own;  /* the condition for a thread to have elements; NULL: all have */
} fb_emit_tiled;

/* Returns an operand's element, or where a piece is and whether it is inside, by the nest's part; its variables are
 * declared. */
void fb_emit_tiled_element(const fb_emit_tiled *w, int part, const fb_operand *o, bool piece, const char *inside);
/* The columns of all strips as one expression of fb_strip, where they are steps along one product; else NULL. */
const char *fb_emit_tiled_strips(const fb_emit_tiled *w, const fb_phase *p, const char *own);
/* Returns an element of a product's right operand, of that column. */
void fb_emit_tiled_right(const fb_emit_tiled *w, int product, const char *column, bool piece, const char *inside);

/* Is this value of the epilogue a product's sum? It is named so from fb_emit_tiled_find_sums on. */
bool fb_emit_tiled_is_sum(const fb_emit_tiled *w, fb_val v);
void fb_emit_tiled_find_sums(const fb_emit_tiled *w);
/* The number of the epilogue's element at row fb_m and column fb_n of the tile. */
void fb_emit_tiled_point(const fb_emit_tiled *w, const char *point);
/* Of the w->by.vector columns from fb_m and fb_n on: what else is loaded for them, and what becomes of the sums. */
void fb_emit_tiled_load(const fb_emit_tiled *w);
void fb_emit_tiled_store(const fb_emit_tiled *w);
/* Asks for the lines of memory in which the first of them lie: fb_touch. */
void fb_emit_tiled_touch(const fb_emit_tiled *w);

/* emit_gemm_tma.c */
void fb_emit_gemm_tma(fb_emit_tiled *w);
/* emit_recurrence.c */
void fb_emit_recurrence(const fb_emit_tiled *w);
/* Threads of a block, before anything is written. */
int fb_emit_recurrence_threads(const fb_emitter *e);

#endif
