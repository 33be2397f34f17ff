/* What a measured or recalled time is, and where a figure comes from. Values only; measure/stat.c computes them. */
#ifndef FB_BASE_FIGURE_H
#define FB_BASE_FIGURE_H

#include <stdbool.h>

/* µs */
typedef struct {
    double median, p10, p90;
    int n; /* 0: not measured */
} fb_stat;

/* One request for hot samples: a block of runs taken at once, between those of other columns. */
typedef struct {
    double at_us;              /* when it began, by the measuring machine's clock */
    double wall_us, device_us; /* the median of its runs; of the one that was traced, NAN when none was */
} fb_round;

enum { FB_ROUNDS = 128 };
#define FB_ROUNDS_APART_US 30e6 /* what lies further apart was not taken in turns */

/* The latest ones, in order of time. */
typedef struct {
    int n;
    fb_round at[FB_ROUNDS];
} fb_rounds;

/* What a machine was like when a sample was taken; NAN where it does not tell. */
typedef struct {
    double sm_mhz, most_sm_mhz, memory_mhz, watts, celsius; /* of a GPU; most: as fast as it can clock */
    double steal, load; /* of a host: the share of its processors' time that others took since it was asked before; how
                           many processes want to run */
    bool slowed;        /* by heat or by its hardware: its times are no figures of the kernels' */
    bool capped;        /* at its limit of power, which is what this load has always */
} fb_machine_state;

typedef enum {
    FB_SOURCE_MEASURED,  /* here and now */
    FB_SOURCE_RECORDED,  /* as it stands, on the machine of a recording */
    FB_SOURCE_COMPOSED,  /* of recorded kernels and the recorded machine's launch cost */
    FB_SOURCE_PREDICTED, /* some of it by the cost model, for the machine of a recording */
} fb_figure_source;

#endif
