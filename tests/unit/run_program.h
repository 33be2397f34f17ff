/* Compiles C programs of the lowering with the system's compiler and runs them: what the host device does, without its
 * cache, threads and library, for tests of the generated text alone. Contractions of library calls are plain loops
 * here. */
#ifndef TESTS_UNIT_RUN_PROGRAM_H
#define TESTS_UNIT_RUN_PROGRAM_H

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "code/lower.h"
#include "graph/element.h"
#include "interp/interp.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/naive_convolution.h"

typedef struct kernel_args {
    void *const *buffers;
    int64_t first, last;
    void (*multiply)(const struct kernel_args *args, int product, int64_t rows, const void *a, const void *b, void *to);
    void *context;
    void (*gemm)(void *device, int number, void *const *buffers);
    void *device;
    int64_t steps;
} kernel_args;
typedef void (*kernel_entry)(const kernel_args *args);

/* Who looks at the memory of programs while they run. */
typedef struct {
    void (*forget)(void);
    void (*name)(const char *name, const void *at, size_t bytes);
    char *(*found)(void); /* what is wrong, or NULL; the caller frees it */
} unit_watch;

/* Programs compiled together: program i's kernel k is the symbol p<i>_k<k>. */
typedef struct {
    fb_str text;
    int n_programs;
    void *handle;
    char dir[64];
    const char *libraries; /* instead of -lm */
    const char *before;    /* a header that is read first, or NULL: one that the text includes, too */
    const unit_watch *watch;
    fb_str *wrong; /* takes what the watch finds; without it, that is a failure */
} unit;

static inline int unit_add(unit *u, const fb_program *p)
{
    if (!u->text.n) fb_str_add(&u->text, fb_printer_prelude(&fb_target_c));
    for (int k = 0; k < p->n_kernels; k++) {
        fb_str_addf(&u->text, "\n#define %s p%d_k%d\n%s#undef %s\n", p->kernels[k].entry, u->n_programs, k,
                    p->kernels[k].source, p->kernels[k].entry);
    }
    return u->n_programs++;
}

/* The emulator, which a text may include. */
static inline void unit_shim(char to[4200])
{
    const char *source = getenv("FB_SRCDIR");
    snprintf(to, 4200, "%.4000s/tests/unit/cuda_shim.hpp", source ? source : ".");
}

/* What `command` makes of a text is kept in FB_TEST_COMPILED, where that is set, by all that it depends on: a file of
 * this name there, that begins and ends so. */
static inline bool unit_kept(const char *text, const char *command, const char *begin, const char *end, char to[4200])
{
    const char *dir = getenv("FB_TEST_COMPILED");
    char shim[4200], hex[33];
    if (!dir || !*dir) return false;
    unit_shim(shim);
    char *included = fb_read_file(shim, 1 << 20, NULL, NULL);
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_text(h, command);
    fb_hasher_add_text(h, text);
    fb_hasher_add_text(h, included ? included : "");
    fb_hash_hex(fb_hasher_end(h), hex);
    fb_free(included);
    snprintf(to, 4200, "%.4000s/%s-%s%s", dir, begin, hex, end);
    return true;
}

static inline bool copy_file(const char *from, const char *to)
{
    size_t n = 0;
    char *bytes = fb_read_file(from, 1 << 28, &n, NULL);
    bool ok = bytes && fb_write_file(to, bytes, n, NULL);
    fb_free(bytes);
    return ok;
}

/* The emulator for these flags, parsed once and not for each text: a copy of it, with what the compiler made of it beside
 * (half of what a small text takes). False: nothing is kept. */
