/* Commands about devices: devices, worker. */
#include "tui/cli/cli.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "tui/cli/self_test.h"
#include "tui/show/figure.h"
#include "tui/show/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    bool recalibrate, list_only;
    int self_test; /* times; 0: none */
    const char *out;
    fb_format format;
} devices_options;

enum { KEY_RECALIBRATE = 256, KEY_LIST, KEY_FORMAT, KEY_SELF_TEST, SELF_TESTS = 60, SELF_TESTS_MOST = 100000 };

static int devices_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    devices_options *o = ctx;
    switch (key) {
    case KEY_RECALIBRATE: o->recalibrate = true; return 0;
    case KEY_LIST: o->list_only = true; return 0;
    case KEY_SELF_TEST:
        o->self_test = arg ? atoi(arg) : SELF_TESTS;
        if (o->self_test < 1 || o->self_test > SELF_TESTS_MOST)
            fb_cli_usage("%s: --self-test: 1 to %d times", state->name, SELF_TESTS_MOST);
        return 0;
    case 'o': o->out = arg; return 0;
    case KEY_FORMAT:
        if (!fb_table_parse_format(arg, &o->format) || o->format > FB_FORMAT_JSON)
            fb_cli_usage("%s: no format \"%s\"; there are: table, json", state->name, arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- calibrating ---- */

/* The list says what was calibrated before. */
static void calibrate(fb_session *s, const char *device, bool again)
{
    const fb_machine *m = fb_session_machine(s, device);
    bool recorded = strncmp(device, "replay:", 7) == 0;
    if (!m || recorded || !m->target->generates || (m->calibrated && !m->doubted && !again)) return;
    fb_error err = {0};
    if (isatty(STDERR_FILENO)) {
        fputs("calibrating ", stderr);
        fb_put(stderr, device);
        fputs(" …\r", stderr);
    }
    if (!fb_session_calibrate(s, device, &err)) fb_cli_fail(&err);
    fb_cli_wait(s);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "%*s\r", 40, "");
    if (!m->calibrated && fb_session_log_lines(s))
        fb_cli_say("%s", fb_session_log_line(s, fb_session_log_lines(s) - 1));
}

/* ---- printing ---- */

static const char *size_text(double bytes, char to[32])
{
    return bytes > 0 ? fb_format_bytes(to, bytes) : "";
}

/* What nobody measured there is as good as a prediction. */
static fb_figure_source kind_of(const fb_machine *m, const char *key)
{
    return fb_machine_guessed(m, key) ? FB_SOURCE_PREDICTED : FB_SOURCE_MEASURED;
}

/* Rates are in 10⁹ a second; sizes, in `unit`, are what was asked for. */
static void rate_line(fb_str *out, const char *what, const fb_rate_curve *c, fb_unit rates, fb_figure_source kind)
{
    char size[32], rate[48];
    if (!c->n) return;
    fb_str_addf(out, "  %s:", what);
    for (int i = 0; i < c->n; i++)
        fb_str_addf(out, "%s %s at %s%s", i ? "," : "", fb_figure_write(rate, 1e9 * c->rate[i], rates, kind),
                    fb_figure_prefixed(size, c->size[i]), rates == FB_UNIT_BYTE_RATE ? "B" : "FLOP");
    fb_str_add(out, "\n");
}

static void times_line(fb_str *out, const fb_machine *m)
{
    const struct {
        const char *key, *before, *after;
        double us;
    } times[] = {
        {"launch_us", "launch ", "", m->launch_us},
        {"graph_launch_us", "in a graph ", "", m->graph_launch_us},
        {"call_us", "a library's call ", " more", m->call_us > 0 ? m->call_us : NAN},
        {"sync_us", "synchronising ", "", m->sync_us},
        {"barrier_us", "grid barrier ", "", m->barrier_us},
    };
    char us[48];
    bool any = false;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (!isfinite(times[i].us)) continue;
        fb_str_addf(out, "%s%s%s%s", any ? ", " : "  ", times[i].before,
                    fb_figure_write(us, times[i].us, FB_UNIT_US, kind_of(m, times[i].key)), times[i].after);
        any = true;
    }
    fb_str_add(out, "\n");
}

