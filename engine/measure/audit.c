/* Kernels from files: how short a time is too short, and inputs that they cannot know. */
#include "measure/audit.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const double much_too_short = 0.5;

bool fb_audit_has_files(const fb_program *p)
{
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].file) return true;
    return false;
}

/* Bytes that file kernels touch in one run, and the time of it. */
static double sum_of_files(const fb_program *p, const fb_machine *m, double *us)
{
    double times = 1, bytes = 0, count[FB_MAX_REPEATS];
    int depth = 0;
    *us = 0;
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->kind == FB_LAUNCH_REPEAT) {
            count[depth++] = times;
            times *= (double)l->count;
        } else if (l->kind == FB_LAUNCH_END) {
            times = count[--depth];
        } else if (l->kind == FB_LAUNCH_KERNEL && p->kernels[l->kernel].file) {
            const fb_group_cost *c = &p->kernels[l->kernel].cost;
            double each = (double)(c->bytes_read + c->bytes_written);
            bytes += times * each;
            *us += times * fb_memory_filled_us(m, each);
        }
    }
    return bytes;
}

double fb_files_floor_us(const fb_program *p, const fb_machine *m)
{
    double us;
    if (!m->calibrated || m->doubted) return 0;
    sum_of_files(p, m, &us);
    return us;
}

bool fb_files_left_out_work(const fb_program *p, const fb_machine *m, double wall_us, char why[160])
{
    double floor = fb_files_floor_us(p, m), unused;
    char took[32], moved[32], least[32];
    if (!(wall_us < much_too_short * floor)) return false;
    snprintf(
        why, 160,
        "a run took %s, but its kernels from files touch %s, which takes %s at this device's best: work was left out",
        fb_format_us(took, wall_us), fb_format_bytes(moved, sum_of_files(p, m, &unused)), fb_format_us(least, floor));
    return true;
}

uint64_t fb_seed_unseen(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = fb_splitmix64((uint64_t)fb_now_us() ^ (uint64_t)getpid() << 32);
    return seed;
}
