/* The nearest of many names. */
#include "base/near.h"

#include "base/ascii.h"
#include "base/str.h"

#include <stdbool.h>
#include <string.h>

enum { LONGEST = 64 };

/* Edits of one letter, two neighbours that change places being one: the last three rows of the table. Longer names are
 * far from everything. */
static int distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST) return LONGEST;
    int rows[3][LONGEST + 1];
    for (size_t j = 0; j <= nb; j++) rows[0][j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[na % 3][nb];
}

const char *fb_nearest(const char *name, const char *const *known, int n)
{
    const char *best = NULL;
    int least = 1 + (int)strlen(name) / 3; /* a third of the letters may be wrong */
    for (int i = 0; i < n; i++) {
        if (!known[i]) continue;
        bool starts = strlen(name) >= 3 && fb_ascii_begins(known[i], name, strlen(name));
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
