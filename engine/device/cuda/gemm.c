/* Contractions through cuBLASLt, or cuDNN where they are convolutions (convolution.c). fusebox is row-major and cuBLASLt
 * column-major, so C = A·B is asked for as Cᵀ = Bᵀ·Aᵀ: the operands change places and nothing is copied; a stride of 1 in
 * the other dimension is a transpose. */
#include "device/cuda/parts.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct fb_cuda_gemm {
    fb_gemm_call call;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t left, right, result; /* B, A and C of the row-major call */
    cublasLtMatrixLayout_t addend;              /* NULL: none */
    fb_cuda_convolution *convolution;           /* NULL: it is a product */
    int which;                                  /* of the proposals is taken */
    int n_proposed; /* what the library thinks best, the best first: a guess, from a table of its own */
    cublasLtMatmulHeuristicResult_t proposed[8];
};

static const struct {
    cudaDataType_t type;
    cublasComputeType_t compute;
    bool known;
} types[FB_DTYPES] = {
    [FB_F32] = {CUDA_R_32F, CUBLAS_COMPUTE_32F, true},
    [FB_F16] = {CUDA_R_16F, CUBLAS_COMPUTE_32F, true},
    [FB_BF16] = {CUDA_R_16BF, CUBLAS_COMPUTE_32F, true},
    [FB_F64] = {CUDA_R_64F, CUBLAS_COMPUTE_64F, true},
};

static bool failed(fb_error *err, cublasStatus_t status, const char *doing)
{
    return fb_fail(err, FB_ERR_SYSTEM, "cuBLASLt, %s: status %d", doing, (int)status);
}

/* The layout of a row-major matrix [rows, cols] with element strides, seen as column-major; *transposed says whether
 * the library must transpose it to get [cols, rows]. */
static bool layout(fb_cuda_device *d, fb_dtype dtype, int64_t rows, int64_t cols, int64_t row, int64_t col,
                   int64_t batch, int64_t batch_stride, cublasLtMatrixLayout_t *out, bool *transposed, fb_error *err)
{
    bool along_cols = col == 1 || cols == 1;
    if (!along_cols && !(row == 1 || rows == 1))
        return fb_fail(err, FB_ERR_SYSTEM, "cuBLASLt takes no matrix without a unit stride");
    int64_t inner = along_cols ? cols : rows, outer = along_cols ? rows : cols;
    int64_t ld = along_cols ? row : col;
    if (outer == 1) ld = inner;
    if (ld < inner) return fb_fail(err, FB_ERR_SYSTEM, "cuBLASLt takes no matrix whose lines overlap");
    *transposed = !along_cols;
    cublasStatus_t status =
        d->f->cublasLtMatrixLayoutCreate(out, types[dtype].type, (uint64_t)inner, (uint64_t)outer, ld);
    int32_t count = (int32_t)batch;
    if (status == CUBLAS_STATUS_SUCCESS && batch > 1) {
        status = d->f->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
        if (status == CUBLAS_STATUS_SUCCESS)
            status = d->f->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                            &batch_stride, sizeof batch_stride);
    }
    return status == CUBLAS_STATUS_SUCCESS ? true : failed(err, status, "describing a matrix");
}

static bool describe(fb_cuda_device *d, fb_cuda_gemm *g, fb_error *err)
{
    const fb_gemm_call *c = &g->call;
    bool left_t = false, right_t = false, result_t = false;
    if (!layout(d, c->dtype, c->k, c->n, c->b_row, c->b_col, c->batch, c->b_batch, &g->left, &left_t, err))
        return false;
    if (!layout(d, c->dtype, c->m, c->k, c->a_row, c->a_col, c->batch, c->a_batch, &g->right, &right_t, err))
        return false;
    if (!layout(d, c->dtype, c->m, c->n, c->c_row, 1, c->batch, c->c_batch, &g->result, &result_t, err)) return false;
    bool addend_t;
    if (c->addend != FB_NONE &&
        !layout(d, c->dtype, c->m, c->n, c->addend_row, 1, c->batch, c->addend_batch, &g->addend, &addend_t, err))
        return false;
    cublasComputeType_t compute = types[c->dtype].compute;
    if (c->dtype == FB_F32 && c->precision == FB_PRECISION_TF32) compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    cudaDataType_t scale = c->dtype == FB_F64 ? CUDA_R_64F : CUDA_R_32F;
    cublasStatus_t status = d->f->cublasLtMatmulDescCreate(&g->desc, compute, scale);
    if (status != CUBLAS_STATUS_SUCCESS) return failed(err, status, "describing a product");
    cublasOperation_t op_left = left_t ? CUBLAS_OP_T : CUBLAS_OP_N, op_right = right_t ? CUBLAS_OP_T : CUBLAS_OP_N;
    d->f->cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_left, sizeof op_left);
    d->f->cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_right, sizeof op_right);
    cublasLtEpilogue_t out = c->bias != FB_NONE ? c->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                             : c->relu          ? CUBLASLT_EPILOGUE_RELU
                                                : CUBLASLT_EPILOGUE_DEFAULT;
    status = d->f->cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &out, sizeof out);
    return status == CUBLAS_STATUS_SUCCESS ? true : failed(err, status, "asking for an epilogue");
}

