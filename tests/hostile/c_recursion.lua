-- expect: c_recursion.lua:2: .*(too complex|ran for)
local _ = ("x"):rep(300000):match(("(.-)"):rep(20) .. ("x?"):rep(100000) .. "y")
