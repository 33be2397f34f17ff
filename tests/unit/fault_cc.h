/* A compiler that puts a mistake into generated kernels: a script for $CC that inserts C at the start or end of every
 * kernel whose text has `mark` in it, then runs the real one. The host's own runtime is left alone. */
#ifndef FB_TESTS_FAULT_CC_H
#define FB_TESTS_FAULT_CC_H

#include "base/json.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* `shell`: what to do instead of a text change when a marked kernel is compiled; NULL: nothing. */
static inline void fault_compiler(const char *dir, const char *name, const char *mark, const char *at_start,
                                  const char *at_end, const char *shell)
{
    char path[512];
    fb_str s = {0};
    fb_str_addf(&s,
                "#!/bin/sh\n[ \"$1\" = --version ] && exec cc --version\nfor f; do case $f in *.c)\n"
                "  if grep -q '%s' \"$f\" && ! grep -q fb_team_threads \"$f\"; then\n    %s\n",
                mark, shell ? shell : ":");
    if (at_start)
        fb_str_addf(&s,
                    "    printf '%%s\\n' '%s' > \"$f.start\"; sed -i \"/^void .*_kernel(/{n;r $f.start\n}\" \"$f\"\n",
                    at_start);
    if (at_end)
        fb_str_addf(&s,
                    "    n=$(grep -n '^}' \"$f\" | tail -1 | cut -d: -f1); sed -i \"${n}d\" \"$f\"; printf '%%s\\n' "
                    "'%s' '}' >> \"$f\"\n",
                    at_end);
    fb_str_add(&s, "  fi;; esac; done\nexec cc \"$@\"\n");
    snprintf(path, sizeof path, "%s/%s", dir, name);
    fb_error err = {0};
    if (!fb_write_file(path, s.text, s.n, &err)) fail_msg("%s", err.text);
    chmod(path, 0755);
    setenv("CC", path, 1);
    fb_str_free(&s);
}

#endif
