/* The waterfall: hand-made reports whose causes are known, on a machine with round figures. */
#include "base/json.h"
#include "measure/why.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* 1 µs a launch and no wait; 1 GB/s (1000 bytes a µs) for 10 kB and more, half of that for 1 kB and less. */
static fb_machine plain_machine(void)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.launch_us = 1;
    m.graph_launch_us = 0.25;
    m.sync_us = 0;
    m.cache_bytes = 0;
    m.copy_cold = (fb_rate_curve){.n = 2, .size = {1e3, 1e4}, .rate = {0.5, 1}};
    return m;
}

static fb_stat about(double us)
{
    return (fb_stat){.median = us, .p10 = us * 0.99, .p90 = us * 1.01, .n = 20};
}

/* A column of our own: `n` kernels and a wall time; no gap is known unless it is set. */
static fb_report *column(double wall, int n)
{
    fb_report *r = fb_report_new();
    r->wall_us = about(wall);
    r->launches = n;
    r->launch_mode = "stream";
    r->plan_hash = "hash";
    r->error.ok = true;
    r->n_kernels = n;
    r->kernels = FB_NEW_ARRAY(r->arena, fb_kernel_report, n);
    for (int i = 0; i < n; i++) fb_kernel_report_clear(&r->kernels[i]);
    return r;
}

/* A kernel that only moves bytes, and takes as long as it was measured to. */
static fb_kernel_report *kernel(fb_report *r, int at, const char *name, double us, double bytes)
{
    const fb_machine m = plain_machine();
    fb_kernel_report *k = &r->kernels[at];
    k->name = name;
    k->family = "pointwise";
    k->count = 1;
    k->group = at;
    k->device_us = about(us);
    k->bytes_read = bytes;
    k->bytes_written = 0;
    k->predicted_us = fb_memory_us(&m, bytes);
    k->spill_bytes = 0;
    return k;
}

static void near(double is, double wanted)
{
    if (!(fabs(is - wanted) <= 1e-9 * (1 + fabs(wanted)))) fail_msg("%.12g instead of %.12g", is, wanted);
}

/* Explains, checks that the parts add up and that no figure is lost, and frees the reports. */
static fb_why explained(fb_report *a, fb_report *b)
{
    const fb_machine m = plain_machine();
    fb_why why;
    fb_error err = {0};
    if (!fb_why_of(a, b, &m, &m, &why, &err)) fail_msg("%s", err.text);
    double sum = 0;
    for (int id = 0; id < FB_WHY_PARTS; id++) {
        const fb_why_part *p = &why.part[id];
        sum += p->us;
        assert_true(*p->text);
        if (p->known)
            near(p->of[0] - p->of[1], p->us);
        else
            assert_true(p->us == 0);
    }
    near(sum, a->wall_us.median - b->wall_us.median);
    near(why.us, sum);
    fb_report_free(a);
    fb_report_free(b);
    return why;
}

static void says(const fb_why *why, fb_why_id id, const char *text)
{
    if (!strstr(why->part[id].text, text)) fail_msg("\"%s\" does not say \"%s\"", why->part[id].text, text);
}

/* The same bytes in four kernels and in one: what differs is the gap. */
static void more_launches(void **state)
{
    (void)state;
    fb_report *a = column(90, 4), *b = column(60, 1);
    for (int i = 0; i < 4; i++) kernel(a, i, "part", 10, 1e4);
    kernel(b, 0, "whole", 40, 4e4);
    a->gap_us = 50;
    b->gap_us = 20;
    fb_why why = explained(a, b);
    assert_int_equal(fb_why_largest(&why), FB_WHY_LAUNCHES);
    near(why.part[FB_WHY_LAUNCHES].us, 30);
    near(why.part[FB_WHY_BYTES].us, 0);
    near(why.part[FB_WHY_REST].us, 0);
    assert_true(why.part[FB_WHY_LAUNCHES].measured);
    says(&why, FB_WHY_LAUNCHES, "4 → 1 launches: 50.0 µs → 20.0 µs launching and waiting (measured)");
}

