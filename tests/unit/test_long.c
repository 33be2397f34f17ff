/* Long rows in parts, by execution on an emulated GPU whose blocks of a row are there at once: rows that begin
 * anywhere, 16 bits, several inputs, forward and backward; twice, for a launch must find what the one before left. */
#include "unit/emulate_cuda.h"
#include "unit/nest_help.h"
#include "unit/scratch.h"
#include "unit/script_harness.h"

#include "decide/preset.h"
#include "schedule/long.h"
#include "schedule/print.h"

enum { LIMIT_MS = 180000, SCANS = -1, HELD = -2, RANKED = -3, AHEAD = -4, BANDS = 100 };

static const struct {
    const char *body;
    int parts, threads; /* knobs; parts 0: no rows that run along memory; SCANS: running values by teams; HELD: in
                        * registers, though rows lie side by side; BANDS + n: bands of columns in n parts; AHEAD: rows
                        * whose elements are in registers before the first pass */
} cases[] = {
    /* one block: rows that begin anywhere, and no part is full */
    {"return nn.softmax(g:input('x', {5, 83}), 1)", 1, 32},
    /* three, the last one's part shorter */
    {"return nn.softmax(g:input('x', {4, 331}), 1)", 3, 32},
    {"return nn.softmax(g:input('x', {4, 331}, 'bf16'), 1)", 2, 64},
    {"return nn.softmax(g:input('x', {3, 250}, 'f16'), 1)", 4, 32},
    /* more than a cluster */
    {"return nn.softmax(g:input('x', {3, 1401}), 1)", 16, 32},
    /* weights that every row reads, from where no vector begins */
    {"return nn.layer_norm(g:input('x', {3, 203}), {weight = g:param('w', {203}), bias = g:param('b', {203})})", 2, 32},
    {"return nn.layer_norm(g:input('x', {3, 256}), {weight = g:param('w', {256}), bias = g:param('b', {256})})", 2, 32},
    {"local x = g:input('x', {3, 264}, 'bf16')\n"
     "return (x:to('f32') * ((x:to('f32') * x:to('f32')):mean(1, true) + 1e-5):rsqrt() * g:param('w', "
     "{264})):to('bf16')",
     3, 32},
    /* one row: it begins at a vector, and ends within one */
    {"return nn.softmax(g:input('x', {1, 509}), 1)", 4, 32},
    /* the gradient: two inputs are held */
    {"local y, d = g:input('y', {3, 203}), g:input('d', {3, 203})\n"
     "return y * (d - (y * d):sum(1, true))",
     3, 32},
    /* elements of two sizes */
    {"local y, d = g:input('y', {3, 203}, 'bf16'):to('f32'), g:input('d', {3, 203})\n"
     "return y * (d - (y * d):sum(1, true))",
     2, 32},
    /* only a number a row is stored */
    {"local x = g:input('x', {6, 299})\n"
     "local m = x:amax(1, true)\n"
     "return (x - m):exp():sum(1, true):log() + m",
     2, 32},
    /* a slow function that is kept instead of what it is made of; a whole number a row */
    {"return nn.layer_norm(g:input('x', {2, 171}):gelu())", 2, 32},
    /* rows of a larger tensor: windows */
    {"return nn.softmax(g:input('x', {4, 300}):slice(1, 7, 290), 1)", 2, 32},
    {"return nn.softmax(g:input('x', {4, 64, 2}):transpose(1, 2), 2)", 0, 32},
    /* f64: two elements a vector */
    {"return nn.softmax(g:input('x', {3, 77}, 'f64'), 1)", 2, 32},
    /* what is overwritten */
    {"local w = g:param('w', {3, 203})\n"
     "g:assign(w, nn.softmax(w, 1))",
     3, 32},
    /* rows side by side, in registers: by one thread each, by several, two values of each element */
    {"return nn.softmax(g:input('x', {2, 19, 40}), 1)", HELD, 64},
    {"return nn.softmax(g:input('x', {130, 37}, 'bf16'), 0)", HELD, 96},
    {"local x = g:input('x', {3, 21, 50})\n"
     "return (x - x:mean(1, true)):exp():sum(1, true) + x",
     HELD, 64},
    /* what was made of windows, not all that it was made of */
    {"local x = nn.max_pool3d(g:input('x', {2, 20, 4, 4, 16}), 2)\n"
     "local m = x:amax(1, true)\n"
     "return (x - m):exp():sum(1, true):log() + m",
     HELD, 32},
    /* running sums: rows that begin anywhere, whole groups, what follows from them, two at a time */
    {"return g:input('x', {3, 1301}):cumsum(1)", SCANS, 64},
    {"return g:input('x', {3, 2048}, 'bf16'):cumsum(1)", SCANS, 96},
    {"local x = g:input('x', {2, 1100})\n"
     "return (x:exp():cumsum(1) * 0.01 + x):tanh()",
     SCANS, 32},
    {"local x = g:input('x', {2, 1027})\n"
     "return x:cumsum(1) - (x - x:mean(1, true)):cumsum(1)",
     SCANS, 128},
    {"return g:input('x', {2, 1032}):flip(1):cumsum(1)", SCANS, 256},
    {"local x = (g:input('x', {3, 1024}) * 4):to('i32')\n"
     "return x:cumsum(1)",
     SCANS, 64},
    {"return g:input('x', {2, 1024}):cumsum(1):amax(1)", SCANS, 64},
    /* neighbours that do not move as one: what lies beside the row's end, and one that no group fills */
    {"return g:input('x', {3, 1031}):slice(1, 0, 1030):cumsum(1)", SCANS, 64},
    {"return g:input('x', {2, 1025}, 'bf16'):slice(1, 1, 1025):cumsum(1)", SCANS, 128},
    /* running products, the same ways: of factors close to 1, whole numbers that wrap, without the own element, from behind,
     * and beside a running sum */
    {"return (g:input('x', {3, 1301}) * 0.01):exp():cumprod(1)", SCANS, 64},
    {"return (g:input('x', {3, 2048}, 'bf16') * 0.01):exp():cumprod(1)", SCANS, 96},
    {"return (g:input('x', {2, 1025}, 'f16'):slice(1, 1, 1025) * 0.01):exp():cumprod(1)", SCANS, 128},
    {"return g:input('x', {2, 1030}, 'f64'):sin():exp():cumprod(1)", SCANS, 64},
    {"local x = (g:input('x', {3, 1024}) * 4):to('i32')\n"
     "return (x * 2 + 1):cumprod(1)",
     SCANS, 64},
    {"local x = (g:input('x', {3, 1024}) * 4):to('i64')\n"
     "return (x * 2 + 1):cumprod(1)",
     SCANS, 256},
    {"local x = (g:input('x', {3, 1031}) * 0.01):exp()\n"
     "return x:slice(1, 0, 1030):pad({1, 0}, 1):cumprod(1) * x",
     SCANS, 128},
    {"return (g:input('x', {2, 1032}) * 0.01):exp():flip(1):cumprod(1)", SCANS, 256},
    {"local x = (g:input('x', {2, 1100}) * 0.01):exp()\n"
     "return x:cumprod(1) - x:cumsum(1) * 0.01",
     SCANS, 32},
    /* of what is read twice at each of many levels */
    {"local x = g:input('x', {2, 1024})\n"
     "for i = 1, 60 do x = (x + x) * 0.5 end\n"
     "return x:cumsum(1)",
     SCANS, 64},
    /* short ones, several rows a warp; and rows side by side, by as many warps as the knob leaves, in steps that do not fill them */
    {"return g:input('x', {5, 40}):exp():cumsum(1):log()", SCANS, 64},
    {"return g:input('x', {70, 131}):cumsum(1)", SCANS, 0},
    {"return g:input('x', {67, 45}):cumsum(0)", SCANS, 96},
    {"return (g:input('x', {2, 123, 33}, 'bf16') * 0.01):exp():cumprod(1)", SCANS, 64},
    {"local x = g:input('x', {2, 251, 32})\n"
     "return x:cumsum(1):tanh() - (x * x):flip(1):cumsum(1)",
     SCANS, 128},
    {"return (g:input('x', {130, 35}) * 4):to('i64'):cumsum(0)", SCANS, 32},
    {"return nn.layer_norm(g:input('x', {3, 300}):cumsum(1):abs())", SCANS, 0},
    {"return g:input('x', {3, 500, 40}, 'f64'):cumsum(1):amax(1)", SCANS, 0},
    /* ranks: of a block's own row, of rows of several blocks, falling, of whole numbers with many equals, of what is made of a
     * row, and what is made of a rank */
    {"return g:input('x', {3, 300}):rank(1)", RANKED, 0},
    {"return g:input('x', {4, 512}, 'bf16'):rank(1, true)", RANKED, 64},
    {"return g:input('x', {2, 2500}):rank(1)", RANKED, 0},
    {"return g:input('x', {70, 40}):rank(1, true)", RANKED, 0},
    {"return (g:input('x', {2, 3001}) * 4):to('i32'):rank(1, true):to('f32') * 0.5", RANKED, 128},
    {"return g:input('x', {4099}, 'f16'):rank(0)", RANKED, 256},
    {"local x = g:input('x', {2, 260})\n"
     "return (x * x):gt(0.5):to('i32'):rank(1) + g:arange(260)",
     RANKED, 0},
    {"local x = g:input('x', {270, 3})\n"
     "return x:log():transpose(0, 1):rank(1)",
     RANKED, 32},
    /* columns in parts, of which a block has a warp's */
    {"return g:input('x', {1301, 70}):cumsum(0)", 3, 128},
    {"return g:input('x', {2, 1024, 64}, 'bf16'):cumsum(1)", 4, 256},
    {"return (g:input('x', {900, 33}) * 0.01):exp():cumprod(0)", 5, 1024},
    {"local x = g:input('x', {2, 1100, 40}, 'f64') "
     "return (x:cumsum(1) * 0.01 + x):tanh()",
     2, 64},
    /* rows in registers, of several passes: a softmax and its gradient, rows that leave threads of a block without any, odd
     * ones, masked, of two sizes, of whole blocks, what is overwritten, slow functions and weights */
    {"local y, d = nn.softmax(g:input('x', {5, 84}), 1), g:input('d', {5, 84})\n"
     "return y * (d - (y * d):sum(1, true))",
     AHEAD, 0},
    {"local y, d = nn.softmax(g:input('x', {3, 264}, 'bf16'), 1), g:input('d', {3, 264}, 'bf16')\n"
     "return y * (d - (y * d):sum(1, true))",
     AHEAD, 0},
    {"local y, d = nn.softmax(g:input('x', {4, 331}, 'bf16'), 1), g:input('d', {4, 331}, 'bf16')\n"
     "return y * (d - (y * d):sum(1, true))",
     AHEAD, 0},
    {"local i, d = g:arange(280), g:input('d', {2, 280, 280}, 'f16')\n"
     "local y = nn.softmax(g:where(i:unsqueeze(1):ge(i:unsqueeze(0)), g:input('x', {2, 280, 280}, 'f16'), -30000), 2)\n"
     "return y * (d - (y * d):sum(2, true))",
     AHEAD, 0},
    {"local y, d = nn.softmax(g:input('x', {3, 1200}, 'bf16'):to('f32'), 1), g:input('d', {3, 1200})\n"
     "return y * (d - (y * d):sum(1, true))",
     AHEAD, 0},
    {"local y, d = nn.softmax(g:input('x', {1057, 796}), 1), g:input('d', {1057, 796})\n"
     "return y * (d - (y * d):sum(1, true))",
     AHEAD, 0},
    {"local w, d = g:param('w', {11, 100}), g:input('d', {11, 100})\n"
     "local y = nn.softmax(w, 1)\n"
     "g:assign(w, y * (d - (y * d):sum(1, true)))",
     AHEAD, 0},
    {"return nn.softmax(nn.layer_norm(g:input('x', {7, 300}):gelu(), {affine = true}), 1)", AHEAD, 0},
    {"local y, d = nn.softmax(g:input('x', {6, 70}, 'f64'), 1), g:input('d', {6, 70}, 'f64')\n"
     "return y * (d - (y * d):sum(1, true)) + (d * d):sum(1, true)",
     AHEAD, 0},
    /* bands of columns in registers: whole, of 16 bits with the last band not full, one by one, several batches in a band */
    {"return nn.softmax(g:input('x', {40, 64}), 0)", BANDS + 1, 64},
    {"return nn.softmax(g:input('x', {37, 136}, 'bf16'), 0)", BANDS + 1, 64},
    {"return nn.softmax(g:input('x', {45, 37}), 0)", BANDS + 1, 128},
    {"return nn.softmax(g:input('x', {45, 37}, 'bf16'), 0)", BANDS + 1, 128},
    {"return nn.softmax(g:input('x', {3, 29, 20}), 1)", BANDS + 1, 96},
    /* in shared memory, of one block and of clusters; parts that are not full, and one that has nothing */
    {"return nn.softmax(g:input('x', {331, 68}), 0)", BANDS + 1, 32},
    {"return nn.softmax(g:input('x', {331, 68}), 0)", BANDS + 3, 64},
    {"return nn.softmax(g:input('x', {3, 250, 40}, 'bf16'), 1)", BANDS + 2, 64},
    {"return nn.softmax(g:input('x', {25, 64}), 0)", BANDS + 8, 32},
    /* copies of 2, 4 and 8 bytes */
    {"return nn.softmax(g:input('x', {130, 37}, 'bf16'), 0)", BANDS + 4, 32},
    {"return nn.softmax(g:input('x', {130, 37}), 0)", BANDS + 2, 96},
    {"return nn.softmax(g:input('x', {131, 36}, 'f16'), 0)", BANDS + 3, 32},
    {"return nn.softmax(g:input('x', {3, 77, 10}, 'f64'), 1)", BANDS + 2, 32},
    /* what differs along columns alone, and across them alone; of two sizes; what is divided by */
    {"local x, r = g:input('x', {2, 50, 6, 6}, 'bf16'):to('f32'), g:input('r', {2, 50, 6, 6})\n"
     "local m = x:mean(1, true)\n"
     "local c = x - m\n"
     "return c * ((c * c):mean(1, true) + 1e-5):rsqrt() * g:param('w', {50, 1, 1}) + g:param('b', {6, 6}) + r",
     BANDS + 1, 64},
    {"local x = g:input('x', {300, 72})\n"
     "return (x - x:mean(0, true)) / g:param('s', {72}):exp() + g:param('b', {300, 1})",
     BANDS + 2, 64},
    /* a number of each column, by itself and beside elements */
    {"return g:input('x', {515, 40}, 'bf16'):var(0)", BANDS + 3, 32},
    {"local x = g:input('x', {60, 44})\n"
     "local m = x:amax(0, true)\n"
     "return x - m, (x - m):exp():sum(0, true):log() + m + x:mean(0, true)",
     BANDS + 1, 64},
    {"local y, d = g:input('y', {203, 24}, 'bf16'):to('f32'), g:input('d', {203, 24})\n"
     "return y * (d - (y * d):sum(0, true))",
     BANDS + 2, 32},
    {"local x = (g:input('x', {100, 34}) * 9):to('i64')\n"
     "return x - x:amin(0, true) + x:sum(0, true)",
     BANDS + 2, 32},
    /* slow functions that are kept; what is overwritten; columns of a larger tensor */
    {"return nn.layer_norm(g:input('x', {36, 171}):gelu():transpose(0, 1)):transpose(0, 1)", 0, 32},
    {"local x = g:input('x', {171, 36}):gelu()\n"
     "local c = x - x:mean(0, true)\n"
     "return c * ((c * c):mean(0, true) + 1e-5):rsqrt()",
     BANDS + 2, 32},
    {"local w = g:param('w', {203, 20})\n"
     "g:assign(w, nn.softmax(w, 0))",
     BANDS + 3, 32},
    {"local w = g:param('w', {203, 32})\n"
     "g:assign(w, nn.softmax(w, 0))",
     BANDS + 3, 32},
    {"return nn.softmax(g:input('x', {70, 100}):slice(1, 8, 88):slice(0, 3, 60), 0)", BANDS + 2, 32},
    /* channels that come last in what is stored: of 16 bits in words, an odd number, in parts, two of them */
    {"return nn.layer_norm(g:input('x', {2, 52, 6, 8}, 'bf16'):permute(0, 2, 3, 1), {affine = true})", BANDS + 1, 64},
    {"return nn.layer_norm(g:input('x', {3, 45, 50}, 'f16'):transpose(1, 2))", BANDS + 2, 64},
    {"local x = g:input('x', {2, 83, 36}):transpose(1, 2)\n"
     "local y = x - x:mean(2, true)\n"
     "return y:exp(), y * (y * y):sum(2, true)",
     BANDS + 3, 32},
    {"return nn.softmax(g:input('x', {40, 33}, 'f64'):t(), 1)", BANDS + 1, 64},
    /* what is padded; two dimensions along */
    {"return nn.softmax(g:input('x', {65, 48}) + g:input('y', {60, 48}):pad({0, 0, 2, 3}, 0), 0)", BANDS + 1, 64},
    {"local x = g:input('x', {9, 7, 40})\n"
     "return x / (x * x):sum({0, 1}, true):sqrt()",
     BANDS + 1, 64},
};
enum { CASES = sizeof cases / sizeof *cases };

