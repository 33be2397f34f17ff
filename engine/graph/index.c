/* How expressions are kept simple.
 *
 * Division and remainder by c share one first step: split e into c·q + r, where every coefficient of r is smaller than
 * c and r's constant makes r's smallest value lie in [0, c). Then e / c = q + r / c and e mod c = r mod c; what is left
 * of both is about the same r, so that c·(e / c) + e mod c finds its way back to e. It also means that no operand of a
 * division is ever negative, so C's truncating operators can be printed.
 *
 * r itself shrinks by a common factor: where r = g·A + B, g divides c and 0 <= B < g,
 *     r / c = A / (c/g)        r mod c = g·(A mod (c/g)) + B
 *
 * Sums are put right last (`improve`): x mod c and x - c·(x / c) are the same, and whichever of the two makes the whole
 * sum shorter is taken. Trying both is exponential in how deep divisions nest, so a call has only so much `fuel` for
 * it; beyond that expressions stay as they come. */
#include "graph/index.h"

#include "base/error.h"
#include "base/integer.h"
#include "base/mem.h"
#include "base/mutate.h"
#include "base/vec.h"
#include "graph/intmath.h"

#include <string.h>

#define uthash_malloc(bytes)      fb_alloc(bytes)
#define uthash_free(block, bytes) fb_free(block)
#include <uthash.h>

typedef enum { CONST, VAR, SUM, DIV, MOD } kind;

typedef struct {
    int64_t factor;
    int64_t of; /* an fb_ix; as wide as factor, so that arrays of terms have no padding and hash as bytes */
} term;

typedef struct {
    kind kind;
    fb_ix x;           /* DIV, MOD: operand */
    int64_t value;     /* CONST: value; SUM: constant part; DIV, MOD: divisor; VAR: extent */
    const term *terms; /* SUM: sorted by `of`, no factor zero */
    int n;
    int size;      /* variables, divisions and remainders in it: what improving makes smaller */
    uint64_t vars; /* bit (id mod 64) of each variable in it */
    int64_t low, high;
    const char *name; /* VAR */
} expr;

typedef struct {
    fb_ix id;
    UT_hash_handle hh;
    /* the key, hh.key points here: kind, operand, value, terms */
    int64_t key[];
} interned;

struct fb_index_pool {
    FB_VEC(expr) exprs;
    interned *table;
    fb_arena *arena;
    FB_VEC(int64_t) key; /* scratch */
    int depth, fuel;
};

/* A sum being built: the terms sorted, factors never zero. */
typedef struct {
    int64_t constant;
    FB_VEC(term) terms;
} sum;

/* Values past this are only known to be large. Merging divisors stops far below. */
#define FAR     ((int64_t)1 << 62)
#define LARGEST ((int64_t)1 << 50)

enum { DEEPEST = 32, FUEL = 400 };

/* Brackets every recursive step; the outermost fills up. */
static void enter(fb_index_pool *p)
{
    if (p->depth++ == 0) p->fuel = FUEL;
    p->fuel--;
}

static void leave(fb_index_pool *p)
{
    p->depth--;
}

static bool tired(const fb_index_pool *p)
{
    return p->fuel <= 0 || p->depth >= DEEPEST;
}

static int64_t clip(__int128 v)
{
    return v > FAR ? FAR : v < -FAR ? -FAR : (int64_t)v;
}

static const expr *at(const fb_index_pool *p, fb_ix e)
{
    return &p->exprs.at[e];
}

fb_index_pool *fb_index_pool_new(void)
{
    fb_index_pool *p = fb_calloc(1, sizeof *p);
    p->arena = fb_arena_new();
    return p;
}

void fb_index_pool_free(fb_index_pool *p)
{
    if (!p) return;
    HASH_CLEAR(hh, p->table);
    FB_VEC_FREE(&p->exprs);
    FB_VEC_FREE(&p->key);
    fb_arena_free(p->arena);
    fb_free(p);
}

