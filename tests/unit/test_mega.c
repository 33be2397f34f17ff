/* Launch mode mega by execution on an emulated GPU, whose grid is two blocks: stages in order, states, steps and swaps.
 */
#include "unit/emulate_cuda.h"
#include "unit/scratch.h"
#include "unit/script_harness.h"

#include "base/json.h"
#include "decide/preset.h"
#include "plan/loops.h"

enum { LIMIT_MS = 180000 };

static const char *const bodies[] = {
    "local x = g:input('x', {5, 8, 5})\n"
    "local s, ys = g:scan({x}, {g:zeros({8, 5})}, function(r, s) return {(s + r):tanh()}, {s} end)\n"
    "return s[1], ys[1]",
    "local x = g:input('x', {5, 3})\n"
    "local s, ys = g:scan({x}, {g:zeros({3})}, function(r, s) local c = s * 0.5 + r return {c}, {c, c} end)\n"
    "return s[1], ys[1], ys[2]",
    /* an odd number of swaps inside; reductions of several teams in one block */
    "local x, w = g:input('x', {3, 6, 8}), g:param('w', {8, 8})\n"
    "local s, ys = g:scan({x}, {g:zeros({6, 8})}, function(r, s)\n"
    "local h = (s:matmul(w) + r):tanh() return {h}, {h:sum(1), s:t():amax(0)} end)\n"
    "return s[1], ys[1], ys[2]",
    "local x = g:input('x', {6, 70})\n"
    "local a, b = g:loop(3, {x, x * 2}, function(i, a, b)\n"
    "return b, (a + b) / (a:exp():sum(1, true) + i:to('f32')) end)\n"
    "return a, b",
    "local x = g:input('x', {4, 4, 3})\n"
    "local y = g:scan({x}, {g:zeros({3})}, function(r, s)\n"
    "local t = g:scan({r}, {s}, function(q, u) return {u:flip(0) * 0.5 + q} end)\n"
    "return {t[1]:sin()} end)\n"
    "return y[1]",
    "local x, w = g:input('x', {6, 40}), g:param('w', {40, 40})\n"
    "local v = g:loop(3, {w}, function(_, w) return w - 0.1 * g:grad(x:matmul(w):tanh():sum(), {w})[1] end)\n"
    "return v, x:sum(), v:sum(0)",
    /* backwards, and back through time: loops side by side and one in another */
    "local x = g:input('x', {5, 3})\n"
    "local s, ys = g:scan({x}, {g:zeros({3})}, function(r, s) local c = s * 0.5 + r return {c}, {c, c} end, "
    "{backwards = true})\n"
    "return s[1], ys[1], ys[2]",
    "local x, w = g:input('x', {4, 6, 8}), g:param('w', {8, 8})\n"
    "local s, ys = g:scan({x}, {g:zeros({6, 8})}, function(r, s)\n"
    "local h = (s:matmul(w) * 0.2 + r):tanh() return {h}, {h} end)\n"
    "local d = g:grad((ys[1] * ys[1]):sum(), {w, x}, {through = 'recomputed', every = 2, truncate = 3})\n"
    "return d[1], d[2]",
    /* tensors called almost as what kernels have: a row that is kept, the block's number, the grid's size */
    "local x, s, t = g:input('row_x', {6, 512}), g:input('some_gridDims', {6, 1}), g:input('blockIdx_of', {6, 1})\n"
    "local y = x * (x * x):mean(1, true):rsqrt()\n"
    "return (y * s + t):relu()",
};
enum { BODIES = sizeof bodies / sizeof *bodies };

/* Loops that are one kernel: what of their products' right operands stays in shared memory, and what must not; and
 * items that are asked for a step ahead. */
