/* Reads what a worker is asked, by a row for each kind of message. The supervisor reads it when it arrives, so that
 * what makes no sense never waits in a queue, and the device child once more: it takes nobody's word for it. */
#include "worker/messages.h"

#include "base/json.h"

#include <string.h>

static const double default_limit_s = 60; /* without a sign of life */

/* Everything but id and limit. */
typedef bool (*reader)(const json_t *m, fb_request *out, fb_error *err);

static bool read_hello(const json_t *m, fb_request *out, fb_error *err)
{
    (void)err;
    out->protocol = fb_json_int_or(m, "fusebox", 0);
    return true;
}

static bool read_hash(const json_t *m, fb_request *out, fb_error *err)
{
    (void)err;
    out->hash = fb_json_string_or(m, "hash", "");
    return true;
}

static bool read_file(const json_t *m, fb_request *out, fb_error *err)
{
    return fb_json_get_string(m, "key", &out->key, err) &&
           fb_json_get_int(m, "bytes", 0, FB_MOST_FILE, &out->bytes, err);
}

static bool read_devices(const json_t *m, fb_request *out, fb_error *err)
{
    (void)err;
    out->libraries = fb_json_bool_or(m, "libraries", false);
    return true;
}

static bool read_nothing(const json_t *m, fb_request *out, fb_error *err)
{
    (void)m, (void)out, (void)err;
    return true;
}

static bool read_seeds(const json_t *m, fb_request *out, fb_error *err)
{
    json_t *seeds, *seed;
    size_t i;
    if (!fb_json_get_array(m, "seeds", &seeds, err)) return false;
    json_array_foreach(seeds, i, seed)
    {
        if (!json_is_integer(seed)) return fb_fail(err, FB_ERR_INPUT, "a seed is not an integer");
        if (out->n_seeds < FB_SEEDS) out->seeds[out->n_seeds++] = (uint64_t)json_integer_value(seed);
    }
    return out->n_seeds > 0 || fb_fail(err, FB_ERR_INPUT, "there is no seed");
}

/* What is measured, on what, with which inputs. */
static bool read_case(const json_t *m, fb_request *out, fb_error *err)
{
    return fb_json_get_string(m, "graph", &out->graph, err) && fb_json_get_string(m, "device", &out->device, err) &&
           read_seeds(m, out, err);
}

static bool read_prepare(const json_t *m, fb_request *out, fb_error *err)
{
    out->plan = json_object_get(m, "plan");
    out->sources = json_object_get(m, "sources");
    out->counters = fb_json_bool_or(m, "counters", false);
    return read_case(m, out, err);
}

static bool read_search(const json_t *m, fb_request *out, fb_error *err)
{
    out->machine = json_object_get(m, "machine");
    out->again = fb_json_bool_or(m, "again", false);
    return read_case(m, out, err);
}

static bool read_sample(const json_t *m, fb_request *out, fb_error *err)
{
    int64_t n;
    const char *cache = fb_json_string_or(m, "cache", "hot");
    if (!fb_json_get_int(m, "n", 1, FB_MOST_SAMPLES, &n, err)) return false;
    if (strcmp(cache, "hot") != 0 && strcmp(cache, "cold") != 0)
        return fb_fail(err, FB_ERR_INPUT, "a cache is hot or cold, not %.40s", cache);
    out->n = (int)n;
    out->cache = strcmp(cache, "cold") == 0 ? FB_CACHE_COLD : FB_CACHE_HOT;
    out->brief = fb_json_bool_or(m, "brief", false);
    return true;
}

static bool read_trace(const json_t *m, fb_request *out, fb_error *err)
{
    (void)err;
    out->metrics = fb_json_bool_or(m, "metrics", false);
    return true;
}

static bool read_values(const json_t *m, fb_request *out, fb_error *err)
{
    return fb_json_get_string(m, "node", &out->node, err);
}

static bool read_calibrate(const json_t *m, fb_request *out, fb_error *err)
{
    return fb_json_get_string(m, "device", &out->device, err);
}

static const struct {
    const char *type;
    reader read;
} rows[] = {
    [FB_REQUEST_HELLO] = {"hello", read_hello},
    [FB_REQUEST_GRAPH] = {"graph", read_hash},
    [FB_REQUEST_FILE] = {"file", read_file},
    [FB_REQUEST_FORGET] = {"forget", read_hash},
    [FB_REQUEST_DEVICES] = {"devices", read_devices},
    [FB_REQUEST_CANCEL] = {"cancel", read_nothing},
    [FB_REQUEST_QUIT] = {"quit", read_nothing},
    [FB_REQUEST_PREPARE] = {"prepare", read_prepare},
    [FB_REQUEST_SAMPLE] = {"sample", read_sample},
    [FB_REQUEST_CHECK] = {"check", read_case},
    [FB_REQUEST_TRACE] = {"trace", read_trace},
    [FB_REQUEST_VALUES] = {"values", read_values},
    [FB_REQUEST_RELEASE] = {"release", read_nothing},
    [FB_REQUEST_SEARCH] = {"search", read_search},
    [FB_REQUEST_CALIBRATE] = {"calibrate", read_calibrate},
};
enum { ROWS = sizeof rows / sizeof *rows };

bool fb_request_read(const json_t *message, fb_request *out, fb_error *err)
{
    const char *type;
    int row = 0;
    *out = (fb_request){.id = fb_json_int_or(message, "id", 0), .limit_s = default_limit_s};
    if (!fb_json_get_string(message, "type", &type, err)) return false;
    while (row < ROWS && strcmp(rows[row].type, type) != 0) row++;
    if (row == ROWS) return fb_fail(err, FB_ERR_INPUT, "there is no message of type \"%.40s\"", type);
    out->kind = (fb_request_kind)row;
    if (fb_request_is_work(out) && !fb_json_get_int(message, "id", 1, INT64_MAX, &out->id, err)) {
        out->id = 0;
        return false;
    }
    double limit = fb_json_number_or(message, "limit_s", default_limit_s);
    if (limit > 0) out->limit_s = limit < FB_MOST_LIMIT_S ? limit : FB_MOST_LIMIT_S;
    return rows[row].read(message, out, err);
}