size_t fb_index_pool_bytes(const fb_index_pool *p)
{
    size_t buckets = p->table ? p->table->hh.tbl->num_buckets * sizeof(UT_hash_bucket) : 0;
    return sizeof *p + fb_arena_used(p->arena) + (size_t)p->exprs.room * sizeof *p->exprs.at + buckets;
}

/* ---- hash-consing ---- */

static void range_of_terms(const fb_index_pool *p, const term *terms, int n, int64_t constant, int64_t *low,
                           int64_t *high)
{
    __int128 lo = constant, hi = constant;
    for (int i = 0; i < n; i++) {
        const expr *t = at(p, (fb_ix)terms[i].of);
        __int128 a = (__int128)terms[i].factor * t->low, b = (__int128)terms[i].factor * t->high;
        lo = clip(lo + (a < b ? a : b));
        hi = clip(hi + (a < b ? b : a));
    }
    *low = clip(lo);
    *high = clip(hi);
}

/* a + b, short of overflowing: shared parts count each time, so sizes may double with every step. */
static int larger(int a, int b)
{
    enum { LIMIT = 1 << 28 };
    return a + b < LIMIT ? a + b : LIMIT;
}

/* Range, size and variables, from the parts. */
static void describe(const fb_index_pool *p, expr *e)
{
    switch (e->kind) {
    case CONST: e->low = e->high = clip(e->value); break;
    case VAR:
        e->high = e->value > 1 ? e->value - 1 : 0;
        e->size = 1;
        break;
    case SUM:
        range_of_terms(p, e->terms, e->n, e->value, &e->low, &e->high);
        for (int i = 0; i < e->n; i++) {
            e->size = larger(e->size, at(p, (fb_ix)e->terms[i].of)->size);
            e->vars |= at(p, (fb_ix)e->terms[i].of)->vars;
        }
        break;
    case DIV:
    case MOD: {
        const expr *x = at(p, e->x);
        e->size = larger(x->size, 1);
        e->vars = x->vars;
        e->low = e->kind == DIV ? fb_floor_div(x->low, e->value) : 0;
        e->high = e->kind == DIV ? fb_floor_div(x->high, e->value) : e->value - 1;
        if (e->kind == MOD && x->low >= 0 && x->high < e->high) e->high = x->high;
        break;
    }
    }
}

/* The key is made in scratch first: most expressions are there already, and what an arena gave stays. */
static fb_ix intern(fb_index_pool *p, expr e)
{
    enum { HEAD = 3 };
    const int64_t head[HEAD] = {e.kind, e.x, e.value};
    size_t words = HEAD + 2 * (size_t)e.n, bytes = words * sizeof(int64_t);
    interned *found, *entry;
    p->key.n = 0;
    while ((size_t)p->key.n < words) FB_VEC_PUSH(&p->key, 0);
    memcpy(p->key.at, head, sizeof head);
    if (e.n) memcpy(p->key.at + HEAD, e.terms, (size_t)e.n * sizeof *e.terms);
    HASH_FIND(hh, p->table, p->key.at, bytes, found);
    if (found) return found->id;
    entry = fb_arena_alloc(p->arena, sizeof *entry + bytes);
    memcpy(entry->key, p->key.at, bytes);
    e.terms = (const term *)(entry->key + HEAD);
    describe(p, &e);
    entry->id = p->exprs.n;
    FB_VEC_PUSH(&p->exprs, e);
    HASH_ADD_KEYPTR(hh, p->table, entry->key, bytes, entry);
    return entry->id;
}

fb_ix fb_ix_const(fb_index_pool *p, int64_t value)
{
    return intern(p, (expr){.kind = CONST, .value = value});
}

/* A variable is equal to nothing but itself: it never enters the table. */
fb_ix fb_ix_var(fb_index_pool *p, const char *name, int64_t extent)
{
    expr e = {.kind = VAR, .value = extent, .name = name, .vars = (uint64_t)1 << (p->exprs.n & 63)};
    describe(p, &e);
    FB_VEC_PUSH(&p->exprs, e);
    return p->exprs.n - 1;
}

