/* gpt2: the tensors of a Hugging Face gpt2 folder in our names and layout.
 *
 *     wte wpe ln_f h.{l}.ln_1 h.{l}.ln_2   renamed
 *     h.{l}.attn.c_attn                    [d, 3 d], transposed and cut into q_proj, k_proj, v_proj
 *     h.{l}.attn.c_proj h.{l}.mlp.c_fc h.{l}.mlp.c_proj   transposed (their Conv1D keeps [in, out])
 *     h.{l}.attn.bias h.{l}.attn.masked_bias              dropped: the causal mask
 * all with or without "transformer." in front. Any other tensor keeps its name, for bind to refuse. */
#ifndef NOISED_GPT2_H
#define NOISED_GPT2_H

#include "base/err.h"
#include "weights/shards.h"

/* Does nothing to a folder without GPT-2's wte. Transposed matrices are copied into memory of the shards. */
int gpt2_translate(Shards *s, Err *err);

/* The other way, for messages: what a gpt2 file would call the tensor; `ours` itself when s was not translated or GPT-2
 * has none such. False for the second and third piece of one, which the first speaks for. */
bool gpt2_name(const Shards *s, const char *ours, char *out, size_t n_out);

#endif
