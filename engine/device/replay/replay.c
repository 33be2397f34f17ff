/* The replay device: a GPU (or any machine) that is not there, served from its recording. It runs nothing. A plan
 * recorded whole is told as it was measured; any other is put together from recorded kernels and the recorded machine's
 * launch cost; what was never measured is predicted for that machine. Every figure says which.
 *
 * And the devices torch:NAME: what PyTorch did on that machine. Its plans are names, so that what was not recorded
 * cannot be composed or predicted. */
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "device/peers.h"
#include "device/replay/recording.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    fb_device device;
    fb_recording *recording;
} replay;

extern const fb_device_ops fb_device_replay;
#define EXTERN(KIND) extern const fb_device_ops fb_device_replay_##KIND;
FB_PEERS(EXTERN)

#define ADDRESS(KIND) &fb_device_replay_##KIND,
static const fb_device_ops *const peers[] = {FB_PEERS(ADDRESS)};
enum { N_PEERS = sizeof peers / sizeof *peers };
static const fb_device_ops replay_host;

/* ---- opening ---- */

static int replay_available(void)
{
    fb_arena *arena = fb_arena_new();
    const char **names;
    int n = fb_recording_names(arena, &names);
    fb_arena_free(arena);
    return n;
}

static json_t *entry_of(const char *name, const fb_recording *r)
{
    static const char *const texts[] = {"date", "driver", "version"};
    json_t *o = json_pack("{s:o, s:s, s:s}", "device", json_sprintf("replay:%s", name), "kind", "replay", "name",
                          fb_recording_machine(r)->name);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (fb_recording_text(r, texts[i]))
            json_object_set_new(o, texts[i], json_string(fb_recording_text(r, texts[i])));
    fb_json_set_number(o, "clock_mhz", fb_recording_clock_mhz(r));
    json_object_set(o, "scripts", (json_t *)fb_recording_scripts(r));
    json_object_set_new(o, "machine", fb_machine_to_json(fb_recording_machine(r)));
    return o;
}

/* The scripts of which a peer's plans are in it. */
static json_t *peer_scripts(const fb_recording *r, const char *peer)
{
    const char *script, *variant;
    json_t *out = json_object(), *variants, *graph;
    json_object_foreach((json_t *)fb_recording_scripts(r), script, variants)
    {
        json_object_foreach(variants, variant, graph)
        {
            fb_str plans = {0};
            fb_recording_peer_plans(r, json_string_value(graph), peer, &plans);
            if (plans.n && !json_object_get(out, script)) json_object_set_new(out, script, json_object());
            if (plans.n) json_object_set(json_object_get(out, script), variant, graph);
            fb_str_free(&plans);
        }
    }
    return out;
}

static void list_peer(json_t *devices, const char *name, const fb_recording *r, const char *peer)
{
    const char *is = fb_recording_peer(r, peer, "name");
    if (!is) return;
    json_array_append_new(devices, json_pack("{s:o, s:s, s:s, s:s, s:o}", "device", json_sprintf("%s:%s", peer, name),
                                             "kind", peer, "name", is, "recorded", fb_recording_peer(r, peer, "date"),
                                             "scripts", peer_scripts(r, peer)));
}

static void replay_list(json_t *devices, json_t *libraries)
{
    (void)libraries;
    fb_arena *arena = fb_arena_new();
    const char **names;
    int n = fb_recording_names(arena, &names);
    for (int i = 0; i < n; i++) {
        fb_error why = {0};
        fb_recording *r = fb_recording_open_head(names[i], &why);
        json_array_append_new(devices, r ? entry_of(names[i], r)
                                         : json_pack("{s:o, s:s, s:s}", "device", json_sprintf("replay:%s", names[i]),
                                                     "kind", "replay", "missing", why.text));
        for (int k = 0; r && k < N_PEERS; k++) list_peer(devices, names[i], r, peers[k]->kind);
        fb_recording_free(r);
    }
    fb_arena_free(arena);
}

static fb_device *replay_open(const char *name, fb_error *err)
{
    fb_arena *arena = fb_arena_new();
    const char **names, *colon = strchr(name, ':'), *asked = colon ? colon + 1 : NULL;
    int n = fb_recording_names(arena, &names);
    if (!asked && n) asked = names[0];
    fb_recording *r = asked ? fb_recording_open(asked, err) : NULL;
    if (!asked)
        fb_fail(err, FB_ERR_UNAVAILABLE, "there is no recording; \"fusebox record\" makes one on a machine with a GPU");
    replay *d = r ? fb_calloc(1, sizeof *d) : NULL;
    if (d) {
        bool grid = fb_recording_machine(r)->target->grid;
        *d = (replay){.device.ops = grid ? &fb_device_replay : &replay_host, .recording = r};
        snprintf(d->device.name, sizeof d->device.name, "replay:%.50s", asked);
    }
    fb_arena_free(arena);
    return d ? &d->device : NULL;
}

