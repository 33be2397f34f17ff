/* A device that emulates a GPU (emulate_cuda.h), for what asks for one: the fuzzer, the checks of kernels. It runs
 * launch by launch on plain memory, library calls as plain loops; the same runner takes C text (run_program.h), so that
 * a test may compile many programs into one unit and look at each with emulated_new(). */
#ifndef TESTS_UNIT_EMULATED_DEVICE_H
#define TESTS_UNIT_EMULATED_DEVICE_H

#include "device/device.h"
#include "unit/emulate_cuda.h"

typedef struct {
    fb_device device;
    fb_machine machine;
} emulated;

struct fb_loaded {
    const fb_program *p;
    unit own;         /* of a program that was compiled by itself */
    const unit *text; /* where its kernels are: entries of program `number` */
    int number;
    char *storage, *pool;
    size_t total;                   /* bytes of storage */
    char **initial, **now, **saved; /* of each buffer */
    int64_t step[FB_MAX_REPEATS];
    int64_t fewer; /* steps that a merged kernel makes less than it should, for the check */
};

/* ---- the text ---- */

static inline void emulated_add_wrapper(fb_str *out, const fb_kernel *k, int number)
{
    char name[128];
    snprintf(name, sizeof name, "k%d::%s", k->shares ? k->shares - 1 : number, k->entry);
    fb_str_addf(out, "extern \"C\" void p0_k%d(void *const **args)\n", number);
    add_launch(out, k, name);
}

static inline void emulated_add_text(fb_str *out, const fb_program *p)
{
    add_beginning(out);
    for (int k = 0; k < p->n_kernels; k++) {
        const fb_kernel *x = &p->kernels[k];
        if (!x->source || x->shares) continue;
        add_pieces(out, x);
        fb_str_addf(out, "namespace k%d {\n", k); /* loops that are one kernel each may have parts of one name */
        add_kernel_text(out, x->source);
        fb_str_add(out, "}\n");
    }
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].source) emulated_add_wrapper(out, &p->kernels[k], k);
}

/* ---- loading ---- */

static inline const fb_machine *emulated_machine(const fb_device *d)
{
    return &((const emulated *)(const void *)d)->machine;
}

static inline void emulated_free(fb_loaded *l)
{
    for (int b = 0; b < l->p->n_buffers; b++) fb_free(l->saved[b]);
    if (l->own.text.n) unit_free(&l->own);
    fb_free(l->storage);
    fb_free(l->initial);
    fb_free(l->now);
    fb_free(l->saved);
    fb_free(l);
}

/* Memory for a program whose kernels are, or will be, program `number` of `text`; both are borrowed. */
static inline fb_loaded *emulated_new(const fb_program *p, const unit *text, int number)
{
    enum { GUARD = 4096 };
    fb_loaded *l = fb_calloc(1, sizeof *l);
    l->p = p;
    l->text = text;
    l->number = number;
    size_t n = (size_t)p->n_buffers + 1;
    l->total = (size_t)p->pool_bytes + GUARD;
    for (int b = 0; b < p->n_buffers; b++) l->total += (size_t)p->buffers[b].bytes + GUARD;
    l->storage = fb_calloc(1, l->total);
    l->initial = fb_calloc(n, sizeof *l->initial);
    l->now = fb_calloc(n, sizeof *l->now);
    l->saved = fb_calloc(n, sizeof *l->saved);
    char *next = (char *)(((uintptr_t)l->storage + 255) & ~(uintptr_t)255);
    l->pool = next;
    next += (p->pool_bytes + 511) / 256 * 256;
    for (int b = 0; b < p->n_buffers; b++) {
        bool temporary = p->buffers[b].kind == FB_BUFFER_TEMP;
        l->initial[b] = temporary ? l->pool + p->buffers[b].offset : next;
        if (!temporary) next += (p->buffers[b].bytes + 511) / 256 * 256;
        if (p->buffers[b].assigned) l->saved[b] = fb_calloc(1, (size_t)p->buffers[b].bytes + 1);
    }
    memcpy(l->now, l->initial, (size_t)p->n_buffers * sizeof *l->now);
    return l;
}

static inline fb_loaded *emulated_load(fb_device *d, const fb_program *p, const fb_progress *progress, fb_error *err)
{
    (void)d, (void)progress, (void)err;
    fb_loaded *l = emulated_new(p, NULL, 0);
    l->text = &l->own;
    if (p->n_kernels) {
        emulated_add_text(&l->own.text, p);
        unit_emulate(&l->own);
    }
    return l;
}

static inline bool emulated_write(fb_loaded *l, int b, const void *bytes, fb_error *err)
{
    (void)err;
    memcpy(l->initial[b], bytes, (size_t)l->p->buffers[b].bytes);
    if (l->saved[b]) memcpy(l->saved[b], bytes, (size_t)l->p->buffers[b].bytes);
    return true;
}

