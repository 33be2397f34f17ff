/* Loops in clusters of blocks, on an emulated GPU: cells of several kinds and sizes against the interpreter, watched
 * for races; what is refused, and says why. */
#include "unit/emulate_cuda.h"
#include "unit/scratch.h"
#include "unit/script_harness.h"
#include "unit/turn.h"

#include "decide/preset.h"
#include "plan/loops.h"

enum { LIMIT_MS = 180000 };

#define LSTM(N, H, TYPE, WHAT)                                                                                         \
    "local N, H = " #N ", " #H "\n"                                                                                    \
    "local x, w = g:input('x', {3, N, 4 * H}, '" TYPE "'), g:param('w', {4 * H, H}, '" TYPE                            \
    "', {low = -0.2, high = 0.2})\n"                                                                                   \
    "local a, b = g:input('a', {N, H}, '" TYPE "'), g:input('b', {N, H})\n"                                            \
    "local s, ys = g:scan({x}, {a, b}, function(r, h, c)\n"                                                            \
    "local i, f, z, o = table.unpack((r + h:matmul(w:t())):to('f32'):chunk(4, 1))\n" WHAT                              \
    "local d = f:sigmoid() * c + i:sigmoid() * z:tanh()\n"                                                             \
    "local k = (o:sigmoid() * d:tanh()):to('" TYPE "') return {k, d}, {k} end)\n"                                      \
    "return s[1], s[2], ys[1]"

#define GRU(N, H, TYPE)                                                                                                \
    "local N, H = " #N ", " #H "\n"                                                                                    \
    "local x, w = g:input('x', {3, N, 3 * H}, '" TYPE "'), g:param('w', {3 * H, H}, '" TYPE                            \
    "', {low = -0.2, high = 0.2})\n"                                                                                   \
    "local b = g:param('b', {3 * H}, '" TYPE "')\n"                                                                    \
    "local s, ys = g:scan({x}, {g:input('h', {N, H}, '" TYPE "')}, function(r, h)\n"                                   \
    "local xr, xz, xn = table.unpack(r:chunk(3, 1))\n"                                                                 \
    "local hr, hz, hn = table.unpack((h:matmul(w:t()) + b):chunk(3, 1))\n"                                             \
    "local z = (xz + hz):sigmoid()\n"                                                                                  \
    "local n = (xn + (xr + hr):sigmoid() * hn):tanh()\n"                                                               \
    "local k = n + z * (h - n) return {k}, {k} end)\n"                                                                 \
    "return s[1], ys[1]"

#define MINIMAL(N, H, TYPE)                                                                                            \
    "local x = g:input('x', {5, " #N ", " #H "}, '" TYPE "')\n"                                                        \
    "local w = g:param('w', {" #H ", " #H "}, '" TYPE "', {low = -0.2, high = 0.2})\n"                                 \
    "local first = g:zeros({" #N ", " #H "}, '" TYPE "')\n"                                                            \
    "return (g:scan({x}, {first}, function(r, h) return {(r + h:matmul(w)):tanh()} end))[1]"

