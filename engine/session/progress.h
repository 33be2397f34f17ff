/* How far the user has come with the puzzles: a line an answer in $XDG_STATE_HOME/fusebox/progress.jsonl,
 *     {"puzzle":"split_stack","chosen":"bytes","answer":"launches","right":false,"guess":3,"times":6.2,"hints":1}
 * or {"puzzle":"split_stack","skipped":true}. Puzzles go by their script's file name without ".lua". */
#ifndef FB_SESSION_PROGRESS_H
#define FB_SESSION_PROGRESS_H

#include "base/arena.h"
#include "base/error.h"

#include <jansson.h>

typedef enum { FB_PUZZLE_NEW, FB_PUZZLE_SKIPPED, FB_PUZZLE_TRIED, FB_PUZZLE_DONE } fb_puzzle_state;

/* Of every puzzle that has a line, arena-owned. Lines that make no sense are left out. */
typedef struct {
    int n;
    struct {
        const char *name;
        fb_puzzle_state state; /* the furthest it ever came to */
    } * at;
} fb_puzzles;

void fb_puzzles_read(fb_arena *arena, fb_puzzles *out);
void fb_puzzles_parse(fb_arena *arena, const char *text, size_t n, fb_puzzles *out); /* the file's text */
fb_puzzle_state fb_puzzles_of(const fb_puzzles *p, const char *script_path);
/* A script's name as a puzzle: its file's without ".lua". */
void fb_session_puzzle_name(const char *script_path, char to[128]);
/* Adds the puzzle's name to the line (borrowed) and appends it; a file that cannot be written is no reason to fail. */
void fb_puzzles_add(const char *script_path, json_t *line);

#endif
