/* Calibration of a GPU: what a launch costs, how fast bytes move by size (cache-hot and cold, and from
 * and to the host), how fast products,
 * arithmetic and slow functions run. Kernel times come from CUDA graphs of many launches, less what an empty kernel
 * costs in such a graph. About three seconds; kept in the cache for this GPU and driver. */
#include "device/cuda/parts.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char source[] =
    "extern \"C\" __global__ void fb_empty() {}\n"
    "extern \"C\" __global__ void fb_copy(float4 *to, const float4 *from, long long n) {\n"
    "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) to[i] = from[i];\n"
    "}\n"
    /* numbers of either sign in every dtype, 0.00003 to 2 in those of 16 and 32 bits */
    "extern \"C\" __global__ void fb_fill(unsigned *to, long long n) {\n"
    "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "    unsigned x = (unsigned)i * 2654435761u;\n"
    "    x ^= x >> 15; x *= 2246822519u; x ^= x >> 13; x *= 3266489917u; x ^= x >> 16;\n"
    "    if (i < n) to[i] = (x & 0x87ff87ffu) | 0x38003800u;\n"
    "}\n"
    "extern \"C\" __global__ void fb_fma(float *to, float a) {\n"
    "    float x = threadIdx.x, y = x + 1, z = x + 2, w = x + 3;\n"
    "    for (int i = 0; i < 1024; i++) { x = x * a + y; y = y * a + z; z = z * a + w; w = w * a + x; }\n"
    "    if (x + y + z + w == 1.25f) to[0] = x;\n"
    "}\n"
    "extern \"C\" __global__ void fb_special(float *to, float a) {\n"
    "    float x = threadIdx.x * a, y = x + a;\n"
    "    for (int i = 0; i < 256; i++) { x = expf(x * a) * a; y = expf(y * a) * a; }\n"
    "    if (x + y == 1.25f) to[0] = x;\n"
    "}\n";

typedef struct {
    fb_cuda_device *d;
    CUmodule module;
    CUfunction empty, copy, fill, fma, special;
    CUdeviceptr memory;
    size_t bytes;
    double graph_each; /* µs an empty kernel costs inside a graph */
} bench;

/* What is put into the graph `count` times. */
typedef bool (*issue_fn)(bench *b, void *ctx, int i, fb_error *err);

typedef struct {
    bench *b;
    issue_fn issue;
    void *ctx;
} timed;

static bool issue_timed(void *ctx, int i, fb_error *err)
{
    timed *t = ctx;
    return t->issue(t->b, t->ctx, i, err);
}

/* Median µs of one of `count` launches in a graph. */
static bool time_graph(bench *b, issue_fn issue, void *ctx, int count, double *us, fb_error *err)
{
    timed t = {b, issue, ctx};
    return fb_cuda_time(b->d, issue_timed, &t, count, 7, us, err);
}

static bool launch(bench *b, CUfunction f, unsigned grid, unsigned block, void **args, fb_error *err)
{
    FB_CUDA(b->d, cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, b->d->stream, args, NULL), "calibrating");
    return true;
}

static bool issue_empty(bench *b, void *ctx, int i, fb_error *err)
{
    (void)ctx, (void)i;
    return launch(b, b->empty, 1, 32, NULL, err);
}

typedef struct {
    size_t bytes; /* of one side of the copy */
    bool cold;    /* walk through the whole block, so that nothing is met again soon */
} copy_case;

static bool issue_copy(bench *b, void *ctx, int i, fb_error *err)
{
    const copy_case *c = ctx;
    size_t places = c->cold ? b->bytes / (2 * c->bytes) : 1;
    CUdeviceptr from = b->memory + (size_t)i % places * 2 * c->bytes, to = from + c->bytes;
    long long n = (long long)(c->bytes / 16);
    void *args[] = {&to, &from, &n};
    return launch(b, b->copy, (unsigned)((n + 255) / 256), 256, args, err);
}

static bool issue_math(bench *b, void *ctx, int i, fb_error *err)
{
    (void)i;
    float a = 0.999f;
    void *args[] = {&b->memory, &a};
    return launch(b, *(CUfunction *)ctx, (unsigned)b->d->machine.units * 8, 256, args, err);
}

static fb_cuda_gemm_args gemm_places(const bench *b)
{
    return (fb_cuda_gemm_args){.a = b->memory, .b = b->memory + b->bytes / 4, .c = b->memory + b->bytes / 2};
}

static bool issue_gemm(bench *b, void *ctx, int i, fb_error *err)
{
    (void)i;
    const fb_cuda_gemm_args at = gemm_places(b);
    return fb_cuda_gemm_run(b->d, ctx, &at, err);
}

