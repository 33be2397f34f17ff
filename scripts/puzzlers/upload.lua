-- A paper cut: a vocabulary that is uploaded at every step.
--
-- A recommender looks up each of 26 fields of a row in that field's vocabulary, and sums the embeddings of what it
-- found. In a lecture on fused kernels the vocabulary was a Python list: every forward pass made a tensor of it and
-- copied that to the GPU. The profile showed a GPU that is idle most of the time; the lecture calls it a paper cut.
-- Nobody sees it in the model's arithmetic, and no fusion takes it away.
--
-- uploaded feeds the vocabulary with each batch; resident keeps it where the kernels are. The ids of the batch must
-- be fed in either case.
--
--     fusebox run upload --trace upload.json
local fb = require "fusebox"

-- ids are places in a field's vocabulary, whose entries are rows of one table of embeddings.
local function model(g, p, source)
  local ids = g:feed("ids", { p.batch, p.fields }, "i32", { dist = "integer", low = 0, high = p.words })
  local vocabulary = source(g, "vocabulary", { p.fields * p.words, 1 }, "i32",
    { dist = "integer", low = 0, high = p.rows })
  local table = g:param("table", { p.rows, p.size }, p.dtype, { dist = "normal" })
  local found = g:scope("look_up", function()
    local first = g:arange(p.fields, "i32") * p.words
    return vocabulary:embedding(ids + first:view(1, p.fields)):view(p.batch, p.fields)
  end)
  g:receive(table:embedding(found):sum(1), "sums")
end

return fb.script {
  title = "A paper cut: the vocabulary is uploaded at every step",

  params = {
    batch = fb.int { 256, min = 1, max = 65536, step = "x2" },
    fields = fb.int { 26, min = 1, max = 256 },
    words = fb.int { 65536, min = 1, max = 1048576, step = "x2", help = "of a field's vocabulary" },
    rows = fb.int { 65536, min = 1, max = 16777216, step = "x4", help = "of the table" },
    size = fb.int { 16, min = 1, max = 512, step = "x2", help = "of an embedding" },
    dtype = fb.choice { "f32", "bf16", "f16" },
  },

  variants = {
    uploaded = function(g, p) model(g, p, g.feed) end,
    resident = function(g, p) model(g, p, g.param) end,
  },

  columns = { "uploaded:max", "resident:max", "uploaded:beside" },

  plans = {
    -- The next run's feeds arrive while this one computes.
    beside = function(pl) pl:preset("max"):overlap(true) end,
  },

  experiment = function(e)
    for c in e:sweep { variant = "*", plan = "max", words = { 64, 1024, 16384, 65536, 262144 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, copies_us = r.copy_us and r.copy_us.median, failed = r.failed })
    end
    e:plot { x = "words", y = "us", by = "variant", log = "xy" }
  end,

  puzzle = {
    order = 17,
    about = "256 rows with 26 ids each: an id is looked up in its field's vocabulary, and the embeddings found are "
      .. "summed. uploaded is given the vocabularies anew with every batch, resident keeps them.",
    compare = { "uploaded:max", "resident:max" },
    ask = "The kernels of both are the same. Why is resident so much faster?",
    choices = {
      { "copies", "Copies: the vocabularies are copied to the device before the first kernel may begin.",
        tell = "7 MB a run, of which a batch looks up 6,656 numbers." },
      { "bytes", "Bytes: its kernels read less memory." },
      { "launches", "Launches: it needs fewer kernels." },
      { "compute", "Arithmetic: it looks an id up without searching." },
    },
    hints = {
      "Press T: what happens before the first kernel?",
      "Compare the rows `copied` and `copies` of the two (+ shows them).",
      "Put uploaded:beside with them. Copying beside the kernels hides a copy behind what the kernels take. Is "
        .. "that much here?",
    },
    tell = "Between host and device a byte costs some eighty times what it costs between device and memory. What "
      .. "does not change from step to step belongs on the device once: tables, masks, positions, constants. Look "
      .. "for it in the gaps of a timeline, for a profile of kernels does not list it.",
  },
}
