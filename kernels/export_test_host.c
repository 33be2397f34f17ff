
static void *place(const tensor *t)
{
    /* beside 64 bytes, so that a tensor need not be aligned to more than its type */
    char *block = aligned_alloc(64, (size_t)(t->bytes + 191) / 64 * 64);
    need(block != NULL, "no memory");
    return block + t->alignment;
}

static void reset(void)
{
    for (int i = 0; i < TENSORS; i++) {
        tensor *t = &tensors[i];
        if (t->given)
            memcpy(t->now, t->bytes_given, (size_t)t->bytes);
        else
            memset(t->now, 0xff, (size_t)t->bytes);
    }
}

static void fill(NAME(tensors) * all)
{
    memset(all, 0, sizeof *all);
    for (int i = 0; i < TENSORS; i++) memcpy((char *)all + tensors[i].at, &tensors[i].now, sizeof(void *));
}

/* What a caller may get wrong is refused, each with a sentence. */
static void refusals(handle *h, const NAME(tensors) * all)
{
    for (int i = 0; i < TENSORS; i++) {
        NAME(tensors) other = *all;
        void *none = NULL, *odd = (char *)tensors[i].now + 1;
        if (!tensors[i].bytes) continue;
        memcpy((char *)&other + tensors[i].at, &none, sizeof none);
        need(NAME(run)(h, &other) == CODE(NULL) && *NAME(error)(h), "a missing tensor is refused");
        if (tensors[i].alignment > 1) {
            memcpy((char *)&other + tensors[i].at, &odd, sizeof odd);
            need(NAME(run)(h, &other) == CODE(MISALIGNED), "a misaligned tensor is refused");
        }
        for (int k = 0; k < TENSORS && tensors[i].written; k++) {
            if (k == i || !tensors[k].bytes || tensors[k].alignment < tensors[i].alignment) continue;
            memcpy((char *)&other + tensors[i].at, &tensors[k].now, sizeof(void *));
            need(NAME(run)(h, &other) == CODE(OVERLAP), "what is written over another tensor is refused");
        }
    }
    need(NAME(run)(NULL, all) == CODE(NULL) && NAME(run)(h, NULL) == CODE(NULL), "nothing is refused");
}

int main(int argc, char **argv)
{
    handle *h;
    NAME(tensors) all;
    double worst = 0;
    int checked = 0;
    bool fine = true;
    data = fopen(argc > 1 ? argv[1] : "test/data.bin", "rb");
    need(data != NULL, "test/data.bin cannot be opened");
    for (int i = 0; i < TENSORS; i++) {
        tensor *t = &tensors[i];
        if (t->given) t->bytes_given = read_all((size_t)t->bytes);
        if (t->checked) t->expected = read_all((size_t)t->elements * sizeof(double));
        if (t->checked) t->allowed = read_all((size_t)t->elements * sizeof(float));
        t->now = place(t);
    }
    need(fgetc(data) == EOF, "test/data.bin is too long");
    need(NAME(create)(&h) == CODE(OK), "a handle is made");
    fill(&all);
    reset();
    refusals(h, &all);
    /* twice: nothing of a run before is left in the handle */
    for (int run = 0; run < 2 && fine; run++) {
        reset();
        need(NAME(run)(h, &all) == CODE(OK), "it runs");
        for (int i = 0; i < TENSORS; i++) {
            const tensor *t = &tensors[i];
            if (t->checked) fine &= compare(t, t->now, &worst);
            if (t->given && !t->written) need(!memcmp(t->now, t->bytes_given, (size_t)t->bytes), "inputs stay");
            checked += t->checked;
        }
    }
    if (fine)
        printf("ok: %d tensors, the largest error %.2g of what is allowed%s%s\n", checked / 2, worst,
               *NAME(library)(h) ? ", products by " : "", NAME(library)(h));
    NAME(destroy)(h);
    return !fine;
}
