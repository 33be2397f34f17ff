/* Printers: one a language. A target brings the spellings (target/target.h); its language's printer brings the loops or
 * threads around the statements, and the texts that its kernels stand on. */
#ifndef FB_CODE_PRINTER_H
#define FB_CODE_PRINTER_H

#include "code/needs.h"
#include "schedule/family.h"
#include "target/target.h"

/* The text that stands before every kernel of the target (kernels/prelude.h, kernels/prelude.cuh), embedded. */
const char *fb_printer_prelude(const fb_target *t);
/* The i-th text that stands between the prelude and kernels of this family (kernels/gemm.cuh …); NULL: no more. */
const char *fb_printer_piece(const fb_target *t, fb_family family, int i);
/* Texts and instructions that a kernel of the user's own (code/eject.h) asks for, by what stands in it. */
void fb_printer_own_needs(const fb_target *t, const char *own, fb_needs *needs);

#endif
