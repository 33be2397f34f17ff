/* Takes the terminal over and gives it back on every way out. Signal handlers do only what is allowed in one. */
#include "tui/term/terminal.h"

#include "base/file.h"
#include "base/str.h"
#include "tui/term/draw.h"
#include "tui/term/theme.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#ifdef BUTTON5_PRESSED
enum { WHEEL_DOWN = BUTTON5_PRESSED };
#else
enum { WHEEL_DOWN = 0 };
#endif
enum { ESC_DELAY_MS = 25, CRASH_STACK = 64 << 10 };

static const int told[] = {SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
enum { TOLD = sizeof told / sizeof *told, CRASHES = sizeof crashes / sizeof *crashes };

static struct {
    SCREEN *screen;
    int pipe[2];
    struct sigaction told_before[TOLD], crash_before[CRASHES];
    struct termios before;
    char restore[256]; /* what a crash writes to leave the alternate screen */
    size_t n_restore;
    char crash_stack[CRASH_STACK];
} term;

static void on_told(int number)
{
    int saved = errno;
    unsigned char byte = (unsigned char)number;
    ssize_t ignored = write(term.pipe[1], &byte, 1); /* a full pipe has the news already */
    (void)ignored;
    errno = saved;
}

/* Nothing here but what POSIX allows in a handler. SA_RESETHAND has put the default action back. */
static void on_crash(int number)
{
    ssize_t ignored = write(STDOUT_FILENO, term.restore, term.n_restore);
    (void)ignored;
    tcsetattr(STDIN_FILENO, TCSANOW, &term.before);
    raise(number);
}

static void remember(const char *capability)
{
    size_t n = capability ? strlen(capability) : 0;
    if (!n || term.n_restore + n > sizeof term.restore) return;
    memcpy(term.restore + term.n_restore, capability, n);
    term.n_restore += n;
}

static void take_signals(void)
{
    stack_t stack = {.ss_sp = term.crash_stack, .ss_size = CRASH_STACK};
    sigaltstack(&stack, NULL); /* so that an overrun stack still finds its way out */
    struct sigaction news = {.sa_handler = on_told, .sa_flags = SA_RESTART};
    struct sigaction crash = {.sa_handler = on_crash, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK)};
    sigemptyset(&news.sa_mask);
    sigemptyset(&crash.sa_mask);
    for (int i = 0; i < TOLD; i++) sigaction(told[i], &news, &term.told_before[i]);
    for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &crash, &term.crash_before[i]);
}

static void give_signals_back(void)
{
    for (int i = 0; i < TOLD; i++) sigaction(told[i], &term.told_before[i], NULL);
    for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &term.crash_before[i], NULL);
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
}

static bool can_draw(fb_error *err)
{
    const char *name = getenv("TERM");
    int status = 0;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return fb_fail(err, FB_ERR_UNAVAILABLE,
                       "the workbench needs a terminal; `fusebox run` prints a table without one");
    if (!name || !*name) return fb_fail(err, FB_ERR_UNAVAILABLE, "TERM is not set; `fusebox run` needs no screen");
    if (setupterm(name, STDOUT_FILENO, &status) != OK)
        return fb_fail(err, FB_ERR_UNAVAILABLE,
                       "terminal \"%s\" is not known here: try TERM=xterm-256color; `fusebox run` needs no screen",
                       name);
    bool able = cursor_address && clear_screen;
    del_curterm(cur_term); /* newterm makes one of its own */
    if (!able)
        return fb_fail(err, FB_ERR_UNAVAILABLE, "terminal \"%s\" cannot move its cursor; `fusebox run` needs no screen",
                       name);
    return true;
}

/* More than any screen has: beyond that a terminal does not tell the truth, and curses would take gigabytes. */
enum { MOST_ROWS = 600, MOST_COLS = 2000 };

/* What the terminal says that it has, within reason; false: it does not say. */
static bool claimed_size(struct winsize *size, bool *lies)
{
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, size) || !size->ws_row || !size->ws_col) return false;
    *lies = size->ws_row > MOST_ROWS || size->ws_col > MOST_COLS;
    if (size->ws_row > MOST_ROWS) size->ws_row = MOST_ROWS;
    if (size->ws_col > MOST_COLS) size->ws_col = MOST_COLS;
    return true;
}

/* curses believes the environment before the terminal. */
static void drop_lie(const char *name, int most)
{
    const char *value = getenv(name);
    if (value && strtol(value, NULL, 10) > most) unsetenv(name);
}

static SCREEN *open_screen(void)
{
    drop_lie("LINES", MOST_ROWS);
    drop_lie("COLUMNS", MOST_COLS);
    struct winsize size;
    bool lies = false, capped = claimed_size(&size, &lies) && lies;
    char rows[16], cols[16];
    if (capped) {
        snprintf(rows, sizeof rows, "%d", size.ws_row);
        snprintf(cols, sizeof cols, "%d", size.ws_col);
        setenv("LINES", rows, 1);
        setenv("COLUMNS", cols, 1);
    }
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (capped) {
        unsetenv("LINES");
        unsetenv("COLUMNS");
    }
    return screen;
}

