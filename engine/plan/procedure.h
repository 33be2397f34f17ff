/* A plan as a procedure for people: kernels in order, loops around them, and each node as one statement whose operands
 * are accesses, views looked through: `mul_2[i, j] = matmul[i, j] * mul[i, j]`, `t[i, j] = …` never, for a view is an
 * index. Independent of any target and of how a family writes it out. */
#ifndef FB_PLAN_PROCEDURE_H
#define FB_PLAN_PROCEDURE_H

#include "base/str.h"
#include "plan/plan.h"

void fb_plan_print_procedure(const fb_plan *plan, fb_str *out);

#endif
