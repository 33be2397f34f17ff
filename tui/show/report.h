/* A report as one self-contained HTML file to hand out: the puzzle with what it hides folded, columns, waterfalls,
 * bars, roofline, plans side by side, sources and their differences; light and dark as the reader's system is, and
 * white on paper. Nothing is loaded from anywhere, and nothing runs in it. And its pictures (tui/show/picture.h) as SVG
 * on their own.
 */
#ifndef FB_TUI_SHOW_REPORT_H
#define FB_TUI_SHOW_REPORT_H

#include "tui/show/kept.h"
#include "tui/show/output.h"

/* `kept`: tui/show/kept.h, of the rows of `o`; `info`: of the script, NULL where it is not known. */
void fb_html_print(const fb_output *o, const json_t *kept, const fb_script_info *info, FILE *out);

/* What every page has: its head with the style, the kinds of figures of its rows, and its end, which writes it. */
void fb_page_open(fb_html *h, const char *title);
void fb_page_header(fb_html *h, const fb_output *o, const fb_script_info *info, const char *title);
void fb_page_picture(fb_html *h, fb_picture p, const char *label);
void fb_page_kinds(fb_html *h, const json_t *rows);
void fb_page_devices(fb_html *h, const json_t *devices); /* a line each: its name, its calibration or recording */
/* The puzzle with its hints and answer folded; `answers` false: the question alone, as on a sheet of questions. */
void fb_page_puzzle(fb_html *h, const fb_output *o, const json_t *kept, const fb_puzzle *puzzle, bool answers);
void fb_page_close(fb_html *h, FILE *out); /* frees it */

/* ---- tui/show/report_cases.c ---- */

/* An experiment: its plots, its rows with the kind of each, and what the signs mean. */
void fb_html_print_cases(const fb_output *o, const fb_script_info *info, FILE *out);

/* ---- tui/show/report_pictures.c ---- */

/* All pictures as one document. */
void fb_svg_print(const fb_output *o, const json_t *kept, FILE *out);
/* Each as a file in a folder, which is made where it is not there: kernels.svg, roofline.svg, scatter.svg, and of rows
 * plan-N.svg, and why-A-B.svg of two of them. */
bool fb_svg_write(const fb_output *o, const json_t *kept, const char *folder, fb_error *err);

/* The pictures of all rows together: a name for files, a heading, what is below it. */
enum { FB_SHEET_KERNELS, FB_SHEET_ROOFLINE, FB_SHEET_SCATTER, FB_SHEETS };
typedef struct {
    const char *name, *title, *below;
} fb_sheet;
extern const fb_sheet fb_sheets[FB_SHEETS];
void fb_sheets_draw(const fb_output *o, fb_picture to[FB_SHEETS]); /* the caller frees each */

#endif
