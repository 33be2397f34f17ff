/* Reports: what running a program gave. A value that is not known is NAN (or -1 for counts) here and absent in JSON,
 * never zero. The JSON is the interface of DESIGN.md ("The report as JSON"); one column is one row of a results file.
 */
#ifndef FB_MEASURE_REPORT_H
#define FB_MEASURE_REPORT_H

#include "base/arena.h"
#include "base/error.h"
#include "base/figure.h"
#include "measure/theirs.h"
#include "plan/plan.h"

#include <jansson.h>

fb_stat fb_stat_of(const double *samples, int n); /* leaves samples alone; NANs among them do not count */

const char *fb_report_source_name(fb_figure_source s);

/* What a kernel is called where there is little room: of a C++ name, mangled or not, whole or cut off, the function
 * alone, without what it returns, its namespaces, template arguments and parameters; any other name as it is. Into
 * `to`, returned. */
const char *fb_kernel_short_name(char *to, size_t room, const char *name);

typedef struct {
    const char *name, *family;
    int n_nodes;
    const char **nodes;
    int64_t count; /* launches a run; the figures below are of all of them together */
    fb_stat device_us, cold_us;
    double predicted_us;
    double bytes_read, bytes_written; /* modelled */
    /* Modelled: of sectors that are moved for one element, beyond those, and the time of it, in predicted_us. Of these
     * bytes, apart_written lie around elements that are written. */
    double apart_bytes, apart_us, apart_written;
    /* Modelled, in predicted_us: what threads wait for that others would hide, had registers left room. */
    double few_us;
    double measured_read, measured_written, l2_bytes; /* counters */
    double flops, local_bytes;                        /* local_bytes: fb_resources, of all launches */
    int registers, shared_bytes, spill_bytes;
    double occupancy;
    int group;               /* of the plan; -1 for foreign devices */
    const char *code;        /* names what it runs, see fb_program_launch_code; NULL for foreign devices */
    fb_figure_source source; /* of the times above */
    bool stale;              /* recorded from another version of its source */
} fb_kernel_report;

/* What is known of a column's answer. Only what was checked is right or wrong: an overflow of a dtype is what the graph
 * asks for, and undecided means that honest roundings lead anywhere. */
typedef enum {
    FB_CHECK_NONE,
    FB_CHECK_CHECKING,
    FB_CHECK_RIGHT,
    FB_CHECK_WRONG,
    FB_CHECK_UNDECIDED,
    FB_CHECK_OVERFLOW
} fb_check_state;
/* What was judged: kernels, each on what it was given, and the whole graph; or the whole alone (a framework's columns).
 */
typedef enum { FB_JUDGED_NOTHING, FB_JUDGED_WHOLE, FB_JUDGED_KERNELS } fb_check_scope;
const char *fb_check_state_name(fb_check_state s); /* "checking" */
const char *fb_check_scope_name(fb_check_scope s); /* "kernels" */

typedef struct {
    double max_abs, max_rel; /* largest error, and that over the largest magnitude of the same output */
    double bound;            /* largest ratio error / allowed: right when <= 1 */
    int64_t undecided;       /* elements a comparison leaves open: counted, not judged */
    int64_t compared;        /* all elements, those among them; 0 unknown */
    bool ok;                 /* not found wrong; when `bound` is NAN: not verified (yet) */
    fb_check_state state;
    fb_check_scope scope;
    int64_t kernels; /* launches that were checked by themselves */
    char kernel[64]; /* the one that is wrong; "": none, or the whole */
    char worst[160]; /* "relu[3,17,0]: 0.25, expected 0.5" when not ok; what overflowed */
} fb_error_report;

/* Of the whole in JSON: {"fusebox": 3, "columns": [reports]}. 2 gives times their kind and interval, columns their
 * rounds and what they compute; a prediction has no p10 and p90. In 3 it has no n either, nobody having measured it,
 * and copies, which recordings keep no times of, have a kind of their own. What reads 3 reads 1 and 2. */
enum { FB_REPORT_VERSION = 3 };

