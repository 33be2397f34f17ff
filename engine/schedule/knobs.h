/* Knobs: what a user may set of a kernel's schedule. What is automatic follows from the nest and the machine. */
#ifndef FB_SCHEDULE_KNOBS_H
#define FB_SCHEDULE_KNOBS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    FB_KNOB_ROWS,    /* rows a block; of elements, lines or groups a thread (host: rows a chunk of a thread's work) */
    FB_KNOB_VECTOR,  /* elements a thread moves at once (host: lanes of a vector) */
    FB_KNOB_THREADS, /* threads a block (host: of the team) */
    FB_KNOB_TILE_M,
    FB_KNOB_TILE_N,
    FB_KNOB_TILE_K,
    FB_KNOB_STAGES,
    FB_KNOB_SPLIT_K,
    FB_KNOB_PARTS,   /* blocks that share a long row, or the index of an index_add */
    FB_KNOB_GRID,    /* blocks launched at most, each of which goes through several blocks' work */
    FB_KNOB_ATOMICS, /* 1: an index_add's points are added by atomic additions, in any order */
    FB_KNOBS
} fb_knob;

const char *fb_knob_name(fb_knob k);
bool fb_knob_parse(const char *name, fb_knob *out);

typedef struct {
    int64_t value[FB_KNOBS]; /* 0: automatic */
} fb_knobs;

/* Where knobs are asked for, NULL stands for these. */
extern const fb_knobs fb_knobs_automatic;

static inline int64_t fb_knob_of(const fb_knobs *knobs, fb_knob k)
{
    return knobs ? knobs->value[k] : 0;
}

struct fb_nest;
/* Stages of a pipeline, of which it has `stages` with these knobs (NULL: all automatic), where nobody asks for so many:
 * what `chosen` makes of the others (0: nothing, then it is `stages`). */
int fb_usual_stages(const struct fb_nest *nest, const fb_knobs *knobs, int stages,
                    int (*chosen)(const struct fb_nest *nest, const fb_knobs *knobs));

#endif
