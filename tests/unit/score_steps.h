/* Loops that are one kernel, made wrong: text of code/merge.c with choices written into it as score_mutate.h does.
 *
 *     for (int64_t step0 = 0; step0 < steps; step0++) {      … step0 < steps - FB_IS(1) …
 *     add_kernel(…, x_at1 + 40 * step0)                      … x_at1 + 40 * (step0 - FB_LATE(2)) …
 *     fb_exchange(h_at1, k_at2);                             if (!FB_LATE(3)) fb_exchange(…);
 *
 *     fb_state0 = fb_out0;                                   if (!FB_LATE(4)) …, where a stage goes through all steps
 *     x + (int64_t)fb_u * 40                                 … ((int64_t)fb_u - FB_LATE(5)) * 40 …
 *     fb_step + fb_u < fb_steps                              … fb_steps - FB_IS(6)
 *
 * Once from the second step on, and once in the last one alone. */
#ifndef TESTS_UNIT_SCORE_STEPS_H
#define TESTS_UNIT_SCORE_STEPS_H

#include "unit/score_mutate.h"

typedef struct {
    mutant_state *m;
    const fb_launch *launch;
    int loop, depth; /* the loop's number, and how many are open */
} merged_text;

static inline int64_t merged_last(const merged_text *t)
{
    return t->launch->loops[t->loop].count - 1;
}

/* When a mutant of this kind is at work. */
static inline void merged_when(merged_text *t, mutation kind, int64_t last, char to[64])
{
    int number = mutant_add(t->m, kind);
    if (kind == MUTATE_LATE)
        snprintf(to, 64, "(FB_IS(%d) && step0 == %lld)", number, (long long)last);
    else
        snprintf(to, 64, "(FB_IS(%d) && step0 > 0)", number);
}

static inline void merged_prefix(merged_text *t, char line[MUTANT_LINE], mutation kind, int64_t last)
{
    char when[64];
    merged_when(t, kind, last, when);
    splice(line, strspn(line, " "), 0, "if (!%s) ", when);
}

/* What moves with the step is another step's. */
static inline void merged_index(merged_text *t, char line[MUTANT_LINE], mutation kind)
{
    char when[64];
    char *at = strstr(line, "* step0");
    if (!at) return;
    merged_when(t, kind, merged_last(t), when);
    splice(line, (size_t)(at + 2 - line), strlen("step0"), "(step0 - %s)", when);
}

static inline bool is_stage(const char *line)
{
    return strstr(line, "for (unsigned at = ") || strstr(line, "(&(fb_kernel_args){") || strstr(line, "args->gemm(");
}

static inline void merged_line(merged_text *t, char line[MUTANT_LINE])
{
    bool swaps = strstr(line, "fb_exchange(") || strstr(line, "{ char *held = ");
    int64_t last = merged_last(t);
    if (strstr(line, "fb_fetch_ahead") || !last) return;
    if (t->depth == 1 && swaps) {
        merged_prefix(t, line, MUTATE_INNER_STATE, last);
        merged_prefix(t, line, MUTATE_LATE, last - 1);
        return;
    }
    merged_index(t, line, MUTATE_INNER_STATE);
    merged_index(t, line, MUTATE_LATE);
    if (t->depth == 1 && is_stage(line)) merged_prefix(t, line, MUTATE_LATE, last);
}

/* … of a step in a stage that goes through all of them; `step`: its number. last < 0: it is not known which is the last. */
static inline void through_when(merged_text *t, mutation kind, int64_t last, const char *step, char to[96])
{
    int number = mutant_add(t->m, kind);
    if (kind == MUTATE_LATE)
        snprintf(to, 96, "(FB_IS(%d) && %s == %lld)", number, step, (long long)last);
    else
        snprintf(to, 96, "(FB_IS(%d) && %s > 0)", number, step);
}

static inline void through_change(merged_text *t, char line[MUTANT_LINE], mutation kind, int64_t last)
{
    static const char index[] = "(int64_t)fb_u", bound[] = "fb_step + fb_u < fb_steps";
    char when[96], *at;
    if (kind == MUTATE_FEWER) {
        if ((at = strstr(line, bound)))
            splice(line, (size_t)(at + strlen(bound) - line), 0, " - FB_IS(%d)", mutant_add(t->m, kind));
    } else if ((at = strstr(line, index))) {
        bool item = strstr(line, "_from = ") != NULL; /* asked for before it is known at which step it is used */
        if (item && kind == MUTATE_LATE) return;
        through_when(t, kind, last, item ? "fb_u" : "fb_step + fb_u", when);
        splice(line, (size_t)(at - line), strlen(index), "((int64_t)fb_u - %s)", when);
    } else if (strstr(line, "fb_state") && strstr(line, " = fb_out")) {
        through_when(t, kind, last, "fb_step + fb_u", when);
        splice(line, strspn(line, " "), 0, "if (!%s) ", when);
    }
}

static inline void through_line(merged_text *t, char line[MUTANT_LINE], int64_t last)
{
    through_change(t, line, MUTATE_FEWER, last);
    through_change(t, line, MUTATE_INNER_STATE, last);
    if (last > 0) through_change(t, line, MUTATE_LATE, last);
}

/* The text of a merged kernel with what may be wrong of its loops, numbered behind `before`. The caller frees it. */
static inline char *mutate_merged(const char *source, const fb_launch *launch, int before, mutant_sites *sites)
{
    fb_str out = {0};
    mutant_state m = {.sites = sites, .before = before};
    merged_text t = {.m = &m, .launch = launch};
    char *line = fb_alloc(MUTANT_LINE);
    bool inside = false, through = false;
    const int64_t last = launch->n_loops == 1 && strstr(source, ", (int)steps);") ? launch->loops[0].count - 1 : -1;
    int braces = 0, opened[16] = {0};
    for (const char *at = source; *at;) {
        size_t n = strcspn(at, "\n") + (strchr(at, '\n') != NULL);
        FB_ASSERT(n < MUTANT_LINE);
        snprintf(line, MUTANT_LINE, "%.*s", (int)n, at);
        char *was = fb_strdup(line), *bound = strstr(line, "; step0 < ");
        m.line = was;
        inside |= strstr(line, "one kernel behind the other") != NULL;
        through = *line != '}' && (through || strstr(line, ", const int fb_steps)"));
        if (through) through_line(&t, line, last);
        if (inside && bound) {
            bound = strpbrk(bound + 10, " ;");
            splice(line, (size_t)(bound - line), 0, " - FB_IS(%d)", mutant_add(&m, MUTATE_FEWER));
        } else if (inside && t.depth) {
            merged_line(&t, line);
        }
        if (inside && strstr(was, "for (int64_t step")) opened[t.depth++] = braces;
        for (const char *c = was; inside && *c; c++) braces += (*c == '{') - (*c == '}');
        if (inside && t.depth && braces == opened[t.depth - 1] && !--t.depth) t.loop++;
        fb_str_add(&out, line);
        fb_free(was);
        at += n;
    }
    fb_free(line);
    return out.text;
}

#endif
