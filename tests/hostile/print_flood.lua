-- expect: ran for
while true do print("x") end
