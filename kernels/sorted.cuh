// index_add by sorted rows: a block has a range of the result's rows, collects the points of the index that are its own,
// sorts them by row and place, and adds up row by row. So each row is summed in a fixed order, no two threads add to one
// element, and a row that nobody names costs nothing but its zero, or nothing at all.
//
// Ranges with more points than there is room for are cut in half until they fit; what is left of that, one row with very
// many points, is summed by all of the block without a list.

#ifndef FB_SORTED
#define FB_SORTED

enum {
    FB_SORTED_ROOM = 4096,  // points that a block sorts at once
    FB_SORTED_ROWS = 65536, // a block's, at most (schedule/schedule.c)
    FB_SORTED_LONG = 32,    // a row of so many points and more may be summed by all of the block
    FB_SORTED_EACH = 4,     // elements of a row that a thread sums at once: it waits for their loads together
};

template <int THREADS, bool ALL> struct fb_sorted_room {
    uint64_t keys[FB_SORTED_ROOM]; // row - first << 32 | point
    union {
        double parts[THREADS];     // sums of a row's parts, of any type; until all of the rows are there …
        unsigned named[ALL ? FB_SORTED_ROWS / 32 : 1];
    };
    unsigned count;
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

// How many points of the index are rows first … last - 1; as many as there is room for are in keys, in any order.
template <int THREADS, class ROOM, class AT, class ROW>
FB_DEVICE unsigned fb_sorted_collect(ROOM &room, AT points, int64_t first, int64_t last, const ROW &row_at)
{
    fb_meet<THREADS>(); // what was there has been read
    if (threadIdx.x == 0) room.count = 0;
    fb_meet<THREADS>();
#pragma unroll 4
    for (AT point = threadIdx.x; point < points; point += THREADS) {
        const int64_t row = row_at(point);
        if (row < first || row >= last) continue;
        const unsigned at = atomicAdd(&room.count, 1u);
        if (at < FB_SORTED_ROOM) room.keys[at] = (uint64_t)(row - first) << 32 | (uint64_t)point;
    }
    fb_meet<THREADS>();
    return room.count;
}

// Bitonic: no two keys are equal, so there is one order.
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
            fb_meet<THREADS>();
        }
    }
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
    for (unsigned k = team; k < n; k += TEAMS) {
        const unsigned row = fb_row_of(keys[k]);
        const unsigned mark = (k + FB_SORTED_LONG - 1) / FB_SORTED_LONG * FB_SORTED_LONG + FB_SORTED_LONG;
        if (k && fb_row_of(keys[k - 1]) == row) continue;
        if (mark < n && fb_row_of(keys[mark]) == row) continue; // long
        for (int from = lane; from < WIDTH; from += LANES * FB_SORTED_EACH) {
            SUM sum[FB_SORTED_EACH] = {};
            for (unsigned i = k; i < n && fb_row_of(keys[i]) == row; i++) {
                const AT point = (AT)(unsigned)keys[i];
#pragma unroll
                for (int v = 0; v < FB_SORTED_EACH; v++)
                    if (from + v * LANES < WIDTH) sum[v] = fb_sorted_plus(sum[v], (SUM)value_at(point, from + v * LANES));
            }
#pragma unroll
            for (int v = 0; v < FB_SORTED_EACH; v++)
                if (from + v * LANES < WIDTH) finish(first + row, from + v * LANES, sum[v]);
        }
    }
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

// Rows first … last - 1 of the result. row_at(point): the index; value_at(point, within): what is added there;
// finish(row, within, sum): stores it. ALL: finish is called for every row, else for those that the index names.
template <int THREADS, int WIDTH, bool ALL, class SUM, class AT, class ROW, class VALUE, class FINISH>
FB_DEVICE void fb_sorted(int64_t first, int64_t last, AT points, const ROW &row_at, const VALUE &value_at,
                         const FINISH &finish)
{
    constexpr int WIDE = (WIDTH + FB_SORTED_EACH - 1) / FB_SORTED_EACH;
    constexpr int LANES = WIDE > 16 ? 32 : WIDE > 8 ? 16 : WIDE > 4 ? 8 : WIDE > 2 ? 4 : WIDE;
    fb_sorted_room<THREADS, ALL> &room = fb_sorted_shared<THREADS, ALL>();
    for (int64_t low = first, high; low < last; low = high) {
        unsigned n;
        for (high = last;; high = low + (high - low) / 2) {
            n = fb_sorted_collect<THREADS>(room, points, low, high, row_at);
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
        if (n) fb_sorted_sort<THREADS>(room.keys, n);
        fb_sorted_sum<THREADS, LANES, WIDTH, SUM, AT>(room, n, low, value_at, finish);
        if (ALL) fb_sorted_rest<THREADS, WIDTH, SUM, AT>(room, n, low, high, finish);
    }
}

#endif
