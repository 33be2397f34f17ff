/* The cuda device: generated CUDA C → NVRTC cubin for the real architecture → driver API. One context, one stream, and
 * two more for copies that run beside it;
 * all memory of a program is one block, sized from its buffer table and refused before anything is allocated when it
 * cannot fit.
 *
 * A fatal CUDA error poisons the context for good, so the first such error ends the worker's child; the supervisor
 * starts the next one. */
#include "device/cuda/parts.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const fb_device_ops fb_device_cuda;

/* ---- finding and opening ---- */

static int attribute(const fb_cuda_functions *f, CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    f->cuDeviceGetAttribute(&value, which, device);
    return value;
}

static void describe(const fb_cuda_functions *f, CUdevice device, fb_machine *m)
{
    fb_machine_default(m, FB_DEVICE_CUDA);
    f->cuDeviceGetName(m->name, sizeof m->name, device);
    size_t bytes = 0;
    f->cuDeviceTotalMem(&bytes, device);
    m->memory_bytes = (int64_t)bytes;
    m->units = attribute(f, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    m->compute_major = attribute(f, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    m->compute_minor = attribute(f, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    m->cache_bytes = attribute(f, device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    m->shared_bytes = attribute(f, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    m->registers_per_unit = attribute(f, device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    m->max_threads_per_unit = attribute(f, device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
}

static int device_count(const fb_cuda_functions *f, fb_error *err)
{
    CUresult status = f->cuInit(0);
    int n = 0;
    if (status == CUDA_SUCCESS) status = f->cuDeviceGetCount(&n);
    if (status == CUDA_SUCCESS && n > 0) return n;
    if (status == CUDA_SUCCESS || status == CUDA_ERROR_NO_DEVICE)
        fb_fail(err, FB_ERR_UNAVAILABLE, "no CUDA GPU in this machine");
    else if (fb_cuda_fail(err, status, "starting CUDA") == false && err)
        err->kind = FB_ERR_UNAVAILABLE;
    return 0;
}

static int cuda_available(void)
{
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_DRIVER, NULL);
    return f ? device_count(f, NULL) : 0;
}

/* Its device files: a system's own, of a machine in a machine, of a board. */
static bool cuda_driver(void)
{
    return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0 || access("/dev/nvmap", F_OK) == 0;
}

/* "580.65.06" of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Tue …". */
static bool kernel_driver(char to[32])
{
    char line[256] = "", *rest = line;
    FILE *f = fb_file_stream("/proc/driver/nvidia/version", FB_FILE_READ, NULL);
    bool found = false;
    if (f && !fgets(line, sizeof line, f)) line[0] = '\0';
    if (f) fclose(f);
    for (char *word; !found && (word = strsep(&rest, " \t\n"));) {
        found = strchr(word, '.') && strspn(word, "0123456789.") == strlen(word);
        if (found) snprintf(to, 32, "%.31s", word);
    }
    return found;
}

/* What a recording says of where it was made. */
static void list_driver(const fb_cuda_functions *f, CUdevice device, int version, json_t *entry)
{
    char driver[32];
    int khz = attribute(f, device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    bool known = kernel_driver(driver);
    json_object_set_new(
        entry, "driver",
        json_sprintf("%s%sCUDA %d.%d", known ? driver : "", known ? ", " : "", version / 1000, version % 1000 / 10));
    if (khz > 0) json_object_set_new(entry, "clock_mhz", json_integer(khz / 1000));
}

static void cuda_list(json_t *devices, json_t *libraries)
{
    if (libraries) {
        fb_cuda_list_libraries(libraries);
        fb_nvml_list(libraries);
    }
    fb_error why;
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_DRIVER, &why);
    int n = f ? device_count(f, &why) : 0, version = 0;
    if (n) f->cuDriverGetVersion(&version);
    for (int i = 0; i < n; i++) {
        CUdevice device;
        if (f->cuDeviceGet(&device, i) != CUDA_SUCCESS) continue;
        fb_machine m;
        describe(f, device, &m);
        char name[32];
        snprintf(name, sizeof name, "cuda:%d", i);
        json_t *entry = json_pack("{s:s, s:s, s:s, s:I, s:i, s:i, s:i}", "device", name, "kind", "cuda", "name", m.name,
                                  "memory_bytes", (json_int_t)m.memory_bytes, "units", m.units, "compute_major",
                                  m.compute_major, "compute_minor", m.compute_minor);
        list_driver(f, device, version, entry);
        /* Plans are made before the device is opened, and for this machine. */
        fb_cuda_calibration_read(&m, version, false);
        json_object_set_new(entry, "machine", fb_machine_to_json(&m));
        json_array_append_new(devices, entry);
    }
    if (!n)
        json_array_append_new(devices,
                              json_pack("{s:s, s:s, s:s}", "device", "cuda:0", "kind", "cuda", "missing", why.text));
}

static void cuda_close(fb_device *base)
{
    fb_cuda_device *d = (fb_cuda_device *)base;
    FB_VEC_FREE(&d->choices);
    fb_nvml_close(d->nvml);
    fb_cuda_transfer_close(d);
    if (d->flush) d->f->cuMemFree(d->flush);
    if (d->digest_sum) d->f->cuMemFree(d->digest_sum);
    if (d->digest_module) d->f->cuModuleUnload(d->digest_module);
    if (d->turn_module) d->f->cuModuleUnload(d->turn_module);
    if (d->workspace) d->f->cuMemFree(d->workspace);
    if (d->blas) d->f->cublasLtDestroy(d->blas);
    fb_cuda_convolution_close(d);
    CUstream streams[] = {d->stream, d->stream_in, d->stream_out};
    for (int i = 0; i < 3; i++)
        if (streams[i]) d->f->cuStreamDestroy(streams[i]);
    if (d->context) d->f->cuDevicePrimaryCtxRelease(d->device);
    fb_free(d);
}

static bool open_blas(fb_cuda_device *d, fb_error *err)
{
    /* Without cuBLASLt the device still runs every generated kernel. */
    if (!fb_cuda_get(FB_CUDA_BLASLT, NULL)) return true;
    if (d->f->cublasLtCreate(&d->blas) != CUBLAS_STATUS_SUCCESS)
        return fb_fail(err, FB_ERR_SYSTEM, "cuBLASLt does not start");
    FB_CUDA(d, cuMemAlloc(&d->workspace, FB_CUDA_WORKSPACE), "allocating cuBLASLt's workspace");
    return true;
}

/* Another program may have set lines of the L2 aside; those that lie there go, and none are kept for us. A GPU that has
 * no such thing says so. */
static void free_cache(fb_cuda_device *d)
{
    d->f->cuCtxResetPersistingL2Cache();
    d->f->cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0);
}

static bool open_context(fb_cuda_device *d, int index, fb_error *err)
{
    FB_CUDA(d, cuDeviceGet(&d->device, index), "opening the GPU");
    FB_CUDA(d, cuDevicePrimaryCtxRetain(&d->context, d->device), "opening the GPU");
    FB_CUDA(d, cuCtxSetCurrent(d->context), "opening the GPU");
    FB_CUDA(d, cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING), "creating a stream");
    FB_CUDA(d, cuDriverGetVersion(&d->driver_version), "asking the driver's version");
    describe(d->f, d->device, &d->machine);
    snprintf(d->arch, sizeof d->arch, "sm_%d%d", d->machine.compute_major, d->machine.compute_minor);
    free_cache(d);
    char bus[32] = "";
    if (d->f->cuDeviceGetPCIBusId(bus, sizeof bus, d->device) == CUDA_SUCCESS) d->nvml = fb_nvml_open(NULL, bus, NULL);
    if (!open_blas(d, err)) return false;
    fb_cuda_calibration_read(&d->machine, d->driver_version, d->blas != NULL);
    return true;
}

static void cuda_state(fb_device *base, fb_machine_state *out)
{
    fb_nvml_state(((fb_cuda_device *)base)->nvml, out);
}

static fb_device *cuda_open(const char *name, fb_error *err)
{
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_DRIVER, err);
    int n = f ? device_count(f, err) : 0;
    if (!n) return NULL;
    char *end = NULL;
    const char *colon = strchr(name, ':');
    long index = colon ? strtol(colon + 1, &end, 10) : 0;
    if ((colon && (end == colon + 1 || *end)) || index < 0 || index >= n) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "there is no device %s: this machine has cuda:0 to cuda:%d", name, n - 1);
        return NULL;
    }
    fb_cuda_device *d = fb_calloc(1, sizeof *d);
    d->base.ops = &fb_device_cuda;
    snprintf(d->base.name, sizeof d->base.name, "cuda:%ld", index);
    d->f = f;
    if (!open_context(d, (int)index, err)) {
        cuda_close(&d->base);
        return NULL;
    }
    return &d->base;
}

static const fb_machine *cuda_machine(const fb_device *d)
{
    return &((const fb_cuda_device *)d)->machine;
}

/* ---- loading a program ---- */

static void cuda_unload(fb_loaded *l)
{
    fb_cuda_device *d = l->device;
    d->f->cuStreamSynchronize(d->stream);
    if (d->last_run == l) d->last_run = NULL;
    for (int k = 0; k < 2; k++)
        if (l->graphs[k]) d->f->cuGraphExecDestroy(l->graphs[k]);
    fb_cuda_copies_close(l);
    for (int k = 0; k < l->program->n_kernels; k++)
        if (l->kernels[k].module) d->f->cuModuleUnload(l->kernels[k].module);
    for (int g = 0; g < l->program->n_gemms; g++) fb_cuda_gemm_free(d, l->gemms[g]);
    if (l->memory) d->f->cuMemFree(l->memory);
    fb_free(l->kernels);
    fb_free(l->gemms);
    fb_free(l->buffers);
    fb_free(l->slots);
    fb_free(l->graph_slots);
    fb_free(l->sequence);
    fb_free(l);
}

static size_t bytes_needed(const fb_program *p)
{
    size_t need = fb_cuda_aligned(p->pool_bytes) + fb_cuda_copies_bytes(p);
    for (int b = 0; b < p->n_buffers; b++) {
        if (p->buffers[b].kind != FB_BUFFER_TEMP) need += fb_cuda_aligned(p->buffers[b].bytes);
        if (p->buffers[b].assigned) need += fb_cuda_aligned(p->buffers[b].bytes); /* its pristine copy */
    }
    return need;
}

/* What cannot fit is refused before anything is compiled or allocated. */
static bool has_room(const fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    size_t need = bytes_needed(l->program), unused = 0, total = 0;
    FB_CUDA(d, cuMemGetInfo(&unused, &total), "asking for free memory");
    if (need > unused) {
        char want[32], have[32];
        return fb_fail(err, FB_ERR_LIMIT, "the plan needs %s on %s and %s are free",
                       fb_format_bytes(want, (double)need), d->machine.name, fb_format_bytes(have, (double)unused));
    }
    return true;
}

static bool allocate(fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    const fb_program *p = l->program;
    size_t need = bytes_needed(p);
    FB_CUDA(d, cuMemAlloc(&l->memory, need ? need : FB_CUDA_ALIGN), "allocating the plan's buffers");
    size_t at = fb_cuda_aligned(p->pool_bytes);
    for (int b = 0; b < p->n_buffers; b++) {
        bool temp = p->buffers[b].kind == FB_BUFFER_TEMP;
        l->buffers[b] = l->memory + (temp ? (size_t)p->buffers[b].offset : at);
        if (!temp) at += fb_cuda_aligned(p->buffers[b].bytes);
        l->slots[b] = b;
    }
    l->pristine = l->memory + at + fb_cuda_copies_bytes(p);
    return fb_cuda_copies_open(l, l->memory + at, err);
}

/* Is there room for a cluster? The hardware starts its blocks together or not at all, so one that fits never waits for
 * a block that is not there; clusters that do not fit beside it come later. */
static bool clusters_fit(fb_cuda_device *d, const fb_kernel *k, CUfunction entry, fb_error *err)
{
    enum { PORTABLE = 8 };
    int clusters = 0;
    CUlaunchAttribute size = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                              .value.clusterDim = {.x = (unsigned)k->needs.cluster, .y = 1, .z = 1}};
    CUlaunchConfig config = {.gridDimX = (unsigned)k->grid[0],
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = (unsigned)k->block[0],
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = (unsigned)k->dynamic_shared,
                             .attrs = &size,
                             .numAttrs = 1};
    if (k->needs.cluster > PORTABLE)
        FB_CUDA(d, cuFuncSetAttribute(entry, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                "asking for a large cluster");
    FB_CUDA(d, cuOccupancyMaxActiveClusters(&clusters, entry, &config), "reading how many clusters there is room for");
    return clusters > 0 || fb_fail(err, FB_ERR_LIMIT,
                                   "kernel %s runs in clusters of %d blocks, and %s has no room for one: its "
                                   "multiprocessors are in smaller groups, or have fewer registers or shared memory",
                                   k->name, k->needs.cluster, d->machine.name);
}

bool fb_cuda_own_module(fb_cuda_device *d, const char *source, const char *name, const char *doing, CUmodule *out,
                        fb_error *err)
{
    fb_cuda_code code;
    if (!fb_cuda_compile(source, name, d->arch, FB_CUBIN, &code, err)) return false;
    CUresult loaded = d->f->cuModuleLoadData(out, code.bytes);
    fb_cuda_code_clear(&code);
    return loaded == CUDA_SUCCESS ? true : fb_cuda_fail(err, loaded, doing);
}

static bool load_kernel(fb_loaded *l, int k, const fb_cuda_code *code, fb_error *err)
{
    fb_cuda_device *d = l->device;
    const fb_kernel *kernel = &l->program->kernels[k];
    fb_cuda_kernel *out = &l->kernels[k];
    int unit = fb_program_first_kernel(l->program, k); /* its first kernel owns the module */
    if (unit == k) FB_CUDA(d, cuModuleLoadData(&out->module, code->bytes), "loading a kernel");
    CUresult found = d->f->cuModuleGetFunction(&out->entry, l->kernels[unit].module, kernel->entry);
    if (found == CUDA_ERROR_NOT_FOUND && kernel->file)
        return fb_fail(err, FB_ERR_INPUT,
                       "%s: there is no function of the name that its line @entry gives, or it is "
                       "not extern \"C\"",
                       kernel->file);
    if (found != CUDA_SUCCESS) return fb_cuda_fail(err, found, "finding a kernel's entry");
    if (kernel->dynamic_shared > 48 * 1024)
        FB_CUDA(d,
                cuFuncSetAttribute(out->entry, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel->dynamic_shared),
                "asking for shared memory");
    int threads = kernel->block[0] * kernel->block[1] * kernel->block[2], blocks = 0;
    FB_CUDA(d, cuFuncGetAttribute(&out->resources.registers, CU_FUNC_ATTRIBUTE_NUM_REGS, out->entry),
            "reading a kernel's registers");
    FB_CUDA(d, cuFuncGetAttribute(&out->resources.shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, out->entry),
            "reading a kernel's shared memory");
    FB_CUDA(d,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, out->entry, threads, (size_t)kernel->dynamic_shared),
            "reading a kernel's occupancy");
    /* all blocks of a cooperative launch are there at once */
    if (kernel->needs.meets == FB_MEETS_CLUSTER && !clusters_fit(d, kernel, out->entry, err)) return false;
    out->blocks = blocks * d->machine.units < kernel->grid[0] ? blocks * d->machine.units : kernel->grid[0];
    if (kernel->merged && out->blocks < 1)
        return fb_fail(err, FB_ERR_LIMIT,
                       "kernel %s asks for more registers or shared memory than a multiprocessor has", kernel->name);
    if ((int64_t)kernel->needs.row > (int64_t)blocks * d->machine.units)
        return fb_fail(err, FB_ERR_LIMIT, "kernel %s has rows of %d blocks that wait for each other, and %d are there",
                       kernel->name, kernel->needs.row, blocks * d->machine.units);
    out->resources.shared_bytes += kernel->dynamic_shared;
    out->resources.spill_bytes = code->spill_bytes;
    out->resources.local_bytes =
        (double)code->stack_bytes * threads * kernel->grid[0] * kernel->grid[1] * kernel->grid[2];
    out->resources.occupancy =
        d->machine.max_threads_per_unit ? (double)blocks * threads / d->machine.max_threads_per_unit : NAN;
    return true;
}

