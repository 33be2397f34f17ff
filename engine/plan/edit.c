/* Edits: judge first, then make. Joining groups is judged on the plan as it is; edits that take groups apart are made
 * on a copy, which is then checked. Either way the verdict compares the cost of the groups concerned before and after.
 */
#include "nest/parts.h"
#include "plan/loops.h"
#include "plan/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const fb_plan *plan, fb_id node)
{
    return plan->planner->g->nodes[node].name;
}

/* ---- what it brings ---- */

typedef struct {
    double us;
    int64_t bytes;
    int launches;
    bool whole; /* of the plan, not of some of its kernels */
} toll;

static void pay(toll *t, const fb_plan *plan, fb_analysis *a, const fb_group_cost *c)
{
    t->us += fb_plan_kernel_us(plan, plan->planner->g->nodes[a->kernel.nodes[0]].region, a, c);
    t->bytes += c->bytes_read + c->bytes_written;
    t->launches += c->launches;
}

/* Of all slots that own some of the nodes, each once. */
static toll toll_of_nodes(const fb_plan *plan, const fb_ids *nodes)
{
    toll t = {0};
    fb_mark_begin(plan->planner, FB_MARK_BACKWARD);
    for (int i = 0; i < nodes->n; i++) {
        fb_id s = plan->owner[nodes->at[i]];
        if (s == FB_NONE || fb_marked(plan->planner, FB_MARK_BACKWARD, s)) continue;
        fb_mark(plan->planner, FB_MARK_BACKWARD, s);
        fb_group_cost c;
        fb_slots_cost(plan, s, &c);
        pay(&t, plan, fb_slots_analysis(plan, s), &c);
    }
    return t;
}

/* Of all of it: what concerns no group alone. */
static toll toll_of_plan(const fb_plan *plan)
{
    return (toll){.us = fb_plan_us(plan), .whole = true};
}

static void add_amount(fb_str *s, const char *verb, int launches, int64_t bytes)
{
    char text[32];
    if (!launches && !bytes) return;
    fb_str_addf(s, "%s%s ", s->n ? ", " : "", verb);
    if (launches) fb_str_addf(s, "%d launch%s", launches, launches == 1 ? "" : "es");
    if (launches && bytes) fb_str_add(s, " and ");
    if (bytes) fb_str_add(s, fb_format_bytes(text, (double)bytes));
}

/* "saves 1 launch and 33.6 MB, its kernels predicted 9.8 µs → 5.9 µs"; without the times where the calibration is
 * doubted, which then call nothing slower. */
static fb_verdict verdict_of(const fb_plan *plan, const char *what, toll before, toll after)
{
    enum { TIE = 200 }; /* parts: below, both times would be written alike */
    int launches = before.launches - after.launches;
    int64_t bytes = before.bytes - after.bytes;
    bool doubted = plan->planner->machine.doubted, slower = !doubted && after.us > before.us + before.us / TIE;
    char from[32], to[32];
    fb_str s = {0};
    add_amount(&s, "saves", launches > 0 ? launches : 0, bytes > 0 ? bytes : 0);
    add_amount(&s, "costs", launches < 0 ? -launches : 0, bytes < 0 ? -bytes : 0);
    if (doubted)
        fb_str_addf(&s, "%sno time is predicted, for the calibration is doubted", s.n ? "; " : "");
    else
        fb_str_addf(&s, "%s%spredicted %s → %s", s.n ? ", " : "", before.whole ? "" : "its kernels ",
                    fb_format_us(from, before.us), fb_format_us(to, after.us));
    fb_verdict v =
        fb_verdict_make(slower ? FB_VERDICT_SLOWER : FB_VERDICT_FINE, FB_RULE_NONE, "%s: %s", what, fb_str_get(&s));
    fb_str_free(&s);
    v.before_us = before.us;
    v.after_us = after.us;
    v.bytes_saved = bytes;
    v.launches_saved = launches;
    return v;
}

static fb_verdict nothing_to_do(const fb_plan *plan, fb_plan **result, fb_verdict v)
{
    if (result) *result = fb_plan_copy(plan);
    return v;
}

/* ---- joining ---- */

bool fb_plan_judge_join(const fb_plan *plan, const fb_id *slots, int n, fb_analysis **to, fb_verdict *why)
{
    fb_ids nodes = {0}, stored = {0};
    fb_plan_gather(plan, slots, n, &nodes, &stored);
    fb_analysis *a = fb_analyse(plan->planner, &nodes, &stored, fb_choice_joined(plan, slots, n));
    FB_VEC_FREE(&nodes);
    FB_VEC_FREE(&stored);
    if (a->accepted) {
        *to = a;
        return true;
    }
    *why = a->why;
    fb_analysis_drop(plan->planner, a);
    return false;
}

void fb_commit_join(fb_plan *plan, const fb_id *slots, int n, fb_analysis *to)
{
    fb_order_merge(plan, slots, n);
    plan->slot[fb_plan_join(plan, slots, n)].analysis = to;
}

/* Of an index_add with what is made of it: whether all rows are gone through, and why. */
static void say_of_added(const fb_analysis *a, fb_verdict *v)
{
    fb_added added;
    fb_str says = {0};
    for (int i = 0; a->nest && i < a->nest->n_sections && !says.n; i++)
        if (fb_section_adds(a->nest, &a->nest->sections[i], &added) && added.sum != FB_NONE)
            fb_added_says(a->nest, &added, &says);
    size_t used = strlen(v->text);
    if (says.n) snprintf(v->text + used, sizeof v->text - used, "; %s", fb_str_get(&says));
    fb_str_free(&says);
}

