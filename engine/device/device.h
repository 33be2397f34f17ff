/* Devices: one const vtable each (host, cuda, replay), found by name. A device is opened, measures and is closed inside
 * a worker's child process; the front only ever holds descriptions. One device value is used by one thread.
 * An error of kind FB_ERR_CRASH says that the device is lost to this process: nothing more can be asked of it here.
 *
 *     fb_device *d = fb_device_open("host", &err);
 *     fb_loaded *l = d->ops->load(d, program, &progress, &err);
 *     d->ops->write(l, buffer, bytes, &err); d->ops->run(l, &how, times, &err); d->ops->read(l, buffer, bytes, &err);
 *     d->ops->unload(l); d->ops->close(d);
 */
#ifndef FB_DEVICE_DEVICE_H
#define FB_DEVICE_DEVICE_H

#include "base/error.h"
#include "base/figure.h"
#include "code/lower.h"
#include "code/program.h"
#include "target/machine.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fb_device fb_device;
typedef struct fb_loaded fb_loaded; /* a program compiled, with its buffers allocated; each device defines its own */

/* Called now and then during long work; returns false to cancel. `what` is a few words: "compiling 3 of 7". */
typedef struct {
    bool (*step)(void *ctx, const char *what, double fraction);
    void *ctx;
} fb_progress;

/* What the compiler and the device say of one kernel; counts of -1 and NAN mean not known. */
typedef struct {
    int registers, shared_bytes, spill_bytes;
    double local_bytes; /* stack frames of all threads of a launch: arrays that are no registers, and spills */
    double occupancy;   /* 0 … 1, theoretical */
} fb_resources;

/* FB_CACHE_ANY: nobody looks at the time, and each run is one that counts. */
typedef enum { FB_CACHE_HOT, FB_CACHE_COLD, FB_CACHE_ANY } fb_cache_state;

/* Launched as the program's mode says. */
typedef struct {
    fb_cache_state cache;
    int samples; /* runs to time, one figure each */
} fb_run_how;

/* One run's figures, µs. wall: from the first launch until the last is known to be done; device: sum of the kernels'
 * own times, NAN where the device cannot tell them apart from wall. */
typedef struct {
    double wall_us, device_us;
} fb_run_time;

/* What a stretch of the timeline was. */
typedef enum { FB_LANE_KERNEL, FB_LANE_IN, FB_LANE_OUT, FB_LANES } fb_lane;

/* One launch or copy on the timeline of a run; µs from the first thing in it, whichever of the two clocks saw it. */
typedef struct {
    int index;                           /* of the kernel, or n_kernels + g for gemm g; copies follow, numbered as
                                            fb_program_copies does; -1: not known */
    double start_us, end_us;             /* of its execution */
    double issue_start_us, issue_end_us; /* of the call on the host that launched it (one for all of a CUDA graph); NAN
                                            where not known */
    int stream;                          /* of the device */
    fb_lane lane;
} fb_span;

/* Metrics of a device over time, while a program runs again and again. */
enum { FB_METRICS = 8 };
typedef struct {
    int n_metrics;
    const char *metric[FB_METRICS]; /* "SM active"; static texts */
    double interval_us;
    int64_t n, n_runs;
    double *at_us;  /* when each sample starts, from the first one */
    double *value;  /* n × n_metrics, 0 … 1; NAN: not known */
    double *run_us; /* n_runs × 2: start and end of each run on the host's clock, from the start of sampling */
} fb_metric_log;
void fb_metric_log_clear(fb_metric_log *log);
/* Leaves out a first sample that began long before the second: it reaches back to when the counters were switched on,
 * and tells of a device that waited. The others count from the first one that is left. */
void fb_metric_log_begin(fb_metric_log *log);

/* Measured traffic and other counters of one kernel over one run; NAN where not known. */
typedef struct {
    double dram_read, dram_written, l2_bytes; /* bytes */
    double occupancy, tensor_active;          /* 0 … 1 */
    double cycles;
} fb_counters;

/* ---- devices that run nothing: what they know of a plan ---- */

/* Of one launch. Stats with n 0 are not known. */
typedef struct {
    fb_figure_source source;
    bool stale; /* recorded from another version of its source */
    fb_stat hot_us, cold_us;
    fb_counters counters;
    fb_resources resources;
} fb_recalled_kernel;

typedef struct {
    fb_figure_source source;
    bool stale;
    fb_stat wall_us, device_us, cold_us; /* of the whole plan; cold is wall time too */
    double max_abs, max_rel, bound;      /* errors as recorded; NAN where not known */
    int64_t undecided;
    double copy_us, copy_hidden_us; /* predicted; of all copies, and of that what is beside kernels */
    fb_rounds *rounds;              /* of a recorded wall time; NULL: none were kept */
    const char *recorded;           /* what the recording calls it; NULL: it was not recorded whole */
    fb_recalled_kernel *kernels;    /* one a kernel and a gemm, numbered as spans are */
} fb_recall;

