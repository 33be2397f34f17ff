/* What the two sides of the protocol (protocol.h) read of each other's messages, field by field: request.c what a
 * worker is asked, reply.c what it says. Nothing here starts, waits or keeps anything, so that both can be tested with
 * bytes alone. */
#ifndef FB_WORKER_MESSAGES_H
#define FB_WORKER_MESSAGES_H

#include "measure/measure.h"
#include "worker/worker.h"

/* ---- requests ---- */

typedef enum {
    FB_REQUEST_HELLO,
    FB_REQUEST_GRAPH,
    FB_REQUEST_FILE,
    FB_REQUEST_FORGET, /* from the supervisor alone */
    FB_REQUEST_DEVICES,
    FB_REQUEST_CANCEL,
    FB_REQUEST_QUIT,
    FB_REQUEST_PREPARE, /* from here on the device child's work, one after the other */
    FB_REQUEST_SAMPLE,
    FB_REQUEST_CHECK,
    FB_REQUEST_TRACE,
    FB_REQUEST_VALUES,
    FB_REQUEST_RELEASE,
    FB_REQUEST_SEARCH,
    FB_REQUEST_CALIBRATE
} fb_request_kind;

/* Texts and JSON are the message's; a field that its kind does not have is NULL, 0 or false. */
typedef struct {
    fb_request_kind kind;
    int64_t id;       /* from 1 on of what is worked on; else 0 where there is none */
    int64_t protocol; /* HELLO; 0: it does not say */
    const char *hash; /* GRAPH, FORGET: "" where there is none */
    const char *key;  /* FILE, and */
    int64_t bytes;    /* … 0 … FB_MOST_FILE */
    bool libraries;   /* DEVICES */
    double limit_s;   /* above 0, FB_MOST_LIMIT_S at most */

    const char *graph, *device, *node;
    const json_t *plan, *sources, *machine;
    uint64_t seeds[FB_SEEDS]; /* PREPARE, CHECK, SEARCH: 1 … FB_SEEDS; what comes after those is left out */
    int n_seeds;
    int n; /* SAMPLE: 1 … FB_MOST_SAMPLES */
    fb_cache_state cache;
    bool brief, counters, metrics, again;
} fb_request;

#define FB_MOST_FILE ((int64_t)4 << 30)
enum { FB_MOST_SAMPLES = 1000000 };

/* False with a sentence: it is no request, or a field is missing or makes no sense. Then `kind` and `id` are those that
 * could be read. */
bool fb_request_read(const json_t *message, fb_request *out, fb_error *err);
static inline bool fb_request_is_work(const fb_request *r)
{
    return r->kind >= FB_REQUEST_PREPARE;
}

/* ---- answers ---- */

/* What kind of event the message is, and whether it ends the request of its id. False: of a later version, not for us.
 */
bool fb_reply_kind(const json_t *message, fb_worker_event_kind *kind, bool *ends);
/* Fills what an event of e->kind takes from e->message. A message that makes no sense becomes an ERROR event of the
 * same id that says so. */
void fb_reply_read(fb_worker_event *e);
/* Whether who says hello speaks our protocol; `seat` is who we are at a workshop, "" where it is none. False with the
 * rest of a sentence about the worker. */
bool fb_reply_greets(const json_t *message, char seat[33], fb_error *err);

#endif
