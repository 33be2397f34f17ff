/* Loops under many plans: generated, compiled and run, against the interpreter; and what may not be done with them. */
#include "unit/scratch.h"
#include "unit/script_harness.h"
#include "unit/turn.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "code/lower.h"
#include "decide/preset.h"
#include "device/replay/recording.h"
#include "measure/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_MS = 180000, RANDOM_PLANS = 6 };

static const struct {
    const char *name, *body;
} bodies[] = {
    /* the state read before it becomes the next one, and stacked as it was */
    {"accumulate", "local x = g:input('x', {T, 8, 5})\n"
                   "local s, ys = g:scan({x}, {g:zeros({8, 5})}, function(r, s) return {(s + r):tanh()}, {s} end)\n"
                   "return s[1], ys[1]"},
    /* a product of the state, both carried and stacked: two buffers that change places */
    {"recurrent", "local x, w = g:input('x', {T, 6, 8}), g:param('w', {8, 8})\n"
                  "local s, ys = g:scan({x}, {g:zeros({6, 8})}, function(r, s)\n"
                  "local h = (s:matmul(w) + r):tanh() return {h}, {h} end)\n"
                  "return s[1], ys[1]"},
    /* the next state is stacked too, twice; 12 bytes a step */
    {"stacked", "local x = g:input('x', {T, 3})\n"
                "local s, ys = g:scan({x}, {g:zeros({3})}, function(r, s)\n"
                "local c = s * 0.5 + r return {c}, {c, c, r} end)\n"
                "return s[1], ys[1], ys[2], ys[3]"},
    {"lstm", "local x, w = g:input('x', {T, 4, 24}, 'f16'), g:param('w', {6, 24}, 'f16')\n"
             "local s, ys = g:scan({x}, {g:zeros({4, 6}, 'f16'), g:zeros({4, 6})}, function(r, h, c)\n"
             "local i, f, z, o = table.unpack((r + h:matmul(w)):to('f32'):chunk(4, 1))\n"
             "local d = f:sigmoid() * c + i:sigmoid() * z:tanh()\n"
             "local k = (o:sigmoid() * d:tanh()):to('f16')\n"
             "return {k, d}, {k, d:sum(1)} end)\n"
             "return s[1], s[2], ys[1], ys[2]"},
    {"counter", "local x = g:input('x', {3, 5})\n"
                "return (g:loop(T, {x}, function(i, a) return a * 0.5 + i:to('f32') end))"},
    /* next states that no kernel makes */
    {"fibonacci", "local x = g:input('x', {4})\n"
                  "local a, b = g:loop(T, {x, x * 2}, function(i, a, b) return b, a + b end)\n"
                  "return a, b"},
    {"rotate", "local x = g:input('x', {4, 4})\n"
               "local a, b, c = g:loop(T, {x, x * 2, x * 3}, function(i, a, b, c) return b, c:t(), a end)\n"
               "return a, b, c"},
    {"same_twice", "local x = g:input('x', {7})\n"
                   "local a, b = g:loop(T, {x, x * 2}, function(i, a, b) local c = a * 0.5 + b return c, c end)\n"
                   "return a, b"},
    {"outside", "local x, k = g:input('x', {7}), g:input('k', {7})\n"
                "local a, b = g:loop(T, {x, x}, function(i, a, b) return k, a + b end)\n"
                "return a, b * 2"},
    {"nested", "local x = g:input('x', {T, 4, 3})\n"
               "local y, z = g:scan({x}, {g:zeros({3})}, function(r, s)\n"
               "local t, u = g:scan({r}, {s}, function(q, u) return {u * 0.5 + q}, {u * 2} end)\n"
               "return {t[1]:sin()}, {u[1]} end)\n"
               "return y[1], z[1]"},
    {"nested_counters", "local x = g:input('x', {5})\n"
                        "return (g:loop(T, {x}, function(i, a)\n"
                        "return (g:loop(3, {a}, function(k, b) return b * 0.5 + (i * 10 + k):to('f32') end)) end))"},
    {"assigned", "local x, w = g:input('x', {6, 4}), g:param('w', {4, 4})\n"
                 "g:loop(T, {}, function() g:assign(w, w - 0.1 * x:t():matmul(x:matmul(w))) end)"},
    {"read_before", "local x, w = g:input('x', {4}), g:param('w', {4})\n"
                    "local y = w * 3\n"
                    "g:loop(T, {}, function() g:assign(w, w * 0.5 + x) end)\n"
                    "return y"},
    {"gradient", "local x, w = g:input('x', {6, 4}), g:param('w', {4, 4})\n"
                 "return (g:loop(T, {w}, function(_, w)\n"
                 "return w - 0.1 * g:grad(x:matmul(w):tanh():sum(), {w})[1] end))"},
    /* steps of a transposed tensor are copied first; parts of 12 bytes are no vectors */
    {"transposed", "local x = g:input('x', {3, T})\n"
                   "local s, ys = g:scan({x:t()}, {g:zeros({3})}, function(r, s) return {s + r}, {r * s, r} end)\n"
                   "return s[1], ys[1], ys[2]"},
    {"sliced", "local x = g:input('x', {T * 2, 4, 6})\n"
               "local s = g:scan({x:slice(0, 0, T * 2, 2):slice(2, 0, 6)}, {g:zeros({4, 6})},\n"
               "function(r, s) return {s * 0.5 + r:flip(1)} end)\n"
               "return s[1]"},
    /* from the last step to the first, in place; what was stacked is read in the other order by the next loop */
    {"backwards", "local x = g:input('x', {T + 1, 4, 8})\n"
                  "local _, ys = g:scan({x:slice(0, 1, T + 1):flip(0)}, {g:zeros({4, 8})}, function(r, s)\n"
                  "local h = s * 0.5 + r return {h}, {h} end)\n"
                  "local _, zs = g:scan({ys[1]:flip(0) * 2}, {g:zeros({4, 8})}, function(r, s)\n"
                  "local h = (s + r):tanh() return {h}, {h} end)\n"
                  "local _, us = g:scan({zs[1]:flip(0)}, {g:zeros({4, 8})}, function(r, s)\n"
                  "return {s * 0.5 + r}, {s:sum(0)} end)\n"
                  "return zs[1]:flip(0), us[1]"},
    {"initial_view", "local x = g:input('x', {4, 6})\n"
                     "return (g:loop(T, {x:t()}, function(_, s) return s * 0.5 + 1 end)):t()"},
    {"of_a_loop", "local x = g:input('x', {T, 4})\n"
                  "local _, ys = g:scan({x}, {g:zeros({4})}, function(r, s) return {s + r}, {s} end)\n"
                  "local t = g:scan({ys[1]}, {g:ones({4})}, function(r, s) return {s * 0.9 + r} end)\n"
                  "return t[1]:relu()"},
    {"in_turns", "local x = g:input('x', {8, 8})\n"
                 "local a, b = g:loop(T, {x, x:t()}, function(_, a, b)\n"
                 "local c = a:matmul(b) * 0.1 return b + c, c:exp() / c:exp():sum(1, true) end)\n"
                 "return a:sum(), b:sum(0)"},
    /* members of one loop that store the next state: where, stands in a table */
    {"members", "local x = g:input('x', {T})\n"
                "return (g:scan({x}, {g:zeros({4}), g:zeros({})}, function(r, _, n)\n"
                "return {n - g:stack({r, n, r, r}), n + 1} end))[1]"},
    /* what comes from outside of a body and is only handed on: from before the loop, and from a step of one around it
     */
    {"handed_on", "local x, r = g:input('x', {5}), g:input('r', {T, 5})\n"
                  "local a = g:loop(T, {x}, function(_, a) return (a * 0.5):sin() end)\n"
                  "local s, ys = g:scan({r}, {x}, function(r, s) return {s + r}, {a} end)\n"
                  "return s[1], ys[1]"},
    /* from the last entry to the first: read, made by a product or not, and stacked twice */
    {"turned", "local x, w = g:input('x', {T, 6, 8}), g:param('w', {8, 8})\n"
               "local s, ys = g:scan({x}, {g:zeros({6, 8})}, function(r, s)\n"
               "local p = s:matmul(w) local h = (p + r):tanh() return {h}, {h, p, h:sum(1)} end, {backwards = true})\n"
               "return s[1], ys[1], ys[2], ys[3]"},
    /* back through time: all stored, or each third state, where that divides the steps */
    {"taken_back", "local x, w = g:input('x', {T, 4, 8}), g:param('w', {8, 8})\n"
                   "local s, ys = g:scan({x}, {g:zeros({4, 8}), g:zeros({4, 8})}, function(r, h, c)\n"
                   "c = h:matmul(w):sigmoid() * c + r:tanh() h = (c * r):tanh() return {h, c}, {h} end)\n"
                   "local d = g:grad((ys[1] * ys[1]):sum(), {w, x})\n"
                   "return s[2], d[1], d[2]"},
    {"segments_back", "local x, w = g:input('x', {T, 4, 8}), g:param('w', {8, 8})\n"
                      "local s, ys = g:scan({x}, {g:zeros({4, 8}), g:zeros({4, 8})}, function(r, h, c)\n"
                      "c = h:matmul(w):sigmoid() * c + r:tanh() h = (c * r):tanh() return {h, c}, {h} end)\n"
                      "local d = g:grad((ys[1] * ys[1]):sum(), {w, x}, {through = 'recomputed',\n"
                      "every = T % 3 == 0 and 3 or 1})\n"
                      "return s[2], d[1], d[2]"},
    {"handed_through", "local x = g:input('x', {5})\n"
                       "return (g:loop(T, {x}, function(_, a)\n"
                       "local b = a * 0.5\n"
                       "local c = g:loop(2, {b}, function(_, c) return a end)\n"
                       "return b:sin() + c end))"},
};
enum { BODIES = sizeof bodies / sizeof *bodies };

