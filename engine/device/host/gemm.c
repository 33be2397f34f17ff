/* Library contractions on the host.
 *
 * A contraction is cut into tasks (batch member × block of rows × block of columns) that the team of generated code
 * takes in turn, each with a BLAS call on one core. The library's own threads stay asleep: a second pool of spinning
 * threads beside OpenMP's costs more than it brings. With an epilogue a block is whole rows, small enough that it is
 * still in the cache when the epilogue reads it; rows that are too few for that are multiplied as if there were none,
 * and it follows when all are done. A chain's kernel calls for its products itself, a block of rows at a time.
 */
#include "base/integer.h"
#include "base/mem.h"
#include "device/host/parts.h"
#include "schedule/host_cost.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef enum { HOW_MATRIX, HOW_VECTOR, HOW_LOOP, HOW_CONVOLUTION } how;

/* One operand as BLAS sees it. */
typedef struct {
    int trans, ld;
} operand;

/* A thread's tasks. */
typedef struct {
    atomic_llong next;
    int64_t end;
    char apart[112]; /* no two on a cache line */
} share;

struct fb_host_gemm {
    fb_host *host;
    fb_gemm_call call; /* row and column strides exchanged where the one row is made the one column, see `turned` */
    fb_host_entry epilogue;
    how how;
    bool dnnl;   /* oneDNN multiplies, not the BLAS */
    bool turned; /* computed as Cᵀ = Bᵀ Aᵀ, so that a single row is a single column */
    operand a, b;
    int64_t block_rows, block_cols, row_blocks, col_blocks;
    bool epilogue_after; /* blocks are no whole rows: the epilogue runs when all are done */
    share *shares;       /* a thread of the team */
    fb_host_convolution *convolution;
    /* 16-bit operands: float copies of a, b, c, with the same strides; `before`: of them, elements in front of the
     * first one, where a stride is negative */
    float *wide[3];
    int64_t extent[3], before[3];
};

/* ---- whose product ---- */

bool fb_host_takes_dnnl(const fb_host_sgemm *s, int64_t m, int64_t n, int64_t k)
{
    enum { FEW = 8 }; /* as many times more of the others */
    double flops = 2 * (double)m * (double)n * (double)k, least = INFINITY;
    bool takes = false;
    if (!s->library[0]) return false;
    if (m <= n / FEW && m <= k / FEW) return s->few_rows;
    if (k <= n / FEW && k <= m / FEW) return s->few_steps;
    for (int i = 0; i < s->n; i++) {
        double off = fabs(log(flops / s->flops[i]));
        if (off < least) least = off, takes = s->dnnl[i];
    }
    return takes;
}

/* ---- what BLAS can express ---- */

/* rows × cols with these strides as a BLAS operand; false where neither stride is 1 or rows overlap. */
static bool express(int64_t rows, int64_t cols, int64_t row, int64_t col, operand *o)
{
    int64_t ld;
    if ((col == 1 || cols == 1) && (row >= cols || rows == 1)) {
        o->trans = FB_BLAS_NO_TRANS;
        ld = rows == 1 ? cols : row;
    } else if ((row == 1 || rows == 1) && (col >= rows || cols == 1)) {
        o->trans = FB_BLAS_TRANS;
        ld = cols == 1 ? rows : col;
    } else {
        return false;
    }
    o->ld = (int)ld;
    return ld <= INT_MAX;
}

static void choose_how(fb_host_gemm *g, bool may_turn)
{
    fb_gemm_call *c = &g->call;
    const fb_blas *blas = g->host->blas;
    if (c->m == 1 && c->n > 1 && may_turn) {
        *c = fb_program_transposed_gemm(c);
        c->c_row = 1;
        g->turned = true;
    }
    if (c->k == 1) c->b_row = 1;
    bool a = express(c->m, c->k, c->a_row, c->a_col, &g->a), b = express(c->k, c->n, c->b_row, c->b_col, &g->b);
    bool step = c->b_row >= 1 && c->b_row <= INT_MAX && c->c_row <= INT_MAX && (c->c_row >= 1 || c->m == 1);
    bool rows = c->c_row >= c->n && c->c_row <= INT_MAX;
    if (!blas || c->k == 0)
        g->how = HOW_LOOP;
    else if (a && c->n == 1 && step)
        g->how = HOW_VECTOR;
    else if (a && b && rows)
        g->how = HOW_MATRIX;
    else
        g->how = HOW_LOOP;
    g->dnnl = g->how == HOW_MATRIX && c->dtype != FB_F64 && fb_host_takes_dnnl(&g->host->sgemm, c->m, c->n, c->k);
}

