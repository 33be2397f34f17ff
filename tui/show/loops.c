/* Asks the plans of two columns for their loops. Needs plans that are made; changes nothing. */
#include "tui/show/loops.h"

#include <string.h>

const char *fb_show_loops_column(const fb_column *c, const fb_column *other)
{
    return c->variant[0] && strcmp(c->variant, other->variant) != 0 ? c->variant : c->text;
}

bool fb_show_loops_of_columns(const fb_column *a, const fb_column *b, bool found, fb_loops *out)
{
    if (!a->plan || !b->plan || (!found && fb_hash_equal(a->graph->hash, b->graph->hash))) return false;
    fb_plan_loops(a->plan, fb_show_loops_column(a, b), b->plan, fb_show_loops_column(b, a), found, out);
    return found || fb_graph_has_loop(a->graph) || fb_graph_has_loop(b->graph);
}

json_t *fb_show_loops_to_json(const fb_column *a, const fb_column *b, const fb_loops *l)
{
    fb_str text = {0};
    json_t *why = json_array();
    fb_loops_says(l, &text);
    for (int i = 0; i < l->n; i++) json_array_append_new(why, json_string(l->why[i]));
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:o}", "first", fb_show_loops_column(a, b), "second",
                  fb_show_loops_column(b, a), "is", fb_loops_name(l->is), "text", fb_str_get(&text), "why", why);
    fb_str_free(&text);
    return o;
}
