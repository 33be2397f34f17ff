/* As many threads a row as its length keeps busy, as many rows a block as then fit. */
#include "schedule/team.h"

#include "base/integer.h"

enum {
    STAGE_THREADS = 256, /* of a block where a stage's threads have rows of their own */
    UNEVEN_TEAM = 8,
};

/* Elements of a column that a thread takes, of which it waits for each few: few, and where there are many columns as many
 * as keep all threads of a device busy. (argmax over the middle of 64 × 128 × 512 on an H200: 11.6 µs with 64 each.) */
static int64_t each_across(int warp, int64_t rows, int64_t longest)
{
    enum { FEW = 8, LEAST = 16, MOST = 64, THREADS = 2048 }; /* of a multiprocessor */
    if (rows < (int64_t)warp * FEW * FB_UNITS_ABOUT) return FEW;
    int64_t each = fb_ceil_div(longest * (rows / FB_UNITS_ABOUT), THREADS);
    return longest <= MOST || each > MOST ? MOST : each < LEAST ? LEAST : each;
}

static fb_team team_across(int warp, bool stage, int64_t rows, int64_t longest)
{
    enum { ALONE = 128, SHORT = 16 };
    const int alone = stage ? STAGE_THREADS : ALONE;
    int64_t each = each_across(warp, rows, longest);
    if (longest < SHORT) return (fb_team){.team = 1, .threads = alone, .rows_a_block = alone};
    int team = fb_power_of_two(fb_ceil_div(longest, each), warp);
    return (fb_team){
        .team = team, .threads = team == 1 ? alone : warp * team, .rows_a_block = team == 1 ? alone : warp};
}

/* The blocks of a kernel of several stages are few, for they meet, and go through a stage's work one after the other: a
 * warp a row, whose lanes need no other warp, where that leaves no multiprocessor without work. (Training steps of a
 * network of 255 × 255, measured on an H200: 10.4 µs a step with a block a row, 9.2 with a warp.) */
static fb_team team_of_stage(int warp, int64_t rows)
{
    fb_team t = {.threads = STAGE_THREADS, .team = warp};
    while (t.threads > warp && fb_ceil_div(rows, t.threads / warp) < FB_UNITS_ABOUT) t.threads /= 2;
    t.rows_a_block = t.threads / warp;
    return t;
}

/* Many rows of somewhat more than a warp: lanes of a whole one would have nothing to do in the last step. (Means of 131,072
 * rows of 49 in f32 on an H200: 20 µs by 32 lanes, 14.7 by 16, 13.2 by 8, 15 by 4.) */
static bool is_uneven(int warp, int64_t rows, int64_t longest)
{
    enum {
        STEPS = 3,
        WASTE = 5,
        THREADS = 2048
    }; /* one lane of so many has nothing to do; threads of a multiprocessor */
    const int64_t lanes = fb_ceil_div(longest, warp) * warp;
    return longest > warp && longest <= STEPS * warp && (lanes - longest) * WASTE > lanes &&
           rows * UNEVEN_TEAM >= (int64_t)FB_UNITS_ABOUT * THREADS;
}

fb_team fb_team_of(const fb_target *target, bool across, bool stage, int64_t rows, int64_t longest)
{
    bool few = rows < 8 * FB_UNITS_ABOUT;
    int warp = target->warp;
    fb_team t = {.threads = 256};
    if (across) return team_across(warp, stage, rows, longest);
    if (stage && few && rows >= FB_UNITS_ABOUT && longest > 2 * warp && longest <= FB_TEAM_STEPS * warp)
        return team_of_stage(warp, rows);
    if (longest > 8 * warp || (few && longest > 2 * warp)) {
        t.threads = fb_power_of_two(fb_ceil_div(longest, few ? 1 : 4), longest > 16384 ? 1024 : 512);
        if (t.threads < 2 * warp) t.threads = 2 * warp;
        t.team = t.threads;
        t.rows_a_block = 1;
        return t;
    }
    /* A row of three is a thread's, where there are rows for all: four lanes of which one has nothing took 37 µs for the
     * largest of each of 3,000,000 rows, on an H200, and a thread a row 11. */
    const bool alone = longest <= 3 && rows >= (int64_t)2 * FB_UNITS_ABOUT * t.threads;
    t.team = alone ? 1 : is_uneven(warp, rows, longest) ? UNEVEN_TEAM : fb_power_of_two(longest, warp);
    while (t.threads > warp && fb_ceil_div(rows, t.threads / t.team) < 2 * FB_UNITS_ABOUT) t.threads /= 2;
    t.rows_a_block = t.threads / t.team;
    return t;
}

int fb_team_parts(int64_t rows, int64_t longest)
{
    int64_t parts = fb_ceil_div(longest, 8 * FB_TEAM_SPLIT),
            most = fb_ceil_div(4 * FB_UNITS_ABOUT, rows > 0 ? rows : 1);
    return (int)(parts < most ? parts : most);
}
