/* Prints what was found of loops that are written out, column by column. Needs columns whose plans are made. */
#include "tui/cli/loops.h"

#include "base/json.h"
#include "base/mem.h"
#include "tui/show/loops.h"
#include "tui/show/table.h"

static void text_of(const fb_plan *plan, fb_str *out)
{
    const fb_roll *r = fb_planner_roll(fb_plan_planner(plan));
    for (int i = 0; r && i < r->n; i++) {
        fb_plan_roll_says(&r->finds[i], out);
        fb_str_add(out, "\n");
    }
    if (!r || !r->n) fb_str_add(out, "no three equal stretches of operations follow each other\n");
    if (r && r->graph)
        fb_str_add(out, fb_plan_rolled(plan) ? "the plan has them as loops\n"
                                             : "the plan has them as they are written (preset rolled, pl:roll())\n");
}

static void print_text(const fb_session *s, FILE *out)
{
    const fb_column *first = fb_session_column(s, 0);
    fb_str text = {0};
    for (int i = 0; i < fb_session_columns(s); i++) {
        const fb_column *c = fb_session_column(s, i);
        fb_loops loops;
        if (fb_session_columns(s) > 1)
            fb_str_addf(&text, "%s%s\n", i ? "\n" : "", fb_show_loops_column(c, i ? first : fb_session_column(s, 1)));
        text_of(c->plan, &text);
        if (i && fb_show_loops_of_columns(first, c, true, &loops)) {
            fb_str_addf(&text, "beside %s: ", fb_show_loops_column(first, c));
            fb_loops_says(&loops, &text);
            fb_str_add(&text, "\n");
        }
    }
    fb_put(out, fb_str_get(&text));
    fb_str_free(&text);
}

static json_t *find_json(const fb_roll_find *f)
{
    fb_str text = {0};
    fb_plan_roll_says(f, &text);
    json_t *o = json_pack("{s:s, s:i, s:i, s:i, s:i, s:s}", "name", f->name, "members", f->members, "first", f->first,
                          "steps", f->trips, "operations", f->nodes, "text", fb_str_get(&text));
    if (f->why) json_object_set_new(o, "why", json_string(f->why));
    fb_str_free(&text);
    return o;
}

static void print_json(const fb_session *s, FILE *out)
{
    json_t *columns = json_array(), *compared = json_array();
    for (int i = 0; i < fb_session_columns(s); i++) {
        const fb_column *c = fb_session_column(s, i), *first = fb_session_column(s, 0);
        const fb_roll *r = fb_planner_roll(fb_plan_planner(c->plan));
        json_t *found = json_array();
        fb_loops loops;
        for (int k = 0; r && k < r->n; k++) json_array_append_new(found, find_json(&r->finds[k]));
        json_array_append_new(columns, json_pack("{s:s, s:s, s:b, s:o}", "variant", c->variant, "plan", c->plan_name,
                                                 "rolled", fb_plan_rolled(c->plan), "found", found));
        if (i && fb_show_loops_of_columns(first, c, true, &loops))
            json_array_append_new(compared, fb_show_loops_to_json(first, c, &loops));
    }
    json_t *all = json_pack("{s:i, s:o, s:o}", "fusebox_loops", 1, "columns", columns, "compared", compared);
    char *shown = fb_json_shown(all, JSON_INDENT(2));
    fprintf(out, "%s\n", shown);
    fb_free(shown);
    json_decref(all);
}

void fb_cli_loops(const fb_session *s, bool json, FILE *out)
{
    (json ? print_json : print_text)(s, out);
}
