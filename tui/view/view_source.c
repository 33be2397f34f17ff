/* The generated source of one kernel as the device's compiler gets it, what the compiler makes of it, the difference to
 * another column's, and the plan as Lua. */
#include "base/json.h"
#include "tui/show/code.h"
#include "tui/show/textdiff.h"
#include "tui/view/helper.h"
#include "tui/view/ui.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

enum { STEP = 8, NUMBERS = 5 };

typedef struct {
    int n;
    const char **lines;
    const char *signs; /* of a diff, one a line; NULL: it is none */
    fb_id *node;       /* what a line computes; NULL: not known */
    fb_hash graph;     /* … of that graph */
    const char *title;
    fb_helper *helper; /* makes the text; NULL: it is here */
} source;

static const struct {
    const char *name, *target, *help;
} kinds[FB_SOURCE_KINDS] = {
    [FB_SOURCE_GENERATED] = {"source", NULL,
                             "as the compiler gets it, without the prelude · Enter: the line's node in the graph"},
    [FB_SOURCE_PTX] = {"PTX", "ptx", "what NVRTC makes of the kernel's CUDA source"},
    [FB_SOURCE_SASS] = {"SASS", "sass", "the machine's own code, as the toolkit disassembles it"},
    [FB_SOURCE_RESOURCES] = {"resources", "resources", "registers, shared memory, spills and occupancy of all kernels"},
    [FB_SOURCE_DIFF] = {"diff", NULL, "kernels of the other column (-) and of this one (+)"},
    [FB_SOURCE_LUA] = {"plan as Lua", NULL, "to be pasted into the script's plans; :lua FILE writes it"},
};

static source *state(fb_app *app)
{
    return app->state[FB_VIEW_SOURCE];
}

/* The kernel under the cursor of the pane that has the focus. */
int fb_source_group(fb_app *app)
{
    const fb_model *m = &app->model;
    int at = app->scroll[FB_VIEW_KERNELS].cursor;
    const fb_row *row = fb_model_row(app);
    if (!m->column || !m->column->plan) return FB_NONE;
    if (app->focus == FB_VIEW_KERNELS && at < m->kernels.n) return m->kernels.at[at].group;
    return row && row->letter != FB_NONE ? m->letters.first_group[row->letter]
           : m->kernels.n                ? m->kernels.at[0].group
                                         : FB_NONE;
}

/* "source · a layer_norm" */
static const char *kernel_title(fb_app *app, fb_arena *arena, const char *what, int group)
{
    fb_str text = {0};
    char letter[8];
    fb_str_addf(&text, "%s · %s ", what, fb_letter_name(app->model.letters.of_group[group], letter));
    fb_show_group_title(app->model.column->plan, group, &text);
    const fb_kernel_source *own = fb_plan_group(app->model.column->plan, group)->source;
    if (own) fb_str_addf(&text, " · %s", fb_file_name(own->path));
    const char *kept = fb_arena_strdup(arena, fb_str_get(&text));
    fb_str_free(&text);
    return kept;
}

/* ---- lines and nodes ----------------------------------------------------------------------------------------------
 */

/* "tanh_2" is how tanh may be called where the name is taken. */
static bool names_node(const char *word, size_t n, const char *leaf)
{
    size_t m = strlen(leaf);
    if (n < m || strncmp(word, leaf, m) != 0) return false;
    if (n > m && word[m] != '_') return false;
    for (size_t i = m + 1; i < n; i++)
        if (!isdigit((unsigned char)word[i])) return false;
    return n != m + 1;
}

