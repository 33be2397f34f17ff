/* Inside tui/: the application's state, and what a view is. */
#ifndef FB_TUI_VIEW_UI_H
#define FB_TUI_VIEW_UI_H

#include "session/session.h"
#include "tui/term/draw.h"
#include "tui/term/layout.h"
#include "tui/view/app.h"
#include "tui/view/command.h"
#include "tui/view/filter.h"
#include "tui/view/keep.h"
#include "tui/view/keys.h"
#include "tui/view/lesson.h"
#include "tui/view/marks.h"
#include "tui/view/prompt.h"
#include "tui/view/puzzle_code.h"
#include "tui/view/rail.h"
#include "tui/view/rows.h"
#include "tui/view/settings.h"
#include "tui/view/sweep.h"
#include "tui/view/tale.h"
#include "tui/view/tried.h"
#include "tui/view/verdicts.h"
#include "tui/view/watch.h"

typedef struct fb_app fb_app;

/* The first FB_PANES are the workbench's panes; the others are shown over them (views.def). */
typedef enum {
#define VIEW(id, name)            FB_VIEW_##id,
#define OPENED(id, name, command) FB_VIEW_##id,
#include "tui/view/views.def"
#undef VIEW
#undef OPENED
    FB_VIEWS,
    FB_VIEW_NONE = -1,
} fb_view_id;

/* Where a view's cursor is; kept in range by the app. */
typedef struct {
    int cursor, top, left;
} fb_scroll;

/* What the box under the panes says of the cursor. */
typedef struct fb_hint {
    fb_str title, line[2];
    fb_role role[2];
} fb_hint;

/* What a key does in a view of its own, where it is not what the table says: in the help first, and with a word or two
 * (`hint`, as in commands.def) in the bar. A list ends with FB_CMD_NONE. */
typedef struct {
    fb_cmd command;
    const char *hint, *help;
} fb_view_key;

typedef struct {
    int head; /* lines above the first row */
    void (*title)(fb_app *app, fb_str *out);
    int (*count)(fb_app *app); /* rows that the cursor moves through */
    void (*draw)(fb_app *app, const fb_rect *r, bool focused);
    void (*text)(fb_app *app, int row, fb_str *out); /* what find looks at; NULL: nothing to find */
    void (*explain)(fb_app *app, fb_hint *hint);     /* NULL: nothing to say */
    /* The view's own way with a command. False: not its business. */
    bool (*command)(fb_app *app, fb_cmd c, const char *arg);
    /* A key before it is any command's, as digits that are typed into a row. False: it is none of the view's. */
    bool (*key)(fb_app *app, int key);
    bool (*find)(fb_app *app, const char *text, int step); /* NULL: the rows' texts are searched */
    bool (*holds)(fb_app *app, int row, const char *text); /* NULL: the row's text decides */
    /* The row at that place of its rectangle, for views whose rows are not lines one below the other; -1: none. */
    int (*row_at)(fb_app *app, int y, int x);
    void (*yank)(fb_app *app, fb_str *out); /* what is copied; NULL: the row's text */
    void (*moved)(fb_app *app);             /* the cursor was put on another row; may be NULL */
    void (*opened)(fb_app *app);            /* shown from now on; may be NULL */
    const fb_view_key *keys;                /* its own; NULL: none */
    int beside;                             /* cells it needs to have the graph beside it; 0: it wants none */
    const char *about;                      /* what one looks at, in plain words; a paragraph a line */
} fb_view;

#define VIEW(id, name)            extern const fb_view fb_view_##name;
#define OPENED(id, name, command) extern const fb_view fb_view_##name;
#include "tui/view/views.def"
#undef VIEW
#undef OPENED
const fb_view *fb_view_at(fb_view_id id);
/* What the command does in a view over the panes, where that is the view's own; else NULL. */
const fb_view_key *fb_view_key_of(fb_view_id id, fb_cmd c);

