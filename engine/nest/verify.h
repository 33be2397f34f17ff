/* What a nest must hold (nest/parts.h), whoever built or changed it:
 *   - operands come before their users, conditions before those inside them; every number names something there is;
 *   - an index is made of the variables of its rows, of the one space that its value varies over, and of indices read
 *     from memory; where it is made of loops alone, every point lies inside what it is an element of;
 *   - depth and space of a value follow from its operands;
 *   - every reduction, scan and stored value has the pass that it is computed in, passes stand in order;
 *   - what is read and written is listed, and what is listed is read and written.
 * Checked after every build of a nest where fusebox was configured with --enable-asan, which CI runs all tests with. */
#ifndef FB_NEST_VERIFY_H
#define FB_NEST_VERIFY_H

#include "base/str.h"
#include "nest/nest.h"

/* False with a sentence in `why` that names section, value and node. Costs about as much as building the nest. */
bool fb_nest_verify(const fb_nest *nest, fb_str *why);

#endif
