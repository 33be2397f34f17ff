/* CUDA C for NVIDIA's GPUs. */
#include "target/target.h"

#include <stddef.h>

static const char *spelling_of(const fb_op_info *op)
{
    return op->cuda;
}

/* The barrier is that of one H200, and the other types' arithmetic is from the data sheet's ratios to float. */
static const char *const never_measured[] = {"barrier_us", "gflops.f64",  "gflops.i32",
                                             "gflops.i64", "gflops.bool", NULL};

const fb_target fb_target_cuda = {
    .kind = FB_DEVICE_CUDA,
    .language = FB_LANGUAGE_CUDA,
    .device = "cuda",
    .name = "cuda",
    .title = "CUDA",
    .ending = "cu",
    .called = "a GPU",
    .units = "multiprocessors",
    .prelude = "kernels/prelude.cuh",
    .near = {"a block has", "there"},
    .grid = true,
    .warp = 32,
    .most_threads = 1024,
    .vector_bytes = 16,
    .tiles = true,
    .keeps = true,
    .streams = true,
    .clusters = true,
    .library_epilogues = true,
    .grid_barrier = true,
    .graphs = true,
    .copy_engines = true,
    .counters = true,
    .assembles = true,
    .never_measured = never_measured,
    .generates = true,
    .accelerates = true,
    .spelling = {.type = fb_c_types,
                 .index_type = "fb_at",
                 .infinity = "INFINITY",
                 .nan = "NAN",
                 .picks = true,
                 .op = spelling_of},
};
