/* Windows of neighbouring rows that lie over each other: a thread takes a few rows, and loads what their windows share once.
 * Where a window's point and a neighbour are numbers, the same element has the same index, so that it is found by comparing
 * these. Of longer rows, as of all x's distances from all y, a team of threads takes a few. Columns of rows that an index
 * names are looked up by a thread for a vector of them.
 *
 * requires  a section of one plain pass, and the threads of a row
 * provides  how many rows that is, the index of an element in it, and how many loads are left
 */
#include "schedule/windows.h"

#include "base/mem.h"
#include "schedule/schedule.h"

enum {
    MOST_POINTS = 64, /* of a window */
    MOST_TEXT = 256,  /* points times rows, which are written out */
    ROWS = 4,         /* at most */
    THREADS = 1024,   /* of a multiprocessor, that are left at least */
    SHARED = 3,
    OF = 4, /* of so many loads, so many are left at most */
};

fb_ix fb_window_index(fb_index_pool *pool, const fb_section *s, int space, fb_ix group, int rows, fb_window_place at,
                      fb_ix index)
{
    const fb_space *along = &s->spaces[space];
    int64_t point = at.point;
    for (int d = along->n - 1; d >= 0; d--) {
        index = fb_ix_substitute(pool, index, along->var[d], fb_ix_const(pool, point % along->extent[d]));
        point /= along->extent[d];
    }
    fb_ix own = fb_ix_add(pool, fb_ix_scale(pool, group, rows), fb_ix_const(pool, at.neighbour));
    return fb_ix_substitute(pool, index, s->rows.var[s->rows.n - 1], own);
}

bool fb_window_whole(fb_index_pool *pool, int rows, fb_ix at, fb_ix *whole, int *rest)
{
    int64_t left;
    for (*rest = 0; *rest < rows; ++*rest) {
        *whole = fb_ix_sub(pool, at, fb_ix_const(pool, *rest));
        if (fb_ix_is_const(pool, fb_ix_mod(pool, *whole, rows), &left) && left == 0) return true;
    }
    return false;
}

/* A group that an element is in lies in the storage as the element does, which has whole groups. */
bool fb_window_group(const fb_nest *nest, const fb_value *v, int rows, fb_ix at, fb_ix *first, int *which)
{
    return rows > 1 && v->table == FB_NONE && fb_packs_in_steps(nest, v->node, rows) &&
           fb_shape_elements(&nest->graph->nodes[v->node].shape) % rows == 0 &&
           fb_window_whole(nest->pool, rows, at, first, which);
}

/* Different elements that a load of the pass's space is of, or groups of them. */
static int64_t loads_of(const fb_nest *nest, const fb_section *s, const fb_value *v, int rows, bool by_groups)
{
    const int64_t points = fb_space_points(&s->spaces[v->space]);
    const fb_ix number = s->rows.var[s->rows.n - 1]; /* of the group: its range does not matter here */
    fb_ix seen[MOST_TEXT], group;
    int64_t n = 0;
    int which;
    for (int64_t p = 0; p < points; p++)
        for (int r = 0; r < rows; r++) {
            fb_ix at = fb_window_index(nest->pool, s, v->space, number, rows, (fb_window_place){p, r}, v->at);
            if (by_groups && fb_window_group(nest, v, rows, at, &group, &which)) at = group;
            int64_t k = 0;
            while (k < n && seen[k] != at) k++;
            if (k == n) seen[n++] = at;
        }
    return n;
}

static double all_loads(const fb_nest *nest, const fb_section *s, int rows, bool by_groups)
{
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1);
    double loads = 0;
    fb_section_needed(s, 0, needed);
    for (int i = 0; i < s->n_values; i++)
        if (needed[i] && s->values[i].kind == FB_VALUE_LOAD && s->values[i].space == s->passes[0].space)
            loads += (double)loads_of(nest, s, &s->values[i], rows, by_groups);
    fb_free(needed);
    return loads;
}

double fb_window_loads(const fb_nest *nest, const fb_section *s, int rows)
{
    return all_loads(nest, s, rows, true);
}

/* Sums of each row that follow from its own number, of elements at places that no memory names. */
static bool are_plain(const fb_section *s)
{
    const uint32_t last = 1u << (s->rows.n - 1);
    bool plain = s->members == 1 && !s->n_data && !s->scatter;
    for (int i = 0; i < s->n_values && plain; i++) {
        const fb_value *v = &s->values[i];
        plain = v->table == FB_NONE && (v->kind != FB_VALUE_REDUCE || v->rows & last);
    }
    for (int i = 0; i < s->n_roots && plain; i++) plain = s->roots[i].space == FB_NONE;
    return plain;
}

