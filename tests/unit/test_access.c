/* Access maps: random chains of views, each compared element by element with the same chain materialised in memory. */
#include "graph_help.h"

#include "graph/access.h"
#include "graph/storage.h"

static uint64_t random_state;

static int64_t draw(int64_t low, int64_t high)
{
    random_state = fb_splitmix64(random_state);
    return low + (int64_t)(random_state % (uint64_t)(high - low + 1));
}

/* ---- a tensor in memory, and every view as plain loops ---- */

typedef struct {
    fb_shape shape;
    double *at;
} tensor;

static bool next_index(const fb_shape *s, int64_t *index)
{
    for (int d = s->rank - 1; d >= 0; d--) {
        if (++index[d] < s->dim[d]) return true;
        index[d] = 0;
    }
    return false;
}

static double element(const tensor *t, const int64_t *index)
{
    int64_t linear = 0;
    for (int d = 0; d < t->shape.rank; d++) linear = linear * t->shape.dim[d] + index[d];
    return t->at[linear];
}

static double view_element(const fb_node *n, const tensor *x, const int64_t *index, int64_t linear)
{
    const fb_attrs *at = n->attrs;
    int64_t to[FB_MAX_RANK] = {0};
    int shift = n->shape.rank - x->shape.rank;
    for (int d = 0; d < x->shape.rank && n->op != FB_OP_VIEW && n->op != FB_OP_EXPAND; d++) to[d] = index[d];
    switch (n->op) {
    case FB_OP_VIEW: return x->at[linear];
    case FB_OP_PERMUTE:
        for (int d = 0; d < n->shape.rank; d++) to[at->axes[d]] = index[d];
        break;
    case FB_OP_SLICE: to[at->dim] = at->start + at->step * index[at->dim]; break;
    case FB_OP_EXPAND:
        for (int d = 0; d < x->shape.rank; d++) to[d] = x->shape.dim[d] == 1 ? 0 : index[d + shift];
        break;
    case FB_OP_PAD:
        for (int d = 0; d < x->shape.rank; d++) {
            to[d] = index[d] - at->before[d];
            if (to[d] < 0 || to[d] >= x->shape.dim[d]) return at->value;
        }
        break;
    case FB_OP_UNFOLD: to[at->dim] = at->step * index[at->dim] + index[x->shape.rank]; break;
    default:
        for (int i = 0; i < at->n_axes; i++) to[at->axes[i]] = x->shape.dim[at->axes[i]] - 1 - index[at->axes[i]];
    }
    return element(x, to);
}

static tensor materialise(const fb_node *n, const tensor *x)
{
    int64_t count = fb_shape_elements(&n->shape), index[FB_MAX_RANK] = {0};
    tensor out = {n->shape, calloc((size_t)count + 1, sizeof(double))};
    for (int64_t i = 0; i < count; i++) {
        out.at[i] = view_element(n, x, index, i);
        next_index(&n->shape, index);
    }
    return out;
}

/* ---- random views ---- */

static fb_shape random_reshape(const fb_shape *s)
{
    int64_t left = fb_shape_elements(s);
    fb_shape out = {0};
    while (left > 1 && out.rank < 4) {
        int64_t f = draw(1, 6);
        if (left % f) continue;
        out.dim[out.rank++] = f;
        left /= f;
    }
    if (left != 1) out.dim[out.rank++] = left;
    return out;
}

