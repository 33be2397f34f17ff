/* What lowering's passes leave, for FB_DEBUG. Needs finished values; changes nothing. */
#include "code/show.h"

#include "base/debug.h"
#include "nest/print.h"
#include "schedule/print.h"

#include <inttypes.h>
#include <stdio.h>

static void show(const char *what, const char *name, fb_str *text)
{
    char title[160];
    snprintf(title, sizeof title, "%s %s", what, name);
    fb_debug_show(title, fb_str_get(text));
    fb_str_free(text);
}

void fb_emit_show_kernel(const char *name, const fb_nest *nest, fb_family family, const fb_knobs *knobs,
                         const fb_kernel_text *text)
{
    fb_str out = {0};
    if (fb_debug('n')) {
        fb_nest_print(nest, &out);
        show("nest of", name, &out);
    }
    if (fb_debug('s')) {
        fb_schedule_print(nest, family, knobs, &out);
        show("schedule of", name, &out);
    }
    if (fb_debug('k')) {
        fb_str_add(&out, text->text);
        show("kernel", name, &out);
    }
}

void fb_emit_show_merged(const fb_kernel *k)
{
    fb_str out = {0};
    if (!fb_debug('m')) return;
    fb_str_add(&out, k->source);
    show("merged kernel", k->name, &out);
}

void fb_program_show(const fb_program *p)
{
    fb_str out = {0};
    if (!fb_debug('b')) return;
    for (int i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].kind == FB_BUFFER_TEMP)
            fb_str_addf(&out, "%-32s %" PRId64 " bytes at %" PRId64 " of the pool\n", p->buffers[i].name,
                        p->buffers[i].bytes, p->buffers[i].offset);
    fb_str_addf(&out, "pool: %" PRId64 " bytes; all: %" PRId64 "\n", p->pool_bytes, p->total_bytes);
    fb_program_print_tables(p, &out);
    show("program for", p->language, &out);
}
