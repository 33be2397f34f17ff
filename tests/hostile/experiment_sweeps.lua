-- expect: experiment_sweeps.lua:5: measure: an experiment measures at most 20000 times
return require "fusebox".script {
  model = function(g) return g:ones({ 1 }):relu() end,
  experiment = function(e)
    for i = 1, 1e9 do e:measure({ plan = "max", params = { n = i } }) end
  end,
}
