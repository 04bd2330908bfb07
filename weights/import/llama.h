/* llama: Hugging Face configs of model_type "llama" (Llama 2 and 3, SmolLM2) and of its descendants in our terms.
 * Absent keys take the defaults of transformers' own config classes; keys that do not change the network are ignored;
 * what we do not compute - other scalings of rope, partial rope, other activations - is refused by name. */
#ifndef NOISED_LLAMA_H
#define NOISED_LLAMA_H

#include "base/json/json_reader.h"
#include "model/config.h"

/* Everything but the sizes, which bear the same keys in our own files; of the tokens and the dtype only defaults. */
void llama_config_read(Config *c, JsonReader *r);

/* With a window that a row sees: sliding_window; null for none, 4096 where the key is absent. */
void mistral_config_read(Config *c, JsonReader *r);

/* Qwen2 and 2.5 with biases on q, k and v alone; Qwen3 with a norm over every head of q and k instead. A window is
 * taken when all layers have it; on some of them only it is refused. */
void qwen2_config_read(Config *c, JsonReader *r);
void qwen3_config_read(Config *c, JsonReader *r);

/* The object `key` ("rope_scaling") of a foreign file or of ours, if it is there. */
void rope_scaling_read(Config *c, JsonReader *r, const char *key);

#endif
