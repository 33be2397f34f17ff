// index_add by sorted rows: a block has a range of the result's rows, collects the points of the index that are its own,
// sorts them by row and place, and adds up row by row. So each row is summed in a fixed order, no two threads add to one
// element, and a row that nobody names costs nothing but its zero, or nothing at all.
//
// Of a short index each block looks at every point. A long one the blocks share: each takes a part of it, lays the part's
// points out by the range that they belong to, and tells where each range begins; all meet, and each block goes through
// its ranges.
//
// Ranges with more points than there is room for are cut in half until they fit; what is left of that, one row with very
// many points, is summed by all of the block without a list.

#ifndef FB_SORTED
#define FB_SORTED

enum {
    FB_SORTED_ROOM = 4096,    // points that a block sorts at once
    FB_SORTED_ROWS = 65536,   // a block's, at most (schedule/schedule.c)
    FB_SORTED_BUCKETS = 2048, // that points are sorted by first
    FB_SORTED_CROWD = 200,    // points of one bucket, from which on it is no help
    FB_SORTED_FEW = 128,      // points that are compared each with each
    FB_SORTED_LONG = 32,      // a row of so many points and more may be summed by all of the block
    FB_SORTED_SEEN = 8,       // points of the index that a thread looks at, whose loads it waits for together
};

template <int THREADS, bool ALL> struct fb_sorted_room {
    union {
        uint64_t keys[FB_SORTED_ROOM]; // row - first << 32 | point; until then …
        unsigned counts[2 * FB_SORTED_ROOM]; // … of a part, how many points each range has
    };
    union {
        unsigned buckets[FB_SORTED_BUCKETS]; // where each begins
        unsigned short begins[FB_SORTED_ROOM];     // keys that are the first of a short row
        double parts[THREADS];               // sums of a row's parts, of any type; until all of the rows are there …
        unsigned named[ALL ? FB_SORTED_ROWS / 32 : 1];
    };
    unsigned count, crowd, short_rows, warps[32];
};

// Sections of a kernel take turns in one room.
template <int THREADS, bool ALL> FB_DEVICE fb_sorted_room<THREADS, ALL> &fb_sorted_shared()
{
    __shared__ fb_sorted_room<THREADS, ALL> room;
    return room;
}

FB_DEVICE float fb_sorted_plus(float a, float b) { return a + b; }
FB_DEVICE double fb_sorted_plus(double a, double b) { return a + b; }
template <class T> FB_DEVICE T fb_sorted_plus(T a, T b) { return (T)fb_wrap_add((int64_t)a, (int64_t)b); }

FB_DEVICE unsigned fb_row_of(uint64_t key) { return (unsigned)(key >> 32); }

// f(row, point) for all points of the index, some rows of which may be no row at all.
template <int THREADS, class AT, class ROW, class F>
FB_DEVICE void fb_sorted_points(AT from, AT points, const ROW &row_at, const F &f)
{
    for (AT at = from + (AT)threadIdx.x; at < points; at += FB_SORTED_SEEN * THREADS) {
        int64_t row[FB_SORTED_SEEN];
#pragma unroll
        for (int v = 0; v < FB_SORTED_SEEN; v++) row[v] = at + v * THREADS < points ? row_at(at + v * THREADS) : -1;
#pragma unroll
        for (int v = 0; v < FB_SORTED_SEEN; v++) f(row[v], (unsigned)(at + v * THREADS));
    }
}

// How many points are rows first … last - 1; as many as there is room for are in keys, in any order. each(f) calls
// f(row, point) for all that may be.
template <int THREADS, class ROOM, class EACH>
FB_DEVICE unsigned fb_sorted_collect(ROOM &room, int64_t first, int64_t last, const EACH &each)
{
    fb_meet<THREADS>(); // what was there has been read
    if (threadIdx.x == 0) room.count = 0;
    fb_meet<THREADS>();
    each([&](int64_t row, unsigned point) {
        if (row < first || row >= last) return;
        const unsigned at = atomicAdd(&room.count, 1u);
        if (at < FB_SORTED_ROOM) room.keys[at] = (uint64_t)(row - first) << 32 | point;
    });
    fb_meet<THREADS>();
    return room.count;
}

