/* What a second set holds must fit together: of two values that a launch reads, one may be made of the other alone (the
 * copy of a view, that a library reads beside what it is a view of; a value that is read here and computed anew there).
 *
 * requires  a launch whose reads were taken
 * provides  those of them that the others decide, as the others have it, here and in memory */
#include "measure/check_parts.h"

#include "base/mem.h"
#include "graph/element.h"

/* May a kernel compute it anew? A product it may not, and what a step leaves it cannot. */
static bool is_computed_anew(const fb_node *n)
{
    return n->n_args && n->op != FB_OP_ASSIGN && n->op != FB_OP_LOOP && n->op != FB_OP_RESULT &&
           fb_op_get(n->op)->cls != FB_CLASS_CONTRACTION;
}

bool *fb_reads_derived(const fb_graph *g, const fb_launch *l)
{
    bool *read = fb_calloc((size_t)g->n_nodes + 1, sizeof *read),
         *known = fb_calloc((size_t)g->n_nodes + 1, sizeof *known), *derived = fb_calloc((size_t)l->n_reads + 1, 1);
    for (int r = 0; r < l->n_reads; r++) read[l->reads[r].node] = true;
    for (fb_id id = 0; id < g->n_nodes; id++) {
        const fb_node *n = &g->nodes[id];
        known[id] = fb_op_is_made_up(n->op) || is_computed_anew(n);
        for (int a = 0; a < n->n_args && known[id]; a++) known[id] = read[n->args[a]] || known[n->args[a]];
    }
    for (int r = 0; r < l->n_reads; r++)
        derived[r] = known[l->reads[r].node] && !fb_op_is_made_up(g->nodes[l->reads[r].node].op);
    fb_free(known);
    fb_free(read);
    return derived;
}

typedef struct {
    const fb_node *n;
    char *to;
} keeping;

static void keep(void *ctx, int thread, const fb_trial_block *b)
{
    const keeping *k = ctx;
    char *to = k->to + b->first * fb_dtype_size(k->n->dtype);
    (void)thread;
    if (b->v[0])
        fb_elements_store(k->n->dtype, b->n, b->v[0], to);
    else
        fb_elements_store_int(k->n->dtype, b->n, b->i[0], to);
}

static bool derive(fb_one_launch *one, const fb_launch *l, int read, fb_error *err)
{
    const fb_check_job *job = one->job;
    fb_id id = l->reads[read].node;
    keeping k = {&job->g->nodes[id], fb_check_room(job->g, id, err)};
    if (!k.to) return false;
    fb_given *given = fb_calloc((size_t)l->n_reads + 1, sizeof *given);
    int n = 0;
    for (int r = 0; r < l->n_reads; r++)
        if (l->reads[r].node != id) given[n++] = (fb_given){l->reads[r].node, one->bytes[r]};
    fb_given_sort(given, n);
    fb_trial_options o = {.n_given = n,
                          .given = given,
                          .seed = job->seed,
                          .files = job->files,
                          .files_ctx = job->files_ctx,
                          .threads = job->threads};
    bool ok = fb_trial_run(job->g, &o, &id, 1, keep, &k, NULL, err) && fb_one_put(one, read, k.to, err);
    fb_free(given);
    fb_free(k.to);
    return ok && fb_one_take(one, err);
}

bool fb_one_derive(fb_one_launch *one, const bool *derived, fb_error *err)
{
    const fb_launch *l = &one->job->program->launches[one->launch];
    bool ok = true;
    for (fb_id id = 0; ok && id < one->job->g->n_nodes; id++) /* ascending: one may be made of another */
        for (int r = 0; ok && r < l->n_reads; r++)
            if (derived[r] && l->reads[r].node == id) ok = derive(one, l, r, err);
    return ok;
}
