/* fusebox export: a column as a folder of C that builds by itself (engine/code/export.h), or of operators for PyTorch
 * around two such folders (engine/code/export_torch.h). docs/EXPORT.md is for users. */
#include "tui/cli/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "code/export.h"
#include "code/export_torch.h"
#include "code/lower.h"
#include "config.h"
#include "decide/preset.h"
#include "device/cuda/compile.h"
#include "graph/graph_json.h"
#include "measure/example.h"
#include "session/names.h"
#include "tui/cli/emit.h"
#include "tui/show/figure.h"
#include "tui/show/table.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEST_BYTES = 64 << 20 }; /* more is no test that anybody keeps */

typedef struct {
    const char *key;
    fb_session_weights is;
} read_file;

typedef struct {
    fb_cli cli;
    const char *as, *name, *arch;
    bool no_test;
    fb_machine machine; /* of --arch */
    fb_session *session;
    fb_arena *arena;
    FB_VEC(fb_export_file) files;
    FB_VEC(read_file) read;
    bool tested;
    int status;
} export_command;

/* ---- options ---- */

enum { KEY_AS = 256, KEY_NAME, KEY_ARCH, KEY_NO_TEST };

static const struct argp_option options[] = {
    {"as", KEY_AS, "FORM", 0,
     "What is written: c (kernels, what launches them, build files and a test), torch (the same as operators of "
     "PyTorch), inductor (a module of Python to import before torch.compile, which then fuses as the plan says)",
     0},
    {"name", KEY_NAME, "NAME", 0, "What functions and files begin with (default: the folder's name)", 0},
    {"arch", KEY_ARCH, "ARCH", 0, "For a GPU of this architecture, such as sm_90, also where none is", 0},
    {"no-test", KEY_NO_TEST, NULL, 0, "Without a test: its expected values take a while where a graph is large", 0},
    {0},
};

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    export_command *e = ctx;
    fb_error err = {0};
    switch (key) {
    case KEY_AS:
        if (strcmp(arg, "c") != 0 && strcmp(arg, "torch") != 0 && strcmp(arg, "inductor") != 0)
            fb_cli_usage("%s: no form \"%s\"; there are: c, torch, inductor", state->name, arg);
        e->as = arg;
        return 0;
    case KEY_NAME: e->name = arg; return 0;
    case KEY_ARCH: e->arch = arg; return 0;
    case KEY_NO_TEST: e->no_test = true; return 0;
    case ARGP_KEY_SUCCESS:
        if (!e->as) fb_cli_usage("%s: --as is missing: --as c, torch or inductor", state->name);
        if (!e->arch) return 0;
        if (!fb_cli_emit_machine(NULL, e->arch, &e->machine, &err)) fb_cli_usage("%s: %s", state->name, err.text);
        e->cli.plan_as = &e->machine;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- what a GPU runs ---- */

#ifdef FB_HAVE_CUDA

/* What uses an architecture's own instructions (".target sm_90a") is taken by no other one, newer or not. */
static bool is_portable(const char *ptx)
{
    const char *target = strstr(ptx, ".target sm_");
    return target && !isalpha((unsigned char)target[strcspn(target, ",\n\r") - 1]);
}

static bool compile(export_command *e, fb_export_job *job, fb_error *err)
{
    const fb_program *p = job->program;
    fb_export_code *codes = FB_NEW_ARRAY(e->arena, fb_export_code, p->n_kernels + 1);
    for (int k = 0; k < p->n_kernels; k++) {
        const fb_kernel *kernel = &p->kernels[k];
        fb_cuda_code cubin = {0}, ptx = {0};
        if (!kernel->source) continue;
        bool fine = fb_cuda_compile_kernel(kernel, job->arch, FB_CUBIN, &cubin, err) &&
                    fb_cuda_compile_kernel(kernel, job->arch, FB_PTX, &ptx, err);
        if (fine) {
            char *bytes = FB_NEW_ARRAY(e->arena, char, cubin.n + 1);
            memcpy(bytes, cubin.bytes, cubin.n);
            codes[k] =
                (fb_export_code){bytes, cubin.n, is_portable(ptx.bytes) ? fb_arena_strdup(e->arena, ptx.bytes) : NULL};
        }
        fb_cuda_code_clear(&cubin);
        fb_cuda_code_clear(&ptx);
        if (!fine) return false;
    }
    job->codes = codes;
    return true;
}

#else

static bool compile(export_command *e, fb_export_job *job, fb_error *err)
{
    (void)e, (void)job;
    return fb_fail(err, FB_ERR_UNAVAILABLE,
                   "this fusebox was built without CUDA's headers and cannot compile for a GPU; a column of the host "
                   "needs none");
}

#endif

/* ---- inputs and what should come of them ---- */

/* All that the example is made from is read first: its graph is evaluated piece by piece. */
static bool read_files(export_command *e, const fb_graph *g, fb_error *err)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const fb_attrs *a = g->nodes[i].attrs;
        bool there = !a->file || a->dist != FB_DIST_FILE;
        for (int k = 0; k < e->read.n && !there; k++) there = strcmp(e->read.at[k].key, a->file) == 0;
        if (there) continue;
        read_file f = {.key = fb_arena_strdup(e->arena, a->file)};
        if (!fb_session_file(e->session, &g->nodes[i], &f.is, err)) return false;
        FB_VEC_PUSH(&e->read, f);
    }
    return true;
}

