/* Writes a kernel as a file and reads it back. The interface that a file was made for is written out as text, nodes by
 * shape and op and not by name, and hashed; what no longer hashes to the same is refused with the first line that
 * differs. Needs a lowered program; leaves it as it was.
 */
#include "code/eject.h"

#include "base/hash.h"
#include "graph/access.h"
#include "graph/print.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ACCESSES = 2, MOST_VALUE = 1000 };

/* ---- what the kernel is given and computes ---- */

static int arg_of(const fb_eject_kernel *k, fb_id storage)
{
    for (int i = 0; i < k->text->n_args; i++)
        if (k->text->args[i].storage == storage) return i;
    return FB_NONE;
}

static int place_in_group(const fb_group *group, fb_id node)
{
    for (int i = 0; i < group->n_nodes; i++)
        if (group->nodes[i] == node) return i;
    return FB_NONE;
}

static void add_type(const fb_graph *g, fb_id node, fb_str *out)
{
    char shape[192];
    fb_str_add(out, fb_shape_format(&g->nodes[node].shape, g->nodes[node].dtype, shape));
}

static void add_ints(fb_str *out, const char *before, const int64_t *v, int n)
{
    fb_str_addf(out, "%s[", before);
    for (int i = 0; i < n; i++) fb_str_addf(out, "%s%" PRId64, i ? "," : "", v[i]);
    fb_str_add(out, "]");
}

/* What a library call reads is not the kernel's, which does the rest of the group. */
static bool is_elsewhere(const fb_eject_kernel *k, fb_id node)
{
    if (arg_of(k, node) != FB_NONE || place_in_group(k->group, node) != FB_NONE) return false;
    fb_op op = k->graph->nodes[node].op;
    return fb_node_class(k->graph, node) != FB_CLASS_SOURCE || op == FB_OP_INPUT || op == FB_OP_PARAM ||
           op == FB_OP_CARRIED || op == FB_OP_ITEM;
}

/* A value that is no view: of the group, of an argument, or written into the code. */
static void add_value(const fb_eject_kernel *k, fb_id node, fb_str *out)
{
    int arg = arg_of(k, node), place = place_in_group(k->group, node);
    if (is_elsewhere(k, node))
        fb_str_add(out, "elsewhere");
    else if (place != FB_NONE)
        fb_str_addf(out, "#%d", place);
    else if (arg != FB_NONE)
        fb_str_addf(out, "@%d", arg);
    else {
        fb_str_add(out, fb_op_get(k->graph->nodes[node].op)->name);
        fb_node_print_attrs(k->graph, node, out);
        add_type(k->graph, node, out);
    }
}

/* Elements from where the launch's pointer starts. */
static int64_t from_start(const fb_eject_kernel *k, fb_id base, int64_t offset)
{
    int arg = arg_of(k, base);
    if (arg == FB_NONE) return offset;
    return offset - k->text->args[arg].offset / fb_dtype_size(k->graph->nodes[base].dtype);
}

static void add_operand(const fb_eject_kernel *k, fb_id node, fb_str *out)
{
    fb_id base;
    int64_t offset, strides[FB_MAX_RANK];
    const fb_graph *g = k->graph;
    fb_str_add(out, " ");
    add_type(g, node, out);
    if (is_elsewhere(k, fb_access_base(g, node))) return;
    if (arg_of(k, node) == FB_NONE && fb_access_strided(g, node, &base, &offset, strides)) {
        add_ints(out, "", strides, g->nodes[node].shape.rank);
        fb_str_addf(out, "+%" PRId64 " of ", from_start(k, base, offset));
        add_value(k, base, out);
        return;
    }
    while (fb_node_class(g, node) == FB_CLASS_VIEW && arg_of(k, node) == FB_NONE) {
        fb_str_add(out, fb_op_get(g->nodes[node].op)->name);
        fb_node_print_attrs(g, node, out);
        node = g->nodes[node].args[0];
        fb_str_add(out, " of ");
        add_type(g, node, out);
    }
    add_value(k, node, out);
}

