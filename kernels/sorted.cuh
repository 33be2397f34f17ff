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
    FB_SORTED_CROWD = 48,     // points of one bucket, from which on it is no help
    FB_SORTED_LONG = 32,      // a row of so many points and more may be summed by all of the block
    FB_SORTED_EACH = 4,       // elements of a row that a thread sums at once, and …
    FB_SORTED_AHEAD = 4,      // … points of it that it adds to them one after the other: it waits for their loads together
    FB_SORTED_SEEN = 8,       // points of the index that a thread looks at, likewise
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
    unsigned count, crowd, short_rows;
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

// Where the bucket of a row begins.
template <class ROOM> FB_DEVICE unsigned fb_bucket_of(const ROOM &room, uint64_t key, unsigned rows)
{
    return rows <= FB_SORTED_BUCKETS ? fb_row_of(key)
                                     : (unsigned)((uint64_t)fb_row_of(key) * FB_SORTED_BUCKETS / rows);
}

// The keys of so many rows by row and place: into buckets, and by counting within each. Where there are too many, or too
// many in one, as any others.
template <int THREADS, class ROOM> FB_DEVICE void fb_sorted_order(ROOM &room, unsigned n, unsigned rows)
{
    enum { KEYS = 4, EACH = (FB_SORTED_BUCKETS + THREADS - 1) / THREADS }; // a thread's
    uint64_t key[KEYS];
    unsigned place[KEYS], sum = 0, all;
    bool crowd = false;
    if (n > KEYS * THREADS) {
        fb_sorted_sort<THREADS>(room.keys, n);
        return;
    }
    for (unsigned i = threadIdx.x; i < FB_SORTED_BUCKETS; i += THREADS) room.buckets[i] = 0;
    if (threadIdx.x == 0) room.crowd = 0;
    fb_meet<THREADS>();
#pragma unroll
    for (int k = 0; k < KEYS; k++) {
        if (k * THREADS + threadIdx.x >= n) continue;
        key[k] = room.keys[k * THREADS + threadIdx.x];
        place[k] = atomicAdd(&room.buckets[fb_bucket_of(room, key[k], rows)], 1u);
    }
    fb_meet<THREADS>();
    const unsigned first = threadIdx.x * EACH;
#pragma unroll 4
    for (unsigned b = first; b < first + EACH && b < FB_SORTED_BUCKETS; b++) {
        sum += room.buckets[b];
        crowd |= room.buckets[b] > FB_SORTED_CROWD;
    }
    if (crowd) atomicAdd(&room.crowd, 1u);
    sum = fb_scan_team<fb_plus, THREADS>(sum, all); // meets, …
    if (THREADS <= 32) fb_meet<THREADS>();          // … where there is more than a warp
    if (room.crowd) {
        fb_sorted_sort<THREADS>(room.keys, n);
        return;
    }
#pragma unroll 4
    for (unsigned b = first; b < first + EACH && b < FB_SORTED_BUCKETS; b++) {
        const unsigned count = room.buckets[b];
        room.buckets[b] = sum;
        sum += count;
    }
    fb_meet<THREADS>();
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        if (k * THREADS + threadIdx.x < n) room.keys[room.buckets[fb_bucket_of(room, key[k], rows)] + place[k]] = key[k];
    fb_meet<THREADS>();
#pragma unroll
    for (int k = 0; k < KEYS; k++) {
        if (k * THREADS + threadIdx.x >= n) continue;
        const unsigned bucket = fb_bucket_of(room, key[k], rows), begin = room.buckets[bucket];
        const unsigned end = bucket + 1 < FB_SORTED_BUCKETS ? room.buckets[bucket + 1] : n;
        place[k] = begin;
        for (unsigned i = begin; i < end; i++) place[k] += room.keys[i] < key[k];
    }
    fb_meet<THREADS>();
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        if (k * THREADS + threadIdx.x < n) room.keys[place[k]] = key[k];
    fb_meet<THREADS>();
}

