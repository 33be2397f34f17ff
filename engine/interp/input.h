/* What inputs and parameters of floats hold while a case is timed. Power, and so a clock, hangs on values: zeros flip
 * no bits. Noise is what every seed gives; the others are seeds of their own, so that a reference, a worker and a
 * framework need to know no more than the seed that they are given anyway. Integers, and random nodes, stay as they
 * are. */
#ifndef FB_INTERP_INPUT_H
#define FB_INTERP_INPUT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { FB_INPUT_NOISE, FB_INPUT_ZEROS, FB_INPUT_ONES, FB_INPUT_KINDS } fb_input_kind;

/* Seeds that hold all alike; torch_worker.py has them too. */
#define FB_SEED_ZEROS (UINT64_MAX - 1)
#define FB_SEED_ONES  UINT64_MAX

const char *fb_input_kind_name(fb_input_kind kind); /* "zeros" */
bool fb_input_kind_parse(const char *name, fb_input_kind *out);
fb_input_kind fb_input_kind_of(uint64_t seed);
uint64_t fb_input_seed(fb_input_kind kind, uint64_t noise); /* noise: the seed of that */

#endif
