/* Makes the text of a kernel wrong, in C and in CUDA: at each place where a mutation fits, a choice is written into the
 * text between what stands there and what is wrong, made when the kernel runs by the variable fb_mutant. So a kernel is
 * compiled once, however many ways there are to make it wrong; where fb_mutant is 0 it does what it did.
 *
 *     for (int64_t r = 0; r < 12; r++)      for (int64_t r = 0; r < 12 - FB_IS(3); r++)
 *
 * It goes line by line, by how engine/code writes lines, and understands no more of the language than that. */
#ifndef TESTS_UNIT_SCORE_MUTATE_H
#define TESTS_UNIT_SCORE_MUTATE_H

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "code/program.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MUTATIONS(X)                                                                                                   \
    X(STORE, "store scaled")                                                                                           \
    X(BIAS, "bias dropped")                                                                                            \
    X(MEAN, "one fewer in a mean")                                                                                     \
    X(EPS, "eps x 100")                                                                                                \
    X(LEAKY, "leaky relu")                                                                                             \
    X(FACTOR, "factor scaled")                                                                                         \
    X(TAIL, "tail left out")                                                                                           \
    X(ROW, "last row left out")                                                                                        \
    X(COLUMN, "first column skipped")                                                                                  \
    X(SWAPPED, "operands swapped")                                                                                     \
    X(LAST_K, "last k skipped")                                                                                        \
    X(BLOCK_K, "k-block skipped")                                                                                      \
    X(LANE, "a lane's sum lost")                                                                                       \
    X(TRANSPOSED, "transposed index")                                                                                  \
    X(STEP, "another step's state")                                                                                    \
    X(LIBRARY, "library: argument")                                                                                    \
    X(RELU_FLAG, "library: relu")                                                                                      \
    X(LEFT_OUT, "launch left out")                                                                                     \
    X(EXCHANGED, "launches exchanged")                                                                                 \
    X(COUNT, "one repeat fewer")                                                                                       \
    X(NO_SWAP, "swap left out")                                                                                        \
    X(STALE, "stale buffer")                                                                                           \
    X(OFFSET, "window put off")                                                                                        \
    X(INNER_STATE, "one kernel: another step")                                                                         \
    X(FEWER, "one kernel: one step fewer")                                                                             \
    X(LATE, "one kernel: a late step")

typedef enum {
#define X(NAME, TEXT) MUTATE_##NAME,
    MUTATIONS(X)
#undef X
        MUTATION_KINDS
} mutation;

static const char *const mutation_names[] = {
#define X(NAME, TEXT) TEXT,
    MUTATIONS(X)
#undef X
};

/* What fb_mutant is for it; no other site of the program has that number, or one mutant would make two kernels wrong.
 */
typedef struct {
    mutation kind;
    int number;
    char line[120]; /* what stood there */
} mutant_site;
typedef FB_VEC(mutant_site) mutant_sites;

enum { MUTANT_LINE = 8192 };

/* What a kernel's pointers are. */
typedef struct {
    char name[64], type[16];
    bool stored;
    int64_t elements; /* of the buffer; 0: not known */
} mutant_pointer;

typedef struct {
    mutant_sites *sites;
    int before;       /* sites of the program's other kernels, whose numbers are taken */
    const char *line; /* as it was */
    int n_pointers;
    mutant_pointer pointer[96];
    int n_packs; /* CUDA: fb_out0 … of this type */
    char pack[24][16];
    bool reduces;  /* the innermost loop around sums up … */
    char over[24]; /* … over this variable; "": none */
} mutant_state;

static inline int mutant_add(mutant_state *m, mutation kind)
{
    mutant_site s = {.kind = kind, .number = m->before + m->sites->n + 1};
    snprintf(s.line, sizeof s.line, "%.119s", m->line + strspn(m->line, " "));
    s.line[strcspn(s.line, "\n")] = '\0';
    FB_VEC_PUSH(m->sites, s);
    return s.number;
}

