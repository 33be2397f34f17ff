/* How long the threads of loops over memory take on a GPU, beside the bytes that they move: what one does after the
 * other, and what all of a multiprocessor do. Families pointwise, reduce and copy. */
#ifndef FB_SCHEDULE_THREAD_COST_H
#define FB_SCHEDULE_THREAD_COST_H

#include "nest/parts.h"
#include "schedule/knobs.h"

/* A block begins, loads, has its threads exchange what they have, and stores: 0.6 µs. */
enum { FB_ROUND_CYCLES = 1100 };

typedef struct {
    double wait_us;          /* for one load */
    double alone_us;         /* what one thread does, one after the other, in the section that takes longest */
    double turns_us;         /* the same of all blocks, each time that the multiprocessors are filled with them */
    double turns_if_full_us; /* … if registers left room for all threads */
    double issued_us; /* all instructions of all threads, as fast as a multiprocessor that has its share issues them */
    bool meets;       /* threads of different warps exchange what they have */
    double waves;     /* times that the multiprocessors are filled */
} fb_thread_times;

/* As scheduled with these knobs (NULL: automatic). 0 where the machine's clock is not known. */
fb_thread_times fb_thread_times_of(const fb_nest *nest, const fb_knobs *knobs, const fb_machine *m);

/* All steps of a loop whose threads go through them by themselves (fb_nest_go_through), from memory's first bytes to the last;
 * 0 where the machine's clock is not known. */
double fb_through_us(const fb_nest *nest, const fb_knobs *knobs, const fb_machine *m);

/* Cycles for one row of a product that lies on chip (family gemm, which reduces whole rows there), where each of so many warps
 * of a multiprocessor has one: what a warp waits for, or what all of them compute. */
double fb_warp_row_cycles(const fb_nest *nest, const fb_section *s, double warps);

#endif
