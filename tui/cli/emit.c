/* Prints source, PTX, machine code or resources of a plan's kernels. Needs a plan and a machine, no device. */
#include "tui/cli/emit.h"

#include "base/mem.h"
#include "base/str.h"
#include "code/lower.h"
#include "config.h"
#include "device/cuda/compile.h"
#include "tui/show/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const form_name[] = {
    [FB_EMIT_PTX] = "ptx", [FB_EMIT_SASS] = "sass", [FB_EMIT_RESOURCES] = "resources"};

void fb_cli_emit_targets(fb_str *out)
{
    const fb_target *t;
    for (int i = 0; (t = fb_target_written(i)); i++) fb_str_addf(out, "%s%s", i ? ", " : "", t->name);
    for (int i = FB_EMIT_PTX; i <= FB_EMIT_RESOURCES; i++) fb_str_addf(out, ", %s", form_name[i]);
}

bool fb_cli_emit_target_parse(const char *name, fb_cli_emit_target *out)
{
    *out = (fb_cli_emit_target){.written = fb_target_find(name)};
    for (int i = FB_EMIT_PTX; i <= FB_EMIT_RESOURCES; i++) {
        if (strcmp(name, form_name[i]) == 0) *out = (fb_cli_emit_target){fb_target_assembled(), (fb_cli_emit_form)i};
    }
    return out->written != NULL;
}

/* Where architectures are told apart: those of another target have no names here. */
static bool machine_of(const fb_target *target, const char *arch, fb_machine *m, fb_error *err)
{
    fb_machine_default(m, (target ? target : fb_target_assembled())->kind);
    if (m->target == fb_target_assembled() || !arch) return true;
    return fb_fail(err, FB_ERR_USAGE, "--arch %s: fusebox knows no architectures of %s", arch, m->target->title);
}

/* ---- which kernels ---- */

/* What runs a group; FB_NONE: a call of the library without anything of ours. */
static int kernel_of_group(const fb_program *p, int group)
{
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->group != group) continue;
        if (l->kind == FB_LAUNCH_KERNEL) return l->kernel;
        if (l->kind == FB_LAUNCH_GEMM) return p->gemms[l->gemm].epilogue;
    }
    return FB_NONE;
}

static bool no_such(const fb_program *p, const fb_cli_emit_choice *which, fb_error *err)
{
    fb_str names = {0};
    for (int k = 0; k < p->n_kernels && k < 12; k++) fb_str_addf(&names, "%s%s", k ? ", " : "", p->kernels[k].name);
    if (which->n_groups)
        fb_fail(err, FB_ERR_UNAVAILABLE, "kernel %d is the library's: there is no source", which->groups[0] + 1);
    else
        fb_fail(err, FB_ERR_USAGE, "no kernel \"%s\"; there are: %s%s", which->name, fb_str_get(&names),
                p->n_kernels > 12 ? " …" : "");
    fb_str_free(&names);
    return false;
}

/* Marks the kernels that are asked for. The program's own names come first: a kernel of several groups has one too. */
static bool choose(const fb_program *p, const fb_cli_emit_choice *which, bool *chosen, fb_error *err)
{
    bool any = !which->name;
    for (int k = 0; k < p->n_kernels; k++) {
        chosen[k] = !which->name || !strcmp(p->kernels[k].name, which->name);
        any |= chosen[k];
    }
    for (int i = 0, named = any; i < which->n_groups && !named; i++) {
        int k = kernel_of_group(p, which->groups[i]);
        if (k == FB_NONE) continue;
        chosen[k] = any = true;
    }
    return any || no_such(p, which, err);
}

static bool has_source(const fb_program *p)
{
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].source) return true;
    return false;
}

typedef struct {
    bool all;
    bool *chosen; /* a kernel each */
} selection;

static bool wanted(const fb_program *p, int k, const selection *s)
{
    return p->kernels[k].source && s->chosen[k];
}

/* ---- source ---- */

static void print_source(const fb_program *p, const fb_target *target, const selection *s, FILE *out)
{
    fb_str text = {0};
    if (s->all) fb_program_print(p, target, &text);
    for (int k = 0, n = 0; k < p->n_kernels && !s->all; k++)
        if (wanted(p, k, s)) fb_str_addf(&text, "%s%s", n++ ? "\n" : "", p->kernels[k].source);
    fb_put_source(out, fb_str_get(&text));
    fb_str_free(&text);
}

#ifdef FB_HAVE_CUDA

