-- expect: huge_unbind.lua.*(positions|64 MB|ran for)
return function(g)
  return g:stack(g:input("x", { 1 << 19, 2 }):unbind(0))
end
