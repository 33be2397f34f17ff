#!/bin/sh
# Convolutions, pools and norms: of nn, and of the importer as far as it needs no PyTorch.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

cat >same.lua <<'LUA'
local fb, nn = require "fusebox", require "nn"
local function apart(a, b) return (a - b):abs():amax() end
-- The same place by place; the gradient of a convolution by its rule, and as a layer of its own.
return fb.script { title = "same", model = function(g)
  local normal = { dist = "normal" }
  local x, W = g:input("x", { 2, 6, 9, 8 }, "f32", normal), g:input("W", { 8, 3, 3, 2 }, "f32", normal)
  local opts = { stride = { 2, 1 }, padding = { 1, 0 }, groups = 2, dilation = { 1, 2 }, weight = W, bias = false }
  local y, sum = nn.conv2d(x, 8, { 3, 2 }, opts), nil
  local p, h, w = x:pad({ 0, 0, 1, 1 }), y.shape[3], y.shape[4]
  for q = 0, 1 do
    local part
    for i = 0, 2 do for j = 0, 1 do
      local at = p:slice(1, 3 * q, 3 * q + 3):slice(2, i, i + 2 * h - 1, 2):slice(3, 2 * j, 2 * j + w):view({ 2, 3, h * w })
      local here = W:slice(0, 4 * q, 4 * q + 4):slice(2, i, i + 1):slice(3, j, j + 1):view({ 4, 3 }):matmul(at)
      part = part and part + here or here
    end end
    sum = sum and g:cat({ sum, part }, 1) or part
  end
  local z = g:input("z", y.shape, "f32", normal)
  local back = nn.conv_transpose2d(z, 6, { 3, 2 }, opts)
  local m, largest, padded = nn.max_pool2d(x, 3, { stride = 2, padding = 1 }), nil, x:pad({ 1, 1, 1, 1 }, -math.huge)
  for i = 0, 2 do for j = 0, 2 do
    local at = padded:slice(2, i, i + 2 * m.shape[3] - 1, 2):slice(3, j, j + 2 * m.shape[4] - 1, 2)
    largest = largest and largest:maximum(at) or at
  end end
  local n = nn.group_norm(x, 3)
  return g:stack({ apart(y:view({ 2, 8, h * w }), sum), apart(g:grad((y * z):sum(), { x })[1], back), apart(m, largest),
    apart(nn.log_softmax(z, 1):exp():sum(1), z:sum(1) * 0 + 1), n:mean():abs(), apart((n * n):mean(), (x:sum() * 0) + 1) }, 0)
end }
LUA
# Transposed convolutions place by place: each element of x spreads the kernel over the result.
cat >phases.lua <<'LUA'
local fb, nn = require "fusebox", require "nn"
return fb.script { title = "phases", model = function(g)
  local normal, found = { dist = "normal" }, {}
  for i, o in ipairs {
    { kernel = { 3, 2 }, stride = { 2, 3 }, dilation = { 2, 2 } }, { kernel = { 3, 3 }, stride = { 5, 2 }, dilation = { 2, 3 } },
    { kernel = { 1, 4 }, stride = { 3, 3 }, dilation = { 2, 6 } }, { kernel = { 2, 3 }, stride = { 4, 1 }, dilation = { 3, 2 } },
  } do
    local x, W = g:input("x" .. i, { 2, 4, 3, 5 }, "f32", normal), g:input("W" .. i, { 4, 3, table.unpack(o.kernel) }, "f32", normal)
    local b, size, sum = g:input("b" .. i, { 6 }, "f32", normal), {}, nil
    for d = 1, 2 do size[d] = (x.shape[2 + d] - 1) * o.stride[d] + o.dilation[d] * (o.kernel[d] - 1) + 1 end
    for q = 0, 1 do for p = 0, o.kernel[1] - 1 do for r = 0, o.kernel[2] - 1 do
      local w = W:slice(0, 2 * q, 2 * q + 2):slice(2, p, p + 1):slice(3, r, r + 1):view({ 2, 3 }):transpose(0, 1)
      local y = w:matmul(x:slice(1, 2 * q, 2 * q + 2):view({ 2, 2, 15 })):view({ 2, 3, 3, 1, 5, 1 })
      y = y:pad({ 0, o.stride[2] - 1, 0, 0, 0, o.stride[1] - 1 }):view({ 2, 3, 3 * o.stride[1], 5 * o.stride[2] })
      y = y:slice(2, 0, 2 * o.stride[1] + 1):slice(3, 0, 4 * o.stride[2] + 1)
      local h, v = p * o.dilation[1], r * o.dilation[2]
      y = y:pad({ v, size[2] - v - y.shape[4], h, size[1] - h - y.shape[3], 3 * q, 3 - 3 * q })
      sum = sum and sum + y or y
    end end end
    o.weight, o.bias, o.groups, o.padding = W, b, 2, { 0, 1 }
    local t, kernel = o, o.kernel
    t.kernel = nil
    local y = nn.conv_transpose2d(x, 6, kernel, t)
    found[i] = (y - (sum + b:view({ 6, 1, 1 })):slice(3, 1, size[2] - 1)):abs():amax()
  end
  return g:stack(found, 0)
end }
LUA
differ() { # FILE NAME [OPTION]…: the largest of the differences is a rounding
    file=$1 name=$2
    shift 2
    fb values "$file" max stack --device host --format json "$@"
    awk '/"max":/ { found = $2 + 0 < 1e-4 } END { exit !found }' out || status="$status, far apart"
    is "$name" 0 out '"elements"'
}
differ phases.lua "transposed convolutions of nn place by place"
differ same.lua "convolutions, pools and norms of nn against the same place by place"
if command -v python3 >/dev/null 2>&1; then
    python3 "$FB_SRCDIR/tests/cli/import_layers.py" "$FB_SRCDIR" layers.json
    differ layers.json "the importer's convolutions and pools against their definitions"
    fb graph layers.json eager --device host
    is "a convolution is one kernel of eager" 0 out 'conv2d\.matmul' out 'conv_transpose3d\.matmul'
