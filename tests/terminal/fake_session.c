/* A session without processes, for the terminal tests: a small graph of its own, real plans and verdicts, and made-up
 * measurements that take a known time and give known figures. Opens these paths: "demo" (two variants, as the puzzler
 * split_stack at a small size), "puzzle" (the same with a puzzle), "recorded" (the same beside a framework that plans
 * for itself, recorded elsewhere, and with a calibration in doubt), "unchecked" (the demo, whose checks end when a
 * column is measured again), "sweep" (the demo with an experiment), "endless" (with one whose third case never ends,
 * nor does a look at values), "big" (20,000 nodes) and "broken" (a script with an error in line 3). */
#include "session/session.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/vec.h"
#include "fake_session.h"
#include "graph/canon.h"

#include <math.h>
#include <string.h>

enum { MEASURE_MS = 120, SEARCH_MS = 1200, NEVER_MS = 3600000, VARIANTS = 2, MOST_COLUMNS = 16 };

typedef struct {
    fb_column shown;
    char *plan_name, *variant;
    fb_planner *planner;
    fb_history *history;
    fb_report *report, *before;
    int64_t until; /* ms; measuring or searching ends */
    bool wanted;   /* to be measured once it is found */
} record;

struct fb_session {
    uint64_t serial, answers;
    char *path;
    fb_script_info info;
    bool loaded, automatic;
    fb_error error;
    int error_line;
    json_t *batch;
    fb_graph *graphs[VARIANTS];
    fb_machine machine, recorded;
    FB_VEC(record *) columns;
    FB_VEC(char *) log;
    fb_answer answer;
    bool traced;
    struct {
        fb_experiment_hooks hooks;
        bool runs, stops;
        int given;     /* rows */
        int64_t until; /* ms; the next one comes */
        fb_column measured;
        fb_error error;
    } experiment;
    char *looked_at;
};

static const char *const variant_names[] = {"split", "combined"};

/* ---- graphs ---------------------------------------------------------------------------------------------------------
 */

static fb_id op(fb_graph *g, fb_op o, fb_id a, fb_id b, const fb_attrs *at, const char *name)
{
    fb_id args[2] = {a, b};
    fb_error err = {0};
    fb_id id = fb_graph_add(g, o, args, b != FB_NONE ? 2 : a != FB_NONE ? 1 : 0, at, name, 7, &err);
    if (id == FB_NONE) fb_bug(__FILE__, __LINE__, err.text);
    return id;
}

static fb_attrs shaped(int rank, int64_t d0, int64_t d1, int64_t d2)
{
    return (fb_attrs){.shape = {.rank = rank, .dim = {d0, d1, d2}}, .dtype = FB_F32, .dist = FB_DIST_NORMAL, .high = 1};
}

static fb_id layer_norm(fb_graph *g, fb_id x)
{
    fb_attrs last = {.n_axes = 1, .axes = {-1}, .keepdim = true};
    fb_attrs eps = {.dtype = FB_F32, .value = 1e-5};
    fb_graph_scope_open(g, "layer_norm", FB_NONE, "layer_norm", &x, 1, NULL, 6, NULL);
    fb_id mean = op(g, FB_OP_MEAN, x, FB_NONE, &last, "mean");
    fb_id centred = op(g, FB_OP_SUB, x, mean, NULL, "centred");
    fb_id square = op(g, FB_OP_MUL, centred, centred, NULL, "square");
    fb_id variance = op(g, FB_OP_MEAN, square, FB_NONE, &last, "variance");
    fb_id safe = op(g, FB_OP_ADD, variance, op(g, FB_OP_CONST, FB_NONE, FB_NONE, &eps, "eps"), NULL, "safe");
    fb_id scale = op(g, FB_OP_RSQRT, safe, FB_NONE, NULL, "scale");
    fb_id out = op(g, FB_OP_MUL, centred, scale, NULL, "normalised");
    fb_graph_scope_close(g, &out, 1, NULL);
    return out;
}

static fb_id linear(fb_graph *g, fb_id x, int64_t in)
{
    fb_attrs weight = shaped(2, in, 1, 0), bias = shaped(1, 1, 0, 0);
    fb_id w = op(g, FB_OP_PARAM, FB_NONE, FB_NONE, &weight, "weight");
    fb_id b = op(g, FB_OP_PARAM, FB_NONE, FB_NONE, &bias, "bias");
    fb_graph_scope_open(g, "linear", FB_NONE, "linear", &x, 1, NULL, 8, NULL);
    fb_id out = op(g, FB_OP_ADD, op(g, FB_OP_MATMUL, x, w, NULL, "matmul"), b, NULL, "add");
    fb_graph_scope_close(g, &out, 1, NULL);
    return out;
}

static fb_graph *finish(fb_graph *g, fb_id out)
{
    fb_error err = {0};
    if (!fb_graph_output(g, out, "y", &err) || !fb_graph_finish(g, &err)) fb_bug(__FILE__, __LINE__, err.text);
    fb_graph *canonical = fb_graph_canonical(g, &err);
    if (!canonical) fb_bug(__FILE__, __LINE__, err.text);
    fb_graph_free(g);
    return canonical;
}

