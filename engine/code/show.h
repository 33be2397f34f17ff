/* Inside code/: what lowering's passes leave, shown where FB_DEBUG has their letter (docs/DEBUGGING.md). */
#ifndef FB_CODE_SHOW_H
#define FB_CODE_SHOW_H

#include "code/emit.h"
#include "code/program.h"

/* n: the nest; s: its schedule; k: the kernel that was printed of both. */
void fb_emit_show_kernel(const char *name, const fb_nest *nest, fb_family family, const fb_knobs *knobs,
                         const fb_kernel_text *text);
/* m: a kernel that was made of several launches. */
void fb_emit_show_merged(const fb_kernel *k);
/* b: the buffer table and the launches. */
void fb_program_show(const fb_program *p);

#endif
