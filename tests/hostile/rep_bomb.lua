-- expect: rep_bomb.lua:2: .*(memory|64 MB|too large)
local s = ("x"):rep(1 << 40)
return function(g) return g:input("x", { 1 }) + #s end
