/* The script's parameters: left and right step through values, Enter types one. The columns follow. */
#include "base/json.h"
#include "tui/view/ui.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const fb_script_info *info(fb_app *app)
{
    return fb_session_script(app->session);
}

static int count(fb_app *app)
{
    return info(app) ? info(app)->n_params : 0;
}

static void title(fb_app *app, fb_str *out)
{
    (void)app;
    fb_str_add(out, "parameters");
}

static void value_text(const json_t *value, char to[64])
{
    char *all = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(to, 64, "%s", json_is_string(value) ? json_string_value(value) : all ? all : "-");
    free(all); /* jansson's own allocator is ours only after fb_json_init, which frees alike */
}

static void range_text(const fb_param *p, fb_str *out)
{
    for (int i = 0; i < p->n_choices; i++) fb_str_addf(out, "%s%s", i ? " " : "", p->choices[i]);
    if (isfinite(p->min) && isfinite(p->max))
        fb_str_addf(out, "%g … %g", p->min, p->max);
    else if (isfinite(p->min))
        fb_str_addf(out, "≥ %g", p->min);
    else if (isfinite(p->max))
        fb_str_addf(out, "≤ %g", p->max);
    if (p->step) fb_str_addf(out, "%sstep %s", out->n ? ", " : "", p->step);
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    enum { NAME = 2, VALUE = 24, RANGE = 42 };
    if (!count(app)) fb_draw(r, 1, 2, FB_ROLE_DIM, "the script has no parameters");
    for (int y = 0, row; y < r->h && (row = fb_shown_row(app, FB_VIEW_PARAMS, y, count(app))) != FB_NONE; y++) {
        const fb_param *p = &info(app)->params[row];
        const json_t *now = fb_session_param(app->session, p->name);
        char value[64];
        fb_str range = {0};
        fb_row_ground(app, FB_VIEW_PARAMS, r, y, row, focused);
        value_text(now, value);
        range_text(p, &range);
        fb_draw_cut(r, y, NAME, VALUE - NAME - 1, FB_ROLE_TEXT, p->name);
        fb_draw_cut(r, y, VALUE, RANGE - VALUE - 1, now && !json_equal(now, p->standard) ? FB_ROLE_KEY : FB_ROLE_STRONG,
                    value);
        fb_draw_cut(r, y, RANGE, r->w - RANGE, FB_ROLE_DIM, fb_str_get(&range));
        fb_str_free(&range);
    }
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, info(app)->params[row].name);
}

static void explain(fb_app *app, fb_hint *hint)
{
    int at = app->scroll[FB_VIEW_PARAMS].cursor;
    if (at >= count(app)) return;
    const fb_param *p = &info(app)->params[at];
    char standard[64];
    value_text(p->standard, standard);
    fb_str_add(&hint->title, p->name);
    fb_str_addf(&hint->line[0], "%s%sdefault %s", p->help ? p->help : "", p->help ? " · " : "", standard);
    fb_str_add(&hint->line[1], "h l change it, Enter types a value, Esc goes back");
}

/* The value one step up or down, a new reference; NULL where there is no way further. */
static json_t *stepped(const fb_param *p, const json_t *now, int step)
{
    if (p->kind == FB_PARAM_BOOL) return json_boolean(!json_is_true(now));
    if (p->kind == FB_PARAM_CHOICE) {
        for (int i = 0; i < p->n_choices; i++)
            if (json_is_string(now) && !strcmp(json_string_value(now), p->choices[i]))
                return json_string(p->choices[(i + step + p->n_choices) % p->n_choices]);
        return p->n_choices ? json_string(p->choices[0]) : NULL;
    }
    double v = json_number_value(now), by = p->step ? atof(p->step + (*p->step == 'x')) : 1;
    if (!(by > 0)) by = 1;
    if (p->step && *p->step == 'x')
        v = step > 0 ? v * by : v / by;
    else
        v += step * by;
    if (p->kind == FB_PARAM_INT) v = floor(v);
    if (!isfinite(v) || v < p->min || v > p->max || fabs(v) > 1e15) return NULL;
    return p->kind == FB_PARAM_INT ? json_integer((json_int_t)v) : json_real(v);
}

static void change(fb_app *app, const fb_param *p, int step)
{
    fb_error err = {0};
    json_t *value = stepped(p, fb_session_param(app->session, p->name), step);
    if (!value)
        fb_app_say(app, FB_ROLE_WARN, "%s goes no further", p->name);
    else if (!fb_session_set_param(app->session, p->name, value, &err))
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
    else
        app->params_set = true;
    json_decref(value);
    fb_model_update(app);
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    int at = app->scroll[FB_VIEW_PARAMS].cursor;
    (void)arg;
    if (at >= count(app)) return false;
    const fb_param *p = &info(app)->params[at];
    if (c == FB_CMD_LEFT || c == FB_CMD_RIGHT) {
        change(app, p, c == FB_CMD_RIGHT ? 1 : -1);
    } else if (c == FB_CMD_ENTER) {
        fb_str line = {0};
        fb_str_addf(&line, "set %s=", p->name);
        fb_prompt_open(&app->prompt, ':', fb_str_get(&line));
        fb_str_free(&line);
    } else {
        return false;
    }
    return true;
}

static const fb_view_key keys[] = {
    {FB_CMD_LEFT, "h less", "a smaller value, or the choice before"},
    {FB_CMD_RIGHT, "l more", "a larger value, or the next choice"},
    {FB_CMD_ENTER, "type", "type a value"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_params = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .keys = keys,
    .about = "The script's parameters: sizes, data types and the like. h and l change the one under the "
             "cursor; all columns are built and measured again, so that plans can be compared at another size.",
};
