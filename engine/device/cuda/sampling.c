/* Metrics over time: CUPTI's PM sampling reads a few counters every 20 µs while a program runs again and again.
 *
 * Only what fits one pass can be sampled at once, and that differs from chip to chip: metrics are taken in the order of
 * the table, under the first of their names that the chip has, as long as one pass holds them all. */
#include "device/cuda/parts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"

#include <math.h>
#include <string.h>

enum { NAMES = 3, MAX_SAMPLES = 5000, HARDWARE_BUFFER = 64 << 20, DECODES = 64 };
static const double finest_us = 20, coarsest_us = 100;

#define SHARE ".avg.pct_of_peak_sustained_elapsed"
static const struct {
    const char *shown, *names[NAMES];
} wanted[] = {
    {"SM active", {"sm__cycles_active" SHARE}},
    {"DRAM read", {"dram__read_throughput" SHARE, "dram__op_read_throughput" SHARE}},
    {"DRAM write", {"dram__write_throughput" SHARE, "dram__op_write_throughput" SHARE}},
    {"tensor pipe",
     {"sm__pipe_tensor_cycles_active" SHARE, "sm__pipe_tensor_cycles_active_realtime" SHARE,
      "sm__inst_executed_pipe_tensor_realtime" SHARE}},
    {"warp occupancy", {"sm__warps_active" SHARE, "tpc__warps_active_shader_cs_realtime" SHARE}},
};
enum { WANTED = sizeof wanted / sizeof *wanted };

typedef struct {
    const fb_cuda_functions *f;
    size_t device;
    const char *chip;
    uint8_t *availability, *config, *data;
    size_t config_size, data_size;
    const char *names[FB_METRICS], *shown[FB_METRICS];
    int n;
    CUpti_Profiler_Host_Object *host;
    CUpti_PmSampling_Object *sampling;
    double interval_us;
} sampler;

static void close_host(sampler *s)
{
    if (s->host) {
        CUpti_Profiler_Host_Deinitialize_Params gone = {
            .structSize = CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE, .pHostObject = s->host};
        s->f->cuptiProfilerHostDeinitialize(&gone);
    }
    s->host = NULL;
    fb_free(s->config);
    s->config = NULL;
}

static bool open_chip(sampler *s, fb_error *err)
{
    const fb_cuda_functions *f = s->f;
    CUpti_Profiler_Initialize_Params init = {.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE};
    FB_CUPTI(f, cuptiProfilerInitialize(&init), "starting the profiler");
    CUpti_Device_GetChipName_Params chip = {.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE,
                                            .deviceIndex = s->device};
    FB_CUPTI(f, cuptiDeviceGetChipName(&chip), "asking for the chip");
    s->chip = chip.pChipName;
    CUpti_PmSampling_GetCounterAvailability_Params have = {
        .structSize = CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE, .deviceIndex = s->device};
    CUptiResult status = f->cuptiPmSamplingGetCounterAvailability(&have);
    if (status != CUPTI_SUCCESS) return fb_cupti_forbidden(f, err, status);
    s->availability = have.pCounterAvailabilityImage = fb_calloc(1, have.counterAvailabilityImageSize);
    FB_CUPTI(f, cuptiPmSamplingGetCounterAvailability(&have), "asking for the counters");
    return true;
}

/* A configuration of the first `n` names; false when the chip does not know one of them. */
static bool configure(sampler *s, int n, fb_error *err)
{
    const fb_cuda_functions *f = s->f;
    close_host(s);
    CUpti_Profiler_Host_Initialize_Params host = {.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE,
                                                  .profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING,
                                                  .pChipName = s->chip,
                                                  .pCounterAvailabilityImage = s->availability};
    FB_CUPTI(f, cuptiProfilerHostInitialize(&host), "starting the profiler's host side");
    s->host = host.pHostObject;
    CUpti_Profiler_Host_ConfigAddMetrics_Params add = {.structSize =
                                                           CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE,
                                                       .pHostObject = s->host,
                                                       .ppMetricNames = s->names,
                                                       .numMetrics = (size_t)n};
    FB_CUPTI(f, cuptiProfilerHostConfigAddMetrics(&add), "choosing metrics");
    CUpti_Profiler_Host_GetConfigImageSize_Params size = {
        .structSize = CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE, .pHostObject = s->host};
    FB_CUPTI(f, cuptiProfilerHostGetConfigImageSize(&size), "sizing the configuration");
    s->config_size = size.configImageSize;
    s->config = fb_calloc(1, s->config_size);
    CUpti_Profiler_Host_GetConfigImage_Params image = {.structSize =
                                                           CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE,
                                                       .pHostObject = s->host,
                                                       .configImageSize = s->config_size,
                                                       .pConfigImage = s->config};
    FB_CUPTI(f, cuptiProfilerHostGetConfigImage(&image), "making the configuration");
    return true;
}

