/* The processes that a process has started and that were not waited for, ended or not, the youngest last. */
#ifndef FB_TESTS_CHILDREN_H
#define FB_TESTS_CHILDREN_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Adds them to the *n that `to` holds, `most` at most in all; false where this kernel does not tell. */
static inline bool add_children(pid_t of, pid_t *to, int most, int *n)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)of, (int)of);
    FILE *f = fopen(path, "r");
    while (f && *n < most && fscanf(f, "%d", &child) == 1) to[(*n)++] = child;
    if (f) fclose(f);
    return f != NULL;
}

#endif
