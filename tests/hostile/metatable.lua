-- expect: metatable.lua:4:
return function(g)
  local x = g:input("x", { 4 })
  getmetatable(x).__index = nil
  return x:relu()
end
