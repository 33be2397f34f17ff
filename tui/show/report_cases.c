/* The page of an experiment: plots first, then the rows that they are of. */
#include "base/json.h"
#include "base/mem.h"
#include "tui/show/figure.h"
#include "tui/show/picture.h"
#include "tui/show/plots.h"
#include "tui/show/report.h"

#include <string.h>

/* Names in any row, in the order of their first. */
static json_t *names_of(const json_t *rows)
{
    json_t *names = json_object(), *row, *value;
    const char *name;
    size_t i;
    json_array_foreach(rows, i, row) json_object_foreach(row, name, value) if (!json_object_get(names, name))
        json_object_set(names, name, value);
    return names;
}

static void put_case(fb_html *h, const fb_output *o, const json_t *row, const json_t *names)
{
    const char *name;
    json_t *value;
    fb_html_open(h, "tr", NULL);
    json_object_foreach((json_t *)names, name, value)
    {
        fb_str cell = {0};
        fb_output_case_cell(o, row, name, &cell);
        fb_html_leaf(h, "td", strcmp(name, "failed") == 0 ? "bad" : NULL, fb_str_get(&cell));
        fb_str_free(&cell);
    }
    fb_html_leaf(h, "td", "name", fb_report_source_name(fb_figure_kind(row)));
    fb_html_close(h, "tr");
}

static void put_cases(fb_html *h, const fb_output *o)
{
    json_t *flat = json_array(), *row, *value;
    const char *name;
    size_t i;
    json_array_foreach(o->cases, i, row) json_array_append_new(flat, fb_plot_flat(row));
    json_t *names = names_of(flat);
    fb_html_open(h, "section", "id", "rows", NULL);
    fb_html_leaf(h, "h2", NULL, "Rows");
    fb_html_open(h, "div", "class", "wide", NULL);
    fb_html_open(h, "table", NULL);
    fb_html_open(h, "tr", NULL);
    json_object_foreach(names, name, value) fb_html_leaf(h, "th", NULL, name);
    fb_html_leaf(h, "th", "name", "kind");
    fb_html_close(h, "tr");
    json_array_foreach(flat, i, row) put_case(h, o, row, names);
    fb_html_close(h, "table");
    fb_html_close(h, "div");
    fb_page_kinds(h, flat);
    fb_html_close(h, "section");
    json_decref(names);
    json_decref(flat);
}

void fb_html_print_cases(const fb_output *o, const fb_script_info *info, FILE *out)
{
    fb_picture *pictures;
    char **titles;
    fb_html h = {0};
    const char *title = info && info->title ? info->title : o->script;
    fb_page_open(&h, title);
    fb_page_header(&h, o, info, title);
    int n = fb_plots_draw(o->plots, o->cases, &pictures, &titles);
    for (int i = 0; i < n; i++) {
        if (!pictures[i].body.n) continue;
        fb_html_open(&h, "section", NULL);
        fb_html_leaf(&h, "h2", NULL, titles[i]);
        fb_page_picture(&h, pictures[i], titles[i]);
        fb_html_close(&h, "section");
    }
    fb_plots_drop(pictures, titles, n);
    put_cases(&h, o);
    fb_page_close(&h, out);
}
