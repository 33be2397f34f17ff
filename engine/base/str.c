/* Strings that grow, and the cleaning of texts from outside: control and bidi characters are replaced, bytes that
 * are no UTF-8 are not passed on. */
#include "base/str.h"

#include "base/mem.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void reserve(fb_str *s, size_t more)
{
    if (s->n + more + 1 <= s->room) return;
    size_t room = s->room ? s->room : 64;
    while (room < s->n + more + 1) room *= 2;
    s->text = fb_realloc(s->text, room);
    s->room = room;
}

void fb_str_add_n(fb_str *s, const char *bytes, size_t n)
{
    reserve(s, n);
    if (n) memcpy(s->text + s->n, bytes, n);
    s->n += n;
    s->text[s->n] = '\0';
}

void fb_str_add(fb_str *s, const char *text)
{
    fb_str_add_n(s, text, strlen(text));
}

void fb_str_vaddf(fb_str *s, const char *format, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    if (n > 0) {
        reserve(s, (size_t)n);
        vsnprintf(s->text + s->n, (size_t)n + 1, format, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

void fb_str_addf(fb_str *s, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_str_vaddf(s, format, ap);
    va_end(ap);
}

void fb_str_clear(fb_str *s)
{
    s->n = 0;
    if (s->text) s->text[0] = '\0';
}

void fb_str_free(fb_str *s)
{
    fb_free(s->text);
    *s = (fb_str){0};
}

char *fb_str_take(fb_str *s)
{
    char *text = s->text ? s->text : fb_strdup("");
    *s = (fb_str){0};
    return text;
}

const char *fb_str_get(const fb_str *s)
{
    return s->text ? s->text : "";
}

bool fb_str_is_name(const char *name)
{
    if (!name || !name[0]) return false;
    size_t n = 0;
    for (const char *p = name; *p; p++, n++) {
        bool letter = (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') || *p == '_';
        bool digit = *p >= '0' && *p <= '9';
        if (!(letter || (digit && p > name))) return false;
    }
    return n <= 64;
}

/* Decodes one code point; returns its length, or 0 when the bytes are not valid UTF-8. */
static size_t decode(const unsigned char *p, size_t n, uint32_t *cp)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = p[0] < 0x80                   ? 1
                 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                               : 0;
    if (!len || len > n) return 0;
    uint32_t c = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *cp = c;
    return len;
}

static bool shown(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return false;
    if (c == 0x061c || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f))
        return false;
    return c != 0xfeff;
}

const char *fb_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

size_t fb_text_next(const char *text, size_t n, uint32_t *code, bool *seen)
{
    *code = 0;
    size_t len = decode((const unsigned char *)text, n, code);
    *seen = len && shown(*code);
    return len ? len : 1;
}

bool fb_text_ends(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

void fb_text_clean(char *to, size_t room, const char *from, size_t n)
{
    size_t out = 0, len;
    if (!room) return;
    for (size_t i = 0; i < n; i += len) {
        uint32_t c;
        bool good;
        len = fb_text_next(from + i, n - i, &c, &good);
        size_t need = good ? len : 1;
        if (out + need >= room) break;
        if (good)
            memcpy(to + out, from + i, len);
        else
            to[out] = c == '\t' ? ' ' : '?';
        out += need;
    }
    to[out] = '\0';
}

bool fb_text_is_blank(const char *text)
{
    while (*text && ((unsigned char)*text <= ' ' || *text == 0x7f)) text++;
    return !*text;
}

void fb_str_add_clean(fb_str *s, const char *text, const char *kept)
{
    size_t n = strlen(text), len;
    fb_str_add_n(s, "", 0); /* terminated, even when nothing follows */
    for (size_t i = 0; i < n; i += len) {
        uint32_t c;
        bool good;
        len = fb_text_next(text + i, n - i, &c, &good);
        bool stays = good || (c && c < 0x20 && strchr(kept, (int)c));
        fb_str_add_n(s, stays ? text + i : c == '\t' ? " " : "?", stays ? len : 1);
    }
}

void fb_str_add_word(fb_str *s, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*word && !word[strspn(word, plain)]) {
        fb_str_add(s, word);
        return;
    }
    fb_str_add(s, "'");
    for (const char *p = word; *p; p++) fb_str_add_n(s, *p == '\'' ? "'\\''" : p, *p == '\'' ? 4 : 1);
    fb_str_add(s, "'");
}

const char *fb_format_us(char to[32], double us)
{
    double a = fabs(us);
    if (!isfinite(us))
        snprintf(to, 32, "-");
    else if (a >= 1e6)
        snprintf(to, 32, "%.2f s", us / 1e6);
    else if (a >= 1e4)
        snprintf(to, 32, "%.1f ms", us / 1e3);
    else if (a >= 1e3)
        snprintf(to, 32, "%.2f ms", us / 1e3);
    else if (a >= 100)
        snprintf(to, 32, "%.0f µs", us);
    else
        snprintf(to, 32, a >= 0.005 && a < 0.1 ? "%.2f µs" : "%.1f µs", us);
    return to;
}

const char *fb_format_bytes(char to[32], double bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;
    double v = bytes;
    while (fabs(v) >= 999.5 && u < 4) v /= 1000, u++;
    snprintf(to, 32, u == 0 || fabs(v) >= 100 ? "%.0f %s" : "%.1f %s", v, unit[u]);
    return to;
}

void fb_trim_partial(char *text)
{
    size_t n = strlen(text), back = 0;
    while (back < n && back < 3 && ((unsigned char)text[n - 1 - back] & 0xc0) == 0x80) back++;
    if (back == n) return;
    unsigned char lead = (unsigned char)text[n - 1 - back];
    size_t need = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    if (back < need) text[n - 1 - back] = '\0';
}