// Bitonic: no two keys are equal, so there is one order. Keys no further apart than a warp's lanes are one warp's.
template <int THREADS> FB_DEVICE void fb_sorted_sort(uint64_t *keys, unsigned n)
{
    unsigned size = 2;
    while (size < n) size *= 2;
    for (unsigned i = n + threadIdx.x; i < size; i += THREADS) keys[i] = ~(uint64_t)0;
    fb_meet<THREADS>();
    for (unsigned run = 2; run <= size; run *= 2) {
        for (unsigned apart = run / 2; apart > 0; apart /= 2) {
            for (unsigned i = threadIdx.x; i < size / 2; i += THREADS) {
                const unsigned low = 2 * i - (i & (apart - 1)), high = low + apart;
                const uint64_t x = keys[low], y = keys[high];
                if ((x > y) == ((low & run) == 0)) keys[low] = y, keys[high] = x;
            }
            if (apart > 32 || (apart == 1 && run >= 32))
                fb_meet<THREADS>();
            else
                __syncwarp();
        }
    }
    if (size < 32) fb_meet<THREADS>();
}

// What the block's threads before this one have, added up; `all`: what all have. The block meets within, and before `warps`
// is used again.
template <int THREADS> FB_DEVICE unsigned fb_sorted_before(unsigned *warps, unsigned own, unsigned &all)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned run = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const unsigned before = __shfl_up_sync(0xffffffffu, run, step);
        if (lane >= step) run += before;
    }
    if (lane == 31) warps[warp] = run;
    fb_meet<THREADS>();
    const unsigned of_warp = lane < THREADS / 32 ? warps[lane] : 0;
    unsigned until = of_warp;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const unsigned before = __shfl_up_sync(0xffffffffu, until, step);
        if (lane >= step) until += before;
    }
    all = __shfl_sync(0xffffffffu, until, 31);
    return __shfl_sync(0xffffffffu, until - of_warp, warp) + run - own;
}

// A few keys: each goes behind all that are less.
template <int THREADS> FB_DEVICE void fb_sorted_few(uint64_t *keys, unsigned n)
{
    enum { LANES = THREADS / FB_SORTED_FEW > 32 ? 32 : THREADS > FB_SORTED_FEW ? THREADS / FB_SORTED_FEW : 1 };
    constexpr int KEYS = (FB_SORTED_FEW * LANES + THREADS - 1) / THREADS;
    uint64_t key[KEYS];
    unsigned place[KEYS] = {};
#pragma unroll
    for (int k = 0; k < KEYS; k++) {
        const unsigned own = (k * THREADS + threadIdx.x) / LANES;
        key[k] = own < n ? keys[own] : 0;
#pragma unroll 4
        for (unsigned i = threadIdx.x % LANES; i < n; i += LANES) place[k] += keys[i] < key[k];
#pragma unroll
        for (int step = 1; step < LANES; step *= 2) place[k] += __shfl_xor_sync(0xffffffffu, place[k], step);
    }
    fb_meet<THREADS>();
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        if (threadIdx.x % LANES == 0 && (k * THREADS + threadIdx.x) / LANES < n) keys[place[k]] = key[k];
    fb_meet<THREADS>();
}

// The bucket of a row, one of so many.
FB_DEVICE unsigned fb_bucket_of(uint64_t key, unsigned rows)
{
    return rows <= FB_SORTED_BUCKETS ? fb_row_of(key)
                                     : (unsigned)((uint64_t)fb_row_of(key) * FB_SORTED_BUCKETS / rows);
}

