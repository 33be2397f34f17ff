/* Convolutions through cuDNN, and what it does to one on its way out: a tensor and a bias of each channel added, and relu.
 * The library proposes engines for a call, its best guess first; those whose arithmetic is not
 * the plan's own are left out: rounded inputs where the plan says f32, transforms (Winograd, Fourier), whose errors are of
 * another kind, and sums in no fixed order. Which of the others is the fastest is for gemm.c to time.
 *
 * Tensor cores want channels last, and the library's own copies to that order and back move a third of what memory can
 * (cuDNN 9 on an H200: 8 × 512 × 3000 in bf16 take 35 µs). So what lies channel by channel is also tried turned by turn.c,
 * with as many channels of zeros as fill the last 16 bytes. (3 × 3, stride 2, 32 pictures of 128 × 56 × 56 to 256 channels,
 * bf16: 60 µs, and 50 turned.) */
#include "base/integer.h"
#include "base/mem.h"
#include "device/cuda/parts.h"

enum { ID_X = 1, ID_W, ID_Y, ID_ADDEND, ID_BIAS, ID_BETWEEN }; /* the last: of what is never stored, from here on */
enum { PROPOSED = 8, PROPOSED_TURNED = 8, ASKED = 24, DIMS = 2 + FB_CONVOLUTION_SPACE };

/* A call whose tensors are turned into room of its own, and its result out of it. */
typedef struct {
    fb_gemm_call call; /* of what is turned */
    fb_cuda_turning x, w, y;
    bool y_too;
    int64_t w_at, y_at, rest_at; /* bytes into that room; x is at its beginning, and the library's own behind all */
} turned_call;

struct fb_cuda_convolution {
    int n, n_plain; /* engines, as plans; those of the turned call come last */
    struct {
        cudnnBackendDescriptor_t plan;
        int64_t workspace;
    } engine[PROPOSED + PROPOSED_TURNED];
    turned_call turned;
    bool adds, biases;
    int64_t size;                  /* of an element */
    cudnnBackendDescriptor_t pack; /* of the pointers below; NULL: none yet */
    fb_cuda_gemm_args at;
    CUdeviceptr workspace;
};

static bool failed(fb_error *err, cudnnStatus_t status, const char *doing)
{
    return fb_fail(err, FB_ERR_SYSTEM, "cuDNN, %s: status %d", doing, status);
}

bool fb_cuda_convolution_open(fb_cuda_device *d, fb_error *err)
{
    if (d->dnn) return true;
    if (!fb_cuda_get(FB_CUDA_DNN, err)) return false;
    cudnnStatus_t status = d->f->cudnnCreate(&d->dnn);
    if (!status) status = d->f->cudnnSetStream(d->dnn, d->stream);
    return !status ? true : failed(err, status, "starting");
}

void fb_cuda_convolution_close(fb_cuda_device *d)
{
    for (int i = 0; i < d->rooms.n; i++) d->f->cuMemFree(d->rooms.at[i].at);
    FB_VEC_FREE(&d->rooms);
    if (d->dnn) d->f->cudnnDestroy(d->dnn);
    d->dnn = NULL;
}

/* A launched graph knows its room by address, so that one which is too small is left to those that have it. */
static bool find_room(fb_cuda_device *d, int64_t bytes, CUdeviceptr *out, fb_error *err)
{
    int64_t most = 0;
    for (int i = 0; i < d->rooms.n; i++) {
        *out = d->rooms.at[i].at;
        most = d->rooms.at[i].bytes;
        if (most >= bytes) return true;
    }
    fb_cuda_room room = {.bytes = bytes > 2 * most ? bytes : 2 * most};
    FB_CUDA(d, cuMemAlloc(&room.at, (size_t)room.bytes), "allocating room for a convolution");
    FB_VEC_PUSH(&d->rooms, room);
    *out = room.at;
    return true;
}

/* ---- descriptions ---- */

