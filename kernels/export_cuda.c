/* ---- the same for every export ---- */

/* Gives out the workspace; with h->workspace 0 it only counts. */
static CUdeviceptr take(handle *h, int64_t *used, int64_t bytes)
{
    CUdeviceptr at = h->workspace + (CUdeviceptr)*used;
    *used += (bytes + 255) / 256 * 256;
    return at;
}

static int64_t lay_out(handle *h)
{
    int64_t used = 0;
    h->pool = take(h, &used, POOL_BYTES);
    h->aside = take(h, &used, ASIDE_BYTES);
#if HAS_PRODUCTS
    h->library = take(h, &used, LIBRARY_BYTES);
#endif
    return used;
}

/* ---- kernels ---- */

static NAME(status) load(handle *h, int k, int units)
{
    const kernel *c = &kernels[k];
    int blocks = 0;
    if (!c->entry) return CODE(OK);
    CUresult r = cuModuleLoadData(&h->modules[k], c->cubin);
    bool other = r == CUDA_ERROR_NO_BINARY_FOR_GPU || r == CUDA_ERROR_INVALID_IMAGE;
    if (other && c->ptx) r = cuModuleLoadData(&h->modules[k], c->ptx);
    if (r == CUDA_ERROR_OUT_OF_MEMORY) return CODE(NO_MEMORY);
    if (r != CUDA_SUCCESS) return other ? CODE(NO_CODE) : CODE(NO_DEVICE);
    if (cuModuleGetFunction(&h->functions[k], h->modules[k], c->entry) != CUDA_SUCCESS) return CODE(NO_DEVICE);
    if (c->shared > 48 * 1024 &&
        cuFuncSetAttribute(h->functions[k], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, c->shared) != CUDA_SUCCESS)
        return CODE(NO_CODE); /* a GPU with less of it */
    if (c->wide &&
        cuFuncSetAttribute(h->functions[k], CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1) != CUDA_SUCCESS)
        return CODE(NO_CODE);
    if (!c->together && !c->row) return CODE(OK);
    if (cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, h->functions[k], c->block[0], (size_t)c->shared) !=
        CUDA_SUCCESS)
        return CODE(NO_DEVICE);
    if (c->row > blocks * units) return CODE(NO_CODE); /* some would wait for others that cannot begin */
    h->blocks[k] = blocks * units < c->grid[0] ? blocks * units : c->grid[0];
    return h->blocks[k] > 0 ? CODE(OK) : CODE(NO_CODE);
}

/* ---- products: row-major C = A B is asked for as Cᵀ = Bᵀ Aᵀ, for the library is column-major ---- */

#if HAS_PRODUCTS
static bool layout(const product *p, int64_t rows, int64_t cols, const operand *o, cublasLtMatrixLayout_t *to,
                   cublasOperation_t *transposed)
{
    bool along = o->col == 1 || cols == 1;
    int64_t inner = along ? cols : rows, outer = along ? rows : cols, ld = along ? o->row : o->col;
    int32_t count = (int32_t)p->batch;
    if (ld < inner || outer == 1) ld = inner;
    *transposed = along ? CUBLAS_OP_N : CUBLAS_OP_T;
    if (cublasLtMatrixLayoutCreate(to, p->type, (uint64_t)inner, (uint64_t)outer, ld) != CUBLAS_STATUS_SUCCESS)
        return false;
    return p->batch <= 1 || (cublasLtMatrixLayoutSetAttribute(*to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                              sizeof count) == CUBLAS_STATUS_SUCCESS &&
                             cublasLtMatrixLayoutSetAttribute(*to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                              &o->batch, sizeof o->batch) == CUBLAS_STATUS_SUCCESS);
}

