-- What frameworks are tried with, for tests/cli/frameworks.sh and tests/cli/torch.sh.
local fb, nn = require "fusebox", require "nn"

return fb.script {
  title = "layers of frameworks",
  params = { ones = fb.bool { false, help = "inputs of loop and train are ones, so that results can be told by hand" } },
  variants = {
    layers = function(g)
      local x = g:input("x", { 6, 12 }, "f32", { dist = "normal" })
      local y = nn.silu(nn.linear(nn.layer_norm(x, { affine = true }), 8))
      return nn.softmax(nn.addmm(g:param("b", { 5 }), y, g:param("w", { 8, 5 })), 0), x:clamp(-1, 1):cumsum(1):flip({ 0 })
    end,
    attention = function(g)
      local function of(name) return g:input(name, { 2, 3, 5, 8 }, "f32", { dist = "normal" }) end
      return nn.attention(of("q"), of("k"), of("v"), { mask = g:input("mask", { 5, 5 }) })
    end,
    lstm = function(g)
      local xs = g:input("x", { 4, 3, 6 }, "f32", { dist = "normal" })
      local h = g:zeros({ 3, 5 })
      local weights = nn.lstm_weights(xs:unbind(0)[1], h)
      local _, ys = g:scan({ xs }, { h, h }, function(x, h, c)
        local h1, c1 = nn.lstm_cell(x, h, c, { weights = weights })
        return { h1, c1 }, { h1 }
      end)
      return ys[1]
    end,
    norms = function(g)
      local x = g:input("x", { 2, 6, 5, 4 }, "f32", { dist = "normal" })
      return nn.batch_norm(x), nn.group_norm(x, 3), nn.batch_norm(x, { affine = false, name = "plain" })
    end,
    gru = function(g)
      local h = g:input("h", { 3, 5 })
      return nn.gru_cell(g:input("x", { 3, 6 }), h)
    end,
    gather = function(g)
      local index = g:input("index", { 7 }, "i64", { dist = "integer", low = 0, high = 9 })
      local rows = nn.embedding(index, 9, 4)
      return rows:amax(1), rows:index_add(index, 9), index:sum(), (index % 4):argmax(0)
    end,
    -- Ranks: equals by their place; NaN (of the logarithm of -1) is the largest; infinities; 0 and -0 are equal.
    order = function(g)
      local function whole(name, dtype) return g:input(name, { 4, 21, 3 }, dtype, { dist = "integer", low = -1, high = 4 }) end
      local x, all = whole("x", "f32"), {}
      for _, largest in ipairs { false, true } do
        for _, t in ipairs { x:log(), -x:log(), x * 0, whole("i", "i32"), whole("l", "i64"), whole("h", "f16"), whole("d", "f64") } do
          all[#all + 1] = t:rank(1, largest)
        end
      end
      all[#all + 1] = x:rank(-1, true)
      return table.unpack(all)
    end,
    scan = function(g)
      local x = g:input("xs", { 5, 3 }, "f32", { dist = "normal" })
      local last, all = g:scan({ x }, { g:zeros({ 3 }) }, function(item, sum)
        local next = sum * 0.5 + item:tanh()
        return { next }, { next * 2 }
      end)
      return last[1], all[1]
    end,
    loop = function(g, p)
      local y = g:input("y", { 2 }, "f32", p.ones and { dist = "constant", value = 1 } or {})
      return g:loop(3, { y }, function(step, a) return a * 0.5 + step:to("f32") end)
    end,
    train = function(g, p)
      local dist = p.ones and { dist = "constant", value = 1 } or {}
      local w, x = g:param("w", { 4, 4 }, "f32", dist), g:input("x", { 2, 4 }, "f32", dist)
      g:loop(3, {}, function() g:assign(w, w - 0.1 * x:t():matmul(x:matmul(w))) end)
      return w:sum()
    end,
    half = function(g)
      local x = g:input("x", { 8, 32 }, "f16", { dist = "normal" })
      return nn.layer_norm(x):gelu(), (x * 0.1 + 1):rsqrt()
    end,
  },
}
