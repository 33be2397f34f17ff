/* The bundled scripts, and the reduced sizes of tests/differential/scripts.sh at which tests run them. */
#ifndef TESTS_UNIT_SCRIPTS_HELP_H
#define TESTS_UNIT_SCRIPTS_HELP_H

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

static inline const char *source_dir(void)
{
    return getenv("FB_SRCDIR") ? getenv("FB_SRCDIR") : ".";
}

/* Is `name` among "a | b" before the bracket? */
static inline bool names_script(const char *line, const char *bracket, const char *name)
{
    for (const char *at = line; at < bracket;) {
        at += strspn(at, " |");
        size_t n = strcspn(at, " |)");
        if (n == strlen(name) && strncmp(at, name, n) == 0) return true;
        at += n ? n : 1;
    }
    return false;
}

/* {"batch":3}: what scripts.sh sets for this script. */
static inline json_t *reduced(const char *name)
{
    char path[4096], line[512];
    snprintf(path, sizeof path, "%s/tests/differential/scripts.sh", source_dir());
    FILE *f = fopen(path, "r");
    json_t *set = json_object();
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char *bracket = strstr(line, ") echo \"--set ");
        if (!bracket || !names_script(line, bracket, name)) continue;
        for (char *at = bracket; (at = strstr(at, "--set "));) {
            at += strlen("--set ");
            size_t key = strcspn(at, "=");
            char *value = at + key + 1, text[64];
            snprintf(text, sizeof text, "%.*s", (int)strcspn(value, " \""), value);
            json_t *v = strspn(text, "0123456789") == strlen(text) ? json_integer(atoll(text)) : json_string(text);
            json_object_setn_new(set, at, key, v);
        }
    }
    fclose(f);
    return set;
}

static inline bool is_bundled(const char *path)
{
    return strncmp(path, "scripts/", 8) == 0 && strncmp(path, "scripts/lib/", 12) != 0 &&
           strncmp(path, "scripts/lessons/", 16) != 0 && strlen(path) > 4 &&
           strcmp(path + strlen(path) - 4, ".lua") == 0 && !strstr(path, ".d.lua");
}

/* "scripts/models/gru.lua" is gru. */
static inline void script_name(const char *path, char to[64])
{
    const char *file = strrchr(path, '/') + 1;
    snprintf(to, 64, "%.*s", (int)strcspn(file, "."), file);
}

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
