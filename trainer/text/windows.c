#include "trainer/text/windows.h"

#include "base/memory.h"
#include "base/random.h"

#include <stdlib.h>

int windows_init_mixed(Windows *w, const TokenSpan *spans, const int *weights, int n, int length, uint64_t seed,
                       Err *err) {
    *w = (Windows){.rows = xcalloc((size_t)n, sizeof *w->rows), .length = length, .seed = seed};
    for (int i = 0; i < n; i++) {
        size_t windows = spans[i].n ? (spans[i].n - 1) / (size_t)length : 0;
        if (windows == 0) {
            windows_free(w);
            return err_set(err, "--data: %zu tokens to train on, a window needs %d (max_position_embeddings + 1)",
                           spans[i].n, length + 1);
        }
        w->rows[w->n_rows++] = (WindowRow){.span = spans[i], .weight = weights[i], .n = windows};
        order_open(&w->rows[i].order, windows, seed);
        w->block += (uint64_t)weights[i];
    }
    return 0;
}

int windows_init(Windows *w, TokenSpan span, int length, uint64_t seed, Err *err) {
    return windows_init_mixed(w, &span, &(int){1}, 1, length, seed, err);
}

void windows_free(Windows *w) {
    for (int i = 0; i < w->n_rows; i++) order_close(&w->rows[i].order);
    free(w->rows);
    *w = (Windows){0};
}

int windows_read(Windows *w, uint64_t p, int vocab, int *tokens, int *targets, Err *err) {
    uint64_t block = p / w->block, place = order_permuted(w->block, w->seed, DRAW_MIX, block, p % w->block);
    WindowRow *row = w->rows;
    while (place >= (uint64_t)row->weight) place -= (uint64_t)row++->weight;
    uint64_t window = order_at(&row->order, block * (uint64_t)row->weight + place);
    return span_read(&row->span, (size_t)window * (size_t)w->length, w->length, vocab, tokens, targets, err);
}
