/* llama: a Hugging Face config of model_type "llama" (Llama 2 and 3, SmolLM2) in our terms, and what its
 * descendants share with it. Absent keys take the defaults of transformers' LlamaConfig; keys that do not change the
 * network are ignored; what we do not compute - other scalings of rope, partial rope, other activations - is refused by
 * name. */
#ifndef NOISED_LLAMA_H
#define NOISED_LLAMA_H

#include "base/json/json_reader.h"
#include "model/config.h"

/* Everything but the sizes, which bear the same keys in our own files; of the tokens and the dtype only defaults. */
void llama_config_read(Config *c, JsonReader *r);

/* The same without the biases: gqa, rope, rmsnorm, a gated mlp with silu. */
void llama_like_config_read(Config *c, JsonReader *r);

/* The object `key` ("rope_scaling") of a foreign file or of ours, if it is there. */
void rope_scaling_read(Config *c, JsonReader *r, const char *key);

#endif