static bool describe(const product *p, call *d)
{
    cublasOperation_t left, right, none;
    cublasLtEpilogue_t out = p->has_bias ? (p->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                             : p->relu   ? CUBLASLT_EPILOGUE_RELU
                                         : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t scale = p->type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
    return layout(p, p->k, p->n, &p->b, &d->left, &left) && layout(p, p->m, p->k, &p->a, &d->right, &right) &&
           layout(p, p->m, p->n, &p->c, &d->result, &none) &&
           (!p->has_addend || layout(p, p->m, p->n, &p->addend, &d->addend, &none)) &&
           cublasLtMatmulDescCreate(&d->desc, p->compute, scale) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(d->desc, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(d->desc, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(d->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &out, sizeof out) ==
               CUBLAS_STATUS_SUCCESS;
}

/* The algorithm that the library thinks best for these shapes and alignments. */
static bool choose(handle *h, const product *p, call *d)
{
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    size_t room = LIBRARY_BYTES;
    uint32_t reduced = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int n = 0;
    const uint32_t *to = p->aligned;
    if (cublasLtMatmulPreferenceCreate(&wish) != CUBLAS_STATUS_SUCCESS) return false;
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
    if (p->size == 2) /* parts of a sum are not rounded to 16 bits */
        cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduced,
                                             sizeof reduced);
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &to[1], sizeof *to);
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &to[0], sizeof *to);
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &to[2], sizeof *to);
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &to[2], sizeof *to);
    cublasStatus_t s = cublasLtMatmulAlgoGetHeuristic(
        h->blas, d->desc, d->left, d->right, p->has_addend ? d->addend : d->result, d->result, wish, 1, &found, &n);
    cublasLtMatmulPreferenceDestroy(wish);
    if (s == CUBLAS_STATUS_SUCCESS && n) d->algo = found.algo;
    return s == CUBLAS_STATUS_SUCCESS && n;
}

static NAME(status) open_library(handle *h)
{
    if (cublasLtCreate(&h->blas) != CUBLAS_STATUS_SUCCESS) return CODE(NO_LIBRARY);
    for (int g = 0; g < PRODUCTS; g++) {
        const product *p = &products[g];
        bool any = p->m && p->n && p->k && p->batch;
        if (any && (!describe(p, &h->calls[g]) || !choose(h, p, &h->calls[g]))) return CODE(NO_LIBRARY);
    }
    return CODE(OK);
}

static void close_library(handle *h)
{
    for (int g = 0; g < PRODUCTS; g++) {
        call *d = &h->calls[g];
        if (d->desc) cublasLtMatmulDescDestroy(d->desc);
        if (d->left) cublasLtMatrixLayoutDestroy(d->left);
        if (d->right) cublasLtMatrixLayoutDestroy(d->right);
        if (d->result) cublasLtMatrixLayoutDestroy(d->result);
        if (d->addend) cublasLtMatrixLayoutDestroy(d->addend);
    }
    if (h->blas) cublasLtDestroy(h->blas);
}
#endif

/* ---- handles ---- */

static NAME(status) make(handle *h)
{
    CUdevice device;
    int units = 0;
    if (cuInit(0) != CUDA_SUCCESS || cuCtxGetCurrent(&h->context) != CUDA_SUCCESS || !h->context)
        return CODE(NO_DEVICE);
    if (cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        cuDeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS)
        return CODE(NO_DEVICE);
    if (cuMemAlloc(&h->workspace, (size_t)lay_out(h) + 256) != CUDA_SUCCESS) {
        h->workspace = 0;
        return CODE(NO_MEMORY);
    }
    lay_out(h);
    for (int k = 0; k < KERNELS; k++) {
        NAME(status) status = load(h, k, units);
        if (status != CODE(OK)) return status;
    }
#if HAS_PRODUCTS
    return open_library(h);
#else
    return CODE(OK);
#endif
}

NAME(status) NAME(create)(handle **to)
{
    if (!to) return CODE(NULL);
    *to = NULL;
    handle *h = calloc(1, sizeof *h);
    if (!h) return CODE(NO_MEMORY);
    atomic_flag_clear(&h->busy);
    NAME(status) status = make(h);
    if (status == CODE(OK))
        *to = h;
    else
        NAME(destroy)(h);
    return status;
}

void NAME(destroy)(handle *h)
{
    CUcontext out;
    if (!h) return;
    bool entered = h->context && cuCtxPushCurrent(h->context) == CUDA_SUCCESS;
#if HAS_PRODUCTS
    close_library(h);
#endif
    for (int k = 0; k < KERNELS && entered; k++)
        if (h->modules[k]) cuModuleUnload(h->modules[k]);
    if (h->workspace && entered) cuMemFree(h->workspace);
    if (entered) cuCtxPopCurrent(&out);
    free(h);
}

