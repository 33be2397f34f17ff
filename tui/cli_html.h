/* A report as one self-contained HTML file: columns, bars, roofline, plans and sources; light and dark as the reader's
 * system is. Nothing is loaded from anywhere. And its pictures (tui/picture.h) as SVG on their own. */
#ifndef FB_TUI_CLI_HTML_H
#define FB_TUI_CLI_HTML_H

#include "tui/cli_output.h"

/* What is shown of a column besides its row, the picture of its plan and its source: taken while the column is there,
 * since the next case of a sweep takes its place. A new reference; JSON null where it has no plan of ours. */
json_t *fb_html_column(const fb_column *c);

/* `kept`: an array of them, one a row of `o`. */
void fb_html_print(const fb_output *o, const json_t *kept, const char *title, FILE *out);
/* All pictures as one document. */
void fb_svg_print(const fb_output *o, const json_t *kept, FILE *out);
/* Each as a file in a folder, which is made where it is not there: kernels.svg, roofline.svg, scatter.svg, and
 * plan-N.svg of row N. */
bool fb_svg_write(const fb_output *o, const json_t *kept, const char *folder, fb_error *err);

#endif
