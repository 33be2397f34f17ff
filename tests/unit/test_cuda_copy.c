/* Feeds and receives of the cuda device, on a driver that only pretends: what is issued to a stream waits until
 * somebody waits for it, and then the streams go on in the worst order that events allow. A copy that no event holds
 * back comes too early or too late then, and a run has another run's data. */
#include "base/mem.h"
#include "device/cuda/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const fb_device_ops fb_device_cuda;

/* ---- the driver ---- */

enum { MOST = 4096, STREAMS = 4, N = 8 };

typedef enum { COPY, SET, KERNEL, RECORD, WAIT } op_kind;

typedef struct {
    op_kind kind;
    int stream;
    bool done;
    void *to;
    const void *from;
    size_t bytes;
    int64_t of; /* WAIT: the op that it waits for, from the list's start */
} op;

typedef struct {
    op at[MOST];
    int64_t n;
} op_list;

static op_list issued, graphs[8];
static int n_graphs, n_streams, n_events, n_pinned;
static int64_t recorded[16]; /* of each event: its last record in the list that is written to */
static op_list *to = &issued;
static const int *first_stream; /* the order in which streams get their turn */
static bool copies_in_graph;

static op *issue(op_kind kind, CUstream stream)
{
    assert_true(to->n < MOST);
    op *o = &to->at[to->n++];
    *o = (op){.kind = kind, .stream = (int)(uintptr_t)stream};
    return o;
}

static void execute(const op *o)
{
    if (o->kind == COPY) memmove(o->to, o->from, o->bytes);
    if (o->kind == SET) memset(o->to, 0xff, o->bytes);
    for (int i = 0; o->kind == KERNEL && i < N; i++) ((float *)o->to)[i] = 2 * ((const float *)o->from)[i];
}

/* The next op of a stream, unless it waits. */
static bool advance(int stream)
{
    for (int64_t i = 0; i < issued.n; i++) {
        op *o = &issued.at[i];
        if (o->done || o->stream != stream) continue;
        if (o->kind == WAIT && !issued.at[o->of].done) return false;
        execute(o);
        return o->done = true;
    }
    return false;
}

static bool is_idle(int stream)
{
    for (int64_t i = 0; i < issued.n; i++)
        if (!issued.at[i].done && issued.at[i].stream == stream) return false;
    return true;
}

static CUresult fake_wait(CUstream stream)
{
    while (!is_idle((int)(uintptr_t)stream)) {
        bool any = false;
        for (int i = 0; i < STREAMS && !any; i++) any = first_stream[i] && advance(first_stream[i]);
        assert_true(any);
    }
    bool all = true;
    for (int i = 1; i <= n_streams; i++) all = all && is_idle(i);
    if (all) issued.n = 0;
    return CUDA_SUCCESS;
}

static CUresult fake_copy(void *where, const void *from, size_t bytes, CUstream stream)
{
    op *o = issue(COPY, stream);
    o->to = where, o->from = from, o->bytes = bytes;
    return CUDA_SUCCESS;
}

static CUresult fake_in(CUdeviceptr where, const void *from, size_t bytes, CUstream stream)
{
    return fake_copy((void *)(uintptr_t)where, from, bytes, stream);
}

static CUresult fake_out(void *where, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return fake_copy(where, (const void *)(uintptr_t)from, bytes, stream);
}

static CUresult fake_on_device(CUdeviceptr where, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return fake_copy((void *)(uintptr_t)where, (const void *)(uintptr_t)from, bytes, stream);
}

static CUresult fake_set(CUdeviceptr where, unsigned char value, size_t bytes, CUstream stream)
{
    op *o = issue(SET, stream);
    assert_int_equal(value, 0xff);
    o->to = (void *)(uintptr_t)where, o->bytes = bytes;
    return CUDA_SUCCESS;
}

static CUresult fake_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, CUstream stream, void **args, void **extra)
{
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    op *o = issue(KERNEL, stream);
    o->from = (const void *)(uintptr_t) * (CUdeviceptr *)args[0];
    o->to = (void *)(uintptr_t) * (CUdeviceptr *)args[1];
    return CUDA_SUCCESS;
}

