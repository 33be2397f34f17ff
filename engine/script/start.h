/* Between the front's files of this module: the process's main function, and the reading of what a script says of
 * itself. */
#ifndef FB_SCRIPT_START_H
#define FB_SCRIPT_START_H

#include "script/script.h"

/* For fb_child_start: the script process from its first instruction. */
int fb_script_process(void *ctx, int in, int out);

/* fb_script_start with another process than that: for tests of what the front makes of one that obeys nothing. */
fb_script *fb_script_start_as(int (*process)(void *ctx, int in, int out), const char *path, const json_t *set,
                              fb_error *err);

/* The "script" message, checked. The caller frees; it keeps a reference to `message`. */
fb_script_info *fb_script_info_read(const json_t *message, const char *path, fb_error *err);

/* ---- info_lesson.c ---- */

/* The field "lesson" of a "script" message; arena-owned, but for params, which are the message's. NULL with the reason.
 */
const fb_lesson *fb_script_read_lesson(const json_t *json, fb_arena *arena, fb_error *err);

#endif
