/* The host device on programs written by hand: compiling, the cache, every way compiling can fail, contractions against
 * plain loops in every arrangement of strides, epilogues, loops and swaps, restored parameters, calibration. */
#include "base/checked.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "device/host/parts.h"
#include "graph/element.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "scratch.h"

/* ---- programs by hand ---- */

enum { MOST = 16 };

typedef struct {
    fb_program p;
    fb_buffer buffers[MOST];
    fb_kernel kernels[MOST];
    fb_gemm_call gemms[MOST];
    fb_launch launches[MOST];
    int args[MOST][MOST];
} sheet;

static void sheet_start(sheet *s)
{
    memset(s, 0, sizeof *s);
    s->p.language = "c";
    s->p.buffers = s->buffers;
    s->p.kernels = s->kernels;
    s->p.gemms = s->gemms;
    s->p.launches = s->launches;
}

static int buffer(sheet *s, fb_buffer_kind kind, fb_dtype dtype, int64_t elements)
{
    fb_buffer *b = &s->buffers[s->p.n_buffers];
    *b = (fb_buffer){
        .kind = kind, .name = "b", .dtype = dtype, .elements = elements, .bytes = elements * fb_dtype_size(dtype)};
    if (kind == FB_BUFFER_TEMP) {
        b->offset = s->p.pool_bytes;
        s->p.pool_bytes += (b->bytes + 255) / 256 * 256;
    }
    return s->p.n_buffers++;
}

static int kernel(sheet *s, const char *name, const char *source)
{
    s->kernels[s->p.n_kernels] = (fb_kernel){.name = name, .entry = name, .source = source};
    return s->p.n_kernels++;
}

static fb_launch *launch(sheet *s, fb_launch_kind kind, int what, int n, const int *args)
{
    fb_launch *l = &s->launches[s->p.n_launches];
    *l = (fb_launch){.kind = kind, .kernel = what, .gemm = what, .n_args = n, .args = s->args[s->p.n_launches]};
    for (int i = 0; i < n; i++) s->args[s->p.n_launches][i] = args[i];
    s->p.n_launches++;
    return l;
}

static const char doubling[] =
    "void twice(const fb_kernel_args *a)\n{\n    const float *x = a->buffers[0];\n    float *y = a->buffers[1];\n"
    "#pragma omp parallel for simd\n    for (int64_t i = 0; i < 1000; i++) y[i] = 2 * x[i];\n}\n";

static void doubling_sheet(sheet *s)
{
    sheet_start(s);
    int x = buffer(s, FB_BUFFER_INPUT, FB_F32, 1000), y = buffer(s, FB_BUFFER_OUTPUT, FB_F32, 1000);
    kernel(s, "twice", doubling);
    launch(s, FB_LAUNCH_KERNEL, 0, 2, (int[]){x, y});
}

static fb_device *device(void)
{
    fb_error err = {0};
    fb_device *d = fb_device_open("host", &err);
    if (!d) fail_msg("%s", err.text);
    return d;
}

static fb_loaded *loaded(fb_device *d, const sheet *s)
{
    fb_error err = {0};
    fb_loaded *l = d->ops->load(d, &s->p, NULL, &err);
    if (!l) fail_msg("%s", err.text);
    return l;
}

static void run_once(fb_device *d, fb_loaded *l)
{
    fb_run_time t;
    assert_true(d->ops->run(l, &(fb_run_how){.cache = FB_CACHE_HOT, .samples = 1}, &t, NULL));
    assert_true(t.wall_us > 0);
}

/* A cache of its own for one test. */
static void fresh_cache(const char *name)
{
    setenv("XDG_CACHE_HOME", in_scratch(name), 1);
}

/* The same, with the host's runtime in it, which takes the compiler as long as ten small kernels: compiled once for all
 * tests that are not about that. */
static void cache_with_runtime(const char *name)
{
    char command[400];
    bool made = access(in_scratch("runtime"), F_OK) == 0;
    fresh_cache("runtime");
    if (!made) {
        sheet none;
        sheet_start(&none);
        fb_device *d = device();
        d->ops->unload(loaded(d, &none));
        d->ops->close(d);
    }
    fresh_cache(name);
    snprintf(command, sizeof command, "cd '%s' && mkdir -p '%s' && cp -rn runtime/fusebox '%s'", scratch, name, name);
    assert_int_equal(system(command), 0);
}

static int files_in_cache(void)
{
    char path[256];
    int n = 0;
    snprintf(path, sizeof path, "%s/fusebox/host", getenv("XDG_CACHE_HOME"));
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) n += e->d_name[0] != '.';
    if (dir) closedir(dir);
    return n;
}

static void check_doubling(fb_device *d, fb_loaded *l)
{
    float x[1000], y[1000];
    for (int i = 0; i < 1000; i++) x[i] = (float)i - 500;
    assert_true(d->ops->write(l, 0, x, NULL));
    run_once(d, l);
    assert_true(d->ops->read(l, 1, y, NULL));
    for (int i = 0; i < 1000; i++) assert_true(y[i] == 2 * x[i]);
}

/* ---- compiling ---- */

static void a_kernel_is_compiled_once(void **state)
{
    (void)state;
    fresh_cache("once");
    sheet s;
    doubling_sheet(&s);
    for (int round = 0; round < 2; round++) {
        fb_device *d = device();
        fb_loaded *l = loaded(d, &s);
        if (round == 0)
            assert_true(d->ops->compile_ms(l) > 0);
        else
            assert_true(d->ops->compile_ms(l) == 0);
        check_doubling(d, l);
        d->ops->unload(l);
        d->ops->close(d);
        assert_int_equal(files_in_cache(), 2); /* the runtime and the kernel, nothing left lying about */
    }
}

/* Each has a name that another has, too: together they are no text, apart they are. */
static void many_kernels_compile_together_and_apart(void **state)
{
    (void)state;
    cache_with_runtime("many");
    static char names[9][16], sources[9][256];
    sheet s;
    sheet_start(&s);
    int y = buffer(&s, FB_BUFFER_OUTPUT, FB_F32, 9);
    for (int k = 0; k < 9; k++) {
        snprintf(names[k], sizeof names[k], "k%d", k);
        snprintf(sources[k], sizeof sources[k],
                 "static const float table[1] = {%d};\nvoid k%d(const fb_kernel_args *a) { ((float "
                 "*)a->buffers[0])[%d] = table[0]; }\n",
                 k * k, k, k);
        kernel(&s, names[k], sources[k]);
        launch(&s, FB_LAUNCH_KERNEL, k, 1, &y);
    }
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    float out[9];
    run_once(d, l);
    d->ops->read(l, 0, out, NULL);
    for (int k = 0; k < 9; k++) assert_true(out[k] == (float)(k * k));
    d->ops->unload(l);
    assert_int_equal(files_in_cache(), 10);
    s.p.n_kernels = s.p.n_launches = 3; /* another program of known kernels */
    l = loaded(d, &s);
    assert_true(d->ops->compile_ms(l) == 0);
    d->ops->unload(l);
    d->ops->close(d);
}

/* How long the code of a function is that the cache holds; 0: it holds none of that name. */
static int bytes_in_cache(const char *function)
{
    char path[512], folder[256];
    int bytes = 0;
    snprintf(folder, sizeof folder, "%s/fusebox/host", getenv("XDG_CACHE_HOME"));
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && !bytes && (e = readdir(dir));) {
        Dl_info info;
        const ElfW(Sym) *symbol = NULL;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        void *object = e->d_name[0] == '.' ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
        void *code = object ? dlsym(object, function) : NULL;
        if (code && dladdr1(code, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol) bytes = (int)symbol->st_size;
        if (object) dlclose(object);
    }
    if (dir) closedir(dir);
    return bytes;
}