static fb_script *start(const char *text)
{
    FILE *f = fopen(in_scratch("script.lua"), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    return script_of(in_scratch("script.lua"), LIMIT_MS);
}

/* All bodies as variants of one script, over `trips` steps. */
static fb_script *start_bodies(int trips)
{
    fb_str text = {0};
    fb_str_addf(&text, "local fb = require 'fusebox'\nlocal T = %d\nreturn fb.script { variants = {\n", trips);
    for (int i = 0; i < BODIES; i++) fb_str_addf(&text, "%s = function(g)\n%s\nend,\n", bodies[i].name, bodies[i].body);
    fb_str_add(&text, "} }\n");
    fb_script *s = start(fb_str_get(&text));
    fb_str_free(&text);
    return s;
}

static fb_graph *build(fb_script *s, const char *variant)
{
    fb_script_event e;
    fb_script_build(s, variant, NULL);
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind != FB_SCRIPT_GRAPH) fail_msg("%s: %s", variant, e.error.text);
    return e.graph;
}

/* Each loop as one kernel, where that can be. Takes the plan. */
static fb_plan *with_whole_loops(fb_plan *plan)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_plan *next = NULL;
        if (g->nodes[i].op != FB_OP_LOOP) continue;
        fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE}, &next);
        if (!next) continue;
        fb_plan_free(plan);
        plan = next;
    }
    return plan;
}

