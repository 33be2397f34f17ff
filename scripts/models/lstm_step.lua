-- One step of an LSTM, written four ways.
--
-- The same step can be asked for with two products and a sum, with two addmm, with the sigmoids done together, or as
-- one product of [x, h] with both weights side by side. Which is fastest, and does a compiler that fuses make it matter?
-- From "Fast Neural Networks and how to find them": the loop body of a basecaller's LSTM.
local fb, nn = require "fusebox", require "nn"

-- Input, state, and the four weights as nn.LSTM keeps them.
local function operands(g, p)
  local bound = 1 / math.sqrt(p.H)
  local function weight(name, shape) return g:param(name, shape, p.dtype, { low = -bound, high = bound }) end
  return {
    x = g:input("x", { p.N, p.I }, p.dtype, { dist = "normal" }),
    h = g:input("h", { p.N, p.H }, p.dtype, { low = -1, high = 1 }),
    c = g:input("c", { p.N, p.H }, p.dtype, { dist = "normal" }),
    W_ih = weight("weight_ih", { 4 * p.H, p.I }),
    W_hh = weight("weight_hh", { 4 * p.H, p.H }),
    b_ih = weight("bias_ih", { 4 * p.H }),
    b_hh = weight("bias_hh", { 4 * p.H }),
  }
end

-- c' = f c + i g, h' = o tanh(c'), from gates that are activated already.
local function state(i, f, z, o, c)
  local c_next = f * c + i * z
  return { h_next = o * c_next:tanh(), c_next = c_next }
end

-- The four gates lie side by side in columns.
local function activate(gates, c)
  local i, f, z, o = table.unpack(gates:chunk(4, 1))
  return state(i:sigmoid(), f:sigmoid(), z:tanh(), o:sigmoid(), c)
end

return fb.script {
  title = "One LSTM step, four ways",

  params = {
    N = fb.int { 64, min = 1, max = 4096, step = "x2", help = "sequences at once" },
    H = fb.int { 384, min = 1, max = 4096, help = "hidden size" },
    I = fb.int { 384, min = 1, max = 4096, help = "input size" },
    dtype = fb.choice { "f32", "f16", "bf16" },
  },

  variants = {
    -- Two products and their biases in one sum.
    gates = function(g, p)
      local w = operands(g, p)
      return activate(w.x:matmul(w.W_ih:t()) + w.b_ih + w.h:matmul(w.W_hh:t()) + w.b_hh, w.c)
    end,

    -- Each product takes its bias along.
    addmm = function(g, p)
      local w = operands(g, p)
      local xh = nn.addmm(w.b_ih, w.x, w.W_ih:t())
      local hh = nn.addmm(w.b_hh, w.h, w.W_hh:t())
      return activate(xh + hh, w.c)
    end,

    -- Stack, then sigmoid: would that help?
    stacked = function(g, p)
      local w = operands(g, p)
      local gates = w.x:matmul(w.W_ih:t()) + w.b_ih + w.h:matmul(w.W_hh:t()) + w.b_hh
      local i, f, z, o = table.unpack(gates:chunk(4, 1))
      local open = g:stack({ i, f, o }):sigmoid():unbind(0)
      return state(open[1], open[2], z:tanh(), open[3], w.c)
    end,

    -- One product of [x, h] with [W_ih, W_hh]: what a combined layer does. It has one bias, the sum of the two.
    cat = function(g, p)
      local w = operands(g, p)
      local bound = 1 / math.sqrt(p.H)
      local W = g:param("weight", { 4 * p.H, p.I + p.H }, p.dtype, { low = -bound, high = bound })
      local b = g:param("bias", { 4 * p.H }, p.dtype, { low = -2 * bound, high = 2 * bound })
      local xh = g:cat({ w.x, w.h }, 1)
      return activate(nn.addmm(b, xh, W:t(), { name = "combined_layer" }), w.c)
    end,
  },

  plans = { -- on a GPU only: a processor's contractions are library calls or small loops
    -- One kernel: both products in the accumulators of a tile that has all four gates of its elements.
    gemm = function(pl)
      for _, node in ipairs(pl:nodes()) do
        if node:match("matmul") then pl:generate(node) end
      end
      pl:fuse_all(table.unpack(pl:nodes()))
    end,
  },
}
