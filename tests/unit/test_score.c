/* The score of wrong kernels: every generated kernel of the bundled scripts' plans is made wrong (score_mutate.h), in C
 * and in CUDA text, library calls, launch lists and buffer tables too, and the checks of measure/check.h and
 * measure/judge.h must find it.
 *
 * A mutant counts when it moves a stored value beyond what honest roundings do: on one of the two sets of inputs, run
 * on what the right kernel was given, some element differs from the right kernel's by more than FB_JUDGE_ELEMENT times
 * its spread in trials, or a region's sum, along the values or plain, by more than FB_JUDGE_REGION times the largest of
 * any lane. For launch lists and buffers: an output of the whole graph. The others are below rounding.
 *
 * A kernel's mutants are judged on what its launch was given by the same calls that fb_check_kernels makes, with the
 * trials made once; what that does not find is given to fb_check_kernels and to the whole graph's judge before it is
 * missed.
 *
 * Loops that are one kernel (score_steps.h) are run whole: what each step stores, of those that fb_check_steps looks
 * at, is held against the right kernel's, and that check or the whole graph's judge must find what counts.
 *
 * At least 99.5 % of those that count are to be found, and 98 % in each cell (mutation × family × dtype × text): in a
 * sample, no cell may be lower than chance makes one (score_board.h).
 *
 * Without FB_FULL a sample, seeded by FB_SEED or the commit. FB_SCRIPT: scripts whose path holds this; FB_TARGET: c or
 * cuda; FB_PRESET: one of those below; FB_SHARE: how many of a thousand plans; FB_LIST=1: prints what is below
 * rounding, and what each plan took, too; FB_FINDINGS: the file in which findings appear as they are made. */
#include "unit/emulated_device.h"
#include "unit/score_board.h"
#include "unit/score_kept.h"
#include "unit/score_steps.h"
#include "unit/script_harness.h"
#include "unit/scripts_help.h"

#include "base/rng.h"
#include "decide/preset.h"
#include "judge/library.h"
#include "measure/check_parts.h"
#include "measure/judge.h"
#include "measure/measure.h"

#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PROCESSES = 2,
    BATCH_TEXT = 160000, /* characters of kernels that are compiled together */
    BATCH_ITEMS = 24,
    MUTANT_SECONDS = 2,   /* of a processor, for one set of inputs; the whole of a program may take more */
    PROGRAM_MUTANTS = 2,  /* of a plan and kind, at most */
    MOST_THREADS = 30000, /* emulated ones, of one launch's mutants */
    MOST_LAUNCHES = 40,   /* of a program whose list is made wrong */
};

static const char *const presets[] = {"none", "eager", "max", "inductor", "one kernel", "convolutions"};
enum { PRESETS = sizeof presets / sizeof *presets, ONE_KERNEL = PRESETS - 2, CONVOLUTIONS };

static uint64_t seed;
static bool full;

/* What a process that may die of a mutant says is of no use to anybody. */
static void silence(void)
{
    if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout)) _exit(1);
}

/* So much of a processor, from now on: waiting for one on a busy machine does not count. */
static void limit_to(int seconds)
{
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {.tv_sec = seconds}}, NULL);
}

/* ---- cases ---- */

typedef struct {
    const fb_graph *g;
    fb_program *p;
    char what[128]; /* "transformer forward:max" */
    int dtype, target;
    char **source;       /* of each kernel, with mutations in it */
    const char **was;    /* … and as it was */
    mutant_sites *sites; /* of each kernel */
    bool *fresh;         /* of each launch: was looked at nowhere before */
    int number;          /* in its unit */
} score_case;

typedef FB_VEC(score_case) score_cases;
typedef FB_VEC(fb_hash) hashes;

static bool is_seen(hashes *seen, fb_hash h)
{
    for (int i = 0; i < seen->n; i++)
        if (fb_hash_equal(seen->at[i], h)) return true;
    FB_VEC_PUSH(seen, h);
    return false;
}

/* One launch that runs the kernel, for what its arguments are; NULL: none does. */
static const fb_launch *launch_of(const fb_program *p, int kernel)
{
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->kind == FB_LAUNCH_KERNEL && l->kernel == kernel) return l;
        if (l->kind == FB_LAUNCH_GEMM && p->gemms[l->gemm].epilogue == kernel) return l;
    }
    return NULL;
}

static void mutate_program_text(score_case *c)
{
    fb_program *p = c->p;
    c->source = fb_calloc((size_t)p->n_kernels + 1, sizeof *c->source);
    c->was = fb_calloc((size_t)p->n_kernels + 1, sizeof *c->was);
    c->sites = fb_calloc((size_t)p->n_kernels + 1, sizeof *c->sites);
    int before = 0;
    for (int k = 0; k < p->n_kernels; k++) {
        int64_t elements[96];
        const fb_launch *l = launch_of(p, k);
        int n = l ? l->n_args < 96 ? l->n_args : 96 : 0;
        for (int a = 0; a < n; a++) elements[a] = l->offsets && l->offsets[a] ? 0 : p->buffers[l->args[a]].elements;
        c->was[k] = p->kernels[k].source;
        c->source[k] = p->kernels[k].merged ? mutate_merged(c->was[k], l, before, &c->sites[k])
                                            : mutate_kernel(c->was[k], elements, n, before, &c->sites[k]);
        before += c->sites[k].n;
    }
}

static void case_free(score_case *c)
{
    for (int k = 0; k < c->p->n_kernels; k++) {
        fb_free(c->source[k]);
        FB_VEC_FREE(&c->sites[k]);
    }
    fb_free(c->source);
    fb_free((void *)c->was);
    fb_free(c->sites);
    fb_free(c->fresh);
    fb_program_free(c->p);
}

/* ---- a program's walk ---- */

typedef struct {
    const score_case *c;
    const unit *u;
    fb_device *device;
    fb_loaded *l;
    int *mutant; /* fb_mutant of the unit */
    void **images;
    fb_check_job job;
    kept whole;
    int64_t step[FB_MAX_REPEATS];
    int depth;
    hashes looked; /* codes of launches, in the order in which they are seen */
} walk;

/* One way to make a launch wrong. */
typedef struct {
    mutation kind;
    int site;    /* its number; 0: of the call */
    int variant; /* of the call */
    const char *text;
} mutant;
typedef FB_VEC(mutant) mutants;

static fb_program *program_of(const walk *w)
{
    return w->c->p;
}

/* What lies at a place, in the order of its own dims. */
static void take_place(const walk *w, const fb_place *from, void *to)
{
    memcpy(to, w->l->now[from->buffer] + fb_place_at(from, w->step), (size_t)fb_node_bytes(w->c->g, from->node));
    if (!fb_storage_to_own(w->c->g, from->node, to)) fail_msg("no memory");
}

static void take_stores(const walk *w, const fb_launch *l, char *to)
{
    for (int k = 0; k < l->n_stores; k++) {
        int64_t bytes = fb_node_bytes(w->c->g, l->stores[k].node);
        take_place(w, &l->stores[k], to);
        to += (bytes + 15) / 16 * 16;
    }
}

static int64_t bytes_of_stores(const walk *w, const fb_launch *l)
{
    int64_t all = 0;
    for (int k = 0; k < l->n_stores; k++) all += (fb_node_bytes(w->c->g, l->stores[k].node) + 15) / 16 * 16;
    return all;
}

/* ---- wrong calls ---- */

