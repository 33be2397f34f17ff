/* Scripts from the front: the API op by op against known values, errors with their lines, parameters, plans,
 * experiments, what require and load may reach, and whether the types for editors name every function there is. */
#include "config.h"

#include "unit/children.h"
#include "unit/scratch.h"
#include "unit/script_harness.h"

#include "base/embedded.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "interp/interp.h"
#include "plan/plan.h"
#include "script/files.h"
#include "script/process.h"
#include "script/start.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 180000 };

/* ---- scripts in a folder of their own ---- */

static void write_text(const char *name, const char *text, size_t n)
{
    assert_true(fb_write_file(in_scratch(name), text, n, NULL));
}

static fb_script *start_with(const char *text, const char *set)
{
    fb_error err = {0};
    write_text("script.lua", text, strlen(text));
    json_t *values = set ? fb_json_parse(set, strlen(set), &err) : NULL;
    fb_script *s = fb_script_start(in_scratch("script.lua"), values, &err);
    json_decref(values);
    assert_non_null(s);
    return s;
}

static fb_script *start(const char *text)
{
    return start_with(text, NULL);
}

static void expect(fb_script *s, fb_script_event *e, fb_script_event_kind kind)
{
    if (!next_event(s, e, LIMIT_MS)) fail_msg("no event");
    if (e->kind == FB_SCRIPT_ERROR && kind != FB_SCRIPT_ERROR) fail_msg("%s", e->error.text);
    assert_int_equal(e->kind, kind);
}

static fb_script_info *expect_info(fb_script *s)
{
    fb_script_event e;
    expect(s, &e, FB_SCRIPT_INFO);
    return e.info;
}

static fb_script *loaded(const char *text)
{
    fb_script *s = start(text);
    fb_script_info_free(expect_info(s));
    return s;
}

static void expect_error(fb_script *s, const char *text, int line)
{
    fb_script_event e;
    expect(s, &e, FB_SCRIPT_ERROR);
    if (!strstr(e.error.text, text)) fail_msg("\"%s\" does not say \"%s\"", e.error.text, text);
    if (e.line != line) fail_msg("\"%s\" is of line %d, not %d", e.error.text, e.line, line);
    fb_script_event_clear(&e);
}

static fb_graph *build(fb_script *s, const char *variant, const char *params)
{
    fb_script_event e;
    json_t *values = params ? fb_json_parse(params, strlen(params), NULL) : NULL;
    int64_t id = fb_script_build(s, variant, values);
    json_decref(values);
    expect(s, &e, FB_SCRIPT_GRAPH);
    assert_int_equal(e.id, id);
    assert_true(e.graph->canonical);
    return e.graph;
}

static fb_graph *graph_of(const char *text)
{
    fb_script *s = loaded(text);
    fb_graph *g = build(s, "", NULL);
    fb_script_free(s);
    return g;
}

/* ---- values ---- */

typedef struct {
    fb_graph *g;
    fb_interp *in;
} values;

static bool file_values(void *ctx, const char *key, int64_t n, double *out)
{
    int64_t have;
    const double *v = fb_script_file(ctx, key, &have);
    if (!v || have != n) return false;
    memcpy(out, v, (size_t)n * sizeof *out);
    return true;
}

static values evaluate(fb_graph *g, fb_script *files)
{
    fb_error err = {0};
    fb_id keep[64];
    int n = 0;
    for (fb_id i = 0; i < g->n_nodes && n < 64; i++)
        if (fb_node_class(g, i) == FB_CLASS_SOURCE && g->nodes[i].op != FB_OP_CONST) keep[n++] = i;
    fb_interp_options o = {.seed = 7, .files = files ? file_values : NULL, .files_ctx = files};
    values v = {g, fb_interp_run(g, &o, keep, n, &err)};
    if (!v.in) fail_msg("%s", err.text);
    return v;
}

static const double *named(const values *v, const char *name)
{
    fb_id id = fb_graph_find(v->g, name);
    if (id == FB_NONE) fail_msg("no node %s", name);
    return fb_interp_get(v->in, id)->v;
}

static double output_at(const values *v, int output, int64_t i)
{
    const fb_tensor *t = fb_interp_get(v->in, v->g->outputs[output]);
    assert_non_null(t);
    assert_true(i < t->n);
    return t->v ? t->v[i] : (double)t->i[i];
}

static void done(values *v)
{
    fb_interp_free(v->in);
    fb_graph_free(v->g);
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want)))) fail_msg("%.9g is not %.9g", got, want);
}

/* ---- every op by its method, on x = [[0, 1, 2], [3, 4, 5]], i the same in i64, b = x > 2 ---- */

static const struct {
    const char *code, *shape;
    double want[8];
} ops[] = {
    {"x + 1", "f32[2,3]", {1, 2, 3, 4, 5, 6}},
    {"1 - x", "f32[2,3]", {1, 0, -1, -2, -3, -4}},
    {"x:sub(x * 2)", "f32[2,3]", {0, -1, -2, -3, -4, -5}},
    {"-x", "f32[2,3]", {0, -1, -2, -3, -4, -5}},
    {"x / 2", "f32[2,3]", {0, .5, 1, 1.5, 2, 2.5}},
    {"x ^ 2", "f32[2,3]", {0, 1, 4, 9, 16, 25}},
    {"x % 2", "f32[2,3]", {0, 1, 0, 1, 0, 1}},
    {"i // 2", "i64[2,3]", {0, 0, 1, 1, 2, 2}},
    {"i & 1", "i64[2,3]", {0, 1, 0, 1, 0, 1}},
    {"i | 4", "i64[2,3]", {4, 5, 6, 7, 4, 5}},
    {"i ~ 1", "i64[2,3]", {1, 0, 3, 2, 5, 4}},
    {"~i", "i64[2,3]", {-1, -2, -3, -4, -5, -6}},
    {"i << 2", "i64[2,3]", {0, 4, 8, 12, 16, 20}},
    {"i >> 1", "i64[2,3]", {0, 0, 1, 1, 2, 2}},
    {"b", "bool[2,3]", {0, 0, 0, 1, 1, 1}},
    {"~b", "bool[2,3]", {1, 1, 1, 0, 0, 0}},
    {"b:logical_and(x:lt(5))", "bool[2,3]", {0, 0, 0, 1, 1, 0}},
    {"b:logical_or(x:eq(0))", "bool[2,3]", {1, 0, 0, 1, 1, 1}},
    {"x:ne(1)", "bool[2,3]", {1, 0, 1, 1, 1, 1}},
    {"x:ge(4)", "bool[2,3]", {0, 0, 0, 0, 1, 1}},
    {"x:le(1)", "bool[2,3]", {1, 1, 0, 0, 0, 0}},
    {"g:where(b, x, -1)", "f32[2,3]", {-1, -1, -1, 3, 4, 5}},
    {"b:where(7, x)", "f32[2,3]", {0, 1, 2, 7, 7, 7}},
    {"g:minimum(3, x)", "f32[2,3]", {0, 1, 2, 3, 3, 3}},
    {"x:maximum(2)", "f32[2,3]", {2, 2, 2, 3, 4, 5}},
    {"x:clamp(1, 4)", "f32[2,3]", {1, 1, 2, 3, 4, 4}},
    {"x:clamp(nil, 2)", "f32[2,3]", {0, 1, 2, 2, 2, 2}},
    {"(x - 2):abs()", "f32[2,3]", {2, 1, 0, 1, 2, 3}},
    {"(x - 2):sign()", "f32[2,3]", {-1, -1, 0, 1, 1, 1}},
    {"(x - 2):relu()", "f32[2,3]", {0, 0, 0, 1, 2, 3}},
    {"x:exp():log()", "f32[2,3]", {0, 1, 2, 3, 4, 5}},
    {"x:exp2():log2()", "f32[2,3]", {0, 1, 2, 3, 4, 5}},
    {"(x * x):sqrt()", "f32[2,3]", {0, 1, 2, 3, 4, 5}},
    {"(x + 1):rsqrt() ^ -2", "f32[2,3]", {1, 2, 3, 4, 5, 6}},
    {"(x + 1):reciprocal() * 60", "f32[2,3]", {60, 30, 20, 15, 12, 10}},
    {"x:sin() ^ 2 + x:cos() ^ 2", "f32[2,3]", {1, 1, 1, 1, 1, 1}},
    {"x:tanh() - (2 * (2 * x):sigmoid() - 1)", "f32[2,3]", {0}},
    {"x:gelu() - x * ((x / math.sqrt(2)):erf() + 1) / 2", "f32[2,3]", {0}},
    {"(x / 2):floor()", "f32[2,3]", {0, 0, 1, 1, 2, 2}},
    {"(x / 2):ceil()", "f32[2,3]", {0, 1, 1, 2, 2, 3}},
    {"(x / 2):round()", "f32[2,3]", {0, 0, 1, 2, 2, 2}},
    {"x:to(\"i32\") + 1", "i32[2,3]", {1, 2, 3, 4, 5, 6}},
    {"x:sum()", "f32[]", {15}},
    {"x:sum(0)", "f32[3]", {3, 5, 7}},
    {"x:mean(-1, true)", "f32[2,1]", {1, 4}},
    {"x:amax({0, 1})", "f32[]", {5}},
    {"x:amin(1)", "f32[2]", {0, 3}},
    {"(x + 1):prod(1)", "f32[2]", {6, 120}},
    {"x:var(1)", "f32[2]", {1, 1}},
    {"x:var(1, true, 0)", "f32[2,1]", {2. / 3, 2. / 3}},
    {"x:argmax(1)", "i64[2]", {2, 2}},
    {"x:argmax()", "i64[]", {5}},
    {"x:argmin(0)", "i64[3]", {0, 0, 0}},
    {"x:cumsum(1)", "f32[2,3]", {0, 1, 3, 3, 7, 12}},
    {"x:cumprod(0)", "f32[2,3]", {0, 1, 2, 0, 4, 10}},
    {"x:view(3, -1)", "f32[3,2]", {0, 1, 2, 3, 4, 5}},
    {"x:reshape({6})", "f32[6]", {0, 1, 2, 3, 4, 5}},
    {"x:unsqueeze(1):flatten(0, 1)", "f32[2,3]", {0, 1, 2, 3, 4, 5}},
    {"x:view(1, 6, 1):squeeze()", "f32[6]", {0, 1, 2, 3, 4, 5}},
    {"x:view(1, 6, 1):squeeze(0)", "f32[6,1]", {0, 1, 2, 3, 4, 5}},
    {"x:unsqueeze(-1)", "f32[2,3,1]", {0, 1, 2, 3, 4, 5}},
    {"x:permute(1, 0)", "f32[3,2]", {0, 3, 1, 4, 2, 5}},
    {"x:transpose(-2, -1)", "f32[3,2]", {0, 3, 1, 4, 2, 5}},
    {"x:t()", "f32[3,2]", {0, 3, 1, 4, 2, 5}},
    {"x:slice(1, 0, nil, 2)", "f32[2,2]", {0, 2, 3, 5}},
    {"x:slice(1, -2)", "f32[2,2]", {1, 2, 4, 5}},
    {"x:narrow(1, 1, 2)", "f32[2,2]", {1, 2, 4, 5}},
    {"x:select(0, -1)", "f32[3]", {3, 4, 5}},
    {"x:unbind(1)[3]", "f32[2]", {2, 5}},
    {"x:split(2, 1)[2]", "f32[2,1]", {2, 5}},
    {"x:split({1, 2}, 1)[2]", "f32[2,2]", {1, 2, 4, 5}},
    {"x:chunk(2, 1)[1]", "f32[2,2]", {0, 1, 3, 4}},
    {"x:sum(0, true):expand(2, -1)", "f32[2,3]", {3, 5, 7, 3, 5, 7}},
    {"x:sum(1, true):expand_as(x)", "f32[2,3]", {3, 3, 3, 12, 12, 12}},
    {"x:sum(1):pad({1, 0}, 9)", "f32[3]", {9, 3, 12}},
    {"x:flip(1)", "f32[2,3]", {2, 1, 0, 5, 4, 3}},
    {"x:unfold(1, 2)", "f32[2,2,2]", {0, 1, 1, 2, 3, 4, 4, 5}},
    {"x:view(6):unfold(-1, 3, 2)", "f32[2,3]", {0, 1, 2, 2, 3, 4}},
    {"g:grad((x:unfold(1, 2) * 2):sum(), x)[1]", "f32[2,3]", {2, 4, 2, 2, 4, 2}},
    {"x:detach() + g:grad((x * x:detach()):sum(), x)[1]", "f32[2,3]", {0, 2, 4, 6, 8, 10}},
    {"x:matmul(x:t())", "f32[2,2]", {5, 14, 14, 50}},
    {"x:matmul(x:t(), { precision = \"tf32\" })", "f32[2,2]", {5, 14, 14, 50}},
    {"x:matmul(x:select(0, 0))", "f32[2]", {5, 14}},
    {"x:select(1, 0):matmul(x)", "f32[3]", {9, 12, 15}},
    {"x:embedding(g:arange(2) * 0 + 1)", "f32[2,3]", {3, 4, 5, 3, 4, 5}},
    {"x:index_add(g:arange(2) * 0, 2)", "f32[2,3]", {3, 5, 7}},
    {"g:cat({x, x}, 1):select(0, 0)", "f32[6]", {0, 1, 2, 0, 1, 2}},
    {"g:stack({x:select(0, 0), x:select(0, 1)}, 1)", "f32[3,2]", {0, 3, 1, 4, 2, 5}},
    {"g:full({2}, 3) + g:zeros({2}) + g:ones({2}) + g:const(1)", "f32[2]", {5, 5}},
    {"g:full({2}, true, \"bool\")", "bool[2]", {1, 1}},
    {"x:size(1) * x:dim() + x:numel() + x.shape[1] + g:zeros({1})", "f32[1]", {14}},
    {"g:rand({2}, \"f32\", { dist = \"constant\", value = 2 })", "f32[2]", {2, 2}},
    {"g:input(\"n\", {3}, \"i32\", { low = 4, high = 5 })", "i32[3]", {4, 4, 4}},
    {"g:loop(3, {x}, function(step, a) return a + step:to(\"f32\") end)", "f32[2,3]", {3, 4, 5, 6, 7, 8}},
    {"g:scan({x}, {g:zeros({3})}, function(r, s) return {s + r}, {s} end)[1]", "f32[3]", {3, 5, 7}},
    {"select(2, g:scan({x}, {g:zeros({3})}, function(r, s) return {s + r}, {s + r} end))[1]",
     "f32[2,3]",
     {0, 1, 2, 3, 5, 7}},
};

