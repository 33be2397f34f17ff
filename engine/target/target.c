/* The list of targets, and what several of them share. Needs nothing; leaves const rows. */
#include "target/target.h"

#include <string.h>

const fb_type_spelling fb_c_types[FB_DTYPES] = {
    [FB_F32] = {"float", "float", "$0", "$0"},
    [FB_F16] = {"float", "fb_f16", "fb_from_f16($0)", "fb_to_f16($0)"},
    [FB_BF16] = {"float", "fb_bf16", "fb_from_bf16($0)", "fb_to_bf16($0)"},
    [FB_F64] = {"double", "double", "$0", "$0"},
    [FB_I32] = {"int32_t", "int32_t", "$0", "$0"},
    [FB_I64] = {"int64_t", "int64_t", "$0", "$0"},
    [FB_BOOL] = {"bool", "uint8_t", "$0", "$0"},
};

/* What plans for itself. Where nothing is known of its machine, a GPU is guessed. */
const fb_target fb_target_foreign = {
    .kind = FB_DEVICE_FOREIGN,
    .language = FB_LANGUAGE_NONE,
    .device = "foreign",
    .name = "",
    .title = "",
    .ending = "",
    .called = "another framework",
    .units = "units",
    .near = {"a unit has", "there"},
    .grid = true,
    .copy_engines = true,
};

static const fb_target *const targets[] = {&fb_target_c, &fb_target_cuda, &fb_target_foreign};
enum { TARGETS = sizeof targets / sizeof *targets };

const fb_target *fb_target_of(fb_device_kind kind)
{
    for (int i = 0; i < TARGETS; i++)
        if (targets[i]->kind == kind) return targets[i];
    return &fb_target_foreign;
}

const fb_target *fb_target_written(int i)
{
    for (int k = 0; k < TARGETS; k++)
        if (targets[k]->generates && i-- == 0) return targets[k];
    return NULL;
}

const fb_target *fb_target_find(const char *name)
{
    for (int i = 0; i < TARGETS; i++)
        if (targets[i]->generates && strcmp(targets[i]->name, name) == 0) return targets[i];
    return NULL;
}

const fb_target *fb_target_everywhere(void)
{
    for (int i = 0; i < TARGETS; i++)
        if (targets[i]->stands_in) return targets[i];
    return &fb_target_foreign;
}

const fb_target *fb_target_assembled(void)
{
    for (int i = 0; i < TARGETS; i++)
        if (targets[i]->assembles) return targets[i];
    return &fb_target_foreign;
}

const fb_target *fb_target_of_device(const char *kind)
{
    if (strcmp(kind, "replay") == 0) return &fb_target_cuda;
    for (int i = 0; i < TARGETS; i++)
        if (strcmp(targets[i]->device, kind) == 0) return targets[i];
    return &fb_target_foreign;
}
