/* Every bundled script, variant and preset on a GPU, in every dtype that the script offers and in both launch modes,
 * against the interpreter. Speaks TAP; exits with 77 where there is no GPU.
 *
 *     check_gpu [--device cuda:0] [--only TEXT] [--counters] [--samples N]
 *
 * With --samples each case is timed as well, and its line says wall, device and cold time (µs, medians). */
#include "unit/script_harness.h"

#include "base/embedded.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "measure/measure.h"
#include "plan/preset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 60000 };

static struct {
    const char *device_name, *only;
    bool counters;
    int samples;
    fb_device *device;
    int cases, failed;
} run = {.device_name = "cuda:0"};

static void result(bool ok, const char *what, const char *detail)
{
    printf("%s %d - %s%s%s\n", ok ? "ok" : "not ok", ++run.cases, what, detail[0] ? ": " : "", detail);
    fflush(stdout);
    run.failed += !ok;
}

static const char *figure(char to[32], const char *label, const fb_stat *s)
{
    if (s->n)
        snprintf(to, 32, " %s %.1f", label, s->median);
    else
        to[0] = '\0';
    return to;
}

static void describe(const fb_report *r, char *to, size_t room)
{
    char wall[32], device[32], cold[32], bytes[64] = "";
    if (!isnan(r->measured_read))
        snprintf(bytes, sizeof bytes, " dram %.3g/%.3g MB", (r->measured_read + r->measured_written) * 1e-6,
                 (r->bytes_read + r->bytes_written) * 1e-6);
    if (!r->error.ok)
        snprintf(to, room, "%s", r->error.worst);
    else
        snprintf(to, room, "error/bound %.2g, %lld launches%s%s%s%s", r->error.bound, (long long)r->launches,
                 figure(wall, "wall", &r->wall_us), figure(device, "device", &r->device_us),
                 figure(cold, "cold", &r->cold_us), bytes);
}

static void check_plan(const char *what, const fb_plan *plan)
{
    fb_error err = {0};
    fb_measure_options o = {.seeds = {1}, .n_seeds = 1, .counters = run.counters};
    fb_measurement *m = fb_measure_prepare(run.device, plan, &o, NULL, &err);
    if (!m) {
        result(false, what, err.text);
        return;
    }
    bool ok = true;
    if (run.samples && fb_measure_report(m)->error.ok)
        ok = fb_measure_sample(m, FB_CACHE_HOT, run.samples, NULL, &err) &&
             fb_measure_sample(m, FB_CACHE_COLD, run.samples / 4 + 1, NULL, &err);
    fb_report *r = fb_measure_report(m);
    char detail[400];
    describe(r, detail, sizeof detail);
    result(ok && r->error.ok, what, ok ? detail : err.text);
    fb_report_free(r);
    fb_measure_free(m);
}

static void check_presets(const char *name, fb_planner *planner)
{
    for (int i = 0; i < fb_presets(); i++) {
        for (int mode = FB_LAUNCH_STREAM; mode <= FB_LAUNCH_GRAPH; mode++) {
            fb_error err = {0};
            char what[300];
            snprintf(what, sizeof what, "%s %s %s", name, fb_preset_at(i)->name,
                     fb_launch_mode_name((fb_launch_mode)mode));
            if (run.only && !strstr(what, run.only)) continue;
            fb_plan *plan = fb_preset_at(i)->make(planner, &err), *edited = NULL;
            fb_edit edit = {.kind = FB_EDIT_LAUNCH, .launch = (fb_launch_mode)mode};
            fb_verdict v = mode ? fb_plan_try(plan, &edit, &edited) : (fb_verdict){0};
            if (mode && !edited)
                result(false, what, v.text);
            else
                check_plan(what, edited ? edited : plan);
            if (edited) fb_plan_free(edited);
            fb_plan_free(plan);
        }
    }
}

static void check_variant(const char *path, fb_script *s, const char *variant, const char *dtype)
{
    json_t *params = dtype ? json_pack("{s:s}", "dtype", dtype) : NULL;
    fb_script_build(s, variant, params);
    json_decref(params);
    fb_script_event e;
    char name[200];
    snprintf(name, sizeof name, "%s %s %s", path, variant[0] ? variant : "-", dtype ? dtype : "-");
    if (!next_event(s, &e, LIMIT_MS) || e.kind != FB_SCRIPT_GRAPH) {
        result(false, name, e.error.text);
        return;
    }
    fb_error err = {0};
    if (!fb_reference_make(e.graph, 1, NULL, NULL, NULL, &err)) {
        result(false, name, err.text);
    } else {
        fb_planner *planner = fb_planner_new(e.graph, run.device->ops->machine(run.device));
        check_presets(name, planner);
        fb_planner_free(planner);
    }
    fb_graph_free(e.graph);
}

static const fb_param *dtype_param(const fb_script_info *info)
{
    for (int i = 0; i < info->n_params; i++)
        if (strcmp(info->params[i].name, "dtype") == 0) return &info->params[i];
    return NULL;
}

static void check_script(const char *path)
{
    char whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", getenv("FB_SRCDIR") ? getenv("FB_SRCDIR") : ".", path);
    fb_error err = {0};
    fb_script_event e = {0};
    fb_script *s = fb_script_start(whole, run.device->ops->machine(run.device), NULL, &err);
    if (!s || !next_event(s, &e, LIMIT_MS) || e.kind != FB_SCRIPT_INFO) {
        result(false, path, s ? e.error.text : err.text);
        return;
    }
    const fb_param *dtype = dtype_param(e.info);
    for (int v = 0; v < e.info->n_variants; v++)
        for (int d = 0; d < (dtype ? dtype->n_choices : 1); d++)
            check_variant(path, s, e.info->variants[v], dtype ? dtype->choices[d] : NULL);
    fb_script_info_free(e.info);
    fb_script_free(s);
}

static bool is_bundled(const char *path)
{
    size_t n = strlen(path);
    return strncmp(path, "scripts/", 8) == 0 && strncmp(path, "scripts/lib/", 12) != 0 && n > 6 &&
           strcmp(path + n - 4, ".lua") == 0 && strcmp(path + n - 6, ".d.lua") != 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            run.device_name = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            run.only = argv[++i];
        else if (strcmp(argv[i], "--samples") == 0 && i + 1 < argc)
            run.samples = atoi(argv[++i]);
        else if (strcmp(argv[i], "--counters") == 0)
            run.counters = true;
        else
            return fprintf(stderr, "check_gpu: unknown argument %s\n", argv[i]), 2;
    }
    fb_error err = {0};
    run.device = fb_device_open(run.device_name, &err);
    if (!run.device) {
        printf("1..0 # SKIP %s\n", err.text);
        return err.kind == FB_ERR_UNAVAILABLE ? 77 : 1;
    }
    for (int i = 0; fb_embedded_files[i].path; i++)
        if (is_bundled(fb_embedded_files[i].path)) check_script(fb_embedded_files[i].path);
    printf("1..%d\n", run.cases);
    run.device->ops->close(run.device);
    return run.failed ? 1 : 0;
}
