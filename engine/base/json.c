#include "base/json.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

char *fb_json_line(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    return text ? text : fb_strdup("null");
}

static bool wrong(const json_t *field, const char *key, const char *type, fb_error *err)
{
    if (!field) return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is missing", key);
    return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is not %s", key, type);
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

char *fb_read_file(const char *path, size_t limit, size_t *n, fb_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fb_fail(err, FB_ERR_INPUT, "%s: %s", path, strerror(errno));
        return NULL;
    }
    struct stat st;
    char *text = NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        fb_fail(err, FB_ERR_INPUT, "%s: not a regular file", path);
    } else if ((uint64_t)st.st_size > limit) {
        fb_fail(err, FB_ERR_LIMIT, "%s: %lld bytes is more than the limit of %zu", path, (long long)st.st_size, limit);
    } else {
        text = fb_alloc((size_t)st.st_size + 1);
        size_t got = 0;
        for (;;) {
            ssize_t k = read(fd, text + got, (size_t)st.st_size - got);
            if (k < 0 && errno == EINTR) continue;
            if (k <= 0) break;
            got += (size_t)k;
        }
        text[got] = '\0';
        if (n) *n = got;
    }
    close(fd);
    return text;
}

bool fb_write_file(const char *path, const void *bytes, size_t n, fb_error *err)
{
    char temp[4096];
    if (snprintf(temp, sizeof temp, "%s.%d.tmp", path, (int)getpid()) >= (int)sizeof temp)
        return fb_fail(err, FB_ERR_SYSTEM, "%s: the path is too long", path);
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    size_t done = 0;
    int why = 0;
    while (done < n) {
        ssize_t k = write(fd, (const char *)bytes + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            why = errno;
            break;
        }
        done += (size_t)k;
    }
    if (close(fd) < 0 && !why) why = errno;
    if (!why && rename(temp, path) < 0) why = errno;
    if (!why) return true;
    unlink(temp);
    return fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(why));
}
