/* A figure is one value: quantity, unit and kind. The table is figures.def; what writes one stands here, and nothing
 * else does, so that the sign of its kind is never lost. */
#ifndef FB_TUI_SHOW_FIGURE_H
#define FB_TUI_SHOW_FIGURE_H

#include "session/session.h"

typedef enum {
#define FIGURE(ID, ...) FB_FIGURE_##ID,
#include "tui/show/figures.def"
#undef FIGURE
    FB_FIGURES
} fb_figure_id;

typedef enum {
    FB_UNIT_US,
    FB_UNIT_BYTES,
    FB_UNIT_COUNT,
    FB_UNIT_TIMES,
    FB_UNIT_REL,
    FB_UNIT_PLAIN,
    FB_UNIT_BYTE_RATE, /* bytes a second */
    FB_UNIT_FLOP_RATE,
} fb_unit;

typedef enum {
    FB_KIND_TIME,
    FB_KIND_COPIES,
    FB_KIND_MODEL,
    FB_KIND_BESIDE,
    FB_KIND_COUNTER,
    FB_KIND_NONE
} fb_figure_rule;

typedef struct {
    const char *key, *label, *heading, *under, *path[3], *help;
    fb_unit unit;
    fb_figure_rule rule;
} fb_figure_row;

extern const fb_figure_row fb_figures[FB_FIGURES];

/* "~" of a prediction, "≈" of what is composed, "" of what was measured or recorded. */
const char *fb_figure_sign(fb_figure_source kind);
/* "here and now, on this machine": what a kind is, for legends. */
const char *fb_figure_kind_help(fb_figure_source kind);
/* What kind the figure is where the column's times are of kind `times`: by its rule. What is no time has no sign. */
fb_figure_source fb_figure_kind_of(fb_figure_id id, fb_figure_source times);
/* Is the figure shown where the wall time is of kind `wall`? By its rule. */
bool fb_figure_stands(fb_figure_id id, fb_figure_source wall);
/* "~ stale", "stale": where what it was recorded of has changed since. Into `to`, returned. */
const char *fb_figure_stale(char to[16], fb_figure_source kind);
/* What the signs mean, in one line. */
extern const char fb_figure_legend[];

/* Three digits and a prefix: "4.28 T", "512 k", "1.00 ", for a unit to follow. Into `to`, returned. */
const char *fb_figure_prefixed(char to[32], double v);
/* With its sign: "~12.3 µs". "" for what is not known. Into `to`, returned. */
const char *fb_figure_write(char to[48], double value, fb_unit unit, fb_figure_source kind);
/* What B gained over A of a difference, which is as certain as the times it is of: "-2.1 µs", "~+79.6 µs" for a loss of
 * which one side is predicted. Into `to`, returned. */
const char *fb_figure_gain(char to[48], double us, fb_figure_source kind);
/* … of one part of it, with the sign of a prediction where the model told it: "~-2.1 µs". */
const char *fb_figure_part(char to[48], const fb_why *why, fb_why_id id);
/* "12.1–12.9 ms": both ends in the upper one's unit. "" where there is no spread, as of a prediction. */
const char *fb_figure_spread(char to[48], const fb_stat *s, fb_figure_source kind);

/* ---- of rows, which are reports in JSON ---- */

fb_figure_source fb_figure_kind(const json_t *row);       /* of its times; a row that says nothing: measured */
fb_figure_source fb_figure_floor_kind(const json_t *row); /* … of × floor: of a guessed floor, a prediction */
bool fb_figure_is_wrong(const json_t *row);               /* it was checked and found wrong: its times are no figures */
const json_t *fb_figure_value(const json_t *row, fb_figure_id id); /* borrowed; NULL: not known */
double fb_figure_number(const json_t *row, fb_figure_id id);       /* NAN: not known */
/* As written for people, by the table's unit and rule; `to` returned. */
const char *fb_figure_text(const json_t *row, fb_figure_id id, char to[48]);

/* Its kernels took longer than whole runs (measure/report.h): the device's time has a question mark. */
bool fb_figure_busy_above_wall(const json_t *row);
extern const char fb_figure_busy_help[]; /* what the question mark says */
/* The statistics that stand under `key` ("wall_us"); n is 0 where there are none. */
fb_stat fb_figure_stat(const json_t *row, const char *key);
/* Parameters that have one value in all rows, or (`varying`) those that have several: name → value in the first row.
 * The caller owns it. */
json_t *fb_figure_params(const json_t *rows, bool varying);
/* A parameter's value, or another figure of a script's, as text; the caller frees. */
char *fb_figure_plain(const json_t *value);

/* ---- of columns ---- */

/* What a plan's wall time is expected to be, `wall` being that of a plan near it: the model is trusted for the
 * difference that an edit makes, not for the whole. Never less than in proportion, nor more where an edit costs:
 * undone, it leads back. */
double fb_figure_anchored(double wall, double model_before, double model_after);
/* The column's wall time: its report's, else anchored at that of the plan before the last edit, else the model's. NAN
 * when there is none, or the calibration behind it is doubted. */
double fb_figure_column_wall(const fb_column *c, fb_figure_source *kind);
/* Are the cost model's times of its device worth showing? */
bool fb_figure_column_has_model(const fb_column *c);

#endif
