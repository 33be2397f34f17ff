/* A waterfall as a picture: the first column's time, the parts of the difference, the second column's time. */
#include "tui/show/figure.h"
#include "tui/show/html.h"
#include "tui/show/picture.h"

#include <math.h>
#include <string.h>

enum { NAME = 230, BAR = 330, FIGURE = 96, SHARE = 64, LINE = 22, TALL = 14, WIDTH = NAME + BAR + FIGURE + SHARE };

static void draw_bar(fb_picture *p, const char *class, fb_why_span span)
{
    if (!span.n) return;
    fb_str_addf(&p->body, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"2\"/>", class,
                NAME + span.from, p->h + 4, span.n, TALL);
}

/* From one bar's end down to the next bar. */
static void draw_step(fb_picture *p, int x)
{
    fb_str_addf(&p->body, "<path class=\"axis\" d=\"M%d %dV%d\"/>", NAME + x, p->h + 4 + TALL, p->h + LINE + 4);
}

static void draw_whole(fb_picture *p, const fb_why *why, int which, const char *name)
{
    char text[48];
    double us = which ? why->b_us : why->a_us;
    fb_why_span span = fb_why_wall_bar(why, which, BAR);
    fb_picture_text(p, 0, p->h + 15, "strong", "start", NAME - 10, name);
    draw_bar(p, *fb_figure_sign(why->from[which]) ? "time guess" : "time", span);
    fb_picture_text(p, NAME + BAR + FIGURE - 8, p->h + 15, "strong", "end", 0,
                    fb_figure_write(text, us, FB_UNIT_US, why->from[which]));
    if (!which) draw_step(p, span.from + span.n);
    p->h += LINE;
}

/* What B gained, or lost; a part that the model alone knows has its sign. */
static void draw_part(fb_picture *p, const fb_why *why, fb_why_id id)
{
    const fb_why_part *part = &why->part[id];
    bool gain = part->us >= 0; /* B's, whichever of the two is faster */
    char us[48], text[64];
    fb_figure_source kind = fb_why_part_source(why, id);
    fb_str_add(&p->body, "<g>");
    fb_picture_hover(p, part->text);
    fb_picture_text(p, 12, p->h + 15, "", "start", 0, fb_why_name(id));
    if (part->known) {
        fb_why_span span = fb_why_bar(why, id, BAR);
        draw_bar(p, id == FB_WHY_REST ? "rest" : gain ? "gain" : "loss", span);
        if (span.n) draw_step(p, part->us > 0 ? span.from : span.from + span.n);
        fb_figure_write(us, fabs(part->us), FB_UNIT_US, FB_SOURCE_MEASURED);
        snprintf(text, sizeof text, "%s%s%s%s", fb_figure_sign(kind), *fb_figure_sign(kind) ? " " : "",
                 part->us > 0   ? "−"
                 : part->us < 0 ? "+"
                                : "",
                 us);
        fb_picture_text(p, NAME + BAR + FIGURE - 8, p->h + 15, "", "end", 0, text);
        if (!why->tie) { /* of no difference there are no shares */
            snprintf(text, sizeof text, "%.0f %%", fb_why_percent(why, id));
            fb_picture_text(p, WIDTH - 8, p->h + 15, "dim", "end", 0, text);
        }
    } else {
        fb_picture_text(p, NAME, p->h + 15, "dim", "start", 0, "not known");
    }
    fb_str_add(&p->body, "</g>\n");
    p->h += LINE;
}

void fb_picture_why(fb_picture *p, const fb_why *why, const char *first, const char *second)
{
    p->w = WIDTH;
    draw_whole(p, why, 0, first);
    for (int id = 0; id < FB_WHY_PARTS; id++)
        if (fb_why_matters(why, (fb_why_id)id)) draw_part(p, why, (fb_why_id)id);
    draw_whole(p, why, 1, second);
}