static CUresult fake_stream(CUstream *stream, unsigned flags)
{
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    *stream = (CUstream)(uintptr_t)++n_streams;
    return CUDA_SUCCESS;
}

static CUresult fake_event(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)(uintptr_t)++n_events;
    return CUDA_SUCCESS;
}

static CUresult fake_no_event(CUevent event)
{
    (void)event;
    n_events--;
    return CUDA_SUCCESS;
}

static CUresult fake_record(CUevent event, CUstream stream)
{
    issue(RECORD, stream);
    recorded[(uintptr_t)event] = to->n - 1;
    return CUDA_SUCCESS;
}

static CUresult fake_wait_event(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    issue(WAIT, stream)->of = recorded[(uintptr_t)event];
    return CUDA_SUCCESS;
}

static CUresult fake_begin(CUstream stream, CUstreamCaptureMode mode)
{
    (void)stream, (void)mode;
    to = &graphs[n_graphs];
    to->n = 0;
    return CUDA_SUCCESS;
}

static CUresult fake_end(CUstream stream, CUgraph *graph)
{
    bool forked[STREAMS] = {false}; /* a stream is part of the capture from its wait for one that is */
    forked[(uintptr_t)stream] = true;
    for (int64_t i = 0; i < to->n; i++) {
        const op *o = &to->at[i];
        if (o->kind == WAIT) forked[o->stream] |= forked[to->at[o->of].stream];
        if (!forked[o->stream]) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        copies_in_graph |= o->kind == COPY;
    }
    to = &issued;
    *graph = (CUgraph)(uintptr_t)++n_graphs;
    return CUDA_SUCCESS;
}

static CUresult fake_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    *exec = (CUgraphExec)(void *)graph;
    return CUDA_SUCCESS;
}

static CUresult fake_graph(CUgraphExec exec, CUstream stream)
{
    const op_list *g = &graphs[(uintptr_t)exec - 1];
    int64_t from = issued.n;
    (void)stream;
    for (int64_t i = 0; i < g->n; i++) {
        op *o = issue(g->at[i].kind, (CUstream)(uintptr_t)g->at[i].stream);
        *o = g->at[i];
        o->of += from;
    }
    return CUDA_SUCCESS;
}

static CUresult fake_no_graph(CUgraph graph)
{
    (void)graph;
    return CUDA_SUCCESS;
}

static CUresult fake_no_exec(CUgraphExec exec)
{
    (void)exec;
    return CUDA_SUCCESS;
}

static CUresult fake_pin(void **at, size_t bytes, unsigned flags)
{
    (void)flags;
    n_pinned++;
    *at = fb_alloc(bytes);
    return CUDA_SUCCESS;
}

static CUresult fake_unpin(void *at)
{
    n_pinned--;
    fb_free(at);
    return CUDA_SUCCESS;
}

static CUresult fake_free(CUdeviceptr at)
{
    fb_free((void *)(uintptr_t)at);
    return CUDA_SUCCESS;
}

static const fb_cuda_functions fake = {
    .cuMemcpyHtoDAsync = fake_in,
    .cuMemcpyDtoHAsync = fake_out,
    .cuMemcpyDtoDAsync = fake_on_device,
    .cuMemsetD8Async = fake_set,
    .cuLaunchKernel = fake_launch,
    .cuStreamCreate = fake_stream,
    .cuStreamSynchronize = fake_wait,
    .cuStreamWaitEvent = fake_wait_event,
    .cuEventCreate = fake_event,
    .cuEventRecord = fake_record,
    .cuEventDestroy = fake_no_event,
    .cuStreamBeginCapture = fake_begin,
    .cuStreamEndCapture = fake_end,
    .cuGraphInstantiate = fake_instantiate,
    .cuGraphLaunch = fake_graph,
    .cuGraphDestroy = fake_no_graph,
    .cuGraphExecDestroy = fake_no_exec,
    .cuMemHostAlloc = fake_pin,
    .cuMemFreeHost = fake_unpin,
    .cuMemFree = fake_free,
};

/* ---- a program that doubles what it is fed ---- */

enum { X, Y, BESIDE };

typedef struct {
    fb_program p;
    fb_buffer buffers[3];
    fb_kernel kernel;
    fb_launch launches[2];
    int args[2];
} sheet;

