/* Kernels taken over by hand: the file that is written, what is read back from it and what is refused, and that the
 * text in it is what runs; on an emulated GPU. */
#include "base/mem.h"
#include "base/sha256.h"
#include "code/lower.h"
#include "unit/emulate_cuda.h"
#include "unit/nest_help.h"

#include <string.h>

enum { MEMBERS = 4 };

typedef struct {
    fb_graph *g;
    fb_planner *planner;
    fb_plan *plan;
    const fb_target *target;
} taken;

static taken planned(fb_graph *g, fb_device_kind kind, const char *preset)
{
    fb_machine m;
    fb_error err = {0};
    fb_machine_default(&m, kind);
    taken t = {.g = g, .planner = fb_planner_new(g, &m)};
    t.target = kind == FB_DEVICE_HOST ? &fb_target_c : &fb_target_cuda;
    t.plan = fb_preset_find(preset)->make(t.planner, &err);
    if (!t.plan) fail_msg("%s", err.text);
    return t;
}

static void drop(taken *t)
{
    fb_plan_free(t->plan);
    fb_planner_free(t->planner);
    fb_graph_free(t->g);
}

static fb_graph *stacked(int batch)
{
    return finished(puzzle(true, MEMBERS, batch, 32));
}

/* The file of the first group; how many groups share its kernel. */
static char *ejected(const taken *t, int *n_shares)
{
    fb_str out = {0};
    fb_error err = {0};
    const fb_eject_origin from = {.script = "of/*/puzzle.lua", .column = "split:eager"};
    bool *shares = fb_calloc((size_t)fb_plan_groups(t->plan), sizeof *shares);
    if (!fb_lower_eject(t->plan, 0, t->target, &from, &out, shares, &err)) fail_msg("%s", err.text);
    *n_shares = 0;
    for (int i = 0; i < fb_plan_groups(t->plan); i++) *n_shares += shares[i];
    fb_free(shares);
    return fb_str_take(&out);
}

static void replace(char **text, const char *from, const char *to)
{
    char *at = strstr(*text, from);
    if (!at) fail_msg("no \"%s\" in\n%s", from, *text);
    fb_str out = {0};
    fb_str_addf(&out, "%.*s%s%s", (int)(at - *text), *text, to, at + strlen(from));
    fb_free(*text);
    *text = fb_str_take(&out);
}

/* The kernel of all members of the first group's repetition is `path`. */
static void use(taken *t, const char *path, const char *text)
{
    fb_plan *to = NULL;
    fb_edit e = {.kind = FB_EDIT_SOURCE, .a = fb_plan_group(t->plan, 0)->nodes[0], .b = FB_NONE, .source = path};
    fb_verdict v = fb_plan_try_repeated(t->plan, &e, &to);
    if (!to) fail_msg("%s", v.text);
    fb_plan_free(t->plan);
    t->plan = to;
    fb_planner_set_source(t->planner, path, text);
}

static void refused(const taken *t, const char *part)
{
    fb_error err = {0};
    fb_program *p = fb_lower(t->plan, t->target, &err);
    if (p || !strstr(err.text, part)) fail_msg("%s: no \"%s\"", p ? "lowered" : err.text, part);
    assert_int_equal(err.kind, FB_ERR_INPUT);
}

/* ---- tests ---- */

