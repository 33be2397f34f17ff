-- expect: stack
return function(g)
  local t = setmetatable({}, { __len = function() return 1 << 60 end, __index = function() return g:ones({ 1 }) end })
  return g:stack(t)
end
