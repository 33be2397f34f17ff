/* A verdict on an edit: one of four kinds and a sentence that names the nodes, with numbers where there are any. */
#ifndef FB_NEST_VERDICT_H
#define FB_NEST_VERDICT_H

#include <stdatomic.h>
#include <stdint.h>

typedef enum {
    FB_VERDICT_FINE,        /* legal and generated; predicted no slower */
    FB_VERDICT_SLOWER,      /* legal and generated; predicted slower */
    FB_VERDICT_UNSUPPORTED, /* legal, but no family generates it */
    FB_VERDICT_ILLEGAL,     /* would compute something else, or cannot be ordered */
} fb_verdict_kind;

/* One row a rule; the table in judge/legality.c names the test of each. */
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
    FB_RULE_STEPS,            /* steps that are written out are no loop */
    FB_RULES
} fb_rule;

typedef struct {
    fb_verdict_kind kind;
    fb_rule rule;
    double before_us, after_us; /* predicted time of the groups concerned before and after; NAN unknown. Of
                                 * a doubted calibration only for choosing, never to be shown */
    int64_t bytes_saved;        /* modelled, negative when more */
    int launches_saved;
    char text[400]; /* one sentence */
} fb_verdict;

const char *fb_verdict_kind_name(fb_verdict_kind k); /* "fine" "slower" "unsupported" "illegal" */
/* A place in the source that makes verdicts. All of a binary's are one list, so that a place that none of many plans
 * came by can be named too. */
typedef struct {
    const char *file;
    int line;
    const char *said;     /* "FB_VERDICT_ILLEGAL, FB_RULE_CYCLE, …": as it stands in the source */
    _Atomic int64_t made; /* in this process */
} fb_verdict_place;

int fb_verdict_places(void);
fb_verdict_place *fb_verdict_place_at(int i); /* in no order that means anything, and the same in forked processes */
/* How many verdicts of a kind and rule there were in this process. */
int64_t fb_verdict_made(fb_verdict_kind kind, fb_rule rule);

/* An expression: one more verdict made here. */
#define FB_VERDICT_PLACE(said)                                                                                         \
    __extension__({                                                                                                    \
        static fb_verdict_place here_ = {__FILE__, __LINE__, said, 0};                                                 \
        static fb_verdict_place *const row_ __attribute__((section("fb_verdict_places"), used)) = &here_;              \
        atomic_fetch_add_explicit(&here_.made, 1, memory_order_relaxed);                                               \
    })

fb_verdict fb_verdict_make_unseen(fb_verdict_kind kind, fb_rule rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define fb_verdict_make(...) ((void)FB_VERDICT_PLACE(#__VA_ARGS__), fb_verdict_make_unseen(__VA_ARGS__))

/* Sets *why and is false. `kind` as in FB_VERDICT_…: ILLEGAL, UNSUPPORTED. */
#define FB_REFUSE(why, kind, ...) (*(why) = fb_verdict_make(FB_VERDICT_##kind, __VA_ARGS__), false)

#endif