/* Where a buffer's value is at this step. */
static CUdeviceptr moved(const fb_loaded *l, int buffer, fb_advance advance)
{
    return l->buffers[l->slots[buffer]] + (CUdeviceptr)fb_advance_at(advance, l->step);
}

static fb_cuda_gemm_args gemm_args(const fb_loaded *l, const fb_gemm_call *g)
{
    return (fb_cuda_gemm_args){.a = moved(l, g->a, g->a_advance),
                               .b = moved(l, g->b, g->b_advance),
                               .addend = g->addend == FB_NONE ? 0 : moved(l, g->addend, g->addend_advance),
                               .bias = g->bias == FB_NONE ? 0 : moved(l, g->bias, g->bias_advance),
                               .c = moved(l, g->c, g->c_advance)};
}

/* Before anything is written to the buffers. */
static bool choose_algorithms(fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    const fb_program *p = l->program;
    bool filled = false;
    for (int g = 0; g < p->n_gemms; g++) {
        if (fb_cuda_gemm_recall(d, l->gemms[g])) continue;
        if (!filled)
            FB_CUDA(d, cuMemsetD32Async(l->memory, FB_CUDA_NUMBERS, bytes_needed(p) / 4, d->stream), "timing products");
        filled = true;
        const fb_cuda_gemm_args at = gemm_args(l, &p->gemms[g]);
        if (!fb_cuda_gemm_choose(d, l->gemms[g], &at, err)) return false;
    }
    return true;
}