enum {
    CALL_K,
    CALL_BIAS,
    CALL_RELU,
    CALL_SCALE,
    CALL_ADDEND,
    CALL_A_TURNED,
    CALL_B_TURNED,
    CALL_ROWS,
    CALL_COLUMNS,
    CALL_BATCH,
    CALL_BLOCK_K,
    CALL_STEP,
    CALL_PRODUCT_K,
    CALL_PRODUCT_TURNED,
    CALL_STRIDE,
    CALL_BEFORE,
    CALL_DILATION,
    CALL_TAP,
    CALL_GROUPS,
    CALL_CHANNEL,
    CALLS
};
static const struct {
    mutation kind;
    const char *text;
} calls[] = {
    [CALL_K] = {MUTATE_LAST_K, "k - 1"},
    [CALL_BIAS] = {MUTATE_BIAS, "no bias"},
    [CALL_RELU] = {MUTATE_RELU_FLAG, "relu flipped"},
    [CALL_SCALE] = {MUTATE_LIBRARY, "scale a little more"},
    [CALL_ADDEND] = {MUTATE_BIAS, "no addend"},
    [CALL_A_TURNED] = {MUTATE_TRANSPOSED, "a's strides exchanged"},
    [CALL_B_TURNED] = {MUTATE_TRANSPOSED, "b's strides exchanged"},
    [CALL_ROWS] = {MUTATE_ROW, "m - 1"},
    [CALL_COLUMNS] = {MUTATE_TAIL, "n - 1"},
    [CALL_BATCH] = {MUTATE_LIBRARY, "a's batches do not step on"},
    [CALL_BLOCK_K] = {MUTATE_BLOCK_K, "half of k"},
    [CALL_STEP] = {MUTATE_STEP, "arguments of another step"},
    [CALL_PRODUCT_K] = {MUTATE_LAST_K, "a product's k - 1"},
    [CALL_PRODUCT_TURNED] = {MUTATE_TRANSPOSED, "a product's strides exchanged"},
    [CALL_STRIDE] = {MUTATE_LIBRARY, "a convolution's windows one further on"},
    [CALL_BEFORE] = {MUTATE_LIBRARY, "a convolution's padding begins one later"},
    [CALL_DILATION] = {MUTATE_LIBRARY, "a convolution's kernel one further apart"},
    [CALL_TAP] = {MUTATE_LAST_K, "a convolution's kernel less its last element"},
    [CALL_GROUPS] = {MUTATE_LIBRARY, "a convolution's groups read the first one's channels"},
    [CALL_CHANNEL] = {MUTATE_LIBRARY, "a convolution's channels one less apart"},
};

/* Along the last dimension that has more than one place, or element of the kernel. What is outside of x stays 0. */
static bool spoil_convolution(fb_convolution *c, int variant)
{
    fb_convolution_dim *places = NULL, *taps = NULL;
    for (int d = 0; d < c->space; d++) {
        if (c->dim[d].places > 1) places = &c->dim[d];
        if (c->dim[d].kernel > 1) taps = &c->dim[d];
    }
    switch (variant) {
    case CALL_STRIDE: return places ? places->stride++, true : false;
    case CALL_BEFORE: return places ? places->before++, true : false;
    case CALL_DILATION: return taps ? taps->dilation++, true : false;
    case CALL_TAP: return taps ? taps->kernel--, true : false;
    case CALL_GROUPS: return c->groups > 1 ? c->out *= c->groups, c->groups = 1, true : false;
    case CALL_CHANNEL: return c->in > 1 && c->x_channel > 1 ? c->x_channel--, true : false;
    default: return false;
    }
}

/* Makes the call wrong, where that is another call; for good, in a process of its own. */
static bool spoil_call(fb_program *p, int launch, int variant)
{
    fb_launch *l = &p->launches[launch];
    fb_gemm_call *c = l->kind == FB_LAUNCH_GEMM ? &p->gemms[l->gemm] : NULL;
    fb_chain_product_call *products = (fb_chain_product_call *)(uintptr_t)l->products;
    bool convolves = c && c->convolution.space > 0;
    switch (variant) {
    case CALL_STRIDE:
    case CALL_BEFORE:
    case CALL_DILATION:
    case CALL_TAP:
    case CALL_GROUPS:
    case CALL_CHANNEL: return convolves && spoil_convolution(&c->convolution, variant);
    case CALL_A_TURNED: /* what is of no use to a convolution */
    case CALL_B_TURNED:
    case CALL_K:
    case CALL_BLOCK_K:
    case CALL_ROWS:
    case CALL_COLUMNS:
    case CALL_BATCH:
        if (convolves) return false;
        break;
    default: break;
    }
    switch (variant) {
    case CALL_K: return c && c->k > 1 ? c->k--, true : false;
    case CALL_BLOCK_K: return c && c->k > 3 ? c->k /= 2, true : false;
    case CALL_BIAS: return c && c->bias != FB_NONE ? c->bias = FB_NONE, true : false;
    case CALL_RELU: return c ? c->relu = !c->relu, true : false;
    case CALL_SCALE: return c ? c->scale *= c->dtype == FB_F32 ? 1.01 : 1.04, true : false;
    case CALL_ADDEND: return c && c->addend != FB_NONE ? c->addend = FB_NONE, true : false;
    case CALL_ROWS: return c && c->m > 1 ? c->m--, true : false;
    case CALL_COLUMNS: return c && c->n > 1 ? c->n--, true : false;
    case CALL_BATCH: return c && c->batch > 1 && c->a_batch ? c->a_batch = 0, true : false;
    case CALL_A_TURNED:
    case CALL_B_TURNED: {
        if (!c || (variant == CALL_A_TURNED ? c->m : c->n) != c->k || c->k < 2) return false;
        int64_t *row = variant == CALL_A_TURNED ? &c->a_row : &c->b_row,
                *col = variant == CALL_A_TURNED ? &c->a_col : &c->b_col;
        int64_t held = *row;
        *row = *col;
        *col = held;
        return true;
    }
    case CALL_PRODUCT_K: return l->n_products && products[0].k > 1 ? products[0].k--, true : false;
    case CALL_PRODUCT_TURNED: {
        if (!l->n_products || products[0].k != products[0].n || products[0].k < 2) return false;
        int64_t held = products[0].b_row;
        products[0].b_row = products[0].b_col;
        products[0].b_col = held;
        return true;
    }
    default: return false;
    }
}

/* Would it be another call? Nothing stays changed. */
static bool can_spoil(fb_program *p, int launch, int variant)
{
    fb_launch *l = &p->launches[launch];
    fb_gemm_call c;
    fb_chain_product_call product;
    if (l->kind == FB_LAUNCH_GEMM) c = p->gemms[l->gemm];
    if (l->n_products) product = l->products[0];
    bool can = spoil_call(p, launch, variant);
    if (l->kind == FB_LAUNCH_GEMM) p->gemms[l->gemm] = c;
    if (l->n_products) *(fb_chain_product_call *)(uintptr_t)l->products = product;
    return can;
}

static bool moves(const fb_program *p, const fb_launch *l)
{
    for (int a = 0; l->advances && a < l->n_args; a++)
        if (l->advances[a].bytes) return true;
    const fb_gemm_call *c = l->kind == FB_LAUNCH_GEMM ? &p->gemms[l->gemm] : NULL;
    return c && (c->a_advance.bytes || c->b_advance.bytes || c->addend_advance.bytes);
}

