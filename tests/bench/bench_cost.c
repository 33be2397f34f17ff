/* How far the cost model is off: predicted against recorded times of every kernel of a recording that the bundled
 * scripts' presets and their single edits launch. No device is needed.
 *
 *     bench_cost RECORDING.json [SCRIPT.lua…]      scripts: those to judge by; a kernel counts once
 *
 * A prediction is within a share when it is off by no more than that, or by 1.5 µs where the kernel takes less than 5.
 */
#include "bench/bench.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"
#include "device/recording.h"
#include "plan/preset.h"
#include "script/script.h"

#include <string.h>

enum { LIMIT_MS = 60000, WORST = 12, FILE_MAX = 64 << 20 };

typedef struct {
    char code[FB_SIGNATURE], name[96];
    fb_family family;
    double us, predicted_us;
    fb_group_cost cost;
} kernel;

typedef struct {
    fb_recording *r;
    FB_VEC(kernel) kernels;
    bool all; /* list every kernel */
} check;

static bool within(const kernel *k, double share)
{
    double off = fabs(k->predicted_us - k->us);
    return off <= share * k->us || (k->us < 5 && off <= 1.5);
}

static double ratio(const kernel *k)
{
    return fabs(log(k->predicted_us / k->us));
}

/* ---- from scripts to kernels ---- */

static void look_at(check *c, const fb_plan *plan, int group, const char *script)
{
    char signature[FB_SIGNATURE];
    fb_recorded_kernel have;
    kernel k = {0};
    fb_group_signature(plan, group, signature);
    if (fb_recording_group(c->r, signature) != 1) return;
    snprintf(k.code, sizeof k.code, "%s", fb_recording_group_code(c->r, signature, 0));
    for (int i = 0; i < c->kernels.n; i++)
        if (strcmp(c->kernels.at[i].code, k.code) == 0) return;
    if (!fb_recording_kernel(c->r, k.code, &have) || !have.hot_us.n || !(have.hot_us.median > 0)) return;
    const fb_group *g = fb_plan_group(plan, group);
    fb_plan_group_cost(plan, group, &k.cost);
    k.family = g->family;
    k.us = have.hot_us.median;
    k.predicted_us = k.cost.us;
    snprintf(k.name, sizeof k.name, "%.20s %.40s ×%d", script,
             fb_planner_graph(fb_plan_planner(plan))->nodes[g->nodes[g->n_nodes - 1]].name, g->n_nodes);
    FB_VEC_PUSH(&c->kernels, k);
}

static void look_at_plan(check *c, const fb_plan *plan, const char *script)
{
    for (int i = 0; i < fb_plan_groups(plan); i++)
        if (!fb_plan_group_refusal(plan, i)) look_at(c, plan, i, script);
}

static void look_at_graph(check *c, const fb_graph *g, const char *script)
{
    fb_planner *p = fb_planner_new(g, fb_recording_machine(c->r));
    const fb_deps *d = fb_planner_deps(p);
    for (int i = 0; i < fb_presets(); i++) {
        fb_plan *plan = fb_preset_at(i)->make(p, NULL);
        if (!plan) continue;
        look_at_plan(c, plan, script);
        for (int e = 0; e < d->n_edges; e++) {
            int from = fb_plan_group_of(plan, d->edges[e].producer), to = fb_plan_group_of(plan, d->edges[e].consumer);
            if (from == FB_NONE || to == FB_NONE) continue;
            fb_plan *edited = NULL;
            fb_plan_try_repeated(plan,
                                 &(fb_edit){.kind = from == to ? FB_EDIT_CUT : FB_EDIT_FUSE,
                                            .a = d->edges[e].producer,
                                            .b = d->edges[e].consumer},
                                 &edited);
            if (edited) look_at_plan(c, edited, script);
            fb_plan_free(edited);
        }
        fb_plan_free(plan);
    }
    fb_planner_free(p);
}

