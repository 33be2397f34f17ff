/* The host's compiler (cc.h).
 *
 * An entry of the cache is a shared object with its checksum behind it (base/checked.h); it is read before it is
 * opened, and while it is being opened a marker says so: an entry that kills the process that opens it is compiled
 * again. */
#include "device/host/cc.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "base/vec.h"
#include "code/consent.h"
#include "device/guarded.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    COMPILE_LIMIT_S = 30, /* a unit, of the compiler's own time … */
    PATIENCE = 4,         /* … for which a busy machine gets as many times as long */
    UNITS_A_PROCESS = 6,  /* at most: a link costs as much as a small unit, but progress should show */
    MAX_PROCESSES = 64,
    MAX_WORDS = 32, /* of $CC */
    LOG_MAX = 1 << 16,
    CACHE_BYTES = 256 << 20,
    ASSEMBLY_MAX = 256 << 20,
};

/* What a pass of a compiler may take: half of the memory there is, at most and at least this. */
static const int64_t most_memory = (int64_t)4 << 30, least_memory = (int64_t)1 << 30;

/* No -ffast-math: NaN and infinity mean what they mean in the reference. Contraction and relaxed errno and traps are
 * what the propagated bound allows for. */
static const char *const flags[] = {"-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared",
                                    "-fno-trapping-math", "-fPIC", "-std=gnu17", "-pipe", "-fvisibility=default",
                                    /* A function of what is known beforehand, as at the padding of a border that has
                                     * a loop of its own, would be worked out by the compiler, more accurately than the
                                     * library does it: equal elements would be unequal. */
                                    "-fno-builtin-lgamma_r", "-fno-builtin-lgammaf_r", "-fno-builtin-erf",
                                    "-fno-builtin-erfc", "-fno-builtin-log1p", "-fno-builtin-expm1",
                                    "-fno-builtin-tanh", "-fno-builtin-tan", "-fno-builtin-tanf", "-fno-builtin-sin",
                                    "-fno-builtin-sinf", "-fno-builtin-cos", "-fno-builtin-cosf", "-w"};
static const char lightly[] = "-O1";
enum { FLAGS = sizeof flags / sizeof *flags };

/* No jump threading: it puts an exponential's tests for NaN around the sum that follows, and gcc 13 then vectorises
 * such a sum of `omp simd` wrongly for AVX-512: both halves of 16 lanes read the first one's sums. */
static const char *const gcc_flags[] = {"-fno-thread-jumps",
                                        /* Kernels that are alike stay apart: none is a call of another. */
                                        "-fno-ipa-icf"};
enum { GCC_FLAGS = sizeof gcc_flags / sizeof *gcc_flags };

struct fb_cc {
    char *text;                   /* backs words */
    const char *words[MAX_WORDS]; /* the command and what $CC gives after it */
    int n_words;
    char *command, *version;
    char cpu[33]; /* hash of what -march=native looks at */
    bool openmp;
    int cores;
    int64_t memory; /* bytes, a pass */
    bool trimmed;   /* the cache is trimmed once a process */
};

/* ---- folders to compile in ---- */

static const char work_name[] = "fusebox-work-";

/* A process that may write where it was told alone has one of these among the temporary files, in which it makes
 * others; the process apart that starts its compilers holds its lock and removes it. */
static char own_place[2048];
static int own_lock = -1;

static bool is_work_name(const char *name)
{
    return strncmp(name, work_name, sizeof work_name - 1) == 0;
}

/* Made by mkdtemp and no link: all in it is ours. */
static void empty_folder(int fd)
{
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0) close(fd);
        return;
    }
    for (struct dirent *d; (d = readdir(folder));) {
        if (is_work_name(d->d_name)) {
            empty_folder(openat(fd, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            unlinkat(fd, d->d_name, AT_REMOVEDIR);
        } else {
            unlinkat(fd, d->d_name, 0);
        }
    }
    closedir(folder);
}

static void empty_work(const char *path)
{
    empty_folder(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    rmdir(path);
}

/* Nobody holds its lock, or it has none and is not being made just now. */
static bool is_abandoned(const char *path)
{
    enum { YOUNG_SECONDS = 60 };
    char lock[2400];
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()) return false;
    snprintf(lock, sizeof lock, "%s/lock", path);
    if (access(lock, F_OK) != 0) return llabs((long long)time(NULL) - st.st_mtime) > YOUNG_SECONDS; /* clocks are set */
    int fd = fb_file_open(lock, FB_FILE_UPDATE | FB_FILE_PRIVATE, NULL);
    bool free = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) close(fd);
    return free;
}

