/* A script that could not be loaded: what is wrong, and the line with what stands around it. */
#include "session/library.h"
#include "tui/view/ui.h"

#include <string.h>

enum { AROUND = 4 };

static void title(fb_app *app, fb_str *out)
{
    (void)app;
    fb_str_add(out, "the script has an error");
}

static int count(fb_app *app)
{
    (void)app;
    return 0;
}

static int line_number(fb_app *app)
{
    return fb_session_script_error_line(app->session);
}

/* The script as it was when the error came up; it is read again with the next one. */
static void opened(fb_app *app)
{
    const char **text = fb_view_state(app, FB_VIEW_ERROR, sizeof *text);
    char *all = app->path && line_number(app) > 0 ? fb_session_script_text(app->path) : NULL;
    *text = fb_arena_strdup(app->arena[FB_VIEW_ERROR], all);
    fb_free(all);
}

static int draw_line(const fb_rect *r, int y, int number, const char *line, size_t n, bool here)
{
    enum { NUMBER = 7, TEXT = 9 };
    char digits[16], part[1024];
    snprintf(digits, sizeof digits, "%d", number);
    snprintf(part, sizeof part, "%.*s", (int)(n < sizeof part ? n : sizeof part - 1), line);
    fb_draw_right(r, y, NUMBER, here ? FB_ROLE_BAD : FB_ROLE_DIM, digits);
    fb_draw_cut(r, y, TEXT, r->w - TEXT - 1, here ? FB_ROLE_STRONG : FB_ROLE_DIM, part);
    if (!here) return 1;
    int indent = (int)strspn(part, " \t"), width = fb_draw_text_width(part + indent);
    if (width > r->w - TEXT - indent - 1) width = r->w - TEXT - indent - 1;
    fb_draw(r, y + 1, TEXT + indent, FB_ROLE_BAD, "^");
    fb_draw_run(r, y + 1, TEXT + indent + 1, width - 1, FB_ROLE_BAD, "~");
    return 2;
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const fb_error *err = fb_session_script_error(app->session);
    const char *text = *(const char **)app->state[FB_VIEW_ERROR];
    int wrong = line_number(app), number = 1;
    fb_rect inner = {r->y + 1, r->x + 2, r->h - 1, r->w - 4};
    (void)focused;
    int y = 1 + fb_draw_wrapped(&inner, 0, 0, inner.h, FB_ROLE_BAD, err->text);
    for (const char *p = text; p && *p && y < inner.h; number++) {
        size_t n = strcspn(p, "\n");
        if (number >= wrong - AROUND && number <= wrong + AROUND)
            y += draw_line(&inner, y, number, p, n, number == wrong);
        p += n + (p[n] == '\n');
    }
    if (y + 1 < inner.h)
        fb_draw_wrapped(&inner, y + 1, 0, inner.h - y - 1, FB_ROLE_DIM,
                        "r loads it again · E opens it in your editor · ! what the script printed · o other scripts · "
                        "Esc the workbench");
}

const fb_view fb_view_error = {
    .title = title,
    .count = count,
    .draw = draw,
    .opened = opened,
    .about = "The script could not be loaded. The message names what is wrong, and the line is shown with what "
             "stands around it. Save the script again, and it is loaded by itself.",
};
