/* Every kernel of every bundled script, variant and preset, and one of each kind of family gemm, as CUDA through NVRTC:
 * for the oldest architecture that is supported, for Hopper, and for the newest that NVRTC knows. With FB_TURN (turn.h)
 * of a ninth of the variants, a third of these for others than Hopper, and of a third of family gemm's kinds. And what is
 * planned for another GPU (gpus.h; of each variant one of them in turn), for that one. Needs no GPU; skipped where NVRTC
 * is not installed. */
#include "unit/chain_cases.h"
#include "unit/gemm_cases.h"
#include "unit/gpus.h"
#include "unit/script_harness.h"
#include "unit/turn.h"

#include "base/embedded.h"
#include "base/mem.h"
#include "code/lower.h"
#include "decide/preset.h"
#include "device/cuda/compile.h"
#include "device/cuda/libs.h"
#include "measure/fuzz.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define uthash_malloc(bytes)      fb_alloc(bytes)
#define uthash_free(block, bytes) fb_free(block)
#include <uthash.h>

enum { LIMIT_MS = 180000 };

enum { OLDEST, HOPPER, NEWEST, ARCHS };
static char archs[ARCHS][16];
static int n_archs;

/* Sources that were compiled already: many plans share kernels. */
typedef struct {
    fb_hash source;
    char arch[8]; /* "": of all */
} known_source;

typedef struct {
    known_source key;
    UT_hash_handle hh;
} seen;
static seen *compiled;

static bool is_new(const char *source, const char *arch)
{
    known_source key;
    memset(&key, 0, sizeof key);
    key.source = fb_hash_text(source);
    snprintf(key.arch, sizeof key.arch, "%s", arch);
    seen *s;
    HASH_FIND(hh, compiled, &key, sizeof key, s);
    if (s) return false;
    s = fb_calloc(1, sizeof *s);
    s->key = key;
    HASH_ADD(hh, compiled, key, sizeof key, s);
    return true;
}

/* What the rules of another compiler put into one kernel may spill: tinygrad's compute the state of a cell again from
 * all steps before. That is theirs, and there to be seen; what we choose ourselves does not on Hopper, where its sizes
 * come from. But for a first step, whose state is zeros that the kernel makes, and for all steps of a loop with its
 * updates in one kernel: ptxas of CUDA 13.0 keeps a few of their values in memory, with most registers unused. */
static bool may_spill(const char *what, const char *arch, int bytes)
{
    enum { FEW = 24, FEW_OF_A_LOOP = 40 };
    if (strcmp(arch, "sm_90") != 0 || strstr(what, ":tinygrad") || strstr(what, ":inductor")) return true;
    if (strstr(what, ":xla")) return true;
    if (strstr(what, "mlp_loop.lua assigned:auto")) return bytes <= FEW_OF_A_LOOP;
    return bytes <= FEW && strstr(what, "gru.lua hoisted:max");
}

/* Does NVRTC compile for it? */
static bool knows(const char *arch)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    return fb_cuda_arch_limits(arch, &m, NULL);
}

/* What runs in clusters was made for a machine that has them, from Hopper on; instructions of whole warpgroups are
 * Hopper's alone. */
static bool is_for(const fb_kernel *k, const char *arch)
{
    if (k->needs.warpgroups && strcmp(arch, archs[HOPPER]) != 0) return false;
    return !k->needs.cluster || atoi(arch + strlen("sm_")) >= 90;
}

/* By their text kernels are chosen, so that every run chooses as others do, whose cache it has. */
static unsigned number_of(const fb_kernel *k)
{
    return (unsigned)fb_digest(k->source, strlen(k->source));
}

/* With FB_TURN a third of them is compiled for others than Hopper. */
static bool is_for_others(const fb_kernel *k)
{
    return turn_is(number_of(k) / 2, TURNS * TURNS);
}

