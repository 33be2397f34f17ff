#include "tui/kept.h"

#include "base/json.h"
#include "base/mem.h"
#include "session/names.h"
#include "tui/code.h"

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
    fb_str_addf(out, "%d  %s%s%s@%s", row + 1, c->variant, c->variant[0] ? ":" : "", c->plan_name, c->device);
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

static json_t *keep_why(const fb_session *s, const int at[2], const int rows[2])
{
    fb_why why;
    fb_error err = {0};
    json_t *own = json_pack("{s:i, s:i}", "a", rows[0], "b", rows[1]);
    if (!fb_session_why(s, at[0], at[1], &why, &err)) {
        json_object_set_new(own, "failed", json_string(err.text));
        return own;
    }
    fb_str name[2] = {{0}, {0}};
    fb_picture p = {0};
    char verdicts[160], conclusion[240];
    for (int i = 0; i < 2; i++) name_column(fb_session_column(s, at[i]), rows[i], &name[i]);
    fb_picture_why(&p, &why, fb_str_get(&name[0]), fb_str_get(&name[1]));
    keep_picture(own, &p);
    fb_why_conclusion(&why, conclusion);
    json_object_set_new(own, "of", json_string(fb_time_name(why.of)));
    json_object_set_new(own, "verdicts", json_string(fb_why_verdicts(&why, verdicts)));
    json_object_set_new(own, "conclusion", json_string(conclusion));
    json_object_set_new(own, "parts", parts_of(&why));
    for (int i = 0; i < 2; i++) fb_str_free(&name[i]);
    fb_picture_free(&p);
    return own;
}

static bool comparable(const fb_session *s, int a, int b)
{
    const fb_column *ca = fb_session_column(s, a), *cb = fb_session_column(s, b);
    return ca->report && cb->report && !ca->report->failed && !cb->report->failed &&
           !fb_not_comparable(ca->device, ca->computes, cb->device, cb->computes);
}

/* The first column that the i-th can be compared with, one on the same device before others; FB_NONE. */
static int base_of(const fb_session *s, const int *columns, int i)
{
    for (int same = 1; same >= 0; same--)
        for (int k = 0; k < i; k++) {
            bool one = !strcmp(fb_session_column(s, columns[k])->device, fb_session_column(s, columns[i])->device);
            if (one == same && comparable(s, columns[k], columns[i])) return k;
        }
    return FB_NONE;
}

/* Does "eager@torch" mean the column, on whatever torch there is? */
static bool fits(const fb_column_spec *spec, const fb_column *c)
{
    size_t n = spec->device ? strlen(spec->device) : 0;
    return (!spec->variant || !strcmp(spec->variant, c->variant)) && !strcmp(spec->plan, c->plan_name) &&
           (!n || (!strncmp(c->device, spec->device, n) && (!c->device[n] || c->device[n] == ':')));
}

/* Which of the columns the puzzle compares: the first pair on one device. */
static bool puzzle_pair(const fb_session *s, const int *columns, int n, int pair[2])
{
    const fb_script_info *info = fb_session_script(s);
    fb_column_spec spec[2] = {{0}, {0}};
    bool found = false;
    if (!info || !info->puzzle) return false;
    for (int i = 0; i < 2; i++)
        if (!fb_column_spec_parse(info->puzzle->compare[i], &spec[i], NULL)) n = 0;
    for (int a = 0; a < n && !found; a++)
        for (int b = 0; b < n && !found; b++) {
            if (a == b || !fits(&spec[0], fb_session_column(s, columns[a])) ||
                !fits(&spec[1], fb_session_column(s, columns[b])) ||
                strcmp(fb_session_column(s, columns[a])->device, fb_session_column(s, columns[b])->device) != 0)
                continue;
            pair[0] = a;
            pair[1] = b;
            found = true;
        }
    for (int i = 0; i < 2; i++) fb_column_spec_free(&spec[i]);
    return found;
}

bool fb_kept_puzzle_why(const fb_session *s, const int *columns, int n, fb_why *out)
{
    fb_error err = {0};
    int pair[2];
    return puzzle_pair(s, columns, n, pair) && fb_session_why(s, columns[pair[0]], columns[pair[1]], out, &err);
}

void fb_kept_whys(json_t *kept, const fb_session *s, const int *columns, int n)
{
    json_t *whys = json_object_get(kept, "whys");
    int first = (int)json_array_size(json_object_get(kept, "columns")) - n, pair[2] = {FB_NONE, FB_NONE};
    bool asked = puzzle_pair(s, columns, n, pair);
    if (asked) {
        json_t *own = keep_why(s, (const int[2]){columns[pair[0]], columns[pair[1]]},
                               (const int[2]){first + pair[0], first + pair[1]});
        json_object_set_new(own, "puzzle", json_true());
        json_array_append_new(whys, own);
    }
    for (int i = 1; i < n; i++) {
        int with = base_of(s, columns, i);
        if (with == FB_NONE || (asked && pair[0] == with && pair[1] == i)) continue;
        json_array_append_new(
            whys, keep_why(s, (const int[2]){columns[with], columns[i]}, (const int[2]){first + with, first + i}));
    }
}

/* ---- the puzzle ---- */

void fb_kept_answer(json_t *kept, const fb_session *s)
{
    const fb_script_info *info = fb_session_script(s);
    const fb_answer *answer = fb_session_answer(s);
    if (!info || !info->puzzle || answer->state != FB_ANSWER_KNOWN) return;
    json_t *right = json_array();
    for (int i = 0; i < info->puzzle->n_choices; i++)
        if (!strcmp(info->puzzle->choice_keys[i], answer->key)) json_array_append_new(right, json_integer(i));
    json_object_set_new(kept, "puzzle",
                        json_pack("{s:o, s:b}", "right", right, "tie", (int)!strcmp(answer->key, "tie")));
}