/* Of a short reduction that is no row's here: what it is made of, and how often. */
static void say_of_written(const fb_analysis *a, fb_verdict *v)
{
    fb_str says = {0};
    if (a->nest) fb_nest_says_written(a->nest, &says);
    size_t used = strlen(v->text);
    if (says.n) snprintf(v->text + used, sizeof v->text - used, "; %s", fb_str_get(&says));
    fb_str_free(&says);
}

static fb_verdict join(const fb_plan *plan, const char *what, const fb_ids *slots, fb_plan **result)
{
    fb_verdict v;
    fb_analysis *to;
    if (!fb_plan_may_join(plan, slots->at, slots->n, &v) || !fb_plan_judge_join(plan, slots->at, slots->n, &to, &v))
        return v;
    if (!fb_plan_may_be_stage(plan, to, &v)) {
        fb_analysis_drop(plan->planner, to);
        return v;
    }
    toll after = {0};
    pay(&after, plan, to, fb_analysis_cost(plan->planner, to));
    v = verdict_of(plan, what, toll_of_nodes(plan, slots), after);
    say_of_added(to, &v);
    say_of_written(to, &v);
    if (result) {
        *result = fb_plan_copy(plan);
        fb_commit_join(*result, slots->at, slots->n, to);
    } else {
        fb_analysis_drop(plan->planner, to);
    }
    return v;
}

static bool has_group(const fb_plan *plan, fb_id node, fb_verdict *why)
{
    if (!fb_may_own(plan->planner, node, why)) return false;
    if (!plan->recompute[node]) return true;
    return FB_REFUSE(why, ILLEGAL, FB_RULE_RECOMPUTE,
                     "`%s` is computed again in each reader and has no kernel of its own: store it first",
                     name_of(plan, node));
}

static bool reads(const fb_plan *plan, fb_id consumer, fb_id producer)
{
    int e = fb_deps_find(plan->planner->deps, producer, consumer);
    return e != FB_NONE && !plan->planner->deps->edges[e].order_only;
}

static fb_verdict try_fuse(const fb_plan *plan, const fb_edit *e, fb_plan **result)
{
    fb_verdict v;
    if (!fb_may_own(plan->planner, e->a, &v) || !fb_may_own(plan->planner, e->b, &v)) return v;
    const char *a = name_of(plan, e->a), *b = name_of(plan, e->b);
    if (e->a == e->b || (plan->recompute[e->a] && reads(plan, e->b, e->a)))
        return nothing_to_do(plan, result,
                             fb_verdict_make(FB_VERDICT_FINE, FB_RULE_SAME_GROUP,
                                             "`%s` is computed in the kernel of `%s` already", a, b));
    if (!has_group(plan, e->a, &v) || !has_group(plan, e->b, &v)) return v;
    if (plan->owner[e->a] == plan->owner[e->b])
        return nothing_to_do(
            plan, result,
            fb_verdict_make(FB_VERDICT_FINE, FB_RULE_SAME_GROUP, "`%s` and `%s` share a kernel already", a, b));
    fb_id pair[] = {plan->owner[e->a], plan->owner[e->b]};
    fb_ids slots = {.at = pair, .n = 2};
    fb_str what = {0};
    fb_str_addf(&what, "fuse `%s` into `%s`", a, b);
    v = join(plan, fb_str_get(&what), &slots, result);
    fb_str_free(&what);
    return v;
}

static fb_verdict try_fuse_all(const fb_plan *plan, const fb_edit *e, fb_plan **result)
{
    fb_verdict v;
    fb_ids slots = {0};
    for (int i = 0; i < e->n_nodes; i++) {
        if (!has_group(plan, e->nodes[i], &v)) {
            FB_VEC_FREE(&slots);
            return v;
        }
    }
    fb_mark_begin(plan->planner, FB_MARK_BACKWARD);
    for (int i = 0; i < e->n_nodes; i++) {
        fb_id s = plan->owner[e->nodes[i]];
        if (fb_marked(plan->planner, FB_MARK_BACKWARD, s)) continue;
        fb_mark(plan->planner, FB_MARK_BACKWARD, s);
        FB_VEC_PUSH(&slots, s);
    }
    if (slots.n < 2) {
        v = nothing_to_do(plan, result,
                          fb_verdict_make(FB_VERDICT_FINE, FB_RULE_SAME_GROUP, "these nodes share a kernel already"));
    } else {
        fb_str what = {0};
        fb_str_addf(&what, "fuse %d kernels, of `%s` to `%s`", slots.n, name_of(plan, e->nodes[0]),
                    name_of(plan, e->nodes[e->n_nodes - 1]));
        v = join(plan, fb_str_get(&what), &slots, result);
        fb_str_free(&what);
    }
    FB_VEC_FREE(&slots);
    return v;
}

/* ---- taking apart ---- */

