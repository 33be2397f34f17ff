/* What a loop adds to a program.
 *
 *     initial values → states, tensors that lie otherwise → items
 *     repeat
 *         the body's launches; items, counters and what is collected move on with the step
 *         collected values and next states that no kernel stores where they belong, copied
 *         swaps of states and next states
 *     end
 *
 * A loop's counter is memory too: the items of 0, 1, 2 …, laid out once. So a kernel knows nothing of loops. */
#include "code/lower_parts.h"

#include "nest/parts.h"

#include <inttypes.h>
#include <string.h>

static int level_of(const fb_graph *g, fb_id region)
{
    int level = 0;
    for (fb_id r = g->regions[region].parent; r > 0; r = g->regions[r].parent) level++;
    return level;
}

/* ---- counters ---- */

enum { COUNTERS = 256 }; /* that a block makes */

/* The kernel that makes them. */
static const fb_function *counters_function(const fb_lowering *l, int64_t n)
{
    static const fb_parameter steps = {.type = "int64_t", .name = "steps", .restricted = true};
    fb_function *f = FB_NEW(l->p->arena, fb_function);
    *f = (fb_function){.target = l->target,
                       .name = "steps",
                       .entry = "steps_kernel",
                       .about = " * what the counters of loops read */\n",
                       .n_parameters = 1,
                       .parameters = &steps,
                       .threads = COUNTERS,
                       .apart = true};
    fb_statements to = fb_say_to(l->p->arena, &f->body);
    if (l->target->grid) {
        fb_say(&to, FB_STATEMENT_LINE, "const int64_t at = (int64_t)" FB_BLOCK ".x * %d + threadIdx.x;", COUNTERS);
        fb_say(&to, FB_STATEMENT_LINE, "if (at < %" PRId64 ") steps[at] = at;", n);
    } else {
        fb_say(&to, FB_STATEMENT_LINE, "for (int64_t at = 0; at < %" PRId64 "; at++) steps[at] = at;", n);
    }
    fb_say_end(&to);
    return f;
}

static void add_counters(fb_lowering *l)
{
    fb_id counter = FB_NONE;
    int64_t most = 0;
    for (fb_id i = 0; i < l->g->n_nodes; i++) {
        if (l->g->nodes[i].op != FB_OP_STEP) continue;
        fb_id region = l->g->nodes[i].region;
        int64_t trips = l->g->regions[region].trips;
        l->window[i].advance = (fb_advance){sizeof(int64_t), level_of(l->g, region), 1};
        if (trips > most) most = trips;
        counter = i;
    }
    if (most == 0) return;
    int buffer = fb_lower_temporary(l, counter);
    fb_buffer *b = &l->buffers.at[buffer];
    b->elements = most;
    b->bytes = most * (int64_t)sizeof(int64_t);
    l->p->pool_bytes = b->offset + b->bytes;
    for (fb_id i = 0; i < l->g->n_nodes; i++)
        if (l->g->nodes[i].op == FB_OP_STEP) l->buffer_of[i] = buffer;
    fb_kernel k = {.name = "steps",
                   .entry = "steps_kernel",
                   .function = counters_function(l, most),
                   .family = FB_FAMILY_COPY,
                   .group = FB_NONE,
                   .n_args = 1};
    k.source = fb_function_text(k.function, l->p->arena);
    if (l->target->grid) {
        k.grid[0] = (int)((most + COUNTERS - 1) / COUNTERS);
        k.block[0] = COUNTERS;
        k.grid[1] = k.grid[2] = k.block[1] = k.block[2] = 1;
    }
    FB_VEC_PUSH(&l->kernels, k);
    int *args = FB_NEW(l->p->arena, int);
    *args = buffer;
    FB_VEC_PUSH(&l->launches, (fb_launch){.kind = FB_LAUNCH_KERNEL,
                                          .kernel = l->kernels.n - 1,
                                          .gemm = FB_NONE,
                                          .group = FB_NONE,
                                          .n_args = 1,
                                          .args = args});
    fb_lower_mark_copy(l, counter);
}

/* ---- homes ---- */