/* ---- sums ---- */

static void sum_term(sum *s, int64_t factor, int64_t of)
{
    int i = s->terms.n;
    while (i > 0 && s->terms.at[i - 1].of > of) i--;
    if (i > 0 && s->terms.at[i - 1].of == of) {
        term *t = &s->terms.at[i - 1];
        t->factor = fb_wrap_add(t->factor, factor);
        if (t->factor) return;
        memmove(t, t + 1, (size_t)(s->terms.n - i) * sizeof *t);
        s->terms.n--;
        return;
    }
    if (!factor) return;
    FB_VEC_PUSH(&s->terms, (term){0});
    memmove(&s->terms.at[i + 1], &s->terms.at[i], (size_t)(s->terms.n - 1 - i) * sizeof(term));
    s->terms.at[i] = (term){factor, of};
}

/* s += factor · e */
static void sum_add(const fb_index_pool *p, sum *s, int64_t factor, fb_ix e)
{
    const expr *x = at(p, e);
    if (x->low == x->high && x->low > -FAR && x->high < FAR) {
        s->constant = fb_wrap_add(s->constant, fb_wrap_mul(factor, x->low));
    } else if (x->kind == SUM) {
        s->constant = fb_wrap_add(s->constant, fb_wrap_mul(factor, x->value));
        for (int i = 0; i < x->n; i++) sum_term(s, fb_wrap_mul(factor, x->terms[i].factor), x->terms[i].of);
    } else if (x->kind == CONST) {
        s->constant = fb_wrap_add(s->constant, fb_wrap_mul(factor, x->value));
    } else {
        sum_term(s, factor, e);
    }
}

static void sum_copy(sum *to, const sum *from)
{
    to->constant = from->constant;
    to->terms.n = 0;
    for (int i = 0; i < from->terms.n; i++) FB_VEC_PUSH(&to->terms, from->terms.at[i]);
}

static int sum_size(const fb_index_pool *p, const sum *s)
{
    int size = 0;
    for (int i = 0; i < s->terms.n; i++) size = larger(size, at(p, (fb_ix)s->terms.at[i].of)->size);
    return size;
}

/* Writes term `t` of the sum the other way: k·(x mod c) as k·x - k·c·(x / c), or k·c·(x / c) as k·x - k·(x mod c). */
static bool rewrite(fb_index_pool *p, sum *s, term t)
{
    expr e = *at(p, (fb_ix)t.of);
    if (e.kind != MOD && (e.kind != DIV || t.factor % e.value)) return false;
    fb_ix other = e.kind == MOD ? fb_ix_div(p, e.x, e.value) : fb_ix_mod(p, e.x, e.value);
    int64_t k = e.kind == MOD ? t.factor : t.factor / e.value;
    sum_term(s, fb_wrap_sub(0, t.factor), t.of);
    sum_add(p, s, k, e.x);
    sum_add(p, s, e.kind == MOD ? fb_wrap_mul(fb_wrap_sub(0, k), e.value) : fb_wrap_sub(0, k), other);
    return true;
}

/* Rewrites one term if that makes the sum smaller. */
static bool improve(fb_index_pool *p, sum *s)
{
    sum trial = {0};
    bool better = false;
    for (int i = 0; i < s->terms.n && !better; i++) {
        sum_copy(&trial, s);
        better = rewrite(p, &trial, s->terms.at[i]) && sum_size(p, &trial) < sum_size(p, s);
    }
    if (better) sum_copy(s, &trial);
    FB_VEC_FREE(&trial.terms);
    return better;
}

/* The expression of a sum, which is freed. */
static fb_ix sum_end(fb_index_pool *p, sum *s)
{
    enter(p);
    /* A single term has nothing to join with. */
    while (!tired(p) && s->terms.n > 1 && improve(p, s)) {}
    p->depth--;
    fb_ix e;
    if (!s->terms.n)
        e = fb_ix_const(p, s->constant);
    else if (s->terms.n == 1 && !s->constant && s->terms.at[0].factor == 1)
        e = (fb_ix)s->terms.at[0].of;
    else
        e = intern(p, (expr){.kind = SUM, .value = s->constant, .terms = s->terms.at, .n = s->terms.n});
    FB_VEC_FREE(&s->terms);
    return e;
}

