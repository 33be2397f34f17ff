/* Reads what a seat says, by a list of what is allowed. Leaves a value that holds nothing else; runs nothing, opens
 * nothing, and keeps nothing of the seat's text but names. */
#include "workshop/admit.h"
#include "workshop/workshop.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* `fields` ends with NULL; "type" is always allowed. */
typedef struct {
    const char *type;
    bool has_id;
    const char *fields[8];
} message_row;

static const message_row rows[] = {
    [FB_ASK_FROM] = {"from", false, {"name", "origin"}},
    [FB_ASK_HELLO] = {"hello", false, {"fusebox", "version", "seat"}},
    [FB_ASK_GRAPH] = {"graph", false, {"hash"}},
    [FB_ASK_FILE] = {"file", false, {"key", "bytes"}},
    [FB_ASK_PREPARE] = {"prepare", true, {"graph", "device", "seeds", "counters", "plan"}},
    [FB_ASK_SAMPLE] = {"sample", true, {"n", "cache", "brief"}},
    [FB_ASK_CHECK] = {"check", true, {"graph", "device", "seeds"}},
    [FB_ASK_TRACE] = {"trace", true, {"metrics"}},
    [FB_ASK_VALUES] = {"values", true, {"node"}},
    [FB_ASK_RELEASE] = {"release", true, {0}},
    [FB_ASK_SEARCH] = {"search", true, {"graph", "device", "seeds", "again"}},
    [FB_ASK_CANCEL] = {"cancel", true, {0}},
    [FB_ASK_DEVICES] = {"devices", true, {"libraries"}},
    [FB_ASK_PREDICT] = {"predict", false, {"puzzle", "chosen", "guess"}},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* What a worker of one's own takes and a workshop does not, with the reason; `field` NULL: the message itself. */
static const struct {
    const char *type, *field, *why;
} refusals[] = {
    {"calibrate", NULL, "the workshop's devices are calibrated by whoever runs it"},
    {"quit", NULL, "a workshop is ended by whoever runs it"},
    {"prepare", "sources", "a workshop runs no kernels from files; measure them on a device of your own"},
    {"prepare", "ahead", "a workshop has no frameworks to compile for"},
    {"prepare", "limit_s", "a workshop's limits are its own"},
    {"search", "limit_s", "a workshop's limits are its own"},
    {"search", "machine", "a workshop plans for its own devices alone"},
};

const char *fb_ask_name(fb_ask_kind kind)
{
    return rows[kind].type;
}

void fb_ask_clear(fb_ask *a)
{
    json_decref(a->plan);
    *a = (fb_ask){.id = a->id, .guess = NAN};
}

static const char *reason(const char *type, const char *field)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const char *f = refusals[i].field;
        if (strcmp(refusals[i].type, type) == 0 && (f ? field && strcmp(f, field) == 0 : !field))
            return refusals[i].why;
    }
    return NULL;
}

static bool is_field(const message_row *row, const char *key)
{
    if (strcmp(key, "type") == 0 || (row->has_id && strcmp(key, "id") == 0)) return true;
    for (int i = 0; row->fields[i]; i++)
        if (strcmp(key, row->fields[i]) == 0) return true;
    return false;
}

static const message_row *row_of(const json_t *message, fb_error *err)
{
    const char *type, *key;
    json_t *value;
    if (!fb_json_get_string(message, "type", &type, err)) return NULL;
    const message_row *row = NULL;
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].type, type) == 0) row = &rows[i];
    if (!row) {
        const char *why = reason(type, NULL);
        fb_fail(err, FB_ERR_INPUT, "%.40s is refused: %s", type, why ? why : "a workshop takes no such message");
        return NULL;
    }
    json_object_foreach((json_t *)message, key, value)
    {
        if (is_field(row, key)) continue;
        const char *why = reason(type, key);
        fb_fail(err, FB_ERR_INPUT, "%s is refused: %s%s%.40s%s", type, why ? why : "a workshop takes no field",
                why ? "" : " \"", why ? "" : key, why ? "" : "\" in it");
        return NULL;
    }
    return row;
}

