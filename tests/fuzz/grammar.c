/* Writes scripts from bytes. What it writes is more often right than wrong, since a script that is refused in its first
 * line reaches nothing; loops of Lua have a few turns, and nothing is written that would wait or never end. */
#include "fuzz/grammar.h"

#include "decide/preset.h"
#include "graph/graph.h"
#include "schedule/knobs.h"

#include <stdbool.h>
#include <string.h>

enum { STATEMENTS = 60, DEPTH = 3, SHOWN = 4 };

typedef struct {
    const uint8_t *at;
    size_t left;
    fb_str *out;
    int tensors;    /* t[1] … t[tensors] are said to be there */
    int statements; /* that were written */
    int depth;
    const char *const *nodes;
    int n_nodes;
} writer;

#define PICK(w, list) ((list)[pick(w, (int)(sizeof(list) / sizeof *(list)))])

/* 0 … n - 1; 0 when the bytes have ended. */
static int pick(writer *w, int n)
{
    if (!w->left || n < 1) return 0;
    w->left--;
    return *w->at++ % n;
}

static void say(writer *w, const char *text)
{
    fb_str_add(w->out, text);
}

/* ---- values ---- */

static void say_number(writer *w)
{
    static const char *const numbers[] = {
        "1",
        "0",
        "2",
        "-1",
        "0.5",
        "3",
        "4",
        "7",
        "0/0",
        "-(0/0)",
        "1/0",
        "-1/0",
        "-0.0",
        "1e-30",
        "1e308",
        "2^31",
        "2^53",
        "2^40",
        "2^40 + 1",
        "1 << 41",
        "math.maxinteger",
        "math.mininteger",
        "5e-324",
        "65536",
        "2^63",
        "-2.5",
    };
    say(w, PICK(w, numbers));
}

static void say_count(writer *w)
{
    static const char *const counts[] = {"1", "2", "3", "4", "0", "5", "8", "-1", "6", "2.0"};
    say(w, PICK(w, counts));
}

static void say_word(writer *w)
{
    static const char *const words[] = {"\"a\"",      "\"f32\"",   "\"i64\"",       "\"bool\"", "\"f16\"", "\"bf16\"",
                                        "\"f64\"",    "\"i32\"",   "\"\"",          "\"a b\"",  "\"v\"",   "\"*\"",
                                        "\"\\0\\1\"", "\"\\xff\"", "\"\\u{202e}\"", "\"none\"", "\"tf32\""};
    say(w, PICK(w, words));
}

static void say_dtype(writer *w)
{
    static const char *const dtypes[] = {"nil",     "\"f32\"",  "\"i64\"", "\"bool\"",
                                         "\"f16\"", "\"bf16\"", "\"f64\"", "\"i32\""};
    say(w, PICK(w, dtypes));
}

/* "{ a, b }" of fewer than `most`. */
static void say_list(writer *w, int most, void (*one)(writer *w))
{
    int n = pick(w, most);
    say(w, "{ ");
    for (int i = 0; i < n; i++) {
        one(w);
        say(w, i + 1 < n ? ", " : " ");
    }
    say(w, "}");
}

static void say_shape(writer *w)
{
    say_list(w, 4, say_count);
}

static void say_tensor(writer *w)
{
    fb_str_addf(w->out, "t[%d]", w->tensors ? w->tensors - pick(w, w->tensors) : 1);
}

static void say_tensors(writer *w)
{
    say_list(w, 4, say_tensor);
}

static void say_option(writer *w)
{
    static const char *const keys[] = {"dist",  "low",     "high",  "mean",     "std",     "value",
                                       "seed",  "through", "every", "truncate", "weights", "backwards",
                                       "dtype", "columns", "param", "none"};
    static const char *const words[] = {"\"uniform\"",    "\"normal\"", "\"integer\"", "\"constant\"", "\"stored\"",
                                        "\"recomputed\"", "\"after\"",  "\"inside\"",  "true"};
    fb_str_addf(w->out, "%s = ", PICK(w, keys));
    if (pick(w, 2))
        say(w, PICK(w, words));
    else
        say_number(w);
}

