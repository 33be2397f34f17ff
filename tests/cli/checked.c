/* checked -r FILE: what a file with a checksum holds (base/checked.h), to stdout; checked -w FILE: stdin into one,
 * under its own name. For tests that change what is kept. */
#include "base/checked.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 1 << 24 };

static int show(const char *path)
{
    size_t n;
    char *text = fb_checked_read(path, fb_file_name(path), MOST, &n);
    if (!text) return 1;
    fwrite(text, 1, n, stdout);
    fb_free(text);
    return 0;
}

static int keep(const char *path)
{
    char *text = fb_alloc(MOST);
    size_t n = fread(text, 1, MOST, stdin);
    bool ok = fb_checked_write(path, fb_file_name(path), text, n, NULL);
    fb_free(text);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "-r") == 0) return show(argv[2]);
    if (argc == 3 && strcmp(argv[1], "-w") == 0) return keep(argv[2]);
    return 2;
}
