/* docs/messages.md explains all that a plan or a figure may say: every place in the source that makes a verdict, and
 * every word of the tables of checks, comparisons, figures and parts of a difference. And it explains nothing else. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "measure/compare.h"
#include "measure/report.h"
#include "measure/why.h"
#include "session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *list; /* the document */

static int read_list(void **state)
{
    (void)state;
    const char *dir = getenv("FB_SRCDIR");
    char path[4200];
    fb_error err = {0};
    snprintf(path, sizeof path, "%.4000s/docs/messages.md", dir ? dir : ".");
    list = fb_read_file(path, 1 << 20, NULL, &err);
    if (!list) fail_msg("%s", err.text);
    return 0;
}

static int free_list(void **state)
{
    (void)state;
    fb_free(list);
    return 0;
}

/* The characters of a string literal, one after the other where several stand side by side: NULL at their end. */
static const char *next_of_literal(const char *at, char *out)
{
    while (*at == '"') { /* the end of one: does another follow? */
        at++;
        while (*at == ' ' || *at == '\n') at++;
        if (*at != '"') return NULL;
        at++;
    }
    if (*at == '\\') at++;
    *out = *at;
    return *at ? at + 1 : NULL;
}

/* As the document writes it: … for what printf fills in, no backquotes. */
static bool sentence_of(const char *said, fb_str *out)
{
    const char *at = strchr(said, '"');
    char c;
    bool letters = false;
    if (!at) return false;
    for (at++; (at = next_of_literal(at, &c));) {
        if (c == '`') continue;
        if (c == '|') fb_str_add(out, "\\");
        letters |= c >= 'a' && c <= 'z';
        if (c != '%') {
            fb_str_add_n(out, &c, 1);
            continue;
        }
        do {
            at = next_of_literal(at, &c);
        } while (at && strchr("0123456789.-+lz", c));
        if (!at) break;
        fb_str_add(out, c == '%' ? "%" : "…");
    }
    return letters || strchr(fb_str_get(out), ':');
}

static bool has_row(const char *first_cell)
{
    fb_str row = {0};
    fb_str_addf(&row, "\n| %s | ", first_cell);
    const char *at = strstr(list, fb_str_get(&row));
    bool explained = at && strcspn(at + row.n, "|\n") > 10;
    fb_str_free(&row);
    return explained;
}

static void every_verdict_is_explained(void **state)
{
    (void)state;
    int seen = 0, missing = 0;
    for (int i = 0; i < fb_verdict_places(); i++) {
        const fb_verdict_place *place = fb_verdict_place_at(i);
        fb_str sentence = {0};
        if (sentence_of(place->said, &sentence)) {
            seen++;
            if (!has_row(fb_str_get(&sentence))) {
                fprintf(stderr, "%s:%d: docs/messages.md has no \"%s\"\n", place->file, place->line, sentence.text);
                missing++;
            }
        }
        fb_str_free(&sentence);
    }
    assert_true(seen > 100); /* all of the planner is in this program */
    assert_int_equal(missing, 0);
}

/* What the graph says knows no verdicts: sentences are read from its source, as they follow a call. */
static void expect_explained(const char *file, const char *call)
{
    const char *dir = getenv("FB_SRCDIR");
    char path[4200];
    fb_error err = {0};
    snprintf(path, sizeof path, "%.4000s/engine/graph/%s", dir ? dir : ".", file);
    char *source = fb_read_file(path, 1 << 20, NULL, &err);
    if (!source) fail_msg("%s", err.text);
    int seen = 0;
    for (const char *at = source; (at = strstr(at, call)); at += strlen(call)) {
        fb_str sentence = {0};
        if (!sentence_of(at, &sentence)) fail_msg("no sentence at %.60s", at);
        if (!has_row(fb_str_get(&sentence))) fail_msg("docs/messages.md has no \"%s\"", sentence.text);
        seen++;
        fb_str_free(&sentence);
    }
    assert_true(seen > 10);
    fb_free(source);
}

/* What keeps written out steps from being a loop, and two loops from being one. */
static void every_step_is_explained(void **state)
{
    (void)state;
    expect_explained("roll.c", "says_no(l,");
    expect_explained("loop_compare.c", "because(out,");
}

static bool is_said(const char *cell, size_t n)
{
    bool found = false;
    for (int i = 0; i < fb_verdict_places() && !found; i++) {
        fb_str sentence = {0};
        sentence_of(fb_verdict_place_at(i)->said, &sentence);
        found = sentence.n == n && strncmp(fb_str_get(&sentence), cell, n) == 0;
        fb_str_free(&sentence);
    }
    return found;
}

static void nothing_else_is(void **state)
{
    (void)state;
    const char *at = strstr(list, "## Verdicts: the sentences"), *end = at ? strstr(at, "\n## Checks") : NULL;
    assert_true(at && end);
    int stale = 0;
    while ((at = strstr(at, "\n| ")) && at < end) {
        at += 3;
        size_t n = 0;
        while (at[n] && strncmp(at + n, " | ", 3) != 0) n++;
        if (!strncmp(at, "sentence |", 10) || !strncmp(at, "---", 3) || is_said(at, n)) continue;
        fprintf(stderr, "docs/messages.md explains what nothing says: \"%.*s\"\n", (int)n, at);
        stale++;
    }
    assert_int_equal(stale, 0);
}

static void expect_word(const char *word)
{
    if (!has_row(word)) fail_msg("docs/messages.md has no row \"%s\"", word);
}

static void every_word_is_explained(void **state)
{
    (void)state;
    for (int k = FB_VERDICT_FINE; k <= FB_VERDICT_ILLEGAL; k++) expect_word(fb_verdict_kind_name((fb_verdict_kind)k));
    for (int s = FB_CHECK_NONE; s <= FB_CHECK_OVERFLOW; s++) expect_word(fb_check_state_name((fb_check_state)s));
    for (int d = FB_CANNOT_TELL; d <= FB_SLOWER; d++) expect_word(fb_difference_name((fb_difference)d));
    for (int s = FB_SOURCE_MEASURED; s <= FB_SOURCE_PREDICTED; s++)
        expect_word(fb_report_source_name((fb_figure_source)s));
    for (int id = 0; id < FB_WHY_PARTS; id++) expect_word(fb_why_name((fb_why_id)id));
}

/* What an archive holds is in this program when something asks for it. */
fb_verdict (*const planner_is_linked)(const fb_session *, int, const fb_edit *, bool) = fb_session_try;

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verdict_is_explained),
        cmocka_unit_test(nothing_else_is),
        cmocka_unit_test(every_word_is_explained),
        cmocka_unit_test(every_step_is_explained),
    };
    return cmocka_run_group_tests_name("messages", tests, read_list, free_list);
}
