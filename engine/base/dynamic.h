/* A library opened at run time, under whichever of its names is there: what cannot be had is said, never needed. */
#ifndef FB_BASE_DYNAMIC_H
#define FB_BASE_DYNAMIC_H

#include "base/error.h"

#include <stddef.h>

/* Takes from the library what is needed. NULL, or what it lacks: then the next name is tried. */
typedef const char *fb_dynamic_bind(void *handle);

/* The first of `names` that can be opened and bound, never closed again; `file` takes the file that the loader chose,
 * printable. NULL with FB_ERR_UNAVAILABLE and "MISSING; tried NAME, NAME (has no SYMBOL)". */
void *fb_dynamic_open(const char *const *names, size_t n, fb_dynamic_bind *bind, const char *missing, char file[256],
                      fb_error *err);

/* A function that is wanted of a library, and where its pointer goes. */
typedef struct {
    const char *symbol;
    void *to;
} fb_dynamic_function;
/* Takes all n of them; NULL, or the first that the library lacks. */
const char *fb_dynamic_take(void *handle, const fb_dynamic_function *wanted, size_t n);

#endif
