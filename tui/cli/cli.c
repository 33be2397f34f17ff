/* What all commands share: options, opening a session, waiting for it, and saying what went wrong. */
#include "tui/cli/cli.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "session/library.h"
#include "session/names.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- messages ---- */

static void say(const char *format, va_list ap)
{
    fb_str text = {0};
    fb_str_vaddf(&text, format, ap);
    char *clean = fb_alloc(3 * text.n + 1);
    fb_text_clean(clean, 3 * text.n + 1, fb_str_get(&text), text.n);
    fprintf(stderr, "fusebox: %s\n", clean);
    fb_free(clean);
    fb_str_free(&text);
}

void fb_cli_say(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say(format, ap);
    va_end(ap);
}

_Noreturn void fb_cli_usage(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say(format, ap);
    va_end(ap);
    exit(FB_EXIT_USAGE);
}

int fb_cli_status(fb_error_kind kind)
{
    return kind == FB_OK                ? FB_EXIT_FINE
           : kind == FB_ERR_USAGE       ? FB_EXIT_USAGE
           : kind == FB_ERR_UNAVAILABLE ? FB_EXIT_NO_DEVICE
                                        : FB_EXIT_WRONG;
}

int fb_cli_fail(const fb_error *err)
{
    fb_cli_say("%s", err->text);
    return fb_cli_status(err->kind);
}

/* The line of the script that an error speaks of, and a caret under its first word. */
static void show_line(const char *path, int line)
{
    char *text = line > 0 ? fb_session_script_text(path) : NULL;
    const char *at = text;
    for (int i = 1; at && i < line; i++) {
        at = strchr(at, '\n');
        if (at) at++;
    }
    if (at && *at) {
        size_t n = strcspn(at, "\n"), indent = 0;
        char clean[400];
        fb_text_clean(clean, sizeof clean, at, n < 120 ? n : 120);
        for (size_t i = 0; i < n && i < 120; i++)
            if (at[i] == '\t') clean[i] = ' '; /* a tab comes back as one sign in its place */
        while (clean[indent] == ' ') indent++;
        fprintf(stderr, "%6d | %s\n       | %*s^\n", line, clean, (int)indent, "");
    }
    fb_free(text);
}

/* The line in "script.lua:12: …", where script.lua is the file of `path`; 0 when the sentence does not begin so. */
static int line_in(const char *text, const char *path)
{
    const char *name = fb_file_name(path);
    size_t n = strlen(name);
    return strncmp(text, name, n) == 0 && text[n] == ':' ? atoi(text + n + 1) : 0;
}

int fb_cli_fail_in(const fb_error *err, const char *path)
{
    int status = fb_cli_fail(err);
    if (path) show_line(path, line_in(err->text, path));
    return status;
}

const char *fb_cli_self(void)
{
    static char path[PATH_MAX];
    ssize_t n = path[0] ? 0 : readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0) fb_cli_usage("cannot find this binary: %s", strerror(errno));
    if (n > 0) path[n] = '\0';
    return path;
}

/* ---- options ---- */

/* One value of --set, as JSON has it; what is neither a number nor true or false is text. */
static json_t *value_of(const char *text)
{
    char *end;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) return json_boolean(text[0] == 't');
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (text[0] && !*end && !errno) return json_integer(whole);
    double number = strtod(text, &end);
    json_t *real = text[0] && !*end ? json_real(number) : NULL; /* NULL for nan and inf too */
    return real ? real : json_string(text);
}

static void set_option(json_t *set, const char *arg)
{
    const char *equals = strchr(arg, '=');
    char name[65];
    int n = equals ? (int)(equals - arg) : 0;
    if (n < 1 || n > 64) fb_cli_usage("--set %s: it must be name=value[,value…]", arg);
    snprintf(name, sizeof name, "%.*s", n, arg);
    json_t *values = json_array();
    char *list = fb_strdup(equals + 1), *rest = list;
    for (char *one; (one = strsep(&rest, ","));) {
        json_t *value = *one ? value_of(one) : NULL;
        if (!value) fb_cli_usage("--set %s: a value is missing", arg);
        json_array_append_new(values, value);
    }
    fb_free(list);
    json_object_set_new(set, name, values);
}

