-- DLRM, a recommendation model whole: 13 counts and 26 categories of a shown advertisement → the chance of a click.
--
-- A dense MLP 13-512-256-64-16 takes the counts, 26 embeddings of 16 take the categories, an interaction multiplies the 27
-- vectors with each other, and a top MLP 512-256-1 with a sigmoid judges. Hardly any arithmetic and very many small
-- ops: 26 hashes, 26 look-ups, a stack. How many launches are left of them in each preset?
--
--     pairwise  all 351 dot products of two of the 27 vectors (DLRM's own interaction)
--     outer     every element times every element, 432 × 432, into a small MLP: the lecture's first version. What does
--               that matrix cost in bytes, and what if the product that reads it takes it in as it is made?
--     lecture   outer as the lecture has it: counts as they are, a dense MLP 13-32-16, ids looked up in a vocabulary, tables
--               of the sizes that Criteo's categories have (none above `rows`)
--     train     a step of training with pairwise: gradients of the tables, too, are scatter-adds into whole tables
--
-- hash = index_match compares each id with the vocabulary of its table, `rows` comparisons an id, as the lecture's first
-- model did; modulus, (id + 1) % rows, is what it was replaced by. Compare both in `none` and in `auto`.
--
-- data = csv and npy take two rows of the Criteo data set from files beside this script; the batch is then 2.
local fb, nn, optim = require "fusebox", require "nn", require "optim"

local dense_features, sparse_features = 13, 26

-- How many different ids the 26 categories of the Kaggle data set have.
local categories = { 1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306,
                     10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572 }

local function column_names(prefix, n)
  local names = {}
  for i = 1, n do names[i] = prefix .. "_" .. i end
  return names
end

local function from_files(g, p)
  local dense = g:load("dense", "criteo.csv", { columns = column_names("dense", dense_features), dtype = p.dtype })
  local ids = { columns = column_names("sparse", sparse_features), dtype = "i64" }
  return dense, p.data == "npy" and g:load("sparse", "criteo_sparse.npy") or g:load("sparse", "criteo.csv", ids)
end

-- The counts [B, 13], which DLRM takes as log(1 + count), and the ids [B, 26].
local function features(g, p)
  if p.data == "random" then
    local high = p.hash == "modulus" and 2147483648 or p.rows
    return g:input("dense", { p.batch, dense_features }, p.dtype),
      g:input("sparse", { p.batch, sparse_features }, "i64", { dist = "integer", high = high })
  end
  local dense, sparse = from_files(g, p)
  return (dense + 1):log(), sparse
end

-- A chain of linear layers, whose weights go to the list `weights`; relu between them, and after the last if `all`. Weights
-- are drawn small, so that the errors of seven layers stay small enough for a check to mean something.
local function mlp(g, x, sizes, weights, all)
  for i, out in ipairs(sizes) do
    local inputs = x.shape[#x.shape]
    local bound = 4 / inputs
    local W = g:param("fc" .. i .. "_weight", { out, inputs }, x.dtype, { low = -bound, high = bound })
    local b = g:param("fc" .. i .. "_bias", { out }, x.dtype, { low = -bound, high = bound })
    weights[#weights + 1], weights[#weights + 2] = W, b
    x = nn.linear(x, out, { weight = W, bias = b, name = "fc" .. i })
    if all or i < #sizes then x = x:relu() end
  end
  return x
end

-- The row of a table that an id stands for.
local function index(g, p, id, i)
  if p.hash == "modulus" then return (id + 1) % p.rows end
  local vocabulary = g:param("vocabulary", { p.rows }, "i64", { dist = "integer", high = p.rows })
  return id:unsqueeze(1):eq(vocabulary):to("i32"):argmax(1) -- the first that matches; none: row 0
end

-- The dense vector and the 26 embeddings, 27 of [B, size].
local function vectors(g, p, weights)
  local dense, sparse = features(g, p)
  local all = { g:scope("dense_arch", function() return mlp(g, dense, { 512, 256, 64, p.size }, weights, true) end) }
  for i, id in ipairs(sparse:unbind(1)) do
    g:scope("sparse_arch", i, function()
      local row = g:scope("hash", function() return index(g, p, id) end)
      local table = g:param("table", { p.rows, p.size }, p.dtype, { dist = "normal", std = 0.5 })
      weights[#weights + 1] = table
      all[i + 1] = table:embedding(row)
    end)
  end
  return all
end

-- Products of two different ones, each pair once: the lower triangle of z zᵀ, row by row, behind the dense vector.
local function pairwise(g, all)
  return g:scope("interaction", function()
    local z = g:stack(all, 1)
    local products, parts = z:matmul(z:transpose(1, 2)), { all[1] }
    for i = 1, #all - 1 do parts[i + 1] = products:select(1, i):slice(1, 0, i) end
    return g:cat(parts, 1)
  end)
end

local function predict(g, p, weights)
  local x = pairwise(g, vectors(g, p, weights))
  return g:scope("prediction", function() return mlp(g, x, { 512, 256, 1 }, weights) end)
end

-- The lecture's model looks each id up in the vocabulary of its category; the row where it stands is the table's. Of data
-- from files the vocabulary is the ids that occur there; random ids are drawn from a vocabulary of 32-bit hashes.
local function lecture(g, p)
  local dense, sparse
  if p.data == "random" then
    dense = g:input("dense", { p.batch, dense_features }, "i32", { dist = "integer", high = 100 }):to(p.dtype)
  else
    dense, sparse = from_files(g, p)
  end
  local all = { g:scope("dense_arch", function() return mlp(g, dense, { 32, p.size }, {}) end) }
  for i = 1, sparse_features do
    g:scope("sparse_arch", i, function()
      local rows, vocabulary, id = math.min(categories[i], p.rows), nil, nil
      if sparse then
        id = sparse:select(1, i - 1)
        vocabulary, rows = id, math.max(rows, id.shape[1])
      else
        vocabulary = g:param("vocabulary", { rows }, "i64", { dist = "integer", high = 4294967296 })
        local drawn = g:input("drawn", { p.batch }, "i64", { dist = "integer", high = rows })
        id = vocabulary:unsqueeze(1):embedding(drawn):squeeze(1)
      end
      local row = g:scope("hash", function() return id:unsqueeze(1):eq(vocabulary):to("i32"):argmax(1) end)
      all[i + 1] = g:param("table", { rows, p.size }, p.dtype, { dist = "normal" }):embedding(row)
    end)
  end
  local x = g:cat(all, 1)
  local products = g:scope("interaction", function()
    return x:unsqueeze(2):matmul(x:unsqueeze(1)):view(x.shape[1], x.shape[2] * x.shape[2])
  end)
  return g:scope("prediction", function() return mlp(g, products, { p.hidden, 1 }, {}) end):sigmoid()
end

return fb.script {
  title = "DLRM: a recommendation model, forward and a training step",

  params = {
    batch = fb.int { 128, min = 1, max = 65536, step = "x2", help = "rows of random data" },
    rows = fb.int { 1000, min = 1, max = 10000000, step = "x10", help = "of each of the 26 tables" },
    size = fb.int { 16, min = 1, max = 256, step = "x2", help = "of an embedding" },
    hidden = fb.int { 16, min = 1, max = 1024, step = "x2", help = "of the small MLP behind the outer product" },
    hash = fb.choice { "modulus", "index_match", help = "how an id becomes a row of its table" },
    data = fb.choice { "random", "csv", "npy", help = "csv, npy: two rows of Criteo" },
    lr = fb.float { 0.1, help = "how far a step goes down the gradient" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    pairwise = function(g, p) return predict(g, p, {}):sigmoid() end,

    outer = function(g, p)
      local weights = {}
      local x = g:cat(vectors(g, p, weights), 1)
      local products = g:scope("interaction", function()
        return x:unsqueeze(2):matmul(x:unsqueeze(1)):view(x.shape[1], x.shape[2] * x.shape[2])
      end)
      return g:scope("prediction", function() return mlp(g, products, { p.hidden, 1 }, weights) end):sigmoid()
    end,

    lecture = lecture,

    -- Binary cross entropy of the logit z: log(1 + exp z) - z clicked.
    train = function(g, p)
      local weights = {}
      local z = predict(g, p, weights)
      local clicked = g:input("clicked", z.shape, "i32", { dist = "integer", high = 2 }):to(p.dtype)
      local loss = ((z:exp() + 1):log() - z * clicked):mean()
      optim.sgd(g, loss, weights, { lr = p.lr })
      return loss
    end,
  },

  columns = { "pairwise:eager", "pairwise:auto", "outer:eager", "outer:auto", "train:eager", "train:auto" },

  plans = { -- on a GPU only
    max_graph = function(pl) pl:preset("max"):launch("graph") end,
  },

  experiment = function(e)
    e:plot { x = "batch", y = "us", by = { "hash", "plan" }, log = "xy" }
    for c in e:sweep { variant = "pairwise", plan = { "eager", "max" }, hash = "*", batch = { 128, 512, 2048 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
  end,
}
