-- Convolutions with what people write around them, by themselves.
local fb, nn = require "fusebox", require "nn"

local function hardswish(x) return x * (x + 3):clamp(0, 6) / 6 end

local function around(after)
  return function(g, p)
    local x = g:input("x", { p.batch, p.inputs, p.size, p.size }, p.dtype, { dist = "normal" })
    return after(nn.conv2d(x, p.outputs, 3, { padding = p.padding }), g, p)
  end
end

return fb.script {
  title = "convolutions",
  params = {
    batch = fb.int { 4, min = 1, max = 256, step = "x2" },
    inputs = fb.int { 8, min = 1, max = 2048, step = "x2" },
    outputs = fb.int { 16, min = 1, max = 2048, step = "x2" },
    size = fb.int { 32, min = 4, max = 1024, step = "x2" },
    padding = fb.int { 0, min = 0, max = 2 },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },
  variants = {
    plain = around(function(y) return y end),
    gelu_mean = around(function(y) return nn.gelu(y):mean({ 2, 3 }) end),
    relu_bias = around(function(y, g, p) return y:relu() + g:param("bias", { p.outputs, 1, 1 }, p.dtype) end),
    tanh_pool = around(function(y) return nn.avg_pool2d((y - 0.5):tanh() - 0.2, 2) end),
    relu_hardswish = around(function(y) return hardswish(y:relu()) end),
  },
  columns = { "eager", "auto" },
}
