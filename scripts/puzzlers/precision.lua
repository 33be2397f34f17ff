-- Quantisation: what does a narrower number buy, and when?
--
-- y = x W, W [inputs, outputs], with W in f32, rounded to tf32 inside the product, in bf16, and in eight bits with a scale a
-- column. With a batch of 1 every weight is read for one multiplication: the product is as fast as W can be read, and
-- halving its bytes halves the time. With a large batch each weight is used many times: then it is arithmetic that
-- counts, and a narrow type helps only where the device multiplies it faster. Where is the turning point?
--
-- int8: there is no 8-bit dtype, so four weights share an i32 and are taken apart by shifts: the bytes are those of int8.
-- `eager` writes W out in f32 before the product reads it, which costs more than it saves, and so does `max` where it
-- keeps the product a library call. The plan `prologue` unpacks on the way into a generated product, and no f32 copy of
-- W exists.
local fb = require "fusebox"

local function input(g, p, dtype) return g:input("x", { p.batch, p.inputs }, dtype, { dist = "normal" }) end

local function weight(g, p, dtype)
  local bound = 1 / math.sqrt(p.inputs)
  return g:param("W", { p.inputs, p.outputs }, dtype, { low = -bound, high = bound })
end

return fb.script {
  title = "Quantisation: which bound does a narrower type move?",

  params = {
    batch = fb.int { 1, min = 1, max = 8192, step = "x4", help = "rows of x: how often a weight is used" },
    inputs = fb.int { 1024, min = 4, max = 16384, step = "x2", help = "a multiple of 4" },
    outputs = fb.int { 1024, min = 1, max = 16384, step = "x2" },
  },

  variants = {
    f32 = function(g, p) return input(g, p, "f32"):matmul(weight(g, p, "f32")) end,

    tf32 = function(g, p) return input(g, p, "f32"):matmul(weight(g, p, "f32"), { precision = "tf32" }) end,

    bf16 = function(g, p) return input(g, p, "bf16"):matmul(weight(g, p, "bf16")) end,

    int8 = function(g, p)
      local packed = g:param("W_packed", { p.inputs // 4, p.outputs }, "i32",
        { dist = "integer", low = -2147483648, high = 2147483648 })
      local scale = g:param("scale", { p.outputs }, "f32", { low = 0.001, high = 0.002 })
      local W = g:scope("dequantise", function()
        local byte = {}
        for k = 0, 3 do byte[k + 1] = (packed >> (8 * k)) & 255 end
        return (g:stack(byte, 1):view(p.inputs, p.outputs) - 128):to("f32") * scale
      end)
      return input(g, p, "f32"):matmul(W)
    end,
  },

  columns = { "f32:max", "tf32:max", "bf16:max", "int8:max", "int8:prologue" },

  plans = {
    -- The product is generated and dequantises what it reads; a plan for int8, and `max` for the others.
    prologue = function(pl)
      pl:preset("max")
      for e, from, to in pl:edges() do
        if from:match("^dequantise") and to == "matmul" then pl:fuse(e) end
      end
    end,
  },

  -- The turning point, as time against batch.
  experiment = function(e)
    e:plot { x = "batch", y = "us", by = { "variant", "plan" }, log = "xy" }
    for c in e:sweep { variant = "*", plan = { "max", "prologue" }, batch = "*" } do
      if c.plan == "max" or c.variant == "int8" then
        local r = e:measure(c)
        e:row(c, { us = r.wall_us and r.wall_us.median, failed = r.failed })
      end
    end
  end,

  puzzle = {
    order = 8,
    about = "A product with weights that are stored in eight bits, four of them in a word. Op by op they are "
      .. "unpacked to 32 bits first; fused, one kernel unpacks what it is about to multiply.",
    compare = { "int8:eager", "int8:max" },
    ask = "Eight-bit weights, unpacked op by op before the product, or inside it. What does the second save most of?",
    choices = {
      { "bytes", "Bytes: W is never written out in 32 bits and read again." },
      { "launches", "Launches: unpacking takes many small ops.",
        tell = "At this size the ops are over before the next is launched. Make inputs and outputs larger, and bytes come "
          .. "first." },
      { "compute", "Arithmetic: a weight is unpacked fewer times." },
      { "occupancy", "Its kernel fills the device better." },
    },
    hints = {
      "Count the launches of both.",
      "Put f32:max and bf16:max beside: at batch 1, what did fewer bytes buy on this device?",
      "Set inputs and outputs to 8192 and ask again.",
    },
    tell = "Precision moves two bounds at once: bytes, which count while the batch is small, and the rate of the "
      .. "multipliers, which counts when it is large. Eight-bit weights pay only when nobody writes them out in 32.",
  },
}
