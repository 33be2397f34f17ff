-- An hour of puzzles, without a lecture around them: each asks first, and is measured then.
--
--     fusebox lessons/puzzles --device replay:h200
--
-- Pages with a puzzle hide its columns until it is answered; `a` shows them, `A` hides them again. For a class that has
-- paper: fusebox lesson lessons/puzzles --printable >questions.html
local fb = require "fusebox"

return fb.lesson {
  title = "Eight fusion puzzles",
  about = [[Two programs that compute the same, and one is faster. Why? Predict first, then let it run.]],

  pages = {
    fb.page {
      title = "How this works",
      minutes = 3,
      text = [[
        On each of the next pages stand two programs, or two plans of one program. They compute *the same numbers*. One
        takes longer.

        - Read both. What does each kernel read from memory, and what does it write?
        - Choose an answer, and guess how many times as fast the second one is. A guess that is wrong teaches more than
          none.
        - Then both are measured, and the difference is split into its causes: calls of a framework, launches, bytes,
          arithmetic, and how full the processors are.

        `Enter` asks a page's puzzle, `Esc` comes back to the page, `l` goes on.
      ]],
      notes = [[
        Let everybody write down a guess before anybody presses Enter. Two minutes a puzzle are enough; the talk after the
        measurement is what takes time, and what it is for.
      ]],
    },

    fb.page {
      title = "Sixteen features, one by one",
      minutes = 8,
      puzzle = "split_stack",
      text = [[
        Sixteen features are normalised, go through `tanh` and one linear layer. `split_stack` treats one feature after
        the other and stacks the results, `combined` treats all of them as one tensor.

        Both run in PyTorch, one call after the other.
      ]],
      answer = [[
        Each feature is launched by itself, and before each launch stands a call of the framework. The kernels account for
        the smaller part of the difference: a feature by itself is small, and `stack` copies everything once more.
      ]],
      notes = [[
        The usual first answer is "fewer bytes", since stack copies. Let them compare the row *device busy* with the row
        *wall*: most of the time no kernel runs at all.
      ]],
    },

    fb.page {
      title = "The same, behind a compiler",
      minutes = 6,
      puzzle = "split_stack_compiled",
      text = [[
        A compiler fuses what it finds. Both functions get faster, and one stays behind.

        What does a compiler need to see, to make one kernel of sixteen?
      ]],
      answer = [[
        Sixteen equal chains that no edge connects are sixteen kernels to a compiler that looks for a producer and its
        consumer. They can share a launch all the same: there is no reason against it but that nobody looked.
      ]],
    },

    fb.page {
      title = "417 µs, and 72 of them in kernels",
      minutes = 6,
      puzzle = "launch_bound",
      text = [[
        A run takes several times as long as its kernels do. Nothing is computed in between.

        A *CUDA graph* is the same list of launches, handed over once: not a byte and not an operation less.
      ]],
      answer = [[
        What a graph saves is what the host does for each launch. The gaps become shorter; the kernels stay as they are. To
        be rid of the rest, kernels have to become fewer.
      ]],
    },

    fb.page {
      title = "A paper cut",
      minutes = 5,
      puzzle = "upload",
      text = [[
        A model looks words up in a vocabulary. In one program the vocabulary is copied to the device in every run, in the
        other it stays there.

        Nobody writes that on purpose. It is what a constant becomes that is made on the host, in the function that is
        called for each batch.
      ]],
      answer = [[Copies, and nothing else: the kernels of both are the same.]],
    },

    fb.page {
      title = "Along or across",
      minutes = 6,
      puzzle = "transpose",
      text = [[
        The same additions on the same bytes, along the rows of a matrix or across them. Nobody counts a byte twice, and
        still one takes longer.
      ]],
      answer = [[
        Memory is read in lines of 32 bytes or more. Who takes four of them from each line has most of what was read thrown
        away, or waits until a neighbour has asked for the rest.
      ]],
    },

    fb.page {
      title = "Store it, or compute it again?",
      minutes = 6,
      puzzle = "recompute",
      text = [[
        A value is read in two places. It can be stored and read again, or computed again by both readers. Storing costs
        bytes, computing costs arithmetic.

        Which of the two has the processor more of?
      ]],
      answer = [[
        It depends on what is computed. Look at the waterfall: which bar goes up, which goes down? With a cheaper function
        the answer turns round.
      ]],
    },

    fb.page {
      title = "Out of registers",
      minutes = 6,
      puzzle = "registers",
      text = [[
        One kernel instead of two saves a launch, and a tensor that is written and read again. Here it loses.

        Each thread keeps what it is working on in *registers*. A multiprocessor has 65,536 of them, for all its threads
        together.
      ]],
      answer = [[
        With so many registers a thread few threads fit, and few threads are too few to wait for memory in turn: while all
        of them wait, nothing happens.
      ]],
    },

    fb.page {
      title = "Attention: stored or online?",
      minutes = 6,
      puzzle = "stored_scores",
      text = [[
        Attention computes a score for every pair of positions, and needs each of them only once. `stored` writes all of
        them to memory, `online` keeps a tile of them on chip and corrects its sums as larger scores come.
      ]],
      answer = [[
        The scores are the largest tensor of all, and `online` never writes them. It is the fusion that made long texts
        affordable.
      ]],
    },

    fb.page {
      title = "What to take home",
      minutes = 3,
      text = [[
        Five questions, in this order:

        - How much of the run does no kernel run? Then it is launches, calls or copies, and no faster kernel helps.
        - How many bytes does each kernel touch, and how many of them has another one just written? Those can be saved.
        - Does it read along memory or across it?
        - Are there enough threads to wait for memory, and registers enough for them?
        - Only then: how many operations?

        And before all of them: *predict, then measure*. Who measures first believes whatever comes out.
      ]],
    },
  },
}
