/* Gathers as JSON what a page needs of columns besides their rows. */
#include "tui/show/kept.h"

#include "base/json.h"
#include "base/mem.h"
#include "session/names.h"
#include "tui/show/code.h"

#include <string.h>

json_t *fb_kept_new(void)
{
    return json_pack("{s:[], s:[]}", "columns", "whys");
}

fb_picture fb_kept_picture(const json_t *of)
{
    fb_picture p = {.w = (int)fb_json_int_or(of, "w", 0), .h = (int)fb_json_int_or(of, "h", 0)};
    fb_str_add(&p.body, fb_json_string_or(of, "body", ""));
    return p;
}

static void keep_picture(json_t *to, const fb_picture *p)
{
    json_object_set_new(to, "w", json_integer(p->w));
    json_object_set_new(to, "h", json_integer(p->h));
    json_object_set_new(to, "body", json_string(fb_str_get(&p->body)));
}

void fb_kept_column(json_t *kept, const fb_column *c)
{
    json_t *columns = json_object_get(kept, "columns");
    if (!c->plan || !c->graph) {
        json_array_append_new(columns, json_null());
        return;
    }
    fb_picture p = {0};
    fb_str source = {0}, clean = {0}; /* a kernel of the user's may hold anything */
    json_t *own = json_object();
    fb_picture_plan(&p, c->plan, c->report);
    fb_code_of_plan(c, &source);
    fb_str_add_clean(&clean, fb_str_get(&source), "\n\t");
    keep_picture(own, &p);
    json_object_set_new(own, "language", json_string(fb_code_language(c)));
    json_object_set_new(own, "source", json_string(fb_str_get(&clean)));
    json_array_append_new(columns, own);
    fb_str_free(&source);
    fb_str_free(&clean);
    fb_picture_free(&p);
}

/* ---- waterfalls ---- */

/* "1  split_stack:eager@host" */
static void name_column(const fb_column *c, int row, fb_str *out)
{
    fb_str_addf(out, "%d  %s%s%s@%s%s%s", row + 1, c->variant, c->variant[0] ? ":" : "", c->plan_name, c->device,
                c->values ? "#" : "", c->values ? c->values : "");
}

static json_t *parts_of(const fb_why *why)
{
    json_t *parts = json_array();
    for (int id = 0; id < FB_WHY_PARTS; id++)
        if (fb_why_matters(why, (fb_why_id)id))
            json_array_append_new(
                parts, json_pack("{s:s, s:s}", "name", fb_why_name((fb_why_id)id), "text", why->part[id].text));
    return parts;
}

/* Some of a session's columns, and the reports of their rows, which may be a results file's. */
typedef struct {
    const fb_session *session;
    const int *columns;
    int n, first;        /* first: their first row */
    fb_report **reports; /* NULL: a row that is none */
} compared;

static const fb_column *column_at(const compared *c, int i)
{
    return fb_session_column(c->session, c->columns[i]);
}

static bool why_of(const compared *c, int a, int b, fb_why *out, fb_error *err)
{
    if (!c->reports[a] || !c->reports[b]) return fb_fail(err, FB_ERR_INPUT, "there is no report of it");
    return fb_session_why_reports(c->session, c->columns[a], c->columns[b], c->reports[a], c->reports[b], out, err);
}

static json_t *keep_why(const compared *c, int a, int b)
{
    const int at[] = {a, b};
    fb_why why = {.of = FB_TIME_WALL};
    fb_error err = {0};
    json_t *own = json_pack("{s:i, s:i}", "a", c->first + a, "b", c->first + b);
    if (!why_of(c, a, b, &why, &err)) {
        json_object_set_new(own, "failed", json_string(err.text));
        return own;
    }
    fb_str name[2] = {{0}, {0}};
    fb_picture p = {0};
    char verdicts[160], conclusion[240];
    for (int i = 0; i < 2; i++) name_column(column_at(c, at[i]), c->first + at[i], &name[i]);
    fb_picture_why(&p, &why, fb_str_get(&name[0]), fb_str_get(&name[1]));
    keep_picture(own, &p);
    fb_why_conclusion(&why, conclusion);
    json_object_set_new(own, "of", json_string(fb_comparison_time_name(why.of)));
    json_object_set_new(own, "verdicts", json_string(fb_why_verdicts(&why, verdicts)));
    json_object_set_new(own, "conclusion", json_string(conclusion));
    json_object_set_new(own, "parts", parts_of(&why));
    for (int i = 0; i < 2; i++) fb_str_free(&name[i]);
    fb_picture_free(&p);
    return own;
}

static bool comparable(const compared *c, int a, int b)
{
    const fb_report *ra = c->reports[a], *rb = c->reports[b];
    return ra && rb && !ra->failed && !rb->failed && !fb_not_comparable(FB_COMPARED(ra), FB_COMPARED(rb));
}