static bool fits_one_pass(sampler *s, int n)
{
    CUpti_Profiler_Host_GetNumOfPasses_Params passes = {.structSize =
                                                            CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE};
    if (!configure(s, n, NULL)) return false;
    passes.configImageSize = s->config_size;
    passes.pConfigImage = s->config;
    return s->f->cuptiProfilerHostGetNumOfPasses(&passes) == CUPTI_SUCCESS && passes.numOfPasses == 1;
}

static bool choose_metrics(sampler *s, fb_error *err)
{
    for (int i = 0; i < WANTED; i++) {
        for (int k = 0; k < NAMES && wanted[i].names[k]; k++) {
            s->names[s->n] = wanted[i].names[k];
            s->shown[s->n] = wanted[i].shown;
            if (!fits_one_pass(s, s->n + 1)) continue;
            s->n++;
            break;
        }
    }
    if (!s->n) return fb_fail(err, FB_ERR_UNAVAILABLE, "chip %s has no metrics that can be sampled", s->chip);
    return configure(s, s->n, err);
}

static bool enable(sampler *s, fb_error *err)
{
    const fb_cuda_functions *f = s->f;
    CUpti_PmSampling_Enable_Params on = {.structSize = CUpti_PmSampling_Enable_Params_STRUCT_SIZE,
                                         .deviceIndex = s->device};
    CUptiResult status = f->cuptiPmSamplingEnable(&on);
    if (status != CUPTI_SUCCESS) return fb_cupti_forbidden(f, err, status);
    s->sampling = on.pPmSamplingObject;
    CUpti_PmSampling_SetConfig_Params set = {.structSize = CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE,
                                             .pPmSamplingObject = s->sampling,
                                             .configSize = s->config_size,
                                             .pConfig = s->config,
                                             .hardwareBufferSize = HARDWARE_BUFFER,
                                             .samplingInterval = (uint64_t)(s->interval_us * 1e3),
                                             .triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL,
                                             .hwBufferAppendMode =
                                                 CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST};
    FB_CUPTI(f, cuptiPmSamplingSetConfig(&set), "configuring the sampling");
    CUpti_PmSampling_GetCounterDataSize_Params size = {.structSize =
                                                           CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE,
                                                       .pPmSamplingObject = s->sampling,
                                                       .pMetricNames = s->names,
                                                       .numMetrics = (size_t)s->n,
                                                       .maxSamples = MAX_SAMPLES};
    FB_CUPTI(f, cuptiPmSamplingGetCounterDataSize(&size), "sizing the samples");
    s->data_size = size.counterDataSize;
    s->data = fb_calloc(1, s->data_size);
    CUpti_PmSampling_CounterDataImage_Initialize_Params data = {
        .structSize = CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE,
        .pPmSamplingObject = s->sampling,
        .counterDataSize = s->data_size,
        .pCounterData = s->data};
    FB_CUPTI(f, cuptiPmSamplingCounterDataImageInitialize(&data), "preparing the samples");
    return true;
}

/* ---- running ---- */

static bool timed_run(fb_loaded *l, double *us, fb_error *err)
{
    double start = fb_now_us();
    if (!fb_cuda_launch(l, err) || !fb_cuda_wait(l->device, err)) return false;
    *us = fb_now_us() - start;
    return true;
}

/* Parameters are not restored in between, for the copies would be seen. */
static bool run_for(fb_loaded *l, double us, fb_metric_log *out, fb_error *err)
{
    double start = fb_now_us(), now = start;
    FB_VEC(double) times = {0};
    bool good = true;
    while (good && now - start < us) {
        FB_VEC_PUSH(&times, now - start);
        good = fb_cuda_launch(l, err) && fb_cuda_wait(l->device, err);
        now = fb_now_us();
        FB_VEC_PUSH(&times, now - start);
    }
    out->run_us = times.at;
    out->n_runs = times.n / 2;
    return good;
}

