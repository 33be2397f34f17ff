/* Scripts written from bytes: each byte chooses what comes next, so that any bytes are a script that Lua can read, and
 * a small change of them is a small change of it. When the bytes end, the shortest end of what is open follows. */
#ifndef TESTS_FUZZ_GRAMMAR_H
#define TESTS_FUZZ_GRAMMAR_H

#include "base/str.h"

#include <stdint.h>

/* A script with one variant "v", whose graph is as the bytes say. It measures nothing and ends by itself. */
void grammar_graph(const uint8_t *bytes, size_t n, fb_str *out);
/* A script with a plan "p" of a graph that has these nodes. */
void grammar_plan(const uint8_t *bytes, size_t n, const char *const *nodes, int n_nodes, fb_str *out);
/* A script with parameters and an experiment that measures. */
void grammar_experiment(const uint8_t *bytes, size_t n, fb_str *out);

#endif
