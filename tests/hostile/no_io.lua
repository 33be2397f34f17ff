-- expect: no_io.lua:2: there is no variable "io"
io.open("/etc/passwd")
