/* Export for a host: kernels in C, each a file of its own, and one that calls them. */
#include "base/embedded.h"
#include "code/export_parts.h"
#include "code/printer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ---- */

static const char *entry_of(const fb_exporting *x, int kernel)
{
    return fb_arena_printf(x->arena, "%s_k%d", x->job->name, kernel);
}

static bool has_products(const fb_program *p)
{
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].n_products) return true;
    return false;
}

static bool has_gemms(const fb_program *p)
{
    return p->n_gemms > 0 || has_products(p);
}

/* Does a launch of a chain run it? Then its blocks of rows come out of the workspace. */
static bool in_chain(const fb_program *p, int kernel)
{
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].kind == FB_LAUNCH_KERNEL && p->launches[i].kernel == kernel && p->launches[i].n_products)
            return true;
    return false;
}

static void add_kernel(fb_exporting *x, int k)
{
    const fb_program *p = x->job->program;
    const fb_kernel *kernel = &p->kernels[k];
    const char *piece;
    fb_str out = {0};
    fb_export_origin(x, "a kernel", &out);
    if (kernel->merged) fb_str_add(&out, "#define FB_STAGES 1\n");
    fb_str_add(&out, "#include \"prelude.h\"\n");
    if (in_chain(p, k))
        fb_str_add(&out, "#include \"library.h\"\n#define fb_block_new(bytes) fbx_block_new(args, bytes)\n"
                         "#define fb_block_free(block) fbx_block_free(args, block)\n");
    for (int i = 0; (piece = fb_program_kernel_piece(x->job->target, kernel, i)); i++) fb_str_add(&out, piece);
    fb_str_addf(&out, "\n#define %s %s\nvoid %s(const fb_kernel_args *args);\n\n", kernel->entry, entry_of(x, k),
                entry_of(x, k));
    fb_str_add(&out, kernel->source);
    fb_export_add(x, fb_arena_printf(x->arena, "src/k%d_%s.c", k, fb_export_name(kernel->name, x->arena)), &out);
}

/* ---- products ---- */

static const char *const type_name[FB_DTYPES] = {
    [FB_F32] = "FBX_F32", [FB_F64] = "FBX_F64", [FB_F16] = "FBX_F16", [FB_BF16] = "FBX_BF16"};

static bool add_product(fb_exporting *x, int g)
{
    const fb_gemm_call *c = &x->job->program->gemms[g];
    if (!type_name[c->dtype] || c->scale != 1 || c->addend != FB_NONE || c->bias != FB_NONE || c->relu)
        return fb_fail(x->err, FB_ERR_LIMIT, "a library call of this plan is none that a host's library makes");
    fb_str_addf(x->out,
                "    {.type = %s, .m = %" PRId64 ", .n = %" PRId64 ", .k = %" PRId64 ", .batch = %" PRId64
                ", .a_row = %" PRId64 ", .a_col = %" PRId64 ", .a_batch = %" PRId64 ",\n     .b_row = %" PRId64
                ", .b_col = %" PRId64 ", .b_batch = %" PRId64 ", .c_row = %" PRId64 ", .c_batch = %" PRId64
                ", .a_offset = %" PRId64 ", .b_offset = %" PRId64,
                type_name[c->dtype], c->m, c->n, c->k, c->batch, c->a_row, c->a_col, c->a_batch, c->b_row, c->b_col,
                c->b_batch, c->c_row, c->c_batch, c->a_offset, c->b_offset);
    if (c->epilogue != FB_NONE) fb_str_addf(x->out, ", .epilogue = %s", entry_of(x, c->epilogue));
    fb_str_add(x->out, "},\n");
    return true;
}

/* The chains, numbered in order of their launches. */
static int chains(const fb_program *p, int until)
{
    int n = 0;
    for (int i = 0; i < until; i++) n += p->launches[i].n_products > 0;
    return n;
}

