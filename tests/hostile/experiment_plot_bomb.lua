-- expect: experiment_plot_bomb.lua:5: plot: an experiment gives at most 20000 rows and plots
return require "fusebox".script {
  model = function(g) return g:ones({ 1 }):relu() end,
  experiment = function(e)
    while true do e:plot { x = "n", y = "us" } end
  end,
}
