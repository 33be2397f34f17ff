/* The binary as a user has it: scripts in their process, plans, workers that compile and measure on the host. */
#include "expect.h"

#include <glob.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[] = "/tmp/fb-workbench-XXXXXX";
static char cache[64], state[64];

static const char *program(void)
{
    const char *path = getenv("FUSEBOX");
    return path ? path : "./fusebox";
}

/* `script`: a bundled one's name, or a file in our folder. */
static term *start(const char *script, const char *set)
{
    const char *env[] = {cache, state, NULL};
    const char *argv[] = {program(), script, "--device", "host", set ? "--set" : NULL, set, NULL};
    return term_start(30, 100, env, argv);
}

static const char *write_script(const char *name, const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    return path;
}

/* The next test begins with the script's own columns. */
static void forget_columns(void)
{
    char pattern[128];
    glob_t kept;
    snprintf(pattern, sizeof pattern, "%s/*/fusebox/columns-*.json", folder);
    if (glob(pattern, 0, NULL, &kept) != 0) return;
    for (size_t i = 0; i < kept.gl_pathc; i++) unlink(kept.gl_pathv[i]);
    globfree(&kept);
}

static void leave(term *t)
{
    quit(t);
    forget_columns();
}

/* ---- tests ----------------------------------------------------------------------------------------------------------
 */

static void puzzler_is_measured(void **unused)
{
    (void)unused;
    term *t = start("split_stack", "batch_size=64");
    must_show(t, "graph · split_stack · 1 eager");
    must_show(t, "feature ×16");
    must_show(t, "35"); /* launches of eager */
    must_show(t, "✓");
    leave(t);
}

/* A compiler's decisions replayed in the real program, with a branch, and the column that follows. */
static void decisions_are_replayed(void **unused)
{
    (void)unused;
    term *t = start("lora_mlp", "batch=32");
    must_show(t, "graph · lora · 1 eager");
    term_keys(t, "a : \"plan inductor\" Enter");
    must_show(t, "1 inductor");
    term_keys(t, "S");
    must_show(t, "decisions of 1 inductor · 1 of 6");
    must_show(t, "its reader computes it");
    term_keys(t, "G");
    must_show(t, "decisions of 1 inductor · 6 of 6");
    must_show(t, "`matmul_3` is a library call");
    term_keys(t, "g j");
    must_show(t, "decisions of 1 inductor · 1 of 6");
    must_show(t, "its reader computes it");
    term_keys(t, "Space");
    must_show(t, "decisions of 1 inductor[no1] · 1 of");
    must_show(t, "declined  inline");
    term_keys(t, "Esc"); /* all decisions but the one */
    must_show(t, "graph · lora · 1 inductor[no1] ");
    leave(t);
}

/* Steps become a loop: the graph that is shown is the one with it, and comes back when that is undone. */
static void steps_are_rolled(void **unused)
{
    (void)unused;
    term *t = start(write_script("steps.lua", "return function(g)\n"
                                              "  local x, h = g:input('x', { 5, 4, 8 }), g:zeros({ 4, 8 })\n"
                                              "  local w, each = g:param('w', { 8, 8 }), {}\n"
                                              "  for t, part in ipairs(x:unbind(0)) do\n"
                                              "    g:scope('step', t, function() h = (part + h:matmul(w)):tanh() end)\n"
                                              "    each[t] = h\n"
                                              "  end\n"
                                              "  return g:stack(each)\n"
                                              "end\n"),
                    NULL);
    must_show(t, "step ×5");
    must_show(t, "✓"); /* there is a plan */
    term_keys(t, "U");
    must_show(t, "steps as a loop");
    must_show(t, "1 mine");
    must_show(t, "rolled");
    must_show(t, "loop");
    must_show(t, "✓"); /* against the graph as written */
    term_keys(t, "u");
    must_show(t, "step ×5");
    leave(t);
}

