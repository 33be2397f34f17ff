-- expect: experiment_endless.lua:4: ran for
return require "fusebox".script {
  model = function(g) return g:ones({ 1 }):relu() end,
  experiment = function() while true do end end,
}
