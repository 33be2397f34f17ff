/* The command line: one file a command or family of commands, each a row in the table of main.c, which is also what
 * --help shows.
 *
 * A command parses its own arguments with argp; the options that every command takes (--device, --worker, --set) are a
 * child parser here. Exit status: FB_EXIT_*. Messages go to stderr as `fusebox: …`, one line, with the script's line
 * and a caret below it where there is one. */
#ifndef FB_TUI_CLI_CLI_H
#define FB_TUI_CLI_CLI_H

#include "session/session.h"

#include <argp.h>
#include <limits.h>

enum { FB_EXIT_FINE = 0, FB_EXIT_WRONG = 1, FB_EXIT_USAGE = 2, FB_EXIT_NO_DEVICE = 3 };

typedef struct fb_command {
    const char *name;                                               /* "run" */
    const char *args;                                               /* "SCRIPT [COLUMN]…" */
    const char *summary;                                            /* one line */
    int (*run)(const struct fb_command *me, int argc, char **argv); /* argv[0] is "fusebox run" */
} fb_command;

extern const fb_command *const fb_commands[]; /* ends with NULL */

extern const fb_command fb_command_run, fb_command_explain, fb_command_diff, fb_command_values, fb_command_emit,
    fb_command_eject, fb_command_graph, fb_command_check, fb_command_new, fb_command_devices, fb_command_worker,
    fb_command_record, fb_command_fuzz, fb_command_gate, fb_command_export, fb_command_lesson, fb_command_ops,
    fb_command_seat, fb_command_workshop, fb_command_import;

/* `fusebox WORDS…`, as main runs it; argv[0] is any word. */
int fb_cli_main(int argc, char **argv);
/* The command that makes a seat of the workshop at `where`: a socket's path (with a slash), a machine that ssh reaches,
 * or NULL for this machine's. The caller frees; NULL and an error where it is neither. */
char *fb_cli_seat_command(const char *where, fb_error *err);

/* ---- options that every command takes ---- */

typedef struct {
    const char *device;     /* the last one that was given */
    const char *devices[8]; /* all of them, for who takes several */
    int n_devices, n_workers;
    const char *workers[16];
    bool trust;
    char *seat;  /* the command of a seat, which is one of `workers`; owned */
    json_t *set; /* {"batch_size":[64,128]}: as given, in order */
} fb_cli_options;

/* The child parser: its input is an fb_cli_options. */
extern const struct argp fb_cli_common;

/* Positional arguments and common options of a command whose own options, if any, `own` handles (NULL: none). */
typedef struct {
    fb_cli_options common;
    int n_args;
    char **args;
    int least, most; /* positional arguments; most -1: any number */
    /* An option of the command: 0, or ARGP_ERR_UNKNOWN. */
    int (*own)(void *ctx, int key, char *arg, struct argp_state *state);
    void *ctx;
    char *(*help)(int key, const char *text, void *input); /* argp's help filter; NULL: none */
    bool counters;                                         /* see fb_session_options */
    bool libraries;                                        /* see fb_session_options */
    bool lesson;                                           /* what is opened is a lesson, not a script */
    bool search_again;                                     /* see fb_session_options */
    const char *values;                                    /* see fb_session_options */
    const fb_machine *plan_as;                             /* see fb_session_options */
    bool plan_as_gpus;                                     /* see fb_session_options */
} fb_cli;

/* Parses, or says what is wrong in one line and ends the process with FB_EXIT_USAGE. */
void fb_cli_parse(fb_cli *cli, const fb_command *me, const struct argp_option *options, int argc, char **argv);
void fb_cli_free(fb_cli *cli);

/* ---- messages ---- */

void fb_cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A usage error: one line, and the end of the process. */
_Noreturn void fb_cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says the error; the exit status that goes with its kind. */
int fb_cli_fail(const fb_error *err);
int fb_cli_status(fb_error_kind kind);
/* The same; an error that begins with the script's name and a line is followed by that line and a caret. */
int fb_cli_fail_in(const fb_error *err, const char *path);

/* ---- sessions ---- */

/* `--worker NAME` of a framework, `--worker auto` of all that Python has: puts the commands of their workers among
 * those of `o`. False: the word is neither, but a command of its own. Ends the program where it cannot be done. */
bool fb_frameworks_take(fb_cli_options *o, const char *word);

/* The Python that runs what is bundled: $FUSEBOX_PYTHON, else python3. */
const char *fb_python(void);
/* Puts the bundled files of scripts/FOLDER/ into the user's cache where they are not there as they should be; `to` is
 * where. */
bool fb_python_files(const char *folder, char to[PATH_MAX], fb_error *err);

/* Writes `file`, a module of Python that one imports before torch.compile, from {"graph":…, "name":…, "groups":…}
 * (scripts/workers/inductor_export.py). Nothing is written over. Steals the request. */
bool fb_frameworks_export(json_t *request, const char *file, fb_error *err);

/* A session with the script loaded and its parameters set, every worker heard. NULL with *status when that failed,
 * already said. `argv0` names the binary. */
fb_session *fb_cli_open(const fb_cli *cli, const char *path, int *status);
/* Waits until nothing is under way, printing what the script prints to stderr, and progress when that is a terminal. */
void fb_cli_wait(fb_session *s);
/* Waits until the column has its plan; on failure says why and gives the exit status in *status. */
bool fb_cli_plan(fb_session *s, int column, int *status);
bool fb_cli_is_variant(const fb_script_info *info, const char *name); /* "" is one where a script is a single model */
/* Adds the columns of a spec, which may also be a variant's name alone: its plan is then `otherwise`. `single`: more
 * than one is an error. False with *status when that failed, already said. */
bool fb_cli_columns(fb_session *s, const char *spec, const char *otherwise, bool single, int *status);
/* One column a variant with this plan. False as above. */
bool fb_cli_each_variant(fb_session *s, const char *plan, int *status);

/* The node of that name; FB_NONE with *status where there is none, already said with what may be meant. */
fb_id fb_cli_node(const fb_graph *g, const char *name, int *status);

/* Sweeps: one parameter set after the other. */
int fb_cli_cases(const fb_cli *cli);
bool fb_cli_case(const fb_cli *cli, fb_session *s, int i, fb_error *err);

const char *fb_cli_self(void); /* the path of this binary */

#endif
