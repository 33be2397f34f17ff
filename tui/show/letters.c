/* Gives groups their letters in launch order, equal groups of a repetition the same. Pure. */
#include "tui/show/letters.h"

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

void fb_show_group_title(const fb_plan *plan, int group, fb_str *out)
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
    fb_show_group_title(plan, l->first_group[letter], out);
}

static const char *leaf(const fb_graph *g, fb_id node)
{
    const char *dot = strrchr(g->nodes[node].name, '.');
    return dot ? dot + 1 : g->nodes[node].name;
}

void fb_show_group_why(const fb_plan *plan, int group, fb_str *out)
{
    static const char *const then[FB_FAMILIES] = {
        [FB_FAMILY_REDUCE] = ", and all of a row's work is done while the row is at hand",
        [FB_FAMILY_GEMM] = ", whose sums stay on chip until all that is made of them is stored",
        [FB_FAMILY_LIBRARY] = " is left to the library, and what follows takes its result",
        [FB_FAMILY_CHAIN] = ": what the first makes goes on to the next while its rows are at hand",
        [FB_FAMILY_COPY] = " puts values in another order, and no index arithmetic can stand for that",
    };
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    const fb_group *own = fb_plan_group(plan, group);
    const char *words[3] = {NULL};
    int n = 0;
    for (int i = 0; i < own->n_nodes; i++) {
        fb_op_class class = fb_node_class(g, own->nodes[i]);
        bool product = class == FB_CLASS_CONTRACTION, reduction = class == FB_CLASS_REDUCTION;
        bool join = class == FB_CLASS_JOIN;
        bool says = own->family == FB_FAMILY_REDUCE ? product || reduction
                    : own->family == FB_FAMILY_COPY ? join
                                                    : product;
        if (says && n < 3) words[n++] = leaf(g, own->nodes[i]);
    }
    fb_str_addf(out, "%s: ", fb_family_name(own->family));
    if (own->family == FB_FAMILY_POINTWISE) {
        fb_str_addf(out, "%d operation%s, every element by itself: nothing is reduced and nothing is a product",
                    own->n_nodes, own->n_nodes == 1 ? "" : "s");
        return;
    }
    for (int i = 0; i < n; i++) fb_str_addf(out, "%s%s", i ? ", " : "", words[i]);
    if (!n) fb_str_add(out, !own->n_nodes ? "it" : leaf(g, own->nodes[0]));
    if (own->family == FB_FAMILY_REDUCE) fb_str_addf(out, " %s rows", n == 1 ? "reduces" : "reduce");
    if (own->family == FB_FAMILY_GEMM) fb_str_addf(out, n == 1 ? " is a product" : " are products");
    if (own->family == FB_FAMILY_CHAIN) fb_str_add(out, " are products");
    if (then[own->family]) fb_str_add(out, then[own->family]);
}