static const struct {
    const char *body;
    int kept; /* stages */
    int ahead;
} loops[] = {
    /* one tile, which its block keeps; half of the state is no state as it was stored, so that no cluster takes it */
    {"local x, w = g:input('x', {4, 6, 16}), g:param('w', {16, 16})\n"
     "local s, ys = g:scan({x}, {g:zeros({6, 16})}, function(r, s)\n"
     "local h = ((s * 0.5):matmul(w) + r):tanh() return {h}, {h} end)\n"
     "return s[1], ys[1]",
     1, 1},
    /* gates side by side, several steps of k, tiles that a small grid loads again and again; a product of the input */
    {"local x, w, u = g:input('x', {3, 20, 40}, 'f16'), g:param('w', {160, 40}, 'f16'), g:param('u', {160, 40}, "
     "'f16')\n"
     "local s, ys = g:scan({x}, {g:zeros({20, 40}, 'f16'), g:zeros({20, 40})}, function(r, h, c)\n"
     "local i, f, z, o = table.unpack((r:matmul(u:t()) + h:matmul(w:t())):to('f32'):chunk(4, 1))\n"
     "local d = f:sigmoid() * c + i:sigmoid() * z:tanh()\n"
     "local k = (o:sigmoid() * d:tanh()):to('f16') return {k, d}, {k} end)\n"
     "return s[1], s[2], ys[1]",
     1, 1},
    /* two layers, each with weights of its own; a batch of them */
    {"local x, w, u = g:input('x', {3, 2, 5, 24}), g:param('w', {2, 24, 24}), g:param('u', {24, 24})\n"
     "local s = g:scan({x}, {g:zeros({2, 5, 24})}, function(r, s)\n"
     "return {((s:matmul(w) * 0.2 + r):sin():matmul(u) * 0.2):tanh()} end)\n"
     "return s[1]",
     2, 1},
    /* back through time: items are asked for ahead in both directions */
    {"local x, w = g:input('x', {3, 20, 160}, 'f16'), g:param('w', {160, 40}, 'f16')\n"
     "local s, ys = g:scan({x}, {g:zeros({20, 40}, 'f16'), g:zeros({20, 40})}, function(r, h, c)\n"
     "local i, f, z, o = table.unpack((r + h:matmul(w:t()) * 0.1):to('f32'):chunk(4, 1))\n"
     "local d = f:sigmoid() * c + i:sigmoid() * z:tanh()\n"
     "local k = (o:sigmoid() * d:tanh()):to('f16') return {k, d}, {k} end)\n"
     "local d = g:grad((ys[1]:to('f32') * ys[1]:to('f32')):sum(), {w, x})\n"
     "return ys[1], d[1], d[2]",
     0, 7}, /* forward in clusters, whose weights stay another way */
    /* weights that a step changes: carried, or assigned */
    {"local x, w = g:input('x', {6, 40}), g:param('w', {40, 40})\n"
     "local v = g:loop(3, {w}, function(_, w) return w - 0.1 * g:grad(x:matmul(w):tanh():sum(), {w})[1] end)\n"
     "return v",
     0, 0},
    {"local x, w = g:input('x', {6, 40}), g:param('w', {40, 40})\n"
     "local s = g:loop(3, {x}, function(_, s) local h = s:matmul(w):tanh() g:assign(w, w * 0.5) return h end)\n"
     "return s",
     0, 0},
};
enum { LOOPS = sizeof loops / sizeof *loops };

/* Loops whose body is one kernel: how often the grid meets in a step, and whether threads go through all steps by
 * themselves. */
