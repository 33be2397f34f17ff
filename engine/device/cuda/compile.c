/* One translation unit through NVRTC, with its cache of machine code and logs. Needs the library alone, no GPU.
 * Leaves code, registers and spills, or the compiler's first complaint as an error. */
#include "device/cuda/compile.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "code/consent.h"
#include "device/cuda/libs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 16, MAX_CODE = 64 << 20, CACHE_BYTES = 1 << 30 };

static const char *const common_options[] = {"--std=c++17", "-default-device", "--ptxas-options=-v"};
enum { N_COMMON = sizeof common_options / sizeof *common_options };

/* ptxas reports a kernel in lines like
 *   ptxas info : Used 40 registers, used 1 barriers, 2048 bytes smem
 *   0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads */
static void read_resources(fb_cuda_code *code)
{
    code->registers = code->shared_bytes = code->spill_bytes = code->stack_bytes = 0;
    const char *at = code->log ? strstr(code->log, "Used ") : NULL;
    if (at) sscanf(at, "Used %d registers", &code->registers);
    const char *smem = at ? strstr(at, " bytes smem") : NULL;
    if (smem) {
        while (smem > at && smem[-1] >= '0' && smem[-1] <= '9') smem--;
        code->shared_bytes = atoi(smem);
    }
    int stores = 0, loads = 0;
    const char *frame = code->log ? strstr(code->log, "bytes stack frame, ") : NULL;
    if (frame) sscanf(frame, "bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stores, &loads);
    code->spill_bytes = stores + loads;
    if (!frame || frame == code->log) return;
    const char *digits = frame - 1; /* the blank between the number and its unit */
    while (digits > code->log && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    code->stack_bytes = atoi(digits);
}

static bool cache_paths(const char *source, const char *arch, fb_cuda_code_kind kind, char code_path[4096],
                        char log_path[4096])
{
    fb_error ignored;
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_NVRTC, &ignored);
    char dir[3900], hex[33];
    if (!f || !fb_cache_dir("cuda", dir, sizeof dir, &ignored)) return false;
    int major = 0, minor = 0;
    f->nvrtcVersion(&major, &minor);
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_text(h, source);
    for (int i = 0; i < N_COMMON; i++) fb_hasher_add_text(h, common_options[i]);
    fb_hasher_add_text(h, arch);
    fb_hasher_add_i64(h, major * 100 + minor);
    fb_hash_hex(fb_hasher_end(h), hex);
    snprintf(code_path, 4096, "%s/%s.%s", dir, hex, kind == FB_CUBIN ? "cubin" : "ptx");
    snprintf(log_path, 4096, "%s/%s.log", dir, hex);
    return true;
}

static bool from_cache(const char *code_path, const char *log_path, fb_cuda_code *out)
{
    size_t n_log;
    out->bytes = fb_checked_read(code_path, fb_file_name(code_path), MAX_CODE, &out->n);
    if (!out->bytes) return false;
    out->log = fb_checked_read(log_path, fb_file_name(log_path), MAX_CODE, &n_log);
    if (!out->log || !out->n) {
        fb_cuda_code_clear(out);
        return false;
    }
    out->cached = true;
    fb_cache_touch(code_path);
    fb_cache_touch(log_path);
    read_resources(out);
    return true;
}

/* The first line of the log that speaks of an error, without the made-up file name's repetition. */
static void first_error(const char *log, char *to, size_t room)
{
    const char *at = strstr(log, "error");
    while (at && at > log && at[-1] != '\n') at--;
    size_t n = at ? strcspn(at, "\n") : 0;
    fb_text_clean(to, room, at ? at : "no message", at ? n : 10);
}

static bool take_code(const fb_cuda_functions *f, nvrtcProgram program, fb_cuda_code_kind kind, fb_cuda_code *out)
{
    nvrtcResult got = kind == FB_CUBIN ? f->nvrtcGetCUBINSize(program, &out->n) : f->nvrtcGetPTXSize(program, &out->n);
    if (got != NVRTC_SUCCESS || !out->n) return false;
    out->bytes = fb_alloc(out->n + 1);
    got = kind == FB_CUBIN ? f->nvrtcGetCUBIN(program, out->bytes) : f->nvrtcGetPTX(program, out->bytes);
    ((char *)out->bytes)[out->n] = '\0';
    if (kind == FB_PTX) out->n = strlen(out->bytes);
    return got == NVRTC_SUCCESS;
}

/* In the user's own file: "gelu.cu(12): error: …", told as files and lines are told everywhere. */
static bool own_error(const char *file, const char *line, fb_error *err)
{
    size_t n = strlen(file);
    char *rest = NULL;
    long number = strncmp(line, file, n) == 0 && line[n] == '(' ? strtol(line + n + 1, &rest, 10) : 0;
    if (number > 0 && *rest == ')') return fb_fail(err, FB_ERR_COMPILE, "%s:%ld%s", file, number, rest + 1);
    return fb_fail(err, FB_ERR_COMPILE, "%s: %s", file, line);
}

/* From 12.9 on. */
static bool keeps_a_cache(const fb_cuda_functions *f)
{
    int major = 0, minor = 0;
    return f->nvrtcVersion(&major, &minor) == NVRTC_SUCCESS && major * 100 + minor >= 1209;
}

static bool compile(const fb_cuda_functions *f, nvrtcProgram program, const char *name, const char *arch,
                    fb_cuda_code_kind kind, fb_cuda_code *out, fb_error *err)
{
    char arch_option[48];
    snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%s", arch);
    const char *options[N_COMMON + 2];
    memcpy(options, common_options, sizeof common_options);
    options[N_COMMON] = arch_option;
    options[N_COMMON + 1] = "--no-cache"; /* ours keeps what ptxas reports; NVRTC's own does not */
    int n_options = N_COMMON + 1 + keeps_a_cache(f);
    nvrtcResult status = f->nvrtcCompileProgram(program, n_options, options);
    size_t n = 0;
    f->nvrtcGetProgramLogSize(program, &n);
    out->log = fb_calloc(1, n + 1);
    if (n) f->nvrtcGetProgramLog(program, out->log);
    if (status != NVRTC_SUCCESS) {
        char line[300];
        first_error(out->log, line, sizeof line);
        if (strchr(name, '.')) return own_error(name, line, err);
        return fb_fail(err, FB_ERR_COMPILE, "kernel %s does not compile for %s: %s", name, arch, line);
    }
    if (!take_code(f, program, kind, out))
        return fb_fail(err, FB_ERR_COMPILE, "NVRTC gave no code for kernel %s (%s)", name, arch);
    read_resources(out);
    return true;
}

bool fb_cuda_compile(const char *source, const char *name, const char *arch, fb_cuda_code_kind kind, fb_cuda_code *out,
                     fb_error *err)
{
    *out = (fb_cuda_code){0};
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_NVRTC, err);
    if (!f) return false;
    char code_path[4096], log_path[4096];
    bool cache = cache_paths(source, arch, kind, code_path, log_path);
    if (cache && from_cache(code_path, log_path, out)) return true;

    double start = fb_now_us();
    char file[128];
    snprintf(file, sizeof file, "%.100s.cu", name);
    nvrtcProgram program;
    nvrtcResult status = f->nvrtcCreateProgram(&program, source, file, 0, NULL, NULL);
    if (status != NVRTC_SUCCESS) return fb_fail(err, FB_ERR_SYSTEM, "NVRTC: %s", f->nvrtcGetErrorString(status));
    bool good = compile(f, program, name, arch, kind, out, err);
    f->nvrtcDestroyProgram(&program);
    if (!good) {
        fb_cuda_code_clear(out);
        return false;
    }
    out->ms = (fb_now_us() - start) * 1e-3;
    /* A cache that cannot be written costs time at the next start, and nothing else. */
    if (cache && fb_checked_write(log_path, fb_file_name(log_path), out->log, strlen(out->log), NULL))
        fb_checked_write(code_path, fb_file_name(code_path), out->bytes, out->n, NULL);
    return true;
}