static inline bool unit_precompiled(const char *compiler, const char *flags, char to[4200])
{
    char shim[4200], made[4300], making[4400];
    fb_str command = {0};
    fb_str_addf(&command, "%s-header %s -fPIC", compiler, flags);
    if (!unit_kept("", fb_str_get(&command), "cuda_shim", ".hpp", to)) {
        fb_str_free(&command);
        return false;
    }
    snprintf(made, sizeof made, "%s.gch", to);
    snprintf(making, sizeof making, "%s.%d", made, (int)getpid()); /* others may make it, too */
    unit_shim(shim);
    fb_str_addf(&command, " -o '%s' '%s'", making, to);
    bool ok = access(made, F_OK) == 0 ||
              (copy_file(shim, to) && system(fb_str_get(&command)) == 0 && rename(making, made) == 0);
    fb_str_free(&command);
    return ok;
}

/* Writes the text to a folder of its own, compiles it there and loads what comes of it. */
static inline void unit_build(unit *u, const char *compiler, const char *flags, int open_flags)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(u->dir, sizeof u->dir, "%.40s/fusebox-unit.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(u->dir));
    char path[128], kept[4200];
    fb_str command = {0};
    snprintf(path, sizeof path, "%s/unit.c", u->dir); /* what is wrong is told by its lines */
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(fb_str_get(&u->text), f);
    assert_int_equal(fclose(f), 0);
    snprintf(path, sizeof path, "%s/unit.so", u->dir);
    fb_str_addf(&command, "%s %s -fPIC -shared", compiler, flags);
    bool keep = unit_kept(fb_str_get(&u->text), fb_str_get(&command), "unit", ".so", kept);
    if (!keep || !copy_file(kept, path)) {
        if (u->before) fb_str_addf(&command, " -include '%s'", u->before);
        fb_str_addf(&command, " -o %s/unit.so %s/unit.c %s", u->dir, u->dir, u->libraries ? u->libraries : "-lm");
        if (system(fb_str_get(&command)) != 0) fail_msg("the compiler refuses %s/unit.c", u->dir);
        if (keep) copy_file(path, kept);
    }
    fb_str_free(&command);
    u->handle = dlopen(path, open_flags);
    if (!u->handle) fail_msg("%s", dlerror());
}

static inline void unit_compile(unit *u, const char *optimisation)
{
    const char *cc = getenv("CC");
    char flags[250];
    snprintf(flags, sizeof flags,
             "%s -std=gnu17 -march=native -fopenmp -ffp-contract=fast -fno-math-errno -Wall -Wno-unused "
             "-Wno-tautological-compare -Werror",
             optimisation);
    /* stays loaded, for the threads of OpenMP live in it */
    unit_build(u, cc && *cc ? cc : "cc", flags, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static inline void unit_free(unit *u)
{
    char path[128];
    if (u->handle) dlclose(u->handle);
    snprintf(path, sizeof path, "%s/unit.c", u->dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/unit.so", u->dir);
    unlink(path);
    rmdir(u->dir);
    fb_str_free(&u->text);
}

/* ---- running ---- */

static inline kernel_entry unit_entry(const unit *u, int program, int kernel)
{
    char name[64];
    snprintf(name, sizeof name, "p%d_k%d", program, kernel);
    kernel_entry entry;
    *(void **)&entry = dlsym(u->handle, name);
    assert_non_null(entry);
    return entry;
}

static inline double element(const void *at, fb_dtype d, int64_t i)
{
    double v;
    fb_elements_load(d, 1, (const char *)at + i * fb_dtype_size(d), &v);
    return v;
}

/* Elements of an operand of a call, from where it begins. */
typedef struct {
    const void *at;
    fb_dtype dtype;
    int64_t first;
} run_operand;

static inline double run_element(const void *of, int64_t i)
{
    const run_operand *o = of;
    return element(o->at, o->dtype, o->first + i);
}

static inline double run_sum(const fb_gemm_call *c, void *const *buffers, int64_t b, int64_t i, int64_t j)
{
    double sum = 0;
    if (c->convolution.space)
        return naive_convolution(&c->convolution, run_element, &(run_operand){buffers[c->b], c->dtype, c->b_offset},
                                 &(run_operand){buffers[c->a], c->dtype, c->a_offset}, (b * c->m + i) * c->n + j, NULL);
    for (int64_t k = 0; k < c->k; k++)
        sum += element(buffers[c->a], c->dtype, c->a_offset + b * c->a_batch + i * c->a_row + k * c->a_col) *
               element(buffers[c->b], c->dtype, c->b_offset + b * c->b_batch + k * c->b_row + j * c->b_col);
    return sum;
}

static inline void run_gemm(const fb_gemm_call *c, void *const *buffers)
{
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t i = 0; i < c->m; i++)
            for (int64_t j = 0; j < c->n; j++) {
                int64_t at = b * c->c_batch + i * c->c_row + j;
                double sum = run_sum(c, buffers, b, i, j) * c->scale;
                if (c->addend != FB_NONE)
                    sum += c->addend_scale * element(buffers[c->addend], c->dtype,
                                                     c->addend_offset + b * c->addend_batch + i * c->addend_row + j);
                int64_t of = c->convolution.by_places ? at % c->m : j; /* a convolution's channels */
                if (c->bias != FB_NONE) sum += element(buffers[c->bias], c->dtype, c->bias_offset + of);
                if (c->relu && sum < 0) sum = 0;
                fb_elements_store(c->dtype, 1, &sum, (char *)buffers[c->c] + at * fb_dtype_size(c->dtype));
            }
}

/* A chain's product, as plain loops. */
static inline void run_product(const kernel_args *args, int product, int64_t rows, const void *a, const void *b,
                               void *to)
{
    const fb_chain_product_call *c = &((const fb_launch *)args->context)->products[product];
    bool wide = c->dtype == FB_F64;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < c->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < c->k; k++)
                sum += element(a,
                               c->a != FB_NONE ? c->dtype
                               : wide          ? FB_F64
                                               : FB_F32,
                               i * c->a_row + k * c->a_col) *
                       element(b, c->dtype, k * c->b_row + j * c->b_col);
            if (wide)
                ((double *)to)[i * c->n + j] = sum;
            else
                ((float *)to)[i * c->n + j] = (float)sum;
        }
}