static const struct {
    const char *body;
    int meets;
    bool through;
} steps[] = {
    /* each element by itself: its state, stacked as well; from the last step on; of weights that are assigned */
    {"local x, y = g:input('x', {5, 3000}), g:input('y', {5, 3000})\n"
     "local s, ys = g:scan({x, y}, {g:zeros({3000})}, function(r, q, s) local h = s * r + q return {h}, {h} end)\n"
     "return s[1], ys[1]",
     0, true},
    {"local x = g:input('x', {6, 3, 1001})\n"
     "local s, ys = g:scan({x}, {g:zeros({3, 1001}), g:ones({3, 1001})}, function(r, a, b)\n"
     "local c = a * 0.5 + b + r return {c, b * c:sin()}, {c} end, {backwards = true})\n"
     "return s[1], s[2], ys[1]",
     0, true},
    {"local x, w = g:input('x', {3000}), g:param('w', {3000})\n"
     "g:loop(4, {}, function() g:assign(w, w * 0.5 + x) end)",
     0, true},
    /* what no step changes may be read anywhere */
    {"local x, t = g:input('x', {5, 3000}), g:input('t', {3000})\n"
     "local s = g:scan({x}, {g:zeros({3000})}, function(r, s) return {s * t:flip(0) + r:flip(0)} end)\n"
     "return s[1]",
     0, true},
    /* a neighbour's element; that of another state; one of another row; a sum of all */
    {"local x = g:input('x', {5, 3000})\n"
     "local s = g:scan({x}, {g:zeros({3000})}, function(r, s) return {s:flip(0) * 0.5 + r} end)\n"
     "return s[1]",
     1, false},
    {"local x = g:input('x', {5, 3000})\n"
     "local s = g:scan({x}, {g:zeros({3000}), g:ones({3000})}, function(r, a, b)\n"
     "local c = a * 0.5 + r return {c, b * 0.5 + a:flip(0)} end)\n"
     "return s[1], s[2]",
     1, false},
    {"local x = g:input('x', {5, 64, 64})\n"
     "local s = g:scan({x}, {g:zeros({64, 64})}, function(r, s) return {s:t() * 0.5 + r} end)\n"
     "return s[1]",
     1, false},
    {"local x = g:input('x', {5, 6, 70})\n"
     "local s = g:scan({x}, {g:ones({6, 70})}, function(r, s) return {s / s:exp():sum(1, true) + r} end)\n"
     "return s[1]",
     1, false},
    /* vectors, of 16 bits, with items of rows and of columns; more steps than are loaded ahead */
    {"local x, y = g:input('x', {19, 300, 128}, 'bf16'), g:input('y', {19, 300, 1}, 'bf16')\n"
     "local c = g:input('c', {128}, 'bf16')\n"
     "local s, ys = g:scan({x, y}, {g:zeros({300, 128}, 'bf16')}, function(r, q, s)\n"
     "local h = (s * 0.5 + r) * q + c return {h}, {h * r} end)\n"
     "return s[1], ys[1]",
     0, true},
    {"local x = g:input('x', {35, 300, 301}, 'f16')\n"
     "local s, ys = g:scan({x}, {g:zeros({300, 301})}, function(r, s)\n"
     "local h = s * 0.5 + r:to('f32') return {h}, {h:to('f16')} end)\n"
     "return ys[1]",
     0, true},
    /* a rotation, of which nothing is stacked; one step; a state that nobody reads again */
    {"local x, y = g:input('x', {18, 2, 500}), g:input('y', {18, 2, 500})\n"
     "local s = g:scan({x, y}, {g:ones({2, 500}), g:input('s', {2, 500})}, function(c, s, a, b)\n"
     "return {a * c - b * s, a * s + b * c} end)\n"
     "return s[1], s[2]",
     0, true},
    {"local x = g:input('x', {1, 77})\n"
     "local s, ys = g:scan({x}, {g:ones({77})}, function(r, s) local h = s * r return {h}, {h + 1} end)\n"
     "return s[1], ys[1]",
     0, true},
    {"local x = g:input('x', {7, 77})\n"
     "local s, ys = g:scan({x}, {g:ones({77}), g:ones({77})}, function(r, s) return {s * r, s + r} end)\n"
     "return s[1], s[2]",
     0, true},
    /* items that are padded, that lie apart, and every second one; the number of the step */
    {"local x = g:input('x', {9, 20, 60})\n"
     "local s = g:scan({x}, {g:zeros({20, 62})}, function(r, s) return {s * 0.5 + r:pad({1, 1})} end)\n"
     "return s[1]",
     0, true},
    {"local x = g:input('x', {9, 60, 20})\n"
     "local s, ys = g:scan({x}, {g:zeros({20, 60})}, function(r, s) local h = s * 0.5 + r:t() return {h}, {h} end)\n"
     "return s[1], ys[1]",
     0, true},
    {"local x = g:input('x', {18, 100}):slice(0, 0, 18, 2)\n"
     "return (g:loop(9, {g:zeros({100})}, function(i, s) return s * 0.5 + i:to('f32') end)),\n"
     "g:scan({x}, {g:zeros({100})}, function(r, s) return {s * 0.5 + r} end)[1]",
     0, true},
    /* gradients, from the last step to the first */
    {"local x, y = g:input('x', {19, 333}), g:input('y', {19, 333})\n"
     "local s, ys = g:scan({x, y}, {g:zeros({333})}, function(r, q, s) local h = s * r + q return {h}, {h} end)\n"
     "local d = g:grad((ys[1] * ys[1]):sum(), {x, y})\n"
     "return d[1], d[2]",
     0, true},
    /* short rows that are summed up: whole vectors, lanes too many, one thread's whose elements lie apart */
    {"local d, x, a = g:input('d', {19, 3, 50, 1}), g:input('x', {19, 3, 50, 1}), g:input('a', {50, 16})\n"
     "local b, c = g:input('b', {19, 3, 1, 16}), g:input('c', {19, 3, 1, 16})\n"
     "local s, ys = g:scan({d, x, b, c}, {g:zeros({3, 50, 16})}, function(d, x, b, c, s)\n"
     "local h = s * (d * a):tanh() + d * x * b return {h}, {(h * c):sum(-1)} end)\n"
     "return s[1], ys[1]",
     0, true},
    {"local x, c = g:input('x', {11, 77, 13}, 'f16'), g:input('c', {11, 1, 13}, 'f16')\n"
     "local s, ys = g:scan({x, c}, {g:input('s', {77, 13}, 'f16')}, function(x, c, s)\n"
     "local h = s * 0.5 + x return {h}, {(h * c):sum(-1)} end)\n"
     "return s[1], ys[1]",
     0, true},
    {"local x, c = g:input('x', {11, 3, 8, 70}), g:input('c', {11, 3, 8, 1})\n"
     "local s, ys = g:scan({x, c}, {g:zeros({3, 8, 70})}, function(x, c, s)\n"
     "local h = s * 0.5 + x return {h}, {(h * c):sum(1)} end)\n"
     "return s[1], ys[1]",
     0, true},
    /* rows that are gone over again, and a state that all of a row reads; the largest and where it is */
    {"local x = g:input('x', {5, 77, 64})\n"
     "local s = g:scan({x}, {g:ones({77, 64})}, function(r, s) local e = (s + r):exp()\n"
     "return {e / e:sum(1, true)} end)\n"
     "return s[1]",
     0, true},
    {"local x = g:input('x', {5, 77, 15})\n"
     "local s = g:scan({x}, {g:ones({77, 15})}, function(r, s) local c = r - s:mean(1, true)\n"
     "return {c / (c * c):mean(1, true):sqrt()} end)\n"
     "return s[1]",
     0, true},
    {"local x = g:input('x', {5, 77, 20})\n"
     "local s, ys = g:scan({x}, {g:ones({77, 1})}, function(r, s) local y = r * s\n"
     "return {y:amax(1, true) * 0.5}, {y:argmax(1)} end)\n"
     "return s[1], ys[1]",
     0, true},
    /* more states than a thread has registers for several elements of, and for one */
    {"local x, s = g:input('x', {3, 64, 512}), {}\n"
     "for i = 1, 30 do s[i] = g:ones({64, 512}) end\n"
     "local l = g:scan({x}, s, function(r, ...) local n = {...}\n"
     "for i = 1, 30 do n[i] = n[i] * 0.5 + r end return n end)\n"
     "return table.unpack(l)",
     0, true},
    {"local x, s = g:input('x', {2, 4, 256}), {}\n"
     "for i = 1, 80 do s[i] = g:ones({4, 256}) end\n"
     "local l = g:scan({x}, s, function(r, ...) local n = {...}\n"
     "for i = 1, 80 do n[i] = n[i] * 0.5 + r end return n end)\n"
     "return table.unpack(l)",
     0, false},
    /* within another loop, whose steps begin it anew */
    {"local x = g:input('x', {3, 17, 100})\n"
     "local s = g:scan({x}, {g:zeros({100})}, function(r, s)\n"
     "local t = g:scan({r}, {s * 0.5}, function(q, t) return {t * 0.9 + q} end) return {t[1]} end)\n"
     "return s[1]",
     4, true},
};
enum { STEPS = sizeof steps / sizeof *steps };

