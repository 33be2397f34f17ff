/* The workbench from outside: keys in, screen out. Over the session of fake_session.c, whose figures are known. */
#include "harness.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tui/view/command.h"

enum { PATIENCE_MS = 180000 }; /* the machine may be busy */

static const char *program(void)
{
    const char *path = getenv("FAKE_FUSEBOX");
    return path ? path : "tests/terminal/fake_fusebox";
}

/* ---- cases that are a table -----------------------------------------------------------------------------------------
 */

typedef struct {
    const char *name;
    int cols, rows;
    const char *env[3];
    const char *path; /* NULL: the start list */
    const char *keys;
    const char *want[11];
    const char *without[4];
} screen_case;

#define FIRST_SHOWN "110 µs" /* column 1 of demo was measured: 11 launches */

static const screen_case cases[] = {
    {"first screen 80x24",
     80,
     24,
     {NULL},
     "demo",
     "",
     {"graph · split · 1 eager", "feature ×4", "1 eager ◂", "2 max", FIRST_SHOWN, "10.0 µs", "11.0 ×", "kernels of 1",
      "? help"},
     {NULL}},
    {"no answer before its check has ended",
     100,
     30,
     {NULL},
     "unchecked",
     "",
     {FIRST_SHOWN, "error              checking      checking │"},
     {"✓", "✗"}},
    {"and one after it", 100, 30, {NULL}, "unchecked", "@wait m", {FIRST_SHOWN, "1e-7 ✓", "1e-7 ✓"}, {NULL}},
    {"an uncalibrated device's floor is a guess, and the figure says so",
     100,
     30,
     {NULL},
     "demo",
     "Tab j j j j j j",
     {FIRST_SHOWN, "× floor            ~158.5 ×       ~14.4 ×", "is uncalibrated: its rates are guesses"},
     {NULL}},
    {"first screen 100x30",
     100,
     30,
     {NULL},
     "demo",
     "",
     {"uncalibrated", "test machine · stream", FIRST_SHOWN, "1e-7 ✓", "w why"},
     {NULL}},
    {"first screen 250x70",
     250,
     70,
     {NULL},
     "demo",
     "",
     {FIRST_SHOWN, "layer_norm ×4", "P params", "/ find", "q quit"},
     {"too small"}},
    {"smallest screen", 60, 16, {NULL}, "demo", "", {"layer_norm", "110 µs", "? help"}, {"too small"}},
    {"too small", 50, 10, {NULL}, "demo", "", {"terminal too small: 50×10, needs 60×16"}, {"graph"}},
    {"one cell", 1, 1, {NULL}, "demo", "@wait @80x24", {FIRST_SHOWN}, {NULL}},
    {"resize during use",
     100,
     30,
     {NULL},
     "demo",
     "j @80x24 j @50x10 j @120x40 j",
     {FIRST_SHOWN, "layer_norm → tanh"},
     {"too small"}},
    {"resize storm",
     100,
     30,
     {NULL},
     "demo",
     "@60x16 @61x17 j @250x70 k @30x5 @80x24 @81x25 @300x100 @60x16 @100x30",
     {FIRST_SHOWN, "╰─"},
     {"too small"}},
    {"ASCII where the locale has no more",
     80,
     24,
     {"LC_ALL=C", "TERM=screen"},
     "demo",
     "",
     {"graph - split - 1 eager", "feature x4", "110 us", "1e-7 ok", "+-", "1 eager <"},
     {"   ?", "?????"}},
    {"vt100", 80, 24, {"TERM=vt100"}, "demo", "j j j", {FIRST_SHOWN, "layer_norm"}, {NULL}},
    {"linux console", 80, 24, {"TERM=linux"}, "demo", "j", {FIRST_SHOWN}, {NULL}},
    {"screen", 80, 24, {"TERM=screen"}, "demo", "j", {FIRST_SHOWN}, {NULL}},
    {"light theme", 80, 24, {"FUSEBOX_THEME=light"}, "demo", "j", {FIRST_SHOWN}, {NULL}},
    {"verdict before anything is done",
     100,
     30,
     {NULL},
     "demo",
     "j j j j",
     {"layer_norm → tanh · cut", "Space: fuse layer_norm into tanh (×4)", "saves 4 launches", "· wall ", FIRST_SHOWN},
     {NULL}},
    {"toggle fuses all repetitions",
     100,
     30,
     {NULL},
     "demo",
     "j j j j Space",
     {"fused layer_norm into tanh (×4)", "1 mine ◂", "layer_norm → tanh · fused", "70.0 µs", "layer_norm·tanh ×4"},
     {NULL}},
    {"toggle twice cuts again",
     100,
     30,
     {NULL},
     "demo",
     "j j j j Space @wait Space",
     {"cut tanh from layer_norm (×4)", "110 µs"},
     {NULL}},
    {"undo",
     100,
     30,
     {NULL},
     "demo",
     "j j j j Space @wait u",
     {"undone:", "110 µs", "layer_norm → tanh · cut"},
     {NULL}},
    {"redo",
     100,
     30,
     {NULL},
     "demo",
     "j j j j Space @wait u @wait C-r",
     {"done again:", "70.0 µs", "layer_norm → tanh · fused"},
     {NULL}},
    {"nothing to undo", 100, 30, {NULL}, "demo", "u", {"nothing to undo in this column"}, {NULL}},
    {"predicted until it is measured",
     100,
     30,
     {NULL},
     "demo",
     "a j j j j Space",
     {"auto off: m measures", "columns · ~ predicted", "~"},
     {"70.0 µs"}},
    {"m measures", 100, 30, {NULL}, "demo", "a j j j j Space @wait m", {"70.0 µs"}, {NULL}},
    {"the decisions of a preset, from the first on, beside the graph",
     100,
     30,
     {NULL},
     "demo",
     "2 S",
     {"decisions of 2 max · 1 of 39", "╭ graph · split · 2 max[:1]", "1  taken     fuse `layer_norm.mean`",
      "the next edge from the inputs on", "├ taken ", "Space: what if no here?", "bytes not stored"},
     {"kernels of"}},
    {"the decisions beside the graph on a small screen, the decision written out below",
     80,
     24,
     {NULL},
     "demo",
     "2 S j",
     {"╭ graph · split · 2 max[:2]", "decisions of 2 max · 2 of 39", "taken     `layer_norm.",
      "fuse `feature[0].layer_norm.", "Space: what if no here?"},
     {"kernels of"}},
    {"forward and back, one decision after the other",
     100,
     30,
     {NULL},
     "demo",
     "2 S G k k",
     {"decisions of 2 max · 37 of ", "beside it, 2 open:", "├ taken "},
     {NULL}},
    {"decisions of repetitions are one row, as in the graph",
     100,
     30,
     {NULL},
     "demo",
     "2 S G k k k k",
     {"decisions of 2 max · 32 of ", " 9-32  the same for 3 more, 24 decisions",
      "33-36  taken     fuse `tanh` and `stack` ×4"},
     {NULL}},
    {"and one by one",
     100,
     30,
     {NULL},
     "demo",
     "2 S G k k k k x",
     {"decisions of 2 max · 32 of ", "   31  taken ", "   32  taken "},
     {"the same for"}},
    {"Esc leaves the column with all decisions",
     100,
     30,
     {NULL},
     "demo",
     "2 S j j @wait Esc",
     {"graph · split · 2 max ", "2 max ◂"},
     {"decisions of", "max[:"}},
    {"Enter keeps the plan as it is at a decision",
     100,
     30,
     {NULL},
     "demo",
     "2 S j j @wait Enter",
     {"graph · split · 2 max[:3]", "2 max[:3]"},
     {"decisions of"}},
    {"from the start, where nothing is decided",
     100,
     30,
     {NULL},
     "demo",
     "2 S g @wait",
     {"every operation its own kernel", " · 0 of ", "├ start ", "j takes the next decision"},
     {"beside it"}},
    {"what if no here: the procedure goes on without it",
     100,
     30,
     {NULL},
     "demo",
     "2 S g j j Space @wait",
     {"decisions of 2 max[no2] · 2 of ", "declined  fuse `", "├ declined ", "Space: allow it again"},
     {NULL}},
    {"the branch taken to its end is the column's plan",
     100,
     30,
     {NULL},
     "demo",
     "2 S g j j F @wait G @wait Esc",
     {"2 max[no2]", "graph · split · 2 max[no2]"},
     {"decisions of"}},
    {"a refusal is taken back",
     100,
     30,
     {NULL},
     "demo",
     "2 S g j j Space Space @wait",
     {"decisions of 2 max · 2 of ", "taken     fuse `"},
     {"declined"}},
    {"decisions on the smallest screen, in ASCII",
     60,
     16,
     {"LC_ALL=C", "TERM=screen"},
     "demo",
     "2 : steps Enter k",
     {"decisions of 2 max", "taken     fuse `"},
     {"?????"}},
    {"no decisions where no preset made the plan",
     100,
     30,
     {NULL},
     "demo",
     "j j j j Space S",
     {"steps: plan mine is not made by a preset"},
     {"decisions of"}},
    {"refuse outside of the decisions", 100, 30, {NULL}, "demo", "F", {"refuse: go to a decision first"}, {NULL}},
    {"why the second column is faster",
     100,
     30,
     {NULL},
     "demo",
     "w",
     {"why · 1 eager → 2 max", "1 wall", "launches", "-20.0 µs     20 %", "2 wall", "wall: faster: 11 ×",
      "the largest part that is: bytes: ", "╚ bytes ═"},
     {"spills", "dispatch"}},
    {"why on the smallest screen, in ASCII",
     60,
     16,
     {"LC_ALL=C", "TERM=screen"},
     "demo",
     "w k",
     {"why - 1 eager -> 2 max", "###", "-20.0 us     20 %", "11 -> 1 launches: 22.0 us -> 2.0 us", "2 wall"},
     {"?????"}},
    {"why of two that are the same",
     100,
     30,
     {NULL},
     "demo",
     "2 : \"plan eager\" Enter @wait w",
     {"why · 1 eager → 2 eager", "wall: the same within", "launches", "bytes"},
     {"faster"}},
    {"why before it is measured",
     100,
     30,
     {NULL},
     "demo",
     "a 2 : \"plan eager\" Enter @wait w",
     {"eager has not been measured yet"},
     {"1 wall"}},
    {"why of a column alone",
     100,
     30,
     {NULL},
     "demo",
     "2 X @wait w",
     {"there is one column alone: A adds another"},
     {"1 wall"}},
    {"to the producer and back",
     100,
     30,
     {NULL},
     "demo",
     "/ \"relu\" Enter J",
     {"╚ linear → relu · cut · edge "},
     {NULL}},
    {"and back again", 100, 30, {NULL}, "demo", "/ \"relu\" Enter J J", {"╚ linear → relu · cut ═", "relu = "}, {NULL}},
    {"marked rows become one kernel, in each repetition",
     100,
     30,
     {NULL},
     "demo",
     "j j j M M",
     {"╚ 2 marked ═", "*  ┊ ▸ layer_norm", "*╭─┊   tanh",
      "Space: fuse the 2 marked rows · saves 4 launches, ~32.8 kB · wall"},
     {NULL}},
    {"and they are fused",
     100,
     30,
     {NULL},
     "demo",
     "j j j M M g Space",
     {"fused the 2 marked rows in each repetition", "1 mine ◂", "layer_norm·tanh ×4"},
     {"marked ─", "*  ┊", "*╭─┊"}},
    {"Esc forgets marks", 100, 30, {NULL}, "demo", "j j j M Esc", {"layer_norm → tanh"}, {"marked", "*"}},
    {"one mark is not enough", 100, 30, {NULL}, "demo", "j j j M Space", {"toggle: one row alone is marked"}, {NULL}},
    {"edges are chosen", 100, 30, {NULL}, "demo", "j j j j ]", {"tanh → stack", "edge 2 of 2"}, {NULL}},
    {"an edge back", 100, 30, {NULL}, "demo", "j j j j [", {"tanh → stack", "edge 2 of 2"}, {NULL}},
    {"a command that is off says why",
     100,
     30,
     {NULL},
     "demo",
     "g Space",
     {"toggle: no kernel edge starts or ends here"},
     {NULL}},
    {"the first key edits: work begins where something can be fused, in a column that can be edited",
     100,
     30,
     {NULL},
     "recorded",
     "@wait Space",
     {"fused all of feature (×4)", "graph · split · 2 mine", "2 mine ◂"},
     {"toggle:"}},
    {"a column that plans for itself says which can be edited",
     100,
     30,
     {NULL},
     "recorded",
     "1 Space",
     {"toggle: torch:h200 makes its own plan; columns 2, 3 can be edited: press 2", "PyTorch 2.11.0"},
     {NULL}},
    {"and says so before a key is pressed",
     80,
     24,
     {NULL},
     "recorded",
     "1",
     {"torch:h200 makes its own plan; columns 2, 3 can be edited: press 2", "1 eager ◂", "fusebox  recorded"},
     {NULL}},
    {"no column that can be edited",
     100,
     30,
     {NULL},
     "recorded",
     "X X @wait Space",
     {"toggle: torch:h200 makes its own plan; A adds a column that can be edited"},
     {NULL}},
    {"titles tell device and figures, 80x24",
     80,
     24,
     {NULL},
     "recorded",
     "",
     {"2 eager ◂", "torch:h200          host", "recorded      measured"},
     {"eager…", "torch:…", "recor…"}},
    {"titles tell device and figures, 100x30",
     100,
     30,
     {NULL},
     "recorded",
     "@wait a Space",
     {"2 mine ◂", "torch:h200", " recorded", " predicted", " measured", "auto off: m measures"},
     {"torch:…"}},
    {"kernels of a framework by their short names, whole below",
     100,
     30,
     {NULL},
     "recorded",
     "1 Tab Tab",
     {"  vectorized_kernel ", "├ vectorized_kernel ─", "recorded 8.0 µs",
      "void at::native::vectorized_kernel<4, float>(int)"},
     {NULL}},
    {"why says of both columns what their figures are",
     100,
     30,
     {NULL},
     "recorded",
     "@wait : \"why 1\" Enter g",
     {"(times: recorded → measured)", "(recorded → measured)", "not known"},
     {NULL}},
    {"from a part of the difference to the kernel behind it",
     100,
     30,
     {NULL},
     "demo",
     "w Enter",
     {"kernels of 1", "reduce kernel, 4 launches"},
     {"why ·"}},
    {"why speaks of plans on one device first",
     100,
     30,
     {NULL},
     "recorded",
     "@wait 3 w",
     {"why · 2 eager → 3 max", "wall: faster: 11 ×"},
     {"(times"}},
    {"what there is to choose from is shown",
     100,
     30,
     {NULL},
     "demo",
     "p",
     {":plan NAME", "none  eager  max  inductor"},
     {NULL}},
    {"L passes over modes that the device has not",
     100,
     30,
     {NULL},
     "demo",
     "L",
     {"unsupported: ", "launches no graphs"},
     {NULL}},
    {"a view says how to leave it", 80, 24, {NULL}, "demo", "P", {"? help  Esc back"}, {"q quit"}},
    {"a calibration in doubt",
     100,
     30,
     {NULL},
     "recorded",
     "Tab G k",
     {"calibration doubted", "The calibration of host is doubted", "C calibrates again"},
     {NULL}},
    {"unfolding",
     100,
     30,
     {NULL},
     "demo",
     "j j j l j",
     {"variance", "normalised", "feature[0].layer_norm.mean = mean(view)"},
     {NULL}},
    {"folding from inside", 100, 30, {NULL}, "demo", "j j j l j j h h", {"▸ layer_norm"}, {"variance"}},
    {"members one by one", 100, 30, {NULL}, "demo", "x", {"feature[0]", "feature[3]"}, {NULL}},
    {"a scope is taken apart and fused again",
     100,
     30,
     {NULL},
     "demo",
     "j j j [",
     {"inside layer_norm · fused · edge 2 of 2", "Space: take layer_norm apart (×4)", "adds 24 launches"},
     {NULL}},
    {"a scope is fused as one",
     100,
     30,
     {NULL},
     "demo",
     "j j j [ Space @wait",
     {"took layer_norm apart (×4)", "inside layer_norm · cut", "350 µs"},
     {NULL}},
    {"what was toggled stays chosen",
     100,
     30,
     {NULL},
     "demo",
     "j j j [ Space @wait Space @wait",
     {"fused all of layer_norm (×4)", "inside layer_norm · fused", "110 µs"},
     {NULL}},
    {"one member alone is toggled",
     100,
     30,
     {NULL},
     "demo",
     "x j j j j j Space",
     {"fused layer_norm into tanh · wall 110 → ~", "100 µs", "┗", "b╶", "c╶"},
     {"(×4)"}},
    {"find", 100, 30, {NULL}, "demo", "/ \"stack\" Enter", {"tanh → stack", "stack = stack(tanh"}, {NULL}},
    {"find opens what is folded",
     100,
     30,
     {NULL},
     "demo",
     "/ \"variance\" Enter",
     {"feature[0].layer_norm.variance = mean"},
     {NULL}},
    {"find next wraps", 100, 30, {NULL}, "demo", "/ \"tanh\" Enter n n", {"feature[0].tanh = tanh"}, {NULL}},
    {"find in vain", 100, 30, {NULL}, "demo", "/ \"nowhere\" Enter", {"no row here holds \"nowhere\""}, {NULL}},
    {"help", 100, 40, {NULL}, "demo", "?", {"Fusing and cutting", "toggle", "C-r", "redo"}, {NULL}},
    {"F1", 80, 24, {NULL}, "demo", "F1", {"Fusing and cutting"}, {NULL}},
    {"help comes back", 80, 24, {NULL}, "demo", "? q", {FIRST_SHOWN}, {"Fusing and cutting"}},
    {"help says why a command is off", 100, 30, {NULL}, "demo", "g ?", {"off now: no kernel edge"}, {NULL}},
    {"help is searched",
     100,
     30,
     {NULL},
     "demo",
     "? / \"suspend\" Enter",
     {"go back to the shell", ":suspend"},
     {NULL}},
    {"add a column",
     100,
     30,
     {NULL},
     "demo",
     ": \"add combined:none\" Enter",
     {"3 none", "kernels of 3", "graph · combined · 3 none", "110 µs"},
     {NULL}},
    {"a wrong plan", 100, 30, {NULL}, "demo", ": \"add split:nonsense\" Enter", {"no plan \"nonsense\""}, {"3 "}},
    {"no such command",
     100,
     30,
     {NULL},
     "demo",
     ": \"frobnicate\" Enter",
     {"no command \"frobnicate\"; ? lists them"},
     {NULL}},
    {"a second line of the box that is long has both, where there is no first",
     60,
     16,
     {NULL},
     "endless",
     "d",
     {"in another column ·", "Y copies · Esc back"},
     {NULL}},
    {"the command that was meant",
     100,
     30,
     {NULL},
     "demo",
     ": \"measrue\" Enter",
     {"did you mean \"measure\"?"},
     {NULL}},
    {"a command's beginning is enough", 100, 30, {NULL}, "demo", ": \"und\" Enter", {"nothing to undo"}, {NULL}},
    {"completion",
     100,
     30,
     {NULL},
     "demo",
     ": \"zo\" Tab Enter",
     {"graph · split · 1 eager", "q quit"},
     {"kernels of 1"}},
    {"completion of plans", 100, 30, {NULL}, "demo", ": \"plan no\" Tab Enter", {"1 none"}, {NULL}},
    {"the prompt shows what a command takes",
     100,
     30,
     {NULL},
     "demo",
     ": \"add \"",
     {":add [VARIANT:]PLAN[@DEVICE][#VALUES]"},
     {NULL}},
    {"Esc leaves the prompt", 100, 30, {NULL}, "demo", ": \"quit\" Esc", {"q quit"}, {":quit"}},
    {"commands typed before", 100, 30, {NULL}, "demo", ": \"undo\" Enter : Up", {":undo"}, {NULL}},
    {"another column", 100, 30, {NULL}, "demo", "2", {"graph · split · 2 max", "2 max ◂", "kernels of 2"}, {NULL}},
    {"no such column", 100, 30, {NULL}, "demo", "7", {"no column 7: there are 2"}, {NULL}},
    {"another variant", 100, 30, {NULL}, "demo", "v", {"graph · combined · 1 eager", "combined"}, {"feature"}},
    {"drop a column", 100, 30, {NULL}, "demo", "X", {"graph · split · 1 max"}, {"2 max"}},
    {"a copied column", 100, 30, {NULL}, "demo", "2 c", {"3 max ◂"}, {NULL}},
    {"columns change places", 100, 30, {NULL}, "demo", ">", {"graph · split · 2 eager"}, {NULL}},
    {"more rows",
     100,
     50,
     {NULL},
     "demo",
     "+",
     {"predicted", "cold", "p10–p90", "109–111 µs", "peak memory", "compiled in", "read modelled", "wrote measured",
      "registers                42", "occupancy              75 %", "floor"},
     {NULL}},
    {"more rows than there is room for", 80, 24, {NULL}, "demo", "+ Tab G", {"compiled in"}, {"wall  ", "↓"}},
    {"where rows go on below", 80, 24, {NULL}, "demo", "+", {"wall  ", "↓"}, {"compiled in"}},
    {"a row explains itself",
     100,
     30,
     {NULL},
     "demo",
     "Tab j",
     {"How many times as fast as column 1; same: within"},
     {NULL}},
    {"the same", 100, 30, {NULL}, "demo", ": \"add split:eager\" Enter", {"same"}, {NULL}},
    {"kernels",
     100,
     30,
     {NULL},
     "demo",
     "Tab Tab",
     {"reduce kernel, 4 launches", "modelled: reads", "32 registers, occupancy 75 %"},
     {NULL}},
    {"zoom", 100, 30, {NULL}, "demo", "z", {"graph · split"}, {"kernels of 1"}},
    {"zoom and back", 100, 30, {NULL}, "demo", "z _", {"graph · split", "kernels of 1"}, {NULL}},
    {"source",
     100,
     30,
     {NULL},
     "demo",
     "j j j Enter",
     {"source · a layer_norm", "reduce: mean, variance reduce rows, and all of a row's work", "layer_norm",
      " PTX  SASS  resources  diff  plan as Lua"},
     {"kernels of 1"}},
    {"the next kernel's source",
     100,
     30,
     {NULL},
     "demo",
     "j j j Enter @wait ]",
     {"source · b tanh", "pointwise: 1 operation, every element by itself"},
     {"kernels of 1"}},
    {"the last kernel's source",
     100,
     30,
     {NULL},
     "demo",
     "j j j Enter @wait ] ] ] ] ] ]",
     {"source · e relu", "that is the last kernel"},
     {NULL}},
    {"source beside the graph",
     160,
     40,
     {NULL},
     "demo",
     "j j j Enter / \"float square\" Enter",
     {"graph · split · 1 eager", "source · a layer_norm", "feature[0].layer_norm.square = mul", "┴╚"},
     {"kernels of 1"}},
    {"Esc comes back from the source", 100, 30, {NULL}, "demo", "j j j Enter Esc", {"kernels of 1"}, {"source ·"}},
    {"log, cleaned", 100, 30, {NULL}, "demo", "!", {"hello from the script?[31m ?"}, {NULL}},
    {"parameters",
     100,
     30,
     {NULL},
     "demo",
     "P",
     {"batch_size", "1 … 64, step x2", "rows of a feature · default 16"},
     {NULL}},
    {"a parameter is changed", 100, 30, {NULL}, "demo", "P l", {"batch_size            32"}, {NULL}},
    {"a parameter at its end", 100, 30, {NULL}, "demo", "P l l l", {"batch_size goes no further"}, {NULL}},
    {"columns follow a parameter", 100, 30, {NULL}, "demo", "P l Esc", {"[32,64]", FIRST_SHOWN}, {NULL}},
    {"set at the prompt", 100, 30, {NULL}, "demo", ": \"set batch_size=8\" Enter", {"[8,64]"}, {NULL}},
    {"set what is not there", 100, 30, {NULL}, "demo", ": \"set x=8\" Enter", {"no parameter \"x\""}, {NULL}},
    {"launch mode", 100, 30, {NULL}, "demo", ": \"launch graph\" Enter", {"test machine"}, {NULL}},
    {"no such device", 100, 30, {NULL}, "demo", ": \"device cuda:9\" Enter", {"no device \"cuda:9\" here"}, {NULL}},
    {"a key that is none", 100, 30, {NULL}, "demo", "&", {"& is no key here"}, {NULL}},
    {"script error",
     100,
     30,
     {NULL},
     "broken",
     "",
     {"the script has an error", "broken:3: matmul: inner sizes 4 and 5 differ", "r loads it again"},
     {NULL}},
    {"the workbench stays after a script error",
     100,
     30,
     {NULL},
     "broken",
     "Esc",
     {"graph", "columns", "q quit"},
     {"has an error"}},
    {"off without a script", 100, 30, {NULL}, "broken", "Esc m", {"measure: the script has not been loaded"}, {NULL}},
    {"another script after an error",
     100,
     30,
     {NULL},
     "broken",
     ": \"open demo\" Enter",
     {FIRST_SHOWN},
     {"has an error"}},
    {"open what is not there",
     100,
     30,
     {NULL},
     "demo",
     ": \"open nowhere\" Enter",
     {"nowhere: no such script", FIRST_SHOWN, "fusebox  demo"},
     {"puzzlers, models"}},
    {"start list",
     100,
     30,
     {NULL},
     NULL,
     "",
     {"puzzlers, models, lessons, recent files", "split_stack", "Enter opens"},
     {NULL}},
    {"a puzzle asks for a prediction first",
     100,
     30,
     {NULL},
     "puzzle",
     "",
     {"puzzle · A demonstration", "Why is max faster?", "  split:eager", "│ split:max",
      "│ 1 kernel:", "1 ○ It launches fewer kernels.", "predict first", "runs once you have predicted"},
     {"110 µs", "Twenty microseconds"}},
    {"no run without a prediction", 100, 30, {NULL}, "puzzle", "G k k Enter", {"choose an answer first"}, {"110 µs"}},
    {"no run without a guess", 100, 30, {NULL}, "puzzle", "2 j Enter", {"guess the speed-up first"}, {"110 µs"}},
    {"a puzzle answered right",
     100,
     30,
     {NULL},
     "puzzle",
     "2 l l l l l l l l j Enter",
     {"2 ✓ It moves fewer bytes.", "Right.",
      "110 µs → 10.0 µs: 11.00 times as fast; you guessed 10, which is as good as right", "Twenty microseconds",
      "bytes", "-20.0 µs", "To the workbench"},
     {"Not here", "A hint"}},
    {"a puzzle answered wrong",
     80,
     24,
     {NULL},
     "puzzle",
     "1 l j Enter",
     {"1 ✗ It launches fewer kernels.", "2 ✓ It moves fewer bytes.", "Not here.", "off by"},
     {"Right."}},
    {"hints come one at a time",
     100,
     30,
     {NULL},
     "puzzle",
     "G k Enter",
     {"hint 1: Count the launches.", "Another hint"},
     {"Press w"}},
    {"all hints",
     100,
     30,
     {NULL},
     "puzzle",
     "G k Enter Enter Enter Enter",
     {"hint 2: Press w.", "No more hints", "predict first"},
     {"nother hint"}},
    {"from the answer to the waterfall",
     100,
     30,
     {NULL},
     "puzzle",
     "2 l j Enter @wait @wait @wait j Enter",
     {"why · 1 eager → 2 max", "wall: faster: 11 ×"},
     {"Right."}},
    {"the workbench without an answer",
     100,
     30,
     {NULL},
     "puzzle",
     "Esc",
     {"kernels of 1", "110 µs"},
     {"predict first", "auto off"}},
    {"back to the puzzle", 100, 30, {NULL}, "puzzle", "Esc t", {"Why is max faster?", "predict first"}, {NULL}},
    {"best is hidden until the puzzle is answered",
     100,
     30,
     {NULL},
     "puzzle",
     "Esc : \"add split:best\" Enter",
     {"hidden until the puzzle is answered"},
     {"3 best"}},
    {"nor does a search find it",
     100,
     30,
     {NULL},
     "puzzle",
     "Esc B",
     {"hidden until the puzzle is answered"},
     {"searching", "1 best"}},
    {"nor as a column's plan",
     100,
     30,
     {NULL},
     "puzzle",
     "Esc : \"plan best\" Enter",
     {"hidden until the puzzle is answered"},
     {"searching", "1 best"}},
    {"nor does the prompt offer it",
     100,
     30,
     {NULL},
     "puzzle",
     "Esc : \"plan \" Tab @wait",
     {"none  eager", "inductor"},
     {"best"}},
    {"the prompt offers best where nothing is asked",
     100,
     30,
     {NULL},
     "demo",
     ": \"plan \" Tab",
     {"none  eager", "  best"},
     {NULL}},
    {"kernels that took longer than the run say so",
     100,
     30,
     {NULL},
     "demo",
     "v @wait m @wait @wait @wait Tab j j j",
     {"µs?", "More than wall: the kernels were timed one by one"},
     {NULL}},
    {"no puzzle", 100, 30, {NULL}, "demo", "t", {"puzzle: the script asks no puzzle"}, {NULL}},
    {"a puzzle on the smallest screen",
     60,
     16,
     {"LC_ALL=C", "TERM=screen"},
     "puzzle",
     "2 l j Enter",
     {"Right.", "2 ok It moves fewer bytes."},
     {"?????"}},
    {"the compared device is not there",
     100,
     30,
     {NULL},
     "elsewhere",
     "1 l j Enter",
     {"no device \"torch\"", "Compare the same with our own eager plans"},
     {NULL}},
    {"the same with our own plans",
     100,
     30,
     {NULL},
     "elsewhere",
     "1 l j Enter @wait @wait Enter",
     {"compared: split:eager → combined:eager", "times as fast; you guessed 2"},
     {"torch\""}},
    {"history",
     100,
     30,
     {NULL},
     "demo",
     "H",
     {"history · 2 by when", "× floor", "split:eager@host", "split:max@host", "batch_size=16", "110 µs", "10.0 µs"},
     {"kernels of 1"}},
    {"history, sorted by time", 80, 24, {NULL}, "demo", "H : \"sort -wall\" Enter", {"2 by wall ↓"}, {NULL}},
    {"history, the next field", 80, 24, {NULL}, "demo", "H , ,", {"2 by column ↑"}, {NULL}},
    {"history, no such field", 80, 24, {NULL}, "demo", "H : \"sort size\" Enter", {"no field \"size\""}, {NULL}},
    {"history, filtered",
     80,
     24,
     {NULL},
     "demo",
     "H f \"split max\" Enter",
     {"history · 1 by when", "only \"split max\"", "split:max@host"},
     {"split:eager@host"}},
    {"history, filtered away", 80, 24, {NULL}, "demo", "H f \"nothing\" Enter", {"no row passes the filter"}, {NULL}},
    {"history, a case opened again", 100, 30, {NULL}, "demo", "H Enter", {"3 max", "kernels of 3"}, {NULL}},
    {"history keeps edited plans",
     100,
     30,
     {NULL},
     "demo",
     "j j j j Space @wait @wait H",
     {"history · 3 by when", "split:mine@host", "70.0 µs"},
     {NULL}},
    {"a results file that is not there",
     100,
     30,
     {NULL},
     "demo",
     ": \"history /nowhere.jsonl\" Enter",
     {"/nowhere.jsonl: No such file"},
     {NULL}},
    {"a plot of time against bytes",
     100,
     30,
     {NULL},
     "demo",
     "O",
     {"time against bytes moved", "kB", "µs", " 1", " 2", "FLOPs a byte", "digits: columns", "line: a guessed limit"},
     {"kernels of 1"}},
    {"a plot has no line where the calibration is doubted",
     80,
     24,
     {NULL},
     "recorded",
     "O",
     {"time against bytes moved", "earlier ones, no line: doubted"},
     {NULL}},
    {"the roofline", 100, 30, {NULL}, "demo", "O l", {"roofline", "FLOPs/byte", "FLOP/s"}, {NULL}},
    {"a plot in ASCII",
     60,
     16,
     {"LC_ALL=C", "TERM=screen"},
     "demo",
     "O",
     {"time against bytes moved", "us"},
     {"?????"}},
    {"a plot of results", 80, 24, {NULL}, "demo", "H O", {"time against bytes moved · results"}, {NULL}},
    {"plan as Lua",
     100,
     30,
     {NULL},
     "demo",
     "j j j j Space y",
     {"plan as Lua", "mine = function(pl)", "pl:fuse", "end,"},
     {NULL}},
    {"diff of two plans' source",
     100,
     30,
     {NULL},
     "demo",
     "2 s Tab Tab Tab Tab @wait",
     {"diff · 1 eager → 2 max"},
     {NULL}},
    {"a line and its node", 100, 30, {NULL}, "demo", "j j j l j j Enter", {"source · a layer_norm", "centred"}, {NULL}},
    {"from a line back to the graph",
     100,
     30,
     {NULL},
     "demo",
     "/ \"variance\" Enter Enter @wait / \"sqrt\" Enter Enter",
     {"kernels of 1", "rsqrt"},
     {"source ·"}},
    {"columns sorted by a row",
     100,
     30,
     {NULL},
     "demo",
     "Tab ,",
     {"columns sorted by wall", "1 max", "2 eager ◂"},
     {NULL}},
    {"a row hidden", 100, 30, {NULL}, "demo", "Tab j j #", {"vs 1", "device busy"}, {"launches  "}},
    {"timeline",
     100,
     30,
     {NULL},
     "demo",
     "T",
     {"timeline · 1 eager · 11 launches, busy 80 %", "launches            ▪", "kernels", "SM active      7", "% ·▄████",
      "gap before", "2.0 µs", "8.0 µs", "on stream 7", "its call took 1.0 µs", "idle                █"},
     {"being traced"}},
    {"the launch's source beside its stretch",
     100,
     30,
     {NULL},
     "demo",
     "T @wait @wait l",
     {"│ /* layer_norm", "│  * reduce: rows are reduced", "a  kernel", "12.0 µs"},
     {"being traced"}},
    {"lanes of what was sampled, and their means",
     100,
     30,
     {NULL},
     "demo",
     "T @wait @wait",
     {"DRAM read ", "% ·▁▁▁▁▁▁·", "▇", "tensor pipe     0 % ··········", "warp occupancy 3", "·▅▅▅▅▅",
      "lanes: share of the peak"},
     {"being traced"}},
    {"timeline, zoomed",
     80,
     24,
     {NULL},
     "demo",
     "T @wait @wait j j + + +",
     {"busy 80 % · ×8", "█████", "·······███████████████████", "tensor pipe     0 % ·····"},
     {NULL}},
    {"timeline in ASCII",
     60,
     16,
     {"LC_ALL=C", "TERM=screen"},
     "demo",
     "T",
     {"timeline - 1 eager", "gap before"},
     {"?????"}},
    {"20,000 nodes", 120, 40, {NULL}, "big", "", {"layer_0", "layer_20", "20000"}, {NULL}},
    {"20,000 nodes, at the end", 120, 40, {NULL}, "big", "G l j", {"layer_1999", "layer_1998"}, {NULL}},
    {"20,000 nodes, found",
     120,
     40,
     {NULL},
     "big",
     "/ \"layer_1234.tanh\" Enter",
     {"layer_1234.tanh = tanh(relu)"},
     {NULL}},
};

