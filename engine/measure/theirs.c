/* What a framework's compiler decided, from a worker's message and back. Everything in it is bounded, and made fit for
 * a screen before it is kept. Needs no graph: names are looked up where one is at hand (theirs_beside.c). */
#include "measure/theirs.h"

#include "base/json.h"
#include "base/str.h"

#include <string.h>

/* As in scripts/workers/inductor_plan.py. */
enum {
    MOST_KERNELS = 20000,
    MOST_REASONS = 2000,
    MOST_CALLS = 1 << 16,
    MOST_NODES = 1 << 20, /* in all lists together */
    MOST_SOURCE = 64 << 10,
    MOST_SOURCES = 4 << 20,
    TEXT = 320
};

static const char *const kinds[] = {"template", "extern", "reduction", "pointwise"};

/* ---- reading ---- */

typedef struct {
    fb_arena *arena;
    int64_t nodes, source; /* so far */
    fb_error err;
} reader;

static const char *kept(reader *r, const char *text)
{
    char clean[TEXT];
    fb_text_clean(clean, sizeof clean, text, strlen(text));
    return fb_arena_strdup(r->arena, clean);
}

static bool wrong(reader *r, const char *what)
{
    return fb_fail(&r->err, FB_ERR_INPUT, "%s", what);
}

static bool read_text(reader *r, const json_t *object, const char *key, const char **to)
{
    const char *text;
    if (!fb_json_get_string(object, key, &text, &r->err)) return false;
    *to = kept(r, text);
    return true;
}

static bool read_names(reader *r, const json_t *list, fb_names *to)
{
    const json_t *item;
    size_t i;
    if (!json_is_array(list)) return wrong(r, "nodes are no list");
    r->nodes += (int64_t)json_array_size(list);
    if (r->nodes > MOST_NODES) return wrong(r, "it names too many nodes");
    to->n = (int)json_array_size(list);
    to->at = FB_NEW_ARRAY(r->arena, const char *, to->n);
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item)) return wrong(r, "nodes are no list of names");
        to->at[i] = kept(r, json_string_value(item));
    }
    return true;
}

/* A whole number that may be missing; else -1. */
static bool read_amount(reader *r, const json_t *object, const char *key, int *to)
{
    int64_t n = -1;
    *to = -1;
    if (json_object_get(object, key) && !fb_json_get_int(object, key, 0, INT32_MAX, &n, &r->err)) return false;
    *to = (int)n;
    return true;
}

static bool read_source(reader *r, const json_t *object, fb_their_kernel *k)
{
    const json_t *source = json_object_get(object, "source");
    if (!source) return true;
    if (!json_is_string(source)) return wrong(r, "a kernel's source is no text");
    r->source += (int64_t)json_string_length(source);
    if (json_string_length(source) > MOST_SOURCE || r->source > MOST_SOURCES)
        return wrong(r, "its sources are too long");
    k->source = fb_arena_strdup(r->arena, json_string_value(source));
    return true;
}

static bool read_kernel(reader *r, const json_t *object, fb_their_kernel *k)
{
    if (!json_is_object(object)) return wrong(r, "a kernel is no object");
    if (!read_text(r, object, "name", &k->name) || !read_text(r, object, "kind", &k->kind)) return false;
    bool known = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) known |= strcmp(kinds[i], k->kind) == 0;
    if (!known) return wrong(r, "a kernel is of no kind that there is");
    return fb_json_get_int(object, "count", 1, INT32_MAX, &k->count, &r->err) &&
           read_names(r, json_object_get(object, "nodes"), &k->nodes) && read_source(r, object, k) &&
           read_amount(r, object, "registers", &k->registers) && read_amount(r, object, "spills", &k->spills) &&
           read_amount(r, object, "shared_bytes", &k->shared_bytes);
}

static bool read_reason(reader *r, const json_t *object, fb_their_reason *to)
{
    if (!json_is_object(object)) return wrong(r, "a reason is no object");
    return read_text(r, object, "from", &to->from) && read_text(r, object, "to", &to->to) &&
           (!json_object_get(object, "why") || read_text(r, object, "why", &to->why));
}

