-- expect: ran for
local _ = ("a"):rep(3000):find(("a-"):rep(30) .. "b")
