/* What `fusebox emit` prints of a plan: source in C or CUDA, what NVRTC makes of it, and what its kernels use. Needs no
 * GPU. */
#ifndef FB_TUI_CLI_EMIT_H
#define FB_TUI_CLI_EMIT_H

#include "base/str.h"
#include "plan/plan.h"

#include <stdio.h>

typedef enum { FB_EMIT_SOURCE, FB_EMIT_PTX, FB_EMIT_SASS, FB_EMIT_RESOURCES } fb_cli_emit_form;

typedef struct {
    const fb_target *written; /* NULL: what the column's device takes */
    fb_cli_emit_form form;
} fb_cli_emit_target;

/* A language, or what is made of CUDA. False where there is none of that name. */
bool fb_cli_emit_target_parse(const char *name, fb_cli_emit_target *out);
/* "c, cuda, ptx …": all there are. */
void fb_cli_emit_targets(fb_str *out);

/* Makes `m` what is known of a target's architecture; of CUDA (also NULL) "sm_90", or "sm_90a" with its features; NULL:
 * Hopper's. An error of usage when it is none. */
bool fb_cli_emit_machine(const fb_target *target, const char *arch, fb_machine *m, fb_error *err);

/* Those kernels of the program that have the name; if none has, those that run the groups. */
typedef struct {
    const char *name; /* NULL: all of them */
    const int *groups;
    int n_groups;
} fb_cli_emit_choice;

/* `arch` NULL: the one of `m`, the machine that the plan was made for. *nothing: the plan calls a library alone, and no
 * kernel was generated. */
bool fb_cli_emit(const fb_plan *plan, fb_cli_emit_target target, const char *arch, const fb_cli_emit_choice *which,
                 const fb_machine *m, FILE *out, bool *nothing, fb_error *err);

#endif
