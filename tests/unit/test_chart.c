/* An experiment's points, and the cells that they become: order, groups, the largest of each model, axes, signs. */
#include "tui/view/chart.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { W = 32, H = 9 };

static json_t *parsed(const char *text)
{
    fb_error err = {0};
    json_t *value = fb_json_parse(text, strlen(text), &err);
    if (!value) fail_msg("%s", err.text);
    return value;
}

static const char rows_text[] =
    "[{\"case\":{\"variant\":\"\",\"plan\":\"max\",\"params\":{\"n\":100}},\"row\":{\"us\":1},\"source\":\"measured\"},"
    "{\"case\":{\"variant\":\"\",\"plan\":\"eager\",\"params\":{\"n\":10}},\"row\":{\"us\":10},\"source\":\"measured\"}"
    ","
    "{\"case\":{\"variant\":\"\",\"plan\":\"eager\",\"params\":{\"n\":1000}},\"row\":{\"us\":1000},\"source\":"
    "\"predicted\"},"
    "{\"case\":{\"variant\":\"\",\"plan\":\"max\",\"params\":{\"n\":10}},\"row\":{\"us\":1},\"source\":\"measured\"},"
    "{\"case\":{\"variant\":\"\",\"plan\":\"eager\",\"params\":{\"n\":100}},\"row\":{\"us\":100},\"source\":"
    "\"measured\"},"
    "{\"case\":{\"variant\":\"\",\"plan\":\"max\",\"params\":{\"n\":1000}},\"row\":{\"failed\":\"no room\"}}]";

/* Marks at the cell, and dots in it: '.' where there are only dots, ' ' where there is nothing. */
static char cell(const fb_canvas *c, int x, int y)
{
    char mark = c->mark[y * c->w + x], dots[4];
    return mark ? mark : *fb_canvas_cell(c, x, y, dots) ? '.' : ' ';
}

static void lines_are_sorted(void **unused)
{
    (void)unused;
    json_t *rows = parsed(rows_text), *plot = parsed("{\"x\":\"n\",\"y\":\"us\",\"by\":\"plan\",\"log\":\"xy\"}");
    fb_points p = fb_points_of(plot, rows);
    assert_int_equal(p.n, 5); /* what failed has no point */
    for (int i = 0; i < 5; i++) assert_string_equal(p.at[i].name, i < 3 ? "eager" : "max");
    assert_true(p.at[0].x == 10 && p.at[1].x == 100 && p.at[2].x == 1000);
    assert_int_equal(p.at[2].row, 2);
    assert_true(fb_points_guessed(&p));
    fb_points_free(&p);
    json_decref(rows);
    json_decref(plot);
}

/* On logarithmic axes the line of eager is straight, from the lower left to the upper right; max lies along the foot.
 */
static void points_become_cells(void **unused)
{
    (void)unused;
    json_t *rows = parsed(rows_text), *plot = parsed("{\"x\":\"n\",\"y\":\"us\",\"by\":\"plan\",\"log\":\"xy\"}");
    fb_arena *arena = fb_arena_new();
    fb_points p = fb_points_of(plot, rows);
    fb_chart c;
    fb_chart_make(&c, arena, &p, plot, W, H, 1);
    assert_int_equal(cell(c.canvas, 1, H - 1), 'b');  /* 10, 1 µs */
    assert_int_equal(cell(c.canvas, 16, H - 1), 'b'); /* 100, 1 µs */
    assert_int_equal(cell(c.canvas, 9, H - 1), '.');  /* between them */
    assert_int_equal(cell(c.canvas, 21, H - 1), ' '); /* the third failed */
    assert_int_equal(cell(c.canvas, W - 1, 0), 'a');  /* 1000, 1000 µs */
    assert_int_equal(cell(c.canvas, W - 2, 0), '~');  /* … predicted */
    assert_int_equal(cell(c.canvas, 16, 3), 'a');     /* 100, 100 µs: two of three decades up */
    assert_int_equal(cell(c.canvas, 15, 3), '.');     /* measured */
    for (int i = 0; i < p.n; i++)                     /* where each point says it is */
        assert_int_equal(cell(c.canvas, c.cell[i].x, c.cell[i].y), i < 3 ? 'a' : 'b');
    assert_int_equal(c.canvas->role[3 * W + 16], FB_CHART_CURSOR);
    assert_int_equal(c.canvas->role[W - 1], 0);
    assert_int_equal(c.canvas->ink_of[(H - 1) * W + 9], 1);
    assert_int_equal(c.canvas->ink_of[W - 3] ? 1 : 0, 0);
    assert_true(c.n_x >= 3 && c.n_y >= 4);
    assert_string_equal(c.x[0].text, "10");
    assert_int_equal(c.x[0].at, 1); /* a cell is left for the sign of a first point that is predicted */
    assert_string_equal(c.x[c.n_x - 1].text, "1 k");
    assert_int_equal(c.x[c.n_x - 1].at, W - 1);
    assert_string_equal(c.y[c.n_y - 1].text, "1 k");
    assert_int_equal(c.y[c.n_y - 1].at, 0);
    json_object_del(plot, "log"); /* from zero on, and 100 is near the foot */
    fb_chart_make(&c, arena, &p, plot, W, H, -1);
    assert_int_equal(cell(c.canvas, 4, 7), 'a');
    assert_int_equal(cell(c.canvas, W - 1, 0), 'a');
    assert_string_equal(c.y[0].text, "0");
    fb_points_free(&p);
    json_array_clear(rows); /* nothing yet: an empty chart */
    p = fb_points_of(plot, rows);
    fb_chart_make(&c, arena, &p, plot, W, H, -1);
    assert_int_equal(c.n_x + c.n_y, 0);
    fb_points_free(&p);
    fb_arena_free(arena);
    json_decref(rows);
    json_decref(plot);
}

