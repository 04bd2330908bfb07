/* bilstm: a tagger. Word vectors -> L bidirectional LSTM layers of h a direction (op_lstm) -> a linear of the 2 h
 * hidden states of every word -> the scores of its labels.
 *
 * Tensors, hidden_size being h:
 *     model.word_vectors.weight          [V, input.size]
 *     model.layers.<l>.input.weight      [8 h, input.size or 2 h]  gates i, f, g, o forwards, then backwards
 *     model.layers.<l>.input.bias        [8 h]
 *     model.layers.<l>.recurrent.weight  [2, 4 h, h]
 *     classifier.weight, .bias           [labels, 2 h], [labels]
 * A layer's start in U(-1 / sqrt(h), 1 / sqrt(h)); a layer is a bin of weight noise. */
#ifndef NOISED_BILSTM_H
#define NOISED_BILSTM_H

#include "model/network.h"

extern const Network bilstm_network;

#endif