static void say_options(writer *w)
{
    say_list(w, 3, say_option);
}

/* Anything that a function could be given. */
static void say_value(writer *w)
{
    switch (pick(w, 12)) {
    case 0:
    case 1: say_tensor(w); break;
    case 2: say_count(w); break;
    case 3: say_number(w); break;
    case 4: say(w, "nil"); break;
    case 5: say(w, "true"); break;
    case 6: say_word(w); break;
    case 7: say_shape(w); break;
    case 8: say_tensors(w); break;
    case 9: say_options(w); break;
    case 10: say(w, "function() return t[1] end"); break;
    default:
        say(w, "setmetatable({ 1 }, { __index = function() error(\"e\") end, __tostring = function() return 1 end })");
    }
}

static void say_values(writer *w, int most, const char *before)
{
    int n = pick(w, most + 1);
    for (int i = 0; i < n; i++) {
        say(w, i ? ", " : before);
        say_value(w);
    }
}

/* ---- errors that a script makes itself ---- */

static void say_error(writer *w)
{
    static const char *const errors[] = {"error(\"no\")",
                                         "error()",
                                         "error({})",
                                         "error(\"\")",
                                         "error(nil, 0)",
                                         "error(\"x\", 0)",
                                         "error(7)",
                                         "local x = nil + 1",
                                         "error(\"\\1\\2\", 0)",
                                         "return nowhere",
                                         "error(\"script.lua:\", 0)",
                                         "error(\"script.lua:0: \", 0)",
                                         "error(string.rep(\"é\", 600))",
                                         "error(setmetatable({}, { __tostring = function() error(1) end }))"};
    say(w, PICK(w, errors));
}

/* ---- graphs ---- */

static void say_statements(writer *w);

static const char *pointwise(writer *w)
{
    for (int op = pick(w, FB_OPS), i = 0; i < FB_OPS; i++, op = (op + 1) % FB_OPS)
        if (fb_op_get((fb_op)op)->cls == FB_CLASS_POINTWISE) return fb_op_get((fb_op)op)->name;
    return "exp";
}

static void say_source(writer *w)
{
    static const char *const makers[] = {"input", "param", "feed"};
    static const char *const filled[] = {"zeros", "ones"};
    switch (pick(w, 6)) {
    case 0:
    case 1:
        fb_str_addf(w->out, "g:%s(\"n%d\", ", PICK(w, makers), pick(w, 40));
        say_shape(w);
        say(w, ", ");
        say_dtype(w);
        say(w, ", ");
        if (pick(w, 2))
            say_options(w);
        else
            say(w, "{ high = 4 }");
        break;
    case 2:
        say(w, "g:rand(");
        say_shape(w);
        say(w, ", ");
        say_dtype(w);
        say(w, ", ");
        say_options(w);
        break;
    case 3:
        say(w, "g:const(");
        say_number(w);
        say(w, ", ");
        say_dtype(w);
        break;
    case 4:
        fb_str_addf(w->out, "g:%s(", PICK(w, filled));
        say_shape(w);
        say(w, ", ");
        say_dtype(w);
        break;
    default:
        say(w, "g:full(");
        say_shape(w);
        say(w, ", ");
        say_number(w);
        break;
    }
    say(w, ")");
}

