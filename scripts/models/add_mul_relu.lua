-- relu(y + s z + bias), or with any other activation: four pointwise ops and hardly any arithmetic.
--
-- Each op by itself reads and writes the whole matrix; in one kernel it is read once and written once. How close to a
-- plain copy does the fused kernel come? (The floor says how fast a copy of the same bytes would be.)
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "relu(y + s z + bias)",

  params = {
    rows = fb.int { 4096, min = 1, max = 65536, step = "x2" },
    columns = fb.int { 4096, min = 1, max = 65536, step = "x2" },
    s = fb.float { 0.5 },
    activation = fb.choice { "relu", "sigmoid", "tanh", "gelu", "silu" },
    dtype = fb.choice { "f32", "bf16", "f16" },
    ones = fb.bool { false, help = "inputs of ones, so that every result is 2 + s" },
  },

  model = function(g, p)
    local dist = p.ones and { dist = "constant", value = 1 } or { dist = "normal" }
    local y = g:input("y", { p.rows, p.columns }, p.dtype, dist)
    local z = g:input("z", { p.rows, p.columns }, p.dtype, dist)
    local bias = g:param("bias", { p.columns }, p.dtype, dist)
    local x = y + p.s * z + bias
    return p.activation == "silu" and nn.silu(x) or x[p.activation](x)
  end,
}
