-- To fuse or not to fuse? Puzzler 1.
--
-- Both variants normalise 16 features of [1024, 256], take tanh, one linear layer and relu, and compute the same numbers.
-- split_stack cuts the input into features, treats one after the other and stacks the results; combined treats the input
-- as one [16, 1024, 256] tensor. In PyTorch the second is several times faster (8.4 times on the A100 of the puzzler's
-- author). Why?
--
-- Things to try: count the launches of both; fuse `feature[*].tanh` into `stack`; compare the preset `max` of both. With
-- PyTorch at hand, or a recording of it: does the answer stay the same when a CUDA graph does the launching?
--
--     fusebox diff split_stack split_stack:eager@torch combined:eager@torch
--     fusebox diff split_stack split_stack:eager+graph@torch combined:eager+graph@torch
--
-- Puzzler 2, about the same two functions behind torch.compile, is puzzlers/split_stack_compiled.
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "To fuse or not to fuse?",

  params = {
    batch_size = fb.int { 1024, min = 64, max = 16384, step = "x2", help = "rows of a feature" },
    input_dim = fb.int { 256, min = 1, max = 4096, step = "x2", help = "columns of a feature" },
    num_inputs = fb.int { 16, min = 1, max = 256, step = "x2", help = "features" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    split_stack = function(g, p)
      local x = g:input("input_data", { p.num_inputs * p.batch_size * p.input_dim }, p.dtype)
      local norm = {}
      for i, f in ipairs(x:split(p.batch_size * p.input_dim)) do
        g:scope("feature", i, function()
          norm[i] = nn.layer_norm(f:view(p.batch_size, p.input_dim), { eps = 0 }):tanh()
        end)
      end
      return nn.linear(g:stack(norm), 1):relu()
    end,

    combined = function(g, p)
      local x = g:input("input_data", { p.num_inputs * p.batch_size * p.input_dim }, p.dtype)
      local norm = nn.layer_norm(x:view(p.num_inputs, p.batch_size, p.input_dim), { eps = 0 }):tanh()
      return nn.linear(norm, 1):relu()
    end,
  },

  columns = {
    "split_stack:eager@torch", "combined:eager@torch",
    "split_stack:eager", "split_stack:max", "combined:eager", "combined:max",
  },

  plans = {
    -- What eager launches, launched at once: no kernel and no byte less. Only on a GPU.
    eager_graph = function(pl) pl:preset("eager"):launch("graph") end,

    -- Everything whose fusion is predicted to save more than a microsecond.
    greedy = function(pl)
      for e in pl:edges() do
        local v = pl:verdict("fuse", e)
        if v.kind == "fine" and v.saves_us > 1 then pl:fuse(e) end
      end
    end,
  },

  -- How the answer depends on the size of the batch.
  experiment = function(e)
    e:plot { x = "batch_size", y = "us", by = { "variant", "plan" }, log = "xy" }
    for c in e:sweep { plan = { "eager", "max" }, batch_size = "*" } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
  end,

  puzzle = {
    order = 1,
    about = "Two functions, the same numbers: 16 features are normalised, squashed by tanh, and go through one "
      .. "linear layer and relu. split_stack treats one feature after the other and stacks the results; "
      .. "combined treats all of them as one tensor. Both run in PyTorch, eagerly.",
    compare = { "split_stack:eager@torch", "combined:eager@torch" },
    ask = "Why is combined faster?",
    choices = {
      { "dispatch", "It calls the framework less often, and each call costs time on the host before anything is launched.",
        tell = "Most of it is the framework: a CUDA graph would take it away, and no traffic." },
      { "launches", "It launches fewer kernels, so less time goes to launching.",
        tell = "Most of it is launches: a CUDA graph would take them away, and no traffic." },
      { "bytes", "It moves fewer bytes between memory and the processor." },
      { "compute", "It does less arithmetic." },
      { "occupancy", "Its kernels are large enough to keep the device busy." },
    },
    hints = {
      "Compare the launches of the two columns.",
      "Press w: which bar of the waterfall is the longest?",
      "stack copies all 16 features once more. How many bytes is that, and how many are moved altogether?",
      "Put eager+graph@torch beside eager@torch: what has gone, and what is left of the difference?",
    },
    tell = "Both do the same arithmetic. split_stack launches each layer_norm and tanh once a feature and then copies "
      .. "everything to stack it. How much of the difference is launches and how much is bytes and small kernels depends on "
      .. "who launches. The preset `max` removes both, and both variants become the same single kernel.",
  },
}
