/* Commands typed at the prompt, across runs: the last ones in $XDG_STATE_HOME/fusebox/commands, a line each. A file
 * that cannot be read or written is no reason to fail. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "session/library.h"
#include "tui/view/prompt.h"

#include <limits.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

int fb_past_parse(fb_prompt *p, char *text)
{
    int lines = 0;
    for (char *line; text && (line = strsep(&text, "\n")); lines += *line != '\0')
        if (*line) fb_prompt_remember(p, line);
    return lines;
}

void fb_past_read(fb_prompt *p)
{
    char path[PATH_MAX];
    if (!fb_state_path("commands", path, sizeof path)) return;
    char *text = fb_read_private_file(path, FILE_MAX, NULL, NULL);
    int lines = fb_past_parse(p, text);
    fb_free(text);
    if (lines <= 2 * FB_PROMPT_PAST) return;
    fb_str kept = {0}; /* the file does not grow for ever */
    for (int i = 0; i < p->past.n; i++) fb_str_addf(&kept, "%s\n", p->past.at[i]);
    fb_write_file(path, kept.text, kept.n, NULL);
    fb_str_free(&kept);
}

void fb_past_add(const char *command)
{
    char path[PATH_MAX];
    if (fb_state_path("commands", path, sizeof path)) fb_file_append(path, FB_FILE_PRIVATE, command, NULL);
}
