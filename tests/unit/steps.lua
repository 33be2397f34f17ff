-- Loops whose threads go through all steps by themselves, small: elements, rows that are summed up, and the way back.
local fb = require "fusebox"

local function input(g, p, name, ...)
  return g:input(name, { p.steps, ... }, p.dtype, { dist = "normal" })
end

return fb.script {
  title = "loops that threads go through by themselves",
  params = {
    steps = fb.int { 70, min = 1, max = 1024 },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },
  variants = {
    elements = function(g, p)
      local a, b = input(g, p, "a", 3, 43), input(g, p, "b", 3, 43)
      local s, ys = g:scan({ a, b }, { g:input("s", { 3, 43 }, p.dtype) }, function(a, b, s)
        local n = s * a:sigmoid() + b
        return { n }, { n }
      end)
      return s[1], ys[1]
    end,
    back = function(g, p)
      local a, b = input(g, p, "a", 3, 43), input(g, p, "b", 3, 43)
      local s, ys = g:scan({ a, b }, { g:zeros({ 3, 43 }, p.dtype) }, function(a, b, s)
        local n = s * a:sigmoid() + b
        return { n }, { n * a }
      end, { backwards = true })
      return s[1], ys[1]
    end,
    rows = function(g, p)
      local x, b, c = input(g, p, "x", 2, 9, 1), input(g, p, "b", 2, 1, 16), input(g, p, "c", 2, 1, 16)
      local s, ys = g:scan({ x, b, c }, { g:zeros({ 2, 9, 16 }, p.dtype) }, function(x, b, c, s)
        local n = s * 0.5 + x * b
        return { n }, { (n * c):sum(-1) }
      end)
      return s[1], ys[1]
    end,
  },
}
