/* Opens each library of CUDA that is there and takes its functions by name (libs.def). Done once a process;
 * what is missing is remembered with its reason, for `fusebox devices`. */
#include "device/cuda/libs.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;       /* as shown */
    const char *base;       /* file name up to ".so" */
    const char *sonames[4]; /* newest first */
    const char *wheel;      /* folder under nvidia/ in wheels of CUDA 12; CUDA 13 wheels share cu13 */
    bool system_only;
    const char *cost; /* what its absence costs */
} lib_row;

static const lib_row rows[FB_CUDA_LIBS] = {
    [FB_CUDA_DRIVER] = {.name = "CUDA driver",
                        .base = "libcuda",
                        .sonames = {"libcuda.so.1", "libcuda.so"},
                        .system_only = true,
                        .cost = "no GPU can be used; host and replay work"},
    [FB_CUDA_NVRTC] = {.name = "NVRTC",
                       .base = "libnvrtc",
                       .sonames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                       .wheel = "cuda_nvrtc",
                       .cost = "CUDA kernels cannot be compiled"},
    [FB_CUDA_BLASLT] = {.name = "cuBLASLt",
                        .base = "libcublasLt",
                        .sonames = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                        .wheel = "cublas",
                        .cost = "matrix products on a GPU are generated kernels, never library calls"},
    [FB_CUDA_CUPTI] = {.name = "CUPTI",
                       .base = "libcupti",
                       .sonames = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"},
                       .wheel = "cuda_cupti",
                       .cost = "no measured traffic and no timeline; bytes are modelled"},
    [FB_CUDA_DNN] = {.name = "cuDNN",
                     .base = "libcudnn",
                     .sonames = {"libcudnn.so.9"},
                     .wheel = "cudnn",
                     .cost = "convolutions on a GPU are generated kernels, never library calls"},
};

static struct {
    pthread_mutex_t lock;
    fb_cuda_functions fn;
    struct {
        bool tried;
        void *handle;
        char path[PATH_MAX];
        char why[200];
    } lib[FB_CUDA_LIBS];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *try_pattern(const char *pattern)
{
    glob_t found;
    void *handle = NULL;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; i-- > 0 && !handle;) handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return handle;
}

/* FOLDER/libX.so* of an environment variable's folder, with `below` in between; glob characters in it are not ours to
 * fear: the worst they do is find another library of the same name. */
static void *try_env(const char *variable, const char *below, const lib_row *row)
{
    const char *root = getenv(variable);
    if (!root || !root[0]) return NULL;
    char pattern[PATH_MAX];
    snprintf(pattern, sizeof pattern, "%s/%s/%s.so*", root, below, row->base);
    return try_pattern(pattern);
}

static void *try_wheels(const lib_row *row)
{
    static const char *const shared[] = {"lib/python3*/site-packages/nvidia/cu13/lib"};
    void *handle = try_env("VIRTUAL_ENV", shared[0], row);
    if (!handle && row->wheel) {
        char below[128];
        snprintf(below, sizeof below, "lib/python3*/site-packages/nvidia/%s/lib", row->wheel);
        handle = try_env("VIRTUAL_ENV", below, row);
    }
    return handle;
}

static void *open_lib(const lib_row *row)
{
    void *handle = NULL;
    for (int i = 0; i < 4 && row->sonames[i] && !handle; i++)
        handle = dlopen(row->sonames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!handle && !row->system_only) handle = try_wheels(row);
    if (!handle && !row->system_only) handle = try_env("CONDA_PREFIX", "lib", row);
    for (int i = 0; i < 4 && row->sonames[i] && !handle; i++) handle = dlopen(row->sonames[i], RTLD_NOW | RTLD_LOCAL);
    if (row->system_only) return handle;
    static const char *const roots[] = {"CUDA_PATH", "CUDA_HOME"};
    static const char *const below[] = {"lib64", "extras/CUPTI/lib64", "targets/x86_64-linux/lib"};
    for (size_t r = 0; r < 2 && !handle; r++)
        for (size_t b = 0; b < 3 && !handle; b++) handle = try_env(roots[r], below[b], row);
    for (size_t b = 0; b < 3 && !handle; b++) {
        char pattern[PATH_MAX];
        snprintf(pattern, sizeof pattern, "/usr/local/cuda/%s/%s.so*", below[b], row->base);
        handle = try_pattern(pattern);
    }
    return handle;
}

/* Newer toolkits rename functions with a suffix in their headers (cuMemAlloc_v2); an older library may lack the newest.
 */
