/* The pseudo-terminal, libvterm behind it, and waiting until a screen shows what is expected. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <vterm.h>

enum { SCREEN_BYTES = 1 << 18, ESC_MS = 80 };

struct term {
    int rows, cols, fd;
    pid_t pid;
    int status; /* of the program; -1: runs */
    VTerm *vt;
    VTermScreen *screen;
    bool alternate, cursor, above_ascii;
    bool console;  /* of Linux: some keys differ */
    char osc[256]; /* the last escape of that kind */
    char text[SCREEN_BYTES];
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int on_property(VTermProp prop, VTermValue *value, void *user)
{
    term *t = user;
    if (prop == VTERM_PROP_ALTSCREEN) t->alternate = value->boolean;
    if (prop == VTERM_PROP_CURSORVISIBLE) t->cursor = value->boolean;
    return 1;
}

static const VTermScreenCallbacks callbacks = {.settermprop = on_property};

term *term_start(int rows, int cols, const char *const *env, const char *const *argv)
{
    term *t = calloc(1, sizeof *t);
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    t->rows = rows;
    t->cols = cols;
    t->status = -1;
    t->cursor = true;
    for (int i = 0; env && env[i]; i++) t->console |= !strcmp(env[i], "TERM=linux");
    t->vt = vterm_new(rows, cols);
    vterm_set_utf8(t->vt, 1);
    t->screen = vterm_obtain_screen(t->vt);
    vterm_screen_enable_altscreen(t->screen, 1);
    vterm_screen_set_callbacks(t->screen, &callbacks, t);
    vterm_screen_reset(t->screen, 1);
    t->pid = forkpty(&t->fd, NULL, NULL, &size);
    if (t->pid < 0) { /* a signal to -1 would reach every process there is */
        perror("forkpty");
        exit(1);
    }
    if (t->pid == 0) {
        static const char *const cleared[] = {"NO_COLOR", "COLORFGBG", "FUSEBOX_THEME", "LINES", "COLUMNS", "LANG"};
        for (size_t i = 0; i < sizeof cleared / sizeof *cleared; i++) unsetenv(cleared[i]);
        setenv("TERM", "xterm-256color", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        for (; env && *env; env++) putenv((char *)*env);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    fcntl(t->fd, F_SETFL, O_NONBLOCK);
    fcntl(t->fd, F_SETFD, FD_CLOEXEC);
    return t;
}

void term_free(term *t)
{
    if (t->status < 0) {
        kill(t->pid, SIGKILL);
        waitpid(t->pid, NULL, 0);
    }
    if (t->fd >= 0) close(t->fd);
    vterm_free(t->vt);
    free(t);
}

/* ---- reading --------------------------------------------------------------------------------------------------------
 */

/* The last that was sent from an OSC on, for term_sent. */
static void keep_osc(term *t, const char *bytes, size_t n)
{
    const char *at = memmem(bytes, n, "\x1b]", 2);
    size_t left = at ? n - (size_t)(at - bytes) : 0;
    if (!left) return;
    if (left >= sizeof t->osc) left = sizeof t->osc - 1;
    memcpy(t->osc, at, left);
    t->osc[left] = '\0';
}

/* What is there within `ms`; false when nothing came. */
static bool read_some(term *t, int ms)
{
    char bytes[65536];
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    if (t->fd < 0 || poll(&p, 1, ms) <= 0 || !(p.revents & POLLIN)) {
        if (p.revents & (POLLHUP | POLLERR)) usleep((useconds_t)ms * 1000);
        return false;
    }
    ssize_t n = read(t->fd, bytes, sizeof bytes);
    if (n <= 0) return false;
    keep_osc(t, bytes, (size_t)n);
    for (ssize_t i = 0; i < n; i++) t->above_ascii |= (unsigned char)bytes[i] > 0x7f;
    vterm_input_write(t->vt, bytes, (size_t)n);
    vterm_screen_flush_damage(t->screen);
    char answer[256]; /* what a terminal says of its own, such as where its cursor is */
    size_t m = vterm_output_read(t->vt, answer, sizeof answer);
    if (m && write(t->fd, answer, m) < 0) return true;
    return true;
}

/* Whether the program has still to read what was sent, or would run if the machine let it. */
static bool is_busy(const term *t)
{
    char path[32], state = 'S';
    int tty = open(ptsname(t->fd), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), unread = 0;
    if (tty >= 0 && ioctl(tty, FIONREAD, &unread) < 0) unread = 0;
    if (tty >= 0) close(tty);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)t->pid);
    FILE *f = unread > 0 ? NULL : fopen(path, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'S';
    if (f) fclose(f);
    return unread > 0 || state == 'R' || state == 'D';
}

/* It rests when it says nothing for that long while it waits for something. On a busy machine one that says nothing
 * may only not have been let. */
bool term_rest(term *t, int quiet_ms, int limit_ms)
{
    enum { STEP_MS = 10, BUSY_MS = 20000 };
    int64_t begun = now_ms(), busy_ms = limit_ms < 1000 ? limit_ms : BUSY_MS;
    int step = quiet_ms < STEP_MS ? quiet_ms : STEP_MS;
    for (int quiet = 0;;) {
        if (read_some(t, step)) {
            if (now_ms() > begun + limit_ms) return false;
            quiet = 0;
        } else if (t->fd >= 0 && t->status < 0 && now_ms() < begun + busy_ms && is_busy(t)) {
            quiet = 0;
        } else if ((quiet += step) >= quiet_ms) {
            return true;
        }
    }
}

bool term_wait(term *t, const char *text, int limit_ms)
{
    int64_t until = now_ms() + limit_ms;
    while (!term_shows(t, text)) {
        bool ended = term_ended(t);
        if (now_ms() > until) return false;
        if (!read_some(t, 20) && ended) return false;
    }
    return true;
}

bool term_ended(term *t)
{
    int status;
    if (t->status < 0 && waitpid(t->pid, &status, WNOHANG) == t->pid) t->status = status;
    return t->status >= 0;
}

int term_end(term *t, int limit_ms)
{
    int64_t until = now_ms() + limit_ms;
    while (!term_ended(t)) {
        read_some(t, 10);
        if (now_ms() > until) return -1;
    }
    while (read_some(t, 20)) continue;
    return t->status;
}

/* ---- the screen -----------------------------------------------------------------------------------------------------
 */

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) return to[0] = (char)c, 1;
    if (c < 0x800) return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 0x3f)), 2;
    if (c < 0x10000)
        return to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 0x3f)),
               to[2] = (char)(0x80 | (c & 0x3f)), 3;
    return to[0] = (char)(0xf0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 0x3f)),
           to[2] = (char)(0x80 | (c >> 6 & 0x3f)), to[3] = (char)(0x80 | (c & 0x3f)), 4;
}

