/* Races of emulated kernels (races.h): what is one and what is none, in kernels of a few lines; that generated kernels
 * of all shapes have none; and that they do where a barrier is cut out of their text. */
#include "unit/chain_cases.h"
#include "unit/emulate_cuda.h"
#include "unit/race_patterns.h"
#include "unit/scratch.h"
#include "unit/turn.h"

#include "base/embedded.h"

/* ---- kernels of a few lines ---- */

/* The words are those of race_patterns.h. */
static const struct {
    const char *what, *text;
    int blocks;
    bool at_once, races;
} few_lines[] = {
    {"neighbours behind a barrier", "s[i] = n[i]; __syncthreads(); m[i] = s[63 - i];", 1, false, false},
    {"neighbours without one", "s[i] = n[i]; m[i] = s[63 - i];", 1, false, true},
    {"a second turn behind a barrier",
     "for (int k = 0; k < 2; k++) { s[i] = n[i]; __syncthreads(); m[i] = s[63 - i]; __syncthreads(); }", 1, false,
     false},
    {"a second turn without one", "for (int k = 0; k < 2; k++) { s[i] = n[i]; __syncthreads(); m[i] = s[63 - i]; }", 1,
     false, true},
    {"a warp's lanes", "s[i] = n[i]; __syncwarp(); m[i] = s[i ^ 31];", 1, false, false},
    {"two warps", "s[i] = n[i]; __syncwarp(); m[i] = s[63 - i];", 1, false, true},
    {"a shuffle orders no memory", "s[i] = n[i]; m[i] = __shfl_xor_sync(~0u, n[i], 1) + s[i ^ 31];", 1, false, true},
    {"a shuffle behind a read, before a write",
     "const int x = s[i ^ 1]; s[i] = __shfl_xor_sync(~0u, x, 1); m[i] = s[i];", 1, false, false},
    {"reads of threads beyond the last row",
     "const shim::beyond b(i != 3); const int x = m[3]; if (i == 3) m[3] = x + 1; else m[64 + i] = x;", 1, false,
     false},
    {"reads of other threads", "const int x = m[3]; if (i == 3) m[3] = x + 1; else m[64 + i] = x;", 1, false, true},
    {"half of a block meets", "if (i < 32) { s[i] = n[i]; shim::barrier_of(1, 32); m[i] = s[31 - i]; }", 1, false,
     false},
    {"the wrong half of a block meets",
     "s[i] = n[i]; if (i < 32) shim::barrier_of(1, 32); if (i < 32) m[i] = s[63 - i];", 1, false, true},
    {"warps that have met unequally often before",
     "if (i < 32) { shim::barrier_of(1, 32); shim::barrier_of(1, 32); } s[i] = n[i]; shim::barrier_of(2, 64); "
     "m[i] = s[63 - i];",
     1, false, false},
    {"warps of which one has met, and not the other",
     "if (i < 32) { shim::barrier_of(1, 32); shim::barrier_of(1, 32); } s[i] = n[i]; m[i] = s[63 - i];", 1, false,
     true},
    {"neighbouring bytes", "bytes[i] = (char)n[i];", 1, false, false},
    {"a word over a neighbour's byte", "bytes[i] = 1; if (i == 5) *(int *)(bytes + 4) = 0;", 1, false, true},
    {"blocks on their own", "m[64 * blockIdx.x + i] = n[i];", 2, false, false},
    {"blocks that write the same", "m[i] = n[i];", 2, false, true},
    {"a block that reads another's", "m[64 * blockIdx.x + i] = n[i]; if (blockIdx.x) m[128 + i] = m[i];", 2, false,
     true},
    {"shared memory is a block's own", "s[i] = n[i]; dynamic[i] = n[i];", 2, false, false},
    {"the last block, behind fences",
     "m[64 * blockIdx.x + i] = n[i]; __threadfence(); __syncthreads(); if (i == 0) s[0] = atomicAdd(count, 1u); "
     "__syncthreads(); if (s[0] == 1) { __threadfence(); m[128 + i] = m[i] + m[64 + i]; }",
     2, false, false},
    {"the last block, its first fence missing",
     "m[64 * blockIdx.x + i] = n[i]; __syncthreads(); if (i == 0) s[0] = atomicAdd(count, 1u); "
     "__syncthreads(); if (s[0] == 1) { __threadfence(); m[128 + i] = m[i] + m[64 + i]; }",
     2, false, true},
    {"the last block, its second fence missing",
     "m[64 * blockIdx.x + i] = n[i]; __threadfence(); __syncthreads(); if (i == 0) s[0] = atomicAdd(count, 1u); "
     "__syncthreads(); if (s[0] == 1) m[128 + i] = m[i] + m[64 + i];",
     2, false, true},
    {"the last block, its threads not waited for",
     "m[64 * blockIdx.x + i] = n[i]; __threadfence(); if (i == 0) s[0] = atomicAdd(count, 1u); "
     "__syncthreads(); if (s[0] == 1) { __threadfence(); m[128 + i] = m[i] + m[64 + i]; }",
     2, false, true},
    {"atomics alone", "atomicAdd(count, 1u);", 2, false, false},
    {"a copy that was waited for",
     "if (i < 16) fb_copy_16(dynamic + 4 * i, n + 4 * i); fb_copies_mark(); fb_copies_wait<0>(); __syncthreads(); "
     "m[i] = dynamic[i];",
     1, false, false},
    {"a copy that was not waited for",
     "if (i < 16) fb_copy_16(dynamic + 4 * i, n + 4 * i); fb_copies_mark(); __syncthreads(); m[i] = dynamic[i];", 1,
     false, true},
    {"a copy that others did not wait for",
     "if (i < 16) fb_copy_16(dynamic + 4 * i, n + 4 * i); fb_copies_mark(); fb_copies_wait<0>(); m[i] = dynamic[i];", 1,
     false, true},
    {"a newer copy",
     "if (i < 16) fb_copy_16(dynamic + 4 * i, n + 4 * i); fb_copies_mark(); "
     "if (i < 16) fb_copy_16(dynamic + 64 + 4 * i, n + 4 * i); fb_copies_mark(); fb_copies_wait<1>(); __syncthreads(); "
     "m[i] = dynamic[64 + i]; fb_copies_wait<0>();",
     1, false, true},
    {"the grid meets",
     "m[64 * blockIdx.x + i] = n[i]; fb_meet_all(); m[128 + 64 * blockIdx.x + i] = m[64 - 64 * blockIdx.x + i];", 2,
     true, false},
    {"the grid does not meet",
     "m[64 * blockIdx.x + i] = n[i]; __syncthreads(); m[128 + 64 * blockIdx.x + i] = m[64 - 64 * blockIdx.x + i];", 2,
     true, true},
    {"shared memory of blocks that are there at once",
     "s[i] = blockIdx.x; fb_meet_all(); m[64 * blockIdx.x + i] = s[i];", 2, true, false},
};

