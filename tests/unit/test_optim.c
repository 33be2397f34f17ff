/* g:grad and the optimisers from a script's side: gradients in the order asked for, errors with the script's line, and
 * steps of sgd and adam, one run after the other with the parameters updated in between, against the formulas. */
#include "unit/scratch.h"
#include "unit/script_harness.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "interp/interp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_MS = 180000, MAX_PARAMS = 16, MAX_ELEMENTS = 16 };

/* Builds the script's graph; NULL with the error when it is refused. */
static fb_graph *built(const char *text, fb_error *err, int *line)
{
    fb_script_event e;
    const char *path = in_scratch("script.lua");
    assert_true(fb_write_file(path, text, strlen(text), NULL));
    fb_script *s = fb_script_start(path, NULL, err);
    assert_non_null(s);
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind == FB_SCRIPT_ERROR) fail_msg("%s", e.error.text);
    assert_int_equal(e.kind, FB_SCRIPT_INFO);
    fb_script_info_free(e.info);
    fb_script_build(s, "", NULL);
    assert_true(next_event(s, &e, LIMIT_MS));
    fb_graph *g = e.kind == FB_SCRIPT_GRAPH ? e.graph : NULL;
    *err = e.error;
    *line = e.line;
    if (!g) fb_script_event_clear(&e);
    fb_script_free(s);
    return g;
}

/* The body of a model: parameters w [2, 3] in ±1 and b [3] of 0.5, and what they are called in it. */
static fb_graph *graph_of(const char *body, fb_error *err, int *line)
{
    char text[1200];
    snprintf(text, sizeof text,
             "local optim = require 'optim'\nreturn function(g)\nlocal w = g:param('w', {2, 3}, 'f64', {low = -1})\n"
             "local b = g:param('b', {3}, 'f64', {dist = 'constant', value = 0.5})\n%s\nend",
             body);
    return built(text, err, line);
}

/* ---- parameters from run to run ---- */

typedef struct {
    fb_graph *g;
    fb_interp *in; /* of the last run */
    int n, runs;
    fb_id params[MAX_PARAMS];
    double values[MAX_PARAMS][MAX_ELEMENTS];
    fb_attrs attrs[MAX_PARAMS];
} training;

static bool param_values(void *ctx, const char *key, int64_t n, double *out)
{
    const training *t = ctx;
    memcpy(out, t->values[atoi(key + 1)], (size_t)n * sizeof *out);
    return true;
}

static void run(training *t)
{
    fb_error err;
    fb_interp_options o = {.seed = 7, .files = param_values, .files_ctx = t};
    fb_interp_free(t->in);
    t->in = fb_interp_run(t->g, &o, t->params, t->n, &err);
    if (!t->in) fail_msg("%s", err.text);
    t->runs++;
}

static training *train(const char *body)
{
    static const char *const keys[MAX_PARAMS] = {"p0", "p1", "p2",  "p3",  "p4",  "p5",  "p6",  "p7",
                                                 "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15"};
    training *t = fb_calloc(1, sizeof *t);
    fb_error err;
    int line;
    t->g = graph_of(body, &err, &line);
    if (!t->g) fail_msg("%s", err.text);
    for (fb_id id = 0; id < t->g->n_nodes; id++)
        if (t->g->nodes[id].op == FB_OP_PARAM) t->params[t->n++] = id;
    assert_true(t->n <= MAX_PARAMS);
    run(t);
    /* From here on they are read from `values`, which begin as they were drawn. */
    for (int i = 0; i < t->n; i++) {
        const fb_tensor *x = fb_interp_get(t->in, t->params[i]);
        assert_true(x->n <= MAX_ELEMENTS);
        memcpy(t->values[i], x->v, (size_t)x->n * sizeof *x->v);
        t->attrs[i] = *t->g->nodes[t->params[i]].attrs;
        t->attrs[i].dist = FB_DIST_FILE;
        t->attrs[i].file = keys[i];
        t->g->nodes[t->params[i]].attrs = &t->attrs[i];
    }
    return t;
}

