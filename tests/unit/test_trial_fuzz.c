/* Trials of random graphs: the exact lane is the interpreter's, whatever the threads and the lanes. */
#include "trial_help.h"

#include "interp/interp.h"
#include "measure/fuzz.h"

enum { GRAPHS = 300 };

/* Outputs and effects. */
static fb_id *wanted_of(const fb_graph *g, int *n)
{
    fb_id *want = fb_calloc((size_t)g->n_nodes + 1, sizeof *want);
    *n = 0;
    for (fb_id id = 0; id < g->n_nodes; id++) {
        if (g->is_output[id] && g->nodes[id].op != FB_OP_LOOP) want[(*n)++] = id;
    }
    return want;
}

static double value_at(const fb_tensor *t, int64_t k)
{
    return t->v ? t->v[k] : (double)t->i[k];
}

/* Sums in another order differ by some roundings of doubles, which is what a bound of f64 is made of. Where a decision
 * hangs on one, anything may follow: such elements are those that the interpreter's bounds leave undecided. */
static bool agrees(const fb_tensor *t, fb_dtype dtype, int64_t k, double got)
{
    double v = value_at(t, k), bound = t->bound ? t->bound[k] : 0;
    if (got == v || (isnan(got) && isnan(v))) return true;
    return !isfinite(bound) || fabs(got - v) <= 1e-9 * fabs(v) + (dtype == FB_F64 ? 1 : 1e-5) * bound;
}

static void compare_graph(uint64_t seed)
{
    fb_error err = {0};
    fb_graph *g = fb_fuzz_graph(seed, &err);
    if (!g) fail_msg("%s", err.text);
    int n;
    fb_id *want = wanted_of(g, &n);
    fb_interp *in = fb_interp_run(g, &(fb_interp_options){.seed = 3, .bounds = true}, NULL, 0, &err);
    if (!in) fail_msg("%s", err.text);
    for (int threads = 1; threads <= 3; threads += 2) {
        fb_trial_options o = {.seed = 3, .trials = threads == 1 ? 8 : 3, .threads = threads};
        trials *t = trials_of(g, &o, want, n, &err);
        for (int i = 0; i < n; i++) {
            const fb_tensor *r = fb_interp_get(in, want[i]);
            for (int64_t k = 0; k < t->at[i].n; k++) {
                if (t->at[i].seen[k] != 1)
                    fail_msg("graph %llu, %s[%lld] comes %d times", (unsigned long long)seed, g->nodes[want[i]].name,
                             (long long)k, t->at[i].seen[k]);
                if (!agrees(r, g->nodes[want[i]].dtype, k, t->at[i].v[0][k]))
                    fail_msg("graph %llu, %s[%lld] is %.17g, not %.17g", (unsigned long long)seed,
                             g->nodes[want[i]].name, (long long)k, t->at[i].v[0][k], value_at(r, k));
            }
        }
        trials_free(t);
    }
    fb_interp_free(in);
    fb_free(want);
    fb_graph_free(g);
}

static void test_exact_lane(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) compare_graph(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact_lane)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
