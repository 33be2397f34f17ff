-- expect: require_up.lua:2: require
require "../../etc/passwd"
