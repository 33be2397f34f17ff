/* Puts bad kernels where good ones are expected: every cubin in the cache under XDG_CACHE_HOME, for an architecture, is
 * replaced by one whose kernel has the same entry and does something bad. So that faults can be had without a hook in
 * the program: run a plan once, poison the cache, run it again.
 *
 *     poison_cache address|endless|trap
 *
 * Entry and architecture are read from ptxas's report, which lies beside each cubin. A kernel without parameters can
 * stand in for any: none are copied at the launch. Exit status 77 without NVRTC; 1 when there was nothing to poison. */
#include "base/checked.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "device/cuda/compile.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *body;
} faults[] = {
    {"address", "*(volatile int *)0x10 = 1;"},
    {"endless", "for (;;) asm volatile(\"nanosleep.u32 1000;\");"},
    {"trap", "asm volatile(\"trap;\");"},
};

static const char *body_of(const char *name)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (strcmp(faults[i].name, name) == 0) return faults[i].body;
    return NULL;
}

/* ptxas info : Compiling entry function 'ENTRY' for 'sm_90' */
static bool entry_of(const char *log, char entry[128], char arch[16])
{
    const char *at = strstr(log, "Compiling entry function '");
    return at && sscanf(at, "Compiling entry function '%127[^']' for '%15[^']'", entry, arch) == 2;
}

static int poisoned;

static bool poison(const char *log_path, const char *body, fb_error *err)
{
    size_t n = strlen(log_path), n_log;
    char path[4096], entry[128], arch[16], source[1024];
    snprintf(path, sizeof path, "%.*scubin", (int)(n - 3), log_path);
    if (access(path, W_OK) != 0) return true; /* PTX, made for a look at it */
    char *log = fb_checked_read(log_path, fb_file_name(log_path), 1 << 20, &n_log);
    if (!log) return fb_fail(err, FB_ERR_SYSTEM, "%s is damaged", log_path);
    bool known = entry_of(log, entry, arch);
    fb_free(log);
    if (!known) return true;                        /* of one that kept no report */
    if (strncmp(entry, "fb_", 3) == 0) return true; /* what fusebox looks at memory with is no kernel of a plan */
    snprintf(source, sizeof source, "extern \"C\" __global__ void %s() { %s }\n", entry, body);
    fb_cuda_code code;
    if (!fb_cuda_compile(source, entry, arch, FB_CUBIN, &code, err)) return false;
    bool good = fb_checked_write(path, fb_file_name(path), code.bytes, code.n, err);
    if (good) printf("# %s for %s\n", entry, arch);
    poisoned += good;
    fb_cuda_code_clear(&code);
    return good;
}

int main(int argc, char **argv)
{
    const char *body = argc == 2 ? body_of(argv[1]) : NULL, *cache = getenv("XDG_CACHE_HOME");
    if (!body || !cache) return fprintf(stderr, "usage: XDG_CACHE_HOME=… poison_cache address|endless|trap\n"), 2;
    char pattern[4096], own[4096];
    snprintf(pattern, sizeof pattern, "%s/fusebox/cuda/*.log", cache);
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) return fprintf(stderr, "poison_cache: no cubin under %s\n", cache), 1;
    snprintf(own, sizeof own, "%s/poison", cache); /* the bad kernels' own, so that they are no entries of the cache */
    setenv("XDG_CACHE_HOME", own, 1);
    fb_error err = {0};
    bool good = true;
    for (size_t i = 0; good && i < found.gl_pathc; i++) good = poison(found.gl_pathv[i], body, &err);
    globfree(&found);
    if (!good) fprintf(stderr, "poison_cache: %s\n", err.text);
    if (good && !poisoned) return fprintf(stderr, "poison_cache: no cubin with a report under %s\n", cache), 1;
    return good ? 0 : err.kind == FB_ERR_UNAVAILABLE ? 77 : 1;
}