/* Alike, and in one text with others: yet each is what it is alone. */
static void company_does_not_change_a_kernel(void **state)
{
    (void)state;
    enum { KERNELS = 6 };
    static char names[KERNELS][16], sources[KERNELS][512];
    sheet s;
    sheet_start(&s);
    const int buffers[] = {buffer(&s, FB_BUFFER_INPUT, FB_F32, 1000), buffer(&s, FB_BUFFER_OUTPUT, FB_F32, 1000)};
    for (int k = 0; k < KERNELS; k++) {
        snprintf(names[k], sizeof names[k], "k%d", k);
        snprintf(sources[k], sizeof sources[k],
                 "void k%d(const fb_kernel_args *a)\n{\n    const float *restrict x = a->buffers[0];\n"
                 "    float *restrict y = a->buffers[1];\n    float sum[12];\n"
                 "    for (int i = 0; i < 12; i++) sum[i] = 0;\n"
                 "    for (int r = 0; r < %d; r++) {\n#pragma omp simd\n"
                 "        for (int i = 0; i < 12; i++) sum[i] += x[12 * r + i];\n    }\n#pragma omp simd\n"
                 "    for (int i = 0; i < 12; i++) y[i] = sum[i];\n    y[999] = __INCLUDE_LEVEL__;\n}\n",
                 k, 10 + k / 2);
        kernel(&s, names[k], sources[k]);
        launch(&s, FB_LAUNCH_KERNEL, k, 2, buffers);
    }
    cpu_set_t all, one; /* for what one core is given at a time */
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    cache_with_runtime("company");
    fb_device *d = device();
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    fb_loaded *l = loaded(d, &s);
    float y[1000];
    run_once(d, l);
    assert_true(d->ops->read(l, buffers[1], y, NULL));
    assert_true(y[999] == 1);
    for (int k = 0; k < KERNELS; k++) {
        sheet by_itself = s;
        by_itself.p.kernels = &s.kernels[k];
        by_itself.p.n_kernels = by_itself.p.n_launches = 1;
        int in_company = bytes_in_cache(names[k]);
        fresh_cache(names[k]);
        d->ops->unload(loaded(d, &by_itself));
        int alone = bytes_in_cache(names[k]);
        if (!alone || in_company != alone) fail_msg("%s: %d bytes, and %d alone", names[k], in_company, alone);
        fresh_cache("company");
    }
    d->ops->unload(l);
    d->ops->close(d);
}

static void a_broken_entry_of_the_cache_is_replaced(void **state)
{
    (void)state;
    cache_with_runtime("broken");
    sheet s;
    doubling_sheet(&s);
    fb_device *d = device();
    d->ops->unload(loaded(d, &s));
    char dir[200], path[512];
    snprintf(dir, sizeof dir, "%s/fusebox/host", getenv("XDG_CACHE_HOME"));
    DIR *folder = opendir(dir);
    for (struct dirent *e; (e = readdir(folder));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
        assert_true(fb_write_file(path, "\177ELF", 4, NULL));
    }
    closedir(folder);
    fb_loaded *l = loaded(d, &s);
    assert_true(d->ops->compile_ms(l) > 0);
    check_doubling(d, l);
    d->ops->unload(l);
    d->ops->close(d);
}

static void what_does_not_compile_names_the_kernel(void **state)
{
    (void)state;
    cache_with_runtime("wrong");
    sheet s;
    doubling_sheet(&s);
    kernel(&s, "broken_one", "void broken_one(const fb_kernel_args *a)\n{\n    return missing_name;\n}\n");
    kernel(&s, "fine", "void fine(const fb_kernel_args *a)\n{\n    (void)a;\n}\n");
    fb_device *d = device();
    fb_error err = {0};
    assert_null(d->ops->load(d, &s.p, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_COMPILE);
    if (!strstr(err.text, "broken_one") || !strstr(err.text, "missing_name")) fail_msg("%s", err.text);
    assert_null(strchr(err.text, '\n'));
    d->ops->close(d);
}

static bool refuse(void *ctx, const char *what, double fraction)
{
    assert_true(strstr(what, "compiling") != NULL && fraction >= 0 && fraction <= 1);
    return ++*(int *)ctx < 3;
}

static void write_script(char *path, size_t room, const char *name, const char *text)
{
    snprintf(path, room, "%s/%s", scratch, name);
    assert_true(fb_write_file(path, text, strlen(text), NULL));
    assert_int_equal(chmod(path, 0755), 0);
}

/* $CC that answers --version as a compiler does and otherwise runs `text`. */
static void set_compiler(const char *name, const char *text)
{
    char path[128];
    fb_str script = {0};
    fb_str_addf(&script, "#!/bin/sh\n[ \"$1\" = --version ] && exec cc --version\n%s\n", text);
    write_script(path, sizeof path, name, script.text);
    fb_str_free(&script);
    setenv("CC", path, 1);
}

static void compiling_can_be_cancelled(void **state)
{
    (void)state;
    fresh_cache("cancel");
    set_compiler("sleeping", "sleep 1000");
    sheet s;
    doubling_sheet(&s);
    fb_device *d = device();
    fb_error err = {0};
    int calls = 0;
    int64_t start = fb_now_ns();
    assert_null(d->ops->load(d, &s.p, &(fb_progress){.step = refuse, .ctx = &calls}, &err));
    assert_int_equal(err.kind, FB_ERR_CANCELLED);
    assert_true(fb_now_ns() - start < 500000000000); /* not the 1000 s that the compiler sleeps */
    d->ops->close(d);
    unsetenv("CC");
}

static void a_compiler_that_crashes_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"kill -SEGV $$", "killed by signal 11"},
        {"echo 'cc: internal compiler error: Aborted' >&2; exit 4", "internal compiler error"},
        {"exit 0", "cannot be loaded"},
        {"exit 1", "gave no reason"},
    };
    sheet s;
    doubling_sheet(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        snprintf(name, sizeof name, "crash%zu", i);
        fresh_cache(name);
        set_compiler(name, cases[i].text);
        fb_device *d = device();
        fb_error err = {0};
        assert_null(d->ops->load(d, &s.p, NULL, &err));
        if (!strstr(err.text, cases[i].says)) fail_msg("%zu: %s", i, err.text);
        d->ops->close(d);
    }
    unsetenv("CC");
}

