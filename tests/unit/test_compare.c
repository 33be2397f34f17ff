/* Comparing: pairs of equal columns are not called different, small differences are found, and a summary's interval is
 * that of its median. */
#include "base/mem.h"
#include "measure/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/turn.h"

/* ---- made-up samples ---- */

static uint64_t random_state;

static double uniform(void) /* splitmix64 */
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

/* Student's t with 3 degrees of freedom, of variance 1. */
static double heavy(void)
{
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double z = normal();
        sum += z * z;
    }
    return normal() / sqrt(sum);
}

/* One column's runs: an autocorrelated disturbance of its own, heavy tails, one run in 50 interrupted. */
static double run(double *state)
{
    *state = 0.7 * *state + sqrt(1 - 0.7 * 0.7) * heavy();
    double interrupted = uniform() < 0.02 ? 0.5 * uniform() : 0;
    return 0.03 * *state + interrupted;
}

/* At whatever moment it is shown: between looks the last one stands. */
static bool ever_called(const double *a, const double *b, int most, fb_time of, fb_difference what)
{
    for (int n = fb_pairs_next_look(0); n <= most; n = fb_pairs_next_look(n)) {
        fb_comparison c = fb_compare_pairs(a, b, NULL, n, of);
        if (what == FB_FASTER ? c.what == what : fb_differs(&c)) return true;
    }
    return false;
}

/* Rounds of 32 runs, A and B in turns under a drift that both see. */
static int pairs_called_different(int trials, int rounds)
{
    int different = 0;
    double a[128], b[128];
    for (int t = 0; t < trials; t++) {
        double own[2] = {0}, drift = 0;
        for (int i = 0; i < rounds; i++) {
            drift += 0.002 * normal();
            for (int which = 0; which < 2; which++) {
                double samples[32];
                for (int k = 0; k < 32; k++) samples[k] = 100 * exp(drift + run(&own[which]));
                (which ? b : a)[i] = fb_stat_of(samples, 32).median;
            }
        }
        different += ever_called(a, b, rounds, FB_TIME_WALL, FB_CANNOT_TELL);
    }
    return different;
}

static void equal_columns_are_not_called_different(void **state)
{
    (void)state;
    random_state = 1;
    int different = pairs_called_different(2000, 64);
    if (different > 4) fail_msg("%d of 2000", different);
}

/* Either time is one of two neighbours, and mostly the same one. */
static void no_step_is_a_difference(fb_time of, double step)
{
    random_state = 4;
    for (int t = 0; t < 2000; t++) {
        enum { PAIRS = 64 };
        double a[PAIRS], b[PAIRS];
        double each = 3 * step + 20 * step * uniform(), noise = 0.4 * step * uniform(), apart = 0.2 * step * uniform();
        for (int i = 0; i < PAIRS; i++) {
            a[i] = step * rint((each + noise * normal()) / step);
            b[i] = step * rint((each + apart + noise * normal()) / step);
        }
        if (ever_called(a, b, PAIRS, of, FB_CANNOT_TELL)) fail_msg("%g µs called different in trial %d", each, t);
    }
}

static void steps_of_a_clock_are_no_difference(void **state)
{
    (void)state;
    no_step_is_a_difference(FB_TIME_WALL, 0.01);
    no_step_is_a_difference(FB_TIME_DEVICE, 0.032);
}

/* How pairs of equal columns differ: normal; like an H200's wall times, where one in ten is far off; Student's t of 3;
 * of bounded size; of a machine whose rhythm both runs of a pair feel, in an order that a coin chose; of one that gets
 * slower or faster from run to run, where the second run of a pair takes longer whichever it is. */
typedef enum { NORMAL, DISTURBED, HEAVY, BOUNDED, RHYTHM, DRIFT, SHAPES } shape;
static const char *const shape_name[] = {"normal", "disturbed", "heavy", "bounded", "rhythm", "drift"};

static double deviate(shape of, double *state)
{
    switch (of) {
    case DISTURBED: return normal() * (uniform() < 0.1 ? 6 : 1);
    case HEAVY: return heavy();
    case BOUNDED: return 2 * uniform() - 1;
    case RHYTHM: {
        double first = *state = 0.8 * *state + normal(), second = *state = 0.8 * *state + normal();
        return uniform() < 0.5 ? first - second : second - first;
    }
    case DRIFT: {
        double first = (*state += 0.3 * normal()) + normal(), second = (*state += 0.3 * normal()) + 0.5 + normal();
        return uniform() < 0.5 ? first - second : second - first;
    }
    default: return normal();
    }
}

