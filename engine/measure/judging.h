/* Values judged against trials that are made for them.
 *
 * Eight lanes may all lie near the exact one by chance, and a right value further off than they allow. So nothing is
 * called wrong for a few elements that eight lanes do not allow, nor for whole numbers and truths that none of eight
 * lanes has: it is judged once more by FB_JUDGE_DRAWS times as many, each element by the furthest of them. That costs
 * time where something is wrong, or seems so, and nowhere else. What is wrong in many elements, or in what they add up
 * to, is no chance.
 */
#ifndef FB_MEASURE_JUDGING_H
#define FB_MEASURE_JUDGING_H

#include "measure/judge.h"

enum { FB_JUDGE_DRAWS = 4 };

/* All is borrowed. Of o, trials and draw are set here. */
typedef struct {
    const fb_graph *g;
    fb_trial_options o;
    const fb_id *want;      /* nodes … */
    const void *const *got; /* … and what is to be judged of each: all elements in the node's dtype */
    int n;
    bool rest; /* beyond o.sample elements, what has no trials is held against what is usual in those that have */
} fb_judging;

/* Fills a report of each value. `overflow` (may be NULL) is told as fb_trial_run tells it. Errors: its own, and
 * FB_ERR_LIMIT where there is no memory for a second look. */
bool fb_judgement_make(const fb_judging *j, fb_error_report *out, fb_trial_overflow *overflow, fb_error *err);
/* The second look alone, at values that a reference file called wrong for a few elements. */
bool fb_judgement_again(const fb_judging *j, fb_error_report *out, fb_error *err);

#endif