/* Numbers the connected parts among owned nodes that have one `side`; part[k] is the k-th's number, from `first` on. */
static int connected_parts(const fb_plan *plan, const fb_ids *owned, const int *side, int which, int *part, int first)
{
    const fb_deps *d = plan->planner->deps;
    int *place = plan->planner->mark[FB_MARK_FORWARD]; /* a node: its place among owned, plus the round before */
    int base = plan->planner->round[FB_MARK_FORWARD] + 1, parts = first;
    for (int i = 0; i < owned->n; i++) place[owned->at[i]] = base + i;
    plan->planner->round[FB_MARK_FORWARD] = base + owned->n;
    fb_ids stack = {0};
    for (int i = 0; i < owned->n; i++) {
        if (side[i] != which || part[i] != FB_NONE) continue;
        part[i] = parts;
        FB_VEC_PUSH(&stack, i);
        while (stack.n) {
            fb_id node = owned->at[stack.at[--stack.n]];
            int n_in = d->in_start[node + 1] - d->in_start[node], n_out = d->out_start[node + 1] - d->out_start[node];
            for (int k = 0; k < n_in + n_out; k++) {
                fb_id other = k < n_in ? d->edges[d->in_start[node] + k].producer
                                       : d->edges[d->out[d->out_start[node] + k - n_in]].consumer;
                int at = place[other] - base;
                if (at < 0 || at >= owned->n || side[at] != which || part[at] != FB_NONE) continue;
                part[at] = parts;
                FB_VEC_PUSH(&stack, at);
            }
        }
        parts++;
    }
    FB_VEC_FREE(&stack);
    return parts;
}

static int *filled(int n, int value)
{
    int *out = fb_alloc(((size_t)n + 1) * sizeof *out);
    for (int i = 0; i < n; i++) out[i] = value;
    return out;
}

static void split_into_nodes(fb_plan *plan, fb_id slot)
{
    fb_ids owned = {0};
    fb_plan_owned(plan, slot, &owned);
    int *part = filled(owned.n, 0);
    for (int i = 0; i < owned.n; i++) part[i] = i;
    fb_plan_split(plan, slot, &owned, part, owned.n);
    fb_free(part);
    FB_VEC_FREE(&owned);
}

void fb_split_refused(fb_plan *plan, fb_id slot)
{
    if (plan->slot[slot].n == 1 || fb_slots_analysis(plan, slot)->accepted) return;
    fb_ids owned = {0};
    fb_plan_owned(plan, slot, &owned);
    int *side = filled(owned.n, 0), *part = filled(owned.n, FB_NONE);
    int parts = connected_parts(plan, &owned, side, 0, part, 0);
    if (parts > 1) fb_plan_split(plan, slot, &owned, part, parts);
    for (int i = 0; i < owned.n; i++) {
        fb_id s = plan->owner[owned.at[i]];
        if (plan->slot[s].n > 1 && !fb_slots_analysis(plan, s)->accepted) split_into_nodes(plan, s);
    }
    fb_free(side);
    fb_free(part);
    FB_VEC_FREE(&owned);
}

int *fb_downstream(const fb_plan *plan, const fb_ids *owned, fb_id from)
{
    const fb_deps *d = plan->planner->deps;
    int *side = filled(owned->n, 0);
    fb_mark_begin(plan->planner, FB_MARK_FORWARD);
    fb_ids stack = {0};
    FB_VEC_PUSH(&stack, from);
    fb_mark(plan->planner, FB_MARK_FORWARD, from);
    while (stack.n) {
        fb_id node = stack.at[--stack.n];
        for (int k = d->out_start[node]; k < d->out_start[node + 1]; k++) {
            fb_id c = d->edges[d->out[k]].consumer;
            bool through = plan->owner[c] == plan->owner[from] || plan->recompute[c];
            if (!through || fb_marked(plan->planner, FB_MARK_FORWARD, c)) continue;
            fb_mark(plan->planner, FB_MARK_FORWARD, c);
            FB_VEC_PUSH(&stack, c);
        }
    }
    for (int i = 0; i < owned->n; i++) side[i] = fb_marked(plan->planner, FB_MARK_FORWARD, owned->at[i]);
    FB_VEC_FREE(&stack);
    return side;
}

static void split_refused_all(fb_plan *plan, const fb_ids *nodes)
{
    for (int i = 0; i < nodes->n; i++)
        if (plan->owner[nodes->at[i]] != FB_NONE) fb_split_refused(plan, plan->owner[nodes->at[i]]);
}

static void add_all(fb_ids *to, const fb_ids *from)
{
    for (int i = 0; i < from->n; i++) FB_VEC_PUSH(to, from->at[i]);
}

/* A change of the plan in place; adds every node whose group it touches. The caller orders and checks afterwards. */
typedef bool change(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why);

static bool change_store(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why);

static bool change_cut(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why)
{
    if (!fb_may_own(plan->planner, e->a, why) || !fb_may_own(plan->planner, e->b, why)) return false;
    const char *a = name_of(plan, e->a), *b = name_of(plan, e->b);
    if (fb_deps_find(plan->planner->deps, e->a, e->b) == FB_NONE)
        return FB_REFUSE(why, ILLEGAL, FB_RULE_NO_EDGE, "`%s` does not read `%s`: there is nothing to cut between them",
                         b, a);
    if (plan->recompute[e->a]) return change_store(plan, e, touched, why);
    if (plan->owner[e->a] != plan->owner[e->b])
        return FB_REFUSE(why, FINE, FB_RULE_SAME_GROUP, "`%s` and `%s` are in different kernels already", a, b);
    fb_ids owned = {0};
    fb_id slot = plan->owner[e->a];
    fb_plan_owned(plan, slot, &owned);
    int *side = fb_downstream(plan, &owned, e->b);
    fb_plan_split(plan, slot, &owned, side, 2);
    split_refused_all(plan, &owned);
    add_all(touched, &owned);
    fb_free(side);
    FB_VEC_FREE(&owned);
    return true;
}