/* What processes that were killed have left. */
static void sweep(const char *parent)
{
    char path[2300];
    DIR *folder = opendir(parent);
    for (struct dirent *d; folder && (d = readdir(folder));) {
        if (!is_work_name(d->d_name)) continue;
        snprintf(path, sizeof path, "%s/%.200s", parent, d->d_name);
        if (is_abandoned(path)) empty_work(path);
    }
    if (folder) closedir(folder);
}

static const char *temporary_folder(void)
{
    const char *named = own_place[0] ? own_place : getenv("TMPDIR");
    return named && named[0] == '/' && strlen(named) < 1900 ? named : "/tmp";
}

/* Often after the command has ended: a cache that its user has removed by then is not made again. */
void fb_cc_sweep(void)
{
    char cache[2048];
    if (fb_cache_path("host", cache, sizeof cache, NULL)) sweep(cache);
    sweep(temporary_folder());
}

/* Makes one; `to` is "" with errno where that cannot be. Its lock is a file in it, held as long as it is used. */
static int make_locked(const char *parent, char *to, size_t room)
{
    char path[2400];
    if (snprintf(to, room, "%s/%sXXXXXX", parent, work_name) >= (int)room || !mkdtemp(to)) {
        to[0] = '\0';
        return -1;
    }
    snprintf(path, sizeof path, "%s/lock", to);
    int lock = fb_file_open(path, FB_FILE_UPDATE | FB_FILE_PRIVATE, NULL);
    if (lock >= 0) flock(lock, LOCK_EX | LOCK_NB);
    return lock;
}

static void short_sleep(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

/* ---- finding a compiler ---- */

static const char *const candidates[] = {"cc", "gcc", "clang"};

/* The first line of `--version`, or NULL when the command cannot be run; *err only where nothing can be, any more. */
static char *version_of(fb_cc *cc, fb_error *err)
{
    enum { VERSION_LIMIT_S = 5 };
    char *argv[MAX_WORDS + 2];
    int status = -1;
    fb_guarded p;
    memcpy(argv, cc->words, (size_t)cc->n_words * sizeof *argv);
    argv[cc->n_words] = "--version";
    argv[cc->n_words + 1] = NULL;
    if (!fb_guarded_start(&p, argv, &(fb_guarded_limits){.seconds = VERSION_LIMIT_S}, err)) return NULL;
    while (!fb_guarded_ended(&p, &status)) {
        if (fb_now_ns() - p.started_ns > PATIENCE * VERSION_LIMIT_S * 1000000000ll) {
            fb_guarded_stop(&p);
            return NULL;
        }
        short_sleep();
    }
    char *log = fb_guarded_log(&p);
    log[strcspn(log, "\n")] = '\0';
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && log[0]) return log;
    fb_free(log);
    return NULL;
}

/* -march=native depends on the processor: the lines of /proc/cpuinfo that name it, once. */
static void name_cpu(char to[33])
{
    static const char *const keys[] = {"vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU part"};
    char line[8192];
    fb_hasher *h = fb_hasher_new();
    FILE *f = fb_file_stream("/proc/cpuinfo", FB_FILE_READ, NULL);
    while (f && fgets(line, sizeof line, f) && line[0] != '\n') {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            if (strncmp(line, keys[i], strlen(keys[i])) == 0) fb_hasher_add_text(h, line);
        }
    }
    if (f) fclose(f);
    fb_hash_hex(fb_hasher_end(h), to);
}

static bool try_command(fb_cc *cc, const char *command, fb_error *err)
{
    fb_free(cc->text);
    fb_free(cc->command);
    cc->text = fb_strdup(command);
    cc->command = fb_strdup(command);
    cc->n_words = 0;
    char *rest = cc->text;
    for (char *word; (word = strsep(&rest, " \t")) && cc->n_words < MAX_WORDS;) {
        if (*word) cc->words[cc->n_words++] = word;
    }
    fb_free(cc->version);
    cc->version = cc->n_words ? version_of(cc, err) : NULL;
    return cc->version != NULL;
}

static fb_cc *found_before; /* by fb_cc_apart, for who asks next */

