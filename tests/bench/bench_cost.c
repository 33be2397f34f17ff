/* How far the cost model is off: predicted against recorded times of every kernel of a recording that the bundled
 * scripts' presets, the single edits of these, and their loops as one kernel launch. No device is needed.
 *
 *     bench_cost [--presets] [--least PERCENT] [--least-long PERCENT] [--least-tuned PERCENT] RECORDING.json.gz
 * SCRIPT.lua…
 *
 * A kernel counts once, and only if its code is the one that was recorded: what has changed since is counted and no test
 * of anything. A prediction is within a share when it is off by no more than that, or by 1.5 µs where the
 * kernel takes less than 5. --presets leaves the edits out, which are most of the time that this takes. --least: the
 * exit status is 1 if fewer kernels of scripts that the model was not tuned with are within 30 %; --least-long: of
 * those among them that take 5 µs and more; --least-tuned: of those that it was tuned with. Where there are none, they
 * fall short of nothing.
 *
 * The columns that work on a script begins with are looked up as plans: where other presets of their graph were
 * recorded, so must they be, or the exit status is 1. */
#include "bench/bench_script.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"
#include "code/lower.h"
#include "decide/preset.h"
#include "device/replay/recording.h"
#include "plan/loops.h"
#include "session/names.h"

#include <string.h>

enum { WORST = 12, FILE_MAX = 64 << 20, SHORT_US = 5 };

/* Constants of plan/cost.c, tile_cost.c, loop_cost.c and family.c were chosen with recorded or measured kernels of
 * these before them; whatever shares their graphs is no test of them. */
static const char *const tuned_with[] = {"add_mul_relu",     "attention", "basecaller",   "launch_order",
                                         "layer_norm",       "lora_mlp",  "lora_network", "lstm_scan",
                                         "lstm_step",        "mlp_loop",  "mlp_train",    "mlp_two_layer",
                                         "over_fusion",      "softmax",   "split_stack",  "split_stack_compiled",
                                         "transposed_output"};

typedef struct {
    char code[FB_SIGNATURE], name[96];
    fb_family family;
    int script; /* which of the arguments */
    double us, predicted_us;
    fb_group_cost cost;
    bool changed; /* its code is another one now */
} kernel;

typedef struct {
    fb_recording *r;
    int n_scripts, script; /* `script`: the one that is looked at */
    char **scripts;
    FB_VEC(kernel) kernels;
    bool presets;          /* alone */
    int first, unrecorded; /* columns that scripts begin with */
    double least, least_long, least_tuned;
} check;

/* "split_stack" of "scripts/puzzlers/split_stack.lua". */
static const char *script_name(const char *path, char to[64])
{
    const char *slash = strrchr(path, '/');
    snprintf(to, 64, "%s", slash ? slash + 1 : path);
    to[strcspn(to, ".")] = '\0';
    return to;
}

static bool is_tuned(const char *path)
{
    char name[64];
    script_name(path, name);
    for (size_t i = 0; i < sizeof tuned_with / sizeof *tuned_with; i++)
        if (strcmp(tuned_with[i], name) == 0) return true;
    return false;
}

static bool within(const kernel *k, double share)
{
    double off = fabs(k->predicted_us - k->us);
    return off <= share * k->us || (k->us < SHORT_US && off <= 1.5);
}

static double ratio(const kernel *k)
{
    return fabs(log(k->predicted_us / k->us));
}

/* ---- from scripts to kernels ---- */

static bool is_known(const check *c, const char *code)
{
    for (int i = 0; i < c->kernels.n; i++)
        if (strcmp(c->kernels.at[i].code, code) == 0) return true;
    return false;
}

/* Takes the kernel if it was recorded and is new. */
static void add_kernel(check *c, const kernel *k, const char *node, int n_nodes)
{
    fb_recorded_kernel have;
    kernel new = *k;
    char script[64];
    if (is_known(c, k->code)) return;
    if (!fb_recording_kernel(c->r, k->code, &have) || !have.hot_us.n || !(have.hot_us.median > 0)) return;
    new.script = c->script;
    new.us = have.hot_us.median;
    new.predicted_us = k->cost.us;
    snprintf(new.name, sizeof new.name, "%.30s %.40s ×%d", script_name(c->scripts[c->script], script), node, n_nodes);
    FB_VEC_PUSH(&c->kernels, new);
}

