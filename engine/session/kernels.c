/* Kernels in files of the user's: where plans find them, what they hold now, and whether they may run.
 *
 * A plan names such a file by its absolute path; scripts and plan files name it from where they lie. Its text is read
 * when a column takes a plan, told to the planner, and read again when the file is saved. A text that nobody agreed to
 * is looked at but never run: what was agreed to stands in $XDG_STATE_HOME/fusebox/trusted, a line "SHA-256  path"
 * each, as sha256sum has it. */
#include "session/internal.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "code/consent.h"
#include "code/lower.h"
#include "session/library.h"
#include "session/names.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KERNEL_MAX = 1 << 20, TRUSTED_MAX = 16 << 20 };

/* ---- paths ---- */

/* The file may not be there yet, its folder is. */
static bool absolute(const char *path, char to[PATH_MAX])
{
    char folder[PATH_MAX], whole[PATH_MAX];
    if (realpath(path, to)) return true;
    const char *name = fb_file_name(path);
    snprintf(folder, sizeof folder, "%.*s", name > path ? (int)(name - path) : 1, name > path ? path : ".");
    if (!name[0] || !realpath(folder, whole)) return false;
    return snprintf(to, PATH_MAX, "%s/%s", strcmp(whole, "/") ? whole : "", name) < PATH_MAX;
}

const char *fb_kernels_folder(const char *file, char to[PATH_MAX])
{
    if (!absolute(file, to)) return NULL;
    char *slash = strrchr(to, '/');
    slash[slash == to] = '\0';
    return to;
}

const char *fb_session_folder(const fb_session *s, char to[PATH_MAX])
{
    char data[PATH_MAX];
    if (s->path && access(s->path, R_OK) == 0) return fb_kernels_folder(s->path, to);
    return fb_data_path("kernel", data, sizeof data) ? fb_kernels_folder(data, to) : NULL;
}

bool fb_kernels_locate(json_t *plan, const char *folder, bool below, fb_error *err)
{
    size_t i;
    json_t *group;
    char joined[2 * PATH_MAX], path[PATH_MAX];
    json_array_foreach(json_object_get(plan, "groups"), i, group)
    {
        const char *named = fb_json_string_or(group, "source", NULL);
        if (!named) continue;
        if (below && (named[0] == '/' || strstr(named, "..")))
            return fb_fail(err, FB_ERR_INPUT, "%s: kernels are named relative to the script's folder, without \"..\"",
                           named);
        bool whole = named[0] == '/' || !folder;
        snprintf(joined, sizeof joined, "%s%s%s", whole ? "" : folder, whole ? "" : "/", named);
        if (!folder || strlen(joined) >= PATH_MAX || !absolute(joined, path))
            return fb_fail(err, FB_ERR_INPUT, "%s: there is no such folder", named);
        json_object_set_new(group, "source", json_string(path));
    }
    return true;
}

const char *fb_session_kernel_path(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

void fb_kernels_relate(json_t *plan, const char *file)
{
    size_t i;
    json_t *group;
    char folder[PATH_MAX];
    if (!fb_kernels_folder(file, folder)) return;
    json_array_foreach(json_object_get(plan, "groups"), i, group)
    {
        const char *path = fb_json_string_or(group, "source", NULL);
        if (path) json_object_set_new(group, "source", json_string(fb_session_kernel_path(path, folder)));
    }
}

/* ---- texts ---- */

static bool read_kernel(const char *path, char **text, fb_error *err)
{
    size_t n;
    *text = fb_read_file(path, KERNEL_MAX, &n, err);
    json_t *fits = *text ? json_stringn(*text, n) : NULL; /* as it goes to a worker */
    if (*text && (!fits || strlen(*text) != n)) {
        fb_fail(err, FB_ERR_INPUT, "%s: not a text in UTF-8", path);
        fb_free(*text);
        *text = NULL;
    }
    json_decref(fits);
    if (*text && !fb_consent_source(fb_file_name(path), *text, err)) {
        fb_free(*text);
        *text = NULL;
    }
    return *text != NULL;
}

bool fb_kernels_read(const fb_plan *plan, fb_error *err)
{
    fb_arena *arena = fb_arena_new();
    const fb_kernel_source **files;
    int n = fb_plan_sources(plan, arena, &files);
    bool fine = true;
    for (int i = 0; i < n && fine; i++) {
        char *text;
        fine = read_kernel(files[i]->path, &text, err);
        fb_planner_set_source(fb_plan_planner(plan), files[i]->path, text);
        fb_free(text);
    }
    fb_arena_free(arena);
    return fine;
}

typedef FB_VEC(const fb_kernel_source *) source_list;

static bool holds(const source_list *list, const fb_kernel_source *file)
{
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == file) return true;
    return false;
}

