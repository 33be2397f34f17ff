/* A target: a language that kernels are printed in, and what a device that runs them can do. One const row each
 * (target_c.c, target_cuda.c, and one for what is not ours); all data, no function of any device.
 *
 * Nobody asks who a device is. What a pass needs to know it asks of the target as a capability, and what it writes it
 * finds here as a spelling: a new target is a new row, and a new question a new field. Figures that differ from one
 * machine to the next (units, shared memory, rates) are fb_machine's.
 */
#ifndef FB_TARGET_TARGET_H
#define FB_TARGET_TARGET_H

#include "graph/op.h"

#include <stdbool.h>

/* Multiprocessors that a large GPU has, about: only sets how finely work is cut. */
enum { FB_UNITS_ABOUT = 128 };

/* What a machine is made for: the key under which rows are found. Named in device/ and here alone. */
typedef enum { FB_DEVICE_HOST, FB_DEVICE_CUDA, FB_DEVICE_FOREIGN } fb_device_kind;

/* Which printer writes it (code/printer.c). */
typedef enum { FB_LANGUAGE_NONE, FB_LANGUAGE_C, FB_LANGUAGE_CUDA, FB_LANGUAGES } fb_language;

/* How elements of a type are spelt. 16-bit floats are computed in float. */
typedef struct {
    const char *value;  /* type of a variable */
    const char *memory; /* type of an element of a buffer */
    const char *from;   /* "$0": the element as a value */
    const char *to;     /* "$0": the value as an element */
} fb_type_spelling;

typedef struct {
    const fb_type_spelling *type; /* of each dtype */
    const char *index_type;
    const char *infinity, *nan; /* a float's */
    const char *whole;          /* a float of an integer that was made of a float just before; NULL: a cast will do */
    const char *product; /* of two floats that a sum and others read, so that all read the same; NULL: compilers take
                          * products into sums everywhere or nowhere */
    bool
        loads_ahead; /* a load behind a test that all of the innermost loop shares is made before it, of some element where
                       * it fails: compilers make masked loads of it, which are slow where the mask is empty */
    bool own_math; /* slow functions are called by names with a prefix, so that variables may be called exp */
    bool picks;    /* pointers by member are chosen by a function: an array that is indexed would lie in each thread's
                 * memory */
    const char *(*op)(const fb_op_info *op); /* the column of ops.def with the float forms */
} fb_spelling;

typedef struct {
    fb_device_kind kind;
    fb_language language;
    /* names */
    const char *device;  /* the kind in machines and lists of devices: "host", "cuda" */
    const char *name;    /* of the language: "c", "cuda" */
    const char *title;   /* … on screen: "C", "CUDA" */
    const char *ending;  /* … of its files: "c", "cu" */
    const char *called;  /* in a sentence: "the host", "a GPU" */
    const char *units;   /* what its machines have several of: "cores", "multiprocessors" */
    const char *prelude; /* the embedded text that stands before every kernel; NULL: none are written */
    const char *near[2]; /* around the bytes of near memory in a sentence: "a block has", "there" */
    /* threads */
    bool grid; /* a kernel is a grid of blocks of threads, many more than run at once, whose latency hides behind each
                * other; else a function whose loops are vectorised and shared by a team of cores */
    int warp;  /* threads that run in step; 1: each by itself */
    int most_threads; /* of a block; 0: there are no blocks */
    int vector_bytes; /* that one thread moves at once at most; 0: as the compiler likes */
    /* memory */
    bool tiles;    /* contractions are generated: tiles of operands in shared memory, sums in registers */
    bool keeps;    /* shared memory keeps what it has from one step to the next of a loop that is one kernel */
    bool streams;  /* shared memory is filled while other blocks of the multiprocessor compute, and blocks of one row
                    * wait for each other's sums: long rows are cut into parts */
    bool clusters; /* blocks of a kernel may come in clusters, which reach each other's shared memory */
    /* the library */
    bool library_epilogues; /* takes scale, addend, bias and relu into its own call; else a kernel of ours goes over
                             * blocks of its result */
    bool calls_library;     /* kernels call it themselves: for a chain's products, and as stages of a larger kernel */
    /* launching */
    bool grid_barrier; /* all blocks of one kernel can meet, so that a plan or a loop can be one (launch mode mega) */
    bool graphs;       /* many launches as one (launch mode graph) */
    bool copy_engines; /* copies to and from the device run beside kernels, one each way */
    /* tools */
    bool counters;  /* of what a kernel really moved */
    bool assembles; /* its kernels can be compiled where there is no such device, and the machine's code be shown */
    /* Figures that its calibration never measures: keys of fb_machine_guessed, NULL-ended; NULL: it measures all. */
    const char *const *never_measured;
    /* whom it serves */
    bool generates;   /* kernels of ours run there; else it plans for itself */
    bool accelerates; /* it is taken where nobody names a device and there is one */
    bool stands_in;   /* every machine has one, so that plans for another can be looked at and checked there */
    fb_spelling spelling;
} fb_target;

extern const fb_target fb_target_c, fb_target_cuda, fb_target_foreign;

/* The row of a kind. */
const fb_target *fb_target_of(fb_device_kind kind);
/* Those that kernels are written for, in order; NULL: there are no more. */
const fb_target *fb_target_written(int i);
/* By the language's name ("c", "cuda"); NULL: there is none. */
const fb_target *fb_target_find(const char *name);
/* By the kind that lists of devices have ("host", "cuda"; "replay" is a GPU's until it says more); the foreign row for
 * any other. */
const fb_target *fb_target_of_device(const char *kind);

/* The one that stands in for others. */
const fb_target *fb_target_everywhere(void);
/* The one whose machine's code is shown. */
const fb_target *fb_target_assembled(void);

/* C's types and the preludes' fb_f16 and fb_bf16. */
extern const fb_type_spelling fb_c_types[FB_DTYPES];

#endif