static fb_script *start(void)
{
    const char *path = in_scratch("script.lua");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("local fb = require 'fusebox'\nreturn fb.script { variants = {\n", f);
    for (int i = 0; i < BODIES; i++) fprintf(f, "v%d = function(g)\n%s\nend,\n", i, bodies[i]);
    for (int i = 0; i < LOOPS; i++) fprintf(f, "v%d = function(g)\n%s\nend,\n", BODIES + i, loops[i].body);
    for (int i = 0; i < STEPS; i++) fprintf(f, "v%d = function(g)\n%s\nend,\n", BODIES + LOOPS + i, steps[i].body);
    fputs("} }\n", f);
    assert_int_equal(fclose(f), 0);
    return script_of(path, LIMIT_MS);
}

/* A script of scripts/models, and the machine that its plans are for. */
static fb_script *start_model(const char *name, fb_machine *m)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/scripts/models/%s.lua", getenv("FB_SRCDIR") ? getenv("FB_SRCDIR") : ".", name);
    fb_machine_default(m, FB_DEVICE_CUDA);
    return script_of(path, LIMIT_MS);
}

static fb_graph *build_variant(fb_script *s, const char *variant, const json_t *params)
{
    fb_script_event e;
    fb_script_build(s, variant, params);
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind != FB_SCRIPT_GRAPH) fail_msg("%s: %s", variant, e.error.text);
    return e.graph;
}

