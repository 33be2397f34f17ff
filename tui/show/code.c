/* The generated text of a column's kernels, and its split into lines with the node of each. Needs a plan. */
#include "tui/show/code.h"

#include "base/vec.h"
#include "code/lower.h"

#include <string.h>

enum { TAB = 4 };

const char *fb_code_language(const fb_column *c)
{
    return c->machine && c->machine->target->generates ? c->machine->target->name : "c";
}

const char *fb_code_of(const fb_column *c, int group, fb_arena *arena)
{
    const fb_target *target = fb_target_find(fb_code_language(c));
    const char *text = target ? fb_lower_group_source(c->plan, group, target, arena) : NULL;
    return text ? text : "/* a library call: there is no source */\n";
}

void fb_code_of_plan(const fb_column *c, fb_str *out)
{
    fb_arena *arena = fb_arena_new();
    const fb_target *target = fb_target_find(fb_code_language(c));
    FB_VEC(const char *) seen = {0};
    for (int g = 0; target && g < fb_plan_groups(c->plan); g++) {
        const char *text = fb_lower_group_source(c->plan, g, target, arena);
        bool known = !text;
        for (int i = 0; i < seen.n && !known; i++) known = !strcmp(seen.at[i], text);
        if (known) continue;
        FB_VEC_PUSH(&seen, text);
        fb_str_addf(out, "%s\n", text);
    }
    FB_VEC_FREE(&seen);
    fb_arena_free(arena);
}

int fb_code_lines(fb_arena *arena, const char *text, const char ***out)
{
    int n = 1, at = 0;
    for (const char *p = text; *p; p++) n += *p == '\n';
    *out = FB_NEW_ARRAY(arena, const char *, n);
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n"), tabs = 0, to = 0;
        for (size_t i = 0; i < len; i++) tabs += p[i] == '\t';
        char *line = fb_arena_alloc(arena, len + TAB * tabs + 1);
        for (size_t i = 0; i < len; i++)
            if (p[i] == '\t') do
                    line[to++] = ' ';
                while (to % TAB);
            else
                line[to++] = p[i];
        (*out)[at++] = line;
        p += len + (p[len] == '\n');
    }
    return at;
}
