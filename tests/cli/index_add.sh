#!/bin/bash
# Gradients of embeddings: sums by sorted rows, and the update that shares their kernel; pow by constants, which optimisers
# and activations are written with.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
cat >update.lua <<'LUA'
local fb, optim = require "fusebox", require "optim"
return fb.script {
  params = { tables = fb.int { 3 }, rows = fb.int { 50 }, n = fb.int { 33 }, size = fb.int { 5 }, low = fb.int { 0 },
    high = fb.int { 50 }, decay = fb.float { 0 }, momentum = fb.float { 0 }, dtype = fb.choice { "f32", "bf16" } },
  model = function(g, p)
    local loss, tables = 0, {}
    for i = 1, p.tables do
      local ids = g:input("ids", { p.n }, "i64", { dist = "integer", low = p.low, high = p.high })
      tables[i] = g:param("table", { p.rows, p.size }, p.dtype, { dist = "normal" })
      loss = (tables[i]:embedding(ids) * g:input("y", { p.n, p.size }, p.dtype)):sum() + loss
    end
    optim.sgd(g, loss, tables, { lr = 0.1, weight_decay = p.decay, momentum = p.momentum })
    return loss
  end,
}
LUA
# one row of more points than fit a list; ids outside; all rows moved; 16 bits
for set in "" "--set n=9000 --set high=2 --set tables=1" "--set low=-20 --set high=80" "--set decay=0.1 --set dtype=bf16" \
    "--set momentum=0.9 --set size=1"; do
    fb check update.lua max --device host $set
    is "updates are right $set" 0 out '^✓ max: '
done
fb explain update.lua none --edge backward.index_add sgd.mul --device replay:h200 --set tables=1
is "what is made of a row's sum shares its kernel" 0 out 'fuse: fine: .*; all rows are stored$'
fb explain update.lua auto --nest --device replay:h200
is "rows that nobody names are left alone, in all tables at once" 0 out 'serves 3 equal members' \
    out 'rows that the index does not name stay as they are'
fb explain update.lua max --nest --device replay:h200 --set decay=0.1
is "decay moves the others" 0 out 'all rows are stored: .sgd.mul. changes those, too'
fb explain update.lua max --schedule --device replay:h200
is "the schedule says how" 0 out 'sorted rows: [0-9]+ blocks'
fb emit update.lua auto@replay:h200 --target cuda
is "one launch for all tables" 0 out 'fb_sorted<256, 5, [0-9]+, false, [0-9]+, [0-9]+, float'
holds "of one section" test "$(grep -c 'fb_sorted<' out)" = 1

# atomic additions, by choice
cat >sums.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { n = fb.int { 20000 }, rows = fb.int { 3000 }, size = fb.int { 32 }, dtype = fb.choice { "f32", "i64" } },
  model = function(g, p)
    local ids = g:input("ids", { p.n }, "i64", { dist = "integer", high = p.rows })
    local kind = p.dtype == "i64" and { dist = "integer", high = 9 } or nil
    return g:input("x", { p.n, p.size }, p.dtype, kind):index_add(ids, p.rows)
  end,
  plans = {
    any_order = function(pl) pl:preset("max"):knob("index_add", "atomics", 1) end,
  },
}
LUA
fb emit sums.lua any_order@replay:h200 --target cuda
is "points are added as they come" 0 out 'fb_added_in_place<false, 256, 32, 4, 20000, 3000, '
fb run sums.lua max any_order auto --device replay:h200
is "and the column says so" 0 out '^! any_order: sums are in any order' out '^! auto: sums are in any order'
holds "a fixed order does not" sh -c '! grep -q "^! max" out'
fb run sums.lua any_order --device replay:h200 --format=json
is "in JSON, too" 0 out '"sums": "in any order"'
fb run sums.lua any_order --device replay:h200 --set dtype=i64
holds "integers are the same in any order" sh -c '! grep -q "any order" out'
fb emit sums.lua max@replay:h200 --target cuda --set dtype=i64 --set n=40000
is "and are added so where they are many" 0 out 'fb_added_in_place<'
sed 's/max"):knob(.*/max"):knob("sgd.mul", "atomics", 1) end,/' sums.lua | sed -n '/plans/,/^  }/p' >plans
sed '/^  model/,$!d' update.lua >model
{ sed '/^  model/,$d' update.lua; cat plans; cat model; } >both.lua
fb run both.lua any_order --device replay:h200
is "not where rows are left alone" 1 err 'knob `atomics`: rows that the index does not name stay as they are'
fb run sums.lua any_order --device host
is "nor on a host" 1 err 'have no knob `atomics` on a host|have no knob'

cat >powers.lua <<'LUA'
return function(g)
  local x, y = g:input("x", { 1000 }, "f32", { low = -3, high = 3 }), g:input("y", { 1000 }, "f32", { low = 0.5, high = 3 })
  return { x ^ 2 - x ^ 3 + x ^ 4, y ^ -1 - y ^ 0.5 }
end
LUA
fb check powers.lua max --device host
is "powers are right" 0 out '^✓ max: '
for target in c cuda; do
    fb emit powers.lua max --target $target
    is "and products in $target" 0 out '(x_2|at\[v\]) \* .*(x_2|at\[v\]) \* '
    sed -n '/holds:/,$p' out >kernels
    holds "without a call" sh -c '! grep -q "powf*(" kernels'
done
done_testing