static bool load_all(fb_loaded *l, const fb_progress *progress, fb_error *err)
{
    const fb_program *p = l->program;
    if (!has_room(l, err)) return false;
    fb_cuda_code *codes = fb_calloc((size_t)p->n_kernels + 1, sizeof *codes);
    double start = fb_now_us();
    bool good = fb_cuda_compile_program(p, l->device->arch, progress, codes, err);
    bool compiled = false;
    for (int k = 0; good && k < p->n_kernels; k++) {
        if (!p->kernels[k].source) continue;
        compiled |= fb_program_first_kernel(p, k) == k && !codes[k].cached;
        good = load_kernel(l, k, &codes[k], err);
    }
    if (compiled) l->compile_ms = (fb_now_us() - start) * 1e-3;
    for (int k = 0; k < p->n_kernels; k++) fb_cuda_code_clear(&codes[k]);
    fb_free(codes);
    for (int g = 0; good && g < p->n_gemms; g++)
        good = (l->gemms[g] = fb_cuda_gemm_new(l->device, &p->gemms[g], err)) != NULL;
    good = good && allocate(l, err);
    return good && choose_algorithms(l, err);
}

static fb_loaded *cuda_load(fb_device *base, const fb_program *p, const fb_progress *progress, fb_error *err)
{
    fb_loaded *l = fb_calloc(1, sizeof *l);
    l->device = (fb_cuda_device *)base;
    l->program = p;
    l->kernels = fb_calloc((size_t)p->n_kernels + 1, sizeof *l->kernels);
    l->gemms = fb_calloc((size_t)p->n_gemms + 1, sizeof *l->gemms);
    l->buffers = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->buffers);
    l->slots = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->slots);
    l->graph_slots = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->graph_slots);
    if (load_all(l, progress, err)) return l;
    cuda_unload(l);
    return NULL;
}

