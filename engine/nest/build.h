/* Inside nest/: a nest under construction.
 *
 * Each section starts as a *draft*: roots with coordinates over row variables. Walking a draft (walk.c) turns it
 * into values; on the way it may find that the draft must change first: a row variable is to be split at the seams of a
 * join, or into two variables, or some row variables are really inner. nest.c makes the change and walks again.
 */
#ifndef FB_NEST_BUILD_H
#define FB_NEST_BUILD_H

#include "base/vec.h"
#include "nest/parts.h"

typedef struct {
    fb_id node;
    fb_ix coords[FB_MAX_RANK];
} fb_draft_root;

typedef struct {
    fb_space rows;
    int n_spaces, n_roots;
    fb_space *spaces;
    fb_draft_root *roots;
    int blocked;
    bool scatter;
    bool on_chip;    /* the first root is a chain's left operand */
    bool writes_out; /* short reductions are computed for each element that reads them, and are no row's */
} fb_draft;

typedef struct {
    fb_nest *nest;
    const fb_machine *machine;
    fb_verdict *why;
    fb_arena *scratch; /* drafts; freed when the nest is built */
    bool operand;      /* the draft is an operand's: nothing is stored on the way */
    bool *done;        /* a stored node (by its place in kernel.stored): some section stores it */
    FB_VEC(fb_when) whens;
    FB_VEC(fb_section) sections;
    FB_VEC(fb_draft) drafts; /* of each section, as it was last walked */
    FB_VEC(struct cached_var {
        char kind; /* 'r'ow, 'i'nner, 'm'ember; 'f'actor and 'p'arked while a draft changes */
        int place;
        int64_t extent;
        fb_ix var;
    })
    vars;
    FB_VEC(fb_space) shapes; /* of spaces: each has variables of its own */
    int n_data;
} fb_builder;

typedef enum {
    FB_WALK_DONE,
    FB_WALK_REFUSED, /* builder->why says why */
    FB_WALK_SPLIT,   /* row variable `row` wants to be cut at at[1] … at[n - 2]; at[0] is 0, at[n - 1] its extent */
    FB_WALK_FACTOR,  /* row variable `row` wants to be two: v = at[0] · a + b */
    FB_WALK_DEMOTE,  /* all row variables but those in `keep` want to be inner */
} fb_walk_end;

typedef struct {
    fb_walk_end end;
    int row, n;
    int64_t *at; /* scratch */
    uint32_t keep;
    bool short_rows; /* a row has a reduction that could be written out instead */
} fb_walk_result;

/* Walks all roots of the draft. Stored nodes that are met where the section covers them whole become further roots of
 * the draft. When it is done, *section holds the values, in the nest's arena. */
fb_walk_result fb_walk_draft(fb_builder *b, fb_draft *draft, fb_section *section);

/* The variable of the nest for this place and extent; the same for all sections, so that equal sections have equal
 * expressions. */
fb_ix fb_builder_var(fb_builder *b, char kind, int place, int64_t extent);
/* Appends a loop, unless it has a single point, and returns its coordinate. */
fb_ix fb_space_add(fb_builder *b, fb_space *s, char kind, int64_t extent);
/* The space of these extents and the coordinates of its points. Two spaces share no variable, so that a variable says
 * which space it is of. */
fb_space fb_builder_space(fb_builder *b, int n, const int64_t *extents, fb_ix *coords);
bool fb_builder_refuse_unseen(fb_builder *b, fb_verdict_kind kind, fb_rule rule, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define fb_builder_refuse(b, ...) ((void)FB_VERDICT_PLACE(#__VA_ARGS__), fb_builder_refuse_unseen(b, __VA_ARGS__))
int fb_builder_stored(const fb_builder *b, fb_id node); /* its place in kernel.stored, or FB_NONE */
bool fb_builder_inside(const fb_builder *b, fb_id node);

/* Do the variables of `rows` (and `space`, which may be NULL) number `points` elements 0 … points - 1, each once? */
bool fb_covers(fb_index_pool *pool, fb_ix offset, const fb_space *rows, const fb_space *space, int64_t points);

/* Walks a draft that may not change; false when it is refused. */
bool fb_builder_walk(fb_builder *b, fb_draft *draft, fb_section *section);

/* tiled.c: which contractions stay on chip, before any section is built; and strips, phases and operands after. */
bool fb_tiled_begin(fb_builder *b);
bool fb_tiled_end(fb_builder *b);

/* roll.c: one section for equal ones, and one loop for neighbours that memory does not tell apart. */
void fb_nest_roll(fb_builder *b);
void fb_section_collapse(fb_builder *b, fb_section *s);
/* The same of what rows go along alone, where rows have to stay what they are. */
void fb_section_collapse_spaces(fb_builder *b, fb_section *s);

/* chain.c: products and their operands first, then the sections between and after them. */
bool fb_chain_begin(fb_builder *b);
bool fb_chain_draft(fb_builder *b, fb_id node, fb_draft *d); /* of a stored node */
bool fb_chain_middle(fb_builder *b, fb_draft *d);            /* false: there is none */
bool fb_chain_end(fb_builder *b);
/* hidden.c: which of the scores that section `s` makes are hidden: n_seen of the chain and what follows it. */
void fb_chain_find_hidden(fb_nest *nest, const fb_section *s);

/* facts.c */
void fb_nest_count(fb_nest *nest, const fb_section *unrolled, int n);

#endif
