/* A program of ours that runs beside the workbench, and what it prints: compilers take longer than a key may. */
#ifndef FB_TUI_VIEW_HELPER_H
#define FB_TUI_VIEW_HELPER_H

#include "base/error.h"
#include "base/str.h"

typedef struct fb_helper fb_helper;

/* argv[0] is this binary's own path; ended by NULL. Its stdout and stderr are read together. */
fb_helper *fb_helper_start(const char *const *argv, fb_error *err);
void fb_helper_free(fb_helper *h);    /* ends it if it still runs; NULL is fine */
int fb_helper_fd(const fb_helper *h); /* to be polled; -1 once it has ended */
/* Reads what is there. True once it has ended. */
bool fb_helper_pump(fb_helper *h);
const char *fb_helper_text(const fb_helper *h);

#endif