static double cuda_compile_ms(const fb_loaded *l)
{
    return l->compile_ms;
}

static bool cuda_resources(const fb_loaded *l, int kernel, fb_resources *out)
{
    *out = l->kernels[kernel].resources;
    return l->kernels[kernel].entry != NULL;
}

/* ---- transfers ---- */

static bool cuda_write(fb_loaded *l, int buffer, const void *bytes, fb_error *err)
{
    fb_cuda_device *d = l->device;
    const fb_program *p = l->program;
    if (!p->buffers[buffer].bytes) return true;
    const fb_cuda_copy *copy = p->buffers[buffer].fed ? fb_cuda_copy_of(l, buffer) : NULL;
    for (int k = 0; copy && k < 2; k++) memcpy(copy->outside[k], bytes, copy->bytes);
    if (copy) return true;
    if (!fb_cuda_copy_in(d, l->buffers[buffer], bytes, (size_t)p->buffers[buffer].bytes, err)) return false;
    if (!p->buffers[buffer].assigned) return true;
    CUdeviceptr at = l->pristine;
    for (int b = 0; b < buffer; b++)
        if (p->buffers[b].assigned) at += fb_cuda_aligned(p->buffers[b].bytes);
    return fb_cuda_copy_in(d, at, bytes, (size_t)p->buffers[buffer].bytes, err);
}