enum { FEW = sizeof few_lines / sizeof *few_lines };

/* Kernel k of `u`: those few lines. */
static void add_few(unit *u, int k, const char *text, int blocks, bool at_once)
{
    char name[32];
    snprintf(name, sizeof name, "few_%d", k);
    fb_str_addf(&u->text,
                "static void %s(const int *n, int *m, char *bytes, unsigned *count)\n{\n    __shared__ int s[64];\n"
                "    int *const dynamic = (int *)shim::shared;\n    const int i = threadIdx.x;\n    %s\n}\n"
                "extern \"C\" void p0_k%d(void *const **args)\n",
                name, text, k);
    add_launch(&u->text,
               &(fb_kernel){.entry = name,
                            .grid = {blocks, 1, 1},
                            .block = {64, 1, 1},
                            .needs = {.meets = at_once ? FB_MEETS_GRID : FB_MEETS_NOBODY},
                            .dynamic_shared = 1024},
               name);
}

static void begin_few(unit *u)
{
    add_beginning(&u->text);
    add_without(&u->text, fb_embedded("kernels/tile.cuh"), "// ---- PTX ----", "// ---- end of PTX ----");
}

/* What is found when kernel k runs; the caller frees it. */
static char *run_few(unit *u, int k)
{
    _Alignas(16) int memory[64 + 256 + 64 + 64] = {0};
    void *args[] = {memory, memory + 64, memory + 64 + 256, memory + 64 + 256 + 64};
    static const char *const names[] = {"n", "m", "bytes", "count"};
    static const size_t sizes[] = {256, 1024, 256, 256};
    for (int i = 0; i < 64; i++) memory[i] = (7 * i + 3) % 64;
    u->watch->forget();
    for (int a = 0; a < 4; a++) u->watch->name(names[a], args[a], sizes[a]);
    unit_entry(u, 0, k)(&(kernel_args){.buffers = args, .last = 1});
    return u->watch->found();
}

