/* gpt2: a Hugging Face folder of model_type "gpt2" in our terms.
 *
 * config.json: learned positions, layernorm, biases, plain mlp. Absent keys take the defaults of transformers'
 * GPT2Config, but the sizes must be there; keys that do not change the network are ignored; other ways to scale the
 * scores, and cross-attention, are refused by name.
 *
 * Tensors:
 *     wte wpe ln_f h.{l}.ln_1 h.{l}.ln_2   renamed
 *     h.{l}.attn.c_attn                    [d, 3 d], transposed and cut into q_proj, k_proj, v_proj
 *     h.{l}.attn.c_proj h.{l}.mlp.c_fc h.{l}.mlp.c_proj   transposed (their Conv1D keeps [in, out])
 *     h.{l}.attn.bias h.{l}.attn.masked_bias              dropped: the causal mask
 * all with or without "transformer." in front. Any other tensor keeps its name, for bind to refuse. */
#ifndef NOISED_GPT2_H
#define NOISED_GPT2_H

#include "base/err.h"
#include "base/json/json_reader.h"
#include "model/config.h"
#include "weights/shards.h"

/* Everything; of the tokens and the dtype only defaults. */
void gpt2_config_read(Config *c, JsonReader *r);

/* Does nothing to a folder without GPT-2's wte. Transposed matrices are copied into memory of the shards. */
int gpt2_translate(Shards *s, Err *err);

/* The other way, for messages: what a gpt2 file would call the tensor; `ours` itself when s was not translated or GPT-2
 * has none such. False for the second and third piece of one, which the first speaks for. */
bool gpt2_name(const Shards *s, const char *ours, char *out, size_t n_out);

#endif