static bool is_loop(const fb_plan *plan, fb_id node)
{
    const fb_graph *g = plan->planner->g;
    return node >= 0 && node < g->n_nodes && g->nodes[node].op == FB_OP_LOOP;
}

/* A loop as one kernel, or as its body's kernels one by one. */
static bool change_loop(fb_plan *plan, fb_id loop, fb_choice choice, fb_ids *touched, fb_verdict *why)
{
    const fb_graph *g = plan->planner->g;
    fb_id region = g->nodes[loop].attrs->region;
    if (choice == FB_CHOICE_LIBRARY)
        return FB_REFUSE(why, ILLEGAL, FB_RULE_NOT_COMPUTED, "no library runs `%s`", name_of(plan, loop));
    if (plan->slot[loop].choice == choice)
        return FB_REFUSE(why, FINE, FB_RULE_SAME_GROUP, "`%s` is %s already", name_of(plan, loop),
                         choice == FB_CHOICE_AUTO ? "kernels launched one by one" : "one kernel");
    if (choice == FB_CHOICE_GENERATE && !fb_plan_may_merge(plan, region, why)) return false;
    plan->slot[loop].choice = choice;
    fb_plan_touch(plan);
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (plan->slot[i].n && fb_node_is_computed(g, i) && g->nodes[i].region == region) FB_VEC_PUSH(touched, i);
    return true;
}

static bool change_isolate(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why)
{
    if (is_loop(plan, e->a)) return change_loop(plan, e->a, FB_CHOICE_AUTO, touched, why);
    if (!has_group(plan, e->a, why)) return false;
    fb_id slot = plan->owner[e->a];
    if (plan->slot[slot].n == 1)
        return FB_REFUSE(why, FINE, FB_RULE_SAME_GROUP, "`%s` has a kernel of its own already", name_of(plan, e->a));
    fb_ids owned = {0};
    fb_plan_owned(plan, slot, &owned);
    int *side = fb_downstream(plan, &owned, e->a), *part = filled(owned.n, FB_NONE);
    for (int i = 0; i < owned.n; i++)
        if (owned.at[i] == e->a) side[i] = 2, part[i] = 0;
    int parts = connected_parts(plan, &owned, side, 0, part, 1);
    parts = connected_parts(plan, &owned, side, 1, part, parts);
    fb_plan_split(plan, slot, &owned, part, parts);
    split_refused_all(plan, &owned);
    add_all(touched, &owned);
    fb_free(side);
    fb_free(part);
    FB_VEC_FREE(&owned);
    return true;
}

typedef struct {
    fb_plan *plan;
    fb_ids slots;
} collected;

static void collect(void *ctx, fb_id slot)
{
    collected *c = ctx;
    if (fb_marked(c->plan->planner, FB_MARK_BACKWARD, slot)) return;
    fb_mark(c->plan->planner, FB_MARK_BACKWARD, slot);
    FB_VEC_PUSH(&c->slots, slot);
}

/* The slots that compute recomputed `node` are not what they were. */
static void touch_readers(fb_plan *plan, fb_id node, fb_ids *touched)
{
    collected c = {.plan = plan};
    fb_mark_begin(plan->planner, FB_MARK_BACKWARD);
    fb_slots_computing(plan, node, collect, &c);
    for (int i = 0; i < c.slots.n; i++) {
        fb_slots_forget(plan, c.slots.at[i]);
        FB_VEC_PUSH(touched, c.slots.at[i]);
    }
    FB_VEC_FREE(&c.slots);
    fb_plan_touch(plan);
}

static bool change_recompute(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why)
{
    if (!fb_may_own(plan->planner, e->a, why)) return false;
    if (plan->recompute[e->a])
        return FB_REFUSE(why, FINE, FB_RULE_SAME_GROUP, "`%s` is computed again in each reader already",
                         name_of(plan, e->a));
    if (!fb_plan_may_recompute(plan, e->a, why)) return false;
    fb_id slot = plan->owner[e->a];
    fb_ids owned = {0};
    fb_plan_owned(plan, slot, &owned);
    int *part = filled(owned.n, 0);
    for (int i = 0; i < owned.n; i++) part[i] = owned.at[i] == e->a;
    fb_plan_split(plan, slot, &owned, part, 2);
    add_all(touched, &owned);
    plan->slot[e->a] = (fb_slot){0};
    plan->owner[e->a] = FB_NONE;
    plan->recompute[e->a] = true;
    plan->n_recompute++;
    touch_readers(plan, e->a, touched);
    fb_free(part);
    FB_VEC_FREE(&owned);
    return true;
}

static bool change_store(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why)
{
    if (!fb_may_own(plan->planner, e->a, why)) return false;
    if (!plan->recompute[e->a])
        return FB_REFUSE(why, FINE, FB_RULE_SAME_GROUP, "`%s` is stored already", name_of(plan, e->a));
    touch_readers(plan, e->a, touched);
    plan->recompute[e->a] = false;
    plan->n_recompute--;
    fb_plan_own_alone(plan, e->a);
    FB_VEC_PUSH(touched, e->a);
    return true;
}

