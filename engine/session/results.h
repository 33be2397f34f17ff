/* Results files: one JSON object a line. A row is a report (measure/report.h), or {"case":{…},"row":{…}} of an
 * experiment. Rows are appended one write each, so that a file is whole after every row and a second run goes on where
 * the first stopped. */
#ifndef FB_SESSION_RESULTS_H
#define FB_SESSION_RESULTS_H

#include "session/session.h"

typedef struct fb_results fb_results;

/* Opens for appending, makes the file if it is missing, and locks it: FB_ERR_UNAVAILABLE while another run writes to
 * it. A last line that was cut short is removed; any other line that is no row is an error with its number. */
fb_results *fb_results_open(const char *path, fb_error *err);
/* The same, only to be read. */
fb_results *fb_results_read(const char *path, fb_error *err);
/* For a file that several processes append to (fb_append_line): lines that are no row are left out. */
fb_results *fb_results_skim(const char *path, fb_error *err);
/* Either of the two of a text; `path` is what errors call it. */
fb_results *fb_results_parse(const char *text, size_t n, const char *path, bool skim, fb_error *err);
void fb_results_close(fb_results *r);

int fb_results_rows(const fb_results *r);
const json_t *fb_results_row(const fb_results *r, int i); /* borrowed */

/* The last row of this case: same script, variant, plan, device, values and parameters, and, where both are known, the
 * same graph and plan. NULL when there is none. Borrowed. */
const json_t *fb_results_find(const fb_results *r, const char *script, const fb_column *c);
/* The row of an experiment's case, or NULL. */
const json_t *fb_results_find_case(const fb_results *r, const json_t *which);

/* Appends one row (borrowed). On failure the file is as it was before. */
bool fb_results_add(fb_results *r, json_t *row, fb_error *err);

#endif