/* Puts formatted text in place of n characters. */
__attribute__((format(printf, 4, 5))) static inline void splice(char line[MUTANT_LINE], size_t at, size_t n,
                                                                const char *format, ...)
{
    char by[MUTANT_LINE], rest[MUTANT_LINE];
    va_list ap;
    va_start(ap, format);
    vsnprintf(by, sizeof by, format, ap);
    va_end(ap);
    snprintf(rest, sizeof rest, "%s", line + at + n);
    FB_ASSERT(at + strlen(by) + strlen(rest) < MUTANT_LINE);
    snprintf(line + at, MUTANT_LINE - at, "%s%s", by, rest);
}

static inline bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Of "(": where its partner is. */
static inline const char *partner(const char *at)
{
    int depth = 0;
    for (; *at; at++) {
        depth += *at == '(' || *at == '[' || *at == '{';
        depth -= *at == ')' || *at == ']' || *at == '}';
        if (!depth) return at;
    }
    return NULL;
}

/* The first `what` outside of brackets in [from, to), or NULL; *n is how many there are. */
static inline const char *at_top(const char *from, const char *to, const char *what, int *n)
{
    const char *first = NULL;
    int depth = 0, found = 0;
    for (const char *at = from; at < to; at++) {
        depth += *at == '(' || *at == '[' || *at == '{';
        depth -= *at == ')' || *at == ']' || *at == '}';
        if (depth || strncmp(at, what, strlen(what)) != 0) continue;
        if (!first) first = at;
        found++;
    }
    if (n) *n = found;
    return first;
}

static inline const mutant_pointer *pointer_named(const mutant_state *m, const char *name, size_t n)
{
    for (int i = 0; i < m->n_pointers; i++)
        if (strlen(m->pointer[i].name) == n && strncmp(m->pointer[i].name, name, n) == 0) return &m->pointer[i];
    return NULL;
}

/* ---- pointers ---- */

static inline void add_pointer(mutant_state *m, const char *name, size_t n, const char *type, size_t n_type,
                               bool stored)
{
    if (m->n_pointers == 96) return;
    mutant_pointer *p = &m->pointer[m->n_pointers++];
    *p = (mutant_pointer){.stored = stored};
    snprintf(p->name, sizeof p->name, "%.*s", (int)n, name);
    snprintf(p->type, sizeof p->type, "%.*s", (int)n_type, type);
}

/* "const float *restrict x = args->buffers[0];", "float *restrict y = …" */
static inline void find_c_pointer(mutant_state *m, const char *line)
{
    const char *star = strstr(line, " *restrict "), *is = strstr(line, " = args->buffers[");
    if (!star || !is) return;
    bool constant = strncmp(line + strspn(line, " "), "const ", 6) == 0;
    const char *type = line + strspn(line, " ") + (constant ? 6 : 0), *name = star + strlen(" *restrict ");
    add_pointer(m, name, (size_t)(is - name), type, (size_t)(star - type), !constant);
}

/* "name_kernel(const float *__restrict__ x, float *__restrict__ y){" */
static inline void find_cuda_pointers(mutant_state *m, const char *line)
{
    for (const char *star = line; (star = strstr(star, " *__restrict__ "));) {
        const char *type = star, *name = star + strlen(" *__restrict__ ");
        while (type > line && type[-1] != '(' && type[-1] != ',') type--;
        type += strspn(type, " ");
        bool constant = strncmp(type, "const ", 6) == 0;
        if (constant) type += 6;
        add_pointer(m, name, strcspn(name, ",)"), type, (size_t)(star - type), !constant);
        star = name;
    }
}

/* "fb_pack<float, 2> fb_out0;" */
static inline void find_pack(mutant_state *m, const char *line)
{
    const char *at = strstr(line, "fb_pack<"), *out = strstr(line, "> fb_out");
    if (!at || !out) return;
    int number = atoi(out + strlen("> fb_out"));
    if (number < 24) snprintf(m->pack[number], 16, "%.*s", (int)strcspn(at + 8, ","), at + 8);
}

