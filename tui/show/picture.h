/* Pictures of results as SVG: a plan's kernels and what flows between them, kernels as bars, the roofline, time against
 * bytes. The same picture stands inside a page (its style is the page's) or in a file of its own, light and dark as the
 * reader's system is. Rows are those of a results file; `devices` is {"host": machine, …} as in the report's JSON. */
#ifndef FB_TUI_SHOW_PICTURE_H
#define FB_TUI_SHOW_PICTURE_H

#include "base/str.h"
#include "measure/report.h"
#include "measure/why.h"
#include "plan/plan.h"

#include <stdio.h>

/* A zeroed picture is empty; fb_picture_free gives it back. Lengths are in pixels. */
typedef struct {
    int w, h;
    fb_str body;
} fb_picture;

void fb_picture_free(fb_picture *p);

/* Each adds to an empty picture and leaves it empty where there is nothing to show. */
void fb_picture_bars(fb_picture *p, const json_t *rows, int only); /* only: one row, without a legend; FB_NONE: all */
void fb_picture_roofline(fb_picture *p, const json_t *rows, const json_t *devices);
void fb_picture_scatter(fb_picture *p, const json_t *rows, const json_t *devices);
/* `report`: what was measured of the plan; NULL: predictions alone. */
void fb_picture_plan(fb_picture *p, const fb_plan *plan, const fb_report *report);

/* Why one column is faster: bars that fall from the first one's time to the second one's. */
void fb_picture_why(fb_picture *p, const fb_why *why, const char *first, const char *second);

/* The style that pictures in a page need: rules of CSS. */
void fb_picture_style(fb_str *out);
void fb_picture_inline(const fb_picture *p, const char *label, fb_str *out);
/* A document of one or more pictures, one below the other under their titles; empty ones are left out. */
void fb_picture_document(const fb_picture *pictures, const char *const *titles, int n, fb_str *out);

/* ---- for what draws them ---- */

enum { FB_PICTURE_COLOURS = 8 };

/* "3  split_stack:max@host  batch_size=128", with the parameters that `params` has a key for: those that vary, where
 * the others are told once. */
void fb_picture_row_name(const json_t *row, int number, const json_t *params, fb_str *out);
/* What the element that was just opened says under the pointer. */
void fb_picture_hover(fb_picture *p, const char *text);
/* `anchor`: "start", "middle" or "end"; `most`: pixels, longer text is cut with "…" (0: as long as it is). */
void fb_picture_text(fb_picture *p, double x, double y, const char *class, const char *anchor, int most,
                     const char *text);
/* Where a plot's axes meet and end. */
typedef struct {
    int left, right, top, bottom;
} fb_picture_frame;
/* A thin line across the frame at `at` pixels, and its text left of it (vertical: on the y axis) or below. */
void fb_picture_tick(fb_picture *p, const fb_picture_frame *frame, bool vertical, double at, const char *text);
int fb_picture_text_width(const char *text); /* of the usual size, as good as that can be known */

void fb_picture_legend(fb_picture *p); /* of figures that are no measurements */

#endif