/* cmocka cuts long messages, so the screen goes to stderr. */
#define FAIL_WITH_SCREEN(t, ...)                                                                                       \
    do {                                                                                                               \
        fprintf(stderr, "%s", term_screen(t));                                                                         \
        fail_msg(__VA_ARGS__);                                                                                         \
    } while (0)

/* The first line between the header and the keys that does not end in a frame's sign at the last column; 0: none. */
static int open_row(term *t, const screen_case *c)
{
    static const char *const ends[] = {"╮", "│", "┤", "╯", "╗", "║", "╝", "+", "|", "#"};
    for (int row = 1; row < c->rows - 1; row++) {
        const char *line = term_row(t, row);
        bool good = false;
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            size_t n = strlen(line), m = strlen(ends[i]);
            good |= n >= m && !strcmp(line + n - m, ends[i]);
        }
        if (!good) return row;
    }
    return 0;
}

/* Frames close. One that is drawn afresh arrives in pieces. */
static void check_frame(term *t, const screen_case *c)
{
    int row = 0;
    if (c->rows < 16 || c->cols < 60 || strstr(c->keys, "@")) return;
    for (int ms = 0; ms < PATIENCE_MS && (row = open_row(t, c)); ms += 50) term_rest(t, 50, 50);
    if (row) fail_msg("%s: row %d does not end in a frame: %s", c->name, row, term_row(t, row));
}

