/* Places in a sorted row. To count what goes before an element takes a row's length, and that for each of its elements;
 * a row whose places are all asked for is sorted once, ahead of the loop over them. Where only the first places matter,
 * as they do to what is chosen by place < k, these are found without a sort of the rest.
 *
 * requires  a section of rows that are done one after the other
 * provides  the value that is such a place, and how many places are told apart, for cost and code */
#include "schedule/schedule.h"

#include "base/integer.h"
#include "base/mem.h"
#include "base/mutate.h"

/* What rank v sorts is made of what is read in its own pass, and of nothing that the last row variable moves. */
static bool is_fine(const fb_section *s, fb_val v, int space)
{
    const fb_value *x = &s->values[v];
    bool known = x->kind == FB_VALUE_LOAD || x->kind == FB_VALUE_OP || x->kind == FB_VALUE_SELECT;
    if (x->rows >> (s->rows.n - 1) & 1) return false;
    if (fb_value_is_leaf(x)) return true;
    if (!known || x->space != space || x->depth || x->table != FB_NONE) return false;
    for (int a = 0; a < x->n_args; a++)
        if (!is_fine(s, x->args[a], space)) return false;
    return true;
}

/* Is the last row variable, and that alone, the place that is asked for? */
static bool goes_along(const fb_nest *nest, const fb_section *s, const fb_value *rank)
{
    const fb_space *rows = &s->rows, *space = &s->spaces[rank->over];
    fb_ix at = s->values[rank->args[2]].at, rest;
    int64_t stride;
    if (space->n != 1 || rows->extent[rows->n - 1] != space->extent[0]) return false;
    if (!fb_ix_stride(nest->pool, at, rows->var[rows->n - 1], &stride, &rest) || stride != 1) return false;
    if (!fb_ix_stride(nest->pool, rest, space->var[0], &stride, &rest) || stride != -1) return false;
    int64_t low, high;
    fb_ix_range(nest->pool, rest, &low, &high);
    return low == 0 && high == 0;
}

/* Nothing else is done in its pass. */
static bool is_alone(const fb_section *s, fb_val v)
{
    const fb_value *rank = &s->values[v];
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *x = &s->values[i];
        bool goes = x->kind == FB_VALUE_REDUCE || x->kind == FB_VALUE_SCAN || x->kind == FB_VALUE_FOLD;
        if (i != v && goes && x->over == rank->over) return false;
    }
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].space == rank->over) return false;
    return true;
}

/* The rank of a section, of a row of so many elements. */
static fb_val rank_of(const fb_nest *nest, const fb_section *s, int64_t least, int64_t most)
{
    if (!s->rows.n || s->blocked || s->n_data || nest->chain) return FB_NONE;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_REDUCE || nest->graph->nodes[v->node].op != FB_OP_RANK) continue;
        int64_t points = fb_space_points(&s->spaces[v->over]);
        if (points < least || points > most || v->space != FB_NONE || v->depth != 1) continue;
        if (goes_along(nest, s, v) && is_alone(s, i) && is_fine(s, v->args[0], v->over)) return i;
    }
    return FB_NONE;
}

fb_val fb_schedule_ranked(const fb_nest *nest, const fb_section *s)
{
    enum { LEAST = 24, MOST = 1 << 22 }; /* elements: counted as fast, and more than one core should sort */
    return rank_of(nest, s, LEAST, MOST);
}

double fb_schedule_ranked_flops(const fb_nest *nest)
{
    double flops = 0;
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section *s = &nest->sections[i];
        fb_section_schedule x = {.deal = FB_DEAL_ROWS};
        if (fb_schedule_deal_ranked(nest, s, 0, &x))
            flops += (double)FB_RANK_FLOPS * (double)fb_space_points(&s->rows) *
                     (double)fb_space_points(&s->spaces[s->values[x.ranked].over]);
    }
    return flops;
}

/* A row's blocks wait for each other, so there must be room for all of them; and what they leave each other must be much less
 * than the row. */
static int64_t first_places(const fb_nest *nest, const fb_section *s, const fb_section_schedule *x, int64_t n)
{
    const int64_t places = fb_schedule_places(nest, s, x->ranked);
    if (x->parts < 2 || x->parts > nest->units || nest->stage || nest->n_sections > 1) return 0;
    return places <= x->rows_a_block && 2 * places * x->parts <= n ? places : 0;
}

/* A row that has room in the registers of a warp, or of a block: four keys a thread, of short rows as many as there are
 * for a warp. Few first places a warp looks for one by one. */
static void deal_whole(const fb_nest *nest, const fb_section *s, int asked, int64_t n, fb_section_schedule *x)
{
    enum { WARP = 32, OF_WARP = 256, EACH = 4, MOST_EACH = 8, THREADS = 256, FEW = 8, MOST_THREADS = 1024 };
    const int own = fb_power_of_two(n, 1 << 30);
    const int64_t lines = fb_space_points(&s->rows) / n, places = fb_schedule_places(nest, s, x->ranked);
    int team = own <= OF_WARP ? WARP : own / EACH;
    if (nest->stage && team > THREADS) team = THREADS;
    x->threads = team > WARP ? team : THREADS;
    if (asked && team > WARP) {
        x->threads = fb_power_of_two(asked, MOST_THREADS);
        if (x->threads > own / 2) x->threads = own / 2;
        if (x->threads < own / MOST_EACH) x->threads = own / MOST_EACH;
        team = x->threads;
    } else if (asked) {
        x->threads = fb_power_of_two(asked, MOST_THREADS);
        if (x->threads < WARP) x->threads = WARP;
    }
    x->rows_a_block = own;
    x->each = own / team;
    x->parts = 1;
    x->blocks = fb_ceil_div(lines, x->threads / team);
    x->first_places = team == WARP && places <= FEW && places < n ? places : 0;
}

