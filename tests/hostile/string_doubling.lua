-- expect: 64 MB
local s = "x"
while true do s = s .. s end