/* ---- blocks ---- */

static void set_blocks(fb_host_gemm *g, int64_t row_blocks, int64_t col_blocks)
{
    g->block_rows = fb_ceil_div(g->call.m, row_blocks > 0 ? row_blocks : 1);
    g->block_cols = fb_ceil_div(g->call.n, col_blocks > 0 ? col_blocks : 1);
    if (g->block_rows < 1) g->block_rows = 1;
    if (g->block_cols < 1) g->block_cols = 1;
    g->row_blocks = fb_ceil_div(g->call.m, g->block_rows);
    g->col_blocks = fb_ceil_div(g->call.n, g->block_cols);
    /* rows without columns are still rows: what follows the product may have elements of its own for them */
    if (g->epilogue && !g->col_blocks) g->col_blocks = 1;
}

/* Rows and columns in as many parts as there are threads, such that the least is packed twice. */
static void plain_blocks(fb_host_gemm *g, int64_t parts)
{
    const fb_gemm_call *c = &g->call;
    double least = 0;
    int64_t best = 1;
    for (int64_t p = 1; p <= parts; p++) {
        double packed = (double)p * (double)c->n + (double)fb_ceil_div(parts, p) * (double)c->m;
        if (p > 1 && packed >= least) continue;
        least = packed;
        best = p;
    }
    set_blocks(g, best, fb_ceil_div(parts, best));
}

/* Each thread with a share of rows that is not worth packing all of B for would take nearly as long as one with all
 * rows: then columns are shared too, and no block need be whole rows. */
static void epilogue_blocks(fb_host_gemm *g, int64_t parts)
{
    const fb_gemm_call *c = &g->call;
    if (c->m < FB_FEW_ROWS * parts) {
        plain_blocks(g, parts);
        g->epilogue_after = g->col_blocks > 1;
        return;
    }
    int64_t row_bytes = c->n * fb_dtype_size(c->dtype);
    int64_t rows = g->host->machine.shared_bytes / 2 / (row_bytes > 0 ? row_bytes : 1);
    if (rows < FB_FEW_ROWS) rows = FB_FEW_ROWS;
    int64_t blocks = fb_ceil_div(c->m, rows);
    set_blocks(g, blocks > parts ? fb_ceil_div(blocks, parts) * parts : parts, 1);
}

/* Parts of each product of a batch, so that threads end at about the same time: three products of two threads would
 * keep one of them waiting for a quarter of the time. Each part more packs something again. */
static int64_t parts_of_member(int64_t batch, int64_t threads, int64_t flops)
{
    const double again = 0.03;
    double least = INFINITY;
    int64_t best = 1;
    for (int64_t p = 1; p <= threads && batch > 0; p++) {
        double turns = (double)fb_ceil_div(batch * p, threads) / (double)p * (1 + again * (double)(p - 1));
        if (p > 1 && (turns >= least || flops / (batch * p) < FB_SMALL_PRODUCT)) continue;
        least = turns;
        best = p;
    }
    return best;
}

static void choose_blocks(fb_host_gemm *g)
{
    const fb_gemm_call *c = &g->call;
    int64_t flops = 2 * c->m * c->n * c->k * c->batch;
    int64_t parts = flops < FB_SMALL_PRODUCT ? 1 : parts_of_member(c->batch, g->host->rt.threads, flops);
    if (g->how == HOW_VECTOR || !g->epilogue || g->turned) {
        if (g->turned && g->epilogue && c->batch > 1) parts = 1;
        g->epilogue_after = g->turned && parts > 1;
        if (g->how == HOW_VECTOR)
            set_blocks(g, parts, 1);
        else
            plain_blocks(g, parts);
    } else {
        epilogue_blocks(g, parts);
    }
}

/* ---- making one ---- */

