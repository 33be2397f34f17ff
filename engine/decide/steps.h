/* The decisions of a preset, one by one: what was considered, what stood beside it, what was chosen and why. Numbered
 * from 1 in the order in which they were taken. What a compiler fuses and our families do not generate is on record
 * too, with our verdict. At most FB_STEPS_KEPT are kept, so that the record of a huge graph stays small; the others are
 * counted. */
#ifndef FB_DECIDE_STEPS_H
#define FB_DECIDE_STEPS_H

#include "base/str.h"
#include "judge/judge.h"

enum { FB_STEPS_KEPT = 1 << 15, FB_STEP_OTHERS = 4 };

typedef enum {
    FB_STEP_FUSE,         /* the kernels of a and b become one */
    FB_STEP_INLINE,       /* a is computed where it is read and has no kernel of its own */
    FB_STEP_CALL,         /* the nodes of the framework's call that ends in a become one kernel */
    FB_STEP_CUT,          /* b, and what depends on it, leaves the kernel of a */
    FB_STEP_FUSE_READERS, /* a and all that reads it become one kernel */
    FB_STEP_FUSE_MEMBERS, /* all members of a's repetition become one kernel */
    FB_STEP_STORE,        /* a, computed where it is read so far, gets a kernel of its own */
    FB_STEP_LIBRARY,      /* the contraction a becomes a library call … */
    FB_STEP_GENERATE,     /* … or a generated kernel */
    FB_STEP_BEGIN,        /* the plan of another preset: a is its place in the table */
    FB_STEP_ATOMICS,      /* the index_add a is added up by atomic additions, in any order … */
    FB_STEP_ORDERED,      /* … or in a fixed one */
    FB_STEP_ROLL, /* steps that are written out, from that of a on, become loops: the graph is another one then */
} fb_step_kind;

typedef enum {
    FB_STEP_TAKEN,
    FB_STEP_REFUSED,  /* by the preset's own rules */
    FB_STEP_UNABLE,   /* the compiler would, but here it is not legal or no family generates it */
    FB_STEP_DECLINED, /* by the user, who branched off here */
} fb_step_outcome;

typedef struct {
    fb_step_kind kind;
    fb_id a, b;   /* b: FB_NONE unless FUSE or CUT */
    double score; /* higher is taken first; in the unit of the preset (fb_steps_score); NAN: it has none */
} fb_candidate;

typedef struct {
    fb_candidate what;
    fb_step_outcome outcome;
    bool rolled;         /* its nodes are those of the graph with loops for steps (fb_planner_rolled) */
    const char *why;     /* one sentence; the preset's reason */
    const char *verdict; /* UNABLE: ours, and what stands instead; else NULL */
    int n_others;        /* the best candidates that were open besides, at most FB_STEP_OTHERS, best first */
    const fb_candidate *others;
    int n_open; /* how many were open altogether, this one not counted */
} fb_step;

typedef struct fb_steps fb_steps;

void fb_steps_free(fb_steps *s);
const char *fb_steps_preset(const fb_steps *s); /* its name */
int fb_steps_count(const fb_steps *s);          /* decisions taken; those beyond FB_STEPS_KEPT are not kept */
int fb_steps_kept(const fb_steps *s);
/* Kernels and calls of the compiler itself, whatever became of its decisions here; 0 not known. */
int fb_steps_kernels(const fb_steps *s);
const fb_step *fb_steps_at(const fb_steps *s, int i); /* 0 … kept - 1; number i + 1; borrowed */
/* The graph that a step's nodes are of; of a planner of the graph as written, or of that with loops. NULL where the
 * planner's has no loops, as a script's that was changed since. */
const fb_graph *fb_step_graph(const fb_step *s, fb_planner *p);
const char *fb_step_outcome_name(fb_step_outcome o); /* "taken" "refused" "unable" "declined" */
const char *fb_step_kind_name(fb_step_kind k);       /* one word: "fuse", "inline", "call", … */
/* What a, and b where it has one, are called: nodes, or a preset. */
const char *fb_candidate_name(const fb_graph *g, const fb_candidate *c);
const char *fb_candidate_other(const fb_graph *g, const fb_candidate *c); /* NULL */
/* "fuse `a` and `b`", "inline `a`" */
void fb_candidate_text(const fb_graph *g, const fb_candidate *c, fb_str *out);
/* What a score is ("bytes shared"), and one written out ("33.6 MB"); "" when it has none. */
const char *fb_steps_score_name(const fb_steps *s);
void fb_steps_score(const fb_steps *s, double score, fb_str *out);

#endif
