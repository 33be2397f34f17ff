/* fusebox ops: what engine/graph/ops.def says, as a table to read, as JSON, and as the parts of files in other
 * languages that are made from it (tests/cli/write_ops.sh). Needs the table alone. */
#include "tui/cli/cli.h"
#include "tui/show/table.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "graph/op.h"

#include <math.h>
#include <string.h>

typedef enum { TABLE, JSON, LUA, PYTHON, ONNX, FORMATS } shape;

static const char *const names[FORMATS] = {
    [TABLE] = "table", [JSON] = "json", [LUA] = "lua", [PYTHON] = "python", [ONNX] = "onnx"};

static const char *const operands[] = {
    [FB_ACCEPTS_ANY] = "any",       [FB_ACCEPTS_FLOAT] = "float", [FB_ACCEPTS_INT] = "integer",
    [FB_ACCEPTS_NUMBER] = "number", [FB_ACCEPTS_LOGIC] = "bool",  [FB_ACCEPTS_BITS] = "integer or bool",
};

enum { KEY_FORMAT = 256 };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0,
     "table (default), json, lua (stubs for editors), python (a dictionary) or onnx (operators' names)", 0},
    {0},
};

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    if (key != KEY_FORMAT) return ARGP_ERR_UNKNOWN;
    for (shape s = 0; s < FORMATS; s++) {
        if (strcmp(arg, names[s]) != 0) continue;
        *(shape *)ctx = s;
        return 0;
    }
    fb_cli_usage("%s: no format \"%s\"; there are: table, json, lua, python, onnx", state->name, arg);
    return 0;
}

/* Ops that are a method of a tensor under their own name and one row of the table. */
static bool is_listed(const fb_op_info *op)
{
    return op->cls == FB_CLASS_POINTWISE || op->cls == FB_CLASS_REDUCTION;
}

static int n_params(const fb_op_info *op)
{
    return !!op->params[0].name + !!op->params[1].name;
}

/* "x, low, high": as it is called, with x for the first operand. */
static void add_arguments(const fb_op_info *op, fb_str *to)
{
    static const char *const operand[] = {"x", "y", "z"};
    for (int i = 0; i < op->min_args && i < 3; i++) fb_str_addf(to, "%s%s", i ? ", " : "", operand[i]);
    for (int i = 0; i < n_params(op); i++) fb_str_addf(to, ", %s=%g", op->params[i].name, op->params[i].otherwise);
}

/* ---- for people, and JSON ---- */

static void print_table(void)
{
    fb_table *t = fb_table_new();
    fb_table_column(t, "op", "", true);
    fb_table_column(t, "of", "", true);
    fb_table_column(t, "ONNX", "", true);
    fb_table_column(t, "what it is", "", true);
    for (fb_op o = 0; o < FB_OPS; o++) {
        const fb_op_info *op = fb_op_get(o);
        if (!is_listed(op)) continue;
        fb_str call = {0};
        fb_str_addf(&call, "%s(", op->name);
        add_arguments(op, &call);
        fb_str_add(&call, ")");
        fb_table_row(t);
        fb_table_cell(t, fb_str_get(&call));
        fb_table_cell(t, operands[op->accepts]);
        fb_table_cell(t, op->onnx);
        fb_table_cell(t, op->doc);
        fb_str_free(&call);
    }
    fb_table_print(t, FB_FORMAT_TABLE, stdout);
    fb_table_free(t);
}

static json_t *params_json(const fb_op_info *op)
{
    json_t *all = json_array();
    for (int i = 0; i < n_params(op); i++) {
        double x = op->params[i].otherwise;
        json_t *value = isfinite(x) ? json_real(x) : json_string(x > 0 ? "inf" : "-inf");
        json_array_append_new(all, json_pack("{s:s, s:o}", "name", op->params[i].name, "default", value));
    }
    return all;
}

