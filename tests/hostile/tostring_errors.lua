-- expect: tostring_errors.lua:2: no
local t = setmetatable({}, { __tostring = function() error("no") end })
print(t)
