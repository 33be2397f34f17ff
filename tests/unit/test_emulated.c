/* The fuzzer's graphs and plans in the CUDA dialect, on a device that emulates a GPU (emulate_cuda.h): where its
 * blocks, warps, barriers and vectors are wrong, no GPU is needed to see it. FB_SEED, FB_COUNT and FB_PLANS give other
 * cases than those of every day; with FB_SEED alone, what it finds is printed one a line, as the fuzzer does. */
#include "measure/fuzz.h"
#include "unit/emulate_cuda.h"

typedef struct {
    fb_device device;
    fb_machine machine;
} emulated;

struct fb_loaded {
    const fb_program *p;
    unit u;
    char *storage;
    char **initial, **now, **saved; /* of each buffer */
    int64_t step[FB_MAX_REPEATS];
};

/* An environment variable. */
static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- the text ---- */

static void add_kernel_wrapper(fb_str *out, const fb_kernel *k, int number)
{
    char name[128];
    snprintf(name, sizeof name, "k%d::%s", k->shares ? k->shares - 1 : number, k->entry);
    fb_str_addf(out, "extern \"C\" void p0_k%d(void *const **args)\n", number);
    add_launch(out, k, name);
}

static void add_text(fb_str *out, const fb_program *p)
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
        if (p->kernels[k].source) add_kernel_wrapper(out, &p->kernels[k], k);
}

/* ---- loading ---- */

static const fb_machine *machine_of(const fb_device *d)
{
    return &((const emulated *)(const void *)d)->machine;
}

static void unload(fb_loaded *l)
{
    for (int b = 0; b < l->p->n_buffers; b++) fb_free(l->saved[b]);
    if (l->u.text.n) unit_free(&l->u);
    fb_free(l->storage);
    fb_free(l->initial);
    fb_free(l->now);
    fb_free(l->saved);
    fb_free(l);
}

static fb_loaded *load(fb_device *d, const fb_program *p, const fb_progress *progress, fb_error *err)
{
    (void)d, (void)progress, (void)err;
    enum { GUARD = 4096 };
    fb_loaded *l = fb_calloc(1, sizeof *l);
    l->p = p;
    if (p->n_kernels) {
        add_text(&l->u.text, p);
        unit_emulate(&l->u);
    }
    size_t total = (size_t)p->pool_bytes + GUARD, n = (size_t)p->n_buffers + 1;
    for (int b = 0; b < p->n_buffers; b++) total += (size_t)p->buffers[b].bytes + GUARD;
    l->storage = fb_calloc(1, total);
    l->initial = fb_calloc(n, sizeof *l->initial);
    l->now = fb_calloc(n, sizeof *l->now);
    l->saved = fb_calloc(n, sizeof *l->saved);
    char *next = (char *)(((uintptr_t)l->storage + 255) & ~(uintptr_t)255), *pool = next;
    next += (p->pool_bytes + 511) / 256 * 256;
    for (int b = 0; b < p->n_buffers; b++) {
        bool temporary = p->buffers[b].kind == FB_BUFFER_TEMP;
        l->initial[b] = temporary ? pool + p->buffers[b].offset : next;
        if (!temporary) next += (p->buffers[b].bytes + 511) / 256 * 256;
        if (p->buffers[b].assigned) l->saved[b] = fb_calloc(1, (size_t)p->buffers[b].bytes + 1);
    }
    return l;
}

static bool write_buffer(fb_loaded *l, int b, const void *bytes, fb_error *err)
{
    (void)err;
    memcpy(l->initial[b], bytes, (size_t)l->p->buffers[b].bytes);
    if (l->saved[b]) memcpy(l->saved[b], bytes, (size_t)l->p->buffers[b].bytes);
    return true;
}

static bool read_buffer(fb_loaded *l, int b, void *bytes, fb_error *err)
{
    (void)err;
    memcpy(bytes, l->now[b], (size_t)l->p->buffers[b].bytes);
    return true;
}

static bool poison(fb_loaded *l, fb_error *err)
{
    (void)err;
    for (int b = 0; b < l->p->n_buffers; b++)
        if (l->p->buffers[b].kind == FB_BUFFER_TEMP || l->p->buffers[b].kind == FB_BUFFER_OUTPUT)
            memset(l->initial[b], 0xff, (size_t)l->p->buffers[b].bytes);
    return true;
}

/* ---- running ---- */

static char *moved(const fb_loaded *l, int buffer, fb_advance advance)
{
    return l->now[buffer] + (advance.bytes ? advance.bytes * l->step[advance.level] : 0);
}