/* Plans by number: the presets, then random edits of edges inside and outside the bodies. */
static fb_plan *plan_of(fb_planner *p, int number, uint64_t seed)
{
    fb_error err;
    if (number < fb_presets()) return fb_preset_at(number)->make(p, &err);
    fb_plan *plan = fb_plan_new(p);
    const fb_deps *deps = fb_planner_deps(p);
    for (int i = 0; i < 30 && deps->n_edges; i++) {
        static const fb_edit_kind kinds[] = {FB_EDIT_FUSE,      FB_EDIT_FUSE,     FB_EDIT_FUSE, FB_EDIT_FUSE,
                                             FB_EDIT_RECOMPUTE, FB_EDIT_GENERATE, FB_EDIT_CUT,  FB_EDIT_FUSE};
        seed = fb_splitmix64(seed + 1);
        const fb_edge *edge = &deps->edges[seed % (uint64_t)deps->n_edges];
        fb_edit edit = {.kind = kinds[seed >> 32 & 7], .a = edge->producer, .b = edge->consumer};
        fb_plan *next = NULL;
        fb_plan_try(plan, &edit, &next);
        if (!next) continue;
        fb_plan_free(plan);
        plan = next;
    }
    return number % 2 ? with_whole_loops(plan) : plan;
}

static void print_program(const fb_plan *plan)
{
    fb_error err;
    fb_str all = {0};
    fb_program *p = fb_lower(plan, &fb_target_c, &err);
    if (p) fb_program_print(p, &fb_target_c, &all);
    const char *from = strstr(fb_str_get(&all), "\n/* buffers\n *     ");
    fprintf(stderr, "%s\n", from ? from : "");
    fb_str_free(&all);
    fb_program_free(p);
}

