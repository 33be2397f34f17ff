#include "tui/letters.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

typedef struct {
    fb_hash content; /* of the classes of the group's nodes */
    int letter;
    UT_hash_handle hh;
} known;

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The set of repetition classes in the group, and how often each is there: a group over all 16 members is not like one
 * over a single member. */
static fb_hash content_of(const fb_group *g, const fb_outline *o, int *scratch)
{
    for (int i = 0; i < g->n_nodes; i++) scratch[i] = o->class_of[g->nodes[i]];
    qsort(scratch, (size_t)g->n_nodes, sizeof *scratch, compare_ints);
    return fb_hash_bytes(scratch, (size_t)g->n_nodes * sizeof *scratch);
}

void fb_letters_make(fb_letters *l, const fb_plan *plan, const fb_outline *o)
{
    known *all = NULL, *k, *next;
    int n = l->n_groups = fb_plan_groups(plan);
    int *scratch = fb_calloc((size_t)o->graph->n_nodes + 1, sizeof *scratch);
    l->n = 0;
    l->of_group = fb_calloc((size_t)n + 1, sizeof *l->of_group);
    l->first_group = fb_calloc((size_t)n + 1, sizeof *l->first_group);
    l->count = fb_calloc((size_t)n + 1, sizeof *l->count);
    for (int i = 0; i < n; i++) {
        fb_hash content = content_of(fb_plan_group(plan, i), o, scratch);
        HASH_FIND(hh, all, &content, sizeof content, k);
        if (!k) {
            k = fb_calloc(1, sizeof *k);
            k->content = content;
            k->letter = l->n++;
            l->first_group[k->letter] = i;
            HASH_ADD(hh, all, content, sizeof k->content, k);
        }
        l->of_group[i] = k->letter;
        l->count[k->letter]++;
    }
    HASH_ITER(hh, all, k, next)
    {
        HASH_DEL(all, k);
        fb_free(k);
    }
    fb_free(scratch);
}

void fb_letters_free(fb_letters *l)
{
    fb_free(l->of_group);
    fb_free(l->first_group);
    fb_free(l->count);
    *l = (fb_letters){0};
}

const char *fb_letter_name(int letter, char to[8])
{
    char back[8];
    int n = 0, at = 0;
    for (int v = letter; v >= 0 && n < 6; v = v / 26 - 1) back[n++] = (char)('a' + v % 26);
    while (n) to[at++] = back[--n];
    to[at] = '\0';
    return to;
}

/* People know "layer_norm", not its mean and rsqrt: the outermost op scope's name, else the node's own. */
static const char *word_for(const fb_graph *g, fb_id node)
{
    const char *word = NULL, *name = g->nodes[node].name, *dot = strrchr(name, '.');
    for (fb_id s = g->nodes[node].scope; s != FB_NONE; s = g->scopes[s].parent)
        if (g->scopes[s].kind == FB_SCOPE_OP) word = g->scopes[s].name;
    return word ? word : dot ? dot + 1 : name;
}

void fb_group_title(const fb_plan *plan, int group, fb_str *out)
{
    enum { MOST = 6 };
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    const fb_group *gr = fb_plan_group(plan, group);
    const char *words[MOST];
    int n = 0;
    for (int i = 0; i < gr->n_nodes; i++) {
        const char *w = word_for(g, gr->nodes[i]);
        int k = 0;
        while (k < n && strcmp(words[k], w) != 0) k++;
        if (k < n) continue;
        if (n == MOST) {
            fb_str_add(out, "·…");
            return;
        }
        words[n++] = w;
        if (n > 1) fb_str_add(out, "·");
        fb_str_add(out, w);
    }
}

void fb_letter_title(const fb_letters *l, const fb_plan *plan, int letter, fb_str *out)
{
    fb_group_title(plan, l->first_group[letter], out);
}
