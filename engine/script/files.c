/* Reads .npy and .csv into rows of doubles. The header says the shape before any data is taken; whatever does not
 * fit is an error with its place in the file. */
#include "script/files.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/vec.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- npy: magic, version, a Python dictionary as text, the values ---- */

typedef struct {
    const char *descr;
    fb_dtype dtype;
} npy_type;

static const npy_type npy_types[] = {{"f4", FB_F32}, {"f8", FB_F64}, {"f2", FB_F16}, {"i4", FB_I32}, {"i8", FB_I64}};

/* What follows 'key': in the dictionary, or NULL. */
static const char *npy_field(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(header, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    while (*at == ' ' || *at == ':') at++;
    return at;
}

static bool npy_header(const char *name, const char *header, fb_file_table *out, fb_error *err)
{
    const char *descr = npy_field(header, "descr"), *order = npy_field(header, "fortran_order"),
               *shape = npy_field(header, "shape");
    if (!descr || !order || !shape || *descr != '\'' || *shape != '(')
        return fb_fail(err, FB_ERR_INPUT, "%s: not a .npy header", name);
    size_t i = 0, count = sizeof npy_types / sizeof *npy_types;
    while (i < count &&
           !(descr[1] && strchr("<|=", descr[1]) && strncmp(descr + 2, npy_types[i].descr, 2) == 0 && descr[4] == '\''))
        i++;
    if (i == count)
        return fb_fail(err, FB_ERR_INPUT, "%s: values of type %.6s are not read (little-endian f2, f4, f8, i4, i8 are)",
                       name, descr);
    out->dtype = npy_types[i].dtype;
    if (strncmp(order, "False", 5) != 0)
        return fb_fail(err, FB_ERR_INPUT, "%s: Fortran order is not read; save it with numpy.ascontiguousarray", name);
    out->n = 1;
    for (const char *at = shape + 1;;) {
        while (*at == ' ' || *at == ',') at++;
        if (*at == ')') return true;
        char *end;
        long long d = strtoll(at, &end, 10);
        if (end == at || d < 0 || out->shape.rank == FB_MAX_RANK || (d && out->n > FB_MAX_ELEMENTS / d))
            return fb_fail(err, FB_ERR_INPUT, "%s: the shape %.60s is not read", name, shape);
        out->shape.dim[out->shape.rank++] = d;
        out->n *= d;
        at = end;
    }
}

static double npy_value(const unsigned char *at, fb_dtype dtype)
{
    float f;
    double d;
    int32_t i;
    int64_t l;
    uint16_t h;
    switch (dtype) {
    case FB_F32: return memcpy(&f, at, sizeof f), (double)f;
    case FB_F64: return memcpy(&d, at, sizeof d), d;
    case FB_I32: return memcpy(&i, at, sizeof i), (double)i;
    case FB_I64: return memcpy(&l, at, sizeof l), (double)l;
    default: break;
    }
    memcpy(&h, at, sizeof h);
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return h >> 15 ? -v : v;
}

static bool parse_npy(const char *name, const char *bytes, size_t n, fb_file_table *out, fb_error *err)
{
    const unsigned char *b = (const unsigned char *)bytes;
    if (n < 12 || memcmp(b, "\x93NUMPY", 6) != 0) return fb_fail(err, FB_ERR_INPUT, "%s: not a .npy file", name);
    bool wide = b[6] >= 2;
    size_t length =
        wide ? b[8] | (size_t)b[9] << 8 | (size_t)b[10] << 16 | (size_t)b[11] << 24 : b[8] | (size_t)b[9] << 8;
    size_t at = wide ? 12 : 10;
    if (length > 65535 || n - at < length) return fb_fail(err, FB_ERR_INPUT, "%s: the file ends in its header", name);
    char *header = fb_alloc(length + 1);
    memcpy(header, b + at, length);
    header[length] = '\0';
    bool ok = npy_header(name, header, out, err);
    fb_free(header);
    if (!ok) return false;
    at += length;
    size_t size = (size_t)fb_dtype_size(out->dtype);
    if ((n - at) / size < (size_t)out->n)
        return fb_fail(err, FB_ERR_INPUT, "%s: the file ends before its %lld values", name, (long long)out->n);
    out->values = fb_alloc((size_t)out->n * sizeof *out->values);
    for (int64_t i = 0; i < out->n; i++) out->values[i] = npy_value(b + at + (size_t)i * size, out->dtype);
    for (int64_t i = 0; i < out->n && out->dtype == FB_I64; i++)
        if (fabs(out->values[i]) > 0x1p53)
            return fb_fail(err, FB_ERR_INPUT, "%s: value %lld is beyond 2^53", name, (long long)i);
    return true;
}

/* ---- npy in pieces ---- */

enum { PIECE = 1 << 20 };

typedef struct {
    int fd;
    bool named;       /* by what it holds: `sha` is wanted, which takes longer than all else together */
    fb_sha256 sha;    /* of what the importer hashes */
    fb_hasher *whole; /* of the file, as fb_script_parse_file does */
} npy_stream;

static bool stream_read(npy_stream *s, const char *path, void *to, size_t n, fb_error *err)
{
    for (size_t got = 0; got < n;) {
        ssize_t k = read(s->fd, (char *)to + got, n - got);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return fb_fail(err, FB_ERR_INPUT, "%s: %s", path, strerror(errno));
        if (k == 0) return fb_fail(err, FB_ERR_INPUT, "%s: the file ends too early", path);
        got += (size_t)k;
    }
    fb_hasher_add(s->whole, to, n);
    return true;
}

static bool stream_header(npy_stream *s, const char *path, fb_file_table *out, fb_error *err)
{
    unsigned char b[12];
    if (!stream_read(s, path, b, 10, err)) return false;
    if (memcmp(b, "\x93NUMPY", 6) != 0) return fb_fail(err, FB_ERR_INPUT, "%s: not a .npy file", path);
    size_t length = b[8] | (size_t)b[9] << 8;
    if (b[6] >= 2 && !stream_read(s, path, b + 10, 2, err)) return false;
    if (b[6] >= 2) length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (length > 65535) return fb_fail(err, FB_ERR_INPUT, "%s: its header is too long", path);
    char *header = fb_calloc(1, length + 1);
    bool ok = stream_read(s, path, header, length, err) && npy_header(path, header, out, err);
    fb_free(header);
    return ok;
}

/* dtype and shape, as they stand before the values in what the key is made of. */
static void stream_name(npy_stream *s, const fb_file_table *t)
{
    fb_str text = {0};
    fb_str_addf(&text, "%s(", fb_dtype_name(t->dtype));
    for (int d = 0; d < t->shape.rank; d++) fb_str_addf(&text, "%s%lld", d ? ", " : "", (long long)t->shape.dim[d]);
    fb_str_add(&text, t->shape.rank == 1 ? ",)" : ")");
    fb_sha256_add(&s->sha, text.text, text.n);
    fb_str_free(&text);
}

static bool stream_values(npy_stream *s, const char *path, fb_file_table *out, fb_error *err)
{
    size_t size = (size_t)fb_dtype_size(out->dtype);
    unsigned char *piece = fb_alloc(PIECE);
    bool ok = true;
    for (int64_t done = 0; ok && done < out->n;) {
        int64_t k = out->n - done < (int64_t)(PIECE / size) ? out->n - done : (int64_t)(PIECE / size);
        ok = stream_read(s, path, piece, (size_t)k * size, err);
        if (!ok) break;
        if (s->named) fb_sha256_add(&s->sha, piece, (size_t)k * size);
        for (int64_t i = 0; i < k; i++) out->values[done + i] = npy_value(piece + (size_t)i * size, out->dtype);
        for (int64_t i = 0; ok && i < k && out->dtype == FB_I64; i++)
            if (fabs(out->values[done + i]) > 0x1p53)
                ok = fb_fail(err, FB_ERR_INPUT, "%s: value %lld is beyond 2^53", path, (long long)(done + i));
        done += k;
    }
    fb_free(piece);
    return ok;
}

static bool is_content_key(const char *key)
{
    return strlen(key) == 32 && strspn(key, "0123456789abcdef") == 32;
}

static bool read_stream(npy_stream *s, const char *path, const char *key, fb_file_table *out, fb_error *err)
{
    char hex[65];
    if (!stream_header(s, path, out, err)) return false;
    if (out->n > FB_WEIGHTS_MAX)
        return fb_fail(err, FB_ERR_LIMIT, "%s: %lld values are more than the %d that a worker takes", path,
                       (long long)out->n, (int)FB_WEIGHTS_MAX);
    stream_name(s, out);
    out->values = fb_try_alloc((size_t)(out->n ? out->n : 1) * sizeof *out->values);
    if (!out->values) return fb_fail(err, FB_ERR_LIMIT, "%s: no memory for its values", path);
    bool ok = stream_values(s, path, out, err);
    bool same = strncmp(fb_sha256_end(&s->sha, hex), key, 32) == 0;
    fb_hash_hex(fb_hasher_end(s->whole), out->key);
    s->whole = NULL;
    if (!ok || same || !s->named || strcmp(out->key, key) == 0) return ok;
    return fb_fail(err, FB_ERR_INPUT, "%s: not what its name says: its values, dtype or shape have changed", path);
}

bool fb_weights_read(const char *path, const char *key, fb_file_table *out, fb_error *err)
{
    *out = (fb_file_table){0};
    npy_stream s = {.fd = fb_file_open(path, FB_FILE_READ, err), .named = is_content_key(key)};
    if (s.fd < 0) return false;
    s.whole = fb_hasher_new();
    fb_hasher_add_text(s.whole, ".npy");
    fb_hasher_add_text(s.whole, "");
    fb_sha256_begin(&s.sha);
    bool ok = read_stream(&s, path, key, out, err);
    if (s.whole) fb_hasher_end(s.whole);
    close(s.fd);
    if (ok) return true;
    fb_free(out->values);
    *out = (fb_file_table){0};
    return false;
}

/* ---- csv ---- */

typedef struct {
    const char *at, *end;
} text;

static text trimmed(text t)
{
    while (t.at < t.end && isspace((unsigned char)*t.at)) t.at++;
    while (t.at < t.end && isspace((unsigned char)t.end[-1])) t.end--;
    if (t.end - t.at >= 2 && *t.at == '"' && t.end[-1] == '"') t.at++, t.end--;
    return t;
}

static bool next_line(text *rest, text *line)
{
    if (rest->at >= rest->end) return false;
    const char *end = memchr(rest->at, '\n', (size_t)(rest->end - rest->at));
    *line = (text){rest->at, end ? end : rest->end};
    rest->at = end ? end + 1 : rest->end;
    return true;
}

static bool next_cell(text *line, text *cell)
{
    if (!line->at) return false;
    const char *comma = memchr(line->at, ',', (size_t)(line->end - line->at));
    *cell = trimmed((text){line->at, comma ? comma : line->end});
    line->at = comma ? comma + 1 : NULL;
    return true;
}

static bool number(text cell, double *out)
{
    char copy[64], *end;
    size_t n = (size_t)(cell.end - cell.at);
    if (!n || n >= sizeof copy) return false;
    memcpy(copy, cell.at, n);
    copy[n] = '\0';
    *out = strtod(copy, &end);
    return !*end;
}

typedef FB_VEC(int) int_list;

/* Column numbers from 0 for what `columns` asks. */
static bool add_column(const char *name, text header, bool has_header, int n_columns, const json_t *want, int_list *out,
                       fb_error *err)
{
    if (json_is_integer(want)) {
        json_int_t i = json_integer_value(want);
        if (i < 1 || i > n_columns)
            return fb_fail(err, FB_ERR_INPUT, "%s: there is no column %lld of %d", name, (long long)i, n_columns);
        FB_VEC_PUSH(out, (int)i - 1);
        return true;
    }
    const char *title = json_string_value(want);
    if (!title) return fb_fail(err, FB_ERR_INPUT, "%s: a column is a name or a number", name);
    text cell;
    for (int i = 0; has_header && next_cell(&header, &cell); i++) {
        if ((size_t)(cell.end - cell.at) != strlen(title) || memcmp(cell.at, title, strlen(title)) != 0) continue;
        FB_VEC_PUSH(out, i);
        return true;
    }
    return fb_fail(err, FB_ERR_INPUT, "%s: there is no column \"%.80s\"%s", name, title,
                   has_header ? "" : ", the first row is numbers");
}

static bool choose_columns(const char *name, text header, bool has_header, int n_columns, const json_t *columns,
                           int_list *out, fb_error *err)
{
    size_t i;
    json_t *want;
    if (!columns)
        for (int c = 0; c < n_columns; c++) FB_VEC_PUSH(out, c);
    else if (!json_is_array(columns))
        return add_column(name, header, has_header, n_columns, columns, out, err);
    json_array_foreach(columns, i,
                       want) if (!add_column(name, header, has_header, n_columns, want, out, err)) return false;
    return out->n > 0 || fb_fail(err, FB_ERR_INPUT, "%s: no columns", name);
}

typedef FB_VEC(double) double_list;

static bool parse_rows(const char *name, text rest, int row, int n_columns, const int_list *chosen, double_list *values,
                       fb_error *err)
{
    text line, cell;
    double *cells = fb_alloc((size_t)n_columns * sizeof *cells);
    bool ok = true;
    for (; ok && next_line(&rest, &line); row++) {
        text whole = trimmed(line);
        if (whole.at == whole.end) continue;
        int c = 0;
        for (; ok && next_cell(&line, &cell); c++) {
            if (c == n_columns) break;
            bool wanted = false;
            for (int k = 0; k < chosen->n; k++) wanted = wanted || chosen->at[k] == c;
            if (wanted && !number(cell, &cells[c]))
                ok = fb_fail(err, FB_ERR_INPUT, "%s:%d: column %d is not a number: \"%.*s\"", name, row, c + 1,
                             (int)(cell.end - cell.at < 40 ? cell.end - cell.at : 40), cell.at);
        }
        if (ok && (c != n_columns || line.at))
            ok = fb_fail(err, FB_ERR_INPUT, "%s:%d: not %d columns as in the first row", name, row, n_columns);
        for (int k = 0; ok && k < chosen->n; k++) FB_VEC_PUSH(values, cells[chosen->at[k]]);
    }
    fb_free(cells);
    return ok;
}

static bool parse_csv(const char *name, const char *bytes, size_t n, const json_t *columns, fb_file_table *out,
                      fb_error *err)
{
    text rest = {bytes, bytes + n}, line, cell, body = rest;
    if (!next_line(&rest, &line)) return fb_fail(err, FB_ERR_INPUT, "%s: the file is empty", name);
    text header = line;
    int n_columns = 0;
    bool has_header = false;
    double ignored;
    while (next_cell(&line, &cell)) {
        has_header = has_header || !number(cell, &ignored);
        n_columns++;
    }
    if (has_header) body = rest;
    int_list chosen = {0};
    double_list values = {0};
    bool ok = choose_columns(name, header, has_header, n_columns, columns, &chosen, err) &&
              parse_rows(name, body, has_header ? 2 : 1, n_columns, &chosen, &values, err);
    if (ok && !values.n) ok = fb_fail(err, FB_ERR_INPUT, "%s: there is no row of numbers", name);
    if (ok) {
        bool one = columns && !json_is_array(columns);
        *out = (fb_file_table){.dtype = FB_F32, .n = values.n, .values = values.at};
        out->shape = fb_shape_of(one ? 1 : 2, (int64_t[]){values.n / chosen.n, chosen.n});
        values.at = NULL;
    }
    FB_VEC_FREE(&values);
    FB_VEC_FREE(&chosen);
    return ok;
}

bool fb_script_parse_file(const char *name, const char *bytes, size_t n, const json_t *columns, fb_file_table *out,
                          fb_error *err)
{
    const char *dot = strrchr(name, '.');
    *out = (fb_file_table){0};
    bool ok = dot && strcmp(dot, ".npy") == 0 ? parse_npy(name, bytes, n, out, err)
              : dot && strcmp(dot, ".csv") == 0
                  ? parse_csv(name, bytes, n, columns, out, err)
                  : fb_fail(err, FB_ERR_INPUT, "%s: neither a .npy nor a .csv file", name);
    if (!ok) {
        fb_free(out->values);
        *out = (fb_file_table){0};
        return false;
    }
    fb_hasher *h = fb_hasher_new();
    char *how = columns ? fb_json_line(columns) : NULL;
    fb_hasher_add_text(h, dot);
    fb_hasher_add_text(h, how ? how : "");
    fb_hasher_add(h, bytes, n);
    fb_hash_hex(fb_hasher_end(h), out->key);
    fb_free(how);
    return true;
}