static fb_graph *split(int64_t batch)
{
    enum { FEATURES = 4, WIDTH = 64 };
    fb_graph *g = fb_graph_new("split");
    fb_attrs all = shaped(1, FEATURES * batch * WIDTH, 0, 0), row = shaped(2, batch, WIDTH, 0);
    fb_id x = op(g, FB_OP_INPUT, FB_NONE, FB_NONE, &all, "input_data"), parts[FEATURES];
    for (int i = 0; i < FEATURES; i++) {
        fb_attrs slice = {.dim = 0, .start = i * batch * WIDTH, .stop = (i + 1) * batch * WIDTH, .step = 1};
        fb_graph_scope_open(g, "feature", i, NULL, NULL, 0, NULL, 5, NULL);
        fb_id part = op(g, FB_OP_VIEW, op(g, FB_OP_SLICE, x, FB_NONE, &slice, "slice"), FB_NONE, &row, "view");
        parts[i] = op(g, FB_OP_TANH, layer_norm(g, part), FB_NONE, NULL, "tanh");
        fb_graph_scope_close(g, NULL, 0, NULL);
    }
    fb_attrs first = {.dim = 0};
    fb_id stack = fb_graph_add(g, FB_OP_STACK, parts, FEATURES, &first, "stack", 8, NULL);
    return finish(g, op(g, FB_OP_RELU, linear(g, stack, WIDTH), FB_NONE, NULL, "relu"));
}

static fb_graph *combined(int64_t batch)
{
    enum { FEATURES = 4, WIDTH = 64 };
    fb_graph *g = fb_graph_new("combined");
    fb_attrs all = shaped(1, FEATURES * batch * WIDTH, 0, 0), rows = shaped(3, FEATURES, batch, WIDTH);
    fb_id x = op(g, FB_OP_INPUT, FB_NONE, FB_NONE, &all, "input_data");
    fb_id view = op(g, FB_OP_VIEW, x, FB_NONE, &rows, "view");
    fb_id norm = op(g, FB_OP_TANH, layer_norm(g, view), FB_NONE, NULL, "tanh");
    return finish(g, op(g, FB_OP_RELU, linear(g, norm, WIDTH), FB_NONE, NULL, "relu"));
}

/* A chain of unlike layers, so that nothing folds into a repeat. */
static fb_graph *big(void)
{
    enum { LAYERS = 2000, NODES = 10 };
    fb_graph *g = fb_graph_new("big");
    fb_attrs shape = shaped(2, 64, 64, 0);
    fb_id x = op(g, FB_OP_INPUT, FB_NONE, FB_NONE, &shape, "x");
    for (int l = 0; l < LAYERS; l++) {
        char name[32];
        snprintf(name, sizeof name, "layer_%d", l);
        fb_graph_scope_open(g, name, FB_NONE, NULL, NULL, 0, NULL, 2, NULL);
        for (int k = 0; k < NODES; k++) x = op(g, k % 2 ? FB_OP_TANH : FB_OP_RELU, x, FB_NONE, NULL, NULL);
        fb_graph_scope_close(g, NULL, 0, NULL);
    }
    return finish(g, x);
}

/* ---- the session ----------------------------------------------------------------------------------------------------
 */

static int64_t now_ms(void)
{
    return fb_now_ns() / 1000000;
}

static void say(fb_session *s, const char *text)
{
    FB_VEC_PUSH(&s->log, fb_strdup(text));
    s->serial++;
}

fb_session *fake_session_new(void)
{
    fb_session *s = fb_calloc(1, sizeof *s);
    fb_machine_default(&s->machine, FB_DEVICE_HOST);
    snprintf(s->machine.name, sizeof s->machine.name, "test machine");
    fb_machine_default(&s->recorded, FB_DEVICE_FOREIGN);
    snprintf(s->recorded.name, sizeof s->recorded.name, "PyTorch 2.11.0+cu130 on NVIDIA H200");
    s->batch = json_integer(16);
    return s;
}

static void free_column(record *c)
{
    if (c->history) fb_history_free(c->history);
    fb_planner_free(c->planner);
    fb_report_free(c->report);
    fb_report_free(c->before);
    fb_free(c->plan_name);
    fb_free(c->variant);
    fb_free(c);
}

static void drop_all(fb_session *s)
{
    while (s->columns.n) free_column(s->columns.at[--s->columns.n]);
    for (int v = 0; v < VARIANTS; v++) {
        if (s->graphs[v]) fb_graph_free(s->graphs[v]);
        s->graphs[v] = NULL;
    }
}

void fb_session_free(fb_session *s)
{
    drop_all(s);
    FB_VEC_FREE(&s->columns);
    while (s->log.n) fb_free(s->log.at[--s->log.n]);
    FB_VEC_FREE(&s->log);
    json_decref(s->batch);
    fb_free(s->looked_at);
    fb_free(s->path);
    fb_free(s);
}

static void build_graphs(fb_session *s)
{
    bool is_big = !strcmp(s->path, "big");
    s->graphs[0] = is_big ? big() : split(json_integer_value(s->batch));
    s->graphs[1] = is_big ? NULL : combined(json_integer_value(s->batch));
}

