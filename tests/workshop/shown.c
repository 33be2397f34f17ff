/* The pane has a heading, a row a figure, and every column's cells end at the same place; the row of launches, which
 * has no blanks in its cells, tells where. */
#include "shown.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 100, COLS = 320 };

/* Characters, each in a cell. */
typedef struct {
    uint32_t at[COLS];
    int n;
} row;

static row rows[ROWS];
static int n_rows;

static void read_screen(const char *p)
{
    n_rows = 0;
    rows[0].n = 0;
    for (; *p && n_rows < ROWS; p++) {
        row *r = &rows[n_rows];
        unsigned char c = (unsigned char)*p;
        if (c == '\n') {
            if (++n_rows < ROWS) rows[n_rows].n = 0;
        } else if ((c & 0xc0) == 0x80) {
            if (r->n) r->at[r->n - 1] = r->at[r->n - 1] << 6 | (c & 0x3f);
        } else if (r->n < COLS) {
            r->at[r->n++] = c < 0x80 ? c : c < 0xe0 ? c & 0x1f : c < 0xf0 ? c & 0xf : c & 7;
        }
    }
}

static bool is_edge(uint32_t c)
{
    return c == L'│' || c == L'║';
}

/* Where the row's label begins, after the pane's edge; -1: not in this row. */
static int label_at(const row *r, const char *label)
{
    int n = (int)strlen(label);
    for (int i = 0; i + n + 2 < r->n; i++) {
        int k = 0;
        if (!is_edge(r->at[i]) || r->at[i + 1] != ' ') continue;
        while (k < n && r->at[i + 2 + k] == (unsigned char)label[k]) k++;
        if (k == n && r->at[i + 2 + n] == ' ') return i + 2;
    }
    return -1;
}

/* Cells from `from` to before `to`, blanks at both ends left out, as UTF-8. */
static void text_of(const row *r, int from, int to, char *out, size_t room)
{
    size_t n = 0;
    if (to > r->n) to = r->n;
    while (from < to && r->at[from] == ' ') from++;
    while (to > from && r->at[to - 1] == ' ') to--;
    for (int i = from; i < to && n + 5 < room; i++) {
        uint32_t c = r->at[i];
        if (c >= 0x800) {
            out[n++] = (char)(0xe0 | c >> 12);
            out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        } else if (c >= 0x80) {
            out[n++] = (char)(0xc0 | c >> 6);
        }
        out[n++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3f));
    }
    out[n] = '\0';
}

/* A figure as it was told; what is no figure is not known. */
static void figure_of(const row *r, int from, int to, char out[48])
{
    text_of(r, from, to, out, 48);
    line_undoubted(out);
    if (out[0] < '0' || out[0] > '9') out[0] = '\0';
}

typedef struct {
    const row *wall, *launches, *device, *moved, *heading;
    int label; /* where labels begin */
} pane;

static bool find_pane(pane *p)
{
    static const char *const labels[] = {"wall", "launches", "device busy", "moved modelled"};
    const row **to[] = {&p->wall, &p->launches, &p->device, &p->moved};
    *p = (pane){.label = -1};
    for (int i = 0; i < n_rows; i++)
        for (int k = 0; k < 4; k++) {
            int at = *to[k] ? -1 : label_at(&rows[i], labels[k]);
            if (at < 0 || (p->label >= 0 && at != p->label)) continue;
            p->label = at;
            *to[k] = &rows[i];
        }
    if (!p->wall || !p->launches || !p->device || !p->moved) return false;
    int top = (int)(p->wall - rows);
    while (top > 0 && is_edge(rows[top].at[p->label - 2])) top--;
    p->heading = &rows[top + 1];
    return p->heading + 2 <= p->wall;
}

/* "2 none ◂" */
static void plan_of(const char *heading, char to[32])
{
    char word[32];
    int number;
    *to = '\0';
    if (sscanf(heading, "%d %31s", &number, word) == 2) memcpy(to, word, sizeof word);
}

int shown_columns(const char *screen, shown_column out[SHOWN_COLUMNS])
{
    pane p;
    int n = 0;
    read_screen(screen);
    if (!find_pane(&p)) return 0;
    int from = p.label + (int)strlen("moved modelled");
    for (int i = from; i < p.launches->n && n < SHOWN_COLUMNS; i++) {
        bool last = p.launches->at[i] != ' ' && (i + 1 == p.launches->n || p.launches->at[i + 1] == ' ');
        if (is_edge(p.launches->at[i])) break;
        if (!last) continue;
        shown_column *c = &out[n];
        char heading[64];
        int to = i + 1;
        memset(c, 0, sizeof *c);
        figure_of(p.wall, from, to, c->f.wall);
        figure_of(p.launches, from, to, c->f.launches);
        figure_of(p.device, from, to, c->f.device);
        figure_of(p.moved, from, to, c->f.moved);
        text_of(p.heading, from + 2, to, heading, sizeof heading);
        plan_of(heading, c->plan);
        text_of(p.heading + 1, from + 2, to, c->variant, sizeof c->variant);
        from = to;
        if (c->f.wall[0]) n++;
    }
    return n;
}