void fb_lower_loops(fb_lowering *l)
{
    l->range = fb_arena_alloc(l->p->arena, ((size_t)l->g->n_regions + 1) * sizeof *l->range);
    memset(l->range, 0, ((size_t)l->g->n_regions + 1) * sizeof *l->range);
    l->loops = FB_NEW_ARRAY(l->p->arena, fb_loop, l->g->n_regions + 1);
    int groups = fb_plan_groups(l->plan);
    bool *kept = FB_NEW_ARRAY(l->p->arena, bool, groups + 1);
    l->kept = FB_NEW_ARRAY(l->p->arena, bool, groups + 1);
    l->round = FB_NEW_ARRAY(l->p->arena, fb_id, groups + 1);
    for (int i = 0; i < groups; i++) l->round[i] = FB_NONE;
    l->through = FB_NEW_ARRAY(l->p->arena, fb_through, l->g->n_regions + 1);
    l->goes = FB_NEW_ARRAY(l->p->arena, bool, l->g->n_regions + 1);
    for (fb_id r = 1; r < l->g->n_regions && !l->apart; r++)
        l->goes[r] = fb_plan_goes_through(l->plan, r, l->p->arena, &l->through[r]);
    for (fb_id r = 1; r < l->g->n_regions && l->target->keeps && !l->apart; r++) {
        fb_recurrence round;
        if (fb_plan_whole_loop(l->plan, r) != r) continue;
        if (fb_plan_recurrence(l->plan, r, &round, NULL)) {
            l->round[round.group] = round.made;
            continue;
        }
        fb_plan_kept(l->plan, r, kept, NULL);
        for (int i = 0; i < groups; i++) l->kept[i] |= kept[i];
    }
    for (fb_id r = 1; r < l->g->n_regions; r++) {
        fb_loop *loop = &l->loops[r];
        fb_plan_loop(l->plan, r, l->p->arena, loop);
        for (int i = 0; i < loop->n_carried; i++)
            if (loop->carried[i].kind == FB_CARRY_IN_PLACE)
                l->stored_at[loop->carried[i].base] = loop->carried[i].state;
    }
}

/* The buffer of `node`; where the plan has none, for the loop has no kernel, it is made. */
static int home_of(fb_lowering *l, fb_id node, fb_id result)
{
    if (l->buffer_of[node] != FB_NONE) return l->buffer_of[node];
    fb_id out = result == FB_NONE ? FB_NONE : fb_leaving_stands_in(l->g, &l->leaving, result);
    l->buffer_of[node] = out == FB_NONE ? fb_lower_temporary(l, node) : fb_lower_buffer(l, FB_BUFFER_OUTPUT, out, 0);
    if (out != FB_NONE) l->buffer_of[out] = l->buffer_of[node];
    return l->buffer_of[node];
}

/* Where the entries of a tensor of one for each `every` steps are, of `bytes` each and laid out as they are counted. */
static fb_window walked(const fb_loop *loop, int64_t bytes, int64_t every, int level)
{
    if (!loop->backwards) return (fb_window){0, {bytes, level, every}};
    int64_t entries = loop->trips / every;
    return (fb_window){entries > 0 ? (entries - 1) * bytes : 0, {-bytes, level, every}};
}

static void place_states(fb_lowering *l, const fb_loop *loop, int level)
{
    for (int i = 0; i < loop->n_carried; i++) {
        const fb_carry *c = &loop->carried[i];
        if (c->state == FB_NONE) continue;
        int home = home_of(l, c->state, c->result);
        if (c->carried != FB_NONE) l->buffer_of[c->carried] = home;
        if (c->result != FB_NONE) l->buffer_of[c->result] = home;
        if (c->kind == FB_CARRY_IN_PLACE) l->buffer_of[c->base] = home;
    }
    for (int i = 0; i < loop->n_collected; i++) {
        const fb_collected *c = &loop->collected[i];
        if (c->result == FB_NONE) continue;
        int home = home_of(l, c->result, c->result);
        if (c->also != FB_NONE) l->place[c->result] = walked(loop, fb_node_bytes(l->g, c->also), c->every, level);
        if (c->base == FB_NONE) continue;
        l->buffer_of[c->base] = home;
        l->window[c->base] = walked(loop, fb_node_bytes(l->g, c->base), c->every, level);
    }
}

