/* Recordings: what was measured on a machine that is not there now. One JSON file each, compressed (NAME.json.gz) or
 * plain (NAME.json), carried in the binary (scripts/recordings/) or in the user's folder; written by `fusebox record`,
 * served by the device replay:NAME.
 *
 * Figures are kept a launch code (fb_program_launch_code: what runs, whatever it runs on); a group's signature names
 * the codes of its launches, so that a group met again whose code has changed since is known to be stale. Preludes and
 * compilers are no part of a code: the file says their versions instead. Numbers have four digits, names are cut to 16
 * hex digits.
 *
 *     {"fusebox_recording":1, "version":…, "date":…, "device":…, "driver":…, "clock_mhz":…, "machine":{…},
 *      "scripts":{"split_stack":{"split_stack":GRAPH,…},…},
 *      "experiments":{"lstm":{GRAPH:true,…},…},
 *      "kernels":{CODE:{"hot":[median,p10,p90,n],"cold":[…],"dram":[read,written],"l2":…,"registers":…,…},…},
 *      "groups":{SIGNATURE:[CODE,…],…},
 *      "plans":{SIGNATURE:{"graph_is":GRAPH,"code":…,"stream":[…],"graph":[…],"mega":[…],"device":[…],"cold":[…],
 *                          "error":[abs,rel,bound,undecided],"launches":[all,calls of a library],
 *                          "rounds":{"stream":{"turn":…,"at":[…],"wall":[…],"device":[…]},"graph":…},
 *                          "kernels":{CODE:[median,p10,p90,n],…}},…},
 *      "peers":{"torch":{"name":"PyTorch 2.11 on NVIDIA H200","date":…}},
 *      "peer_plans":{"GRAPH torch eager":{"mode":"stream","wall":[…],"cold":[…],"device":[…],"launches":…,
 *                                         "error":[abs,rel,bound],"rounds":{…},
 *                                         "kernels":[{"name":…,"family":…,"count":…,"us":[…]},…]},…}}
 *
 * Peers are frameworks that plan for themselves, measured on the same machine: a plan of theirs is a name, and what it
 * launches is told by them. These two sections may be missing, and that of
 * experiments.
 *
 * Rounds are the samples themselves, taken in turns with those of other columns: "turn" is when their turn began (µs of
 * the Unix epoch), "at" what each began after that. Rounds of one turn may be paired (measure/compare.h).
 *
 * Timelines stand apart, in a second member of a compressed file, since few ask for them: {SIGNATURE:{…},…} as
 * measure/timeline.h has them, times in hundredths of a µs. A plain file has none.
 */
#ifndef FB_DEVICE_REPLAY_RECORDING_H
#define FB_DEVICE_REPLAY_RECORDING_H

#include "base/str.h"
#include "device/device.h"

enum { FB_SIGNATURE = 17, FB_RECORDING_MAX = 64 << 20 };

typedef struct fb_recording fb_recording;

/* ---- what things are called ---- */

/* Of the graph, the group's nodes and stored nodes, family and knobs. */
const char *fb_recording_group_signature(const fb_plan *plan, int group, char to[FB_SIGNATURE]);
/* Of all groups, and of the loops that are one kernel; whether it is launched as a stream or a graph is no part of it.
 */
const char *fb_recording_plan_signature(const fb_plan *plan, char to[FB_SIGNATURE]);
const char *fb_recording_graph_signature(const fb_graph *g, char to[FB_SIGNATURE]);
const char *fb_recording_code_name(const fb_program *p, const fb_launch *l, char to[FB_SIGNATURE]);
/* Of all launches in order. */
const char *fb_recording_program_code(const fb_program *p, char to[FB_SIGNATURE]);

/* ---- the file ---- */

fb_recording *fb_recording_new(const fb_machine *m);
/* Compressed or not. Every field is checked here: the functions below need not. */
fb_recording *fb_recording_read(const char *text, size_t n, fb_error *err);
void fb_recording_free(fb_recording *r);
/* Atomic; compressed where the name ends in ".gz". Equal recordings are equal files. */
bool fb_recording_write(fb_recording *r, const char *path, fb_error *err);

const fb_machine *fb_recording_machine(const fb_recording *r);
void fb_recording_set_machine(fb_recording *r, const fb_machine *m);
/* "date", "device", "driver", "version": NULL when absent. */
const char *fb_recording_text(const fb_recording *r, const char *key);
void fb_recording_set_text(fb_recording *r, const char *key, const char *text); /* NULL takes it away */
double fb_recording_clock_mhz(const fb_recording *r);                           /* NAN: not known */
void fb_recording_set_clock_mhz(fb_recording *r, double mhz);
void fb_recording_add_script(fb_recording *r, const char *script, const char *variant, fb_hash graph);
const json_t *fb_recording_scripts(const fb_recording *r);
/* Which graphs a script's experiment measured: {GRAPH: true, …}, copied. */
void fb_recording_set_experiment(fb_recording *r, const char *script, const json_t *graphs);
const json_t *fb_recording_experiment(const fb_recording *r, const char *script); /* NULL: none */

