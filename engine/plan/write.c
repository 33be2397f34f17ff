/* Plans as JSON and as Lua. Both are written from the same list of entries: one for each group that is not simply its
 * node, or one for all groups that are the same but for the indices in their names. */
#include "plan/parts.h"

#include <string.h>

typedef struct {
    char *text;
    int count; /* nodes of this pattern */
    UT_hash_handle hh;
} pattern;

typedef struct {
    const pattern *pattern;
    int n_star;
    const int64_t *star;
} parts;

/* Groups with equal patterns, family and knobs. */
typedef struct {
    fb_hash key;
    int count, entry;
    UT_hash_handle hh;
} kind;

typedef struct {
    bool each;
    fb_ids nodes;               /* of the first such group */
    FB_VEC(const char *) names; /* or patterns */
    FB_VEC(int64_t) index;      /* each, with one index in the names: those of the groups */
    fb_choice choice;
    fb_family family;
    const fb_knobs *knobs;
    const char *source; /* NULL: generated */
} entry;

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    fb_arena *arena;
    pattern *patterns;
    parts *of; /* a node */
    kind *kinds;
    int max_star;
    FB_VEC(entry) entries;
} writer;

static void learn_names(writer *w)
{
    fb_str text = {0};
    int64_t star[FB_MAX_STARS];
    for (fb_id i = 0; i < w->g->n_nodes; i++) {
        if (!fb_node_is_computed(w->g, i)) continue;
        fb_str_clear(&text);
        parts *at = &w->of[i];
        at->n_star = fb_name_pattern(w->g->nodes[i].name, &text, star);
        at->star = fb_arena_copy(w->arena, star, (size_t)at->n_star * sizeof *star);
        pattern *p = NULL;
        HASH_FIND_STR(w->patterns, fb_str_get(&text), p);
        if (!p) {
            p = FB_NEW(w->arena, pattern);
            p->text = fb_arena_strdup(w->arena, fb_str_get(&text));
            HASH_ADD_KEYPTR(hh, w->patterns, p->text, strlen(p->text), p);
        }
        p->count++;
        at->pattern = p;
    }
    fb_str_free(&text);
}

/* The names that stand for these nodes: a pattern where all nodes of it are here. */
static void name_nodes(writer *w, const fb_ids *nodes, entry *e)
{
    for (int i = 0; i < nodes->n; i++) {
        const pattern *p = w->of[nodes->at[i]].pattern;
        int here = 0, before = 0;
        for (int k = 0; p->count > 1 && k < nodes->n; k++) {
            if (w->of[nodes->at[k]].pattern != p) continue;
            here++;
            before += k < i;
        }
        bool all = here == p->count && p->count > 1;
        if (all && before) continue;
        FB_VEC_PUSH(&e->names, all ? p->text : w->g->nodes[nodes->at[i]].name);
    }
}

/* All nodes of the group carry the same indices, and there are some. */
static bool one_member(const writer *w, const fb_ids *nodes)
{
    const parts *first = &w->of[nodes->at[0]];
    bool same = first->n_star > 0 && first->n_star <= w->max_star;
    for (int i = 1; i < nodes->n && same; i++) {
        const parts *p = &w->of[nodes->at[i]];
        same = p->n_star == first->n_star && memcmp(p->star, first->star, (size_t)p->n_star * sizeof *p->star) == 0;
    }
    return same;
}

/* Those that the group's family has: others wait in memory for a family that does. NULL: all are automatic. */
static const fb_knobs *knobs_of(const writer *w, fb_id slot)
{
    const fb_knobs *k = w->plan->slot[slot].knobs;
    fb_verdict why;
    fb_knobs kept = {0};
    bool any = false;
    for (int i = 0; k && i < FB_KNOBS; i++) {
        if (!k->value[i] || !fb_may_set_knob(&w->plan->planner->machine, fb_slots_analysis(w->plan, slot), &kept,
                                             (fb_knob)i, k->value[i], &why))
            continue;
        kept.value[i] = k->value[i];
        any = true;
    }
    return any ? fb_arena_copy(w->arena, &kept, sizeof kept) : NULL;
}