fb_hash fb_eject_interface(const fb_eject_kernel *k)
{
    fb_str all = {0};
    fb_str_addf(&all, "%s\n", k->target->name);
    for (int i = 0; i < k->text->n_args; i++) {
        const fb_kernel_arg *a = &k->text->args[i];
        if (a->storage >= 0) add_type(k->graph, a->storage, &all);
        fb_str_addf(&all, " %d\n", a->written);
    }
    for (int i = 0; i < k->group->n_nodes; i++) {
        fb_id node = k->group->nodes[i];
        const fb_node *n = &k->graph->nodes[node];
        fb_str_add(&all, fb_op_get(n->op)->name);
        fb_node_print_attrs(k->graph, node, &all);
        for (int a = 0; a < n->n_args; a++) add_operand(k, n->args[a], &all);
        fb_str_add(&all, " → ");
        add_type(k->graph, node, &all);
        fb_str_addf(&all, " @%d\n", arg_of(k, node));
    }
    fb_hash hash = fb_hash_text(fb_str_get(&all));
    fb_str_free(&all);
    return hash;
}

/* ---- the header ---- */

/* "mean ×32, sub ×16": ops by how often they are there, in order of their first. */
static void add_ops(const fb_eject_kernel *k, fb_str *out)
{
    int count[FB_OPS] = {0};
    for (int i = 0; i < k->group->n_nodes; i++) count[k->graph->nodes[k->group->nodes[i]].op]++;
    const char *before = "";
    for (int i = 0; i < k->group->n_nodes; i++) {
        fb_op op = k->graph->nodes[k->group->nodes[i]].op;
        if (!count[op]) continue;
        fb_str_addf(out, "%s%s", before, fb_op_get(op)->name);
        if (count[op] > 1) fb_str_addf(out, " ×%d", count[op]);
        count[op] = 0;
        before = ", ";
    }
}

/* How the group's nodes see the buffer, where that is not simply its shape: ", as [1024,256] by strides [256,1]". */
static void add_accesses(const fb_eject_kernel *k, int arg, fb_str *out)
{
    const fb_graph *g = k->graph;
    fb_id storage = k->text->args[arg].storage, base;
    int64_t offset, strides[FB_MAX_RANK];
    int told = 0;
    fb_str one = {0}, before = {0}; /* MOST_ACCESSES is two */
    for (int i = 0; i < k->group->n_nodes && told < MOST_ACCESSES; i++) {
        const fb_node *n = &g->nodes[k->group->nodes[i]];
        for (int a = 0; a < n->n_args && told < MOST_ACCESSES; a++) {
            fb_id read = n->args[a];
            if (read == storage || !fb_access_strided(g, read, &base, &offset, strides) || base != storage) continue;
            fb_str_clear(&one);
            add_ints(&one, ", as ", g->nodes[read].shape.dim, g->nodes[read].shape.rank);
            add_ints(&one, " by strides ", strides, g->nodes[read].shape.rank);
            offset = from_start(k, base, offset);
            if (offset) fb_str_addf(&one, " from %" PRId64 " on", offset);
            if (told && strcmp(fb_str_get(&before), fb_str_get(&one)) == 0) continue;
            fb_str_add(out, fb_str_get(&one));
            fb_str_add(&before, fb_str_get(&one));
            told++;
        }
    }
    fb_str_free(&one);
    fb_str_free(&before);
}

static void add_argument(const fb_eject_kernel *k, int i, fb_str *out)
{
    const fb_kernel_arg *a = &k->text->args[i];
    fb_str_addf(out, "%s ", a->name);
    add_type(k->graph, a->storage >= 0 ? a->storage : k->group->stored[0], out);
    fb_str_add(out, a->written ? " written" : " read");
    if (a->storage >= 0 && !a->written) add_accesses(k, i, out);
}

/* In a comment, which a path must not end. */
static void add_origin(const char *key, const char *text, fb_str *out)
{
    fb_str_addf(out, " * @%-9s ", key);
    for (const char *p = text; *p; p++)
        fb_str_add_n(out, (unsigned char)*p < ' ' || (*p == '*' && p[1] == '/') ? "?" : p, 1);
    fb_str_add(out, "\n");
}

