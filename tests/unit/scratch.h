/* A folder of a test program's own, which goes when it ends: set_up and tear_down of its group. */
#ifndef FB_TESTS_SCRATCH_H
#define FB_TESTS_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>

static char scratch[64];

/* A file's path in it, until the next call. */
static inline const char *in_scratch(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

static int make_scratch(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%.40s/fusebox-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(scratch) ? 0 : -1;
}

/* Processes that were killed may have children that end a moment later, and make a folder meanwhile. */
static int remove_scratch(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof command,
             "for i in $(seq 60); do rm -rf '%s' 2>/dev/null && exit 0; sleep 1; done; exec rm -rf '%s'", scratch,
             scratch);
    return system(command);
}

#endif