/* One launch. Stats with n 0, counts of -1 and NANs are not known. */
typedef struct {
    fb_stat hot_us, cold_us;
    double dram_read, dram_written, l2_bytes;
    fb_resources resources;
} fb_recorded_kernel;

bool fb_recording_kernel(const fb_recording *r, const char *code, fb_recorded_kernel *out);
void fb_recording_set_kernel(fb_recording *r, const char *code, const fb_recorded_kernel *k);

/* How many launches the group had when it was recorded; -1: it was not. */
int fb_recording_group(const fb_recording *r, const char *signature);
const char *fb_recording_group_code(const fb_recording *r, const char *signature, int launch);
void fb_recording_set_group(fb_recording *r, const char *signature, int n, const char *const *codes);

/* Drops plans of graphs that no script has any more, and kernels that no group and no plan launches. */
void fb_recording_prune(fb_recording *r);

typedef struct {
    char code[FB_SIGNATURE];  /* of its program */
    char graph[FB_SIGNATURE]; /* "": not known */
    fb_stat wall_us[3];       /* by launch mode; a plan that is one kernel has a signature of its own */
    fb_rounds rounds[3];      /* likewise */
    fb_stat device_us, cold_us;
    double max_abs, max_rel, bound;
    int64_t undecided;
    double launches, calls; /* of a run, of which some call a library; 0: not known, or it copies beside them */
} fb_recorded_plan;

bool fb_recording_plan(const fb_recording *r, const char *signature, fb_recorded_plan *out);
void fb_recording_set_plan(fb_recording *r, const char *signature, const fb_recorded_plan *p); /* forgets its kernels */
/* Of a plan that is there. */
void fb_recording_set_plan_launches(fb_recording *r, const char *signature, double launches, double calls);
/* Signatures of the plans of a graph, in order; arena-owned. Returns how many. */
int fb_recording_plans(const fb_recording *r, const char *graph, fb_arena *arena, const char ***out);
/* One launch as it was inside that plan; false when it is not known. */
bool fb_recording_plan_kernel(const fb_recording *r, const char *signature, const char *code, fb_stat *out);
/* All of them, a new reference or NULL; and again. */
json_t *fb_recording_plan_kernels(const fb_recording *r, const char *signature);
void fb_recording_set_plan_kernels(fb_recording *r, const char *signature, const json_t *kernels);
void fb_recording_set_plan_kernel(fb_recording *r, const char *signature, const char *code, const fb_stat *hot_us);

/* Of a plan, as fb_timeline_to_json gives it: a new reference, or NULL with why there is none. Metrics and spans that
 * are too many are thinned and cut. */
json_t *fb_recording_timeline(fb_recording *r, const char *signature, fb_error *err);
void fb_recording_set_timeline(fb_recording *r, const char *signature, const json_t *timeline);

/* ---- peers ---- */

/* "name", "date" of a peer; NULL: it is not in here. */
const char *fb_recording_peer(const fb_recording *r, const char *device, const char *key);
/* Another name (another version, another GPU) drops the peer's plans; false then, if there were any. */
bool fb_recording_set_peer(fb_recording *r, const char *device, const char *name, const char *date);
/* `graph` is its signature. Texts of *out are the recording's. */
bool fb_recording_peer_plan(const fb_recording *r, const char *graph, const char *device, const char *plan,
                            fb_peer_plan *out);
/* Names of kernels are cut to FB_PEER_NAME bytes. */
enum { FB_PEER_NAME = 80 };
void fb_recording_set_peer_plan(fb_recording *r, const char *graph, const char *device, const char *plan,
                                const fb_peer_plan *p);
/* Adds "compile, eager"; nothing when the graph was not recorded with that peer. */
void fb_recording_peer_plans(const fb_recording *r, const char *graph, const char *device, fb_str *out);

/* ---- where they are ---- */

/* Names of all there are, arena-owned: the user's folder ($FUSEBOX_RECORDINGS, else
 * $XDG_DATA_HOME/fusebox/recordings), then those carried in the binary whose name is not taken. */
int fb_recording_names(fb_arena *arena, const char ***out);
/* To be served, not to be written again: a figure is read and checked when it is asked for. A damaged one is not there,
 * and the recording no longer sound. */
fb_recording *fb_recording_open(const char *name, fb_error *err);
bool fb_recording_sound(const fb_recording *r, fb_error *err);
/* What a list of devices says of it, in a tenth of the time: the machine, texts, scripts, experiments and peers, and
 * which plans of peers there are. It has no figures, and those of the file are not checked. */
fb_recording *fb_recording_open_head(const char *name, fb_error *err);

#endif