static void *symbol(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    const char *suffix = strstr(name, "_v");
    if (found || !suffix) return found;
    char plain[128];
    snprintf(plain, sizeof plain, "%.*s", (int)(suffix - name), name);
    return dlsym(handle, plain);
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define RESOLVE(name)                                                                                                  \
    if (!(*(void **)&state.fn.name = symbol(handle, TEXT(name)))) return TEXT(name);

/* Returns the name of the first function that is missing, or NULL. */
static const char *resolve(fb_cuda_lib lib, void *handle)
{
    switch (lib) {
    case FB_CUDA_DRIVER:
#define CUDA_DRIVER(name) RESOLVE(name)
#include "device/cuda/libs.def"
#undef CUDA_DRIVER
        break;
    case FB_CUDA_NVRTC:
#define CUDA_NVRTC(name) RESOLVE(name)
#include "device/cuda/libs.def"
#undef CUDA_NVRTC
        break;
    case FB_CUDA_BLASLT:
#define CUDA_BLASLT(name) RESOLVE(name)
#include "device/cuda/libs.def"
#undef CUDA_BLASLT
        break;
    case FB_CUDA_CUPTI:
#define CUDA_CUPTI(name) RESOLVE(name)
#include "device/cuda/libs.def"
#undef CUDA_CUPTI
        break;
    case FB_CUDA_DNN:
#define CUDA_DNN(name) RESOLVE(name)
#include "device/cuda/libs.def"
#undef CUDA_DNN
        break;
    case FB_CUDA_LIBS: break;
    }
    return NULL;
}

static void load(fb_cuda_lib lib)
{
    const lib_row *row = &rows[lib];
    state.lib[lib].tried = true;
    void *handle = open_lib(row);
    if (!handle) {
        snprintf(state.lib[lib].why, sizeof state.lib[lib].why, "%s was not found", row->sonames[0]);
        return;
    }
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map)
        snprintf(state.lib[lib].path, sizeof state.lib[lib].path, "%s", map->l_name);
    const char *missing = resolve(lib, handle);
    if (missing) {
        snprintf(state.lib[lib].why, sizeof state.lib[lib].why, "%.100s is too old: it has no %s", row->sonames[0],
                 missing);
        dlclose(handle);
        return;
    }
    state.lib[lib].handle = handle;
}

const fb_cuda_functions *fb_cuda_get(fb_cuda_lib lib, fb_error *err)
{
    pthread_mutex_lock(&state.lock);
    if (!state.lib[lib].tried) load(lib);
    bool there = state.lib[lib].handle != NULL;
    pthread_mutex_unlock(&state.lock);
    if (there) return &state.fn;
    fb_fail(err, FB_ERR_UNAVAILABLE, "%s: %s; %s", rows[lib].name, state.lib[lib].why, rows[lib].cost);
    return NULL;
}

static void version_of(fb_cuda_lib lib, char *to, size_t room)
{
    const fb_cuda_functions *f = &state.fn;
    int major = 0, minor = 0;
    uint32_t cupti = 0;
    switch (lib) {
    case FB_CUDA_DRIVER:
        if (f->cuDriverGetVersion(&major) == CUDA_SUCCESS)
            snprintf(to, room, "CUDA %d.%d", major / 1000, major % 1000 / 10);
        break;
    case FB_CUDA_NVRTC:
        if (f->nvrtcVersion(&major, &minor) == NVRTC_SUCCESS) snprintf(to, room, "%d.%d", major, minor);
        break;
    case FB_CUDA_BLASLT: {
        size_t v = f->cublasLtGetVersion();
        snprintf(to, room, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
        break;
    }
    case FB_CUDA_CUPTI:
        if (f->cuptiGetVersion(&cupti) == CUPTI_SUCCESS) snprintf(to, room, "API %u", cupti);
        break;
    case FB_CUDA_DNN: {
        size_t v = f->cudnnGetVersion();
        snprintf(to, room, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
        break;
    }
    case FB_CUDA_LIBS: break;
    }
}

void fb_cuda_list_libraries(json_t *libraries)
{
    for (int lib = 0; lib < FB_CUDA_LIBS; lib++) {
        fb_error ignored;
        bool found = fb_cuda_get((fb_cuda_lib)lib, &ignored) != NULL;
        json_t *row = json_pack("{s:s, s:b}", "name", rows[lib].name, "found", found);
        if (found) {
            char version[64] = "";
            version_of((fb_cuda_lib)lib, version, sizeof version);
            json_object_set_new(row, "path", json_string(state.lib[lib].path));
            json_object_set_new(row, "version", json_string(version));
        } else {
            json_object_set_new(row, "missing", json_string(state.lib[lib].why));
            json_object_set_new(row, "cost", json_string(rows[lib].cost));
        }
        json_array_append_new(libraries, row);
    }
}

/* After one of these the context refuses all further work, and only a new process gets a new one. */
static bool is_lost(CUresult status)
{
    switch (status) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN: return true;
    default: return false;
    }
}

bool fb_cuda_fail(fb_error *err, CUresult status, const char *doing)
{
    fb_error_kind kind = status == CUDA_ERROR_OUT_OF_MEMORY ? FB_ERR_LIMIT
                         : is_lost(status)                  ? FB_ERR_CRASH
                                                            : FB_ERR_SYSTEM;
    const char *name = "unknown error", *text = "";
    if (state.fn.cuGetErrorName) state.fn.cuGetErrorName(status, &name);
    if (state.fn.cuGetErrorString) state.fn.cuGetErrorString(status, &text);
    return fb_fail(err, kind, "%s: %s (%s)", doing, text, name);
}