/* With FB_TURN (turn.h) a third of the bodies, so that each comes at each number of steps once in three commits. */
static void run_all(int trips)
{
    fb_script *s = start_bodies(trips);
    fb_error err = {0};
    fb_device *d = fb_device_open("host", &err);
    if (!d) fail_msg("%s", err.text);
    int plans = fb_presets() + RANDOM_PLANS;
    int body[BODIES], taken = 0;
    fb_graph *graphs[BODIES];
    fb_planner *planners[BODIES];
    fb_fuzz_reference *references[BODIES];
    fb_plan **made = fb_calloc((size_t)(BODIES * plans), sizeof *made);
    fb_fuzz_case *cases = fb_calloc((size_t)(BODIES * plans), sizeof *cases);
    for (int i = 0; i < BODIES; i++)
        if (turn_is((unsigned)(i + trips), 1)) body[taken++] = i;
    for (int i = 0; i < taken; i++) {
        graphs[i] = build(s, bodies[body[i]].name);
        planners[i] = fb_planner_new(graphs[i], d->ops->machine(d));
        references[i] = fb_fuzz_reference_new(graphs[i], &err);
        if (!references[i]) fail_msg("%s", err.text);
        for (int k = 0; k < plans; k++) {
            made[i * plans + k] = plan_of(planners[i], k, (uint64_t)(trips * 1000 + body[i] * 100 + k));
            assert_non_null(made[i * plans + k]);
            cases[i * plans + k] = (fb_fuzz_case){.plan = made[i * plans + k], .reference = references[i]};
        }
    }
    fb_fuzz_run(d, cases, taken * plans);
    int wrong = 0;
    for (int n = 0; n < taken * plans; n++) {
        const fb_fuzz_result *r = &cases[n].result;
        if (r->kind == FB_FUZZ_FINE) continue;
        fprintf(stderr, "%s, %d steps, plan %d: %s\n", bodies[body[n / plans]].name, trips, n % plans, r->text);
        if (!wrong++) print_program(made[n]);
    }
    for (int n = 0; n < taken * plans; n++) fb_plan_free(made[n]);
    for (int i = 0; i < taken; i++) {
        fb_fuzz_reference_free(references[i]);
        fb_planner_free(planners[i]);
        fb_graph_free(graphs[i]);
    }
    fb_free(cases);
    fb_free(made);
    d->ops->close(d);
    fb_script_free(s);
    assert_int_equal(wrong, 0);
}

static void no_step(void **state)
{
    (void)state;
    run_all(0);
}

static void one_step(void **state)
{
    (void)state;
    run_all(1);
}

static void an_even_number(void **state)
{
    (void)state;
    run_all(4);
}

static void an_odd_number(void **state)
{
    (void)state;
    run_all(5);
}

/* ---- what a program looks like ---- */

typedef struct {
    fb_script *script;
    fb_graph *g;
    fb_planner *planner;
} bench;

static bench bench_new(int trips, const char *variant)
{
    fb_machine machine;
    fb_machine_default(&machine, FB_DEVICE_HOST);
    bench b = {.script = start_bodies(trips)};
    b.g = build(b.script, variant);
    b.planner = fb_planner_new(b.g, &machine);
    return b;
}

static void bench_free(bench *b)
{
    fb_planner_free(b->planner);
    fb_graph_free(b->g);
    fb_script_free(b->script);
}

static fb_program *lowered(const bench *b, const char *preset)
{
    fb_error err;
    fb_plan *plan = fb_preset_find(preset)->make(b->planner, &err);
    fb_program *p = fb_lower(plan, &fb_target_c, &err);
    if (!p) fail_msg("%s", err.text);
    fb_plan_free(plan);
    return p;
}

static int count(const fb_program *p, fb_launch_kind kind)
{
    int n = 0;
    for (int i = 0; i < p->n_launches; i++) n += p->launches[i].kind == kind;
    return n;
}

