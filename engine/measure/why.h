/* Why is B faster than A? The difference of two columns' times, split into parts that add up to it.
 *
 * Wall time and the device's own time have a verdict each (measure/compare.h). The parts are of the wall time, unless
 * the device's differs and that of the wall cannot be told: then they are of what the kernels take, which knows no
 * dispatch, launches or copies. Each column's time is split by itself; a part is A's share less B's, in µs: above 0
 * where B gained. The rule:
 *
 *   dispatch   foreign devices alone: the gap (wall time in which no kernel ran) beyond what the launches cost by our
 *              calibration. Our own launches come from a ready list, so all of our gap is launching.
 *   launches   our devices: the gap. Where no kernel was timed: launches × the calibrated cost of one, and one wait.
 *              Where kernels, timed one by one, took longer than whole runs there is no gap: neither can be told.
 *   copies     feeds and receives, as far as no kernel ran beside them.
 *   bytes      each kernel's bytes at the best rate the copy curve reaches from that size on. So equal traffic gives
 *              no difference, in however many kernels it is moved. Counters of memory see only what misses the cache:
 *              they are taken where they tell of more than the modelled distinct bytes (something is read again).
 *   occupancy  what the copy curve asks beyond that because the kernel is small; and what a kernel took beyond its
 *              bytes and arithmetic when it keeps less than a quarter of the device's threads resident.
 *   compute    what the cost model predicts beyond the bytes: FLOPs, special functions, contractions at their rates.
 *   spills     what a kernel that spills registers took beyond its bytes and arithmetic.
 *   rest       whatever remains: what the model does not explain, and what is not known.
 *
 * No kernel is given more than it was measured to take: bytes come first, then occupancy by size, then compute. What
 * one of the two columns does not know is no part (a difference against an unknown says nothing): it stays in the rest,
 * and the rest's sentence says so. Pure: asks no device, prints nothing, owns nothing. */
#ifndef FB_MEASURE_WHY_H
#define FB_MEASURE_WHY_H

#include "measure/compare.h"
#include "measure/report.h"

typedef enum {
    FB_WHY_DISPATCH,
    FB_WHY_LAUNCHES,
    FB_WHY_COPIES,
    FB_WHY_BYTES,
    FB_WHY_COMPUTE,
    FB_WHY_OCCUPANCY,
    FB_WHY_SPILLS,
    FB_WHY_REST,
    FB_WHY_PARTS,
    FB_WHY_NONE = -1,
} fb_why_id;

enum { FB_WHY_KERNELS = 3 };

typedef struct {
    char name[64];
    double us;
} fb_why_kernel;

typedef struct {
    bool known;
    bool amounts;         /* its time is not known, but its text tells bytes or launches: a calibration is doubted */
    bool measured;        /* else modelled, at least in one of the columns */
    double us;            /* of[0] − of[1]; 0 when not known */
    double of[2];         /* µs in A and in B; NAN where not known */
    const char *basis[2]; /* how each is known: "measured", "recorded", "composed", "predicted", else "modelled": from
                             access maps and the device's rates; "modelled or counted": bytes that counters saw more
                             of, in some kernels */
    int n_kernels;        /* those that contribute most in the part's direction */
    fb_why_kernel kernel[FB_WHY_KERNELS];
    /* The one that goes furthest the other way, as what took over their work does; us 0: it is small beside the part. */
    fb_why_kernel against;
    char text[400]; /* one sentence */
} fb_why_part;

typedef struct {
    fb_time of;               /* which time the parts add up to */
    fb_comparison verdict[2]; /* of the wall time and of the device's, by fb_time */
    const char *incomparable; /* why neither is told as a ratio: "another device" (measure/compare.h); NULL: they are */
    double us, a_us, b_us;    /* A − B: above 0 when B is faster; the medians */
    bool tie;                 /* the same, or it cannot be told: the parts are differences of medians, no causes */
    fb_figure_source source;  /* of the times: the less certain of the two */
    fb_figure_source from[2]; /* of each */
    bool rest_in_kernels;     /* the rest is time of kernels of which, in one column at least, only the time is known */
    fb_why_part part[FB_WHY_PARTS];
} fb_why;

/* The machines are those that the columns ran on; for a foreign device, which does not calibrate, that of the hardware
 * below it. False when one of the columns failed or has no wall time. */
bool fb_why_of(const fb_report *a, const fb_report *b, const fb_machine *ma, const fb_machine *mb, fb_why *out,
               fb_error *err);
/* … of the time that is named. */
bool fb_why_of_time(const fb_report *a, const fb_report *b, const fb_machine *ma, const fb_machine *mb, fb_time of,
                    fb_why *out, fb_error *err);
/* The part, other than the rest, that goes furthest in the direction of the difference; FB_WHY_NONE when it is a tie or
 * no part goes there. */
fb_why_id fb_why_largest(const fb_why *why);

bool fb_why_matters(const fb_why *why,
                    fb_why_id id); /* false: nothing, or not known in both columns and nothing to tell */
/* Known, and less than half a percent of what there is to explain. */
bool fb_why_alike(const fb_why *why, fb_why_id id);
const char *fb_why_name(fb_why_id id);                   /* "bytes": the key that scripts see */
void fb_why_conclusion(const fb_why *why, char to[240]); /* what it comes to, in one sentence */
/* Both verdicts, or why there is no ratio: "wall: cannot tell: less than 14 % is not seen; device: faster: 3.9 ×"; "
 * (run against run)" where each run of one was held against one of the other, so that the ratio is not that of the
 * medians. Into `to`, returned.
 */
const char *fb_why_verdicts(const fb_why *why, char to[160]);
/* How the time of a part is known: as the walls are, or by the model alone. The rest is of the walls. */
fb_figure_source fb_why_part_source(const fb_why *why, fb_why_id id);
/* Where the wall times come from: "" when both were measured, else "recorded", or "recorded → measured". */
const char *fb_why_sources(const fb_why *why, char to[32]);

/* Which part of the difference it is: whole, and never -0. */
double fb_why_percent(const fb_why *why, fb_why_id id);

/* Where a part's bar stands in a waterfall `width` cells wide that falls from A's wall time to B's: the first cell and
 * how many. Something that is not 0 has a cell. */
typedef struct {
    int from, n;
} fb_why_span;
fb_why_span fb_why_bar(const fb_why *why, fb_why_id id, int width);
/* The bar of A's (0) or B's (1) time, on the same scale. */
fb_why_span fb_why_wall_bar(const fb_why *why, int which, int width);

/* {"parts": {"bytes": µs, …}, "us": …, "a_us": …, "b_us": …, "tie": …, "source": …, "largest": …, "conclusion": …,
 * "of": "wall" or "device", "incomparable": "another device", or else "verdicts": {"wall": {"is": "faster", "times",
 * "low", "high", "pairs", "text"}, "device": …}, "details": {"bytes": {"a_us", "b_us", "basis", "text", "kernels":
 * [{"name","us"}]}}}; parts that are not known are absent. What a puzzle's answer function gets (script/script.h). The
 * caller owns it. */
json_t *fb_why_to_json(const fb_why *why);

#endif
