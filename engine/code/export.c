/* What the folders of both languages share: names, tensors, the header, the launch list as statements, the build files.
 * What differs is in export_c.c and export_cuda.c. Needs a program and its graph; leaves texts in an arena.
 */
#include "base/ascii.h"
#include "base/embedded.h"
#include "base/mem.h"
#include "code/export_parts.h"
#include "code/names.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { LONGEST_NAME = 48 };

/* ---- names ---- */

/* Of C and C++, words that some of their headers or compilers know, and targets of the Makefile. */
static bool is_taken(const char *name)
{
    static const char *const words[] = {"I",        "all",     "clean", "complex", "final",
                                        "import",   "install", "main",  "module",  "noreturn",
                                        "override", "stderr",  "stdin", "stdout",  "test"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name) == 0) return true;
    return fb_names_is_word(name);
}

const char *fb_export_name(const char *wish, fb_arena *arena)
{
    char name[LONGEST_NAME + 1];
    size_t n = 0;
    for (; *wish && n < LONGEST_NAME; wish++) {
        bool fits = isascii((unsigned char)*wish) && isalnum((unsigned char)*wish);
        if (!fits && (!n || name[n - 1] == '_')) continue;
        if (!n && isdigit((unsigned char)*wish)) name[n++] = 't';
        if (n < LONGEST_NAME) name[n++] = fits ? *wish : '_';
    }
    while (n && name[n - 1] == '_') n--;
    name[n] = '\0';
    if (!n) return "tensor";
    return fb_arena_printf(arena, "%s%s", name, is_taken(name) ? "_" : "");
}

/* ---- tensors ---- */

static bool is_callers(const fb_buffer *b)
{
    return b->kind != FB_BUFFER_TEMP;
}

static const char *field_of(fb_name_set *taken, const char *name, fb_arena *arena)
{
    const char *wish = fb_export_name(name, arena), *field = wish;
    for (int k = 2; fb_names_has(taken, field); k++) field = fb_arena_printf(arena, "%s_%d", wish, k);
    fb_names_add(taken, field);
    return field;
}

/* Outputs, what is assigned and what is received, each found in the buffer that holds it after a run. */
static fb_id checked_node(const fb_program *p, const fb_graph *g, int buffer)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (fb_program_left(p, g, g->outputs[i]) == buffer) return g->outputs[i];
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_op op = g->nodes[i].op;
        if ((op == FB_OP_ASSIGN || op == FB_OP_RECEIVE) && fb_program_left(p, g, i) == buffer) return i;
    }
    return FB_NONE;
}

int fb_export_tensors(const fb_program *p, const fb_graph *g, fb_arena *arena, fb_export_tensor **out)
{
    fb_name_set *taken = fb_names_new();
    fb_export_tensor *t = *out = FB_NEW_ARRAY(arena, fb_export_tensor, p->n_buffers + 1);
    int n = 0;
    for (int b = 0; b < p->n_buffers; b++) {
        if (!is_callers(&p->buffers[b])) continue;
        bool given = p->buffers[b].kind != FB_BUFFER_OUTPUT;
        t[n++] = (fb_export_tensor){.buffer = b,
                                    .field = field_of(taken, p->buffers[b].name, arena),
                                    .given = given,
                                    .checked = !given || p->buffers[b].assigned ? checked_node(p, g, b) : FB_NONE};
    }
    fb_names_free(taken);
    return n;
}

static const fb_buffer *buffer_of(const fb_exporting *x, int tensor)
{
    return &x->job->program->buffers[x->tensors[tensor].buffer];
}

static bool is_written(const fb_buffer *b)
{
    return b->kind == FB_BUFFER_OUTPUT || b->assigned;
}

static const char *const c_type[FB_DTYPES] = {
    [FB_F32] = "float",   [FB_F16] = "uint16_t", [FB_BF16] = "uint16_t", [FB_F64] = "double",
    [FB_I32] = "int32_t", [FB_I64] = "int64_t",  [FB_BOOL] = "uint8_t"};
