-- expect: coroutine_endless.lua:2: ran for
coroutine.wrap(function() while true do end end)()
