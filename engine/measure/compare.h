/* Is B faster than A? From samples taken in turns, or from what a recording keeps of them; never from the spread of
 * single runs, which says how much one run differs from the next and not how well their median is known.
 *
 * Pairs: round i of A and round i of B were taken one after the other, in an order that a coin chose, so that drift of
 * clocks hits both alike. Their interval holds at whatever moment it is shown (measure/pairs.h): of 1,000 comparisons
 * of equal columns one may be called different, at any of its looks.
 *
 * Of rounds in turns nothing else is asked: until there are enough of them it cannot be told yet.
 *
 * Summaries (median, p10, p90, n), of what was not measured in turns: the deviation of a median of n is 1.2533 σ / √n,
 * σ = (p90 − p10) / 2.5631 (normal quantiles; McGill, Tukey and Larsen 1978 do the same with quartiles). Samples of one
 * turn are alike, so that n counts half; where rounds are known, the deviation is no less than theirs, each for one: a
 * thousand runs in four rounds say as much as four where it is rounds that differ. The quantile is Student's t for
 * n − 1, at the same α; and 0.5 % is added for what a summary does not tell (order, place of buffers).
 *
 * Clocks step: by 10 ns on virtual machines, and those that GPUs note the times of kernels by, by 32. A short time is
 * one of two neighbours, so that each of two medians may be a step off however often it was taken, unless their noise
 * is larger than a step: either interval's half is the root of its square and that of both steps.
 *
 * A composed time is believed as far as the spread that it carries, which is that of models, and no further than 10 %; a
 * predicted one to 25 %: a comparison of models with anything knows no better.
 * Pure: asks no device, owns nothing. */
#ifndef FB_MEASURE_COMPARE_H
#define FB_MEASURE_COMPARE_H

#include "measure/pairs.h"
#include "measure/reference.h"
#include "measure/report.h"

typedef enum { FB_CANNOT_TELL, FB_SAME, FB_FASTER, FB_SLOWER } fb_difference; /* of B, seen from A */
typedef enum { FB_TIME_WALL, FB_TIME_DEVICE } fb_time; /* a claim about kernels needs the device's alone */

typedef struct {
    fb_difference what;
    double times;     /* how many times as fast as A, B is; NAN when one has no time */
    double low, high; /* … the interval of that; 0 and INFINITY when nothing is known yet */
    double least;     /* the part of its half width, relative, that no further sample makes smaller */
    int pairs;        /* 0: compared by summaries; of fewer than FB_PAIRS_LEAST mostly nothing is known yet */
} fb_comparison;

/* Times of A and B in turns, in µs, all above 0; `a_first`: of which pairs A's was the first, NULL: not known, and only
 * coins are asked. "Same" is an interval within 2 % of 1. */
fb_comparison fb_compare_pairs(const double *a, const double *b, const bool *a_first, int n, fb_time of);
fb_comparison fb_compare_stats(const fb_stat *a, const fb_stat *b); /* of wall times */
/* By pairs where the rounds of both were taken in turns on one machine, now or for a recording, a framework's too, else
 * by summaries. */
fb_comparison fb_compare_reports(const fb_report *a, const fb_report *b, fb_time of);

/* Is there nothing more to learn by sampling on? Both columns' wall times are told apart or the same, and their
 * devices' where these are known; or the interval is as narrow as the clock lets it be; or `sampled_us` of sampling
 * both have been spent, and this machine resolves no more; or they run on two devices, whose times nobody compares. */
bool fb_compare_settled(const fb_report *a, const fb_report *b, double sampled_us);

/* What leaves a graph, in a few words: how many outputs and updated parameters of how many elements; equal for two ways
 * of writing the same computation, in any precision. Arena-owned. */
const char *fb_computes_of(const fb_graph *g, fb_arena *arena);
/* The same and, behind " = ", what came out of the usual inputs, as the reference has it: which sources the graph has
 * and, for each tensor, a few sums of its first elements. Two of them tell ways of writing one computation from
 * different ones where their sources are the same ones; with others (or draws) nothing is known of it. */
const char *fb_computes_found(const fb_graph *g, const fb_reference *r, fb_arena *arena);
bool fb_computes_alike(const char *a, const char *b); /* as far as is known of both */
/* What must be the same for a ratio: as a report has it, each NULL where it is not known; values: NULL is noise. */
typedef struct {
    const char *device, *computes, *values;
} fb_compared;
/* Why a ratio of their times says nothing: "another device", "another computation", "of other values"; NULL: it may be
 * told. What is not known of one of them is no reason. */
const char *fb_not_comparable(fb_compared a, fb_compared b);
#define FB_COMPARED(R) ((fb_compared){(R)->device, (R)->computes, (R)->values}) /* of a report, or a column */

/* Half the width of the interval of a median, relative to it; NAN: nothing is known of it. Of a report's: by its rounds
 * too. */
double fb_stat_half(const fb_stat *s, fb_figure_source source);
double fb_report_half(const fb_report *r, fb_time of);

bool fb_differs(const fb_comparison *c);            /* faster or slower */
const char *fb_difference_name(fb_difference what); /* "cannot tell", "same", "faster", "slower" */
const char *fb_comparison_time_name(fb_time of);    /* "wall", "device" */
/* How many times as fast: "3.90 ×", and below 1 the other way round, "1.25× slower". Into `to`, returned. */
const char *fb_ratio_say(double times, char to[32]);
/* Where there is little room: "3.90 ×", "1/1.25 ×". */
const char *fb_ratio_brief(double times, char to[32]);
/* "faster: 3.90 ×", "1.25× slower", "the same within 1.2 %", "cannot tell: less than 14 % is not seen on this
 * machine" (by summaries without the machine), "cannot tell yet: 9 of 14 rounds". Into `to`, returned. */
const char *fb_comparison_say(const fb_comparison *c, char to[64]);
double fb_comparison_resolves(const fb_comparison *c); /* the smallest relative difference that would be seen */

#endif
