-- expect: memory_bomb.lua.* used more than 64 MB
local t = {}
for i = 1, 1 << 40 do t[i] = { i } end