static bool file_values(void *ctx, const char *key, int64_t n, double *out)
{
    const export_command *e = ctx;
    int k = 0;
    while (k < e->read.n && strcmp(e->read.at[k].key, key) != 0) k++;
    if (k == e->read.n || e->read.at[k].is.n < n) return false;
    memcpy(out, e->read.at[k].is.values, (size_t)n * sizeof *out);
    return true;
}

/* False with an error; without one and nothing in `out`, the test would be too large. */
static bool make_example(export_command *e, fb_export_job *job, fb_str *out, fb_error *err)
{
    const fb_program *p = job->program;
    fb_export_tensor *t;
    int n = fb_export_tensors(p, job->graph, e->arena, &t);
    fb_example_tensor *example = FB_NEW_ARRAY(e->arena, fb_example_tensor, n + 1);
    for (int i = 0; i < n; i++) {
        const fb_buffer *b = &p->buffers[t[i].buffer];
        example[i] = (fb_example_tensor){b->node, t[i].given, b->elements, t[i].checked};
    }
    job->test = !e->no_test && fb_example_bytes(job->graph, example, n) <= TEST_BYTES;
    if (!job->test) return true;
    return read_files(e, job->graph, err) && fb_example_write(job->graph, example, n, 1, file_values, e, out, err);
}

/* ---- the folder ---- */

static void add_files(export_command *e, const char *below, const fb_export_file *files, int n)
{
    for (int i = 0; i < n; i++) {
        fb_export_file f = files[i];
        f.path = fb_arena_printf(e->arena, "%s%s", below, f.path);
        FB_VEC_PUSH(&e->files, f);
    }
}

static bool make_below(const char *path, fb_error *err)
{
    if (mkdir(path, 0777) == 0) return true;
    return fb_fail(err, errno == EEXIST ? FB_ERR_USAGE : FB_ERR_SYSTEM, "%s: %s", path,
                   errno == EEXIST ? "it is there already, and nothing is written over" : strerror(errno));
}

/* The folders that a file lies in, where they are not there yet; nobody else writes into this one. */
static bool make_parents(const char *folder, const char *path, fb_error *err)
{
    char whole[PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct stat there;
        snprintf(whole, sizeof whole, "%s/%.*s", folder, (int)(slash - path), path);
        if (lstat(whole, &there) != 0 && !make_below(whole, err)) return false;
    }
    return true;
}

static bool write_one(const char *folder, const fb_export_file *f, fb_error *err)
{
    char whole[PATH_MAX];
    if (snprintf(whole, sizeof whole, "%s/%s", folder, f->path) >= PATH_MAX)
        return fb_fail(err, FB_ERR_USAGE, "%s: the path is too long", folder);
    return make_parents(folder, f->path, err) && fb_write_file(whole, f->text, f->n, err);
}

/* What was written goes again when not all could be: files first, then their folders, the innermost ones first. */
static void remove_all(const char *folder, const fb_export_file *files, int n)
{
    char path[PATH_MAX];
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].path);
        unlink(path);
    }
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].path);
        for (char *slash; (slash = strrchr(path, '/')) && slash > path + strlen(folder);) {
            *slash = '\0';
            rmdir(path);
        }
    }
    rmdir(folder);
}

static bool write_folder(const export_command *e, const char *folder, fb_error *err)
{
    bool fine = make_below(folder, err);
    if (!fine) return false;
    for (int i = 0; i < e->files.n && fine; i++) fine = write_one(folder, &e->files.at[i], err);
    if (!fine) remove_all(folder, e->files.at, e->files.n);
    return fine;
}