static void place_items(fb_lowering *l, const fb_loop *loop, int level)
{
    for (int i = 0; i < loop->n_scanned; i++) {
        const fb_scanned *s = &loop->scanned[i];
        if (s->item == FB_NONE) continue;
        int64_t size = fb_dtype_size(l->g->nodes[s->item].dtype);
        bool there = s->base != FB_NONE;
        l->buffer_of[s->item] = there ? fb_lower_buffer_for(l, s->base) : fb_lower_temporary(l, s->scanned);
        l->window[s->item] = there ? (fb_window){s->offset * size, {s->stride * size, level, 1}}
                                   : walked(loop, fb_node_bytes(l->g, s->item), 1, level);
    }
}

void fb_lower_states(fb_lowering *l)
{
    add_counters(l);
    for (fb_id r = 1; r < l->g->n_regions; r++) {
        place_states(l, &l->loops[r], level_of(l->g, r));
        place_items(l, &l->loops[r], level_of(l->g, r));
    }
}

/* What a loop that runs in clusters carries, where its threads keep to their own (plan/recurrence.c), and what it reads
 * one step after the other. */
static const fb_round *round_of(fb_lowering *l, const fb_loop *loop, fb_id made)
{
    enum { PIECE = 16 };
    fb_own *own = FB_NEW_ARRAY(l->p->arena, fb_own, loop->n_carried);
    fb_moving *moving = FB_NEW_ARRAY(l->p->arena, fb_moving, loop->n_scanned);
    fb_round *round = FB_NEW(l->p->arena, fb_round);
    *round = (fb_round){.made = made, .own = own, .moving = moving};
    for (int i = 0; i < loop->n_carried; i++) {
        const fb_carry *c = &loop->carried[i];
        if (c->base == FB_NONE) continue;
        fb_own *x = &own[round->n_own++];
        *x = (fb_own){.read = c->carried, .made = c->base, .home = c->kind == FB_CARRY_IN_PLACE ? c->state : c->base};
        for (int k = 0; k < loop->n_collected; k++)
            if (loop->collected[k].base == c->base) x->home = FB_NONE;
    }
    for (int i = 0; i < loop->n_scanned; i++) {
        fb_id item = loop->scanned[i].item;
        if (item == FB_NONE) continue;
        const fb_window *w = &l->window[item];
        if (w->offset % PIECE || w->advance.bytes % PIECE || w->advance.every != 1) continue;
        moving[round->n_moving++] =
            (fb_moving){.item = item, .stride = w->advance.bytes / fb_dtype_size(l->g->nodes[item].dtype)};
    }
    return round;
}