/* Multiplications of whole warpgroups are of compute capability 9.0 alone, which is what sm_90a names (PTX ISA, target
 * directives). Kernels without them keep the plain name, and what is cached by it. */
static const char *arch_of(const fb_needs *needs, const char *arch)
{
    return strcmp(arch, "sm_90") == 0 && needs->warpgroups ? "sm_90a" : arch;
}

bool fb_cuda_compile_kernel(const fb_kernel *k, const char *arch, fb_cuda_code_kind kind, fb_cuda_code *out,
                            fb_error *err)
{
    fb_str text = {0};
    fb_program_kernel_unit(&fb_target_cuda, k, &text);
    bool good =
        fb_cuda_compile(fb_str_get(&text), k->file ? k->file : k->name, arch_of(&k->needs, arch), kind, out, err);
    fb_str_free(&text);
    return good;
}

void fb_cuda_code_clear(fb_cuda_code *code)
{
    fb_free(code->bytes);
    fb_free(code->log);
    *code = (fb_cuda_code){0};
}

/* ---- many kernels ---- */

typedef struct {
    const fb_program *program;
    const char *arch;
    fb_cuda_code *codes;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int next, done, total, running;
    bool stop, failed;
    fb_error error;
} pool;

static bool is_unit(const fb_program *p, int k)
{
    return p->kernels[k].source && fb_program_first_kernel(p, k) == k;
}

