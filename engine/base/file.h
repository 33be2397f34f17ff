/* Files: the one way to open, read and write them.
 *
 * Nothing here waits: a pipe with nobody at its other end is refused, not opened and stared at. What is opened is a
 * regular file (or, to write to, a character device such as /dev/full), and what is private belongs to this user and
 * nobody else may write to it. A written file is whole or not there: it is made beside its place and renamed.
 */
#ifndef FB_BASE_FILE_H
#define FB_BASE_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How a file is opened; flags are added up. */
typedef enum {
    FB_FILE_READ = 0,
    FB_FILE_WRITE = 1,   /* made where missing, emptied */
    FB_FILE_APPEND = 2,  /* made where missing; reads, and writes at its end */
    FB_FILE_UPDATE = 4,  /* made where missing; reads and writes anywhere */
    FB_FILE_NEW = 8,     /* with one of the above: one that is there is refused */
    FB_FILE_PRIVATE = 16 /* no link, owned by this user, writable by nobody else; made 0600 under any umask */
} fb_file_use;

/* A descriptor (close-on-exec, not O_NONBLOCK), or -1 and "PATH: not a regular file" or what the system says:
 * FB_ERR_INPUT for reading, FB_ERR_SYSTEM for writing. */
int fb_file_open(const char *path, unsigned use, fb_error *err);
/* The same as a stream; with FB_FILE_READ, WRITE or APPEND. */
FILE *fb_file_stream(const char *path, unsigned use, fb_error *err);
/* Of a kind that `use` takes, and private where it asks for that; the descriptor stays open. */
bool fb_file_check(int fd, const char *path, unsigned use, fb_error *err);

/* The whole of a file, terminated; NULL on error. `limit` bytes at most. The caller frees with fb_free. */
char *fb_read_file(const char *path, size_t limit, size_t *n, fb_error *err);
/* As fb_read_file, of a file of ours that decides what may run: FB_FILE_PRIVATE. */
char *fb_read_private_file(const char *path, size_t limit, size_t *n, fb_error *err);
/* Writes a temporary file beside `path` and renames it, so that a reader never sees half a file; on the disk before it
 * takes another's place. Into a character device at once. */
bool fb_write_file(const char *path, const void *bytes, size_t n, fb_error *err);
/* All of it, or false with errno; a descriptor that takes part of it at a time is asked again. */
bool fb_write_all(int fd, const void *bytes, size_t n);

/* Appends a line in one write, so that several processes may append to one file; `use`: 0 or FB_FILE_PRIVATE. What a
 * full disk or a power cut left of a line before it stays a line of its own. */
bool fb_file_append(const char *path, unsigned use, const char *line, fb_error *err);

/* A file that is written in parts: gone unless it is committed. It has no name until then, where there can be such. */
typedef struct {
    int fd; /* -1: none */
    bool nameless;
    char path[4096], temporary[4128];
} fb_new_file;
bool fb_new_file_begin(fb_new_file *f, const char *path, unsigned use, fb_error *err); /* use: 0 or FB_FILE_PRIVATE */
/* `durable`: on the disk before it gets its name. */
bool fb_new_file_commit(fb_new_file *f, bool durable, fb_error *err);
void fb_new_file_abandon(fb_new_file *f); /* also safe after a commit */

/* How much was written: bytes of the files that a process, and those that it forks, put in place. A page is shared by
 * the process that made it and all that it forks, and is never given back; NULL (no memory for it) counts nothing. */
typedef struct fb_written fb_written;
fb_written *fb_written_new(void);
void fb_written_count(fb_written *page);   /* from now on into that page */
void fb_written_add(int64_t bytes);        /* of a file that is written otherwise */
int64_t fb_written_take(fb_written *page); /* what was added since it was last taken */

/* Makes a folder and those above it that are missing, each 0700 under any umask, and sees that it is ours: this user's,
 * with nobody else able to write to it or to rename what is above it. An own folder that others may only read is closed
 * to them, unless a link at the path's end led there. FB_ERR_SYSTEM where it cannot be made, FB_ERR_UNAVAILABLE where
 * it is there and not ours alone, with a sentence that says what to do. */
bool fb_private_folder(const char *path, fb_error *err);
/* A folder for results that a user names: made with the usual rights where missing, its parents are not. */
bool fb_make_folder(const char *path, fb_error *err);

#endif