static double times_of(shape of, double sigma, double *state)
{
    return 100 * exp(sigma * deviate(of, state));
}

/* What half of the middle 68 % spans, of a σ of 1. */
static double unit_of(shape of)
{
    enum { MANY = 1 << 16 };
    double *a = fb_alloc(MANY * sizeof *a), *b = fb_alloc(MANY * sizeof *b), state = 0;
    for (int i = 0; i < MANY; i++) a[i] = times_of(of, 1, &state), b[i] = 100;
    double unit = fb_pairs_sigma(a, b, MANY);
    fb_free(a);
    fb_free(b);
    return unit;
}

static void no_noise_is_a_difference(void **unused)
{
    (void)unused;
    enum { TRIALS = 2000, PAIRS = FB_ROUNDS };
    random_state = 5;
    for (shape of = NORMAL; of < SHAPES; of++) {
        int different = 0;
        double a[PAIRS], b[PAIRS], unit = unit_of(of);
        if (!is_our_turn(of)) continue;
        for (int t = 0; t < TRIALS; t++) {
            double rhythm = 0, sigma = 0.01 * pow(4, uniform());
            for (int i = 0; i < PAIRS; i++) a[i] = times_of(of, sigma / unit, &rhythm), b[i] = 100;
            different += ever_called(a, b, PAIRS, FB_TIME_WALL, FB_CANNOT_TELL);
        }
        if (different > TRIALS / 500) fail_msg("%s: %d of %d", shape_name[of], different, TRIALS);
    }
}

/* What belongs to a column and stays for several rounds is no coin: equal columns are called different more often than
 * docs/MANUAL.md allows others, but the correlation that shows keeps that to half of what it would be. */
static void what_stays_with_a_column_is_held_back(void **unused)
{
    (void)unused;
    enum { TRIALS = 300, PAIRS = 64 };
    static const struct {
        double correlated;
        int most; /* without that 4, 40 and 130 */
    } cases[] = {{0.3, 6}, {0.6, 30}, {0.8, 95}};
    random_state = 9;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int different = 0;
        double a[PAIRS], b[PAIRS], r = cases[k].correlated;
        for (int t = 0; t < TRIALS; t++) {
            double own = normal();
            for (int i = 0; i < PAIRS; i++) {
                own = r * own + sqrt(1 - r * r) * normal();
                a[i] = 100 * exp(0.02 * own), b[i] = 100;
            }
            different += ever_called(a, b, PAIRS, FB_TIME_WALL, FB_CANNOT_TELL);
        }
        if (different > cases[k].most) fail_msg("correlated %g: %d of %d", r, different, TRIALS);
    }
}

/* Of `trials` differences of 2 % at a deviation `sigma` a pair, those called within `most` pairs. */
static int found_within(int trials, shape of, double sigma, int most)
{
    int found = 0;
    double *a = fb_alloc((size_t)most * sizeof *a), *b = fb_alloc((size_t)most * sizeof *b), unit = unit_of(of);
    for (int t = 0; t < trials; t++) {
        double rhythm = 0;
        for (int i = 0; i < most; i++) a[i] = 1.02 * times_of(of, sigma / unit, &rhythm), b[i] = 100;
        found += ever_called(a, b, most, FB_TIME_WALL, FB_FASTER);
    }
    fb_free(a);
    fb_free(b);
    return found;
}

static void two_percent_are_found(void **state)
{
    (void)state;
    static const double sigma[] = {0.005, 0.01, 0.015, 0.02, 0.03, 0.05};
    random_state = 2;
    for (size_t i = 0; i < sizeof sigma / sizeof *sigma; i++)
        for (shape of = NORMAL; of <= HEAVY; of++) {
            int most = fb_pairs_asked(sigma[i]), found = found_within(400, of, sigma[i], most);
            if (found < 380) fail_msg("%s, %g: %d of 400 within %d", shape_name[of], sigma[i], found, most);
        }
}

/* Levels of a column's own that last for a few rounds: of more than the pairs that the scatter of one asks for 2 % wants
 * more, and it is told how many from a run of them. */
