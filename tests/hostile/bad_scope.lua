-- expect: bad_scope.lua:3: .*is no name
return function(g)
  return g:scope("a.b", function() return g:ones({ 1 }):relu() end)
end
