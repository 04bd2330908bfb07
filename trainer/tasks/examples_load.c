#include "trainer/tasks/examples_load.h"

#include "base/text.h"
#include "trainer/tasks/examples_reader.h"

#include <errno.h>
#include <string.h>

const char *const examples_formats[] = {"auto", "jsonl", "tsv", "cola", "trec", "conll", "idx", "safetensors", NULL};

static int (*const readers[])(Examples *, const Labels *, Err *) = {
    [FORMAT_JSONL] = examples_read_jsonl,
    [FORMAT_TSV] = examples_read_tsv,
    [FORMAT_COLA] = examples_read_cola,
    [FORMAT_TREC] = examples_read_trec,
    [FORMAT_CONLL] = examples_read_conll,
    [FORMAT_IDX] = examples_read_idx,
    [FORMAT_SAFETENSORS] = examples_read_safetensors,
};

/* Negative: error. */
static int guess_format(const char *path, Err *err) {
    static const struct {
        const char *end;
        ExamplesFormat format;
    } names[] = {
        {".jsonl", FORMAT_JSONL}, {".tsv", FORMAT_TSV}, {".conll", FORMAT_CONLL}, {".safetensors", FORMAT_SAFETENSORS}};
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (text_ends(path, names[i].end)) return names[i].format;
    unsigned char magic[4] = {0xFF};
    FILE *f = fopen(path, "rbe");
    if (!f) return err_set(err, "%s: %s", path, strerror(errno));
    size_t n = fread(magic, 1, sizeof magic, f);
    fclose(f);
    if (n == sizeof magic && magic[0] == 0x1F && magic[1] == 0x8B)
        return err_set(err, "%s: it is compressed; gunzip it first", path);
    if (n == sizeof magic && magic[0] == 0 && magic[1] == 0) return FORMAT_IDX;
    return err_set(err,
                   "%s: the name does not tell its format, which may be jsonl, tsv, cola, trec, conll, idx or "
                   "safetensors",
                   path);
}

static void sort_labels(Examples *e) {
    int place[LABELS_MOST];
    labels_sort(&e->labels, place);
    for (int i = 0; i < e->n_units; i++) e->label[i] = place[e->label[i]];
}

int examples_load(Examples *e, const char *path, ExamplesFormat format, const Labels *known, Err *err) {
    *e = (Examples){.path = path};
    int kind = format == FORMAT_AUTO ? guess_format(path, err) : (int)format;
    int rc = kind < 0 ? -1 : readers[kind](e, known, err);
    if (rc == 0 && e->n == 0) rc = err_set(err, "%s: there are no examples in it", path);
    if (rc) {
        examples_free(e);
        return -1;
    }
    if (known)
        e->labels = *known;
    else
        sort_labels(e);
    return 0;
}