static bool change_choice(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why)
{
    bool library = e->kind == FB_EDIT_LIBRARY;
    if (is_loop(plan, e->a))
        return change_loop(plan, e->a, library ? FB_CHOICE_LIBRARY : FB_CHOICE_GENERATE, touched, why);
    if (!has_group(plan, e->a, why)) return false;
    fb_id slot = plan->owner[e->a];
    bool contraction = false;
    for (fb_id i = slot; i != FB_NONE; i = plan->next[i])
        contraction |= fb_node_class(plan->planner->g, i) == FB_CLASS_CONTRACTION;
    if (!contraction)
        return FB_REFUSE(why, ILLEGAL, FB_RULE_CONTRACTION,
                         "the kernel of `%s` holds no product: there is nothing that %s", name_of(plan, e->a),
                         library ? "a library could do" : "could be generated instead of a library call");
    bool is_library = fb_family_row_of(fb_slots_analysis(plan, slot)->family)->calls;
    plan->slot[slot].choice = library ? FB_CHOICE_LIBRARY : FB_CHOICE_GENERATE;
    fb_slots_forget(plan, slot);
    fb_plan_touch(plan);
    FB_VEC_PUSH(touched, e->a);
    if (is_library != library) return true;
    *why = fb_verdict_make(FB_VERDICT_FINE, FB_RULE_SAME_GROUP, "`%s` is %s already", name_of(plan, e->a),
                           library ? "a library call" : "a generated kernel");
    return true;
}

static bool change_knob(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why)
{
    if (!has_group(plan, e->a, why)) return false;
    fb_id slot = plan->owner[e->a];
    if (!fb_may_set_knob(&plan->planner->machine, fb_slots_analysis(plan, slot), plan->slot[slot].knobs, e->knob,
                         e->value, why))
        return false;
    fb_plan_set_knob(plan, slot, e->knob, e->value);
    FB_VEC_PUSH(touched, e->a);
    return true;
}

static bool change_source(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why)
{
    if (!has_group(plan, e->a, why)) return false;
    fb_id slot = plan->owner[e->a];
    if (!fb_may_set_source(&plan->planner->machine, fb_slots_analysis(plan, slot), e->source, why)) return false;
    fb_plan_set_source(plan, slot, e->source);
    FB_VEC_PUSH(touched, e->a);
    return true;
}

static bool change_launch(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why)
{
    if (!fb_may_launch(&plan->planner->machine, e->launch, why)) return false;
    if (e->launch == FB_LAUNCH_MEGA && !fb_plan_may_merge(plan, 0, why)) return false;
    plan->launch = e->launch;
    fb_plan_touch(plan);
    for (fb_id i = 0; i < plan->planner->g->n_nodes; i++)
        if (plan->slot[i].n && fb_node_is_computed(plan->planner->g, i)) FB_VEC_PUSH(touched, i);
    return true;
}

static bool change_overlap(fb_plan *plan, const fb_edit *e, fb_ids *touched, fb_verdict *why)
{
    (void)touched;
    if (e->value && !fb_may_overlap(plan->planner, why)) return false;
    plan->overlap = e->value != 0;
    fb_plan_touch(plan);
    return true;
}

/* ---- the table of edits ---- */

static const struct {
    const char *what; /* with one or two names, and a setting */
    change *change;   /* NULL: judged as a join */
} table[] = {
    [FB_EDIT_CUT] = {"cut", change_cut},
    [FB_EDIT_ISOLATE] = {"isolate", change_isolate},
    [FB_EDIT_RECOMPUTE] = {"recompute", change_recompute},
    [FB_EDIT_STORE] = {"store", change_store},
    [FB_EDIT_LIBRARY] = {"library call for", change_choice},
    [FB_EDIT_GENERATE] = {"generate", change_choice},
    [FB_EDIT_KNOB] = {"set", change_knob},
    [FB_EDIT_SOURCE] = {"kernel", change_source},
    [FB_EDIT_LAUNCH] = {"launch mode", change_launch},
    [FB_EDIT_OVERLAP] = {"copies", change_overlap},
    [FB_EDIT_ROLL] = {"steps", NULL},
};

static void describe(const fb_plan *plan, const fb_edit *e, int times, fb_str *out)
{
    fb_str a = {0}, b = {0};
    int64_t star[FB_MAX_STARS];
    fb_str_addf(out, "%s ", table[e->kind].what);
    if (e->kind == FB_EDIT_LAUNCH) {
        fb_str_add(out, fb_launch_mode_name(e->launch));
        return;
    }
    if (e->kind == FB_EDIT_OVERLAP) {
        fb_str_add(out, e->value ? "beside the kernels" : "in order with the kernels");
        return;
    }
    if (times > 1)
        fb_name_pattern(name_of(plan, e->a), &a, star);
    else
        fb_str_add(&a, name_of(plan, e->a));
    if (e->kind == FB_EDIT_KNOB) fb_str_addf(out, "%s = %lld for ", fb_knob_name(e->knob), (long long)e->value);
    if (e->kind == FB_EDIT_SOURCE) fb_str_addf(out, "%s for ", e->source ? fb_file_name(e->source) : "generated");
    fb_str_addf(out, "`%s`", fb_str_get(&a));
    if (e->kind == FB_EDIT_CUT) {
        if (times > 1)
            fb_name_pattern(name_of(plan, e->b), &b, star);
        else
            fb_str_add(&b, name_of(plan, e->b));
        fb_str_addf(out, " from `%s`", fb_str_get(&b));
    }
    if (times > 1) fb_str_addf(out, " (×%d)", times);
    fb_str_free(&a);
    fb_str_free(&b);
}

