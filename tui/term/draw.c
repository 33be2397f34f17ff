/* The only way onto the screen: clips, cleans and spells text, then hands it to curses. */
#include "tui/term/draw.h"

#include <ncurses.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

enum { MAX_TEXT = 2048 };

static struct {
    bool utf8;
    fb_ground ground;
    bool cursor;
    int cursor_y, cursor_x;
} now;

/* How what we write ourselves is spelled where there is only ASCII. Anything else becomes '?'. */
static const struct {
    wchar_t from;
    const char *to;
} spellings[] = {
    {L'─', "-"}, {L'│', "|"}, {L'╭', "+"},  {L'╮', "+"},  {L'╰', "+"},   {L'╯', "+"},  {L'├', "+"},  {L'┤', "+"},
    {L'┴', "+"}, {L'┬', "+"}, {L'┄', "."},  {L'┊', ":"},  {L'┃', "|"},   {L'┏', "+"},  {L'┗', "+"},  {L'╶', "-"},
    {L'µ', "u"}, {L'×', "x"}, {L'✓', "ok"}, {L'✗', "x"},  {L'▰', "#"},   {L'▱', "-"},  {L'▸', ">"},  {L'▾', "v"},
    {L'◂', "<"}, {L'●', "="}, {L'○', "-"},  {L'◐', "~"},  {L'…', "..."}, {L'·', "-"},  {L'→', "->"}, {L'←', "<-"},
    {L'↑', "^"}, {L'↓', "v"}, {L'–', "-"},  {L'—', "-"},  {L'≠', "!"},   {L'≤', "<="}, {L'≈', "="},  {L'≥', ">="},
    {L'²', "2"}, {L'█', "#"}, {L'▉', "#"},  {L'▊', "#"},  {L'▋', "#"},   {L'▌', "#"},  {L'▍', "#"},  {L'▎', "|"},
    {L'▏', "|"}, {L'▁', "_"}, {L'▂', "."},  {L'▃', "-"},  {L'▄', "="},   {L'▅', "+"},  {L'▆', "*"},  {L'▇', "#"},
    {L'↻', "@"}, {L'═', "="}, {L'║', "#"},  {L'╔', "#"},  {L'╗', "#"},   {L'╚', "#"},  {L'╝', "#"},  {L'◇', "*"},
    {L'◆', "*"}, {L'▪', "."}, {L'’', "'"},  {L'“', "\""}, {L'”', "\""},  {L'−', "-"},  {L'░', ":"},  {L'└', "+"},
    {L'╺', "-"},
};

void fb_draw_start(bool utf8)
{
    now.utf8 = utf8;
    now.ground = FB_GROUND_PLAIN;
}

void fb_draw_ground(fb_ground ground)
{
    now.ground = ground;
}

/* One character of valid UTF-8. */
static wchar_t decode(const char **at)
{
    const unsigned char *p = (const unsigned char *)*at;
    int more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : *p >= 0xc0 ? 1 : 0;
    wchar_t c = more == 3 ? *p & 0x07 : more == 2 ? *p & 0x0f : more == 1 ? *p & 0x1f : *p;
    p++;
    while (more-- > 0 && (*p & 0xc0) == 0x80) c = c << 6 | (*p++ & 0x3f);
    *at = (const char *)p;
    return c;
}

static const char *ascii_of(wchar_t c)
{
    enum { UPPER = 0x01 | 0x02 | 0x08 | 0x10 }; /* dots of a braille sign */
    if (c > 0x2800 && c <= 0x28ff) return !(c & UPPER) ? "." : !(c & 0xff & ~UPPER) ? "'" : ":";
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (spellings[i].from == c) return spellings[i].to;
    return "?";
}

/* Cleaned text as the characters to be put on the screen. Returns their number; `to` has room for MAX_TEXT. */
static int spell(const char *text, wchar_t *to)
{
    char clean[MAX_TEXT];
    int n = 0;
    fb_text_clean(clean, sizeof clean, text, strlen(text));
    for (const char *p = clean; *p && n < MAX_TEXT - 4;) {
        wchar_t c = decode(&p);
        if (c < 0x80 || (now.utf8 && wcwidth(c) >= 0)) {
            to[n++] = c;
        } else {
            for (const char *a = now.utf8 ? "?" : ascii_of(c); *a; a++) to[n++] = (wchar_t)*a;
        }
    }
    to[n] = 0;
    return n;
}

static int cells(wchar_t c)
{
    int w = c < 0x80 ? 1 : wcwidth(c);
    return w < 0 ? 1 : w;
}

static int width_of(const wchar_t *text, int n)
{
    int w = 0;
    for (int i = 0; i < n; i++) w += cells(text[i]);
    return w;
}

int fb_draw_text_width(const char *text)
{
    wchar_t wide[MAX_TEXT];
    return width_of(wide, spell(text, wide));
}

