/* GPUs that people have and this project's figures are not from: what a schedule may use of them (NVIDIA's data sheets, and
 * the programming guide's table of compute capabilities). */
#ifndef TESTS_UNIT_GPUS_H
#define TESTS_UNIT_GPUS_H

#include "target/machine.h"

#include <stdio.h>

static const struct {
    const char *name, *arch;
    int major, minor, units, threads; /* threads: of a multiprocessor */
    int shared_kib, cache_mib, memory_gib;
} gpus[] = {
    {"Tesla T4", "sm_75", 7, 5, 40, 1024, 64, 4, 16},       {"A100", "sm_80", 8, 0, 108, 2048, 163, 40, 40},
    {"RTX 3050 laptop", "sm_86", 8, 6, 16, 1536, 99, 2, 4}, {"L4", "sm_89", 8, 9, 58, 1536, 99, 48, 24},
    {"B200", "sm_100", 10, 0, 148, 2048, 227, 126, 180},    {"RTX 5090", "sm_120", 12, 0, 170, 1536, 99, 96, 32},
};
enum { GPUS = sizeof gpus / sizeof *gpus };

static inline fb_machine gpu_machine(unsigned number)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    snprintf(m.name, sizeof m.name, "%s", gpus[number].name);
    m.compute_major = gpus[number].major;
    m.compute_minor = gpus[number].minor;
    m.units = gpus[number].units;
    m.max_threads_per_unit = gpus[number].threads;
    m.shared_bytes = (int64_t)gpus[number].shared_kib << 10;
    m.cache_bytes = (int64_t)gpus[number].cache_mib << 20;
    m.memory_bytes = (int64_t)gpus[number].memory_gib << 30;
    return m;
}

#endif
