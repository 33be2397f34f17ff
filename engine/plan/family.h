/* Families: what one kernel may hold. One row each in plan/family.c (name, accepts → verdict, cost), and one row each
 * in codegen/emit.c (emit, a printer each). Accepting is building the nest: what a family accepts, code generation can
 * write. */
#ifndef FB_PLAN_FAMILY_H
#define FB_PLAN_FAMILY_H

#include "plan/machine.h"
#include "plan/nest.h"
#include "plan/verdict.h"

typedef enum {
    FB_FAMILY_POINTWISE,
    FB_FAMILY_REDUCE,
    FB_FAMILY_GEMM,
    FB_FAMILY_CHAIN,
    FB_FAMILY_SCAN,
    FB_FAMILY_LIBRARY,
    FB_FAMILY_COPY,
    FB_FAMILIES
} fb_family;

const char *fb_family_name(fb_family f);
bool fb_family_parse(const char *name, fb_family *out);

typedef enum {
    FB_KNOB_ROWS,    /* rows a block (host: rows a chunk of a thread's work) */
    FB_KNOB_VECTOR,  /* elements a thread moves at once (host: lanes of a vector) */
    FB_KNOB_THREADS, /* threads a block (host: of the team) */
    FB_KNOB_TILE_M,
    FB_KNOB_TILE_N,
    FB_KNOB_TILE_K,
    FB_KNOB_STAGES,
    FB_KNOB_SPLIT_K,
    FB_KNOB_GRID, /* blocks launched at most, each of which goes through several blocks' work */
    FB_KNOBS
} fb_knob;

const char *fb_knob_name(fb_knob k);
bool fb_knob_parse(const char *name, fb_knob *out);

typedef struct {
    int64_t value[FB_KNOBS]; /* 0: automatic */
} fb_knobs;

#endif
