/* Hostile scripts: each file of tests/hostile ends in a message that matches its first line, `-- expect: REGEX`,
 * within a time after the request that set it going that says it was stopped, not waited for (2.5 s where nothing else
 * runs), and a new script loads and builds afterwards. */
#include "unit/script_harness.h"
#include "unit/turn.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"

#include <dirent.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 180000 };

typedef FB_VEC(struct CMUnitTest) test_list;

static const char *folder(char to[PATH_MAX])
{
    const char *root = getenv("FB_SRCDIR");
    snprintf(to, PATH_MAX, "%s/tests/hostile", root ? root : ".");
    return to;
}

/* Asks for all that the script offers, one after the other, until something fails. */
static bool run_to_error(fb_script *s, fb_script_event *e)
{
    fb_script_info *info = NULL;
    int step = 0, plan = 0;
    for (;;) {
        if (!next_event(s, e, LIMIT_MS)) fail_msg("no answer within %d ms", LIMIT_MS);
        if (e->kind == FB_SCRIPT_ERROR) break;
        if (e->kind == FB_SCRIPT_INFO) {
            info = e->info;
            e->info = NULL;
        }
        if (e->kind == FB_SCRIPT_MEASURE) {
            json_t *report = json_object();
            fb_script_measured(s, report);
            json_decref(report);
        }
        if (e->kind == FB_SCRIPT_MEASURE || e->kind == FB_SCRIPT_ROW || e->kind == FB_SCRIPT_PLOT) {
            fb_script_event_clear(e);
            continue;
        }
        if (e->kind == FB_SCRIPT_GRAPH && plan < info->n_plans)
            fb_script_plan(s, e->graph, info->plans[plan++], NULL);
        else if (step < info->n_variants)
            fb_script_build(s, info->variants[step++], NULL);
        else if (step++ == info->n_variants && info->experiment)
            fb_script_experiment(s, NULL);
        else
            fail_msg("the script did all it was asked for");
        fb_script_event_clear(e);
    }
    fb_script_info_free(info);
    return true;
}

static void check_message(const char *name, const char *pattern, const fb_script_event *e)
{
    regex_t r;
    assert_int_equal(regcomp(&r, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool matches = regexec(&r, e->error.text, 0, NULL, 0) == 0;
    regfree(&r);
    if (!matches) fail_msg("%s: \"%s\" does not match \"%s\"", name, e->error.text, pattern);
    if (strncmp(e->error.text, name, strlen(name)) != 0) fail_msg("\"%s\" does not name %s", e->error.text, name);
    const char *after = e->error.text + strlen(name);
    int line = 0;
    if (sscanf(after, ":%d:", &line) == 1) assert_int_equal(e->line, line);
}

static void check_next_script(const char *good)
{
    fb_error err;
    fb_script_event e;
    fb_script *s = fb_script_start(good, NULL, &err);
    assert_non_null(s);
    assert_true(next_event(s, &e, LIMIT_MS));
    assert_int_equal(e.kind, FB_SCRIPT_INFO);
    fb_script_build(s, e.info->variants[0], NULL);
    fb_script_event_clear(&e);
    assert_true(next_event(s, &e, LIMIT_MS));
    assert_int_equal(e.kind, FB_SCRIPT_GRAPH);
    fb_script_event_clear(&e);
    fb_script_free(s);
}

static void hostile(void **state)
{
    const char *name = *state;
    char path[PATH_MAX + 256], good[PATH_MAX + 64], at[PATH_MAX], pattern[200] = "";
    snprintf(path, sizeof path, "%s/%s", folder(at), name);
    snprintf(good, sizeof good, "%s/../../scripts/models/add_mul_relu.lua", at);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "-- expect: %199[^\n]", pattern), 1);
    fclose(f);
    fb_error err;
    fb_script_event e;
    fb_script *s = fb_script_start(path, NULL, &err);
    assert_non_null(s);
    run_to_error(s, &e);
    check_message(name, pattern, &e);
    fb_script_event_clear(&e);
    fb_script_free(s);
    check_next_script(good);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

int main(void)
{
    char path[PATH_MAX];
    fb_json_init();
    DIR *d = opendir(folder(path));
    test_list tests = {0};
    for (struct dirent *entry; d && (entry = readdir(d));) {
        size_t n = strlen(entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 4, ".lua") != 0) continue;
        char *name = fb_strdup(entry->d_name);
        FB_VEC_PUSH(&tests, (struct CMUnitTest){.name = name, .test_func = hostile, .initial_state = name});
    }
    if (d) closedir(d);
    if (tests.n < 40) {
        fprintf(stderr, "only %d hostile scripts in %s\n", tests.n, path);
        return 1;
    }
    qsort(tests.at, (size_t)tests.n, sizeof *tests.at, by_name);
    /* An endless one runs for as long as any may. */
    int n = 0;
    for (int i = 0; i < tests.n; i++) {
        if (turn_is((unsigned)i, 1))
            tests.at[n++] = tests.at[i];
        else
            fb_free(tests.at[i].initial_state);
    }
    tests.n = n;
    int failed = _cmocka_run_group_tests("hostile", tests.at, (size_t)tests.n, NULL, NULL);
    for (int i = 0; i < tests.n; i++) fb_free(tests.at[i].initial_state);
    FB_VEC_FREE(&tests);
    return failed;
}