static replay *replay_of(fb_device *d)
{
    return (replay *)d;
}

static void replay_close(fb_device *d)
{
    fb_recording_free(replay_of(d)->recording);
    fb_free(d);
}

static const fb_machine *replay_machine(const fb_device *d)
{
    return fb_recording_machine(((const replay *)d)->recording);
}

static bool replay_calibrate(fb_device *d, const fb_progress *progress, fb_error *err)
{
    (void)progress;
    return fb_fail(err, FB_ERR_UNAVAILABLE, "%s is a recording: it was calibrated where it was made", d->name);
}

/* ---- single launches ---- */

/* What is being put together. */
typedef struct {
    const fb_recording *r;
    fb_arena *arena;
    const fb_plan *plan;
    const fb_program *p;
    char signature[FB_SIGNATURE]; /* of the plan */
    bool whole;                   /* it was recorded */
    fb_recall *out;
    bool *seen;      /* by number, as spans */
    double *guessed; /* µs of one launch where nothing was recorded */
} recollection;

static int number_of(const fb_program *p, const fb_launch *l)
{
    return l->kind == FB_LAUNCH_KERNEL ? l->kernel : p->n_kernels + l->gemm;
}

/* The code that stood at this launch's place in its group when the group was recorded; NULL when it was not, or when
 * the group had other launches then. */
static const char *old_code(const recollection *c, int launch)
{
    char signature[FB_SIGNATURE];
    int group = c->p->launches[launch].group, first = launch, n = 0;
    if (group == FB_NONE) return NULL;
    while (first > 0 && c->p->launches[first - 1].group == group) first--;
    while (first + n < c->p->n_launches && c->p->launches[first + n].group == group) n++;
    fb_recording_group_signature(c->plan, group, signature);
    if (fb_recording_group(c->r, signature) != n) return NULL;
    return fb_recording_group_code(c->r, signature, launch - first);
}

/* The model's time of a launch. A group's time is that of its first launch. */
static double predicted_us(const recollection *c, int launch)
{
    const fb_launch *l = &c->p->launches[launch];
    const fb_group_cost *own = fb_program_own_cost(c->p, l);
    if (own) return own->us;
    const fb_launch *before = launch > 0 ? l - 1 : NULL; /* what a group lays out is in its cost */
    if (before && before->group == l->group && !before->copies) return 0;
    fb_group_cost cost;
    fb_plan_group_cost(c->plan, l->group, &cost);
    return cost.us;
}

static void recall_launch(recollection *c, int launch)
{
    int number = number_of(c->p, &c->p->launches[launch]);
    fb_recalled_kernel *k = &c->out->kernels[number];
    fb_recorded_kernel have;
    char code[FB_SIGNATURE];
    fb_recording_code_name(c->p, &c->p->launches[launch], code);
    bool known = fb_recording_kernel(c->r, code, &have);
    const char *old = known ? NULL : old_code(c, launch);
    bool stale = old && fb_recording_kernel(c->r, old, &have);
    if (!known && !stale) fb_recording_kernel(c->r, "", &have);
    *k = (fb_recalled_kernel){
        .source = known || stale ? FB_SOURCE_RECORDED : FB_SOURCE_PREDICTED,
        .stale = stale,
        .hot_us = have.hot_us,
        .cold_us = have.cold_us,
        .counters = {.dram_read = have.dram_read,
                     .dram_written = have.dram_written,
                     .l2_bytes = have.l2_bytes,
                     .occupancy = NAN,
                     .tensor_active = NAN,
                     .cycles = NAN},
        .resources = have.resources,
    };
    fb_stat here; /* as it ran inside this very plan */
    if (c->whole && fb_recording_plan_kernel(c->r, c->signature, stale ? old : code, &here)) k->hot_us = here;
    c->guessed[number] = predicted_us(c, launch);
    c->seen[number] = true;
}

/* ---- plans ---- */

static double known(double v)
{
    return v > 0 ? v : 0;
}