bool fb_draw_text_words(const char **text, int width, fb_str *out)
{
    const char *w = *text + strspn(*text, " \n");
    fb_str_clear(out);
    while (*w) {
        size_t n = strcspn(w, " \n"), before = out->n;
        fb_str_addf(out, "%s%.*s", before ? " " : "", (int)n, w);
        if (before && fb_draw_text_width(fb_str_get(out)) > width) {
            out->text[out->n = before] = '\0';
            break;
        }
        w += n + strspn(w + n, " \n");
    }
    *text = w;
    return out->n > 0;
}

static int put(const fb_rect *r, int y, int x, int limit, fb_role role, const wchar_t *text, int n)
{
    short pair;
    unsigned attrs = fb_theme_attrs(role, now.ground, &pair);
    if (limit > r->w) limit = r->w;
    int first = 0, at = x, last;
    while (first < n && at < 0) at += cells(text[first++]);
    int from = at;
    for (last = first; last < n && at + cells(text[last]) <= limit; last++) at += cells(text[last]);
    if (y < 0 || y >= r->h || last == first) return at;
    attr_set(attrs, pair, NULL);
    mvaddnwstr(r->y + y, r->x + from, text + first, last - first);
    attr_set(A_NORMAL, 0, NULL);
    return at;
}

int fb_draw(const fb_rect *r, int y, int x, fb_role role, const char *text)
{
    wchar_t wide[MAX_TEXT];
    return put(r, y, x, r->w, role, wide, spell(text, wide));
}

int fb_drawf(const fb_rect *r, int y, int x, fb_role role, const char *format, ...)
{
    char text[MAX_TEXT];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return fb_draw(r, y, x, role, text);
}

int fb_draw_cut(const fb_rect *r, int y, int x, int w, fb_role role, const char *text)
{
    wchar_t wide[MAX_TEXT], dots[8];
    int n = spell(text, wide);
    if (width_of(wide, n) <= w) return put(r, y, x, x + w, role, wide, n);
    int nd = spell("…", dots), wd = width_of(dots, nd), used = 0, keep = 0;
    while (keep < n && used + cells(wide[keep]) <= w - wd) used += cells(wide[keep++]);
    int at = put(r, y, x, x + w, role, wide, keep);
    return put(r, y, at, x + w, role, dots, nd);
}

int fb_draw_right(const fb_rect *r, int y, int right, fb_role role, const char *text)
{
    wchar_t wide[MAX_TEXT];
    int n = spell(text, wide), x = right - width_of(wide, n);
    put(r, y, x, right, role, wide, n);
    return x;
}

void fb_draw_blank(const fb_rect *r, int y)
{
    fb_draw_run(r, y, 0, r->w, FB_ROLE_TEXT, " ");
}

void fb_draw_run(const fb_rect *r, int y, int x, int n, fb_role role, const char *text)
{
    wchar_t one[8], many[MAX_TEXT];
    if (spell(text, one) < 1 || n <= 0) return;
    if (n > MAX_TEXT - 1) n = MAX_TEXT - 1;
    for (int i = 0; i < n; i++) many[i] = one[0];
    many[n] = 0;
    put(r, y, x, x + n, role, many, n);
}

void fb_draw_bar(const fb_rect *r, int y, int x, int w, fb_role role, double fraction)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    if (!(fraction > 0) || w <= 0) return;
    int parts = (int)(fraction * w * 8 + 0.5);
    if (parts < 1) parts = 1;
    if (parts > w * 8) parts = w * 8;
    fb_draw_run(r, y, x, parts / 8, role, "█");
    if (parts % 8) fb_draw(r, y, x + parts / 8, role, eighths[parts % 8]);
}

void fb_draw_cursor(const fb_rect *r, int y, int x)
{
    now.cursor = true;
    now.cursor_y = r->y + y;
    now.cursor_x = r->x + x;
}

void fb_draw_no_cursor(void)
{
    now.cursor = false;
}

void fb_draw_show(void)
{
    if (now.cursor) move(now.cursor_y, now.cursor_x);
    curs_set(now.cursor);
    refresh();
}

int fb_draw_wrapped(const fb_rect *r, int y, int x, int max_rows, fb_role role, const char *text)
{
    wchar_t wide[MAX_TEXT];
    int n = spell(text, wide), row = 0, from = 0, room = r->w - x;
    while (from < n && row < max_rows && room > 0) {
        int to = from, used = 0, space = -1;
        while (to < n && used + cells(wide[to]) <= room) {
            if (wide[to] == L' ') space = to;
            used += cells(wide[to++]);
        }
        bool last = row + 1 == max_rows, cut = to < n && last && room > 8;
        if (to < n && !last && space > from) to = space;
        if (cut) { /* no room for the rest: it ends after a whole word, and says so */
            wchar_t dots[8];
            int nd = spell("…", dots), wd = width_of(dots, nd);
            while (to > from && used > room - wd) used -= cells(wide[--to]);
            int at = to;
            while (at > from && wide[at] != L' ') at--;
            if (at > from) to = at;
            put(r, y + row, put(r, y + row, x, r->w, role, wide + from, to - from), r->w, role, dots, nd);
            return row + 1;
        }
        put(r, y + row++, x, r->w, role, wide + from, to - from);
        from = to;
        while (from < n && wide[from] == L' ') from++;
    }
    return row;
}
