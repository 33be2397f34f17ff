/* Index expressions: the simplifications that the header promises, and random ones against brute force over all values
 * of their variables. */
#include "graph/index.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VARS = 3 };

typedef struct {
    fb_index_pool *p;
    fb_ix vars[VARS];
    int64_t extents[VARS], values[VARS];
} world;

static int64_t value_of(void *ctx, fb_ix var)
{
    world *w = ctx;
    for (int i = 0; i < VARS; i++)
        if (w->vars[i] == var) return w->values[i];
    fail_msg("an unknown variable");
    return 0;
}

static world world_new(int64_t a, int64_t b, int64_t c)
{
    static const char *const names[VARS] = {"i", "j", "k"};
    world w = {.p = fb_index_pool_new(), .extents = {a, b, c}};
    for (int i = 0; i < VARS; i++) w.vars[i] = fb_ix_var(w.p, names[i], w.extents[i]);
    return w;
}

static bool next_point(world *w)
{
    for (int i = VARS - 1; i >= 0; i--) {
        if (++w->values[i] < w->extents[i]) return true;
        w->values[i] = 0;
    }
    return false;
}

static void expect_text(world *w, fb_ix e, const char *text)
{
    fb_str s = {0};
    fb_ix_print(w->p, e, false, &s);
    assert_string_equal(fb_str_get(&s), text);
    fb_str_free(&s);
}

static void test_promises(void **state)
{
    (void)state;
    world w = world_new(100, 8, 24);
    fb_index_pool *p = w.p;
    fb_ix i = w.vars[0], j = w.vars[1];
    fb_ix e = fb_ix_add(p, fb_ix_scale(p, i, 8), j);
    assert_int_equal(fb_ix_div(p, e, 8), i);
    assert_int_equal(fb_ix_mod(p, e, 8), j);
    assert_int_equal(fb_ix_mod(p, fb_ix_mod(p, i, 12), 4), fb_ix_mod(p, i, 4));
    assert_int_equal(fb_ix_div(p, fb_ix_div(p, i, 4), 3), fb_ix_div(p, i, 12));
    assert_int_equal(fb_ix_add(p, fb_ix_scale(p, fb_ix_div(p, i, 12), 12), fb_ix_mod(p, i, 12)), i);
    assert_int_equal(fb_ix_div(p, fb_ix_mod(p, i, 12), 4), fb_ix_mod(p, fb_ix_div(p, i, 4), 3));
    assert_int_equal(fb_ix_sub(p, i, i), fb_ix_const(p, 0));
    assert_int_equal(fb_ix_sub(p, i, fb_ix_scale(p, fb_ix_div(p, i, 4), 4)), fb_ix_mod(p, i, 4));
    /* what a flipped inner dim makes */
    fb_ix flipped = fb_ix_add(p, fb_ix_scale(p, i, 8), fb_ix_sub(p, fb_ix_const(p, 7), j));
    assert_int_equal(fb_ix_div(p, flipped, 8), i);
    assert_int_equal(fb_ix_mod(p, flipped, 8), fb_ix_sub(p, fb_ix_const(p, 7), j));
    fb_index_pool_free(p);
}

static void test_print(void **state)
{
    (void)state;
    world w = world_new(100, 8, 24);
    fb_index_pool *p = w.p;
    fb_ix i = w.vars[0], j = w.vars[1];
    expect_text(&w, fb_ix_add(p, j, fb_ix_add(p, fb_ix_scale(p, i, 8), fb_ix_const(p, 3))), "8 * i + j + 3");
    expect_text(&w, fb_ix_sub(p, fb_ix_const(p, 7), j), "7 - j");
    expect_text(&w, fb_ix_scale(p, j, -1), "-j");
    expect_text(&w, fb_ix_sub(p, fb_ix_scale(p, j, -2), fb_ix_const(p, 3)), "-2 * j - 3");
    expect_text(&w, fb_ix_scale(p, fb_ix_div(p, i, 12), 4), "4 * (i / 12)");
    expect_text(&w, fb_ix_add(p, fb_ix_div(p, i, 12), j), "j + i / 12");
    expect_text(&w, fb_ix_mod(p, fb_ix_add(p, i, j), 12), "(i + j) % 12");
    expect_text(&w, fb_ix_scale(p, fb_ix_mod(p, i, 12), -1), "-(i % 12)");
    expect_text(&w, fb_ix_div(p, fb_ix_sub(p, i, j), 16), "(i - j + 16) / 16 - 1");
    expect_text(&w, fb_ix_const(p, -3), "-3");
    fb_str s = {0};
    fb_ix_print(p, fb_ix_const(p, -3), true, &s);
    fb_ix_print(p, fb_ix_add(p, i, j), true, &s);
    fb_ix_print(p, i, true, &s);
    assert_string_equal(fb_str_get(&s), "(-3)(i + j)i");
    fb_str_free(&s);
    fb_index_pool_free(p);
}