static const char dtype_letter[FB_DTYPES] = {
    [FB_F32] = 'f', [FB_F16] = 'h', [FB_BF16] = 'b', [FB_F64] = 'd', [FB_I32] = 'i', [FB_I64] = 'l', [FB_BOOL] = 'c'};

static bool on_gpu(const fb_exporting *x)
{
    return x->job->target->grid;
}

static int alignment(const fb_exporting *x, fb_dtype dtype)
{
    return on_gpu(x) ? 16 : (int)fb_dtype_size(dtype);
}

/* ---- texts ---- */

void fb_export_add(fb_exporting *x, const char *path, fb_str *text)
{
    size_t n = text->n;
    char *bytes = fb_arena_strdup(x->arena, fb_str_get(text));
    FB_VEC_PUSH(&x->files, ((fb_export_file){fb_arena_strdup(x->arena, path), bytes, n}));
    fb_str_free(text);
}

/* In a comment, which nothing of the user's must end. */
static void add_comment(fb_str *out, const char *text)
{
    for (const char *p = text; *p; p++)
        fb_str_add_n(out, (unsigned char)*p < ' ' || (*p == '*' && p[1] == '/') ? "?" : p, 1);
}

void fb_export_origin(const fb_exporting *x, const char *what, fb_str *out)
{
    fb_str_addf(out, "/* %s: %s\n * Written by fusebox %s from ", x->job->name, what, x->job->version);
    add_comment(out, x->job->origin);
    fb_str_add(out, ". */\n");
}

const char *fb_export_upper(const fb_exporting *x)
{
    char *name = fb_arena_strdup(x->arena, x->job->name);
    for (char *p = name; *p; p++) *p = fb_ascii_upper(*p);
    return name;
}

/* ---- the header ---- */

static void add_shape(fb_str *out, const fb_shape *s)
{
    int64_t stride[FB_MAX_RANK];
    fb_shape_strides(s, stride);
    fb_str_add(out, "[");
    for (int d = 0; d < s->rank; d++) fb_str_addf(out, "%s%" PRId64, d ? "," : "", s->dim[d]);
    fb_str_add(out, "]");
    for (int d = 0; d < s->rank; d++) fb_str_addf(out, "%s%" PRId64, d ? ", " : ", strides ", stride[d]);
    if (s->rank) fb_str_add(out, " elements");
}

static const char *role(const fb_buffer *b)
{
    if (b->kind == FB_BUFFER_OUTPUT) return "output";
    if (b->kind == FB_BUFFER_INPUT) return "input";
    return b->assigned ? "parameter, which each run updates" : "parameter";
}

static void add_field(const fb_exporting *x, int i, fb_str *out)
{
    const fb_buffer *b = buffer_of(x, i);
    const fb_node *n = &x->job->graph->nodes[b->node];
    fb_str_addf(out, "    %s%s *%s; /* %s ", is_written(b) ? "" : "const ", c_type[b->dtype], x->tensors[i].field,
                role(b));
    add_comment(out, b->name);
    fb_str_addf(out, ": %s", fb_dtype_name(b->dtype));
    if (fb_shape_elements(&n->shape) == b->elements)
        add_shape(out, &n->shape);
    else
        fb_str_addf(out, "[%" PRId64 "]", b->elements);
    fb_str_addf(out, ", %" PRId64 " bytes, aligned to %d */\n", b->bytes, alignment(x, b->dtype));
}

static const char about_handle[] =
    "/* A handle owns the workspace of a run: temporaries, and what libraries need. It runs one at a time (a second "
    "call\n"
    " * beside is BUSY), and different handles run side by side. A run allocates nothing. */\n";