static void test_ops(void **state)
{
    (void)state;
    fb_str text = {0};
    fb_str_add(&text, "local variants = {}\n");
    size_t n = sizeof ops / sizeof *ops;
    for (size_t k = 0; k < n; k++)
        fb_str_addf(
            &text,
            "variants.v%d = function(g) local i = g:arange(6):view(2, 3) local x = i:to('f32') local b = x:gt(2) "
            "return (%s) end\n",
            (int)k, ops[k].code);
    fb_str_add(&text, "return require 'fusebox'.script { variants = variants }");
    fb_script *s = loaded(fb_str_get(&text));
    for (size_t k = 0; k < n; k++) {
        char variant[16], shape[192];
        snprintf(variant, sizeof variant, "v%d", (int)k);
        values v = evaluate(build(s, variant, NULL), NULL);
        const fb_node *out = fb_node_at(v.g, v.g->outputs[0]);
        if (strcmp(fb_shape_format(&out->shape, out->dtype, shape), ops[k].shape) != 0)
            fail_msg("%s is %s, not %s", ops[k].code, shape, ops[k].shape);
        for (int64_t i = 0; i < fb_shape_elements(&out->shape); i++)
            if (!(fabs(output_at(&v, 0, i) - ops[k].want[i]) < 1e-5))
                fail_msg("%s: element %d is %g, not %g", ops[k].code, (int)i, output_at(&v, 0, i), ops[k].want[i]);
        done(&v);
    }
    fb_script_free(s);
    fb_str_free(&text);
}

/* ---- errors: what fails in the model's line 3 ---- */

static const struct {
    const char *code, *text;
} mistakes[] = {
    {"x:matmul(x)", "script.lua:3: matmul: inner sizes 6 and 4 differ (a: f32[4,6], b: f32[4,6])"},
    {"x + g:ones({5})", "script.lua:3: add: the shapes do not broadcast (a: f32[4,6], b: f32[5])"},
    {"x + g:ones({6}, 'f16')", "script.lua:3: add: f32 and f16 do not mix"},
    {"g:arange(3) + 1.5", "script.lua:3: add: 1.5 is no i64"},
    {"x + 'a'", "script.lua:3: add: a tensor or a number is expected, not string"},
    {"x:view(5, 5)", "script.lua:3: view: 24 elements do not fit shape [5,5]"},
    {"x:mean(2)", "script.lua:3: mean: dimension 2 is not between -2 and 1"},
    {"x:transpose(0, 2)", "script.lua:3: transpose: there is no dimension 2 (x: f32[4,6])"},
    {"x:relu(1)", "script.lua:3: relu takes 1 value, not 2"},
    {"x:nothing()", "script.lua:3: a tensor has no method \"nothing\""},
    {"g:nothing()", "script.lua:3: a graph has no method \"nothing\""},
    {"x:sigmod()", "script.lua:3: a tensor has no method \"sigmod\"; did you mean \"sigmoid\"?"},
    {"g:inptu('y', {4})", "script.lua:3: a graph has no method \"inptu\"; did you mean \"input\"?"},
    {"nn.linaer(x, 3)", "script.lua:3: nn has no function \"linaer\"; did you mean \"linear\"?"},
    {"require 'optim'.adm(g, x, x)", "script.lua:3: optim has no function \"adm\"; did you mean \"adam\"?"},
    {"require 'fusebox'.scirpt {}", "script.lua:3: fusebox has no function \"scirpt\"; did you mean \"script\"?"},
    {"g:stack({x, 1})", "script.lua:3: stack: entry 2 of the list is a number, not a tensor"},
    {"g:stack(x)", "script.lua:3: stack: a list of tensors is expected, not userdata"},
    {"g:input('y', {4}, 'f33')", "script.lua:3: there is no dtype \"f33\""},
    {"g:input('y', 4)", "script.lua:3: input y: a shape like { 4, 256 } is expected, not number"},
    {"g:input('y', {4}, 'f32', {mean = 1, hihg = 2})",
     "script.lua:3: input: unknown option \"hihg\"; did you mean \"high\"?"},
    {"g:input('y', {4}, 'i32')", "script.lua:3: input: integers need { high = … }"},
    {"g:assign(x, x)", "script.lua:3: assign: x is no parameter"},
    {"x:split({3, 3})", "script.lua:3: split: the sizes do not add up to 4"},
    {"x:select(0, 4)", "script.lua:3: select: position 4 is outside dimension 0 of size 4"},
    {"x:pad({1})", "script.lua:3: pad: 1 amounts for 2 dimensions"},
    {"g:scope('s', function() return x:matmul(x) end)", "script.lua:3: matmul: inner sizes"},
    {"g:op('thing', {x}, {}, function() end)", "thing: the op's function returns no tensor"},
    {"g:loop(2, {x}, function() end)", "script.lua:3: loop: the body gives back the 1 tensors that it carries"},
    {"g:scan({x}, {}, function(r) return {}, {r} end, {reverse = true})",
     "script.lua:3: scan: unknown option \"reverse\""},
    {"g:grad(x:sum(), x, {through = 'kept'})",
     "script.lua:3: grad: through is \"stored\" or \"recomputed\", not \"kept\""},
    {"g:grad(x:sum(), x, {truncate = 1.5})", "script.lua:3: grad: truncate is a number of steps, 1 at least"},
    {"g:grad(x:sum(), x, {every = 2})",
     "script.lua:3: grad: every = 2 needs through = \"recomputed\": what is stored is stored"},
    {"g:loop(2, {x}, function(_, a) return a:sum() end)", "loop: carried value 0 begins as f32[4,6] and becomes f32[]"},
    {"g:loop(2, {}, function(s) kept = s end), kept + 1", "is a value inside a loop and cannot be read outside it"},
    {"nn.layer_norm(x, { size = 7 })", "script.lua:3: layer_norm: normalized size 7 is not the last dimension"},
    {"nn.linear(x, 3, { baes = false })", "script.lua:3: linear: unknown option \"baes\""},
    {"nn.linear(x, {})", "script.lua:3: "},
    {"nn.softmax(x, 5)", "script.lua:3: amax: dimension 5"},
    {"undefined.field", "script.lua:3: there is no variable \"undefined\""},
    {"g:ones({ widht }):relu()", "script.lua:3: there is no variable \"widht\""},
    {"g:ones({ maht.pi }):relu()", "script.lua:3: there is no variable \"maht\"; did you mean \"math\"?"},
    {"x:sum({ dmi = 1 })", "script.lua:3: sum: a list of whole numbers has no \"dmi\""},
    {"g:input('y', { n = 4 })", "script.lua:3: input: a list of whole numbers has no \"n\""},
    {"x:view({ 24, m = 1 })", "script.lua:3: view: a list of whole numbers has no \"m\""},
    {"g:ones({ 4, nil, 6 }):relu()", "script.lua:3: ones: "},
    {"error('mine')", "script.lua:3: mine"},
    {"error('')", "script.lua:3: error(…) was called without a message"},
    {"error(' \\n', 0)", "script.lua:3: error(…) was called without a message"},
    {"error()", "script.lua:3: error(…) was called with a nil, not with a message"},
    {"error('script.lua:', 0)", "script.lua:3: script.lua:"},
    {"g:rand({ 2 }, nil, { seed = 0.5 })", "script.lua:3: random: a seed is a whole number, not 0.5"},
    {"g:rand({ 2 }, nil, { seed = 0 / 0 })", "script.lua:3: random: a seed is a whole number, not "},
    {"nil", "script.lua:2: the model returns a nil where a tensor is expected"},
    {"x, x", "output: x is one already"},
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof mistakes / sizeof *mistakes; k++) {
        char text[400];
        snprintf(
            text, sizeof text,
            "local nn = require 'nn'\nreturn function(g) local kept local x = g:input('x', {4, 6})\nreturn %s\nend",
            mistakes[k].code);
        fb_script *s = loaded(text);
        fb_script_build(s, "", NULL);
        fb_script_event e;
        expect(s, &e, FB_SCRIPT_ERROR);
        if (!strstr(e.error.text, mistakes[k].text))
            fail_msg("%s: \"%s\" does not say \"%s\"", mistakes[k].code, e.error.text, mistakes[k].text);
        if (strstr(e.error.text, "script.lua:3:")) assert_int_equal(e.line, 3);
        assert_true(e.id > 0);
        fb_script_event_clear(&e);
        /* The process is as good as before. */
        fb_script_build(s, "nothing_of_that_name", NULL);
        expect_error(s, "no \"nothing_of_that_name\" among its variants", 0);
        fb_script_free(s);
    }
}