static void without_a_compiler_it_says_so(void **state)
{
    (void)state;
    fresh_cache("none");
    sheet s;
    doubling_sheet(&s);
    fb_error err = {0};
    setenv("CC", "/nonexistent/cc -m64", 1);
    fb_device *d = device();
    assert_null(d->ops->load(d, &s.p, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    assert_string_equal(err.text, "the C compiler that CC names cannot be run: /nonexistent/cc -m64");
    unsetenv("CC");
    char *path = fb_strdup(getenv("PATH"));
    setenv("PATH", "/nonexistent", 1);
    assert_null(d->ops->load(d, &s.p, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "no C compiler was found"));
    setenv("PATH", path, 1);
    fb_free(path);
    d->ops->close(d);
}

static void a_compiler_without_openmp_runs_on_one_core(void **state)
{
    (void)state;
    fresh_cache("serial");
    set_compiler(
        "serial",
        "for w; do [ \"$w\" = -fopenmp ] && { echo 'cc: error: no libgomp' >&2; exit 1; }; done; exec cc \"$@\"");
    sheet s;
    doubling_sheet(&s);
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    check_doubling(d, l);
    assert_int_equal(((fb_host *)d)->rt.threads, 1);
    d->ops->unload(l);
    d->ops->close(d);
    unsetenv("CC");
}

static void without_a_cache_it_compiles_in_the_temporary_folder(void **state)
{
    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    sheet s;
    doubling_sheet(&s);
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    assert_true(d->ops->compile_ms(l) > 0);
    check_doubling(d, l);
    d->ops->unload(l);
    d->ops->close(d);
}

/* Runs `body` in a process of its own: what it does to limits and mounts ends with it. 77: it could not be set up. */
static int in_a_process(int (*body)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(body());
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int small_files(void)
{
    sheet s;
    fb_error err = {0};
    doubling_sheet(&s);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 4096, .rlim_max = 4096});
    signal(SIGXFSZ, SIG_IGN);
    fb_device *d = fb_device_open("host", &err);
    if (!d || d->ops->load(d, &s.p, NULL, &err)) return 1;
    return err.kind == FB_ERR_SYSTEM && err.text[0] ? 0 : 2;
}

static void no_room_for_files_is_an_error(void **state)
{
    (void)state;
    fresh_cache("small");
    assert_int_equal(in_a_process(small_files), 0);
}

/* The cache on a file system of 64 KiB: kernels are compiled elsewhere and still run. */
static int full_disk(void)
{
    const char *path = in_scratch("full");
    mkdir(path, 0700);
    uid_t user = getuid();
    if (unshare(CLONE_NEWNS | (user ? CLONE_NEWUSER : 0)) < 0) return 77;
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    if (mount("none", path, "tmpfs", 0, "size=64k") < 0) return 77;
    setenv("XDG_CACHE_HOME", path, 1);
    sheet s;
    doubling_sheet(&s);
    fb_device *d = fb_device_open("host", NULL);
    fb_loaded *l = d ? d->ops->load(d, &s.p, NULL, NULL) : NULL;
    if (!l) return 1;
    fb_run_time t;
    return d->ops->run(l, &(fb_run_how){.samples = 1}, &t, NULL) ? 0 : 2;
}

static void a_full_disk_costs_the_cache_alone(void **state)
{
    (void)state;
    int status = in_a_process(full_disk);
    if (status == 77) skip();
    assert_int_equal(status, 0);
}

/* Does `damage` to each entry of the cache, by its path. */
static void to_every_entry(void (*damage)(const char *path))
{
    char dir[200], path[512];
    snprintf(dir, sizeof dir, "%s/fusebox/host", getenv("XDG_CACHE_HOME"));
    DIR *folder = opendir(dir);
    for (struct dirent *e; (e = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.') damage(path);
    }
    closedir(folder);
}

/* A new file in its place: the old one may be loaded. */
static void cut(const char *path)
{
    char begin[9000];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(begin, 1, sizeof begin, f), sizeof begin);
    fclose(f);
    assert_int_equal(unlink(path), 0);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(begin, 1, sizeof begin, f), sizeof begin);
    assert_int_equal(fclose(f), 0);
}

static void flip(const char *path)
{
    int fd = open(path, O_RDWR);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, 5000), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, 5000), 1);
    close(fd);
}

/* A library of its own name, whole and without our symbol, in another's place. */
static void replace(const char *path)
{
    char command[1200];
    snprintf(command, sizeof command,
             "echo 'int other(void) { return 1; }' > '%s/o.c' && cc -shared -fPIC -o '%s' '%s/o.c'", scratch, path,
             scratch);
    unlink(path);
    assert_int_equal(system(command), 0);
}

static void replace_by_another_entry(const char *path)
{
    replace(path);
    assert_true(fb_checked_seal(path, "another.so", NULL));
}

static void damaged_and_foreign_entries_are_compiled_again(void **state)
{
    (void)state;
    static void (*const damages[])(const char *) = {cut, flip, replace, replace_by_another_entry};
    cache_with_runtime("damaged");
    sheet s;
    doubling_sheet(&s);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        fb_device *d = device();
        d->ops->unload(loaded(d, &s));
        to_every_entry(damages[i]);
        fb_loaded *l = loaded(d, &s);
        assert_true(d->ops->compile_ms(l) > 0);
        check_doubling(d, l);
        d->ops->unload(l);
        l = loaded(d, &s); /* and kept again */
        assert_true(d->ops->compile_ms(l) == 0);
        d->ops->unload(l);
        d->ops->close(d);
    }
}

/* Whole by its checksum, and deadly to whoever opens it. */
static void make_deadly(const char *path)
{
    char command[1200];
    snprintf(
        command, sizeof command,
        "echo '#include <signal.h>\n__attribute__((constructor)) void die(void) { raise(SIGKILL); }' > '%s/d.c' && cc "
        "-shared -fPIC -o '%s' '%s/d.c'",
        scratch, path, scratch);
    unlink(path);
    assert_int_equal(system(command), 0);
    assert_true(fb_checked_seal(path, fb_file_name(path), NULL));
}

static int load_only(void)
{
    sheet s;
    doubling_sheet(&s);
    fb_device *d = fb_device_open("host", NULL);
    return d && d->ops->load(d, &s.p, NULL, NULL) ? 0 : 1;
}

static void an_entry_that_kills_is_compiled_again(void **state)
{
    (void)state;
    fresh_cache("deadly");
    assert_int_equal(in_a_process(load_only), 0);
    to_every_entry(make_deadly);
    for (int i = 0; i < 2; i++) /* the runtime, then the kernel */
        assert_int_equal(in_a_process(load_only), 128 + SIGKILL);
    assert_int_equal(in_a_process(load_only), 0);
    assert_int_equal(in_a_process(load_only), 0);
}

/* ---- the processes of a compiler ---- */

static int processes_in(const char *dir)
{
    char command[300], text[32] = "";
    snprintf(command, sizeof command, "grep -lsz '^FB_TEST_HERE=%s$' /proc/[0-9]*/environ | wc -l", dir);
    FILE *p = popen(command, "r");
    assert_non_null(fgets(text, sizeof text, p));
    pclose(p);
    return atoi(text);
}

/* Its front is killed while a wrapper's driver has started a pass, and one that left its group: none may go on. */
static void no_pass_outlives_its_front(void **state)
{
    (void)state;
    fresh_cache("outlived");
    fb_str script = {0};
    fb_str_addf(&script, "export FB_TEST_HERE='%s'\nsetsid sleep 1000 &\n(sleep 1000 & wait)\n", scratch);
    set_compiler("wrapper", script.text);
    fb_str_free(&script);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(load_only());
    for (int i = 0; i < 2000 && processes_in(scratch) < 2; i++) usleep(10000);
    assert_true(processes_in(scratch) >= 2);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 1000 && processes_in(scratch) > 0; i++) usleep(10000);
    assert_int_equal(processes_in(scratch), 0);
    unsetenv("CC");
    /* what it compiled in is swept by the next that starts */
    assert_true(files_in_cache() > 0);
    assert_int_equal(in_a_process(load_only), 0);
    assert_int_equal(files_in_cache(), 2);
}

static void why_a_compiler_stopped(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"kill -KILL $$", "was killed while it compiled kernel"},
        {"echo 'cc: fatal error: Killed signal terminated program cc1' >&2; exit 1", "was killed while it compiled"},
        {"kill -XCPU $$", "took more than"},
        {"echo 'cc1: out of memory allocating 65536 bytes after a total of 99 bytes' >&2; exit 1", "GB of memory"},
        {"echo \"error: limited to $(ulimit -v)\" >&2; exit 1", "limited to"},
    };
    sheet s;
    doubling_sheet(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        snprintf(name, sizeof name, "stopped%zu", i);
        fresh_cache(name);
        set_compiler(name, cases[i].text);
        fb_device *d = device();
        fb_error err = {0};
        assert_null(d->ops->load(d, &s.p, NULL, &err));
        if (!strstr(err.text, cases[i].says)) fail_msg("%zu: %s", i, err.text);
        if (strstr(err.text, "unlimited")) fail_msg("%s", err.text);
        d->ops->close(d);
    }
    unsetenv("CC");
}

/* ---- kernels of the user's own ---- */