void fb_eject_write(const fb_eject_kernel *k, const fb_eject_origin *from, fb_str *out)
{
    const fb_kernel_text *t = k->text;
    char hex[33];
    fb_str_add(out, "/* A generated kernel, taken over to be improved by hand.\n *\n");
    add_origin("script", from->script, out);
    add_origin("column", from->column, out);
    fb_str_addf(out, " * @language  %s\n * @entry     %s\n", k->target->name, t->entry);
    if (k->target->grid) {
        fb_str_addf(out, " * @grid      %d %d %d\n", t->grid[0], t->grid[1], t->grid[2]);
        fb_str_addf(out, " * @block     %d %d %d\n", t->block[0], t->block[1], t->block[2]);
        fb_str_addf(out, " * @shared    %d\n", t->dynamic_shared);
    }
    fb_str_add(out, " * @computes  ");
    add_ops(k, out);
    for (int i = 0; i < t->n_args; i++) {
        fb_str line = {0};
        add_argument(k, i, &line);
        fb_str_addf(out, "\n * @argument  %s", fb_str_get(&line));
        fb_str_free(&line);
    }
    fb_str_addf(out, "\n * @interface %s\n *\n", fb_hash_hex(fb_eject_interface(k), hex));
    if (k->target->grid)
        fb_str_addf(out,
                    " * %s takes the arguments as pointers, in this order. It is launched as @grid (blocks), @block "
                    "(threads)\n * and @shared (bytes of dynamic shared memory) say, which may be changed with "
                    "it, as may @entry.\n",
                    t->entry);
    else
        fb_str_addf(out,
                    " * void %s(const fb_kernel_args *a) finds the arguments in a->buffers, in this order;\n"
                    " * an epilogue of a library call does rows a->first up to a->last. @entry may be changed.\n",
                    t->entry);
    fb_str_add(out, " * The other lines say what fusebox gives it; a kernel that needs something else has to be taken "
                    "over again. */\n\n");
    fb_str_add(out, t->text);
}

/* ---- reading it back ---- */

typedef struct {
    const fb_kernel_source *file;
    const char *name; /* of the file */
    fb_error *err;
} reading;

typedef struct {
    char text[MOST_VALUE];
    int line; /* of the file; 0: not there */
} value;

/* The value of the next line "@key …" of the first comment, after line *line. */
static bool next_value(const reading *r, const char *key, int *line, value *to)
{
    const char *at = r->file->text, *end = strstr(at, "*/");
    size_t n = strlen(key);
    for (int number = 1; end && at < end; number++) {
        size_t length = strcspn(at, "\n");
        const char *p = at + strspn(at, " \t/*");
        if (number > *line && *p == '@' && strncmp(p + 1, key, n) == 0 && isspace((unsigned char)p[n + 1])) {
            p += n + 1;
            p += strspn(p, " \t");
            const char *stop = at + length;
            while (stop > p && isspace((unsigned char)stop[-1])) stop--;
            snprintf(to->text, sizeof to->text, "%.*s", stop > p ? (int)(stop - p) : 0, p);
            *line = to->line = number;
            return true;
        }
        at += length + (at[length] == '\n');
    }
    *to = (value){0};
    return false;
}

static bool needed(const reading *r, const char *key, value *to)
{
    int line = 0;
    if (next_value(r, key, &line, to)) return true;
    return fb_fail(r->err, FB_ERR_INPUT,
                   "%s: its first comment has no line @%s: `fusebox eject` writes a file that has all of them", r->name,
                   key);
}

static bool numbers(const reading *r, const char *key, int least, int most, int n, int *to)
{
    value v;
    if (!needed(r, key, &v)) return false;
    char *at = v.text;
    for (int i = 0; i < n; i++) {
        char *end;
        long x = strtol(at, &end, 10);
        if (end == at || x < least || x > most)
            return fb_fail(r->err, FB_ERR_INPUT, "%s:%d: @%s is %d number%s from %d to %d", r->name, v.line, key, n,
                           n == 1 ? "" : "s", least, most);
        to[i] = (int)x;
        at = end;
    }
    return true;
}

