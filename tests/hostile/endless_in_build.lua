-- expect: endless_in_build.lua:4: ran for
return function(g)
  local i = 0
  while true do i = i + 1 end
end