/* `says`: a part of the sentence; a body that runs in clusters has its shape in the kernel, too. */
static const struct {
    const char *what, *body;
    const char
        *cell[2]; /* of compute capability 9, and of one that has no products of whole warpgroups; NULL: is not run */
    const char *says;
    int tile_n; /* columns of a block, all strips: small ones want no cluster by themselves */
    int tile_m; /* rows of a cluster: with many, products are those of whole warpgroups */
} cases[] = {
    {"lstm",
     LSTM(9, 128, "f16", ""),
     {"fb_wide_recurrence<fb_f16, 8, 4, 128, 8, 16, 1, 8>", "fb_recurrence<fb_f16, 8, 4, 128, 8, 16,"},
     "each cluster of 8 blocks takes 8 of 9 rows",
     64,
     0},
    {"rows and columns that do not come out even",
     LSTM(13, 44, "bf16", ""),
     {"fb_wide_recurrence<fb_bf16, 4, 4, 44, 8, 16, 1, 3>", "fb_recurrence<fb_bf16, 4, 4, 44, 8, 16,"},
     "of 13 rows",
     64,
     0},
    {"peepholes",
     LSTM(8, 40, "f16", "i = i + c * 0.5 f = f + c * 0.25\n"),
     {"fb_wide_recurrence<fb_f16, 4, 4, 40, 8, 16, 1, 3>", "fb_recurrence<fb_f16, 4, 4, 40,"},
     "each cluster of 4 blocks",
     64,
     0},
    {"a minimal form of one gate, no output a step",
     "local x, w = g:input('x', {5, 9, 24}, 'f16'), g:param('w', {24, 24}, 'f16', {low = -0.2, high = 0.2})\n"
     "return (g:scan({x}, {g:zeros({9, 24}, 'f16')}, function(r, h) return {(r + h:matmul(w)):tanh()} end))[1]",
     {"fb_recurrence<fb_f16, 2, 1, 24,", "fb_recurrence<fb_f16, 2, 1, 24,"},
     "each cluster of 2 blocks",
     16,
     0},
    {"gru",
     "local N, H = 10, 112\n"
     "local x, w = g:input('x', {3, N, 3 * H}, 'f16'), g:param('w', {3 * H, H}, 'f16', {low = -0.2, high = 0.2})\n"
     "local b = g:param('b', {3 * H}, 'f16')\n"
     "local s, ys = g:scan({x}, {g:input('h', {N, H}, 'f16')}, function(r, h)\n"
     "local xr, xz, xn = table.unpack(r:chunk(3, 1))\n"
     "local hr, hz, hn = table.unpack((h:matmul(w:t()) + b):chunk(3, 1))\n"
     "local z = (xz + hz):sigmoid()\n"
     "local n = (xn + (xr + hr):sigmoid() * hn):tanh()\n"
     "local k = n + z * (h - n) return {k}, {k} end)\n"
     "return s[1], ys[1]",
     {"fb_wide_recurrence<fb_f16, 8, 3, 112, 8, 16, 1, 7>", "fb_recurrence<fb_f16, 8, 3, 112,"},
     "each cluster of 8 blocks",
     0,
     0},
    {"no cluster is as good",
     LSTM(20, 32, "f16", ""),
     {"fb_wide_recurrence<fb_f16, 1, 4, 32, 8, 32, 1, 2>", "fb_recurrence<fb_f16, 1, 4, 32,"},
     "each cluster of 1 block",
     0,
     0},
    {"many rows",
     LSTM(37, 64, "f16", ""),
     {"fb_recurrence<fb_f16, 2, 4, 64, 32, 32, 4, 1, 4>"},
     "takes 32 of 37 rows",
     128,
     32},
    {"of three strips, in bf16, with columns that do not come out even",
     "local N, H = 33, 72\n"
     "local x, w = g:input('x', {4, N, 3 * H}, 'bf16'), g:param('w', {3 * H, H}, 'bf16', {low = -0.2, high = 0.2})\n"
     "local s, ys = g:scan({x}, {g:input('h', {N, H}, 'bf16')}, function(r, h)\n"
     "local xr, xz, xn = table.unpack(r:chunk(3, 1))\n"
     "local hr, hz, hn = table.unpack(h:matmul(w:t()):chunk(3, 1))\n"
     "local z = (xz + hz):sigmoid()\n"
     "local n = (xn + (xr + hr):sigmoid() * hn):tanh()\n"
     "local k = n + z * (h - n) return {k}, {k} end)\n"
     "return s[1], ys[1]",
     {"fb_wide_recurrence<fb_bf16, 8, 3, 72, 16, 16, 1, 5>"},
     "takes 16 of 33 rows",
     0,
     16},
    {"of one strip, and a state of its own beside",
     "local x, w = g:input('x', {3, 20, 256}, 'f16'), g:param('w', {256, 256}, 'f16', {low = -0.1, high = 0.1})\n"
     "local s = g:scan({x}, {g:zeros({20, 256}, 'f16'), g:input('a', {20, 256})}, function(r, h, a)\n"
     "local q = (r + h:matmul(w)):to('f32')\n"
     "local d = q * 0.5 + a * 0.25 return {d:tanh():to('f16'), d} end)\n"
     "return s[1], s[2]",
     {"fb_wide_recurrence<fb_f16, 4, 1, 256, 8, 64,"},
     "takes 8 of 20 rows",
     0,
     0},
    {"of two strips",
     "local x, w = g:input('x', {3, 20, 512}, 'f16'), g:param('w', {256, 512}, 'f16', {low = -0.1, high = 0.1})\n"
     "local s = g:scan({x}, {g:zeros({20, 256}, 'f16'), g:input('a', {20, 256})}, function(r, h, a)\n"
     "local q = (r + h:matmul(w)):to('f32')\n"
     "local y, z = table.unpack(q:chunk(2, 1))\n"
     "local d = y * z + a * 0.25 return {d:tanh():to('f16'), d} end)\n"
     "return s[1], s[2]",
     {"fb_wide_recurrence<fb_f16, 8, 2, 256, 8, 32,"},
     "takes 8 of 20 rows",
     0,
     0},
    /* in single precision */
    {"f32: lstm", LSTM(9, 128, "f32", ""), {"fb_recurrence_f32<8, 4, 128, "}, "each cluster of 8 blocks takes", 64, 0},
    {"f32: sets of rows, columns that do not come out even",
     LSTM(20, 60, "f32", ""),
     {"fb_recurrence_f32<"},
     "each cluster of 4 blocks takes 32 of 20 rows",
     64,
     32},
    {"f32: sets of four rows", LSTM(17, 66, "f32", ""), {"fb_recurrence_f32<"}, "takes 16 of 17 rows", 0, 16},
    {"f32: gru", GRU(10, 112, "f32"), {"fb_recurrence_f32<"}, "each cluster of ", 0, 0},
    {"f32: a minimal form", MINIMAL(9, 28, "f32"), {"fb_recurrence_f32<"}, "each cluster of 2 blocks", 16, 0},
    {"f32: peepholes",
     LSTM(8, 60, "f32", "i = i + c * 0.5 f = f + c * 0.25\n"),
     {"fb_recurrence_f32<4, 4, 60,"},
     "each cluster of 4 blocks",
     64,
     0},
    {"f32: weights that registers do not hold",
     LSTM(5, 256, "f32", ""),
     {"fb_recurrence_f32<4, 4, 256, "},
     "each cluster of 4 blocks",
     256,
     0},
    {"what is too wide for a register is in memory at each step",
     "local N, H = 9, 128\n"
     "local x, w = g:input('x', {3, N, H}, 'f16'), g:param('w', {H, H}, 'f16', {low = -0.2, high = 0.2})\n"
     "local s = g:scan({x}, {g:input('h', {N, H}, 'f16'), g:zeros({N, H}, 'f64')}, function(r, h, a)\n"
     "local d = (r + h:matmul(w)):to('f64') + a * 0.5 return {d:to('f32'):tanh():to('f16'), d} end)\n"
     "return s[1], s[2]",
     {"fb_recurrence<fb_f16, "},
     "each cluster of ",
     32,
     0},
    /* refused */
    {"tf32",
     "local x, w = g:input('x', {3, 20, 40}), g:param('w', {40, 40})\n"
     "return (g:scan({x}, {g:zeros({20, 40})}, function(r, h)\n"
     "return {(r + h:matmul(w, { precision = 'tf32' })):tanh()} end))[1]",
     {NULL},
     "multiplies f32 as tf32, and clusters keep weights of 16 bits or f32 in IEEE precision",
     0,
     0},
    {"the inputs' product in the same sum",
     "local x, w, u = g:input('x', {3, 20, 40}, 'f16'), g:param('w', {40, 40}, 'f16'), g:param('u', {40, 40}, 'f16')\n"
     "return (g:scan({x}, {g:zeros({20, 40}, 'f16')}, function(r, h)\n"
     "return {(r:matmul(u) + h:matmul(w)):tanh()} end))[1]",
     {NULL},
     "multiply the inputs of all steps before the loop",
     0,
     0},
    {"what is multiplied is made of the state",
     "local x, w = g:input('x', {3, 16, 40}, 'f16'), g:param('w', {40, 40}, 'f16')\n"
     "return (g:scan({x}, {g:zeros({16, 40}, 'f16')}, function(r, h)\n"
     "return {(r + (h * 0.5):matmul(w)):tanh()} end))[1]",
     {NULL},
     "is not a state as it was stored",
     0,
     0},
    {"a row of the state is read elsewhere",
     "local x, w = g:input('x', {3, 16, 40}, 'f16'), g:param('w', {40, 40}, 'f16')\n"
     "return (g:scan({x}, {g:zeros({16, 40}, 'f16')}, function(r, h)\n"
     "return {(r + h:matmul(w) + h:flip(1)):tanh()} end))[1]",
     {NULL},
     "is read where other blocks store it",
     0,
     0},
    {"weights that do not fit", LSTM(8, 1536, "f16", ""), {NULL}, "do not hold", 0, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static fb_script *start(void)
{
    const char *path = in_scratch("script.lua");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("local fb = require 'fusebox'\nreturn fb.script { variants = {\n", f);
    for (int i = 0; i < CASES; i++) fprintf(f, "v%d = function(g)\n%s\nend,\n", i, cases[i].body);
    fputs("} }\n", f);
    assert_int_equal(fclose(f), 0);
    return script_of(path, LIMIT_MS);
}

static fb_graph *build(fb_script *s, int number)
{
    char variant[16];
    fb_script_event e;
    snprintf(variant, sizeof variant, "v%d", number);
    fb_script_build(s, variant, NULL);
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind != FB_SCRIPT_GRAPH) fail_msg("%s: %s", cases[number].what, e.error.text);
    return e.graph;
}

/* Takes the plan; the same one when the edit is refused. */
static fb_plan *edited(fb_plan *plan, const fb_edit *edit)
{
    fb_plan *next = NULL;
    fb_plan_try(plan, edit, &next);
    if (!next) return plan;
    fb_plan_free(plan);
    return next;
}

/* The loop as one kernel, all that may be fused fused into its product. */
static fb_plan *whole_loop(fb_planner *planner, int tile_n, int tile_m)
{
    const struct {
        fb_knob knob;
        int value;
    } knobs[] = {{FB_KNOB_TILE_N, tile_n}, {FB_KNOB_TILE_M, tile_m}};
    fb_error err;
    const fb_graph *g = fb_planner_graph(planner);
    const fb_deps *d = fb_planner_deps(planner);
    fb_plan *plan = fb_preset_find("max")->make(planner, &err);
    for (int turn = 0; turn < 2; turn++)
        for (fb_id i = 0; i < g->n_nodes; i++)
            if (g->nodes[i].op == (turn ? FB_OP_LOOP : FB_OP_MATMUL))
                plan = edited(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE});
    for (int i = 0; i < d->n_edges; i++)
        plan = edited(plan, &(fb_edit){.kind = FB_EDIT_FUSE, .a = d->edges[i].producer, .b = d->edges[i].consumer});
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++)
        for (fb_id i = 0; i < g->n_nodes && knobs[k].value; i++)
            if (g->nodes[i].op == FB_OP_MATMUL)
                plan = edited(plan,
                              &(fb_edit){.kind = FB_EDIT_KNOB, .a = i, .knob = knobs[k].knob, .value = knobs[k].value});
    return plan;
}