static void test_questions(void **state)
{
    (void)state;
    world w = world_new(100, 8, 24);
    fb_index_pool *p = w.p;
    fb_ix i = w.vars[0], j = w.vars[1], k = w.vars[2], rest;
    int64_t c, low, high;
    fb_ix e = fb_ix_add(p, fb_ix_scale(p, i, 8), fb_ix_mod(p, k, 5));
    assert_true(fb_ix_stride(p, e, i, &c, &rest));
    assert_int_equal(c, 8);
    assert_int_equal(rest, fb_ix_mod(p, k, 5));
    assert_false(fb_ix_stride(p, e, k, &c, &rest));
    assert_true(fb_ix_stride(p, e, j, &c, &rest));
    assert_int_equal(c, 0);
    assert_int_equal(rest, e);
    assert_true(fb_ix_stride(p, i, i, &c, &rest));
    assert_int_equal(c, 1);
    assert_int_equal(rest, fb_ix_const(p, 0));
    assert_true(fb_ix_uses(p, e, k));
    assert_false(fb_ix_uses(p, e, j));
    assert_true(fb_ix_is_var(p, i));
    assert_false(fb_ix_is_var(p, fb_ix_scale(p, i, 2)));
    fb_ix_range(p, e, &low, &high);
    assert_int_equal(low, 0);
    assert_int_equal(high, 8 * 99 + 4);
    assert_int_equal(fb_ix_substitute(p, e, k, fb_ix_const(p, 7)),
                     fb_ix_add(p, fb_ix_scale(p, i, 8), fb_ix_const(p, 2)));
    assert_int_equal(fb_ix_extent(p, k), 24);
    assert_string_equal(fb_ix_var_name(p, k), "k");
    int64_t by[4];
    fb_ix parts = fb_ix_add(p, fb_ix_add(p, fb_ix_div(p, k, 5), fb_ix_mod(p, k, 2)), fb_ix_mod(p, i, 7));
    assert_int_equal(fb_ix_divisors(p, parts, k, by, 4), 2);
    assert_int_equal(by[0] + by[1], 5 + 2);
    assert_int_equal(fb_ix_divisors(p, parts, i, by, 4), 1);
    assert_int_equal(by[0], 7);
    assert_int_equal(fb_ix_divisors(p, parts, j, by, 4), 0);
    assert_int_equal(fb_ix_divisors(p, parts, k, by, 1), 1);
    fb_index_pool_free(p);
}

/* A chain of reshapes of one tensor, back to where it began, is nothing. */
static void test_round_trips(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{2, 3, 4, 5}, {6, 20, 1, 1}, {4, 30, 1, 1},  {120, 1, 1, 1}, {5, 2, 2, 6},
                                        {3, 5, 8, 1}, {8, 15, 1, 1}, {1, 10, 12, 1}, {2, 60, 1, 1},  {24, 5, 1, 1}};
    enum { N = sizeof shapes / sizeof *shapes };
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++)
            for (int c = 0; c < N; c++) {
                fb_index_pool *p = fb_index_pool_new();
                fb_ix begin[4], at[4], linear;
                for (int d = 0; d < 4; d++) at[d] = begin[d] = fb_ix_var(p, "i", shapes[a][d]);
                linear = fb_ix_ravel(p, 4, shapes[a], begin);
                fb_ix_unravel(p, linear, 4, shapes[b], at);
                assert_int_equal(fb_ix_ravel(p, 4, shapes[b], at), linear);
                fb_ix_unravel(p, fb_ix_ravel(p, 4, shapes[b], at), 4, shapes[c], at);
                assert_int_equal(fb_ix_ravel(p, 4, shapes[c], at), linear);
                fb_ix_unravel(p, fb_ix_ravel(p, 4, shapes[c], at), 4, shapes[a], at);
                for (int d = 0; d < 4; d++)
                    if (shapes[a][d] > 1) assert_int_equal(at[d], begin[d]);
                fb_index_pool_free(p);
            }
}

