-- Softmax of long rows: exp(x - max) / sum, row by row.
--
-- The maximum has to be known before the first exp, and the sum before the first quotient: three passes over a row, of
-- which one kernel makes one read and one write as long as the row stays on chip. Beyond that the online form (keep a
-- running maximum, rescale the running sum) saves a pass. Which bound does the device hit, bytes or exp? Compare f32 with
-- bf16, which halves the bytes and leaves the exps.
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "Softmax of long rows",

  params = {
    rows = fb.int { 16384, min = 1, max = 65536, step = "x2" },
    columns = fb.int { 4096, min = 1, max = 16777216, step = "x2", help = "what one sum is taken over" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  model = function(g, p)
    return nn.softmax(g:input("x", { p.rows, p.columns }, p.dtype, { dist = "normal" }), -1)
  end,

  columns = { "none", "eager", "auto" },

  -- How the time of a byte depends on the length of a row.
  experiment = function(e)
    e:plot { x = "columns", y = "us", by = "plan", log = "xy" }
    for c in e:sweep { plan = { "eager", "max" }, columns = { 1024, 2048, 4096, 8192, 16384 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
  end,
}
