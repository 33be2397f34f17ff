/* What a script says of itself (parameters, plans, puzzle), taken from its process's message. Trusts nothing: every
 * field is checked and cleaned. Leaves one arena that owns all of it. */
#include "script/start.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "measure/why.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 1000, TEXT = 4000 };

/* Text for the screen, cleaned; NULL stays NULL. */
static const char *clean(fb_arena *arena, const char *text)
{
    if (!text) return NULL;
    char to[TEXT];
    fb_text_clean(to, sizeof to, text, strlen(text));
    return fb_arena_strdup(arena, to);
}

/* A list of texts; names only where `names`. */
static bool read_list(fb_script_info *info, const json_t *list, const char *what, bool names, int *n, const char ***out,
                      fb_error *err)
{
    if (!list) return true;
    if (!json_is_array(list)) return fb_fail(err, FB_ERR_INPUT, "%s is not a list", what);
    if (json_array_size(list) > MOST)
        return fb_fail(err, FB_ERR_INPUT, "%s has %zu entries; there may be %d", what, json_array_size(list), MOST);
    *out = FB_NEW_ARRAY(info->arena, const char *, json_array_size(list) + 1);
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item)) return fb_fail(err, FB_ERR_INPUT, "entry %d of %s is not text", (int)i + 1, what);
        const char *text = clean(info->arena, json_string_value(item));
        if (names && *text && !fb_str_is_name(text))
            return fb_fail(err, FB_ERR_INPUT, "\"%.60s\" in %s is no name", text, what);
        (*out)[(*n)++] = text;
    }
    return true;
}

static bool read_param(fb_script_info *info, const json_t *json, fb_param *p, fb_error *err)
{
    static const char *const kinds[] = {
        [FB_PARAM_INT] = "int", [FB_PARAM_FLOAT] = "float", [FB_PARAM_CHOICE] = "choice", [FB_PARAM_BOOL] = "bool"};
    const char *name, *kind;
    if (!fb_json_get_string(json, "name", &name, err) || !fb_json_get_string(json, "kind", &kind, err)) return false;
    if (!fb_str_is_name(name)) return fb_fail(err, FB_ERR_INPUT, "parameter \"%.60s\": no name", name);
    size_t k = 0;
    while (k < 4 && strcmp(kinds[k], kind) != 0) k++;
    if (k == 4) return fb_fail(err, FB_ERR_INPUT, "parameter %s is of kind \"%.20s\"", name, kind);
    const json_t *step = json_object_get(json, "step");
    *p = (fb_param){.kind = (fb_param_kind)k,
                    .name = fb_arena_strdup(info->arena, name),
                    .help = clean(info->arena, fb_json_string_or(json, "help", NULL)),
                    .standard = json_object_get(json, "default"),
                    .min = fb_json_number_or(json, "min", NAN),
                    .max = fb_json_number_or(json, "max", NAN)};
    if (json_is_string(step)) p->step = clean(info->arena, json_string_value(step));
    if (json_is_number(step)) p->step = fb_arena_printf(info->arena, "%g", json_number_value(step));
    if (!p->standard || json_is_object(p->standard) || json_is_array(p->standard))
        return fb_fail(err, FB_ERR_INPUT, "parameter %s has no value", name);
    return read_list(info, json_object_get(json, "choices"), name, false, &p->n_choices, &p->choices, err);
}

static bool read_params(fb_script_info *info, const json_t *list, fb_error *err)
{
    size_t n = json_array_size(list);
    if (n > MOST) return fb_fail(err, FB_ERR_INPUT, "%d parameters", (int)n);
    info->params = FB_NEW_ARRAY(info->arena, fb_param, n + 1);
    for (; (size_t)info->n_params < n; info->n_params++)
        if (!read_param(info, json_array_get(list, (size_t)info->n_params), &info->params[info->n_params], err))
            return false;
    return true;
}

static const fb_script_lines *read_lines(fb_script_info *info, const json_t *list, int n)
{
    fb_script_lines *lines = FB_NEW_ARRAY(info->arena, fb_script_lines, n + 1);
    for (int i = 0; i < n; i++) {
        const json_t *pair = json_array_get(list, (size_t)i);
        json_int_t first = json_integer_value(json_array_get(pair, 0)),
                   last = json_integer_value(json_array_get(pair, 1));
        if (first >= 1 && first <= last && last < INT_MAX) lines[i] = (fb_script_lines){(int)first, (int)last};
    }
    return lines;
}

static int part_named(const char *name)
{
    for (int id = 0; name && id < FB_WHY_REST; id++)
        if (!strcmp(name, fb_why_name((fb_why_id)id))) return id;
    return FB_WHY_NONE;
}

static fb_condition read_condition(fb_script_info *info, const char *key, const json_t *more)
{
    const char *costs = fb_json_string_or(more, "costs", NULL), *saves = fb_json_string_or(more, "saves", key);
    return (fb_condition){.part = part_named(costs ? costs : saves),
                          .costs = costs != NULL,
                          .tell = clean(info->arena, fb_json_string_or(more, "tell", NULL))};
}

