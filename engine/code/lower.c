/* Lowering: a kernel a group, a buffer a stored value, a launch a group.
 *
 * requires  a plan, whose groups all have a nest
 * provides  a program: kernels equal but for their buffers are one, with the buffers told at each launch
 *
 * An output that is a view has no kernel of its own: where it is all of its base in order, the base is stored in its
 * place, else a copy kernel at the end makes it.
 */
#include "code/lower.h"

#include "base/mutate.h"
#include "code/lower_parts.h"
#include "code/merge.h"
#include "code/show.h"
#include "graph/access.h"
#include "judge/library.h"
#include "nest/parts.h"

#include <string.h>

/* ---- buffers ---- */

int fb_lower_buffer(fb_lowering *l, fb_buffer_kind kind, fb_id node, int64_t offset)
{
    const fb_node *n = &l->g->nodes[node];
    fb_buffer b = {.kind = kind,
                   .node = node,
                   .name = fb_arena_strdup(l->p->arena, n->name),
                   .dtype = n->dtype,
                   .elements = fb_shape_elements(&n->shape),
                   .bytes = fb_node_bytes(l->g, node),
                   .offset = offset,
                   .channels_last = fb_storage_innermost(l->g, node) != FB_NONE};
    FB_VEC_PUSH(&l->buffers, b);
    return l->buffers.n - 1;
}

static fb_buffer_kind source_kind(fb_op op)
{
    return op == FB_OP_PARAM ? FB_BUFFER_PARAM : FB_BUFFER_INPUT;
}

static bool is_stored_source(fb_op op)
{
    return op == FB_OP_INPUT || op == FB_OP_PARAM || op == FB_OP_FEED;
}

/* What the buffer of a carried value holds after the loop. */
static fb_id result_of_state(const fb_lowering *l, fb_id node)
{
    const fb_node *n = &l->g->nodes[node];
    return n->op == FB_OP_CARRIED ? l->loops[n->region].carried[n->attrs->index].result : node;
}

int fb_lower_temporary(fb_lowering *l, fb_id node)
{
    int64_t offset = fb_lower_aligned(l->p->pool_bytes);
    int buffer = fb_lower_buffer(l, FB_BUFFER_TEMP, node, offset);
    l->p->pool_bytes = offset + FB_MUTATE(17, l->buffers.at[buffer].bytes, l->buffers.at[buffer].bytes / 2);
    return buffer;
}

static void add_buffers(fb_lowering *l)
{
    fb_buffer_plan *plans;
    int n = fb_plan_buffers(l->plan, l->p->arena, &plans, &l->p->pool_bytes);
    for (int i = 0; i < n; i++) {
        fb_id node = plans[i].node;
        fb_op op = l->g->nodes[node].op;
        if (is_stored_source(op)) {
            l->buffer_of[node] = fb_lower_buffer(l, source_kind(op), node, 0);
            continue;
        }
        fb_id out = fb_leaving_stands_in(l->g, &l->leaving, result_of_state(l, node));
        if (out != FB_NONE) {
            l->buffer_of[node] = fb_lower_buffer(l, FB_BUFFER_OUTPUT, out, 0);
            l->buffer_of[out] = l->buffer_of[node];
        } else if (plans[i].offset != FB_NONE) {
            l->buffer_of[node] = fb_lower_buffer(l, FB_BUFFER_TEMP, node, plans[i].offset);
        } else { /* kept to the end for an output that is part of it */
            l->buffer_of[node] = fb_lower_temporary(l, node);
        }
    }
}

static int add_scratch(fb_lowering *l, int which, fb_id node)
{
    int buffer = fb_lower_buffer(l, FB_BUFFER_TEMP, node, 0);
    l->buffers.at[buffer].channels_last = false;
    fb_scratch *s = &l->scratch[which];
    FB_VEC_PUSH(&s->taken, buffer);
    if (l->buffers.at[buffer].bytes > s->bytes) s->bytes = l->buffers.at[buffer].bytes;
    return buffer;
}

static void place_scratch(fb_lowering *l)
{
    for (fb_scratch *s = l->scratch; s < l->scratch + FB_SCRATCHES; s++) {
        int64_t offset = fb_lower_aligned(l->p->pool_bytes);
        for (int i = 0; i < s->taken.n; i++) l->buffers.at[s->taken.at[i]].offset = offset;
        if (s->taken.n) l->p->pool_bytes = offset + s->bytes;
    }
}

/* ---- kernels ---- */

/* The grid belongs to it: where every thread has an element, the text does not say how many there are. */
static fb_hash text_key(const fb_kernel_text *text, fb_family family)
{
    const int64_t facts[] = {family,         text->grid[0],  text->grid[1],  text->grid[2],
                             text->block[0], text->block[1], text->block[2], text->dynamic_shared};
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_text(h, text->text);
    fb_hasher_add(h, facts, sizeof facts);
    return fb_hasher_end(h);
}

/* The file that is this group's kernel; NULL where one is generated, as it also is to be taken over anew. */
static const fb_kernel_source *own_source(const fb_lowering *l, const fb_group *group, int number)
{
    if (number == FB_NONE) return NULL;
    return l->eject.out && group->source == fb_plan_group(l->plan, l->eject.group)->source ? NULL : group->source;
}

/* The user's own kernel in the place of a generated one, where the group names a file; the generated one as a file,
 * where that was asked for. */
static bool take_over(fb_lowering *l, const fb_group *group, int number, fb_kernel_text *text)
{
    fb_eject_kernel k = {.graph = l->g, .group = group, .target = l->target, .text = text};
    const fb_kernel_source *own = own_source(l, group, number);
    if (l->eject.out) l->eject.interface[number] = fb_eject_interface(&k);
    if (l->eject.out && l->eject.group == number) fb_eject_write(&k, l->eject.from, l->eject.out);
    if (!own || l->failed.kind) return !l->failed.kind;
    return fb_eject_read(&k, own, l->p->arena, text, &l->failed);
}

/* Entries are unique in a program, and the user's file calls its own as it likes. */
static void rename_entry(fb_lowering *l, fb_kernel_text *text, const char *name)
{
    const char *entry = fb_arena_printf(l->p->arena, "%s_kernel", name);
    if (strcmp(entry, text->entry) != 0)
        text->text = fb_arena_printf(l->p->arena, "#define %s %s\n%s", text->entry, entry, text->text);
    text->entry = entry;
}