/* ---- values ---- */

/* The type of what a line stores into memory, or NULL. */
static inline const char *stored_type(const mutant_state *m, const char *line)
{
    const char *at = line + strspn(line, " ");
    size_t n = 0;
    while (in_word(at[n])) n++;
    if (strncmp(at, "fb_out", 6) == 0 && strncmp(at + n, ".at[", 4) == 0) {
        int number = atoi(at + 6);
        return number < 24 && m->pack[number][0] ? m->pack[number] : NULL;
    }
    const mutant_pointer *p = n && at[n] == '[' ? pointer_named(m, at, n) : NULL;
    return p && p->stored ? p->type : NULL;
}

/* Of "x = E;": where E begins and ends. Conversions around all of it stay around it. */
static inline bool find_value(const char *line, size_t *from, size_t *to)
{
    const char *end = line + strlen(line);
    while (end > line && isspace((unsigned char)end[-1])) end--;
    if (end == line || end[-1] != ';') return false;
    end--;
    int n;
    const char *is = at_top(line, end, " = ", &n);
    if (!is) is = at_top(line, end, " += ", &n);
    if (!is || n != 1) return false;
    const char *e = strchr(is, '=') + 2;
    static const char *const around[] = {"fb_to_f16(", "fb_to_bf16("};
    for (int i = 0; i < 2; i++) {
        size_t k = strlen(around[i]);
        if (strncmp(e, around[i], k) != 0 || partner(e + k - 1) != end - 1) continue;
        e += k;
        end--;
    }
    *from = (size_t)(e - line);
    *to = (size_t)(end - line);
    return e < end;
}

static inline bool is_float_line(const mutant_state *m, const char *line)
{
    const char *at = line + strspn(line, " "), *stored = stored_type(m, line);
    if (strncmp(at, "const float ", 12) == 0 || strncmp(at, "const double ", 13) == 0) return true;
    if (stored) return strcmp(stored, "float") == 0 || strcmp(stored, "double") == 0 || strncmp(stored, "fb_", 3) == 0;
    return strstr(at, " += ") != NULL && isalpha((unsigned char)*at) && strchr(at, '[') == NULL;
}

/* x + bias[j], x[i] + y */
static inline void drop_operand(mutant_state *m, char line[MUTANT_LINE])
{
    size_t from, to;
    int n;
    if (!find_value(line, &from, &to)) return;
    const char *plus = at_top(line + from, line + to, " + ", &n);
    if (!plus || n != 1 || at_top(line + from, line + to, " ? ", NULL) || at_top(line + from, line + to, " - ", NULL))
        return;
    size_t a = from, na = (size_t)(plus - line) - from, b = (size_t)(plus - line) + 3, nb = to - b;
    char left[MUTANT_LINE], right[MUTANT_LINE];
    snprintf(left, sizeof left, "%.*s", (int)na, line + a);
    snprintf(right, sizeof right, "%.*s", (int)nb, line + b);
    if (strchr(right, '[')) splice(line, b, nb, "(FB_IS(%d) ? 0 : %s)", mutant_add(m, MUTATE_BIAS), right);
    if (strchr(left, '[')) splice(line, a, na, "(FB_IS(%d) ? 0 : %s)", mutant_add(m, MUTATE_BIAS), left);
}

/* Does the kernel read or write floats of 16 bits? */
static inline bool is_narrow(const mutant_state *m)
{
    for (int i = 0; i < m->n_pointers; i++)
        if (strncmp(m->pointer[i].type, "fb_", 3) == 0) return true;
    return false;
}