/* The first column that the i-th can be compared with, one on the same device before others; FB_NONE. */
static int base_of(const compared *c, int i)
{
    for (int same = 1; same >= 0; same--)
        for (int k = 0; k < i; k++) {
            bool one = !strcmp(column_at(c, k)->device, column_at(c, i)->device);
            if (one == same && comparable(c, k, i)) return k;
        }
    return FB_NONE;
}

/* Does "eager@torch" mean the column, on whatever torch there is? */
static bool fits(const fb_column_spec *spec, const fb_column *c)
{
    size_t n = spec->device ? strlen(spec->device) : 0;
    return (!spec->variant || !strcmp(spec->variant, c->variant)) && !strcmp(spec->plan, c->plan_name) &&
           fb_column_spec_has(spec, c->values) &&
           (!n || (!strncmp(c->device, spec->device, n) && (!c->device[n] || c->device[n] == ':')));
}

/* Which of the columns the puzzle compares: the first pair on one device. */
static bool puzzle_pair(const compared *c, int pair[2])
{
    const fb_script_info *info = fb_session_script(c->session);
    fb_column_spec spec[2] = {{.plan = NULL}, {.plan = NULL}};
    bool found = false, fine = info && info->puzzle;
    for (int i = 0; i < 2 && fine; i++) fine = fb_column_spec_parse(info->puzzle->compare[i], &spec[i], NULL);
    for (int a = 0; a < c->n && fine && !found; a++)
        for (int b = 0; b < c->n && !found; b++) {
            if (a == b || !fits(&spec[0], column_at(c, a)) || !fits(&spec[1], column_at(c, b)) ||
                strcmp(column_at(c, a)->device, column_at(c, b)->device) != 0)
                continue;
            pair[0] = a;
            pair[1] = b;
            found = true;
        }
    for (int i = 0; i < 2; i++) fb_column_spec_free(&spec[i]);
    return found;
}

static compared compared_of(const fb_session *s, const json_t *rows, const int *columns, int n)
{
    compared c = {.session = s, .columns = columns, .n = n, .first = (int)json_array_size(rows) - n};
    c.reports = fb_calloc((size_t)n + 1, sizeof(fb_report *));
    for (int i = 0; i < n; i++) {
        fb_error err = {0};
        c.reports[i] = fb_report_from_json(json_array_get(rows, (size_t)c.first + (size_t)i), &err);
    }
    return c;
}

static void free_compared(compared *c)
{
    for (int i = 0; i < c->n; i++) fb_report_free(c->reports[i]);
    fb_free(c->reports);
}

bool fb_kept_puzzle_why(const fb_session *s, const json_t *rows, const int *columns, int n, fb_why *out)
{
    compared c = compared_of(s, rows, columns, n);
    fb_error err = {0};
    int pair[2];
    bool found = puzzle_pair(&c, pair) && why_of(&c, pair[0], pair[1], out, &err);
    free_compared(&c);
    return found;
}

void fb_kept_whys(json_t *kept, const fb_session *s, const json_t *rows, const int *columns, int n)
{
    compared c = compared_of(s, rows, columns, n);
    json_t *whys = json_object_get(kept, "whys");
    int pair[2] = {FB_NONE, FB_NONE};
    if (puzzle_pair(&c, pair)) {
        json_t *own = keep_why(&c, pair[0], pair[1]);
        json_object_set_new(own, "puzzle", json_true());
        json_array_append_new(whys, own);
    }
    for (int i = 1; i < n; i++) {
        int with = base_of(&c, i);
        if (with != FB_NONE && !(pair[0] == with && pair[1] == i)) json_array_append_new(whys, keep_why(&c, with, i));
    }
    free_compared(&c);
}

/* ---- the puzzle ---- */

void fb_kept_answer(json_t *kept, const fb_session *s)
{
    const fb_script_info *info = fb_session_script(s);
    const fb_answer *answer = fb_session_answer(s);
    if (!info || !info->puzzle || answer->state != FB_ANSWER_KNOWN) return;
    static const char *const states[] = {[FB_GRADE_TIE] = "tie",
                                         [FB_GRADE_UNEXPLAINED] = "unexplained",
                                         [FB_GRADE_OTHER] = "other",
                                         [FB_GRADE_KNOWN] = "known"};
    const fb_grade *g = &answer->grade;
    json_t *right = json_array();
    for (int i = 0; i < info->puzzle->n_choices && g->state == FB_GRADE_KNOWN && !g->turned; i++)
        if (g->right >> i & 1) json_array_append_new(right, json_integer(i));
    json_t *told = json_pack("{s:o, s:s, s:b}", "right", right, "state", states[g->state], "turned", (int)g->turned);
    if (g->turned && g->state == FB_GRADE_KNOWN)
        json_object_set_new(told, "cause", json_string(fb_grade_cause(g->winner)));
    json_object_set_new(kept, "puzzle", told);
}
