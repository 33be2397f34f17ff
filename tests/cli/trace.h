/* What trace.c writes and power.c reads. */
#ifndef FB_TESTS_TRACE_H
#define FB_TESTS_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/* FOUND: contents that nobody traced. MADE: empty from here on. LENGTH: `at` bytes. */
enum trace_kind {
    TRACE_MADE,
    TRACE_FOUND,
    TRACE_WRITE,
    TRACE_LENGTH,
    TRACE_SYNC,
    TRACE_RENAME,
    TRACE_LINK,
    TRACE_UNLINK,
    TRACE_FOLDER,
};

/* Followed by `path` and `to` bytes of names with their zeros, and n bytes for FOUND and WRITE. */
typedef struct {
    int64_t kind, path, to, at, n;
} trace_record;

#endif