static size_t put_row(term *t, int row, char *to)
{
    size_t n = 0, end = 0;
    for (int col = 0; col < t->cols; col++) {
        VTermScreenCell cell;
        vterm_screen_get_cell(t->screen, (VTermPos){row, col}, &cell);
        if (cell.chars[0] == (uint32_t)-1) continue; /* the second half of a wide character */
        for (int k = 0; k < VTERM_MAX_CHARS_PER_CELL && cell.chars[k]; k++) n += put_utf8(to + n, cell.chars[k]);
        if (!cell.chars[0]) to[n++] = ' ';
        if (to[n - 1] != ' ') end = n;
    }
    to[end] = '\0';
    return end;
}

const char *term_row(term *t, int row)
{
    put_row(t, row, t->text);
    return t->text;
}

const char *term_screen(term *t)
{
    size_t n = 0;
    for (int row = 0; row < t->rows; row++) {
        n += put_row(t, row, t->text + n);
        t->text[n++] = '\n';
    }
    t->text[n] = '\0';
    return t->text;
}

bool term_shows(term *t, const char *text)
{
    return strstr(term_screen(t), text) != NULL;
}

bool term_on_alternate(const term *t)
{
    return t->alternate;
}

bool term_cursor_visible(const term *t)
{
    return t->cursor;
}