/* Where the values of the parameter lie. */
static double *param(training *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->g->nodes[t->params[i]].name, name) == 0) return t->values[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* A run whose assignments take effect. */
static void take_step(training *t)
{
    run(t);
    for (fb_id id = 0; id < t->g->n_nodes; id++) {
        const fb_node *n = fb_node_at(t->g, id);
        if (n->op != FB_OP_ASSIGN) continue;
        const fb_tensor *x = fb_interp_get(t->in, id);
        memcpy(param(t, t->g->nodes[n->args[0]].name), x->v, (size_t)x->n * sizeof *x->v);
    }
}

static void training_free(training *t)
{
    fb_interp_free(t->in);
    fb_graph_free(t->g);
    fb_free(t);
}

static void near(double got, double want, const char *what, int k)
{
    if (!(fabs(got - want) <= 1e-12 * (1 + fabs(want)))) fail_msg("%s[%d] is %.17g, not %.17g", what, k, got, want);
}

/* loss = sum(w³ b): its gradients are 3 w² b, and the sum of w³ over the rows. */
#define LOSS "local loss = (w * w * w * b):sum()\n"

static void gradients_of_loss(const double w[6], const double b[3], double dw[6], double db[3])
{
    for (int j = 0; j < 3; j++) db[j] = w[j] * w[j] * w[j] + w[3 + j] * w[3 + j] * w[3 + j];
    for (int k = 0; k < 6; k++) dw[k] = 3 * w[k] * w[k] * b[k % 3];
}

/* ---- g:grad ---- */

static void gradients_come_in_the_order_asked_for(void **state)
{
    (void)state;
    training *t = train(LOSS "local d = g:grad(loss, { b, w, b })\nassert(#d == 3 and #g:grad(loss, {}) == 0)\n"
                             "local one = g:grad(loss, w)\nassert(#one == 1)\nreturn d[1], d[2], d[3] + 1, one[1] + 2");
    double dw[6], db[3];
    gradients_of_loss(param(t, "w"), param(t, "b"), dw, db);
    const double *out[4];
    for (int i = 0; i < 4; i++) out[i] = fb_interp_get(t->in, t->g->outputs[i])->v;
    for (int k = 0; k < 3; k++) near(out[0][k], db[k], "db", k);
    for (int k = 0; k < 6; k++) near(out[1][k], dw[k], "dw", k);
    for (int k = 0; k < 3; k++) near(out[2][k], db[k] + 1, "db + 1", k);
    for (int k = 0; k < 6; k++) near(out[3][k], dw[k] + 2, "dw + 2", k);
    training_free(t);
}

/* The gradient of a gradient is one too: d/dw sum((3 w² b)²) = 36 w³ b². */
static void gradients_have_gradients(void **state)
{
    (void)state;
    training *t = train(LOSS "local d = g:grad(loss, w)[1]\nreturn g:grad((d * d):sum(), w)");
    const double *w = param(t, "w"), *b = param(t, "b"), *out = fb_interp_get(t->in, t->g->outputs[0])->v;
    for (int k = 0; k < 6; k++) near(out[k], 36 * pow(w[k], 3) * b[k % 3] * b[k % 3], "ddw", k);
    training_free(t);
}

/* The largest element, which softmax subtracts, has no part: dx = y (dy - sum(y dy)). */
static void softmax_s_gradient_is_the_known_one(void **state)
{
    (void)state;
    training *t = train("local y = require('nn').softmax(w)\n"
                        "return y, g:grad((y * b * w:detach()):sum(), w)[1]");
    const double *w = param(t, "w"), *b = param(t, "b");
    const double *y = fb_interp_get(t->in, t->g->outputs[0])->v, *d = fb_interp_get(t->in, t->g->outputs[1])->v;
    for (int k = 0; k < 6; k++) {
        double mean = 0;
        for (int j = 0; j < 3; j++) mean += y[k / 3 * 3 + j] * b[j] * w[k / 3 * 3 + j];
        near(d[k], y[k] * (b[k % 3] * w[k] - mean), "dw", k);
    }
    for (fb_id id = 0; id < t->g->n_nodes; id++) assert_true(t->g->nodes[id].op != FB_OP_EQ);
    training_free(t);
}

static const struct {
    const char *code, *text;
} mistakes[] = {
    {"g:grad(w, w)", "script.lua:5: grad: the loss must be one element (w: f64[2,3])"},
    {"g:grad(w:sum(), g:arange(3))", "script.lua:5: grad: arange is i64, not a float"},
    {"g:grad(w:argmax(), w)", "script.lua:5: grad: argmax is i64, not a float"},
    {"g:grad(w:sum(), { w, 1 })", "script.lua:5: grad: entry 2 of the list is a number, not a tensor"},
    {"g:grad(w:sum(), 'w')", "script.lua:5: grad: a list of tensors is expected, not string"},
    {"g:grad(w:sum())", "script.lua:5: grad: a list of tensors is expected, not nil"},
    {"g:grad(1, w)", "script.lua:5: "},
    {"g:grad(g:loop(3, { w }, function(_, a) return (g:loop(2, { a }, function(_, b) return b * b end)) end):sum(), w)",
     "script.lua:5: grad: there is no derivative through a loop inside a loop (loop, line 5; "},
    {"optim.sgd(g, w:sum(), w)", "script.lua:5: sgd: lr is a nil, not a number"},
    {"optim.sgd(g, w:sum(), w, { lr = '1' })", "script.lua:5: sgd: lr is a string, not a number"},
    {"optim.sgd(g, w:sum(), w, { rate = 1 })", "script.lua:5: sgd: unknown option \"rate\""},
    {"optim.sgd(g, w:sum(), { w + 1 }, { lr = 1 })", "assign: add is no parameter"},
    {"optim.SGD({ w }, { lr = 1, momentum = 0.5 }):step(w:sum(), { w })",
     "sgd: momentum is kept beside parameters, and these are a loop's values"},
    {"optim.Adam({ w }, {}):step(w:sum(), { w })",
     "adam: its means are kept beside parameters, and these are a loop's values"},
    {"optim.adam(g, w, { w })", "grad: the loss must be one element (w: f64[2,3])"},
    {"optim.adam(g, w:sum(), { w }, { betas = { 0.9, 'x' } })", "script.lua:5: adam: 2 is a string, not a number"},
};

static void errors_name_the_script_s_line(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof mistakes / sizeof *mistakes; k++) {
        fb_error err;
        int line;
        fb_graph *g = graph_of(mistakes[k].code, &err, &line);
        if (g) fail_msg("%s was built", mistakes[k].code);
        if (!strstr(err.text, mistakes[k].text))
            fail_msg("%s: \"%s\" does not say \"%s\"", mistakes[k].code, err.text, mistakes[k].text);
        assert_int_equal(line, 5);
    }
}

