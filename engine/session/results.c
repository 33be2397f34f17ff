/* Appends rows to a results file and reads them back; says which cases it holds. A last line that was cut off is no
 * row. */
#include "session/results.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

enum { RESULTS_MAX = 1 << 30 };

typedef struct {
    char *key;
    int row; /* the last one of this key */
    UT_hash_handle hh;
} keyed;

struct fb_results {
    char *path;
    int fd; /* -1: read only */
    bool lenient;
    FB_VEC(json_t *) rows;
    keyed *by_key;
};

/* The script is named by its file alone, so that a results file may be used from another folder. */
static char *key_of(const char *script, const char *variant, const char *plan, const char *device, const char *values,
                    const json_t *params)
{
    json_t *none = json_object();
    json_t *key = json_pack("[s,s,s,s,O]", fb_file_name(script), variant, plan, device, params ? params : none);
    if (values && *values) json_array_append_new(key, json_string(values));
    char *line = fb_json_line(key);
    json_decref(key);
    json_decref(none);
    return line;
}

static char *key_of_row(const json_t *row)
{
    const json_t *which = json_object_get(row, "case");
    if (which) return fb_json_line(which);
    return key_of(fb_json_string_or(row, "script", ""), fb_json_string_or(row, "variant", ""),
                  fb_json_string_or(row, "plan", ""), fb_json_string_or(row, "device", ""),
                  fb_json_string_or(row, "values", ""), json_object_get(row, "params"));
}

static const json_t *find(const fb_results *r, const char *key)
{
    keyed *k;
    HASH_FIND_STR(r->by_key, key, k);
    return k ? r->rows.at[k->row] : NULL;
}

static void keep(fb_results *r, json_t *row)
{
    char *key = key_of_row(row);
    keyed *k;
    HASH_FIND_STR(r->by_key, key, k);
    if (k) {
        fb_free(key);
    } else {
        k = fb_calloc(1, sizeof *k);
        k->key = key;
        HASH_ADD_KEYPTR(hh, r->by_key, k->key, strlen(k->key), k);
    }
    k->row = r->rows.n;
    FB_VEC_PUSH(&r->rows, json_incref(row));
}

/* ---- reading ---- */

static bool is_row(const json_t *row)
{
    return json_is_object(row) &&
           (json_is_object(json_object_get(row, "case")) || json_is_string(json_object_get(row, "plan")));
}

static bool read_line(fb_results *r, const char *line, size_t n, int number, fb_error *err)
{
    fb_error why = {0};
    json_t *row = fb_json_parse(line, n, &why);
    bool fine = row && is_row(row);
    if (fine)
        keep(r, row);
    else
        fb_fail(err, FB_ERR_INPUT, "%s:%d: %s", r->path, number, row ? "not a row of results" : why.text);
    json_decref(row);
    return fine;
}

/* *whole: bytes up to the end of the last whole line. */
static bool read_rows(fb_results *r, const char *text, size_t n, size_t *whole, fb_error *err)
{
    int number = 0;
    size_t at = 0;
    for (const char *end; (end = memchr(text + at, '\n', n - at)); at = (size_t)(end - text) + 1) {
        number++;
        if (end > text + at && !read_line(r, text + at, (size_t)(end - text) - at, number, err) && !r->lenient)
            return false;
    }
    *whole = at;
    return true;
}

static fb_results *results_new(const char *path, int fd, bool lenient)
{
    fb_results *r = fb_calloc(1, sizeof *r);
    r->lenient = lenient;
    r->path = fb_strdup(path);
    r->fd = fd;
    return r;
}

fb_results *fb_results_parse(const char *text, size_t n, const char *path, bool skim, fb_error *err)
{
    size_t whole;
    fb_results *r = results_new(path, -1, skim);
    if (read_rows(r, text, n, &whole, err)) return r;
    fb_results_close(r);
    return NULL;
}

static fb_results *open_results(const char *path, int fd, bool lenient, fb_error *err)
{
    fb_results *r = results_new(path, fd, lenient);
    size_t n = 0, whole = 0;
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) return r; /* a device: nothing to go on from */
    char *text = fb_read_file(path, RESULTS_MAX, &n, err);
    bool fine = text && read_rows(r, text, n, &whole, err);
    if (fine && fd >= 0 && whole < n && ftruncate(fd, (off_t)whole) < 0)
        fine = fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    fb_free(text);
    if (fine) return r;
    fb_results_close(r);
    return NULL;
}

fb_results *fb_results_read(const char *path, fb_error *err)
{
    return open_results(path, -1, false, err);
}

fb_results *fb_results_skim(const char *path, fb_error *err)
{
    return open_results(path, -1, true, err);
}

fb_results *fb_results_open(const char *path, fb_error *err)
{
    int fd = fb_file_open(path, FB_FILE_APPEND, err);
    if (fd < 0) return NULL;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s: another run is writing to it", path);
        close(fd);
        return NULL;
    }
    return open_results(path, fd, false, err);
}

void fb_results_close(fb_results *r)
{
    if (!r) return;
    if (r->fd >= 0) close(r->fd);
    keyed *k, *next;
    HASH_ITER(hh, r->by_key, k, next)
    {
        HASH_DEL(r->by_key, k);
        fb_free(k->key);
        fb_free(k);
    }
    for (int i = 0; i < r->rows.n; i++) json_decref(r->rows.at[i]);
    FB_VEC_FREE(&r->rows);
    fb_free(r->path);
    fb_free(r);
}

int fb_results_rows(const fb_results *r)
{
    return r->rows.n;
}

const json_t *fb_results_row(const fb_results *r, int i)
{
    return r->rows.at[i];
}

/* ---- cases ---- */

static bool same_hash(const json_t *row, const char *key, fb_hash hash)
{
    fb_hash was;
    const char *hex = fb_json_string_or(row, key, NULL);
    return !hex || !fb_hash_parse(hex, &was) || fb_hash_equal(was, hash);
}

const json_t *fb_results_find(const fb_results *r, const char *script, const fb_column *c)
{
    char *key = key_of(script, c->variant, c->plan_name, c->device, c->values, c->params);
    const json_t *row = find(r, key);
    fb_free(key);
    if (row && c->written && !same_hash(row, "graph_hash", c->written->hash)) return NULL;
    if (row && c->plan && !same_hash(row, "plan_hash", fb_plan_hash(c->plan))) return NULL;
    return row;
}

const json_t *fb_results_find_case(const fb_results *r, const json_t *which)
{
    char *key = fb_json_line(which);
    const json_t *row = find(r, key);
    fb_free(key);
    return row;
}

static bool append(fb_results *r, const char *line, size_t n, fb_error *err)
{
    off_t before = lseek(r->fd, 0, SEEK_END);
    ssize_t done = write(r->fd, line, n);
    if (done == (ssize_t)n) return true;
    int why = done < 0 ? errno : ENOSPC;
    if (before >= 0 && done > 0 && ftruncate(r->fd, before) < 0) why = errno;
    return fb_fail(err, FB_ERR_SYSTEM, "%s: %s", r->path, strerror(why));
}

bool fb_results_add(fb_results *r, json_t *row, fb_error *err)
{
    fb_str line = {0};
    char *text = fb_json_shown_line(row);
    fb_str_addf(&line, "%s\n", text);
    fb_free(text);
    bool fine = append(r, line.text, line.n, err);
    fb_str_free(&line);
    if (fine) keep(r, row);
    return fine;
}
