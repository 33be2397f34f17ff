/* HTML, written: the one place where text becomes part of a page. An element that is opened is closed by name, so that
 * none stays open, and text and attributes from outside stand for themselves: escaped, and without control characters.
 *
 *     fb_html h = {0};
 *     fb_html_open(&h, "td", "class", "bad", NULL);
 *     fb_html_text(&h, "a < b");
 *     fb_html_close(&h, "td");
 *     fputs(fb_str_get(&h.out), stdout);
 *     fb_html_free(&h);
 */
#ifndef FB_TUI_SHOW_HTML_H
#define FB_TUI_SHOW_HTML_H

#include "base/str.h"

enum { FB_HTML_DEEP = 24 };

/* A zeroed one is empty. Names of elements are constants. */
typedef struct {
    fb_str out;
    const char *open[FB_HTML_DEEP];
    int n;
} fb_html;

void fb_html_free(fb_html *h);

/* Attributes follow as name, value, …, NULL; one whose value is NULL is left out. */
void fb_html_open(fb_html *h, const char *name, ...) __attribute__((sentinel));
void fb_html_close(fb_html *h, const char *name); /* the last one that is open, and `name` is its name */
/* An element that has no end: meta, br. */
void fb_html_void(fb_html *h, const char *name, ...) __attribute__((sentinel));
/* One that holds text alone; `class`: NULL for none. */
void fb_html_leaf(fb_html *h, const char *name, const char *class, const char *text);

void fb_html_text(fb_html *h, const char *text);
void fb_html_textf(fb_html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Markup of our own: a style, a picture. */
void fb_html_raw(fb_html *h, const char *markup);

/* Text from outside as XML, for pictures too: escaped and cleaned. */
void fb_xml_add(fb_str *out, const char *text);

#endif