/* ---- random expressions, kept beside their values at every point ---- */

enum { POINTS = 7 * 6 * 12, STEPS = 14 };

typedef struct {
    fb_ix e;
    int64_t values[POINTS];
} candidate;

static uint64_t random_state;

static int64_t draw(int64_t low, int64_t high)
{
    random_state = fb_splitmix64(random_state);
    return low + (int64_t)(random_state % (uint64_t)(high - low + 1));
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q * b > a ? q - 1 : q;
}

static void combine(fb_index_pool *p, const candidate *a, const candidate *b, candidate *out)
{
    static const int64_t divisors[] = {2, 3, 4, 5, 6, 8, 12, 24, 7};
    int64_t c = divisors[draw(0, 8)], f = draw(-4, 8), op = draw(0, 5);
    switch (op) {
    case 0: out->e = fb_ix_add(p, a->e, b->e); break;
    case 1: out->e = fb_ix_sub(p, a->e, b->e); break;
    case 2: out->e = fb_ix_scale(p, a->e, f); break;
    case 3: out->e = fb_ix_div(p, a->e, c); break;
    case 4: out->e = fb_ix_mod(p, a->e, c); break;
    default: out->e = fb_ix_add(p, fb_ix_scale(p, a->e, c), b->e); break;
    }
    for (int i = 0; i < POINTS; i++) {
        int64_t x = a->values[i], y = b->values[i];
        int64_t q = floor_div(x, c);
        out->values[i] = op == 0   ? x + y
                         : op == 1 ? x - y
                         : op == 2 ? x * f
                         : op == 3 ? q
                         : op == 4 ? x - q * c
                                   : x * c + y;
    }
}

/* C's own operators over what was printed: a reader of the little language that fb_ix_print writes. */
typedef struct {
    const char *at;
    const world *w;
} reader;

static int64_t read_sum(reader *r);

static void skip_blanks(reader *r)
{
    while (*r->at == ' ') r->at++;
}

static int64_t read_atom(reader *r)
{
    skip_blanks(r);
    if (*r->at == '-') {
        r->at++;
        return -read_atom(r);
    }
    if (*r->at == '(') {
        r->at++;
        int64_t v = read_sum(r);
        skip_blanks(r);
        assert_int_equal(*r->at++, ')');
        return v;
    }
    if (*r->at >= 'i' && *r->at <= 'k') return r->w->values[*r->at++ - 'i'];
    char *end;
    int64_t v = strtoll(r->at, &end, 10);
    assert_ptr_not_equal(end, r->at);
    r->at = end;
    return v;
}

static int64_t read_product(reader *r)
{
    int64_t v = read_atom(r);
    for (skip_blanks(r); *r->at && strchr("*/%", *r->at); skip_blanks(r)) {
        char op = *r->at++;
        int64_t by = read_atom(r);
        if (op != '*') assert_true(v >= 0);
        v = op == '*' ? v * by : op == '/' ? v / by : v % by;
    }
    return v;
}

static int64_t read_sum(reader *r)
{
    int64_t v = read_product(r);
    for (skip_blanks(r); *r->at == '+' || *r->at == '-'; skip_blanks(r)) {
        char op = *r->at++;
        int64_t by = read_product(r);
        v = op == '+' ? v + by : v - by;
    }
    return v;
}

static void expect_values(world *w, const candidate *x)
{
    int64_t low, high;
    fb_str text = {0};
    fb_ix_print(w->p, x->e, false, &text);
    fb_ix_range(w->p, x->e, &low, &high);
    for (int n = 0; n < POINTS; n++) {
        int64_t v = fb_ix_eval(w->p, x->e, value_of, w);
        if (v != x->values[n] || v < low || v > high)
            fail_msg("%s is %lld, not %lld (range %lld to %lld)", fb_str_get(&text), (long long)v,
                     (long long)x->values[n], (long long)low, (long long)high);
        reader r = {fb_str_get(&text), w};
        assert_int_equal(read_sum(&r), v);
        assert_int_equal(*r.at, 0);
        next_point(w);
    }
    fb_str_free(&text);
}

