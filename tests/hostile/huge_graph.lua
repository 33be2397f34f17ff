-- expect: huge_graph.lua.*(64 MB|nodes|ran for)
return function(g)
  local x = g:input("x", { 4 })
  while true do x = x + 1 end
end
