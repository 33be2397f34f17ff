/* Copies a recording's text without its figures. Needs the text alone; leaves JSON that is as sound as the text was
 * where it copied it. Values that go are passed over by their brackets, many times faster than they are read. */
#include "device/replay/head.h"

#include <string.h>

static const struct {
    const char *name;
    bool keys; /* stay, with empty objects for values */
} figures[] = {{"kernels", false}, {"groups", false}, {"plans", false}, {"peer_plans", true}};
enum { FIGURES = sizeof figures / sizeof *figures };

typedef struct {
    const char *at, *end;
    fb_str *out;
} skim;

static int figures_of(const char *name, size_t n)
{
    for (int i = 0; i < FIGURES; i++)
        if (strlen(figures[i].name) == n && memcmp(figures[i].name, name, n) == 0) return i;
    return -1;
}

bool fb_recording_is_figures(const char *section)
{
    return figures_of(section, strlen(section)) >= 0;
}

static char next_sign(skim *s)
{
    while (s->at < s->end && memchr(" \t\r\n", *s->at, 4)) s->at++;
    return s->at < s->end ? *s->at : '\0';
}

static bool take(skim *s, char sign)
{
    if (next_sign(s) != sign) return false;
    s->at++;
    return true;
}

/* Behind the quote that ends a text; `at` stands behind the one that begins it. */
static const char *past_text(const char *at, const char *end)
{
    for (; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : NULL;
}

/* Over one value; false where the text ends in it. */
static bool pass_value(skim *s)
{
    next_sign(s);
    const char *begin = s->at, *at = begin;
    int depth = 0;
    while (at && at < s->end) {
        char c = *at;
        if (!depth && at > begin && memchr(",}]", c, 3)) break; /* behind a number or a word */
        at++;
        if (c == '"') at = past_text(at, s->end);
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth < 0) return false;
        if (!depth && memchr("\"}]", c, 3)) break;
    }
    if (!at || at == begin || depth) return false;
    s->at = at;
    return true;
}

/* The object at hand, its members' values as `value` gives them. */
static bool each_member(skim *s, bool (*value)(skim *s, const char *key, size_t n))
{
    bool some = false;
    if (!take(s, '{')) return false;
    fb_str_add(s->out, "{");
    while (some || !take(s, '}')) {
        if (!take(s, '"')) return false;
        const char *key = s->at;
        s->at = past_text(key, s->end);
        if (!s->at) return s->at = s->end, false;
        size_t n = (size_t)(s->at - 1 - key);
        fb_str_add(s->out, some ? ",\"" : "\"");
        fb_str_add_n(s->out, key, n);
        fb_str_add(s->out, "\":");
        if (!take(s, ':') || !value(s, key, n)) return false;
        if (take(s, '}')) break;
        if (!take(s, ',')) return false;
        some = true;
    }
    fb_str_add(s->out, "}");
    return true;
}

static bool empty_value(skim *s, const char *key, size_t n)
{
    (void)key;
    (void)n;
    fb_str_add(s->out, "{}");
    return next_sign(s) == '{' && pass_value(s);
}

static bool top_value(skim *s, const char *key, size_t n)
{
    int figure = figures_of(key, n);
    if (figure >= 0) return figures[figure].keys ? each_member(s, empty_value) : empty_value(s, key, n);
    next_sign(s);
    const char *begin = s->at;
    if (!pass_value(s)) return false;
    fb_str_add_n(s->out, begin, (size_t)(s->at - begin));
    return true;
}

bool fb_recording_head(const char *text, size_t n, fb_str *out)
{
    skim s = {.at = text, .end = text + n, .out = out};
    return each_member(&s, top_value) && next_sign(&s) == '\0' && s.at == s.end;
}