/* One line of the kernel list: all kernels of one letter. */
typedef struct {
    int letter; /* FB_NONE: the device plans for itself */
    int group;  /* the first; FB_NONE likewise */
    char *name;
    const char *family;
    int64_t count;    /* launches a run */
    double us, bytes; /* of all of them; NAN unknown */
    double p10, p90;
    double read, written, flops;
    bool measured;           /* us */
    fb_figure_source source; /* of us, where it is measured or recorded */
} fb_kernel_line;

typedef struct {
    const fb_plan *plan;
    fb_hash plan_hash;
    double predicted_us;
    const fb_report *report;
    int n_kernels;
} fb_kernels_key;

/* A kernel of the report, and which part of it a line gets. */
typedef struct {
    int kernel, letter;
    double share;
} fb_kernel_share;

/* What is drawn of the column that has the focus, made anew when the session says that something changed. */
typedef struct {
    const fb_column *column; /* NULL: there is none */
    fb_hash graph_hash, plan_hash;
    fb_outline *outline; /* NULL until there is a graph */
    fb_letters letters;
    const fb_theirs *theirs_of; /* what the next was made from, and whose it is */
    const fb_column *theirs_column;
    FB_VEC(int) theirs; /* of a framework's column: each node's kernel; empty: not known */
    fb_rows rows;
    FB_VEC(fb_kernel_line) kernels;
    fb_kernels_key kernels_key; /* what they were made from */
    FB_VEC(fb_kernel_share) shares;
    fb_stat first_us, last_us; /* times of the report's first and last kernel that they show */
    bool kernels_made;
    double own_us, own_bytes;   /* their longest bars */
    double most_us, most_bytes; /* the longest of any column */
} fb_model;

/* What the view SOURCE shows, in the order in which Tab goes through them. */
typedef enum {
    FB_SOURCE_GENERATED,
    FB_SOURCE_PTX,
    FB_SOURCE_SASS,
    FB_SOURCE_RESOURCES,
    FB_SOURCE_DIFF,
    FB_SOURCE_LUA,
    FB_SOURCE_KINDS
} fb_source_kind;

/* A plan in a plot. */
typedef struct {
    const char *name;
    double bytes, us, flops;
    int column;            /* -1: none of those on the screen */
    fb_figure_source kind; /* of its time */
    bool elsewhere;        /* on another device than the one whose limits are drawn */
} fb_point;

typedef enum {
    FB_PUZZLE_NONE,
    FB_PUZZLE_PREDICT,
    FB_PUZZLE_RUNS,
    FB_PUZZLE_STUCK,  /* the columns cannot be compared: error says why */
    FB_PUZZLE_TURNED, /* measured, and the question is of something that is not so: the opposite is asked */
    FB_PUZZLE_ANSWERED,
} fb_puzzle_stage;

/* Where the user is with the script's puzzle. */
typedef struct {
    fb_puzzle_stage stage;
    bool secret;   /* never answered, so `best` and the answer are hidden */
    int choice;    /* FB_NONE: not yet */
    double guess;  /* times as fast; 0: not yet */
    char typed[8]; /* … as typed; "": chosen from a list */
    int hints;
    char *spec[2];    /* the columns compared */
    bool asked, held; /* held: measuring by itself is off until there is a prediction */
    fb_why why;
    fb_grade grade; /* from FB_PUZZLE_TURNED on */
    fb_error error;
    fb_hash asks; /* of all that the script says of it */
    fb_puzzle_code code;
    int place, of; /* among the bundled ones; place 0: it is none of them */
    char *next;    /* the script of the one after it; NULL: there is none */
    int top;       /* the first line shown, while `paged` */
    bool paged;    /* PgUp and PgDn move the page, until the cursor moves again */
} fb_puzzle_run;

enum { FB_MOST_ROWS = 40, FB_BAR_KEYS = 32 };

/* A key of the bar, and the cells where it stands. */
typedef struct {
    fb_cmd command;
    int from, to;
} fb_bar_key;

