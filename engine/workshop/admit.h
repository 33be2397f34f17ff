/* What a seat may ask. A message is read into a value with exactly the fields that are allowed; any other type or field
 * is refused in a sentence. What goes on to a worker is made from this value, never from the seat's text. */
#ifndef FB_WORKSHOP_ADMIT_H
#define FB_WORKSHOP_ADMIT_H

#include "measure/measure.h"

#include <jansson.h>

typedef enum {
    FB_ASK_FROM,
    FB_ASK_HELLO,
    FB_ASK_GRAPH,
    FB_ASK_FILE,
    FB_ASK_PREPARE,
    FB_ASK_SAMPLE,
    FB_ASK_CHECK,
    FB_ASK_TRACE,
    FB_ASK_VALUES,
    FB_ASK_RELEASE,
    FB_ASK_SEARCH,
    FB_ASK_CANCEL,
    FB_ASK_DEVICES,
    FB_ASK_PREDICT
} fb_ask_kind;

enum { FB_ASK_NAME = 64, FB_ASK_NODE = 256, FB_ASK_SAMPLES = 4096 };

typedef struct {
    fb_ask_kind kind;
    int64_t id;                                          /* from 1 on; 0 in messages that have none */
    char name[FB_ASK_NAME + 1], origin[FB_ASK_NAME + 1]; /* FROM; "": not said */
    int64_t version;                                     /* HELLO: of the protocol */
    char seat[33];                                       /* HELLO: who it was before; "" */
    char graph[33];                                      /* GRAPH, PREPARE, CHECK, SEARCH: a hash */
    char device[FB_ASK_NAME + 1];                        /* PREPARE, CHECK, SEARCH */
    char key[FB_ASK_NAME + 1];                           /* FILE */
    int64_t bytes;                                       /* FILE */
    json_t *plan;                                        /* PREPARE: owned, made anew */
    uint64_t seeds[FB_SEEDS];
    int n_seeds;
    int n;                                                 /* SAMPLE */
    bool cold, metrics, again;                             /* SAMPLE, TRACE, SEARCH */
    bool counters;                                         /* PREPARE */
    char node[FB_ASK_NODE + 1];                            /* VALUES */
    char puzzle[FB_ASK_NAME + 1], chosen[FB_ASK_NAME + 1]; /* PREDICT */
    double guess;                                          /* PREDICT; NAN: not said */
} fb_ask;

/* False with a sentence; `out` is then cleared but for `id`, so that the answer can name it. */
bool fb_ask_read(const char *line, size_t n, fb_ask *out, fb_error *err);
void fb_ask_clear(fb_ask *a);
const char *fb_ask_name(fb_ask_kind kind); /* "prepare" */

#endif
