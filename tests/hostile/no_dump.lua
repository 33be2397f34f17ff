-- expect: no_dump.lua:2: .*dump
string.dump(print)