/* Reads the files of one plan again; those that hold something else now go to `changed`. */
static void read_again(const fb_plan *plan, source_list *seen, source_list *changed)
{
    fb_arena *arena = fb_arena_new();
    const fb_kernel_source **files;
    int n = fb_plan_sources(plan, arena, &files);
    for (int i = 0; i < n; i++) {
        char *text;
        if (holds(seen, files[i])) continue;
        FB_VEC_PUSH(seen, files[i]);
        /* an editor that writes beside and renames may just be at it */
        if (!read_kernel(files[i]->path, &text, NULL)) continue;
        if (!files[i]->text || strcmp(files[i]->text, text) != 0) {
            fb_planner_set_source(fb_plan_planner(plan), files[i]->path, text);
            FB_VEC_PUSH(changed, files[i]);
        }
        fb_free(text);
    }
    fb_arena_free(arena);
}

static bool names_any(const fb_plan *plan, const source_list *changed)
{
    fb_arena *arena = fb_arena_new();
    const fb_kernel_source **files;
    int n = fb_plan_sources(plan, arena, &files);
    bool any = false;
    for (int i = 0; i < n && !any; i++) any = holds(changed, files[i]);
    fb_arena_free(arena);
    return any;
}

int fb_session_kernels_saved(fb_session *s)
{
    source_list seen = {0}, changed = {0};
    int columns = 0;
    for (int i = 0; i < s->columns.n; i++)
        if (s->columns.at[i]->shown.plan) read_again(s->columns.at[i]->shown.plan, &seen, &changed);
    for (int i = 0; i < s->columns.n && changed.n; i++) {
        fb_column_record *c = s->columns.at[i];
        if (!c->shown.plan || !names_any(c->shown.plan, &changed)) continue;
        fb_column_replanned(c);
        columns++;
    }
    FB_VEC_FREE(&seen);
    FB_VEC_FREE(&changed);
    return columns;
}

int fb_session_kernel_files(const fb_session *s, fb_arena *arena, const char ***out)
{
    int n = 0, room = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass) *out = FB_NEW_ARRAY(arena, const char *, room);
        for (int i = 0; i < s->columns.n; i++) {
            const fb_kernel_source **files;
            const fb_plan *plan = s->columns.at[i]->shown.plan;
            int k = plan ? fb_plan_sources(plan, arena, &files) : 0;
            if (!pass) room += k;
            for (int f = 0; f < k && pass; f++) {
                bool known = false;
                for (int j = 0; j < n && !known; j++) known = strcmp((*out)[j], files[f]->path) == 0;
                if (!known) (*out)[n++] = fb_arena_strdup(arena, files[f]->path);
            }
        }
    }
    return n;
}

/* ---- trust ---- */

static bool is_listed(const char *const *list, int n, const char *text)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i], text) == 0) return true;
    return false;
}

static void line_of(const char *path, const char *text, fb_str *out)
{
    char hex[65];
    fb_str_addf(out, "%s  %s", fb_sha256_hex(text, strlen(text), hex), path);
}

static bool was_agreed(const fb_session *s, const char *line)
{
    char path[PATH_MAX];
    if (is_listed((const char *const *)s->trusted.at, s->trusted.n, line)) return true;
    bool named = fb_state_path("trusted", path, sizeof path);
    char *all = named ? fb_read_private_file(path, TRUSTED_MAX, NULL, NULL) : NULL;
    bool found = fb_state_has_line(all ? all : "", line);
    fb_free(all);
    return found;
}

/* One that cannot be remembered is agreed to until this session ends. */
static void agree(fb_session *s, const char *path, const char *text)
{
    char file[PATH_MAX];
    fb_str line = {0};
    line_of(path, text, &line);
    if (!was_agreed(s, fb_str_get(&line))) {
        FB_VEC_PUSH(&s->trusted, fb_strdup(fb_str_get(&line)));
        fb_error why = {0};
        bool can = !strchr(path, '\n') && fb_state_path("trusted", file, sizeof file);
        if (can && !fb_file_append(file, FB_FILE_PRIVATE, fb_str_get(&line), &why)) fb_session_say(s, "%s", why.text);
    }
    fb_str_free(&line);
}