static bool sample_runs(sampler *s, fb_loaded *l, double us, fb_metric_log *out, fb_error *err)
{
    const fb_cuda_functions *f = s->f;
    CUpti_PmSampling_Start_Params start = {.structSize = CUpti_PmSampling_Start_Params_STRUCT_SIZE,
                                           .pPmSamplingObject = s->sampling};
    FB_CUPTI(f, cuptiPmSamplingStart(&start), "starting to sample");
    bool good = run_for(l, us, out, err);
    CUpti_PmSampling_Stop_Params stop = {.structSize = CUpti_PmSampling_Stop_Params_STRUCT_SIZE,
                                         .pPmSamplingObject = s->sampling};
    if (!good) {
        f->cuptiPmSamplingStop(&stop);
        return false;
    }
    FB_CUPTI(f, cuptiPmSamplingStop(&stop), "stopping to sample");
    CUpti_PmSampling_DecodeData_Params decode = {.structSize = CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE,
                                                 .pPmSamplingObject = s->sampling,
                                                 .pCounterDataImage = s->data,
                                                 .counterDataImageSize = s->data_size};
    for (int i = 0; i < DECODES; i++) { /* one call decodes a part of what the hardware wrote */
        FB_CUPTI(f, cuptiPmSamplingDecodeData(&decode), "decoding the samples");
        if (decode.decodeStopReason != CUPTI_PM_SAMPLING_DECODE_STOP_REASON_OTHER) break;
    }
    return true;
}

/* ---- reading ---- */

static bool read_sample(sampler *s, size_t i, double *at_ns, double *values, fb_error *err)
{
    const fb_cuda_functions *f = s->f;
    CUpti_PmSampling_CounterData_GetSampleInfo_Params info = {
        .structSize = CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE,
        .pPmSamplingObject = s->sampling,
        .pCounterDataImage = s->data,
        .counterDataImageSize = s->data_size,
        .sampleIndex = i};
    FB_CUPTI(f, cuptiPmSamplingCounterDataGetSampleInfo(&info), "reading a sample");
    CUpti_Profiler_Host_EvaluateToGpuValues_Params evaluate = {
        .structSize = CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE,
        .pHostObject = s->host,
        .pCounterDataImage = s->data,
        .counterDataImageSize = s->data_size,
        .rangeIndex = i,
        .ppMetricNames = s->names,
        .numMetrics = (size_t)s->n,
        .pMetricValues = values};
    FB_CUPTI(f, cuptiProfilerHostEvaluateToGpuValues(&evaluate), "evaluating a sample");
    *at_ns = (double)info.startTimestamp;
    return true;
}

static bool read_samples(sampler *s, fb_metric_log *out, fb_error *err)
{
    const fb_cuda_functions *f = s->f;
    CUpti_PmSampling_GetCounterDataInfo_Params info = {.structSize =
                                                           CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE,
                                                       .pCounterDataImage = s->data,
                                                       .counterDataImageSize = s->data_size};
    FB_CUPTI(f, cuptiPmSamplingGetCounterDataInfo(&info), "reading the samples");
    size_t n = info.numCompletedSamples;
    out->n_metrics = s->n;
    memcpy(out->metric, s->shown, sizeof s->shown);
    out->interval_us = s->interval_us;
    out->at_us = fb_calloc(n + 1, sizeof *out->at_us);
    out->value = fb_calloc(n * (size_t)s->n + 1, sizeof *out->value);
    for (size_t i = 0; i < n; i++) {
        double *values = out->value + i * (size_t)s->n;
        if (!read_sample(s, i, &out->at_us[i], values, err)) return false;
        for (int k = 0; k < s->n; k++) values[k] = isfinite(values[k]) ? values[k] * 0.01 : NAN;
        out->n++;
    }
    for (size_t i = 0; i < n; i++) out->at_us[i] *= 1e-3; /* of ns */
    fb_metric_log_begin(out);
    return true;
}

static void close_sampler(sampler *s)
{
    if (s->sampling) {
        CUpti_PmSampling_Disable_Params off = {.structSize = CUpti_PmSampling_Disable_Params_STRUCT_SIZE,
                                               .pPmSamplingObject = s->sampling};
        s->f->cuptiPmSamplingDisable(&off);
    }
    close_host(s);
    fb_free(s->availability);
    fb_free(s->data);
}

bool fb_cupti_sample(fb_loaded *l, double us, fb_metric_log *out, fb_error *err)
{
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_CUPTI, err);
    double once = 0;
    *out = (fb_metric_log){0};
    if (!f || !fb_cuda_ready(l, err) || !fb_cuda_fill(l, err) || !fb_cuda_restore(l, err)) return false;
    for (int i = 0; i < 2; i++) /* the second is hot */
        if (!timed_run(l, &once, err)) return false;
    sampler s = {.f = f, .device = (size_t)l->device->device};
    double all = fmax(us, 2 * once);
    s.interval_us = fmin(fmax(all / MAX_SAMPLES, finest_us), coarsest_us);
    bool good = open_chip(&s, err) && choose_metrics(&s, err) && enable(&s, err) &&
                sample_runs(&s, l, fmin(all, MAX_SAMPLES * s.interval_us), out, err) && read_samples(&s, out, err);
    close_sampler(&s);
    l->device->last_run = l;
    return fb_cuda_restore(l, good ? err : NULL) && good;
}