typedef struct fb_report {
    fb_arena *arena;
    const char *script, *variant, *plan, *device;
    json_t *params;          /* owned; {"batch_size": 1024, …} */
    json_t *search;          /* owned; how the plan `best` was found (measure/best.h); NULL for other plans */
    const fb_theirs *theirs; /* of a framework's column: what its compiler decided; NULL: nothing is said of it */
    int nodes;
    int64_t launches;
    const char *launch_mode;
    fb_stat wall_us, device_us, cold_us;
    int n_rounds; /* the latest ones, in order of time */
    fb_round rounds[FB_ROUNDS];
    struct { /* of the machine while hot samples were taken: medians; NAN and -1: not known */
        double sm_mhz, memory_mhz, watts, celsius, steal, load;
        int64_t capped;  /* rounds at its limit of power */
        int64_t dropped; /* rounds that were left out, for it was slowed down by heat or by its hardware */
    } state;
    double predicted_us, gap_us, floor_us;
    bool floor_guessed; /* by a rate that nobody measured on the device, as all are where it is uncalibrated */
    double bytes_read, bytes_written, measured_read, measured_written;
    double flops, peak_bytes, compile_ms;
    const char
        *sums; /* "in any order": of floats, as threads come, so that last bits differ from run to run; NULL: fixed */
    const char *copies;           /* of feeds and receives: "in order", "overlapped"; NULL: nothing is copied */
    double copied_in, copied_out; /* bytes a run */
    fb_stat copy_us;              /* of all copies of a run, each for itself: fb_report_copies_source */
    double copy_hidden_us;        /* … and of that, what kernels ran beside */
    fb_figure_source source;
    bool stale; /* recorded, of a source that has changed since */
    fb_error_report error;
    int n_kernels;
    fb_kernel_report *kernels;
    const char *graph_hash, *plan_hash;
    const char *computes; /* fb_computes_of its graph, or fb_computes_found; NULL: not known */
    const char *values;   /* of inputs and parameters while it was timed: "zeros", "ones"; NULL: noise */
    const char *failed;   /* a sentence when the case failed: then nothing measured stands above */
    fb_error_kind failed_kind;
} fb_report;

fb_report *fb_report_new(void);                   /* every figure unknown */
void fb_kernel_report_clear(fb_kernel_report *k); /* every figure unknown; `k` may hold anything */
void fb_report_free(fb_report *r);
/* Takes back what a model said of times: of a calibration that is doubted they are worth nothing. Bytes and launches
 * stay. */
void fb_report_withdraw(fb_report *r);
/* Its kernels, timed one by one in runs of their own, took longer than whole runs do: how long the device idles cannot
 * be told. */
bool fb_report_busy_above_wall(const fb_report *r);
/* Copies are measured or predicted: no recording keeps their times, even where it keeps those of the whole. */
fb_figure_source fb_report_copies_source(fb_figure_source times);
/* Wall time in which no kernel runs and nothing is copied alone; NAN: not known, or it cannot be told. */
double fb_report_gap(const fb_report *r);
bool fb_kernel_calls_library(const fb_kernel_report *k); /* a product by a library; no kernel of a framework's is */
/* False, or the kernel moved more than 1.2 times what is modelled, by the counters: a sentence with the likely cause.
 * Without counters, its local memory says so where that is as much. */
bool fb_kernel_moved_more(const fb_kernel_report *k, char to[200]);
/* False, or what to know of the machine's state beside the column's times: a sentence. */
bool fb_report_state_say(const fb_report *r, char to[200]);
json_t *fb_report_to_json(const fb_report *r); /* one element of "columns" */
fb_report *fb_report_from_json(const json_t *value, fb_error *err);
/* Takes over what further samples change: times and errors; names and nodes stay. False when the kernels of `later`, a
 * report of the same case, are others. */
bool fb_report_refresh(fb_report *r, const fb_report *later);
/* Its results were checked and found wrong; what was not checked (composed, predicted) is not. */
bool fb_report_is_wrong(const fb_report *r);
/* More than half of the elements are undecided: that nothing was found wrong says little. */
bool fb_report_error_says_nothing(const fb_error_report *e);
/* Until both scopes have passed: nothing is known, so no figure stands in it. */
extern const fb_error_report fb_error_checking;
/* "guessed": in JSON the "floor_kind" of a report with floor_guessed; others have none. */
extern const char fb_floor_guessed[];

#endif
