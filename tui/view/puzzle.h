/* Inside the puzzle: its course (puzzle.c), its page as lines (puzzle_page.c), and the view of it (view_puzzle.c). What
 * the rest of the workbench calls stands in tui/view/ui.h. */
#ifndef FB_TUI_VIEW_PUZZLE_H
#define FB_TUI_VIEW_PUZZLE_H

#include "tui/view/ui.h"

/* ---- puzzle.c ---- */

/* The column that is meant by [VARIANT:]PLAN[@DEVICE]; FB_NONE. */
int fb_puzzle_column(const fb_app *app, const char *text);
const fb_column *fb_puzzle_absent(const fb_app *app); /* one of the two that cannot be had here; NULL */
/* What is compared: what the script says, or what stands in where that cannot be had here. */
typedef enum { FB_PUZZLE_AS_ASKED, FB_PUZZLE_OUR_OWN, FB_PUZZLE_RECORDED } fb_puzzle_stand_in;
void fb_puzzle_set_columns(fb_app *app, fb_puzzle_stand_in how);
/* What can be compared where the two that were asked for cannot; AS_ASKED: nothing. */
fb_puzzle_stand_in fb_puzzle_offered(const fb_app *app);
const char *fb_puzzle_recording(const fb_app *app); /* of another machine, by its device's name; NULL: there is none */
bool fb_puzzle_names_device(const fb_app *app);
void fb_puzzle_start(fb_app *app); /* measures both */
bool fb_puzzle_makes_right(const fb_app *app, int choice);
bool fb_puzzle_is_right(const fb_app *app);
int fb_puzzle_choices(const fb_app *app, int shown[64]);
void fb_puzzle_conclude(fb_app *app); /* from now on the answer is shown */

/* ---- puzzle_page.c ---- */

/* What a row of the cursor does. */
typedef enum {
    FB_PUZZLE_ROW_TASK, /* the first line: there the page begins */
    FB_PUZZLE_ROW_CHOICE,
    FB_PUZZLE_ROW_GUESS,
    FB_PUZZLE_ROW_RUN,
    FB_PUZZLE_ROW_SEE,
    FB_PUZZLE_ROW_HINT,
    FB_PUZZLE_ROW_OURS,
    FB_PUZZLE_ROW_WHY,
    FB_PUZZLE_ROW_AGAIN,
    FB_PUZZLE_ROW_WORKBENCH,
    FB_PUZZLE_ROW_NEXT,
    FB_PUZZLE_ROW_SKIP,
    FB_PUZZLE_ROW_LIST
} fb_puzzle_row_kind;

typedef struct {
    fb_puzzle_row_kind kind;
    int choice;
} fb_puzzle_row;

/* One line on the screen. */
typedef struct {
    char *text;
    const char *right; /* beside it, from the page's middle on; NULL: it has the whole line */
    fb_role role;
    int row;        /* the cursor's; FB_NONE */
    fb_why_id part; /* a bar of the waterfall behind the text; FB_WHY_NONE */
} fb_puzzle_line;

typedef struct {
    FB_VEC(fb_puzzle_row) rows;
    FB_VEC(fb_puzzle_line) lines;
    int width;
} fb_puzzle_page;

/* Made anew; width 0: as wide as before. */
fb_puzzle_page *fb_puzzle_page_now(fb_app *app, int width);
int fb_puzzle_page_middle(const fb_puzzle_page *p); /* the cell where the right half of a line begins */

#endif
