/* How long a processor's cores compute: loops that the compiler vectorises, and products of its library. */
#ifndef FB_SCHEDULE_HOST_COST_H
#define FB_SCHEDULE_HOST_COST_H

#include "base/convolution.h"
#include "nest/nest.h"
#include "schedule/knobs.h"
#include "target/machine.h"

/* All loops of the nest, without the products that a library makes. `flops`: of these loops. knobs NULL: automatic. */
double fb_schedule_host_loops_us(const fb_machine *m, const fb_nest *nest, const fb_knobs *knobs,
                                 const fb_nest_facts *f, double flops, fb_dtype dtype);
/* FLOPs of a product: fewer are left to one core, for waking the team costs more than it saves. */
enum { FB_SMALL_PRODUCT = 50000 };
/* Rows of a core: fewer are not worth packing all of the right operand for. */
enum { FB_FEW_ROWS = 64 };
/* One product, or one of each batch. */
double fb_schedule_host_product_us(const fb_graph *g, const fb_machine *m, fb_id contraction);
/* Beside its arithmetic a library's convolution copies tensors into blocks that its kernels read, and the result out. */
double fb_schedule_host_copies_us(const fb_machine *m, const fb_convolution *c, fb_dtype dtype);
/* The products of a chain, which the library makes a block of rows at a time, on one core each. */
double fb_schedule_host_chain_us(const fb_nest *nest, const fb_machine *m);

#endif