/* Makes one; what is set and finalized next is left out after the first failure. */
typedef struct {
    fb_cuda_device *d;
    cudnnBackendDescriptor_t made[24];
    int n;
    cudnnStatus_t status;
} maker;

static cudnnBackendDescriptor_t make(maker *m, int kind)
{
    cudnnBackendDescriptor_t made = NULL;
    FB_ASSERT(m->n < (int)(sizeof m->made / sizeof *m->made));
    if (!m->status) m->status = m->d->f->cudnnBackendCreateDescriptor(kind, &made);
    if (made) m->made[m->n++] = made;
    return made;
}

static void set(maker *m, cudnnBackendDescriptor_t of, int attribute, int type, int64_t n, const void *values)
{
    if (!m->status) m->status = m->d->f->cudnnBackendSetAttribute(of, attribute, type, n, values);
}

static void finalize(maker *m, cudnnBackendDescriptor_t of)
{
    if (!m->status) m->status = m->d->f->cudnnBackendFinalize(of);
}

static void drop(maker *m)
{
    while (m->n) m->d->f->cudnnBackendDestroyDescriptor(m->made[--m->n]);
}

static int type_of(fb_dtype dtype)
{
    return dtype == FB_F16 ? CUDNN_DATA_HALF : dtype == FB_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static int64_t alignment(int64_t offset, fb_advance advance)
{
    int64_t bytes = 16;
    while (bytes > 1 && ((uint64_t)offset | (uint64_t)advance.bytes) % (uint64_t)bytes) bytes /= 2;
    return bytes;
}

/* Two dimensions of space at least, of which the first may be one of nothing. */
typedef struct {
    int space;
    int64_t x[DIMS], w[DIMS], y[DIMS], x_step[DIMS], w_step[DIMS], y_step[DIMS];
    int64_t stride[FB_CONVOLUTION_SPACE], dilation[FB_CONVOLUTION_SPACE], before[FB_CONVOLUTION_SPACE],
        after[FB_CONVOLUTION_SPACE];
} shapes;

static void shapes_of(const fb_convolution *c, shapes *s)
{
    const fb_convolution_dim none = {.size = 1, .kernel = 1, .places = 1, .stride = 1, .dilation = 1};
    int more = c->space == 1;
    int64_t y_place[FB_CONVOLUTION_SPACE];
    *s = (shapes){.space = c->space + more};
    fb_convolution_y_steps(c, &s->y_step[0], &s->y_step[1], y_place);
    for (int d = s->space - 1; d >= 0; d--) {
        fb_convolution_dim at = d < more ? none : c->dim[d - more];
        if (d < more) at.x_step = c->dim[0].size * c->dim[0].x_step, at.w_step = c->dim[0].kernel * c->dim[0].w_step;
        s->x[2 + d] = at.size, s->x_step[2 + d] = at.x_step;
        s->w[2 + d] = at.kernel, s->w_step[2 + d] = at.w_step;
        s->y[2 + d] = at.places, s->y_step[2 + d] = d < more ? c->dim[0].places * y_place[0] : y_place[d - more];
        s->stride[d] = at.stride, s->dilation[d] = at.dilation;
        s->before[d] = at.before, s->after[d] = at.after;
    }
    s->x[0] = s->y[0] = c->batch;
    s->x[1] = c->groups * c->in, s->y[1] = s->w[0] = c->groups * c->out, s->w[1] = c->in;
    s->x_step[0] = c->batch > 1 ? c->x_batch : c->groups * c->in * c->x_channel, s->x_step[1] = c->x_channel;
    s->w_step[0] = c->w_out, s->w_step[1] = c->w_in;
}

/* aligned, in bytes; 0: it is never in memory. */
static cudnnBackendDescriptor_t tensor(maker *m, int type, int64_t id, int rank, const int64_t *extent,
                                       const int64_t *step, int64_t aligned)
{
    const bool nowhere = !aligned;
    const int64_t bytes = nowhere ? 16 : aligned;
    cudnnBackendDescriptor_t t = make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(m, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(m, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, extent);
    set(m, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, step);
    set(m, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(m, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &bytes);
    if (nowhere) set(m, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &nowhere);
    finalize(m, t);
    return t;
}

/* One element at a time, in f32: x to y, with `other` where it takes two. */
static cudnnBackendDescriptor_t pointwise(maker *m, int mode, cudnnBackendDescriptor_t x,
                                          cudnnBackendDescriptor_t other, cudnnBackendDescriptor_t y)
{
    const int computed = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = make(m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(m, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(m, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &computed);
    finalize(m, how);
    cudnnBackendDescriptor_t op = make(m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(m, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &how);
    set(m, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    if (other) set(m, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
    set(m, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    finalize(m, op);
    return op;
}

/* Tensors and operations after the convolution, the last of which stores y. */
typedef struct {
    maker *m;
    const fb_gemm_call *call;
    const shapes *s;
    cudnnBackendDescriptor_t y, last; /* what is stored; what the operation before gave */
    int left;                         /* operations that are still to come */
    cudnnBackendDescriptor_t ops[4];
    int n;
} way_out;

static cudnnBackendDescriptor_t result(way_out *w)
{
    if (!w->left) return w->y;
    return tensor(w->m, CUDNN_DATA_FLOAT, ID_BETWEEN + w->left, 2 + w->s->space, w->s->y, w->s->y_step, 0);
}

static void follow(way_out *w, int mode, cudnnBackendDescriptor_t other)
{
    cudnnBackendDescriptor_t x = w->last;
    w->left--;
    w->last = result(w);
    w->ops[w->n++] = pointwise(w->m, mode, x, other, w->last);
}

static void follow_all(way_out *w)
{
    const fb_gemm_call *c = w->call;
    int64_t size = fb_dtype_size(c->dtype), one[DIMS], step[DIMS];
    int rank = 2 + w->s->space, type = type_of(c->dtype);
    if (c->addend != FB_NONE)
        follow(w, CUDNN_POINTWISE_ADD,
               tensor(w->m, type, ID_ADDEND, rank, w->s->y, w->s->y_step,
                      alignment(c->addend_offset * size, c->addend_advance)));
    for (int d = 0; d < rank; d++) one[d] = d == 1 ? w->s->y[1] : 1, step[d] = d == 1 ? 1 : w->s->y[1];
    if (c->bias != FB_NONE)
        follow(w, CUDNN_POINTWISE_ADD,
               tensor(w->m, type, ID_BIAS, rank, one, step, alignment(c->bias_offset * size, c->bias_advance)));
    if (c->relu) follow(w, CUDNN_POINTWISE_RELU_FWD, NULL);
}

/* The call as a graph of its operations. */
static cudnnBackendDescriptor_t describe(maker *m, const fb_gemm_call *call)
{
    const float one = 1, zero = 0;
    const int mode = CUDNN_CROSS_CORRELATION, sums = CUDNN_DATA_FLOAT;
    int type = type_of(call->dtype);
    shapes s;
    shapes_of(&call->convolution, &s);
    int64_t size = fb_dtype_size(call->dtype), space = s.space;
    int rank = 2 + s.space;
    cudnnBackendDescriptor_t x = tensor(m, type, ID_X, rank, s.x, s.x_step,
                                        alignment(call->b_offset * size, call->b_advance)),
                             w = tensor(m, type, ID_W, rank, s.w, s.w_step,
                                        alignment(call->a_offset * size, call->a_advance)),
                             y = tensor(m, type, ID_Y, rank, s.y, s.y_step, alignment(0, call->c_advance));
    cudnnBackendDescriptor_t how = make(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(m, how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &space);
    set(m, how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(m, how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(m, how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, space, s.before);
    set(m, how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, space, s.after);
    set(m, how, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, space, s.dilation);
    set(m, how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, space, s.stride);
    finalize(m, how);
    way_out way = {.m = m,
                   .call = call,
                   .s = &s,
                   .y = y,
                   .left = (call->addend != FB_NONE) + (call->bias != FB_NONE) + call->relu,
                   .n = 1};
    way.last = result(&way);
    cudnnBackendDescriptor_t op = make(m, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &how);
    set(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    set(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
    set(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &way.last);
    set(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    set(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    finalize(m, op);
    way.ops[0] = op;
    follow_all(&way);
    cudnnBackendDescriptor_t graph = make(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(m, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &m->d->dnn);
    set(m, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, way.n, way.ops);
    finalize(m, graph);
    return graph;
}

/* ---- channels last ---- */

static bool is_counted(const fb_cuda_turning *t)
{
    return t->rows <= INT32_MAX / 2 && t->columns <= INT32_MAX / 2 && fb_cuda_turn_blocks(t) <= INT32_MAX;
}

static int64_t in_room(int64_t elements, int64_t size)
{
    enum { BEGINS = 256 };
    return fb_ceil_div(elements * size, BEGINS) * BEGINS;
}

/* What the call is turned; false where it has its channels last, or where no tensor core multiplies. */
static bool turn_call(const fb_gemm_call *call, turned_call *t)
{
    enum { PIECE = 16 };
    const int64_t size = fb_dtype_size(call->dtype);
    const bool tensor = size == 2 || (call->dtype == FB_F32 && call->precision == FB_PRECISION_TF32);
    *t = (turned_call){.call = *call};
    fb_convolution *c = &t->call.convolution;
    int64_t pixels = 1, window = 1, places = 1;
    for (int d = 0; d < c->space; d++) pixels *= c->dim[d].size, window *= c->dim[d].kernel, places *= c->dim[d].places;
    if (!tensor || c->groups != 1 || c->x_channel == 1 || pixels == 1 || c->x_channel != pixels) return false;
    if (c->out * size % PIECE || c->w_in != window || c->w_out != c->in * window) return false;
    const int64_t in = fb_ceil_div(c->in * size, PIECE) * PIECE / size;
    t->x = (fb_cuda_turning){
        .matrices = c->batch, .rows = c->in, .columns = pixels, .padded = in, .from_step = c->x_batch};
    t->w = (fb_cuda_turning){.matrices = c->out, .rows = c->in, .columns = window, .padded = in, .from_step = c->w_out};
    t->y = (fb_cuda_turning){
        .matrices = c->batch, .rows = places, .columns = c->out, .padded = places, .from_step = places * c->out};
    t->y_too = !c->by_places;
    if (t->y_too && call->addend != FB_NONE) return false; /* it lies as the result does */
    if (!is_counted(&t->x) || !is_counted(&t->w) || !is_counted(&t->y)) return false;
    t->w_at = in_room(c->batch * pixels * in, size);
    t->y_at = t->w_at + in_room(c->out * window * in, size);
    t->rest_at = t->y_at + (t->y_too ? in_room(c->batch * places * c->out, size) : 0);
    c->in = in, c->x_channel = c->w_in = 1, c->x_batch = pixels * in, c->w_out = window * in;
    c->by_places = true;
    for (int d = c->space - 1, x = 0; d >= 0; d--, x++) {
        c->dim[d].x_step = x ? c->dim[d + 1].x_step * c->dim[d + 1].size : in;
        c->dim[d].w_step = x ? c->dim[d + 1].w_step * c->dim[d + 1].kernel : in;
    }
    t->call.a_offset = t->call.b_offset = 0;
    t->call.a_advance = t->call.b_advance = (fb_advance){0};
    if (t->y_too) t->call.c_advance = (fb_advance){0};
    return true;
}

/* ---- engines ---- */

/* Does the engine compute what the plan says? */
static bool is_plain(fb_cuda_device *d, cudnnBackendDescriptor_t config, const fb_gemm_call *call)
{
    enum { NOTES = 16 };
    maker m = {.d = d};
    int notes[NOTES];
    int64_t n = 0, one;
    cudnnBackendDescriptor_t engine = make(&m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    bool known = !m.status &&
                 !d->f->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                                 &one, &engine) &&
                 !d->f->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                 NOTES, &n, notes);
    drop(&m);
    bool floats = call->dtype == FB_F32 && call->precision != FB_PRECISION_TF32;
    for (int64_t i = 0; i < n && i < NOTES && known; i++) {
        if (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
            known = !floats;
        else
            known = notes[i] < CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
                    notes[i] > CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    }
    return known;
}

/* Takes an engine as it is configured, as a plan; false where it does not run here or asks for too much room. */
static bool take(fb_cuda_device *d, fb_cuda_convolution *c, cudnnBackendDescriptor_t config)
{
    const int64_t most = (int64_t)1 << 30;
    maker m = {.d = d};
    int64_t n;
    cudnnBackendDescriptor_t plan = make(&m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->dnn);
    set(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    finalize(&m, plan);
    int64_t room = 0;
    if (!m.status)
        m.status = d->f->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                                  &n, &room);
    bool good = !m.status && room <= most;
    if (!good) {
        drop(&m);
        return false;
    }
    c->engine[c->n].plan = plan;
    c->engine[c->n++].workspace = room;
    return true;
}

/* Until there are so many. */
static void propose(fb_cuda_device *d, fb_cuda_convolution *c, const fb_gemm_call *call, cudnnBackendDescriptor_t graph,
                    int mode, int most)
{
    maker m = {.d = d};
    cudnnBackendDescriptor_t guess = make(&m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), config[ASKED] = {NULL};
    int64_t n = 0;
    set(&m, guess, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    set(&m, guess, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(&m, guess);
    int made = 0;
    while (!m.status && made < ASKED &&
           !d->f->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[made]))
        made++;
    if (!m.status)
        m.status = d->f->cudnnBackendGetAttribute(guess, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                  made, &n, config);
    for (int64_t i = 0; i < n && i < made && c->n < most && !m.status; i++)
        if (is_plain(d, config[i], call)) take(d, c, config[i]);
    for (int i = 0; i < made; i++) d->f->cudnnBackendDestroyDescriptor(config[i]);
    drop(&m);
}

/* Engines of the same call turned, of which none is needed. */
static void propose_turned(fb_cuda_device *d, fb_cuda_convolution *c, const fb_gemm_call *call)
{
    if (!turn_call(call, &c->turned) || !fb_cuda_turn_open(d, NULL)) return;
    maker m = {.d = d};
    cudnnBackendDescriptor_t graph = describe(&m, &c->turned.call);
    if (!m.status) propose(d, c, &c->turned.call, graph, CUDNN_HEUR_MODE_A, c->n + PROPOSED_TURNED);
    drop(&m);
}

/* ---- the call ---- */

fb_cuda_convolution *fb_cuda_convolution_new(fb_cuda_device *d, const fb_gemm_call *call, int *n_proposed,
                                             fb_error *err)
{
    if (!fb_cuda_convolution_open(d, err)) return NULL;
    fb_cuda_convolution *c = fb_calloc(1, sizeof *c);
    c->adds = call->addend != FB_NONE;
    c->biases = call->bias != FB_NONE;
    c->size = fb_dtype_size(call->dtype);
    maker m = {.d = d};
    cudnnBackendDescriptor_t graph = describe(&m, call);
    if (!m.status) propose(d, c, call, graph, CUDNN_HEUR_MODE_A, PROPOSED);
    if (!m.status && !c->n) propose(d, c, call, graph, CUDNN_HEUR_MODE_FALLBACK, PROPOSED);
    c->n_plain = c->n;
    if (c->n) propose_turned(d, c, call);
    if (m.status)
        failed(err, m.status, "describing a convolution");
    else if (!c->n)
        fb_fail(err, FB_ERR_LIMIT, "cuDNN has no engine for this convolution that computes as the plan says");
    drop(&m);
    *n_proposed = c->n;
    if (c->n) return c;
    fb_cuda_convolution_free(d, c);
    return NULL;
}

static bool is_turned(const fb_cuda_convolution *c, int which)
{
    return which >= c->n_plain;
}

/* Bytes that the call with that engine needs beside its tensors. */
static int64_t room_of(const fb_cuda_convolution *c, int which)
{
    return c->engine[which].workspace + (is_turned(c, which) ? c->turned.rest_at : 0);
}

void fb_cuda_convolution_settle(fb_cuda_device *d, const fb_cuda_convolution *c, int which)
{
    CUdeviceptr room;
    int64_t bytes = room_of(c, which);
    if (bytes) find_room(d, bytes, &room, NULL);
}

void fb_cuda_convolution_free(fb_cuda_device *d, fb_cuda_convolution *c)
{
    if (!c) return;
    if (c->pack) d->f->cudnnBackendDestroyDescriptor(c->pack);
    for (int i = 0; i < c->n; i++) d->f->cudnnBackendDestroyDescriptor(c->engine[i].plan);
    fb_free(c);
}

static bool is_same(const fb_cuda_gemm_args *x, const fb_cuda_gemm_args *y)
{
    return x->a == y->a && x->b == y->b && x->c == y->c && x->addend == y->addend && x->bias == y->bias;
}

static bool point(fb_cuda_device *d, fb_cuda_convolution *c, const fb_cuda_gemm_args *at, CUdeviceptr workspace,
                  fb_error *err)
{
    if (c->pack && is_same(&c->at, at) && c->workspace == workspace) return true;
    if (c->pack) d->f->cudnnBackendDestroyDescriptor(c->pack);
    c->pack = NULL;
    maker m = {.d = d};
    int64_t ids[] = {ID_X, ID_W, ID_Y, 0, 0}, n = 3;
    void *places[] = {(void *)at->b, (void *)at->a, (void *)at->c, NULL, NULL}, *const room = (void *)workspace;
    if (c->adds) ids[n] = ID_ADDEND, places[n++] = (void *)at->addend;
    if (c->biases) ids[n] = ID_BIAS, places[n++] = (void *)at->bias;
    cudnnBackendDescriptor_t pack = make(&m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&m, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
    set(&m, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, places);
    set(&m, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room);
    finalize(&m, pack);
    if (m.status) {
        drop(&m);
        return failed(err, m.status, "naming a convolution's tensors");
    }
    c->pack = pack, c->at = *at, c->workspace = workspace;
    return true;
}

static bool execute(fb_cuda_device *d, fb_cuda_convolution *c, int which, const fb_cuda_gemm_args *at,
                    CUdeviceptr workspace, fb_error *err)
{
    if (!point(d, c, at, workspace, err)) return false;
    cudnnStatus_t status = d->f->cudnnBackendExecute(d->dnn, c->engine[which].plan, c->pack);
    return !status ? true : failed(err, status, "convolving");
}

bool fb_cuda_convolution_run(fb_cuda_device *d, fb_cuda_convolution *c, int which, const fb_cuda_gemm_args *at,
                             fb_error *err)
{
    const turned_call *t = &c->turned;
    int64_t bytes = room_of(c, which);
    CUdeviceptr room = 0;
    if (bytes && !find_room(d, bytes, &room, err)) return false;
    if (!is_turned(c, which)) return execute(d, c, which, at, room, err);
    fb_cuda_gemm_args there = *at;
    there.b = room, there.a = room + (CUdeviceptr)t->w_at;
    if (t->y_too) there.c = room + (CUdeviceptr)t->y_at;
    return fb_cuda_turn(d, &t->x, c->size, at->b, there.b, err) &&
           fb_cuda_turn(d, &t->w, c->size, at->a, there.a, err) &&
           execute(d, c, which, &there, room + (CUdeviceptr)t->rest_at, err) &&
           (!t->y_too || fb_cuda_turn(d, &t->y, c->size, there.c, at->c, err));
}