/* Elementwise updates overwrite the state; a product of the state must not. */
static void states_stay_in_place_where_they_can(void **state)
{
    (void)state;
    static const struct {
        const char *variant, *preset;
        int swaps;
    } cases[] = {{"counter", "max", 0},   {"gradient", "none", 0}, {"recurrent", "none", 0},
                 {"recurrent", "max", 1}, {"fibonacci", "max", 2}, {"assigned", "max", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench b = bench_new(6, cases[i].variant);
        fb_program *p = lowered(&b, cases[i].preset);
        if (count(p, FB_LAUNCH_SWAP) != cases[i].swaps)
            fail_msg("%s: %d swaps, not %d", cases[i].variant, count(p, FB_LAUNCH_SWAP), cases[i].swaps);
        assert_int_equal(count(p, FB_LAUNCH_REPEAT), 1);
        fb_program_free(p);
        bench_free(&b);
    }
}

/* The kernel that makes the next state stores it where it is stacked, too. */
static void what_is_carried_and_stacked_is_stored_twice(void **state)
{
    (void)state;
    bench b = bench_new(6, "stacked");
    fb_program *p = lowered(&b, "max");
    int inside = 0;
    for (int i = 0, depth = 0; i < p->n_launches; i++) {
        depth += (p->launches[i].kind == FB_LAUNCH_REPEAT) - (p->launches[i].kind == FB_LAUNCH_END);
        inside += depth && p->launches[i].kind == FB_LAUNCH_KERNEL;
    }
    assert_int_equal(inside, 2); /* the other is for what is stacked of the input */
    fb_program_free(p);
    bench_free(&b);
}

/* An index counted from the other end is a step of the other sign: nothing is laid out anew. */
static void flipped_steps_are_read_where_they_lie(void **state)
{
    (void)state;
    bench b = bench_new(6, "backwards");
    fb_program *p = lowered(&b, "max");
    int backwards = 0;
    for (int i = 0; i < p->n_launches; i++)
        for (int a = 0; p->launches[i].advances && a < p->launches[i].n_args; a++)
            backwards += p->launches[i].advances[a].bytes < 0;
    assert_int_equal(backwards, 1); /* what another loop stacked is copied, whichever way it is read */
    fb_program_free(p);
    bench_free(&b);
}

/* An LSTM's weights' gradients: what the steps leave for the way back is the states and gates of all, the states of
 * all, or the states of some. */
static void what_the_way_back_needs(void **state)
{
    (void)state;
    static const char *const options[] = {"{}", "{ through = 'recomputed' }", "{ through = 'recomputed', every = 8 }"};
    int64_t pool[3];
    fb_str text = {0};
    fb_str_add(&text, "local fb = require 'fusebox'\nreturn fb.script { variants = {\n");
    for (int i = 0; i < 3; i++)
        fb_str_addf(&text,
                    "v%d = function(g)\n"
                    "local x, w = g:input('x', {64, 8, 64}), g:param('w', {16, 64})\n"
                    "local s = g:scan({x}, {g:zeros({8, 16}), g:zeros({8, 16})}, function(r, h, c)\n"
                    "local i, f, z, o = table.unpack((r + h:matmul(w)):chunk(4, 1))\n"
                    "local d = f:sigmoid() * c + i:sigmoid() * z:tanh()\n"
                    "return {o:sigmoid() * d:tanh(), d} end)\n"
                    "return g:grad(s[1]:sum(), w, %s)[1]\nend,\n",
                    i, options[i]);
    fb_str_add(&text, "} }\n");
    bench b = {.script = start(fb_str_get(&text))};
    fb_str_free(&text);
    fb_machine machine;
    fb_machine_default(&machine, FB_DEVICE_HOST);
    for (int i = 0; i < 3; i++) {
        char variant[16];
        snprintf(variant, sizeof variant, "v%d", i);
        b.g = build(b.script, variant);
        b.planner = fb_planner_new(b.g, &machine);
        fb_program *p = lowered(&b, "max");
        pool[i] = p->pool_bytes;
        fb_program_free(p);
        fb_planner_free(b.planner);
        fb_graph_free(b.g);
    }
    const int64_t step = 8 * 16 * 4, steps = 64; /* bytes of a state, and of a gate */
    print_message("# temporaries: stored %lld, recomputed %lld, in segments %lld bytes\n", (long long)pool[0],
                  (long long)pool[1], (long long)pool[2]);
    if (pool[0] < 6 * steps * step || pool[0] - pool[1] < 3 * steps * step || pool[1] - pool[2] < 2 * steps * step)
        fail_msg("%lld, %lld and %lld bytes", (long long)pool[0], (long long)pool[1], (long long)pool[2]);
    fb_script_free(b.script);
}

/* What a loop is fed is one copy, and the verdict on copies says so. */
static void a_loop_is_fed_whole(void **state)
{
    (void)state;
    fb_script *s = start("local fb = require 'fusebox'\nreturn fb.script { model = function(g)\n"
                         "local xs = g:feed('xs', {6, 4})\n"
                         "local s = g:scan({xs:flip(1)}, {g:zeros({4})}, function(x, s) return {(s + x):tanh()} end)\n"
                         "g:receive(s[1], 'last') end }\n");
    fb_graph *g = build(s, "");
    fb_machine machine;
    fb_machine_default(&machine, FB_DEVICE_HOST);
    fb_planner *p = fb_planner_new(g, &machine);
    fb_plan *plan = fb_plan_new(p), *beside = NULL;
    fb_verdict v = fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_OVERLAP, .value = 1}, &beside);
    if (!beside ||
        !strstr(v.text, "`xs` arrives with all 6 steps of `loop` before the first of them, while the run before"))
        fail_msg("%s", v.text);
    fb_plan_free(beside);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    fb_script_free(s);
}

