---@meta
-- Types of everything that a fusebox script can call, for the Lua language server.
-- Dimensions count from 0 as in PyTorch and may be negative; lists are Lua's and count from 1.

---@alias Dtype "f32"|"f16"|"bf16"|"f64"|"i32"|"i64"|"bool"
---@alias Shape integer[]
---@alias Operand Tensor|number

---How the values of an input are drawn: uniform in [0, 1) unless it is said; integers need `high`.
---@class Dist
---@field dist? "uniform"|"normal"|"integer"|"constant"
---@field low? number uniform, integer: the smallest value
---@field high? number uniform, integer: one past the largest
---@field mean? number normal
---@field std? number normal
---@field value? number constant
---@field seed? integer g:rand only

---@class GradOptions
---@field through? "stored"|"recomputed" what a loop's steps computed is kept, or computed again from its states
---@field every? integer recomputed: only the state after each so many steps is kept, and the steps between run again
---@field truncate? integer no gradient passes from a step to the one before where this divides the step's number
---@field weights? "after"|"inside" a weight's gradient is one product after the loop, or is added to in each step

---@class FileOptions
---@field columns? string|integer|(string|integer)[] of a .csv file, by name or number; one gives one dimension
---@field dtype? Dtype
---@field param? boolean make a parameter

--------------------------------------------------------------------------------------------------------------------
-- fusebox

---@class fusebox
local fusebox = {}

---@class ParamOptions
---@field [1] any the value where nothing else is said
---@field min? number
---@field max? number
---@field step? string|number "x2" doubles, a number adds: what + and - and a sweep do
---@field help? string
---@field default? any

---@class Param

---@class Puzzle
---@field order? integer its place among the bundled ones
---@field about? string what is compared, before the question
---@field compare string[] two columns
---@field ask? string
---@field premise? "faster"|"slower"|"differs" what the question says of the second column; "faster" where nothing is said
---@field choices? Choice[]
---@field answer? fun(why: Why): string the key of what is right; without it the choices' own conditions are asked
---@field hints? string[]
---@field tell? string what is told in the end, whatever was found

---An answer: right where that part of the waterfall goes furthest in the direction of the difference.
---@class Choice
---@field [1] string its key, which is a part too where neither saves nor costs is given
---@field [2] string what is shown
---@field saves? WhyPart the second column gains by it
---@field costs? WhyPart the second column loses by it
---@field tell? string what is told where it was found to be so

---@alias WhyPart "dispatch"|"launches"|"copies"|"bytes"|"compute"|"occupancy"|"spills"

---@class Script
---@field title? string
---@field params? table<string, Param>
---@field model? fun(g: Graph, p: table): Tensor, ...
---@field variants? table<string, fun(g: Graph, p: table): Tensor, ...>
---@field plans? table<string, fun(pl: Plan)>
---@field experiment? fun(e: Experiment)
---@field puzzle? Puzzle
---@field computes? string what all variants compute, where results tell nothing of it: 32 scalars, or one row of 32
---@field columns? string[] what is shown first: "variant:plan@device"; without them eager and auto of every variant

---What a script returns. Give either `model` or `variants`.
---@param script Script
---@return Script
function fusebox.script(script) end

---A page of a lesson. Texts: "# " a heading, "- " an item, *important*, `code`, four more blanks: code as it stands.
---@class Page
---@field title string
---@field minutes? number how long it is meant to take
---@field text? string
---@field script? string a script beside the lesson, or a bundled one; opened afresh for the page
---@field puzzle? string in its place: a script that asks a puzzle, which the page asks
---@field columns? string[] "variant:plan@device"; without them the script's own, or the two of the puzzle
---@field params? table<string, number|string|boolean> of the script
---@field answer? string hidden until it is asked for
---@field notes? string the presenter's
---@field keys? string to be played, as in a file for --keys: "Tab Space @idle w"

---@param page Page
---@return Page
function fusebox.page(page) end

---@class Lesson
---@field title string
---@field about? string
---@field pages Page[] each made by fb.page

---What the file of a lesson returns, in place of a script.
---@param lesson Lesson
---@return Lesson
function fusebox.lesson(lesson) end

---A whole number: fb.int { 1024, min = 64, max = 16384, step = "x2", help = "rows" }.
---@param options ParamOptions|integer
---@return Param
function fusebox.int(options) end

---A number.
---@param options ParamOptions|number
---@return Param
function fusebox.float(options) end

---One of several texts, the first unless `default` says: fb.choice { "f32", "bf16" }.
---@param options ParamOptions
---@return Param
function fusebox.choice(options) end

---True or false.
---@param options ParamOptions|boolean
---@return Param
function fusebox.bool(options) end

--------------------------------------------------------------------------------------------------------------------
-- Tensors