static void own_kernels_read_system_headers_alone(void **state)
{
    (void)state;
    char header[300], text[900];
    fb_error err = {0};
    cache_with_runtime("own");
    snprintf(header, sizeof header, "%s/factor.h", scratch);
    assert_true(fb_write_file(header, "2.0f", 4, &err));
    static const struct {
        const char *before, *says; /* @: a header of the user's; says NULL: fine */
    } cases[] = {
        {"#include <string.h>\n#  include /* as usual */ <sys/types.h>", NULL},
        {"static inline void fence(void) { __asm__ volatile(\"\" ::: \"memory\"); }", NULL},
        {"#include \"@\"", "own.c:1: #include"},
        {"#include <@>", "own.c:1: #include"},
        {"#define H \"@\"\n#include H", "own.c:2: #include"},
        {"%:include \"@\"", "own.c:1: #include"},
        {"#inc\\\nlude \"@\"", "own.c:1: #include"},
        {"# /* */ include \"@\"", "own.c:1: #include"},
        {"#include_next \"@\"", "own.c:1: #include"},
        {"#include <../../../../../../../@>", "own.c:1: #include"},
        {"__asm__(\".data\\n.incbin \\\"@\\\"\\n.text\");", ".incbin"},
        {"__asm__(\".include \\\"@\\\"\");", ".include"},
        {"__asm__(\".data\\n.InCBIN \\\"@\\\"\\n.text\");", ".incbin"},
        {"#define P(a, b) a##b\nP(as, m)(\".inc\" \"bin \\\"@\\\"\");", ".incbin"},
        {"static char incbin[4]; void hide(void) { __asm__(\".data\\n.%c0 \\\"@\\\"\\n.text\" :: \"i\"(incbin)); }",
         ".incbin"},
        {"__asm__(\".macro m a b\\n.\\\\a\\\\b \\\"@\\\"\\n.endm\\nm inc bin\");", ".macro"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sheet s;
        doubling_sheet(&s);
        const char *before = cases[i].before;
        int named = (int)strcspn(before, "@");
        snprintf(text, sizeof text, "%.*s%s%s\n%s", named, before, before[named] ? header : "",
                 before + named + (before[named] == '@'), doubling);
        s.kernels[0].source = text;
        s.kernels[0].file = "own.c";
        fb_device *d = device();
        fb_loaded *l = d->ops->load(d, &s.p, NULL, &err);
        if (!cases[i].says && !l) fail_msg("%zu: %s", i, err.text);
        if (cases[i].says && (l || !strstr(err.text, cases[i].says))) fail_msg("%zu: %s", i, l ? "loaded" : err.text);
        if (l) check_doubling(d, l);
        if (l) d->ops->unload(l);
        d->ops->close(d);
    }
}

typedef struct {
    int heard, stop_at;
} listener;

static bool hear(void *ctx, const char *what, double fraction)
{
    listener *l = ctx;
    assert_string_equal(what, "running");
    assert_true(fraction >= 0 && fraction <= 1);
    return ++l->heard != l->stop_at;
}

/* Eight steps of 0.4 s: somebody who waits hears of them while they run, and may end them. */
static void long_loops_show_that_they_live(void **state)
{
    (void)state;
    cache_with_runtime("long");
    sheet s;
    sheet_start(&s);
    int y = buffer(&s, FB_BUFFER_OUTPUT, FB_F32, 1);
    kernel(&s, "slow",
           "#include <time.h>\nvoid slow(const fb_kernel_args *a)\n{\n    struct timespec t = {0, 400000000};\n    "
           "nanosleep(&t, 0);\n    *(float *)a->buffers[0] += 1;\n}\n");
    launch(&s, FB_LAUNCH_REPEAT, 0, 0, NULL)->count = 8;
    launch(&s, FB_LAUNCH_KERNEL, 0, 1, &y);
    launch(&s, FB_LAUNCH_END, 0, 0, NULL);
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    fb_error err = {0};
    fb_run_time t;
    float steps = 0;
    listener heard = {.stop_at = -1};
    fb_progress progress = {.step = hear, .ctx = &heard};
    d->progress = &progress;
    assert_true(d->ops->write(l, 0, &steps, NULL));
    assert_true(d->ops->run(l, &(fb_run_how){.cache = FB_CACHE_COLD, .samples = 1}, &t, &err));
    assert_true(d->ops->read(l, 0, &steps, NULL) && steps == 8);
    assert_true(heard.heard >= 2);
    heard = (listener){.stop_at = 1};
    assert_true(d->ops->write(l, 0, &(float){0}, NULL));
    assert_false(d->ops->run(l, &(fb_run_how){.cache = FB_CACHE_COLD, .samples = 1}, &t, &err));
    assert_int_equal(err.kind, FB_ERR_CANCELLED);
    assert_true(d->ops->read(l, 0, &steps, NULL) && steps < 8);
    d->progress = NULL;
    d->ops->unload(l);
    d->ops->close(d);
}

static void launch_modes_of_other_devices_are_refused(void **state)
{
    (void)state;
    sheet s;
    doubling_sheet(&s);
    fb_device *d = device();
    fb_error err = {0};
    s.p.mode = FB_LAUNCH_GRAPH;
    assert_null(d->ops->load(d, &s.p, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_LIMIT);
    assert_non_null(strstr(err.text, "\"graph\""));
    d->ops->close(d);
}

static void too_large_a_plan_is_refused_before_it_is_allocated(void **state)
{
    (void)state;
    cache_with_runtime("large");
    sheet s;
    doubling_sheet(&s);
    buffer(&s, FB_BUFFER_INPUT, FB_F32, (int64_t)1 << 44);
    fb_device *d = device();
    fb_error err = {0};
    assert_null(d->ops->load(d, &s.p, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_LIMIT);
    d->ops->close(d);
}

/* ---- running ---- */

static const char adding[] =
    "void add(const fb_kernel_args *a)\n{\n    const float *x = a->buffers[0], *y = a->buffers[1];\n"
    "    float *z = a->buffers[2];\n    for (int64_t i = 0; i < 8; i++) z[i] = x[i] + y[i];\n}\n";

/* Fibonacci by a loop that swaps: (a, b) becomes (a + b, a), `trips` times, and again inside. */
static void loops_repeat_and_swap(void **state)
{
    (void)state;
    cache_with_runtime("loops");
    sheet s;
    sheet_start(&s);
    int a = buffer(&s, FB_BUFFER_PARAM, FB_F32, 8), b = buffer(&s, FB_BUFFER_PARAM, FB_F32, 8);
    s.buffers[a].assigned = s.buffers[b].assigned = true;
    kernel(&s, "add", adding);
    launch(&s, FB_LAUNCH_REPEAT, 0, 0, NULL)->count = 3;
    launch(&s, FB_LAUNCH_REPEAT, 0, 0, NULL)->count = 3;
    launch(&s, FB_LAUNCH_KERNEL, 0, 3, (int[]){a, b, b});
    fb_launch *swap = launch(&s, FB_LAUNCH_SWAP, 0, 0, NULL);
    swap->swap_a = a, swap->swap_b = b;
    launch(&s, FB_LAUNCH_END, 0, 0, NULL);
    launch(&s, FB_LAUNCH_END, 0, 0, NULL);
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, zeros[8] = {0};
    float out[8];
    d->ops->write(l, a, ones, NULL);
    d->ops->write(l, b, zeros, NULL);
    for (int round = 0; round < 3; round++) { /* what a run assigned is gone before the next */
        run_once(d, l);
        d->ops->read(l, a, out, NULL);
        assert_true(out[0] == 55 && out[7] == 55);
        d->ops->read(l, b, out, NULL);
        assert_true(out[0] == 34);
    }
    fb_span spans[4];
    int64_t n = 0;
    assert_true(d->ops->trace(l, FB_CACHE_COLD, spans, 4, &n, NULL));
    assert_int_equal(n, 9);
    for (int i = 0; i < 4; i++)
        assert_true(spans[i].index == 0 && spans[i].end_us >= spans[i].start_us && spans[i].start_us >= 0);
    d->ops->unload(l);
    d->ops->close(d);
}

/* Each run of a call gets its own feed and hands out its own result, whether a loop's swap has left that in its own
 * place or in another. */
static void check_turns(bool overlap, bool swap)
{
    sheet s;
    doubling_sheet(&s);
    enum { X, Y };
    s.p.overlap = overlap;
    s.buffers[X].fed = s.buffers[Y].received = true;
    if (swap) {
        int beside = buffer(&s, FB_BUFFER_TEMP, FB_F32, 1000);
        s.args[0][1] = beside;
        fb_launch *l = launch(&s, FB_LAUNCH_SWAP, 0, 0, NULL);
        l->swap_a = Y, l->swap_b = beside;
    }
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    float fed[2][1000], out[1000];
    for (int i = 0; i < 1000; i++) fed[0][i] = (float)i, fed[1][i] = (float)-i;
    for (int runs = 1; runs < 6; runs++) {
        fb_run_time times[6];
        fed[0][999] = (float)runs;
        assert_true(d->ops->write(l, X, fed[0], NULL) && d->ops->write_second(l, X, fed[1], NULL));
        assert_true(d->ops->poison(l, NULL));
        const fb_run_how how = {.cache = runs == 3 ? FB_CACHE_COLD : FB_CACHE_HOT, .samples = runs};
        assert_true(d->ops->run(l, &how, times, NULL));
        assert_true(d->ops->read(l, Y, out, NULL));
        for (int i = 0; i < 1000; i++)
            if (out[i] != 2 * fed[(runs + 1) % 2][i]) fail_msg("run %d of %d gave %g", runs, runs, (double)out[i]);
    }
    fb_span spans[8];
    int64_t n = 0;
    assert_true(d->ops->trace(l, FB_CACHE_HOT, spans, 8, &n, NULL));
    assert_int_equal(n, 3);
    const fb_lane lanes[] = {FB_LANE_KERNEL, FB_LANE_IN, FB_LANE_OUT};
    for (int i = 0; i < 3; i++) {
        assert_true(spans[i].lane == lanes[i] && spans[i].index == i);
        assert_true(spans[i].start_us >= 0 && spans[i].end_us > spans[i].start_us);
    }
    if (!overlap) assert_true(spans[1].end_us <= spans[0].start_us && spans[0].end_us <= spans[2].start_us);
    assert_true(d->ops->read(l, Y, out, NULL));
    assert_true(out[5] == 10);
    d->ops->unload(l);
    d->ops->close(d);
}

static void runs_and_copies_take_turns(void **state)
{
    (void)state;
    cache_with_runtime("turns");
    for (int i = 0; i < 4; i++) check_turns(i & 1, i & 2);
}

static void windows_of_one_buffer_share_a_kernel(void **state)
{
    (void)state;
    cache_with_runtime("windows");
    static const int64_t first[] = {0, 64, 0}, second[] = {96, 0, 32};
    sheet s;
    sheet_start(&s);
    int x = buffer(&s, FB_BUFFER_INPUT, FB_F32, 32), z = buffer(&s, FB_BUFFER_OUTPUT, FB_F32, 16);
    kernel(&s, "add", adding);
    launch(&s, FB_LAUNCH_KERNEL, 0, 3, (int[]){x, x, z})->offsets = first;
    launch(&s, FB_LAUNCH_KERNEL, 0, 3, (int[]){x, x, z})->offsets = second;
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    float in[32], out[16];
    for (int i = 0; i < 32; i++) in[i] = (float)i;
    d->ops->write(l, x, in, NULL);
    run_once(d, l);
    d->ops->read(l, z, out, NULL);
    for (int i = 0; i < 8; i++) assert_true(out[i] == in[i] + in[i + 16] && out[i + 8] == in[i + 24] + in[i]);
    d->ops->unload(l);
    d->ops->close(d);
}

/* Rows of equal elements less their largest: 21 are whole vectors and what is left over, which a compiler may contract
 * in other ways. A function whose products leave it a choice is then not 0 where it should be. */
static void equal_elements_have_equal_values(void **state)
{
    enum { ROWS = 4000, COLUMNS = 21, ALL = ROWS * COLUMNS };
    static const char *const functions[] = {
        "fb_expf(x)",       "fb_exp2f(x)",   "fb_logf(x)",     "fb_log2f(x)",
        "fb_log1pf(x)",     "fb_rsqrtf(x)",  "fb_tanhf(x)",    "fb_sigmoidf(x)",
        "fb_erff(x)",       "fb_geluf(x)",   "fb_mishf(x)",    "fb_softplusf(x, 1.0f, 20.0f)",
        "fb_eluf(x, 1.0f)", "fb_erfinvf(x)", "fb_digammaf(x)", "fb_atan2f(x, 0.7f)"};
    static const char text[] =
        "void f%d(const fb_kernel_args *a)\n{\n    const float *restrict from = a->buffers[0];\n"
        "    float *restrict to = (float *)a->buffers[1] + %d;\n"
        "    for (int64_t i = 0; i < %d; i++) {\n        float row[%d], most = -INFINITY;\n"
        "#pragma omp simd reduction(fb_maxf : most)\n"
        "        for (int64_t r = 0; r < %d; r++) {\n            const float x = from[%d * i + r], y = %s;\n"
        "            row[r] = y;\n            most = fb_maxf(most, y);\n        }\n"
        "#pragma omp simd\n        for (int64_t r = 0; r < %d; r++) to[%d * i + r] = row[r] - most;\n    }\n}\n";
    enum { N = sizeof functions / sizeof *functions };
    static float x[ALL], off[N * ALL];
    (void)state;
    cache_with_runtime("equal");
    fb_arena *arena = fb_arena_new();
    sheet s;
    sheet_start(&s);
    int from = buffer(&s, FB_BUFFER_INPUT, FB_F32, ALL), to = buffer(&s, FB_BUFFER_OUTPUT, FB_F32, N * ALL);
    for (int k = 0; k < N; k++) {
        const char *source =
            fb_arena_printf(arena, text, k, k * ALL, ROWS, COLUMNS, COLUMNS, COLUMNS, functions[k], COLUMNS, COLUMNS);
        kernel(&s, fb_arena_printf(arena, "f%d", k), source);
        launch(&s, FB_LAUNCH_KERNEL, k, 2, (int[]){from, to});
    }
    for (int i = 0; i < ALL; i++) x[i] = 0.00312f * (float)(i / COLUMNS - ROWS / 4);
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    assert_true(d->ops->write(l, from, x, NULL));
    run_once(d, l);
    assert_true(d->ops->read(l, to, off, NULL));
    for (int i = 0; i < N * ALL; i++)
        if (off[i] < 0 || off[i] > 0)
            fail_msg("%s at %a: %a below the largest of equals", functions[i / ALL], (double)x[i % ALL],
                     (double)-off[i]);
    d->ops->unload(l);
    d->ops->close(d);
    fb_arena_free(arena);
}

static void poison_shows_what_was_not_written(void **state)
{
    (void)state;
    cache_with_runtime("poison");
    sheet s;
    doubling_sheet(&s);
    int t = buffer(&s, FB_BUFFER_TEMP, FB_F64, 5), i = buffer(&s, FB_BUFFER_OUTPUT, FB_I64, 5);
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    float x[1000], y[1000];
    double temp[5];
    int64_t whole[5];
    for (int k = 0; k < 1000; k++) x[k] = 1;
    d->ops->write(l, 0, x, NULL);
    run_once(d, l);
    assert_true(d->ops->poison(l, NULL));
    d->ops->read(l, 0, y, NULL);
    assert_memory_equal(x, y, sizeof x);
    d->ops->read(l, 1, y, NULL);
    d->ops->read(l, t, temp, NULL);
    d->ops->read(l, i, whole, NULL);
    assert_true(isnan(y[0]) && isnan(y[999]) && isnan(temp[4]) && whole[4] == -1);
    d->ops->unload(l);
    d->ops->close(d);
}

/* Two programs at a time, each somewhere else by and by: what they held is gone, and they run as before. */
static void buffers_are_allocated_anew(void **state)
{
    (void)state;
    cache_with_runtime("moved");
    sheet s;
    doubling_sheet(&s);
    fb_device *d = device();
    fb_loaded *l[2] = {loaded(d, &s), loaded(d, &s)};
    for (int round = 0; round < 40; round++) {
        fb_loaded *one = l[round % 2], *other = l[1 - round % 2];
        float x[1000], y[1000];
        check_doubling(d, other);
        check_doubling(d, one);
        assert_true(d->ops->move(one));
        d->ops->read(one, 0, x, NULL);
        d->ops->read(one, 1, y, NULL);
        for (int i = 0; i < 1000; i++) assert_true(x[i] == 0 && y[i] == 0);
        d->ops->read(other, 1, y, NULL); /* … and nobody else's is */
        for (int i = 0; i < 1000; i++) assert_true(y[i] == 2 * ((float)i - 500));
        check_doubling(d, one);
        assert_true(d->ops->poison(one, NULL));
        check_doubling(d, one);
    }
    d->ops->unload(l[0]);
    check_doubling(d, l[1]);
    d->ops->unload(l[1]);
    d->ops->close(d);
}

/* What is large meets pages of every kind at once, and stays. */
static void large_programs_stay(void **state)
{
    (void)state;
    cache_with_runtime("stays");
    sheet s;
    doubling_sheet(&s);
    buffer(&s, FB_BUFFER_INPUT, FB_F32, 8 << 20);
    fb_device *d = device();
    fb_loaded *l = loaded(d, &s);
    check_doubling(d, l);
    assert_false(d->ops->move(l));
    float y[1000];
    d->ops->read(l, 1, y, NULL); /* what it held, it holds */
    for (int i = 0; i < 1000; i++) assert_true(y[i] == 2 * ((float)i - 500));
    d->ops->unload(l);
    d->ops->close(d);
}

/* ---- contractions ---- */

/* How an operand's rows × cols lie in its buffer. */
typedef enum { BY_ROWS, BY_COLS, PADDED, SPARSE, REPEATED, ARRANGEMENTS } arrangement;

static void arrange(arrangement how, int64_t rows, int64_t cols, int64_t *row, int64_t *col)
{
    switch (how) {
    case BY_ROWS: *row = cols, *col = 1; break;
    case BY_COLS: *row = 1, *col = rows; break;
    case PADDED: *row = cols + 3, *col = 1; break;
    case SPARSE: *row = 2 * cols + 1, *col = 2; break;
    default: *row = 0, *col = 1; break;
    }
}

/* From the first element to the last. */
static int64_t extent(int64_t rows, int64_t row, int64_t cols, int64_t col)
{
    return rows && cols ? (rows - 1) * row + (cols - 1) * col + 1 : 0;
}

static double value_at(const sheet *s, fb_loaded *l, fb_device *d, int b, double *to)
{
    void *bytes = fb_alloc((size_t)s->buffers[b].bytes);
    d->ops->read(l, b, bytes, NULL);
    fb_elements_load(s->buffers[b].dtype, s->buffers[b].elements, bytes, to);
    fb_free(bytes);
    return 0;
}

static void fill(const sheet *s, fb_loaded *l, fb_device *d, int b, double *values)
{
    void *bytes = fb_alloc((size_t)s->buffers[b].bytes);
    for (int64_t i = 0; i < s->buffers[b].elements; i++)
        values[i] = fb_dtype_round(s->buffers[b].dtype, fb_rng_uniform(fb_rng_bits((uint64_t)b, (uint64_t)i), -1, 1));
    fb_elements_store(s->buffers[b].dtype, s->buffers[b].elements, values, bytes);
    d->ops->write(l, b, bytes, NULL);
    fb_free(bytes);
}

/* out = c + row number, on the rows it is called for */
static void epilogue_source(char *to, size_t room, const char *name, int64_t n, const char *type, const char *load,
                            const char *store)
{
    snprintf(to, room,
             "void %s(const fb_kernel_args *a)\n{\n    const %s *c = a->buffers[0];\n    %s *out = a->buffers[1];\n"
             "    for (int64_t r = a->first; r < a->last; r++)\n        for (int64_t j = 0; j < %lld; j++)\n"
             "            out[r * %lld + j] = %s(%s(c[r * %lld + j]) + r %% 7);\n}\n",
             name, type, type, (long long)n, (long long)n, store, load, (long long)n);
}

typedef struct {
    fb_dtype dtype;
    int64_t m, n, k, batch;
    arrangement a, b;
    bool epilogue, share_b;
} contraction;

static void check_contraction(fb_device *d, const contraction *c)
{
    static const struct {
        const char *type, *load, *store;
        double slack;
    } types[FB_DTYPES] = {[FB_F32] = {"float", "", "", 1e-5},
                          [FB_F64] = {"double", "", "", 1e-13},
                          [FB_F16] = {"fb_f16", "fb_from_f16", "fb_to_f16", 4e-3},
                          [FB_BF16] = {"fb_bf16", "fb_from_bf16", "fb_to_bf16", 3e-2}};
    sheet s;
    char source[600], name[64];
    fb_gemm_call g = {.dtype = c->dtype,
                      .m = c->m,
                      .n = c->n,
                      .k = c->k,
                      .batch = c->batch,
                      .epilogue = FB_NONE,
                      .a_offset = 5,
                      .b_offset = 3,
                      .scale = 1,
                      .addend = FB_NONE};
    arrange(c->a, c->m, c->k, &g.a_row, &g.a_col);
    arrange(c->b, c->k, c->n, &g.b_row, &g.b_col);
    int64_t a_room = extent(c->m, g.a_row, c->k, g.a_col) + 9, b_room = extent(c->k, g.b_row, c->n, g.b_col) + 9;
    g.a_batch = a_room, g.b_batch = c->share_b ? 0 : b_room, g.c_batch = c->m * c->n, g.c_row = c->n;
    sheet_start(&s);
    g.a = buffer(&s, FB_BUFFER_INPUT, c->dtype, a_room * c->batch + 5);
    g.b = buffer(&s, FB_BUFFER_INPUT, c->dtype, b_room * c->batch + 3);
    g.c = buffer(&s, FB_BUFFER_OUTPUT, c->dtype, g.c_batch * c->batch);
    int out = buffer(&s, FB_BUFFER_OUTPUT, c->dtype, g.c_batch * c->batch);
    if (c->epilogue) {
        snprintf(name, sizeof name, "after_%s_%lld", fb_dtype_name(c->dtype), (long long)c->n);
        epilogue_source(source, sizeof source, name, c->n, types[c->dtype].type, types[c->dtype].load,
                        types[c->dtype].store);
        g.epilogue = kernel(&s, name, source);
    }
    s.gemms[0] = g;
    s.p.n_gemms = 1;
    launch(&s, FB_LAUNCH_GEMM, 0, 2, (int[]){g.c, out});
    fb_loaded *l = loaded(d, &s);
    double *values[4];
    for (int i = 0; i < 4; i++) values[i] = fb_alloc((size_t)(s.buffers[i].elements + 1) * sizeof(double));
    fill(&s, l, d, g.a, values[0]);
    fill(&s, l, d, g.b, values[1]);
    d->ops->poison(l, NULL);
    run_once(d, l);
    value_at(&s, l, d, g.c, values[2]);
    value_at(&s, l, d, out, values[3]);
    for (int64_t t = 0; t < c->batch * c->m * c->n; t++) {
        int64_t batch = t / (c->m * c->n), i = t / c->n % c->m, j = t % c->n;
        double sum = 0, size = 1;
        for (int64_t k = 0; k < c->k; k++) {
            double p = values[0][g.a_offset + batch * g.a_batch + i * g.a_row + k * g.a_col] *
                       values[1][g.b_offset + batch * g.b_batch + k * g.b_row + j * g.b_col];
            sum += p;
            size += fabs(p);
        }
        if (!(fabs(values[2][t] - sum) <= types[c->dtype].slack * size))
            fail_msg("%s %lldx%lldx%lld batch %lld, arranged %d %d: element %lld is %g, expected %g",
                     fb_dtype_name(c->dtype), (long long)c->m, (long long)c->n, (long long)c->k, (long long)c->batch,
                     c->a, c->b, (long long)t, values[2][t], sum);
        if (c->epilogue &&
            !(fabs(values[3][t] - (double)((batch * c->m + i) % 7) - values[2][t]) <= 8 * types[c->dtype].slack * size))
            fail_msg("epilogue: element %lld is %g after %g", (long long)t, values[3][t], values[2][t]);
    }
    for (int i = 0; i < 4; i++) fb_free(values[i]);
    d->ops->unload(l);
}

/* As if calibration had found oneDNN the faster everywhere; where there is none, the BLAS multiplies all the same. */
static fb_device *device_with(bool dnnl)
{
    fb_device *d = device();
    if (dnnl)
        ((fb_host *)d)->sgemm = (fb_host_sgemm){
            .library = "any", .n = 1, .flops = {1}, .dnnl = {true}, .few_rows = true, .few_steps = true};
    return d;
}

static void check_arrangements(bool dnnl)
{
    cache_with_runtime("gemm");
    static const int64_t shapes[][4] = {{7, 5, 3, 1}, {1, 40, 33, 1}, {40, 1, 33, 1},  {1, 1, 9, 2},
                                        {3, 1, 1, 1}, {33, 17, 1, 3}, {130, 70, 50, 1}};
    static const fb_dtype dtypes[] = {FB_F32, FB_F64, FB_F16, FB_BF16};
    fb_device *d = device_with(dnnl);
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            for (arrangement a = 0; a < ARRANGEMENTS; a++) {
                for (arrangement b = 0; b < ARRANGEMENTS; b++) {
                    const int64_t *m = shapes[i];
                    contraction c = {.dtype = dtypes[t],
                                     .m = m[0],
                                     .n = m[1],
                                     .k = m[2],
                                     .batch = m[3],
                                     .a = a,
                                     .b = b,
                                     .share_b = a == PADDED};
                    check_contraction(d, &c);
                }
            }
        }
    }
    d->ops->close(d);
}

static void contractions_are_those_of_plain_loops(void **state)
{
    (void)state;
    check_arrangements(false);
    check_arrangements(true);
}

/* On one thread, wherever it is called from: its own pool beside the team's would cost more than it brings. */
static void a_second_library_multiplies_on_the_thread_that_calls(void **state)
{
    (void)state;
    enum { M = 70, N = 90, K = 50 };
    fb_error err = {0};
    const fb_dnnl *dnnl = fb_dnnl_get(&err);
    float *a = fb_calloc(M * K, 4), *b = fb_calloc(K * N, 4), *c = fb_calloc(M * N, 4);
    for (int i = 0; i < M * K; i++) a[i] = (float)(i % 11 - 5);
    for (int i = 0; i < K * N; i++) b[i] = (float)(i % 7 - 3);
    bool taken = fb_dnnl_sgemm(FB_BLAS_NO_TRANS, FB_BLAS_TRANS, M, N, K, a, K, b, K, c, N);
    assert_int_equal(taken, dnnl != NULL);
    for (int i = 0; taken && i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += a[i / N * K + k] * b[i % N * K + k];
        assert_true(c[i] == sum);
    }
    if (dnnl) {
        assert_true(dnnl->description[0] != 0 && dnnl->library[0] != 0);
        assert_false(fb_dnnl_sgemm(FB_BLAS_NO_TRANS, FB_BLAS_NO_TRANS, M, N, K, a, 1, b, 1, c, 1)); /* rows overlap */
    } else {
        assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    }
    fb_free(a);
    fb_free(b);
    fb_free(c);
}

static void a_library_is_chosen_by_shape(void **state)
{
    (void)state;
    fb_host_sgemm s = {
        .library = "oneDNN 1.2.3", .n = 3, .flops = {2e3, 2e6, 2e9}, .dnnl = {false, true, false}, .few_rows = true};
    assert_false(fb_host_takes_dnnl(&s, 10, 10, 10));
    assert_true(fb_host_takes_dnnl(&s, 100, 100, 100));
    assert_true(fb_host_takes_dnnl(&s, 50, 200, 60));
    assert_false(fb_host_takes_dnnl(&s, 2000, 2000, 2000));
    assert_true(fb_host_takes_dnnl(&s, 4, 4000, 4000));  /* few rows */
    assert_false(fb_host_takes_dnnl(&s, 4000, 4000, 4)); /* few steps */
    assert_false(fb_host_takes_dnnl(&s, INT_MAX, INT_MAX, INT_MAX));
    s.library[0] = '\0';
    assert_false(fb_host_takes_dnnl(&s, 100, 100, 100));
}

static void check_epilogues(bool dnnl)
{
    cache_with_runtime("epilogue");
    static const int64_t shapes[][4] = {{500, 64, 20, 1}, {1, 300, 400, 1}, {1, 300, 400, 3}, {5, 1, 9, 1},
                                        {4000, 1, 40, 1}, {10, 20, 30, 7},  {16, 301, 40, 1}, {130, 90, 20, 1}};
    static const fb_dtype dtypes[] = {FB_F32, FB_F64, FB_F16, FB_BF16};
    fb_device *d = device_with(dnnl);
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const int64_t *m = shapes[i];
            contraction c = {
                .dtype = dtypes[t], .m = m[0], .n = m[1], .k = m[2], .batch = m[3], .epilogue = true, .b = BY_COLS};
            check_contraction(d, &c);
        }
    }
    d->ops->close(d);
}

