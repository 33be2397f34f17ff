// Places in a sorted row. A block has so many of the row's elements, sorts them, and goes through the row once: each of
// the row's elements goes before all of its own that are greater, of which the first is found by halves. To count each
// with each would take a row's length for every element. Where only the first places matter, a row's blocks leave each
// other the first of theirs, and go through those instead of through the row.

#ifndef FB_RANKED
#define FB_RANKED

template <int OWN> struct fb_ranked_room {
    uint64_t keys[OWN]; // order << 32 | place: no two are equal
    unsigned orders[OWN], counts[OWN];
    unsigned warps[32], digit, left, listed;
};

// Numbers in the order of what they are of: -0 is 0, and what is no number comes after all numbers.
FB_DEVICE unsigned fb_order(float x)
{
    const unsigned u = x == 0 ? 0u : (unsigned)__float_as_int(x);
    return x != x ? 0xffffffffu : u >> 31 ? ~u : u | 0x80000000u;
}
FB_DEVICE unsigned fb_order(int32_t x) { return (unsigned)x ^ 0x80000000u; }

// How many of a block's first `halves` keys, a power of two, do not come after `key`; the last of them does.
FB_DEVICE unsigned fb_ranked_until(const uint64_t *keys, unsigned halves, uint64_t key)
{
    unsigned before = 0;
    for (unsigned half = halves / 2; half > 0; half /= 2)
        if (keys[before + half - 1] <= key) before += half;
    return before;
}

FB_DEVICE uint64_t fb_ranked_across(uint64_t key, int mask)
{
    const unsigned high = __shfl_xor_sync(0xffffffffu, (unsigned)(key >> 32), mask);
    const unsigned low = __shfl_xor_sync(0xffffffffu, (unsigned)key, mask);
    return (uint64_t)high << 32 | low;
}

FB_DEVICE uint64_t fb_ranked_less(uint64_t a, uint64_t b) { return a < b ? a : b; }

// ---- rows that a team sorts in registers ----

// A team's row: of OWN keys each thread has EACH. The key that stands at place p is lane p % 32's, the p / 32 % EACH-th of
// warp p / 32 / EACH.
template <int TEAM, int OWN> struct fb_ranked_row_room {
    unsigned ranks[OWN];
    uint64_t keys[TEAM > 32 ? OWN : 1]; // handed from warp to warp
};

template <int TEAM> FB_DEVICE void fb_ranked_meet()
{
    if constexpr (TEAM > 32)
        fb_meet<TEAM>();
    else
        __syncwarp();
}

// Bitonic, in order afterwards. No two keys are equal but those that are none, which come last.
template <int TEAM, int OWN> FB_DEVICE void fb_ranked_sort(uint64_t (&key)[OWN / TEAM], fb_ranked_row_room<TEAM, OWN> &room)
{
    constexpr int EACH = OWN / TEAM;
    const int first = threadIdx.x % TEAM / 32 * 32 * EACH + threadIdx.x % 32;
#pragma unroll
    for (int run = 2; run <= OWN; run *= 2) {
#pragma unroll
        for (int apart = run / 2; apart > 0; apart /= 2) {
            if (apart >= 32 * EACH) {
#pragma unroll
                for (int e = 0; e < EACH; e++) room.keys[first + 32 * e] = key[e];
                fb_ranked_meet<TEAM>();
            }
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int at = first + 32 * e, other = apart < 32 || apart >= 32 * EACH ? e : e ^ apart / 32;
                const bool rises = (at & run) == 0, low = (at & apart) == 0;
                if (other < e) continue; // done with its pair
                if (other > e) {
                    const uint64_t x = key[e], y = key[other];
                    const bool turns = (x > y) == rises;
                    key[e] = turns ? y : x, key[other] = turns ? x : y;
                    continue;
                }
                const uint64_t its = apart < 32 ? fb_ranked_across(key[e], apart) : room.keys[at ^ apart];
                if ((its < key[e]) == (rises == low)) key[e] = its;
            }
            if (apart >= 32 * EACH) fb_ranked_meet<TEAM>();
        }
    }
}

