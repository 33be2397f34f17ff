
#include <cuda.h>

static void must(CUresult r, const char *what)
{
    need(r == CUDA_SUCCESS, what);
}

static CUdeviceptr at_device(const tensor *t)
{
    return (CUdeviceptr)(uintptr_t)t->now;
}

static void reset(void)
{
    for (int i = 0; i < TENSORS; i++) {
        tensor *t = &tensors[i];
        if (!t->bytes) continue;
        if (t->given)
            must(cuMemcpyHtoD(at_device(t), t->bytes_given, (size_t)t->bytes), "copying to the GPU");
        else
            must(cuMemsetD8(at_device(t), 0xff, (size_t)t->bytes), "filling memory of the GPU");
    }
}

static void refusals(handle *h, const NAME(tensors) * all)
{
    for (int i = 0; i < TENSORS; i++) {
        NAME(tensors) other = *all;
        void *none = NULL, *odd = (char *)tensors[i].now + 1;
        if (!tensors[i].bytes) continue;
        memcpy((char *)&other + tensors[i].at, &none, sizeof none);
        need(NAME(run)(h, &other, NULL) == CODE(NULL) && *NAME(error)(h), "a missing tensor is refused");
        memcpy((char *)&other + tensors[i].at, &odd, sizeof odd);
        need(NAME(run)(h, &other, NULL) == CODE(MISALIGNED), "a misaligned tensor is refused");
        for (int k = 0; k < TENSORS && tensors[i].written; k++) {
            if (k == i || !tensors[k].bytes) continue;
            memcpy((char *)&other + tensors[i].at, &tensors[k].now, sizeof(void *));
            need(NAME(run)(h, &other, NULL) == CODE(OVERLAP), "what is written over another tensor is refused");
        }
    }
}

static bool run_once(handle *h, const NAME(tensors) * all, double *worst)
{
    bool fine = true;
    reset();
    need(NAME(run)(h, all, NULL) == CODE(OK), NAME(error)(h));
    must(cuCtxSynchronize(), "running");
    for (int i = 0; i < TENSORS; i++) {
        const tensor *t = &tensors[i];
        void *got = malloc((size_t)t->bytes + 1);
        need(got != NULL, "no memory");
        if (t->bytes) must(cuMemcpyDtoH(got, at_device(t), (size_t)t->bytes), "copying from the GPU");
        if (t->checked) fine &= compare(t, got, worst);
        if (t->given && !t->written) need(!memcmp(got, t->bytes_given, (size_t)t->bytes), "inputs stay");
        free(got);
    }
    return fine;
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    handle *h;
    NAME(tensors) all;
    double worst = 0;
    int checked = 0, gpus = 0;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&gpus) != CUDA_SUCCESS || !gpus) {
        printf("skipped: there is no GPU\n");
        return 77;
    }
    data = fopen(argc > 1 ? argv[1] : "test/data.bin", "rb");
    need(data != NULL, "test/data.bin cannot be opened");
    must(cuDeviceGet(&device, 0), "a GPU");
    must(cuDevicePrimaryCtxRetain(&context, device), "a context");
    must(cuCtxSetCurrent(context), "a context");
    memset(&all, 0, sizeof all);
    for (int i = 0; i < TENSORS; i++) {
        tensor *t = &tensors[i];
        CUdeviceptr at = 0;
        if (t->given) t->bytes_given = read_all((size_t)t->bytes);
        if (t->checked) t->expected = read_all((size_t)t->elements * sizeof(double));
        if (t->checked) t->allowed = read_all((size_t)t->elements * sizeof(float));
        if (t->bytes) must(cuMemAlloc(&at, (size_t)t->bytes), "memory of the GPU");
        t->now = (void *)(uintptr_t)at;
        memcpy((char *)&all + t->at, &t->now, sizeof(void *));
        checked += t->checked;
    }
    need(fgetc(data) == EOF, "test/data.bin is too long");
    NAME(status) made = NAME(create)(&h);
    need(made == CODE(OK), NAME(explain)(made));
    refusals(h, &all);
    bool fine = run_once(h, &all, &worst) && run_once(h, &all, &worst);
    NAME(destroy)(h);
    if (fine) printf("ok: %d tensors, the largest error %.2g of what is allowed\n", checked, worst);
    return !fine;
}
