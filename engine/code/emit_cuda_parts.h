/* Inside code/: how the printer of CUDA walks a section (emit_cuda.c), for files that write kernels of other shapes
 * around the same walks. */
#ifndef FB_CODE_EMIT_CUDA_PARTS_H
#define FB_CODE_EMIT_CUDA_PARTS_H

#include "code/emit_parts.h"
#include "schedule/schedule.h"

/* Elements that a thread of an elementwise section moves at once, along its last row variable. */
int fb_emit_cuda_vector(const fb_emitter *e, const fb_section *s);
/* The elements of the emitter's section, `vector` of them from group number `point` on: where they are, and what is
 * loaded for all of them; then what is stored. `inside` writes what comes first for each. */
void fb_emit_cuda_load_group(fb_emitter *e, int vector, const char *point);
void fb_emit_cuda_store_group(fb_emitter *e, int vector, void (*inside)(void *ctx), void *ctx);
/* Asks for the lines of memory that a group of elements is in, of what is loaded anew for each row and column; bytes of
 * the largest element of those, 0: there are none. */
void fb_emit_cuda_touch_group(fb_emitter *e, int vector, const char *point);
int fb_emit_cuda_touched(const fb_emitter *e);
/* `vector` elements of a space from `first` on, along its only variable: loads what comes for all of them at once and opens
 * them, one after the other; `v` counts them. */
void fb_emit_cuda_open_together(fb_emitter *e, int space, int vector, const char *first);
/* All passes over one row of the emitter's section, whose row variables are declared, by `team` of a block's threads
 * (fb_schedule_tile_team); `lane`: which of them this one is. */
void fb_emit_cuda_row(fb_emitter *e, int threads, int team, const char *lane);
/* Declares an index that is a variable; what is none, a constant, has no name. */
void fb_emit_cuda_declare(fb_emitter *e, fb_ix index, const char *value);
/* … from the number of a group of `vector` neighbours along the last of them, which it returns the first place of. */
fb_ix fb_emit_cuda_group(fb_emitter *e, const fb_space *space, int vector, const char *point);
/* What pass p of the emitter's section reduces: before its elements; at each; and behind them, by the lanes of a team. */
void fb_emit_cuda_begin_sums(fb_emitter *e, fb_pass p);
void fb_emit_cuda_add_up(fb_emitter *e, fb_pass p);
void fb_emit_cuda_end_sums(fb_emitter *e, fb_pass p, int team);
/* emit_through.c: a section that is dealt so (FB_DEAL_THROUGH); `block`: the block's number within it. */
void fb_emit_cuda_through(fb_emitter *e, const fb_section_schedule *x, const char *block);
/* Declares the variables of a space from the number of a point. */
void fb_emit_cuda_variables(fb_emitter *e, const fb_space *space, const char *point);

/* emit_gemm.c */
void fb_emit_cuda_gemm(fb_emitter *e);
/* Of functions that a tile's operand comes from, over an extent in steps of `by`: does one ask for what lies outside of
 * the operand (guarded)? What it returns, in pieces of 16 bytes or element by element; its line for elements that are
 * outside, and for pieces the condition *inside, which grows by one term; and its return. */
bool fb_emit_cuda_is_guarded(int64_t extent, int64_t by);
const char *fb_emit_cuda_operand_type(const fb_emitter *e, const char *element, bool piece, bool guarded);
void fb_emit_cuda_guard(fb_emitter *e, const char *what, int64_t extent, int64_t by, bool piece, const char **inside);
void fb_emit_cuda_return(fb_emitter *e, const char *value, bool piece, const char *inside);
/* Threads of a block, before anything is written. */
int fb_emit_cuda_gemm_threads(fb_emitter *e);

/* emit_chain_cuda.c */
int fb_emit_cuda_chain_threads(fb_emitter *e);

#endif
