#include "device/host_cc.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/polite.h"
#include "base/str.h"
#include "base/vec.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    COMPILE_LIMIT_S = 30, /* a unit, of the compiler's own time … */
    PATIENCE = 4,         /* … for which a busy machine gets as many times as long */
    UNITS_A_PROCESS = 6,  /* at most: a link costs as much as a small unit, but progress should show */
    MAX_PROCESSES = 64,
    MAX_WORDS = 32, /* of $CC */
    LOG_MAX = 1 << 16,
    CACHE_BYTES = 256 << 20,
};

/* No -ffast-math: NaN and infinity mean what they mean in the reference. Contraction and relaxed errno and traps are
 * what the propagated bound allows for. */
static const char *const flags[] = {"-O3",
                                    "-march=native",
                                    "-ffp-contract=fast",
                                    "-fno-math-errno",
                                    "-shared",
                                    "-fno-trapping-math",
                                    "-fPIC",
                                    "-std=gnu17",
                                    "-pipe",
                                    "-fvisibility=default",
                                    "-w"};
enum { FLAGS = sizeof flags / sizeof *flags };

/* No jump threading: it puts an exponential's tests for NaN around the sum that follows, and gcc 13 then vectorises
 * such a sum of `omp simd` wrongly for AVX-512: both halves of 16 lanes read the first one's sums. */
static const char gcc_flag[] = "-fno-thread-jumps";

struct fb_cc {
    char *text;                   /* backs words */
    const char *words[MAX_WORDS]; /* the command and what $CC gives after it */
    int n_words;
    char *command, *version;
    char cpu[33]; /* hash of what -march=native looks at */
    bool openmp;
    int cores;
    bool trimmed; /* the cache is trimmed once a process */
};

/* ---- running a compiler ---- */

typedef struct {
    pid_t pid;
    int log; /* memfd: what it says */
} process;

/* The limit is of each of its passes. */
static _Noreturn void exec_compiler(char *const *argv, int log, const char *work, int seconds)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rlimit cpu = {.rlim_cur = (rlim_t)seconds, .rlim_max = (rlim_t)seconds + 1};
    setrlimit(RLIMIT_CPU, &cpu);
    fb_give_way();
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, 0);
    dup2(log, 1);
    dup2(log, 2);
    setenv("LC_ALL", "C", 1);
    if (work) setenv("TMPDIR", work, 1);
    execvp(argv[0], argv);
    dprintf(2, "%s\n", strerror(errno));
    _exit(127);
}

static bool process_start(process *p, char *const *argv, const char *work, int seconds, fb_error *err)
{
    p->log = memfd_create("compiler", MFD_CLOEXEC);
    if (p->log < 0) return fb_fail(err, FB_ERR_SYSTEM, "the compiler cannot be started: %s", strerror(errno));
    p->pid = fork();
    if (p->pid == 0) exec_compiler(argv, p->log, work, seconds);
    if (p->pid > 0) return true;
    close(p->log);
    return fb_fail(err, FB_ERR_SYSTEM, "the compiler cannot be started: %s", strerror(errno));
}

/* A compiler driver leaves its passes running when it is killed: they go first. They stay in our process group, so that
 * whoever kills that reaches them too. */
static void kill_tree(pid_t pid)
{
    char path[64], list[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    kill(pid, SIGSTOP);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(list, 1, sizeof list - 1, f) : 0;
    if (f) fclose(f);
    list[n] = '\0';
    char *at = list;
    for (long child; (child = strtol(at, &at, 10)) > 0;) kill_tree((pid_t)child);
    kill(pid, SIGKILL);
}

static void process_stop(process *p)
{
    if (p->pid <= 0) return;
    kill_tree(p->pid);
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) continue;
    p->pid = 0;
    close(p->log);
}

/* What it said, terminated; the caller frees. Closes the log. */
static char *process_log(process *p)
{
    char *text = fb_alloc(LOG_MAX + 1);
    ssize_t n = pread(p->log, text, LOG_MAX, 0);
    text[n > 0 ? n : 0] = '\0';
    close(p->log);
    return text;
}

static void short_sleep(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

/* ---- finding a compiler ---- */

/* The first line of `--version`, or NULL when the command cannot be run. */
static char *version_of(fb_cc *cc)
{
    enum { VERSION_LIMIT_S = 5 };
    char *argv[MAX_WORDS + 2];
    int status = -1;
    process p;
    memcpy(argv, cc->words, (size_t)cc->n_words * sizeof *argv);
    argv[cc->n_words] = "--version";
    argv[cc->n_words + 1] = NULL;
    if (!process_start(&p, argv, NULL, VERSION_LIMIT_S, NULL)) return NULL;
    int64_t deadline = fb_now_ns() + VERSION_LIMIT_S * 1000000000ll;
    while (waitpid(p.pid, &status, WNOHANG) == 0) {
        if (fb_now_ns() > deadline) {
            process_stop(&p);
            return NULL;
        }
        short_sleep();
    }
    char *log = process_log(&p);
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
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f) && line[0] != '\n') {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            if (strncmp(line, keys[i], strlen(keys[i])) == 0) fb_hasher_add_text(h, line);
        }
    }
    if (f) fclose(f);
    fb_hash_hex(fb_hasher_end(h), to);
}