/* The kernel of this nest: one already there when texts and grids are equal. FB_NONE: nothing to do. */
static int add_kernel(fb_lowering *l, const fb_nest *nest, const fb_group *group, int number, fb_kernel_text *text)
{
    fb_arena *arena = l->p->arena;
    const char *wish = fb_emit_kernel_name(l->g, group->n_nodes, group->nodes, arena);
    *text = fb_emit_kernel(nest, group->family, &group->knobs, l->target, wish, arena);
    if (!text->text) return FB_NONE;
    const fb_kernel_source *own = own_source(l, group, number);
    if (!take_over(l, group, number, text)) return FB_NONE;
    fb_hash key = text_key(text, group->family);
    fb_known_kernel *known;
    HASH_FIND(hh, l->known, &key, sizeof key, known);
    if (known) return known->kernel;
    const char *name = wish;
    for (int i = fb_names_number(l->names, wish); fb_names_has(l->names, name); i++) {
        name = fb_arena_printf(arena, "%s_%d", wish, i);
        fb_names_set_number(l->names, wish, i + 1);
    }
    fb_names_add(l->names, name);
    if (own)
        rename_entry(l, text, name);
    else if (name != wish)
        fb_emit_rename(text, name, arena);
    fb_emit_show_kernel(name, nest, group->family, &group->knobs, text);
    fb_kernel k = {.name = name,
                   .entry = text->entry,
                   .function = text->function,
                   .source = text->text,
                   .file = own ? fb_arena_strdup(arena, fb_file_name(own->path)) : NULL,
                   .family = group->family,
                   .group = number,
                   .n_nodes = group->n_nodes,
                   .n_args = text->n_args,
                   .dynamic_shared = text->dynamic_shared,
                   .needs = text->needs,
                   .stage = text->stage};
    memcpy(k.grid, text->grid, sizeof k.grid);
    memcpy(k.block, text->block, sizeof k.block);
    k.nodes = fb_arena_copy(arena, group->nodes, (size_t)group->n_nodes * sizeof *group->nodes);
    if (number != FB_NONE) fb_plan_group_cost(l->plan, number, &k.cost);
    FB_VEC_PUSH(&l->kernels, k);
    known = FB_NEW(arena, fb_known_kernel);
    *known = (fb_known_kernel){.key = key, .kernel = l->kernels.n - 1};
    HASH_ADD(hh, l->known, key, sizeof known->key, known);
    return known->kernel;
}

/* `copy`: the buffer that a copy of a source goes to, at `window` (NULL: its start). */
static void add_launch(fb_lowering *l, fb_launch_kind kind, int index, const fb_kernel_text *text, int copy,
                       const fb_window *window)
{
    static const fb_window start;
    fb_launch launch = {.kind = kind, .kernel = FB_NONE, .gemm = FB_NONE, .group = FB_NONE, .n_args = text->n_args};
    if (kind == FB_LAUNCH_KERNEL)
        launch.kernel = index;
    else
        launch.gemm = index;
    int *args = FB_NEW_ARRAY(l->p->arena, int, text->n_args);
    int64_t *offsets = FB_NEW_ARRAY(l->p->arena, int64_t, text->n_args);
    fb_advance *advances = FB_NEW_ARRAY(l->p->arena, fb_advance, text->n_args);
    bool *written = FB_NEW_ARRAY(l->p->arena, bool, text->n_args);
    bool any = false, moves = false;
    for (int i = 0; i < text->n_args; i++) {
        written[i] = text->args[i].written;
        fb_id storage = text->args[i].storage;
        args[i] = storage < 0 ? copy : fb_lower_buffer_for(l, storage);
        const fb_window *at = storage >= 0 ? &l->window[storage] : window ? window : &start;
        if (storage >= 0 && written[i] && l->g->nodes[storage].op == FB_OP_RESULT) at = &l->place[storage];
        offsets[i] = FB_MUTATE(14, text->args[i].offset, 0) + at->offset;
        advances[i] = at->advance;
        any |= offsets[i] != 0;
        moves |= advances[i].bytes != 0;
        fb_buffer *b = &l->buffers.at[args[i]];
        if (text->args[i].written && b->kind == FB_BUFFER_PARAM) b->assigned = true;
    }
    launch.args = args;
    launch.written = written;
    launch.offsets = any ? offsets : NULL;
    launch.advances = moves ? advances : NULL;
    FB_VEC_PUSH(&l->launches, launch);
}

/* ---- what a launch computes ---- */

static fb_place place_of(const fb_lowering *l, fb_id node, fb_id storage)
{
    const fb_window *at =
        l->g->nodes[storage].op == FB_OP_RESULT && storage != node ? &l->place[storage] : &l->window[storage];
    return (fb_place){node, l->buffer_of[storage], at->offset, at->advance};
}

typedef struct {
    FB_VEC(fb_place) at;
} places;

static bool is_computed_here(const fb_id *nodes, int n, fb_id node)
{
    int low = 0;
    while (low < n) {
        int middle = low + (n - low) / 2;
        if (nodes[middle] < node)
            low = middle + 1;
        else
            n = middle;
    }
    return nodes[low] == node;
}

/* The value in memory that `node` is a view of, or is itself; nothing where these nodes compute it, or where it is a
 * source that is computed on the way. An operand that was laid out for a library call (`laid`, else FB_NONE) is the copy; one that
 * is a view of the other, which was, is read from what both are views of (set_operand). */
static void add_reads(const fb_lowering *l, places *to, fb_id node, const fb_id *nodes, int n, bool library, fb_id laid)
{
    for (; node != laid; node = l->g->nodes[node].args[0]) {
        if (n && nodes[0] <= node && node <= nodes[n - 1] && is_computed_here(nodes, n, node)) return;
        if (fb_node_class(l->g, node) != FB_CLASS_VIEW) break;
    }
    for (int i = 0; i < to->at.n; i++)
        if (to->at.at[i].node == node) return;
    if (!library && fb_op_is_made_up(l->g->nodes[node].op)) return;
    if (l->buffer_of[node] != FB_NONE) FB_VEC_PUSH(&to->at, place_of(l, node, node));
}

