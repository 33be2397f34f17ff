/* Products of matrices by the system's BLAS, for an exported program (fusebox export) that calls one.
 *
 * The library is opened when a handle is made (OpenBLAS, or any with the names of CBLAS); where there is none, products
 * are plain loops. It runs on one thread, for the program's own threads share the blocks of a product, and what follows
 * a product does so while its rows are in the cache. Operands of 16 bits are multiplied as floats, in the handle's
 * workspace. */
#ifndef FBX_LIBRARY_H
#define FBX_LIBRARY_H

#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef enum { FBX_F32, FBX_F64, FBX_F16, FBX_BF16 } fbx_type;

typedef struct {
    void *handle; /* NULL: plain loops */
    const char *name;
    void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
    void (*dgemm)(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *,
                  int);
    void (*set_threads)(int);
    int (*get_threads)(void);
    int threads; /* what the library had before a run */
} fbx_blas;

static inline void fbx_blas_open(fbx_blas *b)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libblas.so.3", "libcblas.so.3"};
    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < sizeof names / sizeof *names && !b->handle; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL), *at[4];
        if (!handle) continue;
        at[0] = dlsym(handle, "cblas_sgemm"), at[1] = dlsym(handle, "cblas_dgemm");
        at[2] = dlsym(handle, "openblas_set_num_threads"), at[3] = dlsym(handle, "openblas_get_num_threads");
        if (!at[0] || !at[1]) {
            dlclose(handle);
            continue;
        }
        memcpy(&b->sgemm, &at[0], sizeof at[0]), memcpy(&b->dgemm, &at[1], sizeof at[1]);
        memcpy(&b->set_threads, &at[2], sizeof at[2]), memcpy(&b->get_threads, &at[3], sizeof at[3]);
        b->handle = handle;
        b->name = names[i];
    }
}

/* Around a run: the library's own threads sleep meanwhile. */
static inline void fbx_blas_begin(fbx_blas *b)
{
    if (b->get_threads) b->threads = b->get_threads();
    if (b->set_threads) b->set_threads(1);
}

static inline void fbx_blas_end(fbx_blas *b)
{
    if (b->set_threads && b->threads > 0) b->set_threads(b->threads);
}

static inline int fbx_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static inline int fbx_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* C[batch] = A[batch] B[batch], m × n over k, with strides in elements; then `epilogue` on the rows that were made. */
typedef struct {
    fbx_type type;
    int64_t m, n, k, batch;
    int64_t a_row, a_col, a_batch, b_row, b_col, b_batch, c_row, c_batch;
    int64_t a_offset, b_offset; /* elements */
    void (*epilogue)(const fb_kernel_args *args);
} fbx_product;

/* ---- operands of 16 bits ---- */

static inline int64_t fbx_size(fbx_type t)
{
    return t == FBX_F64 ? 8 : t == FBX_F32 ? 4 : 2;
}

static inline void fbx_widen(fbx_type type, float *to, const void *from, int64_t n)
{
    const fb_f16 *f = from;
    const fb_bf16 *b = from;
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) to[i] = type == FBX_F16 ? fb_from_f16(f[i]) : fb_from_bf16(b[i]);
}

static inline void fbx_narrow(fbx_type type, void *to, const float *from, int64_t first, int64_t last)
{
    fb_f16 *f = to;
    fb_bf16 *b = to;
    for (int64_t i = first; i < last; i++) {
        if (type == FBX_F16)
            f[i] = fb_to_f16(from[i]);
        else
            b[i] = fb_to_bf16(from[i]);
    }
}

/* The elements that an operand reaches, and how many of them lie before its first, where a stride is negative. */
static inline int64_t fbx_extent(int64_t x, int64_t dx, int64_t y, int64_t dy, int64_t z, int64_t dz, int64_t *before)
{
    const int64_t reach[] = {(x - 1) * dx, (y - 1) * dy, (z - 1) * dz};
    int64_t least = 0, most = 0;
    *before = 0;
    if (!x || !y || !z) return 0;
    for (int i = 0; i < 3; i++) {
        if (reach[i] < 0)
            least += reach[i];
        else
            most += reach[i];
    }
    *before = -least;
    return most - least + 1;
}

