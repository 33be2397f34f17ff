/* Export for a GPU: calls of the driver, with cubins and PTX in arrays. */
#include "codegen/export_parts.h"

bool fb_export_program_cuda(fb_exporting *x)
{
    return fb_fail(x->err, FB_ERR_UNAVAILABLE, "not yet");
}