static void set_places(fb_lowering *l, fb_launch *launch, places *reads, places *stores)
{
    launch->n_reads = reads->at.n;
    launch->reads = fb_arena_copy(l->p->arena, reads->at.at, (size_t)reads->at.n * sizeof *reads->at.at);
    launch->n_stores = stores->at.n;
    launch->stores = fb_arena_copy(l->p->arena, stores->at.at, (size_t)stores->at.n * sizeof *stores->at.at);
    FB_VEC_FREE(&reads->at);
    FB_VEC_FREE(&stores->at);
}

/* Of a copy of `node` to `to`. */
static void set_copy_places(fb_lowering *l, fb_id node, int to, const fb_window *window)
{
    places reads = {0}, stores = {0};
    const fb_node *n = &l->g->nodes[node];
    bool view = fb_node_class(l->g, node) == FB_CLASS_VIEW;
    add_reads(l, &reads, view ? n->args[0] : node, NULL, 0, false, FB_NONE);
    fb_window at = window ? *window : (fb_window){0};
    FB_VEC_PUSH(&stores.at, ((fb_place){node, to, at.offset, at.advance}));
    set_places(l, &l->launches.at[l->launches.n - 1], &reads, &stores);
}

/* Where the group's stored value goes: over a parameter, over a loop's state, or to a place of its own. */
static fb_id storage_of(const fb_lowering *l, const fb_group *group, fb_id stored)
{
    if (l->g->nodes[stored].op == FB_OP_ASSIGN) return fb_access_base(l->g, l->g->nodes[stored].args[0]);
    return l->stored_at[stored] != FB_NONE && !fb_family_row_of(group->family)->calls ? l->stored_at[stored] : stored;
}

/* `temporary`: what a staged assignment is stored to, or FB_NONE. */
static void set_group_places(fb_lowering *l, fb_launch *launch, const fb_group *group, int temporary)
{
    places reads = {0}, stores = {0};
    const fb_loop *loop = &l->loops[l->g->nodes[group->nodes[0]].region];
    for (int i = 0; i < group->n_nodes; i++) {
        const fb_node *n = &l->g->nodes[group->nodes[i]];
        /* what follows the product reads what its operands are views of, and not the copies laid out for it */
        bool library = launch->kind == FB_LAUNCH_GEMM && fb_op_get(n->op)->cls == FB_CLASS_CONTRACTION;
        for (int a = n->op == FB_OP_ASSIGN; a < n->n_args; a++)
            add_reads(l, &reads, n->args[a], group->nodes, group->n_nodes, library, library ? l->laid[a] : FB_NONE);
    }
    for (int i = 0; i < group->n_stored; i++) {
        fb_id stored = group->stored[i], storage = storage_of(l, group, stored);
        if (temporary != FB_NONE)
            FB_VEC_PUSH(&stores.at, ((fb_place){stored, temporary, 0, {0}}));
        else if (l->buffer_of[storage] != FB_NONE)
            FB_VEC_PUSH(&stores.at, place_of(l, stored, storage));
        for (int k = 0; loop->region && k < loop->n_collected; k++)
            if (loop->collected[k].also == stored && loop->collected[k].result != FB_NONE)
                FB_VEC_PUSH(&stores.at, place_of(l, stored, loop->collected[k].result));
    }
    set_places(l, launch, &reads, &stores);
}

/* ---- chains ---- */

static int64_t step_of(fb_index_pool *pool, fb_ix at, fb_ix var)
{
    int64_t step = 0;
    fb_ix rest;
    if (!fb_ix_is_const(pool, var, &step)) fb_ix_stride(pool, at, var, &step, &rest);
    return step;
}

/* On the host the kernel calls the library for its products. */
static void add_products(fb_lowering *l, const fb_nest *nest, fb_launch *launch)
{
    const fb_chain *c = nest->chain;
    fb_chain_product_call *calls = FB_NEW_ARRAY(l->p->arena, fb_chain_product_call, c->n_links);
    for (int i = 0; i < c->n_links; i++) {
        const fb_chain_link *p = &c->link[i];
        calls[i] = (fb_chain_product_call){.dtype = l->g->nodes[p->node].dtype,
                                           .rows = c->block,
                                           .n = p->columns,
                                           .k = p->depth,
                                           .a_row = p->depth,
                                           .a_col = 1,
                                           .b_row = step_of(nest->pool, p->b_at, p->k),
                                           .b_col = step_of(nest->pool, p->b_at, p->n),
                                           .a = FB_NONE,
                                           .b = fb_lower_buffer_for(l, p->b)};
        if (p->a == FB_NONE) continue;
        calls[i].a = fb_lower_buffer_for(l, p->a);
        calls[i].a_row = step_of(nest->pool, p->a_at, c->row);
        calls[i].a_col = step_of(nest->pool, p->a_at, p->k);
    }
    launch->n_products = c->n_links;
    launch->products = calls;
}

/* ---- library calls ---- */

static void set_operand(const fb_lowering *l, const fb_contraction *c, int arg, fb_gemm_call *call, fb_id *base)
{
    const fb_graph *g = l->g;
    int64_t offset = 0, strides[FB_MAX_RANK];
    const fb_shape *s = &g->nodes[c->operand[arg]].shape;
    *base = l->laid[arg];
    if (*base == FB_NONE)
        FB_ASSERT(fb_access_strided(g, c->operand[arg], base, &offset, strides));
    else
        fb_storage_operand(g, c->node, arg, strides);
    int64_t row = strides[s->rank - 2], col = strides[s->rank - 1];
    int64_t batch = fb_storage_batch_stride(&g->nodes[c->node].shape, s, strides);
    if (arg == 0)
        call->a_offset = offset, call->a_row = row, call->a_col = col, call->a_batch = batch;
    else
        call->b_offset = offset, call->b_row = row, call->b_col = col, call->b_batch = batch;
}

/* A batch over one right-hand side whose left-hand rows follow each other is one tall matrix. */
static void fold_batch(fb_gemm_call *c)
{
    if (c->batch == 1 || c->convolution.space || FB_MUTATE(16, c->b_batch != 0, false)) return;
    if (!fb_storage_is_one(c->batch, c->m, c->k, c->a_row, c->a_col, c->a_batch)) return;
    if (c->addend != FB_NONE && c->addend_batch != c->m * c->addend_row) return;
    c->m *= c->batch;
    c->batch = 1;
}