static void machine_lines(fb_str *out, const char *device, const fb_machine *m)
{
    char memory[32], cache[32];
    fb_str_addf(out, "%s: %s\n", device, m->name);
    if (m->units) fb_str_addf(out, "  %d %s", m->units, m->target->units);
    if (m->memory_bytes) fb_str_addf(out, ", %s of memory", size_text((double)m->memory_bytes, memory));
    if (m->cache_bytes) fb_str_addf(out, ", %s of last-level cache", size_text((double)m->cache_bytes, cache));
    fb_str_addf(out, "%s%s%s%s\n", m->units || m->memory_bytes ? "; " : "  ",
                m->calibrated ? "calibrated " : "uncalibrated: guesses", m->calibrated ? m->date : "",
                m->calibrated && m->doubted ? ", while the machine was busy: doubted" : "");
    times_line(out, m);
    rate_line(out, "copy, hot", &m->copy_hot, FB_UNIT_BYTE_RATE, kind_of(m, "copy_hot"));
    rate_line(out, "copy, cold", &m->copy_cold, FB_UNIT_BYTE_RATE, kind_of(m, "copy_cold"));
    rate_line(out, "gemm f32", &m->gemm[FB_F32], FB_UNIT_FLOP_RATE, kind_of(m, "gemm.f32"));
    rate_line(out, "gemm bf16", &m->gemm[FB_BF16], FB_UNIT_FLOP_RATE, kind_of(m, "gemm.bf16"));
    rate_line(out, "convolution f32", &m->convolution, FB_UNIT_FLOP_RATE, kind_of(m, "convolution"));
}

/* What a recording says of where it comes from. */
static void recording_line(fb_str *out, const json_t *entry)
{
    const char *script, *driver = fb_json_string_or(entry, "driver", NULL);
    json_t *variants;
    double mhz = fb_json_number_or(entry, "clock_mhz", NAN);
    fb_str_addf(out, "  recorded %s", fb_json_string_or(entry, "date", "at an unknown time"));
    if (driver) fb_str_addf(out, ", driver %s", driver);
    if (isfinite(mhz)) fb_str_addf(out, ", %.0f MHz", mhz);
    fb_str_add(out, ":");
    json_object_foreach(json_object_get(entry, "scripts"), script, variants) fb_str_addf(out, " %s", script);
    fb_str_add(out, "\n");
}

/* What is known of a GPU that is here, beside its rates. */
static void driver_line(fb_str *out, const json_t *entry)
{
    const char *driver = fb_json_string_or(entry, "driver", NULL);
    double mhz = fb_json_number_or(entry, "clock_mhz", NAN), major = fb_json_number_or(entry, "compute_major", NAN);
    if (!driver) return;
    fb_str_addf(out, "  driver %s", driver);
    if (isfinite(major))
        fb_str_addf(out, ", compute capability %.0f.%.0f", major, fb_json_number_or(entry, "compute_minor", 0));
    if (isfinite(mhz)) fb_str_addf(out, ", %.0f MHz", mhz);
    fb_str_add(out, "\n");
}

/* A framework of which a recording holds the figures. */
static void recorded_peer_line(fb_str *out, const json_t *entry)
{
    const char *script;
    json_t *variants;
    fb_str_addf(out, "%s: recorded: %s, %s:", fb_json_string_or(entry, "device", "?"),
                fb_json_string_or(entry, "name", "?"), fb_json_string_or(entry, "recorded", "?"));
    json_object_foreach(json_object_get(entry, "scripts"), script, variants) fb_str_addf(out, " %s", script);
    fb_str_add(out, "\n");
}

/* What another framework says of itself, or why a device cannot be used. */
static void entry_line(fb_str *out, const json_t *entry)
{
    const char *missing = fb_json_string_or(entry, "missing", NULL), *plan;
    json_t *plans = json_object_get(entry, "plans");
    size_t i;
    json_t *value;
    fb_str_addf(out, "%s: %s", fb_json_string_or(entry, "device", "?"),
                missing ? missing : fb_json_string_or(entry, "name", fb_json_string_or(entry, "kind", "?")));
    json_array_foreach(plans, i, value) if ((plan = json_string_value(value)))
        fb_str_addf(out, "%s %s", i ? "," : "; its plans:", plan);
    fb_str_add(out, "\n");
}

static void library_line(fb_str *out, const json_t *entry)
{
    const char *cost = fb_json_string_or(entry, "cost", NULL), *path = fb_json_string_or(entry, "path", NULL);
    const char *version = fb_json_string_or(entry, "version", "");
    fb_str_addf(out, "  %s: ", fb_json_string_or(entry, "name", "?"));
    if (path)
        fb_str_addf(out, "%s%s%s", version, *version ? ", " : "", path);
    else
        fb_str_addf(out, "%s%s%s", fb_json_string_or(entry, "missing", "not found"), cost ? "; " : "",
                    cost ? cost : "");
    fb_str_add(out, "\n");
}

