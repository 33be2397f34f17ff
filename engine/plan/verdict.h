/* A verdict on an edit: one of four kinds and a sentence that names the nodes, with numbers where there are any. */
#ifndef FB_PLAN_VERDICT_H
#define FB_PLAN_VERDICT_H

#include <stdint.h>

typedef enum {
    FB_VERDICT_FINE,        /* legal and generated; predicted no slower */
    FB_VERDICT_SLOWER,      /* legal and generated; predicted slower */
    FB_VERDICT_UNSUPPORTED, /* legal, but no family generates it */
    FB_VERDICT_ILLEGAL,     /* would compute something else, or cannot be ordered */
} fb_verdict_kind;

/* One row a rule; the table in plan/legality.c names the test of each. */
typedef enum {
    FB_RULE_NONE,
    FB_RULE_SAME_GROUP,       /* nothing to do: the two share a kernel already (or already do not) */
    FB_RULE_NOT_COMPUTED,     /* a source or view belongs to no group */
    FB_RULE_NO_EDGE,          /* the two are not connected (cut) */
    FB_RULE_CYCLE,            /* the group would have to run before and after another */
    FB_RULE_REGION,           /* the nodes live in different loop bodies */
    FB_RULE_WRITE_AFTER_READ, /* an assigned parameter is read after it would be overwritten */
    FB_RULE_REDUCED_FIRST,    /* needs all rows of a reduction before its first element */
    FB_RULE_ACCESS,           /* an access map no family can follow */
    FB_RULE_GATHER,           /* data-dependent access where none is possible */
    FB_RULE_CONTRACTION,      /* a contraction where the family takes none */
    FB_RULE_LIBRARY,          /* the library has no such call or epilogue */
    FB_RULE_SIZE,             /* too many nodes, operands or outputs for one kernel */
    FB_RULE_RECOMPUTE,        /* cannot be recomputed (effect, output, reduction …) */
    FB_RULE_KNOB,             /* no such knob or value */
    FB_RULES
} fb_rule;

typedef struct {
    fb_verdict_kind kind;
    fb_rule rule;
    double before_us, after_us; /* predicted time of the groups concerned before and after; NAN unknown */
    int64_t bytes_saved;        /* modelled, negative when more */
    int launches_saved;
    char text[400]; /* one sentence */
} fb_verdict;

const char *fb_verdict_kind_name(fb_verdict_kind k); /* "fine" "slower" "unsupported" "illegal" */
fb_verdict fb_verdict_make(fb_verdict_kind kind, fb_rule rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
