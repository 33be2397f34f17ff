/* What random plans came by: places that make verdicts, their kinds and rules, pairs of a family and an op.
 *
 * requires  one process that makes plans one after the other; counts in memory that may be shared by several
 * provides  for each, by how many plans: and a table of it, those that none came by first */
#include "measure/fuzz.h"

#include "base/mem.h"
#include "judge/legality.h"
#include "judge/library.h"

#include <stdlib.h>
#include <string.h>

struct fb_fuzz_watch {
    int64_t place[FB_FUZZ_PLACES], verdict[FB_VERDICT_ILLEGAL + 1][FB_RULES];
};

static int places(void)
{
    return fb_verdict_places() < FB_FUZZ_PLACES ? fb_verdict_places() : FB_FUZZ_PLACES;
}

fb_fuzz_watch *fb_fuzz_watch_new(void)
{
    fb_fuzz_watch *w = fb_calloc(1, sizeof *w);
    for (int i = 0; i < places(); i++) w->place[i] = fb_verdict_place_at(i)->made;
    for (int k = 0; k <= FB_VERDICT_ILLEGAL; k++)
        for (int r = 0; r < FB_RULES; r++) w->verdict[k][r] = fb_verdict_made((fb_verdict_kind)k, (fb_rule)r);
    return w;
}

static void count_groups(const fb_plan *plan, fb_fuzz_coverage *c)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    const fb_machine *m = fb_planner_machine(fb_plan_planner(plan));
    bool there[FB_FAMILIES][FB_OPS] = {0}, convolves = false;
    for (int i = 0; i < fb_plan_groups(plan); i++) {
        const fb_group *group = fb_plan_group(plan, i);
        for (int k = 0; group->nest && k < group->n_nodes; k++)
            there[group->family][g->nodes[group->nodes[k]].op] = true;
        for (int k = 0; fb_family_row_of(group->family)->calls && k < group->n_nodes; k++)
            convolves |= fb_library_convolves(m, g, group->nodes[k], NULL, NULL, NULL);
    }
    c->convolutions += convolves;
    for (int f = 0; f < FB_FAMILIES; f++)
        for (int o = 0; o < FB_OPS; o++) c->pair[f][o] += there[f][o];
}

void fb_fuzz_watch_end(fb_fuzz_watch *w, const fb_plan *plan, fb_fuzz_coverage *c)
{
    for (int i = 0; i < places(); i++) c->place[i] += fb_verdict_place_at(i)->made > w->place[i];
    for (int k = 0; k <= FB_VERDICT_ILLEGAL; k++) {
        bool any = false;
        for (int r = 0; r < FB_RULES; r++) {
            bool made = fb_verdict_made((fb_verdict_kind)k, (fb_rule)r) > w->verdict[k][r];
            c->verdict[k][r] += made;
            any |= made;
        }
        c->kind[k] += any;
    }
    count_groups(plan, c);
    c->plans++;
    fb_free(w);
}

/* ---- the table ---- */

typedef struct {
    int64_t n;
    char what[24], name[200];
} row;

static int by_count(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->n != y->n) return (x->n > y->n) - (x->n < y->n);
    int what = -strcmp(x->what, y->what); /* verdicts and rules before pairs */
    return what ? what : strcmp(x->name, y->name);
}

/* Which ops a family may hold at all (judge/family.c); a merged loop is made of kernels of other families. */
static bool is_possible(fb_family f, const fb_op_info *op, bool gpu)
{
    bool whole = op->accepts == FB_ACCEPTS_LOGIC || op->accepts == FB_ACCEPTS_INT || op->accepts == FB_ACCEPTS_BITS;
    const fb_family_row *family = fb_family_row_of(f);
    if ((family->grids && !gpu) || (family->floats && whole && op->cls == FB_CLASS_POINTWISE)) return false;
    return family->classes >> op->cls & 1;
}

/* Edits of plans are judged in plan/ and judge/; products in tiles, and what a GPU's library takes, on GPUs alone. No
 * calibration is doubted here. */