// The keys of so many rows by row and place: into buckets, and by counting within each. Where there are too many, or too
// many in one, as any others.
template <int THREADS, class ROOM> FB_DEVICE void fb_sorted_order(ROOM &room, unsigned n, unsigned rows)
{
    enum { KEYS = 4 }; // a thread's
    const unsigned buckets = rows < FB_SORTED_BUCKETS ? rows : FB_SORTED_BUCKETS, each = (buckets + THREADS - 1) / THREADS;
    const unsigned first = threadIdx.x * each, last = first + each < buckets ? first + each : buckets;
    uint64_t key[KEYS];
    unsigned place[KEYS], sum = 0, all;
    bool crowd = false;
    if (n <= FB_SORTED_FEW || n > KEYS * THREADS) {
        n <= FB_SORTED_FEW ? fb_sorted_few<THREADS>(room.keys, n) : fb_sorted_sort<THREADS>(room.keys, n);
        return;
    }
    for (unsigned i = threadIdx.x; i < buckets; i += THREADS) room.buckets[i] = 0;
    if (threadIdx.x == 0) room.crowd = 0;
    fb_meet<THREADS>();
#pragma unroll
    for (int k = 0; k < KEYS; k++) {
        if (k * THREADS + threadIdx.x >= n) continue;
        key[k] = room.keys[k * THREADS + threadIdx.x];
        place[k] = atomicAdd(&room.buckets[fb_bucket_of(key[k], rows)], 1u);
    }
    fb_meet<THREADS>();
    for (unsigned b = first; b < last; b++) {
        sum += room.buckets[b];
        crowd |= room.buckets[b] > FB_SORTED_CROWD;
    }
    if (crowd) atomicAdd(&room.crowd, 1u);
    sum = fb_sorted_before<THREADS>(room.warps, sum, all);
    if (room.crowd) {
        fb_sorted_sort<THREADS>(room.keys, n);
        return;
    }
    for (unsigned b = first; b < last; b++) {
        const unsigned count = room.buckets[b];
        room.buckets[b] = sum;
        sum += count;
    }
    fb_meet<THREADS>();
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        if (k * THREADS + threadIdx.x < n) room.keys[room.buckets[fb_bucket_of(key[k], rows)] + place[k]] = key[k];
    fb_meet<THREADS>();
#pragma unroll
    for (int k = 0; k < KEYS; k++) {
        if (k * THREADS + threadIdx.x >= n) continue;
        key[k] = room.keys[k * THREADS + threadIdx.x]; // neighbours of a bucket look at the same ones
        const unsigned bucket = fb_bucket_of(key[k], rows), begin = room.buckets[bucket];
        const unsigned end = bucket + 1 < buckets ? room.buckets[bucket + 1] : n;
        place[k] = begin;
#pragma unroll 4
        for (unsigned i = begin; i < end; i++) place[k] += room.keys[i] < key[k];
    }
    fb_meet<THREADS>();
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        if (k * THREADS + threadIdx.x < n) room.keys[place[k]] = key[k];
    fb_meet<THREADS>();
}

// How a row of so many elements, of points / rows points or so, is summed: by LANES, EACH neighbours each, SPLIT points at
// once, AHEAD of which are waited for together; and by the block where there are many times more.
template <int WIDTH, int NEIGHBOURS, int64_t POINTS, int64_t ROWS> struct fb_sorted_team {
    static constexpr int EACH = NEIGHBOURS, GROUPS = (WIDTH + EACH - 1) / EACH, AHEAD = EACH > 4 ? 2 : 4;
    static constexpr int LANES = GROUPS > 16 ? 32 : GROUPS > 8 ? 16 : GROUPS > 4 ? 8 : GROUPS > 2 ? 4 : GROUPS;
    static constexpr int64_t TURNS = ROWS > 0 ? POINTS / (ROWS > 0 ? ROWS : 1) / AHEAD : 0;
    static constexpr int MOST = TURNS > 8 ? 32 : TURNS > 4 ? 16 : TURNS > 2 ? 8 : TURNS > 1 ? 4 : TURNS > 0 ? 2 : 1;
    static constexpr int SPLIT = MOST * LANES > 32 ? 32 / LANES : MOST;
    static constexpr int LONG = FB_SORTED_LONG * SPLIT;
};

