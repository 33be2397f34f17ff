/* Strict reading and clean writing over jansson. Needs fb_json_init before anything is allocated by it. What is read
 * stays the caller's; texts that are returned are freed with fb_free. */
#include "base/json.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

void fb_json_init(void)
{
    json_set_alloc_funcs(fb_alloc, fb_free);
}

json_t *fb_json_parse(const char *text, size_t n, fb_error *err)
{
    json_error_t why;
    json_t *value = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!value) fb_fail(err, FB_ERR_INPUT, "not valid JSON at line %d, column %d: %s", why.line, why.column, why.text);
    return value;
}

#define LINE_FLAGS (JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17))

char *fb_json_line(const json_t *value)
{
    char *text = json_dumps(value, LINE_FLAGS);
    return text ? text : fb_strdup("null");
}

/* Outside strings JSON is plain ASCII, and the C0 characters in them are escaped already. */
void fb_json_add_shown(fb_str *out, const char *json)
{
    size_t n = strlen(json), len, from = 0;
    for (size_t i = 0; i < n; i += len) {
        uint32_t c;
        bool good;
        len = fb_text_next(json + i, n - i, &c, &good);
        if (good || c < 0x7f || c > 0xffff) continue;
        fb_str_add_n(out, json + from, i - from);
        fb_str_addf(out, "\\u%04X", (unsigned)c);
        from = i + len;
    }
    fb_str_add_n(out, json + from, n - from);
}

char *fb_json_shown(const json_t *value, size_t flags)
{
    fb_str out = {0};
    char *text = json_dumps(value, flags);
    fb_json_add_shown(&out, text ? text : "null");
    fb_free(text);
    return fb_str_take(&out);
}

char *fb_json_shown_line(const json_t *value)
{
    return fb_json_shown(value, LINE_FLAGS);
}

static bool wrong(const json_t *field, const char *key, const char *type, fb_error *err)
{
    if (!field) return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is missing", key);
    return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is not %s", key, type);
}

static char *cleaned(const char *text, size_t longest)
{
    size_t n = strlen(text), room = (n < longest ? n : longest) + 1;
    char *to = fb_alloc(room);
    fb_text_clean(to, room, text, n);
    return to;
}

json_t *fb_json_cleaned(const json_t *value, size_t longest)
{
    if (json_is_string(value)) {
        char *text = cleaned(json_string_value(value), longest);
        json_t *copy = json_string(text);
        fb_free(text);
        return copy;
    }
    if (json_is_array(value)) {
        json_t *copy = json_array();
        for (size_t i = 0; i < json_array_size(value); i++)
            json_array_append_new(copy, fb_json_cleaned(json_array_get(value, i), longest));
        return copy;
    }
    if (!json_is_object(value)) return json_copy((json_t *)value);
    json_t *copy = json_object(), *one;
    const char *name;
    json_object_foreach((json_t *)value, name, one)
    {
        char *key = cleaned(name, longest);
        json_object_set_new(copy, key, fb_json_cleaned(one, longest));
        fb_free(key);
    }
    return copy;
}

bool fb_json_get_string(const json_t *object, const char *key, const char **out, fb_error *err)
{
    json_t *field = json_object_get(object, key);
    if (!json_is_string(field)) return wrong(field, key, "a string", err);
    *out = json_string_value(field);
    return true;
}

bool fb_json_get_int(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out, fb_error *err)
{
    json_t *field = json_object_get(object, key);
    if (!json_is_integer(field)) return wrong(field, key, "an integer", err);
    int64_t v = json_integer_value(field);
    if (v < low || v > high)
        return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is %lld, not between %lld and %lld", key, (long long)v,
                       (long long)low, (long long)high);
    *out = v;
    return true;
}

bool fb_json_get_number(const json_t *object, const char *key, double *out, fb_error *err)
{
    json_t *field = json_object_get(object, key);
    if (!json_is_number(field)) return wrong(field, key, "a number", err);
    *out = json_number_value(field);
    return true;
}

bool fb_json_get_array(const json_t *object, const char *key, json_t **out, fb_error *err)
{
    json_t *field = json_object_get(object, key);
    if (!json_is_array(field)) return wrong(field, key, "an array", err);
    *out = field;
    return true;
}

const char *fb_json_string_or(const json_t *object, const char *key, const char *otherwise)
{
    json_t *field = json_object_get(object, key);
    return json_is_string(field) ? json_string_value(field) : otherwise;
}

int64_t fb_json_int_or(const json_t *object, const char *key, int64_t otherwise)
{
    json_t *field = json_object_get(object, key);
    return json_is_integer(field) ? json_integer_value(field) : otherwise;
}

double fb_json_number_or(const json_t *object, const char *key, double otherwise)
{
    json_t *field = json_object_get(object, key);
    return json_is_number(field) ? json_number_value(field) : otherwise;
}

bool fb_json_bool_or(const json_t *object, const char *key, bool otherwise)
{
    json_t *field = json_object_get(object, key);
    return json_is_boolean(field) ? json_boolean_value(field) : otherwise;
}

const json_t *fb_json_find(const json_t *array, const char *key, const char *text)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)array, i, one)
    {
        if (strcmp(fb_json_string_or(one, key, ""), text) == 0) return one;
    }
    return NULL;
}

void fb_json_set_number(json_t *object, const char *key, double value)
{
    if (isfinite(value)) json_object_set_new(object, key, json_real(value));
}
