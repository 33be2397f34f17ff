/* Tables of text: aligned for people, or as CSV or Markdown. Cells are UTF-8; where the locale is not, signs are
 * spelled out. */
#ifndef FB_TUI_SHOW_TABLE_H
#define FB_TUI_SHOW_TABLE_H

#include "tui/show/html.h"

#include <stdbool.h>
#include <stdio.h>

typedef enum { FB_FORMAT_TABLE, FB_FORMAT_JSON, FB_FORMAT_CSV, FB_FORMAT_MARKDOWN } fb_format;

/* False for a name that is none of table, json, csv, markdown. */
bool fb_table_parse_format(const char *name, fb_format *out);

typedef struct fb_table fb_table;

fb_table *fb_table_new(void);
void fb_table_free(fb_table *t);
/* `under`: a second line of the heading, "" for none. Left-aligned columns hold names, the others figures. */
void fb_table_column(fb_table *t, const char *title, const char *under, bool left);
/* A sentence on the last column, which a page shows under the pointer. */
void fb_table_help(fb_table *t, const char *help);
void fb_table_row(fb_table *t);
/* The next cell of the last row; NULL is an empty one. */
void fb_table_cell(fb_table *t, const char *text);
void fb_table_cellf(fb_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A cell that takes the rest of its row. */
void fb_table_rest(fb_table *t, const char *text);

/* FB_FORMAT_JSON is not for tables. */
void fb_table_print(const fb_table *t, fb_format format, FILE *out);
/* As an element of a page. */
void fb_table_html(const fb_table *t, fb_html *h);

bool fb_show_utf8(void); /* does the locale show it? */
/* Prints text as this locale can show it. */
void fb_put(FILE *out, const char *text);
/* Text that is also read by programs (source, dot): every character that is fit for a screen stays as it is. Source
 * that goes to a file goes there byte by byte. */
void fb_put_plain(FILE *out, const char *text);
void fb_put_source(FILE *out, const char *text);

#endif
