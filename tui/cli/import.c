/* fusebox import: a PyTorch module as a graph in JSON. What traces and writes it is scripts/import/from_torch.py, run
 * by the user's own Python; this process becomes it. */
#include "tui/cli/cli.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_WEIGHTS = 256, KEY_UNROLL, KEY_TRAIN };

static const struct argp_option options[] = {
    {"out", 'o', "NAME.json", 0, "Where to (default: MODEL.json here; weights go to the folder NAME.weights)", 0},
    {"weights", KEY_WEIGHTS, "HOW", 0, "files (the default), or drawn: no files, each drawn with its mean and spread",
     0},
    {"unroll", KEY_UNROLL, "N", 0, "Recurrent layers of at most so many steps are written out (default: 8)", 0},
    {"train", KEY_TRAIN, NULL, 0, "In training mode: the first result is a loss, and gradients are results", 0},
    {0},
};

/* What follows the program's name, in its own spelling. */
typedef struct {
    const char *word[8];
    int n;
} passed_on;

static void pass(passed_on *p, const char *option, const char *value)
{
    for (int i = 0; i < p->n; i++) /* the last one counts */
        if (strcmp(p->word[i], option) == 0) {
            if (value) p->word[i + 1] = value;
            return;
        }
    p->word[p->n++] = option;
    if (value) p->word[p->n++] = value;
}

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    passed_on *p = ctx;
    char *end;
    switch (key) {
    case 'o': pass(p, "--out", arg); return 0;
    case KEY_WEIGHTS:
        if (strcmp(arg, "files") != 0 && strcmp(arg, "drawn") != 0)
            fb_cli_usage("%s: --weights is files or drawn, not \"%s\"", state->name, arg);
        pass(p, "--weights", arg);
        return 0;
    case KEY_UNROLL:
        if (errno = 0, strtol(arg, &end, 10) < 0 || end == arg || *end || errno)
            fb_cli_usage("%s: --unroll: \"%s\" is no number of steps", state->name, arg);
        pass(p, "--unroll", arg);
        return 0;
    case KEY_TRAIN: pass(p, "--train", NULL); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int import_main(const fb_command *me, int argc, char **argv)
{
    passed_on passed = {0};
    fb_cli cli = {.least = 1, .most = 1, .own = own_key, .ctx = &passed};
    char place[PATH_MAX];
    fb_error err = {0};
    fb_cli_parse(&cli, me, options, argc, argv);
    if (!fb_python_files("import", place, &err)) {
        fb_cli_free(&cli);
        return fb_cli_fail(&err);
    }
    fb_str program = {0};
    fb_str_addf(&program, "%s/from_torch.py", place);
    const char *words[16] = {fb_python(), "-W", "ignore", program.text};
    int n = 4;
    for (int i = 0; i < passed.n; i++) words[n++] = passed.word[i];
    words[n++] = "--"; /* a model's name may begin with anything */
    words[n++] = cli.args[0];
    setenv("FUSEBOX_IMPORT", me->name, 1);
    execvp(words[0], (char *const *)words);
    fb_fail(&err, FB_ERR_UNAVAILABLE, "%s cannot be run: %s; FUSEBOX_PYTHON names a Python that has PyTorch", words[0],
            strerror(errno));
    fb_str_free(&program);
    fb_cli_free(&cli);
    return fb_cli_fail(&err);
}

const fb_command fb_command_import = {
    .name = "import", .args = "MODEL.py:make", .summary = "A PyTorch module as a graph", .run = import_main};
