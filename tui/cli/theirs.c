/* explain and emit of a framework's column: what its compiler decided, by itself and beside a plan of ours. */
#include "tui/cli/theirs.h"

#include "base/mem.h"
#include "tui/cli/cli.h"
#include "tui/show/table.h"
#include "tui/show/theirs.h"

#include <string.h>

bool fb_cli_any_theirs(const fb_session *s)
{
    for (int i = 0; i < fb_session_columns(s); i++)
        if (!fb_session_column(s, i)->plan) return true;
    return false;
}

/* What the framework did with a column; NULL with why there is nothing to tell. */
static const fb_theirs *theirs_of(const fb_column *c, fb_error *err)
{
    const fb_theirs *t = c->report ? c->report->theirs : NULL;
    if (c->state == FB_COLUMN_FAILED)
        *err = c->error;
    else if (!t)
        fb_fail(err, FB_ERR_USAGE, "%s has no plan of ours, and its worker tells none of its own", c->text);
    else if (t->unavailable)
        fb_fail(err, FB_ERR_UNAVAILABLE, "the plan of %s is not available: %s", c->text, t->unavailable);
    else
        return t;
    return NULL;
}

static void print_beside(const fb_session *s, int ours, const fb_theirs *t, fb_str *out)
{
    const fb_column *c = fb_session_column(s, ours);
    fb_arena *arena = fb_arena_new();
    fb_theirs_beside b;
    fb_preset_use use;
    fb_error none = {0};
    fb_str_addf(out, "beside %s: ", c->text);
    if (!fb_theirs_compare(t, c->plan, arena, &b)) {
        fb_str_add(out, "its loops are another graph, so that the two are not compared\n");
    } else {
        fb_steps *steps = fb_session_preset(s, ours, &use, &none) ? fb_session_steps(s, ours, &use, &none) : NULL;
        fb_show_theirs_said(&b, out);
        fb_str_add(out, "\n");
        fb_show_theirs_beside(&b, c->plan, steps, out);
        fb_steps_free(steps);
    }
    fb_arena_free(arena);
}

static bool print_one(const fb_session *s, int at, bool sources, fb_str *out, fb_error *err)
{
    const fb_column *c = fb_session_column(s, at);
    const fb_theirs *t = theirs_of(c, err);
    if (!t) return false;
    if (sources && !fb_show_theirs_sources(t, out))
        return fb_fail(err, FB_ERR_UNAVAILABLE, "no source of %s came from its worker", c->text);
    if (sources) return true;
    fb_str_addf(out, "%s: ", c->text);
    fb_show_theirs(t, out);
    for (int i = 0; i < fb_session_columns(s); i++) {
        const fb_column *other = fb_session_column(s, i);
        if (other->plan && other->written == c->written) print_beside(s, i, t, out);
    }
    return true;
}

bool fb_cli_theirs_beside(const fb_session *s, int a, int b, fb_str *out)
{
    const fb_column *x = fb_session_column(s, a), *y = fb_session_column(s, b);
    if (!x->plan == !y->plan || x->written != y->written) return false;
    const fb_column *ours = x->plan ? x : y, *other = x->plan ? y : x;
    const fb_theirs *t = other->report ? other->report->theirs : NULL;
    fb_arena *arena = fb_arena_new();
    fb_theirs_beside beside;
    bool told = t && fb_theirs_compare(t, ours->plan, arena, &beside);
    if (told) fb_show_theirs_said(&beside, out);
    fb_arena_free(arena);
    return told;
}

int fb_cli_theirs(fb_session *s, bool sources)
{
    int n = fb_session_columns(s), status = 0, *columns = fb_calloc((size_t)n + 1, sizeof *columns), m = 0;
    bool told = true; /* call by call there is no compiler to ask, and nothing to wait for */
    for (int i = 0; i < n; i++) {
        const fb_column *c = fb_session_column(s, i);
        if (c->plan) continue;
        columns[m++] = i;
        told &= strncmp(c->plan_name, "eager", strlen("eager")) != 0;
    }
    if (told) fb_session_check(s, columns, m);
    if (told) fb_cli_wait(s);
    for (int i = 0; i < m && !status; i++) {
        fb_str out = {0};
        fb_error err = {0};
        if (print_one(s, columns[i], sources, &out, &err))
            fb_put(stdout, fb_str_get(&out));
        else
            status = fb_cli_fail_in(&err, fb_session_path(s));
        fb_str_free(&out);
    }
    fb_free(columns);
    return status;
}
