/* The knobs' names, as plan files, commands and the screen write them; and a pipeline's stages without its knob. */
#include "schedule/knobs.h"

#include <string.h>

static const char *const knob_name[FB_KNOBS] = {
    [FB_KNOB_ROWS] = "rows",     [FB_KNOB_VECTOR] = "vector",   [FB_KNOB_THREADS] = "threads",
    [FB_KNOB_TILE_M] = "tile_m", [FB_KNOB_TILE_N] = "tile_n",   [FB_KNOB_TILE_K] = "tile_k",
    [FB_KNOB_STAGES] = "stages", [FB_KNOB_SPLIT_K] = "split_k", [FB_KNOB_PARTS] = "parts",
    [FB_KNOB_GRID] = "grid",     [FB_KNOB_ATOMICS] = "atomics",
};

const fb_knobs fb_knobs_automatic;

const char *fb_knob_name(fb_knob k)
{
    return knob_name[k];
}

bool fb_knob_parse(const char *name, fb_knob *out)
{
    for (int i = 0; i < FB_KNOBS; ++i) {
        if (strcmp(knob_name[i], name) != 0) continue;
        *out = (fb_knob)i;
        return true;
    }
    return false;
}

int fb_usual_stages(const struct fb_nest *nest, const fb_knobs *knobs, int stages,
                    int (*chosen)(const struct fb_nest *nest, const fb_knobs *knobs))
{
    if (!fb_knob_of(knobs, FB_KNOB_STAGES)) return stages;
    fb_knobs others = *knobs;
    others.value[FB_KNOB_STAGES] = 0;
    int usual = chosen(nest, &others);
    return usual ? usual : stages;
}