char *fb_cli_seat_command(const char *where, fb_error *err)
{
    fb_str command = {0};
    bool socket = !where || strchr(where, '/');
    if (where && (!*where || *where == '-' || (!socket && strpbrk(where, " \t'\"\\")))) {
        fb_fail(err, FB_ERR_USAGE, "\"%s\" is neither the path of a socket nor a machine", where);
        return NULL;
    }
    if (socket)
        fb_str_add_word(&command, fb_cli_self());
    else
        fb_str_addf(&command, "ssh %s fusebox", where);
    fb_str_add(&command, " seat --stdio");
    if (socket && where) {
        fb_str_add(&command, " --at ");
        fb_str_add_word(&command, where);
    }
    return fb_str_take(&command);
}

/* --device workshop[:WHERE]: a seat is a worker like any other. What follows may also name a device of the workshop, as
 * everywhere. */
static void take_seat(fb_cli_options *o)
{
    static const char workshop[] = "workshop";
    size_t n = sizeof workshop - 1;
    fb_error err = {0};
    if (!o->device || strncmp(o->device, workshop, n) != 0 || (o->device[n] && o->device[n] != ':')) return;
    const char *where = o->device[n] ? o->device + n + 1 : NULL;
    bool device = where && fb_device_find(where, NULL);
    if ((device || !where) && o->n_workers) return; /* a worker that was given is the workshop */
    o->seat = fb_cli_seat_command(device ? NULL : where, &err);
    if (!o->seat) fb_cli_usage("--device %s: %s", o->device, err.text);
    if (!device) o->device = workshop;
    o->workers[o->n_workers++] = o->seat;
}

enum { KEY_TRUST = 1000 };

