/* Framework's columns in `explain` and `emit`: they are compiled first, and not timed. */
#ifndef FB_TUI_CLI_THEIRS_H
#define FB_TUI_CLI_THEIRS_H

#include "session/session.h"

/* Is there a column that a framework plans? */
bool fb_cli_any_theirs(const fb_session *s);
/* Has them compiled; then prints each such column's kernels, and beside them how every column of ours differs. Or their
 * sources. Returns the exit status. */
int fb_cli_theirs(fb_session *s, bool sources);

#endif