// All of the block sums one row: of the points begin … end - 1 of a list those that `add` adds to the sums.
template <int THREADS, class TEAM, class SUM, class ROOM, class AT, class ADD, class FINISH>
FB_DEVICE void fb_sorted_long(ROOM &room, AT begin, AT end, int64_t row, const ADD &add, const FINISH &finish)
{
    constexpr int LANES = TEAM::LANES, TEAMS = THREADS / LANES, EACH = TEAM::EACH;
    const int lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
    SUM *const parts = reinterpret_cast<SUM *>(room.parts);
    for (int from = 0; from < TEAM::GROUPS; from += LANES) {
        const int group = from + lane;
        fb_pack<SUM, EACH> sums = {};
        if (group < TEAM::GROUPS) {
#pragma unroll 4
            for (AT i = begin + team; i < end; i += TEAMS) add(i, group, sums);
        }
#pragma unroll
        for (int v = 0; v < EACH; v++) {
            parts[threadIdx.x] = sums.at[v];
            fb_meet<THREADS>();
            for (int teams = TEAMS, half; teams > 1; teams = half) {
                half = (teams + 1) / 2;
                if (team + half < teams)
                    parts[threadIdx.x] = fb_sorted_plus(parts[threadIdx.x], parts[threadIdx.x + half * LANES]);
                fb_meet<THREADS>();
            }
            if (team == 0) sums.at[v] = parts[threadIdx.x];
            fb_meet<THREADS>();
        }
        if (team == 0 && group < TEAM::GROUPS) finish(row, group, sums);
    }
}

template <class SUM, int EACH> FB_DEVICE void fb_sorted_add(fb_pack<SUM, EACH> &sums, const fb_pack<SUM, EACH> &values)
{
#pragma unroll
    for (int v = 0; v < EACH; v++) sums.at[v] = fb_sorted_plus(sums.at[v], values.at[v]);
}

