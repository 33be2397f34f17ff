#include "session/names.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 64 };

/* Levenshtein's distance, two rows at a time. Longer names are far from everything. */
static int distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST) return LONGEST;
    int row[LONGEST + 1];
    for (size_t j = 0; j <= nb; j++) row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

const char *fb_nearest(const char *name, const char *const *known, int n)
{
    const char *best = NULL;
    int least = 1 + (int)strlen(name) / 3; /* a third of the letters may be wrong */
    for (int i = 0; i < n; i++) {
        if (!known[i]) continue;
        bool starts = strlen(name) >= 3 && strncasecmp(name, known[i], strlen(name)) == 0;
        int d = starts ? 0 : distance(name, known[i]);
        if (d <= least && (!best || d < least)) {
            best = known[i];
            least = d;
        }
    }
    return best;
}

bool fb_fail_unknown(fb_error *err, fb_error_kind kind, const char *what, const char *name, const char *const *known,
                     int n)
{
    const char *near = fb_nearest(name, known, n);
    if (near) return fb_fail(err, kind, "no %s \"%.80s\"; did you mean \"%s\"?", what, name, near);
    if (n == 0) return fb_fail(err, kind, "no %s \"%.80s\"; there is none", what, name);
    fb_str list = {0};
    for (int i = 0; i < n; i++)
        if (known[i]) fb_str_addf(&list, "%s%s", list.n ? ", " : "", known[i]);
    fb_fail(err, kind, "no %s \"%.80s\"; there are: %s", what, name, fb_str_get(&list));
    fb_str_free(&list);
    return false;
}

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
