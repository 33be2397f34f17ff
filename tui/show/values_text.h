/* A tensor in words, as the command and the view show it: measure/values.h has what is shown. */
#ifndef FB_TUI_SHOW_VALUES_TEXT_H
#define FB_TUI_SHOW_VALUES_TEXT_H

#include "base/str.h"
#include "measure/values.h"

/* Elements of i64 and bool as whole numbers. */
void fb_show_value(fb_dtype dtype, double x, fb_str *out);
/* "tanh  f32[1024,256]  262144 elements, stored by layer_norm_tanh" */
void fb_show_values_head(const fb_values *v, fb_str *out);
/* The statistics by their names: how many; 0 … n - 1. */
int fb_show_values_statistics(void);
const char *fb_show_values_statistic(const fb_values *v, int i, fb_str *out); /* its name; the figure is appended */
/* The error against the reference, a line each ended by a newline. */
void fb_show_values_error(const fb_values *v, fb_str *out);
/* Where bin `k` of the histogram begins, and the share of the fullest bin that it holds; false: there is no histogram,
 * for all elements are alike, or none is finite. */
bool fb_show_values_bin(const fb_values *v, int k, double *from, double *share);

#endif
