/* Every bundled script, variant, preset and plan of the script's own on a GPU, in every dtype that the script offers
 * and in both launch modes, against the interpreter; the first kernel of each plan `max` as a file of the user's; and a
 * kernel of each kind of family gemm and chains of many rows. Speaks TAP; exits with
 * 77 where there is no GPU.
 *
 *     check_gpu [--device cuda:0] [--part PART] [--only TEXT] [--mode stream|graph] [--small N] [--counters]
 *               [--samples N] [--done FILE]
 *     check_gpu [--device cuda:0] [--done FILE] --traffic
 *     check_gpu --compile ARCH [--part PART] [--only TEXT] [--mode stream|graph] [--small N]
 *     check_gpu --parts
 *
 * Parts are shares of the plans of each script, of one of convolutions, and of "gemm" and "chain"
 * ("scripts/models/dlrm.lua:1/3"), which --parts lists, so that several can run side by side (side_by_side.sh). With --small no parameter is larger than N, for tools
 * that make everything slow. With --done, cases that the file names are passed over, and one that passes is added to
 * it, so that a run that was stopped goes on where it was. Each line ends with the seconds that its case took, those
 * for the plan and the reference included. With --samples each case is timed as well, and its line says wall, device
 * and cold time (µs, medians). With --compile nothing is run: kernels are compiled into the cache, for the GPU of the
 * recordings, and with --small references are computed, so that a machine that has been borrowed need not. With
 * --traffic memory-bound kernels alone are run, and the modelled bytes are held against what counters saw. */
#include "unit/chain_cases.h"
#include "unit/gemm_cases.h"
#include "unit/script_harness.h"

#include "base/clock.h"
#include "base/embedded.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "code/lower.h"
#include "decide/preset.h"
#include "device/cuda/compile.h"
#include "measure/check.h"
#include "measure/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 60000, SHARES = 3 };

static struct {
    const char *device_name, *only, *part, *arch; /* arch: compile for it alone */
    FILE *done_file;                              /* names of cases that passed, a line each; or NULL */
    fb_str done;                                  /* what it held at the start, each name between two newlines */
    const fb_graph *referenced;                   /* the graph whose reference was made last */
    double at;                                    /* when the last case ended */
    int share, shares; /* of the part's plans, every shares'th from share on; shares 0: all */
    int turn;          /* plans come to so far */
    bool counters, traffic;
    int samples, small, mode; /* 0: as the script says; mode -1: both */
    fb_device *device;
    fb_check_memo *memo;
    int cases, failed;
} run = {.device_name = "cuda:0", .mode = -1};

/* The machine that plans are made for. Checks run with a cache of their own, in which no calibration is, so that what
 * is compiled beforehand goes by no calibration either. */
static const fb_machine *machine(void)
{
    static fb_machine m;
    const fb_machine *is = run.device->ops->machine(run.device);
    if (!run.arch) return is;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    snprintf(m.name, sizeof m.name, "%s", is->name);
    m.memory_bytes = is->memory_bytes;
    m.units = is->units;
    m.compute_major = is->compute_major;
    m.compute_minor = is->compute_minor;
    m.cache_bytes = is->cache_bytes;
    m.shared_bytes = is->shared_bytes;
    m.registers_per_unit = is->registers_per_unit;
    m.max_threads_per_unit = is->max_threads_per_unit;
    return &m;
}

/* Whether the case that is come to now is asked for, by its name and its share. */
static bool is_asked(const char *what)
{
    if (run.only && !strstr(what, run.only)) return false;
    return !run.shares || run.turn++ % run.shares == run.share;
}

/* Whether an earlier run with the same file says that it passed. */
static bool is_done(const char *what)
{
    char line[400];
    snprintf(line, sizeof line, "\n%s\n", what);
    return run.done_file && strstr(fb_str_get(&run.done), line);
}

static void result(bool ok, const char *what, const char *detail)
{
    double now = fb_now_us() * 1e-6;
    printf("%s %d - %s%s%s, %.1f s\n", ok ? "ok" : "not ok", ++run.cases, what, detail[0] ? ": " : "", detail,
           now - run.at);
    fflush(stdout);
    run.failed += !ok;
    run.at = now;
    if (ok && run.done_file) {
        fprintf(run.done_file, "%s\n", what);
        fflush(run.done_file);
    }
}