/* The first line that is another one now. */
static bool stale(const reading *r, const fb_eject_kernel *k)
{
    value v;
    fb_str now = {0};
    int line = 0, at = 0;
    bool told = false;
    add_ops(k, &now);
    if (next_value(r, "computes", &at, &v) && strcmp(v.text, fb_str_get(&now)) != 0)
        told = !fb_fail(r->err, FB_ERR_INPUT,
                        "%s is stale: it was made to compute %.150s, and its kernel now has to compute %.150s", r->name,
                        v.text, fb_str_get(&now));
    for (int i = 0; !told; i++) {
        bool had = next_value(r, "argument", &line, &v), has = i < k->text->n_args;
        fb_str_clear(&now);
        if (has) add_argument(k, i, &now);
        if (!had && !has) break;
        if (had && has && strcmp(v.text, fb_str_get(&now)) == 0) continue;
        told = !fb_fail(r->err, FB_ERR_INPUT, "%s is stale: its argument %d was %.80s, and is now %.80s", r->name,
                        i + 1, had ? v.text : "not there", has ? fb_str_get(&now) : "not there");
    }
    fb_str_free(&now);
    if (told) return false;
    return fb_fail(r->err, FB_ERR_INPUT,
                   "%s is stale: its kernel has the same arguments as before, but computes something else of them",
                   r->name);
}

static bool is_word(const char *s)
{
    if (!*s || isdigit((unsigned char)*s) || strlen(s) > 128) return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    return true;
}

/* "#line" makes compilers speak of the user's file. */
static const char *unit_of(const reading *r, fb_arena *arena)
{
    fb_str out = {0};
    fb_str_add(&out, "#line 1 \"");
    for (const char *p = r->name; *p; p++) {
        if (*p == '"' || *p == '\\') fb_str_add(&out, "\\");
        fb_str_add_n(&out, (unsigned char)*p < ' ' ? "?" : p, 1);
    }
    fb_str_addf(&out, "\"\n%s\n", r->file->text);
    const char *text = fb_arena_strdup(arena, fb_str_get(&out));
    fb_str_free(&out);
    return text;
}

bool fb_eject_read(const fb_eject_kernel *k, const fb_kernel_source *file, fb_arena *arena, fb_kernel_text *text,
                   fb_error *err)
{
    reading r = {.file = file, .name = fb_file_name(file->path), .err = err};
    value language, entry, hash;
    char hex[33];
    if (!file->text) return fb_fail(err, FB_ERR_INPUT, "%s: the kernel's file has not been read", r.name);
    if (!needed(&r, "language", &language) || !needed(&r, "entry", &entry) || !needed(&r, "interface", &hash))
        return false;
    const char *speaks = k->target->name;
    if (strcmp(language.text, speaks) != 0)
        return fb_fail(err, FB_ERR_INPUT, "%s:%d: the kernel is written in %.20s, and this device takes %s", r.name,
                       language.line, language.text, speaks);
    if (!is_word(entry.text))
        return fb_fail(err, FB_ERR_INPUT, "%s:%d: @entry is the name of a function", r.name, entry.line);
    if (strcmp(hash.text, fb_hash_hex(fb_eject_interface(k), hex)) != 0) return stale(&r, k);
    fb_kernel_text own = *text;
    if (k->target->grid) {
        if (!numbers(&r, "grid", 0, 1 << 30, 3, own.grid) ||
            !numbers(&r, "block", 1, k->target->most_threads, 3, own.block) ||
            !numbers(&r, "shared", 0, 1 << 20, 1, &own.dynamic_shared))
            return false;
        if ((int64_t)own.block[0] * own.block[1] * own.block[2] > k->target->most_threads)
            return fb_fail(err, FB_ERR_INPUT, "%s: @block is of more than %d threads", r.name, k->target->most_threads);
    }
    own.entry = fb_arena_strdup(arena, entry.text);
    own.function = NULL;
    own.text = unit_of(&r, arena);
    fb_printer_own_needs(k->target, file->text, &own.needs);
    *text = own;
    return true;
}