static const struct {
    const char *text, *error;
    int line;
} bad_scripts[] = {
    {"return 1", "script.lua: the script returns number, not fb.script", 0},
    {"local x = \n = 2", "script.lua:2: unexpected symbol near '='", 2},
    {"\nerror({})", "script.lua:2: error(…) was called with a table", 2},
    {"return require 'fusebox'.script { variants = {}, model = print }", "give either model", 1},
    {"return require 'fusebox'.script { varaints = {} }", "unknown field \"varaints\"; did you mean \"variants\"?", 1},
    {"local fb = require 'fusebox'\nreturn fb.script { model = print, puzzle = { anwser = print } }",
     "script.lua:2: fb.script: puzzle: unknown field \"anwser\"; did you mean \"answer\"?", 2},
    {"return require 'fusebox'.script { variants = 1 }", "variants is a number, not a table", 1},
    {"return require 'fusebox'.script { variants = {} }", "there is no variant", 0},
    {"return require 'fusebox'.script { variants = { a = 1 } }", "variants.a is a number, not a function", 0},
    {"return require 'fusebox'.script { variants = { ['a b'] = print } }", "\"a b\" is no name", 0},
    {"return require 'fusebox'.script { model = print, params = { n = 1 } }", "params.n is a number, not fb.int", 0},
    {"local fb = require 'fusebox'\nreturn fb.script { model = print, params = { n = fb.int { 5, max = 4 } } }",
     "the standard of parameter n: 5 is more than 4", 0},
    {"local fb = require 'fusebox'\nreturn fb.script { model = print, params = { n = fb.int { 5, mox = 4 } } }",
     "fb.int: unknown field \"mox\"; did you mean \"max\"?", 2},
    {"local fb = require 'fusebox'\nreturn fb.script { model = print, params = { n = fb.int { 1.5 } } }",
     "takes a whole number", 0},
    {"local fb = require 'fusebox'\nreturn fb.script { model = print, params = { n = fb.choice { } } }",
     "nothing to choose from", 2},
    {"local fb = require 'fusebox'\nreturn fb.script { model = print, puzzle = { ask = 'Why?' } }",
     "compare takes two columns", 0},
    {"local fb = require 'fusebox'\nreturn fb.script { model = print, puzzle = { choices = { { 'byets', 'x' } } } }",
     "a choice's key is no part of a waterfall \"byets\"; did you mean \"bytes\"?", 2},
    {"local fb = require 'fusebox'\n"
     "return fb.script { model = print, puzzle = { choices = { { 'bytes', 'x', savse = 'bytes' } } } }",
     "a choice has no field \"savse\"; did you mean \"saves\"?", 2},
    {"local fb = require 'fusebox'\n"
     "return fb.script { model = print, puzzle = { choices = { { 'k', 'x', costs = 'luanches' } } } }",
     "no part of a waterfall \"luanches\"; did you mean \"launches\"?", 2},
    {"local fb = require 'fusebox'\nreturn fb.script { model = print, puzzle = { answer = 1 } }",
     "puzzle.answer is a number", 0},
    {"return require 'fusebox'.script { model = print, plans = { max = print } }", "plan max has the name of a preset",
     0},
    {"local fb = require 'fusebox' return fb.script { model = print, params = { plan = fb.int(1) } }",
     "a parameter cannot be called plan", 0},
    {"\33Lua", "script.lua: attempt to load a binary chunk", 0},
};

/* What has no number is one value, whatever sign the machine gave it: the front finds the graph that was announced. */
static void test_nan(void **state)
{
    (void)state;
    fb_graph *g = graph_of("return function(g) local z, x = g:zeros({}), g:input('x', {2})\n"
                           "return x + z / z, x - -(z / z), x * g:const(0 / 0), x * g:const(-(0 / 0)) end");
    int nans = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) nans += g->nodes[i].op == FB_OP_CONST && isnan(g->nodes[i].attrs->value);
    assert_int_equal(nans, 1);
    fb_graph_free(g);
}

static void test_bad_scripts(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof bad_scripts / sizeof *bad_scripts; k++) {
        fb_script *s = start(bad_scripts[k].text);
        expect_error(s, bad_scripts[k].error, bad_scripts[k].line);
        /* One error, then the script is gone, and says so to whoever asks. */
        int64_t id = fb_script_build(s, "", NULL);
        fb_script_event e;
        expect(s, &e, FB_SCRIPT_ERROR);
        assert_int_equal(e.id, id);
        fb_script_event_clear(&e);
        fb_script_free(s);
    }
    fb_error err = {0};
    assert_null(fb_script_start("/nonexistent/script.lua", NULL, &err));
    assert_non_null(strstr(err.text, "/nonexistent/script.lua: No such file"));
}

/* ---- what a script says of itself, and its parameters ---- */

static const char declared[] =
    "local fb = require 'fusebox'\n"
    "return fb.script {\n"
    "  title = 'A title',\n"
    "  params = {\n"
    "    zeta = fb.int { 8, min = 1, max = 64, step = 'x2', help = 'rows' },\n"
    "    alpha = fb.float { 0.5, step = 0.25 },\n"
    "    dtype = fb.choice { 'f32', 'f16', default = 'f16' },\n"
    "    flag = fb.bool(true),\n"
    "  },\n"
    "  variants = {\n"
    "    second_by_name = function(g, p) return g:input('x', { p.zeta }, p.dtype) * p.alpha end,\n"
    "    first_by_name = function(g, p) return g:input('x', { p.flag and 1 or 2 }):relu() end,\n"
    "  },\n"
    "  plans = { mine = function(pl) end },\n"
    "  columns = { 'second_by_name:eager' },\n"
    "  experiment = function(e) end,\n"
    "  puzzle = { compare = { 'a:eager', 'b:eager' }, ask = 'Why?', choices = { { 'k', 'text' } }, hints = { 'h1', "
    "'h2' },\n"
    "    answer = function(why) return why:largest() end, tell = 'Because.' },\n"
    "}\n";

static void test_info(void **state)
{
    (void)state;
    fb_script *s = start(declared);
    fb_script_info *i = expect_info(s);
    assert_string_equal(i->title, "A title");
    assert_int_equal(i->n_params, 4); /* in the order of the text */
    assert_string_equal(i->params[0].name, "zeta");
    assert_string_equal(i->params[0].help, "rows");
    assert_string_equal(i->params[0].step, "x2");
    assert_true(i->params[0].min == 1 && i->params[0].max == 64);
    assert_int_equal(json_integer_value(i->params[0].standard), 8);
    assert_string_equal(i->params[1].step, "0.25");
    assert_true(isnan(i->params[1].min));
    assert_int_equal(i->params[2].n_choices, 2);
    assert_string_equal(json_string_value(i->params[2].standard), "f16");
    assert_true(json_is_true(i->params[3].standard));
    assert_int_equal(i->n_variants, 2);
    assert_string_equal(i->variants[0], "second_by_name");
    assert_int_equal(i->n_plans, 1);
    assert_string_equal(i->columns[0], "second_by_name:eager");
    assert_true(i->experiment);
    assert_string_equal(i->puzzle->compare[1], "b:eager");
    assert_string_equal(i->puzzle->choice_keys[0], "k");
    assert_int_equal(i->puzzle->n_hints, 2);
    assert_true(i->puzzle->has_answer);
    fb_script_info_free(i);
    fb_script_free(s);
}

static void test_params(void **state)
{
    (void)state;
    fb_script *s = start_with(declared, "{\"zeta\":[16,32],\"dtype\":\"f32\"}"); /* of a sweep, the first value */
    fb_script_info *i = expect_info(s);
    assert_int_equal(json_integer_value(i->params[0].standard), 16);
    fb_script_info_free(i);
    fb_graph *g = build(s, "second_by_name", NULL);
    assert_int_equal(g->nodes[g->outputs[0]].shape.dim[0], 16);
    assert_int_equal(g->nodes[g->outputs[0]].dtype, FB_F32);
    fb_graph_free(g);
    g = build(s, "second_by_name", "{\"zeta\":4,\"dtype\":\"f16\"}");
    assert_int_equal(g->nodes[g->outputs[0]].shape.dim[0], 4);
    assert_int_equal(g->nodes[g->outputs[0]].dtype, FB_F16);
    fb_graph_free(g);
    static const struct {
        const char *params, *error;
    } bad[] = {
        {"{\"zeta\":65}", "parameter zeta: 65 is more than 64"},
        {"{\"zeta\":0}", "parameter zeta: 0 is less than 1"},
        {"{\"zeta\":\"a\"}", "parameter zeta takes a whole number"},
        {"{\"dtype\":\"f64\"}", "\"f64\" is none of f32, f16"},
        {"{\"flag\":1}", "parameter flag is true or false"},
        {"{\"beta\":1}", "there is no parameter \"beta\""},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        json_t *params = fb_json_parse(bad[k].params, strlen(bad[k].params), NULL);
        fb_script_build(s, "first_by_name", params);
        json_decref(params);
        expect_error(s, bad[k].error, 0);
    }
    fb_script_free(s);
    s = start_with(declared, "{\"beta\":1}");
    expect_error(s, "there is no parameter \"beta\"", 0);
    fb_script_free(s);
}

/* A field of a table that is not there is nil, and another model than was meant would be built. */
static void test_misspelt_param(void **state)
{
    (void)state;
    fb_script *s = loaded("local fb = require 'fusebox'\nreturn fb.script { params = { width = fb.int { 8 } },\n"
                          "variants = { a = function(g, p)\nreturn g:ones({ p.widht or 4 }):relu() end,\n"
                          "b = function(g, p) for i in ipairs(p) do end return g:ones({ p.width }):relu() end,\n"
                          "c = function(g, p) p.widht = 4 return g:ones({ p.width }):relu() end } }");
    fb_script_build(s, "a", NULL);
    expect_error(s, "script.lua:4: there is no parameter \"widht\"; did you mean \"width\"?", 4);
    fb_script_build(s, "c", NULL);
    expect_error(s, "script.lua:6: there is no parameter \"widht\"; did you mean \"width\"?", 6);
    fb_graph_free(build(s, "b", NULL));
    fb_script_free(s);
}

/* ---- scopes, outputs, requests one after the other ---- */

static void test_scopes(void **state)
{
    (void)state;
    fb_graph *g = graph_of(
        "local nn = require 'nn'\n"
        "return function(g)\n"
        "  local x = g:input('x', { 8, 4 })\n"
        "  for i = 1, 2 do g:scope('feature', i, function() x = nn.layer_norm(x, { eps = 0 }):tanh() end) end\n"
        "  return { last = nn.linear(x, 1), first = x }\n"
        "end\n");
    assert_true(fb_graph_find(g, "feature[2].layer_norm.mean") != FB_NONE);
    assert_true(fb_graph_find(g, "feature[2].tanh") != FB_NONE);
    assert_true(fb_graph_find(g, "linear_weight") != FB_NONE);
    bool found = false;
    for (fb_id i = 0; i < g->n_scopes; i++) {
        if (strcmp(g->scopes[i].path, "feature[1].layer_norm") != 0) continue;
        found = true;
        assert_int_equal(g->scopes[i].kind, FB_SCOPE_OP);
        assert_string_equal(g->scopes[i].op, "layer_norm");
        assert_string_equal(g->scopes[i].attrs, "{\"eps\":0,\"normalized_shape\":[4]}");
        assert_int_equal(g->scopes[i].n_args, 1);
        assert_string_equal(g->nodes[g->scopes[i].args[0]].name, "x");
        assert_int_equal(g->scopes[i].line, 4);
    }
    assert_true(found);
    /* Named results in the order they were computed in. */
    assert_int_equal(g->n_outputs, 2);
    assert_string_equal(g->output_names[0], "first");
    assert_string_equal(g->output_names[1], "last");
    fb_graph_free(g);
}

