/* Tables of numbers from files beside a script, read by the front: .npy (f2 f4 f8 i4 i8, C order) and .csv. */
#ifndef FB_SCRIPT_FILES_H
#define FB_SCRIPT_FILES_H

#include "base/error.h"
#include "graph/graph.h"

#include <jansson.h>

enum { FB_FILE_MAX = 256 << 20 }; /* bytes */

typedef struct {
    char key[33]; /* content: equal files read the same way share it */
    fb_dtype dtype;
    fb_shape shape;
    int64_t n;
    double *values; /* heap; the receiver frees */
} fb_file_table;

/* `name` decides the format and stands in errors. `columns` (csv only, may be NULL): one name or number (from 1), or a
 * list of them; a single one gives one dimension. A first row that is no numbers is the header. */
bool fb_script_parse_file(const char *name, const char *bytes, size_t n, const json_t *columns, fb_file_table *out,
                          fb_error *err);

/* A .npy file of the weights of a graph in JSON, read piece by piece, whatever its size up to what a worker takes
 * (FB_WEIGHTS_MAX values). `key`: the first 32 hex digits of the SHA-256 of its dtype's name, its shape as Python
 * writes a tuple, and its values' bytes, or the key fb_script_parse_file gives: the file must be what it names. Another
 * kind of name says nothing of the contents. FB_ERR_INPUT where it is not there, damaged or another's. */
enum { FB_WEIGHTS_MAX = 1 << 29 };
bool fb_weights_read(const char *path, const char *key, fb_file_table *out, fb_error *err);

#endif