/* ---- the mutants of a launch ---- */

static bool is_drawn(const char *text, int number)
{
    static uint64_t most;
    if (!most) {
        const char *share = getenv("FB_MUTANTS");
        most = share ? strtoull(share, NULL, 10) : full ? 1000 : 500;
    }
    return (fb_splitmix64(seed + fb_digest(text, strlen(text)) + (uint64_t)number) >> 20) % 1000 < most;
}

static void list_mutants(const walk *w, int launch, mutants *out)
{
    fb_program *p = program_of(w);
    const fb_launch *l = &p->launches[launch];
    int kernel = l->kind == FB_LAUNCH_GEMM ? p->gemms[l->gemm].epilogue : l->kernel;
    bool inner = w->depth > 0 && w->step[w->depth - 1] == 1;
    if (inner) {
        if (moves(p, l)) FB_VEC_PUSH(out, ((mutant){MUTATE_STEP, 0, CALL_STEP, calls[CALL_STEP].text}));
        return;
    }
    for (int s = 0; kernel != FB_NONE && s < w->c->sites[kernel].n; s++) {
        const mutant_site *site = &w->c->sites[kernel].at[s];
        if (is_drawn(w->c->was[kernel], s)) FB_VEC_PUSH(out, ((mutant){site->kind, site->number, 0, site->line}));
    }
    for (int v = 0; v < CALLS; v++)
        if (can_spoil(p, launch, v)) FB_VEC_PUSH(out, ((mutant){calls[v].kind, 0, v, calls[v].text}));
}

/* An emulated thread costs what a processor's does not: of a launch of many only a few mutants, unless all are asked
 * for. */
static int64_t threads_of(const fb_program *p, const fb_launch *l)
{
    if (l->kind != FB_LAUNCH_KERNEL) return 1;
    const fb_kernel *k = &p->kernels[l->kernel];
    return 1 + (int64_t)k->grid[0] * k->grid[1] * k->grid[2] * k->block[0];
}

static void thin_out(const walk *w, int launch, mutants *all)
{
    int64_t most = MOST_THREADS / threads_of(program_of(w), &program_of(w)->launches[launch]);
    if (most < 2) most = 2;
    if (full || all->n <= most) return;
    for (int i = 0; i < all->n; i++) { /* drawn as cards are */
        int k = i + (int)(fb_splitmix64(seed + (uint64_t)launch * 64 + (uint64_t)i) % (uint64_t)(all->n - i));
        mutant held = all->at[i];
        all->at[i] = all->at[k];
        all->at[k] = held;
    }
    all->n = (int)most;
}

/* In a process of its own. */
static void run_mutant(walk *w, int launch, const mutant *m, char *to)
{
    fb_program *p = program_of(w);
    fb_launch *l = &p->launches[launch];
    int64_t step[FB_MAX_REPEATS];
    memcpy(step, w->step, sizeof step);
    fb_gemm_call call;
    fb_chain_product_call product;
    if (l->kind == FB_LAUNCH_GEMM) call = p->gemms[l->gemm];
    if (l->n_products) product = l->products[0];
    if (m->site)
        *w->mutant = m->site;
    else if (m->variant == CALL_STEP)
        step[w->depth - 1] = 0;
    else
        spoil_call(p, launch, m->variant);
    w->device->ops->stepping->launch(w->l, launch, step, NULL);
    *w->mutant = 0;
    if (l->kind == FB_LAUNCH_GEMM) p->gemms[l->gemm] = call;
    if (l->n_products) *(fb_chain_product_call *)(uintptr_t)l->products = product;
    take_stores(w, l, to);
}

typedef struct {
    fb_one_launch one;
    char *memory[2]; /* before the launch: of the run, and with inputs that tell */
    kept kept[2];
    int sets;
} looked_at;

static void restore_memory(const walk *w, const char *from)
{
    memcpy(w->l->storage, from, w->l->total);
}

static void tell(const walk *w, const fb_launch *l, void **bytes, int number)
{
    const fb_graph *g = w->c->g;
    for (int r = 0; r < l->n_reads; r++) {
        const fb_place *at = &l->reads[r];
        const fb_node *n = &g->nodes[at->node];
        if (n->op == FB_OP_STEP || n->op == FB_OP_CONST || n->op == FB_OP_IOTA || n->op == FB_OP_RANDOM) continue;
        fb_support s = fb_support_of(n->dtype, fb_shape_elements(&n->shape), bytes[r]);
        uint64_t key = fb_splitmix64(fb_splitmix64(0x7e11 + (uint64_t)number) + (uint64_t)r);
        char *told = fb_calloc(1, (size_t)fb_node_bytes(g, at->node) + 1);
        fb_lines lines = fb_lines_of(g, l, at->node, number);
        fb_tell(n, &lines, &s, key, told);
        char *to = w->l->now[at->buffer] + fb_place_at(at, w->step);
        memcpy(to, told, (size_t)fb_node_bytes(g, at->node));
        if (!fb_storage_from_own(g, at->node, to)) fail_msg("no memory");
        fb_free(told);
    }
}

static int by_node(const void *a, const void *b)
{
    fb_id x = ((const fb_given *)a)->node, y = ((const fb_given *)b)->node;
    return (x > y) - (x < y);
}

/* Trials of the launch on set s, and what the right kernel stores, which must be accepted. */
static bool look_at_right(walk *w, int launch, looked_at *k, int s)
{
    const fb_launch *l = &program_of(w)->launches[launch];
    const fb_graph *g = w->c->g;
    fb_error err = {0};
    fb_id *want = fb_calloc((size_t)l->n_stores + 1, sizeof *want);
    for (int i = 0; i < l->n_stores; i++) want[i] = l->stores[i].node;
    k->kept[s] = kept_new(g, want, l->n_stores);
    fb_free(want);
    fb_one_take(&k->one, NULL);
    fb_given *given = fb_calloc((size_t)l->n_reads + 1, sizeof *given);
    for (int r = 0; r < l->n_reads; r++) given[r] = (fb_given){l->reads[r].node, k->one.bytes[r]};
    if (l->n_reads) qsort(given, (size_t)l->n_reads, sizeof *given, by_node);
    bool ok = keep(&k->kept[s], g, given, l->n_reads, &err);
    fb_free(given);
    if (!ok) find("error: %s: launch %d: %s", w->c->what, launch, err.text);
    if (!ok) return false;
    w->device->ops->stepping->launch(w->l, launch, w->step, NULL);
    for (int i = 0; i < l->n_stores; i++) {
        fb_error_report e;
        kept_value *v = &k->kept[s].value[i];
        take_place(w, &l->stores[i], v->right);
        if (is_accepted(v, g, v->right, &e)) continue;
        __atomic_add_fetch(&board->accused, 1, __ATOMIC_RELAXED);
        find("accused: %s %s %s, set %d: kernel %s: %s", w->c->what, dtype_names[w->c->dtype],
             target_names[w->c->target], s + 1, fb_check_launch_name(program_of(w), l), e.worst);
    }
    return true;
}

static int family_of(const fb_program *p, const fb_launch *l)
{
    return l->kind == FB_LAUNCH_GEMM ? FB_FAMILY_LIBRARY : (int)p->kernels[l->kernel].family;
}

static cell *cell_of(const walk *w, mutation kind, int family)
{
    return &board->cells[kind][family][w->c->dtype][w->c->target];
}

