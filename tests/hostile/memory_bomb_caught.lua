-- expect: ran for|64 MB
local keep = {}
while true do
  pcall(function() for i = 1, 1 << 40 do keep[#keep + 1] = ("x"):rep(1 << 16) .. i end end)
  keep = {}
end
