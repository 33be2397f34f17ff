/* Inside session/: the records behind fb_session and what its files ask of each other.
 *
 *     session.c    new, free, poll, pump, the log
 *     load.c       the script: loading, its events, parameters, graphs
 *     columns.c    what a column is of, and how it comes to its graph and plan
 *     keep.c       columns as values, to be made again
 *     edits.c      edits, undo, carrying plans over to another graph
 *     devices.c    workers, what they told, machines, calibration
 *     kernels.c    kernels in files of the user's: reading, trusting, taking over
 *     schedule.c   measuring: jobs of one worker, interleaved
 *     search.c     the plan `best`, searched for in a worker
 *     experiment.c the script's experiment: hidden columns that are measured and dropped
 *     puzzle.c     the script's answer function
 *
 * Life of a column: spec → variant → slot (graph) → device → planner → plan → job → report. fb_column_advance takes
 * each step as soon as it can; everything that arrives ends in fb_session_pump, which advances all columns.
 */
#ifndef FB_SESSION_INTERNAL_H
#define FB_SESSION_INTERNAL_H

#include "session/session.h"

#include "base/vec.h"

#include <limits.h>

enum { FB_SESSION_WORKERS = 16, FB_SESSION_COLUMNS = 4096, FB_SESSION_LOG = 2000 };

/* A planner of one graph for one device. */
typedef struct {
    char *device;
    fb_planner *planner;
} fb_slot_planner;

/* The graph of one variant with one set of parameters: built once, shared by columns, freed with its last. */
typedef struct fb_slot {
    char *variant, *key; /* key: the parameters as one line of JSON */
    json_t *params;
    int generation;  /* of the script it came from; an older one is kept for its columns only */
    int process;     /* which of the script's processes has it */
    int64_t request; /* the build asked for; 0 none */
    fb_graph *graph;
    fb_arena *texts;
    const char *computes; /* fb_computes_of the graph, fb_computes_found once one of its columns was checked; in texts,
                           * as what it was before is, which columns may still point to */
    bool said;            /* by the script: nothing that is found changes it */
    fb_error error;
    int users;
    FB_VEC(fb_slot_planner) planners;
} fb_slot;

typedef enum {
    FB_JOB_WAITING,
    FB_JOB_PREPARING,
    FB_JOB_HOT,
    FB_JOB_CHECK,
    FB_JOB_COLD,
    FB_JOB_TRACE,
    FB_JOB_VALUES,
    FB_JOB_SEARCH,
    FB_JOB_ENDED
} fb_job_stage;

/* One column being measured, or whose plan is searched for. */
typedef struct fb_job {
    fb_job_stage stage;
    struct fb_column_record *column; /* NULL: forgotten, only to be released */
    int worker;
    int64_t id;       /* of the prepared case in its worker; 0 none */
    bool outstanding; /* an answer is awaited */
    bool checking;    /* a check is under way: it may take long, and can be cancelled */
    bool verify_only;
    bool look;          /* not measured: the value of a node is wanted, column->looked_at */
    bool counting;      /* measured traffic was asked for */
    fb_error uncounted; /* kind FB_OK, or why it was prepared again without */
    int hot, cold, rounds;
    double spent_us, asked_us; /* hot sampling so far; when the last request was sent */
    double least_us;           /* the shortest run so far; NAN or 0: not known */
    int asked;                 /* samples of the last request */
} fb_job;

typedef struct fb_column_record {
    fb_column shown; /* what the header promises; first, so that the two convert */
    fb_session *session;
    bool hidden;                                        /* of the experiment, not on screen */
    char *text, *variant, *plan_name, *device, *inputs; /* inputs: their values while it is timed; NULL: noise */
    char *base;                                         /* the plan asked for last: preset, script plan or file */
    bool variant_given; /* false: to be expanded to one column a variant once the script has answered */
    json_t *params;     /* its own; NULL: the session's */
    fb_slot *slot;      /* of shown.graph; counted */
    fb_slot *next;      /* the slot it waits for while it still shows another; counted; NULL otherwise */
    fb_history *history;
    FB_VEC(char *) names; /* of the plans in the history, as long as it was ever */
    int at;               /* where the history stands */
    bool plan_wanted;     /* a plan is to be found for slot and device */
    json_t *obeyed;       /* a plan of ours that a framework's compiler is to keep to, as groups of nodes */
    json_t *carried;      /* an edited plan by names, to be made again on the next graph or device */
    int64_t plan_request;
    int64_t changed_ns;  /* when it last changed, for automatic measuring; 0: nothing to do */
    bool measure_wanted; /* queued before it had a plan */
    bool verify_wanted;
    bool untrusted; /* a file that its plan names may not run: it was to be measured, and failed for that */
    bool searched, search_again; /* `search` is of its plan `best`; the next search is to be a new one */
    fb_best_summary search;
    fb_job *job;
    fb_report *report, *before;
    struct fb_column_record
        *against;      /* sampled until the comparison with this one is settled; NULL: as long as usual */
    double turn_us;    /* of sampling, where the times of these two are all that is wanted; 0: as usual */
    int rounds_wanted; /* … and how many */
    fb_timeline *timeline;
    fb_error no_timeline;
    char *looked_at; /* the node whose value was asked for last; NULL */
    fb_values *values;
    fb_error no_values;
} fb_column_record;

