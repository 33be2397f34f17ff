/* Sweeps over all that is bundled: a run of .ci/run takes a third of each. */
#ifndef TESTS_UNIT_TURN_H
#define TESTS_UNIT_TURN_H

#include <stdbool.h>
#include <stdlib.h>

/* Whether part `number` of a sweep is to be run: FB_TURN says which third, and three numbers in a row are the whole.
 * Without it, or with FB_FULL, all are. `our_turn` of tests/cli/lib.sh is the same for scripts. */
static inline bool is_our_turn(int number)
{
    enum { TURNS = 3 };
    const char *turn = getenv("FB_TURN");
    if (!turn || !*turn || getenv("FB_FULL")) return true;
    return ((unsigned long long)number + strtoull(turn, NULL, 10)) % TURNS == 0;
}

#endif