static bool try_command(fb_cc *cc, const char *command)
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
    cc->version = cc->n_words ? version_of(cc) : NULL;
    return cc->version != NULL;
}

fb_cc *fb_cc_find(fb_error *err)
{
    static const char *const candidates[] = {"cc", "gcc", "clang"};
    fb_cc *cc = fb_calloc(1, sizeof *cc);
    const char *asked = getenv("CC");
    bool found = false;
    if (asked && *asked)
        found = try_command(cc, asked);
    else
        for (size_t i = 0; i < sizeof candidates / sizeof *candidates && !found; i++)
            found = try_command(cc, candidates[i]);
    if (!found) {
        fb_cc_free(cc);
        if (asked && *asked)
            fb_fail(err, FB_ERR_UNAVAILABLE, "the C compiler that CC names cannot be run: %s", asked);
        else
            fb_fail(err, FB_ERR_UNAVAILABLE, "no C compiler was found (tried cc, gcc, clang): install one, or set CC");
        return NULL;
    }
    cpu_set_t set;
    cc->cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    cc->openmp = true;
    name_cpu(cc->cpu);
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
} load;

static void hash_units(load *l)
{
    for (int i = 0; i < l->n; i++) {
        fb_hasher *h = fb_hasher_new();
        for (int f = 0; f < FLAGS; f++) fb_hasher_add_text(h, flags[f]);
        if (is_gcc(l->cc)) fb_hasher_add_text(h, gcc_flag);
        fb_hasher_add_i64(h, l->cc->openmp);
        fb_hasher_add_text(h, l->cc->command);
        fb_hasher_add_text(h, l->cc->version);
        fb_hasher_add_text(h, l->cc->cpu);
        fb_hasher_add_text(h, l->prelude);
        fb_hasher_add_text(h, l->units[i].source);
        fb_hash_hex(fb_hasher_end(h), l->hash[i]);
    }
}

static void cache_path(const load *l, int unit, char to[2200])
{
    snprintf(to, 2200, "%s/%s.so", l->cache, l->hash[unit]);
}

/* An entry that does not load (cut short by a full disk) is removed and compiled again. */
static void load_cached(load *l)
{
    char path[2200];
    for (int i = 0; i < l->n; i++) {
        if (l->cache[0]) {
            cache_path(l, i, path);
            l->handles[i] = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
            if (l->handles[i])
                fb_cache_touch(path);
            else
                unlink(path);
        }
        if (!l->handles[i]) FB_VEC_PUSH(&l->missing, i);
    }
}

static bool make_work(load *l, const char *parent, fb_error *err)
{
    snprintf(l->work, sizeof l->work, "%s/work-XXXXXX", parent);
    if (mkdtemp(l->work)) return true;
    l->work[0] = '\0';
    return fb_fail(err, FB_ERR_SYSTEM, "there is no place to compile in: %s: %s", parent, strerror(errno));
}

