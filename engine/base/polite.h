/* Work of which there may be one on every core, while a person presses keys. */
#ifndef FB_BASE_POLITE_H
#define FB_BASE_POLITE_H

#include <unistd.h>

/* The calling process, and what it starts from here on, gives way to the front, which draws meanwhile. */
static inline void fb_give_way(void)
{
    int level = nice(5);
    (void)level; /* it may be as polite as can be already */
}

#endif
