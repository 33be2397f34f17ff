/* The patterns of racy kernels that are published (the kinds of HiRace's and Indigo's suites, and of those that teach
 * CUDA), each written anew in a few lines beside its clean twin. A block has 64 threads; `n` is a permutation of 0 to
 * 63 in memory, `m` 256 zeros, `bytes` 256 of them, `count` 64 zeros; `s` has 64 numbers of shared memory, `dynamic`
 * 256.
 *
 * To add one: a row in the block of its kind. Kinds stand together. */
#ifndef TESTS_UNIT_RACE_PATTERNS_H
#define TESTS_UNIT_RACE_PATTERNS_H

#include <stdbool.h>

/* What the emulator has no need of itself. A fence of a block's scope orders nothing between blocks. */
static const char race_pattern_words[] =
    "SHIM_CALLED static unsigned atomicExch(unsigned *at, unsigned by)\n"
    "{\n    SHIM_SAY(atomic(at, sizeof *at, __builtin_return_address(0)));\n    shim::quietly q;\n"
    "    const unsigned was = *at;\n    *at = by;\n    return was;\n}\n"
    "SHIM_CALLED static int atomicMax(int *at, int by)\n"
    "{\n    SHIM_SAY(atomic(at, sizeof *at, __builtin_return_address(0)));\n    shim::quietly q;\n"
    "    const int was = *at;\n    *at = by > was ? by : was;\n    return was;\n}\n"
    "static void __threadfence_block() {}\n";

/* UNSEEN: a race on a way that the emulator's order of threads never takes, which whoever watches one run cannot see.
 */
enum { ALONE, RACES, UNSEEN };

typedef struct {
    const char *kind, *what, *text;
    int blocks;
    bool at_once;
    int races; /* or not, as above */
} race_pattern;