static FILE *begin_script(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("local fb, nn = require 'fusebox', require 'nn'\nreturn fb.script { variants = {\n", f);
    return f;
}

static fb_script *end_script(FILE *f, const char *path)
{
    fputs("} }\n", f);
    assert_int_equal(fclose(f), 0);
    return script_of(path, LIMIT_MS);
}

static fb_script *start(void)
{
    const char *path = in_scratch("script.lua");
    FILE *f = begin_script(path);
    for (int i = 0; i < CASES; i++) fprintf(f, "v%d = function(g)\n%s\nend,\n", i, cases[i].body);
    return end_script(f, path);
}

static fb_graph *build(fb_script *s, int number)
{
    char variant[16];
    fb_script_event e;
    snprintf(variant, sizeof variant, "v%d", number);
    fb_script_build(s, variant, NULL);
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind != FB_SCRIPT_GRAPH) fail_msg("%s: %s", variant, e.error.text);
    return e.graph;
}

static fb_plan *edited(fb_plan *plan, const fb_edit *edit)
{
    fb_plan *next = NULL;
    fb_verdict v = fb_plan_try(plan, edit, &next);
    if (!next) fail_msg("%s", v.text);
    fb_plan_free(plan);
    return next;
}

static fb_plan *cut(fb_planner *planner, int parts, int threads)
{
    fb_error err;
    fb_plan *plan = fb_preset_find("max")->make(planner, &err);
    assert_non_null(plan);
    int n = fb_plan_groups(plan);
    fb_id node = fb_plan_group(plan, n - 1)->nodes[0];
    if (parts >= 0)
        plan = edited(plan,
                      &(fb_edit){.kind = FB_EDIT_KNOB, .a = node, .b = FB_NONE, .knob = FB_KNOB_PARTS, .value = parts});
    return edited(plan,
                  &(fb_edit){.kind = FB_EDIT_KNOB, .a = node, .b = FB_NONE, .knob = FB_KNOB_THREADS, .value = threads});
}