static void next_of(fb_script *s, fb_script_event_kind wanted, fb_script_event *e)
{
    fb_error late = {.text = "the script did not answer"};
    for (;;) {
        while (fb_script_next(s, e)) {
            bench_need(e->kind != FB_SCRIPT_ERROR, &e->error);
            if (e->kind == wanted) return;
            fb_script_event_clear(e);
        }
        struct pollfd fds[2];
        int timeout = LIMIT_MS, n = fb_script_poll(s, fds, &timeout);
        bench_need(poll(fds, (nfds_t)n, timeout) >= 0, &late);
        fb_script_pump(s);
    }
}

static void look_at_script(check *c, const char *path)
{
    fb_error err = {0};
    fb_script_event told, built;
    const char *slash = strrchr(path, '/');
    fb_script *s = fb_script_start(path, NULL, &err);
    bench_need(s != NULL, &err);
    next_of(s, FB_SCRIPT_INFO, &told);
    for (int v = 0; v < told.info->n_variants; v++) {
        fb_script_build(s, told.info->variants[v], NULL);
        next_of(s, FB_SCRIPT_GRAPH, &built);
        look_at_graph(c, built.graph, slash ? slash + 1 : path);
        fb_script_event_clear(&built);
    }
    fb_script_event_clear(&told);
    fb_script_free(s);
}

/* ---- the table ---- */

static void row(const check *c, const char *what, fb_family family)
{
    int n = 0, near = 0, close = 0;
    FB_VEC(double) off = {0};
    for (int i = 0; i < c->kernels.n; i++) {
        const kernel *k = &c->kernels.at[i];
        if (family != FB_FAMILIES && k->family != family) continue;
        n++;
        close += within(k, 0.15);
        near += within(k, 0.30);
        FB_VEC_PUSH(&off, k->predicted_us / k->us);
    }
    fb_stat s = fb_stat_of(off.at, off.n);
    if (n)
        printf("  %-12s %5d kernels   within 15 %%: %5.1f %%   within 30 %%: %5.1f %%   predicted / recorded %.2f "
               "(%.2f–%.2f)\n",
               what, n, 100.0 * close / n, 100.0 * near / n, s.median, s.p10, s.p90);
    FB_VEC_FREE(&off);
}

static int worst_first(const void *a, const void *b)
{
    double x = within(a, 0.30) ? 0 : ratio(a), y = within(b, 0.30) ? 0 : ratio(b);
    return (x < y) - (x > y);
}

static void print(check *c)
{
    printf("cost model against %s: kernels as recorded, caches hot\n", fb_recording_machine(c->r)->name);
    row(c, "all", FB_FAMILIES);
    for (int f = 0; f < FB_FAMILIES; f++) row(c, fb_family_name((fb_family)f), (fb_family)f);
    if (c->kernels.n) qsort(c->kernels.at, (size_t)c->kernels.n, sizeof *c->kernels.at, worst_first);
    for (int i = 0; i < c->kernels.n && (c->all || (i < WORST && !within(&c->kernels.at[i], 0.30))); i++) {
        const kernel *k = &c->kernels.at[i];
        char us[32], predicted[32], bytes[32];
        printf("  %c %10s recorded %10s predicted (memory %.2f, compute %.2f µs; %s)  %s %s\n",
               within(k, 0.30) ? ' ' : '!', fb_format_us(us, k->us), fb_format_us(predicted, k->predicted_us),
               k->cost.memory_us, k->cost.compute_us,
               fb_format_bytes(bytes, (double)(k->cost.bytes_read + k->cost.bytes_written)), fb_family_name(k->family),
               k->name);
    }
}

int main(int argc, char **argv)
{
    size_t n;
    fb_error err = {0};
    check c = {0};
    if (argc < 3) return 2;
    fb_json_init();
    char *text = fb_read_file(argv[1], FILE_MAX, &n, &err);
    bench_need(text != NULL, &err);
    c.r = fb_recording_read(text, n, &err);
    bench_need(c.r != NULL, &err);
    c.all = getenv("BENCH_ALL") != NULL;
    for (int i = 2; i < argc; i++) look_at_script(&c, argv[i]);
    print(&c);
    FB_VEC_FREE(&c.kernels);
    fb_recording_free(c.r);
    fb_free(text);
    return 0;
}
