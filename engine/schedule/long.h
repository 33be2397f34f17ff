/* Long rows on a GPU that are gone over several times: cut into parts, a block each, which hold their part in shared
 * memory meanwhile. So a row is read once and written once, whatever its length, and blocks of other rows move their
 * bytes while one computes or waits. Part of the schedule (schedule/schedule.h).
 *
 *     groups    a row's elements as vectors of 16 bytes of what is held, from the last multiple of 16 bytes at or
 *               before its first element; so the first and the last group may reach beyond the row (`ragged`)
 *     parts     blocks a row, side by side in the grid: each has `each` of the groups
 *     held      so many of a part's groups stay in shared memory; the rest, if there is any, is read again in each
 *               pass, which the cache answers
 *     slots     bytes of a block's shared memory for what is held of one value; a slot whose value is not needed any
 *               more is taken by one that is computed from then on
 */
#ifndef FB_SCHEDULE_LONG_H
#define FB_SCHEDULE_LONG_H

#include "schedule/schedule.h"

typedef struct fb_cut {
    int vector;     /* elements of a group */
    fb_ix start;    /* of a row's first element within its first group; no constant where rows differ in it */
    bool ragged;    /* the first or last group of a row may reach beyond it */
    int64_t groups; /* of a row … */
    int64_t each;   /* … of a part … */
    int64_t held;   /* … and those of a part that stay on chip: the first of it */
    int parts;
    int cluster; /* parts that are one cluster, and need no memory to add up what they have; 1: there are none */
    int n_slots;
    int64_t shared_bytes; /* of a block; 0: rows are much longer than all shared memory: each pass reads them again */
    int64_t *slot;        /* a value: the byte its slot begins at; FB_NONE: it has none */
    int sharing;          /* blocks that a multiprocessor has room for */
    int together;         /* rows that are on chip at a time, where so few are that they wait for each other; else 0 */
} fb_cut;

/* ---- what bands of columns (schedule/bands.h) decide the same way ---- */

/* Bytes of an element: of what is loaded, as it lies in memory. */
int fb_long_size(const fb_nest *nest, const fb_value *v);

/* A value while slots are dealt out. */
typedef struct {
    int first, last, times; /* passes that need it, and how many */
} fb_long_life;

void fb_long_lives(const fb_section *s, fb_long_life *of);
/* Slots by the lives of what they hold, offsets within an element's bytes, which are returned. */
int64_t fb_long_slots(const fb_nest *nest, const fb_section *s, const fb_long_life *of, const bool *held, int64_t *slot,
                      int *n_slots);
/* Are numbers all that rows are reduced to, and is there any? */
bool fb_long_reduces(const fb_nest *nest, const fb_section *s);
/* Is what is overwritten read at the very place that is stored to, by the thread that stores? */
bool fb_long_overwrites_in_place(const fb_section *s);

/* Cuts the rows of a section into parts, if that is worth it: sets deal, cut, team and blocks. */
bool fb_cut_rows(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x, fb_arena *arena);
/* Do groups of elements at `at` of a storage lie in memory as vectors do? */
bool fb_cut_packs(const fb_nest *nest, const fb_cut *c, const fb_section *s, fb_id storage, fb_ix at);

#endif
