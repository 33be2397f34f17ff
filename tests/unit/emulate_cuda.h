/* CUDA programs of the lowering, run on the CPU: their text, with cuda_shim.hpp in place of what is PTX, compiled by
 * the system's C++ compiler. Library calls are plain loops. */
#ifndef TESTS_UNIT_EMULATE_CUDA_H
#define TESTS_UNIT_EMULATE_CUDA_H

#include "unit/run_program.h"

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

/* A kernel, its dynamic shared memory the emulator's, however it is aligned. */
static inline void add_kernel_text(fb_str *out, const char *source)
{
    fb_str text = {0};
    const char *by = "unsigned char *const fb_shared = shim::shared;";
    add_replaced(&text, source, "extern __shared__ __align__(16) unsigned char fb_shared[];", by);
    add_replaced(out, fb_str_get(&text), "extern __shared__ __align__(1024) unsigned char fb_shared[];", by);
    fb_str_free(&text);
}

/* The emulator, and what stands before every kernel. */
static inline void add_beginning(fb_str *out)
{
    const char *dir = getenv("FB_SRCDIR");
    fb_str_addf(out, "#include \"%s/tests/unit/cuda_shim.hpp\"\n", dir ? dir : ".");
    add_without(out, fb_dialect_prelude(&fb_dialect_cuda), "typedef signed char int8_t;",
                "// ---- minimum and maximum");
}

/* The texts that a kernel stands on; each has a guard. */
static inline void add_pieces(fb_str *out, const fb_kernel *k)
{
    const char *piece;
    for (int i = 0; (piece = fb_kernel_piece(&fb_dialect_cuda, k, i)); i++) {
        if (strstr(piece, "// ---- PTX ----"))
            add_without(out, piece, "// ---- PTX ----", "// ---- end of PTX ----");
        else
            fb_str_add(out, piece);
    }
}

/* Adds a program; the texts that kernels stand on come in front of the first that needs them. */
static inline int unit_add_cuda(unit *u, const fb_program *p)
{
    fb_str *out = &u->text;
    if (!out->n) add_beginning(out);
    for (int k = 0; k < p->n_kernels; k++) {
        const fb_kernel *x = &p->kernels[k];
        add_pieces(out, x);
        fb_str_addf(out, "\n#define %s p%d_k%d_kernel\n", x->entry, u->n_programs, k);
        add_kernel_text(out, x->source);
        bool merged = x->merged; /* its grid may be of any size: it is of one block here */
        fb_str_addf(out,
                    "extern \"C\" void p%d_k%d(void *const **args)\n{\n    const int grid[] = {%d, %d, %d};\n"
                    "    shim::launch(%s, grid, %d, %d, *args);\n}\n#undef %s\n",
                    u->n_programs, k, merged ? 1 : x->grid[0], x->grid[1], x->grid[2], x->entry, x->block[0],
                    x->dynamic_shared, x->entry);
    }
    return u->n_programs++;
}

static inline void unit_emulate(unit *u)
{
    unit_build(u, "c++ -x c++", "-O1 -std=gnu++17 -w", RTLD_NOW | RTLD_LOCAL);
}

#endif
