-- expect: tensor_kept.lua:6: .*finished
local fb = require "fusebox"
local kept
return fb.script { variants = {
  a = function(g) if kept then return kept:relu() end kept = g:input("x", { 4 }) return kept:relu() end,
  b = function(g) return kept:relu() end,
} }