static void make_sheet(sheet *s, bool overlap, bool swap, fb_launch_mode mode)
{
    const fb_buffer plain = {.name = "b", .dtype = FB_F32, .elements = N, .bytes = N * 4};
    *s = (sheet){.buffers = {plain, plain, plain}, .args = {X, swap ? BESIDE : Y}};
    s->buffers[X].kind = FB_BUFFER_INPUT, s->buffers[X].fed = true;
    s->buffers[Y].kind = FB_BUFFER_OUTPUT, s->buffers[Y].received = true;
    s->buffers[BESIDE].kind = FB_BUFFER_TEMP;
    s->kernel = (fb_kernel){.name = "twice", .grid = {1, 1, 1}, .block = {1, 1, 1}};
    s->launches[0] = (fb_launch){.kind = FB_LAUNCH_KERNEL, .n_args = 2, .args = s->args};
    s->launches[1] = (fb_launch){.kind = FB_LAUNCH_SWAP, .swap_a = Y, .swap_b = BESIDE};
    s->p = (fb_program){.language = "cuda",
                        .mode = mode,
                        .overlap = overlap,
                        .n_buffers = 3,
                        .buffers = s->buffers,
                        .n_kernels = 1,
                        .kernels = &s->kernel,
                        .n_launches = swap ? 2 : 1,
                        .launches = s->launches,
                        .pool_bytes = N * 4};
}

/* What cuda_load does after compiling. */
static fb_loaded *loaded(fb_cuda_device *d, const sheet *s)
{
    fb_loaded *l = fb_calloc(1, sizeof *l);
    fb_error err = {0};
    l->device = d;
    l->program = &s->p;
    l->kernels = fb_calloc(2, sizeof *l->kernels);
    l->gemms = fb_calloc(1, sizeof *l->gemms);
    l->buffers = fb_calloc(4, sizeof *l->buffers);
    l->slots = fb_calloc(4, sizeof *l->slots);
    l->graph_slots = fb_calloc(4, sizeof *l->graph_slots);
    size_t each = fb_cuda_aligned(N * 4);
    l->memory = (CUdeviceptr)(uintptr_t)fb_alloc(3 * each + fb_cuda_copies_bytes(&s->p));
    l->buffers[BESIDE] = l->memory;
    l->buffers[X] = l->memory + each;
    l->buffers[Y] = l->memory + 2 * each;
    for (int b = 0; b < 3; b++) l->slots[b] = b;
    if (!fb_cuda_copies_open(l, l->memory + 3 * each, &err)) fail_msg("%s", err.text);
    return l;
}

static void check_runs(fb_loaded *l, int runs, const char *what)
{
    fb_error err = {0};
    fb_run_time times[8];
    float fed[2][N], got[N];
    for (int i = 0; i < N; i++) fed[0][i] = (float)(i + runs), fed[1][i] = (float)(-100 * i - runs);
    const fb_device_ops *ops = &fb_device_cuda;
    const fb_run_how how = {.cache = FB_CACHE_HOT, .samples = runs};
    assert_true(ops->write(l, X, fed[0], &err) && ops->write_second(l, X, fed[1], &err));
    if (!ops->poison(l, &err) || !ops->run(l, &how, times, &err)) fail_msg("%s: %s", what, err.text);
    for (int i = 1; i <= n_streams; i++)
        if (!is_idle(i)) fail_msg("%s: run %d ended before stream %d", what, runs, i);
    assert_true(ops->read(l, Y, got, &err));
    for (int i = 0; i < N; i++)
        if (got[i] != 2 * fed[(runs + 1) % 2][i])
            fail_msg("%s: run %d of %d gave %g, not %g", what, runs, runs, (double)got[i],
                     2 * (double)fed[(runs + 1) % 2][i]);
}