static void say_method(writer *w)
{
    static const char *const reductions[] = {"sum", "mean", "max", "min", "argmax", "prod", "any", "var"};
    static const char *const views[] = {"view",      "reshape",   "flatten", "squeeze", "unsqueeze", "permute",
                                        "transpose", "t",         "slice",   "narrow",  "select",    "expand",
                                        "pad",       "flip",      "detach",  "cumsum",  "cumprod",   "rank",
                                        "to",        "expand_as", "unfold"};
    static const char *const joins[] = {"matmul", "embedding", "index_add", "size", "dim",
                                        "numel",  "unbind",    "split",     "chunk"};
    static const char *const signs[] = {"+", "-", "*", "/", "%", "^", "//", "&", "|", "~", "<<", ">>"};
    switch (pick(w, 8)) {
    case 0:
    case 1:
        say_tensor(w);
        fb_str_addf(w->out, " %s ", PICK(w, signs));
        if (pick(w, 3))
            say_tensor(w);
        else
            say_number(w);
        return;
    case 2:
        say(w, "-");
        say_tensor(w);
        return;
    case 3:
        fb_str_addf(w->out, "g:%s(", pointwise(w));
        say_tensor(w);
        say_values(w, 2, ", ");
        break;
    case 4:
        say_tensor(w);
        fb_str_addf(w->out, ":%s(", PICK(w, reductions));
        say_count(w);
        say(w, pick(w, 2) ? ", true" : "");
        break;
    case 5:
        say_tensor(w);
        fb_str_addf(w->out, ":%s(", PICK(w, views));
        if (pick(w, 2)) {
            say_count(w);
            say(w, ", ");
            say_count(w);
        } else {
            say_values(w, 4, "");
        }
        break;
    case 6:
        say_tensor(w);
        fb_str_addf(w->out, ":%s(", PICK(w, joins));
        say_values(w, 3, "");
        break;
    default:
        fb_str_addf(w->out, "g:%s(", pick(w, 2) ? "cat" : "stack");
        say_tensors(w);
        say(w, ", ");
        say_count(w);
        break;
    }
    say(w, ")");
}

/* A function whose body adds tensors, and gives some back. */
static void say_body(writer *w, const char *args, bool two_lists)
{
    int before = w->tensors;
    fb_str_addf(w->out, "function(%s)\n", args);
    fb_str_addf(w->out, "local t = copy(t)\n");
    if (*args) fb_str_addf(w->out, "t[#t + 1] = a\n");
    if (*args) w->tensors++;
    w->depth++;
    say_statements(w);
    w->depth--;
    say(w, "return ");
    if (two_lists) {
        say_tensors(w);
        say(w, ", ");
        say_tensors(w);
    } else {
        int n = pick(w, 4);
        for (int i = 0; i < n; i++) {
            if (i) say(w, ", ");
            say_tensor(w);
        }
    }
    say(w, "\nend");
    w->tensors = before;
}

/* One tensor is carried, by a body that ends as it must. */
static void say_loop(writer *w, bool scan)
{
    static const char *const next[] = {"a", "a + a", "a:tanh()", "-a", "a * 2", "a - t[1]"};
    int before = w->tensors;
    say(w, scan ? "g:scan({ " : "g:loop(");
    if (scan) {
        say_tensor(w);
        say(w, " }");
    } else if (pick(w, 4) == 3) {
        say_number(w);
    } else {
        say_count(w);
    }
    say(w, ", { ");
    say_tensor(w);
    say(w, " }, function(x, a)\nlocal t = copy(t)\nt[#t + 1] = a\nt[#t + 1] = x\n");
    w->tensors += 2;
    w->depth++;
    say_statements(w);
    w->depth--;
    fb_str_addf(w->out, scan ? "return { %s }, { " : "return %s", PICK(w, next));
    if (scan) {
        say_tensor(w);
        say(w, " }");
    }
    say(w, "\nend");
    if (scan && pick(w, 2)) say(w, ", { backwards = true }");
    w->tensors = before;
}

