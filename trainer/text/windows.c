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

/* Which row; *place becomes the one among the row's of the block. */
static int find(const Windows *w, uint64_t p, uint64_t *place) {
    int row = 0;
    *place = order_permuted(w->block, w->seed, DRAW_MIX, p / w->block, p % w->block);
    while (*place >= (uint64_t)w->rows[row].weight) *place -= (uint64_t)w->rows[row++].weight;
    return row;
}

int windows_row(const Windows *w, uint64_t p) {
    uint64_t place;
    return find(w, p, &place);
}

int windows_read(Windows *w, uint64_t p, int vocab, int *tokens, int *targets, Err *err) {
    uint64_t place;
    WindowRow *row = &w->rows[find(w, p, &place)];
    uint64_t window = order_at(&row->order, p / w->block * (uint64_t)row->weight + place);
    return span_read(&row->span, (size_t)window * (size_t)w->length, w->length, vocab, tokens, targets, err);
}