/* Is there a kernel of this code, in a plan whose kernels are those of its groups? Lowers the plan when it is first asked.
 */
static bool is_changed(const fb_plan *plan, fb_program **made, const char *code)
{
    char found[FB_SIGNATURE];
    fb_error err = {0};
    if (!*made) *made = fb_lower(plan, &fb_target_cuda, &err);
    bool merged = !*made;
    for (int i = 0; *made && i < (*made)->n_launches; i++) {
        const fb_launch *l = &(*made)->launches[i];
        merged |= l->kind == FB_LAUNCH_KERNEL && (*made)->kernels[l->kernel].merged;
        if (strcmp(fb_recording_code_name(*made, l, found), code) == 0) return false;
    }
    return !merged;
}

static void look_at_group(check *c, const fb_plan *plan, int group, fb_program **made)
{
    char signature[FB_SIGNATURE];
    kernel k = {0};
    fb_recording_group_signature(plan, group, signature);
    if (fb_recording_group(c->r, signature) != 1) return;
    snprintf(k.code, sizeof k.code, "%s", fb_recording_group_code(c->r, signature, 0));
    if (is_known(c, k.code)) return;
    const fb_group *g = fb_plan_group(plan, group);
    fb_plan_group_cost(plan, group, &k.cost);
    k.changed = is_changed(plan, made, k.code);
    k.family = g->family;
    add_kernel(c, &k, fb_planner_graph(fb_plan_planner(plan))->nodes[g->nodes[g->n_nodes - 1]].name, g->n_nodes);
}

static void look_at_plan(check *c, const fb_plan *plan)
{
    fb_program *made = NULL;
    for (int i = 0; i < fb_plan_groups(plan); i++)
        if (!fb_plan_group_refusal(plan, i)) look_at_group(c, plan, i, &made);
    fb_program_free(made);
}

static bool has_whole_loop(const fb_plan *plan)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    for (fb_id r = 1; r < g->n_regions; r++)
        if (fb_plan_whole_loop(plan, r)) return true;
    return fb_plan_launch_mode(plan) == FB_LAUNCH_MEGA;
}

/* Kernels of several stages have no group: they are known by their text. */
static void look_at_merged(check *c, const fb_plan *plan)
{
    fb_error err = {0};
    fb_program *p = has_whole_loop(plan) ? fb_lower(plan, &fb_target_cuda, &err) : NULL;
    for (int i = 0; p && i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->kind != FB_LAUNCH_KERNEL || !p->kernels[l->kernel].merged) continue;
        const fb_kernel *is = &p->kernels[l->kernel];
        kernel k = {.family = FB_FAMILY_SCAN, .cost = is->cost};
        fb_recording_code_name(p, l, k.code);
        add_kernel(c, &k, is->name, is->n_nodes);
    }
    fb_program_free(p);
}

static void look_at_edits(check *c, const fb_plan *plan, const fb_deps *d)
{
    for (int e = 0; e < d->n_edges; e++) {
        int from = fb_plan_group_of(plan, d->edges[e].producer), to = fb_plan_group_of(plan, d->edges[e].consumer);
        if (from == FB_NONE || to == FB_NONE) continue;
        fb_plan *edited = NULL;
        fb_plan_try_repeated(plan,
                             &(fb_edit){.kind = from == to ? FB_EDIT_CUT : FB_EDIT_FUSE,
                                        .a = d->edges[e].producer,
                                        .b = d->edges[e].consumer},
                             &edited);
        if (edited) look_at_plan(c, edited);
        fb_plan_free(edited);
    }
}

static bool is_recorded(const check *c, const fb_plan *plan)
{
    char signature[FB_SIGNATURE];
    fb_recorded_plan have;
    return fb_recording_plan(c->r, fb_recording_plan_signature(plan, signature), &have);
}

/* Does the script begin with this preset of this variant, on the device that is there? */
static bool begins_with(const fb_script_info *info, const char *variant, const char *preset)
{
    int n;
    bool is = false;
    const char *const *columns = fb_script_columns(info, &n);
    for (int i = 0; i < n && !is; i++) {
        fb_column_spec spec;
        fb_error err = {0};
        bench_need(fb_column_spec_parse(columns[i], &spec, &err), &err);
        is = !spec.device && strcmp(spec.plan, preset) == 0 && (!spec.variant || strcmp(spec.variant, variant) == 0);
        fb_column_spec_free(&spec);
    }
    return is;
}

