/* NVML by dlopen. Its header comes with few toolkits, so that the handful of functions is declared here: names, numbers
 * and layouts are those of the NVML API reference, and stay as they are across versions. */
#include "device/cuda/nvml.h"

#include "base/clock.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, TEMPERATURE_GPU = 0, SUCCESS = 0 };
enum {
    REASON_POWER_CAP = 0x4,
    REASON_HARDWARE = 0x8,
    REASON_SOFTWARE_THERMAL = 0x20,
    REASON_HARDWARE_THERMAL = 0x40,
    REASON_POWER_BRAKE = 0x80,
    REASONS_SLOWED = REASON_HARDWARE | REASON_SOFTWARE_THERMAL | REASON_HARDWARE_THERMAL | REASON_POWER_BRAKE
};
static const char system_library[] = "libnvidia-ml.so.1";
static const int64_t apart_ns = 200000000; /* of asking for what changes slowly */

typedef void *gpu_handle;

struct fb_nvml {
    void *library;
    gpu_handle gpu;
    fb_machine_state last;
    int64_t asked_ns; /* 0: never */
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus)(const char *bus, gpu_handle *gpu);
    int (*clock)(gpu_handle gpu, int which, unsigned *mhz);
    int (*most_clock)(gpu_handle gpu, int which, unsigned *mhz);
    int (*reasons)(gpu_handle gpu, unsigned long long *reasons);
    int (*power)(gpu_handle gpu, unsigned *milliwatts);
    int (*temperature)(gpu_handle gpu, int sensor, unsigned *celsius);
};

static const char *resolve(fb_nvml *n)
{
    const struct {
        const char *name;
        void **to;
    } wanted[] = {
        {"nvmlInit_v2", (void **)&n->init},
        {"nvmlShutdown", (void **)&n->shutdown},
        {"nvmlDeviceGetHandleByPciBusId_v2", (void **)&n->by_bus},
        {"nvmlDeviceGetClockInfo", (void **)&n->clock},
        {"nvmlDeviceGetMaxClockInfo", (void **)&n->most_clock},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", (void **)&n->reasons},
        {"nvmlDeviceGetPowerUsage", (void **)&n->power},
        {"nvmlDeviceGetTemperature", (void **)&n->temperature},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].to = dlsym(n->library, wanted[i].name))) return wanted[i].name;
    return NULL;
}

static fb_nvml *refuse(fb_nvml *n, char why[160], const char *what, const char *detail)
{
    if (why) snprintf(why, 160, "%.60s%.99s", what, detail);
    if (n->library) dlclose(n->library);
    fb_free(n);
    return NULL;
}

/* Its functions, and nothing started. */
static fb_nvml *load(const char *path, char why[160])
{
    fb_nvml *n = fb_calloc(1, sizeof *n);
    n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!n->library) return refuse(n, why, path, " is not there");
    const char *missing = resolve(n);
    return missing ? refuse(n, why, "it has no ", missing) : n;
}

fb_nvml *fb_nvml_open(const char *library, const char *bus, char why[160])
{
    const char *path = library ? library : system_library;
    fb_nvml *n = load(path, why);
    if (!n) return NULL;
    if (n->init() != SUCCESS) return refuse(n, why, path, " does not start: is there a driver?");
    if (n->by_bus(bus, &n->gpu) == SUCCESS) return n;
    n->shutdown();
    return refuse(n, why, "it knows no GPU at ", bus);
}

void fb_nvml_close(fb_nvml *n)
{
    if (!n) return;
    n->shutdown();
    dlclose(n->library);
    fb_free(n);
}

static double clock_of(const fb_nvml *n, int (*ask)(gpu_handle, int, unsigned *), int which)
{
    unsigned mhz;
    return ask(n->gpu, which, &mhz) == SUCCESS && mhz ? mhz : NAN;
}

static void ask_slow(fb_nvml *n)
{
    unsigned milliwatts, celsius;
    if (n->asked_ns && fb_now_ns() - n->asked_ns < apart_ns) return;
    n->asked_ns = fb_now_ns();
    n->last.watts = n->power(n->gpu, &milliwatts) == SUCCESS ? milliwatts * 1e-3 : NAN;
    n->last.celsius = n->temperature(n->gpu, TEMPERATURE_GPU, &celsius) == SUCCESS ? celsius : NAN;
    n->last.memory_mhz = clock_of(n, n->clock, CLOCK_MEMORY);
    n->last.most_sm_mhz = clock_of(n, n->most_clock, CLOCK_SM);
}

void fb_nvml_state(fb_nvml *n, fb_machine_state *out)
{
    unsigned long long reasons = 0;
    if (!n) return;
    ask_slow(n);
    out->sm_mhz = clock_of(n, n->clock, CLOCK_SM);
    out->most_sm_mhz = n->last.most_sm_mhz;
    out->memory_mhz = n->last.memory_mhz;
    out->watts = n->last.watts;
    out->celsius = n->last.celsius;
    if (n->reasons(n->gpu, &reasons) != SUCCESS) reasons = 0;
    out->slowed = reasons & REASONS_SLOWED;
    out->capped = reasons & REASON_POWER_CAP;
}

void fb_nvml_list(json_t *libraries)
{
    char why[160] = "";
    fb_nvml *n = load(system_library, why);
    json_array_append_new(libraries,
                          n ? json_pack("{s:s, s:b, s:s}", "name", "NVML", "found", 1, "path", system_library)
                            : json_pack("{s:s, s:b, s:s, s:s}", "name", "NVML", "found", 0, "missing", why, "cost",
                                        "clocks, power and heat of a GPU are not known"));
    if (n) refuse(n, NULL, "", "");
}
