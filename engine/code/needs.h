/* What a kernel asks of those who compile, load and launch it, beside its text. Decided where the kernel is written;
 * devices, exports and the emulator read it, and nobody looks for it in the text. */
#ifndef FB_CODE_NEEDS_H
#define FB_CODE_NEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts that some kernels stand on, beside those of their family (code/printer.h), in the order in which they follow
 * each other. */
typedef enum {
    FB_TEXT_WGMMA,
    FB_TEXT_GEMM_WIDE,
    FB_TEXT_GEMM_TMA,
    FB_TEXT_ATTENTION,
    FB_TEXT_SORTED,
    FB_TEXT_CLUSTER,
    FB_TEXT_CLUSTER_WIDE,
    FB_TEXT_CLUSTER_F32,
    FB_TEXT_LONG,
    FB_TEXT_DIRECT,
    FB_TEXT_SCAN,
    FB_TEXT_RANKED,
    FB_TEXT_ADDED,
    FB_TEXT_BANDS,
    FB_TEXTS
} fb_text;

/* Which blocks wait for each other while they run; these are all there at once. */
typedef enum {
    FB_MEETS_NOBODY,
    FB_MEETS_CLUSTER, /* those of its cluster, which the hardware starts together or not at all */
    FB_MEETS_ROW,     /* so many side by side, `row` */
    FB_MEETS_GRID,    /* all: a cooperative launch of as many blocks as there is room for, grid[0] at most */
} fb_meeting;

typedef struct {
    unsigned texts;  /* bits 1 << fb_text */
    bool warpgroups; /* of the compiler: instructions of whole warpgroups, which one architecture alone has */
    int cluster;     /* blocks of a cluster, whose shared memory all of them reach; 0: there are none */
    fb_meeting meets;
    int row;             /* FB_MEETS_ROW: blocks that wait for each other */
    bool any_order;      /* floats are summed in whatever order threads come: last bits differ from run to run */
    int64_t block_bytes; /* on the host: what each thread takes for blocks of a chain's rows, and to sort */
} fb_needs;

/* With the texts that this one stands on. */
static inline void fb_needs_text(fb_needs *n, fb_text text)
{
    static const unsigned below[FB_TEXTS] = {
        [FB_TEXT_GEMM_WIDE] = 1u << FB_TEXT_WGMMA,
        [FB_TEXT_GEMM_TMA] = 1u << FB_TEXT_WGMMA,
        [FB_TEXT_ATTENTION] = 1u << FB_TEXT_WGMMA,
        [FB_TEXT_RANKED] = 1u << FB_TEXT_SORTED | 1u << FB_TEXT_SCAN,
        [FB_TEXT_ADDED] = 1u << FB_TEXT_SORTED,
        [FB_TEXT_BANDS] = 1u << FB_TEXT_LONG,
        [FB_TEXT_CLUSTER_WIDE] = 1u << FB_TEXT_CLUSTER | 1u << FB_TEXT_WGMMA,
        [FB_TEXT_CLUSTER_F32] = 1u << FB_TEXT_CLUSTER,
    };
    n->texts |= 1u << text | below[text];
}

/* What a block of so many elements counts for in block_bytes. */
static inline int64_t fb_needs_block(int64_t n, size_t size)
{
    return (n * (int64_t)size + 63) / 64 * 64;
}

/* As a part of a larger kernel (code/merge.h). */
typedef struct {
    int kept_shared;   /* bytes of shared memory, beside the kernel's, that stay as they are from step to step */
    bool fetches;      /* asks by itself for what the next steps read */
    bool through;      /* goes through all steps of the loop that it is the body of; how many is an argument */
    bool alone;        /* no warp of its blocks waits for another one, nor shares memory with it */
    const char *round; /* a step of a recurrence in clusters: the type of what its threads keep from step to step;
                        * NULL: it is none */
} fb_stage;

#endif