/* The oldest architecture and the newest have half of the kernels each; Hopper has all. */
static void compile_kernel(const char *what, const fb_kernel *k)
{
    bool others = is_for_others(k);
    int skipped = number_of(k) % 2 ? OLDEST : NEWEST;
    for (int a = 0; a < n_archs; a++) {
        if (a == skipped || (a != HOPPER && !others) || !is_for(k, archs[a])) continue;
        fb_cuda_code code;
        fb_error err = {0};
        if (!fb_cuda_compile_kernel(k, archs[a], FB_CUBIN, &code, &err))
            fail_msg("%s: %s\n%s", what, err.text, k->source);
        if (code.spill_bytes) {
            printf("# %s: kernel %s spills %d bytes on %s\n", what, k->name, code.spill_bytes, archs[a]);
            if (!may_spill(what, archs[a], code.spill_bytes))
                fail_msg("%s: kernel %s spills on %s", what, k->name, archs[a]);
        }
        assert_true(code.registers > 0);
        fb_cuda_code_clear(&code);
    }
}

/* What was planned for another GPU; with FB_TURN a third of it. */
static void compile_on(const char *what, const fb_kernel *k, unsigned gpu)
{
    fb_cuda_code code;
    fb_error err = {0};
    if ((k->needs.cluster && gpus[gpu].major < 9) || (k->needs.warpgroups && gpus[gpu].major != 9))
        fail_msg("%s: kernel %s is not for a %s", what, k->name, gpus[gpu].name);
    if (!is_for_others(k)) return;
    if (!fb_cuda_compile_kernel(k, gpus[gpu].arch, FB_CUBIN, &code, &err))
        fail_msg("%s, for a %s: %s\n%s", what, gpus[gpu].name, err.text, k->source);
    assert_true(code.registers > 0);
    fb_cuda_code_clear(&code);
}

/* Of a plan that no other script had; the many kernels of unrolled steps are alike. gpu: GPUS for all architectures. */
enum { NEW_KERNELS_MOST = 5 };

static void compile_plan(const char *what, const fb_plan *plan, unsigned gpu)
{
    int new_kernels = 0;
    fb_error err = {0};
    fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
    if (!p) fail_msg("%s: %s", what, err.text);
    for (int k = 0; k < p->n_kernels; k++) {
        const fb_kernel *kernel = &p->kernels[k];
        if (!kernel->source) continue;
        assert_true(kernel->grid[0] > 0 && kernel->block[0] >= 32 && kernel->block[0] <= 1024);
        if (new_kernels == NEW_KERNELS_MOST || !is_new(kernel->source, gpu < GPUS ? gpus[gpu].arch : "")) continue;
        new_kernels++;
        if (gpu < GPUS)
            compile_on(what, kernel, gpu);
        else
            compile_kernel(what, kernel);
    }
    fb_program_free(p);
}

/* The plan with unusual knobs, on every group that has them. Takes the plan. */
static fb_plan *with_knobs(fb_plan *plan)
{
    static const struct {
        fb_knob knob;
        int64_t value;
    } set[] = {{FB_KNOB_VECTOR, 2}, {FB_KNOB_THREADS, 96}, {FB_KNOB_ROWS, 4}, {FB_KNOB_GRID, 7}};
    for (int i = 0; i < fb_plan_groups(plan); i++) {
        for (size_t k = 0; k < sizeof set / sizeof *set; k++) {
            fb_plan *to = NULL;
            fb_plan_try(plan,
                        &(fb_edit){.kind = FB_EDIT_KNOB,
                                   .a = fb_plan_group(plan, i)->nodes[0],
                                   .knob = set[k].knob,
                                   .value = set[k].value},
                        &to);
            if (!to) continue;
            fb_plan_free(plan);
            plan = to;
        }
    }
    return plan;
}

