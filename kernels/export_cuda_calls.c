#if HAS_PRODUCTS
typedef struct {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t left, right, result, addend;
    cublasLtMatmulAlgo_t algo;
} call;
#endif

/* The handle. */
struct THE_HANDLE {
    atomic_flag busy;
    CUcontext context; /* that was current when it was made; its runs and its end may be any thread's */
    CUmodule modules[KERNELS + 1];
    CUfunction functions[KERNELS + 1];
    int blocks[KERNELS + 1]; /* of a kernel whose blocks are there at once */
    CUdeviceptr workspace;   /* one allocation: the rest lies in it */
    CUdeviceptr pool, aside, library;
    CUdeviceptr b[BUFFERS + 1]; /* where each buffer is; swaps exchange two */
    CUresult result;            /* the first call of the driver that failed */
#if HAS_PRODUCTS
    cublasLtHandle_t blas;
    call calls[PRODUCTS];
    cublasStatus_t refused;
#endif
    char message[160];
};

/* ---- what a run is made of; after a failure nothing more is queued ---- */

static inline bool stopped(const handle *h)
{
#if HAS_PRODUCTS
    if (h->refused != CUBLAS_STATUS_SUCCESS) return true;
#endif
    return h->result != CUDA_SUCCESS;
}

/* A pointer an argument, and behind them the trip count of a loop that has one. */
static inline void start(handle *h, int k, CUstream stream, int n, CUdeviceptr *at, int64_t steps)
{
    const kernel *c = &kernels[k];
    void *args[1024];
    if (stopped(h) || !c->grid[0] || !c->grid[1] || !c->grid[2]) return;
    for (int i = 0; i < n; i++) args[i] = &at[i];
    args[n] = &steps;
    if (c->together)
        h->result = cuLaunchCooperativeKernel(h->functions[k], (unsigned)h->blocks[k], 1, 1, (unsigned)c->block[0], 1,
                                              1, (unsigned)c->shared, stream, args);
    else
        h->result = cuLaunchKernel(h->functions[k], (unsigned)c->grid[0], (unsigned)c->grid[1], (unsigned)c->grid[2],
                                   (unsigned)c->block[0], (unsigned)c->block[1], (unsigned)c->block[2],
                                   (unsigned)c->shared, stream, args, NULL);
}

static inline void copy(handle *h, CUdeviceptr to, CUdeviceptr from, int64_t bytes, CUstream stream)
{
    if (!stopped(h) && bytes) h->result = cuMemcpyDtoDAsync(to, from, (size_t)bytes, stream);
}

#if HAS_PRODUCTS
static inline void multiply(handle *h, int g, CUstream stream, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c,
                            CUdeviceptr bias, CUdeviceptr addend)
{
    const product *p = &products[g];
    call *d = &h->calls[g];
    const double alpha = p->scale, beta = p->has_addend ? p->addend_scale : 0;
    const float alpha32 = (float)alpha, beta32 = (float)beta;
    bool wide = p->type == CUDA_R_64F;
    if (stopped(h) || !p->m || !p->n || !p->batch) return;
    if (!p->k) { /* an empty sum */
        h->result = cuMemsetD8Async(c, 0, (size_t)(p->batch * p->m * p->n * p->size), stream);
        return;
    }
    if (p->has_bias) {
        const void *from = (const void *)(bias + (CUdeviceptr)p->bias_offset);
        h->refused = cublasLtMatmulDescSetAttribute(d->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &from, sizeof from);
        if (stopped(h)) return;
    }
    const void *added = (const void *)(p->has_addend ? addend + (CUdeviceptr)p->addend.offset : c);
    h->refused = cublasLtMatmul(
        h->blas, d->desc, wide ? (const void *)&alpha : &alpha32, (const void *)(b + (CUdeviceptr)p->b.offset), d->left,
        (const void *)(a + (CUdeviceptr)p->a.offset), d->right, wide ? (const void *)&beta : &beta32, added,
        p->has_addend ? d->addend : d->result, (void *)c, d->result, &d->algo, (void *)h->library, LIBRARY_BYTES,
        (cudaStream_t)stream);
}
#endif