/* ---- the command ---- */

static const char *origin(const export_command *e, const fb_column *c)
{
    fb_str text = {0};
    const char *name;
    json_t *value;
    fb_str_add_clean(&text, fb_file_name(fb_session_path(e->session)), "");
    fb_str_addf(&text, ", column %s%s%s@%s", c->variant, c->variant[0] ? ":" : "", c->plan_name, c->device);
    json_object_foreach(c->params, name, value)
    {
        char *plain = fb_figure_plain(value);
        fb_str_addf(&text, ", %s=", name);
        fb_str_add_clean(&text, plain, "");
        fb_free(plain);
    }
    const char *kept = fb_arena_strdup(e->arena, fb_str_get(&text));
    fb_str_free(&text);
    return kept;
}

/* "out/lstm/" → "lstm". */
static const char *last_part(const char *folder, fb_arena *arena)
{
    char *copy = fb_arena_strdup(arena, folder);
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/') copy[--n] = '\0';
    return fb_file_name(copy);
}

/* A plan's program as C, below `below` of the folder. The job outlives the program as far as texts go. */
static bool add_program(export_command *e, fb_export_job *job, const char *below, fb_error *err)
{
    fb_export_file *files;
    fb_str data = {0};
    bool fine = (!job->target->grid || compile(e, job, err)) && make_example(e, job, &data, err);
    int n = fine ? fb_export_files(job, e->arena, &files, err) : 0;
    if (n) add_files(e, below, files, n);
    if (n && job->test) { /* of tensors without elements the file is empty */
        fb_export_file f = {"test/data.bin", data.n ? fb_arena_copy(e->arena, data.text, data.n) : "", data.n};
        add_files(e, below, &f, 1);
    }
    fb_str_free(&data);
    return n > 0;
}

static fb_export_job job_of(export_command *e, const fb_column *c, const fb_machine *m)
{
    const char *wish = e->name ? e->name : last_part(e->cli.args[2], e->arena);
    fb_export_job job = {.graph = c->graph,
                         .target = m->target,
                         .name = fb_export_name(wish, e->arena),
                         .origin = origin(e, c),
                         .version = PACKAGE_VERSION};
    if (m->target->grid)
        job.arch = e->arch ? e->arch : fb_arena_printf(e->arena, "sm_%d%d", m->compute_major, m->compute_minor);
    return job;
}

/* The plan of a backward graph: by the procedure that made the column's, else by the recommended one. */
static fb_plan *plan_backward(const fb_column *c, fb_planner *planner, fb_error *err)
{
    fb_preset_use use;
    fb_error badly = {0};
    if (!fb_preset_parse(c->plan_name, &use, &badly)) fb_preset_parse(fb_preset_recommended, &use, &badly);
    return fb_preset_make(&use, planner, NULL, err);
}

/* With a gradient where there is one; why there is none goes to the module, which says it when it is asked for one. */
static bool add_torch(export_command *e, const fb_column *c, const fb_machine *m, fb_export_job *forward, fb_error *err)
{
    fb_export_file *files;
    fb_backward gradient;
    fb_error why = {0};
    fb_export_job backward = *forward;
    fb_export_torch torch = {.forward = forward, .why_none = why.text};
    fb_planner *planner = NULL;
    fb_plan *plan = NULL;
    fb_program *program = NULL;
    bool fine = true;
    if (fb_graph_backward(c->graph, e->arena, &gradient, &why)) {
        planner = fb_planner_new(gradient.graph, m);
        plan = plan_backward(c, planner, &why);
        program = plan ? fb_lower_portable(plan, m->target, &why) : NULL;
    }
    if (program) {
        backward.program = program;
        backward.graph = fb_planner_graph(fb_plan_planner(plan));
        backward.name = fb_arena_printf(e->arena, "%s_backward", forward->name);
        backward.origin = fb_arena_printf(e->arena, "%s; its gradients", forward->origin);
        torch.backward = &backward, torch.gradient = &gradient;
        fine = add_program(e, &backward, "backward/", err);
    }
    if (fine) {
        int n = fb_export_torch_files(&torch, e->arena, &files);
        add_files(e, "", files, n);
    }
    if (program) fb_program_free(program);
    if (plan) fb_plan_free(plan);
    if (planner) fb_planner_free(planner);
    if (gradient.graph) fb_graph_free(gradient.graph);
    return fine;
}

