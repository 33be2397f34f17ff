-- Tensors put side by side in a new dimension.
local fb = require "fusebox"

return fb.script {
  title = "stack",
  params = {
    parts = fb.int { 16, min = 1, max = 64, step = "x2" },
    rows = fb.int { 1024, min = 1, max = 65536, step = "x2" },
    columns = fb.int { 256, min = 1, max = 65536, step = "x2" },
  },
  model = function(g, p)
    local all = {}
    for i = 1, p.parts do all[i] = g:input("x" .. i, { p.rows, p.columns }) end
    return g:stack(all, 0)
  end,
  columns = { "eager", "max" },
}