/* On a busy machine the last key may not have been answered yet. */
static bool term_gone(term *t, const char *text, int limit_ms)
{
    for (int ms = 0; ms < limit_ms && term_shows(t, text); ms += 50) term_rest(t, 50, 50);
    return !term_shows(t, text);
}

static void run_case(void **state)
{
    const screen_case *c = *state;
    const char *argv[] = {program(), c->path, NULL}, *env[6] = {NULL};
    char folder[] = "/tmp/fb-terminal-XXXXXX", state_home[64], config_home[64];
    int n_env = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(state_home, sizeof state_home, "XDG_STATE_HOME=%s/state", folder);
    snprintf(config_home, sizeof config_home, "XDG_CONFIG_HOME=%s/config", folder);
    for (int i = 0; i < 3 && c->env[i]; i++) env[n_env++] = c->env[i];
    env[n_env++] = state_home;
    env[n_env++] = config_home;
    term *t = term_start(c->rows, c->cols, env, argv);
    const char *ready = !strcmp(c->name, "one cell") || c->cols < 60                            ? "t"
                        : c->path && (!strcmp(c->path, "demo") || !strcmp(c->path, "recorded")) ? "110"
                                                                                                : "? help";
    if (!term_wait(t, ready, PATIENCE_MS)) FAIL_WITH_SCREEN(t, "%s: nothing was drawn", c->name);
    term_keys(t, c->keys);
    for (int i = 0; i < 11 && c->want[i]; i++)
        if (!term_wait(t, c->want[i], PATIENCE_MS)) FAIL_WITH_SCREEN(t, "%s: no \"%s\"", c->name, c->want[i]);
    term_rest(t, 60, 2000);
    for (int i = 0; i < 11 && c->want[i]; i++)
        if (!term_shows(t, c->want[i])) FAIL_WITH_SCREEN(t, "%s: \"%s\" did not stay", c->name, c->want[i]);
    for (int i = 0; i < 4 && c->without[i]; i++)
        if (term_shows(t, c->without[i]) && !term_gone(t, c->without[i], PATIENCE_MS / 4))
            FAIL_WITH_SCREEN(t, "%s: \"%s\" is on", c->name, c->without[i]);
    check_frame(t, c);
    term_signal(t, SIGTERM);
    assert_true(term_end(t, PATIENCE_MS) != -1);
    term_free(t);
    drop_tree(folder);
}

