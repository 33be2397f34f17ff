/* A report as one self-contained HTML file: columns, bars, roofline, plans and sources; light and dark as the reader's
 * system is. Nothing is loaded from anywhere. */
#ifndef FB_TUI_CLI_HTML_H
#define FB_TUI_CLI_HTML_H

#include "tui/cli_output.h"

/* Of the rows in `o`; plans and sources of the session's columns as they are now. */
void fb_html_print(const fb_output *o, const fb_session *s, FILE *out);

#endif