/* Fills the sources, poisons the rest, and runs all launches once. The caller frees *storage and the result. */
static inline void **run_program(const unit *u, int number, const fb_program *p, const fb_graph *g, uint64_t seed,
                                 char **storage)
{
    enum { GUARD = 4096 };
    int64_t total = p->pool_bytes + GUARD;
    for (int i = 0; i < p->n_buffers; i++) total += p->buffers[i].bytes + GUARD;
    *storage = fb_alloc((size_t)total);
    memset(*storage, 0xff, (size_t)total); /* NaN in every float dtype */
    void **buffers = fb_calloc((size_t)p->n_buffers + 1, sizeof *buffers);
    char *next = (char *)(((uintptr_t)*storage + 255) & ~(uintptr_t)255), *pool = next;
    const unit_watch *watch = u ? u->watch : NULL;
    if (watch) watch->forget();
    next += (p->pool_bytes + 255) / 256 * 256;
    for (int i = 0; i < p->n_buffers; i++) {
        const fb_buffer *b = &p->buffers[i];
        fb_error err;
        if (b->kind == FB_BUFFER_TEMP) {
            assert_true(b->offset >= 0 && b->offset + b->bytes <= p->pool_bytes);
            buffers[i] = pool + b->offset;
            if (watch) watch->name(b->name, buffers[i], (size_t)b->bytes);
            continue;
        }
        buffers[i] = next;
        if (watch) watch->name(b->name, buffers[i], (size_t)b->bytes);
        next += (b->bytes + 255) / 256 * 256 + 256;
        if (b->kind != FB_BUFFER_OUTPUT &&
            !fb_interp_fill_source(g, b->node, seed, NULL, NULL, 0, b->elements, buffers[i], &err))
            fail_msg("%s", err.text);
    }
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->kind == FB_LAUNCH_SWAP) {
            void *held = buffers[l->swap_a];
            buffers[l->swap_a] = buffers[l->swap_b];
            buffers[l->swap_b] = held;
            continue;
        }
        void **args = fb_calloc((size_t)l->n_args + 1, sizeof *args);
        args[l->n_args] = (void *)(intptr_t)l->steps;
        for (int a = 0; a < l->n_args; a++) args[a] = (char *)buffers[l->args[a]] + (l->offsets ? l->offsets[a] : 0);
        int kernel = l->kernel;
        int64_t rows = 1;
        if (l->kind == FB_LAUNCH_GEMM) {
            run_gemm(&p->gemms[l->gemm], buffers);
            kernel = p->gemms[l->gemm].epilogue;
            rows = p->gemms[l->gemm].m * p->gemms[l->gemm].batch;
        }
        /* epilogues in two blocks, as a device would */
        int64_t half = rows / 2;
        if (kernel != FB_NONE && half) unit_entry(u, number, kernel)(&(kernel_args){.buffers = args, .last = half});
        kernel_args last = {.buffers = args,
                            .first = half,
                            .last = rows,
                            .multiply = run_product,
                            .context = (void *)l,
                            .steps = l->steps};
        if (kernel != FB_NONE) unit_entry(u, number, kernel)(&last);
        fb_free(args);
    }
    char *wrong = watch ? watch->found() : NULL;
    if (wrong && !u->wrong) fail_msg("%s", wrong);
    if (wrong) fb_str_add(u->wrong, wrong);
    fb_free(wrong);
    return buffers;
}

