/* The nest as text, for people who follow a kernel from the graph to its source (`fusebox explain … --nest`): loops
 * with their variables, values one a line with their operands, what is stored where, tables of rolled members. It shows
 * what code generation is given, before any target, thread or spelling is chosen; nothing reads it back. */
#ifndef FB_NEST_PRINT_H
#define FB_NEST_PRINT_H

#include "base/str.h"
#include "nest/nest.h"

void fb_nest_print(const fb_nest *nest, fb_str *out);

#endif
