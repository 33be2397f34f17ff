/* Values of sources as a run would be given them, results with the judge's allowance, as one stream of bytes for the
 * test of an exported folder. Needs the interpreter's trials, which take their time for a large graph.
 */
#include "measure/example.h"

#include "base/mem.h"
#include "measure/judge.h"

#include <string.h>

enum { CHUNK = 1 << 16 }; /* elements that share what is usual among them */

typedef struct {
    fb_judge_shape shape;
    double *v;
    int64_t *i;
    float *spread;
} wanted;

typedef struct {
    wanted *at;
    fb_spread *parts; /* of each thread and tensor: told of nothing here, but the judge's to fill */
    int n;
} making;

int64_t fb_example_bytes(const fb_graph *g, const fb_example_tensor *t, int n)
{
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        if (t[i].given) bytes += t[i].elements * fb_dtype_size(g->nodes[t[i].node].dtype);
        if (t[i].checked != FB_NONE) bytes += t[i].elements * (int64_t)(sizeof(double) + sizeof(float));
    }
    return bytes;
}

static void take_block(void *ctx, int thread, const fb_trial_block *b)
{
    making *m = ctx;
    wanted *w = &m->at[b->want];
    fb_spread_add(&m->parts[thread * m->n + b->want], &w->shape, b, w->spread + b->first);
    if (b->v[0]) memcpy(w->v + b->first, b->v[0], (size_t)b->n * sizeof *w->v);
    if (b->i[0]) memcpy(w->i + b->first, b->i[0], (size_t)b->n * sizeof *w->i);
}

static bool evaluate(const fb_graph *g, making *m, const fb_id *nodes, const fb_trial_options *o, fb_error *err)
{
    m->parts = fb_calloc((size_t)(fb_trial_threads(o) * m->n) + 1, sizeof *m->parts);
    m->at = fb_calloc((size_t)m->n + 1, sizeof *m->at);
    for (int k = 0; k < m->n; k++) {
        wanted *w = &m->at[k];
        w->shape = fb_judgement_shape_of(&g->nodes[nodes[k]]);
        size_t room = (size_t)w->shape.elements + 1;
        w->spread = fb_calloc(room, sizeof *w->spread);
        if (fb_dtype_is_float(w->shape.dtype))
            w->v = fb_calloc(room, sizeof *w->v);
        else
            w->i = fb_calloc(room, sizeof *w->i);
    }
    return fb_trial_run(g, o, nodes, m->n, take_block, m, NULL, err);
}

static void add_expected(const wanted *w, fb_str *out)
{
    float allowed[CHUNK];
    for (int64_t k = 0; k < w->shape.elements; k++) {
        double v = w->v ? w->v[k] : (double)w->i[k];
        fb_str_add_n(out, (const char *)&v, sizeof v);
    }
    for (int64_t at = 0, n; at < w->shape.elements; at += n) {
        n = w->shape.elements - at < CHUNK ? w->shape.elements - at : CHUNK;
        fb_judgement_allowed(&w->shape, n, w->v ? w->v + at : NULL, w->spread + at, allowed);
        fb_str_add_n(out, (const char *)allowed, (size_t)n * sizeof *allowed);
    }
}

static bool add_given(const fb_graph *g, const fb_example_tensor *t, const fb_trial_options *o, fb_str *out,
                      fb_error *err)
{
    size_t bytes = (size_t)(t->elements * fb_dtype_size(g->nodes[t->node].dtype));
    char *values = fb_alloc(bytes + 1);
    bool fine = fb_interp_fill_source(g, t->node, o->seed, o->files, o->files_ctx, 0, t->elements, values, err);
    if (fine) fb_str_add_n(out, values, bytes);
    fb_free(values);
    return fine;
}

bool fb_example_write(const fb_graph *g, const fb_example_tensor *t, int n, uint64_t seed, fb_file_values files,
                      void *files_ctx, fb_str *out, fb_error *err)
{
    fb_trial_options o = {.seed = seed, .files = files, .files_ctx = files_ctx, .trials = FB_TRIALS};
    making m = {0};
    fb_id *nodes = fb_calloc((size_t)n + 1, sizeof *nodes);
    for (int i = 0; i < n; i++)
        if (t[i].checked != FB_NONE) nodes[m.n++] = t[i].checked;
    bool fine = evaluate(g, &m, nodes, &o, err);
    for (int i = 0, k = 0; i < n && fine; i++) {
        if (t[i].given) fine = add_given(g, &t[i], &o, out, err);
        if (fine && t[i].checked != FB_NONE) add_expected(&m.at[k++], out);
    }
    for (int k = 0; k < m.n; k++) {
        fb_free(m.at[k].v);
        fb_free(m.at[k].i);
        fb_free(m.at[k].spread);
    }
    fb_free(m.at);
    fb_free(m.parts);
    fb_free(nodes);
    return fine;
}
