/* What the graph builders of the unit tests use of cmocka, for a program that is copied to machines without it. */
#ifndef FB_TESTS_GPU_CMOCKA_H
#define FB_TESTS_GPU_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>

#define fail_msg(...)                                                                                                  \
    do {                                                                                                               \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fprintf(stderr, " (%s:%d)\n", __FILE__, __LINE__);                                                             \
        exit(1);                                                                                                       \
    } while (0)
#define assert_true(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) fail_msg("%s", #condition);                                                                  \
    } while (0)
#define assert_non_null(value) assert_true((value) != NULL)
#define assert_int_equal(a, b) assert_true((a) == (b))

#endif