static void epilogues_see_every_row_once(void **state)
{
    (void)state;
    check_epilogues(false);
    check_epilogues(true);
}

static void without_a_blas_contractions_are_slow_but_right(void **state)
{
    (void)state;
    cache_with_runtime("gemm");
    fb_device *d = device();
    ((fb_host *)d)->blas = NULL;
    check_contraction(d, &(contraction){.dtype = FB_F32, .m = 60, .n = 50, .k = 40, .batch = 2, .a = BY_COLS});
    check_contraction(d, &(contraction){.dtype = FB_F64, .m = 1, .n = 50, .k = 400, .batch = 1, .epilogue = true});
    d->ops->close(d);
}

static void nothing_to_do_is_done(void **state)
{
    (void)state;
    cache_with_runtime("gemm");
    fb_device *d = device();
    check_contraction(d, &(contraction){.dtype = FB_F32, .m = 4, .n = 3, .k = 0, .batch = 1});
    check_contraction(d, &(contraction){.dtype = FB_F32, .m = 0, .n = 3, .k = 2, .batch = 1});
    check_contraction(d, &(contraction){.dtype = FB_F32, .m = 4, .n = 3, .k = 2, .batch = 0});
    d->ops->close(d);
}

/* ---- the machine ---- */

/* However much of a call is no sum: 4 threads that add 10 elements a ns and end a row in 2 ns. */
static void sums_are_told_from_their_call(void **state)
{
    (void)state;
    for (double call_us = 0.1; call_us < 200; call_us *= 7) {
        fb_machine m = {0};
        fb_host_rows few = {512, 4, 32, call_us + 2048e-4 + 4 * 2e-3, call_us + 16384e-4 + 32 * 2e-3};
        fb_host_rows many = {32, 64, 512, call_us + 2048e-4 + 64 * 2e-3, call_us + 16384e-4 + 512 * 2e-3};
        fb_host_sums(&m, 4, &few, &many);
        if (fabs(m.gsum - 40) > 1e-6 || fabs(m.gsum_rows - 2) > 1e-6) fail_msg("%g, %g", m.gsum, m.gsum_rows);
    }
}