/* All presets' plans for a machine. */
static void compile_graph(const char *path, const char *variant, const fb_graph *g, const fb_machine *m, unsigned gpu)
{
    fb_planner *planner = fb_planner_new(g, m);
    for (int i = 0; i < fb_presets(); i++) {
        char what[256];
        snprintf(what, sizeof what, "%s %s:%s", path, variant, fb_preset_at(i)->name);
        fb_error err = {0};
        fb_plan *plan = fb_preset_at(i)->make(planner, &err);
        assert_non_null(plan);
        compile_plan(what, plan, gpu);
        if (strcmp(fb_preset_at(i)->name, "max") == 0) {
            plan = with_knobs(plan);
            compile_plan(what, plan, gpu);
        }
        fb_plan_free(plan);
    }
    fb_planner_free(planner);
}

static void compile_variant(const char *path, fb_script *s, const char *variant, unsigned number)
{
    fb_script_event e;
    fb_script_build(s, variant, NULL);
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind != FB_SCRIPT_GRAPH) fail_msg("%s %s: %s", path, variant, e.error.text);
    fb_machine ours, other = gpu_machine(number % GPUS);
    fb_machine_default(&ours, FB_DEVICE_CUDA);
    compile_graph(path, variant, e.graph, &ours, GPUS);
    if (knows(gpus[number % GPUS].arch)) compile_graph(path, variant, e.graph, &other, number % GPUS);
    fb_graph_free(e.graph);
}

static unsigned n_variants; /* of the scripts so far */

static void compile_script(const char *path)
{
    char whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", getenv("FB_SRCDIR") ? getenv("FB_SRCDIR") : ".", path);
    fb_error err = {0};
    fb_script *s = fb_script_start(whole, NULL, &err);
    if (!s) fail_msg("%s", err.text);
    fb_script_event e;
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind != FB_SCRIPT_INFO) fail_msg("%s: %s", path, e.error.text);
    for (int v = 0; v < e.info->n_variants; v++, n_variants++)
        if (is_our_ninth(n_variants)) compile_variant(path, s, e.info->variants[v], n_variants / TURNS);
    fb_script_info_free(e.info);
    fb_script_free(s);
}

static bool is_bundled(const char *path)
{
    return strncmp(path, "scripts/", 8) == 0 && strncmp(path, "scripts/lib/", 12) != 0 && strlen(path) > 4 &&
           strcmp(path + strlen(path) - 4, ".lua") == 0 && !strstr(path, ".d.lua");
}

static void find_archs(void)
{
    char known[64][16];
    fb_error err = {0};
    int n = fb_cuda_archs(known, 64, &err);
    if (!n) {
        print_message("# skipped: %s\n", err.text);
        skip();
    }
    n_archs = 0;
    strcpy(archs[n_archs++], "sm_80");
    strcpy(archs[n_archs++], "sm_90");
    memcpy(archs[n_archs++], known[n - 1], sizeof *archs);
}

static void test_gemm(void **state)
{
    (void)state;
    find_archs();
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (int i = 0; i < GEMM_CASES; i++) {
        if (!is_our_turn((unsigned)i)) continue;
        fb_graph *g = gemm_graph(&gemm_cases[i]);
        fb_machine own = gemm_machine(&m, &gemm_cases[i]);
        fb_planner *planner = fb_planner_new(g, &own);
        fb_plan *plan = gemm_plan(planner, &gemm_cases[i]);
        compile_plan(gemm_cases[i].name, plan, GPUS);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
}

/* Products of f16 and f32 are tiled on GPUs without copies in the background; bf16 goes without tensor cores, row by row. */
static void test_products_before_8_0(void **state)
{
    (void)state;
    enum { T4 = 0 };
    find_archs();
    if (!knows(gpus[T4].arch)) skip();
    fb_machine m = gpu_machine(T4);
    static const fb_dtype dtypes[] = {FB_F32, FB_F16, FB_BF16};
    for (int i = 0; i < 3; i++) {
        fb_error err = {0};
        fb_graph *g = mlp(0, 4096, 128, 128, 64, dtypes[i]);
        fb_planner *planner = fb_planner_new(g, &m);
        fb_plan *plan = fb_preset_find("max")->make(planner, &err), *tiled = NULL;
        fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
        if (!p) fail_msg("%s", err.text);
        if (dtypes[i] != FB_F32) assert_int_equal(p->n_launches == 1, dtypes[i] == FB_F16); /* a chain */
        compile_plan("two layers", plan, T4);
        fb_program_free(p);
        fb_plan_free(plan);

        fb_id product = FB_NONE;
        for (fb_id k = g->n_nodes; k-- > 0;)
            if (fb_node_is_computed(g, k) && fb_node_class(g, k) == FB_CLASS_CONTRACTION) product = k;
        plan = fb_plan_new(planner);
        fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = product, .b = FB_NONE}, &tiled);
        assert_non_null(tiled);
        assert_int_equal(fb_plan_group(tiled, fb_plan_group_of(tiled, product))->family == FB_FAMILY_GEMM,
                         dtypes[i] != FB_BF16);
        compile_plan("a product", tiled, T4);
        fb_plan_free(tiled);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
}

