-- Out of registers: a fusion that saves bytes and loses time.
--
-- Eight kernels of a fused ocean model needed 255 registers a thread, so that only an eighth of the threads fitted
-- onto the device. They were half of the time it took, and the largest of them reached 7 % of the memory's rate. The
-- compiler's cost model had agreed to every single fusion, because each one saved bytes (EnzymeAD/Enzyme-JAX#2277).
--
-- Here each element first walks through a table: `hops` dependent reads at random places, a wait for memory each.
-- Then it goes through `depth` small steps there and, in the opposite order, back, where every step needs the value
-- that it had on the way there: they all stay in registers. fused does both in one kernel; cut stores what the walk
-- found and begins a second kernel. Both compute one element a thread.
--
--     fusebox emit registers fused --target resources --arch sm_90
--     fusebox emit registers cut --target resources --arch sm_90
local fb = require "fusebox"

-- One element a thread: neighbours in one thread would wait for memory together.
local function one_a_thread(pl)
  for _, node in ipairs(pl:nodes()) do
    if node == "walk.cast" or node:match("^back") then pl:knob(node, "vector", 1) end
  end
end

return fb.script {
  title = "Out of registers",

  params = {
    n = fb.int { 262144, min = 1, max = 16777216, step = "x2", help = "elements" },
    places = fb.int { 16777216, min = 1, max = 268435456, step = "x4", help = "of the table, 4 bytes each" },
    hops = fb.int { 8, min = 0, max = 64, help = "reads, one after the other" },
    depth = fb.int { 150, min = 2, max = 400, step = 25, help = "values that are live at once" },
  },

  model = function(g, p)
    local at = g:input("start", { p.n }, "i32", { dist = "integer", low = 0, high = p.places })
    local link = g:param("link", { p.places, 1 }, "i32", { dist = "integer", low = 0, high = p.places })
    local found = g:scope("walk", function()
      for _ = 1, p.hops do at = link:embedding(at):view(p.n) end
      return at:to("f32") * (1 / p.places)
    end)
    local there = { found }
    for i = 1, p.depth do
      g:scope("there", i, function() there[i + 1] = 0.5 - there[i] * there[i] end)
    end
    local y = there[p.depth + 1]
    for i = p.depth, 1, -1 do
      g:scope("back", i, function() y = there[i] - y end)
    end
    return y
  end,

  columns = { "fused", "cut" },

  plans = {
    fused = function(pl)
      pl:preset("max")
      one_a_thread(pl)
    end,

    cut = function(pl)
      pl:preset("max")
      for e, from, to in pl:edges() do
        if from:match("^walk") and not to:match("^walk") and pl:verdict("cut", e).kind ~= "illegal" then pl:cut(e) end
      end
      one_a_thread(pl)
    end,
  },

  -- Up to which number of live values does the fusion pay?
  experiment = function(e)
    for c in e:sweep { plan = { "fused", "cut" }, depth = { 25, 50, 75, 100, 125, 150 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, failed = r.failed })
    end
    e:plot { x = "depth", y = "us", by = "plan" }
  end,

  puzzle = {
    order = 15,
    about = "Each element follows eight links through a table, a random place of memory after the other. Then it "
      .. "goes through 150 small steps and back, which keeps 150 values in registers. fused does both in one "
      .. "kernel; cut stores what the walk found and lets a second kernel go on.",
    compare = { "fused", "cut" },
    ask = "cut launches twice, and writes and reads a tensor more. Why is it faster?",
    choices = {
      { "occupancy", "Occupancy: the walk waits for memory, and fused has too few threads to wait with.",
        tell = "The 150 values take registers from the first instruction on. An eighth of the threads fits, so an "
          .. "eighth of the reads is on its way at any time." },
      { "spills", "Spills: fused has more live values than registers, and puts some of them into memory." },
      { "bytes", "Bytes: the second kernel reads what it needs in order, the walk does not." },
      { "compute", "Arithmetic: fused walks again for every step that needs the value." },
    },
    hints = {
      "Press + for more rows: compare `registers` and `occupancy` of the kernels.",
      "A multiprocessor has 65,536 registers. How many threads of 147 each fit, and how many could there be?",
      "Set `depth` to 25 and ask again.",
    },
    tell = "A kernel takes its registers for all of its life, as many as its worst moment needs. A phase that "
      .. "waits for memory wants many threads, a phase with many live values wants registers: together in one "
      .. "kernel, the first one starves. A cost model that counts only bytes and launches calls this fusion a "
      .. "gain; the prediction here counts registers and waits as well.",
  },
}