#define COUNT(FIELD) __atomic_add_fetch(&(FIELD), 1, __ATOMIC_RELAXED)

static int64_t aligned(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* In a process of its own: is what the quick way let pass found by the whole check? 1: yes, 0: no. */
static bool whole_check_finds(walk *w, bool *by_kernels);

static bool is_found_after_all(walk *w, int launch, const mutant *m)
{
    int *found = shared_memory(sizeof *found);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        bool by_kernels;
        silence();
        limit_to(MUTANT_SECONDS * 15);
        if (m->site)
            *w->mutant = m->site; /* wherever the kernel runs */
        else
            spoil_call(program_of(w), launch, m->variant);
        *found = whole_check_finds(w, &by_kernels);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    bool yes = *found || status != 0;
    munmap(found, sizeof *found + 1);
    return yes;
}

static void conclude(walk *w, int launch, const looked_at *k, const mutant *m, const char *stored[2], bool crashed)
{
    const fb_program *p = program_of(w);
    const fb_launch *l = &p->launches[launch];
    cell *to = cell_of(w, m->kind, family_of(p, l));
    const char *name = fb_check_launch_name(p, l);
    if (crashed) {
        COUNT(to->crashed);
        if (getenv("FB_LIST"))
            find("died: %s; %s %s %s; kernel %s; %s", mutation_names[m->kind], w->c->what, dtype_names[w->c->dtype],
                 target_names[w->c->target], name, m->text);
        return;
    }
    moved far = {0};
    bool caught = false;
    for (int s = 0; s < k->sets; s++) {
        const char *at = stored[s];
        for (int i = 0; i < k->kept[s].n; at += aligned(k->kept[s].value[i].bytes), i++) {
            fb_error_report e;
            add_moved(&far, &k->kept[s].value[i], at);
            caught |= !is_accepted(&k->kept[s].value[i], w->c->g, at, &e);
        }
    }
    if (!(far.ratio > 1)) {
        COUNT(to->below);
        if (getenv("FB_LIST"))
            find("below: %s; %s %s %s; kernel %s; %s; moved %.3g, spread %.3g%s", mutation_names[m->kind], w->c->what,
                 dtype_names[w->c->dtype], target_names[w->c->target], name, m->text, far.difference, far.spread,
                 caught ? "; found all the same" : "");
        return;
    }
    COUNT(to->count);
    if (!caught && m->variant != CALL_STEP) caught = is_found_after_all(w, launch, m);
    if (caught)
        COUNT(to->caught);
    else
        find("missed: %s; %s %s %s; kernel %s; %s; moved %.3g, spread %.3g, %.2f times what counts",
             mutation_names[m->kind], w->c->what, dtype_names[w->c->dtype], target_names[w->c->target], name, m->text,
             far.difference, far.spread, far.ratio);
}

/* All mutants of a launch, each on both sets, in a process of their own that may die of one: then the next one goes on
 * behind it. */
static void run_mutants(walk *w, int launch, looked_at *k, const mutants *all)
{
    const fb_launch *l = &program_of(w)->launches[launch];
    int64_t each = bytes_of_stores(w, l);
    size_t bytes = (size_t)(each * k->sets * all->n) + 64;
    char *stored = shared_memory(bytes);
    volatile int *done = (volatile int *)(void *)stored; /* mutants begun */
    char *results = stored + 64;
    bool *crashed = fb_calloc((size_t)all->n + 1, sizeof *crashed);
    while (*done < all->n) {
        fflush(NULL);
        pid_t child = fork();
        if (!child) {
            silence();
            while (*done < all->n) {
                int m = (*done)++;
                limit_to(MUTANT_SECONDS * k->sets);
                for (int s = 0; s < k->sets; s++) {
                    restore_memory(w, k->memory[s]);
                    run_mutant(w, launch, &all->at[m], results + (m * k->sets + s) * each);
                }
            }
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status && *done > 0) crashed[*done - 1] = true;
        if (status && *done == 0) break;
    }
    for (int m = 0; m < all->n; m++) {
        const char *at[2] = {results + m * k->sets * each, results + (m * k->sets + 1) * each};
        conclude(w, launch, k, &all->at[m], at, crashed[m]);
    }
    fb_free(crashed);
    munmap(stored, bytes + 1);
}

/* Looks at a launch before which memory is as it should be, and leaves it so. */
static void score_launch(walk *w, int launch, int number)
{
    const fb_launch *l = &program_of(w)->launches[launch];
    mutants all = {0};
    list_mutants(w, launch, &all);
    thin_out(w, launch, &all);
    looked_at k = {.one = {.job = &w->job, .launch = launch, .step = w->step}, .sets = l->n_reads ? 2 : 1};
    bool ok = all.n > 0;
    for (int s = 0; ok && s < k.sets; s++) {
        if (s) restore_memory(w, k.memory[0]);
        if (s) tell(w, l, k.one.bytes, number);
        k.memory[s] = fb_alloc(w->l->total);
        memcpy(k.memory[s], w->l->storage, w->l->total);
        ok = look_at_right(w, launch, &k, s);
        /* the first set's inputs say what the second's may be */
        if (s == 0 && ok) restore_memory(w, k.memory[0]), fb_one_take(&k.one, NULL);
    }
    if (ok) run_mutants(w, launch, &k, &all);
    if (ok) COUNT(board->kernels);
    if (k.memory[0]) restore_memory(w, k.memory[0]);
    for (int s = 0; s < 2; s++) {
        fb_free(k.memory[s]);
        kept_free(&k.kept[s]);
    }
    fb_one_free(&k.one);
    FB_VEC_FREE(&all);
}

/* ---- walking ---- */

static int end_of_loop(const fb_program *p, int repeat)
{
    int depth = 1, i = repeat + 1;
    for (; depth; i++) depth += (p->launches[i].kind == FB_LAUNCH_REPEAT) - (p->launches[i].kind == FB_LAUNCH_END);
    return i - 1;
}

static void walk_range(walk *w, int from, int to)
{
    fb_program *p = program_of(w);
    for (int i = from; i < to; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->kind == FB_LAUNCH_REPEAT) {
            int end = end_of_loop(p, i), level = w->depth++;
            for (w->step[level] = 0; w->step[level] < l->count; w->step[level]++) walk_range(w, i + 1, end);
            w->step[level] = 0;
            w->depth--;
            i = end;
        } else if (l->kind == FB_LAUNCH_SWAP) {
            emulated_swap(w->l, l->swap_a, l->swap_b);
        } else if (l->kind != FB_LAUNCH_END) {
            fb_hash code = fb_program_launch_code(p, l);
            bool first = true, second = w->depth > 0;
            for (int d = 0; d < w->depth; d++) {
                first &= w->step[d] == 0;
                second &= d + 1 < w->depth ? w->step[d] == 0 : w->step[d] == 1;
            }
            int number = 0;
            while (number < w->looked.n && !fb_hash_equal(w->looked.at[number], code)) number++;
            if (number == w->looked.n) FB_VEC_PUSH(&w->looked, code);
            if ((first || second) && w->c->fresh[i] && l->n_stores) score_launch(w, i, number);
            w->device->ops->stepping->launch(w->l, i, w->step, NULL);
        }
    }
}

/* ---- the whole graph ---- */

