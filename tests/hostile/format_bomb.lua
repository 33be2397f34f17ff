-- expect: ran for|64 MB|invalid
local t = {}
for i = 1, 1 << 40 do t[i] = ("%99.99f"):format(1e308) end
