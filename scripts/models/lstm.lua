-- An LSTM over T steps, in every way that people write it.
--
-- From "Fast neural networks, and how to find them": the loop of a basecaller's LSTM, unrolled. All variants compute an LSTM
-- over the same sequence; they differ in which op is asked for. Which differences survive a compiler that fuses, and
-- which decide everything? The first step alone is models/lstm_step.
--
--     gates        x Wihᵀ + b + h Whhᵀ + b in one sum           linear     two nn.linear instead of manual products
--     addmm        two addmm                                     cat        one linear layer of [x, h]
--     stacked      stack, then one sigmoid for three gates       cell       the framework's own LSTM cell
--     hoisted      x Wihᵀ for all steps at once, outside the loop
--     batch_first  as gates, x lying [N, T, I] instead of [T, N, I]
--     combined     the talk's second listing: one layer of cat(x[:, t, :], h), whose weight is kept whole
--
-- `fusebox run lstm --experiment --out lstm.jsonl` is "too many things to test": variant × preset × launch mode × batch ×
-- precision, a row at a time, ranked at the end (`--format svg` draws it). Interrupted, the same command goes on where it
-- stopped.
local fb, nn = require "fusebox", require "nn"

-- Weights as nn.LSTM keeps them, but drawn so small that errors fade from step to step; else no check could tell rounding
-- from a fault after many of them.
local function weights(g, p)
  local bound = 1 / p.H
  local function param(name, shape) return g:param(name, shape, p.dtype, { low = -bound, high = bound }) end
  return {
    W_ih = param("weight_ih", { 4 * p.H, p.I }),
    W_hh = param("weight_hh", { 4 * p.H, p.H }),
    b_ih = param("bias_ih", { 4 * p.H }),
    b_hh = param("bias_hh", { 4 * p.H }),
  }
end

local function sequence(g, p) return g:input("x", { p.T, p.N, p.I }, p.dtype, { dist = "normal", std = 0.1 }) end