/* ---- cases of their own ---------------------------------------------------------------------------------------------
 */

static char own_folder[] = "/tmp/fb-terminal-XXXXXX", own_state[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(own_folder)) return -1;
    snprintf(own_state, sizeof own_state, "XDG_STATE_HOME=%s/state", own_folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    drop_tree(own_folder);
    return 0;
}

static term *start(int rows, int cols, const char *env, const char *path, const char *ready)
{
    const char *envs[] = {own_state, env, NULL}, *argv[] = {program(), path, NULL};
    term *t = term_start(rows, cols, envs, argv);
    if (ready && !term_wait(t, ready, PATIENCE_MS)) FAIL_WITH_SCREEN(t, "no \"%s\"", ready);
    return t;
}

static void assert_given_back(term *t)
{
    assert_false(term_on_alternate(t));
    assert_true(term_cursor_visible(t));
    assert_true(term_canonical(t));
}

static void quits(void **state)
{
    (void)state;
    term *t = start(24, 80, NULL, "demo", FIRST_SHOWN);
    assert_true(term_on_alternate(t));
    assert_false(term_cursor_visible(t));
    term_keys(t, "q");
    assert_int_equal(term_end(t, PATIENCE_MS), 0);
    assert_given_back(t);
    term_free(t);
}