static void fill_info(fb_session *s)
{
    static const char *names[] = {"split", "combined"}, *none[] = {""};
    static const char *columns[] = {"split:eager", "split:max"}, *big_columns[] = {"none"},
                      *recorded[] = {"split:eager@torch", "split:eager", "split:max"};
    static json_t *standard;
    static fb_param params[] = {
        {.kind = FB_PARAM_INT, .name = "batch_size", .help = "rows of a feature", .min = 1, .max = 64, .step = "x2"}};
    static const char *keys[] = {"launches", "bytes"},
                      *choices[] = {"It launches fewer kernels.", "It moves fewer bytes."},
                      *hints[] = {"Count the launches.", "Press w."};
    static const fb_condition conditions[] = {{.part = FB_WHY_LAUNCHES}, {.part = FB_WHY_BYTES}};
    static const fb_puzzle puzzle = {.compare = {"split:eager", "split:max"},
                                     .ask = "Why is max faster?",
                                     .n_choices = 2,
                                     .choice_keys = keys,
                                     .choices = choices,
                                     .conditions = conditions,
                                     .n_hints = 2,
                                     .hints = hints,
                                     .tell = "Twenty microseconds are launches, eighty are bytes.",
                                     .has_answer = true};
    static const fb_puzzle elsewhere = {.compare = {"split:eager@torch", "combined:eager@torch"},
                                        .ask = "Why is combined faster in PyTorch?",
                                        .n_choices = 2,
                                        .choice_keys = keys,
                                        .choices = choices,
                                        .conditions = conditions};
    bool is_big = !strcmp(s->path, "big"), is_recorded = !strcmp(s->path, "recorded");
    if (!standard) standard = json_integer(16);
    params[0].standard = standard;
    s->info = (fb_script_info){.path = s->path,
                               .title = "A demonstration",
                               .n_params = 1,
                               .params = params,
                               .n_variants = is_big ? 1 : 2,
                               .variants = is_big ? none : names,
                               .n_columns = is_big        ? 1
                                            : is_recorded ? 3
                                                          : 2,
                               .columns = is_big        ? big_columns
                                          : is_recorded ? recorded
                                                        : columns,
                               .experiment = !strcmp(s->path, "sweep") || !strcmp(s->path, "endless"),
                               .puzzle = !strcmp(s->path, "puzzle")      ? &puzzle
                                         : !strcmp(s->path, "elsewhere") ? &elsewhere
                                                                         : NULL};
}

bool fb_session_load(fb_session *s, const char *path, fb_error *err)
{
    bool broken = !strcmp(path, "broken");
    if (!broken && strcmp(path, "demo") != 0 && strcmp(path, "big") != 0 && strcmp(path, "puzzle") != 0 &&
        strcmp(path, "elsewhere") != 0 && strcmp(path, "recorded") != 0 && strcmp(path, "unchecked") != 0 &&
        strcmp(path, "sweep") != 0 && strcmp(path, "endless") != 0)
        return fb_fail(err, FB_ERR_INPUT, "%s: no such script", path);
    drop_all(s);
    char *copy = fb_strdup(path);
    fb_free(s->path);
    s->path = copy;
    s->loaded = !broken;
    s->answers += !broken;
    s->serial++;
    s->error = (fb_error){0};
    s->error_line = broken ? 3 : 0;
    if (broken) {
        fb_fail(&s->error, FB_ERR_INPUT, "broken:3: matmul: inner sizes 4 and 5 differ (x: f32[3,4], w: f32[5,6])");
        return true;
    }
    build_graphs(s);
    fill_info(s);
    s->machine.calibrated = s->machine.doubted = !strcmp(path, "recorded");
    say(s, "hello from the script\x1b[31m \xe2\x80\xae");
    return true;
}

bool fb_session_open(fb_session *s, const char *path, fb_error *err)
{
    return fb_session_load(s, path, err);
}

uint64_t fb_session_answers(const fb_session *s)
{
    return s->answers;
}

const char *fb_session_path(const fb_session *s)
{
    return s->path;
}

const fb_script_info *fb_session_script(const fb_session *s)
{
    return s->loaded ? &s->info : NULL;
}

const fb_error *fb_session_script_error(const fb_session *s)
{
    return &s->error;
}

int fb_session_script_error_line(const fb_session *s)
{
    return s->error_line;
}

const json_t *fb_session_param(const fb_session *s, const char *name)
{
    return strcmp(name, "batch_size") ? NULL : s->batch;
}

int fb_session_log_lines(const fb_session *s)
{
    return s->log.n;
}

const char *fb_session_log_line(const fb_session *s, int i)
{
    return s->log.at[i];
}

uint64_t fb_session_serial(const fb_session *s)
{
    return s->serial;
}

/* ---- columns --------------------------------------------------------------------------------------------------------
 */

static void follow(fb_session *s, record *c)
{
    c->shown.plan_name = c->plan_name;
    c->shown.variant = c->variant;
    c->shown.device = "host";
    c->shown.text = c->plan_name;
    c->shown.machine = &s->machine;
    c->shown.plan = c->history ? fb_history_now(c->history) : NULL;
    c->shown.report = c->report;
    c->shown.before = c->before;
    if (c->shown.plan) fb_plan_cost_of(c->shown.plan, &c->shown.predicted);
    if (!c->history) {
        c->shown.device = "torch:h200";
        c->shown.machine = &s->recorded;
    }
    s->serial++;
}

static void edited(fb_session *s, record *c)
{
    if (c->report) {
        fb_report_free(c->before);
        c->before = c->report;
        c->report = NULL;
    }
    c->shown.state = FB_COLUMN_READY;
    follow(s, c);
    int at = 0;
    while (s->columns.at[at] != c) at++;
    if (s->automatic) fb_session_measure(s, &at, 1);
}