/* A language that ssh brought along and this machine lacks ("UTF-8" alone of macOS, "de_DE.UTF-8") still says what the
 * terminal can show. */
static void take_language(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *name = NULL;
    if (setlocale(LC_ALL, "")) return;
    for (size_t i = 0; i < sizeof names / sizeof *names && !(name && *name); i++) name = getenv(names[i]);
    if (name && (strcasestr(name, "utf-8") || strcasestr(name, "utf8"))) setlocale(LC_CTYPE, "C.UTF-8");
}

bool fb_terminal_open(bool mouse, fb_error *err)
{
    take_language();
    setlocale(LC_NUMERIC, "C"); /* figures look the same everywhere */
    if (!can_draw(err)) return false;
    if (pipe2(term.pipe, O_CLOEXEC | O_NONBLOCK)) return fb_fail(err, FB_ERR_SYSTEM, "pipe: %s", strerror(errno));
    tcgetattr(STDIN_FILENO, &term.before);
    term.screen = open_screen();
    if (!term.screen) {
        close(term.pipe[0]);
        close(term.pipe[1]);
        return fb_fail(err, FB_ERR_UNAVAILABLE, "terminal \"%s\" cannot be opened", getenv("TERM"));
    }
    term.n_restore = 0;
    remember(exit_attribute_mode);
    remember(cursor_normal);
    remember(keypad_local);
    remember(exit_ca_mode);
    raw(); /* C-c and C-z are keys */
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESC_DELAY_MS);
    curs_set(0);
    mouseinterval(0); /* a press is a click */
    if (mouse) mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | WHEEL_DOWN, NULL);
    int colours = 0;
    if (start_color() == OK && has_colors()) {
        use_default_colors();
        colours = COLORS;
    }
    fb_theme_start(fb_theme_choose(colours), colours);
    fb_draw_start(!strcmp(nl_langinfo(CODESET), "UTF-8"));
    take_signals();
    return true;
}

void fb_terminal_close(void)
{
    if (!term.screen) return;
    endwin();
    give_signals_back();
    delscreen(term.screen);
    term.screen = NULL;
    close(term.pipe[0]);
    close(term.pipe[1]);
}

int fb_terminal_signals(void)
{
    return term.pipe[0];
}

void fb_terminal_suspend(void)
{
    struct sigaction usual = {.sa_handler = SIG_DFL}, ours;
    sigset_t unblock, before;
    endwin();
    sigemptyset(&usual.sa_mask);
    sigaction(SIGTSTP, &usual, &ours);
    sigemptyset(&unblock);
    sigaddset(&unblock, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &unblock, &before);
    raise(SIGTSTP); /* stops here until SIGCONT */
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGTSTP, &ours, NULL);
    fb_terminal_resize();
    clearok(stdscr, TRUE);
    refresh();
}

void fb_terminal_lend(void)
{
    static const int theirs[] = {SIGINT, SIGQUIT, SIGTSTP};
    endwin();
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) signal(theirs[i], SIG_IGN);
}

void fb_terminal_take_back(void)
{
    struct sigaction news = {.sa_handler = on_told, .sa_flags = SA_RESTART};
    sigemptyset(&news.sa_mask);
    for (int i = 0; i < TOLD; i++) sigaction(told[i], &news, NULL);
    fb_terminal_resize();
    clearok(stdscr, TRUE);
    refresh();
}

void fb_terminal_resize(void)
{
    struct winsize size;
    bool lies;
    if (!claimed_size(&size, &lies)) return;
    if (is_term_resized(size.ws_row, size.ws_col)) resizeterm(size.ws_row, size.ws_col);
}

/* The Linux console, serial terminals and GNU screen print what they do not know. */
static bool takes_copies(void)
{
    static const char *const none[] = {"linux", "vt", "dumb", "ansi", "cons", "sun"};
    const char *name = getenv("TERM"), *screen = getenv("STY");
    for (size_t i = 0; name && i < sizeof none / sizeof *none; i++)
        if (!strncmp(name, none[i], strlen(none[i]))) return false;
    return name && !(screen && *screen);
}

bool fb_terminal_copy(const char *text, size_t n)
{
    enum { MOST = 48 << 10 }; /* more than 64 kB of base 64 many terminals drop */
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    fb_str out = {0};
    if (n > MOST || !takes_copies()) return false;
    fb_str_add(&out, "\x1b]52;c;");
    for (size_t i = 0; i < n; i += 3) {
        unsigned bits = 0;
        for (size_t k = 0; k < 3; k++) bits = bits << 8 | (i + k < n ? (unsigned char)text[i + k] : 0);
        for (size_t k = 0; k < 4; k++) fb_str_add_n(&out, i + k <= n ? &digits[bits >> (18 - 6 * k) & 63] : "=", 1);
    }
    fb_str_add(&out, "\a");
    fflush(stdout);
    bool good = fb_write_all(STDOUT_FILENO, out.text, out.n);
    fb_str_free(&out);
    return good;
}

void fb_terminal_die(int number)
{
    signal(number, SIG_DFL);
    raise(number);
    _exit(128 + number);
}
