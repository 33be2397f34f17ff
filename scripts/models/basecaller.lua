-- A basecaller's encoder: from the current through a nanopore to scores of bases, as Bonito does it.
--
-- Three convolutions bring the signal down by `stride`, then LSTMs of 384 follow, alternating in direction, and a linear layer
-- scores the transitions between k-mers. A chunk of 10,000 samples is T = 2000 steps of each of 5 LSTMs: that is where all
-- the time goes, and a step cannot begin before the last one has ended. Two things can be asked of a plan: that a
-- step costs one launch, and that what does not depend on h is done for all steps at once.
--
--     scan      a loop each, x Wihᵀ for all steps in one product before it
--     hoisted   the same, steps written out               cell      the framework's cell, step by step
--
-- Convolutions are products, too: `unfold` lays the `kernel` samples around each position side by side (a view of
-- overlapping windows; which presets write it out?) and the filters are a matrix.
--
-- A chunk is `--set T=2000`, as scan (`fusebox check basecaller scan --set T=2000`): a loop is planned once, however many
-- steps it has. The others write the steps out, so that a plan may fuse across them: keep T small.
local fb, nn, layers = require "fusebox", require "nn", require "basecaller"

return fb.script {
  title = "A basecaller's encoder: convolutions and five LSTMs",

  params = {
    N = fb.int { 16, min = 1, max = 4096, step = "x2", help = "chunks at once" },
    T = fb.int { 4, min = 1, max = 100000, step = "x2", help = "steps of each LSTM" },
    H = fb.int { 384, min = 1, max = 4096, help = "hidden size" },
    layers = fb.int { 5, min = 1, max = 16, help = "LSTMs" },
    stride = fb.int { 5, min = 1, max = 16, help = "samples a step" },
    kernel = fb.int { 19, min = 1, max = 63, help = "samples that the last convolution sees" },
    state_len = fb.int { 3, min = 1, max = 5, help = "bases in a k-mer: 5 · 4^state_len scores" },
    dtype = fb.choice { "f32", "f16", "bf16" },
  },

  variants = {
    scan = function(g, p) return layers.encoder(g, p, layers.scanned) end,
    hoisted = function(g, p) return layers.encoder(g, p, layers.unrolled(layers.input_layer, layers.gated)) end,
    cell = function(g, p)
      local function step(x, h, c, w) return nn.lstm_cell(x, h, c, { weights = w }) end
      return layers.encoder(g, p, layers.unrolled(function(_, x) return x end, step))
    end,
  },

  columns = { "scan:eager", "scan:auto", "hoisted:eager", "hoisted:max", "cell:eager", "cell:auto" },

  plans = { -- on a GPU only
    graph = function(pl) pl:preset("max"):launch("graph") end,
    -- Each LSTM as one persistent kernel over all its steps: their products have to be generated for that.
    one_kernel = function(pl)
      pl:preset("max")
      for _, name in ipairs(pl:nodes()) do
        if name:find("^lstm.*%.addmm%.matmul") then pl:generate(name) end
      end
      pcall(pl.generate, pl, "lstm[*].loop") -- written out, there is none
    end,
  },

  experiment = function(e)
    e:plot { y = "samples_per_s", low = "slow", high = "fast" }
    e:plot { x = "N", y = "samples_per_s", by = { "variant", "plan" }, log = "xy" }
    for c in e:sweep { variant = "*", plan = { "eager", "max" }, N = { 4, 16, 64 } } do
      local r = e:measure(c)
      local function rate(us) return us and c.N * c.T * c.stride / us * 1e6 end
      local wall = r.wall_us or {}
      e:row(c, { samples_per_s = rate(wall.median), slow = rate(wall.p90), fast = rate(wall.p10),
                 launches = r.launches, failed = r.failed })
    end
  end,
}