static bool cuda_write_second(fb_loaded *l, int buffer, const void *bytes, fb_error *err)
{
    (void)err;
    const fb_cuda_copy *copy = fb_cuda_copy_of(l, buffer);
    if (copy) memcpy(copy->outside[1], bytes, copy->bytes);
    return true;
}

static bool cuda_read(fb_loaded *l, int buffer, void *bytes, fb_error *err)
{
    fb_cuda_device *d = l->device;
    if (!l->program->buffers[buffer].bytes) return true;
    const fb_cuda_copy *copy = l->program->buffers[buffer].received ? fb_cuda_copy_of(l, buffer) : NULL;
    if (copy) {
        memcpy(bytes, copy->outside[(l->turn + 1) & 1], copy->bytes);
        return true;
    }
    return fb_cuda_copy_out(d, l->buffers[l->slots[buffer]], bytes, (size_t)l->program->buffers[buffer].bytes, err);
}

/* Bytes of 0xff: a NaN in every float dtype, all bits set in the others. */
static bool cuda_poison(fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    const fb_program *p = l->program;
    if (p->pool_bytes) FB_CUDA(d, cuMemsetD8Async(l->memory, 0xff, (size_t)p->pool_bytes, d->stream), "poisoning");
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].kind == FB_BUFFER_OUTPUT && p->buffers[b].bytes)
            FB_CUDA(d, cuMemsetD8Async(l->buffers[b], 0xff, (size_t)p->buffers[b].bytes, d->stream), "poisoning");
    return fb_cuda_copies_poison(l, err) && fb_cuda_wait(d, err);
}

