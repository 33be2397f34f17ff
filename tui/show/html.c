/* Writing HTML: a stack of open elements over a string. */
#include "tui/show/html.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

void fb_html_free(fb_html *h)
{
    fb_str_free(&h->out);
    *h = (fb_html){0};
}

/* ---- text ---- */

void fb_xml_add(fb_str *out, const char *text)
{
    fb_str clean = {0};
    fb_str_add_clean(&clean, text, "\n\t"); /* XML has no other control characters, not even as entities */
    for (const char *p = fb_str_get(&clean);;) {
        size_t n = strcspn(p, "<>&\"'");
        fb_str_add_n(out, p, n);
        p += n;
        switch (*p) {
        case '<': fb_str_add(out, "&lt;"); break;
        case '>': fb_str_add(out, "&gt;"); break;
        case '&': fb_str_add(out, "&amp;"); break;
        case '"': fb_str_add(out, "&quot;"); break;
        case '\'': fb_str_add(out, "&#39;"); break;
        default: fb_str_free(&clean); return;
        }
        p++;
    }
}

void fb_html_text(fb_html *h, const char *text)
{
    fb_xml_add(&h->out, text);
}

void fb_html_textf(fb_html *h, const char *format, ...)
{
    fb_str text = {0};
    va_list ap;
    va_start(ap, format);
    fb_str_vaddf(&text, format, ap);
    va_end(ap);
    fb_html_text(h, fb_str_get(&text));
    fb_str_free(&text);
}

void fb_html_raw(fb_html *h, const char *markup)
{
    fb_str_add(&h->out, markup);
}

/* ---- elements ---- */

static void add_tag(fb_html *h, const char *name, va_list ap)
{
    fb_str_addf(&h->out, "<%s", name);
    for (const char *key; (key = va_arg(ap, const char *));) {
        const char *value = va_arg(ap, const char *);
        if (!value) continue;
        fb_str_addf(&h->out, " %s=\"", key);
        fb_xml_add(&h->out, value);
        fb_str_add(&h->out, "\"");
    }
    fb_str_add(&h->out, ">");
}

void fb_html_open(fb_html *h, const char *name, ...)
{
    va_list ap;
    va_start(ap, name);
    add_tag(h, name, ap);
    va_end(ap);
    assert(h->n < FB_HTML_DEEP);
    h->open[h->n++] = name;
}

void fb_html_void(fb_html *h, const char *name, ...)
{
    va_list ap;
    va_start(ap, name);
    add_tag(h, name, ap);
    va_end(ap);
}

/* A line ends where a block does: the page is read as text, too. */
static bool is_block(const char *name)
{
    static const char *const within[] = {"span", "b", "i", "code", "td", "th", "ins", "del", "dt", "summary"};
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (!strcmp(name, within[i])) return false;
    return true;
}

void fb_html_close(fb_html *h, const char *name)
{
    assert(h->n && !strcmp(h->open[h->n - 1], name));
    h->n--;
    fb_str_addf(&h->out, "</%s>%s", name, is_block(name) ? "\n" : "");
}

void fb_html_leaf(fb_html *h, const char *name, const char *class, const char *text)
{
    fb_html_open(h, name, "class", class, NULL);
    fb_html_text(h, text);
    fb_html_close(h, name);
}
