/* Seeded bugs, to see whether the fuzzer finds them: FB_MUTATE(n, right, wrong) is `right`, except in a build with
 * -DFB_MUTANTS that runs with FB_MUTANT=n in its environment. Other builds hold no trace of it. The numbers are
 * listed with what they break in tests/differential/mutants.txt; tests/differential/mutants.sh tries each (make
 * check-mutants). */
#ifndef FB_BASE_MUTATE_H
#define FB_BASE_MUTATE_H

#ifdef FB_MUTANTS

#include <stdlib.h>

static inline int fb_mutant_now(void)
{
    static int now = -1;
    const char *text = now < 0 ? getenv("FB_MUTANT") : NULL;
    if (now < 0) now = text ? atoi(text) : 0;
    return now;
}

#define FB_MUTATE(n, right, wrong) (fb_mutant_now() == (n) ? (wrong) : (right))

#else

#define FB_MUTATE(n, right, wrong) (right)

#endif
#endif
