/* Reading plan files. A file is first read into a list of wishes, all names looked up; these are then granted one by
 * one: recomputing first, since it may be what makes a group legal, then groups with their families and knobs. Strict
 * reading stops at the first that cannot be granted; otherwise it is noted and left out. */
#include "base/json.h"
#include "plan/parts.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    fb_ids nodes;
    bool named; /* a family was asked for */
    fb_family family;
    const json_t *knobs; /* borrowed; NULL: none */
    const char *source;  /* borrowed; NULL: generated */
} wish;

typedef FB_VEC(wish) wishes;

typedef struct {
    fb_planner *p;
    const fb_graph *g;
    bool strict;
    fb_str *dropped;
    fb_error *err;
    const char *made_for; /* hash of the graph the file was made for */
    bool *claimed;        /* a node: in a group of the file already */
    wishes groups;
    fb_ids recompute, loops;
    fb_launch_mode launch;
    bool overlap;
    fb_plan *plan;
} reader;

/* Something cannot be had: the end when strict, else a line. */
static bool give_up(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool give_up(reader *r, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    if (r->strict) {
        fb_vfail(r->err, FB_ERR_INPUT, format, ap);
    } else if (r->dropped) {
        fb_str_vaddf(r->dropped, format, ap);
        fb_str_add(r->dropped, "\n");
    }
    va_end(ap);
    return !r->strict;
}

/* Names in messages come from a file. */
static const char *clean(const char *name, char to[96])
{
    fb_text_clean(to, 96, name, strlen(name));
    return to;
}

static bool missing(reader *r, const char *name)
{
    char hash[33], text[96];
    bool other = strcmp(r->made_for, fb_hash_hex(fb_planner_written(r->p)->g->hash, hash)) != 0;
    return give_up(r, "plan: no node `%s` in this graph%s", clean(name, text),
                   other ? ", and the plan was made for another one" : "");
}

/* ---- names ---- */

/* A node and the indices that the pattern's stars took. */
typedef struct {
    fb_id node;
    int n_star;
    int64_t star[FB_MAX_STARS];
} match;

typedef FB_VEC(match) matches;

static bool add_matches(reader *r, const char *name, const char *key, matches *out)
{
    int before = out->n;
    if (!strstr(name, "[*]")) {
        fb_id id = fb_graph_find(r->g, name);
        if (id != FB_NONE) FB_VEC_PUSH(out, (match){.node = id});
    } else {
        match m = {0};
        for (m.node = 0; m.node < r->g->n_nodes; m.node++)
            if (fb_name_matches(name, r->g->nodes[m.node].name, m.star, &m.n_star)) FB_VEC_PUSH(out, m);
    }
    if (out->n == before) return missing(r, name);
    fb_verdict why;
    int kept = before;
    for (int i = before; i < out->n; i++) {
        bool loop = r->g->nodes[out->at[i].node].op == FB_OP_LOOP && strcmp(key, "loops") == 0;
        if (loop || fb_may_own(r->p, out->at[i].node, &why))
            out->at[kept++] = out->at[i];
        else if (!give_up(r, "plan: %s", why.text))
            return false;
    }
    out->n = kept;
    return true;
}

static bool read_names(reader *r, const json_t *list, const char *key, matches *out)
{
    if (!json_is_array(list)) return fb_fail(r->err, FB_ERR_INPUT, "plan: field \"%s\" is not a list of names", key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name) return fb_fail(r->err, FB_ERR_INPUT, "plan: field \"%s\", item %zu is not a name", key, i + 1);
        if (!add_matches(r, name, key, out)) return false;
    }
    return true;
}

static int by_star(const void *a, const void *b)
{
    const match *x = a, *y = b;
    if (x->n_star != y->n_star) return x->n_star - y->n_star;
    int c = memcmp(x->star, y->star, (size_t)x->n_star * sizeof *x->star);
    return c ? c : (x->node > y->node) - (x->node < y->node);
}

static bool claim(reader *r, fb_id node, wish *w)
{
    if (r->claimed[node]) return give_up(r, "plan: `%s` is in two groups", r->g->nodes[node].name);
    r->claimed[node] = true;
    FB_VEC_PUSH(&w->nodes, node);
    return true;
}