/* best: max after a while. */
static bool begin_search(fb_session *s, record *c)
{
    c->shown.state = FB_COLUMN_BUILDING;
    c->shown.searching = true;
    c->until = now_ms() + SEARCH_MS;
    snprintf(c->shown.progress, sizeof c->shown.progress, "searching: 123 plans");
    c->shown.fraction = 0.25;
    s->serial++;
    return true;
}

static bool plan_it(fb_session *s, record *c, const char *plan, fb_error *err)
{
    char name[64];
    if (!strcmp(plan, FB_SEARCH_NAME) && c->history) return begin_search(s, c);
    fb_preset_use use;
    fb_error badly = {0};
    bool preset = fb_preset_parse(plan, &use, &badly);
    snprintf(name, sizeof name, "%s", preset ? plan : "none"); /* `plan` may be the column's own name */
    if (!preset && !strcmp(plan, "mine")) preset = fb_preset_parse("none", &use, &badly);
    if (!preset) return fb_fail(err, FB_ERR_USAGE, "no plan \"%s\"", plan);
    fb_plan *made = fb_preset_make(&use, c->planner, NULL, err);
    if (!made) return false;
    if (c->history)
        fb_history_push(c->history, made, name);
    else
        c->history = fb_history_new(made);
    fb_free(c->plan_name);
    c->plan_name = fb_strdup(name);
    follow(s, c);
    return true;
}

static bool make_plan(fb_session *s, record *c, const char *variant, const char *plan, fb_error *err)
{
    int v = 0;
    for (int i = 0; i < VARIANTS; i++)
        if (!strcmp(variant, variant_names[i])) v = i;
    if (c->history) fb_history_free(c->history);
    fb_planner_free(c->planner);
    c->history = NULL;
    c->planner = fb_planner_new(s->graphs[v], &s->machine);
    fb_free(c->variant);
    c->variant = fb_strdup(s->info.n_variants > 1 ? variant_names[v] : "");
    c->shown.graph = s->graphs[v];
    return plan_it(s, c, strcmp(plan, FB_SEARCH_NAME) ? plan : "max", err);
}

/* A column of a framework: it plans for itself, and its kernels have names of its own. */
static int add_foreign(fb_session *s)
{
    record *c = fb_calloc(1, sizeof *c);
    c->shown.fraction = NAN;
    c->shown.state = FB_COLUMN_READY;
    c->plan_name = fb_strdup("eager");
    c->variant = fb_strdup("split");
    c->shown.graph = s->graphs[0];
    follow(s, c);
    FB_VEC_PUSH(&s->columns, c);
    return s->columns.n - 1;
}

int fb_session_add(fb_session *s, const char *spec, fb_error *err)
{
    if (strstr(spec, "@torch") && !strcmp(s->path, "recorded")) return add_foreign(s);
    if (strstr(spec, "@torch")) return fb_fail(err, FB_ERR_UNAVAILABLE, "no device \"torch\""), -1;
    char own[128];
    snprintf(own, sizeof own, "%.*s", (int)strcspn(spec, "@"), spec); /* "@host" is all there is */
    spec = own;
    const char *colon = strchr(spec, ':');
    char variant[64];
    snprintf(variant, sizeof variant, "%.*s", colon ? (int)(colon - spec) : 5, colon ? spec : "split");
    const char *plan = colon ? colon + 1 : spec;
    bool best = !strcmp(plan, FB_SEARCH_NAME);
    record *c = fb_calloc(1, sizeof *c);
    c->shown.fraction = NAN;
    c->shown.state = FB_COLUMN_READY;
    if (s->columns.n == MOST_COLUMNS || !make_plan(s, c, variant, best ? "none" : plan, err)) {
        free_column(c);
        return -1;
    }
    FB_VEC_PUSH(&s->columns, c);
    if (best) begin_search(s, c);
    return s->columns.n - 1;
}

int fb_session_columns(const fb_session *s)
{
    return s->columns.n;
}

const fb_column *fb_session_column(const fb_session *s, int i)
{
    return &s->columns.at[i]->shown;
}

void fb_session_drop_absent(fb_session *s)
{
    (void)s; /* no column of ours fails */
}

void fb_session_drop(fb_session *s, int i)
{
    free_column(s->columns.at[i]);
    memmove(s->columns.at + i, s->columns.at + i + 1, sizeof *s->columns.at * (size_t)(--s->columns.n - i));
    s->serial++;
}

void fb_session_move(fb_session *s, int from, int to)
{
    record *c = s->columns.at[from];
    s->columns.at[from] = s->columns.at[to];
    s->columns.at[to] = c;
    s->serial++;
}

int fb_session_duplicate(fb_session *s, int i)
{
    fb_str spec = {0};
    record *c = s->columns.at[i];
    fb_str_addf(&spec, "%s:%s", c->variant, strcmp(c->plan_name, "mine") ? c->plan_name : "none");
    int at = fb_session_add(s, fb_str_get(&spec), NULL);
    fb_str_free(&spec);
    return at;
}

bool fb_session_set_variant(fb_session *s, int i, const char *variant, fb_error *err)
{
    if (strcmp(variant, "split") && strcmp(variant, "combined"))
        return fb_fail(err, FB_ERR_USAGE, "no variant \"%s\"", variant);
    return make_plan(s, s->columns.at[i], variant, s->columns.at[i]->plan_name, err);
}