/* ---- fields ---- */

/* A name of letters, digits and `also`, at most `most` bytes. */
static bool is_name(const char *text, size_t most, const char *also)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(also, text[i])) return false;
    return n > 0 && n <= most;
}

bool fb_workshop_is_name(const char *name)
{
    return is_name(name, FB_ASK_NAME, "_.-");
}

/* `to` has room for `most` + 1. */
static bool get_name(const json_t *message, const char *key, size_t most, const char *also, char *to, fb_error *err)
{
    const char *text;
    if (!fb_json_get_string(message, key, &text, err)) return false;
    if (!is_name(text, most, also)) return fb_fail(err, FB_ERR_INPUT, "\"%s\" is not a name", key);
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static bool get_bool(const json_t *message, const char *key, bool *to, fb_error *err)
{
    const json_t *value = json_object_get(message, key);
    *to = json_is_true(value);
    return !value || json_is_boolean(value) || fb_fail(err, FB_ERR_INPUT, "\"%s\" is neither true nor false", key);
}

static bool get_hash(const json_t *message, const char *key, char to[33], fb_error *err)
{
    if (!get_name(message, key, 32, "", to, err)) return false;
    bool good = strlen(to) == 32 && strspn(to, "0123456789abcdef") == 32;
    return good || fb_fail(err, FB_ERR_INPUT, "\"%s\" is not a hash", key);
}

static bool get_seeds(const json_t *message, fb_ask *out, fb_error *err)
{
    json_t *seeds, *seed;
    size_t i;
    if (!fb_json_get_array(message, "seeds", &seeds, err)) return false;
    if (!json_array_size(seeds) || json_array_size(seeds) > FB_SEEDS)
        return fb_fail(err, FB_ERR_INPUT, "there are 1 to %d seeds", FB_SEEDS);
    json_array_foreach(seeds, i, seed)
    {
        if (!json_is_integer(seed)) return fb_fail(err, FB_ERR_INPUT, "a seed is not an integer");
        out->seeds[out->n_seeds++] = (uint64_t)json_integer_value(seed);
    }
    return true;
}

/* ---- plans ---- */

static const char names_of_nodes[] = "_.[]*";

static json_t *copy_names(const json_t *list, fb_error *err)
{
    json_t *name, *copy;
    size_t i;
    if (!json_is_array(list)) return fb_fail(err, FB_ERR_INPUT, "nodes of a plan are not a list"), NULL;
    copy = json_array();
    json_array_foreach(list, i, name)
    {
        const char *text = json_string_value(name);
        if (text && is_name(text, FB_ASK_NODE, names_of_nodes)) {
            json_array_append_new(copy, json_string(text));
            continue;
        }
        json_decref(copy);
        return fb_fail(err, FB_ERR_INPUT, "a plan names a node by what is no name"), NULL;
    }
    return copy;
}

static json_t *copy_knobs(const json_t *knobs, fb_error *err)
{
    const char *key;
    json_t *value, *copy = json_object();
    json_object_foreach((json_t *)knobs, key, value)
    {
        if (is_name(key, FB_ASK_NAME, "_") && json_is_integer(value)) {
            json_object_set_new(copy, key, json_integer(json_integer_value(value)));
            continue;
        }
        json_decref(copy);
        return fb_fail(err, FB_ERR_INPUT, "a plan's knob is not a name with an integer"), NULL;
    }
    return copy;
}

/* One field of a plan or group, made anew; NULL with a sentence. */
static json_t *copy_field(const char *key, const json_t *value, fb_error *err)
{
    const char *text = json_string_value(value);
    if (strcmp(key, "source") == 0)
        fb_fail(err, FB_ERR_INPUT, "a workshop runs no kernels from files; measure them on a device of your own");
    else if (strcmp(key, "nodes") == 0 || strcmp(key, "recompute") == 0 || strcmp(key, "loops") == 0)
        return copy_names(value, err);
    else if (strcmp(key, "knobs") == 0 && json_is_object(value))
        return copy_knobs(value, err);
    else if ((strcmp(key, "each") == 0 || strcmp(key, "overlap") == 0 || strcmp(key, "rolled") == 0) &&
             json_is_boolean(value))
        return json_boolean(json_is_true(value));
    else if (strcmp(key, "fusebox_plan") == 0 && json_is_integer(value))
        return json_integer(json_integer_value(value));
    else if ((strcmp(key, "family") == 0 || strcmp(key, "launch") == 0 || strcmp(key, "graph") == 0) && text &&
             is_name(text, FB_ASK_NAME, "_"))
        return json_string(text);
    else
        fb_fail(err, FB_ERR_INPUT, "a plan's \"%.40s\" is not what a workshop takes", key);
    return NULL;
}

/* The fields of `from` that are in `allowed`, which ends with NULL, made anew; any other is refused. */
static json_t *copy_fields(const json_t *from, const char *const *allowed, fb_error *err)
{
    const char *key;
    json_t *value, *copy = json_object();
    if (!json_is_object(from)) {
        json_decref(copy);
        return fb_fail(err, FB_ERR_INPUT, "a group of a plan is no object"), NULL;
    }
    json_object_foreach((json_t *)from, key, value)
    {
        bool known = strcmp(key, "source") == 0;
        for (int i = 0; allowed[i] && !known; i++) known = strcmp(key, allowed[i]) == 0;
        if (strcmp(key, "groups") == 0 && known) continue;
        json_t *made = NULL;
        if (known)
            made = copy_field(key, value, err);
        else
            fb_fail(err, FB_ERR_INPUT, "a plan's \"%.40s\" is not what a workshop takes", key);
        if (!made) {
            json_decref(copy);
            return NULL;
        }
        json_object_set_new(copy, key, made);
    }
    return copy;
}

static json_t *copy_plan(const json_t *plan, fb_error *err)
{
    static const char *const of_plan[] = {"fusebox_plan", "graph",   "launch", "groups", "recompute",
                                          "loops",        "overlap", "rolled", NULL};
    static const char *const of_group[] = {"nodes", "each", "family", "knobs", NULL};
    json_t *groups, *group;
    size_t i;
    if (!json_is_object(plan)) return fb_fail(err, FB_ERR_INPUT, "a workshop takes a plan whole, not by a name"), NULL;
    if (!fb_json_get_array(plan, "groups", &groups, err)) return NULL;
    json_t *copy = copy_fields(plan, of_plan, err);
    json_t *list = json_array();
    json_array_foreach(groups, i, group)
    {
        json_t *made = copy ? copy_fields(group, of_group, err) : NULL;
        if (made) {
            json_array_append_new(list, made);
            continue;
        }
        json_decref(copy);
        json_decref(list);
        return NULL;
    }
    if (copy)
        json_object_set_new(copy, "groups", list);
    else
        json_decref(list);
    return copy;
}

/* ---- messages ---- */

static bool read_from(const json_t *m, fb_ask *out, fb_error *err)
{
    return (!json_object_get(m, "name") || get_name(m, "name", FB_ASK_NAME, "_.-", out->name, err)) &&
           (!json_object_get(m, "origin") || get_name(m, "origin", FB_ASK_NAME, ".:%_-", out->origin, err));
}

static bool read_hello(const json_t *m, fb_ask *out, fb_error *err)
{
    return fb_json_get_int(m, "fusebox", 0, INT64_MAX, &out->version, err) &&
           (!json_object_get(m, "seat") || get_hash(m, "seat", out->seat, err));
}

static bool read_graph(const json_t *m, fb_ask *out, fb_error *err)
{
    return get_hash(m, "hash", out->graph, err);
}

static bool read_file(const json_t *m, fb_ask *out, fb_error *err)
{
    return get_name(m, "key", FB_ASK_NAME, "_.-", out->key, err) &&
           fb_json_get_int(m, "bytes", 0, (int64_t)1 << 40, &out->bytes, err);
}

static bool read_case(const json_t *m, fb_ask *out, fb_error *err)
{
    return get_hash(m, "graph", out->graph, err) && get_name(m, "device", FB_ASK_NAME, "_.:-", out->device, err) &&
           get_seeds(m, out, err);
}

static bool read_prepare(const json_t *m, fb_ask *out, fb_error *err)
{
    if (!read_case(m, out, err) || !get_bool(m, "counters", &out->counters, err)) return false;
    out->plan = copy_plan(json_object_get(m, "plan"), err);
    return out->plan != NULL;
}

static bool read_sample(const json_t *m, fb_ask *out, fb_error *err)
{
    int64_t n;
    const char *cache = fb_json_string_or(m, "cache", "hot");
    if (!fb_json_get_int(m, "n", 1, FB_ASK_SAMPLES, &n, err)) return false;
    out->n = (int)n;
    out->cold = strcmp(cache, "cold") == 0;
    return out->cold || strcmp(cache, "hot") == 0 || fb_fail(err, FB_ERR_INPUT, "a cache is hot or cold");
}

static bool read_trace(const json_t *m, fb_ask *out, fb_error *err)
{
    return get_bool(m, "metrics", &out->metrics, err);
}

static bool read_values(const json_t *m, fb_ask *out, fb_error *err)
{
    return get_name(m, "node", FB_ASK_NODE, names_of_nodes, out->node, err);
}

static bool read_search(const json_t *m, fb_ask *out, fb_error *err)
{
    return read_case(m, out, err) && get_bool(m, "again", &out->again, err);
}

static bool read_predict(const json_t *m, fb_ask *out, fb_error *err)
{
    out->guess = fb_json_number_or(m, "guess", NAN);
    return get_name(m, "puzzle", FB_ASK_NAME, "_.-", out->puzzle, err) &&
           get_name(m, "chosen", FB_ASK_NAME, "_.-", out->chosen, err);
}

static bool read_nothing(const json_t *m, fb_ask *out, fb_error *err)
{
    (void)m, (void)out, (void)err;
    return true;
}

static bool (*const readers[ROWS])(const json_t *m, fb_ask *out, fb_error *err) = {
    [FB_ASK_FROM] = read_from,       [FB_ASK_HELLO] = read_hello,     [FB_ASK_GRAPH] = read_graph,
    [FB_ASK_FILE] = read_file,       [FB_ASK_PREPARE] = read_prepare, [FB_ASK_SAMPLE] = read_sample,
    [FB_ASK_CHECK] = read_case,      [FB_ASK_TRACE] = read_trace,     [FB_ASK_VALUES] = read_values,
    [FB_ASK_RELEASE] = read_nothing, [FB_ASK_SEARCH] = read_search,   [FB_ASK_CANCEL] = read_nothing,
    [FB_ASK_DEVICES] = read_nothing, [FB_ASK_PREDICT] = read_predict,
};

bool fb_ask_read(const char *line, size_t n, fb_ask *out, fb_error *err)
{
    *out = (fb_ask){.guess = NAN};
    json_t *m = fb_json_parse(line, n, err);
    if (!m) return false;
    out->id = fb_json_int_or(m, "id", 0);
    if (out->id < 0) out->id = 0;
    const message_row *row = row_of(m, err);
    bool ok = row && (!row->has_id || fb_json_get_int(m, "id", 1, INT64_MAX, &out->id, err));
    if (ok) {
        out->kind = (fb_ask_kind)(row - rows);
        if (!row->has_id) out->id = 0;
        ok = readers[out->kind](m, out, err);
    }
    json_decref(m);
    if (!ok) fb_ask_clear(out);
    return ok;
}
