/* A lesson that is open: which page, what of it is shown, and the script that the page works with, opened afresh for
 * each page. Its course is lesson.c, its page as lines lesson_page.c, its views view_lesson.c and view_contents.c. */
#ifndef FB_TUI_VIEW_LESSON_H
#define FB_TUI_VIEW_LESSON_H

#include "base/hash.h"
#include "script/script.h"
#include "tui/view/command.h"
#include "tui/view/keys.h"

typedef struct fb_app fb_app;

typedef struct {
    fb_script_info *info; /* NULL: no lesson is open */
    char *path;
    int page;
    bool answers, notes; /* shown */
    fb_hash text;        /* of the lesson's file, as it was read last */
    fb_error broken;     /* the file as it was saved last is no lesson; the one before is shown */
    fb_error trouble;    /* of the page: what it names is not there */
    int top;             /* the first line shown */
    fb_keys *play;       /* the page's keys, being played; NULL: they are not */
    int64_t next_ns;     /* no key before */
    bool plays;          /* just now a key of them is pressed */
} fb_lesson_run;

/* ---- lesson.c ---- */

const fb_lesson *fb_lesson_of(const fb_app *app);       /* NULL: none is open */
const fb_lesson_page *fb_lesson_now(const fb_app *app); /* its page; NULL likewise */
void fb_lesson_loaded(fb_app *app);                     /* the script that was opened is a lesson */
void fb_lesson_go(fb_app *app, int page);               /* opens it, as if for the first time */
void fb_lesson_show(fb_app *app);                       /* its page, over whatever is shown */
void fb_lesson_leave(fb_app *app);                      /* another script is opened */
void fb_lesson_free(fb_app *app);

void fb_lesson_watch(fb_app *app);  /* the file, beside the page's script */
void fb_lesson_saved(fb_app *app);  /* some file was */
void fb_lesson_reload(fb_app *app); /* the same page of it */
void fb_lesson_follow(fb_app *app); /* the session changed */

bool fb_lesson_asks(const fb_app *app);   /* the page's puzzle is not answered yet, and its answer hidden */
bool fb_lesson_beside(const fb_app *app); /* there are columns to be shown beside the text */
void fb_lesson_answers(fb_app *app, bool show);

const char *fb_lesson_why_not(const fb_app *app, fb_cmd c); /* a key of the page has nothing to do; NULL: it has */

void fb_lesson_play(fb_app *app);
void fb_lesson_stop(fb_app *app, const char *why); /* says why; nothing where nothing is played */
int fb_lesson_wait(const fb_app *app);             /* milliseconds until the next key may come */
void fb_lesson_press(fb_app *app, int key);        /* one of them */
/* NULL, or why a key of a lesson may not do that: a lesson from elsewhere writes no file and starts no program. */
const char *fb_lesson_may_not(const fb_app *app, fb_cmd c, const char *arg);

#endif