static fb_id random_view(fb_graph *g, fb_id x)
{
    const fb_shape *s = &fb_node_at(g, x)->shape;
    fb_attrs at = {0};
    int d = s->rank ? (int)draw(0, s->rank - 1) : 0;
    int64_t op = s->rank ? draw(0, 6) : 0;
    if (op == 0) {
        at.shape = random_reshape(s);
        return add_op(g, FB_OP_VIEW, &x, 1, &at);
    }
    if (op == 1) {
        at.n_axes = s->rank;
        for (int i = 0; i < s->rank; i++) at.axes[i] = (i + d) % s->rank;
        return add_op(g, FB_OP_PERMUTE, &x, 1, &at);
    }
    if (op == 2) {
        at.dim = d;
        at.start = draw(0, s->dim[d] - 1);
        at.stop = draw(at.start + 1, s->dim[d]);
        at.step = draw(1, 3);
        return add_op(g, FB_OP_SLICE, &x, 1, &at);
    }
    if (op == 3 && s->rank < 5 && fb_shape_elements(s) < 300) {
        at.shape = (fb_shape){.rank = s->rank + 1, .dim = {draw(1, 3)}};
        for (int i = 0; i < s->rank; i++) at.shape.dim[i + 1] = s->dim[i] == 1 ? draw(1, 3) : s->dim[i];
        return add_op(g, FB_OP_EXPAND, &x, 1, &at);
    }
    if (op == 4 && fb_shape_elements(s) < 300) {
        at.before[d] = draw(0, 2);
        at.after[d] = draw(0, 2);
        at.value = -1;
        return add_op(g, FB_OP_PAD, &x, 1, &at);
    }
    if (op == 6 && s->rank < 5 && fb_shape_elements(s) < 300) {
        at.dim = d;
        at.stop = draw(1, s->dim[d] < 4 ? s->dim[d] : 4);
        at.step = draw(1, 3);
        return add_op(g, FB_OP_UNFOLD, &x, 1, &at);
    }
    at.n_axes = 1;
    at.axes[0] = d;
    return add_op(g, FB_OP_FLIP, &x, 1, &at);
}

/* ---- the comparison ---- */

typedef struct {
    fb_ix vars[FB_MAX_RANK];
    int64_t index[FB_MAX_RANK];
} point;

static int64_t value_of(void *ctx, fb_ix var)
{
    point *p = ctx;
    for (int d = 0; d < FB_MAX_RANK; d++)
        if (p->vars[d] == var) return p->index[d];
    fail_msg("an unknown variable");
    return 0;
}

static double read_through(const fb_index_pool *p, const fb_access *a, fb_ix offset, const tensor *base, point *at)
{
    for (int i = 0; i < a->n_guards; i++) {
        int64_t v = fb_ix_eval(p, a->guards[i].at, value_of, at);
        if (v < a->guards[i].low || v >= a->guards[i].high) return a->guards[i].otherwise;
    }
    int64_t where = fb_ix_eval(p, offset, value_of, at);
    assert_in_range(where, 0, fb_shape_elements(&base->shape) - 1);
    return base->at[where];
}

/* Every element of `node`, read through the access map and, where there is one, the strided window. Returns whether
 * there was one. */
static bool compare(const fb_graph *g, fb_id node, const tensor *all)
{
    const tensor *want = &all[node];
    fb_index_pool *p = fb_index_pool_new();
    fb_access a;
    point at = {0};
    for (int d = 0; d < want->shape.rank; d++) at.vars[d] = fb_ix_var(p, "i", want->shape.dim[d]);
    for (int d = want->shape.rank; d < FB_MAX_RANK; d++) at.vars[d] = FB_NONE;
    fb_access_at(g, p, node, at.vars, &a);
    fb_ix offset = fb_access_offset(g, p, &a);
    fb_id base;
    int64_t start, strides[FB_MAX_RANK];
    bool strided = fb_access_strided(g, node, &base, &start, strides);
    assert_int_equal(base, fb_access_base(g, node));
    for (int64_t i = 0; i < fb_shape_elements(&want->shape); i++) {
        assert_true(read_through(p, &a, offset, &all[a.base], &at) == want->at[i]);
        int64_t where = start;
        for (int d = 0; strided && d < want->shape.rank; d++) where += strides[d] * at.index[d];
        if (strided) assert_true(all[base].at[where] == want->at[i]);
        next_index(&want->shape, at.index);
    }
    fb_index_pool_free(p);
    return strided;
}