static void say_nested(writer *w)
{
    switch (pick(w, 10)) {
    case 6:
    case 7: say_loop(w, false); break;
    case 8:
    case 9: say_loop(w, true); break;
    case 0:
        fb_str_addf(w->out, "g:scope(\"s%d\", ", pick(w, 3));
        if (pick(w, 2)) {
            say_number(w);
            say(w, ", ");
        }
        say_body(w, "", false);
        break;
    case 1:
        fb_str_addf(w->out, "g:op(\"o%d\", ", pick(w, 3));
        say_tensors(w);
        say(w, ", ");
        if (pick(w, 2))
            say_options(w);
        else
            say_value(w);
        say(w, ", ");
        say_body(w, "", false);
        break;
    case 2:
        say(w, "g:loop(");
        if (pick(w, 3))
            say_count(w);
        else
            say_number(w);
        say(w, ", ");
        say_tensors(w);
        say(w, ", ");
        say_body(w, "_, a", false);
        break;
    case 3:
        say(w, "g:scan(");
        say_tensors(w);
        say(w, ", ");
        say_tensors(w);
        say(w, ", ");
        say_body(w, "a", true);
        if (pick(w, 2)) {
            say(w, ", ");
            say_options(w);
        }
        break;
    case 4:
        say(w, "g:grad(");
        say_tensor(w);
        say(w, ", ");
        if (pick(w, 2))
            say_tensor(w);
        else
            say_tensors(w);
        say(w, ", ");
        if (pick(w, 3))
            say(w, "nil");
        else
            say_options(w);
        break;
    default:
        fb_str_addf(w->out, "pcall(");
        say_body(w, "", false);
        break;
    }
    say(w, ")");
}

static void say_effect(writer *w)
{
    static const char *const effects[] = {"assign", "receive", "output", "load", "exp"};
    const char *effect = PICK(w, effects);
    fb_str_addf(w->out, "g:%s(", effect);
    if (strcmp(effect, "load") == 0) say(w, "\"f\", \"x.csv\", { columns = ");
    if (strcmp(effect, "load") == 0)
        say_value(w);
    else
        say_tensor(w);
    if (strcmp(effect, "load") == 0) say(w, " }");
    say_values(w, 2, ", ");
    say(w, ")\n");
}

/* What comes of an expression is kept under the next number; where it gives several, the first. */
static void say_statement(writer *w)
{
    int kind = pick(w, 16);
    if (kind == 15) {
        fb_str_addf(w->out, "if #t > %d then ", pick(w, 8));
        say_error(w);
        say(w, " end\n");
        return;
    }
    if (kind == 14) {
        say_effect(w);
        return;
    }
    if (kind == 13) {
        say(w, "print(");
        say_value(w);
        say(w, ")\n");
        return;
    }
    /* what is refused is mostly passed over, but for what would leave the graph in pieces */
    bool nested = kind >= 10 && w->depth < DEPTH && w->tensors, tries = !nested && pick(w, 8) != 7;
    say(w, tries ? "try(t, function() return " : "keep(t, ");
    if (kind < 4 || !w->tensors)
        say_source(w);
    else if (nested)
        say_nested(w);
    else
        say_method(w);
    say(w, tries ? " end)\n" : ")\n");
    w->tensors++;
}

static void say_statements(writer *w)
{
    while (w->left && w->statements++ < STATEMENTS && (!w->depth || pick(w, 4))) say_statement(w);
}

/* A tensor that is not there is the last one: fewer scripts end at once. */
static const char helpers[] =
    "local fb = require \"fusebox\"\n"
    "local function copy(t)\nlocal c = {}\nfor i = 1, #t do c[i] = t[i] end\n"
    "return setmetatable(c, getmetatable(t))\nend\n"
    "local function keep(t, x, y)\nif type(x) == \"boolean\" then x = y end\n"
    "if type(x) == \"table\" then x = x[1] end\nif type(x) == \"userdata\" then t[#t + 1] = x end\nend\n"
    "local function try(t, f)\nlocal ok, x, y = pcall(f)\nif ok then keep(t, x, y) end\nend\n"
    "local function new() return setmetatable({}, { __index = function(t) return rawget(t, #t) end }) end\n";

void grammar_graph(const uint8_t *bytes, size_t n, fb_str *out)
{
    writer w = {.at = bytes, .left = n, .out = out};
    say(&w, helpers);
    say(&w, "return fb.script { variants = { v = function(g)\nlocal t = new()\n");
    say_statements(&w);
    static const char *const results[] = {"t[#t]", "t[#t], t[1]", "{ t[1], t[#t] }", "{ a = t[#t], b = t[1] }", "nil",
                                          "7"};
    fb_str_addf(out, "return %s\nend } }\n", w.left ? PICK(&w, results) : results[0]);
}