/* Sixteen tensors of their own, stacked: their pointers are picked, for an array of them would lie
 * in each thread's memory. */
static void test_picked_pointers(void **state)
{
    (void)state;
    enum { MEMBERS = 16 };
    find_archs();
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (int dtype = FB_F32; dtype <= FB_BF16; dtype += FB_BF16 - FB_F32) {
        fb_error err = {0};
        fb_graph *g = fb_graph_new("stack");
        fb_id x[MEMBERS];
        for (int i = 0; i < MEMBERS; i++) {
            fb_attrs at = {.dtype = (fb_dtype)dtype, .shape = {.rank = 2, .dim = {1024, 256}}, .high = 1};
            x[i] = fb_graph_add(g, FB_OP_INPUT, NULL, 0, &at, NULL, 0, &err);
        }
        fb_id stack = fb_graph_add(g, FB_OP_STACK, x, MEMBERS, &(fb_attrs){0}, NULL, 0, &err);
        if (stack == FB_NONE || !fb_graph_output(g, stack, NULL, &err) || !fb_graph_finish(g, &err))
            fail_msg("%s", err.text);
        fb_graph *canonical = fb_graph_canonical(g, &err);
        if (!canonical) fail_msg("%s", err.text);
        fb_planner *planner = fb_planner_new(canonical, &m);
        fb_plan *plan = fb_preset_find("max")->make(planner, &err);
        fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
        if (!p) fail_msg("%s", err.text);
        assert_int_equal(p->n_kernels, 1);
        for (int a = 0; a < n_archs; a++) {
            fb_cuda_code code;
            if (!fb_cuda_compile_kernel(&p->kernels[0], archs[a], FB_CUBIN, &code, &err)) fail_msg("%s", err.text);
            if (code.stack_bytes) fail_msg("%d bytes of a thread's own memory on %s", code.stack_bytes, archs[a]);
            fb_cuda_code_clear(&code);
        }
        fb_program_free(p);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(canonical);
        fb_graph_free(g);
    }
}

/* Warpgroups that multiply: for Hopper alone, by the name that its own instructions have. */
static void test_wide(void **state)
{
    (void)state;
    find_archs();
    fb_graph *graphs[] = {
        mlp(0, 16384, 256, 256, 256, FB_BF16),    mlp(0, 8192, 256, 256, 256, FB_F16), /* one warpgroup a block */
        mlp(0, 16383, 264, 200, 72, FB_F16),      mlp(0, 16383, 67, 129, 65, FB_BF16),
        mlp_turned(16384, 72, 192, 136, FB_BF16),
    };
    enum { MOST_REGISTERS = 168 }; /* of three warpgroups' threads */
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        fb_error err = {0};
        fb_planner *planner = fb_planner_new(graphs[i], &m);
        fb_plan *plan = fb_preset_find("max")->make(planner, &err);
        fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
        if (!p) fail_msg("%s", err.text);
        assert_int_equal(p->n_kernels, 1);
        assert_non_null(strstr(p->kernels[0].source, "fb_chain_wide"));
        fb_cuda_code code;
        if (!fb_cuda_compile_kernel(&p->kernels[0], "sm_90", FB_CUBIN, &code, &err)) fail_msg("%s", err.text);
        if (code.spill_bytes || strstr(code.log, "C7510")) fail_msg("case %d: %s", (int)i, code.log);
        assert_in_range(code.registers, 1, p->kernels[0].block[0] > 256 ? MOST_REGISTERS : 255);
        fb_cuda_code_clear(&code);
        if (i == 0) {
            assert_true(fb_cuda_compile_kernel(&p->kernels[0], "sm_90", FB_PTX, &code, &err));
            assert_non_null(strstr(code.bytes, ".target sm_90a"));
            fb_cuda_code_clear(&code);
        }
        fb_program_free(p);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(graphs[i]);
    }
}