static void test_random_chains(void **state)
{
    (void)state;
    enum { LONGEST = 8 };
    int strided = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        random_state = seed * 77;
        fb_graph *g = fb_graph_new("");
        tensor all[LONGEST + 1];
        fb_shape shape = {.rank = (int)draw(0, 4)};
        for (int d = 0; d < shape.rank; d++) shape.dim[d] = draw(1, 6);
        fb_id x = add_input(g, "x", FB_F32, shape);
        all[0] = (tensor){shape, calloc((size_t)fb_shape_elements(&shape), sizeof(double))};
        for (int64_t i = 0; i < fb_shape_elements(&shape); i++) all[0].at[i] = (double)i;
        int n = (int)draw(1, LONGEST);
        for (int i = 1; i <= n; i++) {
            x = random_view(g, x);
            all[x] = materialise(fb_node_at(g, x), &all[x - 1]);
        }
        strided += compare(g, x, all);
        for (int i = 0; i <= n; i++) free(all[i].at);
        fb_graph_free(g);
    }
    /* Chains without a pad or a reshape across a gap are common enough. */
    assert_true(strided > 400);
}

static void test_strided(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id base, x = add_input(g, "x", FB_F32, SHAPE(6, 8));
    int64_t offset, s[FB_MAX_RANK];
    fb_id cut = add_op(g, FB_OP_SLICE, ARGS(x), &(fb_attrs){.dim = 1, .start = 2, .stop = 6, .step = 1});
    fb_id turned = add_op(g, FB_OP_PERMUTE, ARGS(cut), &(fb_attrs){.n_axes = 2, .axes = {1, 0}});
    assert_true(fb_access_strided(g, turned, &base, &offset, s));
    assert_int_equal(base, x);
    assert_true(offset == 2 && s[0] == 1 && s[1] == 8);
    fb_id split = add_op(g, FB_OP_VIEW, ARGS(cut), &(fb_attrs){.shape = SHAPE(2, 3, 1, 2, 2)});
    assert_true(fb_access_strided(g, split, &base, &offset, s));
    assert_true(s[0] == 24 && s[1] == 8 && s[3] == 2 && s[4] == 1);
    fb_id flat = add_op(g, FB_OP_VIEW, ARGS(cut), &(fb_attrs){.shape = SHAPE(24)});
    assert_false(fb_access_strided(g, flat, &base, &offset, s));
    fb_id padded = add_op(g, FB_OP_PAD, ARGS(x), &(fb_attrs){.before = {1}});
    assert_false(fb_access_strided(g, padded, &base, &offset, s));
    assert_int_equal(base, x);
    fb_graph_free(g);
}

/* The stacked halves of a split are the whole again, as index arithmetic. */
static void test_pieces(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(6, 4)), part[3];
    for (int i = 0; i < 3; i++)
        part[i] = add_op(g, FB_OP_SLICE, ARGS(x), &(fb_attrs){.start = 2 * i, .stop = 2 * i + 2, .step = 1});
    fb_id cat = add_op(g, FB_OP_CAT, part, 3, NULL), stack = add_op(g, FB_OP_STACK, part, 3, &(fb_attrs){.dim = 1});
    fb_index_pool *p = fb_index_pool_new();
    fb_ix i = fb_ix_var(p, "i", 6), j = fb_ix_var(p, "j", 4), to[FB_MAX_RANK];
    fb_access a;
    int dim;
    int64_t low, high;
    for (int k = 0; k < 3; k++) {
        fb_access_piece(g, p, cat, k, (fb_ix[]){i, j}, to, &dim, &low, &high);
        assert_true(dim == 0 && low == 2 * k && high == 2 * k + 2);
        fb_access_at(g, p, part[k], to, &a);
        assert_true(a.base == x && a.coords[0] == i && a.coords[1] == j);
        fb_ix r = fb_ix_var(p, "r", 2), s = fb_ix_var(p, "s", 3);
        fb_access_piece(g, p, stack, k, (fb_ix[]){r, s, j}, to, &dim, &low, &high);
        assert_true(dim == 1 && low == k && high == k + 1 && to[0] == r && to[1] == j);
    }
    fb_index_pool_free(p);
    fb_graph_free(g);
}

