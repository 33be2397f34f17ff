/* Scripts: one sandboxed process a loaded script. This header is the front's side; the process itself is in sandbox.c
 * (pool, rlimits, seccomp), lua_*.c (the only places that include Lua) and serve.c (its messages).
 *
 * Messages are JSON lines over a pair of pipes (worker/protocol.h's channel).
 * front → script
 *   {"type":"load","path":"scripts/x.lua","text":…,"set":{"batch_size":64}}
 *   {"type":"build","id":N,"variant":"combined","params":{…}}
 *   {"type":"plan","id":N,"graph":H,"name":"mine","machine":{…}}           a plan written in Lua, of a graph that was
 * built before, for a machine
 *   {"type":"experiment","id":N,"params":{…}}                             runs until "done"
 *   {"type":"answer","id":N,"why":{…}}                                    a puzzle's answer function
 *   {"type":"source","name":…,"text":…} | {"type":"source","name":…,"error":…}     replies to require
 *   {"type":"file","key":K,"shape":[…],"dtype":…} | {"type":"file","error":…}      replies to load
 *   {"type":"measured","report":{…}}                                      replies to measure
 * script → front
 *   {"type":"script","title":…,"params":[…],"variants":[…],"plans":[…],"columns":[…],"experiment":bool,"puzzle":{…}}
 *     or of a lesson {"type":"script","title":…,"lesson":{"pages":[…]}}
 *   {"type":"log","text":…}
 *   {"type":"graph","id":N,"hash":H} followed by the lines of graph_json.h (canonical)
 *   {"type":"plan","id":N,"plan":{…}}
 *   {"type":"require","name":"nn"}          {"type":"load_file","name":"w.npy",…}
 *   {"type":"measure","id":N,"variant":…,"plan":…,"device":…,"params":{…}}      waits; does not count as script time;
 * what the case leaves open is absent. Builds and plans are served while it waits.
 *   {"type":"row","id":N,"case":{…},"row":{…}}      {"type":"plot","id":N,…}      {"type":"done","id":N}
 *   {"type":"answer","id":N,"answer":…}
 *   {"type":"error","id":N,"kind":"input","line":12,"text":"script.lua:12: …","fatal":false}    fatal: the process ends
 * A waterfall `why` is {"parts":{"dispatch":µs,…}} (measure/why.h); the answer is what the script's function
 * returns, as a rule a choice's key. The front validates every byte that comes back.
 */
#ifndef FB_SCRIPT_SCRIPT_H
#define FB_SCRIPT_SCRIPT_H

#include "decide/preset.h"
#include "graph/graph.h"
#include "target/machine.h"
#include "worker/protocol.h"

enum {
    FB_SCRIPT_POOL = 64 << 20,
    FB_SCRIPT_TURN_MS = 2000,  /* of CPU time: what others do on the same cores is not the script's fault */
    FB_SCRIPT_WALL_MS = 60000, /* what a turn may take however little of it the process computes */
    FB_SCRIPT_TEXT_MAX = 1 << 20,
    FB_SCRIPT_ROWS = 20000,         /* rows and plots an experiment; a thousand cases are a long one … */
    FB_SCRIPT_ROW_BYTES = 64 << 10, /* … of this much JSON each … */
    FB_SCRIPT_ROWS_BYTES = 4 << 20, /* … and this much together: the front keeps them all, in some 20 times the room */
    FB_SCRIPT_MEASURES = 20000,     /* measurements an experiment */
};

typedef enum { FB_PARAM_INT, FB_PARAM_FLOAT, FB_PARAM_CHOICE, FB_PARAM_BOOL } fb_param_kind;

/* One parameter of the script, as shown and edited. */
typedef struct {
    fb_param_kind kind;
    const char *name, *help;
    json_t *standard; /* default value (borrowed from the info's arena'd JSON) */
    double min, max;  /* NAN: none */
    const char *step; /* "x2", "1", … or NULL */
    int n_choices;
    const char **choices;
} fb_param;

/* What the question says of the second column: that it is the faster one, the slower one, or only that they differ. */
typedef enum { FB_PREMISE_FASTER, FB_PREMISE_SLOWER, FB_PREMISE_DIFFERS } fb_premise;

/* What a choice says: that this part of the waterfall, as a gain or as a cost of the second column, decides. */
typedef struct {
    int part;         /* fb_why_id; -1: only the answer function knows */
    bool costs;       /* else it saves */
    const char *tell; /* told where it was found to be so; NULL */
} fb_condition;

typedef struct {
    const char *compare[2]; /* columns */
    fb_premise premise;
    int order;         /* among the bundled ones, from 1 on; 0: none */
    const char *about; /* what is compared, before the question; NULL */
    const char *ask;
    int n_choices;
    const char **choice_keys, **choices;
    const fb_condition *conditions; /* of the choices */
    int n_hints;
    const char **hints;
    const char *tell;
    bool has_answer;
} fb_puzzle;

/* Of a function in the script, both included; 0, 0 where it is not known. */
typedef struct {
    int first, last;
} fb_script_lines;