static int take_next(pool *p)
{
    while (p->next < p->program->n_kernels && !is_unit(p->program, p->next)) p->next++;
    return p->next < p->program->n_kernels && !p->stop ? p->next++ : -1;
}

static void *pool_main(void *ctx)
{
    pool *p = ctx;
    pthread_mutex_lock(&p->lock);
    for (int k; (k = take_next(p)) >= 0;) {
        pthread_mutex_unlock(&p->lock);
        const fb_kernel *kernel = &p->program->kernels[k];
        fb_error error;
        bool good = (!kernel->file || fb_consent_source(kernel->file, kernel->source, &error)) &&
                    fb_cuda_compile_kernel(kernel, p->arch, FB_CUBIN, &p->codes[k], &error);
        pthread_mutex_lock(&p->lock);
        p->done++;
        if (!good && !p->failed) {
            p->failed = p->stop = true;
            p->error = error;
        }
        pthread_cond_signal(&p->moved);
    }
    p->running--;
    pthread_cond_signal(&p->moved);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Once a process, and only where it made the cache larger: there are thousands of files to look at. */
static void trim_cache(const pool *p)
{
    static atomic_flag trimmed = ATOMIC_FLAG_INIT;
    char dir[3900];
    bool grew = false;
    for (int k = 0; k < p->program->n_kernels; k++) grew |= p->codes[k].bytes && !p->codes[k].cached;
    if (grew && fb_cache_dir("cuda", dir, sizeof dir, NULL) && !atomic_flag_test_and_set(&trimmed))
        fb_cache_trim(dir, CACHE_BYTES);
}

bool fb_cuda_compile_program(const fb_program *program, const char *arch, const fb_progress *progress,
                             fb_cuda_code *codes, fb_error *err)
{
    pool p = {.program = program, .arch = arch, .codes = codes};
    for (int k = 0; k < program->n_kernels; k++) p.total += is_unit(program, k);
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.moved, NULL);
    int cores = fb_parallel_threads(), n = p.total < cores ? p.total : cores;
    if (n > MAX_THREADS) n = MAX_THREADS;
    pthread_t threads[MAX_THREADS];
    pthread_mutex_lock(&p.lock);
    int started = 0;
    for (; started < n; started++) {
        if (pthread_create(&threads[started], NULL, pool_main, &p) != 0) break;
        p.running++;
    }
    bool cancelled = false;
    while (p.running > 0) {
        char what[64];
        snprintf(what, sizeof what, "compiling %d of %d", p.done + 1 < p.total ? p.done + 1 : p.total, p.total);
        if (progress && !p.stop && !progress->step(progress->ctx, what, p.total ? (double)p.done / p.total : 1))
            p.stop = cancelled = true;
        pthread_cond_wait(&p.moved, &p.lock);
    }
    pthread_mutex_unlock(&p.lock);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&p.lock);
    pthread_cond_destroy(&p.moved);
    if (p.total && !started) return fb_fail(err, FB_ERR_SYSTEM, "no thread could be started to compile on");
    if (p.failed) {
        if (err) *err = p.error;
        return false;
    }
    trim_cache(&p);
    return cancelled ? fb_fail(err, FB_ERR_CANCELLED, "cancelled while compiling") : true;
}

