-- expect: endless_loop.lua:2: ran for
while true do end