static void add_functions(const fb_exporting *x, fb_str *out)
{
    const char *n = x->job->name;
    fb_str_add(out, about_handle);
    fb_str_addf(out, "typedef struct %s %s;\n\n", n, n);
    if (on_gpu(x)) {
        fb_str_addf(out,
                    "struct CUstream_st;\n/* With the context current whose GPU is to run it; runs may be of threads "
                    "without one. A GPU of another "
                    "architecture than %s takes "
                    "the PTX, where\n * there is one; else NO_CODE. */\n"
                    "%s_API %s_status %s_create(%s **to);\n",
                    x->job->arch, fb_export_upper(x), n, n, n);
        fb_str_addf(
            out,
            "/* Pointers are the device's. Returns when all is queued in the stream, which may be captured into "
            "a CUDA graph; the\n * same handle again in the same stream, or after it was waited for. */\n"
            "%s_API %s_status %s_run(%s *h, const %s_tensors *t, struct CUstream_st *stream);\n",
            fb_export_upper(x), n, n, n, n);
    } else {
        fb_str_addf(out, "%s_API %s_status %s_create(%s **to);\n", fb_export_upper(x), n, n, n);
        fb_str_addf(out, "/* Returns when it is done. */\n%s_API %s_status %s_run(%s *h, const %s_tensors *t);\n",
                    fb_export_upper(x), n, n, n, n);
    }
    fb_str_addf(out, "%s_API void %s_destroy(%s *h); /* NULL is fine */\n", fb_export_upper(x), n, n);
    fb_str_addf(out, "%s_API const char *%s_explain(%s_status status); /* a few words */\n", fb_export_upper(x), n, n);
    fb_str_addf(out,
                "/* Of the last call with this handle: which tensor, and what of it. \"\" where all went well. */\n"
                "%s_API const char *%s_error(const %s *h);\n",
                fb_export_upper(x), n, n);
    fb_str_addf(out,
                "/* What multiplies matrices: \"libopenblas.so.0\"; \"\": nothing is asked for that. */\n"
                "%s_API const char *%s_library(const %s *h);\n",
                fb_export_upper(x), n, n);
}

static void add_header(fb_exporting *x)
{
    const char *n = x->job->name, *u = fb_export_upper(x);
    fb_str out = {0};
    fb_export_origin(x, on_gpu(x) ? "kernels for a GPU" : "kernels for this machine", &out);
    fb_str_addf(&out,
                "#ifndef %s_H\n#define %s_H\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
                u, u);
    fb_str_addf(&out,
                "#if defined __GNUC__\n#define %s_API __attribute__((visibility(\"default\")))\n#else\n"
                "#define %s_API\n#endif\n\n",
                u, u);
    fb_str_addf(&out,
                "typedef enum {\n    %s_OK,\n    %s_NULL,       /* a handle or a tensor is missing */\n"
                "    %s_MISALIGNED, /* a tensor does not begin where its type may */\n"
                "    %s_OVERLAP,    /* what is written lies over another tensor */\n"
                "    %s_BUSY,       /* the handle runs already */\n"
                "    %s_NO_MEMORY,\n    %s_NO_DEVICE, /* no context is current, or a call of the driver failed */\n"
                "    %s_NO_CODE,   /* the GPU's architecture is not among those that it was compiled for */\n"
                "    %s_NO_LIBRARY /* the library of matrices is missing, or refuses */\n} %s_status;\n\n",
                u, u, u, u, u, u, u, u, u, n);
    fb_str_add(&out,
               "/* Row-major, densely packed. f16 and bf16 are given as their bits. Tensors that are only read may "
               "overlap. */\n");
    fb_str_addf(&out, "typedef struct {\n");
    for (int i = 0; i < x->n_tensors; i++) add_field(x, i, &out);
    if (!x->n_tensors) fb_str_add(&out, "    char nothing;\n");
    fb_str_addf(&out, "} %s_tensors;\n\n", n);
    add_functions(x, &out);
    fb_str_add(&out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    fb_export_add(x, fb_arena_printf(x->arena, "%s.h", n), &out);
}

/* ---- what both programs share ---- */

void fb_export_place(fb_str *out, int buffer, int64_t offset, fb_advance advance)
{
    fb_str_addf(out, "h->b[%d]", buffer);
    if (offset) fb_str_addf(out, " + %" PRId64, offset);
    if (advance.bytes && advance.every > 1)
        fb_str_addf(out, " + t%d / %" PRId64 " * %" PRId64, advance.level, advance.every, advance.bytes);
    else if (advance.bytes)
        fb_str_addf(out, " + t%d * %" PRId64, advance.level, advance.bytes);
}

typedef struct {
    fb_exporting *x;
    void (*launch)(fb_exporting *x, int i, int depth);
} statements;

static void add_statement(void *ctx, int i, int depth)
{
    const statements *s = ctx;
    const fb_launch *l = &s->x->job->program->launches[i];
    int indent = 4 * (depth + 1);
    switch (l->kind) {
    case FB_LAUNCH_REPEAT:
        fb_str_addf(s->x->out, "%*sfor (int64_t t%d = 0; t%d < %" PRId64 "; t%d++) {\n", indent, "", depth, depth,
                    l->count, depth);
        break;
    case FB_LAUNCH_END: fb_str_addf(s->x->out, "%*s}\n", indent, ""); break;
    case FB_LAUNCH_SWAP: fb_str_addf(s->x->out, "%*sswap(h, %d, %d);\n", indent, "", l->swap_a, l->swap_b); break;
    case FB_LAUNCH_KERNEL:
    case FB_LAUNCH_GEMM: s->launch(s->x, i, depth); break;
    }
}

void fb_export_launches(fb_exporting *x, void (*launch)(fb_exporting *x, int i, int depth))
{
    fb_program_each(x->job->program, add_statement, &(statements){x, launch});
}

void fb_export_arguments(fb_exporting *x, const fb_launch *l)
{
    for (int a = 0; a < l->n_args; a++) {
        if (a) fb_str_add(x->out, ", ");
        fb_export_place(x->out, l->args[a], l->offsets ? l->offsets[a] : 0,
                        l->advances ? l->advances[a] : (fb_advance){0});
    }
}

bool fb_export_products(fb_exporting *x, const char *type, bool (*product)(fb_exporting *x, int i))
{
    const fb_program *p = x->job->program;
    bool fine = true;
    if (!p->n_gemms) return true;
    fb_str_addf(x->out, "static const %s products[] = {\n", type);
    for (int g = 0; g < p->n_gemms && fine; g++) fine = product(x, g);
    fb_str_addf(x->out, "};\nenum { PRODUCTS = %d };\n\n", p->n_gemms);
    return fine;
}

static bool has_swaps(const fb_program *p)
{
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].kind == FB_LAUNCH_SWAP) return true;
    return false;
}

