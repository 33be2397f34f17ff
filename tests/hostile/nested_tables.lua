-- expect: nest more than 32 deep
local fb = require "fusebox"
local t = {}
local deep = t
for _ = 1, 100000 do deep.x = {} deep = deep.x end
return fb.script { model = function(g) return g:ones({ 1 }) end, puzzle = { compare = t } }