/* The library takes pointers for aligned to 256 bytes unless it is told; windows and the steps of loops start anywhere.
 */
static void tell_alignment(fb_cuda_device *d, cublasLtMatmulPreference_t wish,
                           cublasLtMatmulPreferenceAttributes_t which, int64_t offset, fb_advance advance)
{
    uint32_t bytes = 256;
    while (bytes > 1 && ((uint64_t)offset | (uint64_t)advance.bytes) % bytes) bytes /= 2;
    d->f->cublasLtMatmulPreferenceSetAttribute(wish, which, &bytes, sizeof bytes);
}

static bool propose(fb_cuda_device *d, fb_cuda_gemm *g, fb_error *err)
{
    cublasLtMatmulPreference_t wish;
    cublasStatus_t status = d->f->cublasLtMatmulPreferenceCreate(&wish);
    if (status != CUBLAS_STATUS_SUCCESS) return failed(err, status, "choosing an algorithm");
    size_t room = FB_CUDA_WORKSPACE;
    d->f->cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
    /* of the column-major call, whose first operand is B */
    const fb_gemm_call *c = &g->call;
    int64_t size = fb_dtype_size(c->dtype);
    /* A sum split over k is added up in the type that sums have. Parts that are rounded to 16 bits first are up to
     * half a unit of their own size off, which may be much larger than the sum's. */
    uint32_t reduced = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (size == 2)
        d->f->cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduced,
                                                   sizeof reduced);
    tell_alignment(d, wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, c->b_offset * size, c->b_advance);
    tell_alignment(d, wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, c->a_offset * size, c->a_advance);
    tell_alignment(d, wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 0, c->c_advance);
    tell_alignment(d, wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 0, c->c_advance);
    status = d->f->cublasLtMatmulAlgoGetHeuristic(
        d->blas, g->desc, g->left, g->right, g->addend ? g->addend : g->result, g->result, wish,
        (int)(sizeof g->proposed / sizeof *g->proposed), g->proposed, &g->n_proposed);
    d->f->cublasLtMatmulPreferenceDestroy(wish);
    if (status != CUBLAS_STATUS_SUCCESS || g->n_proposed == 0)
        return failed(err, status, "no algorithm for this product");
    return true;
}

static bool make(fb_cuda_device *d, fb_cuda_gemm *g, fb_error *err)
{
    const fb_gemm_call *c = &g->call;
    if (!c->m || !c->n || !c->k || !c->batch) return true;
    if (!c->convolution.space) return describe(d, g, err) && propose(d, g, err);
    g->convolution = fb_cuda_convolution_new(d, c, &g->n_proposed, err);
    return g->convolution != NULL;
}

fb_cuda_gemm *fb_cuda_gemm_new(fb_cuda_device *d, const fb_gemm_call *call, fb_error *err)
{
    if (!d->blas && !call->convolution.space) {
        fb_cuda_get(FB_CUDA_BLASLT, err);
        return NULL;
    }
    if (!types[call->dtype].known) {
        fb_fail(err, FB_ERR_SYSTEM, "cuBLASLt takes no %s", fb_dtype_name(call->dtype));
        return NULL;
    }
    fb_cuda_gemm *g = fb_calloc(1, sizeof *g);
    g->call = *call;
    if (!make(d, g, err)) {
        fb_cuda_gemm_free(d, g);
        return NULL;
    }
    return g;
}

