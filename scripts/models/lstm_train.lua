-- An LSTM layer's training step: T steps forward, T steps back, and stochastic gradient descent.
--
-- The way back needs what the steps computed. Stored, it is read again: the gates of all steps, beside the states.
-- Recomputed, the states alone are stored, and each step back multiplies once more to find its gates. In segments, only
-- the state after each `every` steps is stored, and the steps between run twice: a long sequence then takes the memory
-- of a segment. What does each cost in time, and what does it save? Truncated, no gradient passes from one stretch of
-- `truncate` steps to the one before.
--
--     stored      the gates and the states of all steps            recomputed  the states of all steps
--     segments    the states of each `every`-th step               inside      stored; weights' gradients step by step
--     unrolled    the steps written out, and differentiated so     forward     no gradients, for comparison
--
-- A step back has one product, of the gates' gradient with weight_hh. What x and the weights get is one product each,
-- over the gates' gradients of all steps, after the loop: `inside` shows what it costs to do that in each.
local fb, optim = require "fusebox", require "optim"

-- Half-precision states and weights; c and arithmetic are f32. Weights are as nn.LSTM keeps them.
local function operands(g, p)
  local bound = 1 / math.sqrt(p.H)
  local function weight(name, shape) return g:param(name, shape, p.dtype, { low = -bound, high = bound }) end
  return {
    x = g:input("x", { p.T, p.N, p.H }, p.dtype, { dist = "normal" }),
    target = g:input("target", { p.T, p.N, p.H }, p.dtype, { low = -1, high = 1 }),
    W_ih = weight("weight_ih", { 4 * p.H, p.H }),
    W_hh = weight("weight_hh", { 4 * p.H, p.H }),
    b = weight("bias", { 4 * p.H }),
  }
end

-- c' = f c + i g, h' = o tanh(c'), from the four gates side by side in columns.
local function cell(p, gates, c)
  local i, f, z, o = table.unpack(gates:to("f32"):chunk(4, 1))
  local c_next = f:sigmoid() * c + i:sigmoid() * z:tanh()
  return (o:sigmoid() * c_next:tanh()):to(p.dtype), c_next
end

-- The state that a sequence begins with, and the inputs' part of all steps' gates in one product.
local function begin(g, p, w)
  local from_x = g:scope("from_x", function() return w.x:matmul(w.W_ih:t()) + w.b end)
  return from_x, g:zeros({ p.N, p.H }, p.dtype), g:zeros({ p.N, p.H })
end

-- Half the mean square of what is missing, a sequence.
local function loss_of(p, w, all)
  local missing = all:to("f32") - w.target:to("f32")
  return (missing * missing):sum() * (0.5 / p.N)
end

local function scan(g, p, w)
  local from_x, h, c = begin(g, p, w)
  local _, all = g:scan({ from_x }, { h, c }, function(x, h, c)
    local h_next, c_next = cell(p, x + h:matmul(w.W_hh:t()), c)
    return { h_next, c_next }, { h_next }
  end)
  return loss_of(p, w, all[1])
end

local function learn(g, p, w, loss, through)
  through.truncate = p.truncate > 0 and p.truncate or nil
  optim.sgd(g, loss, { w.W_ih, w.W_hh, w.b }, { lr = p.lr, through = through })
  return loss
end

local function trained(through)
  return function(g, p)
    local w = operands(g, p)
    return learn(g, p, w, scan(g, p, w), through(p))
  end
end

-- One kernel of a loop, where there is one of that name: what is refused for a product in it is tried again without the
-- library.
local function whole(pl, loop)
  for _ = 1, 4 do
    local done, why = pcall(pl.generate, pl, loop)
    local product = not done and tostring(why):match("`([%w_.]*matmul[%w_]*)`")
    if not product or not pcall(pl.generate, pl, product) then return end
  end
end

return fb.script {
  title = "An LSTM's training step: back through time",

  params = {
    T = fb.int { 4, min = 1, max = 100000, step = "x2", help = "steps" },
    N = fb.int { 16, min = 1, max = 4096, step = "x2", help = "sequences at once" },
    H = fb.int { 64, min = 1, max = 4096, step = "x2", help = "hidden size, and that of the input" },
    every = fb.int { 2, min = 1, max = 100000, step = "x2", help = "steps of a segment; divides T" },
    truncate = fb.int { 0, min = 0, max = 100000, help = "steps that a gradient goes back, 0: all" },
    lr = fb.float { 0.01, help = "how far a step goes down the gradient" },
    dtype = fb.choice { "f16", "bf16", "f32", help = "of input, weights and hidden state; arithmetic is in f32" },
  },

  variants = {
    stored = trained(function() return {} end),
    recomputed = trained(function() return { through = "recomputed" } end),
    segments = trained(function(p) return { through = "recomputed", every = p.every } end),
    inside = trained(function() return { weights = "inside" } end),

    unrolled = function(g, p)
      local w = operands(g, p)
      local from_x, h, c = begin(g, p, w)
      local steps, all = from_x:unbind(0), {}
      for t = 1, p.T do
        if p.truncate > 0 and t > 1 and (t - 1) % p.truncate == 0 then h, c = h:detach(), c:detach() end
        g:scope("step", t - 1, function() h, c = cell(p, steps[t] + h:matmul(w.W_hh:t()), c) end)
        all[t] = h
      end
      return learn(g, p, w, loss_of(p, w, g:stack(all)), {})
    end,

    forward = function(g, p) return scan(g, p, operands(g, p)) end,
  },

  plans = { -- on a GPU only
    graph = function(pl) pl:preset("max"):launch("graph") end,
    -- One persistent kernel forward and one backward (in segments, two for each): the products in loops are generated
    -- for that, those after them stay the library's.
    one_kernel = function(pl)
      pl:preset("max")
      for _, loop in ipairs { "loop", "backward.through_time.loop", "backward.through_time.loop_2" } do
        whole(pl, loop)
      end
      for e in pl:edges() do
        local v = pl:verdict("fuse", e)
        local update = v.text:find("`sgd", 1, true) -- leaves the products after the loops to the library
        if not update and (v.kind == "fine" or v.kind == "slower") then pl:fuse(e) end
      end
    end,
  },

  columns = { "stored:auto", "recomputed:auto", "segments:auto", "unrolled:auto", "forward:auto" },
}