/* What one launch adds to its kernel's time: what predictions say too, so that a plan does not seem to gain by being
 * composed. */
static double launch_adds(const recollection *c, const fb_launch *l, double us)
{
    const fb_machine *m = fb_planner_machine(fb_plan_planner(c->plan));
    return fb_launching_us(m, c->p->mode, 1, l->kind == FB_LAUNCH_GEMM, us);
}

static void add_stat(fb_stat *sum, const fb_stat *one, double times)
{
    sum->median += one->median * times;
    sum->p10 += one->p10 * times;
    sum->p90 += one->p90 * times;
    if (!sum->n || one->n < sum->n) sum->n = one->n;
}

static void add_us(fb_stat *s, double us)
{
    s->median += us;
    s->p10 += us;
    s->p90 += us;
}

/* ---- launching, as the nearest plan has it ---- */

/* How far two plans lie apart: in launches, as a ratio, and in kernels that only one of them has. */
static double apart(const recollection *c, const json_t *codes, double launches, const char *signature,
                    const fb_recorded_plan *p)
{
    json_t *kernels = fb_recording_plan_kernels(c->r, signature), *value;
    size_t common = 0, theirs = json_object_size(kernels), ours = json_object_size(codes);
    const char *code;
    json_object_foreach(kernels, code, value) common += json_object_get(codes, code) != NULL;
    json_decref(kernels);
    double either = (double)(ours + theirs - common);
    return fabs(log(p->launches / launches)) + 1 - (either > 0 ? (double)common / either : 0);
}

/* What the calibration says of launching is off by as much for all plans of a graph that are alike: 0.59 to 1.59 of it
 * was found in 80 % of 508 plans recorded as streams on an H200. So the plan that lies nearest tells how much: walls of
 * which each plan was told by the others came within 10 % in 56 % (by the calibration alone: 35 %), within 20 % in 75 %
 * (66 %); of 476 graphs in 85 % (66 %) and 96 % (86 %). Between plans an edit apart streams: 68 %, 86 %. */
static double off_nearby(const recollection *c, const json_t *codes, double launches)
{
    const fb_machine *m = fb_planner_machine(fb_plan_planner(c->plan));
    char graph[FB_SIGNATURE];
    const char **plans;
    double nearest = INFINITY, off = 1;
    fb_recording_graph_signature(fb_planner_graph(fb_plan_planner(c->plan)), graph);
    int n = launches > 0 ? fb_recording_plans(c->r, graph, c->arena, &plans) : 0;
    fb_recorded_plan *p = fb_calloc(1, sizeof *p);
    for (int i = 0; i < n; i++) {
        if (!fb_recording_plan(c->r, plans[i], p) || !(p->launches > 0)) continue;
        double took = p->wall_us[c->p->mode].median - p->device_us.median;
        double called_us =
            p->device_us.median * p->calls / p->launches; /* about: which of its kernels are calls is not kept */
        double told = fb_launching_us(m, c->p->mode, p->launches, p->calls, called_us) + known(m->sync_us);
        double far = apart(c, codes, launches, plans[i], p);
        if (!(took > 0) || !(told > 0) || !(far < nearest)) continue;
        nearest = far;
        off = took / told;
    }
    fb_free(p);
    return off;
}

/* Of those plans, the p10 and p90 of what launching took over what was told of it. */
static void add_launching(const recollection *c, fb_stat *s, double us)
{
    bool graph = c->p->mode == FB_LAUNCH_GRAPH;
    s->median += us;
    s->p10 += us * (graph ? 0.79 : 0.63);
    s->p90 += us * (graph ? 1.35 : 1.65);
}

/* All launches one after the other; a spread is added up as if they varied together. Returns what launching them
 * adds, and waiting for the last. */
