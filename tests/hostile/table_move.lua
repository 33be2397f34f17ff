-- expect: ran for|64 MB
table.move({}, 1, 1 << 60, 2)
