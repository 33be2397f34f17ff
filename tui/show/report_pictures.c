/* A report's pictures as SVG on their own: one document, or a file each. */
#include "tui/show/report.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <string.h>

const fb_sheet fb_sheets[FB_SHEETS] = {
    [FB_SHEET_KERNELS] = {"kernels", "Kernels", "Time, on one scale for all columns of a device, and modelled bytes."},
    [FB_SHEET_ROOFLINE] =
        {"roofline", "Roofline",
         "What a column computes a second, against what it computes a byte. No column of a device can be above its "
         "line: "
         "that is what its memory (where the line rises) and its arithmetic (where it is level) allow."},
    [FB_SHEET_SCATTER] =
        {"scatter", "Time against bytes",
         "A column on the line takes as long as copying its bytes would; above it something else costs time."},
};

void fb_sheets_draw(const fb_output *o, fb_picture to[FB_SHEETS])
{
    fb_picture_bars(&to[FB_SHEET_KERNELS], o->rows, FB_NONE);
    fb_picture_roofline(&to[FB_SHEET_ROOFLINE], o->rows, o->devices);
    fb_picture_scatter(&to[FB_SHEET_SCATTER], o->rows, o->devices);
}

/* The pictures of all rows with their plans and waterfalls, and names for files and people. All are the caller's. */
typedef struct {
    int n;
    fb_picture *pictures;
    char **names, **titles;
} album;

static void add(album *a, fb_picture picture, const char *name, const char *title)
{
    a->pictures[a->n] = picture;
    a->names[a->n] = fb_strdup(name);
    a->titles[a->n++] = fb_strdup(title);
}

static void add_plans(album *a, const fb_output *o, const json_t *kept)
{
    size_t i;
    json_t *column;
    json_array_foreach(json_object_get(kept, "columns"), i, column)
    {
        const json_t *row = json_array_get(o->rows, i);
        char name[32];
        fb_str title = {0};
        snprintf(name, sizeof name, "plan-%zu", i + 1);
        fb_picture_row_name(row, (int)i + 1, json_object_get(row, "params"), &title);
        add(a, fb_kept_picture(column), name, fb_str_get(&title));
        fb_str_free(&title);
    }
}

static void add_whys(album *a, const json_t *kept)
{
    size_t i;
    json_t *why;
    json_array_foreach(json_object_get(kept, "whys"), i, why)
    {
        char name[48], title[80];
        int first = (int)fb_json_int_or(why, "a", 0) + 1, second = (int)fb_json_int_or(why, "b", 0) + 1;
        snprintf(name, sizeof name, "why-%d-%d", first, second);
        snprintf(title, sizeof title, "From %d to %d", first, second);
        add(a, fb_kept_picture(why), name, title);
    }
}

static album album_of(const fb_output *o, const json_t *kept)
{
    size_t n =
        FB_SHEETS + json_array_size(json_object_get(kept, "columns")) + json_array_size(json_object_get(kept, "whys"));
    album a = {.pictures = fb_calloc(n, sizeof *a.pictures),
               .names = fb_calloc(n, sizeof *a.names),
               .titles = fb_calloc(n, sizeof *a.titles)};
    fb_picture sheets[FB_SHEETS] = {0};
    fb_sheets_draw(o, sheets);
    for (int i = 0; i < FB_SHEETS; i++) add(&a, sheets[i], fb_sheets[i].name, fb_sheets[i].title);
    add_plans(&a, o, kept);
    add_whys(&a, kept);
    return a;
}

static void free_album(album *a)
{
    for (int i = 0; i < a->n; i++) {
        fb_picture_free(&a->pictures[i]);
        fb_free(a->names[i]);
        fb_free(a->titles[i]);
    }
    fb_free(a->pictures);
    fb_free(a->names);
    fb_free(a->titles);
}

void fb_svg_print(const fb_output *o, const json_t *kept, FILE *out)
{
    fb_str text = {0};
    album a = album_of(o, kept);
    fb_picture_document(a.pictures, (const char *const *)a.titles, a.n, &text);
    fputs(fb_str_get(&text), out);
    fb_str_free(&text);
    free_album(&a);
}

bool fb_svg_write(const fb_output *o, const json_t *kept, const char *folder, fb_error *err)
{
    if (!fb_make_folder(folder, err)) return false;
    album a = album_of(o, kept);
    bool good = true;
    for (int i = 0; i < a.n && good; i++) {
        fb_str text = {0}, path = {0};
        if (!a.pictures[i].body.n) continue;
        fb_picture_document(&a.pictures[i], (const char *const *)&a.titles[i], 1, &text);
        fb_str_addf(&path, "%s/%s.svg", folder, a.names[i]);
        good = fb_write_file(fb_str_get(&path), fb_str_get(&text), text.n, err);
        fb_str_free(&text);
        fb_str_free(&path);
    }
    free_album(&a);
    return good;
}
