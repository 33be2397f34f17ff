/* A workshop: one machine's devices shared with a class, over a UNIX socket of this user alone.
 *
 *     seat 1 ─┐ socket, 0600                    pipes
 *     seat 2 ─┼─────────────── fb_workshop ──────────── fusebox worker (one a device)
 *     seat 3 ─┘ SO_PEERCRED
 *
 * To a seat it is a worker: it speaks worker/protocol.h, as far as that asks for graphs, plans and inputs (admit.h); to
 * a worker it is a front (worker/worker.h). It opens no device and runs no generated code. One request a device runs
 * at a time; seats take turns, equal requests are measured once, and what a seat does wrong is its own trouble.
 *
 * Everything returns at once: poll what fb_workshop_poll names, then call fb_workshop_pump. One thread.
 */
#ifndef FB_WORKSHOP_WORKSHOP_H
#define FB_WORKSHOP_WORKSHOP_H

#include "base/error.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a seat, unless said otherwise. A row of limits.def each: name, default, what it bounds. */
typedef struct {
#define LIMIT(NAME, DEFAULT, LOW, HIGH, HELP) double NAME;
#include "workshop/limits.def"
#undef LIMIT
} fb_workshop_limits;

fb_workshop_limits fb_workshop_limits_default(void);
/* "NAME=VALUE"; false with what there is. */
bool fb_workshop_limit_set(fb_workshop_limits *l, const char *text, fb_error *err);
/* The ith row: false beyond the last. */
bool fb_workshop_limit_at(int i, const char **name, double *otherwise, const char **help);

/* What a seat said that it expects of a puzzle. Texts are names: letters, digits, "_", "-", ".". */
typedef struct {
    int seat;
    const char *puzzle, *chosen;
    double guess; /* how many times faster; NAN: not said */
} fb_prediction;

enum { FB_WORKSHOP_DEVICES = 8 }; /* at most */

typedef struct {
    const char *self;           /* the binary whose `worker` command runs */
    const char *const *devices; /* those that are shared; none: all GPUs, or the host where there is none */
    int n_devices;
    const char *socket; /* a path; NULL: the usual place (place.h) */
    fb_workshop_limits limits;
    /* Each new or changed one; returns how many bytes it wrote to disk. NULL: nobody listens. */
    size_t (*predicted)(void *ctx, const fb_prediction *p);
    void *ctx;
} fb_workshop_options;

typedef struct fb_workshop fb_workshop;

/* Listens at once; devices are known a moment later. The caller frees. */
fb_workshop *fb_workshop_new(const fb_workshop_options *o, fb_error *err);
void fb_workshop_free(fb_workshop *w); /* closes all, and removes the socket */

enum { FB_WORKSHOP_FDS = 512 };
int fb_workshop_poll(const fb_workshop *w, struct pollfd out[FB_WORKSHOP_FDS], int *timeout_ms);
void fb_workshop_pump(fb_workshop *w);
uint64_t fb_workshop_serial(const fb_workshop *w); /* raised with all that a screen would show */
/* Why it cannot go on (no such device, a worker that does not start); kind FB_OK: it can. */
const fb_error *fb_workshop_error(const fb_workshop *w);

/* ---- what a screen shows of it ---- */

typedef struct {
    const char *socket;
    int seats, waiting;                                  /* connected; requests that wait */
    int64_t seats_ever, measured, shared, refused, lost; /* shared: answered with what another had measured; lost:
                                                          * requests that ended a process on the device */
    int64_t written;                                     /* bytes put on disk for seats */
} fb_workshop_state;
void fb_workshop_state_of(const fb_workshop *w, fb_workshop_state *out);

int fb_workshop_devices(const fb_workshop *w); /* 0 until they are known */
/* Its name and title, and what runs on it: NULL when nothing does. */
const char *fb_workshop_device(const fb_workshop *w, int i, const char **title, const char **doing, int *seat);

/* The predictions so far: a puzzle, and how many seats chose what, in order of names. */
int fb_workshop_puzzles(const fb_workshop *w);
const char *fb_workshop_puzzle(const fb_workshop *w, int i, int *choices);
int fb_workshop_puzzle_last(const fb_workshop *w); /* the one that was answered last */
const char *fb_workshop_choice(const fb_workshop *w, int puzzle, int choice, int *seats);

/* The last thing that was refused or went wrong, for the screen: "seat 3: …"; "" when nothing was. */
const char *fb_workshop_note(const fb_workshop *w);

/* ---- the other end ---- */

/* Copies bytes between a pair of descriptors and the workshop at `socket` (NULL: the usual places) until one of them
 * ends; `name` (or NULL) is whom the seat is for. False with FB_ERR_UNAVAILABLE where there is no workshop. */
bool fb_workshop_relay(const char *socket, const char *name, int in_fd, int out_fd, fb_error *err);
/* Is that a name for a seat? Letters, digits, "_", "-", ".". */
bool fb_workshop_is_name(const char *name);

#endif