/* Warpgroups that take scores a tile at a time: nothing spilled, and no multiplication that the compiler makes wait. */
static void test_attention(void **state)
{
    (void)state;
    find_archs();
    fb_graph *graphs[] = {
        attention(64, 1024, 1024, 64, CAUSAL, FB_BF16),
        attention(32, 4096, 4096, 128, CAUSAL, FB_F16),
        attention(32, 1000, 3000, 128, ADDED, FB_BF16),
        attention(16, 2048, 2048, 256, NO_MASK, FB_BF16),
        attention(2, 600, 700, 33, WINDOW, FB_F16),
        attention(64, 4096, 4096, 96, NO_MASK, FB_BF16),
        attention(64, 4096, 4096, 96, CAUSAL, FB_F16),
        attention(64, 1024, 1024, 80, CAUSAL, FB_BF16),
        attention(64, 1024, 1024, 72, CAUSAL, FB_BF16),
        attention(64, 1000, 1000, 40, CAUSAL, FB_F16),
        attention(64, 1024, 1024, 112, ADDED, FB_F16),
        attention(2, 64, 1024, 120, CAUSAL, FB_BF16),
        attention(32, 1024, 1024, 136, NO_MASK, FB_F16),
        attention_turned(32, 1024, 1024, 72, FB_BF16),
        /* a last block that is not whole, where tiles are left out; 64 tiles to look for */
        attention(64, 1000, 1000, 64, CAUSAL, FB_BF16),
        attention(64, 1000, 1000, 72, LATE, FB_F16),
        attention(8, 8192, 8192, 64, CAUSAL, FB_BF16),
        attention(8, 4096, 4096, 256, CAUSAL, FB_BF16),
    };
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        fb_error err = {0};
        fb_planner *planner = fb_planner_new(graphs[i], &m);
        fb_plan *plan = with_tile_k(fb_preset_find("max")->make(planner, &err), graphs[i], "mixed", 64);
        fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
        if (!p) fail_msg("%s", err.text);
        assert_int_equal(p->n_kernels, 1);
        assert_non_null(strstr(p->kernels[0].source, "fb_attention<"));
        fb_cuda_code code;
        if (!fb_cuda_compile_kernel(&p->kernels[0], "sm_90", FB_CUBIN, &code, &err)) fail_msg("%s", err.text);
        if (code.spill_bytes || strstr(code.log, "serialized")) fail_msg("case %d: %s", (int)i, code.log);
        fb_cuda_code_clear(&code);
        fb_program_free(p);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(graphs[i]);
    }
}

static void test_scripts(void **state)
{
    (void)state;
    find_archs();
    int scripts = 0;
    for (int i = 0; fb_embedded_files[i].path; i++) {
        if (!is_bundled(fb_embedded_files[i].path)) continue;
        compile_script(fb_embedded_files[i].path);
        scripts++;
    }
    assert_true(scripts > 0);
    print_message("# %d scripts, %d kernels, %d architectures\n", scripts, HASH_COUNT(compiled), n_archs);
}

/* ---- what the fuzzer makes ---- */

