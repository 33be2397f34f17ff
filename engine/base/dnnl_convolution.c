/* oneDNN's convolution, by its C interface of version 2, whose descriptions are filled and read by the library alone: here
 * they are so many bytes.
 *
 * Tensors are described where they lie. The library says in which blocks it wants them, and copies from and to those are
 * part of the call, as they are in PyTorch's: a kernel that reads rows as they lie takes two to ten times as long. */
#include "base/dnnl.h"

#include "base/dynamic.h"
#include "base/mem.h"

#include <pthread.h>
#include <string.h>

/* As dnnl_types.h of version 2 has them; sizes are generous. */
enum { DNNL_SUCCESS = 0, DNNL_CPU = 1, DNNL_F32 = 3, DNNL_TAG_ANY = 1, DNNL_STREAM_DEFAULT = 1 };
enum { DNNL_FORWARD_INFERENCE = 96, DNNL_CONVOLUTION_DIRECT = 1, DNNL_STRICT = 0 };
enum { DNNL_IMPLEMENTATION = 8, DNNL_MD_SRC = 129, DNNL_MD_WEIGHTS = 131, DNNL_MD_DST = 133 };
enum { DNNL_ARG_SRC = 1, DNNL_ARG_DST = 17, DNNL_ARG_WEIGHTS = 33, DNNL_ARG_FROM = 1, DNNL_ARG_TO = 17 };
enum { DNNL_MAX_DIMS = 12 };
typedef int64_t dims[DNNL_MAX_DIMS];
typedef union {
    char bytes[2048];
    void *aligned;
} memory_desc;
typedef union {
    char bytes[16384];
    void *aligned;
} convolution_desc;
typedef struct {
    int arg;
    void *memory;
} exec_arg;

/* The library's calls, found once. */
static struct {
    pthread_once_t once, start;
    bool found, started;
    const fb_dnnl *dnnl;
    void *engine, *stream;
    int (*engine_create)(void **, int kind, size_t index);
    int (*stream_create)(void **, void *engine, unsigned flags);
    int (*by_strides)(memory_desc *, int n, const int64_t *dims, int type, const int64_t *strides);
    int (*by_tag)(memory_desc *, int n, const int64_t *dims, int type, int tag);
    int (*equal)(const void *, const void *);
    int (*describe)(convolution_desc *, int kind, int algorithm, const void *src, const void *weights, const void *bias,
                    const void *dst, const int64_t *strides, const int64_t *dilates, const int64_t *before,
                    const int64_t *after);
    int (*primitive_desc)(void **, const void *op, const void *attr, void *engine, const void *hint);
    const void *(*query_md)(const void *, int what, int index);
    int (*query)(const void *, int what, int index, void *result);
    int (*primitive_desc_destroy)(void *);
    int (*reorder_desc)(void **, const void *from, void *engine, const void *to, void *to_engine, const void *attr);
    int (*primitive_create)(void **, const void *desc);
    int (*primitive_destroy)(void *);
    int (*execute)(const void *, void *stream, int n, const exec_arg *);
    int (*memory_create)(void **, const void *desc, void *engine, void *handle);
    int (*memory_destroy)(void *);
    int (*set_handle)(void *, void *handle);
    int (*set_fpmath)(int);
} lib = {.once = PTHREAD_ONCE_INIT, .start = PTHREAD_ONCE_INIT};

#define ENTRY(symbol, field)                                                                                           \
    {                                                                                                                  \
        symbol, &lib.field                                                                                             \
    }
static const fb_dynamic_function entries[] = {
    ENTRY("dnnl_engine_create", engine_create),
    ENTRY("dnnl_stream_create", stream_create),
    ENTRY("dnnl_memory_desc_init_by_strides", by_strides),
    ENTRY("dnnl_memory_desc_init_by_tag", by_tag),
    ENTRY("dnnl_memory_desc_equal", equal),
    ENTRY("dnnl_dilated_convolution_forward_desc_init", describe),
    ENTRY("dnnl_primitive_desc_create", primitive_desc),
    ENTRY("dnnl_primitive_desc_query_md", query_md),
    ENTRY("dnnl_primitive_desc_query", query),
    ENTRY("dnnl_primitive_desc_destroy", primitive_desc_destroy),
    ENTRY("dnnl_reorder_primitive_desc_create", reorder_desc),
    ENTRY("dnnl_primitive_create", primitive_create),
    ENTRY("dnnl_primitive_destroy", primitive_destroy),
    ENTRY("dnnl_primitive_execute", execute),
    ENTRY("dnnl_memory_create", memory_create),
    ENTRY("dnnl_memory_destroy", memory_destroy),
    ENTRY("dnnl_memory_set_data_handle", set_handle),
    ENTRY("dnnl_set_default_fpmath_mode", set_fpmath),
};
#undef ENTRY

