/* Families: what kind of kernel a nest is written as. The table of what each accepts is judge/family.c; accepting is
 * building the nest, and what a family accepts, code generation can write (a printer each, code/emit.c). */
#ifndef FB_SCHEDULE_FAMILY_H
#define FB_SCHEDULE_FAMILY_H

#include <stdbool.h>

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

#endif
