/* Inside the script process: what serve.c, sandbox.c and the lua_*.c files share. Nothing here is seen by the front.
 *
 * One process serves one script, in one thread, with blocking reads and writes: it has nothing to do while it waits.
 * All memory comes from the pool (base/mem.h). Lua errors travel by longjmp, so a function that may raise one says so
 * and owns nothing that the process does not also hold on to.
 */
#ifndef FB_SCRIPT_PROCESS_H
#define FB_SCRIPT_PROCESS_H

#include "base/error.h"
#include "base/vec.h"
#include "graph/graph.h"
#include "script/script.h"
#include "target/machine.h"

#include <jansson.h>
#include <lauxlib.h>
#include <lua.h>

enum {
    FB_PROCESS_NAME = 48,          /* longest script name in messages; Lua cuts names at 60 */
    FB_PROCESS_PRINTS = 1000,      /* printed lines a turn */
    FB_PROCESS_LINE = 400,         /* bytes of one of them */
    FB_PROCESS_FIGURES = 200,      /* different figures of an experiment's rows */
    FB_PROCESS_REPEATS = 1000,     /* the same case measured, one time after the other */
    FB_PROCESS_TURN_MS = 1850,     /* of CPU time; below the front's limit, because here the line is known */
    FB_PROCESS_KEPT = 4,           /* graphs kept for plans written in Lua … */
    FB_PROCESS_KEPT_NODES = 20000, /* … and their nodes together */
};

/* A graph that was built: enough to build it again when a plan asks for it after its memory was given back. */
typedef struct {
    fb_hash hash;
    char *variant;
    json_t *params;
    fb_graph *graph; /* NULL: given back */
} fb_built;

typedef struct fb_process {
    lua_State *L; /* the thread that runs now */
    int in, out;
    char *input; /* what was read and not yet taken */
    size_t input_n, input_room, input_taken;
    char output[1 << 16];
    size_t output_n;
    json_t *deferred; /* messages that came while another answer was awaited */
    json_t *held;     /* the last answer: kept here so that a Lua error cannot lose it */
    json_t *draft;    /* the message that is being put together, for the same reason */

    char name[FB_PROCESS_NAME + 1]; /* "script.lua" */
    int line;                       /* of the script, as last seen: for messages that cannot ask Lua */
    bool away;                      /* the error that is under way is about what this machine does not have */
    int blame;                      /* the line that an error after the script's end is about, 0 none */
    int64_t turn_ns, turn_cpu_ns;   /* when the turn began, and what the process had computed by then */
    int prints, rows, measures, repeats;
    bool stopped; /* the experiment: whatever it measures from now on raises an error */
    size_t row_bytes;
    fb_hash last_case; /* that was measured */

    json_t *params, *variants; /* as the "script" message has them */
    bool loaded;

    fb_graph *graph; /* being built, or NULL */
    uint32_t build;  /* its number: a tensor of another build is refused */
    char
        spoilt[480]; /* an error left a scope or loop open: the graph cannot be finished, whatever the script catches */
    FB_VEC(fb_built) built;
} fb_process;

/* ---- sandbox.c ---- */

/* Gives up everything but reading, writing and looking at the clock, the environment and stderr too. For good. */
bool fb_sandbox_enter(fb_error *err);

/* ---- serve.c ---- */

void fb_process_send(fb_process *p, json_t *message); /* steals the reference */
bool fb_process_write_line(void *process, const char *text, size_t n);
/* A sentence that ends the process: for what cannot be reported in any other way. Needs no memory. */
_Noreturn void fb_process_die(fb_process *p, const char *sentence);
/* Keeps a message while it is put together, in place of the last one; steals the reference and gives it back borrowed. */
json_t *fb_process_draft(fb_process *p, json_t *message);
/* Waits for the answer to what was just sent; other messages are kept for later. Borrowed, until the next wait. */
const json_t *fb_process_await(fb_process *p, const char *type);
/* The same for a measurement, during which builds and plans are served: the front needs them to measure. */
const json_t *fb_process_await_measured(fb_process *p);
void fb_process_begin_turn(fb_process *p);

/* ---- lua_state.c: the state, where errors are, JSON ---- */

static inline fb_process *fb_process_of(lua_State *L)
{
    return *(fb_process **)lua_getextraspace(L);
}
bool fb_lua_new(fb_process *p, fb_error *err);
/* Calls `f` with `arg` as light userdata, protected. On failure *err is "script.lua:12: …" and *line 12. */
bool fb_lua_call(fb_process *p, lua_CFunction f, void *arg, fb_error *err, int *line);
/* Calls what is on the stack with n_args, protected but passing the error on, with its line: for functions that must
 * put something in order before they let an error through. False: the error is on top. */
