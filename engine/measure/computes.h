/* What came out of a graph, as a line has it: "1 out of 64 = 00c5… 64:1.2:3:0.5:-0.1". Behind FB_FOUND_BEHIND stand
 * sixteen digits for the sources and, for each tensor, how many elements it has and sums of the first of them. For the
 * parts of measure alone. */
#ifndef FB_MEASURE_COMPUTES_H
#define FB_MEASURE_COMPUTES_H

#include <stdint.h>

#define FB_FOUND_BEHIND " = "
enum { FB_FOUND_SUMMED = 1 << 20, FB_FOUND_TENSORS = 64 };

/* Of the first FB_FOUND_SUMMED elements: how many there are, Σv², Σv, and two sums with signs that depend on the place
 * alone, which tell apart what has the same spread. */
typedef struct {
    int64_t n;
    double squares, sum, along[2];
} fb_found;

#endif
