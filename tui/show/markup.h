/* The few signs of a lesson's text:
 *
 *     # A heading
 *
 *     A paragraph, whose lines are broken anew. *Important* words, and `code`.
 *
 *     - an item; what goes on stands
 *       below it
 *
 *         four blanks: code, as it stands
 *
 * Text becomes blocks, and a block's text runs of one kind. Nothing else means anything: a lone star is a star. */
#ifndef FB_TUI_SHOW_MARKUP_H
#define FB_TUI_SHOW_MARKUP_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum { FB_BLOCK_PARAGRAPH, FB_BLOCK_HEADING, FB_BLOCK_ITEM, FB_BLOCK_CODE } fb_block_kind;

typedef struct {
    fb_block_kind kind;
    const char *text; /* of code with its newlines */
} fb_block;

typedef enum { FB_RUN_TEXT, FB_RUN_STRONG, FB_RUN_CODE } fb_run_kind;

typedef struct {
    fb_run_kind kind;
    const char *text;
    size_t n;
} fb_run;

int fb_markup_blocks(fb_arena *arena, const char *text, const fb_block **out);
/* The next run of a block's text, which *text then lies behind; false: there is none. Not for code. */
bool fb_markup_run(const char **text, fb_run *out);

#endif
