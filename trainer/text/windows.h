/* windows: what training reads, T inputs and T targets (T + 1 ids) at offsets k T of a row of ids. What the p-th window
 * is, is a pure function of (seed, p): an epoch has every window once, in an order of its own (order.h).
 *
 * Of several rows, with weights w_i whose sum is W, windows b W .. b W + W - 1 are a block: w_i of them are the next of
 * row i, and which ones is a permutation of the block's places. So every row has epochs of its own. */
#ifndef NOISED_WINDOWS_H
#define NOISED_WINDOWS_H

#include "trainer/text/corpus.h"
#include "trainer/text/order.h"

enum { WINDOWS_WEIGHT_MAX = 1000 };

typedef struct WindowRow {
    TokenSpan span;
    int weight;
    size_t n; /* whole windows */
    Order order;
} WindowRow;

typedef struct Windows {
    WindowRow *rows; /* [n_rows] */
    int n_rows, length;
    uint64_t block; /* the weights' sum */
    uint64_t seed;
} Windows;

/* Fails when a row has not one whole window. */
int windows_init(Windows *w, TokenSpan span, int length, uint64_t seed, Err *err);
/* weights[n] of 1 .. WINDOWS_WEIGHT_MAX. */
int windows_init_mixed(Windows *w, const TokenSpan *spans, const int *weights, int n, int length, uint64_t seed,
                       Err *err);
void windows_free(Windows *w);
int windows_read(Windows *w, uint64_t p, int vocab, int *tokens, int *targets, Err *err); /* span_read of T */
int windows_row(const Windows *w, uint64_t p);                                            /* that window p is of */

#endif
