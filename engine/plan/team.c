#include "plan/team.h"

static int64_t up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static int power_of_two(int64_t n, int most)
{
    int p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

static fb_team team_across(int64_t rows, int64_t longest)
{
    enum { ALONE = 128, SHORT = 16 };
    int64_t each = rows < FB_WARP * 8 * FB_TEAM_UNITS ? 8 : 64;
    if (longest < SHORT) return (fb_team){.team = 1, .threads = ALONE, .rows_a_block = ALONE};
    int team = power_of_two(up(longest, each), FB_WARP);
    return (fb_team){
        .team = team, .threads = team == 1 ? ALONE : FB_WARP * team, .rows_a_block = team == 1 ? ALONE : FB_WARP};
}

fb_team fb_team_of(bool across, int64_t rows, int64_t longest)
{
    bool few = rows < 8 * FB_TEAM_UNITS;
    fb_team t = {.threads = 256};
    if (across) return team_across(rows, longest);
    if (longest > 8 * FB_WARP || (few && longest > 2 * FB_WARP)) {
        t.threads = power_of_two(up(longest, few ? 1 : 4), longest > 16384 ? 1024 : 512);
        if (t.threads < 2 * FB_WARP) t.threads = 2 * FB_WARP;
        t.team = t.threads;
        t.rows_a_block = 1;
        return t;
    }
    t.team = power_of_two(longest, FB_WARP);
    while (t.threads > FB_WARP && up(rows, t.threads / t.team) < 2 * FB_TEAM_UNITS) t.threads /= 2;
    t.rows_a_block = t.threads / t.team;
    return t;
}
