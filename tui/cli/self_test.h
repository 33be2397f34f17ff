/* fusebox devices --self-test. */
#ifndef FB_TUI_CLI_SELF_TEST_H
#define FB_TUI_CLI_SELF_TEST_H

#include "tui/cli/cli.h"

/* Compares one plan with itself on the device of `cli` (default: the session's), `times` times in all at three sizes,
 * and prints what the comparisons said of it, by the deviation of a pair; so also when it is interrupted. `out`: a
 * results file that gets a row of each, and of which a second run takes those that it holds; NULL: none. The exit
 * status. */
int fb_self_test(fb_cli *cli, int times, const char *out);

#endif
