/* Takes [VARIANT:]PLAN[@DEVICE][#VALUES] apart. Needs no session: what the parts mean is asked later. */
#include "session/names.h"

#include "base/mem.h"
#include "base/str.h"
#include "interp/input.h"

#include <string.h>

static char *part(const char *from, size_t n)
{
    char *to = fb_alloc(n + 1);
    memcpy(to, from, n);
    to[n] = '\0';
    return to;
}

/* "#zeros" at the end; "plan#2.json" is a file. */
static const char *values_of(const char *text)
{
    const char *at = strrchr(text, '#');
    return at && !strpbrk(at, "./@") ? at : NULL;
}

static bool known_values(const char *name, fb_error *err)
{
    fb_input_kind kind;
    const char *names[FB_INPUT_KINDS];
    for (int k = 0; k < FB_INPUT_KINDS; k++) names[k] = fb_input_kind_name((fb_input_kind)k);
    if (fb_input_kind_parse(name, &kind)) return true;
    return fb_fail_unknown(err, FB_ERR_USAGE, "values", name, names, FB_INPUT_KINDS);
}

/* A device may hold a colon (cuda:0), so the @ is looked for first. A plan file may hold one too, or an @ in a folder's
 * name: what stands before a colon is a variant only when it is a name, and a device starts with a letter and holds no
 * slash. */
bool fb_column_spec_parse(const char *text, fb_column_spec *out, fb_error *err)
{
    *out = (fb_column_spec){0};
    const char *values = values_of(text), *end = values ? values : text + strlen(text), *at = end;
    while (at > text && *at != '@') at--;
    if (*at != '@' || memchr(at, '/', (size_t)(end - at))) at = NULL;
    size_t n = (size_t)((at ? at : end) - text);
    if (values && !known_values(values + 1, err)) return false;
    const char *colon = memchr(text, ':', n);
    if (colon) {
        out->variant = part(text, (size_t)(colon - text));
        if (out->variant[0] && !fb_str_is_name(out->variant)) {
            fb_free(out->variant);
            out->variant = NULL;
            colon = NULL;
        }
    }
    const char *plan = colon ? colon + 1 : text;
    out->plan = part(plan, n - (size_t)(plan - text));
    if (at) out->device = part(at + 1, (size_t)(end - at - 1));
    if (values) out->values = part(values + 1, strlen(values + 1));
    if (out->plan[0] && !(at && !out->device[0])) return true;
    fb_fail(err, FB_ERR_USAGE,
            "\"%.100s\" is no column: it must be [VARIANT:]PLAN[@DEVICE][#VALUES], such as \"max\" or \"eager@host\"",
            text);
    fb_column_spec_free(out);
    return false;
}

bool fb_column_spec_has(const fb_column_spec *spec, const char *values)
{
    const char *noise = fb_input_kind_name(FB_INPUT_NOISE);
    return strcmp(spec->values ? spec->values : noise, values ? values : noise) == 0;
}

void fb_column_spec_free(fb_column_spec *spec)
{
    fb_free(spec->variant);
    fb_free(spec->plan);
    fb_free(spec->device);
    fb_free(spec->values);
    *spec = (fb_column_spec){0};
}