static const fb_kernel *loop_kernel(const fb_program *p)
{
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].merged) return &p->kernels[k];
    fail_msg("no loop is one kernel");
    return NULL;
}

/* A case, as program `number` of the unit that all are compiled in: to read the emulator takes as long as a kernel. */
typedef struct {
    const char *what;
    int number;
    fb_graph *g;
    fb_planner *planner;
    fb_plan *plan;
    fb_program *p;
} made;

static void made_free(made *m)
{
    fb_program_free(m->p);
    fb_plan_free(m->plan);
    fb_planner_free(m->planner);
    fb_graph_free(m->g);
}

static void check_run(unit *u, const made *m)
{
    char text[512], *storage;
    fb_error err;
    fb_interp *reference = fb_interp_run(m->g, &(fb_interp_options){.seed = 3, .bounds = true}, NULL, 0, &err);
    if (!reference) fail_msg("%s", err.text);
    void **buffers = run_program(u, m->number, m->p, m->g, 3, &storage);
    if (!check_program(m->p, buffers, m->g, reference, text))
        fail_msg("%s: %s\n%s", m->what, text, getenv("FB_KEEP") ? loop_kernel(m->p)->source : "");
    fb_free(storage);
    fb_free(buffers);
    fb_interp_free(reference);
}

/* What is said of a case, and its kernel's text; false where it is refused as a cluster's. */
static bool make_case(fb_script *s, int i, int newer, made *to)
{
    fb_machine m;
    fb_error err;
    fb_recurrence found;
    fb_str says = {0};
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.compute_major += newer;
    *to = (made){.what = cases[i].what, .g = build(s, i)};
    to->planner = fb_planner_new(to->g, &m);
    to->plan = whole_loop(to->planner, cases[i].tile_n, cases[i].tile_m);
    bool is = fb_plan_recurrence(to->plan, 1, &found, &says);
    if (is != (cases[i].cell[newer] != NULL) || !strstr(fb_str_get(&says), cases[i].says))
        fail_msg("%s: \"%s\"", cases[i].what, fb_str_get(&says));
    to->p = fb_lower(to->plan, &fb_target_cuda, &err);
    if (!to->p) fail_msg("%s: %s", cases[i].what, err.text);
    const fb_kernel *k = loop_kernel(to->p);
    assert_true(k->needs.warpgroups == (is && strstr(cases[i].cell[newer], "fb_wide_")));
    assert_true((k->needs.cluster > 0) == is && (strstr(k->source, "fb_meet_all();") == NULL) == is);
    if (is && !strstr(k->source, cases[i].cell[newer])) fail_msg("%s:\n%s", cases[i].what, k->source);
    fb_str_free(&says);
    return is;
}

