/* Commands: what can be done, as one table (commands.def), and the keys that do it. */
#ifndef FB_TUI_VIEW_COMMAND_H
#define FB_TUI_VIEW_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
#define COMMAND(ID, ...) FB_CMD_##ID,
#include "tui/view/commands.def"
#undef COMMAND
    FB_COMMANDS,
    FB_CMD_NONE = -1,
} fb_cmd;

typedef enum { FB_SECTION_EDIT, FB_SECTION_COLUMNS, FB_SECTION_MOVE, FB_SECTION_VIEW, FB_SECTIONS } fb_section;

/* What a command needs; the first that is not there gives the reason why it is off (app.c). */
typedef enum {
    NEED_NOTHING,
    NEED_SCRIPT_PATH, /* a script was asked for, loaded or not */
    NEED_SCRIPT,
    NEED_LESSON,
    NEED_PUZZLE, /* the script asks one */
    NEED_COLUMN,
    NEED_PLAN, /* the column's plan is ours to edit */
    NEED_NODE, /* the cursor is on a node of it */
    NEED_EDGE, /* the cursor's row has an edge */
    NEED_SCOPE,
    NEED_BUSY,
} fb_need;

typedef struct {
    fb_section section;
    const char *name, *keys, *hint, *args, *help;
    fb_need needs;
} fb_cmd_info;

const fb_cmd_info *fb_cmd_get(fb_cmd c);
const char *fb_command_section_name(fb_section s);
fb_cmd fb_cmd_find(const char *name, size_t n); /* exact, or FB_CMD_NONE */

/* A key as one number: a character's code point, a control character, or FB_KEY_… . */
enum {
    FB_KEY_UP = 0x110000,
    FB_KEY_DOWN,
    FB_KEY_LEFT,
    FB_KEY_RIGHT,
    FB_KEY_PAGE_UP,
    FB_KEY_PAGE_DOWN,
    FB_KEY_HOME,
    FB_KEY_END,
    FB_KEY_BACK_TAB,
    FB_KEY_DELETE,
    FB_KEY_BACKSPACE,
    FB_KEY_F1,
    FB_KEY_F2,
    FB_KEY_F3,
    FB_KEY_F4,
    FB_KEY_F5,
    FB_KEY_F6,
    FB_KEY_F7,
    FB_KEY_MOUSE, /* what it did is asked of curses */
    FB_KEY_NONE = -1,
    FB_KEY_ESC = 27,
    FB_KEY_ENTER = 13,
    FB_KEY_TAB = 9,
};

/* "Space", "C-l", "PgUp", "x" → key; FB_KEY_NONE when it is none. */
int fb_key_parse(const char *name, size_t n);
/* The key as curses gave it (`code`: a function key, else a character). */
int fb_key_of_curses(bool code, unsigned value);
fb_cmd fb_cmd_of_key(int key);

/* The user's own keys: a key that is given to one command is taken from the others. False: there is no such key, or no
 * room for one more. */
void fb_cmd_clear_keys(fb_cmd c);
bool fb_cmd_add_key(fb_cmd c, const char *name);

#endif