bool fb_cuda_restore(fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    const fb_program *p = l->program;
    CUdeviceptr from = l->pristine;
    for (int b = 0; b < p->n_buffers; b++) {
        l->slots[b] = b;
        if (!p->buffers[b].assigned || !p->buffers[b].bytes) continue;
        FB_CUDA(d, cuMemcpyDtoDAsync(l->buffers[b], from, (size_t)p->buffers[b].bytes, d->stream),
                "restoring a parameter");
        from += fb_cuda_aligned(p->buffers[b].bytes);
    }
    return true;
}

bool fb_cuda_make_cold(fb_cuda_device *d, fb_error *err)
{
    if (!d->flush) {
        d->flush_bytes = fb_cuda_aligned(d->machine.cache_bytes > 0 ? 2 * d->machine.cache_bytes : 64 << 20);
        FB_CUDA(d, cuMemAlloc(&d->flush, d->flush_bytes), "allocating a buffer to flush the cache with");
    }
    FB_CUDA(d, cuMemsetD32Async(d->flush, 0x7fc00000u, d->flush_bytes / 4, d->stream), "flushing the cache");
    return true;
}

bool fb_cuda_wait(fb_cuda_device *d, fb_error *err)
{
    FB_CUDA(d, cuStreamSynchronize(d->stream), "running the plan");
    return true;
}

/* ---- running ---- */

static bool launch_kernel(fb_loaded *l, const fb_launch *launch, fb_error *err)
{
    fb_cuda_device *d = l->device;
    const fb_kernel *k = &l->program->kernels[launch->kernel];
    if (!k->grid[0] || !k->grid[1] || !k->grid[2]) return true; /* no element to compute */
    CUdeviceptr pointers[1024];
    void *args[1024];
    int64_t steps = launch->steps - l->fewer;
    FB_ASSERT(launch->n_args < 1024);
    for (int i = 0; i < launch->n_args; i++) {
        const fb_advance advance = launch->advances ? launch->advances[i] : (fb_advance){0};
        pointers[i] = moved(l, launch->args[i], advance) + (launch->offsets ? (CUdeviceptr)launch->offsets[i] : 0);
        args[i] = &pointers[i];
    }
    if (launch->steps) args[launch->n_args] = &steps;
    if (k->needs.meets == FB_MEETS_GRID) {
        FB_CUDA(d,
                cuLaunchCooperativeKernel(l->kernels[launch->kernel].entry, (unsigned)l->kernels[launch->kernel].blocks,
                                          1, 1, (unsigned)k->block[0], 1, 1, (unsigned)k->dynamic_shared, d->stream,
                                          args),
                "launching a cooperative kernel");
        return true;
    }
    FB_CUDA(d,
            cuLaunchKernel(l->kernels[launch->kernel].entry, (unsigned)k->grid[0], (unsigned)k->grid[1],
                           (unsigned)k->grid[2], (unsigned)k->block[0], (unsigned)k->block[1], (unsigned)k->block[2],
                           (unsigned)k->dynamic_shared, d->stream, args, NULL),
            "launching a kernel");
    return true;
}

bool fb_cuda_launch_one(fb_loaded *l, const fb_launch *launch, const fb_cuda_watch *watch, fb_error *err)
{
    int number = launch->kind == FB_LAUNCH_GEMM ? l->program->n_kernels + launch->gemm : launch->kernel;
    if (watch && !watch->at(watch->ctx, number, l->device->stream, false, err)) return false;
    if (launch->kind == FB_LAUNCH_GEMM) {
        const fb_cuda_gemm_args at = gemm_args(l, &l->program->gemms[launch->gemm]);
        if (!fb_cuda_gemm_run(l->device, l->gemms[launch->gemm], &at, err)) return false;
    } else if (!launch_kernel(l, launch, err)) {
        return false;
    }
    return !watch || watch->at(watch->ctx, number, l->device->stream, true, err);
}

void fb_cuda_swap(fb_loaded *l, int a, int b)
{
    int kept = l->slots[a];
    l->slots[a] = l->slots[b];
    l->slots[b] = kept;
}

