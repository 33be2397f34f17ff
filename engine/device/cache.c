/* The disk cache: a folder of this user's own, whose entries go when they were not used for longest. */
#include "base/file.h"
#include "base/mem.h"
#include "base/vec.h"
#include "device/device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool fb_cache_path(const char *sub, char *to, size_t room, fb_error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct passwd *user;
    int n;
    if (!home || home[0] != '/') home = (user = getpwuid(getuid())) ? user->pw_dir : NULL;
    if (cache && cache[0] == '/')
        n = snprintf(to, room, "%s/fusebox/%s", cache, sub); /* relative ones are to be ignored */
    else if (home && home[0] == '/')
        n = snprintf(to, room, "%s/.cache/fusebox/%s", home, sub);
    else
        return fb_fail(err, FB_ERR_SYSTEM, "there is no cache folder: neither XDG_CACHE_HOME nor HOME is set");
    return n < (int)room || fb_fail(err, FB_ERR_SYSTEM, "the path of the cache folder is too long");
}

bool fb_cache_dir(const char *sub, char *to, size_t room, fb_error *err)
{
    return fb_cache_path(sub, to, room, err) && fb_private_folder(to, err); /* generated code is loaded from there */
}

/* Fixed, so that processes with and without a cache meet; only this user can have made it. */
bool fb_temporary_dir(char *to, size_t room, fb_error *err)
{
    snprintf(to, room, "/tmp/fusebox-%u", (unsigned)geteuid());
    return fb_private_folder(to, err);
}

void fb_cache_touch(const char *path)
{
    utimensat(AT_FDCWD, path, NULL, 0);
}

typedef struct {
    char name[256];
    int64_t bytes, used; /* used: seconds since the epoch */
} entry;

static int longest_unused_first(const void *a, const void *b)
{
    int64_t x = ((const entry *)a)->used, y = ((const entry *)b)->used;
    return (x > y) - (x < y);
}

bool fb_cache_is_entry(const char *name)
{
    enum { HASH_DIGITS = 32 };
    return strspn(name, "0123456789abcdef") >= HASH_DIGITS;
}

/* What a process was killed over while it wrote it (base/file.h's names). By age, for the process may be another
 * machine's. */
static bool is_left_over(const char *name, int64_t age)
{
    enum { OLD_SECONDS = 24 * 3600 };
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".tmp") == 0 && age > OLD_SECONDS;
}

void fb_cache_trim(const char *dir, int64_t bytes)
{
    enum { YOUNG_SECONDS = 60 };
    FB_VEC(entry) files = {0};
    int64_t total = 0, now = time(NULL);
    DIR *folder = opendir(dir);
    if (!folder) return;
    for (struct dirent *d; (d = readdir(folder));) {
        struct stat st;
        if (!fb_cache_is_entry(d->d_name)) continue;
        if (fstatat(dirfd(folder), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) continue;
        /* Dated by a clock that was set back since: nobody knows when, and it would outlive all others. */
        int64_t used = st.st_mtime > now + YOUNG_SECONDS ? 0 : st.st_mtime;
        if (is_left_over(d->d_name, now - used) && unlinkat(dirfd(folder), d->d_name, 0) == 0) continue;
        entry e = {.bytes = (int64_t)st.st_blocks * 512, .used = used};
        snprintf(e.name, sizeof e.name, "%s", d->d_name);
        total += e.bytes;
        FB_VEC_PUSH(&files, e);
    }
    if (total > bytes) qsort(files.at, (size_t)files.n, sizeof *files.at, longest_unused_first);
    for (int i = 0; i < files.n && total > bytes && now - files.at[i].used > YOUNG_SECONDS; i++) {
        if (unlinkat(dirfd(folder), files.at[i].name, 0) == 0) total -= files.at[i].bytes;
    }
    closedir(folder);
    FB_VEC_FREE(&files);
}

void fb_cache_empty(const char *dir)
{
    DIR *folder = opendir(dir);
    if (!folder) return;
    for (struct dirent *d; (d = readdir(folder));)
        if (fb_cache_is_entry(d->d_name)) unlinkat(dirfd(folder), d->d_name, 0);
    closedir(folder);
}
