-- expect: tostring_in_error.lua:2: error
error(setmetatable({}, { __tostring = function() while true do end end }))
