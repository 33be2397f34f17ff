-- expect: parameter p5000: 2 is more than 1
local fb = require "fusebox"
local params = {}
for i = 1, 5000 do params["p" .. i] = fb.int { i < 5000 and 1 or 2, max = 1 } end
return fb.script { model = function(g) return g:ones({ 1 }) end, params = params }
