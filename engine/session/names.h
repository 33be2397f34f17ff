/* Names that users type: columns taken apart (base/near.h finds what a misspelt one may mean). */
#ifndef FB_SESSION_NAMES_H
#define FB_SESSION_NAMES_H

#include "base/near.h"

/* [VARIANT:]PLAN[@DEVICE][#VALUES] taken apart; each part is NULL where it is not given, and freed by
 * fb_column_spec_free. */
typedef struct {
    char *variant, *plan, *device, *values;
} fb_column_spec;

bool fb_column_spec_parse(const char *text, fb_column_spec *out, fb_error *err);
void fb_column_spec_free(fb_column_spec *spec);
/* Is a column with these values (NULL: noise) what the spec says? */
bool fb_column_spec_has(const fb_column_spec *spec, const char *values);

#endif
