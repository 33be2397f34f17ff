/* Looking at passes: FB_DEBUG holds letters, and each pass whose letter is there shows what it leaves. The one place
 * below tui/ that writes for people to read, on stderr, which no protocol uses. docs/DEBUGGING.md lists the letters. */
#ifndef FB_BASE_DEBUG_H
#define FB_BASE_DEBUG_H

#include <stdbool.h>

/* Is the letter in FB_DEBUG? */
bool fb_debug(char letter);
/* Is any? */
bool fb_debug_any(void);
/* "> TITLE" and the text, in one write, so that several processes do not mix theirs. */
void fb_debug_show(const char *title, const char *text);

#endif
