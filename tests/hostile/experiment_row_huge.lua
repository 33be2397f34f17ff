-- expect: experiment_row_huge.lua:5: row: [0-9]+ bytes; one has at most 65536
return require "fusebox".script {
  model = function(g) return g:ones({ 1 }):relu() end,
  experiment = function(e)
    e:row({}, { text = ("x"):rep(1 << 20) })
  end,
}