static kind *kind_of(writer *w, fb_id slot, const fb_ids *nodes)
{
    fb_hasher *h = fb_hasher_new();
    const fb_slot *s = &w->plan->slot[slot];
    for (int i = 0; i < nodes->n; i++) fb_hasher_add_text(h, w->of[nodes->at[i]].pattern->text);
    fb_hasher_add_i64(h, s->choice);
    /* what was asked for in each member may be another family in each, where their shapes differ */
    if (s->choice != FB_CHOICE_AUTO) fb_hasher_add_i64(h, fb_slots_analysis(w->plan, slot)->family);
    const fb_knobs *knobs = knobs_of(w, slot);
    if (knobs) fb_hasher_add(h, knobs, sizeof *knobs);
    if (s->source) fb_hasher_add_text(h, s->source->path);
    fb_hash key = fb_hasher_end(h);
    kind *k = NULL;
    HASH_FIND(hh, w->kinds, &key, sizeof key, k);
    if (!k) {
        k = FB_NEW(w->arena, kind);
        k->key = key;
        k->entry = FB_NONE;
        HASH_ADD(hh, w->kinds, key, sizeof k->key, k);
    }
    return k;
}

static bool plain(const writer *w, fb_id slot)
{
    const fb_slot *s = &w->plan->slot[slot];
    return s->choice == FB_CHOICE_AUTO && !s->source && !knobs_of(w, slot);
}

static entry *add_entry(writer *w, fb_id slot)
{
    const fb_slot *s = &w->plan->slot[slot];
    FB_VEC_PUSH(&w->entries,
                (entry){.choice = s->choice, .knobs = knobs_of(w, slot), .source = s->source ? s->source->path : NULL});
    entry *e = &w->entries.at[w->entries.n - 1];
    if (s->choice != FB_CHOICE_AUTO) e->family = fb_slots_analysis(w->plan, slot)->family;
    return e;
}

static void write_group(writer *w, fb_id slot)
{
    fb_ids nodes = {0};
    fb_plan_owned(w->plan, slot, &nodes);
    kind *k = one_member(w, &nodes) ? kind_of(w, slot, &nodes) : NULL;
    bool each = k && k->count > 1;
    for (int i = 0; i < nodes.n && each; i++) each = w->of[nodes.at[i]].pattern->count == k->count;
    if (each && k->entry != FB_NONE) {
        FB_VEC_PUSH(&w->entries.at[k->entry].index, w->of[nodes.at[0]].star[0]);
        FB_VEC_FREE(&nodes);
        return;
    }
    entry *e = add_entry(w, slot);
    if (each) {
        k->entry = w->entries.n - 1;
        e->each = true;
        for (int i = 0; i < nodes.n; i++) FB_VEC_PUSH(&e->names, w->of[nodes.at[i]].pattern->text);
        FB_VEC_PUSH(&e->index, w->of[nodes.at[0]].star[0]);
    } else {
        name_nodes(w, &nodes, e);
    }
    e->nodes = nodes;
}

/* All entries, in launch order of their first group; names with more than `max_star` indices are written one by one. */
static void list_entries(writer *w, const fb_plan *plan, int max_star)
{
    *w = (writer){.plan = plan, .g = plan->planner->g, .arena = fb_arena_new(), .max_star = max_star};
    w->of = FB_NEW_ARRAY(w->arena, parts, w->g->n_nodes + 1);
    learn_names(w);
    int n = fb_plan_groups(plan);
    const fb_id *slot_of = plan->view->slot_of;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n; i++) {
            if (plan->slot[slot_of[i]].n == 1 && plain(w, slot_of[i])) continue;
            fb_ids nodes = {0};
            if (pass == 0) fb_plan_owned(plan, slot_of[i], &nodes);
            if (pass == 0 && one_member(w, &nodes)) kind_of(w, slot_of[i], &nodes)->count++;
            if (pass == 1) write_group(w, slot_of[i]);
            FB_VEC_FREE(&nodes);
        }
    }
}