static void given_back_after_signal(int number)
{
    term *t = start(24, 80, NULL, "demo", FIRST_SHOWN);
    term_signal(t, number);
    int status = term_end(t, PATIENCE_MS);
    assert_true(WIFSIGNALED(status) || WIFEXITED(status));
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), number);
    else
        assert_true(WEXITSTATUS(status) != 0); /* a sanitizer reports the crash and exits */
    assert_given_back(t);
    term_free(t);
}

static void given_back_after_sigterm(void **state)
{
    (void)state;
    given_back_after_signal(SIGTERM);
}

static void given_back_after_sighup(void **state)
{
    (void)state;
    given_back_after_signal(SIGHUP);
}

static void given_back_after_sigint(void **state)
{
    (void)state;
    given_back_after_signal(SIGINT);
}

static void given_back_after_sigsegv(void **state)
{
    (void)state;
    given_back_after_signal(SIGSEGV);
}

static void given_back_after_sigabrt(void **state)
{
    (void)state;
    given_back_after_signal(SIGABRT);
}

static void ends_when_nobody_is_there(void **state)
{
    (void)state;
    term *t = start(24, 80, NULL, "demo", FIRST_SHOWN);
    term_hang_up(t);
    int status = term_end(t, PATIENCE_MS);
    assert_true(status != -1);
    term_free(t);
}

