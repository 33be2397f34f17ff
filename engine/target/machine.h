/* What planning knows about a device: plain values handed down from calibration. No device is asked anything here.
 * Units: bytes, µs, GB/s (1e9 bytes a second), GFLOP/s. A value that is not known is NAN (or 0 for counts). */
#ifndef FB_TARGET_MACHINE_H
#define FB_TARGET_MACHINE_H

#include "base/error.h"
#include "graph/op.h"
#include "target/target.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { FB_RATE_POINTS = 16 };

/* A measured rate against size, ascending; in between linear in log(size), constant beyond the ends. */
typedef struct {
    int n;
    double size[FB_RATE_POINTS], rate[FB_RATE_POINTS];
} fb_rate_curve;

typedef struct {
    const fb_target *target; /* what kernels for it are written in, and what it can do */
    char name[96];           /* "AMD EPYC 9B45 (2 cores)", "NVIDIA H200" */
    bool calibrated;         /* false: the numbers are the built-in guesses and the screen says "uncalibrated" */
    bool doubted;            /* calibrated while the machine was busy, or something ran faster since than that allows */
    bool links_guessed; /* calibrated, but for copies between the program and the device: before they were measured */
    bool products_guessed;             /* … but for products: there was no library */
    char date[32];                     /* of calibration, ISO 8601; "" unknown */
    int units;                         /* cores or multiprocessors */
    int compute_major, compute_minor;  /* CUDA */
    int64_t memory_bytes, cache_bytes; /* device memory; last-level cache (L2 on a GPU) */
    int64_t shared_bytes;              /* largest shared memory of one block; on the host the L2 of one core */
    int registers_per_unit, max_threads_per_unit;
    double launch_us;                  /* one more launch in a stream (host: call + parallel region) */
    double graph_launch_us;            /* one more kernel in a launched graph */
    double call_us;                    /* a library's call in a stream, beyond one launch; NAN: never measured */
    double sync_us;                    /* launch of an empty program and waiting for it, less one launch */
    double barrier_us;                 /* grid barrier */
    fb_rate_curve copy_hot, copy_cold; /* GB/s (read + written) against bytes moved */
    fb_rate_curve copy_in, copy_out;   /* GB/s between the program's memory and the device's, against bytes; waiting for
                                          the first byte is in it */
    fb_rate_curve gemm[FB_DTYPES];     /* GFLOP/s against FLOPs, per operand dtype */
    fb_rate_curve gemm_tf32;
    /* GFLOP/s of a library's convolution of floats against FLOPs, without what it copies on the way; empty: there is no
     * library for it, and windows are laid out for a product. */
    fb_rate_curve convolution;
    double gflops[FB_DTYPES]; /* pointwise arithmetic */
    double gspecial;          /* exponentials in 1e9 a second (target/special.h says what others are beside them) */
    /* Of the host alone, in 1e9 a second: elements of rows that are summed up, and such rows; elements that do not lie
     * side by side, that lie pages apart, and that do so and are turned by tiles. */
    double gsum, gsum_rows, ggather, gfar, gturn;
    /* … and sums side by side, per dtype of what is added to them: so many elements, in no more than so many steps, each
     * of which waits for the one before. */
    double glanes[FB_DTYPES], glane_steps;
    double gemm_in, gemm_out; /* … and GB/s at which a product takes operands and leaves its result */
} fb_machine;

/* The built-in guess for a kind before calibration. */
void fb_machine_default(fb_machine *m, fb_device_kind kind);
double fb_rate_at(const fb_rate_curve *c, double size); /* NAN when empty */
double fb_rate_peak(const fb_rate_curve *c);            /* of all sizes; NAN when empty */
/* Bytes at GB/s, FLOPs at GFLOP/s and the like; 0 where the rate is not known. */
double fb_time_us(double work, double giga_a_second);
/* Time to move that many bytes in one kernel: at the copy curve, the hot one where they fit the last-level cache. */
double fb_memory_us(const fb_machine *m, double bytes);
/* The same for a kernel among others that touch `all` bytes one after the other, again and again: they come from where
 * there is room for all of them. On the host alone, whose nearer caches hold little of what a program touches. */
double fb_memory_among_us(const fb_machine *m, double bytes, double all);
double fb_copy_in_us(const fb_machine *m, double bytes); /* a feed of that many bytes */
double fb_copy_out_us(const fb_machine *m, double bytes);
/* The same at the best rate that the curve reaches for as many bytes or more: what they would take as part of a kernel
 * large enough to fill the device. */
double fb_memory_filled_us(const fb_machine *m, double bytes);
/* Bytes that one kernel reads again on each core, every time after `between` bytes of others: from the nearest cache that
 * keeps as many. */
double fb_memory_again_us(const fb_machine *m, double bytes, double between);
/* A GPU's clock while it computes: from the rate of pointwise arithmetic and the lanes that a multiprocessor has for
 * it; 0: not known. */
double fb_cycles_a_us(const fb_machine *m);
/* Nobody measured this figure on this machine: all of an uncalibrated one, and of another what its calibration leaves
 * out. `key` is the figure's place in JSON: "launch_us", "copy_hot", "gemm.bf16", "gflops.f64". What a device says of
 * itself (units, bytes) is no such figure. In JSON "guessed" lists those that are known. */
bool fb_machine_guessed(const fb_machine *m, const char *key);
json_t *fb_machine_to_json(const fb_machine *m);
bool fb_machine_from_json(fb_machine *m, const json_t *value, fb_error *err);

#endif
