/* Copying what is under the cursor: to the terminal's clipboard where it takes that, and always to a file, for not
 * every terminal does. */
#include "base/file.h"
#include "session/library.h"
#include "tui/term/terminal.h"
#include "tui/view/ui.h"

#include <limits.h>
#include <string.h>

/* What the view gives, else its row's text, else what the hint's box says of it. */
static void under_cursor(fb_app *app, fb_str *out)
{
    fb_view_id id = fb_app_view(app);
    const fb_view *view = fb_view_at(id);
    int row = app->scroll[id].cursor;
    if (view->yank)
        view->yank(app, out);
    else if (view->text && row < view->count(app))
        view->text(app, row, out);
    else
        fb_str_add(out, fb_str_get(&app->hint.line[0]));
}

/* "a.c, 120 lines" for a text, the text itself where it is one line. */
static void describe(const char *text, fb_str *out)
{
    int lines = 0;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    if (lines > 1)
        fb_str_addf(out, "%d lines", lines);
    else
        fb_str_addf(out, "\"%.*s\"", (int)strcspn(text, "\n"), text);
}

void fb_yank(fb_app *app, const char *path)
{
    char usual[PATH_MAX];
    fb_str text = {0}, what = {0};
    fb_error err = {0};
    under_cursor(app, &text);
    if (!text.n) {
        fb_app_say(app, FB_ROLE_WARN, "yank: there is nothing to copy under the cursor");
        fb_str_free(&text);
        return;
    }
    describe(fb_str_get(&text), &what);
    bool own = !*path, file = !own || fb_state_path("copied", usual, sizeof usual);
    if (own) path = usual;
    bool clip = own && app->settings.clipboard && fb_terminal_copy(fb_str_get(&text), text.n);
    bool good = file && fb_write_file(path, fb_str_get(&text), text.n, &err);
    if (!good && !clip)
        fb_app_say(app, FB_ROLE_BAD, "yank: %s", err.kind ? err.text : "there is no place for a file");
    else
        fb_app_say(app, FB_ROLE_GOOD, "copied %s%s%s%s%s", fb_str_get(&what), clip ? " to the clipboard" : "",
                   clip && good ? ", and" : "", good ? " to " : "", good ? path : "");
    fb_str_free(&text);
    fb_str_free(&what);
}
