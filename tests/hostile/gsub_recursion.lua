-- expect: gsub_recursion.lua
local function f() return (("x"):gsub("x", f)) end
f()