static bool measure_launches(bench *b, fb_error *err)
{
    fb_machine *m = &b->d->machine;
    if (!time_graph(b, issue_empty, NULL, 200, &b->graph_each, err)) return false;
    m->graph_launch_us = b->graph_each;
    enum { MANY = 500 };
    double best_one = INFINITY, best_many = INFINITY;
    for (int r = 0; r < 5; r++) {
        double start = fb_now_us();
        if (!issue_empty(b, NULL, 0, err) || !fb_cuda_wait(b->d, err)) return false;
        double one = fb_now_us() - start;
        start = fb_now_us();
        for (int i = 0; i < MANY; i++)
            if (!issue_empty(b, NULL, i, err)) return false;
        if (!fb_cuda_wait(b->d, err)) return false;
        double many = (fb_now_us() - start) / MANY;
        best_one = fmin(best_one, one);
        best_many = fmin(best_many, many);
    }
    m->launch_us = best_many;
    m->sync_us = fmax(0, best_one - best_many);
    return true;
}

/* Median µs from issuing one until it is known to be done. */
static bool time_alone(bench *b, issue_fn issue, void *ctx, double *us, fb_error *err)
{
    enum { ROUNDS = 101 };
    double times[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double start = fb_now_us();
        if (!issue(b, ctx, 0, err) || !fb_cuda_wait(b->d, err)) return false;
        times[r] = fb_now_us() - start;
    }
    *us = fb_cuda_median(times, ROUNDS);
    return true;
}

/* A library's call takes the processor longer than a launch does, for which nothing is to be seen on the device: of a
 * small product what is neither its own time nor an empty kernel's. */
static bool measure_call(bench *b, fb_error *err)
{
    enum { N = 64 };
    if (!b->d->blas) return true;
    fb_gemm_call call = fb_program_plain_gemm(FB_F32, N, N, N);
    fb_cuda_gemm *g = fb_cuda_gemm_new(b->d, &call, err);
    const fb_cuda_gemm_args at = gemm_places(b);
    double one = 0, alone = 0, product = 0;
    bool good = g && fb_cuda_gemm_choose(b->d, g, &at, err) && time_graph(b, issue_gemm, g, 100, &product, err) &&
                time_alone(b, issue_gemm, g, &one, err) && time_alone(b, issue_empty, NULL, &alone, err);
    fb_cuda_gemm_free(b->d, g);
    b->d->machine.call_us = fmax(0, one - alone - fmax(0, product - b->graph_each));
    return good;
}

static bool measure_copies(bench *b, fb_rate_curve *curve, bool cold, fb_error *err)
{
    curve->n = 0;
    for (size_t bytes = 32 << 10; bytes <= b->bytes / 2 && curve->n < FB_RATE_POINTS; bytes *= 4) {
        copy_case c = {.bytes = bytes, .cold = cold};
        double us = 0;
        if (!time_graph(b, issue_copy, &c, bytes < (16 << 20) ? 100 : 8, &us, err)) return false;
        us = fmax(us - b->graph_each, 0.2);
        curve->size[curve->n] = 2.0 * (double)bytes;
        curve->rate[curve->n++] = 2.0 * (double)bytes / us * 1e-3;
    }
    return true;
}

/* One of many copies between pinned memory and the device that wait for each other in a stream. */
static bool time_link(bench *b, void *outside, size_t bytes, bool in, double *us, fb_error *err)
{
    enum { ROUNDS = 5 };
    fb_cuda_device *d = b->d;
    int count = bytes < (1 << 20) ? 50 : 4;
    double times[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double start = fb_now_us();
        for (int i = 0; i < count; i++) {
            if (in)
                FB_CUDA(d, cuMemcpyHtoDAsync(b->memory, outside, bytes, d->stream), "calibrating copies");
            else
                FB_CUDA(d, cuMemcpyDtoHAsync(outside, b->memory, bytes, d->stream), "calibrating copies");
        }
        if (!fb_cuda_wait(d, err)) return false;
        times[r] = (fb_now_us() - start) / count;
    }
    *us = fmax(fb_cuda_median(times, ROUNDS), 0.2);
    return true;
}

static bool measure_links(bench *b, fb_error *err)
{
    enum { MOST = 64 << 20 };
    fb_cuda_device *d = b->d;
    void *outside = NULL;
    FB_CUDA(d, cuMemHostAlloc(&outside, MOST, 0), "pinning memory to calibrate with");
    memset(outside, 0x3c, MOST);
    bool good = true;
    for (int in = 0; in < 2 && good; in++) {
        fb_rate_curve *c = in ? &d->machine.copy_in : &d->machine.copy_out;
        c->n = 0;
        for (size_t bytes = 4 << 10; bytes <= MOST && good; bytes *= 8) {
            double us = 0;
            good = time_link(b, outside, bytes, in, &us, err);
            c->size[c->n] = (double)bytes;
            c->rate[c->n++] = good ? (double)bytes / us * 1e-3 : 0;
        }
    }
    d->f->cuMemFreeHost(outside);
    return good;
}