fb_ix fb_ix_add(fb_index_pool *p, fb_ix a, fb_ix b)
{
    sum s = {0};
    sum_add(p, &s, 1, a);
    sum_add(p, &s, 1, b);
    return sum_end(p, &s);
}

fb_ix fb_ix_sub(fb_index_pool *p, fb_ix a, fb_ix b)
{
    sum s = {0};
    sum_add(p, &s, 1, a);
    sum_add(p, &s, -1, b);
    return sum_end(p, &s);
}

fb_ix fb_ix_scale(fb_index_pool *p, fb_ix a, int64_t factor)
{
    sum s = {0};
    if (factor) sum_add(p, &s, factor, a);
    return sum_end(p, &s);
}

/* ---- division and remainder ---- */

static void sum_range(const fb_index_pool *p, const sum *s, int64_t *low, int64_t *high)
{
    range_of_terms(p, s->terms.at, s->terms.n, s->constant, low, high);
}

/* Moves multiples of g from r's constant into q, so that r's smallest value lies in [0, g). */
static void settle(const fb_index_pool *p, sum *q, sum *r, int64_t g)
{
    int64_t low, high;
    sum_range(p, r, &low, &high);
    int64_t whole = fb_floor_div(low, g);
    q->constant = fb_wrap_add(q->constant, whole);
    r->constant = fb_wrap_sub(r->constant, fb_wrap_mul(whole, g));
}

/* e = c·q + r; see the head of this file. */
static void split(const fb_index_pool *p, fb_ix e, int64_t c, sum *q, sum *r)
{
    sum whole = {0};
    sum_add(p, &whole, 1, e);
    for (int i = 0; i < whole.terms.n; i++) {
        term t = whole.terms.at[i];
        sum_term(q, t.factor / c, t.of);
        sum_term(r, t.factor % c, t.of);
    }
    r->constant = whole.constant;
    settle(p, q, r, c);
    FB_VEC_FREE(&whole.terms);
}

/* e = g·A + B for the largest g > 1 that divides c and leaves 0 <= B < g. False, and empty sums, where there is none.
 */
static bool common_factor(const fb_index_pool *p, fb_ix e, int64_t c, int64_t *g, sum *a, sum *b)
{
    sum whole = {0};
    sum_add(p, &whole, 1, e);
    for (int64_t below = INT64_MAX;;) {
        *g = 1;
        for (int i = 0; i < whole.terms.n; i++) {
            int64_t shared = fb_gcd(c, whole.terms.at[i].factor);
            if (shared > *g && shared < below) *g = shared;
        }
        a->terms.n = b->terms.n = 0;
        a->constant = 0;
        b->constant = whole.constant;
        if (*g == 1) break;
        for (int i = 0; i < whole.terms.n; i++) {
            term t = whole.terms.at[i];
            bool divides = t.factor % *g == 0;
            sum_term(divides ? a : b, divides ? t.factor / *g : t.factor, t.of);
        }
        settle(p, a, b, *g);
        int64_t low, high;
        sum_range(p, b, &low, &high);
        if (high < *g) break;
        below = *g;
    }
    FB_VEC_FREE(&whole.terms);
    return *g > 1;
}

