/* The families' rows: their names, as plan files, reports and the screen write them, and what others ask of them. */
#include "schedule/family.h"

#include "graph/op.h"

#include <string.h>

#define OF(class) (1u << FB_CLASS_##class)

static const fb_family_row rows[FB_FAMILIES] = {
    [FB_FAMILY_POINTWISE] = {.name = "pointwise",
                             .holds = "every element by itself",
                             .classes = OF(POINTWISE) | OF(JOIN) | OF(GATHER)},
    [FB_FAMILY_REDUCE] = {.name = "reduce",
                          .holds = "rows are reduced, and all of a row's work is done while it is at hand",
                          .sums = true,
                          .classes =
                              OF(POINTWISE) | OF(JOIN) | OF(GATHER) | OF(REDUCTION) | OF(SCAN) | OF(CONTRACTION)},
    [FB_FAMILY_GEMM] = {.name = "gemm",
                        .holds = "sums of products stay on chip until all that is made of them is stored",
                        .multiplies = true,
                        .classes = OF(POINTWISE) | OF(CONTRACTION),
                        .floats = true,
                        .grids = true},
    [FB_FAMILY_CHAIN] = {.name = "chain",
                         .holds = "what a contraction makes goes on to the next while its rows are at hand",
                         .lone = true,
                         .classes = OF(POINTWISE) | OF(CONTRACTION),
                         .floats = true},
    [FB_FAMILY_SCAN] = {.name = "scan", .holds = ""},
    [FB_FAMILY_LIBRARY] = {.name = "library",
                           .holds = "what follows a library call, on rows of its result that are still in the cache",
                           .calls = true,
                           .multiplies = true,
                           .classes = OF(POINTWISE) | OF(CONTRACTION),
                           .floats = true},
    [FB_FAMILY_COPY] = {.name = "copy",
                        .holds = "what no index arithmetic can stand for",
                        .classes = OF(JOIN) | OF(GATHER)},
};

const fb_family_row *fb_family_row_of(fb_family f)
{
    static const fb_family_row none = {.name = "none", .holds = ""};
    return f < FB_FAMILIES ? &rows[f] : &none;
}

const char *fb_family_name(fb_family f)
{
    return fb_family_row_of(f)->name;
}

bool fb_family_parse(const char *name, fb_family *out)
{
    for (int i = 0; i < FB_FAMILIES; ++i) {
        if (strcmp(rows[i].name, name) != 0) continue;
        *out = (fb_family)i;
        return true;
    }
    return false;
}
