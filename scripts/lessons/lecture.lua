-- A lecture of an hour: from sixteen features that are normalised one by one to a training loop.
--
--     fusebox lessons/lecture                               on a machine with a GPU, measured there
--     fusebox lessons/lecture --device replay:h200          without one, as it was recorded
--     fusebox lesson lessons/lecture --format html --device replay:h200 >lecture.html        the hand-out
--
-- `l` and `h` turn pages, `c` lists them, `p` plays a page's keys, `a` shows its answer, `N` the presenter's notes. `Tab`
-- goes to the page's script in the workbench, `0` comes back. Every page opens its script afresh, so nothing that is tried
-- on one is in the way on the next.
--
-- To give it yourself: fusebox new mine.lua --from lessons/lecture. docs/LESSONS.md says what a page may hold.
local fb = require "fusebox"

return fb.lesson {
  title = "To fuse or not to fuse",
  about = [[
    One hour from the first kernel to a training loop. After each question stands what was measured, so that nothing here has
    to be believed.
  ]],

  pages = {
    fb.page {
      title = "What an hour of this is for",
      minutes = 2,
      text = [[
        A model is a graph of small operations. A GPU runs *kernels*. Who decides which operations share one?

        - PyTorch, called op by op: each call is a kernel, or several.
        - A compiler: by rules, which somebody thought of.
        - You: with a prediction before, and a measurement after.

        A kernel that does the work of two saves a *launch*, and what lies between the two never goes to memory. Often that is
        most of the time. Sometimes it loses, and the second half of this hour is about when.

        Four programs: features that are stacked, an LSTM, LoRA and a recommendation model, and at the end the loop that
        trains one.
      ]],
      notes = [[
        Ask who has ever looked at a profiler's trace, and who knows how long a launch takes. A few microseconds is right;
        hardly anybody guesses how much work fits into that time.
      ]],
    },

    -- ---- split and stack ----

    fb.page {
      title = "Two functions, the same numbers",
      minutes = 3,
      script = "split_stack",
      columns = { "split_stack:eager", "combined:eager" },
      text = [[
        Sixteen features of 1024 rows and 256 columns each. Normalise them, `tanh`, one linear layer, `relu`.

            for i, f in ipairs(x:split(n)) do
              norm[i] = nn.layer_norm(f:view(rows, columns)):tanh()
            end
            return nn.linear(g:stack(norm), 1):relu()

        `split_stack` does it feature by feature and stacks the results. `combined` views the same memory as one tensor of
        three dimensions, and needs no loop.

        Both columns launch what a framework would: a kernel for each call. Compare the row *launches*, then the row *moved*.
      ]],
      notes = [[
        Stay on the row *moved* for a moment: `stack` reads and writes all features once more. Do not say yet how much of the
        difference that is.
      ]],
    },

    fb.page {
      title = "In PyTorch: why is one so much faster?",
      minutes = 5,
      puzzle = "split_stack",
      text = [[
        The question of the first document: the same two functions in PyTorch, eagerly. Its author measured a factor of 8.4 on
        another GPU.

        Write your answer down first, and a number with it.
      ]],
      answer = [[
        Most of the time no kernel runs: *device idle* is longer than *device busy*. Every call of the framework takes longer
        than the small kernel that it launches. Fewer calls are what helps most, whatever is inside of them.
      ]],
      notes = [[
        Collect guesses by show of hands. Then `Enter`, answer as the majority would, and let it run. Afterwards `w`: the
        waterfall, part by part.
      ]],
    },

    fb.page {
      title = "Fuse it by hand",
      minutes = 4,
      script = "split_stack",
      columns = { "split_stack:eager", "split_stack:max" },
      keys = "Tab Space @idle j Space @idle w",
      text = [[
        The letters at the left of the graph say which rows share a kernel. `Space` fuses the edge that the lower line speaks
        of, in all sixteen repetitions at once. The line says what it should save *before* you press.

        `p` does two of these steps for you, then asks why the first column has become what it is.

        The second column is the preset `max`: whatever can be fused is. Where does it end?
      ]],
      answer = [[
        In one kernel. The sixteen features are equal, so their code is written once and an offset says which one it is; `split`
        and `stack` become index arithmetic and cost nothing.
      ]],
      notes = [[
        Type along instead of playing when there is time: Tab, Space, and read the lower line aloud. `u` takes a step back.
      ]],
    },

    fb.page {
      title = "Behind a compiler",
      minutes = 4,
      puzzle = "split_stack_compiled",
      text = [[
        The second question of the same document: `torch.compile` makes both faster, and one stays behind.

        It fuses a producer with its consumer. Are the sixteen features that?
      ]],
      answer = [[
        No edge leads from one feature to another, so nothing is fused across them: a kernel for each remains, and then one that
        gathers them. For one launch somebody has to fuse *horizontally*.
      ]],
    },

    -- ---- the LSTM ----

    fb.page {
      title = "One step of an LSTM",
      minutes = 3,
      script = "lstm_step",
      columns = { "gates:eager", "gates:max" },
      text = [[
        The second document is a talk about fast neural networks, and looks for its speed in this:

            gates = x @ W_ih.t() + b_ih + h @ W_hh.t() + b_hh
            i, f, g, o = gates.chunk(4, 1)
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            h = sigmoid(o) * tanh(c)

        Two products, and a dozen small operations behind them. The products are library calls. All that follows is
        element-wise, on tensors of one shape.

        How many kernels would you make of it?
      ]],
      answer = [[
        `max` makes one of everything element-wise, behind the two products: three launches. `chunk` is a view, which is index
        arithmetic and no kernel at all.
      ]],
    },

    fb.page {
      title = "Stack, then sigmoid: would that help?",
      minutes = 4,
      script = "lstm_step",
      columns = { "gates:eager", "stacked:eager", "gates:max", "stacked:max" },
      text = [[
        Three of the four gates go through a sigmoid. The talk asks: *stack* the three, call sigmoid *once*. Would that help?

        One launch for three. And one more for the stack.

        Say what you think of the first pair, op by op, and of the second, where everything that can be fused is.
      ]],
      answer = [[
        Fewer launches than before and more bytes, op by op; behind a compiler the two are the same kernels, and their times
        cannot be told apart. A trick that helps a framework may be none once somebody fuses.
      ]],
      notes = [[
        This is the moment for *cannot tell*: the spread of both columns overlaps. Show the row with `+` and j. "Are we doomed
        to timed benchmarks?" asks the talk; the rows launches and moved do not jitter.
      ]],
    },

    fb.page {
      title = "One product instead of two",
      minutes = 2,
      script = "lstm_step",
      columns = { "gates:eager", "addmm:eager", "cat:eager", "cat:max" },
      text = [[
        `cat` lays x and h side by side, and the two weights as well: one product of twice the depth. It is what the talk's
        second listing calls `combined_layer`.

        `addmm` leaves the two products, and takes each bias along into its product.
      ]],
      answer = [[
        A library's call can add its bias by itself, which is the cheapest fusion there is. And one product of twice the depth
        keeps a GPU busier than two small ones that wait for each other.
      ]],
    },

    fb.page {
      title = "Too many things to test",
      minutes = 4,
      script = "lstm",
      columns = { "gates:eager", "gates:max", "cat:max", "hoisted:max" },
      keys = "Tab T",
      text = [[
        Four steps, one behind the other. Op by op that is four times the launches of one step.

        `hoisted` moves half of the arithmetic out of the loop: `x @ W_ih` does not need h, so all steps' inputs go through
        *one* product before the first step.

        Nine ways of writing it are in this script, each with every preset, at every size. `p` shows the first column on a time axis.
      ]],
      answer = [[
        What survives fusion is what changes the *dependencies*: `hoisted` and `cat` launch less even where all is fused,
        `stacked` does not. The experiment of the script (`.` in the workbench) runs all of them.
      ]],
    },

    fb.page {
      title = "A loop that is planned once",
      minutes = 3,
      script = "lstm_scan",
      columns = { "scan:eager", "inputs_first:max", "unrolled:max" },
      text = [[
        Sixteen steps as a loop. Its body is in the graph once, and what you fuse in it is fused in every step.

        What does a step cost besides its arithmetic? Divide the launches by sixteen.
      ]],
      answer = [[
        A launch or two a step, and they follow each other: no step can begin before the one before it has ended. Only a kernel
        that keeps its state and goes round by itself is rid of them.
      ]],
    },

    -- ---- LoRA ----

    fb.page {
      title = "LoRA: a small change to a large weight",
      minutes = 3,
      script = "lora_network",
      columns = { "lora:eager", "lora:max", "joined:max", "merged:max" },
      text = [[
        The third document's case study. A weight W stays as it is, and two thin matrices learn what has to change:

            y = x @ W.t() + scale * (x @ A) @ B

        - `lora` as it is written: three products a layer
        - `joined`: W and A side by side, one product for both
        - `merged`: the change added to W beforehand

        The network is tiny, 16-8-4. What is all of its time?
      ]],
      answer = [[
        Launches. Not one of these kernels has anything to do for as long as it takes to start it, so the times follow the row
        *launches* and nothing else.
      ]],
    },

    fb.page {
      title = "LoRA at a size that matters",
      minutes = 3,
      script = "lora_mlp",
      columns = { "lora:eager", "lora:max", "merged:eager", "merged:max" },
      text = [[
        The same with weights of 512 × 512 and rank 16. Now the products are work.

        `merged` makes a whole new weight in every run: fewer products of x, and more bytes. `lora` never makes it.

        Which would you train with, and which would you serve with?
      ]],
      answer = [[
        Serve with the merged weight, made once and outside of the run: then it costs nothing at all. In training the weight
        changes at each step, and making it anew is what the rows *moved* are about.
      ]],
    },

    -- ---- DLRM ----

    fb.page {
      title = "A recommendation model",
      minutes = 4,
      script = "dlrm",
      columns = { "pairwise:eager", "pairwise:max" },
      keys = "Tab 1 T",
      text = [[
        DLRM: thirteen counts go through a small network, twenty-six categories through twenty-six tables, and then each of the
        twenty-seven vectors meets each other one.

        In a language model one product is most of the work. Here *nothing* is: ninety-odd launches of next to nothing.

        `p` shows a run of the first column on a time axis.
      ]],
      answer = [[
        Twenty-six hashes, twenty-six look-ups, a stack and a product: fused horizontally they are a few kernels. A gather is a
        load with a computed address, and its table is read where it is needed.
      ]],
      notes = [[The timeline is the picture to leave on the screen while you talk: gaps, and a few hairs between them.]],
    },

    fb.page {
      title = "Pairs, or the outer product",
      minutes = 3,
      script = "dlrm",
      columns = { "pairwise:max", "outer:max" },
      text = [[
        The lecture lets dense and sparse features meet by an outer product, 186,624 numbers a row. The published model takes a
        dot product of each pair, some hundreds.

        Both are fused as far as they can be. What is left of the difference?
      ]],
      answer = [[
        Bytes. Nobody's fusion helps against a tensor that the next layer has to read whole. *Look at sizes before you look at
        kernels.*
      ]],
    },

    fb.page {
      title = "A paper cut",
      minutes = 3,
      puzzle = "upload",
      text = [[
        The lecture's profile shows a hash that takes far too long. The vocabulary was a Python list, and became a tensor on the
        GPU in the function that is called for each batch.

            tokenizers = torch.tensor(tokenizer_values).reshape(1, -1)
            if input_tensor.is_cuda:
                tokenizers = tokenizers.cuda()
      ]],
      answer = [[Copies. Its kernels were never the problem, and no compiler moves that line out of the function.]],
    },

    -- ---- training ----

    fb.page {
      title = "What a gradient launches",
      minutes = 3,
      script = "mlp_train",
      columns = { "grad:eager", "grad:max", "by_hand:max" },
      text = [[
        The fourth document is about a small program that differentiates, fuses and runs whole loops. Its example: two layers of
        255, a sigmoid, a step of SGD.

        `grad` lets the gradient be derived, `by_hand` writes it down. Where does an update `W - lr * dW` want to be computed?
      ]],
      answer = [[
        In the kernel that makes the gradient: it has each element in a register already. Derived or by hand, the same kernels
        come out, and their times cannot be told apart.
      ]],
    },

    fb.page {
      title = "A training loop",
      minutes = 3,
      script = "mlp_loop",
      columns = { "carried:eager", "carried:max", "assigned:max" },
      text = [[
        Eight steps in one program; a thousand in the document. Weights are handed on from step to step (`carried`), or
        overwritten (`assigned`).

        May an update overwrite the weight in place? Who else reads it in the same step?
      ]],
      answer = [[
        The gradient of the layer below still reads the *old* weight, so the update has to wait for it. Ask for a kernel that
        holds both, and the verdict is *illegal*, with the nodes by name: it would have to run before and after another.
      ]],
      notes = [[
        In the workbench go to an edge of the update and read the verdict aloud. It is the one place of this hour where a
        fusion is not slower but wrong.
      ]],
    },

    fb.page {
      title = "Feeding it",
      minutes = 2,
      puzzle = "overlap",
      text = [[
        Batches come from the host and results go back. Copies can run beside kernels: the next batch arrives while this one is
        worked on.

        The same bytes, the same kernels.
      ]],
      answer = [[
        A run then takes the longest of the three, in, compute and out, in place of their sum. That helps most where they are
        about equal.
      ]],
    },

    fb.page {
      title = "What to take home",
      minutes = 2,
      text = [[
        - *Predict, then measure.* A measurement without a prediction teaches nothing.
        - First ask how long no kernel runs; then how many bytes are touched twice; arithmetic comes last.
        - A trick for a framework may be none for a compiler. Write what changes dependencies, let the rest be fused.
        - Some fusions are not allowed, some only lose. Both have a reason that can be said in a sentence.

        Go on with `o`: nineteen puzzles, and the models of this hour at every size.
      ]],
    },
  },
}
