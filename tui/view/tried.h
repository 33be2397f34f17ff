/* Every column that was tried, with its figures: the rows of a results file (session/results.h) in
 * $XDG_STATE_HOME/fusebox/history.jsonl, each with when it was ("when", seconds since 1970), where its script is
 * ("path") and, where no name stands for its plan, the plan itself ("edited"). Several workbenches append to it at
 * once. */
#ifndef FB_TUI_VIEW_TRIED_H
#define FB_TUI_VIEW_TRIED_H

#include "session/session.h"

typedef struct fb_tried fb_tried;

fb_tried *fb_tried_new(void);
void fb_tried_free(fb_tried *t);
/* Appends the columns that have been measured since. True when there were any. A file that cannot be written is no
 * reason to fail. */
bool fb_tried_follow(fb_tried *t, const fb_session *s);
bool fb_tried_path(char *to, size_t room);

/* The column that a row was of, as a spec: "split_stack:max@host"; an edited plan is written to a file beside the
 * history and named by that. False: the row is of no column that can be had again. */
bool fb_tried_spec(const json_t *row, fb_str *spec, fb_error *err);

/* Writes a plan (fb_plan_to_json) to a file of its own and adds the path. */
bool fb_tried_plan_file(const json_t *plan, fb_str *to, fb_error *err);

#endif
