/* The session: what the front works with. Loads a script, keeps columns (variant × plan × device), edits their plans,
 * asks for measurements and collects reports. Everything returns at once; what happens later shows after
 * fb_session_pump, and every visible change raises fb_session_serial. One thread. The workbench polls; the command line
 * calls fb_session_wait.
 *
 *     fb_session *s = fb_session_new(&options, &err);
 *     fb_session_load(s, "scripts/puzzlers/split_stack.lua", &err);
 *     int c = fb_session_add(s, "split_stack:max@host", &err);
 *     fb_session_measure(s, &c, 1);
 *     while (fb_session_busy(s)) fb_session_wait(s, -1);
 *     const fb_report *r = fb_session_column(s, c)->report;
 */
#ifndef FB_SESSION_SESSION_H
#define FB_SESSION_SESSION_H

#include "decide/preset.h"
#include "decide/search.h"
#include "measure/best.h"
#include "measure/report.h"
#include "measure/why.h"
#include "plan/plan.h"
#include "script/script.h"
#include "session/grade.h"
#include "worker/worker.h"

#include <limits.h>
#include <poll.h>

typedef struct fb_session fb_session;

typedef struct {
    const char *self;   /* path of this binary, for its own workers */
    const char *device; /* --device; NULL: the default device */
    int n_workers;
    const char *const *workers; /* --worker commands */
    const json_t *set;          /* {"batch_size":[64,128]}: one value or several a parameter; may be NULL */
    uint64_t seed;              /* of the inputs; 0 is as good as any */
    const char *values;         /* what columns are timed with that do not say so; NULL: noise */
    bool calibrate;             /* calibrate in the background when the device was not */
    int calm_ms;                /* … after this long without anything to do; 0: 1.5 s */
    bool counters;              /* measured traffic as well, on GPUs whose counters may be read */
    bool libraries;             /* what each machine has of libraries is asked for, too */
    bool search_again;          /* `best` is searched for anew, whatever was found earlier */
    bool predictions;           /* what is chosen in puzzles is told to the workshop, if one is used */
    bool trust;                 /* every kernel in a file that a plan names may run */
    const fb_machine *plan_as;  /* plans of columns on a host are made for this machine instead; NULL: for the host */
    bool plan_as_gpus;          /* … and those of columns on GPUs */
} fb_session_options;

fb_session *fb_session_new(const fb_session_options *o, fb_error *err);
void fb_session_free(fb_session *s); /* ends all processes */

/* ---- events ---- */

enum { FB_SESSION_FDS = 64 };
/* So long an edit waits for a next one before it is measured by itself: longer than a key that is held takes to repeat,
 * and not so long that it were waited for. */
enum { FB_SESSION_SETTLE_MS = 80 };
int fb_session_poll(const fb_session *s, struct pollfd out[FB_SESSION_FDS], int *timeout_ms);
void fb_session_pump(fb_session *s);
bool fb_session_busy(const fb_session *s);           /* something was asked for and has not ended */
void fb_session_wait(fb_session *s, int timeout_ms); /* poll + pump once; -1: until something happens */
uint64_t fb_session_serial(const fb_session *s);

/* ---- the script ---- */

/* `path`: a Lua script, or a graph in JSON (one variant ""). A bare name like "split_stack" or "puzzlers/split_stack"
 * finds a bundled script. Fails at once only for what needs no script (missing file). Reloading keeps columns and
 * carries their plans over by node names; what could not be kept is said in the log. */
bool fb_session_load(fb_session *s, const char *path, fb_error *err);
/* The same from the beginning: of what was open nothing stays, neither columns nor parameters. Where it fails, all
 * stays. Loading another script than the one that is open is this, too. */
bool fb_session_open(fb_session *s, const char *path, fb_error *err);
uint64_t fb_session_answers(const fb_session *s);             /* how many times a script has said what it holds */
const char *fb_session_path(const fb_session *s);             /* of the script as found; NULL before any was loaded */
const fb_script_info *fb_session_script(const fb_session *s); /* NULL until it has answered */
const fb_error *fb_session_script_error(const fb_session *s); /* kind FB_OK when all is well */
int fb_session_script_error_line(const fb_session *s);
/* Nothing is open from now on: neither script nor columns. */
void fb_session_close(fb_session *s);
/* Values for the parameters of the script that was just opened and has not answered yet, as if they stood on the
 * command line. */
void fb_session_give(fb_session *s, const json_t *params);
/* The script that is open is a lesson: it is the caller's from now on, and nothing is open any more. NULL: it is none.
 */
