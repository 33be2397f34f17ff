-- Two layers, one kernel: sigmoid(relu(x W1 + b1) W2 + b2).
--
-- Layer by layer the hidden activations go to memory and come back, twice as many bytes as the layers' input and output.
-- Kept on chip, a block of rows at a time, they cost nothing; but each block then reads all of both weights again. Up to
-- which width does that pay? Sweep `hidden` and compare `eager` with `one_kernel`; `max` is whichever is predicted to be
-- faster. (`fusebox … --set rows=16384 --set dtype=bf16` is the size that a large GPU is measured with.)
local fb = require "fusebox"

return fb.script {
  title = "A two-layer MLP",

  params = {
    rows = fb.int { 1024, min = 1, max = 65536, step = "x2", help = "rows of x" },
    inputs = fb.int { 256, min = 1, max = 4096, step = "x2" },
    hidden = fb.int { 256, min = 1, max = 65536, step = "x2", help = "what stays on chip" },
    outputs = fb.int { 256, min = 1, max = 4096, step = "x2" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  plans = {
    one_kernel = function(pl) pl:fuse_all(table.unpack(pl:nodes())) end,
  },

  model = function(g, p)
    local function layer(name, from, to)
      local bound = 1 / math.sqrt(from)
      return g:param("W" .. name, { from, to }, p.dtype, { low = -bound, high = bound }),
        g:param("b" .. name, { to }, p.dtype, { low = -bound, high = bound })
    end
    local x = g:input("x", { p.rows, p.inputs }, p.dtype, { dist = "normal" })
    local W1, b1 = layer(1, p.inputs, p.hidden)
    local W2, b2 = layer(2, p.hidden, p.outputs)
    local h = (x:matmul(W1) + b1):relu()
    return (h:matmul(W2) + b2):sigmoid()
  end,
}
