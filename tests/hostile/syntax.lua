-- expect: syntax.lua:3: .*near
local x = 1
local local = 2