/* ---- a run ---- */

static NAME(status) refuse(handle *h, NAME(status) status, const char *which, const char *with)
{
    snprintf(h->message, sizeof h->message, "%s: %s%s%s", which, NAME(explain)(status), *with ? ": " : "", with);
    return status;
}

static NAME(status) look(handle *h, const NAME(tensors) * t, CUdeviceptr *home)
{
    for (int i = 0; i < TENSORS; i++) {
        void *at;
        memcpy(&at, (const char *)t + tensors[i].at, sizeof at);
        if (!at && tensors[i].bytes) return refuse(h, CODE(NULL), tensors[i].name, "");
        if ((uintptr_t)at % (uintptr_t)tensors[i].alignment) return refuse(h, CODE(MISALIGNED), tensors[i].name, "");
        home[tensors[i].buffer] = (CUdeviceptr)(uintptr_t)at;
    }
    for (int i = 0; i < TENSORS; i++)
        for (int k = 0; k < TENSORS && tensors[i].written; k++) {
            CUdeviceptr a = home[tensors[i].buffer], b = home[tensors[k].buffer];
            bool apart = a + (CUdeviceptr)tensors[i].bytes <= b || b + (CUdeviceptr)tensors[k].bytes <= a;
            if (k != i && tensors[i].bytes && tensors[k].bytes && !apart)
                return refuse(h, CODE(OVERLAP), tensors[i].name, tensors[k].name);
        }
    return CODE(OK);
}

static NAME(status) queue(handle *h, const CUdeviceptr *home, CUstream stream)
{
    const char *why = NULL;
    CUcontext out;
    memcpy(h->b, home, sizeof h->b);
    place(h);
    h->result = cuCtxPushCurrent(h->context);
    bool entered = h->result == CUDA_SUCCESS;
    launch(h, stream);
    settle(h, home, stream);
    if (entered) cuCtxPopCurrent(&out);
#if HAS_PRODUCTS
    cublasStatus_t refused = h->refused;
    h->refused = CUBLAS_STATUS_SUCCESS;
    if (refused != CUBLAS_STATUS_SUCCESS) return refuse(h, CODE(NO_LIBRARY), "cuBLASLt", "");
#endif
    if (h->result == CUDA_SUCCESS) return CODE(OK);
    cuGetErrorString(h->result, &why);
    return refuse(h, CODE(NO_DEVICE), "the driver", why ? why : "");
}

NAME(status) NAME(run)(handle *h, const NAME(tensors) * t, struct CUstream_st *stream)
{
    CUdeviceptr home[BUFFERS + 1] = {0};
    if (!h) return CODE(NULL);
    if (atomic_flag_test_and_set(&h->busy)) return CODE(BUSY);
    h->message[0] = '\0';
    NAME(status) status = t ? look(h, t, home) : refuse(h, CODE(NULL), "tensors", "");
    if (status == CODE(OK)) status = queue(h, home, stream);
    atomic_flag_clear(&h->busy);
    return status;
}

const char *NAME(explain)(NAME(status) status)
{
    switch (status) {
    case CODE(OK): return "well";
    case CODE(NULL): return "is missing";
    case CODE(MISALIGNED): return "does not begin at a multiple of 16 bytes";
    case CODE(OVERLAP): return "is written, and lies over another tensor";
    case CODE(BUSY): return "the handle runs already";
    case CODE(NO_MEMORY): return "no memory";
    case CODE(NO_DEVICE): return "a call of the driver failed, or no context is current";
    case CODE(NO_CODE):
        return HAS_PTX ? "there is no code for this GPU: it was compiled for " ARCH ", with PTX for newer ones"
                       : "there is no code for this GPU: it was compiled for " ARCH " alone";
    case CODE(NO_LIBRARY): return "cuBLASLt is missing, or refuses";
    }
    return "no such status";
}

const char *NAME(error)(const handle *h)
{
    return h ? h->message : "";
}

const char *NAME(library)(const handle *h)
{
    (void)h;
    return HAS_PRODUCTS ? "cuBLASLt" : "";
}
