-- 72 microseconds of kernels that take 417: where is the rest?
--
-- Somebody profiled a compiled program: the kernels took 72 µs together, a run of it 417 µs (pytorch/pytorch#150488).
-- This is such a program: one step of gradient descent with momentum for each of 80 small tensors. A tensor's
-- arithmetic is one kernel already; no edge goes from one tensor to another.
--
-- The plan `stream` launches one kernel after the other, as a program does; `graph` has the same kernels in one CUDA
-- graph, which is launched once. No kernel is changed by that, no byte saved. `foreach` makes one kernel of all,
-- which is what optimisers called "foreach" or "fused" do.
--
-- CUDA graphs need a GPU; elsewhere the puzzle offers what was recorded on one.
--
--     fusebox diff launch_bound stream@replay:h200 graph@replay:h200
local fb = require "fusebox"

return fb.script {
  title = "417 µs, and 72 of them in kernels",

  params = {
    tensors = fb.int { 80, min = 1, max = 1024, step = "x2" },
    size = fb.int { 4096, min = 1, max = 67108864, step = "x4", help = "elements of a tensor" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  model = function(g, p)
    for i = 1, p.tensors do
      g:scope("tensor", i, function()
        local weight = g:param("weight", { p.size }, p.dtype, { dist = "normal" })
        local momentum = g:param("momentum", { p.size }, p.dtype, { dist = "normal" })
        local slope = g:input("slope", { p.size }, p.dtype, { dist = "normal" })
        local next_momentum = 0.9 * momentum + slope
        g:assign(momentum, next_momentum)
        g:assign(weight, weight - 0.01 * next_momentum)
      end)
    end
  end,

  columns = { "eager", "stream", "foreach" },

  plans = {
    stream = function(pl) pl:preset("max") end,
    -- Only on a GPU.
    graph = function(pl) pl:preset("max"):launch("graph") end,
    foreach = function(pl)
      pl:preset("max")
      pl:fuse_all(pl:nodes())
    end,
  },

  -- How large must a tensor be until its kernel outlasts its launch?
  experiment = function(e)
    for c in e:sweep { plan = { "stream", "foreach" }, tensors = 32, size = { 1024, 16384, 262144, 4194304 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, kernels_us = r.device_us and r.device_us.median,
                 failed = r.failed })
    end
    e:plot { x = "size", y = "us", by = "plan", log = "xy" }
  end,

  puzzle = {
    order = 13,
    about = "A step of an optimiser for 80 small tensors: one kernel each, less than a microsecond long. stream "
      .. "launches them one by one, graph as one CUDA graph: the same kernels in the same order.",
    compare = { "stream", "graph" },
    ask = "A run takes several times as long as its kernels together. Why is graph faster?",
    choices = {
      { "launches", "Launches: the host needs longer to launch a kernel than the device to run it.",
        tell = "The device waits for the host. In a graph the whole list is there already, and the device goes "
          .. "through it." },
      { "bytes", "Bytes: in a graph, what one kernel wrote is still in the cache for the next one." },
      { "compute", "Arithmetic: the kernels of a graph are compiled together." },
      { "occupancy", "Occupancy: the kernels of a graph run beside each other and fill the device." },
    },
    hints = {
      "Compare `wall` with `device busy`. What is the device doing in between?",
      "Divide what is left of the wall time by the number of launches.",
      "Make `size` 262144, then 4194304. When is the launch hidden behind the kernel before it?",
    },
    tell = "A profile that adds up kernels shows a fast program. What nobody sees in it are the gaps: about as "
      .. "many microseconds as there are launches, times two to four. A graph makes a launch cheap; fusing makes "
      .. "it go away; larger kernels hide it.",
  },
}
