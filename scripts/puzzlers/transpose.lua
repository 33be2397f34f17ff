-- Access order: the same bytes and the same arithmetic, read along rows or across them.
--
-- straight adds two matrices. crossed adds a matrix and the transpose of another: neighbours of the result lie a whole row
-- apart in y. A view costs nothing to write down, and no plan will show a copy; who pays for it? Left alone, fusebox turns
-- y square by square in shared memory; plan `by_element` reads it element by element. copied writes the transpose out
-- first (`none` and `eager` keep the copy).
--
-- Sums do it without any view: by_row adds up what lies side by side, by_column what lies a row apart.
local fb = require "fusebox"

local function matrices(g, p)
  return g:input("x", { p.rows, p.columns }, p.dtype), g:input("y", { p.columns, p.rows }, p.dtype)
end

return fb.script {
  title = "Transposes: the order of access",

  params = {
    rows = fb.int { 1024, min = 1, max = 32768, step = "x2" },
    columns = fb.int { 1024, min = 1, max = 32768, step = "x2" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    straight = function(g, p)
      local x, y = matrices(g, p)
      return x + y:view(p.rows, p.columns)
    end,

    crossed = function(g, p)
      local x, y = matrices(g, p)
      return x + y:t()
    end,

    -- cat cannot be a view: with one operand it is a copy that a plan may keep or fold.
    copied = function(g, p)
      local x, y = matrices(g, p)
      local half = p.rows // 2
      return x + g:cat({ y:t():slice(0, 0, half), y:t():slice(0, half) }, 0)
    end,

    by_row = function(g, p) return matrices(g, p):sum(1) end,

    by_column = function(g, p) return matrices(g, p):sum(0) end,
  },

  columns = { "straight:max", "crossed:by_element", "crossed:max", "copied:eager", "by_row:max", "by_column:max" },

  plans = {
    by_element = function(pl)
      pl:preset("max")
      for _, node in ipairs(pl:nodes()) do
        if node == "add" then pl:knob(node, "rows", 1) end
      end
    end,
  },

  experiment = function(e)
    e:plot { x = "elements", y = "us", by = "variant", log = "xy" }
    for c in e:sweep { variant = "*", plan = "max", rows = { 256, 1024, 4096 }, columns = { 256, 1024, 4096 } } do
      local r = e:measure(c)
      e:row(c, { elements = c.rows * c.columns, us = r.wall_us and r.wall_us.median, failed = r.failed })
    end
  end,

  puzzle = {
    order = 6,
    about = "Two matrices are added, in one kernel each. straight reads both as they lie in memory; crossed reads "
      .. "one of them across its rows, as its transpose, element by element.",
    compare = { "crossed:by_element", "straight:max" },
    ask = "One kernel each, the same bytes, the same additions. Why is crossed slower?",
    choices = {
      { "bytes", "Bytes: a whole line of memory is fetched for a few numbers of it.",
        tell = "The rest of a line is fetched in vain, or thrown out before its turn comes and fetched again." },
      { "occupancy", "Its kernel cannot fill the device." },
      { "compute", "Its index arithmetic takes longer." },
      { "launches", "It launches a transposing copy." },
    },
    hints = {
      "Modelled bytes count each element once. What does the hardware move when it is asked for 4 bytes?",
      "On a GPU, compare the measured bytes with the modelled ones.",
    },
    tell = "Memory comes in lines of 32 to 128 bytes. Along a row every byte of a line is used; across rows a line is fetched "
      .. "for one element and, in a large matrix, is gone before its neighbour is asked for. Kernels that must cross go "
      .. "through a tile in fast memory, as crossed:max does.",
  },
}
