/* What tests of the real workbench ask of a screen, and the folder that they live in. A test that fails shows the
 * screen. */
#ifndef FB_TESTS_TERMINAL_EXPECT_H
#define FB_TESTS_TERMINAL_EXPECT_H

#include "../unit/own_cache.h"
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 180000 }; /* the machine may be busy */

static inline void must_show(term *t, const char *text)
{
    if (term_wait(t, text, PATIENCE_MS)) return;
    fprintf(stderr, "%s", term_screen(t));
    fail_msg("no \"%s\"%s", text, term_ended(t) ? ": the program has ended" : "");
}

static inline void must_not_show(term *t, const char *text)
{
    if (!term_shows(t, text)) return;
    fprintf(stderr, "%s", term_screen(t));
    fail_msg("\"%s\"", text);
}

/* Until it has gone: of a frame the upper lines may be there before the lower ones, and what is being measured comes in
 * its own time. */
static inline void must_lose(term *t, const char *text)
{
    for (int waited = 0; term_shows(t, text) && waited < PATIENCE_MS; waited += 50) term_rest(t, 50, 50);
    must_not_show(t, text);
}

/* The program ends well and gives the terminal back. */
static inline void end(term *t)
{
    assert_int_equal(term_end(t, PATIENCE_MS), 0);
    assert_true(term_canonical(t) && term_cursor_visible(t) && !term_on_alternate(t));
    term_free(t);
}

static inline void quit(term *t)
{
    term_keys(t, "C-c");
    end(t);
}

/* Makes the folder of that pattern ("/tmp/fb-x-XXXXXX") with a cache of the test's own: into `cache`, as
 * "XDG_CACHE_HOME=…". False when there is none. */
static inline bool own_folder_of(char *folder, char cache[96])
{
    char path[80];
    if (!mkdtemp(folder)) return false;
    snprintf(path, sizeof path, "%.60s/cache", folder);
    own_cache(path);
    snprintf(cache, 96, "XDG_CACHE_HOME=%s", path);
    return true;
}

#endif
