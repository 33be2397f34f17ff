/* The net under code generation: what every bundled script × variant × dtype × preset becomes for each target, by
 * digest. tests/golden/programs.txt has a line each; `make programs` writes it anew. Nothing is compiled or run.
 *
 * FB_PROGRAMS=FOLDER (which exists) writes each program's text there, so that `diff -r` of two builds' folders shows
 * what changed; FB_SCRIPT=NAME takes one script and compares nothing. Under the address sanitizer with FB_TURN: a part. */
#include "unit/script_harness.h"
#include "unit/scripts_help.h"
#include "unit/turn.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "code/lower.h"
#include "decide/preset.h"

#include <inttypes.h>

enum { TARGETS = 2, LIMIT_MS = 180000, FILE_LIMIT = 1 << 22 };

static const fb_device_kind kinds[TARGETS] = {FB_DEVICE_HOST, FB_DEVICE_CUDA};
static const fb_target *const targets[TARGETS] = {&fb_target_c, &fb_target_cuda};
static const char *const dtypes[] = {"f32", "bf16", "f16"};

/* Beside the presets: `max` as one kernel, and with its first loop as one. */
static const char *const merged[] = {"max+mega", "max+loop"};

typedef struct {
    fb_machine machine[TARGETS];
    fb_str lines;
    const char *folder; /* for texts, or NULL */
    unsigned parts;     /* scripts × dtypes so far */
    fb_str left_out;    /* how the lines begin that were not made, one a line */
} net;

static bool is_made(unsigned part)
{
#ifdef __SANITIZE_ADDRESS__
    return is_our_turn(part);
#else
    (void)part;
    return true;
#endif
}

static bool is_left_out(const net *n, const char *line)
{
    for (const char *at = fb_str_get(&n->left_out); *at; at += strcspn(at, "\n") + 1)
        if (strncmp(at, line, strcspn(at, "\n")) == 0) return true;
    return false;
}

/* The program's hash, and what that leaves out. */
static fb_hash digest_of(const fb_program *p)
{
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add(h, &p->hash, sizeof p->hash);
    for (int k = 0; k < p->n_kernels; k++) {
        fb_hasher_add_text(h, p->kernels[k].entry);
        fb_hasher_add_i64(h, p->kernels[k].stage.kept_shared);
    }
    return fb_hasher_end(h);
}

static void write_text(const net *n, const char *line, const fb_target *t, const fb_program *p)
{
    char path[4096];
    fb_str text = {0};
    fb_error err;
    int at = snprintf(path, sizeof path, "%s/", n->folder);
    snprintf(path + at, sizeof path - (size_t)at, "%s", line);
    for (char *c = path + at; *c; c++)
        if (*c == ' ') *c = '.';
    fb_program_print(p, t, &text);
    if (!fb_write_file(path, text.text, text.n, &err)) fail_msg("%s", err.text);
    fb_str_free(&text);
}

/* Kernels, calls, and copies that no group makes: the cost model counts what is launched. */
static void launches_are_foreseen(const char *line, const fb_plan *plan, const fb_program *p)
{
    fb_plan_cost cost;
    fb_plan_cost_of(plan, &cost);
    if (cost.launches != fb_program_launches(p))
        fprintf(stderr, "%s: %d launches foreseen, %lld made\n", line, cost.launches,
                (long long)fb_program_launches(p));
}

/* "split_stack combined f32 max cuda  DIGEST 1", or why there is none. */
static void add_line(net *n, const char *what, const char *plan_name, int target, const fb_plan *plan)
{
    fb_error err = {0};
    fb_program *p = fb_lower(plan, targets[target], &err);
    char line[256], hex[33];
    snprintf(line, sizeof line, "%.150s %s %s", what, plan_name, targets[target]->name);
    if (p)
        fb_str_addf(&n->lines, "%s %.16s %d\n", line, fb_hash_hex(digest_of(p), hex), p->n_kernels);
    else
        fb_str_addf(&n->lines, "%s - %s\n", line, err.text);
    if (p && n->folder) write_text(n, line, targets[target], p);
    if (p) launches_are_foreseen(line, plan, p);
    fb_program_free(p);
}

