/* Workers, seen from the front: spawned, fed requests, replaced when they die. And the serving side.
 *
 * All calls return at once; answers come as events from fb_worker_pump. When the process dies, every outstanding
 * request gets an FB_WORKER_ERROR event with kind crash (limit when it fell silent) and one sentence, and the next
 * request starts a new process (at most 3 starts in 10 s). Graphs are sent again to a new process by themselves.
 */
#ifndef FB_WORKER_WORKER_H
#define FB_WORKER_WORKER_H

#include "measure/measure.h"
#include "worker/protocol.h"

typedef struct fb_worker fb_worker;

typedef enum {
    FB_WORKER_HELLO,
    FB_WORKER_PROGRESS,
    FB_WORKER_PREPARED,
    FB_WORKER_SAMPLED,
    FB_WORKER_CHECKED,
    FB_WORKER_TRACED,
    FB_WORKER_VALUES,
    FB_WORKER_RELEASED,
    FB_WORKER_FOUND, /* message: plan and summary */
    FB_WORKER_MACHINE,
    FB_WORKER_DEVICES,
    FB_WORKER_ERROR
} fb_worker_event_kind;

typedef struct {
    fb_worker_event_kind kind;
    int64_t id;
    json_t *message;       /* owned by the event, freed by fb_worker_event_clear */
    fb_report *report;     /* PREPARED, SAMPLED, CHECKED: owned likewise; NULL it to take it */
    fb_timeline *timeline; /* TRACED: likewise */
    fb_values *values;     /* VALUES: likewise */
    fb_error error;        /* ERROR */
    char text[160];        /* PROGRESS: what */
    double fraction;
} fb_worker_event;

/* `command` NULL: this binary's own `worker` command (self is its path); else a shell-like command line split on blanks
 * with quotes; for ssh, BatchMode is added. Starts lazily. */
fb_worker *fb_worker_new(const char *self, const char *command);
void fb_worker_free(fb_worker *w);
const char *fb_worker_command(const fb_worker *w);
/* How long it may leave a request without a word about it, or not greet: else what fits who it is (our own: 30 s beyond
 * the run's limit; another command: 10 minutes). Then, and when it sends messages without end, it is given up. */
void fb_worker_set_patience(fb_worker *w, double seconds);
int64_t fb_worker_deadline(const fb_worker *w); /* fb_now_ns when it is given up; INT64_MAX: nothing is waited for */

int64_t fb_worker_prepare(fb_worker *w, const fb_graph *g, const fb_plan *plan, const char *device,
                          const fb_measure_options *o);
/* For devices that plan for themselves (torch): the plan is a name. */
int64_t fb_worker_prepare_named(fb_worker *w, const fb_graph *g, const char *plan, const char *device,
                                const fb_measure_options *o);
/* A plan in JSON (borrowed) that somebody else wrote: it is read where it runs. */
int64_t fb_worker_prepare_json(fb_worker *w, const fb_graph *g, json_t *plan, const char *device,
                               const fb_measure_options *o);
/* `brief`: the nodes of its kernels are known and left out of the answer, whose message says so. */
void fb_worker_sample(fb_worker *w, int64_t id, int n, fb_cache_state cache, bool brief);
/* Asks for the check of what was prepared from that graph with those seeds; its report says "checking" until then. */
void fb_worker_check(fb_worker *w, int64_t id, const fb_graph *g, const char *device, const fb_measure_options *o);
void fb_worker_trace(fb_worker *w, int64_t id, bool metrics);
void fb_worker_values(fb_worker *w, int64_t id, const char *node); /* what the node of a prepared case holds */
void fb_worker_release(fb_worker *w, int64_t id);
void fb_worker_cancel(fb_worker *w, int64_t id);
/* Asks for the plan `best` (measure/best.h). `again`: whatever was found earlier. `plan_as`: by the model alone, for
 * that machine; NULL: measured on the device. */
int64_t fb_worker_search(fb_worker *w, const fb_graph *g, const char *device, const fb_measure_options *o, bool again,
                         const fb_machine *plan_as);
int64_t fb_worker_calibrate(fb_worker *w, const char *device);
int64_t fb_worker_devices(fb_worker *w, bool libraries); /* libraries: takes longer, for each is loaded */
void fb_worker_send_file(fb_worker *w, const char *key, const double *values, int64_t n);

/* Something that it is told and does not answer; dropped where it does not run. Steals the message. */
void fb_worker_tell(fb_worker *w, json_t *message);

int fb_worker_poll(const fb_worker *w, struct pollfd out[3]); /* 0 … 3 entries */
void fb_worker_pump(fb_worker *w);
bool fb_worker_next(fb_worker *w, fb_worker_event *out); /* false: no event waits */
void fb_worker_event_clear(fb_worker_event *e);

/* `fusebox worker`: serves stdin/stdout until stdin ends; returns the exit status. */
int fb_worker_serve(int in_fd, int out_fd);

/* A lock per device across the processes of one machine and user, served in the order of asking. */
typedef struct {
    int fd; /* -1: not in line */
    int64_t ticket;
} fb_device_lock;

bool fb_lock_enter(fb_device_lock *lock, const char *device, fb_error *err); /* gets in line; never blocks long */
int fb_lock_ahead(const fb_device_lock *lock);                               /* 0: the device is ours */
bool fb_lock_wanted(const fb_device_lock *lock);                             /* somebody waits behind */
void fb_lock_leave(fb_device_lock *lock);                                    /* also safe when not in line */

#endif
