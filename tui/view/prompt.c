/* The line for typing: editing, history of earlier lines, drawing. What was typed is the caller's to run. */
#include "tui/view/prompt.h"

#include "tui/term/draw.h"
#include "tui/view/command.h"

#include <string.h>
#include <wchar.h>

enum { MOST_TEXT = 1000, CTRL_A = 1, CTRL_E = 5, CTRL_U = 21, CTRL_W = 23, CTRL_C = 3 };

void fb_prompt_open(fb_prompt *p, char kind, const char *text)
{
    p->kind = kind;
    p->back = 0;
    fb_prompt_replace(p, text);
}

void fb_prompt_remember(fb_prompt *p, const char *command)
{
    if (p->past.n && !strcmp(p->past.at[p->past.n - 1], command)) return;
    if (p->past.n == FB_PROMPT_PAST) {
        fb_free(p->past.at[0]);
        memmove(p->past.at, p->past.at + 1, sizeof *p->past.at * (size_t)--p->past.n);
    }
    FB_VEC_PUSH(&p->past, fb_strdup(command));
}

void fb_prompt_close(fb_prompt *p, bool keep)
{
    const char *text = fb_str_get(&p->text);
    if (keep && p->kind == ':' && *text) {
        fb_prompt_remember(p, text);
        fb_past_add(text);
    }
    p->kind = 0;
}

void fb_prompt_free(fb_prompt *p)
{
    for (int i = 0; i < p->past.n; i++) fb_free(p->past.at[i]);
    FB_VEC_FREE(&p->past);
    fb_str_free(&p->stem);
    fb_str_free(&p->text);
}

void fb_prompt_replace(fb_prompt *p, const char *text)
{
    char *copy = fb_strdup(text); /* `text` may be our own */
    fb_str_clear(&p->text);
    fb_str_add(&p->text, copy);
    p->at = p->text.n;
    fb_free(copy);
}

static bool inside_character(const fb_prompt *p, size_t at)
{
    return at < p->text.n && ((unsigned char)p->text.text[at] & 0xc0) == 0x80;
}

static size_t before(const fb_prompt *p)
{
    size_t at = p->at;
    while (at && inside_character(p, --at)) continue;
    return at;
}

static size_t after(const fb_prompt *p)
{
    size_t at = p->at;
    if (at < p->text.n) at++;
    while (inside_character(p, at)) at++;
    return at;
}

static void erase(fb_prompt *p, size_t from, size_t to)
{
    if (from == to) return;
    memmove(p->text.text + from, p->text.text + to, p->text.n - to + 1);
    p->text.n -= to - from;
    p->at = from;
}

static void insert(fb_prompt *p, int key)
{
    char bytes[8];
    mbstate_t state = {0};
    size_t n = wcrtomb(bytes, (wchar_t)key, &state);
    if (n == (size_t)-1 || p->text.n + n > MOST_TEXT) return;
    fb_str tail = {0};
    fb_str_add(&tail, fb_str_get(&p->text) + p->at);
    p->text.n = p->at;
    fb_str_add_n(&p->text, bytes, n);
    p->at = p->text.n;
    fb_str_add(&p->text, fb_str_get(&tail));
    fb_str_free(&tail);
}

/* The next command before or after that begins with what was typed first. */
static void recall(fb_prompt *p, int step)
{
    int back = p->back + step;
    if (p->kind != ':') return;
    if (!p->back) {
        fb_str_clear(&p->stem);
        fb_str_add(&p->stem, fb_str_get(&p->text));
    }
    const char *stem = fb_str_get(&p->stem);
    while (back > 0 && back <= p->past.n && strncmp(p->past.at[p->past.n - back], stem, strlen(stem)) != 0)
        back += step;
    if (back < 0 || back > p->past.n) return;
    p->back = back;
    fb_prompt_replace(p, back ? p->past.at[p->past.n - back] : stem);
}

static size_t word_before(const fb_prompt *p)
{
    size_t at = p->at;
    while (at && p->text.text[at - 1] == ' ') at--;
    while (at && p->text.text[at - 1] != ' ') at--;
    return at;
}

fb_prompt_end fb_prompt_key(fb_prompt *p, int key)
{
    switch (key) {
    case FB_KEY_ENTER: return FB_PROMPT_DONE;
    case FB_KEY_ESC:
    case CTRL_C: return FB_PROMPT_LEFT;
    case FB_KEY_BACKSPACE:
        if (!p->text.n) return FB_PROMPT_LEFT;
        erase(p, before(p), p->at);
        break;
    case FB_KEY_DELETE: {
        size_t to = after(p);
        erase(p, p->at, to);
        break;
    }
    case FB_KEY_LEFT: p->at = before(p); break;
    case FB_KEY_RIGHT: p->at = after(p); break;
    case CTRL_A:
    case FB_KEY_HOME: p->at = 0; break;
    case CTRL_E:
    case FB_KEY_END: p->at = p->text.n; break;
    case CTRL_U: erase(p, 0, p->at); break;
    case CTRL_W: erase(p, word_before(p), p->at); break;
    case FB_KEY_UP: recall(p, 1); break;
    case FB_KEY_DOWN: recall(p, -1); break;
    default:
        if (key >= ' ' && key < FB_KEY_UP) insert(p, key);
        break;
    }
    return FB_PROMPT_GOES_ON;
}

void fb_prompt_draw(const fb_prompt *p, const fb_rect *r, const char *ghost)
{
    char sign[2] = {p->kind, '\0'};
    fb_str head = {0};
    fb_str_add_n(&head, fb_str_get(&p->text), p->at);
    int room = r->w - 2, width = fb_draw_text_width(fb_str_get(&head)), shift = width > room ? width - room : 0;
    fb_draw_blank(r, 0);
    int end = fb_draw(r, 0, 1 - shift, FB_ROLE_TEXT, fb_str_get(&p->text));
    fb_draw(r, 0, end, FB_ROLE_DIM, ghost);
    fb_draw(r, 0, 0, FB_ROLE_KEY, sign);
    fb_draw_cursor(r, 0, 1 + width - shift);
    fb_str_free(&head);
}
