-- A GRU over T steps, and what it takes to run its steps at the same time.
--
-- A step of a GRU needs the state of the step before: T products in a row, each too small to fill a device. The talk
-- "Fast neural networks" ends with ten versions of a *parallel* GRU layer, sorted by vectors per second; it does not show
-- them. Here are the ways that lead there:
--
--     cell      the framework's own cell              gates      the same by hand
--     hoisted   x W for all steps in one product; h W stays in the loop
--
-- What is left in the loop is h W. A GRU whose gates look at x alone (a minimal GRU: z = σ(x Wz), n = x Wn,
-- h' = (1 - z) h + z n) has no product in its loop, only h' = a h + b. It is another model, which is trained as such:
--
--     minimal   the loop of h' = a h + b, step by step: all of it pointwise
--     doubling  (a, b) of neighbours combined, then of pairs, then of fours: log2 T passes over everything
--     blocks    `block` steps in a row within each block, all blocks at once, and then one correction per block
--
-- The last three give the same numbers. Fewer steps cost more arithmetic and more bytes: from which T on does it pay?
local fb, nn = require "fusebox", require "nn"

local function sequence(g, p) return g:input("x", { p.T, p.N, p.I }, p.dtype, { dist = "normal" }) end

-- Drawn so small that errors fade from step to step; else no check could tell rounding from a fault after many of them.
local function weights(g, p, gates, recurrent)
  local bound = 1 / p.H
  local function param(name, shape) return g:param(name, shape, p.dtype, { low = -bound, high = bound }) end
  local W_ih, b_ih = param("weight_ih", { gates * p.H, p.I }), param("bias_ih", { gates * p.H })
  if not recurrent then return W_ih, b_ih end
  return W_ih, b_ih, param("weight_hh", { gates * p.H, p.H }), param("bias_hh", { gates * p.H })
end

-- r, z, n from x W and h W, both [N, 3 H].
local function update(xw, hw, h)
  local xr, xz, xn = table.unpack(xw:chunk(3, 1))
  local hr, hz, hn = table.unpack(hw:chunk(3, 1))
  local z = (xz + hz):sigmoid()
  local n = (xn + (xr + hr):sigmoid() * hn):tanh()
  return n + z * (h - n)
end

local function unrolled(g, steps, h, step)
  local y = {}
  for t, x in ipairs(steps) do
    g:scope("step", t, function()
      h = step(x, h, t)
      y[t] = h
    end)
  end
  return y
end

-- The minimal GRU's h' = a h + b for all steps: a = 1 - z, b = z n, both [T, N, H]; h starts with zeros.
local function recurrence(g, p)
  local W, b = weights(g, p, 2)
  local z, n = table.unpack(nn.linear(sequence(g, p), 2 * p.H, { weight = W, bias = b }):chunk(2, -1))
  z = z:sigmoid()
  return 1 - z, z * n
end

return fb.script {
  title = "A GRU, and a GRU whose steps run at the same time",

  params = {
    N = fb.int { 16, min = 1, max = 4096, step = "x2", help = "sequences at once" },
    T = fb.int { 8, min = 1, max = 1024, step = "x2", help = "steps" },
    H = fb.int { 128, min = 1, max = 4096, step = "x2", help = "hidden size" },
    I = fb.int { 128, min = 1, max = 4096, step = "x2", help = "input size" },
    block = fb.int { 4, min = 1, max = 256, step = "x2", help = "steps in a row in `blocks`; divides T" },
    dtype = fb.choice { "f32", "f16", "bf16" },
  },

  variants = {
    cell = function(g, p)
      local W_ih, b_ih, W_hh, b_hh = weights(g, p, 3, true)
      local shared = { W_ih, W_hh, b_ih, b_hh }
      return g:stack(unrolled(g, sequence(g, p):unbind(0), g:zeros({ p.N, p.H }, p.dtype), function(x, h)
        return nn.gru_cell(x, h, { weights = shared })
      end))
    end,

    gates = function(g, p)
      local W_ih, b_ih, W_hh, b_hh = weights(g, p, 3, true)
      return g:stack(unrolled(g, sequence(g, p):unbind(0), g:zeros({ p.N, p.H }, p.dtype), function(x, h)
        return update(nn.addmm(b_ih, x, W_ih:t()), nn.addmm(b_hh, h, W_hh:t()), h)
      end))
    end,

    hoisted = function(g, p)
      local W_ih, b_ih, W_hh, b_hh = weights(g, p, 3, true)
      local x = nn.linear(sequence(g, p), 3 * p.H, { weight = W_ih, bias = b_ih, name = "input_layer" })
      return g:stack(unrolled(g, x:unbind(0), g:zeros({ p.N, p.H }, p.dtype), function(xw, h)
        return update(xw, nn.addmm(b_hh, h, W_hh:t()), h)
      end))
    end,

    minimal = function(g, p)
      local a, b = recurrence(g, p)
      local at = a:unbind(0)
      return g:stack(unrolled(g, b:unbind(0), g:zeros({ p.N, p.H }, p.dtype), function(bt, h, t) return at[t] * h + bt end))
    end,

    -- After the pass with `reach`, (a, b) of a step stands for the 2 reach steps that end there.
    doubling = function(g, p)
      local a, b = recurrence(g, p)
      local reach, pass = 1, 1
      while reach < p.T do
        g:scope("pass", pass, function()
          -- of steps before the first: a = 1, b = 0
          local a_before = a:slice(0, 0, p.T - reach):pad({ 0, 0, 0, 0, reach, 0 }, 1)
          local b_before = b:slice(0, 0, p.T - reach):pad({ 0, 0, 0, 0, reach, 0 }, 0)
          a, b = a * a_before, a * b_before + b
        end)
        reach, pass = 2 * reach, pass + 1
      end
      return b
    end,

    blocks = function(g, p)
      if p.T % p.block ~= 0 then error("block does not divide T", 0) end
      local a, b = recurrence(g, p)
      local count = p.T // p.block
      local function split(x) return x:view(count, p.block, p.N, p.H):unbind(1) end
      local as, bs = split(a), split(b)
      local reach, local_h = {}, {} -- of a block's first steps: the product of a, and h from zeros
      for t = 1, p.block do
        g:scope("within", t, function()
          reach[t] = t > 1 and reach[t - 1] * as[t] or as[t]
          local_h[t] = t > 1 and as[t] * local_h[t - 1] + bs[t] or bs[t]
        end)
      end
      local last_a, last_h = reach[p.block]:unbind(0), local_h[p.block]:unbind(0)
      local before, h = {}, g:zeros({ p.N, p.H }, p.dtype) -- the state that each block begins with
      for k = 1, count do
        before[k] = h
        g:scope("between", k, function() h = last_a[k] * h + last_h[k] end)
      end
      local start = g:stack(before):unsqueeze(1)
      return (g:stack(local_h, 1) + g:stack(reach, 1) * start):view(p.T, p.N, p.H)
    end,
  },

  columns = { "gates:max", "hoisted:max", "minimal:max", "doubling:max", "blocks:max" },

  plans = { -- on a GPU only
    max_graph = function(pl) pl:preset("max"):launch("graph") end,
  },

  experiment = function(e)
    e:plot { y = "vectors_per_s", low = "slow", high = "fast" }
    e:plot { x = "T", y = "vectors_per_s", by = "variant", log = "xy" }
    for c in e:sweep { variant = "*", plan = "max", T = { 4, 16, 64 } } do
      local r = e:measure(c)
      local function rate(us) return us and c.N * c.T / us * 1e6 end
      local wall = r.wall_us or {}
      e:row(c, { vectors_per_s = rate(wall.median), slow = rate(wall.p90), fast = rate(wall.p10),
                 launches = r.launches, failed = r.failed })
    end
  end,
}
