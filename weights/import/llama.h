/* llama: a Hugging Face folder of model_type "llama" in our terms; its tensors bear our names. Absent keys take the
 * defaults of transformers' LlamaConfig; keys that do not change the network are ignored; what we do not compute -
 * scaled or partial rope, other activations, biases on only one side - is refused by name. */
#ifndef NOISED_LLAMA_H
#define NOISED_LLAMA_H

#include "base/json_reader.h"
#include "model/config.h"

/* Everything but the sizes, which bear the same keys in our own files; of the tokens and the dtype only defaults. */
void llama_config_read(Config *c, JsonReader *r);

#endif