// The sorted points of rows first … : a team a row, but all of the block for a row of many.
template <int THREADS, class TEAM, class SUM, class AT, class ROOM, class VALUES, class FINISH>
FB_DEVICE void fb_sorted_sum(ROOM &room, unsigned n, int64_t first, const VALUES &values_at, const FINISH &finish)
{
    constexpr int LANES = TEAM::LANES, SPLIT = TEAM::SPLIT, TEAMS = THREADS / (LANES * SPLIT), EACH = TEAM::EACH;
    constexpr int AHEAD = TEAM::AHEAD;
    constexpr unsigned LONG = TEAM::LONG;
    const int lane = threadIdx.x % LANES, part = threadIdx.x / LANES % SPLIT, team = threadIdx.x / (LANES * SPLIT);
    const uint64_t *const keys = room.keys;
    if (threadIdx.x == 0) room.short_rows = 0;
    fb_meet<THREADS>();
    for (unsigned k = threadIdx.x; k < n; k += THREADS) {
        const unsigned row = fb_row_of(keys[k]), mark = (k + LONG - 1) / LONG * LONG + LONG;
        if (k && fb_row_of(keys[k - 1]) == row) continue;
        if (mark < n && fb_row_of(keys[mark]) == row) continue; // long
        room.begins[atomicAdd(&room.short_rows, 1u)] = (unsigned short)k;
    }
    fb_meet<THREADS>();
    for (unsigned at = 0; at < room.short_rows; at += TEAMS) {
        const bool has = at + team < room.short_rows;
        const unsigned k = has ? room.begins[at + team] : 0, row = fb_row_of(keys[k]);
        for (int from = 0; from < TEAM::GROUPS; from += LANES) {
            const int group = from + lane < TEAM::GROUPS ? from + lane : TEAM::GROUPS - 1;
            fb_pack<SUM, EACH> sums = {};
            bool more = has;
            for (unsigned i = k + part; more; i += AHEAD * SPLIT) {
                fb_pack<SUM, EACH> values[AHEAD];
                bool is[AHEAD];
#pragma unroll
                for (int p = 0; p < AHEAD; p++) {
                    const unsigned place = i + p * SPLIT;
                    is[p] = place < n && fb_row_of(keys[place]) == row;
                    values[p] = values_at((AT)(unsigned)keys[is[p] ? place : k], group); // else it would wait for the test
                }
#pragma unroll
                for (int p = 0; p < AHEAD; p++)
                    if (is[p]) fb_sorted_add(sums, values[p]);
                more = is[AHEAD - 1];
            }
#pragma unroll
            for (int step = LANES; step < LANES * SPLIT; step *= 2)
#pragma unroll
                for (int v = 0; v < EACH; v++)
                    sums.at[v] = fb_sorted_plus(sums.at[v], (SUM)__shfl_xor_sync(0xffffffffu, sums.at[v], step));
            if (has && part == 0 && from + lane < TEAM::GROUPS) finish(first + row, group, sums);
        }
    }
    fb_meet<THREADS>(); // begins have been read
    for (unsigned k = 0; k + LONG < n; k += LONG) {
        const unsigned row = fb_row_of(keys[k]);
        if (fb_row_of(keys[k + LONG]) != row) continue;
        if (k && fb_row_of(keys[k - LONG]) == row) continue; // done
        unsigned begin = k, end = k + LONG + 1;
        while (begin && fb_row_of(keys[begin - 1]) == row) begin--;
        while (end + LONG <= n && fb_row_of(keys[end + LONG - 1]) == row) end += LONG;
        while (end < n && fb_row_of(keys[end]) == row) end++;
        fb_sorted_long<THREADS, TEAM, SUM>(
            room, begin, end, first + row,
            [&](unsigned i, int group, fb_pack<SUM, EACH> &sums) {
                fb_sorted_add(sums, values_at((AT)(unsigned)keys[i], group));
            },
            finish);
    }
}

// Rows first … last - 1 that nobody names, of which the sum is 0.
template <int THREADS, class TEAM, class SUM, class AT, class ROOM, class FINISH>
FB_DEVICE void fb_sorted_rest(ROOM &room, unsigned n, int64_t first, int64_t last, const FINISH &finish)
{
    const unsigned rows = (unsigned)(last - first);
    for (unsigned i = threadIdx.x; i < (rows + 31) / 32; i += THREADS) room.named[i] = 0;
    fb_meet<THREADS>();
    for (unsigned i = threadIdx.x; i < n; i += THREADS) {
        const unsigned row = fb_row_of(room.keys[i]);
        if (i == 0 || fb_row_of(room.keys[i - 1]) != row) atomicAdd(&room.named[row / 32], 1u << row % 32);
    }
    fb_meet<THREADS>();
    for (AT i = threadIdx.x; i < (AT)rows * TEAM::GROUPS; i += THREADS) {
        const unsigned row = (unsigned)(i / TEAM::GROUPS);
        if (!(room.named[row / 32] >> row % 32 & 1)) finish(first + row, (int)(i % TEAM::GROUPS), fb_pack<SUM, TEAM::EACH>());
    }
}