static void refuses_a_dumb_terminal(void **state)
{
    (void)state;
    term *t = start(24, 80, "TERM=dumb", "demo", "terminal \"dumb\" cannot move its cursor");
    int status = term_end(t, PATIENCE_MS);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 2);
    term_free(t);
}

static void refuses_an_unknown_terminal(void **state)
{
    (void)state;
    term *t = start(24, 80, "TERM=no-such-thing", "demo", "terminal \"no-such-thing\" is not known here");
    int status = term_end(t, PATIENCE_MS);
    assert_int_equal(WEXITSTATUS(status), 2);
    term_free(t);
}

static void missing_script(void **state)
{
    (void)state;
    term *t = start(24, 80, NULL, "nowhere.lua", "fusebox: nowhere.lua: no such script");
    int status = term_end(t, PATIENCE_MS);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_given_back(t);
    term_free(t);
}

static void no_colour_when_asked(void **state)
{
    (void)state;
    term *t = start(24, 80, "NO_COLOR=1", "demo", FIRST_SHOWN);
    term_keys(t, "j j j j Space @wait");
    assert_false(term_has_colour(t));
    term_free(t);
    t = start(24, 80, NULL, "demo", FIRST_SHOWN);
    assert_true(term_has_colour(t));
    term_free(t);
}

static void ascii_alone_in_the_c_locale(void **state)
{
    (void)state;
    term *t = start(30, 100, "LC_ALL=C", "demo", "110 us");
    term_keys(t, "j j j j Space @wait Tab j j Tab j z z ? PgDn PgDn G @wait q ! @wait");
    assert_false(term_has_bytes_above_ascii(t));
    term_free(t);
}

/* What was answered once is known to be: the next time the workbench comes first, and `best` is there. */
static void puzzle_progress_is_kept(void **state)
{
    (void)state;
    term *t = start(30, 100, NULL, "puzzle", "predict first");
    term_keys(t, "2 l j Enter");
    assert_true(term_wait(t, "Right.", PATIENCE_MS));
    term_keys(t, "C-c");
    assert_int_equal(term_end(t, PATIENCE_MS), 0);
    term_free(t);
    t = start(30, 100, NULL, "puzzle", "kernels of 1");
    term_keys(t, ": \"add split:best\" Enter @wait");
    assert_false(term_shows(t, "hidden until"));
    term_free(t);
}