/* A plan of a framework that plans for itself (PyTorch): a name to us. Texts are the device's, until it is closed. */
enum { FB_PEER_KERNELS = 12 };
typedef struct {
    const char *name, *family; /* family may be NULL */
    int64_t count;
    fb_stat device_us; /* of all its launches in a run */
} fb_peer_kernel;
typedef struct {
    fb_stat wall_us, device_us, cold_us; /* n 0: not known */
    int64_t launches;                    /* -1: not known */
    const char *launch_mode;             /* may be NULL */
    double max_abs, max_rel, bound;      /* NAN: not known */
    int n_kernels;
    fb_peer_kernel kernels[FB_PEER_KERNELS]; /* those that take longest, longest first */
    fb_rounds rounds;                        /* n 0: none were kept */
} fb_peer_plan;

/* A run taken apart: what measure/check.c goes through a launch list with, looking at memory in between. Where a buffer
 * is follows the swaps made so far. Each call has ended on the device when it returns. */
typedef struct {
    /* The state before a run: swaps undone, assigned parameters as they were written, feeds copied. */
    bool (*rewind)(fb_loaded *l, fb_error *err);
    /* Launch `i`, no REPEAT, END or SWAP, where the loops around it stand at `step`, the outermost first. */
    bool (*launch)(fb_loaded *l, int i, const int64_t *step, fb_error *err);
    /* The same of a merged kernel that has loops, as far as `steps` says (fb_launch's). */
    bool (*launch_steps)(fb_loaded *l, int i, const int64_t *step, int64_t steps, fb_error *err);
    void (*swap)(fb_loaded *l, int a, int b);
    bool (*peek)(fb_loaded *l, int buffer, int64_t offset, int64_t bytes, void *to, fb_error *err);
    bool (*poke)(fb_loaded *l, int buffer, int64_t offset, int64_t bytes, const void *from, fb_error *err);
    /* The buffer whose own memory this buffer has at present: itself while nothing is swapped. */
    int (*storage)(const fb_loaded *l, int buffer);
    /* A hash of these bytes, the same for the same bytes at whatever place. `storage`: the memory that this buffer has
     * while nothing is swapped; FB_NONE: the pool of temporaries. */
    bool (*digest)(fb_loaded *l, int storage, int64_t offset, int64_t bytes, uint64_t *out, fb_error *err);
    /* A hash of memory between buffers, which is nobody's and stays as it is; NULL: others may have it. */
    uint64_t (*digest_gaps)(fb_loaded *l);
    bool (*finish)(fb_loaded *l, fb_error *err); /* what is received is copied out; swaps undone */
} fb_stepping;