static bool add_links(fb_exporting *x)
{
    const fb_program *p = x->job->program;
    int n = chains(p, p->n_launches);
    if (!n) return true;
    fb_str_add(x->out, "static const fbx_link links[][2] = {\n");
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (!l->n_products) continue;
        if (l->n_products > 2)
            return fb_fail(x->err, FB_ERR_LIMIT, "a chain of this plan is of more than two products");
        fb_str_add(x->out, "    {");
        for (int k = 0; k < l->n_products; k++) {
            const fb_chain_product_call *c = &l->products[k];
            if (!type_name[c->dtype]) return fb_fail(x->err, FB_ERR_LIMIT, "a chain multiplies what no library does");
            fb_str_addf(x->out,
                        "%s{.product = {.type = %s, .m = %" PRId64 ", .n = %" PRId64 ", .k = %" PRId64
                        ", .batch = 1, .a_row = %" PRId64 ", .a_col = %" PRId64 ",\n                  .b_row = %" PRId64
                        ", .b_col = %" PRId64 ", .c_row = %" PRId64 "}, .buffer = {%d, %d}, .elements = {%" PRId64
                        ", %" PRId64 "}}",
                        k ? ",\n     " : "", type_name[c->dtype], c->rows, c->n, c->k, c->a_row, c->a_col, c->b_row,
                        c->b_col, c->n, c->a, c->b, c->a == FB_NONE ? 0 : p->buffers[c->a].elements,
                        c->b == FB_NONE ? 0 : p->buffers[c->b].elements);
        }
        fb_str_add(x->out, "},\n");
    }
    fb_str_addf(x->out, "};\nenum { CHAINS = %d };\nstatic const int n_links[] = {", n);
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].n_products) fb_str_addf(x->out, "%d, ", p->launches[i].n_products);
    fb_str_add(x->out, "};\nstatic const int64_t block_bytes[] = {");
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].n_products)
            fb_str_addf(x->out, "%" PRId64 ", ", p->kernels[p->launches[i].kernel].needs.block_bytes);
    fb_str_add(x->out, "};\n\n");
    return true;
}

/* ---- the launches ---- */

static void add_pointers(fb_exporting *x, const fb_launch *l)
{
    fb_str_add(x->out, l->n_args ? "(void *[]){" : "(void *[]){NULL");
    fb_export_arguments(x, l);
    fb_str_add(x->out, "}");
}

static void add_launch(fb_exporting *x, int i, int depth)
{
    const fb_program *p = x->job->program;
    const fb_launch *l = &p->launches[i];
    int indent = 4 * (depth + 1);
    if (l->kind == FB_LAUNCH_GEMM) {
        const fb_gemm_call *c = &p->gemms[l->gemm];
        fb_str_addf(x->out, "%*sfbx_run(&h->blas, &h->calls[%d], ", indent, "", l->gemm);
        fb_export_place(x->out, c->a, 0, c->a_advance);
        fb_str_add(x->out, ", ");
        fb_export_place(x->out, c->b, 0, c->b_advance);
        fb_str_add(x->out, ", ");
        fb_export_place(x->out, c->c, 0, c->c_advance);
        fb_str_add(x->out, ", ");
        add_pointers(x, l);
        fb_str_add(x->out, ");\n");
        return;
    }
    const fb_kernel *k = &p->kernels[l->kernel];
    int chain = l->n_products ? chains(p, i) : 0;
    if (l->n_products) fb_str_addf(x->out, "%*sfbx_chain_begin(&h->chains[%d], h->b);\n", indent, "", chain);
    fb_str_addf(x->out, "%*s%s(&(fb_kernel_args){.buffers = ", indent, "", entry_of(x, l->kernel));
    add_pointers(x, l);
    fb_str_addf(x->out, ", .first = %d, .last = INT64_MAX", k->merged && l->gemm != FB_NONE ? l->gemm : 0);
    if (l->n_products) fb_str_addf(x->out, ", .multiply = fbx_chain_multiply, .context = &h->chains[%d]", chain);
    if (k->merged && p->n_gemms) fb_str_add(x->out, ", .gemm = call, .device = h");
    if (l->steps) fb_str_addf(x->out, ", .steps = %" PRId64, l->steps);
    fb_str_addf(x->out, "}); /* %s */\n", k->name);
}

static bool any_merged(const fb_program *p)
{
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].merged) return true;
    return false;
}