else
    report ok "the importer's convolutions # SKIP there is no python3"
    report ok "a convolution of eager # SKIP there is no python3"
fi

# How a processor goes through what is slow or far apart: vectors of functions ahead of a running sum, and places that take
# divisions in 32 bits.
cat >ahead.lua <<'LUA'
local fb = require "fusebox"
return fb.script { title = "ahead", model = function(g)
  local x = g:input("x", { 5, 700 }, "f32", { dist = "normal" })
  return x:softplus():cumsum(1) - x:mean(1, true)
end }
LUA
cat >twice.lua <<'LUA'
local fb = require "fusebox"
return fb.script { title = "twice", model = function(g)
  local c = (g:input("x", { 5, 700 }, "f32", { dist = "normal" }) * 0.01):exp():cumprod(1)
  return c - c:mean(1, true)
end }
LUA
# Convolutions of few rows, which loops make: what their windows have in common is made once, with what goes before.
cat >staged.lua <<'LUA'
local fb, nn = require "fusebox", require "nn"
local kinds = {
  depthwise = { { 2, 40, 23, 29 }, 40, 3, { groups = 40, padding = 1 } },
  strided = { { 2, 40, 24, 33 }, 40, 5, { groups = 40, padding = 2, stride = 2 } },
  dilated = { { 1, 40, 30, 31 }, 40, 3, { groups = 40, padding = 2, dilation = 2 } },
  uneven = { { 2, 40, 19, 40 }, 40, { 5, 2 }, { groups = 40, padding = { 0, 1 }, stride = { 3, 1 } } },
  long = { { 2, 12, 1501 }, 24, 7, { groups = 3, padding = 3 } },
  long_strided = { { 2, 12, 3001 }, 24, 9, { groups = 3, padding = 4, stride = 2 } },
  cube = { { 1, 24, 9, 10, 26 }, 24, 3, { groups = 24, padding = 1 } },
  few = { { 1, 40, 44, 52 }, 3, 7, { padding = 3 } }, -- too much to stay near, but for some lines of it
  across = { { 2, 200, 24 }, 24, 19, { groups = 8, padding = 9 } }, -- channels last: rows of windows lie apart
}
local variants = {}
for name, k in pairs(kinds) do
  variants[name] = function(g, p)
    local x = g:input("x", k[1], p.dtype, { dist = "normal" })
    local act = p.dtype == "f32" and x:clamp(0, 6) or p.dtype == "bf16" and x:tanh() or x
    if name == "across" then act = act:transpose(1, 2) end
    return nn["conv" .. #k[1] - 2 .. "d"](act, k[2], k[3], k[4])
  end
end
return fb.script { title = "staged", variants = variants, params = { dtype = fb.choice { "f32", "bf16", "f64" } } }
LUA
# All to all: rows that each row of an outer loop goes over again are turned once, ahead of a chunk or of all.
cat >turned.lua <<'LUA'
local fb = require "fusebox"
local kinds = {
  chunks = { { 40, 1, 24 }, { 1, 130, 24 }, function(a, b) return ((a - b) * (a - b)):sum(2) end },
  batches = { { 3, 20, 1, 7 }, { 3, 1, 70, 7 }, function(a, b) return (a - b):abs():amax(3) end },
  ahead = { { 64, 1, 11 }, { 1, 17, 11 }, function(a, b) return (a * b:tanh()):mean(2) end },
  prime = { { 33, 1, 67 }, { 1, 65, 67 }, function(a, b) return (a:maximum(b)):sum(2):sigmoid() end },
  found = { { 33, 1, 20 }, { 1, 40, 20 }, function(a, b) return (a - b):argmax(2) end },
  twice = { { 33, 1, 20 }, { 1, 48, 20 }, function(a, b)
    local d = a - b:exp()
    local off = d - d:mean(2, true)
    return (off * off):mean(2)
  end },
  planes = { { 17, 2, 1, 4, 5 }, { 1, 1, 300, 4, 5 }, function(a, b)
    return (a - b):abs():view({ 17, 2, 300, 20 }):sum(3)
  end },
}
local variants = {}
for name, k in pairs(kinds) do
  variants[name] = function(g, p)
    return k[3](g:input("a", k[1], p.dtype, { dist = "normal" }), g:input("b", k[2], p.dtype, { dist = "normal" }))
  end
end
return fb.script { title = "turned", variants = variants, params = { dtype = fb.choice { "f32", "bf16", "f64" } } }
LUA
cat >places.lua <<'LUA'
local fb = require "fusebox"
return fb.script { title = "places", model = function(g)
  local x = g:input("x", { 7, 9, 33 }, "f32", { dist = "normal" })
  return x:view({ 7, 9, 33, 1 }):pad({ 0, 1 }):view({ 7, 9, 66 }):slice(2, 1, 64):sigmoid()
end }
LUA
fb emit ahead.lua max --device host
is "what a running sum adds up is computed ahead of it" 0 out 'softplus_ahead\[r - r0\] = softplus' out 'cumsum \+= softplus_ahead\[r - r0\]'
fb run ahead.lua max@host
is "and is right" 0 out '✓'
fb run twice.lua max@host
is "also where two passes of a row need it" 0 out '✓'
kinds='depthwise:max strided:max dilated:max uneven:max long:max long_strided:max cube:max few:none across:max'
for kind in $kinds; do
    fb emit staged.lua "$kind" --set dtype=f64 --device host # a library may convolve floats
    is "windows of $kind are read where they were made once" 0 out '_staged\['
done
turn=0
for dtype in f32 bf16 f64; do
    turn=$((turn + 1))
    our_turn $turn || continue
    # shellcheck disable=SC2086
    fb check staged.lua $kinds --set dtype=$dtype --device host
    is "and are right in $dtype" 0 out '✓ depthwise:max' out '✓ strided:max' out '✓ dilated:max' out '✓ uneven:max' \
        out '✓ long:max' out '✓ long_strided:max' out '✓ cube:max' out '✓ few:none' out '✓ across:max'
done
kinds='chunks:max batches:max ahead:max prime:max found:max twice:max planes:max'
for kind in $kinds; do
    fb emit turned.lua "$kind" --device host
    is "rows of $kind are turned once" 0 out '_staged\['
done
for dtype in f32 bf16 f64; do
    turn=$((turn + 1))
    our_turn $turn || continue
    # shellcheck disable=SC2086
    fb check turned.lua $kinds --set dtype=$dtype --device host
    is "and are right in $dtype" 0 out '✓ chunks:max' out '✓ batches:max' out '✓ ahead:max' out '✓ prime:max' \
        out '✓ found:max' out '✓ twice:max' out '✓ planes:max'
done
fb emit places.lua max --device host
is "places that take divisions are numbers of 32 bits" 0 out 'for \(int [jk] = 0; [jk] < 63; [jk]\+\+\)'
fb run places.lua max@host
is "and right ones" 0 out '✓'

# A sort against a sort by hand: the position of the k-th smallest is where as many go before it.
cat >sorts.lua <<'LUA'
local fb, nn = require "fusebox", require "nn"
local function apart(a, b) return (a:to("f32") - b:to("f32")):abs():amax() end
return fb.script { title = "sorts", model = function(g)
  local x = g:input("x", { 6, 5, 7 }, "f32", { dist = "integer", low = -3, high = 4 })
  local function before(dim, largest) -- the same by comparing all with all
    local n, line = x.shape[dim + 1], x:transpose(dim, 2)
    local m = line.shape
    local a, b = line:view(m[1], m[2], n, 1), line:view(m[1], m[2], 1, n)
    local i, j = g:arange(n):view(n, 1), g:arange(n):view(1, n)
    local goes = largest and b:gt(a) or b:lt(a)
    return goes:logical_or(b:eq(a):logical_and(j:lt(i))):to("i64"):sum(-1):transpose(dim, 2)
  end
  local out = {}
  for dim = 0, 2 do for k, largest in ipairs { false, true } do
    out[#out + 1] = apart(x:rank(dim, largest), before(dim, largest))
    local values, at = nn.sort(x, dim, { descending = largest })
    out[#out + 1] = apart(at:rank(dim), x:rank(dim, largest)) * 0 + apart(values:rank(dim, largest), at * 0 + g:arange(x.shape[dim + 1]):view(
      dim == 0 and { 6, 1, 1 } or dim == 1 and { 5, 1 } or { 7 }))
    local top, where = nn.topk(x, 3, dim, { largest = largest })
    out[#out + 1] = apart(top, values:slice(dim, 0, 3)) + apart(where, at:slice(dim, 0, 3))
  end end
  return g:stack(out, 0)
end }
LUA
if our_turn 0; then
    fb check sorts.lua --device host
    is "sorts are right in every preset" 0 out '✓ none' out '✓ max' out '✓ auto'
fi
differ sorts.lua "sort, topk and rank against comparing all with all"

# Longer rows are sorted, short ones of them counted; of equal elements the first goes first, and what is no number last.
cat >ranks.lua <<'LUA'
local fb = require "fusebox"
local function places(g, x, largest)
  local m, n = x.shape[1], x.shape[2]
  local a, b = x:view(m, n, 1), x:view(m, 1, n)
  local none_a, none_b = a:ne(a), b:ne(b)
  local low, high, none_low, none_high = b, a, none_b, none_a
  if largest then low, high, none_low, none_high = a, b, none_a, none_b end
  local goes = low:lt(high):logical_or(none_high:logical_and(none_low:logical_not()))
  local same = a:eq(b):logical_or(none_a:logical_and(none_b))
  local first = g:arange(n):view(1, n):lt(g:arange(n):view(n, 1))
  return goes:logical_or(same:logical_and(first)):to("i64"):sum(-1)
end
return fb.script { title = "ranks", params = { dtype = fb.choice { "f32", "bf16", "f64", "i64" } }, model = function(g, p)
  local out = {}
  for _, n in ipairs { 23, 24, 159, 160, 700 } do
    local whole = g:input("x" .. n, { 5, n }, "f32", { dist = "integer", low = -30, high = 31 })
    local x = p.dtype == "i64" and whole:to("i64") * 1000000007 or (whole * 0.25):to(p.dtype)
    if p.dtype ~= "i64" and n == 160 then x = x:sqrt() * -1 end -- -0 as well, and what is no number
    for _, largest in ipairs { false, true } do
      out[#out + 1] = (x:rank(1, largest) - places(g, x, largest)):to("f32"):abs():amax()
    end
  end
  if p.dtype == "f32" then -- one that is compared nine million times
    local line = g:input("line", { 3000 })
    out[#out + 1] = (line:rank(0) - places(g, line:view(1, 3000), false):view(3000)):to("f32"):abs():amax()
  end
  return g:stack(out, 0)
end }
LUA
fb emit ranks.lua eager --device host
is "a long row is sorted once" 0 out 'fb_ranks\(fb_keys, 700, fb_room, '
# f32, which has more to sort, in a turn by itself.
for dtype in 2:f32 0:bf16 1:f64 1:i64; do
    our_turn "${dtype%:*}" || continue
    dtype=${dtype#*:}
    fb check ranks.lua none eager auto --set "dtype=$dtype" --device host
    is "and is right in $dtype" 0 out '✓ none' out '✓ eager' out '✓ auto'
    differ ranks.lua "as comparing all with all has it in $dtype" --set "dtype=$dtype"
done

# Arrays beside a value are called after it; an input of that name has another one.
cat >arrays.lua <<'LUA'
local fb = require "fusebox"
return fb.script { title = "arrays", variants = {
  row = function(g)
    local x = g:input("x", { 64, 200 })
    local e = (x - x:amax(1, true)):exp()
    return e / e:sum(1, true) * g:input("exp_row", { 64, 200 })
  end,
  best = function(g) return g:input("x", { 64, 200 }):argmax(1):to("f32") * g:input("best_argmax", { 64 }) end,
  ahead = function(g)
    local x = g:input("x", { 64, 2000 })
    return (x * x):sigmoid():cumsum(1) * g:input("sigmoid_ahead", { 64, 2000 })
  end,
  staged = function(g)
    local x, y = g:input("x", { 64, 1, 20 }), g:input("y", { 1, 200, 20 })
    return (x - y:tanh()):abs():sum(2) * g:input("tanh_staged", { 64, 200 })
  end,
  ranks = function(g) return g:input("x", { 64, 200 }):rank(1):to("f32") * g:input("rank_ranks", { 64, 200 }) end,
  words = function(g)
    local y = g:input("_Alignas", { 64 }) + g:input("__restrict", { 64 }) * g:input("_", { 64 })
    return y * g:input("UINT32_MAX", { 64 }) + g:input("FB_DEVICE", { 64 })
  end,
} }
LUA
fb check arrays.lua row:max best:max ahead:max staged:max ranks:max words:max --device host
is "names of arrays and of the compiler's are no input's" 0 out '✓ row:max' out '✓ best:max' out '✓ ahead:max' \
    out '✓ staged:max' out '✓ ranks:max' out '✓ words:max'

# The place of the largest: the first of equals, and of what is no number, within a chunk of what is looked through and beyond.
cat >firsts.lua <<'LUA'
local fb = require "fusebox"
local function apart(a, b) return (a:to("f32") - b:to("f32")):abs():amax() end
return fb.script { title = "firsts", model = function(g)
  local out = {}
  for _, n in ipairs { 17, 256, 700 } do
    local x = g:input("x" .. n, { 9, n }, "f32", { dist = "integer", low = -3, high = 4 })
    local at = g:arange(n):to("f32")
    local function first(found) return g:where(found, at, n):amin(1) end
    out[#out + 1] = apart(x:argmax(1), first(x:eq(x:amax(1, true))))
    out[#out + 1] = apart((x * 0.5):argmin(1), first(x:eq(x:amin(1, true))))
    local root = (x + (at - n / 2)):sqrt() -- no numbers in the first half
    out[#out + 1] = apart(root:argmax(1), first(root:ne(root)))
    out[#out + 1] = apart((x:to("f64") * 0 - math.huge):argmax(1), x:sum(1) * 0)
  end
  return g:stack(out, 0)
end }
LUA
if our_turn 1; then
    fb check firsts.lua --device host
    is "places of the largest are right in every preset" 0 out '✓ none' out '✓ max' out '✓ auto'
fi
differ firsts.lua "argmax and argmin against comparing with the largest"

# A product of which no library reads an operand as it lies: not of doubles, which no library convolves.
cat >conv.lua <<'LUA'
local fb, nn = require "fusebox", require "nn"
return fb.script { title = "conv", params = { dtype = fb.choice { "f64", "f32" } }, model = function(g, p)
  return nn.relu(nn.conv2d(g:input("x", { 1, 32, 24, 24 }, p.dtype), 32, 3, { padding = "same" }))
end }
LUA
fb check conv.lua eager max --set dtype=f32 --device host
is "a convolution is right, whoever makes it" 0 out '✓ eager' out '✓ max'
fb check conv.lua eager max --device host
is "windows are laid out for the library" 0 out '✓ eager' out '✓ max'
fb run conv.lua max --device host --format json
is "as a launch of its own" 0 out '"launches": 2,'
# With its bias it is one kernel at any size: too much for loops that would sum and add, too little to ask for the library first.
cat >biased.lua <<'LUA'
local fb, nn = require "fusebox", require "nn"
return fb.script { title = "biased",
  params = { size = fb.int { 8, min = 1, max = 64 }, channels = fb.int { 16, min = 1, max = 64 }, batch = fb.int { 1, min = 1, max = 4 } },
  model = function(g, p)
    return nn.conv2d(g:input("x", { p.batch, p.channels, p.size, p.size }, "f32"), 16, 3, { padding = 1 })
  end,
}
LUA
while read -r size channels batch; do
    set -- --set "size=$size" --set "channels=$channels" --set "batch=$batch" --device host
    fb check biased.lua eager "$@"
    is "a convolution with bias, $channels channels of $batch x $size x $size" 0 out '✓ eager'
    fb explain biased.lua eager --procedure "$@"
    is "is one kernel of eager" 0 out '^kernel 1: .*, 2 fused' no '^kernel 2:'
done <<'END'
8 16 1
31 16 1
19 24 2
33 64 1
END
cat >twice.lua <<'LUA'
return function(g)
  local x = g:input("x", { 511 }, "f64", { dist = "normal" }):unfold(0, 256) -- no library convolves doubles
  return x:matmul(x), x:transpose(0, 1):matmul(x)
end
LUA
fb check twice.lua eager --device host
is "an operand that is both sides, and one that a library may convolve" 0 out '✓ eager'
sed -i 's/"f32"/"f64"/' twice.lua
fb check twice.lua eager --device host
is "an operand that is both sides" 0 out '✓ eager'
fb run twice.lua eager --device host --format json
is "is laid out once" 0 out '"launches": 5,'
fb check conv.lua none eager max --set=width=3 --device host
is "a parameter that there is not" 2 err1 'no parameter'

while IFS='|' read -r call says; do
    cat >wrong.lua <<LUA
local fb, nn = require "fusebox", require "nn"
return function(g) return $call end
LUA
    fb check wrong.lua none --device host
    is "refused: $call" 1 out "^✗ none: wrong.lua:2: $says"
done <<'END'
nn.conv2d(g:input("x", { 4, 5 }, "f32"), 3, 3)|conv2d: takes \[batch, channels, size, size\], not
nn.conv2d(g:input("x", { 1, 4, 5, 5 }, "f32"), 3, 3, { groups = 2 })|conv2d: 4 channels in and 3 out do not fall into 2 groups
nn.conv1d(g:input("x", { 1, 4, 5 }, "f32"), 3, 7)|conv1d: a window of 7 does not fit into 5 elements, padding included
nn.conv1d(g:input("x", { 1, 4, 5 }, "f32"), 3, 1.5)|conv1d: the kernel is a whole number, or a list of 1
nn.max_pool2d(g:input("x", { 1, 4, 5, 5 }, "f32"), 2, { strde = 2 })|max_pool2d: unknown option "strde"
nn.group_norm(g:input("x", { 1, 4, 5, 5 }, "f32"), 3)|group_norm: 4 channels do not fall into 3 groups
nn.topk(g:input("x", { 4, 5 }, "f32"), 6)|topk: 6 of 5 elements
nn.sort(g:input("x", { 4, 5 }, "f32"), 2)|sort: there is no dimension 2
END
done_testing
