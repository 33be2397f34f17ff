/* A workshop, inside.
 *
 *     serve.c   its life: socket, devices, loop, what a screen shows
 *     seats.c   connections: what they may send and how fast, what they are told
 *     account.c who sits there: what is counted of somebody, from one connection to the next
 *     share.c   cases and requests: joined where they are equal, queued in turns, handed to a device's worker
 *     admit.c   what a message may say · place.c the socket · tally.c predictions
 *
 * A seat asks (fb_ask) → a task, joined by all that ask the same → a lane (a device with its worker), one task at a
 * time → answers to all who wait for it. What is prepared is a case, shared by its users; what it gave stays when they
 * have gone, for who comes later.
 */
#ifndef FB_WORKSHOP_PARTS_H
#define FB_WORKSHOP_PARTS_H

#include "base/vec.h"
#include "graph/graph_json.h"
#include "worker/worker.h"
#include "workshop/admit.h"
#include "workshop/workshop.h"

#include <limits.h>

enum { FB_WORKSHOP_LANES = FB_WORKSHOP_DEVICES, FB_WORKSHOP_DOING = 160 };

/* A graph that some seats have sent. */
typedef struct {
    fb_graph *graph;
    char hex[33];
    double text_bytes;  /* as it came */
    double value_bytes; /* of all nodes, were they stored */
    int users;          /* seats that sent it, cases, tasks */
    int asked_by;       /* the account for which something of it was last run */
} fb_known_graph;

/* Values of inputs, by key; who sends a key first says what it holds. */
typedef struct {
    char *key, sha[65];
    double *values; /* NULL: they were dropped, and may be sent again */
    int64_t n;
} fb_known_file;

/* What is counted of somebody, whichever connection it has. */
typedef struct {
    int serial;                                          /* from 1 on, never given again */
    int number;                                          /* of the seat that sits there, or did last */
    char name[FB_ASK_NAME + 1], origin[FB_ASK_NAME + 1]; /* as its connection says; "" */
    char id[33];                                         /* by which the same seat comes back */
    int seats;                                           /* connections now */
    int64_t left;                                        /* when the last of them ended: by the clock of turns */
    double disk_bytes;                                   /* written to disk for what it asked … */
    int64_t disk_since_ns;                               /* … since then */
    int faults, votes, keys;                             /* keys: of inputs, that it was the first to send */
    int64_t pause_until_ns;                              /* after too many faults */
    int64_t served[FB_WORKSHOP_LANES];                   /* when it last had a turn there, or came */
    int64_t owes_ns[FB_WORKSHOP_LANES];                  /* device time beyond its turns */
} fb_account;

typedef struct {
    int number;          /* from 1 on; of who comes back, as it was */
    fb_account *account; /* NULL: not greeted */
    fb_channel *channel;
    pid_t pid;
    bool heard, greeted, gone;                           /* heard: it has said something */
    char name[FB_ASK_NAME + 1], origin[FB_ASK_NAME + 1]; /* what its connection said before that */
    int lane;                                            /* the device that it was given; of one that was greeted */
    bool more;                                           /* lines wait that were not looked at */
    int64_t since_ns;
    FB_VEC(fb_known_graph *) graphs; /* the one used last at the end; counted */
    double graph_bytes, file_bytes;
    fb_graph_reader *reader; /* while a graph's lines arrive; the text so far, and its hash */
    char reading[33];
    double read_bytes;
    bool skip_graph;
    char *file_key; /* while a file's bytes arrive */
    double *file_values;
    int64_t file_n_bytes;
    double may_say, may_send; /* messages and bytes, before it is read later */
    int64_t counted_ns;
    int refused;
    FB_VEC(int) files; /* of w->files: what it sent, and holds what it sent */
} fb_seat;

/* ---- cases and tasks (share.c) ---- */

typedef struct {
    fb_seat *seat;
    int64_t id;
    int64_t seen[2]; /* samples it has been told of, hot and cold */
} fb_case_user;

typedef struct {
    int64_t number;
    char *key;
    fb_known_graph *graph;
    int lane;
    json_t *plan;
    fb_measure_options options;
    int64_t id;     /* at the lane's worker; 0: not prepared, or not any more */
    json_t *report; /* the last; NULL: none yet */
    int64_t samples[2];
    double spent_us[2];
    bool checked, was_checked; /* was: before it was lost */
    bool old;                  /* nobody new joins it */
    FB_VEC(fb_case_user) users;
    FB_VEC(int) served; /* numbers of seats that were users before */
    int64_t used;
} fb_case;

typedef struct {
    fb_seat *seat;
    int64_t id, asked_ns, told_ns;
    int n;    /* samples */
    int told; /* how many are ahead */
} fb_waiter;

typedef enum { FB_TASK_WAITS, FB_TASK_PREPARES, FB_TASK_CHECKS, FB_TASK_RUNS } fb_task_step;

typedef struct {
    char *key;
    fb_ask_kind kind; /* PREPARE, SAMPLE, CHECK, TRACE, VALUES, SEARCH */
    int lane;
    fb_case *of; /* NULL: SEARCH */
    fb_known_graph *graph;
    fb_measure_options options; /* SEARCH */
    bool cold, metrics, again;
    int n;
    char node[FB_ASK_NODE + 1];
    FB_VEC(fb_waiter) waiters; /* the first is whose turn it takes */
    fb_task_step step;
    int64_t id, started_ns;
    double waited_us;
    bool retried, stopped;
    char doing[FB_WORKSHOP_DOING];
} fb_task;

