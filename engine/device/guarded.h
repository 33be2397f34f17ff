/* A compiler that takes what it started with it. Private to devices.
 *
 * A compiler driver starts passes (cc1, as, ld), a wrapper starts a driver; when the driver is killed, they go on. So a
 * small process of ours stands above it: it adopts whatever loses its parent, and when it is told to stop, or when we
 * die, it kills all of them before it ends. Each pass has a limit of processor time and of memory, and all of them what
 * the role of compilers may do (base/confine.h): they write to their folder of work, read where headers and compilers
 * lie, and reach no network.
 *
 * A process that will run generated kernels may start nothing itself. It has one beside it do that, apart, which was
 * forked before and knows by itself what may be started. */
#ifndef FB_DEVICE_GUARDED_H
#define FB_DEVICE_GUARDED_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    pid_t pid; /* of the guard; 0: none */
    int log;   /* memfd: what the command says */
    int64_t started_ns;
} fb_guarded;

typedef struct {
    const char *work; /* the one folder that it may write to; NULL: none */
    int seconds;      /* of processor time, each pass */
    int64_t memory;   /* bytes of address space, each pass; 0: no limit */
} fb_guarded_limits;

/* Runs `argv` with nothing to read. A command that cannot be run ends with status 127 and says why in its log. */
bool fb_guarded_start(fb_guarded *g, char *const *argv, const fb_guarded_limits *limits, fb_error *err);
/* True when it has ended, with the status that waitpid would give for the command itself. The log is still there. */
bool fb_guarded_ended(fb_guarded *g, int *status);
/* Kills it and all it started; also safe when it has ended. */
void fb_guarded_stop(fb_guarded *g);
/* What it said, at most 64 KiB, terminated; the caller frees with fb_free. Closes the log. */
char *fb_guarded_log(fb_guarded *g);

/* From here on a process apart starts what this one asks for, as far as `may` lets it; it ends with this process, stops
 * what runs and calls `leave`. Where it cannot be had, nothing changes. */
bool fb_guarded_apart(bool (*may)(char *const *argv, const fb_guarded_limits *limits), void (*leave)(void),
                      fb_error *err);

#endif