/* + 1e-05f, * 0.125f */
static inline void change_constant(mutant_state *m, char line[MUTANT_LINE])
{
    static const char *const before[] = {" + ", " * "};
    for (int i = 0; i < 2; i++) {
        size_t from, to;
        int n;
        if (!find_value(line, &from, &to)) return;
        const char *at = at_top(line + from, line + to, before[i], &n);
        if (!at || n != 1) continue;
        char *end;
        double value = strtod(at + 3, &end);
        size_t k = (size_t)(end - at - 3) + (*end == 'f');
        if (end == at + 3 || at + 3 + k != line + to || !(value != 0)) continue;
        if (i == 0 && !(value > 0 && value < 1e-2)) continue;
        char was[64];
        snprintf(was, sizeof was, "%.*s", (int)k, at + 3);
        splice(line, (size_t)(at + 3 - line), k, "(FB_IS(%d) ? %s * %s : %s)",
               mutant_add(m, i ? MUTATE_FACTOR : MUTATE_EPS), was,
               !i             ? "100"
               : is_narrow(m) ? "1.04f"
                              : "1.01f",
               was);
    }
}

/* x < 0 ? 0 : x */
static inline void leak(mutant_state *m, char line[MUTANT_LINE])
{
    static const char relu[] = " < 0 ? 0 : ";
    size_t from, to;
    if (!find_value(line, &from, &to)) return;
    const char *at = at_top(line + from, line + to, relu, NULL);
    if (!at) return;
    size_t n = (size_t)(at - line) - from;
    char x[MUTANT_LINE];
    snprintf(x, sizeof x, "%.*s", (int)n, line + from);
    if (strncmp(at + strlen(relu), x, n) != 0) return;
    splice(line, (size_t)(at - line) + strlen(" < 0 ? "), 1, "(FB_IS(%d) ? (%s) * 0.01f : 0)",
           mutant_add(m, MUTATE_LEAKY), x);
}

/* a - b, a / b, c ? a : b */
static inline void exchange(mutant_state *m, char line[MUTANT_LINE])
{
    static const char *const operators[] = {" - ", " / "};
    size_t from, to;
    int n;
    char a[MUTANT_LINE], b[MUTANT_LINE], c[MUTANT_LINE];
    if (!find_value(line, &from, &to)) return;
    const char *ask = at_top(line + from, line + to, " ? ", &n), *other = at_top(line + from, line + to, " : ", NULL);
    if (ask && n == 1 && other > ask) {
        if (strstr(line + from, " ? 0 : ") || strstr(ask, "FB_IS") || memchr(ask, '[', (size_t)(line + to - ask)))
            return;
        snprintf(c, sizeof c, "%.*s", (int)(ask - line - (int)from), line + from);
        snprintf(a, sizeof a, "%.*s", (int)(other - ask - 3), ask + 3);
        snprintf(b, sizeof b, "%.*s", (int)(line + to - other - 3), other + 3);
        splice(line, from, to - from, "(FB_IS(%d) != (%s)) ? %s : %s", mutant_add(m, MUTATE_SWAPPED), c, a, b);
        return;
    }
    for (int i = 0; i < 2 && !ask; i++) {
        const char *at = at_top(line + from, line + to, operators[i], &n);
        if (!at || n != 1 || at_top(line + from, line + to, " + ", NULL) || at_top(line + from, line + to, " * ", NULL))
            continue;
        if (at_top(line + from, line + to, operators[1 - i], NULL)) continue;
        snprintf(a, sizeof a, "%.*s", (int)(at - line - (int)from), line + from);
        snprintf(b, sizeof b, "%.*s", (int)(line + to - at - 3), at + 3);
        splice(line, from, to - from, "(FB_IS(%d) ? (%s)%s(%s) : (%s)%s(%s))", mutant_add(m, MUTATE_SWAPPED), b,
               operators[i], a, a, operators[i], b);
        return;
    }
}