/* The transposed product, whose rows are what was columns and lie so. */
static void turn(fb_gemm_call *c)
{
    if (c->convolution.space)
        c->convolution.by_places = true;
    else
        *c = fb_program_transposed_gemm(c);
    c->c_row = c->addend_row = c->n;
    c->c_batch = c->addend_batch = c->m * c->n;
}

/* Operands and result where they are, and where a loop moves them. */
static void place_call(fb_lowering *l, fb_gemm_call *call, const fb_id *operands, fb_id result)
{
    int64_t size = fb_dtype_size(call->dtype);
    call->a = fb_lower_buffer_for(l, operands[0]);
    call->b = fb_lower_buffer_for(l, operands[1]);
    call->c = l->buffer_of[result];
    call->a_offset += l->window[operands[0]].offset / size;
    call->b_offset += l->window[operands[1]].offset / size;
    call->a_advance = l->window[operands[0]].advance;
    call->b_advance = l->window[operands[1]].advance;
    call->c_advance = l->window[result].advance;
}

/* The library does all of it: bias and relu are its own, and it stores the last value. */
static void lower_whole_call(fb_lowering *l, const fb_group *group, fb_gemm_call *call, const fb_id *operands)
{
    fb_library_epilogue epilogue;
    fb_verdict why;
    FB_ASSERT(fb_library_epilogue_of(&l->machine, &group->nest->kernel, &epilogue, &why));
    place_call(l, call, operands, epilogue.result);
    call->relu = epilogue.relu;
    if (epilogue.bias != FB_NONE) {
        fb_id base;
        int64_t strides[FB_MAX_RANK];
        FB_ASSERT(fb_access_strided(l->g, epilogue.bias, &base, &call->bias_offset, strides));
        call->bias = fb_lower_buffer_for(l, base);
        call->bias_offset += l->window[base].offset / fb_dtype_size(call->dtype);
        call->bias_advance = l->window[base].advance;
    }
    call->scale = epilogue.scale;
    if (epilogue.addend != FB_NONE) {
        fb_id base;
        int64_t strides[FB_MAX_RANK];
        const fb_shape *s = &l->g->nodes[epilogue.addend].shape;
        FB_ASSERT(fb_access_strided(l->g, epilogue.addend, &base, &call->addend_offset, strides));
        call->addend = fb_lower_buffer_for(l, base);
        call->addend_offset += l->window[base].offset / fb_dtype_size(call->dtype);
        call->addend_advance = l->window[base].advance;
        call->addend_scale = epilogue.addend_scale;
        call->addend_row = s->dim[s->rank - 2] > 1 ? strides[s->rank - 2] : s->dim[s->rank - 1];
        call->addend_batch = s->dim[s->rank - 2] * call->addend_row;
    }
    if (epilogue.turned) turn(call);
    fold_batch(call);
    FB_VEC_PUSH(&l->gemms, *call);
    add_launch(l, FB_LAUNCH_GEMM, l->gemms.n - 1, &(fb_kernel_text){0}, FB_NONE, NULL);
}

void fb_lower_mark_copy(fb_lowering *l, fb_id node)
{
    fb_launch *launch = &l->launches.at[l->launches.n - 1];
    launch->copies = true;
    fb_copying_cost(l->plan, node, &l->kernels.at[launch->kernel].cost);
}

/* A copy of `node`, a view or source: its kernel reads the node's base and writes what has no node. */
static int add_copy_kernel(fb_lowering *l, fb_id node, fb_kernel_text *text)
{
    fb_kernel_nodes k = {.graph = l->g, .n_stored = 1, .stored = &node};
    fb_group group = {.family = FB_FAMILY_COPY, .n_nodes = 1, .nodes = &node, .n_stored = 1, .stored = &node};
    fb_verdict why;
    fb_arena *arena = fb_arena_new();
    fb_nest *nest = fb_nest_build(arena, &k, fb_planner_machine(fb_plan_planner(l->plan)), &why);
    FB_ASSERT(nest);
    int kernel = add_kernel(l, nest, &group, FB_NONE, text);
    fb_arena_free(arena);
    return kernel;
}

/* Whoever asks says whose the launch is. False: there is nothing to copy. */
static bool launch_copy(fb_lowering *l, fb_id node, int to, fb_window window)
{
    fb_kernel_text text;
    int kernel = add_copy_kernel(l, node, &text);
    if (kernel == FB_NONE) return false;
    int kept = l->buffer_of[node];
    fb_window was = l->window[node];
    if (fb_node_class(l->g, node) == FB_CLASS_VIEW) { /* a view that is copied stands for its copy */
        l->buffer_of[node] = to;
        l->window[node] = window;
    }
    add_launch(l, FB_LAUNCH_KERNEL, kernel, &text, to, &window);
    l->buffer_of[node] = kept;
    l->window[node] = was;
    set_copy_places(l, node, to, &window);
    return true;
}

void fb_lower_copy(fb_lowering *l, fb_id node, int to, fb_window window)
{
    if (launch_copy(l, node, to, window)) fb_lower_mark_copy(l, node);
}

/* What a library call cannot read as it lies: a copy of the view, which stands for the view until the call is made. */
static void lay_out_operands(fb_lowering *l, const fb_contraction *c)
{
    for (int arg = 0; arg < 2; arg++) {
        const fb_id view = fb_storage_laid(l->g, c->node, arg);
        l->laid[arg] = fb_library_lays_out(&l->machine, l->g, c->node, arg) ? view : FB_NONE;
        if (l->laid[arg] == FB_NONE) continue;
        l->elsewhere[arg] = l->buffer_of[view];
        if (arg && view == l->laid[0]) continue; /* one copy is both sides */
        int to = add_scratch(l, arg ? FB_SCRATCH_RIGHT : FB_SCRATCH_LEFT, view);
        launch_copy(l, view, to, (fb_window){0}); /* the group's own: it is in its cost */
        l->buffer_of[view] = to;
    }
}

