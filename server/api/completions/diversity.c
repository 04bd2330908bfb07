#include "server/api/completions/diversity.h"

#include "base/json_write.h"
#include "base/memory.h"
#include "tokenizer/diversity.h"

#include <stdlib.h>

static void print_members(Buffer *b, const Diversity *d) {
    char key[24];
    json_open(b, NULL, '{');
    for (int i = 0; i < DISTINCT; i++) {
        snprintf(key, sizeof key, "distinct_%d", i + 1);
        json_put_float(b, key, (float)d->distinct[i]);
    }
    json_put_float(b, "self_bleu", (float)d->self_bleu);
    json_put_float(b, "edit_distance", (float)d->edit_distance);
    json_close(b, '}');
}

void diversity_print(Buffer *b, Choice *const *choices, int n) {
    int n_tokens = 0;
    Diversity d;
    for (int i = 0; i < n; i++) n_tokens += choices[i]->n_read;
    TokenSpan *texts = try_calloc((size_t)n, sizeof *texts);
    int *ids = try_malloc((size_t)n_tokens * sizeof *ids), *next = ids;
    for (int i = 0; i < n && texts && ids; i++) {
        texts[i] = (TokenSpan){.ids = next, .n = choices[i]->n_read};
        for (int k = 0; k < texts[i].n; k++) *next++ = choices[i]->job->tokens[k].id;
    }
    if (texts && ids && diversity_measure(texts, n, &d) == 0)
        print_members(b, &d);
    else
        b->failed = true;
    free(texts);
    free(ids);
}
