/* The text of a recording without its figures, which are nearly all of it: what a list of devices needs, and each
 * command makes one. */
#ifndef FB_DEVICE_REPLAY_HEAD_H
#define FB_DEVICE_REPLAY_HEAD_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether a section (recording.h) holds figures. */
bool fb_recording_is_figures(const char *section);
/* Adds the text with those sections empty, but for what plans of peers are called. False for what is no JSON object as
 * far as it looks, which is not far: it counts brackets. */
bool fb_recording_head(const char *text, size_t n, fb_str *out);

#endif
