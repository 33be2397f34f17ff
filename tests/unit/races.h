/* Finds missing barriers in emulated kernels (cuda_shim.hpp): two accesses of one place by different threads, one of
 * them a write, that nothing orders are a race, however the emulator happened to run them.
 *
 * Every thread has a vector clock; marks at every place of the watched memory say who came by and when. What orders:
 * barriers, named ones too, the threads that meet at them; __syncwarp a warp's lanes (shuffles and tensor cores'
 * instructions do not); counts (mbarrier) those that arrived before those that waited; an atomic behind a fence those
 * that fenced and then met the thread that does it, before those that fence once they know its result. Copies in the
 * background, and what wgmma reads, go on until they are waited for. Blocks of one launch are in no order, and of a
 * merged kernel several are there at once. Launches are in order. Not looked at: registers, and the fence between what
 * is written and what wgmma reads.
 *
 * Only emulate_cuda.h calls this; there is one state, of one thread. */
#ifndef TESTS_UNIT_RACES_H
#define TESTS_UNIT_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RACES_READ, RACES_WRITE, RACES_ATOMIC };  /* what */
enum { RACES_ITSELF, RACES_COPIES, RACES_WIDE }; /* by whom: the thread, its copies in the background, its wgmmas */
enum { RACES_NOBODY = ~0u };

/* What the emulator calls; cuda_shim.hpp has the same declaration. A thread of block b of those that are there at once
 * is number b * threads + its own. */
typedef struct races_ops {
    void (*launch)(const char *kernel, unsigned threads, unsigned blocks, const void *dynamic, size_t n_dynamic,
                   const void *statics, size_t n_statics, const void *device, size_t n_device);
    void (*begin)(void); /* the next block, or those that are there at once */
    void (*thread)(unsigned now);
    void (*access)(const void *at, size_t bytes, int what, int by, const void *site);
    void (*meet)(const unsigned *threads, unsigned n);
    void (*together)(const unsigned *lanes, unsigned n); /* a shuffle, say */
    void (*fence)(void);
    void (*atomic)(const void *at, size_t bytes, const void *site); /* it has fences of its own if they are called */
    void (*mark)(int by);                                           /* what is in the background so far is one batch */
    void (*wait)(int by, unsigned left);
    void (*arrive)(const void *count, int by, bool last); /* last: of its phase */
    void (*await)(const void *count);
    /* whose shared memory is meant from here on; RACES_NOBODY: the thread's own block's */
    void (*reach)(unsigned block);
} races_ops;

extern const races_ops races_emulated;

/* The memory of the next launches: what was named before is forgotten. All of it lies close together. */
void races_forget(void);
void races_name(const char *name, const void *at, size_t bytes);

/* The races since the last call, one a line, or NULL; the unit's library must still be loaded. The caller frees it. */
char *races_found(void);

#endif
