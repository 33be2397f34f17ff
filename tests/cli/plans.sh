#!/bin/sh
# Graphs and plans without measuring: explain, emit, graph; and check.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

fb explain split_stack $small
is "the verdict on every edge" 0 out '^split_stack: .* → stack: fuse: ' out '^combined: .*: fuse: (fine|slower|unsupported|illegal): '
edges=$(wc -l <out)
holds "one a line" test "$edges" -gt 20
fb explain split_stack combined:max $small
is "in another plan" 0 out 'cut: ' no '^combined: '
fb explain split_stack combined:none --edge tanh linear.matmul $small
cp out one
fb explain split_stack combined:none $small
is "one edge" 0
fb explain split_stack --edge 'feature[*].tanh' stack $small
is "the edges between nodes of a name" 0 out '^split_stack: feature\[1\].tanh → stack: fuse: ' no '^combined'
holds "each of them" test "$(wc -l <out)" = 4
fb explain split_stack --edge 'feature[*].tanh' relu $small
is "nodes without an edge" 2 err1 'no edge leads from "feature\[\*\].tanh" to "relu"'
fb explain split_stack --edge 'feature[*].tnah' relu $small
is "nodes that there are not" 2 err1 'no node "feature\[\*\].tnah"'
fb explain split_stack split_stack:inductor --steps
is "a preset's decisions, with candidates and scores" 0 out '^split_stack:inductor: [0-9]+ decisions' \
    out '^ +[0-9]+  taken +fuse .*\([0-9.]+ MB\): ' out '^ +beside: fuse ' out 'refused .*is a library call' out '^ +18 kernels$'
fb explain split_stack combined:inductor --steps
is "inductor: three kernels for combined" 0 out '^ +3 kernels$'
fb explain split_stack 'combined:inductor[:7]' $small --steps --format json
json "the first decisions alone, as JSON" out fusebox_steps=1 columns columns.0.decisions=7
fb explain split_stack 'combined:inductor[no7]' $small --steps
is "one decision refused" 0 out '^ +7  declined ' out '^ +8  taken '
fb explain split_stack 'combined:inductor[7]' $small --steps
is "a badly written choice of decisions" 2 err1 'inductor\[:12\]'
fb explain split_stack combined:greedy $small --steps
is "a plan without decisions" 2 err1 'not made by a preset'
fb explain models/mlp_loop fed:max --procedure --set steps=1000
is "a plan as a procedure: loops, kernels, accesses through views" 0 out '^feed xs .*copied in whole' out '^for 1000 steps' \
    out '^  item\[i, j\] := xs\[step, i, j\]$' out '^  kernel [0-9]+: library, 5 fused$' \
    out ' fc1.matmul\[i, j\] := sum over k < 255: item\[i, k\] \* carried\[j, k\]$' \
    out ' sum_3\[i\] := sum over j < 2: mul_2\[j, i\]$' out '^  carried = sub_2   for the next step$' \
    out '^receive saved_fc1_weight = result  copied out'
fb check mlp_loop document:eager document:max --set steps=1000 --set inputs=15 --set hidden=15 --set outputs=15 --device host
is "the autodiff document's loop of 1,000 steps" 0 out '^✓ document:eager: ' out '^✓ document:max: '
fb explain puzzlers/split_stack combined:max --nest
is "a plan as nests: loops, values with their spaces and depths, passes" 0 out '^kernel 1: reduce' out 'section 0: rows i < 16384' \
    out 'mean over r < 256: %[0-9]+  .layer_norm.mean_2' out 'store relu' out 'pass 2: over space 0 at depth 2'
fb explain mlp_loop document:max --procedure --set steps=1000
is "and as a procedure: fed, trained, received" 0 out '^feed feeder ' out '^for 1000 steps' \
    out '^  carried_4 = sgd.sub_4   for the next step$' out '^receive saving_params_4 = result.*copied out'
for size in 16 1024; do
    fb emit lora_network lora:one_kernel --target cuda --set batch=64 --set inputs=$size --set hidden=$((size / 2)) --set outputs=$((size / 4))
    is "LoRA on an MLP in one kernel, from $size features on" 0 out '^ \*     mega\(x, '
    holds "one launch" test "$(sed -n '/^ \* launches/,/^ \*\//p' out | grep -c '^ \*     ')" = 1
done
fb check dlrm lecture:max --set data=csv --device host
is "the lecture's rows of Criteo, their ids looked up" 0 out '^✓ lecture:max: '
fb explain models/mlp_train grad:max --procedure
is "and what is assigned" 0 out ' fc1_weight\[i, j\] = sgd.sub\[i, j\]   in place$'
fb explain puzzlers/split_stack combined:max --schedule
is "and how they are dealt to threads: to a team of cores" 0 out '^kernel 1: reduce' out 'section 0: rows: about [0-9]+ operations'
fb explain puzzlers/split_stack combined:max@replay:h200 --schedule
is "to a grid: blocks, rows, vectors, what is held" 0 out 'section 0: rows: 2048 blocks of 256 threads; 16384 rows, 8 a block' \
    out 'vector: rows 4, space 0 4' out 'held in registers: input_data'
fb explain models/attention max@replay:h200 --schedule
is "tiles and chains too" 0 out 'chain: 16 rows by 64 columns on chip'
fb explain models/attention max@replay:h200 --schedule --set seq=1024 --set heads=64 --set dtype=bf16
is "and what a mask leaves of attention" 0 out 'by whole warpgroups, scores a tile at a time: 512 blocks of 384 threads' \
    out 'scores, 36 have something visible, at most 8 of a block: the last rows go first'
fb explain split_stack combined:max --schedule --nest
is "not both at once" 2 err1 'ask for different things'
fb explain split_stack combined:max --procedure --steps
is "one question at a time" 2 err1 'different things'
fb graph split_stack $small
is "the graph as text, both variants" 0 out '^split_stack$' out '^combined$' out 'tanh'
fb graph split_stack combined:max $small
is "with the kernels of a column" 0 out 'kernels of max' out 'tanh'
fb graph split_stack combined $small --format dot
is "as Graphviz" 0 out '^(strict )?digraph'
fb graph split_stack combined $small --format json
json "as JSON" out fusebox_graph=1 nodes outputs hash
fb graph split_stack $small --format json
is "JSON is of one variant" 2 err1 'name a variant'
fb emit split_stack combined:max $small
is "generated source" 0 out 'tanh' out 'void '
fb emit split_stack combined:max $small --target c
is "of the target that there is" 0 out 'void '
fb explain split_stack combined:greedy $small
is "a plan written in Lua" 0 out 'fuse|cut'
fb check split_stack $small
is "check: every variant × every preset" 0 out '✓ split_stack:none' out '✓ split_stack:max' out '✓ combined:eager' no '✗'
fb check split_stack combined split_stack:max $small --device host
is "check of a variant and of a column" 0 out '✓ combined:none' out '✓ split_stack:max' no 'split_stack:none'
fb check split_stack max $small --device host
is "of a plan, in every variant" 0 out '✓ split_stack:max' out '✓ combined:max' no 'eager'
fb graph split_stack combined $small --format json
cp out combined.json
fb check combined.json max --device host
is "of a plan of a graph" 0 out '^✓ max: ' no 'eager'
fb check combined.json mxa --device host
is "a misspelt one" 2 err1 'no preset or plan "mxa"; did you mean "max"'
fb check split_stack nobody $small
is "of a variant that there is not" 2 err1 'no variant "nobody"'
fb check lora_mlp
is "check of a bundled model" 0 no '✗'
done_testing
