-- expect: huge_tensor.lua:3: .*more than
return function(g)
  return g:input("x", { 1 << 30, 1 << 30 }):relu()
end
