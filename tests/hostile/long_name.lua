-- expect: long_name.lua:3: .*is no name
return function(g)
  return g:input(("x"):rep(65), { 1 }):relu()
end