/* (x / a + s) / c = (x + a·s) / (a·c) */
static bool merge_divisions(fb_index_pool *p, fb_ix r, int64_t c, fb_ix *out)
{
    sum s = {0};
    sum_add(p, &s, 1, r);
    for (int i = 0; i < s.terms.n; i++) {
        term t = s.terms.at[i];
        expr d = *at(p, (fb_ix)t.of);
        if (d.kind != DIV || t.factor != 1 || d.value > LARGEST / c) continue;
        sum merged = {0};
        sum_term(&s, -1, t.of);
        sum_add(p, &merged, 1, d.x);
        for (int j = 0; j < s.terms.n; j++)
            sum_term(&merged, fb_wrap_mul(d.value, s.terms.at[j].factor), s.terms.at[j].of);
        merged.constant = fb_wrap_add(merged.constant, fb_wrap_mul(d.value, s.constant));
        *out = fb_ix_div(p, sum_end(p, &merged), c * d.value);
        FB_VEC_FREE(&s.terms);
        return true;
    }
    FB_VEC_FREE(&s.terms);
    return false;
}

static fb_ix divide_rest(fb_index_pool *p, fb_ix r, int64_t c)
{
    expr e = *at(p, r);
    int64_t low = fb_floor_div(e.low, c), g;
    if (low == FB_MUTATE(50, fb_floor_div(e.high, c), fb_floor_div(e.high - 1, c)) && e.low > -FAR && e.high < FAR)
        return fb_ix_const(p, low);
    if (tired(p)) return intern(p, (expr){.kind = DIV, .x = r, .value = c});
    sum a = {0}, b = {0};
    if (common_factor(p, r, c, &g, &a, &b)) {
        FB_VEC_FREE(&b.terms);
        return fb_ix_div(p, sum_end(p, &a), c / g);
    }
    FB_VEC_FREE(&a.terms);
    FB_VEC_FREE(&b.terms);
    if (e.kind == MOD && e.value % c == 0) return fb_ix_mod(p, fb_ix_div(p, e.x, c), e.value / c);
    fb_ix merged;
    if (merge_divisions(p, r, c, &merged)) return merged;
    return intern(p, (expr){.kind = DIV, .x = r, .value = c});
}

fb_ix fb_ix_div(fb_index_pool *p, fb_ix e, int64_t c)
{
    FB_ASSERT(c > 0);
    if (c == 1) return e;
    sum q = {0}, r = {0};
    enter(p);
    split(p, e, c, &q, &r);
    fb_ix rest = divide_rest(p, sum_end(p, &r), c);
    sum_add(p, &q, 1, rest);
    e = sum_end(p, &q);
    leave(p);
    return e;
}

/* k·(x mod a) as k·x where c divides k·a, since only the remainder by c counts. */
static bool drop_inner_mods(const fb_index_pool *p, fb_ix r, int64_t c, sum *out)
{
    sum s = {0};
    bool any = false;
    sum_add(p, &s, 1, r);
    out->constant = s.constant;
    for (int i = 0; i < s.terms.n; i++) {
        term t = s.terms.at[i];
        const expr *m = at(p, (fb_ix)t.of);
        bool drop = m->kind == MOD && (__int128)t.factor * m->value % c == 0;
        sum_add(p, out, t.factor, drop ? m->x : (fb_ix)t.of);
        any |= drop;
    }
    FB_VEC_FREE(&s.terms);
    return any;
}

static fb_ix remainder_of_rest(fb_index_pool *p, fb_ix r, int64_t c)
{
    expr e = *at(p, r);
    int64_t g;
    if (e.low >= 0 && FB_MUTATE(49, e.high < c, e.high <= c)) return r;
    if (tired(p)) return intern(p, (expr){.kind = MOD, .x = r, .value = c});
    sum a = {0}, b = {0};
    if (drop_inner_mods(p, r, c, &a)) return fb_ix_mod(p, sum_end(p, &a), c);
    FB_VEC_FREE(&a.terms);
    a.constant = 0;
    if (common_factor(p, r, c, &g, &a, &b)) {
        sum_add(p, &b, g, fb_ix_mod(p, sum_end(p, &a), c / g));
        return sum_end(p, &b);
    }
    FB_VEC_FREE(&a.terms);
    FB_VEC_FREE(&b.terms);
    return intern(p, (expr){.kind = MOD, .x = r, .value = c});
}