static void races_are_told_from_order(void **state)
{
    (void)state;
    if (!emulation_exists() || !races_wanted()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    unit u = {0};
    begin_few(&u);
    for (int k = 0; k < FEW; k++) add_few(&u, k, few_lines[k].text, few_lines[k].blocks, few_lines[k].at_once);
    unit_emulate(&u);
    for (int k = 0; k < FEW; k++) {
        char *found = run_few(&u, k);
        if (few_lines[k].races != (found != NULL)) fail_msg("%s: %s", few_lines[k].what, found ? found : "no race");
        if (found && !strstr(found, few_lines[k].at_once || few_lines[k].blocks > 1 ? " block 1 " : " block 0 "))
            fail_msg("%s: %s", few_lines[k].what, found);
        fb_free(found);
    }
    unit_free(&u);
}

/* ---- the patterns of others ---- */

/* Prints the table of tests/README.md. */
static void patterns_of_others_are_told(void **state)
{
    (void)state;
    if (!emulation_exists() || !races_wanted()) skip();
    unit u = {0};
    begin_few(&u);
    fb_str_add(&u.text, race_pattern_words);
    for (int k = 0; k < RACE_PATTERNS; k++)
        add_few(&u, k, race_patterns[k].text, race_patterns[k].blocks, race_patterns[k].at_once);
    unit_emulate(&u);
    fb_str wrong = {0};
    int n[3] = {0}, found[3] = {0};
    for (int k = 0, first = 0; k < RACE_PATTERNS; k++) {
        const race_pattern *p = &race_patterns[k];
        char *said = run_few(&u, k);
        n[p->races]++;
        found[p->races] += said != NULL;
        if ((p->races == RACES) != (said != NULL))
            fb_str_addf(&wrong, "%s, %s: %s\n", p->kind, p->what, said ? said : "no race");
        fb_free(said);
        if (k + 1 < RACE_PATTERNS && !strcmp(p->kind, race_patterns[k + 1].kind)) continue;
        int of[3] = {0};
        for (; first <= k; first++) of[race_patterns[first].races]++;
        print_message("# %-34s %2d racy, %2d clean\n", p->kind, of[RACES] + of[UNSEEN], of[ALONE]);
    }
    const int racy = n[RACES] + n[UNSEEN], told = found[RACES] + found[UNSEEN];
    print_message("# in all: %d of %d racy ones found, %d of %d clean ones accused\n", told, racy, found[ALONE],
                  n[ALONE]);
    assert_true(told * 100 >= racy * 95);
    if (wrong.n) fail_msg("%s", wrong.text);
    fb_str_free(&wrong);
    unit_free(&u);
}

/* Also where the kernel was compiled by an earlier test: its text lies in another folder then. */
static void a_race_is_told_with_its_lines(void **state)
{
    (void)state;
    if (!emulation_exists() || !races_wanted()) skip();
    const char *was = getenv("FB_TEST_COMPILED");
    char *before = was ? fb_strdup(was) : NULL;
    setenv("FB_TEST_COMPILED", scratch, 1);
    for (int turn = 0; turn < 2; turn++) {
        unit u = {0};
        begin_few(&u);
        add_few(&u, 0, "s[i] = n[i] + 4711; m[i] = s[63 - i];", 1, false);
        unit_emulate(&u);
        char *said = run_few(&u, 0);
        if (!said || !strstr(said, "`s[i] = n[i] + 4711; m[i] = s[63 - i];`"))
            fail_msg("turn %d: %s", turn, said ? said : "no race");
        fb_free(said);
        unit_free(&u);
    }
    if (before)
        setenv("FB_TEST_COMPILED", before, 1);
    else
        unsetenv("FB_TEST_COMPILED");
    fb_free(before);
}

/* ---- generated kernels ---- */

static fb_id reduced(fb_graph *g, fb_op op, int axis, fb_id x)
{
    return NODE(g, op, NULL, &((fb_attrs){.n_axes = 1, .axes = {axis}, .keepdim = true}), x);
}

static fb_graph *sum_of(int64_t rows, int64_t columns, int axis, fb_op op)
{
    fb_graph *g = fb_graph_new("sum");
    return with_output(g, reduced(g, op, axis, source(g, FB_OP_INPUT, "x", SHAPE(rows, columns), FB_F32)));
}

/* Its mean and its variance. */
static fb_graph *columns(void)
{
    fb_graph *g = fb_graph_new("columns");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(900, 40), FB_F32);
    fb_id centred = NODE(g, FB_OP_SUB, NULL, NULL, x, reduced(g, FB_OP_MEAN, 0, x));
    fb_id squares = NODE(g, FB_OP_MUL, NULL, NULL, centred, centred);
    return with_output(g, NODE(g, FB_OP_MUL, NULL, NULL, centred, reduced(g, FB_OP_MEAN, 0, squares)));
}