static bool may_run(fb_session *s, const fb_kernel_source *file)
{
    bool own = s->options.trust || is_listed((const char *const *)s->own_kernels.at, s->own_kernels.n, file->path);
    if (own) agree(s, file->path, file->text);
    fb_str line = {0};
    line_of(file->path, file->text, &line);
    bool may = own || was_agreed(s, fb_str_get(&line));
    fb_str_free(&line);
    return may;
}

/* The first file of the plan that nobody has agreed to; NULL. */
static const fb_kernel_source *foreign_one(fb_session *s, const fb_plan *plan, fb_arena *arena)
{
    const fb_kernel_source **files;
    int n = plan ? fb_plan_sources(plan, arena, &files) : 0;
    for (int i = 0; i < n; i++)
        if (files[i]->text && !may_run(s, files[i])) return files[i];
    return NULL;
}

static bool all_read(const fb_plan *plan, fb_arena *arena)
{
    const fb_kernel_source **files;
    int n = plan ? fb_plan_sources(plan, arena, &files) : 0;
    for (int i = 0; i < n; i++)
        if (!files[i]->text) return false;
    return true;
}

bool fb_kernels_ready(fb_column_record *c, fb_error *err)
{
    char hex[65];
    fb_arena *arena = fb_arena_new();
    bool read = all_read(c->shown.plan, arena) || fb_kernels_read(c->shown.plan, err);
    const fb_kernel_source *file = foreign_one(c->session, c->shown.plan, arena);
    c->untrusted = file != NULL;
    if (file)
        fb_fail(err, FB_ERR_INPUT,
                "%s is native code that would run as you, and nobody has agreed to that: read it, then say --trust "
                "(SHA-256 %s)",
                file->path, fb_sha256_hex(file->text, strlen(file->text), hex));
    fb_arena_free(arena);
    return read && !file;
}

const char *fb_session_untrusted(fb_session *s, fb_arena *arena, const char **hash)
{
    char hex[65];
    for (int i = 0; i < s->columns.n; i++) {
        const fb_column_record *c = s->columns.at[i];
        const fb_kernel_source *file = c->untrusted ? foreign_one(s, c->shown.plan, arena) : NULL;
        if (!file) continue;
        *hash = fb_arena_strdup(arena, fb_sha256_hex(file->text, strlen(file->text), hex));
        return fb_arena_strdup(arena, file->path);
    }
    return NULL;
}

void fb_session_trust(fb_session *s, const char *hash)
{
    char hex[65];
    fb_arena *arena = fb_arena_new();
    for (int i = 0; i < s->columns.n; i++) {
        fb_column_record *c = s->columns.at[i];
        const fb_kernel_source **files;
        int n = c->untrusted && c->shown.plan ? fb_plan_sources(c->shown.plan, arena, &files) : 0;
        for (int k = 0; k < n; k++)
            if (files[k]->text && strcmp(fb_sha256_hex(files[k]->text, strlen(files[k]->text), hex), hash) == 0)
                agree(s, files[k]->path, files[k]->text);
        if (!n || foreign_one(s, c->shown.plan, arena)) continue;
        c->untrusted = false;
        fb_column_set_state(c, FB_COLUMN_READY);
        c->changed_ns = 0;
        fb_job_start(s, c, false);
    }
    fb_arena_free(arena);
}

void fb_session_own_kernel(fb_session *s, const char *path)
{
    char whole[PATH_MAX];
    if (absolute(path, whole) && !is_listed((const char *const *)s->own_kernels.at, s->own_kernels.n, whole))
        FB_VEC_PUSH(&s->own_kernels, fb_strdup(whole));
}

void fb_kernels_free(fb_session *s)
{
    while (s->trusted.n) fb_free(s->trusted.at[--s->trusted.n]);
    while (s->own_kernels.n) fb_free(s->own_kernels.at[--s->own_kernels.n]);
    FB_VEC_FREE(&s->trusted);
    FB_VEC_FREE(&s->own_kernels);
}

/* ---- taking a kernel over ---- */

static const fb_target *target_of(const fb_plan *plan)
{
    return fb_planner_machine(fb_plan_planner(plan))->target;
}

