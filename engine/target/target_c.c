/* C for the host: functions whose loops the compiler vectorises and a team of cores shares. */
#include "target/target.h"

static const char *spelling_of(const fb_op_info *op)
{
    return op->c;
}

const fb_target fb_target_c = {
    .kind = FB_DEVICE_HOST,
    .language = FB_LANGUAGE_C,
    .device = "host",
    .name = "c",
    .title = "C",
    .ending = "c",
    .called = "the host",
    .units = "cores",
    .prelude = "kernels/prelude.h",
    .near = {"a core keeps", "at hand"},
    .warp = 1,
    .calls_library = true,
    .generates = true,
    .stands_in = true,
    .spelling = {.type = fb_c_types,
                 .index_type = "int64_t",
                 .infinity = "INFINITY",
                 .nan = "NAN",
                 .whole = "fb_whole",
                 .product = "fb_product$f($0, $1)",
                 .loads_ahead = true,
                 .own_math = true,
                 .op = spelling_of},
};
