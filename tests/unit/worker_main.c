/* A worker and nothing else, for tests/unit/test_worker.c. */
#include "base/json.h"
#include "worker/worker.h"

#include <unistd.h>

int main(void)
{
    fb_json_init();
    return fb_worker_serve(STDIN_FILENO, STDOUT_FILENO);
}
