/* The schedule: how a nest is dealt to threads. Decided once, from the nest, the target and the knobs; code generation
 * writes it out, and the cost model counts with it.
 *
 * requires  a nest; sections for a target with a grid, loops for one without (target/target.h)
 * provides  a section's shape, threads, teams, blocks, vectors, and what its passes keep in registers; for tiles and
 *           chains see schedule/gemm.h and schedule/chain.h, which decide theirs the same way
 */
#ifndef FB_SCHEDULE_SCHEDULE_H
#define FB_SCHEDULE_SCHEDULE_H

#include "nest/nest.h"
#include "nest/parts.h"
#include "schedule/knobs.h"

typedef enum {
    FB_DEAL_ELEMENTS, /* no reduction: a thread a few neighbouring elements */
    FB_DEAL_LINES, /* the same where neighbours cannot move together: a block a stretch of the last variable, in a few
                       * lines; which lines these are is worked out once a block, and not by every thread */
    FB_DEAL_RUNS,  /* the same of short lines: a thread a few points that are stored one behind the other, across the
                       * ends of lines */
    FB_DEAL_SQUARES, /* elements of which some are loaded across the order in which they are stored: a block a square of both,
                      * whose loads go through shared memory, turned */
    FB_DEAL_ROWS,    /* a team of threads a row: lanes of a warp, or a block, by the row's length */
    FB_DEAL_COLUMNS, /* neighbouring rows lie side by side in memory: neighbouring threads take neighbouring rows, and
                       * the warps of a block share the long way */
    FB_DEAL_BANDS, /* the same, gone over several times: a block or several have some neighbours, and hold them meanwhile
                    * (schedule/bands.h) */
    FB_DEAL_LONG, /* long rows, gone over several times: a block or several a row hold it meanwhile (schedule/long.h) */
    FB_DEAL_SPLIT,   /* few very long rows, only reduced: many blocks a row, the last one to finish adds up */
    FB_DEAL_OWNERS,  /* a small index_add: a thread owns an element of the result */
    FB_DEAL_RANKED,  /* ranks of whole rows: a block sorts so many of a row's elements, and finds the others' places */
    FB_DEAL_SORTED,  /* an index_add: a block has a range of rows, and sorts the points of the index that are its own */
    FB_DEAL_ADDED,   /* an index_add: threads add points to rows by atomic additions, in any order */
    FB_DEAL_THROUGH, /* a loop's body: threads keep their elements, or lanes their row's, through all steps
                      * (schedule/through.h) */
} fb_deal;

typedef struct {
    fb_deal deal;
    const fb_section *section; /* with `kept` as registers allow */
    int threads;               /* a block */
    int team;                  /* threads a row */
    int64_t rows, rows_a_block;
    int64_t blocks;   /* of work … */
    int64_t launched; /* … of which so many blocks are launched, each for several (knob grid) */
    int parts; /* FB_DEAL_SPLIT, _LONG and _RANKED: blocks a row; _BANDS: blocks a band; _LINES: stretches a line; _COLUMNS: blocks a group of
                               * neighbouring rows, _ROWS: blocks a row of running values, where more than 1; _SORTED, _ADDED: blocks
                               * that share an index; 1: each looks at all of it */
    int ranges;    /* FB_DEAL_SORTED: of rows, among blocks that share an index, which wait for each other; else 0 */
    int sharing;   /* … blocks that a multiprocessor is to have registers for; 0: as it comes */
    fb_val ranked; /* FB_DEAL_RANKED: the rank */
    int64_t
        first_places; /* … of which a row's blocks leave each other so many, or a warp finds so many; 0: all are found */
    const struct fb_cut *cut;   /* FB_DEAL_LONG; else NULL */
    const struct fb_band *band; /* FB_DEAL_BANDS; else NULL */
    int across;                 /* FB_DEAL_SQUARES: the row variable along which what is turned lies side by side */
    bool held;                  /* passes are unrolled and keep in registers what is read again */
    bool
        fetched; /* FB_DEAL_ROWS: … of memory as it lies there, all on its way before the first pass (schedule/held.h) */
    bool
        crowded; /* … of which so many that few threads have room: shared memory is better, where a row fits there (4096
                   * rows of 32,000 in bf16, a softmax that goes on: 322 µs on an H200, and 197) */
    bool stepped;  /* FB_DEAL_ROWS: passes are unrolled, so that all loads of a lane are on their way at once */
    bool inverts;  /* FB_DEAL_ROWS, _LONG, _BANDS: what elements of a whole row are divided by is inverted once */
    bool scans;    /* a row's team goes along running values together (kernels/scan.cuh), … */
    bool gathers;  /* FB_DEAL_COLUMNS: a thread's neighbours read rows that an index names, each looked up once */
    bool packed;   /* FB_DEAL_SORTED, _ADDED: elements of a row move as whole vectors */
    bool near;     /* FB_DEAL_ADDED: a block adds up its points in shared memory, and then to what all have */
    bool clears;   /* FB_DEAL_ADDED: sums beside the result, so many that they are made zeros first */
    bool in_place; /* FB_DEAL_ADDED: points are added to the result itself, not to sums beside it */
    int each; /* FB_DEAL_OWNERS: points of the index that a thread looks at, at a time; FB_DEAL_RANKED: of a row that one team sorts, keys of a thread; FB_DEAL_SORTED, _ADDED: neighbours of a row that
               * it sums; FB_DEAL_COLUMNS, _BANDS and _ROWS: neighbouring
               * rows that it takes at once, in the pass; FB_DEAL_LINES: lines that it takes, one after the other; FB_DEAL_RUNS: points;
               * FB_DEAL_ELEMENTS: groups of neighbours, likewise; FB_DEAL_THROUGH: neighbours */
    int steps_ahead; /* FB_DEAL_THROUGH: steps whose items are loaded while those of as many before are worked on */
} fb_section_schedule;

