/* Writes the module's tables: what a program's tensors are, which of them an operator takes and makes, and where
 * gradients come from and go to. What works on the tables is kernels/export_torch.py. */
#include "code/export_torch.h"

#include "base/ascii.h"
#include "base/embedded.h"
#include "base/hash.h"
#include "base/mem.h"
#include "code/export_parts.h"
#include "code/names.h"

#include <inttypes.h>
#include <string.h>

static const char *const torch_type[FB_DTYPES] = {
    [FB_F32] = "float32", [FB_F16] = "float16", [FB_BF16] = "bfloat16", [FB_F64] = "float64",
    [FB_I32] = "int32",   [FB_I64] = "int64",   [FB_BOOL] = "bool"};

typedef struct {
    const fb_export_job *job;
    int n;
    fb_export_tensor *tensor;
    const char **name; /* as an argument, of those that are given; else NULL */
} side;

/* ---- names ---- */

/* What may be no argument in Python or in a schema. */
static bool is_reserved(const char *name)
{
    static const char *const words[] = {
        "False",    "None",   "True", "and",   "as",     "assert", "async",  "await", "break",    "class",
        "continue", "def",    "del",  "elif",  "else",   "for",    "except", "from",  "finally",  "global",
        "if",       "import", "in",   "is",    "lambda", "not",    "or",     "pass",  "nonlocal", "raise",
        "return",   "self",   "try",  "while", "with",   "yield",  "Tensor", "bool",  "int",      "float",
        "str",      "number", "inf",  "nan",   "Device", "Scalar", "Future", "Any",   "print"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name) == 0) return true;
    return false;
}

static side side_of(const fb_export_job *job, fb_arena *arena)
{
    side s = {.job = job};
    fb_name_set *taken = fb_names_new();
    s.n = fb_export_tensors(job->program, job->graph, arena, &s.tensor);
    s.name = FB_NEW_ARRAY(arena, const char *, s.n + 1);
    for (int i = 0; i < s.n; i++) {
        const char *field = s.tensor[i].field, *name = field;
        if (!s.tensor[i].given) continue;
        if (is_reserved(name)) name = fb_arena_printf(arena, "%s_", field);
        for (int k = 2; fb_names_has(taken, name); k++) name = fb_arena_printf(arena, "%s_%d", field, k);
        fb_names_add(taken, name);
        s.name[i] = name;
    }
    fb_names_free(taken);
    return s;
}

static const fb_buffer *buffer_of(const side *s, int i)
{
    return &s->job->program->buffers[s->tensor[i].buffer];
}

/* ---- tables ---- */

static void add_shape(fb_str *out, const fb_shape *shape)
{
    fb_str_add(out, "(");
    for (int d = 0; d < shape->rank; d++)
        fb_str_addf(out, "%s%" PRId64 "%s", d ? " " : "", shape->dim[d], d + 1 < shape->rank || !d ? "," : "");
    fb_str_add(out, ")");
}

/* How a parameter may begin: as the script's does. */
static void add_start(fb_str *out, const fb_node *n)
{
    static const char *const name[FB_DISTS] = {[FB_DIST_UNIFORM] = "uniform",
                                               [FB_DIST_NORMAL] = "normal",
                                               [FB_DIST_INTEGER] = "integer",
                                               [FB_DIST_CONSTANT] = "constant",
                                               [FB_DIST_FILE] = "file"};
    fb_str_addf(out, "(\"%s\", %.17g, %.17g)", name[n->attrs->dist], n->attrs->value, n->attrs->high);
}

static void add_tensor(fb_str *out, const side *s, int i)
{
    const fb_buffer *b = buffer_of(s, i);
    const fb_node *n = &s->job->graph->nodes[b->node];
    const char *role = b->kind == FB_BUFFER_OUTPUT ? "output" : b->kind == FB_BUFFER_PARAM ? "parameter" : "input";
    fb_shape shape = fb_shape_elements(&n->shape) == b->elements ? n->shape : fb_shape_of(1, &b->elements);
    fb_str_addf(out, "    _Tensor(\"%s\", \"%s\", \"%s\", torch.%s, ", s->name[i] ? s->name[i] : s->tensor[i].field,
                b->name, role, torch_type[b->dtype]);
    add_shape(out, &shape);
    fb_str_addf(out, ", %s", b->assigned ? "True" : "False");
    if (b->kind == FB_BUFFER_PARAM) fb_str_add(out, ", "), add_start(out, n);
    fb_str_add(out, "),\n");
}

static void add_tensors(fb_str *out, const char *name, const side *s)
{
    fb_str_addf(out, "%s = [\n", name);
    for (int i = 0; i < s->n; i++) add_tensor(out, s, i);
    fb_str_add(out, "]\n");
}

static int tensor_in(const side *s, int buffer)
{
    for (int i = 0; i < s->n; i++)
        if (s->tensor[i].buffer == buffer) return i;
    return FB_NONE;
}