typedef struct {
    const char *kind;        /* "host", "cuda", "replay", "torch": the part of the name before ':' */
    const fb_target *target; /* what programs are lowered for */
    /* Adds one line a device or library: found where, which version, or what is missing and what that costs the user.
     * Opens no device. Cheap without libraries, each of which has to be loaded; NULL: they are not asked for. */
    void (*list)(json_t *devices, json_t *libraries);
    fb_device *(*open)(const char *name, fb_error *err);
    void (*close)(fb_device *d);
    const fb_machine *(*machine)(const fb_device *d); /* calibrated from the cache if it was, else defaults */
    bool (*calibrate)(fb_device *d, const fb_progress *progress,
                      fb_error *err); /* measures, and keeps it in the cache */
    /* How many devices of this kind there are; cheap, opens none. */
    int (*available)(void);
    /* Whether there is a driver that such devices are spoken to through; loads nothing. NULL: they need none. */
    bool (*driver)(void);
    /* Compiles (through the disk cache), allocates every buffer. FB_ERR_LIMIT before allocating when it cannot fit, and
     * for a launch mode that the device does not have. `p` is borrowed until unload. */
    fb_loaded *(*load)(fb_device *d, const fb_program *p, const fb_progress *progress, fb_error *err);
    void (*unload)(fb_loaded *l);
    double (*compile_ms)(const fb_loaded *l); /* 0 when everything came from the cache */
    bool (*resources)(const fb_loaded *l, int kernel, fb_resources *out);
    /* Whole-buffer transfers, in the buffer's dtype. What is written to an assigned parameter is what it is restored
     * to; what is written to a fed buffer waits on the host until a run copies it, and what is read of a received one
     * is what the last run copied there. */
    bool (*write)(fb_loaded *l, int buffer, const void *bytes, fb_error *err);
    bool (*read)(fb_loaded *l, int buffer, void *bytes, fb_error *err);
    /* For a fed buffer: what every second run of a call is given, from the second run on; `write` gives it to all. NULL
     * where all runs of a call have the same. */
    bool (*write_second)(fb_loaded *l, int buffer, const void *bytes, fb_error *err);
    /* Allocates every buffer anew, at another place; what they held is gone. False: they lie where they lay, and hold
     * what they held. NULL: cannot. */
    bool (*move)(fb_loaded *l);
    /* Fills outputs, temporaries and both ends of copies with NaNs (integers: all bits set), so that what a kernel or a
     * copy forgets to write shows. */
    bool (*poison)(fb_loaded *l, fb_error *err);
    /* Runs `how.samples` times; before each, assigned parameters are restored (not timed) and, when cold, the caches
     * are flushed (not timed). Hot: a run that is not timed goes first unless the last run was of this program too.
     * A run's time has its copies in it. Where the program overlaps them, a run computes while the feeds of the next
     * one arrive and the results of the one before leave, and ends when all three have: the first run's feeds and the
     * last one's results are copied before and after, not timed. */
    bool (*run)(fb_loaded *l, const fb_run_how *how, fb_run_time *times, fb_error *err);
    const fb_stepping *stepping; /* NULL: cannot */
    /* One run in the program's launch mode with each launch timed, repeats counted out; the first `room` in order are
     * stored, *n is how many. */
    bool (*trace)(fb_loaded *l, fb_cache_state cache, fb_span *spans, int64_t room, int64_t *n, fb_error *err);
    /* One run under the counters; NULL or false with FB_ERR_UNAVAILABLE and what to change where there are none. */
    bool (*count)(fb_loaded *l, fb_counters *out, fb_error *err);
    /* Hot runs, one behind the other for at least `us`, with the device's metrics sampled; NULL or FB_ERR_UNAVAILABLE
     * where there are none. The caller clears *out, also after a failure. */
    bool (*sample_metrics)(fb_loaded *l, double us, fb_metric_log *out, fb_error *err);
    /* What the machine is like now; NULL: it is not known. */
    void (*state)(fb_device *d, fb_machine_state *out);
    /* For devices that run nothing: what is known of a plan and its program (lowered for the device's target). Where it
     * is there, the functions from load to count are not. Memory in `arena`. */
    bool (*recall)(fb_device *d, const fb_plan *plan, const fb_program *p, fb_arena *arena, fb_recall *out,
                   fb_error *err);
    /* … and the timeline of what it calls `recorded` (measure/timeline.h), a new reference; NULL with why there is
     * none. */
    json_t *(*recall_timeline)(fb_device *d, const char *recorded, fb_error *err);
    /* For recorded devices that planned for themselves. Where it is there, only open, close and calibrate are besides.
     */
    bool (*recall_named)(fb_device *d, const fb_graph *g, const char *plan, fb_peer_plan *out, fb_error *err);
} fb_device_ops;

struct fb_device {
    const fb_device_ops *ops;
    char name[64];               /* "host", "cuda:0" */
    const fb_progress *progress; /* asked about once a second during runs that last longer, where a device comes by
                                    between launches; false ends the run with FB_ERR_CANCELLED. NULL: nobody waits */
};

/* All device kinds in this binary, NULL-terminated; adding a device is adding a file and a row here. */
extern const fb_device_ops *const fb_device_table[];

/* NULL and FB_ERR_UNAVAILABLE with what is missing; unknown names list the known ones. */
const fb_device_ops *fb_device_find(const char *name, fb_error *err);
/* The same in a process that will run generated code on it: before that, the process gives up what it does not need
 * (base/confine.h), for good and whatever it opens later. */
fb_device *fb_device_open_confined(const char *name, fb_error *err);
/* What such a process has left that was killed, and the one that started its compilers with it. */
void fb_device_put_away(void);
fb_device *fb_device_open(const char *name, fb_error *err);

/* What a device says it does while it opens code that was compiled before: should the process die of it, that code is
 * gone from the cache, and the same request may be tried again. */
#define FB_OPENING "opening kernels"

/* ---- the disk cache (device/cache.c) ---- */

/* $XDG_CACHE_HOME/fusebox/SUB (~/.cache without the variable), made if missing. False when there is no place to write,
 * or one that is not this user's own (fb_private_folder): work then goes on without. Compiled code
 * and choices stand there with a checksum (base/checked.h), whose key is the file's own name. */
bool fb_cache_dir(const char *sub, char *to, size_t room, fb_error *err);
/* Where that is, and nothing is made: for who only looks after what is there. */
bool fb_cache_path(const char *sub, char *to, size_t room, fb_error *err);
/* A private folder among the temporary files, the same for all processes of this user: where there is no cache. */
bool fb_temporary_dir(char *to, size_t room, fb_error *err);
/* Marks a file as used just now. */
void fb_cache_touch(const char *path);
/* Removes the files of a folder that were not used for longest until `bytes` are left, and what was never written to
 * its end; nothing younger than a minute. Of entries alone, as fb_cache_empty. */
void fb_cache_trim(const char *dir, int64_t bytes);
/* Removes every entry of a folder: what begins with a hash, as all that we keep does. A link may have led to a folder
 * of other things, which are nothing to us. */
void fb_cache_empty(const char *dir);
bool fb_cache_is_entry(const char *name);

#endif
