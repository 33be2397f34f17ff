/* Finds the CBLAS among the libraries that may be there and takes its functions by name, once a process. Leaves a
 * table of functions, or nothing where there is no library. */
#include "base/blas.h"

#include "base/dynamic.h"
#include "base/str.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Best first. A plain libblas often carries the cblas_ names too (Debian's does); elsewhere they are in libcblas. */
static const char *const candidates[] = {"libopenblas.so.0", "libopenblas.so", "libblas.so.3", "libcblas.so.3"};

#define ENTRY(field, symbol)                                                                                           \
    {                                                                                                                  \
        offsetof(fb_blas, field), symbol                                                                               \
    }
static const struct {
    size_t offset; /* of the function pointer in fb_blas */
    const char *symbol;
} entries[] = {
    ENTRY(sgemm, "cblas_sgemm"),
    ENTRY(dgemm, "cblas_dgemm"),
    ENTRY(sgemv, "cblas_sgemv"),
    ENTRY(dgemv, "cblas_dgemv"),
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

static const char *bind(void *handle)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *symbol = dlsym(handle, entries[i].symbol);
        if (!symbol) return entries[i].symbol;
        memcpy((char *)&state.blas + entries[i].offset, &symbol, sizeof symbol);
    }
    return NULL;
}

/* What OpenBLAS answers to a question of that name; NULL: it is another library. */
static const char *answer(void *handle, const char *question)
{
    void *symbol = dlsym(handle, question);
    char *(*ask)(void) = NULL;
    memcpy(&ask, &symbol, sizeof symbol);
    return ask ? ask() : NULL;
}

/* What OpenBLAS says of itself, else the file. */
static void describe(void *handle)
{
    const char *config = answer(handle, "openblas_get_config");
    if (!config) config = state.library;
    fb_text_clean(state.description, sizeof state.description, config, strlen(config));
}

static void *find_library(void)
{
    return fb_dynamic_open(candidates, sizeof candidates / sizeof *candidates, bind, "no BLAS library was found",
                           state.library, &state.error);
}

static bool has_avx512(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

/* What to call a CPU that OpenBLAS does not know, for the library may be older: it then takes it for one of the year
 * 2004, at a quarter of its speed. NULL: it knows it. */
static const char *unknown_cpu(void *handle)
{
#if defined(__x86_64__) && defined(__GNUC__)
    const char *core = answer(handle, "openblas_get_corename");
    __builtin_cpu_init();
    bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!wide || !core || strcmp(core, "Prescott") != 0) return NULL;
    return has_avx512() ? "SkylakeX" : "Haswell";
#else
    (void)handle;
    return NULL;
#endif
}

static bool is_narrow(void *handle)
{
    static const char *const wide[] = {"SkylakeX", "Cooperlake", "Sapphirerapids"};
    const char *core = answer(handle, "openblas_get_corename");
    if (!core || !has_avx512()) return false;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (!strcasecmp(core, wide[i])) return false;
    return true;
}

/* OpenBLAS looks at the CPU, and before that at OPENBLAS_CORETYPE, only while it is loaded. */
static void *find_again(void *handle)
{
    static const char *const variable = "OPENBLAS_CORETYPE";
    const char *core = getenv(variable) ? NULL : unknown_cpu(handle);
    if (!core) return handle;
    dlclose(handle);
    setenv(variable, core, 1);
    handle = find_library();
    unsetenv(variable);
    return handle;
}

/* OpenBLAS's own threads would be woken by each product, and wait for each other by asking the system for something else
 * to do. */
static void keep_to_one_thread(void *handle)
{
    void *symbol = dlsym(handle, "openblas_set_num_threads");
    void (*set)(int threads) = NULL;
    memcpy(&set, &symbol, sizeof symbol);
    if (set) set(1);
}

static void open_library(void)
{
    void *handle = find_library();
    if (handle) handle = find_again(handle);
    state.found = handle;
    if (handle) {
        describe(handle);
        state.blas.narrow = is_narrow(handle);
        keep_to_one_thread(handle);
    }
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
