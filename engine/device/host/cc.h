/* The host's compiler: C text → shared object → dlopen, through the disk cache. Private to the host device.
 *
 * A unit is the text of one kernel. Units that are not in the cache are compiled together, a few as one translation
 * unit, in as many processes as there are cores; what is made of a kernel does not depend on which others those are. A
 * unit of the user's own is a translation unit by itself. Each unit then has a cache entry of its own (hard links to
 * the object that holds it), so that a changed plan compiles the kernels that changed and nothing else.
 */
#ifndef FB_DEVICE_HOST_CC_H
#define FB_DEVICE_HOST_CC_H

#include "base/error.h"
#include "device/device.h"

typedef struct fb_cc fb_cc;

typedef struct {
    const char *name; /* for messages: the kernel's name */
    const char *source;
    const char *file; /* the name of the user's file that it is; NULL: generated */
    bool lightly;     /* with few optimisations, which is soon done; alike in all of a load */
} fb_cc_unit;

/* $CC, else the first of cc, gcc, clang. NULL with FB_ERR_UNAVAILABLE and what to install when there is none. */
fb_cc *fb_cc_find(fb_error *err);
void fb_cc_free(fb_cc *cc);
const char *fb_cc_command(const fb_cc *cc); /* "gcc -m64" */
const char *fb_cc_version(const fb_cc *cc); /* first line of --version */
/* For compilers without an OpenMP library: loops then run on one core. */
void fb_cc_without_openmp(fb_cc *cc);

/* For a process that will be confined: compilers are started by one apart, which starts nothing else. */
typedef struct {
    char path[2048];    /* a folder of its own to compile in where the cache has no room; "": none */
    bool shared_memory; /* what is compiled needs that */
} fb_cc_place;
/* Removes folders to compile in that nobody uses any more. */
void fb_cc_sweep(void);
bool fb_cc_apart(fb_cc_place *to, fb_error *err);

/* Loads every unit, compiling `prelude` + source where the cache has none: handles[i] (from dlopen; the caller closes
 * each) holds unit i. *ms is the time compiling took, 0 when all came from the cache. */
bool fb_cc_load(fb_cc *cc, const char *prelude, const fb_cc_unit *units, int n, const fb_progress *progress,
                void **handles, double *ms, fb_error *err);

#endif
