/* Columns on a GPU that are gone over several times: neighbouring rows of a nest lie side by side in memory, and a block,
 * or a cluster of blocks, has a band of them. Its threads move vectors of neighbours, and what later passes read again
 * stays on chip meanwhile, in registers or in shared memory. So a column is read once and written once. Part of the
 * schedule (schedule/schedule.h).
 *
 *     beside    threads side by side, of `each` (of the schedule) neighbouring columns each
 *     team      (of the schedule) threads that share the long way, one behind the other
 *     parts     blocks that share the long way, which are a cluster: each has `points` of it
 *     steps     of a thread, written out: elements that it holds are in its registers; 0: in shared memory, or nowhere
 *     slot      the byte of a block's shared memory where a value that is held begins; FB_NONE: it is not there
 *     turned    what is stored with its columns one behind the other, as channels that come last are: the byte of shared
 *               memory where a block's columns of it begin, each of so many elements; FB_NONE: it is stored as it is made
 */
#ifndef FB_SCHEDULE_BANDS_H
#define FB_SCHEDULE_BANDS_H

#include "schedule/schedule.h"

typedef struct fb_band {
    int beside;
    int parts;
    int64_t points;
    int steps;
    bool *held; /* a value: what is loaded ahead of the first pass, or made in the first one that needs it */
    int64_t *slot;
    int copies;      /* steps that are copied in the background, ahead of all passes, into shared memory; 0: none are */
    int64_t *turned; /* a root */
    int64_t held_bytes, shared_bytes; /* of shared memory, what is held there, and all; 0: nothing */
    int sharing;                      /* blocks that a multiprocessor has room for */
} fb_band;

/* Deals out columns by bands, if that is worth it: sets deal, band, each, team and blocks. */
bool fb_band_columns(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x, fb_arena *arena);

/* What of a root is turned: elements from one column to the next, words of which neighbouring ones lie in different banks,
 * and elements that are stored at once. */
int64_t fb_band_line(const fb_nest *nest, const fb_band *b, const fb_root *r);
int fb_band_stores(const fb_nest *nest, const fb_section *s, const fb_band *b, const fb_root *r);

/* Is nothing of it held, so that each pass reads all again? */
static inline bool fb_band_reads_again(const fb_band *b)
{
    return !b->steps && !b->held_bytes;
}

#endif
