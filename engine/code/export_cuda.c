/* Export for a GPU: calls of the driver, with cubins and PTX in arrays; products by cuBLASLt, where the plan asks. */
#include "base/embedded.h"
#include "code/export_parts.h"

#include <inttypes.h>
#include <string.h>

/* ---- machine code ---- */

static void add_array(fb_str *out, const char *name, const void *bytes, size_t n)
{
    enum { A_LINE = 24 };
    const unsigned char *at = bytes;
    fb_str_addf(out, "static const unsigned char %s[] = {", name);
    for (size_t i = 0; i < n; i++) fb_str_addf(out, "%s%u,", i % A_LINE ? "" : "\n    ", at[i]);
    fb_str_add(out, "\n};\n");
}

static void add_code(fb_exporting *x)
{
    const fb_program *p = x->job->program;
    fb_str out = {0};
    fb_export_origin(x, "machine code of each kernel, and PTX for GPUs that came later", &out);
    for (int k = 0; k < p->n_kernels; k++) {
        const fb_export_code *c = &x->job->codes[k];
        if (!c->cubin) continue;
        add_array(&out, fb_arena_printf(x->arena, "cubin_%d", k), c->cubin, c->cubin_bytes);
        if (c->ptx) add_array(&out, fb_arena_printf(x->arena, "ptx_%d", k), c->ptx, strlen(c->ptx) + 1);
        fb_str source = {0};
        fb_export_origin(x, "a kernel, as it was compiled; for reading", &source);
        fb_str_add(&source, p->kernels[k].source);
        fb_export_add(x, fb_arena_printf(x->arena, "src/k%d_%s.cu", k, fb_export_name(p->kernels[k].name, x->arena)),
                      &source);
    }
    fb_export_add(x, "src/code.h", &out);
}

static bool all_portable(const fb_exporting *x)
{
    bool all = true;
    for (int k = 0; k < x->job->program->n_kernels; k++) all &= !x->job->codes[k].cubin || x->job->codes[k].ptx;
    return all;
}

static void add_kernels(fb_exporting *x)
{
    enum { PORTABLE = 8 }; /* blocks of a cluster */
    const fb_program *p = x->job->program;
    fb_str_add(x->out, "static const kernel kernels[] = {\n");
    for (int k = 0; k < p->n_kernels; k++) {
        const fb_kernel *n = &p->kernels[k];
        const fb_export_code *c = &x->job->codes[k];
        if (!n->source) {
            fb_str_add(x->out, "    {0},\n");
            continue;
        }
        fb_str_addf(x->out, "    {\"%s\", cubin_%d, ", n->entry, k);
        if (c->ptx)
            fb_str_addf(x->out, "ptx_%d", k);
        else
            fb_str_add(x->out, "NULL");
        fb_str_addf(x->out, ", {%d, %d, %d}, {%d, %d, %d}, %d, %s, %d, %s},\n", n->grid[0], n->grid[1], n->grid[2],
                    n->block[0], n->block[1], n->block[2], n->dynamic_shared,
                    n->needs.meets == FB_MEETS_GRID ? "true" : "false", n->needs.row,
                    n->needs.cluster > PORTABLE ? "true" : "false");
    }
    if (!p->n_kernels) fb_str_add(x->out, "    {0},\n");
    fb_str_addf(x->out, "};\nenum { KERNELS = %d };\n\n", p->n_kernels);
}

/* ---- products ---- */

static const char *const type_name[FB_DTYPES] = {
    [FB_F32] = "CUDA_R_32F", [FB_F64] = "CUDA_R_64F", [FB_F16] = "CUDA_R_16F", [FB_BF16] = "CUDA_R_16BF"};

/* As few as an operand's place always has. */
static int aligned_to(int64_t offset, fb_advance advance)
{
    int bytes = 16; /* what the caller's tensors have */
    while (bytes > 1 && ((uint64_t)offset | (uint64_t)advance.bytes) % (uint64_t)bytes) bytes /= 2;
    return bytes;
}

