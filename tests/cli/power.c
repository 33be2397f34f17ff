/* Cuts the power: plays back what trace.c wrote down, up to any call, onto what was there before, and leaves what a
 * disk would hold.
 *
 *     power TRACE                          how many calls there were
 *     power TRACE N MODE BEFORE ROOT       ROOT is made anew: BEFORE, and the first N calls
 *
 * MODE whole: all of them reached the disk, half of the Nth when it is a write. MODE lost: names did, and of each file
 * what was synced alone; the rest of it is gone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace.h"

typedef struct {
    char *bytes, *synced;
    size_t n, synced_n;
} file;

typedef struct {
    char *name;
    file *is; /* NULL: a folder */
} entry;

static entry *entries;
static size_t n_entries;
static const char *before;

static void *need(void *at)
{
    if (!at) exit(9);
    return at;
}

static entry *find(const char *name)
{
    for (size_t i = 0; i < n_entries; i++)
        if (strcmp(entries[i].name, name) == 0) return &entries[i];
    return NULL;
}

static void drop(const char *name)
{
    entry *e = find(name);
    if (e) *e = entries[--n_entries];
}

static void put(const char *name, file *is)
{
    drop(name);
    entries = need(realloc(entries, (n_entries + 1) * sizeof *entries));
    entries[n_entries++] = (entry){need(strdup(name)), is};
}

static void resize(file *f, size_t n)
{
    f->bytes = need(realloc(f->bytes, n + 1));
    if (n > f->n) memset(f->bytes + f->n, 0, n - f->n);
    f->n = n;
}

static void sync_file(file *f)
{
    f->synced = need(realloc(f->synced, f->n + 1));
    memcpy(f->synced, f->bytes ? f->bytes : "", f->n);
    f->synced_n = f->n;
}

static file *file_named(const char *name)
{
    entry *e = find(name);
    if (e && e->is) return e->is;
    file *f = need(calloc(1, sizeof *f));
    put(name, f);
    return f;
}

static int load(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)at;
    const char *name = path + strlen(before);
    if (*name == '/') name++;
    if (!*name) return 0;
    if (kind == FTW_D) put(name, NULL);
    if (kind != FTW_F) return 0;
    file *f = file_named(name);
    int fd = open(path, O_RDONLY);
    resize(f, (size_t)st->st_size);
    if (fd < 0 || read(fd, f->bytes, f->n) != (ssize_t)f->n) exit(8);
    close(fd);
    sync_file(f);
    return 0;
}

static void apply(const trace_record *r, const char *path, const char *to, const char *bytes, bool half)
{
    entry *e = find(path);
    size_t n = (size_t)r->n;
    file *f;
    switch ((enum trace_kind)r->kind) {
    case TRACE_MADE: resize(file_named(path), 0); return;
    case TRACE_FOUND:
        if (e && e->is) return;
        f = file_named(path);
        resize(f, n);
        memcpy(f->bytes, bytes, n);
        return;
    case TRACE_WRITE:
        f = file_named(path);
        if (half) n /= 2;
        if (f->n < (size_t)r->at + n) resize(f, (size_t)r->at + n);
        memcpy(f->bytes + r->at, bytes, n);
        return;
    case TRACE_LENGTH: resize(file_named(path), (size_t)r->at); return;
    case TRACE_SYNC: sync_file(file_named(path)); return;
    case TRACE_RENAME:
        if (!e) return;
        f = e->is;
        drop(path);
        put(to, f);
        return;
    case TRACE_LINK:
        if (e) put(to, e->is);
        return;
    case TRACE_UNLINK: drop(path); return;
    case TRACE_FOLDER: put(path, NULL); return;
    }
}

static void make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0700);
    }
}

static void write_out(const char *root, bool lost)
{
    char path[8300];
    for (size_t i = 0; i < n_entries; i++) {
        snprintf(path, sizeof path, "%s/%s", root, entries[i].name);
        make_folders(path);
        const file *f = entries[i].is;
        if (!f) {
            mkdir(path, 0700);
            continue;
        }
        const char *bytes = lost ? f->synced : f->bytes;
        size_t n = lost ? f->synced_n : f->n;
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || (n && write(fd, bytes, n) != (ssize_t)n)) exit(7);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    FILE *trace = argc > 1 ? fopen(argv[1], "r") : NULL;
    long most = argc > 2 ? strtol(argv[2], NULL, 10) : -1, n = 0;
    if (!trace || (argc != 2 && argc != 6)) return 2;
    before = argc > 4 ? argv[4] : NULL;
    if (before && nftw(before, load, 16, FTW_PHYS) != 0) return 8;
    trace_record r;
    for (; n != most && fread(&r, sizeof r, 1, trace) == 1; n++) {
        size_t room = (size_t)(r.path + r.to + (r.kind == TRACE_FOUND || r.kind == TRACE_WRITE ? r.n : 0));
        char *all = need(malloc(room + 1));
        if (fread(all, 1, room, trace) != room) break;
        apply(&r, all, all + r.path, all + r.path + r.to, n + 1 == most);
        free(all);
    }
    if (argc == 2)
        printf("%ld\n", n);
    else
        write_out(argv[5], strcmp(argv[3], "lost") == 0);
    return 0;
}