int fb_window_rows(const fb_nest *nest, const fb_section *s, int64_t rows)
{
    if (s->rows.n == 0 || s->n_passes != 1 || !are_plain(s)) return 1;
    const int64_t points = fb_space_points(&s->spaces[s->passes[0].space]), extent = s->rows.extent[s->rows.n - 1];
    if (points < 2 || points > MOST_POINTS) return 1;
    for (int each = ROWS; each > 1; each /= 2) {
        if (extent % each || points * each > MOST_TEXT || rows / each < (int64_t)nest->units * THREADS) continue;
        const double all = all_loads(nest, s, 1, false) * each;
        if (all_loads(nest, s, each, false) * OF <= all * SHARED) return each;
    }
    return 1;
}

/* What is computed for a row ahead of its pass, or by it, follows from the row's own number or is the same for neighbours. */
static bool is_of_group(const fb_nest *nest, const fb_section *s, const fb_value *v)
{
    const bool own = v->rows >> (s->rows.n - 1) & 1;
    if (v->kind == FB_VALUE_REDUCE) {
        const fb_op op = nest->graph->nodes[v->node].op;
        return own && op != FB_OP_ARGMAX && op != FB_OP_ARGMIN && op != FB_OP_RANK;
    }
    return v->kind != FB_VALUE_SCAN && !(own && v->space == FB_NONE && v->kind != FB_VALUE_CONST);
}

/* Does all that the pass loads come in vectors of so many neighbours, or once for all of them? */
static bool loads_for_all(const fb_nest *nest, const fb_section *s, const bool *needed, int each)
{
    const int last = s->rows.n - 1;
    bool all = true, found = false;
    for (int i = 0; i < s->n_values && all; i++) {
        const fb_value *v = &s->values[i];
        if (!needed[i] || v->kind != FB_VALUE_LOAD || !(v->rows >> last & 1)) continue;
        all = fb_packs_tested(nest, s, v, s->rows.var[last], each);
        for (int d = 0; d < s->n_data; d++) found |= fb_ix_uses(nest->pool, v->at, s->data[d].var);
    }
    return all && found;
}

int fb_gathered_rows(const fb_nest *nest, const fb_section *s, int64_t rows)
{
    enum { MOST = 8 };
    const int last = s->rows.n - 1;
    if (last < 0 || s->n_passes != 1 || !s->n_data || s->members > 1 || s->scatter) return 1;
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1), may = true;
    int size = 0, each = 1;
    fb_section_needed(s, 0, needed);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (needed[i] || v->kind == FB_VALUE_REDUCE) may = may && is_of_group(nest, s, v);
        if (needed[i] && v->kind == FB_VALUE_LOAD && v->rows >> last & 1 && fb_dtype_size(v->dtype) > size)
            size = fb_dtype_size(v->dtype);
    }
    for (int i = 0; i < s->n_roots; i++) may = may && s->roots[i].space == FB_NONE;
    if (may && size) each = nest->target->vector_bytes / size < MOST ? nest->target->vector_bytes / size : MOST;
    while (each > 1 && (s->rows.extent[last] % each || rows / each < (int64_t)nest->units * THREADS ||
                        !loads_for_all(nest, s, needed, each)))
        each /= 2;
    fb_free(needed);
    return each;
}

bool fb_shared_by_all(const fb_nest *nest, const fb_section *s, const fb_value *v)
{
    const fb_ix last = s->rows.var[s->rows.n - 1];
    bool same = !fb_ix_uses(nest->pool, v->at, last);
    for (int c = v->when; c != FB_NONE && same; c = nest->whens[c].outer)
        same = !fb_ix_uses(nest->pool, nest->whens[c].at, last);
    return same;
}

/* (1024 × 1024 sums of 64 absolute differences in f32 on an H200: 44 µs a row a team, 27 by four.) */
int fb_shared_rows(const fb_nest *nest, const fb_section *s, int64_t rows, int team)
{
    enum { AT_ONCE = 2 }; /* times the threads that a device holds, at least */
    if (s->rows.n == 0 || s->n_passes != 1 || !are_plain(s)) return 1;
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1);
    int same = 0, own = 0;
    fb_section_needed(s, 0, needed);
    for (int i = 0; i < s->n_values; i++) {
        if (!needed[i] || s->values[i].kind != FB_VALUE_LOAD || s->values[i].space != s->passes[0].space) continue;
        ++*(fb_shared_by_all(nest, s, &s->values[i]) ? &same : &own);
    }
    fb_free(needed);
    for (int each = ROWS; each > 1 && own > 0; each /= 2) {
        if (s->rows.extent[s->rows.n - 1] % each) continue;
        if (rows / each * team < (int64_t)nest->units * THREADS * 2 * AT_ONCE) continue;
        if ((same + own * each) * OF <= (same + own) * each * SHARED) return each;
    }
    return 1;
}