/* Every output and assigned parameter against the reference, within its bound. The text says the first that is not. */
static inline bool check_program(const fb_program *p, void *const *buffers, const fb_graph *g, const fb_interp *in,
                                 char text[512])
{
    for (int o = 0; o < g->n_outputs; o++) {
        fb_id out = g->outputs[o];
        fb_id held = g->nodes[out].op == FB_OP_ASSIGN ? g->nodes[out].args[0] : out;
        const fb_tensor *t = fb_interp_get(in, out);
        int buffer = FB_NONE;
        for (int i = 0; i < p->n_buffers; i++)
            if (p->buffers[i].node == held && p->buffers[i].kind != FB_BUFFER_TEMP &&
                (p->buffers[i].kind == FB_BUFFER_OUTPUT || buffer == FB_NONE))
                buffer = i;
        snprintf(text, 512, "%s has no %s", g->nodes[out].name, t ? "buffer" : "reference");
        if (!t || buffer == FB_NONE) return false;
        fb_dtype d = g->nodes[out].dtype;
        for (int64_t i = 0; i < t->n; i++) {
            const char *at = (const char *)buffers[buffer] + i * fb_dtype_size(d);
            double want, got, bound = t->bound ? t->bound[i] : 0;
            if (t->v) {
                want = t->v[i];
                fb_elements_load(d, 1, at, &got);
            } else {
                int64_t whole;
                fb_elements_load_int(d, 1, at, &whole);
                want = (double)t->i[i];
                got = (double)whole;
            }
            if (isinf(bound) || (isnan(want) && isnan(got)) || want == got || fabs(want - got) <= bound) continue;
            snprintf(text, 512, "%s[%lld] is %.9g, not %.9g ± %.3g", g->nodes[out].name, (long long)i, got, want,
                     bound);
            return false;
        }
    }
    return true;
}

/* A program that was added to the unit is run, and held against the interpreter. The text says what is wrong; with FB_KEEP
 * that kernel's source is printed. */
static inline bool runs_right(const unit *u, int number, const fb_program *p, const fb_graph *g, char text[512])
{
    fb_error err;
    fb_interp *reference = fb_interp_run(g, &(fb_interp_options){.seed = 3, .bounds = true}, NULL, 0, &err);
    if (!reference) fail_msg("%s", err.text);
    char *storage;
    void **buffers = run_program(u, number, p, g, 3, &storage);
    bool right = check_program(p, buffers, g, reference, text);
    if (!right && getenv("FB_KEEP")) fprintf(stderr, "%s\n", p->kernels[0].source);
    fb_free(storage);
    fb_free(buffers);
    fb_interp_free(reference);
    return right;
}

#endif