// All of the block sums one row: of the points begin … end - 1 of a list those that `value` adds to the sum.
template <int THREADS, int LANES, int WIDTH, class SUM, class ROOM, class AT, class VALUE, class FINISH>
FB_DEVICE void fb_sorted_long(ROOM &room, AT begin, AT end, int64_t row, const VALUE &value, const FINISH &finish)
{
    constexpr int TEAMS = THREADS / LANES;
    const int lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
    SUM *const parts = reinterpret_cast<SUM *>(room.parts);
    for (int from = 0; from < WIDTH; from += LANES) {
        const int within = from + lane;
        SUM sum = 0;
        for (AT i = begin + team; i < end && within < WIDTH; i += TEAMS) value(i, within, sum);
        parts[threadIdx.x] = sum;
        fb_meet<THREADS>();
        if (team == 0 && within < WIDTH) {
            for (int t = 1; t < TEAMS; t++) sum = fb_sorted_plus(sum, parts[t * LANES + lane]);
            finish(row, within, sum);
        }
        fb_meet<THREADS>();
    }
}

// The sorted points of rows first … : a team a row, but all of the block for a row of many.
template <int THREADS, int LANES, int WIDTH, class SUM, class AT, class ROOM, class VALUE, class FINISH>
FB_DEVICE void fb_sorted_sum(ROOM &room, unsigned n, int64_t first, const VALUE &value_at, const FINISH &finish)
{
    constexpr int TEAMS = THREADS / LANES;
    const int lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
    const uint64_t *const keys = room.keys;
    if (threadIdx.x == 0) room.short_rows = 0;
    fb_meet<THREADS>();
    for (unsigned k = threadIdx.x; k < n; k += THREADS) {
        const unsigned row = fb_row_of(keys[k]);
        const unsigned mark = (k + FB_SORTED_LONG - 1) / FB_SORTED_LONG * FB_SORTED_LONG + FB_SORTED_LONG;
        if (k && fb_row_of(keys[k - 1]) == row) continue;
        if (mark < n && fb_row_of(keys[mark]) == row) continue; // long
        room.begins[atomicAdd(&room.short_rows, 1u)] = (unsigned short)k;
    }
    fb_meet<THREADS>();
    for (unsigned r = team; r < room.short_rows; r += TEAMS) {
        const unsigned k = room.begins[r], row = fb_row_of(keys[k]);
        for (int from = lane; from < WIDTH; from += LANES * FB_SORTED_EACH) {
            SUM sum[FB_SORTED_EACH] = {};
            bool more = true;
            for (unsigned i = k; more; i += FB_SORTED_AHEAD) {
                SUM value[FB_SORTED_AHEAD][FB_SORTED_EACH];
                bool is[FB_SORTED_AHEAD];
#pragma unroll
                for (int p = 0; p < FB_SORTED_AHEAD; p++) {
                    is[p] = i + p < n && fb_row_of(keys[i + p]) == row;
                    const AT point = is[p] ? (AT)(unsigned)keys[i + p] : 0;
#pragma unroll
                    for (int v = 0; v < FB_SORTED_EACH; v++)
                        if (is[p] && from + v * LANES < WIDTH) value[p][v] = (SUM)value_at(point, from + v * LANES);
                }
#pragma unroll
                for (int p = 0; p < FB_SORTED_AHEAD; p++)
#pragma unroll
                    for (int v = 0; v < FB_SORTED_EACH; v++)
                        if (is[p] && from + v * LANES < WIDTH) sum[v] = fb_sorted_plus(sum[v], value[p][v]);
                more = is[FB_SORTED_AHEAD - 1];
            }
#pragma unroll
            for (int v = 0; v < FB_SORTED_EACH; v++)
                if (from + v * LANES < WIDTH) finish(first + row, from + v * LANES, sum[v]);
        }
    }
    fb_meet<THREADS>(); // begins have been read
    for (unsigned k = 0; k + FB_SORTED_LONG < n; k += FB_SORTED_LONG) {
        const unsigned row = fb_row_of(keys[k]);
        if (fb_row_of(keys[k + FB_SORTED_LONG]) != row) continue;
        if (k && fb_row_of(keys[k - FB_SORTED_LONG]) == row) continue; // done
        unsigned begin = k, end = k + FB_SORTED_LONG + 1;
        while (begin && fb_row_of(keys[begin - 1]) == row) begin--;
        while (end + FB_SORTED_LONG <= n && fb_row_of(keys[end + FB_SORTED_LONG - 1]) == row) end += FB_SORTED_LONG;
        while (end < n && fb_row_of(keys[end]) == row) end++;
        fb_sorted_long<THREADS, LANES, WIDTH, SUM>(
            room, begin, end, first + row,
            [&](unsigned i, int within, SUM &sum) {
                sum = fb_sorted_plus(sum, (SUM)value_at((AT)(unsigned)keys[i], within));
            },
            finish);
    }
}

