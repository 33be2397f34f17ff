/* The serving side of a worker, inside: the processes that the supervisor (serve.c) starts. All talk over a channel on
 * stdin and stdout; what generated code or a library prints goes to stderr.
 *
 *     device_child.c   opens devices, compiles, runs, measures; one request at a time
 *     helpers.c        computes references; lists devices. Each for one job, without generated code
 */
#ifndef FB_WORKER_WORKER_PARTS_H
#define FB_WORKER_WORKER_PARTS_H

#include "base/file.h"
#include "base/vec.h"
#include "measure/measure.h"
#include "worker/protocol.h"

#include <jansson.h>

/* Values of FB_DIST_FILE inputs by key. */
typedef struct {
    char *key;
    double *values;
    int64_t n;
} fb_worker_file;

typedef FB_VEC(fb_worker_file) fb_worker_files;

void fb_worker_files_put(fb_worker_files *files, const char *key, double *values, int64_t n); /* takes values */
void fb_worker_files_clear(fb_worker_files *files);
/* As fb_file_values; ctx: fb_worker_files. */
bool fb_worker_files_get(void *ctx, const char *key, int64_t n, double *out);

/* Sends {"type":"error","id":…,"kind":…,"text":…}. */
void fb_send_error(fb_channel *c, int64_t id, const fb_error *why);

/* Says how far a job is: at once when a phase begins, else a few times a second, so that silence means trouble. */
typedef struct {
    fb_channel *channel;
    int64_t id;
    char what[160];
    int64_t sent_ns;
} fb_progress_sender;
void fb_send_progress(fb_progress_sender *s, const char *what, double fraction);

/* Moves the channel's descriptors away from stdin and stdout, which become /dev/null and stderr. */
fb_channel *fb_channel_private(int in, int out);

/* ---- the processes; as fb_child_start wants them ---- */

/* Further messages of its own: {"type":"forget","hash":H}. */
int fb_worker_device_main(void *ctx, int in, int out); /* ctx: fb_written */

typedef struct {
    const fb_graph *graph;
    uint64_t seeds[FB_SEEDS];
    int n_seeds;
    fb_worker_files *files;
    fb_written *wrote;
} fb_reference_job;
int fb_worker_reference_main(void *ctx, int in,
                             int out); /* ctx: fb_reference_job. Exit status 0, or an error message and 1 */

/* Sends one {"devices":[…],"libraries":[…]}. `ctx`: a bool, whether it looks for libraries. */
int fb_list_main(void *ctx, int in, int out);

#endif
