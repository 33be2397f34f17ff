/* Inside the actions: a function a command, where it is not in actions.c itself. */
#ifndef FB_TUI_VIEW_ACTIONS_H
#define FB_TUI_VIEW_ACTIONS_H

#include "tui/view/ui.h"

typedef void fb_action_fn(fb_app *app, const char *arg); /* arg: what was typed after the command's name; else "" */

/* ---- actions_columns.c ---- */

fb_action_fn fb_do_variant, fb_do_plan, fb_do_search, fb_do_device, fb_do_add, fb_do_copy, fb_do_drop, fb_do_fresh,
    fb_do_move_left, fb_do_move_right, fb_do_column, fb_do_measure, fb_do_automatic, fb_do_cancel, fb_do_calibrate,
    fb_do_set, fb_do_export, fb_do_save;

#endif