bool fb_cli_emit_machine(const fb_target *target, const char *arch, fb_machine *m, fb_error *err)
{
    if (!machine_of(target, arch, m, err)) return false;
    return m->target != fb_target_assembled() || fb_cuda_arch_limits(arch ? arch : "sm_90", m, err);
}

static bool compile(const fb_kernel *k, const char *arch, fb_cuda_code_kind kind, fb_cuda_code *code, fb_error *err)
{
    return fb_cuda_compile_kernel(k, arch, kind, code, err);
}

static bool print_ptx(const fb_kernel *k, const char *arch, FILE *out, fb_error *err)
{
    fb_cuda_code code;
    if (!compile(k, arch, FB_PTX, &code, err)) return false;
    fprintf(out, "// %s\n", k->name);
    fb_put_source(out, (const char *)code.bytes);
    fputc('\n', out);
    fb_cuda_code_clear(&code);
    return true;
}

/* ---- machine code ---- */

typedef struct {
    const char *name, *option; /* as the toolkit has them; NULL: it needs none */
} disassembler;

static const disassembler disassemblers[] = {{"nvdisasm", "-c"}, {"cuobjdump", "-sass"}};

/* FOLDER/NAME, if it can be run; `folder` may end with another, after a colon. */
static bool is_program(const char *folder, size_t n, const char *below, const char *name, char to[4096])
{
    int length = snprintf(to, 4096, "%.*s%s/%s", (int)n, folder, below, name);
    return n && length < 4096 && access(to, X_OK) == 0;
}

