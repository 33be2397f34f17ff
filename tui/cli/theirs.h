/* Framework's columns in `explain` and `emit`: they are compiled first, and not timed. */
#ifndef FB_TUI_CLI_THEIRS_H
#define FB_TUI_CLI_THEIRS_H

#include "session/session.h"

/* Is there a column that a framework plans? */
bool fb_cli_any_theirs(const fb_session *s);
/* Has them compiled; then prints each such column's kernels, and beside them how every column of ours differs. Or their
 * sources. Returns the exit status. */
int fb_cli_theirs(fb_session *s, bool sources);
/* How far the kernels of columns a and b are alike, where one is a framework's and told its plan, and the other ours;
 * both were measured. False: there is nothing to say. `out` gets a sentence. */
bool fb_cli_theirs_beside(const fb_session *s, int a, int b, fb_str *out);

#endif