static bool add_product(fb_exporting *x, int g)
{
    const fb_gemm_call *c = &x->job->program->gemms[g];
    if (!type_name[c->dtype] || c->epilogue != FB_NONE)
        return fb_fail(x->err, FB_ERR_LIMIT, "a library call of this plan is none that cuBLASLt makes");
    int64_t size = fb_dtype_size(c->dtype);
    const char *compute = c->dtype == FB_F64                                        ? "CUBLAS_COMPUTE_64F"
                          : c->dtype == FB_F32 && c->precision == FB_PRECISION_TF32 ? "CUBLAS_COMPUTE_32F_FAST_TF32"
                                                                                    : "CUBLAS_COMPUTE_32F";
    fb_str_addf(x->out,
                "    {.type = %s, .compute = %s, .size = %" PRId64 ", .m = %" PRId64 ", .n = %" PRId64 ", .k = %" PRId64
                ", .batch = %" PRId64 ",\n     .a = {%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                "}, .b = {%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "}, .c = {%" PRId64 ", 1, %" PRId64
                ", 0},\n",
                type_name[c->dtype], compute, size, c->m, c->n, c->k, c->batch, c->a_row, c->a_col, c->a_batch,
                c->a_offset * size, c->b_row, c->b_col, c->b_batch, c->b_offset * size, c->c_row, c->c_batch);
    fb_str_addf(
        x->out,
        "     .addend = {%" PRId64 ", 1, %" PRId64 ", %" PRId64 "}, .has_addend = %s, .has_bias = %s, .relu = %s"
        ", .bias_offset = %" PRId64 ", .scale = %.17g, .addend_scale = %.17g,\n     .aligned = {%d, %d, %d}},\n",
        c->addend_row, c->addend_batch, c->addend_offset * size, c->addend != FB_NONE ? "true" : "false",
        c->bias != FB_NONE ? "true" : "false", c->relu ? "true" : "false", c->bias_offset * size, c->scale,
        c->addend_scale, aligned_to(c->a_offset * size, c->a_advance), aligned_to(c->b_offset * size, c->b_advance),
        aligned_to(0, c->c_advance));
    return true;
}

/* ---- launches ---- */

static void add_operand(fb_exporting *x, int buffer, fb_advance advance)
{
    if (buffer == FB_NONE)
        fb_str_add(x->out, "0");
    else
        fb_export_place(x->out, buffer, 0, advance);
}

static void add_launch(fb_exporting *x, int i, int depth)
{
    const fb_program *p = x->job->program;
    const fb_launch *l = &p->launches[i];
    int indent = 4 * (depth + 1);
    if (l->kind == FB_LAUNCH_GEMM) {
        const fb_gemm_call *c = &p->gemms[l->gemm];
        fb_str_addf(x->out, "%*smultiply(h, %d, stream, ", indent, "", l->gemm);
        add_operand(x, c->a, c->a_advance);
        fb_str_add(x->out, ", ");
        add_operand(x, c->b, c->b_advance);
        fb_str_add(x->out, ", ");
        add_operand(x, c->c, c->c_advance);
        fb_str_add(x->out, ", ");
        add_operand(x, c->bias, c->bias_advance);
        fb_str_add(x->out, ", ");
        add_operand(x, c->addend, c->addend_advance);
        fb_str_add(x->out, ");\n");
        return;
    }
    fb_str_addf(x->out, "%*sstart(h, %d, stream, %d, (CUdeviceptr[]){", indent, "", l->kernel, l->n_args);
    fb_export_arguments(x, l);
    fb_str_addf(x->out, "%s}, %" PRId64 "); /* %s */\n", l->n_args ? "" : "0", l->steps, p->kernels[l->kernel].name);
}

static const fb_export_memory memory = {.place = "CUdeviceptr ",
                                        .home = "const CUdeviceptr *",
                                        .stream = ", CUstream stream",
                                        .unused = ", (void)stream",
                                        .copy = "copy(h, ",
                                        .end = ", stream"};

static void add_run(fb_exporting *x)
{
    fb_export_swap(x, &memory);
    fb_str_add(x->out, "static void launch(handle *h, CUstream stream)\n{\n    (void)h, (void)stream;\n");
    fb_export_launches(x, add_launch);
    fb_str_add(x->out, "}\n\n");
    fb_export_settle(x, &memory);
    fb_export_temporaries(x);
}

bool fb_export_program_cuda(fb_exporting *x)
{
    const fb_program *p = x->job->program;
    const char *n = x->job->name;
    fb_str out = {0};
    add_code(x);
    x->out = &out;
    fb_export_origin(x, "what is launched, in order", &out);
    fb_str_addf(&out, "#include \"%s.h\"\n#include \"src/code.h\"\n\n", n);
    fb_str_addf(
        &out,
        "#define NAME(x) %s_##x\n#define CODE(x) %s_##x\n#define HAS_PRODUCTS %d\n#define ARCH \"%s\"\n"
        "#define HAS_PTX %d\n#define THE_HANDLE %s\n\ntypedef struct THE_HANDLE handle;\nenum { BUFFERS = %d };\n"
        "#define POOL_BYTES %" PRId64 "\n\n",
        n, fb_export_upper(x), p->n_gemms > 0, x->job->arch, all_portable(x), n, p->n_buffers, p->pool_bytes);
    fb_str_add(&out, fb_embedded("kernels/export_cuda_begin.c"));
    add_kernels(x);
    bool fine = fb_export_products(x, "product", add_product);
    fb_export_checks(x, &out);
    fb_str_add(&out, fb_embedded("kernels/export_cuda_calls.c"));
    add_run(x);
    fb_str_add(&out, fb_embedded("kernels/export_cuda.c"));
    if (fine)
        fb_export_add(x, fb_arena_printf(x->arena, "%s.c", n), &out);
    else
        fb_str_free(&out);
    return fine;
}