static double add_launches(recollection *c)
{
    enum { MAX_DEPTH = 64 };
    fb_recall *out = c->out;
    double times[MAX_DEPTH] = {1};
    double adds = 0, launches = 0;
    json_t *codes = json_object();
    bool cold = true;
    out->device_us = out->cold_us = (fb_stat){0};
    for (int i = 0, depth = 0; i < c->p->n_launches; i++) {
        const fb_launch *l = &c->p->launches[i];
        if (l->kind == FB_LAUNCH_REPEAT && depth + 1 < MAX_DEPTH)
            times[depth + 1] = times[depth] * (double)l->count, depth++;
        if (l->kind == FB_LAUNCH_END && depth) depth--;
        if (l->kind != FB_LAUNCH_KERNEL && l->kind != FB_LAUNCH_GEMM) continue;
        int number = number_of(c->p, l);
        if (!c->seen[number]) recall_launch(c, i);
        const fb_recalled_kernel *k = &out->kernels[number];
        double us = c->guessed[number];
        const fb_stat guess = {us, us, us, 1};
        const fb_stat *hot = k->hot_us.n ? &k->hot_us : &guess;
        add_stat(&out->device_us, hot, times[depth]);
        adds += launch_adds(c, l, hot->median) * times[depth];
        launches += times[depth];
        char code[FB_SIGNATURE];
        json_object_set_new(codes, fb_recording_code_name(c->p, l, code), json_true());
        add_stat(&out->cold_us, &k->cold_us, times[depth]);
        cold = cold && k->cold_us.n;
        out->stale |= k->stale;
        if (k->source == FB_SOURCE_PREDICTED) out->source = FB_SOURCE_PREDICTED;
    }
    if (!cold || !out->cold_us.n) out->cold_us = (fb_stat){NAN, NAN, NAN, 0};
    double off = off_nearby(c, codes, launches);
    json_decref(codes);
    return off * (adds + known(fb_planner_machine(fb_plan_planner(c->plan))->sync_us));
}

/* What is fed and received, predicted: a recording has the times of kernels alone. */
static void add_copies(recollection *c, fb_stat *s)
{
    fb_plan_cost cost;
    fb_plan_cost_of(c->plan, &cost);
    double all = cost.copy_in_us + cost.copy_out_us, longest = fmax(cost.copy_in_us, cost.copy_out_us);
    double alone = c->p->overlap ? fmax(0, longest - s->median) : all;
    add_us(s, alone);
    c->out->copy_us = all;
    c->out->copy_hidden_us = all - alone;
}

static void compose(recollection *c)
{
    fb_recall *out = c->out;
    out->source = FB_SOURCE_COMPOSED;
    out->max_abs = out->max_rel = out->bound = NAN;
    double adds = add_launches(c);
    out->wall_us = out->device_us;
    if (!out->wall_us.n) out->wall_us.n = 1; /* a plan without launches */
    add_launching(c, &out->wall_us, adds);
    if (out->cold_us.n) add_launching(c, &out->cold_us, adds);
    if (!fb_program_has_copies(c->p)) return;
    if (out->cold_us.n) add_copies(c, &out->cold_us);
    add_copies(c, &out->wall_us);
}

/* Over what was composed, for a launch mode that was measured. */
static void tell_whole(recollection *c, const fb_recorded_plan *plan)
{
    fb_recall *out = c->out;
    char code[FB_SIGNATURE];
    fb_launch_mode mode = fb_plan_launch_mode(c->plan);
    bool same = strcmp(fb_recording_program_code(c->p, code), plan->code) == 0;
    bool told =
        plan->wall_us[mode].n && (same || !fb_program_has_copies(c->p)); /* else other copies than it had, or none */
    if (!same && !told) return; /* kernels that have changed: nothing of the old run goes with their times */
    out->max_abs = plan->max_abs;
    out->max_rel = plan->max_rel;
    out->bound = plan->bound;
    out->undecided = plan->undecided;
    if (plan->device_us.n) out->device_us = plan->device_us;
    if (!told) return;
    out->source = FB_SOURCE_RECORDED;
    out->stale = !same;
    out->wall_us = plan->wall_us[mode];
    if (same && plan->rounds[mode].n) {
        out->rounds = FB_NEW(c->arena, fb_rounds);
        *out->rounds = plan->rounds[mode];
    }
    if (mode == FB_LAUNCH_STREAM) out->recorded = fb_arena_strdup(c->arena, c->signature);
    if (plan->cold_us.n && mode == FB_LAUNCH_STREAM) out->cold_us = plan->cold_us;
}

/* What was not run has neither a spread nor an error. */
static void forget_spread(fb_recall *out)
{
    fb_stat *all[] = {&out->wall_us, &out->device_us, &out->cold_us};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->p10 = all[i]->p90 = NAN;
    out->max_abs = out->max_rel = out->bound = NAN;
    out->undecided = 0;
}

