/* Kernels from files: a time that is too short to have held the work is refused, and only then. */
#include "measure/audit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* 100 GB/s at whatever size; a file's kernel of 1 MB, run `times` times in a loop beside a generated one of 1 GB. */
typedef struct {
    fb_machine machine;
    fb_kernel kernels[2];
    fb_launch launches[4];
    fb_program program;
} rig;

static void make(rig *r, int times)
{
    memset(r, 0, sizeof *r);
    r->machine = (fb_machine){.target = &fb_target_c, .calibrated = true, .cache_bytes = 1 << 25};
    r->machine.copy_hot = r->machine.copy_cold = (fb_rate_curve){2, {1e3, 1e10}, {100, 100}};
    r->kernels[0] =
        (fb_kernel){.name = "own", .file = "own.c", .cost = {.bytes_read = 600000, .bytes_written = 400000}};
    r->kernels[1] = (fb_kernel){.name = "generated", .cost = {.bytes_read = 1000000000}};
    r->launches[0] = (fb_launch){.kind = FB_LAUNCH_REPEAT, .count = times};
    r->launches[1] = (fb_launch){.kind = FB_LAUNCH_KERNEL, .kernel = 0};
    r->launches[2] = (fb_launch){.kind = FB_LAUNCH_END};
    r->launches[3] = (fb_launch){.kind = FB_LAUNCH_KERNEL, .kernel = 1};
    r->program = (fb_program){.n_kernels = 2, .kernels = r->kernels, .n_launches = 4, .launches = r->launches};
}

static void the_floor_counts_what_files_touch(void **state)
{
    (void)state;
    rig r;
    make(&r, 7);
    assert_true(fb_audit_has_files(&r.program));
    assert_true(fabs(fb_files_floor_us(&r.program, &r.machine) - 70) < 1e-6);
    r.kernels[0].file = NULL;
    assert_false(fb_audit_has_files(&r.program));
    assert_true(fb_files_floor_us(&r.program, &r.machine) == 0);
}

static void what_is_too_short_is_refused(void **state)
{
    (void)state;
    rig r;
    char why[160] = "";
    make(&r, 3);
    assert_true(fb_files_left_out_work(&r.program, &r.machine, 1.5, why));
    assert_string_equal(
        why, "a run took 1.5 µs, but its kernels from files touch 3.0 MB, which takes 30.0 µs at this device's "
             "best: work was left out");
    assert_false(fb_files_left_out_work(&r.program, &r.machine, 16, why));
}

static void what_was_not_calibrated_refuses_nothing(void **state)
{
    (void)state;
    rig r;
    char why[160];
    make(&r, 3);
    r.machine.doubted = true;
    assert_false(fb_files_left_out_work(&r.program, &r.machine, 0.1, why));
    r.machine.doubted = r.machine.calibrated = false;
    assert_false(fb_files_left_out_work(&r.program, &r.machine, 0.1, why));
}

static void seeds_differ(void **state)
{
    (void)state;
    assert_int_not_equal(fb_seed_unseen(), fb_seed_unseen());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_floor_counts_what_files_touch),
        cmocka_unit_test(what_is_too_short_is_refused),
        cmocka_unit_test(what_was_not_calibrated_refuses_nothing),
        cmocka_unit_test(seeds_differ),
    };
    return cmocka_run_group_tests_name("audit", tests, NULL, NULL);
}
