-- Accounting for FLOPs: where does the time of a layer go, if not where its arithmetic is?
--
-- `layer` is the feed-forward half of a transformer layer; `products` is its two matrix products and nothing else. The
-- products are more than 99 % of the FLOPs. What do bias, gelu, residual and layer_norm cost in time, launched one by one
-- (`eager`), and fused (`max`)?
--
-- `chain` counts the other way: `depth` multiply-adds on every element of a vector. In one kernel, how many can be added
-- before the time changes at all? (run it with --experiment)
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "Accounting for FLOPs",

  params = {
    rows = fb.int { 256, min = 1, max = 65536, step = "x2", help = "tokens" },
    size = fb.int { 512, min = 1, max = 8192, step = "x2", help = "of a token" },
    hidden = fb.int { 2048, min = 1, max = 32768, step = "x2", help = "between the two products" },
    n = fb.int { 1048576, min = 1, max = 268435456, step = "x2", help = "elements of the chain" },
    depth = fb.int { 8, min = 1, max = 256, step = "x2", help = "multiply-adds an element of the chain" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    layer = function(g, p)
      local x = g:input("x", { p.rows, p.size }, p.dtype, { dist = "normal" })
      local h = nn.linear(x, p.hidden, { name = "up" }):gelu()
      return nn.layer_norm(x + nn.linear(h, p.size, { name = "down" }), { affine = true })
    end,

    products = function(g, p)
      local x = g:input("x", { p.rows, p.size }, p.dtype, { dist = "normal" })
      local h = nn.linear(x, p.hidden, { name = "up", bias = false })
      return nn.linear(h, p.size, { name = "down", bias = false })
    end,

    chain = function(g, p)
      local x = g:input("x", { p.n }, p.dtype)
      for i = 1, p.depth do
        g:scope("step", i, function() x = x * 0.75 + 0.125 end)
      end
      return x
    end,
  },

  columns = { "layer:eager", "layer:max", "products:eager" },

  -- Time against arithmetic: op by op it grows with depth, in one kernel it does not until the arithmetic takes longer
  -- than the bytes.
  experiment = function(e)
    e:plot { x = "depth", y = "us", by = "plan", log = "xy" }
    for c in e:sweep { variant = "chain", plan = { "eager", "max" }, depth = "*" } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, flops = r.flops, launches = r.launches, failed = r.failed })
    end
  end,

  puzzle = {
    order = 3,
    about = "A chain of multiply-adds on every element of a vector. Op by op each step is a kernel of its own; "
      .. "fused, the whole chain is one kernel. The arithmetic is the same.",
    compare = { "chain:eager", "chain:max" },
    ask = "Both do the same arithmetic, on every element. What did the fusion save most of?",
    choices = {
      { "compute", "Arithmetic: multiply-adds are cheaper when they are fused." },
      { "bytes", "Bytes: each of those ops alone reads and writes a whole vector to do next to nothing with it.",
        tell = "So a pointwise op's time is that of its bytes, and FLOPs say nothing about it." },
      { "launches", "Launches, and waiting for them.",
        tell = "At this size launching a kernel takes longer than running it. Make `n` larger, and bytes come first." },
    },
    hints = {
      "Look at the kernels: whose bars are long in time and in bytes, and do any FLOPs belong to them?",
      "Make `n` larger. Launches cost the same whatever the size.",
      "Put layer:eager and layer:max beside: where products take the time, what is there left to save?",
    },
    tell = "A pointwise op does one operation for every 8 or 12 bytes that it moves; a processor could do dozens in that "
      .. "time. Fused, it costs what it adds to the traffic of its neighbour, which is often nothing.",
  },
}