/* Floats that a product needs of the workspace, for A, B and C. */
static inline void fbx_wide(const fbx_product *p, int64_t extent[3], int64_t before[3])
{
    for (int i = 0; i < 3; i++) extent[i] = before[i] = 0;
    if (p->type == FBX_F32 || p->type == FBX_F64) return;
    extent[0] = fbx_extent(p->batch, p->a_batch, p->m, p->a_row, p->k, p->a_col, &before[0]);
    extent[1] = fbx_extent(p->batch, p->b_batch, p->k, p->b_row, p->n, p->b_col, &before[1]);
    extent[2] = fbx_extent(p->batch, p->c_batch, p->m, p->c_row, p->n, 1, &before[2]);
}

/* ---- a block of rows ---- */

/* What CBLAS calls an operand: 111 as it lies, 112 transposed. */
static inline bool fbx_express(int64_t rows, int64_t cols, int64_t row, int64_t col, int *trans, int *ld)
{
    int64_t step;
    if ((col == 1 || cols == 1) && (row >= cols || rows == 1)) {
        *trans = 111;
        step = rows == 1 ? cols : row;
    } else if ((row == 1 || rows == 1) && (col >= rows || cols == 1)) {
        *trans = 112;
        step = cols == 1 ? rows : col;
    } else {
        return false;
    }
    *ld = (int)step;
    return step >= 1 && step <= INT_MAX;
}

#define FBX_MULTIPLY(TYPE, GEMM)                                                                                       \
    static inline void fbx_multiply_##TYPE(const fbx_blas *blas, const fbx_product *p, int64_t rows, const TYPE *a,    \
                                           const TYPE *b, TYPE *c)                                                     \
    {                                                                                                                  \
        int ta, tb, lda, ldb;                                                                                          \
        int64_t ldc = p->m == 1 ? p->n : p->c_row;                                                                     \
        if (blas->handle && p->k && rows <= INT_MAX && p->n <= INT_MAX && p->k <= INT_MAX && ldc >= p->n &&            \
            ldc <= INT_MAX && fbx_express(p->m, p->k, p->a_row, p->a_col, &ta, &lda) &&                                \
            fbx_express(p->k, p->n, p->b_row, p->b_col, &tb, &ldb)) {                                                  \
            blas->GEMM(101, ta, tb, (int)rows, (int)p->n, (int)p->k, 1, a, lda, b, ldb, 0, c, (int)ldc);               \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < rows; i++)                                                                             \
            for (int64_t j = 0; j < p->n; j++) {                                                                       \
                double sum = 0;                                                                                        \
                for (int64_t k = 0; k < p->k; k++)                                                                     \
                    sum += (double)a[i * p->a_row + k * p->a_col] * (double)b[k * p->b_row + j * p->b_col];            \
                c[i * p->c_row + j] = (TYPE)sum;                                                                       \
            }                                                                                                          \
    }
FBX_MULTIPLY(float, sgemm)
FBX_MULTIPLY(double, dgemm)
#undef FBX_MULTIPLY

/* ---- a product ---- */

typedef struct {
    const fbx_product *product;
    int64_t extent[3], before[3];
    float *wide[3]; /* in the workspace */
} fbx_call;

static inline void fbx_block(const fbx_blas *blas, const fbx_call *call, int64_t batch, int64_t row, int64_t end,
                             const void *a, const void *b, void *c, void *const *args)
{
    const fbx_product *p = call->product;
    bool half = p->type == FBX_F16 || p->type == FBX_BF16;
    int64_t size = half ? 4 : fbx_size(p->type), at = batch * p->c_batch + row * p->c_row;
    const char *from_a = (const char *)(half ? call->wide[0] + call->before[0] : a);
    const char *from_b = (const char *)(half ? call->wide[1] + call->before[1] : b);
    char *to = (char *)(half ? call->wide[2] : c) + at * size;
    from_a += (batch * p->a_batch + row * p->a_row) * size;
    from_b += batch * p->b_batch * size;
    if (p->n && p->type == FBX_F64)
        fbx_multiply_double(blas, p, end - row, (const double *)from_a, (const double *)from_b, (double *)to);
    else if (p->n)
        fbx_multiply_float(blas, p, end - row, (const float *)from_a, (const float *)from_b, (float *)to);
    for (int64_t i = row; half && i < end; i++) {
        int64_t first = batch * p->c_batch + i * p->c_row;
        fbx_narrow(p->type, c, call->wide[2], first, first + p->n);
    }
    if (p->epilogue)
        p->epilogue(&(fb_kernel_args){.buffers = args, .first = batch * p->m + row, .last = batch * p->m + end});
}