static bool is_reachable(const fb_verdict_place *p, bool gpu)
{
    static const char *const of_gpus[] = {"schedule/gemm.c", "nest/tiled.c", "judge/library.c", "schedule/chain.c"};
    static const char *const says[] = {
        "a GPU",          "compute capability", "multiplied in tiles", "a tile of %s",     "which a tile on",
        "a thread moves", "calls no library",   "has no source",       "is a multiple of", "one library call"};
    bool ours = strstr(p->file, "plan/") && !strstr(p->said, "that is doubted");
    for (size_t i = 0; i < sizeof of_gpus / sizeof *of_gpus; i++) ours &= gpu || !strstr(p->file, of_gpus[i]);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) ours &= gpu || !strstr(p->said, says[i]);
    return ours;
}

/* "judge/legality.c:87 ILLEGAL WRITE_AFTER_READ \"`%s` reads …" */
static void name_place(const fb_verdict_place *p, fb_str *s)
{
    const char *file = strstr(p->file, "plan/");
    fb_str_addf(s, "%s:%d ", file ? file : p->file, p->line);
    for (const char *at = p->said; *at && s->n < 150; at++) {
        if (strncmp(at, "FB_VERDICT_", 11) == 0) at += 11;
        if (strncmp(at, "FB_RULE_", 8) == 0) at += 8;
        if (*at == '"' || *at == '\\') continue;
        fb_str_add_n(s, at, 1);
    }
}

static void add_row(row *rows, int *n, int64_t count, const char *what, const char *name)
{
    row *r = &rows[(*n)++];
    r->n = count;
    snprintf(r->what, sizeof r->what, "%s", what);
    fb_text_clean(r->name, sizeof r->name, name, strlen(name));
}

static int list(const fb_fuzz_coverage *c, bool gpu, row *rows)
{
    int n = 0;
    fb_str s = {0};
    for (int i = 0; i < places(); i++) {
        if (!c->place[i] && !is_reachable(fb_verdict_place_at(i), gpu)) continue;
        s.n = 0;
        name_place(fb_verdict_place_at(i), &s);
        add_row(rows, &n, c->place[i], "place", fb_str_get(&s));
    }
    for (int k = 0; k <= FB_VERDICT_ILLEGAL; k++)
        add_row(rows, &n, c->kind[k], "verdict", fb_verdict_kind_name((fb_verdict_kind)k));
    for (int r = FB_RULE_NONE + 1; r < FB_RULES; r++) {
        int64_t most = 0;
        for (int k = 0; k <= FB_VERDICT_ILLEGAL; k++) most = c->verdict[k][r] > most ? c->verdict[k][r] : most;
        add_row(rows, &n, most, "rule", fb_rule_get((fb_rule)r)->name);
    }
    for (int f = 0; f < FB_FAMILIES; f++) {
        for (int o = 0; o < FB_OPS; o++) {
            const fb_op_info *op = fb_op_get((fb_op)o);
            if (!c->pair[f][o] && !is_possible((fb_family)f, op, gpu)) continue;
            s.n = 0;
            fb_str_addf(&s, "%s × %s", fb_family_name((fb_family)f), op->name);
            add_row(rows, &n, c->pair[f][o], "family × op", fb_str_get(&s));
        }
    }
    add_row(rows, &n, c->convolutions, "family × op", "library × convolution");
    fb_str_free(&s);
    return n;
}

void fb_fuzz_coverage_print(const fb_fuzz_coverage *c, bool gpu, fb_str *out)
{
    row *rows = fb_calloc(FB_FUZZ_PLACES + FB_VERDICT_ILLEGAL + 1 + FB_RULES + FB_FAMILIES * FB_OPS + 1, sizeof *rows);
    int n = list(c, gpu, rows), none = 0;
    qsort(rows, (size_t)n, sizeof *rows, by_count);
    for (int i = 0; i < n; i++) none += rows[i].n == 0;
    fb_str_addf(out, "%d of %d rows were reached by none of %lld plans\n", none, n, (long long)c->plans);
    for (int i = 0; i < n; i++)
        fb_str_addf(out, "%10lld  %s%*s  %s\n", (long long)rows[i].n, rows[i].what,
                    11 - (int)strlen(rows[i].what) + (strstr(rows[i].what, "×") != NULL), "", rows[i].name);
    fb_free(rows);
}