static void test_log(void **state)
{
    (void)state;
    fb_script *s =
        start("print('one', 2, nil)\nprint('two\\nthree\\27[2J')\nreturn function(g) return g:ones({1}):relu() end");
    static const char *const lines[] = {"one\t2\tnil", "two", "three"};
    fb_script_event e;
    for (int i = 0; i < 3; i++) {
        assert_true(next_event_of(s, &e, LIMIT_MS, true));
        assert_int_equal(e.kind, FB_SCRIPT_LOG);
        assert_memory_equal(e.text, lines[i], i ? strlen(lines[i]) : 3);
        assert_null(strchr(e.text, 27));
        fb_script_event_clear(&e);
    }
    fb_script_info_free(expect_info(s));
    fb_script_free(s);
    s = start("for i = 1, 3000 do print(i) end return function(g) return g:ones({1}):relu() end");
    int logs = 0;
    while (next_event_of(s, &e, LIMIT_MS, true) && e.kind == FB_SCRIPT_LOG) {
        logs++;
        if (strstr(e.text, "more was printed")) logs += 100000;
        fb_script_event_clear(&e);
    }
    assert_int_equal(logs, 100000 + FB_PROCESS_PRINTS + 1);
    fb_script_event_clear(&e);
    fb_script_free(s);
}

/* ---- nn against formulas ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double dot(const double *a, int stride_a, const double *b, int stride_b, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += a[i * stride_a] * b[i * stride_b];
    return s;
}

static values of_nn(const char *body)
{
    char text[1200];
    snprintf(text, sizeof text,
             "local nn, optim = require 'nn', require 'optim'\nreturn function(g)\nlocal x = g:input('x', {3, 4}, "
             "'f32', {dist = "
             "'normal'})\n%s\nend",
             body);
    return evaluate(graph_of(text), NULL);
}

static void test_linear(void **state)
{
    (void)state;
    values v = of_nn("return nn.linear(x, 5)");
    const double *x = named(&v, "x"), *w = named(&v, "linear_weight"), *b = named(&v, "linear_bias");
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 5; c++) near(output_at(&v, 0, r * 5 + c), dot(x + 4 * r, 1, w + 4 * c, 1, 4) + b[c]);
    for (int i = 0; i < 20; i++) assert_true(fabs(w[i]) <= 0.5); /* 1 / sqrt(4) */
    done(&v);
    v = of_nn("return nn.addmm(g:param('b', {2}), x, g:param('m', {4, 2}))");
    x = named(&v, "x");
    for (int i = 0; i < 6; i++)
        near(output_at(&v, 0, i), dot(x + 4 * (i / 2), 1, named(&v, "m") + i % 2, 2, 4) + named(&v, "b")[i % 2]);
    done(&v);
    v = of_nn("return nn.mlp(x, {6, 2})");
    x = named(&v, "x");
    for (int r = 0; r < 3; r++) {
        double hidden[6];
        for (int c = 0; c < 6; c++)
            hidden[c] = fmax(0, dot(x + 4 * r, 1, named(&v, "fc1_weight") + 4 * c, 1, 4) + named(&v, "fc1_bias")[c]);
        for (int c = 0; c < 2; c++)
            near(output_at(&v, 0, 2 * r + c),
                 dot(hidden, 1, named(&v, "fc2_weight") + 6 * c, 1, 6) + named(&v, "fc2_bias")[c]);
    }
    done(&v);
}

static void test_layer_norm(void **state)
{
    (void)state;
    static const double eps[] = {0, 1e-5, 0.1};
    static const char *const body[] = {"return nn.layer_norm(x, { eps = 0 })",
                                       "return nn.layer_norm(x, { affine = true })",
                                       "return nn.layer_norm(x, { eps = 0.1 })"};
    for (int k = 0; k < 3; k++) {
        values v = of_nn(body[k]);
        const double *x = named(&v, "x");
        for (int r = 0; r < 3; r++) {
            double mean = 0, var = 0;
            for (int c = 0; c < 4; c++) mean += x[4 * r + c] / 4;
            for (int c = 0; c < 4; c++) var += (x[4 * r + c] - mean) * (x[4 * r + c] - mean) / 4;
            for (int c = 0; c < 4; c++) near(output_at(&v, 0, 4 * r + c), (x[4 * r + c] - mean) / sqrt(var + eps[k]));
        }
        done(&v);
    }
}

static void test_activations(void **state)
{
    (void)state;
    values v = of_nn("return nn.gelu(x), nn.silu(x), nn.relu(x), nn.softmax(x), nn.softmax(x, 0)");
    const double *x = named(&v, "x");
    for (int i = 0; i < 12; i++) {
        double row = 0, column = 0;
        for (int c = 0; c < 4; c++) row += exp(x[i / 4 * 4 + c]);
        for (int r = 0; r < 3; r++) column += exp(x[4 * r + i % 4]);
        near(output_at(&v, 0, i), x[i] * (1 + erf(x[i] / sqrt(2))) / 2);
        near(output_at(&v, 1, i), x[i] * sigmoid(x[i]));
        near(output_at(&v, 2, i), x[i] > 0 ? x[i] : 0);
        near(output_at(&v, 3, i), exp(x[i]) / row);
        near(output_at(&v, 4, i), exp(x[i]) / column);
    }
    done(&v);
}

static void test_embedding(void **state)
{
    (void)state;
    values v =
        of_nn("local e = nn.embedding(g:input('index', {5}, 'i64', { high = 7 }), 7, 4) return e + x:select(0, 0) * 0");
    const fb_tensor *index = fb_interp_get(v.in, fb_graph_find(v.g, "index"));
    for (int i = 0; i < 20; i++) near(output_at(&v, 0, i), named(&v, "embedding_weight")[4 * index->i[i / 4] + i % 4]);
    done(&v);
}

static void test_attention(void **state)
{
    (void)state;
    static const char *const masks[] = {"nil", "g:arange(3):unsqueeze(1):ge(g:arange(5))", "g:arange(5):to('f32')"};
    for (int m = 0; m < 3; m++) {
        char body[300];
        snprintf(body, sizeof body,
                 "local k, w = g:input('k', {5, 4}), g:input('w', {5, 2})\nreturn nn.attention(x, k, w, { mask = %s })",
                 masks[m]);
        values v = of_nn(body);
        const double *x = named(&v, "x"), *k = named(&v, "k"), *w = named(&v, "w");
        for (int r = 0; r < 3; r++) {
            double p[5], sum = 0;
            for (int j = 0; j < 5; j++) {
                double score = dot(x + 4 * r, 1, k + 4 * j, 1, 4) / 2;
                p[j] = m == 1 && r < j ? 0 : exp(score + (m == 2 ? j : 0));
                sum += p[j];
            }
            for (int c = 0; c < 2; c++) near(output_at(&v, 0, 2 * r + c), dot(p, 1, w + c, 2, 5) / sum);
        }
        done(&v);
    }
}

/* Head by head and layer by layer, from the weights that the layer gives back. */
static void test_encoder_layer(void **state)
{
    (void)state;
    values v = of_nn("local y, w = nn.encoder_layer(x:view(1, 3, 4), { heads = 2, hidden = 5 })\n"
                     "local function project(row)\n"
                     "  return x:matmul(w[1]:slice(0, row, row + 2):t()) + w[2]:slice(0, row, row + 2)\n"
                     "end\n"
                     "local heads = {}\n"
                     "for h = 0, 1 do\n"
                     "  local p = (project(2 * h):matmul(project(4 + 2 * h):t()) / math.sqrt(2)):exp()\n"
                     "  heads[h + 1] = (p / p:sum(1, true)):matmul(project(8 + 2 * h))\n"
                     "end\n"
                     "local function norm(z, scale, shift)\n"
                     "  z = z - z:mean(1, true)\n"
                     "  return z / ((z * z):mean(1, true) + 1e-5):sqrt() * scale + shift\n"
                     "end\n"
                     "local z = norm(x + g:cat(heads, 1):matmul(w[3]:t()) + w[4], w[5], w[6])\n"
                     "z = norm(z + (z:matmul(w[7]:t()) + w[8]):relu():matmul(w[9]:t()) + w[10], w[11], w[12])\n"
                     "assert(#w == 12)\n"
                     "return y, z");
    for (int i = 0; i < 12; i++) near(output_at(&v, 0, i), output_at(&v, 1, i));
    done(&v);
}

/* Modules in PyTorch's names: their weights are there before a call, and another call shares them. */
static void test_modules(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "local net = nn.Sequential(nn.Linear(4, 5), nn.Sigmoid(), nn.Linear(5, 4, { bias = false }), nn.LayerNorm(4))\n"
        "local w = net:parameters(g)\nassert(#w == 5 and w[3].name == 'sequential3_weight')\n"
        "local h = (x:matmul(w[1]:t()) + w[2]):sigmoid():matmul(w[3]:t())\nassert(#net:parameters() == 5)\n"
        "return net(net(x)), net(nn.layer_norm(h, { weight = w[4], bias = w[5] }))",
        "local layer, seq = nn.TransformerEncoderLayer(4, 2, { dim_feedforward = 5 }), x:view(1, 3, 4)\n"
        "local net = nn.TransformerEncoder(layer, 2)\nlocal y, w = net(seq), net:parameters()\nassert(#w == 24)\n"
        "assert(w[1].shape[1] == 12 and w[7].name == 'layers1_linear1_weight' and w[19].name == "
        "'layers2_linear1_weight')\n"
        "local z = nn.encoder_layer(seq, { heads = 2, hidden = 5, weights = w })\n"
        "return y, (nn.encoder_layer(z, { heads = 2, hidden = 5, weights = table.move(w, 13, 24, 1, {}) }))",
        "local function act(m, f) return m()(x) - f(x) end\n"
        "local off = act(nn.ReLU, x.relu) + act(nn.GELU, x.gelu) + act(nn.Tanh, x.tanh) + act(nn.SiLU, nn.silu)\n"
        "off = off + act(nn.Mish, nn.mish) + nn.Softplus(2, 20)(x) - x:softplus(2, 20) + nn.ELU(0.5)(x) - x:elu(0.5)\n"
        "return off, x * 0",
    };
    for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
        values v = of_nn(bodies[k]);
        for (int i = 0; i < 12; i++) near(output_at(&v, 0, i), output_at(&v, 1, i));
        done(&v);
    }
}

/* The autodiff document's loop: a net of modules, SGD in its names, and the parameters when the steps are over. The
 * outputs' sum falls by 1 for each of 3 rows and each step, times 0.5. */
static void test_document_loop(void **state)
{
    (void)state;
    values v = of_nn("local net = nn.Sequential(nn.Linear(4, 5), nn.Sigmoid(), nn.Linear(5, 2))\n"
                     "local opt = optim.SGD(net, { lr = 0.5 })\n"
                     "local _, _, W, b = g:loop(4, net:parameters(g), function(_, ...)\n"
                     "local now = { ... }\nreturn table.unpack(opt:step(net(x, now), now))\nend)\n"
                     "return b, W");
    for (int i = 0; i < 2; i++) near(output_at(&v, 0, i), named(&v, "sequential3_bias")[i] - 4 * 3 * 0.5);
    bool moved = false;
    for (int i = 0; i < 10; i++) moved |= fabs(output_at(&v, 1, i) - named(&v, "sequential3_weight")[i]) > 0.1;
    assert_true(moved);
    done(&v);
}

