/* Sweeps over all that is bundled: a run of .ci/run takes a third of each. */
#ifndef TESTS_UNIT_TURN_H
#define TESTS_UNIT_TURN_H

#include <stdbool.h>
#include <stdlib.h>

/* Whether part `number` of a sweep is to be run: FB_TURN says which third, and three numbers in a row are the whole.
 * Without it, or with FB_FULL, all are. `our_turn` of tests/cli/lib.sh is the same for scripts. */
enum { TURNS = 3 };

static inline bool turn_is(unsigned number, unsigned times)
{
    const char *turn = getenv("FB_TURN");
    if (!turn || !*turn || getenv("FB_FULL")) return true;
    return (number + strtoull(turn, NULL, 10) / times) % TURNS == 0;
}

/* A third of a third, another one when all have had their turn: nine numbers in a row are the whole. */
static inline bool is_our_round(unsigned number)
{
    return turn_is(number, TURNS);
}

/* Of the dearest sweeps a ninth, all in nine numbers in a row. */
static inline bool is_our_ninth(unsigned number)
{
    return turn_is(number, 1) && is_our_round(number / TURNS);
}

/* Under the address sanitizer, which looks at what all parts have in common, a third of that third. */
static inline bool is_our_turn(unsigned number)
{
#ifdef __SANITIZE_ADDRESS__
    return is_our_ninth(number);
#else
    return turn_is(number, 1);
#endif
}

#endif
