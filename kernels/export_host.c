/* ---- the same for every export ---- */

static int64_t aligned(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Gives out the workspace; with h->workspace NULL it only counts. */
static char *take(handle *h, int64_t *used, int64_t bytes)
{
    char *at = h->workspace ? h->workspace + *used : NULL;
    *used += aligned(bytes);
    return at;
}

static int64_t lay_out(handle *h)
{
    int64_t used = 0;
    h->pool = take(h, &used, pool_bytes);
    h->aside = take(h, &used, ASIDE_BYTES);
#if HAS_PRODUCTS
    for (int i = 0; i < PRODUCTS; i++) {
        fbx_call *c = &h->calls[i];
        c->product = &products[i];
        fbx_wide(c->product, c->extent, c->before);
        bool half = c->product->type == FBX_F16 || c->product->type == FBX_BF16;
        for (int k = 0; k < 3; k++) c->wide[k] = half ? (float *)(void *)take(h, &used, (c->extent[k] + 1) * 4) : NULL;
    }
#endif
#if HAS_CHAINS
    for (int i = 0; i < CHAINS; i++) {
        fbx_chain *c = &h->chains[i];
        c->link = links[i], c->n = n_links[i], c->blas = &h->blas;
        c->threads = fbx_threads();
        c->block_bytes = aligned(block_bytes[i]);
        c->blocks = take(h, &used, c->block_bytes * c->threads);
        c->taken = (void *)take(h, &used, (int64_t)sizeof *c->taken * c->threads);
        for (int l = 0; l < c->n; l++)
            for (int k = 0; k < 2; k++) {
                fbx_type type = c->link[l].product.type;
                bool half = (type == FBX_F16 || type == FBX_BF16) && c->link[l].buffer[k] >= 0;
                c->wide[l][k] = half ? (float *)(void *)take(h, &used, (c->link[l].elements[k] + 1) * 4) : NULL;
            }
    }
#endif
    return used;
}

NAME(status) NAME(create)(handle **to)
{
    if (!to) return CODE(NULL);
    *to = NULL;
    handle *h = calloc(1, sizeof *h);
    if (!h) return CODE(NO_MEMORY);
    int64_t bytes = lay_out(h) + 256;
    h->workspace = aligned_alloc(256, (size_t)aligned(bytes));
    if (!h->workspace) {
        free(h);
        return CODE(NO_MEMORY);
    }
    memset(h->workspace, 0, (size_t)bytes);
    lay_out(h);
#if HAS_LIBRARY
    fbx_blas_open(&h->blas);
#endif
    atomic_flag_clear(&h->busy);
    *to = h;
    return CODE(OK);
}

void NAME(destroy)(handle *h)
{
    if (!h) return;
    free(h->workspace); /* the library stays open: its threads may live in it */
    free(h);
}

static NAME(status) refuse(handle *h, NAME(status) status, const char *which, const char *with)
{
    snprintf(h->message, sizeof h->message, "%s: %s%s%s", which, NAME(explain)(status), *with ? ": " : "", with);
    return status;
}

static NAME(status) look(handle *h, const NAME(tensors) * t, char **home)
{
    for (int i = 0; i < TENSORS; i++) {
        char *at;
        memcpy(&at, (const char *)t + tensors[i].at, sizeof at);
        if (!at && tensors[i].bytes) return refuse(h, CODE(NULL), tensors[i].name, "");
        if ((uintptr_t)at % (uintptr_t)tensors[i].alignment) return refuse(h, CODE(MISALIGNED), tensors[i].name, "");
        home[tensors[i].buffer] = at;
    }
    for (int i = 0; i < TENSORS; i++)
        for (int k = 0; k < TENSORS && tensors[i].written; k++) {
            uintptr_t a = (uintptr_t)home[tensors[i].buffer], b = (uintptr_t)home[tensors[k].buffer];
            bool apart = a + (uintptr_t)tensors[i].bytes <= b || b + (uintptr_t)tensors[k].bytes <= a;
            if (k != i && tensors[i].bytes && tensors[k].bytes && !apart)
                return refuse(h, CODE(OVERLAP), tensors[i].name, tensors[k].name);
        }
    return CODE(OK);
}

NAME(status) NAME(run)(handle *h, const NAME(tensors) * t)
{
    char *home[BUFFERS + 1] = {NULL};
    if (!h) return CODE(NULL);
    if (atomic_flag_test_and_set(&h->busy)) return CODE(BUSY);
    h->message[0] = '\0';
    NAME(status) status = t ? look(h, t, home) : refuse(h, CODE(NULL), "tensors", "");
    if (status == CODE(OK)) {
        memcpy(h->b, home, sizeof h->b);
        place(h);
#if HAS_LIBRARY
        fbx_blas_begin(&h->blas);
#endif
        launch(h);
#if HAS_LIBRARY
        fbx_blas_end(&h->blas);
#endif
        settle(h, home);
    }
    atomic_flag_clear(&h->busy);
    return status;
}

const char *NAME(explain)(NAME(status) status)
{
    switch (status) {
    case CODE(OK): return "well";
    case CODE(NULL): return "is missing";
    case CODE(MISALIGNED): return "does not begin where its type may";
    case CODE(OVERLAP): return "is written, and lies over another tensor";
    case CODE(BUSY): return "the handle runs already";
    case CODE(NO_MEMORY): return "no memory";
    case CODE(NO_DEVICE): return "no device";
    case CODE(NO_CODE): return "no code for this architecture";
    case CODE(NO_LIBRARY): return "no library";
    }
    return "no such status";
}

const char *NAME(error)(const handle *h)
{
    return h ? h->message : "";
}

const char *NAME(library)(const handle *h)
{
#if HAS_LIBRARY
    return !h ? "" : h->blas.handle ? h->blas.name : "none was found: plain loops";
#else
    (void)h;
    return "";
#endif
}
