/* The rules that an edit may break, as a table: what each forbids and which test shows it. The rules that look at
 * iteration spaces and access maps are enforced where the nest is built (nest/nest.c), the rest in judge/legality.c. */
#ifndef FB_JUDGE_LEGALITY_H
#define FB_JUDGE_LEGALITY_H

#include "nest/verdict.h"

typedef struct {
    fb_rule rule;
    const char *name;     /* "write after read" */
    const char *sentence; /* what it says, in general */
    const char *test;     /* in tests/unit/test_legality.c */
} fb_rule_info;

const fb_rule_info *fb_rule_get(fb_rule rule); /* NULL for FB_RULE_NONE */

#endif
