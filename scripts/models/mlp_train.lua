-- A training step of a small network: two layers of 255, a batch of 2, stochastic gradient descent.
--
-- Forward, backward and update are one graph, so that the update of a weight can share a kernel with its gradient: a
-- weight is then read once and written once, and the gradient is never stored. With a batch of 2 there is hardly any
-- arithmetic, the step is all launches and weights. How many launches does `eager` need, how many `auto`?
--
-- by_hand uses what differentiation does not look for: the gradient of a sum is 1 everywhere, so the products with it
-- are sums. How much of that does the batch size hide?
local fb, nn, optim = require "fusebox", require "nn", require "optim"

-- The input and the weights [out, in] with their biases, as nn.Linear starts them.
local function operands(g, p)
  local function layer(name, outputs, inputs)
    local bound = { low = -1 / math.sqrt(inputs), high = 1 / math.sqrt(inputs) }
    local W = g:param(name .. "_weight", { outputs, inputs }, p.dtype, bound)
    return W, g:param(name .. "_bias", { outputs }, p.dtype, bound)
  end
  local W1, b1 = layer("fc1", p.hidden, p.inputs)
  local W2, b2 = layer("fc2", p.outputs, p.hidden)
  return g:feed("x", { p.batch, p.inputs }, p.dtype), W1, b1, W2, b2
end

return fb.script {
  title = "A training step of a two-layer network",

  params = {
    batch = fb.int { 2, min = 1, max = 4096, step = "x2", help = "rows of x" },
    inputs = fb.int { 255, min = 1, max = 4096 },
    hidden = fb.int { 255, min = 1, max = 4096 },
    outputs = fb.int { 255, min = 1, max = 4096 },
    lr = fb.float { 0.01, help = "how far a step goes down the gradient" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    -- The gradients come from the graph: what autograd does.
    grad = function(g, p)
      local x, W1, b1, W2, b2 = operands(g, p)
      local h = nn.addmm(b1, x, W1:t(), { name = "fc1" }):sigmoid()
      local loss = nn.addmm(b2, h, W2:t(), { name = "fc2" }):sum()
      optim.sgd(g, loss, { W1, b1, W2, b2 }, { lr = p.lr })
      return loss
    end,

    -- The gradient of fc2's output is 1 everywhere, and nothing is multiplied by it.
    by_hand = function(g, p)
      local x, W1, b1, W2, b2 = operands(g, p)
      local h = nn.addmm(b1, x, W1:t(), { name = "fc1" }):sigmoid()
      local loss = nn.addmm(b2, h, W2:t(), { name = "fc2" }):sum()
      local dz = h * (1 - h) * W2:sum(0)
      g:assign(W1, W1 - p.lr * dz:t():matmul(x))
      g:assign(b1, b1 - p.lr * dz:sum(0))
      g:assign(W2, W2 - p.lr * h:sum(0, true))
      g:assign(b2, b2 - p.lr * p.batch)
      return loss
    end,
  },

  columns = { "grad:eager", "grad:auto", "by_hand:auto" },
}