/* The loops of two columns beside each other; and the decision to have them, taken back and refused. */
static void loops_are_compared(void **unused)
{
    (void)unused;
    term *t =
        start(write_script("ways.lua", "local function steps(hoisted)\n"
                                       "  return function(g)\n"
                                       "    local x, h, each = g:input('x', { 5, 4, 8 }), g:zeros({ 4, 16 }), {}\n"
                                       "    local w, u = g:param('w', { 8, 16 }), g:param('u', { 16, 16 })\n"
                                       "    if hoisted then x = x:matmul(w) end\n"
                                       "    for t, part in ipairs(x:unbind(0)) do\n"
                                       "      g:scope('step', t, function()\n"
                                       "        h = ((hoisted and part or part:matmul(w)) + h:matmul(u)):tanh()\n"
                                       "      end)\n"
                                       "      each[t] = h\n"
                                       "    end\n"
                                       "    return g:stack(each)\n"
                                       "  end\n"
                                       "end\n"
                                       "return require('fusebox').script {\n"
                                       "  variants = { inside = steps(), hoisted = steps(true) },\n"
                                       "  columns = { 'inside:rolled', 'hoisted:rolled' },\n"
                                       "}\n"),
              NULL);
    must_show(t, "graph · inside · 1 rolled");
    must_show(t, "2 rolled");
    must_show(t, "loop");
    term_keys(t, "w");
    must_show(t, "loops: not the same loop: products a step");
    term_keys(t, "Esc S");
    must_show(t, "decisions of 1 rolled · 1 of 5");
    must_show(t, "5 steps of `step[*].matmul`");
    term_keys(t, "k");
    must_show(t, "decisions of 1 rolled · 0 of 5");
    must_show(t, "step ×5"); /* as it is written */
    term_keys(t, "j");
    must_show(t, "decisions of 1 rolled · 1 of 5");
    must_show(t, "rolled[:1]");
    must_show(t, "tanh_all");
    term_keys(t, "Space");
    must_show(t, "decisions of 1 rolled[no1] · 1 of");
    must_show(t, "declined");
    must_show(t, "step ×5");
    leave(t);
}

/* Keys are answered, and edits made, while a worker compiles and measures. */
static void keys_work_while_measuring(void **unused)
{
    (void)unused;
    term *t = start("split_stack", "batch_size=64");
    must_show(t, "▱");
    must_show(t, "relu out"); /* the graph is there */
    must_show(t, "2 max");    /* and columns of what no recording holds have gone */
    term_keys(t, "G");
    must_show(t, "Space: fuse linear into relu");
    term_keys(t, "?");
    must_show(t, "Fusing and cutting");
    term_keys(t, "q");
    must_show(t, "kernels of 1");
    term_keys(t, "/ \"tanh\" Enter Space");
    must_show(t, "fused layer_norm into tanh (×16)");
    must_show(t, "1 mine");
    must_show(t, "19"); /* launches */
    leave(t);
}

/* The numbers of a node, after the column was measured; its figures stay. */
static void values_are_shown(void **unused)
{
    (void)unused;
    term *t = start("split_stack", "batch_size=64");
    must_show(t, "✓");
    term_keys(t, "a / \"tanh\" Enter d");
    must_show(t, "values · feature[1].tanh · 1 eager");
    must_show(t, "error against the reference: largest");
    must_show(t, "allowed ✓");
    must_show(t, "16384 elements, stored by");
    term_keys(t, "Esc");
    must_show(t, "kernels of 1");
    must_show(t, "feature ×16");
    assert_false(term_shows(t, "wall                   -"));
    leave(t);
}

static void parameters_rebuild_the_graph(void **unused)
{
    (void)unused;
    term *t = start("split_stack", "batch_size=64");
    must_show(t, "feature ×16");
    term_keys(t, ": \"set num_inputs=4\" Enter");
    must_show(t, "feature ×4");
    term_keys(t, ": \"set num_inputs=many\" Enter");
    must_show(t, "num_inputs");
    must_show(t, "feature ×4");
    leave(t);
}

/* The views that take a tensor apart row by row are one line each, and the one searched for is found behind it. */
static void views_in_rounds_fold(void **unused)
{
    (void)unused;
    term *t = start(write_script("rows.lua",
                                 "return function(g)\n"
                                 "  local parts, z = {}, g:input('z', { 8, 4 }):tanh()\n"
                                 "  for i, row in ipairs(z:unbind(0)) do parts[i] = row:slice(0, 0, i % 3 + 1) end\n"
                                 "  return g:cat(parts, 0):relu()\n"
                                 "end\n"),
                    NULL);
    must_show(t, "slice ×8");
    must_show(t, "unbind ×8");
    must_show(t, "slice_9 ×8");
    must_show(t, "[…]"); /* of different sizes */
    term_keys(t, "g / \"unbind_5\" Enter");
    must_show(t, "8 alike");
    must_show(t, "unbind = view(slice)");
    leave(t);
}

