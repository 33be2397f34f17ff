-- expect: require_missing.lua:2: require
require "nothing_of_that_name"