static fb_graph *build(fb_script *s, int number)
{
    char variant[16];
    snprintf(variant, sizeof variant, "v%d", number);
    return build_variant(s, variant, NULL);
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

static fb_program *lowered(fb_planner *planner, const char *preset)
{
    fb_error err;
    const fb_graph *g = fb_planner_graph(planner);
    fb_plan *plan = fb_preset_find(preset)->make(planner, &err);
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_MATMUL)
            plan = edited(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE});
    plan = edited(plan, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA});
    assert_int_equal(fb_plan_launch_mode(plan), FB_LAUNCH_MEGA);
    fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
    if (!p) fail_msg("%s", err.text);
    assert_int_equal(fb_program_launches(p), 1);
    fb_plan_free(plan);
    return p;
}

/* A graph, what its plans are made with, and the answers. */
typedef struct {
    fb_graph *g;
    fb_planner *planner;
    fb_interp *reference;
} subject;

static subject subject_of(fb_graph *g, const fb_machine *m)
{
    fb_error err;
    subject s = {.g = g, .planner = fb_planner_new(g, m)};
    s.reference = fb_interp_run(g, &(fb_interp_options){.seed = 3, .bounds = true}, NULL, 0, &err);
    if (!s.reference) fail_msg("%s", err.text);
    return s;
}

static void subject_free(subject *s)
{
    fb_interp_free(s->reference);
    fb_planner_free(s->planner);
    fb_graph_free(s->g);
}

/* Programs that are compiled together, since the emulator takes a compiler as long as one of them does; then each is run,
 * and all that is here is freed. */
enum { MOST = 64 };

typedef struct {
    unit u;
    int n;
    struct {
        subject s;
        fb_program *p;
        bool last; /* of its subject */
        char what[96];
    } run[MOST];
} runs;

static void add_run(runs *r, subject s, fb_program *p, bool last, const char *what)
{
    assert_true(r->n < MOST);
    assert_int_equal(unit_add_cuda(&r->u, p), r->n);
    r->run[r->n].s = s, r->run[r->n].p = p, r->run[r->n].last = last;
    snprintf(r->run[r->n++].what, sizeof r->run->what, "%s", what);
}

static void check_runs(runs *r)
{
    unit_emulate(&r->u);
    for (int i = 0; i < r->n; i++) {
        subject *s = &r->run[i].s;
        fb_program *p = r->run[i].p;
        char text[512], *storage;
        void **buffers = run_program(&r->u, i, p, s->g, 3, &storage);
        if (!check_program(p, buffers, s->g, s->reference, text))
            fail_msg("%s: %s\n%s", r->run[i].what, text, getenv("FB_KEEP") ? p->kernels[p->n_kernels - 1].source : "");
        fb_free(storage);
        fb_free(buffers);
        fb_program_free(p);
        if (r->run[i].last) subject_free(s);
    }
    unit_free(&r->u);
}

/* The region's own nodes as one kernel, if it has no product. */
static fb_plan *with_one_body(fb_plan *plan, const fb_graph *g, fb_id region)
{
    fb_id *nodes = fb_alloc((size_t)g->n_nodes * sizeof *nodes);
    int n = 0;
    bool product = false;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i].region != region || !fb_node_is_computed(g, i)) continue;
        product |= g->nodes[i].op == FB_OP_MATMUL;
        nodes[n++] = i;
    }
    if (n > 1 && !product) plan = edited(plan, &(fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = n, .nodes = nodes});
    fb_free(nodes);
    return plan;
}