static void generated_source_is_shown(void **unused)
{
    (void)unused;
    term *t = start("split_stack", "batch_size=64");
    must_show(t, "layer_norm ×16");
    term_keys(t, "/ \"tanh\" Enter Enter");
    must_show(t, "source · b tanh");
    must_show(t, "const fb_kernel_args *");
    leave(t);
}

static void plan_is_saved(void **unused)
{
    (void)unused;
    char line[160], path[128];
    snprintf(path, sizeof path, "%s/plan.json", folder);
    snprintf(line, sizeof line, ": \"save %s\" Enter", path);
    term *t = start("split_stack", "batch_size=64");
    must_show(t, "layer_norm ×16");
    term_keys(t, line);
    must_show(t, "saved in");
    assert_int_equal(access(path, R_OK), 0);
    leave(t);
}

static void errors_show_their_line(void **unused)
{
    (void)unused;
    term *t = start(write_script("wrong.lua", "local fb = require \"fusebox\"\n"
                                              "return function(g)\n"
                                              "  local x = g:input(\"x\", { 3, 4 })\n"
                                              "  return x:matmul(x)\n"
                                              "end\n"),
                    NULL);
    must_show(t, "the script has an error");
    must_show(t, "wrong.lua:4: matmul");
    must_show(t, "^~~~");
    term_resize(t, 24, 80);
    must_show(t, "Esc the workbench"); /* the last of what can be done, which is cut off nowhere */
    write_script("wrong.lua", "return function(g)\n  return g:input(\"x\", { 3, 4 }):tanh()\nend\n");
    term_keys(t, "r");
    must_show(t, "tanh out");
    leave(t);
}

static void endless_script_is_stopped(void **unused)
{
    (void)unused;
    term *t = start(write_script("endless.lua", "while true do end\n"), NULL);
    must_show(t, "loading");
    term_keys(t, "?"); /* meanwhile the keys are answered */
    must_show(t, "Fusing and cutting");
    must_show(t, "the script has an error");
    term_keys(t, ": \"open split_stack\" Enter");
    must_show(t, "feature ×16");
    leave(t);
}

static void start_list_opens(void **unused)
{
    (void)unused;
    const char *env[] = {cache, state, NULL}, *argv[] = {program(), "--device", "host", NULL};
    term *t = term_start(30, 100, env, argv);
    must_show(t, "puzzlers, models, lessons, recent files");
    must_show(t, "split_stack");
    term_keys(t, "/ \"lora_mlp\" Enter Enter");
    must_show(t, "matmul");
    leave(t);
}

/* A script that is saved is loaded again. */
static void saving_reloads(void **unused)
{
    (void)unused;
    static const char before[] = "return function(g) return g:input(\"x\", { 3, 4 }):relu() end\n",
                      after[] = "return function(g) return g:input(\"x\", { 3, 4 }):sigmoid() end\n";
    term *t = start(write_script("saved.lua", before), NULL);
    must_show(t, "relu");
    write_script("saved.lua", after);
    must_show(t, "sigmoid");
    leave(t);
}

/* A line of a source leads to its node, and nowhere once the script makes another graph. */
static void lines_lead_to_nodes(void **unused)
{
    (void)unused;
    static const char before[] = "return function(g) return g:input(\"x\", { 8, 64 }):exp():tanh():sum(1) end\n",
                      after[] = "return function(g) return g:input(\"x\", { 8 }):relu() end\n";
    for (int other = 0; other < 2; other++) {
        term *t = start(write_script("lines.lua", before), NULL);
        must_show(t, "b tanh"); /* the kernel: before there is one, Enter opens none */
        term_keys(t, "/ \"tanh\" Enter @wait Enter");
        must_show(t, "tanh[i] = ");
        term_keys(t, "/ \"tanh[i]\" Enter");
        must_show(t, "tanh = tanh(exp)");
        if (other) write_script("lines.lua", after);
        if (other) must_lose(t, "tanh = tanh(exp)");
        term_keys(t, "@wait Enter @wait");
        must_show(t, other ? "tanh[i] = " : "graph · ");
        leave(t);
    }
}

