/* encoder_decoder: a classifier of texts by the transformer of Vaswani et al., the text being source and target.
 *
 *     e = dropout(W vectors + b + sinusoids)
 *     memory = encoder(e)      L x [ self-attention ; mlp ], every row sees all of its text
 *     y = decoder(e, memory)   M x [ causal self-attention ; attention to memory ; mlp ]
 *     mean over the rows of a text -> linear d -> d/2 -> relu -> linear -> d/4 -> relu -> linear -> labels
 *
 * A sublayer is norm(x + dropout(sublayer(x))), and a norm ends either half. Kind of attention, its noise, SAS, NOBLE,
 * norm and mlp are the config's, as a transformer's. Matrices start as Xavier's, of both halves.
 *
 * Tensors: model.word_vectors.weight; model.input.weight, .bias; model.encoder.layers.<l>.* and
 * model.decoder.layers.<l>.* as a transformer's block, in the decoder with cross_attn.* and
 * post_cross_attention_layernorm.*; model.encoder.norm.*, model.decoder.norm.*; head.<0..2>.weight, .bias.
 * A layer, the input's linear and every linear of the head is a bin of weight noise. */
#ifndef NOISED_ENCODER_DECODER_H
#define NOISED_ENCODER_DECODER_H

#include "model/network.h"

extern const Network encoder_decoder_network;

#endif
