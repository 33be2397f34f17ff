/* Builds functions of statements, and prints them. What is the same in every language is here; a function's head is
 * the language's printer's. Needs an arena; leaves a tree that nobody changes any more. */
#include "code/statement.h"

#include "code/emit_parts.h"

/* ---- building ---- */

fb_statements fb_say_to(fb_arena *arena, const fb_statement **body)
{
    return (fb_statements){.arena = arena, .next = (fb_statement **)body};
}

void fb_say_v(fb_statements *to, fb_statement_kind kind, const char *behind, const char *format, va_list ap)
{
    fb_statement *s = FB_NEW(to->arena, fb_statement);
    fb_str_clear(&to->line);
    fb_str_vaddf(&to->line, format, ap);
    fb_str_add(&to->line, behind);
    *s = (fb_statement){.kind = kind, .text = fb_arena_copy(to->arena, fb_str_get(&to->line), to->line.n + 1)};
    *to->next = to->last = s;
    to->next = &s->next;
    if (kind != FB_STATEMENT_BLOCK && kind != FB_STATEMENT_IF && kind != FB_STATEMENT_LOOP) return;
    s->outer = to->open;
    to->open = s;
    to->next = &s->body;
}

void fb_say_loop(fb_statements *to, const fb_for *loop)
{
    fb_for *l = fb_arena_copy(to->arena, loop, sizeof *loop);
    l->variable = fb_arena_strdup(to->arena, l->variable);
    l->first = fb_arena_strdup(to->arena, l->first);
    l->last = fb_arena_strdup(to->arena, l->last);
    l->step = fb_arena_strdup(to->arena, l->step);
    l->also = fb_arena_strdup(to->arena, l->also);
    fb_say(to, FB_STATEMENT_LOOP, "%s", "");
    to->last->loop = l;
}

void fb_say(fb_statements *to, fb_statement_kind kind, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_say_v(to, kind, "", format, ap);
    va_end(ap);
}

void fb_say_close(fb_statements *to, const char *end)
{
    fb_statement *closed = to->open;
    closed->end = end ? fb_arena_strdup(to->arena, end) : NULL;
    to->open = closed->outer;
    to->next = &closed->next;
    to->last = closed;
}

void fb_say_beside(fb_statements *to, const char *format, ...)
{
    va_list ap;
    fb_str_clear(&to->line);
    va_start(ap, format);
    fb_str_vaddf(&to->line, format, ap);
    va_end(ap);
    to->last->remark = fb_arena_strdup(to->arena, fb_str_get(&to->line));
}

void fb_say_end(fb_statements *to)
{
    FB_ASSERT(!to->open);
    fb_str_free(&to->line);
}

/* ---- printing ---- */

/* The text with what this part calls the block's number and the grid's size. */
static void print_text(const fb_part *p, const char *text, fb_str *out)
{
    const fb_printer *printer = fb_printer_of(p->function->target);
    for (size_t n; *text; text += n) {
        for (n = 0; (unsigned char)text[n] > *FB_GRID;) n++;
        fb_str_add_n(out, text, n);
        if (!text[n]) continue;
        fb_str_add(out, (text[n] == *FB_BLOCK ? printer->block : printer->grid)[p->stage]);
        n++;
    }
}

static void print_loop(const fb_part *p, const fb_for *l, fb_str *out)
{
    fb_str_addf(out, "for (%s %s = ", l->type, l->variable);
    print_text(p, l->first, out);
    fb_str_addf(out, "; %s < ", l->variable);
    print_text(p, l->last, out);
    if (l->also) fb_str_addf(out, " && %s", l->also);
    fb_str_addf(out, l->step ? "; %s += %s) {" : "; %s++) {", l->variable, l->step);
}

/* What a kernel is known by has no layout. */
static void indent(const fb_part *p, int depth, fb_str *out)
{
    for (int i = 0; i < depth && !p->code; i++) fb_str_add(out, "    ");
}

static void print_body(const fb_part *p, const fb_statement *s, int depth, fb_str *out)
{
    for (; s; s = s->next) {
        if (s->kind == FB_STATEMENT_REMARK && p->code) continue;
        const bool condition = s->kind == FB_STATEMENT_IF;
        if (s->loop && s->loop->unrolled) fb_str_add(out, "#pragma unroll\n");
        if (s->kind != FB_STATEMENT_DIRECTIVE && (*s->text || s->loop)) indent(p, depth, out);
        if (s->kind == FB_STATEMENT_REMARK) fb_str_add(out, "// ");
        if (condition) fb_str_add(out, "if (");
        if (s->loop) print_loop(p, s->loop, out);
        print_text(p, s->text, out);
        if (condition) fb_str_add(out, ") {");
        if (s->remark && !p->code) fb_str_addf(out, " // %s", s->remark);
        fb_str_add_n(out, "\n", 1);
        print_body(p, s->body, depth + 1, out);
        if (!s->end) continue;
        indent(p, depth, out);
        fb_str_add(out, s->end);
        fb_str_add_n(out, "\n", 1);
    }
}

void fb_part_print(const fb_part *p, fb_str *out)
{
    const fb_function *f = p->function;
    for (int i = 0; i < f->n_stages; i++) {
        fb_part stage = f->stages[i];
        stage.code = p->code;
        fb_part_print(&stage, out);
    }
    if (!p->code) fb_str_addf(out, "/* %s\n%s", f->name, f->about);
    fb_printer_of(f->target)->head(p, p->code && !p->stage ? "@" : f->entry, out);
    print_body(p, f->body, 1, out);
    fb_str_add(out, p->stage ? "}\n\n" : "}\n");
}

const char *fb_function_text(const fb_function *f, fb_arena *arena)
{
    fb_str out = {0};
    fb_part_print(&(fb_part){.function = f}, &out);
    const char *text = fb_arena_copy(arena, fb_str_get(&out), out.n + 1);
    fb_str_free(&out);
    return text;
}
