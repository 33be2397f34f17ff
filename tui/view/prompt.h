/* The line at the bottom where commands and texts are typed. */
#ifndef FB_TUI_VIEW_PROMPT_H
#define FB_TUI_VIEW_PROMPT_H

#include "base/str.h"
#include "base/vec.h"
#include "tui/term/layout.h"

typedef struct {
    char kind; /* 0: not open; ':' a command; '/' a text to find */
    fb_str text;
    size_t at;           /* bytes before the cursor */
    FB_VEC(char *) past; /* commands typed before, the latest last */
    int back;            /* how far we are in it */
    fb_str stem;         /* what was typed before going back: only commands that begin with it are shown */
} fb_prompt;

enum { FB_PROMPT_PAST = 100 };

typedef enum { FB_PROMPT_GOES_ON, FB_PROMPT_DONE, FB_PROMPT_LEFT } fb_prompt_end;

void fb_prompt_open(fb_prompt *p, char kind, const char *text);
void fb_prompt_close(fb_prompt *p, bool keep); /* keep: among those typed before */
void fb_prompt_free(fb_prompt *p);
void fb_prompt_remember(fb_prompt *p, const char *command); /* as the latest of those typed before */
/* What the key does to the line. Tab is not the prompt's. */
fb_prompt_end fb_prompt_key(fb_prompt *p, int key);
void fb_prompt_replace(fb_prompt *p, const char *text);
void fb_prompt_draw(const fb_prompt *p, const fb_rect *r, const char *ghost); /* ghost: dim text after it */

/* ---- past.c: across runs ---- */

void fb_past_read(fb_prompt *p);
int fb_past_parse(fb_prompt *p, char *text); /* the file's text, which is taken apart; how many lines it has */
void fb_past_add(const char *command);

#endif
