/* Inside code/: writing one kernel.
 *
 *     emit.c        a group's text: header comment, names, buffers; the family table
 *     emit_value.c  the walker's output as statements: a value's expression, in the target's spelling
 *     emit_section.c  facts of a section that every printer's loops ask for
 *     emit_c.c      the printer of C: loops
 *     emit_cuda.c   the printer of CUDA: threads
 *
 * A target brings spellings, a printer the loops around the statements; the statements are the same everywhere. A
 * printer sets up loops for a section and calls fb_emit_needed for what is to be computed at a place.
 */
#ifndef FB_CODE_EMIT_PARTS_H
#define FB_CODE_EMIT_PARTS_H

#include "base/str.h"
#include "code/printer.h"
#include "code/statement.h"
#include "nest/parts.h"
#include "schedule/family.h"
#include "schedule/knobs.h"

typedef struct fb_emitter fb_emitter;

enum { FB_MAX_PIECES = 3 };

/* How kernels of a language are laid out around their statements (code/printer.c has the table). */
typedef struct {
    const char *pieces[FB_FAMILIES][FB_MAX_PIECES]; /* keys of what kernels of a family stand on, in order */
    struct {
        const char *key;
        const char *word; /* in a kernel of the user's own, of which nothing else says that it stands on the text */
    } texts[FB_TEXTS];
    const char *block[2], *grid[2]; /* what a kernel and a stage call the block's number and the grid's size */
    /* A function up to its body, under this name. */
    void (*head)(const fb_part *p, const char *entry, fb_str *out);
    /* What stands in front of a kernel's first section, and facts of its head. */
    void (*open)(fb_emitter *e);
    /* What stands around a section by which blocks find theirs: before it (`begins`), or behind it. NULL: nothing. */
    void (*around)(fb_emitter *e, int section, bool begins);
    /* One section's loops, a row a family; NULL where no such kernel is generated. */
    void (*section[FB_FAMILIES])(fb_emitter *e);
    /* … or a whole kernel's, for families whose sections belong together. */
    void (*whole[FB_FAMILIES])(fb_emitter *e);
} fb_printer;

extern const fb_printer fb_printer_c, fb_printer_cuda;

/* Of a target that generates kernels. */
const fb_printer *fb_printer_of(const fb_target *t);

/* A buffer as the kernel sees it. */
typedef struct {
    fb_id storage; /* the node whose value it holds */
    bool written;
    const char *name;
    fb_dtype dtype;
    int64_t shift; /* elements that the launch's offset has added to the pointer already */
} fb_emit_arg;

typedef struct {
    fb_ix var, by;
} fb_replaced;

struct fb_emitter {
    const fb_target *target;
    const fb_spelling *spell; /* the target's, or what stands in for it in a part of the kernel */
    const fb_nest *nest;
    fb_family family;
    const fb_knobs *knobs;
    fb_statements *to;
    fb_function *function;
    fb_arena *arena;
    const char *entry;
    int n_args;
    int grid[3], block[3]; /* of a grid, set by the printer; 0 where there is none */
    int dynamic_shared;    /* bytes */
    fb_needs needs;
    fb_stage stage;
    fb_emit_arg *args; /* reads, the accumulator of a library call, then writes; each storage once */
    /* the section being written */
    const fb_section *section;
    int number;          /* of the section */
    const char **names;  /* a value: what it is called */
    bool *known;         /* a value: its statement stands in the block or one around it */
    int *uses;           /* a value: how often the statements of this block write it down */
    const char **tables; /* a table: the array of its pointers, or the function that picks one … */
    const char **picked; /* … or the one pointer of the member that is being written, where not NULL */
    bool vectors;        /* the loop that is opened next is one of vectors (fb_for) */
    fb_interior inside;  /* what the loop at hand has of its variable; var FB_NONE: all loops are whole */
    const char **whole;  /* a value: how to refer to it instead of by name ("sum[j - j0]"), NULL by name */
    /* chains: what stands for element `at` of a product (or of the left operand of the last one, storage FB_ON_CHIP) */
    const char *(*on_chip)(fb_emitter *e, fb_id node, fb_ix at);
    const char *chip[3];         /* what its products, and the left operand of the last one, are called */
    bool divides_rows;           /* what a whole row of a product is divided by is inverted once */
    const fb_replaced *replaced; /* a variable that is written as an expression; NULL: none */
    const bool *unfused;         /* a value: a product that no sum takes in unrounded; NULL: any sum may take in any */
    const char **divisors;       /* a value of a row that elements are divided by: what says how; NULL: there is none */
    struct fb_name_set *used;    /* names taken in this kernel */
};

/* ---- text ---- */

void fb_emit(fb_emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));      /* a line */
void fb_emit_open(fb_emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3))); /* "… {" */
void fb_emit_if(fb_emitter *e, const char *condition, ...) __attribute__((format(printf, 2, 3)));
/* "for (type v = first; v < last; v += step) {"; type NULL: an index's; step NULL: 1. */
void fb_emit_for(fb_emitter *e, const char *type, const char *variable, const char *first, const char *last,
                 const char *step);
/* Is the innermost loop that is open one whose directive asks for vectors (fb_for)? */
bool fb_emit_in_vectors(const fb_emitter *e);
void fb_emit_unrolled(fb_emitter *e, const char *variable, const char *last); /* an int, from 0 */
const char *fb_emit_number(fb_emitter *e, int64_t number);
void fb_emit_list(fb_emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3))); /* "f(": no brace */
void fb_emit_close(fb_emitter *e);                                                               /* "}" */
void fb_emit_close_by(fb_emitter *e, const char *end);                                           /* "}, " … */
void fb_emit_directive(fb_emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fb_emit_remark(fb_emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3))); /* a comment … */