/* One file serves all members of a repetition, and is compiled once. */
static void a_file_is_the_kernel_of_all_members(void **state)
{
    (void)state;
    for (int cuda = 0; cuda < 2; cuda++) {
        int n;
        fb_error err = {0};
        taken t = planned(stacked(16), cuda ? FB_DEVICE_CUDA : FB_DEVICE_HOST, "eager");
        fb_program *before = fb_lower(t.plan, t.target, &err);
        fb_hash was = fb_plan_hash(t.plan);
        char *text = ejected(&t, &n);
        assert_int_equal(n, MEMBERS);
        assert_non_null(strstr(text, cuda ? " * @language  cuda\n" : " * @language  c\n"));
        assert_non_null(strstr(text, " * @script    of/?/puzzle.lua\n * @column    split:eager\n"));
        assert_non_null(strstr(text, " * @computes  mean ×2, sub, mul ×2, rsqrt\n"));
        assert_non_null(strstr(text, "f32[2048] read, as [16,32] by strides [32,1]\n"));
        if (cuda) replace(&text, "@block     ", "@block     96 1 1 instead of ");
        replace(&text, "@entry     layer_norm_kernel", "@entry     mine");
        use(&t, "/far/away/own.c", text);
        fb_program *p = fb_lower(t.plan, t.target, &err);
        if (!p) fail_msg("%s", err.text);
        assert_int_equal(p->n_kernels, before->n_kernels);
        assert_int_equal(p->n_launches, before->n_launches);
        assert_string_equal(p->kernels[0].file, "own.c");
        assert_string_equal(p->kernels[0].entry, "layer_norm_kernel");
        const char *head = "#define mine layer_norm_kernel\n#line 1 \"own.c\"\n/* A generated kernel";
        assert_int_equal(strncmp(p->kernels[0].source, head, strlen(head)), 0);
        assert_int_equal(p->kernels[0].block[0], cuda ? 96 : 0);
        assert_null(p->kernels[1].file);
        assert_false(fb_hash_equal(p->hash, before->hash));
        fb_hash now = fb_plan_hash(t.plan);
        assert_false(fb_hash_equal(was, now));
        replace(&text, "mean", "MEAN"); /* saved: the same plan is another one */
        fb_planner_set_source(t.planner, "/far/away/own.c", text);
        assert_false(fb_hash_equal(now, fb_plan_hash(t.plan)));
        fb_free(text);
        fb_program_free(before);
        fb_program_free(p);
        drop(&t);
    }
}

/* What follows a library call is the kernel; what the call reads is not. */
static void epilogues_share_a_file(void **state)
{
    (void)state;
    int n;
    fb_error err = {0};
    fb_graph *g = fb_graph_new("epilogues");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(128, 64), FB_F32),
          w = source(g, FB_OP_PARAM, "w", SHAPE(64, 64), FB_F32);
    for (int i = 0; i < 2; i++) {
        fb_id part = NODE(g, FB_OP_SLICE, NULL, &((fb_attrs){.start = 64 * i, .stop = 64 * (i + 1), .step = 1}), x);
        fb_id out = NODE(g, FB_OP_TANH, NULL, NULL, NODE(g, FB_OP_MATMUL, NULL, NULL, part, w));
        assert_true(fb_graph_output(g, out, i ? "second" : "first", &err));
    }
    taken t = planned(finished(g), FB_DEVICE_HOST, "max");
    assert_int_equal(fb_plan_group(t.plan, 0)->family, FB_FAMILY_LIBRARY);
    char *text = ejected(&t, &n);
    assert_int_equal(n, 2);
    use(&t, "own.c", text);
    for (int i = 0; i < 2; i++) {
        fb_plan *to = NULL;
        fb_edit e = {
            .kind = FB_EDIT_SOURCE, .a = fb_graph_find(t.g, i ? "tanh_2" : "tanh"), .b = FB_NONE, .source = "own.c"};
        fb_plan_try(t.plan, &e, &to);
        assert_non_null(to);
        fb_plan_free(t.plan);
        t.plan = to;
    }
    fb_program *p = fb_lower(t.plan, t.target, &err);
    if (!p) fail_msg("%s", err.text);
    assert_int_equal(p->n_kernels, 1);
    assert_string_equal(p->kernels[0].file, "own.c");
    fb_program_free(p);
    fb_free(text);
    drop(&t);
}

static fb_graph *two_steps(fb_op last, int width)
{
    fb_graph *g = fb_graph_new("two");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(8, width), FB_F32);
    return with_output(g, NODE(g, last, "last", NULL, NODE(g, FB_OP_NEG, "neg", NULL, x)));
}