/* ---- plans ---- */

static void say_node(writer *w)
{
    static const char *const patterns[] = {"*", "feature[*].*", "nowhere", "", "a[", "[*]", "*.*", "feature[1]", "\\0"};
    int i = pick(w, w->n_nodes + 4);
    fb_str_addf(w->out, "\"%s\"", i < w->n_nodes ? w->nodes[i] : PICK(w, patterns));
}

static void say_edit(writer *w)
{
    static const char *const ones[] = {"isolate", "recompute", "store", "library", "generate"};
    static const char *const pairs[] = {"fuse", "cut"};
    static const char *const rest[] = {"overlap", "roll",  "launch", "preset", "kernel",
                                       "verdict", "nodes", "cost",   "edges"};
    static const char *const names[] = {"\"max\"",  "\"none\"",         "\"stream\"", "\"graph\"",
                                        "\"mega\"", "\"inductor[:3]\"", "\"best\"",   "\"xla[no2]\"",
                                        "\"k.cu\"", "\"../k.cu\"",      "true",       "false",
                                        "\"fuse\"", "\"cut\"",          "\"store\""};
    switch (pick(w, 8)) {
    case 0:
    case 1:
        fb_str_addf(w->out, "pl:%s(", PICK(w, pairs));
        say_node(w);
        say(w, ", ");
        say_node(w);
        break;
    case 2:
        fb_str_addf(w->out, "pl:%s(", PICK(w, ones));
        say_node(w);
        break;
    case 3: {
        int n = pick(w, 5);
        say(w, "pl:fuse_all(");
        for (int i = 0; i < n; i++) {
            if (i) say(w, ", ");
            say_node(w);
        }
        break;
    }
    case 4:
        say(w, "pl:knob(");
        say_node(w);
        fb_str_addf(w->out, ", \"%s\", ", fb_knob_name((fb_knob)pick(w, FB_KNOBS)));
        if (pick(w, 2))
            say_count(w);
        else
            say_number(w);
        break;
    case 5: fb_str_addf(w->out, "pl:preset(\"%s\"", fb_preset_at(pick(w, fb_presets()))->name); break;
    case 6:
        fb_str_addf(w->out, "pl:verdict(\"%s\", ", pick(w, 2) ? PICK(w, pairs) : PICK(w, ones));
        say_node(w);
        say(w, ", ");
        say_node(w);
        break;
    default:
        fb_str_addf(w->out, "pl:%s(", PICK(w, rest));
        say(w, pick(w, 3) ? PICK(w, names) : "nil");
        if (pick(w, 2)) {
            say(w, ", ");
            say_node(w);
        }
        break;
    }
    say(w, ")");
}

void grammar_plan(const uint8_t *bytes, size_t n, const char *const *nodes, int n_nodes, fb_str *out)
{
    writer w = {.at = bytes, .left = n, .out = out, .nodes = nodes, .n_nodes = n_nodes};
    say(&w, "local fb = require \"fusebox\"\nreturn fb.script { model = function(g) end, plans = { p = function(pl)\n");
    while (w.left && w.statements++ < 12) {
        int kind = pick(&w, 10);
        if (kind == 9) {
            fb_str_addf(out, "if pl:cost().launches > %d then ", pick(&w, 12));
            say_error(&w);
            say(&w, " end\n");
        } else if (kind == 8) {
            fb_str_addf(out,
                        "local n = 0\nfor e, a, b in pl:edges() do n = n + 1\nif n == %d then %s end\n"
                        "if n > 3 then break end\nend\n",
                        1 + pick(&w, 3), pick(&w, 2) ? "pcall(pl.fuse, pl, e)" : "pl:verdict(\"cut\", e)");
        } else if (kind > 1) {
            say(&w, "pcall(function() ");
            say_edit(&w);
            say(&w, " end)\n");
        } else {
            say_edit(&w);
            say(&w, "\n");
        }
    }
    say(&w, "end } }\n");
}

/* ---- experiments ---- */

