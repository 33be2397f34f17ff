/* What can be asked of a program, and its text. The code of a kernel is its words without comments, layout and its own
 * name, so that equal kernels are one in caches and recordings. The launch list is walked in one place
 * (fb_program_each). Leaves the program as it was.
 */
#include "code/program.h"

#include "base/mem.h"
#include "code/lower.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

void fb_program_free(fb_program *p)
{
    if (p) fb_arena_free(p->arena);
}

fb_gemm_call fb_program_plain_gemm(fb_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    return (fb_gemm_call){.dtype = dtype,
                          .m = m,
                          .n = n,
                          .k = k,
                          .batch = 1,
                          .a_row = k,
                          .a_col = 1,
                          .b_row = n,
                          .b_col = 1,
                          .c_row = n,
                          .epilogue = FB_NONE,
                          .bias = FB_NONE,
                          .scale = 1,
                          .addend = FB_NONE};
}

fb_gemm_call fb_program_transposed_gemm(const fb_gemm_call *c)
{
    fb_gemm_call to = *c;
    to.m = c->n, to.n = c->m;
    to.a = c->b, to.a_offset = c->b_offset, to.a_advance = c->b_advance;
    to.a_row = c->b_col, to.a_col = c->b_row, to.a_batch = c->b_batch;
    to.b = c->a, to.b_offset = c->a_offset, to.b_advance = c->a_advance;
    to.b_row = c->a_col, to.b_col = c->a_row, to.b_batch = c->a_batch;
    return to;
}

fb_gemm_call fb_program_plain_convolution(fb_dtype dtype, int64_t batch, int64_t channels, int64_t side)
{
    enum { KERNEL = 3, TAPS = KERNEL * KERNEL };
    int64_t places = side * side;
    fb_gemm_call call = fb_program_plain_gemm(dtype, channels, places, TAPS * channels);
    fb_convolution *c = &call.convolution;
    call.batch = batch;
    call.c_batch = channels * places;
    *c = (fb_convolution){.space = 2,
                          .batch = batch,
                          .groups = 1,
                          .in = channels,
                          .out = channels,
                          .x_batch = channels * places,
                          .x_channel = places,
                          .w_out = channels * TAPS,
                          .w_in = TAPS};
    for (int d = 0; d < c->space; d++)
        c->dim[d] = (fb_convolution_dim){.size = side,
                                         .kernel = KERNEL,
                                         .places = side,
                                         .stride = 1,
                                         .dilation = 1,
                                         .before = 1,
                                         .after = 1,
                                         .x_step = d ? 1 : side,
                                         .w_step = d ? 1 : KERNEL};
    return call;
}

void fb_program_kernel_unit(const fb_target *t, const fb_kernel *k, fb_str *out)
{
    if (k->merged) fb_str_add(out, "#define FB_STAGES 1\n");
    fb_str_add(out, fb_printer_prelude(t));
    const char *piece;
    for (int i = 0; (piece = fb_program_kernel_piece(t, k, i)); i++) fb_str_add(out, piece);
    fb_str_add(out, k->source);
}

int fb_program_copies(const fb_program *p, int *buffers, int *out)
{
    int n = 0;
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].fed && p->buffers[b].bytes) buffers[n++] = b;
    *out = n;
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].received && p->buffers[b].bytes) buffers[n++] = b;
    return n;
}

bool fb_program_is_fed(const fb_program *p)
{
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].fed && p->buffers[b].bytes) return true;
    return false;
}

bool fb_program_sums_in_any_order(const fb_program *p)
{
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].needs.any_order) return true;
    return false;
}

bool fb_program_buffer_is_double(const fb_program *p, int buffer)
{
    const fb_buffer *b = &p->buffers[buffer];
    return p->overlap && (b->fed || b->received);
}

void fb_program_each(const fb_program *p, void (*at)(void *ctx, int i, int depth), void *ctx)
{
    for (int i = 0, depth = 0; i < p->n_launches; i++) {
        depth -= p->launches[i].kind == FB_LAUNCH_END;
        at(ctx, i, depth);
        depth += p->launches[i].kind == FB_LAUNCH_REPEAT;
    }
}

