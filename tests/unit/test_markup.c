/* The text of lessons: what becomes of it, as one line of signs. */
#include "tui/show/markup.h"

#include "base/str.h"
#include "tui/view/lesson_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* "p:" paragraph, "h:" heading, "i:" item, "c:" code; <strong>, [code]; blocks parted by "|", newlines of code by "/".
 */
static void write_blocks(const char *text, fb_str *out)
{
    fb_arena *arena = fb_arena_new();
    const fb_block *blocks;
    int n = fb_markup_blocks(arena, text, &blocks);
    for (int i = 0; i < n; i++) {
        fb_str_addf(out, "%s%c:", i ? "|" : "", "phic"[blocks[i].kind]);
        const char *rest = blocks[i].text;
        fb_run run;
        if (blocks[i].kind == FB_BLOCK_CODE) {
            for (; *rest; rest++) fb_str_add_n(out, *rest == '\n' ? "/" : rest, 1);
            continue;
        }
        while (fb_markup_run(&rest, &run)) {
            static const char *const ends[][2] = {{"", ""}, {"<", ">"}, {"[", "]"}};
            fb_str_add(out, ends[run.kind][0]);
            fb_str_add_n(out, run.text, run.n);
            fb_str_add(out, ends[run.kind][1]);
        }
    }
    fb_arena_free(arena);
}

static const struct {
    const char *text, *wanted;
} cases[] = {
    {"", ""},
    {"one\ntwo\n\nthree", "p:one two|p:three"},
    {"# Head\ntext", "h:Head|p:text"},
    {"#no head", "p:#no head"},
    {"- a\n- b\n  goes on\n\nafter", "i:a|i:b goes on|p:after"},
    {"text\n    not code: it goes on", "p:text not code: it goes on"},
    {"text\n\n    x = 1\n      y = 2\n\n    z\n\nafter", "p:text|c:x = 1/  y = 2//z|p:after"},
    {"a *strong* word", "p:a <strong> word"},
    {"*all of it*", "p:<all of it>"},
    {"*so*, and `this`.", "p:<so>, and [this]."},
    {"2 * 3 * 4", "p:2 * 3 * 4"},
    {"x*y*z", "p:x*y*z"},
    {"*open", "p:*open"},
    {"``", "p:``"},
    {"`a*b*c` *d*", "p:[a*b*c] <d>"},
    {"f(*args) and **kw**", "p:f(*args) and **kw**"},
    {"*a* *b*", "p:<a> <b>"},
};

static void signs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_str got = {0};
        write_blocks(cases[i].text, &got);
        if (strcmp(fb_str_get(&got), cases[i].wanted) != 0)
            fail_msg("\"%s\" became \"%s\" instead of \"%s\"", cases[i].text, fb_str_get(&got), cases[i].wanted);
        fb_str_free(&got);
    }
}

/* No line is longer than there is room, but for a word that is; and no word is lost. */
static void lines_fit(void **state)
{
    (void)state;
    const char *text = "A *few words* that `change` their role, *and*, in the middle\nof a line.\n\n- an item that is "
                       "longer than one line, so it goes on\n- short\n\n    code as it stands";
    for (int width = 12; width < 90; width++) {
        fb_arena *arena = fb_arena_new();
        fb_lesson_lines l = {0};
        int letters = 0;
        fb_lesson_add(&l, arena, text, 1, width, FB_ROLE_TEXT);
        for (int i = 0; i < l.lines.n; i++) {
            const fb_lesson_line *line = &l.lines.at[i];
            for (int k = 0; k < line->n; k++) {
                const fb_lesson_piece *p = &l.pieces.at[line->first + k];
                int bullet = strncmp(p->text, "•", strlen("•")) == 0 ? 2 : 0; /* bytes of one cell */
                letters += (int)strlen(p->text);
                if (p->role != FB_ROLE_KEY) assert_true(p->x + (int)strlen(p->text) - bullet <= width);
                if (k) assert_true(p->x >= p[-1].x);
            }
        }
        static int all;
        if (width == 12) all = letters;
        assert_int_equal(letters, all);
        fb_lesson_lines_free(&l);
        fb_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(signs), cmocka_unit_test(lines_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
