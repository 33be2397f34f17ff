/* The workbench over the session of fake_session.c: what the terminal tests run. [--keys FILE] [PATH] */
#include "fake_session.h"
#include "tui/view/app.h"

#include <string.h>

int main(int argc, char **argv)
{
    fb_tui_options o = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--keys") && i + 1 < argc)
            o.keys_file = argv[++i];
        else
            o.path = argv[i];
    }
    o.session = fake_session_new();
    int status = fb_tui_main(&o);
    fb_session_free(o.session);
    return status;
}