typedef struct {
    fb_graph *g;
    fb_planner *planner;
    fb_plan *plan;
    fb_program *p;
    int number; /* in the unit */
} subject;

static bool is_dealt_so(const char *source, int parts)
{
    const bool cut = strstr(source, "fb_long_") != NULL,
               teams = strstr(source, "fb_team<") || strstr(source, "fb_block<");
    switch (parts) {
    case SCANS: return !cut && strstr(source, "fb_carry_");
    case HELD: return !cut && strstr(source, " fb_row_") && !teams;
    case RANKED: return !cut && strstr(source, "fb_ranked");
    case AHEAD: return strstr(source, "[fb_s] = fb_load<") && teams;
    default: return parts < BANDS ? cut == (parts > 0) : strstr(source, "fb_band") != NULL;
    }
}

static subject subject_of(fb_script *s, int number, const fb_machine *m)
{
    fb_error err;
    subject x = {.g = build(s, number)};
    x.planner = fb_planner_new(x.g, m);
    x.plan = cut(x.planner, cases[number].parts % BANDS, cases[number].threads);
    x.p = fb_lower(x.plan, &fb_target_cuda, &err);
    if (!x.p) fail_msg("%s", err.text);
    const char *source = x.p->kernels[x.p->n_kernels - 1].source;
    if (getenv("FB_KEEP")) print_message("%s\n", source);
    if (!is_dealt_so(source, cases[number].parts)) fail_msg("case %d:\n%s", number, source);
    return x;
}