static const char ranked[] =
    "[{\"case\":{\"variant\":\"cat\",\"plan\":\"eager\",\"params\":{\"N\":64}},\"row\":{\"per_s\":5},\"source\":"
    "\"measured\"},"
    "{\"case\":{\"variant\":\"cat\",\"plan\":\"max\",\"params\":{\"N\":64}},\"row\":{\"per_s\":9,\"fast\":10},"
    "\"source\":"
    "\"measured\"},"
    "{\"case\":{\"variant\":\"gates\",\"plan\":\"max\",\"params\":{\"N\":64}},\"row\":{\"per_s\":7},\"source\":"
    "\"composed\"}]";

/* Of two devices: each bar is as long as its own device's longest lets it be. */
static void bars_are_of_one_device(void **unused)
{
    (void)unused;
    json_t *rows = parsed("[{\"case\":{\"plan\":\"a\",\"device\":\"host\"},\"row\":{\"v\":2}},"
                          "{\"case\":{\"plan\":\"b\",\"device\":\"host\"},\"row\":{\"v\":4}},"
                          "{\"case\":{\"plan\":\"a\",\"device\":\"replay:h200\"},\"row\":{\"v\":900}}]");
    json_t *plot = parsed("{\"y\":\"v\"}");
    fb_points all = fb_points_of(plot, rows);
    assert_int_equal(all.n, 3);
    assert_true(all.at[0].y == 900 && all.at[0].most == 900);
    assert_true(all.at[1].y == 4 && all.at[1].most == 4);
    assert_true(all.at[2].y == 2 && all.at[2].most == 4);
    fb_points_free(&all);
    json_decref(rows);
    json_decref(plot);
}

static void largest_of_each_model(void **unused)
{
    (void)unused;
    json_t *rows = parsed(ranked), *plot = parsed("{\"y\":\"per_s\",\"high\":\"fast\"}");
    assert_true(fb_plot_is_ranking(plot));
    fb_points all = fb_points_of(plot, rows), best = fb_points_largest(plot, rows);
    assert_int_equal(all.n, 3);
    assert_string_equal(all.at[0].name, "cat:max  N=64");
    for (int i = 0; i < all.n; i++) assert_true(all.at[i].most == 10);
    assert_int_equal(best.n, 2);
    assert_string_equal(best.at[0].name, "cat");
    assert_true(best.at[0].y == 9 && best.at[0].of == 2 && best.at[0].row == 1);
    assert_string_equal(best.at[1].name, "gates");
    assert_true(best.at[1].of == 1 && best.at[1].kind == FB_SOURCE_COMPOSED);
    fb_points_free(&best);
    json_object_set_new(plot, "by", json_string("plan")); /* the script's own word for a model */
    best = fb_points_largest(plot, rows);
    assert_int_equal(best.n, 2);
    assert_string_equal(best.at[0].name, "max");
    assert_int_equal(best.at[0].of, 2);
    fb_points_free(&best);
    fb_points_free(&all);
    json_decref(rows);
    json_decref(plot);
}

static void axes_have_marks(void **unused)
{
    (void)unused;
    double at[FB_MOST_TICKS];
    fb_scale s = {.low = 1, .high = 1e6, .log = true};
    int n = fb_scale_ticks(&s, at);
    assert_int_equal(n, 19);
    assert_true(at[0] == 1 && at[n - 1] == 1e6);
    assert_true(fb_scale_at(&s, 1000) > 0.499 && fb_scale_at(&s, 1000) < 0.501);
    s = (fb_scale){.low = 3, .high = 4, .log = true}; /* no round value in between */
    assert_int_equal(fb_scale_ticks(&s, at), 2);
    assert_true(at[0] == 3 && at[1] == 4);
    s = (fb_scale){.low = 0, .high = 10};
    n = fb_scale_ticks(&s, at);
    assert_true(n >= 3 && n <= 7 && at[0] == 0);
    s = (fb_scale){.low = 5, .high = 5}; /* one value alone stands in the middle */
    assert_int_equal(fb_scale_ticks(&s, at), 1);
    assert_true(fb_scale_at(&s, 5) == 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_sorted),       cmocka_unit_test(points_become_cells),
        cmocka_unit_test(bars_are_of_one_device), cmocka_unit_test(largest_of_each_model),
        cmocka_unit_test(axes_have_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
