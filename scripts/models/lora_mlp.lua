-- A layer with a low-rank update: relu(x W + s (x A) B + bias).
--
-- LoRA leaves W as it is and trains A [in, rank] and B [rank, out]. Run beside the full product, the update costs two thin
-- products and one more pass over the output; merged into W once, it costs nothing per call but a copy of W. Which pays,
-- and from which batch size on?
local fb = require "fusebox"

local function operands(g, p)
  local bound = 1 / math.sqrt(p.inputs)
  return g:input("x", { p.batch, p.inputs }, p.dtype, { dist = "normal" }),
    g:param("W", { p.inputs, p.outputs }, p.dtype, { low = -bound, high = bound }),
    g:param("A", { p.inputs, p.rank }, p.dtype, { low = -bound, high = bound }),
    g:param("B", { p.rank, p.outputs }, p.dtype, { low = -1, high = 1 }),
    g:param("bias", { p.outputs }, p.dtype)
end

return fb.script {
  title = "A linear layer with a low-rank update",

  params = {
    batch = fb.int { 128, min = 1, max = 8192, step = "x2", help = "rows of x" },
    inputs = fb.int { 512, min = 1, max = 8192, step = "x2" },
    outputs = fb.int { 512, min = 1, max = 8192, step = "x2" },
    rank = fb.int { 16, min = 1, max = 512, step = "x2", help = "columns of A" },
    s = fb.float { 0.5, help = "weight of the update" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    -- Three products; the update is added to the output.
    lora = function(g, p)
      local x, W, A, B, bias = operands(g, p)
      return (x:matmul(W) + p.s * x:matmul(A):matmul(B) + bias):relu()
    end,

    -- The update is added to W first; then there is one product.
    merged = function(g, p)
      local x, W, A, B, bias = operands(g, p)
      return (x:matmul(W + p.s * A:matmul(B)) + bias):relu()
    end,
  },

  plans = { -- on a GPU only: a processor's contractions are library calls or small loops
    -- Generated products: x W and s (x A) B are summed in the same accumulators, with bias and relu before they are stored.
    gemm = function(pl)
      for _, node in ipairs(pl:nodes()) do
        if node:match("matmul") then pl:generate(node) end
      end
      for e in pl:edges() do
        local v = pl:verdict("fuse", e)
        if v.kind == "fine" or v.kind == "slower" then pl:fuse(e) end
      end
    end,
  },
}