static int64_t counted(const fb_program *p, bool calls)
{
    enum { MAX_DEPTH = FB_MAX_REPEATS + 1 };
    int64_t times[MAX_DEPTH] = {1}, launches = 0;
    int depth = 0;
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->kind == FB_LAUNCH_REPEAT && depth + 1 < MAX_DEPTH) {
            times[depth + 1] = times[depth] * l->count;
            depth++;
        } else if (l->kind == FB_LAUNCH_END && depth > 0) {
            depth--;
        } else if (l->kind == FB_LAUNCH_GEMM || (l->kind == FB_LAUNCH_KERNEL && !calls)) {
            launches += times[depth];
        }
    }
    return launches;
}

const fb_group_cost *fb_program_own_cost(const fb_program *p, const fb_launch *l)
{
    if (l->kind != FB_LAUNCH_KERNEL) return NULL;
    const fb_kernel *k = &p->kernels[l->kernel];
    return k->merged || l->copies ? &k->cost : NULL;
}

int64_t fb_program_launches(const fb_program *p)
{
    return counted(p, false);
}

int64_t fb_program_calls(const fb_program *p)
{
    return counted(p, true);
}

bool fb_program_has_copies(const fb_program *p)
{
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].fed || p->buffers[b].received) return true;
    return false;
}

/* ---- what a launch runs ---- */

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const char *after_comment(const char *at)
{
    const char *end = at[1] == '*' ? strstr(at + 2, "*/") : strchr(at, '\n');
    return !end ? at + strlen(at) : at[1] == '*' ? end + 2 : end;
}

/* A file of the user's own, in the form that the function of a generated kernel is printed in for this. */
static void add_own_code(const fb_kernel *k, fb_str *out)
{
    size_t entry = strlen(k->entry), n;
    for (const char *at = k->source; *at; at += n) {
        n = 1;
        if (at[0] == '/' && (at[1] == '*' || at[1] == '/')) {
            n = (size_t)(after_comment(at) - at);
            fb_str_add(out, " ");
            continue;
        }
        while (in_name(at[0]) && in_name(at[n])) n++;
        if (n == entry && memcmp(at, k->entry, n) == 0)
            fb_str_add(out, "@");
        else
            fb_str_add_n(out, at, n);
    }
}

/* Word by word without layout. The entry's name, @ here, tells kernels of one program apart and depends on which others
 * there are, so it does not count. */
static void add_source(fb_hasher *h, const fb_kernel *k)
{
    fb_str code = {0};
    if (k->function)
        fb_part_print(&(fb_part){.function = k->function, .code = true}, &code);
    else if (k->source)
        add_own_code(k, &code);
    for (const char *at = fb_str_get(&code); *at;) {
        size_t n = 1;
        while (in_name(at[0]) && in_name(at[n])) n++;
        if (*at == '@')
            fb_hasher_add_text(h, "@");
        else if (!isspace((unsigned char)*at))
            fb_hasher_add(h, at, n);
        if (in_name(at[0]) || *at == '@') fb_hasher_add(h, "", 1);
        at += n;
    }
    fb_str_free(&code);
}

static void add_kernel(fb_hasher *h, const fb_kernel *k)
{
    const int64_t facts[] = {k->family,   k->n_args,   k->grid[0],  k->grid[1],       k->grid[2],
                             k->block[0], k->block[1], k->block[2], k->dynamic_shared};
    add_source(h, k);
    fb_hasher_add(h, facts, sizeof facts);
}

fb_hash fb_program_kernel_code(const fb_kernel *k)
{
    fb_hasher *h = fb_hasher_new();
    add_kernel(h, k);
    return fb_hasher_end(h);
}

int fb_program_first_kernel(const fb_program *p, int k)
{
    return p->kernels[k].shares ? p->kernels[k].shares - 1 : k;
}

void fb_program_add_convolution(fb_hasher *h, const fb_convolution *c)
{
    if (!c->space) return;
    const int64_t facts[] = {c->space, c->batch, c->groups, c->in, c->out, c->x_batch, c->x_channel, c->w_out, c->w_in};
    fb_hasher_add(h, facts, sizeof facts);
    if (c->by_places) fb_hasher_add_text(h, "by places");
    for (int d = 0; d < c->space; d++) {
        const fb_convolution_dim *at = &c->dim[d];
        const int64_t dim[] = {at->size,   at->kernel, at->places, at->stride, at->dilation,
                               at->before, at->after,  at->x_step, at->w_step};
        fb_hasher_add(h, dim, sizeof dim);
    }
}