/* Room for what is touched of an operand of n dims. */
static void widen(fb_host_gemm *g, int i, int n, const int64_t *extent, const int64_t *stride)
{
    int64_t least = 0, most = 0;
    bool none = false;
    for (int d = 0; d < n; d++) {
        none |= !extent[d];
        int64_t reach = (extent[d] - 1) * stride[d];
        *(reach < 0 ? &least : &most) += reach;
    }
    g->before[i] = none ? 0 : -least;
    g->extent[i] = none ? 0 : most - least + 1;
    g->wide[i] = fb_alloc(((size_t)g->extent[i] + 1) * sizeof(float));
}

static void make_wide(fb_host_gemm *g)
{
    const fb_gemm_call *c = &g->call;
    widen(g, 2, 3, (int64_t[]){c->batch, c->m, c->n}, (int64_t[]){c->c_batch, c->c_row, 1});
    if (g->convolution) {
        int64_t x[2 + FB_CONVOLUTION_SPACE], x_step[2 + FB_CONVOLUTION_SPACE], w[2 + FB_CONVOLUTION_SPACE],
            w_step[2 + FB_CONVOLUTION_SPACE];
        const fb_convolution *v = &c->convolution;
        x[0] = v->batch, x_step[0] = v->x_batch, x[1] = v->groups * v->in, x_step[1] = v->x_channel;
        w[0] = v->groups * v->out, w_step[0] = v->w_out, w[1] = v->in, w_step[1] = v->w_in;
        for (int d = 0; d < v->space; d++) {
            x[2 + d] = v->dim[d].size, x_step[2 + d] = v->dim[d].x_step;
            w[2 + d] = v->dim[d].kernel, w_step[2 + d] = v->dim[d].w_step;
        }
        widen(g, 0, 2 + v->space, w, w_step);
        widen(g, 1, 2 + v->space, x, x_step);
        return;
    }
    widen(g, 0, 3, (int64_t[]){c->batch, c->m, c->k}, (int64_t[]){c->a_batch, c->a_row, c->a_col});
    widen(g, 1, 3, (int64_t[]){c->batch, c->k, c->n}, (int64_t[]){c->b_batch, c->b_row, c->b_col});
}

fb_host_gemm *fb_host_gemm_new(fb_host *h, const fb_gemm_call *call, fb_host_entry epilogue, fb_error *err)
{
    if (!fb_dtype_is_float(call->dtype)) {
        fb_fail(err, FB_ERR_LIMIT, "the host has no library contraction of %s", fb_dtype_name(call->dtype));
        return NULL;
    }
    if (call->m > INT_MAX || call->n > INT_MAX || call->k > INT_MAX) {
        fb_fail(err, FB_ERR_LIMIT, "a contraction of %lld × %lld × %lld is more than a BLAS takes", (long long)call->m,
                (long long)call->n, (long long)call->k);
        return NULL;
    }
    fb_host_gemm *g = fb_calloc(1, sizeof *g);
    g->host = h;
    g->call = *call;
    g->epilogue = epilogue;
    g->shares = fb_calloc((size_t)h->rt.threads, sizeof *g->shares);
    if (call->convolution.space) {
        g->how = HOW_CONVOLUTION;
        g->epilogue_after = true;
        g->convolution = fb_host_convolution_new(&call->convolution, &h->rt);
    } else {
        choose_how(g, true);
        choose_blocks(g);
    }
    if (fb_dtype_is_half(call->dtype)) make_wide(g);
    return g;
}

void fb_host_gemm_free(fb_host_gemm *g)
{
    if (!g) return;
    for (int i = 0; i < 3; i++) fb_free(g->wide[i]);
    fb_host_convolution_free(g->convolution);
    fb_free(g->shares);
    fb_free(g);
}

/* ---- one task ---- */

typedef struct {
    fb_host_gemm *g;
    const char *a, *b; /* first elements, offsets included; floats when the operands are widened */
    char *c;
    void *half_c; /* 16-bit operands: where the result is narrowed to */
    void *const *args;
} gemm_run;

typedef struct {
    int64_t batch, row, row_end, col, col_end;
} task;