bool fb_session_set_device(fb_session *s, int i, const char *device, fb_error *err)
{
    (void)s;
    (void)i;
    return !strcmp(device, "host") || fb_fail(err, FB_ERR_UNAVAILABLE, "no device \"%s\" here", device);
}

bool fb_session_set_plan(fb_session *s, int i, const char *plan_name, fb_error *err)
{
    record *c = s->columns.at[i];
    if (!plan_it(s, c, plan_name, err)) return false;
    if (!c->shown.searching) edited(s, c);
    return true;
}

bool fb_session_preset(const fb_session *s, int i, fb_preset_use *out, fb_error *err)
{
    fb_error badly = {0};
    if (fb_preset_parse(s->columns.at[i]->plan_name, out, &badly)) return true;
    return fb_fail(err, FB_ERR_USAGE, "plan %s is not made by a preset", s->columns.at[i]->plan_name);
}

fb_steps *fb_session_steps(const fb_session *s, int i, const fb_preset_use *use, fb_error *err)
{
    fb_steps *steps = NULL;
    fb_plan_free(fb_preset_make(use, s->columns.at[i]->planner, &steps, err));
    return steps;
}

bool fb_session_search(fb_session *s, int i, fb_error *err)
{
    return fb_session_set_plan(s, i, FB_SEARCH_NAME, err);
}

bool fb_session_set_param(fb_session *s, const char *name, const json_t *value, fb_error *err)
{
    if (strcmp(name, "batch_size")) return fb_fail(err, FB_ERR_USAGE, "no parameter \"%s\"", name);
    if (!json_is_integer(value)) return fb_fail(err, FB_ERR_USAGE, "batch_size takes a whole number");
    json_decref(s->batch);
    s->batch = json_integer(json_integer_value(value));
    fb_graph *old[VARIANTS] = {s->graphs[0], s->graphs[1]};
    build_graphs(s);
    for (int i = 0; i < s->columns.n; i++) {
        char plan[64], variant[64];
        record *c = s->columns.at[i];
        snprintf(plan, sizeof plan, "%s", strcmp(c->plan_name, "mine") ? c->plan_name : "none");
        snprintf(variant, sizeof variant, "%s", c->variant);
        make_plan(s, c, variant, plan, NULL);
        edited(s, c);
    }
    for (int v = 0; v < VARIANTS; v++)
        if (old[v]) fb_graph_free(old[v]);
    return true;
}

/* ---- edits ----------------------------------------------------------------------------------------------------------
 */

fb_verdict fb_session_try(const fb_session *s, int column, const fb_edit *edit, bool repeated)
{
    const fb_plan *plan = s->columns.at[column]->shown.plan;
    return repeated ? fb_plan_try_repeated(plan, edit, NULL) : fb_plan_try(plan, edit, NULL);
}

fb_verdict fb_session_edit(fb_session *s, int column, const fb_edit *edit, bool repeated)
{
    record *c = s->columns.at[column];
    fb_plan *result = NULL;
    fb_verdict v =
        repeated ? fb_plan_try_repeated(c->shown.plan, edit, &result) : fb_plan_try(c->shown.plan, edit, &result);
    if (!result) return v;
    fb_history_push(c->history, result, "an edit");
    fb_free(c->plan_name);
    c->plan_name = fb_strdup("mine");
    edited(s, c);
    return v;
}

const char *fb_session_undo(fb_session *s, int column)
{
    record *c = s->columns.at[column];
    const char *what = fb_history_undo(c->history);
    if (what) edited(s, c);
    return what;
}

const char *fb_session_redo(fb_session *s, int column)
{
    record *c = s->columns.at[column];
    const char *what = fb_history_redo(c->history);
    if (what) edited(s, c);
    return what;
}

/* Nothing is kept: each case of the tests begins anew. */
json_t *fb_session_keep(const fb_session *s, int i)
{
    (void)s;
    (void)i;
    return NULL;
}

int fb_session_restore(fb_session *s, const json_t *kept, int at, fb_error *err)
{
    (void)s;
    (void)kept;
    (void)at;
    fb_fail(err, FB_ERR_SYSTEM, "nothing is kept here");
    return -1;
}

bool fb_session_save_plan(const fb_session *s, int column, const char *path, fb_error *err)
{
    (void)s;
    (void)column;
    return fb_fail(err, FB_ERR_SYSTEM, "%s: nothing is saved here", path);
}

/* ---- measuring ------------------------------------------------------------------------------------------------------
 */

void fb_session_measure(fb_session *s, const int *columns, int n)
{
    for (int i = 0; i < n; i++) {
        record *c = s->columns.at[columns[i]];
        c->wanted = c->shown.searching;
        if (c->wanted) continue;
        c->shown.state = FB_COLUMN_MEASURING;
        c->until = now_ms() + MEASURE_MS;
        snprintf(c->shown.progress, sizeof c->shown.progress, "sampling");
        c->shown.fraction = 0.5;
    }
    s->serial++;
}

void fb_session_compare(fb_session *s, int a, int b)
{
    const int both[] = {a, b};
    fb_session_measure(s, both, 2);
}

void fb_session_predict(fb_session *s, const char *puzzle, const char *chosen, double guess)
{
    (void)s, (void)puzzle, (void)chosen, (void)guess;
}