// Rows first … last - 1 that nobody names, of which the sum is 0.
template <int THREADS, int WIDTH, class SUM, class AT, class ROOM, class FINISH>
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
    for (AT i = threadIdx.x; i < (AT)rows * WIDTH; i += THREADS) {
        const unsigned row = (unsigned)(i / WIDTH);
        if (!(room.named[row / 32] >> row % 32 & 1)) finish(first + row, (int)(i % WIDTH), (SUM)0);
    }
}

// Rows first … last - 1 of the result, of the points that `each` has; row_at says it of all.
template <int THREADS, int LANES, int WIDTH, bool ALL, class SUM, class AT, class EACH, class ROW, class VALUE,
          class FINISH>
FB_DEVICE void fb_sorted_range(fb_sorted_room<THREADS, ALL> &room, int64_t first, int64_t last, AT points, const EACH &each,
                               const ROW &row_at, const VALUE &value_at, const FINISH &finish)
{
    for (int64_t low = first, high; low < last; low = high) {
        unsigned n;
        for (high = last;; high = low + (high - low) / 2) {
            n = fb_sorted_collect<THREADS>(room, low, high, each);
            if (n <= FB_SORTED_ROOM || high - low == 1) break;
        }
        if (n > FB_SORTED_ROOM) {
            fb_sorted_long<THREADS, LANES, WIDTH, SUM>(
                room, (AT)0, points, low,
                [&](AT point, int within, SUM &sum) {
                    if (row_at(point) == low) sum = fb_sorted_plus(sum, (SUM)value_at(point, within));
                },
                finish);
            continue;
        }
        if (n) fb_sorted_order<THREADS>(room, n, (unsigned)(high - low));
        fb_sorted_sum<THREADS, LANES, WIDTH, SUM, AT>(room, n, low, value_at, finish);
        if (ALL) fb_sorted_rest<THREADS, WIDTH, SUM, AT>(room, n, low, high, finish);
    }
}

// Lanes that sum a row of so many elements together.
constexpr int fb_sorted_lanes(int width)
{
    return width > 16 * FB_SORTED_EACH  ? 32
           : width > 8 * FB_SORTED_EACH ? 16
           : width > 4 * FB_SORTED_EACH ? 8
           : width > 2 * FB_SORTED_EACH ? 4
           : width > FB_SORTED_EACH     ? 2
                                        : 1;
}