fb_cc *fb_cc_find(fb_error *err)
{
    fb_cc *cc = found_before;
    found_before = NULL;
    if (cc) return cc;
    cc = fb_calloc(1, sizeof *cc);
    const char *asked = getenv("CC");
    bool found = false;
    fb_error lost = {0};
    if (asked && *asked)
        found = try_command(cc, asked, &lost);
    else
        for (size_t i = 0; i < sizeof candidates / sizeof *candidates && !found; i++)
            found = try_command(cc, candidates[i], &lost);
    if (!found) {
        fb_cc_free(cc);
        if (lost.kind == FB_ERR_CRASH)
            fb_fail(err, lost.kind, "%s", lost.text);
        else if (asked && *asked)
            fb_fail(err, FB_ERR_UNAVAILABLE, "the C compiler that CC names cannot be run: %s", asked);
        else
            fb_fail(err, FB_ERR_UNAVAILABLE, "no C compiler was found (tried cc, gcc, clang): install one, or set CC");
        return NULL;
    }
    cc->cores = fb_cores();
    cc->openmp = true;
    cc->memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
    if (cc->memory > most_memory) cc->memory = most_memory;
    if (cc->memory < least_memory) cc->memory = least_memory;
    name_cpu(cc->cpu);
    fb_cc_sweep();
    return cc;
}

void fb_cc_free(fb_cc *cc)
{
    if (!cc) return;
    fb_free(cc->text);
    fb_free(cc->command);
    fb_free(cc->version);
    fb_free(cc);
}

/* clang does not know all of gcc's flags. */
static bool is_gcc(const fb_cc *cc)
{
    return !strstr(cc->version, "clang");
}

const char *fb_cc_command(const fb_cc *cc)
{
    return cc->command;
}

const char *fb_cc_version(const fb_cc *cc)
{
    return cc->version;
}

void fb_cc_without_openmp(fb_cc *cc)
{
    cc->openmp = false;
}

/* ---- compilers apart ---- */

/* Whether argv begins with what CC says, or one of the usual compilers; *n: with how many words. */
static bool begins_with_compiler(char *const *argv, const char *command, int *n)
{
    char *text = fb_strdup(command), *rest = text;
    bool same = true;
    *n = 0;
    for (char *word; same && (word = strsep(&rest, " \t"));)
        if (*word) same = argv[*n] && strcmp(argv[(*n)++], word) == 0;
    fb_free(text);
    return same && *n;
}

static bool is_our_flag(const char *word)
{
    static const char *const others[] = {lightly, "-fopenmp", "-fopenmp-simd", "-S", "-o", "-lm"};
    for (int i = 0; i < FLAGS; i++)
        if (strcmp(word, flags[i]) == 0) return true;
    for (int i = 0; i < GCC_FLAGS; i++)
        if (strcmp(word, gcc_flags[i]) == 0) return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(word, others[i]) == 0) return true;
    return false;
}

