-- expect: no_debug.lua:2: .*nil value
debug.sethook()
