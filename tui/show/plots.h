/* What an experiment plots (e:plot) of its rows, as text and as pictures.
 *
 * { y = "vectors_per_s", low = …, high = … } is a ranking: a bar a row, the largest first, with the spread from `low`
 * to `high` where rows hold those; before it, where there is a choice, stands the largest of each model. { x = "N", y =
 * "us", by = "plan", log = "xy" } is a line through the rows of each value of `by`; `by` may be several keys. Keys are
 * those of rows, cases and parameters; rows without y are left out.
 */
#ifndef FB_TUI_SHOW_PLOTS_H
#define FB_TUI_SHOW_PLOTS_H

#include "tui/show/figure.h"
#include "tui/show/picture.h"
#include "tui/show/points.h"
#include "tui/show/table.h"

/* `rows`: {"case", "row"} each. The rankings among `plots`; lines are for pictures. */
void fb_plots_print(const json_t *plots, const json_t *rows, FILE *out);

/* One picture for each plot, empty where no row has what it shows, with a title each; returns how many. fb_plots_drop
 * gives all back. */
int fb_plots_draw(const json_t *plots, const json_t *rows, fb_picture **pictures, char ***titles);
void fb_plots_drop(fb_picture *pictures, char **titles, int n);
/* The same in one document. */
void fb_plots_svg(const json_t *plots, const json_t *rows, fb_str *out);

#endif
