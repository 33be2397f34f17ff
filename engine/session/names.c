/* Takes [VARIANT:]PLAN[@DEVICE] apart. Needs no session: what the parts mean is asked later. */
#include "session/names.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

static char *part(const char *from, size_t n)
{
    char *to = fb_alloc(n + 1);
    memcpy(to, from, n);
    to[n] = '\0';
    return to;
}

/* A device may hold a colon (cuda:0), so the @ is looked for first. A plan file may hold one too, or an @ in a folder's
 * name: what stands before a colon is a variant only when it is a name, and a device starts with a letter and holds no
 * slash. */
bool fb_column_spec_parse(const char *text, fb_column_spec *out, fb_error *err)
{
    *out = (fb_column_spec){0};
    const char *at = strrchr(text, '@');
    if (at && strchr(at, '/')) at = NULL;
    size_t n = at ? (size_t)(at - text) : strlen(text);
    const char *colon = memchr(text, ':', n);
    if (colon) {
        out->variant = part(text, (size_t)(colon - text));
        if (out->variant[0] && !fb_name_ok(out->variant)) {
            fb_free(out->variant);
            out->variant = NULL;
            colon = NULL;
        }
    }
    const char *plan = colon ? colon + 1 : text;
    out->plan = part(plan, n - (size_t)(plan - text));
    if (at) out->device = part(at + 1, strlen(at + 1));
    if (out->plan[0] && !(at && !out->device[0])) return true;
    fb_fail(err, FB_ERR_USAGE,
            "\"%.100s\" is no column: it must be [VARIANT:]PLAN[@DEVICE], such as \"max\" or \"eager@host\"", text);
    fb_column_spec_free(out);
    return false;
}

void fb_column_spec_free(fb_column_spec *spec)
{
    fb_free(spec->variant);
    fb_free(spec->plan);
    fb_free(spec->device);
    *spec = (fb_column_spec){0};
}