static bool export_column(export_command *e, fb_error *err)
{
    const fb_column *c = fb_session_column(e->session, 0);
    const char *folder = e->cli.args[2];
    bool torch = strcmp(e->as, "torch") == 0;
    struct stat there;
    if (lstat(folder, &there) == 0)
        return fb_fail(err, FB_ERR_USAGE, "%s: it is there already, and nothing is written over", folder);
    if (!c->plan) return fb_fail(err, FB_ERR_USAGE, "%s: the device generates its own code", c->text);
    const fb_machine *m = e->arch ? &e->machine : c->machine;
    fb_program *p = fb_lower_portable(c->plan, m->target, err);
    if (!p) return false;
    fb_export_job job = job_of(e, c, m);
    job.program = p;
    bool fine = add_program(e, &job, torch ? "forward/" : "", err) && (!torch || add_torch(e, c, m, &job, err)) &&
                write_folder(e, folder, err);
    if (fine && !job.test && !e->no_test)
        fb_cli_say("%s has no test: its inputs and results are more than %d MB", folder, TEST_BYTES >> 20);
    e->tested = job.test;
    fb_program_free(p);
    return fine;
}

static void say_done(const export_command *e)
{
    fb_str line = {0};
    fb_str_add(&line, "make -C ");
    fb_str_add_word(&line, e->cli.args[2]);
    fb_str_addf(&line, "%s\n", e->tested ? " test" : "");
    fb_put(stdout, fb_str_get(&line));
    fb_str_free(&line);
}

/* The plan, without kernels: a file for PyTorch's own compiler (docs/EXPORT.md). */
static bool export_inductor(export_command *e, fb_error *err)
{
    const fb_column *c = fb_session_column(e->session, 0);
    const char *file = e->cli.args[2], *name = fb_file_name(file);
    size_t n = strlen(name);
    if (n < 4 || strcmp(name + n - 3, ".py") != 0 || strcspn(name, "-. ") != n - 3)
        return fb_fail(err, FB_ERR_USAGE, "%s: what Python imports is called NAME.py, of letters, digits and _", file);
    json_t *request = fb_session_plan_as_groups(c->plan, e->cli.args[1]);
    if (!request)
        return fb_fail(err, FB_ERR_USAGE,
                       "%s: its loops are not those of the graph as written, which Inductor compiles", e->cli.args[1]);
    fb_str text = {0};
    fb_graph_write_json(c->written, &text);
    json_t *graph = fb_json_parse(text.text, text.n, err);
    fb_str_free(&text);
    json_object_set_new(request, "graph", graph);
    json_object_set_new(request, "title", json_string(fb_session_path(e->session)));
    json_object_set_new(request, "module", json_stringn(name, n - 3));
    if (!fb_frameworks_export(request, file, err)) return false;
    fb_cli_say("%s: %d groups; import it before torch.compile", file, fb_plan_groups(c->plan));
    return true;
}

static int export_main(const fb_command *me, int argc, char **argv)
{
    export_command e = {.cli = {.least = 3, .most = 3, .own = own_key, .ctx = &e}};
    fb_error err = {0};
    fb_cli_parse(&e.cli, me, options, argc, argv);
    if (fb_cli_cases(&e.cli) > 1) fb_cli_usage("%s: --set takes one value here", argv[0]);
    e.arena = fb_arena_new();
    e.session = fb_cli_open(&e.cli, e.cli.args[0], &e.status);
    if (e.session && !fb_cli_case(&e.cli, e.session, 0, &err))
        e.status = fb_cli_fail(&err);
    else if (e.session && fb_cli_columns(e.session, e.cli.args[1], fb_preset_recommended, true, &e.status) &&
             fb_cli_plan(e.session, 0, &e.status)) {
        if (strcmp(e.as, "inductor") == 0) {
            if (!export_inductor(&e, &err)) e.status = fb_cli_fail(&err);
        } else if (export_column(&e, &err))
            say_done(&e);
        else
            e.status = fb_cli_fail(&err);
    }
    while (e.read.n) fb_free(e.read.at[--e.read.n].is.own);
    FB_VEC_FREE(&e.read);
    FB_VEC_FREE(&e.files);
    fb_session_free(e.session);
    fb_arena_free(e.arena);
    fb_cli_free(&e.cli);
    return e.status;
}

const fb_command fb_command_export = {.name = "export",
                                      .args = "SCRIPT COLUMN DIR",
                                      .summary = "A column's kernels as a folder of C, or as operators of PyTorch",
                                      .run = export_main};