/* Bytes of the caller's tensors that swaps leave elsewhere: they are put back after a run. */
static int64_t find_swapped(const fb_program *p, fb_arena *arena, bool **swapped)
{
    int64_t bytes = 0;
    *swapped = FB_NEW_ARRAY(arena, bool, p->n_buffers + 1);
    for (int i = 0; i < p->n_launches; i++) {
        if (p->launches[i].kind != FB_LAUNCH_SWAP) continue;
        (*swapped)[p->launches[i].swap_a] = (*swapped)[p->launches[i].swap_b] = true;
    }
    for (int b = 0; b < p->n_buffers; b++) {
        (*swapped)[b] &= is_callers(&p->buffers[b]);
        if ((*swapped)[b]) bytes += (p->buffers[b].bytes + 255) / 256 * 256;
    }
    return bytes;
}

void fb_export_swap(fb_exporting *x, const fb_export_memory *m)
{
    if (has_swaps(x->job->program))
        fb_str_addf(x->out,
                    "static void swap(handle *h, int a, int b)\n{\n    %sheld = h->b[a];\n    h->b[a] = h->b[b];\n"
                    "    h->b[b] = held;\n}\n\n",
                    m->place);
}

void fb_export_settle(fb_exporting *x, const fb_export_memory *m)
{
    bool *swapped;
    const fb_program *p = x->job->program;
    int64_t bytes = find_swapped(p, x->arena, &swapped);
    fb_str_addf(x->out,
                "enum { ASIDE_BYTES = %" PRId64
                " };\n\n/* What a loop left where it computes goes to where the caller has it. */\n"
                "static void settle(handle *h, %shome%s)\n{\n    (void)h, (void)home%s;\n",
                bytes, m->home, m->stream, m->unused);
    for (int pass = 0; pass < 2; pass++) {
        int64_t at = 0;
        for (int b = 0; b < p->n_buffers; b++) {
            if (!swapped[b]) continue;
            fb_str_addf(x->out, "    if (h->b[%d] != home[%d]) %s", b, b, m->copy);
            if (pass)
                fb_str_addf(x->out, "home[%d], h->aside + %" PRId64, b, at);
            else
                fb_str_addf(x->out, "h->aside + %" PRId64 ", h->b[%d]", at, b);
            fb_str_addf(x->out, ", %" PRId64 "%s);\n", p->buffers[b].bytes, m->end);
            at += (p->buffers[b].bytes + 255) / 256 * 256;
        }
    }
    fb_str_add(x->out, "}\n\n");
}