/* Where no gap was measured, launches cost what the calibration says; in a graph less. */
static void launches_without_a_gap(void **state)
{
    (void)state;
    fb_report *a = column(24, 4), *b = column(21, 4);
    for (int i = 0; i < 4; i++) kernel(a, i, "k", 5, 5e3), kernel(b, i, "k", 5, 5e3);
    b->launch_mode = "graph";
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_LAUNCHES].us, 3);
    assert_false(why.part[FB_WHY_LAUNCHES].measured);
    near(why.part[FB_WHY_REST].us, 0);
    assert_int_equal(fb_why_largest(&why), FB_WHY_LAUNCHES);
}

static void more_bytes(void **state)
{
    (void)state;
    fb_report *a = column(70, 2), *b = column(20, 1);
    kernel(a, 0, "stack", 50, 5e4);
    kernel(a, 1, "sum", 20, 2e4);
    kernel(b, 0, "sum", 20, 2e4);
    a->gap_us = b->gap_us = 0;
    fb_why why = explained(a, b);
    assert_int_equal(fb_why_largest(&why), FB_WHY_BYTES);
    near(why.part[FB_WHY_BYTES].us, 50);
    assert_int_equal(why.part[FB_WHY_BYTES].n_kernels, 1);
    assert_string_equal(why.part[FB_WHY_BYTES].kernel[0].name, "stack");
    near(why.part[FB_WHY_BYTES].kernel[0].us, 50);
    says(&why, FB_WHY_BYTES, "70.0 kB → 20.0 kB moved");
    says(&why, FB_WHY_BYTES, "(modelled); most of it in stack -50.0 µs");
}

/* What two kernels took one of another name takes now: most of the little that is left is in none of them. */
static void work_that_moved(void **state)
{
    (void)state;
    fb_report *a = column(82, 2), *b = column(72, 1);
    kernel(a, 0, "linear", 60, 6e4);
    kernel(a, 1, "relu", 22, 2.2e4);
    kernel(b, 0, "linear_relu", 72, 7.2e4);
    a->gap_us = b->gap_us = 0;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_BYTES].us, 10);
    says(&why, FB_WHY_BYTES, "; in linear -60.0 µs, relu -22.0 µs and the other way in linear_relu +72.0 µs");
}

/* Counters that see more than the distinct bytes are believed; those that see less saw a cache. */
static void measured_bytes(void **state)
{
    (void)state;
    fb_report *a = column(40, 1), *b = column(20, 1);
    fb_kernel_report *read_twice = kernel(a, 0, "k", 40, 2e4), *cached = kernel(b, 0, "k", 20, 2e4);
    a->gap_us = b->gap_us = 0;
    read_twice->measured_read = 3e4;
    read_twice->measured_written = 1e4;
    cached->measured_read = cached->measured_written = 0;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_BYTES].us, 20);
    assert_false(why.part[FB_WHY_BYTES].measured); /* not in both */
    fb_report *c = column(60, 2), *d = column(20, 1);
    kernel(c, 0, "k", 20, 2e4);
    kernel(c, 1, "l", 40, 2e4)->measured_read = 4e4;
    c->kernels[1].measured_written = 0;
    kernel(d, 0, "k", 20, 2e4);
    c->gap_us = d->gap_us = 0;
    why = explained(c, d);
    says(&why, FB_WHY_BYTES,
         "60.0 kB → 20.0 kB moved: 60.0 µs → 20.0 µs at the full copy rate (modelled or counted → modelled)");
}

