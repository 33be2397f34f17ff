/* How the operands of a tile come, and how what is made of its sums goes: part of the schedule of a generated
 * contraction (schedule/gemm.h), decided once for cost and code.
 */
#ifndef FB_SCHEDULE_TILE_H
#define FB_SCHEDULE_TILE_H

#include "nest/parts.h"
#include "schedule/gemm.h"

/* Of the left or right operand of a phase; right ones of several strips come by one function. */
typedef struct {
    bool along_k; /* neighbours in memory are neighbours in k, else in rows (columns) */
    bool pieces;  /* 16 bytes of them are copied at once, as they are: whole, or not at all in the operand */
    bool lines;   /* … and 128 bytes of them lie in one line of the cache */
    bool words;   /* else an element at a time is, as it is; only without tensor cores */
} fb_tile_operand;

/* 16-bit operands, or f32 as tf32. */
bool fb_tile_on_tensor_cores(const fb_tiled *t);
fb_tile_operand fb_tile_left(const fb_nest *nest, int phase);
fb_tile_operand fb_tile_right(const fb_nest *nest, int phase);
/* The load that an operand is, where nothing is done to it; else NULL. */
const fb_value *fb_tile_plain_load(const fb_nest *nest, const fb_operand *o);

/* How an operand's elements lie, where they lie evenly, as copies by tensor map want to know it. In elements. */
typedef struct {
    int64_t inner, lines, batches; /* neighbours in memory, such lines, batches of these */
    int64_t line, batch;           /* from one to the next */
} fb_tile_even;

/* Of a left operand that comes in pieces, or of a product's right one; false where its lines or batches lie unevenly. */
bool fb_tile_left_even(const fb_nest *nest, int phase, fb_tile_even *out);
bool fb_tile_right_even(const fb_nest *nest, int product, bool along_k, fb_tile_even *out);

/* Tiles along a phase's k. */
int64_t fb_gemm_steps(const fb_tiled *t, const fb_gemm_tile *x, int phase);

/* Of the sums, element by element. */
typedef struct {
    int64_t columns; /* that a row of what is stored has */
    int vector;      /* elements that a thread stores at once: few enough that all threads have some */
    int64_t groups;  /* of these in a line of the tile */
    bool early;      /* what is loaded comes while the product is at work: each thread has one group at most */
    bool few_rows, few_columns; /* the last tile may have rows, or columns of a strip, that are not there */
} fb_tile_epilogue;

/* Columns that tiles are laid across: of one batch, or of all. */
int64_t fb_tile_across(const fb_tiled *t, const fb_gemm_tile *tile);
/* Columns that a row of what the section stores has. */
int64_t fb_tile_columns(const fb_section *s);
fb_tile_epilogue fb_tile_epilogue_of(const fb_nest *nest, const fb_knobs *knobs, const fb_gemm_tile *tile);

#endif