fb_script_info *fb_session_take_lesson(fb_session *s);
/* Asks what a script says of itself, beside the one that is open; fb_session_busy until it has answered. What was asked
 * before is given up. */
void fb_session_peek(fb_session *s, const char *path);
/* Whether there is an answer, which is given once: what it says, the caller's, or NULL with the error. */
bool fb_session_peeked(fb_session *s, fb_script_info **info, fb_error *err);

/* The value a parameter has now (borrowed). Setting rebuilds all graphs; plans are carried over by node names. */
const json_t *fb_session_param(const fb_session *s, const char *name);
bool fb_session_set_param(fb_session *s, const char *name, const json_t *value, fb_error *err);

/* The values of an input of distribution FB_DIST_FILE: what the script loaded, or of a graph NAME.json what lies in
 * NAME.weights, one .npy file a key. FB_ERR_INPUT where they are not there or not what the graph names. */
typedef struct {
    const double *values;
    int64_t n;
    double *own; /* heap; the receiver frees. NULL: they are the script's */
} fb_session_weights;
bool fb_session_file(const fb_session *s, const fb_node *node, fb_session_weights *out, fb_error *err);

/* Lines for the log pane: what the script printed, what was dropped, why a worker ended. */
int fb_session_log_lines(const fb_session *s);
const char *fb_session_log_line(const fb_session *s, int i);
bool fb_session_log_printed(const fb_session *s, int i); /* the script printed it */
int64_t
fb_session_log_dropped(const fb_session *s); /* lines before the first one kept, of which there are 2000 at most */

/* ---- columns ---- */

typedef enum {
    FB_COLUMN_BUILDING, /* waits for its graph or plan */
    FB_COLUMN_READY,    /* has graph and plan; not measured as it stands */
    FB_COLUMN_QUEUED,
    FB_COLUMN_MEASURING,
    FB_COLUMN_DONE,   /* report is of this plan */
    FB_COLUMN_FAILED, /* error says why */
} fb_column_state;

typedef struct {
    const char *text;      /* "split_stack:max@host" as asked for */
    const char *variant;   /* "" for a single model */
    const char *plan_name; /* preset, script plan, file, or "mine" once edited */
    const char *device;
    fb_column_state state;
    fb_error error;
    char progress[96];             /* "compiling 3 of 7" */
    double fraction;               /* 0 … 1, NAN unknown */
    const fb_graph *graph;         /* NULL until built; shared by columns of one variant. With a plan the plan's: */
    const fb_graph *written;       /* another one than as written where steps are loops */
    const fb_plan *plan;           /* NULL for devices that plan for themselves */
    fb_plan_cost predicted;        /* valid when plan is */
    const fb_machine *machine;     /* of its device; calibrated or not */
    const fb_report *report;       /* the last one of this plan; NULL: none */
    const fb_report *before;       /* of the plan before the last edit, for comparison; NULL: none */
    json_t *params;                /* of its graph */
    const char *computes;          /* measure/compare.h, of its graph; NULL: not known */
    const char *values;            /* of its inputs while it is timed: "zeros", "ones"; NULL: noise */
    bool searching;                /* while building: its plan is searched for, progress and fraction tell how far */
    const fb_best_summary *search; /* how its plan was found; NULL unless it is `best` */
} fb_column;

int fb_session_columns(const fb_session *s);
const fb_column *fb_session_column(const fb_session *s, int i);
/* `spec`: [VARIANT:]PLAN[@DEVICE][#VALUES]; without a variant one column a variant is added. Returns the first new
 * column's index or -1. */
int fb_session_add(fb_session *s, const char *spec, fb_error *err);
void fb_session_drop(fb_session *s, int i);
/* Columns that failed because their device is not here go, unless all did; the log says which. For what a script
 * suggests, which is no more than that. */
void fb_session_drop_absent(fb_session *s);
void fb_session_move(fb_session *s, int from, int to);
/* The column as a row: a copy of its report, or of why it failed; the caller frees. */
fb_report *fb_session_report(const fb_session *s, int i);
/* A copy of a column, with the same plan, to be edited beside it. */
int fb_session_duplicate(fb_session *s, int i);
bool fb_session_set_variant(fb_session *s, int i, const char *variant, fb_error *err);
bool fb_session_set_device(fb_session *s, int i, const char *device, fb_error *err);
bool fb_session_set_plan(fb_session *s, int i, const char *plan_name,
                         fb_error *err); /* preset, best, script plan, file */
/* Gives the column the plan `best`, searched for anew. */
bool fb_session_search(fb_session *s, int i, fb_error *err);