static void test_broadcast(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3, 1, 4)), b = add_input(g, "b", FB_F32, SHAPE(5, 1));
    fb_id sum = add_op(g, FB_OP_ADD, ARGS(x, b), NULL);
    fb_index_pool *p = fb_index_pool_new();
    fb_ix c[3] = {fb_ix_var(p, "i", 3), fb_ix_var(p, "j", 5), fb_ix_var(p, "k", 4)}, to[FB_MAX_RANK];
    fb_access_broadcast(g, p, sum, 0, c, to);
    assert_true(to[0] == c[0] && to[1] == fb_ix_const(p, 0) && to[2] == c[2]);
    fb_access_broadcast(g, p, sum, 1, c, to);
    assert_true(to[0] == c[1] && to[1] == fb_ix_const(p, 0));
    fb_index_pool_free(p);
    fb_graph_free(g);
}

/* A tower of pads and reshapes that no short map can describe ends the walk early instead of growing without end. */
static void test_towers(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(210)), top = x;
    static const int64_t shapes[][2] = {{6, 35}, {15, 14}, {10, 21}, {70, 3}};
    for (int i = 0; i < 60; i++) {
        top = add_op(g, FB_OP_VIEW, ARGS(top), &(fb_attrs){.shape = fb_shape_of(2, shapes[i % 4])});
        top = add_op(g, FB_OP_FLIP, ARGS(top), &(fb_attrs){.n_axes = 1, .axes = {i % 2}});
        top = add_op(g, FB_OP_PERMUTE, ARGS(top), &(fb_attrs){.n_axes = 2, .axes = {1, 0}});
    }
    fb_id padded = x;
    for (int i = 0; i < 20; i++) padded = add_op(g, FB_OP_PAD, ARGS(padded), &(fb_attrs){.before = {1}, .value = i});
    fb_index_pool *p = fb_index_pool_new();
    fb_ix c[2] = {fb_ix_var(p, "i", 230), fb_ix_var(p, "j", 70)};
    fb_access a;
    fb_access_at(g, p, top, c, &a);
    for (int d = 0; d < a.rank; d++) assert_true(fb_ix_size(p, a.coords[d]) <= FB_MAX_INDEX_SIZE);
    fb_access_at(g, p, padded, c, &a);
    assert_int_equal(a.n_guards, FB_MAX_GUARDS);
    assert_int_equal(fb_node_at(g, a.base)->op, FB_OP_PAD);
    fb_index_pool_free(p);
    fb_graph_free(g);
}

/* ---- in which order values lie ---- */

/* softmax-like weights [2,3,8,8] times a part of a projection [2,8,2·3·16], head by head: no library call's operands,
 * for no one stride serves sequences and heads. */
static fb_id heads(fb_graph *g)
{
    fb_id made = add_input(g, "made", FB_F32, SHAPE(2, 8, 96)),
          weights = add_input(g, "weights", FB_F32, SHAPE(2, 3, 8, 8));
    fb_id apart = add_op(g, FB_OP_VIEW, ARGS(made), &(fb_attrs){.shape = SHAPE(2, 8, 2, 3, 16)});
    fb_id turned = add_op(g, FB_OP_PERMUTE, ARGS(apart), &(fb_attrs){.n_axes = 5, .axes = {2, 0, 3, 1, 4}});
    fb_id one = add_op(g, FB_OP_SLICE, ARGS(turned), &(fb_attrs){.dim = 0, .start = 1, .stop = 2, .step = 1});
    fb_id values = add_op(g, FB_OP_VIEW, ARGS(one), &(fb_attrs){.shape = SHAPE(2, 3, 8, 16)});
    return add_op(g, FB_OP_MATMUL, ARGS(weights, values), NULL);
}