/* A free name like `wish`: no keyword, no function, nothing taken; kept for the whole kernel. */
const char *fb_emit_name(fb_emitter *e, const char *wish);
/* "feature[3].layer_norm.mean_2" → "mean": what members of a repetition have in common. Sources keep their numbers. */
const char *fb_emit_plain(fb_emitter *e, fb_id node);

/* ---- sections ---- */

/* Names, uses and tables of section `number` of the nest, or of an operand (fb_nest_part); writes the tables. */
void fb_emit_section(fb_emitter *e, int number);

/* Chains, a printer's each (emit_chain.c). */
void fb_emit_chain_c(fb_emitter *e);
void fb_emit_chain_cuda(fb_emitter *e);

/* ---- values ---- */

/* An index expression; `inner`: parenthesised unless it is a name or number. */
const char *fb_emit_index(fb_emitter *e, fb_ix at, bool inner);
/* The value as an operand: its name, or a literal. */
const char *fb_emit_ref(fb_emitter *e, fb_val v);
const char *fb_emit_literal(fb_emitter *e, fb_dtype dtype, double value);
/* Statements for `v` and what it needs, of what is not known yet and belongs to `space` (FB_NONE: row-level ones only).
 */
void fb_emit_needed(fb_emitter *e, fb_val v, int space);
/* A plain load of a row's element gets its name here, ahead of what it is used for; nothing for any other value. */
void fb_emit_load_first(fb_emitter *e, fb_val v);
/* Where a value is an index too, and of another type: its variable as that. For values that are no statement of
 * fb_emit_needed's, as what a reduction leaves. */
void fb_emit_as_index(fb_emitter *e, fb_val v);
/* Counts how often each value is written down by those among `among` (NULL: all), the reductions of pass (space, depth)
 * and the roots stored there: what is written once needs no name. */
void fb_emit_count_uses(fb_emitter *e, const bool *among, int space, int depth);
/* Everything known in the block is forgotten: fb_emit_mark before, fb_emit_forget(mark) at its end. */
bool *fb_emit_mark(fb_emitter *e);
void fb_emit_forget(fb_emitter *e, const bool *mark);
/* "y[256 * i + j] = …;" after what it and the other roots at this place need of what is overwritten */
void fb_emit_store(fb_emitter *e, const fb_root *r);
/* The same to another place, as the value is: not rounded to what the root is stored as. */
void fb_emit_store_wide(fb_emitter *e, const fb_root *r, const char *place);
/* What the kernel calls the buffer of a storage. */
const char *fb_emit_storage(fb_emitter *e, fb_id storage);
/* The place in memory of a load or root, as an lvalue of the memory type. */
const char *fb_emit_element(fb_emitter *e, fb_id storage, int table, fb_ix at);
/* Whether an element is one at all: tests joined by "&&"; NULL when it always is. */
const char *fb_emit_tests(fb_emitter *e, int when);
/* The same elsewhere than where the printer is: `there` (NULL: here) says what a test is there. */
const char *fb_emit_tests_at(fb_emitter *e, int when, fb_when (*there)(const void *ctx, fb_when w), const void *ctx);
/* `format` with $0, $1 … replaced. */
const char *fb_emit_spell(fb_emitter *e, const char *spelling, const char *const *operands, int n);

/* The arithmetic of a reduction: what it starts with, one step, and the end (NULL: nothing). */
typedef struct {
    fb_op op;
    bool arg; /* argmax, argmin */
    const char *start;
    const char *clause; /* OpenMP's reduction identifier; NULL for arg */
} fb_reduction;
/* Of a running value, the reduction that it runs. */
fb_reduction fb_emit_reduction(fb_emitter *e, fb_val v);
/* The statement that adds the next term to a sum. Integers wrap, for a compiler takes it that signed ones do not overflow
 * and may make anything of a loop in which they do. */
void fb_emit_add(fb_emitter *e, fb_dtype dtype, const char *to, const char *next);
/* A running value from that of the elements before and that of the next ones; to be put into parentheses. */
const char *fb_emit_running(fb_emitter *e, fb_val v, const char *so_far, const char *next);
/* The same as a statement: `to` takes in what comes next. */
void fb_emit_run_on(fb_emitter *e, fb_val v, const char *to, const char *next);
/* Of a rank: does the other element go before the own one? An expression of two choices, without parentheses. */
const char *fb_emit_before(fb_emitter *e, fb_val v);

/* ---- facts of a section that every printer's loops ask for (emit_section.c) ---- */

/* The largest depth of a root or pass. */
int fb_emit_deepest(const fb_section *s);
/* Of an index_add: the index that says which row of the result is added to. */
const fb_data_var *fb_emit_added_row(fb_index_pool *pool, const fb_section *s);

const char *fb_emit_type(const fb_emitter *e, fb_val v);
/* Of what reduction v compares: argmax keeps the best element beside its index. */
const char *fb_emit_operand_type(const fb_emitter *e, fb_val v);
/* What a mean divides by, as a literal; NULL for other reductions. */
const char *fb_emit_mean_points(fb_emitter *e, fb_val v);
/* Statements for the row-level values among `needed`. */
void fb_emit_row_values(fb_emitter *e, const bool *needed);

#endif
