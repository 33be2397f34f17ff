/* A recurrence in clusters: a step of a loop whose one product multiplies what the step before has made
 * (kernels/cluster.cuh).
 *
 * A cluster of blocks takes some rows through all steps, each of its blocks some columns; the weights of these stay in
 * its registers and shared memory, and the state goes round by shared memory that the whole cluster reaches. Rows of
 * different clusters have nothing to do with each other, so that the grid never meets.
 */
#ifndef FB_SCHEDULE_CLUSTER_H
#define FB_SCHEDULE_CLUSTER_H

#include "base/str.h"
#include "nest/nest.h"
#include "schedule/knobs.h"

typedef struct {
    int blocks;  /* of a cluster */
    int rows;    /* of one, */
    int columns; /* of each strip, of a block of it */

    /* products of single warps (kernels/cluster.cuh): warps that share the columns, and those that share k */
    int across, deep;
    /* products of whole warpgroups (kernels/cluster_wide.cuh), in so many tiles of 16 lines a warp */
    bool wide;
    int each;
    /* in single precision (kernels/cluster_f32.cuh), where none of these is set: lanes that share k, columns of one
     * (`each` again), rows that are multiplied at once, and how often until a set of them is made */
    int slices, batch, passes;

    int held; /* fragments, or chunks of k, that stay in a thread's registers */
    int threads;
    int64_t clusters;
    int64_t shared_bytes, weight_bytes; /* a block's: all that it needs, and the weights it keeps, in registers too */
    double cycles, start;               /* of a step, about, and before the first */
} fb_cluster_tile;

enum { FB_CLUSTER_PORTABLE = 8 }; /* blocks of a cluster that every GPU with clusters takes */

/* Clusters of so many blocks, one a multiprocessor, that are at work at once. */
int64_t fb_cluster_at_once(const fb_nest *nest, int blocks);

/* Of a nest of family gemm, as it stands in the body of a loop; knobs (NULL: automatic): tile_m, rows of a cluster, and
 * tile_n, columns of a block, all strips. False with the sentence (says: NULL, or added to) where it cannot be; which
 * of its values goes round is for the loop to say (plan/loops.h). */
bool fb_cluster_tile_of(const fb_nest *nest, const fb_knobs *knobs, fb_cluster_tile *out, fb_str *says);

/* Of a load of the epilogue, as the rows and columns of the product count its elements: may a wide recurrence copy it,
 * whole pieces of 16 bytes at once? */
bool fb_cluster_copies(const fb_nest *nest, int v);

#endif