/* Of the script that was open nothing stays: neither its columns nor what its parameters were set to. */
static void another_script_is_fresh(void **unused)
{
    (void)unused;
    static const char with[] =
        "local fb = require \"fusebox\"\nreturn fb.script { params = { rows = fb.int { 16 } }, columns = %s,\n"
        "variants = { %s = function(g, p) return g:input(\"x\", { p.rows, 4 }):%s() end } }\n";
    char text[512], open[160];
    snprintf(text, sizeof text, with, "{ \"first:none\", \"first:max\" }", "first", "relu");
    const char *argv[] = {program(), write_script("first.lua", text), "--device", "host", NULL};
    const char *env[] = {cache, state, NULL};
    term *t = term_start(30, 100, env, argv);
    must_show(t, "[16,4]");
    term_keys(t, ": \"set rows=48\" Enter");
    must_show(t, "[48,4]");
    snprintf(text, sizeof text, with, "{ \"second:none\" }", "second", "sigmoid");
    snprintf(open, sizeof open, ": \"open %s\" Enter", write_script("second.lua", text));
    term_keys(t, open);
    must_show(t, "sigmoid");
    must_show(t, "[16,4]");
    must_show(t, "1 none");
    assert_false(term_shows(t, "2 max"));
    assert_false(term_shows(t, "no variant"));
    leave(t);
}

/* A source stays on the screen while its column gets another variant: what its lines compute is not looked up in the
 * other's graph, which may even have fewer nodes. */
static void a_source_outlives_its_graph(void **unused)
{
    (void)unused;
    static const char text[] =
        "local fb = require \"fusebox\"\nreturn fb.script { columns = { \"a:max\" }, variants = {\n"
        "a = function(g) return g:input(\"x\", { 16, 4 }):tanh():exp():relu() end,\n"
        "b = function(g) return g:input(\"x\", { 16, 4 }) + 1 end } }\n";
    const char *argv[] = {program(), write_script("two.lua", text), "--device", "host", NULL};
    const char *env[] = {cache, state, NULL};
    term *t = term_start(30, 100, env, argv);
    must_show(t, "relu out");
    term_keys(t, "G s");
    must_show(t, "relu = relu(");
    term_keys(t, "v");
    must_lose(t, "relu = relu(");
    leave(t);
}

/* Columns named on the command line stand instead of the script's own, and only there. */
static void columns_are_named(void **unused)
{
    (void)unused;
    static const char text[] =
        "local fb = require \"fusebox\"\nreturn fb.script { columns = { \"none\" },\n"
        "plans = { mine = function(pl) end }, model = function(g) return g:input(\"x\", { 16, 4 }):relu() end }\n";
    const char *script = write_script("named.lua", text);
    const char *env[] = {cache, state, NULL},
               *argv[] = {program(), script, "mine", "tinygrad", "--device", "host", NULL};
    term *t = term_start(30, 100, env, argv);
    must_show(t, "2 tinygrad");
    assert_true(term_shows(t, "1 mine"));
    assert_false(term_shows(t, "none"));
    char open[160];
    snprintf(open, sizeof open, ": \"open %s\" Enter", script);
    term_keys(t, open);
    must_show(t, "1 none");
    must_lose(t, "tinygrad");
    leave(t);
    argv[3] = "tinygard";
    t = term_start(30, 100, env, argv);
    must_show(t, "did you mean \"tinygrad\"?");
    leave(t);
}

/* A puzzle whose answer goes wrong says so, and can be answered once it is mended and saved. One of the two takes so
 * much longer that no other load hides it. */
