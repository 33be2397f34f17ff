/* Presets: decision procedures with a name that turn a graph into a plan. One row each in plan/preset.c. */
#ifndef FB_PLAN_PRESET_H
#define FB_PLAN_PRESET_H

#include "plan/plan.h"

typedef struct {
    const char *name;
    const char *summary; /* one line for help and lists */
    /* Makes the plan; NULL with an error only when cancelled. */
    fb_plan *(*make)(fb_planner *p, fb_error *err);
} fb_preset;

int fb_presets(void);
const fb_preset *fb_preset_at(int i);
const fb_preset *fb_preset_find(const char *name); /* NULL when there is none */

#endif