static void configure(const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/config", own_folder);
    mkdir(path, 0777);
    strcat(path, "/fusebox");
    mkdir(path, 0777);
    strcat(path, "/config");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static term *start_configured(const char *text, const char *ready)
{
    static char config[64];
    configure(text);
    snprintf(config, sizeof config, "XDG_CONFIG_HOME=%s/config", own_folder);
    return start(30, 100, config, "demo", ready);
}

/* The results view of a file of the test's own, of these lines. */
static term *start_history(const char *name, const char *lines)
{
    char path[64], keys[128];
    snprintf(path, sizeof path, "%s/%s", own_folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(lines, f);
    fclose(f);
    term *t = start(30, 100, NULL, "demo", FIRST_SHOWN);
    snprintf(keys, sizeof keys, ": \"history %s\" Enter", path);
    term_keys(t, keys);
    return t;
}

/* Rows of an experiment that say how many a second it was: the largest first, bars beside figures. */
static void a_sweep_is_a_ranking(void **state)
{
    (void)state;
    term *t = start_history(
        "sweep.jsonl",
        "{\"case\":{\"variant\":\"cat\",\"plan\":\"eager\",\"params\":{\"N\":4}},\"row\":{\"vectors_per_s\":655e3}}\n"
        "{\"case\":{\"variant\":\"cat\",\"plan\":\"max\",\"params\":{\"N\":8}},\"row\":{\"slow\":2.5e6,\"vectors_per_"
        "s\":2.62e6}}\n"
        "{\"case\":{\"variant\":\"sum\",\"plan\":\"max\",\"params\":{\"N\":8}},\"row\":{\"failed\":\"no\"}}\n");
    assert_true(term_wait(t, "3 by rate ↓", PATIENCE_MS));
    assert_true(term_wait(t, "████████  2.62 M", PATIENCE_MS));
    assert_true(term_wait(t, "██         655 k", PATIENCE_MS));
    assert_true(term_wait(t, "vectors_per_s 2.62 M", PATIENCE_MS)); /* of the first row */
    term_keys(t, ",");
    assert_true(term_wait(t, "3 by when ↓", PATIENCE_MS));
    term_free(t);
}

/* What was never measured keeps its sign among results, of columns and of an experiment. */
static void results_keep_their_kind(void **state)
{
    (void)state;
    term *t = start_history(
        "kinds.jsonl",
        "{\"script\":\"a.lua\",\"plan\":\"one\",\"device\":\"host\",\"source\":\"predicted\",\"wall_us\":{\"median\":"
        "12.5},"
        "\"floor_us\":2.5,\"launches\":3}\n"
        "{\"script\":\"a.lua\",\"plan\":\"five\",\"device\":\"host\",\"source\":\"measured\",\"wall_us\":{\"median\":"
        "10.0},\"floor_us\":2.5,\"floor_kind\":\"guessed\"}\n"
        "{\"script\":\"a.lua\",\"plan\":\"two\",\"device\":\"host\",\"source\":\"composed\",\"wall_us\":{\"median\":"
        "22.5}}\n"
        "{\"script\":\"a.lua\",\"plan\":\"three\",\"device\":\"host\",\"wall_us\":{\"median\":32.5}}\n"
        "{\"script\":\"a.lua\",\"plan\":\"six\",\"device\":\"host\",\"source\":\"measured\",\"wall_us\":{\"median\":"
        "61.5},\"error\":{\"bound\":7,\"ok\":false,\"worst\":\"y[3]: 4, expected 5\"}}\n"
        "{\"case\":{\"plan\":\"four\",\"params\":{}},\"source\":\"predicted\",\"row\":{\"us\":42.5}}\n");
    assert_true(term_wait(t, "~12.5 µs", PATIENCE_MS));
    assert_true(term_wait(t, "~5.00 ×", PATIENCE_MS));
    assert_true(term_wait(t, "~4.00 ×", PATIENCE_MS)); /* measured, over a guess */
    assert_true(term_wait(t, "≈22.5 µs", PATIENCE_MS));
    assert_true(term_wait(t, " 32.5 µs", PATIENCE_MS));
    assert_true(term_wait(t, "~42.5 µs", PATIENCE_MS));
    assert_true(term_wait(t, " · predicted", PATIENCE_MS)); /* of the first row */
    assert_true(term_wait(t, "  wrong ", PATIENCE_MS));
    assert_false(term_shows(t, "61.5 µs")); /* a wrong result has no time */
    term_keys(t, "j j j j");
    assert_true(term_wait(t, "a wrong result, y[3]: 4, expected 5", PATIENCE_MS));
    term_keys(t, "j");
    assert_true(term_wait(t, " · predicted · us ~42.5", PATIENCE_MS));
    term_free(t);
}

/* Rates of two devices: each bar is of its own device's largest. */
static void bars_of_results_are_of_one_device(void **state)
{
    (void)state;
    term *t =
        start_history("devices.jsonl", "{\"case\":{\"plan\":\"a\",\"device\":\"host\"},\"row\":{\"rows_per_s\":2e3}}\n"
                                       "{\"case\":{\"plan\":\"b\",\"device\":\"host\"},\"row\":{\"rows_per_s\":1e3}}\n"
                                       "{\"case\":{\"plan\":\"a\",\"device\":\"gpu\"},\"row\":{\"rows_per_s\":8e9}}\n");
    assert_true(term_wait(t, "████████     8 G", PATIENCE_MS));
    assert_true(term_wait(t, "████████     2 k", PATIENCE_MS));
    assert_true(term_wait(t, "████         1 k", PATIENCE_MS));
    term_free(t);
}

/* In a plot of them each point keeps the kind of its time, in its mark and in words. */
static void plots_keep_the_kind(void **state)
{
    static const struct {
        const char *source, *said, *mark;
    } each[] = {{"measured", "a: 12.5 µs, 4.1 kB", "o"},
                {"recorded", "a: 12.5 µs, 4.1 kB", "o"},
                {"composed", "a: ≈12.5 µs composed, 4.1 kB", "~"},
                {"predicted", "a: ~12.5 µs predicted, 4.1 kB", "~"}};
    (void)state;
    char path[64], keys[128];
    snprintf(path, sizeof path, "%s/plot.jsonl", own_folder);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        for (int k = 0; k < 2; k++) /* the cursor is on one, the other has its mark */
            fprintf(f,
                    "{\"plan\":\"%s\",\"source\":\"%s\",\"wall_us\":{\"median\":%s},\"flops\":8192,"
                    "\"bytes\":{\"modelled\":{\"read\":4096,\"written\":0}}}\n",
                    k ? "b" : "a", each[i].source, k ? "9000" : "12.5");
        fclose(f);
        term *t = start(30, 100, NULL, "demo", FIRST_SHOWN);
        snprintf(keys, sizeof keys, ": \"history %s\" Enter O", path);
        term_keys(t, keys);
        assert_true(term_wait(t, each[i].said, PATIENCE_MS));
        assert_true(term_wait(t, "o: measured or recorded, ~: composed or predicted", PATIENCE_MS));
        char marked[16];
        snprintf(marked, sizeof marked, " %s ", each[i].mark);
        assert_true(term_wait(t, marked, PATIENCE_MS));
        term_free(t);
    }
}

static void keys_are_the_users(void **state)
{
    (void)state;
    term *t = start_configured("# mine\nkey undo U\nkey log w\ntheme contrast\n", FIRST_SHOWN);
    term_keys(t, "U");
    assert_true(term_wait(t, "nothing to undo", PATIENCE_MS));
    term_keys(t, "u");
    assert_true(term_wait(t, "u is no key here", PATIENCE_MS));
    term_keys(t, "w"); /* taken from why */
    assert_true(term_wait(t, "hello from the script", PATIENCE_MS));
    term_keys(t, "Esc ?");
    assert_true(term_wait(t, " U ", PATIENCE_MS));
    term_free(t);
}

static void wrong_settings_are_named(void **state)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"theme light\nkey frobnicate x\n", "fusebox/config:2: no command \"frobnicate\""},
        {"theme pink\n", "fusebox/config:1: no theme \"pink\""},
        {"color sky 3\n", "fusebox/config:1: no role \"sky\""},
        {"mouse maybe\n", "fusebox/config:1: on or off is expected"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) term_free(start_configured(wrong[i].text, wrong[i].said));
}

/* As a terminal tells of a press: column and row, counted from 1. */
static void the_mouse_works(void **state)
{
    (void)state;
    term *t = start_configured("", FIRST_SHOWN);
    term_keys(t, "\"\x1b[<0;10;8M\x1b[<0;10;8m\"");
    assert_true(term_wait(t, "layer_norm → tanh", PATIENCE_MS));
    term_keys(t, "\"\x1b[<0;96;3M\x1b[<0;96;3m\""); /* the head of column 2 */
    assert_true(term_wait(t, "kernels of 2", PATIENCE_MS));
    term_keys(t, "? @wait \"\x1b[<65;10;8M\""); /* the wheel, downwards */
    assert_true(term_wait(t, ":hide", PATIENCE_MS));
    term_keys(t, "Esc");
    assert_true(term_wait(t, "kernels of 2", PATIENCE_MS));
    assert_true(term_click(t, "w why", PATIENCE_MS)); /* in the bar */
    assert_true(term_wait(t, "why · 1 eager → 2 max", PATIENCE_MS));
    assert_true(term_click(t, "Esc back", PATIENCE_MS));
    assert_true(term_wait(t, "kernels of 2", PATIENCE_MS));
    term_free(t);
}

/* A shell with job control around it, as a user has. */
static void suspends_and_comes_back(void **state)
{
    (void)state;
    char line[512];
    snprintf(line, sizeof line, "%s demo; echo STOPPED HERE; read -r; fg; echo ENDED $?", program());
    const char *argv[] = {"bash", "--norc", "-mc", line, NULL};
    term *t = term_start(24, 80, (const char *const[]){own_state, NULL}, argv);
    assert_true(term_wait(t, FIRST_SHOWN, PATIENCE_MS));
    term_keys(t, "j j j j C-z");
    assert_true(term_wait(t, "STOPPED HERE", PATIENCE_MS));
    assert_false(term_on_alternate(t));
    term_keys(t, "Enter");
    assert_true(term_wait(t, "layer_norm → tanh", PATIENCE_MS)); /* fg */
    assert_true(term_on_alternate(t));
    term_keys(t, "Space");
    assert_true(term_wait(t, "70.0 µs", PATIENCE_MS));
    term_keys(t, "q");
    assert_true(term_wait(t, "ENDED 0", PATIENCE_MS));
    term_free(t);
}

static void keys_work_while_measuring(void **state)
{
    (void)state;
    term *t = start(30, 100, NULL, "demo", FIRST_SHOWN);
    term_keys(t, "m"); /* takes 120 ms */
    assert_true(term_wait(t, "sampling", PATIENCE_MS));
    term_keys(t, "j j j j");
    assert_true(term_wait(t, "layer_norm → tanh", 100));
    term_keys(t, "m");
    assert_true(term_wait(t, "▰", PATIENCE_MS));
    term_keys(t, "Esc");
    assert_true(term_wait(t, "cancelled", PATIENCE_MS));
    assert_false(term_shows(t, "sampling"));
    term_free(t);
}

/* best: progress on the column, keys meanwhile, Esc; then found. */
static void a_search_is_seen_and_cancelled(void **state)
{
    (void)state;
    term *t = start(30, 100, NULL, "demo", FIRST_SHOWN);
    term_keys(t, "B");
    assert_true(term_wait(t, "searching: 123 plans", PATIENCE_MS));
    assert_true(term_wait(t, " searching ", PATIENCE_MS));
    term_keys(t, "Esc");
    assert_true(term_wait(t, "cancelled", PATIENCE_MS));
    assert_true(term_gone(t, "searching", PATIENCE_MS));
    assert_false(term_shows(t, "1 best"));
    term_keys(t, ": \"plan best\" Enter");
    assert_true(term_wait(t, "searching: 123 plans", PATIENCE_MS));
    assert_true(term_wait(t, "1 best", PATIENCE_MS));
    assert_true(term_gone(t, "searching", PATIENCE_MS));
    term_keys(t, ": \"add split:best\" Enter");
    assert_true(term_wait(t, " searching ", PATIENCE_MS));
    assert_true(term_wait(t, "3 best", PATIENCE_MS));
    term_free(t);
}