/* NULL, or why an index_add's points are not added by atomic additions: the rest of a sentence. */
const char *fb_schedule_no_atomics(const fb_nest *nest, const fb_section *s, const fb_added *a);

/* Deals out the rows of a rank, if all that the section does follows from it, to blocks of as many threads as are asked
 * for (0: none are), as far as a power of two goes; false, and nothing set, if not. */
bool fb_schedule_deal_ranked(const fb_nest *nest, const fb_section *s, int asked, fb_section_schedule *x);

/* What counting them would have taken, which is in the nest's facts. */
double fb_schedule_ranked_flops(const fb_nest *nest);

/* Of a section of the nest; what it points to is in `arena`. */
fb_section_schedule fb_schedule_section(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s,
                                        fb_arena *arena);
enum { FB_SCAN_EACH = 4 }; /* … neighbours at a time where these move one by one, as in columns */
enum { FB_SQUARE = 32 };
/* Elements along either side of a square: so many, or twice as many where they move by a few. */
static inline int fb_schedule_side(const fb_section_schedule *x)
{
    return x->each > 1 ? 2 * FB_SQUARE : FB_SQUARE;
}
/* The variable along which a load is read and lies apart, while its neighbours along row variable `across` lie side by side:
 * it is turned, over these two. `step`: elements from one to the next. Without passes it is the last variable of the rows,
 * else the pass's own; FB_NONE: it is not turned. */
fb_ix fb_schedule_turned(const fb_nest *nest, const fb_section *s, const fb_value *v, int across, int64_t *step);
bool fb_schedule_turns(const fb_nest *nest, const fb_section *s, const fb_value *v, int across);
/* Is the load, or the root, f16 that lies side by side along the last variable of the rows, where it is or once it is turned
 * over variable `across` (FB_NONE: nothing is)? Then it can be converted by strips. */
bool fb_schedule_is_strip(const fb_nest *nest, const fb_section *s, const fb_value *v, int across);
bool fb_schedule_stores_strip(const fb_nest *nest, const fb_section *s, const fb_root *r);
/* What passes of rows keep in registers, if all of it fits: sets `held` and `section`. */
void fb_schedule_held(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x, fb_arena *arena);
/* Do warps of a block meet, or share memory? */
bool fb_schedule_meets(const fb_section_schedule *x, const fb_target *target);
/* Threads of a block: of all sections the most, for they share a launch. */
int fb_schedule_threads(const fb_nest *nest, const fb_knobs *knobs);
/* Does a block find its section by halves? Of a few it asks for each whether it is the one. */
bool fb_schedule_halves(const fb_nest *nest);
/* Sections that load anything of that storage. */
int fb_schedule_readers(const fb_nest *nest, fb_id storage);
/* Do blocks of all sections take turns, one of each? Else those of a section stand one behind the other. */
bool fb_schedule_in_turn(const fb_nest *nest, const fb_knobs *knobs);

