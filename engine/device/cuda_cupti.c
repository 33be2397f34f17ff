/* CUPTI: kernel times from activity records, and traffic from the range profiler. The two never run at once: counters
 * serialise kernels and would spoil the times.
 *
 * A launch is recognised again by an external correlation id (activity) or by its range's name (counters), so that a
 * library call that starts several kernels still counts as the one launch it is. */
#include "device/cuda_parts.h"

#include "base/mem.h"
#include "base/vec.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACTIVITY_BUFFER = 4 << 20, MAX_RANGES = 2000 };

static bool failed(const fb_cuda_functions *f, fb_error *err, CUptiResult status, const char *doing)
{
    const char *text = "unknown error";
    f->cuptiGetResultString(status, &text);
    return fb_fail(err, FB_ERR_UNAVAILABLE, "CUPTI, %s: %s", doing, text);
}

#define CUPTI(f, call, doing)                                                                                          \
    do {                                                                                                               \
        CUptiResult cupti_status = (f)->call;                                                                          \
        if (cupti_status != CUPTI_SUCCESS) return failed((f), err, cupti_status, doing);                               \
    } while (0)

/* ---- activity ---- */

typedef struct {
    uint32_t correlation;
    uint64_t start, end; /* ns */
} kernel_record;

typedef struct {
    uint32_t correlation;
    uint64_t number; /* of the launch */
} launch_link;

/* CUPTI calls back without a context of ours, from threads of its own: one log a process, guarded. */
static struct {
    pthread_mutex_t lock;
    bool registered;
    const fb_cuda_functions *f;
    FB_VEC(kernel_record) kernels;
    FB_VEC(launch_link) links;
} activity = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void CUPTIAPI want_buffer(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = fb_alloc(ACTIVITY_BUFFER); /* 16-byte aligned; CUPTI asks for 8 */
    *size = ACTIVITY_BUFFER;
    *max_records = 0;
}

static void take_record(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel10 *k = (const void *)record;
        FB_VEC_PUSH(&activity.kernels, (kernel_record){k->correlationId, k->start, k->end});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
        const CUpti_ActivityExternalCorrelation *e = (const void *)record;
        FB_VEC_PUSH(&activity.links, (launch_link){e->correlationId, e->externalId});
    }
}

static void CUPTIAPI have_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)context, (void)stream, (void)size;
    CUpti_Activity *record = NULL;
    pthread_mutex_lock(&activity.lock);
    while (activity.f->cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) take_record(record);
    pthread_mutex_unlock(&activity.lock);
    fb_free(buffer);
}

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_DRIVER,
                                           CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static bool start_activity(const fb_cuda_functions *f, fb_error *err)
{
    activity.f = f;
    if (!activity.registered) CUPTI(f, cuptiActivityRegisterCallbacks(want_buffer, have_buffer), "registering");
    activity.registered = true;
    activity.kernels.n = activity.links.n = 0;
    for (int i = 0; i < N_KINDS; i++) CUPTI(f, cuptiActivityEnable(kinds[i]), "starting to record");
    return true;
}

static void stop_activity(const fb_cuda_functions *f)
{
    f->cuptiActivityFlushAll(1);
    for (int i = 0; i < N_KINDS; i++) f->cuptiActivityDisable(kinds[i]);
}

static bool mark_launch(void *ctx, int number, bool after, fb_error *err)
{
    const fb_cuda_functions *f = ctx;
    uint64_t ended;
    if (after)
        CUPTI(f, cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &ended),
              "marking a launch");
    else
        CUPTI(f, cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, (uint64_t)number),
              "marking a launch");
    return true;
}

static int by_correlation(const void *a, const void *b)
{
    const launch_link *x = a, *y = b;
    return (x->correlation > y->correlation) - (x->correlation < y->correlation);
}

