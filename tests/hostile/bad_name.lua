-- expect: bad_name.lua:3: .*is no name
return function(g)
  return g:input("x; system(\"rm\")", { 1 }):relu()
end
