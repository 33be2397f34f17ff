-- expect: experiment_rows_huge.lua:6: row: an experiment's rows have at most 4194304 bytes together
return require "fusebox".script {
  model = function(g) return g:ones({ 1 }):relu() end,
  experiment = function(e)
    local text = ("x"):rep(60000)
    for i = 1, 1000 do e:row({}, { text = text }) end
  end,
}