/* Can what is one kernel remain one? */
static bool stays_merged(fb_plan *plan, fb_verdict *why)
{
    const fb_graph *g = plan->planner->g;
    if (plan->launch == FB_LAUNCH_MEGA) return fb_plan_may_merge(plan, 0, why);
    for (fb_id r = 1; r < g->n_regions; r++)
        if (plan->slot[g->regions[r].loop].choice == FB_CHOICE_GENERATE && !fb_plan_may_merge(plan, r, why))
            return false;
    return true;
}

/* Can the touched groups be ordered and generated? */
static bool holds(fb_plan *plan, const fb_ids *touched, fb_verdict *why)
{
    fb_id on_cycle;
    if (!fb_order_all(plan, &on_cycle))
        return FB_REFUSE(why, ILLEGAL, FB_RULE_CYCLE,
                         "the kernel of `%s` would have to run both before and after another one",
                         name_of(plan, on_cycle));
    for (int i = 0; i < touched->n; i++) {
        fb_id slot = plan->owner[touched->at[i]];
        if (slot == FB_NONE || fb_slots_analysis(plan, slot)->accepted) continue;
        /* A single node that no family takes was there before, and stays. */
        if (plan->slot[slot].n == 1 && fb_slots_analysis(plan, slot)->kernel.n_nodes == 1 &&
            fb_slots_analysis(plan, slot)->choice == FB_CHOICE_AUTO)
            continue;
        *why = fb_slots_analysis(plan, slot)->why;
        return false;
    }
    return stays_merged(plan, why);
}

static void append(fb_verdict *why, const char *text)
{
    size_t n = strlen(why->text), more = strlen(text);
    snprintf(why->text + n, sizeof why->text - n, "; %s", text);
    if (n + more + 2 >= sizeof why->text) fb_trim_partial(why->text);
}

/* What is fed to a loop is one copy: it does not arrive step by step. */
static void tell_fed(const fb_plan *plan, bool beside, fb_verdict *why)
{
    const fb_graph *g = plan->planner->g;
    for (fb_id r = 1; r < g->n_regions; r++) {
        const fb_node *loop = &g->nodes[g->regions[r].loop];
        for (int i = g->regions[r].n_carried; i < loop->n_args; i++) {
            fb_id base = fb_access_base(g, loop->args[i]);
            if (g->nodes[base].op != FB_OP_FEED) continue;
            fb_str says = {0};
            fb_str_addf(&says, "`%s` arrives with all %lld steps of `%s` before the first of them, %s",
                        g->nodes[base].name, (long long)g->regions[r].trips, loop->name,
                        beside ? "while the run before computes" : "and is waited for");
            append(why, fb_str_get(&says));
            fb_str_free(&says);
            return;
        }
    }
}

/* Does each thread of a loop that has become one kernel go through all steps? Then that is told. */
static bool tell_through(const fb_plan *plan, fb_id region, fb_verdict *why)
{
    fb_arena *arena = fb_arena_new();
    fb_through through;
    const bool goes = fb_plan_goes_through(plan, region, arena, &through);
    fb_arena_free(arena);
    if (goes)
        append(why, "each thread goes through all steps by itself: what a step leaves to the next stays in registers, "
                    "and items are loaded steps ahead");
    return goes;
}

/* Whether a loop that has become one kernel runs in clusters, or its threads by themselves; what it keeps on chip, and
 * what it does not. */
static void tell_kept(const fb_plan *plan, fb_id loop, fb_verdict *why)
{
    const fb_graph *g = plan->planner->g;
    if (tell_through(plan, g->nodes[loop].attrs->region, why)) return;
    bool *kept = fb_calloc((size_t)fb_plan_groups(plan) + 1, sizeof *kept);
    fb_str says = {0};
    fb_id region = fb_plan_whole_loop(plan, g->nodes[loop].attrs->region);
    fb_recurrence recurrence;
    if (!fb_plan_recurrence(plan, region, &recurrence, &says)) fb_plan_kept(plan, region, kept, &says);
    if (says.n) append(why, fb_str_get(&says));
    fb_str_free(&says);
    fb_free(kept);
}

/* Makes all the changes on one copy: one order, each touched group analysed once. */
static fb_verdict try_changes(const fb_plan *plan, const fb_edit *edits, int n, fb_plan **result)
{
    fb_verdict why = {0};
    fb_ids touched = {0};
    fb_plan *to = fb_plan_copy(plan);
    bool good = true;
    int changed = 0;
    for (int i = 0; i < n && good; i++) {
        good = table[edits[i].kind].change(to, &edits[i], &touched, &why);
        changed += good;
        if (!good && why.rule == FB_RULE_SAME_GROUP) good = true;
    }
    if (good && changed) good = holds(to, &touched, &why);
    if (good && changed && !(n == 1 && why.rule == FB_RULE_SAME_GROUP)) {
        fb_str what = {0};
        describe(plan, &edits[0], n, &what);
        bool all = edits[0].kind == FB_EDIT_OVERLAP;
        why = verdict_of(plan, fb_str_get(&what), all ? toll_of_plan(plan) : toll_of_nodes(plan, &touched),
                         all ? toll_of_plan(to) : toll_of_nodes(to, &touched));
        fb_str_free(&what);
    }
    if (good && changed && n == 1 && edits[0].kind == FB_EDIT_GENERATE && is_loop(to, edits[0].a))
        tell_kept(to, edits[0].a, &why);
    if (good && changed && edits[0].kind == FB_EDIT_KNOB && edits[0].knob == FB_KNOB_ATOMICS && edits[0].value)
        append(&why, "additions are in any order, so that the last bits of a float differ from run to run");
    if (good && changed && n == 1 && edits[0].kind == FB_EDIT_OVERLAP) tell_fed(to, to->overlap, &why);
    if (good && result)
        *result = to;
    else
        fb_plan_free(to);
    FB_VEC_FREE(&touched);
    return why;
}

