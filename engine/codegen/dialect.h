/* A dialect is a table of spellings, never a second walker. */
#ifndef FB_CODEGEN_DIALECT_H
#define FB_CODEGEN_DIALECT_H

#include "graph/op.h"
#include "plan/family.h"

typedef struct fb_dialect fb_dialect;

extern const fb_dialect fb_dialect_c;
extern const fb_dialect fb_dialect_cuda;

const char *fb_dialect_name(const fb_dialect *d);
const fb_dialect *fb_dialect_find(const char *name);
/* The text that stands before every kernel of the dialect (kernels/prelude.h, kernels/prelude.cuh), embedded. */
const char *fb_dialect_prelude(const fb_dialect *d);
/* The i-th text that stands between the prelude and kernels of this family (kernels/gemm.cuh …); NULL: no more. */
const char *fb_dialect_piece(const fb_dialect *d, fb_family family, int i);

#endif