static void look_at_first(check *c, const fb_script_info *info, const char *variant, const bool *recorded)
{
    bool any = false;
    for (int i = 0; i < fb_presets(); i++) any |= recorded[i];
    for (int i = 0; any && i < fb_presets(); i++) {
        if (!begins_with(info, variant, fb_preset_at(i)->name)) continue;
        c->first++;
        if (recorded[i]) continue;
        c->unrecorded++;
        printf("  %s begins with %s%s%s, which is not recorded\n", c->scripts[c->script], variant, *variant ? ":" : "",
               fb_preset_at(i)->name);
    }
}

static void look_at_presets(check *c, const fb_script_info *info, const char *variant, fb_planner *p)
{
    bool *recorded = fb_calloc((size_t)fb_presets(), sizeof *recorded);
    for (int i = 0; i < fb_presets(); i++) {
        fb_plan *plan = fb_preset_at(i)->make(p, NULL);
        if (!plan) continue;
        recorded[i] = is_recorded(c, plan);
        look_at_plan(c, plan);
        if (!c->presets) look_at_edits(c, plan, fb_planner_deps(p));
        fb_plan_free(plan);
    }
    look_at_first(c, info, variant, recorded);
    fb_free(recorded);
}

/* Plans that the script brings; not every one fits every variant. */
static void look_at_own_plans(check *c, fb_script *s, const fb_script_info *info, const fb_graph *g, fb_planner *p)
{
    for (int i = 0; i < info->n_plans; i++) {
        fb_script_event e;
        fb_error err = {0};
        fb_script_plan(s, g, info->plans[i], fb_recording_machine(c->r));
        bool made = bench_next(s, FB_SCRIPT_PLAN, true, &e);
        fb_plan *plan = made ? fb_plan_from_json(p, json_object_get(e.message, "plan"), true, NULL, &err) : NULL;
        if (plan) look_at_plan(c, plan);
        if (plan) look_at_merged(c, plan);
        fb_plan_free(plan);
        fb_script_event_clear(&e);
    }
}

static void look_at_script(check *c, const char *path)
{
    fb_error err = {0};
    fb_script_event told, built;
    fb_script *s = fb_script_start(path, NULL, &err);
    bench_need(s != NULL, &err);
    bench_next(s, FB_SCRIPT_INFO, false, &told);
    for (int v = 0; v < told.info->n_variants; v++) {
        fb_script_build(s, told.info->variants[v], NULL);
        bench_next(s, FB_SCRIPT_GRAPH, false, &built);
        fb_planner *p = fb_planner_new(built.graph, fb_recording_machine(c->r));
        look_at_presets(c, told.info, told.info->variants[v], p);
        look_at_own_plans(c, s, told.info, built.graph, p);
        fb_planner_free(p);
        fb_script_event_clear(&built);
    }
    fb_script_event_clear(&told);
    fb_script_free(s);
}

/* ---- the table ---- */

typedef enum { ALL, TUNED, NOT_TUNED, OF_SCRIPT, OF_FAMILY } selection;

static bool is_selected(const check *c, const kernel *k, selection by, int number)
{
    if (k->changed) return false;
    switch (by) {
    case ALL: return true;
    case TUNED: return is_tuned(c->scripts[k->script]);
    case NOT_TUNED: return !is_tuned(c->scripts[k->script]);
    case OF_SCRIPT: return k->script == number;
    case OF_FAMILY: return (int)k->family == number;
    }
    return false;
}

/* Of kernels within 30 %, in percent; NAN of none. */
typedef struct {
    double all, of_long;
} share;

/* Prints nothing where there is nothing. */
static share row(const check *c, const char *what, selection by, int number)
{
    int n = 0, near = 0, close = 0, long_ones = 0, long_near = 0;
    FB_VEC(double) off = {0};
    for (int i = 0; i < c->kernels.n; i++) {
        const kernel *k = &c->kernels.at[i];
        if (!is_selected(c, k, by, number)) continue;
        n++;
        close += within(k, 0.15);
        near += within(k, 0.30);
        long_ones += k->us >= SHORT_US;
        long_near += k->us >= SHORT_US && within(k, 0.30);
        FB_VEC_PUSH(&off, k->predicted_us / k->us);
    }
    fb_stat s = fb_stat_of(off.at, off.n);
    FB_VEC_FREE(&off);
    share near_ones = {n ? 100.0 * near / n : NAN, long_ones ? 100.0 * long_near / long_ones : NAN};
    if (n == 0) return near_ones;
    char of_long[32] = "";
    if (long_ones) snprintf(of_long, sizeof of_long, "%5.1f %% of %d", near_ones.of_long, long_ones);
    printf("  %-22s %5d  %6.1f %%  %6.1f %%  %16s   %.2f (%.2f–%.2f)\n", what, n, 100.0 * close / n, near_ones.all,
           of_long, s.median, s.p10, s.p90);
    return near_ones;
}