struct fb_app {
    fb_session *session;
    uint64_t serial;
    char *path;     /* of the script; NULL: none was asked for */
    uint64_t loads; /* of the session's script, as last seen */
    bool columns_made, first_measured;
    const char *const *asked; /* columns named on the command line, for the script opened with them */
    int n_asked;
    bool settled;     /* all that was measured first has come or failed */
    bool chosen;      /* the user went to a column */
    bool placed;      /* the graph's cursor was put where something can be done */
    char reason[200]; /* fb_app_why_not */

    int column;        /* the one that has the focus */
    json_t *dropped;   /* columns, the last one dropped at the end: tui/view/keep.h; NULL: none */
    bool dropped_last; /* since then nothing was edited: undo brings it back */
    bool touched;      /* the columns are no longer those that the script gave */
    bool params_set;   /* by hand, since the script was opened */
    bool own_columns;  /* those that the script gave, and their devices were not looked at yet */
    bool leaving;      /* told that they cannot be kept */
    fb_model model;
    fb_verdicts *verdicts;
    int edge; /* of the graph view's row */
    fb_rail rail;
    fb_marks marks;

    fb_layout layout;
    fb_view_id focus;          /* a pane */
    fb_view_id over[FB_VIEWS]; /* shown over the panes, the last on top */
    int n_over;
    fb_scroll scroll[FB_VIEWS];
    bool zoomed, more;
    bool hidden_row[FB_MOST_ROWS]; /* of the columns pane */
    int failed;                    /* columns that had failed when that was last looked at */
    bool error_shown;              /* the script's present error was brought up */
    int against;                   /* the column that the view WHY compares with … */
    bool against_first;            /* … and from which the bars fall, whatever its number */
    bool from_list;                /* the script was chosen from the list */
    bool puzzle_wanted;            /* the script that is being opened is to begin with its puzzle */
    fb_puzzle_run puzzle;
    fb_lesson_run lesson;

    fb_steps *steps; /* the record that the view STEPS shows; NULL: none */
    fb_tried *tried;
    struct {
        char *path; /* NULL: the history */
        int sort;
        bool down;
        char filter[128];
    } results;
    struct { /* a case of a results file that is being opened; spec NULL: none */
        char *spec;
        json_t *params;
    } reopen;
    fb_tale tale;   /* of the last edit */
    fb_sweep sweep; /* the script's experiment */
    int plot_mode;
    int timeline_zoom;
    fb_source_kind source_kind; /* what the view SOURCE is to show */

    fb_settings settings;
    fb_watch *watch; /* the script and the user's kernels being saved; NULL: nothing is watched */
    struct {         /* a kernel that may not run yet */
        bool asked;
        char hash[65], refused[65]; /* of the one asked about; of the last that was refused */
        fb_str question;            /* stays until it is answered */
    } trust;

    fb_prompt prompt;
    fb_hint hint; /* of the frame that is drawn */
    struct {
        int n;
        fb_bar_key at[FB_BAR_KEYS];
    } bar;
    fb_keys *keys; /* being played; NULL: none */
    char find[128];
    fb_filter filter; /* while a text to find is typed */
    fb_str message;   /* on the hint's first line until the next key */
    fb_role message_role;
    fb_arena *arena[FB_VIEWS]; /* what views keep for themselves: fb_view_state */
    void *state[FB_VIEWS];

    bool by_prompt; /* the command that runs was typed */
    bool dirty, quit;
    bool answers; /* a key was read since the last frame */
    int died_of;  /* the signal that ends us, 0: none */
};

/* ---- app.c ---- */