fb_ix fb_ix_mod(fb_index_pool *p, fb_ix e, int64_t c)
{
    FB_ASSERT(c > 0);
    if (c == 1) return fb_ix_const(p, 0);
    sum q = {0}, r = {0};
    enter(p);
    split(p, e, c, &q, &r);
    FB_VEC_FREE(&q.terms);
    e = remainder_of_rest(p, sum_end(p, &r), c);
    leave(p);
    return e;
}

/* ---- questions ---- */

void fb_ix_range(const fb_index_pool *p, fb_ix e, int64_t *low, int64_t *high)
{
    *low = at(p, e)->low;
    *high = at(p, e)->high;
}

int fb_ix_size(const fb_index_pool *p, fb_ix e)
{
    return at(p, e)->size;
}

static int64_t magnitude(const expr *x)
{
    return x->high > -x->low ? x->high : -x->low;
}

int64_t fb_ix_reach(const fb_index_pool *p, fb_ix e)
{
    const expr *x = at(p, e);
    if (x->kind == DIV || x->kind == MOD) return fb_ix_reach(p, x->x);
    if (x->kind != SUM) return magnitude(x);
    int64_t all = x->value < 0 ? -x->value : x->value, within = 0, one;
    for (int i = 0; i < x->n; i++) {
        fb_ix of = (fb_ix)x->terms[i].of;
        int64_t factor = x->terms[i].factor < 0 ? -x->terms[i].factor : x->terms[i].factor, own = fb_ix_reach(p, of);
        bool far = __builtin_mul_overflow(factor, magnitude(at(p, of)), &one) || __builtin_add_overflow(all, one, &all);
        if (far) return INT64_MAX;
        within = own > within ? own : within;
    }
    return all > within ? all : within;
}

static int add_divisors(const fb_index_pool *p, fb_ix e, fb_ix var, int64_t *out, int n, int room)
{
    const expr *x = at(p, e);
    if (!(x->vars & at(p, var)->vars)) return n;
    if (x->kind == SUM)
        for (int i = 0; i < x->n; i++) n = add_divisors(p, (fb_ix)x->terms[i].of, var, out, n, room);
    if (x->kind != DIV && x->kind != MOD) return n;
    bool known = n == room;
    for (int i = 0; i < n; i++) known |= out[i] == x->value;
    if (!known) out[n++] = x->value;
    return add_divisors(p, x->x, var, out, n, room);
}

int fb_ix_divisors(const fb_index_pool *p, fb_ix e, fb_ix var, int64_t *out, int room)
{
    return add_divisors(p, e, var, out, 0, room);
}

/* What a quotient of quotients divides by in all. */
static int64_t scale_of(const fb_index_pool *p, fb_ix e)
{
    const expr *x = at(p, e);
    if (x->kind == DIV) return x->value * scale_of(p, x->x);
    return x->kind == MOD ? scale_of(p, x->x) : 1;
}

int fb_ix_digits(const fb_index_pool *p, fb_ix e, fb_ix var, int64_t *out, int n, int room)
{
    const expr *x = at(p, e);
    if (!(x->vars & at(p, var)->vars)) return n;
    if (x->kind == SUM)
        for (int i = 0; i < x->n; i++) n = fb_ix_digits(p, (fb_ix)x->terms[i].of, var, out, n, room);
    if (x->kind != DIV && x->kind != MOD) return n;
    int64_t cut = x->kind == DIV ? scale_of(p, e) : x->value * scale_of(p, x->x);
    bool known = n == room;
    for (int i = 0; i < n; i++) known |= out[i] == cut;
    if (!known) out[n++] = cut;
    return fb_ix_digits(p, x->x, var, out, n, room);
}

int fb_ix_mixed(const fb_index_pool *p, fb_ix e, fb_ix a, fb_ix b, fb_ix *out, int n, int room)
{
    const expr *x = at(p, e);
    if (!(x->vars & at(p, a)->vars) || !(x->vars & at(p, b)->vars)) return n;
    if (x->kind == SUM)
        for (int i = 0; i < x->n; i++) n = fb_ix_mixed(p, (fb_ix)x->terms[i].of, a, b, out, n, room);
    if (x->kind != DIV && x->kind != MOD) return n;
    bool known = n == room;
    for (int i = 0; i < n; i++) known |= out[i] == e;
    if (!known) out[n++] = e;
    return fb_ix_mixed(p, x->x, a, b, out, n, room);
}