static int worst_first(const void *a, const void *b)
{
    const kernel *one = a, *other = b;
    double x = one->changed || within(one, 0.30) ? 0 : ratio(one);
    double y = other->changed || within(other, 0.30) ? 0 : ratio(other);
    return (x < y) - (x > y);
}

/* False when fewer than the least are within 30 %. */
static bool print(check *c)
{
    printf("cost model against %s, recorded %s, caches hot\n", fb_recording_machine(c->r)->name,
           fb_recording_text(c->r, "date"));
    printf("  %-22s %5s  %8s  %8s  %16s   %s\n", "kernels of", "", "15 %", "30 %", "30 %, from 5 µs",
           "predicted / recorded");
    row(c, "all", ALL, 0);
    for (int f = 0; f < FB_FAMILIES; f++) row(c, fb_family_name((fb_family)f), OF_FAMILY, f);
    for (int i = 0; i < c->n_scripts; i++) {
        char name[64], what[80];
        snprintf(what, sizeof what, "%s%s", script_name(c->scripts[i], name), is_tuned(c->scripts[i]) ? " *" : "");
        row(c, what, OF_SCRIPT, i);
    }
    share tuned = row(c, "* the model's tuning", TUNED, 0);
    share others = row(c, "all others", NOT_TUNED, 0);
    bool all = getenv("BENCH_ALL") != NULL;
    if (c->kernels.n) qsort(c->kernels.at, (size_t)c->kernels.n, sizeof *c->kernels.at, worst_first);
    for (int i = 0; i < c->kernels.n && (all || (i < WORST && !within(&c->kernels.at[i], 0.30))); i++) {
        const kernel *k = &c->kernels.at[i];
        char us[32], predicted[32], bytes[32];
        if (k->changed) continue;
        printf("  %c %10s recorded %10s predicted (memory %.2f, compute %.2f µs; %s)  %s %s\n",
               within(k, 0.30) ? ' ' : '!', fb_format_us(us, k->us), fb_format_us(predicted, k->predicted_us),
               k->cost.memory_us, k->cost.compute_us,
               fb_format_bytes(bytes, (double)(k->cost.bytes_read + k->cost.bytes_written)), fb_family_name(k->family),
               k->name);
    }
    int changed = 0;
    for (int i = 0; i < c->kernels.n; i++) changed += c->kernels.at[i].changed;
    printf("  %d kernels are left out, which have changed since they were recorded\n", changed);
    printf("  %d columns that scripts begin with, %d of them not recorded\n", c->first, c->unrecorded);
    return !c->unrecorded && !(others.all < c->least) && !(others.of_long < c->least_long) &&
           !(tuned.all < c->least_tuned);
}

int main(int argc, char **argv)
{
    size_t n;
    fb_error err = {0};
    check c = {0};
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--presets") == 0)
            c.presets = true;
        else if (strcmp(argv[at], "--least") == 0 && at + 1 < argc)
            c.least = strtod(argv[++at], NULL);
        else if (strcmp(argv[at], "--least-long") == 0 && at + 1 < argc)
            c.least_long = strtod(argv[++at], NULL);
        else if (strcmp(argv[at], "--least-tuned") == 0 && at + 1 < argc)
            c.least_tuned = strtod(argv[++at], NULL);
        else
            return 2;
    }
    if (argc - at < 2) return 2;
    fb_json_init();
    char *text = fb_read_file(argv[at], FILE_MAX, &n, &err);
    bench_need(text != NULL, &err);
    c.r = fb_recording_read(text, n, &err);
    bench_need(c.r != NULL, &err);
    c.scripts = argv + at + 1;
    c.n_scripts = argc - at - 1;
    for (c.script = 0; c.script < c.n_scripts; c.script++) look_at_script(&c, c.scripts[c.script]);
    bool good = print(&c);
    FB_VEC_FREE(&c.kernels);
    fb_recording_free(c.r);
    fb_free(text);
    return !good;
}
