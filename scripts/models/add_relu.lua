-- relu(x + bias), [128, 512]: the lecture's first fused kernel, written there in Triton and again in CUDA.
--
-- 65,536 elements are less than a GPU moves in the time that it takes to launch anything. Two launches become one: the
-- difference is a launch, and hardly a byte of it. From which size on are the bytes what is saved? The generated kernel is
-- one to read beside the lecture's: `fusebox emit add_relu max --target cuda`.
local fb = require "fusebox"

return fb.script {
  title = "relu(x + bias), small",

  params = {
    rows = fb.int { 128, min = 1, max = 65536, step = "x2" },
    columns = fb.int { 512, min = 1, max = 65536, step = "x2" },
    ones = fb.bool { false, help = "inputs of ones, as in the lecture: every result is 2" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  model = function(g, p)
    local dist = p.ones and { dist = "constant", value = 1 } or { dist = "normal" }
    local x = g:input("x", { p.rows, p.columns }, p.dtype, dist)
    return (x + g:param("bias", { p.columns }, p.dtype, dist)):relu()
  end,


  experiment = function(e)
    e:plot { x = "rows", y = "us", by = "plan", log = "xy" }
    for c in e:sweep { plan = { "eager", "max" }, rows = "*" } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, failed = r.failed })
    end
  end,
}