/* ---- edits ---- */

/* `repeated`: on every repetition of the nodes' scopes. try says what would happen; edit does it and, with automatic
 * measuring, queues a measurement. */
fb_verdict fb_session_try(const fb_session *s, int column, const fb_edit *edit, bool repeated);
fb_verdict fb_session_edit(fb_session *s, int column, const fb_edit *edit, bool repeated);
const char *fb_session_undo(fb_session *s, int column); /* what was undone, NULL: nothing */
const char *fb_session_redo(fb_session *s, int column);
/* What makes the column's plan, where that is a preset or some of its decisions; else false with the reason. */
bool fb_session_preset(const fb_session *s, int column, fb_preset_use *out, fb_error *err);
/* The record of the decisions that `use` takes on the column's graph; the caller frees. NULL: it has no plan of ours.
 */
fb_steps *fb_session_steps(const fb_session *s, int column, const fb_preset_use *use, fb_error *err);
/* A column as a value, the caller's: {"column": "variant:plan@device", "plan": {…}}, the plan where it was edited.
 * NULL: there is no such column. And such a column again, at `at` (-1: the last): its index, or -1. */
json_t *fb_session_keep(const fb_session *s, int i);
int fb_session_restore(fb_session *s, const json_t *kept, int at, fb_error *err);
bool fb_session_save_plan(const fb_session *s, int column, const char *path, fb_error *err);

/* ---- kernels in files of the user's ---- */

/* The groups that a kernel's name, its number from 1 on, a node or nodes such as "feature[*].tanh" stand for, in
 * ascending order: how many, 0 with what there is. */
int fb_session_kernels_named(const fb_session *s, int column, const char *name, fb_arena *arena, int **out,
                             fb_error *err);
/* The one group; those of many nodes must share a kernel, and the first stands for them. FB_NONE with what there is. */
int fb_session_kernel_named(const fb_session *s, int column, const char *name, fb_error *err);
/* Writes the group's kernel to `path`, to be improved by hand, and adds a column beside with the file as the kernel of
 * all groups that share it: that column's index, or -1. `replace`: a file that is there already. */
int fb_session_eject(fb_session *s, int column, int group, const char *path, bool replace, fb_error *err);
/* A file name for it, from the kernel's; in `folder` one that is still free, without one ("") as it is. */
bool fb_session_eject_path(const fb_session *s, int column, int group, const char *folder, char to[PATH_MAX],
                           fb_error *err);
/* Where kernels of the script lie: its folder, or for a bundled one $XDG_DATA_HOME/fusebox. */
const char *fb_session_folder(const fb_session *s, char to[PATH_MAX]);    /* NULL: there is no place for it */
const char *fb_session_kernel_path(const char *path, const char *folder); /* relative where it lies in `folder` */
/* All files that columns' plans name, absolute; arena-owned. */
int fb_session_kernel_files(const fb_session *s, fb_arena *arena, const char ***out);
/* They may have been saved: columns with one that holds something else now are as if just edited. Returns how many. */
int fb_session_kernels_saved(fb_session *s);

/* The first file that a column was to run and may not, since nobody has agreed to what it holds, with its SHA-256;
 * NULL: none. Both arena-owned. */
const char *fb_session_untrusted(fb_session *s, fb_arena *arena, const char **hash);
void fb_session_trust(fb_session *s, const char *hash); /* agreed, and remembered: columns that waited are measured */
/* The user edits the file here: whatever it holds in this session is agreed to. */
void fb_session_own_kernel(fb_session *s, const char *path);

/* ---- measuring ---- */

/* Measures the columns together, interleaved (A B A B …), hot then cold. Columns already being measured go on. */
void fb_session_measure(fb_session *s, const int *columns, int n);
/* Measures two columns until they are told apart, or known to be the same, or five seconds were spent on sampling them.
 */
void fb_session_compare(fb_session *s, int a, int b);
/* Compares their times alone, by that many turns of each of `turn_us`: no answer is checked and no cache is flushed.
 * For many comparisons in a row. */
void fb_session_compare_times(fb_session *s, int a, int b, double turn_us, int rounds);
/* Prepares the columns and checks their answers against the reference, without timing them. */
void fb_session_check(fb_session *s, const int *columns, int n);
/* Why traffic is modelled alone where it should have been measured; NULL: no such case yet. */
const char *fb_session_uncounted(const fb_session *s);
/* From now on a measured column is traced as well, with `metrics` over time if its device has them. */
void fb_session_trace(fb_session *s, bool metrics);
/* Of a measured column; NULL with why there is none. */
const fb_timeline *fb_session_timeline(const fb_session *s, int i, fb_error *err);
/* Asks what a node of a column holds; the column is prepared for it, not timed. Ask when nothing else of it is under
 * way. */
