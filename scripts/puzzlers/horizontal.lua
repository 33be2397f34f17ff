-- Horizontal fusion: sixteen layers that have nothing to do with each other.
--
-- Each of 16 inputs is normalised and squashed, and is a result by itself. Whoever measures torch.compile here sees
-- layer_norm and tanh in one kernel, and still 16 kernels (pytorch/pytorch#101031: why are they not one?). A fusion
-- that follows edges finds none: what one feature computes, no other reads. There are no bytes to be saved either, so
-- a cost model that counts bytes sees no reason.
--
-- The plan `together` puts them all into one launch; blocks 0 to k compute the first feature, the next ones the
-- second. In puzzles 1 and 2 a stack at the end leads `max` to the same kernel. Here nothing does.
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "Sixteen layer_norms: why not one kernel?",

  params = {
    features = fb.int { 16, min = 1, max = 256, step = "x2" },
    rows = fb.int { 1024, min = 1, max = 65536, step = "x2", help = "of a feature" },
    columns = fb.int { 256, min = 1, max = 8192, step = "x2", help = "of a feature" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  model = function(g, p)
    for i = 1, p.features do
      g:scope("feature", i, function()
        local x = g:input("x", { p.rows, p.columns }, p.dtype, { dist = "normal" })
        g:output(nn.layer_norm(x):tanh(), "y" .. i)
      end)
    end
  end,

  columns = { "eager", "max", "together" },

  plans = {
    -- One launch for what no edge connects.
    together = function(pl)
      pl:preset("max")
      pl:fuse_all(pl:nodes())
    end,
  },

  experiment = function(e)
    for c in e:sweep { plan = { "max", "together" }, rows = { 16, 64, 256, 1024, 4096, 16384 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
    e:plot { x = "rows", y = "us", by = "plan", log = "xy" }
  end,

  puzzle = {
    order = 11,
    about = "16 inputs, each normalised and squashed by tanh on its own. `max` fuses along every edge and ends "
      .. "with 16 kernels, one a feature; `together` launches the same work at once.",
    compare = { "max", "together" },
    premise = "differs",
    ask = "No feature reads what another one computes. What decides between 16 kernels and one?",
    choices = {
      { "launches", "Launches: 15 fewer to issue and to wait for.", saves = "launches",
        tell = "At this size a feature is over before the next one is launched." },
      { "occupancy", "Size: one feature cannot fill the device, 16 can.", saves = "occupancy",
        tell = "A small kernel leaves most of the device idle, and 16 of them one after the other do so 16 times." },
      { "bytes", "Bytes: together reads and writes less.", saves = "bytes" },
      { "compute", "Arithmetic: which feature a block belongs to must be found out first.", costs = "compute" },
    },
    hints = {
      "Compare `moved` of the two. Is there anything that one feature wrote and another reads?",
      "Compare `device busy` with `wall`: how much of the time does no kernel run?",
      "Make `rows` larger until one feature alone fills the device. What is left of the difference?",
    },
    tell = "Vertical fusion, along an edge, saves bytes. Horizontal fusion saves none: it saves launches and fills "
      .. "the device, so it pays where kernels are small and many. A compiler that scores a fusion by the bytes it "
      .. "saves gives it 0; that is why such layers stay apart until somebody writes them as one tensor.",
  },
}
