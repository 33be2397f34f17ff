/* Names that users type: what they may have meant, and columns taken apart. */
#ifndef FB_SESSION_NAMES_H
#define FB_SESSION_NAMES_H

#include "base/error.h"

/* The known name nearest to `name` by edits of one letter, or NULL when none is near. */
const char *fb_nearest(const char *name, const char *const *known, int n);

/* Fails with "no WHAT "name"; did you mean "near"?" or, when none is near, with the list. */
bool fb_fail_unknown(fb_error *err, fb_error_kind kind, const char *what, const char *name, const char *const *known,
                     int n);

/* [VARIANT:]PLAN[@DEVICE] taken apart; each part is NULL where it is not given, and freed by fb_column_spec_free. */
typedef struct {
    char *variant, *plan, *device;
} fb_column_spec;

bool fb_column_spec_parse(const char *text, fb_column_spec *out, fb_error *err);
void fb_column_spec_free(fb_column_spec *spec);

#endif