static void test_cells(void **state)
{
    (void)state;
    values v = of_nn("local h, c = g:input('h', {3, 2}), g:input('c', {3, 2})\nreturn nn.lstm_cell(x, h, c)");
    for (int r = 0; r < 3; r++)
        for (int j = 0; j < 2; j++) {
            double gate[4];
            for (int k = 0; k < 4; k++) {
                int row = 2 * k + j;
                gate[k] = dot(named(&v, "x") + 4 * r, 1, named(&v, "lstm_cell_weight_ih") + 4 * row, 1, 4) +
                          named(&v, "lstm_cell_bias_ih")[row] +
                          dot(named(&v, "h") + 2 * r, 1, named(&v, "lstm_cell_weight_hh") + 2 * row, 1, 2) +
                          named(&v, "lstm_cell_bias_hh")[row];
            }
            double c = sigmoid(gate[1]) * named(&v, "c")[2 * r + j] + sigmoid(gate[0]) * tanh(gate[2]);
            near(output_at(&v, 0, 2 * r + j), sigmoid(gate[3]) * tanh(c));
            near(output_at(&v, 1, 2 * r + j), c);
        }
    done(&v);
    v = of_nn("local h = g:input('h', {3, 2})\nreturn nn.gru_cell(x, h)");
    for (int r = 0; r < 3; r++)
        for (int j = 0; j < 2; j++) {
            double a[3], b[3];
            for (int k = 0; k < 3; k++) {
                int row = 2 * k + j;
                a[k] = dot(named(&v, "x") + 4 * r, 1, named(&v, "gru_cell_weight_ih") + 4 * row, 1, 4) +
                       named(&v, "gru_cell_bias_ih")[row];
                b[k] = dot(named(&v, "h") + 2 * r, 1, named(&v, "gru_cell_weight_hh") + 2 * row, 1, 2) +
                       named(&v, "gru_cell_bias_hh")[row];
            }
            double n = tanh(a[2] + sigmoid(a[0] + b[0]) * b[2]), z = sigmoid(a[1] + b[1]);
            near(output_at(&v, 0, 2 * r + j), (1 - z) * n + z * named(&v, "h")[2 * r + j]);
        }
    done(&v);
}

/* ---- bundled scripts ---- */

/* What the variants of a script give is the same, but for those named `apart`. */
static void test_bundled(void **state)
{
    (void)state;
    static const struct {
        const char *path, *set;
        int variants;
        const char *apart;
    } scripts[] = {
        {"scripts/puzzlers/split_stack.lua", "{\"batch_size\":64,\"input_dim\":8,\"num_inputs\":4}", 2, ""},
        {"scripts/puzzlers/split_stack_compiled.lua", "{\"batch_size\":64,\"input_dim\":8,\"num_inputs\":4}", 2, ""},
        {"scripts/puzzlers/launch_order.lua", "{\"blocks\":3,\"size\":10}", 2, ""},
        {"scripts/puzzlers/transpose.lua", "{\"rows\":6,\"columns\":5}", 5, "straight by_row by_column"},
        {"scripts/models/basecaller.lua", "{\"N\":2,\"T\":3,\"H\":6,\"layers\":2,\"state_len\":1}", 3, ""},
        {"scripts/models/add_relu.lua", "{\"rows\":4,\"columns\":8}", 1, ""},
        {"scripts/models/dlrm.lua", "{\"batch\":2,\"rows\":5,\"size\":2}", 4, "outer train lecture"},
        {"scripts/models/dlrm.lua", "{\"data\":\"csv\",\"rows\":5,\"size\":2}", 4, "outer train lecture"},
        {"scripts/models/dlrm.lua", "{\"data\":\"npy\",\"rows\":5,\"size\":2,\"hash\":\"index_match\"}", 4,
         "outer train lecture"},
        {"scripts/models/gru.lua", "{\"N\":2,\"T\":6,\"H\":4,\"I\":5,\"block\":3}", 6, "cell gates hoisted"},
        {"scripts/models/lstm.lua", "{\"N\":2,\"T\":3,\"H\":4,\"I\":5}", 9, "batch_first combined"},
        {"scripts/models/lstm_step.lua", "{\"N\":4,\"H\":6,\"I\":5}", 4, "cat"}, /* cat has its weights side by side */
        {"scripts/models/lora_network.lua", "{\"batch\":3}", 4, "train"},
        {"scripts/models/lora_mlp.lua", "{\"batch\":8,\"inputs\":16,\"outputs\":12,\"rank\":2}", 2, ""},
        {"scripts/models/add_mul_relu.lua", "{\"rows\":4,\"columns\":8}", 1, ""},
        {"scripts/models/mlp_train.lua", "{\"batch\":3,\"inputs\":5,\"hidden\":4,\"outputs\":2}", 2, ""},
        {"scripts/models/lstm_train.lua", "{\"T\":4,\"N\":3,\"H\":4,\"truncate\":3}", 6, ""},
        {"scripts/models/lstm_scan.lua", "{\"T\":3,\"N\":4,\"H\":6}", 3, ""},
        {"scripts/models/mlp_loop.lua", "{\"steps\":1,\"batch\":3,\"inputs\":5,\"hidden\":4,\"outputs\":2}", 4,
         "assigned fed document"},
        {"scripts/models/layer_norm.lua", "{\"rows\":4,\"columns\":8}", 1, ""},
        {"scripts/models/softmax.lua", "{\"rows\":4,\"columns\":8}", 1, ""},
        {"scripts/models/mlp_two_layer.lua", "{\"rows\":5,\"inputs\":3,\"hidden\":7,\"outputs\":2}", 1, ""},
        {"scripts/models/attention.lua", "{\"heads\":2,\"seq\":5,\"head_dim\":3}", 1, ""},
    };
    assert_int_equal(chdir(scratch), 0); /* no such files here: they come out of the binary */
    for (size_t k = 0; k < sizeof scripts / sizeof *scripts; k++) {
        fb_error err = {0};
        json_t *set = fb_json_parse(scripts[k].set, strlen(scripts[k].set), NULL);
        fb_script *s = fb_script_start(scripts[k].path, set, &err);
        json_decref(set);
        if (!s) fail_msg("%s", err.text);
        fb_script_info *info = expect_info(s);
        assert_int_equal(info->n_variants, scripts[k].variants);
        values first = {0};
        for (int i = 0; i < info->n_variants; i++) {
            values v = evaluate(build(s, info->variants[i], NULL), s);
            bool apart = info->variants[i][0] && strstr(scripts[k].apart, info->variants[i]);
            int64_t n = apart ? 0 : fb_shape_elements(&fb_node_at(v.g, v.g->outputs[0])->shape);
            for (int64_t at = 0; first.g && at < n; at++) near(output_at(&v, 0, at), output_at(&first, 0, at));
            if (apart || first.g)
                done(&v);
            else
                first = v;
        }
        done(&first);
        fb_script_info_free(info);
        fb_script_free(s);
    }
}

/* Every sweep of a bundled script goes through, also where nothing could be measured. */
static void test_bundled_experiments(void **state)
{
    (void)state;
    for (int i = 0; fb_embedded_files[i].path; i++) {
        const char *path = fb_embedded_files[i].path;
        if (strncmp(path, "scripts/models/", 15) != 0 && strncmp(path, "scripts/puzzlers/", 17) != 0) continue;
        if (strcmp(path + strlen(path) - 4, ".lua") != 0) continue;
        fb_error err = {0};
        fb_script *s = fb_script_start(path, NULL, &err);
        if (!s) fail_msg("%s", err.text);
        fb_script_info *info = expect_info(s);
        int measured = 0, rows = 0, plots = 0;
        bool over = !info->experiment;
        if (!over) fb_script_experiment(s, NULL);
        while (!over) {
            fb_script_event e;
            if (!next_event(s, &e, LIMIT_MS)) fail_msg("%s: no event", path);
            if (e.kind == FB_SCRIPT_ERROR) fail_msg("%s: %s", path, e.error.text);
            bool asked = e.kind == FB_SCRIPT_MEASURE;
            over = e.kind == FB_SCRIPT_DONE;
            rows += e.kind == FB_SCRIPT_ROW;
            plots += e.kind == FB_SCRIPT_PLOT;
            fb_script_event_clear(&e);
            if (!asked) continue;
            json_t *report = measured++ % 3 ? json_pack("{s:{s:f, s:f, s:f, s:i}, s:i}", "wall_us", "median", 10.0,
                                                        "p10", 9.0, "p90", 12.0, "n", 20, "launches", 3)
                                            : json_pack("{s:s}", "failed", "no such device");
            fb_script_measured(s, report);
            json_decref(report);
        }
        if (info->experiment && (!measured || !rows || !plots)) fail_msg("%s: nothing is swept or plotted", path);
        fb_script_info_free(info);
        fb_script_free(s);
    }
}

/* ---- plans ---- */

static json_t *plan_of(fb_script *s, const fb_graph *g, const char *name)
{
    fb_script_event e;
    int64_t id = fb_script_plan(s, g, name, NULL);
    expect(s, &e, FB_SCRIPT_PLAN);
    assert_int_equal(e.id, id);
    json_t *plan = json_incref(json_object_get(e.message, "plan"));
    fb_script_event_clear(&e);
    return plan;
}

static const char planned[] =
    "local fb, nn = require 'fusebox', require 'nn'\n"
    "return fb.script {\n"
    "  model = function(g)\n"
    "    local out = {}\n"
    "    for i, f in ipairs(g:input('x', { 4 * 32 * 16 }):split(32 * 16)) do\n"
    "      g:scope('feature', i, function() out[i] = f:view(32, 16):tanh():exp() end)\n"
    "    end\n"
    "    return g:stack(out):relu()\n"
    "  end,\n"
    "  plans = {\n"
    "    pairs_ = function(pl) pl:fuse('feature[*].tanh', 'feature[*].exp') end,\n"
    "    all = function(pl) pl:fuse('feature[*].tanh', 'feature[*].exp'):fuse_all('feature[*].exp', "
    "'stack'):fuse('stack', 'relu') end,\n"
    "    many = function(pl) pl:fuse('feature[*].exp', 'stack') end,\n"
    "    edges = function(pl)\n"
    "      local n = 0\n"
    "      for e, a, b in pl:edges() do\n"
    "        local v = pl:verdict('fuse', e)\n"
    "        assert(v.kind ~= 'fine' or type(v.saves_us) == 'number') "
    "        assert(type(v.text) == 'string' and #v.text > 0 and pl:verdict('fuse', a, b).kind == v.kind)\n"
    "        n = n + 1\n"
    "      end\n"
    "      assert(n == 9, n)\n"
    "      pl:fuse('feature[*].tanh', 'feature[*].exp') "
    "assert(pl:verdict('fuse', 'feature[1].tanh', 'feature[1].exp').saves_us == 0) pl:preset('none') "
    "assert(#pl:nodes() == 10 and pl:cost().launches == 10)\n"
    "    end,\n"
    "    undone = function(pl) pl:preset('max'):isolate('relu') pl:preset('none') end,\n"
    "    missing = function(pl) pl:fuse('nothing', 'relu') end,\n"
    "    unrelated = function(pl) pl:cut('feature[1].tanh', 'relu') end,\n"
    "    apart = function(pl)\n"
    "      pl:fuse('feature[*].tanh', 'relu')\n"
    "    end,\n"
    "    misspelt = function(pl) pl:fsue('relu', 'exp') end,\n"
    "  },\n"
    "}\n";

static int groups_of(const fb_graph *g, json_t *json)
{
    fb_error err = {0};
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_HOST);
    fb_planner *planner = fb_planner_new(g, &m);
    fb_plan *plan = fb_plan_from_json(planner, json, true, NULL, &err);
    if (!plan) fail_msg("%s", err.text);
    int n = fb_plan_groups(plan);
    fb_plan_free(plan);
    fb_planner_free(planner);
    json_decref(json);
    return n;
}

static void test_plans(void **state)
{
    (void)state;
    fb_script *s = loaded(planned);
    fb_graph *g = build(s, "", NULL);
    assert_int_equal(groups_of(g, plan_of(s, g, "pairs_")), 6);
    assert_int_equal(groups_of(g, plan_of(s, g, "all")), 1);
    assert_int_equal(groups_of(g, plan_of(s, g, "many")), 6);
    assert_int_equal(groups_of(g, plan_of(s, g, "edges")), 10);
    assert_int_equal(groups_of(g, plan_of(s, g, "undone")), 10);
    fb_script_plan(s, g, "missing", NULL);
    expect_error(s, "script.lua:25: fuse: there is no node \"nothing\"", 25);
    fb_script_plan(s, g, "unrelated", NULL);
    expect_error(s, "script.lua:26: cut: ", 26);
    fb_script_plan(s, g, "misspelt", NULL);
    expect_error(s, "script.lua:30: a plan has no method \"fsue\"; did you mean \"fuse\"?", 30);
    fb_script_plan(s, g, "nowhere", NULL);
    expect_error(s, "no \"nowhere\" among its plans", 0);
    fb_graph_free(g);
    fb_script_free(s);
}