/* A device and the worker that serves it alone. */
typedef struct {
    fb_worker *worker;
    char *device;
    json_t *entry, *machine; /* as it is listed; as calibrated, or NULL */
    fb_task *running;
    fb_seat *turn;            /* whose turn it is; NULL: nobody's */
    int64_t turn_ns, idle_ns; /* since when; when it last asked or was answered */
    fb_account *used_by;      /* who has the device; NULL: nobody, or one that is forgotten */
    int64_t used_ns;          /* since when */
    FB_VEC(char *) files;     /* keys that its process has */
} fb_workshop_lane;

typedef struct {
    char *key;
    json_t *plan, *summary;
    int64_t used;
} fb_found;

typedef struct {
    char *chosen;
    int seats;
} fb_tally_choice;

typedef struct {
    char *puzzle;
    FB_VEC(fb_tally_choice) choices;
    int64_t changed; /* by the clock of turns */
} fb_tally;

typedef struct {
    int seat;
    char *puzzle, *chosen;
} fb_vote;

struct fb_workshop {
    fb_workshop_options options;
    char *self, *devices[FB_WORKSHOP_DEVICES];
    char socket[PATH_MAX];
    int listener;
    fb_error error;
    uint64_t serial;
    FB_VEC(fb_seat *) seats;
    int last_seat;
    FB_VEC(fb_account *) accounts;
    int last_account;
    fb_worker *lister; /* the first lane's worker, which tells what there is */
    int64_t listing;
    fb_workshop_lane lanes[FB_WORKSHOP_LANES];
    int n_lanes; /* 0 until devices are known */
    FB_VEC(fb_known_graph *) graphs;
    FB_VEC(fb_known_file) files;
    FB_VEC(fb_case *) cases;
    FB_VEC(fb_task *) tasks; /* all, in order of asking */
    FB_VEC(fb_found) found;
    int64_t clock; /* counts uses and turns */
    FB_VEC(fb_tally) tallies;
    FB_VEC(fb_vote) votes;
    int64_t measured, shared, refused, lost, written, announced_ns;
    bool to_announce;
    char note[256];
};

/* serve.c */
void fb_workshop_changed(fb_workshop *w);
void fb_workshop_say(fb_workshop *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* seats.c */
fb_seat *fb_seat_new(fb_workshop *w, int fd, pid_t pid);
/* Frees it, with all that it waits for and uses; safe for one that is half made. */
void fb_seat_free(fb_workshop *w, fb_seat *s);
void fb_seat_pump(fb_workshop *w, fb_seat *s);  /* sets `gone` when it is over */
void fb_seat_send(fb_seat *s, json_t *message); /* steals; a seat that reads nothing is given up */
void fb_seat_error(fb_workshop *w, fb_seat *s, int64_t id, const fb_error *why);
void fb_seat_refuse(fb_workshop *w, fb_seat *s, int64_t id, fb_error_kind kind, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
int fb_seat_timeout(const fb_seat *s);                      /* ms until it may be read again or is given up; -1: none */
fb_known_graph *fb_seat_graph(fb_seat *s, const char *hex); /* one that it has sent; NULL */
void fb_workshop_unuse(fb_workshop *w, fb_known_graph *g);
/* Has this seat sent all values that the graph takes from files? Else it was told. Whose values differ from those that
 * the workshop has under that key is measured with neither. */
bool fb_seat_has_inputs(fb_workshop *w, fb_seat *s, int64_t id, const fb_graph *g);
/* Was its part of the disk used up, or would be by `more` bytes? Then it was told. */
bool fb_seat_may_write(fb_workshop *w, fb_seat *s, int64_t id, double more);

/* account.c */
/* Sits down as who it is; `id`: as it was told before, or "". False: who it is has as many seats as one may. */
bool fb_account_take(fb_workshop *w, fb_seat *s, const char *id);
void fb_account_leave(fb_workshop *w, fb_seat *s);
void fb_account_charge(fb_workshop *w, int serial, double bytes);
double fb_account_disk(fb_account *a); /* what was written for it within the hour */
void fb_accounts_free(fb_workshop *w);

/* share.c */
void fb_share_ask(fb_workshop *w, fb_seat *s, const fb_ask *ask); /* PREPARE … CANCEL */
void fb_share_drop_seat(fb_workshop *w, fb_seat *s);
void fb_share_event(fb_workshop *w, int lane, fb_worker_event *e);
void fb_share_run(fb_workshop *w); /* hands out what can run, and tells who waits */
int fb_share_timeout(const fb_workshop *w);
int fb_lane_named(const fb_workshop *w, const char *device); /* FB_NONE: it is not shared */
int fb_lane_free(const fb_workshop *w);                      /* the one with the fewest seats, and the shortest queue */
void fb_share_free(fb_workshop *w);

/* tally.c */
void fb_tally_add(fb_workshop *w, fb_seat *s, const fb_ask *ask);
void fb_tally_free(fb_workshop *w);

#endif