static void mended_puzzle_is_asked(void **unused)
{
    (void)unused;
    static const char asked[] =
        "local fb = require \"fusebox\"\nreturn fb.script {\n"
        "variants = { a = function(g) return g:input(\"x\", { 3000000 }):relu():neg() end,\n"
        "b = function(g) return g:input(\"x\", { 300 }):relu() end },\n"
        "puzzle = { compare = { \"a:none\", \"b:none\" }, ask = \"%s\",\n"
        "choices = { { \"one\", \"first choice\" }, { \"two\", \"second choice\" } }, answer = %s } }\n";
    char text[1024], own[64];
    snprintf(own, sizeof own, "XDG_STATE_HOME=%s/mended", folder);
    snprintf(text, sizeof text, asked, "Why is this one wrong?", "function() error(\"oh no\") end");
    const char *env[] = {cache, own, NULL};
    const char *argv[] = {program(), write_script("asked.lua", text), "--device", "host", NULL};
    term *t = term_start(30, 100, env, argv);
    must_show(t, "Why is this one wrong?");
    term_keys(t, "1 l j Enter");
    must_show(t, "oh no");
    snprintf(text, sizeof text, asked, "Why is this one right?", "function() return \"one\" end");
    write_script("asked.lua", text);
    must_show(t, "Why is this one right?");
    must_show(t, "predict first");
    term_keys(t, "1 l j Enter");
    must_show(t, "Right.");
    leave(t);
}

static void replace_in(const char *name, const char *from, const char *to)
{
    char path[128], text[8192] = "", *at;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    assert_non_null(at = strstr(text, from));
    f = fopen(path, "w");
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
}

/* A kernel taken over: a column beside, the editor, and a new answer at each save. */
static void kernel_is_ejected(void **unused)
{
    (void)unused;
    const char *script = write_script("own.lua", "return function(g) return g:input(\"x\", { 64 }):relu():neg() end\n");
    const char *env[] = {cache, state, "VISUAL=sed -i s/@entry/@entree/", NULL};
    const char *argv[] = {program(), script, "--device", "host", NULL};
    term *t = term_start(30, 100, env, argv);
    must_show(t, "relu");
    term_keys(t, "2");
    must_show(t, "kernels of 2");
    must_show(t, "relu·neg"); /* its plan is there */
    term_keys(t, "e");
    must_show(t, "kernels of 3");
    must_show(t, "3 mine");
    must_show(t, "relu_neg.c: its first comment has no line @entry"); /* the editor has been there */
    replace_in("relu_neg.c", "@entree", "@entry");
    must_show(t, "a kernel was saved: 1 column is measured again");
    replace_in("relu_neg.c", "args->buffers[0]", "args->nothing");
    must_show(t, "relu_neg.c:");
    must_show(t, "error: ");
    leave(t);
}

/* What a script brings along runs when the user says so. */
static void foreign_kernel_is_asked_for(void **unused)
{
    (void)unused;
    write_script("far.c", "/* nothing that could run */\n");
    const char *script =
        write_script("foreign.lua", "local fb = require \"fusebox\"\n"
                                    "return fb.script {\n"
                                    "  model = function(g) return g:input(\"x\", { 64 }):relu() end,\n"
                                    "  plans = { own = function(pl) pl:kernel(\"relu\", \"far.c\") end },\n"
                                    "  columns = { \"own\" },\n"
                                    "}\n");
    term *t = start(script, NULL);
    must_show(t, "far.c? Native code, which runs as you");
    term_keys(t, "j s");
    must_show(t, "nothing that could run");
    must_show(t, "SHA-256 ");
    term_keys(t, "y");
    must_show(t, "far.c: its first comment has no line @language");
    leave(t);
}

static bool file_holds(const char *path, const char *text)
{
    char *whole = malloc(1 << 20);
    FILE *f = fopen(path, "r");
    size_t n = f && whole ? fread(whole, 1, (1 << 20) - 1, f) : 0;
    if (f) fclose(f);
    if (whole) whole[n] = '\0';
    bool found = whole && strstr(whole, text);
    free(whole);
    return found;
}