void fb_session_look(fb_session *s, int i, const char *node);
/* … and gives it once fb_session_busy is over; NULL with why there is none. */
const fb_values *fb_session_values(const fb_session *s, int i, fb_error *err);
/* Why column b is faster than a, or slower: of their last measurements. False with the reason when one has none. */
bool fb_session_why(const fb_session *s, int a, int b, fb_why *out, fb_error *err);
/* … of other reports of the two, such as a results file's. */
bool fb_session_why_reports(const fb_session *s, int a, int b, const fb_report *of_a, const fb_report *of_b,
                            fb_why *out, fb_error *err);
/* … by the time that is named: a claim about kernels needs the device's alone. */
bool fb_session_why_time(const fb_session *s, int a, int b, fb_time of, fb_why *out, fb_error *err);
void fb_session_cancel(fb_session *s);            /* everything queued or running */
void fb_session_set_auto(fb_session *s, bool on); /* measure edits by themselves */
bool fb_session_auto(const fb_session *s);

/* ---- puzzles ---- */

typedef enum { FB_ANSWER_NONE, FB_ANSWER_ASKED, FB_ANSWER_KNOWN, FB_ANSWER_FAILED } fb_answer_state;

typedef struct {
    fb_answer_state state;
    fb_grade grade; /* KNOWN */
    fb_error error;
} fb_answer;

/* Which choices a waterfall makes right; where the script has an answer function, that is asked. Where nothing can be
 * told or the premise does not hold, it is not. */
bool fb_session_ask(fb_session *s, const fb_why *why, fb_error *err);
const fb_answer *fb_session_answer(const fb_session *s); /* of the last question */

/* The user predicts: told to the workshop that is used, where the options allow that; else nothing happens. `guess`:
 * how many times faster, NAN not said. */
void fb_session_predict(fb_session *s, const char *puzzle, const char *chosen, double guess);

/* ---- devices and experiments ---- */

/* {"name":…,"groups":[[node, …], …]}, for a compiler that is to keep to a plan: the nodes of a group are one kernel.
 * New; NULL where the plan is of another graph than the one as written (its loops were found). */
json_t *fb_session_plan_as_groups(const fb_plan *plan, const char *name);

/* What workers told: arrays of the hello message; NULL until known. */
const json_t *fb_session_devices(const fb_session *s);
const json_t *fb_session_libraries(const fb_session *s);
bool fb_session_devices_known(const fb_session *s);         /* every worker has answered, or never will */
const char *fb_session_default_device(const fb_session *s); /* NULL until known */
const fb_machine *fb_session_machine(const fb_session *s, const char *device);
/* The request's id, 0 with an error. fb_session_busy until it has ended; the machine says whether it did well. */
int64_t fb_session_calibrate(fb_session *s, const char *device, fb_error *err);
bool fb_session_calibrating(const fb_session *s, const char *device); /* just now */

/* What an experiment gives and asks, called from fb_session_pump. `known` may give the report of a case that was
 * measured before (JSON, a new reference; NULL: measure it). `answered` is told every report that the script gets,
 * known ones and those of cases that came to nothing too. The others return false to stop the experiment, with the
 * error filled. */
typedef struct {
    void *ctx;
    json_t *(*known)(void *ctx, const fb_column *c);
    bool (*measured)(void *ctx, const fb_report *report, fb_error *err);
    void (*answered)(void *ctx, const json_t *report);
    /* `kind`: the least certain of what the row's case was measured to be. */
    bool (*row)(void *ctx, const json_t *which, const json_t *row, fb_figure_source kind, fb_error *err);
    bool (*plot)(void *ctx, const json_t *plot, fb_error *err);
} fb_experiment_hooks;

/* Runs the script's experiment from its start; fb_session_busy until it has ended. False when there is none or one
 * runs. */
bool fb_session_experiment(fb_session *s, const fb_experiment_hooks *hooks, fb_error *err);
bool fb_session_experiment_runs(const fb_session *s);
/* What it measures just now, for showing how far that is; NULL: nothing. */
const fb_column *fb_session_experiment_column(const fb_session *s);
void fb_session_stop_experiment(fb_session *s); /* fb_session_cancel does so, too */
/* How the last one ended: kind FB_OK when it did well, FB_ERR_CANCELLED when it was stopped. */
const fb_error *fb_session_experiment_error(const fb_session *s);

#endif