static double lasting_level(double *level, double lasts, double share)
{
    *level = lasts * *level + sqrt(1 - lasts * lasts) * normal();
    return sqrt(share) * *level + sqrt(1 - share) * normal();
}

static void two_percent_are_found_where_levels_last(void **state)
{
    (void)state;
    enum { RUN = 512, TRIALS = 400 };
    static const double lasts[] = {0.25, 0.6}, sigmas[] = {0.03, 0.05}, correlated = 0.2;
    double *a = fb_alloc(2 * (size_t)(4 * RUN) * sizeof *a), *b = a + (size_t)(4 * RUN), level = 0;
    random_state = 8;
    for (int k = 0; k < 2; k++)
        for (int s = 0; s < 2; s++) {
            int found = 0;
            for (int t = 0; t < TRIALS; t++) {
                for (int i = 0; i < 4 * RUN; i++) {
                    a[i] = 100 * exp(sigmas[s] * lasting_level(&level, lasts[k], correlated / lasts[k]));
                    b[i] = 100;
                }
                int most = fb_pairs_asked(fb_pairs_long_sigma(a, b, RUN));
                assert_true(most <= 3 * RUN);
                for (int i = 0; i < most; i++) a[RUN + i] *= 1.02;
                found += ever_called(a + RUN, b + RUN, most, FB_TIME_WALL, FB_FASTER);
            }
            if (found < TRIALS * 19 / 20) fail_msg("%g lasting %g: %d of %d", sigmas[s], lasts[k], found, TRIALS);
        }
    fb_free(a);
}

static void the_pairs_asked_for_follow_the_noise(void **state)
{
    (void)state;
    double a[24], b[24];
    for (int i = 0; i < 24; i++) a[i] = 100 * exp(i % 2 ? 0.02 : -0.02), b[i] = 100;
    assert_true(fabs(fb_pairs_sigma(a, b, 24) - 0.02) < 1e-6);
    assert_true(isnan(fb_pairs_sigma(a, b, 1)) && isnan(fb_pairs_long_sigma(a, b, 1)));
    assert_true(fabs(fb_pairs_long_sigma(a, b, 24) - 0.02) < 1e-6); /* what takes itself back is no more than it is */
    for (int i = 0; i < 24; i++) a[i] = 100 * exp(i / 6 % 2 ? 0.02 : -0.02);
    assert_true(fb_pairs_long_sigma(a, b, 24) > 0.03);
    assert_int_equal(fb_pairs_next_look(0), FB_PAIRS_FEW);
    assert_int_equal(fb_pairs_next_look(FB_PAIRS_FEW), FB_PAIRS_FEW + 1);
    assert_int_equal(fb_pairs_next_look(FB_PAIRS_LEAST - 1), FB_PAIRS_LEAST);
    assert_int_equal(fb_pairs_next_look(FB_PAIRS_LEAST), 17);
    assert_int_equal(fb_pairs_next_look(20), 24);
    assert_int_equal(fb_pairs_next_look(106), FB_ROUNDS);
    assert_int_equal(fb_pairs_asked(0.001), 20);
    assert_int_equal(fb_pairs_asked(0.01), 29);
    assert_int_equal(fb_pairs_asked(0.02), 51);
    assert_int_equal(fb_pairs_asked(0.05), 224);
}

/* Student's t in one look of n normal pairs, whose limit for 1 of 500 is in every table. */
static double found_at_once(int n, double limit, double sigma)
{
    enum { TRIALS = 20000 };
    int found = 0;
    for (int t = 0; t < TRIALS; t++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < n; i++) {
            double d = log(1.02) + sigma * normal();
            sum += d;
            squares += d * d;
        }
        found += sum / n > limit * sqrt((squares - sum * sum / n) / (n - 1) / n);
    }
    return (double)found / TRIALS;
}

/* (223 σ)² pairs are too few for 19 in 20 even of normal noise and looking once: 2 % at 2 % want 28, not 20. */
static void what_no_test_can_find_is_known(void **state)
{
    (void)state;
    random_state = 6;
    assert_int_equal(fb_pairs_bound(0.02), 28);
    double enough = found_at_once(28, 3.421, 0.02), fewer = found_at_once(26, 3.450, 0.02);
    if (enough < 0.947 || fewer > 0.947) fail_msg("%g and %g", enough, fewer);
    assert_true(found_at_once(20, 3.579, 0.02) < 0.85);
    /* Where the deviation is as good as known: (3.090 + 1.645)² (σ / log 1.02)². */
    double many = 4.735 * 4.735 * pow(0.2 / log(1.02), 2);
    assert_true(fabs(fb_pairs_bound(0.2) - many) < 6);
    for (double sigma = 0.005; sigma < 0.3; sigma *= 1.3)
        assert_true(fb_pairs_bound(sigma) > pow(223 * sigma, 2) && fb_pairs_bound(sigma) < fb_pairs_asked(sigma));
}