/* A graph whose memory was given back is built again for its plan. */
static void test_plan_of_old_graph(void **state)
{
    (void)state;
    fb_script *s = loaded("local fb = require 'fusebox'\nreturn fb.script { params = { n = fb.int { 1 } },\n"
                          "model = function(g, p) return g:input('x', { p.n, 8 }):relu():tanh() end,\n"
                          "plans = { mine = function(pl) pl:fuse('relu', 'tanh') end } }");
    fb_graph *first = build(s, "", "{\"n\":100}");
    for (int n = 1; n < 20; n++) {
        char params[32];
        snprintf(params, sizeof params, "{\"n\":%d}", n);
        fb_graph_free(build(s, "", params));
    }
    assert_int_equal(groups_of(first, plan_of(s, first, "mine")), 1);
    fb_graph_free(first);
    fb_script_free(s);
}

/* ---- experiments ---- */

static const char experimented[] =
    "local fb = require 'fusebox'\n"
    "return fb.script {\n"
    "  params = { n = fb.int { 4, min = 4, max = 16, step = 'x2' }, k = fb.int { 7 }, j = fb.int { 8 } },\n"
    "  variants = { a = function(g, p) return g:input('x', { p.n }):relu() end, b = function(g, p) return g:input('x', "
    "{ p.n }):tanh() end },\n"
    "  plans = { mine = function(pl) end },\n"
    "  experiment = function(e)\n"
    "    for c in e:sweep { plan = { 'eager', 'mine' }, n = '*' } do\n"
    "      local r = e:measure(c)\n"
    "      e:row(c, { us = r.wall_us and r.wall_us.median, failed = r.failed, n = c.n, k = c.k, j = c.j, nan = 0 / 0 "
    "})\n"
    "    end\n"
    "    e:plot { x = 'n', y = 'us', by = 'plan', log = 'xy' }\n"
    "  end,\n"
    "  puzzle = { compare = { 'a:eager', 'b:eager' }, answer = function(why) return why:largest() end },\n"
    "}\n";

static void test_experiment(void **state)
{
    (void)state;
    fb_script *s = loaded(experimented);
    json_t *set = json_pack("{s:i, s:i}", "k", 9, "n", 16);
    int64_t id = fb_script_experiment(s, set);
    json_decref(set);
    fb_script_event e;
    int cases = 0;
    for (;; cases++) {
        if (!next_event(s, &e, LIMIT_MS)) fail_msg("no event");
        if (e.kind != FB_SCRIPT_MEASURE) break;
        assert_int_equal(e.id, id);
        /* Variants, then plans, then sizes, the last fastest; no device where none was named. */
        json_t *params = json_object_get(e.message, "params");
        assert_string_equal(fb_json_string_or(e.message, "variant", ""), cases / 6 ? "b" : "a");
        assert_string_equal(fb_json_string_or(e.message, "plan", ""), cases / 3 % 2 ? "mine" : "eager");
        assert_int_equal(fb_json_int_or(params, "n", 0), 4 << cases % 3);
        assert_null(json_object_get(e.message, "device"));
        /* The front builds and plans while the experiment waits. */
        json_t *copy = json_incref(params);
        fb_script_event other;
        fb_script_build(s, fb_json_string_or(e.message, "variant", ""), copy);
        expect(s, &other, FB_SCRIPT_GRAPH);
        assert_int_equal(other.graph->nodes[0].shape.dim[0], 4 << cases % 3);
        json_decref(plan_of(s, other.graph, "mine"));
        fb_script_event_clear(&other);
        json_decref(copy);
        fb_script_event_clear(&e);
        json_t *report = cases == 5 ? json_pack("{s:s}", "failed", "no compiler")
                                    : json_pack("{s:{s:f}}", "wall_us", "median", 10.0 + cases);
        fb_script_measured(s, report);
        json_decref(report);
        expect(s, &e, FB_SCRIPT_ROW);
        json_t *row = json_object_get(e.message, "row"), *which = json_object_get(e.message, "case");
        assert_int_equal(fb_json_int_or(json_object_get(which, "params"), "n", 0), 4 << cases % 3);
        assert_int_equal(fb_json_int_or(row, "n", 0), 4 << cases % 3);
        /* What is not swept is as it is set, and no part of the case. */
        assert_int_equal(fb_json_int_or(row, "k", 0), 9);
        assert_int_equal(fb_json_int_or(row, "j", 0), 8);
        assert_int_equal(json_object_size(json_object_get(which, "params")), 1);
        assert_true(json_is_null(json_object_get(row, "nan")));
        if (cases == 5)
            assert_string_equal(fb_json_string_or(row, "failed", ""), "no compiler");
        else
            assert_true(fb_json_number_or(row, "us", 0) == 10.0 + cases);
        fb_script_event_clear(&e);
    }
    assert_int_equal(cases, 12);
    assert_int_equal(e.kind, FB_SCRIPT_PLOT);
    assert_string_equal(fb_json_string_or(e.message, "log", ""), "xy");
    fb_script_event_clear(&e);
    expect(s, &e, FB_SCRIPT_DONE);
    assert_int_equal(e.id, id);

    json_t *why = json_pack("{s:s, s:{s:f,s:f,s:f}}", "largest", "dispatch", "parts", "bytes", 3.0, "dispatch", 12.0,
                            "compute", -20.0);
    fb_script_answer(s, why);
    json_decref(why);
    expect(s, &e, FB_SCRIPT_ANSWER);
    assert_string_equal(fb_json_string_or(e.message, "answer", ""), "dispatch");
    fb_script_event_clear(&e);
    fb_script_free(s);
}

/* Waiting for a measurement is nobody's time; running after it is. */
static void test_experiment_time(void **state)
{
    (void)state;
    fb_script *s = loaded("return require 'fusebox'.script { model = function(g) return g:ones({1}):relu() end,\n"
                          "experiment = function(e) e:measure({ plan = 'eager' }) while true do end end }");
    fb_script_experiment(s, NULL);
    fb_script_event e;
    expect(s, &e, FB_SCRIPT_MEASURE);
    fb_script_event_clear(&e);
    assert_false(next_event(s, &e, FB_SCRIPT_TURN_MS + 300));
    json_t *report = json_object();
    fb_script_measured(s, report);
    json_decref(report);
    expect_error(s, "script.lua:2: ran for 2 s", 2);
    fb_script_free(s);
}

/* The youngest child: those before it may not be reaped yet. */
static pid_t script_process(void)
{
    pid_t all[64];
    int n = 0;
    if (!add_children(getpid(), all, 64, &n)) return 0;
    assert_true(n > 0);
    return all[n - 1];
}

/* A script that gets no processor has not run for its 2 s. */
static void test_busy_machine(void **state)
{
    (void)state;
    fb_script *s = loaded("return function(g) return g:ones({ 1 }):relu() end");
    pid_t pid = script_process();
    if (!pid) skip(); /* this kernel does not tell */
    fb_script_event e;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    fb_script_build(s, "", NULL);
    assert_false(next_event(s, &e, FB_SCRIPT_TURN_MS + 300));
    assert_int_equal(kill(pid, SIGCONT), 0);
    expect(s, &e, FB_SCRIPT_GRAPH);
    fb_script_event_clear(&e);
    fb_script_free(s);
}

/* One that gets no processor at all is given up in the end. */
static void a_script_that_gets_nowhere_is_stopped(void **state)
{
    (void)state;
    fb_script *s = loaded("return function(g) return g:ones({ 1 }):relu() end");
    pid_t pid = script_process();
    if (!pid) skip();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    fb_script_set_patience(s, 0.5);
    fb_script_build(s, "", NULL);
    expect_error(s, "script.lua: took more than 0.5 s, in which it could compute for 0.0 s, and was stopped", 0);
    fb_script_build(s, "", NULL);
    expect_error(s, "script.lua: the script process has ended; load the script again", 0);
    fb_script_free(s);
}

/* ---- processes that obey nothing: what a script could do that had taken over its own ---- */

static void say(int out, const char *text)
{
    if (!fb_write_all(out, text, strlen(text)) || !fb_write_all(out, "\n", 1)) _exit(1);
}

/* Until a request has come whose type this is. */
static void hear(int in, const char *type)
{
    static char text[1 << 16];
    size_t n = 0;
    while (!strstr(text, type)) {
        ssize_t k = n < sizeof text - 1 ? read(in, text + n, sizeof text - 1 - n) : 0;
        if (k <= 0) _exit(1);
        n += (size_t)k;
    }
}

static const char *spoken; /* what it says once it runs an experiment, again and again */

static int speaks_without_end(void *ctx, int in, int out)
{
    (void)ctx;
    say(out, "{\"type\":\"script\",\"title\":\"x\",\"params\":[],\"variants\":[\"\"],\"plans\":[],\"columns\":[],"
             "\"experiment\":true}");
    hear(in, "\"experiment\"");
    while (spoken) say(out, spoken);
    return 0;
}

/* The front counts for itself, whatever the process should have held to. */
static void the_front_holds_to_its_limits(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after; /* of a filling */
        size_t filling;
        const char *says;
    } cases[] = {
        {"{\"type\":\"row\",\"id\":1,\"case\":{},\"row\":{\"us\":1}}", "", 0, "more rows than an experiment may give"},
        {"{\"type\":\"row\",\"id\":1,\"case\":{},\"row\":{\"a\":\"", "\"}}", 3 * FB_SCRIPT_ROW_BYTES,
         "more rows than an experiment may give"},
        {"{\"type\":\"row\",\"id\":1,\"case\":{},\"row\":{\"a\":\"", "\"}}", FB_SCRIPT_ROW_BYTES,
         "more rows than an experiment may give"},
        {"{\"type\":\"plot\",\"id\":1}", "", 0, "more rows than an experiment may give"},
        {"{\"type\":\"measure\",\"id\":1,\"params\":{}}", "", 0,
         "no experiment runs"}, /* before the first is answered */
        {"{\"type\":\"plan\",\"id\":1,\"plan\":{}}", "", 0, "an answer that nobody asked for"},
        {"{\"type\":\"answer\",\"id\":1,\"answer\":1}", "", 0, "an answer that nobody asked for"},
        {"{\"type\":\"script\",\"title\":\"y\"}", "", 0, "an answer that nobody asked for"},
        {"{\"type\":\"error\",\"id\":0,\"text\":\"y\"}", "", 0, "an answer that nobody asked for"},
        {"{\"type\":\"row\",\"id\":7,\"case\":{},\"row\":{}}", "", 0, "makes no sense"},
        {"{\"type\":\"done\",\"id\":1}", "", 0, "no experiment runs"}, /* twice */
        {"{\"type\":\"nonsense\"}", "", 0, "makes no sense: a message of type \"nonsense\""},
        {"{\"type\":\"error\",\"id\":1,\"kind\":\"ok\",\"text\":\"\"}", "", 0, "the script gave no reason"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_error err = {0};
        fb_script_event e = {0};
        fb_str text = {0};
        fb_str_add(&text, cases[i].before);
        for (size_t k = 0; k < cases[i].filling; k++) fb_str_add(&text, "x");
        fb_str_add(&text, cases[i].after);
        spoken = text.text;
        write_text("script.lua", "", 0);
        fb_script *s = fb_script_start_as(speaks_without_end, in_scratch("script.lua"), NULL, &err);
        if (!s) fail_msg("%s", err.text);
        fb_script_info_free(expect_info(s));
        fb_script_experiment(s, NULL);
        int events = 0;
        while (next_event(s, &e, LIMIT_MS) && e.kind != FB_SCRIPT_ERROR) {
            fb_script_event_clear(&e);
            assert_true(++events <= FB_SCRIPT_ROWS);
        }
        assert_int_equal(e.kind, FB_SCRIPT_ERROR);
        if (!strstr(e.error.text, cases[i].says)) fail_msg("%zu: %s", i, e.error.text);
        assert_int_not_equal(e.error.kind, FB_OK);
        fb_script_free(s);
        fb_str_free(&text);
    }
}

