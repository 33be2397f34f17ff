-- One product with what is often made of it, by itself, and its kernels of choice.
local fb, nn = require "fusebox", require "nn"

local function product(after)
  return function(g, p)
    local function operand(name, rows, columns, turned)
      local shape = turned and { columns, rows } or { rows, columns }
      if p.batch > 1 then table.insert(shape, 1, p.batch) end
      local x = g:input(name, shape, p.dtype, { dist = "normal", std = 1 / math.sqrt(p.k) })
      return turned and x:transpose(-1, -2) or x
    end
    local x = operand("x", p.m, p.k, p.left == "turned")
    local function by(name) return x:matmul(operand(name, p.k, p.n, p.right == "turned")) end
    return after(by, g, p)
  end
end

local function bias(g, p) return g:param("bias", { p.n }, p.dtype) end

local function with_knob(value)
  return function(pl)
    pl:fuse_all(table.unpack(pl:nodes()))
    for _, node in ipairs(pl:nodes()) do
      if node:match "^matmul" then
        pl:generate(node)
        pl:knob(node, "tile_k", value)
      end
    end
  end
end

return fb.script {
  title = "products",
  params = {
    m = fb.int { 1024, min = 1, max = 1 << 20 },
    n = fb.int { 1024, min = 1, max = 1 << 20 },
    k = fb.int { 1024, min = 1, max = 1 << 20 },
    inner = fb.int { 1024, min = 1, max = 1 << 20, help = "columns of h, in `two`" },
    batch = fb.int { 1, min = 1, max = 4096 },
    left = fb.choice { "plain", "turned" },
    right = fb.choice { "plain", "turned" },
    dtype = fb.choice { "bf16", "f16", "f32" },
  },
  variants = {
    plain = product(function(by) return by("w") end),
    sigmoid = product(function(by) return by("w"):sigmoid() end),
    relu_bias = product(function(by, g, p) return (by("w") + bias(g, p)):relu() end),
    residual = product(function(by, g, p)
      local shape = p.batch > 1 and { p.batch, p.m, p.n } or { p.m, p.n }
      return by("w") + g:input("r", shape, p.dtype)
    end),
    -- x W + (h U) / 2, as recurrent layers and low-rank updates have it
    two = product(function(by, g, p)
      local h, u = g:input("h", { p.m, p.inner }, p.dtype, { dist = "normal" }),
        g:param("u", { p.inner, p.n }, p.dtype, { dist = "normal", std = 1 / math.sqrt(p.inner) })
      return (by("w") + 0.5 * h:matmul(u)):tanh()
    end),
    gate = product(function(by) return nn.silu(by("w")) * by("v") end),
  },
  plans = { warpgroups = with_knob(64), warps = with_knob(32) },
  columns = { "eager", "auto" },
}