static bool same_member(const match *a, const match *b)
{
    return a->n_star == b->n_star && memcmp(a->star, b->star, (size_t)a->n_star * sizeof *a->star) == 0;
}

/* One group of all that was matched, or one for each set of indices. */
static bool add_groups(reader *r, matches *m, bool each, const wish *like)
{
    if (each && m->n) qsort(m->at, (size_t)m->n, sizeof *m->at, by_star);
    for (int i = 0, end; i < m->n; i = end) {
        wish w = *like;
        bool good = true;
        for (end = i; end < m->n && (!each || same_member(&m->at[i], &m->at[end])) && good; end++)
            good = claim(r, m->at[end].node, &w);
        if (w.nodes.n) FB_VEC_PUSH(&r->groups, w);
        if (!good) return false;
    }
    return true;
}

static bool read_group(reader *r, const json_t *o)
{
    wish like = {.knobs = json_object_get(o, "knobs")};
    const json_t *family = json_object_get(o, "family");
    char text[96];
    if (!json_is_object(o)) return fb_fail(r->err, FB_ERR_INPUT, "plan: a group is not an object");
    if (family && !json_is_string(family)) return fb_fail(r->err, FB_ERR_INPUT, "plan: field \"family\" is not a name");
    if (like.knobs && !json_is_object(like.knobs))
        return fb_fail(r->err, FB_ERR_INPUT, "plan: field \"knobs\" is not an object");
    const json_t *source = json_object_get(o, "source");
    if (source && (!json_is_string(source) || !json_string_value(source)[0]))
        return fb_fail(r->err, FB_ERR_INPUT, "plan: field \"source\" is not the path of a file");
    like.source = json_string_value(source);
    like.named = family != NULL;
    if (family && !fb_family_parse(json_string_value(family), &like.family))
        return fb_fail(r->err, FB_ERR_INPUT, "plan: there is no family `%s`", clean(json_string_value(family), text));
    matches m = {0};
    bool good = read_names(r, json_object_get(o, "nodes"), "nodes", &m) &&
                add_groups(r, &m, fb_json_bool_or(o, "each", false), &like);
    FB_VEC_FREE(&m);
    return good;
}

static bool read_launch(reader *r, const json_t *value)
{
    const char *name = fb_json_string_or(value, "launch", "stream");
    char text[96];
    for (int m = FB_LAUNCH_STREAM; m <= FB_LAUNCH_MEGA; m++) {
        if (strcmp(name, fb_launch_mode_name((fb_launch_mode)m)) != 0) continue;
        r->launch = (fb_launch_mode)m;
        return true;
    }
    return fb_fail(r->err, FB_ERR_INPUT, "plan: there is no launch mode `%s`", clean(name, text));
}

static bool read_wishes(reader *r, const json_t *value)
{
    int64_t version;
    json_t *groups;
    if (!json_is_object(value)) return fb_fail(r->err, FB_ERR_INPUT, "plan: not a JSON object");
    if (!fb_json_get_int(value, "fusebox_plan", 1, INT32_MAX, &version, r->err)) return fb_fail_prefix(r->err, "plan");
    if (version != FB_PLAN_FORMAT)
        return fb_fail(r->err, FB_ERR_INPUT, "a plan of format %lld, but this fusebox reads format %d",
                       (long long)version, FB_PLAN_FORMAT);
    if (!fb_json_get_array(value, "groups", &groups, r->err)) return fb_fail_prefix(r->err, "plan");
    if (!read_launch(r, value)) return false;
    r->overlap = fb_json_bool_or(value, "overlap", false);
    for (size_t i = 0; i < json_array_size(groups); i++)
        if (!read_group(r, json_array_get(groups, i))) return false;
    const json_t *again = json_object_get(value, "recompute");
    matches m = {0};
    bool good = !again || read_names(r, again, "recompute", &m);
    for (int i = 0; i < m.n; i++) FB_VEC_PUSH(&r->recompute, m.at[i].node);
    const json_t *loops = json_object_get(value, "loops");
    m.n = 0;
    good = good && (!loops || read_names(r, loops, "loops", &m));
    for (int i = 0; i < m.n; i++) FB_VEC_PUSH(&r->loops, m.at[i].node);
    FB_VEC_FREE(&m);
    return good;
}

