/* The workbench: the terminal program around one session. */
#ifndef FB_TUI_VIEW_APP_H
#define FB_TUI_VIEW_APP_H

#include "session/session.h"

#include <stdbool.h>

typedef struct {
    fb_session *session;        /* borrowed */
    const char *path;           /* script or graph to open; NULL: the start list */
    const char *keys_file;      /* keys to play (tui/view/keys.h); NULL: none */
    const char *results;        /* a results file to show; NULL: none */
    const char *const *columns; /* what the script is opened with instead of its own columns; borrowed */
    int n_columns;
    bool list; /* start with the list of puzzlers, models and recent files even when there is a path */
} fb_tui_options;

/* Runs until the user quits; returns the exit status: 0, 1 when `path` cannot be opened, 2 when the terminal cannot
 * show a screen. What went wrong stands on stderr in one line, and the terminal is as it was before. */
int fb_tui_main(const fb_tui_options *o);

#endif