static const fb_export_memory memory = {
    .place = "char *", .home = "char *const *", .stream = "", .unused = "", .copy = "memcpy(", .end = ""};

static void add_run(fb_exporting *x)
{
    const fb_program *p = x->job->program;
    fb_export_swap(x, &memory);
    if (any_merged(p) && p->n_gemms)
        fb_str_add(
            x->out,
            "/* For kernels that call the library on the way. */\nstatic void call(void *device, int number, void "
            "*const *buffers)\n{\n    handle *h = device;\n    fbx_run(&h->blas, &h->calls[number], buffers[0], "
            "buffers[1], buffers[2], buffers + 3);\n}\n\n");
    fb_str_add(x->out, "static void launch(handle *h)\n{\n    (void)h;\n");
    fb_export_launches(x, add_launch);
    fb_str_add(x->out, "}\n\n");
}

static void add_prototypes(fb_exporting *x)
{
    const fb_program *p = x->job->program;
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].source) fb_str_addf(x->out, "void %s(const fb_kernel_args *args);\n", entry_of(x, k));
    fb_str_add(x->out, "\n");
}

bool fb_export_program_c(fb_exporting *x)
{
    const fb_program *p = x->job->program;
    fb_str out = {0}, prelude = {0}, library = {0};
    fb_str_add(&prelude, fb_printer_prelude(x->job->target));
    fb_str guarded = {0};
    fb_str_addf(&guarded, "#ifndef FBX_PRELUDE_H\n#define FBX_PRELUDE_H\n%s\n#endif\n", fb_str_get(&prelude));
    fb_str_free(&prelude);
    fb_export_add(x, "src/prelude.h", &guarded);
    if (has_gemms(p)) {
        fb_str_add(&library, fb_embedded("kernels/export_library.h"));
        fb_export_add(x, "src/library.h", &library);
    }
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].source) add_kernel(x, k);
    x->out = &out;
    fb_export_origin(x, "what is launched, in order", &out);
    const char *n = x->job->name;
    fb_str_addf(
        &out,
        "#include \"%s.h\"\n#include \"src/prelude.h\"\n%s\n#include <stdatomic.h>\n#include <stddef.h>\n#include "
        "<stdio.h>\n#include <string.h>\n\n",
        n, has_gemms(p) ? "#include \"src/library.h\"\n" : "");
    add_prototypes(x);
    bool fine = fb_export_products(x, "fbx_product", add_product) && add_links(x);
    fb_str_addf(
        &out,
        "typedef struct %s handle;\nstruct %s {\n    atomic_flag busy;\n    char *workspace; /* one allocation: "
        "the rest lies in it */\n    char *pool, *aside;\n    char *b[%d]; /* where each buffer is; swaps exchange "
        "two */\n",
        n, n, p->n_buffers + 1);
    if (has_gemms(p)) fb_str_add(&out, "    fbx_blas blas;\n");
    if (p->n_gemms) fb_str_add(&out, "    fbx_call calls[PRODUCTS];\n");
    if (has_products(p)) fb_str_add(&out, "    fbx_chain chains[CHAINS];\n");
    fb_str_add(&out, "    char message[160];\n};\n\n");
    fb_str_addf(&out, "enum { BUFFERS = %d };\nstatic const int64_t pool_bytes = %" PRId64 ";\n\n", p->n_buffers,
                p->pool_bytes);
    fb_export_checks(x, &out);
    add_run(x);
    fb_export_settle(x, &memory);
    fb_export_temporaries(x);
    fb_str_addf(
        &out,
        "#define NAME(x) %s_##x\n#define CODE(x) %s_##x\n#define HAS_LIBRARY %d\n#define HAS_PRODUCTS %d\n#define "
        "HAS_CHAINS %d\n\n",
        n, fb_export_upper(x), has_gemms(p), p->n_gemms > 0, has_products(p));
    fb_str_add(&out, fb_embedded("kernels/export_host.c"));
    if (fine)
        fb_export_add(x, fb_arena_printf(x->arena, "%s.c", n), &out);
    else
        fb_str_free(&out);
    return fine;
}