bool fb_ix_is_const(const fb_index_pool *p, fb_ix e, int64_t *value)
{
    if (at(p, e)->kind != CONST) return false;
    *value = at(p, e)->value;
    return true;
}

bool fb_ix_is_var(const fb_index_pool *p, fb_ix e)
{
    return at(p, e)->kind == VAR;
}

bool fb_ix_uses(const fb_index_pool *p, fb_ix e, fb_ix var)
{
    const expr *x = at(p, e);
    if (e == var) return true;
    if (!(x->vars & at(p, var)->vars)) return false;
    if (x->kind == DIV || x->kind == MOD) return fb_ix_uses(p, x->x, var);
    for (int i = 0; i < x->n; i++)
        if (fb_ix_uses(p, (fb_ix)x->terms[i].of, var)) return true;
    return false;
}

bool fb_ix_coefficient(const fb_index_pool *p, fb_ix e, fb_ix var, int64_t *coefficient)
{
    const expr *x = at(p, e);
    *coefficient = e == var;
    if (e == var || !(x->vars & at(p, var)->vars)) return true;
    if (x->kind != SUM) return !fb_ix_uses(p, e, var);
    bool linear = true;
    for (int i = 0; i < x->n; i++) {
        if (x->terms[i].of == var)
            *coefficient = x->terms[i].factor;
        else
            linear &= !fb_ix_uses(p, (fb_ix)x->terms[i].of, var);
    }
    return linear;
}

bool fb_ix_stride(fb_index_pool *p, fb_ix e, fb_ix var, int64_t *coefficient, fb_ix *rest)
{
    bool linear = fb_ix_coefficient(p, e, var, coefficient);
    *rest = e;
    if (*coefficient == 0) return linear;
    sum s = {0};
    if (e != var) {
        sum_add(p, &s, 1, e);
        sum_term(&s, fb_wrap_sub(0, *coefficient), var);
    }
    *rest = sum_end(p, &s);
    return linear;
}

bool fb_ix_all_multiples(const fb_index_pool *p, fb_ix e, fb_ix but, int64_t by)
{
    const expr *x = at(p, e);
    if (e == but) return true;
    if (x->kind == CONST || x->kind == SUM) {
        bool all = x->value % by == 0;
        for (int i = 0; i < x->n && all; i++) all = x->terms[i].of == but || x->terms[i].factor % by == 0;
        return all;
    }
    return false;
}

bool fb_ix_steps_along(const fb_index_pool *p, fb_ix e, fb_ix var)
{
    int64_t stride = 0;
    return fb_ix_is_var(p, var) && fb_ix_coefficient(p, e, var, &stride) && stride == 1;
}

fb_ix fb_ix_substitute(fb_index_pool *p, fb_ix e, fb_ix var, fb_ix by)
{
    expr x = *at(p, e);
    if (e == var) return by;
    if (!(x.vars & at(p, var)->vars)) return e;
    if (x.kind == DIV) return fb_ix_div(p, fb_ix_substitute(p, x.x, var, by), x.value);
    if (x.kind == MOD) return fb_ix_mod(p, fb_ix_substitute(p, x.x, var, by), x.value);
    if (x.kind != SUM) return e;
    sum s = {.constant = x.value};
    for (int i = 0; i < x.n; i++) sum_add(p, &s, x.terms[i].factor, fb_ix_substitute(p, (fb_ix)x.terms[i].of, var, by));
    return sum_end(p, &s);
}

int64_t fb_ix_extent(const fb_index_pool *p, fb_ix var)
{
    return at(p, var)->value;
}

const char *fb_ix_var_name(const fb_index_pool *p, fb_ix var)
{
    return at(p, var)->name;
}