/* What the script returns, in its order, and behind it what it sends to the host. */
static void add_outputs(fb_str *out, const side *s)
{
    const fb_graph *g = s->job->graph;
    bool *seen = fb_calloc((size_t)s->n + 1, sizeof *seen);
    fb_str_add(out, "# (tensor, shape) of each that run() returns.\n_OUTPUTS = [");
    for (int i = 0; i < g->n_outputs; i++) {
        int t = tensor_in(s, fb_program_left(s->job->program, g, g->outputs[i]));
        if (t == FB_NONE) continue;
        seen[t] = true;
        fb_str_addf(out, "(%d, ", t);
        add_shape(out, &g->nodes[g->outputs[i]].shape);
        fb_str_add(out, "), ");
    }
    for (int i = 0; i < s->n; i++) {
        const fb_node *n = &g->nodes[buffer_of(s, i)->node];
        if (s->tensor[i].given || seen[i]) continue;
        fb_str_addf(out, "(%d, ", i);
        add_shape(out, &n->shape);
        fb_str_add(out, "), ");
    }
    fb_str_add(out, "]\n");
    fb_free(seen);
}

/* Of the backward program's tensors that are given: a tensor of the forward program, or the gradient of one. */
static void add_gives(fb_str *out, const side *forward, const side *backward, const fb_backward *gradient)
{
    const fb_graph *g = forward->job->graph;
    fb_str_add(out, "# What the backward program is given: (\"value\" or \"gradient\", a tensor of the forward one).\n"
                    "_GIVES = [");
    for (int i = 0; i < backward->n; i++) {
        const char *name = buffer_of(backward, i)->name, *kind = "value";
        int t = FB_NONE;
        if (!backward->tensor[i].given) continue;
        for (int o = 0; o < g->n_outputs; o++) {
            if (!gradient->arrives[o] || strcmp(gradient->arrives[o], name) != 0) continue;
            t = tensor_in(forward, fb_program_left(forward->job->program, g, g->outputs[o]));
            kind = "gradient";
        }
        for (int k = 0; k < forward->n && t == FB_NONE; k++)
            if (forward->tensor[k].given && strcmp(buffer_of(forward, k)->name, name) == 0) t = k;
        fb_str_addf(out, "(\"%s\", %d), ", kind, t);
    }
    fb_str_add(out, "]\n");
}

/* The gradient of each forward tensor that is given: a tensor of the backward program, None where it has none. */
static void add_takes(fb_str *out, const side *forward, const side *backward, const fb_backward *gradient)
{
    fb_str_add(out,
               "# Where the gradient of each that run() takes is left: a tensor of the backward program.\n_TAKES = [");
    for (int i = 0; i < forward->n; i++) {
        int t = FB_NONE;
        if (!forward->tensor[i].given) continue;
        for (int k = 0; k < gradient->n; k++) {
            if (gradient->source[k] != buffer_of(forward, i)->node) continue;
            const fb_graph *g = backward->job->graph;
            t = tensor_in(backward, fb_program_left(backward->job->program, g, g->outputs[gradient->leaves[k]]));
        }
        if (t == FB_NONE)
            fb_str_add(out, "None, ");
        else
            fb_str_addf(out, "%d, ", t);
    }
    fb_str_add(out, "]\n");
}

/* ---- what people call ---- */

static int count_role(const side *s, fb_buffer_kind kind)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) n += buffer_of(s, i)->kind == kind;
    return n;
}

/* The names of those of a kind, or of all that are given, with commas between. */
static void add_names(fb_str *out, const side *s, const char *before, int kind)
{
    for (int i = 0; i < s->n; i++) {
        if (!s->name[i] || (kind >= 0 && buffer_of(s, i)->kind != (fb_buffer_kind)kind)) continue;
        fb_str_addf(out, "%s%s", before, s->name[i]);
        before = ", ";
    }
}

static void add_calls(fb_str *out, const side *s)
{
    fb_str_add(out, "\n\ndef run(");
    add_names(out, s, "", -1);
    fb_str_add(out, "):\n    \"\"\"What the script computes, of tensors as the table _FORWARD has them.\"\"\"\n"
                    "    return _finish((");
    add_names(out, s, "", -1);
    fb_str_addf(out, "%s))\n", count_role(s, FB_BUFFER_INPUT) + count_role(s, FB_BUFFER_PARAM) == 1 ? "," : "");
    fb_str_add(out, "\n\nclass Module(_Module):\n"
                    "    \"\"\"The same with the script's parameters as its own, under the script's names.\"\"\"\n\n"
                    "    def forward(self");
    add_names(out, s, ", ", FB_BUFFER_INPUT);
    fb_str_add(out, "):\n        return _finish(self._with((");
    add_names(out, s, "", FB_BUFFER_INPUT);
    fb_str_addf(out, "%s)))\n", count_role(s, FB_BUFFER_INPUT) == 1 ? "," : "");
}

/* ---- files ---- */

static void add_origin(fb_str *out, const fb_export_job *job, const char *what)
{
    fb_str_addf(out, "# %s: %s\n# Written by fusebox %s from ", job->name, what, job->version);
    for (const char *p = job->origin; *p; p++) fb_str_add_n(out, (unsigned char)*p < ' ' ? "?" : p, 1);
    fb_str_add(out, ".\n");
}