static void the_same_is_said_when_it_is_known(void **state)
{
    (void)state;
    double a[100], b[100];
    char text[64];
    random_state = 3;
    for (int i = 0; i < 100; i++) a[i] = 100 * exp(0.01 * normal()), b[i] = 100;
    fb_comparison c = fb_compare_pairs(a, b, NULL, 100, FB_TIME_WALL);
    assert_int_equal(c.what, FB_SAME);
    assert_true(c.low < 1 && c.high > 1 && fb_comparison_resolves(&c) < 0.02);
    for (int i = 0; i < 100; i++) a[i] = 100 * exp(0.03 * normal());
    c = fb_compare_pairs(a, b, NULL, 24, FB_TIME_WALL);
    assert_int_equal(c.what, FB_CANNOT_TELL);
    assert_non_null(strstr(fb_comparison_say(&c, text), "% is not seen on this machine"));
    for (int i = 0; i < 100; i++) a[i] = 100 * exp(0.3 * normal());
    c = fb_compare_pairs(a, b, NULL, FB_PAIRS_LEAST, FB_TIME_WALL);
    assert_int_equal(c.what, FB_CANNOT_TELL);
    assert_string_equal(fb_comparison_say(&c, text), "cannot tell: too few rounds yet");
    c = fb_compare_pairs(a, b, NULL, FB_PAIRS_LEAST - 1, FB_TIME_WALL);
    assert_int_equal(c.what, FB_CANNOT_TELL);
    assert_true(isfinite(c.times) && c.low == 0 && isinf(c.high));
    assert_string_equal(fb_comparison_say(&c, text), "cannot tell yet: 13 of 14 rounds");
    fb_comparison later = fb_compare_pairs(a, b, NULL, 16, FB_TIME_WALL); /* the next look is at 17 */
    c = fb_compare_pairs(a, b, NULL, FB_PAIRS_LEAST, FB_TIME_WALL);
    assert_true(later.times == c.times && later.low == c.low);
    c = fb_compare_pairs(b, b, NULL, 24, FB_TIME_WALL);
    assert_int_equal(c.what, FB_SAME);
    for (int i = 0; i < 100; i++) a[i] = 70 + 0.01 * i; /* neighbours are alike, and all of them differ */
    c = fb_compare_pairs(a, b, NULL, 20, FB_TIME_WALL);
    assert_true(c.what == FB_SLOWER && c.low > 0.69);
    for (int i = 0; i < 100; i++) a[i] = 50;
    c = fb_compare_pairs(a, b, NULL, 100, FB_TIME_WALL);
    assert_int_equal(c.what, FB_SLOWER);
    assert_string_equal(fb_comparison_say(&c, text), "2.00× slower");
}

/* A ratio below 1 is told the other way round. */
static void ratios_are_told(void **unused)
{
    (void)unused;
    static const struct {
        double times;
        const char *said, *brief;
    } cases[] = {
        {3.9, "3.90 ×", "3.90 ×"},         {11, "11.0 ×", "11.0 ×"},           {417.3, "417 ×", "417 ×"},
        {1, "1.00 ×", "1.00 ×"},           {0.997, "1.00 ×", "1.00 ×"},        {0.99, "1.01× slower", "1/1.01 ×"},
        {0.8, "1.25× slower", "1/1.25 ×"}, {0.05, "20.0× slower", "1/20.0 ×"}, {1e-3, "1000× slower", "1/1000 ×"}};
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(fb_ratio_say(cases[i].times, text), cases[i].said);
        assert_string_equal(fb_ratio_brief(cases[i].times, text), cases[i].brief);
    }
}

/* ---- summaries ---- */