static fb_id token_by_token(fb_graph *g, fb_id x)
{
    return add_op(g, FB_OP_PERMUTE, ARGS(x), &(fb_attrs){.n_axes = 4, .axes = {0, 2, 1, 3}});
}

static fb_id twice(fb_graph *g, fb_id x)
{
    return add_op(g, FB_OP_ADD, ARGS(x, x), NULL);
}

/* What all read token by token lies so, and is one matrix for what follows. */
static void a_value_lies_as_it_is_read(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("heads");
    fb_id x = heads(g), y = token_by_token(g, x), flat;
    flat = add_op(g, FB_OP_VIEW, ARGS(y), &(fb_attrs){.shape = SHAPE(16, 48)});
    output(g, twice(g, flat), "out");
    finish(g);
    int64_t strides[FB_MAX_RANK], offset;
    fb_id base;
    assert_ptr_equal(g->lies_as[x], g->nodes[y].attrs->axes);
    fb_storage_strides(g, x, strides);
    assert_memory_equal(strides, ((int64_t[]){384, 16, 48, 1}), 4 * sizeof *strides);
    assert_true(fb_access_strided(g, flat, &base, &offset, strides));
    assert_int_equal(base, x);
    assert_int_equal(offset, 0);
    assert_memory_equal(strides, ((int64_t[]){48, 1}), 2 * sizeof *strides);
    assert_true(fb_access_whole(g, flat, &base));
    assert_false(fb_access_whole(g, x, &base));
    /* one expression for where an element lies, and the same by bytes */
    fb_index_pool *p = fb_index_pool_new();
    point at = {0};
    for (int d = 0; d < 4; d++) at.vars[d] = fb_ix_var(p, "i", g->nodes[x].shape.dim[d]);
    for (int d = 4; d < FB_MAX_RANK; d++) at.vars[d] = FB_NONE;
    fb_ix lies = fb_storage_offset(g, p, x, at.vars);
    float own[768], memory[768], back[768];
    for (int i = 0; i < 768; i++) own[i] = (float)i;
    memcpy(memory, own, sizeof own);
    assert_true(fb_storage_from_own(g, x, memory));
    for (int i = 0; i < 768; i++) {
        assert_true(memory[fb_ix_eval(p, lies, value_of, &at)] == own[i]);
        next_index(&g->nodes[x].shape, at.index);
    }
    memcpy(back, memory, sizeof own);
    assert_true(fb_storage_to_own(g, x, back));
    assert_memory_equal(back, own, sizeof own);
    fb_index_pool_free(p);
    fb_graph_free(g);
}

/* Row by row: what is also read otherwise, what leaves the graph, what a library makes, and what would no longer have
 * neighbours side by side. */
static void other_values_lie_row_by_row(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        fb_graph *g = fb_graph_new("heads");
        fb_id x = way == 2 ? add_op(g, FB_OP_MATMUL,
                                    ARGS(add_input(g, "a", FB_F32, SHAPE(2, 3, 8, 8)),
                                         add_input(g, "b", FB_F32, SHAPE(2, 3, 8, 16))),
                                    NULL)
                           : heads(g);
        fb_attrs across = {.n_axes = 4, .axes = {0, 1, 3, 2}};
        fb_id y = way == 3 ? add_op(g, FB_OP_PERMUTE, ARGS(x), &across) : token_by_token(g, x);
        if (way == 0) output(g, twice(g, x), "also");
        output(g, way == 1 ? y : twice(g, y), "out");
        finish(g);
        assert_null(g->lies_as[x]);
        fb_graph_free(g);
    }
}