---A value of the graph. Operators + - * / % ^ // & | ~ << >> take tensors and numbers; numbers take the tensor's dtype.
---@class Tensor
---@field shape Shape
---@field dtype Dtype
---@field name string its path in the graph
---@field graph Graph
---@operator add(Operand): Tensor
---@operator sub(Operand): Tensor
---@operator mul(Operand): Tensor
---@operator div(Operand): Tensor
---@operator mod(Operand): Tensor
---@operator pow(Operand): Tensor
---@operator idiv(Operand): Tensor
---@operator unm: Tensor
local Tensor = {}

-- made from engine/graph/ops.def by `make ops`: change that
---Minus x.
---@return Tensor
function Tensor:neg() end

---|x|.
---@return Tensor
function Tensor:abs() end

---The sign: -1, 0 or 1.
---@return Tensor
function Tensor:sign() end

---e to the x.
---@return Tensor
function Tensor:exp() end

---2 to the x.
---@return Tensor
function Tensor:exp2() end

---Natural logarithm.
---@return Tensor
function Tensor:log() end

---Logarithm to base 2.
---@return Tensor
function Tensor:log2() end

---ln(1 + x), exact where x is small.
---@return Tensor
function Tensor:log1p() end

---Square root.
---@return Tensor
function Tensor:sqrt() end

---1 / sqrt(x).
---@return Tensor
function Tensor:rsqrt() end

---1 / x.
---@return Tensor
function Tensor:reciprocal() end

---Sine.
---@return Tensor
function Tensor:sin() end

---Cosine.
---@return Tensor
function Tensor:cos() end

---Hyperbolic tangent.
---@return Tensor
function Tensor:tanh() end

---1 / (1 + exp(-x)).
---@return Tensor
function Tensor:sigmoid() end

---Error function.
---@return Tensor
function Tensor:erf() end

---What x is the error function of.
---@return Tensor
function Tensor:erfinv() end

---ln |gamma(x)|, where gamma(n + 1) = n!.
---@return Tensor
function Tensor:lgamma() end

---The slope of lgamma.
---@return Tensor
function Tensor:digamma() end

---x (1 + erf(x / sqrt 2)) / 2.
---@return Tensor
function Tensor:gelu() end

---x where it is positive, else 0.
---@return Tensor
function Tensor:relu() end