static void subject_free(subject *x)
{
    fb_program_free(x->p);
    fb_plan_free(x->plan);
    fb_planner_free(x->planner);
    fb_graph_free(x->g);
}

static void check(const unit *u, const subject *x, int number)
{
    fb_error err;
    fb_interp *reference = fb_interp_run(x->g, &(fb_interp_options){.seed = 3, .bounds = true}, NULL, 0, &err);
    if (!reference) fail_msg("%s", err.text);
    for (int run = 0; run < 2; run++) {
        char text[512], *storage;
        void **buffers = run_program(u, x->number, x->p, x->g, 3, &storage);
        if (!check_program(x->p, buffers, x->g, reference, text)) fail_msg("case %d, run %d: %s", number, run, text);
        fb_free(storage);
        fb_free(buffers);
    }
    fb_interp_free(reference);
}

typedef enum { ALL, ROWS, COLUMNS } which;

/* Long rows, or bands of columns? Those of other shapes are the same on each machine. (What is overwritten is not for bands
 * that are not held, where the last one is not full.) */
static bool is_among(int number, which of)
{
    const int parts = cases[number].parts;
    return of == ALL || (of == COLUMNS ? parts >= BANDS && !strstr(cases[number].body, "'w', {203, 20}")
                                       : parts >= 0 && parts < BANDS);
}

