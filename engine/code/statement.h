/* Statements: what a kernel says, between its schedule and a language's text (docs/STATEMENTS.md). A kernel is a
 * function; it is built once, and printed in the part that it plays: launched by itself, or a stage of a larger kernel
 * (code/merge.h). All lies in the arena of who builds it. */
#ifndef FB_CODE_STATEMENT_H
#define FB_CODE_STATEMENT_H

#include "base/arena.h"
#include "base/str.h"
#include "code/needs.h"
#include "target/target.h"

#include <stdarg.h>

/* In the text of statements, for what is called otherwise in each part: the block's number, and how many there are. */
#define FB_BLOCK "\1"
#define FB_GRID  "\2"

typedef enum {
    FB_STATEMENT_LINE,      /* a leaf: text of the language as it stands; "": an empty line */
    FB_STATEMENT_BLOCK,     /* what opens it, a body one step further in, and what closes it */
    FB_STATEMENT_IF,        /* a block: its text is the condition */
    FB_STATEMENT_LOOP,      /* a block: its loop says what it goes over */
    FB_STATEMENT_DIRECTIVE, /* at column 0: "#pragma unroll" */
    FB_STATEMENT_REMARK,    /* a comment */
} fb_statement_kind;

/* variable = first, first + step … up to last, which it does not reach. */
typedef struct {
    const char *type, *variable, *first, *last;
    const char *step; /* NULL: 1 */
    const char *also; /* it ends, too, where this does not hold; NULL: never */
    bool unrolled;
    bool vectors; /* a directive in front of it asks for vectors of its steps */
} fb_for;

typedef struct fb_statement {
    fb_statement_kind kind;
    const char *text;
    const char *remark; /* behind it, or NULL */
    const char *end;    /* of a block: "}"; NULL: nothing closes it */
    const fb_for *loop;
    struct fb_statement *body, *outer, *next;
} fb_statement;

typedef struct {
    const char *type, *name; /* of what it points to; of the pointer */
    bool constant;           /* the function only reads there … */
    bool restricted; /* … and reaches it by this pointer alone; not so in a stage, before which others write */
} fb_parameter;

typedef struct fb_function {
    const fb_target *target;
    const char *name, *entry;
    const char *about; /* the rest of the comment in front of it, behind its name */
    int n_parameters;
    const fb_parameter *parameters;
    bool steps;           /* behind them comes a trip count */
    int threads, sharing; /* of a block; blocks that a multiprocessor is to have registers for, 0: not said */
    int cluster;          /* blocks of a cluster; 0: none */
    bool apart;           /* its first brace stands on a line of its own */
    int n_stages;
    const struct fb_part *stages; /* functions that it calls, in front of it */
    const fb_statement *body;
} fb_function;

/* A function in the part that it plays. */
typedef struct fb_part {
    const fb_function *function;
    bool stage;     /* over one block, or none of the language's threads; else launched */
    bool often;     /* a stage that is called in several places */
    fb_stage keeps; /* a stage's */
    bool code;      /* what it is known by: without comments, and its entry is called @ */
} fb_part;

void fb_part_print(const fb_part *p, fb_str *out);
/* All of it, launched by itself. */
const char *fb_function_text(const fb_function *f, fb_arena *arena);

/* ---- building ---- */

/* Statements, one after the other, in the block that is open. */
typedef struct {
    fb_arena *arena;
    fb_statement *open, *last;
    fb_statement **next;
    fb_str line; /* while it is written; fb_say_end frees it */
} fb_statements;

fb_statements fb_say_to(fb_arena *arena, const fb_statement **body);
void fb_say(fb_statements *to, fb_statement_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
void fb_say_v(fb_statements *to, fb_statement_kind kind, const char *behind, const char *format, va_list ap)
    __attribute__((format(printf, 4, 0)));
/* A block, too. */
void fb_say_loop(fb_statements *to, const fb_for *loop);
/* What follows stands inside the block that was said last, until it is closed by `end` (NULL: by nothing). */
void fb_say_close(fb_statements *to, const char *end);
/* A comment behind what was said last. */
void fb_say_beside(fb_statements *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fb_say_end(fb_statements *to);

#endif
