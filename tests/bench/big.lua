-- 20,000 nodes in layers that do not repeat each other, for the benchmark of the workbench's keys.
local fb = require "fusebox"

return fb.script {
  title   = "20,000 nodes",
  params  = { layers = fb.int { 2000, min = 1, max = 5000 } },
  model   = function(g, p)
    local x = g:input("x", { 64, 64 })
    for l = 1, p.layers do
      g:scope("layer_" .. l, function()
        for _ = 1, 5 do x = x:relu():tanh() end
      end)
    end
    return x
  end,
  columns = { "none" },
}
