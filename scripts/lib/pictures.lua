-- Layers over pictures and the like, as PyTorch has them: convolutions, pools, and norms by channel. Tensors are
-- [batch, channels, …] with one, two or three dimensions behind. Scripts call them in nn: nn.conv2d, nn.max_pool2d.
--
-- A convolution is one product of the weights with the windows of x, which unfold() only names: whether they are laid out
-- in memory first or read where they are is the plan's to decide.
local options = require "options"
local pictures = {}

-- A number for each of n dimensions, from one or a list of n.
local function each(what, name, v, n, default)
  v = v or default
  local all = {}
  for d = 1, n do all[d] = type(v) == "table" and v[d] or type(v) ~= "table" and v or nil end
  for d = 1, n do
    if math.type(all[d]) ~= "integer" then
      error(("%s: %s is a whole number, or a list of %d"):format(what, name, n), 0)
    end
  end
  return all
end

local function product(list, first, last)
  local n = 1
  for i = first or 1, last or #list do n = n * list[i] end
  return n
end

local function expect_rank(what, x, rank)
  if #x.shape ~= rank then
    error(("%s: takes [batch, channels%s], not %s"):format(what, (", size"):rep(rank - 2), tostring(x)), 0)
  end
end

-- Amounts for pad(), which counts from the last dimension.
local function amounts(before, after)
  local all = {}
  for d = #before, 1, -1 do all[#all + 1], all[#all + 2] = before[d], after[d] end
  return all
end

local function none(n)
  local all = {}
  for d = 1, n do all[d] = 0 end
  return all
end

