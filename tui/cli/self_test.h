/* fusebox devices --self-test. */
#ifndef FB_TUI_CLI_SELF_TEST_H
#define FB_TUI_CLI_SELF_TEST_H

#include "tui/cli/cli.h"

/* Measures one plan beside itself on the device of `cli` (default: the session's), `times` times at each of three
 * sizes, and prints what the comparison said of it, by the deviation of a pair. The exit status. */
int fb_self_test(fb_cli *cli, int times);

#endif
