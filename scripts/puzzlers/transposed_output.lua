-- One kernel, two results, and one of them transposed.
--
-- For a product in eight bits a tensor is scaled, rounded and clamped once; the forward pass reads the result along
-- its rows, the backward pass its transpose. Somebody who fused both results into one kernel measured 1.5 of the 2
-- TB/s that the device gives otherwise (pytorch/pytorch#130015), though no element is read or written twice.
--
-- along writes both results as they lie; across writes the second one transposed. The next number is added to the
-- second result, so that it cannot be a view of the first. Look at the source of across (Enter on its kernel): which
-- of its three tensors is read or written along its rows, and which are crossed? Would another order of the loops
-- help?
--
--     fusebox diff transposed_output across:apart along:max
--     fusebox diff transposed_output across:apart across:max
local fb = require "fusebox"

local function rounded(g, p)
  local x = g:input("x", { p.rows, p.columns }, p.dtype, { dist = "normal" })
  return g:scope("rounded", function() return (x * 32):round():clamp(-127, 127) end)
end

return fb.script {
  title = "A transposed result in the same kernel",

  params = {
    rows = fb.int { 4096, min = 1, max = 32768, step = "x2" },
    columns = fb.int { 4096, min = 1, max = 32768, step = "x2" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    across = function(g, p)
      local y = rounded(g, p)
      return y, y:t() + 1
    end,

    along = function(g, p)
      local y = rounded(g, p)
      return y, y + 1
    end,
  },

  columns = { "across:max", "along:max", "across:apart", "along:apart" },

  plans = {
    -- Each result in a kernel of its own; the second one reads the first. Left alone, fusebox would turn it square by
    -- square in shared memory; `rows` of 1 asks for each element by itself.
    apart = function(pl)
      pl:preset("max")
      for e, _, to in pl:edges() do
        if to == "add" and pl:verdict("cut", e).kind ~= "illegal" then pl:cut(e) end
      end
      pl:knob("add", "rows", 1)
    end,
  },

  experiment = function(e)
    local sizes = { 256, 1024, 4096 }
    for c in e:sweep { variant = "*", plan = { "max", "apart" }, rows = sizes, columns = sizes } do
      local r = e:measure(c)
      e:row(c, { elements = c.rows * c.columns, us = r.wall_us and r.wall_us.median, failed = r.failed })
    end
    e:plot { x = "elements", y = "us", by = { "variant", "plan" }, log = "xy" }
  end,

  puzzle = {
    order = 10,
    about = "A matrix is scaled, rounded and clamped; the result is wanted twice. along writes both copies as they "
      .. "lie in memory, across writes the second one transposed. As one kernel across is the slowest (`across:max`); "
      .. "compared here is the best plan there is for it: a kernel for each copy, with its own order of loops.",
    compare = { "across:apart", "along:max" },
    ask = "The same numbers are computed, and one kernel more does not take 100 µs to launch. Why is along faster?",
    choices = {
      { "bytes", "Bytes: whole lines of memory are fetched or written for a few bytes of each, and the result once more.",
        tell = "Whichever way the loops of the transposing kernel go, one of its sides is crossed: its lines are "
          .. "touched for one element at a time." },
      { "compute", "Arithmetic: the index of a transposed element takes longer to compute." },
      { "occupancy", "Occupancy: the kernels of across keep less of the device busy." },
      { "launches", "Launches: across needs one more, and the second waits for the first." },
    },
    hints = {
      "Compare `moved`, modelled, of both columns. What does the waterfall say is fetched and asked for by nobody?",
      "Enter on the second kernel of across: by how much does an address move from one element to its neighbour, in "
        .. "what it reads and in what it writes?",
      "Put across:max beside: one kernel, one order of loops. What do two results in different orders make of it?",
    },
    tell = "Fusion joins loops, and a loop has one order. Two results in different orders cannot both suit it. A "
      .. "tile in fast memory can: it is filled along the rows of one and emptied along the rows of the other. Take the "
      .. "knob away from `add` in across:apart (k), and its kernel does that.",
  },
}
