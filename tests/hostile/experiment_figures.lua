-- expect: experiment_figures.lua:5: row: more than 200 different figures
return require "fusebox".script {
  model = function(g) return g:ones({ 1 }):relu() end,
  experiment = function(e)
    for i = 1, 1000 do e:row({}, { ["f" .. i] = i }) end
  end,
}
