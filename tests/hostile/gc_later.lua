-- expect: gc_later.lua.*returns
local m = {}
setmetatable({}, m)
m.__gc = function() while true do end end
for i = 1, 100000 do local _ = { i } end
