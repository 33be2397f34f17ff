-- expect: nest more than 32 deep
local fb = require "fusebox"
local t = {}
t[1] = t
return fb.script { model = function(g) return g:ones({ 1 }) end, columns = t }