/* Columns of 16 bits, of which a thread takes eight at once; what is summed is stored, too. */
static fb_graph *columns_each(void)
{
    fb_graph *g = fb_graph_new("columns");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(1024, 64), FB_BF16);
    fb_id y = NODE(g, FB_OP_RELU, NULL, NULL, x);
    fb_error err;
    assert_true(fb_graph_output(g, y, "y", &err));
    assert_true(fb_graph_output(g, reduced(g, FB_OP_SUM, 0, NODE(g, FB_OP_MUL, NULL, NULL, y, y)), "squares", &err));
    return with_output(g, reduced(g, FB_OP_MEAN, 0, y));
}

/* A matrix of 16 bits turned, by squares whose elements move by fours. */
static fb_graph *turned_by_fours(void)
{
    fb_graph *g = fb_graph_new("turned");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(832, 640), FB_F16);
    return with_output(g, NODE(g, FB_OP_NEG, "neg", NULL,
                               NODE(g, FB_OP_PERMUTE, NULL, &((fb_attrs){.n_axes = 2, .axes = {1, 0}}), x)));
}

/* Products of which whole rows are needed, two blocks a multiprocessor. */
static fb_graph *whole_rows(void)
{
    fb_graph *g = fb_graph_new("rows");
    fb_id a = source(g, FB_OP_INPUT, "a", SHAPE(100, 40), FB_BF16),
          b = source(g, FB_OP_PARAM, "b", SHAPE(40, 512), FB_BF16);
    return with_output(g, softmax(g, NODE(g, FB_OP_MATMUL, "product", NULL, a, b)));
}

/* A head's product that is stored token by token, and read as one matrix. */
static fb_graph *stored_as_read(void)
{
    fb_graph *g = fb_graph_new("heads");
    fb_id made = source(g, FB_OP_INPUT, "made", SHAPE(2, 32, 96), FB_F16),
          weights = source(g, FB_OP_INPUT, "weights", SHAPE(2, 3, 32, 32), FB_F16);
    fb_id apart = NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = SHAPE(2, 32, 2, 3, 16)}), made);
    fb_id turned = NODE(g, FB_OP_PERMUTE, NULL, &((fb_attrs){.n_axes = 5, .axes = {2, 0, 3, 1, 4}}), apart);
    fb_id one = NODE(g, FB_OP_SLICE, NULL, &((fb_attrs){.dim = 0, .start = 1, .stop = 2, .step = 1}), turned);
    fb_id values = NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = SHAPE(2, 3, 32, 16)}), one);
    fb_id product = NODE(g, FB_OP_MATMUL, NULL, NULL, weights, values);
    fb_id tokens = NODE(g, FB_OP_PERMUTE, NULL, &((fb_attrs){.n_axes = 4, .axes = {0, 2, 1, 3}}), product);
    fb_id flat = NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = SHAPE(64, 48)}), tokens);
    fb_id w = source(g, FB_OP_PARAM, "w", SHAPE(48, 32), FB_F16);
    return with_output(g, NODE(g, FB_OP_MATMUL, NULL, NULL, flat, w));
}

static fb_graph *columns_arg(void)
{
    return sum_of(900, 40, 0, FB_OP_ARGMAX);
}
static fb_graph *rows_arg(void)
{
    return sum_of(3, 2000, 1, FB_OP_ARGMAX);
}
static fb_graph *split_rows(void)
{
    return sum_of(2, 70000, 1, FB_OP_SUM);
}

static fb_graph *softmax_of_rows(void)
{
    fb_graph *g = fb_graph_new("softmax");
    return with_output(g, softmax(g, source(g, FB_OP_INPUT, "x", SHAPE(5, 1500), FB_F16)));
}

static fb_graph *layer_norm_of_rows(void)
{
    fb_graph *g = fb_graph_new("layer_norm");
    return with_output(g, layer_norm(g, source(g, FB_OP_INPUT, "x", SHAPE(5, 1500), FB_F32)));
}

/* What goes by whole rows along dim. */
static fb_graph *of_rows(const char *title, fb_op op, fb_shape shape, int dim)
{
    fb_graph *g = fb_graph_new(title);
    fb_id x = source(g, FB_OP_INPUT, "x", shape, FB_F32);
    return with_output(g, NODE(g, op, NULL, &((fb_attrs){.dim = dim}), x));
}

static fb_graph *running_sum(void)
{
    return of_rows("cumsum", FB_OP_CUMSUM, SHAPE(9, 70), 1);
}

/* Teams of several warps, which hand each other what they have, twice. */
static fb_graph *running_product(void)
{
    return of_rows("cumprod", FB_OP_CUMPROD, SHAPE(2, 2500), 1);
}

/* Rows side by side: a warp has a lane of each. */
static fb_graph *running_columns(void)
{
    return of_rows("cumsum", FB_OP_CUMSUM, SHAPE(300, 35), 0);
}

static fb_graph *ranked(void)
{
    return of_rows("rank", FB_OP_RANK, SHAPE(3, 512), 1);
}

