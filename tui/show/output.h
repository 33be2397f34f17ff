/* Rows of results on stdout: reports of columns, or rows of an experiment, in every format. A row is the JSON of a
 * results file (session/results.h), so that what was measured now and what a file holds are printed by the same code.
 */
#ifndef FB_TUI_SHOW_OUTPUT_H
#define FB_TUI_SHOW_OUTPUT_H

#include "base/str.h"
#include "session/session.h"
#include "tui/show/html.h"
#include "tui/show/table.h"

typedef struct {
    const char *script;
    json_t *rows;    /* array of reports */
    json_t *cases;   /* array of {"case","row"} of an experiment; may be empty */
    json_t *plots;   /* array of what the experiment plots; may be empty */
    json_t *devices; /* {"host": {…}} of those that occur */
} fb_output;

void fb_output_init(fb_output *r, const char *script);
void fb_output_free(fb_output *r);
/* Adds the device of a report to `devices`; `s` may be NULL (a results file). */
void fb_output_device(fb_output *r, const fb_session *s, const char *device);

/* "replay:h200: NVIDIA H200 · calibrated 2026-07-01": what `devices` tells of one. */
void fb_output_device_text(const char *device, const json_t *told, fb_str *out);

/* The first row with the same parameters, which the others are compared with. */
const json_t *fb_output_base(const json_t *rows, const json_t *row);
/* How many times as fast as `first`, "-" with the reason where that says nothing (`why`; else NULL), "" where a time is
 * not known. Into `to`, returned. */
const char *fb_output_against(const json_t *first, const json_t *row, char to[48], const char **why);
void fb_output_legend(FILE *out); /* what the signs of figures mean */

/* A cell of an experiment's row (fb_plot_flat) as people read it, with the sign of its kind. */
void fb_output_case_cell(const fb_output *r, const json_t *flat, const char *name, fb_str *out);

void fb_output_print(const fb_output *r, fb_format format, FILE *out);
/* The table of columns as part of a page, with the numbers that pictures call its rows by and a sentence on every
 * heading, and what is to be said below it but for the kinds of figures. */
void fb_output_html(const fb_output *r, fb_html *h);

#endif