void fb_cuda_gemm_free(fb_cuda_device *d, fb_cuda_gemm *g)
{
    if (!g) return;
    if (g->desc) d->f->cublasLtMatmulDescDestroy(g->desc);
    if (g->left) d->f->cublasLtMatrixLayoutDestroy(g->left);
    if (g->right) d->f->cublasLtMatrixLayoutDestroy(g->right);
    if (g->result) d->f->cublasLtMatrixLayoutDestroy(g->result);
    if (g->addend) d->f->cublasLtMatrixLayoutDestroy(g->addend);
    fb_cuda_convolution_free(d, g->convolution);
    fb_free(g);
}

bool fb_cuda_gemm_run(fb_cuda_device *d, fb_cuda_gemm *g, const fb_cuda_gemm_args *at, fb_error *err)
{
    const fb_gemm_call *call = &g->call;
    size_t size = (size_t)fb_dtype_size(call->dtype);
    if (!call->m || !call->n || !call->batch) return true;
    if (!call->k) { /* an empty sum */
        CUresult zeroed = d->f->cuMemsetD8Async(at->c, 0, (size_t)(call->batch * call->m * call->n) * size, d->stream);
        return zeroed == CUDA_SUCCESS ? true : fb_cuda_fail(err, zeroed, "clearing a product over nothing");
    }
    if (g->convolution) {
        const fb_cuda_gemm_args first = {at->a + (size_t)call->a_offset * size, at->b + (size_t)call->b_offset * size,
                                         at->addend + (size_t)call->addend_offset * size,
                                         at->bias + (size_t)call->bias_offset * size, at->c};
        return fb_cuda_convolution_run(d, g->convolution, g->which, &first, err);
    }
    if (call->bias != FB_NONE) {
        const void *from = (const void *)(at->bias + (size_t)call->bias_offset * size);
        d->f->cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &from, sizeof from);
    }
    /* factors are of the type that sums have */
    const double alpha64 = call->scale, beta64 = call->addend != FB_NONE ? call->addend_scale : 0;
    const float alpha = (float)alpha64, beta = (float)beta64;
    bool f64 = call->dtype == FB_F64;
    const void *addend =
        call->addend != FB_NONE ? (const void *)(at->addend + (size_t)call->addend_offset * size) : (const void *)at->c;
    cublasStatus_t status = d->f->cublasLtMatmul(
        d->blas, g->desc, f64 ? (const void *)&alpha64 : &alpha, (const void *)(at->b + (size_t)call->b_offset * size),
        g->left, (const void *)(at->a + (size_t)call->a_offset * size), g->right, f64 ? (const void *)&beta64 : &beta,
        addend, g->addend ? g->addend : g->result, (void *)at->c, g->result, &g->proposed[g->which].algo,
        (void *)d->workspace, FB_CUDA_WORKSPACE, (cudaStream_t)d->stream);
    return status == CUBLAS_STATUS_SUCCESS ? true : failed(err, status, "multiplying");
}

/* ---- the fastest algorithm ---- */

typedef struct {
    fb_cuda_device *d;
    fb_cuda_gemm *g;
    const fb_cuda_gemm_args *at;
} trial;

static bool issue_trial(void *ctx, int i, fb_error *err)
{
    (void)i;
    trial *t = ctx;
    return fb_cuda_gemm_run(t->d, t->g, t->at, err);
}

/* Twice, for the first time loads its code; *us of the second with what the host needs for it. */
static bool try_alone(trial *t, double *us, fb_error *err)
{
    for (int i = 0; i < 2; i++) {
        double start = fb_now_us();
        if (!issue_trial(t, i, err) || !fb_cuda_wait(t->d, err)) return false;
        *us = fb_now_us() - start;
    }
    return true;
}

/* A later proposal must be faster by more than what two measurements of the same differ by. */
static bool find_fastest(fb_cuda_device *d, fb_cuda_gemm *g, const fb_cuda_gemm_args *at, int *fastest, fb_error *err)
{
    enum { ROUNDS = 5, TOGETHER_US = 300, MOST = 20, FEW = 3 };
    const double clearly = 0.96;
    trial t = {d, g, at};
    double alone, best = INFINITY;
    int count = 0;
    *fastest = 0;
    for (int i = 0; i < g->n_proposed; i++) {
        double us;
        g->which = i;
        if (!try_alone(&t, &alone, err)) {
            if (i == 0) return false;
            continue; /* the first one runs */
        }
        if (!count)
            count = alone * MOST < TOGETHER_US ? MOST : alone * FEW > TOGETHER_US ? FEW : (int)(TOGETHER_US / alone);
        if (!fb_cuda_time(d, issue_trial, &t, count, ROUNDS, &us, err)) return false;
        if (us < best * clearly) best = us, *fastest = i;
    }
    return true;
}