/* Launches [from, to); REPEAT … END nest. */
static bool issue_range(fb_loaded *l, int from, int to, int level, const fb_cuda_watch *watch, fb_error *err)
{
    for (int i = from; i < to; i++) {
        const fb_launch *launch = &l->program->launches[i];
        if (launch->kind == FB_LAUNCH_SWAP) {
            fb_cuda_swap(l, launch->swap_a, launch->swap_b);
        } else if (launch->kind == FB_LAUNCH_REPEAT) {
            int end = i + 1;
            for (int depth = 1; end < to; end++) {
                fb_launch_kind kind = l->program->launches[end].kind;
                depth += (kind == FB_LAUNCH_REPEAT) - (kind == FB_LAUNCH_END);
                if (!depth) break;
            }
            for (l->step[level] = 0; l->step[level] < launch->count; l->step[level]++)
                if (!issue_range(l, i + 1, end, level + 1, watch, err)) return false;
            i = end;
        } else if (launch->kind != FB_LAUNCH_END && !fb_cuda_launch_one(l, launch, watch, err)) {
            return false;
        }
    }
    return true;
}

bool fb_cuda_issue_kernels(fb_loaded *l, const fb_cuda_watch *watch, fb_error *err)
{
    return issue_range(l, 0, l->program->n_launches, 0, watch, err);
}