/* Kernels that hold a part to some place in it, and those that turn what they store. */
typedef struct {
    int in_part, turned;
} counts;

static counts run_cases(const fb_machine *m, which of)
{
    subject all[CASES];
    unit u = {0};
    fb_script *s = start();
    counts n = {0};
    for (int i = 0; i < CASES; i++) {
        if (!is_among(i, of)) continue;
        all[i] = subject_of(s, i, m);
        all[i].number = unit_add_cuda(&u, all[i].p);
        const char *source = all[i].p->kernels[all[i].p->n_kernels - 1].source;
        n.in_part += strstr(source, "fb_long_ahead(&") != NULL;
        n.turned += strstr(source, "fb_turned0[") != NULL;
    }
    unit_emulate(&u);
    for (int i = 0; i < CASES; i++) {
        if (!is_among(i, of)) continue;
        check(&u, &all[i], i);
        subject_free(&all[i]);
    }
    unit_free(&u);
    fb_script_free(s);
    return n;
}

/* Blocks of a row as a cluster, which is what the machine has … */
static void rows_in_parts_are_right(void **state)
{
    (void)state;
    fb_machine m;
    if (!emulation_exists() || !races_wanted()) skip();
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.compute_major = 9;
    m.cache_bytes = 1; /* which has room for no rows */
    const counts n = run_cases(&m, ALL);
    assert_int_equal(n.in_part, 0);
    assert_int_equal(n.turned, 4);
}

