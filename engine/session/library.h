/* What there is to open without knowing a path: the bundled scripts, and what was opened lately. */
#ifndef FB_SESSION_LIBRARY_H
#define FB_SESSION_LIBRARY_H

#include "base/arena.h"
#include "base/error.h"

#include <jansson.h>

/* A bundled script: it lives in the binary, and fb_script_start opens it by `path` where no file of that path is. */
typedef struct {
    const char *path;  /* "scripts/puzzlers/split_stack.lua" */
    const char *name;  /* "split_stack" */
    const char *kind;  /* "puzzlers", "models", "lessons" */
    const char *title; /* what it says of itself, else its name */
    const char *text;
    int order; /* of its puzzle; 0: none */
} fb_bundled;

/* All of them, puzzlers first and those in their order; arena-owned. */
int fb_bundled_list(fb_arena *arena, const fb_bundled **out);

/* The place of a script's puzzle, by its file name, among the bundled ones that have an order, from 1 on; 0 for another
 * script. The script of the next one in *next, NULL after the last. */
int fb_session_puzzle_place(const char *script_path, int *of, const char **next, fb_arena *arena);

/* The file to open for what a user typed: an existing file is itself; "split_stack", "puzzlers/split_stack" and
 * "scripts/puzzlers/split_stack.lua" find the bundled one. NULL with the nearest name in the error. Arena-owned. */
const char *fb_find_script(const char *typed, fb_arena *arena, fb_error *err);

const char *fb_find_bundled(const char *typed, fb_arena *arena, fb_error *err); /* of those alone */

/* What a lesson's page means by a script's name: a file in the lesson's folder, else a bundled script. */
const char *fb_session_lesson_script(const char *lesson, const char *name, fb_arena *arena, fb_error *err);

/* The text of a script as opened by its path: of the file, else of the bundled one. NULL when there is neither; the
 * caller frees with fb_free. */
char *fb_session_script_text(const char *path);

/* Files opened lately, the latest first, in $XDG_STATE_HOME/fusebox/recent; those that are gone are left out. */
int fb_recent_list(fb_arena *arena, const char ***out);
int fb_recent_parse(fb_arena *arena, char *text, const char ***out); /* the file's text, which is taken apart */
void fb_recent_add(const char *path); /* a list that cannot be written is no reason to fail */

/* $XDG_STATE_HOME/fusebox/NAME (else in ~/.local/state), its folder made if need be, for this user alone; false: there
 * is no place for it, or one that others may write to. */
bool fb_state_path(const char *name, char *to, size_t room);
bool fb_state_usable(fb_error *err);                        /* the same of the folder, with the reason */
bool fb_data_path(const char *name, char *to, size_t room); /* the same in $XDG_DATA_HOME (else ~/.local/share) */
/* Whether one of the text's lines is this one, whole. */
bool fb_state_has_line(const char *text, const char *line);
/* Appends the value as one line, in one write: several processes may append to one file. */
bool fb_append_line(const char *path, const json_t *value, fb_error *err);

#endif
