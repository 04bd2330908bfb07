/* config_gpt2: a Hugging Face config of model_type "gpt2" in our terms: learned positions, layernorm, biases, plain
 * mlp. Absent keys take the defaults of transformers' GPT2Config, but the sizes must be there; keys that do not change
 * the network are ignored; other ways to scale the scores, and cross-attention, are refused by name. */
#ifndef NOISED_CONFIG_GPT2_H
#define NOISED_CONFIG_GPT2_H

#include "base/json_reader.h"
#include "model/config.h"

/* Everything; of the tokens and the dtype only defaults. */
void config_gpt2_read(Config *c, JsonReader *r);

#endif