/* ---- granting ---- */

/* Loops that are one kernel. */
static bool grant_loop(reader *r, fb_id node)
{
    fb_plan *to = NULL;
    if (r->g->nodes[node].op != FB_OP_LOOP) return give_up(r, "plan: `%s` is no loop", r->g->nodes[node].name);
    fb_verdict why = fb_plan_try(r->plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = node, .b = FB_NONE}, &to);
    if (!to) return why.kind == FB_VERDICT_FINE || give_up(r, "plan: %s", why.text);
    fb_plan_free(r->plan);
    r->plan = to;
    return true;
}

/* Those that are refused wait for the groups. */
static void grant_recompute(reader *r, fb_ids *refused, fb_verdict *why)
{
    refused->n = 0;
    for (int i = 0; i < r->recompute.n; i++) {
        fb_plan *next = NULL;
        fb_id node = r->recompute.at[i];
        *why = fb_plan_try(r->plan, &(fb_edit){.kind = FB_EDIT_RECOMPUTE, .a = node}, &next);
        if (next) {
            fb_plan_free(r->plan);
            r->plan = next;
        } else {
            FB_VEC_PUSH(refused, node);
        }
    }
}

/* Several families could make a contraction; for the others the name says what follows anyway. */
static void choose_family(reader *r, const wish *w)
{
    for (int i = 0; i < w->nodes.n && w->named; i++) {
        if (fb_node_class(r->g, w->nodes.at[i]) != FB_CLASS_CONTRACTION) continue;
        fb_id slot = r->plan->owner[w->nodes.at[i]];
        r->plan->slot[slot].choice = fb_family_row_of(w->family)->calls ? FB_CHOICE_LIBRARY : FB_CHOICE_GENERATE;
        fb_slots_forget(r->plan, slot);
    }
}

static bool join_wish(reader *r, const wish *w, fb_verdict *why)
{
    fb_analysis *to;
    fb_ids slots = {0};
    fb_mark_begin(r->p, FB_MARK_UP);
    for (int i = 0; i < w->nodes.n; i++) {
        fb_id s = r->plan->owner[w->nodes.at[i]];
        if (s == FB_NONE || fb_marked(r->p, FB_MARK_UP, s)) continue;
        fb_mark(r->p, FB_MARK_UP, s);
        FB_VEC_PUSH(&slots, s);
    }
    bool good = slots.n < 2 || (fb_plan_may_join(r->plan, slots.at, slots.n, why) &&
                                fb_plan_judge_join(r->plan, slots.at, slots.n, &to, why));
    if (good && slots.n > 1) fb_commit_join(r->plan, slots.at, slots.n, to);
    FB_VEC_FREE(&slots);
    return good;
}

static bool grant_knobs(reader *r, const wish *w, fb_id slot)
{
    const char *name;
    json_t *value;
    char text[96];
    fb_verdict why;
    json_object_foreach((json_t *)w->knobs, name, value)
    {
        fb_knob knob;
        if (!json_is_integer(value))
            return fb_fail(r->err, FB_ERR_INPUT, "plan: knob `%s` is not an integer", clean(name, text));
        if (!fb_knob_parse(name, &knob)) {
            if (!give_up(r, "plan: there is no knob `%s`", clean(name, text))) return false;
            continue;
        }
        int64_t v = json_integer_value(value);
        if (!fb_may_set_knob(&r->p->machine, fb_slots_analysis(r->plan, slot), r->plan->slot[slot].knobs, knob, v,
                             &why)) {
            if (!give_up(r, "plan: %s", why.text)) return false;
            continue;
        }
        fb_plan_set_knob(r->plan, slot, knob, v);
    }
    return true;
}