bool fb_cuda_compile_ahead(const fb_program *p, const char *arch, fb_error *err)
{
    fb_cuda_code *codes = fb_calloc((size_t)p->n_kernels + 1, sizeof *codes);
    bool good = fb_cuda_compile_program(p, arch, NULL, codes, err);
    for (int k = 0; k < p->n_kernels; k++) fb_cuda_code_clear(&codes[k]);
    fb_free(codes);
    return good;
}

int fb_cuda_archs(char to[][16], int room, fb_error *err)
{
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_NVRTC, err);
    int n = 0, known[64];
    if (!f || f->nvrtcGetNumSupportedArchs(&n) != NVRTC_SUCCESS || n > 64 ||
        f->nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS)
        return 0;
    for (int i = 0; i < n && i < room; i++) snprintf(to[i], 16, "sm_%d", known[i]);
    return n < room ? n : room;
}

/* Of the CUDA programming guide's table of compute capabilities; a row holds for what comes after it, too. */
static const struct {
    int capability, blocks, threads, shared; /* of a multiprocessor; shared: of a block, bytes */
} limits[] = {
    {75, 16, 1024, 64 << 10}, {80, 32, 2048, 163 << 10}, {86, 16, 1536, 99 << 10},   {87, 16, 1536, 163 << 10},
    {89, 24, 1536, 99 << 10}, {90, 32, 2048, 227 << 10}, {110, 24, 1536, 227 << 10}, {120, 24, 1536, 99 << 10},
};

static int limits_of(int capability)
{
    int i = (int)(sizeof limits / sizeof *limits) - 1;
    while (i > 0 && limits[i].capability > capability) i--;
    return i;
}

static bool is_known(int capability, fb_error *err)
{
    char known[64][16], name[16];
    int n = fb_cuda_archs(known, 64, NULL);
    snprintf(name, sizeof name, "sm_%d", capability);
    fb_str list = {0};
    for (int i = 0; i < n; i++) {
        if (strcmp(known[i], name) == 0) n = 0;
        fb_str_addf(&list, "%s%s", i ? ", " : "", known[i]);
    }
    if (n) fb_fail(err, FB_ERR_USAGE, "NVRTC here knows no %s; there are: %s", name, fb_str_get(&list));
    fb_str_free(&list);
    return !n;
}

bool fb_cuda_arch_limits(const char *arch, fb_machine *m, fb_error *err)
{
    int capability = 0, end = 0;
    bool named = sscanf(arch, "sm_%3d%n", &capability, &end) == 1 && capability > 0;
    if (named && (arch[end] == 'a' || arch[end] == 'f')) end++;
    if (!named || arch[end]) return fb_fail(err, FB_ERR_USAGE, "an architecture is written sm_90, not \"%.40s\"", arch);
    if (!is_known(capability, err)) return false;
    int i = limits_of(capability);
    m->compute_major = capability / 10;
    m->compute_minor = capability % 10;
    m->registers_per_unit = 65536;
    m->max_threads_per_unit = limits[i].threads;
    m->shared_bytes = limits[i].shared;
    return true;
}

double fb_cuda_occupancy(const fb_machine *m, int registers, int shared_bytes, int threads)
{
    if (threads <= 0 || m->max_threads_per_unit <= 0) return 0;
    int warps = (threads + 31) / 32, limit = m->max_threads_per_unit / 32;
    int blocks = limit / warps, most = limits[limits_of(10 * m->compute_major + m->compute_minor)].blocks;
    if (blocks > most) blocks = most;
    if (registers > 0 && m->registers_per_unit > 0) {
        int per_warp = (registers * 32 + 255) / 256 * 256;
        int by_registers = m->registers_per_unit / per_warp / warps;
        if (by_registers < blocks) blocks = by_registers;
    }
    if (m->shared_bytes > 0) {
        int64_t each = (shared_bytes + 1023) / 1024 * 1024 + 1024;
        int64_t by_shared = (m->shared_bytes + 1024) / each;
        if (by_shared < blocks) blocks = (int)by_shared;
    }
    return (double)(blocks * warps) / limit;
}
