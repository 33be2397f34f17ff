/* Stored elements and the reference's doubles: how the bytes of a buffer in any dtype become values and back. f16 and
 * bf16 are stored as their bits, bool as one byte that is 0 or 1. */
#ifndef FB_GRAPH_ELEMENT_H
#define FB_GRAPH_ELEMENT_H

#include "graph/op.h"

#include <stdint.h>

/* Rounds n values to nearest-even into a float dtype. `to` may be `from`. */
void fb_elements_round(fb_dtype dtype, int64_t n, const double *from, double *to);

/* Float dtypes: rounds to nearest-even and stores. */
void fb_elements_store(fb_dtype dtype, int64_t n, const double *from, void *to);
void fb_elements_load(fb_dtype dtype, int64_t n, const void *from, double *to);

/* Integer dtypes and bool: wraps and stores. */
void fb_elements_store_int(fb_dtype dtype, int64_t n, const int64_t *from, void *to);
void fb_elements_load_int(fb_dtype dtype, int64_t n, const void *from, int64_t *to);

#endif
