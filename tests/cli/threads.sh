#!/bin/sh
# What generated kernels of a CPU leave is the same to the last bit whatever the number of threads: nothing is added up
# in the order in which threads happen to end.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

# Few long rows, few and many long columns, a product with a vector, a space of two dimensions: threads share each.
cat >sums.lua <<'LUA'
return function(g)
  local n, m = 50021, 1201
  local function normal(name, ...) return g:param(name, { ... }, "f32", { dist = "normal" }) end
  local x, v, wide = normal("x", 3, n), normal("v", n, 1), normal("wide", 2, m, 67)
  local narrow, broad = normal("narrow", n, 5), normal("broad", n, 70)
  return g:cat({ x:sum(-1), (x * x):mean(-1), (x * x):matmul(v):view(3), (x * 0.001 + 1):prod(-1), x:amax(-1),
    narrow:mean(0), (broad * broad):sum(0), wide:sum({ 1, 2 }) }, 0)
end
LUA
sed 's/"f32"/"f64"/; s/50021/70003/; s/1201/999/' sums.lua >wide.lua
sed 's/50021/4099/; s/1201/301/' sums.lua >short.lua

# sums SCRIPT PLAN THREADS: a mean of all to 17 digits and the first elements, in a file of their own
sums() {
    OMP_NUM_THREADS=$3 fb values "$1.lua" "$2" cat --device host --format json
    cp out "$1.$2.$3"
}
for script in sums wide short; do
    for plan in none eager; do
        for threads in 1 2 3 7; do
            sums $script $plan $threads
            [ "$status" = 0 ] || break
        done
        is "$script, $plan: they are right" 0
        for threads in 2 3 7; do
            holds "$script, $plan: $threads threads add up what one does" cmp $script.$plan.1 $script.$plan.$threads
        done
    done
done

fb emit sums.lua none --target c --device host
is "columns as well are added up part by part" 0 out 'fb_parts_[a-z0-9_]+\[fb_part\]\[lane\]'
holds "no sum is left to the order in which threads end" sh -c '! grep -Eq "omp parallel.*reduction\((\+|\*) :" out'
done_testing
