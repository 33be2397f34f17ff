/* CUDA programs of the lowering, run on the CPU: their text, with cuda_shim.hpp in place of what is PTX, compiled by
 * the system's C++ compiler. Library calls are plain loops. */
#ifndef TESTS_UNIT_EMULATE_CUDA_H
#define TESTS_UNIT_EMULATE_CUDA_H

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "codegen/lower.h"
#include "graph/element.h"
#include "graph/interp.h"

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

typedef struct {
    void *const *buffers;
    int64_t first, last;
} kernel_args;
typedef void (*kernel_entry)(const kernel_args *args);

/* Programs compiled together: program i's kernel k is the symbol p<i>_k<k>. */
typedef struct {
    fb_str text;
    int n_programs;
    void *handle;
    char dir[64];
} unit;

static inline bool emulation_exists(void)
{
    return system("echo 'int main() { return 0; }' | c++ -x c++ -std=gnu++17 -fsyntax-only - >/dev/null 2>&1") == 0;
}

/* `text` without what stands between two marks, which must be there. */
static inline void add_without(fb_str *out, const char *text, const char *from, const char *to)
{
    const char *start = strstr(text, from), *end = start ? strstr(start, to) : NULL;
    if (!end) fail_msg("no \"%s\" before \"%s\"", from, to);
    fb_str_add_n(out, text, (size_t)(start - text));
    fb_str_add(out, end);
}

static inline void add_replaced(fb_str *out, const char *text, const char *what, const char *by)
{
    for (const char *at; (at = strstr(text, what)); text = at + strlen(what)) {
        fb_str_add_n(out, text, (size_t)(at - text));
        fb_str_add(out, by);
    }
    fb_str_add(out, text);
}

/* Adds a program; the texts that kernels stand on come in front of the first that needs them. */
static inline int unit_add_cuda(unit *u, const fb_program *p)
{
    fb_str *out = &u->text;
    if (!out->n) {
        char shim[4096];
        const char *dir = getenv("FB_SRCDIR");
        snprintf(shim, sizeof shim, "#include \"%.4000s/tests/unit/cuda_shim.hpp\"\n", dir ? dir : ".");
        fb_str_add(out, shim);
        add_without(out, fb_dialect_prelude(&fb_dialect_cuda), "typedef signed char int8_t;",
                    "// ---- several neighbours");
    }
    for (int k = 0; k < p->n_kernels; k++) {
        const fb_kernel *x = &p->kernels[k];
        const char *piece;
        for (int i = 0; (piece = fb_dialect_piece(&fb_dialect_cuda, x->family, i)); i++) { /* each has a guard */
            if (strstr(piece, "// ---- PTX ----"))
                add_without(out, piece, "// ---- PTX ----", "// ---- end of PTX ----");
            else
                fb_str_add(out, piece);
        }
        fb_str_addf(out, "\n#define %s p%d_k%d_kernel\n", x->entry, u->n_programs, k);
        add_replaced(out, x->source, "extern __shared__ __align__(16) unsigned char fb_shared[];",
                     "unsigned char *const fb_shared = shim::shared;");
        bool merged = x->merged; /* its grid may be of any size: it is of one block here */
        fb_str_addf(out,
                    "extern \"C\" void p%d_k%d(void *const **args)\n{\n    const int grid[] = {%d, %d, %d};\n"
                    "    shim::launch(%s, grid, %d, %d, *args);\n}\n#undef %s\n",
                    u->n_programs, k, merged ? 1 : x->grid[0], x->grid[1], x->grid[2], x->entry, x->block[0], x->dynamic_shared,
                    x->entry);
    }
    return u->n_programs++;
}

static inline void unit_emulate(unit *u)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(u->dir, sizeof u->dir, "%.40s/fusebox-unit.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(u->dir));
    char path[128], command[512];
    snprintf(path, sizeof path, "%s/unit.c", u->dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(fb_str_get(&u->text), f);
    assert_int_equal(fclose(f), 0);
    snprintf(command, sizeof command, "c++ -x c++ -O1 -std=gnu++17 -w -fPIC -shared -o %s/unit.so %s/unit.c -lm",
             u->dir, u->dir);
    if (system(command) != 0) fail_msg("the compiler refuses %s", path);
    snprintf(path, sizeof path, "%s/unit.so", u->dir);
    u->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!u->handle) fail_msg("%s", dlerror());
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

static inline void run_gemm(const fb_gemm_call *c, void *const *buffers)
{
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t i = 0; i < c->m; i++)
            for (int64_t j = 0; j < c->n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < c->k; k++)
                    sum +=
                        element(buffers[c->a], c->dtype, c->a_offset + b * c->a_batch + i * c->a_row + k * c->a_col) *
                        element(buffers[c->b], c->dtype, c->b_offset + b * c->b_batch + k * c->b_row + j * c->b_col);
                int64_t at = b * c->c_batch + i * c->c_row + j;
                sum *= c->scale;
                if (c->addend != FB_NONE)
                    sum += c->addend_scale * element(buffers[c->addend], c->dtype,
                                                     c->addend_offset + b * c->addend_batch + i * c->addend_row + j);
                if (c->bias != FB_NONE) sum += element(buffers[c->bias], c->dtype, c->bias_offset + j);
                if (c->relu && sum < 0) sum = 0;
                fb_elements_store(c->dtype, 1, &sum, (char *)buffers[c->c] + at * fb_dtype_size(c->dtype));
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
    next += (p->pool_bytes + 255) / 256 * 256;
    for (int i = 0; i < p->n_buffers; i++) {
        const fb_buffer *b = &p->buffers[i];
        fb_error err;
        if (b->kind == FB_BUFFER_TEMP) {
            assert_true(b->offset >= 0 && b->offset + b->bytes <= p->pool_bytes);
            buffers[i] = pool + b->offset;
            continue;
        }
        buffers[i] = next;
        next += (b->bytes + 255) / 256 * 256 + 256;
        if (b->kind != FB_BUFFER_OUTPUT &&
            !fb_source_fill(g, b->node, seed, NULL, NULL, 0, b->elements, buffers[i], &err))
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
        if (kernel != FB_NONE && half) unit_entry(u, number, kernel)(&(kernel_args){args, 0, half});
        if (kernel != FB_NONE) unit_entry(u, number, kernel)(&(kernel_args){args, half, rows});
        fb_free(args);
    }
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

#endif
