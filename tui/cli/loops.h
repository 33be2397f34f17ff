/* Steps that are written out, and what their loops have in common. */
#ifndef FB_TUI_CLI_LOOPS_H
#define FB_TUI_CLI_LOOPS_H

#include "session/session.h"

#include <stdio.h>

/* What is a loop in each column, or nearly, and how each one's loops stand to the first one's. */
void fb_cli_loops(const fb_session *s, bool json, FILE *out);

#endif
