/* Inside schedule/: what all ways to deal a recurrence to clusters count alike (cluster.c, cluster_f32.c). */
#ifndef FB_SCHEDULE_CLUSTER_PARTS_H
#define FB_SCHEDULE_CLUSTER_PARTS_H

#include "schedule/cluster.h"

enum { FB_CLUSTER_MOST_BLOCKS = 16 };

/* Registers that a thread of so many may have, with a multiprocessor to themselves. */
int fb_cluster_registers(int threads);
/* Columns of a block, by `unit`, in clusters of so many blocks; 0: half of the blocks would have none. */
int fb_cluster_columns(const fb_tiled *t, int blocks, int unit);
/* Loads of an element that are under way while the product is at work; `copied`: without what is copied before. */
int fb_cluster_early_loads(const fb_nest *nest, bool copied);
/* Turns that the clusters take, as many at a time as there is room for. */
double fb_cluster_turns(const fb_nest *nest, const fb_cluster_tile *x);
/* Has the GPU room for it, in shared memory and in its grid? */
bool fb_cluster_has_room(const fb_tiled *t, const fb_cluster_tile *x);

#endif