static void calibration_is_measured_and_kept(void **state)
{
    (void)state;
    cache_with_runtime("machine");
    fb_device *d = device();
    fb_error err = {0};
    assert_false(d->ops->machine(d)->calibrated);
    if (!d->ops->calibrate(d, NULL, &err)) fail_msg("%s", err.text);
    fb_machine m = *d->ops->machine(d);
    d->ops->close(d);
    assert_true(m.calibrated && m.units >= 1 && m.launch_us > 0 && m.gspecial > 0);
    assert_true(m.copy_hot.n == 14 && m.copy_cold.n == 14);
    for (int i = 0; i < 14; i++)
        assert_true(m.copy_hot.rate[i] > 0 && m.copy_cold.rate[i] > 0 && m.copy_hot.size[i] == ldexp(1, 15 + i));
    for (int t = 0; t < FB_DTYPES; t++) assert_true(m.gflops[t] > 0);
    static const fb_dtype products[] = {FB_F32, FB_F64, FB_F16, FB_BF16};
    for (size_t t = 0; t < sizeof products / sizeof *products; t++)
        assert_true(m.gemm[products[t]].n >= 4); /* however busy the machine is */
    d = device();
    assert_true(d->ops->machine(d)->calibrated);
    assert_string_equal(d->ops->machine(d)->date, m.date);
    /* … with which library is to multiply; it was found out where there are two */
    const fb_host_sgemm *kept = &((fb_host *)d)->sgemm;
    const fb_dnnl *dnnl = fb_dnnl_get(NULL);
    assert_string_equal(kept->library, dnnl ? dnnl->description : "");
    if (dnnl) assert_true(kept->n == m.gemm[FB_F32].n && kept->flops[0] == m.gemm[FB_F32].size[0]);
    d->ops->close(d);
}

