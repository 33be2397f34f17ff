-- expect: error_nil.lua:2: error\(…\) was called with a nil
error(nil)
