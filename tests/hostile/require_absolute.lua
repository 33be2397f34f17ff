-- expect: require_absolute.lua:2: require
require "/etc/passwd"