static void run_launch(fb_loaded *l, const fb_launch *launch)
{
    if (launch->kind == FB_LAUNCH_GEMM) {
        const fb_gemm_call *c = &l->p->gemms[launch->gemm];
        void **buffers = fb_calloc((size_t)l->p->n_buffers + 1, sizeof *buffers);
        for (int b = 0; b < l->p->n_buffers; b++) buffers[b] = l->now[b];
        /* operands of one call may be windows of one buffer, but each moves by itself in its own field alone */
        fb_gemm_call call = *c;
        int size = fb_dtype_size(c->dtype);
        call.a_offset += (moved(l, c->a, c->a_advance) - l->now[c->a]) / size;
        call.b_offset += (moved(l, c->b, c->b_advance) - l->now[c->b]) / size;
        if (c->bias != FB_NONE) call.bias_offset += (moved(l, c->bias, c->bias_advance) - l->now[c->bias]) / size;
        if (c->addend != FB_NONE)
            call.addend_offset += (moved(l, c->addend, c->addend_advance) - l->now[c->addend]) / size;
        if (c->c != c->a && c->c != c->b) buffers[c->c] = moved(l, c->c, c->c_advance);
        run_gemm(&call, buffers);
        fb_free(buffers);
        return;
    }
    void **args = fb_calloc((size_t)launch->n_args + 1, sizeof *args);
    for (int a = 0; a < launch->n_args; a++)
        args[a] = moved(l, launch->args[a], launch->advances ? launch->advances[a] : (fb_advance){0}) +
                  (launch->offsets ? launch->offsets[a] : 0);
    unit_entry(&l->u, 0, launch->kernel)(&(kernel_args){args, 0, 1, NULL, NULL});
    fb_free(args);
}

/* Runs from launch `i` to the END of its loop, or of all; returns where that is. */
static int run_from(fb_loaded *l, int i, int depth)
{
    for (; i < l->p->n_launches && l->p->launches[i].kind != FB_LAUNCH_END; i++) {
        const fb_launch *launch = &l->p->launches[i];
        if (launch->kind == FB_LAUNCH_SWAP) {
            char *held = l->now[launch->swap_a];
            l->now[launch->swap_a] = l->now[launch->swap_b];
            l->now[launch->swap_b] = held;
        } else if (launch->kind == FB_LAUNCH_REPEAT) {
            int end = i, open = 0;
            do {
                open += l->p->launches[end].kind == FB_LAUNCH_REPEAT;
                open -= l->p->launches[end].kind == FB_LAUNCH_END;
            } while (open && ++end);
            for (l->step[depth] = 0; l->step[depth] < launch->count; l->step[depth]++) run_from(l, i + 1, depth + 1);
            i = end;
        } else {
            run_launch(l, launch);
        }
    }
    return i;
}

static void name_memory(const fb_loaded *l)
{
    l->u.watch->forget();
    for (int b = 0; b < l->p->n_buffers; b++)
        l->u.watch->name(l->p->buffers[b].name, l->initial[b], (size_t)l->p->buffers[b].bytes);
}

static bool run(fb_loaded *l, const fb_run_how *how, fb_run_time *times, fb_error *err)
{
    for (int s = 0; s < how->samples; s++) {
        memcpy(l->now, l->initial, (size_t)l->p->n_buffers * sizeof *l->now);
        for (int b = 0; b < l->p->n_buffers; b++)
            if (l->saved[b]) memcpy(l->initial[b], l->saved[b], (size_t)l->p->buffers[b].bytes);
        if (l->u.watch) name_memory(l);
        run_from(l, 0, 0);
        char *wrong = l->u.watch ? l->u.watch->found() : NULL;
        if (wrong) fb_fail(err, FB_ERR_CRASH, "%s", wrong);
        if (wrong && number("FB_SEED", 0)) print_message("%s", wrong);
        fb_free(wrong);
        if (wrong) return false;
        times[s] = (fb_run_time){.wall_us = 0, .device_us = NAN};
    }
    return true;
}

static const fb_device_ops operations = {
    .kind = "emulated",
    .dialect = &fb_dialect_cuda,
    .machine = machine_of,
    .load = load,
    .unload = unload,
    .write = write_buffer,
    .read = read_buffer,
    .poison = poison,
    .run = run,
};

/* ---- the test ---- */

static void random_graphs_on_an_emulated_gpu(void **state)
{
    (void)state;
    enum { AT_ONCE = 4 };
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    emulated d = {.device = {.ops = &operations, .name = "emulated"}};
    fb_machine_default(&d.machine, FB_DEVICE_CUDA);
    uint64_t first = number("FB_SEED", 1), left = number("FB_COUNT", 8);
    int plans = (int)number("FB_PLANS", 3), only = (int)number("FB_PLAN", 1000);
    fb_fuzz_board *board = fb_calloc(1, sizeof *board);
    for (; left > 0 && !board->n_findings; left -= left < AT_ONCE ? left : AT_ONCE, first += AT_ONCE)
        fb_fuzz_round(&d.device, first, left < AT_ONCE ? (int)left : AT_ONCE, plans, only == 1000 ? FB_NONE : only,
                      board);
    for (int i = 0; i < board->n_findings; i++)
        print_message("# seed %llu, plan %d: %s\n", (unsigned long long)board->finding[i].seed, board->finding[i].plan,
                      board->finding[i].text);
    assert_int_equal(board->n_findings, 0);
    assert_true(board->elements > 0);
    print_message("# %lld graphs, %lld plans (%lld refused), %lld elements, %lld undecided\n", (long long)board->graphs,
                  (long long)board->plans, (long long)board->refused, (long long)board->elements,
                  (long long)board->undecided);
    fb_free(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_on_an_emulated_gpu)};
    return cmocka_run_group_tests_name("emulated", tests, NULL, NULL);
}
