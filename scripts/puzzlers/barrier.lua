-- Barrier or launch: what stands between two kernels?
--
-- Each of 16 steps multiplies a matrix with the vector of the step before. Every number of a step needs the whole
-- vector, so all of a step must be done before the next may begin, and no fusion of loops gets around that. What does
-- it take to make everybody wait for everybody?
--
-- stream ends the kernel and launches another: the host issues it, the device drains, fills again, and all that was
-- on chip is gone. graph makes the launch cheaper, and still drains. mega is one kernel for all steps, whose blocks
-- meet at a barrier in between: it is launched once, and as many blocks as fit the device stay there.
--
-- CUDA graphs and grid barriers need a GPU; elsewhere the puzzle offers what was recorded on one.
--
--     fusebox run barrier stream graph mega --device replay:h200
local fb = require "fusebox"

return fb.script {
  title = "Barrier or launch?",

  params = {
    steps = fb.int { 16, min = 1, max = 256, step = "x2", help = "one after the other" },
    size = fb.int { 256, min = 1, max = 16384, step = "x2", help = "of the vector; the matrices are this squared" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  model = function(g, p)
    local x = g:input("x", { p.size }, p.dtype, { low = -1, high = 1 })
    local bound = 2 / math.sqrt(p.size)
    local W = g:param("W", { p.size, p.size }, p.dtype, { low = -bound, high = bound })
    for i = 1, p.steps do
      g:scope("step", i, function() x = (W * x:view(1, p.size)):sum(1):tanh() end)
    end
    return x
  end,

  columns = { "eager", "stream" },

  plans = {
    stream = function(pl) pl:preset("max") end,
    -- The others are for a GPU only.
    graph = function(pl) pl:preset("max"):launch("graph") end,
    mega = function(pl) pl:preset("max"):launch("mega") end,
  },

  -- At which size does it no longer matter what stands between two steps?
  experiment = function(e)
    for c in e:sweep { plan = { "stream", "graph", "mega" }, size = { 128, 256, 512, 1024, 2048, 4096 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, kernels_us = r.device_us and r.device_us.median,
                 failed = r.failed })
    end
    e:plot { x = "size", y = "us", by = "plan", log = "xy" }
  end,

  puzzle = {
    order = 17,
    about = "16 times a matrix times a vector, each needing all of the vector before it. stream is 16 kernels; "
      .. "mega is one, whose blocks wait for each other at 15 barriers.",
    compare = { "stream", "mega" },
    ask = "Both do the same steps in the same order, and all of the device waits between two of them. Why is mega "
      .. "faster?",
    choices = {
      { "launches", "Launches: a barrier is crossed sooner than a kernel is launched.",
        tell = "A barrier of the whole device takes about a microsecond, a launch from the host three or four." },
      { "bytes", "Bytes: mega keeps the matrix on chip from step to step." },
      { "occupancy", "Occupancy: its blocks fill the device, those of a small kernel do not." },
      { "compute", "Arithmetic: mega computes the index of an element only once." },
    },
    hints = {
      "Compare `wall` with `device busy` in both columns.",
      "Put graph beside them: the same 16 kernels, launched by the device. How far is it from mega?",
      "Make `size` 4096. How long is a step now, and what does it matter how it begins?",
    },
    tell = "Ending a kernel is the most expensive barrier there is, and the only one that needs no care: within a "
      .. "kernel all blocks must be on the device at once, or they wait for ever. Cheaper than either is to need "
      .. "no barrier: a step that is split by rows which do not need each other.",
  },
}
