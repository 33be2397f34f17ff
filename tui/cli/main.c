/* fusebox: the workbench, or one of the commands in the table below. */
#include "tui/cli/cli.h"

#include "base/json.h"
#include "base/str.h"
#include "session/library.h"
#include "session/names.h"
#include "tui/cli/run.h"
#include "tui/show/table.h"
#include "tui/view/app.h"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const fb_command *const fb_commands[] = {
    &fb_command_run,      &fb_command_diff,   &fb_command_values,
    &fb_command_explain,  &fb_command_emit,   &fb_command_eject,
    &fb_command_graph,    &fb_command_check,  &fb_command_gate,
    &fb_command_export,   &fb_command_import, &fb_command_new,
    &fb_command_devices,  &fb_command_record, &fb_command_fuzz,
    &fb_command_lesson,   &fb_command_ops,    &fb_command_seat,
    &fb_command_workshop, &fb_command_worker, NULL,
};

const char *argp_program_version = PACKAGE_STRING;

/* ---- the process ---- */

/* Descriptors 0 to 2 that were closed would be given to the first files opened. */
static void hold_standard_streams(void)
{
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;)
        if (fd > STDERR_FILENO) {
            close(fd);
            return;
        }
}

/* Whoever read has what they wanted, as `head` does. */
static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    struct stat st;
    bool pipe = fstat(STDOUT_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
    return pipe && poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP));
}

static void close_stdout(void)
{
    errno = 0;
    bool fine = !ferror(stdout);
    if (fflush(stdout) != 0) fine = false;
    if (fine) return;
    if (errno == EPIPE || reader_is_gone()) _exit(128 + SIGPIPE); /* as a shell tells it of other programs */
    fb_cli_say("cannot write to standard output: %s", strerror(errno ? errno : EIO));
    _exit(FB_EXIT_WRONG);
}

static void start(void)
{
    hold_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a worker that is gone is an error with a line, not an end without one */
    signal(SIGXFSZ, SIG_IGN);
    fb_json_init();
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* numbers in JSON and generated source have a point */
    atexit(close_stdout);
    argp_err_exit_status = FB_EXIT_USAGE;
}

/* ---- help ---- */

enum { SUMMARY_AT = 36 };

/* Words in lines of at most `width` signs, all but the first behind `indent` blanks. */
static void add_wrapped(fb_str *out, const char *words, int indent, int width)
{
    for (int at = 0; *words;) {
        size_t n = strcspn(words, " ");
        int wide = (int)mbstowcs(NULL, words, 0) - (int)mbstowcs(NULL, words + n, 0);
        if (wide < 1) wide = (int)n; /* not text in this locale's encoding */
        if (at && at + 1 + wide > width) {
            fb_str_addf(out, "\n%*s", indent, "");
            at = 0;
        }
        if (at) fb_str_add(out, " ");
        fb_str_add_n(out, words, n);
        at += wide + (at > 0);
        words += n + (words[n] == ' ');
    }
    fb_str_add(out, "\n");
}

/* The list of commands, made from their table. */
static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) return (char *)text;
    fb_str out = {0};
    fb_str_add(&out, "Commands:\n\n");
    for (int i = 0; fb_commands[i]; i++) {
        const fb_command *c = fb_commands[i];
        char usage[96];
        snprintf(usage, sizeof usage, "%s %s", c->name, c->args);
        int wide = (int)mbstowcs(NULL, usage, 0), pad = SUMMARY_AT - 2 - (wide < 0 ? (int)strlen(usage) : wide);
        fb_str_addf(&out, "  %s%*s", usage, pad > 1 ? pad : 1, "");
        add_wrapped(&out, c->summary, SUMMARY_AT, 76 - SUMMARY_AT);
    }
    fb_str_add(
        &out,
        "\nWithout a command: the workbench in a terminal, a table elsewhere. SCRIPT is a Lua script, a graph "
        "in JSON, or "
        "the name of a bundled script; a COLUMN is [VARIANT:]PLAN[@DEVICE][#VALUES], such as max, combined:eager or "
        "mine.json@host. \"fusebox COMMAND --help\" says more.\n\nExit status: 0 fine, 1 a result is wrong or a "
        "script failed, 2 usage, 3 device not available.\n");
    char *copy = strdup(out.text); /* argp frees it */
    fb_str_free(&out);
    return copy;
}

/* ---- without a command ---- */

typedef struct {
    fb_cli cli;
    const char *keys;
    bool list, predictions;
} workbench;

enum { KEY_KEYS = 256, KEY_LIST, KEY_PREDICTIONS };