static void print_text(fb_session *s)
{
    fb_str out = {0};
    size_t i;
    json_t *entry;
    json_array_foreach((json_t *)fb_session_devices(s), i, entry)
    {
        const char *name = fb_json_string_or(entry, "device", "");
        const fb_machine *m = fb_session_machine(s, name);
        if (m && m->target->generates) machine_lines(&out, name, m);
        if (m && strcmp(fb_json_string_or(entry, "kind", ""), "replay") == 0)
            recording_line(&out, entry);
        else if (json_object_get(entry, "recorded"))
            recorded_peer_line(&out, entry);
        else if (!m || !m->target->generates)
            entry_line(&out, entry);
        else
            driver_line(&out, entry);
    }
    if (strstr(fb_str_get(&out), fb_figure_sign(FB_SOURCE_PREDICTED)))
        fb_str_addf(&out, "%s guessed: not measured on that device\n", fb_figure_sign(FB_SOURCE_PREDICTED));
    const char *before = NULL;
    json_array_foreach((json_t *)fb_session_libraries(s), i, entry)
    {
        const char *machine = fb_json_string_or(entry, "machine", "");
        if (!before || strcmp(machine, before) != 0)
            fb_str_addf(&out, "\nlibraries%s%s\n", machine[0] ? " of " : "", machine);
        before = machine;
        library_line(&out, entry);
    }
    fb_put(stdout, fb_str_get(&out));
    fb_str_free(&out);
}

static void print_json(fb_session *s)
{
    json_t *whole = json_object(), *devices = json_object(), *entry;
    size_t i;
    json_array_foreach((json_t *)fb_session_devices(s), i, entry)
    {
        const char *name = fb_json_string_or(entry, "device", "");
        const fb_machine *m = fb_session_machine(s, name);
        bool known = m && m->target->generates;
        json_object_set_new(devices, name, known ? fb_machine_to_json(m) : json_deep_copy(entry));
    }
    json_object_set_new(whole, "fusebox", json_integer(1));
    json_object_set_new(whole, "devices", devices);
    json_object_set(whole, "libraries", (json_t *)fb_session_libraries(s));
    char *text = fb_json_shown(whole, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("%s\n", text);
    fb_free(text);
    json_decref(whole);
}

static int devices_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"recalibrate", KEY_RECALIBRATE, NULL, 0, "Measure again what was calibrated before and is not in doubt", 0},
        {"list", KEY_LIST, NULL, 0, "Only list, calibrate nothing", 0},
        {"self-test", KEY_SELF_TEST, "TIMES", OPTION_ARG_OPTIONAL,
         "Compare a plan with itself, 60 or TIMES times: are equal columns ever called different, are 2 % found?", 0},
        {"out", 'o', "F.jsonl", 0, "Keep each comparison of the self-test in this file, and go on from those it holds",
         0},
        {"format", KEY_FORMAT, "FORMAT", 0, "table (default) or json", 0},
        {0},
    };
    devices_options o = {0};
    fb_cli cli = {.least = 0, .most = 0, .own = devices_key, .ctx = &o};
    fb_cli_parse(&cli, me, options, argc, argv);
    int status = FB_EXIT_FINE;
    if (o.out && !o.self_test) fb_cli_usage("devices: --out keeps a self-test's comparisons: it goes with --self-test");
    if (o.self_test) {
        status = fb_self_test(&cli, o.self_test, o.out);
        fb_cli_free(&cli);
        return status;
    }
    cli.libraries = true;
    fb_session *s = fb_cli_open(&cli, NULL, &status);
    size_t i;
    json_t *entry;
    json_array_foreach((json_t *)(s && !o.list_only ? fb_session_devices(s) : NULL), i, entry)
    {
        const char *name = fb_json_string_or(entry, "device", "");
        if (!cli.common.device || strcmp(cli.common.device, name) == 0) calibrate(s, name, o.recalibrate);
    }
    if (s && o.format == FB_FORMAT_JSON)
        print_json(s);
    else if (s)
        print_text(s);
    fb_session_free(s);
    fb_cli_free(&cli);
    return status;
}

const fb_command fb_command_devices = {
    .name = "devices", .args = "", .summary = "What was found where, calibrated", .run = devices_main};

/* ---- worker ---- */

static int worker_main(const fb_command *me, int argc, char **argv)
{
    fb_cli cli = {.least = 0, .most = 0};
    fb_cli_parse(&cli, me, NULL, argc, argv);
    fb_cli_free(&cli);
    return fb_worker_serve(STDIN_FILENO, STDOUT_FILENO);
}

const fb_command fb_command_worker = {
    .name = "worker", .args = "", .summary = "Serve devices on stdin and stdout, for --worker", .run = worker_main};
