/* Families: what kind of kernel a nest is written as. The table of what each accepts is judge/family.c; accepting is
 * building the nest, and what a family accepts, code generation can write (a printer each, code/emit.c). What others
 * need to know of a family stands in its row here: nobody asks which family it is. */
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

typedef struct {
    const char *name;
    const char *holds; /* what one kernel of it holds, as the kernel's text says */
    bool calls;        /* a library's product, and what follows it: it has no source and no loops of its own, and writes
                        * where it did when it began */
    bool multiplies;   /* a contraction in it is a product of matrices: a call's, or in tiles … */
    bool sums;         /* … or element by element, each a sum of its own */
    bool lone;         /* no part of a larger kernel */
    unsigned classes;  /* of the ops it may hold, 1 << FB_CLASS_POINTWISE and so on; 0: kernels of other families */
    bool floats;       /* … but none of integers or truth values */
    bool grids;        /* on targets with a grid alone */
} fb_family_row;

const fb_family_row *fb_family_row_of(fb_family f);
const char *fb_family_name(fb_family f);
bool fb_family_parse(const char *name, fb_family *out);

#endif