static void write_images(walk *w)
{
    for (int b = 0; b < program_of(w)->n_buffers; b++)
        if (w->images[b]) w->device->ops->write(w->l, b, w->images[b], NULL);
}

static void run_whole(walk *w)
{
    fb_run_time time;
    write_images(w);
    w->device->ops->poison(w->l, NULL);
    w->device->ops->run(w->l, &(fb_run_how){.samples = 1}, &time, NULL);
}

/* Runs the program as it is now and judges what it leaves; moved: how far that is from the right one's. */
static bool judge_whole(walk *w, moved *far)
{
    bool ok = true;
    run_whole(w);
    for (int i = 0; i < w->whole.n; i++) {
        const kept_value *v = &w->whole.value[i];
        int b = fb_program_left(program_of(w), w->c->g, v->node);
        fb_error_report e;
        if (b == FB_NONE) continue;
        if (far) add_moved(far, v, w->l->now[b]);
        ok &= is_accepted(v, w->c->g, w->l->now[b], &e);
    }
    return ok;
}

static bool whole_check_finds(walk *w, bool *by_kernels)
{
    fb_check_result found;
    fb_error err = {0};
    write_images(w);
    fb_check_job job = w->job;
    job.loaded = w->l;
    bool ok = fb_check_kernels(&job, &found, NULL, &err);
    *by_kernels = ok && !found.error.ok;
    return *by_kernels || !judge_whole(w, NULL);
}

/* ---- wrong programs ---- */

static fb_launch *launches_without(fb_program *p, int i)
{
    memmove(&p->launches[i], &p->launches[i + 1], (size_t)(p->n_launches - i - 1) * sizeof *p->launches);
    p->n_launches--;
    return p->launches;
}

static bool is_run(const fb_launch *l)
{
    return l->kind == FB_LAUNCH_KERNEL || l->kind == FB_LAUNCH_GEMM;
}

/* Number `n` of a kind's mutants, for good; false: there are no more. *text says which. */
static bool spoil_program(fb_program *p, mutation kind, int n, char text[160])
{
    for (int i = 0; i < p->n_launches; i++) {
        fb_launch *l = &p->launches[i];
        bool fits = (kind == MUTATE_LEFT_OUT && is_run(l)) ||
                    (kind == MUTATE_EXCHANGED && i + 1 < p->n_launches && is_run(l) && is_run(l + 1)) ||
                    (kind == MUTATE_COUNT && l->kind == FB_LAUNCH_REPEAT && l->count > 0) ||
                    (kind == MUTATE_NO_SWAP && l->kind == FB_LAUNCH_SWAP);
        if (!fits || n-- > 0) continue;
        snprintf(text, 160, "launch %d%s%.100s", i, is_run(l) ? ": " : "", is_run(l) ? fb_check_launch_name(p, l) : "");
        if (kind == MUTATE_COUNT) {
            l->count--;
        } else if (kind == MUTATE_EXCHANGED) {
            fb_launch held = *l;
            *l = l[1];
            l[1] = held;
        } else {
            launches_without(p, i);
        }
        return true;
    }
    for (int a = 0; kind == MUTATE_STALE && a < p->n_buffers; a++) {
        for (int b = a + 1; b < p->n_buffers; b++) {
            fb_buffer *x = &p->buffers[a], *y = &p->buffers[b];
            if (x->kind != FB_BUFFER_TEMP || y->kind != FB_BUFFER_TEMP || x->offset == y->offset) continue;
            if ((x->offset < y->offset ? x : y)->offset + (x->bytes > y->bytes ? x : y)->bytes > p->pool_bytes)
                continue;
            if (n-- > 0) continue;
            snprintf(text, 160, "%.60s where %.60s is", y->name, x->name);
            if (x->offset < y->offset)
                y->offset = x->offset;
            else
                x->offset = y->offset;
            return true;
        }
    }
    for (int i = 0; kind == MUTATE_OFFSET && i < p->n_launches; i++) {
        fb_launch *l = &p->launches[i];
        for (int a = 0; is_run(l) && l->offsets && a < l->n_args; a++) {
            if (!l->offsets[a] || n-- > 0) continue;
            snprintf(text, 160, "launch %d: argument %d from its buffer's beginning", i, a);
            ((int64_t *)(uintptr_t)l->offsets)[a] = 0;
            return true;
        }
    }
    return false;
}

typedef struct {
    bool there, by_kernels, by_whole, ended;
    moved far;
    char text[160];
} program_result;

static void run_program_mutant(walk *w, mutation kind, int n, program_result *out)
{
    if (!spoil_program(program_of(w), kind, n, out->text)) {
        out->ended = true;
        return;
    }
    out->there = true;
    w->l = emulated_new(program_of(w), w->u, w->c->number);
    out->by_whole = !judge_whole(w, &out->far);
    if (out->far.ratio > 1) {
        bool found = whole_check_finds(w, &out->by_kernels);
        out->by_whole |= found && !out->by_kernels;
    }
    out->ended = true;
}

static void conclude_program(walk *w, mutation kind, const program_result *r)
{
    cell *to = cell_of(w, kind, FB_FAMILIES);
    if (!r->ended) {
        COUNT(to->crashed);
    } else if (!(r->far.ratio > 1)) {
        COUNT(to->below);
    } else {
        COUNT(to->count);
        if (r->by_kernels || r->by_whole)
            COUNT(to->caught);
        else
            find("missed: %s; %s %s %s; %s; moved %.3g, spread %.3g, %.2f times what counts", mutation_names[kind],
                 w->c->what, dtype_names[w->c->dtype], target_names[w->c->target], r->text, r->far.difference,
                 r->far.spread, r->far.ratio);
    }
}

static void score_program(walk *w)
{
    static const mutation kinds[] = {MUTATE_LEFT_OUT, MUTATE_EXCHANGED, MUTATE_COUNT,
                                     MUTATE_NO_SWAP,  MUTATE_STALE,     MUTATE_OFFSET};
    int64_t threads = 0;
    for (int i = 0; i < program_of(w)->n_launches; i++)
        threads += threads_of(program_of(w), &program_of(w)->launches[i]);
    bool small = threads < MOST_THREADS / 4 && fb_program_launches(program_of(w)) < MOST_LAUNCHES;
    if (!full && !small) return;
    program_result *r = shared_memory(sizeof *r);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int n = 0, run = 0; run < (full ? 1000 : PROGRAM_MUTANTS); n++) {
            if (!is_drawn(w->c->what, n * 64 + (int)kinds[k]) && n < 1000) continue;
            *r = (program_result){0};
            fflush(NULL);
            pid_t child = fork();
            if (!child) {
                silence();
                limit_to(MUTANT_SECONDS * 15);
                run_program_mutant(w, kinds[k], n, r);
                _exit(0);
            }
            waitpid(child, NULL, 0);
            if (!r->there) break;
            conclude_program(w, kinds[k], r);
            run++;
        }
    }
    munmap(r, sizeof *r + 1);
}

/* ---- loops that are one kernel ---- */

enum { LOOKS = 4 }; /* steps that are kept of a loop */

typedef struct {
    fb_inner_step at;
    fb_arena *arena;
    fb_launch step; /* what one step of it is */
    int64_t t[LOOKS];
    int n;
    kept kept[LOOKS];
} inner;

typedef struct {
    bool ended, found;
    char stored[];
} inner_result;

