/* Errors are values.
 *
 * A function that can fail for a reason a user should read returns `bool` (or a pointer that may be NULL) and takes
 * a trailing `fb_error *err`. On failure it fills *err with a kind and one sentence that names the script line, the
 * node or the file; on success it leaves *err alone. `err` may be NULL when the caller does not care. Nothing below
 * tui/ prints. abort() is kept for bugs and for running out of memory.
 */
#ifndef FB_BASE_ERROR_H
#define FB_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

typedef enum {
    FB_OK = 0,
    FB_ERR_INPUT,       /* what the user gave is wrong: script, plan file, graph, shapes (exit status 1) */
    FB_ERR_USAGE,       /* the command line is wrong (exit status 2) */
    FB_ERR_UNAVAILABLE, /* a device, compiler or library is not there (exit status 3) */
    FB_ERR_LIMIT,       /* a time, memory or size limit was reached */
    FB_ERR_SYSTEM,      /* the operating system refused: file, pipe, fork */
    FB_ERR_CRASH,       /* a child process died, or what it holds of a device is lost */
    FB_ERR_COMPILE,     /* a compiler refused what was generated, or failed on it */
    FB_ERR_CANCELLED,   /* the user cancelled */
} fb_error_kind;

typedef struct {
    fb_error_kind kind;
    char text[480]; /* one sentence, no newline, no trailing stop, valid UTF-8 */
} fb_error;

/* Fills *err and returns false, so that `return fb_fail(err, …)` is the idiom. Control characters are stripped. */
bool fb_fail(fb_error *err, fb_error_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool fb_vfail(fb_error *err, fb_error_kind kind, const char *format, va_list ap) __attribute__((format(printf, 3, 0)));

/* Puts `prefix: ` before the sentence that is already there; returns false. */
bool fb_fail_prefix(fb_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "input", "usage", … as used in messages between processes; fb_error_kind_parse gives FB_ERR_SYSTEM for unknown. */
const char *fb_error_kind_name(fb_error_kind kind);
fb_error_kind fb_error_kind_parse(const char *name);

/* A bug: says where on stderr and aborts. */
_Noreturn void fb_bug(const char *file, int line, const char *what);
#define FB_ASSERT(cond) ((cond) ? (void)0 : fb_bug(__FILE__, __LINE__, #cond))

#endif
