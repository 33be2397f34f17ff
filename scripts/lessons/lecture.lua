local fb = require "fusebox"
return fb.lesson { title = "stub", pages = { fb.page { title = "x", script = "split_stack", keys = "Tab j" } } }