/* … by several blocks a row, which go through all of it. */
static fb_graph *ranked_apart(void)
{
    return of_rows("rank", FB_OP_RANK, SHAPE(2, 2500), 1);
}

/* Three chunks of the index, the last not whole; the second block owns a part of a row at either end. */
static fb_graph *scattered(void)
{
    fb_graph *g = fb_graph_new("index_add");
    fb_attrs places = {.dtype = FB_I64, .shape = SHAPE(5000), .dist = FB_DIST_INTEGER, .high = 37};
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(5000, 12), FB_F32), at = node(g, FB_OP_INPUT, "at", &places, 0, NULL);
    return with_output(g, NODE(g, FB_OP_SCATTER_ADD, NULL, &((fb_attrs){.start = 37}), x, at));
}

/* What is made of an index_add of 2600 points: a list a block, of rows of very many points; or of one row of them all,
 * for which there is no room in a list. */
static fb_graph *made_of_added(int64_t rows, double high)
{
    fb_graph *g = fb_graph_new("index_add");
    fb_attrs places = {.dtype = FB_I64, .shape = SHAPE(2600), .dist = FB_DIST_INTEGER, .high = high};
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(2600, 12), FB_F32), at = node(g, FB_OP_INPUT, "at", &places, 0, NULL);
    fb_id sum = NODE(g, FB_OP_SCATTER_ADD, NULL, &((fb_attrs){.start = rows}), x, at);
    return with_output(g, NODE(g, FB_OP_TANH, NULL, NULL, sum));
}

static fb_graph *sorted(void)
{
    return made_of_added(370, 37);
}
static fb_graph *crowded(void)
{
    return made_of_added(600, 1);
}

static fb_graph *added_near(void)
{
    return made_of_added(40, 41);
}

static fb_graph *added_in_place(void)
{
    fb_graph *g = fb_graph_new("index_add");
    fb_attrs places = {.dtype = FB_I64, .shape = SHAPE(2600), .dist = FB_DIST_INTEGER, .high = 300};
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(2600, 12), FB_F32), at = node(g, FB_OP_INPUT, "at", &places, 0, NULL);
    return with_output(g, NODE(g, FB_OP_SCATTER_ADD, NULL, &((fb_attrs){.start = 370}), x, at));
}

/* Rows are named twice, or not at all, or lie outside. */
static fb_graph *updated(void)
{
    fb_graph *g = fb_graph_new("update");
    fb_attrs places = {.dtype = FB_I64, .shape = SHAPE(20, 20), .dist = FB_DIST_INTEGER, .value = -50, .high = 650};
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(20, 20, 3, 7), FB_F32),
          at = node(g, FB_OP_INPUT, "at", &places, 0, NULL);
    fb_id p = source(g, FB_OP_PARAM, "p", SHAPE(600, 3, 7), FB_F32);
    fb_id sum = NODE(g, FB_OP_SCATTER_ADD, NULL, &((fb_attrs){.start = 600}), x, at);
    fb_id rate = node(g, FB_OP_CONST, NULL, &(fb_attrs){.dtype = FB_F32, .value = 0.1}, 0, NULL);
    fb_id step = NODE(g, FB_OP_MUL, NULL, NULL, rate, sum);
    NODE(g, FB_OP_ASSIGN, NULL, NULL, p, NODE(g, FB_OP_SUB, NULL, NULL, p, step));
    return finished(g);
}

static fb_graph *product(void)
{
    fb_graph *g = fb_graph_new("product");
    fb_id a = source(g, FB_OP_INPUT, "a", SHAPE(40, 72), FB_F16),
          b = source(g, FB_OP_PARAM, "b", SHAPE(72, 48), FB_F16);
    return with_output(g, NODE(g, FB_OP_RELU, "r", NULL, NODE(g, FB_OP_MATMUL, "product", NULL, a, b)));
}

/* Few sums over many rows: a cluster's blocks have a part of each, and take each other's. */
static fb_graph *gradient(void)
{
    fb_graph *g = fb_graph_new("gradient");
    fb_id a = source(g, FB_OP_INPUT, "a", SHAPE(60, 600), FB_F32),
          b = source(g, FB_OP_PARAM, "b", SHAPE(600, 50), FB_F32);
    return with_output(g, NODE(g, FB_OP_RELU, "r", NULL, NODE(g, FB_OP_MATMUL, "product", NULL, a, b)));
}

static fb_graph *whole_chain(void)
{
    return mlp(0, 70, 40, 100, 72, FB_BF16);
}
static fb_graph *tiled_chain(void)
{
    return attention(1, 63, 129, 33, CAUSAL, FB_F16);
}

