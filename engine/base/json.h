/* JSON helpers over jansson. Reading is strict: a field of the wrong type is an error that names the field, so that
 * every message and file is validated where it arrives. All functions borrow their json_t arguments unless said. */
#ifndef FB_BASE_JSON_H
#define FB_BASE_JSON_H

#include "base/error.h"
#include "base/file.h" /* most files hold JSON */
#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes jansson allocate through base/mem.h. Call once in main, after fb_mem_use_pool if that is used. */
void fb_json_init(void);

/* Parses one value from `n` bytes; NULL and an error that carries line and column on failure. Duplicate keys are
 * refused. The caller owns the result. */
json_t *fb_json_parse(const char *text, size_t n, fb_error *err);

/* One line, sorted keys, no spaces; the caller frees with fb_free. */
char *fb_json_line(const json_t *value);

/* JSON text with every character that no screen should get (base/str.h) as \\uXXXX: the same value, and safe to look
 * at. What people or files get goes through here; messages between our own processes need not. */
void fb_json_add_shown(fb_str *out, const char *json);
/* A value in this way, dumped with jansson's flags; and as fb_json_line. The caller frees with fb_free. */
char *fb_json_shown(const json_t *value, size_t flags);
char *fb_json_shown_line(const json_t *value);

/* A copy of what another program says of itself: every text in it, keys too, is one line of at most `longest` bytes
 * that a screen may get. The caller owns it. */
json_t *fb_json_cleaned(const json_t *value, size_t longest);

/* Required fields. False and an error naming `key` when it is missing or of another type. Strings stay owned by
 * `object`. */
bool fb_json_get_string(const json_t *object, const char *key, const char **out, fb_error *err);
bool fb_json_get_int(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out, fb_error *err);
bool fb_json_get_number(const json_t *object, const char *key, double *out, fb_error *err);
bool fb_json_get_array(const json_t *object, const char *key, json_t **out, fb_error *err);

/* Optional fields: the default when missing or null or of another type. */
const char *fb_json_string_or(const json_t *object, const char *key, const char *otherwise);
int64_t fb_json_int_or(const json_t *object, const char *key, int64_t otherwise);
double fb_json_number_or(const json_t *object, const char *key, double otherwise);
bool fb_json_bool_or(const json_t *object, const char *key, bool otherwise);

/* The first object of an array in which `key` is this text; NULL: none. */
const json_t *fb_json_find(const json_t *array, const char *key, const char *text);

/* Sets a number, leaving the key out when the value is not finite: what is not known is absent, never zero. */
void fb_json_set_number(json_t *object, const char *key, double value);

#endif