/* What step number `look` stores when the kernel is run to its end, and no further. */
static bool take_step(walk *w, inner *in, int look, char *to)
{
    if (!fb_check_step_run(&in->at, in->t[look] + 1, in->t[look], NULL)) return false;
    memcpy(w->step, in->at.step, sizeof w->step);
    take_stores(w, &in->step, to);
    return true;
}

static void keep_step(walk *w, inner *in, int look)
{
    fb_error err = {0};
    fb_check_job job = w->job;
    fb_program program = *w->c->p;
    const fb_launch *l = &in->step;
    program.launches = &in->step;
    job.program = &program;
    fb_one_launch one = {.job = &job, .step = in->at.step};
    fb_id *want = fb_calloc((size_t)l->n_stores + 1, sizeof *want);
    for (int i = 0; i < l->n_stores; i++) want[i] = l->stores[i].node;
    in->kept[look] = kept_new(w->c->g, want, l->n_stores);
    fb_free(want);
    fb_given *given = fb_calloc((size_t)l->n_reads + 1, sizeof *given);
    if (!fb_check_step_run(&in->at, in->t[look], in->t[look], &err) || !fb_one_take(&one, &err))
        fail_msg("%s", err.text);
    for (int r = 0; r < l->n_reads; r++) given[r] = (fb_given){l->reads[r].node, one.bytes[r]};
    if (l->n_reads) qsort(given, (size_t)l->n_reads, sizeof *given, by_node);
    if (!keep(&in->kept[look], w->c->g, given, l->n_reads, &err)) fail_msg("%s", err.text);
    fb_free(given);
    fb_one_free(&one);
    char *right = fb_calloc(1, (size_t)bytes_of_stores(w, l) + 1), *from = right;
    take_step(w, in, look, right);
    for (int i = 0; i < l->n_stores; from += aligned(in->kept[look].value[i].bytes), i++)
        memcpy(in->kept[look].value[i].right, from, (size_t)in->kept[look].value[i].bytes);
    fb_free(right);
}

static void inner_look(walk *w, inner *in)
{
    int64_t n = in->at.loop->count, t[LOOKS] = {0, 1, n - 2, n - 1}, before = -1;
    in->arena = fb_arena_new();
    in->step = fb_check_step_launch(&in->at, in->arena);
    for (int i = 0; i < LOOKS; i++) {
        if (t[i] <= before || t[i] >= n) continue;
        in->t[in->n] = before = t[i];
        keep_step(w, in, in->n++);
    }
}

static void inner_free(inner *in)
{
    for (int i = 0; i < in->n; i++) kept_free(&in->kept[i]);
    fb_arena_free(in->arena);
}

/* In a process of its own. */
static void run_inner_mutant(walk *w, inner *in, int number, inner_result *out)
{
    fb_check_result checked;
    int64_t each = bytes_of_stores(w, &in->step);
    *w->mutant = number;
    for (int i = 0; i < in->n; i++) take_step(w, in, i, out->stored + i * each);
    bool ok = fb_check_steps(&w->job, &checked, NULL, NULL);
    out->found = !ok || !checked.error.ok || !judge_whole(w, NULL);
    out->ended = true;
}

static void conclude_inner(walk *w, inner *in, const mutant_site *site, const inner_result *r)
{
    moved far = {0};
    int64_t each = bytes_of_stores(w, &in->step);
    cell *to = cell_of(w, site->kind, FB_FAMILY_SCAN);
    for (int i = 0; i < in->n; i++) {
        const char *at = r->stored + i * each;
        for (int k = 0; k < in->kept[i].n; at += aligned(in->kept[i].value[k].bytes), k++)
            add_moved(&far, &in->kept[i].value[k], at);
    }
    if (!r->ended) {
        COUNT(to->crashed);
    } else if (!(far.ratio > 1)) {
        COUNT(to->below);
    } else {
        COUNT(to->count);
        if (r->found)
            COUNT(to->caught);
        else
            find("missed: %s; %s %s %s; %s; moved %.3g, spread %.3g, %.2f times what counts",
                 mutation_names[site->kind], w->c->what, dtype_names[w->c->dtype], target_names[w->c->target],
                 site->line, far.difference, far.spread, far.ratio);
    }
}

