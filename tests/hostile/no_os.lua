-- expect: no_os.lua:2: there is no variable "os"
os.exit(0)