static void add_gemm(fb_hasher *h, const fb_gemm_call *c)
{
    /* of the offsets their alignment alone, which decides what a library may choose */
    const int64_t facts[] = {c->dtype,
                             c->precision,
                             c->m,
                             c->n,
                             c->k,
                             c->batch,
                             c->a_row,
                             c->a_col,
                             c->a_batch,
                             c->b_row,
                             c->b_col,
                             c->b_batch,
                             c->c_row,
                             c->c_batch,
                             c->relu,
                             c->bias_offset % 16,
                             c->a_offset % 16,
                             c->b_offset % 16,
                             c->bias != FB_NONE};
    fb_hasher_add(h, facts, sizeof facts);
    const double factors[] = {c->scale, c->addend_scale};
    const int64_t addend[] = {c->addend_row, c->addend_batch, c->addend_offset % 16};
    if (c->scale != 1) fb_hasher_add(h, factors, sizeof factors);
    if (c->addend != FB_NONE) fb_hasher_add(h, addend, sizeof addend);
    fb_program_add_convolution(h, &c->convolution);
}

fb_hash fb_program_launch_code(const fb_program *p, const fb_launch *l)
{
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_text(h, p->language);
    fb_hasher_add_i64(h, l->kind);
    if (l->kind == FB_LAUNCH_KERNEL) {
        add_kernel(h, &p->kernels[l->kernel]);
        if (l->steps) fb_hasher_add_i64(h, l->steps);
        for (int i = 0; i < l->n_products; i++) {
            const fb_chain_product_call *c = &l->products[i];
            const int64_t facts[] = {c->dtype, c->rows, c->n, c->k, c->a_row, c->a_col, c->b_row, c->b_col};
            fb_hasher_add(h, facts, sizeof facts);
        }
    } else if (l->kind == FB_LAUNCH_GEMM) {
        const fb_gemm_call *c = &p->gemms[l->gemm];
        add_gemm(h, c);
        if (c->epilogue != FB_NONE) add_kernel(h, &p->kernels[c->epilogue]);
    }
    return fb_hasher_end(h);
}

fb_hash fb_program_gemm_code(const fb_gemm_call *c)
{
    fb_hasher *h = fb_hasher_new();
    const fb_advance advances[] = {c->a_advance, c->b_advance, c->c_advance, c->bias_advance, c->addend_advance};
    add_gemm(h, c);
    for (size_t i = 0; i < sizeof advances / sizeof *advances; i++) fb_hasher_add_i64(h, advances[i].bytes);
    return fb_hasher_end(h);
}

/* ---- printing ---- */

static const char *const kinds[] = {
    [FB_BUFFER_INPUT] = "input", [FB_BUFFER_PARAM] = "param", [FB_BUFFER_TEMP] = "temp", [FB_BUFFER_OUTPUT] = "output"};

static void print_args(const fb_program *p, const fb_launch *l, fb_str *out)
{
    for (int i = 0; i < l->n_args; i++) {
        fb_str_addf(out, "%s%s", i ? ", " : "", p->buffers[l->args[i]].name);
        if (l->offsets && l->offsets[i]) fb_str_addf(out, " + %" PRId64 " bytes", l->offsets[i]);
        if (l->advances && l->advances[i].bytes) {
            fb_str_addf(out, " + %" PRId64 " bytes a step", l->advances[i].bytes);
            if (l->advances[i].every > 1) fb_str_addf(out, " in %" PRId64, l->advances[i].every);
            if (l->advances[i].level) fb_str_addf(out, " of loop %d", l->advances[i].level);
        }
    }
}

typedef struct {
    const fb_program *program;
    fb_str *out;
} printing;