/* One launch for all steps, on the host too; the library is called on the way. */
/* Tiles of a product read rows of their operand that others would have overwritten. */
static void an_operand_of_tiles_is_not_overwritten(void **state)
{
    (void)state;
    fb_error err = {0};
    bench b = bench_new(6, "recurrent");
    fb_machine machine;
    fb_machine_default(&machine, FB_DEVICE_CUDA);
    fb_planner *planner = fb_planner_new(b.g, &machine);
    fb_plan *plan = fb_preset_find("max")->make(planner, &err), *tiled = NULL;
    fb_id product = FB_NONE;
    for (fb_id i = 0; i < b.g->n_nodes; i++)
        if (b.g->nodes[i].op == FB_OP_MATMUL) product = i;
    fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = product, .b = FB_NONE}, &tiled);
    assert_non_null(tiled);
    fb_id tanh = product;
    while (b.g->nodes[tanh].op != FB_OP_TANH) tanh++;
    fb_plan_free(plan);
    fb_plan_try(tiled, &(fb_edit){.kind = FB_EDIT_FUSE, .a = product, .b = tanh}, &plan);
    assert_non_null(plan);
    assert_int_equal(fb_plan_group(plan, fb_plan_group_of(plan, tanh))->family, FB_FAMILY_GEMM);
    fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
    assert_non_null(p);
    assert_int_equal(count(p, FB_LAUNCH_SWAP), 1);
    fb_program_free(p);
    fb_plan_free(plan);
    fb_plan_free(tiled);
    fb_planner_free(planner);
    bench_free(&b);
}

static void a_loop_is_one_kernel_when_asked_for(void **state)
{
    (void)state;
    bench b = bench_new(6, "recurrent");
    fb_error err;
    fb_plan *plan = with_whole_loops(fb_plan_new(b.planner));
    fb_program *p = fb_lower(plan, &fb_target_c, &err);
    if (!p) fail_msg("%s", err.text);
    assert_int_equal(count(p, FB_LAUNCH_REPEAT), 0);
    assert_int_equal(count(p, FB_LAUNCH_KERNEL), 2); /* the initial state, and the loop */
    assert_true(p->n_gemms == 1 && p->kernels[p->launches[1].kernel].merged);
    fb_plan_cost apart, whole;
    fb_plan_cost_of(plan, &whole);
    assert_int_equal(whole.launches, 2);
    /* it is a fact of the plan: in files, in recordings, in comparisons, and taken back */
    fb_plan *none = fb_plan_new(b.planner), *back = NULL;
    char mine[FB_SIGNATURE], theirs[FB_SIGNATURE];
    assert_false(fb_plan_equal(plan, none));
    assert_string_not_equal(fb_recording_plan_signature(plan, mine), fb_recording_plan_signature(none, theirs));
    json_t *text = fb_plan_to_json(plan);
    fb_plan *read = fb_plan_from_json(b.planner, text, true, NULL, &err);
    if (!read) fail_msg("%s", err.text);
    assert_true(fb_plan_equal(plan, read));
    json_decref(text);
    fb_id loop = fb_graph_find(b.g, "loop");
    fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_ISOLATE, .a = loop, .b = FB_NONE}, &back);
    assert_non_null(back);
    assert_true(fb_plan_equal(back, none));
    fb_plan_cost_of(back, &apart);
    assert_true(apart.launches > 6);
    assert_int_equal(fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_LIBRARY, .a = loop, .b = FB_NONE}, NULL).kind,
                     FB_VERDICT_ILLEGAL);
    fb_plan_free(back);
    fb_plan_free(read);
    fb_plan_free(none);
    fb_plan_free(plan);
    fb_program_free(p);
    bench_free(&b);
}

static bool calls(const fb_program *p, const char *text)
{
    return strstr(p->kernels[p->launches[p->n_launches - 1].kernel].source, text) != NULL;
}

/* On a GPU a plan or a loop is one cooperative kernel, unless it calls a library; it meets where data flows, and what
 * was before a loop is done with once. */
