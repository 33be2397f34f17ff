/* The script's experiment in the workbench: it runs behind the panes, and its rows stand in a results file of the
 * script's own as soon as they are there, so that the next run goes on where one stopped. */
#ifndef FB_TUI_VIEW_SWEEP_H
#define FB_TUI_VIEW_SWEEP_H

#include "session/gather.h"

#include <limits.h>

typedef struct fb_app fb_app;

typedef struct {
    fb_gather of;        /* its rows and plots; those of the last run until the next begins */
    char file[PATH_MAX]; /* where rows are kept; "": nowhere, which was said */
    bool begun, runs;    /* runs: as last seen */
    uint64_t run;        /* how many times it was begun: rows of one run are only added to */
    fb_error ended;      /* how the last run did */
} fb_sweep;

/* Begins it, or goes on with it: what the file holds is not measured again, unless it failed. `file` "": the script's
 * own in $XDG_STATE_HOME/fusebox. Says why it cannot. */
void fb_sweep_start(fb_app *app, const char *file);
void fb_sweep_follow(fb_app *app); /* the session changed: tells when it has ended */
void fb_sweep_forget(fb_app *app); /* another script comes, or none */
/* "12 rows · max@host  compiling 3 of 7" while it runs; false: it does not. */
bool fb_sweep_progress(const fb_app *app, fb_str *text);
/* Parameters as they were, and the column of the row, which is added where it is not there. */
void fb_sweep_open_case(fb_app *app, const json_t *row);
void fb_sweep_export(fb_app *app, const char *path); /* rows and plots, by the name's ending; says how it went */

#endif