static fb_graph *attended(void)
{
    return attention(1, 100, 600, 32, NO_MASK, FB_BF16);
}

/* More steps of k than stages; rows that are no whole number of steps apart. */
static fb_graph *wide_product(void)
{
    fb_graph *g = fb_graph_new("wide");
    fb_id all = source(g, FB_OP_INPUT, "a", SHAPE(2, 70, 400), FB_BF16),
          b = source(g, FB_OP_PARAM, "b", SHAPE(400, 136), FB_BF16);
    fb_id some = NODE(g, FB_OP_SLICE, "some", &((fb_attrs){.dim = 1, .start = 0, .stop = 65, .step = 1}), all);
    fb_id a = NODE(g, FB_OP_VIEW, "rows", &((fb_attrs){.shape = SHAPE(130, 400)}), some);
    return with_output(g, NODE(g, FB_OP_RELU, "r", NULL, NODE(g, FB_OP_MATMUL, "mixed", NULL, a, b)));
}

/* Tiles for one pair of blocks, several each, of more steps than stages; `columns` by lines of eight, or not. */
static fb_graph *paired_product_of(int64_t rows, int64_t columns)
{
    fb_graph *g = fb_graph_new("pair");
    fb_id a = source(g, FB_OP_INPUT, "a", SHAPE(rows, 968), FB_BF16),
          b = source(g, FB_OP_PARAM, "b", SHAPE(columns, 968), FB_BF16);
    fb_id turned = NODE(g, FB_OP_PERMUTE, "turned", &((fb_attrs){.n_axes = 2, .axes = {1, 0}}), b);
    return with_output(g, NODE(g, FB_OP_RELU, "r", NULL, NODE(g, FB_OP_MATMUL, "mixed", NULL, a, turned)));
}

static fb_graph *paired_product(void)
{
    return paired_product_of(200, 264);
}

/* One tile, whose steps a cluster's blocks share. */
static fb_graph *shared_product(void)
{
    return paired_product_of(60, 72);
}

static fb_graph *paired_product_by_parts(void)
{
    return paired_product_of(200, 259);
}

enum { ATOMICS = -1 };
static const struct {
    const char *name;
    fb_graph *(*make)(void);
    const char *has; /* what it is about, in its text */
    int stages;      /* knob; 0: as it comes */
    int units;       /* multiprocessors; 0: a device's */
    int parts;       /* knob; 0: as it comes; ATOMICS: that one */
} cases[] = {
    {"columns", columns, "fb_columns<", 0, 0, 0},
    {"columns, arg", columns_arg, "fb_columns_arg<", 0, 0, 0},
    {"rows, arg", rows_arg, "fb_block_arg<", 0, 0, 0},
    {"split rows", split_rows, "atomicAdd", 0, 0, 0},
    {"layer norm", layer_norm_of_rows, "fb_block<", 0, 0, 0},
    {"cumsum", running_sum, "for (", 0, 0, 0},
    {"index_add", scattered, "fb_vote<8, 256>", 0, 0, 0},
    {"product", product, "fb_gemm<", 0, 0, 0},
    {"whole chain", whole_chain, "fb_chain_whole<", 0, 0, 0},
    {"tiled chain", tiled_chain, "fb_chain<", 0, 0, 0},
    {"tiled chain, one stage", tiled_chain, "fb_chain<", 1, 0, 0},
    {"softmax", softmax_of_rows, "fb_block<", 0, 0, 0},
    {"index_add, sorted", sorted, "fb_sorted<256, 12, 4, true, ", 0, 0, 0},
    {"index_add, crowded", crowded, "fb_sorted<256, 12, 4, true, ", 0, 0, 0},
    {"rows updated in place", updated, "fb_sorted<256, 21, 4, false, ", 0, 0, 0},
    {"attention by warpgroups", attended, "fb_attention<", 0, 0, 0},
    {"rank", ranked, "fb_ranked_row<128, 128, 512, 0>", 0, 0, 0},
    {"columns, several at once", columns_each, "fb_columns_each<fb_plus, 16>", 0, 0, 0},
    {"whole rows, two blocks", whole_rows, "__launch_bounds__(512, 2)", 0, 2, 0},
    {"stored as it is read", stored_as_read, "fb_gemm<", 0, 0, 0},
    {"product in a cluster's parts", gradient, "combine_near<", 0, 0, 0},
    {"cumprod by teams", running_product, "fb_scan_team<fb_times, ", 0, 0, 0},
    {"rank, several blocks a row", ranked_apart, "fb_ranked<1024, 1024>", 0, 0, 0},
    {"cumsum of columns", running_columns, "fb_scan_columns<fb_plus, ", 0, 0, 0},
    {"index_add, a shared index", sorted, "fb_sorted_together<512, 12, 4, true, ", 0, 0, 3},
    {"index_add, atomics", sorted, "fb_added<false, false, 256, 12, 4, ", 0, 2, ATOMICS},
    {"index_add, atomics in place", added_in_place, "fb_added_in_place<false, 256, 12, 4, ", 0, 2, ATOMICS},
    {"index_add, atomics near", added_near, "fb_added<true, false, 1024, 12, 4, ", 0, 1, ATOMICS},
    {"product by warpgroups", wide_product, "fb_gemm_wide<", 0, 0, 0},
    {"product by tensor maps", paired_product, "fb_gemm_tma<", 0, 2, 0},
    {"product by tensor maps, in parts", paired_product_by_parts, "fb_tile::each<1>(", 0, 2, 0},
    {"squares by fours", turned_by_fours, "[64][66]", 0, 0, 0},
    {"product by tensor maps, shared", shared_product, "fb_tile::combine(", 0, 0, 0},
};

