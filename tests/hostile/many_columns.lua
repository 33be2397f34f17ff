-- expect: many_columns.lua: columns has 20000 entries; there may be 1000
local columns = {}
for i = 1, 20000 do columns[i] = "max" end
return require "fusebox".script { model = function(g) return g:ones({ 1 }) end, columns = columns }
