-- Attention, stored or online.
--
-- scores = q kᵀ / √d is a number for each pair of positions: with 2048 positions and 8 heads 34 million of them,
-- beside 1 million in each of q, k, v and the result. Op by op the scores are written by the product, read and
-- written by the scale, by the softmax, and read by the second product.
--
-- A softmax needs the largest of a row and the sum of its exponentials before it can divide. Taken as they come
-- ("online"), both can be corrected whenever a larger score turns up, so a kernel can go through k and v block by
-- block and keep nothing but the block's scores, on chip. FlashAttention is this idea.
--
--     fusebox diff stored_scores stored online
--     fusebox emit stored_scores online
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "Attention: stored or online?",

  params = {
    heads = fb.int { 8, min = 1, max = 256, step = "x2" },
    seq = fb.int { 2048, min = 1, max = 32768, step = "x2", help = "positions" },
    head_dim = fb.int { 64, min = 1, max = 256, step = "x2" },
    dtype = fb.choice { "bf16", "f16", "f32" },
  },

  model = function(g, p)
    local shape = { p.heads, p.seq, p.head_dim }
    local q = g:input("q", shape, p.dtype, { dist = "normal" })
    local k = g:input("k", shape, p.dtype, { dist = "normal" })
    local v = g:input("v", shape, p.dtype, { dist = "normal" })
    local scores = g:scope("scores", function() return q:matmul(k:transpose(-2, -1)) * (1 / math.sqrt(p.head_dim)) end)
    return nn.softmax(scores, -1):matmul(v)
  end,

  columns = { "stored", "online" },

  plans = {
    stored = function(pl) pl:preset("eager") end,
    online = function(pl) pl:preset("max") end,
  },

  experiment = function(e)
    for c in e:sweep { plan = { "stored", "online" }, seq = { 128, 256, 512, 1024, 2048, 4096 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, failed = r.failed })
    end
    e:plot { x = "seq", y = "us", by = "plan", log = "xy" }
  end,

  puzzle = {
    order = 16,
    about = "Attention of 8 heads over 2048 positions. stored writes the score of every pair of positions to "
      .. "memory, op by op; online keeps a block of scores on chip, and corrects its softmax as larger ones turn "
      .. "up.",
    compare = { "stored", "online" },
    premise = "differs",
    ask = "Both multiply q with k and the weights with v. What decides between the two here?",
    choices = {
      { "bytes", "Bytes that online saves: the scores are never in memory.", saves = "bytes",
        tell = "The scores are 32 times as many as the numbers of q. Stored, they cross the memory six times." },
      { "launches", "Launches that online saves.", saves = "launches" },
      { "skips", "Arithmetic that online saves: it need not look at all pairs.", saves = "compute" },
      { "corrects", "Arithmetic that online adds: corrections, and products that a library does faster.",
        costs = "compute",
        tell = "Here the scores fit the cache, or the library's products are so much faster that storing is worth "
          .. "it." },
    },
    hints = {
      "Compare `moved` and `launches`.",
      "How many numbers has q, and how many are the scores?",
      "Sweep `seq` (--experiment). The scores grow with its square; what does the arithmetic grow with?",
    },
    tell = "No pair is left out, and online even computes more: its running maximum corrects what was summed "
      .. "before. It wins where arithmetic waits for memory. Fusing softmax between two products takes more than "
      .. "joining loops: the sum had to be written so that it can begin before the maximum is known. No compiler "
      .. "finds that by itself.",
  },
}
