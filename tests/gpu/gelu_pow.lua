-- A gelu as people write it by hand: its cube is a power.
local fb = require "fusebox"

return fb.script {
  title = "gelu with a power",
  params = {
    rows = fb.int { 1024, min = 1, max = 65536, step = "x2" },
    columns = fb.int { 1024, min = 1, max = 65536, step = "x2" },
  },
  model = function(g, p)
    local x = g:input("x", { p.rows, p.columns })
    return x * 0.5 * (((x + x ^ 3 * 0.044715) * 0.7978845608028654):tanh() + 1)
  end,
  columns = { "eager", "max" },
}
