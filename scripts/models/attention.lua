-- Attention: softmax(q kᵀ / √d + mask) v, for every head of a batch.
--
-- The scores are seq × seq a head: stored, they are by far the largest tensor here, written once and read three times.
-- With a running maximum and sum the softmax needs no whole row, so that one kernel takes rows of q through all of k and v
-- with its scores on chip. From which length on do the scores' bytes dominate, and what does the mask cost? Sweep `seq`
-- and compare `eager` with `max`.
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "Attention",

  params = {
    batch = fb.int { 1, min = 1, max = 64, step = "x2" },
    heads = fb.int { 4, min = 1, max = 64, step = "x2" },
    seq = fb.int { 256, min = 1, max = 16384, step = "x2", help = "rows of q, k and v" },
    head_dim = fb.int { 64, min = 1, max = 256, step = "x2" },
    causal = fb.bool { true, help = "a row sees itself and what is before it" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  model = function(g, p)
    local shape = { p.batch, p.heads, p.seq, p.head_dim }
    local q = g:input("q", shape, p.dtype, { dist = "normal" })
    local k = g:input("k", shape, p.dtype, { dist = "normal" })
    local v = g:input("v", shape, p.dtype, { dist = "normal" })
    local mask
    if p.causal then
      local at = g:arange(p.seq, "i32")
      mask = at:view(p.seq, 1):ge(at:view(1, p.seq))
    end
    return nn.attention(q, k, v, { mask = mask })
  end,

  columns = { "eager", "max", "auto" },
}
