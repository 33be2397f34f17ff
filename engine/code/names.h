/* Names that are taken, and what number a further one of the same wish gets: "sum", "sum_2", "sum_3". Names are
 * borrowed. The newest may be forgotten again, as names of a block that ended are. */
#ifndef FB_CODE_NAMES_H
#define FB_CODE_NAMES_H

#include <stdbool.h>

typedef struct fb_name_set fb_name_set;

fb_name_set *fb_names_new(void);
void fb_names_free(fb_name_set *s);
bool fb_names_has(const fb_name_set *s, const char *name);
void fb_names_add(fb_name_set *s, const char *name);
int fb_names_count(const fb_name_set *s);
void fb_names_forget(fb_name_set *s, int count); /* all but the first `count` */
/* The first number worth trying for this wish, from 2 on; lower ones are known to be taken. */
int fb_names_number(const fb_name_set *s, const char *wish);
void fb_names_set_number(fb_name_set *s, const char *wish, int number);

/* Does C, C++ or a header that generated code includes give this name a meaning of its own? */
bool fb_names_is_word(const char *name);

#endif
