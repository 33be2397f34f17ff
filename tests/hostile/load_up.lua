-- expect: load_up.lua:3: load
return function(g)
  return g:load("x", "../../../../etc/passwd.csv"):relu()
end
