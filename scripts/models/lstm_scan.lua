-- An LSTM over T steps: a scan, whose body is planned once, or the same steps written out.
--
-- What only depends on the input can be multiplied for all steps at once, before the loop (inputs_first). What is left
-- of a step is one product of the state with its weight and a handful of pointwise operations: very little work, very
-- often. How many launches does a step need, and what is a launch mode worth that needs one for all of them?
local fb, nn = require "fusebox", require "nn"

-- Inputs of all steps, first state, and the weights as nn.LSTM keeps them. Half-precision states and weights.
local function operands(g, p)
  local bound = 1 / math.sqrt(p.H)
  local function weight(name, shape) return g:param(name, shape, p.dtype, { low = -bound, high = bound }) end
  return {
    x = g:input("x", { p.T, p.N, p.H }, p.dtype, { dist = "normal" }),
    h = g:input("h", { p.N, p.H }, p.dtype, { low = -1, high = 1 }),
    c = g:input("c", { p.N, p.H }, "f32", { dist = "normal" }),
    W_ih = weight("weight_ih", { 4 * p.H, p.H }),
    W_hh = weight("weight_hh", { 4 * p.H, p.H }),
    b = weight("bias", { 4 * p.H }),
  }
end

-- c' = f c + i g, h' = o tanh(c'), from the four gates side by side in columns; arithmetic is in f32.
local function cell(p, gates, c)
  local i, f, z, o = table.unpack(gates:to("f32"):chunk(4, 1))
  local c_next = f:sigmoid() * c + i:sigmoid() * z:tanh()
  return (o:sigmoid() * c_next:tanh()):to(p.dtype), c_next
end

return fb.script {
  title = "An LSTM over many steps",

  params = {
    T = fb.int { 16, min = 1, max = 100000, step = "x2", help = "steps" },
    N = fb.int { 64, min = 1, max = 4096, step = "x2", help = "sequences at once" },
    H = fb.int { 384, min = 1, max = 4096, help = "hidden size, and that of the input" },
    dtype = fb.choice { "f16", "bf16", "f32", help = "of input, weights and hidden state; arithmetic is in f32" },
  },

  variants = {
    -- A loop: two products a step.
    scan = function(g, p)
      local w = operands(g, p)
      local last, all = g:scan({ w.x }, { w.h, w.c }, function(x, h, c)
        local gates = nn.addmm(w.b, x, w.W_ih:t()) + h:matmul(w.W_hh:t())
        local h_next, c_next = cell(p, gates, c)
        return { h_next, c_next }, { h_next }
      end)
      return all[1], last[1], last[2]
    end,

    -- One product for the inputs of all steps, then a loop with the other.
    inputs_first = function(g, p)
      local w = operands(g, p)
      local from_x = w.x:matmul(w.W_ih:t()) + w.b
      local last, all = g:scan({ from_x }, { w.h, w.c }, function(x, h, c)
        local h_next, c_next = cell(p, x + h:matmul(w.W_hh:t()), c)
        return { h_next, c_next }, { h_next }
      end)
      return all[1], last[1], last[2]
    end,

    -- The same without a loop: T times the nodes, and a plan may fuse across steps.
    unrolled = function(g, p)
      local w = operands(g, p)
      local from_x = (w.x:matmul(w.W_ih:t()) + w.b):unbind(0)
      local h, c, all = w.h, w.c, {}
      for t = 1, p.T do
        g:scope("step", t - 1, function() h, c = cell(p, from_x[t] + h:matmul(w.W_hh:t()), c) end)
        all[t] = h
      end
      return g:stack(all), h, c
    end,
  },

  plans = { -- on a GPU only
    graph = function(pl) pl:preset("max"):launch("graph") end,
    -- One persistent kernel for the whole loop: its products have to be generated for that, and go back to the library
    -- where they are outside. What is made of them then goes into the same stage, so that a step's blocks meet once, or,
    -- where the inputs are multiplied before, clusters of blocks take some sequences each and never meet.
    one_kernel = function(pl)
      pl:preset("max")
      local products = {}
      for _, name in ipairs(pl:nodes()) do
        if name:find("matmul") then
          pl:generate(name)
          products[#products + 1] = name
        end
      end
      if not pcall(pl.generate, pl, "loop") then return end -- the unrolled variant has none
      for _, name in ipairs(products) do pcall(pl.library, pl, name) end
      for e in pl:edges() do
        local v = pl:verdict("fuse", e)
        if v.kind == "fine" or v.kind == "slower" then pl:fuse(e) end
      end
    end,
  },

  columns = { "scan:eager", "inputs_first:auto", "unrolled:auto" },
}