/* A folder of this user's that was made to work in. */
static bool is_work(const char *path)
{
    struct stat st;
    const char *name = path ? strrchr(path, '/') : NULL;
    return name && path[0] == '/' && !strstr(path, "/../") && is_work_name(name + 1) && lstat(path, &st) == 0 &&
           S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* What the process apart starts, whoever asks: the compiler for its version, or with our flags on files of its work. */
static bool may_start(char *const *argv, const fb_guarded_limits *limits)
{
    const char *asked = getenv("CC");
    bool is = false;
    int n = 0;
    if (asked && *asked)
        is = begins_with_compiler(argv, asked, &n);
    else
        for (size_t i = 0; i < sizeof candidates / sizeof *candidates && !is; i++)
            is = begins_with_compiler(argv, candidates[i], &n);
    if (is && argv[n] && strcmp(argv[n], "--version") == 0) return !argv[n + 1] && !limits->work;
    if (!is || !is_work(limits->work)) return false;
    size_t in = strlen(limits->work);
    for (; argv[n]; n++) {
        bool file = strncmp(argv[n], limits->work, in) == 0 && argv[n][in] == '/' && !strchr(argv[n] + in + 1, '/');
        if (!file && !is_our_flag(argv[n])) return false;
    }
    return true;
}

/* LLVM's OpenMP library keeps a mark of each process in shared memory, and ends one that may make none. */
static pid_t asker;

static void leave_place(void)
{
    char mark[64];
    snprintf(mark, sizeof mark, "/dev/shm/__KMP_REGISTERED_LIB_%d_%u", (int)asker, (unsigned)getuid());
    unlink(mark);
    if (own_place[0]) empty_work(own_place);
    fb_cc_sweep(); /* what its compilers had in the cache */
}

bool fb_cc_apart(fb_cc_place *to, fb_error *err)
{
    asker = getpid();
    fb_cc_sweep();
    if (!own_place[0]) own_lock = make_locked(temporary_folder(), own_place, sizeof own_place);
    if (!fb_guarded_apart(may_start, leave_place, err)) return false;
    if (!found_before) found_before = fb_cc_find(NULL);
    snprintf(to->path, sizeof to->path, "%s", own_place);
    to->shared_memory = found_before && !is_gcc(found_before);
    return true;
}

/* ---- one load: what is missing, and where it is compiled ---- */

typedef struct {
    fb_cc *cc;
    const char *prelude;
    const fb_cc_unit *units;
    int n;
    char (*hash)[33]; /* of each unit */
    void **handles;
    FB_VEC(int) missing; /* units to compile */
    const fb_progress *progress;
    char cache[2048]; /* "": there is none */
    char work[2048];  /* folder of this compilation */
    int work_lock;    /* held while that folder is used */
} load;

static void hash_units(load *l)
{
    for (int i = 0; i < l->n; i++) {
        fb_hasher *h = fb_hasher_new();
        for (int f = 0; f < FLAGS; f++) fb_hasher_add_text(h, flags[f]);
        for (int f = 0; f < GCC_FLAGS && is_gcc(l->cc); f++) fb_hasher_add_text(h, gcc_flags[f]);
        fb_hasher_add_i64(h, l->cc->openmp);
        fb_hasher_add_text(h, l->cc->command);
        fb_hasher_add_text(h, l->cc->version);
        fb_hasher_add_text(h, l->cc->cpu);
        if (l->units[i].lightly) fb_hasher_add_text(h, lightly);
        fb_hasher_add_text(h, l->prelude);
        fb_hasher_add_text(h, l->units[i].source);
        fb_hasher_add_i64(h, l->units[i].file != NULL); /* what it read was looked at */
        fb_hash_hex(fb_hasher_end(h), l->hash[i]);
    }
}

static void cache_path(const load *l, int unit, char to[2200])
{
    snprintf(to, 2200, "%s/%s.so", l->cache, l->hash[unit]);
}

/* ---- entries of the cache ---- */

/* Key of an entry: its file's name, as everywhere in the cache. */
static const char *key_of(const load *l, int unit, char to[64])
{
    snprintf(to, 64, "%s.so", l->hash[unit]);
    return to;
}

/* A marker is a file beside the cache, named by its process, that lists the entries being opened and is locked
 * meanwhile. One without a lock was left by a process that died of it, or was killed just then: its entries are
 * compiled once more. A file with anything else in it is no marker, and stays. */
static void drop_marked(const load *l, const char *marker)
{
    enum { MOST = 1 << 16 }; /* entries that one names; more is none of ours */
    char path[2200], name[64];
    bool ours = true;
    int fd = fb_file_open(marker, FB_FILE_UPDATE | FB_FILE_PRIVATE, NULL);
    FILE *f = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? fdopen(fd, "r") : NULL;
    for (int i = 0; f && ours && i < MOST && fgets(name, sizeof name, f); i++) {
        name[strcspn(name, "\n")] = '\0';
        snprintf(path, sizeof path, "%s/%s", l->cache, name);
        ours = fb_cache_is_entry(name) && !strchr(name, '/');
        if (ours) unlink(path);
    }
    if (f && ours) unlink(marker);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
}

static void drop_deadly_entries(const load *l)
{
    char folder[2048], path[2400];
    DIR *markers = fb_cache_dir("opening", folder, sizeof folder, NULL) ? opendir(folder) : NULL;
    for (struct dirent *d; markers && (d = readdir(markers));) {
        snprintf(path, sizeof path, "%s/%.255s", folder, d->d_name);
        if (!d->d_name[strspn(d->d_name, "0123456789")]) drop_marked(l, path);
    }
    if (markers) closedir(markers);
}

/* -1: there is none, and entries are opened without. */
static int mark_opening(const load *l, const int *units, int n, char path[2400])
{
    char folder[2048], name[64];
    if (!fb_cache_dir("opening", folder, sizeof folder, NULL)) return -1;
    snprintf(path, 2400, "%s/%d", folder, (int)getpid());
    int fd = fb_file_open(path, FB_FILE_WRITE | FB_FILE_PRIVATE, NULL);
    if (fd < 0) return -1;
    flock(fd, LOCK_EX | LOCK_NB);
    fb_str list = {0};
    for (int i = 0; i < n; i++) fb_str_addf(&list, "%s\n", key_of(l, units[i], name));
    fb_write_all(fd, fb_str_get(&list), list.n);
    fb_str_free(&list);
    return fd;
}

/* What is whole is opened; what is damaged, foreign or deadly is removed and compiled again. */
static void load_cached(load *l)
{
    char path[2200], marker[2400], key[64];
    FB_VEC(int) whole = {0};
    if (l->cache[0]) drop_deadly_entries(l);
    for (int i = 0; l->cache[0] && i < l->n; i++) {
        cache_path(l, i, path);
        if (fb_checked_verify(path, key_of(l, i, key)) == FB_CHECKED_WHOLE) FB_VEC_PUSH(&whole, i);
    }
    int fd = whole.n ? mark_opening(l, whole.at, whole.n, marker) : -1;
    if (whole.n && l->progress && l->progress->step) l->progress->step(l->progress->ctx, FB_OPENING, 0);
    for (int i = 0; i < whole.n; i++) {
        cache_path(l, whole.at[i], path);
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        l->handles[whole.at[i]] = handle;
        if (handle)
            fb_cache_touch(path);
        else
            unlink(path);
    }
    if (fd >= 0) {
        unlink(marker);
        close(fd);
    }
    for (int i = 0; i < l->n; i++)
        if (!l->handles[i]) FB_VEC_PUSH(&l->missing, i);
    FB_VEC_FREE(&whole);
}

/* ---- the folder of a compilation ---- */

static bool make_work(load *l, const char *parent, fb_error *err)
{
    l->work_lock = make_locked(parent, l->work, sizeof l->work);
    return l->work[0] ||
           fb_fail(err, FB_ERR_SYSTEM, "there is no place to compile in: %s: %s", parent, strerror(errno));
}

static void remove_work(load *l)
{
    if (!l->work[0]) return;
    empty_work(l->work);
    if (l->work_lock >= 0) close(l->work_lock);
    l->work_lock = -1;
    l->work[0] = '\0';
}

/* Once a text, however many units read it. */
static bool write_prelude(const load *l, fb_error *err)
{
    char path[2200];
    fb_str text = {0};
    fb_str_addf(&text, "#ifndef FB_PRELUDE_H\n#define FB_PRELUDE_H\n%s\n#endif\n", l->prelude);
    snprintf(path, sizeof path, "%s/prelude.h", l->work);
    bool ok = fb_write_file(path, text.text, text.n, err);
    fb_str_free(&text);
    return ok;
}

static bool write_unit(const load *l, int unit, fb_error *err)
{
    char path[2200];
    fb_str text = {0};
    fb_str_addf(&text, "#include \"prelude.h\"\n%s\n", l->units[unit].source);
    snprintf(path, sizeof path, "%s/%d.c", l->work, unit);
    bool ok = fb_write_file(path, text.text, text.n, err);
    fb_str_free(&text);
    return ok;
}

/* ---- compiling in batches ---- */

/* Units missing.at[first] … [last - 1] go through one compiler process into one object: as one text, since to start a
 * pass and read the prelude takes longer than most kernels do (28 small ones: 0.6 s of the processor's time instead of
 * 1.3). Where that text does not compile, each unit is one again: stages of merged kernels may be called alike. A unit
 * of the user's own goes alone and through two processes: what is made of its text is looked at before it is
 * assembled. */
typedef struct {
    int first, last, number;
    bool together;       /* as one text, which includes them */
    bool own, assembled; /* assembled: its second process runs */
    fb_guarded process;
    int64_t deadline;
    char object[2200];
} batch;

static bool to_assembly(const batch *b)
{
    return b->own && !b->assembled;
}

static void batch_argv(const load *l, const batch *b, fb_arena *arena, char ***out)
{
    const fb_cc *cc = l->cc;
    char **argv = FB_NEW_ARRAY(arena, char *, cc->n_words + FLAGS + GCC_FLAGS + (b->last - b->first) + 9);
    int n = 0;
    for (int i = 0; i < cc->n_words; i++) argv[n++] = (char *)cc->words[i];
    for (int i = 0; i < FLAGS; i++)
        if (!to_assembly(b) || strcmp(flags[i], "-shared") != 0) argv[n++] = (char *)flags[i];
    if (l->units[l->missing.at[b->first]].lightly) argv[n++] = (char *)lightly; /* the last one counts */
    for (int i = 0; i < GCC_FLAGS && is_gcc(cc); i++) argv[n++] = (char *)gcc_flags[i];
    argv[n++] = cc->openmp ? "-fopenmp" : "-fopenmp-simd";
    if (to_assembly(b)) argv[n++] = "-S";
    if (b->together) argv[n++] = fb_arena_printf(arena, "%s/batch%d.c", l->work, b->number);
    for (int i = b->first; i < b->last && !b->together; i++)
        argv[n++] = fb_arena_printf(arena, "%s/%d.%s", l->work, l->missing.at[i], b->assembled ? "s" : "c");
    argv[n++] = "-o";
    argv[n++] =
        to_assembly(b) ? fb_arena_printf(arena, "%s/%d.s", l->work, l->missing.at[b->first]) : (char *)b->object;
    if (!to_assembly(b)) argv[n++] = "-lm";
    *out = argv;
}

static int seconds_of(const batch *b)
{
    return COMPILE_LIMIT_S * (b->last - b->first);
}

static bool write_batch(const load *l, const batch *b, fb_error *err)
{
    char path[2200];
    fb_str text = {0};
    for (int i = b->first; i < b->last; i++) fb_str_addf(&text, "#include \"%d.c\"\n", l->missing.at[i]);
    snprintf(path, sizeof path, "%s/batch%d.c", l->work, b->number);
    bool ok = fb_write_file(path, fb_str_get(&text), text.n, err);
    fb_str_free(&text);
    return ok;
}

static bool batch_start(load *l, batch *b, fb_error *err)
{
    fb_arena *arena = fb_arena_new();
    char **argv;
    fb_guarded_limits limits = {.work = l->work, .seconds = seconds_of(b), .memory = l->cc->memory};
    if (!b->object[0]) snprintf(b->object, sizeof b->object, "%s/batch%d.so", l->work, b->number);
    batch_argv(l, b, arena, &argv);
    bool ok = (!b->together || write_batch(l, b, err)) && fb_guarded_start(&b->process, argv, &limits, err);
    b->deadline = b->process.started_ns + PATIENCE * limits.seconds * 1000000000ll;
    fb_arena_free(arena);
    return ok;
}

/* Between the two processes of a unit of the user's own. */
static bool look_at_assembly(const load *l, const batch *b, fb_error *err)
{
    char path[2200];
    size_t n;
    snprintf(path, sizeof path, "%s/%d.s", l->work, l->missing.at[b->first]);
    char *text = fb_read_file(path, ASSEMBLY_MAX, &n, err);
    for (size_t i = 0; text && i < n; i++)
        if (!text[i]) text[i] = ' '; /* nothing hides behind a zero */
    bool ok = text && fb_consent_assembly(l->units[l->missing.at[b->first]].file, text, err);
    fb_free(text);
    return ok;
}

/* The first line of a log about the user's own file: "gelu.c:12:5: error: …". */
static bool line_of_file(const char *log, const char *file, char *to, size_t room)
{
    static const char *const marks[] = {"error: ", "undefined reference"};
    size_t n = strlen(file);
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
        for (const char *line = log; *line; line += strcspn(line, "\n"), line += *line == '\n') {
            size_t length = strcspn(line, "\n");
            const char *mark = memmem(line, length, marks[m], strlen(marks[m]));
            const char *start = mark ? memmem(line, (size_t)(mark - line), file, n) : NULL;
            if (!start || start[n] != ':') continue;
            fb_text_clean(to, room, start, (size_t)(line + length - start));
            return true;
        }
    return false;
}

/* What says most in a compiler's log: the first complaint, without the file and line that stand before it. */
static void telling_line(const char *log, char *to, size_t room)
{
    static const struct {
        const char *mark;
        size_t skip;
    } marks[] = {{"internal compiler error", 0}, {"fatal error: ", 13}, {"error: ", 7}, {"Error: ", 7}, {": ", 2}};
    const char *line = log;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = strstr(log, marks[i].mark);
        if (!at) continue;
        line = at + marks[i].skip;
        break;
    }
    fb_text_clean(to, room, line, strcspn(line, "\n"));
}