static const fb_column_record *with_plan(const fb_session *s, int column, int group, fb_error *err)
{
    const fb_column_record *c = fb_column_at(s, column);
    if (!c || !c->shown.plan) {
        fb_fail(err, FB_ERR_USAGE, "%s: the device generates its own code", c ? c->text : "no column");
        return NULL;
    }
    if (c->next || c->shown.state == FB_COLUMN_BUILDING) {
        fb_fail(err, FB_ERR_USAGE, "%s is being built", c->text);
        return NULL;
    }
    if (group < 0 || group >= fb_plan_groups(c->shown.plan)) {
        fb_fail(err, FB_ERR_USAGE, "%s has no kernel %d", c->text, group + 1);
        return NULL;
    }
    return c;
}

static const char *kernel_name(const fb_plan *plan, int group, fb_arena *arena)
{
    const fb_group *of = fb_plan_group(plan, group);
    return fb_emit_kernel_name(fb_planner_graph(fb_plan_planner(plan)), of->n_nodes, of->nodes, arena);
}

/* By the names that reports and `emit` give kernels; FB_NONE. */
static int group_of_kernel(const fb_plan *plan, const char *name)
{
    fb_program *p = fb_lower(plan, target_of(plan), NULL);
    int found = FB_NONE;
    for (int k = 0; p && k < p->n_kernels && found == FB_NONE; k++)
        if (strcmp(p->kernels[k].name, name) == 0) found = p->kernels[k].group;
    fb_program_free(p);
    return found;
}