static void every_run_has_its_own_data(void **state)
{
    (void)state;
    /* streams in order of creation: kernels, copies in, copies out */
    static const int orders[][STREAMS] = {{1, 2, 3}, {2, 3, 1}, {3, 2, 1}, {2, 1, 3}, {1, 3, 2}, {3, 1, 2}};
    for (int i = 0; i < 6 * 8; i++) {
        bool overlap = i & 1, swap = i & 2;
        fb_launch_mode mode = i & 4 ? FB_LAUNCH_GRAPH : FB_LAUNCH_STREAM;
        char what[80];
        snprintf(what, sizeof what, "order %d, %s, overlap %d, swap %d", i / 8, fb_launch_mode_name(mode), overlap,
                 swap);
        fb_cuda_device d = {.f = &fake};
        sheet s;
        issued.n = 0;
        n_streams = n_graphs = 0;
        copies_in_graph = false;
        first_stream = orders[i / 8];
        make_sheet(&s, overlap, swap, mode);
        assert_true(fake_stream(&d.stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
        fb_loaded *l = loaded(&d, &s);
        for (int runs = 1; runs < 6; runs++) check_runs(l, runs, what);
        assert_int_equal(n_streams, overlap ? 3 : 1);
        assert_int_equal(n_graphs, mode == FB_LAUNCH_GRAPH ? 2 : 0);
        assert_true(copies_in_graph == (mode == FB_LAUNCH_GRAPH));
        fb_device_cuda.unload(l);
        assert_int_equal(n_pinned, 0);
        assert_int_equal(n_events, 0);
    }
}

static bool log_number(void *ctx, int number, CUstream stream, bool after, fb_error *err)
{
    (void)err;
    size_t n = strlen(ctx);
    if (!after) snprintf((char *)ctx + n, 64 - n, "%d@%d ", number, (int)(uintptr_t)stream);
    return true;
}

static void copies_are_watched_on_their_streams(void **state)
{
    (void)state;
    static const int order[STREAMS] = {1, 2, 3};
    static const char *const expected[] = {"1@1 0@1 2@1 ", "1@2 2@3 0@1 "};
    first_stream = order;
    for (int overlap = 0; overlap < 2; overlap++) {
        fb_cuda_device d = {.f = &fake};
        fb_error err = {0};
        char text[64] = "";
        sheet s;
        issued.n = n_streams = 0;
        make_sheet(&s, overlap, false, FB_LAUNCH_STREAM);
        fake_stream(&d.stream, CU_STREAM_NON_BLOCKING);
        fb_loaded *l = loaded(&d, &s);
        assert_true(fb_cuda_issue(l, &(fb_cuda_watch){log_number, text}, &err));
        assert_string_equal(text, expected[overlap]);
        assert_true(fb_cuda_lane(l, 0) == FB_LANE_KERNEL && fb_cuda_lane(l, 1) == FB_LANE_IN);
        assert_true(fb_cuda_lane(l, 2) == FB_LANE_OUT);
        fb_device_cuda.unload(l);
    }
}

/* In halves of pinned memory, of which none may be written to, or read, while its copy is on its way. */
static void large_copies_go_in_halves(void **state)
{
    (void)state;
    enum { MOST_BYTES = 1000, HALF = 64 };
    static const int order[STREAMS] = {1, 2, 3};
    first_stream = order;
    issued.n = n_streams = 0;
    fb_cuda_device d = {.f = &fake, .staged_half = HALF};
    fb_error err = {0};
    fake_stream(&d.stream, CU_STREAM_NON_BLOCKING);
    char from[MOST_BYTES], on_device[MOST_BYTES + 1], back[MOST_BYTES + 1];
    for (size_t n = 1; n <= MOST_BYTES; n += n < 3 * HALF ? 1 : 37) {
        for (size_t i = 0; i < n; i++) from[i] = (char)(i * 7 + n);
        memset(on_device, 1, sizeof on_device);
        memset(back, 1, sizeof back);
        assert_true(fb_cuda_copy_in(&d, (CUdeviceptr)(uintptr_t)on_device, from, n, &err) && is_idle(1));
        assert_memory_equal(on_device, from, n);
        assert_true(fb_cuda_copy_out(&d, (CUdeviceptr)(uintptr_t)on_device, back, n, &err) && is_idle(1));
        assert_memory_equal(back, from, n);
        assert_true(on_device[n] == 1 && back[n] == 1);
        assert_int_equal(n_pinned, n > HALF);
    }
    fb_cuda_transfer_close(&d);
    assert_int_equal(n_pinned, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_run_has_its_own_data),
                                       cmocka_unit_test(copies_are_watched_on_their_streams),
                                       cmocka_unit_test(large_copies_go_in_halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