/* Everything that may be is fused once its products are generated. */
static fb_plan *whole_loops(fb_planner *planner)
{
    fb_error err;
    const fb_graph *g = fb_planner_graph(planner);
    const fb_deps *d = fb_planner_deps(planner);
    fb_plan *plan = fb_preset_find("max")->make(planner, &err);
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_MATMUL)
            plan = edited(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE});
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_LOOP)
            plan = edited(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE});
    for (int i = 0; i < d->n_edges; i++)
        plan = edited(plan, &(fb_edit){.kind = FB_EDIT_FUSE, .a = d->edges[i].producer, .b = d->edges[i].consumer});
    for (fb_id r = 1; r < g->n_regions; r++) plan = with_one_body(plan, g, r);
    return plan;
}

static int found(const fb_program *p, const char *text)
{
    int n = 0;
    for (int k = 0; k < p->n_kernels; k++)
        for (const char *at = p->kernels[k].source; (at = strstr(at, text)); at++) n++;
    return n;
}

static fb_program *with_whole_loops(fb_planner *planner)
{
    fb_error err;
    fb_plan *plan = whole_loops(planner);
    fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
    if (!p) fail_msg("%s", err.text);
    fb_plan_free(plan);
    return p;
}

static void loops_keep_what_stands_still(void **state)
{
    (void)state;
    if (!emulation_exists()) skip();
    runs r = {0};
    fb_script *s = start();
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (int i = 0; i < LOOPS; i++) {
        char what[32];
        subject a = subject_of(build(s, BODIES + i), &m);
        fb_program *p = with_whole_loops(a.planner);
        snprintf(what, sizeof what, "loop %d", i);
        int kept = found(p, " fb_keep("), ahead = found(p, " fb_fetch_ahead(");
        ahead += found(p, " fb_fetch(2);"); /* a recurrence asks for its own */
        if (kept != loops[i].kept || ahead != loops[i].ahead)
            fail_msg("%s: %d stages keep something, %d items are fetched ahead\n%s", what, kept, ahead,
                     p->kernels[p->n_kernels - 1].source);
        add_run(&r, a, p, true, what);
    }
    check_runs(&r);
    fb_script_free(s);
}

/* In the loop with gates side by side: a meeting of the grid, and one of the threads of a stage. */
static void meetings_that_are_missing_are_found(void **state)
{
    (void)state;
    static const char *const cuts[] = {"fb_meet_all();", "fb_block_done<"};
    if (!emulation_exists() || !races_wanted()) skip();
    fb_script *s = start();
    fb_machine m;
    fb_error err;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    fb_graph *g = build(s, BODIES + 1);
    fb_planner *planner = fb_planner_new(g, &m);
    fb_plan *plan = whole_loops(planner);
    fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
    if (!p) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char *found = races_without(p, g, "for (int64_t step0", cuts[i]);
        if (!found) fail_msg("no race without %s", cuts[i]);
        fb_free(found);
    }
    fb_program_free(p);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
    fb_script_free(s);
}

/* What a step of the first loop is predicted to take when a meeting of the grid takes so long. */
static double step_us(const fb_graph *g, double barrier_us, int *meetings)
{
    fb_machine m;
    fb_error err;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.barrier_us = barrier_us;
    fb_planner *planner = fb_planner_new(g, &m);
    fb_plan *plan = whole_loops(planner);
    fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
    if (!p) fail_msg("%s", err.text);
    double us = fb_plan_one_kernel_us(plan, 1) / (double)g->regions[1].trips;
    const fb_kernel *k = p->kernels;
    while (!k->merged) k++;
    assert_true(fabs(k->cost.us - fb_plan_one_kernel_us(plan, 1)) < 1e-6 * k->cost.us);
    *meetings = found(p, "fb_meet_all();");
    fb_program_free(p);
    fb_plan_free(plan);
    fb_planner_free(planner);
    return us;
}

