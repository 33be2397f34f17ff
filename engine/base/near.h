/* What a misspelt name may mean: one way for the command line, the workbench and scripts. */
#ifndef FB_BASE_NEAR_H
#define FB_BASE_NEAR_H

#include "base/error.h"

/* The known name nearest to `name` by edits of one letter, or NULL when none is near. */
const char *fb_nearest(const char *name, const char *const *known, int n);

/* Fails with "no WHAT "name"; did you mean "near"?" or, when none is near, with the list. */
bool fb_fail_unknown(fb_error *err, fb_error_kind kind, const char *what, const char *name, const char *const *known,
                     int n);

#endif
