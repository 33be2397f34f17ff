/* The layout over all sizes of the screen: everything inside, nothing on top of anything else. */
#include "tui/term/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool empty(const fb_rect *r)
{
    return r->h == 0 || r->w == 0;
}

/* With its frame, which panes share: one line and one column on each side. */
static bool inside(const fb_rect *r, const fb_layout_wish *w, int frame)
{
    return r->y >= frame && r->x >= frame && r->y + r->h + frame <= w->rows && r->x + r->w + frame <= w->cols &&
           r->h > 0 && r->w > 0;
}

static bool overlap(const fb_rect *a, const fb_rect *b)
{
    return a->y < b->y + b->h && b->y < a->y + a->h && a->x < b->x + b->w && b->x < a->x + a->w;
}

static void check(const fb_layout_wish *w)
{
    fb_layout l = fb_layout_make(w);
    assert_int_equal(l.too_small, w->rows < FB_MIN_ROWS || w->cols < FB_MIN_COLS);
    if (l.too_small) {
        assert_true(empty(&l.header) && empty(&l.whole) && empty(&l.pane[0]));
        return;
    }
    const fb_rect *all[3 + FB_PANES + 1] = {&l.header, &l.keys, &l.hint, &l.pane[0], &l.pane[1], &l.pane[2], &l.whole};
    int n = 3 + FB_PANES + 1;
    if (w->zoomed >= 0 && !w->whole) all[--n] = NULL; /* the zoomed pane is the whole */
    for (int i = 0; i < n; i++) {
        if (empty(all[i])) continue;
        assert_true(inside(all[i], w, i >= 2));
        for (int k = 0; k < i; k++) assert_false(!empty(all[k]) && overlap(all[i], all[k]));
    }
    bool panes = !w->whole && w->zoomed < 0;
    for (int p = 0; p < FB_PANES; p++)
        assert_int_equal(empty(&l.pane[p]), (w->whole && !(l.beside && p == FB_PANE_GRAPH)) ||
                                                (!w->whole && w->zoomed >= 0 && w->zoomed != p));
    assert_int_equal(l.beside, w->whole && w->beside && w->cols >= w->beside + 40);
    assert_int_equal(empty(&l.whole), panes);
    if (!panes) return;
    assert_true(l.pane[FB_PANE_GRAPH].w >= 24 && l.pane[FB_PANE_COLUMNS].w >= 28);
    assert_true(l.pane[FB_PANE_COLUMNS].h >= 3 && l.pane[FB_PANE_KERNELS].h >= 3);
    assert_int_equal(l.pane[FB_PANE_COLUMNS].w, l.pane[FB_PANE_KERNELS].w);
    assert_int_equal(l.pane[FB_PANE_KERNELS].y + l.pane[FB_PANE_KERNELS].h,
                     l.pane[FB_PANE_GRAPH].y + l.pane[FB_PANE_GRAPH].h);
}

/* A sentence that is longer than the box makes room for itself, as far as a third of the screen. */
static void long_sentences_make_room(void **state)
{
    (void)state;
    for (int rows = 0; rows < 12; rows++) {
        fb_layout_wish w = {24, 80, -1, false, 0, 10, 60, rows, false};
        check(&w);
        assert_int_equal(fb_layout_make(&w).hint.h, rows < 2 ? 2 : rows > 8 ? 8 : rows);
    }
}

static void all_sizes(void **state)
{
    (void)state;
    for (int rows = 1; rows <= 100; rows++)
        for (int cols = 1; cols <= 300; cols++)
            for (int zoomed = -1; zoomed < FB_PANES; zoomed++)
                for (int over = 0; over < 4; over++)
                    check(&(fb_layout_wish){rows, cols, zoomed, over > 0,
                                            over > 2   ? 110
                                            : over > 1 ? 56
                                                       : 0,
                                            10, 43, 0, false});
}

static void all_wishes(void **state)
{
    (void)state;
    for (int table = 0; table < 60; table++)
        for (int cells = 0; cells < 400; cells += 7) {
            check(&(fb_layout_wish){24, 80, -1, false, 0, table, cells, 0, false});
            check(&(fb_layout_wish){30, 100, -1, false, 0, table, cells, 0, false});
            check(&(fb_layout_wish){FB_MIN_ROWS, FB_MIN_COLS, -1, false, 0, table, cells, 0, false});
        }
}

/* What is wished for is given where there is room. */
/* A lesson's text in the graph's place: wide enough to be read, with the other panes beside it, and nothing else there.
 */
static void text_and_columns(void **state)
{
    (void)state;
    for (int cols = FB_LESSON_COLS; cols <= 240; cols++)
        for (int wishes = 10; wishes <= 300; wishes += 29) {
            const fb_layout_wish w = {
                .rows = 30, .cols = cols, .zoomed = -1, .left = true, .table_rows = 12, .column_cells = wishes};
            fb_layout l = fb_layout_make(&w);
            const fb_rect *all[] = {&l.whole, &l.pane[FB_PANE_COLUMNS], &l.pane[FB_PANE_KERNELS], &l.hint, &l.keys};
            assert_true(l.left && empty(&l.pane[FB_PANE_GRAPH]));
            for (int i = 0; i < 5; i++) {
                assert_true(inside(all[i], &w, i < 3));
                for (int k = 0; k < i; k++) assert_false(overlap(all[i], all[k]));
            }
            assert_true(l.whole.w >= 45 && l.pane[FB_PANE_COLUMNS].w >= 32);
            assert_int_equal(l.whole.h, l.pane[FB_PANE_COLUMNS].h + 1 + l.pane[FB_PANE_KERNELS].h);
        }
}

static void room_is_given(void **state)
{
    (void)state;
    fb_layout l = fb_layout_make(&(fb_layout_wish){40, 160, -1, false, 0, 10, 60, 0, false});
    assert_int_equal(l.pane[FB_PANE_COLUMNS].h, 10);
    assert_true(l.pane[FB_PANE_COLUMNS].w >= 60);
    l = fb_layout_make(&(fb_layout_wish){24, 80, -1, true, 40, 10, 60, 0, false}); /* decisions on a small screen */
    assert_true(l.beside && l.whole.w >= 40 && l.pane[FB_PANE_GRAPH].w >= 26);
    l = fb_layout_make(&(fb_layout_wish){24, 70, -1, true, 40, 10, 60, 0, false});
    assert_true(!l.beside && l.whole.w == 68);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes),     cmocka_unit_test(long_sentences_make_room), cmocka_unit_test(all_wishes),
        cmocka_unit_test(room_is_given), cmocka_unit_test(text_and_columns),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