static bool measure_math(bench *b, fb_error *err)
{
    fb_machine *m = &b->d->machine;
    double us = 0, threads = (double)m->units * 8 * 256;
    if (!time_graph(b, issue_math, &b->fma, 10, &us, err)) return false;
    double gflops = threads * 1024 * 4 * 2 / us * 1e-3;
    m->gflops[FB_F32] = m->gflops[FB_F16] = m->gflops[FB_BF16] = gflops; /* 16-bit values are computed in float */
    m->gflops[FB_F64] = gflops / (m->compute_major == 9 || (m->compute_major == 8 && m->compute_minor == 0) ? 2 : 64);
    m->gflops[FB_I32] = m->gflops[FB_BOOL] = gflops / 2;
    m->gflops[FB_I64] = gflops / 8;
    if (!time_graph(b, issue_math, &b->special, 10, &us, err)) return false;
    m->gspecial = threads * 256 * 2 / us * 1e-3;
    return true;
}

/* A GPU's clock falls when it has used much power for a while, as it does with large products of numbers that are not all
 * alike: of one number at all places an H200 makes 866 TFLOP/s for some milliseconds, and 700 of what people multiply. */
static bool heat(bench *b, fb_cuda_gemm *g, fb_error *err)
{
    const double long_enough_us = 150e3;
    double us;
    for (double start = fb_now_us(); fb_now_us() < start + long_enough_us;)
        if (!time_graph(b, issue_gemm, g, 4, &us, err)) return false;
    return true;
}

static bool measure_gemm(bench *b, fb_dtype dtype, fb_precision precision, fb_rate_curve *curve, fb_error *err)
{
    enum { LARGEST = 4096 };
    curve->n = 0;
    for (int64_t n = 128; n <= LARGEST; n *= 2) {
        fb_gemm_call call = fb_program_plain_gemm(dtype, n, n, n);
        call.precision = precision;
        fb_cuda_gemm *g = fb_cuda_gemm_new(b->d, &call, err);
        const fb_cuda_gemm_args at = gemm_places(b);
        double us = 0;
        bool good = g && fb_cuda_gemm_choose(b->d, g, &at, err) && (n < LARGEST || heat(b, g, err)) &&
                    time_graph(b, issue_gemm, g, n < 1024 ? 20 : 4, &us, err);
        fb_cuda_gemm_free(b->d, g);
        if (!good) return false;
        double flops = 2.0 * (double)n * (double)n * (double)n;
        curve->size[curve->n] = flops;
        curve->rate[curve->n++] = flops / fmax(us - b->graph_each, 0.2) * 1e-3;
    }
    return true;
}

static bool measure_gemms(bench *b, fb_error *err)
{
    fb_machine *m = &b->d->machine;
    static const fb_dtype dtypes[] = {FB_F32, FB_F16, FB_BF16, FB_F64};
    for (size_t i = 0; b->d->blas && i < sizeof dtypes / sizeof *dtypes; i++)
        if (!measure_gemm(b, dtypes[i], FB_PRECISION_IEEE, &m->gemm[dtypes[i]], err)) return false;
    return !b->d->blas || measure_gemm(b, FB_F32, FB_PRECISION_TF32, &m->gemm_tf32, err);
}

/* A library that does not start here leaves none; its kernels that are too large for what is there, those of before. */
static bool measure_convolutions(bench *b, fb_error *err)
{
    static const struct {
        int64_t batch, channels, side;
    } rows[] = {{1, 64, 28}, {16, 64, 56}, {32, 128, 56}};
    fb_machine *m = &b->d->machine;
    m->convolution.n = 0;
    if (!fb_cuda_convolution_open(b->d, NULL)) return true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fb_gemm_call call = fb_program_plain_convolution(FB_F32, rows[i].batch, rows[i].channels, rows[i].side);
        if ((size_t)fb_convolution_x(&call.convolution) * sizeof(float) > b->bytes / 4) break;
        fb_cuda_gemm *g = fb_cuda_gemm_new(b->d, &call, err);
        const fb_cuda_gemm_args at = gemm_places(b);
        double us = 0;
        bool good = g && fb_cuda_gemm_choose(b->d, g, &at, err) && time_graph(b, issue_gemm, g, i ? 4 : 20, &us, err);
        fb_cuda_gemm_free(b->d, g);
        if (!good) return false;
        double flops = fb_convolution_flops(&call.convolution);
        m->convolution.size[m->convolution.n] = flops;
        m->convolution.rate[m->convolution.n++] = flops / fmax(us - b->graph_each, 0.2) * 1e-3;
    }
    return true;
}