/* x[12 * i + j], of 12 × 12 elements */
static inline void transpose(mutant_state *m, char line[MUTANT_LINE])
{
    for (size_t at = 0; line[at]; at++) {
        size_t name = at;
        if (line[at] != '[') continue;
        while (name > 0 && in_word(line[name - 1])) name--;
        const mutant_pointer *p = pointer_named(m, line + name, at - name);
        char *end, i[32] = "", j[32] = "";
        int k = 0;
        long side = strtol(line + at + 1, &end, 10);
        if (!p || p->stored || side < 2 || side * side != p->elements) continue;
        if (sscanf(end, " * %30[a-z0-9_] + %30[a-z0-9_]]%n", i, j, &k) != 2 || !k) continue;
        splice(line, at + 1, (size_t)(end + k - 1 - (line + at + 1)), "FB_IS(%d) ? %ld * %s + %s : %ld * %s + %s",
               mutant_add(m, MUTATE_TRANSPOSED), side, j, i, side, i, j);
        return;
    }
}

/* mean /= 12.0f; */
static inline void count_fewer(mutant_state *m, char line[MUTANT_LINE])
{
    char *at = strstr(line, " /= "), *end;
    if (!at) return;
    double n = strtod(at + 4, &end);
    if (end == at + 4 || n < 2) return;
    if (*end == 'f') end++;
    char was[64];
    snprintf(was, sizeof was, "%.*s", (int)(end - at - 4), at + 4);
    splice(line, (size_t)(at + 4 - line), strlen(was), "(FB_IS(%d) ? %.1ff : %s)", mutant_add(m, MUTATE_MEAN), n - 1,
           was);
}

/* sum += x; in a loop, of every eighth element; sum = fb_team<fb_plus, 32>(sum); */
static inline void lose_lane(mutant_state *m, char line[MUTANT_LINE])
{
    size_t from, to;
    const char *at = line + strspn(line, " ");
    if (m->reduces && m->over[0] && strstr(at, " += ") && find_value(line, &from, &to)) {
        char e[MUTANT_LINE];
        snprintf(e, sizeof e, "%.*s", (int)(to - from), line + from);
        splice(line, from, to - from, "(FB_IS(%d) && %s %% 8 == 1 ? 0 : %s)", mutant_add(m, MUTATE_LANE), m->over, e);
        return;
    }
    char *team = strstr(line, "<fb_plus, ");
    char *open = team ? strchr(team, '(') : NULL;
    if (!open || !strstr(line, " = fb_") || strchr(open, ',')) return;
    const char *close = partner(open);
    if (!close) return;
    char e[MUTANT_LINE];
    snprintf(e, sizeof e, "%.*s", (int)(close - open - 1), open + 1);
    int number = mutant_add(m, MUTATE_LANE);
    if (strstr(line, "_each<")) /* of an array */
        splice(line, (size_t)(at - line), 0,
               "if (FB_IS(%d) && threadIdx.x %% 32 == 1) for (auto &fb_lost : %s) fb_lost = 0; ", number, e);
    else
        splice(line, (size_t)(open + 1 - line), (size_t)(close - open - 1),
               "FB_IS(%d) && threadIdx.x %% 32 == 1 ? 0 : %s", number, e);
}

static inline void scale_store(mutant_state *m, char line[MUTANT_LINE])
{
    size_t from, to;
    const char *type = stored_type(m, line);
    if (!type || !find_value(line, &from, &to)) return;
    char e[MUTANT_LINE];
    snprintf(e, sizeof e, "%.*s", (int)(to - from), line + from);
    if (strcmp(type, "float") == 0 || strcmp(type, "double") == 0 || strncmp(type, "fb_", 3) == 0)
        splice(line, from, to - from, "(%s) * (FB_IS(%d) ? %s : 1.0f)", e, mutant_add(m, MUTATE_STORE),
               strncmp(type, "fb_", 3) == 0 ? "1.04f" : "1.01f");
    else
        splice(line, from, to - from, "(%s) ^ FB_IS(%d)", e, mutant_add(m, MUTATE_STORE));
}

