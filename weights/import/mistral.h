/* mistral: a Hugging Face config of model_type "mistral" in our terms: llama's network, and a window that a row
 * sees (sliding_window; null for none, 4096 where the key is absent, as in transformers' MistralConfig). */
#ifndef NOISED_MISTRAL_H
#define NOISED_MISTRAL_H

#include "base/json/json_reader.h"
#include "model/config.h"

void mistral_config_read(Config *c, JsonReader *r); /* as llama_config_read */

#endif
