/* What reads bytes that came from outside, one function a format. Each is given any bytes and must neither crash nor
 * hang nor leak; what it accepts must be what it says it is (written and read again it is the same). abort() is the
 * sign of a finding, so that a fuzzer keeps the input.
 *
 * Two programs go over them: replay.c runs files through one, as a part of the tests; libfuzzer.c is guided by coverage
 * (make check-fuzz, clang).
 */
#ifndef TESTS_FUZZ_DECODERS_H
#define TESTS_FUZZ_DECODERS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name; /* also of its folder in tests/fuzz/corpus */
    void (*run)(const uint8_t *bytes, size_t n);
} decoder;

extern const decoder decoders[];
extern const int n_decoders;

const decoder *decoder_find(const char *name); /* NULL */

/* ---- talk.c: messages between processes ---- */

void run_requests(const uint8_t *bytes, size_t n);
void run_answers(const uint8_t *bytes, size_t n);
void run_script_info(const uint8_t *bytes, size_t n);

/* ---- state.c: settings, and what is kept between runs ---- */

void run_config(const uint8_t *bytes, size_t n);
void run_state(const uint8_t *bytes, size_t n);

/* ---- lua.c: scripts, as grammar.c writes them ---- */

void run_lua_graph(const uint8_t *bytes, size_t n);
void run_lua_plan(const uint8_t *bytes, size_t n);
void run_lua_experiment(const uint8_t *bytes, size_t n);

#endif
