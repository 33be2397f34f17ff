-- expect: bytecode.lua:2: there is no variable "load"
load("\27Lua")