/* 3.659 is the quantile of 29, 1.2533 / 2.5631 / √15 the deviation of a median of 30 by its p10–p90. */
static void a_summary_has_the_interval_of_its_median(void **state)
{
    (void)state;
    const fb_stat a = {100, 90, 110, 30}, one = {100, 100, 100, 1}, none = {NAN, NAN, NAN, 0};
    fb_comparison c = fb_compare_stats(&a, &one);
    assert_true(c.times == 1);
    c = fb_compare_stats(&a, &a);
    double half = 3.659 * sqrt(2) * 1.2533 * 0.2 / 2.5631 / sqrt(15) + 0.005;
    if (fabs(log(c.high) - half) > 2e-3 * half) fail_msg("%g instead of %g", log(c.high), half);
    assert_int_equal(c.what, FB_CANNOT_TELL);
    c = fb_compare_stats(&a, &none);
    assert_true(c.what == FB_CANNOT_TELL && isnan(c.times));
}

/* The recorded figures that were once called ties: the single runs overlap, the medians do not. */
static void overlapping_runs_do_not_hide_a_difference(void **state)
{
    (void)state;
    const fb_stat crossed = {8.48, 8.416, 8.595, 15}, straight = {2.176, 2.144, 2.177, 15};
    const fb_stat wall[] = {{20.25, 18.87, 23.71, 30}, {13.98, 11.73, 20.09, 30}};
    const fb_stat few = {14.2, 10, 60e3, 6}, slow = {44.1e3, 40e3, 60e3, 6};
    fb_comparison c = fb_compare_stats(&crossed, &straight);
    assert_true(c.what == FB_FASTER && fabs(c.times - 3.9) < 0.01);
    c = fb_compare_stats(&straight, &crossed);
    assert_int_equal(c.what, FB_SLOWER);
    c = fb_compare_stats(&wall[0], &wall[1]);
    assert_int_equal(c.what, FB_FASTER);
    c = fb_compare_stats(&slow, &few); /* one of them is too disturbed to say anything */
    assert_int_equal(c.what, FB_CANNOT_TELL);
}

/* ---- reports ---- */

/* `n` rounds, each 10 ms after the one before. */
static fb_report *measured(double from_ms, int n, double us)
{
    fb_report *r = fb_report_new();
    r->device = "host";
    r->wall_us = (fb_stat){us, 0.5 * us, 2 * us, 20 * n};
    r->device_us = (fb_stat){us, 0.5 * us, 2 * us, n};
    for (; r->n_rounds < n; r->n_rounds++)
        r->rounds[r->n_rounds] =
            (fb_round){(from_ms + 10 * r->n_rounds) * 1e3, us * (1 + 0.001 * (r->n_rounds % 3)), us};
    return r;
}

/* ---- few rounds ---- */

enum { RUNS = 64 }; /* a round */

/* A round of either, the one that `first` names being the first: runs of their own disturbance around a level that the
 * round has, of which a thousand runs tell no more than a few. */
static void add_rounds(fb_report *both[2], shape of, double sigma, double *rhythm, double own[2], int first)
{
    static double all[2][FB_PAIRS_LEAST * RUNS];
    int n = both[0]->n_rounds;
    for (int turn = 0; turn < 2; turn++) {
        int which = turn ? !first : first;
        double level = of == RHYTHM ? *rhythm = 0.8 * *rhythm + 0.6 * normal() : deviate(of, rhythm);
        for (int k = 0; k < RUNS; k++) all[which][n * RUNS + k] = 100 * exp(sigma * level + run(&own[which]));
        double us = fb_stat_of(all[which] + n * RUNS, RUNS).median;
        both[which]->rounds[n] = (fb_round){(2 * n + turn) * 1e3, us, NAN};
        both[which]->n_rounds = n + 1;
        both[which]->wall_us = fb_stat_of(all[which], (n + 1) * RUNS);
    }
}

/* Two equal columns are measured in turns: is one called faster before the first look? */
static bool early_called(fb_report *both[2], shape of, double sigma)
{
    double rhythm = 0, own[2] = {0};
    bool called = false;
    both[0]->n_rounds = both[1]->n_rounds = 0;
    while (both[0]->n_rounds < FB_PAIRS_LEAST - 1) {
        add_rounds(both, of, sigma, &rhythm, own, uniform() < 0.5);
        fb_comparison c = fb_compare_reports(both[0], both[1], FB_TIME_WALL);
        called |= fb_differs(&c);
    }
    return called;
}