int64_t fb_ix_eval(const fb_index_pool *p, fb_ix e, int64_t (*value_of)(void *ctx, fb_ix var), void *ctx)
{
    const expr *x = at(p, e);
    switch (x->kind) {
    case CONST: return x->value;
    case VAR: return value_of(ctx, e);
    case DIV: return fb_floor_div(fb_ix_eval(p, x->x, value_of, ctx), x->value);
    case MOD: return fb_mod_floor(fb_ix_eval(p, x->x, value_of, ctx), x->value);
    case SUM: break;
    }
    int64_t total = x->value;
    for (int i = 0; i < x->n; i++)
        total =
            fb_wrap_add(total, fb_wrap_mul(x->terms[i].factor, fb_ix_eval(p, (fb_ix)x->terms[i].of, value_of, ctx)));
    return total;
}

/* ---- printing ---- */

/* Large factors first, negative ones last; equal ones in order of creation. */
static void sort_by_factor(term *terms, int n)
{
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && terms[j - 1].factor < terms[j].factor; j--) {
            term swap = terms[j];
            terms[j] = terms[j - 1];
            terms[j - 1] = swap;
        }
}

static void print_term(const fb_index_pool *p, term t, bool first, fb_str *out)
{
    bool negative = t.factor < 0;
    uint64_t factor = negative ? -(uint64_t)t.factor : (uint64_t)t.factor;
    if (!first || negative) fb_str_add(out, first ? "-" : negative ? " - " : " + ");
    if (factor != 1) fb_str_addf(out, "%llu * ", (unsigned long long)factor);
    fb_ix_print(p, (fb_ix)t.of, factor != 1 || (first && negative), out);
}

static void print_sum(const fb_index_pool *p, const expr *x, fb_str *out)
{
    term *terms = fb_alloc((size_t)x->n * sizeof *terms);
    memcpy(terms, x->terms, (size_t)x->n * sizeof *terms);
    sort_by_factor(terms, x->n);
    bool leads = x->value > 0 && terms[0].factor < 0;
    if (leads) fb_str_addf(out, "%lld", (long long)x->value);
    for (int i = 0; i < x->n; i++) print_term(p, terms[i], i == 0 && !leads, out);
    if (x->value > 0 && !leads) fb_str_addf(out, " + %lld", (long long)x->value);
    if (x->value < 0) fb_str_addf(out, " - %llu", -(unsigned long long)x->value);
    fb_free(terms);
}

void fb_ix_print(const fb_index_pool *p, fb_ix e, bool inner, fb_str *out)
{
    const expr *x = at(p, e);
    inner = inner && x->kind != VAR && !(x->kind == CONST && x->value >= 0);
    if (inner) fb_str_add(out, "(");
    switch (x->kind) {
    case CONST: fb_str_addf(out, "%lld", (long long)x->value); break;
    case VAR: fb_str_add(out, x->name); break;
    case SUM: print_sum(p, x, out); break;
    case DIV:
    case MOD:
        fb_ix_print(p, x->x, true, out);
        fb_str_addf(out, " %c %lld", x->kind == DIV ? '/' : '%', (long long)x->value);
        break;
    }
    if (inner) fb_str_add(out, ")");
}

/* ---- linear indices ---- */

void fb_ix_unravel(fb_index_pool *p, fb_ix linear, int rank, const int64_t *dims, fb_ix *coords)
{
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        int64_t size = dims[d] > 0 ? dims[d] : 1; /* an empty tensor has no index; any expression will do */
        fb_ix rest = fb_ix_div(p, linear, stride);
        coords[d] = d ? fb_ix_mod(p, rest, size) : rest;
        stride *= size;
    }
}

fb_ix fb_ix_ravel(fb_index_pool *p, int rank, const int64_t *dims, const fb_ix *coords)
{
    sum s = {0};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        sum_add(p, &s, stride, coords[d]);
        stride *= dims[d] > 0 ? dims[d] : 1;
    }
    return sum_end(p, &s);
}
