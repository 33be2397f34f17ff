/* Under the address sanitizer what was freed is kept for a while, which would look like growth: the program that is
 * started next keeps none. */
#ifndef FB_TESTS_PLAIN_MEMORY_H
#define FB_TESTS_PLAIN_MEMORY_H

#include <stdio.h>
#include <stdlib.h>

static inline void plain_memory(void)
{
    char text[512];
    const char *given = getenv("ASAN_OPTIONS");
    snprintf(text, sizeof text, "%s%squarantine_size_mb=1:thread_local_quarantine_size_kb=64", given ? given : "",
             given && *given ? ":" : "");
    setenv("ASAN_OPTIONS", text, 1);
}

#endif
