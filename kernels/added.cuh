// index_add by atomic additions: each point is added to its row where that lies, in whatever order threads come to it. No
// point is looked at twice and nothing is sorted; what that costs is the order: sums of floats differ in their last bits
// from run to run.
//
// Where the result is the sums and nothing else, its zeros are stored, all blocks meet, and points are added to the result
// itself. Else they are added to words beside it, all meet, and each row is made of its sums, which are left as zeros for
// the next launch: or are made zeros first, where they are many, and all meet once more.

#ifndef FB_ADDED
#define FB_ADDED

// ---- PTX ----
// Neighbours in one go, as GPUs of compute capability 9.0 and later can; `at` is a multiple of their size.
FB_DEVICE void fb_add_vector(float *at, const float (&x)[2])
{
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(at), "f"(x[0]), "f"(x[1]) : "memory");
#else
    for (int v = 0; v < 2; v++) atomicAdd(at + v, x[v]);
#endif
}

FB_DEVICE void fb_add_vector(float *at, const float (&x)[4])
{
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
                 : "memory");
#else
    for (int v = 0; v < 4; v++) atomicAdd(at + v, x[v]);
#endif
}
// ---- end of PTX ----

FB_DEVICE void fb_add_one(float *at, float x) { atomicAdd(at, x); }
FB_DEVICE void fb_add_one(double *at, double x) { atomicAdd(at, x); }
FB_DEVICE void fb_add_one(int32_t *at, int32_t x) { atomicAdd((unsigned *)at, (unsigned)x); }
FB_DEVICE void fb_add_one(int64_t *at, int64_t x) { atomicAdd((unsigned long long *)at, (unsigned long long)x); }

template <class SUM, int EACH> FB_DEVICE void fb_add_atomically(SUM *at, const fb_pack<SUM, EACH> &values)
{
#pragma unroll
    for (int v = 0; v < EACH; v++) fb_add_one(at + v, values.at[v]);
}

template <int EACH> FB_DEVICE void fb_add_atomically(float *at, const fb_pack<float, EACH> &values)
{
    constexpr int WIDE = EACH % 4 == 0 ? 4 : EACH % 2 == 0 ? 2 : 1;
#pragma unroll
    for (int v = 0; v < EACH; v += WIDE) {
        if constexpr (WIDE > 1) {
            float x[WIDE];
#pragma unroll
            for (int k = 0; k < WIDE; k++) x[k] = values.at[v + k];
            fb_add_vector(at + v, x);
        } else {
            fb_add_one(at + v, values.at[v]);
        }
    }
}

template <bool IS_SMALL> struct fb_added_number {
    typedef int64_t type;
};

template <> struct fb_added_number<true> {
    typedef int type; // 32 bits divide several times as fast
};

// How BLOCKS of THREADS go over a result of ROWS rows of WIDTH elements, EACH neighbours at a time, and over POINTS of them.
template <int THREADS, int WIDTH, int EACH, int64_t POINTS, int64_t ROWS, int BLOCKS> struct fb_added_shares {
    static constexpr int GROUPS = (WIDTH + EACH - 1) / EACH, AHEAD = EACH > 4 ? 2 : 4, STEP = BLOCKS * THREADS;
    static constexpr int64_t TURN = (int64_t)AHEAD * STEP, LIMIT = 0x7fffffff - 2 * TURN;
    typedef typename fb_added_number<POINTS * GROUPS < LIMIT && ROWS * GROUPS < LIMIT>::type number;
};

// add(row, group, values) for every point that has a row. A thread waits for a few points' loads together.
template <class SHARES, int THREADS, int EACH, int64_t POINTS, int64_t ROWS, class SUM, class AT, class ROW, class VALUES,
          class ADD>
FB_DEVICE void fb_added_points(unsigned block, const ROW &row_at, const VALUES &values_at, const ADD &add)
{
    typedef typename SHARES::number number;
    constexpr int GROUPS = SHARES::GROUPS, AHEAD = SHARES::AHEAD, STEP = SHARES::STEP;
    constexpr number ALL = POINTS * GROUPS;
    for (number i = (number)(block * THREADS + threadIdx.x); i < ALL; i += AHEAD * STEP) {
        fb_pack<SUM, EACH> values[AHEAD];
        int64_t row[AHEAD];
#pragma unroll
        for (int p = 0; p < AHEAD; p++) {
            const bool is = i + p * STEP < ALL;
            const number at = is ? i + p * STEP : 0; // else it would wait for the test
            row[p] = row_at((AT)(at / GROUPS));
            values[p] = values_at((AT)(at / GROUPS), (int)(at % GROUPS));
            if (!is || row[p] >= ROWS) row[p] = -1;
        }
#pragma unroll
        for (int p = 0; p < AHEAD; p++)
            if (row[p] >= 0) add(row[p], (int)((i + p * STEP) % GROUPS), values[p]);
    }
}

// A block adds a small result's points up for itself, before it adds what it has to what all have: many additions to few
// lines of memory wait for each other there.
template <class SHARES, int THREADS, int EACH, int64_t POINTS, int64_t ROWS, class SUM, class AT, class ROW, class VALUES,
          class ADD>