static void free_graph(fb_graph *g)
{
    if (run.referenced == g) run.referenced = NULL;
    fb_graph_free(g);
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

static void compile_plan(const char *what, const fb_plan *plan)
{
    fb_error err = {0};
    fb_program *p = fb_lower(plan, run.device->ops->target, &err);
    bool ok = p && fb_cuda_compile_ahead(p, run.arch, &err);
    result(ok, what, ok ? "" : err.text);
    fb_program_free(p);
}

/* Made when the first case wants it: where all of a graph's cases are done, none does. */
static bool make_reference(const fb_graph *g, fb_error *err)
{
    if ((run.arch && !run.small) || run.referenced == g) return true;
    bool ok = fb_reference_make(g, 1, NULL, NULL, NULL, err);
    if (ok) run.referenced = g;
    return ok;
}

static void check_plan(const char *what, const fb_plan *plan)
{
    fb_error err = {0};
    if (!make_reference(fb_planner_graph(fb_plan_planner(plan)), &err)) {
        result(false, what, err.text);
        return;
    }
    if (run.arch) {
        compile_plan(what, plan);
        return;
    }
    fb_measure_options o = {.seeds = {1}, .n_seeds = 1, .counters = run.counters, .memo = run.memo};
    fb_measurement *m = fb_measure_prepare(run.device, plan, &o, NULL, &err);
    if (!m || !fb_measure_check(m, NULL, &err)) {
        result(false, what, err.text);
        fb_measure_free(m);
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

/* The node of a group that it owns: what an edit of it names. */
static fb_id node_of(const fb_plan *plan, int group)
{
    const fb_group *g = fb_plan_group(plan, group);
    for (int i = 0; i < g->n_nodes; i++)
        if (fb_plan_group_of(plan, g->nodes[i]) == group) return g->nodes[i];
    return FB_NONE;
}

/* The first kernel that there is, taken over: what the file says is what is launched. */
static void check_own_kernel(const char *what, const char *name, const fb_plan *plan)
{
    const fb_eject_origin from = {.script = name, .column = "max"};
    int n = fb_plan_groups(plan);
    bool *shares = fb_calloc((size_t)n + 1, sizeof *shares), found = false;
    fb_str text = {0};
    fb_error err = {0};
    for (int i = 0; i < n && !found; i++) {
        fb_str_clear(&text);
        found = fb_lower_eject(plan, i, run.device->ops->target, &from, &text, shares, &err);
    }
    fb_plan *own = found ? fb_plan_copy(plan) : NULL;
    for (int i = 0; i < n && own; i++) {
        fb_plan *next = NULL;
        fb_edit e = {.kind = FB_EDIT_SOURCE, .a = node_of(plan, i), .b = FB_NONE, .source = "own.cu"};
        if (!shares[i]) continue;
        fb_verdict v = fb_plan_try(own, &e, &next);
        if (!next) result(false, what, v.text);
        fb_plan_free(own);
        own = next;
    }
    if (own) {
        fb_planner_set_source(fb_plan_planner(plan), "own.cu", fb_str_get(&text));
        check_plan(what, own);
        fb_plan_free(own);
    }
    fb_str_free(&text);
    fb_free(shares);
}

static void check_presets(const char *name, fb_planner *planner)
{
    for (int i = 0; i < fb_presets(); i++) {
        for (int mode = FB_LAUNCH_STREAM; mode <= FB_LAUNCH_GRAPH; mode++) {
            fb_error err = {0};
            char what[300], own[330];
            snprintf(what, sizeof what, "%s %s %s", name, fb_preset_at(i)->name,
                     fb_launch_mode_name((fb_launch_mode)mode));
            snprintf(own, sizeof own, "%s own kernel", what);
            if ((run.mode >= 0 && run.mode != mode) || !is_asked(what)) continue;
            bool asks_own = mode == FB_LAUNCH_STREAM && !strcmp(fb_preset_at(i)->name, "max") && !is_done(own);
            if (is_done(what) && !asks_own) continue;
            fb_plan *plan = fb_preset_at(i)->make(planner, &err), *edited = NULL;
            fb_edit edit = {.kind = FB_EDIT_LAUNCH, .launch = (fb_launch_mode)mode};
            fb_verdict v = mode ? fb_plan_try(plan, &edit, &edited) : (fb_verdict){0};
            if (mode && !edited)
                result(false, what, v.text);
            else if (!is_done(what))
                check_plan(what, edited ? edited : plan);
            if (asks_own) check_own_kernel(own, what, plan);
            if (edited) fb_plan_free(edited);
            fb_plan_free(plan);
        }
    }
}

static void check_own_plans(const char *name, fb_script *s, const fb_script_info *info, const fb_graph *g,
                            fb_planner *planner)
{
    for (int i = 0; i < info->n_plans; i++) {
        fb_script_event e;
        fb_error err = {0};
        char what[300];
        snprintf(what, sizeof what, "%s %s", name, info->plans[i]);
        if (!is_asked(what) || is_done(what)) continue;
        fb_script_plan(s, g, info->plans[i], fb_planner_machine(planner));
        if (!next_event(s, &e, LIMIT_MS) || e.kind != FB_SCRIPT_PLAN) {
            result(false, what, e.error.text);
            continue;
        }
        fb_plan *plan = fb_plan_from_json(planner, json_object_get(e.message, "plan"), true, NULL, &err);
        if (plan)
            check_plan(what, plan);
        else
            result(false, what, err.text);
        if (plan) fb_plan_free(plan);
        fb_script_event_clear(&e);
    }
}

static json_t *params_of(const fb_script_info *info, const char *dtype)
{
    json_t *params = json_object();
    if (dtype) json_object_set_new(params, "dtype", json_string(dtype));
    for (int i = 0; run.small && i < info->n_params; i++) {
        const fb_param *p = &info->params[i];
        double least = isnan(p->min) ? 1 : p->min, most = run.small > least ? run.small : least;
        if (p->kind == FB_PARAM_INT && json_number_value(p->standard) > most)
            json_object_set_new(params, p->name, json_integer((json_int_t)most));
    }
    return params;
}

static void check_variant(const char *path, fb_script *s, const fb_script_info *info, const char *variant,
                          const char *dtype)
{
    json_t *params = params_of(info, dtype);
    fb_script_build(s, variant, params);
    json_decref(params);
    fb_script_event e;
    char name[200];
    snprintf(name, sizeof name, "%s %s %s", path, variant[0] ? variant : "-", dtype ? dtype : "-");
    if (!next_event(s, &e, LIMIT_MS) || e.kind != FB_SCRIPT_GRAPH) {
        result(false, name, e.error.text);
        return;
    }
    fb_planner *planner = fb_planner_new(e.graph, machine());
    check_presets(name, planner);
    check_own_plans(name, s, info, e.graph, planner);
    fb_planner_free(planner);
    free_graph(e.graph);
}

static const fb_param *dtype_param(const fb_script_info *info)
{
    for (int i = 0; i < info->n_params; i++)
        if (strcmp(info->params[i].name, "dtype") == 0) return &info->params[i];
    return NULL;
}

/* The script with its info in *e; NULL when that failed, which is a failed test. */
static fb_script *start_script(const char *path, fb_script_event *e)
{
    char whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", getenv("FB_SRCDIR") ? getenv("FB_SRCDIR") : ".", path);
    fb_error err = {0};
    fb_script *s = fb_script_start(whole, NULL, &err);
    if (s && next_event(s, e, LIMIT_MS) && e->kind == FB_SCRIPT_INFO) return s;
    result(false, path, s ? e->error.text : err.text);
    fb_script_free(s);
    return NULL;
}

static void check_script(const char *path)
{
    fb_script_event e = {0};
    fb_script *s = start_script(path, &e);
    if (!s) return;
    const fb_param *dtype = dtype_param(e.info);
    for (int v = 0; v < e.info->n_variants; v++)
        for (int d = 0; d < (dtype ? dtype->n_choices : 1); d++)
            check_variant(path, s, e.info, e.info->variants[v], dtype ? dtype->choices[d] : NULL);
    fb_script_info_free(e.info);
    fb_script_free(s);
}

static void check_gemm(const struct gemm_case *c)
{
    char what[200];
    snprintf(what, sizeof what, "gemm %s", c->name);
    if (!is_asked(what) || is_done(what)) return;
    fb_graph *g = gemm_graph(c);
    fb_machine m = gemm_machine(machine(), c);
    fb_planner *planner = fb_planner_new(g, &m);
    fb_plan *plan = gemm_plan(planner, c);
    check_plan(what, plan);
    fb_plan_free(plan);
    fb_planner_free(planner);
    free_graph(g);
}

/* Chains of rows enough to keep a GPU busy, as no script's sizes do: whole warpgroups multiply there. Small, they are
 * for a device of one multiprocessor. */
static void check_chains(void)
{
    int64_t rows = run.small ? run.small : 16383, half = run.small ? run.small / 2 : 8000;
    struct {
        const char *name;
        fb_graph *g;
    } cases[] = {
        {"chain bf16", mlp(0, rows, 256, 256, 256, FB_BF16)},
        {"chain f16, rows for one warpgroup a block", mlp(0, half, 256, 256, 256, FB_F16)},
        {"chain of strips that are partly outside", mlp(0, rows, 264, 200, 72, FB_F16)},
        {"chain of operands without pieces", mlp(0, half, 67, 129, 65, FB_BF16)},
        {"chain of turned operands", mlp_turned(rows + rows % 8, 72, 192, 136, FB_BF16)},
    };
    fb_machine m = *machine();
    if (run.small) m.units = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_error err = {0};
        if (is_asked(cases[i].name) && !is_done(cases[i].name)) {
            fb_planner *planner = fb_planner_new(cases[i].g, &m);
            fb_plan *plan = fb_preset_find("max")->make(planner, &err);
            if (plan)
                check_plan(cases[i].name, plan);
            else
                result(false, cases[i].name, err.text);
            fb_plan_free(plan);
            fb_planner_free(planner);
        }
        free_graph(cases[i].g);
    }
}

/* ---- modelled against measured bytes ---- */

/* Kernels whose operands are each read once: what they move is known. Four times the L2 of an H200 are 200 MB; what is
 * larger must come from DRAM, of what is smaller only the L2 sees all. */
static const struct {
    const char *path;
    int rows, columns;
    const char *dtype;
} traffic_cases[] = {
    {"scripts/models/add_mul_relu.lua", 16384, 4096, "f32"}, {"scripts/models/add_mul_relu.lua", 32768, 4096, "bf16"},
    {"scripts/models/layer_norm.lua", 16384, 4096, "f32"},   {"scripts/models/layer_norm.lua", 16384, 16384, "bf16"},
    {"scripts/models/layer_norm.lua", 65536, 1024, "f32"},   {"scripts/models/softmax.lua", 16384, 4096, "f32"},
    {"scripts/models/softmax.lua", 16384, 8192, "bf16"},     {"scripts/models/layer_norm.lua", 1024, 1024, "f32"},
    {"scripts/models/softmax.lua", 1024, 1024, "f32"},
};

static void judge_traffic(const char *what, const fb_report *r)
{
    const double allowed = 0.05;
    double modelled = r->bytes_read + r->bytes_written, dram = r->measured_read + r->measured_written, l2 = 0;
    int64_t cache = machine()->cache_bytes;
    for (int k = 0; k < r->n_kernels; k++) l2 += r->kernels[k].l2_bytes;
    bool large = modelled >= 4.0 * (double)cache;
    double measured = large ? dram : l2, off = measured / modelled - 1;
    char detail[200];
    snprintf(detail, sizeof detail, "modelled %.0f bytes, %s %.0f (%+.2f %%)", modelled, large ? "DRAM" : "L2",
             measured, 100 * off);
    result(r->error.ok && fabs(off) <= allowed, what, r->error.ok ? detail : r->error.worst);
}

static void check_plan_traffic(const char *what, const fb_graph *g)
{
    fb_error err = {0};
    fb_measure_options o = {.seeds = {1}, .n_seeds = 1, .counters = true};
    fb_planner *planner = fb_planner_new(g, machine());
    fb_plan *plan = fb_preset_find("max")->make(planner, &err);
    fb_measurement *m = plan && fb_reference_make(g, 1, NULL, NULL, NULL, &err)
                            ? fb_measure_prepare(run.device, plan, &o, NULL, &err)
                            : NULL;
    if (m && fb_measure_check(m, NULL, &err)) {
        fb_report *r = fb_measure_report(m);
        judge_traffic(what, r);
        fb_report_free(r);
    } else {
        result(false, what, err.text);
    }
    fb_measure_free(m);
    fb_plan_free(plan);
    fb_planner_free(planner);
}

static void check_traffic(int i)
{
    char what[200];
    snprintf(what, sizeof what, "traffic %s %d×%d %s", traffic_cases[i].path, traffic_cases[i].rows,
             traffic_cases[i].columns, traffic_cases[i].dtype);
    fb_script_event e = {0};
    fb_script *s = is_done(what) ? NULL : start_script(traffic_cases[i].path, &e);
    if (!s) return;
    fb_script_info_free(e.info);
    json_t *params = json_pack("{s:i, s:i, s:s}", "rows", traffic_cases[i].rows, "columns", traffic_cases[i].columns,
                               "dtype", traffic_cases[i].dtype);
    fb_script_build(s, "", params);
    json_decref(params);
    if (!next_event(s, &e, LIMIT_MS) || e.kind != FB_SCRIPT_GRAPH) {
        result(false, what, e.error.text);
    } else {
        check_plan_traffic(what, e.graph);
        fb_graph_free(e.graph);
    }
    fb_script_free(s);
}

/* ---- the program ---- */

static bool is_bundled(const char *path)
{
    size_t n = strlen(path);
    return strncmp(path, "scripts/", 8) == 0 && strncmp(path, "scripts/lib/", 12) != 0 &&
           strncmp(path, "scripts/lessons/", 16) != 0 && n > 6 && strcmp(path + n - 4, ".lua") == 0 &&
           strcmp(path + n - 6, ".d.lua") != 0;
}

/* What no bundled script has: kinds of convolutions, which `inductor` leaves to a library. */
static const char convolutions[] = "tests/unit/convolutions.lua";

static bool is_wanted(const char *part)
{
    return !run.part || strcmp(run.part, part) == 0;
}

static int list_parts(void)
{
    for (int share = 0; share < SHARES; share++) {
        for (int i = 0; fb_embedded_files[i].path; i++)
            if (is_bundled(fb_embedded_files[i].path)) printf("%s:%d/%d\n", fb_embedded_files[i].path, share, SHARES);
        printf("gemm:%d/%d\nchain:%d/%d\n%s:%d/%d\n", share, SHARES, share, SHARES, convolutions, share, SHARES);
    }
    return 0;
}

/* The file's names are read, and those of this run will be added. */
static bool set_done(const char *path)
{
    char line[400];
    run.done_file = fopen(path, "a+");
    if (!run.done_file) return false;
    rewind(run.done_file);
    fb_str_add(&run.done, "\n");
    while (fgets(line, sizeof line, run.done_file)) fb_str_add(&run.done, line);
    return true;
}

/* NAME or NAME:K/N, in place. */
static bool set_part(char *part)
{
    char *share = strrchr(part, ':');
    if (share && (sscanf(share, ":%d/%d", &run.share, &run.shares) != 2 || run.share < 0 || run.share >= run.shares))
        return false;
    if (share) *share = '\0';
    run.part = part;
    return true;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            run.device_name = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            run.only = argv[++i];
        else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc && set_part(argv[i + 1]))
            i++;
        else if (strcmp(argv[i], "--parts") == 0)
            return list_parts();
        else if (strcmp(argv[i], "--done") == 0 && i + 1 < argc && set_done(argv[i + 1]))
            i++;
        else if (strcmp(argv[i], "--samples") == 0 && i + 1 < argc)
            run.samples = atoi(argv[++i]);
        else if (strcmp(argv[i], "--small") == 0 && i + 1 < argc)
            run.small = atoi(argv[++i]);
        else if (strcmp(argv[i], "--mode") == 0 && i + 1 < argc)
            run.mode = strcmp(argv[++i], "graph") == 0 ? FB_LAUNCH_GRAPH : FB_LAUNCH_STREAM;
        else if (strcmp(argv[i], "--traffic") == 0)
            run.traffic = true;
        else if (strcmp(argv[i], "--compile") == 0 && i + 1 < argc)
            run.device_name = "replay:h200", run.arch = argv[++i];
        else if (strcmp(argv[i], "--counters") == 0)
            run.counters = true;
        else
            return fprintf(stderr, "check_gpu: unknown argument %s\n", argv[i]), 2;
    }
    fb_error err = {0};
    run.at = fb_now_us() * 1e-6;
    run.device = fb_device_open(run.device_name, &err);
    run.memo = fb_check_memo_new();
    if (!run.device) {
        printf("1..0 # SKIP %s\n", err.text);
        return err.kind == FB_ERR_UNAVAILABLE ? 77 : 1;
    }
    for (size_t i = 0; run.traffic && i < sizeof traffic_cases / sizeof *traffic_cases; i++) check_traffic((int)i);
    for (int i = 0; !run.traffic && is_wanted("gemm") && i < GEMM_CASES; i++) check_gemm(&gemm_cases[i]);
    if (!run.traffic && is_wanted("chain")) check_chains();
    for (int i = 0; !run.traffic && fb_embedded_files[i].path; i++)
        if (is_bundled(fb_embedded_files[i].path) && is_wanted(fb_embedded_files[i].path))
            check_script(fb_embedded_files[i].path);
    if (!run.traffic && is_wanted(convolutions)) check_script(convolutions);
    printf("1..%d\n", run.cases);
    run.device->ops->close(run.device);
    return run.failed ? 1 : 0;
}
