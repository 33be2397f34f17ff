-- Many training steps of a small network in one loop: two layers of 255, a batch of 2, stochastic gradient descent.
--
-- The body holds forward, backward and update (g:grad differentiates inside a loop). What a step changes is either
-- carried by the loop (carried) or assigned to parameters (assigned). The weights stay in place: a step reads and
-- writes each once. A million bytes of weights and hardly any arithmetic: what bounds a step, and what does the launch
-- of its kernels cost?
local fb, nn, optim = require "fusebox", require "nn", require "optim"

local function weights(g, p)
  local function layer(name, outputs, inputs)
    local bound = { low = -1 / math.sqrt(inputs), high = 1 / math.sqrt(inputs) }
    return g:param(name .. "_weight", { outputs, inputs }, p.dtype, bound),
           g:param(name .. "_bias", { outputs }, p.dtype, bound)
  end
  local W1, b1 = layer("fc1", p.hidden, p.inputs)
  local W2, b2 = layer("fc2", p.outputs, p.hidden)
  return W1, b1, W2, b2
end

local function loss_of(x, W1, b1, W2, b2)
  local h = nn.addmm(b1, x, W1:t(), { name = "fc1" }):sigmoid()
  return nn.addmm(b2, h, W2:t(), { name = "fc2" }):sum()
end

return fb.script {
  title = "Training steps of a two-layer network in a loop",

  params = {
    steps = fb.int { 8, min = 1, max = 1000000, step = "x2" },
    batch = fb.int { 2, min = 1, max = 4096, step = "x2", help = "rows of x" },
    inputs = fb.int { 255, min = 1, max = 4096 },
    hidden = fb.int { 255, min = 1, max = 4096 },
    outputs = fb.int { 255, min = 1, max = 4096 },
    lr = fb.float { 0.01, help = "how far a step goes down the gradient" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    -- The loop carries the weights and gives back the trained ones.
    carried = function(g, p)
      local x = g:input("x", { p.batch, p.inputs }, p.dtype)
      local W1, b1, W2, b2 = weights(g, p)
      local t1, c1, t2, c2 = g:loop(p.steps, { W1, b1, W2, b2 }, function(_, ...)
        local now, next = { ... }, {}
        for i, slope in ipairs(g:grad(loss_of(x, ...), now)) do next[i] = now[i] - p.lr * slope end
        return table.unpack(next)
      end)
      return { fc1_weight = t1, fc1_bias = c1, fc2_weight = t2, fc2_bias = c2 }
    end,

    -- Each step assigns to the parameters; a fresh batch a step comes from one tensor of all.
    assigned = function(g, p)
      local xs = g:input("xs", { p.steps, p.batch, p.inputs }, p.dtype)
      local W1, b1, W2, b2 = weights(g, p)
      local _, losses = g:scan({ xs }, {}, function(x)
        local loss = loss_of(x, W1, b1, W2, b2)
        optim.sgd(g, loss, { W1, b1, W2, b2 }, { lr = p.lr })
        return {}, { loss }
      end)
      return losses[1]
    end,

    -- The host feeds the batches of all steps and receives the trained weights. Both are copies of every run: with the
    -- plan `overlapped` they go on while the run before and the one after train.
    fed = function(g, p)
      local xs = g:feed("xs", { p.steps, p.batch, p.inputs }, p.dtype)
      local W1, b1, W2, b2 = weights(g, p)
      local trained = g:scan({ xs }, { W1, b1, W2, b2 }, function(x, ...)
        local now, next = { ... }, {}
        for i, slope in ipairs(g:grad(loss_of(x, ...), now)) do next[i] = now[i] - p.lr * slope end
        return next
      end)
      for i, name in ipairs { "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias" } do
        g:receive(trained[i], "saved_" .. name)
      end
    end,

    -- The program as the document of a small autodiff library has it: a net of modules, 0.2 fed in every step, no loss
    -- but the outputs themselves, and the parameters saved at the end. There it runs 1,000 steps (--set steps=1000).
    document = function(g, p)
      local net = nn.Sequential(nn.Linear(p.inputs, p.hidden), nn.Sigmoid(), nn.Linear(p.hidden, p.outputs))
      local opt = optim.SGD(net, { lr = p.lr })
      local feeder = g:feed("feeder", { p.steps, p.batch, p.inputs }, p.dtype, { dist = "constant", value = 0.2 })
      local trained = g:scan({ feeder }, net:parameters(g, p.dtype), function(val, ...)
        local now = { ... }
        return opt:step(net(val, now), now)
      end)
      for i, parameter in ipairs(trained) do g:receive(parameter, "saving_params_" .. i) end
    end,
  },

  plans = {
    overlapped = function(pl) pl:preset("max"):overlap(true) end,
    -- The others are for a GPU only.
    graph = function(pl) pl:preset("max"):launch("graph") end,
    -- One persistent kernel for the whole loop: its products have to be generated for that.
    one_kernel = function(pl)
      pl:preset("max")
      for _, name in ipairs(pl:nodes()) do
        if name:find("matmul") then pl:generate(name) end
      end
      pl:generate("loop")
    end,
  },

  columns = { "carried:eager", "carried:auto", "assigned:auto", "fed:max", "fed:overlapped" },
}
