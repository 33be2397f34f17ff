// Places in a sorted row. A block has so many of the row's elements, sorts them, and goes through the row once: each of
// the row's elements goes before all of its own that are greater, of which the first is found by halves. To count each
// with each would take a row's length for every element.

#ifndef FB_RANKED
#define FB_RANKED

template <int OWN> struct fb_ranked_room {
    uint64_t keys[OWN]; // order << 32 | place: no two are equal
    unsigned orders[OWN], counts[OWN];
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

// Ranks of the elements first … first + OWN - 1 of a row of n, in shared memory until the next call; of those that `most`
// or more go before, any that is not below `most`. order_at(place): the element's order.
template <int THREADS, int OWN, class AT, class ORDER>
FB_DEVICE const unsigned *fb_ranked(AT n, AT first, unsigned most, const ORDER &order_at)
{
    constexpr int EACH = OWN / THREADS, AT_ONCE = 4;
    __shared__ fb_ranked_room<OWN> room;
    const unsigned own = n - first < OWN ? (unsigned)(n - first) : OWN, few = own < most ? own : most;
    fb_meet<THREADS>(); // the ranks before have been read
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const unsigned i = e * THREADS + threadIdx.x;
        room.keys[i] = i < own ? (uint64_t)order_at(first + (AT)i) << 32 | (unsigned)(first + (AT)i) : ~(uint64_t)0;
        room.counts[i] = 0;
    }
    fb_sorted_sort<THREADS>(room.keys, OWN);
    if (n > OWN) {
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
                key[v] = at < n ? (uint64_t)order_at(at) << 32 | (unsigned)at : ~(uint64_t)0;
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
    int64_t rank[EACH], sum = 0, all;
    unsigned place[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const unsigned i = threadIdx.x * EACH + e;
        place[e] = (unsigned)room.keys[i] - (unsigned)first;
        rank[e] = sum += room.counts[i];
    }
    const int64_t before = fb_scan_team<fb_plus, THREADS>(sum, all); // meets: counts have been read
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const unsigned i = threadIdx.x * EACH + e;
        if (i < own) room.counts[place[e]] = i >= few ? most : n > OWN ? (unsigned)(before + rank[e]) : i;
    }
    fb_meet<THREADS>();
    return room.counts;
}

#endif