static inline bool emulated_read(fb_loaded *l, int b, void *bytes, fb_error *err)
{
    (void)err;
    memcpy(bytes, l->now[b], (size_t)l->p->buffers[b].bytes);
    return true;
}

static inline bool emulated_poison(fb_loaded *l, fb_error *err)
{
    (void)err;
    for (int b = 0; b < l->p->n_buffers; b++)
        if (l->p->buffers[b].kind == FB_BUFFER_TEMP || l->p->buffers[b].kind == FB_BUFFER_OUTPUT)
            memset(l->initial[b], 0xff, (size_t)l->p->buffers[b].bytes);
    return true;
}

/* ---- running ---- */

static inline char *emulated_moved(const fb_loaded *l, int buffer, fb_advance advance)
{
    return l->now[buffer] + fb_advance_at(advance, l->step);
}

static inline void emulated_gemm(fb_loaded *l, const fb_gemm_call *c)
{
    void **buffers = fb_calloc((size_t)l->p->n_buffers + 1, sizeof *buffers);
    for (int b = 0; b < l->p->n_buffers; b++) buffers[b] = l->now[b];
    /* operands of one call may be windows of one buffer, but each moves by itself in its own field alone */
    fb_gemm_call call = *c;
    int size = fb_dtype_size(c->dtype);
    call.a_offset += (emulated_moved(l, c->a, c->a_advance) - l->now[c->a]) / size;
    call.b_offset += (emulated_moved(l, c->b, c->b_advance) - l->now[c->b]) / size;
    if (c->bias != FB_NONE) call.bias_offset += (emulated_moved(l, c->bias, c->bias_advance) - l->now[c->bias]) / size;
    if (c->addend != FB_NONE)
        call.addend_offset += (emulated_moved(l, c->addend, c->addend_advance) - l->now[c->addend]) / size;
    if (c->c != c->a && c->c != c->b) buffers[c->c] = emulated_moved(l, c->c, c->c_advance);
    run_gemm(&call, buffers);
    fb_free(buffers);
}

/* For merged kernels of C text, which call the library on the way: A, B, C, and what the epilogue takes. */
static inline void emulated_call(void *device, int number, void *const *buffers)
{
    fb_loaded *l = device;
    fb_gemm_call call = l->p->gemms[number];
    call.a = 0, call.b = 1, call.c = 2;
    run_gemm(&call, buffers);
    if (call.epilogue != FB_NONE)
        unit_entry(l->text, l->number,
                   call.epilogue)(&(kernel_args){.buffers = buffers + 3, .last = call.m * call.batch});
}

static inline void emulated_launch(fb_loaded *l, const fb_launch *launch)
{
    int kernel = launch->kernel;
    int64_t rows = 1;
    if (launch->kind == FB_LAUNCH_GEMM) {
        const fb_gemm_call *c = &l->p->gemms[launch->gemm];
        emulated_gemm(l, c);
        kernel = c->epilogue;
        rows = c->m * c->batch;
    }
    if (kernel == FB_NONE) return;
    void **args = fb_calloc((size_t)launch->n_args + 1, sizeof *args);
    args[launch->n_args] = (void *)(intptr_t)(launch->steps - l->fewer);
    for (int a = 0; a < launch->n_args; a++)
        args[a] = emulated_moved(l, launch->args[a], launch->advances ? launch->advances[a] : (fb_advance){0}) +
                  (launch->offsets ? launch->offsets[a] : 0);
    bool merged = l->p->kernels[kernel].merged; /* on the host its calls are numbered from its own first one */
    unit_entry(l->text, l->number, kernel)(&(kernel_args){.buffers = args,
                                                          .first = merged ? launch->gemm : 0,
                                                          .last = rows,
                                                          .multiply = run_product,
                                                          .context = (void *)(uintptr_t)launch,
                                                          .gemm = emulated_call,
                                                          .device = l,
                                                          .steps = launch->steps - l->fewer});
    fb_free(args);
}

static inline void emulated_swap(fb_loaded *l, int a, int b)
{
    char *held = l->now[a];
    l->now[a] = l->now[b];
    l->now[b] = held;
}

/* Runs from launch `i` to the END of its loop, or of all; returns where that is. */
static inline int emulated_run_from(fb_loaded *l, int i, int depth)
{
    for (; i < l->p->n_launches && l->p->launches[i].kind != FB_LAUNCH_END; i++) {
        const fb_launch *launch = &l->p->launches[i];
        if (launch->kind == FB_LAUNCH_SWAP) {
            emulated_swap(l, launch->swap_a, launch->swap_b);
        } else if (launch->kind == FB_LAUNCH_REPEAT) {
            int end = i, open = 0;
            do {
                open += l->p->launches[end].kind == FB_LAUNCH_REPEAT;
                open -= l->p->launches[end].kind == FB_LAUNCH_END;
            } while (open && ++end);
            for (l->step[depth] = 0; l->step[depth] < launch->count; l->step[depth]++)
                emulated_run_from(l, i + 1, depth + 1);
            i = end;
        } else {
            emulated_launch(l, launch);
        }
    }
    return i;
}

