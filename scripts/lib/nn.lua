-- Layers as PyTorch has them, written in the primitives of the graph.
--
-- Each layer is one *op* scope: it folds to one line, the preset `eager` makes it one kernel, and a framework that
-- measures the graph calls its own. Weights are made beside the scope and named after it (`linear_weight`), because they
-- are the op's operands. `name` in the options renames a layer: nn.linear(x, 512, { name = "fc1" }).
local options, pictures = require "options", require "pictures"
local nn = {}

-- Uniform in ±1/sqrt(fan_in), as nn.Linear and the recurrent cells start.
local function weight(g, name, shape, dtype, fan_in)
  local bound = fan_in > 0 and 1 / math.sqrt(fan_in) or 0
  return g:param(name, shape, dtype, { low = -bound, high = bound })
end

local function last(x) return x.shape[#x.shape] end

-- y = x Wᵀ + b. W is [out, in] as PyTorch keeps it. `weight` and `bias` may be tensors that there are already.
function nn.linear(x, out, opts)
  opts = options("linear", opts, { bias = true, name = true, weight = true })
  local g, name, inputs = x.graph, opts.name or "linear", last(x)
  if not inputs then error("linear: a scalar has no features (x: " .. tostring(x) .. ")", 0) end
  local W = opts.weight or weight(g, name .. "_weight", { out, inputs }, x.dtype, inputs)
  if opts.bias == false then
    return g:op("linear", { x, W }, {}, function() return x:matmul(W:t()) end, name)
  end
  local given = opts.bias ~= nil and opts.bias ~= true
  local b = given and opts.bias or weight(g, name .. "_bias", { out }, x.dtype, inputs)
  return g:op("linear", { x, W, b }, {}, function() return x:matmul(W:t()) + b end, name)
end

-- bias + a b, one call to the framework.
function nn.addmm(bias, a, b, opts)
  opts = options("addmm", opts, { name = true })
  return a.graph:op("addmm", { bias, a, b }, {}, function() return a:matmul(b) + bias end, opts.name)
end

-- (x - mean) / sqrt(var + eps) over the last dimension, then weight and bias if `affine`, or those given as tensors. Where
-- eps is 0 nothing is added.
function nn.layer_norm(x, opts)
  opts = options("layer_norm", opts, { eps = true, affine = true, size = true, name = true, weight = true, bias = true })
  local g, name, eps, n = x.graph, opts.name or "layer_norm", opts.eps or 1e-5, last(x)
  if opts.size and opts.size ~= n then
    error(("layer_norm: normalized size %s is not the last dimension (x: %s)"):format(opts.size, tostring(x)), 0)
  end
  local operands, w, b = { x }, opts.weight, opts.bias
  if not w ~= not b then error("layer_norm: weight and bias are given together", 0) end
  if w then
    operands = { x, w, b }
  elseif opts.affine then
    w = g:param(name .. "_weight", { n }, x.dtype, { dist = "constant", value = 1 })
    b = g:param(name .. "_bias", { n }, x.dtype, { dist = "constant", value = 0 })
    operands = { x, w, b }
  end
  return g:op("layer_norm", operands, { normalized_shape = { n }, eps = eps }, function()
    local centred = x - x:mean(-1, true)
    local variance = (centred * centred):mean(-1, true)
    if eps > 0 then variance = variance + eps end
    local y = centred * variance:rsqrt()
    if w then y = y * w + b end
    return y
  end, name)
end

-- exp(x - max) / sum, along dim (the last one unless it is said). What is subtracted cancels out, so that the maximum has
-- no part in the gradient.
function nn.softmax(x, dim, opts)
  opts = options("softmax", opts, { name = true })
  dim = dim or -1
  return x.graph:op("softmax", { x }, { dim = dim }, function()
    local e = (x - x:amax(dim, true):detach()):exp()
    return e / e:sum(dim, true)
  end, opts.name)
end

-- x / sqrt(mean(x²) + eps) over the last dimension, times a weight unless `affine` is false.
function nn.rms_norm(x, opts)
  opts = options("rms_norm", opts, { eps = true, affine = true, name = true })
  local g, name, eps, n = x.graph, opts.name or "rms_norm", opts.eps or 1e-6, last(x)
  local w = opts.affine ~= false and g:param(name .. "_weight", { n }, x.dtype, { dist = "constant", value = 1 }) or nil
  return g:op("rms_norm", { x, w }, { normalized_shape = { n }, eps = eps }, function()
    local y = x * ((x * x):mean(-1, true) + eps):rsqrt()
    return w and y * w or y
  end, name)
end

-- The logarithm of softmax(x, dim), without the exponentials' own logarithm.
function nn.log_softmax(x, dim, opts)
  opts = options("log_softmax", opts, { name = true })
  dim = dim or -1
  return x.graph:op("log_softmax", { x }, { dim = dim }, function()
    local shifted = x - x:amax(dim, true):detach()
    return shifted - shifted:exp():sum(dim, true):log()
  end, opts.name)
end

-- Places that are each looked for in all of a line, which is less than an index_add's threads look at.
local FEW = 8

-- The first k of each sorted line along dim, and where they lay: a rank, the positions summed up at these places, a gather.
local function sorted(kind, x, dim, k, descending, name)
  local rank = #x.shape
  if type(dim) ~= "number" or dim < -rank or dim >= rank then error(kind .. ": there is no dimension " .. tostring(dim), 0) end
  if dim < 0 then dim = dim + rank end
  local n = x.shape[dim + 1]
  k = k or n
  if math.type(k) ~= "integer" or k < 1 or k > n then error(("%s: %s of %d elements"):format(kind, tostring(k), n), 0) end
  return x.graph:op(kind, { x }, { dim = dim, k = k, descending = descending }, function()
    local g, line = x.graph, x:transpose(dim, rank - 1)
    local shape, rows = line.shape, 1
    for d = 1, rank - 1 do rows = rows * shape[d] end
    local place, first = line:rank(-1, descending):view(rows, n), g:arange(rows):view(rows, 1)
    local none, index = g:const(-1, "i64"), nil
    if k <= FEW and k < n then
      local to = place:lt(g:const(k, "i64")):where(place, none):view(rows, 1, n)
      local found = to:eq(g:arange(k):view(1, k, 1))
      index = found:where(g:arange(n):view(1, 1, n), g:const(0, "i64")):sum(2)
    else
      local to = first * k + place
      if k < n then to = place:lt(g:const(k, "i64")):where(to, none) end
      index = g:arange(n):view(1, n):expand { rows, n }:index_add(to, rows * k):view(rows, k)
    end
    local values = line:view(rows * n):embedding(index + first * n)
    shape[rank] = k
    return values:view(shape):transpose(dim, rank - 1), index:view(shape):transpose(dim, rank - 1)
  end, name)
end

-- As PyTorch's stable sort along dim (-1): values and where they lay. Equal elements keep their order, NaN is the largest.
function nn.sort(x, dim, opts)
  opts = options("sort", opts, { descending = true, name = true })
  return sorted("sort", x, dim or -1, nil, opts.descending == true, opts.name)
end

-- The k largest along dim (-1), or with `largest = false` the smallest, in order, and where they lay; of equals the first.
function nn.topk(x, k, dim, opts)
  opts = options("topk", opts, { largest = true, name = true })
  return sorted("topk", x, dim or -1, k, opts.largest ~= false, opts.name)
end

-- One primitive already; here so that all activations are found in one place.
function nn.gelu(x) return x:gelu() end
function nn.relu(x) return x:relu() end
function nn.softplus(x, beta, threshold) return x:softplus(beta, threshold) end
function nn.elu(x, alpha) return x:elu(alpha) end
function nn.mish(x) return x:mish() end

-- x sigmoid(x).
function nn.silu(x)
  return x.graph:op("silu", { x }, {}, function() return x * x:sigmoid() end)
end

-- A chain of linear layers: sizes { hidden, …, out }, `activation` (relu) between them.
function nn.mlp(x, sizes, opts)
  opts = options("mlp", opts, { activation = true, bias = true })
  local act = opts.activation or "relu"
  for i, size in ipairs(sizes) do
    x = nn.linear(x, size, { name = "fc" .. i, bias = opts.bias })
    if i < #sizes then x = act == "silu" and nn.silu(x) or x[act](x) end
  end
  return x
end

-- Rows of a table [rows, size] by an index tensor.
function nn.embedding(index, rows, size, opts)
  opts = options("embedding", opts, { name = true, dtype = true })
  local table = index.graph:param((opts.name or "embedding") .. "_weight", { rows, size }, opts.dtype or "f32", { dist = "normal" })
  return table:embedding(index)
end

-- softmax(q kᵀ / sqrt(d) + mask) v over the last two dimensions. A bool mask keeps where it is true, any other is added.
function nn.attention(q, k, v, opts)
  opts = options("attention", opts, { mask = true, scale = true, name = true })
  local scale = opts.scale or 1 / math.sqrt(last(q))
  local operands = { q, k, v, opts.mask }
  return q.graph:op("scaled_dot_product_attention", operands, { scale = scale }, function()
    local scores = q:matmul(k:transpose(-2, -1)) * scale
    if opts.mask and opts.mask.dtype == "bool" then
      scores = q.graph:where(opts.mask, scores, -1e30)
    elseif opts.mask then
      scores = scores + opts.mask
    end
    local e = (scores - scores:amax(-1, true):detach()):exp()
    return (e / e:sum(-1, true)):matmul(v)
  end, opts.name or "attention")
end

-- Self-attention over x [N, T, size] in `heads` heads, as nn.MultiheadAttention: one projection gives q, k and v, another
-- brings the heads together. `weights` may be those of an earlier call: in_proj and out_proj, each with its bias.
function nn.multi_head_attention(x, opts)
  opts = options("multi_head_attention", opts, { heads = true, mask = true, name = true, weights = true })
  local g, name, heads = x.graph, opts.name or "self_attn", opts.heads or 1
  if #x.shape ~= 3 then error("multi_head_attention: x is [N, T, size], not " .. tostring(x), 0) end
  local N, T, size = table.unpack(x.shape)
  if size % heads ~= 0 then
    error(("multi_head_attention: %d heads do not divide %d features"):format(heads, size), 0)
  end
  return g:scope(name, function()
    local given = opts.weights or {}
    local W_in = given[1] or weight(g, "in_proj_weight", { 3 * size, size }, x.dtype, size)
    local b_in = given[2] or weight(g, "in_proj_bias", { 3 * size }, x.dtype, size)
    local W_out = given[3] or weight(g, "out_proj_weight", { size, size }, x.dtype, size)
    local b_out = given[4] or weight(g, "out_proj_bias", { size }, x.dtype, size)
    local qkv = nn.linear(x, 3 * size, { weight = W_in, bias = b_in, name = "in_proj" })
    local q, k, v = table.unpack(qkv:view(N, T, 3, heads, size // heads):permute(2, 0, 3, 1, 4):unbind(0))
    local y = nn.attention(q, k, v, { mask = opts.mask }):transpose(1, 2):reshape(N, T, size)
    y = nn.linear(y, size, { weight = W_out, bias = b_out, name = "out_proj" })
    return y, { W_in, b_in, W_out, b_out }
  end)
end

-- nn.TransformerEncoderLayer of x [N, T, size] without dropout, normalised after each residual: the output and a list of
-- all weights, which another call may be given as `weights`.
function nn.encoder_layer(x, opts)
  opts = options("encoder_layer", opts,
    { heads = true, hidden = true, activation = true, mask = true, name = true, weights = true })
  local g, size, hidden, act = x.graph, last(x), opts.hidden or 4 * last(x), opts.activation or "relu"
  return g:scope(opts.name or "encoder_layer", function()
    local given = opts.weights
    local attended, weights = nn.multi_head_attention(x, { heads = opts.heads, mask = opts.mask, weights = given })
    local function make(name, shape, fan_in, value)
      local w = given and given[#weights + 1]
        or value and g:param(name, shape, x.dtype, { dist = "constant", value = value })
        or weight(g, name, shape, x.dtype, fan_in)
      weights[#weights + 1] = w
      return w
    end
    local function norm(y, name)
      return nn.layer_norm(y, { weight = make(name .. "_weight", { size }, nil, 1), bias = make(name .. "_bias", { size }, nil, 0), name = name })
    end
    local function linear(y, out, name)
      local W, b = make(name .. "_weight", { out, last(y) }, last(y)), make(name .. "_bias", { out }, last(y))
      return nn.linear(y, out, { weight = W, bias = b, name = name })
    end
    local y = norm(x + attended, "norm1")
    local inner = linear(y, hidden, "linear1")
    y = norm(y + linear(act == "silu" and nn.silu(inner) or inner[act](inner), size, "linear2"), "norm2")
    return y, weights
  end)
end

-- ---- modules: layers that know their sizes before they see an input, in PyTorch's names ----
--
-- net = nn.Sequential(nn.Linear(255, 255), nn.Sigmoid(), nn.Linear(255, 255)); y = net(x). The first call on a graph makes
-- the weights, later ones share them. net:parameters() lists them; net:parameters(g, dtype) makes them where they are not
-- made yet. In a loop that trains, net(x, weights) takes the values that the loop carries from step to step instead.
local module = {}
module.__index = module

function module:__call(x, weights)
  if not weights then self:parameters(x.graph, x.dtype) end
  return self.forward(x, weights or self.weights)
end

function module:parameters(g, dtype)
  if g and self.graph ~= g then self.graph, self.weights = g, self.make(g, dtype or "f32", self.prefix) end
  if not self.weights then error("parameters: the module has none yet: give the graph", 2) end
  return table.move(self.weights, 1, #self.weights, 1, {})
end

-- again() makes another module of the same sizes, make(g, dtype, prefix) the weights, whose names begin with the prefix.
local function new_module(prefix, again, make, forward)
  return setmetatable({ prefix = prefix, again = again, make = make, forward = forward }, module)
end

local function expect_size(what, x, size)
  if last(x) ~= size then error(("%s: the last dimension is not %d (x: %s)"):format(what, size, tostring(x)), 0) end
end

local function constant(g, name, n, dtype, value)
  return g:param(name, { n }, dtype, { dist = "constant", value = value })
end

function nn.Linear(inputs, outputs, opts)
  opts = options("Linear", opts, { bias = true })
  return new_module("linear_", function() return nn.Linear(inputs, outputs, opts) end, function(g, dtype, prefix)
    local W = weight(g, prefix .. "weight", { outputs, inputs }, dtype, inputs)
    return { W, opts.bias ~= false and weight(g, prefix .. "bias", { outputs }, dtype, inputs) or nil }
  end, function(x, w)
    expect_size("Linear", x, inputs)
    return nn.linear(x, outputs, { weight = w[1], bias = w[2] or false })
  end)
end

-- With a weight and a bias, as PyTorch's, unless `affine` is false.
function nn.LayerNorm(size, opts)
  opts = options("LayerNorm", opts, { eps = true, affine = true })
  return new_module("layer_norm_", function() return nn.LayerNorm(size, opts) end, function(g, dtype, prefix)
    if opts.affine == false then return {} end
    return { constant(g, prefix .. "weight", size, dtype, 1), constant(g, prefix .. "bias", size, dtype, 0) }
  end, function(x, w)
    expect_size("LayerNorm", x, size)
    return nn.layer_norm(x, { eps = opts.eps, weight = w[1], bias = w[2] })
  end)
end

local function without_weights(again, apply) return new_module("", again, function() return {} end, apply) end

function nn.ReLU() return without_weights(nn.ReLU, function(x) return x:relu() end) end
function nn.GELU() return without_weights(nn.GELU, function(x) return x:gelu() end) end
function nn.SiLU() return without_weights(nn.SiLU, function(x) return nn.silu(x) end) end
function nn.Sigmoid() return without_weights(nn.Sigmoid, function(x) return x:sigmoid() end) end
function nn.Tanh() return without_weights(nn.Tanh, function(x) return x:tanh() end) end
function nn.Mish() return without_weights(nn.Mish, function(x) return x:mish() end) end

function nn.Softplus(beta, threshold)
  return without_weights(function() return nn.Softplus(beta, threshold) end,
                         function(x) return x:softplus(beta, threshold) end)
end

function nn.ELU(alpha)
  return without_weights(function() return nn.ELU(alpha) end, function(x) return x:elu(alpha) end)
end

-- One after the other: sequential[1], sequential[2] … in the graph, with weights sequential1_weight …
local function chained(name, modules)
  local function again()
    local copies = {}
    for i, m in ipairs(modules) do copies[i] = m.again() end
    return chained(name, copies)
  end
  return new_module(name, again, function(g, dtype, prefix)
    local weights = {}
    for i, m in ipairs(modules) do
      m.prefix = prefix .. i .. "_"
      local own = m:parameters(g, dtype)
      table.move(own, 1, #own, #weights + 1, weights)
    end
    return weights
  end, function(x, weights)
    local from = 1
    for i, m in ipairs(modules) do
      local own = table.move(weights, from, from + #m.weights - 1, 1, {})
      from = from + #own
      x = x.graph:scope(name, i, function() return m(x, own) end)
    end
    return x
  end)
end

function nn.Sequential(...)
  local modules = { ... }
  for i = 1, select("#", ...) do
    if getmetatable(modules[i]) ~= module then
      error(("Sequential: argument %d is no module such as nn.Linear(4, 8)"):format(i), 2)
    end
  end
  return chained("sequential", modules)
end

-- x is [N, T, d_model] (batch_first). dim_feedforward is 2048 unless it is said, as in PyTorch.
function nn.TransformerEncoderLayer(d_model, nhead, opts)
  opts = options("TransformerEncoderLayer", opts, { dim_feedforward = true, activation = true, mask = true })
  local n, hidden = d_model, opts.dim_feedforward or 2048
  return new_module("encoder_layer_", function() return nn.TransformerEncoderLayer(d_model, nhead, opts) end,
    function(g, dtype, prefix)
      local weights = {}
      local function pair(name, outputs, inputs)
        weights[#weights + 1] = weight(g, prefix .. name .. "_weight", { outputs, inputs }, dtype, inputs)
        weights[#weights + 1] = weight(g, prefix .. name .. "_bias", { outputs }, dtype, inputs)
      end
      local function norm(name)
        weights[#weights + 1] = constant(g, prefix .. name .. "_weight", n, dtype, 1)
        weights[#weights + 1] = constant(g, prefix .. name .. "_bias", n, dtype, 0)
      end
      pair("in_proj", 3 * n, n)
      pair("out_proj", n, n)
      norm("norm1")
      pair("linear1", hidden, n)
      pair("linear2", n, hidden)
      norm("norm2")
      return weights
    end, function(x, w)
      expect_size("TransformerEncoderLayer", x, d_model)
      return (nn.encoder_layer(x, { heads = nhead, hidden = hidden, activation = opts.activation, mask = opts.mask,
                                    weights = w }))
    end)
end

-- num_layers of them, each with weights of its own.
function nn.TransformerEncoder(layer, num_layers)
  local layers = { layer }
  for i = 2, num_layers do layers[i] = layer.again() end
  return chained("layers", layers)
end

-- Weights of a recurrent cell with `gates` blocks of rows: W_ih [gates H, I], W_hh [gates H, H] and two biases.
local function cell_weights(x, h, gates, name)
  local g, H = x.graph, last(h)
  return weight(g, name .. "_weight_ih", { gates * H, last(x) }, x.dtype, H),
    weight(g, name .. "_weight_hh", { gates * H, H }, x.dtype, H),
    weight(g, name .. "_bias_ih", { gates * H }, x.dtype, H),
    weight(g, name .. "_bias_hh", { gates * H }, x.dtype, H)
end

-- One step of an LSTM: x [N, I], state h, c [N, H] → h, c. `weights` (as nn.lstm_weights gives) are shared between steps.
function nn.lstm_weights(x, h, name) return { cell_weights(x, h, 4, name or "lstm_cell") } end

function nn.lstm_cell(x, h, c, opts)
  opts = options("lstm_cell", opts, { weights = true, name = true })
  local name = opts.name or "lstm_cell"
  local W_ih, W_hh, b_ih, b_hh = table.unpack(opts.weights or nn.lstm_weights(x, h, name))
  return x.graph:op("lstm_cell", { x, h, c, W_ih, W_hh, b_ih, b_hh }, {}, function()
    local gates = x:matmul(W_ih:t()) + b_ih + h:matmul(W_hh:t()) + b_hh
    local i, f, z, o = table.unpack(gates:chunk(4, 1))
    local c_next = f:sigmoid() * c + i:sigmoid() * z:tanh()
    return o:sigmoid() * c_next:tanh(), c_next
  end, name)
end

-- One step of a GRU: x [N, I], state h [N, H] → h.
function nn.gru_weights(x, h, name) return { cell_weights(x, h, 3, name or "gru_cell") } end

function nn.gru_cell(x, h, opts)
  opts = options("gru_cell", opts, { weights = true, name = true })
  local name = opts.name or "gru_cell"
  local W_ih, W_hh, b_ih, b_hh = table.unpack(opts.weights or nn.gru_weights(x, h, name))
  return x.graph:op("gru_cell", { x, h, W_ih, W_hh, b_ih, b_hh }, {}, function()
    local xr, xz, xn = table.unpack((x:matmul(W_ih:t()) + b_ih):chunk(3, 1))
    local hr, hz, hn = table.unpack((h:matmul(W_hh:t()) + b_hh):chunk(3, 1))
    local z = (xz + hz):sigmoid()
    local n = (xn + (xr + hr):sigmoid() * hn):tanh()
    return n + z * (h - n)
  end, name)
end

-- Over pictures and the like: scripts/lib/pictures.lua.
function nn.conv1d(x, out, kernel, opts) return pictures.conv1d(x, out, kernel, opts) end
function nn.conv2d(x, out, kernel, opts) return pictures.conv2d(x, out, kernel, opts) end
function nn.conv3d(x, out, kernel, opts) return pictures.conv3d(x, out, kernel, opts) end
function nn.conv_transpose1d(x, out, kernel, opts) return pictures.conv_transpose1d(x, out, kernel, opts) end
function nn.conv_transpose2d(x, out, kernel, opts) return pictures.conv_transpose2d(x, out, kernel, opts) end
function nn.conv_transpose3d(x, out, kernel, opts) return pictures.conv_transpose3d(x, out, kernel, opts) end
function nn.max_pool1d(x, kernel, opts) return pictures.max_pool1d(x, kernel, opts) end
function nn.max_pool2d(x, kernel, opts) return pictures.max_pool2d(x, kernel, opts) end
function nn.max_pool3d(x, kernel, opts) return pictures.max_pool3d(x, kernel, opts) end
function nn.avg_pool1d(x, kernel, opts) return pictures.avg_pool1d(x, kernel, opts) end
function nn.avg_pool2d(x, kernel, opts) return pictures.avg_pool2d(x, kernel, opts) end
function nn.avg_pool3d(x, kernel, opts) return pictures.avg_pool3d(x, kernel, opts) end
function nn.batch_norm(x, opts) return pictures.batch_norm(x, opts) end
function nn.group_norm(x, groups, opts) return pictures.group_norm(x, groups, opts) end

return nn