static void recomputed_names(writer *w, entry *e)
{
    fb_ids nodes = {0};
    for (fb_id i = 0; i < w->g->n_nodes; i++)
        if (w->plan->recompute[i]) FB_VEC_PUSH(&nodes, i);
    *e = (entry){0};
    name_nodes(w, &nodes, e);
    FB_VEC_FREE(&nodes);
}

static void writer_free(writer *w)
{
    for (int i = 0; i < w->entries.n; i++) {
        FB_VEC_FREE(&w->entries.at[i].nodes);
        FB_VEC_FREE(&w->entries.at[i].names);
        FB_VEC_FREE(&w->entries.at[i].index);
    }
    FB_VEC_FREE(&w->entries);
    HASH_CLEAR(hh, w->patterns);
    HASH_CLEAR(hh, w->kinds);
    fb_arena_free(w->arena);
}

/* ---- JSON ---- */

static json_t *names_to_json(const entry *e)
{
    json_t *list = json_array();
    for (int i = 0; i < e->names.n; i++) json_array_append_new(list, json_string(e->names.at[i]));
    return list;
}

static json_t *entry_to_json(const entry *e)
{
    json_t *o = json_pack("{s:o}", "nodes", names_to_json(e));
    if (e->each) json_object_set_new(o, "each", json_true());
    if (e->choice != FB_CHOICE_AUTO) json_object_set_new(o, "family", json_string(fb_family_name(e->family)));
    if (e->source) json_object_set_new(o, "source", json_string(e->source));
    if (!e->knobs) return o;
    json_t *knobs = json_object();
    for (int k = 0; k < FB_KNOBS; k++)
        if (e->knobs->value[k]) json_object_set_new(knobs, fb_knob_name((fb_knob)k), json_integer(e->knobs->value[k]));
    json_object_set_new(o, "knobs", knobs);
    return o;
}

/* A loop that one kernel runs. */
static bool is_whole_loop(const fb_plan *plan, fb_id node)
{
    return plan->planner->g->nodes[node].op == FB_OP_LOOP && plan->slot[node].choice == FB_CHOICE_GENERATE;
}

json_t *fb_plan_to_json(const fb_plan *plan)
{
    writer w;
    entry again;
    char hash[33];
    list_entries(&w, plan, FB_MAX_STARS);
    json_t *groups = json_array();
    for (int i = 0; i < w.entries.n; i++) json_array_append_new(groups, entry_to_json(&w.entries.at[i]));
    recomputed_names(&w, &again);
    json_t *o = json_pack("{s:i, s:s, s:s, s:o, s:o}", "fusebox_plan", FB_PLAN_FORMAT, "graph",
                          fb_hash_hex(fb_planner_written(plan->planner)->g->hash, hash), "launch",
                          fb_launch_mode_name(plan->launch), "groups", groups, "recompute", names_to_json(&again));
    if (fb_plan_rolled(plan)) json_object_set_new(o, "rolled", json_true());
    if (plan->overlap) json_object_set_new(o, "overlap", json_true());
    json_t *loops = json_array();
    for (fb_id i = 0; i < w.g->n_nodes; i++)
        if (is_whole_loop(plan, i)) json_array_append_new(loops, json_string(w.g->nodes[i].name));
    if (json_array_size(loops)) json_object_set(o, "loops", loops);
    json_decref(loops);
    FB_VEC_FREE(&again.names);
    writer_free(&w);
    return o;
}

/* ---- Lua ---- */

/* A name as a Lua expression; in a loop over `i`, with its index taken from there. */
static void name_to_lua(const char *name, bool loop, fb_str *out)
{
    const char *star = loop ? strstr(name, "[*]") : NULL;
    if (star)
        fb_str_addf(out, "(\"%.*s[%%d]%s\"):format(i)", (int)(star - name), name, star + 3);
    else
        fb_str_addf(out, "\"%s\"", name);
}

