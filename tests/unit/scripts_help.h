/* The bundled scripts in tests: what they have, and plans of them. */
#ifndef TESTS_UNIT_SCRIPTS_HELP_H
#define TESTS_UNIT_SCRIPTS_HELP_H

#include "unit/sizes_help.h"

#include "base/embedded.h"
#include "decide/preset.h"
#include "script/script.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline bool has_choice(const fb_script_info *info, const char *param, const char *choice)
{
    for (int i = 0; i < info->n_params; i++)
        for (int c = 0; strcmp(info->params[i].name, param) == 0 && c < info->params[i].n_choices; c++)
            if (strcmp(info->params[i].choices[c], choice) == 0) return true;
    return false;
}

/* The plan; the same one when the edit is refused. */
static inline fb_plan *edited(fb_plan *plan, const fb_edit *edit)
{
    fb_plan *next = NULL;
    fb_plan_try(plan, edit, &next);
    if (!next) return plan;
    fb_plan_free(plan);
    return next;
}

/* The first loop as one kernel: of several, stages may have the same name. Its products are generated for that. */
static inline fb_plan *one_kernel(fb_planner *planner)
{
    const fb_graph *g = fb_planner_graph(planner);
    fb_error err = {0};
    fb_plan *plan = fb_preset_find("max")->make(planner, &err);
    for (fb_id i = 0; plan && i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_MATMUL && g->nodes[i].region)
            plan = edited(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE});
    for (fb_id i = 0; plan && i < g->n_nodes; i++) {
        if (g->nodes[i].op != FB_OP_LOOP) continue;
        return edited(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE});
    }
    return plan;
}

#endif
