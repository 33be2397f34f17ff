#include "codegen/program.h"

#include "codegen/lower.h"

#include <inttypes.h>

void fb_program_free(fb_program *p)
{
    if (p) fb_arena_free(p->arena);
}

int64_t fb_program_launches(const fb_program *p)
{
    enum { MAX_DEPTH = 64 };
    int64_t times[MAX_DEPTH] = {1}, launches = 0;
    int depth = 0;
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->kind == FB_LAUNCH_REPEAT && depth + 1 < MAX_DEPTH) {
            times[depth + 1] = times[depth] * l->count;
            depth++;
        } else if (l->kind == FB_LAUNCH_END && depth > 0) {
            depth--;
        } else if (l->kind == FB_LAUNCH_KERNEL || l->kind == FB_LAUNCH_GEMM) {
            launches += times[depth];
        }
    }
    return launches;
}

/* ---- printing ---- */

static const char *const kinds[] = {
    [FB_BUFFER_INPUT] = "input", [FB_BUFFER_PARAM] = "param", [FB_BUFFER_TEMP] = "temp", [FB_BUFFER_OUTPUT] = "output"};

static void print_args(const fb_program *p, const fb_launch *l, fb_str *out)
{
    for (int i = 0; i < l->n_args; i++) {
        fb_str_addf(out, "%s%s", i ? ", " : "", p->buffers[l->args[i]].name);
        if (l->offsets && l->offsets[i]) fb_str_addf(out, " + %" PRId64 " bytes", l->offsets[i]);
    }
}

static void print_launch(const fb_program *p, const fb_launch *l, int depth, fb_str *out)
{
    fb_str_addf(out, " * %*s", 4 * depth + 4, "");
    const fb_gemm_call *g = l->kind == FB_LAUNCH_GEMM ? &p->gemms[l->gemm] : NULL;
    switch (l->kind) {
    case FB_LAUNCH_KERNEL:
        fb_str_addf(out, "%s(", p->kernels[l->kernel].name);
        print_args(p, l, out);
        fb_str_add(out, ")\n");
        break;
    case FB_LAUNCH_GEMM:
        fb_str_addf(out, "%s = gemm(%s, %s)  %" PRId64 " × %" PRId64 " × %" PRId64, p->buffers[g->c].name,
                    p->buffers[g->a].name, p->buffers[g->b].name, g->m, g->n, g->k);
        if (g->batch > 1) fb_str_addf(out, ", %" PRId64 " times", g->batch);
        if (g->epilogue != FB_NONE) {
            fb_str_addf(out, ", then %s(", p->kernels[g->epilogue].name);
            print_args(p, l, out);
            fb_str_add(out, ")");
        }
        fb_str_add(out, "\n");
        break;
    case FB_LAUNCH_REPEAT: fb_str_addf(out, "repeat %" PRId64 "\n", l->count); break;
    case FB_LAUNCH_END: fb_str_add(out, "end\n"); break;
    case FB_LAUNCH_SWAP:
        fb_str_addf(out, "swap %s, %s\n", p->buffers[l->swap_a].name, p->buffers[l->swap_b].name);
        break;
    }
}

void fb_program_print(const fb_program *p, const fb_dialect *dialect, fb_str *out)
{
    fb_str_add(out, fb_dialect_prelude(dialect));
    fb_str_add(out, "\n/* buffers\n");
    for (int i = 0; i < p->n_buffers; i++) {
        const fb_buffer *b = &p->buffers[i];
        fb_str_addf(out, " *     %-7s %-32s %s × %" PRId64 "\n", kinds[b->kind], b->name, fb_dtype_name(b->dtype),
                    b->elements);
    }
    fb_str_add(out, " * launches\n");
    for (int i = 0, depth = 0; i < p->n_launches; i++) {
        if (p->launches[i].kind == FB_LAUNCH_END) depth--;
        print_launch(p, &p->launches[i], depth, out);
        if (p->launches[i].kind == FB_LAUNCH_REPEAT) depth++;
    }
    fb_str_add(out, " */\n");
    for (int i = 0; i < p->n_kernels; i++) {
        if (p->kernels[i].source) fb_str_addf(out, "\n%s", p->kernels[i].source);
    }
}
