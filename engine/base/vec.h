/* Growing arrays on the heap: FB_VEC(type) declares one; a zeroed one is empty; FB_VEC_FREE gives it back.
 *
 *     FB_VEC(int) ids = {0};
 *     FB_VEC_PUSH(&ids, 7);
 *     for (int i = 0; i < ids.n; i++) use(ids.at[i]);
 *     FB_VEC_FREE(&ids);
 */
#ifndef FB_BASE_VEC_H
#define FB_BASE_VEC_H

#include "base/mem.h"

#define FB_VEC(type)                                                                                                   \
    struct {                                                                                                           \
        type *at;                                                                                                      \
        int n, room;                                                                                                   \
    }

#define FB_VEC_PUSH(v, ...)                                                                                            \
    do {                                                                                                               \
        if ((v)->n == (v)->room) {                                                                                     \
            (v)->room = (v)->room ? 2 * (v)->room : 8;                                                                 \
            (v)->at = fb_realloc((v)->at, (size_t)(v)->room * sizeof *(v)->at);                                        \
        }                                                                                                              \
        (v)->at[(v)->n++] = (__VA_ARGS__);                                                                             \
    } while (0)

#define FB_VEC_FREE(v)                                                                                                 \
    do {                                                                                                               \
        fb_free((v)->at);                                                                                              \
        (v)->at = NULL;                                                                                                \
        (v)->n = (v)->room = 0;                                                                                        \
    } while (0)

#endif
