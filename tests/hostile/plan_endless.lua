-- expect: plan_endless.lua:4: ran for
return require "fusebox".script {
  model = function(g) return g:input("x", { 4 }):relu() end,
  plans = { p = function() while true do end end },
}
