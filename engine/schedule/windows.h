/* Neighbouring rows that a thread, or a team of threads, takes at once, because they load the same. */
#ifndef FB_SCHEDULE_WINDOWS_H
#define FB_SCHEDULE_WINDOWS_H

#include "nest/nest.h"
#include "nest/parts.h"

/* A point of the window, and which of the neighbouring rows it is in. */
typedef struct {
    int64_t point;
    int neighbour;
} fb_window_place;

/* Of a section of `rows` rows with one pass, neighbours that a thread takes; 1: it pays for none. */
int fb_window_rows(const fb_nest *nest, const fb_section *s, int64_t rows);
/* Of rows that a team of so many threads goes along together: neighbours that it takes at once, because most of what it loads is
 * the same for all of them; 1: it pays for none. */
int fb_shared_rows(const fb_nest *nest, const fb_section *s, int64_t rows, int team);
/* Is the load of the pass the same for neighbouring rows? */
bool fb_is_of_neighbours(const fb_nest *nest, const fb_section *s, const fb_value *v);
/* An index at that place, `first` being the first neighbour's last row variable. */
fb_ix fb_window_index(fb_index_pool *pool, const fb_section *s, int space, fb_ix first, fb_window_place at,
                      fb_ix index);
/* The aligned group of `rows` elements that element `at` of a load is in, and which of these it is; false where its elements do
 * not move as such groups. `first` stands for multiples of `rows`. */
bool fb_window_group(const fb_nest *nest, const fb_value *v, fb_ix first, int rows, fb_ix at, fb_ix *group, int *which);
/* Loads of the pass for so many rows, each group or element counted once. */
double fb_window_loads(const fb_nest *nest, const fb_section *s, int rows);

#endif