/* Which unit a log speaks of: "…/3.c:7:2: error". */
static int blamed_unit(const load *l, const batch *b, const char *log)
{
    char mark[64];
    for (int i = b->first; i < b->last; i++) {
        snprintf(mark, sizeof mark, "/%d.c:", l->missing.at[i]);
        if (strstr(log, mark)) return l->missing.at[i];
    }
    return l->missing.at[b->first];
}

static bool speaks_of(const char *log, const char *const *signs)
{
    for (; *signs; signs++)
        if (strcasestr(log, *signs)) return true;
    return false;
}

/* What is wrong with a text, or too much in one. */
static const char *const complaints[] = {"error: ", "out of memory", "memory exhausted", NULL};

static bool speaks_of_a_full_disk(const char *log)
{
    static const char *const signs[] = {"No space left", "Disk quota exceeded", "File too large", "File size limit",
                                        NULL};
    return speaks_of(log, signs);
}

/* gcc's passes, the assembler and linker, clang. */
static bool ran_out_of_memory(const char *log)
{
    static const char *const signs[] = {"out of memory allocating",  "memory exhausted",
                                        "Cannot allocate memory",    "bad_alloc",
                                        "LLVM ERROR: out of memory", NULL};
    return speaks_of(log, signs);
}

/* Says why a compiler process failed. FB_ERR_SYSTEM is kept for a place that has no room, or from which nothing may be
 * loaded: the caller tries another. */
