-- expect: bytecode.lua:2: attempt to call a nil value .*load
load("\27Lua")