/* As many bytes, but in small kernels: the full rate would take as long; the difference is in filling the device. */
static void small_kernels(void **state)
{
    (void)state;
    fb_report *a = column(20, 1), *b = column(10, 1);
    kernel(a, 0, "small", 20, 1e4)->count = 10;
    a->kernels[0].predicted_us = 20;
    kernel(b, 0, "large", 10, 1e4);
    a->gap_us = b->gap_us = 0;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_BYTES].us, 0);
    near(why.part[FB_WHY_OCCUPANCY].us, 10);
    near(why.part[FB_WHY_COMPUTE].us, 0);
    assert_int_equal(fb_why_largest(&why), FB_WHY_OCCUPANCY);
}

static void arithmetic(void **state)
{
    (void)state;
    fb_report *a = column(50, 1), *b = column(10, 1);
    kernel(a, 0, "exp", 50, 1e4)->predicted_us = 45;
    kernel(b, 0, "copy", 10, 1e4);
    a->gap_us = b->gap_us = 0;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_COMPUTE].us, 35);
    near(why.part[FB_WHY_REST].us, 5);
    assert_string_equal(why.part[FB_WHY_REST].kernel[0].name, "exp");
    assert_int_equal(fb_why_largest(&why), FB_WHY_COMPUTE);
}

static void spills_and_occupancy(void **state)
{
    (void)state;
    fb_report *a = column(100, 2), *b = column(20, 2);
    kernel(a, 0, "fat", 60, 1e4)->spill_bytes = 128;
    kernel(a, 1, "sparse", 40, 1e4)->occupancy = 0.1;
    kernel(b, 0, "fat", 10, 1e4);
    kernel(b, 1, "sparse", 10, 1e4)->occupancy = 0.5;
    a->gap_us = b->gap_us = 0;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_SPILLS].us, 50);
    near(why.part[FB_WHY_OCCUPANCY].us, 30);
    near(why.part[FB_WHY_REST].us, 0);
    assert_int_equal(fb_why_largest(&why), FB_WHY_SPILLS);
    says(&why, FB_WHY_SPILLS, "most of it in fat -50.0 µs");
}

/* A kernel that beats the copy curve is not given more time than it took. */
static void faster_than_the_model(void **state)
{
    (void)state;
    fb_report *a = column(30, 1), *b = column(6, 1);
    kernel(a, 0, "k", 30, 3e4);
    kernel(b, 0, "k", 6, 2e4);
    a->gap_us = b->gap_us = 0;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_BYTES].of[1], 6);
    near(why.part[FB_WHY_BYTES].us, 24);
    near(why.part[FB_WHY_REST].us, 0);
}

/* A framework's column: kernels with times and nothing else, no plan of ours. */
static fb_report *foreign(double wall, double gap, int n, double each)
{
    fb_report *r = column(wall, n);
    r->plan_hash = NULL;
    r->gap_us = gap;
    for (int i = 0; i < n; i++) {
        r->kernels[i].name = "at::native::kernel";
        r->kernels[i].count = 1;
        r->kernels[i].device_us = about(each);
    }
    return r;
}