static void add_merged(net *n, const char *what, int target, fb_planner *planner)
{
    fb_error err;
    fb_plan *max = fb_preset_find("max")->make(planner, &err), *mega = NULL;
    fb_plan_try(max, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA}, &mega);
    if (mega) add_line(n, what, merged[0], target, mega);
    if (mega) fb_plan_free(mega);
    fb_plan_free(max);
    if (fb_planner_graph(planner)->n_regions < 2) return;
    fb_plan *loop = one_kernel(planner);
    add_line(n, what, merged[1], target, loop);
    fb_plan_free(loop);
}

static void add_variant(net *n, const char *what, const fb_graph *g)
{
    for (int t = 0; t < TARGETS; t++) {
        fb_planner *planner = fb_planner_new(g, &n->machine[t]);
        for (int i = 0; i < fb_presets(); i++) {
            fb_error err;
            fb_plan *plan = fb_preset_at(i)->make(planner, &err);
            add_line(n, what, fb_preset_at(i)->name, t, plan);
            fb_plan_free(plan);
        }
        add_merged(n, what, t, planner);
        fb_planner_free(planner);
    }
}

static void add_script(net *n, const char *path)
{
    char whole[4096], name[64], what[200];
    fb_error err = {0};
    fb_script_event e, built;
    script_name(path, name);
    snprintf(whole, sizeof whole, "%s/%s", source_dir(), path);
    fb_script *s = fb_script_start(whole, NULL, &err);
    if (!s) fail_msg("%s", err.text);
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind != FB_SCRIPT_INFO) fail_msg("%s: %s", path, e.error.text);
    json_t *set = json_object();
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        bool chooses = has_choice(e.info, "dtype", dtypes[d]);
        const bool made = is_made(n->parts++);
        if (chooses) json_object_set_new(set, "dtype", json_string(dtypes[d]));
        for (int v = 0; v < e.info->n_variants && (chooses || d == 0); v++) {
            const char *variant = e.info->variants[v];
            snprintf(what, sizeof what, "%s %s %s", name, variant[0] ? variant : "-", chooses ? dtypes[d] : "-");
            if (!made) {
                fb_str_addf(&n->left_out, "%s \n", what);
                continue;
            }
            fb_script_build(s, variant, set);
            assert_true(next_event(s, &built, LIMIT_MS));
            if (built.kind != FB_SCRIPT_GRAPH) fail_msg("%s: %s", what, built.error.text);
            add_variant(n, what, built.graph);
            fb_graph_free(built.graph);
        }
    }
    json_decref(set);
    fb_script_info_free(e.info);
    fb_script_free(s);
}

/* Fails with the first lines that differ. */
static void compare(const net *n, const char *want)
{
    const char *got = fb_str_get(&n->lines);
    int differ = 0;
    while (*got || *want) {
        if (is_left_out(n, want)) {
            want += strcspn(want, "\n");
            want += *want == '\n';
            continue;
        }
        size_t g = strcspn(got, "\n"), w = strcspn(want, "\n");
        if (g != w || memcmp(got, want, g) != 0) {
            if (differ++ < 8) print_message("# was %.*s\n#  is %.*s\n", (int)w, want, (int)g, got);
        }
        got += g + (got[g] == '\n');
        want += w + (want[w] == '\n');
    }
    if (differ)
        fail_msg("%d programs differ. To see how: FB_PROGRAMS=FOLDER test_programs with this build and the one before, "
                 "then diff -r. If it is meant: make programs",
                 differ);
}

static void programs_are_what_they_were(void **state)
{
    (void)state;
    char path[4096];
    size_t size;
    fb_error err = {0};
    const char *only = getenv("FB_SCRIPT");
    net n = {.folder = getenv("FB_PROGRAMS")};
    for (int t = 0; t < TARGETS; t++) fb_machine_default(&n.machine[t], kinds[t]);
    for (int i = 0; fb_embedded_files[i].path; i++) {
        const char *script = fb_embedded_files[i].path;
        if (is_bundled(script) && (!only || strstr(script, only))) add_script(&n, script);
    }
    snprintf(path, sizeof path, "%s/tests/golden/programs.txt", source_dir());
    if (getenv("FB_UPDATE_GOLDEN") && !only && !fb_write_file(path, n.lines.text, n.lines.n, &err))
        fail_msg("%s", err.text);
    char *want = fb_read_file(path, FILE_LIMIT, &size, &err);
    if (!want) fail_msg("%s", err.text);
    if (!only) compare(&n, want);
    fb_free(want);
    fb_str_free(&n.lines);
    fb_str_free(&n.left_out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_are_what_they_were)};
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