static void remove_work(load *l)
{
    if (!l->work[0]) return;
    fb_cache_empty(l->work);
    rmdir(l->work);
    l->work[0] = '\0';
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

/* Units missing.at[first] … [last - 1] go through one compiler process into one object. */
typedef struct {
    int first, last;
    process process;
    int64_t deadline;
    char object[2200];
} batch;

static void batch_argv(const load *l, const batch *b, fb_arena *arena, char ***out)
{
    const fb_cc *cc = l->cc;
    char **argv = FB_NEW_ARRAY(arena, char *, cc->n_words + FLAGS + (b->last - b->first) + 7);
    int n = 0;
    for (int i = 0; i < cc->n_words; i++) argv[n++] = (char *)cc->words[i];
    for (int i = 0; i < FLAGS; i++) argv[n++] = (char *)flags[i];
    if (is_gcc(cc)) argv[n++] = (char *)gcc_flag;
    argv[n++] = cc->openmp ? "-fopenmp" : "-fopenmp-simd";
    for (int i = b->first; i < b->last; i++) argv[n++] = fb_arena_printf(arena, "%s/%d.c", l->work, l->missing.at[i]);
    argv[n++] = "-o";
    argv[n++] = (char *)b->object;
    argv[n++] = "-lm";
    *out = argv;
}

static bool batch_start(load *l, batch *b, int number, fb_error *err)
{
    fb_arena *arena = fb_arena_new();
    char **argv;
    snprintf(b->object, sizeof b->object, "%s/batch%d.so", l->work, number);
    batch_argv(l, b, arena, &argv);
    int seconds = COMPILE_LIMIT_S * (b->last - b->first);
    bool ok = process_start(&b->process, argv, l->work, seconds, err);
    b->deadline = fb_now_ns() + PATIENCE * seconds * 1000000000ll;
    fb_arena_free(arena);
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

static bool speaks_of_a_full_disk(const char *log)
{
    static const char *const signs[] = {"No space left", "Disk quota exceeded", "File too large", "File size limit"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (strstr(log, signs[i])) return true;
    }
    return false;
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
    bool spent = WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL);
    if (spent || strstr(log, "CPU time limit exceeded")) /* as a driver says of a pass of its own */
        return fb_fail(err, FB_ERR_LIMIT, "compiling kernel %s took more than %d s", name,
                       COMPILE_LIMIT_S * (b->last - b->first));
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

/* The object gets a name in the cache for each of its units, and is loaded once for each. */
static bool batch_keep(load *l, batch *b, fb_error *err)
{
    char path[2200];
    for (int i = b->first; i < b->last; i++) {
        int unit = l->missing.at[i];
        l->handles[unit] = dlopen(b->object, RTLD_NOW | RTLD_LOCAL);
        if (!l->handles[unit]) return cannot_load(&l->units[unit], dlerror(), err);
        if (!l->cache[0]) continue;
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
    pid_t got = waitpid(b->process.pid, &status, WNOHANG);
    if (got == 0 && fb_now_ns() <= b->deadline) return 0;
    if (got == 0) {
        process_stop(&b->process);
        fb_fail(err, FB_ERR_LIMIT, "compiling kernel %s took more than %d s", l->units[l->missing.at[b->first]].name,
                PATIENCE * COMPILE_LIMIT_S * (b->last - b->first));
        return -1;
    }
    b->process.pid = 0;
    char *log = process_log(&b->process);
    bool ok = got > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ok = ok ? batch_keep(l, b, err) : batch_failed(l, b, status, log, err);
    fb_free(log);
    return ok ? 1 : -1;
}

/* Runs all batches, as many at once as there are cores. */
static bool run_batches(load *l, batch *batches, int n, fb_error *err)
{
    int next = 0, running = 0, done_units = 0;
    bool ok = true;
    while (ok && (next < n || running)) {
        bool news = false;
        while (ok && next < n && running < l->cc->cores && running < MAX_PROCESSES) {
            ok = batch_start(l, &batches[next], next, err);
            running += ok;
            next += ok;
        }
        for (int i = 0; ok && i < next; i++) {
            batch *b = &batches[i];
            if (!b->process.pid) continue;
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
    for (int i = 0; i < next; i++) process_stop(&batches[i].process);
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
    char path[2200];
    if (!make_work(l, parent, err)) return false;
    snprintf(path, sizeof path, "%s/prelude.h", l->work);
    bool ok = fb_write_file(path, l->prelude, strlen(l->prelude), err);
    for (int i = 0; ok && i < l->missing.n; i++) ok = write_unit(l, l->missing.at[i], err);
    int generated = generated_first(l), n = (generated + UNITS_A_PROCESS - 1) / UNITS_A_PROCESS;
    if (n < l->cc->cores) n = generated < l->cc->cores ? generated : l->cc->cores;
    batch *batches = fb_calloc((size_t)l->missing.n, sizeof *batches);
    for (int i = 0; i < n; i++) {
        batches[i].first = (int)((int64_t)generated * i / n);
        batches[i].last = (int)((int64_t)generated * (i + 1) / n);
    }
    for (int i = generated; i < l->missing.n; i++) batches[n++] = (batch){.first = i, .last = i + 1};
    ok = ok && run_batches(l, batches, n, err);
    fb_free(batches);
    remove_work(l);
    return ok;
}

/* In the cache's folder, so that an entry is a link away; where there is none, or no room, in the folder for temporary
 * files. */
static bool compile_missing(load *l, fb_error *err)
{
    const char *temporary = getenv("TMPDIR");
    fb_error first = {0};
    if (l->cache[0]) {
        if (compile_in(l, l->cache, &first)) return true;
        if (first.kind != FB_ERR_SYSTEM) {
            if (err) *err = first;
            return false;
        }
        l->cache[0] = '\0';
    }
    return compile_in(l, temporary && temporary[0] == '/' ? temporary : "/tmp", err);
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
    if (ms) *ms = 0;
    for (int i = 0; i < n; i++) handles[i] = NULL;
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