static void help_lists_every_command(void **state)
{
    (void)state;
    bool seen[FB_COMMANDS] = {false};
    term *t = start(24, 80, NULL, "demo", FIRST_SHOWN);
    term_keys(t, "? @wait");
    for (int page = 0; page < 36; page++) { /* three times over: a busy machine may skip one */
        if (page % 12 == 0) term_keys(t, "g @wait");
        for (int c = 0; c < FB_COMMANDS; c++) {
            char row[64];
            snprintf(row, sizeof row, " %s ", fb_cmd_get((fb_cmd)c)->name);
            seen[c] |= term_shows(t, row);
        }
        term_keys(t, "PgDn @wait");
    }
    for (int c = 0; c < FB_COMMANDS; c++)
        if (!seen[c]) fail_msg("help does not list %s", fb_cmd_get((fb_cmd)c)->name);
    term_free(t);
}

static void plays_keys(void **state)
{
    (void)state;
    char path[] = "/tmp/fb-keys-XXXXXX";
    static const char text[] =
        "# a demonstration\n@idle j j j j Space @idle\n: \"add combined:max\" Enter @idle @50 Q\n";
    int fd = mkstemp(path);
    assert_true(write(fd, text, sizeof text - 1) > 0);
    close(fd);
    const char *argv[] = {program(), "--keys", path, "demo", NULL};
    term *t = term_start(30, 100, (const char *const[]){own_state, NULL}, argv);
    assert_true(term_wait(t, "70.0 µs", PATIENCE_MS));
    assert_int_equal(term_end(t, PATIENCE_MS), 0);
    unlink(path);
    term_free(t);
}

static void big_graph_is_paged(void **state)
{
    (void)state;
    term *t = start(40, 120, NULL, "big", "layer_20");
    term_rest(t, 300, 5000);
    term_keys(t, "PgDn");
    assert_true(term_wait(t, "layer_50", PATIENCE_MS)); /* how quickly is a benchmark's matter: bench_terminal */
    term_keys(t, "PgUp");
    assert_true(term_wait(t, "layer_0", PATIENCE_MS));
    term_free(t);
}

/* Any keys in any order, sizes changing meanwhile: the program stays, and says so when asked. */
/* Sizes that no screen has, and none at all: at the start, and later. */
static void a_terminal_may_lie_about_its_size(void **state)
{
    (void)state;
    static const int lies[][2] = {{65535, 65535}, {0, 0}, {1, 1}, {65535, 2}, {2, 65535}, {0, 80}, {24, 0}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        term *t = start(30, 100, NULL, "demo", FIRST_SHOWN);
        term_claim(t, lies[i][0], lies[i][1]);
        term_rest(t, 100, 2000);
        term_keys(t, "j j Tab");
        term_resize(t, 31, 101);
        term_keys(t, "?");
        if (!term_wait(t, "Fusing and cutting", PATIENCE_MS))
            FAIL_WITH_SCREEN(t, "no help after %d×%d", lies[i][0], lies[i][1]);
        term_keys(t, "C-c");
        assert_int_equal(term_end(t, PATIENCE_MS), 0);
        term_free(t);
    }
    static const char *const wrong[] = {"LINES=65535", "COLUMNS=0", "LINES=nothing"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        term *t = start(30, 100, wrong[i], "demo", NULL);
        /* before it takes keys as they are, C-c is a signal */
        for (int ms = 0; ms < PATIENCE_MS && term_canonical(t); ms += 50) term_rest(t, 50, 50);
        term_rest(t, 300, 5000);
        term_keys(t, "C-c");
        assert_int_equal(term_end(t, PATIENCE_MS), 0);
        term_free(t);
    }
}

static void survives_a_monkey(void **state)
{
    (void)state;
    enum { KEYS = 1500 };
    static const char *const paths[] = {"demo", "broken", "puzzle"};
    uint32_t seed = 12345;
    for (int p = 0; p < 3; p++) {
        term *t = start(30, 100, NULL, paths[p], "? help");
        for (int i = 0; i < KEYS; i++) {
            seed = seed * 1664525u + 1013904223u;
            const fb_cmd_info *info = fb_cmd_get((fb_cmd)(seed >> 16) % FB_COMMANDS);
            bool leaves = strstr(info->keys, "Q") || !strcmp(info->keys, "q") || strstr(info->keys, "C-z");
            char key[16];
            snprintf(key, sizeof key, "%.*s", (int)strcspn(info->keys, " "), info->keys);
            if (!leaves && *key) term_keys(t, key);
            if (seed % 97 == 0) term_resize(t, 1 + (int)(seed >> 8) % 60, 1 + (int)(seed >> 12) % 200);
            if (seed % 11 == 0) term_rest(t, 1, 50);
        }
        term_resize(t, 30, 100);
        term_keys(t, "Esc Esc Esc Esc Esc Esc Esc : \"help\" Enter g");
        if (!term_wait(t, "Fusing and cutting", PATIENCE_MS)) FAIL_WITH_SCREEN(t, "no help after the monkey");
        term_keys(t, "C-c");
        assert_int_equal(term_end(t, PATIENCE_MS), 0);
        term_free(t);
    }
}

/* No two commands claim one key, and every key that the table names exists. */
static void keys_are_unique(void **state)
{
    (void)state;
    for (int c = 0; c < FB_COMMANDS; c++)
        for (const char *p = fb_cmd_get((fb_cmd)c)->keys; *p;) {
            size_t n = strcspn(p, " ");
            int key = fb_key_parse(p, n);
            assert_true(key != FB_KEY_NONE);
            assert_int_equal(fb_cmd_of_key(key), c);
            p += n + strspn(p + n, " ");
        }
}

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(quits),
        cmocka_unit_test(given_back_after_sigterm),
        cmocka_unit_test(given_back_after_sighup),
        cmocka_unit_test(given_back_after_sigint),
        cmocka_unit_test(given_back_after_sigsegv),
        cmocka_unit_test(given_back_after_sigabrt),
        cmocka_unit_test(ends_when_nobody_is_there),
        cmocka_unit_test(refuses_a_dumb_terminal),
        cmocka_unit_test(refuses_an_unknown_terminal),
        cmocka_unit_test(missing_script),
        cmocka_unit_test(no_colour_when_asked),
        cmocka_unit_test(ascii_alone_in_the_c_locale),
        cmocka_unit_test(suspends_and_comes_back),
        cmocka_unit_test(keys_work_while_measuring),
        cmocka_unit_test(a_search_is_seen_and_cancelled),
        cmocka_unit_test(puzzle_progress_is_kept),
        cmocka_unit_test(a_sweep_is_a_ranking),
        cmocka_unit_test(results_keep_their_kind),
        cmocka_unit_test(bars_of_results_are_of_one_device),
        cmocka_unit_test(plots_keep_the_kind),
        cmocka_unit_test(keys_are_the_users),
        cmocka_unit_test(wrong_settings_are_named),
        cmocka_unit_test(the_mouse_works),
        cmocka_unit_test(help_lists_every_command),
        cmocka_unit_test(plays_keys),
        cmocka_unit_test(big_graph_is_paged),
        cmocka_unit_test(a_terminal_may_lie_about_its_size),
        cmocka_unit_test(survives_a_monkey),
        cmocka_unit_test(keys_are_unique),
    };
    enum { CASES = sizeof cases / sizeof *cases, OWN = sizeof own / sizeof *own };
    static struct CMUnitTest all[CASES + OWN];
    for (int i = 0; i < CASES; i++)
        all[i] = (struct CMUnitTest){.name = cases[i].name, .test_func = run_case, .initial_state = (void *)&cases[i]};
    memcpy(all + CASES, own, sizeof own);
    return _cmocka_run_group_tests("terminal", all, CASES + OWN, make_folder, drop_folder);
}
