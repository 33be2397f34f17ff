-- expect: no_collectgarbage.lua:2: .*collectgarbage
collectgarbage("stop")
