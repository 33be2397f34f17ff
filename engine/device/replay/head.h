/* The text of a recording without its figures, which are nearly all of it: what a list of devices needs, and each
 * command makes one. */
#ifndef FB_DEVICE_REPLAY_HEAD_H
#define FB_DEVICE_REPLAY_HEAD_H

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>

/* The sections (recording.h) that hold figures, and which of them one is; FB_FIGURES: none of them. */
typedef enum { FB_FIGURES_KERNELS, FB_FIGURES_GROUPS, FB_FIGURES_PLANS, FB_FIGURES_PEER_PLANS, FB_FIGURES } fb_figures;
fb_figures fb_recording_figures(const char *section);

/* Where each figure stands: pieces of the text, which has to stay. */
typedef struct {
    const char *key, *value;
    size_t n_key, n_value;
} fb_recording_place;
typedef struct {
    FB_VEC(fb_recording_place) in[FB_FIGURES]; /* by key */
} fb_recording_places;
void fb_recording_places_free(fb_recording_places *places);
/* NULL: it is not there. */
const fb_recording_place *fb_recording_place_of(const fb_recording_places *places, fb_figures section, const char *key);

/* Adds the text with those sections empty, but for what plans of peers are called; `places`, empty before or NULL, take
 * where their values stood. False for what is no JSON object as far as it looks, which is not far, for it counts
 * brackets; and for a key that is there twice. */
bool fb_recording_head(const char *text, size_t n, fb_str *out, fb_recording_places *places);

#endif
