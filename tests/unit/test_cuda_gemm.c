/* The choice among cuBLASLt's algorithms, on a library that only pretends: its second proposal is the fastest, by far
 * enough to be seen on a busy machine. What was found is taken over by other devices of the kind, as long as the
 * library proposes it. */
#include "base/clock.h"
#include "base/json.h"
#include "device/cuda/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glob.h>

#include "scratch.h"

enum { MOST = 3, FASTEST = 1, LONG_US = 400, SHORT_US = 20 };

static int multiplied, last;   /* products so far; the algorithm of the last */
static int captured, launches; /* products in the graph that is being made, and of the one made last */
static bool capturing;
static size_t version;
static int proposed = MOST;

static int number_of(const cublasLtMatmulAlgo_t *a)
{
    return (int)a->data[3];
}

static void take(int algorithm)
{
    double until = fb_now_us() + (algorithm == FASTEST ? SHORT_US : LONG_US);
    while (fb_now_us() < until) continue;
}

/* ---- the library ---- */

static size_t fake_version(void)
{
    return version;
}

static cublasStatus_t fake_layout(cublasLtMatrixLayout_t *to, cudaDataType type, uint64_t rows, uint64_t cols,
                                  int64_t ld)
{
    (void)type, (void)rows, (void)cols, (void)ld;
    *to = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_desc(cublasLtMatmulDesc_t *to, cublasComputeType_t compute, cudaDataType_t scale)
{
    (void)compute, (void)scale;
    *to = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_describe(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which, const void *from,
                                    size_t bytes)
{
    (void)desc, (void)which, (void)from, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_wish(cublasLtMatmulPreference_t *to)
{
    *to = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_tell(cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t which,
                                const void *from, size_t bytes)
{
    (void)wish, (void)which, (void)from, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_no_wish(cublasLtMatmulPreference_t wish)
{
    (void)wish;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_propose(cublasLtHandle_t blas, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t result,
                                   cublasLtMatmulPreference_t wish, int room, cublasLtMatmulHeuristicResult_t to[],
                                   int *n)
{
    (void)blas, (void)desc, (void)a, (void)b, (void)c, (void)result, (void)wish;
    assert_true(room >= MOST);
    for (int i = 0; i < proposed; i++) {
        memset(&to[i], 0, sizeof to[i]);
        to[i].algo.data[3] = (uint64_t)i;
        to[i].algo.data[7] = (uint64_t)rand(); /* of no meaning */
    }
    *n = proposed;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_multiply(cublasLtHandle_t blas, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                                    cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                                    const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *to,
                                    cublasLtMatrixLayout_t to_layout, const cublasLtMatmulAlgo_t *algo, void *room,
                                    size_t bytes, cudaStream_t stream)
{
    (void)blas, (void)desc, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)beta, (void)c;
    (void)c_layout, (void)to, (void)to_layout, (void)room, (void)bytes, (void)stream;
    multiplied++;
    last = number_of(algo);
    if (capturing)
        captured++;
    else
        take(last);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the driver ---- */

static CUresult fake_begin(CUstream stream, CUstreamCaptureMode mode)
{
    (void)stream, (void)mode;
    capturing = true;
    captured = 0;
    return CUDA_SUCCESS;
}

static CUresult fake_end(CUstream stream, CUgraph *graph)
{
    (void)stream;
    capturing = false;
    *graph = NULL;
    launches = captured;
    return CUDA_SUCCESS;
}

static CUresult fake_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)graph, (void)flags;
    *exec = NULL;
    return CUDA_SUCCESS;
}

static CUresult fake_graph(CUgraphExec exec, CUstream stream)
{
    (void)exec, (void)stream;
    for (int i = 0; i < launches; i++) take(last);
    return CUDA_SUCCESS;
}

static CUresult fake_no_exec(CUgraphExec exec)
{
    (void)exec;
    return CUDA_SUCCESS;
}

static CUresult fake_wait(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static const fb_cuda_functions fake = {
    .cublasLtGetVersion = fake_version,
    .cublasLtMatrixLayoutCreate = fake_layout,
    .cublasLtMatmulDescCreate = fake_desc,
    .cublasLtMatmulDescSetAttribute = fake_describe,
    .cublasLtMatmulPreferenceCreate = fake_wish,
    .cublasLtMatmulPreferenceSetAttribute = fake_tell,
    .cublasLtMatmulPreferenceDestroy = fake_no_wish,
    .cublasLtMatmulAlgoGetHeuristic = fake_propose,
    .cublasLtMatmul = fake_multiply,
    .cuStreamBeginCapture = fake_begin,
    .cuStreamEndCapture = fake_end,
    .cuGraphInstantiate = fake_instantiate,
    .cuGraphLaunch = fake_graph,
    .cuGraphExecDestroy = fake_no_exec,
    .cuStreamSynchronize = fake_wait,
};

/* ---- the tests ---- */

static fb_cuda_device device(const char *name)
{
    fb_cuda_device d = {.f = &fake, .blas = (cublasLtHandle_t)(void *)&multiplied, .driver_version = 13000};
    snprintf(d.machine.name, sizeof d.machine.name, "%s", name);
    return d;
}

/* The algorithm that this device takes for a product of n columns; *timed: how many products were made to find it. */
static int chosen(fb_cuda_device *d, int64_t n, int *timed)
{
    fb_error err = {0};
    const fb_cuda_gemm_args at = {.c = 256};
    const fb_gemm_call call = {.dtype = FB_F32,
                               .m = 8,
                               .n = n,
                               .k = 4,
                               .batch = 1,
                               .a_row = 4,
                               .a_col = 1,
                               .b_row = n,
                               .b_col = 1,
                               .c_row = n,
                               .epilogue = FB_NONE,
                               .bias = FB_NONE,
                               .addend = FB_NONE,
                               .scale = 1};
    int before = multiplied;
    fb_cuda_gemm *g = fb_cuda_gemm_new(d, &call, &err);
    if (!g || (!fb_cuda_gemm_recall(d, g) && !fb_cuda_gemm_choose(d, g, &at, &err))) fail_msg("%s", err.text);
    *timed = multiplied - before;
    if (!fb_cuda_gemm_run(d, g, &at, &err)) fail_msg("%s", err.text);
    fb_cuda_gemm_free(d, g);
    return last;
}

static int set_up(void **state)
{
    version = 130100;
    return make_scratch(state) == 0 ? setenv("XDG_CACHE_HOME", scratch, 1) : -1;
}

static void the_fastest_proposal_is_taken(void **state)
{
    (void)state;
    int timed;
    fb_cuda_device d = device("GPU");
    fb_cuda_gemm_forget(&d);
    assert_int_equal(chosen(&d, 16, &timed), FASTEST);
    assert_true(timed >= 2 * MOST);
    assert_int_equal(chosen(&d, 16, &timed), FASTEST); /* once a process */
    assert_int_equal(timed, 0);
    assert_int_equal(chosen(&d, 24, &timed), FASTEST); /* another product */
    assert_true(timed >= 2 * MOST);
    FB_VEC_FREE(&d.choices);
}

static void a_choice_outlives_its_process(void **state)
{
    (void)state;
    int timed;
    fb_cuda_device first = device("GPU"), second = device("GPU"), other = device("another GPU");
    fb_cuda_gemm_forget(&first);
    chosen(&first, 16, &timed);
    assert_int_equal(chosen(&second, 16, &timed), FASTEST);
    assert_int_equal(timed, 0);
    chosen(&other, 16, &timed);
    assert_true(timed > 0);
    FB_VEC_FREE(&first.choices);
    FB_VEC_FREE(&second.choices);
    FB_VEC_FREE(&other.choices);
}

static void another_library_is_timed_anew(void **state)
{
    (void)state;
    int timed;
    fb_cuda_device d = device("GPU");
    fb_cuda_gemm_forget(&d);
    chosen(&d, 16, &timed);
    FB_VEC_FREE(&d.choices);
    version++;
    chosen(&d, 16, &timed);
    assert_true(timed > 0);
    FB_VEC_FREE(&d.choices);
    proposed--; /* it calls itself the same, and proposes fewer */
    assert_int_equal(chosen(&d, 16, &timed), FASTEST);
    assert_true(timed > 0);
    proposed++;
    FB_VEC_FREE(&d.choices);
}

/* A file of the cache may hold anything. */
static void a_broken_choice_is_timed_anew(void **state)
{
    (void)state;
    static const char *const contents[] = {"", "0 of 3\n", "4 of 3\n", "2 of 3\nmore", "two of three\n", "2 of"};
    fb_cuda_device d = device("GPU");
    int timed;
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        fb_cuda_gemm_forget(&d);
        chosen(&d, 16, &timed);
        FB_VEC_FREE(&d.choices);
        glob_t files;
        char pattern[100];
        snprintf(pattern, sizeof pattern, "%s/fusebox/%s/*", scratch, FB_CUDA_CHOICES);
        assert_int_equal(glob(pattern, 0, NULL, &files), 0);
        assert_int_equal(files.gl_pathc, 1);
        assert_true(fb_write_file(files.gl_pathv[0], contents[i], strlen(contents[i]), NULL));
        globfree(&files);
        assert_int_equal(chosen(&d, 16, &timed), FASTEST);
        if (!timed) fail_msg("\"%s\" was taken for a choice", contents[i]);
        FB_VEC_FREE(&d.choices);
    }
}

static void what_is_forgotten_is_timed_anew(void **state)
{
    (void)state;
    int timed;
    fb_cuda_device d = device("GPU");
    chosen(&d, 16, &timed);
    fb_cuda_gemm_forget(&d);
    chosen(&d, 16, &timed);
    assert_true(timed > 0);
    FB_VEC_FREE(&d.choices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_proposal_is_taken), cmocka_unit_test(a_choice_outlives_its_process),
        cmocka_unit_test(another_library_is_timed_anew), cmocka_unit_test(a_broken_choice_is_timed_anew),
        cmocka_unit_test(what_is_forgotten_is_timed_anew)};
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
