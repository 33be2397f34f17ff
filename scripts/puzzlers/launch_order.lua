-- Order of launches: the same kernels, the same bytes, in another order.
--
-- Each of `blocks` vectors is scaled, squashed and summed. `depth` finishes a vector before it begins the next: what one
-- kernel wrote, the next one reads while it is still in the cache. `breadth` does the first op for all vectors, then
-- the second for all: by the time a vector is read again, others have pushed it out to memory. Neither launches more than
-- the other, and the modelled bytes are equal. How large must `size` be before the order matters, and how large before it
-- does not matter any more?
--
-- Kernels are launched in the order in which the script asks for them, as far as no edge says otherwise. In a framework
-- the order decides one thing more: whatever waits for a result on the host (an .item(), a copy back) holds up all that
-- is queued behind it.
local fb = require "fusebox"

local function input(g, p, i)
  return g:scope("block", i, function() return g:input("x", { p.size }, p.dtype, { low = -1, high = 1 }) end)
end

return fb.script {
  title = "Order of launches: depth first or breadth first?",

  params = {
    blocks = fb.int { 8, min = 1, max = 256, step = "x2", help = "vectors" },
    size = fb.int { 131072, min = 1, max = 67108864, step = "x4", help = "elements of each" },
    dtype = fb.choice { "f32", "bf16", help = "sums of this many elements are too large for f16" },
  },

  variants = {
    depth = function(g, p)
      local sums = {}
      for i = 1, p.blocks do
        local x = input(g, p, i)
        sums[i] = ((x * 1.5):tanh() * x):sum(0, true)
      end
      return g:cat(sums)
    end,

    breadth = function(g, p)
      local x, y, sums = {}, {}, {}
      for i = 1, p.blocks do x[i] = input(g, p, i) end
      for i = 1, p.blocks do y[i] = x[i] * 1.5 end
      for i = 1, p.blocks do y[i] = y[i]:tanh() end
      for i = 1, p.blocks do y[i] = y[i] * x[i] end
      for i = 1, p.blocks do sums[i] = y[i]:sum(0, true) end
      return g:cat(sums)
    end,
  },

  columns = { "depth:none", "breadth:none", "depth:max", "breadth:max" },

  experiment = function(e)
    e:plot { x = "size", y = "us", by = "variant", log = "xy" }
    for c in e:sweep { variant = "*", plan = "none", size = { 4096, 16384, 65536, 262144, 1048576, 4194304 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
  end,

  puzzle = {
    order = 7,
    about = "Each of 8 vectors is scaled, squashed, multiplied and summed, one vector after the other. Op by op, "
      .. "what one kernel writes is read by the next while it is in the cache; fused, it never leaves the "
      .. "registers.",
    compare = { "depth:none", "depth:max" },
    ask = "Depth first, what one kernel wrote is in the cache when the next one reads it. One kernel keeps it in "
      .. "registers. What does that still save?",
    choices = {
      { "bytes", "Bytes: what moves from kernel to kernel, through the cache or not." },
      { "launches", "Launches: all but one, and the waiting for them.",
        tell = "The traffic stays on chip in either plan, and only the launches remain." },
      { "compute", "Arithmetic: fused, it takes fewer instructions." },
      { "occupancy", "Size: kernels that are too small to fill the device." },
    },
    hints = {
      "Put breadth:none beside: does the order change anything at this size?",
      "Modelled bytes do not know of caches. Compare hot and cold times.",
      "Try sizes around that of the last cache.",
    },
    tell = "A chain of small steps over blocks that fit the cache is half a fusion. Fused, the order is gone, and so is "
      .. "the question.",
  },
}