static void test_random(void **state)
{
    (void)state;
    static candidate all[VARS + STEPS];
    for (uint64_t seed = 0; seed < 1500; seed++) {
        random_state = seed;
        world w = world_new(7, 6, 12);
        for (int n = 0; n < POINTS; n++) {
            for (int v = 0; v < VARS; v++) all[v].values[n] = w.values[v];
            next_point(&w);
        }
        for (int v = 0; v < VARS; v++) all[v].e = w.vars[v];
        for (int s = VARS; s < VARS + STEPS; s++) {
            combine(w.p, &all[draw(0, s - 1)], &all[draw(0, s - 1)], &all[s]);
            expect_values(&w, &all[s]);
        }
        fb_index_pool_free(w.p);
    }
}

/* Huge sizes and divisors neither overflow nor take long. */
static void test_extremes(void **state)
{
    (void)state;
    fb_index_pool *p = fb_index_pool_new();
    fb_ix i = fb_ix_var(p, "i", (int64_t)1 << 40), e = i;
    fb_ix none = fb_ix_var(p, "none", 0);
    for (int n = 0; n < 40; n++) {
        e = fb_ix_add(p, fb_ix_scale(p, e, INT64_MAX / 3), fb_ix_div(p, e, ((int64_t)1 << 61) + n));
        e = fb_ix_sub(p, fb_ix_mod(p, e, ((int64_t)1 << 40) - n), none);
    }
    e = i;
    for (int n = 2; fb_ix_size(p, e) < 100000; n++)
        e = fb_ix_add(p, fb_ix_div(p, fb_ix_add(p, e, i), n), fb_ix_mod(p, e, n + 1));
    assert_true(fb_ix_uses(p, e, i));
    fb_index_pool_free(p);
}

/* Planners keep many pools, and views of views ask for the same sums over and over. */
static void what_is_there_takes_no_more_room(void **state)
{
    (void)state;
    world w = world_new(8, 16, 4);
    size_t once = 0;
    for (int i = 0; i < 1000; i++) {
        fb_ix e = fb_ix_add(w.p, fb_ix_scale(w.p, w.vars[0], 64), fb_ix_scale(w.p, w.vars[1], 4)), rest;
        int64_t stride;
        assert_int_equal(fb_ix_mod(w.p, fb_ix_add(w.p, e, w.vars[2]), 4), w.vars[2]);
        assert_true(fb_ix_stride(w.p, e, w.vars[0], &stride, &rest));
        if (i == 0) once = fb_index_pool_bytes(w.p);
    }
    assert_int_equal(fb_index_pool_bytes(w.p), once);
    fb_index_pool_free(w.p);
}

/* The coefficient alone is the one that comes with the rest; a multiple that is called one is one. */
static void test_coefficients(void **state)
{
    (void)state;
    world w = world_new(6, 8, 5);
    fb_ix i = w.vars[0], j = w.vars[1], k = w.vars[2];
    fb_ix cases[] = {
        i, fb_ix_const(w.p, 12), fb_ix_add(w.p, fb_ix_scale(w.p, i, 24), fb_ix_scale(w.p, j, 4)),
        fb_ix_div(w.p, fb_ix_add(w.p, fb_ix_scale(w.p, i, 8), j), 3),
        fb_ix_add(w.p, fb_ix_add(w.p, i, fb_ix_scale(w.p, fb_ix_mod(w.p, i, 4), 8)), fb_ix_scale(w.p, k, 16))};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int v = 0; v < VARS; v++) {
            int64_t with, alone, zero;
            fb_ix rest;
            bool linear = fb_ix_stride(w.p, cases[c], w.vars[v], &with, &rest);
            assert_int_equal(fb_ix_coefficient(w.p, cases[c], w.vars[v], &alone), linear);
            assert_int_equal(alone, with);
            if (!linear || !fb_ix_all_multiples(w.p, cases[c], w.vars[v], 4)) continue;
            assert_true(fb_ix_is_const(w.p, fb_ix_mod(w.p, rest, 4), &zero) && zero == 0);
        }
    }
    assert_true(fb_ix_all_multiples(w.p, cases[2], i, 4));
    assert_false(fb_ix_all_multiples(w.p, cases[2], i, 8));
    fb_index_pool_free(w.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promises),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(what_is_there_takes_no_more_room),
        cmocka_unit_test(test_coefficients),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
