-- expect: ran for|64 MB|too (large|many)
local t = setmetatable({}, { __len = function() return 1 << 60 end })
table.concat(setmetatable({}, { __len = function() return 1 << 60 end, __index = function() return "" end }))
table.unpack(t)
