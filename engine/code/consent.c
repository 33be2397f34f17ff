/* What a user's kernel file reads (consent.h).
 *
 * No preprocessor is needed to be sure. A directive starts with # (or %: or ??=), whatever blanks, comments and
 * continued lines stand after it, and none can be put together by a macro. So every such sign is looked at, wherever it
 * stands. An assembler's directives can be put together by macros of C, so they are looked for in what the compiler
 * made, where only the assembler's own macros could still do that: those are refused, too. */
#include "code/consent.h"

#include "base/ascii.h"
#include "base/mem.h"
#include "base/str.h"

#include <ctype.h>
#include <string.h>

/* Continued lines joined, as the preprocessor does first. `\1` stands where a line went on, to count lines by. */
static char *joined(const char *text)
{
    char *out = fb_alloc(strlen(text) + 1), *to = out;
    for (const char *at = text; *at;) {
        size_t blank = *at == '\\' ? 1 + strspn(at + 1, " \t\v\f\r") : 0;
        if (blank && at[blank] == '\n') {
            *to++ = '\1';
            at += blank + 1;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
    return out;
}

static const char *past_joints(const char *at)
{
    while (*at == '\1') at++;
    return at;
}

/* Past blanks and comments of one directive. */
static const char *past_blanks(const char *at)
{
    for (;;) {
        while (*at == '\1' || (*at != '\n' && isspace((unsigned char)*at))) at++;
        const char *next = *at == '/' ? past_joints(at + 1) : at;
        if (*at != '/' || *next != '*') return at;
        for (at = next + 1; *at; at++)
            if (*at == '*' && *past_joints(at + 1) == '/') break;
        if (*at) at = past_joints(at + 1) + 1;
    }
}

/* The word at `*at`, which moves past it; longer ones are cut. */
static void take_word(const char **at, char to[16])
{
    size_t n = 0;
    for (;; (*at)++) {
        if (**at == '\1') continue;
        if (!isalnum((unsigned char)**at) && **at != '_') break;
        if (n < 15) to[n++] = **at;
    }
    to[n] = '\0';
}

static bool reads_a_file(const char *word)
{
    static const char *const words[] = {"include", "include_next", "import", "embed"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

/* <name.h> or <folder/name.h>, without a way out of the folders that are searched. */
static bool is_system_header(const char *at)
{
    if (*at != '<' || at[1] == '/') return false;
    size_t n = 1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-./");
    if (at[n] != '>') return false;
    for (const char *dots = at; dots < at + n; dots++)
        if (dots[0] == '.' && dots[1] == '.') return false;
    return true;
}

static size_t sign_length(const char *at)
{
    if (*at == '#') return 1;
    if (*at == '%' && *past_joints(at + 1) == ':') return (size_t)(past_joints(at + 1) - at) + 1;
    return strncmp(at, "?\?=", 3) == 0 ? 3 : 0;
}

bool fb_consent_source(const char *file, const char *text, fb_error *err)
{
    char *whole = joined(text), word[16], what[80];
    int line = 1;
    bool good = true;
    for (const char *at = whole; *at && good; at++) {
        line += *at == '\n' || *at == '\1';
        size_t n = sign_length(at);
        if (!n) continue;
        const char *rest = past_blanks(at + n);
        take_word(&rest, word);
        rest = past_blanks(rest);
        if (!reads_a_file(word) || (word[0] == 'i' && word[1] == 'n' && is_system_header(rest))) continue;
        fb_text_clean(what, sizeof what, rest, strcspn(rest, "\n"));
        good = fb_fail(err, FB_ERR_INPUT,
                       "%s:%d: #%s %s: a kernel's file may include system headers alone (<name.h>), for one agrees to "
                       "run what this file holds",
                       file, line, word, what);
    }
    fb_free(whole);
    return good;
}

/* As the assembler takes them: in any case, anywhere in a line. */
bool fb_consent_assembly(const char *file, const char *assembly, fb_error *err)
{
    static const char *const directives[] = {".incbin", ".include", ".macro", ".irp", ".altmacro", ".rept"};
    for (const char *at = assembly; (at = strchr(at, '.')); at++)
        for (size_t i = 0; i < sizeof directives / sizeof *directives; i++)
            if (fb_ascii_begins(at, directives[i], strlen(directives[i])))
                return fb_fail(
                    err, FB_ERR_INPUT,
                    "%s: its assembly says %s: that could read another file, and one agrees to run what this "
                    "file holds",
                    file, directives[i]);
    return true;
}