static void score_inner(walk *w, inner *in, int kernel)
{
    inner_look(w, in);
    size_t bytes = sizeof(inner_result) + (size_t)(bytes_of_stores(w, &in->step) * in->n);
    inner_result *r = shared_memory(bytes);
    for (int s = 0; s < w->c->sites[kernel].n; s++) {
        if (!is_drawn(w->c->was[kernel], s)) continue;
        memset(r, 0, bytes);
        fflush(NULL);
        pid_t child = fork();
        if (!child) {
            silence();
            limit_to(MUTANT_SECONDS * 15);
            run_inner_mutant(w, in, w->c->sites[kernel].at[s].number, r);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        conclude_inner(w, in, &w->c->sites[kernel].at[s], r);
    }
    munmap(r, bytes + 1);
    inner_free(in);
}

/* Of one program that is right. */
static void score_loops(walk *w)
{
    fb_check_result right;
    fb_error err = {0};
    write_images(w);
    if (!fb_check_steps(&w->job, &right, NULL, &err)) fail_msg("%s", err.text);
    if (!right.error.ok) {
        COUNT(board->accused);
        find("accused: %s %s %s: %s", w->c->what, dtype_names[w->c->dtype], target_names[w->c->target],
             right.error.worst);
    }
    for (int i = 0; i < program_of(w)->n_launches; i++) {
        const fb_launch *l = &program_of(w)->launches[i];
        for (int k = 0; k < l->n_loops; k++) {
            inner in = {.at = {.job = &w->job, .launch = i, .loop = &l->loops[k]}};
            score_inner(w, &in, l->kernel);
            COUNT(board->kernels);
        }
    }
}

static int merged_kernels(const fb_program *p)
{
    int n = 0;
    for (int k = 0; k < p->n_kernels; k++) n += p->kernels[k].merged;
    return n;
}

/* ---- one case ---- */

static void **images_of(const score_case *c)
{
    void **images = fb_calloc((size_t)c->p->n_buffers + 1, sizeof *images);
    for (int b = 0; b < c->p->n_buffers; b++) {
        const fb_buffer *buffer = &c->p->buffers[b];
        fb_error err;
        if (buffer->kind != FB_BUFFER_INPUT && buffer->kind != FB_BUFFER_PARAM) continue;
        images[b] = fb_calloc(1, (size_t)buffer->bytes + 1);
        if (!fb_interp_fill_source(c->g, buffer->node, DATA_SEED, NULL, NULL, 0, buffer->elements, images[b], &err))
            fail_msg("%s", err.text);
    }
    return images;
}

static bool make_whole(walk *w)
{
    fb_error err = {0};
    fb_arena *arena = fb_arena_new();
    fb_id *want;
    int n = fb_reference_nodes(w->c->g, arena, &want);
    w->whole = kept_new(w->c->g, want, n);
    fb_arena_free(arena);
    bool ok = keep(&w->whole, w->c->g, NULL, 0, &err);
    if (!ok) find("error: %s: %s", w->c->what, err.text);
    run_whole(w);
    for (int i = 0; i < n; i++) {
        int b = fb_program_left(program_of(w), w->c->g, w->whole.value[i].node);
        if (b != FB_NONE) memcpy(w->whole.value[i].right, w->l->now[b], (size_t)w->whole.value[i].bytes);
    }
    return ok;
}

static void score_case_run(const score_case *c, const unit *u)
{
    int64_t start = fb_now_ns();
    emulated d = {.device = {.ops = &emulated_operations, .name = "emulated"}};
    walk w = {.c = c, .u = u, .device = &d.device, .images = images_of(c)};
    w.l = emulated_new(c->p, u, c->number);
    *(void **)&w.mutant = dlsym(u->handle, "fb_mutant");
    if (!w.mutant) fail_msg("no fb_mutant");
    w.job = (fb_check_job){.device = w.device,
                           .loaded = w.l,
                           .program = c->p,
                           .g = c->g,
                           .images = w.images,
                           .seed = DATA_SEED,
                           .second = true};
    if (make_whole(&w)) {
        write_images(&w);
        w.device->ops->poison(w.l, NULL);
        emulated_rewind(w.l, NULL);
        if (merged_kernels(c->p)) {
            score_loops(&w);
        } else {
            walk_range(&w, 0, c->p->n_launches);
            score_program(&w);
        }
        COUNT(board->plans);
    }
    if (getenv("FB_LIST"))
        find("took: %6.2f s: %s %s %s, %d launches", (double)(fb_now_ns() - start) * 1e-9, c->what,
             dtype_names[c->dtype], target_names[c->target], c->p->n_launches);
    kept_free(&w.whole);
    for (int b = 0; b < c->p->n_buffers; b++) fb_free(w.images[b]);
    fb_free(w.images);
    FB_VEC_FREE(&w.looked);
    emulated_free(w.l);
}

/* ---- batches ---- */

typedef struct {
    int process; /* which of PROCESSES this is */
    int64_t drawn;
    score_cases cases[TARGETS];
    int64_t text[TARGETS];
    FB_VEC(fb_graph *) graphs;
    hashes seen[DTYPES][TARGETS];
    fb_machine machine[TARGETS];
} batch;

static void add_to_unit(unit *u, score_case *c)
{
    if (!u->text.n) {
        if (c->target)
            add_beginning(&u->text);
        else
            fb_str_add(&u->text, fb_printer_prelude(&fb_target_c));
        fb_str_add(&u->text, c->target ? "\nextern \"C\" { int fb_mutant; }\n" : "\nint fb_mutant;\n");
        fb_str_add(&u->text, "#define FB_IS(K) (fb_mutant == (K))\n");
    }
    for (int k = 0; k < c->p->n_kernels; k++) c->p->kernels[k].source = c->source[k];
    c->number = c->target ? unit_add_cuda(u, c->p) : unit_add(u, c->p);
    for (int k = 0; k < c->p->n_kernels; k++) c->p->kernels[k].source = c->was[k];
}

static void flush_target(batch *b, int target)
{
    unit u = {0};
    score_cases *all = &b->cases[target];
    int64_t start = fb_now_ns();
    if (!all->n) return;
    for (int i = 0; i < all->n; i++) add_to_unit(&u, &all->at[i]);
    if (target)
        unit_build_emulated(&u, "-O0 -std=gnu++17 -w");
    else
        unit_build(&u, "cc", "-O0 -std=gnu17 -march=native -fopenmp-simd -ffp-contract=fast -fno-math-errno -w",
                   RTLD_NOW | RTLD_LOCAL);
    if (getenv("FB_LIST"))
        find("took: %6.2f s: compiling %d plans, %s", (double)(fb_now_ns() - start) * 1e-9, all->n,
             target_names[target]);
    for (int i = 0; i < all->n; i++) {
        score_case_run(&all->at[i], &u);
        case_free(&all->at[i]);
    }
    unit_free(&u);
    all->n = 0;
    b->text[target] = 0;
}

static void flush(batch *b)
{
    for (int t = 0; t < TARGETS; t++) flush_target(b, t);
    for (int i = 0; i < b->graphs.n; i++) fb_graph_free(b->graphs.at[i]);
    b->graphs.n = 0;
}

static bool is_new(batch *b, score_case *c)
{
    bool any = false;
    c->fresh = fb_calloc((size_t)c->p->n_launches + 1, sizeof *c->fresh);
    for (int i = 0; i < c->p->n_launches; i++) {
        const fb_launch *l = &c->p->launches[i];
        if (!is_run(l)) continue;
        c->fresh[i] = !is_seen(&b->seen[c->dtype][c->target], fb_program_launch_code(c->p, l));
        any |= c->fresh[i];
    }
    return any;
}

static bool has_convolutions(const fb_machine *m, const fb_graph *g)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (fb_library_convolves(m, g, i, NULL, NULL, NULL)) return true;
    return false;
}

/* Each as a library's call, also where it is so small that a kernel of ours is preferred. */
static fb_plan *convolutions(fb_planner *planner)
{
    const fb_graph *g = fb_planner_graph(planner);
    fb_plan *plan = fb_plan_new(planner);
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (fb_library_convolves(fb_planner_machine(planner), g, i, NULL, NULL, NULL))
            plan = edited(plan, &(fb_edit){.kind = FB_EDIT_LIBRARY, .a = i, .b = FB_NONE});
    return plan;
}

static void add_plan(batch *b, const fb_graph *g, const char *what, int dtype, int target, int number)
{
    fb_error err = {0};
    const char *preset = presets[number];
    const fb_target *written = target ? &fb_target_cuda : &fb_target_c;
    fb_planner *planner = fb_planner_new(g, &b->machine[target]);
    fb_plan *plan = number == ONE_KERNEL     ? one_kernel(planner)
                    : number == CONVOLUTIONS ? convolutions(planner)
                                             : fb_preset_find(preset)->make(planner, &err);
    fb_program *p = !plan                  ? NULL
                    : number == ONE_KERNEL ? fb_lower(plan, written, &err)
                                           : fb_lower_apart(plan, written, &err);
    if (p && number == ONE_KERNEL && merged_kernels(p) != 1) {
        fb_program_free(p);
    } else if (p) {
        score_case c = {.g = g, .p = p, .dtype = dtype, .target = target};
        snprintf(c.what, sizeof c.what, "%.90s:%s", what, preset);
        if (is_new(b, &c)) {
            mutate_program_text(&c);
            for (int k = 0; k < p->n_kernels; k++) b->text[target] += (int64_t)strlen(c.source[k]);
            FB_VEC_PUSH(&b->cases[target], c);
        } else {
            fb_free(c.fresh);
            fb_program_free(p);
        }
    } else {
        find("error: %s:%s: %s", what, preset, err.text);
    }
    if (plan) fb_plan_free(plan);
    fb_planner_free(planner);
}

/* A sanitizer looks at the judge's memory, which plans have in common: for it a part of the sample does. */
#ifdef __SANITIZE_ADDRESS__
enum { SAMPLE_PART = 4 };
#else
enum { SAMPLE_PART = 1 };
#endif

static bool is_chosen(const char *what, int dtype, int target, int number)
{
    char name[256];
    static const uint64_t sample[TARGETS] = {75, 20}; /* a C++ compiler takes much longer for a plan */
    const char *text = getenv("FB_SHARE");
    uint64_t share = text ? strtoull(text, NULL, 10) : full ? 1000 : sample[target] / SAMPLE_PART;
    if (number >= ONE_KERNEL && !text && !full) share *= 4; /* of few scripts */
    const char *only = getenv("FB_TARGET");
    if (only && strcmp(only, target_names[target]) != 0) return false;
    only = getenv("FB_PRESET");
    if (only && strcmp(only, presets[number]) != 0) return false;
    snprintf(name, sizeof name, "%.120s %d %d %s", what, dtype, target, presets[number]);
    return (fb_splitmix64(seed + fb_digest(name, strlen(name))) >> 20) % 1000 < share;
}

