-- expect: error_object.lua:2: error\(…\) was called with a table
error({ code = 1 })
