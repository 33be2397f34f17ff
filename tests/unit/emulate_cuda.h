/* CUDA programs of the lowering, run on the CPU: their text, with cuda_shim.hpp in place of what is PTX, compiled by
 * the system's C++ compiler. Library calls are plain loops. Races are looked for (races.h), unless FB_RACES=0. */
#ifndef TESTS_UNIT_EMULATE_CUDA_H
#define TESTS_UNIT_EMULATE_CUDA_H

#include "unit/races.h"
#include "unit/run_program.h"

static inline bool races_wanted(void)
{
    const char *text = getenv("FB_RACES");
    return !text || strcmp(text, "0") != 0;
}

/* Blocks of a merged kernel's grid, which may be of any size; only where races are looked for has each its own shared
 * variables. */
static inline int emulated_blocks(void)
{
    return races_wanted() ? 2 : 1;
}

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

/* Threads whose row is beyond the last one are told to the emulator: "const fb_at row = inside ? any_row : 6;" */
static inline void add_beyond(fb_str *out, const char *text)
{
    int number = 0;
    for (const char *at; (at = strstr(text, " ? any_row"));) {
        const char *name = at, *end = strchr(at, '\n');
        while (name[-1] != ' ') name--;
        fb_str_add_n(out, text, (size_t)(end - text));
        fb_str_addf(out, " const shim::beyond fb_beyond_%d(!%.*s);", number++, (int)(at - name), name);
        text = end;
    }
    fb_str_add(out, text);
}

/* A kernel, its dynamic shared memory the emulator's, however it is aligned; variables in memory are in its functions.
 */
static inline void add_kernel_text(fb_str *out, const char *source)
{
    fb_str shared = {0}, text = {0}, device = {0};
    const char *by = "unsigned char *const fb_shared = shim::shared;";
    add_replaced(&shared, source, "extern __shared__ __align__(16) unsigned char fb_shared[];", by);
    add_replaced(&text, fb_str_get(&shared), "extern __shared__ __align__(1024) unsigned char fb_shared[];", by);
    add_replaced(&device, fb_str_get(&text), "    static __device__ ", "    SHIM_DEVICE ");
    add_beyond(out, fb_str_get(&device));
    fb_str_free(&shared);
    fb_str_free(&device);
    fb_str_free(&text);
}

/* The emulator, and what stands before every kernel. */
static inline void add_beginning(fb_str *out)
{
    char shim[4200];
    unit_shim(shim);
    fb_str_addf(out, "#include \"%s\"\n", shim);
    add_without(out, fb_printer_prelude(&fb_target_cuda), "typedef signed char int8_t;", "// ---- minimum and maximum");
}

/* The texts that a kernel stands on; each has a guard. */
static inline void add_pieces(fb_str *out, const fb_kernel *k)
{
    const char *piece;
    for (int i = 0; (piece = fb_program_kernel_piece(&fb_target_cuda, k, i)); i++) {
        if (strstr(piece, "// ---- PTX ----"))
            add_without(out, piece, "// ---- PTX ----", "// ---- end of PTX ----");
        else
            fb_str_add(out, piece);
    }
}

/* The body of the function that launches it under that name. */
static inline void add_launch(fb_str *out, const fb_kernel *k, const char *name)
{
    const fb_needs *n = &k->needs;
    bool grid = n->meets == FB_MEETS_GRID;
    int cluster = n->cluster ? n->cluster : 1;
    int together = n->meets == FB_MEETS_CLUSTER ? cluster
                   : grid                       ? emulated_blocks()
                                                : n->row; /* blocks that are there at once */
    fb_str_addf(out,
                "{\n    const int grid[] = {%d, %d, %d};\n"
                "    shim::launch(\"%s\", %s, grid, %d, %d, %d, %d, *args);\n}\n",
                grid ? emulated_blocks() : k->grid[0], k->grid[1], k->grid[2], k->entry, name, together ? together : 1,
                cluster, k->block[0], k->dynamic_shared);
}

/* Adds a program; the texts that kernels stand on come in front of the first that needs them. Stages of one kernel may be
 * called like another's: each kernel has names of its own. */
static inline int unit_add_cuda(unit *u, const fb_program *p)
{
    fb_str *out = &u->text;
    if (!out->n) add_beginning(out);
    for (int k = 0; k < p->n_kernels; k++) {
        const fb_kernel *x = &p->kernels[k];
        add_pieces(out, x);
        fb_str_addf(out, "\n#define %s p%d_k%d_kernel\nnamespace p%d_k%d_names {\n", x->entry, u->n_programs, k,
                    u->n_programs, k);
        add_kernel_text(out, x->source);
        fb_str_addf(out, "extern \"C\" void p%d_k%d(void *const **args)\n", u->n_programs, k);
        add_launch(out, x, x->entry);
        fb_str_addf(out, "}\n#undef %s\n", x->entry);
    }
    return u->n_programs++;
}

/* Compiles with the emulator's parsing done before. */
static inline void unit_build_emulated(unit *u, const char *flags)
{
    static const char compiler[] = "c++ -x c++";
    char before[4200];
    if (unit_precompiled(compiler, flags, before)) u->before = before;
    unit_build(u, compiler, flags, RTLD_NOW | RTLD_LOCAL);
    u->before = NULL;
}

/* The compiler's calls for its thread sanitizer are the emulator's own, so its library is not wanted. */
static inline void unit_emulate(unit *u)
{
    static const unit_watch watch = {races_forget, races_name, races_found};
    bool races = races_wanted();
    if (races) u->libraries = "-nodefaultlibs -lstdc++ -lm -lc -lgcc_s";
    unit_build_emulated(u, races ? "-O1 -std=gnu++17 -w -g1 -DSHIM_RACES -fsanitize=thread -fno-gnu-unique"
                                 : "-O1 -std=gnu++17 -w -fsanitize=alignment -fsanitize-undefined-trap-on-error");
    const races_ops **slot;
    *(void **)&slot = dlsym(u->handle, "shim_races");
    if (!races || !slot) return;
    *slot = &races_emulated;
    u->watch = &watch;
}

/* Program 0 of `u`; what begins with `what`, where that follows `behind` first, is cut out of its text to the
 * semicolon. */
static inline void unit_add_cut(unit *u, const fb_program *p, const char *behind, const char *what)
{
    unit whole = {0};
    unit_add_cuda(&whole, p);
    const char *all = fb_str_get(&whole.text), *text = strstr(all, behind), *at = text ? strstr(text, what) : NULL;
    if (!at) fail_msg("no %s behind %s", what, behind);
    fb_str_add_n(&u->text, all, (size_t)(at - all));
    fb_str_add(&u->text, strchr(at, ';'));
    fb_str_free(&whole.text);
}

/* That such a cut is to be made is told of its text alone, without a compiler. */
static inline void check_cut(const fb_program *p, const char *behind, const char *what)
{
    unit u = {0};
    unit_add_cut(&u, p, behind, what);
    fb_str_free(&u.text);
}

/* The races of a program of which that has been cut out, one a line; the caller frees it. NULL: none. */
static inline char *races_without(const fb_program *p, const fb_graph *g, const char *behind, const char *what)
{
    unit u = {0};
    fb_str found = {0};
    char *storage;
    unit_add_cut(&u, p, behind, what);
    unit_emulate(&u);
    u.wrong = &found;
    fb_free(run_program(&u, 0, p, g, 3, &storage));
    fb_free(storage);
    unit_free(&u);
    return found.text;
}

#endif