static void dispatch_of_a_framework(void **state)
{
    (void)state;
    fb_report *b = column(12, 1);
    kernel(b, 0, "k", 10, 1e4);
    b->gap_us = 2;
    fb_why why = explained(foreign(300, 250, 36, 50.0 / 36), b);
    near(why.part[FB_WHY_DISPATCH].us, 214); /* the gap, less 36 launches of 1 µs */
    assert_true(why.part[FB_WHY_DISPATCH].measured);
    near(why.part[FB_WHY_LAUNCHES].us, 34);
    near(why.part[FB_WHY_REST].us, 40); /* what its kernels took and ours did not */
    assert_int_equal(fb_why_largest(&why), FB_WHY_DISPATCH);
    for (int id = FB_WHY_BYTES; id < FB_WHY_REST; id++) assert_false(why.part[id].known);
    says(&why, FB_WHY_BYTES, "not known of the first: it is in the rest");
    says(&why, FB_WHY_REST,
         "it is time inside kernels, of which these are not known: bytes, compute, occupancy, spills");

    why = explained(foreign(300, 250, 36, 1), foreign(100, 80, 20, 1));
    near(why.part[FB_WHY_DISPATCH].us, 214 - 60);
    near(why.part[FB_WHY_LAUNCHES].us, 16);
    near(why.part[FB_WHY_REST].us, 30);
    says(&why, FB_WHY_BYTES, "not known of either");
    assert_false(fb_why_matters(&why, FB_WHY_BYTES));
    assert_true(fb_why_matters(&why, FB_WHY_DISPATCH));

    /* Launched at once, a framework's kernels are most of the difference. */
    why = explained(foreign(140, 46, 36, 94.0 / 36), foreign(60, 15, 5, 9));
    assert_true(why.rest_in_kernels);
    char text[240];
    fb_why_conclusion(&why, text);
    assert_string_equal(text, "the largest part is inside the kernels: 49.0 µs, 61 % of the difference; then launches: "
                              "31.0 µs, 39 %");
}

/* A kernel that moves half and takes a tenth. */
static void most_of_it_is_not_explained(void **state)
{
    (void)state;
    fb_report *a = column(110, 1), *b = column(20, 1);
    kernel(a, 0, "k", 100, 2e4);
    kernel(b, 0, "k", 10, 1e4);
    fb_why why = explained(a, b);
    char text[240];
    fb_why_conclusion(&why, text);
    assert_int_equal(fb_why_largest(&why), FB_WHY_BYTES);
    assert_true(why.part[FB_WHY_REST].us > why.part[FB_WHY_BYTES].us);
    assert_string_equal(text, "80.0 µs, 89 % of the difference, is not explained; the largest part that is: bytes: "
                              "10.0 µs, 11 %");
}

/* Reports of nothing but wall times: all of it is rest, and said to be. */
static void nothing_known(void **state)
{
    (void)state;
    fb_report *a = column(50, 0), *b = column(10, 0);
    a->launches = b->launches = -1;
    a->plan_hash = b->plan_hash = NULL;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_REST].us, 40);
    for (int id = 0; id < FB_WHY_REST; id++) assert_false(why.part[id].known);
    assert_int_equal(fb_why_largest(&why), FB_WHY_NONE);
    char text[240];
    fb_why_conclusion(&why, text);
    assert_string_equal(text, "nothing that is known explains the difference");
}

/* The same kernels and copies, in order and beside each other; without a wait in either. */
static void hidden_copies(void **state)
{
    (void)state;
    fb_report *a = column(100, 1), *b = column(70, 1);
    fb_report *const both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        kernel(both[i], 0, "k", 60, 6e4);
        both[i]->copies = i ? "overlapped" : "in order";
        both[i]->copy_us = about(40);
        both[i]->copy_hidden_us = i ? 30 : 0;
        both[i]->gap_us = 0;
    }
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_COPIES].us, 30);
    near(why.part[FB_WHY_REST].us, 0);
    assert_true(why.part[FB_WHY_COPIES].measured);
    assert_int_equal(fb_why_largest(&why), FB_WHY_COPIES);
    says(&why, FB_WHY_COPIES, "40.0 µs → 10.0 µs of feeds and receives that no kernel ran beside (measured)");
}

/* The parts are there all the same. */
static void nothing_is_claimed_of_what_is_not_told_apart(void **state)
{
    (void)state;
    char text[240];
    for (int noisy = 0; noisy < 2; noisy++) {
        fb_report *a = column(20, 1), *b = column(20.1, 1);
        kernel(a, 0, "k", 20, 1e4);
        kernel(b, 0, "k", 20, 2e4);
        a->wall_us.p10 = a->wall_us.median;
        a->wall_us.p90 = noisy ? 2 * a->wall_us.median : a->wall_us.median;
        b->wall_us.p10 = b->wall_us.p90 = b->wall_us.median;
        fb_why why = explained(a, b);
        assert_true(why.tie);
        assert_int_equal(why.verdict[FB_TIME_WALL].what, noisy ? FB_CANNOT_TELL : FB_SAME);
        assert_int_equal(fb_why_largest(&why), FB_WHY_NONE);
        assert_true(fb_why_matters(&why, FB_WHY_BYTES));
        fb_why_conclusion(&why, text);
        assert_string_equal(text, noisy ? "it cannot be told whether they differ: the parts may be chance"
                                        : "the same: the parts make up for each other");
    }
}

