/* The families' names, as plan files, reports and the screen write them. */
#include "schedule/family.h"

#include <string.h>

static const char *const family_name[FB_FAMILIES] = {
    [FB_FAMILY_POINTWISE] = "pointwise", [FB_FAMILY_REDUCE] = "reduce", [FB_FAMILY_GEMM] = "gemm",
    [FB_FAMILY_CHAIN] = "chain",         [FB_FAMILY_SCAN] = "scan",     [FB_FAMILY_LIBRARY] = "library",
    [FB_FAMILY_COPY] = "copy",
};

const char *fb_family_name(fb_family f)
{
    return f < FB_FAMILIES ? family_name[f] : "none";
}

bool fb_family_parse(const char *name, fb_family *out)
{
    for (int i = 0; i < FB_FAMILIES; ++i) {
        if (strcmp(family_name[i], name) != 0) continue;
        *out = (fb_family)i;
        return true;
    }
    return false;
}
