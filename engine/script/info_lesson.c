/* What a script process says of a lesson, read by the front: nothing of it is taken on trust. */
#include "script/start.h"

#include "base/json.h"
#include "base/str.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* The indentation that all lines but empty ones and the first have is that of the script around the text. */
static size_t indentation(const char *text)
{
    size_t least = SIZE_MAX;
    for (const char *line = strchr(text, '\n'); line; line = strchr(line, '\n')) {
        line++;
        size_t n = strspn(line, " ");
        if (line[n] && line[n] != '\n' && n < least) least = n;
    }
    return least == SIZE_MAX ? 0 : least;
}

/* Without control characters, without common indentation, without blanks at its end; NULL: there is none. */
static const char *text_of(fb_arena *arena, const json_t *page, const char *field)
{
    const char *raw = fb_json_string_or(page, field, NULL);
    if (!raw) return NULL;
    fb_str clean = {0}, out = {0};
    fb_str_add_clean(&clean, raw, "\n\t");
    const char *text = fb_str_get(&clean);
    size_t indent = indentation(text);
    bool first = true;
    while (*text) {
        size_t n = strcspn(text, "\n"), skip = strspn(text, " ");
        if (skip > indent) skip = first ? 0 : indent;
        fb_str_add_n(&out, text + skip, n - (skip < n ? skip : n));
        text += n;
        if (*text) fb_str_add_n(&out, text++, 1);
        first = false;
    }
    size_t end = out.n;
    while (end && strchr(" \n\t", out.text[end - 1])) end--;
    const char *kept = fb_arena_printf(arena, "%.*s", (int)end, fb_str_get(&out));
    fb_str_free(&clean);
    fb_str_free(&out);
    return *kept ? kept : NULL;
}

static const char *one_line(fb_arena *arena, const char *text)
{
    char clean[400];
    if (!text) return NULL;
    fb_text_clean(clean, sizeof clean, text, strlen(text));
    return fb_arena_strdup(arena, clean);
}

static bool read_columns(const json_t *list, fb_arena *arena, fb_lesson_page *out, fb_error *err)
{
    size_t n = json_array_size(list);
    if (n > FB_LESSON_COLUMNS) return fb_fail(err, FB_ERR_INPUT, "a page has %zu columns", n);
    out->columns = FB_NEW_ARRAY(arena, const char *, n + 1);
    for (size_t i = 0; i < n; i++) {
        const char *text = one_line(arena, json_string_value(json_array_get(list, i)));
        if (!text) return fb_fail(err, FB_ERR_INPUT, "column %zu of a page is not text", i + 1);
        out->columns[out->n_columns++] = text;
    }
    return true;
}

static bool read_page(const json_t *json, fb_arena *arena, fb_lesson_page *out, fb_error *err)
{
    const char *title;
    json_t *params = json_object_get(json, "params");
    if (!fb_json_get_string(json, "title", &title, err)) return false;
    json_int_t line = json_integer_value(json_object_get(json, "line"));
    const char *puzzle = fb_json_string_or(json, "puzzle", NULL);
    *out = (fb_lesson_page){.line = line > 0 && line < INT_MAX ? (int)line : 0,
                            .title = one_line(arena, title),
                            .text = text_of(arena, json, "text"),
                            .answer = text_of(arena, json, "answer"),
                            .notes = text_of(arena, json, "notes"),
                            .script = one_line(arena, puzzle ? puzzle : fb_json_string_or(json, "script", NULL)),
                            .puzzle = puzzle != NULL,
                            .params = json_object_size(params) ? params : NULL,
                            .keys = text_of(arena, json, "keys"),
                            .minutes = fb_json_number_or(json, "minutes", NAN)};
    return read_columns(json_object_get(json, "columns"), arena, out, err);
}

const fb_lesson *fb_script_read_lesson(const json_t *json, fb_arena *arena, fb_error *err)
{
    const json_t *pages = json_object_get(json, "pages");
    size_t n = json_array_size(pages);
    if (!n || n > FB_LESSON_PAGES) return fb_fail(err, FB_ERR_INPUT, "a lesson of %zu pages", n), NULL;
    fb_lesson *lesson = FB_NEW(arena, fb_lesson);
    fb_lesson_page *list = FB_NEW_ARRAY(arena, fb_lesson_page, n);
    lesson->about = text_of(arena, json, "about");
    lesson->pages = list;
    for (; (size_t)lesson->n_pages < n; lesson->n_pages++)
        if (!read_page(json_array_get(pages, (size_t)lesson->n_pages), arena, &list[lesson->n_pages], err)) return NULL;
    return lesson;
}