void fb_export_temporaries(fb_exporting *x)
{
    const fb_program *p = x->job->program;
    fb_str_add(x->out, "/* Temporaries, in the workspace. */\nstatic void place(handle *h)\n{\n    (void)h;\n");
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].kind == FB_BUFFER_TEMP)
            fb_str_addf(x->out, "    h->b[%d] = h->pool + %" PRId64 "; /* %s */\n", b, p->buffers[b].offset,
                        fb_export_name(p->buffers[b].name, x->arena));
    fb_str_add(x->out, "}\n\n");
}

void fb_export_checks(fb_exporting *x, fb_str *out)
{
    const char *n = x->job->name;
    fb_str_add(out,
               "/* The caller's tensors. */\nstatic const struct {\n    const char *name;\n    size_t at; /* in the "
               "struct */\n    int64_t bytes;\n    int buffer, alignment;\n    bool written;\n} tensors[] = {\n");
    for (int i = 0; i < x->n_tensors; i++) {
        const fb_buffer *b = buffer_of(x, i);
        fb_str_addf(out, "    {\"%s\", offsetof(%s_tensors, %s), %" PRId64 ", %d, %d, %s},\n", x->tensors[i].field, n,
                    x->tensors[i].field, b->bytes, x->tensors[i].buffer, alignment(x, b->dtype),
                    is_written(b) ? "true" : "false");
    }
    if (!x->n_tensors) fb_str_add(out, "    {\"\", 0, 0, 0, 1, false},\n");
    fb_str_addf(out, "};\nenum { TENSORS = %d };\n\n", x->n_tensors);
}

/* ---- the test ---- */

static void add_test(fb_exporting *x)
{
    const char *n = x->job->name;
    fb_str out = {0};
    fb_export_origin(x, "a run compared with what a reference in double precision made of the same inputs", &out);
    fb_str_addf(
        &out,
        "#include \"../%s.h\"\n\n#include <stddef.h>\n#include <stdint.h>\n\ntypedef struct {\n    const char "
        "*name;\n    size_t at; /* in the struct */\n    int64_t bytes, elements;\n    char type;\n    int "
        "alignment;\n    int given, checked, written;\n    void *bytes_given, *now;\n    double *expected;\n    "
        "float *allowed;\n} tensor;\n\nstatic tensor tensors[] = {\n",
        n);
    for (int i = 0; i < x->n_tensors; i++) {
        const fb_buffer *b = buffer_of(x, i);
        const fb_export_tensor *t = &x->tensors[i];
        fb_str_addf(&out,
                    "    {\"%s\", offsetof(%s_tensors, %s), %" PRId64 ", %" PRId64 ", '%c', %d, %d, %d, %d, NULL, "
                    "NULL, NULL, NULL},\n",
                    t->field, n, t->field, b->bytes, b->elements, dtype_letter[b->dtype], alignment(x, b->dtype),
                    t->given, t->checked != FB_NONE, is_written(b));
    }
    if (!x->n_tensors) fb_str_add(&out, "    {\"\", 0, 0, 0, 'c', 1, 0, 0, 0, NULL, NULL, NULL, NULL},\n");
    fb_str_addf(&out, "};\nenum { TENSORS = %d };\n", x->n_tensors);
    fb_str_addf(&out, "#define NAME(x) %s_##x\n#define CODE(x) %s_##x\ntypedef %s handle;\n\n", n, fb_export_upper(x),
                n);
    fb_str_add(&out, fb_embedded("kernels/export_test.c"));
    fb_str_add(&out, fb_embedded(on_gpu(x) ? "kernels/export_test_cuda.c" : "kernels/export_test_host.c"));
    fb_export_add(x, "test/main.c", &out);
}