static int by_start(const void *a, const void *b)
{
    const kernel_record *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Kernel records in order of execution, each under the number of the launch that it came from. */
static int64_t take_spans(fb_span *spans, int64_t room)
{
    int64_t n = 0;
    qsort(activity.links.at, (size_t)activity.links.n, sizeof *activity.links.at, by_correlation);
    qsort(activity.kernels.at, (size_t)activity.kernels.n, sizeof *activity.kernels.at, by_start);
    for (int i = 0; i < activity.kernels.n; i++) {
        const kernel_record *k = &activity.kernels.at[i];
        launch_link key = {.correlation = k->correlation};
        const launch_link *found =
            bsearch(&key, activity.links.at, (size_t)activity.links.n, sizeof key, by_correlation);
        if (!found) continue;
        if (n < room)
            spans[n] = (fb_span){.index = (int)found->number,
                                 .start_us = (double)(k->start - activity.kernels.at[0].start) * 1e-3,
                                 .end_us = (double)(k->end - activity.kernels.at[0].start) * 1e-3};
        n++;
    }
    return n;
}

bool fb_cupti_trace(fb_loaded *l, fb_span *spans, int64_t room, int64_t *n, fb_error *err)
{
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_CUPTI, err);
    if (!f) return false;
    fb_cuda_watch watch = {mark_launch, (void *)f};
    bool good = start_activity(f, err) && fb_cuda_issue(l, &watch, err) && fb_cuda_wait(l->device, err);
    stop_activity(f);
    if (good) *n = take_spans(spans, room);
    return good;
}

/* ---- counters ---- */

/* All of these fit one pass on GH100. Blackwell renames the DRAM bytes; the second name is tried when the first is
 * unknown. */
