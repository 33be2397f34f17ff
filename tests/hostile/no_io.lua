-- expect: no_io.lua:2: .*nil value
io.open("/etc/passwd")
