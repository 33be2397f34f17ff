/* The workers of other frameworks by name: --worker torch, jax, … or auto. Python runs them from the user's cache
 * (python.c). Needs the options as they are read; leaves commands among their workers. */
#include "tui/cli/cli.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "device/device.h"
#include "device/peers.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME(KIND) #KIND,
static const char *const names[] = {FB_PEERS(NAME)};
enum { N_NAMES = sizeof names / sizeof *names };

static char *commands[N_NAMES]; /* of those that were asked for; they live as long as the program */

static void start(fb_cli_options *o, int k)
{
    char place[PATH_MAX];
    fb_error err = {0};
    if (commands[k]) return;
    if (o->n_workers == (int)(sizeof o->workers / sizeof *o->workers) - 1) fb_cli_usage("--worker: too many of them");
    if (!fb_python_files("workers", place, &err)) fb_cli_usage("--worker %s: %s", names[k], err.text);
    fb_str path = {0}, command = {0};
    fb_str_addf(&path, "%s/%s_worker.py", place, names[k]);
    fb_str_add_word(&command, fb_python());
    fb_str_add(&command, " ");
    fb_str_add_word(&command, path.text);
    fb_str_free(&path);
    commands[k] = fb_str_take(&command);
    o->workers[o->n_workers++] = commands[k];
}

/* Those that Python finds, without loading them. */
static int start_found(fb_cli_options *o)
{
    fb_str command = {0};
    char line[256] = "";
    fb_str_add_word(&command, fb_python());
    fb_str_add(&command, " -c 'import importlib.util as u, sys; print(*(m for m in sys.argv[1:] if u.find_spec(m)))'");
    for (int k = 0; k < N_NAMES; k++) fb_str_addf(&command, " %s", names[k]);
    fb_str_add(&command, " 2>/dev/null </dev/null");
    FILE *answer = popen(command.text, "r");
    if (answer && !fgets(line, sizeof line, answer)) line[0] = '\0';
    if (answer) pclose(answer);
    fb_str_free(&command);
    int found = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
        for (int k = 0; k < N_NAMES; k++)
            if (strcmp(word, names[k]) == 0) start(o, k), found++;
    return found;
}

bool fb_frameworks_take(fb_cli_options *o, const char *word)
{
    for (int k = 0; k < N_NAMES; k++)
        if (strcmp(word, names[k]) == 0) return start(o, k), true;
    if (strcmp(word, "auto") != 0) return false;
    if (!start_found(o)) {
        fb_str all = {0};
        for (int k = 0; k < N_NAMES; k++)
            fb_str_addf(&all, "%s%s", k == 0 ? "" : k == N_NAMES - 1 ? " and " : ", ", names[k]);
        fb_cli_say("--worker auto: %s has none of %s", fb_python(), all.text);
        fb_str_free(&all);
    }
    return true;
}

/* ---- a plan as a module ---- */

enum { MODULE_MOST = 64 << 20 };

/* Runs the writer on `from`; what it says on stderr goes into `said`. */
static bool run_writer(const char *place, const char *from, const char *to, const char *said, fb_error *err)
{
    fb_str command = {0};
    const char *const files[] = {from, to, said}, *const marks[] = {" <", " >", " 2>"};
    fb_str_add_word(&command, fb_python());
    fb_str_add(&command, " ");
    fb_str script = {0};
    fb_str_addf(&script, "%s/inductor_export.py", place);
    fb_str_add_word(&command, script.text);
    fb_str_free(&script);
    for (int i = 0; i < 3; i++) {
        fb_str_add(&command, marks[i]);
        fb_str_add_word(&command, files[i]);
    }
    int status = system(command.text);
    fb_str_free(&command);
    if (status == 0) return true;
    char *text = fb_read_file(said, MODULE_MOST, NULL, NULL), *last = text, *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) last = line;
    fb_fail(err, FB_ERR_UNAVAILABLE, "%s writes no plan for Inductor: %.300s", fb_python(),
            last && *last ? last : "it cannot be run");
    fb_free(text);
    return false;
}

bool fb_frameworks_export(json_t *request, const char *file, fb_error *err)
{
    char place[PATH_MAX];
    fb_str paths[3] = {{0}};
    static const char *const endings[] = {"json", "py", "err"};
    bool fine = false;
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    if (access(file, F_OK) == 0)
        fb_fail(err, FB_ERR_USAGE, "%s: it is there already, and nothing is written over", file);
    else if (fb_python_files("workers", place, err)) {
        for (int i = 0; i < 3; i++) fb_str_addf(&paths[i], "%s/export-%d.%s", place, (int)getpid(), endings[i]);
        size_t n = 0;
        fine = fb_write_file(paths[0].text, text, strlen(text), err) &&
               run_writer(place, paths[0].text, paths[1].text, paths[2].text, err);
        char *module = fine ? fb_read_file(paths[1].text, MODULE_MOST, &n, err) : NULL;
        fine = module && fb_write_file(file, module, n, err);
        fb_free(module);
        for (int i = 0; i < 3; i++) unlink(paths[i].text);
    }
    for (int i = 0; i < 3; i++) fb_str_free(&paths[i]);
    free(text);
    return fine;
}
