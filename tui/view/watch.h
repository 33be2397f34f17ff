/* Watches a script, and whatever Lua lies beside it, for being saved; and other files with it. */
#ifndef FB_TUI_VIEW_WATCH_H
#define FB_TUI_VIEW_WATCH_H

#include <stdbool.h>

typedef struct fb_watch fb_watch;

typedef struct {
    bool script, other;
} fb_saved;

fb_watch *fb_watch_new(const char *path); /* `path` NULL, or no file: no script. NULL: nothing can be watched here */
void fb_watch_free(fb_watch *w);
void fb_watch_add(fb_watch *w, const char *path); /* another file, absolute; once is enough */
int fb_watch_fd(const fb_watch *w);               /* to be polled; -1 for NULL */
fb_saved fb_watch_saved(fb_watch *w);             /* what was, since this was last asked */

#endif