/* The wall's noise hides what the kernels show: then it is their time that is explained, without launches. */
static void the_device_alone_differs(void **state)
{
    (void)state;
    const fb_machine m = plain_machine();
    fb_report *a = column(100, 1), *b = column(90, 1);
    fb_why why;
    fb_error err = {0};
    char text[160];
    kernel(a, 0, "k", 40, 4e4);
    kernel(b, 0, "k", 20, 2e4);
    a->wall_us.p90 = b->wall_us.p90 = 300;
    a->device_us = about(40);
    b->device_us = about(20);
    a->gap_us = 60;
    b->gap_us = 70;
    assert_true(fb_why_of(a, b, &m, &m, &why, &err));
    assert_int_equal(why.of, FB_TIME_DEVICE);
    assert_false(why.tie);
    near(why.us, 20);
    near(why.part[FB_WHY_BYTES].us, 20);
    near(why.part[FB_WHY_REST].us, 0);
    assert_false(fb_why_matters(&why, FB_WHY_LAUNCHES));
    assert_int_equal(fb_why_largest(&why), FB_WHY_BYTES);
    assert_non_null(strstr(fb_why_verdicts(&why, text), "wall: cannot tell"));
    assert_non_null(strstr(text, "device: faster: 2 ×"));
    assert_true(fb_why_of_time(a, b, &m, &m, FB_TIME_WALL, &why, &err));
    assert_true(why.tie && fb_why_matters(&why, FB_WHY_LAUNCHES));
    near(why.us, 10);
    b->device_us.n = 0;
    assert_false(fb_why_of_time(a, b, &m, &m, FB_TIME_DEVICE, &why, &err));
    assert_non_null(strstr(err.text, "second column's kernels were not timed"));
    fb_report_free(a);
    fb_report_free(b);
}

/* Across rows a sector is fetched for every element: bytes, not arithmetic. */
static void sectors_fetched_for_one_element_are_bytes(void **state)
{
    (void)state;
    fb_report *a = column(60, 1), *b = column(20, 1);
    fb_kernel_report *k = kernel(a, 0, "k", 60, 2e4);
    kernel(b, 0, "k", 20, 2e4);
    k->apart_bytes = 14e4;
    k->apart_us = 35;
    k->predicted_us += 35;
    a->gap_us = b->gap_us = 0;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_BYTES].us, 35);
    near(why.part[FB_WHY_COMPUTE].us, 0);
    says(&why, FB_WHY_BYTES, "and 140 kB → 0 B moved with them that nobody asked for");
}

/* What the model foresees of threads that registers leave no room for is no arithmetic. */
static void few_threads_are_no_arithmetic(void **state)
{
    (void)state;
    fb_report *a = column(60, 1), *b = column(20, 1);
    fb_kernel_report *k = kernel(a, 0, "k", 60, 2e4);
    kernel(b, 0, "k", 20, 2e4);
    k->few_us = 30;
    k->predicted_us += 30;
    k->occupancy = 0.1;
    a->gap_us = b->gap_us = 0;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_OCCUPANCY].us, 40);
    near(why.part[FB_WHY_COMPUTE].us, 0);
}