static bool capture(fb_loaded *l, int parity, fb_error *err)
{
    fb_cuda_device *d = l->device;
    CUgraph graph = NULL;
    FB_CUDA(d, cuStreamBeginCapture(d->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "capturing a CUDA graph");
    l->turn = parity;
    bool issued = fb_cuda_issue(l, NULL, err);
    CUresult ended = d->f->cuStreamEndCapture(d->stream, &graph);
    if (!issued) return false;
    if (ended != CUDA_SUCCESS) return fb_cuda_fail(err, ended, "capturing a CUDA graph");
    memcpy(l->graph_slots, l->slots, (size_t)l->program->n_buffers * sizeof *l->slots);
    CUresult made = d->f->cuGraphInstantiate(&l->graphs[parity], graph, 0);
    d->f->cuGraphDestroy(graph);
    return made == CUDA_SUCCESS ? true : fb_cuda_fail(err, made, "instantiating a CUDA graph");
}

bool fb_cuda_ready(fb_loaded *l, fb_error *err)
{
    int n = l->program->mode != FB_LAUNCH_GRAPH ? 0 : l->n_copies ? 2 : 1;
    for (int k = 0; k < n; k++)
        if (!l->graphs[k] && (!fb_cuda_restore(l, err) || !capture(l, k, err))) return false;
    return true;
}

bool fb_cuda_launch(fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    if (l->program->mode != FB_LAUNCH_GRAPH) {
        if (!fb_cuda_issue(l, NULL, err)) return false;
    } else {
        fb_cuda_take_places(l);
        FB_CUDA(d, cuGraphLaunch(l->graphs[l->n_copies ? l->turn & 1 : 0], d->stream), "launching a CUDA graph");
        memcpy(l->slots, l->graph_slots, (size_t)l->program->n_buffers * sizeof *l->slots);
    }
    l->turn++;
    return true;
}

static bool run_once(fb_loaded *l, fb_cache_state cache, double *wall_us, fb_error *err)
{
    fb_cuda_device *d = l->device;
    if (!fb_cuda_restore(l, err)) return false;
    if (cache != FB_CACHE_HOT && !fb_cuda_make_cold(d, err)) return false;
    if (!fb_cuda_wait(d, err)) return false;
    double start = fb_now_us();
    if (!fb_cuda_launch(l, err) || !fb_cuda_wait(d, err)) return false;
    *wall_us = fb_now_us() - start;
    d->last_run = cache == FB_CACHE_HOT ? l : NULL;
    return true;
}

static bool cuda_run(fb_loaded *l, const fb_run_how *how, fb_run_time *times, fb_error *err)
{
    fb_cuda_device *d = l->device;
    double ignored;
    if (!fb_cuda_ready(l, err)) return false;
    if (!fb_cuda_fill(l, err)) return false;
    if (how->cache == FB_CACHE_HOT && d->last_run != l &&
        (!run_once(l, FB_CACHE_HOT, &ignored, err) || !fb_cuda_fill(l, err)))
        return false;
    for (int i = 0; i < how->samples; i++) {
        times[i].device_us = NAN;
        if (!run_once(l, how->cache, &times[i].wall_us, err)) return false;
    }
    return fb_cuda_drain(l, err);
}

/* ---- one run with each launch timed ---- */

fb_lane fb_cuda_lane(const fb_loaded *l, int number)
{
    int copy = number - l->program->n_kernels - l->program->n_gemms;
    return copy < 0 ? FB_LANE_KERNEL : copy < l->first_out ? FB_LANE_IN : FB_LANE_OUT;
}

/* Where CUPTI is not there: an event before and after each launch, which adds what lies between them. */
typedef struct {
    fb_cuda_device *d;
    FB_VEC(CUevent) events;
    FB_VEC(int) numbers;
} event_log;

static bool log_event(void *ctx, int number, CUstream stream, bool after, fb_error *err)
{
    event_log *log = ctx;
    CUevent event;
    FB_CUDA(log->d, cuEventCreate(&event, CU_EVENT_DEFAULT), "creating an event");
    FB_VEC_PUSH(&log->events, event);
    if (!after) FB_VEC_PUSH(&log->numbers, number);
    FB_CUDA(log->d, cuEventRecord(event, stream), "recording an event");
    return true;
}

static bool since_first(event_log *log, int event, double *us, fb_error *err)
{
    float ms = 0;
    FB_CUDA(log->d, cuEventElapsedTime(&ms, log->events.at[0], log->events.at[event]), "reading an event");
    *us = ms * 1e3;
    return true;
}

static bool trace_by_events(fb_loaded *l, fb_span *spans, int64_t room, int64_t *n, fb_error *err)
{
    event_log log = {.d = l->device};
    fb_cuda_watch watch = {log_event, &log};
    bool good = fb_cuda_issue(l, &watch, err) && fb_cuda_wait(l->device, err);
    *n = log.numbers.n;
    for (int i = 0; good && i < log.numbers.n && i < room; i++) {
        spans[i] = (fb_span){.index = log.numbers.at[i],
                             .lane = fb_cuda_lane(l, log.numbers.at[i]),
                             .issue_start_us = NAN,
                             .issue_end_us = NAN};
        good = since_first(&log, 2 * i, &spans[i].start_us, err) && since_first(&log, 2 * i + 1, &spans[i].end_us, err);
    }
    double first = 0; /* streams begin in any order */
    int64_t kept = *n < room ? *n : room;
    for (int64_t i = 0; good && i < kept; i++) first = fmin(first, spans[i].start_us);
    for (int64_t i = 0; good && i < kept; i++) spans[i].start_us -= first, spans[i].end_us -= first;
    for (int i = 0; i < log.events.n; i++) l->device->f->cuEventDestroy(log.events.at[i]);
    FB_VEC_FREE(&log.events);
    FB_VEC_FREE(&log.numbers);
    return good;
}

static bool cuda_trace(fb_loaded *l, fb_cache_state cache, fb_span *spans, int64_t room, int64_t *n, fb_error *err)
{
    double ignored;
    bool cupti = fb_cuda_get(FB_CUDA_CUPTI, NULL) != NULL;
    if (!fb_cuda_ready(l, err) || !fb_cuda_fill(l, err) || (cupti && !fb_cupti_learn(l, err))) return false;
    if (!fb_cuda_fill(l, err)) return false;
    if (cache == FB_CACHE_HOT && l->device->last_run != l &&
        (!run_once(l, FB_CACHE_HOT, &ignored, err) || !fb_cuda_fill(l, err)))
        return false;
    if (!fb_cuda_restore(l, err) || (cache == FB_CACHE_COLD && !fb_cuda_make_cold(l->device, err))) return false;
    if (!fb_cuda_wait(l->device, err)) return false;
    l->device->last_run = cache == FB_CACHE_HOT ? l : NULL;
    bool good = cupti ? fb_cupti_trace(l, spans, room, n, err) : trace_by_events(l, spans, room, n, err);
    return good && fb_cuda_fill(l, err) && fb_cuda_wait(l->device, err);
}

const fb_device_ops fb_device_cuda = {
    .kind = "cuda",
    .target = &fb_target_cuda,
    .list = cuda_list,
    .available = cuda_available,
    .driver = cuda_driver,
    .open = cuda_open,
    .close = cuda_close,
    .machine = cuda_machine,
    .calibrate = fb_cuda_calibrate,
    .load = cuda_load,
    .unload = cuda_unload,
    .compile_ms = cuda_compile_ms,
    .resources = cuda_resources,
    .write = cuda_write,
    .read = cuda_read,
    .write_second = cuda_write_second,
    .run = cuda_run,
    .poison = cuda_poison,
    .state = cuda_state,
    .trace = cuda_trace,
    .stepping = &fb_cuda_stepping,
    .count = fb_cupti_count,
    .sample_metrics = fb_cupti_sample,
};
