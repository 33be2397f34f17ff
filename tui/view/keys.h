/* Keys played from a file, for demonstrations and tests. Blank-separated: names of keys as in the help ("j", "C-r",
 * "PgDn"), "text in quotes" typed as it stands (\" and \\ inside), @500 waits that many milliseconds, @idle waits until
 * nothing is being measured; # starts a comment. */
#ifndef FB_TUI_VIEW_KEYS_H
#define FB_TUI_VIEW_KEYS_H

#include "base/error.h"

typedef struct fb_keys fb_keys;

fb_keys *fb_keys_read(const char *path, fb_error *err); /* the error names file and line */
/* The same of a text; errors begin with "WHAT:line". */
fb_keys *fb_keys_parse(const char *text, const char *what, fb_error *err);
void fb_keys_free(fb_keys *k);
/* The next key, or FB_KEY_NONE when it has to wait: *wait_ms is how long, -1 until the session is idle. After the last
 * key *ended is set. */
int fb_keys_next(fb_keys *k, bool idle, int *wait_ms, bool *ended);

#endif