static bool batch_failed(const load *l, const batch *b, int status, const char *log, fb_error *err)
{
    char line[300];
    const fb_cc_unit *unit = &l->units[blamed_unit(l, b, log)];
    const char *name = unit->name;
    telling_line(log, line, sizeof line);
    if (speaks_of_a_full_disk(log))
        return fb_fail(err, FB_ERR_SYSTEM, "the disk is full where kernels are compiled (%s)", l->work);
    if (ran_out_of_memory(log)) {
        char most[32];
        return fb_fail(err, FB_ERR_LIMIT, "compiling kernel %s took more than %s of memory: make it smaller", name,
                       fb_format_bytes(most, (double)l->cc->memory));
    }
    if ((WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) ||
        strstr(log, "CPU time limit exceeded")) /* as a driver says of a pass of its own */
        return fb_fail(err, FB_ERR_LIMIT, "compiling kernel %s took more than %d s", name, seconds_of(b));
    if ((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || strstr(log, "Killed signal terminated"))
        return fb_fail(err, FB_ERR_COMPILE, "%s was killed while it compiled kernel %s: is the machine out of memory?",
                       l->cc->words[0], name);
    if (WIFSIGNALED(status))
        return fb_fail(err, FB_ERR_COMPILE, "%s was killed by signal %d while it compiled kernel %s", l->cc->words[0],
                       WTERMSIG(status), name);
    if (unit->file && line_of_file(log, unit->file, line, sizeof line)) return fb_fail(err, FB_ERR_COMPILE, "%s", line);
    return fb_fail(err, FB_ERR_COMPILE, "%s did not compile kernel %s: %s", l->cc->words[0], name,
                   line[0] ? line : "it gave no reason");
}

/* The user's own kernel may call what is not there; else it is the place that nothing may be loaded from. */
static bool cannot_load(const fb_cc_unit *unit, const char *why, fb_error *err)
{
    const char *missing = why ? strstr(why, "undefined symbol") : NULL;
    if (unit->file && missing) return fb_fail(err, FB_ERR_COMPILE, "%s: %s", unit->file, missing);
    return fb_fail(err, FB_ERR_SYSTEM, "a compiled kernel cannot be loaded: %s", why ? why : "no reason was given");
}

/* The object gets a name in the cache for each of its units, and is loaded once for each. Its checksum stands behind it
 * before it is opened; one that cannot be written costs the cache alone. */
static bool batch_keep(load *l, batch *b, fb_error *err)
{
    char path[2200], key[64];
    fb_str keys = {0};
    for (int i = b->first; i < b->last; i++)
        fb_str_addf(&keys, "%s%s", i > b->first ? "\n" : "", key_of(l, l->missing.at[i], key));
    bool sealed = l->cache[0] && fb_checked_seal(b->object, fb_str_get(&keys), NULL);
    fb_str_free(&keys);
    for (int i = b->first; i < b->last; i++) {
        int unit = l->missing.at[i];
        l->handles[unit] = dlopen(b->object, RTLD_NOW | RTLD_LOCAL);
        if (!l->handles[unit]) return cannot_load(&l->units[unit], dlerror(), err);
        if (!sealed) continue;
        cache_path(l, unit, path);
        int linked = link(b->object, path);
        (void)linked; /* a cache that takes no more entries costs time only */
    }
    return true;
}

static bool report_progress(const load *l, int done)
{
    char what[64];
    if (!l->progress || !l->progress->step) return true;
    snprintf(what, sizeof what, "compiling %d of %d", done < l->missing.n ? done + 1 : done, l->missing.n);
    return l->progress->step(l->progress->ctx, what, (double)done / l->missing.n);
}

/* 1 finished well, 0 still running, -1 failed. */
static int batch_poll(load *l, batch *b, fb_error *err)
{
    int status;
    if (!fb_guarded_ended(&b->process, &status)) {
        if (fb_now_ns() <= b->deadline) return 0;
        fb_guarded_stop(&b->process);
        fb_fail(err, FB_ERR_LIMIT, "compiling kernel %s took more than %d s", l->units[l->missing.at[b->first]].name,
                PATIENCE * seconds_of(b));
        return -1;
    }
    char *log = fb_guarded_log(&b->process);
    bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool apart = !ok && b->together && WIFEXITED(status) && speaks_of(log, complaints);
    if (!ok && !apart) batch_failed(l, b, status, log, err);
    fb_free(log);
    if (apart) b->together = false;
    if (apart) return batch_start(l, b, err) ? 0 : -1;
    if (!ok) return -1;
    if (!to_assembly(b)) return batch_keep(l, b, err) ? 1 : -1;
    ok = look_at_assembly(l, b, err);
    b->assembled = true;
    return ok && batch_start(l, b, err) ? 0 : -1;
}

/* Runs all batches, as many at once as there are cores. */
static bool run_batches(load *l, batch *batches, int n, fb_error *err)
{
    int next = 0, running = 0, done_units = 0;
    bool ok = true;
    while (ok && (next < n || running)) {
        bool news = false;
        while (ok && next < n && running < l->cc->cores && running < MAX_PROCESSES) {
            ok = batch_start(l, &batches[next], err);
            running += ok;
            next += ok;
        }
        for (int i = 0; ok && i < next; i++) {
            batch *b = &batches[i];
            if (b->process.pid <= 0) continue;
            int state = batch_poll(l, b, err);
            ok = state >= 0;
            if (state != 1) continue;
            running--;
            done_units += b->last - b->first;
            news = true;
        }
        if (ok && !report_progress(l, done_units)) ok = fb_fail(err, FB_ERR_CANCELLED, "cancelled while compiling");
        if (ok && !news && running) short_sleep();
    }
    for (int i = 0; i < next; i++) fb_guarded_stop(&batches[i].process);
    return ok;
}

/* The user's own units go behind the others, each into an object of its own: their functions may be called alike. */
static int generated_first(load *l)
{
    int n = 0, own = 0;
    int *kept = fb_alloc((size_t)l->missing.n * sizeof *kept);
    for (int i = 0; i < l->missing.n; i++) {
        int unit = l->missing.at[i];
        if (l->units[unit].file)
            kept[own++] = unit;
        else
            l->missing.at[n++] = unit;
    }
    memcpy(l->missing.at + n, kept, (size_t)own * sizeof *kept);
    fb_free(kept);
    return n;
}

static bool compile_in(load *l, const char *parent, fb_error *err)
{
    if (!make_work(l, parent, err)) return false;
    bool ok = write_prelude(l, err);
    for (int i = 0; ok && i < l->missing.n; i++) ok = write_unit(l, l->missing.at[i], err);
    int generated = generated_first(l), n = (generated + UNITS_A_PROCESS - 1) / UNITS_A_PROCESS;
    if (n < l->cc->cores) n = generated < l->cc->cores ? generated : l->cc->cores;
    batch *batches = fb_calloc((size_t)l->missing.n, sizeof *batches);
    for (int i = 0; i < n; i++) {
        batches[i].first = (int)((int64_t)generated * i / n);
        batches[i].last = (int)((int64_t)generated * (i + 1) / n);
    }
    for (int i = generated; i < l->missing.n; i++) batches[n++] = (batch){.first = i, .last = i + 1, .own = true};
    for (int i = 0; i < n; i++) {
        batches[i].number = i;
        batches[i].together = batches[i].last - batches[i].first > 1;
    }
    ok = ok && run_batches(l, batches, n, err);
    fb_free(batches);
    remove_work(l);
    return ok;
}

/* In the cache's folder, so that an entry is a link away; where there is none, or no room, in the folder for temporary
 * files. */
static bool compile_missing(load *l, fb_error *err)
{
    fb_error first = {0};
    if (l->cache[0]) {
        if (compile_in(l, l->cache, &first)) return true;
        if (first.kind != FB_ERR_SYSTEM) {
            if (err) *err = first;
            return false;
        }
        l->cache[0] = '\0';
    }
    return compile_in(l, temporary_folder(), err);
}

static void close_handles(load *l)
{
    for (int i = 0; i < l->n; i++) {
        if (l->handles[i]) dlclose(l->handles[i]);
        l->handles[i] = NULL;
    }
}

bool fb_cc_load(fb_cc *cc, const char *prelude, const fb_cc_unit *units, int n, const fb_progress *progress,
                void **handles, double *ms, fb_error *err)
{
    load l = {.cc = cc, .prelude = prelude, .units = units, .n = n, .handles = handles, .progress = progress};
    l.work_lock = -1;
    if (ms) *ms = 0;
    for (int i = 0; i < n; i++) handles[i] = NULL;
    for (int i = 0; i < n; i++)
        if (units[i].file && !fb_consent_source(units[i].file, units[i].source, err)) return false;
    l.hash = fb_calloc((size_t)n + 1, sizeof *l.hash);
    if (!fb_cache_dir("host", l.cache, sizeof l.cache, NULL)) l.cache[0] = '\0';
    hash_units(&l);
    load_cached(&l);
    bool ok = true;
    if (l.missing.n) {
        double start = fb_now_us();
        ok = compile_missing(&l, err);
        if (ms) *ms = (fb_now_us() - start) * 1e-3;
        if (l.cache[0] && !cc->trimmed) fb_cache_trim(l.cache, CACHE_BYTES);
        cc->trimmed = true;
    }
    if (!ok) close_handles(&l);
    FB_VEC_FREE(&l.missing);
    fb_free(l.hash);
    return ok;
}