enum { CASES = sizeof cases / sizeof *cases };

static fb_program *lowered(int c, fb_graph *g)
{
    fb_machine m;
    fb_error err;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    if (cases[c].units) m.units = cases[c].units;
    fb_planner *planner = fb_planner_new(g, &m);
    fb_plan *plan = fb_preset_find("max")->make(planner, &err);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_plan *next = NULL;
        if (g->nodes[i].op != FB_OP_MATMUL) continue;
        fb_edit made = {.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE},
                knob = {.kind = FB_EDIT_KNOB, .a = i, .knob = FB_KNOB_STAGES, .value = cases[c].stages};
        fb_plan_try(plan, cases[c].stages ? &knob : &made, &next);
        if (!next) continue;
        fb_plan_free(plan);
        plan = next;
    }
    if (cases[c].parts > 0) plan = with_knob_of(plan, g->outputs[0], FB_KNOB_PARTS, cases[c].parts);
    if (cases[c].parts == ATOMICS) plan = with_knob_of(plan, g->outputs[0], FB_KNOB_ATOMICS, 1);
    if (cases[c].make == attended || strstr(cases[c].has, "fb_gemm_wide") || strstr(cases[c].name, "tensor maps"))
        plan = with_tile_k(plan, g, "mixed", 64);
    if (cases[c].make == shared_product) plan = with_knob_of(plan, fb_graph_find(g, "mixed"), FB_KNOB_SPLIT_K, 2);
    fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
    if (!p) fail_msg("%s: %s", cases[c].name, err.text);
    bool has = false;
    for (int k = 0; k < p->n_kernels; k++) has |= strstr(p->kernels[k].source, cases[c].has) != NULL;
    if (!has) fail_msg("%s: no %s in\n%s", cases[c].name, cases[c].has, p->kernels[0].source);
    fb_plan_free(plan);
    fb_planner_free(planner);
    return p;
}

static void generated_kernels_have_none(void **state)
{
    (void)state;
    if (!emulation_exists()) skip();
    unit u = {0};
    fb_graph *graphs[CASES];
    fb_program *programs[CASES];
    for (int c = 0; c < CASES; c++) {
        graphs[c] = cases[c].make();
        programs[c] = lowered(c, graphs[c]);
        unit_add_cuda(&u, programs[c]);
    }
    unit_emulate(&u);
    for (int c = 0; c < CASES; c++) {
        char text[512];
        if (!runs_right(&u, c, programs[c], graphs[c], text)) fail_msg("%s: %s", cases[c].name, text);
        fb_program_free(programs[c]);
        fb_graph_free(graphs[c]);
    }
    unit_free(&u);
}

/* ---- barriers cut out ---- */