static void run_cases(fb_script *s, int newer)
{
    made all[CASES];
    int n = 0;
    unit u = {0};
    for (int i = 0; i < CASES; i++) {
        if (newer && !cases[i].cell[newer]) continue;
        if (make_case(s, i, newer, &all[n]))
            all[n].number = unit_add_cuda(&u, all[n].p), n++;
        else
            made_free(&all[n]);
    }
    unit_emulate(&u);
    for (int i = 0; i < n; i++) {
        check_run(&u, &all[i]);
        made_free(&all[i]);
    }
    unit_free(&u);
}

static void loops_run_in_clusters_or_say_why_not(void **state)
{
    (void)state;
    if (!emulation_exists()) skip();
    fb_script *s = start();
    for (int newer = 0; newer < 2; newer++) run_cases(s, newer);
    fb_script_free(s);
}

static fb_program *program_of(const fb_graph *g, int number, int newer, fb_planner **planner, fb_plan **plan)
{
    fb_machine m;
    fb_error err;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.compute_major += newer;
    *planner = fb_planner_new(g, &m);
    *plan = whole_loop(*planner, cases[number].tile_n, cases[number].tile_m);
    fb_program *p = fb_lower(*plan, &fb_target_cuda, &err);
    if (!p) fail_msg("%s", err.text);
    return p;
}

