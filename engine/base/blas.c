/* Finds the CBLAS among the libraries that may be there and takes its functions by name, once a process. Leaves a
 * table of functions, or nothing where there is no library. */
#include "base/blas.h"

#include "base/str.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Best first. A plain libblas often carries the cblas_ names too (Debian's does); elsewhere they are in libcblas. */
static const char *const candidates[] = {"libopenblas.so.0", "libopenblas.so", "libblas.so.3", "libcblas.so.3"};

#define ENTRY(field, symbol, must)                                                                                     \
    {                                                                                                                  \
        offsetof(fb_blas, field), symbol, must                                                                         \
    }
static const struct {
    size_t offset; /* of the function pointer in fb_blas */
    const char *symbol;
    bool required;
} entries[] = {
    ENTRY(sgemm, "cblas_sgemm", true),
    ENTRY(dgemm, "cblas_dgemm", true),
    ENTRY(sgemv, "cblas_sgemv", true),
    ENTRY(dgemv, "cblas_dgemv", true),
    ENTRY(set_num_threads, "openblas_set_num_threads", false),
    ENTRY(get_num_threads, "openblas_get_num_threads", false),
};
#undef ENTRY

/* What fb_blas_get found, written once under `once` and only read afterwards. */
static struct {
    pthread_once_t once;
    bool found;
    fb_blas blas;
    char library[256], description[256];
    fb_error error;
} state = {.once = PTHREAD_ONCE_INIT};

/* NULL, or the first required name that the library lacks. */
static const char *bind_entries(void *handle, fb_blas *blas)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *symbol = dlsym(handle, entries[i].symbol);
        if (!symbol && entries[i].required) return entries[i].symbol;
        memcpy((char *)blas + entries[i].offset, &symbol, sizeof symbol);
    }
    return NULL;
}

static void describe(void *handle, const char *name)
{
    Dl_info info;
    const char *file = dladdr(dlsym(handle, "cblas_dgemm"), &info) && info.dli_fname ? info.dli_fname : name;
    fb_text_clean(state.library, sizeof state.library, file, strlen(file));

    void *symbol = dlsym(handle, "openblas_get_config");
    char *(*get_config)(void) = NULL;
    memcpy(&get_config, &symbol, sizeof symbol);
    const char *config = get_config ? get_config() : state.library;
    fb_text_clean(state.description, sizeof state.description, config, strlen(config));
}

static void open_library(void)
{
    fb_str tried = {0};
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates && !state.found; i++) {
        void *handle = dlopen(candidates[i], RTLD_NOW | RTLD_LOCAL);
        const char *missing = handle ? bind_entries(handle, &state.blas) : NULL;
        if (!handle) {
            fb_str_addf(&tried, "%s%s", tried.n ? ", " : "", candidates[i]);
        } else if (missing) {
            fb_str_addf(&tried, "%s%s (has no %s)", tried.n ? ", " : "", candidates[i], missing);
            dlclose(handle);
        } else {
            describe(handle, candidates[i]);
            state.found = true;
        }
    }
    if (!state.found)
        fb_fail(&state.error, FB_ERR_UNAVAILABLE, "no BLAS library was found; tried %s", fb_str_get(&tried));
    fb_str_free(&tried);
    state.blas.library = state.library;
    state.blas.description = state.description;
}

const fb_blas *fb_blas_get(fb_error *err)
{
    pthread_once(&state.once, open_library);
    if (state.found) return &state.blas;
    if (err) *err = state.error;
    return NULL;
}
