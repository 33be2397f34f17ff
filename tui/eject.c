/* Kernels that the user improves by hand: taking one over, the editor, what a save does, and what may run. */
#include "tui/terminal.h"
#include "tui/ui.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EDITOR_POLL_MS = 50 };

/* ---- saves ---- */

void fb_kernels_watch(fb_app *app)
{
    const char **files;
    fb_arena *arena = fb_arena_new();
    int n = fb_session_kernel_files(app->session, arena, &files);
    for (int i = 0; i < n; i++) fb_watch_add(app->watch, files[i]);
    fb_arena_free(arena);
}

void fb_kernels_saved(fb_app *app)
{
    int n = fb_session_kernels_saved(app->session);
    if (!n) return;
    fb_app_say(app, FB_ROLE_DIM, "a kernel was saved: %d column%s %s", n, n == 1 ? " is" : "s are",
               fb_session_auto(app->session) ? "measured again" : "to be measured: m");
}

/* ---- the editor ---- */

static const char *editor(void)
{
    const char *visual = getenv("VISUAL"), *usual = getenv("EDITOR");
    return visual && *visual ? visual : usual && *usual ? usual : NULL;
}

static _Noreturn void be_editor(const char *command, const char *path)
{
    fb_str line = {0};
    fb_str_addf(&line, "%s \"$1\"", command);
    for (int n = 1; n < 32; n++) signal(n, SIG_DFL);
    execl("/bin/sh", "sh", "-c", fb_str_get(&line), "sh", path, (char *)NULL);
    _exit(127);
}

/* While somebody edits, what is saved is measured already; the screen is theirs. */
static int wait_for_editor(fb_app *app, pid_t pid)
{
    for (;;) {
        struct pollfd fds[FB_SESSION_FDS + 1];
        int timeout = -1, status = 0, n = fb_session_poll(app->session, fds, &timeout);
        fds[n] = (struct pollfd){.fd = fb_watch_fd(app->watch), .events = POLLIN};
        if (timeout < 0 || timeout > EDITOR_POLL_MS) timeout = EDITOR_POLL_MS;
        poll(fds, (nfds_t)n + 1, timeout);
        if (fds[n].revents && fb_watch_saved(app->watch).other) fb_kernels_saved(app);
        fb_session_pump(app->session);
        pid_t got = waitpid(pid, &status, WNOHANG | WUNTRACED);
        if (got < 0 && errno != EINTR) return 0;
        if (got != pid) continue;
        if (!WIFSTOPPED(status)) return status;
        raise(SIGSTOP); /* C-z there: the shell's turn, and then the editor's again */
        kill(pid, SIGCONT);
    }
}

static void edit(fb_app *app, const char *path)
{
    const char *command = editor();
    fb_session_own_kernel(app->session, path);
    if (!command) {
        fb_app_say(app, FB_ROLE_GOOD, "edit %s: every save is compiled, checked and timed (EDITOR names no editor)",
                   path);
        return;
    }
    fb_terminal_lend();
    pid_t pid = fork();
    if (pid == 0) be_editor(command, path);
    int status = pid > 0 ? wait_for_editor(app, pid) : 0;
    fb_terminal_take_back();
    app->dirty = true;
    if (pid < 0 || (WIFEXITED(status) && WEXITSTATUS(status) >= 126))
        fb_app_say(app, FB_ROLE_BAD, "%s cannot be run; every save of %s is compiled, checked and timed", command,
                   path);
    else
        fb_app_say(app, FB_ROLE_GOOD, "every save of %s is compiled, checked and timed", path);
    fb_kernels_saved(app);
}

/* ---- the command ---- */

static bool take_over(fb_app *app, int group, const char *arg, char path[PATH_MAX], fb_error *err)
{
    char folder[PATH_MAX];
    if (*arg)
        snprintf(path, PATH_MAX, "%s", arg);
    else if (!fb_session_folder(app->session, folder))
        return fb_fail(err, FB_ERR_SYSTEM, "there is no place for the file: name one");
    else if (!fb_session_eject_path(app->session, app->column, group, folder, path, err))
        return false;
    int at = fb_session_eject(app->session, app->column, group, path, false, err);
    if (at < 0) return false;
    app->column = at;
    fb_model_update(app);
    fb_kernels_watch(app);
    return true;
}

void fb_eject(fb_app *app, const char *arg)
{
    const fb_plan *plan = app->model.column->plan;
    int group = fb_source_group(app);
    char path[PATH_MAX];
    fb_error err = {0};
    const fb_kernel_source *own = group == FB_NONE ? NULL : fb_plan_group(plan, group)->source;
    if (group == FB_NONE) {
        fb_app_say(app, FB_ROLE_WARN, "eject: there is no kernel under the cursor");
    } else if (own && !*arg) {
        snprintf(path, sizeof path, "%s", own->path); /* the plan may change while it is edited */
        edit(app, path);
    } else if (take_over(app, group, arg, path, &err)) {
        edit(app, path);
    } else {
        fb_app_say(app, FB_ROLE_BAD, "eject: %s", err.text);
    }
    if (fb_app_view(app) == FB_VIEW_SOURCE) fb_app_show(app, FB_VIEW_SOURCE);
}

/* ---- what may run ---- */

/* Asked once for each text of a file. */
void fb_trust_follow(fb_app *app)
{
    const char *hash;
    fb_arena *arena = fb_arena_new();
    const char *path = fb_session_untrusted(app->session, arena, &hash);
    if (path && strcmp(hash, app->trust.refused) != 0) {
        app->trust.asked = true;
        snprintf(app->trust.hash, sizeof app->trust.hash, "%s", hash);
        fb_str_clear(&app->trust.question);
        fb_str_addf(&app->trust.question,
                    "run %s? Native code, which runs as you · y: yes, as long as it stays so · n: no · SHA-256 %s",
                    path, hash);
        app->dirty = true;
    } else if (!path) {
        app->trust.asked = false;
    }
    fb_arena_free(arena);
}

bool fb_trust_key(fb_app *app, int key)
{
    if (!app->trust.asked || (key != 'y' && key != 'n')) return false;
    app->trust.asked = false;
    app->dirty = true;
    if (key == 'y')
        fb_session_trust(app->session, app->trust.hash);
    else
        snprintf(app->trust.refused, sizeof app->trust.refused, "%s", app->trust.hash);
    return true;
}
