/* CUPTI: kernel times from activity records, and traffic from the range profiler. The two never run at once: counters
 * serialise kernels and would spoil the times.
 *
 * A launch is recognised again by an external correlation id (activity) or by its range's name (counters), so that a
 * library call that starts several kernels still counts as the one launch it is. */
#include "device/cuda/parts.h"

#include "base/mem.h"
#include "base/vec.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACTIVITY_BUFFER = 4 << 20, MAX_RANGES = 2000 };

bool fb_cupti_fail(const fb_cuda_functions *f, fb_error *err, CUptiResult status, const char *doing)
{
    const char *text = "unknown error";
    f->cuptiGetResultString(status, &text);
    return fb_fail(err, FB_ERR_UNAVAILABLE, "CUPTI, %s: %s", doing, text);
}

/* ---- activity ---- */

typedef struct {
    uint32_t correlation, stream;
    uint64_t start, end; /* ns, of the clock that all records share */
    fb_lane lane;
} kernel_record; /* or of a copy */

/* A call of the driver, or of the runtime that a library carries: the one that launched the kernels of the same
 * correlation. */
typedef struct {
    uint32_t correlation;
    uint64_t start, end;
} call_record;

typedef struct {
    uint32_t correlation;
    uint64_t number; /* of the launch, or WHOLE_GRAPH */
} launch_link;

static const uint64_t WHOLE_GRAPH = UINT64_MAX;

/* CUPTI calls back without a context of ours, from threads of its own: one log a process, guarded. */
static struct {
    pthread_mutex_t lock;
    bool registered;
    const fb_cuda_functions *f;
    FB_VEC(kernel_record) kernels, copies;
    FB_VEC(call_record) calls;
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
        FB_VEC_PUSH(&activity.kernels,
                    (kernel_record){k->correlationId, k->streamId, k->start, k->end, FB_LANE_KERNEL});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy6 *c = (const void *)record;
        if (c->copyKind != CUPTI_ACTIVITY_MEMCPY_KIND_HTOD && c->copyKind != CUPTI_ACTIVITY_MEMCPY_KIND_DTOH) return;
        fb_lane lane = c->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? FB_LANE_IN : FB_LANE_OUT;
        FB_VEC_PUSH(&activity.copies, (kernel_record){c->correlationId, c->streamId, c->start, c->end, lane});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_DRIVER || record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
        const CUpti_ActivityAPI *c = (const void *)record;
        FB_VEC_PUSH(&activity.calls, (call_record){c->correlationId, c->start, c->end});
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

/* Without RUNTIME, what a library launches through a runtime of its own (cuBLASLt's f32 kernels) has no mark. */
static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_DRIVER,
                                           CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static bool start_activity(const fb_cuda_functions *f, fb_error *err)
{
    activity.f = f;
    if (!activity.registered) FB_CUPTI(f, cuptiActivityRegisterCallbacks(want_buffer, have_buffer), "registering");
    activity.registered = true;
    activity.kernels.n = activity.copies.n = activity.calls.n = activity.links.n = 0;
    for (int i = 0; i < N_KINDS; i++) FB_CUPTI(f, cuptiActivityEnable(kinds[i]), "starting to record");
    return true;
}

static void stop_activity(const fb_cuda_functions *f)
{
    f->cuptiActivityFlushAll(1);
    for (int i = 0; i < N_KINDS; i++) f->cuptiActivityDisable(kinds[i]);
}

static bool begin_mark(const fb_cuda_functions *f, uint64_t number, fb_error *err)
{
    FB_CUPTI(f, cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, number),
             "marking a launch");
    return true;
}

static bool end_mark(const fb_cuda_functions *f, fb_error *err)
{
    uint64_t ended;
    FB_CUPTI(f, cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &ended),
             "marking a launch");
    return true;
}

static bool mark_launch(void *ctx, int number, CUstream stream, bool after, fb_error *err)
{
    (void)stream;
    return after ? end_mark(ctx, err) : begin_mark(ctx, (uint64_t)number, err);
}

static int by_number(uint32_t x, uint32_t y)
{
    return (x > y) - (x < y);
}

static int link_order(const void *a, const void *b)
{
    return by_number(((const launch_link *)a)->correlation, ((const launch_link *)b)->correlation);
}

static int call_order(const void *a, const void *b)
{
    return by_number(((const call_record *)a)->correlation, ((const call_record *)b)->correlation);
}

