/* The protocol between the front and a worker: JSON lines over a pair of pipes, so that a worker is any command
 * (`ssh gpubox fusebox worker`). Version first; every message is validated where it arrives; unknown types are errors,
 * unknown fields are ignored.
 *
 * front → worker
 *   {"type":"hello","fusebox":1,"version":"0.1.0"}
 *       … "seat":S: as the workshop's own hello said, to come back after a lost connection as who one was
 *   {"type":"graph","hash":H} followed by the lines of graph_json.h      once per graph; kept by hash (least recently
 * used go)
 *   {"type":"prepare","id":N,"graph":H,"plan":{…},"device":"host","seeds":[…],"counters":false}
 *       … "ahead":true: of a framework, compiled into its own cache and no more
 *       … "sources":{PATH:TEXT}: what the files hold that the plan names for kernels
 *   {"type":"sample","id":N,"n":20,"cache":"hot","brief":false}           brief: kernels need not name their nodes
 *   {"type":"check","id":N,"graph":H,"device":"host","seeds":[…]}          of what was prepared from that graph; before
 * it, reports say "checking"
 *   {"type":"trace","id":N,"metrics":false}                               after sampling; metrics: over time, too
 *   {"type":"values","id":N,"node":NAME}                                  of what was prepared: what that node holds
 *   {"type":"release","id":N}
 *   {"type":"search","id":N,"graph":H,"device":"host","seeds":[…],"again":false,"machine":{…}}   the plan `best`;
 * machine: plan for that one, and measure nothing
 *   {"type":"cancel","id":N}                                              also while compiling or in the queue
 *   {"type":"calibrate","id":N,"device":"host"}
 *   {"type":"devices","id":N,"libraries":true}                            without it: no libraries, which take time
 *   {"type":"file","key":K,"bytes":n} followed by n raw bytes              values of FB_DIST_FILE inputs, as doubles
 *   {"type":"from","name":N,"origin":ADDRESS}                             to a workshop, by seat --stdio alone
 *   {"type":"predict","puzzle":P,"chosen":KEY,"guess":X}                  to a workshop alone (workshop/workshop.h)
 *   {"type":"quit"}
 * worker → front
 *   {"type":"hello","fusebox":1,"version":…,"host":…,"devices":[…],"libraries":[…]}
 *       … of a framework, a report may have "their_plan": what its compiler decided (measure/theirs.h). What makes no
 * sense there costs the column that plan, and nothing else
 *   {"type":"progress","id":N,"what":"compiling 3 of 7","fraction":0.4}   also "waiting, 2 ahead" for the device's lock
 *   {"type":"prepared","id":N,"report":{…}}
 *   {"type":"sampled","id":N,"waited_us":0,"brief":false,"report":{…}}     all samples so far; waited_us: for the lock
 *       … "took_us":T: of a workshop, whose requests wait for others' and share what they gave: what sampling took
 *   {"type":"checked","id":N,"report":{…}}
 *   {"type":"traced","id":N,"timeline":{…}}                                measure/timeline.h
 *   {"type":"values","id":N,"values":{…}}                                  measure/values.h
 *   {"type":"released","id":N}
 *   {"type":"found","id":N,"plan":{…},"summary":{…}}                       measure/best.h
 *   {"type":"machine","id":N,"device":"host","machine":{…}}                after calibrate, and unasked when a device
 * opens
 *   {"type":"devices","id":N,"devices":[…],"libraries":[…]}
 *   {"type":"error","id":N,"kind":"crash","text":"…"}                      the request with that id is over
 *   … answers of a request: "wrote_bytes":B, "references":{H:B}            put on disk since the last answer: by what
 * it did; as references of graphs
 *
 * `fusebox worker` is a supervisor: it reads stdin, keeps graphs, forks a child that opens the device and a reference
 * process, enforces limits (30 s to compile a kernel, 60 s a run unless told otherwise), kills a child that overruns or
 * is cancelled in the middle, reports it as an error of the running request, starts the next child when the next
 * request comes, and ends with its stdin. Prepared cases die with the child: requests that name them get
 * {"type":"error","kind":"crash"}.
 */
#ifndef FB_WORKER_PROTOCOL_H
#define FB_WORKER_PROTOCOL_H

#include "base/error.h"
#include "graph/graph.h"

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

/* FB_MOST_LIMIT_S: a run's limit is a day at most, whatever a message says. */
enum { FB_PROTOCOL_VERSION = 1, FB_MAX_LINE = 64 << 20, FB_MOST_LIMIT_S = 86400 };

/* A pair of non-blocking file descriptors with buffers: whole lines in, queued bytes out. Shared by worker and script
 * processes, front and back. */
typedef struct fb_channel fb_channel;

fb_channel *fb_channel_new(int in_fd, int out_fd); /* takes both descriptors */
void fb_channel_free(fb_channel *c);
/* Of a peer that is not trusted: a line, and what is held of lines not yet taken, has at most so many bytes (else
 * FB_MAX_LINE); nothing is read while it is paused; what it has not read yet. */
void fb_channel_limit(fb_channel *c, size_t longest);
void fb_channel_pause(fb_channel *c, bool paused);
size_t fb_channel_unsent(const fb_channel *c);
void fb_channel_send(fb_channel *c, json_t *message); /* queues one line; steals the reference */
void fb_channel_send_bytes(fb_channel *c, const void *bytes, size_t n);
/* Descriptors and events to poll for; 0 … 2 entries. */
int fb_channel_poll(const fb_channel *c, struct pollfd out[2]);
/* Reads and writes what it can without blocking. False at end of file or error; whole lines that came before are still
 * there. Take all lines after a pump: one left lying does not wake a poll. */
bool fb_channel_pump(fb_channel *c, fb_error *err);
/* The next whole line, without newline, valid until the next call; NULL when there is none yet. */
const char *fb_channel_line(fb_channel *c, size_t *n);
/* Takes n raw bytes once they have all arrived. */
bool fb_channel_bytes(fb_channel *c, void *to, size_t n);
/* Blocks (poll) until a line is there; NULL at end of file. */
const char *fb_channel_wait_line(fb_channel *c, size_t *n, int timeout_ms, fb_error *err);
/* Writes until all is out; 0: what it can at once. Reads nothing. */
bool fb_channel_flush(fb_channel *c, int timeout_ms, fb_error *err);

/* ---- children ---- */

/* Starts `argv` (or, with argv NULL, forks and calls main_fn(ctx, in, out), whose return value is the exit status) in a
 * process group of its own with pipes on stdin and stdout; stderr goes to `stderr_fd` (or is shared when -1).
 * PR_SET_PDEATHSIG makes it die with its parent. */
typedef struct {
    pid_t pid;
    fb_channel *channel;
} fb_child;
bool fb_child_start(fb_child *c, char *const argv[], int (*main_fn)(void *ctx, int in, int out), void *ctx,
                    int stderr_fd, fb_error *err);
void fb_child_kill(fb_child *c); /* the whole group, and reaps; safe to call twice */
/* Reaps what was killed and took its time to end, as on a machine with much to do; true: some have not ended yet. */
bool fb_child_reap(void);
/* Reaps without blocking: true when it has ended, with one sentence: "was killed by SIGSEGV", "exited with status 3".
 */
bool fb_child_ended(fb_child *c, char *how, size_t room);

#endif
