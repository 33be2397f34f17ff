/* What starting costs: a script's process until it has told what is in it and built a graph, a worker until the first
 * figure. FUSEBOX is the binary whose workers are started, argv[1] a script. */
#include "bench/bench.h"

#include "base/json.h"
#include "decide/preset.h"
#include "script/script.h"
#include "worker/worker.h"

#include <unistd.h>

enum { ROUNDS = 15, WORKER_ROUNDS = 7, LIMIT_MS = 60000 };

/* ---- scripts ---- */

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

/* The graph of the first variant, for the workers. */
static fb_graph *script_round(const char *path, double *told, double *built)
{
    fb_machine m;
    fb_error err = {0};
    fb_script_event e;
    fb_machine_default(&m, FB_DEVICE_HOST);
    double start = fb_now_us();
    fb_script *s = fb_script_start(path, NULL, &err);
    bench_need(s != NULL, &err);
    next_of(s, FB_SCRIPT_INFO, &e);
    *told = fb_now_us() - start;
    json_t *params = json_object();
    for (int i = 0; i < e.info->n_params; i++)
        json_object_set(params, e.info->params[i].name, e.info->params[i].standard);
    start = fb_now_us();
    fb_script_build(s, e.info->variants[0], params);
    fb_script_event built_event;
    next_of(s, FB_SCRIPT_GRAPH, &built_event);
    *built = fb_now_us() - start;
    fb_graph *g = built_event.graph;
    built_event.graph = NULL;
    fb_script_event_clear(&built_event);
    fb_script_event_clear(&e);
    json_decref(params);
    fb_script_free(s);
    return g;
}

static fb_graph *scripts(const char *path)
{
    double told[ROUNDS], built[ROUNDS];
    fb_graph *g = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        if (g) fb_graph_free(g);
        g = script_round(path, &told[i], &built[i]);
    }
    bench_head("processes");
    bench_samples("script: start until it is described", told, ROUNDS, NULL);
    bench_samples("script: build until the graph is here", built, ROUNDS, NULL);
    return g;
}

/* ---- workers ---- */

static void wait_for(fb_worker *w, fb_worker_event_kind wanted)
{
    fb_worker_event e;
    for (;;) {
        while (fb_worker_next(w, &e)) {
            bench_need(e.kind != FB_WORKER_ERROR, &e.error);
            bool here = e.kind == wanted;
            fb_worker_event_clear(&e);
            if (here) return;
        }
        struct pollfd fds[3];
        int n = fb_worker_poll(w, fds);
        poll(fds, (nfds_t)n, LIMIT_MS);
        fb_worker_pump(w);
    }
}

static void worker_round(const fb_graph *g, const fb_plan *plan, double *prepared, double *sampled)
{
    double start = fb_now_us();
    fb_worker *w = fb_worker_new(getenv("FUSEBOX"), NULL);
    int64_t id = fb_worker_prepare(w, g, plan, "host", &(fb_measure_options){.seeds = {1}, .n_seeds = 1});
    wait_for(w, FB_WORKER_PREPARED);
    *prepared = fb_now_us() - start;
    fb_worker_sample(w, id, 1, FB_CACHE_HOT);
    wait_for(w, FB_WORKER_SAMPLED);
    *sampled = fb_now_us() - start;
    fb_worker_free(w);
}

/* With a cache of its own, so that the first round compiles, calibrates nothing and computes the reference. */
static void workers(const fb_graph *g)
{
    char cache[] = "/tmp/fusebox-bench-XXXXXX";
    fb_machine m;
    fb_error err = {.text = "no folder for a cache"};
    double prepared[WORKER_ROUNDS + 1], sampled[WORKER_ROUNDS + 1];
    bench_need(mkdtemp(cache) && setenv("XDG_CACHE_HOME", cache, 1) == 0, &err);
    fb_machine_default(&m, FB_DEVICE_HOST);
    fb_planner *p = fb_planner_new(g, &m);
    fb_plan *plan = fb_preset_find("max")->make(p, &err);
    bench_need(plan != NULL, &err);
    for (int i = 0; i <= WORKER_ROUNDS; i++) worker_round(g, plan, &prepared[i], &sampled[i]);
    bench_samples("worker: start until checked, caches empty", prepared, 1, "compiles, computes the reference");
    bench_samples("worker: start until first figure, caches empty", sampled, 1, NULL);
    bench_samples("worker: start until checked", prepared + 1, WORKER_ROUNDS, "compiled before");
    bench_samples("worker: start until first figure", sampled + 1, WORKER_ROUNDS, NULL);
    fb_plan_free(plan);
    fb_planner_free(p);
    char remove[64];
    snprintf(remove, sizeof remove, "rm -rf %s", cache);
    if (system(remove) != 0) printf("  (%s is left)\n", cache);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !getenv("FUSEBOX")) return 2;
    fb_json_init();
    fb_graph *g = scripts(argv[1]);
    workers(g);
    fb_graph_free(g);
    return 0;
}
