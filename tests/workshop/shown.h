/* What a workbench's screen says of its columns: read from the pane "columns", as a person would. */
#ifndef FB_TESTS_WORKSHOP_SHOWN_H
#define FB_TESTS_WORKSHOP_SHOWN_H

#include "line.h"

typedef struct {
    char plan[32], variant[32]; /* "max"; "" where it cannot be read */
    shown_figures f;            /* without the mark of doubt; "" of what is not known (yet) */
} shown_column;

enum { SHOWN_COLUMNS = 12 };
/* The columns whose wall time stands there without a sign, as measured: how many. `screen` as term_screen gives it. */
int shown_columns(const char *screen, shown_column out[SHOWN_COLUMNS]);

#endif