/* … adding up through memory, where it has none; */
static void blocks_add_up_through_memory(void **state)
{
    (void)state;
    fb_machine m;
    if (!emulation_exists() || !races_wanted()) skip();
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.compute_major = 8;
    run_cases(&m, ROWS);
}

/* … with room for the greater part of what several passes read; */
static void a_part_may_be_held_in_part(void **state)
{
    (void)state;
    fb_machine m;
    if (!emulation_exists() || !races_wanted()) skip();
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.shared_bytes = 990;
    assert_true(run_cases(&m, ROWS).in_part >= 5);
}

/* … and with no room for it. */
static void rows_that_are_not_held_are_read_again(void **state)
{
    (void)state;
    fb_machine m;
    if (!emulation_exists() || !races_wanted()) skip();
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.shared_bytes = 700;
    run_cases(&m, ROWS);
    m.compute_major = 9;
    run_cases(&m, COLUMNS);
}

static void expect_race(fb_script *s, int number, const char *function, const char *without, const char *at)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.compute_major = 9;
    subject x = subject_of(s, number, &m);
    char *found = races_without(x.p, x.g, function, without);
    if (!found || !strstr(found, at)) fail_msg("%s: %s", function, found ? found : "no race");
    fb_free(found);
    subject_free(&x);
}

/* Blocks of a cluster that look at what the others send without waiting for it, and warps at what others leave. */
static void a_meeting_that_is_missing_is_found(void **state)
{
    (void)state;
    int band = 0;
    if (!emulation_exists() || !races_wanted()) skip();
    while (cases[band].parts != BANDS + 3) band++;
    fb_script *s = start();
    expect_race(s, 1, "FB_DEVICE T fb_long_exchange", "fb_long_meet();", "fb_sent[i]");
    expect_race(s, band, "FB_DEVICE void fb_band_exchange", "fb_long_meet();", "[i].at[column]");
    expect_race(s, band, "fb_band_leave(", "__syncthreads();", "[i].at[column]");
    fb_script_free(s);
}

/* ---- what is decided at real sizes ---- */

static fb_graph *rows_of(int64_t rows, int64_t columns, fb_dtype dtype, bool norm)
{
    fb_error err;
    fb_graph *g = fb_graph_new("rows");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(rows, columns), dtype);
    fb_graph_output(g, norm ? layer_norm(g, x) : softmax(g, x), "out", &err);
    if (!fb_graph_finish(g, &err)) fail_msg("%s", err.text);
    fb_graph *canonical = fb_graph_canonical(g, &err);
    assert_non_null(canonical);
    fb_graph_free(g);
    return canonical;
}

