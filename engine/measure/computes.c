/* What a graph computes, in a few words and figures. Needs a canonical graph; leaves it alone. */
#include "measure/computes.h"
#include "base/hash.h"
#include "base/rng.h"
#include "measure/compare.h"
#include "measure/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *fb_computes_of(const fb_graph *g, fb_arena *arena)
{
    fb_id *nodes;
    int64_t n[2][2] = {{0}}, elements[2][2] = {{0}}; /* outputs and updates; of floats and of anything else */
    int all = fb_reference_nodes(g, arena, &nodes);
    for (int i = 0; i < all; i++) {
        const fb_node *node = &g->nodes[nodes[i]];
        bool update = node->op == FB_OP_ASSIGN, exact = !fb_dtype_is_float(node->dtype);
        n[update][exact]++;
        elements[update][exact] += fb_shape_elements(&node->shape);
    }
    const char *text = "";
    for (int k = 0; k < 4; k++)
        if (n[k / 2][k % 2])
            text = fb_arena_printf(arena, "%s%s%lld %s%s of %lld", text, *text ? ", " : "", (long long)n[k / 2][k % 2],
                                   k / 2 ? "updated" : "out", k % 2 ? " exact" : "", (long long)elements[k / 2][k % 2]);
    return text;
}

/* ---- what came out ---- */

static double sign_at(int64_t place, int which)
{
    return fb_splitmix64((uint64_t)place * 2 + (uint64_t)which) >> 63 ? 1 : -1;
}

static void add_values(void *ctx, int64_t first, int64_t n, const double *floats, const int64_t *integers)
{
    fb_found *f = ctx;
    for (int64_t i = 0; i < n && first + i < FB_FOUND_SUMMED; i++) {
        double v = floats ? floats[i] : (double)integers[i];
        f->n++;
        f->squares += v * v;
        f->sum += v;
        for (int k = 0; k < 2; k++) f->along[k] += sign_at(first + i, k) * v;
    }
}

/* One number for all sources, in whichever order: their names, shapes and how they are drawn, but not their dtypes.
 * False where another draw decides what comes out. */
static bool sources_of(const fb_graph *g, uint64_t *all)
{
    *all = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        if (n->op == FB_OP_RANDOM) return false;
        if (n->op != FB_OP_INPUT && n->op != FB_OP_PARAM && n->op != FB_OP_FEED) continue;
        char text[256], shape[192];
        snprintf(text, sizeof text, "%.40s %.120s %d %.9g %.9g %.32s", n->name,
                 fb_shape_format(&n->shape, FB_DTYPES, shape), n->attrs->dist, n->attrs->value, n->attrs->high,
                 n->attrs->file ? n->attrs->file : "");
        *all += fb_digest(text, strlen(text));
    }
    return true;
}

const char *fb_computes_found(const fb_graph *g, const fb_reference *r, fb_arena *arena)
{
    const char *text = fb_computes_of(g, arena);
    fb_id *nodes;
    uint64_t sources;
    int all = fb_reference_nodes(g, arena, &nodes);
    if (all > FB_FOUND_TENSORS || !sources_of(g, &sources)) return text;
    text = fb_arena_printf(arena, "%s%s%016llx", text, FB_FOUND_BEHIND, (unsigned long long)sources);
    for (int i = 0; i < all; i++) {
        int64_t elements = fb_shape_elements(&g->nodes[nodes[i]].shape);
        fb_found f = {0};
        fb_reference_each(r, nodes[i], add_values, &f);
        if (f.n != (elements < FB_FOUND_SUMMED ? elements : FB_FOUND_SUMMED) || !isfinite(f.squares))
            return fb_computes_of(g, arena);
        text = fb_arena_printf(arena, "%s %lld:%.4g:%.4g:%.4g:%.4g", text, (long long)elements, f.squares, f.sum,
                               f.along[0], f.along[1]);
    }
    return text;
}