static void no_such_kernel(const fb_column *c, const char *name, fb_error *err)
{
    int n = fb_plan_groups(c->plan);
    fb_arena *arena = fb_arena_new();
    const char **names = FB_NEW_ARRAY(arena, const char *, n);
    for (int i = 0; i < n; i++) names[i] = kernel_name(c->plan, i, arena);
    const char *near = fb_nearest(name, names, n);
    fb_fail(err, FB_ERR_USAGE, "%s has no kernel \"%.80s\"%s%s%s; `fusebox graph` lists its kernels by number", c->text,
            name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    fb_arena_free(arena);
}

int fb_session_kernels_named(const fb_session *s, int column, const char *name, fb_arena *arena, int **out,
                             fb_error *err)
{
    const fb_column_record *c = with_plan(s, column, 0, err);
    if (!c) return 0;
    const fb_plan *plan = c->shown.plan;
    int groups = fb_plan_groups(plan), one = FB_NONE, n = 0;
    char *end;
    long number = strtol(name, &end, 10);
    if (end != name && !*end && number >= 1 && number <= groups) one = (int)number - 1;
    if (one == FB_NONE) one = group_of_kernel(plan, name);
    bool *meant = FB_NEW_ARRAY(arena, bool, groups);
    if (one != FB_NONE) meant[one] = true;
    fb_id *nodes;
    int n_nodes = one == FB_NONE ? fb_match_nodes(c->shown.graph, name, arena, &nodes) : 0;
    for (int i = 0; i < n_nodes; i++) {
        int group = fb_plan_group_of(plan, nodes[i]);
        if (group != FB_NONE) meant[group] = true;
    }
    *out = FB_NEW_ARRAY(arena, int, groups);
    for (int i = 0; i < groups; i++)
        if (meant[i]) (*out)[n++] = i;
    if (!n) no_such_kernel(&c->shown, name, err);
    return n;
}

/* Do all of these groups run the kernel of the first? */
static bool share_kernel(const fb_plan *plan, const int *group, int n, fb_error *err)
{
    bool *shares = fb_calloc((size_t)fb_plan_groups(plan) + 1, sizeof *shares), all = true;
    const fb_eject_origin from = {.script = "", .column = ""};
    fb_str text = {0};
    fb_error why = {0};
    if (n > 1 && !fb_lower_eject(plan, group[0], target_of(plan), &from, &text, shares, &why)) all = false;
    for (int i = 1; i < n && all; i++) all = shares[group[i]];
    if (!all && why.kind)
        *err = why;
    else if (!all)
        fb_fail(err, FB_ERR_USAGE, "these nodes are in %d kernels that differ, such as %d and %d: name one of them", n,
                group[0] + 1, group[n - 1] + 1);
    fb_str_free(&text);
    fb_free(shares);
    return all;
}

int fb_session_kernel_named(const fb_session *s, int column, const char *name, fb_error *err)
{
    fb_arena *arena = fb_arena_new();
    int *groups, n = fb_session_kernels_named(s, column, name, arena, &groups, err);
    int first = n && share_kernel(fb_column_at(s, column)->shown.plan, groups, n, err) ? groups[0] : FB_NONE;
    fb_arena_free(arena);
    return first;
}

bool fb_session_eject_path(const fb_session *s, int column, int group, const char *folder, char to[PATH_MAX],
                           fb_error *err)
{
    const fb_column_record *c = with_plan(s, column, group, err);
    if (!c) return false;
    fb_arena *arena = fb_arena_new();
    const char *name = kernel_name(c->shown.plan, group, arena);
    const char *ending = target_of(c->shown.plan)->ending;
    int n = snprintf(to, PATH_MAX, "%s%s%s.%s", folder, folder[0] ? "/" : "", name, ending);
    for (int i = 2; folder[0] && n < PATH_MAX && access(to, F_OK) == 0; i++)
        n = snprintf(to, PATH_MAX, "%s/%s_%d.%s", folder, name, i, ending);
    fb_arena_free(arena);
    return n < PATH_MAX || fb_fail(err, FB_ERR_SYSTEM, "%.200s: the path is too long", folder);
}

/* The plan with that file as the kernel of all groups that share it. */
static fb_plan *with_source(const fb_plan *plan, const bool *shares, const char *path, fb_error *err)
{
    fb_plan *now = fb_plan_copy(plan);
    for (int i = 0; i < fb_plan_groups(plan) && now; i++) {
        if (!shares[i]) continue;
        fb_plan *next = NULL;
        fb_edit edit = {.kind = FB_EDIT_SOURCE, .a = fb_plan_group(plan, i)->nodes[0], .b = FB_NONE, .source = path};
        for (int k = 0; k < fb_plan_group(plan, i)->n_nodes; k++) /* one that it owns */
            if (fb_plan_group_of(plan, fb_plan_group(plan, i)->nodes[k]) == i)
                edit.a = fb_plan_group(plan, i)->nodes[k];
        fb_verdict v = fb_plan_try(now, &edit, &next);
        if (!next) fb_fail(err, FB_ERR_INPUT, "%s", v.text);
        fb_plan_free(now);
        now = next;
    }
    return now;
}

int fb_session_eject(fb_session *s, int column, int group, const char *path, bool replace, fb_error *err)
{
    char whole[PATH_MAX];
    const fb_column_record *c = with_plan(s, column, group, err);
    if (!c) return -1;
    const fb_target *target = target_of(c->shown.plan);
    const char *dot = strrchr(path, '.');
    if (!dot || strcmp(dot + 1, target->ending) != 0)
        return fb_fail(err, FB_ERR_USAGE, "%s: the column's kernels are %s: end it in .%s", path, target->title,
                       target->ending),
               -1;
    if (!replace && access(path, F_OK) == 0) return fb_fail(err, FB_ERR_USAGE, "%s is there already", path), -1;
    if (!absolute(path, whole)) return fb_fail(err, FB_ERR_SYSTEM, "%s: there is no such folder", path), -1;
    const fb_plan *plan = c->shown.plan;
    bool *shares = fb_calloc((size_t)fb_plan_groups(plan) + 1, sizeof *shares);
    const fb_eject_origin from = {.script = s->path ? s->path : "a graph", .column = c->text};
    fb_str text = {0};
    bool fine = fb_lower_eject(plan, group, target_of(plan), &from, &text, shares, err);
    fb_plan *own = fine ? with_source(plan, shares, whole, err) : NULL;
    int at = -1;
    if (own && fb_write_file(whole, fb_str_get(&text), text.n, err)) {
        char label[96];
        snprintf(label, sizeof label, "kernel %.80s", fb_file_name(whole));
        fb_session_own_kernel(s, whole);
        agree(s, whole, fb_str_get(&text));
        at = fb_session_duplicate(s, column);
        fb_column_record *to = fb_column_at(s, at);
        fb_planner_set_source(fb_plan_planner(own), whole, fb_str_get(&text));
        fb_column_push(to, own, NULL, label);
        fb_column_replanned(to);
        own = NULL;
    }
    fb_plan_free(own);
    fb_str_free(&text);
    fb_free(shares);
    return at;
}
