/* The plan `best`: a search with the cost model (decide/search.h), then the most promising plans measured in turns on
 * the device, and the fastest of those that are right. A device that runs nothing tells what it recorded, composes or
 * predicts instead. Runs in the worker's child, for seconds; the answer is kept in the disk cache. */
#ifndef FB_MEASURE_BEST_H
#define FB_MEASURE_BEST_H

#include "measure/measure.h"

/* What is told of a search. Times in µs; NAN where not known. */
typedef struct {
    int64_t considered;           /* plans judged with the model */
    int measured;                 /* plans run here, or looked up in a recording */
    int failed;                   /* … of which these could not be, or were wrong */
    int tried, tuned;             /* knob settings that were measured, and that were kept */
    fb_figure_source source;      /* of `us` */
    double us, predicted_us;      /* of the plan: wall time */
    double off_median, off_worst; /* |predicted / measured - 1| over the measured plans */
    double seconds;               /* the search took */
    bool cached;                  /* it was made earlier */
    char date[32];
    char why[160]; /* why the first that failed did; "" none */
} fb_best_summary;

json_t *fb_best_summary_to_json(const fb_best_summary *s);
bool fb_best_summary_from_json(fb_best_summary *s, const json_t *value, fb_error *err);
/* "1,234 plans considered, 6 measured; the model was off by 12 % (median), 31 % at worst" */
void fb_best_sentence(const fb_best_summary *s, fb_str *out);

typedef struct {
    fb_measure_options measure;
    bool again;   /* search anew, whatever the cache holds */
    int64_t most; /* see fb_search_options */
    /* Waits until the device may be used; called before every look at it. May be NULL. */
    bool (*turn)(void *ctx, const fb_progress *progress, fb_error *err);
    void *turn_ctx;
} fb_best_options;

/* `d` NULL: by the model alone, for the planner's machine. The caller frees the plan; NULL with an error when
 * cancelled, when the device is lost, or when no plan could be made. */
fb_plan *fb_best_find(fb_device *d, fb_planner *p, const fb_best_options *o, const fb_progress *progress,
                      fb_best_summary *out, fb_error *err);

#endif