/* Under `ulimit -t` scripts run as well; they may not ask for more than there is. */
static void test_cpu_limit(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit r = {600, 600};
        fb_error err;
        fb_script_event e = {0};
        write_text("script.lua", "return print", 12);
        fb_script *s = setrlimit(RLIMIT_CPU, &r) == 0 ? fb_script_start(in_scratch("script.lua"), NULL, &err) : NULL;
        bool fine = s && next_event(s, &e, LIMIT_MS) && e.kind == FB_SCRIPT_INFO;
        _exit(fine ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the front knows and where it writes is nothing for a script. */
static void test_nothing_inherited(void **state)
{
    (void)state;
    char path[64], text[65536], link[256] = "";
    assert_int_equal(setenv("FB_TEST_SECRET", "very-secret", 1), 0);
    fb_script *s = loaded("return function(g) return g:ones({ 1 }):relu() end");
    pid_t pid = script_process();
    if (!pid) skip();
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    for (size_t i = 0; i < n; i++) assert_int_equal(text[i], 0);
    snprintf(path, sizeof path, "/proc/%d/fd/2", (int)pid);
#ifndef FB_ASAN
    assert_true(readlink(path, link, sizeof link - 1) > 0);
    assert_string_equal(link, "/dev/null");
#else
    (void)link;
#endif
    fb_script_free(s);
}

/* A plot of what no row has would be empty without a word. */
static void test_plotted(void **state)
{
    (void)state;
    static const struct {
        const char *rows, *plot, *error;
    } plots[] = {
        {"{ us = 1 }", "{ x = 'k', y = 'uss' }",
         "script.lua:4: plot: no row has a figure \"uss\"; did you mean \"us\"?"},
        {"{ us = 1 }", "{ x = 'k', y = 'us', by = { 'plan', 'acts' } }", "plot: no row has a figure \"acts\""},
        {"{ us = 1 }", "{ x = 'k', y = 'us', lgo = 'x' }", "plot: unknown field \"lgo\"; did you mean \"log\"?"},
        {"{ us = 1 }", "{ x = 1 }", "script.lua:4: plot: a figure is named by a text"},
        {"{ us = 1 }", "{ x = 'k', y = 'us', by = 'plan', log = 'xy' }", NULL},
        {"{ failed = 'no device' }", "{ x = 'k', y = 'us', by = 'plan' }", NULL},
    };
    for (size_t i = 0; i < sizeof plots / sizeof *plots; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "local fb = require 'fusebox'\nreturn fb.script { params = { k = fb.int { 1 } }, model = function(g) "
                 "return g:ones({1}):relu() end,\nexperiment = function(e)\ne:plot %s\n"
                 "for c in e:sweep { plan = 'max', k = { 1, 2 } } do e:row(c, %s) end end }",
                 plots[i].plot, plots[i].rows);
        fb_script *s = loaded(text);
        fb_script_event e;
        fb_script_experiment(s, NULL);
        do {
            if (!next_event(s, &e, LIMIT_MS)) fail_msg("no event");
            bool last = e.kind == FB_SCRIPT_DONE || e.kind == FB_SCRIPT_ERROR;
            if (last && (plots[i].error != NULL) != (e.kind == FB_SCRIPT_ERROR))
                fail_msg("%s: %s", plots[i].plot, e.kind == FB_SCRIPT_ERROR ? e.error.text : "no error");
            if (last && plots[i].error && !strstr(e.error.text, plots[i].error)) fail_msg("\"%s\"", e.error.text);
            if (last) break;
            fb_script_event_clear(&e);
        } while (true);
        fb_script_event_clear(&e);
        fb_script_free(s);
    }
}

static void test_experiment_errors(void **state)
{
    (void)state;
    static const struct {
        const char *body, *error;
    } bad[] = {
        {"e:sweep { m = 1 }", "script.lua:1: sweep: there is no parameter \"m\""},
        {"for c in e:sweep { plan = '*' } do end", "\"*\" stands for parameters and variants, not for plan"},
        {"for c in e:sweep { k = '*' } do end", "parameter k has no min and max"},
        {"e:measure(1)", "table expected"},
        {"e:measure({ plan = 1 })", "a case's plan is text, not number"},
        {"e:row({}, { f = print })", "row: a value is no number, text, boolean or table"},
        {"e:plot {}", "plot: "},
        {"e.nothing()", "script.lua:1: an experiment has no method \"nothing\""},
        {"e:mesure({})", "an experiment has no method \"mesure\"; did you mean \"measure\"?"},
        {"e:measure { paln = 'max' }", "a case has no \"paln\"; did you mean \"plan\"?"},
        {"e:row({ devcie = 'host' }, { us = 1 })", "a case has no \"devcie\"; did you mean \"device\"?"},
        {"e:measure { plan = 'max', k = 3 }", "a case's k is set in its params: params = { k = … }"},
        {"for c in e:sweep { k = { 2 } } do c.k = 3 e:measure(c) end", "a case's k is set in its params"},
        {"e:plot { x = 'us', y = 'us', log = 'z' }", "plot: log is \"x\", \"y\" or \"xy\""},
        {"for c in e:sweep { k = 1 } do print(c.paln) end", "a case has no \"paln\"; did you mean \"plan\"?"},
        /* a row that is refused leaves nothing behind: these would be more than a script's memory */
        {"for i = 1, 20000 do pcall(e.row, e, { plan = ('x'):rep(4000) }, { f = print }) end error('kept')",
         ":1: kept"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        char text[400];
        snprintf(text, sizeof text,
                 "local fb = require 'fusebox' return fb.script { params = { k = fb.int { 1 } }, model = function(g) "
                 "return g:ones({1}):relu() "
                 "end, experiment = function(e) %s end }",
                 bad[k].body);
        fb_script *s = loaded(text);
        int64_t id = fb_script_experiment(s, NULL);
        fb_script_event e;
        if (strcmp(bad[k].body, "e:plot {}") == 0) { /* an empty plot is the reader's to refuse */
            expect(s, &e, FB_SCRIPT_PLOT);
            fb_script_event_clear(&e);
            expect(s, &e, FB_SCRIPT_DONE);
        } else {
            if (!next_event(s, &e, LIMIT_MS) || e.kind != FB_SCRIPT_ERROR) fail_msg("%s: no error", bad[k].body);
            assert_int_equal(e.id, id);
            if (!strstr(e.error.text, bad[k].error)) fail_msg("\"%s\" does not say \"%s\"", e.error.text, bad[k].error);
        }
        fb_script_event_clear(&e);
        fb_graph_free(build(s, "", NULL));
        fb_script_free(s);
    }
}

/* ---- require and load ---- */

static void test_require(void **state)
{
    (void)state;
    static const char module[] = "local name = ...\nreturn { name = name, fail = function(x) return x:matmul(x) end }";
    write_text("helper.lua", module, strlen(module));
    mkdir(in_scratch("deep"), 0700);
    write_text("deep/er.lua", "return 7", 8);
    write_text("selfish.lua", "return require 'selfish'", 24);
    write_text("wrong.lua", "\nlocal x =", 10);
    write_text("bytes.lua", "\xff\xfe", 2);
    write_text("nn.lua", "return { linear = 1 }", 21); /* the library comes first */
    unlink(in_scratch("outside.lua"));
    assert_int_equal(symlink("/etc/hostname", in_scratch("outside.lua")), 0);
    static const struct {
        const char *code, *error; /* NULL: loads */
    } cases[] = {
        {"assert(require 'helper' == require 'helper' and require 'helper'.name == 'helper')", NULL},
        {"assert(require 'deep.er' == 7)", NULL},
        {"assert(type(require 'nn'.linear) == 'function')", NULL},
        {"require 'selfish'", "script.lua:1: require: selfish requires itself"},
        {"require 'wrong'", "wrong.lua:2: unexpected symbol"},
        {"require 'bytes'", "bytes.lua is not a text file in UTF-8"},
        {"require 'outside'", "outside.lua leads out of the script's folder"},
        {"require '..deep'", "not a module's name"},
        {"require '/etc/hostname'", "not a module's name"},
        {"require 'a b'", "not a module's name"},
        {"require 'nowhere'", "script.lua:1: require: there is no file nowhere.lua beside the script"},
        {"require 'helper'.fail(1)", "script.lua:1: helper.lua:2: attempt to index a number value"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[300];
        snprintf(text, sizeof text, "%s return function(g) return g:ones({1}):relu() end", cases[k].code);
        fb_script *s = start(text);
        if (cases[k].error) {
            fb_script_event e;
            expect(s, &e, FB_SCRIPT_ERROR);
            if (!strstr(e.error.text, cases[k].error))
                fail_msg("\"%s\" does not say \"%s\"", e.error.text, cases[k].error);
            fb_script_event_clear(&e);
        } else {
            fb_script_info_free(expect_info(s));
        }
        fb_script_free(s);
    }
    unlink(in_scratch("nn.lua"));
}

static size_t npy(char *to, const char *descr, const char *shape, const void *bytes, size_t n)
{
    int length = sprintf(to + 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape);
    memcpy(to, "\x93NUMPY\1\0", 8);
    to[8] = (char)length;
    to[9] = (char)(length >> 8);
    memcpy(to + 10 + length, bytes, n);
    return 10 + (size_t)length + n;
}

/* The key that the importer gives a weight. */
static const char *weight_key(const char *dtype, const char *shape, const void *bytes, size_t n, char to[65])
{
    fb_sha256 h;
    fb_sha256_begin(&h);
    fb_sha256_add(&h, dtype, strlen(dtype));
    fb_sha256_add(&h, shape, strlen(shape));
    fb_sha256_add(&h, bytes, n);
    fb_sha256_end(&h, to);
    to[32] = '\0';
    return to;
}

static void weights_are_what_their_name_says(void **state)
{
    (void)state;
    static const float right[] = {1, 2, 3, 4}, others[] = {1, 2, 3, 5};
    static const struct {
        const char *descr, *shape;
        const void *bytes;
        size_t n;
        const char *says; /* NULL: as it should be */
    } cases[] = {
        {"<f4", "(2, 2)", right, 16, NULL},
        {"<f4", "(2, 2)", others, 16, "values, dtype or shape have changed"},
        {"<f4", "(4,)", right, 16, "values, dtype or shape have changed"},
        {"<f4", "(1, 4)", right, 16, "values, dtype or shape have changed"},
        {"<i4", "(2, 2)", right, 16, "values, dtype or shape have changed"},
        {"<f4", "(2, 2)", right, 12, "ends too early"},
    };
    char key[65], name[80], file[512];
    fb_file_table t;
    fb_error err = {0};
    weight_key("f32", "(2, 2)", right, 16, key);
    snprintf(name, sizeof name, "%s.npy", key);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(name, file, npy(file, cases[i].descr, cases[i].shape, cases[i].bytes, cases[i].n));
        bool ok = fb_weights_read(in_scratch(name), key, &t, &err);
        if (ok != !cases[i].says || (!ok && !strstr(err.text, cases[i].says))) fail_msg("%zu: %s", i, err.text);
        if (ok) assert_true(t.n == 4 && t.values[3] == 4 && t.shape.rank == 2);
        if (ok) fb_free(t.values);
    }
    write_text(name, file, npy(file, "<f8", "(3,)", (double[]){1, 2, 3}, 24)); /* one dimension has its comma */
    weight_key("f64", "(3,)", (double[]){1, 2, 3}, 24, key);
    assert_true(fb_weights_read(in_scratch(name), key, &t, &err));
    fb_free(t.values);
    assert_true(fb_weights_read(in_scratch(name), "a_name_of_my_own", &t, &err)); /* which promises nothing */
    fb_free(t.values);
    snprintf(key, sizeof key, "%s", t.key);
    assert_true(fb_weights_read(in_scratch(name), key, &t, &err)); /* as a script's own files are called */
    fb_free(t.values);
    assert_false(fb_weights_read(in_scratch("none.npy"), key, &t, &err));
}

/* More than a script may load at once, which is no limit for weights. A hole in the file costs no disk. */
static void large_weights_are_read(void **state)
{
    (void)state;
    enum { N = 34000000 };
    char file[512], path[256];
    fb_file_table t;
    fb_error err = {0};
    size_t n = npy(file, "<f8", "(34000000,)", "", 0);
    write_text("large.npy", file, n);
    snprintf(path, sizeof path, "%s", in_scratch("large.npy"));
    assert_int_equal(truncate(path, (off_t)n + (off_t)N * 8), 0);
    if (!fb_weights_read(path, "large", &t, &err)) fail_msg("%s", err.text);
    assert_true(t.n == N && t.values[N - 1] == 0);
    fb_free(t.values);
    unlink(path);
}

static void test_load(void **state)
{
    (void)state;
    static const char csv[] = "a,b,\"c\"\n1,2,3\r\n4,5,6\n\n";
    char file[400];
    write_text("rows.csv", csv, strlen(csv));
    write_text("plain.csv", "1.5,2\n3,-4e1\n", 13);
    write_text("ragged.csv", "1,2\n3\n", 6);
    write_text("words.csv", "a,b\n1,x\n", 8);
    write_text("f4.npy", file, npy(file, "<f4", "(2, 2)", (float[]){1, 2, 3, 4}, 16));
    write_text("f2.npy", file, npy(file, "<f2", "(3,)", (uint16_t[]){0x3c00, 0xc000, 0x3555}, 6));
    write_text("i8.npy", file, npy(file, "<i8", "(2,)", (int64_t[]){-5, 7}, 16));
    write_text("f8.npy", file, npy(file, "<f8", "()", (double[]){2.5}, 8));
    write_text("short.npy", file, npy(file, "<f4", "(3, 3)", (float[]){1, 2}, 8));
    write_text("objects.npy", file, npy(file, "|O", "(1,)", "", 0));
    static const struct {
        const char *code, *shape;
        double want[6];
    } good[] = {
        {"g:load('x', 'rows.csv')", "f32[2,3]", {1, 2, 3, 4, 5, 6}},
        {"g:load('x', 'rows.csv', { columns = { 'c', 1 } })", "f32[2,2]", {3, 1, 6, 4}},
        {"g:load('x', 'rows.csv', { columns = 'b' })", "f32[2]", {2, 5}},
        {"g:load('x', 'rows.csv', { columns = 'b', dtype = 'i32' })", "i32[2]", {2, 5}},
        {"g:load('x', 'plain.csv')", "f32[2,2]", {1.5, 2, 3, -40}},
        {"g:load('w', 'f4.npy', { param = true })", "f32[2,2]", {1, 2, 3, 4}},
        {"g:load('w', 'f2.npy')", "f16[3]", {1, -2, 0.333251953125}},
        {"g:load('w', 'i8.npy')", "i64[2]", {-5, 7}},
        {"g:load('w', 'f8.npy')", "f64[]", {2.5}},
    };
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        char text[300], shape[192];
        snprintf(text, sizeof text, "return function(g) return %s * 1 end", good[k].code);
        fb_script *s = loaded(text);
        values v = evaluate(build(s, "", NULL), s);
        const fb_node *out = fb_node_at(v.g, v.g->outputs[0]);
        assert_string_equal(fb_shape_format(&out->shape, out->dtype, shape), good[k].shape);
        for (int64_t i = 0; i < fb_shape_elements(&out->shape); i++) near(output_at(&v, 0, i), good[k].want[i]);
        done(&v);
        assert_null(fb_script_file(s, "none", NULL));
        fb_script_free(s);
    }
    static const struct {
        const char *code, *error;
    } bad[] = {
        {"g:load('x', 'none.csv')", "script.lua:1: load: there is no file none.csv beside the script"},
        {"g:load('x', '../up.csv')", "files are named relative to the script's folder"},
        {"g:load('x', 'script.lua')", "neither a .npy nor a .csv file"},
        {"g:load('x', 'rows.csv', { columns = 'z' })", "rows.csv: there is no column \"z\""},
        {"g:load('x', 'rows.csv', { columns = 4 })", "there is no column 4 of 3"},
        {"g:load('x', 'ragged.csv')", "ragged.csv:2: not 2 columns"},
        {"g:load('x', 'words.csv')", "words.csv:2: column 2 is not a number: \"x\""},
        {"g:load('x', 'short.npy')", "short.npy: the file ends before its 9 values"},
        {"g:load('x', 'objects.npy')", "values of type"},
        {"g:load('x', 'rows.csv', { colums = 1 })", "load: unknown option \"colums\""},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        char text[300];
        snprintf(text, sizeof text, "return function(g) return %s end", bad[k].code);
        fb_script *s = loaded(text);
        fb_script_build(s, "", NULL);
        expect_error(s, bad[k].error, 1);
        fb_script_free(s);
    }
}

/* ---- the sandbox itself ---- */

static void open_socket(void)
{
    socket(AF_UNIX, SOCK_STREAM, 0);
}

static void make_process(void)
{
    fork();
}

static void run_program(void)
{
    execl("/bin/true", "true", (char *)NULL);
}

static void send_signal(void)
{
    kill(getppid(), 0);
}

static void change_limits(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
}

/* What the C library takes for itself (a large qsort does): at some time it hears that there is no more, and the
 * process goes on. With the sanitizer, memory is its business. */
static void use_up_memory(void)
{
#ifndef FB_ASAN
    enum { PIECE = 100000, PIECES = 4000 };
    char *p = NULL;
    for (int i = 0; i < PIECES && (i == 0 || p); i++)
        if ((p = malloc(PIECE))) memset(p, i, PIECE);
    if (p) _exit(3);
#endif
}

/* Each ends a process that has entered the sandbox with SIGSYS; writing and ending are left. */
static void test_sandbox(void **state)
{
    (void)state;
    void (*const forbidden[])(void) = {open_socket, make_process, run_program, send_signal, change_limits, NULL};
    for (size_t k = 0; k < sizeof forbidden / sizeof *forbidden; k++) {
        pid_t pid = fork();
        if (pid == 0) {
            fb_error err;
            if (!fb_sandbox_enter(&err)) _exit(1);
            if (forbidden[k])
                forbidden[k]();
            else
                use_up_memory();
            _exit(forbidden[k] ? 2 : 0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (forbidden[k])
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
        else
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* ---- cost ---- */

static void test_many_builds(void **state)
{
    (void)state;
    fb_script *s = loaded(
        "local fb = require 'fusebox'\nreturn fb.script { params = { n = fb.int { 1 } },\n"
        "model = function(g, p) local x = g:input('x', { p.n }) for i = 1, 2000 do x = x + i end return x end }");
    for (int n = 1; n <= 150; n++) { /* more graphs than the pool could hold together */
        char params[32];
        snprintf(params, sizeof params, "{\"n\":%d}", n);
        fb_graph_free(build(s, "", params));
    }
    fb_script_free(s);
}

/* ---- the types for editors ---- */

static void each_name(lua_State *L, const char *type, const char *text, int *n)
{
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        char line[128];
        if (strncmp(lua_tostring(L, -2), "__", 2) == 0) continue;
        bool dot = strcmp(type, "fusebox") == 0;
        snprintf(line, sizeof line, "\nfunction %s%s%s(", type, dot ? "." : ":", lua_tostring(L, -2));
        if (!strstr(text, line)) fail_msg("scripts/fusebox.d.lua lacks \"%s\"", line + 1);
        ++*n;
    }
    lua_pop(L, 1);
}

static int count_of(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) n++;
    return n;
}

/* Pushes the methods of a userdata type: its __index, or what a C function there looks them up in. */
static void push_methods(lua_State *L, const char *type)
{
    luaL_getmetatable(L, type);
    lua_getfield(L, -1, "__index");
    lua_remove(L, -2);
    if (lua_isfunction(L, -1)) {
        assert_non_null(lua_getupvalue(L, -1, 1));
        lua_remove(L, -2);
    }
}

/* A library is Lua: its functions as they stand in the file. */
static void check_library(const char *name, const char *text)
{
    char path[512], begin[64];
    const char *root = getenv("FB_SRCDIR");
    snprintf(path, sizeof path, "%s/scripts/lib/%s.lua", root ? root : ".", name);
    snprintf(begin, sizeof begin, "\nfunction %s.", name);
    char *library = fb_read_file(path, 1 << 20, NULL, NULL);
    assert_non_null(library);
    assert_int_equal(count_of(text, begin), count_of(library, begin));
    for (const char *at = library; (at = strstr(at, begin)); at++) {
        char line[64];
        snprintf(line, sizeof line, "%.*s", (int)(strchr(at, '(') - at) + 1, at);
        if (!strstr(text, line)) fail_msg("scripts/fusebox.d.lua lacks \"%s\"", line + 1);
    }
    fb_free(library);
}

static void test_types(void **state)
{
    (void)state;
    char path[512];
    const char *root = getenv("FB_SRCDIR");
    snprintf(path, sizeof path, "%s/scripts/fusebox.d.lua", root ? root : ".");
    char *text = fb_read_file(path, 1 << 20, NULL, NULL);
    assert_non_null(text);
    static fb_process p;
    fb_error err;
    assert_true(fb_lua_new(&p, &err));
    lua_State *L = p.L;
    static const struct {
        const char *metatable, *type;
    } types[] = {{"tensor", "Tensor"}, {"plan", "Plan"}, {"experiment", "Experiment"}, {"why", "Why"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        int n = 0;
        char begin[64];
        push_methods(L, types[i].metatable);
        each_name(L, types[i].type, text, &n);
        snprintf(begin, sizeof begin, "\nfunction %s:", types[i].type);
        assert_int_equal(count_of(text, begin), n);
    }
    /* A graph has all that a tensor has, documented there, and its own. */
    int n = 0;
    push_methods(L, "graph");
    push_methods(L, "tensor");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushnil(L);
        lua_settable(L, -6);
    }
    lua_pop(L, 1);
    each_name(L, "Graph", text, &n);
    assert_int_equal(count_of(text, "\nfunction Graph:"), n);
    n = 0;
    lua_getfield(L, LUA_REGISTRYINDEX, "fusebox.loaded");
    lua_getfield(L, -1, "fusebox");
    each_name(L, "fusebox", text, &n);
    assert_int_equal(count_of(text, "\nfunction fusebox."), n);
    lua_close(L);
    check_library("nn", text);
    check_library("optim", text);
    fb_free(text);
}

int main(void)
{
    fb_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_bad_scripts),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_misspelt_param),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_encoder_layer),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_document_loop),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_plan_of_old_graph),
        cmocka_unit_test(test_experiment),
        cmocka_unit_test(test_experiment_time),
        cmocka_unit_test(test_busy_machine),
        cmocka_unit_test(a_script_that_gets_nowhere_is_stopped),
        cmocka_unit_test(the_front_holds_to_its_limits),
        cmocka_unit_test(test_cpu_limit),
        cmocka_unit_test(test_nothing_inherited),
        cmocka_unit_test(test_plotted),
        cmocka_unit_test(test_experiment_errors),
        cmocka_unit_test(test_require),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_many_builds),
        cmocka_unit_test(test_sandbox),
        cmocka_unit_test(weights_are_what_their_name_says),
        cmocka_unit_test(large_weights_are_read),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_bundled),
        cmocka_unit_test(test_bundled_experiments),
    };
    return cmocka_run_group_tests_name("script", tests, make_scratch, remove_scratch);
}
