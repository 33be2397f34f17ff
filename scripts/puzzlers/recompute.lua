-- Recompute or store? One activation, read twice: along its rows and down its columns.
--
-- Both sums need s = act(x). Stored, s is written once and read twice. Recomputed, x is read twice and act is evaluated
-- twice, but s never exists. Two passes instead of three, against twice the arithmetic: whether that is a bargain depends
-- on how expensive act is and on what the device has to spare.
--
-- The plan `store` keeps s, `again` computes it inside each sum. Go through `act` with both. A memory of the past that is
-- cheap to make again need not be kept: checkpointing in training is this same trade.
local fb = require "fusebox"

local acts = {
  relu = function(x) return x:relu() end,
  gelu = function(x) return x:gelu() end,
  -- 16 slow functions in a row
  dear = function(x)
    for _ = 1, 8 do x = x:sin():exp() end
    return x
  end,
}

return fb.script {
  title = "Recompute or store?",

  params = {
    rows = fb.int { 1024, min = 1, max = 65536, step = "x2" },
    columns = fb.int { 1024, min = 1, max = 65536, step = "x2" },
    act = fb.choice { "gelu", "relu", "dear", help = "what is computed once or twice" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  model = function(g, p)
    local x = g:input("x", { p.rows, p.columns }, p.dtype, { low = -1, high = 1 })
    local s = g:scope("act", function() return acts[p.act](x) end)
    return s:sum(0), s:sum(1)
  end,

  columns = { "store", "again", "max" },

  plans = {
    -- act in one kernel of its own, whose result both sums read.
    store = function(pl)
      local inside = {}
      for _, name in ipairs(pl:nodes()) do
        if name:match("^act") then inside[#inside + 1] = name end
      end
      if #inside > 1 then pl:fuse_all(inside) end
    end,

    -- act inside each of the sums.
    again = function(pl)
      for _, name in ipairs(pl:nodes()) do
        if name:match("^act") then pl:recompute(name) end
      end
    end,
  },

  experiment = function(e)
    e:plot { x = "rows", y = "us", by = { "plan", "act" }, log = "xy" }
    for c in e:sweep { plan = { "store", "again" }, act = "*", rows = { 64, 256, 1024, 4096 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
  end,

  puzzle = {
    order = 4,
    about = "Two sums, along the rows and down the columns, read the same activation s = act(x). One plan "
      .. "computes s once and stores it, the other computes it again inside of each sum.",
    compare = { "store", "again" },
    premise = "differs",
    ask = "act is computed once and stored (store), or again in both of its readers (again). What decides between the two "
      .. "here?",
    choices = {
      { "bytes", "Bytes that again saves: s is neither written nor read.", saves = "bytes",
        tell = "Here arithmetic is to spare and bytes are not." },
      { "launches", "A launch that again saves.", saves = "launches" },
      { "compute", "Arithmetic that again does twice: it costs more than what it saves.", costs = "compute",
        tell = "Here act takes longer to compute than to write and to read." },
      { "occupancy", "Kernels of again that leave more of the device idle.", costs = "occupancy" },
    },
    hints = { "Compare `moved` and `FLOPs` of the two.", "Choose act = dear and look again: what has changed sides?" },
    tell = "A value is worth storing when making it again costs more than writing and reading it. A compiler guesses: most "
      .. "recompute what is cheap and never repeat exp, tanh or a division.",
  },
}