static void few_rounds_call_nothing_different(void **unused)
{
    (void)unused;
    enum { TRIALS = 1000 };
    fb_report *both[] = {fb_report_new(), fb_report_new()};
    for (int i = 0; i < 2; i++) both[i]->device = "host";
    random_state = 8;
    for (shape of = NORMAL; of < SHAPES; of++) {
        int different = 0;
        for (int t = 0; t < TRIALS; t++) different += early_called(both, of, 0.01 * pow(4, uniform()));
        if (different > TRIALS / 500) fail_msg("%s: %d of %d", shape_name[of], different, TRIALS);
    }
    fb_report_free(both[0]);
    fb_report_free(both[1]);
}

static void few_rounds_tell_what_does_not_overlap(void **unused)
{
    (void)unused;
    double a[FB_PAIRS_LEAST], b[FB_PAIRS_LEAST];
    bool drawn[FB_PAIRS_LEAST], always[FB_PAIRS_LEAST];
    char text[64];
    for (int i = 0; i < FB_PAIRS_LEAST; i++) {
        a[i] = 120 + i, b[i] = 100 + i;
        drawn[i] = i % 3 == 0, always[i] = true;
    }
    fb_comparison c = fb_compare_pairs(a, b, drawn, FB_PAIRS_FEW - 1, FB_TIME_WALL);
    assert_string_equal(fb_comparison_say(&c, text), "cannot tell yet: 7 of 14 rounds");
    c = fb_compare_pairs(a, b, drawn, FB_PAIRS_FEW, FB_TIME_WALL);
    assert_true(c.what == FB_FASTER && c.low > 1.12 && c.high < 1.271 && c.pairs == FB_PAIRS_FEW);
    c = fb_compare_pairs(b, a, drawn, FB_PAIRS_FEW, FB_TIME_WALL);
    assert_int_equal(c.what, FB_SLOWER);
    c = fb_compare_pairs(a, b, always, FB_PAIRS_FEW, FB_TIME_WALL); /* the first of two may be slower */
    assert_int_equal(c.what, FB_CANNOT_TELL);
    a[2] = 104;
    c = fb_compare_pairs(a, b, drawn, FB_PAIRS_FEW, FB_TIME_WALL);
    assert_string_equal(fb_comparison_say(&c, text), "cannot tell yet: 8 of 14 rounds");
    assert_true(c.times > 1.1);
    a[2] = 122;
    for (int i = 0; i < FB_PAIRS_LEAST; i++)
        a[i] *= exp(0.3 * (i % 2)); /* too noisy for coins, and known all the same */
    c = fb_compare_pairs(a, b, NULL, FB_PAIRS_LEAST, FB_TIME_WALL);
    assert_int_equal(c.what, FB_CANNOT_TELL);
    c = fb_compare_pairs(a, b, drawn, FB_PAIRS_LEAST, FB_TIME_WALL);
    assert_int_equal(c.what, FB_FASTER);
}

static fb_difference wall_of(const fb_report *a, const fb_report *b, int *pairs)
{
    fb_comparison c = fb_compare_reports(a, b, FB_TIME_WALL);
    *pairs = c.pairs;
    return c.what;
}

static void rounds_in_turns_are_paired(void **state)
{
    (void)state;
    int pairs;
    fb_report *a = measured(0, 20, 100), *b = measured(5, 20, 95), *later = measured(500, 20, 95);
    assert_int_equal(wall_of(a, b, &pairs), FB_FASTER);
    assert_int_equal(pairs, 20);
    assert_int_equal(wall_of(b, a, &pairs), FB_SLOWER);
    assert_int_equal(wall_of(a, later, &pairs), FB_CANNOT_TELL); /* another time: the medians alone */
    assert_int_equal(pairs, 0);
    b->device = "cuda:0";
    assert_int_equal(wall_of(a, b, &pairs), FB_CANNOT_TELL);
    assert_int_equal(pairs, 0);
    fb_report_free(a);
    fb_report_free(b);
    fb_report_free(later);
}

