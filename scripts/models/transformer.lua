-- A transformer's encoder layer, and a step of training it.
--
-- Attention over `heads` heads, a residual and a layer_norm, two linear layers with relu, another residual and layer_norm
-- (PyTorch's TransformerEncoderLayer without dropout). At the sizes of a small model the layer is all launches; how many of
-- them does each preset need forward, and how many for the whole step?
--
-- In `train` the loss is the mean square of the distance from a target; gradients and updates are nodes of the same graph, so
-- that they may be fused as anything else. What of the forward pass do they read again, and would it be cheaper to recompute?
local fb, nn, optim = require "fusebox", require "nn", require "optim"

local function layer(g, p)
  local x = g:input("x", { p.batch, p.tokens, p.size }, p.dtype, { dist = "normal" })
  return nn.encoder_layer(x, { heads = p.heads, hidden = p.hidden })
end

return fb.script {
  title = "A transformer's encoder layer and its training step",

  params = {
    batch = fb.int { 8, min = 1, max = 1024, step = "x2", help = "sequences" },
    tokens = fb.int { 16, min = 1, max = 8192, step = "x2", help = "of a sequence" },
    size = fb.int { 64, min = 1, max = 8192, step = "x2", help = "of a token; a multiple of heads" },
    heads = fb.int { 4, min = 1, max = 64, step = "x2" },
    hidden = fb.int { 256, min = 1, max = 32768, step = "x2", help = "between the two linear layers" },
    lr = fb.float { 0.01, help = "how far a step goes down the gradient" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    forward = function(g, p)
      local y = layer(g, p)
      return y
    end,

    train = function(g, p)
      local y, weights = layer(g, p)
      local away = y - g:input("target", y.shape, p.dtype, { dist = "normal" })
      local loss = (away * away):mean()
      optim.sgd(g, loss, weights, { lr = p.lr })
      return loss
    end,
  },

  columns = { "forward:eager", "forward:auto", "train:eager@torch", "train:eager", "train:auto" },

  plans = { -- on a GPU only
    eager_graph = function(pl) pl:preset("eager"):launch("graph") end,
    max_graph = function(pl) pl:preset("max"):launch("graph") end,
  },

  experiment = function(e)
    e:plot { x = "tokens", y = "us", by = { "variant", "plan" }, log = "xy" }
    for c in e:sweep { variant = "*", plan = { "eager", "max" }, tokens = { 16, 64, 256 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
  end,
}
