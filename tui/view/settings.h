/* The user's settings: $XDG_CONFIG_HOME/fusebox/config (else in ~/.config), one a line, # for comments.
 *
 *     theme light                dark, light, mono or contrast; FUSEBOX_THEME goes before it
 *     color good 114             a role's colour, a number of the 256; role names as in tui/term/theme.h
 *     key toggle Space f         all keys of a command, by its name at the : prompt; none takes them away
 *     mouse off                  on unless said
 *     reload off                 scripts are loaded again when they are saved, unless said
 *     clipboard off              what is copied goes to a file alone, not to the terminal's clipboard
 *     auto off                   measuring after each edit by itself, on unless said
 */
#ifndef FB_TUI_VIEW_SETTINGS_H
#define FB_TUI_VIEW_SETTINGS_H

#include "base/error.h"

typedef struct {
    bool mouse, reload, automatic, clipboard;
} fb_settings;

/* Sets keys and theme for this process. False with the first line that makes no sense, named; the lines before it hold.
 * A file that is not there is fine. */
bool fb_settings_read(fb_settings *c, fb_error *err);
/* The same of the file's text, which is taken apart; `path` is what the error calls it. *c holds what nobody sets. */
bool fb_settings_parse(fb_settings *c, char *text, const char *path, fb_error *err);

#endif
