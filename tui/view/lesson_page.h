/* A page of a lesson as lines of a given width. */
#ifndef FB_TUI_VIEW_LESSON_PAGE_H
#define FB_TUI_VIEW_LESSON_PAGE_H

#include "base/arena.h"
#include "base/vec.h"
#include "tui/term/theme.h"

/* Text of one role within a line. */
typedef struct {
    int x;
    fb_role role;
    const char *text;
} fb_lesson_piece;

typedef struct {
    int first, n; /* of the pieces */
} fb_lesson_line;

typedef struct {
    FB_VEC(fb_lesson_piece) pieces;
    FB_VEC(fb_lesson_line) lines;
} fb_lesson_lines;

/* Text in tui/show/markup.h's signs, `indent` cells in, in lines of `width`; what is not marked in `role`. Arena-owned
 * but for the lists themselves. */
void fb_lesson_add(fb_lesson_lines *to, fb_arena *arena, const char *text, int indent, int width, fb_role role);
/* One line as it stands; "" is an empty one. */
void fb_lesson_add_line(fb_lesson_lines *to, fb_arena *arena, int indent, fb_role role, const char *text);
/* A sentence, its words broken over lines; no signs. */
void fb_lesson_add_words(fb_lesson_lines *to, fb_arena *arena, int indent, int width, fb_role role, const char *text);
bool fb_lesson_line_holds(const fb_lesson_lines *l, int line, const char *text);
void fb_lesson_lines_free(fb_lesson_lines *l);

#endif
