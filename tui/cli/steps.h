/* The record of a preset's decisions, printed. */
#ifndef FB_TUI_CLI_STEPS_H
#define FB_TUI_CLI_STEPS_H

#include "session/session.h"

#include <stdio.h>

/* Of every column; false with the reason where one has none. */
bool fb_cli_steps(const fb_session *s, bool json, FILE *out, fb_error *err);
#endif
