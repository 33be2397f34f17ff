#!/bin/sh
# Lessons from outside: what a lesson may hold, with the line of what is wrong; the bundled ones played through on the
# shipped recording; the hand-out and the sheet of questions.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

page() { # NAME TEXT…   the last output is a whole page
    name=$1
    shift
    holds "$name" python3 "$FB_SRCDIR/tests/cli/html_check.py" out "$@"
}

# ---- the bundled ones: a page with a column that is not recorded, an error or a puzzle that cannot be told is a miss
for lesson in lecture puzzles; do
    fb lesson lessons/$lesson --device replay:h200 --check
    is "$lesson: played through without a miss" 0 out '^  1  fine' no 'missed'
    # on a busy machine fusebox says that it waits
    holds "and without a word" sh -c '! grep -v "still waiting for a worker to answer" err'
    fb lesson lessons/$lesson --format csv
    cp out contents
    holds "$lesson: every page was asked" sh -c 'test "$(wc -l <contents)" -ge 10'
done
fb lesson lessons/lecture --format csv
holds "the lecture takes an hour" test "$(awk -F, 'NR > 1 { n += $2 } END { print n }' out)" = 60
for word in split_stack lstm lora dlrm mlp_loop; do
    holds "the lecture comes to $word" grep -q "$word" out
done
fb lesson lessons/puzzles --format csv
holds "the other one is of puzzles alone" test "$(grep -c 'columns$' out)" = 0
fb
is "lessons are listed" 0 out '^lecture +lessons +To fuse' out '^puzzles +lessons'

# ---- what is missing is told, page by page
cat >mine.lua <<'LUA'
return require("fusebox").script {
  params = { n = require("fusebox").int { 4096, min = 1 } },
  model = function(g, p) return g:input("x", { p.n }):tanh():relu() end,
}
LUA
cat >lesson.lua <<'LUA'
local fb = require "fusebox"
return fb.lesson {
  title = "Mine <b>",
  about = "About *it*.",
  pages = {
    fb.page { title = "Text", minutes = 2, text = "One *strong* word & `code <x>`, 2 * 3 * 4.\n\n- an item\n- another\n\n    x = y * z\n" },
    fb.page { title = "Mine", script = "mine", columns = { "none", "max" }, params = { n = 77 },
      text = "Its columns.", answer = "Forty-two.", notes = "Say *this*." },
    fb.page { title = "Asked", puzzle = "split_stack", text = "Why?", answer = "Because." },
  },
}
LUA
fb lesson lesson.lua
is "its contents" 0 out '^   1        2  Text' out '2 .*Mine  +mine +columns' out '3 .*Asked  +split_stack +puzzle'
fb lesson lesson.lua --device replay:h200 --check
is "a column that was never recorded is a miss" 1 out '^  2  missed    Mine' out '^  3  fine' err 'lesson.lua:7: page 2, Mine: none: no figure but a prediction'
sed 's/compare = { .* }/compare = { "split_stack:max", "combined:max" }/' "$FB_SRCDIR/scripts/puzzlers/split_stack.lua" >tie.lua
printf 'local fb = require "fusebox"\nreturn fb.lesson { title = "x", pages = {\n  fb.page { title = "Tie", puzzle = "tie" },\n} }\n' >ties.lua
fb lesson ties.lua --device replay:h200 --check
is "so is a puzzle that cannot be told" 1 out '^  1  missed    Tie' err 'ties.lua:3: page 1, Tie: the puzzle cannot be told'
cat >wrong.lua <<'LUA'
local fb = require "fusebox"
return fb.lesson { title = "Wrong", pages = {
  fb.page { title = "A", script = "mind" },
  fb.page { title = "B", script = "../mine" },
  fb.page { title = "C", script = "mine", columns = { "nome" } },
  fb.page { title = "D", script = "mine", params = { m = 77 } },
  fb.page { title = "E", script = "mine", params = { n = 0 } },
  fb.page { title = "F", puzzle = "mine" },
  fb.page { title = "G", script = "lesson" },
  fb.page { title = "H", script = "split_stack", columns = { "combined:max" }, keys = "Tab Spaec" },
  fb.page { title = "I" },
} }
LUA
fb lesson wrong.lua --check --device replay:h200
is "each page tells what is wrong with it" 1 \
    err 'wrong.lua:3: page 1, A: mind: ' err 'wrong.lua:4: page 2, B: .*relative to the lesson.s folder' err 'wrong.lua:5: page 3, C: .*nome' \
    err 'page 4, D: .*parameter "m"' err 'page 5, E: .*at least 1' err 'page 6, F: mine asks no puzzle' \
    err 'page 7, G: lesson is a lesson, not a script' err 'page 8, H: keys:1: no key "Spaec"' out '^  9  fine'

