/* Repetitions: "feature[3].tanh" and all that stands where it stands, "feature[*].tanh". Names carry the indices of
 * their scopes, so that two nodes correspond when their names differ in indices alone. */
#include "plan/parts.h"

#include <stdlib.h>
#include <string.h>

/* Length of an index "[12]" at `text`, or 0. */
static size_t index_length(const char *text)
{
    size_t digits = text[0] == '[' ? strspn(text + 1, "0123456789") : 0;
    return digits && text[1 + digits] == ']' ? digits + 2 : 0;
}

int fb_name_pattern(const char *name, fb_str *pattern, int64_t star[FB_MAX_STARS])
{
    int n = 0;
    while (*name) {
        size_t length = index_length(name);
        if (length && n < FB_MAX_STARS) {
            star[n++] = strtoll(name + 1, NULL, 10);
            if (pattern) fb_str_add(pattern, "[*]");
            name += length;
        } else {
            if (pattern) fb_str_add_n(pattern, name, 1);
            name++;
        }
    }
    return n;
}

bool fb_name_matches(const char *pattern, const char *name, int64_t star[FB_MAX_STARS], int *n_star)
{
    int n = 0;
    while (*pattern && *name) {
        size_t length = strncmp(pattern, "[*]", 3) == 0 ? index_length(name) : 0;
        if (length) {
            if (star && n < FB_MAX_STARS) star[n++] = strtoll(name + 1, NULL, 10);
            pattern += 3;
            name += length;
        } else if (*pattern++ != *name++) {
            return false;
        }
    }
    if (n_star) *n_star = n;
    return !*pattern && !*name;
}

int fb_match_nodes(const fb_graph *g, const char *pattern, fb_arena *arena, fb_id **out)
{
    fb_ids found = {0};
    if (!strstr(pattern, "[*]")) {
        fb_id id = fb_graph_find(g, pattern);
        if (id != FB_NONE) FB_VEC_PUSH(&found, id);
    } else {
        for (fb_id i = 0; i < g->n_nodes; i++)
            if (fb_name_matches(pattern, g->nodes[i].name, NULL, NULL)) FB_VEC_PUSH(&found, i);
    }
    int n = found.n;
    *out = fb_arena_copy(arena, found.at, (size_t)n * sizeof(fb_id));
    FB_VEC_FREE(&found);
    return n;
}

int fb_repeated_nodes(const fb_graph *g, fb_id node, fb_arena *arena, fb_id **out)
{
    fb_str pattern = {0};
    int64_t star[FB_MAX_STARS];
    fb_name_pattern(g->nodes[node].name, &pattern, star);
    int n = fb_match_nodes(g, fb_str_get(&pattern), arena, out);
    fb_str_free(&pattern);
    return n;
}

/* Do two names lie as far apart as two others: feature[3] and feature[3], step[3] and step[4]? */
static bool same_distance(const char *a, const char *b, const char *x, const char *y)
{
    int64_t sa[FB_MAX_STARS], sb[FB_MAX_STARS], sx[FB_MAX_STARS], sy[FB_MAX_STARS];
    int n = fb_name_pattern(a, NULL, sa), m = fb_name_pattern(b, NULL, sb);
    fb_name_pattern(x, NULL, sx);
    fb_name_pattern(y, NULL, sy);
    for (int i = 0; i < n && i < m; i++)
        if (sb[i] - sa[i] != sy[i] - sx[i]) return false;
    return true;
}

/* Pairs along edges: a's repetitions to those of b that lie as far from them as b does from a. */
static void pairs_along_edges(const fb_planner *p, fb_id a, fb_id b, const fb_id *as, int n, fb_pairs *out)
{
    const fb_deps *d = p->deps;
    const fb_node *node = p->g->nodes;
    fb_str pattern = {0};
    int64_t star[FB_MAX_STARS];
    fb_name_pattern(node[b].name, &pattern, star);
    for (int i = 0; i < n; i++) {
        for (int k = d->out_start[as[i]]; k < d->out_start[as[i] + 1]; k++) {
            fb_id c = d->edges[d->out[k]].consumer;
            if (fb_name_matches(fb_str_get(&pattern), node[c].name, NULL, NULL) &&
                same_distance(node[a].name, node[b].name, node[as[i]].name, node[c].name))
                FB_VEC_PUSH(out, (fb_pair){as[i], c});
        }
    }
    fb_str_free(&pattern);
}

void fb_repeated_pairs(const fb_planner *p, fb_id a, fb_id b, fb_pairs *out)
{
    fb_arena *arena = fb_arena_new();
    fb_id *as, *bs = NULL;
    int n = fb_repeated_nodes(p->g, a, arena, &as), m = b == FB_NONE ? 0 : fb_repeated_nodes(p->g, b, arena, &bs);
    if (b != FB_NONE && fb_deps_find(p->deps, a, b) != FB_NONE) {
        pairs_along_edges(p, a, b, as, n, out);
    } else if (m == 0 || m == 1 || m == n) {
        for (int i = 0; i < n; i++) FB_VEC_PUSH(out, (fb_pair){as[i], m == 0 ? FB_NONE : bs[m == 1 ? 0 : i]});
    } else {
        FB_VEC_PUSH(out, (fb_pair){a, b});
    }
    fb_arena_free(arena);
}