static void a_stale_file_is_refused(void **state)
{
    (void)state;
    int n;
    taken t = planned(two_steps(FB_OP_RELU, 8), FB_DEVICE_HOST, "max");
    char *text = ejected(&t, &n);
    use(&t, "own.c", NULL);
    refused(&t, "own.c: the kernel's file has not been read");
    fb_planner_set_source(t.planner, "own.c", "/* nothing */");
    refused(&t, "own.c: its first comment has no line @language");
    taken other = planned(two_steps(FB_OP_TANH, 8), FB_DEVICE_HOST, "max");
    use(&other, "own.c", text);
    refused(&other, "own.c is stale: it was made to compute neg, relu, and its kernel now has to compute neg, tanh");
    taken wide = planned(two_steps(FB_OP_RELU, 16), FB_DEVICE_HOST, "max");
    use(&wide, "own.c", text);
    refused(&wide, "own.c is stale: its argument 1 was x f32[8,8] read, and is now x f32[8,16] read");
    taken gpu = planned(two_steps(FB_OP_RELU, 8), FB_DEVICE_CUDA, "max");
    use(&gpu, "own.c", text);
    refused(&gpu, "own.c:5: the kernel is written in c, and this device takes cuda");
    char *cuda = ejected(&gpu, &n);
    replace(&cuda, "@block     ", "@block     1024 2 ");
    fb_planner_set_source(gpu.planner, "own.c", cuda);
    refused(&gpu, "own.c: @block is of more than 1024 threads");
    replace(&cuda, "@grid      ", "@grid      no ");
    fb_planner_set_source(gpu.planner, "own.c", cuda);
    refused(&gpu, "own.c:7: @grid is 3 numbers from 0 to");
    drop(&t);
    drop(&other);
    drop(&wide);
    drop(&gpu);
    fb_free(text);
    fb_free(cuda);
}

/* A kernel of one's own is a kernel by itself, and of the group as it was. */
static void edits_drop_a_file_or_are_refused(void **state)
{
    (void)state;
    int n;
    taken t = planned(two_steps(FB_OP_RELU, 8), FB_DEVICE_CUDA, "none");
    char *text = ejected(&t, &n);
    use(&t, "own.cu", text);
    fb_verdict v = fb_plan_try(t.plan, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA}, NULL);
    assert_int_equal(v.kind, FB_VERDICT_UNSUPPORTED);
    assert_non_null(strstr(v.text, "own.cu"));
    fb_plan *fused = NULL;
    fb_id a = fb_graph_find(t.g, "neg"), b = fb_graph_find(t.g, "last");
    fb_plan_try(t.plan, &(fb_edit){.kind = FB_EDIT_FUSE, .a = a, .b = b}, &fused);
    assert_non_null(fused);
    assert_null(fb_plan_group(fused, 0)->source);
    assert_non_null(fb_plan_group(t.plan, 0)->source);
    fb_plan_free(fused);
    fb_free(text);
    drop(&t);
}

static void check_run(const unit *u, int number, const fb_program *p, const fb_graph *g, bool right)
{
    char text[512];
    if (runs_right(u, number, p, g, text) != right) fail_msg("program %d: %s", number, text);
}

/* As it was written it is right on a GPU; with a mistake in it, it is what runs and is wrong. */
static void its_text_is_what_runs(void **state)
{
    (void)state;
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    int n, number[2];
    fb_error err = {0};
    taken t = planned(stacked(16), FB_DEVICE_CUDA, "eager");
    char *text = ejected(&t, &n);
    fb_program *p[2];
    unit u = {0};
    for (int i = 0; i < 2; i++) {
        if (i) replace(&text, "mean /= 32.0f", "mean /= 31.0f");
        use(&t, "own.cu", text);
        p[i] = fb_lower(t.plan, t.target, &err);
        if (!p[i]) fail_msg("%s", err.text);
        number[i] = unit_add_cuda(&u, p[i]);
    }
    unit_emulate(&u);
    for (int i = 0; i < 2; i++) {
        check_run(&u, number[i], p[i], t.g, i == 0);
        fb_program_free(p[i]);
    }
    unit_free(&u);
    fb_free(text);
    drop(&t);
}

static void sha256_is_what_the_standard_says(void **state)
{
    (void)state;
    char hex[65], many[1000];
    memset(many, 'a', sizeof many);
    assert_string_equal(fb_sha256_hex("", 0, hex), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(fb_sha256_hex("abc", 3, hex),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"; /* 56 bytes: the length needs a block */
    assert_string_equal(fb_sha256_hex(two, strlen(two), hex),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_string_equal(fb_sha256_hex(many, sizeof many, hex),
                        "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_the_kernel_of_all_members),
        cmocka_unit_test(a_stale_file_is_refused),
        cmocka_unit_test(epilogues_share_a_file),
        cmocka_unit_test(edits_drop_a_file_or_are_refused),
        cmocka_unit_test(its_text_is_what_runs),
        cmocka_unit_test(sha256_is_what_the_standard_says),
    };
    return cmocka_run_group_tests_name("eject", tests, NULL, NULL);
}
