-- One step of an optimiser, as PyTorch's: gradients, new values, and their assignment to the parameters.
--
-- Nothing is updated in place here: the new value becomes the parameter's when the run (or a loop's step) ends, and
-- everything else of the run reads the old one. What an optimiser remembers is a parameter too, named after the one it
-- belongs to, that starts with zeros. State and arithmetic of f16 and bf16 parameters are f32.
local options = require "options"
local optim = {}

local function number(what, opts, key, otherwise)
  local value = opts[key]
  if value == nil then value = otherwise end
  if type(value) ~= "number" then error(("%s: %s is a %s, not a number"):format(what, key, type(value)), 0) end
  return value
end

local function wide(dtype) return (dtype == "f16" or dtype == "bf16") and "f32" or dtype end

local function to(x, dtype) return x.dtype == dtype and x or x:to(dtype) end

-- A parameter of zeros beside p: feature[3].weight remembers weight_momentum.
local function state(g, p, what)
  local own = p.name:match("[%w_]+$"):sub(1, 60 - #what)
  return g:param(own .. "_" .. what, p.shape, wide(p.dtype), { dist = "constant", value = 0 })
end

-- update(p, gradient) is what is taken away from p, in p's wide dtype. The gradients fold under `backward`
-- (opts.through says how they go back through loops, as in g:grad), what follows under the optimiser's name.
-- `carried`: the params are values of a loop, to which nothing is assigned.
local function step(g, name, loss, params, opts, decay, prepare, update, carried)
  if type(params) ~= "table" then params = { params } end
  local gradients = g:scope("backward", function() return g:grad(loss, params, opts.through) end)
  return g:scope(name, function()
    prepare()
    local after = {}
    for i, p in ipairs(params) do
      local value, gradient = to(p, wide(p.dtype)), to(gradients[i], wide(p.dtype))
      if decay ~= 0 then gradient = gradient + decay * value end
      after[i] = to(value - update(p, gradient), p.dtype)
      if not carried then g:assign(p, after[i]) end
    end
    return after
  end)
end

-- p - lr v, where v = gradient + weight_decay p, or momentum times the last v and that.
function optim.sgd(g, loss, params, opts, carried)
  opts = options("sgd", opts, { lr = true, momentum = true, weight_decay = true, name = true, through = true })
  local lr, momentum = number("sgd", opts, "lr"), number("sgd", opts, "momentum", 0)
  local decay = number("sgd", opts, "weight_decay", 0)
  if carried and momentum ~= 0 then
    error("sgd: momentum is kept beside parameters, and these are a loop's values", 0)
  end
  local function update(p, gradient)
    if momentum == 0 then return lr * gradient end
    local v = state(g, p, "momentum")
    local next_v = momentum * v + gradient
    g:assign(v, next_v)
    return lr * next_v
  end
  return step(g, opts.name or "sgd", loss, params, opts, decay, function() end, update, carried)
end

-- p - lr m' / (sqrt v' + eps): m and v are running means of the gradient and its square, m' and v' freed of the zeros
-- that they started with.
function optim.adam(g, loss, params, opts, carried)
  local known = { lr = true, betas = true, eps = true, weight_decay = true, name = true, through = true }
  opts = options("adam", opts, known)
  if carried then error("adam: its means are kept beside parameters, and these are a loop's values", 0) end
  local betas = opts.betas or {}
  local beta_m, beta_v = number("adam", betas, 1, 0.9), number("adam", betas, 2, 0.999)
  local lr, eps = number("adam", opts, "lr", 1e-3), number("adam", opts, "eps", 1e-8)
  local left_m, left_v -- of the zeros: beta to the power of the step
  local function prepare()
    local count = g:param("step", {}, "f32", { dist = "constant", value = 0 })
    local now = count + 1
    g:assign(count, now)
    left_m, left_v = beta_m ^ now, beta_v ^ now
  end
  local function update(p, gradient)
    local m, v = state(g, p, "mean"), state(g, p, "square")
    local next_m = beta_m * m + (1 - beta_m) * gradient
    local next_v = beta_v * v + (1 - beta_v) * gradient * gradient
    g:assign(m, next_m)
    g:assign(v, next_v)
    local mean, square = next_m / (1 - to(left_m, m.dtype)), next_v / (1 - to(left_v, v.dtype))
    return lr * mean / (square:sqrt() + eps)
  end
  local decay = number("adam", opts, "weight_decay", 0)
  return step(g, opts.name or "adam", loss, params, opts, decay, prepare, update, carried)
end

-- ---- in PyTorch's names ----
--
-- opt = optim.SGD(net, { lr = 0.01 }) of a module or a list of parameters; opt:step(loss) assigns the new values to them.
-- In a loop that carries the values, opt:step(loss, values) gives the next ones instead. A loss that is no scalar is summed,
-- which is what backward() with a gradient of ones does. No gradient is left over to be zeroed.
local function stepper(update, of, opts)
  local optimiser = {}
  function optimiser:step(loss, values)
    if #loss.shape > 0 then loss = loss:sum() end
    return update(loss.graph, loss, values or (of.parameters and of:parameters() or of), opts, values ~= nil)
  end
  return optimiser
end

function optim.SGD(of, opts) return stepper(optim.sgd, of, opts) end
function optim.Adam(of, opts) return stepper(optim.adam, of, opts) end

return optim