static void find(void)
{
    enum { KNOWN = 2 };
    lib.dnnl = fb_dnnl_get(NULL);
    if (!lib.dnnl || lib.dnnl->major != KNOWN) return;
    if (fb_dynamic_take(lib.dnnl->handle, entries, sizeof entries / sizeof *entries)) return;
    lib.found =
        lib.set_fpmath(DNNL_STRICT) == DNNL_SUCCESS; /* the environment could ask for fewer bits than floats have */
}

static void start(void)
{
    lib.started = lib.engine_create(&lib.engine, DNNL_CPU, 0) == DNNL_SUCCESS &&
                  lib.stream_create(&lib.stream, lib.engine, DNNL_STREAM_DEFAULT) == DNNL_SUCCESS;
}

bool fb_dnnl_convolves(void)
{
    pthread_once(&lib.once, find);
    return lib.found;
}

/* One operand: as it lies, and in blocks. */
typedef struct {
    memory_desc lies;
    void *memory, *blocked; /* the same where the library takes it as it lies */
    void *copy;             /* from the one to the other; NULL */
} operand;

struct fb_dnnl_convolution {
    int threads, calls; /* calls: one for all groups, or one each */
    int64_t x_next, w_next, y_next;
    void *primitive;
    operand x, w, y;
};

static int threads_now(void)
{
    return lib.dnnl->max_threads ? lib.dnnl->max_threads() : 1;
}

static void set_threads(int n)
{
    if (lib.dnnl->set_threads) lib.dnnl->set_threads(n);
}

/* ---- descriptions ---- */

/* The dims of x, weights and y as the library numbers them; groups stand in front of the weights' where there are some. */
typedef struct {
    int rank, w_rank;
    dims x, w, y, x_step, w_step, y_step, stride, dilation, before, after;
} shapes;

static void shapes_of(const fb_convolution *c, int64_t groups, shapes *s)
{
    int64_t y_place[FB_CONVOLUTION_SPACE];
    int g = groups > 1;
    *s = (shapes){.rank = 2 + c->space, .w_rank = 2 + c->space + g};
    fb_convolution_y_steps(c, &s->y_step[0], &s->y_step[1], y_place);
    s->x[0] = s->y[0] = c->batch;
    s->x[1] = groups * c->in, s->y[1] = groups * c->out;
    s->x_step[0] = c->x_batch, s->x_step[1] = c->x_channel;
    if (g) s->w[0] = groups, s->w_step[0] = c->out * c->w_out;
    s->w[g] = c->out, s->w_step[g] = c->w_out;
    s->w[g + 1] = c->in, s->w_step[g + 1] = c->w_in;
    for (int d = c->space - 1; d >= 0; d--) {
        const fb_convolution_dim *at = &c->dim[d];
        s->x[2 + d] = at->size, s->x_step[2 + d] = at->x_step;
        s->y[2 + d] = at->places, s->y_step[2 + d] = y_place[d];
        s->w[2 + g + d] = at->kernel, s->w_step[2 + g + d] = at->w_step;
        s->stride[d] = at->stride, s->dilation[d] = at->dilation - 1;
        s->before[d] = at->before, s->after[d] = at->after;
    }
}

/* The description of the call, with the library's own choice of blocks; NULL. */
static void *describe(const shapes *s)
{
    memory_desc x, w, y;
    convolution_desc *op = fb_calloc(1, sizeof *op);
    void *desc = NULL;
    bool ok = lib.by_tag(&x, s->rank, s->x, DNNL_F32, DNNL_TAG_ANY) == DNNL_SUCCESS &&
              lib.by_tag(&w, s->w_rank, s->w, DNNL_F32, DNNL_TAG_ANY) == DNNL_SUCCESS &&
              lib.by_tag(&y, s->rank, s->y, DNNL_F32, DNNL_TAG_ANY) == DNNL_SUCCESS &&
              lib.describe(op, DNNL_FORWARD_INFERENCE, DNNL_CONVOLUTION_DIRECT, &x, &w, NULL, &y, s->stride,
                           s->dilation, s->before, s->after) == DNNL_SUCCESS &&
              lib.primitive_desc(&desc, op, NULL, lib.engine, NULL) == DNNL_SUCCESS;
    fb_free(op);
    return ok ? desc : NULL;
}

/* Does it multiply by way of windows laid out? Of groups whose channels fill no block of its kernels all do, and each
 * group by itself does not: 1.26 ms for two of 12 channels, 2 × 0.19 ms so. */
static bool lays_out(const void *desc)
{
    const char *kernel = "";
    return lib.query(desc, DNNL_IMPLEMENTATION, 0, &kernel) != DNNL_SUCCESS || strstr(kernel, "gemm:");
}

/* ---- operands ---- */

static bool reorder(void **out, const void *from, const void *to)
{
    void *desc = NULL;
    if (lib.reorder_desc(&desc, from, lib.engine, to, lib.engine, NULL) != DNNL_SUCCESS) return false;
    bool ok = lib.primitive_create(out, desc) == DNNL_SUCCESS;
    lib.primitive_desc_destroy(desc);
    return ok;
}

