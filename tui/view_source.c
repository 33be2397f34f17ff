/* The generated source of one kernel, as the device's compiler gets it. */
#include "codegen/lower.h"
#include "tui/ui.h"

#include <ctype.h>
#include <string.h>

enum { STEP = 8, NUMBERS = 5 };

typedef struct {
    int n;
    const char **lines;
    const char *title;
} source;

static source *state(fb_app *app)
{
    return app->state[FB_VIEW_SOURCE];
}

/* The kernel under the cursor of the pane that has the focus. */
static int group_at_cursor(fb_app *app)
{
    const fb_model *m = &app->model;
    int at = app->scroll[FB_VIEW_KERNELS].cursor;
    const fb_row *row = fb_model_row(app);
    if (app->focus == FB_VIEW_KERNELS && at < m->kernels.n) return m->kernels.at[at].group;
    return row && row->letter != FB_NONE ? m->letters.first_group[row->letter]
           : m->kernels.n                ? m->kernels.at[0].group
                                         : FB_NONE;
}

static void split(source *s, fb_arena *arena, const char *text)
{
    int n = 1;
    for (const char *p = text; *p; p++) n += *p == '\n';
    s->lines = FB_NEW_ARRAY(arena, const char *, n);
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        char *line = fb_arena_alloc(arena, len + 1);
        memcpy(line, p, len);
        s->lines[s->n++] = line;
        p += len + (p[len] == '\n');
    }
}

static void opened(fb_app *app)
{
    const fb_column *c = app->model.column;
    source *s = fb_view_state(app, FB_VIEW_SOURCE, sizeof *s);
    fb_arena *arena = app->arena[FB_VIEW_SOURCE];
    int group = c && c->plan ? group_at_cursor(app) : FB_NONE;
    app->scroll[FB_VIEW_SOURCE] = (fb_scroll){0};
    s->title = "source";
    if (group == FB_NONE) return;
    fb_str title = {0};
    char letter[8];
    fb_str_addf(&title, "source · %s ", fb_letter_name(app->model.letters.of_group[group], letter));
    fb_group_title(c->plan, group, &title);
    s->title = fb_arena_strdup(arena, fb_str_get(&title));
    fb_str_free(&title);
    const fb_dialect *dialect = fb_dialect_find(c->machine && c->machine->kind == FB_DEVICE_CUDA ? "cuda" : "c");
    const char *text = dialect ? fb_lower_group_source(c->plan, group, dialect, arena) : NULL;
    split(s, arena, text ? text : "/* a library call: there is no source */\n");
}

static void title(fb_app *app, fb_str *out)
{
    fb_str_add(out, state(app)->title);
}

static int count(fb_app *app)
{
    return state(app) ? state(app)->n : 0;
}

static bool is_keyword(const char *p, size_t n)
{
    static const char *const words[] = {"for",        "if",           "else",    "return",   "const",  "static",
                                        "void",       "int",          "float",   "double",   "long",   "while",
                                        "struct",     "int64_t",      "int32_t", "restrict", "size_t", "__global__",
                                        "__shared__", "__restrict__", "bool",    "unsigned"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && !strncmp(words[i], p, n)) return true;
    return false;
}

/* Enough of C to tell comments and keywords apart. Returns whether a comment goes on in the next line. */
static bool draw_code(const fb_rect *r, int y, int x, const char *line, bool comment)
{
    char part[1024];
    for (const char *p = line; *p;) {
        fb_role role = FB_ROLE_TEXT;
        size_t n = 1;
        const char *end;
        if (comment || !strncmp(p, "/*", 2)) {
            end = strstr(comment ? p : p + 2, "*/");
            n = end ? (size_t)(end + 2 - p) : strlen(p);
            comment = !end;
            role = FB_ROLE_COMMENT;
        } else if (!strncmp(p, "//", 2) || *p == '#') {
            n = strlen(p);
            role = FB_ROLE_COMMENT;
        } else if (isalpha((unsigned char)*p) || *p == '_') {
            while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
            role = is_keyword(p, n) ? FB_ROLE_WORD : FB_ROLE_TEXT;
        } else {
            while (p[n] && !isalpha((unsigned char)p[n]) && p[n] != '_' && p[n] != '/' && p[n] != '#') n++;
        }
        snprintf(part, sizeof part, "%.*s", (int)n, p);
        x = fb_draw(r, y, x, role, part);
        p += n;
    }
    return comment;
}

static bool in_comment_before(const source *s, int line)
{
    bool inside = false;
    for (int i = 0; i < line; i++)
        for (const char *p = s->lines[i]; *p; p++) {
            if (!inside && !strncmp(p, "/*", 2))
                inside = true, p++;
            else if (inside && !strncmp(p, "*/", 2))
                inside = false, p++;
        }
    return inside;
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const source *s = state(app);
    const fb_scroll *scroll = &app->scroll[FB_VIEW_SOURCE];
    fb_rect code = {r->y, r->x + NUMBERS + 1, r->h, r->w - NUMBERS - 1};
    bool comment = in_comment_before(s, scroll->top);
    for (int y = 0; y < r->h && scroll->top + y < s->n; y++) {
        char number[16];
        int line = scroll->top + y;
        fb_row_ground(app, FB_VIEW_SOURCE, r, y, line, focused);
        snprintf(number, sizeof number, "%d", line + 1);
        fb_draw_right(r, y, NUMBERS - 1, FB_ROLE_OFF, number);
        comment = draw_code(&code, y, -scroll->left, s->lines[line], comment);
    }
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, state(app)->lines[row]);
}

static void explain(fb_app *app, fb_hint *hint)
{
    const fb_column *c = app->model.column;
    fb_str_add(&hint->title, "source");
    if (c)
        fb_str_addf(&hint->line[0], "as generated for column %d on %s; the prelude is left out · Esc goes back",
                    app->column + 1, c->device);
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    fb_scroll *s = &app->scroll[FB_VIEW_SOURCE];
    (void)arg;
    if (c == FB_CMD_RIGHT)
        s->left += STEP;
    else if (c == FB_CMD_LEFT)
        s->left -= s->left >= STEP ? STEP : s->left;
    else
        return false;
    return true;
}

const fb_view fb_view_source = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
};