---ln(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold.
---@param beta? number
---@param threshold? number
---@return Tensor
function Tensor:softplus(beta, threshold) end

---x where it is positive, else alpha (exp(x) - 1).
---@param alpha? number
---@return Tensor
function Tensor:elu(alpha) end

---x tanh(ln(1 + exp(x))).
---@return Tensor
function Tensor:mish() end

---The largest whole number that is not above x.
---@return Tensor
function Tensor:floor() end

---The smallest whole number that is not below x.
---@return Tensor
function Tensor:ceil() end

---To the nearest whole number, ties to even.
---@return Tensor
function Tensor:round() end

---x kept between low and high.
---@param low? number
---@param high? number
---@return Tensor
function Tensor:clamp(low, high) end

---The same values, in memory of their own.
---@return Tensor
function Tensor:copy() end

---Not, of bool.
---@return Tensor
function Tensor:logical_not() end

---All bits turned over.
---@return Tensor
function Tensor:bitwise_not() end

---x + y.
---@param other Operand
---@return Tensor
function Tensor:add(other) end

---x - y.
---@param other Operand
---@return Tensor
function Tensor:sub(other) end

---x y.
---@param other Operand
---@return Tensor
function Tensor:mul(other) end

---x / y, of floats.
---@param other Operand
---@return Tensor
function Tensor:div(other) end

---x / y rounded down, of integers.
---@param other Operand
---@return Tensor
function Tensor:floor_divide(other) end

---x to the y.
---@param other Operand
---@return Tensor
function Tensor:pow(other) end

---The smaller; NaN wins.
---@param other Operand
---@return Tensor
function Tensor:minimum(other) end

---The larger; NaN wins.
---@param other Operand
---@return Tensor
function Tensor:maximum(other) end

---x modulo y, with the sign of y.
---@param other Operand
---@return Tensor
function Tensor:remainder(other) end

---The angle of the point (y, x), where x is the height: from -pi to pi.
---@param other Operand
---@return Tensor
function Tensor:atan2(other) end

---x with the sign of y, which a 0 has too; what is no number has none.
---@param other Operand
---@return Tensor
function Tensor:copysign(other) end

---x = y, a bool tensor.
---@param other Operand
---@return Tensor
function Tensor:eq(other) end

---x ≠ y, a bool tensor.
---@param other Operand
---@return Tensor
function Tensor:ne(other) end

---x < y, a bool tensor.
---@param other Operand
---@return Tensor
function Tensor:lt(other) end

---x ≤ y, a bool tensor.
---@param other Operand
---@return Tensor
function Tensor:le(other) end

---x > y, a bool tensor.
---@param other Operand
---@return Tensor
function Tensor:gt(other) end

---x ≥ y, a bool tensor.
---@param other Operand
---@return Tensor
function Tensor:ge(other) end

---And, of bool.
---@param other Operand
---@return Tensor
function Tensor:logical_and(other) end

---Or, of bool.
---@param other Operand
---@return Tensor
function Tensor:logical_or(other) end

---And of bits.
---@param other Operand
---@return Tensor
function Tensor:bitwise_and(other) end

---Or of bits.
---@param other Operand
---@return Tensor
function Tensor:bitwise_or(other) end

---Exclusive or of bits.
---@param other Operand
---@return Tensor
function Tensor:bitwise_xor(other) end

---x shifted left by y bits.
---@param other Operand
---@return Tensor
function Tensor:bitwise_left_shift(other) end

---x shifted right by y bits.
---@param other Operand
---@return Tensor
function Tensor:bitwise_right_shift(other) end

---a where this bool tensor is true, else b.
---@param a Operand
---@param b Operand
---@return Tensor
function Tensor:where(a, b) end

-- end of what is made from ops.def

---The same values in another dtype.
---@param dtype Dtype
---@return Tensor
function Tensor:to(dtype) end

---Sum along dim, or of everything.
---@param dim? integer|integer[]
---@param keepdim? boolean
---@return Tensor
function Tensor:sum(dim, keepdim) end

---Mean along dim, or of everything.
---@param dim? integer|integer[]
---@param keepdim? boolean
---@return Tensor
function Tensor:mean(dim, keepdim) end

---Largest value along dim, or of everything.
---@param dim? integer|integer[]
---@param keepdim? boolean
---@return Tensor
function Tensor:amax(dim, keepdim) end

---Smallest value along dim, or of everything.
---@param dim? integer|integer[]
---@param keepdim? boolean
---@return Tensor
function Tensor:amin(dim, keepdim) end

---Product along dim, or of everything.
---@param dim? integer|integer[]
---@param keepdim? boolean
---@return Tensor
function Tensor:prod(dim, keepdim) end

---Position of the first largest value along dim, or of everything.
---@param dim? integer
---@param keepdim? boolean
---@return Tensor
function Tensor:argmax(dim, keepdim) end

---Position of the first smallest value along dim, or of everything.
---@param dim? integer
---@param keepdim? boolean
---@return Tensor
function Tensor:argmin(dim, keepdim) end

---Variance along dim over n - correction (1) elements.
---@param dim? integer|integer[]
---@param keepdim? boolean
---@param correction? integer
---@return Tensor
function Tensor:var(dim, keepdim, correction) end

---Running sum along dim.
---@param dim integer
---@return Tensor
function Tensor:cumsum(dim) end

---Running product along dim.
---@param dim integer
---@return Tensor
function Tensor:cumprod(dim) end

---Where each element goes when its line along dim (the last) is sorted, i64: 0 for the smallest, or for the largest with
---`descending`. Equal elements keep their order; NaN is the largest, as in PyTorch. `nn.sort` and `nn.topk` are made of it.
---@param dim? integer
---@param descending? boolean
---@return Tensor
function Tensor:rank(dim, descending) end

---The same elements in another shape; one size may be -1.
---@param ... integer|Shape
---@return Tensor
function Tensor:view(...) end

---As view: a graph has no strides to mind.
---@param ... integer|Shape
---@return Tensor
function Tensor:reshape(...) end

---Dimensions start_dim to end_dim as one.
---@param start_dim? integer
---@param end_dim? integer
---@return Tensor
function Tensor:flatten(start_dim, end_dim) end

---Without dimensions of size 1, or without that one.
---@param dim? integer
---@return Tensor
function Tensor:squeeze(dim) end

---With a new dimension of size 1 at dim.
---@param dim integer
---@return Tensor
function Tensor:unsqueeze(dim) end

---Dimension i of the result is dimension dims[i].
---@param ... integer|integer[]
---@return Tensor
function Tensor:permute(...) end

---Two dimensions swapped.
---@param dim0 integer
---@param dim1 integer
---@return Tensor
function Tensor:transpose(dim0, dim1) end

---A matrix transposed.
---@return Tensor
function Tensor:t() end

---Python's start:stop:step along dim.
---@param dim integer
---@param start? integer
---@param stop? integer
---@param step? integer
---@return Tensor
function Tensor:slice(dim, start, stop, step) end

---`length` positions along dim, from start on.
---@param dim integer
---@param start integer
---@param length integer
---@return Tensor
function Tensor:narrow(dim, start, length) end

---One position along dim, without the dimension; positions count from 0.
---@param dim integer
---@param index integer
---@return Tensor
function Tensor:select(dim, index) end

---All positions along dim (0), each without the dimension.
---@param dim? integer
---@return Tensor[]
function Tensor:unbind(dim) end

---Pieces of that size along dim (0), the last may be smaller; or pieces of given sizes.
---@param size integer|integer[]
---@param dim? integer
---@return Tensor[]
function Tensor:split(size, dim) end

---That many pieces along dim (0).
---@param chunks integer
---@param dim? integer
---@return Tensor[]
function Tensor:chunk(chunks, dim) end

---Dimensions of size 1 repeated; -1 keeps a size.
---@param ... integer|Shape
---@return Tensor
function Tensor:expand(...) end

---Expanded to the other's shape.
---@param other Tensor
---@return Tensor
function Tensor:expand_as(other) end

---Before and after of the last dimension, then of the one before it, ….
---@param amounts integer[]
---@param value? number
---@return Tensor
function Tensor:pad(amounts, value) end

---Those dimensions backwards.
---@param ... integer|integer[]
---@return Tensor
function Tensor:flip(...) end

---The windows of `size` elements along dim, `step` (1) apart: dim counts them, and their elements are a last dimension.
---Nothing is copied.
---@param dim integer
---@param size integer
---@param step? integer
---@return Tensor
function Tensor:unfold(dim, size, step) end

---The same values, through which g:grad passes nothing.
---@return Tensor
function Tensor:detach() end

---Matrix product; leading dimensions broadcast, vectors are rows on the left and columns on the right.
---@param other Tensor
---@param options? { precision: "ieee"|"tf32" }
---@return Tensor
function Tensor:matmul(other, options) end

---Rows of this table by an index tensor.
---@param index Tensor
---@return Tensor
function Tensor:embedding(index) end

---A tensor of that many rows into which this one's rows are added.
---@param index Tensor
---@param rows integer
---@return Tensor
function Tensor:index_add(index, rows) end

---The size of dim, or all sizes.
---@param dim? integer
---@return integer|Shape
function Tensor:size(dim) end

---How many dimensions there are.
---@return integer
function Tensor:dim() end

---How many elements there are.
---@return integer
function Tensor:numel() end

--------------------------------------------------------------------------------------------------------------------
-- Graphs

---The graph being built. Every method of a tensor is a function here too: g:where(c, a, b) is c:where(a, b).
---@class Graph: Tensor
local Graph = {}

---Data that changes from run to run.
---@param name string
---@param shape Shape
---@param dtype? Dtype
---@param dist? Dist
---@return Tensor
function Graph:input(name, shape, dtype, dist) end

---A weight: kept between runs, and may be assigned.
---@param name string
---@param shape Shape
---@param dtype? Dtype
---@param dist? Dist
---@return Tensor
function Graph:param(name, shape, dtype, dist) end

---Data that the host hands over in every run: a copy, which is part of the run's time.
---@param name string
---@param shape Shape
---@param dtype? Dtype
---@param dist? Dist
---@return Tensor
function Graph:feed(name, shape, dtype, dist) end

---The numbers of a .npy or .csv file beside the script.
---@param name string
---@param file string
---@param options? FileOptions
---@return Tensor
function Graph:load(name, file, options) end

---A scalar.
---@param value number|boolean
---@param dtype? Dtype
---@return Tensor
function Graph:const(value, dtype) end

---One value everywhere.
---@param shape Shape
---@param value number|boolean
---@param dtype? Dtype
---@return Tensor
function Graph:full(shape, value, dtype) end

---Zeros.
---@param shape Shape
---@param dtype? Dtype
---@return Tensor
function Graph:zeros(shape, dtype) end

---Ones.
---@param shape Shape
---@param dtype? Dtype
---@return Tensor
function Graph:ones(shape, dtype) end

---0, 1, … n - 1, as i64 unless it is said.
---@param n integer
---@param dtype? Dtype
---@return Tensor
function Graph:arange(n, dtype) end

---Random values made by the graph itself.
---@param shape Shape
---@param dtype? Dtype
---@param dist? Dist
---@return Tensor
function Graph:rand(shape, dtype, dist) end

---Joined along dim (0).
---@param tensors Tensor[]
---@param dim? integer
---@return Tensor
function Graph:cat(tensors, dim) end

---Joined along a new dimension (0).
---@param tensors Tensor[]
---@param dim? integer
---@return Tensor
function Graph:stack(tensors, dim) end

---The value becomes the parameter’s when the region ends; all reads see the old one.
---@param param Tensor
---@param value Tensor
---@return Tensor
function Graph:assign(param, value) end

---The gradients of `loss`, one float element, by each of `params`: a list in their order. Any float values will do, not
---only parameters; what the loss does not depend on gets zeros.
---@param loss Tensor
---@param params Tensor[]|Tensor
---@param options? GradOptions how they go back through loops
---@return Tensor[]
function Graph:grad(loss, params, options) end

---Hands a value to the host in every run: a copy, which is part of the run's time.
---@param x Tensor
---@param name? string
---@return Tensor
function Graph:receive(x, name) end

---A result beside what the model returns.
---@param x Tensor
---@param name? string
---@return Tensor
function Graph:output(x, name) end

---A region: what fn builds folds under `name`, or `name[i]` of a repetition.
---@param name string
---@param i integer|fun(): ...
---@param fn? fun(): ...
---@return ...
function Graph:scope(name, i, fn) end

---A framework-level op: what fn builds and returns is one call of a framework. `name` is shown instead of its kind.
---@param kind string
---@param operands Tensor[]
---@param attributes? table
---@param fn fun(): Tensor, ...
---@param name? string
---@return Tensor ...
function Graph:op(kind, operands, attributes, fn, name) end

---`trips` steps: fn(step, …) gives the next values of what is carried; the loop gives the last ones.
---@param trips integer
---@param inits Tensor[]
---@param fn fun(step: Tensor, ...: Tensor): Tensor, ...
---@return Tensor ...
function Graph:loop(trips, inits, fn) end

---A step for each position of dimension 0: fn(items…, carried…) gives { next carried } and { collected };
---the scan gives { last carried } and { collected, stacked }.
---@param tensors Tensor[]
---@param inits Tensor[]
---@param fn fun(...: Tensor): Tensor[], Tensor[]?
---@param options? { backwards?: boolean } from the last position to the first; what is collected lies as the tensors do
---@return Tensor[] carried
---@return Tensor[] stacked
function Graph:scan(tensors, inits, fn, options) end

--------------------------------------------------------------------------------------------------------------------
-- Plans

---An edge between two computed nodes, from Plan:edges().
---@class Edge

---@class Verdict
---@field kind "fine"|"slower"|"unsupported"|"illegal"
---@field text string
---@field before_us? number predicted time of what is concerned
---@field after_us? number
---@field saves_us? number 0 where nothing changes; absent where the edit is illegal or unsupported
---@field saves_bytes integer
---@field saves_launches integer

---@class Cost
---@field us number
---@field launch_us number
---@field floor_us? number
---@field read number bytes
---@field written number bytes
---@field flops number
---@field launches integer

---A plan: begins with every node its own kernel. Nodes are named as in the graph; "feature[*].tanh" is one in every repetition.
---@class Plan
local Plan = {}

---Puts the kernels of both together. Raises the verdict’s sentence when it is refused, as all edits do.
---@param producer string|Edge
---@param consumer? string
---@return Plan
function Plan:fuse(producer, consumer) end

---Takes the consumer, and what depends on it, out of the producer’s kernel.
---@param producer string|Edge
---@param consumer? string
---@return Plan
function Plan:cut(producer, consumer) end

---One kernel for all of these nodes.
---@param ... string|string[]
---@return Plan
function Plan:fuse_all(...) end

---A kernel of its own.
---@param node string
---@return Plan
function Plan:isolate(node) end

---Computes it again in every consumer instead of storing it.
---@param node string
---@return Plan
function Plan:recompute(node) end

---Stores it: undoes recompute.
---@param node string
---@return Plan
function Plan:store(node) end

---Leaves the contraction to the library.
---@param node string
---@return Plan
function Plan:library(node) end

---Generates the contraction.
---@param node string
---@return Plan
function Plan:generate(node) end

---Sets a knob of the node’s kernel; 0 is automatic.
---@param node string
---@param knob string
---@param value integer
---@return Plan
function Plan:knob(node, knob, value) end

---The node’s kernel is the one in a file beside the script, as `fusebox eject` writes it; without a file a generated one
---again.
---@param node string
---@param file? string
---@return Plan
function Plan:kernel(node, file) end

---How the kernels are launched.
---@param mode "stream"|"graph"|"mega"
---@return Plan
function Plan:launch(mode) end

---Copies feeds and receives beside the kernels (true, or nothing) or in order with them (false): beside them, the next
---run's feeds arrive and the results of the one before leave while a run computes. Nothing where nothing is copied.
---@param on? boolean
---@return Plan
function Plan:overlap(on) end

---Makes steps that are written out a loop (true, or nothing), or writes them out again (false). From then on nodes are
---called as in the one or the other: "step[*].matmul", or "step.matmul" and "loop".
---@param on? boolean
---@return Plan
function Plan:roll(on) end

---Begins again with what a preset makes.
---@param name string
---@return Plan
function Plan:preset(name) end

---What an edit would do, without doing it.
---@param edit "fuse"|"cut"|"isolate"|"recompute"|"store"|"library"|"generate"
---@param a string|Edge
---@param b? string
---@return Verdict
function Plan:verdict(edit, a, b) end

---All edges: for e, producer, consumer in pl:edges() do … end.
---@return fun(): Edge, string, string
function Plan:edges() end

---The names of all nodes that kernels compute.
---@return string[]
function Plan:nodes() end

---What the plan is predicted to cost.
---@return Cost
function Plan:cost() end

--------------------------------------------------------------------------------------------------------------------
-- Experiments and puzzles

---@class Case every parameter is a field, too, whether it is swept or not
---@field variant? string
---@field plan? string
---@field device? string
---@field params? table those that are swept

---@class Time low, high: within what the median is known; a prediction has no p10 and p90
---@field median number
---@field n integer
---@field kind "measured"|"recorded"|"composed"|"predicted"
---@field p10? number
---@field p90? number
---@field low number
---@field high number

---@class Report a column of the JSON report; what is not known is absent
---@field failed? string
---@field wall_us? Time
---@field device_us? Time
---@field source? "measured"|"recorded"|"composed"|"predicted"
---@field launches? integer
---@field copies? "in order"|"overlapped"
---@field copy_us? { median: number, p10: number, p90: number, n: integer }
---@field copy_hidden_us? number

---@class Experiment
local Experiment = {}

---All combinations of { variant, plan, device, parameters }, each one value, a list, or "*" for all (not of plans or
---devices); without plans eager and auto.
---@param over table
---@return fun(): Case
function Experiment:sweep(over) end

---Measures one column. `failed` is a sentence where there is no result.
---@param case Case
---@return Report
function Experiment:measure(case) end

---A row of the results.
---@param case Case
---@param values table
function Experiment:row(case, values) end

---A plot of the rows, by the names of their figures: lines over `x`, one for each value of `by`; or, without `x`, a
---ranking, the largest `y` first and the largest of each model (of `by`, else the variants, else the plans), with the
---spread from `low` to `high`. Rankings are printed, `--format svg` draws both; declared before the sweep, the workbench
---draws it as rows come.
---@param options { x: string?, y: string, by: (string|string[])?, log: string?, low: string?, high: string? }
function Experiment:plot(options) end

---@class Why how the difference between two columns splits up
---@field parts table<string, number> µs by cause
local Why = {}

---The key of the part that explains most.
---@return string?
function Why:largest() end

--------------------------------------------------------------------------------------------------------------------
-- nn: require "nn"

---@class nn
local nn = {}

---x Wᵀ + b, W [out, in].
---@param x Tensor
---@param out integer
---@param opts? { bias: (boolean|Tensor)?, name: string?, weight: Tensor? }
---@return Tensor
function nn.linear(x, out, opts) end

---bias + a b, one call.
---@param bias Tensor
---@param a Tensor
---@param b Tensor
---@param opts? { name: string? }
---@return Tensor
function nn.addmm(bias, a, b, opts) end

---Normalises the last dimension; eps 1e-5 unless it is said.
---@param x Tensor
---@param opts? { eps: number?, affine: boolean?, size: integer?, name: string?, weight: Tensor?, bias: Tensor? }
---@return Tensor
function nn.layer_norm(x, opts) end

---exp(x - max) / sum along dim (-1).
---@param x Tensor
---@param dim? integer
---@param opts? { name: string? }
---@return Tensor
function nn.softmax(x, dim, opts) end

---The logarithm of softmax(x, dim).
---@param x Tensor
---@param dim? integer
---@param opts? { name: string? }
---@return Tensor
function nn.log_softmax(x, dim, opts) end

---Values sorted along dim (-1), and where they lay (i64). Equal elements keep their order; NaN is the largest.
---@param x Tensor
---@param dim? integer
---@param opts? { descending: boolean?, name: string? }
---@return Tensor, Tensor
function nn.sort(x, dim, opts) end

---The k largest along dim (-1), or the smallest, in order, and where they lay (i64); of equals the first.
---@param x Tensor
---@param k integer
---@param dim? integer
---@param opts? { largest: boolean?, name: string? }
---@return Tensor, Tensor
function nn.topk(x, k, dim, opts) end

---x / sqrt(mean(x²) + eps) over the last dimension, times a weight; eps 1e-6 unless it is said.
---@param x Tensor
---@param opts? { eps: number?, affine: boolean?, name: string? }
---@return Tensor
function nn.rms_norm(x, opts) end

---@class ConvOptions
---@field stride? integer|integer[]
---@field padding? integer|integer[]|"same"
---@field output_padding? integer|integer[] of transposed ones
---@field dilation? integer|integer[]
---@field groups? integer
---@field bias? boolean|Tensor
---@field weight? Tensor
---@field name? string

---W ∗ x + b over the last 1 dimension of x [batch, channels, …], W [out, channels / groups, kernel…].
---@param x Tensor
---@param out integer channels
---@param kernel integer|integer[]
---@param opts? ConvOptions
---@return Tensor
function nn.conv1d(x, out, kernel, opts) end

---The gradient of nn.conv1d as a layer, W [channels, out / groups, kernel…].
---@param x Tensor
---@param out integer channels
---@param kernel integer|integer[]
---@param opts? ConvOptions
---@return Tensor
function nn.conv_transpose1d(x, out, kernel, opts) end

---The largest of each window.
---@param x Tensor
---@param kernel integer|integer[]
---@param opts? { stride: (integer|integer[])?, padding: (integer|integer[])?, dilation: (integer|integer[])?, name: string? }
---@return Tensor
function nn.max_pool1d(x, kernel, opts) end

---The mean of each window, zeros of the padding included.
---@param x Tensor
---@param kernel integer|integer[]
---@param opts? { stride: (integer|integer[])?, padding: (integer|integer[])?, name: string? }
---@return Tensor
function nn.avg_pool1d(x, kernel, opts) end

---W ∗ x + b over the last 2 dimensions of x [batch, channels, …], W [out, channels / groups, kernel…].
---@param x Tensor
---@param out integer channels
---@param kernel integer|integer[]
---@param opts? ConvOptions
---@return Tensor
function nn.conv2d(x, out, kernel, opts) end

---The gradient of nn.conv2d as a layer, W [channels, out / groups, kernel…].
---@param x Tensor
---@param out integer channels
---@param kernel integer|integer[]
---@param opts? ConvOptions
---@return Tensor
function nn.conv_transpose2d(x, out, kernel, opts) end

---The largest of each window.
---@param x Tensor
---@param kernel integer|integer[]
---@param opts? { stride: (integer|integer[])?, padding: (integer|integer[])?, dilation: (integer|integer[])?, name: string? }
---@return Tensor
function nn.max_pool2d(x, kernel, opts) end

---The mean of each window, zeros of the padding included.
---@param x Tensor
---@param kernel integer|integer[]
---@param opts? { stride: (integer|integer[])?, padding: (integer|integer[])?, name: string? }
---@return Tensor
function nn.avg_pool2d(x, kernel, opts) end

---W ∗ x + b over the last 3 dimensions of x [batch, channels, …], W [out, channels / groups, kernel…].
---@param x Tensor
---@param out integer channels
---@param kernel integer|integer[]
---@param opts? ConvOptions
---@return Tensor
function nn.conv3d(x, out, kernel, opts) end

---The gradient of nn.conv3d as a layer, W [channels, out / groups, kernel…].
---@param x Tensor
---@param out integer channels
---@param kernel integer|integer[]
---@param opts? ConvOptions
---@return Tensor
function nn.conv_transpose3d(x, out, kernel, opts) end

---The largest of each window.
---@param x Tensor
---@param kernel integer|integer[]
---@param opts? { stride: (integer|integer[])?, padding: (integer|integer[])?, dilation: (integer|integer[])?, name: string? }
---@return Tensor
function nn.max_pool3d(x, kernel, opts) end

---The mean of each window, zeros of the padding included.
---@param x Tensor
---@param kernel integer|integer[]
---@param opts? { stride: (integer|integer[])?, padding: (integer|integer[])?, name: string? }
---@return Tensor
function nn.avg_pool3d(x, kernel, opts) end

---Each channel (dimension 1) by its running mean and variance, as in evaluation.
---@param x Tensor
---@param opts? { eps: number?, affine: boolean?, name: string? }
---@return Tensor
function nn.batch_norm(x, opts) end

---Groups of channels of each picture by their own mean and variance.
---@param x Tensor
---@param groups integer
---@param opts? { eps: number?, affine: boolean?, name: string? }
---@return Tensor
function nn.group_norm(x, groups, opts) end

---Gaussian error linear unit.
---@param x Tensor
---@return Tensor
function nn.gelu(x) end

---x where it is positive, else 0.
---@param x Tensor
---@return Tensor
function nn.relu(x) end

---ln(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold.
---@param x Tensor
---@param beta? number
---@param threshold? number
---@return Tensor
function nn.softplus(x, beta, threshold) end

---x where it is positive, else alpha (exp(x) - 1).
---@param x Tensor
---@param alpha? number
---@return Tensor
function nn.elu(x, alpha) end

---x tanh(softplus(x)).
---@param x Tensor
---@return Tensor
function nn.mish(x) end

---x sigmoid(x).
---@param x Tensor
---@return Tensor
function nn.silu(x) end

---Linear layers with an activation (relu) between them.
---@param x Tensor
---@param sizes integer[]
---@param opts? { activation: string?, bias: boolean? }
---@return Tensor
function nn.mlp(x, sizes, opts) end

---Rows of a learnt table by an index tensor.
---@param index Tensor
---@param rows integer
---@param size integer
---@param opts? { name: string?, dtype: Dtype? }
---@return Tensor
function nn.embedding(index, rows, size, opts) end

---softmax(q kᵀ scale + mask) v over the last two dimensions.
---@param q Tensor
---@param k Tensor
---@param v Tensor
---@param opts? { mask: Tensor?, scale: number?, name: string? }
---@return Tensor
function nn.attention(q, k, v, opts) end

---Self-attention of x [N, T, size] in `heads` heads (1): one projection to q, k, v, one of the heads together.
---@param x Tensor
---@param opts? { heads: integer?, mask: Tensor?, name: string?, weights: Tensor[]? }
---@return Tensor y, Tensor[] weights
function nn.multi_head_attention(x, opts) end

---A transformer's encoder layer of x [N, T, size], normalised after each residual; hidden is 4 size, activation relu unless
---it is said.
---@param x Tensor
---@param opts? { heads: integer?, hidden: integer?, activation: string?, mask: Tensor?, name: string?, weights: Tensor[]? }
---@return Tensor y, Tensor[] weights
function nn.encoder_layer(x, opts) end

---A layer that knows its sizes before it sees an input: y = module(x). module(x, weights) takes the values that a loop
---carries instead of its own parameters.
---@class Module
---@overload fun(x: Tensor, weights?: Tensor[]): Tensor
local Module = {}

---Its weights; made on the graph where they are not made yet.
---@param g? Graph
---@param dtype? Dtype
---@return Tensor[]
function Module:parameters(g, dtype) end

---@param inputs integer
---@param outputs integer
---@param opts? { bias: boolean? }
---@return Module
function nn.Linear(inputs, outputs, opts) end

---@param size integer
---@param opts? { eps: number?, affine: boolean? }
---@return Module
function nn.LayerNorm(size, opts) end

---@return Module
function nn.ReLU() end

---@return Module
function nn.GELU() end

---@return Module
function nn.SiLU() end

---@return Module
function nn.Sigmoid() end

---@return Module
function nn.Tanh() end

---@return Module
function nn.Mish() end

---@param beta? number
---@param threshold? number
---@return Module
function nn.Softplus(beta, threshold) end

---@param alpha? number
---@return Module
function nn.ELU(alpha) end

---One module after the other.
---@param ... Module
---@return Module
function nn.Sequential(...) end

---@param d_model integer
---@param nhead integer
---@param opts? { dim_feedforward: integer?, activation: string?, mask: Tensor? }
---@return Module
function nn.TransformerEncoderLayer(d_model, nhead, opts) end

---num_layers layers like this one, each with weights of its own.
---@param layer Module
---@param num_layers integer
---@return Module
function nn.TransformerEncoder(layer, num_layers) end

---The weights of an LSTM cell, to share between steps.
---@param x Tensor
---@param h Tensor
---@param name? string
---@return Tensor[]
function nn.lstm_weights(x, h, name) end

---One step of an LSTM.
---@param x Tensor
---@param h Tensor
---@param c Tensor
---@param opts? { weights: Tensor[]?, name: string? }
---@return Tensor h, Tensor c
function nn.lstm_cell(x, h, c, opts) end

---The weights of a GRU cell, to share between steps.
---@param x Tensor
---@param h Tensor
---@param name? string
---@return Tensor[]
function nn.gru_weights(x, h, name) end

---One step of a GRU.
---@param x Tensor
---@param h Tensor
---@param opts? { weights: Tensor[]?, name: string? }
---@return Tensor
function nn.gru_cell(x, h, opts) end

--------------------------------------------------------------------------------------------------------------------
-- optim: require "optim"

---@class optim
local optim = {}

---One step of gradient descent, assigned to `params`: p - lr v, v = momentum v + gradient + weight_decay p.
---@param g Graph
---@param loss Tensor
---@param params Tensor[]|Tensor
---@param opts { lr: number, momentum: number?, weight_decay: number?, name: string?, through: GradOptions? }
---@return Tensor[] next the new values
function optim.sgd(g, loss, params, opts) end

---One step of Adam, assigned to `params`; lr 0.001, betas { 0.9, 0.999 } and eps 1e-8 unless it is said.
---@param g Graph
---@param loss Tensor
---@param params Tensor[]|Tensor
---@param opts? { lr: number?, betas: number[]?, eps: number?, weight_decay: number?, name: string?, through: GradOptions? }
---@return Tensor[] next the new values
function optim.adam(g, loss, params, opts) end

---@class Optimiser
local Optimiser = {}

---Assigns the new values, or gives the next ones of `values`, which a loop carries. A loss of several elements is summed.
---@param loss Tensor
---@param values? Tensor[]
---@return Tensor[]
function Optimiser:step(loss, values) end

---@param of Module|Tensor[]
---@param opts { lr: number, momentum: number?, weight_decay: number?, name: string?, through: GradOptions? }
---@return Optimiser
function optim.SGD(of, opts) end

---@param of Module|Tensor[]
---@param opts? { lr: number?, betas: number[]?, eps: number?, weight_decay: number?, name: string?, through: GradOptions? }
---@return Optimiser
function optim.Adam(of, opts) end

return fusebox