/* Each of nodes[] for itself, as one edit. */
static fb_verdict try_isolate_all(const fb_plan *plan, const fb_edit *e, fb_plan **result)
{
    fb_edit *edits = fb_alloc((size_t)e->n_nodes * sizeof *edits);
    for (int i = 0; i < e->n_nodes; i++) edits[i] = (fb_edit){.kind = FB_EDIT_ISOLATE, .a = e->nodes[i], .b = FB_NONE};
    fb_verdict v = try_changes(plan, edits, e->n_nodes, result);
    fb_free(edits);
    return v;
}

static toll toll_of_run(const fb_plan *plan)
{
    fb_plan_cost c;
    fb_plan_cost_of(plan, &c);
    return (toll){.us = c.us, .bytes = c.bytes_read + c.bytes_written, .launches = c.launches, .whole = true};
}

/* The graph itself becomes another one: the verdict is of the whole plan. */
static fb_verdict try_roll(const fb_plan *plan, const fb_edit *e, fb_plan **result)
{
    fb_verdict why = {0};
    fb_plan *to = fb_plan_carry_rolled(plan, e->value != 0, &why);
    if (!to) return why.rule == FB_RULE_SAME_GROUP ? nothing_to_do(plan, result, why) : why;
    fb_str what = {0};
    const fb_roll *r = fb_planner_roll(plan->planner);
    if (e->value)
        fb_plan_roll_says(&r->finds[0], &what);
    else
        fb_str_add(&what, "steps as they are written");
    for (int i = 1, more = 0; e->value && i < r->n && !r->finds[i].why; i++) {
        more++;
        if (i + 1 == r->n || r->finds[i + 1].why) fb_str_addf(&what, ", and %d more", more);
    }
    why = verdict_of(to, fb_str_get(&what), toll_of_run(plan), toll_of_run(to));
    fb_str_free(&what);
    if (result)
        *result = to;
    else
        fb_plan_free(to);
    return why;
}

fb_verdict fb_plan_try(const fb_plan *plan, const fb_edit *e, fb_plan **result)
{
    if (result) *result = NULL;
    if (e->kind == FB_EDIT_ISOLATE && e->n_nodes > 0) return try_isolate_all(plan, e, result);
    switch (e->kind) {
    case FB_EDIT_FUSE: return try_fuse(plan, e, result);
    case FB_EDIT_FUSE_ALL: return try_fuse_all(plan, e, result);
    case FB_EDIT_ROLL: return try_roll(plan, e, result);
    default: return try_changes(plan, e, 1, result);
    }
}

/* ---- the same edit on all repetitions ---- */

static fb_verdict fuse_repeated(const fb_plan *plan, const fb_edit *e, const fb_pair *pairs, int n, fb_plan **result)
{
    fb_growth growth = {0};
    fb_plan *to = fb_plan_copy(plan);
    fb_ids nodes = {0};
    fb_str a = {0}, b = {0}, what = {0};
    int64_t star[FB_MAX_STARS];
    for (int i = 0; i < n; i++) {
        FB_VEC_PUSH(&nodes, pairs[i].a);
        FB_VEC_PUSH(&nodes, pairs[i].b);
    }
    fb_plan_grow(to, pairs, n, &growth);
    fb_name_pattern(name_of(plan, e->a), &a, star);
    fb_name_pattern(name_of(plan, e->b), &b, star);
    fb_str_addf(&what, "fuse `%s` into `%s` (×%d)", fb_str_get(&a), fb_str_get(&b), n);
    fb_verdict v = verdict_of(plan, fb_str_get(&what), toll_of_nodes(plan, &nodes), toll_of_nodes(to, &nodes));
    if (growth.refused) {
        growth.first.before_us = v.before_us;
        growth.first.after_us = v.after_us;
        growth.first.bytes_saved = v.bytes_saved;
        growth.first.launches_saved = v.launches_saved;
        v = growth.first;
    }
    if (result && growth.refused < n)
        *result = to;
    else
        fb_plan_free(to);
    fb_str_free(&a);
    fb_str_free(&b);
    fb_str_free(&what);
    FB_VEC_FREE(&nodes);
    return v;
}

