-- Layer normalisation of long rows: (x - mean) / sqrt(variance + eps), row by row.
--
-- Op by op, the matrix is read five times and written three times. One kernel that keeps a row on chip reads it
-- once and writes it once, which is all that a copy does. How long may a row be before it no longer fits, and what does
-- the second pass over it cost then? Try `columns` from 1024 to 16384, and compare with the floor.
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "Layer normalisation of long rows",

  params = {
    rows = fb.int { 16384, min = 1, max = 65536, step = "x2" },
    columns = fb.int { 4096, min = 1, max = 16777216, step = "x2", help = "what one mean is taken over" },
    dtype = fb.choice { "f32", "bf16", "f16" },
    affine = fb.bool { false, help = "with a weight and a bias per column" },
  },

  model = function(g, p)
    local x = g:input("x", { p.rows, p.columns }, p.dtype, { dist = "normal" })
    return nn.layer_norm(x, { affine = p.affine })
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
