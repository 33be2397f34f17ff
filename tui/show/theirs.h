/* What a framework's compiler decided, in words: its kernels with their nodes, and where a plan of ours differs. */
#ifndef FB_TUI_SHOW_THEIRS_H
#define FB_TUI_SHOW_THEIRS_H

#include "decide/steps.h"
#include "measure/theirs.h"

/* Each of their kernels with what it holds, and why kernels that read each other are apart. */
void fb_show_theirs(const fb_theirs *t, fb_str *out);
/* Their sources, one after the other; false: none came. */
bool fb_show_theirs_sources(const fb_theirs *t, fb_str *out);
/* "13 of 14 edges are fused or cut in both, 5 of 6 kernels hold the same; theirs are 7": one sentence. */
void fb_show_theirs_said(const fb_theirs_beside *b, fb_str *out);
/* Where the plan differs, an edge a line: what they say, and which decision of our preset differs. `steps`: its record,
 * NULL: the plan is no preset's. */
void fb_show_theirs_beside(const fb_theirs_beside *b, const fb_plan *plan, const fb_steps *steps, fb_str *out);

#endif
