-- expect: no_debug.lua:2: there is no variable "debug"
debug.sethook()
