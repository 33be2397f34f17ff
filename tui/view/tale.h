/* The tale of an edit, below the panes: what was done and the wall time before it at once, the prediction with it, the
 * measurement when it has come, and then where the difference lies, as a small waterfall. It stays until it was read,
 * which is the first key after its end. */
#ifndef FB_TUI_VIEW_TALE_H
#define FB_TUI_VIEW_TALE_H

#include "measure/why.h"
#include "tui/show/figure.h"
#include "tui/term/theme.h"
#include "tui/view/merge.h"

typedef struct fb_app fb_app;

typedef struct {
    bool told;      /* there is one */
    bool passed_by; /* a key was pressed since: it has the second line */
    fb_hash plan;   /* that the edit made: of another one nothing is told */
    fb_str what;    /* "fused tanh into stack (×16)" */
    fb_str more;    /* " · saves 1 launch, 33.6 MB": until the measurement tells */
    fb_role role;
    double before, guess; /* wall times, µs; NAN where not known */
    fb_figure_source kind;
    fb_str fall; /* of the measurement; "" before it */
    const fb_report *seen;
    fb_merge merge;
    int64_t next_ns; /* of its next step */
} fb_tale;

/* Before an edit in the column in focus, and after one that was done. */
void fb_tale_begin(fb_app *app);
void fb_tale_tell(fb_app *app, fb_role role, const char *what, const fb_verdict *v); /* v NULL: not known */
void fb_tale_key(fb_app *app);                                                       /* a key came */
void fb_tale_free(fb_tale *t);
/* What the two lines say; false: there is nothing to tell of this column and plan. */
typedef struct fb_hint fb_hint;
bool fb_tale_hint(fb_app *app, fb_hint *hint);
const fb_merge *fb_tale_merge(const fb_app *app); /* how the graph shows it; NULL likewise */
/* Milliseconds until its rows turn on, -1: they do not; and what is due by now. */
int fb_tale_wait(const fb_app *app);
void fb_tale_turn(fb_app *app);

/* ---- pure ---- */

/* " · wall 220 → ~146 → 112 µs": what is not known is left out, and a unit said once. */
void fb_tale_walls(double before, fb_figure_source kind, double guess, double after, fb_figure_source after_kind,
                   fb_str *out);
/* "launches -52.0 µs ██████  bytes -25.0 µs ███": the longest first, the rest last. */
void fb_tale_fall(const fb_why *why, fb_str *out);

#endif
