-- expect: lua_recursion.lua:2: .*(overflow|64 MB)
local function f() return 1 + f() end
f()