static int workbench_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    (void)state;
    workbench *w = ctx;
    switch (key) {
    case KEY_KEYS: w->keys = arg; return 0;
    case KEY_LIST: w->list = true; return 0;
    case KEY_PREDICTIONS: w->predictions = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int open_workbench(const workbench *w, const char *path, const char *results)
{
    const fb_session_options o = {
        .self = fb_cli_self(),
        .device = w->cli.common.device,
        .n_workers = w->cli.common.n_workers,
        .workers = w->cli.common.workers,
        .set = w->cli.common.set,
        .trust = w->cli.common.trust,
        .predictions = w->predictions,
        .calibrate = true,
    };
    fb_error err = {0};
    fb_session *s = fb_session_new(&o, &err);
    if (!s) return fb_cli_fail(&err);
    int status = fb_tui_main(&(fb_tui_options){.session = s,
                                               .path = path,
                                               .keys_file = w->keys,
                                               .list = w->list,
                                               .results = results,
                                               .columns = (const char *const *)w->cli.args + 1,
                                               .n_columns = path ? w->cli.n_args - 1 : 0});
    fb_session_free(s);
    return status;
}

/* What the start list shows, for a stdout that is no terminal. */
static int print_list(void)
{
    fb_arena *arena = fb_arena_new();
    const fb_bundled *bundled;
    const char **recent;
    int n = fb_bundled_list(arena, &bundled), n_recent = fb_recent_list(arena, &recent);
    fb_table *t = fb_table_new();
    fb_table_column(t, "script", "", true);
    fb_table_column(t, "kind", "", true);
    fb_table_column(t, "title", "", true);
    for (int i = 0; i < n; i++) {
        fb_table_row(t);
        fb_table_cell(t, bundled[i].name);
        fb_table_cell(t, bundled[i].kind);
        fb_table_cell(t, bundled[i].title);
    }
    for (int i = 0; i < n_recent; i++) {
        fb_table_row(t);
        fb_table_cell(t, recent[i]);
        fb_table_cell(t, "recent");
    }
    fb_table_print(t, FB_FORMAT_TABLE, stdout);
    fb_table_free(t);
    fb_arena_free(arena);
    return FB_EXIT_FINE;
}

/* A single word that is neither a command nor a script was most likely meant as one of them. */
static int unknown_word(const char *word, const fb_error *no_script)
{
    const char *names[64];
    int n = 0;
    while (fb_commands[n]) {
        names[n] = fb_commands[n]->name;
        n++;
    }
    const char *near = strchr(word, '/') || strchr(word, '.') ? NULL : fb_nearest(word, names, n);
    if (strchr(word, '/') || strchr(word, '.') || (!near && strstr(no_script->text, "did you mean")))
        return fb_cli_fail(no_script);
    if (near) fb_cli_usage("no command or script \"%s\"; did you mean \"fusebox %s\"?", word, near);
    fb_cli_usage("no command or script \"%s\"; \"fusebox --help\" lists the commands", word);
}

static const fb_command *command_named(const char *name)
{
    for (int i = 0; fb_commands[i]; i++)
        if (strcmp(fb_commands[i]->name, name) == 0) return fb_commands[i];
    return NULL;
}

static int run_command(const fb_command *c, int argc, char **argv)
{
    char name[64];
    snprintf(name, sizeof name, "fusebox %s", c->name);
    argv[0] = name;
    return c->run(c, argc, argv);
}

/* Where nobody can look at a workbench, `fusebox SCRIPT` is `fusebox run SCRIPT`. */
static int without_command(const workbench *w, int argc, char **argv)
{
    const char *word = w->cli.n_args ? w->cli.args[0] : NULL;
    bool terminal = isatty(STDOUT_FILENO);
    if (!word) return terminal ? open_workbench(w, NULL, NULL) : print_list();
    fb_arena *arena = fb_arena_new();
    fb_error err = {0};
    bool found = fb_find_script(word, arena, &err) != NULL;
    fb_arena_free(arena);
    if (!found) return unknown_word(word, &err);
    bool results = fb_cli_is_results(word);
    if (terminal && results && w->cli.n_args > 1)
        fb_cli_usage("one argument too many: \"%s\"; a results file has its own columns", w->cli.args[1]);
    if (results) return terminal ? open_workbench(w, NULL, word) : fb_cli_show_results(word);
    return terminal ? open_workbench(w, word, NULL) : run_command(&fb_command_run, argc, argv);
}

/* ---- main ---- */

static const struct argp_option options[] = {
    {"list", KEY_LIST, NULL, 0, "Begin with the list of puzzlers, models, lessons and recent files", 0},
    {"keys", KEY_KEYS, "FILE", 0, "Play the keys in a file, then go on from the keyboard", 0},
    {"predictions", KEY_PREDICTIONS, NULL, 0, "At a workshop's seat: tell it what is chosen in puzzles, without a name",
     0},
    {0},
};

int fb_cli_main(int argc, char **argv)
{
    const fb_command *c = argc > 1 ? command_named(argv[1]) : NULL;
    if (c) return run_command(c, argc - 1, argv + 1);
    workbench w = {.cli = {.most = -1, .own = workbench_key, .ctx = &w, .help = help_filter}};
    const fb_command me = {
        .args = "[SCRIPT [COLUMN]…|RESULTS.jsonl]\nCOMMAND …",
        .summary = "Explore kernel-fusion decisions: toggle one "
                   "fusion, get the verdict at once, and see predicted and measured cost of both plans side by side."};
    fb_cli_parse(&w.cli, &me, options, argc, argv);
    int status = without_command(&w, argc, argv);
    fb_cli_free(&w.cli);
    return status;
}

int main(int argc, char **argv)
{
    start();
    return fb_cli_main(argc, argv);
}
