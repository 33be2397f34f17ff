/* What is told of an edit: the walls in order, the small waterfall, and the rows that turn. */
#include "tui/view/tale.h"

#include "base/mem.h"
#include "tui/show/figure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void walls_as_they_come(void **unused)
{
    (void)unused;
    static const struct {
        double before;
        fb_figure_source kind;
        double guess, after;
        fb_figure_source after_kind;
        const char *want;
    } cases[] = {
        {220, FB_SOURCE_MEASURED, 146, NAN, FB_SOURCE_PREDICTED, " · wall 220 → ~146 µs"},
        {220, FB_SOURCE_MEASURED, 146, 112, FB_SOURCE_MEASURED, " · wall 220 → ~146 → 112 µs"},
        {220, FB_SOURCE_PREDICTED, 146, 112, FB_SOURCE_COMPOSED, " · wall ~220 → ~146 → ≈112 µs"},
        {220, FB_SOURCE_MEASURED, NAN, 112, FB_SOURCE_MEASURED, " · wall 220 → 112 µs"}, /* a doubted model */
        {1220, FB_SOURCE_MEASURED, 146, 112, FB_SOURCE_MEASURED, " · wall 1.22 ms → ~146 → 112 µs"},
        {NAN, FB_SOURCE_PREDICTED, NAN, 112, FB_SOURCE_MEASURED, " · wall 112 µs"},
        {NAN, FB_SOURCE_PREDICTED, NAN, NAN, FB_SOURCE_PREDICTED, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_str text = {0};
        fb_tale_walls(cases[i].before, cases[i].kind, cases[i].guess, cases[i].after, cases[i].after_kind, &text);
        assert_string_equal(fb_str_get(&text), cases[i].want);
        fb_str_free(&text);
    }
}

static void the_longest_falls_first(void **unused)
{
    (void)unused;
    fb_str text = {0};
    fb_why why = {.us = 60};
    fb_tale_fall(&why, &text); /* nothing is known */
    assert_string_equal(fb_str_get(&text), "");
    why.part[FB_WHY_BYTES] = (fb_why_part){.known = true, .us = 25};
    why.part[FB_WHY_LAUNCHES] = (fb_why_part){.known = true, .measured = true, .us = 50};
    why.part[FB_WHY_COMPUTE] = (fb_why_part){.known = true, .us = -10};
    why.part[FB_WHY_SPILLS] = (fb_why_part){.known = true, .us = 0.1}; /* too little to be told */
    why.part[FB_WHY_COPIES] = (fb_why_part){.us = 400};                /* not known */
    why.part[FB_WHY_REST] = (fb_why_part){.known = true, .us = 50};
    fb_tale_fall(&why, &text);
    assert_string_equal(fb_str_get(&text), "launches -50.0 µs ████████  bytes ~-25.0 µs ████  compute ~+10.0 µs ██"
                                           "  rest -50.0 µs ████████");
    fb_str_free(&text);
}

enum { ROWS = 7 };

/* A letter a row, '.' for none. */
static fb_rows rows_of(const char *letters)
{
    fb_rows r = {0};
    for (int i = 0; i < ROWS; i++)
        FB_VEC_PUSH(&r.rows, (fb_row){.entry = i, .letter = letters[i] == '.' ? FB_NONE : letters[i] - 'a'});
    return r;
}

/* Kernels by letters, a number each. */
static uint64_t *numbers(const char *kernels)
{
    uint64_t *of = fb_calloc(ROWS, sizeof *of);
    for (int i = 0; i < ROWS; i++) of[i] = (uint64_t)kernels[i];
    return of;
}

static void letters_now(const fb_merge *m, const fb_rows *now, char to[2 * ROWS + 1])
{
    for (int i = 0; i < ROWS; i++) {
        bool edited;
        fb_row row = fb_merge_row(m, now, i, ROWS, &edited);
        to[2 * i] = row.letter == FB_NONE ? '.' : (char)('a' + row.letter);
        to[2 * i + 1] = edited ? '*' : ' ';
    }
    to[2 * ROWS] = '\0';
}

/* Two kernels become one: their rows turn one by one from the middle; the others have other letters, and no mark. */
static void rows_turn_outwards(void **unused)
{
    (void)unused;
    static const char *const want[] = {". a b*b*c*c c ", ". a b*b*b*c c ", ". a b*b*b*c c "};
    char now[2 * ROWS + 1];
    fb_merge m = {0};
    fb_rows before = rows_of(".abbcdd"), after = rows_of(".abbbcc");
    fb_merge_begin(&m, &before, numbers(".ABBCDD"), 4);
    fb_merge_end(&m, &after, numbers(".AEEEDD"));
    assert_int_equal(m.turning, 3);
    for (int i = 0; i < 3; i++) {
        m.step = i;
        letters_now(&m, &after, now);
        assert_string_equal(now, want[i]);
    }
    m.step = FB_MERGE_STEPS;
    letters_now(&m, &after, now);
    assert_string_equal(now, want[2]);
    fb_merge_begin(&m, &after, numbers(".AEEEDD"), 4); /* and apart again: the nearest first */
    fb_merge_end(&m, &before, numbers(".ABBCDD"));
    letters_now(&m, &before, now);
    assert_string_equal(now, ". a b*b*b*d d ");
    m.step = 1;
    letters_now(&m, &before, now);
    assert_string_equal(now, ". a b*b*c*d d ");
    fb_merge_begin(&m, &before, numbers(".ABBCDD"), 0); /* nothing changed */
    fb_merge_end(&m, &before, numbers(".ABBCDD"));
    assert_null(m.was);
    fb_merge_begin(&m, &before, numbers(".ABBCDD"), 0); /* other rows, as after another fold */
    after.rows.n--;
    fb_merge_end(&m, &after, numbers(".AEEEDD"));
    assert_null(m.was);
    fb_merge_free(&m);
    FB_VEC_FREE(&before.rows);
    FB_VEC_FREE(&after.rows);
}

/* Of a model that is slower than what ran, and of one that is faster: what is undone is undone. */
static void guesses_lead_back(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        double wall = i ? 300 : 148, fused = fb_figure_anchored(wall, 191, 117);
        assert_true(fabs(fused - (i ? 226 : 148 * 117.0 / 191)) < 1e-9);
        assert_true(fabs(fb_figure_anchored(fused, 117, 191) - wall) < 1e-9);
    }
}

/* One unit for both ends, unless the lower would vanish in it. */
static void spreads_keep_their_lower_end(void **unused)
{
    (void)unused;
    static const struct {
        double p10, p90;
        const char *want;
    } cases[] = {{10.4, 14.6, "10.4–14.6 µs"}, {900, 1300, "0.90–1.30 ms"}, {180, 232e3, "180 µs–232.0 ms"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[48];
        const fb_stat s = {cases[i].p90, cases[i].p10, cases[i].p90, 20};
        assert_string_equal(fb_figure_spread(text, &s, FB_SOURCE_MEASURED), cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walls_as_they_come),           cmocka_unit_test(the_longest_falls_first),
        cmocka_unit_test(rows_turn_outwards),           cmocka_unit_test(guesses_lead_back),
        cmocka_unit_test(spreads_keep_their_lower_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
