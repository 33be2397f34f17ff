/* Every constant of the compilers whose decisions the presets `inductor`, `xla` and `tinygrad` repeat, in one table
 * with where it comes from. They drift from release to release: a new release is a look at this table. */
#ifndef FB_DECIDE_RULES_H
#define FB_DECIDE_RULES_H

typedef enum {
    FB_INDUCTOR_REALIZE_READS,
    FB_INDUCTOR_REALIZE_ACC_READS,
    FB_INDUCTOR_REALIZE_OPS,
    FB_INDUCTOR_CAT_INPUTS,
    FB_INDUCTOR_UNROLLED,
    FB_INDUCTOR_UNROLLED_POOL,
    FB_INDUCTOR_FUSION_SIZE,
    FB_INDUCTOR_SHARED_BYTES,
    FB_INDUCTOR_DISTANCE,
    FB_INDUCTOR_PAIR_WINDOW,
    FB_INDUCTOR_PEAK_FACTOR,
    FB_INDUCTOR_ROUNDS,
    FB_XLA_MEMORY_GBS,
    FB_XLA_GFLOPS,
    FB_XLA_OP, /* by default; then others */
    FB_XLA_ADD,
    FB_XLA_DIVIDE,
    FB_XLA_SQRT,
    FB_XLA_EXP,
    FB_XLA_SIGMOID,
    FB_XLA_LOG,
    FB_XLA_GELU,
    FB_XLA_TANH,
    FB_XLA_POWER,
    FB_XLA_SINE,
    FB_XLA_LAUNCH_US,
    FB_XLA_OVERLAP,
    FB_XLA_L1_FACTOR,
    FB_XLA_L2_FACTOR,
    FB_XLA_OPERANDS,
    FB_XLA_REDUCTIONS,
    FB_XLA_DOT,
    FB_XLA_REGISTERS,
    FB_XLA_TILE_REGISTERS,
    FB_XLA_HORIZONTAL_ELEMENTS,
    FB_XLA_HORIZONTAL_OPS,
    FB_TINYGRAD_BUFFERS,
    FB_TINYGRAD_KERNEL_BUFFERS,
    FB_TINYGRAD_SPLIT_RATIO,
    FB_CONSTANTS
} fb_constant;

double fb_constant_value(fb_constant c);
const char *fb_constant_name(fb_constant c);   /* "realize_reads_threshold" */
const char *fb_constant_source(fb_constant c); /* "torch/_inductor/config.py" */

#endif
