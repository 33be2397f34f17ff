-- Barrier or launch: what stands between two steps of a loop?
--
-- Five LSTMs, one after the other; a step of each needs the state that the step before it left, all of it. As kernels, a
-- step is a launch of a product and one of what is made of it; the next launch waits until the last block has ended.
-- As one kernel, the blocks stay on the device for all steps and meet at a barrier in between: everybody waits until
-- everybody is there. Its products have to be generated for that, since no library can be called from inside.
--
-- The network is a basecaller's (models/basecaller). A barrier of the whole grid needs a GPU; elsewhere the loops are
-- functions that a team of cores runs through.
--
--     fusebox diff barrier launches barriers --device replay:h200
local fb, layers = require "fusebox", require "basecaller"

return fb.script {
  title = "Barrier or launch?",

  params = {
    N = fb.int { 16, min = 1, max = 4096, step = "x2", help = "chunks at once" },
    T = fb.int { 4, min = 1, max = 100000, step = "x2", help = "steps of each LSTM" },
    H = fb.int { 384, min = 1, max = 4096, help = "hidden size" },
    dtype = fb.choice { "f32", "f16", "bf16" },
  },

  model = function(g, p)
    return layers.encoder(g, {
      N = p.N, T = p.T, H = p.H, dtype = p.dtype, layers = 5, stride = 5, kernel = 19, state_len = 3,
    }, layers.scanned)
  end,

  columns = { "launches", "barriers" },

  plans = {
    launches = function(pl) pl:preset("inductor") end,
    barriers = function(pl)
      pl:preset("max")
      for _, name in ipairs(pl:nodes()) do
        if name:find("^lstm.*%.addmm%.matmul") then pl:generate(name) end
      end
      pl:generate("lstm[*].loop")
    end,
  },

  -- From how many steps on does it matter, and at which size no more?
  experiment = function(e)
    for c in e:sweep { plan = { "launches", "barriers" }, H = { 96, 384 }, T = { 4, 16, 64 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, kernels_us = r.device_us and r.device_us.median,
                 failed = r.failed })
    end
    e:plot { x = "T", y = "us", by = { "plan", "H" }, log = "xy" }
  end,

  puzzle = {
    order = 19,
    about = "Five LSTMs of a few steps each. launches has two kernels a step, one of them a library's product, as a "
      .. "compiler leaves them; in barriers each LSTM is one kernel for all its steps, whose blocks wait for each other "
      .. "in between.",
    compare = { "launches", "barriers" },
    ask = "The products of barriers are not the library's, and a run is over sooner all the same. What is most of that?",
    choices = {
      { "launches", "Launches: a barrier is crossed sooner than the next kernel is launched.",
        tell = "Launching, and draining the device before it, costs a few microseconds a step; a barrier about one." },
      { "bytes", "Bytes: the weights stay on chip from step to step." },
      { "occupancy", "Occupancy: blocks that stay fill the device, those of a small kernel do not." },
      { "compute", "Arithmetic: a generated product computes less than the library's." },
    },
    hints = {
      "Compare `launches`, and `device idle` with `device busy`, in both columns.",
      "Divide what is gained of the idle time by the launches that are gone.",
      "`w` shows what is gained and where. With larger matrices, which part of it grows?",
    },
    tell = "Ending a kernel is the dearest barrier there is, and the only one that needs no care: inside a kernel all "
      .. "blocks must be on the device at once, or they wait for ever. It pays most where a step is short: with longer "
      .. "ones the product decides, and the library's may be the faster one. Best is both, a fast product inside the "
      .. "kernel.",
  },
}