/* ---- loops and guards ---- */

typedef enum { LOOP_OUTER, LOOP_INNER, LOOP_SUM } loop_kind;

/* What a loop does, from its text: `text` begins with its line. */
static inline loop_kind kind_of_loop(const char *text)
{
    size_t indent = strspn(text, " ");
    loop_kind kind = LOOP_INNER;
    for (const char *line = strchr(text, '\n'); line && line[1]; line = strchr(line, '\n')) {
        line++;
        size_t k = strspn(line, " ");
        if (k <= indent && line[k] == '}') break;
        if (strncmp(line + k, "for (", 5) == 0) return LOOP_OUTER;
        const char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        char one[MUTANT_LINE];
        snprintf(one, sizeof one, "%.*s", (int)n, line);
        if (strstr(one, " += ")) kind = LOOP_SUM;
    }
    return kind;
}

/* "for (int64_t r = 0; r < 12; r++)" in C; those of CUDA go over what a thread holds, and are left alone */
static inline void change_loop(mutant_state *m, char line[MUTANT_LINE], const char *text)
{
    char v[24], start[64], bound[64], again[24];
    const char *at = strstr(line, "for (int64_t ");
    if (!at || sscanf(at, "for (int64_t %23[a-z0-9_] = %63[^;]; %23[a-z0-9_] < %63[^;]; ", v, start, again, bound) != 4)
        return;
    loop_kind kind = kind_of_loop(text);
    m->reduces = kind == LOOP_SUM;
    snprintf(m->over, sizeof m->over, "%s", kind == LOOP_SUM ? v : "");
    long n = strtol(bound, NULL, 10);
    if (strcmp(v, "block") == 0 || strcmp(again, v) != 0 || (n == 1)) return;
    size_t from = (size_t)(strstr(at, " = ") + 3 - line), to = (size_t)(strstr(at, " < ") + 3 - line);
    int last = mutant_add(m, kind == LOOP_SUM ? MUTATE_LAST_K : kind == LOOP_INNER ? MUTATE_TAIL : MUTATE_ROW);
    splice(line, to, strlen(bound), "%s - FB_IS(%d)", bound, last);
    if (kind == LOOP_OUTER) return;
    int first = mutant_add(m, kind == LOOP_SUM ? MUTATE_BLOCK_K : MUTATE_COLUMN);
    if (kind == LOOP_SUM)
        splice(line, from, strlen(start), "%s + (FB_IS(%d) ? %ld : 0)", start, first, n >= 16 ? 8 : n >= 2 ? n / 2 : 1);
    else
        splice(line, from, strlen(start), "%s + FB_IS(%d)", start, first);
}

