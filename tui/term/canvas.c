/* Dots into braille cells, lines between points. Pure: leaves text. */
#include "tui/term/canvas.h"

#include <math.h>

fb_canvas *fb_canvas_new(fb_arena *arena, int w, int h)
{
    fb_canvas *c = FB_NEW(arena, fb_canvas);
    c->w = w > 0 ? w : 0;
    c->h = h > 0 ? h : 0;
    c->dots = FB_NEW_ARRAY(arena, unsigned char, c->w * c->h + 1);
    c->ink_of = FB_NEW_ARRAY(arena, short, c->w * c->h + 1);
    c->mark = FB_NEW_ARRAY(arena, char, c->w * c->h + 1);
    c->role = FB_NEW_ARRAY(arena, short, c->w * c->h + 1);
    return c;
}

static void set(fb_canvas *c, int px, int py)
{
    /* The bits of a braille sign, by column and row of the dot. */
    static const unsigned char bits[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
    if (px < 0 || py < 0 || px >= 2 * c->w || py >= 4 * c->h) return;
    c->dots[py / 4 * c->w + px / 2] |= bits[px % 2][py % 4];
    c->ink_of[py / 4 * c->w + px / 2] = c->ink;
}

static int column(const fb_canvas *c, double x)
{
    return (int)lround(x * (2 * c->w - 1));
}

static int row(const fb_canvas *c, double y)
{
    return (int)lround((1 - y) * (4 * c->h - 1));
}

static bool inside(double x, double y)
{
    return x >= 0 && x <= 1 && y >= 0 && y <= 1; /* false for what is no number */
}

void fb_canvas_dot(fb_canvas *c, double x, double y)
{
    if (inside(x, y)) set(c, column(c, x), row(c, y));
}

void fb_canvas_line(fb_canvas *c, double x0, double y0, double x1, double y1, bool dotted)
{
    int n = 2 * (2 * c->w + 4 * c->h);
    for (int i = 0; i <= n; i++) {
        double t = (double)i / n;
        if (!dotted || column(c, x0 + t * (x1 - x0)) % 4 == 0) fb_canvas_dot(c, x0 + t * (x1 - x0), y0 + t * (y1 - y0));
    }
}

void fb_canvas_mark(fb_canvas *c, double x, double y, char mark, int role, bool aside)
{
    static const struct {
        int dx, dy;
    } beside[] = {{0, 0}, {1, 0}, {-1, 0}, {0, -1}, {0, 1}, {1, -1}, {-1, 1}};
    if (!inside(x, y) || !c->w || !c->h) return;
    int cx = column(c, x) / 2, cy = row(c, y) / 4;
    for (size_t i = 0; i < (aside ? sizeof beside / sizeof *beside : 1); i++) {
        int mx = cx + beside[i].dx, my = cy + beside[i].dy;
        if (mx < 0 || my < 0 || mx >= c->w || my >= c->h || c->mark[my * c->w + mx]) continue;
        c->mark[my * c->w + mx] = mark;
        c->role[my * c->w + mx] = (short)role;
        return;
    }
}

const char *fb_canvas_cell(const fb_canvas *c, int x, int y, char to[4])
{
    unsigned bits = c->dots[y * c->w + x];
    to[0] = '\0';
    if (!bits) return to;
    to[0] = (char)0xe2; /* U+2800 + bits */
    to[1] = (char)(0xa0 | bits >> 6);
    to[2] = (char)(0x80 | (bits & 0x3f));
    to[3] = '\0';
    return to;
}
