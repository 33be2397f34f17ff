-- LoRA on a whole network: an MLP 16-8-4 whose two layers each carry a low-rank update.
--
-- Each layer is relu(x Wᵀ + b + scale (x A) B). At the lecture's sizes all of it fits into registers: everything is
-- launches, and one kernel for two layers would be best. How many does each way of writing it need? At real sizes (--set
-- inputs=4096 --set hidden=4096 --set outputs=4096 --set batch=4096) the products are everything, and what counts is that
-- x A B costs no pass of its own over the output: added in the product's epilogue, or as more columns of the same product.
--
--     lora      W and the update beside each other       joined    x [Wᵀ A] in one product, then B
--     merged    the update added to W first              train     a step that trains A and B alone
local fb, nn, optim = require "fusebox", require "nn", require "optim"

-- W [in, out] and b are frozen; A [in, rank] and B [rank, out] are the update.
local function layer(g, p, inputs, outputs)
  local bound = 1 / math.sqrt(inputs)
  local function param(name, shape, limit) return g:param(name, shape, p.dtype, { low = -limit, high = limit }) end
  return param("W", { inputs, outputs }, bound), param("b", { outputs }, bound), param("A", { inputs, p.rank }, bound),
    param("B", { p.rank, outputs }, 1)
end

local function network(g, p, apply)
  local x = g:input("x", { p.batch, p.inputs }, p.dtype, { dist = "normal" })
  x = g:scope("layer", 1, function() return apply(x, layer(g, p, p.inputs, p.hidden)):relu() end)
  return g:scope("layer", 2, function() return apply(x, layer(g, p, p.hidden, p.outputs)):relu() end)
end

return fb.script {
  title = "LoRA on a two-layer network",

  params = {
    batch = fb.int { 8, min = 1, max = 16384, step = "x2", help = "rows of x" },
    inputs = fb.int { 16, min = 1, max = 8192, step = "x2" },
    hidden = fb.int { 8, min = 1, max = 8192, step = "x2" },
    outputs = fb.int { 4, min = 1, max = 8192, step = "x2" },
    rank = fb.int { 2, min = 1, max = 512, step = "x2", help = "columns of A" },
    scale = fb.float { 0.5, help = "weight of the update" },
    lr = fb.float { 0.01, help = "how far a step goes down the gradient" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    lora = function(g, p)
      return network(g, p, function(x, W, b, A, B) return x:matmul(W) + b + p.scale * x:matmul(A):matmul(B) end)
    end,

    joined = function(g, p)
      return network(g, p, function(x, W, b, A, B)
        local wide, thin = table.unpack(x:matmul(g:cat({ W, A }, 1)):split({ W.shape[2], p.rank }, 1))
        return wide + b + p.scale * thin:matmul(B)
      end)
    end,

    merged = function(g, p)
      return network(g, p, function(x, W, b, A, B) return x:matmul(W + p.scale * A:matmul(B)) + b end)
    end,

    train = function(g, p)
      local trained = {}
      local y = network(g, p, function(x, W, b, A, B)
        trained[#trained + 1], trained[#trained + 2] = A, B
        return x:matmul(W) + b + p.scale * x:matmul(A):matmul(B)
      end)
      local away = y - g:input("target", y.shape, p.dtype)
      local loss = (away * away):mean()
      optim.sgd(g, loss, trained, { lr = p.lr })
      return loss
    end,
  },

  plans = { -- on a GPU only
    -- Both layers with their updates as one cooperative kernel, at 16-8-4 as at any size: a barrier between the stages
    -- instead of a launch. It can call no library: its products are generated.
    one_kernel = function(pl)
      pl:preset("inductor")
      for _, name in ipairs(pl:nodes()) do
        if name:find("matmul") then pcall(pl.generate, pl, name) end -- what cannot be, the launch mode names
      end
      pl:launch("mega")
    end,
  },

  columns = { "lora:eager", "lora:auto", "joined:auto", "merged:auto", "train:auto" },

  -- From which batch on does merging, which costs a pass over W, pay?
  experiment = function(e)
    e:plot { x = "batch", y = "us", by = "variant", log = "xy" }
    for c in e:sweep { variant = { "lora", "joined", "merged" }, plan = "max", batch = { 1, 8, 64, 512, 4096 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
  end,
}