// Ranks of a row of n elements, in shared memory until the next call, each team its own; of the first MOST alone where that
// is not 0, and MOST for all others. order_at(place): the element's order. Teams of more than a warp are a block each.
template <int THREADS, int TEAM, int OWN, int MOST, class AT, class ORDER>
FB_DEVICE const unsigned *fb_ranked_row(AT n, const ORDER &order_at)
{
    constexpr int EACH = OWN / TEAM;
    static_assert(TEAM == 32 || (TEAM == THREADS && MOST == 0), "what does more is a warp");
    __shared__ fb_ranked_row_room<TEAM, OWN> rooms[THREADS / TEAM];
    fb_ranked_row_room<TEAM, OWN> &room = rooms[threadIdx.x / TEAM];
    uint64_t key[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const AT i = e * TEAM + threadIdx.x % TEAM;
        key[e] = i < n ? (uint64_t)order_at(i) << 32 | (unsigned)i : ~(uint64_t)0;
    }
    fb_ranked_meet<TEAM>(); // the ranks before have been read
    if constexpr (MOST > 0) {
#pragma unroll
        for (int e = 0; e < EACH; e++) room.ranks[e * TEAM + threadIdx.x % TEAM] = MOST;
        __syncwarp();
        for (int place = 0; place < MOST; place++) {
            uint64_t best = key[0];
#pragma unroll
            for (int e = 1; e < EACH; e++) best = fb_ranked_less(best, key[e]);
#pragma unroll
            for (int mask = 16; mask > 0; mask /= 2) best = fb_ranked_less(best, fb_ranked_across(best, mask));
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (key[e] == best) key[e] = ~(uint64_t)0;
            if (threadIdx.x % 32 == 0 && best != ~(uint64_t)0) room.ranks[(unsigned)best] = place;
        }
    } else {
        fb_ranked_sort<TEAM, OWN>(key, room);
        const int first = threadIdx.x % TEAM / 32 * 32 * EACH + threadIdx.x % 32;
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if ((unsigned)key[e] < (unsigned)n) room.ranks[(unsigned)key[e]] = first + 32 * e;
    }
    fb_ranked_meet<TEAM>();
    return room.ranks;
}

// ---- rows that are more than a block sorts ----

// Counts n keys, each of those that come before the last of the block's first `few` at the first that it goes before; so many
// of these are `halves`, a power of two.
template <int THREADS, int OWN, class AT, class KEY>
FB_DEVICE void fb_ranked_count(fb_ranked_room<OWN> &room, unsigned few, AT n, const KEY &key_at)
{
    enum { AT_ONCE = 4 };
    const uint64_t last = room.keys[few - 1]; // what comes after it goes before none that matters
    unsigned halves = 1;
    while (halves < few) halves *= 2;
    for (unsigned i = threadIdx.x; i < OWN; i += THREADS) room.orders[i] = (unsigned)(room.keys[i] >> 32);
    fb_meet<THREADS>();
    for (AT from = threadIdx.x; from < n; from += AT_ONCE * THREADS) {
        uint64_t key[AT_ONCE];
        unsigned before[AT_ONCE] = {};
        bool any = false;
#pragma unroll
        for (int v = 0; v < AT_ONCE; v++) {
            const AT at = from + v * THREADS;
            key[v] = at < n ? key_at(at) : ~(uint64_t)0;
            any |= key[v] < last;
        }
        if (!any) continue;
        for (unsigned half = halves / 2; half > 0; half /= 2)
#pragma unroll
            for (int v = 0; v < AT_ONCE; v++)
                if (room.orders[before[v] + half - 1] < (unsigned)(key[v] >> 32)) before[v] += half;
#pragma unroll
        for (int v = 0; v < AT_ONCE; v++) {
            if (key[v] >= last) continue;
            const bool equal = room.orders[before[v]] == (unsigned)(key[v] >> 32);
            atomicAdd(&room.counts[equal ? fb_ranked_until(room.keys, halves, key[v]) : before[v]], 1u);
        }
    }
    fb_meet<THREADS>();
}

