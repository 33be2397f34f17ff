-- expect: experiment_measures.lua:5: measure: the same case was asked for 1000 times, one after the other
return require "fusebox".script {
  model = function(g) return g:ones({ 1 }):relu() end,
  experiment = function(e)
    while true do e:measure({ plan = "max" }) end
  end,
}
