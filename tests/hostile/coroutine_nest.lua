-- expect: coroutine_nest.lua
local function deeper() coroutine.wrap(deeper)() end
deeper()