/* One after the other, leaving out what is refused; the figures are those of what was not. */
static fb_verdict try_in_turn(const fb_plan *plan, const fb_edit *edits, int n, fb_plan **result)
{
    fb_plan *now = NULL;
    fb_verdict says = {0};
    bool refused = false;
    toll before = {0}, saved = {0};
    for (int i = 0; i < n; i++) {
        fb_plan *next = NULL;
        fb_verdict v = fb_plan_try(now ? now : plan, &edits[i], &next);
        if (!refused) says = v;
        refused |= !next;
        if (!next) continue;
        fb_plan_free(now);
        now = next;
        if (v.rule == FB_RULE_SAME_GROUP) continue;
        before.us += v.before_us;
        saved.us += v.before_us - v.after_us;
        saved.bytes += v.bytes_saved;
        saved.launches += v.launches_saved;
    }
    says.before_us = before.us;
    says.after_us = before.us - saved.us;
    says.bytes_saved = saved.bytes;
    says.launches_saved = saved.launches;
    if (result)
        *result = now;
    else
        fb_plan_free(now);
    return says;
}

static fb_verdict change_repeated(const fb_plan *plan, const fb_edit *e, const fb_pair *pairs, int n, fb_plan **result)
{
    fb_edit *edits = fb_alloc((size_t)n * sizeof *edits);
    for (int i = 0; i < n; i++) {
        edits[i] = *e;
        edits[i].a = pairs[i].a;
        edits[i].b = pairs[i].b;
    }
    fb_verdict v = try_changes(plan, edits, n, result);
    if (v.kind >= FB_VERDICT_UNSUPPORTED) v = try_in_turn(plan, edits, n, result);
    fb_free(edits);
    return v;
}

/* nodes[] in each repetition: to[k * n_nodes + i] is the k-th counterpart of nodes[i]. The number of repetitions, 0
 * where the nodes are not repeated alike. */
static int repeated_sets(const fb_plan *plan, const fb_edit *e, fb_arena *arena, fb_id **to)
{
    int times = 0;
    for (int i = 0; i < e->n_nodes; i++) {
        fb_id *all;
        int n = fb_repeated_nodes(plan->planner->g, e->nodes[i], arena, &all);
        if (i == 0) *to = FB_NEW_ARRAY(arena, fb_id, (size_t)(times = n) * (size_t)e->n_nodes);
        if (n != times) return 0;
        for (int k = 0; k < n; k++) (*to)[k * e->n_nodes + i] = all[k];
    }
    return times;
}

/* One group a repetition; those that are refused stay as they are, and the first refusal is the verdict. */
static fb_verdict fuse_all_repeated(const fb_plan *plan, const fb_edit *e, fb_id *sets, int times, fb_plan **result)
{
    fb_ids all = {0};
    fb_edit *edits = fb_alloc((size_t)times * sizeof *edits);
    fb_plan *to = NULL;
    for (int i = 0; i < times * e->n_nodes; i++) FB_VEC_PUSH(&all, sets[i]);
    for (int k = 0; k < times; k++)
        edits[k] =
            (fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = e->n_nodes, .nodes = sets + (size_t)k * (size_t)e->n_nodes};
    fb_verdict v = try_in_turn(plan, edits, times, &to);
    if (to && v.text[0] == '\0') {
        fb_str what = {0};
        fb_str_addf(&what, "fuse %d nodes from `%s` on (×%d)", e->n_nodes, name_of(plan, e->nodes[0]), times);
        v = verdict_of(plan, fb_str_get(&what), toll_of_nodes(plan, &all), toll_of_nodes(to, &all));
        fb_str_free(&what);
    }
    if (result)
        *result = to;
    else
        fb_plan_free(to);
    FB_VEC_FREE(&all);
    fb_free(edits);
    return v;
}

static fb_verdict try_sets(const fb_plan *plan, const fb_edit *e, fb_plan **result)
{
    fb_arena *arena = fb_arena_new();
    fb_id *sets = NULL;
    fb_verdict v;
    int times = repeated_sets(plan, e, arena, &sets);
    fb_edit all = *e;
    if (times > 1 && e->kind == FB_EDIT_ISOLATE) {
        all.nodes = sets;
        all.n_nodes = times * e->n_nodes;
    }
    if (times > 1 && e->kind == FB_EDIT_FUSE_ALL)
        v = fuse_all_repeated(plan, e, sets, times, result);
    else
        v = fb_plan_try(plan, &all, result);
    fb_arena_free(arena);
    return v;
}

fb_verdict fb_plan_try_repeated(const fb_plan *plan, const fb_edit *e, fb_plan **result)
{
    fb_verdict v;
    bool two = e->kind == FB_EDIT_FUSE || e->kind == FB_EDIT_CUT;
    if (e->n_nodes > 0) return try_sets(plan, e, result);
    if (e->kind == FB_EDIT_FUSE_ALL || e->kind == FB_EDIT_LAUNCH || e->kind == FB_EDIT_OVERLAP ||
        e->kind == FB_EDIT_ROLL)
        return fb_plan_try(plan, e, result);
    if (result) *result = NULL;
    if (!two && is_loop(plan, e->a)) return fb_plan_try(plan, e, result);
    if (!fb_may_own(plan->planner, e->a, &v) || (two && !fb_may_own(plan->planner, e->b, &v))) return v;
    fb_pairs pairs = {0};
    fb_repeated_pairs(plan->planner, e->a, two ? e->b : FB_NONE, &pairs);
    if (pairs.n == 1)
        v = fb_plan_try(plan, e, result);
    else if (e->kind == FB_EDIT_FUSE)
        v = fuse_repeated(plan, e, pairs.at, pairs.n, result);
    else
        v = change_repeated(plan, e, pairs.at, pairs.n, result);
    FB_VEC_FREE(&pairs);
    return v;
}