-- c' = f c + i g, h' = o tanh(c'), from gates that are activated already.
local function state(i, f, z, o, c)
  c = f * c + i * z
  return o * c:tanh(), c
end

-- The four gates lie side by side in columns.
local function activate(gates, c)
  local i, f, z, o = table.unpack(gates:chunk(4, 1))
  return state(i:sigmoid(), f:sigmoid(), z:tanh(), o:sigmoid(), c)
end

-- Runs step(x[t], h, c) → h, c over `steps` and stacks what h was.
local function unrolled(g, p, steps, step)
  local h, c, y = g:zeros({ p.N, p.H }, p.dtype), g:zeros({ p.N, p.H }, p.dtype), {}
  for t, x in ipairs(steps) do
    g:scope("step", t, function()
      h, c = step(x, h, c)
      y[t] = h
    end)
  end
  return y
end

return fb.script {
  title = "An LSTM over T steps, in every way it is written",

  params = {
    N = fb.int { 16, min = 1, max = 4096, step = "x2", help = "sequences at once" },
    T = fb.int { 4, min = 1, max = 256, step = "x2", help = "steps, unrolled" },
    H = fb.int { 384, min = 1, max = 4096, help = "hidden size" },
    I = fb.int { 384, min = 1, max = 4096, help = "input size" },
    dtype = fb.choice { "f32", "f16", "bf16" },
  },

  variants = {
    gates = function(g, p)
      local w = weights(g, p)
      return g:stack(unrolled(g, p, sequence(g, p):unbind(0), function(x, h, c)
        return activate(x:matmul(w.W_ih:t()) + w.b_ih + h:matmul(w.W_hh:t()) + w.b_hh, c)
      end))
    end,

    addmm = function(g, p)
      local w = weights(g, p)
      return g:stack(unrolled(g, p, sequence(g, p):unbind(0), function(x, h, c)
        return activate(nn.addmm(w.b_ih, x, w.W_ih:t()) + nn.addmm(w.b_hh, h, w.W_hh:t()), c)
      end))
    end,

    linear = function(g, p)
      local w = weights(g, p)
      return g:stack(unrolled(g, p, sequence(g, p):unbind(0), function(x, h, c)
        local xh = nn.linear(x, 4 * p.H, { weight = w.W_ih, bias = w.b_ih })
        return activate(xh + nn.linear(h, 4 * p.H, { weight = w.W_hh, bias = w.b_hh }), c)
      end))
    end,

    stacked = function(g, p)
      local w = weights(g, p)
      return g:stack(unrolled(g, p, sequence(g, p):unbind(0), function(x, h, c)
        local gates = x:matmul(w.W_ih:t()) + w.b_ih + h:matmul(w.W_hh:t()) + w.b_hh
        local i, f, z, o = table.unpack(gates:chunk(4, 1))
        local open = g:stack({ i, f, o }):sigmoid():unbind(0)
        return state(open[1], open[2], z:tanh(), open[3], c)
      end))
    end,

    -- One layer of [x, h], with the weights side by side and the sum of the biases.
    cat = function(g, p)
      local w = weights(g, p)
      local W, b = g:scope("combined", function() return g:cat({ w.W_ih, w.W_hh }, 1), w.b_ih + w.b_hh end)
      return g:stack(unrolled(g, p, sequence(g, p):unbind(0), function(x, h, c)
        return activate(nn.linear(g:cat({ x, h }, 1), 4 * p.H, { weight = W, bias = b, name = "combined_layer" }), c)
      end))
    end,

    -- Half of the arithmetic does not depend on h: one large product instead of T small ones.
    hoisted = function(g, p)
      local w = weights(g, p)
      local x = nn.linear(sequence(g, p), 4 * p.H, { weight = w.W_ih, bias = w.b_ih, name = "input_layer" })
      return g:stack(unrolled(g, p, x:unbind(0), function(xh, h, c)
        return activate(xh + nn.addmm(w.b_hh, h, w.W_hh:t()), c)
      end))
    end,

    batch_first = function(g, p)
      local w = weights(g, p)
      local x = g:input("x", { p.N, p.T, p.I }, p.dtype, { dist = "normal", std = 0.1 })
      return g:stack(unrolled(g, p, x:unbind(1), function(xt, h, c)
        return activate(xt:matmul(w.W_ih:t()) + w.b_ih + h:matmul(w.W_hh:t()) + w.b_hh, c)
      end), 1)
    end,

    combined = function(g, p)
      local combined_layer = nn.Linear(p.I + p.H, 4 * p.H)
      local x = g:input("x", { p.N, p.T, p.I }, p.dtype, { dist = "normal", std = 0.1 })
      local h, c = g:zeros({ p.N, p.H }, p.dtype), g:zeros({ p.N, p.H }, p.dtype)
      local outputs = {}
      combined_layer:parameters(g, p.dtype)
      for t = 1, p.T do
        g:scope("step", t, function()
          local x_t = x:select(1, t - 1)
          local gates = combined_layer(g:cat({ x_t, h }, 1))
          h, c = activate(gates, c)
          outputs[t] = h
        end)
      end
      return g:stack(outputs, 1)
    end,

    cell = function(g, p)
      local w = weights(g, p)
      local shared = { w.W_ih, w.W_hh, w.b_ih, w.b_hh }
      return g:stack(unrolled(g, p, sequence(g, p):unbind(0), function(x, h, c)
        return nn.lstm_cell(x, h, c, { weights = shared })
      end))
    end,
  },

  columns = { "gates:eager", "gates:auto", "cat:auto", "hoisted:eager", "hoisted:auto" },

  plans = { -- on a GPU only
    -- What the presets launch, launched at once.
    eager_graph = function(pl) pl:preset("eager"):launch("graph") end,
    inductor_graph = function(pl) pl:preset("inductor"):launch("graph") end,
    max_graph = function(pl) pl:preset("max"):launch("graph") end,
    -- All steps as one cooperative kernel, which can call no library: its products are generated.
    max_mega = function(pl)
      pl:preset("max")
      for _, name in ipairs(pl:nodes()) do
        if name:find("matmul") then pcall(pl.generate, pl, name) end -- what cannot be, the launch mode names
      end
      pl:launch("mega")
    end,
  },

  -- Too many things to test: way of writing × preset × launch mode × batch × precision, as vectors (steps of sequences) a
  -- second, the fastest first, with their spread. More detail with less noise.
  experiment = function(e)
    e:plot { y = "vectors_per_s", low = "slow", high = "fast" }
    local plans = { "eager", "inductor", "max", "eager_graph", "inductor_graph", "max_graph", "max_mega" }
    for c in e:sweep { variant = "*", plan = plans, N = { 64, 512 }, dtype = "*" } do
      local r = e:measure(c)
      local function rate(us) return us and c.N * c.T / us * 1e6 end
      local wall = r.wall_us or {}
      e:row(c, { vectors_per_s = rate(wall.median), slow = rate(wall.p90), fast = rate(wall.p10),
                 launches = r.launches, failed = r.failed })
    end
  end,
}
