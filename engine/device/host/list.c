/* What is known of this processor without measuring: for the machine, and for `fusebox devices`. */
#include "base/json.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "device/host/parts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The value after "key\t: " of the first line of a /proc file that starts so. */
static bool proc_value(const char *path, const char *key, char *to, size_t room)
{
    char line[512];
    bool found = false;
    FILE *f = fb_file_stream(path, FB_FILE_READ, NULL);
    while (f && !found && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) != 0) continue;
        const char *value = strchr(line, ':');
        if (!value) continue;
        value += 1 + strspn(value + 1, " \t");
        fb_text_clean(to, room, value, strcspn(value, "\n"));
        found = true;
    }
    if (f) fclose(f);
    return found;
}

/* Bytes of the cache of core 0 at `level`, data or unified; 0 when the system does not say. */
static int64_t cache_bytes(int level)
{
    char path[96], text[64];
    int64_t bytes = 0;
    for (int i = 0; i < 8; i++) {
        int its_level = 0;
        long long kib = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        FILE *f = fb_file_stream(path, FB_FILE_READ, NULL);
        if (!f) break;
        if (fgets(text, sizeof text, f)) sscanf(text, "%d", &its_level);
        fclose(f);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (its_level != level || !(f = fb_file_stream(path, FB_FILE_READ, NULL))) continue;
        if (fgets(text, sizeof text, f) && sscanf(text, "%lldK", &kib) == 1 && kib * 1024 > bytes) bytes = kib * 1024;
        fclose(f);
    }
    return bytes;
}

void fb_host_system(fb_machine *m)
{
    char model[72] = "processor", memory[64];
    long long kib = 0;
    if (!proc_value("/proc/cpuinfo", "model name", model, sizeof model))
        proc_value("/proc/cpuinfo", "CPU part", model, sizeof model);
    fb_machine_default(m, FB_DEVICE_HOST);
    m->units = fb_cores();
    snprintf(m->name, sizeof m->name, "%s (%d core%s)", model, m->units, m->units == 1 ? "" : "s");
    if (proc_value("/proc/meminfo", "MemTotal", memory, sizeof memory) && sscanf(memory, "%lld", &kib) == 1)
        m->memory_bytes = kib * 1024;
    int64_t second = cache_bytes(2), third = cache_bytes(3);
    if (second) m->shared_bytes = second;
    if (third || second) m->cache_bytes = third ? third : second;
    if (fb_dnnl_convolves()) m->convolution = m->gemm[FB_F32]; /* until it is measured */
}

/* ---- fusebox devices ---- */

static void list_compiler(json_t *libraries)
{
    fb_error why = {0};
    fb_cc *cc = fb_cc_find(&why);
    json_t *o = json_pack("{s:s, s:b}", "name", "C compiler", "found", cc != NULL);
    if (cc) {
        json_object_set_new(o, "path", json_string(fb_cc_command(cc)));
        json_object_set_new(o, "version", json_string(fb_cc_version(cc)));
    } else {
        json_object_set_new(o, "missing", json_sprintf("%s; without one the host runs no kernel", why.text));
    }
    json_array_append_new(libraries, o);
    fb_cc_free(cc);
}

/* `path` NULL: it is not there, and `why` with what that costs says so. */
static void list_product_library(json_t *libraries, const char *name, const char *path, const char *version,
                                 const fb_error *why, const char *costs)
{
    json_t *o = json_pack("{s:s, s:b}", "name", name, "found", path != NULL);
    if (path) {
        json_object_set_new(o, "path", json_string(path));
        json_object_set_new(o, "version", json_string(version));
    } else {
        json_object_set_new(o, "missing", json_sprintf("%s; %s", why->text, costs));
    }
    json_array_append_new(libraries, o);
}

static void list_product_libraries(json_t *libraries)
{
    fb_error no_blas = {0}, no_dnnl = {0};
    const fb_blas *blas = fb_blas_get(&no_blas);
    const fb_dnnl *dnnl = fb_dnnl_get(&no_dnnl);
    list_product_library(libraries, "BLAS", blas ? blas->library : NULL, blas ? blas->description : NULL, &no_blas,
                         "contractions on the host will be slow");
    list_product_library(libraries, "oneDNN", dnnl ? dnnl->library : NULL, dnnl ? dnnl->description : NULL, &no_dnnl,
                         "the BLAS multiplies floats of any size");
}

/* The best rate of a curve at the largest sizes. */
static double last_rate(const fb_rate_curve *c)
{
    return c->n ? c->rate[c->n - 1] : 0;
}

void fb_host_list(json_t *devices, json_t *libraries)
{
    fb_machine m;
    fb_rate_curve one;
    fb_host_machine(&m, NULL);
    fb_host_one_core(&one);
    json_t *o = json_pack("{s:s, s:s, s:s}", "device", "host", "kind", "host", "name", m.name);
    json_object_set_new(o, "calibrated", json_boolean(m.calibrated));
    if (m.calibrated) {
        json_object_set_new(o, "copy_gbs", json_real(last_rate(&m.copy_cold)));
        json_object_set_new(o, "copy_one_core_gbs", json_real(last_rate(&one)));
    }
    json_object_set_new(o, "machine", fb_machine_to_json(&m));
    json_array_append_new(devices, o);
    if (!libraries) return;
    list_compiler(libraries);
    list_product_libraries(libraries);
}
