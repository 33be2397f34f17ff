/* The table itself: name, value, and the file and release it was read from. */
#include "decide/rules.h"

static const struct {
    const char *name;
    double value;
    const char *source;
} table[FB_CONSTANTS] = {
    /* PyTorch 2.11 */
    [FB_INDUCTOR_REALIZE_READS] = {"realize_reads_threshold", 4,
                                   "torch/_inductor/config.py; ir.py StorageBox.should_realize_on_reuse"},
    [FB_INDUCTOR_REALIZE_ACC_READS] = {"realize_acc_reads_threshold", 8,
                                       "torch/_inductor/config.py; ir.py StorageBox.has_exceeded_max_reads"},
    [FB_INDUCTOR_REALIZE_OPS] = {"realize_opcount_threshold", 30,
                                 "torch/_inductor/config.py; ir.py Loops.has_large_inner_fn"},
    [FB_INDUCTOR_CAT_INPUTS] = {"MAX_COMPLEX_POINTWISE_CAT", 8, "torch/_inductor/lowering.py cat"},
    [FB_INDUCTOR_UNROLLED] = {"unroll_reductions_threshold", 8, "torch/_inductor/config.py; ir.py Reduction.create"},
    [FB_INDUCTOR_UNROLLED_POOL] = {"unroll_reductions_threshold of pools", 25,
                                   "torch/_inductor/lowering.py _low_memory_max_pool_with_offsets, _avg_poolnd"},
    [FB_INDUCTOR_FUSION_SIZE] = {"max_fusion_size", 64, "torch/_inductor/config.py; choices.py can_fuse"},
    [FB_INDUCTOR_SHARED_BYTES] = {"score_fusion_memory_threshold", 10,
                                  "torch/_inductor/config.py; choices.py can_fuse_horizontal"},
    [FB_INDUCTOR_DISTANCE] = {"distance of order", 64, "torch/_inductor/scheduler.py are_long_distant_nodes"},
    [FB_INDUCTOR_PAIR_WINDOW] = {"max_fusion_buffer_group_pairwise_attempts", 64,
                                 "torch/_inductor/config.py; scheduler.py get_possible_fusions"},
    [FB_INDUCTOR_PEAK_FACTOR] = {"overhead to saving", 32,
                                 "torch/_inductor/scheduler.py can_fusion_increase_peak_memory"},
    [FB_INDUCTOR_ROUNDS] = {"rounds", 10, "torch/_inductor/scheduler.py fuse_nodes"},
    /* OpenXLA, as published in 2025 */
    [FB_XLA_MEMORY_GBS] = {"memory_bandwidth", 4800, "device_description.h, as an H200 fills it in"},
    [FB_XLA_GFLOPS] = {"2 * core_count * fpus_per_core * clock_rate", 66900,
                       "device_description.h, as an H200 fills it in"},
    /* flops an element, f32 */
    [FB_XLA_OP] = {"kDefaultFlopsPerElement", 3, "xla/service/gpu/model/gpu_hlo_cost_analysis.cc"},
    [FB_XLA_ADD] = {"sm_90 add", 7, "xla/service/gpu/model/hlo_op_profiles_data.h"},
    [FB_XLA_DIVIDE] = {"sm_90 divide", 19, "xla/service/gpu/model/hlo_op_profiles_data.h"},
    [FB_XLA_SQRT] = {"sm_90 rsqrt", 75, "xla/service/gpu/model/hlo_op_profiles_data.h"},
    [FB_XLA_EXP] = {"sm_90 exponential", 79, "xla/service/gpu/model/hlo_op_profiles_data.h"},
    [FB_XLA_SIGMOID] = {"sm_90 exponential, add, divide", 105, "xla/hlo/transforms/expanders/logistic_expander.cc"},
    [FB_XLA_LOG] = {"sm_90 log", 166, "xla/service/gpu/model/hlo_op_profiles_data.h"},
    [FB_XLA_GELU] = {"erfc, which is exponentials and polynomials", 250, "jax.nn.gelu, as JAX 0.11 expands it"},
    [FB_XLA_TANH] = {"sm_90 tanh", 467, "xla/service/gpu/model/hlo_op_profiles_data.h"},
    [FB_XLA_POWER] = {"sm_90 power", 510, "xla/service/gpu/model/hlo_op_profiles_data.h"},
    [FB_XLA_SINE] = {"sm_90 sine", 958, "xla/service/gpu/model/hlo_op_profiles_data.h"},
    [FB_XLA_LAUNCH_US] = {"kKernelLaunchOverhead", 1, "xla/service/gpu/model/gpu_performance_model_base.h"},
    [FB_XLA_OVERLAP] = {"1 - kMemoryComputeParallelism", 0.05, "xla/service/gpu/model/gpu_performance_model_base.h"},
    [FB_XLA_L1_FACTOR] = {"kL1CacheSpeedup", 8, "xla/service/gpu/model/gpu_performance_model_base.cc"},
    [FB_XLA_L2_FACTOR] = {"kL2CacheSpeedup", 2.5, "xla/service/gpu/model/gpu_performance_model_base.cc"},
    [FB_XLA_OPERANDS] = {"MaxOperandsAndOutputsPerFusion", 96, "xla/service/gpu/gpu_fusible.cc FusionFitsInBudget"},
    [FB_XLA_REDUCTIONS] = {"unnested reductions", 8, "xla/service/gpu/gpu_fusible.cc CreatesHeavyComputation"},
    [FB_XLA_DOT] = {"products of a strength-reduced dot", 1e7,
                    "xla/service/gpu/transforms/algebraic_simplifier.cc ShouldStrengthReduceDotToReduce"},
    [FB_XLA_REGISTERS] = {"registers_per_block_limit", 65536, "device_description.h, as an H200 fills it in"},
    [FB_XLA_TILE_REGISTERS] = {"kFractionOfRegistersAvailableToStoreTile", 0.4,
                               "xla/service/gpu/model/gpu_indexing_performance_model.cc DoesTileFitsInRegisters"},
    [FB_XLA_HORIZONTAL_ELEMENTS] = {"kShapeThreshold", 128 * 2048,
                                    "xla/service/gpu/transforms/horizontal_loop_fusion.cc"},
    [FB_XLA_HORIZONTAL_OPS] = {"kInstrCountThreshold", 30, "xla/service/gpu/transforms/horizontal_loop_fusion.cc"},
    /* tinygrad 0.14 */
    [FB_TINYGRAD_BUFFERS] = {"accessed_buffers", 3, "tinygrad/schedule/rangeify.py remove_bufferize"},
    [FB_TINYGRAD_KERNEL_BUFFERS] = {"DEVICE_MAX_BUFS[CPU]", 31, "tinygrad/schedule/rangeify.py _limit_bufs"},
    [FB_TINYGRAD_SPLIT_RATIO] = {"REDUCEOP_SPLIT_THRESHOLD", 32768, "tinygrad/schedule/rangeify.py split_reduceop"},
};

double fb_constant_value(fb_constant c)
{
    return table[c].value;
}

const char *fb_constant_name(fb_constant c)
{
    return table[c].name;
}

const char *fb_constant_source(fb_constant c)
{
    return table[c].source;
}