/* … and sources that no kernel stores. */
static void lay_out_sources(fb_lowering *l, const fb_group *group)
{
    fb_id *source;
    int n = fb_laid_sources(l->plan, group, l->p->arena, &source);
    for (int i = 0; i < n; i++) {
        if (l->buffer_of[source[i]] != FB_NONE) continue;
        int buffer = l->buffer_of[source[i]] = fb_lower_temporary(l, source[i]);
        fb_kernel_text text;
        int kernel = add_copy_kernel(l, source[i], &text);
        if (kernel == FB_NONE) continue;
        add_launch(l, FB_LAUNCH_KERNEL, kernel, &text, buffer, NULL);
        fb_lower_mark_copy(l, source[i]);
        set_copy_places(l, source[i], buffer, NULL);
    }
}

static void forget_laid_out(fb_lowering *l)
{
    for (int arg = 1; arg >= 0; arg--) { /* in the opposite order, for both may be one */
        if (l->laid[arg] != FB_NONE) l->buffer_of[l->laid[arg]] = l->elsewhere[arg];
        l->laid[arg] = FB_NONE;
    }
}

static void lower_library(fb_lowering *l, const fb_group *group, int number)
{
    fb_id product = group->nest->accumulator, bases[2];
    fb_contraction c = fb_contraction_of(l->g, product);
    lay_out_operands(l, &c);
    lay_out_sources(l, group);
    fb_gemm_call call = {.dtype = l->g->nodes[product].dtype,
                         .precision = l->g->nodes[product].attrs->precision,
                         .m = c.rows,
                         .n = c.columns,
                         .k = c.depth,
                         .batch = c.batch};
    set_operand(l, &c, 0, &call, &bases[0]);
    int64_t first;
    if (fb_library_convolves(&l->machine, l->g, product, &call.convolution, &bases[1], &first))
        call.b_offset = FB_MUTATE(62, first, 0);
    else
        set_operand(l, &c, 1, &call, &bases[1]);
    call.c_row = call.n;
    call.c_batch = call.m * call.n;
    call.epilogue = call.bias = call.addend = FB_NONE;
    call.scale = 1;
    if (l->target->library_epilogues) {
        lower_whole_call(l, group, &call, bases);
        return;
    }
    fb_id storage = fb_nest_product(group->nest);
    if (l->buffer_of[storage] == FB_NONE) {
        l->buffer_of[storage] = add_scratch(l, FB_SCRATCH_RESULT, storage);
    }
    place_call(l, &call, bases, storage);
    if (group->n_nodes == 1 && fb_storage_is_turned(l->g, product, product)) turn(&call);
    fold_batch(&call);
    fb_kernel_text text = {0};
    call.epilogue = add_kernel(l, group->nest, group, number, &text);
    if (group->source && call.epilogue == FB_NONE && !l->failed.kind)
        fb_fail(&l->failed, FB_ERR_INPUT, "%s: `%s` is a library call and nothing else: there is no kernel to replace",
                fb_file_name(group->source->path), l->g->nodes[product].name);
    FB_VEC_PUSH(&l->gemms, call);
    add_launch(l, FB_LAUNCH_GEMM, l->gemms.n - 1, &text, FB_NONE, NULL);
}

/* Sources that only a copy or a library call reads have no place in the plan. */
int fb_lower_buffer_for(fb_lowering *l, fb_id node)
{
    fb_op op = l->g->nodes[node].op;
    if (l->buffer_of[node] == FB_NONE) {
        FB_ASSERT(is_stored_source(op));
        l->buffer_of[node] = fb_lower_buffer(l, source_kind(op), node, 0);
    }
    return l->buffer_of[node];
}

/* The new value went to a temporary; now the parameter is overwritten. */
static void finish_assignment(fb_lowering *l, fb_id assign, int temporary)
{
    fb_id param = fb_access_base(l->g, l->g->nodes[assign].args[0]);
    fb_kernel_text text;
    int kernel = add_copy_kernel(l, param, &text), to = fb_lower_buffer_for(l, param);
    int *args = FB_NEW_ARRAY(l->p->arena, int, 2);
    args[0] = temporary;
    args[1] = to;
    l->buffers.at[to].assigned = true;
    if (kernel == FB_NONE) return; /* it has no elements */
    FB_VEC_PUSH(&l->launches,
                (fb_launch){.kind = FB_LAUNCH_KERNEL, .kernel = kernel, .gemm = FB_NONE, .n_args = 2, .args = args});
    fb_lower_mark_copy(l, param);
    places reads = {0}, stores = {0};
    FB_VEC_PUSH(&reads.at, ((fb_place){assign, temporary, 0, {0}}));
    FB_VEC_PUSH(&stores.at, ((fb_place){assign, to, 0, {0}}));
    set_places(l, &l->launches.at[l->launches.n - 1], &reads, &stores);
}

/* ---- all of it ---- */

static void lower_group(fb_lowering *l, int number)
{
    const fb_group *group = fb_plan_group(l->plan, number);
    int first = l->launches.n;
    if (fb_family_row_of(group->family)->calls) {
        lower_library(l, group, number);
        set_group_places(l, &l->launches.at[l->launches.n - 1], group, FB_NONE);
        forget_laid_out(l);
    } else {
        lay_out_sources(l, group);
        fb_kernel_text text;
        int kernel = add_kernel(l, fb_lower_nest(l, group, number), group, number, &text);
        bool staged = fb_nest_staged(group->nest), late = staged && fb_assign_is_late(l->g, group->stored[0]);
        int temporary = late     ? fb_lower_temporary(l, group->stored[0])
                        : staged ? add_scratch(l, FB_SCRATCH_RESULT, group->stored[0])
                                 : FB_NONE;
        if (kernel != FB_NONE) add_launch(l, FB_LAUNCH_KERNEL, kernel, &text, temporary, NULL);
        if (kernel != FB_NONE) set_group_places(l, &l->launches.at[l->launches.n - 1], group, temporary);
        if (kernel != FB_NONE && group->nest->chain && l->target->calls_library)
            add_products(l, group->nest, &l->launches.at[l->launches.n - 1]);
        if (late)
            FB_VEC_PUSH(&l->late, (fb_late_assign){group->stored[0], temporary, number});
        else if (staged)
            finish_assignment(l, group->stored[0], temporary);
    }
    for (int i = first; i < l->launches.n; i++) l->launches.at[i].group = number;
}

