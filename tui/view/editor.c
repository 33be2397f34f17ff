/* Gives the terminal to an editor and takes it back, while the session is pumped and saves are noticed. */
#include "tui/view/editor.h"

#include "base/file.h"
#include "base/mem.h"
#include "session/library.h"
#include "tui/term/terminal.h"
#include "tui/view/ui.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MS = 50 };

const char *fb_editor_command(void)
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

static void take_saves(fb_app *app)
{
    fb_saved saved = fb_watch_saved(app->watch);
    if (saved.other) fb_view_kernels_saved(app);
    if (saved.script) fb_action(app, FB_CMD_RELOAD, "");
    if (saved.script || saved.other) fb_lesson_saved(app);
}

/* While somebody edits, what is saved is loaded and measured already; the screen is theirs. */
static int wait_for(fb_app *app, pid_t pid)
{
    for (;;) {
        struct pollfd fds[FB_SESSION_FDS + 1];
        int timeout = -1, status = 0, n = fb_session_poll(app->session, fds, &timeout);
        fds[n] = (struct pollfd){.fd = fb_watch_fd(app->watch), .events = POLLIN};
        if (timeout < 0 || timeout > POLL_MS) timeout = POLL_MS;
        poll(fds, (nfds_t)n + 1, timeout);
        if (fds[n].revents) take_saves(app);
        fb_session_pump(app->session);
        pid_t got = waitpid(pid, &status, WNOHANG | WUNTRACED);
        if (got < 0 && errno != EINTR) return 0;
        if (got != pid) continue;
        if (!WIFSTOPPED(status)) return status;
        raise(SIGSTOP); /* C-z there: the shell's turn, and then the editor's again */
        kill(pid, SIGCONT);
    }
}

fb_editor_end fb_editor_run(fb_app *app, const char *path)
{
    const char *command = fb_editor_command();
    if (!command) return FB_EDITOR_NONE;
    fb_terminal_lend();
    pid_t pid = fork();
    if (pid == 0) be_editor(command, path);
    int status = pid > 0 ? wait_for(app, pid) : 0;
    fb_terminal_take_back();
    app->dirty = true;
    return pid < 0 || (WIFEXITED(status) && WEXITSTATUS(status) >= 126) ? FB_EDITOR_FAILED : FB_EDITOR_DONE;
}

/* ---- the script -----------------------------------------------------------------------------------------------------
 */

/* A copy of a bundled script, its text written once. */
static bool copy_bundled(const char *script, char path[PATH_MAX], fb_error *err)
{
    if (!fb_data_path(fb_file_name(script), path, PATH_MAX))
        return fb_fail(err, FB_ERR_SYSTEM, "there is no place for a copy of %s", script);
    if (access(path, F_OK) == 0) return true;
    char *text = fb_session_script_text(script);
    bool fine = text ? fb_write_file(path, text, strlen(text), err)
                     : fb_fail(err, FB_ERR_SYSTEM, "%s: there is no text of it", script);
    fb_free(text);
    return fine;
}

/* "lessons/lecture" of "scripts/lessons/lecture.lua" */
static const char *short_name(const char *path, char to[PATH_MAX])
{
    static const char folder[] = "scripts/";
    bool inside = !strncmp(path, folder, strlen(folder));
    snprintf(to, PATH_MAX, "%s", inside ? path + strlen(folder) : path);
    size_t n = strlen(to);
    if (n > 4 && !strcmp(to + n - 4, ".lua")) to[n - 4] = '\0';
    return to;
}

/* What is edited is what is open: of a bundled script that is a copy from here on. On the page of a lesson it is the
 * lesson, whose pages go on with the scripts that they name. */
static bool own_script(fb_app *app, char path[PATH_MAX])
{
    bool lesson = fb_app_view(app) == FB_VIEW_LESSON;
    const char *script = lesson ? app->lesson.path : fb_session_path(app->session);
    fb_error err = {0};
    if (access(script, F_OK) == 0) {
        snprintf(path, PATH_MAX, "%s", script);
        return true;
    }
    if (app->lesson.info) {
        fb_app_say(app, FB_ROLE_WARN, "%s is bundled: \"fusebox new FILE --from %s\" makes one of your own", script,
                   short_name(script, path));
        return false;
    }
    if (copy_bundled(script, path, &err)) return fb_app_open(app, path);
    fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
    return false;
}

void fb_edit_script(fb_app *app, const char *arg)
{
    char path[PATH_MAX];
    (void)arg;
    if (!fb_editor_command())
        fb_app_say(app, FB_ROLE_WARN, "neither VISUAL nor EDITOR names an editor; a save of %s is loaded all the same",
                   fb_app_view(app) == FB_VIEW_LESSON ? app->lesson.path : fb_session_path(app->session));
    else if (!own_script(app, path))
        return;
    else if (fb_editor_run(app, path) == FB_EDITOR_FAILED)
        fb_app_say(app, FB_ROLE_BAD, "%s cannot be run", fb_editor_command());
    else
        fb_app_say(app, FB_ROLE_DIM, app->settings.reload ? "%s: every save is loaded" : "%s: r loads what was saved",
                   path);
    take_saves(app);
}