/* A text as a Lua string: it came from outside. */
static void text_to_lua(const char *text, fb_str *out)
{
    fb_str_add(out, "\"");
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fb_str_addf(out, "\\%c", *p);
        else if ((unsigned char)*p < ' ')
            fb_str_addf(out, "\\%03d", *p);
        else
            fb_str_add_n(out, p, 1);
    }
    fb_str_add(out, "\"");
}

/* A node to speak of the group by: its contraction, so that this works before and after fusing. */
static const char *spokesman(const writer *w, const entry *e)
{
    fb_id node = e->nodes.at[0];
    for (int i = e->nodes.n - 1; i >= 0; i--)
        if (fb_node_class(w->g, e->nodes.at[i]) == FB_CLASS_CONTRACTION) node = e->nodes.at[i];
    return e->each ? w->of[node].pattern->text : w->g->nodes[node].name;
}

static void call_to_lua(const entry *e, const char *what, const char *node, fb_str *out)
{
    fb_str_addf(out, "%spl:%s(", e->each ? "  " : "", what);
    name_to_lua(node, e->each, out);
}

enum { LUA_LINE = 72 }; /* about as long as lines may become */

static void entry_to_lua(const writer *w, const entry *e, const char *folder, fb_str *out)
{
    const char *node = spokesman(w, e);
    if (e->each) {
        fb_str_add(out, "for _, i in ipairs {");
        for (int i = 0; i < e->index.n; i++) fb_str_addf(out, "%s %lld", i ? "," : "", (long long)e->index.at[i]);
        fb_str_add(out, " } do\n");
    }
    if (e->choice != FB_CHOICE_AUTO) {
        call_to_lua(e, e->choice == FB_CHOICE_LIBRARY ? "library" : "generate", node, out);
        fb_str_add(out, ")\n");
    }
    if (e->nodes.n > 1) {
        fb_str_addf(out, "%spl:fuse_all {", e->each ? "  " : "");
        size_t line = out->n;
        for (int i = 0; i < e->names.n; i++) {
            bool full = out->n - line + strlen(e->names.at[i]) > LUA_LINE;
            fb_str_add(out, full ? ",\n   " : i ? ", " : " ");
            if (full) line = out->n;
            name_to_lua(e->names.at[i], e->each, out);
        }
        fb_str_add(out, " }\n");
    }
    for (int k = 0; e->knobs && k < FB_KNOBS; k++) {
        if (!e->knobs->value[k]) continue;
        call_to_lua(e, "knob", node, out);
        fb_str_addf(out, ", \"%s\", %lld)\n", fb_knob_name((fb_knob)k), (long long)e->knobs->value[k]);
    }
    if (e->source) {
        call_to_lua(e, "kernel", node, out);
        fb_str_add(out, ", ");
        size_t n = folder ? strlen(folder) : 0;
        bool in = n && strncmp(e->source, folder, n) == 0 && e->source[n] == '/';
        text_to_lua(in ? e->source + n + 1 : e->source, out);
        fb_str_add(out, ")\n");
    }
    if (e->each) fb_str_add(out, "end\n");
}

void fb_plan_to_lua(const fb_plan *plan, const char *folder, fb_str *out)
{
    writer w;
    entry again;
    list_entries(&w, plan, 1);
    if (fb_plan_rolled(plan)) fb_str_add(out, "pl:roll()\n");
    recomputed_names(&w, &again);
    for (int i = 0; i < again.names.n; i++) fb_str_addf(out, "pl:recompute(\"%s\")\n", again.names.at[i]);
    for (int i = 0; i < w.entries.n; i++) entry_to_lua(&w, &w.entries.at[i], folder, out);
    for (fb_id i = 0; i < w.g->n_nodes; i++)
        if (is_whole_loop(plan, i)) fb_str_addf(out, "pl:generate(\"%s\")\n", w.g->nodes[i].name);
    if (plan->launch != FB_LAUNCH_STREAM) fb_str_addf(out, "pl:launch(\"%s\")\n", fb_launch_mode_name(plan->launch));
    if (plan->overlap) fb_str_add(out, "pl:overlap(true)\n");
    FB_VEC_FREE(&again.names);
    writer_free(&w);
}