FB_DEVICE void fb_added_near(unsigned block, const ROW &row_at, const VALUES &values_at, const ADD &add)
{
    constexpr int GROUPS = SHARES::GROUPS, ALL = (int)(ROWS * GROUPS);
    __shared__ SUM near[ROWS * EACH][GROUPS]; // a row's neighbours a group apart: lanes add to different banks
    for (int i = threadIdx.x; i < ALL * EACH; i += THREADS) near[0][i] = 0;
    fb_meet<THREADS>();
    fb_added_points<SHARES, THREADS, EACH, POINTS, ROWS, SUM, AT>(
        block, row_at, values_at, [&](int64_t row, int group, const fb_pack<SUM, EACH> &values) {
#pragma unroll
            for (int v = 0; v < EACH; v++) fb_add_one(&near[row * EACH + v][group], values.at[v]);
        });
    fb_meet<THREADS>();
    for (int i = threadIdx.x; i < ALL; i += THREADS) {
        fb_pack<SUM, EACH> own;
#pragma unroll
        for (int v = 0; v < EACH; v++) own.at[v] = near[i / GROUPS * EACH + v][i % GROUPS];
        add(i / GROUPS, i % GROUPS, own);
    }
}

// Points to what all have, by way of what a block has where NEAR.
template <class SHARES, bool NEAR, int THREADS, int EACH, int64_t POINTS, int64_t ROWS, class SUM, class AT, class ROW,
          class VALUES, class ADD>
FB_DEVICE void fb_added_to(unsigned block, const ROW &row_at, const VALUES &values_at, const ADD &add)
{
    if constexpr (NEAR)
        fb_added_near<SHARES, THREADS, EACH, POINTS, ROWS, SUM, AT>(block, row_at, values_at, add);
    else
        fb_added_points<SHARES, THREADS, EACH, POINTS, ROWS, SUM, AT>(block, row_at, values_at, add);
}

// BLOCKS add up all POINTS, and this one is `block`. row_at, values_at and finish are those of fb_sorted; sums: a group of
// neighbours after the other, 0 at first and afterwards unless CLEARS; arrivals: 0 at first. Sums are read a few at a time:
// memory that is read and written by turns is several times as slow.
template <bool NEAR, bool CLEARS, int THREADS, int WIDTH, int EACH, int64_t POINTS, int64_t ROWS, int BLOCKS, class SUM,
          class AT, class ROW, class VALUES, class FINISH>
FB_DEVICE void fb_added(unsigned block, fb_pack<SUM, EACH> *sums, unsigned *arrivals, const ROW &row_at,
                        const VALUES &values_at, const FINISH &finish)
{
    typedef fb_added_shares<THREADS, WIDTH, EACH, POINTS, ROWS, BLOCKS> shares;
    typedef typename shares::number number;
    constexpr int GROUPS = shares::GROUPS, AHEAD = shares::AHEAD, STEP = shares::STEP;
    constexpr number ALL = ROWS * GROUPS;
    if (CLEARS) {
        for (number i = (number)(block * THREADS + threadIdx.x); i < ALL; i += STEP) sums[i] = fb_pack<SUM, EACH>();
        fb_sorted_meet(arrivals, block, BLOCKS);
    }
    fb_added_to<shares, NEAR, THREADS, EACH, POINTS, ROWS, SUM, AT>(
        block, row_at, values_at, [&](int64_t row, int group, const fb_pack<SUM, EACH> &values) {
            fb_add_atomically(sums[row * GROUPS + group].at, values);
        });
    fb_sorted_meet(arrivals, block, BLOCKS);
    for (number i = (number)(block * THREADS + threadIdx.x); i < ALL; i += AHEAD * STEP) {
        fb_pack<SUM, EACH> own[AHEAD];
#pragma unroll
        for (int p = 0; p < AHEAD; p++) own[p] = sums[i + p * STEP < ALL ? i + p * STEP : i];
#pragma unroll
        for (int p = 0; p < AHEAD; p++) {
            const number at = i + p * STEP;
            if (at >= ALL) continue;
            if (!CLEARS) sums[at] = fb_pack<SUM, EACH>();
            finish((int64_t)(at / GROUPS), (int)(at % GROUPS), own[p]);
        }
    }
}

// The same where finish stores the sums as they are: place_of(row, group) is where.
template <bool NEAR, int THREADS, int WIDTH, int EACH, int64_t POINTS, int64_t ROWS, int BLOCKS, class SUM, class AT,
          class ROW, class VALUES, class FINISH, class PLACE>
FB_DEVICE void fb_added_in_place(unsigned block, unsigned *arrivals, const ROW &row_at, const VALUES &values_at,
                                 const FINISH &finish, const PLACE &place_of)
{
    typedef fb_added_shares<THREADS, WIDTH, EACH, POINTS, ROWS, BLOCKS> shares;
    typedef typename shares::number number;
    for (number i = (number)(block * THREADS + threadIdx.x); i < (number)(ROWS * shares::GROUPS); i += shares::STEP)
        finish((int64_t)(i / shares::GROUPS), (int)(i % shares::GROUPS), fb_pack<SUM, EACH>());
    fb_sorted_meet(arrivals, block, BLOCKS);
    fb_added_to<shares, NEAR, THREADS, EACH, POINTS, ROWS, SUM, AT>(
        block, row_at, values_at, [&](int64_t row, int group, const fb_pack<SUM, EACH> &values) {
            fb_add_atomically(place_of(row, group), values);
        });
}

#endif