/* Lanes of a warp that share a row of a tile, which is on chip; 1: one of them goes through it in order. `all`: the tile
 * has no row too many, so that lanes of other rows may come along. */
int fb_schedule_tile_team(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, bool all);

/* Elements that a thread moves at once along the last variable of a space (FB_NONE: of the rows); 1: each by itself. */
int fb_schedule_vector(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, int space);
/* The same of what varies over a space, along the last variable of the rows. */
int fb_schedule_vector_across(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, int space);
/* Steps of a team's thread along a space, of a group of elements each. */
int64_t fb_schedule_steps(const fb_section_schedule *x, const fb_space *space, int vector);
/* Must the elements of a row be computed one after the other? */
bool fb_schedule_is_sequential(const fb_section *s);

/* Is this load (of elements along `last`) made for whole vectors? Does this root store whole ones? */
bool fb_packs_load(const fb_nest *nest, const fb_section *s, const fb_value *v, fb_ix last, int vector);
bool fb_packs_root(const fb_nest *nest, const fb_section *s, const fb_root *r, fb_ix last, int vector);
/* Are `vector` elements of a storage that are neighbours along `last` neighbours in memory, at multiples of their size?
 * Also when a loop's step moves the pointer. */
bool fb_packs(const fb_nest *nest, fb_id storage, fb_ix at, fb_ix last, int vector);
/* Neighbours along `last` whose elements lie `parts` (2 or 4) apart, at `place` of these: real and imaginary parts, every second
 * element. A thread moves all that lie between them too, `vector` × `parts` elements from `from` on. */
typedef struct {
    int parts, place;
    fb_ix from;
} fb_interleaved;
bool fb_interleaves_load(const fb_nest *nest, const fb_section *s, const fb_value *v, fb_ix last, int vector,
                         fb_interleaved *out);
/* Of a root beside which others of the section store the rest of each group. */
bool fb_interleaves_root(const fb_nest *nest, const fb_section *s, const fb_root *r, fb_ix last, int vector,
                         fb_interleaved *out);
/* As fb_packs_load, of a load whose tests, if it has any, are the same for a whole vector. */
bool fb_packs_tested(const fb_nest *nest, const fb_section *s, const fb_value *v, fb_ix last, int vector);
/* Does the place of an element that a section of elements loads take divisions of the last variable, for each by itself? */
bool fb_schedule_divides(const fb_nest *nest, const fb_section *s, fb_ix last, int vector);
/* Are elements of a root stored in the order of the section's rows, one behind the other, from element *from on? */
bool fb_schedule_flat(const fb_nest *nest, const fb_section *s, const fb_root *r, int64_t *from);
/* Does a loop that the kernel is in move the storage's pointer by whole vectors, if at all? */
bool fb_packs_in_steps(const fb_nest *nest, fb_id storage, int vector);

/* ---- without a grid: loops that a team of cores shares ---- */

typedef enum {
    FB_LOOPS_ELEMENTS, /* no reduction: the innermost loop is vectorised */
    FB_LOOPS_ROWS,     /* a row after the other, vectorised along its passes */
    FB_LOOPS_LANES,    /* neighbouring rows lie side by side in memory: so many of them at once */
    FB_LOOPS_LONG,     /* few very long rows: threads share each pass */
} fb_loops_shape;

enum {
    FB_LOOPS_FEW = 16,     /* rows, or chunks of them, that do not keep a team of cores busy */
    FB_LOOPS_CHUNK = 4096, /* elements of a long vector loop that is cut for threads */
    FB_LOOPS_WIDE = 128,   /* a tile's elements along the last variable … */
    FB_LOOPS_HIGH = 32,    /* … and along the one along which loads lie side by side */
    FB_LOOPS_STRIP = 256,  /* … that are converted at once: they stay in the first cache */
    FB_LOOPS_OWNERS = 16,  /* of an index_add's rows, at most: each goes through all of the index */
};

