#!/bin/sh
# Places in a sorted row, on the host: of long rows, and where the first ones alone matter.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

# Rows too long for the stack are sorted in a block; first places are found where nothing else is made of a rank: k is
# where they end.
cat >long.lua <<'LUA'
local fb = require "fusebox"
local function row(g, n, kind, dtype)
  local i = g:arange(n):view(1, n)
  local whole = g:input("x", { 2, n }, "f32", { dist = "integer", low = -300, high = 300 })
  if kind == "up" then return (whole * 0 + i:to("f32")):to(dtype) end
  if kind == "down" then return (whole * 0 - i:to("f32")):to(dtype) end
  if kind == "same" then return (whole * 0 + 3):to(dtype) end
  if dtype == "i64" then return whole:to("i64") * (kind == "wide" and 1000000007 or 1) end
  local x = (whole * 0.25):to(dtype)
  if kind == "wide" then return x * x * x end
  x = whole:eq(7):where((x - 100):sqrt(), x) -- what is no number, infinities, -0
  x = whole:gt(280):where(x / (x * 0), x)
  x = whole:lt(-290):where(x / (x * 0) * -1, x)
  return whole:eq(5):where(x * 0 * -1, x)
end
local ways = {
  all = function(r) return r end,
  lt = function(r, k) return r:lt(k):where(r * 2, -1) end,
  le = function(r, k) return r:le(k - 1):where(r * 2, -1) end,
  gt = function(r, k) return r:gt(k - 1):where(-1, r * 2) end,
  ge = function(r, k) return r:ge(k):where(-1, r * 2) end,
  eq = function(r, k) return r:eq(k - 1):where(r * 2, -1) end,
  ne = function(r, k) return r:ne(k - 1):where(-1, r * 2) end,
  lt_left = function(r, k, c) return c(k - 1):lt(r):where(-1, r * 2) end,
  le_left = function(r, k, c) return c(k):le(r):where(-1, r * 2) end,
  gt_left = function(r, k, c) return c(k):gt(r):where(r * 2, -1) end,
  ge_left = function(r, k, c) return c(k - 1):ge(r):where(r * 2, -1) end,
  eq_left = function(r, k, c) return c(k - 1):eq(r):where(r * 2, -1) end,
  twice = function(r, k) return r:lt(k):where(r * 2, -1) + r:lt(k // 2):where(r * 1000, 7) end,
  within = function(r, k) return r:ge(k // 2):logical_and(r:lt(k)):where(r * 2, -1) end,
  without = function(r, k) return r:lt(k // 2):logical_or(r:ge(k)):logical_not():where(r * 2, -1) end,
  -- no limit:
  stored = function(r, k) return r:lt(k):where(r * 2, -1), r end,
  other = function(r, k) return r:lt(k):where(-1, r * 2) end,
  either = function(r, k) return r:ge(k // 2):logical_or(r:lt(k)):where(r * 2, -1) end,
  same = function(r, k) return r:lt(k):where(r, -1) + r end,
}
local variants = {}
for name, way in pairs(ways) do
  variants[name] = function(g, p)
    local r = row(g, p.n, p.kind, p.dtype):rank(1, p.largest)
    return way(r, p.k, function(c) return g:const(c, "i64") end)
  end
end
return fb.script { title = "long", variants = variants, params = {
  n = fb.int { 20000 }, k = fb.int { 40 }, largest = fb.bool { true }, dtype = fb.choice { "f32", "bf16", "f64", "i64" },
  kind = fb.choice { "odd", "wide", "up", "down", "same" } } }
LUA
fb emit long.lua all:max --device host
is "a longer row is sorted in a block" 0 out 'fb_block_new' out 'fb_ranks\(fb_keys, 20000, ' out 'fb_block_free\(fb_block'
for way in lt le gt ge eq ne lt_left le_left gt_left ge_left eq_left twice within without; do
    fb emit long.lua $way:max --device host
    is "first places are told apart: $way" 0 out '\.first = 40,'
done
for way in stored other either same; do
    fb emit long.lua $way:max --device host
    is "all places are: $way" 0 out 'fb_ranks\(fb_keys, 20000, '
done
fb emit long.lua lt:max --set n=640 --set k=41 --device host
is "a large part of a row is sorted" 0 out 'fb_ranks\(fb_keys, 640, '
i=0
for set in n=20000 'n=20000 dtype=f64' 'n=20000 dtype=i64 largest=false' 'n=700 k=43' 'n=20000 k=1' 'n=700 k=699' \
    'n=20000 k=19999'; do
    i=$((i + 1))
    our_turn $i || continue
    # shellcheck disable=SC2086,SC2046 # several words
    fb check long.lua all:max lt:max le:max gt:max ge:max eq:max ne:max lt_left:max le_left:max gt_left:max ge_left:max \
        eq_left:max twice:max within:max without:max stored:max other:max either:max same:max --device host \
        $(printf -- '--set %s ' $set)
    is "long rows and first places are right: $set" 0 no '✗' out '✓ lt:max' out '✓ stored:max' out '✓ same:max'
done
i=0
for dtype in f32 bf16 f64 i64; do
    for kind in wide up down same; do
        for largest in true false; do
            case $dtype-$kind in bf16-up | bf16-down) continue ;; esac # numbers that it does not tell apart
            i=$((i + 1))
            our_turn $i || continue
            fb check long.lua all:max lt:max --set dtype=$dtype --set kind=$kind --set largest=$largest --device host
            is "in $dtype, $kind, largest $largest" 0 out '✓ all:max' out '✓ lt:max'
        done
    done
done

done_testing
