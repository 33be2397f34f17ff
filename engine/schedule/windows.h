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
bool fb_shared_by_all(const fb_nest *nest, const fb_section *s, const fb_value *v);
/* Of a section whose pass reads rows of tables that memory names: neighbours that a thread takes, which look the same rows up
 * and find each a vector of theirs; 1: there are none, or rows are too few. */
enum { FB_GATHERED_AT_ONCE = 8 }; /* points whose rows are on their way together */
int fb_gathered_rows(const fb_nest *nest, const fb_section *s, int64_t rows);
/* An index at that place: the first neighbour's last row variable is `rows` times `group`. */
fb_ix fb_window_index(fb_index_pool *pool, const fb_section *s, int space, fb_ix group, int rows, fb_window_place at,
                      fb_ix index);
/* The multiple of `rows` that `at` is at or beyond, and how far; false if that depends on where it is. */
bool fb_window_whole(fb_index_pool *pool, int rows, fb_ix at, fb_ix *whole, int *rest);
/* The aligned group of `rows` elements of a load's storage that element `at` is in, and which of these it is; false where there
 * are no such groups. */
bool fb_window_group(const fb_nest *nest, const fb_value *v, int rows, fb_ix at, fb_ix *first, int *which);
/* Loads of the pass for so many rows, each group or element counted once. */
double fb_window_loads(const fb_nest *nest, const fb_section *s, int rows);

#endif