-- All windows over the last k dimensions of x: those dimensions count windows, and k more at the end hold their elements.
local function windows(what, x, kernel, stride, dilation, before, after, fill)
  local k, first = #kernel, #x.shape - #kernel
  x = x:pad(amounts(before, after), fill or 0)
  for d = 1, k do
    local span = dilation[d] * (kernel[d] - 1) + 1
    local size = x.shape[first + d]
    if span > size then
      error(("%s: a window of %d does not fit into %d elements, padding included"):format(what, span, size), 0)
    end
    x = x:unfold(first + d - 1, span, stride[d])
    if dilation[d] > 1 then x = x:slice(#x.shape - 1, 0, span, dilation[d]) end
  end
  return x
end

-- x [N, C, …] with W [out, C / groups, …]: the windows as columns, one product for each group.
local function convolved(what, x, W, b, stride, dilation, before, after, groups)
  local out, inner, k = W.shape[1], W.shape[2], #W.shape - 2
  local kernel = table.move(W.shape, 3, 2 + k, 1, {})
  local all = windows(what, x, kernel, stride, dilation, before, after)
  local n, space, order = x.shape[1], table.move(all.shape, 3, 2 + k, 1, {}), { 0, 1 }
  for d = 1, k do order[2 + d], order[2 + k + d] = 1 + k + d, 1 + d end
  local columns, depth, places = all:permute(order), inner * product(kernel), product(space)
  local y
  if groups == 1 then
    y = W:view({ out, depth }):matmul(columns:view({ n, depth, places }))
  else
    y = W:view({ groups, out // groups, depth }):matmul(columns:view({ n, groups, depth, places }))
    y = y:view({ n, out, places })
  end
  if b then y = y + b:view({ out, 1 }) end
  return y:view({ n, out, table.unpack(space) })
end

local function channel_weights(g, name, shape, dtype, fan_in, biased)
  local bound = fan_in > 0 and 1 / math.sqrt(fan_in) or 0
  local range = { low = -bound, high = bound }
  local W = g:param(name .. "_weight", shape, dtype, range)
  return W, biased and g:param(name .. "_bias", { biased }, dtype, range) or nil
end

local conv_options = {
  stride = true, padding = true, dilation = true, groups = true, bias = true, name = true, weight = true,
  output_padding = true,
}

-- What all convolutions read from their options: weights given as tensors, or made; `shape(kernel)` is that of the weights.
local function prepare(what, k, x, out, kernel, opts)
  opts = options(what, opts, conv_options)
  expect_rank(what, x, 2 + k)
  local groups = opts.groups or 1
  if x.shape[2] % groups ~= 0 or out % groups ~= 0 then
    error(("%s: %d channels in and %d out do not fall into %d groups"):format(what, x.shape[2], out, groups), 0)
  end
  return {
    name = opts.name or what,
    groups = groups,
    weight = opts.weight,
    bias = opts.bias ~= nil and opts.bias ~= true and opts.bias or nil,
    biased = opts.bias ~= false,
    kernel = each(what, "the kernel", kernel, k),
    stride = each(what, "stride", opts.stride, k, 1),
    dilation = each(what, "dilation", opts.dilation, k, 1),
    padding = opts.padding == "same" and "same" or each(what, "padding", opts.padding, k, 0),
    more = each(what, "output_padding", opts.output_padding, k, 0),
  }
end

-- y = W ∗ x + b, W [out, in / groups, kernel…]. Options: stride, padding (a number, a list or "same"), dilation, groups,
-- bias = false, name; `weight` and `bias` may be tensors that there are already.
local function conv(k)
  local what = ("conv%dd"):format(k)
  return function(x, out, kernel, opts)
    local o = prepare(what, k, x, out, kernel, opts)
    local inner, before, after = x.shape[2] // o.groups, o.padding, o.padding
    if o.padding == "same" then
      before, after = {}, {}
      for d = 1, k do
        local total = o.dilation[d] * (o.kernel[d] - 1)
        before[d], after[d] = total // 2, total - total // 2
        if o.stride[d] ~= 1 then error(what .. ": padding \"same\" goes with stride 1", 0) end
      end
    end
    local W, b = o.weight, o.bias
    if not W then
      W, b = channel_weights(x.graph, o.name, { out, inner, table.unpack(o.kernel) }, x.dtype, inner * product(o.kernel),
        o.biased and not b and out)
      b = o.bias or b
    end
    local attrs = { stride = o.stride, before = before, after = after, dilation = o.dilation, groups = o.groups }
    return x.graph:op(what, { x, W, b }, attrs, function()
      return convolved(what, x, W, b, o.stride, o.dilation, before, after, o.groups)
    end, o.name)
  end
end

-- `step` - 1 zeros behind each element of dimension dim.
local function spread(x, dim, step)
  if step == 1 then return x end
  local shape, apart = table.move(x.shape, 1, #x.shape, 1, {}), table.move(x.shape, 1, #x.shape, 1, {})
  table.insert(apart, dim + 2, 1)
  local padding = none(2 * (#shape - dim))
  padding[#padding] = step - 1
  shape[dim + 1] = shape[dim + 1] * step
  return x:view(apart):pad(padding):view(shape)
end

-- Each element of dimension dim with `step` - 1 zeros after it, but the last.
local function set_apart(x, dim, step)
  if step == 1 then return x end
  return spread(x, dim, step):slice(dim, 0, (x.shape[dim + 1] - 1) * step + 1)
end

-- Of n elements of a kernel, which lie `dilation` apart in a result whose x lies `stride` apart: what both have in common,
-- so that only every so many elements of the result are any of x, then stride and dilation among these, and how far x has
-- to be set apart: where phases would multiply more zeros than x then has.
local function phase_of(n, stride, dilation)
  local common, rest = stride, dilation
  while rest > 0 and n > 1 do common, rest = rest, common % rest end -- one element has no neighbour
  stride, dilation = stride // common, n > 1 and dilation // common or 1
  if stride > 1 and dilation * (n - 1) // stride + 1 > n then return common, 1, dilation, stride end
  return common, stride, dilation, 1
end

-- With a stride every stride-th element of the result is made of the same elements of the kernel, and of neighbours in x:
-- `stride` convolutions of x as it is, a dimension, which are one product with the kernel's elements dealt to them. Their
-- results lie between each other, and what padding takes away is cut off. Where dilation and stride have no divisor in
-- common, the kernel is dealt with zeros between its elements; where they have one, there is nothing between its multiples
-- but zeros and b; and so it is between the elements of a kernel that is shorter than the stride.
local function by_phases(what, x, W, b, o, out, size)
  local k, n, inner = #o.kernel, x.shape[1], x.shape[2] // o.groups
  local common, stride, dilation, kernel, phases, whole, everywhere = {}, {}, {}, {}, {}, {}, true
  for d = 1, k do
    local apart
    common[d], stride[d], dilation[d], apart = phase_of(o.kernel[d], o.stride[d], o.dilation[d])
    x = set_apart(x, 1 + d, apart)
    local short = stride[d] > 1 and dilation[d] * (o.kernel[d] - 1) < stride[d]
    if stride[d] > 1 and not short then W, dilation[d] = set_apart(W, 1 + d, dilation[d]), 1 end
    kernel[d], phases[d] = W.shape[2 + d], short and o.kernel[d] or stride[d]
    whole[d] = (o.padding[d] + size[d] + common[d] - 1) // common[d]
    everywhere = everywhere and common[d] == 1 and phases[d] == stride[d]
  end
  local turned = W:view({ o.groups, inner, out // o.groups, table.unpack(kernel) }):transpose(1, 2)
  local rows, depth, taps, before, after = out, inner, {}, {}, {}
  for d = 1, k do
    local s = phases[d]
    local m = (kernel[d] + s - 1) // s
    local reach = dilation[d] * (m - 1)
    turned = turned:view({ rows, depth, kernel[d], product(kernel, d + 1) })
    turned = turned:pad({ 0, 0, 0, m * s - kernel[d] }):view({ rows, depth, m, s, product(kernel, d + 1) })
    turned = turned:flip(2):permute({ 0, 3, 1, 2, 4 })
    rows, depth, taps[d] = rows * s, depth * m, m
    local over = whole[d] - (x.shape[2 + d] + reach) * stride[d]
    before[d], after[d] = reach, reach + math.max(over + stride[d] - 1, 0) // stride[d]
  end
  turned = turned:view({ rows, inner, table.unpack(taps) })
  local y = convolved(what, x, turned, nil, each(what, "stride", 1, k), dilation, before, after, o.groups)
  local places = table.move(y.shape, 3, 2 + k, 1, {})
  if b and everywhere then y = y:view({ n, out, rows // out * product(places) }) + b:view({ out, 1 }) end
  local apart, order, lines = { n, out }, { 0, 1 }, { n, out }
  for d = 1, k do
    if phases[d] < stride[d] then
      y = y:view({ n * out * product(stride, 1, d - 1), phases[d], product(phases, d + 1) * product(places) })
      y = set_apart(y, 1, dilation[d])
      y = y:pad({ 0, 0, 0, stride[d] - y.shape[2] })
    end
    apart[2 + d], apart[2 + k + d] = stride[d], places[d]
    order[2 * d + 1], order[2 * d + 2] = 1 + k + d, 1 + d
    lines[2 + d] = places[d] * stride[d]
  end
  y = y:view(apart):permute(order):view(lines)
  for d = 1, k do
    y = spread(y:slice(1 + d, 0, whole[d]), 1 + d, common[d]):slice(1 + d, o.padding[d], o.padding[d] + size[d])
  end
  if b and not everywhere then y = y + b:view({ out, table.unpack(each(what, "bias", 1, k)) }) end
  return y
end

-- The gradient of a convolution as a layer: a convolution of x with zeros between its elements, by the kernel from
-- behind. W is [in, out / groups, kernel…].
local function conv_transpose(k)
  local what = ("conv_transpose%dd"):format(k)
  return function(x, out, kernel, opts)
    local o = prepare(what, k, x, out, kernel, opts)
    if o.padding == "same" then error(what .. ": padding is a number or a list", 0) end
    local inner, each_out = x.shape[2], out // o.groups
    local W, b = o.weight, o.bias
    if not W then
      W, b = channel_weights(x.graph, o.name, { inner, each_out, table.unpack(o.kernel) }, x.dtype,
        each_out * product(o.kernel), o.biased and not b and out)
      b = o.bias or b
    end
    local attrs = { stride = o.stride, padding = o.padding, output_padding = o.more, dilation = o.dilation, groups = o.groups }
    return x.graph:op(what, { x, W, b }, attrs, function()
      local flipped, before, after, size, strides = {}, {}, {}, {}, false
      for d = 1, k do
        flipped[d] = 1 + d
        before[d] = o.dilation[d] * (o.kernel[d] - 1) - o.padding[d]
        after[d] = before[d] + o.more[d]
        if before[d] < 0 then error(what .. ": padding beyond the kernel", 0) end
        size[d] = (x.shape[2 + d] - 1) * o.stride[d] + before[d] - o.padding[d] + o.more[d] + 1
        strides = strides or o.stride[d] > 1
      end
      if strides and product(x.shape) > 0 then return by_phases(what, x, W, b, o, out, size) end
      for d = 1, k do x = set_apart(x, 1 + d, o.stride[d]) end
      local turned = W:view({ o.groups, inner // o.groups, each_out, table.unpack(o.kernel) }):transpose(1, 2)
      turned = turned:view({ out, inner // o.groups, table.unpack(o.kernel) }):flip(table.unpack(flipped))
      return convolved(what, x, turned, b, each(what, "stride", 1, k), o.dilation, before, after, o.groups)
    end, o.name)
  end
end

local pool_options = { stride = true, padding = true, dilation = true, name = true }

-- The largest, or the mean, of each window of kernel elements, `stride` (the kernel) apart. Padding is of -∞, and of
-- zeros that count in the mean.
local function pool(k, largest)
  local what = ("%s_pool%dd"):format(largest and "max" or "avg", k)
  return function(x, kernel, opts)
    opts = options(what, opts, pool_options)
    expect_rank(what, x, 2 + k)
    local size = each(what, "the kernel", kernel, k)
    local stride, padding = each(what, "stride", opts.stride, k, kernel), each(what, "padding", opts.padding, k, 0)
    local dilation = each(what, "dilation", opts.dilation, k, 1)
    if not largest and opts.dilation then error(what .. ": has no dilation", 0) end
    local attrs = { kernel = size, stride = stride, padding = padding, dilation = dilation }
    return x.graph:op(what, { x }, attrs, function()
      local all = windows(what, x, size, stride, dilation, padding, padding, largest and -math.huge or 0)
      local axes = {}
      for d = 1, k do axes[d] = 1 + k + d end
      if largest then return all:amax(axes) end
      return all:mean(axes)
    end, opts.name or what)
  end
end

for k = 1, 3 do
  pictures[("conv%dd"):format(k)] = conv(k)
  pictures[("conv_transpose%dd"):format(k)] = conv_transpose(k)
  pictures[("max_pool%dd"):format(k)] = pool(k, true)
  pictures[("avg_pool%dd"):format(k)] = pool(k, false)
end

-- ---- norms by channel

local function by_channel(v, x)
  local shape = none(#x.shape - 1)
  shape[1] = v.shape[1]
  for d = 2, #shape do shape[d] = 1 end
  return v:view(shape)
end

local function affine(g, name, n, dtype)
  return g:param(name .. "_weight", { n }, dtype, { dist = "constant", value = 1 }),
    g:param(name .. "_bias", { n }, dtype, { dist = "constant", value = 0 })
end

-- As in evaluation: by running means and variances, which are parameters.
function pictures.batch_norm(x, opts)
  opts = options("batch_norm", opts, { eps = true, affine = true, name = true })
  local g, name, n, eps = x.graph, opts.name or "batch_norm", x.shape[2], opts.eps or 1e-5
  local mean = g:param(name .. "_mean", { n }, x.dtype, { dist = "normal", std = 0.1 })
  local variance = g:param(name .. "_var", { n }, x.dtype, { low = 0.5, high = 1.5 })
  local w, b
  if opts.affine ~= false then w, b = affine(g, name, n, x.dtype) end
  return g:op("batch_norm", { x, mean, variance, w, b }, { eps = eps }, function()
    local scale = (variance + eps):rsqrt()
    if w then scale = scale * w end
    local y = (x - by_channel(mean, x)) * by_channel(scale, x)
    return b and y + by_channel(b, x) or y
  end, name)
end

-- Each group of channels of each picture by its own mean and variance; a group for each channel is an instance norm.
function pictures.group_norm(x, groups, opts)
  opts = options("group_norm", opts, { eps = true, affine = true, name = true })
  local g, name, n, eps = x.graph, opts.name or "group_norm", x.shape[2], opts.eps or 1e-5
  if n % groups ~= 0 then error(("group_norm: %d channels do not fall into %d groups"):format(n, groups), 0) end
  local w, b
  if opts.affine ~= false then w, b = affine(g, name, n, x.dtype) end
  return g:op("group_norm", { x, w, b }, { groups = groups, eps = eps }, function()
    local parts = x:view({ x.shape[1], groups, product(x.shape, 2) // groups })
    local centred = parts - parts:mean(-1, true)
    local y = (centred * ((centred * centred):mean(-1, true) + eps):rsqrt()):view(x.shape)
    return w and y * by_channel(w, x) + by_channel(b, x) or y
  end, name)
end

return pictures
