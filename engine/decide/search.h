/* Search: plans that the cost model takes for fast, best first. A beam search over edits of the presets' plans: fuse,
 * cut, put side by side, recompute or store, library call or generated, launch mode. Nothing is measured here, so the
 * same graph and machine give the same plans.
 *
 * Every edit goes through fb_plan_try, so that what is found is what a user could have made, and is legal and generated
 * for the same reasons. */
#ifndef FB_DECIDE_SEARCH_H
#define FB_DECIDE_SEARCH_H

#include "plan/plan.h"

#define FB_SEARCH_NAME "best" /* where a preset's name may stand */

enum { FB_SEARCH_MOST = 32 };

typedef struct {
    int n_best;   /* plans wanted, at most FB_SEARCH_MOST; 0: 8 */
    int beam;     /* plans that a round goes on from; 0: 6 */
    int64_t most; /* edits to judge; 0: by the graph's size */
    /* Called now and then; false cancels. May be NULL. */
    bool (*step)(void *ctx, int64_t considered, double fraction, double best_us);
    void *ctx;
} fb_search_options;

typedef struct {
    int64_t considered; /* plans judged, presets included */
    int n;
    fb_plan *plan[FB_SEARCH_MOST]; /* owned; unlike each other in predicted time or launches, fastest first … */
    double us[FB_SEARCH_MOST];     /* … as predicted, launches included */
} fb_search_result;

/* False only when cancelled (FB_ERR_CANCELLED). Plans of nodes that no family takes are left out, so n may be 0. */
bool fb_decide_search(fb_planner *p, const fb_search_options *o, fb_search_result *out, fb_error *err);
void fb_decide_search_clear(fb_search_result *r);

#endif
