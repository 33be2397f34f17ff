/* Breaks a lesson's text into lines. A word may change its role in the middle (*so*), and is broken nowhere. */
#include "tui/view/lesson_page.h"

#include "base/str.h"
#include "tui/show/markup.h"
#include "tui/term/draw.h"
#include "tui/view/filter.h"

#include <stdio.h>
#include <string.h>

void fb_lesson_lines_free(fb_lesson_lines *l)
{
    FB_VEC_FREE(&l->pieces);
    FB_VEC_FREE(&l->lines);
}

static void begin_line(fb_lesson_lines *to)
{
    FB_VEC_PUSH(&to->lines, (fb_lesson_line){.first = to->pieces.n});
}

static void put(fb_lesson_lines *to, fb_arena *arena, int x, fb_role role, const char *text, size_t n)
{
    fb_lesson_piece p = {x, role, fb_arena_printf(arena, "%.*s", (int)n, text)};
    FB_VEC_PUSH(&to->pieces, p);
    to->lines.at[to->lines.n - 1].n++;
}

void fb_lesson_add_line(fb_lesson_lines *to, fb_arena *arena, int indent, fb_role role, const char *text)
{
    begin_line(to);
    if (*text) put(to, arena, indent, role, text, strlen(text));
}

void fb_lesson_add_words(fb_lesson_lines *to, fb_arena *arena, int indent, int width, fb_role role, const char *text)
{
    fb_str part = {0};
    while (fb_draw_text_words(&text, width - indent, &part))
        fb_lesson_add_line(to, arena, indent, role, fb_str_get(&part));
    fb_str_free(&part);
}

/* ---- words of several roles ---- */

typedef struct {
    fb_lesson_lines *to;
    fb_arena *arena;
    int indent, width, x; /* x: where the line ends */
    FB_VEC(fb_lesson_piece) word;
    int wide; /* of the word */
} writer;

static int width_of(const char *text, size_t n)
{
    char part[256];
    snprintf(part, sizeof part, "%.*s", (int)n, text);
    return fb_draw_text_width(part);
}

static void end_word(writer *w)
{
    if (!w->word.n) return;
    bool begins = w->x == w->indent;
    if (!begins && w->x + 1 + w->wide > w->width) {
        begin_line(w->to);
        w->x = w->indent;
        begins = true;
    }
    int x = begins ? w->x : w->x + 1;
    for (int i = 0; i < w->word.n; i++) {
        const fb_lesson_piece *p = &w->word.at[i];
        put(w->to, w->arena, x, p->role, p->text, strlen(p->text));
        x += fb_draw_text_width(p->text);
    }
    w->x = x;
    w->word.n = 0;
    w->wide = 0;
}

static void add_run(writer *w, const fb_run *run, fb_role role)
{
    for (size_t at = 0; at < run->n;) {
        if (run->text[at] == ' ') {
            end_word(w);
            at++;
            continue;
        }
        size_t n = 0;
        while (at + n < run->n && run->text[at + n] != ' ') n++;
        fb_lesson_piece p = {0, role, fb_arena_printf(w->arena, "%.*s", (int)n, run->text + at)};
        FB_VEC_PUSH(&w->word, p);
        w->wide += width_of(run->text + at, n);
        at += n;
    }
}

static void add_prose(fb_lesson_lines *to, fb_arena *arena, const char *text, int indent, int width, fb_role role)
{
    writer w = {.to = to, .arena = arena, .indent = indent, .width = width, .x = indent};
    fb_run run;
    begin_line(to);
    while (fb_markup_run(&text, &run))
        add_run(&w, &run, run.kind == FB_RUN_STRONG ? FB_ROLE_STRONG : run.kind == FB_RUN_CODE ? FB_ROLE_KEY : role);
    end_word(&w);
    FB_VEC_FREE(&w.word);
}

static void add_code(fb_lesson_lines *to, fb_arena *arena, const char *text, int indent)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        char *line = fb_arena_printf(arena, "%.*s", (int)n, text);
        fb_lesson_add_line(to, arena, indent + 2, FB_ROLE_KEY, line);
        text += n + (text[n] == '\n');
    }
}

/* Before the first word of a line that is written already. */
static void put_dot(fb_lesson_lines *to, fb_arena *arena, int line, int indent)
{
    const fb_lesson_line *l = &to->lines.at[line];
    if (!l->n) return;
    fb_lesson_piece *p = &to->pieces.at[l->first];
    *p = (fb_lesson_piece){indent, p->role, fb_arena_printf(arena, "• %s", p->text)};
}

/* Items stand close to each other, everything else a line apart. */
void fb_lesson_add(fb_lesson_lines *to, fb_arena *arena, const char *text, int indent, int width, fb_role role)
{
    const fb_block *blocks;
    int n = fb_markup_blocks(arena, text, &blocks);
    for (int i = 0; i < n; i++) {
        const fb_block *b = &blocks[i];
        if (i && !(b->kind == FB_BLOCK_ITEM && b[-1].kind == FB_BLOCK_ITEM))
            fb_lesson_add_line(to, arena, 0, FB_ROLE_TEXT, "");
        int first = to->lines.n;
        switch (b->kind) {
        case FB_BLOCK_PARAGRAPH: add_prose(to, arena, b->text, indent, width, role); break;
        case FB_BLOCK_HEADING: fb_lesson_add_words(to, arena, indent, width, FB_ROLE_TITLE, b->text); break;
        case FB_BLOCK_CODE: add_code(to, arena, b->text, indent); break;
        case FB_BLOCK_ITEM:
            add_prose(to, arena, b->text, indent + 2, width, role);
            put_dot(to, arena, first, indent);
            break;
        }
    }
}

bool fb_lesson_line_holds(const fb_lesson_lines *l, int line, const char *text)
{
    fb_str all = {0};
    const fb_lesson_line *at = &l->lines.at[line];
    for (int i = 0; i < at->n; i++) {
        const fb_lesson_piece *p = &l->pieces.at[at->first + i];
        if (i && p->x > l->pieces.at[at->first + i - 1].x + fb_draw_text_width(l->pieces.at[at->first + i - 1].text))
            fb_str_add(&all, " ");
        fb_str_add(&all, p->text);
    }
    bool holds = fb_filter_holds(fb_str_get(&all), text);
    fb_str_free(&all);
    return holds;
}
