-- An optimiser inside of a gradient.
--
-- dW = dyᵀ x is the gradient of a layer's weights: as large as the weights, and nobody but the optimiser reads it. A
-- framework computes all gradients, then lets the optimiser walk over all parameters, so dW is written out, kept, and
-- read again.
--
-- The plan `apart` leaves the product to itself (a library's, where there is one) and takes the step W - lr dW in the
-- next kernel; `inside` takes the step where the product's sums are, so that dW is never stored. With a small batch
-- there is little arithmetic in an element of dW. What happens to the comparison when `batch` grows?
--
--     fusebox diff optimiser apart inside
local fb, optim = require "fusebox", require "optim"

return fb.script {
  title = "An optimiser inside of a gradient",

  params = {
    batch = fb.int { 16, min = 1, max = 8192, step = "x4", help = "rows of x: the length of the product's sums" },
    inputs = fb.int { 4096, min = 1, max = 16384, step = "x2" },
    outputs = fb.int { 4096, min = 1, max = 16384, step = "x2" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  model = function(g, p)
    local x = g:input("x", { p.batch, p.inputs }, p.dtype, { dist = "normal" })
    local dy = g:input("dy", { p.batch, p.outputs }, p.dtype, { dist = "normal" })
    local W = g:param("W", { p.outputs, p.inputs }, p.dtype, { low = -0.02, high = 0.02 })
    -- The loss whose gradient at the layer's output is dy.
    optim.sgd(g, (x:matmul(W:t()) * dy):sum(), { W }, { lr = 1e-3 })
  end,

  columns = { "eager", "apart", "inside" },

  plans = {
    -- The product alone, the optimiser in one kernel after it.
    apart = function(pl)
      pl:preset("max")
      pl:isolate("backward.matmul")
      for e, from, to in pl:edges() do
        if from:match("^sgd") and to:match("^sgd") and pl:verdict("fuse", e).kind == "fine" then pl:fuse(e) end
      end
    end,
    inside = function(pl) pl:preset("max") end,
  },

  experiment = function(e)
    for c in e:sweep { plan = { "apart", "inside" }, batch = { 1, 16, 64, 256, 1024 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
    e:plot { x = "batch", y = "us", by = "plan", log = "xy" }
  end,

  puzzle = {
    order = 14,
    about = "A step of gradient descent for one layer of 4096 × 4096 weights and a batch of 16. apart computes the "
      .. "gradient, stores it, and takes the step in another kernel; inside takes the step where the gradient is "
      .. "computed.",
    compare = { "apart", "inside" },
    premise = "differs",
    ask = "The product and the step are the same. What decides between the two here?",
    choices = {
      { "bytes", "Bytes that inside saves: the gradient is neither written nor read.", saves = "bytes",
        tell = "apart moves four tensors of the size of W: the gradient out and in, W in and out. inside moves "
          .. "two." },
      { "launches", "Launches that inside saves.", saves = "launches" },
      { "slower", "Arithmetic: a product that somebody generated is slower than the library's.", costs = "compute",
        tell = "With sums this long, or a library this good, what the product loses outweighs what the step saves." },
      { "faster", "Arithmetic that inside saves.", saves = "compute",
        tell = "A library's kernels are made for long sums; over a batch this small theirs is the slower product." },
    },
    hints = {
      "How large is dW, beside x and dy?",
      "Compare `moved`: how many times 67 MB?",
      "Set `batch` to 1024. Which of the two plans does the product get worse in, and what has become of the "
        .. "bytes?",
    },
    tell = "A gradient that is used at once need not exist. That saves a pass over memory, and the memory itself: "
      .. "frameworks call it an optimiser in the backward pass. It is bought with freedom: whoever wants to clip "
      .. "by the norm of all gradients, or to add up those of several batches, must have them first.",
  },
}