typedef struct {
    char *name;         /* in this session: "cuda:0", or "gpubox:cuda:0" where another machine's is called that */
    const char *called; /* what its worker calls it; in `entry` */
    int worker;
    const fb_target *target; /* that its list says it is of */
    bool recalls;            /* a recording: it runs nothing */
    json_t *entry;           /* of the worker's list */
    fb_machine machine;
    bool known;          /* the worker has told the machine */
    int64_t calibration; /* request under way */
    bool asked_for;      /* … by the user, not in the background */
    bool tried;          /* calibrated once already in this session */
    bool undercut;       /* a plan ran faster than its floor since then */
} fb_device_record;

typedef struct {
    fb_worker *worker;
    char *host;                  /* the name of its machine; NULL until hello came */
    bool answered;               /* hello came, or never will */
    bool workshop;               /* it is shared with others */
    json_t *devices, *libraries; /* what it answered, or NULL */
    int64_t listing;             /* devices request under way */
    FB_VEC(char *) files;        /* keys that its process has */
} fb_worker_record;

typedef struct {
    char *text;
    bool printed; /* by the script */
} fb_log_line;

struct fb_session {
    fb_session_options options;
    char *self, *device;
    json_t *set;               /* values given on the command line */
    uint64_t serial, advanced; /* advanced: up to which all columns were taken as far as they go */

    char *path;
    fb_script *script;
    fb_script_info *info;
    fb_error script_error;
    int script_line, generation;
    uint64_t answers; /* scripts, and the same one again, that said what they hold */
    bool script_loading;
    int process;    /* raised with every script process */
    bool blamed;    /* the last error named its request */
    bool replaced;  /* the process stands in for one that died: what it says of itself is known */
    json_t *params; /* name → value now */
    FB_VEC(fb_slot *) slots;

    FB_VEC(fb_column_record *) columns; /* shown ones; the header's numbers */
    FB_VEC(fb_column_record *) hidden;

    fb_worker_record workers[FB_SESSION_WORKERS];
    int n_workers;
    int n_listed; /* of the workers, in order: those whose devices are in `devices` */
    FB_VEC(fb_device_record *) devices;
    json_t *device_list, *library_list;
    FB_VEC(json_t *) predictions; /* that no workshop was told yet */

    FB_VEC(fb_job *) jobs;
    bool automatic;
    fb_error uncounted;        /* why the last one that should have been counted was not */
    bool trace, trace_metrics; /* of every column that is measured */
    int64_t idle_since_ns;
    int measured; /* reports so far */

    struct fb_experiment_state *experiment; /* NULL: none runs */
    fb_error experiment_error;

    fb_answer answer;
    int64_t answer_request;

    FB_VEC(char *) trusted;     /* lines as in the file of that name: agreed to in this session */
    FB_VEC(char *) own_kernels; /* files written or edited here: each text of them is agreed to */

    struct { /* what another script says of itself, asked for beside this one (lesson.c) */
        fb_script *script;
        fb_script_info *info;
        fb_error error;
    } peek;

    FB_VEC(fb_log_line) log;
    int64_t log_dropped;
};

static inline char *fb_session_copy_text(const char *text) /* NULL stays NULL */
{
    return text ? fb_strdup(text) : NULL;
}