// The first `most` of the block's `own` keys in order, or more, and how many: those whose order is no higher than that of the
// most-th, of which so many bits are found as leave few others. In key(e) each thread has EACH of them.
template <int THREADS, int OWN, class KEY>
FB_DEVICE unsigned fb_ranked_first(fb_ranked_room<OWN> &room, unsigned own, unsigned most, const KEY &key)
{
    constexpr int EACH = OWN / THREADS, BITS = OWN < 1024 ? 8 : OWN < 2048 ? 10 : 11, BINS = 1 << BITS;
    constexpr int OF_THREAD = BINS > THREADS ? BINS / THREADS : 1; // bins next to each other
    unsigned known = 0, left = most, all;
    int shift = own > most ? 32 : 0;
    while (shift > 0) {
        const int bits = shift < BITS ? shift : BITS;
        for (unsigned i = threadIdx.x; i < BINS; i += THREADS) room.counts[i] = 0;
        fb_meet<THREADS>();
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const unsigned order = (unsigned)(key(e) >> 32);
            const bool is = e * THREADS + threadIdx.x < own && (shift == 32 || order >> shift == known);
            if (is) atomicAdd(&room.counts[order >> (shift - bits) & ((1u << bits) - 1)], 1u);
        }
        shift -= bits;
        fb_meet<THREADS>();
        const unsigned first = threadIdx.x * OF_THREAD;
        unsigned n[OF_THREAD], sum = 0;
#pragma unroll
        for (int b = 0; b < OF_THREAD; b++) sum += n[b] = first + b < BINS ? room.counts[first + b] : 0;
        unsigned before = fb_sorted_before<THREADS>(room.warps, sum, all);
#pragma unroll
        for (int b = 0; b < OF_THREAD; before += n[b++])
            if (before < left && left <= before + n[b])
                room.digit = first + b, room.left = left - before, room.listed = most - left + before + n[b];
        fb_meet<THREADS>();
        known = known << bits | room.digit;
        left = room.left;
        if (room.listed <= FB_SORTED_FEW) break;
    }
    fb_meet<THREADS>(); // that has been read
    if (threadIdx.x == 0) room.listed = 0;
    fb_meet<THREADS>();
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (e * THREADS + threadIdx.x < own && (own <= most || (unsigned)(key(e) >> 32) >> shift <= known))
            room.keys[atomicAdd(&room.listed, 1u)] = key(e);
    fb_meet<THREADS>();
    const unsigned listed = room.listed;
    if (listed <= FB_SORTED_FEW)
        fb_sorted_few<THREADS>(room.keys, listed);
    else
        fb_sorted_sort<THREADS>(room.keys, listed);
    return listed;
}

// Ranks of the elements first … first + OWN - 1 of a row of n, which are more, in shared memory until the next call; of those that `most`
// or more go before, any that is not below `most`. order_at(place): the element's order. PARTS: a row's blocks, which share
// `lists`, of `most` keys each, and meet at `arrivals`; 0: each goes through all of the row.
template <int THREADS, int OWN, int PARTS = 0, class AT, class ORDER>
FB_DEVICE const unsigned *fb_ranked(AT n, AT first, unsigned most, const ORDER &order_at, uint64_t *lists = nullptr,
                                    unsigned *arrivals = nullptr)
{
    constexpr int EACH = OWN / THREADS;
    constexpr bool IS_FIRST = PARTS > 0 && THREADS >= 256;
    __shared__ fb_ranked_room<OWN> room;
    const unsigned own = n - first < OWN ? (unsigned)(n - first) : OWN;
    unsigned few = own < most ? own : most;
    uint64_t key[EACH];
    fb_meet<THREADS>(); // the ranks before have been read
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const unsigned i = e * THREADS + threadIdx.x;
        key[e] = i < own ? (uint64_t)order_at(first + (AT)i) << 32 | (unsigned)(first + (AT)i) : ~(uint64_t)0;
    }
    if constexpr (IS_FIRST) {
        const unsigned listed = fb_ranked_first<THREADS>(room, own, most, [&](int e) { return key[e]; });
        for (unsigned i = listed + threadIdx.x; i < OWN; i += THREADS) room.keys[i] = ~(uint64_t)0;
        for (unsigned i = threadIdx.x; i < OWN; i += THREADS) room.counts[i] = 0;
        fb_meet<THREADS>();
    } else {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            room.keys[e * THREADS + threadIdx.x] = key[e];
            room.counts[e * THREADS + threadIdx.x] = 0;
        }
        fb_sorted_sort<THREADS>(room.keys, OWN);
    }
    if (PARTS) {
        const unsigned part = (unsigned)(first / OWN);
        for (unsigned i = threadIdx.x; i < most; i += THREADS) lists[part * most + i] = i < OWN ? room.keys[i] : ~(uint64_t)0;
        fb_sorted_meet(arrivals, part, PARTS);
        fb_ranked_count<THREADS>(room, few, PARTS * most, [&](unsigned at) { return lists[at]; });
    } else {
        fb_ranked_count<THREADS>(room, few, n,
                                 [&](AT at) { return (uint64_t)order_at(at) << 32 | (unsigned)at; });
    }
    int64_t rank[EACH], sum = 0, all;
    unsigned place[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const unsigned i = threadIdx.x * EACH + e;
        place[e] = (unsigned)room.keys[i] - (unsigned)first;
        rank[e] = sum += room.counts[i];
    }
    const int64_t before = fb_scan_team<fb_plus, THREADS>(sum, all); // meets: counts have been read
    if (IS_FIRST) {
        for (unsigned i = threadIdx.x; i < OWN; i += THREADS) room.counts[i] = most; // what is not listed
        fb_meet<THREADS>();
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const unsigned i = threadIdx.x * EACH + e;
        const bool is = IS_FIRST ? i < few : i < own;
        if (is) room.counts[place[e]] = i >= few ? most : (unsigned)(before + rank[e]);
    }
    fb_meet<THREADS>();
    return room.counts;
}

#endif