static void say_field(writer *w, bool sweep)
{
    static const char *const keys[] = {"plan", "variant", "device", "n",      "x",    "c",
                                       "b",    "n",       "x",      "params", "none", "us"};
    static const char *const lists[] = {"\"*\"", "{ \"eager\", \"max\" }", "{}",  "{ 1, 2 }",
                                        "\"v\"", "{ \"u\", \"v\" }",       "true"};
    fb_str_addf(w->out, "%s = ", PICK(w, keys));
    if (sweep && pick(w, 4))
        say(w, PICK(w, lists));
    else
        say_value(w);
}

static void say_case_field(writer *w)
{
    say_field(w, false);
}

static void say_sweep_field(writer *w)
{
    say_field(w, true);
}

static void say_fields(writer *w, bool sweep)
{
    say_list(w, 4, sweep ? say_sweep_field : say_case_field);
}

static void say_plot(writer *w)
{
    static const char *const keys[] = {"x", "y", "by", "low", "high", "log", "none"};
    static const char *const values[] = {"\"n\"", "\"us\"",      "\"plan\"", "\"xy\"", "{ \"us\", \"n\" }",
                                         "7",     "\"variant\"", "\"z\""};
    int n = pick(w, 4);
    say(w, "e:plot { ");
    for (int i = 0; i < n; i++) {
        fb_str_addf(w->out, "%s = ", PICK(w, keys));
        fb_str_addf(w->out, "%s, ", PICK(w, values));
    }
    say(w, "}\n");
}

static void say_step(writer *w)
{
    switch (pick(w, 8)) {
    case 0:
    case 1: say(w, "local r = e:measure(c)\n"); break;
    case 2:
        say(w, "local r = e:measure ");
        say_fields(w, false);
        say(w, "\n");
        break;
    case 3: say(w, "e:row(c, { us = e:measure(c).wall_us.median })\n"); break;
    case 4:
        say(w, "e:row(c, ");
        say_fields(w, false);
        say(w, ")\n");
        break;
    case 5: say_plot(w); break;
    case 6:
        say(w, "pcall(e.row, e, c, ");
        say_value(w);
        say(w, ")\n");
        break;
    default:
        say(w, "if c.n then ");
        say_error(w);
        say(w, " end\n");
        break;
    }
}

void grammar_experiment(const uint8_t *bytes, size_t n, fb_str *out)
{
    static const char *const steps[] = {"1",    "\"x2\"", "\"x1\"", "0.5",        "0",
                                        "\"\"", "\"xx\"", "nil",    "\"1e-300\"", "2^62"};
    writer w = {.at = bytes, .left = n, .out = out};
    say(&w, helpers);
    say(&w, "local t = { 1 }\nreturn fb.script { params = { n = fb.int { 2, min = 1, max = 8, step = ");
    fb_str_addf(out, "%s }, x = fb.float { 1, min = ", PICK(&w, steps));
    static const char *const lows[] = {"0", "nil", "-1", "1e-320", "-1e308"};
    fb_str_addf(out, "%s, max = 3, step = ", PICK(&w, lows));
    fb_str_addf(out, "%s }, c = fb.choice { \"p\", \"q\" }, b = fb.bool { true } },\n", PICK(&w, steps));
    say(&w, "variants = { u = function(g) end, v = function(g) end },\nexperiment = function(e)\nlocal turns = 0\n");
    while (w.left && w.statements++ < 8) {
        if (pick(&w, 4) == 3) {
            say(&w, "do\nlocal c = ");
            if (pick(&w, 2))
                say(&w, "{ plan = \"max\", params = { n = 4 } }");
            else
                say_fields(&w, false);
        } else {
            say(&w, "for c in e:sweep ");
            say_fields(&w, true);
            say(&w, " do\nturns = turns + 1\nif turns > 30 then break end");
        }
        say(&w, "\n");
        for (int i = pick(&w, 4); i > 0; i--) say_step(&w);
        say(&w, "end\n");
    }
    if (pick(&w, 2)) say_plot(&w);
    say(&w, "end }\n");
}
