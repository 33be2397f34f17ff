/* Finds oneDNN among the libraries that may be there, once a process, and calls its product of floats as one thread.
 * Needs nothing at build time; leaves what it found, or why not. */
#include "base/dnnl.h"

#include "base/blas.h"
#include "base/dynamic.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* As dnnl_types.h and dnnl_config.h have them. */
typedef struct {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} dnnl_version_t;
enum { DNNL_SUCCESS = 0, DNNL_RUNTIME_SEQ = 1, DNNL_RUNTIME_OMP = 2 };

/* What fb_dnnl_get found, written once under `once` and only read afterwards. */
static struct {
    pthread_once_t once;
    bool found;
    fb_dnnl dnnl;
    char library[256], description[64];
    fb_error error;

    int (*sgemm)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float,
                 float *, int64_t);
    const dnnl_version_t *(*version)(void);
    int (*set_verbose)(int), (*set_jit_dump)(int); /* the environment's, which would write to our pipe and to files */
    int (*set_jit_profiling_flags)(unsigned);
    int (*omp_in_parallel)(void);
} state = {.once = PTHREAD_ONCE_INIT};

#define ENTRY(symbol, field)                                                                                           \
    {                                                                                                                  \
        symbol, &state.field                                                                                           \
    }
static const fb_dynamic_function entries[] =
    {
        ENTRY("dnnl_sgemm", sgemm),
        ENTRY("dnnl_version", version),
        ENTRY("dnnl_set_verbose", set_verbose),
        ENTRY("dnnl_set_jit_dump", set_jit_dump),
        ENTRY("dnnl_set_jit_profiling_flags", set_jit_profiling_flags),
},
                                 openmp[] = {
                                     ENTRY("omp_in_parallel", omp_in_parallel),
                                     ENTRY("omp_get_max_threads", dnnl.max_threads),
                                     ENTRY("omp_set_num_threads", dnnl.set_threads),
};
#undef ENTRY

/* NULL, or what keeps it from being used. */
static const char *bind(void *handle)
{
    const char *lacks = fb_dynamic_take(handle, entries, sizeof entries / sizeof *entries);
    if (lacks) return lacks;
    state.dnnl = (fb_dnnl){.handle = handle};
    unsigned runtime = state.version()->cpu_runtime;
    if (runtime == DNNL_RUNTIME_OMP) return fb_dynamic_take(handle, openmp, sizeof openmp / sizeof *openmp);
    return runtime == DNNL_RUNTIME_SEQ ? NULL : "threads of OpenMP";
}

static void open_library(void)
{
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"};
    state.found =
        fb_dynamic_open(names, sizeof names / sizeof *names, bind, "oneDNN was not found", state.library, &state.error);
    if (!state.found) return;
    state.set_verbose(0);
    state.set_jit_dump(0);
    state.set_jit_profiling_flags(0);
    const dnnl_version_t *v = state.version();
    snprintf(state.description, sizeof state.description, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    state.dnnl.library = state.library;
    state.dnnl.description = state.description;
    state.dnnl.major = v->major;
}

const fb_dnnl *fb_dnnl_get(fb_error *err)
{
    pthread_once(&state.once, open_library);
    if (state.found) return &state.dnnl;
    if (err) *err = state.error;
    return NULL;
}

bool fb_dnnl_sgemm(int trans_a, int trans_b, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                   float *c, int ldc)
{
    if (!fb_dnnl_get(NULL)) return false;
    /* In a team of its own OpenMP it is one thread by itself; in nobody's, or in one of another OpenMP, it would start
     * as many as there are cores. */
    int threads = state.dnnl.max_threads && !state.omp_in_parallel() ? state.dnnl.max_threads() : 1;
    if (threads > 1) state.dnnl.set_threads(1);
    bool ok = state.sgemm(trans_a == FB_BLAS_TRANS ? 'T' : 'N', trans_b == FB_BLAS_TRANS ? 'T' : 'N', m, n, k, 1, a,
                          lda, b, ldb, 0, c, ldc) == DNNL_SUCCESS;
    if (threads > 1) state.dnnl.set_threads(threads);
    return ok;
}