static bool find_program(const char *name, char to[4096])
{
    for (const char *at = getenv("PATH"); at && *at; at += at[strcspn(at, ":")] == ':') {
        size_t n = strcspn(at, ":");
        if (is_program(at, n, "", name, to)) return true;
        at += n;
    }
    const char *const roots[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (roots[i] && is_program(roots[i], strlen(roots[i]), "/bin", name, to)) return true;
    return false;
}

static bool run_program(const char *program, const char *option, const char *file, FILE *out, fb_error *err)
{
    fflush(out);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        execl(program, program, option, file, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    return fb_fail(err, FB_ERR_SYSTEM, "%s cannot read a kernel that NVRTC made", program);
}

static bool print_sass(const fb_kernel *k, const char *arch, const char *program, const char *option, FILE *out,
                       fb_error *err)
{
    fb_cuda_code code;
    if (!compile(k, arch, FB_CUBIN, &code, err)) return false;
    const char *folder = getenv("TMPDIR");
    char file[4096];
    snprintf(file, sizeof file, "%s/fusebox-XXXXXX", folder && folder[0] ? folder : "/tmp");
    int fd = mkstemp(file);
    bool good = fd >= 0 && write(fd, code.bytes, code.n) == (ssize_t)code.n;
    if (!good) fb_fail(err, FB_ERR_SYSTEM, "%s: %s", file, strerror(errno));
    if (good) fprintf(out, "// %s\n", k->name);
    good = good && run_program(program, option, file, out, err);
    if (fd >= 0) {
        close(fd);
        unlink(file);
    }
    fb_cuda_code_clear(&code);
    return good;
}

static bool print_all_sass(const fb_program *p, const selection *s, const char *arch, FILE *out, fb_error *err)
{
    char program[4096];
    size_t d = 0, n = sizeof disassemblers / sizeof *disassemblers;
    while (d < n && !find_program(disassemblers[d].name, program)) d++;
    if (d == n)
        return fb_fail(err, FB_ERR_UNAVAILABLE,
                       "machine code needs nvdisasm or cuobjdump of the CUDA toolkit, which are neither on PATH nor "
                       "under CUDA_HOME; --target ptx needs neither");
    for (int k = 0; k < p->n_kernels; k++)
        if (wanted(p, k, s) && !print_sass(&p->kernels[k], arch, program, disassemblers[d].option, out, err))
            return false;
    return true;
}

/* ---- resources ---- */

static void dimensions(fb_table *t, const int d[3])
{
    fb_table_cellf(t, d[2] > 1 ? "%d×%d×%d" : d[1] > 1 ? "%d×%d" : "%d", d[0], d[1], d[2]);
}

static bool add_kernel(fb_table *t, const fb_kernel *k, const char *arch, const fb_machine *m, fb_error *err)
{
    fb_cuda_code code;
    if (!compile(k, arch, FB_CUBIN, &code, err)) return false;
    int threads = k->block[0] * k->block[1] * k->block[2], shared = code.shared_bytes + k->dynamic_shared;
    fb_table_row(t);
    fb_table_cell(t, k->name);
    fb_table_cell(t, fb_family_name(k->family));
    dimensions(t, k->grid);
    dimensions(t, k->block);
    fb_table_cellf(t, "%d", code.registers);
    fb_table_cellf(t, "%d", shared);
    fb_table_cellf(t, "%d", code.spill_bytes);
    fb_table_cellf(t, "%d", code.stack_bytes);
    fb_table_cellf(t, "%.0f %%", 100 * fb_cuda_occupancy(m, code.registers, shared, threads));
    fb_cuda_code_clear(&code);
    return true;
}

static void add_call(fb_table *t, const fb_gemm_call *g)
{
    fb_table_row(t);
    fb_table_cell(t, g->convolution.space ? "cuDNN" : "cuBLASLt");
    fb_table_cell(t, fb_family_name(FB_FAMILY_LIBRARY));
    fb_str text = {0};
    fb_str_addf(&text, "%lld×%lld×%lld", (long long)g->m, (long long)g->n, (long long)g->k);
    if (g->batch > 1) fb_str_addf(&text, ", %lld of them", (long long)g->batch);
    fb_table_rest(t, fb_str_get(&text));
    fb_str_free(&text);
}

static bool print_resources(const fb_program *p, const selection *s, const char *arch, const fb_machine *m, FILE *out,
                            fb_error *err)
{
    static const struct {
        const char *title, *under;
        bool left;
    } columns[] = {{"kernel", "", true},        {"family", "", true},         {"grid", "blocks", false},
                   {"block", "threads", false}, {"registers", "", false},     {"shared", "bytes", false},
                   {"spills", "bytes", false},  {"local", "a thread", false}, {"occupancy", "", false}};
    fb_table *t = fb_table_new();
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        fb_table_column(t, columns[i].title, columns[i].under, columns[i].left);
    bool good = true;
    for (int k = 0; good && k < p->n_kernels; k++)
        if (wanted(p, k, s)) good = add_kernel(t, &p->kernels[k], arch, m, err);
    for (int g = 0; g < p->n_gemms && s->all; g++) add_call(t, &p->gemms[g]);
    if (good) {
        fb_table_print(t, FB_FORMAT_TABLE, out);
        fb_put(out, "\n");
        fprintf(out, "%s: %d registers and %d threads a multiprocessor, %d bytes shared memory a block\n", arch,
                m->registers_per_unit, m->max_threads_per_unit, (int)m->shared_bytes);
    }
    fb_table_free(t);
    return good;
}

static bool emit_compiled(const fb_program *p, fb_cli_emit_form form, const selection *s, const char *arch,
                          const fb_machine *m, FILE *out, fb_error *err)
{
    char own[16];
    snprintf(own, sizeof own, "sm_%d%d", m->compute_major, m->compute_minor);
    if (!arch) arch = own;
    switch (form) {
    case FB_EMIT_SASS: return print_all_sass(p, s, arch, out, err);
    case FB_EMIT_RESOURCES: return print_resources(p, s, arch, m, out, err);
    case FB_EMIT_PTX:
        for (int k = 0; k < p->n_kernels; k++)
            if (wanted(p, k, s) && !print_ptx(&p->kernels[k], arch, out, err)) return false;
        return true;
    default: return true;
    }
}

#else

bool fb_cli_emit_machine(const fb_target *target, const char *arch, fb_machine *m, fb_error *err)
{
    return machine_of(target, arch, m, err);
}

static bool emit_compiled(const fb_program *p, fb_cli_emit_form form, const selection *s, const char *arch,
                          const fb_machine *m, FILE *out, fb_error *err)
{
    (void)p, (void)form, (void)s, (void)arch, (void)m, (void)out;
    return fb_fail(err, FB_ERR_UNAVAILABLE,
                   "this fusebox was built without CUDA's headers and cannot call NVRTC; --target cuda needs none");
}

#endif

bool fb_cli_emit(const fb_plan *plan, fb_cli_emit_target target, const char *arch, const fb_cli_emit_choice *which,
                 const fb_machine *m, FILE *out, bool *nothing, fb_error *err)
{
    const fb_target *written = target.written ? target.written : m->target;
    fb_program *p = fb_lower(plan, written, err);
    if (!p) return false;
    selection s = {.all = !which->name, .chosen = fb_calloc((size_t)p->n_kernels + 1, sizeof(bool))};
    bool good = choose(p, which, s.chosen, err);
    *nothing = !has_source(p);
    if (good && target.form == FB_EMIT_SOURCE)
        print_source(p, written, &s, out);
    else if (good)
        good = emit_compiled(p, target.form, &s, arch, m, out, err);
    fb_free(s.chosen);
    fb_program_free(p);
    return good;
}