// Rows first … last - 1 of the result. row_at(point): the index; value_at(point, within): what is added there;
// finish(row, within, sum): stores it. ALL: finish is called for every row, else for those that the index names.
template <int THREADS, int WIDTH, bool ALL, class SUM, class AT, class ROW, class VALUE, class FINISH>
FB_DEVICE void fb_sorted(int64_t first, int64_t last, AT points, const ROW &row_at, const VALUE &value_at,
                         const FINISH &finish)
{
    fb_sorted_range<THREADS, fb_sorted_lanes(WIDTH), WIDTH, ALL, SUM>(
        fb_sorted_shared<THREADS, ALL>(), first, last, points,
        [&](const auto &f) { fb_sorted_points<THREADS>((AT)0, points, row_at, f); }, row_at, value_at, finish);
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
    FB_DEVICE int64_t first(unsigned range) { return range * ROWS / RANGES; }
    FB_DEVICE unsigned range_of(int64_t row) { return (unsigned)(((row + 1) * RANGES - 1) / ROWS); }
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
    sum = (unsigned)from + fb_scan_team<fb_plus, THREADS>(sum, all);
    for (unsigned i = threadIdx.x * EACH; i < (threadIdx.x + 1) * EACH && i < RANGES; i++) {
        const unsigned n = room.counts[i];
        begins[i * BLOCKS + block] = (uint64_t)sum << 32 | n;
        room.counts[i] = sum;
        sum += n;
    }
    fb_meet<THREADS>();
    fb_sorted_points<THREADS>(from, until, row_at, [&](int64_t row, unsigned point) {
        if (row < 0 || row >= ROWS) return;
        const unsigned range = shares::range_of(row);
        keys[atomicAdd(&room.counts[range], 1u)] = (uint64_t)(row - shares::first(range)) << 32 | point;
    });
}

// fb_sorted of all ROWS by BLOCKS, of which this one is `block`. keys, begins: a word for each point, and for each block of
// each range; arrivals: 0 at first.
template <int THREADS, int WIDTH, bool ALL, int BLOCKS, int RANGES, int64_t ROWS, class SUM, class AT, class ROW, class VALUE,
          class FINISH>
FB_DEVICE void fb_sorted_together(unsigned block, AT points, uint64_t *keys, uint64_t *begins, unsigned *arrivals,
                                  const ROW &row_at, const VALUE &value_at, const FINISH &finish)
{
    typedef fb_sorted_shares<BLOCKS, RANGES, ROWS> shares;
    static_assert(BLOCKS <= THREADS, "a thread for each part of a range");
    fb_sorted_room<THREADS, ALL> &room = fb_sorted_shared<THREADS, ALL>();
    __shared__ unsigned from[BLOCKS], before[BLOCKS + 1]; // of a range's points in each part: the first, and how many before
    fb_sorted_lay_out<THREADS, BLOCKS, RANGES, ROWS>(room, block, points, row_at, keys, begins);
    fb_sorted_meet(arrivals, block, BLOCKS);
    for (unsigned range = block; range < RANGES; range += BLOCKS) {
        const uint64_t begin = threadIdx.x < BLOCKS ? begins[range * BLOCKS + threadIdx.x] : 0;
        const unsigned n = (unsigned)begin;
        unsigned all;
        fb_meet<THREADS>(); // those of the range before have been read
        const unsigned sum = fb_scan_team<fb_plus, THREADS>(n, all);
        if (threadIdx.x < BLOCKS) {
            from[threadIdx.x] = (unsigned)(begin >> 32);
            before[threadIdx.x] = sum;
        }
        if (threadIdx.x == 0) before[BLOCKS] = all;
        fb_meet<THREADS>();
        fb_sorted_range<THREADS, fb_sorted_lanes(WIDTH), WIDTH, ALL, SUM>(
            room, shares::first(range), shares::first(range + 1), points,
            [&](const auto &f) {
                for (unsigned i = threadIdx.x; i < before[BLOCKS]; i += THREADS) {
                    unsigned low = 0, high = BLOCKS; // before[low] <= i < before[high]
                    while (high - low > 1) {
                        const unsigned middle = (low + high) / 2;
                        (before[middle] <= i ? low : high) = middle;
                    }
                    const uint64_t key = keys[from[low] + (i - before[low])];
                    f(shares::first(range) + fb_row_of(key), (unsigned)key);
                }
            },
            row_at, value_at, finish);
    }
}

#endif