/* A framework's rounds are paired with ours, now or in a recording, if they were taken in turns with them. */
static void a_frameworks_rounds_are_paired(void **state)
{
    (void)state;
    static const struct {
        const char *ours, *theirs;
        fb_figure_source of_ours, of_theirs;
        bool paired;
    } cases[] = {
        {"replay:h200", "torch:h200", FB_SOURCE_RECORDED, FB_SOURCE_RECORDED, true},
        {"cuda:0", "torch", FB_SOURCE_MEASURED, FB_SOURCE_MEASURED, true},
        {"replay:h200", "torch:a100", FB_SOURCE_RECORDED, FB_SOURCE_RECORDED, false},
        {"replay:h200", "torch", FB_SOURCE_RECORDED, FB_SOURCE_MEASURED, false},
        {"replay:h200", "torch:h200", FB_SOURCE_COMPOSED, FB_SOURCE_RECORDED, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int pairs;
        fb_report *a = measured(0, 20, 100), *b = measured(5, 20, 95), *later = measured(500, 20, 95);
        a->device = cases[i].ours;
        b->device = later->device = cases[i].theirs;
        a->source = cases[i].of_ours;
        b->source = later->source = cases[i].of_theirs;
        fb_difference is = wall_of(a, b, &pairs);
        assert_int_equal(pairs, cases[i].paired ? 20 : 0);
        assert_int_equal(is, cases[i].paired ? FB_FASTER : FB_CANNOT_TELL);
        wall_of(a, later, &pairs); /* measured on another day */
        assert_int_equal(pairs, 0);
        fb_report_free(a);
        fb_report_free(b);
        fb_report_free(later);
    }
}

/* A thousand runs of few rounds that scatter are few. */
static void rounds_are_what_counts_at_other_times(void **unused)
{
    (void)unused;
    int pairs;
    fb_report *a = measured(0, 4, 100), *b = measured(500, 4, 90);
    a->wall_us = (fb_stat){100, 99, 101, 1000};
    b->wall_us = (fb_stat){90, 89, 91, 1000};
    assert_int_equal(wall_of(a, b, &pairs), FB_FASTER);
    double known = fb_report_half(a, FB_TIME_WALL);
    for (int i = 0; i < 4; i++) a->rounds[i].wall_us = 100 * exp(i % 2 ? 0.05 : -0.05);
    assert_int_equal(wall_of(a, b, &pairs), FB_CANNOT_TELL);
    assert_int_equal(pairs, 0);
    assert_true(fb_report_half(a, FB_TIME_WALL) > 5 * known);
    fb_report_free(a);
    fb_report_free(b);
}

/* A model is believed to what it is good for. */
static void a_prediction_decides_little(void **state)
{
    (void)state;
    int pairs;
    fb_report *a = measured(0, 20, 100), *b = measured(0, 0, 90);
    a->wall_us = (fb_stat){100, 99, 101, 400};
    b->wall_us = (fb_stat){90, 90, 90, 1};
    assert_int_equal(wall_of(a, b, &pairs), FB_FASTER);
    b->source = FB_SOURCE_PREDICTED;
    assert_int_equal(wall_of(a, b, &pairs), FB_CANNOT_TELL);
    b->wall_us = (fb_stat){50, 50, 50, 1};
    assert_int_equal(wall_of(a, b, &pairs), FB_FASTER);
    fb_report_free(a);
    fb_report_free(b);
}

/* `n` rounds of `us` each, every second one `noise` longer, the others as much shorter. */
static fb_report *noisy(double from_ms, int n, double us, double noise)
{
    fb_report *r = measured(from_ms, n, us);
    for (int i = 0; i < n; i++) r->rounds[i].wall_us = us * exp(i % 2 ? noise : -noise);
    return r;
}

static bool is_settled(double us, double noise, int n, double sampled_us)
{
    fb_report *a = noisy(0, n, 100, 0), *b = noisy(5, n, us, noise);
    for (int i = 0; i < n; i++) b->rounds[i].device_us = 50;
    bool settled = fb_compare_settled(a, b, sampled_us);
    fb_report_free(a);
    fb_report_free(b);
    return settled;
}

/* Sampling goes on until the wall's verdict is there, and the device's, but never beyond five seconds. */
static void sampling_ends_when_it_is_settled_or_long_enough(void **state)
{
    (void)state;
    assert_false(is_settled(50, 0, FB_PAIRS_LEAST - 1, 1e5)); /* by summaries alone */
    assert_true(is_settled(50, 0, 20, 1e5));
    assert_true(is_settled(100, 0.001, 60, 1e5)); /* the same */
    assert_false(is_settled(100, 0.5, 60, 1e5));
    assert_false(is_settled(100, 0.5, 60, 4.9e6));
    assert_true(is_settled(100, 0.5, 60, 5e6));
    fb_report *a = noisy(0, 20, 100, 0), *b = noisy(5, 20, 50, 0);
    for (int i = 0; i < 20; i++) b->rounds[i].device_us = i % 2 ? 250 : 40;
    assert_false(fb_compare_settled(a, b, 1e5)); /* of the device nothing is known yet */
    b->device_us.n = 0;
    assert_true(fb_compare_settled(a, b, 1e5)); /* nor will be */
    b->device_us.n = 20;
    b->device = "cuda:0";
    assert_true(fb_compare_settled(a, b, 1e5)); /* what cannot be compared waits for nothing */
    fb_report_free(a);
    fb_report_free(b);
    a = noisy(0, FB_PAIRS_LEAST - 1, 100, 0), b = noisy(5, FB_PAIRS_LEAST - 1, 50, 0.5);
    a->computes = "2 out of 80", b->computes = "2 out of 81";
    assert_false(fb_compare_settled(a, b, 1e5)); /* which is done first may be asked of any two */
    fb_report_free(a);
    fb_report_free(b);
    a = measured(0, 20, 0.03), b = measured(5, 20, 0.04);
    assert_int_equal(fb_compare_reports(a, b, FB_TIME_WALL).what, FB_CANNOT_TELL);
    assert_true(fb_compare_settled(a, b, 1e5)); /* the clock's steps stay as they are */
    fb_report_free(a);
    fb_report_free(b);
}

/* What came out tells computations apart whose results have one size; of other sources it says nothing. */
static void computations_are_told_apart(void **state)
{
    (void)state;
    const char *plain = "2 out of 80 = 00000000000000aa 40:100:3:4:-5 40:9:0.5:1:2";
    assert_true(fb_computes_alike(plain, plain));
    assert_true(fb_computes_alike(plain, "2 out of 80"));
    assert_true(fb_computes_alike("2 out of 80", plain));
    assert_false(fb_computes_alike(plain, "2 out of 81"));
    assert_false(fb_computes_alike("2 out of 8", plain));
    assert_true(fb_computes_alike(plain, "2 out of 80 = 00000000000000aa 40:9.1:0.52:1:2 40:101:3.1:4.1:-5.1"));
    assert_false(
        fb_computes_alike(plain, "2 out of 80 = 00000000000000aa 40:100:3:4:5 40:9:0.5:1:2")); /* placed otherwise */
    assert_false(
        fb_computes_alike(plain, "2 out of 80 = 00000000000000aa 40:100:30:4:-5 40:9:0.5:1:2")); /* all positive */
    assert_false(fb_computes_alike(plain, "2 out of 80 = 00000000000000aa 40:50:3:4:-5 40:9:0.5:1:2"));
    assert_false(fb_computes_alike(plain, "2 out of 80 = 00000000000000aa 40:100:3:4:-5 40:100:3:4:-5"));
    assert_true(fb_computes_alike(plain, "2 out of 80 = 00000000000000ab 40:50:30:4:5 40:9:0.5:1:2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_columns_are_not_called_different),
        cmocka_unit_test(steps_of_a_clock_are_no_difference),
        cmocka_unit_test(no_noise_is_a_difference),
        cmocka_unit_test(what_stays_with_a_column_is_held_back),
        cmocka_unit_test(two_percent_are_found),
        cmocka_unit_test(two_percent_are_found_where_levels_last),
        cmocka_unit_test(what_no_test_can_find_is_known),
        cmocka_unit_test(the_pairs_asked_for_follow_the_noise),
        cmocka_unit_test(ratios_are_told),
        cmocka_unit_test(the_same_is_said_when_it_is_known),
        cmocka_unit_test(a_summary_has_the_interval_of_its_median),
        cmocka_unit_test(overlapping_runs_do_not_hide_a_difference),
        cmocka_unit_test(few_rounds_call_nothing_different),
        cmocka_unit_test(few_rounds_tell_what_does_not_overlap),
        cmocka_unit_test(rounds_in_turns_are_paired),
        cmocka_unit_test(a_frameworks_rounds_are_paired),
        cmocka_unit_test(rounds_are_what_counts_at_other_times),
        cmocka_unit_test(a_prediction_decides_little),
        cmocka_unit_test(computations_are_told_apart),
        cmocka_unit_test(sampling_ends_when_it_is_settled_or_long_enough),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
