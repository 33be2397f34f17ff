/* Watches a script, and whatever Lua lies beside it, for being saved. */
#ifndef FB_TUI_WATCH_H
#define FB_TUI_WATCH_H

#include <stdbool.h>

typedef struct fb_watch fb_watch;

fb_watch *fb_watch_new(const char *path); /* NULL: it cannot be watched, as where it is no file */
void fb_watch_free(fb_watch *w);
int fb_watch_fd(const fb_watch *w); /* to be polled; -1 for NULL */
bool fb_watch_saved(fb_watch *w);   /* since this was last asked */

#endif