static int by_start(const void *a, const void *b)
{
    const kernel_record *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* In order; others may use the GPU from this process: cuBLASLt's start-up. */
static int keep_marked(kernel_record *records, int n)
{
    int kept = 0;
    if (n) qsort(records, (size_t)n, sizeof *records, by_start);
    for (int i = 0; i < n; i++) {
        launch_link key = {.correlation = records[i].correlation};
        if (bsearch(&key, activity.links.at, (size_t)activity.links.n, sizeof key, link_order))
            records[kept++] = records[i];
    }
    return kept;
}

/* Leaves in `activity` the kernels and copies of one run, in order of execution, with the calls and links of their
 * launches. */
static bool record_run(fb_loaded *l, bool as_graph, fb_error *err)
{
    const fb_cuda_functions *f = l->device->f;
    fb_cuda_watch watch = {mark_launch, (void *)f};
    bool good = start_activity(f, err);
    if (good && as_graph)
        good = begin_mark(f, WHOLE_GRAPH, err) && fb_cuda_launch(l, err) && end_mark(f, err);
    else if (good)
        good = fb_cuda_issue(l, &watch, err);
    good = good && fb_cuda_wait(l->device, err);
    stop_activity(f);
    qsort(activity.links.at, (size_t)activity.links.n, sizeof *activity.links.at, link_order);
    qsort(activity.calls.at, (size_t)activity.calls.n, sizeof *activity.calls.at, call_order);
    activity.kernels.n = keep_marked(activity.kernels.at, activity.kernels.n);
    activity.copies.n = keep_marked(activity.copies.at, activity.copies.n);
    return good;
}

static uint64_t launch_of(const kernel_record *k)
{
    launch_link key = {.correlation = k->correlation};
    const launch_link *found = bsearch(&key, activity.links.at, (size_t)activity.links.n, sizeof key, link_order);
    return found->number;
}

static const call_record *call_of(const kernel_record *k)
{
    call_record key = {.correlation = k->correlation};
    return bsearch(&key, activity.calls.at, (size_t)activity.calls.n, sizeof key, call_order);
}

static uint64_t first_of_all(const kernel_record *records, int n, uint64_t first)
{
    for (int i = 0; i < n; i++) {
        const kernel_record *k = &records[i];
        const call_record *call = call_of(k);
        if (k->start < first) first = k->start;
        if (call && call->start && call->start < first) first = call->start;
    }
    return first;
}

static double us_since(uint64_t origin, uint64_t at)
{
    return (double)(int64_t)(at - origin) * 1e-3;
}

static fb_span span_of(const kernel_record *k, int index, uint64_t origin)
{
    const call_record *call = call_of(k);
    bool called = call && call->start;
    return (fb_span){.index = index,
                     .start_us = us_since(origin, k->start),
                     .end_us = us_since(origin, k->end),
                     .issue_start_us = called ? us_since(origin, call->start) : NAN,
                     .issue_end_us = called ? us_since(origin, call->end) : NAN,
                     .stream = (int)k->stream,
                     .lane = k->lane};
}

/* Copies of a graph are known by their order, which is that of their stream. */
static int copy_in_graph(const fb_loaded *l, const kernel_record *k)
{
    int before = k->lane == FB_LANE_IN ? 0 : l->first_out, end = k->lane == FB_LANE_IN ? l->first_out : l->n_copies;
    for (const kernel_record *x = activity.copies.at; x < k; x++) before += x->lane == k->lane;
    return before < end ? l->program->n_kernels + l->program->n_gemms + before : -1;
}

static int64_t take_spans(const fb_loaded *l, bool as_graph, fb_span *spans, int64_t room)
{
    int64_t n = 0;
    uint64_t origin = first_of_all(activity.kernels.at, activity.kernels.n, UINT64_MAX);
    origin = first_of_all(activity.copies.at, activity.copies.n, origin);
    for (int i = 0; i < activity.kernels.n; i++, n++) {
        const kernel_record *k = &activity.kernels.at[i];
        if (n < room) spans[n] = span_of(k, as_graph ? l->sequence[i] : (int)launch_of(k), origin);
    }
    for (int i = 0; i < activity.copies.n; i++, n++) {
        const kernel_record *k = &activity.copies.at[i];
        if (n < room) spans[n] = span_of(k, as_graph ? copy_in_graph(l, k) : (int)launch_of(k), origin);
    }
    return n;
}

bool fb_cupti_learn(fb_loaded *l, fb_error *err)
{
    if (l->program->mode != FB_LAUNCH_GRAPH || l->sequence || l->no_sequence) return true;
    if (!fb_cuda_restore(l, err) || !record_run(l, false, err)) return false;
    l->n_sequence = activity.kernels.n;
    l->sequence = fb_alloc(((size_t)l->n_sequence + 1) * sizeof *l->sequence);
    for (int i = 0; i < activity.kernels.n; i++) l->sequence[i] = (int)launch_of(&activity.kernels.at[i]);
    return true;
}

bool fb_cupti_trace(fb_loaded *l, fb_span *spans, int64_t room, int64_t *n, fb_error *err)
{
    bool as_graph = l->sequence != NULL && !l->no_sequence;
    if (!record_run(l, as_graph, err)) return false;
    if (as_graph && activity.kernels.n != l->n_sequence) {
        l->no_sequence = true; /* then the stream's times are the best there are */
        as_graph = false;
        if (!fb_cuda_restore(l, err) || !record_run(l, false, err)) return false;
    }
    *n = take_spans(l, as_graph, spans, room);
    return true;
}

/* ---- counters ---- */

/* All of these fit one pass on GH100. L2 bytes are what the SMs asked of it, in sectors of 32 bytes: lts__t_bytes, the
 * second choice, counts what DRAM fills it with besides. Blackwell renames the DRAM bytes. The first set that is known
 * is taken. */
enum { M_READ, M_WRITTEN, M_L2, M_OCCUPANCY, M_TENSOR, M_CYCLES, METRICS };
#define REST                                                                                                           \
    "sm__warps_active.avg.pct_of_peak_sustained_active",                                                               \
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "sm__cycles_elapsed.max"
static const struct {
    const char *names[METRICS];
    double l2_unit; /* bytes */
} metric_sets[] = {
    {{"dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors_srcunit_tex.sum", REST}, 32},
    {{"dram__bytes_op_read.sum", "dram__bytes_op_write.sum", "lts__t_sectors_srcunit_tex.sum", REST}, 32},
    {{"dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum", REST}, 1},
    {{"dram__bytes_op_read.sum", "dram__bytes_op_write.sum", "lts__t_bytes.sum", REST}, 1},
};
#undef REST

typedef struct {
    const fb_cuda_functions *f;
    const char *const *names;
    double l2_unit;
    CUpti_Profiler_Host_Object *host;
    CUpti_RangeProfiler_Object *ranges;
    uint8_t *availability, *config, *data;
    size_t config_size, data_size;
} profiler;

bool fb_cupti_forbidden(const fb_cuda_functions *f, fb_error *err, CUptiResult status)
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
    default: return fb_cupti_fail(f, err, status, "enabling the profiler");
    }
}

