/* Presets: decision procedures with a name that turn a graph into a plan. One row each in decide/presets.def. Every one
 * keeps a record of its decisions when asked (decide/steps.h), can be stopped after the first N of them, and goes on
 * after a decision that is refused it:
 *     inductor            all of it
 *     inductor[:12]       the first 12 decisions, then none
 *     inductor[no5]       decision 5 refused; the procedure goes on from there
 *     inductor[no5,no9:12]  the first 12 decisions of the run that refuses 5 and then 9
 */
#ifndef FB_DECIDE_PRESET_H
#define FB_DECIDE_PRESET_H

#include "decide/steps.h"
#include "plan/plan.h"

typedef struct {
    const char *name;
    const char *summary; /* one line for help and lists */
    /* Makes the plan; NULL with an error only when cancelled. */
    fb_plan *(*make)(fb_planner *p, fb_error *err);
} fb_preset;

/* The presets of the list, which plan the graph as it is written: what is recorded, weighed and compared. Behind them
 * come those that may take another form of it (rolled): they are asked for by name alone. */
int fb_presets(void);
int fb_presets_all(void);
const fb_preset *fb_preset_at(int i);
const fb_preset *fb_preset_find(const char *name); /* by name alone; NULL when there is none */

/* What stands side by side where nobody says which plans: what a framework launches, and what is recommended … */
enum { FB_PRESETS_USUAL = 2 };
extern const char *const fb_presets_usual[FB_PRESETS_USUAL];
/* … and the latter alone where one plan is wanted. */
extern const char *const fb_preset_recommended;

enum { FB_PRESET_REFUSALS = 16 };

typedef struct {
    const fb_preset *preset;
    int limit; /* decisions to take, then none; -1: all */
    int n_no;
    int no[FB_PRESET_REFUSALS]; /* numbers of decisions to refuse, ascending, from 1 */
} fb_preset_use;

/* False for what is no preset (err untouched, kind FB_OK) and for what is one badly written (err says how). */
bool fb_preset_parse(const char *text, fb_preset_use *out, fb_error *err);
void fb_preset_write(const fb_preset_use *use, fb_str *out); /* the text that parses to it */
/* As `make`, for what was parsed; `steps` (may be NULL) receives the record, which the caller frees. */
fb_plan *fb_preset_make(const fb_preset_use *use, fb_planner *p, fb_steps **steps, fb_error *err);

#endif