/* The prediction counts the meetings that the kernel has. */
static void meetings_are_predicted(void **state)
{
    (void)state;
    fb_script *s = start();
    for (int i = 0; i < LOOPS; i++) {
        int meetings;
        fb_graph *g = build(s, BODIES + i);
        if (g->n_regions > 2) { /* two loops are two kernels, each with its own */
            fb_graph_free(g);
            continue;
        }
        double one = step_us(g, 1, &meetings), ten = step_us(g, 10, &meetings), predicted = (ten - one) / 9;
        if (!meetings || fabs(predicted - meetings) > 1e-6)
            fail_msg("loop %d: %g meetings predicted, and its kernel has %d", i, predicted, meetings);
        fb_graph_free(g);
    }
    fb_script_free(s);
}

/* … and where each thread can go through all steps by itself, it has none, and computes the same without. */
static void elements_go_through_steps_alone(void **state)
{
    (void)state;
    if (!emulation_exists()) skip();
    runs r = {0};
    fb_script *s = start();
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (int i = 0; i < STEPS; i++) {
        char what[32];
        subject a = subject_of(build(s, BODIES + LOOPS + i), &m);
        fb_program *p = with_whole_loops(a.planner);
        snprintf(what, sizeof what, "steps %d", i);
        int meetings = found(p, "fb_meet_all();");
        double predicted = steps[i].meets;
        if (a.g->n_regions == 2) predicted = (step_us(a.g, 10, &meetings) - step_us(a.g, 1, &meetings)) / 9;
        if (meetings != steps[i].meets || fabs(predicted - meetings) > 1e-6)
            fail_msg("%s: %g meetings predicted, and its kernel has %d\n%s", what, predicted, meetings,
                     p->kernels[p->n_kernels - 1].source);
        if ((found(p, "fb_step < fb_steps") > 0) != steps[i].through)
            fail_msg("%s: threads %s through all steps\n%s", what, steps[i].through ? "do not go" : "go",
                     p->kernels[p->n_kernels - 1].source);
        add_run(&r, a, p, true, what);
    }
    check_runs(&r);
    fb_script_free(s);
}

/* A step's product is rounded before the next one adds to it, also behind a choice or as a power; a sum is anyway. (An
 * H200 took products into the next step's sums: gradients through a scan of 256 steps were off where they cancel.) */
static void what_is_handed_on_is_rounded(void **state)
{
    (void)state;
    static const struct {
        const char *next, *says;
    } hands[] = {
        {"s * r", "fb_productf(fb_state"},           {"s * r + 1", NULL},
        {"(s + r) * (s + r)", "fb_productf(add"},    {"(s + r):pow(2)", ", fb_one)"},
        {"g:where(r:gt(0), s * r, s)", ", fb_one)"}, {"(s + r):tanh()", ", fb_one)"},
    };
    enum { N = sizeof hands / sizeof *hands };
    const char *path = in_scratch("script.lua");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("local fb = require 'fusebox'\nreturn fb.script { variants = {\n", f);
    for (int i = 0; i < N; i++)
        fprintf(f,
                "v%d = function(g) local x = g:input('x', {5, 3000})\n"
                "return g:scan({x}, {g:ones({3000})}, function(r, s) return {%s} end)[1] end,\n",
                i, hands[i].next);
    fputs("} }\n", f);
    assert_int_equal(fclose(f), 0);
    fb_script *s = script_of(path, LIMIT_MS);
    fb_machine m;
    fb_error err;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (int i = 0; i < N; i++) {
        fb_graph *g = build(s, i);
        fb_planner *planner = fb_planner_new(g, &m);
        fb_plan *steps_apart = fb_preset_find("max")->make(planner, &err);
        fb_id loop = g->regions[1].loop;
        fb_verdict v = fb_plan_try(steps_apart, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = loop, .b = FB_NONE}, NULL);
        if (!strstr(v.text, "each thread goes through all steps by itself")) fail_msg("%s", v.text);
        fb_plan_free(steps_apart);
        fb_program *p = with_whole_loops(planner);
        const bool any = found(p, "= fb_productf(") > 0;
        if (!found(p, "fb_step < fb_steps") || any != (hands[i].says != NULL) || (any && !found(p, hands[i].says)))
            fail_msg("%s\n%s", hands[i].next, p->kernels[p->n_kernels - 1].source);
        fb_program_free(p);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
    fb_script_free(s);
}

