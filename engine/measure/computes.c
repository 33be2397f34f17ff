/* What a graph computes, in a few words. Needs a canonical graph; leaves it alone. */
#include "measure/compare.h"
#include "measure/measure.h"

const char *fb_results_of(const fb_graph *g, fb_arena *arena)
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
