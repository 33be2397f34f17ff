-- expect: print_long.lua.*returns
print(("x\n"):rep(1 << 20))