// Rows first … last - 1 of the result, of the points that `each` has; row_at says it of all.
template <int THREADS, class TEAM, bool ALL, class SUM, class AT, class EACH, class ROW, class VALUES, class FINISH>
FB_DEVICE void fb_sorted_range(fb_sorted_room<THREADS, ALL> &room, int64_t first, int64_t last, AT points, const EACH &each,
                               const ROW &row_at, const VALUES &values_at, const FINISH &finish)
{
    for (int64_t low = first, high; low < last; low = high) {
        unsigned n;
        for (high = last;; high = low + (high - low) / 2) {
            n = fb_sorted_collect<THREADS>(room, low, high, each);
            if (n <= FB_SORTED_ROOM || high - low == 1) break;
        }
        if (n > FB_SORTED_ROOM) {
            fb_sorted_long<THREADS, TEAM, SUM>(
                room, (AT)0, points, low,
                [&](AT point, int group, fb_pack<SUM, TEAM::EACH> &sums) {
                    if (row_at(point) == low) fb_sorted_add(sums, values_at(point, group));
                },
                finish);
            continue;
        }
        if (n) fb_sorted_order<THREADS>(room, n, (unsigned)(high - low));
        fb_sorted_sum<THREADS, TEAM, SUM, AT>(room, n, low, values_at, finish);
        if (ALL) fb_sorted_rest<THREADS, TEAM, SUM, AT>(room, n, low, high, finish);
    }
}

// Rows first … last - 1 of the result. row_at(point): the index; values_at(point, group): what is added to the group-th EACH
// neighbours of its row; finish(row, group, sums): stores that. ALL: finish is called for every row, else for those that the
// index names.
template <int THREADS, int WIDTH, int EACH, bool ALL, int64_t POINTS, int64_t ROWS, class SUM, class AT, class ROW,
          class VALUES, class FINISH>
FB_DEVICE void fb_sorted(int64_t first, int64_t last, const ROW &row_at, const VALUES &values_at, const FINISH &finish)
{
    fb_sorted_range<THREADS, fb_sorted_team<WIDTH, EACH, POINTS, ROWS>, ALL, SUM>(
        fb_sorted_shared<THREADS, ALL>(), first, last, (AT)POINTS,
        [&](const auto &f) { fb_sorted_points<THREADS>((AT)0, (AT)POINTS, row_at, f); }, row_at, values_at, finish);
}

// ---- an index that blocks share ----

// ---- PTX ----
// As fb_meet_all, of the blocks that share an index: each adds 1, the first what makes the sum 2^31.
static __device__ __noinline__ void fb_sorted_meet(unsigned *arrivals, unsigned block, unsigned blocks)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned mine = block == 0 ? 0x80000000u - (blocks - 1) : 1u;
        unsigned before, now;
        asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(arrivals), "r"(mine) : "memory");
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrivals) : "memory");
        } while (((before ^ now) & 0x80000000u) == 0);
    }
    __syncthreads();
}
// ---- end of PTX ----

// How BLOCKS share the points of an index that names ROWS rows, in RANGES of them.
template <int BLOCKS, int RANGES, int64_t ROWS> struct fb_sorted_shares {
    static_assert(RANGES <= 2 * FB_SORTED_ROOM, "a part's counts have room");
    static constexpr bool IS_SMALL = (ROWS + 1) * RANGES < 0xffffffffll; // 32 bits divide several times as fast
    FB_DEVICE int64_t first(unsigned range) { return range * ROWS / RANGES; }
    FB_DEVICE unsigned range_of(int64_t row)
    {
        if constexpr (IS_SMALL) return (((unsigned)row + 1) * RANGES - 1) / (unsigned)ROWS;
        return (unsigned)(((row + 1) * RANGES - 1) / ROWS);
    }
    template <class AT> FB_DEVICE AT begin(unsigned block, AT points)
    {
        return (AT)((int64_t)block * points / BLOCKS);
    }
};

