-- Over-fusion: three ways in which one kernel is slower than two.
--
-- again   sums `taps` neighbours of an expensive function. One kernel evaluates the function for every neighbour, `taps` times
--         as often as two kernels, which store it once.
-- starved takes the softmax of a few very long rows. Each kernel that keeps a row to itself occupies as many processors
--         as there are rows. Fused, everything runs that narrow; cut, the pointwise parts use the whole device.
-- crowded multiplies each of `width` vectors with each of the others and adds up: in one kernel all of them are live at
--         once. More live values mean more registers a thread, hence fewer threads (occupancy), and past the last
--         register they go to memory (spills): see the rows `registers` and `spills` behind the key +, and
--         `fusebox emit over_fusion crowded:max --target resources --arch sm_90`.
--
-- `max` fuses all it may, without asking what it costs. Which of these does the verdict warn of? Where does `eager` win?
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "Over-fusion: when one kernel is slower than two",

  params = {
    n = fb.int { 262144, min = 1, max = 67108864, step = "x4", help = "elements of a vector, or of all rows together" },
    taps = fb.int { 8, min = 1, max = 64, step = "x2", help = "neighbours in `again`" },
    rows = fb.int { 2, min = 1, max = 1024, step = "x2", help = "of `starved`" },
    width = fb.int { 12, min = 2, max = 48, step = 4, help = "vectors in `crowded`" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    again = function(g, p)
      local x = g:input("x", { p.n + p.taps - 1 }, p.dtype)
      local dear = g:scope("dear", function() return x:sin():exp():tanh() end)
      local sum = dear:slice(0, 0, p.n)
      for k = 1, p.taps - 1 do sum = sum + dear:slice(0, k, p.n + k) end
      return sum
    end,

    starved = function(g, p)
      local x = g:input("x", { p.rows, p.n // p.rows }, p.dtype, { dist = "normal" })
      return nn.softmax(x * 0.5 + 0.25, -1)
    end,

    crowded = function(g, p)
      local v, size = {}, p.n // p.width
      for i = 1, p.width do v[i] = g:input("v" .. i, { size }, p.dtype) end
      local sum
      for i = 1, p.width do
        g:scope("with", i, function()
          for k = i + 1, p.width do
            local product = v[i] * v[k]
            sum = sum and sum + product or product
          end
        end)
      end
      return sum
    end,
  },

  columns = { "again:stored", "again:max", "starved:none", "starved:max", "crowded:max" },

  plans = {
    -- Only what is expensive, in a kernel of its own; the rest as in `max`.
    stored = function(pl)
      pl:preset("max")
      for e, from, to in pl:edges() do
        if from:match("^dear") and not to:match("^dear") then
          if pl:verdict("cut", e).kind ~= "illegal" then pl:cut(e) end
        end
      end
    end,
  },

  experiment = function(e)
    e:plot { x = "taps", y = "us", by = "plan", log = "xy" }
    for c in e:sweep { variant = "again", plan = { "stored", "max" }, taps = "*" } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, failed = r.failed })
    end
  end,

  puzzle = {
    order = 5,
    about = "A sum over neighbours of an expensive function: sin, exp, tanh. In one kernel the function is "
      .. "evaluated for every neighbour anew; in two it is evaluated once, stored, and read again.",
    compare = { "again:max", "again:stored" },
    ask = "Two kernels instead of one, and more bytes. Why is that faster?",
    choices = {
      { "compute", "The fused kernel computes every value several times.",
        tell = "Stored once, a value is computed once: what the second kernel reads costs less than that." },
      { "bytes", "It moves fewer bytes." },
      { "launches", "It launches fewer kernels." },
      { "occupancy", "Its kernels are fuller." },
    },
    hints = { "Compare the FLOPs.", "Enter on the fused kernel: how many times is sin in its source?" },
    tell = "Fusing trades traffic and launches for something else: here for arithmetic, in `starved` for parallelism, in "
      .. "`crowded` for registers. As long as that was idle the trade is free.",
  },
}