/* A list with at most so many entries; *n of them. One that is missing is empty. */
static bool read_list(reader *r, const json_t *value, const char *key, int most, int *n)
{
    const json_t *list = json_object_get(value, key);
    *n = 0;
    if (!list) return true;
    if (!json_is_array(list)) return fb_fail(&r->err, FB_ERR_INPUT, "field \"%s\" is no list", key);
    if (json_array_size(list) > (size_t)most)
        return fb_fail(&r->err, FB_ERR_INPUT, "field \"%s\" has more than %d entries", key, most);
    *n = (int)json_array_size(list);
    return true;
}

static bool read_plan(reader *r, const json_t *value, fb_theirs *t)
{
    if (!json_is_object(value)) return wrong(r, "it is no object");
    if (json_object_get(value, "unavailable")) return read_text(r, value, "unavailable", &t->unavailable);
    if (!json_object_get(value, "kernels")) return wrong(r, "field \"kernels\" is missing");
    if (!read_text(r, value, "by", &t->by) || !read_text(r, value, "version", &t->version) ||
        !read_list(r, value, "kernels", MOST_KERNELS, &t->n_kernels) ||
        !read_list(r, value, "apart", MOST_REASONS, &t->n_apart) ||
        !read_list(r, value, "calls", MOST_CALLS, &t->n_calls))
        return false;
    t->kernels = FB_NEW_ARRAY(r->arena, fb_their_kernel, t->n_kernels);
    t->apart = FB_NEW_ARRAY(r->arena, fb_their_reason, t->n_apart);
    t->calls = FB_NEW_ARRAY(r->arena, fb_names, t->n_calls);
    const json_t *kernels = json_object_get(value, "kernels"), *apart = json_object_get(value, "apart"),
                 *calls = json_object_get(value, "calls");
    bool good = true;
    for (int i = 0; good && i < t->n_kernels; i++)
        good = read_kernel(r, json_array_get(kernels, (size_t)i), &t->kernels[i]);
    for (int i = 0; good && i < t->n_apart; i++) good = read_reason(r, json_array_get(apart, (size_t)i), &t->apart[i]);
    for (int i = 0; good && i < t->n_calls; i++) good = read_names(r, json_array_get(calls, (size_t)i), &t->calls[i]);
    return good;
}

const fb_theirs *fb_theirs_from_json(const json_t *value, fb_arena *arena)
{
    reader r = {.arena = arena};
    fb_theirs *t = FB_NEW(arena, fb_theirs);
    if (read_plan(&r, value, t)) return t;
    *t =
        (fb_theirs){.unavailable = fb_arena_printf(arena, "what the worker says of it cannot be read: %s", r.err.text)};
    return t;
}

/* ---- writing ---- */

static json_t *names_to_json(const fb_names *names)
{
    json_t *list = json_array();
    for (int i = 0; i < names->n; i++) json_array_append_new(list, json_string(names->at[i]));
    return list;
}

static json_t *kernel_to_json(const fb_their_kernel *k)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:o, s:s*}", "name", k->name, "kind", k->kind, "count", (json_int_t)k->count,
                          "nodes", names_to_json(&k->nodes), "source", k->source);
    if (k->registers >= 0) json_object_set_new(o, "registers", json_integer(k->registers));
    if (k->spills >= 0) json_object_set_new(o, "spills", json_integer(k->spills));
    if (k->shared_bytes >= 0) json_object_set_new(o, "shared_bytes", json_integer(k->shared_bytes));
    return o;
}

json_t *fb_theirs_to_json(const fb_theirs *t)
{
    if (t->unavailable) return json_pack("{s:s}", "unavailable", t->unavailable);
    json_t *kernels = json_array(), *apart = json_array(), *calls = json_array();
    for (int i = 0; i < t->n_kernels; i++) json_array_append_new(kernels, kernel_to_json(&t->kernels[i]));
    for (int i = 0; i < t->n_apart; i++)
        json_array_append_new(apart, json_pack("{s:s, s:s, s:s*}", "from", t->apart[i].from, "to", t->apart[i].to,
                                               "why", t->apart[i].why));
    for (int i = 0; i < t->n_calls; i++) json_array_append_new(calls, names_to_json(&t->calls[i]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "by", t->by, "version", t->version, "kernels", kernels, "apart",
                     apart, "calls", calls);
}

int64_t fb_theirs_launches(const fb_theirs *t)
{
    int64_t n = 0;
    for (int i = 0; i < t->n_kernels; i++) n += t->kernels[i].count;
    return n;
}
