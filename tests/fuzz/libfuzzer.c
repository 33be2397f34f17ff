/* Guided by coverage: FB_DECODER names the decoder; the rest is libFuzzer's (its main comes with -fsanitize=fuzzer). */
#include "fuzz/decoders.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

static const decoder *chosen;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    const char *name = getenv("FB_DECODER");
    chosen = name ? decoder_find(name) : NULL;
    if (!chosen) {
        fprintf(stderr, "FB_DECODER names none of:");
        for (int i = 0; i < n_decoders; i++) fprintf(stderr, " %s", decoders[i].name);
        fprintf(stderr, "\n");
        exit(2);
    }
    fb_json_init();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    chosen->run(bytes, n);
    return 0;
}
