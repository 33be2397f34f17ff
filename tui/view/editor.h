/* The user's editor, $VISUAL or $EDITOR: it has the terminal until it ends, while the session goes on behind it and
 * what it saves is taken at once. */
#ifndef FB_TUI_VIEW_EDITOR_H
#define FB_TUI_VIEW_EDITOR_H

#include <stdbool.h>

typedef struct fb_app fb_app;

typedef enum { FB_EDITOR_DONE, FB_EDITOR_NONE, FB_EDITOR_FAILED } fb_editor_end; /* NONE: neither names one */

fb_editor_end fb_editor_run(fb_app *app, const char *path);
const char *fb_editor_command(void); /* NULL: there is none */

/* The script in the editor; a bundled one as a copy in $XDG_DATA_HOME/fusebox, which is opened. */
void fb_edit_script(fb_app *app, const char *arg);

#endif