static bool open_host(profiler *p, fb_cuda_device *d, fb_error *err)
{
    const fb_cuda_functions *f = p->f;
    CUpti_Profiler_Initialize_Params init = {.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE};
    FB_CUPTI(f, cuptiProfilerInitialize(&init), "starting the profiler");
    CUpti_Device_GetChipName_Params chip = {.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE,
                                            .deviceIndex = (size_t)d->device};
    FB_CUPTI(f, cuptiDeviceGetChipName(&chip), "asking for the chip");
    CUpti_Profiler_GetCounterAvailability_Params have = {
        .structSize = CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE, .ctx = d->context};
    CUptiResult status = f->cuptiProfilerGetCounterAvailability(&have);
    if (status != CUPTI_SUCCESS) return fb_cupti_forbidden(f, err, status);
    p->availability = have.pCounterAvailabilityImage = fb_calloc(1, have.counterAvailabilityImageSize);
    FB_CUPTI(f, cuptiProfilerGetCounterAvailability(&have), "asking for the counters");
    CUpti_Profiler_Host_Initialize_Params host = {.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE,
                                                  .profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER,
                                                  .pChipName = chip.pChipName,
                                                  .pCounterAvailabilityImage = p->availability};
    FB_CUPTI(f, cuptiProfilerHostInitialize(&host), "starting the profiler's host side");
    p->host = host.pHostObject;
    return true;
}

static bool add_metrics(profiler *p, fb_error *err)
{
    CUptiResult status = CUPTI_ERROR_UNKNOWN;
    for (size_t set = 0; set < sizeof metric_sets / sizeof *metric_sets && status != CUPTI_SUCCESS; set++) {
        p->names = metric_sets[set].names;
        p->l2_unit = metric_sets[set].l2_unit;
        CUpti_Profiler_Host_ConfigAddMetrics_Params add = {.structSize =
                                                               CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE,
                                                           .pHostObject = p->host,
                                                           .ppMetricNames = (const char **)p->names,
                                                           .numMetrics = METRICS};
        status = p->f->cuptiProfilerHostConfigAddMetrics(&add);
    }
    return status == CUPTI_SUCCESS ? true : fb_cupti_fail(p->f, err, status, "choosing counters");
}

