/* What the user made of a script's columns, kept: those dropped until u brings them back, all of them across runs. In
 * $XDG_STATE_HOME/fusebox, a file a script: {"fusebox": 1, "script": path, "focus": 0, "columns": [fb_session_keep,
 * …]}.
 */
#ifndef FB_TUI_VIEW_KEEP_H
#define FB_TUI_VIEW_KEEP_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct fb_app fb_app;

/* The file "WHAT-….ENDING" that is the open script's own; false: there is no script, or no place for it. */
bool fb_keep_path(const fb_app *app, const char *what, const char *ending, char *to, size_t room);

/* Drops the column and keeps it; and the last one dropped again: false where there is none. */
void fb_keep_drop(fb_app *app, int column);
bool fb_keep_bring_back(fb_app *app);
void fb_keep_free(fb_app *app);

/* Writes the columns where the user changed something; false: they could not be written. */
bool fb_keep_save(fb_app *app, fb_error *err);
/* … before the script is left. False: not kept, which is said; asked once more it is true. */
bool fb_keep_leave(fb_app *app);
/* The columns as they were left; false: nothing was kept, or it is damaged, which is said. */
bool fb_keep_restore(fb_app *app);
/* The text of such a file, whose columns are a list that is not empty: a new reference, or NULL with the reason. */
json_t *fb_keep_parse(const char *text, size_t n, fb_error *err);
void fb_keep_forget(fb_app *app); /* the next start has the script's own */

#endif