static bool replay_recall(fb_device *d, const fb_plan *plan, const fb_program *p, fb_arena *arena, fb_recall *out,
                          fb_error *err)
{
    int numbers = p->n_kernels + p->n_gemms;
    fb_recorded_plan recorded;
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].file)
            return fb_fail(err, FB_ERR_UNAVAILABLE, "%s is a kernel of your own: %s has no record of it, nor a device",
                           p->kernels[k].file, d->name);
    *out = (fb_recall){.kernels = FB_NEW_ARRAY(arena, fb_recalled_kernel, numbers)};
    recollection c = {.r = replay_of(d)->recording,
                      .arena = arena,
                      .plan = plan,
                      .p = p,
                      .out = out,
                      .seen = FB_NEW_ARRAY(arena, bool, numbers),
                      .guessed = FB_NEW_ARRAY(arena, double, numbers)};
    c.whole = fb_recording_plan(c.r, fb_recording_plan_signature(plan, c.signature), &recorded);
    compose(&c);
    if (c.whole) tell_whole(&c, &recorded);
    if (out->source == FB_SOURCE_PREDICTED) forget_spread(out);
    return fb_recording_sound(c.r, err) || fb_fail_prefix(err, "%s", d->name);
}

static json_t *replay_timeline(fb_device *d, const char *recorded, fb_error *err)
{
    json_t *t = fb_recording_timeline(replay_of(d)->recording, recorded, err);
    if (!t) fb_fail_prefix(err, "%s", d->name);
    return t;
}

#define REPLAY_OPS                                                                                                     \
    .kind = "replay", .list = replay_list, .available = replay_available, .open = replay_open, .close = replay_close,  \
    .machine = replay_machine, .calibrate = replay_calibrate, .recall = replay_recall,                                 \
    .recall_timeline = replay_timeline

const fb_device_ops fb_device_replay = {REPLAY_OPS, .target = &fb_target_cuda};
/* Recordings of a processor differ in what their kernels were written in. */
static const fb_device_ops replay_host = {REPLAY_OPS, .target = &fb_target_c};

/* ---- peers ---- */

static void peer_list(json_t *devices, json_t *libraries) /* replay_list tells of what its recordings hold */
{
    (void)devices, (void)libraries;
}

static int peer_available(void) /* nobody gets it without asking */
{
    return 0;
}

static fb_device *peer_open(const char *name, fb_error *err)
{
    const fb_device_ops *ops = fb_device_find(name, err);
    const char *colon = strchr(name, ':'), *peer = ops ? ops->kind : "";
    if (!ops) return NULL;
    if (!colon) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s is served by a worker of its own, or as %s:NAME by a recording", name,
                peer);
        return NULL;
    }
    fb_recording *r = fb_recording_open(colon + 1, err);
    if (r && fb_recording_peer(r, peer, "name")) {
        replay *d = fb_calloc(1, sizeof *d);
        *d = (replay){.device.ops = ops, .recording = r};
        snprintf(d->device.name, sizeof d->device.name, "%s:%.50s", peer, colon + 1);
        return &d->device;
    }
    if (r) fb_fail(err, FB_ERR_UNAVAILABLE, "the recording \"%.64s\" holds nothing of %s", colon + 1, peer);
    fb_recording_free(r);
    return NULL;
}

static bool peer_recall(fb_device *d, const fb_graph *g, const char *plan, fb_peer_plan *out, fb_error *err)
{
    char graph[FB_SIGNATURE];
    const fb_recording *r = replay_of(d)->recording;
    const char *is = fb_recording_peer(r, d->ops->kind, "name");
    fb_recording_graph_signature(g, graph);
    if (fb_recording_peer_plan(r, graph, d->ops->kind, plan, out)) return true;
    if (!fb_recording_sound(r, err)) return fb_fail_prefix(err, "%s", d->name);
    fb_str plans = {0};
    fb_recording_peer_plans(r, graph, d->ops->kind, &plans);
    if (plans.n)
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s: no plan \"%.80s\" was recorded of this graph; recorded: %s (%s)", d->name,
                plan, plans.text, is);
    else
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s: this graph was not recorded with %s, and nothing is predicted for it",
                d->name, is);
    fb_str_free(&plans);
    return false;
}

#define PEER_OPS(KIND)                                                                                                 \
    const fb_device_ops fb_device_replay_##KIND = {.kind = #KIND,                                                      \
                                                   .list = peer_list,                                                  \
                                                   .available = peer_available,                                        \
                                                   .open = peer_open,                                                  \
                                                   .close = replay_close,                                              \
                                                   .calibrate = replay_calibrate,                                      \
                                                   .recall_named = peer_recall};
FB_PEERS(PEER_OPS)