/* The second column is the slower one: the largest part is the one that made it so. */
static void the_other_way_round(void **state)
{
    (void)state;
    fb_report *a = column(20, 1), *b = column(70, 1);
    kernel(a, 0, "k", 20, 2e4);
    kernel(b, 0, "k", 60, 6e4);
    a->gap_us = 0;
    b->gap_us = 10;
    fb_why why = explained(a, b);
    near(why.part[FB_WHY_BYTES].us, -40);
    assert_int_equal(fb_why_largest(&why), FB_WHY_BYTES);
    says(&why, FB_WHY_BYTES, "k +40.0 µs");
}

/* A calibration that is doubted stands behind no time; what was counted stays. */
static void doubted_times_are_withdrawn(void **state)
{
    (void)state;
    fb_machine m = plain_machine();
    fb_report *a = column(100, 2), *b = column(40, 1);
    fb_why why;
    fb_error err = {0};
    kernel(a, 0, "k", 40, 40e3);
    kernel(a, 1, "l", 40, 40e3);
    kernel(b, 0, "k", 30, 30e3);
    m.doubted = true;
    assert_true(fb_why_of(a, b, &m, &m, &why, &err));
    assert_false(why.part[FB_WHY_BYTES].known || why.part[FB_WHY_COMPUTE].known || why.part[FB_WHY_OCCUPANCY].known);
    assert_false(why.part[FB_WHY_LAUNCHES].known);
    assert_true(fb_why_matters(&why, FB_WHY_BYTES) && fb_why_matters(&why, FB_WHY_LAUNCHES));
    says(&why, FB_WHY_BYTES, "80.0 kB → 30.0 kB moved (modelled → modelled)");
    says(&why, FB_WHY_LAUNCHES, "2 → 1 launches");
    near(why.part[FB_WHY_REST].us, 60);
    fb_report_free(a);
    fb_report_free(b);
}

static void columns_without_times(void **state)
{
    (void)state;
    const fb_machine m = plain_machine();
    fb_report *a = column(20, 0), *b = column(10, 0);
    fb_why why;
    fb_error err = {0};
    b->failed = "no compiler";
    b->failed_kind = FB_ERR_UNAVAILABLE;
    assert_false(fb_why_of(a, b, &m, &m, &why, &err));
    assert_string_equal(err.text, "the second column failed: no compiler");
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    assert_false(fb_why_of(b, a, &m, &m, &why, &err));
    b->failed = NULL;
    b->error = (fb_error_report){.ok = false, .bound = 7, .worst = "relu[3]: 1, expected 2"};
    assert_false(fb_why_of(a, b, &m, &m, &why, &err));
    assert_string_equal(err.text, "the second column's result is wrong: relu[3]: 1, expected 2");
    b->error = (fb_error_report){.bound = NAN}; /* composed of recorded kernels: nothing was checked */
    assert_true(fb_why_of(a, b, &m, &m, &why, &err));
    b->wall_us = (fb_stat){0};
    assert_false(fb_why_of(a, b, &m, &m, &why, &err));
    fb_report_free(a);
    fb_report_free(b);
}

/* Each bar begins where the one before ended, and the last ends at the second column's wall time. */
static void bars_fall(void **state)
{
    (void)state;
    fb_report *a = column(100, 1), *b = column(20, 1);
    kernel(a, 0, "k", 60, 6e4);
    kernel(b, 0, "k", 10, 1e4);
    a->gap_us = 40;
    b->gap_us = 10;
    fb_why why = explained(a, b);
    fb_why_span launches = fb_why_bar(&why, FB_WHY_LAUNCHES, 50), bytes = fb_why_bar(&why, FB_WHY_BYTES, 50);
    assert_int_equal(fb_why_wall_bar(&why, 0, 50).n, 50);
    assert_int_equal(launches.from, 35);
    assert_int_equal(launches.n, 15);
    assert_int_equal(bytes.from, 10);
    assert_int_equal(bytes.n, 25);
    assert_int_equal(fb_why_wall_bar(&why, 1, 50).n, 10);
    assert_int_equal(fb_why_bar(&why, FB_WHY_SPILLS, 50).n, 0);
    for (int id = 0; id < FB_WHY_PARTS; id++)
        for (int width = 1; width < 9; width++) {
            fb_why_span s = fb_why_bar(&why, (fb_why_id)id, width);
            assert_true(s.from >= 0 && s.from + s.n <= width && (s.n > 0) == (why.part[id].us != 0));
        }
}

