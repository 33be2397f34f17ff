// Running sums of a row that a team of threads goes along together: a warp's lanes, or a block.

#ifndef FB_SCAN
#define FB_SCAN

// What the team's threads before this one have, added up; `all`: what all of them have. Threads of warps that are no whole
// team stand side by side in teams of TEAM.
template <int TEAM, class T> FB_DEVICE T fb_scan_team(T own, T &all)
{
    constexpr int LANES = TEAM < 32 ? TEAM : 32;
    const int lane = threadIdx.x % LANES;
    T sum = own;
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) {
        const T before = __shfl_up_sync(0xffffffffu, sum, step, LANES);
        if (lane >= step) sum = before + sum;
    }
    T before = __shfl_up_sync(0xffffffffu, sum, 1, LANES);
    if (lane == 0) before = 0;
    all = __shfl_sync(0xffffffffu, sum, LANES - 1, LANES);
    if constexpr (TEAM > 32) {
        __shared__ T fb_parts[TEAM / 32];
        fb_meet<TEAM>(); // the parts of an earlier call have been read
        if (lane == 0) fb_parts[threadIdx.x / 32] = all;
        fb_meet<TEAM>();
        T warps = 0;
        all = 0;
#pragma unroll
        for (int i = 0; i < TEAM / 32; i++) {
            if (i < (int)threadIdx.x / 32) warps += fb_parts[i];
            all += fb_parts[i];
        }
        before = warps + before;
    }
    return before;
}

#endif