/* What the workbench writes is the page of the command line, waterfall and all. */
static void page_is_exported(void **unused)
{
    (void)unused;
    char keys[200], page[128];
    const char *script =
        write_script("export.lua", "local fb = require \"fusebox\"\n"
                                   "return fb.script {\n"
                                   "  model = function(g) return g:input(\"x\", { 64 }):relu():tanh() end,\n"
                                   "  columns = { \"none\", \"max\" },\n"
                                   "}\n");
    term *t = start(script, NULL);
    snprintf(page, sizeof page, "%s/export.html", folder);
    must_show(t, "✓ ");
    snprintf(keys, sizeof keys, ": \"export %s\" Enter", page);
    for (int i = 0; i < 60 && !term_shows(t, "2 columns written to"); i++) { /* until both are measured */
        term_keys(t, keys);
        term_wait(t, "2 columns written to", 1000);
    }
    must_show(t, "2 columns written to");
    assert_true(file_holds(page, "<!doctype html>"));
    assert_true(file_holds(page, "<summary>1  none@host  →  2  max@host</summary>"));
    assert_true(file_holds(page, "<figcaption>2  max@host<"));
    assert_true(file_holds(page, "<summary>difference to column 1</summary>"));
    assert_true(file_holds(page, "</html>"));
    leave(t);
}

/* The puzzle of a bundled script, answered by its own function, and the list that tells so. */
static void puzzle_is_answered(void **unused)
{
    (void)unused;
    char own[64], key[32] = {0};
    snprintf(own, sizeof own, "XDG_STATE_HOME=%s/puzzle", folder);
    const char *env[] = {cache, own, NULL}, *argv[] = {program(), "recompute", "--device", "host", NULL};
    term *t = term_start(30, 100, env, argv);
    must_show(t, "predict first");
    term_keys(t, "1 l j Enter");
    must_show(t, "; you guessed 2");
    bool none = term_shows(t, "Nothing is graded");
    snprintf(key, sizeof key, "%s", term_shows(t, "Right.") ? "✓" : "◐");
    term_keys(t, "G"); /* how long the answer is depends on this machine */
    must_show(t, "To the workbench");
    term_keys(t, "Enter");
    must_show(t, "puzzlers, models, lessons, recent files");
    if (!none) must_show(t, key);
    leave(t);
}

/* ---- the folder
 * ------------------------------------------------------------------------------------------------------ */

static int make_folder(void **unused)
{
    (void)unused;
    if (!mkdtemp(folder)) return -1;
    char path[128];
    snprintf(path, sizeof path, "%s/cache", folder);
    own_cache(path);
    snprintf(cache, sizeof cache, "XDG_CACHE_HOME=%s/cache", folder);
    snprintf(state, sizeof state, "XDG_STATE_HOME=%s/state", folder);
    /* The puzzle has been seen, so that the workbench comes first. */
    snprintf(path, sizeof path, "%s/state", folder);
    mkdir(path, 0777);
    strcat(path, "/fusebox");
    mkdir(path, 0777);
    strcat(path, "/progress.jsonl");
    FILE *f = fopen(path, "w");
    if (!f) return -1;
    fputs("{\"puzzle\":\"split_stack\",\"skipped\":true}\n", f);
    return fclose(f);
}

static int drop_folder(void **unused)
{
    (void)unused;
    drop_tree(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puzzler_is_measured),
        cmocka_unit_test(decisions_are_replayed),
        cmocka_unit_test(keys_work_while_measuring),
        cmocka_unit_test(steps_are_rolled),
        cmocka_unit_test(loops_are_compared),
        cmocka_unit_test(values_are_shown),
        cmocka_unit_test(parameters_rebuild_the_graph),
        cmocka_unit_test(views_in_rounds_fold),
        cmocka_unit_test(generated_source_is_shown),
        cmocka_unit_test(plan_is_saved),
        cmocka_unit_test(page_is_exported),
        cmocka_unit_test(errors_show_their_line),
        cmocka_unit_test(endless_script_is_stopped),
        cmocka_unit_test(start_list_opens),
        cmocka_unit_test(puzzle_is_answered),
        cmocka_unit_test(saving_reloads),
        cmocka_unit_test(lines_lead_to_nodes),
        cmocka_unit_test(another_script_is_fresh),
        cmocka_unit_test(a_source_outlives_its_graph),
        cmocka_unit_test(columns_are_named),
        cmocka_unit_test(mended_puzzle_is_asked),
        cmocka_unit_test(kernel_is_ejected),
        cmocka_unit_test(foreign_kernel_is_asked_for),
    };
    return cmocka_run_group_tests_name("workbench", tests, make_folder, drop_folder);
}
