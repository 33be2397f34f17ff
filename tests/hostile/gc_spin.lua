-- expect: gc_spin.lua:2: .*__gc
setmetatable({}, { __gc = function() while true do end end })
