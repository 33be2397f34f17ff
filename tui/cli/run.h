/* Results files on the command line: `fusebox RESULTS.jsonl` prints the table of what it holds. */
#ifndef FB_TUI_CLI_RUN_H
#define FB_TUI_CLI_RUN_H

#include <stdbool.h>

bool fb_cli_is_results(const char *path);
int fb_cli_show_results(const char *path); /* the exit status */

#endif