static inline void fbx_run(const fbx_blas *blas, const fbx_call *call, const void *a, const void *b, void *c,
                           void *const *args)
{
    enum { SMALL = 1 << 16, LEAST_ROWS = 64 };
    const fbx_product *p = call->product;
    int64_t size = fbx_size(p->type), threads = fbx_threads(), flops = 2 * p->m * p->n * p->k * p->batch;
    int64_t parts = flops < SMALL || p->batch >= threads || p->batch < 1 ? 1 : (threads + p->batch - 1) / p->batch;
    int64_t rows = (p->m + parts - 1) / parts;
    if (p->epilogue && rows > LEAST_ROWS && parts > 1) rows = (p->m + 4 * parts - 1) / (4 * parts);
    if (p->epilogue && rows < LEAST_ROWS) rows = LEAST_ROWS;
    if (rows < 1) rows = 1;
    int64_t blocks = (p->m + rows - 1) / rows, all = blocks * p->batch;
    a = (const char *)a + p->a_offset * size;
    b = (const char *)b + p->b_offset * size;
    if (call->wide[2]) {
        fbx_widen(p->type, call->wide[0], (const char *)a - call->before[0] * size, call->extent[0]);
        fbx_widen(p->type, call->wide[1], (const char *)b - call->before[1] * size, call->extent[1]);
    }
    if (all == 1) {
        fbx_block(blas, call, 0, 0, p->m, a, b, c, args);
        return;
    }
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < all; i++) {
        int64_t row = i % blocks * rows, end = row + rows < p->m ? row + rows : p->m;
        fbx_block(blas, call, i / blocks, row, end, a, b, c, args);
    }
}

/* ---- chains: kernels that ask for products of blocks of rows on the way ---- */

typedef struct {
    fbx_product product;
    int buffer[2];       /* of A and B; -1: on chip, in floats */
    int64_t elements[2]; /* of these buffers */
} fbx_link;

typedef struct {
    const fbx_link *link;
    int n;
    const fbx_blas *blas;
    float *wide[2][2];
    const char *now[2][2];
    /* blocks of rows, a thread each: a kernel takes them one after the other, and gives all back */
    char *blocks;
    int64_t block_bytes;
    int threads;
    struct {
        int64_t used;
        char apart[64 - sizeof(int64_t)];
    } * taken;
} fbx_chain;

static inline void fbx_chain_begin(fbx_chain *c, char *const *buffers)
{
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < 2; k++) {
            int buffer = c->link[i].buffer[k];
            c->now[i][k] = buffer < 0 ? NULL : buffers[buffer];
            if (c->wide[i][k]) fbx_widen(c->link[i].product.type, c->wide[i][k], c->now[i][k], c->link[i].elements[k]);
        }
}

static inline const void *fbx_operand(const fbx_chain *c, int i, int k, const void *at)
{
    if (!c->wide[i][k]) return at;
    return c->wide[i][k] + ((const char *)at - c->now[i][k]) / fbx_size(c->link[i].product.type);
}

static inline void fbx_chain_multiply(const fb_kernel_args *args, int number, int64_t rows, const void *a,
                                      const void *b, void *to)
{
    const fbx_chain *c = args->context;
    const fbx_product *p = &c->link[number].product;
    a = fbx_operand(c, number, 0, a), b = fbx_operand(c, number, 1, b);
    if (p->type == FBX_F64)
        fbx_multiply_double(c->blas, p, rows, a, b, to);
    else
        fbx_multiply_float(c->blas, p, rows, a, b, to);
}

/* In the place of fb_block_new and fb_block_free: out of the workspace, so that a run allocates nothing. */
static inline void *fbx_block_new(const fb_kernel_args *args, int64_t bytes)
{
    fbx_chain *c = args->context;
    int thread = fbx_thread();
    if (thread >= c->threads) return (fb_block_new)(bytes); /* a larger team than when the handle was made */
    char *at = c->blocks + thread * c->block_bytes + c->taken[thread].used;
    c->taken[thread].used += (bytes + 63) / 64 * 64;
    return at;
}

static inline void fbx_block_free(const fb_kernel_args *args, void *block)
{
    fbx_chain *c = args->context;
    int thread = fbx_thread();
    if (thread >= c->threads)
        (fb_block_free)(block);
    else
        c->taken[thread].used = 0;
}

#endif