static bool share_memory(const fb_lowering *l, fb_id a, fb_id b)
{
    const int i = l->buffer_of[a], k = l->buffer_of[b];
    if (a == b || i == FB_NONE || k == FB_NONE) return false;
    const fb_buffer *x = &l->buffers.at[i], *y = &l->buffers.at[k];
    if (i == k) return true;
    if (x->kind != FB_BUFFER_TEMP || y->kind != FB_BUFFER_TEMP) return false;
    return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

/* Does what the kernel reads ahead, or keeps, lie where it stores something else? */
static bool reads_what_it_stores(const fb_lowering *l, const fb_nest *nest)
{
    for (int i = 0; i < nest->n_writes; i++) {
        for (int k = 0; k < nest->n_reads; k++)
            if (share_memory(l, nest->writes[i], nest->reads[k])) return true;
        for (int k = 0; k < i; k++)
            if (share_memory(l, nest->writes[i], nest->writes[k])) return true;
    }
    return false;
}

/* With what goes over a loop's state put there. */
static const fb_nest *stored_nest(fb_lowering *l, const fb_group *group)
{
    const fb_nest *nest = group->nest;
    if (fb_plan_is_stage(l->plan, group)) nest = fb_nest_as_stage(nest, l->p->arena);
    const fb_loop *loop = &l->loops[l->g->nodes[group->nodes[0]].region];
    for (int i = 0; loop->region && i < loop->n_collected; i++)
        if (fb_group_stores(group, loop->collected[i].also))
            nest = fb_nest_store_also(nest, loop->collected[i].also, loop->collected[i].result, l->p->arena);
    for (int i = 0; i < group->n_stored; i++) {
        fb_id stored = group->stored[i];
        if (l->stored_at[stored] != FB_NONE && !fb_family_row_of(group->family)->calls)
            nest = fb_nest_store_at(nest, stored, l->stored_at[stored], l->p->arena);
    }
    return nest;
}

const fb_nest *fb_lower_nest(fb_lowering *l, const fb_group *group, int number)
{
    const fb_nest *nest = stored_nest(l, group);
    const fb_loop *loop = &l->loops[l->g->nodes[group->nodes[0]].region];
    if (l->goes[loop->region]) nest = fb_nest_go_through(nest, &l->through[loop->region], l->p->arena);
    if (l->kept[number]) nest = fb_nest_keep_right(nest, l->p->arena);
    if (l->round[number] != FB_NONE) nest = fb_nest_send_round(nest, round_of(l, loop, l->round[number]), l->p->arena);
    return nest;
}

/* ---- before, between and after the steps ---- */

void fb_lower_initial(fb_lowering *l, fb_id region)
{
    const fb_loop *loop = &l->loops[region];
    for (int i = 0; i < loop->n_carried; i++) {
        const fb_carry *c = &loop->carried[i];
        if (l->goes[region] && fb_nest_start(&l->through[region], c->state)) continue;
        if (c->state != FB_NONE) fb_lower_copy(l, c->init, l->buffer_of[c->state], (fb_window){0});
    }
}

void fb_lower_open(fb_lowering *l, fb_id region)
{
    const fb_loop *loop = &l->loops[region];
    l->goes[region] = l->goes[region] && !reads_what_it_stores(l, stored_nest(l, fb_plan_group(l->plan, loop->first)));
    fb_lower_initial(l, region);
    for (int i = 0; i < loop->n_scanned; i++) {
        const fb_scanned *s = &loop->scanned[i];
        if (s->item != FB_NONE && s->base == FB_NONE)
            fb_lower_copy(l, s->scanned, l->buffer_of[s->item], (fb_window){0});
    }
    l->range[region].first = l->launches.n;
    FB_VEC_PUSH(&l->launches,
                (fb_launch){.kind = FB_LAUNCH_REPEAT,
                            .kernel = FB_NONE,
                            .gemm = FB_NONE,
                            .group = FB_NONE,
                            .count = loop->trips,
                            .backwards = loop->backwards,
                            .apart = fb_plan_whole_loop(l->plan, region) && fb_plan_steps_apart(l->plan, region),
                            .region = region});
    l->level++;
}

static void swap(fb_lowering *l, int a, int b)
{
    FB_VEC_PUSH(
        &l->launches,
        (fb_launch){
            .kind = FB_LAUNCH_SWAP, .kernel = FB_NONE, .gemm = FB_NONE, .group = FB_NONE, .swap_a = a, .swap_b = b});
}

void fb_lower_close(fb_lowering *l, fb_id region)
{
    const fb_loop *loop = &l->loops[region];
    for (int i = 0; i < loop->n_collected; i++) {
        const fb_collected *c = &loop->collected[i];
        if (c->result == FB_NONE || c->base != FB_NONE || c->also != FB_NONE) continue;
        fb_window at = walked(loop, fb_node_bytes(l->g, c->value), c->every, l->level - 1);
        fb_lower_copy(l, c->value, l->buffer_of[c->result], at);
    }
    int *beside = FB_NEW_ARRAY(l->p->arena, int, loop->n_carried + 1);
    for (int i = 0; i < loop->n_carried; i++) {
        const fb_carry *c = &loop->carried[i];
        if (c->kind == FB_CARRY_SWAP) beside[i] = l->buffer_of[c->base];
        if (c->kind != FB_CARRY_COPY) continue;
        beside[i] = fb_lower_temporary(l, c->state);
        fb_lower_copy(l, c->yield, beside[i], (fb_window){0});
    }
    fb_lower_late(l, region);
    for (int i = 0; i < loop->n_carried; i++) {
        const fb_carry *c = &loop->carried[i];
        if (c->kind == FB_CARRY_SWAP || c->kind == FB_CARRY_COPY) swap(l, l->buffer_of[c->state], beside[i]);
    }
    FB_VEC_PUSH(&l->launches, (fb_launch){.kind = FB_LAUNCH_END, .kernel = FB_NONE, .gemm = FB_NONE, .group = FB_NONE});
    l->range[region].last = l->launches.n;
    l->level--;
}