static void one_cooperative_kernel(void **state)
{
    (void)state;
    fb_script *s = start("local fb = require 'fusebox'\nreturn fb.script { variants = {\n"
                         "flows = function(g) local x = g:input('x', {64, 64})\n"
                         "return (g:loop(5, {x}, function(_, s) return s:t() * 0.5 + s end)) end,\n"
                         "apart = function(g) local x, y = g:input('x', {64, 64}), g:input('y', {64, 64})\n"
                         "return x:exp(), y:tanh() end,\n"
                         "library = function(g) local x = g:input('x', {512, 512})\n"
                         "return (g:loop(5, {x}, function(_, s) return s:matmul(s) end)) end } }\n");
    static const struct {
        const char *variant;
        int meets;
    } cases[] = {{"flows", 3}, {"apart", 0}, {"library", -1}};
    fb_machine host, cuda;
    fb_machine_default(&host, FB_DEVICE_HOST);
    fb_machine_default(&cuda, FB_DEVICE_CUDA);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_graph *g = build(s, cases[i].variant);
        fb_planner *planner = fb_planner_new(g, &cuda);
        fb_plan *plan = fb_plan_new(planner), *mega = NULL;
        fb_verdict v = fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA}, &mega);
        if (cases[i].meets < 0) {
            assert_int_equal(v.kind, FB_VERDICT_UNSUPPORTED);
            assert_non_null(strstr(v.text, "`matmul` is a library call"));
            fb_id loop = fb_graph_find(g, "loop");
            v = fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = loop, .b = FB_NONE}, NULL);
            assert_non_null(strstr(v.text, "`matmul` is a library call"));
        } else {
            fb_error err = {0};
            assert_non_null(mega);
            fb_program *p = fb_lower(mega, &fb_target_cuda, &err);
            if (!p) fail_msg("%s", err.text);
            assert_int_equal(fb_program_launches(p), 1);
            int meets = 0;
            const char *source = p->kernels[p->launches[0].kernel].source;
            for (const char *at = source; (at = strstr(at, "fb_meet_all();")); at++) meets++;
            if (meets != cases[i].meets) fail_msg("%s: %d meetings\n%s", cases[i].variant, meets, source);
            assert_true(p->kernels[p->launches[0].kernel].merged && !calls(p, "__restrict__"));
            fb_program_free(p);
        }
        fb_plan_free(mega);
        fb_plan_free(plan);
        fb_planner_free(planner);
        planner = fb_planner_new(g, &host);
        plan = fb_plan_new(planner);
        v = fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA}, NULL);
        assert_int_equal(v.kind, FB_VERDICT_UNSUPPORTED);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
    fb_script_free(s);
}

/* The model counts a body's launches and bytes once a step. */
static void the_model_counts_steps(void **state)
{
    (void)state;
    fb_plan_cost cost[2];
    for (int i = 0; i < 2; i++) {
        bench b = bench_new(i ? 30 : 3, "recurrent");
        fb_error err;
        fb_plan *plan = fb_preset_find("max")->make(b.planner, &err);
        fb_plan_cost_of(plan, &cost[i]);
        fb_plan_free(plan);
        bench_free(&b);
    }
    const int64_t zeros = 6 * 8 * 4; /* the initial state, written once by a launch of its own */
    assert_int_equal(cost[1].launches - 1, 10 * (cost[0].launches - 1));
    assert_int_equal(cost[1].bytes_read, 10 * cost[0].bytes_read);
    assert_int_equal(cost[1].bytes_written - zeros, 10 * (cost[0].bytes_written - zeros));
}

/* ---- what may not be ---- */

/* The first computed node of an op, in a body or outside. */
static fb_id node_of(const fb_graph *g, fb_op op, bool in_body)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == op && (g->nodes[i].region > 0) == in_body) return i;
    fail_msg("no %s", fb_op_get(op)->name);
    return FB_NONE;
}

static void nothing_is_fused_across_a_border(void **state)
{
    (void)state;
    bench b = bench_new(3, "of_a_loop");
    fb_plan *plan = fb_plan_new(b.planner);
    fb_id relu = node_of(b.g, FB_OP_RELU, false), add = node_of(b.g, FB_OP_ADD, true);
    fb_verdict v = fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_FUSE, .a = add, .b = relu}, NULL);
    assert_int_equal(v.kind, FB_VERDICT_ILLEGAL);
    assert_non_null(strstr(v.text, b.g->nodes[relu].name));
    assert_non_null(strstr(v.text, "different loop bodies"));
    fb_plan_free(plan);
    bench_free(&b);
}

/* A plan of a body survives being written and read, by names. */
static void plans_name_nodes_of_bodies(void **state)
{
    (void)state;
    bench b = bench_new(3, "lstm");
    fb_error err;
    fb_plan *plan = fb_preset_find("max")->make(b.planner, &err);
    json_t *text = fb_plan_to_json(plan);
    fb_plan *read = fb_plan_from_json(b.planner, text, true, NULL, &err);
    if (!read) fail_msg("%s", err.text);
    assert_true(fb_plan_equal(plan, read));
    json_decref(text);
    fb_plan_free(read);
    fb_plan_free(plan);
    bench_free(&b);
}