static fb_graph *build(fb_script *s, const char *variant, const json_t *set)
{
    fb_script_event e;
    fb_script_build(s, variant, set);
    assert_true(next_event(s, &e, 180000));
    if (e.kind == FB_SCRIPT_GRAPH) return e.graph;
    find("error: %s", e.error.text); /* a busy machine may stop a script */
    return NULL;
}

static void score_variant(batch *b, fb_script *s, const char *script, const char *variant, json_t *set, int dtype)
{
    char what[128];
    fb_graph *g = NULL;
    snprintf(what, sizeof what, "%.60s %.60s", script, variant);
    for (int target = 0; target < TARGETS; target++)
        for (int k = 0; k < PRESETS; k++) {
            if (!is_chosen(what, dtype, target, k)) continue;
            if (b->drawn++ % PROCESSES != b->process) continue;
            if (!g) {
                g = build(s, variant, set);
                if (!g) return;
                FB_VEC_PUSH(&b->graphs, g);
            }
            if (k == ONE_KERNEL && g->n_regions < 2) continue;
            if (k == CONVOLUTIONS && !has_convolutions(&b->machine[target], g)) continue;
            if (k == ONE_KERNEL) flush_target(b, target); /* its stages' names are its own */
            add_plan(b, g, what, dtype, target, k);
            if (k == ONE_KERNEL) flush_target(b, target);
        }
    for (int t = 0; t < TARGETS; t++)
        if (b->text[t] > BATCH_TEXT || b->cases[t].n > BATCH_ITEMS) flush(b);
}

/* Library calls are plain loops here: of scripts that scripts.sh leaves at their own sizes, these are too large for
 * that. */
static void make_smaller(const char *name, json_t *set)
{
    static const struct {
        const char *script, *param;
        int value;
    } small[] = {
        {"attention", "heads", 2},        {"attention", "seq", 19},        {"attention", "head_dim", 8},
        {"mlp_two_layer", "rows", 37},    {"mlp_two_layer", "inputs", 24}, {"mlp_two_layer", "hidden", 20},
        {"mlp_two_layer", "outputs", 12},
    };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (strcmp(small[i].script, name) == 0) json_object_set_new(set, small[i].param, json_integer(small[i].value));
}

static void score_script(batch *b, const char *path)
{
    fb_error err = {0};
    fb_script_event e;
    char name[64], whole[4096];
    script_name(path, name);
    snprintf(whole, sizeof whole, "%s/%s", source_dir(), path);
    json_t *set = reduced(name);
    make_smaller(name, set);
    fb_script *s = fb_script_start(whole, NULL, &err);
    if (!s) fail_msg("%s", err.text);
    assert_true(next_event(s, &e, 60000));
    if (e.kind != FB_SCRIPT_INFO) fail_msg("%s: %s", path, e.error.text);
    bool chooses = has_choice(e.info, "dtype", "f32");
    for (int d = 0; d < DTYPES; d++) {
        if (d && !has_choice(e.info, "dtype", dtype_names[d])) continue;
        if (chooses) json_object_set_new(set, "dtype", json_string(dtype_names[d]));
        for (int v = 0; v < e.info->n_variants; v++) score_variant(b, s, name, e.info->variants[v], set, d);
    }
    fb_script_info_free(e.info);
    fb_script_free(s);
    json_decref(set);
}

/* The host's library convolves, as oneDNN does. */
static void score_share(int process)
{
    static const char *const own[] = {"tests/unit/convolutions.lua", "tests/unit/steps.lua"};
    batch *b = fb_calloc(1, sizeof *b);
    const char *only = getenv("FB_SCRIPT");
    b->process = process;
    fb_machine_default(&b->machine[0], FB_DEVICE_HOST);
    fb_machine_default(&b->machine[1], FB_DEVICE_CUDA);
    b->machine[0].convolution = b->machine[0].gemm[FB_F32];
    for (int i = 0; fb_embedded_files[i].path; i++) {
        const char *path = fb_embedded_files[i].path;
        if (is_bundled(path) && (!only || strstr(path, only))) score_script(b, path);
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!only || strstr(own[i], only)) score_script(b, own[i]);
    flush(b);
    fb_free(b);
}

/* ---- the test ---- */

static void wrong_kernels_are_found(void **state)
{
    (void)state;
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    board = shared_memory(sizeof *board);
    const char *path = getenv("FB_FINDINGS");
    assert_non_null(findings = path ? fopen(path, "a+") : tmpfile());
    pid_t child[PROCESSES];
    bool ended = true;
    for (int i = 0; i < PROCESSES; i++) {
        fflush(NULL);
        child[i] = fork();
        if (child[i]) continue;
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on as if it were the parent */
        score_share(i);
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        waitpid(child[i], &status, 0);
        ended &= status == 0;
    }
    cell all = {0};
    print_findings();
    int bad = print_board(&all, full);
    print_message("# seed %llu: %lld plans, %lld kernels; %lld right ones accused\n", (unsigned long long)seed,
                  (long long)board->plans, (long long)board->kernels, (long long)board->accused);
    assert_true(ended);
    assert_true(all.count > 0);
    assert_int_equal(bad, 0);
    assert_true(1000 * all.caught >= 995 * all.count);
    assert_int_equal(board->accused, 0);
}

/* Two kernels of a program: one number makes one of them wrong, and leaves the other as it is. */
static void numbers_are_of_one_kernel(void **state)
{
    (void)state;
    static const char text[] = "void add_kernel(const fb_kernel_args *args)\n{\n"
                               "    float *restrict y = args->buffers[0];\n    y[0] = x;\n}\n";
    mutant_sites a = {0}, b = {0};
    char *first = mutate_kernel(text, NULL, 0, 0, &a), *second = mutate_kernel(text, NULL, 0, a.n, &b);
    assert_true(a.n > 0 && b.n == a.n);
    for (int i = 0; i < a.n; i++) assert_int_equal(b.at[i].number, a.n + a.at[i].number);
    assert_non_null(strstr(first, "FB_IS(1)"));
    assert_null(strstr(second, "FB_IS(1)"));
    fb_free(first);
    fb_free(second);
    FB_VEC_FREE(&a);
    FB_VEC_FREE(&b);
}

/* The commit, where this is a checkout. */
static uint64_t seed_of_commit(void)
{
    char command[4200], line[64] = "";
    snprintf(command, sizeof command, "git -C '%.4000s' rev-parse HEAD 2>/dev/null", source_dir());
    FILE *f = popen(command, "r");
    if (f && !fgets(line, sizeof line, f)) line[0] = '\0';
    if (f) pclose(f);
    return line[0] ? fb_digest(line, strcspn(line, "\n")) >> 32 : 1;
}

int main(void)
{
    const char *text = getenv("FB_SEED");
    full = getenv("FB_FULL") != NULL;
    /* one thread each: processes are what runs at once, and a forked one has no threads of a library's */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("FB_RACES", "0", 1);
    seed = text ? strtoull(text, NULL, 10) : seed_of_commit();
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_of_one_kernel),
                                       cmocka_unit_test(wrong_kernels_are_found)};
    return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}
