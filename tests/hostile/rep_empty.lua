-- expect: ran for
local s = string.rep("", 1 << 60)