/* The plain meaning, for strides no BLAS takes and for machines without one. */
#define LOOP(TYPE)                                                                                                     \
    static void loop_##TYPE(const fb_host_gemm *g, int64_t rows, int64_t cols, const TYPE *a, const TYPE *b, TYPE *to) \
    {                                                                                                                  \
        const fb_gemm_call *c = &g->call;                                                                              \
        for (int64_t i = 0; i < rows; i++) {                                                                           \
            for (int64_t j = 0; j < cols; j++) {                                                                       \
                double sum = 0;                                                                                        \
                for (int64_t k = 0; k < c->k; k++)                                                                     \
                    sum += (double)a[i * c->a_row + k * c->a_col] * (double)b[k * c->b_row + j * c->b_col];            \
                to[i * c->c_row + j] = (TYPE)sum;                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
LOOP(float)
LOOP(double)
#undef LOOP

/* What oneDNN takes; there is none for doubles. */
static bool dnnl_float(const fb_host_gemm *g, int m, int n, const float *a, const float *b, float *to, int ldc)
{
    return g->dnnl && fb_dnnl_sgemm(g->a.trans, g->b.trans, m, n, (int)g->call.k, a, g->a.ld, b, g->b.ld, to, ldc);
}

static bool dnnl_double(const fb_host_gemm *g, int m, int n, const double *a, const double *b, double *to, int ldc)
{
    (void)g, (void)m, (void)n, (void)a, (void)b, (void)to, (void)ldc;
    return false;
}

#define TASK(TYPE, LETTER)                                                                                             \
    static void task_##TYPE(const fb_host_gemm *g, int64_t rows, int64_t cols, const TYPE *a, const TYPE *b, TYPE *to) \
    {                                                                                                                  \
        const fb_blas *blas = g->host->blas;                                                                           \
        const fb_gemm_call *c = &g->call;                                                                              \
        int m = (int)rows, n = (int)cols, k = (int)c->k;                                                               \
        int ldc = c->m == 1 ? (int)c->n : (int)c->c_row;                                                               \
        bool plain = g->a.trans == FB_BLAS_NO_TRANS;                                                                   \
        if (g->how == HOW_LOOP)                                                                                        \
            loop_##TYPE(g, rows, cols, a, b, to);                                                                      \
        else if (g->how == HOW_VECTOR)                                                                                 \
            blas->LETTER##gemv(FB_BLAS_ROW_MAJOR, g->a.trans, plain ? m : k, plain ? k : m, 1, a, g->a.ld, b,          \
                               (int)c->b_row, 0, to, ldc > 0 ? ldc : 1);                                               \
        else if (!dnnl_##TYPE(g, m, n, a, b, to, ldc))                                                                 \
            blas->LETTER##gemm(FB_BLAS_ROW_MAJOR, g->a.trans, g->b.trans, m, n, k, 1, a, g->a.ld, b, g->b.ld, 0, to,   \
                               ldc);                                                                                   \
    }
TASK(float, s)
TASK(double, d)
#undef TASK

/* Rows of a block back into 16 bits, where the epilogue and everyone else reads them. */
static void narrow(const gemm_run *r, const task *t)
{
    const fb_host_gemm *g = r->g;
    const fb_host_runtime *rt = &g->host->rt;
    void (*convert)(void *, const float *, int64_t, int64_t) =
        g->call.dtype == FB_F16 ? rt->narrow_f16 : rt->narrow_bf16;
    for (int64_t i = t->row; i < t->row_end; i++) {
        int64_t at = t->batch * g->call.c_batch + i * g->call.c_row;
        convert(r->half_c, g->wide[2], at + t->col, at + t->col_end);
    }
}

static void run_task(const gemm_run *r, const task *t)
{
    const fb_host_gemm *g = r->g;
    const fb_gemm_call *c = &g->call;
    int64_t size = c->dtype == FB_F64 ? 8 : 4, rows = t->row_end - t->row, cols = t->col_end - t->col;
    const void *a = r->a + (t->batch * c->a_batch + t->row * c->a_row) * size;
    const void *b = r->b + (t->batch * c->b_batch + t->col * c->b_col) * size;
    void *to = r->c + (t->batch * c->c_batch + t->row * c->c_row + t->col) * size;
    if (cols && c->dtype == FB_F64)
        task_double(g, rows, cols, a, b, to);
    else if (cols)
        task_float(g, rows, cols, a, b, to);
    if (r->half_c) narrow(r, t);
    if (!g->epilogue || g->epilogue_after) return;
    fb_host_args args = {.buffers = r->args, .first = t->batch * c->m + t->row, .last = t->batch * c->m + t->row_end};
    if (g->turned) args.first = t->batch, args.last = t->batch + 1;
    g->epilogue(&args);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void run_one(const gemm_run *r, int64_t number)
{
    const fb_host_gemm *g = r->g;
    int64_t a_member = g->row_blocks * g->col_blocks, block = number % a_member,
            row = block / g->col_blocks * g->block_rows, col = block % g->col_blocks * g->block_cols;
    task t = {.batch = number / a_member,
              .row = row,
              .col = col,
              .row_end = least(row + g->block_rows, g->call.m),
              .col_end = least(col + g->block_cols, g->call.n)};
    run_task(r, &t);
}

/* Neighbouring tasks first, those of the operands that this thread's loops have made just before, and then what others
 * have not begun. (Windows of a convolution, written again where the other core had read them: 450 µs, 70 so.) */
static void run_part(void *ctx, int index, int count)
{
    gemm_run *r = ctx;
    const fb_host_gemm *g = r->g;
    int n = g->host->rt.threads; /* the team may be smaller than it was told to be */
    (void)count;
    for (int k = 0; k < n; k++) {
        share *s = &g->shares[(index + k) % n];
        for (int64_t i; (i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->end;) run_one(r, i);
    }
}

static void share_out(fb_host_gemm *g, int64_t tasks)
{
    int n = g->host->rt.threads;
    for (int i = 0; i < n; i++) {
        atomic_store_explicit(&g->shares[i].next, tasks * i / n, memory_order_relaxed);
        g->shares[i].end = tasks * (i + 1) / n;
    }
}

/* ---- 16-bit operands ---- */

typedef struct {
    const fb_host_gemm *g;
    const void *from[2];
} widening;

static void widen_part(void *ctx, int index, int count)
{
    const widening *w = ctx;
    const fb_host_gemm *g = w->g;
    const fb_host_runtime *rt = &g->host->rt;
    void (*convert)(float *, const void *, int64_t, int64_t) = g->call.dtype == FB_F16 ? rt->widen_f16 : rt->widen_bf16;
    for (int i = 0; i < 2; i++)
        convert(g->wide[i], w->from[i], g->extent[i] * index / count, g->extent[i] * (index + 1) / count);
}

static void narrow_part(void *ctx, int index, int count)
{
    const gemm_run *r = ctx;
    const fb_host_runtime *rt = &r->g->host->rt;
    int64_t n = r->g->extent[2];
    (r->g->call.dtype == FB_F16 ? rt->narrow_f16 : rt->narrow_bf16)(r->half_c, r->g->wide[2], n * index / count,
                                                                    n * (index + 1) / count);
}

static void multiply(gemm_run *r)
{
    fb_host_gemm *g = r->g;
    int64_t tasks = g->row_blocks * g->col_blocks * g->call.batch;
    if (g->how == HOW_CONVOLUTION) {
        fb_host_convolution_run(g->convolution, (const float *)r->b, (const float *)r->a, (float *)r->c);
        if (r->half_c) g->host->rt.team(narrow_part, r);
        return;
    }
    share_out(g, tasks);
    if (tasks > 1)
        g->host->rt.team(run_part, r);
    else if (tasks)
        run_one(r, 0);
}

void fb_host_gemm_run(fb_host_gemm *g, const void *a, const void *b, void *c, void *const *args)
{
    const fb_gemm_call *call = &g->call;
    int size = fb_dtype_size(call->dtype);
    const char *first_a = (const char *)(g->turned ? b : a) + call->a_offset * size;
    const char *first_b = (const char *)(g->turned ? a : b) + call->b_offset * size;
    gemm_run r = {.g = g, .a = first_a, .b = first_b, .c = c, .args = args};
    if (fb_dtype_is_half(call->dtype)) {
        widening w = {.g = g, .from = {first_a - g->before[0] * size, first_b - g->before[1] * size}};
        g->host->rt.team(widen_part, &w);
        r.a = (const char *)(g->wide[0] + g->before[0]);
        r.b = (const char *)(g->wide[1] + g->before[1]);
        r.c = (char *)g->wide[2];
        r.half_c = c;
    }
    multiply(&r);
    if (!g->epilogue || !g->epilogue_after) return;
    g->epilogue(&(fb_host_args){.buffers = args, .first = 0, .last = call->batch * (g->turned ? 1 : call->m)});
}

/* ---- products of chains ---- */

/* One product, with float copies of 16-bit operands that lie in memory, made at the start of each run. */
typedef struct {
    fb_host_gemm *g;
    int buffer[2];      /* of the left and right operand; FB_NONE: on chip */
    int64_t extent[2];  /* elements of these buffers */
    const char *now[2]; /* where they are in this run */
    float *wide[2];
} product;

struct fb_host_products {
    fb_host *host;
    int n;
    product at[2];
};

static bool product_new(fb_host *h, const fb_program *p, const fb_chain_product_call *call, product *out, fb_error *err)
{
    if (call->n > INT_MAX || call->k > INT_MAX)
        return fb_fail(err, FB_ERR_LIMIT, "a contraction of %lld columns over %lld is more than a BLAS takes",
                       (long long)call->n, (long long)call->k);
    out->g = fb_calloc(1, sizeof *out->g);
    out->g->host = h;
    out->g->call = (fb_gemm_call){.dtype = call->dtype,
                                  .m = call->rows,
                                  .n = call->n,
                                  .k = call->k,
                                  .batch = 1,
                                  .a_row = call->a_row,
                                  .a_col = call->a_col,
                                  .b_row = call->b_row,
                                  .b_col = call->b_col,
                                  .c_row = call->n};
    choose_how(out->g, false);
    out->buffer[0] = call->a, out->buffer[1] = call->b;
    for (int i = 0; i < 2 && fb_dtype_is_half(call->dtype); i++) {
        if (out->buffer[i] == FB_NONE) continue;
        out->extent[i] = p->buffers[out->buffer[i]].elements;
        out->wide[i] = fb_alloc(((size_t)out->extent[i] + 1) * sizeof(float));
    }
    return true;
}

bool fb_host_products_new(fb_host *h, const fb_program *p, const fb_launch *l, fb_host_products **out, fb_error *err)
{
    *out = NULL;
    if (!l->n_products) return true;
    fb_host_products *c = *out = fb_calloc(1, sizeof *c);
    c->host = h;
    c->n = l->n_products;
    for (int i = 0; i < c->n; i++)
        if (!product_new(h, p, &l->products[i], &c->at[i], err)) return false;
    return true;
}

void fb_host_products_free(fb_host_products *c)
{
    for (int i = 0; c && i < c->n; i++) {
        for (int k = 0; k < 2; k++) fb_free(c->at[i].wide[k]);
        fb_free(c->at[i].g);
    }
    fb_free(c);
}

static void widen_operands(void *ctx, int index, int count)
{
    const product *p = ctx;
    const fb_host_runtime *rt = &p->g->host->rt;
    void (*convert)(float *, const void *, int64_t, int64_t) =
        p->g->call.dtype == FB_F16 ? rt->widen_f16 : rt->widen_bf16;
    for (int i = 0; i < 2; i++)
        if (p->wide[i])
            convert(p->wide[i], p->now[i], p->extent[i] * index / count, p->extent[i] * (index + 1) / count);
}

/* The operand as floats: the place in the copy that answers to the place in the buffer. */
static const void *operand_of(const product *p, int i, const void *at)
{
    return p->wide[i] ? p->wide[i] + ((const char *)at - p->now[i]) / fb_dtype_size(p->g->call.dtype) : at;
}

static void multiply_block(const fb_host_args *args, int number, int64_t rows, const void *a, const void *b, void *to)
{
    const fb_host_products *c = args->context;
    const product *p = &c->at[number];
    a = operand_of(p, 0, a), b = operand_of(p, 1, b);
    if (p->g->call.dtype == FB_F64)
        task_double(p->g, rows, p->g->call.n, a, b, to);
    else
        task_float(p->g, rows, p->g->call.n, a, b, to);
}

void fb_host_products_run(fb_host_products *c, fb_host_entry entry, char *const *buffers, void *const *args)
{
    for (int i = 0; i < c->n; i++) {
        product *p = &c->at[i];
        for (int k = 0; k < 2; k++) p->now[k] = p->buffer[k] == FB_NONE ? NULL : buffers[p->buffer[k]];
        if (p->wide[0] || p->wide[1]) c->host->rt.team(widen_operands, p);
    }
    entry(&(fb_host_args){.buffers = args, .first = 0, .last = INT64_MAX, .multiply = multiply_block, .context = c});
}