static void rows_are_cut_by_what_they_hold(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, columns;
        fb_dtype dtype;
        bool norm;
        const char *says[3];
    } sizes[] = {
        {2048, 50257, FB_F32, false, {"2048 rows, 2 blocks each", "(a cluster)", "100528 bytes a block: x, exp"}},
        {2048, 50257, FB_BF16, false, {"2048 rows, 1 block each", "may reach beyond it", "100528 bytes a block: x\n"}},
        /* more than two of them have no room: two, a block of each on every multiprocessor */
        {16,
         64 * 256 * 256,
         FB_F32,
         true,
         {"16 rows, 132 blocks each", "(7192 groups; the rest", "again in each pass): x\n"}},
        {16, 40 * 256 * 256, FB_F32, true, {"16 rows, 132 blocks each", "through memory", "79440 bytes a block: x\n"}},
        {16, 16 * 256 * 256, FB_F32, true, {"16 rows, 56 blocks each", "through memory", "bytes a block: x\n"}},
        {1, 80 * 256 * 256, FB_F32, true, {"1 rows, 276 blocks each", "through memory", "bytes a block: x\n"}},
        {16, 128 * 256 * 256, FB_F32, true, {"16 rows, 264 blocks each", "through memory", "much longer"}},
        {2, 1 << 28, FB_F32, true, {"2 rows, 264 blocks each", "through memory", "read again in each pass"}},
        {4096, 1024, FB_F32, false, {"rows: 512 blocks", "held in registers", ""}},
        {2, 131072, FB_F32, false, {"rows: 2 blocks", "", ""}}, /* too few to be worth waiting for */
    };
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.units = 132;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fb_error err;
        fb_graph *g = rows_of(sizes[i].rows, sizes[i].columns, sizes[i].dtype, sizes[i].norm);
        fb_planner *planner = fb_planner_new(g, &m);
        fb_plan *plan = fb_preset_find("max")->make(planner, &err);
        const fb_group *group = fb_plan_group(plan, 0);
        fb_str text = {0};
        fb_schedule_print(group->nest, group->family, NULL, &text);
        for (int k = 0; k < 3; k++)
            if (!strstr(fb_str_get(&text), sizes[i].says[k]))
                fail_msg("case %zu: no \"%s\" in\n%s", i, sizes[i].says[k], fb_str_get(&text));
        fb_str_free(&text);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
}