static void devices_are_listed(void **state)
{
    (void)state;
    json_t *devices = json_array(), *libraries = json_array();
    fb_device_host.list(devices, libraries);
    assert_int_equal(json_array_size(devices), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(devices, 0), "device")), "host");
    assert_int_equal(json_array_size(libraries), 3);
    for (size_t i = 0; i < 2; i++) assert_true(json_is_true(json_object_get(json_array_get(libraries, i), "found")));
    setenv("CC", "/nonexistent/cc", 1);
    json_array_clear(libraries);
    fb_device_host.list(devices, libraries);
    assert_non_null(
        strstr(json_string_value(json_object_get(json_array_get(libraries, 0), "missing")), "/nonexistent/cc"));
    unsetenv("CC");
    json_decref(devices);
    json_decref(libraries);
    fb_error err = {0};
    assert_null(fb_device_open("abacus:0", &err));
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "host"));
}

static void the_cache_forgets_what_was_not_used(void **state)
{
    (void)state;
    char path[300], bytes[8192] = "";
    const char *dir = in_scratch("trim");
    mkdir(dir, 0700);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/%032d.so", dir, i);
        assert_true(fb_write_file(path, bytes, sizeof bytes, NULL));
        struct timespec used[2] = {{.tv_sec = time(NULL) - 1000 * (5 - i)}, {.tv_sec = time(NULL) - 1000 * (5 - i)}};
        if (i < 4) utimensat(AT_FDCWD, path, used, 0);
    }
    snprintf(path, sizeof path, "%s/%032d.so", dir, 0);
    fb_cache_touch(path);
    fb_cache_trim(dir, 3 * 8192);
    static const bool there[] = {true, false, false, true, true};
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/%032d.so", dir, i);
        assert_int_equal(access(path, F_OK) == 0, there[i]);
    }
    fb_cache_trim(dir, 0); /* the young stay, whatever the limit */
    assert_int_equal(access(path, F_OK), 0);

    /* dated by a clock that was set back since, it is not the youngest for ever */
    const struct timespec to_come[2] = {{.tv_sec = time(NULL) + 86400}, {.tv_sec = time(NULL) + 86400}};
    snprintf(path, sizeof path, "%s/%032d.so", dir, 0);
    assert_int_equal(access(path, F_OK), 0);
    utimensat(AT_FDCWD, path, to_come, 0);
    fb_cache_trim(dir, 8192);
    assert_int_not_equal(access(path, F_OK), 0);

    /* what is no entry is nothing of ours, however old */
    snprintf(path, sizeof path, "%s/letter", dir);
    assert_true(fb_write_file(path, bytes, sizeof bytes, NULL));
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    utimensat(AT_FDCWD, path, long_ago, 0);
    fb_cache_trim(dir, 0);
    fb_cache_empty(dir);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/%032d.so", dir, 4);
    assert_int_not_equal(access(path, F_OK), 0);
}