/* Random plans of random graphs, joined as the fuzzer joins them: many kernels a unit. FB_SEED and FB_COUNT: others. */
static void test_fuzzed(void **state)
{
    (void)state;
    find_archs();
    enum { PLANS = 2, MOST = 4096, A_UNIT = 60 };
    const char *seed = getenv("FB_SEED"), *count = getenv("FB_COUNT");
    uint64_t first = seed ? strtoull(seed, NULL, 10) : 1;
    int n = 0, left = count ? atoi(count) : 8;
    static fb_program *parts[MOST];
    static int first_buffer[MOST];
    fb_machine m;
    fb_error err = {0};
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (; left > 0 && n < MOST - PLANS; left--, first++) {
        fb_graph *g = fb_fuzz_graph(first, &err);
        if (!g) fail_msg("seed %llu: %s", (unsigned long long)first, err.text);
        fb_planner *planner = fb_planner_new(g, &m);
        for (int k = 1; k <= PLANS; k++) {
            fb_plan *plan = fb_fuzz_plan(planner, first, k);
            fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
            if (!p && err.kind != FB_ERR_LIMIT) fail_msg("seed %llu: %s", (unsigned long long)first, err.text);
            if (p) p->mode = FB_LAUNCH_STREAM, parts[n++] = p;
            fb_plan_free(plan);
        }
        fb_planner_free(planner);
        fb_graph_free(g);
    }
    fb_program *all = fb_program_join(&fb_target_cuda, (const fb_program *const *)parts, n, A_UNIT, first_buffer);
    fb_cuda_code *codes = fb_calloc((size_t)all->n_kernels + 1, sizeof *codes);
    if (!fb_cuda_compile_program(all, archs[HOPPER], NULL, codes, &err)) fail_msg("%s", err.text);
    double ms = 0;
    for (int k = 0; k < all->n_kernels; k++) {
        bool own = all->kernels[k].source && !all->kernels[k].shares;
        assert_int_equal(codes[k].n > 0, own);
        ms += codes[k].ms;
        fb_cuda_code_clear(&codes[k]);
    }
    print_message("# %d plans, %d kernels, %.1f ms each\n", n, all->n_kernels, ms / all->n_kernels);
    fb_free(codes);
    fb_program_free(all);
    for (int i = 0; i < n; i++) fb_program_free(parts[i]);
}

/* A cubin of the cache that was cut short, or is another's, is compiled again: a driver would not say why it fails. */
static void damaged_cubins_are_compiled_again(void **state)
{
    (void)state;
    char cache[] = "/tmp/fusebox-test-XXXXXX", pattern[100], command[100];
    const char *before = getenv("XDG_CACHE_HOME");
    char *kept = before ? fb_strdup(before) : NULL;
    fb_cuda_code code;
    fb_error err = {0};
    assert_non_null(mkdtemp(cache));
    setenv("XDG_CACHE_HOME", cache, 1);
    static const char source[] = "__global__ void k(int *p) { *p = 1; }";
    for (int round = 0; round < 4; round++) {
        bool good = fb_cuda_compile(source, "k", "sm_90", FB_CUBIN, &code, &err);
        if (!good && err.kind == FB_ERR_UNAVAILABLE) skip();
        if (!good) fail_msg("%s", err.text);
        assert_int_equal(code.cached, round % 2);
        fb_cuda_code_clear(&code);
        glob_t files;
        snprintf(pattern, sizeof pattern, "%s/fusebox/cuda/*.cubin", cache);
        assert_int_equal(glob(pattern, 0, NULL, &files), 0);
        assert_int_equal(files.gl_pathc, 1);
        if (round == 1) assert_int_equal(truncate(files.gl_pathv[0], 1000), 0);
        globfree(&files);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    assert_int_equal(system(command), 0);
    kept ? setenv("XDG_CACHE_HOME", kept, 1) : unsetenv("XDG_CACHE_HOME");
    fb_free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scripts),
                                       cmocka_unit_test(test_gemm),
                                       cmocka_unit_test(test_products_before_8_0),
                                       cmocka_unit_test(test_wide),
                                       cmocka_unit_test(test_attention),
                                       cmocka_unit_test(test_picked_pointers),
                                       cmocka_unit_test(test_fuzzed),
                                       cmocka_unit_test(damaged_cubins_are_compiled_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