/* No order of launches gives a reader both a loop's result and what the loop overwrites. */
static void late_readers_are_refused(void **state)
{
    (void)state;
    fb_script *s = start("local fb = require 'fusebox'\nreturn fb.script { variants = { late = function(g)\n"
                         "local w, x = g:param('w', {4}), g:input('x', {4})\n"
                         "local s = g:loop(3, {x}, function(_, s) g:assign(w, w * 0.5) return s + w end)\n"
                         "return s * w end } }\n");
    fb_graph *g = build(s, "late");
    fb_machine machine;
    fb_machine_default(&machine, FB_DEVICE_HOST);
    fb_planner *planner = fb_planner_new(g, &machine);
    fb_plan *plan = fb_plan_new(planner);
    fb_error err = {0};
    assert_null(fb_lower(plan, &fb_target_c, &err));
    assert_non_null(strstr(err.text, "reads the old value of w and needs the loop that assigns it"));
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
    fb_script_free(s);
}

/* A CUDA graph holds a node a launch. */
static void graphs_are_not_endless(void **state)
{
    (void)state;
    fb_script *s = start_bodies(70000);
    fb_graph *g = build(s, "counter");
    fb_machine machine;
    fb_machine_default(&machine, FB_DEVICE_CUDA);
    fb_planner *planner = fb_planner_new(g, &machine);
    fb_plan *plan = fb_plan_new(planner), *graph = NULL;
    fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_GRAPH}, &graph);
    assert_non_null(graph);
    fb_error err = {0};
    assert_null(fb_lower(graph, &fb_target_cuda, &err));
    assert_non_null(strstr(err.text, "65536 is the most"));
    fb_plan_free(graph);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
    fb_script_free(s);
}

static void scripts_that_ask_for_nonsense(void **state)
{
    (void)state;
    static const struct {
        const char *body, *error;
    } cases[] = {
        {"g:loop(-1, {x}, function(_, s) return s end)", "script.lua:3: loop: -1 trips"},
        {"g:loop((1 << 40) + 1, {x}, function(_, s) return s end)", "script.lua:3: loop: 1099511627777 trips are more"},
        {"g:loop(2, {x}, function(_, s) return s:sum() end)", "carried value 0 begins as f32[4] and becomes f32[]"},
        {"g:loop(2, {x}, function(_, s) return s:to('f64') end)", "begins as f32[4] and becomes f64[4]"},
        {"g:loop(2, {x}, function(_, s) return s, s end)", "the body gives back the 1 tensors that it carries"},
        {"g:scan({x, g:zeros({3})}, {x}, function(a, b, s) return {s} end)[1]", "dimension 0 of a scanned tensor"},
        {"g:scan({g:const(1)}, {x}, function(a, s) return {s} end)[1]", "a scalar has no dimension 0"},
        {"g:scan({x}, {x}, function(a, s) return {} end)[1]", "the body gives 0 carried values, not 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_str text = {0};
        fb_str_addf(&text, "return function(g)\nlocal x = g:input('x', {4})\nlocal y = %s\nreturn y\nend\n",
                    cases[i].body);
        fb_script *s = start(fb_str_get(&text));
        fb_script_event e;
        fb_script_build(s, "", NULL);
        assert_true(next_event(s, &e, LIMIT_MS));
        assert_int_equal(e.kind, FB_SCRIPT_ERROR);
        if (!strstr(e.error.text, cases[i].error)) fail_msg("%s: %s", cases[i].body, e.error.text);
        fb_script_event_clear(&e);
        fb_script_free(s);
        fb_str_free(&text);
    }
}

int main(void)
{
    fb_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_step),
        cmocka_unit_test(one_step),
        cmocka_unit_test(an_even_number),
        cmocka_unit_test(an_odd_number),
        cmocka_unit_test(states_stay_in_place_where_they_can),
        cmocka_unit_test(what_is_carried_and_stacked_is_stored_twice),
        cmocka_unit_test(flipped_steps_are_read_where_they_lie),
        cmocka_unit_test(what_the_way_back_needs),
        cmocka_unit_test(a_loop_is_fed_whole),
        cmocka_unit_test(an_operand_of_tiles_is_not_overwritten),
        cmocka_unit_test(a_loop_is_one_kernel_when_asked_for),
        cmocka_unit_test(one_cooperative_kernel),
        cmocka_unit_test(the_model_counts_steps),
        cmocka_unit_test(nothing_is_fused_across_a_border),
        cmocka_unit_test(plans_name_nodes_of_bodies),
        cmocka_unit_test(late_readers_are_refused),
        cmocka_unit_test(graphs_are_not_endless),
        cmocka_unit_test(scripts_that_ask_for_nonsense),
    };
    return cmocka_run_group_tests_name("loops", tests, make_scratch, remove_scratch);
}