void fb_session_cancel(fb_session *s)
{
    fb_session_stop_experiment(s);
    for (int i = 0; i < s->columns.n; i++) {
        fb_column *c = &s->columns.at[i]->shown;
        if (c->state == FB_COLUMN_MEASURING || c->searching) c->state = FB_COLUMN_READY;
        c->searching = false;
    }
    s->serial++;
}

/* 10 µs a launch, 1 % either way, so that plans of as many launches are the same. */
static fb_report *make_up(const record *c)
{
    fb_report *r = fb_report_new();
    bool foreign = !c->shown.plan;
    int groups = foreign ? 2 : fb_plan_groups(c->shown.plan);
    double us = 10.0 * groups;
    r->variant = fb_arena_strdup(r->arena, c->variant);
    r->launches = groups;
    r->source = foreign ? FB_SOURCE_RECORDED : FB_SOURCE_MEASURED;
    r->wall_us = (fb_stat){us, us * 0.99, us * 1.01, 40};
    r->device_us = (fb_stat){us * 0.8, us * 0.7, us * 0.9, 40};
    if (!strcmp(c->variant, "combined")) r->device_us.median = us * 1.2; /* timed one by one, it took longer */
    r->cold_us = (fb_stat){us * 2, us * 1.9, us * 2.1, 20};
    r->gap_us = us * 0.2;
    r->floor_us = c->shown.predicted.floor_us;
    r->floor_guessed = c->shown.predicted.floor_guessed;
    r->bytes_read = (double)c->shown.predicted.bytes_read;
    r->bytes_written = (double)c->shown.predicted.bytes_written;
    r->measured_read = r->bytes_read * 2;
    r->error = (fb_error_report){.max_abs = 1e-7, .max_rel = 1e-7, .bound = 0.3, .ok = true};
    r->compile_ms = 12;
    r->n_kernels = groups;
    r->kernels = FB_NEW_ARRAY(r->arena, fb_kernel_report, groups);
    for (int i = 0; i < groups; i++)
        r->kernels[i] =
            (fb_kernel_report){.name = foreign ? "void at::native::vectorized_kernel<4, float>(int)" : "kernel",
                               .source = r->source,
                               .family = "reduce",
                               .count = 1,
                               .device_us = {8, 7, 9, 40},
                               .bytes_read = 1 << 17,
                               .measured_read = NAN,
                               .measured_written = NAN,
                               .occupancy = 0.75,
                               .registers = 32 + i,
                               .shared_bytes = -1,
                               .spill_bytes = 0,
                               .group = foreign ? FB_NONE : i};
    return r;
}

void fb_session_trace(fb_session *s, bool metrics)
{
    s->traced = metrics;
}

/* What a device that is sampled tells of two runs: busy while a launch runs, reading more in every launch, writing
 * half as much, never with its tensor cores, and with an occupancy that it knows for the second run alone. */
static void sampled(fb_metric_log *m, int launches, double step)
{
    enum { SAMPLES = 240, RUNS = 2, METRICS = 5 };
    static double at_us[SAMPLES], value[SAMPLES * METRICS], run_us[2 * RUNS];
    *m = (fb_metric_log){.n_metrics = METRICS,
                         .metric = {"SM active", "DRAM read", "DRAM write", "tensor pipe", "warp occupancy"},
                         .n = SAMPLES,
                         .n_runs = RUNS,
                         .at_us = at_us,
                         .value = value,
                         .run_us = run_us};
    const double run = launches * step, every = RUNS * run / SAMPLES;
    for (int i = 0; i < RUNS; i++) run_us[2 * i] = i * run, run_us[2 * i + 1] = (i + 1) * run;
    for (int k = 0; k < SAMPLES; k++) {
        double *v = value + (size_t)k * METRICS, at = fmod(k * every, run), in = fmod(at, step);
        at_us[k] = k * every;
        v[0] = in < 2 ? 0 : 0.97;
        v[1] = in < 2 ? 0 : 0.9 * (floor(at / step) + 1) / launches;
        v[2] = v[1] / 2;
        v[3] = 0;
        v[4] = k < SAMPLES / RUNS ? NAN : in < 2 ? 0 : 0.5;
    }
}

/* Every launch takes 8 µs, 2 µs after the one before, and its call 1 µs. */
const fb_timeline *fb_session_timeline(const fb_session *s, int i, fb_error *err)
{
    enum { MOST = 64, STEP = 10 };
    static fb_span spans[MOST];
    static const char *names[] = {"kernel"};
    static fb_timeline t;
    const record *c = s->columns.at[i];
    int n = c->report ? (int)c->report->launches : 0;
    if (!s->traced || c->shown.state != FB_COLUMN_DONE || n > MOST) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "no run was traced");
        return NULL;
    }
    for (int k = 0; k < n; k++)
        spans[k] = (fb_span){0, STEP * k + 2, STEP * k + STEP, STEP * k, STEP * k + 1, 7, FB_LANE_KERNEL};
    t = (fb_timeline){.n_names = 1, .names = names, .n_spans = n, .spans = spans};
    sampled(&t.metrics, n, STEP);
    return &t;
}

