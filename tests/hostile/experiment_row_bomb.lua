-- expect: experiment_row_bomb.lua:5: row: an experiment gives at most 20000 rows and plots
return require "fusebox".script {
  model = function(g) return g:ones({ 1 }):relu() end,
  experiment = function(e)
    for i = 1, 1e9 do e:row({ plan = "max" }, { us = i }) end
  end,
}