bool term_canonical(const term *t)
{
    struct termios line;
    return !tcgetattr(t->fd, &line) && (line.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
}

bool term_has_colour(term *t)
{
    for (int row = 0; row < t->rows; row++)
        for (int col = 0; col < t->cols; col++) {
            VTermScreenCell cell;
            vterm_screen_get_cell(t->screen, (VTermPos){row, col}, &cell);
            if (!VTERM_COLOR_IS_DEFAULT_FG(&cell.fg) || !VTERM_COLOR_IS_DEFAULT_BG(&cell.bg)) return true;
        }
    return false;
}

bool term_row_stands_out(term *t, int row)
{
    for (int col = 0; col < t->cols; col++) {
        VTermScreenCell cell;
        vterm_screen_get_cell(t->screen, (VTermPos){row, col}, &cell);
        if (cell.attrs.reverse || !VTERM_COLOR_IS_DEFAULT_BG(&cell.bg)) return true;
    }
    return false;
}

bool term_sent(const term *t, const char *bytes)
{
    return strstr(t->osc, bytes) != NULL;
}

bool term_has_bytes_above_ascii(const term *t)
{
    return t->above_ascii;
}

/* ---- keys -----------------------------------------------------------------------------------------------------------
 */

static const struct {
    const char *name, *bytes, *console; /* console: what the Linux console sends, where that is something else */
} keys[] = {
    {"Space", " ", NULL},         {"Enter", "\r", NULL},         {"Tab", "\t", NULL},
    {"Esc", "\x1b", NULL},        {"Escape", "\x1b", NULL},      {"Up", "\x1bOA", "\x1b[A"},
    {"Down", "\x1bOB", "\x1b[B"}, {"Right", "\x1bOC", "\x1b[C"}, {"Left", "\x1bOD", "\x1b[D"},
    {"PgUp", "\x1b[5~", NULL},    {"PgDn", "\x1b[6~", NULL},     {"Home", "\x1bOH", "\x1b[1~"},
    {"End", "\x1bOF", "\x1b[4~"}, {"S-Tab", "\x1b[Z", "\x1b\t"}, {"F1", "\x1bOP", "\x1b[[A"},
    {"Backspace", "\x7f", NULL},  {"Delete", "\x1b[3~", NULL},   {"F2", "\x1bOQ", "\x1b[[B"},
};

static void send_bytes(term *t, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(t->fd, bytes, n);
        if (done < 0 && errno != EAGAIN) return;
        if (done < 0 && term_ended(t)) return; /* nobody reads any more */
        if (done > 0)
            bytes += done, n -= (size_t)done;
        else
            read_some(t, 5);
    }
}

static void send_key(term *t, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strlen(keys[i].name) != n || strncmp(keys[i].name, name, n) != 0) continue;
        const char *bytes = t->console && keys[i].console ? keys[i].console : keys[i].bytes;
        send_bytes(t, bytes, strlen(bytes));
        if (keys[i].bytes[0] == '\x1b' && !keys[i].bytes[1])
            term_rest(t, ESC_MS, 1000); /* alone, not the start of a sequence */
        return;
    }
    char control = (char)(n == 3 && name[0] == 'C' && name[1] == '-' ? name[2] - 'a' + 1 : 0);
    if (control)
        send_bytes(t, &control, 1);
    else
        send_bytes(t, name, n);
}

void term_keys(term *t, const char *p)
{
    while (*(p += strspn(p, " "))) {
        int cols, rows;
        size_t n = strcspn(p, " ");
        if (*p == '"') {
            n = strcspn(p + 1, "\"");
            send_bytes(t, p + 1, n);
            p += n + 2;
            continue;
        }
        if (!strncmp(p, "@wait", 5))
            term_rest(t, 150, 3000);
        else if (sscanf(p, "@%dx%d", &cols, &rows) == 2)
            term_resize(t, rows, cols);
        else
            send_key(t, p, n);
        p += n;
    }
}

bool term_click(term *t, const char *text, int limit_ms)
{
    if (!term_wait(t, text, limit_ms)) return false;
    for (int row = 0; row < t->rows; row++) {
        const char *line = term_row(t, row), *at = strstr(line, text);
        char press[64];
        int col = 1;
        if (!at) continue;
        for (const char *p = line; p < at; p++) col += (*p & 0xc0) != 0x80;
        int n = snprintf(press, sizeof press, "\x1b[<0;%d;%dM\x1b[<0;%d;%dm", col, row + 1, col, row + 1);
        send_bytes(t, press, (size_t)n);
        return true;
    }
    return false;
}

void term_resize(term *t, int rows, int cols)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    t->rows = rows;
    t->cols = cols;
    vterm_set_size(t->vt, rows, cols);
    ioctl(t->fd, TIOCSWINSZ, &size);
    term_rest(t, 100, 2000);
}

void term_claim(term *t, int rows, int cols)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    ioctl(t->fd, TIOCSWINSZ, &size);
}

pid_t term_pid(const term *t)
{
    return t->pid;
}

void term_signal(term *t, int number)
{
    kill(t->pid, number);
}

void term_hang_up(term *t)
{
    close(t->fd);
    t->fd = -1;
}

static int drop_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

void drop_tree(const char *folder)
{
    nftw(folder, drop_one, 16, FTW_DEPTH | FTW_PHYS);
}