/* A feed is an effect, but what it brings is there as an input is. */
static bool is_source(const fb_graph *g, fb_id node)
{
    return fb_node_class(g, node) == FB_CLASS_SOURCE || g->nodes[node].op == FB_OP_FEED;
}

/* An output that no kernel stores: a view of part of something, or a source. */
static void copy_output(fb_lowering *l, fb_id out)
{
    bool source = is_source(l->g, out);
    if (fb_node_is_computed(l->g, out) || (!source && l->buffer_of[out] != FB_NONE)) return;
    for (int i = 0; i < l->buffers.n; i++)
        if (l->buffers.at[i].kind == FB_BUFFER_OUTPUT && l->buffers.at[i].node == out) return;
    fb_kernel_text text;
    int kernel = add_copy_kernel(l, out, &text);
    int to = fb_lower_buffer(l, FB_BUFFER_OUTPUT, out, 0);
    if (!source) l->buffer_of[out] = to;
    if (kernel == FB_NONE) return;
    add_launch(l, FB_LAUNCH_KERNEL, kernel, &text, to, NULL);
    fb_lower_mark_copy(l, out);
    set_copy_places(l, out, to, NULL);
}

static bool reads_source(const fb_graph *g, fb_id out)
{
    return is_source(g, fb_access_base(g, out));
}

static void hash_advance(fb_hasher *h, fb_advance a)
{
    fb_hasher_add_i64(h, a.bytes);
    fb_hasher_add_i64(h, a.level);
    if (a.every > 1) fb_hasher_add_i64(h, a.every);
}

static fb_hash hash_of(const fb_program *p)
{
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_text(h, p->language);
    fb_hasher_add_i64(h, p->mode);
    fb_hasher_add_i64(h, p->overlap);
    fb_hasher_add_i64(h, p->pool_bytes);
    for (int i = 0; i < p->n_buffers; i++) {
        const fb_buffer *b = &p->buffers[i];
        const int64_t facts[] = {b->kind, b->node, b->dtype, b->elements, b->offset, b->assigned, b->fed, b->received};
        fb_hasher_add_text(h, b->name);
        fb_hasher_add(h, facts, sizeof facts);
    }
    for (int i = 0; i < p->n_kernels; i++) {
        const fb_kernel *k = &p->kernels[i];
        fb_hasher_add_text(h, k->source ? k->source : k->name);
        const int64_t facts[] = {k->family,   k->n_args,   k->grid[0],  k->grid[1],        k->grid[2],
                                 k->block[0], k->block[1], k->block[2], k->dynamic_shared, k->merged};
        fb_hasher_add(h, facts, sizeof facts);
    }
    for (int i = 0; i < p->n_gemms; i++) {
        const fb_gemm_call *c = &p->gemms[i];
        const int64_t facts[] = {c->dtype, c->precision, c->m,        c->n,           c->k,     c->batch,
                                 c->a_row, c->a_col,     c->a_batch,  c->b_row,       c->b_col, c->b_batch,
                                 c->c_row, c->c_batch,   c->a_offset, c->b_offset,    c->a,     c->b,
                                 c->c,     c->epilogue,  c->bias,     c->bias_offset, c->relu};
        fb_hasher_add(h, facts, sizeof facts);
        hash_advance(h, c->a_advance);
        hash_advance(h, c->b_advance);
        hash_advance(h, c->c_advance);
        hash_advance(h, c->bias_advance);
        hash_advance(h, c->addend_advance);
        const double factors[] = {c->scale, c->addend_scale};
        const int64_t addend[] = {c->addend, c->addend_offset, c->addend_row, c->addend_batch};
        fb_hasher_add(h, factors, sizeof factors);
        fb_hasher_add(h, addend, sizeof addend);
        fb_program_add_convolution(h, &c->convolution);
    }
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        const int64_t facts[] = {l->kind, l->kernel, l->gemm, l->n_args, l->count, l->swap_a, l->swap_b, l->steps};
        fb_hasher_add(h, facts, sizeof facts);
        fb_hasher_add(h, l->args, (size_t)l->n_args * sizeof *l->args);
        if (l->offsets) fb_hasher_add(h, l->offsets, (size_t)l->n_args * sizeof *l->offsets);
        for (int a = 0; l->advances && a < l->n_args; a++) hash_advance(h, l->advances[a]);
        for (int k = 0; k < l->n_products; k++) {
            const fb_chain_product_call *c = &l->products[k];
            const int64_t call[] = {c->dtype, c->rows, c->n, c->k, c->a_row, c->a_col, c->b_row, c->b_col, c->a, c->b};
            fb_hasher_add(h, call, sizeof call);
        }
    }
    return fb_hasher_end(h);
}

void fb_lower_late(fb_lowering *l, fb_id region)
{
    for (int i = 0; i < l->late.n; i++) {
        if (l->g->nodes[l->late.at[i].assign].region != region) continue;
        int first = l->launches.n;
        finish_assignment(l, l->late.at[i].assign, l->late.at[i].temporary);
        for (int k = first; k < l->launches.n; k++) l->launches.at[k].group = l->late.at[i].group;
    }
}

/* What is received is in an output of its own, as are values that several receive. */
static void mark_copies(fb_lowering *l)
{
    bool *received = fb_calloc((size_t)l->g->n_nodes + 1, sizeof *received);
    for (fb_id i = 0; i < l->g->n_nodes; i++)
        if (l->g->nodes[i].op == FB_OP_RECEIVE && fb_node_is_copied(l->g, i)) received[l->g->nodes[i].args[0]] = true;
    for (int i = 0; i < l->buffers.n; i++) {
        fb_buffer *b = &l->buffers.at[i];
        b->fed = b->kind == FB_BUFFER_INPUT && l->g->nodes[b->node].op == FB_OP_FEED;
        b->received = b->kind == FB_BUFFER_OUTPUT && received[b->node];
    }
    fb_free(received);
}

