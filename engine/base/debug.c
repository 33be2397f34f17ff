/* Reads FB_DEBUG each time it is asked, which is once a pass: there is no state to go stale. */
#include "base/debug.h"

#include "base/file.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool fb_debug(char letter)
{
    const char *letters = getenv("FB_DEBUG");
    return letters && strchr(letters, letter);
}

bool fb_debug_any(void)
{
    const char *letters = getenv("FB_DEBUG");
    return letters && *letters;
}

void fb_debug_show(const char *title, const char *text)
{
    fb_str all = {0};
    fb_str_addf(&all, "> %s\n%s", title, text);
    fb_write_all(STDERR_FILENO, all.text, all.n);
    fb_str_free(&all);
}
