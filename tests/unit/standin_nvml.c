/* Stands in for NVIDIA's management library: one GPU, told by the variables below. */
#include <string.h>

int standin_started;
unsigned standin_sm = 1980, standin_memory = 3201, standin_milliwatts = 412500, standin_celsius = 61;
unsigned long long standin_reasons;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **gpu);
int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *gpu, int which, unsigned *mhz);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons);
int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts);
int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *celsius);

int nvmlInit_v2(void)
{
    standin_started++;
    return 0;
}

int nvmlShutdown(void)
{
    standin_started--;
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **gpu)
{
    *gpu = &standin_sm;
    return strcmp(bus, "0000:1B:00.0") ? 6 : 0;
}

int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *mhz)
{
    *mhz = which == 1 ? standin_sm : standin_memory;
    return gpu != &standin_sm;
}

int nvmlDeviceGetMaxClockInfo(void *gpu, int which, unsigned *mhz)
{
    *mhz = which == 1 ? 1980 : 3201;
    return gpu != &standin_sm;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons)
{
    *reasons = standin_reasons;
    return gpu != &standin_sm;
}

int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts)
{
    *milliwatts = standin_milliwatts;
    return gpu != &standin_sm;
}

int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *celsius)
{
    *celsius = standin_celsius;
    return gpu != &standin_sm || sensor != 0;
}