fb_report *fb_session_report(const fb_session *s, int i)
{
    char hex[33];
    const record *c = s->columns.at[i];
    json_t *value = fb_report_to_json(c->report);
    fb_report *r = fb_report_from_json(value, NULL);
    json_decref(value);
    r->script = fb_arena_strdup(r->arena, s->path);
    r->plan = fb_arena_strdup(r->arena, c->plan_name);
    r->device = fb_arena_strdup(r->arena, "host");
    r->params = json_pack("{s:O}", "batch_size", s->batch);
    r->graph_hash = fb_arena_strdup(r->arena, fb_hash_hex(c->shown.graph->hash, hex));
    return r;
}

/* ---- the experiment: eager is measured, max predicted, and its last case fails --------------------------------------
 */

enum { CASES = 6, CASE_MS = 20, HANGS_AT = 2 };

bool fb_session_experiment(fb_session *s, const fb_experiment_hooks *hooks, fb_error *err)
{
    if (s->experiment.runs) return fb_fail(err, FB_ERR_INPUT, "the experiment is running already");
    json_t *lines = json_pack("{s:s, s:s, s:s, s:s}", "x", "batch_size", "y", "us", "by", "plan", "log", "xy"),
           *ranking = json_pack("{s:s, s:s}", "y", "rows_per_s", "high", "fast");
    s->experiment.hooks = *hooks;
    s->experiment.runs = true;
    s->experiment.stops = false;
    s->experiment.given = 0;
    s->experiment.error = (fb_error){0};
    s->experiment.until = now_ms() + CASE_MS;
    hooks->plot(hooks->ctx, lines, NULL);
    hooks->plot(hooks->ctx, ranking, NULL);
    json_decref(lines);
    json_decref(ranking);
    s->serial++;
    return true;
}

bool fb_session_experiment_runs(const fb_session *s)
{
    return s->experiment.runs;
}

const fb_error *fb_session_experiment_error(const fb_session *s)
{
    return &s->experiment.error;
}

const fb_column *fb_session_experiment_column(const fb_session *s)
{
    fb_column *c = (fb_column *)&s->experiment.measured;
    *c = (fb_column){.variant = "split",
                     .plan_name = s->experiment.given < CASES / 2 ? "eager" : "max",
                     .device = "host",
                     .progress = "sampling",
                     .fraction = 0.5};
    return s->experiment.runs ? c : NULL;
}

void fb_session_stop_experiment(fb_session *s)
{
    if (!s->experiment.runs) return;
    s->experiment.runs = false;
    fb_fail(&s->experiment.error, FB_ERR_CANCELLED, "the experiment was stopped");
    s->serial++;
}

static void give_row(fb_session *s)
{
    const fb_experiment_hooks *h = &s->experiment.hooks;
    int i = s->experiment.given++, batch = 8 << i % 3;
    bool max = i >= CASES / 2, fails = i == CASES - 1;
    double us = (max ? 10.0 : 25.0) * batch;
    json_t *which = json_pack("{s:s, s:s, s:{s:i}}", "variant", "split", "plan", max ? "max" : "eager", "params",
                              "batch_size", batch),
           *row = fails ? json_pack("{s:s}", "failed", "no room for it")
                        : json_pack("{s:f, s:i, s:f, s:f}", "us", us, "launches", max ? 2 : 9, "rows_per_s",
                                    batch / us * 1e6 + i, "fast", batch / us * 1.1e6),
           *report =
               fails ? json_pack("{s:s, s:s}", "failed", "no room for it", "failed_kind", "limit") : json_object();
    h->answered(h->ctx, report);
    h->row(h->ctx, which, row, max ? FB_SOURCE_PREDICTED : FB_SOURCE_MEASURED, NULL);
    json_decref(which);
    json_decref(row);
    json_decref(report);
    s->serial++;
}

static void pump_experiment(fb_session *s)
{
    bool hangs = !strcmp(s->path ? s->path : "", "endless") && s->experiment.given == HANGS_AT;
    if (!s->experiment.runs || hangs || now_ms() < s->experiment.until) return;
    s->experiment.until = now_ms() + CASE_MS;
    if (s->experiment.given < CASES) {
        give_row(s);
        return;
    }
    s->experiment.runs = false;
    s->serial++;
}

void fb_session_pump(fb_session *s)
{
    pump_experiment(s);
    for (int i = 0; i < s->columns.n; i++) {
        record *c = s->columns.at[i];
        if (c->shown.searching && now_ms() >= c->until) {
            c->shown.searching = false;
            plan_it(s, c, "max", NULL);
            fb_free(c->plan_name);
            c->plan_name = fb_strdup(FB_SEARCH_NAME);
            edited(s, c);
            if (c->wanted) fb_session_measure(s, &i, 1);
        }
        if (c->shown.state != FB_COLUMN_MEASURING || now_ms() < c->until) continue;
        c->shown.state = FB_COLUMN_DONE;
        bool held = !c->report && !strcmp(s->path, "unchecked");
        fb_report_free(c->report);
        c->report = make_up(c);
        if (held) c->report->error = fb_error_checking;
        follow(s, c);
    }
}

bool fb_session_busy(const fb_session *s)
{
    if (s->experiment.runs) return true;
    for (int i = 0; i < s->columns.n; i++)
        if (s->columns.at[i]->shown.state == FB_COLUMN_MEASURING || s->columns.at[i]->shown.searching) return true;
    return false;
}

int fb_session_poll(const fb_session *s, struct pollfd out[FB_SESSION_FDS], int *timeout_ms)
{
    (void)out;
    *timeout_ms = fb_session_busy(s) ? 10 : -1;
    return 0;
}