static const struct {
    int graph;               /* of the cases */
    const char *text, *from; /* `from` is cut out where it follows `text` first */
} cuts[] = {
    {0, "FB_DEVICE T fb_columns(T x)", "fb_meet<32 * ROWS>();"},
    {0, "fb_parts[threadIdx.x / 32][threadIdx.x % 32] = x;", "fb_meet<32 * ROWS>();"},
    {3, "if (threadIdx.x == 0) {", "__threadfence();"},
    {4, "x = fb_team<OP, 32>(x);", "fb_meet<THREADS>();"},
    {6, "fb_chunk += 2048)", "fb_meet<256>();"},
    {6, "fb_vote<8, 256>(fb_words, fb_here);", "fb_meet<256>();"},
    {7, "if (group == GROUPS - 1) {", "fb_meet<THREADS>();"},
    {7, "fb_store(at, group);", "fb_meet<THREADS>();"},
    {10, "for (int t = 0; t < TILES; t++) {", "if (t) __syncthreads();"},
    {12, "if (threadIdx.x == 0) room.count = 0;", "fb_meet<THREADS>();"},
    {16, "room.keys[first + 32 * e] = key[e];", "fb_ranked_meet<TEAM>();"},
    {16, "if (apart >= 32 * EACH) ", "fb_ranked_meet<TEAM>();"},
    {16, "room.ranks[(unsigned)key[e]] = first + 32 * e;", "fb_ranked_meet<TEAM>();"},
    {14, "place[k] += __shfl_xor_sync(0xffffffffu, place[k], step);", "fb_meet<THREADS>();"},
    {12, "+ place[k]] = key[k];", "fb_meet<THREADS>();"},
    {24, "begins[i * BLOCKS + block] = ", "fb_meet<THREADS>();"},
    {24, "(room, block, (AT)POINTS, row_at, keys, begins);", "fb_sorted_meet(arrivals, block, BLOCKS)"},
    {25, "fb_add_atomically(sums[row * GROUPS + group].at, values);", "fb_sorted_meet(arrivals, block, BLOCKS)"},
    {26, "FB_DEVICE void fb_added_in_place(", "fb_sorted_meet(arrivals, block, BLOCKS)"},
    {27, "near[0][i] = 0;", "fb_meet<THREADS>();"},
    {27, "fb_add_one(&near[row * EACH + v][group], values.at[v]);", "fb_meet<THREADS>();"},
    {12, "parts[threadIdx.x] = sums.at[v];", "fb_meet<THREADS>();"},
    {12, "room.named[i] = 0;", "fb_meet<THREADS>();"},
    {15, "FB_DEVICE void await(", "fb_count_wait(count"},
    {15, "if (behind < TILES) {", "fb_count_wait(&c->v_empty"},
    {17, "fb_shuffle(sums[v], mask));", "fb_meet<32 * ROWS>();"},
    {17, "fb_parts[threadIdx.x / 32][threadIdx.x % 32 * EACH + v] = sums[v];", "fb_meet<32 * ROWS>();"},
    {20, "GROUPS = ROWS * N / PIECE;", "fb_cluster_meet();"},
    {20, "fb_store(at, total);", "fb_meet<THREADS>();"},
    {21, "FB_DEVICE T fb_scan_team(", "fb_meet<TEAM>();"},
    {21, "if (lane == 0) fb_parts[threadIdx.x / 32] = all;", "fb_meet<TEAM>();"},
    {22, "room.orders[i] = (unsigned)(room.keys[i] >> 32);", "fb_meet<THREADS>();"},
    {22, "halves, key[v]) : before[v]], 1u);", "fb_meet<THREADS>();"},
    {22, ": (unsigned)(before + rank[e]);", "fb_meet<THREADS>();"},
    {23, "[threadIdx.x / 32][threadIdx.x % 32] = own;", "fb_meet<32 * TEAM>();"},
    {23, "fb_whole[row] = whole;", "fb_meet<32 * TEAM>();"},
    {28, "fb_pack<float, 2>{sums[i], sums[i + 1]});", "fb_meet<THREADS>();"},
    {29, "if (s > first) done(c, s - 1);", "fb_wide_wait<0>();"},
    {30, "row = threadIdx.x / 32 * 16 + (lane >> 2);", "__syncwarp();"},
    {31, "turned_x_2[j - along][i - across] = ", "fb_meet<256>();"},
    {30, "sums_of[(s * OWN + part * PART) / 2 + i + 1]});", "__syncwarp();"},
    {32, "place = reinterpret_cast<float *>(stage(shared, 0))", "fb_stage_wait("},
};

/* With FB_TURN (turn.h) a third of them is run. */
static void barriers_that_are_missing_are_found(void **state)
{
    (void)state;
    if (!emulation_exists() || !races_wanted()) skip();
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        fb_graph *g = cases[cuts[i].graph].make();
        fb_program *p = lowered(cuts[i].graph, g);
        if (is_our_turn((unsigned)i)) {
            char *found = races_without(p, g, cuts[i].text, cuts[i].from);
            if (!found)
                fail_msg("%s: no race without %s behind %s", cases[cuts[i].graph].name, cuts[i].from, cuts[i].text);
            fb_free(found);
        } else {
            check_cut(p, cuts[i].text, cuts[i].from);
        }
        fb_program_free(p);
        fb_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(races_are_told_from_order),           cmocka_unit_test(patterns_of_others_are_told),
        cmocka_unit_test(a_race_is_told_with_its_lines),       cmocka_unit_test(generated_kernels_have_none),
        cmocka_unit_test(barriers_that_are_missing_are_found),
    };
    return cmocka_run_group_tests_name("races", tests, make_scratch, remove_scratch);
}
