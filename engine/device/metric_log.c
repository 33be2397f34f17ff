/* Metrics over time, whoever sampled or recorded them. Apart from the devices, for those who only read timelines. */
#include "base/mem.h"
#include "device/device.h"

#include <string.h>

void fb_metric_log_begin(fb_metric_log *log)
{
    double *at = log->at_us;
    if (log->n > 1 && at[1] - at[0] > 2 * log->interval_us) {
        log->n--;
        memmove(at, at + 1, (size_t)log->n * sizeof *at);
        memmove(log->value, log->value + log->n_metrics, (size_t)(log->n * log->n_metrics) * sizeof *log->value);
    }
    double first = log->n ? at[0] : 0;
    for (int64_t i = 0; i < log->n; i++) at[i] -= first;
}

void fb_metric_log_clear(fb_metric_log *log)
{
    fb_free(log->at_us);
    fb_free(log->value);
    fb_free(log->run_us);
    *log = (fb_metric_log){0};
}
