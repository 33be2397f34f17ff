-- The layers of a basecaller's encoder, for scripts that ask different questions of it (models/basecaller,
-- puzzlers/barrier): convolutions that bring a signal down by `stride`, then LSTMs of alternating direction, written out
-- or as loops. p has N, T, H, layers, stride, kernel, state_len and dtype.
local nn = require "nn"

-- x [N, L, channels] → [N, L / stride, kernel * channels], zeros beyond the ends.
local function unfold(g, x, kernel, stride)
  local N, L, channels = table.unpack(x.shape)
  local out, pad = L // stride, kernel // 2
  local padded, windows = x:pad({ 0, 0, pad, pad }), {}
  for k = 0, kernel - 1 do
    windows[k + 1] = padded:slice(1, k, k + stride * (out - 1) + 1, stride)
  end
  return g:stack(windows, 2):view(N, out, kernel * channels)
end

local function convolution(g, x, out, kernel, stride, name)
  return g:scope(name, function() return nn.silu(nn.linear(unfold(g, x, kernel, stride), out, { name = "filter" })) end)
end

-- signal [N, T stride, 1] → [T, N, H]
local function stem(g, p)
  local x = g:input("signal", { p.N, p.T * p.stride, 1 }, p.dtype, { dist = "normal" })
  x = convolution(g, x, 4, 5, 1, "conv1")
  x = convolution(g, x, 16, 5, 1, "conv2")
  return convolution(g, x, p.H, p.kernel, p.stride, "conv3"):transpose(0, 1)
end

-- One LSTM's weights, drawn so small that errors fade from step to step; else no check could tell rounding from a fault
-- after a few of them.
local function weights(g, p)
  local bound, w = 1 / p.H, {}
  for i, name in ipairs { "weight_ih", "weight_hh", "bias_ih", "bias_hh" } do
    w[i] = g:param(name, i < 3 and { 4 * p.H, p.H } or { 4 * p.H }, p.dtype, { low = -bound, high = bound })
  end
  return w
end

-- What is left of a step once x Wihᵀ + b_ih is known: xw [N, 4 H] and the state → h, c.
local function gated(xw, h, c, w)
  local i, f, z, o = table.unpack((xw + nn.addmm(w[4], h, w[2]:t())):chunk(4, 1))
  c = f:sigmoid() * c + i:sigmoid() * z:tanh()
  return o:sigmoid() * c:tanh(), c
end

local function input_layer(p, x, w) return nn.linear(x, 4 * p.H, { weight = w[1], bias = w[3], name = "input_layer" }) end

-- The LSTMs over x [T, N, H] written out, every other one from the last step to the first.
-- step(x[t], h, c, weights) → h, c.
local function unrolled(prepare, step)
  local function lstm(g, p, x, reverse)
    if p.T > 256 then error("T = " .. p.T .. " steps are too many to write out: scan has them as loops") end
    local w, y = weights(g, p), {}
    local steps = prepare(p, x, w):unbind(0)
    local h, c = g:zeros({ p.N, p.H }, p.dtype), g:zeros({ p.N, p.H }, p.dtype)
    for i = 1, p.T do
      local t = reverse and p.T + 1 - i or i
      g:scope("step", i, function()
        h, c = step(steps[t], h, c, w)
        y[t] = h
      end)
    end
    return g:stack(y)
  end
  return function(g, p, x)
    for i = 1, p.layers do
      g:scope("lstm", i, function() x = lstm(g, p, x, i % 2 == 1) end)
    end
    return x, false
  end
end

-- The same as loops, each planned once for all steps. As each LSTM runs against the one before, it scans what that one
-- gave from its end: `flip` is a view, an index counted from the other end, so nothing is turned round in memory. After an
-- odd number of them the last step comes first.
local function scanned(g, p, x)
  for i = 1, p.layers do
    g:scope("lstm", i, function()
      local w, zeros = weights(g, p), g:zeros({ p.N, p.H }, p.dtype)
      local _, y = g:scan({ input_layer(p, x, w):flip { 0 } }, { zeros, zeros }, function(xt, h, c)
        h, c = gated(xt, h, c, w)
        return { h, c }, { h }
      end)
      x = y[1]
    end)
  end
  return x, p.layers % 2 == 1
end

local function encoder(g, p, lstms)
  local x, backwards = lstms(g, p, stem(g, p))
  local scores = nn.linear(x, 5 * 4 ^ p.state_len // 1, { name = "scores" })
  if backwards then scores = scores:flip { 0 } end
  return scores:tanh() * 5
end

return { encoder = encoder, scanned = scanned, unrolled = unrolled, input_layer = input_layer, gated = gated }