static const char *leaf_of(const fb_graph *g, fb_id node)
{
    const char *path = g->nodes[node].name, *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* The name that a line gives a value to: what stands before " = ", " += " and the like. */
static const char *assigned(const char *line, size_t *n)
{
    const char *sign = strstr(line, " = ");
    if (!sign && (sign = strstr(line, "= "))) sign--;
    if (!sign || sign <= line) return NULL;
    const char *end = sign;
    while (end > line && strchr(" +-*/", end[-1])) end--;
    if (end > line && end[-1] == ']') /* tanh[i] */
        while (end > line && *end != '[') end--;
    const char *from = end;
    while (from > line && (isalnum((unsigned char)from[-1]) || from[-1] == '_')) from--;
    *n = (size_t)(end - from);
    return *n ? from : NULL;
}

/* The node of the group with that name, the longest that fits; FB_NONE. */
static fb_id node_called(const fb_graph *g, const fb_group *group, const char *word, size_t n)
{
    fb_id best = FB_NONE;
    size_t most = 0;
    for (int i = 0; i < group->n_nodes; i++) {
        const char *leaf = leaf_of(g, group->nodes[i]);
        if (!names_node(word, n, leaf) || strlen(leaf) <= most) continue;
        best = group->nodes[i];
        most = strlen(leaf);
    }
    return best;
}

static void find_nodes(source *s, fb_arena *arena, const fb_graph *g, const fb_group *group)
{
    s->node = FB_NEW_ARRAY(arena, fb_id, s->n + 1);
    s->graph = g->hash;
    for (int i = 0; i < s->n; i++) {
        size_t n;
        const char *word = assigned(s->lines[i], &n);
        s->node[i] = word ? node_called(g, group, word, n) : FB_NONE;
    }
}

/* ---- texts --------------------------------------------------------------------------------------------------------
 */

static void show_generated(fb_app *app, source *s, fb_arena *arena)
{
    const fb_column *c = app->model.column;
    int group = c && c->plan ? fb_source_group(app) : FB_NONE;
    if (group == FB_NONE) return;
    s->title = kernel_title(app, arena, kinds[FB_SOURCE_GENERATED].name, group);
    s->n = fb_code_lines(arena, fb_code_of(c, group, arena), &s->lines);
    if (!c->graph) return;
    find_nodes(s, arena, c->graph, fb_plan_group(c->plan, group));
    fb_id node = fb_model_node(app);
    for (int i = s->n - 1; i >= 0 && node != FB_NONE; i--)
        if (s->node[i] == node) app->scroll[FB_VIEW_SOURCE].cursor = i;
}

static int plan_lines(const fb_column *c, fb_arena *arena, const char ***out)
{
    fb_str all = {0};
    fb_code_of_plan(c, &all);
    int n = fb_code_lines(arena, fb_str_get(&all), out);
    fb_str_free(&all);
    return n;
}

/* Against column 1, or in column 1 against the one beside it. */
static void show_diff(fb_app *app, source *s, fb_arena *arena)
{
    int with = app->column ? 0 : 1;
    const fb_column *b = app->model.column,
                    *a = with < fb_session_columns(app->session) ? fb_session_column(app->session, with) : NULL;
    if (!a || !a->plan || !b->plan) {
        s->n = fb_code_lines(arena, "there is no other column whose plan is ours\n", &s->lines);
        return;
    }
    const char **la, **lb;
    fb_diff_line *d;
    int na = plan_lines(a, arena, &la), nb = plan_lines(b, arena, &lb);
    s->n = fb_show_text_diff(arena, la, na, lb, nb, &d);
    s->lines = FB_NEW_ARRAY(arena, const char *, s->n + 1);
    char *signs = fb_arena_alloc(arena, (size_t)s->n + 1);
    for (int i = 0; i < s->n; i++) {
        s->lines[i] = d[i].line;
        signs[i] = d[i].sign;
    }
    s->signs = signs;
    s->title = fb_arena_printf(arena, "diff · %d %s → %d %s", with + 1, a->plan_name, app->column + 1, b->plan_name);
}

static void show_lua(fb_app *app, source *s, fb_arena *arena)
{
    fb_str text = {0}, body = {0};
    char folder[PATH_MAX];
    fb_plan_to_lua(app->model.column->plan, fb_session_folder(app->session, folder), &body);
    fb_str_add(&text, "mine = function(pl)\n");
    for (const char *line = fb_str_get(&body); *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n'))
        fb_str_addf(&text, "  %.*s\n", (int)strcspn(line, "\n"), line);
    fb_str_add(&text, "end,\n");
    s->n = fb_code_lines(arena, fb_str_get(&text), &s->lines);
    fb_str_free(&text);
    fb_str_free(&body);
}

static void drop_helper(void *h)
{
    fb_helper_free(h);
}

/* What the compiler makes of it, by `fusebox emit` beside us; of the kernel under the cursor, but for resources, which
 * are compared. */
static void start_emit(fb_app *app, source *s, fb_arena *arena, fb_source_kind kind)
{
    enum { MOST = 64 };
    const fb_column *c = app->model.column;
    int group = kind == FB_SOURCE_RESOURCES ? FB_NONE : fb_source_group(app);
    const char *argv[MOST + 1], *name, *path = fb_session_path(app->session);
    char self[4096];
    int n = 0;
    fb_str spec = {0};
    fb_error err = {0};
    json_t *value, *plan = fb_plan_to_json(c->plan); /* as it is: a name may be another plan where there is a GPU */
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    if (*c->variant) fb_str_addf(&spec, "%s:", c->variant);
    bool good = fb_tried_plan_file(plan, &spec, &err);
    json_decref(plan);
    argv[n++] = self;
    argv[n++] = "emit";
    argv[n++] = path ? path : "";
    argv[n++] = fb_arena_strdup(arena, fb_str_get(&spec));
    argv[n++] = "--target";
    argv[n++] = kinds[kind].target;
    if (group != FB_NONE) {
        s->title = kernel_title(app, arena, kinds[kind].name, group);
        argv[n++] = "--kernel";
        argv[n++] = fb_arena_printf(arena, "%d", group + 1);
    }
    json_object_foreach(c->params, name, value)
    {
        char *text = json_is_string(value) ? fb_strdup(json_string_value(value)) : fb_json_line(value);
        if (n + 2 < MOST) {
            argv[n++] = "--set";
            argv[n++] = fb_arena_printf(arena, "%s=%s", name, text);
        }
        fb_free(text);
    }
    argv[n] = NULL;
    fb_str_free(&spec);
    if (good) s->helper = fb_helper_start(argv, &err);
    if (s->helper)
        fb_arena_defer(arena, drop_helper, s->helper);
    else
        s->n = fb_code_lines(arena, err.text, &s->lines);
}

static void opened(fb_app *app)
{
    source *s = fb_view_state(app, FB_VIEW_SOURCE, sizeof *s);
    fb_arena *arena = app->arena[FB_VIEW_SOURCE];
    fb_source_kind kind = app->source_kind;
    app->scroll[FB_VIEW_SOURCE] = (fb_scroll){0};
    s->title = kinds[kind].name;
    if (!app->model.column || !app->model.column->plan) return;
    switch (kind) {
    case FB_SOURCE_GENERATED: show_generated(app, s, arena); break;
    case FB_SOURCE_DIFF: show_diff(app, s, arena); break;
    case FB_SOURCE_LUA: show_lua(app, s, arena); break;
    default: start_emit(app, s, arena, kind); break;
    }
}

/* The node that a line computes. The column may have got another graph meanwhile, of which the text is not. */
static fb_id node_at(fb_app *app, int line)
{
    const source *s = state(app);
    const fb_column *c = app->model.column;
    bool known = s && s->node && line < s->n && c && c->graph && fb_hash_equal(c->graph->hash, s->graph);
    return known ? s->node[line] : FB_NONE;
}

fb_id fb_source_node(fb_app *app)
{
    return fb_app_view(app) == FB_VIEW_SOURCE ? node_at(app, app->scroll[FB_VIEW_SOURCE].cursor) : FB_NONE;
}

int fb_source_fd(fb_app *app)
{
    const source *s = state(app);
    return s && s->helper ? fb_helper_fd(s->helper) : -1;
}

void fb_source_pump(fb_app *app)
{
    source *s = state(app);
    if (!s || !s->helper || fb_helper_fd(s->helper) < 0 || !fb_helper_pump(s->helper)) return;
    s->n = fb_code_lines(app->arena[FB_VIEW_SOURCE], fb_helper_text(s->helper), &s->lines);
    app->dirty = true;
}

static void title(fb_app *app, fb_str *out)
{
    fb_str_add(out, state(app)->title);
    if (fb_source_fd(app) >= 0) fb_str_add(out, " · compiling …");
}

static int count(fb_app *app)
{
    return state(app) ? state(app)->n : 0;
}

static bool is_keyword(const char *p, size_t n)
{
    static const char *const words[] = {"for",        "if",           "else",    "return",   "const",  "static",
                                        "void",       "int",          "float",   "double",   "long",   "while",
                                        "struct",     "int64_t",      "int32_t", "restrict", "size_t", "__global__",
                                        "__shared__", "__restrict__", "bool",    "unsigned"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && !strncmp(words[i], p, n)) return true;
    return false;
}

/* Enough of C to tell comments and keywords apart. */
bool fb_view_draw_code(const fb_rect *r, int y, int x, const char *line, bool comment)
{
    char part[1024];
    for (const char *p = line; *p;) {
        fb_role role = FB_ROLE_TEXT;
        size_t n = 1;
        const char *end;
        if (comment || !strncmp(p, "/*", 2)) {
            end = strstr(comment ? p : p + 2, "*/");
            n = end ? (size_t)(end + 2 - p) : strlen(p);
            comment = !end;
            role = FB_ROLE_COMMENT;
        } else if (!strncmp(p, "//", 2) || *p == '#') {
            n = strlen(p);
            role = FB_ROLE_COMMENT;
        } else if (isalpha((unsigned char)*p) || *p == '_') {
            while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
            role = is_keyword(p, n) ? FB_ROLE_WORD : FB_ROLE_TEXT;
        } else {
            while (p[n] && !isalpha((unsigned char)p[n]) && p[n] != '_' && p[n] != '/' && p[n] != '#') n++;
        }
        snprintf(part, sizeof part, "%.*s", (int)n, p);
        x = fb_draw(r, y, x, role, part);
        p += n;
    }
    return comment;
}

static bool in_comment_before(const source *s, int line)
{
    bool inside = false;
    for (int i = 0; i < line; i++)
        for (const char *p = s->lines[i]; *p; p++) {
            if (!inside && !strncmp(p, "/*", 2))
                inside = true, p++;
            else if (inside && !strncmp(p, "*/", 2))
                inside = false, p++;
        }
    return inside;
}

/* Lines of the node whose line the cursor is on stand out. */
static bool of_same_node(const source *s, int line, int cursor)
{
    return s->node && cursor < s->n && s->node[cursor] != FB_NONE && s->node[line] == s->node[cursor];
}

/* What Tab goes through, in the frame. */
static void draw_kinds(const fb_app *app, const fb_rect *r)
{
    enum { ROOM = 90 };
    fb_rect frame = {r->y - 1, r->x, 1, r->w};
    int x = r->w - 2;
    if (r->w < ROOM) return;
    for (int k = FB_SOURCE_KINDS - 1; k >= 0; k--) {
        bool now = k == (int)app->source_kind;
        char text[32];
        snprintf(text, sizeof text, " %s ", kinds[k].name);
        x = fb_draw_right(&frame, 0, x, now ? FB_ROLE_FOCUS : FB_ROLE_DIM, text);
    }
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const source *s = state(app);
    draw_kinds(app, r);
    const fb_scroll *scroll = &app->scroll[FB_VIEW_SOURCE];
    fb_rect code = {r->y, r->x + NUMBERS + 1, r->h, r->w - NUMBERS - 1};
    bool comment = false;
    int before = -2; /* the line drawn before */
    for (int y = 0, line; y < r->h && (line = fb_shown_row(app, FB_VIEW_SOURCE, y, s->n)) != FB_NONE; y++) {
        char number[16], sign[2] = {s->signs ? s->signs[line] : ' ', '\0'};
        if (line != before + 1) comment = !s->signs && in_comment_before(s, line);
        before = line;
        bool here = fb_row_ground(app, FB_VIEW_SOURCE, r, y, line, focused);
        if (!here && of_same_node(s, line, scroll->cursor)) {
            fb_draw_ground(FB_GROUND_MARK);
            fb_draw_blank(r, y);
        }
        snprintf(number, sizeof number, "%d", line + 1);
        fb_draw_right(r, y, NUMBERS - 1, FB_ROLE_OFF, number);
        if (*sign != ' ') {
            fb_role role = *sign == '+' ? FB_ROLE_GOOD : FB_ROLE_BAD;
            fb_draw(r, y, NUMBERS - 1, role, sign);
            fb_draw(&code, y, -scroll->left, role, s->lines[line]);
        } else {
            comment = fb_view_draw_code(&code, y, -scroll->left, s->lines[line], comment);
        }
        if (fb_draw_text_width(s->lines[line]) - scroll->left > code.w) fb_draw(&code, y, code.w - 1, FB_ROLE_KEY, "→");
    }
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, state(app)->lines[row]);
}

/* All lines; of a diff with their signs. */
static void yank(fb_app *app, fb_str *out)
{
    const source *s = state(app);
    for (int i = 0; s && i < s->n; i++) fb_str_addf(out, "%.1s%s\n", s->signs ? &s->signs[i] : "", s->lines[i]);
}

static void explain(fb_app *app, fb_hint *hint)
{
    const fb_column *c = app->model.column;
    fb_id node = node_at(app, app->scroll[FB_VIEW_SOURCE].cursor);
    fb_str_addf(&hint->title, "%s", kinds[app->source_kind].name);
    if (node != FB_NONE) {
        fb_str_addf(&hint->title, " · %s", c->graph->nodes[node].name);
        fb_view_node_text(c->graph, node, &hint->line[0]);
    } else if (c && c->plan && app->source_kind == FB_SOURCE_GENERATED && fb_source_group(app) != FB_NONE) {
        fb_show_group_why(c->plan, fb_source_group(app), &hint->line[0]);
    } else if (c) {
        fb_str_addf(&hint->line[0], "column %d on %s: %s", app->column + 1, c->device, kinds[app->source_kind].help);
    }
    fb_str_addf(&hint->line[1], "%sTab: PTX, SASS, resources, diff, Lua · [ ]: another kernel",
                app->source_kind == FB_SOURCE_GENERATED ? "Enter: the line's node · " : "");
}

/* The next kernel of the column, or the one before, in what is shown of it. */
static void another_kernel(fb_app *app, int step)
{
    const fb_model *m = &app->model;
    int group = fb_source_group(app), letter = group == FB_NONE ? FB_NONE : m->letters.of_group[group], at = 0;
    for (int i = 0; i < m->kernels.n; i++)
        if (m->kernels.at[i].letter == letter) at = i;
    at += step;
    if (at < 0 || at >= m->kernels.n) {
        fb_app_say(app, FB_ROLE_DIM, "that is the %s kernel", step < 0 ? "first" : "last");
        return;
    }
    app->focus = FB_VIEW_KERNELS;
    app->scroll[FB_VIEW_KERNELS].cursor = at;
    opened(app);
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    fb_scroll *s = &app->scroll[FB_VIEW_SOURCE];
    fb_id node;
    (void)arg;
    switch (c) {
    case FB_CMD_RIGHT: s->left += STEP; return true;
    case FB_CMD_LEFT: s->left -= s->left >= STEP ? STEP : s->left; return true;
    case FB_CMD_NEXT_PANE:
    case FB_CMD_PREVIOUS_PANE:
        app->source_kind =
            (fb_source_kind)((app->source_kind + (c == FB_CMD_NEXT_PANE ? 1 : FB_SOURCE_KINDS - 1)) % FB_SOURCE_KINDS);
        opened(app);
        return true;
    case FB_CMD_EDGE_BACK:
    case FB_CMD_EDGE_NEXT: another_kernel(app, c == FB_CMD_EDGE_NEXT ? 1 : -1); return true;
    case FB_CMD_ENTER:
        node = node_at(app, s->cursor);
        if (node == FB_NONE) return true;
        fb_outline_reveal(app->model.outline, node);
        fb_model_refold(app);
        fb_model_go(app, node);
        app->focus = FB_VIEW_GRAPH;
        fb_app_hide(app);
        return true;
    default: return false;
    }
}

static const fb_view_key keys[] = {
    {FB_CMD_NEXT_PANE, "PTX, SASS …",
     "what the compiler makes of it, the difference to another column, the plan as Lua"},
    {FB_CMD_EDGE_NEXT, "[ ] kernel", "the next kernel of the column"},
    {FB_CMD_EDGE_BACK, "", "the kernel before"},
    {FB_CMD_ENTER, "node", "to the node in the graph that the line computes"},
    {FB_CMD_YANK, "copy", "copy the whole source"},
    {FB_CMD_LEFT, "", "the beginning of long lines"},
    {FB_CMD_RIGHT, "", "the end of long lines"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_source = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
    .keys = keys,
    .yank = yank,
    .beside = 110,
    .about = "The source of one kernel, as the device's compiler gets it: generated from the graph for this "
             "plan. Each statement computes one operation of the graph and has its name.\n"
             "Tab goes on to what the compiler makes of it, to the difference between two columns' sources, "
             "and to the plan as Lua.",
};