static bool make_operand(operand *o, int rank, const int64_t *extent, const int64_t *step, const void *wanted, bool out)
{
    void *const own = (void *)(intptr_t)-1; /* memory that the library allocates */
    if (!wanted || lib.by_strides(&o->lies, rank, extent, DNNL_F32, step) != DNNL_SUCCESS ||
        lib.memory_create(&o->memory, &o->lies, lib.engine, NULL) != DNNL_SUCCESS)
        return false;
    o->blocked = o->memory;
    if (lib.equal(&o->lies, wanted)) return true;
    return lib.memory_create(&o->blocked, wanted, lib.engine, own) == DNNL_SUCCESS &&
           reorder(&o->copy, out ? wanted : (const void *)&o->lies, out ? (const void *)&o->lies : wanted);
}

static void free_operand(operand *o)
{
    if (o->copy) lib.primitive_destroy(o->copy);
    if (o->blocked && o->blocked != o->memory) lib.memory_destroy(o->blocked);
    if (o->memory) lib.memory_destroy(o->memory);
}

/* ---- the call ---- */

static bool make(fb_dnnl_convolution *c, const fb_convolution *of)
{
    shapes s;
    shapes_of(of, of->groups, &s);
    void *desc = describe(&s);
    c->calls = 1;
    if (of->groups > 1 && of->in > 1 && (!desc || lays_out(desc))) {
        if (desc) lib.primitive_desc_destroy(desc);
        c->calls = (int)of->groups;
        c->x_next = of->in * of->x_channel;
        c->w_next = of->out * of->w_out;
        int64_t batch, channel, place[FB_CONVOLUTION_SPACE];
        fb_convolution_y_steps(of, &batch, &channel, place);
        c->y_next = of->out * channel;
        shapes_of(of, 1, &s);
        desc = describe(&s);
    }
    bool ok = desc && lib.primitive_create(&c->primitive, desc) == DNNL_SUCCESS &&
              make_operand(&c->x, s.rank, s.x, s.x_step, lib.query_md(desc, DNNL_MD_SRC, 0), false) &&
              make_operand(&c->w, s.w_rank, s.w, s.w_step, lib.query_md(desc, DNNL_MD_WEIGHTS, 0), false) &&
              make_operand(&c->y, s.rank, s.y, s.y_step, lib.query_md(desc, DNNL_MD_DST, 0), true);
    if (desc) lib.primitive_desc_destroy(desc);
    return ok;
}

fb_dnnl_convolution *fb_dnnl_convolution_new(const fb_convolution *of, int threads)
{
    if (!fb_dnnl_convolves()) return NULL;
    pthread_once(&lib.start, start);
    if (!lib.started) return NULL;
    fb_dnnl_convolution *c = fb_calloc(1, sizeof *c);
    int were = threads_now();
    c->threads = threads;
    set_threads(threads);
    bool ok = make(c, of);
    set_threads(were);
    if (ok) return c;
    fb_dnnl_convolution_free(c);
    return NULL;
}

static bool copied(const operand *o, bool out)
{
    const exec_arg args[] = {{DNNL_ARG_FROM, out ? o->blocked : o->memory},
                             {DNNL_ARG_TO, out ? o->memory : o->blocked}};
    return !o->copy || lib.execute(o->copy, lib.stream, 2, args) == DNNL_SUCCESS;
}

static bool run_one(fb_dnnl_convolution *c, const float *x, const float *w, float *y)
{
    const exec_arg args[] = {
        {DNNL_ARG_SRC, c->x.blocked}, {DNNL_ARG_WEIGHTS, c->w.blocked}, {DNNL_ARG_DST, c->y.blocked}};
    return lib.set_handle(c->x.memory, (void *)(uintptr_t)x) == DNNL_SUCCESS &&
           lib.set_handle(c->w.memory, (void *)(uintptr_t)w) == DNNL_SUCCESS &&
           lib.set_handle(c->y.memory, y) == DNNL_SUCCESS && copied(&c->x, false) && copied(&c->w, false) &&
           lib.execute(c->primitive, lib.stream, 3, args) == DNNL_SUCCESS && copied(&c->y, true);
}

bool fb_dnnl_convolution_run(fb_dnnl_convolution *c, const float *x, const float *w, float *y)
{
    int were = threads_now();
    bool ok = true;
    set_threads(c->threads);
    for (int i = 0; i < c->calls && ok; i++) ok = run_one(c, x + i * c->x_next, w + i * c->w_next, y + i * c->y_next);
    set_threads(were);
    return ok;
}

void fb_dnnl_convolution_free(fb_dnnl_convolution *c)
{
    if (!c) return;
    free_operand(&c->x), free_operand(&c->w), free_operand(&c->y);
    if (c->primitive) lib.primitive_destroy(c->primitive);
    fb_free(c);
}