/* session.c */
void fb_session_changed(fb_session *s);
void fb_session_say(fb_session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

void fb_session_log(fb_session *s, const char *text, bool printed);

/* load.c */
void fb_load_pump(fb_session *s);
void fb_load_free(fb_session *s);

/* ---- lesson.c ---- */

void fb_peek_pump(fb_session *s);
void fb_peek_free(fb_session *s);
/* The slot of a variant, asked for if it is new; not counted. */
fb_slot *fb_slot_get(fb_session *s, const char *variant, const json_t *params);
/* The plan a script wrote for the slot's graph: the request's id, 0 with an error. */
int64_t fb_slot_ask_plan(fb_session *s, fb_slot *slot, const char *name, const fb_machine *m, fb_error *err);
bool fb_session_script_ready(fb_session *s, fb_error *err); /* there is a process to ask, perhaps a new one */
/* What the graph is found to compute, for all columns of it. */
void fb_slot_computes(fb_session *s, fb_slot *slot, const char *text);
void fb_slot_take(fb_slot *slot);
void fb_slot_release(fb_session *s, fb_slot *slot); /* NULL is fine */
fb_planner *fb_slot_planner_for(fb_session *s, fb_slot *slot, const fb_device_record *d);
/* All parameters: `given` over the session's values; validated. The caller owns the result. */
json_t *fb_params_merge(fb_session *s, const json_t *given, fb_error *err);

/* columns.c */
fb_column_record *fb_column_new(fb_session *s, const char *spec, fb_error *err);
void fb_column_free(fb_column_record *c);
bool fb_column_advance(fb_column_record *c); /* true: something changed */
void fb_column_fail(fb_column_record *c, const fb_error *why);
/* Graph, plan or parameters are to be found again. `carry`: the plan, if edited, goes along by names. */
void fb_column_rebuild(fb_column_record *c, bool carry);
/* Its plan is another one now: forgets the report (keeping it as `before`), predicts again. */
void fb_column_replanned(fb_column_record *c);
void fb_column_predict(fb_column_record *c);
void fb_session_expand_columns(fb_session *s); /* those without a variant */
/* The plan that was wanted, which it takes. */
void fb_column_take_plan(fb_column_record *c, fb_plan *plan, const char *name);
void fb_column_keep_plan(fb_column_record *c); /* none came: it goes on with the one it has */
bool fb_column_foreign(const fb_column_record *c);
void fb_column_set_state(fb_column_record *c, fb_column_state state);
fb_report *fb_column_report(const fb_column_record *c);     /* a row, see fb_session_report */
fb_column_record *fb_column_at(const fb_session *s, int i); /* NULL outside */

/* edits.c */
bool fb_column_edited(const fb_column_record *c);
void fb_column_push(fb_column_record *c, fb_plan *plan, const char *name, const char *label); /* takes the plan */
void fb_column_forget_plan(fb_column_record *c, bool carry); /* `carry`: an edited one is kept by names */
void fb_column_show_plan(fb_column_record *c);               /* what the history stands at */

/* devices.c */
bool fb_devices_start(fb_session *s, fb_error *err);
void fb_devices_free(fb_session *s);
bool fb_same_machine(const fb_worker_record *a, const fb_worker_record *b); /* by the names that they gave of it */
/* What the device of this name in the session is called by its worker. */
const char *fb_session_device_called(const fb_session *s, const char *name);
/* The device of a name (NULL: the default). NULL with *wait while workers have not answered, else NULL and the error.
 */
fb_device_record *fb_session_device_named(fb_session *s, const char *name, bool *wait, fb_error *err);
void fb_devices_machine_event(fb_session *s, int worker, const fb_worker_event *e);
void fb_devices_list_event(fb_session *s, int worker, const fb_worker_event *e);
/* An error of a request that is the devices' own; false when it is not. */
bool fb_devices_error(fb_session *s, int worker, const fb_worker_event *e);
void fb_devices_idle(fb_session *s);
void fb_devices_judge(fb_session *s, const fb_column_record *c); /* its times may say that a calibration is wrong */
int fb_devices_timeout(const fb_session *s);                     /* ms until the background calibration; -1 none */
void fb_devices_interrupt(fb_session *s, int worker);            /* a measurement goes first */

/* kernels.c */
/* The files that a plan in JSON names, from `folder` (NULL: there is none), become absolute. `below`: a script's, which
 * may name none that lies elsewhere. */
bool fb_kernels_locate(json_t *plan, const char *folder, bool below, fb_error *err);
/* The folder that a file is or would be in, absolute; NULL: there is none. */
const char *fb_kernels_folder(const char *file, char to[PATH_MAX]);
/* … and from the folder of `file` again, where they lie there. */
void fb_kernels_relate(json_t *plan, const char *file);
bool fb_kernels_read(const fb_plan *plan, fb_error *err);  /* tells the planner what its files hold */
bool fb_kernels_ready(fb_column_record *c, fb_error *err); /* are all of them read, and may they run? */
void fb_kernels_free(fb_session *s);

/* search.c */
void fb_search_start(fb_session *s, fb_column_record *c, const fb_device_record *d);
void fb_search_send(fb_session *s, fb_job *j); /* its turn has come */
/* How it ended; the job is gone already. */
void fb_search_found(fb_column_record *c, const json_t *message);
void fb_search_ended(fb_column_record *c, const fb_error *why);

/* schedule.c */
/* Those that the worker does not have; false where one is missing, damaged or another's. */
bool fb_scheduler_send_files(fb_session *s, int worker, const fb_graph *g, fb_error *err);
void fb_job_start(fb_session *s, fb_column_record *c, bool verify_only);
void fb_job_forget(fb_column_record *c);
void fb_scheduler_unpair(fb_column_record *c); /* no comparison with it is waited for any more */
void fb_scheduler_run(fb_session *s);
void fb_scheduler_event(fb_session *s, int worker, fb_worker_event *e);
void fb_scheduler_free(fb_session *s);

/* puzzle.c */
bool fb_session_puzzle_event(fb_session *s, const fb_script_event *e); /* false: not of the question that was asked */
void fb_session_puzzle_lost(fb_session *s);                            /* the script's process is no more */

/* experiment.c */
void fb_experiment_event(fb_session *s, fb_script_event *e);
void fb_experiment_pump(fb_session *s);
void fb_experiment_lost(fb_session *s);
bool fb_experiment_asked(const fb_session *s, int64_t id); /* it is the running experiment's request */
void fb_experiment_free(fb_session *s);

#endif