bool fb_schedule_deal_ranked(const fb_nest *nest, const fb_section *s, int asked, fb_section_schedule *x)
{
    enum { LEAST = 33, OWN = 2048, THREADS = 1024, STAGE_THREADS = 256 }; /* counted as fast; what a block sorts */
    const fb_val v = rank_of(nest, s, LEAST, INT32_MAX);
    if (v == FB_NONE || s->n_passes > 1 || fb_dtype_size(s->values[s->values[v].args[0]].dtype) > 4) return false;
    const int64_t n = s->rows.extent[s->rows.n - 1], lines = fb_space_points(&s->rows) / n;
    const int own = lines * fb_ceil_div(n, OWN) < FB_UNITS_ABOUT ? OWN / 2 : OWN;
    x->deal = FB_DEAL_RANKED;
    x->ranked = v;
    if (n <= OWN) {
        deal_whole(nest, s, asked, n, x);
        return true;
    }
    x->threads = THREADS;
    if (asked) x->threads = fb_power_of_two(asked, own);
    if (nest->stage && x->threads > STAGE_THREADS) x->threads = STAGE_THREADS;
    x->rows_a_block = own;
    x->parts = (int)fb_ceil_div(n, own);
    x->blocks = lines * x->parts;
    x->first_places = first_places(nest, s, x, n);
    return true;
}

/* ---- how many places are told apart ---- */

/* What becomes of a value when all places from some on are taken for one. */
typedef struct {
    bool changes;      /* for an element at such a place it may be another */
    bool yes_is_first; /* it is a condition that holds at first places alone … */
    bool no_is_first;  /* … or that fails at these alone */
} follows;

/* A comparison of the rank with a constant: so many first places decide it; 0: it is none. */
static int64_t decided_by(const fb_section *s, fb_op op, const fb_value *x, fb_val rank, follows *f)
{
    if (x->kind != FB_VALUE_OP || x->n_args != 2 || (x->args[0] != rank && x->args[1] != rank)) return 0;
    const bool left = x->args[0] == rank;
    const fb_value *to = &s->values[x->args[left]];
    if (to->kind != FB_VALUE_CONST || !(to->number >= INT32_MIN && to->number < INT32_MAX)) return 0;
    const int64_t c = (int64_t)to->number;
    bool beyond; /* do the first places end after c, and not before it? */
    switch (op) {
    case FB_OP_LT:
    case FB_OP_GE: beyond = !left; break;
    case FB_OP_LE:
    case FB_OP_GT: beyond = left; break;
    case FB_OP_EQ:
    case FB_OP_NE: beyond = true; break;
    default: return 0;
    }
    f->yes_is_first = op == FB_OP_EQ || (left ? op == FB_OP_LT || op == FB_OP_LE : op == FB_OP_GT || op == FB_OP_GE);
    f->no_is_first = !f->yes_is_first;
    const int64_t first = c + FB_MUTATE(59, beyond, 0);
    return first < 1 ? 1 : first;
}

static follows follows_of(fb_op op, const fb_value *x, const follows *of)
{
    follows f = {0};
    for (int k = 0; k < x->n_args; k++) f.changes |= of[x->args[k]].changes;
    if (x->kind != FB_VALUE_OP || !x->n_args) return f;
    const follows *a = &of[x->args[0]], *b = &of[x->args[x->n_args - 1]];
    if (op == FB_OP_LOGICAL_NOT) {
        f.yes_is_first = a->no_is_first;
        f.no_is_first = a->yes_is_first;
    } else if (op == FB_OP_LOGICAL_AND) {
        f.yes_is_first = a->yes_is_first || b->yes_is_first;
        f.no_is_first = a->no_is_first && b->no_is_first;
    } else if (op == FB_OP_LOGICAL_OR) {
        f.yes_is_first = a->yes_is_first && b->yes_is_first;
        f.no_is_first = a->no_is_first || b->no_is_first;
    } else if (op == FB_OP_WHERE) {
        const follows *yes = &of[x->args[1]], *no = &of[x->args[2]];
        f.changes = a->changes || (yes->changes && !a->yes_is_first) || (no->changes && !a->no_is_first);
    }
    return f;
}

int64_t fb_schedule_places(const fb_nest *nest, const fb_section *s, fb_val rank)
{
    const int64_t all = fb_space_points(&s->spaces[s->values[rank].over]);
    follows *of = fb_calloc((size_t)s->n_values, sizeof *of);
    int64_t places = 1;
    bool any = false;
    of[rank].changes = true;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *x = &s->values[i];
        if (i == rank) continue;
        const fb_op op = x->kind == FB_VALUE_OP ? nest->graph->nodes[x->node].op : FB_OP_RANK;
        const int64_t first = decided_by(s, op, x, rank, &of[i]);
        if (!first)
            of[i] = follows_of(op, x, of);
        else if (first > places)
            places = first;
    }
    for (int i = 0; i < s->n_roots; i++) any |= of[s->roots[i].value].changes;
    fb_free(of);
    return any || places > all ? all : places;
}
