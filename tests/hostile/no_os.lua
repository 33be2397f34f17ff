-- expect: no_os.lua:2: .*nil value
os.exit(0)