static void plans_run_as_one_kernel(void **state)
{
    (void)state;
    static const char *const presets[] = {"none", "max"};
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    runs r = {0};
    fb_script *s = start();
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (int i = 0; i < BODIES; i++) {
        subject a = subject_of(build(s, i), &m);
        for (int k = 0; k < 2; k++) {
            char what[32];
            fb_program *p = lowered(a.planner, presets[k]);
            snprintf(what, sizeof what, "v%d, %s", i, presets[k]);
            add_run(&r, a, p, k == 1, what);
        }
    }
    check_runs(&r);
    fb_script_free(s);
}

/* Stages of 64, 128 and 256 threads in one kernel, which meet at barriers of their own: compute-sanitizer's racecheck
 * loses these (tests/gpu/named_barriers.c), so that this is where they are watched. */
static void stages_of_unequal_threads(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    static const char *const has[] = {"threadIdx.x < 64;", "threadIdx.x < 128;", "threadIdx.x < 256;"};
    if (!emulation_exists()) skip();
    runs r = {0};
    fb_machine m;
    fb_script *s = start_model("lstm", &m);
    for (int d = 0; d < 3; d++) {
        json_t *params = json_pack("{s:i, s:i, s:s}", "H", 100, "I", 100, "dtype", dtypes[d]);
        subject a = subject_of(build_variant(s, "hoisted", params), &m);
        json_decref(params);
        fb_program *p = lowered(a.planner, "max");
        for (int i = 0; i < 3; i++)
            if (d > 0 && !found(p, has[i])) fail_msg("%s: no stage where %s", dtypes[d], has[i]);
        add_run(&r, a, p, true, dtypes[d]);
    }
    check_runs(&r);
    fb_script_free(s);
}

/* Both layers of models/lora_network with their updates, 16-8-4 as it stands and beyond a tile: its plan one_kernel. */
static void lora_is_one_kernel(void **state)
{
    (void)state;
    static const char *const sizes[] = {"{}", "{\"batch\":70,\"inputs\":80,\"hidden\":66,\"outputs\":20}"};
    if (!emulation_exists()) skip();
    runs r = {0};
    fb_machine m;
    fb_script *s = start_model("lora_network", &m);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        json_t *params = fb_json_parse(sizes[i], strlen(sizes[i]), NULL);
        subject a = subject_of(build_variant(s, "lora", params), &m);
        add_run(&r, a, lowered(a.planner, "inductor"), true, sizes[i]);
        json_decref(params);
    }
    check_runs(&r);
    fb_script_free(s);
}

/* Steps of stochastic gradient descent: rows by warps with all loads on their way, products of two terms that are no
 * tiles, also of ones (the gradient of a plain sum), and few blocks to meet. */
static void small_steps_are_few_blocks(void **state)
{
    (void)state;
    static const char *const variants[] = {"carried", "assigned"};
    if (!emulation_exists()) skip();
    runs r = {0};
    fb_machine m;
    fb_script *s = start_model("mlp_loop", &m);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        json_t *params = json_pack("{s:i, s:i, s:i, s:i}", "inputs", 67, "hidden", 131, "outputs", 301, "steps", 3);
        subject a = subject_of(build_variant(s, variants[i], params), &m);
        json_decref(params);
        fb_program *p = with_whole_loops(a.planner);
        const fb_kernel *k = p->kernels;
        while (!k->merged) k++;
        if (!strstr(k->source, "fb_s * 32 + place")) fail_msg("%s: no row by a warp\n%s", variants[i], k->source);
        if (strstr(k->source, "fb_tile::")) fail_msg("%s: a tile of two steps\n%s", variants[i], k->source);
        if (k->grid[0] > 2 * m.units) fail_msg("%s: %d blocks meet", variants[i], k->grid[0]);
        add_run(&r, a, p, true, variants[i]);
    }
    check_runs(&r);
    fb_script_free(s);
}

int main(void)
{
    fb_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_run_as_one_kernel),      cmocka_unit_test(loops_keep_what_stands_still),
        cmocka_unit_test(stages_of_unequal_threads),    cmocka_unit_test(meetings_that_are_missing_are_found),
        cmocka_unit_test(meetings_are_predicted),       cmocka_unit_test(elements_go_through_steps_alone),
        cmocka_unit_test(what_is_handed_on_is_rounded), cmocka_unit_test(lora_is_one_kernel),
        cmocka_unit_test(small_steps_are_few_blocks),
    };
    return cmocka_run_group_tests_name("mega", tests, make_scratch, remove_scratch);
}
