-- Streams and overlap: can the next batch arrive while this one is computed?
--
-- A batch is fed from the host, goes through `depth` layers and leaves as one number a row. In order, a run is the sum of
-- its parts: copy in, compute, copy out. Overlapped, the batch of the next run is copied to a second buffer while the
-- kernels of this run compute, and the results of the run before leave beside them: a run takes what takes longest of the
-- three. The copies are no faster for it, the bytes no fewer: they are hidden, as far as there is something to hide them
-- behind.
--
-- heavy computes for long on each byte; light hardly at all; both_ways gives back as much as it is fed, and a link that
-- carries both directions at once hides one copy behind the other. Which of them gains, and by how much at most?
--
-- On a GPU copies have engines of their own. On the host a thread makes them: it takes a core and memory bandwidth from
-- the kernels, and where these use all cores there is little to gain.
--
--     fusebox run puzzlers/overlap --trace overlap.json
--     fusebox diff puzzlers/overlap heavy:in_order heavy:overlapped
local fb, nn = require "fusebox", require "nn"

local function batch(g, p)
  return g:feed("batch", { p.rows, p.width }, p.dtype, { low = -1, high = 1 })
end

return fb.script {
  title = "Streams and overlap: copies beside kernels",

  params = {
    rows = fb.int { 1024, min = 1, max = 1048576, step = "x2", help = "of a batch" },
    width = fb.int { 256, min = 1, max = 16384, step = "x2", help = "numbers a row" },
    depth = fb.int { 4, min = 1, max = 64, help = "layers of heavy" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    heavy = function(g, p)
      local x = batch(g, p)
      for i = 1, p.depth do
        g:scope("layer", i, function() x = nn.linear(x, p.width):relu() end)
      end
      g:receive(x:mean(1), "scores")
    end,

    light = function(g, p)
      g:receive((batch(g, p) * 0.5 + 1):relu():mean(1), "scores")
    end,

    both_ways = function(g, p)
      g:receive((batch(g, p) * 0.5 + 1):relu(), "activations")
    end,
  },

  columns = {
    "heavy:in_order", "heavy:overlapped", "light:in_order", "light:overlapped", "both_ways:in_order",
    "both_ways:overlapped",
  },

  plans = {
    in_order = function(pl) pl:preset("max") end,
    overlapped = function(pl) pl:preset("max"):overlap(true) end,
    -- The copies as nodes of CUDA graphs, one for even and one for odd runs. Only on a GPU.
    in_order_graph = function(pl) pl:preset("max"):launch("graph") end,
    overlapped_graph = function(pl) pl:preset("max"):launch("graph"):overlap(true) end,
  },

  -- From where on are the copies hidden?
  experiment = function(e)
    e:plot { x = "depth", y = "us", by = "plan" }
    for c in e:sweep { variant = "heavy", plan = { "in_order", "overlapped" }, depth = { 1, 2, 4, 8, 16 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, copies_us = r.copy_us and r.copy_us.median,
                 hidden_us = r.copy_hidden_us, failed = r.failed })
    end
  end,

  puzzle = {
    order = 9,
    about = "A batch is copied in from the host, goes through one small kernel, and is copied out again. In "
      .. "order, one follows the other; overlapped, the next batch comes in and the last results leave while "
      .. "the kernel runs.",
    compare = { "both_ways:in_order", "both_ways:overlapped" },
    ask = "The same kernels, the same bytes in and out. What does a run wait less for when the next batch comes in meanwhile?",
    choices = {
      { "copies", "Copies: they go on while kernels run, or while another copy goes the other way." },
      { "bytes", "Bytes: the kernels read and write less." },
      { "launches", "Launches: there are fewer of them." },
      { "compute", "Arithmetic: it is done while the copies go on, and costs less." },
    },
    hints = {
      "Press T: where are the copies, before the kernels or beside them?",
      "Compare the rows copies and hidden of the two columns (+ shows them).",
      "Put heavy:in_order and heavy:overlapped beside, with depth 1, then 16. When is all of the copy hidden?",
    },
    tell = "Overlapped, a run takes the longest of copy in, compute and copy out instead of their sum. So the gain is at "
      .. "most the shorter part, at best a factor of two, of three where both directions are busy: compute that takes as "
      .. "long as the copy hides all of it, compute far longer had little to lose, and light stays as slow as its copy. "
      .. "The price is a second buffer and a result that comes a run later. On a processor whose cores are all at work "
      .. "there is no engine to hide behind.",
  },
}
