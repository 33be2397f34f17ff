-- Convolutions of all kinds, small: what a library may be asked for, with something behind it.
local fb, nn = require "fusebox", require "nn"

local function image(g, p, channels, size)
  return g:input("x", { p.batch, channels, table.unpack(size) }, p.dtype, { dist = "normal" })
end

return fb.script {
  title = "convolutions of all kinds",
  params = {
    batch = fb.int { 2, min = 1, max = 64 },
    channels = fb.int { 4, min = 1, max = 512 },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },
  variants = {
    line = function(g, p)
      return nn.conv1d(image(g, p, p.channels, { 37 }), 5, 4, { stride = 3, padding = 2 }):tanh()
    end,
    plane = function(g, p)
      local y = nn.conv2d(image(g, p, p.channels, { 13, 11 }), 6, { 3, 4 }, { padding = { 1, 2 }, dilation = { 2, 1 } })
      return y:relu()
    end,
    groups = function(g, p)
      local o = { groups = 2, padding = 1, stride = { 2, 1 } }
      return nn.conv2d(image(g, p, 2 * p.channels, { 11, 10 }), 6, 3, o) * 0.5
    end,
    room = function(g, p)
      return nn.conv3d(image(g, p, p.channels, { 5, 6, 7 }), 3, { 2, 3, 3 }, { padding = { 0, 1, 1 }, dilation = { 1, 1, 2 } })
    end,
    net = function(g, p) -- in 16 bits what lies between lies channels last
      local same = { padding = 1 }
      local a = nn.conv2d(image(g, p, 3, { 12, 10 }), 16, 3, same):relu()
      local b = nn.conv2d(nn.conv2d(a, 16, 3, same):relu(), 16, 3, same)
      local c = nn.max_pool2d((b + a):relu(), 3, { stride = 2, padding = 1 })
      local d = nn.conv2d(g:cat({ nn.conv2d(c, 24, 1):relu(), c }, 1), 16, 3, { stride = 2, padding = 1 })
      return d:tanh():mean({ 2, 3 })
    end,
    back = function(g, p) -- the gradient of one as a layer
      return nn.conv_transpose2d(image(g, p, p.channels, { 6, 7 }), 4, 3, { stride = 2, padding = 1 }):sigmoid()
    end,
  },
  columns = { "eager", "auto" },
}