/* ---- build files ---- */

static bool has_gemm(const fb_program *p)
{
    bool any = p->n_gemms > 0;
    for (int i = 0; i < p->n_launches; i++) any |= p->launches[i].n_products > 0;
    return any;
}

static const char *sources(const fb_exporting *x)
{
    fb_str list = {0};
    for (int i = 0; i < x->files.n; i++) {
        const char *path = x->files.at[i].path, *dot = strrchr(path, '.');
        if (strncmp(path, "test/", 5) != 0 && dot && strcmp(dot, ".c") == 0)
            fb_str_addf(&list, "%s%s", list.n ? " " : "", path);
    }
    const char *text = fb_arena_strdup(x->arena, fb_str_get(&list));
    fb_str_free(&list);
    return text;
}

/* Replaces @NAME@ and its like in an embedded file. */
static void add_template(fb_exporting *x, const char *path, const char *file)
{
    const char *libs = on_gpu(x)                   ? has_gemm(x->job->program) ? "-lcuda -lcublasLt" : "-lcuda"
                       : has_gemm(x->job->program) ? "-lm -ldl"
                                                   : "-lm";
    const struct {
        const char *key, *value;
    } keys[] = {{"@NAME@", x->job->name},
                {"@SOURCES@", sources(x)},
                {"@LIBS@", libs},
                {"@VERSION@", x->job->version},
                {"@LIBRARY@", has_gemm(x->job->program) ? "1" : "0"},
                {"@TEST@", x->job->test ? "1" : "0"},
                {"@ARCH@", x->job->arch ? x->job->arch : ""}};
    fb_str out = {0};
    for (const char *at = fb_embedded(file); *at;) {
        size_t n = strcspn(at, "@"), k = 0;
        fb_str_add_n(&out, at, n);
        at += n;
        if (!*at) break;
        while (k < sizeof keys / sizeof *keys && strncmp(at, keys[k].key, strlen(keys[k].key)) != 0) k++;
        if (k < sizeof keys / sizeof *keys) fb_str_add(&out, keys[k].value);
        if (k == sizeof keys / sizeof *keys) fb_str_add(&out, "@");
        at += k < sizeof keys / sizeof *keys ? strlen(keys[k].key) : 1;
    }
    fb_export_add(x, path, &out);
}

static void add_build(fb_exporting *x)
{
    add_template(x, "Makefile", on_gpu(x) ? "kernels/export_cuda.mk" : "kernels/export_host.mk");
    add_template(x, "CMakeLists.txt", on_gpu(x) ? "kernels/export_cuda.cmake" : "kernels/export_host.cmake");
    add_template(x, fb_arena_printf(x->arena, "%s.pc.in", x->job->name), "kernels/export.pc");
}

/* ---- all of it ---- */

int fb_export_files(const fb_export_job *job, fb_arena *arena, fb_export_file **out, fb_error *err)
{
    fb_export_tensor *tensors;
    fb_exporting x = {.job = job, .arena = arena, .err = err};
    x.n_tensors = fb_export_tensors(job->program, job->graph, arena, &tensors);
    x.tensors = tensors;
    add_header(&x);
    bool fine = on_gpu(&x) ? fb_export_program_cuda(&x) : fb_export_program_c(&x);
    if (fine && job->test) add_test(&x);
    if (fine) add_build(&x);
    *out = FB_NEW_ARRAY(arena, fb_export_file, x.files.n + 1);
    if (x.files.n) memcpy(*out, x.files.at, (size_t)x.files.n * sizeof **out);
    int n = fine ? x.files.n : 0;
    FB_VEC_FREE(&x.files);
    return n;
}
