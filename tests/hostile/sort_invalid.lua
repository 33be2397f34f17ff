-- expect: sort_invalid.lua
local t = {}
for i = 1, 100000 do t[i] = i end
while true do table.sort(t, function() return true end) end