/* Rows that are held are predicted by the bytes that they are, once each. */
static void held_rows_are_predicted_by_their_bytes(void **state)
{
    (void)state;
    fb_machine m;
    fb_error err;
    fb_group_cost c;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.units = 132;
    m.gflops[FB_F32] = 60000; /* a clock */
    for (int norm = 0; norm < 2; norm++) {
        fb_graph *g = rows_of(1024, 100000, FB_F32, norm);
        fb_planner *planner = fb_planner_new(g, &m);
        fb_plan *plan = fb_preset_find("max")->make(planner, &err);
        fb_plan_group_cost(plan, 0, &c);
        assert_int_equal(c.bytes_read, 1024 * 100000 * 4);
        assert_int_equal(c.bytes_written, c.bytes_read);
        double copy_us = fb_memory_us(&m, (double)(c.bytes_read + c.bytes_written));
        if (c.us < copy_us || c.us > 1.25 * copy_us) fail_msg("%g µs, and %g to copy", c.us, copy_us);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
}

/* How a kernel is dealt, and what it is predicted to take. */
typedef struct {
    fb_str text;
    fb_group_cost cost;
} dealt;

static dealt deal(fb_script *s, int number, const fb_machine *m)
{
    fb_error err;
    dealt d = {0};
    fb_graph *g = build(s, number);
    fb_planner *planner = fb_planner_new(g, m);
    fb_plan *plan = fb_preset_find("max")->make(planner, &err);
    assert_non_null(plan);
    const int last = fb_plan_groups(plan) - 1;
    const fb_group *group = fb_plan_group(plan, last);
    fb_schedule_print(group->nest, group->family, NULL, &d.text);
    fb_plan_group_cost(plan, last, &d.cost);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
    return d;
}

/* Columns that are held are read once, wherever they are; longer ones once a pass. Short and small ones go by elements. */
static void columns_are_held_where_there_is_room(void **state)
{
    (void)state;
    static const struct {
        const char *body, *says[3];
        double passes; /* of reading and writing each element once; 0: nothing is said of it */
    } sizes[] = {
        {"return nn.softmax(g:input('x', {512, 16384}), 0)",
         {"32 columns, 8 threads side by side of 4 each, 64 along", "in registers, 8 steps: x, softmax.exp", ""},
         2},
        /* 16 bits of fewer steps; half a line where blocks are few */
        {"return nn.softmax(g:input('x', {32, 96, 3136}, 'bf16'), 1)",
         {"64 columns, 8 threads side by side of 8 each, 16 along", "in registers, 6 steps: x\n", ""},
         0},
        {"return nn.softmax(g:input('x', {512, 4096}), 0)",
         {"16 columns, 4 threads side by side", "in registers", ""},
         2},
        {"return nn.softmax(g:input('x', {4096, 4096}), 0)",
         {"1024 blocks of 256 threads", "a cluster of 8 blocks, 512 elements along each",
          "65536 bytes a block: x, softmax.exp"},
         2},
        {"return nn.softmax(g:input('x', {8192, 4096}, 'bf16'), 0)",
         {"1024 blocks of 256 threads", "a cluster of 8 blocks", "65536 bytes a block: x\n"},
         0},
        {"return nn.softmax(g:input('x', {4096, 4097}), 0)",
         {"32 threads side by side of 1 each", "a cluster of 8", ""},
         2},
        {"return nn.softmax(g:input('x', {65536, 4096}), 0)", {"a cluster of", "read again in each pass", ""}, 4},
        {"return nn.layer_norm(g:input('x', {32, 96, 56, 56}, 'bf16'):permute(0, 2, 3, 1))",
         {"in registers, 6 steps", "turned in shared memory: layer_norm", ""},
         0},
        /* rows of several passes: a warp's where it has room for them, else a block's; not those that the cache has */
        {"local y, d = nn.softmax(g:input('x', {65536, 1024}, 'bf16'), 1), g:input('d', {65536, 1024}, 'bf16')\n"
         "return y * (d - (y * d):sum(1, true))",
         {"rows: 8192 blocks of 256 threads", "loaded ahead of all passes: ", "exp"},
         0},
        {"local y, d = nn.softmax(g:input('x', {65536, 1024}), 1), g:input('d', {65536, 1024})\n"
         "return y * (d - (y * d):sum(1, true))",
         {"rows: 65536 blocks of 64 threads", "loaded ahead of all passes: ", "exp"},
         2},
        {"local y, d = nn.softmax(g:input('x', {4096, 1024}, 'bf16'), 1), g:input('d', {4096, 1024}, 'bf16')\n"
         "return y * (d - (y * d):sum(1, true))",
         {"rows: 512 blocks of 256 threads", "", ""},
         0},
        {"return nn.softmax(g:input('x', {8, 1 << 18}), 0)", {"columns: ", "1 thread each", ""}, 0},
        {"return nn.softmax(g:input('x', {128, 1024}), 0)", {"columns: ", "1024 rows, 32 a block", ""}, 0},
    };
    static const double fixed_us = 3; /* of passes and of the launch */
    enum { SIZES = sizeof sizes / sizeof *sizes };
    const char *path = in_scratch("sizes.lua");
    FILE *f = begin_script(path);
    for (int i = 0; i < SIZES; i++) fprintf(f, "v%d = function(g)\n%s\nend,\n", i, sizes[i].body);
    fb_script *s = end_script(f, path);
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.units = 132;
    m.compute_major = 9;
    m.gflops[FB_F32] = 60000; /* a clock */
    for (int i = 0; i < SIZES; i++) {
        dealt d = deal(s, i, &m);
        for (int k = 0; k < 3; k++)
            if (!strstr(fb_str_get(&d.text), sizes[i].says[k]))
                fail_msg("case %d: no \"%s\" in\n%s", i, sizes[i].says[k], fb_str_get(&d.text));
        const double bytes = (double)(d.cost.bytes_read + d.cost.bytes_written) / 2 * sizes[i].passes;
        const double copy_us = fb_memory_us(&m, bytes);
        if (sizes[i].passes && (d.cost.us < copy_us || d.cost.us > 1.6 * copy_us + fixed_us))
            fail_msg("case %d: %g µs, and %g to move", i, d.cost.us, copy_us);
        fb_str_free(&d.text);
    }
    fb_script_free(s);
}

int main(void)
{
    fb_json_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_in_parts_are_right),
                                       cmocka_unit_test(blocks_add_up_through_memory),
                                       cmocka_unit_test(a_part_may_be_held_in_part),
                                       cmocka_unit_test(rows_that_are_not_held_are_read_again),
                                       cmocka_unit_test(a_meeting_that_is_missing_is_found),
                                       cmocka_unit_test(rows_are_cut_by_what_they_hold),
                                       cmocka_unit_test(held_rows_are_predicted_by_their_bytes),
                                       cmocka_unit_test(columns_are_held_where_there_is_room)};
    return cmocka_run_group_tests_name("long rows", tests, make_scratch, remove_scratch);
}