/* Kernels that took longer, timed one by one, than whole runs: launches do not cost nothing, they cannot be told. */
static void busy_above_wall(void **state)
{
    (void)state;
    fb_report *a = column(90, 4), *b = column(39, 1);
    for (int i = 0; i < 4; i++) kernel(a, i, "part", 10, 1e4);
    kernel(b, 0, "whole", 40, 4e4);
    a->device_us = b->device_us = about(40);
    a->gap_us = fb_report_gap(a);
    near(a->gap_us, 50);
    b->gap_us = 0; /* as older makes wrote */
    fb_why why = explained(a, b);
    assert_false(why.part[FB_WHY_LAUNCHES].known);
    assert_true(fb_why_matters(&why, FB_WHY_LAUNCHES));
    near(why.part[FB_WHY_REST].us, 51);
    says(&why, FB_WHY_LAUNCHES,
         "50.0 µs launching and waiting in the first column, cannot be told of the second, whose kernels, timed one by "
         "one, took longer than whole runs: it is in the rest");
    says(&why, FB_WHY_REST, "it holds what is not known: launches");
    fb_report *r = column(39, 1);
    r->device_us = about(40);
    assert_true(fb_report_busy_above_wall(r) && isnan(fb_report_gap(r)));
    fb_report_free(r);
}

static void as_json(void **state)
{
    (void)state;
    fb_report *b = column(12, 1);
    kernel(b, 0, "k", 10, 1e4);
    b->gap_us = 2;
    fb_why why = explained(foreign(300, 250, 36, 50.0 / 36), b);
    json_t *j = fb_why_to_json(&why), *sizes = json_object_get(j, "parts");
    near(fb_json_number_or(sizes, "dispatch", NAN), 214);
    near(fb_json_number_or(sizes, "rest", NAN), 40);
    assert_null(json_object_get(sizes, "bytes"));
    assert_string_equal(fb_json_string_or(j, "largest", ""), "dispatch");
    json_t *launches = json_object_get(json_object_get(j, "details"), "launches");
    assert_string_equal(fb_json_string_or(launches, "basis", ""), "modelled → measured");
    near(fb_json_number_or(j, "us", NAN), 288);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_launches),
        cmocka_unit_test(launches_without_a_gap),
        cmocka_unit_test(busy_above_wall),
        cmocka_unit_test(more_bytes),
        cmocka_unit_test(work_that_moved),
        cmocka_unit_test(measured_bytes),
        cmocka_unit_test(small_kernels),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(spills_and_occupancy),
        cmocka_unit_test(faster_than_the_model),
        cmocka_unit_test(dispatch_of_a_framework),
        cmocka_unit_test(most_of_it_is_not_explained),
        cmocka_unit_test(nothing_known),
        cmocka_unit_test(hidden_copies),
        cmocka_unit_test(nothing_is_claimed_of_what_is_not_told_apart),
        cmocka_unit_test(the_device_alone_differs),
        cmocka_unit_test(sectors_fetched_for_one_element_are_bytes),
        cmocka_unit_test(few_threads_are_no_arithmetic),
        cmocka_unit_test(the_other_way_round),
        cmocka_unit_test(doubted_times_are_withdrawn),
        cmocka_unit_test(columns_without_times),
        cmocka_unit_test(bars_fall),
        cmocka_unit_test(as_json),
    };
    return cmocka_run_group_tests_name("why", tests, NULL, NULL);
}