static bool grant_group(reader *r, const wish *w)
{
    fb_verdict why;
    const char *name = r->g->nodes[w->nodes.at[0]].name;
    choose_family(r, w);
    if (!join_wish(r, w, &why)) return give_up(r, "plan: the group of `%s`: %s", name, why.text);
    fb_id slot = r->plan->owner[w->nodes.at[0]];
    if (slot == FB_NONE) return true;
    const fb_analysis *a = fb_slots_analysis(r->plan, slot);
    if (!a->accepted) {
        r->plan->slot[slot].choice = FB_CHOICE_AUTO;
        why = a->why;
        fb_slots_forget(r->plan, slot);
        if (!give_up(r, "plan: the group of `%s`: %s", name, why.text)) return false;
    } else if (w->named && a->family != w->family &&
               !give_up(r, "plan: the group of `%s` is made by family %s, not %s", name, fb_family_name(a->family),
                        fb_family_name(w->family))) {
        return false;
    }
    if (w->source && !fb_may_set_source(&r->p->machine, fb_slots_analysis(r->plan, slot), w->source, &why)) {
        if (!give_up(r, "plan: %s", why.text)) return false;
    } else if (w->source) {
        fb_plan_set_source(r->plan, slot, w->source);
    }
    return !w->knobs || grant_knobs(r, w, slot);
}

static bool grant(reader *r)
{
    fb_verdict why = {0};
    fb_ids refused = {0};
    r->plan = fb_plan_new(r->p);
    grant_recompute(r, &refused, &why);
    bool good = true;
    for (int i = 0; i < r->groups.n && good; i++) good = grant_group(r, &r->groups.at[i]);
    if (good && refused.n) {
        fb_ids late = refused;
        FB_VEC_FREE(&r->recompute);
        r->recompute = late;
        refused = (fb_ids){0};
        grant_recompute(r, &refused, &why);
        for (int i = 0; i < refused.n && good; i++) good = give_up(r, "plan: %s", why.text);
    }
    FB_VEC_FREE(&refused);
    for (int i = 0; i < r->loops.n && good; i++) good = grant_loop(r, r->loops.at[i]);
    bool may = fb_may_launch(&r->p->machine, r->launch, &why) &&
               (r->launch != FB_LAUNCH_MEGA || fb_plan_may_merge(r->plan, 0, &why));
    if (good && !may)
        good = give_up(r, "plan: %s", why.text);
    else if (good)
        r->plan->launch = r->launch;
    if (good && r->overlap && !fb_may_overlap(r->p, &why))
        good = give_up(r, "plan: %s", why.text);
    else if (good)
        r->plan->overlap = r->overlap;
    return good;
}

/* Which graph the names are of: the one as written, or the one with its steps as loops. */
static bool choose_graph(reader *r, const json_t *value)
{
    const json_t *rolled = json_object_get(value, "rolled");
    r->p = fb_planner_written(r->p);
    if (rolled && !json_is_boolean(rolled))
        return fb_fail(r->err, FB_ERR_INPUT, "plan: field \"rolled\" is neither true nor false");
    if (json_is_true(rolled)) {
        if (fb_planner_rolled(r->p))
            r->p = fb_planner_rolled(r->p);
        else if (!give_up(r, "plan: no steps of this graph are a loop, and the plan is of one whose are"))
            return false;
    }
    r->g = r->p->g;
    r->claimed = fb_calloc((size_t)r->g->n_nodes + 1, sizeof *r->claimed);
    return true;
}

fb_plan *fb_plan_from_json(fb_planner *p, const json_t *value, bool strict, fb_str *dropped, fb_error *err)
{
    reader r = {.p = p, .g = p->g, .strict = strict, .dropped = dropped, .err = err};
    r.made_for = fb_json_string_or(value, "graph", "");
    bool good = choose_graph(&r, value) && read_wishes(&r, value) && grant(&r);
    if (!good) {
        fb_plan_free(r.plan);
        r.plan = NULL;
    }
    for (int i = 0; i < r.groups.n; i++) FB_VEC_FREE(&r.groups.at[i].nodes);
    FB_VEC_FREE(&r.groups);
    FB_VEC_FREE(&r.recompute);
    FB_VEC_FREE(&r.loops);
    fb_free(r.claimed);
    return r.plan;
}