/* ---- choices made before, by this process or another ---- */

/* A choice holds for one version of the library, on one kind of GPU. */
static bool choice_path(const fb_cuda_device *d, const fb_cuda_gemm *g, fb_hash product, char *to, size_t room)
{
    char dir[3900], hex[33];
    if (!fb_cache_dir(FB_CUDA_CHOICES, dir, sizeof dir, NULL)) return false;
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add(h, &product, sizeof product);
    fb_hasher_add_text(h, d->machine.name);
    fb_hasher_add_i64(h, d->driver_version);
    bool convolution = g->call.convolution.space;
    fb_hasher_add_i64(h, (int64_t)(convolution ? d->f->cudnnGetVersion() : d->f->cublasLtGetVersion()));
    snprintf(to, room, "%s/%s.choice", dir, fb_hash_hex(fb_hasher_end(h), hex));
    return true;
}

/* What is kept is which of how many proposals it was, for the library proposes the same to all who ask the same. An
 * algorithm's bytes would not do: not all of them mean something. */
static int choice_on_disk(const fb_cuda_device *d, const fb_cuda_gemm *g, fb_hash product)
{
    enum { MOST_BYTES = 64 };
    char path[4096];
    size_t n = 0;
    int which = 0, of = 0, end = 0;
    if (!choice_path(d, g, product, path, sizeof path)) return FB_NONE;
    char *text = fb_checked_read(path, fb_file_name(path), MOST_BYTES, &n);
    bool good = text && sscanf(text, "%d of %d\n%n", &which, &of, &end) == 2 && (size_t)end == n && which >= 1 &&
                which <= of && of == g->n_proposed;
    if (good) fb_cache_touch(path);
    fb_free(text);
    return good ? which - 1 : FB_NONE;
}

static void keep(const fb_cuda_device *d, const fb_cuda_gemm *g, fb_hash product, int which)
{
    enum { MOST_BYTES = 16 << 20 };
    char path[4096], dir[3900], text[32];
    if (!choice_path(d, g, product, path, sizeof path)) return;
    snprintf(text, sizeof text, "%d of %d\n", which + 1, g->n_proposed);
    fb_checked_write(path, fb_file_name(path), text, strlen(text), NULL); /* what is not kept is timed again */
    if (d->choices.n == 0 && fb_cache_dir(FB_CUDA_CHOICES, dir, sizeof dir, NULL)) fb_cache_trim(dir, MOST_BYTES);
}

static void take(fb_cuda_device *d, fb_cuda_gemm *g, fb_hash product, int which)
{
    g->which = which;
    FB_VEC_PUSH(&d->choices, (fb_cuda_choice){product, which});
}

static bool recall(fb_cuda_device *d, fb_cuda_gemm *g)
{
    if (g->n_proposed < 2) return true;
    fb_hash product = fb_program_gemm_code(&g->call);
    for (int i = 0; i < d->choices.n; i++) {
        if (!fb_hash_equal(d->choices.at[i].product, product)) continue;
        g->which = d->choices.at[i].which;
        return true;
    }
    int which = choice_on_disk(d, g, product);
    if (which != FB_NONE) take(d, g, product, which);
    return which != FB_NONE;
}

bool fb_cuda_gemm_recall(fb_cuda_device *d, fb_cuda_gemm *g)
{
    bool known = recall(d, g);
    if (known && g->convolution) fb_cuda_convolution_settle(d, g->convolution, g->which);
    return known;
}

bool fb_cuda_gemm_choose(fb_cuda_device *d, fb_cuda_gemm *g, const fb_cuda_gemm_args *at, fb_error *err)
{
    fb_hash product = fb_program_gemm_code(&g->call);
    int which;
    d->last_run = NULL;
    if (!find_fastest(d, g, at, &which, err)) return false;
    keep(d, g, product, which);
    take(d, g, product, which);
    return true;
}

void fb_cuda_gemm_forget(fb_cuda_device *d)
{
    char dir[3900];
    d->choices.n = 0;
    if (fb_cache_dir(FB_CUDA_CHOICES, dir, sizeof dir, NULL)) fb_cache_empty(dir);
}