static int number_of(const char *what)
{
    for (int i = 0; i < CASES; i++)
        if (strcmp(cases[i].what, what) == 0) return i;
    fail_msg("no case \"%s\"", what);
    return 0;
}

/* What orders the state's way round: each of these taken away is a race, or stops the kernel. With FB_TURN (turn.h) a
 * third of them is. */
static void what_orders_the_state_is_needed(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int newer;
        const char *in, *cut;
    } cuts[] = {
        {"peepholes", 1, "struct fb_recurrence", "fb_inbox_wait("},
        {"peepholes", 1, "struct fb_recurrence", "__syncwarp()"},
        {"peepholes", 1, "struct fb_recurrence", "fb_warps_meet<"},
        {"peepholes", 0, "struct fb_wide_recurrence", "fb_inbox_wait("},
        {"peepholes", 0, "struct fb_wide_recurrence", "__syncthreads()"},
        {"peepholes", 0, "fb_fetch(2);", "fb_copies_wait<1>();"},
        {"f32: lstm", 0, "struct fb_recurrence_f32", "fb_inbox_wait(inbox"},
        {"f32: lstm", 0, "struct fb_recurrence_f32", "fb_meet<"},
        {"f32: lstm", 0, "struct fb_recurrence_f32", "__syncwarp()"},
        {"f32: lstm", 0, "struct fb_recurrence_f32", "fb_inbox_wait(outbox"},
    };
    if (!emulation_exists() || !races_wanted()) skip();
    fb_script *s = start();
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        fb_planner *planner;
        fb_plan *plan;
        const int number = number_of(cuts[i].what);
        fb_graph *g = build(s, number);
        fb_program *p = program_of(g, number, cuts[i].newer, &planner, &plan);
        if (is_our_turn((unsigned)i)) {
            char *found = races_without(p, g, cuts[i].in, cuts[i].cut);
            if (!found) fail_msg("no race without %s in %s", cuts[i].cut, cuts[i].in);
            fb_free(found);
        } else {
            check_cut(p, cuts[i].in, cuts[i].cut);
        }
        fb_program_free(p);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
    fb_script_free(s);
}

/* A GPU from before clusters meets grid-wide, as before. */
static void older_gpus_meet_grid_wide(void **state)
{
    (void)state;
    fb_script *s = start();
    fb_machine m;
    fb_error err;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.compute_major = 8;
    fb_graph *g = build(s, 0);
    fb_planner *planner = fb_planner_new(g, &m);
    fb_plan *plan = whole_loop(planner, 0, 0);
    fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
    if (!p) fail_msg("%s", err.text);
    assert_true(!loop_kernel(p)->needs.cluster && strstr(loop_kernel(p)->source, "fb_meet_all();"));
    fb_program_free(p);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
    fb_script_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_run_in_clusters_or_say_why_not),
        cmocka_unit_test(what_orders_the_state_is_needed),
        cmocka_unit_test(older_gpus_meet_grid_wide),
    };
    return cmocka_run_group_tests_name("cluster", tests, make_scratch, remove_scratch);
}