/* ---- optimisers ---- */

static void sgd_steps(void **state)
{
    (void)state;
    training *t =
        train(LOSS "local after = optim.sgd(g, loss, { w, b }, { lr = 0.1 })\nassert(#after == 2)\nreturn loss");
    double w[6], b[3], dw[6], db[3];
    memcpy(w, param(t, "w"), sizeof w);
    memcpy(b, param(t, "b"), sizeof b);
    assert_int_equal(t->n, 2);
    for (int step = 0; step < 4; step++) {
        take_step(t);
        gradients_of_loss(w, b, dw, db);
        for (int k = 0; k < 6; k++) near(param(t, "w")[k], w[k] -= 0.1 * dw[k], "w", k);
        for (int k = 0; k < 3; k++) near(param(t, "b")[k], b[k] -= 0.1 * db[k], "b", k);
    }
    training_free(t);
}

static void sgd_with_momentum_and_decay(void **state)
{
    (void)state;
    training *t =
        train(LOSS "optim.sgd(g, loss, { w, b }, { lr = 0.05, momentum = 0.75, weight_decay = 0.125 })\nreturn loss");
    double w[6], b[3], dw[6], db[3], vw[6] = {0}, vb[3] = {0};
    memcpy(w, param(t, "w"), sizeof w);
    memcpy(b, param(t, "b"), sizeof b);
    for (int k = 0; k < 6; k++) assert_true(param(t, "sgd.w_momentum")[k] == 0);
    for (int step = 0; step < 4; step++) {
        take_step(t);
        gradients_of_loss(w, b, dw, db);
        for (int k = 0; k < 6; k++) {
            vw[k] = 0.75 * vw[k] + dw[k] + 0.125 * w[k];
            near(param(t, "sgd.w_momentum")[k], vw[k], "w_momentum", k);
            near(param(t, "w")[k], w[k] -= 0.05 * vw[k], "w", k);
        }
        for (int k = 0; k < 3; k++) {
            vb[k] = 0.75 * vb[k] + db[k] + 0.125 * b[k];
            near(param(t, "b")[k], b[k] -= 0.05 * vb[k], "b", k);
        }
    }
    training_free(t);
}

/* As in the paper, for one parameter at step t (from 1). */
static double adam_of(double p, double gradient, double decay, int t, double *m, double *v)
{
    gradient += decay * p;
    *m = 0.5 * *m + 0.5 * gradient;
    *v = 0.75 * *v + 0.25 * gradient * gradient;
    return p - 0.25 * (*m / (1 - pow(0.5, t))) / (sqrt(*v / (1 - pow(0.75, t))) + 0.125);
}

/* Rates and betas that binary fractions hold, since the step count is an f32. */
static void adam_steps(void **state)
{
    (void)state;
    training *t = train(LOSS "optim.adam(g, loss, { w, b }, { lr = 0.25, betas = { 0.5, 0.75 }, eps = 0.125, "
                             "weight_decay = 0.0625 })\nreturn loss");
    double w[6], b[3], dw[6], db[3], mw[6] = {0}, vw[6] = {0}, mb[3] = {0}, vb[3] = {0};
    memcpy(w, param(t, "w"), sizeof w);
    memcpy(b, param(t, "b"), sizeof b);
    assert_true(*param(t, "adam.step") == 0);
    for (int step = 1; step <= 4; step++) {
        take_step(t);
        near(*param(t, "adam.step"), step, "step", 0);
        gradients_of_loss(w, b, dw, db);
        for (int k = 0; k < 6; k++) {
            w[k] = adam_of(w[k], dw[k], 0.0625, step, &mw[k], &vw[k]);
            near(param(t, "w")[k], w[k], "w", k);
            near(param(t, "adam.w_mean")[k], mw[k], "w_mean", k);
            near(param(t, "adam.w_square")[k], vw[k], "w_square", k);
        }
        for (int k = 0; k < 3; k++)
            near(param(t, "b")[k], b[k] = adam_of(b[k], db[k], 0.0625, step, &mb[k], &vb[k]), "b", k);
    }
    training_free(t);
}