static bool open_bench(bench *b, fb_error *err)
{
    fb_cuda_device *d = b->d;
    if (!fb_cuda_own_module(d, source, "calibration", "calibrating", &b->module, err)) return false;
    FB_CUDA(d, cuModuleGetFunction(&b->empty, b->module, "fb_empty"), "calibrating");
    FB_CUDA(d, cuModuleGetFunction(&b->copy, b->module, "fb_copy"), "calibrating");
    FB_CUDA(d, cuModuleGetFunction(&b->fill, b->module, "fb_fill"), "calibrating");
    FB_CUDA(d, cuModuleGetFunction(&b->fma, b->module, "fb_fma"), "calibrating");
    FB_CUDA(d, cuModuleGetFunction(&b->special, b->module, "fb_special"), "calibrating");
    b->bytes = (size_t)1 << 30;
    FB_CUDA(d, cuMemAlloc(&b->memory, b->bytes), "allocating 1 GiB to calibrate with");
    long long words = (long long)(b->bytes / 4);
    void *args[] = {&b->memory, &words};
    return launch(b, b->fill, (unsigned)((words + 255) / 256), 256, args, err) && fb_cuda_wait(d, err);
}

static bool calibration_path(const fb_machine *m, int driver_version, char *to, size_t room, fb_error *err)
{
    char dir[3900], name[96];
    if (!fb_cache_dir("calibration", dir, sizeof dir, err)) return false;
    snprintf(name, sizeof name, "%s", m->name);
    for (char *p = name; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) *p = '_';
    snprintf(to, room, "%s/%s-driver%d.json", dir, name, driver_version);
    return true;
}

bool fb_cuda_calibration_read(fb_machine *machine, int driver_version, bool products)
{
    char path[4096];
    fb_error ignored;
    size_t n;
    bool named = calibration_path(machine, driver_version, path, sizeof path, &ignored);
    char *text = named ? fb_checked_read(path, fb_file_name(path), 1 << 20, &n) : NULL;
    json_t *value = text ? fb_json_parse(text, n, &ignored) : NULL;
    fb_machine m = *machine;
    bool good = value && fb_machine_from_json(&m, value, &ignored) &&
                strcmp(m.name, machine->name) == 0 && /* not another's */
                (isfinite(m.call_us) || !products);   /* nor from before that was measured */
    if (good) *machine = m;
    if (!fb_cuda_get(FB_CUDA_DNN, NULL))
        machine->convolution.n = 0;
    else if (!machine->convolution.n)
        machine->convolution = machine->gemm[FB_F32]; /* until it is measured */
    json_decref(value);
    fb_free(text);
    return good;
}

static void save(fb_cuda_device *d)
{
    char path[4096];
    if (!calibration_path(&d->machine, d->driver_version, path, sizeof path, NULL)) return;
    json_t *value = fb_machine_to_json(&d->machine);
    char *text = fb_json_line(value);
    fb_checked_write(path, fb_file_name(path), text, strlen(text), NULL);
    fb_free(text);
    json_decref(value);
}

static bool step(const fb_progress *p, const char *what, double fraction, fb_error *err)
{
    if (!p || p->step(p->ctx, what, fraction)) return true;
    return fb_fail(err, FB_ERR_CANCELLED, "cancelled while calibrating");
}

bool fb_cuda_calibrate(fb_device *base, const fb_progress *progress, fb_error *err)
{
    bench b = {.d = (fb_cuda_device *)base};
    fb_machine before = b.d->machine, *m = &b.d->machine;
    fb_cuda_gemm_forget(b.d); /* they were measured on the same occasion as what is doubted now */
    bool good = step(progress, "calibrating: launches", 0, err) && open_bench(&b, err) && measure_launches(&b, err) &&
                measure_call(&b, err) && step(progress, "calibrating: copies", 0.2, err) &&
                measure_copies(&b, &m->copy_hot, false, err) && measure_copies(&b, &m->copy_cold, true, err) &&
                measure_links(&b, err) && step(progress, "calibrating: arithmetic", 0.6, err) &&
                measure_math(&b, err) && step(progress, "calibrating: products", 0.7, err) && measure_gemms(&b, err) &&
                measure_convolutions(&b, err);
    if (b.memory) b.d->f->cuMemFree(b.memory);
    if (b.module) b.d->f->cuModuleUnload(b.module);
    if (!good) {
        *m = before;
        return false;
    }
    m->calibrated = true;
    m->links_guessed = false;
    m->products_guessed = !b.d->blas;
    time_t now = time(NULL);
    strftime(m->date, sizeof m->date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    save(b.d);
    return true;
}