static void add_quoted(fb_str *out, const char *text)
{
    fb_str_add(out, "\"");
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\') fb_str_add(out, "\\");
        fb_str_add_n(out, (unsigned char)*p < ' ' ? " " : p, 1);
    }
    fb_str_add(out, "\"");
}

/* What the operators take and give. */
static void add_tables(fb_str *out, const fb_export_torch *t, const side *forward, fb_arena *arena)
{
    add_tensors(out, "_FORWARD", forward);
    add_outputs(out, forward);
    if (!t->backward) return;
    side backward = side_of(t->backward, arena);
    add_tensors(out, "_BACKWARD", &backward);
    add_gives(out, forward, &backward, t->gradient);
    add_takes(out, forward, &backward, t->gradient);
}

/* Names of operators hold what their tables hash to: what PyTorch's compilers keep of another export of the same name
 * calls no operator of this one. */
static void add_programs(fb_str *out, const fb_export_torch *t, const char *key)
{
    fb_str_addf(out, "_forward = _Program(\"run_%.8s\", _NAME, \"forward\", _FORWARD)\n", key);
    if (t->backward) {
        fb_str_addf(out, "_backward = _Program(\"run_backward_%.8s\", \"%s\", \"backward\", _BACKWARD)\n", key,
                    t->backward->name);
        fb_str_add(out, "_no_gradient(_backward, \"there is no gradient of a gradient\")\n"
                        "_gradient(_forward, _backward, _GIVES, _TAKES)\n");
    } else {
        fb_str_add(out, "_no_gradient(_forward, ");
        add_quoted(out, t->why_none);
        fb_str_add(out, ")\n");
    }
}

static void add_module(fb_str *out, const fb_export_torch *t, fb_arena *arena)
{
    side forward = side_of(t->forward, arena);
    const fb_export_job *job = t->forward;
    fb_str tables = {0};
    char hex[33];
    add_tables(&tables, t, &forward, arena);
    add_origin(out, job, "operators for PyTorch, out of the C libraries beside this file");
    fb_str_addf(out, "_NAME = \"%s\"\n_DEVICE = \"%s\"\n\n", job->name, job->target->grid ? "cuda" : "cpu");
    fb_str_add(out, fb_embedded("kernels/export_torch.py"));
    fb_str_add(out, "\n\n# ---- this export\n\n");
    fb_str_add(out, fb_str_get(&tables));
    add_programs(out, t, fb_hash_hex(fb_hash_bytes(tables.text, tables.n), hex));
    add_calls(out, &forward);
    fb_str_free(&tables);
}

static void add_makefile(fb_str *out, const fb_export_torch *t)
{
    add_origin(out, t->forward, "the libraries, and their tests");
    fb_str_addf(out, "FOLDERS = forward%s\n", t->backward ? " backward" : "");
    fb_str_add(out, fb_embedded("kernels/export_torch.mk"));
}

/* Which tensors the test's file has expected values of. */
static void add_checked(fb_str *out, const char *name, const fb_export_job *job, fb_arena *arena)
{
    side s = side_of(job, arena);
    fb_str_addf(out, "CHECKED_%s = [", name);
    for (int i = 0; i < s.n; i++)
        fb_str_addf(out, "%s%s", i ? ", " : "", s.tensor[i].checked != FB_NONE ? "True" : "False");
    fb_str_add(out, "]\n");
}

static void add_test(fb_str *out, const fb_export_torch *t, fb_arena *arena)
{
    add_origin(out, t->forward, "the operators on PyTorch's tensors, compared with the reference");
    fb_str_addf(out, "MODULE = \"%s_torch\"\n", t->forward->name);
    add_checked(out, "FORWARD", t->forward, arena);
    if (t->backward) add_checked(out, "BACKWARD", t->backward, arena);
    fb_str_addf(out, "TESTED = %s\n", t->forward->test ? "True" : "False");
    fb_str_addf(out, "DIFFERENTIATED = %s\n\n", t->backward && t->backward->test ? "True" : "False");
    fb_str_add(out, fb_embedded("kernels/export_torch_test.py"));
}

int fb_export_torch_files(const fb_export_torch *t, fb_arena *arena, fb_export_file **out)
{
    enum { FILES = 3 };
    const char *paths[FILES] = {fb_arena_printf(arena, "%s_torch.py", t->forward->name), "Makefile", "test_torch.py"};
    fb_str text[FILES] = {{0}};
    add_module(&text[0], t, arena);
    add_makefile(&text[1], t);
    add_test(&text[2], t, arena);
    *out = FB_NEW_ARRAY(arena, fb_export_file, FILES);
    for (int i = 0; i < FILES; i++) {
        (*out)[i] = (fb_export_file){paths[i], fb_arena_strdup(arena, fb_str_get(&text[i])), text[i].n};
        fb_str_free(&text[i]);
    }
    return FILES;
}
