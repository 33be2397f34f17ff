-- options("linear", given, { bias = true, name = true }): what was given, or nothing; a name that is not known is an error,
-- told as the caller's own.
return function(what, given, known)
  for key in pairs(given or {}) do
    if not known[key] then error(what .. ": unknown option \"" .. tostring(key) .. "\"", 0) end
  end
  return given or {}
end
