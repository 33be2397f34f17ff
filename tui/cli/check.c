/* fusebox check: every variant × every preset against the reference, or those that are named. */
#include "tui/cli/cli.h"

#include "base/mem.h"
#include "base/str.h"
#include "tui/show/table.h"

#include <math.h>
#include <string.h>

static void show(fb_session *s, int column)
{
    const fb_column *c = fb_session_column(s, column);
    fb_str line = {0};
    if (c->state == FB_COLUMN_FAILED) {
        fb_str_addf(&line, "✗ %s: %s\n", c->text, c->error.text);
    } else {
        const fb_error_report *e = &c->report->error;
        bool verified = !isnan(e->bound), nothing = fb_report_error_says_nothing(e);
        fb_str_addf(&line, "%s %s", verified && !nothing ? "✓" : "–", c->text);
        if (e->state == FB_CHECK_CHECKING)
            fb_str_add(&line, ": not verified, its check was not finished");
        else if (!verified)
            fb_str_addf(&line, ": not verified, %s", fb_report_source_name(c->report->source));
        if (nothing)
            fb_str_add(&line, ": not decided: rounding alone may change most elements altogether");
        else if (isfinite(e->max_rel))
            fb_str_addf(&line, ": largest relative error %.1e, %.2g of the bound", e->max_rel, e->bound);
        if (e->undecided) fb_str_addf(&line, ", %lld elements undecided", (long long)e->undecided);
        fb_str_add(&line, "\n");
    }
    fb_put(stdout, line.text);
    fb_str_free(&line);
}

static int check_columns(fb_session *s)
{
    int n = fb_session_columns(s), wrong = 0, away = 0;
    int *columns = fb_calloc((size_t)n + 1, sizeof *columns);
    for (int i = 0; i < n; i++) columns[i] = i;
    fb_session_check(s, columns, n);
    fb_free(columns);
    fb_cli_wait(s);
    for (int i = 0; i < n; i++) {
        const fb_column *c = fb_session_column(s, i);
        show(s, i);
        wrong += c->state == FB_COLUMN_FAILED;
        away += c->state == FB_COLUMN_FAILED && c->error.kind == FB_ERR_UNAVAILABLE;
    }
    if (wrong) fb_cli_say("%d of %d columns failed", wrong, n);
    return !wrong ? FB_EXIT_FINE : wrong == away ? FB_EXIT_NO_DEVICE : FB_EXIT_WRONG;
}

/* "scan" with every preset, "scan:mine" alone, or "max" of all variants. */
static int add_named(fb_session *s, const char *name)
{
    fb_error err = {0};
    const fb_script_info *info = fb_session_script(s);
    if (!fb_cli_is_variant(info, name)) {
        if (fb_session_add(s, name, &err) >= 0) return FB_EXIT_FINE;
        /* A single word of a script with variants was more likely meant as one of them. */
        if (fb_cli_is_variant(info, "") || strpbrk(name, ":@./")) return fb_cli_fail(&err);
    }
    for (int i = 0; i < fb_presets(); i++) {
        fb_str spec = {0};
        fb_str_addf(&spec, "%s:%s", name, fb_preset_at(i)->name);
        bool added = fb_session_add(s, fb_str_get(&spec), &err) >= 0;
        fb_str_free(&spec);
        if (!added) return fb_cli_fail(&err);
    }
    return FB_EXIT_FINE;
}

static int check_main(const fb_command *me, int argc, char **argv)
{
    fb_cli cli = {.least = 1, .most = -1};
    fb_cli_parse(&cli, me, NULL, argc, argv);
    int status = FB_EXIT_FINE;
    fb_session *s = fb_cli_open(&cli, cli.args[0], &status);
    for (int i = 1; s && !status && i < cli.n_args; i++) status = add_named(s, cli.args[i]);
    for (int i = 0; s && !status && cli.n_args == 1 && i < fb_presets(); i++)
        fb_cli_each_variant(s, fb_preset_at(i)->name, &status);
    int cases = fb_cli_cases(&cli), worst = FB_EXIT_FINE;
    for (int i = 0; s && !status && i < cases; i++) {
        fb_error err = {0};
        int one = fb_cli_case(&cli, s, i, &err) ? check_columns(s) : fb_cli_fail(&err);
        if (one && worst != FB_EXIT_WRONG) worst = one;
    }
    fb_session_free(s);
    fb_cli_free(&cli);
    return status ? status : worst;
}

const fb_command fb_command_check = {.name = "check",
                                     .args = "SCRIPT [VARIANT|COLUMN]…",
                                     .summary = "Every variant × preset against the reference",
                                     .run = check_main};