// A block's part of the points, into `keys` by range, and into `begins` where each range begins in it and how many they
// are: begin << 32 | n, the parts of a range side by side.
template <int THREADS, int BLOCKS, int RANGES, int64_t ROWS, class ROOM, class AT, class ROW>
FB_DEVICE void fb_sorted_lay_out(ROOM &room, unsigned block, AT points, const ROW &row_at, uint64_t *keys, uint64_t *begins)
{
    typedef fb_sorted_shares<BLOCKS, RANGES, ROWS> shares;
    enum { EACH = (RANGES + THREADS - 1) / THREADS };
    const AT from = shares::begin(block, points), until = shares::begin(block + 1, points);
    unsigned sum = 0, all;
    for (unsigned i = threadIdx.x; i < RANGES; i += THREADS) room.counts[i] = 0;
    fb_meet<THREADS>();
    fb_sorted_points<THREADS>(from, until, row_at, [&](int64_t row, unsigned) {
        if (row >= 0 && row < ROWS) atomicAdd(&room.counts[shares::range_of(row)], 1u);
    });
    fb_meet<THREADS>();
    for (unsigned i = threadIdx.x * EACH; i < (threadIdx.x + 1) * EACH && i < RANGES; i++) sum += room.counts[i];
    sum = (unsigned)from + fb_sorted_before<THREADS>(room.warps, sum, all);
    for (unsigned i = threadIdx.x * EACH; i < (threadIdx.x + 1) * EACH && i < RANGES; i++) {
        const unsigned n = room.counts[i];
        begins[i * BLOCKS + block] = (uint64_t)sum << 32 | n;
        room.counts[i] = sum;
        sum += n;
    }
    fb_meet<THREADS>();
    fb_sorted_points<THREADS>(from, until, row_at, [&](int64_t row, unsigned point) {
        if (row < 0 || row >= ROWS) return;
        keys[atomicAdd(&room.counts[shares::range_of(row)], 1u)] = (uint64_t)row << 32 | point;
    });
}

// fb_sorted of all ROWS by BLOCKS, of which this one is `block`. keys, begins: a word for each point, and for each block of
// each range; arrivals: 0 at first.
template <int THREADS, int WIDTH, int EACH, bool ALL, int64_t POINTS, int64_t ROWS, int BLOCKS, int RANGES, class SUM,
          class AT, class ROW, class VALUES, class FINISH>
FB_DEVICE void fb_sorted_together(unsigned block, uint64_t *keys, uint64_t *begins, unsigned *arrivals,
                                  const ROW &row_at, const VALUES &values_at, const FINISH &finish)
{
    typedef fb_sorted_shares<BLOCKS, RANGES, ROWS> shares;
    static_assert(BLOCKS <= THREADS, "a thread for each part of a range");
    fb_sorted_room<THREADS, ALL> &room = fb_sorted_shared<THREADS, ALL>();
    __shared__ unsigned from[BLOCKS], before[BLOCKS + 1]; // of a range's points in each part: the first, and how many before
    fb_sorted_lay_out<THREADS, BLOCKS, RANGES, ROWS>(room, block, (AT)POINTS, row_at, keys, begins);
    fb_sorted_meet(arrivals, block, BLOCKS);
    for (unsigned range = block; range < RANGES; range += BLOCKS) {
        const uint64_t begin = threadIdx.x < BLOCKS ? begins[range * BLOCKS + threadIdx.x] : 0;
        const unsigned n = (unsigned)begin;
        unsigned all;
        fb_meet<THREADS>(); // those of the range before have been read
        const unsigned sum = fb_sorted_before<THREADS>(room.warps, n, all);
        if (threadIdx.x < BLOCKS) {
            from[threadIdx.x] = (unsigned)(begin >> 32);
            before[threadIdx.x] = sum;
        }
        if (threadIdx.x == 0) before[BLOCKS] = all;
        fb_meet<THREADS>();
        fb_sorted_range<THREADS, fb_sorted_team<WIDTH, EACH, POINTS, ROWS>, ALL, SUM>(
            room, shares::first(range), shares::first(range + 1), (AT)POINTS,
            [&](const auto &f) {
                for (unsigned i = threadIdx.x; i < before[BLOCKS]; i += THREADS) {
                    unsigned low = 0, high = BLOCKS; // before[low] <= i < before[high]
                    while (high - low > 1) {
                        const unsigned middle = (low + high) / 2;
                        (before[middle] <= i ? low : high) = middle;
                    }
                    const uint64_t key = keys[from[low] + (i - before[low])];
                    f((int64_t)fb_row_of(key), (unsigned)key);
                }
            },
            row_at, values_at, finish);
    }
}

#endif