bool fb_lua_try(lua_State *L, int n_args, int n_results);
int fb_lua_line(lua_State *L); /* the script's line that is being run, 0 unknown; keeps it in p->line */
/* From here on an error that no line of the script is at is about the function on top, which is left there. */
void fb_lua_blame(lua_State *L);
/* Raises "script.lua:12: " and the sentence. */
_Noreturn int fb_lua_raise(lua_State *L, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A name at `i`, or an error that calls it `what`. */
const char *fb_lua_name(lua_State *L, int i, const char *what);
void fb_lua_push_json(lua_State *L, const json_t *value);
/* What Lua has at `i`. Tables with 1 … n are arrays; functions and the like are errors. May raise. The reference is
 * also held by the process until the next call, so that an error loses nothing; the caller gets one of its own. */
json_t *fb_lua_to_json(lua_State *L, int i, const char *what);

/* ---- lua_names.c: what is misspelt ---- */

/* Raises "WHAT "name"; did you mean "near"?", or lists the few there are. */
_Noreturn void fb_lua_unknown(lua_State *L, const char *what, const char *name, const char *const *known, int n);
/* The same of the names in the table at `table`. */
_Noreturn void fb_lua_unknown_key(lua_State *L, const char *what, const char *name, int table);
/* Makes the table of methods on top an __index function that says "WHAT "name"" of one that is not there. */
void fb_lua_push_methods(lua_State *L, const char *what);
/* From here on, reading a name that the table on top does not have raises "WHAT "name"" with the nearest. */
void fb_lua_close_table(lua_State *L, const char *what);
/* The same, and of setting one. */
void fb_lua_lock_table(lua_State *L, const char *what);

/* ---- lua_module.c: require, print, the fusebox module, loading and building ---- */

void fb_module_open(lua_State *L);
typedef struct {
    const char *text; /* of the script */
    size_t n;
    const json_t *set; /* parameters given from outside, or NULL */
    json_t *info;      /* out: the "script" message, which is p->draft */
} fb_module_load;
int fb_module_run(lua_State *L); /* light userdata: fb_module_load */
/* Pushes script[table][name], a function; raises when there is none. */
void fb_module_push_function(lua_State *L, const char *table, const char *name);
/* Pushes script[field] or nil. */
void fb_module_push_field(lua_State *L, const char *field);
/* All parameters: `given` over the standard. Pushes the table that model functions get. May raise. */
void fb_module_push_params(lua_State *L, const json_t *given);
bool fb_param_accepts(const json_t *param, const json_t *value, fb_error *err);

/* ---- lua_lesson.c ---- */

void fb_process_open_lesson(lua_State *L);       /* the module's functions, into the table on top */
bool fb_process_is_lesson(lua_State *L, int i);  /* what fb.lesson gave */
json_t *fb_process_lesson_message(lua_State *L); /* of the lesson on top, which is p->draft; may raise */

/* ---- lua_graph.c and lua_tensor.c ---- */

typedef struct {
    const char *variant;
    const json_t *params;
    fb_graph *result; /* out: canonical */
} fb_graph_request;
int fb_process_build_graph(lua_State *L); /* light userdata: fb_graph_request */

void fb_process_open_graph(lua_State *L);
void fb_tensor_open(lua_State *L);
/* The graph being built; raises where there is none. */
fb_graph *fb_process_graph_now(lua_State *L);
void fb_tensor_push(lua_State *L, fb_id id);
bool fb_tensor_is(lua_State *L, int i);
fb_id fb_tensor_at(lua_State *L, int i); /* raises */
const fb_node *fb_tensor_node(lua_State *L, int i);
/* Adds a node and pushes its tensor; raises with the line. */
int fb_tensor_add(lua_State *L, fb_op op, const fb_id *args, int n, const fb_attrs *at, const char *name);
/* A tensor, or a number as a constant of `dtype`. */
fb_id fb_tensor_operand(lua_State *L, int i, fb_dtype dtype, const char *op);
/* Tensors of the list at `i`: ids in Lua-owned memory that is left on the stack. */
fb_id *fb_tensor_list(lua_State *L, int i, int *n, const char *what);
/* A shape: a table at `i`, or integers from `i` on. */
fb_shape fb_tensor_shape(lua_State *L, int i, const char *what);
fb_dtype fb_tensor_dtype(lua_State *L, int i, fb_dtype otherwise);
int fb_tensor_op(lua_State *L); /* upvalue 1: a pointwise op */

/* ---- lua_plan.c and lua_experiment.c ---- */

typedef struct {
    const fb_graph *graph;
    const char *name;
    fb_machine machine; /* what the plan is for */
    json_t *result;     /* out: the plan as JSON, also in p->held */
} fb_plan_request;
int fb_process_run_plan(lua_State *L); /* light userdata: fb_plan_request */
void fb_process_open_plan(lua_State *L);

typedef struct {
    int64_t id;
    const json_t *params; /* experiments */
    const json_t *why;    /* answers */
    json_t *result;       /* out, also in p->held */
} fb_run_request;
int fb_process_run_experiment(lua_State *L);
int fb_answer_run(lua_State *L);
void fb_process_open_experiment(lua_State *L);

#endif
