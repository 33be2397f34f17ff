/* Recurrences in clusters in single precision (kernels/cluster_f32.cuh): the sizes of schedule/cluster.h's tile. */
#ifndef FB_SCHEDULE_CLUSTER_F32_H
#define FB_SCHEDULE_CLUSTER_F32_H

#include "schedule/cluster.h"

/* Of a nest that fb_cluster_tile_of found to be one that clusters may take. False: nothing fits, or not with these
 * knobs. */
bool fb_cluster_f32_tile_of(const fb_nest *nest, const fb_knobs *knobs, fb_cluster_tile *out);

#endif