fb_view_id fb_app_view(const fb_app *app); /* the one that has the keys */
void fb_app_show(fb_app *app, fb_view_id id);
bool fb_app_hide(fb_app *app); /* false: nothing lies over the panes */
void fb_app_run(fb_app *app, fb_cmd c, const char *arg);
/* NULL: the command works now; else the reason why not. */
const char *fb_app_why_not(fb_app *app, fb_cmd c);
/* Why the focused column, which there is, has no plan of ours. */
const char *fb_app_why_no_plan(fb_app *app);
void fb_app_say(fb_app *app, fb_role role, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool fb_app_open(fb_app *app, const char *path); /* false: it said why not, and what was open stays */
/* A lesson's page: its script with these parameters; false with the reason. And none. */
bool fb_app_open_page(fb_app *app, const char *path, const json_t *params, fb_error *err);
void fb_app_close(fb_app *app);
void fb_app_key(fb_app *app, int key);

/* New, zeroed state for a view, in app->state and an arena of its own, app->arena; what was there before is freed. */
void *fb_view_state(fb_app *app, fb_view_id id, size_t bytes);

/* ---- first.c ---- */

void fb_first_columns(fb_app *app, const fb_script_info *info); /* the script has answered for the first time */
void fb_first_measure(fb_app *app);                             /* once all are built */
void fb_first_settle(fb_app *app);                              /* what a recording turns out not to hold is left out */
void fb_app_fresh_columns(fb_app *app);                         /* those that the script gives, and nothing kept */

/* ---- mouse.c ---- */

void fb_mouse(fb_app *app); /* what the mouse did: KEY_MOUSE came */

/* ---- actions.c, line.c: commands that are no view's own; the prompt ---- */

void fb_action(fb_app *app, fb_cmd c, const char *arg);
void fb_line_key(fb_app *app, int key); /* a key while the prompt is open */
void fb_line_run(fb_app *app, const char *line);
void fb_line_complete(fb_app *app);       /* as far as all words agree that fit; shows them when there are several */
const char *fb_line_ghost(fb_app *app);   /* what the typed command takes, for drawing behind it */
void fb_view_find(fb_app *app, int step); /* the next row that holds app->find, from the cursor; step 0 begins at it */

/* ---- filter.c ---- */

void fb_filter_begin(fb_app *app); /* a text to find will be typed in the view that has the keys */
void fb_filter_type(fb_app *app, const char *text);
bool fb_filter_move(fb_app *app, int key); /* whether the key chose another of the rows */
/* Back to where the cursor was, unless a row was chosen and is kept; whether one was. */
bool fb_filter_ended(fb_app *app, bool keep);
void fb_filter_fit(fb_app *app, fb_view_id id, int h); /* before its rows are drawn in `h` lines */
/* The row of the view's `n` that stands in line `y` of its list; FB_NONE: none does. */
int fb_shown_row(const fb_app *app, fb_view_id id, int y, int n);
bool fb_filter_shows(const fb_app *app, fb_view_id id, int row); /* for views whose rows are no list of lines */
const char *fb_filter_says(const fb_app *app, char to[64]);      /* how many rows are left */

/* ---- view_steps.c ---- */

/* What the decision under the cursor is about, where decisions are shown; either may be FB_NONE. */
bool fb_view_steps_nodes(fb_app *app, fb_id nodes[2]);

/* ---- view_values.c ---- */

void fb_view_show_values(fb_app *app, const char *node); /* "": of the row under the graph's cursor */
void fb_view_follow_values(fb_app *app); /* before a frame: asks once the column is free, takes what came */

/* ---- yank.c ---- */

void fb_yank(fb_app *app, const char *path); /* what is under the cursor; path "": the clipboard and a file of ours */

/* ---- export.c ---- */

void fb_view_export(fb_app *app, const char *path); /* the columns' figures; says how it went */

/* ---- model.c ---- */

void fb_model_update(fb_app *app); /* after the session changed, or another column has the focus */
void fb_model_refold(fb_app *app); /* after a fold changed */
void fb_model_free(fb_model *m);
/* The row under the graph view's cursor, its edges and the chosen one; NULL where there is none. */
const fb_theirs *fb_model_theirs(const fb_app *app);
const fb_row *fb_model_row(fb_app *app);
const fb_row_edge *fb_model_edge(fb_app *app, int *n);
void fb_model_go(fb_app *app, fb_id node); /* the graph view's cursor to where the node is to be seen */
fb_id fb_model_node(fb_app *app);          /* the node under the cursor, FB_NONE on a scope */

/* ---- puzzle.c ---- */

void fb_puzzle_columns(fb_app *app);  /* the two that it compares are there, where it is shown */
void fb_puzzle_begin(fb_app *app);    /* the script has answered for the first time */
void fb_puzzle_reloaded(fb_app *app); /* the same script has answered again */
void fb_puzzle_follow(fb_app *app);   /* the session changed */
void fb_puzzle_free(fb_app *app);
void fb_puzzle_forget(fb_app *app);               /* what is drawn */
const fb_puzzle *fb_puzzle_of(const fb_app *app); /* NULL: the script asks none */
void fb_puzzle_hold(fb_app *app, bool on);        /* nothing is measured by itself before there is a prediction */
bool fb_puzzle_waits(const fb_app *app);          /* for a prediction: nothing is measured before */
bool fb_puzzle_hides(const fb_app *app, const char *spec); /* a column that would tell too much */

/* ---- view_graph.c ---- */

/* "feature[1].tanh = tanh(mul_2)  f32[1024,256]  1.0 MB  line 26" */
void fb_view_node_text(const fb_graph *g, fb_id id, fb_str *out);

/* ---- view_source.c ---- */

/* A line of source drawn, with comments and keywords told apart: returns whether a comment (`comment`: the line begins
 * in one) goes on in the next. */
bool fb_view_draw_code(const fb_rect *r, int y, int x, const char *line, bool comment);
int fb_source_group(fb_app *app);  /* of the kernel under the cursor; FB_NONE */
fb_id fb_source_node(fb_app *app); /* of the line under the cursor; FB_NONE */
int fb_source_fd(fb_app *app);     /* of what makes its text, to be polled; -1: nothing does */
void fb_source_pump(fb_app *app);

/* ---- eject.c ---- */

void fb_view_eject(fb_app *app,
                   const char *arg);     /* takes the kernel under the cursor over, and opens it in the editor */
void fb_view_watch_kernels(fb_app *app); /* all files that columns name, for being saved */
void fb_view_kernels_saved(fb_app *app); /* some may have been */
void fb_trust_follow(fb_app *app);       /* the session changed: asks for what may not run */
bool fb_trust_key(fb_app *app, int key); /* whether the key was the answer */

/* ---- view_results.c ---- */

void fb_view_results_reopened(fb_app *app);                               /* the script of a case has answered */
int fb_view_results_points(fb_app *app, fb_arena *arena, fb_point **out); /* those that pass the filter */

/* ---- frame.c, hint.c, bar.c ---- */

void fb_frame_draw(fb_app *app); /* lines and titles, header */
/* Makes the frame's hint; the lines that its first sentence takes on a screen that wide. */
int fb_hint_make(fb_app *app, int cols);
void fb_hint_draw(fb_app *app); /* hint box, and bar or prompt */
void fb_hint_free(fb_app *app);
void fb_bar_draw(fb_app *app);
bool fb_bar_click(fb_app *app, int x); /* false: no key stands there */
/* "fuse tanh into stack (×16)", or "fused …" once it is done, and what it brings where a verdict is given. */
void fb_savings_text(const fb_verdict *v, fb_str *out); /* " · saves 1 launch, ~33.6 MB" */
void fb_toggle_text(fb_app *app, const fb_row_edge *e, bool done, const fb_verdict *v, fb_str *out);

/* The figure of a column in the row under the columns pane's cursor; NAN: none. */
double fb_columns_value(fb_app *app, int column);
const char *fb_columns_row_name(fb_app *app);
/* Lines that the columns pane needs above its rows. */
int fb_columns_head(const fb_app *app);
/* Cells it wishes for on a screen that wide: all columns with room to spare, or as many as can be shown. */
int fb_columns_wish(const fb_app *app, int cols);

/* ---- for views ---- */

/* Moves a cursor over `count` rows; false: the command moves no cursor. */
bool fb_scroll_command(fb_scroll *s, int count, int page, fb_cmd c);
/* Brings the cursor into range and into sight of `h` lines. */
void fb_scroll_fit(fb_scroll *s, int count, int h);
/* Sets the ground for row `row` of view `id` and blanks its line when it is the cursor's. Returns true for the cursor.
 */
bool fb_row_ground(fb_app *app, fb_view_id id, const fb_rect *r, int y, int row, bool focused);

#endif