static inline void emulated_name_memory(const fb_loaded *l)
{
    l->text->watch->forget();
    for (int b = 0; b < l->p->n_buffers; b++)
        l->text->watch->name(l->p->buffers[b].name, l->initial[b], (size_t)l->p->buffers[b].bytes);
}

/* The state before a run. */
static inline bool emulated_rewind(fb_loaded *l, fb_error *err)
{
    (void)err;
    memcpy(l->now, l->initial, (size_t)l->p->n_buffers * sizeof *l->now);
    for (int b = 0; b < l->p->n_buffers; b++)
        if (l->saved[b]) memcpy(l->initial[b], l->saved[b], (size_t)l->p->buffers[b].bytes);
    return true;
}

static inline bool emulated_run(fb_loaded *l, const fb_run_how *how, fb_run_time *times, fb_error *err)
{
    for (int s = 0; s < how->samples; s++) {
        emulated_rewind(l, err);
        if (l->text->watch) emulated_name_memory(l);
        emulated_run_from(l, 0, 0);
        char *wrong = l->text->watch ? l->text->watch->found() : NULL;
        if (wrong) fb_fail(err, FB_ERR_CRASH, "%s", wrong);
        if (wrong && getenv("FB_SEED")) print_message("%s", wrong);
        fb_free(wrong);
        if (wrong) return false;
        times[s] = (fb_run_time){.wall_us = 0, .device_us = NAN};
    }
    return true;
}

/* ---- a run taken apart ---- */

static inline bool emulated_step(fb_loaded *l, int i, const int64_t *step, fb_error *err)
{
    (void)err;
    memcpy(l->step, step, sizeof l->step);
    if (l->text->watch) emulated_name_memory(l);
    emulated_launch(l, &l->p->launches[i]);
    char *wrong = l->text->watch ? l->text->watch->found() : NULL;
    if (wrong) fb_fail(err, FB_ERR_CRASH, "%s", wrong);
    bool ok = !wrong;
    fb_free(wrong);
    return ok;
}

static inline bool emulated_launch_steps(fb_loaded *l, int i, const int64_t *step, int64_t steps, fb_error *err)
{
    l->fewer = l->p->launches[i].steps - steps;
    bool ok = emulated_step(l, i, step, err);
    l->fewer = 0;
    return ok;
}

static inline bool emulated_peek(fb_loaded *l, int buffer, int64_t offset, int64_t bytes, void *to, fb_error *err)
{
    (void)err;
    memcpy(to, l->now[buffer] + offset, (size_t)bytes);
    return true;
}

static inline bool emulated_poke(fb_loaded *l, int buffer, int64_t offset, int64_t bytes, const void *from,
                                 fb_error *err)
{
    (void)err;
    memcpy(l->now[buffer] + offset, from, (size_t)bytes);
    return true;
}

static inline int emulated_storage(const fb_loaded *l, int buffer)
{
    for (int b = 0; b < l->p->n_buffers; b++)
        if (l->now[buffer] != l->initial[buffer] && l->now[buffer] == l->initial[b] && l->now[b] != l->initial[b])
            return b;
    return buffer;
}

static inline bool emulated_digest(fb_loaded *l, int storage, int64_t offset, int64_t bytes, uint64_t *out,
                                   fb_error *err)
{
    (void)err;
    const char *at = storage == FB_NONE ? l->pool : l->initial[storage];
    *out = fb_digest(at + offset, (size_t)bytes);
    return true;
}

/* Swaps stay: what is read is where it is now. */
static inline bool emulated_finish(fb_loaded *l, fb_error *err)
{
    (void)l, (void)err;
    return true;
}

static const fb_stepping emulated_stepping = {.rewind = emulated_rewind,
                                              .launch = emulated_step,
                                              .launch_steps = emulated_launch_steps,
                                              .swap = emulated_swap,
                                              .peek = emulated_peek,
                                              .poke = emulated_poke,
                                              .storage = emulated_storage,
                                              .digest = emulated_digest,
                                              .finish = emulated_finish};

static const fb_device_ops emulated_operations = {
    .kind = "emulated",
    .target = &fb_target_cuda,
    .machine = emulated_machine,
    .load = emulated_load,
    .unload = emulated_free,
    .write = emulated_write,
    .read = emulated_read,
    .poison = emulated_poison,
    .run = emulated_run,
    .stepping = &emulated_stepping,
};

#endif