/* PyTorch's standards; the first step moves every weight by lr, whatever the size of its gradient. */
static void adam_moves_by_its_rate_at_first(void **state)
{
    (void)state;
    training *t = train("optim.adam(g, (w * 3):sum() - b:sum() * 50, { w, b })");
    double w[6], b[3];
    memcpy(w, param(t, "w"), sizeof w);
    memcpy(b, param(t, "b"), sizeof b);
    take_step(t);
    for (int k = 0; k < 6; k++) assert_true(fabs(param(t, "w")[k] - (w[k] - 1e-3)) < 1e-7);
    for (int k = 0; k < 3; k++) assert_true(fabs(param(t, "b")[k] - (b[k] + 1e-3)) < 1e-7);
    training_free(t);
}

/* Half-precision weights: state in f32, names within what a name may be. */
static void narrow_weights_have_wide_state(void **state)
{
    (void)state;
    training *t = train("local function weight(i) return g:scope('layer', i, function()\n"
                        "return g:param(('h'):rep(64), {4}, 'f16', { dist = 'constant', value = 2 }) end) end\n"
                        "local h, k = weight(1), weight(2)\n"
                        "optim.adam(g, (h * h):sum(), h, { lr = 0.25, eps = 0, betas = { 0.5, 0.75 } })\n"
                        "optim.sgd(g, (k * k):sum(), k, { lr = 0.125, momentum = 0.5, name = 'plain' })");
    int singles = 0, halves = 0;
    for (int i = 0; i < t->n; i++) singles += t->g->nodes[t->params[i]].dtype == FB_F32;
    assert_int_equal(t->n - singles, 2);
    assert_int_equal(singles, 4); /* step, mean, square; momentum */
    for (fb_id id = 0; id < t->g->n_nodes; id++) {
        const fb_node *a = fb_node_at(t->g, id);
        if (a->op != FB_OP_ASSIGN || a->dtype != FB_F16) continue;
        near(fb_interp_get(t->in, id)->v[3], halves++ ? 1.5 : 1.75, a->name, 3);
    }
    assert_int_equal(halves, 2);
    training_free(t);
}

/* Steps in a loop are steps one after the other. */
static void a_loop_of_steps(void **state)
{
    (void)state;
    training *t =
        train("g:loop(3, {}, function()\n" LOSS "optim.sgd(g, loss, { w, b }, { lr = 0.1, momentum = 0.5 })\nend)");
    double w[6], b[3], dw[6], db[3], vw[6] = {0}, vb[3] = {0};
    memcpy(w, param(t, "w"), sizeof w);
    memcpy(b, param(t, "b"), sizeof b);
    for (int run_no = 0; run_no < 2; run_no++) {
        take_step(t);
        for (int step = 0; step < 3; step++) {
            gradients_of_loss(w, b, dw, db);
            for (int k = 0; k < 6; k++) w[k] -= 0.1 * (vw[k] = 0.5 * vw[k] + dw[k]);
            for (int k = 0; k < 3; k++) b[k] -= 0.1 * (vb[k] = 0.5 * vb[k] + db[k]);
        }
        for (int k = 0; k < 6; k++) near(param(t, "w")[k], w[k], "w", k);
        for (int k = 0; k < 3; k++) near(param(t, "b")[k], b[k], "b", k);
    }
    training_free(t);
}

int main(void)
{
    fb_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_come_in_the_order_asked_for),
        cmocka_unit_test(gradients_have_gradients),
        cmocka_unit_test(softmax_s_gradient_is_the_known_one),
        cmocka_unit_test(errors_name_the_script_s_line),
        cmocka_unit_test(sgd_steps),
        cmocka_unit_test(sgd_with_momentum_and_decay),
        cmocka_unit_test(adam_steps),
        cmocka_unit_test(adam_moves_by_its_rate_at_first),
        cmocka_unit_test(narrow_weights_have_wide_state),
        cmocka_unit_test(a_loop_of_steps),
    };
    return cmocka_run_group_tests_name("optim", tests, make_scratch, remove_scratch);
}
