/* A hash table of names and a stack in the order in which they came, from whose top they may be forgotten. */
#include "code/names.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

#define uthash_malloc(size)      fb_alloc(size)
#define uthash_free(block, size) fb_free(block)
#include <uthash.h>

typedef struct {
    const char *text;
    int place;  /* in `order`, where it counts as long as it stands there */
    int number; /* the next to try, valid in `epoch` */
    int epoch;
    UT_hash_handle hh;
} entry;

struct fb_name_set {
    entry *entries;
    FB_VEC(const char *) order;
    int epoch; /* raised when names are forgotten: their numbers are free again */
};

fb_name_set *fb_names_new(void)
{
    return fb_calloc(1, sizeof(fb_name_set));
}

void fb_names_free(fb_name_set *s)
{
    entry *e, *next;
    HASH_ITER(hh, s->entries, e, next)
    {
        HASH_DEL(s->entries, e);
        fb_free(e);
    }
    FB_VEC_FREE(&s->order);
    fb_free(s);
}

static entry *find(const fb_name_set *s, const char *text)
{
    entry *e;
    HASH_FIND_STR(s->entries, text, e);
    return e;
}

static entry *find_or_make(fb_name_set *s, const char *text)
{
    entry *e = find(s, text);
    if (e) return e;
    e = fb_calloc(1, sizeof *e);
    *e = (entry){.text = text, .place = -1, .epoch = -1};
    HASH_ADD_KEYPTR(hh, s->entries, e->text, strlen(e->text), e);
    return e;
}

bool fb_names_has(const fb_name_set *s, const char *name)
{
    const entry *e = find(s, name);
    return e && e->place >= 0 && e->place < s->order.n && strcmp(s->order.at[e->place], name) == 0;
}

void fb_names_add(fb_name_set *s, const char *name)
{
    find_or_make(s, name)->place = s->order.n;
    FB_VEC_PUSH(&s->order, name);
}

int fb_names_count(const fb_name_set *s)
{
    return s->order.n;
}

void fb_names_forget(fb_name_set *s, int count)
{
    if (count >= s->order.n) return;
    s->order.n = count;
    s->epoch++;
}

int fb_names_number(const fb_name_set *s, const char *wish)
{
    const entry *e = find(s, wish);
    return e && e->epoch == s->epoch && e->number > 2 ? e->number : 2;
}

void fb_names_set_number(fb_name_set *s, const char *wish, int number)
{
    entry *e = find_or_make(s, wish);
    e->number = number;
    e->epoch = s->epoch;
}

/* Keywords, macros and types, in the order of their bytes. */
static const char *const words_of_c[] = {
    "BIG_ENDIAN",
    "BYTE_ORDER",
    "EOF",
    "EXIT_FAILURE",
    "EXIT_SUCCESS",
    "FP_INFINITE",
    "FP_NAN",
    "FP_NORMAL",
    "FP_SUBNORMAL",
    "FP_ZERO",
    "HUGE_VAL",
    "HUGE_VALF",
    "INFINITY",
    "INT32_MAX",
    "INT32_MIN",
    "INT64_MAX",
    "INT64_MIN",
    "LITTLE_ENDIAN",
    "MATH_ERRNO",
    "M_1_PI",
    "M_2_PI",
    "M_2_SQRTPI",
    "M_E",
    "M_LN10",
    "M_LN2",
    "M_LOG10E",
    "M_LOG2E",
    "M_PI",
    "M_PI_2",
    "M_PI_4",
    "M_SQRT1_2",
    "M_SQRT2",
    "NAN",
    "NULL",
    "PDP_ENDIAN",
    "RAND_MAX",
    "SIZE_MAX",
    "WNOHANG",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "assert",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "errno",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "i386",
    "if",
    "inline",
    "int",
    "int16_t",
    "int32_t",
    "int64_t",
    "int8_t",
    "linux",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "size_t",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uint8_t",
    "uintptr_t",
    "union",
    "unix",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
};

static int by_bytes(const void *name, const void *word)
{
    return strcmp(name, *(const char *const *)word);
}

/* Macros of the widths of integers: UINT32_MAX and its kind. */
static bool is_limit(const char *name)
{
    static const char *const ends[] = {"_MAX", "_MIN", "_C"};
    for (size_t i = 0; *name && i < sizeof ends / sizeof *ends; i++)
        if (fb_text_ends(name + 1, ends[i])) return !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")];
    return false;
}

bool fb_names_is_word(const char *name)
{
    return is_limit(name) ||
           bsearch(name, words_of_c, sizeof words_of_c / sizeof *words_of_c, sizeof *words_of_c, by_bytes) != NULL;
}
