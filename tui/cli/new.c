/* fusebox new: a script to start from. */
#include "tui/cli/cli.h"

#include "base/file.h"
#include "base/mem.h"
#include "session/library.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char standard[] = "-- A model for fusebox. Types for editors: fusebox.d.lua.\n"
                               "local fb, nn = require \"fusebox\", require \"nn\"\n"
                               "\n"
                               "return fb.script {\n"
                               "  title = \"My model\",\n"
                               "  params = {\n"
                               "    batch = fb.int { 256, min = 1, max = 65536, step = \"x2\" },\n"
                               "    width = fb.int { 512, min = 1, max = 8192, step = \"x2\" },\n"
                               "  },\n"
                               "  model = function(g, p)\n"
                               "    local x = g:input(\"x\", { p.batch, p.width })\n"
                               "    return nn.layer_norm(x:relu()):tanh()\n"
                               "  end,\n"
                               "}\n";

static int from_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    (void)state;
    if (key != 'f') return ARGP_ERR_UNKNOWN;
    *(const char **)ctx = arg;
    return 0;
}

/* Never over a file that is there. */
static bool write_new(const char *path, const char *text, fb_error *err)
{
    int fd = fb_file_open(path, FB_FILE_WRITE | FB_FILE_NEW, err);
    if (fd < 0) {
        if (err) err->kind = FB_ERR_INPUT;
        return false;
    }
    int why = fb_write_all(fd, text, strlen(text)) ? 0 : errno;
    if (close(fd) < 0 && !why) why = errno;
    if (!why) return true;
    unlink(path);
    return fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(why));
}

static int new_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"from", 'f', "NAME", 0, "Copy a bundled script, or a file, instead of a minimal model", 0},
        {0},
    };
    const char *from = NULL;
    fb_cli cli = {.least = 1, .most = 1, .own = from_key, .ctx = &from};
    fb_cli_parse(&cli, me, options, argc, argv);
    fb_arena *arena = fb_arena_new();
    fb_error err = {0};
    const char *path = from ? fb_find_script(from, arena, &err) : NULL;
    char *text = path ? fb_session_script_text(path) : from ? NULL : fb_strdup(standard);
    if (path && !text) fb_fail(&err, FB_ERR_INPUT, "%s: cannot be read", path);
    int status = text && write_new(cli.args[0], text, &err) ? FB_EXIT_FINE : fb_cli_fail(&err);
    fb_free(text);
    fb_arena_free(arena);
    fb_cli_free(&cli);
    return status;
}

const fb_command fb_command_new = {.name = "new", .args = "FILE", .summary = "A script to start from", .run = new_main};
