/* What an experiment gives, gathered: its rows with their kind and parameters, what it plots, how many cases failed.
 * With a results file, cases that it holds are not measured again, and every row is in it as soon as it is there. The
 * command line and the workbench run experiments by this. */
#ifndef FB_SESSION_GATHER_H
#define FB_SESSION_GATHER_H

#include "session/results.h"

typedef struct {
    fb_session *session;
    fb_results *results; /* NULL: rows are kept nowhere */
    bool retry;          /* what failed in the file is measured again */
    json_t *cases;       /* the caller's array: {"case", "row", "source", "params": all of them} each */
    json_t *plots;       /* likewise */
    json_t *devices;     /* the caller's object: those that cases ran on as keys; NULL: nobody asks */
    int n, known;        /* cases, and those of them that were in the file */
    int away, failed;    /* those without a device; those that failed otherwise, */
    fb_error first;      /* and why the first did */
} fb_gather;

/* Runs the script's experiment from its start (fb_session_experiment). `g` lives until it has ended. */
bool fb_gather_start(fb_gather *g, fb_error *err);

#endif