enum { M_READ, M_WRITTEN, M_L2, M_OCCUPANCY, M_TENSOR, M_CYCLES, METRICS };
static const char *const metric_names[2][METRICS] = {
    {"dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum",
     "sm__warps_active.avg.pct_of_peak_sustained_active",
     "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "sm__cycles_elapsed.max"},
    {"dram__bytes_op_read.sum", "dram__bytes_op_write.sum", "lts__t_bytes.sum",
     "sm__warps_active.avg.pct_of_peak_sustained_active",
     "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "sm__cycles_elapsed.max"},
};

typedef struct {
    const fb_cuda_functions *f;
    const char *const *names;
    CUpti_Profiler_Host_Object *host;
    CUpti_RangeProfiler_Object *ranges;
    uint8_t *availability, *config, *data;
    size_t config_size, data_size;
} profiler;

static bool permission_hint(fb_error *err, CUptiResult status, const fb_cuda_functions *f)
{
    switch ((int)status) {
    case 33:
    case 35:
    case 40:
    case 41:
    case 43:
        return fb_fail(err, FB_ERR_UNAVAILABLE,
                       "the driver keeps GPU counters to administrators (CUPTI status %d): run as root, or load the "
                       "nvidia module with "
                       "NVreg_RestrictProfilingToAdminUsers=0; bytes stay modelled",
                       (int)status);
    default: return failed(f, err, status, "enabling the range profiler");
    }
}

static bool open_host(profiler *p, fb_cuda_device *d, fb_error *err)
{
    const fb_cuda_functions *f = p->f;
    CUpti_Profiler_Initialize_Params init = {.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE};
    CUPTI(f, cuptiProfilerInitialize(&init), "starting the profiler");
    CUpti_Device_GetChipName_Params chip = {.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE,
                                            .deviceIndex = (size_t)d->device};
    CUPTI(f, cuptiDeviceGetChipName(&chip), "asking for the chip");
    CUpti_Profiler_GetCounterAvailability_Params have = {
        .structSize = CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE, .ctx = d->context};
    CUptiResult status = f->cuptiProfilerGetCounterAvailability(&have);
    if (status != CUPTI_SUCCESS) return permission_hint(err, status, f);
    p->availability = have.pCounterAvailabilityImage = fb_calloc(1, have.counterAvailabilityImageSize);
    CUPTI(f, cuptiProfilerGetCounterAvailability(&have), "asking for the counters");
    CUpti_Profiler_Host_Initialize_Params host = {.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE,
                                                  .profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER,
                                                  .pChipName = chip.pChipName,
                                                  .pCounterAvailabilityImage = p->availability};
    CUPTI(f, cuptiProfilerHostInitialize(&host), "starting the profiler's host side");
    p->host = host.pHostObject;
    return true;
}

static bool add_metrics(profiler *p, fb_error *err)
{
    CUptiResult status = CUPTI_ERROR_UNKNOWN;
    for (int set = 0; set < 2 && status != CUPTI_SUCCESS; set++) {
        p->names = metric_names[set];
        CUpti_Profiler_Host_ConfigAddMetrics_Params add = {.structSize =
                                                               CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE,
                                                           .pHostObject = p->host,
                                                           .ppMetricNames = (const char **)p->names,
                                                           .numMetrics = METRICS};
        status = p->f->cuptiProfilerHostConfigAddMetrics(&add);
    }
    return status == CUPTI_SUCCESS ? true : failed(p->f, err, status, "choosing counters");
}

static bool make_config(profiler *p, fb_error *err)
{
    const fb_cuda_functions *f = p->f;
    if (!add_metrics(p, err)) return false;
    CUpti_Profiler_Host_GetConfigImageSize_Params size = {
        .structSize = CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE, .pHostObject = p->host};
    CUPTI(f, cuptiProfilerHostGetConfigImageSize(&size), "sizing the configuration");
    p->config_size = size.configImageSize;
    p->config = fb_calloc(1, p->config_size);
    CUpti_Profiler_Host_GetConfigImage_Params image = {.structSize =
                                                           CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE,
                                                       .pHostObject = p->host,
                                                       .configImageSize = p->config_size,
                                                       .pConfigImage = p->config};
    CUPTI(f, cuptiProfilerHostGetConfigImage(&image), "making the configuration");
    return true;
}

static bool enable(profiler *p, fb_cuda_device *d, int max_ranges, fb_error *err)
{
    const fb_cuda_functions *f = p->f;
    CUpti_RangeProfiler_Enable_Params on = {.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE,
                                            .ctx = d->context};
    CUptiResult status = f->cuptiRangeProfilerEnable(&on);
    if (status != CUPTI_SUCCESS) return permission_hint(err, status, f);
    p->ranges = on.pRangeProfilerObject;
    CUpti_RangeProfiler_GetCounterDataSize_Params size = {.structSize =
                                                              CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE,
                                                          .pRangeProfilerObject = p->ranges,
                                                          .pMetricNames = (const char **)p->names,
                                                          .numMetrics = METRICS,
                                                          .maxNumOfRanges = (size_t)max_ranges,
                                                          .maxNumRangeTreeNodes = (uint32_t)max_ranges};
    CUPTI(f, cuptiRangeProfilerGetCounterDataSize(&size), "sizing the counter data");
    p->data_size = size.counterDataSize;
    p->data = fb_calloc(1, p->data_size);
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params data = {
        .structSize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE,
        .pRangeProfilerObject = p->ranges,
        .counterDataSize = p->data_size,
        .pCounterData = p->data};
    CUPTI(f, cuptiRangeProfilerCounterDataImageInitialize(&data), "preparing the counter data");
    CUpti_RangeProfiler_SetConfig_Params set = {.structSize = CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE,
                                                .pRangeProfilerObject = p->ranges,
                                                .configSize = p->config_size,
                                                .pConfig = p->config,
                                                .counterDataImageSize = p->data_size,
                                                .pCounterDataImage = p->data,
                                                .range = CUPTI_UserRange,
                                                .replayMode = CUPTI_UserReplay,
                                                .maxRangesPerPass = (size_t)max_ranges,
                                                .numNestingLevels = 1,
                                                .minNestingLevel = 1,
                                                .targetNestingLevel = 1};
    CUPTI(f, cuptiRangeProfilerSetConfig(&set), "configuring the range profiler");
    return true;
}

typedef struct {
    profiler *p;
    fb_loaded *l;
} range_ctx;

static bool mark_range(void *ctx, int number, bool after, fb_error *err)
{
    range_ctx *r = ctx;
    const fb_cuda_functions *f = r->p->f;
    if (!after) {
        char name[24];
        snprintf(name, sizeof name, "%d", number);
        CUpti_RangeProfiler_PushRange_Params push = {.structSize = CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE,
                                                     .pRangeProfilerObject = r->p->ranges,
                                                     .pRangeName = name};
        CUPTI(f, cuptiRangeProfilerPushRange(&push), "opening a range");
        return true;
    }
    if (!fb_cuda_wait(r->l->device, err)) return false;
    CUpti_RangeProfiler_PopRange_Params pop = {.structSize = CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE,
                                               .pRangeProfilerObject = r->p->ranges};
    CUPTI(f, cuptiRangeProfilerPopRange(&pop), "closing a range");
    return true;
}

static bool run_passes(profiler *p, fb_loaded *l, fb_error *err)
{
    const fb_cuda_functions *f = p->f;
    range_ctx ctx = {p, l};
    fb_cuda_watch watch = {mark_range, &ctx};
    for (bool all = false; !all;) {
        if (!fb_cuda_restore(l, err) || !fb_cuda_wait(l->device, err)) return false;
        CUpti_RangeProfiler_Start_Params start = {.structSize = CUpti_RangeProfiler_Start_Params_STRUCT_SIZE,
                                                  .pRangeProfilerObject = p->ranges};
        CUPTI(f, cuptiRangeProfilerStart(&start), "starting to count");
        if (!fb_cuda_issue(l, &watch, err)) return false;
        CUpti_RangeProfiler_Stop_Params stop = {.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE,
                                                .pRangeProfilerObject = p->ranges};
        CUPTI(f, cuptiRangeProfilerStop(&stop), "stopping to count");
        all = stop.isAllPassSubmitted;
    }
    CUpti_RangeProfiler_DecodeData_Params decode = {.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE,
                                                    .pRangeProfilerObject = p->ranges};
    CUPTI(f, cuptiRangeProfilerDecodeData(&decode), "decoding the counters");
    return true;
}

static void add_range(fb_counters *out, const double v[METRICS])
{
    /* A kernel launched several times: bytes and cycles add up, shares are averaged by cycles. */
    double before = out->cycles, all = before + v[M_CYCLES];
    out->dram_read += v[M_READ];
    out->dram_written += v[M_WRITTEN];
    out->l2_bytes += v[M_L2];
    if (all > 0) {
        out->occupancy = (out->occupancy * before + v[M_OCCUPANCY] * 0.01 * v[M_CYCLES]) / all;
        out->tensor_active = (out->tensor_active * before + v[M_TENSOR] * 0.01 * v[M_CYCLES]) / all;
    }
    out->cycles = all;
}

static bool read_ranges(profiler *p, int numbers, fb_counters *out, fb_error *err)
{
    const fb_cuda_functions *f = p->f;
    CUpti_RangeProfiler_GetCounterDataInfo_Params info = {.structSize =
                                                              CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE,
                                                          .pCounterDataImage = p->data,
                                                          .counterDataImageSize = p->data_size};
    CUPTI(f, cuptiRangeProfilerGetCounterDataInfo(&info), "reading the counters");
    for (size_t i = 0; i < info.numTotalRanges; i++) {
        CUpti_RangeProfiler_CounterData_GetRangeInfo_Params range = {
            .structSize = CUpti_RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE,
            .pCounterDataImage = p->data,
            .counterDataImageSize = p->data_size,
            .rangeIndex = i,
            .rangeDelimiter = "/"};
        CUPTI(f, cuptiRangeProfilerCounterDataGetRangeInfo(&range), "reading a range");
        double values[METRICS] = {0};
        CUpti_Profiler_Host_EvaluateToGpuValues_Params evaluate = {
            .structSize = CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE,
            .pHostObject = p->host,
            .pCounterDataImage = p->data,
            .counterDataImageSize = p->data_size,
            .rangeIndex = i,
            .ppMetricNames = (const char **)p->names,
            .numMetrics = METRICS,
            .pMetricValues = values};
        CUPTI(f, cuptiProfilerHostEvaluateToGpuValues(&evaluate), "evaluating the counters");
        int number = atoi(range.rangeName);
        if (number >= 0 && number < numbers) add_range(&out[number], values);
    }
    return true;
}

static void close_profiler(profiler *p)
{
    if (p->ranges) {
        CUpti_RangeProfiler_Disable_Params off = {.structSize = CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE,
                                                  .pRangeProfilerObject = p->ranges};
        p->f->cuptiRangeProfilerDisable(&off);
    }
    if (p->host) {
        CUpti_Profiler_Host_Deinitialize_Params gone = {
            .structSize = CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE, .pHostObject = p->host};
        p->f->cuptiProfilerHostDeinitialize(&gone);
    }
    fb_free(p->availability);
    fb_free(p->config);
    fb_free(p->data);
}

bool fb_cupti_count(fb_loaded *l, fb_counters *out, fb_error *err)
{
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_CUPTI, err);
    if (!f) return false;
    int64_t launches = fb_program_launches(l->program);
    if (launches > MAX_RANGES)
        return fb_fail(err, FB_ERR_UNAVAILABLE,
                       "%lld launches are too many to count one by one (limit %d); bytes stay modelled",
                       (long long)launches, MAX_RANGES);
    int numbers = l->program->n_kernels + l->program->n_gemms;
    for (int i = 0; i < numbers; i++) out[i] = (fb_counters){0};
    profiler p = {.f = f};
    bool good = open_host(&p, l->device, err) && make_config(&p, err) &&
                enable(&p, l->device, launches ? (int)launches : 1, err) && run_passes(&p, l, err) &&
                read_ranges(&p, numbers, out, err);
    close_profiler(&p);
    return good;
}