/* What rows that are done at once share (FB_LOOPS_LANES), an operand of a pass: made once, over the places that there are,
 * and not for each row and point anew. Of windows, row and point are at place step · row + apart · point, of which step
 * or apart is 1. Without row the point is the place, and without point the row: rows that are turned. */
typedef struct {
    fb_ix row, point;
    int64_t step, apart, extent;
} fb_staged_dim;

typedef struct {
    fb_val value;     /* FB_NONE: there is none */
    int pass, before; /* so many loops of rows, that over chunks among them, are around it … */
    bool chunk;       /* … and that one, too: the last dim has a chunk's places, from its first row's on */
    int n;
    fb_staged_dim dim[FB_MAX_ROW_VARS]; /* the last: along the lanes */
    fb_ix at;                 /* element, in terms of rows and points; a chunk begins at step · its first row */
    int64_t elements, places; /* places: along the lanes, chunks or not */
} fb_loops_staged;

typedef struct {
    fb_loops_shape shape;
    int64_t work;  /* operations, about */
    int64_t lanes; /* FB_LOOPS_LANES: rows at once, a chunk … */
    int outside;   /* … and so many loops of rows are outside of that over chunks, the others within */
    bool inside;   /* it stands in a loop that threads share already: over a chain's blocks */
    bool inner;    /* threads share what is inside of a row or chunk: there are too few of these */
    int threads;   /* that share it: 1 where it is too little for more, 0: as many as there are */
    int64_t chunk; /* iterations that a thread takes at a time; 0: an even share */
    int vector;    /* elements of a vector; 0: as the compiler likes */
    int together;  /* outer loops that are shared as one, so that there are enough iterations for any team … */
    bool cut;      /* … and with them the last one, in pieces of FB_LOOPS_CHUNK */
    int across;    /* FB_LOOPS_ELEMENTS, FB_LOOPS_ROWS: the row variable along which loads lie side by side that are
                    * turned (fb_schedule_turned), elements in tiles of it and the last one; FB_NONE: nothing is … */
    int high;      /* … and so many of it at a time */
    int strips;    /* FB_LOOPS_ELEMENTS: so many loads and roots are converted ahead of the innermost loop and after it,
                    * FB_LOOPS_STRIP elements at a time (fb_schedule_is_strip) */
    int64_t shared; /* iterations of these */
    int64_t owners; /* of an index_add's rows, of one member; 0: it is none */
    fb_loops_staged staged;
    fb_val
        ranked; /* FB_LOOPS_ROWS: a rank, whose row is sorted ahead of the last loop of rows; FB_NONE: there is none */
    int64_t first; /* … of which so many first places alone are found, the others are this one; 0: all are */
} fb_loops_schedule;

/* The rank of a section that is sorted once a row; FB_NONE: there is none, or to count is as fast. */
fb_val fb_schedule_ranked(const fb_nest *nest, const fb_section *s);
/* Places of that rank that have to be told apart, from 1 on: all that the section stores stays as it is when each place
 * from this number on is taken for this number. All of the row's: there is no such number. */
int64_t fb_schedule_places(const fb_nest *nest, const fb_section *s, fb_val rank);

/* Sets what windows have in common, where it pays, and that fewer loops are shared where they do with that. */
void fb_schedule_stage(const fb_nest *nest, const fb_section *s, fb_loops_schedule *x);
/* Sets rows that lie apart to be turned and done `lanes` at a time, or fewer, and how many loops are outside of that over
 * chunks. False, and nothing set: it does not pay. */
bool fb_schedule_turn(const fb_nest *nest, const fb_section *s, fb_loops_schedule *x);
/* Do rows done side by side lie so, but for what is staged? */
bool fb_schedule_lies_staged(const fb_nest *nest, const fb_section *s, const fb_loops_staged *x);
/* Places along the lanes at which no test depends on the last dim, in terms of what goes along it (its row, else its
 * point); var FB_NONE: there are few. */
fb_interior fb_schedule_staged_interior(const fb_nest *nest, const fb_section *s, const fb_loops_staged *x);

/* Of an index_add's rows: one a core. A row's sum is in the order of the index, however many there are. */
int64_t fb_schedule_owners(int units);

fb_loops_schedule fb_schedule_loops(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s);

#endif
