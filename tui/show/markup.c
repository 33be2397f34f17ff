/* Reads a lesson's text line by line into blocks, and a block's words into runs of one look. What is no sign stays as
 * it was written. Needs nothing of the screen; leaves blocks in an arena.
 */
#include "tui/show/markup.h"

#include "base/str.h"
#include "base/vec.h"

#include <ctype.h>
#include <string.h>

enum { CODE_INDENT = 4 };

/* ---- blocks ---- */

typedef struct {
    fb_arena *arena;
    FB_VEC(fb_block) blocks;
    fb_str text; /* of the block that is being read … */
    fb_block_kind kind;
    bool open; /* … if there is one */
} reader;

static void end_block(reader *r)
{
    if (!r->open) return;
    while (r->text.n && isspace((unsigned char)r->text.text[r->text.n - 1])) r->text.text[--r->text.n] = '\0';
    fb_block b = {r->kind, fb_arena_strdup(r->arena, fb_str_get(&r->text))};
    FB_VEC_PUSH(&r->blocks, b);
    fb_str_clear(&r->text);
    r->open = false;
}

static void begin_block(reader *r, fb_block_kind kind)
{
    end_block(r);
    r->kind = kind;
    r->open = true;
}

static void add_words(reader *r, const char *text, size_t n)
{
    if (r->text.n) fb_str_add(&r->text, " ");
    fb_str_add_n(&r->text, text, n);
}

/* Empty lines end what is not code; in code they belong to it. */
static void take_empty(reader *r)
{
    if (r->open && r->kind == FB_BLOCK_CODE)
        fb_str_add(&r->text, "\n");
    else
        end_block(r);
}

static void take_line(reader *r, const char *line, size_t n)
{
    size_t indent = 0;
    while (indent < n && line[indent] == ' ') indent++;
    bool goes_on = r->open && (r->kind == FB_BLOCK_PARAGRAPH || r->kind == FB_BLOCK_ITEM);
    const char *words = line + indent;
    size_t rest = n - indent;
    if (indent == n) {
        take_empty(r);
    } else if (indent >= CODE_INDENT && !goes_on) {
        if (!r->open || r->kind != FB_BLOCK_CODE) begin_block(r, FB_BLOCK_CODE);
        if (r->text.n && r->text.text[r->text.n - 1] != '\n') fb_str_add(&r->text, "\n");
        fb_str_add_n(&r->text, line + CODE_INDENT, n - CODE_INDENT);
        fb_str_add(&r->text, "\n");
    } else if (!indent && rest > 2 && !strncmp(words, "# ", 2)) {
        begin_block(r, FB_BLOCK_HEADING);
        add_words(r, words + 2, rest - 2);
        end_block(r);
    } else if (rest > 2 && !strncmp(words, "- ", 2)) {
        begin_block(r, FB_BLOCK_ITEM);
        add_words(r, words + 2, rest - 2);
    } else {
        if (!goes_on) begin_block(r, FB_BLOCK_PARAGRAPH);
        add_words(r, words, rest);
    }
}

int fb_markup_blocks(fb_arena *arena, const char *text, const fb_block **out)
{
    reader r = {.arena = arena};
    while (text && *text) {
        size_t n = strcspn(text, "\n");
        take_line(&r, text, n);
        text += n + (text[n] == '\n');
    }
    end_block(&r);
    fb_block *blocks = FB_NEW_ARRAY(arena, fb_block, (size_t)r.blocks.n + 1);
    for (int i = 0; i < r.blocks.n; i++) blocks[i] = r.blocks.at[i];
    int n = r.blocks.n;
    FB_VEC_FREE(&r.blocks);
    fb_str_free(&r.text);
    *out = blocks;
    return n;
}

/* ---- runs ---- */

/* The sign at `p` opens a run where a word begins right behind it and it ends before a blank or a stop: its length
 * without the signs; 0: it is a sign like any other. */
static size_t marked(const char *p, char before)
{
    const char *end = strchr(p + 1, *p);
    if (!end || end == p + 1 || isspace((unsigned char)p[1]) || isalnum((unsigned char)before) || before == *p)
        return 0;
    if (isspace((unsigned char)end[-1]) || isalnum((unsigned char)end[1])) return 0;
    return (size_t)(end - p - 1);
}

bool fb_markup_run(const char **text, fb_run *out)
{
    const char *p = *text;
    if (!*p) return false;
    size_t n = *p == '*' || *p == '`' ? marked(p, ' ') : 0;
    if (n) {
        *out = (fb_run){*p == '*' ? FB_RUN_STRONG : FB_RUN_CODE, p + 1, n};
        *text = p + n + 2;
        return true;
    }
    size_t i = 1;
    while (p[i] && !((p[i] == '*' || p[i] == '`') && marked(p + i, p[i - 1]))) i++;
    *out = (fb_run){FB_RUN_TEXT, p, i};
    *text = p + i;
    return true;
}