static int set_up(void **state)
{
    unsetenv("CC");
    return make_scratch(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first, for a process that has had an OpenMP team cannot fork another that wants one */
        cmocka_unit_test(no_room_for_files_is_an_error),
        cmocka_unit_test(a_full_disk_costs_the_cache_alone),
        cmocka_unit_test(a_kernel_is_compiled_once),
        cmocka_unit_test(many_kernels_compile_together_and_apart),
        cmocka_unit_test(company_does_not_change_a_kernel),
        cmocka_unit_test(a_broken_entry_of_the_cache_is_replaced),
        cmocka_unit_test(what_does_not_compile_names_the_kernel),
        cmocka_unit_test(compiling_can_be_cancelled),
        cmocka_unit_test(a_compiler_that_crashes_is_an_error),
        cmocka_unit_test(without_a_compiler_it_says_so),
        cmocka_unit_test(a_compiler_without_openmp_runs_on_one_core),
        cmocka_unit_test(without_a_cache_it_compiles_in_the_temporary_folder),
        cmocka_unit_test(damaged_and_foreign_entries_are_compiled_again),
        cmocka_unit_test(an_entry_that_kills_is_compiled_again),
        cmocka_unit_test(no_pass_outlives_its_front),
        cmocka_unit_test(why_a_compiler_stopped),
        cmocka_unit_test(own_kernels_read_system_headers_alone),
        cmocka_unit_test(long_loops_show_that_they_live),
        cmocka_unit_test(launch_modes_of_other_devices_are_refused),
        cmocka_unit_test(too_large_a_plan_is_refused_before_it_is_allocated),
        cmocka_unit_test(loops_repeat_and_swap),
        cmocka_unit_test(runs_and_copies_take_turns),
        cmocka_unit_test(windows_of_one_buffer_share_a_kernel),
        cmocka_unit_test(equal_elements_have_equal_values),
        cmocka_unit_test(poison_shows_what_was_not_written),
        cmocka_unit_test(buffers_are_allocated_anew),
        cmocka_unit_test(large_programs_stay),
        cmocka_unit_test(contractions_are_those_of_plain_loops),
        cmocka_unit_test(a_second_library_multiplies_on_the_thread_that_calls),
        cmocka_unit_test(a_library_is_chosen_by_shape),
        cmocka_unit_test(epilogues_see_every_row_once),
        cmocka_unit_test(without_a_blas_contractions_are_slow_but_right),
        cmocka_unit_test(nothing_to_do_is_done),
        cmocka_unit_test(sums_are_told_from_their_call),
        cmocka_unit_test(calibration_is_measured_and_kept),
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(the_cache_forgets_what_was_not_used),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