static int common_key(int key, char *arg, struct argp_state *state)
{
    fb_cli_options *o = state->input;
    switch (key) {
    case 'd':
        o->device = arg;
        if (o->n_devices == (int)(sizeof o->devices / sizeof *o->devices)) fb_cli_usage("--device: too many of them");
        o->devices[o->n_devices++] = arg;
        return 0;
    case 'w':
        if (o->n_workers == (int)(sizeof o->workers / sizeof *o->workers) - 1)
            fb_cli_usage("--worker: too many of them");
        if (!fb_frameworks_take(o, arg)) o->workers[o->n_workers++] = arg;
        return 0;
    case KEY_TRUST: o->trust = true; return 0;
    case 's':
        if (!o->set) o->set = json_object();
        set_option(o->set, arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option common_options[] = {
    {"device", 'd', "DEVICE", 0,
     "Device of columns that name none (default: the first GPU, else host); workshop, workshop:SOCKET or "
     "workshop:MACHINE is one that is shared (fusebox seat)",
     -2},
    {"worker", 'w', "COMMAND", 0,
     "Also use the devices of a worker, e.g. 'ssh gpubox fusebox worker', or a framework's: torch, jax, onnxruntime, "
     "tinygrad, or auto for those that python3 has; may be repeated",
     -2},
    {"set", 's', "NAME=VALUE[,VALUE…]", 0, "Set a parameter of the script; several values sweep; may be repeated", -2},
    {"trust", KEY_TRUST, NULL, 0, "Kernels in files that a script or plan names may run as they are now", -2},
    {0},
};

const struct argp fb_cli_common = {.options = common_options, .parser = common_key};

static int parse_key(int key, char *arg, struct argp_state *state)
{
    fb_cli *cli = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &cli->common; return 0;
    case ARGP_KEY_ARG:
        if (cli->most >= 0 && cli->n_args >= cli->most)
            fb_cli_usage("%s: one argument too many: \"%s\"", state->name, arg);
        cli->args[cli->n_args++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (cli->n_args < cli->least)
            fb_cli_usage("%s: an argument is missing; see %s --help", state->name, state->name);
        return 0;
    default: return cli->own ? cli->own(cli->ctx, key, arg, state) : ARGP_ERR_UNKNOWN;
    }
}

void fb_cli_parse(fb_cli *cli, const fb_command *me, const struct argp_option *options, int argc, char **argv)
{
    const struct argp_child children[] = {{.argp = &fb_cli_common}, {0}};
    const struct argp argp = {.options = options,
                              .parser = parse_key,
                              .args_doc = me->args,
                              .doc = me->summary,
                              .children = children,
                              .help_filter = cli->help};
    cli->args = fb_calloc((size_t)argc + 1, sizeof *cli->args);
    argp_parse(&argp, argc, argv, 0, NULL, cli);
    take_seat(&cli->common);
}

void fb_cli_free(fb_cli *cli)
{
    json_decref(cli->common.set);
    fb_free(cli->common.seat);
    fb_free(cli->args);
}

/* ---- sessions ---- */

/* What the script prints belongs to stderr, so that stdout stays what was asked for. */
static int64_t print_log(const fb_session *s, int64_t from)
{
    int64_t first = fb_session_log_dropped(s);
    int n = fb_session_log_lines(s);
    for (int i = from > first ? (int)(from - first) : 0; i < n; i++)
        if (fb_session_log_printed(s, i)) fprintf(stderr, "%s\n", fb_session_log_line(s, i));
    return first + n;
}

static int64_t logged; /* lines printed of the one session there is */

static void progress(const fb_session *s, int *width)
{
    int done = 0, n = fb_session_columns(s);
    const fb_column *now = NULL;
    for (int i = 0; i < n; i++) {
        const fb_column *c = fb_session_column(s, i);
        done += c->state == FB_COLUMN_DONE || c->state == FB_COLUMN_FAILED;
        if ((c->state == FB_COLUMN_MEASURING || c->searching) && !now) now = c;
    }
    char text[200] = "";
    if (now) {
        fb_text_clean(text, sizeof text, now->text, strlen(now->text));
        size_t used = strlen(text);
        if (used + 2 < sizeof text) text[used++] = ' ';
        fb_text_clean(text + used, sizeof text - used, now->progress, strlen(now->progress));
    }
    int k = fprintf(stderr, "\r%d/%d %s", done, n, text);
    fprintf(stderr, "%*s\r", *width > k ? *width - k : 0, "");
    *width = k;
}

void fb_cli_wait(fb_session *s)
{
    bool terminal = isatty(STDERR_FILENO);
    int width = 0;
    uint64_t serial = 0;
    while (fb_session_busy(s)) {
        fb_session_wait(s, -1);
        if (terminal && fb_session_serial(s) != serial) {
            serial = fb_session_serial(s);
            progress(s, &width);
        }
        if (width) fprintf(stderr, "\r%*s\r", width, "");
        logged = print_log(s, logged);
    }
    logged = print_log(s, logged);
}

enum { PATIENCE_MS = 5000 };

/* A worker behind a queue, such as srun's, may take as long as it likes; that it is waited for is said once. */
static void wait_for_devices(fb_session *s)
{
    const double until = fb_now_us() + 1e3 * PATIENCE_MS;
    for (bool said = false; !fb_session_devices_known(s);) {
        int left = (int)ceil((until - fb_now_us()) / 1e3); /* ms */
        if (!said && left <= 0) {
            fb_cli_say("still waiting for a worker to answer; it is given up after 10 minutes");
            said = true;
        }
        fb_session_wait(s, said ? -1 : left);
    }
}

/* `lesson`: of those, the other kind is refused. */
static bool all_answer(fb_session *s, bool script, bool lesson, int *status)
{
    while (script && !fb_session_script(s) && !fb_session_script_error(s)->kind) fb_session_wait(s, -1);
    wait_for_devices(s);
    const fb_error *why = fb_session_script_error(s);
    const fb_script_info *info = fb_session_script(s);
    if (script && !why->kind && (info->lesson != NULL) != lesson) {
        fb_cli_say(lesson ? "%s is a script, not a lesson"
                          : "%s is a lesson: \"fusebox lesson\" or the workbench shows it",
                   fb_session_path(s));
        *status = FB_EXIT_USAGE;
        return false;
    }
    for (int i = 0; i < fb_session_log_lines(s); i++) /* a worker that did not come up */
        if (!fb_session_log_printed(s, i) && strcmp(fb_session_log_line(s, i), why->text) != 0)
            fb_cli_say("%s", fb_session_log_line(s, i));
    logged = print_log(s, logged);
    if (!why->kind) return true;
    *status = fb_cli_fail_in(why, fb_session_path(s));
    return false;
}

fb_session *fb_cli_open(const fb_cli *cli, const char *path, int *status)
{
    fb_session_options o = {
        .self = fb_cli_self(),
        .device = cli->common.device,
        .n_workers = cli->common.n_workers,
        .workers = cli->common.workers,
        .set = cli->common.set,
        .counters = cli->counters,
        .libraries = cli->libraries,
        .trust = cli->common.trust,
        .plan_as = cli->plan_as,
        .plan_as_gpus = cli->plan_as_gpus,
        .search_again = cli->search_again,
        .values = cli->values,
    };
    fb_error err = {0};
    fb_session *s = fb_session_new(&o, &err);
    logged = 0;
    if (!s || (path && !fb_session_load(s, path, &err)))
        *status = fb_cli_fail(&err);
    else if (all_answer(s, path != NULL, cli->lesson, status)) {
        if (!o.device || fb_session_machine(s, o.device)) return s;
        fb_session_calibrate(s, o.device, &err); /* no such device: it says which there are */
        *status = fb_cli_fail(&err);
    }
    fb_session_free(s);
    return NULL;
}

bool fb_cli_plan(fb_session *s, int column, int *status)
{
    if (fb_session_column(s, column)->state == FB_COLUMN_BUILDING) fb_cli_wait(s); /* a search may take a while */
    logged = print_log(s, logged);
    const fb_column *c = fb_session_column(s, column);
    if (c->state != FB_COLUMN_FAILED) return true;
    *status = fb_cli_fail_in(&c->error, fb_session_path(s));
    return false;
}

bool fb_cli_is_variant(const fb_script_info *info, const char *name)
{
    for (int i = 0; i < info->n_variants; i++)
        if (strcmp(info->variants[i], name) == 0) return true;
    return false;
}

bool fb_cli_columns(fb_session *s, const char *spec, const char *otherwise, bool single, int *status)
{
    fb_str whole = {0};
    fb_error err = {0};
    const fb_script_info *info = fb_session_script(s);
    bool variant = fb_cli_is_variant(info, spec);
    fb_str_addf(&whole, "%s%s%s", spec, variant && spec[0] ? ":" : "", variant ? otherwise : "");
    int before = fb_session_columns(s);
    bool fine = fb_session_add(s, whole.text, &err) >= 0;
    int added = fb_session_columns(s) - before;
    fb_str_free(&whole);
    if (fine && single && added > 1)
        fine = fb_fail(&err, FB_ERR_USAGE, "\"%s\" is %d columns, one a variant: name one, such as \"%s:%s\"", spec,
                       added, info->variants[0], spec);
    if (!fine) *status = fb_cli_fail(&err);
    return fine;
}

bool fb_cli_each_variant(fb_session *s, const char *plan, int *status)
{
    fb_error err = {0};
    if (fb_session_add(s, plan, &err) >= 0) return true;
    *status = fb_cli_fail(&err);
    return false;
}

fb_id fb_cli_node(const fb_graph *g, const char *name, int *status)
{
    fb_id node = fb_graph_find(g, name);
    if (node != FB_NONE) return node;
    const char **names = fb_calloc((size_t)g->n_nodes + 1, sizeof *names);
    for (int i = 0; i < g->n_nodes; i++) names[i] = g->nodes[i].name;
    const char *near = fb_nearest(name, names, g->n_nodes);
    if (near)
        fb_cli_say("no node \"%s\"; did you mean \"%s\"?", name, near);
    else
        fb_cli_say("no node \"%s\"; \"fusebox graph\" lists them", name);
    fb_free(names);
    *status = FB_EXIT_USAGE;
    return FB_NONE;
}

/* ---- sweeps ---- */

enum { CASES_MOST = 1000000 };

int fb_cli_cases(const fb_cli *cli)
{
    const char *name;
    json_t *values;
    int64_t n = 1;
    json_object_foreach(cli->common.set, name, values)
    {
        n *= (int64_t)json_array_size(values);
        if (n > CASES_MOST) fb_cli_usage("--set: more than %d combinations", CASES_MOST);
    }
    return (int)n;
}

/* The first parameter given changes slowest. */
bool fb_cli_case(const fb_cli *cli, fb_session *s, int i, fb_error *err)
{
    const char *name;
    json_t *values;
    int left = fb_cli_cases(cli);
    json_object_foreach(cli->common.set, name, values)
    {
        int n = (int)json_array_size(values);
        left /= n;
        if (!fb_session_set_param(s, name, json_array_get(values, (size_t)(i / left % n)), err)) return false;
    }
    return true;
}
