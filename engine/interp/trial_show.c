/* How a run of the trials was cut, and where its time went: for people who look (FB_DEBUG, letter e).
 *
 * requires  a run's groups, and the time of each slot
 * provides  text on stderr where the letter is there; else nothing, at the price of a test */
#include "interp/trial_parts.h"

#include "base/debug.h"
#include "base/mem.h"
#include "base/str.h"

enum { SHOWN = 12 }; /* nodes: those that took longest */

void fb_trial_watch(fb_trial_shared *s)
{
    if (fb_debug('e')) s->took = fb_calloc((size_t)s->n_slots + 1, sizeof *s->took);
}

void fb_trial_show_took(fb_trial_shared *s)
{
    fb_str text = {0};
    if (!s->took) return;
    for (int n = 0; n < SHOWN; n++) {
        int most = 0;
        for (int k = 1; k < s->n_slots; k++)
            if (atomic_load(&s->took[k]) > atomic_load(&s->took[most])) most = k;
        double seconds = (double)(s->n_slots ? atomic_exchange(&s->took[most], 0) : 0) * 1e-9;
        if (seconds < 1e-3) break;
        const fb_node *node = &s->g->nodes[s->order[most]];
        fb_str_addf(&text, "  %8.3f s %s (%s)\n", seconds, node->name, fb_op_get(node->op)->name);
    }
    fb_debug_show("threads' time in nodes", fb_str_get(&text));
    fb_str_free(&text);
    fb_free(s->took);
    s->took = NULL;
}
