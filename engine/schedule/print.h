/* A schedule as text, for people: fusebox explain --schedule. */
#ifndef FB_SCHEDULE_PRINT_H
#define FB_SCHEDULE_PRINT_H

#include "base/str.h"
#include "nest/nest.h"
#include "schedule/family.h"
#include "schedule/knobs.h"

/* How the kernel of a nest is dealt to threads: a section, tile or chain a line or two. `knobs` NULL: automatic. */
void fb_schedule_print(const fb_nest *nest, fb_family family, const fb_knobs *knobs, fb_str *out);

#endif
