/* The cache of one test: a folder of its own, so that it finds nothing another has left. What kernels were compiled to
 * is shared where FB_TEST_COMPILED names a folder, for devices name it by all that it depends on, and what was compiled
 * once need not be in every test. */
#ifndef FB_TESTS_OWN_CACHE_H
#define FB_TESTS_OWN_CACHE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* `dir` is made if it is missing, in a folder that exists. */
static inline void own_cache(const char *dir)
{
    static const char *const shared[] = {"host", "cuda"};
    const char *compiled = getenv("FB_TEST_COMPILED");
    char path[512], target[4096];
    mkdir(dir, 0700);
    setenv("XDG_CACHE_HOME", dir, 1);
    if (!compiled || !*compiled) return;
    snprintf(path, sizeof path, "%s/fusebox", dir);
    mkdir(path, 0700);
    mkdir(compiled, 0700);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        snprintf(target, sizeof target, "%s/%s", compiled, shared[i]);
        snprintf(path, sizeof path, "%s/fusebox/%s", dir, shared[i]);
        mkdir(target, 0700);
        /* a folder that is used a second time has it already */
        if (symlink(target, path) < 0 && access(path, F_OK) < 0) perror(path);
    }
}

/* The same, with nothing in it: for tests of compiling itself. */
static inline void empty_cache(const char *dir)
{
    mkdir(dir, 0700);
    setenv("XDG_CACHE_HOME", dir, 1);
}

#endif