static void finish(fb_lowering *l)
{
    fb_program *p = l->p;
    place_scratch(l);
    mark_copies(l);
#define TAKE(FIELD)                                                                                                    \
    p->n_##FIELD = l->FIELD.n;                                                                                         \
    p->FIELD = fb_arena_copy(p->arena, l->FIELD.at, (size_t)l->FIELD.n * sizeof *l->FIELD.at)
    TAKE(buffers);
    TAKE(kernels);
    TAKE(gemms);
    TAKE(launches);
#undef TAKE
    p->total_bytes = p->pool_bytes;
    for (int i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].kind != FB_BUFFER_TEMP)
            p->total_bytes += fb_lower_aligned(p->buffers[i].bytes) * (fb_program_buffer_is_double(p, i) ? 2 : 1);
}

/* A loop that is one kernel, and not part of another that is. */
static bool is_outermost_whole(const fb_lowering *l, fb_id region)
{
    if (!l->loops[region].whole) return false;
    for (fb_id r = l->g->regions[region].parent; r > 0; r = l->g->regions[r].parent)
        if (l->loops[r].whole) return false;
    return true;
}

/* A whole plan as one kernel, or loops as one each; the last first, so that launches before keep their places. */
static bool merge(fb_lowering *l, fb_error *err)
{
    fb_program *p = l->p;
    const int units = fb_planner_machine(fb_plan_planner(l->plan))->units;
    if (p->mode == FB_LAUNCH_MEGA && !p->n_launches) return true;
    if (p->mode == FB_LAUNCH_MEGA) {
        if (!fb_program_merge(p, l->target, units, 0, p->n_launches, "the plan", "mega", err)) return false;
        p->kernels[p->n_kernels - 1].cost.us = fb_plan_one_kernel_us(l->plan, 0);
        return true;
    }
    for (int before = p->n_launches;;) {
        fb_id last = 0;
        for (fb_id r = 1; r < l->g->n_regions; r++)
            if (is_outermost_whole(l, r) && l->range[r].last > l->range[r].first && l->range[r].first < before &&
                (!last || l->range[r].first > l->range[last].first))
                last = r;
        if (!last) return true;
        before = l->range[last].first;
        const char *what = fb_arena_printf(p->arena, "the loop %.64s", l->g->nodes[l->loops[last].node].name);
        if (!fb_program_merge(p, l->target, units, before, l->range[last].last, what, "scan", err)) return false;
        p->kernels[p->n_kernels - 1].cost.us = fb_plan_one_kernel_us(l->plan, last);
    }
}

/* What the loop's calls want laid out does not change with its steps. */
static void lay_out_before(fb_lowering *l, const fb_loop *loop)
{
    for (int i = loop->first; i <= loop->last; i++) lay_out_sources(l, fb_plan_group(l->plan, i));
}

/* Groups and loops in order. A loop of no steps is its initial values. */
static void lower_steps(fb_lowering *l)
{
    const fb_order_entry *steps;
    int n = fb_plan_order(l->plan, &steps), never = 0;
    for (int i = 0; i < n; i++) {
        fb_id region = steps[i].number;
        bool loop = steps[i].kind != FB_ORDER_GROUP, empty = loop && l->g->regions[region].trips == 0;
        if (steps[i].kind == FB_ORDER_CLOSE && never) {
            never--;
        } else if (steps[i].kind == FB_ORDER_OPEN && never) {
            never++;
        } else if (empty) {
            fb_lower_initial(l, region);
            never++;
        } else if (steps[i].kind == FB_ORDER_OPEN) {
            if (l->g->regions[region].parent == 0) lay_out_before(l, &l->loops[region]);
            fb_lower_open(l, region);
        } else if (steps[i].kind == FB_ORDER_CLOSE) {
            fb_lower_close(l, region);
        } else if (!never) {
            lower_group(l, steps[i].number);
        }
    }
}

/* A CUDA graph has a node for each launch, the steps of a loop counted out. */
static bool fits_mode(const fb_program *p, fb_error *err)
{
    int64_t launches = fb_program_launches(p);
    return p->mode != FB_LAUNCH_GRAPH || launches <= FB_GRAPH_LAUNCHES ||
           fb_fail(err, FB_ERR_LIMIT, "a CUDA graph of %lld launches: %d is the most, launch mode `stream` takes any",
                   (long long)launches, FB_GRAPH_LAUNCHES);
}

/* A loop that reads too late, or a group that is no kernel. */
static bool can_be_lowered(const fb_plan *plan, fb_error *err)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    const fb_deps *deps = fb_planner_deps(fb_plan_planner(plan));
    if (deps->late_reader != FB_NONE)
        return fb_fail(
            err, FB_ERR_LIMIT,
            "%s reads the old value of %s and needs the loop that assigns it: carry the value through the loop",
            g->nodes[deps->late_reader].name, g->nodes[deps->late_param].name);
    int refused;
    const fb_verdict *refusal = fb_plan_refusal(plan, &refused);
    return !refusal || fb_fail(err, FB_ERR_LIMIT, "`%s` alone is no kernel: %s",
                               g->nodes[fb_plan_group(plan, refused)->nodes[0]].name, refusal->text);
}

/* As the plan says; each kernel launched by itself; with products alone from libraries. */
typedef enum { LOWER_WHOLE, LOWER_APART, LOWER_PORTABLE } lower_how;

