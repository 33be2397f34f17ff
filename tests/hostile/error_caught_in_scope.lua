-- expect: caught an error
return function(g)
  local x = g:input("x", { 4 })
  pcall(g.scope, g, "s", function() error("here") end)
  return x:relu()
end