static const race_pattern race_patterns[] = {
    {"a barrier is missing", "a row is read that all write", "s[i] = n[i]; m[i] = s[(i + 32) % 64];", 1, false, RACES},
    {"a barrier is missing", "with it", "s[i] = n[i]; __syncthreads(); m[i] = s[(i + 32) % 64];", 1, false, ALONE},
    {"a barrier is missing", "written again while others read",
     "s[i] = n[i]; __syncthreads(); const int x = s[63 - i]; s[i] = x + 1; m[i] = s[i];", 1, false, RACES},
    {"a barrier is missing", "with it",
     "s[i] = n[i]; __syncthreads(); const int x = s[63 - i]; __syncthreads(); s[i] = x + 1; m[i] = s[i];", 1, false,
     ALONE},
    {"a barrier is missing", "one writes for all", "if (i == 0) s[0] = n[7]; m[i] = s[0];", 1, false, RACES},
    {"a barrier is missing", "with it", "if (i == 0) s[0] = n[7]; __syncthreads(); m[i] = s[0];", 1, false, ALONE},
    {"a barrier is missing", "one reads what all write",
     "s[i] = n[i]; if (i == 0) for (int k = 0; k < 64; k++) m[0] += s[k];", 1, false, RACES},
    {"a barrier is missing", "with it",
     "s[i] = n[i]; __syncthreads(); if (i == 0) for (int k = 0; k < 64; k++) m[0] += s[k];", 1, false, ALONE},
    {"a barrier is missing", "of two phases the second",
     "s[i] = n[i]; __syncthreads(); dynamic[i] = s[63 - i]; m[i] = dynamic[(i + 1) % 64];", 1, false, RACES},
    {"a barrier is missing", "with both",
     "s[i] = n[i]; __syncthreads(); dynamic[i] = s[63 - i]; __syncthreads(); m[i] = dynamic[(i + 1) % 64];", 1, false,
     ALONE},
    {"a barrier is missing", "from turn to turn",
     "for (int k = 0; k < 3; k++) { s[i] = n[i] + k; __syncthreads(); m[i] += s[(i + 1) % 64]; }", 1, false, RACES},
    {"a barrier is missing", "with one at the turn's end",
     "for (int k = 0; k < 3; k++) { s[i] = n[i] + k; __syncthreads(); m[i] += s[(i + 1) % 64]; __syncthreads(); }", 1,
     false, ALONE},
    {"a barrier is missing", "in memory, not shared memory", "m[i] = n[i]; m[64 + i] = m[63 - i];", 1, false, RACES},
    {"a barrier is missing", "with it", "m[i] = n[i]; __syncthreads(); m[64 + i] = m[63 - i];", 1, false, ALONE},

    {"a barrier of too small a scope", "a warp's for a block's row",
     "s[i] = n[i]; __syncwarp(); m[i] = s[(i + 1) % 64];", 1, false, RACES},
    {"a barrier of too small a scope", "a block's", "s[i] = n[i]; __syncthreads(); m[i] = s[(i + 1) % 64];", 1, false,
     ALONE},
    {"a barrier of too small a scope", "a warp's for a warp's row",
     "s[i] = n[i]; __syncwarp(); m[i] = s[i / 32 * 32 + (i + 1) % 32];", 1, false, ALONE},
    {"a barrier of too small a scope", "each warp at one of its own",
     "s[i] = n[i]; shim::barrier_of(1 + i / 32, 32); m[i] = s[(i + 32) % 64];", 1, false, RACES},
    {"a barrier of too small a scope", "both at the same",
     "s[i] = n[i]; shim::barrier_of(1, 64); m[i] = s[(i + 32) % 64];", 1, false, ALONE},
    {"a barrier of too small a scope", "a block's for the grid's",
     "m[64 * blockIdx.x + i] = n[i]; __threadfence(); __syncthreads(); "
     "m[128 + 64 * blockIdx.x + i] = m[64 * (1 - blockIdx.x) + i];",
     2, true, RACES},
    {"a barrier of too small a scope", "the grid's",
     "m[64 * blockIdx.x + i] = n[i]; fb_meet_all(); m[128 + 64 * blockIdx.x + i] = m[64 * (1 - blockIdx.x) + i];", 2,
     true, ALONE},
    {"a barrier of too small a scope", "a block's fence for the last block",
     "if (i == 0) { m[blockIdx.x] = n[i]; __threadfence_block(); if (atomicAdd(count, 1u) == 1) "
     "{ __threadfence_block(); m[9] = m[0] + m[1]; } }",
     2, false, RACES},
    {"a barrier of too small a scope", "the grid's fence",
     "if (i == 0) { m[blockIdx.x] = n[i]; __threadfence(); if (atomicAdd(count, 1u) == 1) "
     "{ __threadfence(); m[9] = m[0] + m[1]; } }",
     2, false, ALONE},

    {"lanes of a warp", "in lockstep, as of old", "s[i] = n[i]; m[i] = s[i ^ 1];", 1, false, RACES},
    {"lanes of a warp", "which volatile does not change", "volatile int *const v = s; v[i] = n[i]; m[i] = v[i ^ 16];",
     1, false, RACES},
    {"lanes of a warp", "together", "s[i] = n[i]; __syncwarp(); m[i] = s[i ^ 16];", 1, false, ALONE},
    {"lanes of a warp", "a tree in lockstep",
     "s[i] = n[i]; __syncwarp(); for (int k = 16; k; k /= 2) if (i % 32 < k) s[i] += s[i + k];", 1, false, RACES},
    {"lanes of a warp", "a tree, together",
     "s[i] = n[i]; __syncwarp(); for (int k = 16; k; k /= 2) { if (i % 32 < k) s[i] += s[i + k]; __syncwarp(); } "
     "if (i % 32 == 0) m[i] = s[i];",
     1, false, ALONE},
    {"lanes of a warp", "a tree of shuffles, its warps apart",
     "int x = n[i]; for (int k = 16; k; k /= 2) x += __shfl_xor_sync(~0u, x, k); if (i % 32 == 0) s[i / 32] = x; "
     "if (i == 0) m[0] = s[0] + s[1];",
     1, false, RACES},
    {"lanes of a warp", "a tree of shuffles, its warps together",
     "int x = n[i]; for (int k = 16; k; k /= 2) x += __shfl_xor_sync(~0u, x, k); if (i % 32 == 0) s[i / 32] = x; "
     "__syncthreads(); if (i == 0) m[0] = s[0] + s[1];",
     1, false, ALONE},
    {"lanes of a warp", "a leader's word", "if (i % 32 == 0) s[i / 32] = n[i]; m[i] = s[i / 32];", 1, false, RACES},
    {"lanes of a warp", "a leader's word, together",
     "if (i % 32 == 0) s[i / 32] = n[i]; __syncwarp(); m[i] = s[i / 32];", 1, false, ALONE},
    {"lanes of a warp", "the other warp's leader",
     "if (i % 32 == 0) s[i / 32] = n[i]; __syncwarp(); m[i] = s[1 - i / 32];", 1, false, RACES},
    {"lanes of a warp", "a vote orders no memory",
     "s[i] = n[i]; const unsigned w = __ballot_sync(~0u, n[i] & 1); m[i] = s[i ^ 1] + (int)w;", 1, false, RACES},
    {"lanes of a warp", "a vote on what each has",
     "const unsigned w = __ballot_sync(~0u, n[i] & 1); if (i % 32 == 0) m[i / 32] = (int)w;", 1, false, ALONE},

    {"atomics and plain accesses", "a counter set to zero", "if (i == 0) *count = 0; atomicAdd(count, 1u);", 1, false,
     RACES},
    {"atomics and plain accesses", "with a barrier", "if (i == 0) *count = 0; __syncthreads(); atomicAdd(count, 1u);",
     1, false, ALONE},
    {"atomics and plain accesses", "a counter that is read", "atomicAdd(count, 1u); m[i] = (int)*count;", 1, false,
     RACES},
    {"atomics and plain accesses", "with a barrier", "atomicAdd(count, 1u); __syncthreads(); m[i] = (int)*count;", 1,
     false, ALONE},
    {"atomics and plain accesses", "one thread that assigns", "if (i == 5) *count = 7; else atomicAdd(count, 1u);", 1,
     false, RACES},
    {"atomics and plain accesses", "a look before the maximum", "if (m[0] < n[i]) atomicMax(m, n[i]);", 1, false,
     RACES},
    {"atomics and plain accesses", "the maximum alone", "atomicMax(m, n[i]);", 1, false, ALONE},
    {"atomics and plain accesses", "a maximum by hand", "if (m[0] < n[i]) m[0] = n[i];", 1, false, RACES},
    {"atomics and plain accesses", "a byte of an atomic's word",
     "if (i == 9) bytes[2] = 1; else atomicAdd((unsigned *)bytes, 1u);", 1, false, RACES},
    {"atomics and plain accesses", "a byte beside it",
     "if (i == 9) bytes[4] = 1; else atomicAdd((unsigned *)bytes, 1u);", 1, false, ALONE},
    {"atomics and plain accesses", "blocks, of which one resets",
     "if (blockIdx.x) *count = 0; else atomicAdd(count, 1u);", 2, false, RACES},

    {"histograms", "plain", "s[i] = 0; __syncthreads(); s[n[i] % 8]++; __syncthreads(); m[i] = s[i];", 1, false, RACES},
    {"histograms", "atomic",
     "s[i] = 0; __syncthreads(); atomicAdd((unsigned *)&s[n[i] % 8], 1u); __syncthreads(); m[i] = s[i];", 1, false,
     ALONE},
    {"histograms", "zeros that are not waited for",
     "s[i] = 0; atomicAdd((unsigned *)&s[n[i] % 8], 1u); __syncthreads(); m[i] = s[i];", 1, false, RACES},
    {"histograms", "counts that are not waited for",
     "s[i] = 0; __syncthreads(); atomicAdd((unsigned *)&s[n[i] % 8], 1u); m[i] = s[i];", 1, false, RACES},
    {"histograms", "one a warp, joined too soon",
     "dynamic[i] = 0; __syncwarp(); atomicAdd((unsigned *)&dynamic[32 * (i / 32) + n[i] % 8], 1u); __syncwarp(); "
     "if (i < 8) m[i] = dynamic[i] + dynamic[32 + i];",
     1, false, RACES},
    {"histograms", "one a warp",
     "dynamic[i] = 0; __syncwarp(); atomicAdd((unsigned *)&dynamic[32 * (i / 32) + n[i] % 8], 1u); __syncthreads(); "
     "if (i < 8) m[i] = dynamic[i] + dynamic[32 + i];",
     1, false, ALONE},
    {"histograms", "of the grid, plain", "count[n[i] % 8]++;", 2, false, RACES},
    {"histograms", "of the grid", "atomicAdd(&count[n[i] % 8], 1u);", 2, false, ALONE},

    {"neighbours", "from one array to another", "m[i] = n[(i + 63) % 64] + n[i] + n[(i + 1) % 64];", 1, false, ALONE},
    {"neighbours", "in place", "m[i] = m[(i + 63) % 64] + m[(i + 1) % 64];", 1, false, RACES},
    {"neighbours", "in place, by way of shared memory",
     "s[i] = m[i]; __syncthreads(); m[i] = s[(i + 63) % 64] + s[(i + 1) % 64];", 1, false, ALONE},
    {"neighbours", "steps with one barrier",
     "s[i] = n[i]; for (int k = 0; k < 3; k++) { __syncthreads(); const int x = s[(i + 1) % 64]; s[i] = x; }", 1, false,
     RACES},
    {"neighbours", "steps with two",
     "s[i] = n[i]; for (int k = 0; k < 3; k++) { __syncthreads(); const int x = s[(i + 1) % 64]; __syncthreads(); s[i] "
     "= x; }",
     1, false, ALONE},
    {"neighbours", "red and black without a barrier",
     "s[i] = n[i]; __syncthreads(); for (int c = 0; c < 2; c++) if (i % 2 == c) s[i] = s[(i + 1) % 64] + s[(i + 63) % "
     "64];",
     1, false, RACES},
    {"neighbours", "red and black",
     "s[i] = n[i]; __syncthreads(); for (int c = 0; c < 2; c++) { if (i % 2 == c) s[i] = s[(i + 1) % 64] + s[(i + 63) "
     "% 64]; "
     "__syncthreads(); }",
     1, false, ALONE},
    {"neighbours", "three colours on a ring of 64",
     "s[i] = n[i]; __syncthreads(); for (int c = 0; c < 3; c++) { if (i % 3 == c) s[i] = s[(i + 1) % 64] + s[(i + 63) "
     "% 64]; "
     "__syncthreads(); }",
     1, false, RACES},
    {"neighbours", "of another block", "m[64 * blockIdx.x + i] = m[(64 * blockIdx.x + i + 1) % 128] + n[i];", 2, false,
     RACES},
    {"neighbours", "of another block, to other memory",
     "m[128 + 64 * blockIdx.x + i] = m[(64 * blockIdx.x + i + 1) % 128] + n[i];", 2, false, ALONE},

    {"reduction trees", "no barrier",
     "s[i] = n[i]; __syncthreads(); for (int k = 32; k; k /= 2) if (i < k) s[i] += s[i + k];", 1, false, RACES},
    {"reduction trees", "one a step",
     "s[i] = n[i]; __syncthreads(); for (int k = 32; k; k /= 2) { if (i < k) s[i] += s[i + k]; __syncthreads(); } "
     "if (i == 0) m[0] = s[0];",
     1, false, ALONE},
    {"reduction trees", "none before the first step",
     "s[i] = n[i]; for (int k = 32; k; k /= 2) { if (i < k) s[i] += s[i + k]; __syncthreads(); }", 1, false, RACES},
    {"reduction trees", "the last warp in lockstep",
     "s[i] = n[i]; __syncthreads(); for (int k = 32; k; k /= 2) { if (i < k) s[i] += s[i + k]; if (k > 16) "
     "__syncthreads(); }",
     1, false, RACES},
    {"reduction trees", "the last warp by itself",
     "s[i] = n[i]; __syncthreads(); for (int k = 32; k; k /= 2) { if (i < k) s[i] += s[i + k]; "
     "if (k > 16) __syncthreads(); else __syncwarp(); } if (i == 0) m[0] = s[0];",
     1, false, ALONE},
    {"reduction trees", "a step of one thread too many",
     "dynamic[i] = n[i]; dynamic[64 + i] = 0; __syncthreads(); "
     "for (int k = 32; k; k /= 2) { if (i <= k) dynamic[i] += dynamic[i + k]; __syncthreads(); }",
     1, false, RACES},
    {"reduction trees", "its last step left out",
     "s[i] = n[i]; __syncthreads(); for (int k = 32; k > 1; k /= 2) { if (i < k) s[i] += s[i + k]; __syncthreads(); } "
     "if (i == 0) s[0] += s[1]; m[i] = s[0];",
     1, false, RACES},
    {"reduction trees", "with a barrier behind it",
     "s[i] = n[i]; __syncthreads(); for (int k = 32; k > 1; k /= 2) { if (i < k) s[i] += s[i + k]; __syncthreads(); } "
     "if (i == 0) s[0] += s[1]; __syncthreads(); m[i] = s[0];",
     1, false, ALONE},
    {"reduction trees", "interleaved, without a barrier",
     "s[i] = n[i]; __syncthreads(); for (int k = 1; k < 64; k *= 2) if (i % (2 * k) == 0) s[i] += s[i + k];", 1, false,
     RACES},
    {"reduction trees", "interleaved",
     "s[i] = n[i]; for (int k = 1; k < 64; k *= 2) { __syncthreads(); if (i % (2 * k) == 0) s[i] += s[i + k]; }", 1,
     false, ALONE},
    {"reduction trees", "used again too soon",
     "for (int t = 0; t < 2; t++) { s[i] = n[i]; __syncthreads(); for (int k = 32; k; k /= 2) "
     "{ if (i < k) s[i] += s[i + k]; __syncthreads(); } m[i] += s[0]; }",
     1, false, RACES},

    {"scans", "in place",
     "s[i] = n[i]; __syncthreads(); for (int k = 1; k < 64; k *= 2) { if (i >= k) s[i] += s[i - k]; __syncthreads(); }",
     1, false, RACES},
    {"scans", "by registers",
     "s[i] = n[i]; for (int k = 1; k < 64; k *= 2) { __syncthreads(); const int x = i >= k ? s[i - k] : 0; "
     "__syncthreads(); "
     "s[i] += x; } m[i] = s[i];",
     1, false, ALONE},
    {"scans", "by registers, one barrier",
     "s[i] = n[i]; __syncthreads(); for (int k = 1; k < 64; k *= 2) { const int x = i >= k ? s[i - k] : 0; "
     "__syncthreads(); "
     "s[i] += x; }",
     1, false, RACES},
    {"scans", "by two rows",
     "dynamic[i] = n[i]; for (int k = 1, t = 0; k < 64; k *= 2, t ^= 64) { __syncthreads(); "
     "dynamic[64 - t + i] = dynamic[t + i] + (i >= k ? dynamic[t + i - k] : 0); } m[i] = dynamic[i];",
     1, false, ALONE},
    {"scans", "by two rows, without a barrier",
     "dynamic[i] = n[i]; for (int k = 1, t = 0; k < 64; k *= 2, t ^= 64) "
     "dynamic[64 - t + i] = dynamic[t + i] + (i >= k ? dynamic[t + i - k] : 0); m[i] = dynamic[i];",
     1, false, RACES},

    {"double buffers", "two, one barrier a turn",
     "for (int t = 0; t < 4; t++) { dynamic[t % 2 * 64 + i] = n[i] + t; __syncthreads(); m[i] += dynamic[t % 2 * 64 + "
     "63 - i]; }",
     1, false, ALONE},
    {"double buffers", "one, one barrier a turn",
     "for (int t = 0; t < 4; t++) { dynamic[i] = n[i] + t; __syncthreads(); m[i] += dynamic[63 - i]; }", 1, false,
     RACES},
    {"double buffers", "two, changed each second turn",
     "for (int t = 0; t < 4; t++) { dynamic[t / 2 * 64 + i] = n[i] + t; __syncthreads(); m[i] += dynamic[t / 2 * 64 + "
     "63 - i]; }",
     1, false, RACES},
    {"double buffers", "two, no barrier",
     "for (int t = 0; t < 4; t++) { dynamic[t % 2 * 64 + i] = n[i] + t; m[i] += dynamic[t % 2 * 64 + 63 - i]; }", 1,
     false, RACES},
    {"double buffers", "the next while this one is read",
     "dynamic[i] = n[i]; __syncthreads(); for (int t = 0; t < 4; t++) { dynamic[(t + 1) % 2 * 64 + i] = n[i] + t; "
     "m[i] += dynamic[t % 2 * 64 + 63 - i]; __syncthreads(); }",
     1, false, ALONE},
    {"double buffers", "this one while it is read",
     "dynamic[i] = dynamic[64 + i] = n[i]; __syncthreads(); for (int t = 0; t < 4; t++) { dynamic[t % 2 * 64 + i] = "
     "n[i] + t; "
     "m[i] += dynamic[t % 2 * 64 + 63 - i]; __syncthreads(); }",
     1, false, RACES},
    {"double buffers", "the next and no barrier behind",
     "dynamic[i] = n[i]; __syncthreads(); for (int t = 0; t < 4; t++) { dynamic[(t + 1) % 2 * 64 + i] = n[i] + t; "
     "m[i] += dynamic[t % 2 * 64 + 63 - i]; }",
     1, false, RACES},

#define GET(t) "if (i < 16) fb_copy_16(dynamic + (" t ") % 2 * 64 + 4 * i, n + 4 * i); fb_copies_mark(); "
    {"copies in the background", "waited for, then met, then the next",
     GET("0") "for (int t = 0; t < 4; t++) { fb_copies_wait<0>(); __syncthreads(); " GET(
         "t + 1") "m[i] += dynamic[t % 2 * 64 + 63 - i]; } fb_copies_wait<0>();",
     1, false, ALONE},
    {"copies in the background", "one left too many",
     GET("0") "for (int t = 0; t < 4; t++) { fb_copies_wait<1>(); __syncthreads(); " GET(
         "t + 1") "m[i] += dynamic[t % 2 * 64 + 63 - i]; } fb_copies_wait<0>();",
     1, false, RACES},
    {"copies in the background", "not met",
     GET("0") "for (int t = 0; t < 4; t++) { fb_copies_wait<0>(); " GET(
         "t + 1") "m[i] += dynamic[t % 2 * 64 + 63 - i]; } fb_copies_wait<0>();",
     1, false, RACES},
    {"copies in the background", "the next before all have read",
     GET("0") "for (int t = 0; t < 4; t++) { " GET(
         "t + 1") "fb_copies_wait<1>(); __syncthreads(); "
                  "m[i] += dynamic[t % 2 * 64 + 63 - i]; } fb_copies_wait<0>();",
     1, false, RACES},
    {"copies in the background", "the next once all have read",
     GET("0") "for (int t = 0; t < 4; t++) { " GET(
         "t + 1") "fb_copies_wait<1>(); __syncthreads(); "
                  "m[i] += dynamic[t % 2 * 64 + 63 - i]; __syncthreads(); } fb_copies_wait<0>();",
     1, false, ALONE},
    {"copies in the background", "over what is still read",
     "dynamic[i] = i; __syncthreads(); m[i] = dynamic[63 - i]; " GET("0") "fb_copies_wait<0>();", 1, false, RACES},
#undef GET

    {"blocks of a grid", "the last one sums, no fence behind the store",
     "if (i == 0) { m[blockIdx.x] = n[i]; if (atomicAdd(count, 1u) == 2) { __threadfence(); m[9] = m[0] + m[1] + m[2]; "
     "} }",
     3, false, RACES},
    {"blocks of a grid", "no fence before the loads",
     "if (i == 0) { m[blockIdx.x] = n[i]; __threadfence(); if (atomicAdd(count, 1u) == 2) m[9] = m[0] + m[1] + m[2]; }",
     3, false, RACES},
    {"blocks of a grid", "both fences",
     "if (i == 0) { m[blockIdx.x] = n[i]; __threadfence(); if (atomicAdd(count, 1u) == 2) "
     "{ __threadfence(); m[9] = m[0] + m[1] + m[2]; } }",
     3, false, ALONE},
    {"blocks of a grid", "a counter by hand",
     "if (i == 0) { m[blockIdx.x] = n[i]; __threadfence(); if ((*count)++ == 2) { __threadfence(); m[9] = m[0] + m[1]; "
     "} }",
     3, false, RACES},
    {"blocks of a grid", "a flag that is atomic",
     "if (i == 0 && blockIdx.x == 0) { m[0] = 5; __threadfence(); atomicExch(count, 1u); } "
     "if (i == 0 && blockIdx.x && atomicAdd(count, 0u)) { __threadfence(); m[1] = m[0]; }",
     2, false, ALONE},
    {"blocks of a grid", "a flag that is a variable",
     "if (i == 0 && blockIdx.x == 0) { m[0] = 5; __threadfence(); *(volatile unsigned *)count = 1; } "
     "if (i == 0 && blockIdx.x && *(volatile unsigned *)count) { __threadfence(); m[1] = m[0]; }",
     2, false, RACES},
    {"blocks of a grid", "a flag before what it says",
     "if (i == 0 && blockIdx.x == 0) { atomicExch(count, 1u); __threadfence(); m[0] = 5; } "
     "if (i == 0 && blockIdx.x && atomicAdd(count, 0u)) { __threadfence(); m[1] = m[0]; }",
     2, false, RACES},
    {"blocks of a grid", "a sum by hand", "if (i == 0) m[0] += n[blockIdx.x];", 3, false, RACES},
    {"blocks of a grid", "a sum of atomics", "if (i == 0) atomicAdd(count, (unsigned)n[blockIdx.x]);", 3, false, ALONE},
    {"blocks of a grid", "turns with one meeting",
     "for (int t = 0; t < 3; t++) { m[64 * blockIdx.x + i] = n[i] + t; fb_meet_all(); "
     "m[128 + 64 * blockIdx.x + i] += m[64 * (1 - blockIdx.x) + i]; }",
     2, true, RACES},
    {"blocks of a grid", "turns with two",
     "for (int t = 0; t < 3; t++) { m[64 * blockIdx.x + i] = n[i] + t; fb_meet_all(); "
     "m[128 + 64 * blockIdx.x + i] += m[64 * (1 - blockIdx.x) + i]; fb_meet_all(); }",
     2, true, ALONE},

    {"tiles that overlap", "side by side", "m[64 * blockIdx.x + i] = n[i];", 3, false, ALONE},
    {"tiles that overlap", "by four", "m[60 * blockIdx.x + i] = n[i];", 3, false, RACES},
    {"tiles that overlap", "a rim that is read", "m[64 * blockIdx.x + i] = n[i] + n[(i + 1) % 64];", 2, false, ALONE},
    {"tiles that overlap", "a rim that is written",
     "m[64 * blockIdx.x + i] = n[i]; if (i < 2) m[64 * blockIdx.x + 64 + i] = n[i];", 2, false, RACES},
    {"tiles that overlap", "a rim in a room of its own",
     "m[66 * blockIdx.x + i] = n[i]; if (i < 2) m[66 * blockIdx.x + 64 + i] = n[i];", 2, false, ALONE},
    {"tiles that overlap", "of warps in shared memory",
     "s[28 * (i / 32) + i % 32] = n[i]; __syncwarp(); m[i] = s[28 * (i / 32) + i % 32];", 1, false, RACES},
    {"tiles that overlap", "a stride that is forgotten", "m[i] = n[i] + (int)blockIdx.x;", 2, false, RACES},
    {"tiles that overlap", "transposed", "s[i] = n[i]; __syncthreads(); m[i] = s[i % 8 * 8 + i / 8];", 1, false, ALONE},
    {"tiles that overlap", "transposed without a barrier", "s[i] = n[i]; m[i] = s[i % 8 * 8 + i / 8];", 1, false,
     RACES},
    {"tiles that overlap", "transposed in place", "const int x = m[i]; m[i % 8 * 8 + i / 8] = x;", 1, false, RACES},
    {"tiles that overlap", "transposed in place behind a barrier",
     "const int x = m[i]; __syncthreads(); m[i % 8 * 8 + i / 8] = x;", 1, false, ALONE},

    {"an index out by one", "the next one's element", "m[i + 1] = n[i] + m[i];", 1, false, RACES},
    {"an index out by one", "its own", "m[i] = n[i] + m[i];", 1, false, ALONE},
    {"an index out by one", "an end of its own behind each", "m[i] = n[i]; m[i + 1] = 0;", 1, false, RACES},
    {"an index out by one", "one end behind all", "m[i] = n[i]; if (i == 63) m[64] = 0;", 1, false, ALONE},
    {"an index out by one", "two elements each and a third", "for (int k = 2 * i; k <= 2 * i + 2; k++) m[k] = k;", 1,
     false, RACES},
    {"an index out by one", "two elements each", "for (int k = 2 * i; k < 2 * i + 2; k++) m[k] = k;", 1, false, ALONE},
    {"an index out by one", "uneven shares that share an end",
     "for (int k = i * 100 / 64; k <= (i + 1) * 100 / 64; k++) m[k]++;", 1, false, RACES},
    {"an index out by one", "uneven shares", "for (int k = i * 100 / 64; k < (i + 1) * 100 / 64; k++) m[k]++;", 1,
     false, ALONE},
    {"an index out by one", "a row's end is the next row's beginning",
     "if (i < 60) for (int k = 0; k <= 4; k++) dynamic[4 * i + k] = i;", 1, false, RACES},
    {"an index out by one", "words apart, bytes too near",
     "*(short *)(bytes + 2 * i) = 1; if (i == 7) *(int *)(bytes + 16) = 2;", 1, false, RACES},
    {"an index out by one", "a row that begins at one", "s[i] = n[i]; __syncthreads(); if (i) m[i - 1] = s[i];", 1,
     false, ALONE},

    {"a barrier under a condition", "one that does not hold",
     "s[i] = n[i]; if (n[0] > 99) __syncthreads(); m[i] = s[63 - i];", 1, false, RACES},
    {"a barrier under a condition", "one that holds", "s[i] = n[i]; if (n[0] < 99) __syncthreads(); m[i] = s[63 - i];",
     1, false, ALONE},
    {"a barrier under a condition", "the first turn's",
     "for (int t = 0; t < 3; t++) { s[i] = n[i] + t; if (!t) __syncthreads(); m[i] += s[63 - i]; if (!t) "
     "__syncthreads(); }",
     1, false, RACES},
    {"a barrier under a condition", "all but the last turn's",
     "for (int t = 0; t < 3; t++) { s[i] = n[i] + t; if (t < 2) __syncthreads(); m[i] += s[63 - i]; if (t < 2) "
     "__syncthreads(); }",
     1, false, RACES},
    {"a barrier under a condition", "all but the one behind the last turn",
     "for (int t = 0; t < 3; t++) { s[i] = n[i] + t; __syncthreads(); m[i] += s[63 - i]; if (t < 2) __syncthreads(); }",
     1, false, ALONE},
    {"a barrier under a condition", "a way that goes round it",
     "for (int t = 0; t < 3; t++) { s[i] = n[i] + t; if (t == 1) { m[i] = s[63 - i]; continue; } __syncthreads(); "
     "m[i] += s[63 - i]; __syncthreads(); }",
     1, false, RACES},
    {"a barrier under a condition", "warps at different ones",
     "s[i] = n[i]; if (i < 32) shim::barrier_of(1, 32); else shim::barrier_of(2, 32); m[i] = s[63 - i];", 1, false,
     RACES},
    {"a barrier under a condition", "threads that leave behind it",
     "s[i] = n[i]; __syncthreads(); if (i >= 32) return; m[i] = s[i + 32];", 1, false, ALONE},

    {"graphs and work lists", "pull", "int x = 0; for (int k = 1; k < 4; k++) x += n[(i + k) % 64]; m[i] = x;", 1,
     false, ALONE},
    {"graphs and work lists", "pull in place", "int x = 0; for (int k = 1; k < 4; k++) x += m[(i + k) % 64]; m[i] = x;",
     1, false, RACES},
    {"graphs and work lists", "push", "m[n[i]] += 1; m[(n[i] + 1) % 64] += 1;", 1, false, RACES},
    {"graphs and work lists", "push by atomics",
     "atomicAdd((unsigned *)&m[n[i]], 1u); atomicAdd((unsigned *)&m[(n[i] + 1) % 64], 1u);", 1, false, ALONE},
    {"graphs and work lists", "push by atomics on one side",
     "atomicAdd((unsigned *)&m[n[i]], 1u); m[(n[i] + 1) % 64] += 1;", 1, false, RACES},
    {"graphs and work lists", "each to another", "m[n[i]] = i;", 1, false, ALONE},
    {"graphs and work lists", "two to the same", "m[n[i] / 2] = i;", 1, false, RACES},
    {"graphs and work lists", "a list", "if (n[i] % 3 == 0) m[atomicAdd(count, 1u)] = i;", 2, false, ALONE},
    {"graphs and work lists", "a list whose end is counted by hand", "if (n[i] % 3 == 0) m[(*count)++] = i;", 1, false,
     RACES},
    {"graphs and work lists", "a list that is read while it grows", "m[atomicAdd(count, 1u)] = i; m[64 + i] = m[i];", 1,
     false, UNSEEN},
    {"graphs and work lists", "a list that is read behind a barrier",
     "m[atomicAdd(count, 1u)] = i; __syncthreads(); m[64 + i] = m[i];", 1, false, ALONE},
    {"graphs and work lists", "paths made shorter", "m[i] = n[i]; __syncthreads(); m[i] = m[m[i]];", 1, false, RACES},
    {"graphs and work lists", "paths made shorter in two steps",
     "m[i] = n[i]; __syncthreads(); const int x = m[m[i]]; __syncthreads(); m[i] = x;", 1, false, ALONE},
    {"graphs and work lists", "marked by hand", "if (!m[n[i] / 2]) { m[n[i] / 2] = 1; m[64 + n[i] / 2] = i; }", 1,
     false, RACES},
    {"graphs and work lists", "claimed", "if (!atomicExch(&count[n[i] / 2], 1u)) m[64 + n[i] / 2] = i;", 1, false,
     ALONE},
    {"graphs and work lists", "claimed by another, and read",
     "if (!atomicExch(&count[n[i] / 2], 1u)) m[64 + n[i] / 2] = i; else m[128 + i] = m[64 + n[i] / 2];", 1, false,
     RACES},

    {"warps that make and take", "in turn",
     "for (int t = 0; t < 2; t++) { if (i < 32) s[i] = n[i] + t; shim::barrier_of(1, 64); if (i >= 32) m[i] += s[i - "
     "32]; "
     "shim::barrier_of(2, 64); }",
     1, false, ALONE},
    {"warps that make and take", "the maker does not wait",
     "for (int t = 0; t < 2; t++) { if (i < 32) s[i] = n[i] + t; shim::barrier_of(1, 64); if (i >= 32) m[i] += s[i - "
     "32]; }",
     1, false, RACES},
    {"warps that make and take", "the taker does not wait",
     "if (i < 32) s[i] = n[i]; else m[i] = s[i - 32]; __syncthreads();", 1, false, RACES},
    {"warps that make and take", "two rooms, one barrier",
     "for (int t = 0; t < 4; t++) { if (i < 32) s[t % 2 * 32 + i] = n[i] + t; shim::barrier_of(1, 64); "
     "if (i >= 32) m[i] += s[t % 2 * 32 + i - 32]; }",
     1, false, ALONE},
    {"warps that make and take", "two rooms, no barrier each second turn",
     "for (int t = 0; t < 4; t++) { if (i < 32) s[t % 2 * 32 + i] = n[i] + t; if (t % 2) shim::barrier_of(1, 64); "
     "if (i >= 32) m[i] += s[t % 2 * 32 + i - 32]; }",
     1, false, RACES},
};

enum { RACE_PATTERNS = sizeof race_patterns / sizeof *race_patterns };

#endif
