-- The order of operators: one product, two ways to write it, and a compiler that fuses only one of them well.
--
-- A matrix is multiplied by a number a row, which is itself a product of several. big_first multiplies the matrix by
-- one factor after the other; small_first multiplies the factors, then the matrix once. Two means read the result,
-- along the rows and down the columns. In exact arithmetic both are the same, and an einsum may be written out in
-- either order.
--
-- A report (pytorch/pytorch#142316) shows two such programs that one compiler fuses to different degrees. The preset
-- `inductor` follows that compiler's rules: a value with more than four reads and several readers is stored once
-- rather than computed again in each of them, and one with more than eight reads is stored in any case. So a rule
-- looks at how a value is written down, not at what it is.
local fb = require "fusebox"

local function operands(g, p)
  local factor = {}
  for i = 1, p.factors do factor[i] = g:input("factor" .. i, { p.rows, 1 }, p.dtype, { low = 0.5, high = 1.5 }) end
  return g:input("x", { p.rows, p.columns }, p.dtype), factor
end

return fb.script {
  title = "The order of operators decides what is fused",

  params = {
    rows = fb.int { 4096, min = 1, max = 65536, step = "x2" },
    columns = fb.int { 4096, min = 1, max = 65536, step = "x2" },
    factors = fb.int { 10, min = 1, max = 32, help = "numbers a row" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    big_first = function(g, p)
      local y, factor = operands(g, p)
      for i = 1, p.factors do y = y * factor[i] end
      return y:mean(1), y:mean(0)
    end,

    small_first = function(g, p)
      local x, factor = operands(g, p)
      local scale = factor[1]
      for i = 2, p.factors do scale = scale * factor[i] end
      local y = x * scale
      return y:mean(1), y:mean(0)
    end,
  },

  columns = { "big_first:eager", "small_first:eager", "big_first:inductor", "small_first:inductor", "big_first:max" },

  experiment = function(e)
    for c in e:sweep { variant = "*", plan = { "eager", "inductor", "max" }, factors = { 2, 3, 6, 10, 16 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
    e:plot { x = "factors", y = "us", by = { "variant", "plan" } }
  end,

  puzzle = {
    order = 12,
    about = "A matrix times several numbers a row, then the means of its rows and of its columns. big_first "
      .. "multiplies the matrix by one factor after the other, small_first multiplies the factors first. One "
      .. "compiler's rules make the plans of both.",
    compare = { "big_first:inductor", "small_first:inductor" },
    ask = "The same rules, the same numbers in the end. Why is small_first faster?",
    choices = {
      { "compute", "Arithmetic: it multiplies a whole matrix only once.",
        tell = "The multiplications are what takes the time here, and it does fewer of them." },
      { "bytes", "Bytes: the scaled matrix is never written to memory.",
        tell = "The matrix of big_first has more reads behind it than the rule repeats: it is stored, and read "
          .. "again." },
      { "launches", "Launches: its kernels are fewer." },
      { "occupancy", "Its kernels fill the device better." },
    },
    hints = {
      "Compare the launches, then `moved`.",
      "Look at the kernels of both: what does the first one store?",
      "Set `factors` to 3 and look again: is the matrix still stored? And with 6, what does small_first store?",
    },
    tell = "A compiler decides by rules of thumb about the graph it was given: how many reads, how many "
      .. "operations, who reads. It does not put factors into another order, because that changes the rounding. "
      .. "Who writes the program may: small operands first.",
  },
}
