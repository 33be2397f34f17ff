/* What a process of ours may do, by its role: one table (confine.c) of system calls and files.
 *
 *     script      reads and writes what it holds open; anything else ends it
 *     reference   computes, reads files, writes where it is told; no program, no network, no terminal, nobody
 *                 else's process
 *     kernels     the same, of the process that runs generated kernels on this machine's processors
 *     driver      of a process that runs them through a driver, whose devices and files stay open to it: no program,
 *                 no network
 *     compiler    a compiler and what it starts: writes where it is told, reads where headers and compilers lie, no
 *                 network
 *
 * System calls are filtered by seccomp, files by Landlock. Where the kernel, or a container, has one of them not, the
 * other holds alone; fb_confinement_text says so. What was entered holds for good, and for all that the process starts.
 *
 *     fb_confinement *c = fb_confine_prepare(FB_ROLE_REFERENCE, &folders, &err);
 *     unsigned holds = fb_confine_enter(c);
 *
 * FUSEBOX_CONFINE=no in the environment turns all but the script's off, for a compiler that needs more.
 *
 * Preparing allocates; entering makes system calls and nothing else, so that it may stand between fork and exec. */
#ifndef FB_BASE_CONFINE_H
#define FB_BASE_CONFINE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum { FB_ROLE_SCRIPT, FB_ROLE_REFERENCE, FB_ROLE_KERNELS, FB_ROLE_DRIVER, FB_ROLE_COMPILER, FB_ROLES } fb_role;

/* Folders and files by their paths, each with all below it; what is not there is passed over. */
typedef struct {
    const char *const *write;
    int n_write;
    const char *const *read; /* for the roles that may not read everything */
    int n_read;
} fb_confine_places;

enum { FB_HOLDS_CALLS = 1, FB_HOLDS_FILES = 2 };

typedef struct fb_confinement fb_confinement;

/* Never NULL: a filter that cannot be made is left out, and *err, which may be NULL, says why. Free with
 * fb_confine_free. Borrows the paths. */
fb_confinement *fb_confine_prepare(fb_role role, const fb_confine_places *places, fb_error *err);
/* Of the calling process; system calls for all its threads, files for this one and those it starts. What holds from
 * here on: flags as above. errno is that of a filter that was refused. */
unsigned fb_confine_enter(const fb_confinement *c);
void fb_confine_free(fb_confinement *c);

/* Both at once. */
unsigned fb_confine(fb_role role, const fb_confine_places *places);

/* What this kernel has, without entering anything: flags, and in words "system calls, network, files (Landlock 7)" or
 * what is missing. `missing` may be NULL. */
unsigned fb_confinement_there(char text[160], bool *missing);

#endif