void fb_session_set_auto(fb_session *s, bool on)
{
    s->automatic = on;
    s->serial++;
}

bool fb_session_auto(const fb_session *s)
{
    return s->automatic;
}

/* Each element of a node is its place in row-major order; the last one is off by a half. */
void fb_session_look(fb_session *s, int i, const char *node)
{
    record *c = s->columns.at[i];
    fb_free(s->looked_at);
    s->looked_at = fb_strdup(node);
    c->shown.state = FB_COLUMN_MEASURING;
    bool ends = strcmp(s->path, "endless") != 0;
    c->until = now_ms() + (ends ? MEASURE_MS : NEVER_MS);
    snprintf(c->shown.progress, sizeof c->shown.progress, "comparing");
    s->serial++;
}

const fb_values *fb_session_values(const fb_session *s, int i, fb_error *err)
{
    static fb_values *made;
    const fb_graph *g = s->columns.at[i]->shown.graph;
    fb_id node = s->looked_at && g ? fb_graph_find(g, s->looked_at) : FB_NONE;
    if (node == FB_NONE) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "nothing was asked for");
        return NULL;
    }
    int64_t n = fb_shape_elements(&g->nodes[node].shape);
    float *values = fb_calloc((size_t)n, sizeof *values);
    for (int64_t k = 0; k < n; k++) values[k] = (float)k;
    fb_values_free(made);
    made = fb_values_of(g, node, "stored by kernel", values);
    fb_free(values);
    made->compared = n;
    made->right = true;
    made->max_abs = 0.5;
    made->max_rel = 0.001;
    made->bound = 0.25;
    made->n_worst = 1;
    made->worst[0] = (fb_value_error){n - 1, (double)n - 1, (double)n - 1.5};
    return made;
}

/* ---- kernels in files: the real session's tests have them
 * ------------------------------------------------------------
 */

const char *fb_session_folder(const fb_session *s, char to[PATH_MAX])
{
    (void)s;
    (void)to;
    return NULL;
}

bool fb_session_eject_path(const fb_session *s, int column, int group, const char *in, char to[PATH_MAX], fb_error *err)
{
    (void)s;
    (void)column;
    (void)group;
    (void)in;
    (void)to;
    return fb_fail(err, FB_ERR_UNAVAILABLE, "nothing is ejected here");
}

int fb_session_eject(fb_session *s, int column, int group, const char *path, bool replace, fb_error *err)
{
    (void)s;
    (void)column;
    (void)group;
    (void)replace;
    fb_fail(err, FB_ERR_UNAVAILABLE, "%s: nothing is ejected here", path);
    return -1;
}

int fb_session_kernel_files(const fb_session *s, fb_arena *arena, const char ***out)
{
    (void)s;
    *out = FB_NEW_ARRAY(arena, const char *, 0);
    return 0;
}

int fb_session_kernels_saved(fb_session *s)
{
    (void)s;
    return 0;
}

const char *fb_session_untrusted(fb_session *s, fb_arena *arena, const char **hash)
{
    (void)s;
    (void)arena;
    *hash = NULL;
    return NULL;
}

void fb_session_trust(fb_session *s, const char *hash)
{
    (void)s;
    (void)hash;
}

void fb_session_own_kernel(fb_session *s, const char *path)
{
    (void)s;
    (void)path;
}

/* ---- the puzzle -----------------------------------------------------------------------------------------------------
 */

bool fb_session_ask(fb_session *s, const fb_why *why, fb_error *err)
{
    (void)err;
    s->answer.state = FB_ANSWER_KNOWN;
    fb_grade_of(s->info.puzzle, why, &s->answer.grade);
    if (s->answer.grade.state == FB_GRADE_UNEXPLAINED) /* most of what is made up is */
        s->answer.grade = (fb_grade){FB_GRADE_KNOWN, false, FB_WHY_BYTES, 2};
    s->serial++;
    return true;
}

const fb_answer *fb_session_answer(const fb_session *s)
{
    return &s->answer;
}

const char *fb_session_default_device(const fb_session *s)
{
    return s->path && !strcmp(s->path, "recorded") ? "replay:h200" : "host";
}

const fb_machine *fb_session_machine(const fb_session *s, const char *device)
{
    (void)device;
    return &s->machine;
}

const json_t *fb_session_devices(const fb_session *s)
{
    (void)s;
    return NULL;
}

bool fb_session_calibrating(const fb_session *s, const char *device)
{
    (void)s;
    (void)device;
    return false;
}

int64_t fb_session_calibrate(fb_session *s, const char *device, fb_error *err)
{
    (void)s;
    fb_fail(err, FB_ERR_UNAVAILABLE, "%s is not calibrated here", device);
    return 0;
}

/* ---- lessons: there are none here ---- */

void fb_session_close(fb_session *s)
{
    (void)s;
}

void fb_session_give(fb_session *s, const json_t *params)
{
    (void)s;
    (void)params;
}

fb_script_info *fb_session_take_lesson(fb_session *s)
{
    (void)s;
    return NULL;
}

void fb_session_peek(fb_session *s, const char *path)
{
    (void)s;
    (void)path;
}

bool fb_session_peeked(fb_session *s, fb_script_info **info, fb_error *err)
{
    (void)s;
    (void)info;
    (void)err;
    return false;
}

void fb_script_info_free(fb_script_info *info)
{
    (void)info;
}