static void print_json(void)
{
    json_t *all = json_array();
    for (fb_op o = 0; o < FB_OPS; o++) {
        const fb_op_info *op = fb_op_get(o);
        if (!is_listed(op)) continue;
        json_t *row =
            json_pack("{s:s, s:i, s:s, s:i, s:b, s:o}", "name", op->name, "operands", op->min_args, "of",
                      operands[op->accepts], "flops", op->flops, "slow", op->special, "params", params_json(op));
        if (op->torch && *op->torch) json_object_set_new(row, "torch", json_string(op->torch));
        if (op->onnx && *op->onnx) json_object_set_new(row, "onnx", json_string(op->onnx));
        if (op->doc) json_object_set_new(row, "doc", json_string(op->doc));
        json_array_append_new(all, row);
    }
    json_t *report = json_pack("{s:i, s:o}", "fusebox", FB_REPORT_VERSION, "ops", all);
    char *text = fb_json_shown(report, JSON_INDENT(2));
    printf("%s\n", text);
    fb_free(text);
    json_decref(report);
}

/* ---- for files in other languages ---- */

/* Methods of a tensor, as scripts/fusebox.d.lua has them: x is the tensor itself. */
static void print_stub(const fb_op_info *op)
{
    static const char *const operand[4][2] = {[2] = {"other"}, [3] = {"a", "b"}};
    fb_str arguments = {0};
    printf("---%s\n", op->doc);
    for (int i = 0; i < op->min_args - 1; i++) {
        printf("---@param %s Operand\n", operand[op->min_args][i]);
        fb_str_addf(&arguments, "%s%s", i ? ", " : "", operand[op->min_args][i]);
    }
    for (int i = 0; i < n_params(op); i++) {
        printf("---@param %s? number\n", op->params[i].name);
        fb_str_addf(&arguments, "%s%s", arguments.n ? ", " : "", op->params[i].name);
    }
    printf("---@return Tensor\nfunction Tensor:%s(%s) end\n\n", op->name, fb_str_get(&arguments));
    fb_str_free(&arguments);
}

static void print_lua(void)
{
    for (fb_op o = 0; o < FB_OPS; o++)
        if (fb_op_get(o)->cls == FB_CLASS_POINTWISE && o != FB_OP_CAST) print_stub(fb_op_get(o));
}

static void print_python(void)
{
    printf("OPS = {  # name: operands, PyTorch's call of the same arguments, how it is written, parameters\n");
    for (fb_op o = 0; o < FB_OPS; o++) {
        const fb_op_info *op = fb_op_get(o);
        if (!is_listed(op)) continue;
        printf("    \"%s\": (\"%s\", \"%s\", \"%s\", {", op->name, operands[op->accepts], op->schema ? op->schema : "",
               op->torch ? op->torch : "");
        for (int i = 0; i < n_params(op); i++) {
            double x = op->params[i].otherwise;
            printf("%s\"%s\": ", i ? ", " : "", op->params[i].name);
            if (isfinite(x))
                printf("%g", x);
            else
                printf("%smath.inf", x < 0 ? "-" : "");
        }
        printf("}),\n");
    }
    printf("}\n");
}

/* Ops that one operator is, with the same operands: where there are parameters it takes them in its own way. */
static void print_onnx(void)
{
    printf("DIRECT = {\n");
    for (fb_op o = 0; o < FB_OPS; o++) {
        const fb_op_info *op = fb_op_get(o);
        if (is_listed(op) && op->onnx && *op->onnx && !n_params(op))
            printf("    \"%s\": \"%s\",\n", op->name, op->onnx);
    }
    printf("}\n");
}

static int ops_main(const fb_command *me, int argc, char **argv)
{
    static void (*const print[FORMATS])(void) = {
        [TABLE] = print_table, [JSON] = print_json, [LUA] = print_lua, [PYTHON] = print_python, [ONNX] = print_onnx};
    shape format = TABLE;
    fb_cli cli = {.least = 0, .most = 0, .own = own_key, .ctx = &format};
    fb_cli_parse(&cli, me, options, argc, argv);
    print[format]();
    fb_cli_free(&cli);
    return FB_EXIT_FINE;
}

const fb_command fb_command_ops = {
    .name = "ops", .args = "", .summary = "What a script can do to tensors, element by element", .run = ops_main};