/* A product less the means of its own rows is nothing that a library makes, less those of other rows it may be. */
static void what_is_made_of_a_products_rows_lies_as_it_is_read(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        fb_graph *g = fb_graph_new("normalised");
        fb_id a = add_input(g, "a", FB_F32, SHAPE(2, 3, 8, 8)), b = add_input(g, "b", FB_F32, SHAPE(2, 3, 8, 16));
        fb_id x = add_op(g, FB_OP_MATMUL, ARGS(a, b), NULL), other = add_input(g, "c", FB_F32, SHAPE(2, 3, 8, 16));
        fb_attrs rows = {.n_axes = 1, .axes = {3}, .keepdim = true};
        fb_id mean = add_op(g, FB_OP_MEAN, ARGS(own ? x : other), &rows);
        fb_id y = add_op(g, FB_OP_SUB, ARGS(x, mean), NULL), read = token_by_token(g, y);
        output(g, twice(g, read), "out");
        finish(g);
        assert_null(g->lies_as[x]);
        assert_ptr_equal(g->lies_as[y], own ? g->nodes[read].attrs->axes : NULL);
        fb_graph_free(g);
    }
}

/* Windows of three places, element by element: along places neighbours are neighbours in memory, along a window three are. A
 * product with their transpose has them laid out, and reads their columns. */
static void windows_are_laid_out_as_they_lie(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(2, 18)), dy = add_input(g, "dy", FB_F32, SHAPE(2, 5, 16));
    fb_id at = add_op(g, FB_OP_UNFOLD, ARGS(x), &(fb_attrs){.dim = 1, .stop = 3, .step = 1}); /* [2, 16, 3] */
    fb_id windows = add_op(g, FB_OP_PERMUTE, ARGS(at), &(fb_attrs){.n_axes = 3, .axes = {0, 2, 1}});
    fb_id back = add_op(g, FB_OP_PERMUTE, ARGS(windows), &(fb_attrs){.n_axes = 3, .axes = {0, 2, 1}});
    fb_id apart = add_op(g, FB_OP_PAD, ARGS(back), &(fb_attrs){.before = {0, 0, 1}}); /* no strides tell of zeros */
    fb_id turned = add_op(g, FB_OP_PERMUTE, ARGS(apart), &(fb_attrs){.n_axes = 3, .axes = {0, 2, 1}});
    fb_id rows = add_input(g, "w", FB_F32, SHAPE(2, 7, 4)), product = add_op(g, FB_OP_MATMUL, ARGS(rows, turned), NULL);
    fb_id other = add_op(g, FB_OP_MATMUL, ARGS(dy, apart), NULL);
    int64_t s[FB_MAX_RANK];
    assert_int_equal(fb_storage_operand(g, product, 1, s), FB_OPERAND_LAID_OUT);
    assert_int_equal(fb_storage_laid(g, product, 1), turned); /* [2, 4, 16]: its lines are runs of 16 */
    assert_true(s[0] == 64 && s[1] == 16 && s[2] == 1);
    assert_int_equal(fb_storage_operand(g, other, 1, s), FB_OPERAND_LAID_OUT);
    assert_int_equal(fb_storage_laid(g, other, 1), apart); /* no transpose itself: as it is */
    fb_id lines = add_op(g, FB_OP_PAD, ARGS(windows), &(fb_attrs){.before = {0, 1, 0}}); /* [2, 4, 16] */
    fb_id across = add_op(g, FB_OP_PERMUTE, ARGS(lines), &(fb_attrs){.n_axes = 3, .axes = {0, 2, 1}});
    fb_id last = add_op(g, FB_OP_MATMUL, ARGS(dy, across), NULL);
    assert_int_equal(fb_storage_operand(g, last, 1, s), FB_OPERAND_LAID_OUT);
    assert_int_equal(fb_storage_laid(g, last, 1), lines);
    assert_true(s[0] == 64 && s[1] == 1 && s[2] == 16);
    fb_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_lies_as_it_is_read),
        cmocka_unit_test(other_values_lie_row_by_row),
        cmocka_unit_test(what_is_made_of_a_products_rows_lies_as_it_is_read),
        cmocka_unit_test(test_random_chains),
        cmocka_unit_test(test_strided),
        cmocka_unit_test(windows_are_laid_out_as_they_lie),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_towers),
    };
    return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