static bool read_premise(const json_t *json, fb_premise *out, fb_error *err)
{
    static const char *const names[] = {
        [FB_PREMISE_FASTER] = "faster", [FB_PREMISE_SLOWER] = "slower", [FB_PREMISE_DIFFERS] = "differs"};
    const char *given = fb_json_string_or(json, "premise", "faster");
    for (int i = FB_PREMISE_FASTER; i <= FB_PREMISE_DIFFERS; i++) {
        *out = (fb_premise)i;
        if (!strcmp(given, names[i])) return true;
    }
    return fb_fail(err, FB_ERR_INPUT, "puzzle: the premise is faster, slower or differs, not \"%.40s\"", given);
}

/* choices are [key, text, {…}], … . */
static bool read_choices(fb_script_info *info, const json_t *list, fb_puzzle *p, fb_error *err)
{
    size_t n = json_array_size(list), i;
    if (n > MOST) return fb_fail(err, FB_ERR_INPUT, "puzzle: %d choices", (int)n);
    p->choice_keys = FB_NEW_ARRAY(info->arena, const char *, n + 1);
    p->choices = FB_NEW_ARRAY(info->arena, const char *, n + 1);
    fb_condition *conditions = FB_NEW_ARRAY(info->arena, fb_condition, n + 1);
    p->conditions = conditions;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        const char *key = json_string_value(json_array_get(item, 0)),
                   *text = json_string_value(json_array_get(item, 1));
        if (!key || !text) return fb_fail(err, FB_ERR_INPUT, "puzzle: choice %d is not { key, text }", (int)i + 1);
        conditions[p->n_choices] = read_condition(info, key, json_array_get(item, 2));
        p->choice_keys[p->n_choices] = clean(info->arena, key);
        p->choices[p->n_choices++] = clean(info->arena, text);
    }
    return true;
}

static bool read_puzzle(fb_script_info *info, const json_t *json, fb_error *err)
{
    if (!json) return true;
    fb_puzzle *p = FB_NEW(info->arena, fb_puzzle);
    const json_t *compare = json_object_get(json, "compare");
    for (size_t i = 0; i < 2; i++) {
        p->compare[i] = clean(info->arena, json_string_value(json_array_get(compare, i)));
        if (!p->compare[i])
            return fb_fail(err, FB_ERR_INPUT, "puzzle: compare takes two columns, like { \"a:eager\", \"b:eager\" }");
    }
    json_int_t order = json_integer_value(json_object_get(json, "order"));
    p->order = order > 0 && order < INT_MAX ? (int)order : 0;
    p->about = clean(info->arena, fb_json_string_or(json, "about", NULL));
    p->ask = clean(info->arena, fb_json_string_or(json, "ask", "Why is the second faster?"));
    p->tell = clean(info->arena, fb_json_string_or(json, "tell", NULL));
    p->has_answer = fb_json_bool_or(json, "has_answer", false);
    info->puzzle = p;
    return read_premise(json, &p->premise, err) && read_choices(info, json_object_get(json, "choices"), p, err) &&
           read_list(info, json_object_get(json, "hints"), "the puzzle's hints", false, &p->n_hints, &p->hints, err);
}

fb_script_info *fb_script_info_read(const json_t *m, const char *path, fb_error *err)
{
    fb_arena *arena = fb_arena_new();
    fb_script_info *info = FB_NEW(arena, fb_script_info);
    info->arena = arena;
    info->json = json_deep_copy(m);
    info->path = fb_arena_strdup(arena, path);
    info->title = clean(arena, fb_json_string_or(m, "title", ""));
    const char *computes = fb_json_string_or(m, "computes", "");
    info->computes = *computes ? clean(arena, computes) : NULL;
    info->experiment = fb_json_bool_or(m, "experiment", false);
    bool ok =
        read_params(info, json_object_get(info->json, "params"), err) &&
        read_list(info, json_object_get(m, "variants"), "variants", true, &info->n_variants, &info->variants, err) &&
        read_list(info, json_object_get(m, "plans"), "plans", true, &info->n_plans, &info->plans, err) &&
        read_list(info, json_object_get(m, "columns"), "columns", false, &info->n_columns, &info->columns, err) &&
        read_puzzle(info, json_object_get(m, "puzzle"), err);
    info->variant_lines = read_lines(info, json_object_get(m, "variant_lines"), info->n_variants);
    info->plan_lines = read_lines(info, json_object_get(m, "plan_lines"), info->n_plans);
    const json_t *lesson = json_object_get(info->json, "lesson");
    if (ok && lesson) ok = (info->lesson = fb_script_read_lesson(lesson, info->arena, err)) != NULL;
    if (ok && !lesson && !info->n_variants) ok = fb_fail(err, FB_ERR_INPUT, "there is no variant");
    if (ok) return info;
    fb_script_info_free(info);
    return NULL;
}

void fb_script_info_free(fb_script_info *info)
{
    if (!info) return;
    json_decref(info->json);
    fb_arena_free(info->arena);
}
