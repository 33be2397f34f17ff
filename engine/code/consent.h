/* What a user's own kernel file may read while it is compiled.
 *
 * Somebody agrees to run native code by the SHA-256 of one text. What that text would pull in besides is not part of
 * it, so nothing is pulled in but the compiler's own headers: `#include <name.h>`, looked for where the compiler looks.
 * A file beside it, an absolute path, `#embed`, and `.incbin` or `.include` of an assembler are refused. */
#ifndef FB_CODE_CONSENT_H
#define FB_CODE_CONSENT_H

#include "base/error.h"

/* Of C or CUDA text: FB_ERR_INPUT with file and line where it reads more than system headers. Errs on the safe side:
 * a directive in a comment counts. */
bool fb_consent_source(const char *file, const char *text, fb_error *err);
/* Of what a compiler made of it, before that is assembled. */
bool fb_consent_assembly(const char *file, const char *assembly, fb_error *err);

#endif