/* "fb_p < 83", "m0 + fb_m >= 10" in conditions; "0, 24," of a product */
static inline void change_guards(mutant_state *m, char line[MUTANT_LINE])
{
    bool condition = strstr(line, "if (") || strstr(line, "return {&") || strstr(line, "fb_own = ");
    char *span = strstr(line, "fb_sums, fb_shared, 0, ");
    if (span) {
        char *at = span + strlen("fb_sums, fb_shared, 0, "), *end;
        long n = strtol(at, &end, 10);
        if (n > 1)
            splice(line, (size_t)(at - line), (size_t)(end - at), "(FB_IS(%d) ? %ld : %ld)",
                   mutant_add(m, MUTATE_BLOCK_K), (n + 1) / 2, n);
    }
    if (!condition || strstr(line, "for (")) return;
    for (size_t at = 0; line[at]; at++) {
        size_t skip = strncmp(line + at, " < ", 3) == 0 ? 3 : strncmp(line + at, " >= ", 4) == 0 ? 4 : 0;
        if (!skip || !isdigit((unsigned char)line[at + skip])) continue;
        char *end;
        long n = strtol(line + at + skip, &end, 10);
        if (in_word(*end) || *end == '.' || n < 2) continue;
        size_t back = at;
        while (back > 0 && (in_word(line[back - 1]) || line[back - 1] == ' ' || line[back - 1] == '+')) back--;
        /* which warps do what is not what a kernel computes: others would wait for each other for ever */
        if (memmem(line + back, at - back, "Idx", 3) || (back > 0 && line[back - 1] == '.')) continue;
        bool over_k = memmem(line + back, at - back, "fb_k", 4) != NULL;
        bool rows = memmem(line + back, at - back, "fb_m", 4) != NULL;
        int one = mutant_add(m, over_k ? MUTATE_LAST_K : rows ? MUTATE_ROW : MUTATE_TAIL);
        int half = mutant_add(m, over_k ? MUTATE_BLOCK_K : MUTATE_TAIL);
        char by[128];
        int k = snprintf(by, sizeof by, "(FB_IS(%d) ? %ld : %ld - FB_IS(%d))", half, (n + 1) / 2, n, one);
        splice(line, at + skip, (size_t)(end - (line + at + skip)), "%s", by);
        at += skip + (size_t)k - 1;
    }
}

/* ---- all of a kernel ---- */

static inline bool is_plain_line(const char *line)
{
    static const char *const others[] = {
        "for (",          "if (",        "using ",   "static",         "extern",   "return ", "const fb_at ",
        "const int ",     "const auto ", "int64_t ", "const int64_t ", "#",        "/*",      " *",
        "const bool fb_", "args->",      "fb_tile",  "fb_store",       "constexpr"};
    const char *at = line + strspn(line, " ");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(at, others[i], strlen(others[i])) == 0) return false;
    return true;
}

static inline void mutate_line(mutant_state *m, char line[MUTANT_LINE], const char *text)
{
    if (strstr(line, "for (")) {
        change_loop(m, line, text);
        return;
    }
    if (line[strspn(line, " ")] == '}') m->over[0] = '\0';
    change_guards(m, line);
    if (strstr(line, "return ") || is_plain_line(line)) transpose(m, line); /* vectors would be at odd places */
    if (!is_plain_line(line)) return;
    if (is_float_line(m, line)) {
        drop_operand(m, line);
        change_constant(m, line);
        leak(m, line);
        exchange(m, line);
    }
    count_fewer(m, line);
    lose_lane(m, line);
    scale_store(m, line);
}

/* The kernel's text with all that may be wrong of it; sites are added, numbered behind `before`. elements: of each of
 * its arguments, in order (0: not known). The caller frees the text. */
static inline char *mutate_kernel(const char *source, const int64_t *elements, int n_elements, int before,
                                  mutant_sites *sites)
{
    fb_str out = {0};
    mutant_state *m = fb_calloc(1, sizeof *m);
    m->sites = sites;
    m->before = before;
    char *line = fb_alloc(MUTANT_LINE);
    for (const char *at = source; *at;) {
        size_t n = strcspn(at, "\n") + (strchr(at, '\n') != NULL);
        FB_ASSERT(n < MUTANT_LINE);
        snprintf(line, MUTANT_LINE, "%.*s", (int)n, at);
        char *was = fb_strdup(line);
        m->line = was;
        int known = m->n_pointers;
        find_c_pointer(m, line);
        find_cuda_pointers(m, line);
        find_pack(m, line);
        for (int i = known; i < m->n_pointers; i++)
            if (i < n_elements) m->pointer[i].elements = elements[i];
        if (m->n_pointers && known == m->n_pointers) mutate_line(m, line, at);
        if (strcmp(line, was) != 0 && line[strlen(line) - 1] != '\n')
            fb_str_addf(&out, "%s\n", line);
        else
            fb_str_add(&out, line);
        fb_free(was);
        at += n;
    }
    fb_free(line);
    fb_free(m);
    return out.text;
}

#endif