static void print_launch(void *ctx, int i, int depth)
{
    const fb_program *p = ((printing *)ctx)->program;
    fb_str *out = ((printing *)ctx)->out;
    const fb_launch *l = &p->launches[i];
    fb_str_addf(out, " * %*s", 4 * depth + 4, "");
    const fb_gemm_call *g = l->kind == FB_LAUNCH_GEMM ? &p->gemms[l->gemm] : NULL;
    switch (l->kind) {
    case FB_LAUNCH_KERNEL:
        fb_str_addf(out, "%s(", p->kernels[l->kernel].name);
        print_args(p, l, out);
        if (l->steps) fb_str_addf(out, "%s%" PRId64 " steps", l->n_args ? ", " : "", l->steps);
        fb_str_add(out, ")\n");
        break;
    case FB_LAUNCH_GEMM:
        fb_str_addf(out, "%s = ", p->buffers[g->c].name);
        if (g->relu) fb_str_add(out, "relu of ");
        if (g->scale != 1) fb_str_addf(out, "%g ", g->scale);
        fb_str_addf(out, "%s(%s, %s)", g->convolution.space ? "convolution" : "gemm", p->buffers[g->a].name,
                    p->buffers[g->b].name);
        if (g->addend != FB_NONE)
            fb_str_addf(out, " %c %s", g->addend_scale < 0 ? '-' : '+', p->buffers[g->addend].name);
        if (g->bias != FB_NONE) fb_str_addf(out, " + %s", p->buffers[g->bias].name);
        fb_str_addf(out, "  %" PRId64 " × %" PRId64 " × %" PRId64, g->m, g->n, g->k);
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

/* What the program's kernels stand on, each text once. */
static void print_pieces(const fb_program *p, const fb_target *target, fb_str *out)
{
    const char *printed[FB_FAMILIES * FB_FAMILIES], *piece;
    int n = 0;
    for (int k = 0; k < p->n_kernels; k++) {
        for (int i = 0; p->kernels[k].source && (piece = fb_program_kernel_piece(target, &p->kernels[k], i)); i++) {
            bool seen = n == sizeof printed / sizeof *printed;
            for (int j = 0; j < n; j++) seen |= printed[j] == piece;
            if (seen) continue;
            printed[n++] = piece;
            fb_str_add(out, piece);
        }
    }
}

static void print_copies(const fb_program *p, fb_str *out)
{
    int *buffers = fb_alloc(((size_t)p->n_buffers + 1) * sizeof *buffers), first_out;
    int n = fb_program_copies(p, buffers, &first_out);
    if (n)
        fb_str_add(out, p->overlap ? " * copies, beside the launches of the run before and after\n"
                                   : " * copies, before and after the launches\n");
    for (int i = 0; i < n; i++) {
        const fb_buffer *b = &p->buffers[buffers[i]];
        fb_str_addf(out, " *     %s %-32s %" PRId64 " bytes\n", i < first_out ? "in " : "out", b->name, b->bytes);
    }
    fb_free(buffers);
}

void fb_program_print_tables(const fb_program *p, fb_str *out)
{
    fb_str_add(out, "/* buffers\n");
    for (int i = 0; i < p->n_buffers; i++) {
        const fb_buffer *b = &p->buffers[i];
        fb_str_addf(out, " *     %-7s %-32s %s × %" PRId64 "%s\n", kinds[b->kind], b->name, fb_dtype_name(b->dtype),
                    b->elements, b->channels_last ? ", channels last" : "");
    }
    print_copies(p, out);
    fb_str_add(out, " * launches\n");
    fb_program_each(p, print_launch, &(printing){p, out});
    fb_str_add(out, " */\n");
}

void fb_program_print(const fb_program *p, const fb_target *target, fb_str *out)
{
    bool stages = false, source = false;
    for (int k = 0; k < p->n_kernels; k++) {
        stages |= p->kernels[k].merged;
        source |= p->kernels[k].source != NULL;
    }
    if (stages) fb_str_add(out, "#define FB_STAGES 1\n");
    if (source) { /* library calls need none of it */
        fb_str_add(out, fb_printer_prelude(target));
        print_pieces(p, target, out);
        fb_str_add(out, "\n");
    }
    fb_program_print_tables(p, out);
    for (int i = 0; i < p->n_kernels; i++) {
        if (p->kernels[i].source) fb_str_addf(out, "\n%s", p->kernels[i].source);
    }
}

int fb_program_left(const fb_program *p, const fb_graph *g, fb_id node)
{
    const fb_node *n = &g->nodes[node];
    fb_id held = n->op == FB_OP_ASSIGN || n->op == FB_OP_RECEIVE ? n->args[0] : node;
    fb_buffer_kind kind = n->op == FB_OP_ASSIGN ? FB_BUFFER_PARAM : FB_BUFFER_OUTPUT;
    int found = FB_NONE; /* an output under another of its names */
    for (int b = 0; b < p->n_buffers; b++) {
        if (p->buffers[b].node != held) continue;
        if (p->buffers[b].kind == kind) return b;
        if (found == FB_NONE) found = b;
    }
    return found;
}
