/* Copies a recording's text without its figures. Needs the text alone; leaves JSON that is as sound as the text was
 * where it copied it. Values that go are passed over by their brackets, many times faster than they are read. */
#include "device/replay/head.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[FB_FIGURES] = {[FB_FIGURES_KERNELS] = "kernels",
                                              [FB_FIGURES_GROUPS] = "groups",
                                              [FB_FIGURES_PLANS] = "plans",
                                              [FB_FIGURES_PEER_PLANS] = "peer_plans"};

typedef struct {
    const char *at, *end;
    fb_str *out;
    fb_recording_places *places; /* may be NULL */
    fb_figures section;          /* whose values are passed over */
} skim;

static fb_figures figures_of(const char *name, size_t n)
{
    for (int i = 0; i < FB_FIGURES; i++)
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0) return (fb_figures)i;
    return FB_FIGURES;
}

fb_figures fb_recording_figures(const char *section)
{
    return figures_of(section, strlen(section));
}

static bool is_one_of(char c, const char *signs)
{
    return c && strchr(signs, c);
}

static char next_sign(skim *s)
{
    while (s->at < s->end && is_one_of(*s->at, " \t\r\n")) s->at++;
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
        if (!depth && at > begin && is_one_of(c, ",}]")) break; /* behind a number or a word */
        at++;
        if (c == '"') at = past_text(at, s->end);
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth < 0) return false;
        if (!depth && is_one_of(c, "\"}]")) break;
    }
    if (!at || at == begin || depth) return false;
    s->at = at;
    return true;
}

/* The object at hand, each member of which `member` takes from behind its colon. */
static bool each_member(skim *s, bool (*member)(skim *s, const char *key, size_t n))
{
    if (!take(s, '{')) return false;
    if (take(s, '}')) return true;
    do {
        if (!take(s, '"')) return false;
        const char *key = s->at, *after = past_text(key, s->end);
        if (!after) return false;
        s->at = after;
        if (!take(s, ':') || !member(s, key, (size_t)(after - 1 - key))) return false;
    } while (take(s, ','));
    return take(s, '}');
}

/* `"key":` in the object that is being written. */
static void add_key(fb_str *out, const char *key, size_t n)
{
    if (out->text[out->n - 1] != '{') fb_str_add(out, ",");
    fb_str_add(out, "\"");
    fb_str_add_n(out, key, n);
    fb_str_add(out, "\":");
}

static bool pass_figure(skim *s, const char *key, size_t n)
{
    next_sign(s);
    const char *value = s->at;
    if (!pass_value(s)) return false;
    if (s->places)
        FB_VEC_PUSH(&s->places->in[s->section], (fb_recording_place){key, value, n, (size_t)(s->at - value)});
    if (s->section != FB_FIGURES_PEER_PLANS) return true;
    add_key(s->out, key, n);
    fb_str_add(s->out, "{}");
    return true;
}

static bool top_member(skim *s, const char *key, size_t n)
{
    add_key(s->out, key, n);
    s->section = figures_of(key, n);
    if (s->section != FB_FIGURES) {
        fb_str_add(s->out, "{");
        bool ok = each_member(s, pass_figure);
        fb_str_add(s->out, "}");
        return ok;
    }
    next_sign(s);
    const char *value = s->at;
    if (!pass_value(s)) return false;
    fb_str_add_n(s->out, value, (size_t)(s->at - value));
    return true;
}

static int by_bytes(const char *a, size_t n, const char *b, size_t m)
{
    int order = memcmp(a, b, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

static int by_key(const void *a, const void *b)
{
    const fb_recording_place *x = a, *y = b;
    return by_bytes(x->key, x->n_key, y->key, y->n_key);
}

/* False where a key is there twice. */
static bool sort_places(fb_recording_places *places)
{
    for (int s = 0; s < FB_FIGURES; s++) {
        fb_recording_place *at = places->in[s].at;
        int n = places->in[s].n;
        if (n) qsort(at, (size_t)n, sizeof *at, by_key);
        for (int i = 1; i < n; i++)
            if (by_key(&at[i - 1], &at[i]) == 0) return false;
    }
    return true;
}

bool fb_recording_head(const char *text, size_t n, fb_str *out, fb_recording_places *places)
{
    skim s = {.at = text, .end = text + n, .out = out, .places = places};
    fb_str_add(out, "{");
    bool ok = each_member(&s, top_member) && next_sign(&s) == '\0' && s.at == s.end;
    fb_str_add(out, "}");
    return ok && (!places || sort_places(places));
}

const fb_recording_place *fb_recording_place_of(const fb_recording_places *places, fb_figures section, const char *key)
{
    const fb_recording_place *at = places->in[section].at, wanted = {.key = key, .n_key = strlen(key)};
    return at ? bsearch(&wanted, at, (size_t)places->in[section].n, sizeof *at, by_key) : NULL;
}

void fb_recording_places_free(fb_recording_places *places)
{
    for (int s = 0; s < FB_FIGURES; s++) FB_VEC_FREE(&places->in[s]);
}