/* What is taken over goes to `eject`'s fields; NULL: nothing. */
static fb_program *lower(const fb_plan *plan, const fb_target *target, const fb_ejection *eject, lower_how how,
                         fb_error *err)
{
    bool apart = how == LOWER_APART;
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    if (!can_be_lowered(plan, err)) return NULL;
    fb_lowering l = {.plan = plan,
                     .g = g,
                     .target = target,
                     .machine = *fb_planner_machine(fb_plan_planner(plan)),
                     .apart = apart,
                     .laid = {FB_NONE, FB_NONE},
                     .names = fb_names_new(),
                     .eject = eject ? *eject : (fb_ejection){.group = FB_NONE}};
    if (how == LOWER_PORTABLE) l.machine.convolution.n = 0;
    fb_arena *arena = fb_arena_new(), *scratch = fb_arena_new();
    l.p = FB_NEW(arena, fb_program);
    *l.p = (fb_program){.arena = arena,
                        .language = target->name,
                        .mode = apart ? FB_LAUNCH_STREAM : fb_plan_launch_mode(plan),
                        .overlap = fb_plan_overlap(plan)};
    l.buffer_of = FB_NEW_ARRAY(scratch, int, g->n_nodes);
    for (fb_id i = 0; i < g->n_nodes; i++) l.buffer_of[i] = FB_NONE;
    l.window = FB_NEW_ARRAY(scratch, fb_window, g->n_nodes);
    l.place = FB_NEW_ARRAY(scratch, fb_window, g->n_nodes);
    l.stored_at = FB_NEW_ARRAY(scratch, fb_id, g->n_nodes);
    for (fb_id i = 0; i < g->n_nodes; i++) l.stored_at[i] = FB_NONE;
    l.leaving = fb_leaving_of(g, scratch);
    fb_lower_loops(&l);
    add_buffers(&l);
    fb_lower_states(&l);
    /* of sources before any kernel, for one may assign to them */
    for (int i = 0; i < l.leaving.n; i++)
        if (reads_source(g, l.leaving.node[i])) copy_output(&l, l.leaving.node[i]);
    lower_steps(&l);
    for (int i = 0; i < l.leaving.n; i++)
        if (!reads_source(g, l.leaving.node[i])) copy_output(&l, l.leaving.node[i]);
    fb_lower_late(&l, 0);
    finish(&l);
    bool fine = !l.failed.kind && (apart || merge(&l, err));
    if (l.failed.kind && err) *err = l.failed;
    l.p->hash = hash_of(l.p);
    if (fine) fb_program_show(l.p);
    HASH_CLEAR(hh, l.known);
    fb_names_free(l.names);
    FB_VEC_FREE(&l.buffers);
    FB_VEC_FREE(&l.kernels);
    FB_VEC_FREE(&l.gemms);
    FB_VEC_FREE(&l.launches);
    for (int s = 0; s < FB_SCRATCHES; s++) FB_VEC_FREE(&l.scratch[s].taken);
    FB_VEC_FREE(&l.late);
    fb_arena_free(scratch);
    if (fine && fits_mode(l.p, err)) return l.p;
    fb_program_free(l.p);
    return NULL;
}

fb_program *fb_lower(const fb_plan *plan, const fb_target *target, fb_error *err)
{
    return lower(plan, target, NULL, LOWER_WHOLE, err);
}

fb_program *fb_lower_apart(const fb_plan *plan, const fb_target *target, fb_error *err)
{
    return lower(plan, target, NULL, LOWER_APART, err);
}

/* Does the group's library call read operands that no product of a library reads, not even laid out? */
static bool only_convolves(const fb_plan *plan, const fb_group *group)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    int64_t strides[FB_MAX_RANK];
    bool uneven = false;
    for (int arg = 0; arg < 2 && fb_family_row_of(group->family)->calls; arg++)
        uneven |= fb_storage_operand(g, group->nest->accumulator, arg, strides) == FB_OPERAND_UNEVEN;
    return uneven;
}

/* Such a product is generated. */
fb_program *fb_lower_portable(const fb_plan *plan, const fb_target *target, fb_error *err)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    fb_plan *own = NULL;
    bool fine = true;
    for (int i = 0; fine && i < fb_plan_groups(plan); i++) {
        const fb_group *group = fb_plan_group(plan, i);
        if (!only_convolves(plan, group)) continue;
        fb_plan *next = NULL;
        fb_id product = group->nest->accumulator;
        fb_verdict why =
            fb_plan_try(own ? own : plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = product, .b = FB_NONE}, &next);
        fine =
            next || fb_fail(err, FB_ERR_LIMIT, "`%s` would have to be generated: %s", g->nodes[product].name, why.text);
        if (own) fb_plan_free(own);
        own = next;
    }
    fb_program *p = fine ? lower(own ? own : plan, target, NULL, LOWER_PORTABLE, err) : NULL;
    if (own) fb_plan_free(own);
    return p;
}

/* The kernel that a launch runs, or that follows its library call. */
static int kernel_of(const fb_program *p, const fb_launch *l)
{
    if (l->kind == FB_LAUNCH_KERNEL) return l->kernel;
    return l->kind == FB_LAUNCH_GEMM ? p->gemms[l->gemm].epilogue : FB_NONE;
}

bool fb_lower_eject(const fb_plan *plan, int group, const fb_target *target, const fb_eject_origin *from, fb_str *out,
                    bool *shares, fb_error *err)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    fb_arena *arena = fb_arena_new();
    fb_hash *interface = FB_NEW_ARRAY(arena, fb_hash, fb_plan_groups(plan));
    fb_program *p =
        lower(plan, target, &(fb_ejection){.group = group, .from = from, .out = out, .interface = interface},
              LOWER_WHOLE, err);
    if (!p) {
        fb_arena_free(arena);
        return false;
    }
    int kernel = FB_NONE;
    for (int i = 0; i < p->n_launches && kernel == FB_NONE; i++)
        if (p->launches[i].group == group) kernel = kernel_of(p, &p->launches[i]);
    bool fine = kernel != FB_NONE && !p->kernels[kernel].merged && out->n;
    if (!fine)
        fb_fail(err, FB_ERR_INPUT, "`%s` has no kernel of its own: it is in a library call, or in one kernel for all",
                g->nodes[fb_plan_group(plan, group)->nodes[0]].name);
    for (int i = 0; i < fb_plan_groups(plan); i++) shares[i] = false;
    for (int i = 0; i < p->n_launches && fine; i++)
        if (p->launches[i].group != FB_NONE && kernel_of(p, &p->launches[i]) == kernel)
            shares[p->launches[i].group] = fb_hash_equal(interface[p->launches[i].group], interface[group]);
    fb_arena_free(arena);
    fb_program_free(p);
    return fine;
}

const char *fb_lower_group_source(const fb_plan *plan, int group, const fb_target *target, fb_arena *arena)
{
    const fb_group *g = fb_plan_group(plan, group);
    if (!g->nest) return NULL;
    if (g->source && g->source->text) return fb_arena_strdup(arena, g->source->text);
    const char *name = fb_emit_kernel_name(fb_planner_graph(fb_plan_planner(plan)), g->n_nodes, g->nodes, arena);
    return fb_emit_kernel(g->nest, g->family, &g->knobs, target, name, arena).text;
}