enum {
    FB_LESSON_PAGES = 200,
    FB_LESSON_COLUMNS = 16,        /* a page */
    FB_LESSON_TEXT_MAX = 32 << 10, /* bytes of a page's text, and of each of its other texts */
};

/* A page of a lesson; texts as written, in tui/show/markup.h's few signs, NULL where there is none. */
typedef struct {
    int line; /* of the lesson's file */
    const char *title, *text;
    const char *answer; /* shown when it is asked for */
    const char *notes;  /* the presenter's */
    const char *script; /* as the lesson names it */
    bool puzzle;        /* the script's puzzle is asked */
    int n_columns;
    const char **columns;
    json_t *params;   /* {"rows": 64}; borrowed from the info, NULL: none */
    const char *keys; /* to be played */
    double minutes;   /* NAN: it is not said */
} fb_lesson_page;

typedef struct {
    const char *about; /* NULL */
    int n_pages;
    const fb_lesson_page *pages;
} fb_lesson;

typedef struct {
    fb_arena *arena;
    json_t *json; /* keeps what `standard` points at */
    const char *path, *title;
    const char *computes; /* what all variants compute, as the script says; NULL: it says nothing */
    int n_params, n_variants, n_plans, n_columns;
    fb_param *params;
    const char **variants; /* one entry "" for a script that is a single model */
    const char **plans;
    const fb_script_lines *variant_lines, *plan_lines; /* of their functions */
    const char **columns;                              /* what the script says should be shown; may be none */
    bool experiment;
    const fb_puzzle *puzzle; /* NULL when it is none */
    const fb_lesson *lesson; /* NULL: it is a script; else it is a lesson alone, without variants */
} fb_script_info;

typedef struct fb_script fb_script;

typedef enum {
    FB_SCRIPT_INFO,
    FB_SCRIPT_LOG,
    FB_SCRIPT_GRAPH,
    FB_SCRIPT_PLAN,
    FB_SCRIPT_MEASURE,
    FB_SCRIPT_ROW,
    FB_SCRIPT_PLOT,
    FB_SCRIPT_DONE,
    FB_SCRIPT_ANSWER,
    FB_SCRIPT_ERROR
} fb_script_event_kind;

typedef struct {
    fb_script_event_kind kind;
    int64_t id;
    fb_script_info *info; /* INFO: the caller takes it */
    fb_graph *graph;      /* GRAPH: the caller takes it */
    json_t *message;      /* PLAN MEASURE ROW PLOT ANSWER: owned by the event */
    char text[512];       /* LOG: one line, cleaned */
    fb_error error;       /* ERROR: "script.lua:12: …" */
    int line;             /* ERROR: of the script, 0 unknown */
} fb_script_event;

/* Starts the process and loads `path`, a file or, where there is no such file, the path of an embedded one
 * ("scripts/puzzlers/split_stack.lua"); the front reads it and what it requires: the embedded scripts/lib first, then
 * files beside the script. Never blocks. `set` (may be NULL) gives parameters, of several values the first. A process
 * that dies or overruns gives one ERROR event with id 0 and is gone, as is one whose script does not load; requests
 * after that get an ERROR each: load again with a new fb_script. */
fb_script *fb_script_start(const char *path, const json_t *set, fb_error *err);
/* What the next turns may take on the wall, instead of FB_SCRIPT_WALL_MS. */
void fb_script_set_patience(fb_script *s, double seconds);
void fb_script_free(fb_script *s);
void fb_script_info_free(fb_script_info *info);
/* The columns that work on the script begins with: its own, else the usual presets of every variant. */
static inline const char *const *fb_script_columns(const fb_script_info *info, int *n)
{
    *n = info->n_columns ? info->n_columns : FB_PRESETS_USUAL;
    return info->n_columns ? (const char *const *)info->columns : fb_presets_usual;
}

int64_t fb_script_build(fb_script *s, const char *variant, const json_t *params);
/* g: from a GRAPH event of this script. The machine is what the plan's verdicts and costs are of (NULL: the built-in
 * guess for the host). */
int64_t fb_script_plan(fb_script *s, const fb_graph *g, const char *name, const fb_machine *m);
/* params: what every parameter is set to (NULL: as declared), but for those that a sweep goes over. */
int64_t fb_script_experiment(fb_script *s, const json_t *params);
int64_t fb_script_answer(fb_script *s, const json_t *why);
void fb_script_measured(fb_script *s, const json_t *report);
/* In place of a report: the experiment ends there, with an ERROR event of its request. */
void fb_script_stop(fb_script *s);

int fb_script_poll(const fb_script *s, struct pollfd out[2], int *timeout_ms);
void fb_script_pump(fb_script *s);
bool fb_script_next(fb_script *s, fb_script_event *out);
void fb_script_event_clear(fb_script_event *e);

/* Values of files loaded by the script (g:load), to be handed to workers: doubles; NULL when the key is unknown. */
const double *fb_script_file(const fb_script *s, const char *key, int64_t *n);

#endif
