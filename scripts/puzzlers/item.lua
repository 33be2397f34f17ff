-- What does .item() cost?
--
-- 32 tasks are trained together, and the mean loss of each is wanted for a log. each hands every mean to the host by
-- itself, as `loss.item()` in a loop does; once puts the means together on the device and hands over the 128 bytes at
-- once.
--
-- A copy of four bytes takes about as long as a copy of four thousand: it must be issued, started and waited for.
-- Here a run waits once, at its end, so that what shows is the copies and their issue. A program that looks at each
-- number before it goes on pays more: all that was queued has to finish first, and the device is idle until the host
-- launches again ("why is item() taking so long?", asks a lecture; because it is where the waiting for everything
-- before it is done).
--
--     fusebox diff item each:none once:none
local fb = require "fusebox"

local function losses(g, p)
  local mean = {}
  for i = 1, p.tasks do
    g:scope("task", i, function() mean[i] = g:input("loss", { p.samples }, p.dtype):mean() end)
  end
  return mean
end

return fb.script {
  title = "What does .item() cost?",
  computes = "the mean of each task",

  params = {
    tasks = fb.int { 32, min = 1, max = 256, step = "x2", help = "numbers that the host wants" },
    samples = fb.int { 4096, min = 1, max = 16777216, step = "x4", help = "of a task" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    each = function(g, p)
      for i, loss in ipairs(losses(g, p)) do g:receive(loss, "loss_" .. i) end
    end,

    once = function(g, p) g:receive(g:stack(losses(g, p)), "losses") end,
  },

  columns = { "each:none", "once:none", "each:later", "once:max" },

  plans = {
    -- The host reads what the run before has found, so that nobody waits for a copy.
    later = function(pl) pl:preset("none"):overlap(true) end,
  },

  experiment = function(e)
    for c in e:sweep { variant = "*", plan = "none", tasks = { 1, 4, 16, 64 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, copies_us = r.copy_us and r.copy_us.median, failed = r.failed })
    end
    e:plot { x = "tasks", y = "us", by = "variant", log = "x" }
  end,

  puzzle = {
    order = 18,
    about = "32 means are computed on the device by a small kernel each, and the host wants to know them. each "
      .. "copies every mean to the host by itself; once joins them in one more kernel and copies 128 bytes.",
    compare = { "each:none", "once:none" },
    ask = "once launches a kernel more, and the host gets the same 128 bytes. Why is it faster?",
    choices = {
      { "copies", "Copies: 31 fewer, and a copy takes its time however small it is.",
        tell = "On the device a copy of four bytes takes about as long as a small kernel." },
      { "launches", "Launching and waiting: the host issues a copy as it issues a kernel, and here there are as "
        .. "many.",
        tell = "Most of it is the host's: while it issues copies, it launches nothing." },
      { "bytes", "Bytes: lines of memory are read for 4 bytes each." },
      { "compute", "Arithmetic: it divides by the number of samples only once." },
    },
    hints = {
      "Press T: how many copies are there, and how long is one?",
      "Compare the rows `copied` and `copies` (+ shows them): many bytes, or much time?",
      "Put once:max beside them: what is left when the means share a kernel, too?",
    },
    tell = "It is not the bytes: every .item(), .cpu() or print of a tensor is a copy of its own. Collect what is "
      .. "wanted on the device and fetch it once, or read it a step later (each:later), when it has arrived "
      .. "anyway.",
  },
}
