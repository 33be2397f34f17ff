/* The bundled scripts, and three sizes of each: reduced as in tests/differential/scripts.sh, at which tests run them,
 * their own, and larger. For tests and benchmarks alike. */
#ifndef TESTS_UNIT_SIZES_HELP_H
#define TESTS_UNIT_SIZES_HELP_H

#include "script/script.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (!f) abort();
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

/* {"batch":256}: the first whole-number parameter, four times as large. */
static inline json_t *larger(const fb_script_info *info)
{
    json_t *set = json_object();
    for (int i = 0; i < info->n_params && !json_object_size(set); i++) {
        const fb_param *p = &info->params[i];
        if (p->kind == FB_PARAM_INT)
            json_object_set_new(set, p->name, json_integer(4 * json_integer_value(p->standard)));
    }
    return set;
}

#endif
