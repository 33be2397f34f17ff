-- To fuse or not to fuse? Puzzler 2: the two functions of puzzlers/split_stack behind torch.compile.
--
-- On the A100 of the puzzler's author, the compiled split_stack is 2.5 times and the compiled combined 10.3 times as fast as
-- the uncompiled split_stack. So one compiler, given two functions that compute the same numbers, still makes one of them
-- several times slower than the other. Why?
--
-- The plan `compiled` comes as near as kernels here can to what the compiler makes of each: layer_norm and tanh of a
-- feature in one kernel, the stack, the linear layer with relu. (The compiler's kernels write their own slices of the
-- stack, so that it costs no bytes; the launches are as many.) The compiler does not see that the 16
-- kernels are one kernel over 16 features: it fuses along edges, and no edge connects two features. `max` starts from
-- `stack`, whose access map says which feature an element comes from, and ends with one kernel for either variant.
--
--     fusebox diff split_stack_compiled split_stack:compile@torch combined:compile@torch
--     fusebox diff split_stack_compiled split_stack:compiled split_stack:max
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "To fuse or not to fuse, compiled?",

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
    "split_stack:compile@torch", "combined:compile@torch",
    "split_stack:compiled", "combined:compiled", "split_stack:max", "combined:max",
  },

  plans = {
    -- One kernel a feature; stack stays a copy, because a kernel here writes whole tensors.
    compiled = function(pl)
      pl:preset("eager")
      for e, from, to in pl:edges() do
        local norm, tanh = from:match("layer_norm"), to:match("tanh$")
        if norm and tanh or from:match("^linear") and to == "relu" then
          if pl:verdict("fuse", e).kind == "fine" then pl:fuse(e) end
        end
      end
    end,
  },

  puzzle = {
    order = 2,
    about = "The two functions of puzzle 1 behind a compiler: layer_norm and tanh of a feature share a kernel, "
      .. "linear and relu another. split_stack still treats one feature after the other, combined all of them "
      .. "as one tensor.",
    compare = { "split_stack:compiled", "combined:compiled" },
    ask = "Both are compiled. Why is combined still faster?",
    choices = {
      { "dispatch", "What is compiled still runs in the framework, which takes time for every kernel." },
      { "launches", "split_stack still launches a kernel a feature." },
      { "bytes", "split_stack still copies what it stacks." },
      { "compute", "The compiler recomputes something in split_stack." },
      { "occupancy", "One kernel of 16 features fills the device; a kernel of one feature does not." },
    },
    hints = {
      "Count the launches of both. Which 16 does split_stack have more?",
      "stack is a copy of its own here. How much of the difference is its bytes, and how much the 16 launches?",
      "Where PyTorch was recorded, put compile+graph@torch of both beside: launching costs next to nothing there. Are "
        .. "they equal?",
    },
    tell = "Vertical fusion, along an edge, is what the compiler did: layer_norm with tanh. What split_stack needs is "
      .. "horizontal fusion: the same code over 16 features, in one launch that is large enough to fill the device. In "
      .. "combined the user has done that already by writing a tensor with one more dimension.",
  },
}