static bool make_config(profiler *p, fb_error *err)
{
    const fb_cuda_functions *f = p->f;
    if (!add_metrics(p, err)) return false;
    CUpti_Profiler_Host_GetConfigImageSize_Params size = {
        .structSize = CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE, .pHostObject = p->host};
    FB_CUPTI(f, cuptiProfilerHostGetConfigImageSize(&size), "sizing the configuration");
    p->config_size = size.configImageSize;
    p->config = fb_calloc(1, p->config_size);
    CUpti_Profiler_Host_GetConfigImage_Params image = {.structSize =
                                                           CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE,
                                                       .pHostObject = p->host,
                                                       .configImageSize = p->config_size,
                                                       .pConfigImage = p->config};
    FB_CUPTI(f, cuptiProfilerHostGetConfigImage(&image), "making the configuration");
    return true;
}

static bool enable(profiler *p, fb_cuda_device *d, int max_ranges, fb_error *err)
{
    const fb_cuda_functions *f = p->f;
    CUpti_RangeProfiler_Enable_Params on = {.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE,
                                            .ctx = d->context};
    CUptiResult status = f->cuptiRangeProfilerEnable(&on);
    if (status != CUPTI_SUCCESS) return fb_cupti_forbidden(f, err, status);
    p->ranges = on.pRangeProfilerObject;
    CUpti_RangeProfiler_GetCounterDataSize_Params size = {.structSize =
                                                              CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE,
                                                          .pRangeProfilerObject = p->ranges,
                                                          .pMetricNames = (const char **)p->names,
                                                          .numMetrics = METRICS,
                                                          .maxNumOfRanges = (size_t)max_ranges,
                                                          .maxNumRangeTreeNodes = (uint32_t)max_ranges};
    FB_CUPTI(f, cuptiRangeProfilerGetCounterDataSize(&size), "sizing the counter data");
    p->data_size = size.counterDataSize;
    p->data = fb_calloc(1, p->data_size);
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params data = {
        .structSize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE,
        .pRangeProfilerObject = p->ranges,
        .counterDataSize = p->data_size,
        .pCounterData = p->data};
    FB_CUPTI(f, cuptiRangeProfilerCounterDataImageInitialize(&data), "preparing the counter data");
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
    FB_CUPTI(f, cuptiRangeProfilerSetConfig(&set), "configuring the range profiler");
    return true;
}

typedef struct {
    profiler *p;
    fb_loaded *l;
} range_ctx;

static bool mark_range(void *ctx, int number, CUstream stream, bool after, fb_error *err)
{
    (void)stream;
    range_ctx *r = ctx;
    const fb_cuda_functions *f = r->p->f;
    if (!after) {
        char name[24];
        snprintf(name, sizeof name, "%d", number);
        CUpti_RangeProfiler_PushRange_Params push = {.structSize = CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE,
                                                     .pRangeProfilerObject = r->p->ranges,
                                                     .pRangeName = name};
        FB_CUPTI(f, cuptiRangeProfilerPushRange(&push), "opening a range");
        return true;
    }
    if (!fb_cuda_wait(r->l->device, err)) return false;
    CUpti_RangeProfiler_PopRange_Params pop = {.structSize = CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE,
                                               .pRangeProfilerObject = r->p->ranges};
    FB_CUPTI(f, cuptiRangeProfilerPopRange(&pop), "closing a range");
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
        FB_CUPTI(f, cuptiRangeProfilerStart(&start), "starting to count");
        if (!fb_cuda_issue_kernels(l, &watch, err)) return false;
        CUpti_RangeProfiler_Stop_Params stop = {.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE,
                                                .pRangeProfilerObject = p->ranges};
        FB_CUPTI(f, cuptiRangeProfilerStop(&stop), "stopping to count");
        all = stop.isAllPassSubmitted;
    }
    CUpti_RangeProfiler_DecodeData_Params decode = {.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE,
                                                    .pRangeProfilerObject = p->ranges};
    FB_CUPTI(f, cuptiRangeProfilerDecodeData(&decode), "decoding the counters");
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
    FB_CUPTI(f, cuptiRangeProfilerGetCounterDataInfo(&info), "reading the counters");
    for (size_t i = 0; i < info.numTotalRanges; i++) {
        CUpti_RangeProfiler_CounterData_GetRangeInfo_Params range = {
            .structSize = CUpti_RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE,
            .pCounterDataImage = p->data,
            .counterDataImageSize = p->data_size,
            .rangeIndex = i,
            .rangeDelimiter = "/"};
        FB_CUPTI(f, cuptiRangeProfilerCounterDataGetRangeInfo(&range), "reading a range");
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
        FB_CUPTI(f, cuptiProfilerHostEvaluateToGpuValues(&evaluate), "evaluating the counters");
        values[M_L2] *= p->l2_unit;
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