# ---- errors name the page's line
cat >broken.lua <<'LUA'
local fb = require "fusebox"
print(pcall(fb.page, { title = "x", minuets = 3 }))
print(pcall(fb.page, { title = "x", answer = {} }))
print(pcall(fb.page, { text = "x" }))
print(pcall(fb.page, { title = "x", script = "a", puzzle = "b" }))
print(pcall(fb.page, { title = "x", columns = { "max" } }))
print(pcall(fb.page, { title = "x", script = "a", columns = { {} } }))
print(pcall(fb.page, { title = "x", script = "a", params = { n = {} } }))
print(pcall(fb.page, { title = "x", "text" }))
print(pcall(fb.page, { title = "x", text = ("x"):rep(40000) }))
print(pcall(fb.lesson, { title = "x", pages = { { title = "x" } } }))
print(pcall(fb.lesson, { title = "x", abuot = "y" }))
print(pcall(fb.lesson, { title = "x", pages = {} }))
print(pcall(fb.lesson, { pages = { fb.page { title = "x" } } }))
local p = {}
for i = 1, 300 do p[i] = fb.page { title = "x" } end
print(pcall(fb.lesson, { title = "x", pages = p }))
return fb.lesson { title = "x", pages = {
  fb.page { title = "y" },
  fb.page { title = "z", tilte = "z" },
} }
LUA
fb lesson broken.lua
is "errors name their line" 1 \
    err 'broken.lua:2: fb.page: unknown field "minuets"; did you mean "minutes"' err 'broken.lua:3: fb.page: answer is a table, not a string' \
    err 'broken.lua:4: fb.page: a page has a title' err 'broken.lua:5: fb.page: a page has either a script or a puzzle' \
    err 'broken.lua:6: fb.page: columns without a script' err 'broken.lua:7: fb.page: column 1 is a table' \
    err 'broken.lua:8: fb.page: parameter n is a table' err 'broken.lua:9: fb.page: a value without a name' \
    err 'broken.lua:10: fb.page: text has 40000 bytes' err 'broken.lua:11: fb.lesson: page 1 is a table, not fb.page' \
    err 'broken.lua:12: fb.lesson: unknown field "abuot"; did you mean "about"' err 'broken.lua:13: fb.lesson: there are no pages' \
    err 'broken.lua:14: fb.lesson: a lesson has a title' err 'broken.lua:17: fb.lesson: 300 pages; 200 is the most'
is "and that of the page" 1 err 'fusebox: broken.lua:20: fb.page: unknown field "tilte"; did you mean "title"' err '    20 |   fb.page'

# ---- each kind of file where it belongs
fb run lesson.lua
is "a lesson is no script" 2 err1 'lesson.lua is a lesson: "fusebox lesson" or the workbench shows it'
fb lesson mine.lua
is "a script is no lesson" 2 err1 'mine.lua is a script, not a lesson'
fb lesson lesson.lua --set n=3
is "pages have their own parameters" 2 err1 'a lesson.s pages have their own parameters'
fb lesson lesson.lua --format json
is "another format" 2 err1 'no format "json"; there are: table, csv, markdown, html'
fb lesson lesson.lua --notes
is "notes alone" 2 err1 'notes is for --format html'

# ---- on paper
fb lesson lesson.lua --format html --device replay:h200
is "the hand-out" 0 out '<h2>1  Text</h2>' out '<b>strong</b> word &amp; <code>code &lt;x&gt;</code>, 2 \* 3 \* 4' \
    out '<li>an item' out '<pre>x = y \* z' out '<title>Mine &lt;b&gt;</title>' out '<summary>answer</summary>' out 'Forty-two' no 'Say <b>this'
page "and is a page" "fusebox mine --set n=77"
holds "with the figures of its columns" grep -Eq '<td[^>]*>~[0-9.]+ µs' out
fb lesson lesson.lua --format html --notes --device replay:h200
is "with the presenter's notes" 0 out 'Say <b>this</b>'
fb lesson lessons/lecture --format html --device replay:h200
is "the lecture's" 0 out 'id="page-19"' out '<a href="#page-19">' out 'class="puzzle"' out '<p class="right">' out '<dt>recorded</dt>'
page "is a page" "To fuse or not to fuse" "Stack, then sigmoid: would that help?"
fb lesson lessons/puzzles --printable --device replay:h200
is "the sheet of questions" 0 out '<h2>Puzzle' out '☐ ' no '<details' no 'class="right"' no ' µs</td>' no 'hint 1'
page "is a page, too" "How many times as fast?"
holds "and answers nothing" sh -c '! grep -q "Each feature is launched by itself" out'
fb lesson lesson.lua --printable --device replay:h200
is "a question that is no puzzle has room for its answer" 0 out '<p class="lines">' no 'Forty-two'
done_testing
