// Running sums and products of a row that a team of threads goes along together: a warp's lanes, a block, or a lane of
// each of its warps.

#ifndef FB_SCAN
#define FB_SCAN

template <class T> FB_DEVICE T fb_scan_of_none(fb_plus) { return 0; }
template <class T> FB_DEVICE T fb_scan_of_none(fb_times) { return 1; }

// What the team's threads before this one have, by OP; `all`: what all of them have. Threads of warps that are no whole
// team stand side by side in teams of TEAM.
template <class OP, int TEAM, class T> FB_DEVICE T fb_scan_team(T own, T &all)
{
    constexpr int LANES = TEAM < 32 ? TEAM : 32;
    const int lane = threadIdx.x % LANES;
    const T none = fb_scan_of_none<T>(OP());
    T run = own;
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) {
        const T before = __shfl_up_sync(0xffffffffu, run, step, LANES);
        if (lane >= step) run = OP::of(before, run);
    }
    T before = __shfl_up_sync(0xffffffffu, run, 1, LANES);
    if (lane == 0) before = none;
    all = __shfl_sync(0xffffffffu, run, LANES - 1, LANES);
    if constexpr (TEAM > 32) {
        __shared__ T fb_parts[TEAM / 32];
        fb_meet<TEAM>(); // the parts of an earlier call have been read
        if (lane == 0) fb_parts[threadIdx.x / 32] = all;
        fb_meet<TEAM>();
        T warps = none;
        all = none;
#pragma unroll
        for (int i = 0; i < TEAM / 32; i++) {
            if (i < (int)threadIdx.x / 32) warps = OP::of(warps, fb_parts[i]);
            all = OP::of(all, fb_parts[i]);
        }
        before = OP::of(warps, before);
    }
    return before;
}

// The same for 32 rows side by side, of whose threads each warp has one: rows are turned, so that a row's threads are
// neighbours.
template <class OP, int TEAM, class T> FB_DEVICE T fb_scan_columns(T own, T &all)
{
    __shared__ T fb_turned[TEAM][33], fb_whole[32];
    const int place = threadIdx.x % TEAM, row = threadIdx.x / TEAM;
    T whole;
    fb_turned[threadIdx.x / 32][threadIdx.x % 32] = own;
    fb_meet<32 * TEAM>();
    fb_turned[place][row] = fb_scan_team<OP, TEAM>(fb_turned[place][row], whole);
    if (place == 0) fb_whole[row] = whole;
    fb_meet<32 * TEAM>();
    all = fb_whole[threadIdx.x % 32];
    return fb_turned[threadIdx.x / 32][threadIdx.x % 32];
}

#endif
